# SPDX-License-Identifier: MIT
"""draw_vocabularies.py: compares random vocabularies of every kind with the programs that trained them: ids, types,
offsets, decoded texts.

    draw_vocabularies.py COUNT SEED QKV [KIND...]    QKV: build/release/bin/qkv

Draws COUNT vocabularies of every kind (all, or the named ones): other training texts, sizes and options, components,
added tokens. The packages `tokenizers` and `sentencepiece` train them; the command `qkv tokenize` and they then encode
about 700 hard texts and 40 pairs, and decode the ids and 80 random lists. Offsets and types are compared with
`tokenizers`. Segmentations of SentencePiece that differ and whose scores are equal up to the rounding of its floats
are counted apart. Exit 1 if any other differs or a vocabulary is refused; its folder is kept and named.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RUST_BACKTRACE": "0"}
import sentencepiece as spm
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import golden_formats as F
import golden_marian as M
import golden_text as G
import golden_tokens as K

T = K.T
HOW = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
LETTERS = ["abcdefghijklmnopqrstuvwxyz", "abcdeéèêüöäßñçıİABCDEÉ", "абвгдежзийклмнопрстуё", "αβγδεζηθικλμνξοπρςστυφχψω",
           "אבגדהוזחטיכלמנסעפצקרשת", "ابتثجحخدذرزسشصضطظعغفقكلمنهوي", "कखगघचछजटडतदनपफबमयरलवशसह\u093e\u093f\u0947\u094d",
           "กขคงจชซญดตถทนบปผพฟมยรลวสหอ\u0e31\u0e34\u0e35\u0e49", "一二三四五六七八九十日本語中文字天地人水火木金土",
           "あいうえおかきくけこさしすせそがぎ\u3099カキク", "가나다라마바사아자차카타파하한글", "0123456789٠١٢३", "😀😃👍\U0001f3fd\u200d❤\ufe0f☂",
           "\U00010400\U00010401\U00010428\U00010429"]
MARKS = [".", ",", "!", "?", "-", "'", "\"", "(", ")", ":", ";", "/", "_", "…", "—", "。", "、", "«", "»"]
SPACES = [" ", " ", " ", " ", " ", "  ", "\t", "\u00a0", "\u3000", "   "]


# ---- texts -------------------------------------------------------------------------------------
class Corpus:
    """Random words of a few scripts, whose frequencies fall as in a language, and real lines."""

    def __init__(self, r):
        self.r = r
        alphabets = r.sample(LETTERS, r.randint(1, 5)) + LETTERS[:1]
        stems = ["".join(r.choice(a) for _ in range(r.randint(1, 4))) for a in (r.choice(alphabets) for _ in range(60))]
        self.words = ["".join(r.choice(stems) for _ in range(r.choice([1, 1, 1, 2, 2, 3]))) for _ in range(300)]
        self.words += [w.capitalize() for w in self.words[:60]] + [w.upper() for w in self.words[:15]]
        self.words += K.STORY.split()[:r.randint(0, 80)]

    def word(self):
        return self.words[min(int(self.r.paretovariate(.6)) - 1, self.r.randrange(len(self.words)))]

    def line(self):
        r = self.r
        out = "".join(self.word() + (r.choice(MARKS) if r.random() < .2 else "") + r.choice(SPACES)
                      for _ in range(r.randint(2, 14)))
        return out.strip(" ") if r.random() < .9 else out

    def lines(self, without=()):
        """Returns lines to train on; a line with one of the texts `without` is left out."""
        r = self.r
        some = [self.line() for _ in range(r.randint(60, 260))]
        if r.random() < .6: some += K.STORY.strip().split("\n") * 4
        if r.random() < .4: some += [t.replace("\0", "") for t in K.TEXTS]
        return [t for t in some if t.strip() and not any(s in t for s in without)]


def damaged(r, text, more):
    """Returns the text after a few edits: characters removed, doubled, moved to another case, or strings put in."""
    chars = list(text)
    for _ in range(r.randint(1, 5)):
        if not chars: break
        i = r.randrange(len(chars))
        edit = r.randrange(5)
        if edit == 0: del chars[i]
        if edit == 1: chars[i] *= r.choice([2, 3, 30])
        if edit == 2: chars[i] = chars[i].swapcase()
        if edit == 3: chars.insert(i, r.choice(more))
        if edit == 4: chars.insert(i, r.choice(["\u0301", "\u200d", "\ufe0f", "\u00ad", "\u2028", "\r\n", "\n", "\x07", "\ufeff",
                                                "\u0130", "\ufb01", "\u1100\u1161", "\u0344", "\u2581", "\U0010ffff"]))
    return "".join(chars)


def texts(r, corpus, pieces, strings):
    """Hard texts for one vocabulary: pieces are its tokens, strings its special and added tokens."""
    pieces = [p for p in pieces if p] or ["a"]
    more = strings * 3 + r.sample(pieces, min(40, len(pieces)))
    out = [h for h in G.HARD + K.TEXTS] + G.INVALID
    out += [corpus.line() for _ in range(60)] + [damaged(r, corpus.line(), more) for _ in range(90)]
    out += [G.random_text(r, r.randint(1, 40)) for _ in range(40)]
    out += [r.choice(["", " "]).join(r.choice(pieces) for _ in range(r.randint(1, 12))) for _ in range(50)]
    for s in strings:
        word = corpus.word()
        out += [s, s + s, " " + s, s + " ", f"{word}{s}{word}", f"{word} {s} {word}", f"{word}  {s}\t{word}", s[:-1], s.upper(),
                f"_{s}_", f"{s}\u0301"]
    return out


# ---- components of tokenizer.json --------------------------------------------------------------
def sequence(r, key, items, most):
    items = r.sample(items, r.randint(0, most))
    return None if not items else items[0] if len(items) == 1 else G.seq(key, *items)


def normalizer(r, corpus, table):
    coin = lambda: r.random() < .5
    some = [T("NFC"), T("NFD"), T("NFKC"), T("NFKD"), T("Lowercase"), T("StripAccents"), T("Nmt"),
            T("Strip", strip_left=coin(), strip_right=coin()), T("Prepend", prepend=r.choice(["\u2581", "_", "ab", " "])),
            T("Replace", pattern={"String": r.choice([" ", "  ", "e", "''", "``", corpus.word()])},
              content=r.choice(["", "_", "\u2581", " x", "\""])),
            T("Replace", pattern={"Regex": r.choice([r"\s+", r" {2,}", r"(\p{L})\1", r"\p{N}", r"(?<=[aeiou])n", r"[\x00-\x1f]|\u00a0",
                                                     r"\p{Mn}+", r"^\s+|\s+$"])}, content=r.choice(["", " ", "#", "\u2581"])),
            G.bert(clean_text=coin(), handle_chinese_chars=coin(), strip_accents=r.choice([None, True, False]), lowercase=coin())]
    if table: some += [T("Precompiled", precompiled_charsmap=table)] * 3
    return sequence(r, "normalizers", some, 3)


def splits(r, corpus):
    coin = lambda: r.random() < .5
    known = [t for texts_ in K.patterns().values() for t in texts_]
    regex = r.choice(known + [r"\w+|[^\w\s]+", r"[aeiou]+", r"\p{L}+|\p{N}{1,2}|.", r"\s", r"\b", r"(?=\p{Lu})", r"[^\s]{1,4}|\s+"])
    return [T("Whitespace"), T("WhitespaceSplit"), T("BertPreTokenizer"), T("Digits", individual_digits=coin()), T("UnicodeScripts"),
            T("Punctuation", behavior=r.choice(HOW)), T("FixedLength", length=r.randint(1, 9)),
            T("CharDelimiterSplit", delimiter=r.choice(["e", " ", "-", "é", "日"])),
            T("Split", pattern={"Regex": regex}, behavior=r.choice(HOW), invert=coin()),
            T("Split", pattern={"String": r.choice([" ", "e", "  ", corpus.word()])}, behavior=r.choice(HOW), invert=coin())]


def metaspace(r, mark="\u2581"):
    scheme = r.choice(["always", "first", "never"])
    return K.meta(scheme, r.random() < .7) | {"replacement": mark}


def added_tokens(r, corpus, vocab, special):
    """Returns added tokens with random properties; a token of the vocabulary keeps its id."""
    out = [G.added(vocab[s], s, special=True, lstrip=r.random() < .2, rstrip=r.random() < .2) for s in special]
    contents = [corpus.word(), corpus.word() + " " + corpus.word(), "<" + corpus.word() + ">", "[X]", "😀", "  ", "İx", "Éa", "a\u0301b",
                "\n\n", "##x", corpus.word()[:1], "new tok", r.choice(list(vocab))]
    n = max(vocab.values()) + 1
    for content in dict.fromkeys(r.sample(contents, r.randint(0, 5))):
        if not content or content in special: continue
        i = vocab.get(content)
        if i is None: i, n = n, n + 1
        out.append(G.added(i, content, special=r.random() < .3, normalized=r.random() < .5, lstrip=r.random() < .3,
                           rstrip=r.random() < .3, single_word=r.random() < .3))
    return sorted(out, key=lambda a: a["id"])


def processor(r, vocab, special, prefix):
    trims = r.random() < .5
    one, two = r.sample(special, 2)
    token = lambda s, n=0: {"SpecialToken": {"id": s, "type_id": n}}
    text = lambda s, n=0: {"Sequence": {"id": s, "type_id": n}}
    row = lambda s: {"id": s, "ids": [vocab[s]], "tokens": [s]}
    template = {"type": "TemplateProcessing", "special_tokens": {s: row(s) for s in (one, two)},
                "single": r.choice([[text("A")], [token(one), text("A")], [token(one), text("A"), token(two)], [text("A", 3), token(two, 2)]]),
                "pair": r.choice([[text("A"), text("B", 1)], [token(one), text("A"), token(two), text("B", 1), token(two, 1)],
                                  [text("B"), token(one), text("A", 1)]])}
    ends = {"sep": [two, vocab[two]], "cls": [one, vocab[one]]}
    level = T("ByteLevel", add_prefix_space=prefix, trim_offsets=trims, use_regex=True)
    return r.choice([None, template, template, T("BertProcessing", **ends), level, G.seq("processors", level, template),
                     T("RobertaProcessing", **ends, trim_offsets=trims, add_prefix_space=prefix)])


def decoder(r, usual):
    some = [T("Fuse"), T("Strip", content=" ", start=r.randint(0, 2), stop=r.randint(0, 1)), T("ByteFallback"),
            T("Replace", pattern={"String": r.choice(["\u2581", "e", "##"])}, content=r.choice([" ", ""])),
            T("WordPiece", prefix="##", cleanup=True), K.meta("first")]
    return usual if r.random() < .7 else sequence(r, "decoders", some + [usual] * (usual is not None), 3)


def trained(r, model, trainer, lines, pre, norm):
    """Trains a model and returns its part of tokenizer.json. The reference trains with the components of the file."""
    t = Tokenizer.from_str(json.dumps(K.base(json.loads(model.__getstate__()), pre_tokenizer=pre, normalizer=norm)))
    for size in range(trainer.vocab_size, 9000, 300):  # Unigram: the smallest that has room for all characters
        trainer.vocab_size = size
        try:
            t.train_from_iterator(lines, trainer)
            break
        except Exception as e:
            if "not large enough" not in str(e): raise
    whole = json.loads(t.to_str())["model"]
    if isinstance(whole["vocab"], dict): whole["vocab"] = K.order(whole["vocab"])
    return whole


def finish(r, corpus, model, special, norm, pre, decode, prefix=False):
    vocab = model["vocab"] if isinstance(model["vocab"], dict) else {w: i for i, (w, _) in enumerate(model["vocab"])}
    whole = K.base(model, added_tokens=added_tokens(r, corpus, vocab, special), normalizer=norm, pre_tokenizer=pre,
                   post_processor=processor(r, vocab, special, prefix), decoder=decode)
    rewrite = Tokenizer.from_str(json.dumps({**whole, "added_tokens": []})).normalizer
    trims = '"trim_offsets": true' in json.dumps(whole["post_processor"])
    if trims: whole["added_tokens"] = [a for a in whole["added_tokens"] if a["content"] not in vocab or a["content"] in special]
    for a in whole["added_tokens"]:
        text = rewrite.normalize_str(a["content"]) if rewrite else a["content"]
        # not supported: empty tokens; not compared: offsets that the reference trims by blanks of the token's own text
        if not text or (trims and text != a["content"]): a["normalized"] = False
    return whole


SPECIAL = [["<unk>", "<s>", "</s>"], ["[UNK]", "[CLS]", "[SEP]", "[MASK]"], ["<|unk|>", "<|begin|>", "<|end|>"]]


def bpe_bytes(r, corpus, table):
    special, prefix = r.choice(SPECIAL), r.random() < .4
    norm = normalizer(r, corpus, None) if r.random() < .4 else None
    kind = r.randrange(3)
    known = [t for x in K.patterns().values() for t in x]
    if kind == 0: pre = K.level(prefix)
    if kind == 1: pre = G.seq("pretokenizers", T("Split", pattern={"Regex": r.choice(known)}, behavior="Isolated", invert=False),
                              K.level(False, False))
    if kind == 2: pre = G.seq("pretokenizers", *r.sample(splits(r, corpus), r.randint(1, 2)), K.level(prefix, r.random() < .5))
    some = sorted(pre_tokenizers.ByteLevel.alphabet())
    part = r.random() < .3  # then with an unknown token: where bytes are left out, offsets of the reference are shifted
    if part: some = r.sample(some, 180)
    trainer = trainers.BpeTrainer(vocab_size=r.randint(280, 1200), min_frequency=r.randint(0, 3), special_tokens=special,
                                  initial_alphabet=some, show_progress=False, max_token_length=r.choice([None, 5]))
    model = trained(r, models.BPE(), trainer, corpus.lines(), pre, norm)
    model["ignore_merges"] = r.random() < .3
    if part or r.random() < .3: model |= {"unk_token": special[0], "fuse_unk": r.random() < .5}
    return finish(r, corpus, model, special, norm, pre, decoder(r, K.level()), prefix)


def bpe_fallback(r, corpus, table):
    special = r.choice(SPECIAL)
    spelled = ["<0x%02X>" % i for i in range(256)]
    if r.random() < .5:
        norm, pre = G.seq("normalizers", T("Prepend", prepend="\u2581"), T("Replace", pattern={"String": " "}, content="\u2581")), None
    else:
        norm = normalizer(r, corpus, table) if r.random() < .5 else None
        pre = metaspace(r)
        if r.random() < .3: pre = G.seq("pretokenizers", r.choice(splits(r, corpus)), pre)
    trainer = trainers.BpeTrainer(vocab_size=r.randint(400, 1200), limit_alphabet=r.randint(30, 200), show_progress=False,
                                  special_tokens=special + spelled, max_token_length=r.choice([None, 8, 16]))
    lines = [w for t in corpus.lines() for w in t.split(" ")] if pre is None else corpus.lines()
    model = trained(r, models.BPE(unk_token=special[0], byte_fallback=True), trainer, lines, pre, norm)
    model |= {"fuse_unk": r.random() < .5, "ignore_merges": r.random() < .3}
    if r.random() < .3: model["byte_fallback"] = False
    if r.random() < .3:
        gone = set(r.sample(spelled, 60))
        keep = [w for w in model["vocab"] if w not in gone]
        model["vocab"] = {w: i for i, w in enumerate(keep)}
    usual = G.seq("decoders", T("Replace", pattern={"String": "\u2581"}, content=" "), T("ByteFallback"), T("Fuse"),
                  T("Strip", content=" ", start=1, stop=0))
    return finish(r, corpus, model, special, norm, pre, decoder(r, usual))


def wordpiece(r, corpus, table):
    special = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]"]
    prefix = r.choice(["##", "##", "@@", "\u2581", "é"])
    coin = lambda: r.random() < .5
    norm = G.bert(clean_text=coin(), handle_chinese_chars=coin(), strip_accents=r.choice([None, True, False]), lowercase=coin())
    if r.random() < .4: norm = normalizer(r, corpus, table)
    pre = T("BertPreTokenizer") if coin() else sequence(r, "pretokenizers", splits(r, corpus), 2) or T("WhitespaceSplit")
    trainer = trainers.WordPieceTrainer(vocab_size=r.randint(150, 900), min_frequency=r.randint(0, 3), special_tokens=special,
                                        limit_alphabet=r.randint(30, 300), continuing_subword_prefix=prefix, show_progress=False)
    model = trained(r, models.WordPiece(unk_token="[UNK]"), trainer, corpus.lines(), pre, norm)
    model |= {"continuing_subword_prefix": prefix, "max_input_chars_per_word": r.choice([100, 100, 7, 20])}
    return finish(r, corpus, model, special, norm, pre, decoder(r, T("WordPiece", prefix=prefix, cleanup=coin())))


def unigram(r, corpus, table):
    special, coin = r.choice(SPECIAL), lambda: r.random() < .5
    norm = T("Precompiled", precompiled_charsmap=table)
    if coin(): norm = G.seq("normalizers", norm, T("Replace", pattern={"Regex": " {2,}"}, content=r.choice([" ", "\u2581"])))
    if r.random() < .4: norm = normalizer(r, corpus, table)
    pre = metaspace(r)
    if r.random() < .3: pre = G.seq("pretokenizers", r.choice(splits(r, corpus)), pre)
    trainer = trainers.UnigramTrainer(vocab_size=r.randint(120, 600), unk_token=special[0], special_tokens=special, show_progress=False,
                                      max_piece_length=r.choice([4, 8, 16]), n_sub_iterations=r.randint(1, 3), shrinking_factor=r.choice([.6, .75]))
    model = trained(r, models.Unigram(), trainer, corpus.lines(special), pre, norm)  # or they would be there twice
    if model.get("unk_id") is None: model["unk_id"] = 0
    if r.random() < .3:
        spelled = [["<0x%02X>" % i, -20.0] for i in range(256)]
        model |= {"vocab": model["vocab"] + spelled, "byte_fallback": True}
    usual = K.meta() if not model.get("byte_fallback") else G.seq("decoders", T("ByteFallback"), K.meta())
    return finish(r, corpus, model, special, norm, pre, decoder(r, usual))


def wordlevel(r, corpus, table):
    special = r.choice(SPECIAL)
    norm = normalizer(r, corpus, table)
    pre = sequence(r, "pretokenizers", splits(r, corpus), 3) or T("Whitespace")
    trainer = trainers.WordLevelTrainer(vocab_size=r.randint(60, 500), min_frequency=r.randint(0, 3), special_tokens=special,
                                        show_progress=False)
    model = trained(r, models.WordLevel(unk_token=special[0]), trainer, corpus.lines(), pre, norm)
    return finish(r, corpus, model, special, norm, pre, decoder(r, None))


# ---- runs --------------------------------------------------------------------------------------
def encode(qkv, path, cases, *options):
    """Returns what the command prints for each text: texts without NUL are operands, the others lines of a file."""
    data = [t if isinstance(t, bytes) else t.encode() for t in cases]
    plain = [t for t in data if b"\0" not in t]
    lines = [t for t in data if b"\0" in t]
    with tempfile.NamedTemporaryFile() as f:
        f.write(b"".join(t + b"\n" for t in lines))
        f.flush()
        got = subprocess.run([qkv, "tokenize", "--quiet", "--json", "--tokenizer", path, *options, *(["-f", f.name] if lines else []),
                              "--", *plain], capture_output=True)
    if got.returncode: raise Refused(got.stderr.decode())
    rows = dict(zip(plain + lines, map(json.loads, got.stdout.decode().strip("\n").split("\n"))))
    return [rows[t] for t in data]


def decode(qkv, path, lists, *options):
    with tempfile.NamedTemporaryFile("w") as f:
        f.write("".join(",".join(map(str, x)) + "\n" for x in lists))
        f.flush()
        got = subprocess.run([qkv, "tokenize", "--quiet", "--json", "--tokenizer", path, *options, "--decode", f.name],
                             capture_output=True)
    if got.returncode: raise Refused(got.stderr.decode())
    return [json.loads(line)["text"] for line in got.stdout.decode().strip("\n").split("\n")]


class Refused(Exception):
    """The command refused a vocabulary or a text."""


class Tally:
    def __init__(self, name):
        self.name, self.done, self.bad, self.ties = name, 0, 0, 0

    def equal(self, what, ours, want, source):
        self.done += 1
        if ours == want: return
        self.bad += 1
        if self.bad <= 3: print(f"{self.name}: {what} of {source!r}\n  ours {ours}\n  want {want}")


def lists_of(r, ids, encoded):
    return [x for x in encoded if x] + [[r.choice(ids) for _ in range(r.randint(1, 12))] for _ in range(80)]


def compare_json(qkv, folder, r, corpus, make, table, tally):
    whole = make(r, corpus, table)
    path = os.path.join(folder, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as f: json.dump(whole, f)
    theirs = Tokenizer.from_file(path)
    words = theirs.get_vocab()
    strings = [a["content"] for a in whole["added_tokens"]]
    cases = [t for t in texts(r, corpus, list(words), strings) if not (("\0" in t and "\n" in t) if isinstance(t, str) else b"\0" in t)]
    cases = [t for t in cases if not (isinstance(t, str) and "\0" in t and t.endswith("\r"))]
    encoded = []
    second = corpus.line()
    for more, some, pair in (([], cases, None), (["--no-special"], [], None), (["--pair", second], r.sample(cases, 40), second)):
        if not some: continue
        for text, got in zip(some, encode(qkv, path, some, *more)):
            want = G.expect(theirs, text, pair)
            if want is None: continue
            ours = (got["ids"], got["types"], [a for a, _ in got["offsets"]], [b for _, b in got["offsets"]])
            tally.equal("encoding" if pair is None else "pair", ours, tuple(want), text)
            if pair is None: encoded.append(want[0])
    # the reference does not know that a token is special if the normalizer changes it
    changed = {a["id"] for a in whole["added_tokens"] if a["special"] and a["normalized"]}
    for skip in (False, True):
        lists = [x for x in lists_of(r, list(words.values()), encoded) if not (skip and changed & set(x))]
        for ids, got in zip(lists, decode(qkv, path, lists, *(["--no-special"] if skip else []))):
            try:
                want = theirs.decode(ids, skip_special_tokens=skip)
            except BaseException as e:  # the reference panics if no text is left
                if isinstance(e, KeyboardInterrupt): raise
                continue
            tally.equal(f"decoding (skip {skip})", got, want, ids)


def piece_model(r, corpus, path, kind):
    coin = lambda: r.random() < .5
    how = dict(model_type=kind, vocab_size=r.randint(300, 700), hard_vocab_limit=False, minloglevel=2, num_threads=1,
               character_coverage=r.choice([.98, .99, .9995]), add_dummy_prefix=coin(), remove_extra_whitespaces=coin(),
               normalization_rule_name=r.choice(["identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"]), byte_fallback=coin(),
               split_digits=coin(), split_by_unicode_script=coin(), split_by_number=coin(), split_by_whitespace=r.random() < .8,
               allow_whitespace_only_pieces=coin(), max_sentencepiece_length=r.choice([4, 8, 16]),
               user_defined_symbols=r.choice([[], ["<sep>", "fooBAR", corpus.word()], [" x", "日"]]),
               control_symbols=r.choice([[], ["<ctl>", "<other>"]]))
    if coin(): how |= {"unk_surface": r.choice([" ? ", "\ufffd"])}
    if coin(): how |= {"pad_id": 3, "unk_piece": "[UNK]"}
    if kind == "char": how["vocab_size"] = r.randint(80, 300)
    if kind == "bpe": how["hard_vocab_limit"] = True
    lines = corpus.lines()
    for size in range(how.pop("vocab_size"), 2000, 100):  # the smallest that has room for all characters
        try:
            spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_prefix=path[:-6], vocab_size=size, **how)
            return
        except RuntimeError as e:
            said = str(e)
            if "too high" in said or "smaller than vocab" in said: how["hard_vocab_limit"] = False
    sys.exit(f"cannot train {how}: {said}")


def tied(sp, ours, want):
    """Returns whether two lists of ids spell the same text with scores that differ by the rounding of float sums."""
    sums = [sum(sp.get_score(i) for i in ids) for ids in (ours, want)]
    return sp.decode(ours) == sp.decode(want) and abs(sums[0] - sums[1]) <= 2e-7 * len(want) * abs(sums[1])


def compare_pieces(qkv, folder, r, corpus, kind, tally):
    path = os.path.join(folder, "drawn.model")
    piece_model(r, corpus, path, kind)
    sp = spm.SentencePieceProcessor(model_file=path)
    everything = list(range(sp.vocab_size()))
    strings = ["<sep>", "fooBAR", "<ctl>", "<s>", "</s>", "<unk>"]
    cases = [t for t in texts(r, corpus, [sp.id_to_piece(i).replace("\u2581", " ") for i in everything], strings)
             if isinstance(t, str) and not ("\0" in t and ("\n" in t or t.endswith("\r")))]
    encoded = []
    for text, got in zip(cases, encode(qkv, path, cases, "--no-special")):
        want = sp.encode(text)
        if got["ids"] != want and tied(sp, got["ids"], want): tally.ties += 1
        else: tally.equal("ids", got["ids"], want, text)
        encoded.append(want)
    lists = lists_of(r, [i for i in everything if not sp.is_control(i)], encoded)
    for ids, got in zip(lists, decode(qkv, path, lists)):
        tally.equal("decoding", got, sp.decode(ids), ids)


def compare_marian(qkv, folder, r, corpus, tally):
    ids = M.write(folder, r, ["identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf"])
    _, theirs, back = M.reference(folder)
    some = texts(r, corpus, [w.replace("\u2581", " ") for w in ids], M.LANGUAGES + ["<unk>", "</s>", "<pad>"])
    cases = [t for t in some if isinstance(t, str) and "\0" not in t] + [M.text(r) for _ in range(200)]
    encoded = []
    for text, got in zip(cases, encode(qkv, folder, cases)):
        want = theirs(text)
        tally.equal("ids", got["ids"], want, text)
        encoded.append(want)
    languages = {i for w, i in ids.items() if w.startswith(">>")}  # which here are special tokens
    lists = [x for x in lists_of(r, list(ids.values()), encoded) if not languages & set(x)]
    for x, got in zip(lists, decode(qkv, folder, lists, "--no-special")):
        tally.equal("decoding", got, back(x), x)


KINDS = {"bpe-bytes": bpe_bytes, "bpe-fallback": bpe_fallback, "wordpiece": wordpiece, "unigram": unigram, "wordlevel": wordlevel}
PIECES = {"model-unigram": "unigram", "model-bpe": "bpe", "model-char": "char"}


def main(count, seed, qkv, names):
    table = json.loads(json.dumps(K.charsmap()))
    failed = 0
    for name in names or [*KINDS, *PIECES, "marian"]:
        done = bad = ties = refused = 0
        for i in range(count):
            r = random.Random(f"{seed}/{name}/{i}")
            folder, tally = tempfile.mkdtemp(prefix="qkv-vocabulary-"), Tally(f"{name} {i}")
            corpus = Corpus(r)
            try:
                if name in KINDS: compare_json(qkv, folder, r, corpus, KINDS[name], table, tally)
                elif name in PIECES: compare_pieces(qkv, folder, r, corpus, PIECES[name], tally)
                else: compare_marian(qkv, folder, r, corpus, tally)
            except Refused as e:
                refused += 1
                print(f"{name} {i}: {e}".strip())
                tally.bad += 1
            done, bad, ties = done + tally.done, bad + tally.bad, ties + tally.ties
            if tally.bad: print(f"{name} {i}: {tally.bad} of {tally.done} differ, {folder}")
            else: shutil.rmtree(folder)
        failed += bad
        print(f"{name}: {count} vocabularies, {done} texts and lists of ids, {bad} differ, {refused} refused"
              + f", {ties} of equal score" * (ties > 0), flush=True)
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) < 4: sys.exit(__doc__)
    sys.exit(main(int(sys.argv[1]), sys.argv[2], os.path.abspath(sys.argv[3]), sys.argv[4:]))
