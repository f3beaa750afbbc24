# SPDX-License-Identifier: MIT
"""stream.py: turns executed instructions into uops with their dependencies, for core.py."""
import re
from core import FORWARD, Uop
from costs import TILE, computation, load_uop, store_uops

CHANGES = re.compile(r"vf|vpermt2|vpdp|vdpbf|tdp|add$|sub$|and$|or$|xor$|sh[lr]$|sar$|ro[lr]$|cmov|inc$|dec$|neg$|not$|adc|sbb")
NO_RESULT = re.compile(r"cmp|test|bt$|vucomi|vcomi|kortest|ktest|push|j|call|ret|prefetch|nop|ldtilecfg|tilerelease")
READS_FLAGS = re.compile(r"cmov|set|j(?!mp)|adc|sbb")
SETS_FLAGS = re.compile(r"(add|sub|and|or|xor|cmp|test|inc|dec|neg|sh[lr]|sar|imul|bt)$|vucomi|vcomi|k(or)?test")
FUSES = ("cmp", "test", "add", "sub", "and", "inc", "dec")
NOT_EXECUTED = ("nop", "endbr64", "vzeroupper", "prefetcht0", "prefetcht1", "prefetcht2")


class Stream:
    def __init__(self):
        self.uops = []      # (uop, producers, held)
        self.last = {}      # register: the uop that wrote it
        self.stored = {}    # granule of 8 bytes: the uop that wrote it
        self.products = self.instructions = 0
        self.before = None  # the instruction before, for fused branches

    def add(self, u, producers=(), held=()):
        self.uops.append((u, [p for p in producers if p is not None], list(held)))
        return u

    def reads(self, *registers):
        return [self.last.get(x) for x in registers if x]

    @staticmethod
    def granules(at, size):
        return range(at // 8, (at + max(size, 1) + 7) // 8)

    def sources(self, at, size):
        return {id(u): u for g in self.granules(at, size) if (u := self.stored.get(g))}.values()

    def write(self, at, size, uop):
        for g in self.granules(at, size):
            self.stored[g] = uop

    def step(self, i, at, stride=0):
        """Adds the uops of one executed instruction; `at` is the address of its memory operand, and stride, of a tile
        load or store, the distance of rows in bytes."""
        self.instructions += 1
        before, self.before = self.before, i
        if i.name.startswith(("td", "tile", "ldtile")):
            self.tile(i, at, stride)
        elif i.name in NOT_EXECUTED:
            self.add(Uop())
        elif i.name[0] == "j" and i.name != "jmp" and before and before.name in FUSES and before.after == i.at:
            pass
        else:
            self.plain(i, at)

    def plain(self, i, at):
        ops, name = i.ops, i.name
        result = None if NO_RESULT.match(name) or not ops else ops[0]
        changes = result is not None and (bool(CHANGES.match(name)) and not (name == "imul" and len(ops) == 3))
        merges = result is not None and result.mask and not result.zeroing
        registers = [o.reg for o in (ops if result is None else ops[1:]) if o.kind in ("reg", "vec", "k")]
        if (changes or merges) and result.kind != "mem":
            registers.append(result.reg)
        registers += [o.mask for o in ops if o.mask]
        if name == "lea":
            registers += [ops[1].base, ops[1].index]
        if READS_FLAGS.match(name):
            registers.append("flags")
        stores = name == "push" or (i.memory is not None and i.memory is result)
        loads = name in ("pop", "ret") or (i.memory is not None and (i.memory is not result or changes))
        producers = [] if i.zeroes else self.reads(*registers)
        fused = 0
        if loads:
            producers.append(self.load(i, at))
            fused = 1
        uop, uops = None, computation(i)
        if stores and i.moves:
            uops = []
        for n, (ports, latency, fma) in enumerate(uops):
            uop = self.add(Uop(ports, latency, "alu", fma=fma, slots=0 if n == 0 and fused else 1, tag=name),
                           producers if uop is None else [uop])
        if uop is None and not loads and not stores:
            uop = self.add(Uop(tag=name), producers)
        if uop is None and loads:
            uop = producers[-1]
        if stores:
            self.store(i, at, [uop] if uop else producers)
        elif result is not None:
            self.last[result.reg] = uop
        if SETS_FLAGS.match(name):
            self.last["flags"] = uop

    def load(self, i, at):
        o = i.memory
        if o is None:
            return self.add(load_uop(8, False), self.reads("rsp"))
        vector = i.name[0] in "vk"
        size = o.size or 8
        return self.add(load_uop(size, vector), self.reads(o.base, o.index) + list(self.sources(at, size)))

    def store(self, i, at, data):
        o = i.memory
        size = o.size if o else 8
        address, uop = store_uops(size)
        uop.latency = FORWARD
        self.add(address, self.reads(o.base, o.index) if o else self.reads("rsp"))
        self.add(uop, data)
        if at is not None:
            self.write(at, size, uop)

    # ---- tiles ----
    def tile(self, i, at, stride):
        name = i.name
        if name.startswith("tdp"):
            self.products += 1
            busy, latency = TILE["tdp"]
            to = i.ops[0].reg
            self.last[to] = self.add(Uop(((5,),), latency, unit="tmul", busy=busy, tag="tdp"),
                                     self.reads(*[o.reg for o in i.ops], "tilecfg"))
        elif name == "tilezero":
            self.last[i.ops[0].reg] = self.add(Uop(tag=name), self.reads("tilecfg"))
        elif name in ("ldtilecfg", "tilerelease"):
            busy, latency = TILE[name]
            self.last["tilecfg"] = self.add(Uop(((0,),), latency, unit="tilecfg", busy=busy, tag=name),
                                            self.reads("tilecfg", *[f"tmm{n}" for n in range(8)]))
            for n in range(8):
                self.last[f"tmm{n}"] = self.last["tilecfg"]
        elif name == "tilestored":
            self.tile_store(i, at, stride)
        else:
            self.tile_load(i, at, stride)

    def tile_load(self, i, at, stride):
        busy, latency = TILE[i.name]
        address = self.reads(i.memory.base, i.memory.index, "tilecfg")
        parts = []
        for n in range(8):
            held = {}
            for row in (2 * n, 2 * n + 1):
                held.update({id(u): u for u in self.sources(at + row * stride, 64)})
            u = Uop(((2, 3),), latency - 8, "free" if n else "mem", None if n else "tileload", 0 if n else busy,
                    tag=i.name)
            parts.append(self.add(u, address, held.values()))
        self.last[i.ops[0].reg] = self.add(Uop(slots=0, tag="tile"), parts)

    def tile_store(self, i, at, stride):
        data = self.reads(i.ops[1].reg)
        address = self.reads(i.memory.base, i.memory.index, "tilecfg")
        self.add(Uop(((7,), (8,)), 1, "mem", slots=0, tag="store address"), address)
        first = None
        for n in range(16):  # one entry of the scheduler for the whole tile
            u = self.add(Uop(((4, 9),), FORWARD, "free" if first else "std", tag=i.name), [first] if first else data)
            first = first or self.add(Uop(slots=0), data)
            self.write(at + n * stride, 64, u)
