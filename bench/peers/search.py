# SPDX-License-Identifier: MIT
"""search.py: measures the exact search of 1,000,000 vectors of width 384 for one question, as `qkv bench search` does,
next to the same search by numpy and, where it is installed, by faiss.
"""
import json
import os
import subprocess

import numpy as np

from common import COMMAND, QUICK, THREADS, note, result, turns

N, E, K = (100000 if QUICK else 1000000), 384, 10


def ours(precision):
    """Runs `qkv bench search`; returns its result, in which a rate of reading is the peak."""
    out = subprocess.run([COMMAND, "bench", "search", "-s", f"N{N},E{E}", "--precision", precision, "--threads", str(THREADS),
                          "--seconds", "0.5" if QUICK else "3", "--json"], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def by_numpy(vectors, question):
    def search():
        scores = vectors @ question
        best = np.argpartition(scores, -K)[-K:]
        return best[np.argsort(-scores[best])]
    return search


def by_faiss(vectors, question):
    import faiss
    faiss.omp_set_num_threads(THREADS)
    index = faiss.IndexFlatIP(E)
    index.add(vectors)
    return lambda: index.search(question[None], K)[1][0]


def programs():
    """Returns {program: seconds of the rounds of a search in f32}."""
    rng = np.random.default_rng(1)
    vectors, question = rng.standard_normal((N, E), dtype=np.float32), rng.standard_normal(E, dtype=np.float32)
    calls = {"numpy f32": by_numpy(vectors, question)}
    try:
        calls["faiss f32"] = by_faiss(vectors, question)
        if list(calls["faiss f32"]()) != list(calls["numpy f32"]()):
            raise SystemExit("faiss and numpy find different vectors")
    except ImportError as e:
        note(f"  faiss is not measured: {e}")
    return turns(calls, 3 if QUICK else 9)


def main():
    others = programs()
    for precision in ("f32", "bf16", "int8"):
        rounds = {"qkv": [], "plain read": []}
        for _ in range(1 if QUICK else 3):
            answer = ours(precision)
            figures = answer["results"][0]
            rounds["qkv"].append(figures["gbytes"])
            rounds["plain read"].append(figures["peak"]["g"])
        size = figures["bytes"] / 1e9
        result(f"search, {precision}", f"{N} vectors of {E}, one question", "GB/s", rounds, "plain read")
        result(f"search, {precision}", f"{N} vectors of {E}, milliseconds", "ms",
               {"qkv": [1e3 * size / x for x in rounds["qkv"]], **{who: [1e3 * s for s in took] for who, took in others.items()}},
               None)


main()
