# SPDX-License-Identifier: MIT
"""python_package.py: measures the Python package: texts to vectors, a process to its first vector, attention in PyTorch,
and statistics of attention in a transformers model.
"""
import os
import sys
import time

import numpy as np
import torch

import qkv_ctypes
from common import MODEL, QUICK, THREADS, WORK, note, row, sentences, turns
from process import SENTENCE_HELLO, process

PACKAGE = os.path.join(os.path.dirname(os.environ["QKV_LIBRARY"]), "python")
sys.path.insert(0, PACKAGE)
import qkv  # noqa: E402
import qkv.torch  # noqa: E402
import qkv.transformers  # noqa: E402

torch.set_num_threads(THREADS)
HELLO = """
import sys, qkv
print(qkv.SentenceTransformer(sys.argv[1]).encode("hello")[:3])
"""


def onnxruntime_encode():
    """Returns a function from texts to vectors by the tokenizer of Hugging Face and ONNX Runtime: sorted by length, in
    batches of 32, as sentence-transformers does it; None without them."""
    try:
        from tokenizers import Tokenizer

        import embed
        path = os.path.join(WORK, "minilm.onnx")
        if not os.path.exists(path):
            embed.export(path)
        run, tokenizer = embed.with_onnxruntime(path), Tokenizer.from_file(os.path.join(MODEL, "tokenizer.json"))
    except Exception as e:  # an import, the export, the session
        return note(f"  ONNX Runtime is not measured: {e}")
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def encode(texts):
        ids = [e.ids for e in tokenizer.encode_batch(texts)]
        out = np.empty((len(texts), 384), np.float32)
        for place, x, mask in embed.batches(ids):
            out[place] = run(x, mask)
        return out
    return encode


def encode(rounds):
    """Measures `encode` of 1,000 sentences, from text to vector, in f32."""
    from sentence_transformers import SentenceTransformer
    texts = sentences(96 if QUICK else 1000)
    ours, theirs = qkv.SentenceTransformer(MODEL), SentenceTransformer(MODEL, device="cpu")
    a, b = torch.from_numpy(ours.encode(texts)), torch.from_numpy(theirs.encode(texts))
    cosine = torch.nn.functional.cosine_similarity(a, b).min().item()
    if cosine < 0.99999:
        raise SystemExit(f"encode differs from sentence-transformers: smallest cosine {cosine}")
    calls = {"qkv": lambda: ours.encode(texts), "sentence-transformers": lambda: theirs.encode(texts)}
    onnx = onnxruntime_encode()
    if onnx:
        away = np.abs(onnx(texts) - a.numpy()).max()
        if away > 1e-4:
            raise SystemExit(f"encode differs from ONNX Runtime by {away}")
        calls["ONNX Runtime, tokenizers"] = lambda: onnx(texts)
    seconds = turns(calls, rounds)
    row("Python, encode, MiniLM f32", f"{len(texts)} sentences", "sentences/s", len(texts), seconds,
        cosine=cosine)


def first_vector(rounds):
    """Measures a process of Python to the vector of "hello", with the files in the page cache."""
    path = {"PYTHONPATH": PACKAGE}
    who = {"qkv": ([sys.executable, "-c", HELLO, MODEL], path)}
    if not QUICK:
        who["sentence-transformers"] = ([sys.executable, "-c", SENTENCE_HELLO, MODEL], {})
    seconds = {name: [] for name in who}
    for n in range(rounds + 1):
        for name, (command, environment) in who.items():
            s, _ = process(command, **environment)
            if n:  # the first round reads the files
                seconds[name].append(s)
    seconds["limit"] = [0.25]
    row("Python, process to first vector", "hello", "ms", 1, seconds, limit="limit")


def in_torch(precision, causal, rounds):
    """Measures qkv.torch.scaled_dot_product_attention next to the C function and PyTorch's own."""
    B, H, N, E = 1, 8, 2048, 64
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    torch.manual_seed(1)
    q, k, v, dout = [torch.randn(B, H, N, E).to(kind) for _ in range(4)]
    forward = qkv_ctypes.Forward(q, k, v, torch.empty_like(q), causal=causal, precision=precision)
    backward = qkv_ctypes.Backward(forward, dout)

    def both(attention):
        leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
        return lambda: torch.autograd.grad(attention(*leaves, is_causal=causal), leaves, dout)
    out = torch.empty_like(q)
    mine, theirs = qkv.torch.scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention
    peer = f"PyTorch {precision}"
    flops = 2 * B * H * N * N * E * (0.5 if causal else 1) / 1e9
    name = f"B{B} H{H} N{N} E{E} {'causal' if causal else 'full'}"
    for what, products, calls in (
            ("forward", 2, {"qkv": lambda: mine(q, k, v, is_causal=causal), "qkv in C": forward,
                            "qkv.attention, out=": lambda: qkv.attention(q, k, v, layout="BHTE", causal=causal, out=out),
                            peer: lambda: theirs(q, k, v, is_causal=causal)}),
            ("forward and backward", 7, {"qkv": both(mine), "qkv in C": lambda: (backward.run_forward(), backward()),
                                         peer: both(theirs)})):
        row(f"Python, attention {what}, {precision}", name, "GFLOP/s", products * flops, turns(calls, rounds, limit=40),
            limit="qkv in C")


def observed(rounds):
    """Measures the statistics of attention of a GPT-2 of transformers, and compares it with the model's plain forward."""
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=384, n_head=6, vocab_size=8192)).eval()
    model.set_attn_implementation("qkv")
    ids = torch.randint(0, 8192, (1, 512))

    @torch.no_grad()
    def watched():
        with qkv.observe(model, top_k=16):
            model(ids)

    @torch.no_grad()
    def unwatched():
        model(ids)
    row("Python, observe, GPT-2 of 6 layers of 384", "top 16 of 512 tokens", "ms", 1,
        turns({"qkv": watched, "plain forward": unwatched}, rounds),
        limit="plain forward")


def main():
    rounds = 3 if QUICK else 11
    begin = time.perf_counter()
    qkv_ctypes.threads(THREADS)
    encode(3 if QUICK else 5)
    first_vector(3 if QUICK else 7)
    for precision in ("f32", "bf16"):
        for causal in (False, True):
            in_torch(precision, causal, rounds)
    observed(rounds)
    note(f"  {time.perf_counter() - begin:.0f} s")


main()
