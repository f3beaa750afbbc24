# SPDX-License-Identifier: MIT
# outputs.sh: tests output files and streams: refused before the work, written completely or not at all.
. tests/cli/lib.sh
python random x.npy f4 5x10 1
mkdir sub

title 'standard input that is the output is refused'
printf '{"text":"a"}\n' >same.jsonl
"$QKV_BIN" attn -x - -o same.jsonl --force <same.jsonl >"$out" 2>"$err"
[ $? -eq 2 ] || failed 'exit code'
says 'qkv: same.jsonl: this file is an input and an output at once, expected another output file'
[ "$(cat same.jsonl)" = '{"text":"a"}' ] || failed 'the file has changed'
printf '[1 0]' | "$QKV_BIN" attn -x - -o - >"$out" 2>"$err"
grep -q 'at once' "$err" && failed 'a pipe is refused'

title 'a small stack is a limit, and not the end by a signal'
if [ -z "${QKV_SLOW:-}" ]; then # a sanitizer needs more
    (ulimit -s 64 && runs 5 attn -x '[1 0; 0 1]' && exit $failures) || failed 'exit code'
    says 'qkv: stack is too small, expected at least 1048576 bytes (ulimit -s 1024), found 65536'
    for least in 128 1023; do
        (ulimit -s $least && runs 5 embed -m "$here/../golden/bert" --ids 5,6 && exit $failures) || failed "$least KiB"
    done
    (ulimit -s 1024 && runs 0 attn -x '[1 0; 0 1]' && exit $failures) || failed 'attn with 1 MiB'
    (ulimit -s 1024 && runs 0 embed -m "$here/../golden/bert" --ids 5,6 && exit $failures) || failed 'a model with 1 MiB'
fi

title 'a file named like an option, after --; stdin as -'
cp x.npy ./-rf
runs 0 info -- -rf
prints_part '(5, 10)'
"$QKV_BIN" attn -x - --json <x.npy >"$out" 2>"$err" || failed 'attn reads no stdin'
cp "$out" kept
runs 0 attn -x x.npy --json
check cmp -s "$out" kept
"$QKV_BIN" attn -q - -k - -v - <x.npy >"$out" 2>"$err"
[ $? -eq 2 ] || failed 'stdin cannot be three arrays'

title 'an output that exists is refused without --force'
runs 0 attn -x x.npy -o out.npy
prints ''
silent
cp out.npy kept
runs 2 attn -x x.npy --causal -o out.npy
says 'qkv: out.npy: the output file exists already, expected a new name, or --force to replace it'
check cmp -s out.npy kept
runs 0 attn -x x.npy --causal -o out.npy --force
! cmp -s out.npy kept || failed '--force did not replace'

title 'an output that is an input is refused even with --force, by any of its names'
ln -s x.npy alias.npy
ln x.npy twin.npy
cp x.npy before
for name in x.npy ./x.npy sub/../x.npy alias.npy twin.npy; do
    runs 2 attn -x x.npy -o $name --force
    says "qkv: $name: this file is an input and an output at once, expected another output file"
done
check cmp -s x.npy before

title 'the same name for two outputs is refused'
runs 2 attn -x x.npy -o a.npy --lse a.npy
says 'qkv: a.npy: two outputs have this name, expected different names'

title 'a link laid under a temporary name that can be predicted is not followed'
echo victim >victim
sh -c 'ln -s victim linked.npy.tmp.$$; exec "$QKV_BIN" attn -x x.npy -o linked.npy' >"$out" 2>"$err" ||
    failed 'attn, with a link in the folder'
[ "$(cat victim)" = victim ] || failed 'the target of the link was emptied'
sh -c 'echo victim >mine.jsonl.tmp.$$; exec "$QKV_BIN" attn -x x.npy -o mine.npy' >"$out" 2>"$err" ||
    failed 'attn, with a file in the folder'
[ "$(cat mine.jsonl.tmp.*)" = victim ] || failed 'a file of the user was removed'
rm linked.npy* mine.jsonl.tmp.*

title 'every name that the file system accepts can be an output'
long=$(printf '%0251d' 0)
mkdir long
runs 0 attn -x x.npy -o "long/$long.npy"
runs 0 attn -x x.npy -o "long/$long.npy" --force
runs 0 convert "$here/../golden/bert" "long/0000$long" --precision f32
runs 0 convert "$here/../golden/bert" "long/0000$long" --precision bf16 --force
[ "$(ls long | wc -l)" = 2 ] || failed "files: $(ls long)"
runs 6 attn -x x.npy -o "long/0$long.npy"
says_part 'cannot create: File name too long'
rm -r long

