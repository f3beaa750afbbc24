#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# abi.sh [COMMIT]: compares the binary interface of libqkv with that of a released version: COMMIT, or the last tag
# vX.Y.Z, or without tags the last line of tests/old/versions.txt.
# Fails if a program that was linked with the old library breaks with the new one although both have the same SONAME.
# Needs abidiff (Debian and Ubuntu: abigail-tools).
set -eu
cd "$(dirname "$0")/.."
command -v abidiff >/dev/null || { echo "abi: abidiff is not here (abigail-tools)"; exit 77; }
commit=${1:-$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || sed -n '$s/.* //p' tests/old/versions.txt)}
git cat-file -e "$commit^{commit}" 2>/dev/null || { echo "abi: this clone has no commit $commit"; exit 77; }
build=build/abi
rm -rf $build/source
mkdir -p $build/source
git archive "$commit" | tar -x -C $build/source
# library SOURCE BUILD: builds libqkv with debug information, which holds the types.
library() {
    cmake -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-g -O1" -DQKV_WERROR=OFF -DQKV_BENCH=OFF >"$2.log" 2>&1 &&
        cmake --build "$2" -j "${JOBS:-2}" --target qkv >>"$2.log" 2>&1 || { tail -n 20 "$2.log"; exit 1; }
}
library $build/source $build/old
library . $build/new
name() { objdump -p "$1/libqkv.so" | sed -n 's/ *SONAME *//p'; }
old=$(name $build/old) new=$(name $build/new) rc=0
abidiff --headers-dir1 $build/source/include --headers-dir2 include --no-show-locs \
    $build/old/libqkv.so $build/new/libqkv.so >$build/difference.txt || rc=$?
grep -E '^(Functions|Variables) ' $build/difference.txt || true
echo "abi: $old of $commit, $new here; all of it: $build/difference.txt"
# Bits of the exit code: 1 error, 2 usage, 4 the interface changed, 8 the change is incompatible.
[ $((rc & 3)) -eq 0 ] || { cat $build/difference.txt; exit 1; }
[ $((rc & 8)) -eq 0 ] || [ "$old" != "$new" ] || { echo "abi: the change breaks programs, and the SONAME is the same"; exit 1; }
