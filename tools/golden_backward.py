#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/layer/golden_pairs.h: the simple layers of PyTorch, forward and backward by autograd, in double.

The inputs are made as in golden_layers.py: by a formula, one array after the other, so that only results are stored.
"""
import sys

import torch
from golden_layers import Made, write

ACTS = {
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
    "tanh": torch.tanh,
}


def linear():
    R, K, N = 5, 4, 3
    made = Made()
    x, w, b, dy = made(R, K, size=2), made(N, K, size=2), made(N), made(R, N)
    y = torch.nn.functional.linear(x, w, b)
    y.backward(dy.detach())
    write("golden_linear", [y, x.grad, w.grad, b.grad])


def norms():
    R, D = 4, 6
    made = Made()
    x, w, b, dy = made(R, D, size=4), made(D, size=2), made(D), made(R, D)
    y = torch.nn.functional.layer_norm(x, (D,), w, b, 1e-5)
    y.backward(dy.detach())
    write("golden_norm", [y, x.grad, w.grad, b.grad])
    x.grad = w.grad = None
    y = torch.nn.functional.rms_norm(x, (D,), w, 1e-5)
    y.backward(dy.detach())
    write("golden_norm_rms", [y, x.grad, w.grad])


def activations():
    n = 20
    for name, act in ACTS.items():
        made = Made()
        x, u, dy = made(n, size=8), made(n, size=2), made(n, size=2)
        y = act(x)
        y.backward(dy.detach())
        plain = [y.detach(), x.grad]
        x.grad = None
        y = act(x) * u
        y.backward(dy.detach())
        write(f"golden_{name}", plain + [y, x.grad, u.grad])


def rope():
    """Rotates as LlamaRotaryEmbedding and rotate_half of transformers, or the interleaved pairs of GPT-J."""
    R, H, E = 3, 2, 6
    made = Made()
    x, dy = made(R, H, E, size=2), made(R, H, E, size=2)
    positions = torch.tensor([0.0, 5.0, 31.0])
    angle = positions[:, None] * 10000.0 ** (-torch.arange(0, E, 2) / E)
    c, s = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., : E // 2], x[..., E // 2 :]
    y = torch.cat((a * c - b * s, b * c + a * s), -1)
    y.backward(dy.detach())
    halves = [y.detach(), x.grad]
    x.grad = None
    a, b = x[..., 0::2], x[..., 1::2]
    y = torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)
    y.backward(dy.detach())
    write("golden_rope", halves + [y, x.grad])


def embed():
    V, P, Y, D = 6, 4, 2, 3
    made = Made()
    token, position, kind = made(V, D), made(P, D), made(Y, D)
    ids = torch.tensor([5, 0, 2, 5, 5, 1, 0])
    places = torch.tensor([0, 1, 2, 3, 0, 1, 2])
    kinds = torch.tensor([0, 0, 0, 1, 1, 1, 0])
    dy = made(len(ids), D)
    y = 3 * token[ids] + kind[kinds] + position[places]
    y.backward(dy.detach())
    write("golden_embed", [y, token.grad, position.grad, kind.grad])


def pool():
    lengths, D = (3, 1, 4), 5
    made = Made()
    x, dv = made(sum(lengths), D), made(len(lengths), D)
    means = torch.stack([rows.mean(0) for rows in x.split(lengths)])
    v = torch.nn.functional.normalize(means)
    v.backward(dv.detach())
    write("golden_pool", [v, x.grad])


def main():
    with open("tests/layer/golden_pairs.h", "w") as out:
        sys.stdout = out
        print("// SPDX-License-Identifier: MIT")
        print("// golden_pairs.h: written by tools/golden_backward.py with PyTorch " +
              torch.__version__.split("+")[0] + ".  Results in double; inputs: golden_made.")
        print("#ifndef QKV_GOLDEN_PAIRS_H\n#define QKV_GOLDEN_PAIRS_H\n\n// clang-format off")
        linear()
        norms()
        activations()
        rope()
        embed()
        pool()
        print("// clang-format on\n#endif")


if __name__ == "__main__":
    main()
