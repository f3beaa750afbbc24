#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_layout.py INCLUDE OUT CC...: writes _layout.py, the C interface of libqkv for ctypes, from its public headers.
make_layout.py --members INCLUDE: prints the rows of src/base/layout/struct_members.def.

The names and types of members, constants and functions are read from the headers; a C program that CC... compiles
prints every size, offset and constant.  The structures that ctypes would make of it are compared with these offsets
before anything is written, so that a type that this script misreads stops the build.
"""
import ctypes
import os
import re
import subprocess
import sys
import tempfile

SIMPLE = {"bool": "c_bool", "int": "c_int", "float": "c_float", "double": "c_double", "size_t": "c_size_t",
          "int64_t": "c_int64", "uint64_t": "c_uint64", "int32_t": "c_int32", "uint32_t": "c_uint32",
          "uint16_t": "c_uint16", "uint8_t": "c_uint8", "char": "c_char", "unsigned": "c_uint"}
TYPEDEF_STRUCTS = ("qkv_error", "qkv_encoding")


def read_headers(folder):
    """Returns the text of all public headers without comments and preprocessor lines."""
    text = ""
    for name in sorted(os.listdir(folder)):
        if name.endswith(".h"):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                text += f.read()
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    return re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)


def split_members(body):
    """Yields the declarations of a structure, each without its semicolon; nested braces stay together."""
    depth = begin = 0
    for at, c in enumerate(body):
        depth += (c == "{") - (c == "}")
        if c == ";" and depth == 0:
            yield " ".join(body[begin:at].split())
            begin = at + 1


class Headers:
    """The structures, constants and functions of the headers."""

    def __init__(self, text):
        self.structs = {}  # {C type: [(member, ctypes expression, is an array)]}, nested ones first
        self.names = {}    # {C type: Python class}
        self.spell = {}    # {C type: the type as C spells it}
        self.nested = set()  # C types of unnamed structures inside others
        self.constants = []
        self.functions = {}
        for body in re.findall(r"\benum\s*\w*\s*\{([^{}]*)\}", text):
            self.constants += re.findall(r"\b(QKV_\w+)\b\s*(?==|,|$)", body.strip())
        for m in re.finditer(r"\bstruct\s+(qkv_\w+)\s*\{", text):
            self.add_struct(m[1], self.matching(text, m.end()), "struct " + m[1])
        plain = re.sub(r"\{[^{}]*\}", "", text)
        for m in re.finditer(r"\bQKV_API\b\s*(?:QKV_MUST_CHECK\b)?([^;(]*?)\b(qkv_\w+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*;", plain):
            self.functions[m[2]] = (self.kind(m[1], False), self.arguments(m[3]))
        # A structure follows the structures that it contains.
        self.order = []
        for name in self.structs:
            self.place(name)

    def tops(self):
        """Returns the named structures in the order of the headers."""
        return [name for name in self.spell if name not in self.nested]

    @staticmethod
    def matching(text, at):
        depth, begin = 1, at
        while depth:
            depth += (text[at] == "{") - (text[at] == "}")
            at += 1
        return text[begin:at - 1]

    def place(self, name):
        if name in self.order:
            return
        for _, kind, _ in self.structs[name]:
            for other, cls in self.names.items():
                if cls == kind and other != name:
                    self.place(other)
        self.order.append(name)

    def add_struct(self, name, body, spelling):
        self.names[name] = "".join(part.title() for part in name.split("_")[1:]).replace(".", "_")
        self.spell[name] = spelling
        members = []
        for member in split_members(body):
            nested = re.match(r"struct\s*\{(.*)\}\s*(\w+)$", member, re.S)
            pointer = re.match(r"[^(]*\(\*(\w+)\)\s*\(", member)
            if nested:
                inner = f"{name}_{nested[2]}"
                self.nested.add(inner)
                self.add_struct(inner, nested[1], f"{spelling}.{nested[2]}")
                members.append((nested[2], self.names[inner], False))
            elif pointer:
                members.append((pointer[1], "c_void_p", False))
            else:
                members += self.declarators(member)
        self.structs[name] = members

    def declarators(self, member):
        base = re.match(r"((?:const\s+)?(?:(?:struct|enum)\s+)?\w+)\b\s*(.*)$", member, re.S)
        for part in base[2].split(","):
            m = re.match(r"\s*((?:\*\s*(?:const\b\s*)?)*)(\w+)\s*(\[\w+\])?\s*$", part)
            if not m:
                raise SystemExit(f"make_layout.py: not understood: {member}")
            yield m[2], self.kind(base[1] + " " + m[1], True), bool(m[3])

    def kind(self, text, member):
        """Returns the ctypes expression of a C type."""
        stars = text.count("*")
        words = [w for w in re.findall(r"\w+", text) if w != "const"]
        if stars == 1 and words == ["char"]:
            return "c_char_p" if "const" in text else "c_void_p"
        if stars:
            return "c_void_p"
        if words == ["void"]:
            return "None"
        if words[0] == "enum" or words[0] in ("qkv_status", "qkv_dtype", "qkv_precision"):
            return "c_int"
        if words[0] in SIMPLE:
            return SIMPLE[words[0]]
        return self.names.setdefault(words[-1], "".join(p.title() for p in words[-1].split("_")[1:]))

    def arguments(self, text):
        out = []
        depth = begin = 0
        for at, c in enumerate(text + ","):
            depth += (c == "(") - (c == ")")
            if c == "," and depth == 0:
                part, begin = text[begin:at].strip(), at + 1
                if part != "void":
                    pointer = "(*" in part or "[" in part
                    out.append("c_void_p" if pointer else self.kind(re.sub(r"\w+$", "", part) or part, False))
        return out


def c_program(headers):
    """Returns the program that prints each structure with its size, members with offset, count and size, and constants."""
    out = ["#include <qkv/qkv.h>", "#include <stdio.h>", "int main(void)", "{"]
    for name, members in headers.structs.items():
        root, *inner = headers.spell[name].split(".")
        root = root if name not in TYPEDEF_STRUCTS else name
        path = "".join(p + "." for p in inner)
        whole = f"(({root} *)0)->{path[:-1]}" if inner else f"*({root} *)0"
        start = f"offsetof({root}, {path[:-1]})" if inner else "(size_t)0"
        out.append(f'printf("size {name} %zu\\n", sizeof({whole}));')
        for member, _, array in members:
            at = f"(({root} *)0)->{path}{member}"
            count = f"sizeof({at}) / sizeof({at}[0])" if array else "(size_t)0"
            out.append(f'printf("at {name} {member} %zu %zu %zu\\n", offsetof({root}, {path}{member}) - {start}, {count}, sizeof({at}));')
    out += [f'printf("value {name} %lld\\n", (long long){name});' for name in headers.constants]
    out += ['printf("version %d.%d.%d\\n", QKV_VERSION_MAJOR, QKV_VERSION_MINOR, QKV_VERSION_PATCH);', "return 0;", "}"]
    return "\n".join(out) + "\n"


def run_program(program, include, cc):
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w", encoding="utf-8") as f:
            f.write(program)
        subprocess.run([*cc, "-std=c11", "-I", include, source, "-o", binary], check=True)
        return subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()


def python_source(headers, printed):
    sizes, offsets, values, version = {}, {}, {}, ""
    for what, *rest in (line.split() for line in printed):
        if what == "size":
            sizes[rest[0]] = int(rest[1])
        elif what == "at":
            offsets.setdefault(rest[0], {})[rest[1]] = tuple(map(int, rest[2:]))
        elif what == "value":
            values[rest[0][4:]] = int(rest[1])
        else:
            version = rest[0]
    out = [HEAD.format(version=version)]
    out += [f"{name} = {value}" for name, value in values.items()]
    out += ["", "# {structure: (size, members, offsets as the C compiler has them)}", "STRUCTURES = {"]
    for name in headers.order:
        members, places = [], []
        for member, kind, _ in headers.structs[name]:
            at, count, _ = offsets[name][member]
            places.append(str(at))
            members.append(f"{member}:{CODES.get(kind, kind)}{f'*{count}' if count else ''}")
        out.append(f'    "{headers.names[name]}": ({sizes[name]}, "{" ".join(members)}", "{" ".join(places)}"),')
    out += ["}", "", "# {structure of C: its fingerprint, as qkv_struct_layout() of include/qkv/layout.h}", "LAYOUTS = {"]
    out += [f'    "{name}": {fingerprint(headers, name, sizes, offsets)},' for name in headers.tops()]
    out += ["}", "", "# {function: the types of its result and of its arguments}", "FUNCTIONS = {"]
    for name, kinds in sorted(headers.functions.items()):
        result, *arguments = [CODES.get(kind, kind) for kind in (kinds[0], *kinds[1])]
        out.append(f'    "{name}": "{" ".join([result, *arguments])}",')
    return "\n".join(out + ["}"]) + TAIL


def fingerprint(headers, name, sizes, offsets):
    """Returns the FNV-1a hash that include/qkv/layout.h defines."""
    def lines(inner, prefix, start):
        for member, _, _ in headers.structs[inner]:
            at, _, size = offsets[inner][member]
            yield f"{prefix}{member} {start + at} {size}\n"
            if f"{inner}_{member}" in headers.nested:
                yield from lines(f"{inner}_{member}", f"{prefix}{member}.", start + at)
    h = 0xcbf29ce484222325
    for byte in (f"{name} {sizes[name]}\n" + "".join(lines(name, "", 0))).encode():
        h = (h ^ byte) * 0x100000001b3 % 2**64
    return h


def member_rows(headers):
    """Returns the text of struct_members.def: each structure with the names of its members."""
    def names(inner, prefix=""):
        for member, _, _ in headers.structs[inner]:
            yield prefix + member
            if f"{inner}_{member}" in headers.nested:
                yield from names(f"{inner}_{member}", f"{prefix}{member}.")
    out = MEMBERS
    for name in headers.tops():
        line = f"STRUCT({name},"
        for member in names(name):
            if len(line) + len(member) + 10 > 99:
                out += line.rstrip() + "\n"
                line = "      "
            line += f" MEMBER({member})"
        out += line + ")\n"
    return out


MEMBERS = """// SPDX-License-Identifier: MIT
// struct_members.def: each structure of the public headers with its members, STRUCT(name, MEMBER(member)...).
// Written by `python3 python/make_layout.py --members include`; the gate `layouts` compares it with the headers.
"""
CODES = {"None": "-", "c_void_p": "p", "c_char_p": "s", "c_int": "i", "c_uint": "u", "c_int64": "l", "c_uint64": "L",
         "c_int32": "w", "c_uint32": "W", "c_uint16": "H", "c_uint8": "B", "c_size_t": "z", "c_float": "f",
         "c_double": "d", "c_bool": "b", "c_char": "c"}
HEAD = '''# SPDX-License-Identifier: MIT
"""_layout.py: the C interface of libqkv for ctypes, written by make_layout.py from the public headers.

