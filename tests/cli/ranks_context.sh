# SPDX-License-Identifier: MIT
# ranks_context.sh: tests training with ranks that share the rows of each batch (--context-ranks): the files of one
# process, other ranks after an interruption, the end of a rank, a context that does not fit the memory of one rank,
# refusals.  QKV_CONTEXT (default 8192): the tokens of this context.
. tests/cli/lib.sh
. "$here/ranks_lib.sh"

cat "$here"/../../docs/notes/*.md "$here"/../../docs/*.md >text.txt
head -c 53000 text.txt >short.txt
small='--tokenizer bytes --layers 2 --eval-every 2'

# same RUN RUN: compares the files of the last checkpoints, and the logs
same() {
    for file in model/model.safetensors model/optimizer.safetensors model/state.json log.jsonl; do
        check cmp "$1/$file" "$2/$file"
    done
}

title 'ranks that share a context write the files of one process'
# Batches have the ends of documents and several sequences; P x C: P ranks, groups of C.
i=0
while read -r grid more; do
    i=$((i + 1))
    runs 0 train short.txt $small $more --out one$i </dev/null
    for launcher in $launchers; do
        for ranks in $(echo "$grid" | tr , ' '); do
            rm -rf many
            ranked "$launcher" "${ranks%x*}" 0 train short.txt $small $more --context-ranks "${ranks#*x}" --out many
            same one$i many
        done
    done
done <<'ROWS'
1x1,2x2,3x3,4x2,4x4 --arch gpt --heads 2 --width 16 --context 3000 --batch-tokens 3500 --accumulate 2 --dropout 0.1 --steps 2
3x3,4x2 --arch llama --heads 4 --kv-heads 2 --width 32 --context 3000 --batch-tokens 3000 --precision bf16 --recompute --steps 2
ROWS

title 'keys and values that travel in blocks change no bit'
runs 0 train short.txt $small --arch llama --heads 4 --kv-heads 2 --width 32 --context 3000 --batch-tokens 3000 --dropout 0.1 \
    --steps 2 --out collected
for launcher in $launchers; do
    for ranks in 1 2 3; do
        rm -rf many
        ranked "$launcher" $ranks 0 train short.txt $small --arch llama --heads 4 --kv-heads 2 --width 32 --context 3000 \
            --batch-tokens 3000 --dropout 0.1 --steps 2 --context-ranks $ranks --collect-limit 100000 --out many
        same collected many
    done
done
runs 2 train short.txt --collect-limit 100000 --out bad
says_part '--collect-limit requires --context-ranks'

title 'a run continues with other ranks'
set -- $launchers
run='--arch gpt --heads 2 --width 16 --context 1600 --batch-tokens 3200 --accumulate 2'
runs 0 train short.txt $small $run --steps 3 --save-every 1 --keep all --out whole
ranked "$1" 4 0 train short.txt $small $run --steps 3 --save-every 1 --keep all --context-ranks 2 --out part
rm -r part/checkpoint-00000003 part/checkpoint-00000002 part/model
ranked "$1" 3 0 train --resume part --context-ranks 3
same whole part
rm -r part/checkpoint-00000003 part/checkpoint-00000002 part/model
runs 0 train --resume part
same whole part

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
runs 0 train short.txt $small $run --steps 15 --save-every 3 --out alive
for launcher in $launchers; do
    rm -rf dead
    begin=$(date +%s)
    timeout 120 "$launcher" -n 3 sh die.sh train short.txt $small $run --steps 15 --save-every 3 --context-ranks 3 --out dead \
        >"$out" 2>"$err" </dev/null
    [ $? -ne 0 ] || failed "exit code: $launcher"
    [ $(($(date +%s) - begin)) -lt 30 ] || failed "the others went on: $launcher"
    [ ! -e dead/checkpoint-00000015 ] || failed 'the run was not ended'
    ranked "$launcher" 2 0 train --resume dead --context-ranks 2
    same alive dead
done

title 'a context that does not fit the memory of one rank'
# One global layer.  The inner rows of feed-forward are the largest arrays: four of them need 16 x inner bytes a token.
context=${QKV_CONTEXT:-8192}
inner=$((8192 * 4096 / context))
# One document, so that the first batch is a window of the whole context, whatever the texts are.
tr -s '\n' ' ' <text.txt | head -c $((8 * context + 1)) >whole.txt
long="--arch gpt --tokenizer bytes --layers 1 --heads 2 --width 32 --inner $inner --context $context
    --batch-tokens $context --steps 1 --valid short.txt"
cat >limited.sh <<'SH'
ulimit -v "$LIMIT" && exec "$QKV_BIN" "$@"
SH
LIMIT=560000 # kB: one rank needs 600,000 to 610,000, each of four 480,000 to 520,000
export LIMIT
runs 0 train whole.txt $long --out free
for launcher in $launchers; do
    timeout 1200 "$launcher" -n 1 sh limited.sh train whole.txt $long --out full >"$out" 2>"$err" </dev/null
    [ $? -eq 5 ] || failed "exit code of one rank: $launcher"
    says_part 'out of memory'
    rm -rf full many
    timeout 1200 "$launcher" -n 4 sh limited.sh train whole.txt $long --context-ranks 4 --out many \
        >"$out" 2>"$err" </dev/null
    [ $? -eq 0 ] || failed "exit code of four ranks: $launcher"
    same free many
done

title 'what ranks cannot share is refused by name'
set -- $launchers
# refused RANKS CODE WORDS ARGUMENTS...
refused() {
    size=$1 want=$2 words=$3
    shift 3
    ranked "${launchers##* }" "$size" "$want" train short.txt --out bad --steps 1 --tokenizer bytes --width 16 --heads 2 \
        --layers 2 "$@"
    [ "$(grep -c "^qkv: .*$words" "$err")" -eq 1 ] || failed "one message: $*"
    [ ! -e bad ] || failed "the folder of a run that did not begin: $*"
}
refused 3 2 'divisor of 3, found 2' --context-ranks 2 --context 1600
refused 2 2 'more than 768 tokens, found 300' --context-ranks 2 --context 300
refused 2 4 'probes are not supported' --context-ranks 2 --context 1600 --probe every=2
refused 2 4 'other than decoders' --context-ranks 2 --context 1600 --arch bert
runs 2 train short.txt --context-ranks 2 --out bad
says_part 'expected a divisor of 1, found 2'

finish
