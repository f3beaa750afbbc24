# SPDX-License-Identifier: MIT
"""train.py baby|gpt2: measures training steps of a decoder as whole processes.

baby: 6 layers of 6 heads on 384, bytes, 16 sequences of 256; gpt2: 12 layers of 12 heads on 768, 50,257 tokens, 4
sequences of 256.  PyTorch's modules of the same shapes with AdamW (fused), in f32 and with bf16 autocast, eager and
compiled; qkv train in f32 and bf16.  A round starts each process again; a step is timed from one to the next, without
the first ones.  Memory is the peak of the whole process; activations are the additional memory of twice the batch.
"""
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

import qkv_ctypes as qkv
from common import QUICK, THREADS, WORK, note, plain, row

QKV = os.environ["QKV_COMMAND"]
SHAPES = {"baby": dict(L=6, H=6, D=384, V=256, B=16, N=256, steps=6),
          "gpt2": dict(L=12, H=12, D=768, V=50257, B=4, N=256, steps=4)}

TORCH = """
import json, resource, sys, time, warnings
warnings.filterwarnings("ignore")
import torch, torch.nn as nn, torch.nn.functional as F
shape, mode, threads = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
torch.set_num_threads(threads)
L, H, D, V, B, N = [shape[k] for k in "LHDVBN"]
class Block(nn.Module):
    def __init__(s):
        super().__init__()
        s.l1, s.l2 = nn.LayerNorm(D), nn.LayerNorm(D)
        s.qkv, s.o, s.f, s.p = nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
    def forward(s, x):
        b, n, _ = x.shape
        q, k, v = s.qkv(s.l1(x)).view(b, n, 3, H, D // H).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + s.o(a.transpose(1, 2).reshape(b, n, D))
        return x + s.p(F.gelu(s.f(s.l2(x)), approximate="tanh"))
class Model(nn.Module):
    def __init__(s):
        super().__init__()
        s.e, s.pe, s.b = nn.Embedding(V, D), nn.Embedding(N, D), nn.ModuleList(Block() for _ in range(L))
        s.ln, s.h = nn.LayerNorm(D), nn.Linear(D, V, bias=False)
        s.h.weight = s.e.weight
    def forward(s, x, y):
        h = s.e(x) + s.pe.weight
        for b in s.b: h = b(h)
        return F.cross_entropy(s.h(s.ln(h)).view(-1, V).float(), y.view(-1))
torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
f = torch.compile(model) if "compiled" in mode else model
x, y = torch.randint(0, V, (B, N)), torch.randint(0, V, (B, N))
seconds = []
for i in range(shape["steps"]):
    begin = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in mode): loss = f(x, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    seconds.append(time.perf_counter() - begin)
print(json.dumps({"seconds": seconds[1:], "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def prepare(name, shape):
    """Returns (text, tokenizer) with as many different tokens as the shape has; made once."""
    folder = os.path.join(WORK, f"train-{name}")
    os.makedirs(folder, exist_ok=True)
    text, draw = os.path.join(folder, "text.txt"), random.Random(1)
    if shape["V"] == 256:
        if not os.path.exists(text):
            with open(text, "w") as f:
                f.write("".join(draw.choice("abcdefghijklmnop ") for _ in range(1 << 20)))
        return text, "bytes"
    tokenizer = os.path.join(folder, "tokenizer.json")
    with open(tokenizer, "w") as f:
        vocab = {"<|endoftext|>": 0, **{f"w{i}": i for i in range(1, shape["V"])}}
        json.dump({"version": "1.0", "truncation": None, "padding": None, "normalizer": None,
                   "added_tokens": [{"id": 0, "content": "<|endoftext|>", "single_word": False, "lstrip": False,
                                     "rstrip": False, "normalized": False, "special": True}],
                   "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
                   "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<|endoftext|>"}}, f)
    if not os.path.exists(text):
        with open(text, "w") as f:
            f.write(" ".join(f"w{draw.randrange(1, shape['V'])}" for _ in range(1 << 17)))
    return text, tokenizer


def peak_mb(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM"))


def run_qkv(shape, mode, text, tokenizer):
    """Follows the log of a run and ends the run after so many steps."""
    out = os.path.join(WORK, "train-run")
    shutil.rmtree(out, ignore_errors=True)
    command = [QKV, "train", text, "--out", out, "--arch", "gpt", "--layers", shape["L"], "--heads", shape["H"],
               "--width", shape["D"], "--context", shape["N"], "--tokenizer", tokenizer, "--batch-tokens",
               shape["B"] * shape["N"], "--dropout", 0, "--steps", 100000, "--eval-every", 100000, "--save-every",
               100000, "--rate", "1e-4", "--precision", mode, "--threads", THREADS]
    child = subprocess.Popen([str(x) for x in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    log, seen, times, limit = os.path.join(out, "log.jsonl"), 0, [], time.monotonic() + 600
    while len(times) < shape["steps"] + 1 and child.poll() is None and time.monotonic() < limit:
        if os.path.exists(log) and os.path.getsize(log) > seen:
            now = time.perf_counter()
            with open(log) as f:
                lines = f.read().count("\n")
            seen = os.path.getsize(log)
            times += [now] * (lines - len(times))
        time.sleep(0.002)
    if child.poll() is not None:
        raise RuntimeError("qkv train: " + child.stderr.read().decode()[-300:])
    mb = peak_mb(child.pid)
    child.send_signal(signal.SIGKILL)
    child.wait()
    shutil.rmtree(out, ignore_errors=True)
    return [b - a for a, b in zip(times[1:], times[2:])], mb


def run_torch(shape, mode, limit):
    """limit: seconds after which the process is ended, as where the CPU has no instructions for bf16."""
    try:
        child = subprocess.run([sys.executable, "-c", TORCH, json.dumps(shape), mode, str(THREADS)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"takes more than {limit:.0f} s") from None
    if child.returncode:
        raise RuntimeError(child.stderr[-300:])
    answer = json.loads(child.stdout.splitlines()[-1])
    return answer["seconds"], answer["mb"]


def flops(shape):
    """Returns the operations of a token, forward and backward: three products of each weight, and causal attention."""
    L, D, V, N = (shape[k] for k in "LDVN")
    return 6 * (12 * L * D * D + V * D) + 7 * L * N * D


def measure(name):
    shape = SHAPES[name]
    text, tokenizer = prepare(name, shape)
    runs = {"qkv": lambda s: run_qkv(s, "bf16", text, tokenizer),
            "qkv f32": lambda s: run_qkv(s, "f32", text, tokenizer),
            "PyTorch f32": lambda s: run_torch(s, "f32", limit()),
            "PyTorch bf16": lambda s: run_torch(s, "bf16", limit()),
            "PyTorch compiled bf16": lambda s: run_torch(s, "compiled bf16", limit()),
            "PyTorch compiled f32": lambda s: run_torch(s, "compiled f32", limit())}
    longest = 0  # seconds of a run of qkv, which run first
    limit = lambda: 60 + 4 * longest
    if QUICK:
        runs = {k: v for k, v in runs.items() if "compiled" not in k}
    seconds, memory = {}, {}
    kernels = {bits: qkv.Linear(1, 384, 384, bits) for bits in ("bf16", "f32")}
    peaks = {bits: [] for bits in kernels}  # tokens per second at the peak of all threads, round by round
    for turn in range(1 if QUICK else 3):
        for who, run in list(runs.items()):
            begin = time.perf_counter()
            try:
                took, mb = run(shape)
            except (RuntimeError, OSError) as e:
                note(f"  {who} is not measured: {e}")
                del runs[who]
                continue
            if who.startswith("qkv"):
                longest = max(longest, time.perf_counter() - begin)
            seconds.setdefault(who, []).append(statistics.median(took))
            memory[who] = min(memory.get(who, mb), mb)
        for bits, kernel in kernels.items():
            peaks[bits].append(qkv.peak(kernel.arithmetic, 0.1) / flops(shape))
    tokens, section = shape["B"] * shape["N"], f"training, {name}: {shape['L']} x {shape['D']}"
    f32 = {("qkv" if k == "qkv f32" else k): v for k, v in seconds.items() if "f32" in k}
    bf16 = {k: v for k, v in seconds.items() if k == "qkv" or "bf16" in k}
    for bits, steps in (("bf16", bf16), ("f32", f32)):
        if "qkv" in steps:
            kernel, steps[""] = kernels[bits], peaks[bits]
            row(section, f"a step, {bits}", "tokens/s", tokens, steps, peak=kernel.arithmetic, isa=kernel.isa)
    for kind, ours in (("bf16", "qkv"), ("f32", "qkv f32")):
        theirs = {k: v for k, v in memory.items() if k == ours or (k.startswith("PyTorch") and kind in k)}
        theirs["qkv"] = theirs.pop(ours, None) if ours in theirs else None
        if theirs["qkv"]:
            plain(section, f"whole process at its peak, {kind}", "MiB", theirs)
    double = {**shape, "B": 2 * shape["B"], "steps": 2}
    more = {}
    for who, peer in (("qkv", "PyTorch bf16"), ("qkv f32", "PyTorch f32")):
        try:
            pair = {k: runs[k](double)[1] - memory[k] for k in (who, peer) if k in runs}
        except (RuntimeError, OSError) as e:
            note(f"  activations are not measured: {e}")
            continue
        if len(pair) == 2:
            more[peer] = {"qkv": pair[who], peer: pair[peer]}
    for peer, pair in more.items():
        plain(section, f"activations of {tokens} tokens, {peer.split()[1]}", "MiB", pair)


if __name__ == "__main__":
    measure(sys.argv[1])
