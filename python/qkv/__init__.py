# SPDX-License-Identifier: MIT
"""qkv: exact self-attention in memory linear in the tokens; runs, trains and visualizes Transformers on CPUs.

    qkv.attention(q, k, v, causal=True)                      attention on arrays of numpy, torch, jax, or buffers
    qkv.SentenceTransformer("models/all-MiniLM-L6-v2")       vectors of texts
    qkv.view("time flies like an arrow")                     attention as a picture, in a notebook or a file

Names are imported at first use: `import qkv` loads ctypes and libqkv only, never numpy or torch.
"""
import importlib
import os as _os
import threading as _threading

_MODULES = {
    "_errors": ("Error", "InternalError", "UsageError", "FormatError", "UnsupportedError", "LimitError", "FileError", "MissingFileError",
                "Interrupted", "LibraryError", "DtypeError", "ReadOnlyError", "DeviceError"),
    "_attention": ("attention", "attention_backward", "Probe", "Statistics", "Gradients", "Plan", "AttentionResult"),
    "_tokenizer": ("Tokenizer", "Encoding"),
    "_texts": ("SentenceTransformer",),
    "_cross_encoder": ("CrossEncoder",),
    "util": ("SimilarityFunction", "quantize_embeddings"),
    "_view": ("view", "View"),
    "_tasks": ("generate", "translate", "ablate", "attribute", "train", "Generator", "Translator", "Generated", "Effects",
               "Attribution"),
    "_settings": ("threads", "set_threads", "isa", "set_isa", "version"),
}
TYPE_CHECKING = False  # a type checker reads it as True; the module typing would cost a third of the import
if TYPE_CHECKING:
    from . import torch as torch, transformers as transformers, util as util
    from ._attention import (AttentionResult as AttentionResult, Gradients as Gradients, Plan as Plan, Probe as Probe,
                             Statistics as Statistics, attention as attention, attention_backward as attention_backward)
    from ._cross_encoder import CrossEncoder as CrossEncoder
    from ._errors import (DeviceError as DeviceError, DtypeError as DtypeError, Error as Error, FileError as FileError,
                          FormatError as FormatError, InternalError as InternalError, Interrupted as Interrupted,
                          LibraryError as LibraryError, LimitError as LimitError, MissingFileError as MissingFileError,
                          ReadOnlyError as ReadOnlyError, UnsupportedError as UnsupportedError,
                          UsageError as UsageError)
    from ._settings import (isa as isa, set_isa as set_isa, set_threads as set_threads, threads as threads, version as version)
    from ._tasks import (Attribution as Attribution, Effects as Effects, Generated as Generated, Generator as Generator, Translator as Translator,
                         ablate as ablate, attribute as attribute, generate as generate, train as train, translate as translate)
    from ._texts import SentenceTransformer as SentenceTransformer
    from ._tokenizer import Encoding as Encoding, Tokenizer as Tokenizer
    from ._view import View as View, view as view
    from .transformers import observe as observe
    from .util import SimilarityFunction as SimilarityFunction, quantize_embeddings as quantize_embeddings
_HOME = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_HOME)

from ._library import lib as _lib  # noqa: E402  (checks the version of the library at once)

__version__ = _lib.version().decode()


if not TYPE_CHECKING:  # a type checker knows all names
    # A child of fork would wait for ever for a module that another thread of its parent was importing.
    _importing = _threading.RLock()
    if hasattr(_os, "register_at_fork"):
        _os.register_at_fork(before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release)

    def __getattr__(name):
        if name in _HOME:
            with _importing:
                value = getattr(importlib.import_module("." + _HOME[name], __name__), name)
            globals()[name] = value
            return value
        if name == "observe":
            return importlib.import_module(".transformers", __name__).observe
        if name in ("torch", "transformers", "util"):
            return importlib.import_module("." + name, __name__)
        raise AttributeError(f"module 'qkv' has no attribute {name!r}")


def __dir__():
    return sorted(set(globals()) | set(_HOME))
