#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# alone.sh QKV STATIC LIB PAINTER: the library needs no graphics; without the painter of PNG files, which is found next to
# it, the command names what is missing; without the libraries of curl, SQLite and hnswlib, as in a build where these are
# not installed, pull, index and search name the package, and serve runs; the static command STATIC is one file below
# 10 MB with the same results.
set -eu
qkv=$1 static=$2 lib=$3 painter=$4
bert=$(cd "$(dirname "$0")/../golden/bert" && pwd)
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

# refused WORDS COMMAND ARGS...: exit 4, the words in the message, nothing written
refused() {
    rc=0
    (cd "$temp" && "${@:2}") >/dev/null 2>"$temp/said" || rc=$?
    [ $rc -eq 4 ] && grep -qF -- "$1" "$temp/said" || fail "${*:2}: exit $rc, $(cat "$temp/said")"
    [ ! -e "$temp/x.qkvi" ] && [ ! -e "$temp/hub" ] || fail "${*:2} wrote something"
}
export HF_HUB_CACHE=$temp/hub HF_ENDPOINT=http://127.0.0.1:1 QKV_MODELS=$temp/none
unset HF_HUB_OFFLINE TRANSFORMERS_OFFLINE
echo hello >"$temp/lines.txt"
touch "$temp/y.qkvi"
index=("$temp/qkv" index lines.txt -m "$bert" -o x.qkvi)
refused 'apt-get install libcurl4-openssl-dev, then build qkv again' "$temp/qkv" pull org/name
refused 'apt-get install libcurl4-openssl-dev, then build qkv again' "$temp/qkv" pull --from-pypi
refused 'apt-get install libsqlite3-dev, then build qkv again' "${index[@]}"
refused 'apt-get install libsqlite3-dev, then build qkv again' "$temp/qkv" search y.qkvi hello
sqlite=$(dirname "$painter")/$(basename "$painter" | sed s/png/sqlite/)
if [ -e "$sqlite" ]; then
    cp "$sqlite" "$temp/lib"
    refused 'apt-get install libhnswlib-dev g++, then build qkv again' "${index[@]}" --hnsw
    (cd "$temp" && "${index[@]}" --quiet && "$temp/qkv" search x.qkvi hello >/dev/null) || fail "index or search needs more than SQLite"
    rm "$temp/x.qkvi"
fi
"$temp/qkv" serve -q -m "$bert" --port 0 >"$temp/address" &
server=$!
for _ in $(seq 600); do [ -s "$temp/address" ] || sleep .05; done
kill $server
wait $server || fail "serve without the libraries: exit $?"
grep -q '^listening on http://127.0.0.1:' "$temp/address" || fail "serve does not run without the libraries"

if [ -x "$static" ]; then
    refused 'which a qkv of one file cannot open' "$static" pull org/name
    refused 'which a qkv of one file cannot open' "$static" index lines.txt -m "$bert" -o x.qkvi
    ! readelf -l "$static" | grep -q INTERP || fail "$static needs a loader"
    [ "$(stat -c %s "$static")" -lt 10000000 ] || fail "$static is larger than 10 MB"
    missing "$static" 'a command without shared libraries writes no PNG' # also where the painter could be opened
    unset LD_LIBRARY_PATH
    cmp <("$qkv" explain --scaling --json) <("$static" explain --scaling --json) || fail "other numbers"
fi
