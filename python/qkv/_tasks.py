# SPDX-License-Identifier: MIT
"""Generates, translates, ablates heads, attributes and trains: the calls of generate.h, ablate.h and train.h."""
import ctypes
import os
import queue
import threading
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _layout as c
from ._errors import Interrupted, UnsupportedError, UsageError
from ._hub import find_model
from ._library import PRECISIONS, Callbacks, Handle, call, choice, function_or_none, integer, lib, list_of, number, shown, text
from ._progress import Bar
from ._tokenizer import Tokenizer, string_array, utf8
from ._types import Path, Progress, Texts

ENDINGS = {c.END_TOKEN: "token", c.END_STOP: "stop", c.END_TOKENS: "tokens", c.END_POSITIONS: "positions"}


class Generated(NamedTuple):
    """One output of generate or translate."""
    text: str
    ids: List[int]
    ending: str                      #: "token", "stop", "tokens" (max_tokens) or "positions"
    logprobs: Optional[List[float]]  #: of each token, with logprobs=True
    score: float                     #: of the beam; NaN without beam search
    prompt: int                      #: index of the prompt
    rank: int                        #: index among the outputs of the prompt, best first


class Generator(Handle):
    """A decoder with its tokenizer.  One thread at a time may use it."""
    _close, _open_function, _run = "generator_close", "generator_open", "generate"

    def __init__(self, model: Optional[Path] = None, *, precision: str = "f32", cache: str = "f32", items: int = 0):
        """precision and cache: of the products and of the KV cache; items: the most sequences at once, 0: 8."""
        super().__init__()
        if model is None:
            model = find_for_job(self._job)
        o = c.GeneratorOptions(cache=choice(cache, "cache", PRECISIONS), items=integer(items, "items", 0, 64))
        o.model.precision = choice(precision, "precision", PRECISIONS)
        self._busy = threading.Lock()
        self._streams: Dict[threading.Thread, threading.Event] = {}
        call(getattr(lib, self._open_function), ctypes.byref(self._pointer), text(find_model(model), "model"), ctypes.byref(o))
        self.tokenizer = Tokenizer._of(getattr(lib, self._open_function.replace("open", "tokenizer"))(self._pointer), self)

    _job = c.JOB_GENERATE

    def close(self) -> None:
        """Ends the stream and waits for its thread, then frees the memory; later calls raise UsageError."""
        streams = list(getattr(self, "_streams", {}).items())
        for _, ended in streams:
            ended.set()
        for thread, _ in streams:
            if thread is not threading.current_thread():  # a callback of the stream may call close()
                thread.join()
        super().close()

    def _options(self, calls, keep, max_tokens=0, min_tokens=0, temperature=None, top_k=None, top_p=None, min_p=None,
                 repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, no_repeat_ngram_size=0, seed=0,
                 stop=(), num_beams=0, num_return_sequences=0, length_penalty=0.0, prefix=None, logprobs=False,
                 truncate=False, ignore_end=False, progress=None):
        # None: as the folder says, which is 0 in the library; its -1 is no limit, as are 0 and -1 here
        given = lambda value, name, least: 0 if value is None else number(value, name) or least
        s = c.Sampling(temperature=given(temperature, "temperature", 0), top_k=0 if top_k is None else integer(top_k, "top_k", -1) or -1,
                       top_p=given(top_p, "top_p", 0), min_p=given(min_p, "min_p", -1),
                       repetition=number(repetition_penalty, "repetition_penalty"),
                       presence=number(presence_penalty, "presence_penalty"),
                       frequency=number(frequency_penalty, "frequency_penalty"),
                       no_repeat_ngram=integer(no_repeat_ngram_size, "no_repeat_ngram_size", -1),
                       seed=integer(seed, "seed", 0, 2**64 - 1))
        stops = [stop] if isinstance(stop, str) else list_of(stop, "stop")
        array, _, raw = string_array(stops, "stop")
        prefix = None if prefix is None else utf8(prefix, "prefix")
        if any(b"\0" in x for x in (*raw, prefix or b"")):
            raise UsageError("stop, prefix: expected texts without NUL")
        keep += [array, raw, prefix]
        return c.GenerateOptions(
            own_sampling=temperature == 0, sampling=s, max_tokens=integer(max_tokens, "max_tokens"), min_tokens=integer(min_tokens, "min_tokens", -1),
            stop=ctypes.addressof(array), stops=len(stops), beams=integer(num_beams, "num_beams", 0, 10**6),
            n_best=integer(num_return_sequences, "num_return_sequences", 0, 10**6),
            length_penalty=number(length_penalty, "length_penalty"), prefix=prefix, logprobs=int(bool(logprobs)),
            truncate=bool(truncate), ignore_end=bool(ignore_end), progress=calls.progress(function_or_none(progress, "progress")))

    def _call(self, prompts, token, options):
        calls, outputs = Callbacks(), []
        keep: List[Any] = []

        def output(at):
            g = at.contents
            ids = list((ctypes.c_int32 * g.tokens).from_address(g.ids)) if g.tokens else []
            values = list((ctypes.c_float * g.tokens).from_address(g.logprobs)) if g.logprobs and g.tokens else None
            outputs.append(Generated(ctypes.string_at(g.text, g.bytes).decode("utf-8", "replace"), ids, ENDINGS[g.ending],
                                     values, g.score, g.prompt, g.rank))
            return 0
        try:
            o = self._options(calls, keep, **options)
        except TypeError as error:
            raise UsageError(str(error).replace("Generator._options()", self._run)) from None
        o.output = calls.wrap(output, ctypes.POINTER(c.Generated))
        if token:
            o.token = calls.wrap(token, ctypes.POINTER(c.GeneratedToken))
        texts, sizes, _raw = string_array(prompts, "prompts")
        at = self._at
        if not self._busy.acquire(blocking=False):
            at.end()
            raise UsageError(f"{type(self).__name__}: another call of this object is running")
        try:
            calls.call(getattr(lib, self._run), at, texts, sizes, len(prompts), ctypes.byref(o))
        finally:
            self._busy.release()
        return outputs

    def __call__(self, prompts: Texts, *, details: bool = False, stream: bool = False, **options) -> Any:
        """Continues a prompt (a str gives a str) or several (a list gives a list); see generate()."""
        single = isinstance(prompts, str)
        prompts = [prompts] if isinstance(prompts, str) else list_of(prompts, "prompts")
        if stream:
            check_stream(type(self), details, options)
            if not single:
                raise UsageError("stream: expected one prompt")
            return self._stream(prompts, options)
        found = self._call(prompts, None, options)
        found = found if details else [g.text for g in found]
        return found[0] if single and len(found) == 1 else found

    def _stream(self, prompts, options) -> Iterator[str]:
        """Yields the text of each token; the call runs in a thread that ends when iterator or generator are closed."""
        ended, process = threading.Event(), os.getpid()
        waiting: "queue.Queue[Any]" = queue.Queue(maxsize=64)

        def put(item):
            while not ended.is_set():
                try:
                    return waiting.put(item, timeout=.05)
                except queue.Full:
                    pass

        def put_last(item):  # also without a reader: replaces waiting texts once the stream has ended
            while True:
                try:
                    return waiting.put(item, timeout=.05)
                except queue.Full:
                    pass
                if ended.is_set():
                    try:
                        waiting.get_nowait()
                    except queue.Empty:
                        pass

        def token(at):
            t = at.contents
            if t.bytes:
                put(ctypes.string_at(t.text, t.bytes).decode("utf-8", "replace"))
            return ended.is_set()

        def work():
            try:
                self._call(prompts, token, options)
                put_last(None)
            except BaseException as error:
                put_last(error)
        thread = threading.Thread(target=work, daemon=True)
        try:
            thread.start()
            self._streams[thread] = ended
            while True:
                if os.getpid() != process:
                    raise UsageError("stream: its thread belongs to the process that began it, which has forked")
                item = waiting.get()
                if item is None:
                    return
                if isinstance(item, Interrupted) and ended.is_set():
                    raise UsageError(f"{type(self).__name__}: this object was closed during the stream")
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            ended.set()
            if thread.ident is not None and thread is not threading.current_thread():  # a callback may close the iterator
                thread.join()
            self._streams.pop(thread, None)


