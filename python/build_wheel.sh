#!/bin/sh
# SPDX-License-Identifier: MIT
# build_wheel.sh FOLDER [PYTHON]: builds a wheel for other machines into FOLDER.  Its libqkv contains jansson, utf8proc, PCRE2
# and zlib (python/sources.sh), needs libc and libm only, and does not write PNG files, for which cairo would be needed.
# PYTHON needs pip, scikit-build-core and auditwheel.
set -eu
[ $# -ge 1 ] || { echo "usage: build_wheel.sh FOLDER [PYTHON]" >&2; exit 2; }
top=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd) python=${2:-python3}
sources=${QKV_SOURCES:-$top/build/sources}
"$top/python/sources.sh" "$sources"
rm -rf "$folder/linux" "$folder"/qkv-*.whl
"$python" -m pip wheel --quiet --no-build-isolation --no-deps --no-index -w "$folder/linux" \
    --config-settings=cmake.define.QKV_SOURCES="$sources" --config-settings=cmake.define.QKV_PNG=OFF \
    --config-settings=cmake.define.QKV_MPI=OFF "$top"
PATH=$(dirname "$(command -v "$python")"):$PATH "$python" -m auditwheel repair -w "$folder" "$folder"/linux/qkv-*.whl 2>"$folder/auditwheel.log" ||
    { cat "$folder/auditwheel.log" >&2; exit 1; }
rm -rf "$folder/linux"
ls "$folder"/qkv-*.whl
