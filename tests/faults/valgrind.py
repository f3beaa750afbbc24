#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""valgrind.py: runs the commands of walk.py under valgrind, which reports each read of a byte that was never written
and each block that is lost.

    valgrind.py QKV [--flow NAME]

Unlike the sanitizers, valgrind sees into libraries as well.  The flow `embed-npy` runs once for each precision.
Prints a line for each flow; exit 1 if valgrind reported an error, 77 without valgrind.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

from walk import FLOWS, copy_inputs, possible, prepare, write_old

PRECISIONS = ["f32", "f32-strict", "f32-fast", "bf16", "f16", "int8"]
FAILED = 99  # exit code of valgrind after an error
VALGRIND = ["valgrind", "--quiet", f"--error-exitcode={FAILED}", "--leak-check=full",
            "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]
# What libraries keep until the process ends, or read on purpose; and what a child process of compare has when it ends after
# its measurement.
SUPPRESSIONS = """
{
  a child that measures
  Memcheck:Leak
  ...
  fun:child_try
}
{
  fontconfig and cairo keep fonts
  Memcheck:Leak
  ...
  obj:*/lib*fontconfig*
}
{
  cairo keeps scaled fonts
  Memcheck:Leak
  ...
  obj:*/libcairo*
}
"""


def instruction_set(qkv):
    """Returns the instruction set that qkv uses under valgrind, which knows fewer than this CPU may have."""
    said = subprocess.run([*VALGRIND, qkv, "info"], text=True, capture_output=True).stdout
    return re.search(r"^kernels +(\w+)", said, re.M)[1]


def run(name, args, flow, a, inputs, suppressions):
    """Returns (name, exit code, report of valgrind)."""
    with tempfile.TemporaryDirectory(prefix="qkv-valgrind-") as work:
        copy_inputs(flow, inputs, work)
        write_old(flow, work)
        done = subprocess.run([*VALGRIND, f"--suppressions={suppressions}", a.qkv, *args], cwd=work, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        reported = re.search(r"^==\d+==", done.stderr, re.M)  # also of a child process, whose exit code is not the command's
        return name, done.returncode or FAILED * bool(reported), done.stderr


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("qkv", type=os.path.abspath)
    p.add_argument("--flow")
    a = p.parse_args()
    if not shutil.which("valgrind"):
        print("valgrind is not here")
        return 77
    runs = [(f.name, f.args, f) for f in possible(a.qkv, FLOWS) if not a.flow or f.name == a.flow
            if not (f.program or f.request or f.args[0] == "pull")]
    runs += [(f"{f.name} {precision}", [*f.args, "--precision", precision], f)
             for f in FLOWS if f.name == "embed-npy" and not a.flow for precision in PRECISIONS]
    bad = 0
    os.environ["QKV_ISA"] = instruction_set(a.qkv)  # also of the inputs: shards of a run have one
    with tempfile.TemporaryDirectory(prefix="qkv-valgrind-") as inputs:
        prepare(a.qkv, inputs)
        suppressions = os.path.join(inputs, "valgrind.supp")
        with open(suppressions, "w") as f: f.write(SUPPRESSIONS)
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
            for name, code, report in pool.map(lambda r: run(*r, a, inputs, suppressions), runs):
                print(f"{name:24} {'ok' if code == 0 else f'exit {code}'}", flush=True)
                if code: print(report, flush=True)
                bad += code != 0
    print(f"{len(runs)} commands, {bad} with errors")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
