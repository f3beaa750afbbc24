#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/layer/golden_layers.h and tests/model/gru/golden_gru_attention.h: layers of PyTorch, forward and
backward, in double.

The inputs are made by a formula that the tests repeat, so that only results are stored: value(i) = frac((i + 1) *
0.6180339887498949) - 0.5, times a size, where i counts through each call of `made`.
"""
import sys

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


class Made:
    """Makes arrays of numbers from the formula, one array after the other."""

    def __init__(self):
        self.count = 0

    def __call__(self, *shape, size=1.0):
        n = 1
        for s in shape:
            n *= s
        i = torch.arange(self.count + 1, self.count + n + 1)
        self.count += n
        x = i * 0.6180339887498949
        return ((x - x.floor() - 0.5) * size).reshape(*shape).requires_grad_()


def write(name, tensors):
    flat = torch.cat([t.detach().reshape(-1) for t in tensors])
    body = ", ".join(f"{v:.17g}" for v in flat.tolist())
    lines, line = [], "   "
    for word in body.split(" "):
        if len(line) + len(word) + 1 > 98:
            lines.append(line)
            line = "   "
        line += " " + word
    lines.append(line)
    print(f"static const double {name}[{flat.numel()}] = {{")
    print("\n".join(lines))
    print("};")


def gru(reverse):
    D_in, D, lengths = 3, 5, (4, 1, 6)
    made = Made()
    w_i, w_h = made(3 * D, D_in), made(3 * D, D)
    b_i, b_h = made(3 * D), made(3 * D)
    x, first, dh = made(sum(lengths), D_in, size=2), made(len(lengths), D), made(sum(lengths), D)
    cell = torch.nn.GRU(D_in, D)
    rows, at = [], 0
    for s, n in enumerate(lengths):
        one = x[at : at + n]
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        out, _ = torch.func.functional_call(
            cell,
            dict(zip(names, (w_i, w_h, b_i, b_h))),
            (one.flip(0) if reverse else one, first[s : s + 1]),
        )
        rows.append(out.flip(0) if reverse else out)
        at += n
    h = torch.cat(rows)
    h.backward(dh.detach())
    write("golden_gru_back" if reverse else "golden_gru",
          [h, x.grad, first.grad, w_i.grad, w_h.grad, b_i.grad, b_h.grad])


def cross_entropy():
    R, K, V = 5, 4, 7
    made = Made()
    x, w, b = made(R, K, size=4), made(V, K, size=4), made(V)
    targets = torch.tensor([3, 0, -100, 6, 2])
    loss = torch.nn.functional.cross_entropy(
        x @ w.T + b, targets, reduction="sum", label_smoothing=0.2)
    loss.backward()
    write("golden_cross_entropy", [loss, x.grad, w.grad, b.grad])


def contrastive():
    n, D = 6, 5
    made = Made()
    a, b = made(n, D), made(n, D)
    scores = a @ b.T / 0.3
    own = torch.arange(n)
    ce = torch.nn.functional.cross_entropy
    loss = (ce(scores, own, reduction="sum") + ce(scores.T, own, reduction="sum")) / 2
    loss.backward()
    write("golden_contrastive", [loss, a.grad, b.grad])


def multi_head(score):
    B, T, S, H, G, dq, dkv, dk, dv, dout, da = 2, 4, 5, 4, 2, 6, 3, 4, 2, 5, 4
    made = Made()
    x, c, dy = made(B, T, dq, size=2), made(B, S, dkv, size=2), made(B, T, dout)
    w_q, w_k, w_v, w_o = made(H * dk, dq), made(G * dk, dkv), made(G * dv, dkv), made(dout, H * dv)
    b_q, b_k, b_v, b_o = made(H * dk), made(G * dk), made(G * dv), made(dout)
    w_s, w_aq, w_ak, w_a = made(H, dk, dk), made(H, da, dk), made(H, da, dk), made(H, da, size=4)
    q = (x @ w_q.T + b_q).reshape(B, T, H, dk)
    k = (c @ w_k.T + b_k).reshape(B, S, G, dk).repeat_interleave(H // G, 2)
    v = (c @ w_v.T + b_v).reshape(B, S, G, dv).repeat_interleave(H // G, 2)
    if score == "dot":
        s = torch.einsum("bthe,bshe->bhts", q, k) / dk**0.5
    elif score == "bilinear":
        s = torch.einsum("bthe,hef,bshf->bhts", q, w_s, k)
    else:
        u = torch.einsum("bthe,hae->btha", q, w_aq)
        p = torch.einsum("bshe,hae->bsha", k, w_ak)
        s = torch.einsum("btsha,ha->bhts", torch.tanh(u[:, :, None] + p[:, None]), w_a)
    i, j = torch.arange(T)[:, None], torch.arange(S)[None]
    s = s.masked_fill(j > i + S - T, float("-inf"))  # the bottom right diagonal
    heads = torch.einsum("bhts,bshf->bthf", s.softmax(-1), v).reshape(B, T, H * dv)
    out = heads @ w_o.T + b_o
    out.backward(dy.detach())
    grads = [x, c, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o]
    grads += {"dot": [], "bilinear": [w_s], "additive": [w_aq, w_ak, w_a]}[score]
    write(f"golden_multi_head_{score}", [out] + [g.grad for g in grads])


def gru_attention():
    """Computes the encoder-decoder with two layers of each stack; the weights are in the order of their declaration."""
    D, A, V, layers = 4, 3, 7, 2
    pairs = [([1, 5, 2, 6], [0, 3], [3, 4]), ([4], [0, 2, 5, 1], [2, 5, 1, 6]),
             ([6, 3], [0], [2])]
    made, all_weights = Made(), []

    def weight(*shape):
        all_weights.append(made(*shape))
        return all_weights[-1]

    def cell(D_in, query=False):
        w = [weight(3 * D, D_in), weight(3 * D, D)]
        q = weight(A, D) if query else None
        return w + [weight(3 * D), weight(3 * D)], q

    def run(w, x, h, steps):
        out = []
        for x_t in (x if steps > 0 else x.flip(0)):
            h = torch.gru_cell(x_t[None], h[None], *w)[0]
            out.append(h)
        return torch.stack(out if steps > 0 else out[::-1])

    source_word = weight(V, D)
    encoder = [[cell(2 * D if l else D)[0] for _ in range(2)] for l in range(layers)]
    target_word = weight(V, D)
    decoder, begin = [], []
    for l in range(layers):
        w, q = cell(D, l == 0)
        query = q if l == 0 else query
        decoder.append(w)
        begin.append((weight(D, D), weight(D)))
    context = weight(3 * D, 2 * D)
    key, score = (weight(A, 2 * D), weight(A)), weight(A)
    state, token, mixed = (weight(D, D), weight(D)), weight(D, D), weight(D, 2 * D)
    head = (weight(V, D), weight(V))
    loss = 0
    for source, given, wanted in pairs:
        y = source_word[torch.tensor(source)]
        for ways in encoder:
            y = torch.cat([run(ways[0], y, torch.zeros(D), 1), run(ways[1], y, torch.zeros(D), -1)], 1)
        first = [torch.tanh(w @ y[0, D:] + b) for w, b in begin]
        keys, e = y @ key[0].T + key[1], target_word[torch.tensor(given)]
        h, rows, contexts = first[0], [], []
        w_i, w_h, b_i, b_h = decoder[0]
        for e_t in e:
            a = (torch.tanh(query @ h + keys) @ score).softmax(0)
            c = a @ y
            contexts.append(c)
            h = torch.gru_cell(torch.cat([e_t, c])[None], h[None], torch.cat([w_i, context], 1), w_h,
                               b_i, b_h)[0]
            rows.append(h)
        s, c = torch.stack(rows), torch.stack(contexts)
        for l in range(1, layers):
            s = run(decoder[l], s, first[l], 1)
        out = torch.tanh(s @ state[0].T + state[1] + e @ token.T + c @ mixed.T)
        loss = loss + torch.nn.functional.cross_entropy(
            out @ head[0].T + head[1], torch.tensor(wanted), reduction="sum", label_smoothing=0.1)
    loss.backward()
    write("golden_gru_attention", [loss] + [w.grad for w in all_weights])


def header(path, functions):
    guard = "QKV_" + path.split("/")[-1].replace(".", "_").upper()
    with open(path, "w") as out:
        sys.stdout = out
        print("// SPDX-License-Identifier: MIT")
        print(f"// {path.split('/')[-1]}: written by tools/golden_layers.py with PyTorch " +
              torch.__version__.split("+")[0] + ".  Results in double; inputs: golden_made.")
        print(f"#ifndef {guard}\n#define {guard}\n#include <math.h>\n#include <stdint.h>\n")
        if "layers" in path:
            print("// Returns input number i, as value(i) of the script does.\n"
                  "static inline double golden_made(int64_t i, double size)\n{\n"
                  "    const double x = (double)(i + 1) * 0.6180339887498949;\n"
                  "    return (x - floor(x) - 0.5) * size;\n}\n")
        print("// clang-format off")
        for function in functions:
            function()
        print("// clang-format on\n#endif")


def main():
    header("tests/layer/golden_layers.h",
           [lambda: gru(False), lambda: gru(True), cross_entropy, contrastive] +
           [lambda s=s: multi_head(s) for s in ("dot", "bilinear", "additive")])
    header("tests/model/gru/golden_gru_attention.h", [gru_attention])


if __name__ == "__main__":
    main()
