#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""llama2c.py: writes checkpoints of llama2.c with random weights, and their results.

    llama2c.py make FILE.bin SHAPE [--version V] [--untied] [--seed N]
                                      SHAPE: stories260K, stories15M, or seven numbers D,M,L,H,G,V,P
    llama2c.py tokenizer FILE.bin V   a tokenizer.bin of V pieces: three special ones, 256 bytes, words
    llama2c.py tiny OUT               OUT/llama2c-v0 .. v2: model.bin of a small shape and, as golden.safetensors,
    ids, hidden states, attention and logits by the formula of run.c in f64

Only numpy is needed, and safetensors for `tiny`.
"""
import argparse
import os
import struct

import numpy as np

SHAPES = {"stories260K": (64, 172, 5, 8, 4, 512, 512), "stories15M": (288, 768, 6, 6, 6, 32000, 256)}
GROUP = 64  # group size of version 2, halved until it divides the width


def weights(shape, untied, seed):
    """Returns {name: array} of one random model, layers first; the names of run.c's struct."""
    D, M, L, H, G, V, P = shape
    r = np.random.default_rng(seed)
    some = lambda *s: (r.standard_normal(s) * s[-1] ** -0.5).astype(np.float32)
    norm = lambda *s: (1 + 0.1 * r.standard_normal(s)).astype(np.float32)
    KV = D // H * G
    w = dict(embed=2 * some(V, D), att_norm=norm(L, D), wq=2 * some(L, D, D), wk=2 * some(L, KV, D),
             wv=some(L, KV, D), wo=some(L, D, D), ffn_norm=norm(L, D), w1=some(L, M, D), w2=some(L, D, M),
             w3=some(L, M, D), norm=norm(D))
    w["embed"][1] *= np.float32(1e-3)  # <s> ends a text in run.c: it is never the most likely token
    if untied:
        w["output"] = some(V, D)
        w["output"][1] *= np.float32(1e-3)
    return w


def quantised(x, group):
    """Returns (integers, scales) of groups of x as export.py computes them."""
    g = x.reshape(-1, group)
    scale = (np.abs(g).max(1) / np.float32(127)).astype(np.float32)
    return np.round(g / scale[:, None]).astype(np.int8), scale


def group_of(shape):
    group = GROUP
    while shape[0] % group:
        group //= 2
    return group


def write(path, shape, w, version):
    D, M, L, H, G, V, P = shape
    untied = "output" in w
    matrices = ["wq", "wk", "wv", "wo", "w1", "w2", "w3"]
    with open(path, "wb") as f:
        put = lambda x: f.write(np.ascontiguousarray(x, np.float32).tobytes())
        if version == 0:
            f.write(struct.pack("<7i", D, M, L, H, G, -V if untied else V, P))
            for name in ("embed", "att_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w2", "w3", "norm"):
                put(w[name])
            E = D // H
            angle = np.outer(np.arange(P), 10000.0 ** -(np.arange(0, E, 2) / E))
            put(np.cos(angle))
            put(np.sin(angle))
            if untied: put(w["output"])
            return
        group = group_of(shape)
        head = struct.pack("<Ii7iB", 0x616b3432, version, *shape, not untied)
        f.write((head + (struct.pack("<i", group) if version == 2 else b"")).ljust(256, b"\0"))
        for name in ("att_norm", "ffn_norm", "norm"):
            put(w[name])
        for name in ["embed", *matrices] + (["output"] if untied else []):
            for x in w[name] if name in matrices else [w[name]]:
                if version == 1:
                    put(x)
                    continue
                q, scale = quantised(x, group)
                f.write(q.tobytes())
                put(scale)


def widened(shape, w, version):
    """Returns the numbers that a file of that version contains."""
    if version < 2: return w
    out = {}
    for name, x in w.items():
        q, scale = quantised(x, group_of(shape))
        out[name] = x if "norm" in name else (q * scale[:, None]).astype(np.float32).reshape(x.shape)
    return out


