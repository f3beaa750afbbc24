# SPDX-License-Identifier: MIT
"""common.py: functions of all comparisons: alternating rounds, rows of results, the sample text."""
import json
import os
import re
import statistics
import sys
import time

THREADS = int(os.environ.get("QKV_BENCH_THREADS", "1"))
QUICK = os.environ.get("QKV_BENCH_QUICK") == "1"
MODEL = os.environ.get("QKV_BENCH_MODEL", "models/all-MiniLM-L6-v2")
WORK = os.environ.get("QKV_BENCH_WORK", "build/bench")  # folder for temporary files
BUSY = 0.95  # share of a core below which other programs are running on it
COMMAND = os.environ.get("QKV_COMMAND", "")             # path of the built program


def turns(calls, rounds, least=0.03, probe=None, limit=None, warm=True):
    """Runs {name: function} in rounds; returns {name: [seconds of one call, round by round]}.

    In each round every function runs once, one after another, so that a machine that slows down slows down for all;
    short functions are repeated for `least` seconds.  probe, a function that returns a rate, is called once per
    round; its results are the list under "".  limit: seconds after which no round starts (but at least three run).
    warm False: all functions have run before, and are long.
    """
    repeat = dict.fromkeys(calls, 1)
    for name, call in calls.items() if warm else ():
        for _ in range(2):  # the first call warms up: pages, packed weights, code caches
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
            order.reverse()  # no function always runs after the same one
        for name in order:
            call, n = calls[name], repeat[name]
            begin = time.perf_counter()
            for _ in range(n):
                call()
            seconds[name].append((time.perf_counter() - begin) / n)
        if probe:
            seconds[""].append(probe())
    if THREADS == 1:  # threads that wait for each other use less than a core, too
        share = turns.core = (time.process_time() - used) / (time.perf_counter() - start)
        if share < BUSY:
            note(f"  the machine is busy: this process had {100 * share:.0f} % of its core")
    return seconds


turns.core = None  # share of their core that the last rounds used


def row(section, name, unit, work, seconds, goal=None, peak=None, **more):
    """Returns a row of results: work / seconds for each program (unit "ms", "s": the time itself).

    goal: {"of": rival, "least": ratio, "aim": ratio}, or a list of these; peak: the arithmetic whose peak the rates
    under "" are.
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
    if goal:
        more["goal"] = goal
    emit({"section": section, "row": name, "unit": unit, "lower_is_better": unit in ("ms", "s", "MB"),
          "threads": THREADS, "core": turns.core, "who": out, **more})


def plain(section, name, unit, values, **more):
    """Returns a row of figures that are not times: {program: value}, smaller is better."""
    emit({"section": section, "row": name, "unit": unit, "lower_is_better": True, "threads": THREADS,
          "who": {who: {"best": v, "median": v, "rounds": [v]} for who, v in values.items()}, **more})


def emit(record):
    print(json.dumps(record), flush=True)


def note(text):
    """Prints progress."""
    print(text, file=sys.stderr, flush=True)


def same(name, calls, results, tolerance):
    """Removes the programs with wrong results from calls; returns {program: largest error}.

    results: {program: its error against the formula in double}.  If qkv is wrong, the comparison fails.
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
    """Returns n English sentences of 20 to 600 characters from the language reference that Python includes."""
    from pydoc_data import topics
    text = re.sub(r"\s+", " ", " ".join(topics.topics[k] for k in sorted(topics.topics)))
    found = [s.strip() for s in re.split(r"(?<=[.!?]) ", text)]
    return [s for s in found if 20 < len(s) < 600][:n]
