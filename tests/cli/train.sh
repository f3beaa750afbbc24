# SPDX-License-Identifier: MIT
# train.sh: tests that each architecture learns and that the result can be evaluated and opened; a run is
# bit-identical for any number of threads, stopped or not.
. tests/cli/lib.sh
export QKV_THREADS=1 # other tests may run at the same time; cases that need more threads set them
python3 - <<'PY'
import random
random.seed(3)
digits = 'zero one two three four five six seven eight nine'.split()
with open('text.txt', 'w') as f:
    for _ in range(150):
        n = random.randrange(10)
        f.write(' '.join(digits[(n + i) % 10] for i in range(12)) + '.\n\n')
with open('pairs.tsv', 'w') as f:
    for _ in range(300):
        n = [random.randrange(10) for _ in range(random.randrange(1, 3))]
        f.write(' '.join(digits[i] for i in n) + '\t' + ' '.join(str(i) for i in n) + '\n')
with open('labels.tsv', 'w') as f:
    for _ in range(120):
        n = random.randrange(10)
        f.write(f'{digits[n]} {digits[n]}\t{"odd" if n % 2 else "even"}\n')
PY
batch=512 steps=60 more=80
[ -z "${QKV_SLOW:-}" ] || batch=192 steps=8 more=8 # with a sanitizer each way is run, and does not learn
small="--layers 1 --heads 2 --width 32 --batch-tokens $batch --rate 0.01 --warmup 5 --json"
# Checks the first and the last loss of a run: the last is smaller by at least a third.
learns() {
    [ -z "${QKV_SLOW:-}" ] || return
    python3 - "$1/log.jsonl" <<'PY' || failed "$1 does not learn"
import json, sys
loss = [json.loads(line)["loss"] for line in open(sys.argv[1]) if '"loss"' in line]
sys.exit(not loss[-1] < loss[0] * 2 / 3)
PY
}
value() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$out"; }

title 'decoders'
for arch in gpt llama; do
    runs 0 train text.txt --out $arch --arch $arch --tokenizer bytes --context 64 --steps $steps $small
    silent
    learns $arch
    runs 0 eval $arch --json
    prints_part '"objective":"causal"'
    [ -n "${QKV_SLOW:-}" ] || [ "$(value bits_per_byte | cut -d. -f1)" -lt 4 ] || failed 'bits per byte'
    whole=$(value loss)
    runs 0 eval $arch --ablate 'L0.H*=mean' --json
    [ -n "$(value loss)" ] && [ "$(value loss)" != "$whole" ] || failed 'a run without heads'
    runs 0 eval $arch/model text.txt --json
    prints_part '"bits_per_byte":'
done

title 'encoders for masked tokens, for labels and for pairs'
runs 0 train text.txt --out bert --arch bert --tokenizer wordpiece --vocab 60 --context 32 --steps $steps $small
learns bert
runs 0 eval bert --json
prints_part '"objective":"masked"'
runs 0 train labels.tsv --out labels --objective classify --from bert/model --valid-share 0.2 --steps $steps --batch-tokens 512 --rate 0.01 --json
runs 0 eval labels --json
prints_part '"objective":"classify"'
runs 0 eval labels labels.tsv --json
prints_part '"accuracy":'
runs 0 train pairs.tsv --out near --objective contrastive --from bert/model --steps 20 --batch-tokens 512 --batch-sequences 16 --rate 0.003 --json
runs 0 eval near --json
prints_part '"retrieval":'
case $(value retrieval) in '' | null) failed 'retrieval' ;; esac

