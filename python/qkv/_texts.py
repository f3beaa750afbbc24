# SPDX-License-Identifier: MIT
"""Vectors of texts with the names and defaults of sentence-transformers."""
import contextlib
import ctypes
import os
import threading
from typing import Any, Dict, Iterator, List, Optional

from . import _layout as c
from ._array import _numpy, make
from ._errors import UnsupportedError, UsageError
from ._hub import member, read_json
from ._library import PRECISIONS, Callbacks, call, choice, integer, lib, list_of, shown, text
from ._progress import Bar
from ._text_model import TextModel, check_run, find_folder, model_options, renamed
from ._tokenizer import Encoding, Tokenizer, string_array
from ._types import ArrayLike, Path, Pool, Texts, Token
from .util import PRECISIONS as QUANTISED, as_array, name_of, need_numpy, need_torch, quantize_embeddings, similarity_of


class SentenceTransformer(TextModel):
    """A model that computes vectors of texts: a folder, or a name in Hugging Face's cache or in $QKV_MODELS.

    The arguments, methods and defaults follow sentence_transformers.SentenceTransformer; vectors are computed by
    libqkv, are numpy arrays (memoryviews without numpy), and have the same bits whatever the other texts of a call are.
    """
    _close = "embedder_close"

    @renamed(tokenizer_kwargs="processor_kwargs")
    def __init__(self, model_name_or_path: Optional[Path] = None, *, modules: None = None, device: Any = None,
                 prompts: Optional[Dict[str, str]] = None, default_prompt_name: Optional[str] = None,
                 cache_folder: Optional[Path] = None, trust_remote_code: bool = False, revision: Optional[str] = None,
                 local_files_only: bool = False, token: Token = None, use_auth_token: Token = None,
                 model_kwargs: Optional[Dict[str, Any]] = None, processor_kwargs: Optional[Dict[str, Any]] = None,
                 config_kwargs: Optional[Dict[str, Any]] = None, model_card_data: None = None, backend: str = "torch",
                 similarity_fn_name: Any = None, truncate_dim: Optional[int] = None, precision: Optional[str] = None):
        """Opens a model; a name that is in no folder is downloaded from the Hugging Face Hub.

        cache_folder      folder of the downloads; None: $SENTENCE_TRANSFORMERS_HOME or the cache that all programs share
        revision          a branch, a tag or a commit; None: the cached commit of main
        local_files_only  True: nothing is downloaded
        token             of the hub; None or True: $HF_TOKEN or that of `hf auth login`; False: none
        backend           "torch", the default there, has no effect here: libqkv computes
        model_kwargs      dtype (or torch_dtype) selects the precision; attn_implementation has no effect
        precision         of the products: "f32", "bf16", "f16", "int8" (include/qkv/model.h); None: that of dtype, otherwise "f32"
        trust_remote_code has no effect: code of a model is never run
        """
        super().__init__()
        if use_auth_token is not None and token is not None:
            raise UsageError("token, use_auth_token: expected one of them")
        precision, _ = model_options(precision, device, backend, model_kwargs, processor_kwargs, config_kwargs, modules=modules,
                                     model_card_data=model_card_data)
        self._folder = find_folder(model_name_or_path, "sentence-transformers", cache_folder, revision, local_files_only,
                                   use_auth_token if token is None else token)
        self._local = threading.local()
        self._precision, self.backend = choice(precision, "precision", PRECISIONS), backend
        self._callbacks, self._max_length = Callbacks(), 0
        self._prompted: Dict[str, ctypes.c_void_p] = {}  # an embedder per prompt that is not pooled
        self._progress = self._callbacks.progress(self._step)
        self._pointer = self._open("", 0)
        config = read_json(self._folder, "config_sentence_transformers.json")
        self._read_prompts(config, prompts, default_prompt_name, {"query": "", "document": ""})
        saved = member(config, "similarity_fn_name", str, self._folder, "config_sentence_transformers.json")
        self.similarity_fn_name = similarity_fn_name or saved or "cosine"
        self.truncate_dim = None if truncate_dim is None else integer(truncate_dim, "truncate_dim", 1)
        self._folder_prompts = config["prompts"] if isinstance(config.get("prompts"), dict) else {}
        self._pools_prompt = bool(lib.embedder_pools_prompt(self._pointer))
        self.tokenizer = Tokenizer._of(lib.embedder_tokenizer(self._pointer), self)

    def _open(self, prompt, max_length):
        pointer = ctypes.c_void_p()
        o = c.EmbedderOptions(truncate=True, max_length=max_length, prompt=prompt.encode(), progress=self._progress,
                              no_normalize=not self._has_modules())
        o.model.precision = self._precision
        call(lib.embedder_open, ctypes.byref(pointer), text(self._folder, "model"), ctypes.byref(o))
        return pointer

    def _has_modules(self):
        # Without modules.json sentence-transformers pools by the mean and does not normalise.
        return os.path.exists(os.path.join(self._folder, "modules.json"))

    def close(self) -> None:
        if hasattr(self, "_prompted"):
            with self._lock:
                self._closed += self._prompted.values()
                self._prompted = {}
        super().close()

    def _step(self, what, done, total):
        function = getattr(self._local, "step", None)
        return function(what, done, total) if function else 0

    @property
    def similarity_fn_name(self) -> str:
        """The name of the similarity: "cosine", "dot", "euclidean" or "manhattan"; it may be set, also to a SimilarityFunction."""
        return self._similarity_name

    @similarity_fn_name.setter
    def similarity_fn_name(self, value: Any) -> None:
        self._similarity_name = name_of("cosine" if value is None else value)

    @property
    def max_seq_length(self) -> int:
        """The most tokens of a text; longer texts are truncated.  It may be set; the positions of the model are the limit."""
        return lib.embedder_max_length(self._at)

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        self._use().end()  # refuses a closed object
        value = integer(value, "max_seq_length", 1)
        opened = self._open("", value)
        with self._lock:
            self._max_length = value
            self._closed += [self._pointer, *self._prompted.values()]  # calls that are running end first
            self._pointer, self._prompted = opened, {}
            self.tokenizer._pointer = ctypes.c_void_p(lib.embedder_tokenizer(opened))
        self._free_closed()

    def get_embedding_dimension(self) -> int:
        """Returns the number of dimensions of a vector."""
        width = lib.embedder_width(self._at)
        return min(width, self.truncate_dim or width)

    get_sentence_embedding_dimension = get_embedding_dimension

    @contextlib.contextmanager
    def truncate_embeddings(self, truncate_dim: Optional[int]) -> Iterator[None]:
        """Truncates vectors to truncate_dim dimensions inside `with`; None: not."""
        before = self.truncate_dim
        self.truncate_dim = None if truncate_dim is None else integer(truncate_dim, "truncate_dim", 1)
        try:
            yield
        finally:
            self.truncate_dim = before

    truncate_sentence_embeddings = truncate_embeddings

    def set_pooling_include_prompt(self, include_prompt: bool) -> None:
        """Sets whether the tokens of a prompt are pooled; False only where the folder of the model says so."""
        if not include_prompt and lib.embedder_pools_prompt(self._at):
            raise UnsupportedError("include_prompt: the folder of this model pools the prompt; expected include_prompt false in the "
                                   "configuration of its pooling")
        self._pools_prompt = bool(include_prompt)

    def _with_prompt(self, sentences, name, prompt):
        """Returns (embedder, sentences) for a prompt."""
        name, prompt = self._prompt(name, prompt)
        if not prompt:
            return self._at, sentences
        if self._pools_prompt:
            return self._at, [prompt + s for s in sentences]
        # The tokens of the prompt are not pooled: the library has to know the prompt.
        if name is None or self._folder_prompts.get(name) != prompt:
            raise UnsupportedError("prompt: this model does not pool the prompt; use prompt_name, of a prompt of its folder")
        used = self._at
        with self._lock:
            if name not in self._prompted:
                self._prompted[name] = self._open(name, self._max_length)
            used._as_parameter_ = self._prompted[name]
        return used, sentences

    @renamed(sentences="inputs")
    def encode(self, inputs: Texts, prompt_name: Optional[str] = None, prompt: Optional[str] = None, batch_size: int = 32,
               show_progress_bar: Optional[bool] = None, output_value: Optional[str] = "sentence_embedding",
               precision: Optional[str] = "float32", convert_to_numpy: bool = True, convert_to_tensor: bool = False,
               device: Any = None, normalize_embeddings: bool = False, truncate_dim: Optional[int] = None, pool: Pool = None,
               chunk_size: Optional[int] = None, **options) -> Any:
        """Computes the vectors of texts: [n][width] for a list, [width] for one str.

        batch_size, pool, chunk_size and a list of devices have no effect: texts are packed by their tokens, and the threads of
        libqkv share them.  show_progress_bar: a bar of tqdm, if installed; None: if logging is at INFO or DEBUG.  precision:
        "float32", "int8", "uint8", "binary", "ubinary".  Longer texts than max_seq_length are truncated.
        output_value "token_embeddings": a tensor [tokens][width] of the last hidden states per text; None: a dict of tensors per
        text, which has these, the vector, input_ids and attention_mask.
        """
        check_run("encode", batch_size, device, pool, chunk_size, options)
        choice(precision or "float32", "precision", QUANTISED)
        if output_value not in ("sentence_embedding", "token_embeddings", None):
            raise UnsupportedError(f"output_value: expected 'sentence_embedding', 'token_embeddings' or None, found {shown(output_value)}")
        if output_value != "sentence_embedding" and precision not in ("float32", None):
            raise UnsupportedError(f"output_value, precision: quantized are vectors of texts only, found {shown(output_value)} with {shown(precision)}")
        if convert_to_tensor or not convert_to_numpy or output_value != "sentence_embedding":
            need_torch("convert_to_tensor" if convert_to_tensor else "convert_to_numpy" if not convert_to_numpy else "output_value")
        single = self.is_singular_input(inputs)
        sentences: List[str] = [inputs] if isinstance(inputs, str) else list_of(inputs, "sentences")
        for i, s in enumerate(sentences):
            if not isinstance(s, str):
                raise UsageError(f"sentences[{i}]: expected a str, found {shown(s)}")
        keep = truncate_dim if truncate_dim is not None else self.truncate_dim
        keep = None if keep is None else integer(keep, "truncate_dim", 1)
        embedder, sentences = self._with_prompt(sentences, prompt_name, prompt)
        if output_value != "sentence_embedding":
            found = self._states(embedder, sentences, keep, output_value)
            return found[0] if single else found
        width = lib.embedder_width(self._at)
        out = self._embed(embedder, sentences, width, show_progress_bar)
        if keep is not None and keep < width:
            out = need_numpy("truncate_dim").ascontiguousarray(out[:, :keep])
        if normalize_embeddings and len(sentences):
            numpy = need_numpy("normalize_embeddings")
            out = out / numpy.maximum(numpy.linalg.norm(out, axis=1, keepdims=True), 1e-12)
        if precision not in ("float32", None):
            out = quantize_embeddings(out, precision)
        if convert_to_tensor or not convert_to_numpy:
            out = as_array(out, True)
            out = out if convert_to_tensor else list(out)
        elif single and isinstance(out, memoryview):  # it has no rows
            return out.cast("B").cast("f")
        return out[0] if single else out

    def _embed(self, embedder, sentences, width, show):
        if not sentences:
            return make(None, (0, width), "f32")[0] if _numpy() else []
        made, array = make(None, (len(sentences), width), "f32")
        texts, sizes, _keep = string_array(sentences, "sentences")
        bar, calls = Bar(show, "texts"), Callbacks()

        def guarded(_what, done, _total):
            try:
                bar.to(done, len(sentences))
                return calls.error is not None  # Ctrl-C has noted its error there
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

    def _states(self, embedder, sentences, keep, output_value):
        """Returns the last hidden states of each text [tokens][width], or a dict with them and the vector."""
        if embedder._as_parameter_ is not self._pointer:
            raise UnsupportedError("output_value: expected 'sentence_embedding', since this model does not pool the prompt")
        model, width, found = lib.embedder_model(embedder._as_parameter_), lib.embedder_width(embedder._as_parameter_), []
        states = lib.model_info(model).width
        try:
            for s in sentences:
                e = self._encoding(s)
                n = len(e.ids)
                hidden, rows = make(None, (n, states), "f32")
                vector, out = make(None, (1, width), "f32")
                ids, offsets = (ctypes.c_int32 * n)(*e.ids), (ctypes.c_int64 * 2)(0, n)
                run = c.ModelInput(sequences=1, offsets=ctypes.addressof(offsets), ids=ctypes.addressof(ids))
                if n:
                    call(lib.model_run, model, rows.at, ctypes.byref(run), None)
                if output_value == "token_embeddings":
                    found.append(as_array(hidden, True))
                    continue
                call(lib.embed_hidden, embedder._as_parameter_, out.at, rows.at, n)
                found.append({"input_ids": as_array(e.ids, True), "attention_mask": as_array(e.attention_mask, True),
                              "token_embeddings": as_array(hidden, True), "sentence_embedding": as_array(vector, True)[0][:keep]})
        finally:
            embedder.end()
        return found

    def _encoding(self, s, pair=None) -> Encoding:
        return self.tokenizer.encode(s, pair, max_length=self.max_seq_length, truncation=True)

    @renamed(sentences="inputs")
    def encode_query(self, inputs: Texts, prompt_name: Optional[str] = None, prompt: Optional[str] = None, **options) -> Any:
        """As encode, with the prompt named "query" if the model has one."""
        if prompt_name is None and prompt is None and "query" in self.prompts:
            prompt_name = "query"
        return self.encode(inputs, prompt_name, prompt, **options)

    @renamed(sentences="inputs")
    def encode_document(self, inputs: Texts, prompt_name: Optional[str] = None, prompt: Optional[str] = None, **options) -> Any:
        """As encode, with the prompt named "document", "passage" or "corpus" if the model has one."""
        if prompt_name is None and prompt is None:
            prompt_name = next((n for n in ("document", "passage", "corpus") if n in self.prompts), None)
        return self.encode(inputs, prompt_name, prompt, **options)

    def encode_multi_process(self, sentences: Texts, pool: Pool, **options) -> Any:
        """As encode; sentence-transformers has deprecated this name."""
        return self.encode(sentences, pool=pool, **options)

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Any:
        """Returns the matrix [n1][n2] of the similarity of each pair of vectors: a tensor for tensors, otherwise a numpy array
        (without numpy a memoryview)."""
        return similarity_of(self._similarity_name, False)(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Any:
        """Returns the similarities [n] of vectors 0 and 0, 1 and 1, ..., as similarity does."""
        return similarity_of(self._similarity_name, True)(embeddings1, embeddings2)

    def is_singular_input(self, inputs: Any) -> bool:
        """Returns whether the input is one text, not a list of texts."""
        return isinstance(inputs, str)

    @staticmethod
    def load(input_path: Path) -> "SentenceTransformer":
        """Returns SentenceTransformer(input_path); sentence-transformers has deprecated this name."""
        return SentenceTransformer(input_path)
