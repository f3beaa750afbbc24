# SPDX-License-Identifier: MIT
"""Scores of pairs of texts with the names and defaults of sentence-transformers."""
import ctypes
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from . import _layout as c
from ._array import Array, _numpy
from ._errors import UnsupportedError, UsageError
from ._hub import member, read_json
from ._library import PRECISIONS, call, choice, function_or_none, integer, lib, list_of, listed, shown, text
from ._progress import Bar
from ._text_model import TextModel, check_run, find_folder, model_options, options_of, renamed
from ._tokenizer import Encoding, Tokenizer
from ._types import Pair, Path, Pool, Token
from .util import as_array, need_numpy, need_torch


class CrossEncoder(TextModel):
    """A model with an output head for labels that scores pairs of texts, as sentence_transformers.CrossEncoder."""
    _close = "model_close"

    @renamed(model_name="model_name_or_path", automodel_args="model_kwargs", tokenizer_args="processor_kwargs",
             tokenizer_kwargs="processor_kwargs", config_args="config_kwargs", cache_dir="cache_folder",
             default_activation_function="activation_fn")
    def __init__(self, model_name_or_path: Path, *, modules: None = None, device: Any = None, prompts: Optional[Dict[str, str]] = None,
                 default_prompt_name: Optional[str] = None, cache_folder: Optional[Path] = None, trust_remote_code: bool = False,
                 revision: Optional[str] = None, local_files_only: bool = False, token: Token = None,
                 model_kwargs: Optional[Dict[str, Any]] = None, processor_kwargs: Optional[Dict[str, Any]] = None,
                 config_kwargs: Optional[Dict[str, Any]] = None, model_card_data: None = None, backend: str = "torch",
                 num_labels: Optional[int] = None, max_length: Optional[int] = None,
                 activation_fn: Optional[Callable[[Any], Any]] = None, keep_in_fp32_modules: Optional[List[str]] = None,
                 precision: Optional[str] = None):
        """Opens a model; SentenceTransformer describes the other arguments.

        num_labels            checked: the output head of the folder is not replaced by a random one
        keep_in_fp32_modules  has no effect: all sums are in float32
        """
        super().__init__()
        config_kwargs = options_of(config_kwargs, "config_kwargs")
        num_labels = config_kwargs.pop("num_labels", None) if num_labels is None else num_labels
        precision, limit = model_options(precision, device, backend, model_kwargs, processor_kwargs, config_kwargs, modules=modules,
                                         model_card_data=model_card_data)
        self._folder, self.backend = find_folder(model_name_or_path, "cross-encoder", cache_folder, revision, local_files_only, token), backend
        o = c.ModelOptions(precision=choice(precision, "precision", PRECISIONS))
        call(lib.model_open, ctypes.byref(self._pointer), text(self._folder, "model"), ctypes.byref(o))
        info = lib.model_info(self._pointer)
        if not info.can & c.CAN_LABELS:
            raise UnsupportedError(f"{self._folder}: a model with an output head for labels is needed; family {info.family.decode()}")
        self.num_labels, self.tokenizer = info.labels, Tokenizer(self._folder)
        if num_labels is not None and integer(num_labels, "num_labels", 1) != self.num_labels:
            raise UnsupportedError(f"num_labels: this model has {self.num_labels}, found {num_labels}; qkv.train trains an output head")
        most = read_json(self._folder, "tokenizer_config.json").get("model_max_length")
        self._positions = most if isinstance(most, int) and 0 < most < info.positions else info.positions
        max_length = limit if max_length is None else max_length
        self.max_seq_length = self._positions if max_length is None else max_length
        saved = read_json(self._folder, "config_sentence_transformers.json")
        self._read_prompts(saved, prompts, default_prompt_name, {})
        self.activation_fn = function_or_none(activation_fn, "activation_fn") or self._default_activation(saved)

    def _default_activation(self, saved):
        config = read_json(self._folder, "config.json")
        own = member(config, "sentence_transformers", dict, self._folder, "config.json") or {}
        named = saved.get("activation_fn") or own.get("activation_fn") or \
            config.get("sbert_ce_default_activation_function") or ""
        known = {"Sigmoid": sigmoid, "Identity": identity}
        return known.get(str(named).rsplit(".", 1)[-1], sigmoid if self.num_labels == 1 else identity)

    def get_default_activation_fn(self) -> Callable[[Any], Any]:
        """Returns the function of the logits that the folder names, otherwise sigmoid for one label and none for several."""
        return self._default_activation(read_json(self._folder, "config_sentence_transformers.json"))

    @property
    def max_seq_length(self) -> int:
        """The most tokens of a pair; longer pairs are truncated.  It may be set; the positions of the model are the limit."""
        return self._max_length

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        self._max_length = min(self._positions, integer(value, "max_length", 1))

    max_length = max_seq_length

    def _encoding(self, s, pair=None) -> Encoding:
        return self.tokenizer.encode(s, pair, max_length=self._max_length, truncation=True)

    @renamed(sentences="inputs", activation_fct="activation_fn")
    def predict(self, inputs: Union[Pair, Sequence[Pair]], prompt_name: Optional[str] = None, prompt: Optional[str] = None,
                batch_size: int = 32, show_progress_bar: Optional[bool] = None,
                activation_fn: Optional[Callable[[Any], Any]] = None, apply_softmax: Optional[bool] = False,
                convert_to_numpy: bool = True, convert_to_tensor: bool = False, device: Any = None, pool: Pool = None,
                chunk_size: Optional[int] = None, **options) -> Any:
        """Scores pairs of texts: [n] for a model with one label, otherwise [n][labels]; one pair gives one score.

        activation_fn receives and returns all logits [n][labels], a tensor if torch is imported, otherwise a numpy array; None: as
        the model folder says, otherwise the logistic function for one label and no function for several.  A prompt is put before the first text of a pair.
        batch_size, pool, chunk_size and a list of devices have no effect.
        """
        check_run("predict", batch_size, device, pool, chunk_size, options)
        numpy = need_numpy("predict")
        if convert_to_tensor or not convert_to_numpy:
            need_torch("convert_to_tensor" if convert_to_tensor else "convert_to_numpy")
        function = function_or_none(activation_fn, "activation_fn") or self.activation_fn
        single = self.is_singular_input(inputs)
        pairs: List[Any] = list_of(inputs, "sentences")
        pairs = [pairs] if single else [tuple(list_of(p, f"sentences[{i}]")) for i, p in enumerate(pairs)]
        _, before = self._prompt(prompt_name, prompt)
        if before:
            pairs = [(before + p[0], *p[1:]) if len(p) and isinstance(p[0], str) else p for p in pairs]
        logits = numpy.zeros((len(pairs), self.num_labels), "float32")
        with Bar(show_progress_bar, "pairs") as bar:
            self._score(pairs, logits, bar)
        scores = self._activate(logits, function)
        if apply_softmax and self.num_labels > 1 and scores.ndim == 2:
            scores = numpy.exp(scores - scores.max(1, keepdims=True))
            scores /= scores.sum(1, keepdims=True)
        if self.num_labels == 1 and scores.ndim == 2:
            scores = scores[:, 0]
        if convert_to_tensor or not convert_to_numpy:
            scores = as_array(scores, True)
            scores = scores if convert_to_tensor else list(scores)
        return scores[0] if single else scores

    def is_singular_input(self, inputs: Any) -> bool:
        """Returns whether the input is one pair of texts, not a list of pairs."""
        values = listed(inputs, "inputs")
        return isinstance(values, (list, tuple)) and len(values) == 2 and all(isinstance(s, str) for s in values)

    @staticmethod
    def _activate(logits, function):
        torch = sys.modules.get("torch")
        if function in (identity, sigmoid):
            return function(logits)
        if torch is None:
            found = function(logits)
        else:
            with torch.no_grad():
                found = function(torch.from_numpy(logits))
            found = found.detach().float().numpy() if isinstance(found, torch.Tensor) else found
        numpy = need_numpy("activation_fn")
        try:
            scores = numpy.asarray(found, "float32")
        except (TypeError, ValueError):
            scores = None
        if scores is None or not 1 <= scores.ndim <= 2 or len(scores) != len(logits):
            raise UsageError(f"activation_fn: expected a function that returns {len(logits)} scores or rows of them, it returned {shown(found)}")
        return scores

    def _score(self, pairs, logits, bar):
        """Writes the logits of all pairs, 32 of them at a time in one packed run."""
        for begin in range(0, len(pairs), 32):
            ids: List[int] = []
            types: List[int] = []
            offsets = [0]
            for i, pair in enumerate(pairs[begin:begin + 32], begin):
                if len(pair) != 2 or not all(isinstance(s, str) for s in pair):
                    raise UsageError(f"sentences[{i}]: expected two texts, found {shown(pair) if len(pair) == 2 else len(pair)}")
                e = self._encoding(*pair)
                ids += e.ids
                types += e.type_ids
                offsets.append(len(ids))
            n = len(offsets) - 1
            keep = (ctypes.c_int32 * len(ids))(*ids), (ctypes.c_int32 * len(ids))(*types), (ctypes.c_int64 * (n + 1))(*offsets)
            address = ctypes.addressof
            run = c.ModelInput(sequences=n, offsets=address(keep[2]), ids=address(keep[0]), types=address(keep[1]))
            call(lib.model_classify, self._at, Array(logits[begin:begin + n], "logits").at, ctypes.byref(run))
            bar.to(begin + n, len(pairs))

    @renamed(activation_fct="activation_fn")
    def rank(self, query: str, documents: List[str], top_k: Optional[int] = None, return_documents: bool = False,
             prompt_name: Optional[str] = None, prompt: Optional[str] = None, batch_size: int = 32,
             show_progress_bar: Optional[bool] = None, activation_fn: Optional[Callable[[Any], Any]] = None, device: Any = None,
             pool: Pool = None, chunk_size: Optional[int] = None, **options) -> List[Dict[str, Any]]:
        """Ranks documents for a query: a list of {"corpus_id", "score"[, "text"]}, best first."""
        if self.num_labels != 1:
            raise UsageError(f"rank: needs a model with one label, this one has {self.num_labels}")
        for name in ("apply_softmax", "convert_to_numpy", "convert_to_tensor"):  # without effect there too
            options.pop(name, None)
        documents = list_of(documents, "documents")
        scores = self.predict([(query, d) for d in documents], prompt_name, prompt, batch_size, show_progress_bar, activation_fn,
                              device=device, pool=pool, chunk_size=chunk_size, **options)
        found: List[Dict[str, Any]] = [{"corpus_id": i, "score": float(s), **({"text": documents[i]} if return_documents else {})}
                                       for i, s in enumerate(scores)]
        return sorted(found, key=lambda row: -row["score"])[:None if top_k is None else integer(top_k, "top_k")]


def identity(x):
    return x


def sigmoid(x):
    numpy = _numpy()
    return numpy.float32(.5) * (numpy.tanh(numpy.float32(.5) * x) + numpy.float32(1))
