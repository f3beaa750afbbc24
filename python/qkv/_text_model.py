# SPDX-License-Identifier: MIT
"""What SentenceTransformer and CrossEncoder have in common: arguments about the model, prompts, devices and pools."""
import functools
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, TypeVar

from ._errors import DeviceError, UnsupportedError, UsageError
from ._hub import find_model, member
from ._library import Handle, choice, integer, list_of, shown
from ._tokenizer import Encoding, Tokenizer
from ._types import Pool
from .util import need_numpy

F = TypeVar("F", bound=Callable[..., Any])
DTYPES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "auto": None}
# What sentence-transformers has and qkv has not, with what to use instead.
ABSENT = {
    "fit": "qkv.train trains models", "old_fit": "qkv.train trains models", "save": "the folder of the model has all files",
    "save_pretrained": "the folder of the model has all files", "save_to_hub": "huggingface_hub uploads the folder of the model",
    "push_to_hub": "huggingface_hub uploads the folder of the model", "merge": "qkv does not merge models",
    "half": 'the argument precision="f16" selects the arithmetic', "bfloat16": 'the argument precision="bf16" selects the arithmetic',
    "compile": "libqkv is compiled", "forward": "encode and predict run the model", "transformers_model": "libqkv runs the model",
    "config": "config.json in the folder of the model has it", "parameters": "the weights are in libqkv",
    "gradient_checkpointing_enable": "qkv.train trains models",
}


def renamed(**names: str) -> Callable[[F], F]:
    """Returns a decorator: a keyword argument with an old name has the new one, which comes first if both are given."""
    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args, **options):
            for old, new in names.items():
                if old in options:
                    value = options.pop(old)
                    options.setdefault(new, value)
            return function(*args, **options)
        return call  # type: ignore[return-value]
    return decorate


def check_device(device):
    name = str(device) if isinstance(device, str) or type(device).__name__ == "device" else None  # torch.device
    if device is not None and name not in ("cpu", "cpu:0"):
        raise DeviceError(f"device: qkv computes on the CPU, found {shown(device)}")


def check_run(run, batch_size, device, pool, chunk_size, options):
    """Checks the arguments that have no effect on a call: the vectors have the same bits for each of their values."""
    integer(batch_size, "batch_size", 1)
    if chunk_size is not None:
        integer(chunk_size, "chunk_size", 1)
    for d in device if isinstance(device, list) else [device]:
        check_device(d)
    if pool is not None and not (isinstance(pool, dict) and "processes" in pool):
        raise UsageError(f"pool: expected what start_multi_process_pool returns, found {shown(pool)}")
    for name, value in options.items():
        if name == "processing_kwargs" and value:
            raise UnsupportedError(f"processing_kwargs: max_seq_length sets the most tokens of a text, found {shown(value)}")
        if name not in ("task", "processing_kwargs", "num_workers"):
            raise UsageError(f"{run}: no argument {name!r}")


def options_of(value, name):
    if value is not None and not isinstance(value, dict):
        raise UsageError(f"{name}: expected a dict or None, found {shown(value)}")
    return dict(value or {})


def model_options(precision, device, backend, model_kwargs, processor_kwargs, config_kwargs, **absent):
    """Checks what the constructors of sentence-transformers accept; returns (precision, model_max_length or None)."""
    check_device(device)
    if backend in ("onnx", "openvino"):
        raise UnsupportedError(f"backend: libqkv computes, expected 'torch', found {backend!r}")
    choice(backend, "backend", {"torch": None})
    for name, value in absent.items():
        if value is not None:
            raise UnsupportedError(f"{name}: expected None, found {shown(value)}")
    own, reader, config = (options_of(v, n) for v, n in ((model_kwargs, "model_kwargs"), (processor_kwargs, "processor_kwargs"),
                                                         (config_kwargs, "config_kwargs")))
    own.pop("attn_implementation", None)
    check_device(own.pop("device_map", None))
    for name in ("torch_dtype", "dtype"):
        dtype = own.pop(name, None)
        if dtype is not None:
            found = choice(str(dtype).rsplit(".", 1)[-1], f"model_kwargs: {name}", DTYPES)
            precision = precision or found
    length = reader.pop("model_max_length", None)
    reader.pop("padding_side", None)  # texts are packed without padding
    for name, rest in (("model_kwargs", own), ("processor_kwargs", reader), ("config_kwargs", config)):
        if rest:
            raise UnsupportedError(f"{name}: no effect of {sorted(map(str, rest))} in qkv")
    return precision or "f32", None if length is None else integer(length, "model_max_length", 1)


def find_folder(name, org, cache_folder, revision, local_files_only, token):
    """Returns the folder of a model, which is downloaded unless local_files_only."""
    cache_folder = cache_folder or os.environ.get("SENTENCE_TRANSFORMERS_HOME") or None
    return find_model(name, org=org, cache=cache_folder, revision=revision, download=not local_files_only, token=token)


