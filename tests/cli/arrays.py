# SPDX-License-Identifier: MIT
"""arrays.py: makes .npy files for the tests, and computes attention by the formula in plain Python (f64, no numpy).

  random FILE DTYPE SHAPE SEED         values FILE DTYPE SHAPE V,V,...
  shape FILE                           show FILE
  close A B TOLERANCE                  checks max |a - b| <= TOLERANCE and equal shapes; if no file B exists, B is
  text
  attend OUT [name=value ...]          the reference of `qkv attn`; see attend()
  safetensors OUT name=FILE.npy ...    writes several arrays to one file
"""
import json
import math
import struct
import sys

CODES = {"f4": "f", "f8": "d", "i8": "q", "i4": "i", "u1": "B", "b1": "?"}


def dims(text):
    return tuple(int(n) for n in text.split("x")) if text else ()


def size(shape):
    return math.prod(shape)


def save(path, dtype, shape, values):
    mark = "|" if dtype[1] == "1" else "<"
    head = repr({"descr": mark + dtype, "fortran_order": False, "shape": tuple(shape)})
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack(f"<{len(values)}{CODES[dtype]}", *values))


def load(path):
    data = open(path, "rb").read()
    assert data[:6] == b"\x93NUMPY", path
    n = struct.unpack("<H", data[8:10])[0]
    assert (10 + n) % 64 == 0, "the header is not padded to 64 bytes"
    head = eval(data[10:10 + n].decode(), {"__builtins__": {}})  # a file that qkv or this script wrote
    shape, dtype = head["shape"], head["descr"][1:]
    return shape, struct.unpack(f"<{size(shape)}{CODES[dtype]}", data[10 + n:]), dtype


def as_bhte(path, layout):
    shape, x, _ = load(path)
    rank = len(shape)
    if rank == 2:
        shape = (1, shape[0], 1, shape[1])
    elif rank == 3:
        shape = (shape[0], shape[1], 1, shape[2])
    elif layout == "bhte":
        b, h, t, e = shape
        return [[[x[((i * h + j) * t + k) * e:((i * h + j) * t + k + 1) * e] for k in range(t)]
                 for j in range(h)] for i in range(b)], rank
    b, t, h, e = shape
    return [[[x[((i * t + k) * h + j) * e:((i * t + k) * h + j + 1) * e] for k in range(t)]
             for j in range(h)] for i in range(b)], rank


def attend(out, o):
    """Computes out = softmax(...) v as `qkv attn` defines it; lse=FILE and weights=FILE write these too.

    Prints the largest error that f32 may have in out, weights and lse.  With u = 2^-24 the error of a sum of n
    products is (n + 1) u times the sum of their magnitudes, so the error of a score is d = (E + D + 4) u scale sum
    |q||k| plus 4 u of the magnitude of caps and biases (D: length of the sums of the projections, whose magnitudes
    are qabs=, kabs=, vabs=).  The relative error of a weight is then 2 d + (S + 4) u, including 2 ulp of exp.
    """
    u = 2.0 ** -24
    layout = o.get("layout", "bthe")
    q, rank = as_bhte(o["q"], layout)
    k, _ = as_bhte(o["k"], layout)
    v, _ = as_bhte(o["v"], layout)
    B, H, T, E = len(q), len(q[0]), len(q[0][0]), len(q[0][0][0])
    G, S, F = len(k[0]), len(k[0][0]), len(v[0][0][0])
    inner = int(o.get("inner", 0))
    qabs, kabs, vabs = (as_bhte(o[n + "abs"], layout)[0] if n + "abs" in o else x
                        for n, x in (("q", q), ("k", k), ("v", v)))
    scale = float(o.get("scale", 1 / math.sqrt(E)))
    cap = float(o.get("softcap", 0))
    bias = load(o["bias"]) if "bias" in o else None
    mask = load(o["mask"]) if "mask" in o else None
    sinks = load(o["sinks"])[1] if "sinks" in o else None
    lengths = [int(n) for n in o["lengths"].split(",")] if "lengths" in o else [S] * B
    left, right = (int(n) for n in o.get("window", "-1,-1").split(","))
    bottom = o.get("diagonal") == "bottom-right"

    def at(array, b, h, t, s):  # broadcast against the axes of the weights, as numpy does
        shape, x, _ = array
        where, index = [b, h, t, s] if rank == 4 else [b, t, s] if rank == 3 else [t, s], 0
        for n, i in zip(shape, where[len(where) - len(shape):]):
            index = index * n + (0 if n == 1 else i)
        return x[index]

    def slope(h):  # slopes of Press et al., here only for powers of two
        return 2 ** (-8 * (h + 1) / H)

    outs, lses, weights = {}, [], []
    bounds = [0.0, 0.0, 0.0]
    for b in range(B):
        for h in range(H):
            g = h // (H // G)
            for t in range(T):
                i = t + (lengths[b] - T if bottom else 0)  # the diagonal ends at the last query and the last existing key
                score, d, big, magnitude = [], 0.0, 0.0, 0.0
                for s in range(S):
                    x = scale * math.fsum(a * c for a, c in zip(q[b][h][t], k[b][g][s]))
                    x = cap * math.tanh(x / cap) if cap else x
                    if bias:
                        x += at(bias, b, h, t, s)
                    if "alibi" in o:
                        x -= slope(h) * abs(i - s)
                    see = s < lengths[b] and (not mask or at(mask, b, h, t, s))
                    see = see and ("causal" not in o or s <= i)
                    see = see and (left < 0 or s >= i - left) and (right < 0 or s <= i + right)
                    score.append(x if see else None)
                    if see and x > -math.inf:
                        m = abs(scale) * math.fsum(abs(a * c) for a, c in zip(qabs[b][h][t], kabs[b][g][s]))
                        top_v = max(map(abs, vabs[b][g][s]))
                        d = max(d, (E + inner + 4) * u * m + 4 * u * (abs(x) + cap + (abs(at(bias, b, h, t, s)) if bias else 0)))
                        big = max(big, top_v)
                        magnitude += m * top_v
                if "no_softmax" in o:
                    p = [0.0 if x is None else x for x in score]
                else:
                    seen = [x for x in score if x is not None] + ([sinks[h]] if sinks else [])
                    top = max(seen, default=-math.inf)
                    lse = top
                    if top == -math.inf:
                        p = [0.0] * S
                    else:
                        total = math.fsum(math.exp(x - top) for x in seen)
                        lse = top + math.log(total)
                        p = [0.0 if x is None else math.exp(x - lse) for x in score]
                    lses.append(lse)
                if "no_softmax" in o:
                    bounds[0] = max(bounds[0], (E + S + inner + 8) * u * magnitude)
                    bounds[1] = max(bounds[1], d)
                else:
                    part = math.expm1(2 * d) + (S + 4) * u
                    bounds[0] = max(bounds[0], (part + (S + inner + 4) * u) * big)
                    bounds[1] = max(bounds[1], part)
                    bounds[2] = max(bounds[2], d + (S + 4) * u * 2 + abs(lses[-1] if lses[-1] > -math.inf else 0) * u * 2)
                weights += p
                outs[b, t, h] = [math.fsum(w * v[b][g][s][f] for s, w in enumerate(p) if w) for f in range(F)]
    lead = [B, H] if rank == 4 else [B] if rank == 3 else []
    if rank == 4 and layout == "bhte":
        order, shape = [(b, t, h) for b in range(B) for h in range(H) for t in range(T)], (B, H, T, F)
    else:
        order = [(b, t, h) for b in range(B) for t in range(T) for h in range(H)]
        shape = (B, T, H, F) if rank == 4 else (B, T, F) if rank == 3 else (T, F)
    save(out, "f8", shape, [x for key in order for x in outs[key]])
    if "lse" in o:
        save(o["lse"], "f8", lead + [T], lses)
    if "weights" in o:
        save(o["weights"], "f8", lead + [T, S], weights)
    print("%.3g %.3g %.3g" % tuple(bounds))


