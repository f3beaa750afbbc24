#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""notes.py QKV [--write] [PAGE...]: runs the commands of docs/notes/ and compares their output and pictures.

A page contains blocks ```sh of shell commands, each followed by a block ```text of their output:
    text           all of it
    text head=N    its first N lines
    text first     its first paragraph
    text part=A|B  its first paragraph, and each paragraph that starts with A or B
    text tail      its first paragraph and its last
    text last      its last paragraph
    text formulas  the lines before the first line with "Measured"
    text measured  all of it; numbers, units and the text after a ";" depend on the machine
After ```sh quiet no output follows: the commands only have to succeed, and pictures are compared; the numbers of a
picture may differ only if its block trains a model or reads one that the page trained (--out).  The commands of a page
run in order in one empty folder that contains some folders of the tree (FOLDERS), so a block can read what an earlier
block wrote.  "..." marks omitted lines.  Words and names of heads must be equal; numbers may differ by two units of
their last digit or half a percent, or both be smaller than 1e-4, since instruction sets round differently.  Pictures
(-o NAME.svg, kept as pictures/NAME.svg) are drawn again and compared with the page's: the same words in the same
order, by the same rule; the numbers of a --diagram, which are sizes, must be equal.  A block of output has at most 25
lines, a page names each page and picture of the folder, each term in bold, without a full stop, has a row in
glossary.md, and each decimal of the text is in a block or a picture of its page, except computations by hand.
--write writes the new output and pictures into the folder instead.  Exit 77: a model is missing.

Each command between `` in a row of a table of README.md has to succeed too, after the first block of that page.
Not run: ctest, and the commands of LONG, which other tests or other pages run.  Blocks with an option of SLOW run with
QKV_SLOW=1 (make long), or if pages are named.
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
PICTURES = os.path.join(NOTES, "pictures")
BLOCK = re.compile(r"```sh( quiet)?\n((?:(?!```).)*?)\n```(?:\n```text ?([^\n]*)\n(.*?)```)?", re.S)
MOST_LINES = 25
FOLDERS = ("models", "examples", "docs", "tests")
ROW = re.compile(r"^\| .*", re.M)
LONG = ("qkv gradcheck", "qkv verify", "qkv train aircraft/train.tsv --from", "python3 examples/train/weight_change.py")
SLOW = ("--nearest",)  # runs a model on every word of its vocabulary
ANY = r"[-+\u2212]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+\u2212]?\d+)?"
NUMBER = re.compile(r"(?<![A-Za-z\d])" + ANY)  # the numbers of a name, such as L5.H9, are no quantities
# decimals of the text that are computed by hand, constants of a method, bounds of a picture, hundredths in a block, or results
# of docs/training.md
BY_HAND = {"02-tokens.md": "22.7", "06-scaling-softmax.md": "2.72", "09-multi-head.md": ".02 .34 .85",
           "10-heads.md": ".82", "11-positions.md": "30.9 1.0039", "13-encoder-decoder.md": "99.88",
           "14-learning.md": "1.0986", "15-generation.md": ".910 .731", "17-cost.md": "0.8 1.2 2.4 4.7"}
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
        strip = lambda t: " ".join(re.sub(r"#" + MEASURED.pattern, "#", re.sub(ANY, "#", t.split(";")[0])).split())
        return strip(a) == strip(b)
    if a == b:
        return True
    if set(a + b) & set("\u2588\u2584\u2800") or "\u28ff" > max(a + b, default="") >= "\u2800":
        return len(a) == len(b)  # a curve or a bar: the page has its numbers in another line
    if words(a) != words(b):
        return False
    return all(near(x, y) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b)))


def paragraphs(text, starts):
    """Returns the lines of the first paragraph and of each that starts with one of these texts, "..." between them."""
    kept = []
    for i, paragraph in enumerate(text.rstrip("\n").split("\n\n")):
        if not i or paragraph.startswith(tuple(starts)):
            kept += ([""] if kept else []) + paragraph.split("\n")
        elif kept[-1] != "...":
            kept.append("...")
    return kept


def excerpt(kind, text):
    """Returns the part of the output that a page shows."""
    lines = text.rstrip("\n").split("\n")
    if kind == "first" or kind.startswith("part="):
        return paragraphs(text, kind[5:].split("|") if kind != "first" else [])
    if kind.startswith("head="):
        n = int(kind[5:])
        return lines[:n] + (["..."] if len(lines) > n else [])
    if kind == "last":
        return text.rstrip("\n").split("\n\n")[-1].split("\n")
    if kind == "tail":
        first = lines.index("") if "" in lines else len(lines)
        last = len(lines) - lines[::-1].index("") if "" in lines else 0
        return lines[:first] + ["...", *lines[last:]] if last > first else lines
    if kind == "formulas":
        end = next((i for i, line in enumerate(lines) if "Measured" in line), len(lines))
        return [*lines[:end], "..."]
    return lines


def compare(page, command, kind, shown, found):
    wanted, got = [line.rstrip() for line in shown.splitlines()], excerpt(kind, found)
    got = [line.rstrip() for line in got]
    if len(wanted) != len(got):
        return f"{page}: {command}: {len(wanted)} lines on the page, {len(got)} printed"
    for a, b in zip(wanted, got):
        if not same(a, b, kind == "measured"):
            return f"{page}: {command}\n  page:    {a}\n  printed: {b}"
    return None


def texts(path):
    return ["".join(e.itertext()).strip() for e in xml.parse(path).iter() if e.tag.endswith(("}text", "}desc"))]


def compare_picture(page, name, drawn, measured, exact):
    kept = os.path.join(PICTURES, name)
    if not os.path.exists(kept):
        return f"{page}: {name} is not there"
    a, b = (" ".join(texts(path)).split() for path in (kept, drawn))  # lines may be wrapped differently
    if len(a) != len(b):
        return f"{page}: {name}: {len(a)} words, {len(b)} when drawn again"
    for x, y in zip(a, b):
        if x != y if exact else not same(x, y, measured):
            return f"{page}: {name}\n  picture: {x}\n  again:   {y}"
    return None


def run(qkv, commands, folder):
    """Returns the output of the commands of a block, which run in the folder."""
    line = 'qkv() { "$QKV" "$@"; }\n' + re.sub(r"(-o \S+)", r"\1 --force", commands)
    environment = {**os.environ, "COLUMNS": "88", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "QKV": qkv,
                   "QKV_MODELS": os.path.join(folder, "models")}
    child = subprocess.run(["sh", "-e", "-c", line], env=environment, cwd=folder, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    if child.returncode:
        return None, f"{commands}: exit {child.returncode}: {child.stderr.strip()}"
    text = child.stdout
    for name in re.findall(r"-o (\S+)", commands):
        text = re.sub(rf"(^|\n){re.escape(name)}(: picture of the view)?\n", r"\1", text)
    return text, None


def check(qkv, page, write, folder, slow):
    path, bad = os.path.join(NOTES, page), []
    with open(path, encoding="utf-8") as f:
        text = f.read()
    bad += [f"{page}: a block of {n} lines, at most {MOST_LINES} fit: {block.split(chr(10))[0]}"
            for block in re.findall(r"```(?!mermaid)\w+[^\n]*\n(.*?)```", text, re.S)
            if (n := block.count("\n")) > MOST_LINES and not write]
    if text.count("$$") % 2:
        bad.append(f"{page}: an odd number of $$")
    trained = "|".join(map(re.escape, re.findall(r"--out (\S+)", text)))
    trains = re.compile(rf"qkv train|\s(?:{trained})(?![\w.-])" if trained else "qkv train")

    def one(m):
        quiet, command, kind, shown = m.groups()
        if not slow and any(option in command for option in SLOW):
            return m.group(0)
        if (shown is None) != bool(quiet):
            bad.append(f"{page}: expected a block of output after ```sh, and none after ```sh quiet: {command}")
            return m.group(0)
        found, error = run(qkv, command, folder)
        if error:
            bad.append(f"{page}: {error}")
            return m.group(0)
        for name in re.findall(r"-o (\S+\.svg)", command):
            drawn = os.path.join(folder, name)
            if write:
                shutil.move(drawn, os.path.join(PICTURES, name))
            else:
                measured = kind == "measured" or quiet and trains.search(command)
                bad.append(compare_picture(page, name, drawn, measured, "--diagram" in command))
        differs = None if quiet else compare(page, command, kind, shown, found)
        if not write:
            bad.append(differs)
        if not write or not differs:
            return m.group(0)
        lines = "".join(line.rstrip() + "\n" for line in excerpt(kind, found))
        return f"```sh\n{command}\n```\n```text{' ' if kind else ''}{kind}\n{lines}```"

    changed = BLOCK.sub(one, text)
    if page == "README.md" and not write:
        bad += rows(qkv, text, folder)
    if write and changed != text:
        with open(path, "w", encoding="utf-8") as f:
            f.write(changed)
    return [b for b in bad if b]


def rows(qkv, text, folder):
    """Returns the complaints about the commands in the rows of the tables, which follow the first block."""
    names = "".join(line + "\n" for line in BLOCK.search(text).group(2).split("\n") if not line.startswith("qkv "))
    bad = []
    for row in ROW.findall(text):
        for command in re.findall(r"`((?:qkv|python3) [^`]*)`", row):
            if not command.startswith(LONG):
                error = run(qkv, names + command, folder)[1]
                bad.append(error and f"README.md: row {row.split('|')[1].strip()}: {error}")
    return bad


def unlisted():
    """Returns the complaints about pages and pictures that no page names."""
    kept, text = [n for n in os.listdir(NOTES) if n.endswith(".md") and n != "README.md"], ""
    for name in [*kept, "README.md"]:
        with open(os.path.join(NOTES, name), encoding="utf-8") as f:
            text += f.read()
    kept += ["pictures/" + n for n in os.listdir(PICTURES)]
    return [f"{name}: no page names it" for name in sorted(kept) if f"({name}" not in text]


def unexplained():
    """Returns the complaints about words in bold that no row of the glossary names, plural or inflected."""
    stems = lambda text: {word.lower()[:4] for word in re.findall(r"\w+", text)}
    with open(os.path.join(NOTES, "glossary.md"), encoding="utf-8") as f:
        rows_of_words = [stems(row.split("|")[1]) for row in ROW.findall(f.read())]
    bad = []
    for name in sorted(os.listdir(NOTES)):
        if name.endswith(".md") and name[0].isdigit():
            with open(os.path.join(NOTES, name), encoding="utf-8") as f:
                words = re.findall(r"\*\*([^*]+)\*\*", BLOCK.sub("", f.read()))
            bad += [f"{name}: {word}: glossary.md has no row" for word in words
                    if word != "After this page you can say" and not word.endswith(".")
                    and not any(stems(word) <= row for row in rows_of_words)]
    return bad


def unshown():
    """Returns the complaints about decimals of the text that no block and no picture of their page contains, rounded.

    Exempt are formulas, computations by hand (the section of that name, the exercise) and BY_HAND.
    """
    bad = []
    for name in sorted(os.listdir(NOTES)):
        if name.endswith(".md") and name[0].isdigit():
            with open(os.path.join(NOTES, name), encoding="utf-8") as f:
                text = f.read()
            shown = "".join(m.group(0) for m in BLOCK.finditer(text))
            for picture in re.findall(r"\(pictures/(.+?)\)", text):
                shown += "\n" + "\n".join(texts(os.path.join(PICTURES, picture)))
            known = [abs(value(n)) for n in re.findall(ANY, shown)]
            for part in ("By hand", "Exercise", "Read on"):
                text = re.sub(rf"\n## {part}\n.*?(?=\n## |\Z)", "", text, flags=re.S)
            text = re.sub(r"```.*?```|\$\$.*?\$\$|\*\*By hand\.\*\*.*?\n\n", "", text, flags=re.S)
            for n in re.findall(r"(?<![\w.])\d*\.\d+(?![\w.])", text):
                if n not in BY_HAND.get(name, "").split():
                    half = .51 * 10 ** -len(n.split(".")[1])
                    if not any(abs(k - value(n)) <= half for k in known):
                        bad.append(f"{name}: {n}: no output and no picture of the page has this number")
    return bad


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
    bad = []
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            for name in FOLDERS:
                os.symlink(os.path.join(TOP, name), os.path.join(folder, name))
            bad += check(qkv, page, write, folder, bool(names[1:] or os.environ.get("QKV_SLOW")))
    bad = unlisted() + unexplained() + unshown() + bad  # last, since --write adds pictures
    print("\n".join(bad) or f"{len(pages)} pages, each command prints what its page says")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
