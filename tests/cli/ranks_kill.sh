# SPDX-License-Identifier: MIT
# ranks_kill.sh: kills one rank of a training run at a drawn moment, QKV_KILLS times (default 3), under each MPI in turn.
# After each kill: all other ranks have ended within 30 s, with exit code 6 and one line that names the killed rank; the last
# checkpoint has the bits of a run that was not killed; it continues to these bits with another number of ranks.
#
# A kill after the end of a run does not count and is drawn again. One kill of six is drawn from the start of the processes,
# where the ranks are not connected yet: then the others end too, but a launcher may end them before they can print.
# MPICH ends the other ranks by SIGKILL, so that they have no exit code and print nothing.
. tests/cli/lib.sh
. "$here/ranks_lib.sh"
export QKV_BIN
export OMPI_MCA_odls_base_sigkill_timeout=5 # seconds between SIGTERM and SIGKILL, which are 1: cores may be busy

cat "$here"/../../docs/notes/0*.md >text.txt
steps=100
options="--arch gpt --tokenizer bytes --width 32 --layers 2 --heads 2 --context 32 --batch-tokens 128 --accumulate 4
    --dropout 0.1 --eval-every 20 --save-every 10 --steps $steps"
runs 0 train text.txt $options --keep all --out alive

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
# kill.sh PROCESS: kills it $DELAY seconds after its start, or if $LINES is not 0 when the log has so many lines; writes the
# time, and whether the ranks had begun to train
cat >kill.sh <<'SH'
trap '' TERM
# a process that has ended is there until its launcher asks for its exit code
runs() { read -r _ _ state _ <"/proc/$1/stat" && [ "$state" != Z ]; }
begun() { [ dead/log.jsonl -nt before ]; }
if [ "$LINES" -eq 0 ]; then
    sleep "$DELAY"
else
    until begun && [ "$(wc -l <dead/log.jsonl)" -ge "$LINES" ]; do
        runs "$1" || exit
        sleep 0.005
    done
fi
begun && when=job || when=start
runs "$1" || exit
echo "$when $(date +%s)" >killed
kill -9 "$1"
SH

# draw NUMBER: sets ranks, victim, later (ranks that continue), lines (0: from the start), delay
draw() {
    set -- $(python3 -S -E - "$seed" "$1" <<'PY'
import random, sys
r = random.Random("/".join(sys.argv[1:]))
ranks = r.randint(2, 4)
later = r.choice([n for n in (1, 2, 3, 4) if n != ranks])
lines = 0 if r.random() < 1 / 6 else r.randint(1, 60)
print(ranks, r.randrange(ranks), later, lines, round(r.uniform(0, 0.4), 3))
PY
    )
    ranks=$1 victim=$2 later=$3 lines=$4 delay=$5
}

# same RUN CHECKPOINT: compares a checkpoint with that of the run that was not killed
same() {
    for file in model.safetensors optimizer.safetensors state.json; do
        check cmp "alive/$2/$file" "$1/$2/$file"
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
    [ "$when" = job ] && [ "$launcher" != mpirun.mpich ] || return
    named=$((named + 1))
    [ "$(grep -c "^qkv: rank $victim has ended before the others" "$err")" -eq 1 ] || failed "one line with the rank: $what"
    for rank in $(seq 0 $((ranks - 1))); do
        [ "$rank" -eq "$victim" ] || [ "$(cat "code.$rank" 2>/dev/null)" = 6 ] ||
            failed "exit code $(cat "code.$rank" 2>&1) of rank $rank, expected 6: $what"
    done
}

# continues: the last checkpoint opens, and another number of ranks completes a copy of the run
continues() {
    last=$(cd dead 2>/dev/null && ls -d checkpoint-* 2>/dev/null | grep -v '\.' | tail -n 1)
    [ -z "$last" ] || same dead "$last"
    rm -rf rest
    [ ! -d dead ] || cp -r dead rest
    if [ "$later" -eq 1 ]; then
        runs 0 train text.txt $options --out rest
    else
        ranked "$launcher" "$later" 0 train text.txt $options --out rest
    fi
    same rest "$(printf 'checkpoint-%08d' $steps)"
    check cmp alive/log.jsonl rest/log.jsonl
}

title 'the others end with 6 and one line; the last checkpoint continues to the bits of a run that was not killed'
kills=${QKV_KILLS:-3} seed=$(git -C "$here" rev-parse HEAD 2>/dev/null | cut -c 1-6)
number=0 drawn=0 jobs=0 named=0
while [ $number -lt "$kills" ] && [ $drawn -lt $((20 + 3 * kills)) ]; do
    drawn=$((drawn + 1))
    draw $drawn
    set -- $launchers
    shift $((number % $#))
    launcher=$1
    before=$(cd dead 2>/dev/null && ls -d checkpoint-* 2>/dev/null | grep -v '\.' | tail -n 1 | sed 's/[^1-9]*//')
    before=${before:-0}
    [ "$lines" -eq 0 ] || lines=$((before + before / 20 + lines))
    rm -f killed pid.* code.*
    touch before
    VICTIM=$victim DELAY=$delay LINES=$lines timeout 120 "$launcher" -n "$ranks" sh rank.sh train text.txt $options --out dead \
        >"$out" 2>"$err" </dev/null
    code=$?
    what="draw $drawn of seed $seed: $launcher -n $ranks, rank $victim, line $lines, $delay s, exit $code"
    if [ $code -eq 0 ] || [ ! -e killed ] || [ -d "$(printf 'dead/checkpoint-%08d' $steps)" ]; then
        [ -e killed ] || [ $code -eq 0 ] || failed "it ended without a kill: $what"
        rm -rf dead # after the end: another kill is drawn
        continue
    fi
    number=$((number + 1))
    ended
    [ "$when" != job ] || jobs=$((jobs + 1))
    continues
done
[ $number -eq "$kills" ] || failed "only $number of $kills kills were in time"
[ $jobs -gt 0 ] || failed 'no kill hit a training run'
echo "$number kills of seed $seed: $jobs while ranks trained ($((100 * jobs / number)) %), $((number - jobs)) before;" \
    "$((drawn - number)) after the end, drawn again; $named with exit codes and the line of the others checked"

finish
