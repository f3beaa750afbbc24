# SPDX-License-Identifier: MIT
# eval.sh: a model of every family of model.def is fine-tuned for two steps; its run is evaluated to the loss that
# training found, and without heads.
. tests/cli/lib.sh

# Texts of the words w7 to w14, and a folder of each family with a tokenizer of words; prints "FOLDER OBJECTIVE TEXTS".
cat >folders.py <<'PY'
import json, os, random, sys

golden, families = sys.argv[1:]
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

def objective(config):
    head = config.get('architectures', [''])[0]
    if 'CausalLM' in head or 'LMHead' in head:
        return 'causal text.txt'
    if 'ConditionalGeneration' in head or 'MTModel' in head or 'Gru' in head:
        return 'seq2seq pairs.tsv'
    if 'MaskedLM' in head:
        return 'masked text.txt'
    return 'contrastive pairs.tsv' if config['model_type'] == 'qkv-encoder' else None

with open('text.txt', 'w') as f:
    f.write('\n\n'.join(words(3, 30) for _ in range(8)) + '\n')
with open('pairs.tsv', 'w') as f:
    f.writelines(f'{words(2, 7)}\t{words(2, 7)}\n' for _ in range(12))
left = {line.split('"')[1] for line in open(families) if line.startswith('QKV_MODEL(')}
for name in sorted(os.listdir(golden)):
    path = os.path.join(golden, name)
    if not os.path.exists(path + '/config.json'):
        continue
    config = json.load(open(path + '/config.json'))
    kind = config['model_type']
    if kind not in left or not objective(config):
        continue
    left.remove(kind)
    os.mkdir(name)
    for file in 'config.json', 'model.safetensors':
        os.symlink(f'{path}/{file}', f'{name}/{file}')
    json.dump(tokenizer(config), open(name + '/tokenizer.json', 'w'))
    print(name, objective(config))
print('left', *sorted(left), file=sys.stderr)
PY
python3 folders.py "$here/../golden" "$here/../../src/model/family/model.def" >jobs 2>left || failed 'the folders'

title 'every family is here but two that have no model in tests/golden'
[ "$(cat left)" = 'left qkv-transformer qkv-words' ] || failed "$(cat left)"

value() { sed -n "s/.*\"$1\": *\([-0-9.e+]*\).*/\1/p" "$2" | tail -n 1; }
near() { python3 -c 'import sys; x, y = map(float, sys.argv[1:]); sys.exit(not abs(x - y) <= 1e-5 * (1 + y))' "$1" "$2"; }

while read -r name objective texts; do
    title "$name: the loss of validation is the loss of eval, and its heads can be ablated"
    runs 0 train "$texts" --from "$name" --valid "$texts" --objective "$objective" --out "run-$name" --steps 2 \
        --batch-tokens 256 --eval-every 2
    runs 0 eval "run-$name" --most 2 --json
    near "$(value loss "$out")" "$(value valid_loss "run-$name/log.jsonl")" || failed 'another loss'
    heads='L0.H*=mean'
    case $objective in seq2seq) heads='enc.L0.H*=mean,dec.L0.H*=mean,cross.L0.H*=mean' ;; esac
    case $name in gru*) code=4 ;; *) code=0 ;; esac
    runs $code eval "run-$name" --most 2 --json --ablate "$heads"
    [ $code -ne 0 ] || ! near "$(value loss "$out")" "$(value valid_loss "run-$name/log.jsonl")" || failed 'no effect'
done <jobs
finish