class Translator(Generator):
    """An encoder-decoder with its tokenizer.  One thread at a time may use it."""
    _close, _open_function, _run, _job = "translator_close", "translator_open", "translate", c.JOB_TRANSLATE


def find_for_job(job):
    folder, why = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(512)
    call(lib.model_find_for, job, folder, len(folder), why, len(why), None)
    return os.fsdecode(folder.value)


def generate(prompts: Texts, model: Union[Path, Generator, None] = None, *, stream: bool = False, details: bool = False, **options) -> Any:
    """Continues a prompt with a decoder: a str for a str, a list for a list.

    model                a folder, a name, or a Generator, which stays open for more calls
    stream               True: an iterator over the text of each token as it is generated (of one prompt, without num_beams)
    details              True: Generated tuples instead of texts
    max_tokens           the most tokens of an output; 0: as the model folder says, otherwise 256
    temperature, top_k, top_p, min_p, seed   sampling; temperature 0: the most likely token; without them as the model
                         folder says: sampled with do_sample in generation_config.json, otherwise the most likely token;
                         top_k and min_p -1 or 0, top_p 1: no limit, whatever the folder says
    repetition_penalty, presence_penalty, frequency_penalty, no_repeat_ngram_size, min_tokens, stop, prefix,
    num_beams, num_return_sequences, length_penalty, logprobs, truncate, ignore_end
    progress             function(what, done, total); True as its result stops the call
    """
    return with_open(Generator, prompts, model, stream, details, options)


