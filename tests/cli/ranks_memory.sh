# SPDX-License-Identifier: MIT
# ranks_memory.sh: allocations that fail on one, two and all ranks of a command, at the same and at different points: every
# rank ends, with code 5 or 6 and one message of all.
. tests/cli/lib.sh
. "$here/ranks_lib.sh"
python random q.npy f4 1x3000x2x64 1
cat "$here"/../../docs/notes/01*.md >text.txt
train='train text.txt --tokenizer bytes --arch gpt --layers 2 --heads 2 --width 16 --steps 3 --eval-every 2 --accumulate 2'

# without LAUNCHER RANKS FAULTS ARGUMENTS...: 120 s are far more than a command needs, and end one that waits for ever
without() {
    launcher=$1 size=$2 faults=$3
    shift 3
    rm -rf run
    timeout 120 "$launcher" -n "$size" env LD_PRELOAD="$QKV_NO_MEMORY_LIBRARY" QKV_NO_MEMORY="$faults" "$QKV_BIN" "$@" \
        >"$out" 2>"$err" </dev/null
    code=$?
    lines=$(grep '^qkv: ' "$err" | grep -vc '^qkv: note: ')
    case $code in
    0) completed=$((completed + 1)) && [ "$lines" -eq 0 ] || failed "messages of a command that succeeds" ;;
    5 | 6) ended=$((ended + 1)) && [ "$lines" -eq 1 ] || failed "$lines messages: $launcher -n $size, $faults: qkv $*" ;;
    *) failed "exit code $code: $launcher -n $size, $faults: qkv $*" ;;
    esac
}

completed=0 ended=0
title 'attn'
for launcher in $launchers; do
    for faults in '0:1 1:1' '1:1' '0:31 1:24' '0:53 1:53' '0:54 1:56' '1:50-' '0:1000'; do
        without "$launcher" 2 "$faults" attn -q q.npy -k q.npy -v q.npy --causal --collect-limit 100000 -o o.npy --force
    done
    without "$launcher" 3 '0:50 1:50 2:50' attn -q q.npy -k q.npy -v q.npy --causal --collect-limit 100000 -o o.npy --force
done
[ $completed -gt 0 ] && [ $ended -gt $completed ] || failed "$completed runs completed, $ended ended by a fault"

title 'train'
for launcher in $launchers; do
    for n in 300 900 1100; do
        without "$launcher" 2 "0:$n 1:$((n + 20))" $train --context 32 --batch-tokens 256 --out run
    done
    for faults in '1:450 2:500' '1:900' '3:1000- 2:1010-'; do
        without "$launcher" 4 "$faults" $train --context 1600 --batch-tokens 3200 --context-ranks 2 --out run
    done
done

finish
