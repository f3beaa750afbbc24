#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# readme.sh LIB CC: the C program in README.md compiles without a warning and runs.
set -eu
lib=$1 cc=$2
top=$(cd "$(dirname "$0")/../.." && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
sed -n '/^```c$/,/^```$/p' "$top/README.md" | grep -v '^```' >"$temp/readme.c"
[ -s "$temp/readme.c" ] || { echo "no C program in README.md"; exit 1; }
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$top/include" -o "$temp/readme" "$temp/readme.c" \
    "$lib" -Wl,-rpath,"$(dirname "$lib")"
"$temp/readme" >"$temp/said"
# the README contains the output of the program
grep -qF "$(head -n 1 "$temp/said")" "$top/README.md" || { echo "prints: $(cat "$temp/said")"; exit 1; }
