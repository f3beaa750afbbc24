#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# abi.sh TOOL CC: tools/abi.sh accepts a new function and, with another SONAME, every change; with the same SONAME it refuses a
# structure that grows, a parameter of another type and a function that is gone.
set -eu
tool=$1 cc=$2
command -v abidiff >/dev/null || { echo "abidiff is not here (abigail-tools)"; exit 77; }
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
# library NAME SONAME SOURCE
library() { echo "$3" | "$cc" -g -shared -fPIC -Wl,-soname,"$2" -x c - -o "$temp/$1.so"; }
sizes='struct sizes { long rows; }; long total(struct sizes s) { return s.rows; }'
library old libx.so.0.1 "$sizes long twice(int x) { return 2 * x; }"
library same libx.so.0.1 "$sizes long twice(int x) { return x + x; }"
library more libx.so.0.1 "$sizes long twice(int x) { return 2 * x; } long thrice(int x) { return 3 * x; }"
library grown libx.so.0.1 "${sizes/long rows;/long rows, columns;} long twice(int x) { return 2 * x; }"
library other libx.so.0.1 "$sizes long twice(long x) { return 2 * x; }"
library gone libx.so.0.1 "$sizes"
library renamed libx.so.0.2 "${sizes/long rows;/long rows, columns;}"
for name in same more renamed; do
    "$tool" --files "$temp/old.so" "$temp/$name.so" >"$temp/log" || { cat "$temp/log"; echo "$name: refused"; exit 1; }
done
for name in grown other gone; do
    ! "$tool" --files "$temp/old.so" "$temp/$name.so" >"$temp/log" || { echo "$name: accepted"; exit 1; }
    grep -q 'SONAME is the same, libx.so.0.1' "$temp/log" || { cat "$temp/log"; echo "$name: another reason"; exit 1; }
done
