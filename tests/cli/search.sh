# SPDX-License-Identifier: MIT
# search.sh: tests qkv search: its order against cosines of qkv embed, its outputs, and other models.
. tests/cli/lib.sh
export QKV_MODEL="$here/../golden/bert" # small and fast
cat >lines.txt <<'TEXT'
a b c d
e f g
b a d c
h i j k l m
n o p
TEXT
"$QKV_BIN" index lines.txt -o i.qkvi >"$out" 2>"$err"
[ $? -ne 4 ] || { cat "$err"; echo 'skipped: qkv was built without libsqlite3'; exit 77; }

title 'a FIFO is no index, and is refused without waiting'
mkfifo fifo
timeout 20 "$QKV_BIN" search fifo hi >"$out" 2>"$err"
[ $? -eq 6 ] || failed 'exit code of a FIFO'
says 'qkv: fifo: expected an index, found a FIFO'

title 'JSON has no character that a terminal interprets'
printf 'a \302\233 b \342\200\256 c \342\201\246 d \303\244\n' >control.txt
runs 0 index control.txt -o control.qkvi
runs 0 search control.qkvi "$(cat control.txt)" --json
prints_part "$(printf '"text":"a \\u009b b \\u202e c \\u2066 d \303\244"')"
! grep -q "$(printf '\302\233\|\342\200\256\|\342\201\246')" "$out" || failed 'control characters'

title 'the order and the scores are the cosines of the vectors of qkv embed'
question='b a c'
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
want = sorted(((sum(a * b for a, b in zip(q, v[i * 35:(i + 1) * 35])), -i) for i in range(5)), reverse=True)
hits = json.load(open(sys.argv[1]))["hits"]
lines = open("lines.txt").read().splitlines()
# each of 35 numbers is rounded by 2^-9 of its size (bf16) or 1/254 of the largest (int8); the query too, if int8
bound = {"f32": 1e-6, "bf16": 2**-8, "int8": .03}[sys.argv[2]]
assert len(hits) == 5 and [h["score"] for h in hits] == sorted((h["score"] for h in hits), reverse=True)
if sys.argv[2] == "f32": assert [h["passage"] for h in hits] == [-i for _, i in want]
cosines = {-i: cosine for cosine, i in want}
for h in hits:
    i = h["passage"]
    assert h["line"] == 1 + i and h["text"] == lines[i] and h["file"] == "lines.txt", h
    assert abs(h["score"] - cosines.pop(i)) < bound, (h, want)
PY
done

title 'a vector that is not finite is an error that names the passage, wherever it is'
for type in f32 bf16 int8; do
    for number in nan inf -inf; do
        for row in 0 3 4; do
            cp $type.qkvi damaged.qkvi
            damage damaged.qkvi $type $number $row
            runs 3 search damaged.qkvi "$question" -k 2
            says "qkv: damaged.qkvi: the index is damaged: the vector of passage $row (lines.txt, line $((row + 1))) is not finite, expected finite numbers; qkv index --update computes it again"
            prints ''
        done
    done
done
runs 3 search damaged.qkvi --check
says_part 'the vector of passage 4 (lines.txt, line 5) is not finite'
runs 0 index lines.txt -o damaged.qkvi --update --vectors int8
check cmp damaged.qkvi int8.qkvi

title 'for people: rank, cosine, file and line, the passage'
runs 0 search i.qkvi "$question" -k 2
silent
best=$(sed -n 's/^  1  0\.[0-9][0-9][0-9][0-9]  lines\.txt:\([1-5]\)$/\1/p' "$out")
check test "$(sed -n 2p "$out")" = "    $(sed -n "${best:-9}p" lines.txt)"
check test "$(wc -l <"$out")" -eq 4

title 'several questions: operands and the lines of a file, each answered as alone'
printf 'h i j\np\n' >questions.txt
runs 0 search i.qkvi "$question" -f questions.txt -k 3 --json
cp "$out" all.json
: >alone.json
for q in "$question" 'h i j' p; do
    runs 0 search i.qkvi "$q" -k 3 --json
    cat "$out" >>alone.json
done
check cmp all.json alone.json
"$QKV_BIN" search i.qkvi -f - -k 3 --json <questions.txt >"$out" 2>"$err"
check test "$(tail -n 2 all.json)" = "$(cat "$out")"
runs 0 search i.qkvi "$question" -k 3 --json --threads 2
check test "$(head -n 1 all.json)" = "$(cat "$out")"