title 'a folder of sentence-transformers: pairs are its objective, mean pooling the only one'
cp -rL bert/model sentences
rm sentences/manifest.json && mkdir sentences/1_Pooling
module() { printf '{"idx":%d,"name":"%d","path":"%s","type":"sentence_transformers.models.%s"}' "$@"; }
echo "[$(module 0 0 '' Transformer),$(module 1 1 1_Pooling Pooling)]" >sentences/modules.json
echo '{"word_embedding_dimension":32,"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false}' >sentences/1_Pooling/config.json
runs 4 train pairs.tsv --from sentences --out first --steps 1
says_part 'qkv: sentences: contrastive training of other modules than mean pooling and Normalize, which modules.json names'
[ ! -e first ] || failed 'a run with another pooling'
echo '{"word_embedding_dimension":32,"pooling_mode_mean_tokens":true}' >sentences/1_Pooling/config.json
echo '{"max_seq_length":24}' >sentences/sentence_bert_config.json
echo '{"prompts":{"query":"zero "},"default_prompt_name":"query"}' >sentences/config_sentence_transformers.json
runs 0 train pairs.tsv --from sentences --out first --steps 1 --batch-sequences 16 --rate 1e-12
says 'qkv: note: objective contrastive, for pairs in .tsv files and a model of sentence vectors'
for model in sentences first/model; do
    runs 0 embed -m $model 'one two three'
    cp "$out" "vector-${model%%/*}"
done
python3 - vector-sentences vector-first <<'PY' || failed 'another length, prompt or pooling after training'
import math, sys
a, b = ([float(x) for x in open(f).read().split('\t')[-1].split()] for f in sys.argv[1:])
cosine = sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
sys.exit(len(a) != 32 or not cosine > 1 - 1e-6)
PY
runs 0 train pairs.tsv --out first
says_part 'qkv: note: the run was complete already; --steps N with N > 1 continues it'

title 'encoder-decoders: loss, exact outputs, alignment'
for arch in vaswani bare-transformer gru-attention; do
    runs 0 train pairs.tsv --out $arch --arch $arch --tokenizer characters --context 32 --dropout 0 --smoothing 0 --schedule cosine --steps $more $small
    learns $arch
    runs 0 eval $arch --json --show 2 --alignment --beam 2
    [ "$(grep -c '"alignment":\[\[' "$out")" -eq 2 ] || failed 'two alignments'
    prints_part '"exact":'
    runs 0 eval $arch --show 1 --alignment --most 3
    prints_part 'source  '
    prints_part 'sources decoded      3'
done
python3 - "$QKV_BIN" <<'PY' || failed 'the weights of an alignment sum to 1'
import json, subprocess, sys
out = subprocess.run([sys.argv[1], "eval", "gru-attention", "--json", "--show", "1", "--alignment"],
                     capture_output=True, text=True).stdout.splitlines()[0]
e = json.loads(out)
assert len(e["alignment"]) == len(e["output_tokens"]) and len(e["alignment"][0]) == len(e["source_tokens"])
sys.exit(not all(abs(sum(row) - 1) < 1e-4 for row in e["alignment"]))
PY

title 'bit-identical with other numbers of threads, and with accumulation'
for n in 1 3; do
    runs 0 train text.txt --out t$n --tokenizer bytes --context 32 --steps 12 --accumulate 2 --dropout 0.1 --threads $n $small
done
check cmp t1/model/model.safetensors t3/model/model.safetensors
check cmp t1/log.jsonl t3/log.jsonl

title 'recomputed activations change no bit; 16-bit precisions learn too'
runs 0 train text.txt --out again --tokenizer bytes --context 32 --steps 12 --accumulate 2 --dropout 0.1 --recompute $small
check cmp t1/model/model.safetensors again/model/model.safetensors
runs 0 train text.txt --out half --tokenizer bytes --context 32 --steps $steps --precision bf16 $small
learns half

title 'every option is stored: the same command continues, and needs only the folder'
runs 0 train --resume t1 --steps 14 --json
prints_part '"from_step":12'
runs 0 train text.txt --out t1 --steps 14 --json
prints_part '"from_step":14'

title 'epochs are counted in steps'
runs 0 train text.txt --out epochs --tokenizer bytes --context 32 --epochs 2 $small
python3 - epochs/log.jsonl <<'PY' || failed 'two epochs'
import json, sys
last = [json.loads(line) for line in open(sys.argv[1]) if '"epoch"' in line][-1]
sys.exit(not 2 <= last["epoch"] < 2.5)
PY

