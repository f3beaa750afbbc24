#!/bin/sh
# SPDX-License-Identifier: MIT
# versions.sh: runs the tests that need no other package with each version of Python that this machine has (pythons.sh).
set -eu
here=$(dirname "$0")
"$here/built.sh"
pythons=$("$here/pythons.sh")
[ -n "$pythons" ] || { echo "skipped: no Python from 3.9 to 3.14"; exit 77; }
for python in $pythons; do
    for name in import layout attention tasks fuzz; do
        "$python" -W error::DeprecationWarning "$here/test_$name.py" >/dev/null 2>"$QKV_BUILD/python_version.log" || {
            cat "$QKV_BUILD/python_version.log"
            echo "$("$python" --version): test_$name.py failed"
            exit 1
        }
    done
    echo "$("$python" --version): ok"
done