class TextModel(Handle):
    """A model of texts; the methods that both classes have."""
    prompts: Dict[str, str]
    default_prompt_name: Optional[str]
    tokenizer: Tokenizer
    backend: str
    max_seq_length: int
    _folder: str
    device = "cpu"

    def __repr__(self):
        return f"{type(self).__name__}({self._folder!r})"

    if not TYPE_CHECKING:
        def __getattr__(self, name):
            why = f"; {ABSENT[name]}" if name in ABSENT else ""
            raise AttributeError(f"{type(self).__name__!r} object of qkv has no attribute {name!r}{why}")

    def _read_prompts(self, config, prompts, default_prompt_name, names):
        """Sets the prompts: of the caller, otherwise of the folder, otherwise the empty ones of `names`."""
        file = self._folder, "config_sentence_transformers.json"
        saved = member(config, "prompts", dict, *file) or {}
        for name in saved:
            member(saved, name, str, *file)
        self.prompts = {**names, **saved, **options_of(prompts, "prompts")}
        for name, prompt in self.prompts.items():
            if not isinstance(name, str) or not isinstance(prompt, str):
                raise UsageError(f"prompts: expected texts, found {shown(name)}: {shown(prompt)}")
        name = default_prompt_name or member(config, "default_prompt_name", str, *file)
        self.default_prompt_name = name
        if name is not None and (not isinstance(name, str) or name not in self.prompts):
            raise UsageError(f"default_prompt_name: no prompt {shown(self.default_prompt_name)}; there are {sorted(self.prompts)}")

    def _prompt(self, name, prompt):
        """Returns (name or None, text) of the prompt of a call: `prompt`, otherwise the named one, otherwise the default."""
        if prompt is None:
            name = name if name is not None else self.default_prompt_name
            if name is None:
                return None, ""
            if not isinstance(name, str) or name not in self.prompts:
                raise UsageError(f"prompt_name: no prompt {shown(name)}; there are {sorted(self.prompts)}")
            return name, self.prompts[name]
        if not isinstance(prompt, str):
            raise UsageError(f"prompt: expected a str, found {shown(prompt)}")
        return None, prompt

    def _encoding(self, s, pair=None) -> Encoding:
        raise NotImplementedError

    def preprocess(self, inputs: Sequence[Any], prompt: Optional[str] = None) -> Dict[str, Any]:
        """Returns the tokens of texts, or of pairs of texts, as numpy arrays [n][most]: input_ids, attention_mask, token_type_ids.

        Longer texts than max_seq_length are truncated; shorter ones have the id 0 and the mask 0 after their end.
        """
        numpy, encodings = need_numpy("tokenize"), []
        _, before = self._prompt(None, prompt or "")
        for i, x in enumerate(list_of(inputs, "inputs")):
            first, *rest = [x] if isinstance(x, str) else list_of(x, f"inputs[{i}]") or [None]
            if len(rest) > 1:
                raise UsageError(f"inputs[{i}]: expected a text or two, found {len(rest) + 1}")
            encodings.append(self._encoding(before + first if isinstance(first, str) else first, *rest))
        most = max((len(e.ids) for e in encodings), default=0)
        rows = lambda name: numpy.array([[*getattr(e, name), *[0] * (most - len(e.ids))] for e in encodings], "int64").reshape(len(encodings), most)
        return {"input_ids": rows("ids"), "attention_mask": rows("attention_mask"), "token_type_ids": rows("type_ids")}

    def tokenize(self, texts: Sequence[Any], **options) -> Dict[str, Any]:
        """As preprocess; sentence-transformers has deprecated this name."""
        return self.preprocess(texts, **options)

    @property
    def modalities(self) -> List[str]:
        """["text"]."""
        return ["text"]

    def supports(self, modality: Any) -> bool:
        """Returns whether the model reads such inputs: texts only."""
        return modality == "text"

    def get_backend(self) -> str:
        """Returns the argument backend of the constructor."""
        return self.backend

    def get_model_kwargs(self) -> List[str]:
        """Returns the names of further arguments of a call: none."""
        return []

    def get_max_seq_length(self) -> int:
        """Returns max_seq_length; sentence-transformers has deprecated this name."""
        return self.max_seq_length

    def start_multi_process_pool(self, target_devices: Optional[List[Any]] = None) -> Dict[str, Any]:
        """Returns a pool for the argument of that name; it has no processes, since the threads of libqkv share the texts of a call."""
        for device in [] if target_devices is None else list_of(target_devices, "target_devices"):
            check_device(device)
        return {"input": None, "output": None, "processes": []}

    @staticmethod
    def stop_multi_process_pool(pool: Pool) -> None:
        """Ends a pool, which has no processes."""

    def to(self, device: Any = None) -> "TextModel":
        """Returns the model; device: "cpu"."""
        check_device(device)
        return self

    def cpu(self) -> "TextModel":
        """Returns the model."""
        return self

    def eval(self) -> "TextModel":
        """Returns the model, which has no dropout."""
        return self

    def evaluate(self, evaluator: Callable[..., Any], output_path: Optional[str] = None) -> Any:
        """Returns evaluator(model, output_path), as the evaluators of sentence-transformers expect it."""
        if not callable(evaluator):
            raise UsageError(f"evaluator: expected a function, found {shown(evaluator)}")
        if output_path is not None:
            os.makedirs(output_path, exist_ok=True)
        return evaluator(self, output_path)

    @property
    def model_card_data(self) -> "NoCard":
        """An object without content, to which evaluators of sentence-transformers write their metrics."""
        return NoCard()


class NoCard:
    """A model card that stores nothing."""

    def set_evaluation_metrics(self, *_: Any) -> None:
        """Ignores metrics."""