title 'each question of several has a heading, also if it is alone in its chunk'
runs 0 search i.qkvi -f questions.txt -k 1
cp "$out" headings.txt
check test "$(sed -n '1p;4p;5p' headings.txt)" = "$(printf 'h i j\n\np')"
python3 -S -E - "$QKV_BIN" <<'PY' || failed 'questions of a pipe'
# the second question is written when the first has its answer
import subprocess, sys
p = subprocess.Popen([sys.argv[1], "search", "i.qkvi", "-k", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
p.stdin.write("h i j\n")
p.stdin.flush()
text = p.stdout.readline() # of the first chunk
p.stdin.write("p\n")
p.stdin.close()
text += p.stdout.read()
assert p.wait() == 0 and text == open("headings.txt").read(), text
PY
check test "$(yes p | head -n 1025 | "$QKV_BIN" search i.qkvi -k 1 | tail -n 3 | head -n 1)" = p

title 'ids and metadata of JSON lines come back'
printf '{"id": "x1", "text": "a dog", "year": 1999}\n{"id": 5, "text": "a tax"}\n' >d.jsonl
runs 0 index d.jsonl -o d.qkvi
runs 0 search d.qkvi dog --json
prints_part '"text":"a dog","id":"x1","metadata":{"year":1999}}'
prints_part '"text":"a tax","id":5}'
runs 0 search d.qkvi dog
prints_part 'd.jsonl:1  id "x1"'

title 'another model is refused by name; a model that was moved is found by its digest'
mkdir elsewhere
cp -r "$QKV_MODEL" elsewhere/m
cp -r "$QKV_MODEL" other
change() { printf '\001' | dd of="$1" bs=1 seek=88000 conv=notrunc 2>/dev/null; }
change other/model.safetensors
runs 2 search i.qkvi "$question" -m other
says_part 'the index was made with another model'
runs 0 search i.qkvi "$question" -k 3 --json -m elsewhere/m
check test "$(head -n 1 all.json)" = "$(cat "$out")"
runs 0 index lines.txt -o moved.qkvi -m elsewhere/m
rm -r elsewhere
runs 0 search moved.qkvi "$question" -k 3 --json
check test "$(head -n 1 all.json)" = "$(cat "$out")"

title 'a model whose files are links, as in the cache of the Hugging Face Hub: the target is compared'
cp -r "$QKV_MODEL" store
mkdir linked
for file in config.json tokenizer.json model.safetensors; do ln -s "../store/$file" linked; done
ln -s . linked/again
ln -s nothing linked/broken
runs 0 index lines.txt -o linked.qkvi -m linked
python3 -S -E - <<'PY' || failed 'the files of the model'
import os, sqlite3
get = sqlite3.connect("file:linked.qkvi?mode=ro&immutable=1", uri=True).execute
files, = get("SELECT value FROM setting WHERE name = 'model_files'").fetchone()
names = [line.split()[:2] for line in files.splitlines()]
assert names == [["/" + n, str(os.stat("store/" + n).st_size)] for n in ("config.json", "model.safetensors", "tokenizer.json")], files
PY
runs 0 search linked.qkvi "$question" -m linked
change store/model.safetensors
touch -d 2001-01-01 store/model.safetensors
runs 2 search linked.qkvi "$question" -m linked
says_part 'the index was made with another model'

title 'prompts of sentence-transformers: document for passages, query for questions'
cp -r "$QKV_MODEL" prompted
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
    assert abs(h["score"] - sum(a * b for a, b in zip(q, v[i * 35:(i + 1) * 35]))) < 1e-6, h
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
cp i.qkvi null.qkvi
python3 -S -E - <<'PY'
import sqlite3
db = sqlite3.connect("null.qkvi")
db.execute("PRAGMA writable_schema = 1")
whole = "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
free = whole.replace(" NOT NULL", "")
db.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'setting'", (free,))
db.commit()
db.close()
db = sqlite3.connect("null.qkvi")
db.execute("UPDATE setting SET value = NULL WHERE name = 'tokens'" if False else "UPDATE setting SET value = NULL")
db.execute("PRAGMA writable_schema = 1")
db.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'setting'", (whole,))
db.commit()
PY
runs 3 search null.qkvi "$question"
says_part 'null.qkvi: '
says_part 'a row of the table setting is malformed'

title 'a passage of many lines is cut after four of them, in JSON it is whole'
python3 -S -E -c 'print("word " * 300 + "end")' >long.txt
python3 -S -E -c 'print("x" * 3000)' >>long.txt
runs 0 index long.txt -o long.qkvi --truncate --quiet
runs 0 search long.qkvi "$question"
check python3 -S -E - "$out" <<'PY'
import sys
lines = open(sys.argv[1]).read().split("\n")
texts = [l[4:] for l in lines if l.startswith("    ")]
assert len(texts) == 2 and all(300 <= len(t) <= 345 and t.endswith(("…", "...")) for t in texts), [len(t) for t in texts]
assert any(t.replace("…", "").replace("...", "").endswith("word") for t in texts)
PY
runs 0 search long.qkvi "$question" --json
prints_part 'word end"'

title 'an index without passages has no hits'
: >empty.txt
runs 0 index empty.txt -o e.qkvi
prints_part '0 passages of 1 file'
runs 0 search e.qkvi text --json
prints '{"question":"text","hits":[]}'

if [ -f "$model/model.safetensors" ]; then # a model that knows words
    title 'a search by meaning; --why marks words with the terms of qkv similar --why'
    printf '%s\n' 'A happy dog runs through the park.' 'The tax law changed last year.' 'A joyful puppy plays outside.' >pets.txt
    export QKV_MODEL="$model"
    runs 0 index pets.txt -o pets.qkvi
    runs 0 search pets.qkvi "what do young dogs do?" -k 1 --why
    prints_part '[puppy]'
    runs 0 search pets.qkvi "what do young dogs do?" -k 1 --why --json
    cp "$out" why.json
    runs 0 similar "what do young dogs do?" "A joyful puppy plays outside." --why --json
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
PY
fi
finish
