#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutate.py: tests the tests.  Changes one token or statement of the source at a time, and runs the tests until one
fails.

    mutate.py FOLDER... [--tests LABELS] [--share S] [--seed WORD] [--only FILE:LINE]

FOLDER: below src, or a file.  LABELS: modules whose tests run, "kernel,layer" by default.  S is the share of all
mutants that is drawn, by the seed.  The work is done in a copy of the tree, build/mutants.

A mutant is killed by a test that fails, crashes or takes ten times as long as it should; one that does not compile does
not count.  Prints the survivors, which are either gaps of the tests or changes that no result shows, and the counts, also
when Ctrl-C or SIGTERM ends it.
"""
import argparse
import collections
import os
import random
import re
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TREE = os.path.join(ROOT, "build", "mutants", "tree")
BUILD = os.path.join(ROOT, "build", "mutants", "out")
# (name, pattern, replacement): applied to each match in code, one at a time
CHANGES = [
    ("arithmetic", r"(?<=[\w)\]] )\+(?= )", "-"), ("arithmetic", r"(?<=[\w)\]] )-(?= )", "+"),
    ("arithmetic", r"(?<=[\w)\]] )\*(?= )", "/"), ("arithmetic", r"(?<=[\w)\]] )/(?= )", "*"),
    ("assignment", r"(?<= )\+=(?= )", "-="), ("assignment", r"(?<= )-=(?= )", "+="), ("assignment", r"(?<= )\*=(?= )", "+="),
    ("relation", r"(?<= )<(?= )", "<="), ("relation", r"(?<= )<=(?= )", "<"),
    ("relation", r"(?<= )>(?= )", ">="), ("relation", r"(?<= )>=(?= )", ">"),
    ("relation", r"(?<= )==(?= )", "!="), ("relation", r"(?<= )!=(?= )", "=="),
    ("logic", r"(?<= )&&(?= )", "||"), ("logic", r"(?<= )\|\|(?= )", "&&"), ("logic", r"(?<=[( ])!(?=[\w(])", ""),
    ("number", r"(?<![\w.])0(?![\w.])", "1"), ("number", r"(?<![\w.])1(?![\w.])", "2"),
    ("choice", r"(?<= )\? ([^:?]+) : ([^:?;,]+)(?=[;,)])", r"? \2 : \1"),
]
STATEMENT = re.compile(r"^ +(?! |return\b|const\b|static\b|goto\b|break\b|continue\b|struct\b|else\b|case\b)[\w\[\]>.\-*() ,+&/]+?"
                       r"( [-+*/|&]?= .*|\(.*\)|\+\+|--);$")
DECLARATION = re.compile(r"^ +(const |static |struct |enum |unsigned |int|size_t|float|double|bool|char|void|real|qkv_\w+ \*?\w+ =|uint|\w+_t )")


def code_lines(text):
    """Yields (index, line) of the lines with code: no comments, directives, contracts or tables of strings."""
    inside = False
    for i, line in enumerate(text):
        bare = line.strip()
        if inside or bare.startswith("/*"):
            inside = "*/" not in bare
            continue
        if not bare or bare.startswith(("//", "#", "*")) or '"' in bare or "assert" in bare: continue
        if line.rstrip().endswith("\\"): continue
        yield i, line


def mutants(path):
    """Returns [(line index, kind, changed line)] of a file."""
    found = []
    with open(path) as f: text = f.read().split("\n")
    for i, line in code_lines(text):
        cut = line.find("//")
        code, rest = (line[:cut], line[cut:]) if cut >= 0 else (line, "")
        for kind, pattern, to in CHANGES:
            for m in re.finditer(pattern, code):
                new = code[:m.start()] + m.expand(to) + code[m.end():]
                if new != code: found.append((i, kind, new + rest))
        if STATEMENT.match(code.rstrip()) and not DECLARATION.match(code):
            found.append((i, "removal", re.match(" *", code)[0] + ";" + rest))
    return found


def quiet(*args, **more):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


class Tests:
    """The test programs, those first that killed most mutants per second."""

    def __init__(self, labels):
        listed = quiet("ctest", "--test-dir", BUILD, "-N", "-L", "^(" + "|".join(labels) + ")$").stdout
        self.names = re.findall(r"Test +#\d+: \w+/(test_\w+)", listed)
        self.seconds, self.kills = {}, collections.Counter()
        print(f"{len(self.names)} test programs", flush=True)
        for name in list(self.names):
            built = quiet("cmake", "--build", BUILD, "--target", name)
            if built.returncode: raise SystemExit(f"{name} does not build:\n{built.stdout[-2000:]}")
            begin = time.monotonic()
            code = self.run(name, 600)
            self.seconds[name] = time.monotonic() - begin
            if code == 77: self.names.remove(name)
            elif code: raise SystemExit(f"{name} fails without a change")

    def run(self, name, limit):
        env = dict(os.environ, QKV_THREADS="1")
        try:
            return subprocess.run([os.path.join(BUILD, "tests", name)], cwd=TREE, timeout=limit, env=env,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        except subprocess.TimeoutExpired:
            return -1

    def order(self, file):
        """Tests of the file's own name first, then by kills per second."""
        stem = os.path.basename(file).split(".")[0]
        near = lambda name: name == "test_" + stem or stem.startswith(name[5:]) or name[5:].startswith(stem)
        return sorted(self.names, key=lambda n: (not near(n), -(self.kills[n] + .5) / (self.seconds[n] + .5)))

    def killer(self, file):
        """Returns the program that fails, "" if none does, None if the tree does not compile."""
        for name in self.order(file):
            built = quiet("cmake", "--build", BUILD, "--target", name)
            if built.returncode: return None
            if self.run(name, 10 * self.seconds[name] + 10):
                self.kills[name] += 1
                return name
        return ""


