# SPDX-License-Identifier: MIT
# signals.sh: tests Ctrl-C, the end of a session, and a file that is truncated while it is read.
. tests/cli/lib.sh
# 60,000 tokens: seconds of work on any machine, 15 MB of file
python3 -c "
import random, struct
h = repr({'descr': '<f4', 'fortran_order': False, 'shape': (60000, 64)})
h += ' ' * (-(len(h) + 11) % 64) + '\n'
row = struct.pack('<64f', *(random.Random(1).gauss(0, 1) for _ in range(64)))
open('big.npy', 'wb').write(b'\x93NUMPY\1\0' + struct.pack('<H', len(h)) + h.encode() + row * 60000)
"
while_running() {
    action=$1 want=$2
    shift 2
    python3 "$here/run_for.py" "$action" 0.5 "$QKV_BIN" "$@" >"$out" 2>"$err"
    code=$?
    [ $code -ne 99 ] || { echo 'the machine is too fast for this test'; exit 77; }
    [ $code -eq "$want" ] || failed "exit code $code, expected $want: $action, qkv $*"
    ! ls | grep -q 'tmp\.' || failed "a temporary file was left by $action"
    [ ! -e out.npy ] || failed 'an output of a broken run'
}

title 'an interrupt ends the command with 130'
while_running INT 130 attn -x big.npy -o out.npy --threads 1
says 'qkv: interrupted'
while_running INT 130 attn -x big.npy -o out.npy --threads 1 --json
says '{"status":"interrupted","code":130,"text":"interrupted"}'

title 'SIGTERM ends the command with its code'
while_running TERM 143 attn -x big.npy -o out.npy --threads 1

title 'a file truncated while it is read gives exit 6 and its name'
cp big.npy cut.npy
while_running cut=cut.npy 6 attn -x cut.npy -o out.npy --threads 1
says 'qkv: cut.npy: the file was truncated while it was read'
cp big.npy cut.npy
while_running cut=cut.npy 6 attn -x cut.npy -o out.npy --json
says '{"status":"io","code":6,"file":"cut.npy","text":"the file was truncated while it was read"}'

title 'a signal during the reading of standard input leaves no temporary copy'
mkfifo pipe
sleep 60 >pipe &
sleeper=$!
TMPDIR=$temp "$QKV_BIN" attn -x - <pipe >"$out" 2>"$err" &
reader=$!
for i in 1 2 3 4 5 6 7 8 9 10; do ls | grep -q qkv-stdin && break || sleep 0.3; done
check sh -c 'ls | grep -q qkv-stdin'
kill -TERM $reader
wait $reader
[ $? -eq 143 ] || failed 'expected to die of the signal'
kill $sleeper
ls | grep -q qkv-stdin && failed 'the copy of standard input was left'

finish
