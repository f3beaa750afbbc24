#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""amx.py [OBJECT...]: cycles of the AMX kernels on one core of Sapphire Rapids, computed by a static model.

The instructions come from the compiled object (isa_amx.c.o of the release build), in the order in which calls of the
kernels execute them (trace.py); core.py turns them into cycles.  Nothing is measured.  With several objects, one
column each: the same build before and after a change.
"""
import argparse
import os
import struct
from core import Core
from stream import Stream
from trace import Machine, Program

OBJECT = "build/release/CMakeFiles/qkv_kernel.dir/src/kernel/isa_amx.c.o"
CHUNK, ROWS = 256, 32  # keys of a chunk (QKV_CHUNK), rows of a group
BF16, GELU = 3, 2      # QKV_BF16, QKV_ACT_GELU


class Run:
    """A machine whose calls are recorded as uops."""

    def __init__(self, program):
        self.m, self.s = Machine(program), Stream()

    def call(self, name, *arguments):
        def step(i, at):
            if i.name in ("tileloadd", "tileloaddt1", "tilestored"):
                # the address of row 0 lacks the index, which is the distance of rows
                o = i.memory
                self.s.step(i, self.m.r[o.base] + o.shift, self.m.r[o.index] * o.scale)
            else:
                self.s.step(i, at)
        self.m.call(name, arguments, step)


def attention(program, groups, keys, E=64):
    """`groups` groups of 32 rows with a chunk of `keys` keys that all rows see, of precision bf16."""
    run = Run(program)
    m, sizes = run.m, program.symbols
    packed = 2 * CHUNK * E * 2
    k, v, q = m.allocate(packed), m.allocate(packed), m.allocate(groups * ROWS * E * 2)
    o, s = m.allocate(groups * ROWS * E * 4), m.allocate(ROWS * CHUNK * 4)
    top, total, old, now, top1, sum1 = (m.allocate(groups * ROWS * 4) for _ in range(6))
    span = m.allocate(struct.pack("<ii", 0, keys))
    lo, hi = m.allocate(ROWS * 4), m.allocate(struct.pack("<i", keys) * ROWS)
    m.v["z0"] = struct.pack("<f", 0.18).ljust(64, b"\0")
    for g in range(groups):
        rows = m.allocate(b"".join(struct.pack("<Q", q + (g * ROWS + i) * E * 2) for i in range(ROWS)))
        at, og = g * ROWS * 4, o + g * ROWS * E * 4
        if "attention_bf16_group" in sizes:
            group = struct.pack("<14Q", og, top + at, total + at, now, s, 1, rows, k, v, CHUNK, E, E, lo, hi)
            run.call("attention_bf16_group", m.allocate(group + struct.pack("<iiif", ROWS, 0, keys, 0.18)))
            continue
        run.call("attention_bf16_scores", s, rows, ROWS, k, E, keys << 32)
        run.call("softmax_pairs", s, top1, sum1, ROWS, span, 1, lo, hi)
        run.call("merge", top + at, total + at, old, now, top1, sum1, ROWS)
        run.call("attention_bf16_values", og, old, now, s, ROWS, v, CHUNK, E, span, 1)
    return run.s


def linear(program, groups, K, N, act=0, kernel="linear_bf16", kind=BF16):
    """`groups` groups of 32 rows of a linear layer with bias."""
    run = Run(program)
    m = run.m
    wide = 2 if kind == BF16 else 4
    x, y = m.allocate(groups * ROWS * K * wide), m.allocate(groups * ROWS * N * wide)
    panels, b = m.allocate((N + 31) // 32 * (128 + (K + 31) // 32 * 2048)), m.allocate(N * 4)
    tail = m.allocate(struct.pack("<iiQfiQQQQ", kind, kind, b, 1.0, act, 0, 0, 0, 0))
    run.call(f"{kernel}_rows", y, N, x, K, panels, groups * ROWS, K, N, tail)
    return run.s


# (name, maker of a stream, the two numbers that it gets, what the second has more, as a divisor)
CASES = [
    ("attention bf16, N 2048, E 64: 32 queries, 256 keys", lambda p, n: attention(p, n, 256), 1, 3, 2),
    ("attention bf16, N 128, E 64: 32 queries, 128 keys", lambda p, n: attention(p, n, 128), 1, 3, 2),
    ("linear bf16, K 384: 32 rows, 32 columns", lambda p, n: linear(p, 1, 384, n), 64, 192, 4),
    ("linear bf16, K 384, GELU: 32 rows, 32 columns", lambda p, n: linear(p, 1, 384, n, GELU), 64, 192, 4),
    ("linear bf16, K 1536: 32 rows, 32 columns", lambda p, n: linear(p, 1, 1536, n), 64, 128, 2),
    ("linear int8, K 384: 32 rows, 32 columns", lambda p, n: linear(p, 1, 384, n, 0, "whole"), 64, 192, 4),
    ("linear int8, K 384, GELU: 32 rows, 32 columns", lambda p, n: linear(p, 1, 384, n, GELU, "whole"), 64, 192, 4),
]


def cycles(case, program, shares):
    """Cycles, tile products and uops of one block in the middle of others: the difference of a long and a short call."""
    _, make, short, long, more = case
    streams = make(program, long), make(program, short)
    spent = [Core(shares).run(x.uops) for x in streams]
    return [(a - b) / more for a, b in (spent, [x.products for x in streams], [len(x.uops) for x in streams])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("objects", nargs="*", default=[OBJECT])
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--alone", action="store_true", help="vectors keep both multipliers while tiles work")
    a = parser.parse_args()
    print("Computed by a model of one core of Sapphire Rapids (bench/cycles/core.py), not measured.")
    programs = [(os.path.basename(x), Program(x)) for x in a.objects]
    for case in CASES:
        name = case[0]
        if a.case not in name:
            continue
        for title, program in programs:
            spent, products, uops = cycles(case, program, not a.alone)
            print(f"{name:52} {title:14} {spent:8.0f} cycles  {products:5.0f} products  {uops:7.0f} uops  "
                  f"{100 * 16 * products / spent:4.0f} % of the tile peak", flush=True)


if __name__ == "__main__":
    main()
