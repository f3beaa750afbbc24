# SPDX-License-Identifier: MIT
# train_families.sh: every family of model.def is trained from its folder in tests/golden, by the command,
# and what was trained is evaluated.
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
small='--tokenizer characters --context 12 --steps 4 --batch-tokens 64 --json'
families=
# train FOLDER FILE [OPTION...]: trains from a golden folder, then evaluates.
train() {
    folder=$1 text=$2
    shift 2
    title "$folder"
    runs 0 train "$text" --out "$folder" --from "$root/tests/golden/$folder" $small "$@"
    grep -q '"loss":[0-9]' "$folder/log.jsonl" || failed 'a loss that is a number'
    runs 0 eval "$folder" --json
    prints_part '"loss":'
    families="$families $(sed -n 's/.*"model_type": *"\([^"]*\)".*/\1/p' "$folder/model/config.json")"
}

for folder in bert bert-tokens distilbert-tokens roberta-tokens xlm-roberta-tokens mpnet modernbert; do
    train $folder text.txt
done
for folder in gpt2 llama llama-yarn mistral qwen2 qwen3 gemma2 opt; do train $folder text.txt; done
for folder in bart mbart marian t5 flan-t5; do train $folder pairs.tsv; done
for folder in bert-labels modernbert-labels mpnet-labels; do
    train $folder labels.tsv --objective classify
done
train encoder-plain pairs.tsv --objective contrastive --batch-sequences 8

title 'every family was trained'
for family in $(sed -n 's/^QKV_MODEL([^"]*"\([^"]*\)".*/\1/p' "$root/src/model/family/model.def"); do
    case $family in
    qkv-*) continue ;; # cli/train
    esac
    case " $families " in
    *" $family "*) ;;
    *) failed "$family was not trained" ;;
    esac
done
finish
