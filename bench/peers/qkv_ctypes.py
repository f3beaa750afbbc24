# SPDX-License-Identifier: MIT
"""libqkv in this process, over ctypes: so that it and its rivals take turns within one second.

QKV_LIBRARY names the libqkv.so.  Structures repeat include/qkv/*.h; their sizes are compared with those
that bench_layout, built beside the library, prints.
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


class Attention(c.Structure):
    _fields_ = [
        ("B", i64), ("T", i64), ("S", i64), ("H", i64), ("G", i64), ("E", i64), ("F", i64),
        ("precision", c.c_int), ("scale", c.c_float), ("softcap", c.c_float),
        ("causal", c.c_bool), ("diagonal", c.c_int), ("window", Window),
        ("k_lengths", p), ("sequences", i64), ("q_offsets", p), ("k_offsets", p),
        ("bias", Broadcast), ("mask", Broadcast), ("alibi", p), ("sinks", p),
        ("q_strides", Strides), ("k_strides", Strides), ("v_strides", Strides),
        ("out_strides", Strides), ("no_softmax", c.c_bool),
    ]


class Plan(c.Structure):
    _fields_ = [
        ("status", c.c_int), ("reason", c.c_char * 192), ("kernel", c.c_char_p), ("isa", c.c_char_p),
        ("scratch", c.c_size_t), ("scratch_thread", c.c_size_t), ("tile_rows", i64),
        ("tile_keys", i64), ("tiles", i64), ("visited", i64), ("skipped", i64), ("flops", c.c_double),
    ]


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("offset", i64), ("has_offset", c.c_bool),
                ("file", c.c_char * 512), ("path", c.c_char * 256), ("text", c.c_char * 768)]

    def check(self, status):
        if status:
            line = c.create_string_buffer(2048)
            raise RuntimeError(lib.qkv_error_line(line, 2048, c.byref(self)).decode())


class EmbedReport(c.Structure):
    _fields_ = [("tokens", i64), ("cut_texts", i64), ("cut_tokens", i64), ("replaced", i64),
                ("replaced_text", i64), ("replaced_at", i64)]


class Progress(c.Structure):
    _fields_ = [("step", p), ("user", p)]


class EmbedderOptions(c.Structure):
    _fields_ = [("precision", c.c_int), ("no_mmap", c.c_bool), ("pool", c.c_int),
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
    sizes = {name: int(size) for name, size in (line.split() for line in lines if line)}
    for name, size in sizes.items():
        if c.sizeof(globals()[name]) != size:
            raise SystemExit(f"{__file__}: {name} has {c.sizeof(globals()[name])} bytes, libqkv's {size}")


check_layout()
lib.qkv_version.restype = c.c_char_p
lib.qkv_isa.restype = c.c_char_p
lib.qkv_error_line.restype = c.c_char_p
lib.qkv_attention_plan.restype = Plan
lib.qkv_attention_forward.argtypes = [p] * 6 + [c.POINTER(Attention), p]
lib.qkv_embedder_width.restype = i64
lib.qkv_embedder_width.argtypes = [p]
lib.qkv_embed.argtypes = [p, p, p, p, i64, p, p]
lib.qkv_embedder_close.argtypes = [p]
lib.qkv_tokenizer_encode.argtypes = [p, p, c.c_char_p, c.c_size_t, p, c.c_size_t, p, p]


def threads(n):
    if lib.qkv_threads_set(n):
        raise RuntimeError(f"{n} threads refused")


class Forward:
    """qkv_attention_forward on arrays [B][H][T][E] (anything with shape and data_ptr()), ready to be called."""

    def __init__(self, q, k, v, out, causal=False, window=None):
        (B, H, T, E), (S, F) = q.shape, v.shape[2:]
        G = k.shape[1]
        heads_first = lambda heads, n, width: Strides(heads * n * width, width, n * width)
        self.a = Attention(B=B, T=T, S=S, H=H, G=G, E=E, F=F, causal=causal,
                           q_strides=heads_first(H, T, E), k_strides=heads_first(G, S, E),
                           v_strides=heads_first(G, S, F), out_strides=heads_first(H, T, F))
        if window:
            self.a.window = Window(True, *window)
        self.keep = (q, k, v, out)
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


class Embedder:
    """A model folder that turns texts into vectors."""

    def __init__(self, folder):
        self.error, self.handle = Error(), p()
        options = EmbedderOptions(truncate=True)
        self.error.check(lib.qkv_embedder_open(c.byref(self.handle), folder.encode(),
                                               c.byref(options), c.byref(self.error)))
        self.width = lib.qkv_embedder_width(self.handle)
        self.tokens = 0

    def texts(self, texts):
        """Texts made ready: what is timed is the call alone."""
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
        """Tokens of line (bytes)."""
        self.error.check(lib.qkv_tokenizer_encode(self.handle, c.byref(self.encoding), line, len(line),
                                                  None, 0, None, c.byref(self.error)))
        return self.encoding.count