def try_one(tests, counts, file, i, kind, new):
    """Changes line i of a file, runs the tests, counts the result and prints a survivor."""
    target = os.path.join(TREE, file)
    with open(target) as f: text = f.read()
    lines = text.split("\n")
    old, lines[i] = lines[i], new
    try:
        with open(target, "w") as f: f.write("\n".join(lines))
        killer = tests.killer(file)
    finally:
        with open(target, "w") as f: f.write(text)
    counts["not compiled" if killer is None else "killed" if killer else "survived"] += 1
    if killer == "":
        print(f"{file}:{i + 1}: {kind}\n  - {old.strip()}\n  + {new.strip()}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="+")
    p.add_argument("--tests", default="kernel,layer")
    p.add_argument("--share", type=float, default=1)
    p.add_argument("--seed", default="1")
    p.add_argument("--only")
    a = p.parse_args()
    os.chdir(ROOT)
    files = [f for folder in a.folders for f in quiet("git", "ls-files", folder).stdout.split() if f.endswith((".c", ".h"))]
    all_of = [(f, *m) for f in files for m in mutants(f)]
    if a.only: drawn = [m for m in all_of if f"{m[0]}:{m[1] + 1}" == a.only]
    else: drawn = random.Random(a.seed).sample(all_of, round(a.share * len(all_of)))
    print(f"{len(drawn)} of {len(all_of)} mutants of {len(files)} files", flush=True)
    os.makedirs(TREE, exist_ok=True)
    subprocess.run(f"git ls-files -z | xargs -0 cp -d --parents -u -t {TREE}", shell=True, check=True)
    made = quiet("cmake", "-S", TREE, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1",
                 "-DQKV_BENCH=OFF", "-DQKV_TESTS=ON", "-DQKV_WERROR=OFF", "-DCMAKE_C_FLAGS=-DQKV_FEW=1 -w")
    if made.returncode: raise SystemExit(made.stdout)
    tests = Tests(a.tests.split(","))
    counts = collections.Counter()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for mutant in drawn: try_one(tests, counts, *mutant)
    except KeyboardInterrupt:
        print("stopped; the mutants were drawn at random, so the first ones are a sample too")
    tried = counts["killed"] + counts["survived"]
    print(f"{tried} mutants, {counts['killed']} killed ({100 * counts['killed'] / max(1, tried):.1f} %), "
          f"{counts['survived']} survived; {counts['not compiled']} did not compile")
    return 0


if __name__ == "__main__":
    sys.exit(main())