def project(out, x, w):
    """Computes out = x w^T of 2-D arrays in f64; out.abs: the sums of the magnitudes."""
    (rows, d), a, _ = load(x)
    (n, d2), b, _ = load(w)
    assert d == d2
    terms = [[a[r * d + i] * b[c * d + i] for i in range(d)] for r in range(rows) for c in range(n)]
    save(out, "f8", (rows, n), [math.fsum(t) for t in terms])
    save(out + ".abs", "f8", (rows, n), [math.fsum(map(abs, t)) for t in terms])


def close(a, b, tolerance):
    (sa, xa, _), (sb, xb, _) = load(a), load(b)
    assert tuple(sa) == tuple(sb), f"shapes {sa} and {sb}"
    worst = max((0.0 if x == y else abs(x - y) for x, y in zip(xa, xb)), default=0.0)
    assert worst <= tolerance, f"{a} and {b}: {worst:g} apart, expected {tolerance:g}"


def main(word, *args):
    if word == "random":
        import random  # here, since it takes as long as all the rest
        source = random.Random(int(args[3]))
        save(args[0], args[1], dims(args[2]), [source.gauss(0, 1) for _ in range(size(dims(args[2])))])
    elif word == "values":
        kind = float if args[1][0] == "f" else int
        save(args[0], args[1], dims(args[2]), [kind(v) for v in args[3].split(",")] if args[3] else [])
    elif word == "shape":
        print("x".join(str(n) for n in load(args[0])[0]), load(args[0])[2])
    elif word == "show":
        print(" ".join(f"{x:.6g}" for x in load(args[0])[1]))
    elif word == "project":
        project(*args)
    elif word == "close":
        close(args[0], args[1], float(args[2]))
    elif word == "attend":
        attend(args[0], dict(a.split("=", 1) if "=" in a else (a, "") for a in args[1:]))
    elif word == "safetensors":
        head, body = {}, b""
        names = {"f4": "F32", "f8": "F64", "i8": "I64", "b1": "BOOL"}
        for name, path in (a.split("=", 1) for a in args[1:]):
            shape, x, dtype = load(path)
            data = struct.pack(f"<{len(x)}{CODES[dtype]}", *x)
            head[name] = {"dtype": names[dtype], "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
            body += data
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        open(args[0], "wb").write(struct.pack("<Q", len(text)) + text + body)
    elif word == "entry":  # FILE.safetensors NAME OUT.npy: writes one tensor as .npy
        data = open(args[0], "rb").read()
        n = struct.unpack("<Q", data[:8])[0]
        t = json.loads(data[8:8 + n])[args[1]]
        dtype = {"F32": "f4", "I64": "i8", "I32": "i4"}[t["dtype"]]
        a, b = t["data_offsets"]
        x = struct.unpack(f"<{size(t['shape'])}{CODES[dtype]}", data[8 + n + a:8 + n + b])
        save(args[2], dtype, t["shape"], x)
    else:
        sys.exit(f"unknown word {word}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except AssertionError as e:
        sys.exit(f"{e}")
