# SPDX-License-Identifier: MIT
"""golden_tokens.py: compares tokenizers of every model type with the Python package `tokenizers` (the reference):
ids, types, offsets, texts.

    python3 tools/golden_tokens.py compare build/libqkv.so [LINES]           # all must be equal
    python3 tools/golden_tokens.py trained build/libqkv.so FILE... -- LINES  # files that qkv trained
    python3 tools/golden_tokens.py write [KIND...]                           # tests/golden/text/<model>.json
    python3 tools/golden_tokens.py learn build/libqkv.so                     # tests/golden/text/trained.json

`learn` trains small tokenizers by qkv and stores the results of the reference with these files.  The reference trains
the small tokenizers of the other modes on the difficult texts of golden_text.py, and variants of them cover every
pre-tokenizer, decoder, post-processor and setting of the models.
"""
import ast
import base64
import ctypes as C
import json
import os
import random
import re
import sys

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import golden_text as G
import train_tokens

T = lambda t, **k: {"type": t, **k}
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEXTS = [h for h in G.HARD if h] + [
    "  two  spaces   three\n\n\nlines\n \n  x", "I'll you've we're he's 'tis can't 'S 'LL", "a\u00a0b \u2003 c\t\td ", "   ",
    "x = {'a': 1, \"b\": [2, 3]}  # done", "1234567890 12 345 \u0664\u0665 \u00bd\u00b2", "\u2581low \u2581\u2581line\u2581",
    "\U00011380\U000113b5 \U0001e5d0\U0001e5f1 \U00010d4a\U00010d40 \ua7cb\ua7dc", "tab\tnew\nline\r\nend ", "<0x41> <unk> [UNK]",
    "na\u00efve na\u0131ve \u6d4b\u8bd5 \u30c6\u30b9\u30c8 \U0001f600\U0001f600 x\u00e9y\u00e9", " lead", "trail ", "'", " '", "' s", "\n", "\n ", " \n",
]


def patterns():
    """Returns the regular expressions that qkv recognizes by their text: {name: texts}, from src/text/tokenizer.def."""
    out = {}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../src/text/tokenizer.def"), encoding="utf-8") as f:
        rows = re.findall(r'^QKV_PATTERN\((\w+),\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)$', f.read(), re.M)
    for name, text in rows:
        parts = re.findall(r'"(?:[^"\\]|\\.)*"', text)
        out.setdefault(name, []).append(b"".join(ast.literal_eval("b" + x) for x in parts).decode())
    return out


def special(*names):
    return [G.added(i, n, special=True) for i, n in enumerate(names)]


def base(model, **parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, **parts, "model": model}


def train(model, trainer, pre=None, normalizer=None):
    t = Tokenizer(model)
    if pre:
        t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator([x.replace("\0", "") for x in TEXTS] * 2, trainer)  # no NUL in the strings of a file
    return json.loads(t.to_str())["model"]


def level(prefix=False, regex=True):
    return T("ByteLevel", add_prefix_space=prefix, trim_offsets=True, use_regex=regex)


def meta(scheme="always", split=True):
    return T("Metaspace", replacement="\u2581", prepend_scheme=scheme, split=split)


def order(vocab):
    return dict(sorted(vocab.items(), key=lambda x: x[1]))


def byte_bpe():
    model = train(models.BPE(), trainers.BpeTrainer(vocab_size=600, special_tokens=["<s>", "</s>", "<mask>"], show_progress=False,
                                                    initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())),
                  pre_tokenizers.ByteLevel(add_prefix_space=False))
    model["vocab"] = order(model["vocab"])
    return base(model, added_tokens=special("<s>", "</s>", "<mask>"), pre_tokenizer=level(), decoder=level())


