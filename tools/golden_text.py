# SPDX-License-Identifier: MIT
"""golden_text.py: compares tokenizers with the Python package `tokenizers` (the reference): ids, types and offsets.

    python3 tools/golden_text.py compare build/libqkv.so MODEL_DIR [LINES]   # all must be equal
    python3 tools/golden_text.py write MODEL_DIR                             # tests/golden/text/

`compare` runs LINES lines (default 200000) of documentation, licences, locales, Python sources and random Unicode of
this machine through MODEL_DIR's tokenizer, and a part of them through small tokenizers with every component in many
combinations.  `write` stores a few hundred difficult texts with the results of the reference.  The reference counts
characters; offsets here are in bytes.
"""
import bz2
import ctypes as C
import glob
import gzip
import json
import os
import random
import sys
from collections import Counter

from tokenizers import Tokenizer, normalizers, pre_tokenizers

GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "golden", "text")


# ---- the library, by ctypes --------------------------------------------------------------------
class Encoding(C.Structure):
    _fields_ = [("count", C.c_int64), ("ids", C.POINTER(C.c_int32)), ("types", C.POINTER(C.c_int32)),
                ("begin", C.POINTER(C.c_int64)), ("end", C.POINTER(C.c_int64)),
                ("text", C.POINTER(C.c_uint8)), ("attend", C.POINTER(C.c_uint8)), ("cut", C.c_int64),
                ("replaced", C.c_int64), ("replaced_at", C.c_int64), ("capacity", C.c_int64)]


class Options(C.Structure):
    _fields_ = [("max_length", C.c_int64), ("truncate", C.c_bool), ("pad", C.c_bool),
                ("file_limits", C.c_bool), ("cut", C.c_int), ("cut_left", C.c_bool),
                ("pad_left", C.c_bool), ("no_special", C.c_bool), ("strict", C.c_bool)]


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("offset", C.c_int64), ("has_offset", C.c_bool),
                ("file", C.c_char * 512), ("path", C.c_char * 256), ("text", C.c_char * 768)]


class Ours:
    def __init__(self, lib, path):
        self.lib, self.handle, self.encoding, error = lib, C.c_void_p(), Encoding(), Error()
        if lib.qkv_tokenizer_open(C.byref(self.handle), path.encode(), C.byref(error)):
            raise ValueError(f"{path}: {error.path.decode()}: {error.text.decode()}")

    def encode(self, text, pair=None, **options):
        def data(s):
            return s if s is None or isinstance(s, bytes) else s.encode()
        text, pair, e, error = data(text), data(pair), self.encoding, Error()
        if self.lib.qkv_tokenizer_encode(self.handle, C.byref(e), text, C.c_size_t(len(text)), pair,
                                         C.c_size_t(len(pair or b"")), C.byref(Options(**options)),
                                         C.byref(error)):
            raise ValueError(error.text.decode())
        n = e.count
        return e.ids[:n], e.types[:n], e.begin[:n], e.end[:n]

    def decode(self, ids, skip):
        a, need = (C.c_int32 * len(ids))(*ids), C.c_size_t()
        self.lib.qkv_tokenizer_decode(self.handle, None, C.c_size_t(0), C.byref(need), a,
                                      C.c_int64(len(ids)), C.c_bool(skip), None)
        out = C.create_string_buffer(need.value + 1)
        self.lib.qkv_tokenizer_decode(self.handle, out, C.c_size_t(need.value + 1), C.byref(need), a,
                                      C.c_int64(len(ids)), C.c_bool(skip), None)
        return out.raw[:need.value].decode()

    def close(self):
        self.lib.qkv_encoding_free(C.byref(self.encoding))
        self.lib.qkv_tokenizer_close(self.handle)


# ---- the reference, in bytes -------------------------------------------------------------------
def starts(data):
    """Returns the byte at which each character starts, and the end; each invalid sequence counts as one character."""
    out = [0]
    for c in data.decode("utf-8", "surrogateescape"):
        if 0xDC80 <= ord(c) < 0xDD00:
            out = None  # text with invalid bytes: slower method
            break
        out.append(out[-1] + len(c.encode()))
    if out:
        return out
    out, i = [0], 0
    while i < len(data):
        for n in (1, 2, 3, 4):
            try:
                data[i:i + n].decode()
                break
            except UnicodeDecodeError:
                pass
        else:  # the bytes that Python replaces by one U+FFFD
            n = next(n for n in (3, 2, 1) if i + n <= len(data) and
                     len(data[i:i + n].decode("utf-8", "replace")) == 1)
        out.append(out[-1] + n)
        i += n
    return out


