# SPDX-License-Identifier: MIT
# train_options.sh: tests the options of a run, and how a continued run treats changed options and files.
. tests/cli/lib.sh
export QKV_THREADS=1
sizes='--tokenizer characters --layers 1 --heads 1 --width 8 --batch-tokens 64'
small="$sizes --context 16 --steps 2 --eval-every 2"
python3 - <<'PY'
import random
random.seed(1)
words = 'the cat sat on a mat and saw one dog run home with no bone'.split()
with open('text.txt', 'w') as f:
    for _ in range(40):
        f.write(' '.join(random.choice(words) for _ in range(12)) + '.\n\n')
with open('pairs.tsv', 'w') as f, open('labels.tsv', 'w') as g:
    for i in range(40):
        f.write(f'{i}\t{"x" * 10}{i % 10}\n')
        g.write(f'{random.choice(words)} {i}\t{"yes" if i % 2 else "no"}\n')
PY
left() { [ ! -e "$1" ] || failed "$1 exists, expected no such file"; }

title 'a number may begin or end with its decimal point'
runs 0 train text.txt --out run $small --dropout .5 --clip 2. --rate 1.e-3
grep -q '"dropout": 0.5' run/run.json || failed 'dropout of the run'

title 'an invalid 0 is refused, not treated as the default; a valid 0 is kept'
for option in rate eps temperature mask-share epochs valid-share; do
    runs 2 train text.txt --out r $small --$option 0
    says "qkv: --$option: expected a number above 0, found 0"
done
left r
runs 0 train text.txt --out zero $small --beta1 0 --decay 0
grep -q '"beta1": -1.0' zero/run.json || failed 'beta1 of the run'

title 'an option of another objective is refused'
runs 2 train text.txt --out r $small --window 3
says_part 'require --objective words'
runs 2 train text.txt --out r $small --export-type bf16
says 'qkv: --export-type requires --export'
runs 2 train text.txt --out r --objective words --dropout 0.1
says_part 'qkv: --dropout has no effect on word vectors, expected only --vocab'
runs 2 train text.txt --out r --objective words --epochs 1e30
says_part '--epochs: expected an integer of at least 1 for word vectors'
left r

title 'an objective that the model does not support is refused before the first step'
runs 2 train pairs.tsv --out r $sizes --arch gpt --objective contrastive
says_part 'objective contrastive does not fit the model, expected an encoder, found gpt'
left r

title "a folder's positions bound the context; targets have one before them"
runs 0 train pairs.tsv --out pairs $sizes --arch vaswani --context 13 --steps 1
runs 0 train pairs.tsv --out on --from pairs/model --batch-tokens 64 --steps 1
grep -q '"context": 13' on/run.json || failed 'context of the run'
runs 2 train pairs.tsv --out r --from pairs/model --context 14
says_part 'context (--context) is too long, expected at most 13 (the model has 14 positions), found 14'
left r

title 'a file is no folder of a run'
echo x >a-file
for words in '--out a-file' '--out new --export a-file'; do
    runs 2 train "$here/../../README.md" $words --steps 1
    says_part 'expected the name of a folder, found a file'
done
runs 2 train --resume a-file
says 'qkv: a-file: --resume: expected the name of a folder, found a file'

title 'a run of one step works'
runs 0 train text.txt --out one $sizes --context 16 --steps 1
grep -q '^1 step, loss ' "$out" || failed 'one step in words'

title "config.json has the dropout of training under its family's names: other programs default to a tenth"
python3 - run zero pairs <<'PY' || failed 'dropout in config.json'
import json, sys
gpt, none, pairs = (json.load(open(f'{run}/model/config.json')) for run in sys.argv[1:])
names = 'resid_pdrop', 'embd_pdrop', 'attn_pdrop'
assert [gpt[n] for n in names] == [.5] * 3 and [none[n] for n in names] == [0] * 3
assert (pairs['dropout'], pairs['attention_dropout'], pairs['activation_dropout']) == (.1, .1, 0)
PY

title 'a model stores the names of its labels, and is evaluated by them without its run'
runs 0 train labels.tsv --out named $sizes --objective classify --steps 40 --rate 3e-3 --export named.model
grep -q '"0": "no"' named.model/config.json || failed 'the name of a label in config.json'
runs 0 eval named --json
runs 0 eval named.model labels.tsv --json
prints_part '"sequences":40'
sed 's/\tyes/\tperhaps/' labels.tsv >strange.tsv
runs 3 eval named.model strange.tsv
says_part 'text has a label that the model does not know, expected a label of its training, found "perhaps"'

