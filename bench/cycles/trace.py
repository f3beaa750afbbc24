# SPDX-License-Identifier: MIT
"""trace.py: runs the integer part of a compiled function, and yields its instructions in the order of execution.

It needs no CPU with AVX-512 or AMX: registers and memory are bytes in Python.  Of vector instructions only moves,
broadcasts and zeroing have results; all other results are 0, so that a branch that depends on computed numbers goes
as for zeros.  Objdump disassembles.
"""
import re
import struct
import subprocess
import tempfile

MASK = (1 << 64) - 1
SIZES = {"BYTE": 1, "WORD": 2, "DWORD": 4, "QWORD": 8, "XMMWORD": 16, "YMMWORD": 32, "ZMMWORD": 64}
REGISTERS = {}  # name: (64-bit register, bytes, shift)
for wide, names in {"rax": "eax ax al ah", "rbx": "ebx bx bl bh", "rcx": "ecx cx cl ch", "rdx": "edx dx dl dh",
                    "rsi": "esi si sil -", "rdi": "edi di dil -", "rbp": "ebp bp bpl -", "rsp": "esp sp spl -"}.items():
    REGISTERS[wide] = (wide, 8, 0)
    for text, size, shift in zip(names.split(), (4, 2, 1, 1), (0, 0, 0, 8)):
        REGISTERS[text] = (wide, size, shift)
for n in range(8, 16):
    for end, size in (("", 8), ("d", 4), ("w", 2), ("b", 1)):
        REGISTERS[f"r{n}{end}"] = (f"r{n}", size, 0)
CONDITIONS = {
    "o": lambda f: f["o"], "no": lambda f: not f["o"], "b": lambda f: f["c"], "ae": lambda f: not f["c"],
    "e": lambda f: f["z"], "ne": lambda f: not f["z"], "be": lambda f: f["c"] or f["z"],
    "a": lambda f: not (f["c"] or f["z"]), "s": lambda f: f["s"], "ns": lambda f: not f["s"],
    "p": lambda f: f["p"], "np": lambda f: not f["p"], "l": lambda f: f["s"] != f["o"],
    "ge": lambda f: f["s"] == f["o"], "le": lambda f: f["z"] or f["s"] != f["o"],
    "g": lambda f: not f["z"] and f["s"] == f["o"],
}
MOVES = re.compile(r"v?mov(dq[au]\d*|[au]p[sd]|[dqw]|s[sd]|[lh]p[sd]|ntps)$|kmov|vp?broadcast|vmov[dq]$|vextractf128$")


class Memory:
    def __init__(self):
        self.parts = []

    def add(self, at, data):
        self.parts.append((at, bytearray(data)))
        return at

    def find(self, at, n):
        for start, data in self.parts:
            if start <= at and at + n <= start + len(data):
                return data, at - start
        raise MemoryError(f"no memory at {at:#x}")

    def read(self, at, n):
        data, i = self.find(at, n)
        return bytes(data[i:i + n])

    def write(self, at, b):
        data, i = self.find(at, len(b))
        data[i:i + len(b)] = b


class Operand:
    def __init__(self, text, after):
        self.text = text
        self.kind, self.size, self.broadcast = "imm", 0, False
        mask = re.findall(r"\{(\w+)\}", text)
        self.mask = next((m for m in mask if m[0] == "k"), None)
        self.zeroing = "z" in mask
        text = re.sub(r"\{[^}]*\}", "", text).strip()
        if "[" in text:
            self.kind = "mem"
            head = text.split("[")[0].split()
            self.size = SIZES.get(head[0], 0) if head else 0
            self.broadcast = "BCST" in head
            self.base = self.index = None
            self.scale, self.shift = 1, 0
            for sign, term in re.findall(r"([+-]?)([^+\-\[\]]+)", text[text.index("["):]):
                if "*" in term:
                    a, b = term.split("*")
                    self.index, self.scale = REGISTERS.get(a, (a,))[0], int(b, 0)
                elif term in REGISTERS or term in ("rip", "riz", "eiz"):
                    if term == "rip":
                        self.shift += after
                    elif term in REGISTERS:
                        if self.base is None:
                            self.base = REGISTERS[term][0]
                        else:
                            self.index = REGISTERS[term][0]
                else:
                    self.shift += int(term, 0) * (-1 if sign == "-" else 1)
            if self.index in ("riz", "eiz"):
                self.index = None
        elif text in REGISTERS:
            self.kind, (self.reg, self.size, self.low) = "reg", REGISTERS[text]
        elif re.match(r"[xyz]mm\d+$", text):
            self.kind, self.reg, self.size = "vec", "z" + text[3:], {"x": 16, "y": 32, "z": 64}[text[0]]
        elif re.match(r"k\d$|tmm\d$", text):
            self.kind, self.reg, self.size = text[0], text, 8
        else:
            self.value = int(text.split()[0], 0)


