# SPDX-License-Identifier: MIT
"""train_tokens.py: calls qkv_tokenizer_train by ctypes, for the other tools."""
import ctypes as C

import golden_text as G


class Progress(C.Structure):
    _fields_ = [("step", C.c_void_p), ("user", C.c_void_p)]


class Training(C.Structure):
    _fields_ = [("kind", C.c_char_p), ("vocab", C.c_int64), ("least", C.c_int64),
                ("special", C.POINTER(C.c_char_p)), ("specials", C.c_int64), ("lowercase", C.c_bool),
                ("unknown", C.c_char_p), ("begin", C.c_char_p), ("end", C.c_char_p), ("progress", Progress)]


def train(lib, path, texts, kind, vocab, special=(), **how):
    texts = [t if isinstance(t, bytes) else t.encode() for t in texts]
    names = (C.c_char_p * max(1, len(special)))(*[s.encode() for s in special])
    how = {k: v.encode() if isinstance(v, str) else v for k, v in how.items()}
    settings = Training(kind=kind.encode(), vocab=vocab, special=names, specials=len(special), **how)
    error = G.Error()
    status = lib.qkv_tokenizer_train(path.encode(), (C.c_char_p * len(texts))(*texts), (C.c_size_t * len(texts))(*map(len, texts)),
                                     C.c_int64(len(texts)), C.byref(settings), C.c_bool(True), C.byref(error))
    if status:
        raise ValueError(f"{path}: {error.path.decode()}: {error.text.decode()}")
