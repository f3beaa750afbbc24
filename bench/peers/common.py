# SPDX-License-Identifier: MIT
"""What the comparisons share: rounds in which everybody takes a turn, rows of results, the text."""
import json
import os
import re
import statistics
import sys
import time

THREADS = int(os.environ.get("QKV_BENCH_THREADS", "1"))
QUICK = os.environ.get("QKV_BENCH_QUICK") == "1"
MODEL = os.environ.get("QKV_BENCH_MODEL", "models/all-MiniLM-L6-v2")
WORK = os.environ.get("QKV_BENCH_WORK", "build/bench")  # for files that are made on the way


def turns(calls, rounds, least=0.05):
    """{name: function} -> {name: [seconds of one call, round by round]}.

    In each round every function runs, one behind the other, so that a machine that gets slower
    gets slower for all; short ones are repeated to `least` seconds a turn.
    """
    repeat = {}
    for name, call in calls.items():
        call()  # warm: pages, packed weights, code caches
        begin = time.perf_counter()
        call()
        repeat[name] = max(1, int(least / max(time.perf_counter() - begin, 1e-7)))
    seconds = {name: [] for name in calls}
    for turn in range(rounds):
        order = list(calls)
        if turn % 2:
            order.reverse()  # nobody always runs behind the same neighbour
        for name in order:
            call, n = calls[name], repeat[name]
            begin = time.perf_counter()
            for _ in range(n):
                call()
            seconds[name].append((time.perf_counter() - begin) / n)
    return seconds


def row(section, name, unit, work, seconds, **more):
    """One line of results: work / seconds for everybody (unit "ms", "s": the time itself)."""
    def figure(s):
        return s * 1e3 if unit == "ms" else s if unit == "s" else work / s
    out = {}
    for who, s in seconds.items():
        out[who] = {"best": figure(min(s)), "median": figure(statistics.median(s)),
                    "rounds": [figure(x) for x in s]}
    emit({"section": section, "row": name, "unit": unit, "lower_is_better": unit in ("ms", "s", "MB"),
          "threads": THREADS, "who": out, **more})


def plain(section, name, unit, values, **more):
    """A line of figures that are no times: {who: value}, less is better."""
    emit({"section": section, "row": name, "unit": unit, "lower_is_better": True, "threads": THREADS,
          "who": {who: {"best": v, "median": v, "rounds": [v]} for who, v in values.items()}, **more})


def emit(record):
    print(json.dumps(record), flush=True)


def note(text):
    """For the person who waits."""
    print(text, file=sys.stderr, flush=True)


def sentences(n):
    """n English sentences of 20 to 600 characters, from the language reference that Python brings along."""
    from pydoc_data import topics
    text = re.sub(r"\s+", " ", " ".join(topics.topics[k] for k in sorted(topics.topics)))
    found = [s.strip() for s in re.split(r"(?<=[.!?]) ", text)]
    return [s for s in found if 20 < len(s) < 600][:n]
