#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_cycles.py [OBJECT]: compares the model of bench/cycles with streams whose cycles were computed by hand, and the
interpreter with the kernels of isa_amx.c.o."""
import os
import sys
import unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import amx  # noqa: E402
from core import COMMIT, FORWARD, Core  # noqa: E402
from stream import Stream  # noqa: E402
from trace import Instruction, Program  # noqa: E402

OBJECT = None
START = 1  # an instruction starts one cycle after it was allocated
END = 1    # and retires at the earliest in the cycle in which its result is there


def stream(*lines):
    """Uops of instructions; a line is the text of objdump, and for memory its address and the stride of a tile."""
    s = Stream()
    for n, line in enumerate(lines):
        text, at, stride = line if isinstance(line, tuple) else (line, None, 64)
        name, _, rest = text.partition(" ")
        s.step(Instruction(n, name, rest, n + 1), at, stride)
    return s.uops


def cycles(*lines, shares=True):
    return Core(shares).run(stream(*lines))


TDP = "tdpbf16ps tmm{0},tmm4,tmm5"
FMA = "vfmadd231ps zmm{0},zmm30,zmm31"


class Model(unittest.TestCase):
    def test_independent_products_start_every_16_cycles(self):
        self.assertEqual(cycles(*[TDP.format(n) for n in range(4)]), START + 3 * 16 + 52 + END)
        self.assertEqual(cycles(*[TDP.format(n % 4) for n in range(1)]), START + 52 + END)

    def test_a_product_waits_for_the_sum_that_it_changes(self):
        self.assertEqual(cycles(TDP.format(0), TDP.format(0)), START + 104 + END)

    def test_cleared_tiles_are_renamed(self):
        lines = []
        for _ in range(4):
            lines += ["tilezero tmm0", TDP.format(0)]
        # the last product is in the second group of six instructions
        self.assertEqual(cycles(*lines), START + 3 * 16 + 52 + END)

    def test_two_multiply_adds_start_in_a_cycle(self):
        # 24 in groups of six: port 0 and 5 take two in a cycle, from the first group on without a gap
        self.assertEqual(cycles(*[FMA.format(n) for n in range(24)]), START + 11 + 4 + END)

    def test_a_chain_of_multiply_adds_takes_4_cycles_each(self):
        self.assertEqual(cycles(*[FMA.format(0)] * 5), START + 20 + END)

    def test_multiply_adds_start_on_one_port_while_tiles_work(self):
        lines = [TDP.format(0)] + [FMA.format(n) for n in range(12)]
        self.assertEqual(cycles(*lines, TDP.format(1), shares=False), START + 16 + 52 + END)
        free = Core(True)
        free.run(stream(TDP.format(0), *[FMA.format(n) for n in range(12)]))
        self.assertEqual((free.port_use[0], free.port_use[5]), (12, 1))

    def test_additions_keep_both_ports_while_tiles_work(self):
        core = Core(True)
        core.run(stream(TDP.format(0), *[f"vaddps zmm{n},zmm30,zmm31" for n in range(13)]))
        self.assertEqual((core.port_use[0], core.port_use[5]), (7, 7))

    def test_tile_loads_start_every_8_cycles(self):
        lines = [(f"tileloadd tmm{n},[rax+rcx*1]", 4096 * n, 64) for n in range(4)]
        self.assertEqual(cycles(*lines), START + 3 * 8 + 7 + 37 + END)

    def test_a_vector_load_waits_for_the_tile_store_of_its_line(self):
        lines = ["tilezero tmm0", ("tilestored [rax+rcx*1],tmm0", 0, 64), ("vmovups zmm0,ZMMWORD PTR [rdx]", 15 * 64, 0)]
        # the row with number 15 is stored after the 15 before it
        self.assertEqual(cycles(*lines), START + 15 + FORWARD + 8 + END)

    def test_a_tile_load_waits_until_vectors_are_in_the_cache(self):
        line = ("vmovups ZMMWORD PTR [rdx],zmm0", 0, 0)
        load = ("tileloadd tmm1,[rax+rcx*1]", 0, 64)
        self.assertEqual(cycles(line, load), START + FORWARD + COMMIT + 37 + END)

    def test_work_beyond_the_window_does_not_start(self):
        # Two products in a chain retire at 53 and 105. Of the 600 instructions after them that need no port, 511 are
        # then in the buffer. The third product is the 90th after those: it starts 15 cycles later. Of 60, all are in
        # the buffer, and it starts when the first product leaves the unit, before the second, which waits until 53.
        for cheap, start in ((60, 17), (600, 105 + 15)):
            uops = stream(TDP.format(0), TDP.format(0), *["nop"] * cheap, TDP.format(1))
            Core().run(uops)
            self.assertEqual(uops[-1][0].done - 52, start)


class Kernels(unittest.TestCase):
    def setUp(self):
        if not OBJECT or not os.path.exists(OBJECT):
            self.skipTest("isa_amx.c was not built")
        self.program = Program(OBJECT)

    def run(self, result=None):
        """Skips kernels with instructions that another compiler chose and that the tables lack."""
        method = getattr(self, self._testMethodName)

        def known():
            try:
                method()
            except KeyError as e:
                self.skipTest(str(e))
        setattr(self, self._testMethodName, known)
        return super().run(result)

    def test_attention_executes_its_products(self):
        # 32 rows, 128 keys, E = F = 64: two products of (32 / 16) (128 / 16) (64 / 32) tiles
        self.assertEqual(amx.attention(self.program, 2, 128).products, 2 * 2 * 32)

    def test_linear_executes_its_products(self):
        # 32 rows, K = 96, N = 128: (32 / 16) (128 / 16) (96 / 32) tiles; int8: blocks of 64
        self.assertEqual(amx.linear(self.program, 1, 96, 128).products, 48)
        self.assertEqual(amx.linear(self.program, 1, 128, 128, 0, "whole").products, 32)

    def test_no_case_is_faster_than_its_tiles(self):
        s = amx.attention(self.program, 1, 128)
        core = Core(True)
        self.assertGreaterEqual(core.run(s.uops), 16 * s.products)
        self.assertEqual(core.tile_busy, 16 * s.products)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        OBJECT = sys.argv.pop(1)
    unittest.main()
