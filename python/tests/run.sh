#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh PYTHON TEST: runs one test file with the Python that has the libraries to compare with (QKV_PEERS_VENV, as for
# `make bench`, otherwise build/peers-venv), or else that of build/tests-venv (packages.sh), or PYTHON; what a library is
# missing for is then skipped.
here=$(dirname "$0")
"$here/built.sh" || exit
for python in "${QKV_PEERS_VENV:-build/peers-venv}/bin/python" build/tests-venv/bin/python "$1"; do
    if [ -x "$python" ]; then break; fi
done
exec "$python" "$2"