def translate(sources: Texts, model: Union[Path, Translator, None] = None, *, details: bool = False, **options) -> Any:
    """Translates a text or a list of texts with an encoder-decoder; the options are the same as of generate, without `stream`."""
    return with_open(Translator, sources, model, options.pop("stream", False), details, options)


def with_open(cls, prompts, model, stream, details, options):
    if isinstance(model, cls):
        return model(prompts, stream=stream, details=details, **options)
    if stream:
        check_stream(cls, details, options)
        return stream_and_close(cls(model), prompts, options)
    with cls(model) as opened:
        return opened(prompts, details=details, **options)


def check_stream(cls, details, options):
    if issubclass(cls, Translator):
        raise UnsupportedError("stream: a translator has its output at the end of its search; a stream needs a decoder")
    if details:
        raise UsageError("stream, details: expected one of them, since a stream yields texts")
    for name in ("num_beams", "num_return_sequences"):
        if integer(options.get(name, 0), name, 0, 10**6) > 1:
            raise UsageError(f"stream, {name}: a stream yields the tokens of one output, found {options[name]}")


def stream_and_close(opened, prompts, options):
    with opened:
        yield from opened(prompts, stream=True, **options)


class Effects(NamedTuple):
    """The effect of ablating each head of a text."""
    unit: str          #: "1 - cosine" or "nats"
    loss: float        #: of the unchanged model in nats per token; 0 for encoders
    effect: List[List[float]]  #: [layers][heads]; of an encoder-decoder the layers of all stacks
    changes: List[List[List[tuple]]]  #: [layers][heads] (token, before, after), the largest change first
    tokens: List[str]  #: of the text; of an encoder-decoder the tokens of its output, from the start token on
    layers: List[Tuple[str, int]]  #: stack ("attention", or "encoder", "decoder" and "cross") and index of each layer of effect


KINDS = {"zero": c.ABLATE_ZERO, "mean": c.ABLATE_MEAN, "uniform": c.ABLATE_UNIFORM}
STACKS = {c.PART_STACK: "attention", c.PART_ENCODER: "encoder", c.PART_DECODER: "decoder", c.PART_CROSS: "cross"}


