# SPDX-License-Identifier: MIT
"""linear.py: measures y = act(x w^T + b) with packed weights in qkv, PyTorch (oneDNN for bf16, MKL for f32; plain,
and with packed weights) and numpy's OpenBLAS.
"""
import numpy as np
import torch

import qkv_ctypes as qkv
from common import QUICK, THREADS, note, row, same, turns

torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)
linear, gelu = torch.nn.functional.linear, torch.nn.functional.gelu
# R, K, N, gelu, precision
CASES = [
    (1024, 384, 1536, False, "bf16"), (1024, 1536, 384, False, "bf16"),
    (1024, 384, 1536, True, "bf16"), (37, 384, 1536, True, "bf16"),
    (37, 384, 1536, False, "bf16"), (1, 384, 1536, False, "bf16"),
    (1024, 384, 1536, False, "f32"), (1024, 1536, 384, False, "f32"),
    (37, 384, 1536, False, "f32"), (1, 384, 1536, False, "f32"),
    (1024, 384, 1536, False, "int8"),
    *([(1024, 384, 1536, False, "f32-fast")] if qkv.lib.qkv_isa() == b"amx" else []),  # otherwise the kernel of f32
]
TOLERANCE = {"f32": 2e-5, "f32-fast": 1e-3, "bf16": 4e-2, "int8": 0.3}


def packed_by_torch(x, w, b, act):
    """Returns the product with weights in oneDNN's order and a fused activation; None if torch lacks it."""
    try:
        if x.dtype != torch.bfloat16:
            return None  # MKL packs for one number of rows, and needs another function
        ordered = torch.ops.mkldnn._reorder_linear_weight(w, x.shape[0])
        args = (x, ordered, b, "gelu" if act else "none", [], "none" if act else "")
        torch.ops.mkldnn._linear_pointwise(*args)
        return lambda: torch.ops.mkldnn._linear_pointwise(*args)
    except (AttributeError, RuntimeError) as e:
        note(f"  PyTorch with packed weights: {str(e).splitlines()[0][:90]}")
        return None


def one(R, K, N, act, precision):
    torch.manual_seed(1)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    x, w, b = torch.randn(R, K).to(kind), (torch.randn(N, K) / K ** 0.5).to(kind), torch.randn(N)
    exact = linear(x.double(), w.double(), b.double())
    exact = gelu(exact) if act else exact
    ours = qkv.Linear(R, K, N, precision, x=x, w=w.float(), b=b, gelu=act)
    peer = "PyTorch bf16" if precision == "bf16" else "PyTorch f32"
    bk = b.to(kind)
    calls = {"qkv": ours, peer: (lambda: gelu(linear(x, w, bk))) if act else (lambda: linear(x, w, bk))}
    packed = packed_by_torch(x, w, bk, act)
    if packed:
        calls["PyTorch bf16, packed"] = packed
    if kind == torch.float32:
        xn, wn, out = x.numpy(), np.ascontiguousarray(w.numpy().T), np.empty((R, N), np.float32)
        bn = b.numpy()

        def blas():
            np.matmul(xn, wn, out=out)
            np.add(out, bn, out=out)
            return torch.from_numpy(out)
        calls["OpenBLAS, by numpy"] = blas
    ours()
    away = lambda y: (y.double() - exact).abs().max().item()
    name = f"{R}x{K}x{N}{' + GELU' if act else ''}"
    errors = same(name, calls, {who: away(ours.y if who == "qkv" else f()) for who, f in calls.items()},
                  TOLERANCE[precision])
    seconds = turns(calls, 5 if QUICK else 21, probe=lambda: qkv.peak(ours.arithmetic) / 1e9)
    row(f"linear, {precision}", name, "GFLOP/s", 2e-9 * R * K * N, seconds, peak=ours.arithmetic,
        isa=ours.isa, error=errors)


def main():
    qkv.threads(THREADS)
    for case in CASES:
        try:
            one(*case)
        except RuntimeError as e:
            note(f"  {case}: {e}")


main()
