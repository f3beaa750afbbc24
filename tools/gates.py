#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gates.py [NAME...]: checks the rules of docs/design.md that a script can check, one function per rule.

Prints FILE:LINE: the violation, and one line with the count; exits with 1 if there is any.  --names lists the gates.
"""
import collections
import os
import re
import subprocess
import sys


def read_modules():
    """src/modules.txt: {module: the modules whose face it may include}, in its order."""
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "modules.txt")
    with open(top, encoding="utf-8") as f:
        rows = [line.split(":") for line in f if re.match(r"[a-z]+:", line)]
    return {name: tuple(uses.split()) for name, uses in rows}


MODULES = read_modules()
LINES = 600  # the most lines of a file; a longer file has two purposes
COLUMNS = 100  # the most columns of C sources without the text of strings; clang-format does not wrap comments
UNWRAPPED = ("src/layer/", "src/model/")  # modules some of whose comments are wider
SCRIPT_COLUMNS = 120  # the most columns of JavaScript
BODY = 80  # the most lines of a function
FOLDER = 25  # the most files of a folder ...
# ... except folders whose files are the rows of a table, one file per row (public headers: docs/README.md); a file of
# tools/ is one program, a picture of the course is the output of one command of a page
TABLES = ("include/qkv", "src/model/family", "docs/notes/pictures", "tests/cli", "tests/golden", "examples",
          "tools", "tests/fuzz/targets", "tests/fuzz/grown")
FACE_USERS = ("src/", "cli/gradcheck/")  # callers of the functions of a face, in addition to the tests
REPEAT = 8   # as many equal lines in two places should be one function
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
    """A module includes another only through its face, and only in the order of src/modules.txt."""
    for path in files:
        part = path.split("/")
        if not path.endswith(CODE) or part[0] not in ("src", "cli", "examples"):
            continue
        if path.startswith("cli/gradcheck/"):  # a separate program that includes the modules, like the tests
            continue
        for number, line in enumerate(lines(path), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            there = m[1].split("/")
            if part[0] != "src":  # the command and the examples include their own headers and <qkv/...>
                near = (os.path.join("cli", m[1]), os.path.join(os.path.dirname(path), m[1]))
                if not any(os.path.exists(f) for f in near):
                    yield path, number, f'"{m[1]}": only own headers and <qkv/...> here'
                continue
            module = part[1]
            if there[0] not in MODULES:
                if len(there) > 1 and not os.path.exists(os.path.join(os.path.dirname(path), m[1])):
                    yield path, number, f'"{m[1]}": no module of that name'
            elif there[0] != module and there[0] not in MODULES[module]:
                yield path, number, f"module {module} may not include {there[0]}"
            elif there[0] != module and there[1:] != [there[0] + ".h"]:
                yield path, number, f'"{m[1]}": use the face {there[0]}/{there[0]}.h'


def silent(files):
    """The library never prints or exits; memory comes from memory.c, threads from threads.c."""
    rules = [
        (r"\b(?:printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror|fputc)\s*\(", (),
         "the library never prints"),
        (r"\b(?:exit|_exit|_Exit|quick_exit|abort|assert|raise)\s*\(", (), "the library never ends the process"),
        (r"(?<![\w.>])(?:malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign|getline"
         r"|asprintf)\s*\(", ("src/base/memory.c",), "memory comes from qkv_alloc"),
        (r"\bpthread_create\b", ("src/base/threads.c", "src/layer/ranks/mpi/mpi_ranks.c"), "threads come from qkv_parallel_for"),
        (r"#\s*pragma\s+omp|\bomp_\w+\s*\(", (), "parallel loops are calls of qkv_parallel_for"),
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
    """Vector code lives in module kernel."""
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
    """Files stay short enough to read, and C sources narrow enough, except tables that clang-format leaves alone."""
    for path in files:
        if path.endswith(CODE + (".js", ".css", ".py", ".sh")):
            n = len(lines(path)) - 1
            if n > LINES:
                yield path, n, f"{n} lines, at most {LINES}"
            most = SCRIPT_COLUMNS if path.endswith(".js") else \
                COLUMNS if path.endswith(CODE) and not path.startswith(UNWRAPPED) else None
            table = False
            for number, line in enumerate(lines(path), 1):
                if "\t" in line and not line.lstrip().startswith("//"):
                    yield path, number, "a tab"
                    break
                table = "clang-format off" in line or table and "clang-format on" not in line
                width = len(re.sub(r'"(?:\\.|[^"\\])*"', '""', line) if path.endswith(CODE) else line)
                if most and width > most and not (table and path.endswith(CODE)):
                    yield path, number, f"{width} columns, at most {most}"


def functions(files):
    """A function is at most BODY lines long, not counting its constant tables."""
    for path in files:
        if path.endswith(CODE) and path.startswith(("src/", "cli/", "include/", "tests/", "examples/", "bench/")):
            begin = table = None
            for number, line in enumerate(lines(path), 1):
                if line == "{":
                    begin, count, table = number, 0, None
                elif line == "}" and begin:
                    if count > BODY:
                        yield path, begin, f"a function of {count} lines, at most {BODY}"
                    begin = None
                elif table is None and re.search(r"\[\] = \{$", line):
                    table = re.match(r" *", line)[0] + "};"
                elif line == table:
                    table = None
                elif begin and table is None:
                    count += 1


def folders(files):
    """A folder has at most FOLDER files; a file name occurs once in src/ and cli/; a header's guard ends with it."""
    count = collections.Counter(os.path.dirname(f) for f in files)
    for folder, n in sorted(count.items()):
        if n > FOLDER and not folder.startswith(TABLES):
            yield folder, 1, f"{n} files, at most {FOLDER}"
    names = collections.defaultdict(list)
    for path in files:
        if path.startswith(("src/", "cli/")) and path.endswith(CODE + (".js", ".css", ".def")):
            names[os.path.basename(path)].append(path)
    for name, paths in sorted(names.items()):
        if len(paths) > 1:
            yield paths[1], 1, f"the file name of {paths[0]}"
    for path in files:
        if path.startswith(("src/", "cli/")) and path.endswith(".h"):
            guard = next((line.split()[1] for line in lines(path) if re.match(r"#ifndef QKV_\w+_H$", line)), None)
            wanted = re.sub(r"\W", "_", os.path.basename(path)).upper()
            if guard and not guard.endswith(wanted):
                yield path, 1, f"include guard {guard}, expected a name that ends with {wanted}"