def ablate(text: str, pair: Optional[str] = None, *, model: Optional[Path] = None, kind: str = "zero", changes: int = 5,
           progress: Progress = None) -> Effects:
    """Measures the effect of each head of a model on a text by ablating one head at a time (include/qkv/ablate.h).

    kind: the head's output becomes "zero", its "mean", or that of "uniform" weights.  Of an encoder-decoder `text` is the
    source and `pair` the output; None: what the model generates.
    """
    from ._view_folder import Model
    calls, e = Callbacks(), c.Effects()
    o = c.EffectsOptions(kind=choice(kind, "kind", KINDS), changes=integer(changes, "changes", 1),
                         progress=calls.progress(function_or_none(progress, "progress")))
    with Model(model) as opened:
        tokens, run, _keep = opened.read_pair(text, pair)
        calls.call(lib.ablate_scan, ctypes.byref(e), opened._at, ctypes.byref(run), ctypes.byref(o))
        try:
            found = Effects(e.unit.decode(), e.loss, [], [], tokens, [])
            for s in e.stack[:e.stacks]:
                count = s.layers * s.heads
                effect = list((ctypes.c_float * count).from_address(s.effect))
                stored = (c.Change * (count * e.changes)).from_address(s.change)
                rows = [[(x.token, x.before, x.after) for x in stored[i * e.changes:(i + 1) * e.changes] if x.token >= 0]
                        for i in range(count)]
                for layer in range(s.layers):
                    heads = slice(layer * s.heads, (layer + 1) * s.heads)
                    found.effect.append(effect[heads])
                    found.changes.append(rows[heads])
                    found.layers.append((STACKS[s.part], layer))
            return found
        finally:
            lib.effects_free(ctypes.byref(e))


class Attribution(NamedTuple):
    """The cosine of the vectors of two texts, attributed to pairs of their tokens."""
    cosine: float
    terms: List[List[float]]  #: [tokens of the first text][tokens of the second]; their sum is the cosine
    tokens: Tuple[List[str], List[str]]


def attribute(first: str, second: str, *, model: Any = None) -> Attribution:
    """Splits the cosine of the vectors of two texts into one term per pair of their tokens (qkv_why, include/qkv/ablate.h).

        a = qkv.attribute("a happy dog", "a joyful puppy", model="all-MiniLM-L6-v2")
        a.terms[2][3]            # what the tokens 2 of the first text and 3 of the second add to a.cosine

    model: a folder, a name, or a SentenceTransformer, whose default prompt precedes the texts.  A model whose vectors are
    no sums over tokens (another pooling than the mean, a module with a bias or an activation) is an UnsupportedError.
    """
    from ._texts import SentenceTransformer
    if isinstance(model, SentenceTransformer):
        return attribute_with(model, first, second)
    with SentenceTransformer(model, local_files_only=True) as opened:
        return attribute_with(opened, first, second)


def attribute_with(model, first, second):
    for name, value in (("first", first), ("second", second)):
        utf8(value, name)
    embedder, sentences = model._with_prompt([first, second], None, None)
    raw, w = [s.encode() for s in sentences], c.Why()
    try:
        call(lib.why, ctypes.byref(w), embedder, raw[0], len(raw[0]), raw[1], len(raw[1]))
        terms = list((ctypes.c_double * (w.rows * w.columns)).from_address(w.terms)) if w.rows * w.columns else []
        tokens = tuple(model.tokenizer._read(e, x, None).tokens for e, x in zip(w.text, raw))
        return Attribution(w.cosine, [terms[i * w.columns:(i + 1) * w.columns] for i in range(w.rows)], tokens)
    finally:
        lib.why_free(ctypes.byref(w))


def as_members(struct):
    """Returns the numbers and texts of a structure as a SimpleNamespace."""
    read = lambda x: x.decode("utf-8", "replace") if isinstance(x, bytes) else x
    return SimpleNamespace(**{name: read(getattr(struct, name)) for name, _ in struct._fields_})


