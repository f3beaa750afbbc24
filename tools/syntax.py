#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""syntax.py BUILD: compiles each source of BUILD/compile_commands.json that has no object, or one older than a file that it
was compiled from, for its warnings, without writing code. JOBS at a time (default: one per CPU). Ninja knows the files; in a
build by make all sources are compiled.
"""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys


def dependencies(build):
    """Returns the files that each object was compiled from, as ninja knows them; a build by make has none."""
    found = {}
    if os.path.exists(os.path.join(build, "build.ninja")):
        lines = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True).stdout
        for part in lines.split("\n\n"):
            head, *files = part.strip().split("\n")
            found[head.split(":")[0]] = [f.strip() for f in files]
    return found


def is_new(folder, name, files):
    """Returns whether an object is newer than all files that it was compiled from."""
    try:
        made = os.stat(os.path.join(folder, name)).st_mtime
        return bool(files) and all(os.stat(os.path.join(folder, f)).st_mtime <= made for f in files)
    except OSError:
        return False


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(os.path.join(sys.argv[1], "compile_commands.json"), encoding="utf-8") as f:
        rows = json.load(f)
    commands = []
    known = dependencies(sys.argv[1])
    for row in rows:
        words = shlex.split(row["command"])
        at = words.index("-o")
        if not is_new(row["directory"], words[at + 1], known.get(words[at + 1])):
            commands.append((row["directory"], [*words[:at], *words[at + 2:], "-fsyntax-only"]))

    def run(command):
        return subprocess.run(command[1], cwd=command[0], capture_output=True, text=True)
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
        bad = [r.stderr for r in pool.map(run, commands) if r.returncode]
    print("\n".join(bad) or f"{len(commands)} of {len(rows)} sources were compiled for their warnings only")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
