# SPDX-License-Identifier: MIT
"""qkv_ctypes.py: calls libqkv in this process by ctypes, so that it and its rivals alternate within one second.

QKV_LIBRARY names the libqkv.so.  The structures repeat include/qkv/*.h; their sizes and member offsets are compared
with the output of bench_layout, which is built with the library.
"""
import ctypes as c
import os
import subprocess

lib = c.CDLL(os.environ["QKV_LIBRARY"])
i64, p = c.c_int64, c.c_void_p


class Strides(c.Structure):
    _fields_ = [("b", i64), ("t", i64), ("h", i64)]


class Window(c.Structure):
    _fields_ = [("on", c.c_bool), ("left", i64), ("right", i64)]


class Broadcast(c.Structure):
    _fields_ = [("at", p), ("b", i64), ("h", i64), ("t", i64)]


class Relative(c.Structure):
    _fields_ = [("at", p), ("reach", i64)]


class Dropout(c.Structure):
    _fields_ = [("p", c.c_float), ("seed", c.c_uint64), ("site", c.c_uint64)]


class Attention(c.Structure):
    _fields_ = [
        ("B", i64), ("T", i64), ("S", i64), ("H", i64), ("G", i64), ("E", i64), ("F", i64),
        ("precision", c.c_int), ("scale", c.c_float), ("softcap", c.c_float),
        ("causal", c.c_bool), ("diagonal", c.c_int), ("window", Window),
        ("k_lengths", p), ("sequences", i64), ("q_offsets", p), ("k_offsets", p),
        ("bias", Broadcast), ("mask", Broadcast), ("relative", Relative), ("alibi", p), ("sinks", p),
        ("dropout", Dropout),
        ("q_strides", Strides), ("k_strides", Strides), ("v_strides", Strides),
        ("out_strides", Strides), ("no_softmax", c.c_bool), ("native", c.c_bool), ("probe", p),
    ]


class Plan(c.Structure):
    _fields_ = [
        ("status", c.c_int), ("reason", c.c_char * 192), ("kernel", c.c_char_p), ("isa", c.c_char_p),
        ("arithmetic", c.c_char_p), ("scratch", c.c_size_t), ("scratch_thread", c.c_size_t), ("tile_rows", i64),
        ("tile_keys", i64), ("tiles", i64), ("visited", i64), ("skipped", i64), ("flops", c.c_double),
    ]


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("offset", i64), ("has_offset", c.c_bool),
                ("file", c.c_char * 512), ("path", c.c_char * 256), ("text", c.c_char * 768)]

    def check(self, status):
        if status:
            line = c.create_string_buffer(2048)
            raise RuntimeError(lib.qkv_error_line(line, 2048, c.byref(self)).decode())


class CacheShape(c.Structure):
    _fields_ = [("B", i64), ("G", i64), ("E", i64), ("F", i64), ("capacity", i64), ("precision", c.c_int),
                ("native", c.c_bool)]


class PackedInfo(c.Structure):
    _fields_ = [("K", i64), ("N", i64), ("precision", c.c_int), ("isa", c.c_char_p),
                ("arithmetic", c.c_char_p), ("bytes", c.c_size_t)]


class PackedCall(c.Structure):
    _fields_ = [("x", c.c_int), ("y", c.c_int), ("x_stride", i64), ("y_stride", i64), ("scale", c.c_float),
                ("act", c.c_int), ("residual", p), ("residual_stride", i64)]


class ModelOptions(c.Structure):
    _fields_ = [("precision", c.c_int), ("no_mmap", c.c_bool), ("ablate", p), ("ablations", i64)]


class DecoderOptions(c.Structure):
    _fields_ = [("items", i64), ("capacity", i64), ("cache", c.c_int), ("chunk", i64)]


class DecoderTokens(c.Structure):
    _fields_ = [("n", i64), ("items", p), ("offsets", p), ("ids", p), ("every", c.c_bool)]


class EmbedReport(c.Structure):
    _fields_ = [("tokens", i64), ("cut_texts", i64), ("cut_tokens", i64), ("replaced", i64),
                ("replaced_text", i64), ("replaced_at", i64)]


class Progress(c.Structure):
    _fields_ = [("step", p), ("user", p)]


class EmbedderOptions(c.Structure):
    _fields_ = [("precision", c.c_int), ("no_mmap", c.c_bool), ("ablate", p), ("ablations", i64),
                ("pool", c.c_int),
                ("no_normalize", c.c_bool), ("batch_tokens", i64), ("max_length", i64),
                ("truncate", c.c_bool), ("pad", c.c_bool), ("no_tokenizer", c.c_bool),
                ("strict", c.c_bool), ("no_special", c.c_bool), ("progress", Progress)]


class Encoding(c.Structure):
    _fields_ = [("count", i64), ("ids", c.POINTER(c.c_int32)), ("types", p), ("begin", p), ("end", p),
                ("text", p), ("attend", p), ("cut", i64), ("replaced", i64), ("replaced_at", i64),
                ("capacity", i64)]


def check_layout():
    program = os.path.join(os.path.dirname(os.environ["QKV_LIBRARY"]), "bench", "bench_layout")
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split("\n")
    for line in filter(None, lines):
        name, there = line.split()
        kind, _, member = name.partition(".")
        here = getattr(globals()[kind], member).offset if member else c.sizeof(globals()[kind])
        if here != int(there):
            raise SystemExit(f"{__file__}: {name} is {here}, libqkv's {there}")


check_layout()
lib.qkv_version.restype = c.c_char_p
lib.qkv_isa.restype = c.c_char_p
lib.qkv_error_line.restype = c.c_char_p
lib.qkv_attention_plan.restype = Plan
lib.qkv_attention_forward.argtypes = [p] * 6 + [c.POINTER(Attention), p]
lib.qkv_attention_backward_plan.argtypes = [c.POINTER(Attention), p]
lib.qkv_attention_backward_plan.restype = Plan
lib.qkv_attention_backward.argtypes = [p] * 10 + [c.POINTER(Attention), p]
lib.qkv_embedder_width.restype = i64
lib.qkv_embedder_width.argtypes = [p]
lib.qkv_embed.argtypes = [p, p, p, p, i64, p, p]
lib.qkv_embedder_close.argtypes = [p]
lib.qkv_measure_peak.restype = lib.qkv_measure_read.restype = c.c_double
lib.qkv_measure_peak.argtypes = [c.c_char_p, c.c_double]
lib.qkv_measure_read.argtypes = [p, c.c_size_t]
lib.qkv_packed_open.argtypes = [p, p, p, i64, i64, c.c_int]
lib.qkv_packed_close.argtypes = [p]
lib.qkv_packed_info.argtypes, lib.qkv_packed_info.restype = [p], PackedInfo
lib.qkv_packed_linear.argtypes = [p, p, i64, p, p]
lib.qkv_cache_append.argtypes = [p, i64, p, p, i64, p, p, p]
lib.qkv_cache_plan.argtypes, lib.qkv_cache_plan.restype = [p, p], Plan
lib.qkv_cache_forward.argtypes = [p, p, p, p, p, p, p]
lib.qkv_cache_free.argtypes = [p]
lib.qkv_tokenizer_encode.argtypes = [p, p, c.c_char_p, c.c_size_t, p, c.c_size_t, p, p]


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
            self.a.window = Window(True, *window)
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
    lib.qkv_measure_read(buffer, size)


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
        options = EmbedderOptions(truncate=True, precision=PRECISIONS.index(precision))
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
