# SPDX-License-Identifier: MIT
# ranks_kill.sh: kills one rank at a drawn moment, QKV_KILLS times (default 3), under each MPI in turn. Of eight kills about
# six hit a training run, one a run whose ranks share the rows of each batch (--context-ranks 2), and one `qkv attn`.
# After each kill: all other ranks have ended within 30 s, with exit code 6 and one line that names the killed rank. The last
# checkpoint of a run has the bits of a run that was not killed; it continues to these bits with another number of ranks.
# The old output of attn is unchanged, and a later attn with another number of ranks replaces it by the bits of one process.
#
# A kill after the end of a run does not count and is drawn again. One kill of six is drawn from the start of the processes,
# where the ranks are not connected yet: then the others end too, but a launcher may end them before they can print.
. tests/cli/lib.sh
. "$here/ranks_lib.sh"
export QKV_BIN
export OMPI_MCA_odls_base_sigkill_timeout=5 # seconds between SIGTERM and SIGKILL, which are 1: cores may be busy

cat "$here"/../../docs/notes/0*.md >text.txt
head -c 53000 text.txt >short.txt
python random operand.npy f4 1x20000x2x64 9

# choose KIND: sets the command of a kind, and on its first use makes the files of a command that is not killed.
# every: steps between two checkpoints; most: the line of the log before which a kill is drawn
choose() {
    kind=$1 alive=alive_$1 dead=dead_$1 share=
    case $kind in
    train)
        steps=100 every=10 most=60
        command="train text.txt --arch gpt --tokenizer bytes --width 32 --layers 2 --heads 2 --context 32 --batch-tokens 128
            --accumulate 4 --dropout 0.1 --eval-every 20 --save-every $every --steps $steps"
        ;;
    context)
        steps=15 every=3 most=9 share='--context-ranks 2'
        command="train short.txt --arch gpt --tokenizer bytes --width 16 --layers 2 --heads 2 --context 1600
            --batch-tokens 3200 --accumulate 2 --eval-every 20 --save-every $every --steps $steps"
        ;;
    attn) command='attn -q operand.npy -k operand.npy -v operand.npy --force' ;;
    esac
    [ ! -e "$alive" ] || return
    if [ $kind = attn ]; then runs 0 $command -o $alive; else runs 0 $command --keep all --out $alive; fi
}

# A rank. The victim is killed by a process of its own; the others write their exit code.
cat >rank.sh <<'SH'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
if [ "$rank" -eq "$VICTIM" ]; then
    sh kill.sh $$ >/dev/null 2>&1 & # a launcher waits until outputs are closed
    exec "$QKV_BIN" "$@"
fi
trap : TERM # a launcher signals the whole process group
"$QKV_BIN" "$@" &
child=$!
echo $child >"pid.$rank"
wait $child
code=$?
while kill -0 $child 2>/dev/null; do
    wait $child
    code=$?
done
echo $code >"code.$rank"
exit $code
SH
# kill.sh PROCESS: kills it $DELAY seconds after its start, or if $LINES is not 0 when the log has so many lines, or for attn
# $DELAY seconds after it has opened its arrays; writes the time, and whether the ranks had begun to work
cat >kill.sh <<'SH'
trap '' TERM
# a process that has ended is there until its launcher asks for its exit code
runs() { read -r _ _ state _ <"/proc/$1/stat" && [ "$state" != Z ]; }
if [ "$KIND" = attn ]; then
    begun() { grep -q operand.npy "/proc/$1/maps"; } # arrays are opened after the ranks are connected
else
    begun() { [ "$DEAD/log.jsonl" -nt before ]; }
fi
if [ "$LINES" -eq 0 ]; then
    sleep "$DELAY"
elif [ "$KIND" = attn ]; then
    until begun "$1"; do
        runs "$1" || exit
        sleep 0.005
    done
    sleep "$DELAY"
else
    until begun && [ "$(wc -l <"$DEAD/log.jsonl")" -ge "$LINES" ]; do
        runs "$1" || exit
        sleep 0.005
    done
fi
begun "$1" && when=job || when=start
runs "$1" || exit
echo "$when $(date +%s)" >killed
kill -9 "$1"
SH

# draw NUMBER: sets the kind, ranks, victim, later (ranks that continue), lines (0: from the start), delay
draw() {
    set -- $(python3 -S -E - "$seed" "$1" <<'PY'
import random, sys
r = random.Random("/".join(sys.argv[1:]))
kind = r.choice(["train"] * 6 + ["context", "attn"])
ranks = r.choice([2, 4]) if kind == "context" else r.randint(2, 4)
later = r.choice([n for n in (1, 2, 4) if n != ranks] if kind == "context" else [n for n in (1, 2, 3, 4) if n != ranks])
part = 0 if r.random() < 1 / 6 else 1 - r.random()
print(kind, ranks, r.randrange(ranks), later, part, round(r.uniform(0, 0.4), 3))
PY
    )
    choose "$1"
    ranks=$2 victim=$3 later=$4 lines=0 delay=$6
    case $5 in 0) return ;; esac
    lines=1
    [ $kind = attn ] || lines=$(awk "BEGIN { print int($5 * ($most - 1)) + 1 }")
}

