# SPDX-License-Identifier: MIT
"""costs.py: the uops of an instruction on Sapphire Rapids, for core.py, with their sources.

Tile instructions: throughput and latency as Intel's Optimization Reference Manual states them.  It states 33 cycles
for tileloaddt1; on the core of the measurement of 2026-11-21 it was 14, and tileloadd 8 to 9.5, which the table uses.
How many uops a tile load or store has is not published; the table assumes one for 128 bytes loaded and 64 stored.
Vector instructions: 512 bits run on ports 0 and 5; narrower ones are counted like them, since port 1 has no vector
unit while 512-bit uops are in flight.
"""
import re
from core import Uop

P05 = ((0,), (5,))
P0, P5 = ((0,),), ((5,),)
ALU = ((1,), (6,), (10,), (0,), (5,))  # the ports that vectors do not need come first
P06, P6, P1, ANY_P15 = ((6,), (0,)), ((6,),), ((1,),), ((1,), (5,))
LOAD = ((11,), (2,), (3,))
LOAD_WIDE = ((2,), (3,))
STORE_ADDRESS, STORE, STORE_WIDE = ((7,), (8,)), ((4,), (9,)), ((4, 9),)

# pattern: [(ports, latency, needs the multiplier)], the uops in a chain
VECTOR = [(re.compile(pattern), uops) for pattern, uops in (
    (r"v(fn?m(add|sub)\d+|mul)[ps]s$", [(P05, 4, True)]),
    (r"v(add|sub)[ps]s$", [(P05, 3, False)]),
    (r"v(max|min)[ps]s$|vgetexp[ps]s$", [(P05, 4, True)]),
    (r"vrndscale[ps]s$", [(P05, 4, True), (P05, 4, True)]),
    (r"vscalef[ps]s$", [(P05, 2, True), (P05, 4, True)]),
    (r"vdivps$", [(P0, 18, True), (P05, 1, False)]),
    (r"vdivss$|vsqrt.*", [(P0, 11, True)]),
    (r"vcvtne2ps2bf16$", [(P5, 3, False), (P5, 3, False), (P05, 3, True)]),
    (r"vcvtneps2bf16$", [(P05, 4, True), (P5, 3, False)]),
    (r"vcvt(dq2ps|ps2dq)$", [(P05, 4, True)]),
    (r"vcvtph2ps$|vcvtps2ph$", [(P05, 4, True), (P5, 3, False)]),
    (r"vcvt.*", [(P05, 4, True), (P5, 3, False)]),
    (r"vpcmp.*|vcmp.*|vptestm.*|vfpclass.*", [(P5, 3, False)]),
    (r"vp?(and|or|xor|andn|ternlog)[dq]?(p[sd])?$|vp?blend.*", [(P05, 1, False)]),
    (r"vp(add|sub)[bwdq]$|vp(max|min)[su][bwd]$", [(P05, 1, False)]),
    (r"vp(max|min)[su]q$", [(P05, 3, True)]),
    (r"vps[lr][la].*", [(P0, 1, True)]),
    (r"vpermt2w$", [(P5, 3, False), (P5, 3, False), (P05, 1, False)]),
    (r"vpermt2.*|vperm.*|vshuf.*|vextract.*|vinsert.*|vpmov[sz]x.*", [(P5, 3, False)]),
    (r"vpmovs?(db|dw|wb|qd)$", [(P5, 2, False), (P5, 2, False)]),
    (r"vunpck.*|vpunpck.*|vpshuf.*|vmovs[hl]dup|vmovhlps|vmovlhps|vpack.*|vpalignr", [(P5, 1, False)]),
    (r"vpinsr.*", [(P5, 3, False), (P5, 1, False)]),
    (r"vpmull.*", [(P0, 5, True), (P0, 5, True)]),
    (r"vucomiss|vcomiss", [(P0, 3, False)]),
    (r"k(ortest|test).*", [(P0, 1, False)]),
    (r"kshift.*|kunpck.*|kadd.*", [(P5, 4, False)]),
    (r"k(and|or|xor|xnor|not|andn)[bwdq]$", [(P0, 1, False)]),
)]
TILE = {  # cycles until the next one may start, latency
    "tdp": (16, 52), "tileloadd": (8, 45), "tileloaddt1": (14, 48), "tilestored": (16, 16), "ldtilecfg": (204, 204),
    "tilerelease": (13, 13),
}


def vector(name):
    for pattern, uops in VECTOR:
        if pattern.match(name):
            return uops
    return None


def computation(i):
    """The uops of instruction i without its loads and stores: (ports, latency, needs the multiplier)."""
    name = i.name
    if i.zeroes or name in ("nop", "nopw", "nopl", "endbr64", "vzeroupper", "data16", "cs"):
        return []
    if name.startswith(("j", "call", "ret")):
        return [(P6 if name in ("jmp", "call", "ret") else P06, 1, False)]
    if name[0] in "vk" and not i.moves:
        uops = vector(name)
        if uops is None:
            raise KeyError(f"costs.py has no uops of {name}")
        return uops
    if i.moves:
        if i.masked and not i.memory:
            return [(P05, 1, False)]
        if i.memory or i.same_file:
            return []
        return [(P5, 3, False)] if i.to_vector else [(P0, 3, False)]
    if name in ("imul", "mul", "popcnt", "lzcnt", "tzcnt", "bsf", "bsr"):
        return [(P1, 3, False)]
    if name in ("shl", "shr", "sar", "shlx", "shrx", "sarx", "rol", "ror") or name.startswith(("set", "cmov", "bt")):
        return [(P06, 1, False)]
    if name in ("div", "idiv"):
        return [(P1, 15, False)] * 4
    return [(ALU, 1, False)]


def store_uops(width):
    return [Uop(STORE_ADDRESS, 1, "mem", slots=0, tag="store address"),
            Uop(STORE_WIDE if width == 64 else STORE, 1, "std", slots=1, tag="store")]


def load_uop(width, vector_load):
    return Uop(LOAD_WIDE if width == 64 else LOAD, (8 if width == 64 else 7) if vector_load else 5, "mem", slots=1,
               tag="load")
