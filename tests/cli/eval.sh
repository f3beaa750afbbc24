# SPDX-License-Identifier: MIT
# eval.sh: the command fine-tunes a model of each kind for two steps with the tokenizer of its folder, and evaluates
# the run to the loss that training found, then without heads.  cli/train_families does so for every family with a new
# tokenizer.
. tests/cli/lib.sh

# Writes texts of the words w7 to w14, and folders of models with a tokenizer of words.
cat >folders.py <<'PY'
import json, os, random, sys

golden, names = sys.argv[1], sys.argv[2:]
random.seed(7)

def words(least, most):
    return ' '.join(f'w{random.randrange(7, 15)}' for _ in range(random.randint(least, most)))

def tokenizer(config):
    size = min(config['vocab_size'], config.get('decoder_vocab_size') or config['vocab_size'])
    special = {size - 1: '[MASK]'}
    for key, name in ('pad_token_id', '<pad>'), ('eos_token_id', '</s>'), ('bos_token_id', '<s>'):
        if isinstance(config.get(key), int) and config[key] < size:
            special.setdefault(config[key], name)
    if '</s>' not in special.values():
        special[5] = '</s>'
    added = [{'id': i, 'content': name, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False,
              'special': True} for i, name in sorted(special.items())]
    vocab = {special.get(i, f'w{i}'): i for i in range(size)}
    return {'version': '1.0', 'added_tokens': added, 'pre_tokenizer': {'type': 'WhitespaceSplit'},
            'model': {'type': 'WordLevel', 'unk_token': f'w{size - 2}', 'vocab': vocab}}

with open('text.txt', 'w') as f:
    f.write('\n\n'.join(words(3, 30) for _ in range(8)) + '\n')
with open('pairs.tsv', 'w') as f:
    f.writelines(f'{words(2, 7)}\t{words(2, 7)}\n' for _ in range(12))
for name in names:
    path = f'{golden}/{name}'
    config = json.load(open(path + '/config.json'))
    os.mkdir(name)
    for file in 'config.json', 'model.safetensors':
        os.symlink(f'{path}/{file}', f'{name}/{file}')
    json.dump(tokenizer(config), open(name + '/tokenizer.json', 'w'))
PY
check python3 folders.py "$here/../golden" bert gpt2 marian encoder-plain gru-attention bert-labels

# tune FOLDER OBJECTIVE TEXTS HEADS CODE
tune() {
    title "$1: the loss of validation is the loss of eval, and its heads can be ablated"
    runs 0 train "$3" --from "$1" --valid "$3" --objective "$2" --out "run-$1" --steps 2 --batch-tokens 256 \
        --eval-every 2
    evaluates "run-$1" "$4" "$5"
}
tune bert masked text.txt 'L0.H*=mean' 0
tune gpt2 causal text.txt 'L0.H*=mean' 0
tune marian seq2seq pairs.tsv 'enc.L0.H*=mean,dec.L0.H*=mean,cross.L0.H*=mean' 0
tune encoder-plain contrastive pairs.tsv 'L0.H*=mean' 0
title 'a run or folder as operand and as --model'
for more in '' text.txt; do
    runs 0 eval run-gpt2 $more
    cp "$out" operand
    runs 0 eval $more -m run-gpt2
    check cmp "$out" operand
done
runs 0 eval run-gpt2 --perplexity text.txt
cp "$out" operand
runs 0 eval -m run-gpt2 --perplexity text.txt
check cmp "$out" operand
runs 2 eval text.txt -m run-gpt2 --perplexity text.txt
says_part "expected a model folder as the only operand, found 'text.txt'"
title 'labels: a text of one label is evaluated, and an unknown label is reported with its line'
printf 'w7 w8\tgood\nw9\tgood\n' >one.tsv
runs 0 eval bert-labels one.tsv
prints_part 'classify, 2 sequences'
printf 'w7 w8\tgood\n\nw9\tawful\nw8\tawful\n' >three.tsv
runs 3 eval bert-labels one.tsv three.tsv
says_part 'qkv: three.tsv: at line 3: text has a label that the model does not know'
printf '%s\n' '{"text": "w7", "label": 2}' '{"text": "w8", "label": 3}' >numbers.jsonl
runs 3 eval bert-labels numbers.jsonl
says_part 'qkv: numbers.jsonl: at line 2: text has a label that the model does not know'
title 'a file without texts'
: >empty
runs 3 eval gpt2 empty
says 'qkv: empty: no text to evaluate on, expected at least one example, found none'
tune gru-attention seq2seq pairs.tsv 'enc.L0.H*=mean,dec.L0.H*=mean,cross.L0.H*=mean' 4
finish