# same RUN CHECKPOINT: compares a checkpoint with that of the run that was not killed
same() {
    for file in model.safetensors optimizer.safetensors state.json; do
        check cmp "$alive/$2/$file" "$1/$2/$file"
    done
}

# ended: checks the ranks that were not killed
ended() {
    read -r when at <killed
    [ $(($(date +%s) - at)) -le 30 ] || failed "the others continued for more than 30 s: $what"
    for pid in $(cat pid.* 2>/dev/null); do
        while kill -0 "$pid" 2>/dev/null && [ $(($(date +%s) - at)) -le 30 ]; do sleep 0.1; done
        ! kill -0 "$pid" 2>/dev/null || failed "process $pid is there: $what"
    done
    all=$(grep '^qkv: ' "$err" | grep -vc '^qkv: note: ')
    [ "$all" -le 1 ] || failed "one message at most: $what"
    [ $code -ne 0 ] || failed "exit code 0 of the launcher: $what"
    [ "$when" = job ] || return
    named=$((named + 1))
    [ "$(grep -c "^qkv: rank $victim has ended before the others" "$err")" -eq 1 ] || failed "one line with the rank: $what"
    for rank in $(seq 0 $((ranks - 1))); do
        [ "$rank" -eq "$victim" ] || [ "$(cat "code.$rank" 2>/dev/null)" = 6 ] ||
            failed "exit code $(cat "code.$rank" 2>&1) of rank $rank, expected 6: $what"
    done
}

# completed: the command was killed after its last file was written
completed() {
    if [ $kind = attn ]; then cmp -s $alive $dead; else [ -d "$dead/$(printf 'checkpoint-%08d' $steps)" ]; fi
}

# continues: the last checkpoint opens, and another number of ranks completes a copy of the run
continues() {
    last=$(cd $dead 2>/dev/null && ls -d checkpoint-* 2>/dev/null | grep -v '\.' | tail -n 1)
    [ -z "$last" ] || same $dead "$last"
    rm -rf rest
    [ ! -d $dead ] || cp -r $dead rest
    if [ "$later" -eq 1 ]; then
        runs 0 $command --out rest
    else
        ranked "$launcher" "$later" 0 $command $share --out rest
    fi
    same rest "$(printf 'checkpoint-%08d' $steps)"
    check cmp $alive/log.jsonl rest/log.jsonl
}

# replaces: the old output of attn is there and no other, and another number of ranks replaces it
replaces() {
    [ "$(cat $dead)" = old ] || failed "the old output: $what"
    [ "$(find . -name "*$dead*" | wc -l)" -eq 1 ] || failed "a temporary file: $what"
    if [ "$later" -eq 1 ]; then runs 0 $command -o $dead; else ranked "$launcher" "$later" 0 $command -o $dead; fi
    check cmp $alive $dead
}

title 'the others end with 6 and one line; the last checkpoint continues to the bits of a run that was not killed'
kills=${QKV_KILLS:-3} seed=$(git -C "$here" rev-parse HEAD 2>/dev/null | cut -c 1-6)
number=0 drawn=0 jobs=0 named=0 kinds=
while [ $number -lt "$kills" ] && [ $drawn -lt $((20 + 3 * kills)) ]; do
    drawn=$((drawn + 1))
    draw $drawn
    set -- $launchers
    shift $((number % $#))
    launcher=$1
    if [ $kind = attn ]; then
        echo old >$dead
        set -- $command -o $dead
    else
        before=$(cd $dead 2>/dev/null && ls -d checkpoint-* 2>/dev/null | grep -v '\.' | tail -n 1 | sed 's/[^1-9]*//')
        before=${before:-0}
        [ "$lines" -eq 0 ] || lines=$((before + before / 20 + lines))
        set -- $command $share --out $dead
    fi
    rm -f killed pid.* code.*
    touch before
    KIND=$kind DEAD=$dead VICTIM=$victim DELAY=$delay LINES=$lines timeout 120 "$launcher" -n "$ranks" sh rank.sh "$@" \
        >"$out" 2>"$err" </dev/null
    code=$?
    what="draw $drawn of seed $seed: $kind, $launcher -n $ranks, rank $victim, line $lines, $delay s, exit $code"
    if [ $code -eq 0 ] || [ ! -e killed ] || completed; then
        [ -e killed ] || [ $code -eq 0 ] || failed "it ended without a kill: $what"
        rm -rf $dead # after the end: another kill is drawn
        continue
    fi
    number=$((number + 1))
    ended
    [ "$when" != job ] || jobs=$((jobs + 1))
    kinds="$kinds$kind "
    if [ $kind = attn ]; then replaces; else continues; fi
done
[ $number -eq "$kills" ] || failed "only $number of $kills kills were in time"
[ $jobs -gt 0 ] || failed 'no kill hit ranks that worked'
# count KIND
count() { echo "$kinds" | tr ' ' '\n' | grep -cx "$1"; }
echo "$number kills of seed $seed ($(count train) of train, $(count context) of train --context-ranks, $(count attn) of attn):" \
    "$jobs while ranks worked ($((100 * jobs / number)) %), $((number - jobs)) before;" \
    "$((drawn - number)) after the end, drawn again; $named with exit codes and the line of the others checked"

finish