def reference(encoding, text, pair):
    maps = [starts(t if isinstance(t, bytes) else t.encode()) for t in (text, pair) if t is not None]
    begin, end = [], []
    for (a, b), which in zip(encoding.offsets, encoding.sequence_ids):
        begin.append(maps[which][a] if which is not None else 0)
        end.append(maps[which][b] if which is not None else 0)
    return encoding.ids, encoding.type_ids, begin, end


def text_of(data):
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data


# ---- texts -------------------------------------------------------------------------------------
HARD = [
    "", " ", "\t\r\n \u3000", "Hello, world!", "The animal didn't cross the street because it was too tired.",
    "don't can't I'm we'll they've", "C++ vs. C#: 3.14e-10 <b>&amp;</b> \"quoted\" 100% a_b-c/d\\e",
    "naïve café résumé Ångström ÀÉÎÕÜ ñ ç", "cafe\u0301 e\u0301\u0323 a\u0323\u0301 o\u0308\u0304 \u0344\u0323",
    "İstanbul ıİiI ǅ ß ẞ ŉ ﬁ ﬀ ﬃ Σίσυφος ΣΑΣ", "Привет, мир! Ёлка й Й и\u0306", "שלום עולם \u05d1\u05b0\u05bc\u05e8",
    "مرحبا بالعالم \u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f \u200f\u202bRTL\u202c", "नमस्ते दुनिया क्षत्रिय",
    "สวัสดีชาวโลก", "你好，世界！這是中文。", "日本語のテキスト、カタカナとｶﾀｶﾅ。がぎぐ か\u3099", "안녕하세요 세계 한글 \u1112\u1161\u11ab",
    "𠀀𠀁 𪜀 丽 豈 \U0002f800 \ufa0e", "😀 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ ☺︎ 1️⃣", "a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg",
    "\u0000nul\u0000in\u0000side", "\x01\x02a\x7fb\x80c\x85d\x9fe", "a\u2028b\u2029c\u00a0d\u1680e\u2003f",
    "line\r\nbreak\tand\x0bvert\x0cform", "[CLS] [SEP] [MASK] [PAD] [UNK] [cls] [ MASK ] [MASK][MASK]x",
    "x[MASK]y [CLS", "##ing ##", "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "a" * 99, "a" * 100, "a" * 101, "é" * 100, "e\u0301" * 101, "ab" * 49 + "c", "word " * 40, "x" * 300 + " y",
    "\ue000\uf8ff\U000f0000 private \ufdd0\uffff\U0001fffe nonchar \u0378\u0380 unassigned \ufffd",
    "①②③ ½ ² ³ Ⅷ ㎏ ℃ № ™ ﷺ", "\u0301start \u0323\u0301 alone", "`~!@#$%^&*()-_=+[]{}\\|;:'\",.<>/?",
    "“curly” ‘quotes’ — dash – … • §", "٠١٢٣ ۴۵۶ ०१२ 0123", "\U00010400\U00010428 \U0001e900\U0001e922 Ꭰꭰ ᏸ",
    "ẛ\u0323 \u1e9b\u0323 \u212b \u2126 \u1100\u1161\u11a8 \uac01 \U0001d15e", "\u0f73\u0f71\u0f72 \u0f77 \u0958",
    "\u1abf\u0301 \u08ca\u0334 \U00016ff0\u0334", "<s> </s> NEW tok new-tok  lefty   righty  both wholeword xwholeword",
    "İ[MASK]İ", "Ｆｕｌｌｗｉｄｔｈ ＡＢＣ １２３", "x\u0338= \u2260 \u226e", "\u0085\u0085", "  lead and trail  ",
    "''quote'' ''''", "tel: +49 (0)89 123-456; 2021-12-31T23:59:59Z", "https://example.org/a?b=c&d=%20#e",
    "user@example.com", "\U0010ffff\U000e0001\U000e0041", "\u13a0\u13f8\u1c80", "Ǆ ǅ ǆ ⅰ Ⅰ Ⓐ ⓐ",
]
INVALID = [b"a\x80b", b"\xc0\x80", b"\xed\xa0\x80 x", b"\xf4\x90\x80\x80", b"cut \xe2\x82", b"\xff\xfe ok",
           b"\xf0\x9f\x98 a", b"\xe2\x28\xa1", b"[MASK]\x80[CLS]\xc3", b"\xf0\x80\x80\x80z", b"e\xcc\x81\xcc"]
PAIRS = [("Hello", "world"), ("", ""), ("a", ""), ("", "b"), ("How many?", "Three [MASK] pigs."),
         ("你好", "héllo wörld"), ("one two three four", "x"), ("x", "one two three four five")]
