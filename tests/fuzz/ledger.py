#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adds the results of a search to the ledger of executions.

usage: ledger.py LEDGER.md [COMMIT DATE] < RESULTS     a line per target: TARGET EXECUTIONS EDGES FINDINGS

A row is a target at a commit: later searches at the same commit add their executions and findings to it.
"""
import datetime
import re
import subprocess
import sys

HEAD = """# Executions of the fuzz targets

`tests/fuzz/run.sh --ledger` adds to this table; docs/testing.md describes the targets. An edge is a branch of the code
that the target is linked with; a finding is an input that failed, and is stored in `tests/fuzz/found/` once it is mended.

"""
COLUMNS = "| target | commit | date | executions | edges | findings |\n|---|---|---|---:|---:|---:|\n"


def main():
    path = sys.argv[1]
    try:
        with open(path) as f:
            old = f.read()
    except FileNotFoundError:
        old = ""
    rows = {}
    for line in old.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) == 6 and re.fullmatch(r"[\d,]+", cells[3]):
            rows[cells[0], cells[1]] = cells[2:3] + [int(c.replace(",", "")) for c in cells[3:]]
    commit = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True,
                            check=True).stdout.strip()
    today = datetime.date.today().isoformat()
    if len(sys.argv) > 2:
        commit, today = sys.argv[2:]
    for line in sys.stdin:
        target, runs, edges, findings = line.split()
        row = rows.get((target, commit), [today, 0, 0, 0])
        rows[target, commit] = [today, row[1] + int(runs), max(row[2], int(edges)), row[3] + int(findings)]
    order = sorted(rows.items(), key=lambda item: (item[1][0], item[0][1], item[0][0]))
    with open(path, "w") as f:
        f.write(HEAD + "Executions in sum: {:,}.\n\n".format(sum(r[1] for r in rows.values())) + COLUMNS)
        for (target, commit), (date, runs, edges, findings) in order:
            f.write("| {} | {} | {} | {:,} | {:,} | {} |\n".format(target, commit, date, runs, edges, findings))


main()
