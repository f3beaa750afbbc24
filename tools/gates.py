#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gates.py [NAME...]: the rules of docs/design.md that a script can check; one function a rule.

Prints FILE:LINE: what is wrong, and one line with the count; exit 1 when anything is.
"""
import collections
import os
import re
import subprocess
import sys

# Who may look into whose door (src/<room>/<room>.h); a room always sees itself and include/qkv.
ROOMS = {
    "base": (),
    "kernel": ("base",),
    "text": ("base",),
    "file": ("base",),
    "view": ("base",),
    "layer": ("kernel", "base"),
    "model": ("layer", "file", "text", "base"),
    "task": ("model", "text", "base"),
}
LINES = 600  # past that a file has two jobs
COLUMNS = 100  # of the public headers; what clang-format leaves: comments
REPEAT = 8   # so many equal lines in two places are one function that was not written
CODE = (".c", ".h")


def tracked():
    """All files of the project: known to git, or new and not ignored."""
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True,
                         text=True, check=True).stdout
    return [f for f in out.splitlines() if os.path.isfile(f) and not os.path.islink(f)]


def lines(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read().split("\n")


def uncommented(path):
    """(number, line) of a C file with comments and string contents blanked."""
    text = "\n".join(lines(path))
    blank = lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0][0] == "/" else '""'
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)
    return enumerate(text.split("\n"), 1)


def includes(files):
    """A room sees another only through its door, and only in the order of the rooms."""
    for path in files:
        part = path.split("/")
        if not path.endswith(CODE) or part[0] not in ("src", "cli", "examples"):
            continue
        if path.startswith("cli/gradcheck/"):  # a program of its own on the rooms, as tests are
            continue
        for number, line in enumerate(lines(path), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            there = m[1].split("/")
            if part[0] != "src":  # the command and the examples: own headers and <qkv/...>
                if len(there) > 1 or there[0] in [room + ".h" for room in ROOMS]:
                    yield path, number, f'"{m[1]}": only <qkv/...> here'
                continue
            room = part[1]
            if there[0] not in ROOMS:
                if len(there) > 1 and not os.path.exists(os.path.join(os.path.dirname(path), m[1])):
                    yield path, number, f'"{m[1]}": no room of that name'
            elif there[0] != room and there[0] not in ROOMS[room]:
                yield path, number, f"room {room} may not look into {there[0]}"
            elif there[0] != room and there[1:] != [there[0] + ".h"]:
                yield path, number, f'"{m[1]}": use the door {there[0]}/{there[0]}.h'


def silent(files):
    """The library never prints or exits; memory comes from memory.c, threads from threads.c."""
    rules = [
        (r"\b(?:printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror|fputc)\s*\(", (),
         "the library never prints"),
        (r"\b(?:exit|_exit|_Exit|quick_exit|abort|assert|raise)\s*\(", (), "the library never ends the process"),
        (r"(?<![\w.>])(?:malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign|getline"
         r"|asprintf)\s*\(", ("src/base/memory.c",), "memory comes from qkv_alloc"),
        (r"#\s*pragma\s+omp|\bomp_\w+\s*\(|\bpthread_create\b", ("src/base/threads.c",),
         "threads come from qkv_parallel_for"),
        (r"\b(?:strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atof|scanf|alloca|setlocale)\s*\(",
         (), "this call has no bound, no error or hidden state"),
    ]
    for path in files:
        if not (path.startswith("src/") and path.endswith(CODE)):
            continue
        for number, line in uncommented(path):
            for pattern, allowed, why in rules:
                m = re.search(pattern, line)
                if m and path not in allowed:
                    yield path, number, f"{m[0].strip()}: {why}"


def intrinsics(files):
    """Vector code lives in room kernel."""
    for path in files:
        if path.endswith(CODE) and path.startswith(("src/", "cli/")) and not path.startswith("src/kernel/"):
            for number, line in uncommented(path):
                if re.search(r"\b_mm\d*_|\b__m(?:128|256|512)|immintrin\.h|arm_neon\.h", line):
                    if path != "src/base/cpu.c":
                        yield path, number, "intrinsics belong into src/kernel"


def spdx(files):
    """The first line (the second below #!) names the licence."""
    for path in files:
        name = os.path.basename(path)
        if path.endswith((".c", ".h", ".def", ".py", ".sh", ".js", ".css", ".cmake")) or \
                name in ("Makefile", "CMakeLists.txt") or path == ".ci/run":
            head = lines(path)[:2]
            if not any("SPDX-License-Identifier: MIT" in line for line in head):
                yield path, 1, "no SPDX-License-Identifier: MIT"


def length(files):
    """Files stay short enough to be read, public headers also narrow enough."""
    for path in files:
        if path.endswith(CODE + (".js", ".css", ".py", ".sh")):
            n = len(lines(path)) - 1
            if n > LINES:
                yield path, n, f"{n} lines, at most {LINES}"
            for number, line in enumerate(lines(path), 1):
                if "\t" in line and not line.lstrip().startswith("//"):
                    yield path, number, "a tab"
                    break
                if path.startswith("include/") and len(line) > COLUMNS:
                    yield path, number, f"{len(line)} columns, at most {COLUMNS}"


def words(files):
    """Nothing unfinished, nothing of one machine."""
    # spelled in pieces, so that this file passes its own gate
    bad = [("TO" + "DO", "unfinished"), ("FIX" + "ME", "unfinished"), ("X" + "XX", "unfinished"),
           (r"(?<![\w./$}~-])/(?:wo" + "rk|ro" + "ot|ho" + "me|op" + r"t)/\w", "a path of one machine"),
           (r"localh" + r"ost:\d|127\.0\.0\.1:\d{2,}", "an address of one machine")]
    for path in files:
        if path.endswith(CODE + (".js", ".css", ".py", ".sh", ".cmake", ".md", ".txt", ".def", ".json")) \
                and not path.startswith("tests/golden/"):
            for number, line in enumerate(lines(path), 1):
                for pattern, why in bad:
                    m = re.search(r"\b" + pattern + r"\b" if pattern.isupper() else pattern, line)
                    if m:
                        yield path, number, f"{m[0]}: {why}"


def duplicates(files):
    """REPEAT lines in a row that stand in two places (blank lines, braces, comments, rows of tables not counted)."""
    seen = collections.OrderedDict()
    reported = set()
    for path in files:
        if not path.endswith(CODE) or not path.startswith(("src/", "cli/")):
            continue
        kept = [(n, re.sub(r"\s+", " ", line).strip()) for n, line in uncommented(path)]
        kept = [(n, t) for n, t in kept if len(t) > 6 and not t.startswith(("#include", "case ", "static ", "."))]
        for i in range(len(kept) - REPEAT + 1):
            block = "\n".join(t for _, t in kept[i:i + REPEAT])
            first = seen.setdefault(block, (path, kept[i][0], i))
            if first[:2] == (path, kept[i][0]) or (first[0] == path and i - first[2] < REPEAT):
                continue
            if (first[0], path, first[1] // 40) not in reported:
                reported.add((first[0], path, first[1] // 40))
                yield path, kept[i][0], f"{REPEAT} lines as at {first[0]}:{first[1]}"


def symbols(files):
    """Each exported name of tests/install/symbols.txt is declared in a public header, and the reverse."""
    declared = set()
    for path in files:
        if path.startswith("include/qkv/"):
            text = "\n".join(line for _, line in uncommented(path))
            for m in re.finditer(r"\bQKV_API\b[^;(]*?\b(qkv_\w+)\s*\(", text):
                declared.add(m[1])
    listed = {line for line in lines("tests/install/symbols.txt") if line and line[0] != "#"}
    for name in sorted(declared - listed):
        yield "tests/install/symbols.txt", 1, f"{name} is declared in a header and not listed"
    for name in sorted(listed - declared):
        yield "tests/install/symbols.txt", 1, f"{name} is listed and declared in no header"


GATES = (includes, silent, intrinsics, spdx, length, words, duplicates, symbols)


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = tracked()
    wanted = sys.argv[1:] or [g.__name__ for g in GATES]
    known = {g.__name__: g for g in GATES}
    bad = 0
    for name in wanted:
        if name not in known:
            sys.exit(f"gates.py: no gate {name}; there are: {' '.join(known)}")
        found = list(known[name](files))
        for path, number, what in found:
            print(f"{path}:{number}: {what}  [{name}]")
        bad += bool(found)
    print(f"gates: {len(wanted) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
