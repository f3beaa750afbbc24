#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""endings.py: ends every command that writes in every way, and runs it again.

    endings.py QKV SHIM [--share S] [--seed WORD] [--flow NAME] [--ending NAME] [--at N]

| ending | at | expected |
|---|---|---|
| INT, TERM, HUP | every call that changes the disk; once, and twice | exit 130, signal 15, signal 1; nothing is left |
| KILL (kill -9) | every call that changes the disk | signal 9; the next run removes what is left |
| BUS: an input is truncated | every system call on files | exit 6, or 3 if it was not open yet; nothing is left |
| XFSZ: files of at most 1, 700, 4,000 bytes | - | exit 6 |
| PIPE, EAGAIN: standard output without a reader; full | - | exit 6 if the command prints |

After each ending every output is the old one or the new one, whole; the new one after exit 0.  The next run succeeds,
leaves nothing else, and writes the same bytes; a training run continues to the bits of one that was never stopped.

S is the share of the points that is drawn, by the seed.  Exit 1 after a violation.
"""
import argparse
import collections
import os
import random
import signal
import sys

import writers

FAIL, SIGNAL, CUT = range(3)  # the actions of shim.c
TO_CLOSED_PIPE, TO_FULL_PIPE = 1, 2
SIZES = [1, 700, 4000]


def points(bench, name):
    """The points of an ending, as arguments of a run."""
    changes = range(1, bench.changes + 1)
    if name == "BUS":
        if not bench.writer.cut: return []
        return [dict(kind="files", n=n, action=CUT) for n in range(1, bench.calls + 1)]
    if name == "XFSZ": return [dict(file_size=n) for n in SIZES]
    if name == "PIPE": return [dict(output=TO_CLOSED_PIPE)]
    if name == "EAGAIN": return [dict(output=TO_FULL_PIPE)]
    sent = getattr(signal, "SIG" + name)
    return [dict(kind="changes", n=n, action=SIGNAL, sent=sent, ever=ever)
            for n in changes for ever in ([0] if name == "KILL" else [0, 1])]


def judge_status(bench, name, result):
    """Yields what is wrong with the exit code and the message."""
    expected = {"INT": [130], "TERM": [-15], "HUP": [-1], "KILL": [-9], "BUS": [0, 3, 6], "XFSZ": [0, 6], "PIPE": [0, 6],
                "EAGAIN": [0, 6]}[name]
    code = None if result.status is None else -result.signal or result.code
    if bench.writer.parent and name not in ("PIPE", "EAGAIN", "XFSZ"):  # the signal ends a child process
        expected = [0, 1, 5, 6, 130, -1, -9, -15]
    if name == "INT": expected = expected + [0]  # the last step was done, and the command ends as ever
    if code not in expected: yield f"{result}, expected {' or '.join(map(str, expected))}"
    elif code in (3, 6) and name == "BUS" and bench.writer.cut.split("/")[0] not in result.err:
        yield f"the message does not name the input: {result}"
    elif code and code > 0 and name not in ("XFSZ", "KILL", "PIPE") and not result.err.startswith("qkv: "):
        yield f"no message: {result}"


def end(bench, name, how):
    """Ends a run; yields the violations."""
    bench.place(bench.before)
    result = bench.run(**how)
    yield from judge_status(bench, name, result)
    whole = result.status == 0 and name not in ("PIPE", "EAGAIN")
    if name == "BUS": cut(bench)
    yield from writers.judge_state(bench, bench.disk, name == "KILL", whole)
    yield from writers.judge_next(bench, name == "INT")


def cut(bench):
    """Gives the input that was truncated its contents back."""
    path = os.path.normpath(bench.writer.cut)
    real = next(p for p in bench.before if os.path.realpath(os.path.join(bench.work, path)) == os.path.join(bench.work, p))
    bench.place({**bench.disk, real: bench.before[real]})


def task(writer, a, inputs):
    """Returns (name, points, points, violations)."""
    bench = writers.Bench(writer, a.qkv, a.shim, inputs)
    bad, done = collections.defaultdict(list), 0
    for name in ENDINGS:
        if a.ending and a.ending != name: continue
        for at, how in enumerate(points(bench, name)):
            drawn = random.Random(f"{a.seed} {writer.name} {name} {at}").random() < a.share
            if not (drawn if a.at is None else at == a.at): continue
            done += 1
            for what in end(bench, name, how): bad[f"{name}: {what}"].append(f"{name} {at}")
    bench.close()
    return writer.name, done, bad


ENDINGS = ["INT", "TERM", "HUP", "KILL", "BUS", "XFSZ", "PIPE", "EAGAIN"]


def main():
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the commands inherit it, also where nohup ignores it
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ending", choices=ENDINGS)
    p.add_argument("--at", type=int)
    return writers.main(p, task, "endings")


if __name__ == "__main__":
    sys.exit(main())