title 'early stopping keeps the best checkpoint'
runs 0 train text.txt --out early --tokenizer bytes --context 32 --steps 200 --eval-every 2 --patience 2 --optimizer sgd --schedule constant --layers 1 --heads 1 --width 8 --batch-tokens 128 --rate 3 --export best-model --json
prints_part '"stopped_early":true'
[ -f early/best/model.safetensors ] || failed 'no best checkpoint'
check cmp early/best/tokenizer.json best-model/tokenizer.json

title 'probes: one line before the first step and every N steps'
runs 0 train text.txt --out probe --tokenizer bytes --context 32 --steps 10 --probe every=5 --probe-text 'one two' $small
python3 - probe/probes.jsonl <<'PY' || failed 'probes.jsonl'
import json, sys
p = [json.loads(line) for line in open(sys.argv[1])]
assert [x["step"] for x in p] == [0, 5, 10]
for x in p:
    assert len(x["heads"]) == 1 and len(x["heads"][0]) == 2
    for h in x["heads"][0]:
        assert len(h["top"]) == len(x["tokens"]) and 0 <= h["entropy"] <= 3
        assert all(0 <= key <= row for row, key in enumerate(h["top"]))
        assert abs(sum(h["received"]) - len(x["tokens"])) < 0.001 * len(x["tokens"])
        assert 0 <= h["distance"] < len(x["tokens"])
PY

title 'vectors of words, for analogy'
runs 0 train text.txt --objective words --out words --width 16 --least 2 --epochs 2
runs 0 analogy --model words one - two + three
for end in svg png html; do
    runs 0 analogy --model words one - two + three -n 3 -o "sum.$end"
    prints_part 'Where does a sum of words lead?'
done
runs 0 analogy --model words one + two -n 2 --picture
prints_part 'each arrow adds one word'
runs 0 analogy --model words one -n 2 -o one.svg --json
prints_part '"terms":[{"sign":1,"word":"one"'
python3 - <<'PY' || failed 'the picture of the sum'
import json, math, re, struct
b = open("words/model.safetensors", "rb").read()
n = struct.unpack("<Q", b[:8])[0]
t = json.loads(b[8:8 + n])["embeddings.weight"]
V, D = t["shape"]
x = struct.unpack(f"<{V * D}f", b[8 + n + t["data_offsets"][0]:][:4 * V * D])
vocab = json.load(open("words/tokenizer.json", encoding="utf-8"))["model"]["vocab"]
vec = lambda w: x[vocab[w] * D:][:D]
apart = lambda a, b: math.dist(vec(a), vec(b))
page = open("sum.html", encoding="utf-8").read()
lines = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])[0][0]["lines"]
(b0, c0), (a0, s0) = (l["at"] for l in lines[:2])
points = {p[2]: p[:2] for p in lines[2]["at"]}
assert points["two"] == b0 and points["three"] == c0 and points["one"] == a0, (points, lines)
near = lambda p, q: abs(p - q) < 1e-4 * (1 + abs(q))
# the plane holds the three words, so that its distances are theirs, and the arrows are equal
assert near(math.dist(b0, c0), apart("two", "three")) and near(math.dist(a0, b0), apart("one", "two"))
assert near(math.dist(a0, c0), apart("one", "three")), (a0, c0)
assert all(near(s0[i] - a0[i], c0[i] - b0[i]) for i in (0, 1)), lines[:2]
# a nearest word is its vector, projected: along two -> three, and at a right angle
u = [p - q for p, q in zip(vec("three"), vec("two"))]
word, place = lines[3]["at"][0][2].split()[0], lines[3]["at"][0]
want = sum((p - q) * e for p, q, e in zip(vec(word), vec("two"), u)) / math.sqrt(sum(e * e for e in u))
assert near(place[0], want), (place, want)
PY
runs 2 train text.txt --objective words --out words --width 16
says 'qkv: words/config.json: folder contains a model already, expected a new folder, or --force to replace it'
runs 0 train text.txt --objective words --out words --width 16 --least 2 --epochs 1 --force
finish
