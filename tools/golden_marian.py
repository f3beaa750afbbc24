# SPDX-License-Identifier: MIT
"""golden_marian.py: writes and compares tokenizers of Marian whose vocab.json lacks pieces, with MarianTokenizer.

    golden_marian.py OUT                    writes the folder tests/golden/text/marian_absent
    golden_marian.py --random N SEED QKV    compares N random tokenizers, 200 texts each, with the command QKV

OUT has source.spm, target.spm, vocab.json and texts.json: texts with their ids, and lists of ids with their text without
special tokens.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.simplefilter("ignore")
import sentencepiece as spm
from transformers import MarianTokenizer
from transformers.utils import logging

logging.set_verbosity_error()
WORDS = ("the a river wood light and of seven old house stones carry water under bridge Montreal naïve façade Straße "
         "reading writing 1984 3.14 don't e-mail, (yes) no; why? über Ærø żółw").split()
OTHER = ["한국어", "텍스트", "日本", "мир", "☃", "Zq", "…", "\t", "  ", "«", "x̂", "🙂🙂"]
LANGUAGES = [">>fr<<", ">>de<<"]


def train(path, r, words, rules):
    lines = [" ".join(r.choice(words) for _ in range(r.randint(3, 12))) for _ in range(150)]
    spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_prefix=path, vocab_size=r.randint(60, 130),
                                   hard_vocab_limit=False, minloglevel=2, unk_id=2, bos_id=-1, eos_id=0, pad_id=-1,
                                   normalization_rule_name=r.choice(rules))
    os.rename(path + ".model", path + ".spm")
    os.unlink(path + ".vocab")


def write(folder, r, rules):
    """Writes a tokenizer whose vocab.json lacks about a tenth of the pieces."""
    os.makedirs(folder, exist_ok=True)
    ids = {"</s>": 0, "<unk>": 1}
    for side in ("source", "target"):
        words = r.sample(WORDS, 24)
        train(f"{folder}/{side}", r, words, rules)
        sp = spm.SentencePieceProcessor(model_file=f"{folder}/{side}.spm")
        for i in range(sp.vocab_size()):
            if not sp.is_unknown(i) and not sp.is_control(i) and r.random() < .9:
                ids.setdefault(sp.id_to_piece(i), len(ids))
    for x in LANGUAGES + ["<pad>"]: ids[x] = len(ids)
    with open(f"{folder}/vocab.json", "w", encoding="utf-8") as f: json.dump(ids, f, ensure_ascii=False, indent=0)
    with open(f"{folder}/tokenizer_config.json", "w", encoding="utf-8") as f:
        json.dump({"source_lang": "en", "target_lang": "fr", "model_max_length": 10**30}, f)
    return ids


def text(r):
    parts = [r.choice(WORDS) if r.random() < .8 else r.choice(OTHER) for _ in range(r.randint(0, 9))]
    s = "".join(x + r.choice([" ", " ", " ", "", "  "]) for x in parts)
    if r.random() < .2: s = r.choice([">>fr<<", ">>de<< ", ">>xx<<", ">>zz yy<< ", ">><<", ">>", " >>fr<<", ">>fr"]) + s
    if r.random() < .1: s = s + r.choice([">>fr<<", "</s>", "<unk> a", "<pad>>>de<<b", "</s> >>fr<< b"])
    return s


def reference(folder):
    t = MarianTokenizer.from_pretrained(folder)
    return t, lambda s: t(s)["input_ids"], lambda ids: t.decode(ids, skip_special_tokens=True)


def lists(r, ids):
    known = [i for x, i in ids.items() if not x.startswith(">>")]
    return [[r.choice(known) if r.random() < .9 else 1 for _ in range(r.randint(1, 9))] for _ in range(60)]


def main(out):
    r = random.Random(4)
    shutil.rmtree(out, ignore_errors=True)
    ids = write(out, r, ["identity"])  # the tables of the others are large
    _, encode, decode = reference(out)
    texts = ["", " ", "the river", ">>fr<< the river", ">>xx<< the river", "the >>fr<< river", "한국어 텍스트"]
    texts += [text(r) for _ in range(60)]
    with open(f"{out}/texts.json", "w", encoding="utf-8") as f:
        json.dump({"encode": [[s, encode(s)] for s in texts], "decode": [[x, decode(x)] for x in lists(r, ids)]}, f,
                  ensure_ascii=False, indent=0)


def compare(count, seed, qkv):
    differ = total = 0
    for i in range(count):
        r = random.Random(f"{seed}/{i}")
        with tempfile.TemporaryDirectory() as folder:
            ids = write(folder, r, ["identity", "nmt_nfkc", "nfkc"])
            _, encode, decode = reference(folder)
            texts = [text(r) for _ in range(200)]
            with open(f"{folder}/lines", "w", encoding="utf-8") as f: f.write("".join(t + "\n" for t in texts))
            run = lambda *a: subprocess.run([qkv, "tokenize", "--tokenizer", folder, *a], capture_output=True, text=True)
            got = run("--ids", "-f", f"{folder}/lines")
            if got.returncode: sys.exit(got.stderr)
            for s, line in zip(texts, got.stdout.split("\n")):
                want = encode(s)
                total += 1
                if [int(x) for x in line.split()] != want:
                    differ += 1
                    print(f"{i}: {s!r}\n  ours {line}\n  want {' '.join(map(str, want))}")
            cases = lists(r, ids)
            with open(f"{folder}/ids", "w") as f: f.write("".join(",".join(map(str, x)) + "\n" for x in cases))
            got = run("--no-special", "--decode", f"{folder}/ids")
            if got.returncode: sys.exit(got.stderr)
            for x, line in zip(cases, got.stdout.split("\n")):
                total += 1
                if line != decode(x):
                    differ += 1
                    print(f"{i}: {x}\n  ours {line!r}\n  want {decode(x)!r}")
    print(f"{total} texts and lists of ids of {count} tokenizers, {differ} differ")
    return differ > 0


if __name__ == "__main__":
    if sys.argv[1] == "--random": sys.exit(compare(int(sys.argv[2]), sys.argv[3], sys.argv[4]))
    main(sys.argv[1])
