# SPDX-License-Identifier: MIT
"""The attention of a model of transformers as a View: the model runs with the attention "qkv", which hands over each call."""
import ctypes
import math
from typing import List, NamedTuple, Optional, Tuple

import torch

from . import _layout as c
from ._attention import Probe, make_probe, check_plan, run
from ._errors import DeviceError, Interrupted, UnsupportedError, UsageError
from ._library import call, integer, lib, raise_status, scratch, shown
from ._tokenizer import Tokenizer, utf8
from ._view import View, make_text, new_view, prettify
from ._view_lens import add_output
from ._view_output import try_output
from ._view_streams import Streams
from .torch import _broadcast, _call
from .transformers import observe


class Tokens(NamedTuple):
    """The tokens of a text or pair of texts."""
    ids: List[int]
    inputs: dict                     #: what the model receives besides the ids
    rows: List[tuple]                #: (raw, part, special, begin, end) of each token, as make_text expects
    sources: Tuple[Optional[bytes], Optional[bytes]]


class Call(NamedTuple):
    """The arguments of one attention of the model, which are all in memory linear in the tokens but the mask."""
    name: str
    q: torch.Tensor        #: [1][H][T][E]
    k: torch.Tensor        #: [1][G][S][E]
    v: torch.Tensor        #: [1][G][S][F]
    mask: Optional[torch.Tensor]
    causal: bool
    window: Optional[Tuple[int, int]]
    scale: float
    softcap: float
    sinks: Optional[torch.Tensor]
    lse: torch.Tensor      #: [1][H][T]

    @property
    def shape(self):
        return self.q.shape[1], self.q.shape[2], self.k.shape[2]

    def prepared(self):
        """Returns the call as the operator runs it."""
        bias, mask = _broadcast(self.mask, (1, *self.shape))
        window = self.window or (-1, -1)
        return _call(self.q, self.k, self.v, bias, mask, self.sinks, self.causal, *window, self.scale, self.softcap, 0.0, None)


class Calls(observe):
    """Collects the arguments of every attention of a model inside `with`, in `arguments`."""

    def __init__(self, model, progress):
        super().__init__(model, top_k=1)
        self.arguments: List[Call] = []
        self.progress = progress
        self.total = getattr(model.config.get_text_config(), "num_hidden_layers", None) if hasattr(model, "config") else None

    def __len__(self):
        return len(self.arguments)

    def _collect(self, module, query, key, value, attention_mask, causal, window, scale, softcap, sinks, lse):
        name = self._names.get(id(module))
        if name is None:
            return
        keep = lambda x: None if x is None else x.detach().float().contiguous()
        scale = query.shape[3]**-.5 if scale is None else scale
        self.arguments.append(Call(name, keep(query), keep(key), keep(value), attention_mask, causal, window, scale, softcap,
                                   keep(sinks), keep(lse)))
        if self.progress and self.progress("layers", len(self.arguments), self.total):
            raise Interrupted("a callback stopped the run")


def byte_places(source):
    """Returns the byte offset of each character of a text, and of its end."""
    places = [0]
    for letter in source:
        places.append(places[-1] + len(letter.encode()))
    return places