def train(run: Path, texts: Union[Path, Sequence[Path]] = (), *, valid: Union[Path, Sequence[Path]] = (),
          format: Optional[str] = None, field: Union[str, int, None] = None, field_b: Union[str, int, None] = None,
          per_line: bool = False, step: Optional[Callable[[SimpleNamespace], Any]] = None,
          note: Optional[Callable[[str], Any]] = None, progress: Progress = None, show_progress_bar: Optional[bool] = None,
          **options) -> SimpleNamespace:
    """Trains a model on text files and returns the results (struct qkv_train_result) as a namespace.

        qkv.train("run", ["book.txt"], arch="gpt", layers=2, width=64, steps=100, step=lambda s: print(s.step, s.loss))

    run       folder of the run; an existing run continues
    texts, valid   files or folders; format "text", "jsonl" or "tsv"; field, field_b, per_line as in qkv_text_source
    step      function(s) after each step with s.step, s.loss, s.valid_loss, s.rate, s.norm, s.tokens_second, s.left;
              True as its result saves the run and stops it with Interrupted, and so does Ctrl-C
    note      function(text) for notes;  progress: function(what, done, total) before the first step
    show_progress_bar   a bar of tqdm with the loss, if tqdm is installed; None: if logging is at INFO or DEBUG
    options   every other member of struct qkv_train_options: objective, arch, source model `from_`, layers, heads,
              width, context, tokenizer, vocab, steps, epochs, batch_tokens, rate, seed, export_dir, ...
    """
    calls, keep = Callbacks(), []
    o = c.TrainOptions(run=text(run, "run"))
    for name, files in (("train", texts), ("valid", valid)):
        files = [files] if isinstance(files, str) or hasattr(files, "__fspath__") else list_of(files, name)
        paths = [text(p, name) for p in files]
        array = (ctypes.c_char_p * len(paths))(*paths)
        keep.append(array)
        s = c.TextSource(paths=ctypes.addressof(array), n=len(paths), per_line=bool(per_line))
        for member, value in (("format", format), ("field", field), ("field_b", field_b)):
            if value is not None:
                setattr(s, member, text(str(value) if isinstance(value, int) else value, member))
        setattr(o, name, s)
    set_members(o, options)

    def stepped(at):
        s = at.contents
        bar.to(s.step, s.steps, s.step - 1, **{name: f"{x:.4g}" for name, x in (("loss", s.loss), ("valid", s.valid_loss)) if x == x})
        return bool(step(as_members(s))) if step else 0

    def noted(message):
        if note:
            note(message.decode("utf-8", "replace"))
    for name, function in (("step", step), ("note", note), ("progress", progress)):
        function_or_none(function, name)
    observer = c.TrainObserver(step=calls.wrap(stepped, ctypes.POINTER(c.TrainStep)),
                               note=calls.wrap(noted, ctypes.c_char_p, result=None), progress=calls.progress(progress))
    result = c.TrainResult()
    with Bar(show_progress_bar, "steps") as bar:
        calls.call(lib.train, ctypes.byref(o), ctypes.byref(observer), ctypes.byref(result))
    return as_members(result)


def set_members(struct, options):
    """Sets members of a structure by name; from_ is `from`, a word of Python."""
    kinds = dict(struct._fields_)
    for name, value in options.items():
        member = name.rstrip("_")
        kind = kinds.get(member)
        if kind is ctypes.c_char_p:
            value = text(value, name)
        elif kind is ctypes.c_int64 or kind is ctypes.c_int:
            value = integer(value, name, -2**62)
        elif kind is ctypes.c_double:
            value = number(value, name)
        elif kind is ctypes.c_bool:
            if not isinstance(value, bool):
                raise UsageError(f"{name}: expected True or False, found {shown(value)}")
        else:
            raise UsageError(f"no option {name!r}")
        setattr(struct, member, value)
