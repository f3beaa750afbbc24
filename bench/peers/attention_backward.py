# SPDX-License-Identifier: MIT
"""attention_backward.py: measures gradients of attention on the same arrays [B][H][N][E] in qkv and PyTorch's
autograd, alone and with forward.
"""
import torch

import qkv_ctypes as qkv
from common import QUICK, THREADS, note, row, same, turns

torch.set_num_threads(THREADS)
sdpa = torch.nn.functional.scaled_dot_product_attention
SHAPES = [(1, 8, 2048, 64), (1, 8, 2048, 128), (8, 12, 128, 64)]
# The largest accepted error against the formula in double, as a share of the largest gradient: intermediate values in
# bf16 have a relative error of 2^-8.
TOLERANCE = {"f32": 1e-4, "bf16": 3e-2}


class Autograd:
    """Runs PyTorch's forward on leaf tensors and keeps its graph, so that backward can be repeated."""

    def __init__(self, q, k, v, dout, causal):
        self.leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
        self.dout, self.causal = dout, causal
        self.forward()

    def forward(self):
        self.out = sdpa(*self.leaves, is_causal=self.causal)

    def backward(self):
        self.grads = torch.autograd.grad(self.out, self.leaves, self.dout, retain_graph=True)

    def both(self):
        self.forward()
        self.backward()


def distance(grads, exact):
    """Returns the largest error of dq, dk, dv, each as a share of its largest number."""
    return max(((x.double() - y).abs().max() / y.abs().max()).item() for x, y in zip(grads, exact))


def one(shape, causal, precision, rounds):
    B, H, N, E = shape
    name = f"B{B} H{H} N{N} E{E} {'causal' if causal else 'full'}"
    torch.manual_seed(1)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    q, k, v, dout = [torch.randn(B, H, N, E).to(kind) for _ in range(4)]
    exact = Autograd(*[x.double() for x in (q, k, v)], dout.double(), causal)
    exact.backward()
    forward = qkv.Forward(q, k, v, torch.empty_like(q), causal=causal, precision=precision)
    ours, torchs, peer = qkv.Backward(forward, dout), Autograd(q, k, v, dout, causal), f"PyTorch {precision}"
    ours()
    torchs.backward()
    calls = {"qkv": ours, peer: torchs.backward}
    errors = same(name, calls, {"qkv": distance(ours.grads, exact.grads),
                                peer: distance(torchs.grads, exact.grads)}, TOLERANCE[precision])
    both = {"qkv": lambda: (ours.run_forward(), ours()), peer: torchs.both}
    arithmetic, isa = ours.plan.arithmetic.decode(), ours.plan.isa.decode()
    # FLOPs as all programs count them: five products of backward, two of forward; half for causal attention
    flops = 2 * B * H * N * N * E * (0.5 if causal else 1) / 1e9
    for section, what, products, error in (("attention backward", calls, 5, errors),
                                           ("attention forward and backward", both, 7, {})):
        seconds = turns(what, rounds, probe=lambda: qkv.peak(arithmetic) / 1e9, limit=25)
        row(f"{section}, {precision}", name, "GFLOP/s", products * flops, seconds, peak=arithmetic, isa=isa,
            error=error)


def main():
    note(f"  qkv {qkv.lib.qkv_version().decode()} {qkv.lib.qkv_isa().decode()}, torch {torch.__version__}")
    qkv.threads(THREADS)
    for precision in ("bf16", "f32"):
        for shape in SHAPES[::2] if QUICK else SHAPES:
            for causal in (False, True):
                one(shape, causal, precision, 5 if QUICK else 11)


main()