def declared_in_face(path, module):
    """Returns {function: line} of the declarations in a face and in the headers of its module that it includes."""
    found, waiting, known = {}, [path], set()
    while waiting:
        header = waiting.pop()
        known.add(header)
        text = "\n".join(line for _, line in uncommented(header))
        for m in re.finditer(r'#\s*include\s+"(' + module + r'/[^"]+\.h)"', "\n".join(lines(header))):
            if "src/" + m[1] not in known:
                waiting.append("src/" + m[1])
        text = re.sub(r"^\s*#.*|\btypedef\b[^;{]*;", lambda m: re.sub(r"[^\n]", "", m[0]), text, flags=re.M)
        for m in re.finditer(r"\b(qkv_\w+)\s*\((?=[^;{]*\)\s*[;{])", text):
            if not re.search(r"[=(,&|!?:+*/-]\s*$|\breturn\s*$", text[:m.start()].rstrip(" ")[-8:]):
                found.setdefault(m[1], (header, text.count("\n", 0, m.start()) + 1))
    return found


def faces(files):
    """Every function that a face declares is called from another module."""
    used = collections.defaultdict(set)  # {identifier: modules that use it}
    for path in files:
        if path.endswith(CODE + (".def",)) and path.startswith(FACE_USERS):
            module = path.split("/")[1] if path.startswith("src/") else "gradcheck"
            for _, line in uncommented(path):
                for name in re.findall(r"\bqkv_\w+", line):
                    used[name].add(module)
    total = called = 0
    for module in MODULES:
        for name, (path, number) in sorted(declared_in_face(f"src/{module}/{module}.h", module).items()):
            total += 1
            if used[name] - {module}:
                called += 1
            else:
                yield path, number, f"{name}: no other module calls it; declare it in an internal header"
    print(f"faces: {total} functions, {called} called from another module")


def words(files):
    """No unfinished code, and no path of one machine."""
    # split strings, so that this file passes its own gate
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


def retired_words():
    """docs/glossary.md: [(pattern of names or None, pattern of prose or None, word, what to use)]."""
    rows = []
    for line in lines("docs/glossary.md"):
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0].startswith("`"):
            for word in re.findall(r"`([^`]+)`", cells[0]):
                prose = re.compile(r"(?<![\w-])" + re.escape(word).replace(r"\ ", r"\s+") + r"(?![\w-])", re.I)
                rows.append((word if "names" in cells[1] else None, prose if "prose" in cells[1] else None, word, cells[2]))
    return rows


def name_parts(text):
    """The lower-case parts of all names in C code."""
    parts = re.findall(r"[a-z]+|[A-Z][a-z]*", " ".join(re.findall(r"[A-Za-z_]\w*", text)))
    return {part.lower() for part in parts}


