# SPDX-License-Identifier: MIT
"""Vectors and scores of texts with the names and defaults of sentence-transformers."""
import ctypes
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from . import _layout as c
from ._array import Array, _numpy, make
from ._errors import DeviceError, UnsupportedError, UsageError
from ._library import PRECISIONS, Callbacks, Handle, call, choice, integer, lib, shown, text
from ._progress import Bar
from ._tokenizer import Tokenizer, find_model, read_json, string_array
from ._types import ArrayLike, Pair, Path, Texts


def check_device(device):
    name = str(device) if isinstance(device, str) or type(device).__name__ == "device" else None  # torch.device
    if device is not None and name != "cpu":
        raise DeviceError(f"device: qkv computes on the CPU, found {shown(device)}")


def is_tensor(x):
    """Returns whether x is a torch tensor, or a list of them as encode(convert_to_numpy=False) returns."""
    torch = sys.modules.get("torch")
    x = x[0] if isinstance(x, list) and x else x
    return torch is not None and isinstance(x, torch.Tensor)


def as_array(values, tensor):
    """Returns an array of floats as numpy array, or as torch tensor; without numpy as memoryview."""
    if tensor:
        import torch
        return torch.as_tensor(values)
    return values


class SentenceTransformer(Handle):
    """A model that computes vectors of texts: a folder, or a name in Hugging Face's cache or in $QKV_MODELS.

    The arguments, methods and defaults follow sentence_transformers.SentenceTransformer; vectors are computed by
    libqkv, are numpy arrays (memoryviews without numpy), and have the same bits whatever the other texts of a call are.
    """
    _close = "embedder_close"

    def __init__(self, model_name_or_path: Optional[Path] = None, *, device: Any = None, prompts: Optional[Dict[str, str]] = None,
                 default_prompt_name: Optional[str] = None, similarity_fn_name: Optional[str] = None,
                 truncate_dim: Optional[int] = None, precision: str = "f32"):
        """precision: of the products: "f32", "bf16", "f16", "int8" (include/qkv/model.h)."""
        super().__init__()
        check_device(device)
        self._folder, self._local = find_model(model_name_or_path), threading.local()
        self._precision = choice(precision, "precision", PRECISIONS)
        self._callbacks, self._max_length = Callbacks(), 0
        self._prompted: Dict[str, ctypes.c_void_p] = {}  # an embedder per prompt that is not pooled
        self._progress = self._callbacks.progress(self._step)
        self._pointer = self._open("")
        config = read_json(self._folder, "config_sentence_transformers.json")
        self.prompts = dict(config.get("prompts") or {})
        self.prompts.update(prompts or {})
        self.default_prompt_name = default_prompt_name or config.get("default_prompt_name")
        if self.default_prompt_name is not None and self.default_prompt_name not in self.prompts:
            raise UsageError(f"default_prompt_name: no prompt {shown(self.default_prompt_name)}; there are {sorted(self.prompts)}")
        self.similarity_fn_name = similarity_fn_name or config.get("similarity_fn_name") or "cosine"
        choice(self.similarity_fn_name, "similarity_fn_name", SIMILARITIES)
        self.truncate_dim = None if truncate_dim is None else integer(truncate_dim, "truncate_dim", 1)
        self._pools_prompt = read_json(self._folder, "1_Pooling", "config.json").get("include_prompt", True)
        self.tokenizer = Tokenizer._of(lib.embedder_tokenizer(self._pointer), self)
        self.device = "cpu"

    def _open(self, prompt):
        pointer = ctypes.c_void_p()
        o = c.EmbedderOptions(truncate=True, max_length=self._max_length, prompt=prompt.encode(), progress=self._progress,
                              no_normalize=not self._has_modules())
        o.model.precision = self._precision
        call(lib.embedder_open, ctypes.byref(pointer), text(self._folder, "model"), ctypes.byref(o))
        return pointer

    def _has_modules(self):
        # Without modules.json sentence-transformers pools by the mean and does not normalise.
        import os
        return os.path.exists(os.path.join(self._folder, "modules.json"))

    def close(self) -> None:
        if hasattr(self, "_prompted"):
            with self._lock:
                self._closed += self._prompted.values()
                self._prompted = {}
        super().close()

    def __repr__(self):
        return f"SentenceTransformer({self._folder!r})"

    def _step(self, what, done, total):
        function = getattr(self._local, "step", None)
        return function(what, done, total) if function else 0

    @property
    def max_seq_length(self) -> int:
        """The most tokens of a text; longer texts are truncated.  It may be set; the positions of the model are the limit."""
        return lib.embedder_max_length(self._at)

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        self._use().end()  # refuses a closed object
        self._max_length = integer(value, "max_seq_length", 1)
        opened = self._open("")
        with self._lock:
            self._closed += [self._pointer, *self._prompted.values()]  # calls that are running end first
            self._pointer, self._prompted = opened, {}
            self.tokenizer._pointer = ctypes.c_void_p(lib.embedder_tokenizer(opened))
        self._free_closed()

    def get_embedding_dimension(self) -> int:
        """Returns the number of dimensions of a vector."""
        width = lib.embedder_width(self._at)
        return min(width, self.truncate_dim or width)

    get_sentence_embedding_dimension = get_embedding_dimension

    def get_max_seq_length(self) -> int:
        return self.max_seq_length

    def _with_prompt(self, sentences, prompt_name, prompt):
        """Returns (embedder, sentences) for a prompt."""
        name = None
        if prompt is None:
            name = prompt_name if prompt_name is not None else self.default_prompt_name
            if name is not None:
                if not isinstance(name, str) or name not in self.prompts:
                    raise UsageError(f"prompt_name: no prompt {shown(name)}; there are {sorted(self.prompts)}")
                prompt = self.prompts[name]
        if not prompt:
            return self._at, sentences
        if not isinstance(prompt, str):
            raise UsageError(f"prompt: expected a str, found {shown(prompt)}")
        if self._pools_prompt:
            return self._at, [prompt + s for s in sentences]
        # The tokens of the prompt are not pooled: the library has to know the prompt.
        if name is None:
            raise UnsupportedError("prompt: this model does not pool the prompt; use prompt_name")
        used = self._at
        with self._lock:
            if name not in self._prompted:
                self._prompted[name] = self._open(name)
            used._as_parameter_ = self._prompted[name]
        return used, sentences

    def encode(self, sentences: Texts, prompt_name: Optional[str] = None, prompt: Optional[str] = None, batch_size: int = 32,
               show_progress_bar: Optional[bool] = None, output_value: str = "sentence_embedding",
               precision: str = "float32", convert_to_numpy: bool = True, convert_to_tensor: bool = False,
               device: Any = None, normalize_embeddings: bool = False, truncate_dim: Optional[int] = None) -> Any:
        """Computes the vectors of texts: [n][width] for a list, [width] for one str.

        batch_size has no effect: texts are packed by their tokens.  show_progress_bar: a bar of tqdm, if installed; None:
        if logging is at INFO or DEBUG.  precision: "float32", "int8", "uint8", "binary",
        "ubinary".  Longer texts than max_seq_length are truncated.
        """
        integer(batch_size, "batch_size", 1)
        check_device(device)
        if output_value != "sentence_embedding":
            raise UnsupportedError(f"output_value: expected 'sentence_embedding', found {shown(output_value)}")
        choice(precision, "precision", QUANTISED)
        single = isinstance(sentences, str)
        sentences = [sentences] if isinstance(sentences, str) else list_of(sentences, "sentences")
        for i, s in enumerate(sentences):
            if not isinstance(s, str):
                raise UsageError(f"sentences[{i}]: expected a str, found {shown(s)}")
        embedder, sentences = self._with_prompt(sentences, prompt_name, prompt)
        width = lib.embedder_width(self._at)
        out = self._embed(embedder, sentences, width, show_progress_bar)
        keep = truncate_dim if truncate_dim is not None else self.truncate_dim
        if keep is not None and integer(keep, "truncate_dim", 1) < width:
            out = need_numpy("truncate_dim").ascontiguousarray(out[:, :keep])
        if normalize_embeddings and len(sentences):
            numpy = need_numpy("normalize_embeddings")
            out = out / numpy.maximum(numpy.linalg.norm(out, axis=1, keepdims=True), 1e-12)
        if precision != "float32":
            out = quantise(out, precision)
        if convert_to_tensor or not convert_to_numpy:
            out = as_array(out, True)
            out = out if convert_to_tensor else list(out)
        return out[0] if single else out

    def _embed(self, embedder, sentences, width, show):
        if not sentences:
            return make(None, (0, width), "f32")[0] if _numpy() else []
        made, array = make(None, (len(sentences), width), "f32")
        texts, sizes, _keep = string_array(sentences, "sentences")
        bar, calls = Bar(show, "texts"), Callbacks()

        def guarded(_what, done, _total):
            try:
                return bar.to(done, len(sentences))
            except BaseException as error:
                calls.error = error
                return 1
        self._local.step, self._callbacks.error = guarded, None
        try:
            calls.call(lib.embed, embedder, array.at, texts, sizes, len(sentences), None)
        finally:
            self._local.step = None
            bar.close()
            error, self._callbacks.error = self._callbacks.error, None
            if error is not None:
                raise error
        return made

    def encode_query(self, sentences: Texts, prompt_name: Optional[str] = None, **options) -> Any:
        """As encode, with the prompt named "query" if the model has one."""
        return self.encode(sentences, prompt_name or ("query" if "query" in self.prompts else None), **options)

    def encode_document(self, sentences: Texts, prompt_name: Optional[str] = None, **options) -> Any:
        """As encode, with the prompt named "document", "passage" or "corpus" if the model has one."""
        named = next((n for n in ("document", "passage", "corpus") if n in self.prompts), None)
        return self.encode(sentences, prompt_name or named, **options)

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Any:
        """Returns the matrix [n1][n2] of the similarity of each pair of vectors: a tensor for tensors, otherwise a numpy array."""
        return self._similarity(embeddings1, embeddings2, False)

    def _similarity(self, a, b, pairwise):
        if self.similarity_fn_name not in SIMILARITIES:
            choice(self.similarity_fn_name, "similarity_fn_name", SIMILARITIES)
        found = SIMILARITIES[self.similarity_fn_name](*pair_of(a, b), pairwise)
        return as_array(found, is_tensor(a) or is_tensor(b))

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Any:
        """Returns the similarities [n] of vectors 0 and 0, 1 and 1, ..., as similarity does."""
        return self._similarity(embeddings1, embeddings2, True)