title 'an output is no input, for options of every command, by any name, and in the folder of the model'
cp -r "$here/../golden/bert" model
printf 'a\nb\n' >tokens.html
ln tokens.html twin.html
echo 5,6,7 >ids.html
cp model/model.safetensors weights
python3 - <<'PY' # attention weights: [[1, 0], [.5, .5]]
import struct
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 2, 2), }".ljust(117) + "\n"
open("w.npy", "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<4f", 1, 0, .5, .5))
PY
cp w.npy wnpy
both='this file is an input and an output at once, expected another output file'
runs 2 view --attention w.npy --tokens tokens.html -o tokens.html --force
says "qkv: tokens.html: $both"
runs 2 view --attention w.npy --tokens tokens.html -o twin.html --force
runs 2 view --attention w.npy --tokens ids.html --key-tokens tokens.html -o tokens.html --force
runs 2 view --attention w.npy --tokens tokens.html -o w.npy --force
runs 2 view -m model --ids ids.html -o ids.html --force
runs 2 ablate -m model --ids ids.html -o ids.html --force
runs 2 trace -m model --ids ids.html -o ids.html --force
runs 2 embed -m model --ids ids.html -o ids.html --force
runs 2 attn -x x.npy --mask tokens.html -o tokens.html --force
runs 2 attn -x x.npy --probe entropy --probes x.npy --force
runs 2 train-tokenizer tokens.html -o twin.html --force
runs 2 plot tokens.html -o twin.html --force
for where in '-m model' ''; do
    QKV_MODEL=model runs 2 trace $where --ids 5,6 -o model/model.safetensors --force
    says 'qkv: model/model.safetensors: this file is an input and an output at once, because it is one of model, expected another output file'
done
ln -s model/model.safetensors weights.safetensors
runs 2 trace -m model --ids 5,6 -o weights.safetensors --force
runs 2 trace -m model --ids 5,6 -o model/config.json --force
check cmp -s model/model.safetensors weights
check cmp -s w.npy wnpy
[ "$(cat ids.html)" = 5,6,7 ] && [ "$(head -n 1 tokens.html)" = a ] || failed 'an input was replaced'
runs 0 trace -m model --ids 5,6 -o model/trace.safetensors
runs 0 trace -m model --ids 5,6 -o model/trace.safetensors --force # not a file that the model reads
runs 2 train tokens.html --from model --out run --export model --force --steps 1
says 'qkv: model: this folder is an input and an output at once, expected another output folder'
runs 2 train model/config.json --out run --export model --force --steps 1
runs 2 train tokens.html --from model --out run --export / --force --steps 1
says 'qkv: /: this folder is an input and an output at once, expected another output folder'
[ ! -e run ] || failed 'a run was begun'

title 'files of a model with free names, and the tokenizer of a file of llama2.c, are no outputs'
"$QKV_BIN" convert model shards --precision f32 --shard-size 40KB >"$out" 2>"$err" || failed 'shards'
first=$(ls shards | grep -m 1 'model-.*safetensors$')
mv "shards/$first" shards/part1.safetensors
sed "s/$first/part1.safetensors/g" shards/model.safetensors.index.json >index.json
mv index.json shards/model.safetensors.index.json
cp shards/part1.safetensors weights
runs 2 trace -m shards --ids 5,6 -o shards/part1.safetensors --force
says_part 'because it is one of shards'
check cmp -s shards/part1.safetensors weights
cp -r model checkpoint
echo '{}' | tee checkpoint/manifest.json >checkpoint/optimizer.safetensors
runs 2 trace -m checkpoint --ids 5,6 -o checkpoint/optimizer.safetensors --force
[ "$(cat checkpoint/optimizer.safetensors)" = '{}' ] || failed 'the state of the optimizer was replaced'
cp -r "$here/../golden/llama2c-v0" llama2c
for name in tokenizer.json spm.model merges.txt tokenizer_config.json; do
    echo '{}' >llama2c/$name
    runs 2 trace -m llama2c/model.bin --ids 5,6 -o llama2c/$name --force
    says_part 'because it is one of llama2c/model.bin'
    [ "$(cat llama2c/$name)" = '{}' ] || failed "$name of the tokenizer was replaced"