def retired(files):
    """No name and no sentence uses a word that docs/glossary.md retires."""
    rows = retired_words()
    names = {word: use for name, _, word, use in rows if name}
    prose = [(p, word, use) for _, p, word, use in rows if p]
    for path in files:
        if path in ("docs/glossary.md", "CHANGELOG.md", "tools/gates.py") or path.startswith(("tests/golden/", "models/", "tests/fuzz/corpus")):
            continue
        code = path.endswith(CODE + (".def", ".js", ".mjs"))
        if not code and not path.endswith((".md", ".css", ".html", ".py", ".sh", ".txt", ".cmake", "Makefile")):
            continue
        if code:
            for part in re.split(r"[/_.]", path):
                if part in names:
                    yield path, 1, f"{part}: {names[part]}  (a file name)"
        text = lines(path)
        plain = dict(uncommented(path)) if code else {}
        used = name_parts(" ".join(plain.values())) & names.keys()
        low = " ".join(text).lower()
        here = [row for row in prose if row[1].lower().split()[0] in low]
        for number, line in enumerate(text if used or here else (), 1):
            for part in sorted(name_parts(plain[number]) & used if used else ()):
                yield path, number, f"{part}: {names[part]}  (a name)"
            for pattern, word, use in here:
                if pattern.search(line):
                    yield path, number, f"{word}: {use}"


def duplicates(files):
    """No REPEAT consecutive lines occur twice (blank lines, braces, comments and rows of tables are not counted)."""
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


def script_module(path):
    """Returns (imports {name: path}, exported names, declared names, bad lines) of an ES module of the page."""
    text = "\n".join(lines(path))
    imports, exported, declared, bad = {}, set(), set(), []
    form = r'import \{\s*((?:[\w$]+,\s*)*[\w$]+)\s*\} from "(\.[\w./]+\.js)";|export (?:const|async function|function|class) '
    for m in re.finditer(r"^(?:import|export)\b", text, re.M):
        at = re.compile(form).match(text, m.start())
        if not at:
            bad.append(text.count("\n", 0, m.start()) + 1)
        elif at[1]:
            there = os.path.normpath(os.path.join(os.path.dirname(path), at[2]))
            imports.update({name: there for name in re.findall(r"[\w$]+", at[1])})
    # A statement at the top level begins in column 0 and ends before the next line that begins there.
    for m in re.finditer(r"^(export )?(?:(?:async )?function\*?|class|const|let|var) .*(?:\n[^\S\n].*|\n[)}\]].*)*", text, re.M):
        head = re.sub(r"^(?:export )?(?:async )?", "", m[0])
        if head.startswith(("function", "class")):
            names = re.findall(r"^\w+\*? (\w+)", head)
        elif re.match(r"\w+ \{", head):
            names = re.findall(r"(\w+)\s*[,}]", head[:head.index("}") + 1])
        else:
            flat, last = re.sub(r"`[^`]*`|\"[^\"\n]*\"|//.*", "", head), None
            while flat != last:
                flat, last = re.sub(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}", "", flat), flat
            names = re.findall(r"(?:^\w+|,)\s+([\w$]+)\s*(?==[^>=]|[,;])", flat)
        declared.update(names)
        exported.update(names if m[1] else ())
    return imports, exported, declared, bad


def scripts(files):
    """Scripts of the page: imports by name and without circles, no name declared twice, none exported in vain."""
    web = {path: script_module(path) for path in files
           if path.startswith("src/view/web/") and path.endswith(".js") and not path.endswith("/chart.js")}
    homes, used = {}, {(there, name) for imports, *_ in web.values() for name, there in imports.items()}
    for path, (imports, exported, declared, bad) in web.items():
        yield from ((path, number, "an import or export of another form") for number in bad)
        for name, there in imports.items():
            if there not in web or name not in web[there][1]:
                yield path, 1, f"{there} exports no {name}"
            if len(re.findall(rf"(?<![\w$]){re.escape(name)}(?![\w$])", "\n".join(lines(path)))) < 2:
                yield path, 1, f"{name} is imported and not used"
        for name in sorted(declared):
            if homes.setdefault(name, path) != path:
                yield path, 1, f"{name} is declared in {homes[name]} too"
        for name in sorted(exported):
            if (path, name) not in used:
                yield path, 1, f"{name} is exported and imported nowhere"
    done, open_ = set(), []

    def circles(path):
        if path in open_:
            yield path, 1, "imports itself through " + ", ".join(open_[open_.index(path) + 1:])
        elif path in web and path not in done:
            open_.append(path)
            for there in dict.fromkeys(web[path][0].values()):
                yield from circles(there)
            done.add(open_.pop())
    for path in web:
        yield from circles(path)


OUTPUT_OPTION = r"OPT_OUTPUT\(\s*(?:'(\w)'|0),\s*\"([\w-]+)\""