A structure of C is a class of this module (struct qkv_attention: Attention), made at first use; a constant has its
name without QKV_.
"""
import ctypes

VERSION = "{version}"
'''
TAIL = '''
TYPES = {"-": None, "p": ctypes.c_void_p, "s": ctypes.c_char_p, "i": ctypes.c_int, "u": ctypes.c_uint, "l": ctypes.c_int64,
         "L": ctypes.c_uint64, "w": ctypes.c_int32, "W": ctypes.c_uint32, "H": ctypes.c_uint16, "B": ctypes.c_uint8,
         "z": ctypes.c_size_t, "f": ctypes.c_float, "d": ctypes.c_double, "b": ctypes.c_bool, "c": ctypes.c_char}


def type_of(code):
    """Returns the ctypes type of a code, such as "l", "c*512" or "Strides"."""
    code, _, count = code.partition("*")
    kind = TYPES[code] if code in TYPES else globals().get(code) or __getattr__(code)
    return kind * int(count) if count and kind is not None else kind


def class_of(name):
    """Returns the class of a structure of C, such as "qkv_attention"."""
    return type_of("".join(part.title() for part in name.split("_")[1:]))


def __getattr__(name):
    if name not in STRUCTURES:
        raise AttributeError(f"libqkv has no structure {name}")
    members = [m.split(":") for m in STRUCTURES[name][1].split()]
    cls = type(name, (ctypes.Structure,), {"_fields_": [(m, type_of(code)) for m, code in members]})
    globals()[name] = cls
    return cls


def prototype(name):
    """Returns (restype, argtypes) of a function."""
    result, *arguments = [type_of(code) for code in FUNCTIONS[name].split()]
    return result, arguments
'''


def compare(source):
    """Compares the structures of ctypes with the offsets of C."""
    found = {"__name__": "_layout"}
    exec(compile(source, "_layout.py", "exec"), found)
    for name, (size, members, places) in found["STRUCTURES"].items():
        cls = found["type_of"](name)
        if ctypes.sizeof(cls) != size:
            raise SystemExit(f"make_layout.py: {name} has {ctypes.sizeof(cls)} bytes, expected {size}")
        for member, at in zip(members.split(), places.split()):
            member = member.partition(":")[0]
            if getattr(cls, member).offset != int(at):
                raise SystemExit(f"make_layout.py: {name}.{member} is at {getattr(cls, member).offset}, expected {at}")
    for name in found["FUNCTIONS"]:
        found["prototype"](name)


def main():
    if sys.argv[1] == "--members":
        print(member_rows(Headers(read_headers(os.path.join(sys.argv[2], "qkv")))), end="")
        return
    include, out, *cc = sys.argv[1:]
    headers = Headers(read_headers(os.path.join(include, "qkv")))
    source = python_source(headers, run_program(c_program(headers), include, cc))
    compare(source)
    old = None
    if os.path.exists(out):
        with open(out, encoding="utf-8") as f:
            old = f.read()
    if source != old:
        with open(out, "w", encoding="utf-8") as f:
            f.write(source)


if __name__ == "__main__":
    main()