def byte_bpe_variants(b):
    m = b["model"]
    yield {}
    for p in (level(True), level(True, False), level(False, False), G.seq("pretokenizers", T("Digits", individual_digits=True), level()),
              G.seq("pretokenizers", T("Digits", individual_digits=False), level(True)),
              G.seq("pretokenizers", T("Split", pattern={"Regex": GPT2}, behavior="Isolated", invert=False), level(False, False)),
              G.seq("pretokenizers", T("Split", pattern={"Regex": GPT2}, behavior="Removed", invert=True), level(False, False)),
              G.seq("pretokenizers", T("Punctuation", behavior="Contiguous"), level(), T("Digits", individual_digits=False)),
              G.seq("pretokenizers", T("WhitespaceSplit"), level(True)), G.seq("pretokenizers", level(), T("Whitespace")),
              *(T("Split", pattern={"String": s}, behavior=w, invert=i) for s in ("e", "  ", "") for w in
                ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous") for i in (False, True))):
        yield {"pre_tokenizer": p}
    trim = lambda prefix, trims=True: T("ByteLevel", add_prefix_space=prefix, trim_offsets=trims, use_regex=True)
    roberta = lambda prefix, trims: T("RobertaProcessing", sep=["</s>", 1], cls=["<s>", 0], trim_offsets=trims, add_prefix_space=prefix)
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<s>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}}
    for prefix in (False, True):
        for p in (trim(prefix), trim(prefix, False), roberta(prefix, True), roberta(prefix, False), G.seq("processors", trim(prefix), template)):
            yield {"pre_tokenizer": level(prefix), "post_processor": p}
    n = len(m["vocab"])
    more = b["added_tokens"][:2] + [G.added(2, "<mask>", special=True, lstrip=True), G.added(n, "  "), G.added(n + 1, "wholeword", single_word=True),
                                    G.added(n + 2, "lefty", lstrip=True, normalized=True), G.added(n + 3, "righty", rstrip=True, normalized=True)]
    for p in (None, trim(False), trim(True)):
        yield {"added_tokens": more, "post_processor": p, "pre_tokenizer": level(bool(p) and p["add_prefix_space"])}
    yield {"added_tokens": more, "normalizer": T("NFC")}
    for n_ in (T("NFC"), T("Lowercase"), G.seq("normalizers", T("NFKC"), T("Lowercase")), T("Strip", strip_left=True, strip_right=True)):
        yield {"normalizer": n_}
    yield {"model": {**m, "ignore_merges": True}}
    yield {"model": {**m, "merges": [" ".join(x) for x in m["merges"]]}}
    short = dict(list(m["vocab"].items())[:3] + [(k, v) for k, v in list(m["vocab"].items())[3:] if k != "e"])
    parts = [x for x in m["merges"] if x[0] in short and x[1] in short and "".join(x) in short]
    yield {"model": {**m, "vocab": short, "merges": parts}}
    yield {"model": {**m, "vocab": short, "merges": parts, "unk_token": "<mask>", "fuse_unk": True}}
    for d in (None, G.seq("decoders", level(), T("Strip", content=" ", start=1, stop=0))):
        yield {"decoder": d}


def regex_variants(b):
    yield {}
    split = lambda regex, how="Isolated", invert=False: T("Split", pattern={"Regex": regex}, behavior=how, invert=invert)
    for texts in patterns().values():
        yield {"pre_tokenizer": G.seq("pretokenizers", split(texts[-1]), level(False, False))}
    p = {name: texts[0] for name, texts in patterns().items()}
    yield {"pre_tokenizer": G.seq("pretokenizers", split(p["cl100k"], "Removed", True), level(False, False))}
    yield {"pre_tokenizer": G.seq("pretokenizers", split(p["clip"], "Removed", True), level(True))}
    yield {"pre_tokenizer": G.seq("pretokenizers", *(split(p[n]) for n in ("digits_3", "han_or_kana", "deepseek3")), level(False, False))}
    yield {"pre_tokenizer": split(p["o200k"])}
    for regex in (r"[aeiou]\p{M}*|\d", r"\b", r"(?=\p{Lu})|$"):
        for how in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
            for invert in (False, True):
                yield {"pre_tokenizer": split(regex, how, invert)}
    for regex, content in ((r"\s+", "_"), (r"(\p{L})\1", "x"), (r"(?<=e)", "+"), (" {2,}", "")):
        yield {"normalizer": T("Replace", pattern={"Regex": regex}, content=content)}
        yield {"decoder": G.seq("decoders", level(), T("Replace", pattern={"Regex": regex}, content=content))}


