#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py: compares qkv with other programs on the same shapes, at the same time, on the same core.

The release build is made, and the other programs are installed in their own Python environment (build/peers-venv, made once;
QKV_PEERS_VENV names another).  Each comparison runs in its own process, pinned to its cores.  Only ratios are
comparable: absolute figures belong to one machine on one day.
ggml is measured if QKV_GGML_DIR names its checkout; it is built here, for this CPU.  llama2.c is measured if
QKV_LLAMA2C names its `run` program, llama.cpp if the environment has llama-cpp-python (QKV_LLAMA=1 installs it in a
new environment, which takes a while to compile).  Results of each part are stored in docs/performance/CPU.json until
that part runs again on this kind of CPU, and the pages of docs are written from them; --quick prints only.
"""
import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time

import goals
import pages
import report

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
DOCS = os.path.join(ROOT, "docs")
WORK = os.path.join(ROOT, "build/bench")
# (vendor, family, models): names of CPUs whose results are kept; others are named by these numbers.
CPUS = {"zen2": ("AMD Zen 2", "AuthenticAMD", 23, range(0x30, 0x100)),
        "zen3": ("AMD Zen 3", "AuthenticAMD", 25, (*range(0x10), *range(0x20, 0x60))),
        "zen4": ("AMD Zen 4", "AuthenticAMD", 25, (*range(0x10, 0x20), *range(0x60, 0xb0))),
        "zen5": ("AMD Zen 5", "AuthenticAMD", 26, range(0x100)),
        "skylake-server": ("Intel Skylake and Cascade Lake, server", "GenuineIntel", 6, (0x55,)),
        "ice-lake-server": ("Intel Ice Lake, server", "GenuineIntel", 6, (0x6a, 0x6c)),
        "sapphire-rapids": ("Intel Sapphire Rapids", "GenuineIntel", 6, (0x8f,)),
        "emerald-rapids": ("Intel Emerald Rapids", "GenuineIntel", 6, (0xcf,)),
        "granite-rapids": ("Intel Granite Rapids", "GenuineIntel", 6, (0xad, 0xae))}
# torch first: its CPU build fixes the versions of the others
PACKAGES = (["torch==2.13.0"], ["onnxruntime", "openvino", "transformers", "sentence-transformers",
                                "tokenizers", "onnx", "onnxscript", "bertviz", "ipython", "gguf",
                                "ctranslate2", "kjarni", "deprecated", "faiss-cpu"], ["--no-deps", "zentorch==2.13.0.2"],
            *([["llama-cpp-python"]] if os.environ.get("QKV_LLAMA") == "1" else []))
PARTS = {  # name: (script and argument, threads)
    "attention-bf16": (["attention.py", "bf16"], 1),
    "attention-f32": (["attention.py", "f32"], 1),
    "attention-backward": (["attention_backward.py"], 1),
    "packed": (["attention.py", "packed"], 1),
    "decode": (["decode.py"], 1),
    "linear": (["linear.py"], 1),
    "linear-few": (["linear_few.py"], 1),
    "linear-few-2": (["linear_few.py"], 2),
    "embed-bf16": (["embed.py", "bf16"], 1),
    "embed-f32": (["embed.py", "f32"], 1),
    "embed-f32-2": (["embed.py", "f32"], 2),
    "scaling": (["scaling.py"], 2),
    "million": (["growth.py", "million"], 1),
    "growth": (["growth.py", "growth"], 1),
    "train-baby": (["train.py", "baby"], 1),
    "train-baby-2": (["train.py", "baby"], 2),
    "train-gpt2": (["train.py", "gpt2"], 1),
    "train-gpt2-2": (["train.py", "gpt2"], 2),
    "decoders-gpt2": (["decoders.py", "gpt2"], 1),
    "decoders-llama": (["decoders.py", "llama"], 1),
    "decoders-gpt2-4096": (["decoders.py", "gpt2", "4096"], 1),
    "decoders-llama-4096": (["decoders.py", "llama", "4096"], 1),
    "decoders-llama2c": (["decoders.py", "llama2c"], 1),
    "tokenizer": (["process.py", "tokenizer"], 1),
    "cold": (["process.py", "cold"], 1),
    "view": (["process.py", "view"], 1),
    "python": (["python_package.py"], 1),
    "python-torch": (["python_torch.py"], 2),
    "search": (["search.py"], 1),
    "server": (["server.py"], 1),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def python_of_peers():
    """Returns the Python interpreter of the environment with the other programs, which is made if missing."""
    venv = os.environ.get("QKV_PEERS_VENV") or os.path.join(ROOT, "build/peers-venv")
    python = os.path.join(venv, "bin/python")
    if os.path.exists(python):
        return python
    if os.environ.get("QKV_PEERS_VENV"):
        sys.exit(f"bench: QKV_PEERS_VENV: {venv} has no bin/python")
    say(f"bench: installing the other programs into {os.path.relpath(venv, ROOT)} (about 2 GB, once)")
    try:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        for packages in PACKAGES:
            subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check",
                            *packages], check=True)
    except subprocess.CalledProcessError as e:
        shutil.rmtree(venv, ignore_errors=True)
        sys.exit(f"bench: the other programs could not be installed ({' '.join(map(str, e.cmd[-4:]))}); "
                 "python3-venv and network are needed, or QKV_PEERS_VENV")
    return python


def ggml_library():
    """Builds ggml's attention as a library from the given sources; returns "" if none are given."""
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
    """Returns the last CPUs this process may use, because the first ones serve interrupts."""
    allowed = sorted(os.sched_getaffinity(0))
    return ",".join(map(str, allowed[-threads:]))