RANGES = [(0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF),
          (0xE00, 0xFFF), (0x1000, 0x17FF), (0x1AB0, 0x1AFF), (0x1DC0, 0x20FF), (0x2100, 0x2BFF), (0x2E00, 0x30FF),
          (0x3400, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xF900, 0xFFFF), (0x10000, 0x1FFFF),
          (0x20000, 0x2FFFF), (0xE0000, 0x10FFFF)]


def random_text(rng, length):
    out, (a, b) = [], rng.choice(RANGES)
    for _ in range(length):
        if rng.random() < 0.25:
            a, b = rng.choice(RANGES)
        kind = rng.random()
        if kind < 0.15:
            c = rng.choice(" \t\n.,-'[]\u00a0\u200d\x01")
        elif kind < 0.3:
            c = chr(rng.choice([0x301, 0x323, 0x308, 0x327, 0x345, 0x5B0, 0x64E, 0x94D, 0x334, 0x3099, 0x11A8]))
        else:
            c = chr(rng.randint(a, b))
        out.append("x" if 0xD800 <= ord(c) < 0xE000 else c)
    if rng.random() < 0.1:
        out.insert(rng.randrange(len(out) + 1), rng.choice(["[MASK]", "[CLS]", " newtok ", "lefty", "Righty ", "wholeword"]))
    return "".join(out)


def lines(count):
    rng = random.Random(5)
    for c in range(0, 0x110000, 61):  # each code point once, between letters
        yield "".join("a" + chr(k) for k in range(c, min(c + 61, 0x110000)) if not 0xD800 <= k < 0xE000)
    files = []
    for pattern in ("/usr/share/common-licenses/*", "/usr/share/i18n/locales/*", "/usr/share/i18n/charmaps/*",
                    "/usr/share/doc/**/*", "/usr/lib/python3*/**/*.py", "/usr/share/perl/**/*.pod"):
        files += sorted(f for f in glob.glob(pattern, recursive=True) if os.path.isfile(f))
    rng.shuffle(files)
    given = 0
    for path in files:
        opener = gzip.open if path.endswith(".gz") else bz2.open if path.endswith(".bz2") else open
        try:
            with opener(path, "rb") as f:
                data = f.read(400000).decode("utf-8", "ignore")
        except OSError:
            continue
        for line in data.split("\n")[:1500]:
            if given >= count * 4 // 5:
                break
            given += 1
            yield line
    while given < count:
        given += 1
        yield random_text(rng, rng.randint(1, 60))


# ---- small tokenizers with every component -----------------------------------------------------
def small():
    """Returns a WordPiece vocabulary of a few hundred entries from the difficult texts, the same in every run."""
    normalizer, split = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    first, inside, parts = Counter(), Counter(), Counter()
    for text in (h for h in HARD if len(h) < 99):
        for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text)):
            first[word[0]] += 1
            inside.update("##" + c for c in word[1:])
            parts.update(word[:n] for n in range(2, 9) if n <= len(word))
            parts.update("##" + word[-n:] for n in range(2, 5) if n < len(word))

    def best(counter, n):
        return [w for w, _ in sorted(counter.items(), key=lambda x: (-x[1], x[0]))[:n]]

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    later = {"wholeword", "lefty", "righty", "both", "new", "new-tok", "你好", "\u3000"}  # tokens that variants add
    words = sorted(set(best(first, 170) + best(inside, 110) + best(parts, 260)) - later)
    words += ["Hello", "World", "É", "CAFÉ", "  ", "_", "''", "##Σ", "\u00a0"]  # characters that other components produce
    vocab = {w: i for i, w in enumerate(dict.fromkeys(special + words))}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(i, w, special=True) for i, w in enumerate(special)],
        "normalizer": bert(), "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab},
    }


def bert(**k):
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": True, **k}


def seq(key, *items):
    return {"type": "Sequence", key: list(items)}


def added(id, content, **k):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **k}


