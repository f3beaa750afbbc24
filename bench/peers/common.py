# SPDX-License-Identifier: MIT
"""common.py: functions of all comparisons: alternating rounds, rows of results, the sample text."""
import ctypes
import json
import mmap
import os
import re
import statistics
import sys
import time

THREADS = int(os.environ.get("QKV_BENCH_THREADS", "1"))
QUICK = os.environ.get("QKV_BENCH_QUICK") == "1"
MODEL = os.environ.get("QKV_BENCH_MODEL", "models/all-MiniLM-L6-v2")
WORK = os.environ.get("QKV_BENCH_WORK", "build/bench")  # folder for temporary files
COMMAND = os.environ.get("QKV_COMMAND", "")             # path of the built program


class Rounds(dict):
    """{program: seconds of one call, round by round}; core: the share of the core that the rounds had, None: not measured."""
    core = None


def turns(calls, rounds, least=0.03, probe=None, limit=None, warm=True, before=None):
    """Runs {name: function} in rounds; returns Rounds.

    In each round every function runs once, one after another, so that a machine that slows down slows down for all;
    short functions are repeated for `least` seconds.  A function that returns a float measures its time itself: it returns
    seconds.  probe, a function that measures a rate or several, is called once per round; its results are the list under
    "".  limit: seconds after which no round starts (but at least three run).
    warm False: all functions have run before, and are long.  before: a function that runs before each function, untimed.
    A function that takes more than 10 s, and 8 times as long as qkv, runs in the first round only.
    """
    repeat = dict.fromkeys(calls, 1)
    ours = [name for name in calls if name.startswith("qkv")]
    for name, call in calls.items() if warm else ():
        for _ in range(2):  # the first call warms up: pages, packed weights, code caches
            begin = time.perf_counter()
            call()
            took = time.perf_counter() - begin
            if took > 1:
                break
        repeat[name] = max(1, int(least / max(took, 1e-7)))
    seconds = Rounds((name, []) for name in calls)
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
            if turn and ours and min(seconds[name]) > max(10, *(8 * min(seconds[x]) for x in ours)):
                continue
            call, n = calls[name], repeat[name]
            if before:
                before()
            begin = time.perf_counter()
            reported = 0
            for _ in range(n):
                result = call()
                if isinstance(result, float):
                    reported += result
            seconds[name].append((reported or time.perf_counter() - begin) / n)
        if probe:
            seconds[""].append(probe())
    if THREADS == 1:  # threads that wait for each other use less than a core, too
        seconds.core = (time.process_time() - used) / (time.perf_counter() - start)
    return seconds


def row(section, name, unit, work, seconds, peak=None, limit=None, **more):
    """Prints a row of results: work / seconds for each program (unit "ms", "s": the time itself).

    The limit of the figure is the peak of an arithmetic, whose rates are under "", or the program `limit`.
    more: members of the record; core: as in Rounds, for seconds that are a part of them.
    """
    more.setdefault("core", getattr(seconds, "core", None))
    def figure(s):
        return s * 1e3 if unit == "ms" else s if unit == "s" else work / s
    rounds = {who: [figure(x) for x in s] for who, s in seconds.items() if who}
    if peak and any(seconds.get("", ())):
        limit = f"peak of {peak}"
        rounds[limit] = seconds[""]
    result(section, name, unit, rounds, limit, **more)


def plain(section, name, unit, values, limit=None, **more):
    """Prints a row of figures that are not times: {program: value}, smaller is better."""
    result(section, name, unit, {who: [v] for who, v in values.items()}, limit, lower=True, **more)


def result(section, name, unit, rounds, limit, lower=False, error=None, **more):
    """Prints the record of a row: for each program the best figure, its error, and how many times better qkv is: by the
    bests, and by the median over the rounds of the ratio within one round."""
    lower = lower or unit in ("ms", "s", "MB", "MiB")
    best = min if lower else max
    ours, who = rounds.get("qkv"), {}
    for name_of, figures in rounds.items():
        who[name_of] = {"best": best(figures), **({"error": error[name_of]} if error and name_of in error else {})}
        if ours and name_of != "qkv":
            pairs = list(zip(ours, figures)) if len(ours) == len(figures) else \
                [(statistics.median(ours), statistics.median(figures))]
            better = lambda x, y: (y / x if x else float("inf")) if lower else (x / y if y else float("inf"))
            who[name_of] |= {"ratio": better(best(ours), best(figures)),
                             "median": statistics.median(better(x, y) for x, y in pairs)}
    emit({"section": section, "row": name, "unit": unit, "threads": THREADS, "who": who,
          **({"limit": limit} if limit in who else {}), **more})


def memory(size):
    """Returns a buffer of this size in large pages, where the system has them."""
    pages = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    buffer = (ctypes.c_char * size).from_buffer(pages)
    ctypes.memset(buffer, 1, size)
    return buffer


def emit(record):
    print(json.dumps(record), flush=True)


def note(text):
    """Prints progress."""
    print(text, file=sys.stderr, flush=True)


def same(name, calls, results, tolerance):
    """Removes the programs with wrong results from calls; returns {program: largest error}.

    tolerance: a number, or {program: number}, where "" is that of the others.
    results: {program: its error against the formula in double}.  If qkv is wrong, the comparison fails.
    """
    for who, away in results.items():
        most = tolerance.get(who, tolerance[""]) if isinstance(tolerance, dict) else tolerance
        if away <= most:
            continue
        if who.startswith("qkv"):
            raise SystemExit(f"{who} is off by {away:.3g} on {name}, expected at most {most:.3g}")
        note(f"  {who} computes something else on {name} (off by {away:.3g}): left out")
        del calls[who]
    return {who: away for who, away in results.items() if who in calls}


def sentences(n):
    """Returns n English sentences of 20 to 600 characters from the language reference that Python includes."""
    from pydoc_data import topics
    text = re.sub(r"\s+", " ", " ".join(topics.topics[k] for k in sorted(topics.topics)))
    found = [s.strip() for s in re.split(r"(?<=[.!?]) ", text)]
    return [s for s in found if 20 < len(s) < 600][:n]