title 'a recurrent model that recomputes its activations learns the same weights'
for way in '' --recompute; do
    runs 0 train pairs.tsv --out gru$way $sizes --arch gru-attention --steps 3 --dropout 0.1 --seed 2 $way
done
check cmp -s gru/model/model.safetensors gru--recompute/model/model.safetensors

if [ -z "${QKV_SLOW:-}" ]; then
    title 'without a terminal, a line about the progress appears every 20 seconds'
    # the command is stopped for most of them, and then has time for a step
    python3 "$here/run_for.py" STOP,20,CONT,4,INT 1 "$QKV_BIN" train text.txt --out log $sizes --steps 1000000000 >"$out" 2>"$err"
    [ $? -eq 130 ] || failed 'exit code'
    says_part 'qkv: note: step '
    says_part '/1000000000 '
fi

title 'an encoder without an output head for masked tokens gets one, with a note'
runs 0 train text.txt --out encoder $small --arch bert --seed 5
cp -r encoder/model/ plain
rm plain/manifest.json # it is no checkpoint, and may be changed
python3 - plain/model.safetensors <<'PY'
import json, struct, sys
data = open(sys.argv[1], 'rb').read()
n, = struct.unpack('<Q', data[:8])
header, out, at = json.loads(data[8:8 + n]), {}, 0
header.pop('__metadata__', None)
body = b''
for name, t in header.items():
    if name.startswith('bert.'):
        begin, end = t['data_offsets']
        out[name[5:]] = {**t, 'data_offsets': [at, at + end - begin]}
        at += end - begin
        body += data[8 + n + begin:8 + n + end]
text = json.dumps(out).encode()
open(sys.argv[1], 'wb').write(struct.pack('<Q', len(text)) + text + body)
PY
runs 0 train text.txt --from plain --objective masked --out masked --batch-tokens 64 --steps 2
says 'qkv: note: plain has no head for masked tokens: training begins with a new one'
grep -q 'cls.predictions.transform.dense.weight' masked/model/model.safetensors || failed 'no head was saved'
runs 0 train --resume masked --steps 3
silent
runs 0 train text.txt --from encoder/model --out head --batch-tokens 64 --steps 1
silent

