# SPDX-License-Identifier: MIT
"""attention.py bf16|f32|packed: measures attention forward on the same arrays [B][H][N][E] in qkv, PyTorch SDPA, ONNX
Runtime and ggml.
"""
import ctypes
import os
import sys

import numpy as np
import torch

import qkv_ctypes as qkv
from common import QUICK, THREADS, note, row, same, turns

torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)
sdpa = torch.nn.functional.scaled_dot_product_attention
LONG = [(1, 8, 2048, 64), (1, 8, 2048, 128)]
SHORT = [(8, 12, 128, 64)]
# The largest accepted error against the formula in double, for inputs of deviation 1: outputs are below 4, rounding
# such a number to bf16 costs 2^-8 of it, and p and sums add less.
TOLERANCE = {"f32": 2e-5, "f32-strict": 2e-5, "f32-fast": 1e-3, "bf16": 4e-2}


def onnx_attention(q, k, v, causal):
    """Builds com.microsoft.MultiHeadAttention with inputs [B][N][H*E]; None if that fails."""
    try:
        import onnxruntime as ort
        from onnx import TensorProto, helper
    except ImportError:
        return None
    B, H, N, E = q.shape
    shape = [B, N, H * E]
    names = ("q", "k", "v")
    node = helper.make_node("MultiHeadAttention", names, ["y"], domain="com.microsoft", num_heads=H,
                            unidirectional=int(causal))
    tensor = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph([node], "attention", [tensor(n) for n in names], [tensor("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                    helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    try:
        session = ort.InferenceSession(model.SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
    except Exception as e:  # this version lacks the operator or the attribute
        note(f"  ONNX Runtime: {str(e).splitlines()[0][:90]}")
        return None
    feed = {n: np.ascontiguousarray(x.numpy().transpose(0, 2, 1, 3)).reshape(shape)
            for n, x in zip(names, (q, k, v))}
    return lambda: session.run(None, feed)[0].reshape(B, N, H, E).transpose(0, 2, 1, 3)


class Ggml:
    """Runs flash_attn_ext on q, k, v [1][H][N][E]; f16: keys and values are stored in f16."""
    path = os.environ.get("QKV_BENCH_GGML")

    def __init__(self, q, k, v, causal, f16):
        lib = self.lib = ctypes.CDLL(self.path)
        lib.ggml_attention_new.restype = ctypes.c_void_p
        lib.ggml_attention_new.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int] * 6
        lib.ggml_attention_out.restype = ctypes.POINTER(ctypes.c_float)
        for call in (lib.ggml_attention_run, lib.ggml_attention_out, lib.ggml_attention_free):
            call.argtypes = [ctypes.c_void_p]
        _, self.H, self.N, self.E = q.shape
        at = [x.float().contiguous() for x in (q, k, v)]
        self.handle = lib.ggml_attention_new(*[x.data_ptr() for x in at], self.N, self.E, self.H, THREADS,
                                             int(causal), int(f16))

    def __call__(self):
        self.lib.ggml_attention_run(self.handle)

    def out(self):
        x = np.ctypeslib.as_array(self.lib.ggml_attention_out(self.handle), (1, self.N, self.H, self.E))
        return x.transpose(0, 2, 1, 3)

    def close(self):
        self.lib.ggml_attention_free(self.handle)


def distance(out, exact):
    out = out if isinstance(out, torch.Tensor) else torch.from_numpy(np.array(out))
    return (out.double() - exact).abs().max().item()


def one(shape, causal, precisions, rounds):
    """Runs all programs on one shape and prints one row per precision."""
    B, H, N, E = shape
    name = f"B{B} H{H} N{N} E{E} {'causal' if causal else 'full'}"
    torch.manual_seed(1)
    real = [torch.randn(B, H, N, E) for _ in range(3)]
    if "bf16" in precisions:
        real = [x.bfloat16() for x in real]
    q, k, v = real
    exact = sdpa(*[x.double() for x in real], is_causal=causal)
    ours = {p: qkv.Forward(q, k, v, torch.empty_like(q), causal=causal, precision=p) for p in precisions}
    calls = {f"qkv {p}": f for p, f in ours.items()}
    peer = "PyTorch bf16" if "bf16" in precisions else "PyTorch f32"
    calls[peer] = lambda: sdpa(q, k, v, is_causal=causal)
    results = {who: None for who in calls}
    for p, f in ours.items():
        f()
        results[f"qkv {p}"] = distance(f.out, exact)
    results[peer] = distance(calls[peer](), exact)
    onnx = None if "bf16" in precisions else onnx_attention(q, k, v, causal)
    if onnx:
        calls["ONNX Runtime f32"] = onnx
        results["ONNX Runtime f32"] = distance(onnx(), exact)
    ggml = Ggml(q, k, v, causal, "bf16" in precisions) if Ggml.path and B == 1 and E == 64 else None
    if ggml:
        who = "ggml f16 KV" if "bf16" in precisions else "ggml f32 KV"
        calls[who] = ggml
        ggml()
        results[who] = distance(ggml.out(), exact)
    errors = same(name, calls, results, {f"qkv {p}": TOLERANCE[p] for p in precisions} | {"": TOLERANCE[precisions[0]]})
    arithmetic = {p: f.plan.arithmetic.decode() for p, f in ours.items()}
    seconds = turns(calls, rounds, probe=lambda: {a: qkv.peak(a) / 1e9 for a in set(arithmetic.values())}, limit=25)
    if ggml:
        ggml.close()
    for p in precisions:
        # FLOPs as all programs count them: half of the full square for causal attention
        flops = 4 * B * H * N * N * E * (0.5 if causal else 1)
        mine = {("qkv" if who == f"qkv {p}" else who): s for who, s in seconds.items()
                if who == f"qkv {p}" or not who.startswith("qkv")}
        mine[""] = [peaks[arithmetic[p]] for peaks in seconds[""]]
        row(f"attention forward, {p}", name, "GFLOP/s", flops / 1e9, mine, peak=arithmetic[p], isa=ours[p].plan.isa.decode(), core=seconds.core,
            error={("qkv" if who == f"qkv {p}" else who): e for who, e in errors.items()
                   if who == f"qkv {p}" or not who.startswith("qkv")})


def forward(precisions):
    rounds = 5 if QUICK else 15
    for shape in LONG[:1] + SHORT if QUICK else LONG + SHORT:
        for causal in (False, True):
            one(shape, causal, precisions if shape in LONG else precisions[:1], rounds)


def packed():
    """Measures 64 packed sequences of 20 to 54 tokens, 12 heads of 64, in bf16 and f32; PyTorch runs them one by one,
    or padded to the longest in one batch with a mask."""
    H, E, lengths = 12, 64, [20 + i * 7919 % 35 for i in range(64)]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    T, most = int(offsets[-1]), max(lengths)
    for precision in ("bf16", "f32"):
        torch.manual_seed(1)
        q, k, v = [torch.randn(1, T, H, E, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
                   for _ in range(3)]
        # the layout of the other programs: every sequence is an array [1][H][n][E]
        parts = [[x[:, a:b].transpose(1, 2).contiguous() for x in (q, k, v)]
                 for a, b in zip(offsets, offsets[1:])]
        mask = (torch.arange(most)[None] < torch.tensor(lengths)[:, None])[:, None, None]
        pad = [torch.zeros(64, H, most, E, dtype=q.dtype) for _ in range(3)]
        for i, part in enumerate(parts):
            for to, x in zip(pad, part):
                to[i, :, :lengths[i]] = x[0]
        ours = qkv.Forward(*[x.transpose(1, 2) for x in (q, k, v)], torch.empty_like(q).transpose(1, 2),
                           precision=precision, offsets=offsets)
        calls = {"qkv": ours, f"PyTorch {precision}, one by one": lambda: [sdpa(*p) for p in parts],
                 f"PyTorch {precision}, padded": lambda: sdpa(*pad, attn_mask=mask)}
        ours()
        exact = [sdpa(*[x.double() for x in p])[0] for p in parts]
        mine = [ours.out[0, :, a:b] for a, b in zip(offsets, offsets[1:])]
        names = list(calls)
        padded = calls[names[2]]()
        errors = same("packed", calls, {
            "qkv": max(distance(x, y) for x, y in zip(mine, exact)),
            names[1]: max(distance(x[0], y) for x, y in zip(calls[names[1]](), exact)),
            names[2]: max(distance(padded[i, :, :n], exact[i]) for i, n in enumerate(lengths)),
        }, TOLERANCE[precision])
        arithmetic = ours.plan.arithmetic.decode()
        seconds = turns(calls, 5 if QUICK else 15, probe=lambda: qkv.peak(arithmetic) / 1e9)
        row(f"attention forward, packed, {precision}", "64 sequences of 20-54 tokens, H12 E64", "GFLOP/s",
            sum(4 * H * n * n * E for n in lengths) / 1e9, seconds, peak=arithmetic,
            isa=ours.plan.isa.decode(), error=errors)


def main():
    note(f"  qkv {qkv.lib.qkv_version().decode()} {qkv.lib.qkv_isa().decode()}, torch {torch.__version__}")
    qkv.threads(THREADS)
    what = sys.argv[1]
    if what == "packed":
        packed()
    else:
        # without AMX the three kinds of f32 are one kernel
        forward(["bf16"] if what == "bf16" else ["f32", "f32-strict", "f32-fast"] if qkv.lib.qkv_isa() == b"amx" else ["f32"])


main()
