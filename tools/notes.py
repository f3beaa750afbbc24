#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""notes.py QKV [--write] [PAGE...]: runs the commands of docs/notes/ and compares their output and pictures.

A page contains blocks ```sh with one command `qkv ...`, each followed by a block ```text of its output:
    text           all of it
    text head=N    its first N lines
    text tail      its first paragraph and its last
    text formulas  the lines before the first line with "Measured"
    text measured  all of it; numbers, units and the text after a ";" depend on the machine
"..." marks omitted lines.  Words must be equal; numbers may differ by two units of their last digit or half a
percent, or both be smaller than 1e-4, since instruction sets round differently.  Pictures (-o NAME.svg) are drawn
again and compared with the page's: the same words in the same order, by the same rule.  --write writes the new output
and pictures into the pages instead.  Exit 77: a model is missing.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOTES = os.path.join(TOP, "docs/notes")
BLOCK = re.compile(r"```sh\n(qkv [^\n]*)\n```\n```text ?([^\n]*)\n(.*?)```", re.S)
NUMBER = re.compile(r"[-+\u2212]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+\u2212]?\d+)?")
MEASURED = re.compile(r"\s*(?:[KMG]iB|[mu\u00b5n]?s\b|x\b|%)?")


def value(text):
    return float(text.replace(",", "").replace("\u2212", "-"))


def near(a, b):
    x, y = value(a), value(b)
    digits = max(len(t.split("e")[0].partition(".")[2]) for t in (a, b))
    if "e" in a or "e" in b:
        return max(abs(x), abs(y)) < 1e-4 or abs(x - y) <= .05 * max(abs(x), abs(y))
    return abs(x - y) <= max(2.01 * 10 ** -digits, .005 * abs(x))


def same(a, b, measured=False):
    """Returns whether two lines have the same words and close numbers."""
    words = lambda t: " ".join(NUMBER.sub("#", t).split())
    if measured:
        strip = lambda t: " ".join(re.sub(r"#" + MEASURED.pattern, "#", NUMBER.sub("#", t.split(";")[0])).split())
        return strip(a) == strip(b)
    if a == b:
        return True
    if set(a + b) & set("\u2588\u2584\u2800") or "\u28ff" > max(a + b, default="") >= "\u2800":
        return len(a) == len(b)  # a curve or a bar: the page has its numbers in another line
    if words(a) != words(b):
        return False
    return all(near(x, y) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b)))


def excerpt(kind, text):
    """Returns the part of the output that a page shows."""
    lines = text.rstrip("\n").split("\n")
    if kind.startswith("head="):
        n = int(kind[5:])
        return lines[:n] + (["..."] if len(lines) > n else [])
    if kind == "tail":
        first = lines.index("") if "" in lines else len(lines)
        last = len(lines) - lines[::-1].index("") if "" in lines else 0
        return lines[:first] + ["...", *lines[last:]] if last > first else lines
    if kind == "formulas":
        end = next((i for i, line in enumerate(lines) if "Measured" in line), len(lines))
        return [*lines[:end], "..."]
    return lines


def compare(page, command, kind, shown, found):
    wanted, got = [line.rstrip() for line in shown.rstrip("\n").split("\n")], excerpt(kind, found)
    got = [line.rstrip() for line in got]
    if len(wanted) != len(got):
        return f"{page}: {command}: {len(wanted)} lines on the page, {len(got)} printed"
    for a, b in zip(wanted, got):
        if not same(a, b, kind == "measured"):
            return f"{page}: {command}\n  page:    {a}\n  printed: {b}"
    return None


def texts(path):
    return ["".join(e.itertext()).strip() for e in xml.parse(path).iter() if e.tag.endswith(("}text", "}desc"))]


def compare_picture(page, name, drawn):
    kept = os.path.join(NOTES, name)
    if not os.path.exists(kept):
        return f"{page}: {name} is not there"
    a, b = (" ".join(texts(path)).split() for path in (kept, drawn))  # lines may be wrapped differently
    if len(a) != len(b):
        return f"{page}: {name}: {len(a)} words, {len(b)} when drawn again"
    for x, y in zip(a, b):
        if not same(x, y):
            return f"{page}: {name}\n  picture: {x}\n  again:   {y}"
    return None


def run(qkv, command, folder):
    """Returns the output of a command of a page; its pictures are written to the folder."""
    line = re.sub(r"-o (\S+)", lambda m: f"-o {os.path.join(folder, m.group(1))} --force", command)
    environment = {**os.environ, "COLUMNS": "88", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    child = subprocess.run(["sh", "-c", f'"$QKV"{line[3:]}'], env={**environment, "QKV": qkv}, cwd=TOP,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if child.returncode:
        return None, f"{command}: exit {child.returncode}: {child.stderr.strip()}"
    text = child.stdout
    for name in re.findall(r"-o (\S+)", command):
        text = text.replace(f"\n{os.path.join(folder, name)}\n", "")
    return text, None


def check(qkv, page, write, folder):
    path, bad = os.path.join(NOTES, page), []
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if not write and text.count("```sh\n") != len(BLOCK.findall(text)):
        bad.append(f"{page}: a command without a block of what it prints")

    def one(m):
        command, kind, shown = m.groups()
        found, error = run(qkv, command, folder)
        if error:
            bad.append(f"{page}: {error}")
            return m.group(0)
        for name in re.findall(r"-o (\S+\.svg)", command):
            drawn = os.path.join(folder, name)
            if write:
                shutil.move(drawn, os.path.join(NOTES, name))
            else:
                bad.append(compare_picture(page, name, drawn))
        if not write:
            bad.append(compare(page, command, kind, shown, found))
            return m.group(0)
        lines = "\n".join(line.rstrip() for line in excerpt(kind, found))
        return f"```sh\n{command}\n```\n```text{' ' if kind else ''}{kind}\n{lines}\n```"

    changed = BLOCK.sub(one, text)
    if write and changed != text:
        with open(path, "w", encoding="utf-8") as f:
            f.write(changed)
    return [b for b in bad if b]


def main():
    names = [a for a in sys.argv[1:] if not a.startswith("--")]
    if not names:
        sys.exit(__doc__)
    qkv, write = os.path.abspath(names[0]), "--write" in sys.argv
    if not os.path.exists(os.path.join(TOP, "models/all-MiniLM-L6-v2/model.safetensors")):
        print("skipped: models/all-MiniLM-L6-v2 is not there")
        return 77
    pages = [os.path.basename(n) for n in names[1:]] or sorted(n for n in os.listdir(NOTES) if n.endswith(".md"))
    os.environ.pop("QKV_MODEL", None)
    with tempfile.TemporaryDirectory() as folder:
        bad = [b for page in pages for b in check(qkv, page, write, folder)]
    print("\n".join(bad) or f"{len(pages)} pages, each command prints what its page says")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
