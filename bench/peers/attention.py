# SPDX-License-Identifier: MIT
"""Attention forward in f32 on the same arrays [B][H][N][D]: qkv, PyTorch SDPA, ONNX Runtime, ggml."""
import ctypes
import os

import numpy as np
import torch

import qkv_ctypes as qkv
from common import QUICK, THREADS, note, row, turns

torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)
SHAPES = [  # B, H, N, D, causal
    (1, 8, 2048, 64, False), (1, 8, 2048, 64, True), (1, 8, 2048, 128, False), (1, 8, 2048, 128, True),
    (8, 12, 128, 64, False), (8, 12, 128, 64, True), (1, 8, 512, 64, False), (1, 8, 512, 64, True),
]


def onnx_attention(B, H, N, D, causal):
    """com.microsoft.MultiHeadAttention, its inputs [B][N][H*D]; None where it cannot be built."""
    try:
        import onnxruntime as ort
        from onnx import TensorProto, helper
    except ImportError:
        return None
    shape = [B, N, H * D]
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
    except Exception as e:  # a version without this operator or this attribute
        note(f"  ONNX Runtime: {str(e).splitlines()[0][:90]}")
        return None

    def ready(q, k, v):
        feed = {n: np.ascontiguousarray(x.numpy().transpose(0, 2, 1, 3)).reshape(shape)
                for n, x in zip(names, (q, k, v))}
        return lambda: session.run(None, feed)[0]
    return ready


def ggml_library():
    path = os.environ.get("QKV_BENCH_GGML")
    if not path:
        return None
    lib = ctypes.CDLL(path)
    lib.ggml_attention_new.restype = ctypes.c_void_p
    lib.ggml_attention_run.argtypes = [ctypes.c_void_p]
    lib.ggml_attention_free.argtypes = [ctypes.c_void_p]
    return lib


def main():
    note(f"  qkv {qkv.lib.qkv_version().decode()} {qkv.lib.qkv_isa().decode()}, torch {torch.__version__}")
    qkv.threads(THREADS)
    ggml = ggml_library()
    rounds = 5 if QUICK else 15
    for B, H, N, D, causal in SHAPES[:2] + SHAPES[5:] if QUICK else SHAPES:
        torch.manual_seed(1)
        q, k, v = [torch.randn(B, H, N, D) for _ in range(3)]
        out = torch.empty_like(q)
        ours = qkv.Forward(q, k, v, out, causal)
        sdpa = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        ours()
        away = (out - sdpa()).abs().max().item()
        if not away < 1e-4:
            raise SystemExit(f"qkv and PyTorch differ by {away} on B{B} H{H} N{N} D{D}")
        calls = {"qkv": ours, "PyTorch SDPA": sdpa}
        ort = onnx_attention(B, H, N, D, causal)
        if ort:
            calls["ONNX Runtime MHA"] = run = ort(q, k, v)
            away = np.abs(run().reshape(B, N, H, D).transpose(0, 2, 1, 3) - out.numpy()).max()
            if not away < 1e-3:
                note(f"  ONNX Runtime computes something else here (differs by {away:.2g}): left out")
                del calls["ONNX Runtime MHA"]
        handle = None
        if ggml and B == 1:
            handle = ggml.ggml_attention_new(N, D, H, THREADS, int(causal))
            calls["ggml f32 KV"] = lambda: ggml.ggml_attention_run(handle)
        flops = 4 * B * H * N * N * D * (0.5 if causal else 1)
        row("attention forward, f32", f"B{B} H{H} N{N} D{D} {'causal' if causal else 'full'}", "GFLOP/s",
            flops / 1e9, turns(calls, rounds))
        if handle:
            ggml.ggml_attention_free(handle)


main()