def run_part(name, python, quick, ggml, build):
    """Returns the records of one comparison; None if it could not run."""
    command, threads = PARTS[name]
    if threads > len(os.sched_getaffinity(0)):
        say(f"bench: {name} wants {threads} cores: left out")
        return None
    environment = {**os.environ, "QKV_BENCH_THREADS": str(threads), "OMP_NUM_THREADS": str(threads),
                   "QKV_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
                   "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "ORT_LOGGING_LEVEL": "3",
                   "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore",
                   "TRANSFORMERS_VERBOSITY": "error", "QKV_BENCH_WORK": WORK,
                   "QKV_BENCH_QUICK": "1" if quick else "0", "QKV_BENCH_GGML": ggml,
                   "QKV_BENCH_MODEL": os.path.join(ROOT, "models/all-MiniLM-L6-v2"),
                   "QKV_LIBRARY": os.path.join(build, "libqkv.so"),
                   "QKV_COMMAND": os.path.join(build, "bin/qkv")}
    script = os.path.join(ROOT, "bench/peers", command[0])
    say(f"bench: {name} on core {cores(threads)}")
    begin = time.monotonic()
    child = subprocess.run(["taskset", "-c", cores(threads), python, script, *command[1:]],
                           env=environment, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    say(f"bench: {name} took {time.monotonic() - begin:.0f} s")
    if child.returncode:
        return say(f"bench: {name} failed (exit {child.returncode})")
    return [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")] or None


def machine():
    name = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                 if line.startswith("model name")), platform.processor())
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()
    changed = git("status", "--porcelain", "--", "src", "include", "cli", "cmake", "CMakeLists.txt", "bench", "python")
    commit = git("rev-parse", "--short=8", "HEAD") + ("-dirty" if changed else "")
    return {"cpu": name, "cores": len(os.sched_getaffinity(0)), "commit": commit,
            "date": time.strftime("%Y-%m-%d", time.gmtime())}


def kind_of_cpu():
    """Returns (key, name) of this kind of CPU."""
    found = {}
    with open("/proc/cpuinfo") as f:
        for line in f:
            key, _, value = line.partition(":")
            found.setdefault(key.strip(), value.strip())
    vendor, family, model = found.get("vendor_id", platform.machine()), found.get("cpu family"), found.get("model")
    for key, (name, who, of, models) in CPUS.items():
        if (vendor, family) == (who, str(of)) and int(model) in models:
            return key, name
    if "amx_tile" in found.get("flags", "") and model == "167":  # as some hypervisors number it
        return "sapphire-rapids", CPUS["sapphire-rapids"][0]
    words = [x for x in (vendor, family and f"family {family}", model and f"model {model}") if x]
    return "-".join(words).lower().replace(" ", "-"), ", ".join(words)


def load(path):
    """Returns the results of earlier runs, in the order of PARTS."""
    try:
        with open(path) as f:
            kept = json.load(f)["parts"]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError) as e:
        sys.exit(f"bench: {path}: no results of this program ({e})")
    return {name: kept[name] for name in PARTS if name in kept}


def store(path, name, parts):
    """Writes the results: one record per line."""
    rows = [f' {json.dumps(part)}: {{"machine": {json.dumps(p["machine"])}, "quick": {json.dumps(p["quick"])}, "records": [\n  ' +
            ",\n  ".join(json.dumps(r) for r in p["records"]) + "]}" for part, p in parts.items()]
    with open(path + ".new", "w") as f:
        f.write(f'{{"name": {json.dumps(name)}, "parts": {{\n' + ",\n".join(rows) + "\n}}\n")
    os.replace(path + ".new", path)


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("part", nargs="*", help=f"of: {' '.join(PARTS)} (all)")
    a.add_argument("--quick", action="store_true", help="fewer shapes and rounds")
    a.add_argument("--doc", action="store_true", help="keep quick results too, and write the pages")
    a.add_argument("--show", action="store_true", help="run nothing: print what is kept; with --doc, write the pages")
    a.add_argument("--build", metavar="DIR", help="measure this build as it is (default: build/release, made)")
    a = a.parse_args()
    for part in a.part:
        if part not in PARTS:
            sys.exit(f"bench: no part {part}; there are: {' '.join(PARTS)}")
    os.makedirs(WORK, exist_ok=True)
    key, cpu = kind_of_cpu()
    kept = os.path.join(DOCS, f"performance/{key}.json")
    parts, ran = load(kept), a.part or list(PARTS)
    if not a.show:
        build = os.path.abspath(a.build or os.path.join(ROOT, "build/release"))
        if not a.build:
            subprocess.run([os.path.join(ROOT, "tools/build.sh"), "build/release"], check=True,
                           env={**os.environ, "TARGETS": "qkv qkv_cli qkv_python bench_generate"})
        subprocess.run([os.path.join(ROOT, "tools/model.sh")], check=True)
        python, ggml = python_of_peers(), ggml_library()
        for name in ran:
            records = run_part(name, python, a.quick, ggml, build)
            if records:
                parts[name] = {"machine": machine(), "quick": a.quick, "records": records}
            elif name in parts:
                say(f"bench: {name}: the page keeps the results of {parts[name]['machine']['date']}")
            if a.doc or not a.quick:
                store(kept, cpu, {n: parts[n] for n in PARTS if n in parts})
    shown = {name: parts[name] for name in PARTS if name in parts and name in ran}
    for name, part in shown.items():
        print(f"{name}: {report.where(part)}")
    if shown:
        print(report.text(shown))
    if a.doc or not (a.quick or a.show):
        pages.write(DOCS, goals.TOP)
    return 0 if shown or a.doc else "bench: no results"


if __name__ == "__main__":
    sys.exit(main())
