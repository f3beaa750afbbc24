#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sample_words.py [--seed N] [--comments N] [--messages N]: draws comments and messages of the sources for a reader.

A reader who does not know the code marks each: clear, second reading, needs the code.  The same seed and the same
tree give the same sample.  docs/glossary.md has the words, CONTRIBUTING.md the rules.
"""
import argparse
import os
import random
import re
import subprocess


def tracked():
    out = subprocess.run(["git", "ls-files", "src", "cli", "include"], capture_output=True, text=True, check=True).stdout
    return [f for f in out.splitlines() if f.endswith((".c", ".h")) and os.path.isfile(f)]


def comments(path, text):
    """Returns whole comments: consecutive // lines as one, and /* ... */."""
    found = []
    for m in re.finditer(r"(?:^[ \t]*//[^\n]*\n)+|/\*.*?\*/", text, flags=re.S | re.M):
        plain = re.sub(r"^[ \t]*(//+|/?\*+<?)[ \t]?", "", m[0], flags=re.M).replace("*/", "").strip()
        words = re.findall(r"[A-Za-z]{2,}", plain)
        if len(words) >= 4 and "SPDX" not in plain.split("\n")[0] and not plain.startswith("----"):
            found.append((path, text.count("\n", 0, m.start()) + 1, plain))
        elif "SPDX" in plain and len(plain.split("\n")) > 1:
            found.append((path, text.count("\n", 0, m.start()) + 2, "\n".join(plain.split("\n")[1:])))
    return found


def messages(path, text):
    """Returns string literals of errors and help that are sentences: at least four words."""
    found = []
    for m in re.finditer(r'"(?:\\.|[^"\\\n])*"(?:\s*(?:PRI\w+)?\s*"(?:\\.|[^"\\\n])*")*', text):
        plain = re.sub(r'"\s*(PRI\w+)?\s*"', lambda k: "N" if k[1] else "", m[0])[1:-1]
        included = text[:m.start()].rsplit("\n", 1)[-1].lstrip().startswith("#")
        key = '\\"' in plain or len(plain.split()) < 4  # JSON, paths, names of tensors
        if len(re.findall(r"[A-Za-z]{2,}", plain)) >= 4 and not included and not key:
            found.append((path, text.count("\n", 0, m.start()) + 1, plain))
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
        for number, (path, line, plain) in enumerate(draw.sample(pool, min(count, len(pool))), 1):
            print(f"== {kind} {number}  {path}:{line}\n{plain}\n")


if __name__ == "__main__":
    main()
