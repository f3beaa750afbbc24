# SPDX-License-Identifier: MIT
"""Attention of Hugging Face models on libqkv, and its statistics, for every model with the attention interface.

    import qkv.transformers
    model.set_attn_implementation("qkv")            # forward and backward
    with qkv.observe(model, top_k=16) as seen:      # statistics of every layer and head, in memory linear in the tokens
        model(**inputs)
    seen[3].top_key[0, 5]                           # layer 3, head 5: [tokens][16]
"""
import ctypes
from typing import Any, List, NamedTuple, Optional, Tuple

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask

from ._attention import Probe, Statistics, check_plan, make_probe
from ._errors import UnsupportedError, UsageError
from ._library import lib, raise_status, scratch, shown
from ._masks import LinearMask, linear_mask, padding_of
from .torch import _autocast, _broadcast, _call, attention

_observers: List["observe"] = []  # the observers in use, of all models
# Keywords of an attention function that change its result and that this one does not compute.
_UNSUPPORTED = ("block_indices", "sinks", "head_mask", "alibi", "score_mod", "block_mask")


def attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None,
                      position_bias=None, softcap=None, s_aux=None, indices=None, **kwargs):
    """The function "qkv" of transformers' AttentionInterface: query [B][H][T][E], key and value [B][G][S][E].

    s_aux are attention sinks [H]; a sliding window is in the mask; indices [B][T][k] are the keys that each query may
    attend to.  Returns (out [B][T][H][F], None).
    """
    if kwargs.get("cache") is not None:
        raise UnsupportedError("attention: the paged cache of continuous batching")
    for name in _UNSUPPORTED:
        if kwargs.get(name) is not None:
            raise UnsupportedError(f"attention: the argument {name} of {shown(type(module))}")
    if kwargs.get("output_attentions"):
        raise UnsupportedError("output_attentions: qkv does not store the weights; qkv.observe collects statistics, and "
                               'set_attn_implementation("eager") has the weights')
    rule = None
    if isinstance(attention_mask, LinearMask):
        if attention_mask.shape[2:] == (query.shape[2], key.shape[2]) and indices is None and position_bias is None:
            rule = attention_mask.rule
        if rule is None:
            attention_mask = attention_mask.to_dense_mask()
    if rule is not None:
        causal, window, attention_mask = rule
    else:
        causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        causal = bool(causal) and attention_mask is None and query.shape[2] > 1
        window = None
    if causal and rule is None and query.shape[2] != key.shape[2]:  # the last rows of a causal call: the last query is at the last key
        causal, window = False, (-1, 0)
    if attention_mask is not None and attention_mask.shape[-1] > key.shape[2]:
        attention_mask = attention_mask[..., :key.shape[2]]
    if indices is not None:
        attention_mask = _only(indices, attention_mask, query.shape[0], query.shape[2], key.shape[2])
    if position_bias is not None:
        if attention_mask is not None and attention_mask.dtype == torch.bool:
            attention_mask = torch.where(attention_mask, position_bias, -torch.inf)
        else:
            attention_mask = position_bias if attention_mask is None else position_bias + attention_mask
    key, value = key.to(query.dtype), value.to(query.dtype)
    query, key, value, attention_mask = _autocast(query, key, value, attention_mask)  # the observers read these
    out, lse = attention(query, key, value, attention_mask, dropout_p=dropout, is_causal=causal, window=window, scale=scaling,
                         softcap=softcap or 0.0, sinks=s_aux)
    for observer in _observers:
        observer._collect(module, query, key, value, attention_mask, causal, window, scaling, softcap or 0.0, s_aux, lse)
    return out.transpose(1, 2).contiguous(), None


def _only(indices, mask, texts, queries, keys):
    """Returns a mask that also masks the keys which are not in indices [B][T][k]."""
    chosen = torch.zeros(texts, 1, queries, keys, dtype=torch.bool, device=indices.device)
    chosen = chosen.scatter(-1, indices.long()[:, None], True)
    if mask is None:
        return chosen
    return mask & chosen if mask.dtype == torch.bool else mask.masked_fill(~chosen, -torch.inf)


