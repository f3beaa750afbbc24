#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh: runs every fuzz target under AddressSanitizer and UndefinedBehaviorSanitizer.
# usage: tests/fuzz/run.sh [SECONDS per target, 30] [TARGET...]
# Failing inputs are written to build/fuzz/found, and the script exits with 1: minimise them (fuzz_X -minimize_crash=1
# -runs=10000 FILE) and commit them as tests/fuzz/found/X/NAME.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-30}
[ $# -gt 0 ] && shift
for clang in clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14 none; do
    command -v "$clang" > /dev/null 2>&1 && break
done
if [ "$clang" = none ]; then
    echo "fuzz: needs clang with libFuzzer (apt-get install clang)" >&2
    exit 2
fi
build=build/fuzz
command -v ninja > /dev/null 2>&1 && generator=Ninja || generator="Unix Makefiles"
[ -f $build/CMakeCache.txt ] || cmake -S . -B $build -G "$generator" -DCMAKE_C_COMPILER="$clang" \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g" -DQKV_FUZZ=ON \
    -DQKV_SANITIZE=fuzzer-no-link,address,undefined -DQKV_BENCH=OFF > /dev/null
targets=${*:-$(cd tests/fuzz && ls fuzz_*.c | sed 's/^fuzz_//; s/\.c$//')}
status=0
for what in $targets; do
    cmake --build $build --target "fuzz_$what" > $build/build.log 2>&1 || { cat $build/build.log; exit 1; }
    seeds=$build/tests/fuzz/corpus/$what
    grown=$build/grown/$what
    mkdir -p "$grown" $build/found
    [ -d "tests/fuzz/found/$what" ] && seeds="$seeds tests/fuzz/found/$what"
    # shellcheck disable=SC2086
    if $build/tests/fuzz/"fuzz_$what" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=1024 \
        -print_final_stats=1 -artifact_prefix=$build/found/"$what-" "$grown" $seeds > $build/"$what.log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' $build/"$what.log")
        edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' $build/"$what.log" | tail -n 1)
        echo "fuzz $what: $runs runs in $seconds s, $edges edges, nothing found"
    else
        echo "fuzz $what: FAILED, see $build/$what.log and $build/found/"
        grep -E "ERROR|SUMMARY|fuzz_.*\.[ch]:[0-9]+:" $build/"$what.log" | head -n 5
        status=1
    fi
done
exit $status
