# SPDX-License-Identifier: MIT
"""tokenizer_parity.py: compares tokenizers with the Python package `tokenizers` on a million lines for each kind: ids
and offsets.

    python3 tools/tokenizer_parity.py build/release/libqkv.so [--lines N] [--only NAME,...] [--show N]

The text: message catalogues of 20 languages and more, documentation, sources, random Unicode, each file once.  Debian
packages with catalogues, if there are few: language-pack-* (Ubuntu); coreutils, findutils, grep, sed, tar, bash,
gettext-base, iso-codes, gnupg (Debian).
The tokenizers: WordPiece of models/all-MiniLM-L6-v2 if it exists; the reference trains the others on a part of the
text.  The first ones process all lines; the others, which differ from one of them only by the regular expression that
splits the text, every twentieth thousand.  The charsmap of Unigram is from the package `sentencepiece`, if it is
installed.
Exit 1 if any line differs.
"""
import argparse
import collections
import ctypes as C
import glob
import gzip
import itertools
import json
import os
import random
import struct
import sys
import tempfile
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import golden_text as G
import golden_tokens as K

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LANGUAGES, CHUNK, LONGEST = 20, 1000, 1000
SEPARATORS = ("\n", " ", "\n\n", "  ")


# ---- the text ----------------------------------------------------------------------------------
def messages(path):
    """Returns the lines of the translations in a .mo file."""
    with open(path, "rb") as f:
        data = f.read()
    order = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}.get(data[:4])
    if not order:
        return
    count, _, at = struct.unpack_from(order + "3I", data, 8)
    for i in range(1, count):
        size, begin = struct.unpack_from(order + "2I", data, at + 8 * i)
        yield from data[begin:begin + size].decode("utf-8", "ignore").replace("\0", "\n").split("\n")


def file_lines(path):
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
            data = f.read(2000000)
    except OSError:
        return
    if b"\0" in data[:4096]:
        return
    yield from data.decode("utf-8", "ignore").split("\n")


def shuffled(rng, *patterns):
    files = sorted({f for p in patterns for f in glob.glob(p, recursive=True) if os.path.isfile(f) and not os.path.islink(f)})
    rng.shuffle(files)
    return files


def sources(rng):
    """Returns the names of sources and iterators over their lines; an iterator that ends is not used again."""
    folders = sorted(glob.glob("/usr/share/locale/*/LC_MESSAGES"))
    spoken = {d: shuffled(rng, d + "/*.mo") for d in folders}
    spoken = {d: files for d, files in spoken.items() if sum(map(os.path.getsize, files)) > 100000}
    if len(spoken) < LANGUAGES:
        sys.exit(f"tokenizer_parity: catalogues of {len(spoken)} languages only, {LANGUAGES} are needed:"
                 " install packages with translations (see --help)")
    catalogues = [itertools.chain.from_iterable(map(messages, files)) for files in spoken.values()]
    docs = shuffled(rng, "/usr/share/doc/**/*", "/usr/share/common-licenses/*", "/usr/share/i18n/locales/*", "/usr/share/perl/**/*.pod")
    code = shuffled(rng, "/usr/include/**/*.h", "/usr/lib/python3*/**/*.py", "/usr/share/perl/**/*.pm")
    turns = itertools.cycle(range(len(catalogues)))
    yield f"catalogues of {len(spoken)} languages", 0.45, (line for i in turns for line in itertools.islice(catalogues[i], 50))
    yield "documentation", 0.2, itertools.chain.from_iterable(map(file_lines, docs))
    yield "sources", 0.25, itertools.chain.from_iterable(map(file_lines, code))
    yield "random Unicode", 0.1, (G.random_text(rng, rng.randint(1, 60)) for _ in itertools.count())


def chunks(count, rng, told):
    """Yields lists of CHUNK lines from all sources, at most `count` lines; told[name]: lines of each."""
    parts = list(sources(rng))
    while count > 0:
        lines = []
        for name, share, it in parts:
            some = [line[:LONGEST] for line in itertools.islice(it, int(share * CHUNK))]
            told[name] = told.get(name, 0) + len(some)
            lines += some
        if not lines:
            return
        lines = lines[:count]
        count -= len(lines)
        yield lines


