# SPDX-License-Identifier: MIT
# ranks_differ.sh: ranks that differ are refused before work, by one message that names the rank and what differs: version,
# instruction set, command line, training text, model file, checkpoint.
. tests/cli/lib.sh
. "$here/ranks_lib.sh"
export QKV_BIN
mkdir rank0 rank1
cat "$here"/../../docs/notes/0*.md >rank0/text.txt
cp rank0/text.txt rank1
new='--arch gpt --tokenizer bytes --width 16 --layers 1 --heads 2 --context 32 --batch-tokens 64 --accumulate 2 --steps 4'

# differ LAUNCHER CODE WORDS [NAME=VALUE...] ARGUMENTS...: starts rank 0 in the folder rank0, and rank 1 in rank1 with these
# variables, as one job of two programs; both end with one message that rank 1 "WORDS"
differ() {
    launcher=$1 want=$2 words=$3 variables=
    shift 3
    while [ "${1#*=}" != "$1" ]; do
        variables="$variables $1"
        shift
    done
    timeout 120 "$launcher" -n 1 env -C rank0 "$QKV_BIN" "$@" : -n 1 env -C rank1 $variables "$QKV_BIN" "$@" \
        >"$out" 2>"$err" </dev/null
    code=$?
    [ $code -eq "$want" ] || failed "exit code $code, expected $want: $launcher,$variables $*"
    [ "$(grep '^qkv: ' "$err" | grep -vc '^qkv: note: ')" -eq 1 ] || failed "one message: $launcher,$variables $*"
    [ "$(grep -c "^qkv: rank 1.* $words" "$err")" -eq 1 ] || failed "rank 1 $words: $launcher,$variables $*"
    [ ! -s "$out" ] || failed "output: $launcher,$variables $*"
}
# idle: no step was computed
idle() {
    [ ! -s "$temp/run/log.jsonl" ] || failed "a step: $launcher, $words"
    ! ls -d "$temp"/run/checkpoint-* >/dev/null 2>&1 || failed "a checkpoint: $launcher, $words"
    rm -rf "$temp/run"
}

title 'ranks in two folders that do not differ train'
for launcher in $launchers; do
    timeout 120 "$launcher" -n 1 env -C rank0 "$QKV_BIN" train text.txt $new --out "$temp/same" : \
        -n 1 env -C rank1 "$QKV_BIN" train text.txt $new --out "$temp/same" >"$out" 2>"$err" </dev/null || failed "$launcher"
    rm -rf same
done

title 'another instruction set or version is refused with 4, another command line with 2'
for launcher in $launchers; do
    differ "$launcher" 4 'has another instruction set than rank 0' QKV_ISA=scalar train text.txt $new --out "$temp/run"
    idle
    differ "$launcher" 4 'has another version of qkv than rank 0' QKV_SKEW=version "LD_PRELOAD=$QKV_SKEWED" \
        train text.txt $new --out "$temp/run"
    idle
    timeout 120 "$launcher" -n 1 "$QKV_BIN" train rank0/text.txt $new --out run : \
        -n 1 "$QKV_BIN" train rank0/text.txt $new --out run --clip 2 >"$out" 2>"$err" </dev/null
    [ $? -eq 2 ] || failed "exit code of other options: $launcher"
    says_part "qkv: rank 1 has another command line than rank 0: expected the end as word 23, found '--clip'"
    idle
    timeout 120 "$launcher" -n 1 "$QKV_BIN" train rank0/text.txt $new --out run --clip 2 : \
        -n 1 "$QKV_BIN" train rank0/text.txt $new --out run --clip 2 : \
        -n 1 "$QKV_BIN" train rank0/text.txt $new --out "$(printf 'r\033n')" --clip 2 >"$out" 2>"$err" </dev/null
    [ $? -eq 2 ] || failed "exit code of other options: $launcher"
    says_part "rank 2 has another command line than rank 0: expected 'run' as word 22, found 'r\\x1bn'"
    [ "$(grep -c '^qkv: ' "$err")" -eq 1 ] || failed "one message: $launcher"
    timeout 120 "$launcher" -n 1 "$QKV_BIN" train rank0/text.txt $new --out run --clip 2 : \
        -n 1 "$QKV_BIN" train rank0/text.txt $new --out run >"$out" 2>"$err" </dev/null
    [ $? -eq 2 ] || failed "exit code of other options: $launcher"
    says_part "rank 1 has another command line than rank 0: expected '--clip' as word 23, found the end"
    idle
done

title 'another text is refused, also where a run continues and may change its text'
sed '1s/^./#/' rank0/text.txt >other.txt
sed -i '2,$s/attention/Attention/' other.txt
! cmp -s other.txt rank0/text.txt || failed 'the texts are equal'
cp other.txt rank1/text.txt
for launcher in $launchers; do
    differ "$launcher" 2 'has another text than rank 0' train text.txt $new --out "$temp/run"
    idle
    (cd rank0 && exec "$QKV_BIN" train text.txt $new --out "$temp/run") >"$out" 2>&1 || failed 'a run'
    cp -r run kept
    differ "$launcher" 2 'has another text than rank 0' train --resume "$temp/run" --allow-data-change
    check cmp kept/data/index.json run/data/index.json
    check cmp kept/log.jsonl run/log.jsonl
    rm -rf kept run
done
cp rank0/text.txt rank1

title 'another model file is refused'
(cd rank0 && exec "$QKV_BIN" train text.txt $new --seed 1 --out "$temp/first") >"$out" 2>&1 || failed 'a run'
(cd rank0 && exec "$QKV_BIN" train text.txt $new --seed 2 --out "$temp/second") >"$out" 2>&1 || failed 'a run'
cp -r first/model/. rank0/model
cp -r second/model/. rank1/model
check cmp rank0/model/config.json rank1/model/config.json
for launcher in $launchers; do
    differ "$launcher" 2 'has another set of weights than rank 0' train text.txt --from model --steps 2 --out "$temp/run"
    idle
done

title 'another checkpoint is refused where ranks see two folders'
(cd rank0 && exec "$QKV_BIN" train text.txt $new --save-every 2 --keep all --out run) >"$out" 2>&1 || failed 'a run'
for launcher in $launchers; do
    rm -rf rank1/run
    cp -r rank0/run rank1/run
    rm -r rank1/run/checkpoint-00000004 rank1/run/model
    differ "$launcher" 2 'has another checkpoint than rank 0' train --resume run
done

finish
