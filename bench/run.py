#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py: qkv beside other programs, on the same shapes, in the same minute, on the same core.

The release build is made, the rivals come from a Python environment of their own
(build/peers-venv, made once; QKV_PEERS_VENV names another), each comparison runs in a process of its own
pinned to its cores.  Ratios are what counts: absolute figures belong to one machine on one day.
ggml is measured when QKV_GGML_DIR names a checkout of it; it is built here, for this CPU.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
WORK = os.path.join(ROOT, "build/bench")
# torch first: its build for CPU fixes the versions of the others
PACKAGES = (["torch==2.13.0"], ["onnxruntime", "openvino", "transformers", "sentence-transformers",
                                "tokenizers", "onnx", "onnxscript", "bertviz", "ipython"])
PARTS = {  # name: (script and argument, threads)
    "attention": (["attention.py"], 1),
    "embed": (["embed.py"], 1),
    "embed-2": (["embed.py"], 2),
    "tokenizer": (["process.py", "tokenizer"], 1),
    "cold": (["process.py", "cold"], 1),
    "view": (["process.py", "view"], 1),
    "memory": (["process.py", "memory"], 2),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def python_of_rivals():
    """The interpreter of the environment with the rivals; made when it is not there."""
    venv = os.environ.get("QKV_PEERS_VENV") or os.path.join(ROOT, "build/peers-venv")
    python = os.path.join(venv, "bin/python")
    if os.path.exists(python):
        return python
    if os.environ.get("QKV_PEERS_VENV"):
        sys.exit(f"bench: QKV_PEERS_VENV: {venv} has no bin/python")
    say(f"bench: installing the rivals into {os.path.relpath(venv, ROOT)} (about 2 GB, once)")
    try:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        for packages in PACKAGES:
            subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check",
                            *packages], check=True)
    except subprocess.CalledProcessError as e:
        shutil.rmtree(venv, ignore_errors=True)
        sys.exit(f"bench: the rivals could not be installed ({' '.join(map(str, e.cmd[-4:]))}); "
                 "python3-venv and network are needed, or QKV_PEERS_VENV")
    return python


def ggml_library():
    """ggml's attention as a library, built here from the given sources; "" when none are given."""
    top = os.environ.get("QKV_GGML_DIR")
    if not top:
        say("bench: ggml is not measured (QKV_GGML_DIR names no checkout of it)")
        return ""
    build, out = os.path.join(WORK, "ggml"), os.path.join(WORK, "libggml_attention.so")
    say("bench: building ggml")
    try:
        for command in (["cmake", "-S", top, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
                         "-DBUILD_SHARED_LIBS=ON", "-DGGML_BUILD_TESTS=OFF", "-DGGML_BUILD_EXAMPLES=OFF"],
                        ["cmake", "--build", build, "--target", "ggml-cpu", "-j", "2"]):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        where = {f: folder for folder, _, files in os.walk(build) for f in files}
        libs = [os.path.join(where[f"lib{n}.so"], f"lib{n}.so") for n in ("ggml-cpu", "ggml-base")]
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{top}/include", "-o", out,
                        os.path.join(ROOT, "bench/peers/ggml_attention.c"), *libs, "-lm",
                        *[f"-Wl,-rpath,{os.path.dirname(x)}" for x in libs]], check=True)
    except (subprocess.CalledProcessError, KeyError) as e:
        say(f"bench: ggml is not measured: {e}")
        return ""
    return out


def cores(threads):
    """The last CPUs this process may use: the first ones serve interrupts."""
    allowed = sorted(os.sched_getaffinity(0))
    return ",".join(map(str, allowed[-threads:]))


