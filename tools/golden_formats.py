# SPDX-License-Identifier: MIT
"""golden_formats.py: compares tokenizers in formats other than tokenizer.json with the original programs: ids and
texts.

    python3 tools/golden_formats.py write                          # tests/golden/text/formats/
    python3 tools/golden_formats.py compare build/libqkv.so [LINES]

The Python package `sentencepiece` trains and runs SentencePiece models; the two sides of Marian are such models with
a vocab.json; tokenizer.bin is run by the algorithm of run.c, repeated below; vocab.txt and vocab.json with merges.txt
by `tokenizers`.
"""
import ctypes as C
import json
import os
import random
import struct
import sys

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers.implementations import BertWordPieceTokenizer, ByteLevelBPETokenizer

import golden_text as G
import golden_tokens as K

DIR = os.path.join(G.GOLDEN, "formats")
TEXTS = [t for t in K.TEXTS if "\0" not in t] + [
    "  two  spaces   three  ", "a <sep> b", "<sep>x fooBARx  x", " <sep> ", "hello<sep>world", "a\tb\u00a0c\u3000d", "\ufb01ne e\u0301te\u0301 \uff21\uff22",
    "x" * 70, "line\nline \u2581 \u2581", "caf\u00e9 \u65e5\u672c \U0001f600", "\u200bzero\u200bwidth\u200b", ">>fr<< hello", "hello  world"]
RULES = {"\ufb01": "fi", "e\u0301": "\u00e9", "\uff21": "A", "\uff22": "BB", "\u200b": "", "\t": " ", "\u00a0": " ", "\u3000": " ", "\u00bd": "1/2"}
SYMBOL_RULES = {"B": "b", "A": "a", "R\u0301": "\u0154", "oo": "u"}  # they would change the user-defined symbols
PIECES = dict(vocab_size=330, character_coverage=0.98, minloglevel=2)


def lines():
    return [t for t in K.STORY.split("\n") * 8 + [h for h in TEXTS if len(h) < 60] if t.strip()]


def train(name, texts=None, **how):
    texts = [t for t in texts or lines() if t.strip()]
    spm.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_prefix=os.path.join(DIR, name), **{**PIECES, **how})
    os.unlink(os.path.join(DIR, name + ".vocab"))


def charsmap(name):
    m = pb.ModelProto()
    with open(os.path.join(DIR, name), "rb") as f:
        m.ParseFromString(f.read())
    return m.normalizer_spec.precompiled_charsmap


# ---- results of the original programs --------------------------------------------------------------
class SentencePiece:
    def __init__(self, name):
        self.sp = spm.SentencePieceProcessor(model_file=os.path.join(DIR, name))

    def encode(self, text):
        special = {self.sp.id_to_piece(i) for i in range(self.sp.vocab_size()) if self.sp.is_control(i) or self.sp.is_unknown(i)}
        return None if any(s in text for s in special) else self.sp.encode(text)

    def decode(self, ids):
        return None if self.sp.unk_id() in ids else self.sp.decode(ids)


class Symbols(SentencePiece):
    """A model with user-defined symbols and byte pieces: texts with symbols, runs of one character, lists of ids."""

    def texts(self):
        yield from ("fooBAR", "xfooBARx BAR oBAR", "foofooBAR\u0301 oo R\u0301", "FOObar fooBA", "fooBAR fooBAR", "a<>b <", "[UNK]", "ooBAR")
        yield from (c * n for c in "aexz." for n in (60, 99, 100, 101, 300))

    def lists(self):
        rng, mark = random.Random(5), self.sp.piece_to_id("\u2581")
        byte = lambda *b: [self.sp.piece_to_id("<0x%02X>" % x) for x in b]
        yield from ([mark, mark] + byte(97), byte(0xE2, 0x41), byte(0xE2, 0x96), byte(0xF0, 0x9F, 0x98, 0x80), byte(0xED, 0xA0, 0x80),
                    byte(0xEF, 0xB7, 0x90), byte(0x20) + [mark], [0, mark], [mark, 0], [mark] * 4, byte(0xC3) + [mark] + byte(0xA9))
        for _ in range(60):
            yield [rng.choice([rng.randrange(270, self.sp.vocab_size()), byte(rng.randint(1, 255))[0], mark]) for _ in range(rng.randint(1, 8))]

    def decode(self, ids):
        return self.sp.decode(ids)


