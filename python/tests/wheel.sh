#!/bin/sh
# SPDX-License-Identifier: MIT
# wheel.sh PYTHON FOLDER: builds the wheel without a network, installs it into a venv that has nothing else, and runs
# the tests there.  Needs scikit-build-core in PYTHON or in the Python of QKV_WHEEL_VENV; otherwise it is skipped.
set -eu
python=$1 folder=$2
[ -z "${QKV_WHEEL_VENV:-}" ] || python=$QKV_WHEEL_VENV/bin/python
"$python" -c 'import scikit_build_core' 2>/dev/null || {
    echo "skipped: scikit-build-core is not installed ($python -m pip install scikit-build-core)"
    exit 77
}
rm -rf "$folder"
mkdir -p "$folder"
"$python" -m pip wheel --quiet --no-build-isolation --no-deps --no-index -w "$folder" .
wheel=$(echo "$folder"/qkv-*-py3-none-*linux*.whl)
[ "$(stat -c %s "$wheel")" -le 6000000 ] || { echo "$wheel is larger than 6 MB"; exit 1; }
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-index --no-deps "$wheel"
unset PYTHONPATH
for name in attention texts tasks fuzz; do
    "$folder/venv/bin/python" "python/tests/test_$name.py"
done