def variants(base):
    n = len(base["model"]["vocab"])
    T = lambda t, **k: {"type": t, **k}
    more = [added(n, "NEW tok", normalized=True), added(n + 1, "lefty", lstrip=True), added(n + 2, "righty", rstrip=True),
            added(n + 3, "both", lstrip=True, rstrip=True, special=True), added(n + 4, "wholeword", single_word=True),
            added(n + 5, "Café", normalized=True, single_word=True), added(n + 6, "你好", normalized=True, lstrip=True),
            added(n + 7, "new-tok", normalized=True, rstrip=True), added(n + 8, "new"), added(n + 9, "\u3000")]
    yield {}
    for k in ({"lowercase": False}, {"strip_accents": False}, {"lowercase": False, "strip_accents": True},
              {"clean_text": False}, {"handle_chinese_chars": False}):
        yield {"normalizer": bert(**k)}
    ws = T("Whitespace")
    for n_ in (None, T("Lowercase"), T("NFC"), T("NFD"), T("NFKC"), T("NFKD"), T("StripAccents"),
               seq("normalizers", T("NFD"), T("StripAccents")), seq("normalizers", T("NFKD"), T("Lowercase"), T("StripAccents"), T("NFC")),
               T("Strip", strip_left=True, strip_right=True), T("Strip", strip_left=False, strip_right=True),
               seq("normalizers", T("Replace", pattern={"String": "''"}, content="\""), T("Replace", pattern={"String": "e"}, content="ée")),
               seq("normalizers", T("Replace", pattern={"String": " "}, content=""), T("NFC")), T("Prepend", prepend="__"),
               seq("normalizers", T("Prepend", prepend="é"), T("NFD")), seq("normalizers", bert(strip_accents=False), T("NFC")),
               seq("normalizers", seq("normalizers"), T("NFC"), T("NFC"), bert())):
        yield {"normalizer": n_, "pre_tokenizer": ws}
        yield {"normalizer": n_, "pre_tokenizer": None}
    for p in (None, ws, T("WhitespaceSplit"), T("Punctuation"), T("Digits", individual_digits=True),
              T("Digits", individual_digits=False), seq("pretokenizers", ws, T("Digits", individual_digits=True)),
              seq("pretokenizers", T("WhitespaceSplit"), T("Punctuation", behavior="Contiguous"), T("Digits", individual_digits=False)),
              *(T("Punctuation", behavior=b) for b in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"))):
        yield {"pre_tokenizer": p, "normalizer": T("NFC")}
        yield {"pre_tokenizer": p}
    for n_ in (None, bert(), T("Lowercase"), T("NFD"), T("Strip", strip_left=True, strip_right=True)):
        yield {"added_tokens": base["added_tokens"] + more, "normalizer": n_}
    yield {"added_tokens": base["added_tokens"] + more, "normalizer": bert(), "pre_tokenizer": None}
    piece = lambda k, i, t=0: {k: {"id": i, "type_id": t}}
    A, B, S = piece("Sequence", "A"), piece("Sequence", "B", 2), lambda t: piece("SpecialToken", "x", t)
    yield {"post_processor": {"type": "TemplateProcessing", "single": [S(1), A, S(0), S(3)], "pair": [S(0), B, S(2), A, S(1)],
                              "special_tokens": {"x": {"id": "x", "ids": [2, 4, 3], "tokens": ["[CLS]", "[MASK]", "[SEP]"]}}}}
    yield {"post_processor": None}
    for d in (None, T("WordPiece", prefix="##", cleanup=False), T("Fuse"), seq("decoders", T("Replace", pattern={"String": "##"}, content="@"), T("Strip", content="@", start=1, stop=0), T("Fuse"))):
        yield {"decoder": d}
    for strategy, direction in (("LongestFirst", "Right"), ("LongestFirst", "Left"), ("OnlyFirst", "Right"), ("OnlySecond", "Left")):
        yield {"truncation": {"direction": direction, "max_length": 7, "strategy": strategy, "stride": 0},
               "padding": {"strategy": {"Fixed": 9}, "direction": direction, "pad_to_multiple_of": 4, "pad_id": 0,
                           "pad_type_id": 1, "pad_token": "[PAD]"}}


# ---- modes -------------------------------------------------------------------------------------
def differ(name, ours, theirs, text, pair=None):
    if ours != theirs:
        print(f"{name}: {text!r} {pair!r}\n  ours   {ours}\n  theirs {theirs}")
    return ours != theirs


def load(patch, base):
    return Tokenizer.from_str(json.dumps({**base, **patch}))


def expect(t, text, pair=None, special=True):
    try:
        return reference(t.encode(text_of(text), None if pair is None else text_of(pair), add_special_tokens=special),
                         text, pair)
    except BaseException as e:  # texts that the reference refuses are not compared (panics are BaseException)
        if isinstance(e, KeyboardInterrupt):
            raise
        return None


def compare_small(lib, texts):
    base, bad, done = small(), 0, 0
    for patch in variants(base):
        path = "/tmp/qkv_golden_%d.json" % os.getpid()
        with open(path, "w") as f:
            json.dump({**base, **patch}, f)
        limits = "truncation" in patch
        ours, theirs = Ours(lib, path), load(patch, base)
        os.unlink(path)
        for text, pair in [(t, None) for t in HARD + INVALID + texts] + PAIRS:
            want = expect(theirs, text, pair)
            if want is None:
                continue
            got = ours.encode(text, pair, file_limits=limits)
            bad += differ(json.dumps(patch, ensure_ascii=False)[:300], got, tuple(want), text, pair)
            done += 1
            for skip in (False, True):
                bad += differ("decode", ours.decode(want[0], skip), theirs.decode(want[0], skip_special_tokens=skip), text)
            if bad > 20:
                sys.exit("too many differences")
        ours.close()
    print(f"small tokenizers: {done} texts compared, {bad} differ")
    return bad


def compare(library, model, count):
    lib = C.CDLL(os.path.abspath(library))
    path = os.path.join(model, "tokenizer.json")
    ours, theirs, bad, done = Ours(lib, path), Tokenizer.from_file(path), 0, 0
    theirs.no_padding()
    theirs.no_truncation()
    texts = HARD + INVALID + list(lines(count))
    for i in range(0, len(texts), 1000):
        part = texts[i:i + 1000]
        for text, e in zip(part, theirs.encode_batch([text_of(t) for t in part])):
            bad += differ(model, ours.encode(text), tuple(reference(e, text, None)), text)
            done += 1
            if bad > 20:
                sys.exit("too many differences")
    print(f"{model}: {done} texts compared, {bad} differ")
    rng = random.Random(7)
    bad += compare_small(lib, [random_text(rng, rng.randint(1, 40)) for _ in range(300)])
    sys.exit(1 if bad else 0)


def case(t, text, pair=None, special=True):
    want = expect(t, text, pair, special)
    if want is None:
        return None
    key = lambda name, s: {name + "_hex": s.hex()} if isinstance(s, bytes) else {name: s}
    c = {**key("text", text), **({} if pair is None else key("pair", pair))}
    c["ids"] = want[0]
    if any(want[1]):
        c["types"] = want[1]
    # Offsets as differences from the end of the previous token, and lengths: small numbers.
    ends = [0] + want[3][:-1]
    c["at"] = [x for b, e, last in zip(want[2], want[3], ends) for x in (b - last, e - b)]
    return c


def write(model):
    os.makedirs(GOLDEN, exist_ok=True)
    base = small()

    def dump(name, data):
        with open(os.path.join(GOLDEN, name), "w", encoding="utf-8") as f:
            f.write(data)

    def rows(cases):
        return ",\n".join(json.dumps(c, ensure_ascii=True, separators=(",", ":")) for c in cases if c)

    dump("tokenizer.json", json.dumps(base, ensure_ascii=False, separators=(",", ":")) + "\n")
    rng = random.Random(11)
    groups = []
    for patch in variants(base):
        t = load(patch, base)
        texts = HARD + INVALID if not patch else rng.sample(HARD, 6) + rng.sample(INVALID, 1)
        if "added_tokens" in patch or "Replace" in json.dumps(patch) or "Punctuation" in json.dumps(patch):
            texts = texts + [h for h in HARD if "lefty" in h or "''" in h or "https" in h]
        cases = [case(t, x) for x in texts + [random_text(rng, 20) for _ in range(2)]]
        if not patch or "post_processor" in patch or "truncation" in patch:
            cases += [case(t, a, b) for a, b in PAIRS]
        decode = [[c["ids"], t.decode(c["ids"], skip_special_tokens=True)] for c in cases[2:24:3] if c] if not patch or "decoder" in patch else []
        groups.append('{"patch":%s,\n"decode":%s,\n"cases":[\n%s]}' % (json.dumps(patch, separators=(",", ":")),
                      json.dumps(decode, separators=(",", ":")), rows(cases)))
    dump("small.json", '{"groups":[\n' + ",\n".join(groups) + "]}\n")
    t = Tokenizer.from_file(os.path.join(model, "tokenizer.json"))
    t.no_padding()
    t.no_truncation()
    cases = [case(t, x) for x in HARD + INVALID + [random_text(rng, 30) for _ in range(60)]]
    cases += [case(t, a, b) for a, b in PAIRS]
    decode = [[c["ids"], t.decode(c["ids"], skip_special_tokens=True)] for c in cases[:40] if c]
    dump("minilm.json", '{"groups":[\n{"patch":{},\n"decode":%s,\n"cases":[\n%s]}]}\n' % (
        json.dumps(decode, separators=(",", ":")), rows(cases)))


if __name__ == "__main__":
    if len(sys.argv) >= 4 and sys.argv[1] == "compare":
        compare(sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 200000)
    elif len(sys.argv) == 3 and sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        sys.exit(__doc__)
