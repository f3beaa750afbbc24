# SPDX-License-Identifier: MIT
# train_bad.sh: tests failures before and during training: each gives a clear error, and no data is lost.
. tests/cli/lib.sh
export QKV_THREADS=1 # other tests may run at the same time; cases that need more threads set them
sizes='--tokenizer bytes --layers 1 --heads 1 --width 8 --batch-tokens 64'
small="$sizes --context 16"
python3 - <<'PY'
import random
random.seed(1)
words = 'the cat sat on a mat and saw one dog run home with no bone'.split()
with open('text.txt', 'w') as f:
    for _ in range(60):
        f.write(' '.join(random.choice(words) for _ in range(12)) + '.\n\n')
with open('pairs.tsv', 'w') as f:
    for i in range(60):
        f.write(f'{i}\t{i * i}\n')
PY
left() { [ ! -e "$1" ] || failed "$1 exists, expected no such file"; }

title 'no folder, no text, no file'
runs 2 train text.txt
says 'qkv: no folder is given for the run, expected --out RUN'
runs 2 train --out r
says 'qkv: no text to train on, expected files, found none'
left r
runs 6 train missing.txt --out r $small
says_part 'missing.txt: '
left r
runs 2 train --out r --resume r
says 'qkv: --out cannot be combined with --resume'
runs 2 train --resume r
says "qkv: r: no run to resume in this folder, expected the folder of a run, found no run.json"
left r
mkdir other && touch other/file
runs 2 train text.txt --out other $small
says "qkv: other: folder contains other files and no run, expected a new folder or the folder of a run"
[ "$(ls other)" = file ] || failed 'something was put into a folder that is no run'

title 'invalid words and numbers'
runs 2 train text.txt --out r --arch rnn
says_part '--arch: unknown value, expected one of gpt, llama, bert, bare-encoder, vaswani, bare-transformer, gru-attention'
runs 2 train text.txt --out r --rate -1
says_part '--rate: '
runs 2 train text.txt --out r --probe 5
says_part '--probe: expected every=N'
runs 2 train text.txt --out r --steps 5 --epochs 1
says 'qkv: --steps cannot be combined with --epochs'
runs 2 train text.txt --out r --dropout 1
says_part 'dropout is out of range, expected at most 0.999, found 1'
runs 2 train text.txt --out r --tokenizer bytes --heads 3 --width 64
says_part 'found 3'
runs 2 train text.txt --out r --from nowhere --layers 2
says_part 'cannot be combined with --from, a model to start from'
left r

title 'empty data, one token, no validation text, a text shorter than the context'
: >empty.txt
printf 'a' >one.txt
printf 'a short text that is a single one' >short.txt
printf 'no newline at the end of this file, which is long enough for the smallest context' >tail.txt
runs 3 train empty.txt --out r $small
says_part 'empty.txt: '
runs 3 train one.txt --out r $small
says_part 'one.txt: '
runs 3 train short.txt --out r $sizes --context 100
says_part 'shorter than the context'
printf 'one\t1\n' >pair.tsv
runs 3 train pair.tsv --out r --arch vaswani $small
says_part 'no example is left for validation, expected a second document or pair'
printf '%060d' 7 >unbroken.txt
runs 0 train-tokenizer text.txt --kind bytes -o plain.json # a tokenizer that adds no special tokens to a text
runs 3 train unbroken.txt --out r --tokenizer plain.json --layers 1 --heads 1 --width 8 --context 16
says_part 'unbroken.txt: validation text is too short, expected two tokens or more'
runs 3 train text.txt --valid empty.txt --out r $small
says_part 'empty.txt: too little validation text'
left r
runs 0 train tail.txt --out tail $small --steps 2 --valid-share 0.3
silent

title 'a line without a tab is reported with its number'
printf 'one\t1\ntwo\t2\nthree 3\nfour\t4\n' >bad.tsv
runs 3 train bad.tsv --out r --arch vaswani $small
says_part 'bad.tsv'
says_part '3'
left r

title 'labels that do not occur in training'
printf 'good text\tyes\nbad text\tno\nmore text\tyes\nless text\tno\n' >labels.tsv
printf 'some text\tperhaps\n' >unknown.tsv
runs 3 train labels.tsv --valid unknown.tsv --objective classify --out r --layers 1 --heads 1 --width 8 --tokenizer characters
says_part 'perhaps'
left r

title 'a folder that is not writable, before the first step'
touch plain
runs 6 train text.txt --out plain/run $small
says_part 'plain/run: '
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod 500 locked
    runs 6 train text.txt --out locked/run $small
    says_part 'Permission denied'