def list_of(values, name):
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise UsageError(f"{name}: expected a list, found {shown(values)}")
    return list(values)


def need_numpy(name):
    numpy = _numpy()
    if numpy is None:
        raise UnsupportedError(f"{name}: numpy is not installed")
    return numpy


def pair_of(a, b):
    numpy = need_numpy("similarity")
    try:
        a, b = (x.detach().float() if is_tensor(x) and not isinstance(x, list) else x for x in (a, b))  # numpy has no bfloat16
        a, b = (numpy.atleast_2d(numpy.asarray(x, dtype="float32")) for x in (a, b))
    except (TypeError, ValueError) as error:
        raise UsageError(f"similarity: expected arrays of vectors: {error}") from None
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise UsageError(f"similarity: expected vectors of equal width, found shapes {a.shape} and {b.shape}")
    return a, b


def cosine(a, b, pairwise):
    numpy = _numpy()
    unit = lambda x: x / numpy.maximum(numpy.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    return dot(unit(a), unit(b), pairwise)


def dot(a, b, pairwise):
    return (a * b).sum(1) if pairwise else a @ b.T


def distance(power):
    def similarity(a, b, pairwise):
        numpy = _numpy()
        if not pairwise:
            return numpy.stack([similarity(row[None], b, True) for row in a]) if len(a) else numpy.zeros((0, len(b)), "f")
        return -(abs(a - b) ** power).sum(1) ** (1 / power)
    return similarity


SIMILARITIES = {"cosine": cosine, "dot": dot, "euclidean": distance(2), "manhattan": distance(1)}
QUANTISED = dict.fromkeys(("float32", "int8", "uint8", "binary", "ubinary"))


def quantise(x, precision):
    """Quantises vectors as sentence_transformers.quantize_embeddings does, with the ranges of these vectors."""
    numpy = need_numpy("precision")
    if precision.endswith("binary"):
        bits = numpy.packbits(x > 0, axis=1)
        return bits if precision == "ubinary" else (bits - 128).astype(numpy.int8)
    low, high = (x.min(0), x.max(0)) if len(x) else (0, 255)
    steps = (high - low) / 255
    with numpy.errstate(invalid="ignore", divide="ignore"):
        level = (x - low) / steps
    level = numpy.nan_to_num(level)  # one text: every number is the lowest and the highest
    return level.astype(numpy.uint8) if precision == "uint8" else (level - 128).astype(numpy.int8)


class CrossEncoder(Handle):
    """A model with an output head for labels that scores pairs of texts, as sentence_transformers.CrossEncoder."""
    _close = "model_close"

    def __init__(self, model_name_or_path: Path, *, device: Any = None, max_length: Optional[int] = None,
                 activation_fn: Optional[Callable[[Any], Any]] = None,
                 precision: str = "f32"):
        super().__init__()
        check_device(device)
        folder = find_model(model_name_or_path)
        o = c.ModelOptions(precision=choice(precision, "precision", PRECISIONS))
        call(lib.model_open, ctypes.byref(self._pointer), text(folder, "model"), ctypes.byref(o))
        info = lib.model_info(self._pointer)
        if not info.can & c.CAN_LABELS:
            raise UnsupportedError(f"{folder}: a model with an output head for labels is needed; family {info.family.decode()}")
        self.num_labels, self.tokenizer = info.labels, Tokenizer(folder)
        limit = read_json(folder, "tokenizer_config.json").get("model_max_length")
        limit = limit if isinstance(limit, int) and 0 < limit < info.positions else info.positions
        self.max_length = min(limit, limit if max_length is None else integer(max_length, "max_length", 1))
        config = read_json(folder, "config.json")
        named = (config.get("sentence_transformers") or {}).get("activation_fn") or \
            config.get("sbert_ce_default_activation_function") or ""
        known = {"Sigmoid": sigmoid, "Identity": identity}
        default = sigmoid if self.num_labels == 1 else identity
        self.activation_fn = activation_fn or known.get(str(named).rsplit(".", 1)[-1], default)

    def predict(self, sentences: Union[Pair, Sequence[Pair]], batch_size: int = 32, show_progress_bar: Optional[bool] = None,
                activation_fn: Optional[Callable[[Any], Any]] = None, apply_softmax: bool = False,
                convert_to_numpy: bool = True, convert_to_tensor: bool = False, device: Any = None) -> Any:
        """Scores pairs of texts: [n] for a model with one label, otherwise [n][labels]; one pair gives one score.

        activation_fn receives and returns the array of all logits; None: as the model folder says, otherwise the
        logistic function for one label and no function for several.
        """
        integer(batch_size, "batch_size", 1)
        check_device(device)
        numpy = need_numpy("predict")
        pairs = list_of(sentences, "sentences")
        single = len(pairs) == 2 and all(isinstance(s, str) for s in pairs)
        pairs = [pairs] if single else [tuple(list_of(p, f"sentences[{i}]")) for i, p in enumerate(pairs)]
        logits = numpy.zeros((len(pairs), self.num_labels), "float32")
        with Bar(show_progress_bar, "pairs") as bar:
            self._score(pairs, logits, bar)
        scores = self._activate(logits, activation_fn or self.activation_fn)
        if apply_softmax and self.num_labels > 1:
            scores = numpy.exp(scores - scores.max(1, keepdims=True))
            scores /= scores.sum(1, keepdims=True)
        if self.num_labels == 1:
            scores = scores[:, 0]
        if convert_to_tensor or not convert_to_numpy:
            scores = as_array(scores, True)
            scores = scores if convert_to_tensor else list(scores)
        return scores[0] if single else scores

    @staticmethod
    def _activate(logits, function):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(function, torch.nn.Module):
            return function(torch.from_numpy(logits)).numpy()
        return function(logits)

    def _score(self, pairs, logits, bar):
        """Writes the logits of all pairs, 32 of them at a time in one packed run."""
        for begin in range(0, len(pairs), 32):
            ids, types, offsets = [], [], [0]
            for i, pair in enumerate(pairs[begin:begin + 32], begin):
                if len(pair) != 2:
                    raise UsageError(f"sentences[{i}]: expected two texts, found {len(pair)}")
                e = self.tokenizer.encode(*pair, max_length=self.max_length, truncation=True)
                ids += e.ids
                types += e.type_ids
                offsets.append(len(ids))
            n = len(offsets) - 1
            keep = (ctypes.c_int32 * len(ids))(*ids), (ctypes.c_int32 * len(ids))(*types), (ctypes.c_int64 * (n + 1))(*offsets)
            address = ctypes.addressof
            run = c.ModelInput(sequences=n, offsets=address(keep[2]), ids=address(keep[0]), types=address(keep[1]))
            call(lib.model_classify, self._at, Array(logits[begin:begin + n], "logits").at, ctypes.byref(run))
            bar.to(begin + n, len(pairs))

    def rank(self, query: str, documents: List[str], top_k: Optional[int] = None, return_documents: bool = False,
             batch_size: int = 32, show_progress_bar: Optional[bool] = None,
             activation_fn: Optional[Callable[[Any], Any]] = None, device: Any = None) -> List[Dict[str, Any]]:
        """Ranks documents for a query: a list of {"corpus_id", "score"[, "text"]}, best first."""
        if self.num_labels != 1:
            raise UsageError(f"rank: needs a model with one label, this one has {self.num_labels}")
        documents = list_of(documents, "documents")
        scores = self.predict([(query, d) for d in documents], batch_size, show_progress_bar, activation_fn, device=device)
        found: List[Dict[str, Any]] = [{"corpus_id": i, "score": float(s), **({"text": documents[i]} if return_documents else {})}
                 for i, s in enumerate(scores)]
        return sorted(found, key=lambda row: -row["score"])[:None if top_k is None else integer(top_k, "top_k")]


def identity(x):
    return x


def sigmoid(x):
    numpy = _numpy()
    return numpy.float32(.5) * (numpy.tanh(numpy.float32(.5) * x) + numpy.float32(1))
