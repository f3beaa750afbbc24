#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""spell.py DICTIONARY OUT: writes words with their pronunciations: "phone", tab, "F OW N".

DICTIONARY is CMUdict in the format of cmudict-en-us.dict of Debian's pocketsphinx-en-us (Carnegie Mellon University,
BSD licence): one word per line with its phonemes, further pronunciations as word(2).  Stress marks are removed.  The
split is by word: 5 % for testing, 1 % for validation.

  OUT/spell/train.tsv            one line per pronunciation
  OUT/spell/valid.tsv test.tsv   one line per word with all its pronunciations: any of them is correct
  OUT/spell/tokenizer.json       one for both sides: single lower-case letters, whole phonemes
"""
import hashlib
import json
import os
import re
import sys

SPECIALS = ["<pad>", "</s>", "<unk>", "<s>"]
LETTERS = list("'abcdefghijklmnopqrstuvwxyz")


def number(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def read(path):
    """Returns {word: [pronunciations]} of the words that consist of letters and apostrophes."""
    words = {}
    with open(path, encoding="latin-1") as f:
        for line in f:
            spelling, *sounds = line.split("#")[0].split()
            if line.startswith(";;;") or not sounds:
                continue
            word = re.sub(r"\(\d+\)$", "", spelling).lower()
            said = " ".join(re.sub(r"\d", "", sound) for sound in sounds)
            if re.fullmatch(r"[a-z']*[a-z][a-z']*", word) and said not in words.setdefault(word, []):
                words[word].append(said)
    return words


def tokenizer(phonemes):
    tokens = SPECIALS + LETTERS + phonemes
    end = SPECIALS.index("</s>")
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, t in enumerate(SPECIALS)],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
                     {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [end], "tokens": ["</s>"]}}},
        "decoder": None,
        # The longest token from the left, without a prefix for the inside of words: letters, or a whole phoneme.
        "model": {"type": "WordPiece", "vocab": {t: i for i, t in enumerate(tokens)}, "unk_token": "<unk>",
                  "continuing_subword_prefix": "", "max_input_chars_per_word": 100},
    }


def write(path, text):
    with open(path + ".tmp", "w", encoding="utf-8", newline="\n") as f:
        f.write(text)
    os.replace(path + ".tmp", path)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    words, out = read(sys.argv[1]), f"{sys.argv[2]}/spell"
    assert len(words) > 100000, "not the dictionary that was expected"
    lines = {"train": [], "valid": [], "test": []}
    for word in sorted(words):
        place = number(word) % 100
        if place < 6:
            lines["test" if place < 5 else "valid"].append("\t".join([word] + words[word]))
        else:
            lines["train"] += [f"{word}\t{said}" for said in words[word]]
    os.makedirs(out, exist_ok=True)
    for name, rows in lines.items():
        write(f"{out}/{name}.tsv", "".join(row + "\n" for row in rows))
    phonemes = sorted({p for said in words.values() for one in said for p in one.split()})
    write(f"{out}/tokenizer.json", json.dumps(tokenizer(phonemes), indent=1) + "\n")
    print(f"{len(words)} words, {len(phonemes)} phonemes: " +
          ", ".join(f"{len(rows)} lines to {name}" for name, rows in lines.items()))


if __name__ == "__main__":
    main()
