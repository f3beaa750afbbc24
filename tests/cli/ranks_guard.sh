# SPDX-License-Identifier: MIT
# ranks_guard.sh: what a user sees when ranks end under mpiexec of MPICH, which ends the others by SIGKILL unless their
# guards (cli/ranks/ranks_guard.c) are faster: exit code 6 of the others, one line, and no process that is left.
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
# attempt CASE OPTIONS...: runs a case, again if UCX printed before the guards could tell the ranks: whenever a rank prints,
# mpiexec looks for processes that have ended, and then ends the others (docs/machines.md).
attempt() {
    for _ in 1 2 3 4; do
        raced=
        "$@"
        [ -n "$raced" ] || return 0
    done
    failed 'UCX was first four times'
}
# ended LINE RANKS...: the launcher ends within 30 s, one line of qkv is printed, and these ranks have the exit code 6
ended() {
    line=$1
    shift
    wait $launcher
    code=$?
    if grep -q process_vm_readv "$err" && ! grep -q 'ended before the others' "$err"; then
        raced=yes
        none_left
        return
    fi
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

json=
export DIRECT
for DIRECT in 1 ''; do
    for option in '' -disable-auto-cleanup; do
        title "rank 1 is killed (qkv itself: ${DIRECT:-none}; $option)"
        attempt one_killed $option
    done
done

title 'two ranks are killed at once: the first of them is named'
DIRECT=0123
attempt two_killed
DIRECT=

title 'the line of --json'
json=--json
attempt one_crashed
json=

title 'Ctrl-C ends all ranks, of which none has ended before the others'
begin 3
kill -INT "$(ps -o pid= --ppid $launcher)"
wait $launcher
[ "$(grep -c 'ended before the others' "$err")" -eq 0 ] || failed 'no line with a rank'
none_left

title 'ranks that end by themselves leave no process'
python random short.npy f4 1x60x2x64 9
ranked mpirun.mpich 3 0 attn -q short.npy -k short.npy -v short.npy -o short-out.npy --force
[ ! -s "$err" ] || failed 'a message'
none_left

finish
