# SPDX-License-Identifier: MIT
# ranks_guard.sh: what a user sees when ranks end under mpiexec of MPICH, which ends the others by SIGKILL unless their
# guards (cli/ranks/ranks_guard.c) are faster: exit code 6 of the others, one line, and no process that is left. One of three
# ranks is killed QKV_KILLS times (default 4).
. tests/cli/lib.sh
. "$here/ranks_lib.sh"
case $launchers in *mpich*) ;; *)
    echo 'ranks_guard: no MPICH is here'
    exit 77
    ;;
esac
export QKV_BIN
python random operand.npy f4 1x30000x2x64 9

# A rank: writes its process and its exit code. Without a script mpiexec starts qkv itself: the ranks of $DIRECT are so.
cat >rank.sh <<'SH'
if case $DIRECT in *$PMI_RANK*) ;; *) false ;; esac then
    echo $$ >"pid.$PMI_RANK"
    exec "$QKV_BIN" "$@"
fi
trap : INT
"$QKV_BIN" "$@" &
echo $! >"pid.$PMI_RANK"
wait $!
code=$?
while kill -0 $! 2>/dev/null; do
    wait $!
    code=$?
done
echo $code >"code.$PMI_RANK"
exit $code
SH
# connected RANKS: waits until all ranks have opened their arrays
connected() {
    for rank in $(seq 0 $(($1 - 1))); do
        for _ in $(seq 600); do
            grep -q operand.npy "/proc/$(cat "pid.$rank" 2>/dev/null)/maps" 2>/dev/null && continue 2
            sleep 0.05
        done
        failed "rank $rank does not begin"
    done
}
# begin RANKS OPTIONS...: starts the ranks with these options of mpiexec
begin() {
    size=$1
    shift
    rm -f pid.* code.*
    timeout 120 mpirun.mpich "$@" -n "$size" sh rank.sh attn -q operand.npy -k operand.npy -v operand.npy -o out.npy --force $json \
        >"$out" 2>"$err" </dev/null &
    launcher=$!
    connected "$size"
}
# left: prints processes of qkv in the folder of this test
left() {
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/exe")" = "$QKV_BIN" ] && [ "$(readlink "$p/cwd")" = "$temp" ] && echo "$p"
    done 2>/dev/null
}
# none_left: all processes, guards included, have ended some seconds after the launcher
none_left() {
    for _ in $(seq 150); do
        [ -n "$(left)" ] || return 0
        sleep 0.1
    done
    failed "processes are left: $(left | tr '\n' ' ')"
}
# ended LINE RANKS...: the launcher ends within 30 s, one line of qkv is printed, and these ranks have the exit code 6
ended() {
    line=$1
    shift
    wait $launcher
    code=$?
    [ $code -ne 0 ] || failed 'exit code 0 of the launcher'
    [ $(($(date +%s) - at)) -le 30 ] || failed 'it continued for more than 30 s'
    [ "$(grep -c 'ended before the others' "$err")" -eq 1 ] || failed 'one line with the rank'
    grep -qxF "$line" "$err" || failed "the line: $line"
    for rank in "$@"; do
        [ "$(cat "code.$rank" 2>/dev/null)" = 6 ] || failed "exit code $(cat "code.$rank" 2>&1) of rank $rank, expected 6"
    done
    none_left
    [ -z "$(find . -name '*out.npy*')" ] || failed 'an output'
}

one_killed() {
    begin 3 "$@"
    at=$(date +%s)
    kill -9 "$(cat pid.1)"
    ended 'qkv: rank 1 has ended before the others' 0 2
}
two_killed() {
    begin 4
    at=$(date +%s)
    kill -9 "$(cat pid.2)" "$(cat pid.3)"
    ended 'qkv: rank 2 has ended before the others'
}
one_crashed() {
    begin 2
    at=$(date +%s)
    kill -SEGV "$(cat pid.0)"
    ended '{"status":"io","code":6,"text":"rank 0 has ended before the others"}' 1
}

# guard RANK: prints the process of the guard of a rank
guard() { ps -o pid= --ppid "$(cat "pid.$1")" | tr -d ' '; }
# says_rank RANK: writes standard input to the standard error of a rank
says_rank() { cat >"/proc/$(cat "pid.$1")/fd/2"; }
# shows TEXT: waits at most 5 s until a line is printed
shows() {
    for _ in $(seq 100); do
        grep -qxF "$1" "$err" && return
        sleep 0.05
    done
    failed "not printed at once: $1"
}

