# SPDX-License-Identifier: MIT
# train_tokenizer.sh: tests training tokenizers on texts.
. tests/cli/lib.sh

yes 'the cat sat on the mat, the cat sat on the hat' | head -n 200 >cats
printf 'She sells sea shells by the sea shore.\n' >shells

title 'each kind writes a tokenizer of at most the requested size'
for kind in bpe wordpiece unigram characters bytes; do
    size=300
    [ $kind = unigram ] && size=40
    runs 0 train-tokenizer cats shells --kind $kind --vocab $size -o $kind.json --json
    silent
    python3 - "$out" $kind $size <<'PY' || failed "$kind"
import json, sys
d = json.load(open(sys.argv[1]))
t = json.load(open(d['path']))
n = len(t['model']['vocab'])
assert d['kind'] == sys.argv[2] and d['tokens'] == n <= int(sys.argv[3]), (d, n)
assert d['bytes'] == 9439 and d['bytes_per_token'] >= 1, d
PY
done
runs 0 train-tokenizer cats --kind bytes -o - --force
prints_part '"type":"BPE"'

title 'special tokens have the first ids, and are added around each text on request'
runs 0 train-tokenizer cats --vocab 300 --special '<pad>,<s>' --begin '<s>' --end '</s>' -o special.json
prints_part 'special.json: bpe, 273 tokens, 3.36 bytes per token'
python3 - <<'PY' || failed 'the special tokens'
import json
t = json.load(open('special.json'))
assert [(a['id'], a['content'], a['special']) for a in t['added_tokens']] == [
    (0, '<pad>', True), (1, '<s>', True), (2, '</s>', True)]
assert t['post_processor']['type'] == 'TemplateProcessing'
PY

title 'standard input gives the same file'
"$QKV_BIN" train-tokenizer --vocab 300 --special '<pad>,<s>' --begin '<s>' --end '</s>' -o pipe.json <cats >"$out" 2>"$err" || failed 'a pipe'
check cmp -s special.json pipe.json

title 'lower case, and rare words'
runs 0 train-tokenizer shells --kind wordpiece --lowercase --vocab 300 --least 3 -o lower.json
python3 - <<'PY' || failed 'lower case'
import json
vocab = json.load(open('lower.json'))['model']['vocab']
assert 's' in vocab and 'S' not in vocab and 'shells' not in vocab
PY

title 'invalid requests are refused, and an existing file is kept'
runs 2 train-tokenizer cats -o bpe.json
says 'qkv: bpe.json: the output file exists already, expected a new name, or --force to replace it'
runs 0 train-tokenizer cats --vocab 290 -o bpe.json --force
runs 2 train-tokenizer cats
says 'qkv: no output file is given, expected -o FILE'
runs 2 train-tokenizer cats --vocab 100 -o new.json
says 'qkv: vocabulary too small, expected at least 256 bytes and 0 special tokens, found a size of 100'
runs 6 train-tokenizer missing -o new.json
says 'qkv: missing: cannot open: No such file or directory'
runs 6 train-tokenizer . -o new.json
says 'qkv: .: the input is a directory, expected a text file'
: >empty
runs 3 train-tokenizer empty -o new.json
says 'qkv: no text to train the tokenizer on, expected at least one character'
runs 2 train-tokenizer cats --special 'a,,b' --vocab 300 -o new.json
says_part 'invalid special token'
check [ ! -e new.json ]
finish
