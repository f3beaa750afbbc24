# SPDX-License-Identifier: MIT
# train_families.sh: the command trains every family of model.def from its folders in tests/golden, with a new
# tokenizer of characters, and evaluates each run to the loss that training found, then without heads.
root=$PWD
. tests/cli/lib.sh
export QKV_THREADS=1
python3 - <<'PY'
import random
random.seed(3)
with open('text.txt', 'w') as f:
    for _ in range(40):
        f.write(''.join(random.choice('abcdefgh ') for _ in range(30)) + '\n\n')
with open('pairs.tsv', 'w') as f:
    for _ in range(40):
        word = ''.join(random.choice('abcdefgh') for _ in range(5))
        f.write(word + '\t' + word[::-1] + '\n')
with open('labels.tsv', 'w') as f:
    for i in range(60):
        f.write('abcdef'[i % 3 * 2] * 4 + '\t' + ['one', 'two', 'three'][i % 3] + '\n')
PY
head -n 4 pairs.tsv >few.tsv
small='--tokenizer characters --context 12 --steps 4 --eval-every 4 --batch-tokens 64 --json'
families= turn=0
# train FOLDER FILE [OPTION...]: trains from a golden folder, then evaluates the run with and without its heads.
train() {
    folder=$1 text=$2 valid=$2 heads='L0.H*=mean' ablated=0
    shift 2
    turn=$((turn + 1))
    [ -z "${QKV_SLOW:-}" ] || [ $((turn % 3)) -eq 0 ] || return # a third of them with a sanitizer
    title "$folder"
    case $text in pairs.tsv) heads='enc.L0.H*=mean,dec.L0.H*=mean,cross.L0.H*=mean' ;; esac
    case $folder in
    encoder-* | *-encoder) heads='L0.H*=mean' valid=few.tsv ;; # one batch: the contrastive loss depends on the batches
    gru-*) ablated=4 ;;                            # no heads that can be ablated
    esac
    runs 0 train "$text" --valid "$valid" --out "$folder" --from "$root/tests/golden/$folder" $small "$@"
    grep -q '"loss":[0-9]' "$folder/log.jsonl" || failed 'a loss that is a number'
    evaluates "$folder" "$heads" $ablated
    families="$families $(sed -n 's/.*"model_type": *"\([^"]*\)".*/\1/p' "$folder/model/config.json")"
}

for folder in bert bert-tokens camembert electra electra-small albert-groups distilbert-tokens roberta-tokens xlm-roberta-tokens mpnet modernbert \
    nomic_bert eurobert; do
    train $folder text.txt
done
for folder in gpt2 llama llama-yarn mistral ministral ministral3 qwen2 qwen3 phi3 phi3-short smollm3 olmo2 gemma gemma2 gemma3_text \
    granite opt bart-decoder marian-decoder; do train $folder text.txt; done
for folder in bart mbart marian t5 flan-t5 mt5; do train $folder pairs.tsv; done
for folder in bert-labels albert-labels modernbert-labels mpnet-labels eurobert-labels; do
    train $folder labels.tsv --objective classify
done
train encoder-plain pairs.tsv --objective contrastive --batch-sequences 8
train qwen2-encoder pairs.tsv --objective contrastive --batch-sequences 8
train gru-attention pairs.tsv

title 'labels of the last token are not trained'
for folder in llama-encoder gemma3_text-encoder; do # one has labels, the other would get them
    runs 4 train labels.tsv --valid labels.tsv --out r --from "$root/tests/golden/$folder" $small --objective classify
    says_part 'training of labels is not supported for a model that reads them from the last token'
done

title 'a link out of the folder is not copied to the run'
cp -r "$root/tests/golden/bert" linked
echo '{"auths":{}}' >private
for file in generation_config.json tokenizer_config.json; do
    rm -f linked/generation_config.json linked/tokenizer_config.json
    ln -s ../private linked/$file
    runs 3 train text.txt --from linked --out never --context 12 --steps 1
    says_part "linked/$file: link leads out of the folder, expected a file inside of linked"
    [ ! -e "never/$file" ] || failed "$file in the run"
done

[ -z "${QKV_SLOW:-}" ] || finish
title 'every family was trained, except two that have no model in tests/golden'
for family in $(sed -n 's/^QKV_MODEL([^"]*"\([^"]*\)".*/\1/p' "$root/src/model/family/model.def"); do
    case $family in
    qkv-transformer | qkv-words) continue ;; # cli/train
    esac
    case " $families " in
    *" $family "*) ;;
    *) failed "$family was not trained" ;;
    esac
done
finish
