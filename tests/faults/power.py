#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""power.py: lets the power fail during every command that writes, and runs the command again.

    power.py QKV SHIM [--share S] [--seed WORD] [--flow NAME] [--state POINT:NUMBER]

Each writer (writers.py) runs once while the shim records all calls that change the disk.  From the record come the
states that a loss of power after any of these calls may leave on the disk:

- the changes of a folder since its last fsync are durable up to any of them, for each folder on its own
- the bytes of a file since its last fsync are durable in any blocks of 512 bytes; its size is that after any call;
  other blocks are zero, random or as before
- a new name may be durable without the bytes of its file

In each state every output must be the old one or the new one, whole, and the new one if the command had ended.  Then
the command runs again, in a part of the states after a run that is killed at one of its changes: it must succeed, leave
nothing else, and write the same bytes; a training run continues to the bits of one that was never stopped.

S is the share of the points of the record that is drawn, by the seed.  Exit 1 after a violation.
"""
import argparse
import collections
import hashlib
import random
import sys

import disk
import writers

DRAWS = 16  # states per point, with those that are equal
# (folders, files) of the first states of a point; the others are drawn
FIRST = [("none", "none"), ("all", "none"), ("all", "all"), ("all", "zero"), ("all", "random")]


def fingerprint(found):
    h = hashlib.sha256()
    for p in sorted(found): h.update(repr((p, found[p])).encode())
    return h.digest()


def fail_power(bench, a):
    """Returns (states, violations)."""
    name = bench.writer.name
    now, calls = disk.Disk(bench.work, bench.before), list(disk.parse(bench.record))
    seen, bad = set(), collections.defaultdict(list)
    only = a.state and [int(n) for n in a.state.split(":")]
    for point, call in enumerate([None, *calls]):
        if call: now.apply(*call)
        rng = random.Random(f"{a.seed} {name} {point}")
        last = point == len(calls)
        if only and only[0] != point or not only and not last and rng.random() >= a.share: continue
        for number in range(DRAWS):
            folders, files = FIRST[number] if number < len(FIRST) else ("any", "any")
            found = now.state(rng, folders, files)
            killed = rng.random() if rng.random() < .25 else None
            mark = fingerprint(found) + bytes([last])
            if mark in seen or only and only[1] != number: continue
            seen.add(mark)
            for what in judge(bench, found, last, killed): bad[what].append(f"{point}:{number}")
            if only: print("\n".join(sorted(found)), {p: v for p, v in found.items() if p not in bench.before and not v})
    return len(seen), bad


def judge(bench, found, last, killed):
    """Yields the violations of a state."""
    yield from writers.judge_state(bench, found, True, last)
    bench.place(found)
    if killed is not None:  # the next run is killed at one of its changes
        bench.run(again=True, kind="changes", n=1 + int(killed * bench.changes), action=1, sent=9)
        yield from writers.judge_state(bench, bench.disk, True)
    yield from writers.judge_next(bench)


def task(writer, a, inputs):
    bench = writers.Bench(writer, a.qkv, a.shim, inputs)
    result = fail_power(bench, a)
    bench.close()
    return writer.name, *result


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--state")
    return writers.main(p, task, "states")


if __name__ == "__main__":
    sys.exit(main())
