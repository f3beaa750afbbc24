# SPDX-License-Identifier: MIT
"""qkv_ctypes.py: calls libqkv in this process by ctypes, so that it and its peers alternate within one second.

QKV_LIBRARY names the libqkv.so of a build tree.
"""
import ctypes as c
import os
import sys

lib = c.CDLL(os.environ["QKV_LIBRARY"])
i64, p = c.c_int64, c.c_void_p


# The structures and prototypes of the Python package: make_layout.py writes them from the headers of this build.
sys.path.insert(0, os.path.join(os.path.dirname(os.environ["QKV_LIBRARY"]), "python"))
from qkv import _layout  # noqa: E402
from qkv._layout import (Attention, AttentionPlan as Plan, CacheShape, DecoderOptions, DecoderTokens,  # noqa: E402, F401
                     EmbedderOptions, EmbedReport, Encoding, ModelOptions, PackedCall, Strides)

for name in _layout.FUNCTIONS:
    function = getattr(lib, name)
    function.restype, function.argtypes = _layout.prototype(name)


class Error(_layout.Error):
    def check(self, status):
        if status:
            line = c.create_string_buffer(2048)
            lib.qkv_error_line(line, 2048, c.byref(self))
            raise RuntimeError(line.value.decode())


def threads(n):
    if lib.qkv_threads_set(n):
        raise RuntimeError(f"{n} threads refused")


PRECISIONS = ("f32", "f32-strict", "f32-fast", "bf16", "f16", "int8")


def peak(arithmetic, seconds=0.01):
    """Returns the operations per second of the unit of this arithmetic, measured now."""
    return lib.qkv_measure_peak(arithmetic.encode(), seconds)


class Forward:
    """qkv_attention_forward on tensors [B][H][T][E] with any strides except in the last axis, prepared to be called.

    offsets: packed sequences (B = 1).  causal: the last query attends to the last key.
    """

    def __init__(self, q, k, v, out, causal=False, window=None, precision="f32", offsets=None):
        (B, H, T, E), (S, F) = q.shape, v.shape[2:]
        strides = lambda x: Strides(x.stride(0), x.stride(2), x.stride(1))
        self.a = Attention(B=B, T=T, S=S, H=H, G=k.shape[1], E=E, F=F, causal=causal, diagonal=1,
                           precision=PRECISIONS.index(precision), q_strides=strides(q),
                           k_strides=strides(k), v_strides=strides(v), out_strides=strides(out))
        if window:
            self.a.window.on, self.a.window.left, self.a.window.right = True, *window
        if offsets is not None:
            self.offsets = (i64 * len(offsets))(*map(int, offsets))
            self.a.sequences = len(offsets) - 1
            self.a.q_offsets = c.addressof(self.offsets)
        self.keep = (q, k, v)
        self.out = out
        self.plan = lib.qkv_attention_plan(c.byref(self.a))
        if self.plan.status:
            raise RuntimeError(self.plan.reason.decode())
        self.memory = c.create_string_buffer(self.plan.scratch + 64)
        self.scratch = (c.addressof(self.memory) + 63) // 64 * 64
        self.at = [x.data_ptr() for x in (q, k, v, out)]

    def __call__(self):
        q, k, v, out = self.at
        status = lib.qkv_attention_forward(out, None, None, q, k, v, c.byref(self.a), self.scratch)
        if status:
            raise RuntimeError(f"status {status}")


class Backward:
    """qkv_attention_backward of a Forward that has run; dout has the layout of its out."""

    def __init__(self, forward, dout):
        import torch
        self.forward, (q, k, v) = forward, forward.keep
        self.grads = [torch.empty_like(x) for x in (q, k, v)]
        self.lse = torch.empty(q.shape[0], q.shape[1], q.shape[2])
        self.plan = lib.qkv_attention_backward_plan(c.byref(forward.a), None)
        if self.plan.status:
            raise RuntimeError(self.plan.reason.decode())
        self.memory = c.create_string_buffer(self.plan.scratch + 64)
        self.scratch = (c.addressof(self.memory) + 63) // 64 * 64
        self.dout = dout
        self.at = [x.data_ptr() for x in self.grads] + [None] + \
            [x.data_ptr() for x in (dout, q, k, v, forward.out, self.lse)]
        self.run_forward()

    def run_forward(self):
        q, k, v, out = self.forward.at
        status = lib.qkv_attention_forward(out, self.lse.data_ptr(), None, q, k, v,
                                           c.byref(self.forward.a), self.forward.scratch)
        if status:
            raise RuntimeError(f"status {status}")

    def __call__(self):
        status = lib.qkv_attention_backward(*self.at, c.byref(self.forward.a), self.scratch)
        if status:
            raise RuntimeError(f"status {status}")


