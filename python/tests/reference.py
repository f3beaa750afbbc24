# SPDX-License-Identifier: MIT
"""Attention by its formula in double, on nested lists, and arrays of random floats for the tests."""
import array
import math
import random
import threading
import time

EPS = 2.0**-24  # half the distance of 1 to the next float


def uniform(seed, *shape):
    """Returns a memoryview of floats in -1 .. 1, read-only by nothing, of any shape."""
    draw = random.Random(seed)
    n = math.prod(shape)
    return memoryview(array.array("f", [draw.uniform(-1, 1) for _ in range(n)])).cast("B").cast("f", list(shape))


def attention(q, k, v, causal=False, diagonal="top-left", window=None, lengths=None, bias=None, mask=None, relative=None,
              alibi=None, sinks=None, scale=None, softcap=0.0, softmax=True):
    """Returns (out [B][T][H][F], lse [B][H][T], weights [B][H][T][S]) for q [B][T][H][E], k and v [B][S][G][...]."""
    B, T, H, E = len(q), len(q[0]), len(q[0][0]), len(q[0][0][0])
    S, G, F = len(k[0]), len(k[0][0]), len(v[0][0][0])
    scale = scale or 1 / math.sqrt(E)
    out = [[[None] * H for _ in range(T)] for _ in range(B)]
    lse = [[[None] * T for _ in range(H)] for _ in range(B)]
    weights = [[[None] * T for _ in range(H)] for _ in range(B)]
    for b in range(B):
        for h in range(H):
            g = h // (H // G)
            for t in range(T):
                i = t + (S - T if diagonal == "bottom-right" else 0)
                row = []
                for j in range(S):
                    s = scale * sum(x * y for x, y in zip(q[b][t][h], k[b][j][g]))
                    s = softcap * math.tanh(s / softcap) if softcap else s
                    s += bias[b][h][t][j] if bias else 0
                    if relative:
                        reach = len(relative[h]) // 2
                        s += relative[h][max(-reach, min(reach, j - i)) + reach]
                    s -= alibi[h] * abs(i - j) if alibi else 0
                    left, right = window or (None, None)
                    hidden = causal and j > i or lengths and j >= lengths[b] or mask and not mask[b][h][t][j]
                    hidden = hidden or left is not None and j < i - left or right is not None and j > i + right
                    row.append(-math.inf if hidden else s)
                logits = row + ([sinks[h]] if sinks else [])
                top = max(logits)
                total = sum(math.exp(s - top) for s in logits) if top > -math.inf else 0
                lse[b][h][t] = top + math.log(total) if total else -math.inf
                p = [math.exp(s - lse[b][h][t]) if total else 0.0 for s in row]
                if not softmax:
                    p = [0.0 if s == -math.inf else s for s in row]
                weights[b][h][t] = p
                out[b][t][h] = [sum(p[j] * v[b][j][g][f] for j in range(S)) for f in range(F)]
    return out, lse, weights


def flat(x):
    """Yields the numbers of nested lists."""
    if isinstance(x, (list, tuple)):
        for part in x:
            yield from flat(part)
    else:
        yield x


def largest_difference(a, b):
    """Returns the largest absolute difference of two nested lists; equal infinities differ by 0."""
    pairs = list(zip(flat(a), flat(b)))
    assert len(pairs) == len(list(flat(a))) == len(list(flat(b)))
    return max((0.0 if x == y else abs(x - y) for x, y in pairs), default=0.0)


def ticks(function):
    """Returns how often a thread of Python that sleeps 1 ms wakes up while function() runs: never if it holds the interpreter."""
    count, ended, begun = 0, threading.Event(), threading.Event()

    def work():
        nonlocal count
        while not ended.is_set():
            time.sleep(.001)
            count += 1
            begun.set()
    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    try:
        before = count
        function()
        return count - before
    finally:
        ended.set()
        thread.join()