elif command -v setpriv >/dev/null; then
    mkdir locked && chmod 555 locked && chmod 755 .
    setpriv --reuid=65534 --clear-groups "$QKV_BIN" train text.txt --out locked/run $small >"$out" 2>"$err"
    [ $? -eq 6 ] || failed 'expected exit code 6 from a folder without permission'
    says_part 'Permission denied'
fi

title 'two trainers in one folder: the second reports the first; an interrupt saves and ends with 130'
python3 "$here/run_for.py" INT 3 "$QKV_BIN" train text.txt --out both $small --steps 10000000 \
    --save-every 10000000 --eval-every 10000000 2>first.err &
first=$!
for i in 1 2 3 4 5 6 7 8 9 10; do [ -s both/log.jsonl ] && break || sleep 0.2; done
runs 6 train --resume both
says "qkv: both: another trainer is running in this folder, expected no other trainer, found process $(cat both/lock)"
wait $first
[ $? -eq 130 ] || failed 'expected exit code 130'
grep -q 'interrupted after step [0-9]*; its checkpoint is saved' first.err || failed "stderr: $(cat first.err)"
[ -f both/model/model.safetensors ] || failed 'no checkpoint'

title 'a killed trainer is detected'
"$QKV_BIN" train --resume both 2>/dev/null &
second=$!
for i in 1 2 3 4 5 6 7 8 9 10; do [ -s both/lock ] && break || sleep 0.2; done
kill -9 $second
wait $second 2>/dev/null
steps=$(sed -n 's/.*"step": \([0-9]*\).*/\1/p' both/model/state.json)
runs 0 train --resume both --steps $((steps + 1))
says_part "the previous trainer (process $second) was killed"

title 'options that differ from the run are listed'
runs 0 train text.txt --out r $small --steps 4 --save-every 2
runs 3 train text.txt --out r --width 16 --rate 0.5
says_part 'width 8 (requested: 16)'
says_part 'rate 0.001 (requested: 0.5)'
runs 0 train text.txt --out r $small --steps 6

title 'changed text is refused, or read again on request'
cp text.txt before.txt
echo 'one more sentence of the same words.' >>text.txt
runs 3 train --resume r --steps 8
says_part 'the text has changed since the run began'
runs 0 train --resume r --steps 8 --allow-data-change
says_part 'it was tokenized again'
cp before.txt text.txt
runs 3 train --resume r --steps 9
rm text.txt # the missing text is not needed: the run has its tokens
runs 0 train --resume r --steps 9
silent
cp before.txt text.txt
sed -i 's/"hash": "./"hash": "x/' r/data/index.json
runs 3 train --resume r --steps 10 --allow-data-change

title 'every command that opens a checkpoint compares it with its manifest, whose list is whole'
runs 0 train text.txt --out d $small --steps 4 --save-every 2
cp -r d/checkpoint-00000004 copy
opens() { # CODE PART: every command that opens copy/
    for command in "info copy" "eval copy text.txt" "view hello -m copy --terminal" "generate hello -m copy -n 1" \
        "train text.txt --from copy --out again --steps 1" "convert copy again --precision f32" \
        "convert copy again --precision int8"; do
        rm -rf again
        runs "$1" $command
        [ -z "$2" ] || says_part "$2"
    done
}
opens 0 ''
printf x | dd of=copy/model.safetensors bs=1 seek=3000 conv=notrunc 2>/dev/null
opens 3 'file differs from the manifest of its checkpoint in tensor "'
cp d/checkpoint-00000004/model.safetensors copy
sed -i 's/"pad_token_id": [0-9]*/&0/; s/"bos_token_id": \([0-9]*\)/"bos_token_id": 1/' copy/config.json
opens 3 'copy/config.json'
cp d/checkpoint-00000004/config.json copy
echo 'mine' >copy/notes.txt
opens 0 ''
python3 - <<'PY'
import json
m = json.load(open('copy/manifest.json'))
del m['files']['model.safetensors']
json.dump(m, open('copy/manifest.json', 'w'))
PY
opens 3 'manifest does not list "model.safetensors", expected every file of the checkpoint'
sed -i 's/"files": .*/"files": {}}/' copy/manifest.json
opens 3 'manifest lists no files, expected every file of the checkpoint'
rm copy/manifest.json # it is no checkpoint any more
opens 0 ''

