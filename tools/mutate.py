#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutate.py: tests the tests.  Changes one token or statement of the source at a time, and runs the tests until one
fails.

    mutate.py FOLDER... [--tests LABELS] [--share S | --count N] [--seed WORD] [--most M] [--only FILE:LINE]

FOLDER: below src, or a file.  LABELS: modules whose tests run, "kernel,layer" by default.  S is the share, N the number of
mutants that the seed draws.  The work is done in a copy of the tree, build/mutants.

The test programs run in this order: those named like the changed file, the LIKE that name most functions of the file or
share most words with its path, then those that killed most mutants per second.  CPU seconds and kills are stored in build/mutants; a program that
never ran has the seconds of tests/costs.txt.  With --most, only the first M programs run.  A program is built and timed
when its turn comes; its first kill is compared with a run without a change.

A mutant is killed by a test that fails, crashes or takes ten times the CPU time that it should; one that does not compile
does not count.  Prints the survivors, which are either gaps of the tests or changes that no result shows, and the counts, also
when Ctrl-C or SIGTERM ends it.
"""
import argparse
import collections
import filecmp
import glob
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TREE = os.path.join(ROOT, "build", "mutants", "tree")
BUILD = os.path.join(ROOT, "build", "mutants", "out")
LEARNED = os.path.join(ROOT, "build", "mutants", "learned.json")
LIKE = 5
SHORT = 3  # seconds to expect of a program that is not in tests/costs.txt
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


def words(path):
    """Returns the beginnings of the words of a file's name and of its folders, without src or tests."""
    return {w[:4] for w in re.split(r"[/_]", path.split(".")[0])} - {"src", "test", "body"}


