# SPDX-License-Identifier: MIT
# auto_classes.sh: folders that qkv writes, opened by the Auto classes of transformers: a tokenizer of every kind that
# `qkv train` makes gives the same ids there, and a model in int8, which transformers cannot run, is not opened.
. tests/cli/lib.sh
peer=${QKV_PEERS_VENV:-}/bin/python
"$peer" -c 'import torch, transformers' 2>/dev/null || { echo 'skipped: the Python of QKV_PEERS_VENV has no transformers'; exit 77; }
[ -z "${QKV_SLOW:-}" ] || { echo 'skipped: the folders of a sanitized build are the same'; exit 77; }
python3 - <<'PY'
import random
random.seed(5)
words = "the owl said to cat that sea was deep and blue it's café über 3.14 don't mañana naïve x".split()
with open("text.txt", "w", encoding="utf-8") as f:
    for _ in range(120):
        f.write(" ".join(random.choice(words) for _ in range(9)) + "\n\n")
with open("pairs.tsv", "w", encoding="utf-8") as f:
    for _ in range(60):
        a, b = random.choice(words), random.choice(words)
        f.write(f"{a} {b}\t{b} {a}\n")
with open("texts.txt", "w", encoding="utf-8") as f:
    f.write("\n".join(["the owl said", "The  Owl   SAID", "café über, naïve!", "3.14 don't it's", "unknown 日本語 text",
                       " begins with a space", "ends with one ", "a\tb", "the", "x" * 40, "é", "<s> [CLS] <unk>"]) + "\n")
PY
small='--width 16 --layers 1 --heads 2 --steps 1 --vocab 300 --batch-tokens 128 --context 32 --quiet'
folders=
for arch in gpt llama bert vaswani; do
    for kind in bytes characters bpe wordpiece unigram; do
        text=text.txt
        [ $arch = vaswani ] && text=pairs.tsv
        title "$arch with a tokenizer of $kind"
        runs 0 train $text --out run-$arch-$kind --arch $arch --tokenizer $kind $small --export $arch-$kind
        runs 0 tokenize -m $arch-$kind -f texts.txt --json
        cp "$out" $arch-$kind.json
        folders="$folders $arch-$kind"
    done
done
title 'int8'
runs 0 convert gpt-bytes int8 --precision int8
check "$peer" - $folders >differences 2>&1 <<'PY'
import json, sys
from transformers import AutoModel, AutoTokenizer, logging
logging.set_verbosity_error()
texts = open("texts.txt", encoding="utf-8").read().split("\n")[:-1]
bad = 0
for folder in sys.argv[1:]:
    try:
        theirs = AutoTokenizer.from_pretrained(folder)
        rows = [json.loads(line) for line in open(folder + ".json", encoding="utf-8")]
        if len(rows) == 1 and len(texts) > 1: rows = rows[0]["texts"] if "texts" in rows[0] else rows
        ours = [row["ids"] for row in rows]
        assert len(ours) == len(texts), (len(ours), len(texts))
        for text, ids in zip(texts, ours):
            found = theirs(text)["input_ids"]
            if found != ids: bad += print(folder, repr(text), found, ids) is None
        model = AutoModel.from_pretrained(folder)
        bad += model.config.vocab_size < len(theirs)
    except Exception as e: bad += print(folder, type(e).__name__, e) is None
try:
    AutoModel.from_pretrained("int8")
    bad += print("int8 is opened") is None
except Exception as e: print("int8:", type(e).__name__)
sys.exit(bad > 0)
PY
head -20 differences
finish
