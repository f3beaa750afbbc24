# SPDX-License-Identifier: MIT
"""scaling.py: compares two threads of one process with two processes of one thread that run the same kernel together.

Two processes share the same hardware as two threads (memory, last cache, power), but no barrier, allocator or cache
line: the difference is the cost of the threads.  The first of them also runs alone, while the other core is idle: what
two processes have less than twice its rate is the cost of the shared hardware, which no threads can avoid.
"""
import json
import os
import subprocess
import sys
import time

from common import MODEL, QUICK, note, row

SLICE = 0.3 if QUICK else 1.0  # seconds of one measurement


def jobs():
    """Returns {name: (a call, its operations)}, made in the process that runs them."""
    import torch
    import qkv_ctypes as qkv
    torch.manual_seed(1)

    def attention(B, H, N, E, dtype, precision):
        q, k, v = [torch.randn(B, H, N, E, dtype=dtype) for _ in range(3)]
        call = qkv.Forward(q, k, v, torch.empty_like(q), precision=precision)
        return call, call.plan.flops

    def linear(precision):
        call = qkv.Linear(1024, 384, 1536, precision)
        return call, 2.0 * 1024 * 384 * 1536

    def embed(precision):
        e = qkv.Embedder(MODEL, precision)
        ready = e.texts([f"sentence number {i} of a few that are embedded again and again"
                         for i in range(64)])
        e.run(ready)
        return lambda: e.run(ready), float(e.tokens)
    return {
        "attention bf16, H8 N2048 E64": lambda: attention(1, 8, 2048, 64, torch.bfloat16, "bf16"),
        "attention f32, H8 N2048 E64": lambda: attention(1, 8, 2048, 64, torch.float32, "f32"),
        "attention bf16, B8 H12 N128 E64": lambda: attention(8, 12, 128, 64, torch.bfloat16, "bf16"),
        "linear bf16, 1024x384x1536": lambda: linear("bf16"),
        "linear f32, 1024x384x1536": lambda: linear("f32"),
        "MiniLM f32, 64 sentences": lambda: embed("f32"),
        "MiniLM bf16, 64 sentences": lambda: embed("bf16"),
    }


def child(threads, cores):
    """Runs the job that each line of stdin names for SLICE seconds; prints its rate."""
    os.sched_setaffinity(0, cores)
    import qkv_ctypes as qkv
    qkv.threads(threads)
    made, known = {}, jobs()
    for line in sys.stdin:
        name = line.strip()
        if name not in made:
            try:
                made[name] = known[name]()
                made[name][0]()
            except (RuntimeError, AttributeError) as e:
                made[name] = (None, str(e))
        call, work = made[name]
        if not call:
            print(json.dumps(None), flush=True)
            continue
        done, start, end = 0, time.perf_counter(), 0
        while end < SLICE or done < 3:
            call()
            done += 1
            end = time.perf_counter() - start
        print(json.dumps(work * done / end), flush=True)


def start(threads, cores):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "QKV_THREADS": str(threads)}
    return subprocess.Popen([sys.executable, __file__, str(threads), *map(str, cores)], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def turn(group, name):
    """Returns the total rate of a group of processes that run together; None: one of them cannot."""
    for p in group:
        p.stdin.write(name + "\n")
        p.stdin.flush()
    answers = [json.loads(p.stdout.readline()) for p in group]
    return None if None in answers else sum(answers)


def main():
    cores = sorted(os.sched_getaffinity(0))[-2:]
    one, two = [start(2, cores)], [start(1, cores[:1]), start(1, cores[1:])]
    for name in jobs():
        if turn(one, name) is None or turn(two, name) is None:
            note(f"  {name} does not run here: left out")
            continue
        groups = {"qkv": (one, 1), "two processes": (two, 1), "twice one process alone": (two[:1], 2)}
        rates = {who: [] for who in groups}
        for i in range(3 if QUICK else 15):
            for who in list(groups)[::1 if i % 2 else -1]:
                group, factor = groups[who]
                rates[who].append(factor * turn(group, name))
        unit = "tokens/s" if "MiniLM" in name else "GFLOP/s"
        scale = 1 if unit == "tokens/s" else 1e9
        row("two threads and two processes", name, unit, 1 / scale,
            {who: [1 / x for x in r] for who, r in rates.items()},
            limit="two processes")
    for p in one + two:
        p.stdin.close()
        p.wait()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(int(sys.argv[1]), set(map(int, sys.argv[2:])))
    else:
        main()
