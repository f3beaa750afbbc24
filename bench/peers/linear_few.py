# SPDX-License-Identifier: MIT
"""linear_few.py: measures y = x w^T for a few rows, as in decoding, in qkv and PyTorch, compared with a plain read of
as many bytes as qkv's weights have, the lower limit of the time.  The layers alternate and are so many that no cache
can hold them.
"""

import torch

import qkv_ctypes as qkv
from common import QUICK, THREADS, memory, note, row, same, turns

torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)
linear = torch.nn.functional.linear
COLD = 1 << 28  # bytes of weights, more than any cache
# K, N of GPT-2 124M and of a Llama of 1B; the last one is the vocabulary
SHAPES = [(768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50257),
          (2048, 2048), (2048, 512), (2048, 8192), (8192, 2048), (2048, 32000)]
ROWS, PRECISIONS = (1, 4), ("f32", "bf16", "int8")
TOLERANCE = {"f32": 2e-5, "bf16": 4e-2, "int8": 0.3}


def in_turn(layers):
    """Runs all layers once, which is the cost of a token."""
    def run():
        for layer in layers:
            layer()
    return run


def one(R, K, N, precision):
    torch.manual_seed(1)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    x, w, b = torch.randn(R, K).to(kind), (torch.randn(N, K) / K ** 0.5).to(kind), torch.randn(N)
    exact = linear(x.double(), w.double(), b.double())
    wide = w.float()
    ours = [qkv.Linear(R, K, N, precision, x=x, w=wide, b=b)]
    each = ours[0].bytes
    while len(ours) * each < COLD:
        ours.append(qkv.Linear(R, K, N, precision, x=x, w=wide, b=b))
    calls, size = {"qkv": in_turn(ours)}, each * len(ours)
    peer = f"PyTorch {precision}"
    if precision != "int8":
        bk = b.to(kind)
        theirs = [(lambda w=w.clone(): linear(x, w, bk)) for _ in ours]
        calls[peer] = in_turn(theirs)
    ours[0]()
    away = lambda y: (y.double() - exact).abs().max().item()
    name = f"R{R}, {K} to {N}"
    errors = same(name, calls, {who: away(ours[0].y if who == "qkv" else theirs[0]()) for who in calls},
                  TOLERANCE[precision])
    plain = memory(size)
    calls["plain read"] = lambda: qkv.read(plain, size)
    seconds = turns(calls, 5 if QUICK else 11, limit=10)
    row(f"linear, few rows, {precision}", name, "GB/s", size / 1e9, seconds, error=errors, isa=ours[0].isa,
        limit="plain read")


def main():
    qkv.threads(THREADS)
    for precision in PRECISIONS:
        for R in ROWS[:1] if QUICK else ROWS:
            for K, N in SHAPES:
                try:
                    one(R, K, N, precision)
                except RuntimeError as e:
                    note(f"  {R} {K} {N} {precision}: {e}")


main()