class Instruction:
    def __init__(self, at, name, text, after):
        self.at, self.name, self.after = at, name, after
        parts, depth, word = [], 0, ""
        for c in text:
            depth += (c == "[") - (c == "]")
            if c == "," and not depth:
                parts.append(word)
                word = ""
            else:
                word += c
        if word.strip():
            parts.append(word)
        self.ops = [Operand(x, after) for x in parts]
        kinds = [o.kind for o in self.ops]
        self.memory = next((o for o in self.ops if o.kind == "mem"), None) if name != "lea" else None
        self.moves = bool(MOVES.match(name))
        self.masked = any(o.mask for o in self.ops)
        self.same_file = len(set(kinds)) == 1
        self.to_vector = bool(kinds) and kinds[0] in ("vec", "k")
        self.zeroes = (name in ("xor", "sub", "vpxor", "vxorps", "vpxord", "vpxorq", "vxorpd") and len(self.ops) > 1 and
                       len({o.text.strip() for o in self.ops[-2:]}) == 1 and kinds[-1] != "mem")


class Program:
    """The functions of one object file, linked alone at a fixed address; other symbols are `outside`."""
    OUTSIDE = ("memset", "memcpy", "qkv_dtype_size")

    def __init__(self, path):
        with tempfile.NamedTemporaryFile() as out:
            command = ["ld", "--unresolved-symbols=ignore-all", "-e", "0", "-Ttext=0x400000", "-o", out.name, path]
            for n, name in enumerate(self.OUTSIDE):
                command.append(f"--defsym={name}={0x1000 + 16 * n:#x}")
            subprocess.run(command, check=True, capture_output=True)
            text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "-M", "intel", out.name], check=True,
                                  capture_output=True, text=True).stdout
            with open(out.name, "rb") as f:
                image = f.read()
        self.segments = []
        start, size, count = struct.unpack_from("<Q", image, 32)[0], *struct.unpack_from("<HH", image, 54)
        for n in range(count):
            kind, _, offset, at, _, stored, length, _ = struct.unpack_from("<IIQQQQQQ", image, start + n * size)
            if kind == 1:
                self.segments.append((at, image[offset:offset + stored] + bytes(length - stored)))
        self.code, self.symbols, rows = {}, {}, []
        for line in text.split("\n"):
            if m := re.match(r"([0-9a-f]+) <(.+)>:$", line):
                self.symbols[m[2]] = int(m[1], 16)
            elif m := re.match(r"\s*([0-9a-f]+):\s+(.*)$", line):
                rows.append((int(m[1], 16), re.sub(r"\s*(#|<).*", "", m[2]).strip()))
        self.rows = {at: (text, rows[n + 1][0] if n + 1 < len(rows) else at) for n, (at, text) in enumerate(rows)}

    def instruction(self, at):
        if at not in self.code:
            text, after = self.rows[at]
            words = text.split()
            while words[0] in ("notrack", "bnd", "rep", "repz", "data16", "cs", "lock") and len(words) > 1:
                if words[0] in ("rep", "repz") and words[1].startswith(("stos", "movs")):
                    break
                words = words[1:]
            rest = " ".join(words[1:])
            if words[0].startswith(("j", "call")) and re.match(r"[0-9a-f]+$", rest):
                rest = "0x" + rest
            if words[0].startswith("nop"):
                rest = ""
            self.code[at] = Instruction(at, words[0], rest, after)
        return self.code[at]


