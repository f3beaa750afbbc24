# SPDX-License-Identifier: MIT
# search.sh: tests qkv search: its order against cosines of qkv embed, its outputs, and other models.
. tests/cli/lib.sh
need_model
cat >lines.txt <<'TEXT'
A happy dog runs through the park.
The tax law changed last year.
A joyful puppy plays outside.
The cache is cleared when the server restarts.
Interest rates were raised by the central bank.
TEXT
"$QKV_BIN" index lines.txt -o i.qkvi >"$out" 2>"$err"
[ $? -ne 4 ] || { cat "$err"; echo 'skipped: qkv was built without libsqlite3'; exit 77; }

title 'the order and the scores are the cosines of the vectors of qkv embed'
question='what do young dogs do?'
runs 0 embed "$question" -o q.npy
runs 0 embed -f lines.txt -o v.npy
for type in f32 bf16 int8; do
    runs 0 index lines.txt -o $type.qkvi --vectors $type
    runs 0 search $type.qkvi "$question" -k 9 --json
    silent
    python3 -S -E - "$out" $type <<'PY' || failed "matches in $type"
import array, json, sys
read = lambda name: array.array("f", open(name, "rb").read()[128:])
q, v = read("q.npy"), read("v.npy")
want = sorted(((sum(a * b for a, b in zip(q, v[i * 384:(i + 1) * 384])), -i) for i in range(5)), reverse=True)
hits = json.load(open(sys.argv[1]))["hits"]
lines = open("lines.txt").read().splitlines()
# each of 384 numbers of at most .5 is rounded by 2^-9 of its size (bf16) or 1/254 of the largest (int8)
bound = {"f32": 1e-6, "bf16": 2**-8, "int8": .02}[sys.argv[2]]
assert len(hits) == 5
for h, (cosine, i) in zip(hits, want):
    assert h["passage"] == -i and h["line"] == 1 - i and h["text"] == lines[-i] and h["file"] == "lines.txt", h
    assert abs(h["score"] - cosine) < bound, (h, cosine)
PY
done

title 'for people: rank, cosine, file and line, the passage'
runs 0 search i.qkvi "$question" -k 2
silent
check grep -qE '^  1  0\.[0-9]{4}  lines\.txt:3$' "$out"
prints_part '    A joyful puppy plays outside.'
check test "$(wc -l <"$out")" -eq 4

title '--why marks words with the terms of qkv similar --why'
runs 0 search i.qkvi "$question" -k 1 --why
prints_part '[puppy]'
runs 0 search i.qkvi "$question" -k 1 --why --json
cp "$out" why.json
runs 0 similar "$question" "A joyful puppy plays outside." --why --json
python3 -S -E - why.json "$out" <<'PY' || failed 'terms of words'
import json, sys
hit = json.load(open(sys.argv[1]))["hits"][0]
whole = json.load(open(sys.argv[2]))
assert abs(hit["cosine"] - whole["cosine"]) < 1e-6 and abs(hit["score"] - whole["cosine"]) < 1e-5
sums = dict(zip(whole["tokens"][1], whole["second"]))
assert 1 <= len(hit["why"]) <= 5
for w in hit["why"]:
    assert hit["text"][w["begin"]:w["end"]] == w["word"]
    if w["word"] in sums: assert abs(sums[w["word"]] - w["term"]) < 1e-6, w
assert any(w["word"] == "puppy" for w in hit["why"])
best = sorted(whole["second"], reverse=True)
PY

title 'several questions: operands and the lines of a file, each answered as alone'
printf 'what is cleared?\nfinance\n' >questions.txt
runs 0 search i.qkvi "$question" -f questions.txt -k 3 --json
cp "$out" all.json
: >alone.json
for q in "$question" 'what is cleared?' finance; do
    runs 0 search i.qkvi "$q" -k 3 --json
    cat "$out" >>alone.json
done
check cmp all.json alone.json
printf 'what is cleared?\nfinance\n' | "$QKV_BIN" search i.qkvi -f - -k 3 --json >"$out" 2>"$err"
check test "$(tail -n 2 all.json)" = "$(cat "$out")"
runs 0 search i.qkvi "$question" -k 3 --json --threads 2
check test "$(head -n 1 all.json)" = "$(cat "$out")"

title 'ids and metadata of JSON lines come back'
printf '{"id": "x1", "text": "a dog", "year": 1999}\n{"id": 5, "text": "a tax"}\n' >d.jsonl
runs 0 index d.jsonl -o d.qkvi
runs 0 search d.qkvi dog --json
prints_part '"text":"a dog","id":"x1","metadata":{"year":1999}}'
prints_part '"text":"a tax","id":5}'
runs 0 search d.qkvi dog
prints_part 'd.jsonl:1  id "x1"'

