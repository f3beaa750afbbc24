#!/bin/sh
# SPDX-License-Identifier: MIT
# packages.sh FOLDER PACKAGE...: installs packages from PyPI into a venv, once; exit 1, and no venv, if that fails.
set -u
folder=$1
shift
if [ -f "$folder/packages" ] && [ "$(cat "$folder/packages")" = "$*" ]; then exit 0; fi
rm -rf "$folder"
if python3 -m venv "$folder" && timeout 300 "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 "$@"; then
    echo "$*" >"$folder/packages"
    exit 0
fi
rm -rf "$folder"
exit 1