done

title 'two outputs that are one file are refused before the work'
mkdir two
ln -s two same
ln -s one.npy two/link.npy # to a file that does not exist
for other in "$PWD/two/one.npy" ./two/one.npy same/one.npy; do
    for force in '' --force; do
        runs 2 attn -x x.npy -o two/one.npy --weights "$other" $force
        says "qkv: $other: this file and two/one.npy are one file, expected different outputs"
    done
done
[ ! -e two/one.npy ] || failed 'an output was written'
runs 0 attn -x x.npy -o two/one.npy --weights same/two.npy
runs 2 attn -x x.npy -o two/link.npy --weights two/one.npy --force
says 'qkv: two/one.npy: this file and two/link.npy are one file, expected different outputs'

title 'a link to nothing is an output that exists'
ln -s nothing.npy dangling.npy
runs 2 attn -x missing.npy -o dangling.npy
says 'qkv: dangling.npy: the output file exists already, expected a new name, or --force to replace it'
runs 0 attn -x x.npy -o dangling.npy --force
[ ! -L dangling.npy ] && [ -f dangling.npy ] && [ ! -e nothing.npy ] || failed 'the file takes the place of the link'

title 'a text that is also standard output is refused'
printf '1 2\n3 4\n' >grows.txt
cp grows.txt kept.txt
for command in 'tokenize -f grows.txt' 'tokenize -f -'; do
    # shellcheck disable=SC2086
    timeout 20 "$QKV_BIN" $command --tokenizer "$here/../golden/bert" <grows.txt >>grows.txt 2>"$err"
    [ $? -eq 6 ] || failed "exit code of $command"
    says_part 'the input is also standard output, expected different files'
    check cmp -s grows.txt kept.txt
done

title 'a missing or read-only folder is refused before the input is read'
runs 6 attn -x missing.npy -o nowhere/out.npy
says 'qkv: nowhere/out.npy: cannot create: No such file or directory'
runs 6 attn -x x.npy -o sub
says 'qkv: sub: the output is a directory, expected a file'
runs 6 attn -x x.npy -o /proc/out.npy
says_part 'qkv: /proc/out.npy: cannot create'
runs 6 attn -x x.npy -o x.npy/out.npy
says_part 'Not a directory'
if [ "$(id -u)" -eq 0 ] && setpriv --reuid=65534 --clear-groups "$QKV_BIN" help >/dev/null 2>&1; then
    chmod 755 "$temp"
    setpriv --reuid=65534 --clear-groups "$QKV_BIN" attn -x x.npy -o sub/out.npy >"$out" 2>"$err"
    [ $? -eq 6 ] || failed 'a folder without permission'
    says 'qkv: sub/out.npy: cannot create: Permission denied'
fi

title 'a failed command leaves no file'
runs 2 attn -x x.npy --bias x.npy -o new.npy
[ ! -e new.npy ] || failed 'an output of a failed run'
! ls | grep -q tmp || failed 'a temporary file was left'

title 'pipes and open descriptors are written in place, - is standard output'
runs 0 attn -x x.npy -o out1.npy
for name in - /dev/stdout /dev/fd/1 /proc/self/fd/1; do
    runs 0 attn -x x.npy -o $name
    check cmp -s "$out" out1.npy
done
printf before >grown
"$QKV_BIN" attn -x x.npy -o /dev/stdout >>grown || failed 'appending'
{ printf before; cat out1.npy; } | check cmp -s - grown
"$QKV_BIN" attn -x x.npy -o /dev/fd/3 --lse /dev/fd/4 3>three 4>four || failed 'two descriptors'
check cmp -s three out1.npy
[ "$(python shape four)" = '5 f4' ] || failed 'lse on descriptor 4'
mkfifo pipe
exec 5<>pipe # opens the reader first; the pipe buffers the output
runs 0 attn -x x.npy -o pipe
timeout 60 head -c "$(wc -c <out1.npy)" <&5 >through
exec 5>&-
check cmp -s through out1.npy
[ -p pipe ] || failed 'the pipe was replaced'
runs 6 attn -x x.npy -o pipe # a pipe without a reader
runs 2 attn -x x.npy -o - --weights -
says "qkv: standard output can receive only one .npy result, expected a single '-'"
runs 0 attn -x x.npy -o - --json
prints_part '{"out":{"shape":[5,10]'
runs 6 attn -x x.npy -o /dev/fd/77
! ls | grep -q tmp || failed 'a temporary file was left'

