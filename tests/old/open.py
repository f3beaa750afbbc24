#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""open.py: files that a released version wrote open in this version, with the results that it had.

    open.py QKV [--record FOLDER]

Each folder next to this file has the name of a version and holds files that it wrote: a run that can be continued, model
folders of each architecture, weights of 8 and 16 bits, a tokenizer, arrays; expected.json has what that version printed
about them.  --record makes expected.json of a new version's folder, by its own command.

Numbers may differ by 1e-4 of their size (kernels of another CPU add in another order); what is not a number is equal, in
the cases that print ids and texts, and is not compared in those that print a table.  FIRST: what follows the first
blank line was added later.  Members of a JSON object that the version did not print were added later too.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FIRST = "first"
# (command, whether words are compared as well as numbers)
CASES = [
    ("generate -m run/model the_owl -n 8", True), ("generate -m int8 the_owl -n 8 --json", True),
    ("generate -m bf16 the_owl -n 8", True), ("generate -m llama the_owl -n 8", True),
    ("translate -m pairs the_owl -n 8", True), ("translate -m gru the_owl -n 8", True),
    ("classify -m labels the_owl_said --json", True), ("embed -m vectors --json the_owl", True),
    ("tokenize -m llama the_owl_sailed_away", FIRST), ("tokenize -m labels the_owl_sailed_away", FIRST),
    ("tokenize --tokenizer tokenizer.json the_owl_sailed_away", FIRST),
    ("similar -m vectors the_owl a_boat", True),
    ("info vectors.npy", False), ("info trace.safetensors", False),
    ("eval run", False), ("plot run --json", False),
    ("train --resume run --steps 8", None), ("plot run --json", False),
]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def run(qkv, command, folder):
    # a text is one word here, with _ for its spaces
    args = [a.replace("_", " ") if a.startswith(("the_", "a_")) else a for a in command.split()]
    done = subprocess.run([qkv, *args], cwd=folder, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.returncode, done.stdout, done.stderr


def numbers(text):
    return [float(n) for n in NUMBER.findall(text)]


def without_later_members(got, want):
    """Returns a printed JSON object without the members that `want` lacks; another text as it is."""
    try:
        got_members, want_members = json.loads(got), json.loads(want)
        return json.dumps({k: got_members[k] for k in want_members}), json.dumps(want_members)
    except (ValueError, KeyError, TypeError):
        return got, want


def difference(got, want, words):
    """Returns what differs, or None."""
    got, want = without_later_members(got, want)
    if words == FIRST: got = got.split("\n\n")[0].rstrip("\n") + "\n"
    a, b = numbers(got), numbers(want)
    if len(a) != len(b): return "another number of numbers"
    for x, y in zip(a, b):
        if abs(x - y) > 1e-4 * max(1, abs(y)): return f"{x}, expected {y}"
    if words and NUMBER.sub("0", got) != NUMBER.sub("0", want): return "other words"
    return None


def each(qkv, source):
    """Yields (command, words, exit code, output, errors) of all cases, in a copy of the folder."""
    with tempfile.TemporaryDirectory(prefix="qkv-old-") as temp:
        folder = os.path.join(temp, "files")
        shutil.copytree(source, folder, symlinks=True)
        for command, words in CASES: yield command, words, *run(qkv, command, folder)


def main():
    qkv = os.path.abspath(sys.argv[1])
    if len(sys.argv) == 4 and sys.argv[2] == "--record":
        kept = [{"command": c, "output": out} for c, words, code, out, _ in each(qkv, sys.argv[3]) if words is not None]
        with open(os.path.join(sys.argv[3], "expected.json"), "w") as f: json.dump(kept, f, indent=1)
        return 0
    bad = tried = 0
    for version in sorted(v for v in os.listdir(HERE) if os.path.isdir(os.path.join(HERE, v)) and v[0].isdigit()):
        with open(os.path.join(HERE, version, "expected.json")) as f: expected = json.load(f)
        for command, words, code, out, err in each(qkv, os.path.join(HERE, version)):
            tried += 1
            if words is None:
                wrong = f"exit {code}: {err}" if code else None
            else:
                want = expected.pop(0)
                assert want["command"] == command, (want["command"], command)
                wrong = f"exit {code}: {err}" if code else difference(out, want["output"], words)
            if wrong:
                bad += 1
                print(f"{version}: qkv {command}: {wrong}\n{out}")
    print(f"{tried} commands on files of older versions, {bad} differ")
    return 1 if bad or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