def char_bpe():
    pre = pre_tokenizers.Metaspace()
    model = train(models.BPE(unk_token="<unk>", byte_fallback=True),
                  trainers.BpeTrainer(vocab_size=700, limit_alphabet=200, show_progress=False,
                                      special_tokens=["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]), pre)
    model["vocab"] = order(model["vocab"])
    model["merges"] = [m for m in model["merges"] if "".join(m) in model["vocab"]]
    return base(model, added_tokens=special("<unk>", "<s>", "</s>"), pre_tokenizer=meta(),
                decoder=G.seq("decoders", T("Replace", pattern={"String": "\u2581"}, content=" "), T("ByteFallback"), T("Fuse"),
                              T("Strip", content=" ", start=1, stop=0)))


def char_bpe_variants(b):
    m = b["model"]
    yield {}
    llama = G.seq("normalizers", T("Prepend", prepend="\u2581"), T("Replace", pattern={"String": " "}, content="\u2581"))
    yield {"normalizer": llama, "pre_tokenizer": None}
    yield {"normalizer": llama, "pre_tokenizer": None, "model": {**m, "fuse_unk": True, "ignore_merges": True}}
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            yield {"pre_tokenizer": meta(scheme, split), "decoder": meta(scheme, split)}
    yield {"pre_tokenizer": G.seq("pretokenizers", T("WhitespaceSplit"), meta())}
    yield {"pre_tokenizer": G.seq("pretokenizers", T("Digits", individual_digits=True), meta("first"))}
    yield {"pre_tokenizer": T("Metaspace", replacement="_", add_prefix_space=False, prepend_scheme="never")}
    n = len(m["vocab"])
    yield {"pre_tokenizer": meta("first"), "added_tokens": b["added_tokens"] + [G.added(n, "tired."), G.added(n + 1, "Xq\u2581", normalized=True)]}
    bytes_ = {"<0x%02X>" % i for i in range(256)}
    for fuse in (False, True):
        yield {"model": {**m, "byte_fallback": False, "fuse_unk": fuse}}
        yield {"model": {**m, "byte_fallback": False, "fuse_unk": fuse, "unk_token": None}}
        part = {k: v for k, v in m["vocab"].items() if k not in bytes_ or int(k[3:5], 16) < 0xF0}
        yield {"model": {**m, "vocab": part, "fuse_unk": fuse}, "pre_tokenizer": T("WhitespaceSplit")}
    words = train(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", continuing_subword_prefix="@@"),
                  trainers.BpeTrainer(vocab_size=500, limit_alphabet=90, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"],
                                      end_of_word_suffix="</w>", continuing_subword_prefix="@@"), pre_tokenizers.Whitespace())
    words["vocab"] = order(words["vocab"])
    yield {"model": words, "pre_tokenizer": T("Whitespace"), "decoder": T("BPEDecoder", suffix="</w>")}
    yield {"decoder": G.seq("decoders", T("ByteFallback"), meta("never"))}
    yield {"decoder": None}


def unigram():
    model = train(models.Unigram(), trainers.UnigramTrainer(vocab_size=420, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"],
                                                            show_progress=False), pre_tokenizers.Metaspace())
    model["vocab"] = [[w, round(s, 6)] for w, s in model["vocab"] if len(w) > 1 or ord(w) < 0x2000 or w == "\u2581"]
    return base(model, added_tokens=special("<unk>", "<s>", "</s>"), pre_tokenizer=meta(), decoder=meta())


def unigram_variants(b):
    m = b["model"]
    yield {}
    yield {"pre_tokenizer": None}
    yield {"pre_tokenizer": G.seq("pretokenizers", T("WhitespaceSplit"), meta())}
    yield {"normalizer": G.seq("normalizers", T("NFKC"), T("Replace", pattern={"String": "  "}, content=" ")), "pre_tokenizer": meta("first")}
    yield {"pre_tokenizer": level(True), "decoder": level()}
    spelled = [["<0x%02X>" % i, -20.0] for i in range(256)]
    yield {"model": {**m, "vocab": m["vocab"] + spelled, "byte_fallback": True}, "decoder": G.seq("decoders", T("ByteFallback"), meta())}
    yield {"model": {**m, "vocab": m["vocab"] + spelled[:0xE0], "byte_fallback": True}}
    yield {"model": {**m, "vocab": [[w, round(s)] for w, s in m["vocab"]]}}
    yield {"model": {**m, "vocab": [[w, 0] for w, s in m["vocab"]] + [["\U00020000\U00020001", -50], ["", -1]]}}


def wordlevel():
    model = train(models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(vocab_size=300, special_tokens=["<unk>", "<s>"], show_progress=False),
                  pre_tokenizers.Whitespace())
    model["vocab"] = order(model["vocab"])
    return base(model, added_tokens=special("<unk>", "<s>"), pre_tokenizer=T("Whitespace"))


def wordlevel_variants(b):
    yield {}
    yield {"pre_tokenizer": G.seq("pretokenizers", T("WhitespaceSplit"), T("Punctuation", behavior="MergedWithPrevious"))}
    yield {"pre_tokenizer": T("Split", pattern={"String": " "}, behavior="MergedWithNext", invert=False)}


def wordpiece():
    b = G.small()
    return {**b, "pre_tokenizer": G.seq("pretokenizers", T("WhitespaceSplit"), level(False, False))}


def wordpiece_variants(b):
    yield {}
    yield {"pre_tokenizer": G.seq("pretokenizers", T("Metaspace", replacement="_", prepend_scheme="never", split=True), T("Punctuation"))}
    yield {"model": {**b["model"], "max_input_chars_per_word": 5}, "pre_tokenizer": T("Split", pattern={"String": " "}, behavior="Removed", invert=False)}


def charsmap():
    """Returns the table of tests/golden/text/formats/unigram.model as in a tokenizer.json."""
    from sentencepiece import sentencepiece_model_pb2
    model = sentencepiece_model_pb2.ModelProto()
    with open(os.path.join(G.GOLDEN, "formats", "unigram.model"), "rb") as f:
        model.ParseFromString(f.read())
    return base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()


def component_variants(b):
    map_ = T("Precompiled", precompiled_charsmap=charsmap())
    yield {}
    yield {"normalizer": map_}
    yield {"normalizer": G.seq("normalizers", map_, T("Strip", strip_left=False, strip_right=True)), "pre_tokenizer": meta("first")}
    yield {"normalizer": T("Nmt")}
    yield {"normalizer": T("ByteLevel"), "pre_tokenizer": None}
    for p in (T("UnicodeScripts"), T("FixedLength", length=3), T("CharDelimiterSplit", delimiter="e"),
              G.seq("pretokenizers", T("WhitespaceSplit"), T("UnicodeScripts"), T("FixedLength", length=2))):
        yield {"pre_tokenizer": p}
    for d in (T("CTC", pad_token="e", word_delimiter_token="\u2581", cleanup=True),
              G.seq("decoders", T("Fuse"), T("Replace", pattern={"String": "\u2581"}, content=" "), T("Strip", content=" ", start=2, stop=1)),
              G.seq("decoders", T("Fuse"), T("WordPiece", prefix="\u2581", cleanup=True))):
        yield {"decoder": d}


def edges():
    """Returns a small BPE model without training."""
    vocab = ["<unk>", "<s>", "\u2581", "a", "b", "x", "\u00e9", "ab", "\u2581ab"]
    model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": {w: i for i, w in enumerate(vocab)}, "merges": [["a", "b"], ["\u2581", "ab"]]}
    return base(model, added_tokens=special("<unk>", "<s>"), pre_tokenizer=meta("first"), decoder=meta("first"))


def edges_variants(b):
    yield {}
    for n in (G.bert(), T("Strip", strip_left=True, strip_right=False), T("Replace", pattern={"String": " "}, content=""),
              T("StripAccents"), T("Nmt")):  # the first character is not at byte 0: no mark
        yield {"normalizer": n}
    trim = T("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    yield {"post_processor": trim}  # unknown blanks are not trimmed, but by Unigram
    scores = [["<unk>", 0], ["<s>", 0], ["\u2581", -2], ["a", -3], ["b", -3.5], ["x", -3], ["ab", -4.5]]
    lattice = {"type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": scores}
    yield {"model": lattice, "post_processor": trim}
    # 16 digits are not always the nearest of 17; the reference reads both numbers with an error in the last bit
    runs = [["\u00e9" * 14, -9.073630078188017], ["\u00e9" * 15, -9.07867056859433], ["\u00e9" * 16, -9.413887838163058],
            ["\u00e9" * 13, -9.483742924342312], ["\u00e9" * 12, -10.766787982585853], ["\u00e9", -7.656629241541422]]
    yield {"model": {**lattice, "vocab": scores + runs}}
    spaces = G.added(9, "  ", lstrip=True, rstrip=True)
    yield {"added_tokens": b["added_tokens"] + [spaces]}


EDGES = ["ab ab", "  ab", "\x01\x02ab ab", "\u0301ab", "a\u2028b\u2029x", "x \u2003 x\t\tx ", "ab    \tab", "ab   ab", "ab \t   \t  ", "\u00e9" * 99,
         "\u00e9" * 100, "x" + "\u00e9" * 57, "\n a", "\u200bab", " <unk> \u00a0"]


KINDS = {"bpe_bytes": (byte_bpe, byte_bpe_variants), "bpe_chars": (char_bpe, char_bpe_variants), "unigram": (unigram, unigram_variants),
         "wordlevel": (wordlevel, wordlevel_variants), "wordpiece_steps": (wordpiece, wordpiece_variants),
         "regex": (byte_bpe, regex_variants), "components": (char_bpe, component_variants), "edges": (edges, edges_variants)}


# ---- modes -------------------------------------------------------------------------------------
def opened(lib, whole):
    path = "/tmp/qkv_golden_%d.json" % os.getpid()
    with open(path, "w") as f:
        json.dump(whole, f)
    try:
        return G.Ours(lib, path)
    finally:
        os.unlink(path)


def check(name, ours, theirs, text, pair=None):
    """Returns the number of differences: in encoding, and in decoding the results."""
    want = G.expect(theirs, text, pair)
    if want is None:
        return 0
    bad = G.differ(name, ours.encode(text, pair), tuple(want), text, pair)
    for skip in (False, True):
        try:
            back = theirs.decode(want[0], skip_special_tokens=skip)
        except BaseException as e:  # the reference panics if no text is left
            if isinstance(e, KeyboardInterrupt):
                raise
            continue
        bad += G.differ(name + " decode", ours.decode(want[0], skip), back, text)
    return bad


def compare(library, count):
    lib = C.CDLL(os.path.abspath(library))
    bad, done, rng = 0, 0, random.Random(7)
    texts = TEXTS + G.INVALID + [G.random_text(rng, rng.randint(1, 40)) for _ in range(300)] + list(G.lines(count))
    for name, (make, variants) in KINDS.items():
        whole = make()
        for patch in variants(whole):
            changed = {**whole, **patch}
            ours, theirs = opened(lib, changed), Tokenizer.from_str(json.dumps(changed))
            label = name + " " + json.dumps({k: v if k != "model" else "..." for k, v in patch.items()})[:300]
            for text, pair in [(t, None) for t in (texts if not patch else texts[:500])] + G.PAIRS:
                bad += check(label, ours, theirs, text, pair)
                done += 1
                if bad > 20:
                    sys.exit("too many differences")
            ours.close()
    print(f"small tokenizers: {done} texts compared, {bad} differ")
    sys.exit(1 if bad else 0)


def trained(library, files, count):
    lib = C.CDLL(os.path.abspath(library))
    texts, total = TEXTS + G.INVALID + list(G.lines(count)), 0
    for path in files:
        ours, theirs, bad = G.Ours(lib, path), Tokenizer.from_file(path), 0
        for i in range(0, len(texts), 1000):
            part = texts[i:i + 1000]
            for text, e in zip(part, theirs.encode_batch([G.text_of(t) for t in part])):
                want = tuple(G.reference(e, text, None))
                bad += G.differ(path, ours.encode(text), want, text)
                if bad > 20:
                    sys.exit("too many differences")
                bad += G.differ(path + " decode", ours.decode(want[0], True), theirs.decode(want[0]), text)
        print(f"{path}: {len(texts)} texts compared, {bad} differ")
        total += bad
        ours.close()
    sys.exit(1 if total else 0)


def write(names):
    rng = random.Random(11)
    for name, (make, variants) in KINDS.items():
        if names and name not in names:
            continue
        whole, groups = make(), []
        for patch in variants(whole):
            t = Tokenizer.from_str(json.dumps({**whole, **patch}))
            some, random_ones = (4, 1) if name == "regex" else (8, 3)
            texts = TEXTS + G.INVALID if not patch else rng.sample(TEXTS, some) + rng.sample(G.INVALID, 1)
            if "added_tokens" in patch:
                texts = texts + [h for h in G.HARD if "lefty" in h or "mask" in h.lower()]
            if name == "edges":
                texts = EDGES
            cases = [G.case(t, x) for x in texts + [G.random_text(rng, 20) for _ in range(random_ones)]]
            if not patch or "post_processor" in patch:
                cases += [G.case(t, a, b) for a, b in G.PAIRS]
            decode = [[c["ids"], t.decode(c["ids"])] for c in cases[::3] if c and c["ids"]] if not patch or "decoder" in patch else []
            rows = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases if c)
            groups.append('{"patch":%s,\n"decode":%s,\n"cases":[\n%s]}' % (
                json.dumps(patch, separators=(",", ":")), json.dumps(decode, separators=(",", ":")), rows))
        with open(os.path.join(G.GOLDEN, name + ".json"), "w", encoding="utf-8") as f:
            f.write('{"base":%s,\n"groups":[\n%s]}\n' % (json.dumps(whole, separators=(",", ":")), ",\n".join(groups)))


STORY = """The quick brown fox jumps over the lazy dog; the dog, being lazy, does not mind the fox jumping.
In the beginning was the word, and words were cut into pieces: pieces of words, pieces of pieces, and bytes.
    def attention(query, keys, values):  # rows and columns, rows and columns
        return softmax(query @ keys.T / sqrt(width)) @ values
She sells sea shells by the sea shore. The shells she sells are sea shells, I'm sure; they're what she's selling.
"""
LEARNED = [
    ("bytes", 0, dict(special=("<s>", "</s>"), begin="<s>", end="</s>")),
    ("characters", 0, dict(special=("<pad>", "<unk>"))),
    ("characters", 60, dict(special=("<pad>",), unknown="?!", lowercase=True, end="</s>")),
    ("bpe", 420, dict(special=("<|end|>",), end="<|end|>")),
    ("bpe", 300, dict(special=("<s>",), lowercase=True, least=3)),
    ("wordpiece", 400, dict(special=("[PAD]", "[UNK]", "[CLS]", "[SEP]"), begin="[CLS]", end="[SEP]", lowercase=True)),
    ("wordpiece", 260, dict()),
    ("unigram", 300, dict(special=("<s>", "</s>"), begin="<s>", end="</s>")),
    ("unigram", 120, dict(lowercase=True, unknown="<none>")),
]


def learn(library):
    lib, path = C.CDLL(os.path.abspath(library)), "/tmp/qkv_golden_%d.json" % os.getpid()
    texts = ["\n".join(TEXTS), STORY * 2, "", STORY[::2]]
    rng, runs = random.Random(13), []
    for kind, vocab, how in LEARNED:
        train_tokens.train(lib, path, texts, kind, vocab, **how)
        with open(path, encoding="utf-8") as f:
            whole = f.read()
        t = Tokenizer.from_file(path)
        os.unlink(path)
        cases = [G.case(t, x) for x in rng.sample(TEXTS, 20) + STORY.split("\n") + rng.sample(G.INVALID, 3)] + [G.case(t, "a", "b c")]
        decode = [[c["ids"], t.decode(c["ids"])] for c in cases[::2] if c["ids"]]
        settings = {"kind": kind, "vocab": vocab, "special": list(how.pop("special", ())), **how}
        rows = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
        runs.append('{"how":%s,\n"file":%s,\n"decode":%s,\n"cases":[\n%s]}' % (
            json.dumps(settings), json.dumps(whole), json.dumps(decode, separators=(",", ":")), rows))
    with open(os.path.join(G.GOLDEN, "trained.json"), "w", encoding="utf-8") as f:
        f.write('{"texts":%s,\n"runs":[\n%s]}\n' % (json.dumps(texts), ",\n".join(runs)))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "learn":
        learn(sys.argv[2])
    elif len(sys.argv) >= 3 and sys.argv[1] == "compare":
        compare(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 5000)
    elif len(sys.argv) >= 6 and sys.argv[1] == "trained" and sys.argv[-2] == "--":
        trained(sys.argv[2], sys.argv[3:-2], int(sys.argv[-1]))
    elif sys.argv[1:2] == ["write"]:
        write(sys.argv[2:])
    else:
        sys.exit(__doc__)
