# SPDX-License-Identifier: MIT
"""core.py: a static model of one core of Sapphire Rapids.  It computes cycles from uops, ports and latencies; it
measures nothing.

Every cycle the core retires up to 8 uops in order, starts on each port the oldest uop that is ready, and allocates up
to 6 uops, as long as the reorder buffer (512) and the schedulers have room.  Sources: Intel 64 and IA-32 Architectures
Optimization Reference Manual, chapter "Intel AMX" (throughput and latency of the tile instructions);
llvm/lib/Target/X86/X86SchedSapphireRapids.td (ports, latencies, sizes of buffers); uops.info (uops of AVX-512
instructions, most of them from memory of its tables and not looked up again).  costs.py has the table.

The model assumes: every access hits the first-level cache; every branch is predicted; instructions arrive as fast as
they are allocated; registers of vectors and tiles are renamed without limit; the clock does not change.
"""
import heapq

ALLOCATE, RETIRE, ROB = 6, 8, 512
ROOM = {"alu": 112, "mem": 72, "std": 48, "free": 1 << 30}  # entries of the schedulers
FORWARD = 5   # cycles from a store to a load of the same line
COMMIT = 10   # cycles from the retirement of a store until a tile load may read its line: tiles are assumed to read
              # the cache only, not the store buffer


class Uop:
    """One uop.  ports: groups of ports, one of which (a tuple of ports, all of them) is occupied for a cycle; unit and
    busy: a unit that no other uop enters for so many cycles; fma: the uop needs the multiplier of its port, which port
    5 lends to the tile unit."""
    __slots__ = ("ports", "latency", "kind", "unit", "busy", "fma", "slots", "waits", "after", "ready", "done",
                 "retired", "age", "held", "tag")

    def __init__(self, ports=(), latency=0, kind="alu", unit=None, busy=0, fma=False, slots=1, tag=""):
        self.ports, self.latency, self.kind, self.unit, self.busy = ports, latency, kind, unit, busy
        self.fma, self.slots, self.tag = fma, slots, tag
        self.waits, self.after, self.ready, self.done, self.retired, self.age = 0, [], 0, None, None, 0
        self.held = None  # consumers that wait for this uop's retirement


class Core:
    """Runs a stream of uops.  `shares`: while the tile unit works, port 5 has no multiplier for vectors, so that
    multiply-adds and their kin start on port 0 only (measured on a core with AMX, 2026-11-21)."""

    def __init__(self, shares=True):
        self.shares = shares
        self.cycles = 0
        self.tile_busy = 0  # cycles in which the tile unit works
        self.port_use = {}

    def run(self, stream):
        """stream: iterable of (uop, producers, held): producers are uops whose results it reads, held are stores that
        must be in the cache before.  Returns the number of cycles until the last uop has retired."""
        stream = iter(stream)
        rob, head, rob_slots = [], 0, 0
        room = dict(ROOM)
        ready, wake = [], []  # heaps of (age, uop) and (cycle, age, uop)
        units, tile_until = {}, 0
        pending = next(stream, None)
        t = age = 0
        while pending or head < len(rob):
            free = RETIRE
            while head < len(rob) and rob[head].slots <= free and rob[head].done is not None and rob[head].done <= t:
                u = rob[head]
                free -= u.slots
                u.retired = t
                rob_slots -= u.slots
                head += 1
                for x in u.held or ():
                    self._arrive(x, t + COMMIT, wake)
            if head > 4096:
                del rob[:head]
                head = 0
            while wake and wake[0][0] <= t:
                _, a, u = heapq.heappop(wake)
                heapq.heappush(ready, (a, u))
            taken, left = set(), []
            while ready and len(taken) < 12:
                a, u = heapq.heappop(ready)
                port = None
                if units.get(u.unit, 0) <= t or not u.unit:
                    for group in u.ports:
                        if taken.isdisjoint(group) and not (
                                u.fma and self.shares and 5 in group and tile_until > t):
                            port = group
                            break
                if port is None and u.ports:
                    left.append((a, u))
                    continue
                for p in port or ():
                    taken.add(p)
                    self.port_use[p] = self.port_use.get(p, 0) + 1
                if u.unit:
                    units[u.unit] = t + u.busy
                    if u.unit == "tmul":
                        tile_until = max(tile_until, t + u.busy)
                        self.tile_busy += u.busy
                room[u.kind] += 1
                self._finish(u, t + u.latency, wake)
            for x in left:
                heapq.heappush(ready, x)
            free = ALLOCATE
            while pending and free > 0:
                u, producers, held = pending
                if rob_slots + u.slots > ROB or (u.ports and room[u.kind] == 0):
                    break
                u.age = age
                age += 1
                rob.append(u)
                rob_slots += u.slots
                free -= u.slots
                u.ready = t + 1
                for p in producers:
                    if p.done is None:
                        p.after.append(u)
                        u.waits += 1
                    else:
                        u.ready = max(u.ready, p.done)
                for p in held:
                    if p.retired is None:
                        p.held = (p.held or []) + [u]
                        u.waits += 1
                    else:
                        u.ready = max(u.ready, p.retired + COMMIT)
                if u.ports:
                    room[u.kind] -= 1
                if u.waits == 0:
                    self._start(u, wake)
                pending = next(stream, None)
            t += 1
        self.cycles = t
        return t

    def _start(self, u, wake):
        if u.ports or u.unit:
            heapq.heappush(wake, (u.ready, u.age, u))
        else:
            self._finish(u, u.ready - 1 + u.latency, wake)

    def _arrive(self, u, at, wake):
        u.ready = max(u.ready, at)
        u.waits -= 1
        if u.waits == 0:
            self._start(u, wake)

    def _finish(self, u, at, wake):
        u.done = at
        for x in u.after:
            self._arrive(x, at, wake)
        u.after = []
