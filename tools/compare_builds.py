#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare_builds.py: measures two builds of qkv alternately and prints the median ratio of their speeds.

    compare_builds.py BASE NEW [--rounds N] [--threads N] [PART...]

BASE, NEW: build folders, each with bin/qkv.  Parts (default: all):

    encoder   qkv bench encoder with models/all-MiniLM-L6-v2 (skipped without it): sequences of 20 to 54 tokens
    decode    qkv generate with models/verse: one prompt, 400 tokens
    prompts   qkv generate with models/verse: 32 prompts of different lengths in one batch, 64 tokens each
    train     qkv train: 40 steps of a decoder of width 128

A round runs each build once, and the order alternates; a ratio is seconds of BASE / seconds of NEW in one round, so
above 1 NEW is faster.  Memory is the largest resident set of a process; its ratio is NEW / BASE of the medians.
Exit 1 if a median speed ratio is below 0.98 or a memory ratio above 1.02.  Run it on a quiet machine.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPEED, MEMORY = 0.98, 1.02
WORDS = "in the beginning was word and he said unto them blessed are they that do his commandments for it is so".split()


def words(n, start):
    return " ".join(WORDS[(start * 7 + i * 5 + i * i) % len(WORDS)] for i in range(n))


def run(command):
    """Returns standard output, seconds of the whole process, and its largest resident set in KiB."""
    with tempfile.TemporaryFile() as out:
        begin = time.monotonic()
        p = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, cwd=ROOT)
        error = p.stderr.read()
        _, status, usage = os.wait4(p.pid, 0)
        seconds = time.monotonic() - begin
        p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode: sys.exit(f"{' '.join(command)}: exit {p.returncode}\n{error.decode()}")
        out.seek(0)
        return out.read(), seconds, usage.ru_maxrss


def encoder(qkv, threads, folder):
    out, _, memory = run([qkv, "bench", "encoder", "--json", "--seconds", "3", "-s", "B32,N20-54", "-m",
                          "models/all-MiniLM-L6-v2", "--threads", threads])
    return json.loads(out)["results"][0]["seconds"]["median"], memory


def decode(qkv, threads, folder):
    return run([qkv, "generate", words(5, 1), "-n", "400", "--ignore-end", "--no-stream", "--truncate", "-m",
                "models/verse", "--threads", threads])[1:]


def prompts(qkv, threads, folder):
    path = os.path.join(folder, "prompts.txt")
    with open(path, "w") as f: f.writelines(words(3 + i % 17, i) + "\n" for i in range(32))
    return run([qkv, "generate", "-f", path, "-n", "64", "--ignore-end", "--no-stream", "-m", "models/verse",
                "--threads", threads])[1:]


def train(qkv, threads, folder):
    path = os.path.join(folder, "book.txt")
    with open(path, "w") as f: f.writelines(words(40, i) + "\n\n" for i in range(600))
    with tempfile.TemporaryDirectory(dir=folder) as out:
        return run([qkv, "train", path, "--out", os.path.join(out, "run"), "--tokenizer", "bytes", "--width", "128",
                    "--layers", "2", "--context", "128", "--batch-tokens", "2048", "--steps", "40", "--eval-every",
                    "40", "--threads", threads])[1:]


PARTS = {"encoder": encoder, "decode": decode, "prompts": prompts, "train": train}


def compare(name, builds, rounds, threads):
    """Returns the median ratio of speed, and of memory."""
    seconds, memory = ([], []), ([], [])
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(rounds):
            for which in (0, 1) if round_ % 2 == 0 else (1, 0):
                s, m = PARTS[name](builds[which], threads, folder)
                seconds[which].append(s)
                memory[which].append(m)
    ratios = sorted(b / n for b, n in zip(*seconds))
    speed, space = statistics.median(ratios), statistics.median(memory[1]) / statistics.median(memory[0])
    print(f"{name:8} {statistics.median(seconds[0]):8.3f} s {statistics.median(seconds[1]):8.3f} s  speed {speed:.3f} "
          f"({ratios[0]:.3f} to {ratios[-1]:.3f})  memory {space:.3f}", flush=True)
    return speed >= SPEED and space <= MEMORY


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("base")
    a.add_argument("new")
    a.add_argument("part", nargs="*", help=" ".join(PARTS))
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--threads", default="1")
    a = a.parse_args()
    builds = [os.path.join(os.path.abspath(d), "bin/qkv") for d in (a.base, a.new)]
    good = True
    for name in a.part or PARTS:
        if name not in PARTS: sys.exit(f"no part {name}; there are: {' '.join(PARTS)}")
        if name == "encoder" and not os.path.exists(os.path.join(ROOT, "models/all-MiniLM-L6-v2/model.safetensors")):
            print("encoder: no models/all-MiniLM-L6-v2: skipped")
            continue
        good &= compare(name, builds, a.rounds, a.threads)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
