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
#   evaluates RUN HEADS CODE  qkv eval of a run finds the last loss of its validation; with HEADS ablated its exit code
#                             is CODE, and for 0 the loss is another one
#   need_model                skips the script if all-MiniLM-L6-v2 is missing; sets $model
set -u
here=$PWD/tests/cli
model=$PWD/models/all-MiniLM-L6-v2
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM
out=$temp/stdout err=$temp/stderr failures=0 cases=0 now='the first case'
unset QKV_MODEL QKV_MODELS QKV_THREADS QKV_ISA NO_COLOR COLUMNS
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
python() { python3 -S -E "$here/arrays.py" "$@"; } # without site packages it starts faster
last_number() { sed -n "s/.*\"$1\": *\([-0-9.e+]*\).*/\1/p" "$2" | tail -n 1; }
# near X Y: 0 if the numbers are equal except for rounding, 1 if not, 2 if one is no number
near() {
    awk -v x="$1" -v y="$2" 'BEGIN {
        number = "^-?[0-9.]+(e[-+][0-9]+)?$"
        if (x !~ number || y !~ number) exit 2
        d = x - y
        exit !((d < 0 ? -d : d) <= 1e-5 * (1 + y))
    }'
}
evaluates() {
    found=$(last_number valid_loss "$1/log.jsonl") wanted=$3
    runs 0 eval "$1" --most 2 --json
    near "$(last_number loss "$out")" "$found" || failed "another loss than $found"
    runs "$wanted" eval "$1" --most 2 --json --ablate "$2"
    [ "$wanted" -ne 0 ] && return
    near "$(last_number loss "$out")" "$found"
    [ $? -eq 1 ] || failed 'no effect'
}
need_model() {
    [ -f "$model/model.safetensors" ] || { echo "skipped: $model is not there"; exit 77; }
    export QKV_MODEL="$model"
}
finish() {
    echo "$cases cases, $failures failed"
    [ $failures -eq 0 ]
    exit
}

# damage INDEX TYPE NUMBER ROW: sets the last number of a vector of an index (int8: its scale) to nan or inf
damage() {
    python3 -S -E - "$@" <<'PY'
import sqlite3, struct, sys
path, kind, number, row = sys.argv[1:]
get = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True).execute
count, = get("SELECT count(*) FROM passage").fetchone()
width = int(get("SELECT value FROM setting WHERE name = 'width'").fetchone()[0])
bits = struct.pack("<f", float(number))
size = {"f32": 4, "bf16": 2, "int8": 4}[kind]
after = count - 1 - int(row)  # vectors or scales that follow
at = -size - after * (size if kind == "int8" else size * width)
with open(path, "r+b") as f:
    f.seek(at, 2)
    f.write(bits[-size:])
PY
}
