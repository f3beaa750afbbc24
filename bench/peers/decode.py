# SPDX-License-Identifier: MIT
"""decode.py: measures the attention of one new token (and four) to a cache of keys and values in qkv and PyTorch.

The limit is a plain read of as many bytes, or the peak of the arithmetic where this takes longer.  In a model the weights
are read between two tokens, so that keys and values come from memory: before each call a larger buffer is read.
"""
import ctypes
import statistics

import torch

import qkv_ctypes as qkv
from common import QUICK, THREADS, memory, note, row, same, turns

torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)
libc = ctypes.CDLL(None)
libc.memchr.argtypes, libc.memchr.restype = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], ctypes.c_void_p
sdpa = torch.nn.functional.scaled_dot_product_attention
OTHER = 256 << 20  # bytes that are read before each call: more than caches hold
TOLERANCE = {"f32": 2e-5, "bf16": 4e-2, "f16": 4e-2, "int8": 4e-2}
# H, G, S, E, T, precision
CASES = [(32, 8, 16384, 128, 1, "bf16"), (32, 8, 16384, 128, 4, "bf16"), (32, 8, 16384, 128, 1, "f32"),
         (32, 8, 16384, 128, 1, "f16"), (32, 8, 16384, 128, 1, "int8")]


def arrangements(q, k, v, T):
    """Returns PyTorch's variants: grouped heads by its flag, as rows of one head, by the formula."""
    H, G, E = q.shape[1], k.shape[1], q.shape[3]
    found = {"PyTorch, enable_gqa": lambda: sdpa(q, k, v, enable_gqa=True)} if T == 1 else {}
    if T == 1:  # the query heads of a group are rows of one head: each attends to every key
        rows = q.reshape(1, G, H // G, E)
        found["PyTorch, heads as rows"] = lambda: sdpa(rows, k, v).reshape(1, H, 1, E)
        found["PyTorch, by the formula"] = lambda: (torch.softmax(
            (rows[0] @ k[0].transpose(1, 2)) * E ** -0.5, -1) @ v[0]).reshape(1, H, 1, E)
    else:
        mask = torch.ones(T, k.shape[2], dtype=torch.bool).tril(k.shape[2] - T)
        wide = [x.repeat_interleave(H // G, 1) for x in (k, v)]
        found["PyTorch, heads repeated"] = lambda: sdpa(q, *wide, attn_mask=mask)
    return found


def one(H, G, S, E, T, precision):
    torch.manual_seed(1)
    kind = {"bf16": torch.bfloat16, "f16": torch.float16}.get(precision, torch.float32)
    q, k, v = torch.randn(1, H, T, E).to(kind), torch.randn(1, G, S, E).to(kind), torch.randn(1, G, S, E).to(kind)
    mask = torch.ones(T, S, dtype=torch.bool).tril(S - T)
    exact = sdpa(q.double(), *[x.double().repeat_interleave(H // G, 1) for x in (k, v)], attn_mask=mask)
    ours = qkv.Decode(q, k, v, precision)
    calls = {"qkv": ours, **({} if precision == "int8" else arrangements(q, k, v, T))}
    ours()
    away = lambda y: (y.double() - exact).abs().max().item()
    name = f"H{H} on {G}, {S} keys, E{E}, T{T}"
    errors = same(name, calls, {who: away(ours.out if who == "qkv" else f()) for who, f in calls.items()},
                  TOLERANCE[precision])
    size = 2 * G * S * E * (1 if precision == "int8" else q.element_size())
    plain, other = memory(size), memory(OTHER)
    calls["plain read"] = lambda: qkv.read(plain, size)
    calls["memchr, front to back"] = lambda: libc.memchr(plain, 7, size)
    arithmetic = ours.plan.arithmetic.decode()
    seconds = turns(calls, 5 if QUICK else 60, least=0, limit=25, before=lambda: qkv.read(other, OTHER),
                    probe=lambda: ours.plan.flops / qkv.peak(arithmetic))
    peak = f"peak of {arithmetic}"
    seconds[peak] = seconds.pop("")
    limit = max("plain read", peak, key=lambda who: statistics.median(seconds[who]))
    row(f"decode, {precision}", name, "GB/s", size / 1e9, seconds, error=errors, isa=ours.plan.isa.decode(),
        limit=limit)


def main():
    qkv.threads(THREADS)
    for case in CASES[:1] + CASES[4:] if QUICK else CASES:
        try:
            one(*case)
        except RuntimeError as e:
            note(f"  {case}: {e}")


main()
