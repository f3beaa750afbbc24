#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# symbols.sh LIB: checks that libqkv.so exports exactly the names of symbols.txt.
set -eu
here=$(dirname "$0")
command -v nm >/dev/null || { echo "no nm here"; exit 77; }
diff "$here/symbols.txt" <(nm -D --defined-only "$1" | awk '{ print $NF }' | LC_ALL=C sort) ||
    { echo "libqkv.so exports other names than tests/install/symbols.txt (<: list, >: library)"; exit 1; }