# ---- the tokenizers ----------------------------------------------------------------------------
def charsmap():
    """Returns the normalisation table of sentencepiece (nmt_nfkc) from a model it trains; None: the package is
    missing."""
    try:
        import sentencepiece
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["any words will do", "for it is the same in every model"]), model_prefix=folder + "/m",
            vocab_size=60, hard_vocab_limit=False, minloglevel=9)
        with open(folder + "/m.model", "rb") as f:
            data = f.read()

    def fields(data):
        at = 0

        def number():
            nonlocal at
            n = shift = 0
            while True:
                byte = data[at]
                at += 1
                n |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return n
        while at < len(data):
            tag = number()
            if tag & 7 == 2:
                size = number()
                yield tag >> 3, data[at:at + size]
                at += size
            elif tag & 7 == 5:
                at += 4
            else:
                number()
    normalizer = next(v for k, v in fields(data) if k == 3)
    return next(v for k, v in fields(normalizer) if k == 2)


def learned(model, trainer, lines, pre, normalizer=None):
    t = Tokenizer(model)
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator(lines, trainer)
    return json.loads(t.to_str())


def split(regex, behavior="Isolated", invert=False):
    return K.T("Split", pattern={"Regex": regex}, behavior=behavior, invert=invert)


def tokenizers(lines):
    """Yields (name, tokenizer.json, whether it processes all lines)."""
    lines = [line.replace("\0", "") for line in lines]
    quiet = dict(show_progress=False)
    whole = learned(models.BPE(), trainers.BpeTrainer(vocab_size=12000, special_tokens=["<s>"], **quiet,
                                                      initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())),
                    lines, pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "BPE gpt2", whole, True
    after = lambda *first: {**whole, "pre_tokenizer": G.seq("pretokenizers", *first, K.level(False, False))}
    p = {name: texts[0] for name, texts in K.patterns().items()}
    yield "BPE o200k", after(split(p["o200k"])), True
    spelled = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    chars = learned(models.BPE(unk_token="<unk>", byte_fallback=True), trainers.BpeTrainer(
        vocab_size=8000, limit_alphabet=900, special_tokens=spelled, **quiet), lines, pre_tokenizers.Metaspace())
    chars["added_tokens"] = chars["added_tokens"][:3]
    chars["model"]["merges"] = [m for m in chars["model"]["merges"] if "".join(m) in chars["model"]["vocab"]]
    yield "BPE bytes fallback", chars, True
    table, seen = charsmap(), collections.Counter(itertools.chain.from_iterable(lines))
    common = [line for line in lines if all(seen[c] > 15 for c in line)]  # the vocabulary must contain all characters
    unigram = learned(models.Unigram(), trainers.UnigramTrainer(vocab_size=8000, unk_token="<unk>", special_tokens=["<unk>"], **quiet),
                      common, pre_tokenizers.Metaspace(), normalizers.Precompiled(table) if table else normalizers.NFKC())
    yield "Unigram", unigram, True
    found = os.path.join(ROOT, "models/all-MiniLM-L6-v2/tokenizer.json")
    if os.path.exists(found):
        with open(found, encoding="utf-8") as f:
            yield "WordPiece", {**json.load(f), "truncation": None, "padding": None}, True
    else:
        normal = normalizers.BertNormalizer()
        yield "WordPiece", learned(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(
            vocab_size=12000, special_tokens=["[UNK]"], **quiet), lines, pre_tokenizers.BertPreTokenizer(), normal), True
    yield "WordLevel", learned(models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(
        vocab_size=12000, special_tokens=["<unk>"], **quiet), lines, pre_tokenizers.Whitespace()), True
    for name in ("cl100k", "qwen2", "qwen35", "tekken", "bloom"):
        yield "BPE " + name, after(split(p[name])), False
    yield "BPE clip", after(split(p["clip"], "Removed", True)), False
    yield "BPE starcoder", {**whole, "pre_tokenizer": G.seq("pretokenizers", K.T("Digits", individual_digits=True), K.level())}, False
    yield "BPE falcon", after(K.T("Punctuation", behavior="Contiguous"), K.level(), K.T("Digits", individual_digits=False),
                              split(p["ascii_digits_3"])), False
    yield "BPE deepseek coder", after(*(split(p[n]) for n in ("line_end", "letters", "punctuation", "east")),
                                      K.T("Digits", individual_digits=True)), False
    yield "BPE deepseek v3", after(*(split(p[n]) for n in ("digits_3", "han_or_kana", "deepseek3"))), False
    yield "BPE by PCRE2", after(split(r"\d+|\b[\p{L}\p{M}]+\b|\s+(?=\S)|[^\w\s]{1,3}+|.")), False