def writers(files):
    """Every option and operand that names an output of a command is used by a row of tests/faults/writers.py, and every
    command by one of tests/faults/walk.py."""
    sys.path.insert(0, "tests/faults")
    import writers as table
    used = {(w.args[0], word) for w in table.WRITERS for word in w.args}
    charts = re.findall(OUTPUT_OPTION, "\n".join(lines("cli/frame/charts.h")))
    rows = re.findall(r"^COMMAND\((\w+)\)", "\n".join(lines("cli/command.def")), re.M)
    walked = {f.program.removeprefix("qkv-") or f.args[0] for f in table.walk.FLOWS}
    for name in rows:
        if name.replace("_", "-") not in walked:
            yield "cli/command.def", 1, f"no row of tests/faults/walk.py runs qkv {name.replace('_', '-')}"
        path = next((p for p in files if p.endswith(f"/cmd_{name}.c")), None)
        if not path:
            continue
        text, command = "\n".join(lines(path)), name.replace("_", "-")
        options = re.findall(OUTPUT_OPTION, text) + (charts if "CHART_OPTIONS(" in text else [])
        for letter, word in options:
            if (command, f"-{letter}") not in used and (command, f"--{word}") not in used:
                yield path, 1, f"no row of tests/faults/writers.py writes with --{word} of qkv {command}"
        if ("USES_OUTPUT" in text or "cmd_output_" in text) and command not in {c for c, _ in used}:
            yield path, 1, f"no row of tests/faults/writers.py writes with qkv {command}"


def pictures(files):
    """Commands write picture files by cli/frame/pictures.c, which paints PNG in a child process."""
    for path in files:
        if path.startswith("cli/") and path.endswith(".c") and path != "cli/frame/pictures.c":
            for number, line in enumerate(lines(path), 1):
                if re.search(r"\bqkv_(chart_file|plot_file|view_picture|diagram_file)\(", line):
                    yield path, number, "writes a picture file without cli/frame/pictures.c"


def figures(files):
    """docs/testing.md has the numbers of flows, writers, fuzz targets and rows of the tables that it describes."""
    sys.path.insert(0, "tests/faults")
    import walk
    import writers as table
    under_valgrind = sum(not (f.program or f.request or f.args[0] == "pull") for f in walk.FLOWS) + 6  # and six precisions
    targets = sum(f.startswith("tests/fuzz/targets/") for f in files)
    cost = sum(line.startswith("COST_ROW(") for line in lines("tests/cost/cost.def"))
    path = "docs/testing.md"
    text = "\n".join(lines(path))
    for pattern, count in ((r"whole commands \((\d+) flows", len(walk.FLOWS)), (r"\| (\d+) commands that write", len(table.WRITERS)),
                           (r"write files: (\d+) rows", len(table.WRITERS)), (r"lists (\d+) known", len(walk.KNOWN)),
                           (r"\| (\d+) inputs at three sizes", cost), (r"\| (\d+) targets,", targets),
                           (r"valgrind on (\d+) commands", under_valgrind)):
        found = re.findall(pattern, text)
        if found != [str(count)]:
            yield path, 1, f"{pattern}: expected {count} once, found {' '.join(found) or 'nothing'}"


def accounts(files):
    """Each goal that a page of docs/performance says was missed leads to a heading of docs/limits.md."""
    headings = {re.sub(r"[^a-z0-9 -]", "", line[3:].lower()).replace(" ", "-") for line in lines("docs/limits.md")
                if line.startswith("## ")}
    for path in files:
        for number, line in enumerate(lines(path), 1) if re.match(r"docs/performance/.*\.md$", path) else ():
            found = re.search(r"\*\*missed\*\*(?:: \[account\]\(\.\./limits\.md#([^)]*)\))?", line)
            if found and found[1] not in headings:
                yield path, number, f"no account in docs/limits.md ({found[1] or 'goals.ACCOUNTS has no row'})"


def layouts(files):
    """src/base/layout/struct_members.def has the structures and members of the public headers."""
    path = "src/base/layout/struct_members.def"
    wanted = subprocess.run([sys.executable, "python/make_layout.py", "--members", "include"], capture_output=True, text=True,
                            check=True).stdout.split("\n")
    for number, (a, b) in enumerate(zip(lines(path) + [""] * len(wanted), wanted), 1):
        if a != b:
            yield path, number, "differs from the headers: python3 python/make_layout.py --members include > " + path
            return
    if len(lines(path)) != len(wanted):
        yield path, len(wanted), "has rows of structures that the headers do not have"


GATES = (includes, silent, intrinsics, spdx, length, functions, folders, faces, words, retired, duplicates, symbols, scripts, writers, pictures, figures, accounts, layouts)


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = tracked()
    if sys.argv[1:] == ["--names"]:
        print(*(g.__name__ for g in GATES))
        return 0
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