title 'unfinished checkpoints are skipped, changed ones refused'
runs 0 train text.txt --out c $small --steps 6 --save-every 2
mkdir c/checkpoint-00000099.tmp c/checkpoint-00000098
runs 0 train --resume c --steps 7
says_part 'checkpoint-00000099.tmp is not a complete checkpoint and is ignored; number of such checkpoints: 2'
rmdir c/checkpoint-00000098
printf x | dd of=c/checkpoint-00000007/model.safetensors bs=1 seek=3000 conv=notrunc 2>/dev/null
runs 3 train --resume c --steps 8
says_part 'model.safetensors: at byte '
says_part 'file differs from the manifest of its checkpoint in tensor "'
says_part 'to continue from the checkpoint before it, checkpoint-00000006, remove this one'
rm -r c/checkpoint-00000007
runs 0 train --resume c --steps 8
mv c/log.jsonl log.jsonl
mkfifo c/log.jsonl
timeout 60 "$QKV_BIN" train --resume c --steps 9 >"$out" 2>"$err" # without waiting for a reader
[ $? -eq 6 ] || failed 'exit code of a FIFO'
says_part 'c/log.jsonl: cannot write'
rm c/log.jsonl
mv log.jsonl c
sed -i 's/"version": 1/"version": 2/' c/checkpoint-00000008/manifest.json
runs 4 train --resume c --steps 9
says_part 'checkpoint format is too new'
sed -i 's/"version": 2/"version": 1/' c/checkpoint-00000008/manifest.json
sed -i 's/"version": 1/"version": 9/' c/run.json
runs 4 train --resume c --steps 9
says_part 'format of run.json is too new'
echo '{' >c/run.json
runs 3 train --resume c --steps 9
says_part 'c/run.json: '

title 'a loss that is not finite: stop, with the last finite weights kept'
runs 1 train text.txt --out nan $small --optimizer sgd --rate 1e30 --clip 0 --warmup 0 --steps 50 --save-every 1
says_part '; the first nonfinite tensor is'
grep -q -- '-nan' "$err" && failed 'what is not a number has no sign'
[ -f nan/model/model.safetensors ] || failed 'no checkpoint is left'
runs 1 eval nan # the weights are finite, but too large for a finite loss
says_part 'loss is not finite, expected finite numbers, found '
python3 - <<'PY' || failed 'weights that are not finite'
import array, json, math, struct
data = open("nan/model/model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
assert all(t["dtype"] == "F32" for name, t in json.loads(data[8:8 + n]).items() if name != "__metadata__")
assert all(map(math.isfinite, array.array("f", data[8 + n:])))
PY
runs 0 train text.txt --out skip $small --optimizer sgd --rate 1e30 --clip 0 --warmup 0 --steps 6 --save-every 1 --on-nan skip --json
prints_part '"bad_steps":'
grep -q '"skipped":true' skip/log.jsonl || failed 'the log does not name the step that was left out'

title 'a full disk: training continues, earlier files remain, the code is 6'
runs 0 train text.txt --out size $small --steps 2
room=$(du -sk size | cut -f1) one=$(du -sk size/checkpoint-00000002 | cut -f1)
mkdir full
if mount -t tmpfs -o size=$((room + one / 2))k none "$PWD/full" 2>/dev/null; then
    trap 'umount "$temp/full" 2>/dev/null; rm -rf "$temp"' EXIT
    runs 6 train text.txt --out full/r $small --steps 6 --save-every 2
    says_part ' could not be saved, training continues'
    says_part 'No space left on device'
    cp -r full/r more
    umount "$PWD/full"
    runs 0 train --resume more
    runs 0 train text.txt --out never $small --steps 6 --save-every 2
    check cmp more/model/model.safetensors never/model/model.safetensors
    check cmp more/log.jsonl never/log.jsonl
else
    echo 'no tmpfs here: the full disk is left to the tests of checkpoints'
fi

title 'an existing export is not replaced without --force'
runs 0 train text.txt --out e $small --steps 2 --export out --export-type bf16
[ -f out/model.safetensors ] && [ -f out/config.json ] && [ -f out/tokenizer.json ] || failed 'a file of the export'
runs 2 train --resume e --export out
says_part 'folder contains a model already'
mkdir described && echo '{}' >described/config.json && echo mine >described/notes.txt
runs 2 train --resume e --export described
[ "$(cat described/notes.txt)" = mine ] || failed 'a file of the user is gone'
runs 0 train --resume e --export out --force

title 'eval: no text, no run, no such model'
runs 2 eval out
says_part 'no text to evaluate on'
runs 6 eval nowhere text.txt
runs 0 eval out text.txt
runs 3 eval out empty.txt
runs 2 eval e --objective nothing
runs 2 eval e --penalty -1

finish
