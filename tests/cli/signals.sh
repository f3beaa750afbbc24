# SPDX-License-Identifier: MIT
# signals.sh: tests Ctrl-C, Ctrl-\, the end of a session, a limit of CPU time, and a file that is truncated while it is
# read: the exit code, the message, and that no temporary file or folder is left.
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
    during 0.5 "$@"
}
# during WHEN ACTION CODE args...: as run_for.py
during() {
    when=$1 action=$2 want=$3
    shift 3
    python3 "$here/run_for.py" "$action" "$when" "$QKV_BIN" "$@" >"$out" 2>"$err"
    code=$?
    [ $code -ne 99 ] || { echo 'the machine is too fast for this test'; exit 77; }
    [ $code -eq "$want" ] || failed "exit code $code, expected $want: $action, qkv $*"
    ! ls | grep -q 'tmp\.' || failed "temporary files were left by $action: $(ls | grep 'tmp\.')"
    [ ! -e out.npy ] || failed 'an output of a broken run'
}

ulimit -c 0
# code_of ACTION: the exit code
code_of() {
    case $1 in INT*) echo 130 ;; TERM) echo 143 ;; HUP) echo 129 ;; QUIT) echo 131 ;; XCPU) echo 152 ;; USR1) echo 138 ;; USR2) echo 140 ;; esac
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

title 'the name of a truncated file is printed without its control characters'
evil=$(printf 'cut\033]0;x\007\302\233\342\200\256\303\244.npy')
cp big.npy "$evil"
while_running "cut=$evil" 6 attn -x "$evil" -o out.npy --threads 1
says "$(printf 'qkv: cut?]0;x???\303\244.npy: the file was truncated while it was read')"
rm "$evil"

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

title 'a signal during a conversion leaves no folder, and the model that it was to replace'
mkdir large kept
cp "$here/../golden/net-llama/"*.json large
python3 - <<'PY'
import json, struct
# zeros, which take no room on the disk: 64 matrices of 4 MB
header = {f"layer{i}": {"dtype": "F32", "shape": [1024, 1024], "data_offsets": [i << 22, i + 1 << 22]} for i in range(64)}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open("large/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    f.truncate(f.tell() + (64 << 22))
PY
cp "$here/../golden/net-llama/config.json" kept
for action in INT INT,INT TERM HUP QUIT XCPU USR1 USR2; do
    code=$(code_of $action)
    during 'new.tmp.*' $action $code convert large new --precision bf16 --shard-size 1MB
    [ ! -e new ] || failed "a folder of a run that ended by $action"
    during 'kept.tmp.*' $action $code convert large kept --precision bf16 --shard-size 1MB --force
    [ "$(ls kept)" = config.json ] || failed "the old folder, after $action: $(ls kept)"
done
for precision in bf16 f32; do # converted, or written as it is
    cp large/model.safetensors whole
    during 'new.tmp.*' cut=large/model.safetensors 6 convert large new --precision $precision --shard-size 1MB
    says 'qkv: large/model.safetensors: the file was truncated while it was read'
    mv whole large/model.safetensors
    [ ! -e new ] || failed 'a folder of a run whose input was truncated'
done

title 'a signal during an evaluation removes the texts that were copied'
cp -rL "$here/../golden/net-gpt2" model
"$QKV_BIN" train-tokenizer --kind bytes -o model/tokenizer.json --force <"$here/signals.sh" >"$out" 2>"$err"
python3 -c "print('some words of a line\n\n' * 400000)" >text.txt
mkdir folder
export TMPDIR="$temp/folder"
for action in INT,INT TERM HUP QUIT XCPU USR2; do
    code=$(code_of $action)
    during 'folder/qkv-eval*' $action $code eval model text.txt
    [ -z "$(ls folder)" ] || failed "copies of the texts after $action: $(ls folder)"
done

finish