def run_part(name, python, quick, ggml):
    """The records of one comparison; empty when it could not run."""
    command, threads = PARTS[name]
    if threads > len(os.sched_getaffinity(0)):
        say(f"bench: {name} wants {threads} cores: left out")
        return []
    environment = {**os.environ, "QKV_BENCH_THREADS": str(threads), "OMP_NUM_THREADS": str(threads),
                   "QKV_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
                   "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "ORT_LOGGING_LEVEL": "3", "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore",
                   "TRANSFORMERS_VERBOSITY": "error", "QKV_BENCH_WORK": WORK,
                   "QKV_BENCH_QUICK": "1" if quick else "0", "QKV_BENCH_GGML": ggml,
                   "QKV_BENCH_MODEL": os.path.join(ROOT, "models/all-MiniLM-L6-v2"),
                   "QKV_LIBRARY": os.path.join(ROOT, "build/release/libqkv.so"),
                   "QKV_COMMAND": os.path.join(ROOT, "build/release/bin/qkv")}
    script = os.path.join(ROOT, "bench/peers", command[0])
    say(f"bench: {name} on core {cores(threads)}")
    child = subprocess.run(["taskset", "-c", cores(threads), python, script, *command[1:]],
                           env=environment, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if child.returncode:
        say(f"bench: {name} failed (exit {child.returncode})")
    return [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]


def digits(x):
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def ratios(record, who):
    """How many times better qkv is than `who`: (best to best, median of the rounds' own ratios)."""
    a, b = record["who"]["qkv"], record["who"][who]
    if record["lower_is_better"]:
        a, b = b, a
    # in one round both met the same machine; only when they had unlike numbers of rounds, medians
    pairs = list(zip(a["rounds"], b["rounds"])) if len(a["rounds"]) == len(b["rounds"]) else \
        [(a["median"], b["median"])]
    return a["best"] / b["best"], statistics.median(x / y for x, y in pairs)


def table(records, markdown):
    """Lines of text, one a figure, sections apart."""
    head = ("", "unit", "cores", "qkv", "rival", "its figure", "ratio of bests", "median ratio")
    out, section = [], None
    for r in records:
        if r["section"] != section:
            section = r["section"]
            out.append(f"\n### {section}\n" if markdown else f"\n{section}")
            if markdown:
                out.append("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        rivals = [w for w in r["who"] if w != "qkv"] or [None]
        for w in rivals:
            ours = digits(r["who"]["qkv"]["best"]) if "qkv" in r["who"] else ""
            both = ratios(r, w) if w and ours else None
            cells = (r["row"], r["unit"], str(r["threads"]), ours, w or "",
                     digits(r["who"][w]["best"]) if w else "",
                     f"{both[0]:.2f}" if both else "", f"{both[1]:.2f}" if both else "")
            if markdown:
                out.append("| " + " | ".join(cells) + " |")
            else:
                out.append("  %-44s %-12s %2s %10s  %-26s %10s %7s %7s" % cells)
    return "\n".join(out)


def machine():
    name = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                 if line.startswith("model name")), platform.processor())
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True,
                            text=True).stdout.strip()
    return {"cpu": name, "cores": len(os.sched_getaffinity(0)), "commit": commit,
            "date": time.strftime("%Y-%m-%d", time.gmtime())}


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("part", nargs="*", help=f"of: {' '.join(PARTS)} (all)")
    a.add_argument("--quick", action="store_true", help="fewer shapes and rounds")
    a.add_argument("--markdown", action="store_true", help="tables as docs/performance.md has them")
    a.add_argument("--json", metavar="FILE", default=os.path.join(WORK, "results.json"))
    a = a.parse_args()
    for part in a.part:
        if part not in PARTS:
            sys.exit(f"bench: no part {part}; there are: {' '.join(PARTS)}")
    os.makedirs(WORK, exist_ok=True)
    subprocess.run([os.path.join(ROOT, "tools/build.sh"), "build/release"], check=True,
                   env={**os.environ, "TARGETS": "qkv qkv_cli bench_layout"})
    subprocess.run([os.path.join(ROOT, "tools/model.sh")], check=True)
    python, ggml = python_of_rivals(), ggml_library()
    records = [r for part in a.part or PARTS for r in run_part(part, python, a.quick, ggml)]
    here = machine()
    with open(a.json, "w") as f:
        json.dump({"machine": here, "quick": a.quick, "results": records}, f, indent=1)
    print(f"{here['cpu']}, {here['cores']} cores; commit {here['commit']}, {here['date']}"
          f"{'; quick: few rounds' if a.quick else ''}")
    print(table(records, a.markdown))
    beside = [ratios(r, w)[0] for r in records if "qkv" in r["who"] for w in r["who"] if w != "qkv"]
    if beside and not a.markdown:
        print(f"\n{len(beside)} comparisons; ratio above 1: qkv is better; "
              f"middle one {statistics.median(beside):.2f}")
    return 0 if records else 1


if __name__ == "__main__":
    sys.exit(main())
