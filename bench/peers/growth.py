# SPDX-License-Identifier: MIT
"""growth.py growth|million: measures how time and peak memory of one attention grow with the number of tokens.

growth: n from 128 to 1,048,576, qkv and PyTorch, each n in its own process.
million: the memory of very long attentions beyond their arrays.
"""
import json
import os
import resource
import subprocess
import sys
import time

from common import COMMAND, QUICK, THREADS, emit, note, plain, row

HEAD = "one head of 64"


def memory(shapes, precision="f32", seconds=0.5):
    """Returns the results of `qkv bench memory`."""
    child = subprocess.run([COMMAND, "bench", "memory", "--json", "--precision", precision, "--threads",
                            str(THREADS), "--seconds", str(seconds), "-s", ";".join(shapes)], check=True,
                           stdout=subprocess.PIPE, text=True)
    return json.loads(child.stdout)["results"]


def torch_child(kind, n, precision):
    """Runs one causal attention by PyTorch over n tokens; prints seconds and the growth of the peak in bytes."""
    import torch
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    q, k, v = [torch.randn(1, 1, n, 64).to(getattr(torch, precision)) for _ in range(3)]

    def formula(q, k, v):
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        s += torch.full(s.shape[-2:], float("-inf")).triu_(1)
        return torch.softmax(s, -1) @ v
    run = formula if kind == "formula" else \
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    run(*[x[:, :, :32] for x in (q, k, v)])  # load its libraries before the peak is read
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    before, seconds, start = peak(), [], time.perf_counter()
    while not seconds or time.perf_counter() - start < 0.5:
        begin = time.perf_counter()
        run(q, k, v)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps([sorted(seconds)[len(seconds) // 2], peak() - before]))


def by_torch(kind, n, precision="float32"):
    child = subprocess.run([sys.executable, __file__, "child", kind, str(n), precision], check=True,
                           stdout=subprocess.PIPE, text=True)
    seconds, grown = json.loads(child.stdout)
    return {"n": n, "seconds": seconds, "grown": grown}


def growth():
    most = 13 if QUICK else 16  # operations of the full square
    full = [2 ** i for i in range(7, most + 1, 1)]
    long = [2 ** i for i in range(12, (16 if QUICK else 20) + 1)]
    lines = {}
    for precision in ("f32", "bf16"):
        lines[f"qkv {precision}, causal"] = memory([f"N{n},causal" for n in full], precision, 0.3)
        lines[f"qkv {precision}, window 4096"] = memory([f"N{n},window4096" for n in long], precision, 0.3)
        note(f"  qkv {precision}")
    lines["PyTorch f32, causal"] = [by_torch("sdpa", n) for n in full[::2] + full[-1:] if n <= 2 ** 15]
    lines["PyTorch f32, by the formula"] = [by_torch("formula", n) for n in full[::2] if n <= 2 ** 13]
    keep = ("n", "seconds", "grown", "scratch", "arrays")
    emit({"section": f"growth: {HEAD}", "threads": THREADS, "growth":
          {who: [{k: r[k] for k in keep if k in r} for r in rows] for who, rows in lines.items()}})


def million():
    shapes = [("N1048576,window4096", "n = 1,048,576, causal, window 4096"),
              ("T64,S1048576,causal" if QUICK else "T4096,S1048576,causal",
               f"n = 1,048,576, full, the last {64 if QUICK else 4096} queries"),
              ("N262144,window4096" if QUICK else "N131072,causal",
               "n = 262,144, causal, window 4096" if QUICK else "n = 131,072, causal")]
    if QUICK:
        shapes[0] = ("N262144,window64", "n = 262,144, causal, window 64")
    for (shape, name), r in zip(shapes, memory([s for s, _ in shapes], seconds=0.1)):
        section = f"very long, {HEAD}, f32"
        plain(section, f"{name}: growth of the peak", "MiB",
              {"qkv": r["grown"] / 2**20, "limit": 64, "T x S scores": r["scores"] / 2**20}, limit="limit")
        plain(section, f"{name}: scratch by the plan", "MiB", {"qkv": r["scratch"] / 2**20})
        row(section, f"{name}: time", "s", 1, {"qkv": [r["seconds"]]})


if __name__ == "__main__":
    if sys.argv[1] == "child":
        torch_child(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        {"growth": growth, "million": million}[sys.argv[1]]()
