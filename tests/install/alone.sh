#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# alone.sh QKV STATIC LIB PAINTER: the library needs no graphics; without the painter of PNG files, which is found next to
# it, the command names what is missing; the static command STATIC is one file below 10 MB with the same results.
set -eu
qkv=$1 static=$2 lib=$3 painter=$4
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
fail() { echo "$*"; exit 1; }

needed=$(readelf -d "$lib" | sed -n 's/.*NEEDED.*\[\(lib[a-z0-9_-]*\)\..*/\1/p' | sort | tr '\n' ' ')
for name in $needed; do
    case $name in libc | libm | libjansson | libutf8proc | libpcre2-8 | libz) ;; *) fail "libqkv.so needs $name" ;; esac
done

# missing COMMAND MESSAGE: a PNG is refused before it is written, an SVG is not
missing() {
    rc=0
    "$1" explain --norm -o "$temp/x.png" >/dev/null 2>"$temp/said" || rc=$?
    [ $rc -eq 4 ] && grep -q "$2" "$temp/said" ||
        fail "$1 without the painter: exit $rc, $(cat "$temp/said")"
    [ ! -e "$temp/x.png" ] || fail "$1 left x.png"
    "$1" explain --norm -o "$temp/x.svg" --force >/dev/null
}
mkdir "$temp/lib"
cp "$lib" "$temp/lib/$(readelf -d "$lib" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')"
cp "$qkv" "$temp/qkv"
export LD_LIBRARY_PATH=$temp/lib
! ldd "$temp/qkv" | grep -E 'cairo|fontconfig|X11' || fail "the command needs graphics"
missing "$temp/qkv" "PNG needs the library libqkv_png.so"
if [ -e "$painter" ]; then
    cp "$painter" "$temp/lib"
    "$temp/qkv" explain --norm -o "$temp/x.png" >/dev/null
    head -c 8 "$temp/x.png" | cmp -s - <(printf '\211PNG\r\n\032\n') || fail "x.png is no PNG file"
    rm "$temp/x.png"
fi
if [ -x "$static" ]; then
    ! readelf -l "$static" | grep -q INTERP || fail "$static needs a loader"
    [ "$(stat -c %s "$static")" -lt 10000000 ] || fail "$static is larger than 10 MB"
    missing "$static" 'a command without shared libraries writes no PNG' # also where the painter could be opened
    unset LD_LIBRARY_PATH
    cmp <("$qkv" explain --scaling --json) <("$static" explain --scaling --json) || fail "other numbers"
fi