class Marian:
    def __init__(self, side):
        self.sp = {s: spm.SentencePieceProcessor(model_file=os.path.join(DIR, "marian", s + ".spm")) for s in ("source", "target")}
        self.side = side
        with open(os.path.join(DIR, "marian", "vocab.json"), encoding="utf-8") as f:
            self.ids = json.load(f)
        self.text = {i: t for t, i in self.ids.items()}

    def encode(self, text):
        head = []
        if text.startswith(">>fr<<"):  # only at the start, as in the original programs
            head, text = [self.ids[">>fr<<"]], text[6:]
            if text[:1] == " ":
                return None
        if any(t in text for t in ("</s>", "<unk>", "<pad>", ">>fr<<")):
            return None
        out = []
        for piece in self.sp[self.side].encode(text, out_type=str):
            new = self.ids.get(piece, self.ids["<unk>"])
            out.append(new)
        return head + out + [self.ids["</s>"]]

    def decode(self, ids):
        known = [self.text[i] for i in ids if self.text[i] not in ("</s>", ">>fr<<", "<pad>")]
        return None if "<unk>" in known else self.sp["target"].decode_pieces(known).replace("\u2581", " ").strip()


class Llama2c:  # run.c: encode(), decode()
    def __init__(self, name):
        with open(os.path.join(DIR, name), "rb") as f:
            data = f.read()
        self.tokens, at = [], 4
        while at < len(data):
            score, n = struct.unpack_from("<fi", data, at)
            self.tokens.append((data[at + 8:at + 8 + n], score))
            at += 8 + n
        self.ids = {t: i for i, (t, _) in enumerate(self.tokens)}

    def encode(self, text):
        ids = [self.ids[b" "]] if text else []
        for c in text:
            c = c.encode()
            ids += [self.ids[c]] if c in self.ids else [b + 3 for b in c]
        while True:
            best = (-1e10, -1, -1)
            for i in range(len(ids) - 1):
                new = self.ids.get(self.tokens[ids[i]][0] + self.tokens[ids[i + 1]][0])
                if new is not None and self.tokens[new][1] > best[0]:
                    best = (self.tokens[new][1], new, i)
            if best[1] < 0:
                return [1] + ids
            ids[best[2]:best[2] + 2] = [best[1]]

    def decode(self, ids):
        out = b""
        for i, t in enumerate(ids):
            text = self.tokens[t][0]
            if i and ids[i - 1] == 1 and text[:1] == b" ":
                text = text[1:]
            if 3 <= t < 259:
                text = bytes([t - 3])
            out += text if t > 2 else b""
        return out.decode("utf-8", "replace")


class Hugging:
    def __init__(self, t):
        self.t = t

    def encode(self, text):
        return self.t.encode(text).ids

    def decode(self, ids):
        return self.t.decode(ids)


def makers():
    path = lambda *a: os.path.join(DIR, *a)
    yield "unigram.model", SentencePiece("unigram.model")
    yield "symbols.model", Symbols("symbols.model")
    yield "bpe.model", SentencePiece("bpe.model")
    yield "char.model", SentencePiece("char.model")
    yield "marian", Marian("source")
    yield "marian/target.spm", Marian("target")
    yield "llama2c/tokenizer.bin", Llama2c("llama2c/tokenizer.bin")
    yield "bert", Hugging(BertWordPieceTokenizer(path("bert", "vocab.txt")))
    yield "gpt2", Hugging(ByteLevelBPETokenizer(path("gpt2", "vocab.json"), path("gpt2", "merges.txt")))


