# SPDX-License-Identifier: MIT
# lib.sh: defines functions for the tests of the command.  A script sources it, states cases, calls finish.
#
#   title "sentence"          names the following case
#   runs CODE args...         runs qkv; its exit code must be CODE; $out, $err are its output files
#   says TEXT                 stderr is exactly this line        says_part TEXT   stderr contains it
#   prints TEXT               stdout is exactly these lines      prints_part TEXT stdout contains it
#   silent                    stderr is empty
#   check COMMAND...          the command succeeds
#   python ARGS...            runs tests/cli/arrays.py
#   need_model                skips the script if all-MiniLM-L6-v2 is missing; sets $model
set -u
here=$PWD/tests/cli
model=$PWD/models/all-MiniLM-L6-v2
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM
out=$temp/stdout err=$temp/stderr failures=0 cases=0 now='the first case'
unset QKV_MODEL QKV_THREADS QKV_ISA NO_COLOR COLUMNS
export LC_ALL=C.UTF-8
cd "$temp" || exit 1

title() { now=$1; cases=$((cases + 1)); }
failed() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n    %s\n' "$now" "$1"
    sed 's/^/    stdout: /' "$out" 2>/dev/null | head -n 5 | cut -c1-200
    sed 's/^/    stderr: /' "$err" 2>/dev/null | head -n 5 | cut -c1-200
}
runs() {
    want=$1
    shift
    "$QKV_BIN" "$@" >"$out" 2>"$err" </dev/null
    code=$?
    [ $code -eq "$want" ] || failed "exit code $code, expected $want: qkv $*"
}
says() { [ "$(cat "$err")" = "$1" ] || failed "stderr, expected: $1"; }
says_part() { grep -qF -- "$1" "$err" || failed "stderr, expected in it: $1"; }
prints() { [ "$(cat "$out")" = "$1" ] || failed "stdout, expected: $1"; }
prints_part() { grep -qF -- "$1" "$out" || failed "stdout, expected in it: $1"; }
silent() { [ ! -s "$err" ] || failed 'stderr, expected nothing'; }
check() { "$@" || failed "$*"; }
python() { python3 "$here/arrays.py" "$@"; }
need_model() {
    [ -f "$model/model.safetensors" ] || { echo "skipped: $model is not there"; exit 77; }
    export QKV_MODEL="$model"
}
finish() {
    echo "$cases cases, $failures failed"
    [ $failures -eq 0 ]
    exit
}
