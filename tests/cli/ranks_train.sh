# SPDX-License-Identifier: MIT
# ranks_train.sh: tests training on several ranks: the files of one process, another number of ranks after an
# interruption, the end of a rank, a full disk.
. tests/cli/lib.sh
. "$here/ranks_lib.sh"

cat "$here"/../../docs/notes/0*.md >text.txt
options='--arch gpt --tokenizer bytes --layers 2 --heads 2 --context 32 --batch-tokens 128
    --dropout 0.1 --eval-every 4'
five='--width 32 --accumulate 5'

# same RUN RUN: compares the files of the last checkpoints, and the logs
same() {
    for file in model/model.safetensors model/optimizer.safetensors model/state.json log.jsonl; do
        [ ! -e "$1/$file" ] && [ ! -e "$2/$file" ] || check cmp "$1/$file" "$2/$file"
    done
}

title 'training on 1 to 4 ranks writes the files of one process'
# the third row: fewer batches than ranks; the fourth: no moments at all
i=0
while read -r steps more; do
    i=$((i + 1))
    runs 0 train text.txt $options --steps $steps $more --out one$i
    k=0
    for launcher in $launchers $launchers; do
        k=$((k + 1))
        ranked "$launcher" $((k + i % 2)) 0 train text.txt $options --steps $steps $more --out many$i-$k
        same one$i many$i-$k
        [ "$(grep -c 'steps, loss' "$out")" -eq 1 ] || failed 'one report'
    done
done <<'ROWS'
9 --width 32 --accumulate 5
7 --width 32 --accumulate 4 --precision bf16 --probe every=3 --patience 5
5 --width 40 --accumulate 2 --clip 0
4 --width 32 --optimizer sgd --momentum 0 --accumulate 7
ROWS

title 'a run continues with another number of ranks'
for launcher in $launchers; do
    rm -rf part
    runs 0 train text.txt $options $five --steps 9 --save-every 3 --keep all --out whole --force
    cp -r whole part
    rm -r part/checkpoint-00000009 part/checkpoint-00000008 part/checkpoint-00000006 part/model 2>/dev/null
    ranked "$launcher" 3 0 train --resume part
    same whole part
    rm -r whole
done

title 'a rank that is killed ends all; the run continues from its last checkpoint'
cat >die.sh <<'SH'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
if [ "$rank" -eq 1 ]; then
    "$QKV_BIN" "$@" &
    child=$!
    until ls -d dead/checkpoint-* >/dev/null 2>&1; do sleep 0.05; done
    kill -9 $child
    wait $child
    kill -9 $$
fi
exec "$QKV_BIN" "$@"
SH
export QKV_BIN
runs 0 train text.txt $options $five --steps 120 --save-every 10 --out alive
for launcher in $launchers; do
    rm -rf dead
    begin=$(date +%s)
    timeout 120 "$launcher" -n 3 sh die.sh train text.txt $options $five --steps 120 --save-every 10 --out dead >"$out" 2>"$err"
    [ $? -ne 0 ] || failed "exit code: $launcher"
    [ $(($(date +%s) - begin)) -lt 30 ] || failed "the others went on: $launcher"
    [ ! -e dead/checkpoint-00000120 ] || failed 'the run was not ended'
    ranked "$launcher" 2 0 train --resume dead
    same alive dead
done

title 'errors are printed once, with their code'
for launcher in $launchers; do
    ranked "$launcher" 3 2 train text.txt --out bad --heads 3 --width 32 --steps 2
    [ "$(grep -c '^qkv: ' "$err")" -eq 1 ] || failed 'one message'
    ranked "$launcher" 2 4 train text.txt --out bad --objective words
    [ "$(grep -c 'not supported over ranks' "$err")" -eq 1 ] || failed 'one message'
    ranked "$launcher" 2 6 train none.txt --out bad
    [ "$(grep -c '^qkv: ' "$err")" -eq 1 ] || failed 'one message'
    [ ! -e bad ] || failed 'the folder of a run that did not begin'
done

finish
