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
BUSY = 0.95  # of a core, below which others are on it
COMMAND = os.environ.get("QKV_COMMAND", "")             # the built program


def turns(calls, rounds, least=0.03, probe=None, limit=None, warm=True):
    """{name: function} -> {name: [seconds of one call, round by round]}.

    In each round every function runs, one behind the other, so that a machine that gets slower
    gets slower for all; short ones are repeated to `least` seconds a turn.  probe, a function that
    answers a rate, is asked once a round: its answers are the list under "".  limit: seconds after which no
    round is begun (three at least).  warm False: all have run before, and are long.
    """
    repeat = dict.fromkeys(calls, 1)
    for name, call in calls.items() if warm else ():
        for _ in range(2):  # the first is to warm: pages, packed weights, code caches
            begin = time.perf_counter()
            call()
            took = time.perf_counter() - begin
            if took > 1:
                break
        repeat[name] = max(1, int(least / max(took, 1e-7)))
    seconds = {name: [] for name in calls}
    if probe:
        seconds[""] = []
    start, used = time.perf_counter(), time.process_time()
    for turn in range(rounds):
        if limit and turn >= 3 and time.perf_counter() - start > limit:
            break
        order = list(calls)
        if turn % 2:
            order.reverse()  # nobody always runs behind the same neighbour
        for name in order:
            call, n = calls[name], repeat[name]
            begin = time.perf_counter()
            for _ in range(n):
                call()
            seconds[name].append((time.perf_counter() - begin) / n)
        if probe:
            seconds[""].append(probe())
    if THREADS == 1:  # threads that wait for each other use less, too
        share = turns.core = (time.process_time() - used) / (time.perf_counter() - start)
        if share < BUSY:
            note(f"  the machine is busy: this process had {100 * share:.0f} % of its core")
    return seconds


turns.core = None  # what the last rounds had of their core


def row(section, name, unit, work, seconds, asked=None, peak=None, **more):
    """One line of results: work / seconds for everybody (unit "ms", "s": the time itself).

    asked: {"of": rival, "least": ratio, "aim": ratio}, or several of them; peak: what the rates under "" are a peak of.
    """
    def figure(s):
        return s * 1e3 if unit == "ms" else s if unit == "s" else work / s
    seconds = dict(seconds)
    probes = seconds.pop("", None)
    out = {}
    for who, s in seconds.items():
        out[who] = {"best": figure(min(s)), "median": figure(statistics.median(s)),
                    "rounds": [figure(x) for x in s]}
    if probes and peak and "qkv" in out:
        more["peak"] = {"of": peak, "median": statistics.median(probes),
                        "share": statistics.median(x / p for x, p in zip(out["qkv"]["rounds"], probes) if p)}
    if asked:
        more["asked"] = asked
    emit({"section": section, "row": name, "unit": unit, "lower_is_better": unit in ("ms", "s", "MB"),
          "threads": THREADS, "core": turns.core, "who": out, **more})


def plain(section, name, unit, values, **more):
    """A line of figures that are no times: {who: value}, less is better."""
    emit({"section": section, "row": name, "unit": unit, "lower_is_better": True, "threads": THREADS,
          "who": {who: {"best": v, "median": v, "rounds": [v]} for who, v in values.items()}, **more})


def emit(record):
    print(json.dumps(record), flush=True)


def note(text):
    """For the person who waits."""
    print(text, file=sys.stderr, flush=True)


def same(name, calls, results, tolerance):
    """Leaves out of calls whoever computes something else; {who: largest error}.

    results: {who: its distance from the formula in double}.  qkv itself may not be off: that is no bench.
    """
    for who, away in results.items():
        if away <= tolerance:
            continue
        if who.startswith("qkv"):
            raise SystemExit(f"{who} is off by {away:.3g} on {name}, expected at most {tolerance:.3g}")
        note(f"  {who} computes something else on {name} (off by {away:.3g}): left out")
        del calls[who]
    return {who: away for who, away in results.items() if who in calls}


def sentences(n):
    """n English sentences of 20 to 600 characters, from the language reference that Python brings along."""
    from pydoc_data import topics
    text = re.sub(r"\s+", " ", " ".join(topics.topics[k] for k in sorted(topics.topics)))
    found = [s.strip() for s in re.split(r"(?<=[.!?]) ", text)]
    return [s for s in found if 20 < len(s) < 600][:n]
