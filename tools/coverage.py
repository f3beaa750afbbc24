#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""coverage.py: measures which lines and branches of src the tests run, by gcov, for each module.

    coverage.py [--quick] [--keep] [--missing FILE]...

Builds build/coverage without optimisation, runs all tests but the long ones, and prints a table.  --quick builds and runs
only the tests of base, file and text and the corpus of the fuzz targets, and prints these three modules.  --keep reports on
the runs so far, without another one.  --missing prints the lines of FILE that no test runs, and those with branches that
no test takes.  Exit 1 if base, file or text has less than 95 % of its lines or 90 % of its branches.  Needs gcovr (Debian
and Ubuntu: gcovr).
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = "build/coverage"
HELD = {"base": (95, 90), "file": (95, 90), "text": (95, 90)}
# Tests of other programs (a browser, compilers), and slow ones that run no line of their own.
LEFT_OUT = "browser_|boxes_|install/|cost/|whole/notes|gradcheck|bench|verify|minilm|amx/"
QUICK = "tests_base tests_file tests_text fuzz_targets fuzz_corpus"


def run_tests(quick):
    """Builds build/coverage and runs its tests."""
    some = {"TARGETS": QUICK} if quick else {}
    subprocess.run(["tools/build.sh", BUILD, "-DQKV_TESTS=ON"], env=dict(os.environ, **some), check=True)
    subprocess.run(f"find {BUILD} -name '*.gcda' -delete", shell=True, check=True)
    picked = ["-L", f"^({'|'.join(HELD)}|fuzz)$"] if quick else []
    subprocess.run(["ctest", "--test-dir", BUILD, *picked, "-LE", "long", "-E", LEFT_OUT, "-j", os.environ.get("JOBS", "2"),
                    "--timeout", "1800", "--output-on-failure", "-Q", "-O", f"{BUILD}/tests.log"],
                   env=dict(os.environ, QKV_FAILURES="20" if quick else "100"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--keep", action="store_true")
    p.add_argument("--missing", action="append", default=[])
    a = p.parse_args()
    os.chdir(ROOT)
    if not shutil.which("gcovr"):
        print("coverage: gcovr is not here")
        return 77
    if not a.keep: run_tests(a.quick)
    # The objects of the library alone: other targets compile some of its files with other definitions.
    done = subprocess.run(["gcovr", "-r", ".", "--object-directory", f"{BUILD}/CMakeFiles", f"{BUILD}/CMakeFiles",
                           "--filter", f"src/({'|'.join(HELD)})/" if a.quick else "src/", "--exclude-unreachable-branches",
                           "--json", "-"], stdout=subprocess.PIPE, check=True)
    count = collections.defaultdict(lambda: [0, 0, 0, 0])
    for f in json.loads(done.stdout)["files"]:
        total = count[f["file"].split("/")[1]]
        for line in f["lines"]:
            if line.get("gcovr/noncode"): continue
            for i, part in enumerate((line["count"] > 0, True)): total[i] += part
            for branch in line["branches"]:
                for i, part in enumerate((branch["count"] > 0, True)): total[2 + i] += part
            if f["file"] not in a.missing: continue
            taken = sum(branch["count"] > 0 for branch in line["branches"])
            if line["count"] == 0: print(f"{f['file']}:{line['line_number']}: not run")
            elif taken < len(line["branches"]):
                print(f"{f['file']}:{line['line_number']}: {taken} of {len(line['branches'])} branches")
    bad = 0
    print("module      lines  branches")
    for module, (lines, all_lines, branches, all_branches) in sorted(count.items()):
        share = 100 * lines / max(1, all_lines), 100 * branches / max(1, all_branches)
        low = any(got < least for got, least in zip(share, HELD.get(module, ())))
        bad += low
        print(f"{module:10} {share[0]:5.1f} % {share[1]:6.1f} %{'  too few' if low else ''}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