# ---- comparison --------------------------------------------------------------------------------
def bytes_of(text):
    """Returns the byte at which each character begins, and the end."""
    return [0, *itertools.accumulate(len(c.encode()) for c in text)]


def theirs_of(encoding, text):
    begin, end = (list(x) for x in zip(*encoding.offsets)) if encoding.offsets else ([], [])
    if not text.isascii():
        at = bytes_of(text)
        begin, end = [at[i] for i in begin], [at[i] for i in end]
    return encoding.ids, encoding.type_ids, begin, end


class Pair:
    def __init__(self, lib, name, whole, all_lines):
        path = "/tmp/qkv_parity_%d.json" % os.getpid()
        with open(path, "w", encoding="utf-8") as f:
            json.dump(whole, f)
        try:
            self.ours, self.theirs = G.Ours(lib, path), Tokenizer.from_file(path)
        finally:
            os.unlink(path)
        self.name, self.all_lines = name, all_lines
        self.lines = self.tokens = self.bad = self.decoded = 0

    def compare(self, lines, show):
        for i, (text, e) in enumerate(zip(lines, self.theirs.encode_batch(lines))):
            want, got = theirs_of(e, text), self.ours.encode(text)
            self.tokens += len(want[0])
            same = got == want
            if same and i % 50 == 0:
                self.decoded += 1
                same = self.ours.decode(want[0], True) == self.theirs.decode(want[0])
            if not same:
                self.bad += 1
                if self.bad <= show:
                    k = next((k for k, x in enumerate(zip(zip(*got), zip(*want))) if x[0] != x[1]), 0)
                    print(f"{self.name}: {text!r}\n  from token {k}: ours {[x[k:k + 6] for x in got]}\n"
                          f"  theirs {[x[k:k + 6] for x in want]}", flush=True)
        self.lines += len(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("libqkv")
    p.add_argument("--lines", type=int, default=1000000)
    p.add_argument("--only", help="names of tokenizers, with commas between")
    p.add_argument("--show", type=int, default=3, help="lines shown of each that differ")
    a = p.parse_args()
    lib, told, pairs, begin = C.CDLL(os.path.abspath(a.libqkv)), {}, [], time.time()
    sample = [line for part in chunks(12000, random.Random(2), {}) for line in part]
    for name, whole, all_lines in tokenizers(sample):
        if not a.only or name in a.only.split(","):
            try:
                pairs.append(Pair(lib, name, whole, all_lines))
            except ValueError as e:
                print(f"{name}: refused: {e}", flush=True)
    print(f"{len(pairs)} tokenizers after {time.time() - begin:.0f} s", flush=True)
    for n, lines in enumerate(chunks(a.lines, random.Random(1), told)):
        for pair in pairs:
            if pair.all_lines or n % 20 == 0:
                pair.compare(lines, a.show)
            if n % 20 == 0:  # and as one text, split where no word continues
                pair.compare([SEPARATORS[n // 20 % len(SEPARATORS)].join(lines)], 1)
        if n % 100 == 99:
            print(f"{(n + 1) * CHUNK} lines after {time.time() - begin:.0f} s: "
                  f"{sum(x.bad for x in pairs)} differ", flush=True)
    print("text: " + ", ".join(f"{name} {n} lines" for name, n in told.items()))
    print("| tokenizer | lines | tokens | lines that differ |\n|---|---|---|---|")
    for x in pairs:
        print(f"| {x.name} | {x.lines:,} | {x.tokens:,} | {x.bad} |")
    sys.exit(1 if any(x.bad for x in pairs) or not pairs else 0)


if __name__ == "__main__":
    main()