title 'a closed or full stdout is an error'
"$QKV_BIN" attn -x x.npy >&- 2>"$err"
[ $? -eq 6 ] || failed 'closed stdout'
says 'qkv: standard output: cannot write: Bad file descriptor'
if [ -w /dev/full ]; then
    for words in 'help' 'attn --help' '--version' 'attn -x x.npy' 'attn -x x.npy --json' 'info' 'info x.npy' \
        'help --man' 'help --completion zsh' 'attn -x x.npy --plan'; do
        "$QKV_BIN" $words >/dev/full 2>"$err"
        [ $? -eq 6 ] || failed "full disk: qkv $words"
        says_part 'cannot write: No space left on device'
    done
fi
"$QKV_BIN" attn -x x.npy -o closed.npy >&- 2>"$err" || failed 'a closed stdout does not matter to -o'
check cmp -s closed.npy kept

title 'a command that wrote its file but cannot print says so'
if [ -w /dev/full ]; then
    "$QKV_BIN" view --attention w.npy --tokens tokens.html -o page.html >/dev/full 2>"$err"
    [ $? -eq 6 ] || failed 'view to a full disk'
    says 'qkv: standard output: cannot write: No space left on device
qkv: note: page.html is complete: it was written before this error'
    [ -s page.html ] || failed 'no page'
    "$QKV_BIN" train-tokenizer tokens.html --kind bytes -o tokenizer.json >/dev/full 2>"$err"
    [ $? -eq 6 ] || failed 'train-tokenizer to a full disk'
    says_part 'qkv: note: tokenizer.json is complete: it was written before this error'
    "$QKV_BIN" convert "$here/../golden/bert" converted --precision bf16 >/dev/full 2>"$err"
    [ $? -eq 6 ] || failed 'convert to a full disk'
    says_part 'qkv: standard output: cannot write: No space left on device'
    says_part 'qkv: note: converted is complete: it was written before this error'
    printf 'a b c d e f g h\n' >few.txt
    "$QKV_BIN" train few.txt --out run --export exported --steps 1 --tokenizer bytes --context 4 --width 16 --layers 1 --heads 2 \
        --batch-tokens 8 >/dev/full 2>"$err"
    [ $? -eq 6 ] || failed 'train to a full disk'
    says_part 'qkv: note: run is complete: it was written before this error'
    says_part 'qkv: note: exported is complete: it was written before this error'
    "$QKV_BIN" convert "$here/../golden/bert" "$temp/none/converted" --precision bf16 >/dev/full 2>"$err"
    ! grep -q 'is complete' "$err" || failed 'a folder that was not written is complete'
fi

title 'a limit on the size of files is an error, not a death by signal'
for kind in 'attn -x x.npy -o big.npy' 'trace -m model --ids 5,6 -o big.safetensors' \
    'view --attention w.npy --tokens tokens.html -o big.html' 'embed -m model --ids 5,6 -o big.npy'; do
    (
        ulimit -f 0
        "$QKV_BIN" $kind 2>&1
        echo $?
    ) | cat >through
    [ "$(tail -n 1 through)" = 6 ] || failed "$kind: $(cat through)"
    grep -q 'cannot write: File too large' through || failed "$kind: $(cat through)"
    ! ls | grep -q 'big\.' || failed "$kind left a file: $(ls | grep 'big\.')"
done

title 'a closed standard input is named'
"$QKV_BIN" train-tokenizer -o stdin.json <&- >"$out" 2>"$err"
[ $? -eq 6 ] || failed 'closed stdin'
says 'qkv: standard input: standard input is closed, expected a text, a file or a pipe'
"$QKV_BIN" attn -x - <&- >"$out" 2>"$err"
[ $? -eq 6 ] || failed 'closed stdin of an array'
says 'qkv: standard input: cannot read: Bad file descriptor'

title 'a closed pipe ends a command with code 6 and no message'
: >"$out"
for command in 'help --man attn' '--version' 'attn -x x.npy' 'attn -x x.npy --json' 'explain --scaling' \
    'explain --scaling -o -' 'explain --shapes --json'; do
    (
        sleep 0.2 # until the reader has closed the pipe
        # shellcheck disable=SC2086
        "$QKV_BIN" $command 2>"$err"
        echo $? >code
    ) | true
    check test "$(cat code)" = 6
    silent
done

finish
