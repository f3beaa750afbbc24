#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""syntax.py BUILD: compiles each source of BUILD/compile_commands.json whose object a full build would make, without
writing code, for its warnings. JOBS at a time (default: one per CPU). Ninja knows which objects these are; in a build
by make all sources are compiled.
"""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(os.path.join(sys.argv[1], "compile_commands.json"), encoding="utf-8") as f:
        rows = json.load(f)
    ninja = os.path.exists(os.path.join(sys.argv[1], "build.ninja"))
    plan = subprocess.run(["ninja", "-C", sys.argv[1], "-n", "-v", "all"], check=True, capture_output=True,
                          text=True).stdout.split() if ninja else []
    missing = {word for word in plan if word.endswith(".o")}
    commands = []
    for row in rows:
        words = shlex.split(row["command"])
        at = words.index("-o")
        if not ninja or words[at + 1] in missing:
            commands.append((row["directory"], [*words[:at], *words[at + 2:], "-fsyntax-only"]))

    def run(command):
        return subprocess.run(command[1], cwd=command[0], capture_output=True, text=True)
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
        bad = [r.stderr for r in pool.map(run, commands) if r.returncode]
    print("\n".join(bad) or f"{len(commands)} of {len(rows)} sources were compiled for their warnings only")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
