#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# headers.sh INCLUDE CC: each public header compiles alone, as C11 and as C++17; all of them together compile in every
# standard from C11 and C++11 on, with gcc and with clang; without a warning.
set -eu
include=$1 cc=$2
c="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Werror -fsyntax-only -I$include"
cpp="$c -Wold-style-cast"
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
# compiles SOURCE COMPILER FLAGS...
compiles() {
    local source=$1
    shift
    "$@" "$temp/$source" || { echo "not with $*"; exit 1; }
}
n=0 ways=0
for header in "$include"/qkv/*.h; do
    name=qkv/${header##*/}
    # included twice, to test the include guard
    printf '#include <%s>\n#include <%s>\nint header_alone(void);\n' "$name" "$name" | tee "$temp/one.c" >"$temp/one.cpp"
    compiles one.c "$cc" -std=c11 -Wstrict-prototypes $c
    ! command -v g++ >/dev/null || compiles one.cpp g++ -std=c++17 $cpp
    printf '#include <%s>\n' "$name" | tee -a "$temp/all.c" >>"$temp/all.cpp"
    n=$((n + 1))
done
echo 'int all_headers(void);' | tee -a "$temp/all.c" >>"$temp/all.cpp"
for standard in c11 c17 c2x c++11 c++14 c++17 c++20; do
    for compiler in gcc clang; do
        case $standard in
        c++*) source=all.cpp flags=$cpp compiler=${compiler/gcc/g}++ ;;
        *) source=all.c flags="$c -Wstrict-prototypes" ;;
        esac
        command -v $compiler >/dev/null || continue
        compiles $source $compiler -std=$standard $flags
        ways=$((ways + 1))
    done
done
[ "$n" -gt 0 ] && [ "$ways" -gt 0 ] && echo "$n headers, $ways standards and compilers"
