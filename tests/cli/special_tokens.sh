# SPDX-License-Identifier: MIT
# special_tokens.sh: tests that training and evaluation use the special tokens that config.json and generation_config.json
# name, and a token's spelling only for tokenizers without such a model; and that folders keep or name their tokenizer.
root=$PWD
. tests/cli/lib.sh
export QKV_THREADS=1
python3 - "$root" <<'PY'
import json, os, shutil, sys
golden = os.path.join(sys.argv[1], 'tests/golden')
def folder(name, model, config={}, generation=None, special={}, drop=()):
    """A golden model with other keys in its config.json, and a tokenizer of words w0, w1, ... in which ids of
    `special` are special tokens; </s>, <s> and <|endoftext|> are plain words."""
    os.mkdir(name)
    shutil.copy(f'{golden}/{model}/model.safetensors', name)
    keys = json.load(open(f'{golden}/{model}/config.json'))
    keys = {k: v for k, v in (keys | config).items() if k not in drop}
    json.dump(keys, open(f'{name}/config.json', 'w'))
    if generation is not None:
        json.dump(generation, open(f'{name}/generation_config.json', 'w'))
    words = {f'w{i}': i for i in range(keys['vocab_size'])}
    for i, word in enumerate(['<s>', '</s>', '<|endoftext|>']):
        words = {word if k == f'w{20 + i}' else k: v for k, v in words.items()}
    for word, i in special.items():
        words = {word if v == i else k: v for k, v in words.items()}
    added = [{'id': i, 'content': word, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False,
              'special': True} for word, i in special.items()]
    json.dump({'version': '1.0', 'added_tokens': added, 'pre_tokenizer': {'type': 'WhitespaceSplit'},
               'model': {'type': 'WordLevel', 'unk_token': 'w19', 'vocab': words}}, open(f'{name}/tokenizer.json', 'w'))
folder('config', 'llama', {'eos_token_id': 7}, {'eos_token_id': 8}, {'<end>': 7})
folder('list', 'llama', {'eos_token_id': [9, 7]})
folder('generation', 'llama', {'eos_token_id': None}, {'eos_token_id': [8, 9]})
folder('silent', 'llama', {'eos_token_id': None})
folder('pairs', 'marian', {'decoder_start_token_id': 5, 'bos_token_id': None, 'eos_token_id': 7})
folder('moved', 'marian', {'eos_token_id': 7}, {'decoder_start_token_id': 6, 'eos_token_id': 7},
       drop=['decoder_start_token_id', 'bos_token_id'])
folder('nowhere', 'marian', {'eos_token_id': 7}, drop=['decoder_start_token_id', 'bos_token_id'])
folder('endless', 'marian', {'decoder_start_token_id': 5}, drop=['eos_token_id'])
with open('text.txt', 'w') as f:
    f.write('\n\n'.join(['w1 w2 w3 w4'] * 20))
with open('pairs.tsv', 'w') as f:
    f.write('w1 w2 w3\tw4 w3 w2\n' * 20)
PY
small='--context 8 --steps 1 --batch-tokens 64 --json'
# The first ids of the dataset of a run.
ids() { od -An -v -tu4 -N"$((4 * $2))" "$1/data/train.tokens" | xargs; }

title 'a document ends with the first end token of config.json, then of generation_config.json, or with none'
for row in 'config:1 2 3 4 7 1' 'list:1 2 3 4 9 1' 'generation:1 2 3 4 8 1' 'silent:1 2 3 4 1 2'; do
    name=${row%%:*}
    runs 0 train text.txt --from "$name" --out "run-$name" $small
    [ "$(ids "run-$name" 6)" = "${row#*:}" ] || failed "$name: $(ids "run-$name" 6)"
done

title 'the end token of a model trained here is the special token of its tokenizer, also from another model'
runs 0 train text.txt --arch llama --layers 1 --heads 1 --width 8 --tokenizer config --out tokens $small
[ "$(ids tokens 6)" = '1 2 3 4 1 2' ] || failed "plain </s> is no end: $(ids tokens 6)"
runs 0 train text.txt --from config --tokenizer characters --out new $small
check python3 - <<'PY'
import json
tokens = {t['content']: t['id'] for t in json.load(open('new/tokenizer.json'))['added_tokens']}
config = json.load(open('new/model/config.json'))
assert (config['bos_token_id'], config['eos_token_id']) == (tokens['<s>'], tokens['</s>']), (config, tokens)
PY

