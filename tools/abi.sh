#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# abi.sh [COMMIT]: compares the binary interface of libqkv with that of a released version: COMMIT, or the last tag
# vX.Y.Z, or without tags the last line of tests/old/versions.txt.
# abi.sh --files OLD NEW: compares two libraries that have debug information.
# Fails if a program that was linked with the old library breaks with the new one although both have the same SONAME.
# Needs abidiff (Debian and Ubuntu: abigail-tools).
set -eu
cd "$(dirname "$0")/.."
command -v abidiff >/dev/null || { echo "abi: abidiff is not here (abigail-tools)"; exit 77; }
name() { objdump -p "$1" | sed -n 's/ *SONAME *//p'; }
# compare OLD NEW ABIDIFF-ARGUMENTS...: fails if the interface changed, except for new functions, and the SONAME is the same.
compare() {
    local old new rc=0 report=build/abi/difference.txt
    old=$(name "$1") new=$(name "$2")
    abidiff --no-show-locs "${@:3}" "$1" "$2" >$report || rc=$?
    grep -E '^(Functions|Variables) ' $report || true
    # Bits of the exit code: 1 error, 2 usage, 4 the interface changed, 8 a function or variable is gone.  A structure
    # that grows, which programs allocate, is a change of the kind 4; new functions, also 4, are not asked for then.
    [ $((rc & 3)) -eq 0 ] || { cat $report; exit 1; }
    [ $rc -ne 0 ] && [ "$old" = "$new" ] || return 0
    rc=0
    abidiff --no-show-locs --no-added-syms "${@:3}" "$1" "$2" >$report || rc=$?
    [ $rc -eq 0 ] || { echo "abi: the change breaks programs, and the SONAME is the same, $old: $report"; exit 1; }
}
mkdir -p build/abi
if [ "${1:-}" = --files ]; then
    compare "$2" "$3"
    exit 0
fi
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
compare $build/old/libqkv.so $build/new/libqkv.so --headers-dir1 $build/source/include --headers-dir2 include
echo "abi: $(name $build/old/libqkv.so) of $commit, $(name $build/new/libqkv.so) here; all of it: $build/difference.txt"
