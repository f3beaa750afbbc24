#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh: searches for failing inputs with every fuzz target, under AddressSanitizer and UndefinedBehaviorSanitizer.
# usage: tests/fuzz/run.sh [--fast] [--ledger] [--keep] [SECONDS per target, 20] [TARGET...]
#   --fast     searches without sanitizers, two to three times as fast; the inputs that reached more edges
#              and the ones that failed then run with them
#   --ledger   adds executions, edges and findings to tests/fuzz/LEDGER.md
#   --keep     then minimises what each target has found to reach more edges and stores it in tests/fuzz/grown
# JOBS targets (default 2) run side by side.  Failing inputs are written to build/fuzz*/failed, and the script exits with
# 1; with 77 if clang or its libraries are missing.  Minimise a failing input (fuzz_X -minimize_crash=1 -runs=10000
# FILE) and commit it as tests/fuzz/found/X/NAME.  The limit of a search is QKV_FUZZ_LIMIT seconds per input, 1 by
# default: time is a promise too.  On a loaded machine it must be longer.
set -eu
cd "$(dirname "$0")/../.."
ledger="" keep="" fast=""
while :; do
    case ${1:-} in
    --fast) fast=-fast ;;
    --ledger) ledger=yes ;;
    --keep) keep=yes ;;
    *) break ;;
    esac
    shift
done
seconds=${1:-20}
[ $# -gt 0 ] && shift
for clang in clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14 none; do
    command -v "$clang" >/dev/null 2>&1 && break
done
if [ "$clang" = none ] || [ ! -e "$("$clang" -print-file-name=include/sanitizer/asan_interface.h)" ]; then
    echo "fuzz: clang or its sanitizers are not here (tools/setup.sh test installs them): skipped" >&2
    exit 77
fi
build=build/fuzz$fast
for folder in build/fuzz $build; do
    # the C++ compiler is that of the graph of an index
    compilers=(-DCMAKE_C_COMPILER="$clang" -DCMAKE_CXX_COMPILER="${clang/clang/clang++}")
    TARGETS=fuzz_corpus tools/build.sh $folder "${compilers[@]}"
    targets=${*:-$(cat $folder/tests/fuzz/targets.txt)}
    TARGETS=$(printf 'fuzz_%s ' $targets) tools/build.sh $folder "${compilers[@]}"
done
mkdir -p $build/failed $build/results
export build seconds fast

# search TARGET: runs one target and writes "TARGET EXECUTIONS EDGES FINDINGS" to build/fuzz/results/TARGET.
search() {
    local what=$1 log=$build/results/$1.log rc=0 runs edges length
    local seeds=("$build/grown/$what" "$build/tests/fuzz/corpus/$what")
    mkdir -p "$build/grown/$what"
    [ ! -d "tests/fuzz/found/$what" ] || seeds+=("tests/fuzz/found/$what")
    length=$(sed -n 's/.*Inputs have up to \([0-9]*\) bytes.*/\1/p' "tests/fuzz/targets/fuzz_$what.c")
    "$build/tests/fuzz/fuzz_$what" -max_total_time="$seconds" -max_len="${length:-1024}" -timeout="${QKV_FUZZ_LIMIT:-1}" -rss_limit_mb=1024 \
        -entropic=0 -dict="$build/tests/fuzz/corpus/$what.dict" -print_final_stats=1 \
        -artifact_prefix="$build/failed/$what-" "${seeds[@]}" >"$log" 2>&1 || rc=1
    [ -z "$fast" ] || "build/fuzz/tests/fuzz/fuzz_$what" -runs=0 "$build/grown/$what" >"$log.address" 2>&1 || rc=1
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    echo "$what ${runs:-0} ${edges:-0} $rc" >"$build/results/$what"
    if [ $rc -eq 0 ]; then
        echo "fuzz $what: $runs executions in $seconds s, $edges edges, nothing found"
    else
        echo "fuzz $what: FAILED, see $log* and $build/failed/"
        cat "$log"* | grep -E "ERROR|SUMMARY|fuzz_.*\.[ch]:[0-9]+:" | head -n 5
    fi
    return $rc
}
export -f search
status=0
rm -f $build/results/*
printf '%s\n' $targets | xargs -P "${JOBS:-2}" -I{} bash -c 'search {}' || status=1

# The smallest set of inputs with the same edges is kept for the next search and for replays.
if [ -n "$keep" ]; then
    for what in $targets; do
        rm -rf "$build/merged" && mkdir "$build/merged"
        python3 tests/fuzz/corpus.py --unpack "tests/fuzz/grown/$what.xz" "$build/grown/$what"
        "$build/tests/fuzz/fuzz_$what" -merge=1 -timeout=1 -rss_limit_mb=1024 "$build/merged" "$build/grown/$what" \
            >"$build/results/$what.merge" 2>&1
        python3 tests/fuzz/corpus.py --pack "$build/merged" "tests/fuzz/grown/$what.xz"
    done
fi
if [ -n "$ledger" ]; then
    for what in $targets; do cat "$build/results/$what"; done | python3 tests/fuzz/ledger.py tests/fuzz/LEDGER.md
fi
exit $status