title 'eval: a seed of 0 is one, and a context that the model does not have is refused'
runs 0 eval encoder --json
sed 's/,"seconds.*//' "$out" >seed5
runs 0 eval encoder --json --seed 5
[ "$(sed 's/,"seconds.*//' "$out")" = "$(cat seed5)" ] || failed "the run's seed, said"
runs 0 eval encoder --json --seed 0
[ "$(sed 's/,"seconds.*//' "$out")" = "$(cat seed5)" ] && failed "a seed of 0 was taken for the run's"
runs 2 eval encoder text.txt --context 100
says_part 'context (--context) is too long, expected at most 16 (the model has 16 positions), found 100'

title 'files that only resemble the remains of a kill are not removed'
mkdir own && echo mine >own/notes.tmp.txt
runs 2 train text.txt --out own $small
says "qkv: own: folder contains other files and no run, expected a new folder or the folder of a run"
[ "$(cat own/notes.tmp.txt)" = mine ] || failed 'a file of the user'
echo mine >run/notes.tmp.1
echo half >run/tokenizer.json.tmp.12345.1
runs 0 train --resume run
[ -f run/notes.tmp.1 ] || failed 'a file of the user in a run'
left run/tokenizer.json.tmp.12345.1

title 'a missing required member of the run'
for member in objective arch optimizer schedule context; do
    cp -r run lost
    sed -i "/\"$member\":/d" lost/run.json
    runs 3 train --resume lost
    says_part "run.json has lost a required member, expected \"$member\", found none"
    rm -r lost
done

title 'an encoder with one bare feed-forward network after all layers is trained, resumed and run'
bare="text.txt --arch bare-encoder $sizes --context 16"
runs 0 train $bare --out bare --steps 4 --save-every 2
for member in '"feed_forward": "bare"' '"norm": "both"' '"hidden_act": "relu"' '"positions": "sinusoidal"' \
    '"final_norm": false'; do check grep -q "$member" bare/model/config.json; done
runs 0 train --resume bare --steps 6
check [ -f bare/checkpoint-00000006/model.safetensors ]
runs 0 trace 'some text' -m bare/model --what hidden -o bare.safetensors
runs 0 view 'some text' -m bare/model --terminal --json

title 'an encoder-decoder with one bare feed-forward network after each stack is its formula'
runs 0 train pairs.tsv --out stacks --arch bare-transformer --layers 2 --heads 2 --width 8 --tokenizer characters --steps 4
check grep -q '"feed_forward": "bare"' stacks/model/config.json
runs 0 trace 'one two' '1 2' -m stacks/model --what hidden -o stacks.safetensors
python3 - <<'PY' || failed 'the formula of the stacks'
import json, math, struct
def arrays(path):
    b = open(path, "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    out = {}
    for k, t in json.loads(b[8:8 + n]).items():
        if k == "__metadata__" or t["dtype"] != "F32":
            continue
        x = struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f",
                          b[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
        w = t["shape"][-1]
        out[k] = [list(x[i:i + w]) for i in range(0, len(x), w)] if len(t["shape"]) > 1 else list(x)
    return out
w, seen = arrays("stacks/model/model.safetensors"), arrays("stacks.safetensors")
H, E, EPS = 2, 4, 1e-5
def linear(name, x):
    W, b = w[name + ".weight"], w[name + ".bias"]
    return [[sum(p * q for p, q in zip(r, o)) + c for o, c in zip(W, b)] for r in x]
def norm(name, x):
    out = []
    for r in x:
        m = sum(r) / len(r)
        s = math.sqrt(sum((v - m) ** 2 for v in r) / len(r) + EPS)
        out.append([(v - m) / s * g + b for v, g, b in zip(r, w[name + ".weight"], w[name + ".bias"])])
    return out
def attention(name, x, memory, causal):
    q, k, v = (linear(f"{name}.{n}_proj", y) for n, y in (("q", x), ("k", memory), ("v", memory)))
    out = []
    for i, r in enumerate(q):
        row = []
        for h in range(0, H * E, E):
            keys = range(i + 1 if causal else len(k))
            e = [math.exp(sum(a * b for a, b in zip(r[h:h + E], k[j][h:h + E])) / math.sqrt(E)) for j in keys]
            row += [sum(p * v[j][h + d] for p, j in zip(e, keys)) / sum(e) for d in range(E)]
        out.append(row)
    return linear(name + ".out_proj", out)
def sublayer(name, x, memory, causal):
    y = norm(name + "_layer_norm_in", x)
    z = attention(name, y, y if memory is None else memory, causal)
    return norm(name + "_layer_norm", [[a + b for a, b in zip(r, s)] for r, s in zip(x, z)])
def feed_forward(side, x):
    return linear(side + ".fc2", [[max(0, v) for v in r] for r in linear(side + ".fc1", x)])
memory = None
for side in "encoder", "decoder":
    x = seen[side + "_hidden_states.0"]
    for l in range(2):
        at = f"model.{side}.layers.{l}."
        x = sublayer(at + "self_attn", x, None, side == "decoder")
        if side == "decoder":
            x = sublayer(at + "encoder_attn", x, memory, False)
        if l == 0:
            got = seen[side + "_hidden_states.1"]
            assert all(abs(a - b) < 1e-4 for r, s in zip(x, got) for a, b in zip(r, s)), (side, x[0], got[0])
    x = feed_forward("model." + side, x)
    got = seen[side + "_hidden_states.2"]
    assert all(abs(a - b) < 1e-4 for r, s in zip(x, got) for a, b in zip(r, s)), (side, x[0], got[0])
    memory = x
PY
runs 0 translate 'one two' -m stacks/model --json

title 'moved texts are the same texts; changed texts are not'
mkdir there && cp text.txt there/moved.txt
runs 0 train there/moved.txt --out run --steps 3
runs 3 train pairs.tsv --out run --steps 4
says_part 'the text has changed since the run began'

title 'an invalid new text leaves the old data unchanged'
cp -r run before
: >there/moved.txt
runs 3 train --resume run --allow-data-change
check cmp run/data/index.json before/data/index.json
left run/data.new
cp text.txt there/moved.txt
runs 0 train --resume run --steps 4

title 'labels keep their numbers'
runs 0 train labels.tsv --out labels $sizes --objective classify --steps 1
sed 's/yes/maybe/' labels.tsv >other && cp labels.tsv kept.tsv && cp other labels.tsv
runs 3 train --resume labels --steps 2 --allow-data-change
says_part 'expected "yes", found "maybe"'
{ sed -n 2p kept.tsv; cat kept.tsv; } >labels.tsv
runs 3 train --resume labels --steps 2 --allow-data-change
says_part 'label 0 of the changed text'
{ cat kept.tsv; sed -n 2p kept.tsv; } >labels.tsv
runs 0 train --resume labels --steps 2 --allow-data-change
says_part 'it was tokenized again'

finish
