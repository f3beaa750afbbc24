#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""verses.py OUT: writes the King James and the World English Bible as training text.

Reads both with diatheke (Debian: diatheke, sword-text-kjv, sword-text-web; both texts are in the public domain) and
removes notes, Strong's numbers, headings, verse numbers and line marks.  Writes, the same bytes on every machine:

  OUT/verse/train.txt valid.txt       chapters separated by blank lines, one verse per line; one chapter in fifty is
  held out, in both translations, so that no verse of it is seen
  OUT/pairs/train.tsv valid.tsv test.tsv   King James, tab, World English: the same verse; 1,000 for testing
"""
import hashlib
import html
import os
import re
import subprocess
import sys

MODULES = ("engKJV2006eb", "engWEB2015eb")
FILES = {"test": 1000, "valid": 500}  # pairs for validation and test; the others are for training

BOOK = r"(?:I{1,3} )?[A-Z][A-Za-z]*(?: [A-Za-z]+){0,4}"
REFERENCE = re.compile(r"(?:(?<=^)|(?<=[>\s]))(%s) (\d+):(\d+): " % BOOK, re.M)
TITLE = re.compile(r"<title\b[^>]*>.*?</title>", re.S)
BREAK = re.compile(r"<(?:l|lg|lb|div|chapter|milestone|list|item|speaker)\b[^>]*>|</(?:item|list|speaker)>")
TAG = re.compile(r"<[^>]*>")


def clean(text):
    """Returns the words of a verse.  diatheke leaves no space where a note was between two words."""
    text = text.split("The following words used in the World English Bible")[0]  # glossary of the translation
    text = re.sub(r"(</[wq]>|[A-Za-z])(?=<[wq]\b)", r"\1 ", text)
    text = html.unescape(TAG.sub("", BREAK.sub(" ", text))).replace("\\nd ", "").replace("\u00b6", " ")
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r" ([,.;:?!\u2019\u201d)])", r"\1", text)
    return re.sub(r"(?<=[a-z\u2019])([,;:.?!])(?=[A-Za-z])", r"\1 ", text)


def verses(module):
    """Returns {(book, chapter, verse): text} in the order of the module."""
    out = subprocess.run(["diatheke", "-b", module, "-f", "internal", "-k", "Gen 1:1-Rev 22:21"],
                         capture_output=True, check=True).stdout.decode()
    out = TITLE.sub(" ", out[:out.rindex("(" + module + ")")])
    found = list(REFERENCE.finditer(out))
    result = {}
    for here, after in zip(found, found[1:] + [None]):
        text = clean(out[here.end():after.start() if after else len(out)])
        if text:
            result[(here[1], int(here[2]), int(here[3]))] = text
    return result


def number(text):
    """Hashes a text to a pseudo-random number, the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def write(path, lines):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".tmp", "w", encoding="utf-8", newline="\n") as f:
        f.writelines(line + "\n" for line in lines)
    os.replace(path + ".tmp", path)


def write_chapters(out, both):
    parts = {"train": [], "valid": []}
    for text in both:
        chapters = {}
        for (book, chapter, _), verse in text.items():
            chapters.setdefault((book, chapter), []).append(verse)
        for (book, chapter), lines in chapters.items():
            held = number(f"{book} {chapter}") % 50 == 0
            parts["valid" if held else "train"] += lines + [""]
    for name, lines in parts.items():
        write(f"{out}/verse/{name}.txt", lines)


def write_pairs(out, both):
    """Removes verses whose words occur twice in either translation, because they have no unique partner."""
    seen = [{}, {}]
    for text, count in zip(both, seen):
        for verse in text.values():
            count[verse] = count.get(verse, 0) + 1
    keys = [k for k in both[0] if k in both[1] and seen[0][both[0][k]] == 1 and seen[1][both[1][k]] == 1]
    order = sorted(keys, key=lambda k: number(f"{k[0]} {k[1]}:{k[2]}"))
    begin = 0
    for name, count in list(FILES.items()) + [("train", len(order))]:
        rows = order[begin:begin + count]
        begin += count
        write(f"{out}/pairs/{name}.tsv", [both[0][k] + "\t" + both[1][k] for k in rows])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    both = [verses(module) for module in MODULES]
    books = {key[0] for key in both[0]}  # the World English Bible has more than these 66
    both[1] = {key: verse for key, verse in both[1].items() if key[0] in books}
    for text in both:
        assert len(text) > 31000, "a translation is not whole"
    write_chapters(sys.argv[1], both)
    write_pairs(sys.argv[1], both)


if __name__ == "__main__":
    main()