class Machine:
    """Calls functions of a program.  step(instruction, address of its memory operand) is called for each one."""
    END = 0x2000

    def __init__(self, program):
        self.program, self.memory = program, Memory()
        for at, data in program.segments:
            self.memory.add(at, data)
        self.memory.add(0x7f0000000000, bytes(1 << 20))
        self.heap = 0x10000000
        self.r = {name: 0 for name in {w for w, _, _ in REGISTERS.values()}}
        self.v, self.k = {}, {}
        self.f = dict.fromkeys("cozsp", False)

    def allocate(self, data):
        """Copies bytes, or so many zeros, to new memory at a multiple of 4096; returns the address."""
        data = bytes(data)
        at, self.heap = self.heap, self.heap + (len(data) + 8191) // 4096 * 4096
        return self.memory.add(at, data + bytes(64))

    def call(self, name, arguments, step):
        """Calls a function with integers, which stand for pointers too."""
        for reg, x in zip(("rdi", "rsi", "rdx", "rcx", "r8", "r9"), arguments):
            self.r[reg] = x & MASK
        top = 0x7f0000000000 + (1 << 20) - 4096
        for n, x in enumerate(arguments[6:]):
            self.memory.write(top + 8 + 8 * n, struct.pack("<Q", x & MASK))
        self.memory.write(top, struct.pack("<Q", self.END))
        self.r["rsp"] = top
        at = self.program.symbols[name]
        while at != self.END:
            if at < 0x1000 + 16 * len(Program.OUTSIDE):
                at = self.outside(Program.OUTSIDE[(at - 0x1000) // 16])
                continue
            i = self.program.instruction(at)
            step(i, self.address(i.memory) if i.memory else None)
            at = self.execute(i)

    def outside(self, name):
        to, x, n = self.r["rdi"], self.r["rsi"], self.r["rdx"]
        if name == "memset":
            self.memory.write(to, bytes([x & 255]) * n)
            self.r["rax"] = to
        elif name == "memcpy":
            self.memory.write(to, self.memory.read(x, n))
            self.r["rax"] = to
        else:
            self.r["rax"] = 4 if to & 0xffffffff == 0 else 2  # qkv_dtype_size: QKV_F32 is 0
        at = struct.unpack("<Q", self.memory.read(self.r["rsp"], 8))[0]
        self.r["rsp"] += 8
        return at

    # ---- operands ----
    def address(self, o):
        at = o.shift
        if o.base:
            at += self.r[o.base]
        if o.index:
            at += (self.r[o.index] if o.index in self.r else 0) * o.scale
        return at & MASK

    def get(self, o, size=None):
        if o.kind == "imm":
            return o.value & ((1 << 8 * (size or 8)) - 1)
        if o.kind == "reg":
            return self.r[o.reg] >> o.low & ((1 << 8 * o.size) - 1)
        if o.kind == "k":
            return self.k.get(o.reg, 0)
        return int.from_bytes(self.memory.read(self.address(o), o.size), "little")

    def put(self, o, x):
        x &= (1 << 8 * o.size) - 1
        if o.kind == "reg":
            if o.size == 8 or o.size == 4:
                self.r[o.reg] = x
            else:
                keep = ((1 << 8 * o.size) - 1) << o.low
                self.r[o.reg] = self.r[o.reg] & ~keep & MASK | x << o.low
        elif o.kind == "k":
            self.k[o.reg] = x
        else:
            self.memory.write(self.address(o), x.to_bytes(o.size, "little"))

    def flags(self, x, size, carry=False, over=False):
        x &= (1 << 8 * size) - 1
        self.f = {"z": x == 0, "s": bool(x >> (8 * size - 1)), "c": bool(carry), "o": bool(over),
                  "p": bin(x & 255).count("1") % 2 == 0}

    # ---- instructions ----
    def execute(self, i):
        name, ops = i.name, i.ops
        if name[0] in "vk" or name.startswith(("td", "tile", "ldtile", "prefetch", "nop")) or name == "endbr64":
            if name[0] in "vk":
                self.vector(i)
            return i.after
        if name == "call":
            self.r["rsp"] -= 8
            self.memory.write(self.r["rsp"], struct.pack("<Q", i.after))
            return self.get(ops[0])
        if name == "ret":
            self.r["rsp"] += 8
            return struct.unpack("<Q", self.memory.read(self.r["rsp"] - 8, 8))[0]
        if name == "jmp":
            return self.get(ops[0])
        if name[0] == "j":
            return self.get(ops[0]) if CONDITIONS[name[1:]](self.f) else i.after
        self.integer(name, ops)
        return i.after

    def integer(self, name, ops):
        if name == "push":
            x = self.get(ops[0])
            self.r["rsp"] -= 8
            self.memory.write(self.r["rsp"], struct.pack("<Q", x))
        elif name == "pop":
            x = struct.unpack("<Q", self.memory.read(self.r["rsp"], 8))[0]
            self.r["rsp"] += 8
            self.put(ops[0], x)
        elif name == "leave":
            self.r["rsp"] = self.r["rbp"] + 8
            self.r["rbp"] = struct.unpack("<Q", self.memory.read(self.r["rsp"] - 8, 8))[0]
        elif name in ("mov", "movabs", "movzx"):
            self.put(ops[0], self.get(ops[1], ops[0].size))
        elif name in ("movsx", "movsxd"):
            self.put(ops[0], signed(self.get(ops[1]), ops[1].size))
        elif name in ("cdqe", "cwde"):
            self.r["rax"] = signed(self.r["rax"] & 0xffffffff, 4) & MASK
        elif name == "cqo":
            self.r["rdx"] = MASK if self.r["rax"] >> 63 else 0
        elif name == "cdq":
            self.r["rdx"] = 0xffffffff if self.r["rax"] >> 31 & 1 else 0
        elif name == "lea":
            self.put(ops[0], self.address(ops[1]))
        elif name.startswith("cmov"):
            if CONDITIONS[name[4:]](self.f):
                self.put(ops[0], self.get(ops[1]))
        elif name.startswith("set"):
            self.put(ops[0], int(CONDITIONS[name[3:]](self.f)))
        elif name == "xchg":
            a, b = self.get(ops[0]), self.get(ops[1])
            if ops[0].text != ops[1].text:
                self.put(ops[0], b)
                self.put(ops[1], a)
        elif name in ("idiv", "div"):
            d, n = signed(self.get(ops[0]), ops[0].size), signed(self.r["rax"], 8)
            q = abs(n) // abs(d) * (1 if (n < 0) == (d < 0) else -1)
            self.r["rax"], self.r["rdx"] = q & MASK, (n - q * d) & MASK
        else:
            self.arithmetic(name, ops)

    def arithmetic(self, name, ops):
        size = ops[0].size
        a = self.get(ops[0])
        b = self.get(ops[1], size) if len(ops) > 1 else 1
        bits, top = 8 * size, 1 << 8 * size
        if name in ("add", "inc"):
            x = a + b
            self.flags(x, size, x >= top, (~(a ^ b) & (a ^ x)) >> (bits - 1) & 1)
        elif name in ("sub", "cmp", "dec"):
            x = a - b
            self.flags(x, size, a < b, ((a ^ b) & (a ^ x)) >> (bits - 1) & 1)
        elif name in ("adc", "sbb"):
            x = a + (b + self.f["c"] if name == "adc" else -b - self.f["c"])
            self.flags(x, size, x >= top or x < 0)
        elif name in ("and", "test"):
            x = a & b
            self.flags(x, size)
        elif name in ("or", "xor"):
            x = a | b if name == "or" else a ^ b
            self.flags(x, size)
        elif name == "imul":
            x = signed(a, size) * signed(b, size) if len(ops) == 2 else signed(b, size) * signed(
                self.get(ops[2], 8), 8 if ops[2].kind == "imm" else size)
            self.flags(x, size)
        elif name in ("shl", "shr", "sar", "shlx", "shrx", "sarx"):
            if name[-1] == "x":
                a, b = b, self.get(ops[2])
            b &= 63 if size == 8 else 31
            x = a << b if name[:3] == "shl" else a >> b if name[:3] == "shr" else signed(a, size) >> b
            if b and name[-1] != "x":
                self.flags(x, size, (a << b) >> bits & 1 if name == "shl" else a >> (b - 1) & 1)
        elif name == "neg":
            x = -a
            self.flags(x, size, a != 0)
        elif name == "not":
            x = ~a
        elif name == "bt":
            self.f["c"] = bool(a >> (b % bits) & 1)
            return
        elif name == "bzhi":
            x = b & ((1 << (self.get(ops[2]) & 255)) - 1)
        else:
            raise KeyError(f"trace.py does not know {name}")
        if name not in ("cmp", "test"):
            self.put(ops[0], x)

    def bytes_of(self, o):
        if o.kind == "vec":
            return self.v.get(o.reg, bytes(64))[:o.size]
        if o.kind == "mem":
            return self.memory.read(self.address(o), o.size)
        return self.get(o).to_bytes(8, "little")

    def vector(self, i):
        name, ops = i.name, i.ops
        if not ops:
            return
        if name in ("vucomiss", "vcomiss"):
            a, b = (struct.unpack("<f", self.bytes_of(o)[:4])[0] for o in ops[:2])
            self.f = {"z": a == b or a != a or b != b, "p": a != a or b != b, "c": a < b or a != a or b != b,
                      "o": False, "s": False}
            return
        if name.startswith(("kortest", "ktest")):
            x = self.get(ops[0]) | self.get(ops[1])
            n = {"b": 8, "w": 16, "d": 32, "q": 64}[name[-1]]
            self.f = {"z": x == 0, "c": x == (1 << n) - 1, "o": False, "s": False, "p": False}
            return
        to = ops[0]
        if name.startswith("kmov"):
            size = {"b": 1, "w": 2, "d": 4, "q": 8}[name[-1]]
            self.put(to, self.get(ops[1]) & ((1 << 8 * size) - 1))
            return
        if to.kind == "k":
            self.k[to.reg] = {"kxnor": MASK}.get(name[:5], 0)
            return
        if i.moves:
            data = self.bytes_of(ops[-1])
            if "broadcast" in name:
                size = {"b": 1, "w": 2, "d": 4, "q": 8}.get(name[-1], 4 if name[-2:] == "ss" else 8)
                data = data[:size] * (64 // size)
            if name in ("vmovd", "vmovss"):
                data = data[:4]
            elif name in ("vmovq", "vmovsd", "vmovlps"):
                data = data[:8]
        elif name.startswith("vpinsr"):
            size = {"b": 1, "w": 2, "d": 4, "q": 8}[name[-1]]
            data, n = bytearray(self.bytes_of(ops[1])), self.get(ops[3]) * size
            data[n:n + size] = self.bytes_of(ops[2])[:size]
        elif name == "vpunpcklqdq" and to.size == 16:
            data = self.bytes_of(ops[1])[:8] + self.bytes_of(ops[2])[:8]
        else:
            data = bytes(to.size)
        if to.kind == "vec":
            self.v[to.reg] = bytes(data[:to.size]).ljust(64, b"\0")
        elif to.kind == "mem":
            if not i.masked:
                self.memory.write(self.address(to), bytes(data[:to.size]).ljust(to.size, b"\0"))
        else:
            self.put(to, int.from_bytes(data[:to.size], "little"))


def signed(x, size):
    x &= (1 << 8 * size) - 1
    return x - (1 << 8 * size) if x >> (8 * size - 1) else x
