#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/layer/attention/golden_attention.h: attention and all its gradients by PyTorch's autograd, in double.

The inputs are made as in golden_layers.py: by a formula, one array after the other, so that only results are stored.
Numbers that qkv stores as float are rounded to float first.
"""
import sys

import torch
from golden_layers import Made, write

B, T, S, H, G, E, F, REACH = 2, 4, 6, 4, 2, 3, 2, 2


def table(x):
    return x.detach().float().double().requires_grad_()


def attention(name, causal=False, window=None, cap=0.0, bias=False, relative=False, alibi=False,
              sinks=False):
    made = Made()
    q, k, v = made(B, T, H, E, size=4), made(B, S, G, E, size=4), made(B, S, G, F, size=4)
    dout = made(B, T, H, F, size=2).detach()
    tables = {"bias": table(made(H, T, S)), "relative": table(made(H, 2 * REACH + 1)),
              "alibi": table(made(H)), "sinks": table(made(H))}
    wanted = {"bias": bias, "relative": relative, "alibi": alibi, "sinks": sinks}
    score = torch.einsum("bthe,bshe->bhts", q, k.repeat_interleave(H // G, 2)) * 0.5
    if cap:
        score = cap * torch.tanh(score / cap)
    i, j = torch.arange(T)[:, None] + S - T, torch.arange(S)[None, :]
    if bias:
        score = score + tables["bias"]
    if relative:
        score = score + tables["relative"][:, (j - i).clamp(-REACH, REACH) + REACH]
    if alibi:
        score = score - tables["alibi"][:, None, None] * (i - j).abs()
    if causal:
        score = score.masked_fill(j > i, -torch.inf)
    if window:
        score = score.masked_fill((j < i - window[0]) | (j > i + window[1]), -torch.inf)
    if sinks:
        score = torch.cat([score, tables["sinks"][None, :, None, None].expand(B, H, T, 1)], -1)
    weights = torch.softmax(score, -1)[..., :S]
    out = torch.einsum("bhts,bshf->bthf", weights, v.repeat_interleave(H // G, 2))
    out.backward(dout)
    write(name, [out, q.grad, k.grad, v.grad] + [tables[n].grad for n in tables if wanted[n]])


def main():
    with open("tests/layer/attention/golden_attention.h", "w") as out:
        sys.stdout = out
        print("// SPDX-License-Identifier: MIT")
        print("// golden_attention.h: written by tools/golden_attention.py with PyTorch " +
              torch.__version__.split("+")[0] + ".  Results in double; inputs: golden_made.")
        print("#ifndef QKV_GOLDEN_ATTENTION_H\n#define QKV_GOLDEN_ATTENTION_H\n\n// clang-format off")
        attention("golden_attention_plain")
        attention("golden_attention_causal", causal=True, cap=1.5, bias=True)
        attention("golden_attention_window", window=(2, 1), relative=True, alibi=True, sinks=True)
        print("// clang-format on\n#endif")


if __name__ == "__main__":
    main()
