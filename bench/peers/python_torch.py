# SPDX-License-Identifier: MIT
"""python_torch.py: compares PyTorch alone in a process with PyTorch next to qkv, imported before or after it.

Each process has THREADS threads of both, and computes with qkv once before the first round and after each job, so that
the threads of both exist; two pools of threads that disturb each other make PyTorch several times slower.  The
processes run in turns, one at a time.
"""
import json
import os
import subprocess
import sys
import time

from common import QUICK, THREADS, row

SLICE = 0.2 if QUICK else 0.5  # seconds of one measurement
PACKAGE = os.path.join(os.path.dirname(os.environ["QKV_LIBRARY"]), "python")
ORDERS = {"PyTorch before qkv": ["torch", "qkv"], "PyTorch after qkv": ["qkv", "torch"], "PyTorch alone": ["torch"]}


def jobs(torch):
    """Returns {name: (a call of PyTorch, its operations)}."""
    torch.manual_seed(1)
    x, w = torch.randn(1024, 384), torch.randn(384, 1536)
    q, k, v = (torch.randn(1, 8, 1024, 64) for _ in range(3))
    small = torch.randn(64, 64)
    return {
        "product, 1024x384x1536": (lambda: x @ w, 2.0 * 1024 * 384 * 1536),
        "attention, H8 N1024 E64": (lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v), 4.0 * 8 * 1024 * 1024 * 64),
        "sum of 64x64 products": (lambda: small @ small + small, 2.0 * 64 ** 3),  # too small for threads: the price of a call
    }


def child(order):
    """Runs the job that each line of stdin names for SLICE seconds; prints its rate."""
    sys.path.insert(0, PACKAGE)
    for name in order:
        __import__(name)
    torch, qkv = sys.modules["torch"], sys.modules.get("qkv")
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    q = torch.randn(1, 8, 512, 64)

    def disturb():
        if qkv:
            qkv.set_threads(THREADS)
            qkv.attention(q, q, q, layout="BHTE")
    known = jobs(torch)
    disturb()
    for line in sys.stdin:
        call, work = known[line.strip()]
        call()
        disturb()
        done, start, end = 0, time.perf_counter(), 0
        while end < SLICE:
            call()
            done += 1
            end = time.perf_counter() - start
        print(json.dumps(work * done / end), flush=True)


def start():
    return {name: subprocess.Popen([sys.executable, __file__, *order], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for name, order in ORDERS.items()}


def rate(process, job):
    process.stdin.write(job + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def main():
    import torch
    rates = {job: {name: [] for name in ORDERS} for job in jobs(torch)}
    for _ in range(1 if QUICK else 6):  # where arrays lie differs between processes, and with it the rate of small products
        who = start()
        for job, of_job in rates.items():
            for i in range(4):
                for name in list(who)[::1 if i % 2 else -1]:
                    r = rate(who[name], job)
                    if i:  # the first round warms up
                        of_job[name].append(r)
        for p in who.values():
            p.stdin.close()
            p.wait()
    for job, of_job in rates.items():
        for name in ("PyTorch before qkv", "PyTorch after qkv"):
            row("Python, PyTorch in one process with qkv", f"{job}, {name[8:]}", "GFLOP/s", 1e-9,
                {"qkv": [1 / x for x in of_job[name]], "PyTorch alone": [1 / x for x in of_job["PyTorch alone"]]},
                limit="PyTorch alone")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1:])
    else:
        main()