title 'the input of a decoder begins with decoder_start_token_id of either file'
# loss START: the loss of evaluation with this token in config.json
loss() {
    rm -rf with
    cp -r "$1" with
    python3 - "$2" <<'PY'
import json, sys
config = json.load(open('with/config.json')) | {'decoder_start_token_id': int(sys.argv[1])}
json.dump(config, open('with/config.json', 'w'))
PY
    runs 0 eval with pairs.tsv --json
    last_number loss "$out"
}
for row in pairs:5 moved:6; do
    name=${row%%:*}
    runs 0 train pairs.tsv --from "$name" --out "run-$name" $small --rate 1e-30
    trained=$(last_number loss "run-$name/log.jsonl")
    runs 0 eval "$name" pairs.tsv --json
    near "$(last_number loss "$out")" "$(loss "$name" "${row#*:}")" || failed "$name: eval begins with another token"
    near "$(loss "$name" 4)" "$(loss "$name" "${row#*:}")" && failed "$name: the first token has no effect"
    runs 0 eval "run-$name" pairs.tsv --json
    near "$(last_number loss "$out")" "$(loss "$name" "${row#*:}")" || failed "$name: the run begins with another token"
done

title 'a folder names the tokenizer class that opens tokenizer.json as it is, and the special tokens of the model'
runs 0 train text.txt --arch llama --layers 1 --heads 1 --width 8 --tokenizer characters --out letters --export shown $small
runs 0 train text.txt --arch bert --layers 1 --heads 1 --width 8 --out masked --vocab 40 $small
check python3 - <<'PY'
import json
def described(folder): return json.load(open(folder + '/tokenizer_config.json'))
for folder in 'letters/model', 'shown':
    assert described(folder) == {
        'tokenizer_class': 'PreTrainedTokenizerFast', 'model_input_names': ['input_ids', 'attention_mask'],
        'model_max_length': 8, 'clean_up_tokenization_spaces': False,
        'bos_token': '<s>', 'eos_token': '</s>', 'unk_token': '<unk>'}, described(folder)
masked = described('masked/model')
assert masked['model_input_names'] == ['input_ids', 'token_type_ids', 'attention_mask']
assert [masked[k + '_token'] for k in ('cls', 'sep', 'mask', 'pad', 'unk')] == ['[CLS]', '[SEP]', '[MASK]', '[PAD]', '[UNK]']
# the end token of config.json that is special in the tokenizer, and nothing that is plain
assert described('run-config/model').get('eos_token') == '<end>' and 'bos_token' not in described('run-config/model')
PY

title 'a decoder from scratch samples by default, another model does not'
check python3 - <<'PY'
import json, os
for folder in 'letters/model', 'shown':
    with open(folder + '/generation_config.json') as f:
        text = f.read()
    assert json.loads(text) == {'do_sample': True, 'temperature': .8, 'top_p': .95, 'top_k': 0, 'bos_token_id': 1,
                                'eos_token_id': 2}, folder
    assert '"temperature": 0.8,' in text and '"top_p": 0.95,' in text, text  # not 0.80000000000000004
for folder in 'masked', 'run-silent', 'run-config': # an encoder; a model that began with a folder with and without it
    there = os.path.exists(folder + '/model/generation_config.json')
    assert there == (folder == 'run-config'), folder
PY
runs 0 generate -m letters/model w1 -n 12
says_part 'the tokens are sampled with temperature 0.8, as generation_config.json of the model says'
cp "$out" usual
runs 0 generate -m letters/model w1 -n 12 -t 0.8 --top-p 0.95 --top-k 0 --seed 0
check cmp usual "$out"

title 'a folder keeps the files of the tokenizer and of generation of the model that training began with'
cp -r generation described
printf '{"tokenizer_class": "LlamaTokenizer", "model_max_length": 9}' >described/tokenizer_config.json
runs 0 train text.txt --from described --out kept --export out $small
for folder in kept/model out; do
    check cmp described/tokenizer_config.json $folder/tokenizer_config.json
    check cmp described/generation_config.json $folder/generation_config.json
done

title 'a tokenizer of another format than tokenizer.json is trained with and copied as it is'
cp -r "$root/tests/golden/bert-tokens" pieces
python3 - <<'PY'
words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'] + [f'w{i}' for i in range(30)]
open('pieces/vocab.txt', 'w').write('\n'.join(words) + '\n')
PY
runs 0 train text.txt --from pieces --out wordpiece $small
check cmp pieces/vocab.txt wordpiece/model/vocab.txt
[ ! -e wordpiece/model/tokenizer.json ] || failed 'a second tokenizer'
runs 0 train --resume wordpiece --steps 2 --json
runs 0 eval wordpiece --json

title 'a model that names no first or no end token is refused, and the message names the key'
runs 4 train pairs.tsv --from nowhere --out no-start $small
says_part 'expected decoder_start_token_id in config.json or generation_config.json'
runs 4 train pairs.tsv --from endless --out no-end $small
says_part 'expected eos_token_id in config.json or generation_config.json'
finish