def read(buffer, size):
    """Returns the seconds of a plain read, in the number of streams that is fastest on this CPU."""
    return size / lib.qkv_measure_read(buffer, size)


class Decode:
    """Attention of the last T tokens, q [1][H][T][E], to a cache that contains k, v [1][G][S][E]."""

    def __init__(self, q, k, v, precision):
        (_, H, T, E), (_, G, S, F) = q.shape, v.shape
        self.error, self.cache = Error(), p()
        shape = CacheShape(B=1, G=G, E=E, F=F, precision=PRECISIONS.index(precision))
        self.error.check(lib.qkv_cache_new(c.byref(self.cache), c.byref(shape), c.byref(self.error)))
        strides = lambda x: c.byref(Strides(x.stride(0), x.stride(2), x.stride(1)))
        self.error.check(lib.qkv_cache_append(self.cache, -1, k.data_ptr(), v.data_ptr(), S, strides(k),
                                              strides(v), c.byref(self.error)))
        self.out = q.new_empty(q.shape[:3] + (F,))
        order = lambda x: Strides(x.stride(0), x.stride(2), x.stride(1))
        self.a = Attention(T=T, H=H, causal=True, q_strides=order(q), out_strides=order(self.out))
        self.plan = lib.qkv_cache_plan(self.cache, c.byref(self.a))
        if self.plan.status:
            raise RuntimeError(self.plan.reason.decode())
        self.memory = c.create_string_buffer(self.plan.scratch + 64)
        self.scratch = (c.addressof(self.memory) + 63) // 64 * 64
        self.q = q

    def __call__(self):
        status = lib.qkv_cache_forward(self.out.data_ptr(), None, None, self.q.data_ptr(), self.cache,
                                       c.byref(self.a), self.scratch)
        if status:
            raise RuntimeError(f"status {status}")

    def __del__(self):
        lib.qkv_cache_free(self.cache)


class Linear:
    """y = act(x w^T + b) with packed weights; x and y have the type that the precision stores, w and b are floats."""

    def __init__(self, R, K, N, precision, x=None, w=None, b=None, gelu=False):
        import torch
        kind = {"bf16": torch.bfloat16, "f16": torch.float16}.get(precision, torch.float32)
        self.x = torch.randn(R, K).to(kind) if x is None else x
        w = torch.randn(N, K) if w is None else w
        self.y, self.R, self.handle = torch.empty(R, N, dtype=kind), R, p()
        status = lib.qkv_packed_open(c.byref(self.handle), w.data_ptr(), b.data_ptr() if b is not None else None,
                                     K, N, PRECISIONS.index(precision))
        if status:
            raise RuntimeError(f"weights of {precision} are refused: {status}")
        info = lib.qkv_packed_info(self.handle)
        self.isa, self.arithmetic, self.bytes = info.isa.decode(), info.arithmetic.decode(), info.bytes
        stored = {torch.bfloat16: 3, torch.float16: 2, torch.float32: 0}[kind]
        self.how = PackedCall(x=stored, y=stored, act=2 if gelu else 0)

    def __call__(self):
        status = lib.qkv_packed_linear(self.y.data_ptr(), self.x.data_ptr(), self.R, self.handle,
                                       c.byref(self.how))
        if status:
            raise RuntimeError(f"status {status}")

    def __del__(self):
        lib.qkv_packed_close(self.handle)


class Embedder:
    """A model folder that computes vectors of texts."""

    def __init__(self, folder, precision="f32"):
        self.error, self.handle = Error(), p()
        options = EmbedderOptions(truncate=True)
        options.model.precision = PRECISIONS.index(precision)
        self.error.check(lib.qkv_embedder_open(c.byref(self.handle), folder.encode(),
                                               c.byref(options), c.byref(self.error)))
        self.width = lib.qkv_embedder_width(self.handle)
        self.tokens = 0

    def texts(self, texts):
        """Prepares the texts, so that only the call is timed."""
        raw = [t.encode() for t in texts]
        return (c.c_char_p * len(raw))(*raw), len(raw), (c.c_float * (len(raw) * self.width))()

    def run(self, ready):
        array, n, out = ready
        report = EmbedReport()
        self.error.check(lib.qkv_embed(self.handle, out, array, None, n, c.byref(report),
                                       c.byref(self.error)))
        self.tokens = report.tokens
        return out


class Tokenizer:
    def __init__(self, path):
        self.error, self.handle, self.encoding = Error(), p(), Encoding()
        self.error.check(lib.qkv_tokenizer_open(c.byref(self.handle), path.encode(),
                                                c.byref(self.error)))

    def count(self, line):
        """Returns the tokens of a line (bytes)."""
        self.error.check(lib.qkv_tokenizer_encode(self.handle, c.byref(self.encoding), line, len(line),
                                                  None, 0, None, c.byref(self.error)))
        return self.encoding.count