def forward(shape, w, ids):
    """Returns hidden [L + 1][T][D], attention [L][H][T][T], logits [T][V] of one text: run.c's formula in f64."""
    D, M, L, H, G, V, P = shape
    E, T = D // H, len(ids)
    w = {k: v.astype(np.float64) for k, v in w.items()}
    rms = lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g
    angle = np.outer(np.arange(T), 10000.0 ** -(np.arange(0, E, 2) / E))[:, None, :]

    def turn(x):  # neighbouring elements of a head are a pair
        a, b = x[..., 0::2], x[..., 1::2]
        return np.stack([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)],
                        -1).reshape(x.shape)

    x = w["embed"][ids]
    hidden, seen = [x], []
    for l in range(L):
        y = rms(x, w["att_norm"][l])
        q = turn((y @ w["wq"][l].T).reshape(T, H, E))
        k = turn((y @ w["wk"][l].T).reshape(T, G, E)).repeat(H // G, 1)
        v = (y @ w["wv"][l].T).reshape(T, G, E).repeat(H // G, 1)
        s = np.einsum("the,she->hts", q, k) / E ** 0.5 + np.triu(np.full((T, T), -np.inf), 1)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        seen.append(p)
        x = x + np.einsum("hts,she->the", p, v).reshape(T, D) @ w["wo"][l].T
        y = rms(x, w["ffn_norm"][l])
        g = y @ w["w1"][l].T
        x = x + (g / (1 + np.exp(-g)) * (y @ w["w3"][l].T)) @ w["w2"][l].T
        hidden.append(x)
    hidden[-1] = rms(x, w["norm"])
    return np.stack(hidden), np.stack(seen), hidden[-1] @ w.get("output", w["embed"]).T


def tiny(out):
    from safetensors.numpy import save_file
    shape = (24, 40, 2, 6, 3, 37, 20)
    for version in range(3):
        folder = os.path.join(out, f"llama2c-v{version}")
        os.makedirs(folder, exist_ok=True)
        w = weights(shape, version == 1, 11 + version)
        write(os.path.join(folder, "model.bin"), shape, w, version)
        w = widened(shape, w, version)
        offsets = np.cumsum((0, 7, 1, 13))
        ids = np.random.default_rng(7).integers(3, shape[5], offsets[-1])
        kept = [forward(shape, w, ids[b:e]) for b, e in zip(offsets, offsets[1:])]
        wide = lambda a: np.pad(a, ((0, 0), (0, 0), (0, 0), (0, 13 - a.shape[3])))
        save_file({"offsets": offsets.astype(np.int64), "ids": ids.astype(np.int32),
                   "types": np.zeros(len(ids), np.int32),
                   "hidden": np.concatenate([h for h, _, _ in kept], 1).astype(np.float32),
                   "attention": np.concatenate([wide(a) for _, a, _ in kept], 2).astype(np.float32),
                   "logits": np.concatenate([y for _, _, y in kept]).astype(np.float32)},
                  os.path.join(folder, "golden.safetensors"))


def tokenizer(path, count):
    """Returns the pieces of a synthetic vocabulary: sufficient for run.c to start and to print."""
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % i for i in range(256))]
    pieces += [b" w%d" % i for i in range(count - len(pieces))]
    with open(path, "wb") as f:
        f.write(struct.pack("<i", max(map(len, pieces))))
        for i, piece in enumerate(pieces[:count]):
            f.write(struct.pack("<fi", -i, len(piece)) + piece)


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    what = a.add_subparsers(dest="what", required=True)
    b = what.add_parser("make")
    b.add_argument("file")
    b.add_argument("shape")
    b.add_argument("--version", type=int, choices=(0, 1, 2), default=0)
    b.add_argument("--untied", action="store_true")
    b.add_argument("--seed", type=int, default=1)
    b = what.add_parser("tokenizer")
    b.add_argument("file")
    b.add_argument("count", type=int)
    what.add_parser("tiny").add_argument("out")
    a = a.parse_args()
    if a.what == "tiny":
        tiny(a.out)
    elif a.what == "tokenizer":
        tokenizer(a.file, a.count)
    else:
        shape = SHAPES.get(a.shape) or tuple(map(int, a.shape.split(",")))
        write(a.file, shape, weights(shape, a.untied, a.seed), a.version)


if __name__ == "__main__":
    main()
