#!/bin/sh
# SPDX-License-Identifier: MIT
# venv.sh PYTHON FOLDER: installs the package of the build tree (in PYTHONPATH) as a wheel into a venv of PYTHON in FOLDER that has
# nothing else, and runs the tests there that need no other package.  It compiles nothing and needs no network.
set -eu
python=$1 folder=$2 here=$(dirname "$0")/..
"$here/built.sh"
"$python" -c 'import venv, ensurepip' 2>/dev/null || { echo "skipped: $python has no venv or ensurepip (python3-venv)"; exit 77; }
py=$folder/bin/python
"$py" -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear "$folder"
rm -f "$folder"/qkv-*.whl
wheel=$("$python" "$here/install/pack_wheel.py" "$PYTHONPATH/qkv" "$folder")
unset PYTHONPATH QKV_LIBRARY
"$py" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall "$wheel"
"$py" -c 'import sys, qkv; sys.exit(not qkv.__file__.startswith(sys.prefix))' || { echo "$wheel: the package is not imported from the venv"; exit 1; }
for name in import layout attention tasks bare; do
    "$py" "$here/test_$name.py" >"$folder/$name.log" 2>&1 || {
        cat "$folder/$name.log"
        echo "$wheel: test_$name.py failed"
        exit 1
    }
done