title 'another model is refused by name; a model that was moved is found by its digest'
runs 2 search i.qkvi "$question" -m "$OLDPWD/tests/golden/bert"
says_part 'the index was made with another model'
mkdir elsewhere
cp -r "$model" elsewhere/m
runs 0 search i.qkvi "$question" -k 3 --json -m elsewhere/m
check test "$(head -n 1 all.json)" = "$(cat "$out")"
runs 0 index lines.txt -o moved.qkvi -m elsewhere/m
rm -r elsewhere
runs 0 search moved.qkvi "$question" -k 3 --json
check test "$(head -n 1 all.json)" = "$(cat "$out")"

title 'prompts of sentence-transformers: document for passages, query for questions'
cp -r "$model" prompted
printf '{"prompts": {"query": "question: ", "document": "passage: "}}\n' >prompted/config_sentence_transformers.json
runs 0 index lines.txt -o p.qkvi -m prompted
runs 0 embed "question: $question" -o q.npy --force
sed 's/^/passage: /' lines.txt >prefixed.txt
runs 0 embed -f prefixed.txt -o v.npy --force
runs 0 search p.qkvi "$question" --json -m prompted
python3 -S -E - "$out" <<'PY' || failed 'cosines with prompts'
import array, json, sys
read = lambda name: array.array("f", open(name, "rb").read()[128:])
q, v = read("q.npy"), read("v.npy")
for h in json.load(open(sys.argv[1]))["hits"]:
    i = h["passage"]
    assert abs(h["score"] - sum(a * b for a, b in zip(q, v[i * 384:(i + 1) * 384]))) < 1e-6, h
PY
runs 0 search p.qkvi "$question" --json -m prompted --prompt document
runs 2 search p.qkvi "$question" --json -m prompted --prompt nothing
says_part 'unknown prompt'
runs 4 search p.qkvi "$question" -m prompted --why
says_part 'different prompts'

title 'a cross-encoder orders the candidates; a model with several labels is refused'
golden=$here/../golden
mkdir labels ranker
cp "$golden/net-labels/config.json" "$golden/net-labels/model.safetensors" "$golden/bert/tokenizer.json" labels
python3 -S -E - labels ranker <<'PY' || failed 'a model with one label'
# the first row of the output head for three labels
import json, shutil, sys
source, to = sys.argv[1:]
shutil.copy(source + "/tokenizer.json", to)
config = json.load(open(source + "/config.json"))
config["id2label"], config["label2id"] = {"0": "score"}, {"score": 0}
json.dump(config, open(to + "/config.json", "w"))
data = open(source + "/model.safetensors", "rb").read()
n = int.from_bytes(data[:8], "little")
header, body, out, blob = json.loads(data[8:8 + n]), data[8 + n:], {}, b""
for name, t in header.items():
    if name == "__metadata__": continue
    part = body[slice(*t["data_offsets"])]
    if name.startswith("classifier") or name.endswith("out_proj.weight") or name.endswith("out_proj.bias"):
        if t["shape"][0] == 3:
            part = part[:len(part) // 3]
            t["shape"][0] = 1
    out[name] = {"dtype": t["dtype"], "shape": t["shape"], "data_offsets": [len(blob), len(blob) + len(part)]}
    blob += part
text = json.dumps(out).encode()
text += b" " * (-len(text) % 8)
open(to + "/model.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + blob)
PY
printf '%s\n' 'a b' 'c d' 'e f' 'g h' 'i j' >letters.txt
runs 0 index letters.txt -o l.qkvi
runs 0 search l.qkvi 'a c' --rerank ranker --json -k 3
cp "$out" reranked.json
sed 's/^/a c\t/' letters.txt >pairs.tsv
runs 0 classify -f pairs.tsv --pairs -m ranker --json
python3 -S -E - reranked.json "$out" <<'PY' || failed 'the order of the cross-encoder'
import json, sys
hits = json.load(open(sys.argv[1]))["hits"]
want = [(json.loads(line)["labels"][0]["score"], i) for i, line in enumerate(open(sys.argv[2]))]
want.sort(key=lambda w: (-w[0], w[1]))
assert [(h["passage"], h["rerank"]) for h in hits] == [(i, score) for score, i in want[:3]], (hits, want)
PY
runs 4 search i.qkvi "$question" --rerank labels
says_part 'expected a model that scores a pair of texts (one label)'
runs 2 search i.qkvi "$question" --candidates 3
says_part '--candidates requires --rerank'

title 'refusals'
runs 6 search nothing.qkvi text
says_part 'nothing.qkvi: cannot open'
runs 6 search . text
says_part 'expected an index, found a folder'
runs 3 search lines.txt text
says_part 'lines.txt: no index, or a malformed one'
runs 2 search i.qkvi "$question" -k 0

title 'an index without passages has no hits'
: >empty.txt
runs 0 index empty.txt -o e.qkvi
prints_part '0 passages of 1 file'
runs 0 search e.qkvi text --json
prints '{"question":"text","hits":[]}'
finish