def _supports_sdpa(kind):
    """Returns whether the models of a class of configurations are written for an attention function without weights."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING
    try:
        found = MODEL_MAPPING[kind]
    except KeyError:
        return False
    return all(x._supports_sdpa for x in (found if isinstance(found, (tuple, list)) else (found,)))


def attention_mask(batch_size, q_length, kv_length, *args, allow_is_causal_skip=True, config=None, **kwargs):
    """The function "qkv" of transformers' AttentionMaskInterface.

    A model without SDPA may have modules that do not say whether they are causal, or that add the mask themselves: it
    receives the float mask of eager attention, always.  Other models receive no mask where the flag is_causal has it.
    A mask that is a causal order, a window and the padding of the texts is a LinearMask, except where a graph is traced.
    """
    options = dict(kwargs, batch_size=batch_size, q_length=q_length, kv_length=kv_length, config=config)
    if config is None or not _supports_sdpa(type(config)):
        options.pop("allow_is_bidirectional_skip", None)
        make, dtype = eager_mask, options.get("dtype", torch.float32)
    else:
        options["allow_is_causal_skip"] = allow_is_causal_skip and q_length == kv_length
        make, dtype = sdpa_mask, torch.bool
    if args or options.get("use_vmap") or q_length == 1 or _traced(options.get("attention_mask"), options.get("q_offset")):
        return make(*args, **options)
    if make is sdpa_mask and _skip(**options):
        return None
    options["allow_is_causal_skip"] = options["allow_is_bidirectional_skip"] = False
    dense = lambda: make(**options)
    found = linear_mask(dense, dtype, **dict(dict(device="cpu"), **{k: v for k, v in options.items() if k != "dtype"}))
    return dense() if found is None else found


def _skip(kv_length, allow_is_causal_skip, attention_mask=None, local_size=None, allow_is_bidirectional_skip=False, kv_offset=0, **_unused):
    """Returns whether a model needs no mask: the flag is_causal has the causal order, and no key is masked otherwise."""
    if not (allow_is_causal_skip or allow_is_bidirectional_skip) or local_size is not None and kv_length >= local_size:
        return False
    return padding_of(attention_mask, kv_length, kv_offset) is None


def _traced(*values):
    """Returns whether a graph is made, in which values cannot decide what is computed."""
    plain = lambda x: not isinstance(x, torch.Tensor) or type(x) is torch.Tensor
    return torch.compiler.is_compiling() or torch.jit.is_tracing() or not all(plain(x) for x in values)


AttentionInterface.register("qkv", attention_forward)
AttentionMaskInterface.register("qkv", attention_mask)


class Observation(NamedTuple):
    """The statistics of one call of one layer; B texts, H heads, T tokens, S keys.  Not requested: None."""
    name: str                            #: of the module
    top_weight: Optional[torch.Tensor]   #: [B][H][T][top_k] largest weights, in descending order
    top_key: Optional[torch.Tensor]      #: [B][H][T][top_k] their keys; -1 after the last key with a weight
    row_weights: Optional[torch.Tensor]  #: [B][H][rows][S] all weights of the chosen rows
    received: Optional[torch.Tensor]     #: [B][H][S] sum of each key's weights
    entropy: Optional[torch.Tensor]      #: [B][H][T] in nats
    distance: Optional[torch.Tensor]     #: [B][H][T] mean |i - j|
    offsets: Optional[torch.Tensor]
    tile_max: Optional[torch.Tensor]
    tile_mean: Optional[torch.Tensor]


def configurations(model):
    """Returns the configuration of a model, of its parts and of its modules, each before the parts of it."""
    found, waiting = {}, [getattr(m, "config", None) for m in model.modules()]
    while waiting:
        config = waiting.pop(0)
        if id(config) not in found and hasattr(config, "_attn_implementation"):
            found[id(config)] = config
            waiting = [getattr(config, name, None) for name in getattr(config, "sub_configs", ())] + waiting
    return list(found.values())


class observe:
    """Collects statistics of every attention of a model inside `with`; a list of Observation, in the order of the calls.

    model   a model of transformers; inside `with` its attention implementation is "qkv", afterwards the one before
    top_k, rows, received, entropy, distance, reach, side   as in Probe; without any: top_k 16, received and entropy

    A model whose attention does not use the interface of transformers is an UnsupportedError.  Gradient checkpointing runs
    a layer again during backward(): inside `with` its call is then in the list twice.
    """

    def __init__(self, model, **statistics):
        if not hasattr(model, "set_attn_implementation") or not hasattr(model, "named_modules"):
            raise UsageError(f"model: expected a model of transformers, found {shown(type(model))}")
        try:
            self._wanted = Probe(**(statistics or dict(top_k=16, received=True, entropy=True)))
        except TypeError as error:
            raise UsageError(str(error).replace("Probe.__init__", "observe")) from None
        self._model = model
        self._before: List[Tuple[Any, Any]] = []  # (configuration, its attention implementation)
        self._names = {id(m): name for name, m in model.named_modules()}
        self._runs = 0  # of the whole model, inside `with`
        self.calls: List[Observation] = []

    def __enter__(self):
        self._before = [(x, x._attn_implementation) for x in configurations(self._model)]
        self._model.set_attn_implementation("qkv")
        if not any(x._attn_implementation == "qkv" for x, _ in self._before):
            self._restore()
            self._refuse()
        self._runs, self._hook = 0, self._model.register_forward_hook(self._count)
        _observers.append(self)
        return self

    def __exit__(self, kind, *_):
        _observers.remove(self)
        self._hook.remove()
        self._restore()
        if kind is None and self._runs and not len(self):
            self._refuse()

    def _count(self, *_):
        self._runs += 1

    def _restore(self):
        for config, before in self._before:
            config._attn_implementation = before

    def _refuse(self):
        raise UnsupportedError(f"model: the attention of {type(self._model).__name__} does not use the interface of transformers")

    def __len__(self):
        return len(self.calls)

    def __getitem__(self, i):
        return self.calls[i]

    def _collect(self, module, query, key, value, attention_mask, causal, window, scale, softcap, sinks, lse):
        name = self._names.get(id(module))
        if name is None:
            return
        shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        with torch.no_grad():
            bias, mask = _broadcast(attention_mask, shape)
            sinks = None if sinks is None else sinks.float()
            left, right = window or (-1, -1)
            call = _call(query, key, value, bias, mask, sinks, causal, left, right, scale, softcap, 0.0, None)
            wanted = self._wanted
            if wanted.top_k > shape[3]:
                wanted = Probe(**{**wanted.__dict__, "top_k": shape[3]})
            self.calls.append(Observation(name, *probe_of(call, lse.detach().contiguous(), wanted)))


def probe_of(call, lse, wanted) -> Statistics:
    """Collects the statistics of an attention call that has run."""
    probe, statistics, _keep = make_probe(call, wanted)
    at = ctypes.byref(call.a)
    planned = check_plan(lib.attention_probe_plan(at, ctypes.byref(probe)))
    status = lib.attention_probe(ctypes.byref(probe), call.q.at, call.k.at, lse.data_ptr(), at, scratch(planned.scratch))
    raise_status(status, "attention_probe refused its arrays")
    return statistics