def read_text(tokenizer, text, pair, target=False) -> Tokens:
    """Tokenizes texts; target: as the output of an encoder-decoder."""
    sources = (utf8(text, "text"), None if pair is None else utf8(pair, "pair"))
    if isinstance(tokenizer, Tokenizer):
        e = tokenizer.encode(text, pair)
        rows = [(token.encode(), kind == 1 if part is None else part, part is None, *place)
                for token, part, kind, place in zip(e.tokens, e.text_ids, e.type_ids, e.byte_offsets)]
        return Tokens(e.ids, dict(attention_mask=e.attention_mask, token_type_ids=e.type_ids), rows, sources)
    if not callable(tokenizer) or not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise UsageError(f"tokenizer: expected a tokenizer of transformers or a qkv.Tokenizer, found {shown(tokenizer)}")
    fast = bool(getattr(tokenizer, "is_fast", False))
    words = dict(text_target=text) if target else dict(text=text, text_pair=pair)
    found = tokenizer(**words, return_offsets_mapping=fast)
    ids = [int(i) for i in found["input_ids"]]
    names = [str(t) for t in tokenizer.convert_ids_to_tokens(ids)]
    special, rows = set(tokenizer.all_special_ids), []
    parts = found.sequence_ids(0) if fast else [None if i in special else 0 for i in ids]
    kinds = found.get("token_type_ids") or [0] * len(ids)
    raw = [s or b"" for s in sources]
    places = [byte_places(s.decode()) for s in raw]
    for i, (token, part, kind) in enumerate(zip(names, parts, kinds)):
        begin = end = 0
        if fast and part is not None:
            begin, end = (places[part][x] for x in found["offset_mapping"][i])
            while begin + 1 < end and raw[part][begin:begin + 1] == b" ":  # the space before a word
                begin += 1
        rows.append((token.encode("utf-8", "replace"), kind == 1 if part is None else part == 1, part is None, begin, end))
    inputs = {name: list(x) for name, x in found.items() if name not in ("input_ids", "offset_mapping", "labels")}
    return Tokens(ids, inputs, rows, sources)


def of_ids(tokenizer, ids) -> Tokens:
    """Returns tokens without a text."""
    if isinstance(tokenizer, Tokenizer):
        names, special = [tokenizer.id_to_token(i) or f"#{i}" for i in ids], {i for i in ids if tokenizer.is_special(i)}
    else:
        names, special = tokenizer.convert_ids_to_tokens(ids), set(tokenizer.all_special_ids)
    rows = [(prettify(str(n).encode("utf-8", "replace")), 0, i in special, 0, 0) for n, i in zip(names, ids)]
    return Tokens(ids, {}, rows, (None, None))


def as_text(tokens):
    rows = [(raw.replace(b"\0", b"?"), *rest) for raw, *rest in tokens.rows]
    return make_text(rows, tokens.sources)


