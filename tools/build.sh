#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# build.sh build/PRESET [-DOPTION=...]...: configures if needed and builds; prints only errors.
# TARGETS: targets to build (default all).  JOBS: parallel jobs (default: one per CPU, at most 8).
set -eu
cd "$(dirname "$0")/.."
unset MAKEFLAGS MFLAGS MAKELEVEL # cmake starts its own make
dir=$1
shift
jobs=${JOBS:-$(n=$(nproc) && echo $((n > 8 ? 8 : n)))}
mkdir -p "$dir"
run() {
    "$@" >"$dir/build.log" 2>&1 || {
        # print only the errors: the rest of a parallel log hides them
        grep -E -A 12 '(error|Error)[: ]|undefined reference|multiple definition' "$dir/build.log" | head -n 60 >&2 || tail -n 40 "$dir/build.log" >&2
        echo "qkv: $1 $2 $3 failed; all of it: $dir/build.log" >&2
        exit 1
    }
}
# Ninja needs half the time of make between the compilations; a folder keeps the generator that it began with.
[ -e "$dir/CMakeCache.txt" ] || ! command -v ninja >/dev/null || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
run cmake --preset "${dir##*/}" "$@"
run cmake --build "$dir" -j "$jobs" ${TARGETS:+--target $TARGETS}