json=
export DIRECT
kills=${QKV_KILLS:-4} killed=0 ucx=0
while [ $killed -lt "$kills" ]; do
    case $((killed % 4)) in 0 | 1) DIRECT=1 ;; *) DIRECT= ;; esac
    case $((killed % 2)) in 0) option= ;; *) option=-disable-auto-cleanup ;; esac
    title "rank 1 is killed (qkv itself: ${DIRECT:-none}; $option)"
    one_killed $option
    ! grep -q process_vm_readv "$err" || ucx=$((ucx + 1))
    killed=$((killed + 1))
done
echo "$kills kills, after $ucx of which UCX printed"

# Ranks print before, when and after one is killed. Its guard is stopped, so that the ranks print before it can act, as UCX
# does in the others; mpiexec would then look for ranks that have ended, and end the others by SIGKILL.
title 'what ranks print is shown at once and in order, and held after a rank was killed until all have ended'
DIRECT=1
begin 3
seq 200000 >lines
says_rank 0 <lines
shows 200000
echo 'of rank 2' | says_rank 2
shows 'of rank 2'
stopped=$(guard 1)
kill -STOP "$stopped"
echo 'last of rank 1' | says_rank 1
at=$(date +%s)
kill -9 "$(cat pid.1)"
sleep 0.2
echo 'UCX of rank 0' | says_rank 0
echo 'UCX of rank 2' | says_rank 2
sleep 0.3
! grep -q UCX "$err" || failed 'printed before all ranks have ended'
kill -CONT "$stopped"
ended 'qkv: rank 1 has ended before the others' 0 2
for text in 'last of rank 1' 'UCX of rank 0' 'UCX of rank 2'; do
    [ "$(grep -cxF "$text" "$err")" -eq 1 ] || failed "lost or printed twice: $text"
done
grep -x '[0-9]*' "$err" | cmp -s - lines || failed 'other lines of rank 0, or another order'
DIRECT=

title 'two ranks are killed at once: the first of them is named'
DIRECT=0123
two_killed
DIRECT=

title 'the line of --json'
json=--json
one_crashed
json=

title 'Ctrl-C ends all ranks, of which none has ended before the others'
begin 3
kill -INT "$(ps -o pid= --ppid $launcher)"
wait $launcher
[ "$(grep -c 'ended before the others' "$err")" -eq 0 ] || failed 'no line with a rank'
none_left

title 'what a rank prints last precedes what its script prints'
cat >last.sh <<'SH'
"$QKV_BIN" "$@"
[ "$PMI_RANK" -ne 0 ] || echo last
SH
python random long.npy f4 1x3000x2x64 9
for arguments in 'train --help' 'attn -q long.npy -k long.npy -v long.npy -o -'; do
    { "$QKV_BIN" $arguments && echo last; } >whole
    for _ in 1 2 3 4 5; do
        timeout 60 mpirun.mpich -n 2 sh last.sh $arguments >"$out" 2>"$err" </dev/null || failed "exit code $?: $arguments"
        check cmp whole "$out"
    done
done
# The reader stops when the rest, 86,128 bytes, fits into the pipes of the rank and of the launcher, but not into one; the
# guard, which copies from one to the other, is stopped for a second then.
cat >slow.sh <<'SH'
[ "$PMI_RANK" -eq 0 ] || exec "$QKV_BIN" "$@"
{
    "$QKV_BIN" "$@" &
    echo $! >pid.0
    wait $!
    echo last
} | {
    head -c 1000000
    guard=$(ps -o pid= --ppid "$(cat pid.0)")
    head -c 450000
    kill -STOP $guard
    { sleep 1 && kill -CONT $guard; } &
    cat
}
SH
rm -f pid.*
timeout 60 mpirun.mpich -n 2 sh slow.sh $arguments >"$out" 2>"$err" </dev/null || failed "exit code $? with a slow reader"
check cmp whole "$out"

title 'ranks that end by themselves leave no process'
python random short.npy f4 1x60x2x64 9
ranked mpirun.mpich 3 0 attn -q short.npy -k short.npy -v short.npy -o short-out.npy --force
[ ! -s "$err" ] || failed 'a message'
none_left

finish