def cpu_seconds():
    """Returns the CPU seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def functions(path):
    """Returns the names of the functions that a file defines."""
    with open(path) as f: return set(re.findall(r"^(?=\w)[\w *]*?\b(\w+)\(", f.read(), re.M))


class Tests:
    """The test programs, with the seconds that each takes and the number of mutants that it killed."""

    def __init__(self, labels, most):
        listed = quiet("ctest", "--test-dir", BUILD, "-N", "-L", "^(" + "|".join(labels) + ")$").stdout
        self.most, self.sound = most, set()
        self.words, self.names = {}, {}
        for module, name in re.findall(r"Test +#\d+: (\w+)/(test_\w+)", listed):
            found = glob.glob(f"tests/{module}/**/{name}.c", recursive=True)
            self.words[name] = words(found[0])
            with open(found[0]) as f: self.names[name] = set(re.findall(r"\w+", f.read()))
        with open("tests/costs.txt") as f: rows = [row.split() for row in f if re.match(r"\w+/test_", row)]
        costs = {name.split("/")[1]: float(seconds) for name, seconds in rows}
        self.seconds = {name: costs.get(name, SHORT) for name in self.words}
        self.kills = collections.Counter()
        if os.path.exists(LEARNED):
            with open(LEARNED) as f: learned = json.load(f)
            self.seconds.update((n, s) for n, s in learned["seconds"].items() if n in self.words)
            self.kills.update(learned["kills"])
        print(f"{len(self.words)} test programs", flush=True)

    def store(self):
        with open(LEARNED, "w") as f: json.dump({"seconds": self.seconds, "kills": self.kills}, f, indent=1)

    def run(self, name):
        """Returns the exit code of a program, -1 if it takes too long.  Learns the seconds of one that passes."""
        used, limit = cpu_seconds(), int(10 * self.seconds[name] + 10)
        try:
            code = subprocess.run([os.path.join(BUILD, "tests", name)], cwd=TREE, timeout=10 * limit,  # on a busy machine
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
                                  env=dict(os.environ, QKV_THREADS="1"), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL).returncode
        except subprocess.TimeoutExpired:
            return -1
        if code == 0: self.seconds[name] = round(max(cpu_seconds() - used, .05), 2)
        return code

    def order(self, file):
        """Returns the programs, those first that should kill a mutant of the file."""
        stem, own, defined = os.path.basename(file).split(".")[0], words(file), functions(file)
        near = lambda n: n == "test_" + stem or stem.startswith(n[5:]) or n[5:].startswith(stem)
        like = lambda n: len(own & self.words[n]) / len(own | self.words[n])
        rate = lambda n: (self.kills[n] + .5) / (self.seconds[n] + 2)
        names = lambda n: len(defined & self.names[n])
        first = sorted(self.words, key=lambda n: (not near(n), -names(n), -like(n), -rate(n)))
        n = max(LIKE, sum(map(near, first)))
        return (first[:n] + sorted(first[n:], key=lambda n: -rate(n)))[:self.most]

    def killer(self, file):
        """Returns the program that fails, "" if none does, None if the tree does not compile."""
        for name in self.order(file):
            built = quiet("cmake", "--build", BUILD, "--target", name)
            if built.returncode: return None
            code = self.run(name)
            if code == 77: del self.words[name]
            elif code: return name
        return ""

    def check(self, name):
        """Ends the run if a program fails without a change."""
        if name in self.sound: return
        built = quiet("cmake", "--build", BUILD, "--target", name)
        if built.returncode: raise SystemExit(f"{name} does not build:\n{built.stdout[-2000:]}")
        if self.run(name): raise SystemExit(f"{name} fails without a change")
        self.sound.add(name)


def copy_tree():
    """Makes the copy equal to the files of the tree."""
    for name in quiet("git", "ls-files", "-z").stdout.split("\0"):
        to = os.path.join(TREE, name)
        if not name or not os.path.lexists(name): continue
        if os.path.islink(name) != os.path.islink(to) or not os.path.exists(to) or not filecmp.cmp(name, to, False):
            os.makedirs(os.path.dirname(to), exist_ok=True)
            if os.path.lexists(to): os.remove(to)
            shutil.copyfile(name, to, follow_symlinks=False)
            if not os.path.islink(name): shutil.copymode(name, to)


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
    if killer:
        tests.check(killer)
        tests.kills[killer] += 1
    tests.store()
    what = "not compiled" if killer is None else "killed" if killer else "survived"
    counts[what] += 1
    print(f"{file}:{i + 1}: {kind} {what}{' by ' + killer if killer else ''}", flush=True)
    if killer == "": print(f"  - {old.strip()}\n  + {new.strip()}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="+")
    p.add_argument("--tests", default="kernel,layer")
    p.add_argument("--share", type=float, default=1)
    p.add_argument("--count", type=int)
    p.add_argument("--seed", default="1")
    p.add_argument("--most", type=int)
    p.add_argument("--only")
    a = p.parse_args()
    os.chdir(ROOT)
    files = [f for folder in a.folders for f in quiet("git", "ls-files", folder).stdout.split() if f.endswith((".c", ".h"))]
    all_of = [(f, *m) for f in files for m in mutants(f)]
    if a.only: drawn = [m for m in all_of if f"{m[0]}:{m[1] + 1}" == a.only]
    else: drawn = random.Random(a.seed).sample(all_of, min(a.count or round(a.share * len(all_of)), len(all_of)))
    print(f"{len(drawn)} of {len(all_of)} mutants of {len(files)} files", flush=True)
    os.makedirs(TREE, exist_ok=True)
    copy_tree()
    fast = ["-G", "Ninja"] if shutil.which("ninja") and not os.path.exists(os.path.join(BUILD, "CMakeCache.txt")) else []
    made = quiet("cmake", "-S", TREE, "-B", BUILD, *fast, "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1",
                 "-DQKV_BENCH=OFF", "-DQKV_TESTS=ON", "-DQKV_WERROR=OFF", "-DCMAKE_C_FLAGS=-DQKV_FEW=1 -w")
    if made.returncode: raise SystemExit(made.stdout)
    tests = Tests(a.tests.split(","), a.most)
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