def view_of_model(text, pair, model, tokenizer, budget, progress, view=None, token=None) -> View:
    """Runs a model of transformers on a text and returns its View; view and token: what is shown first (qkv.view)."""
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "set_attn_implementation"):
        raise UsageError(f"model: expected a model of transformers, since there is a tokenizer; found {shown(type(model))}")
    if tokenizer is None:
        raise UsageError("tokenizer: a model of transformers needs its tokenizer")
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    if device.type != "cpu":
        raise DeviceError(f"model: qkv computes on the CPU, found {device}")
    budget, training = integer(budget, "budget", 1), [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            if getattr(model.config, "is_encoder_decoder", False):
                return view_of_pair(text, pair, model, tokenizer, budget, progress, view, token)
            tokens = read_text(tokenizer, text, pair)
            inputs = inputs_of(model, tokens)
            with Streams(model) as streams:
                calls, ran = collect(model, inputs, progress)
            names = [x.name for x in calls]
            made = make_view(model, [as_text(tokens)], [("attention", 0, 0, calls)], budget, [streams.of(names)])
            # One token attends to itself only, as in a decoder.
            causal = len(tokens.ids) == 1 or all(is_causal(x) for x in calls)
            try_output(made, view, lambda: add_output(made, model, tokenizer, inputs, ran, streams, names, tokens.ids, causal, token))
            return made
    finally:
        for module, flag in training:  # some may have been in eval() alone
            module.training = flag


def inputs_of(model, tokens):
    """Returns the inputs of a model."""
    size = getattr(model.get_input_embeddings(), "num_embeddings", None)
    if size is not None and max(tokens.ids, default=0) >= size:
        raise UsageError(f"tokenizer: expected the tokenizer of the model, whose vocabulary has {size} tokens, found token {max(tokens.ids)}")
    if not tokens.ids:
        raise UsageError("text: no tokens")
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if isinstance(most, int) and 0 < most < len(tokens.ids):
        raise UsageError(f"text: the model has {most} positions, found {len(tokens.ids)} tokens")
    inputs = {"input_ids": tokens.ids, **tokens.inputs}
    if not getattr(model.config.get_text_config(), "type_vocab_size", 0):  # GPT-2 would read types as tokens
        inputs.pop("token_type_ids", None)
    return {name: torch.tensor([x]) for name, x in inputs.items()}


def collect(model, inputs, progress):
    """Runs the model once and returns (Calls, what it returned)."""
    with Calls(model, progress) as found:
        ran = model(**inputs)
    if not found.arguments:
        raise UnsupportedError(f"model: the attention of {type(model).__name__} does not use the interface of transformers")
    return found.arguments, ran


def view_of_pair(source, target, model, tokenizer, budget, progress, view, token):
    """Shows an encoder-decoder on a source and its output: `target`, or what the model generates."""
    tokens = read_text(tokenizer, source, None)
    inputs = inputs_of(model, tokens)
    if target is None:
        ids = [int(i) for i in model.generate(**inputs)[0]]
    else:
        start = model.config.decoder_start_token_id
        start = model.generation_config.decoder_start_token_id if start is None else start
        ids = [start, *read_text(tokenizer, target, None, True).ids]
    if len(ids) < 2 or ids[0] is None:
        raise UsageError("the output of the model has no tokens: expected a second text with words")
    # A step of the decoder reads a token and writes the next one.
    read, written = of_ids(tokenizer, ids[:-1]), of_ids(tokenizer, ids[1:])
    encoder = {id(m) for m in model.get_encoder().modules()}
    of_encoder = {name for name, m in model.named_modules() if id(m) in encoder}
    inputs["decoder_input_ids"] = torch.tensor([ids[:-1]])
    with Streams(model) as streams:
        calls, ran = collect(model, inputs, progress)
    inside = [x for x in calls if x.name in of_encoder]
    rest = [x for x in calls if x.name not in of_encoder]
    own, cross = rest[0::2], rest[1::2]  # each layer of the decoder: its own tokens, then the tokens of the encoder
    T, S = len(read.ids), len(tokens.ids)
    if len(own) != len(cross) or any(x.shape[1:] != (T, T) for x in own) or any(x.shape[1:] != (T, S) for x in cross):
        raise UnsupportedError(f"model: {type(model).__name__} has other attention than self-attention and cross-attention")
    stacks = [("encoder", 0, 0, inside), ("decoder", 1, 1, own), ("cross", 2, 0, cross)]
    names = [x.name for x in own]
    residual = [streams.of([x.name for x in inside]), streams.of(names)]
    made = make_view(model, [as_text(x) for x in (tokens, read, written)], stacks, budget, residual)
    try_output(made, view, lambda: add_output(made, model, tokenizer, inputs, ran, streams, names, ids, True, token))
    return made


def make_view(model, texts, stacks, budget, residual):
    """Makes a View of stacks (name, text of the rows, text of the keys, calls); residual: of each but cross-attention a Stream per layer."""
    shapes, found = [], all(residual)
    for i, (name, rows, keys, calls) in enumerate(stacks):
        heads, T, S = calls[0].shape
        if any(x.shape != (heads, T, S) for x in calls):
            raise UnsupportedError(f"model: layers of {name} have attention of different shapes")
        alike = len({(x.k.shape[1], x.q.shape[3], x.v.shape[3]) for x in calls}) == 1
        x, causal = calls[0], rows == keys and T > 1 and all(is_causal(x) for x in calls)
        shapes.append(c.ViewStack(name=name.encode(), rows=rows, keys=keys, layers=len(calls), heads=heads, causal=causal,
                                  kv_heads=x.k.shape[1] if alike else 0, head_width=x.q.shape[3] if alike else 0,
                                  value_width=x.v.shape[3] if alike else 0,
                                  width=residual[i][0].before.shape[1] if found and i < len(residual) else 0))
    name = getattr(model, "name_or_path", "") or type(model).__name__
    made = new_view(name.rstrip("/").rsplit("/", 1)[-1], texts, shapes)
    if not found:
        made._missing["residual"] = (f"no residual stream found in {type(model).__name__}, expected layers that add the outputs of "
                                     "attention and of the feed-forward network to their input, without a factor")
    request = c.ProbeRequest()
    probed = lib.view_probe_request(made._at, budget, ctypes.byref(request))
    for i, (shape, (*_, calls)) in enumerate(zip(shapes, stacks)):
        for layer, x in enumerate(calls):
            add = add_probe if probed else add_layer
            add(made, i, layer, x, request, shape)
            if shape.width:
                s = residual[i][layer]
                after = (ctypes.c_void_p * 3)(s.attention.data_ptr(), None if s.cross is None else s.cross.data_ptr(), s.after.data_ptr())
                call(lib.view_residual, made._at, i, layer, s.before.data_ptr(), ctypes.addressof(after))
    return made


def is_causal(x):
    """Returns whether no row of a call attends to a later key."""
    if x.causal or x.mask is None:
        return x.causal
    bias, mask = _broadcast(x.mask, (1, *x.shape))
    later = torch.ones(x.shape[1:], dtype=torch.bool).triu(1)
    seen = mask if mask is not None else bias > torch.finfo(torch.float32).min / 2
    return not bool((seen & later).any())


def add_layer(made, stack, layer, x, _request, shape):
    """Adds a layer of a short text: its queries and keys if they alone give its weights, otherwise the weights."""
    H, T, S = x.shape
    weights = run(x.prepared(), weights=True).weights[0]
    row, key = torch.arange(T)[:, None], torch.arange(S)[None]
    used = (weights > 0).any(0)
    left, right = (int(torch.where(used, d, -1).max()) for d in (row - key, key - row))
    left, right = max(left, 0), max(right, 0)
    data, keep = c.ViewLayerData(scale=x.scale, softcap=x.softcap), []
    if shape.head_width:
        arrays = [y[0].transpose(0, 1).contiguous() for y in (x.q, x.k, x.v)]
        scores = x.scale * (x.q[0] @ x.k[0].repeat_interleave(H // x.k.shape[1], 0).transpose(1, 2))
        if x.softcap:
            scores = x.softcap * torch.tanh(scores / x.softcap)
        inside = (row - key <= left) & (key - row <= right)
        again = torch.where(inside & torch.isfinite(x.lse[0])[..., None], torch.exp(scores - x.lse[0][..., None]), 0.)
        # |exp(s - lse) - w|: the error of a float score, of E products and below 100, is far below 1e-4
        if (again - weights).abs().max().item() < 1e-4:
            data.q, data.k, data.lse, data.window = arrays[0].data_ptr(), arrays[1].data_ptr(), x.lse.data_ptr(), True
            data.left, data.right = (-1 if left >= T - 1 else left), (-1 if right >= S - 1 else right)
        data.v = arrays[2].data_ptr()
        keep = arrays
    if not data.q:
        weights = weights.contiguous()
        data.weights = weights.data_ptr()
    call(lib.view_layer, made._at, stack, layer, ctypes.byref(data))
    del keep, weights


def add_probe(made, stack, layer, x, request, _shape):
    """Adds a layer of a long text: the statistics that its page shows."""
    prepared = x.prepared()
    wanted = Probe(top_k=min(request.top_k, x.shape[2]), received=True, entropy=True, distance=True, side=request.side)
    probe, _statistics, _keep = make_probe(prepared, wanted)
    at = ctypes.byref(prepared.a)
    planned = check_plan(lib.attention_probe_plan(at, ctypes.byref(probe)))
    raise_status(lib.attention_probe(ctypes.byref(probe), prepared.q.at, prepared.k.at, x.lse.data_ptr(), at, scratch(planned.scratch)),
                 "attention_probe refused its arrays")
    data = c.ViewLayerData(probe=ctypes.addressof(probe), scale=x.scale, softcap=x.softcap)
    call(lib.view_layer, made._at, stack, layer, ctypes.byref(data))