# ---- files -------------------------------------------------------------------------------------
def write_files():
    for sub in ("marian", "llama2c", "bert", "gpt2"):
        os.makedirs(os.path.join(DIR, sub), exist_ok=True)
    rules = os.path.join(DIR, "rules.tsv")
    with open(rules, "w", encoding="utf-8") as f:
        for a, b in RULES.items():
            f.write(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n")
    train("unigram", normalization_rule_tsv=rules, user_defined_symbols=["<sep>", "fooBAR"], control_symbols=["<ctl>"])
    with open(rules, "w", encoding="utf-8") as f:
        for a, b in SYMBOL_RULES.items():
            f.write(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n")
    train("symbols", K.STORY.split("\n") * 8, normalization_rule_tsv=rules, user_defined_symbols=["fooBAR", "oBAR"], byte_fallback=True, vocab_size=400,
          hard_vocab_limit=False, unk_piece="[UNK]", control_symbols=["<>"])
    os.unlink(rules)
    train("bpe", model_type="bpe", vocab_size=620, normalization_rule_name="identity", byte_fallback=True, remove_extra_whitespaces=False,
          allow_whitespace_only_pieces=True, split_digits=True)
    train("char", model_type="char", normalization_rule_name="identity", add_dummy_prefix=False)
    for side, texts in (("source", K.STORY.split("\n") * 8), ("target", K.STORY[::-1].split("\n") * 8)):
        train("marian/" + side, texts, normalization_rule_name="identity", vocab_size=120, hard_vocab_limit=False)
        os.rename(os.path.join(DIR, "marian", side + ".model"), os.path.join(DIR, "marian", side + ".spm"))
    ids = {"</s>": 0, "<unk>": 1}
    for side in ("source", "target"):
        sp = spm.SentencePieceProcessor(model_file=os.path.join(DIR, "marian", side + ".spm"))
        for i in range(3, sp.vocab_size()):
            ids.setdefault(sp.id_to_piece(i), len(ids))
    ids[">>fr<<"] = len(ids)
    ids["<pad>"] = len(ids)
    with open(os.path.join(DIR, "marian", "vocab.json"), "w", encoding="utf-8") as f:
        json.dump(ids, f, ensure_ascii=False, indent=0)
    sp = spm.SentencePieceProcessor(model_file=os.path.join(DIR, "bpe.model"))
    with open(os.path.join(DIR, "llama2c", "tokenizer.bin"), "wb") as f:  # as tokenizer.py of llama2.c
        texts = []
        for i in range(sp.vocab_size()):
            t = "\n<s>\n" if i == 1 else "\n</s>\n" if i == 2 else sp.id_to_piece(i)
            texts.append((t.replace("\u2581", " ").encode(), sp.get_score(i)))
        f.write(struct.pack("<I", max(len(t) for t, _ in texts)))
        for t, score in texts:
            f.write(struct.pack("<fI", score, len(t)) + t)
    with open(os.path.join(DIR, "bert", "vocab.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join("[PAD] [UNK] [CLS] [SEP] [MASK] , . a ##b he hell ##o ##llo wide".split()) + "\n")
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(lines(), trainers.BpeTrainer(vocab_size=400, show_progress=False, special_tokens=["<|endoftext|>"],
                                                       initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    m = json.loads(t.to_str())["model"]
    with open(os.path.join(DIR, "gpt2", "vocab.json"), "w", encoding="utf-8") as f:
        json.dump(K.order(m["vocab"]), f, ensure_ascii=False)
    with open(os.path.join(DIR, "gpt2", "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "".join(" ".join(p) + "\n" for p in m["merges"]))


def write():
    write_files()
    groups = []
    for name, maker in makers():
        rows, back = [], []
        for text in TEXTS + list(getattr(maker, "texts", list)()):
            ids = maker.encode(text)
            if ids is None:
                continue
            rows.append([text, ids])
            again = maker.decode(ids)
            if again is not None and ids:
                back.append([ids, again])
        back = back[::3] + [[ids, maker.decode(ids)] for ids in getattr(maker, "lists", list)() if 0 not in ids]
        dump = lambda items: ",\n".join(json.dumps(i, separators=(",", ":")) for i in items)
        groups.append('{"open":%s,\n"encode":[\n%s],\n"decode":[\n%s]}' % (json.dumps(name), dump(rows), dump(back)))
    with open(os.path.join(DIR, "cases.json"), "w", encoding="utf-8") as f:
        f.write('{"groups":[\n%s]}\n' % ",\n".join(groups))


def compare(library, count):
    lib, total = C.CDLL(os.path.abspath(library)), 0
    rng = random.Random(3)  # tokenizer.bin: the algorithm below is quadratic, so short texts only
    texts = TEXTS + [G.random_text(rng, rng.randint(1, 60)) for _ in range(count // 4)] + list(G.lines(count))
    for name, maker in makers():
        ours, bad, n = G.Ours(lib, os.path.join(DIR, name)), 0, 0
        for text in texts:
            want = None if "\0" in text or len(text) > 100 and name.startswith("llama2c") else maker.encode(text)
            if want is None:
                continue
            n += 1
            got = ours.encode(text)[0]
            again = maker.decode(want)
            back = ours.decode(want, True)
            if got != want or (again is not None and back != again):
                bad += 1
                if bad < 4:
                    print(f"{name}: {text[:100]!r}\n  ours   {got[:40]} {back[:80]!r}\n  theirs {want[:40]} {(again or '')[:80]!r}")
        ours.close()
        total += bad
        print(f"{name}: {n} texts compared, {bad} differ", flush=True)
    sys.exit(total > 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        write()
    elif len(sys.argv) >= 3 and sys.argv[1] == "compare":
        compare(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 5000)
    else:
        sys.exit(__doc__)
