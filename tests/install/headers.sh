#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# headers.sh INCLUDE CC: each public header compiles alone, as C11 and as C++17, with every warning.
set -eu
include=$1
flags="-I$include -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Werror -fsyntax-only"
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
n=0
for header in "$include"/qkv/*.h; do
    name=qkv/${header##*/}
    # included twice, to test the include guard
    printf '#include <%s>\n#include <%s>\nint header_alone(void);\n' "$name" "$name" >"$temp/one.c"
    cp "$temp/one.c" "$temp/one.cpp"
    "$2" -std=c11 -Wshadow -Wstrict-prototypes $flags "$temp/one.c" || { echo "$name: not as C11"; exit 1; }
    if command -v g++ >/dev/null; then
        g++ -std=c++17 $flags "$temp/one.cpp" || { echo "$name: not as C++17"; exit 1; }
    fi
    n=$((n + 1))
done
[ "$n" -gt 0 ] && echo "$n headers"
