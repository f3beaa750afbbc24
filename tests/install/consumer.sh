#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# consumer.sh BUILD TEMP VERSION CMAKE: installs into a separate prefix and moves it (no installed file may contain
# the old path), then builds and runs a program from C and C++, by find_package and by pkg-config; also with libqkv.a.
set -eu
build=$1 temp=$2/tree version=$3 cmake=$4
here=$(cd "$(dirname "$0")" && pwd)
command -v g++ >/dev/null || { echo "no C++ compiler here"; exit 77; }
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR
rm -rf "$temp"
"$cmake" --install "$build" --prefix "$temp/first" >/dev/null

pc=$(find "$temp/first" -name qkv.pc)
grep -qx "prefix=$temp/first" "$pc"
lib=$(dirname "$(find "$temp/first" -name libqkv.so)")
soname=${version%%.*}
[ "$soname" != 0 ] || soname=${version%.*} # before 1.0: one per minor version
readelf -d "$lib/libqkv.so" | grep -q "SONAME.*libqkv.so.$soname\]" || { echo "no SONAME"; exit 1; }

same() { # PROGRAM: must print the version and the softmax of two zeros
    got=$(LD_LIBRARY_PATH=$lib "$1")
    [ "$got" = "$version 0.5" ] || { echo "$1 says $got"; exit 1; }
}
for pair in c:${CC:-cc} cpp:g++; do
    ${pair#*:} -o "$temp/by_pc_${pair%:*}" "$here/consumer/use.${pair%:*}" \
        $(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs qkv)
    same "$temp/by_pc_${pair%:*}"
done

if [ -e "$lib/libqkv.a" ]; then # a program without libqkv.so
    ${CC:-cc} -o "$temp/by_pc_static" "$here/consumer/use.c" \
        $(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --static --libs qkv | sed 's/-lqkv /-l:libqkv.a /')
    same "$temp/by_pc_static"
    ! ldd "$temp/by_pc_static" | grep libqkv || { echo "the static program needs libqkv.so"; exit 1; }
fi

mv "$temp/first" "$temp/moved"
lib=${lib/first/moved}
"$cmake" -S "$here/consumer" -B "$temp/build" -DCMAKE_PREFIX_PATH="$temp/moved" >/dev/null
"$cmake" --build "$temp/build" >/dev/null
for name in use_c use_cpp use_static; do
    [ ! -e "$temp/build/$name" ] || same "$temp/build/$name"
done

# the installed command finds the installed library by its relative path
if [ -x "$temp/moved/bin/qkv" ]; then
    "$temp/moved/bin/qkv" --version | grep -q "$version" || { echo "bin/qkv does not run"; exit 1; }
fi
