#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sample_words.py [--seed N] [--comments N] [--messages N]: draws comments and messages of the sources for a reader.

A reader who does not know the code marks each: clear, second reading, needs the code.  A comment is printed with the
declaration that it describes and a message with the statement that assembles it, marked |, because readers see
both together.  The same seed and the same tree give the same sample.  docs/glossary.md has the words, CONTRIBUTING.md the
rules.
"""
import argparse
import os
import random
import re
import subprocess


def tracked():
    out = subprocess.run(["git", "ls-files", "src", "cli", "include"], capture_output=True, text=True, check=True).stdout
    return [f for f in out.splitlines() if f.endswith((".c", ".h")) and os.path.isfile(f)]


def described(text, begin, end):
    """Returns the code that a comment describes: its own line, or else the declaration that follows, at most 3 lines."""
    own = text[text.rfind("\n", 0, begin) + 1:begin].strip()
    if own:
        return [own]
    lines = []
    for line in text[end:].lstrip("\n").split("\n")[:3]:
        if not line.strip():
            break
        lines.append(line.strip())
        if line.rstrip().endswith((";", "{", ":")):
            break
    return lines


def statement(text, begin, end):
    """Returns the statement that contains a message, at most 3 lines before it and 3 from it on."""
    first = text.rfind("\n", 0, begin) + 1
    lines = text[first:end].split("\n")
    for line in reversed(text[:first].rstrip("\n").split("\n")[-3:]):
        if not line.strip() or line.rstrip().endswith((";", "{", "}", ":")):
            break
        lines.insert(0, line)
    tail = text[end:].split("\n")[:3]
    lines[-1] += tail[0]
    for line in tail[1:]:
        if lines[-1].rstrip().endswith((";", "{", "},")):
            break
        lines.append(line)
    return [line.strip() for line in lines]


def comments(path, text):
    """Returns whole comments: consecutive // lines as one, and /* ... */."""
    found = []
    for m in re.finditer(r"(?:^[ \t]*//[^\n]*\n)+|/\*.*?\*/", text, flags=re.S | re.M):
        plain = re.sub(r"^[ \t]*(//+|/?\*+<?)[ \t]?", "", m[0], flags=re.M).replace("*/", "").strip()
        words = re.findall(r"[A-Za-z]{2,}", plain)
        if len(words) >= 4 and "SPDX" not in plain.split("\n")[0] and not plain.startswith("----"):
            found.append((path, text.count("\n", 0, m.start()) + 1, plain, described(text, m.start(), m.end())))
        elif "SPDX" in plain and len(plain.split("\n")) > 1:
            found.append((path, text.count("\n", 0, m.start()) + 2, "\n".join(plain.split("\n")[1:]), []))
    return found


def messages(path, text):
    """Returns string literals of errors and help that are sentences: at least four words."""
    found = []
    for m in re.finditer(r'"(?:\\.|[^"\\\n])*"(?:\s*(?:PRI\w+)?\s*"(?:\\.|[^"\\\n])*")*', text):
        plain = re.sub(r'"\s*(PRI\w+)?\s*"', lambda k: "N" if k[1] else "", m[0])[1:-1]
        included = text[:m.start()].rsplit("\n", 1)[-1].lstrip().startswith("#")
        key = '\\"' in plain or "':" in plain or len(plain.split()) < 4  # JSON, paths, names of tensors
        if len(re.findall(r"[A-Za-z]{2,}", plain)) >= 4 and not included and not key:
            found.append((path, text.count("\n", 0, m.start()) + 1, plain, statement(text, m.start(), m.end())))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--comments", type=int, default=100)
    parser.add_argument("--messages", type=int, default=50)
    options = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    pools = {"comment": [], "message": []}
    for path in tracked():
        with open(path, encoding="utf-8") as f:
            text = f.read()
        pools["comment"] += comments(path, text)
        pools["message"] += messages(path, text)
    draw = random.Random(options.seed)
    for kind, count in (("comment", options.comments), ("message", options.messages)):
        pool = pools[kind]
        for number, (path, line, plain, code) in enumerate(draw.sample(pool, min(count, len(pool))), 1):
            print(f"== {kind} {number}  {path}:{line}\n{plain}")
            print("".join(f"    | {row}\n" for row in code))


if __name__ == "__main__":
    main()
