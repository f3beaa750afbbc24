# SPDX-License-Identifier: MIT
"""Masks of transformers in memory linear in the tokens: the rule by which a query attends to a key, and the padding.

A LinearMask has the shape, the type and the numbers of the mask that transformers would make.  It computes them at the
first operation on it; a model that hands it to attention as it is, as most do, never does that.
"""
from typing import Any, Callable, NamedTuple, Optional, Tuple

import torch
from transformers import masking_utils as hf

UNLIMITED = -1


class Rule(NamedTuple):
    """What attention computes instead of a dense mask."""
    causal: bool                       #: the first query attends to the first key, each further one to one key more
    window: Optional[Tuple[int, int]]  #: (left, right), where the last query is at the last key; -1: unlimited
    padding: Optional[torch.Tensor]    #: [B][1][1][S] False masks a key of a text; None: no key


def _made_by(function, name):
    """Returns the variables of a function that `name` of transformers' masking_utils has made, or None."""
    if getattr(function, "__module__", "") != hf.__name__ or not function.__qualname__.startswith(name + ".<locals>."):
        return None
    return dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__ or ())))


def _limits(function):
    """Returns (left, right) so that the mask function is i - left <= j <= i + right, or None if it is another one."""
    if function is hf.causal_mask_function:
        return UNLIMITED, 0
    if function is hf.bidirectional_mask_function:
        return UNLIMITED, UNLIMITED
    for name, of in (("sliding_window_overlay", lambda n: (n - 1, UNLIMITED)), ("sliding_window_bidirectional_overlay", lambda n: (n, n))):
        found = _made_by(function, name)
        if found is not None:
            width = found.get("sliding_window")
            return of(width) if isinstance(width, int) and width > 0 else None
    parts = (_made_by(function, "and_masks") or {}).get("mask_functions")
    if not parts:
        return None
    limits = [_limits(part) for part in parts]
    if None in limits:
        return None
    smallest = lambda numbers: min((n for n in numbers if n != UNLIMITED), default=UNLIMITED)
    return smallest(left for left, _ in limits), smallest(right for _, right in limits)


def _agrees(function, limits, queries, keys, first):
    """Returns whether a mask function has its limits in the first, the middle and the last row; first: position of query 0."""
    left, right = limits
    zero, j = torch.zeros(1, dtype=torch.long), torch.arange(keys)
    for i in {first, first + queries // 2, first + queries - 1}:
        wanted = torch.ones(keys, dtype=torch.bool)
        if left != UNLIMITED:
            wanted &= j >= i - left
        if right != UNLIMITED:
            wanted &= j <= i + right
        if not torch.equal(torch.as_tensor(function(zero, zero, torch.tensor([i]), j)).expand(keys), wanted):
            return False
    return True


def padding_of(attention_mask, kv_length, kv_offset) -> Optional[torch.Tensor]:
    """Returns [B][S] from the mask of the texts, in which keys after its end are masked; None if no key is."""
    if attention_mask is None:
        return None
    mask = attention_mask[:, int(kv_offset):int(kv_offset) + kv_length].to(torch.bool)
    mask = torch.nn.functional.pad(mask, (0, kv_length - mask.shape[1]))
    return None if mask.all() else mask


def make_rule(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function: Callable, attention_mask) -> Optional[Rule]:
    """Returns the Rule of the arguments of a mask function of transformers' AttentionMaskInterface, or None."""
    limits = _limits(mask_function)
    first = int(q_offset) - int(kv_offset)  # position of the first query among the keys
    if limits is None or first < 0 or not _agrees(mask_function, limits, q_length, kv_length, first):
        return None
    left, right = limits
    if left >= first + q_length - 1:
        left = UNLIMITED
    if right != UNLIMITED and first + right >= kv_length - 1:
        right = UNLIMITED
    causal = window = None
    if (left, right) == (UNLIMITED, 0) and first == 0:
        causal = True
    elif (left, right) != (UNLIMITED, UNLIMITED):
        if first != kv_length - q_length:
            return None
        window = (left, right)
    padding = padding_of(attention_mask, kv_length, kv_offset)
    if padding is not None and padding.shape[0] not in (1, batch_size):
        return None
    padding = None if padding is None else padding.contiguous()[:, None, None]
    return Rule(bool(causal), window, padding)


class _State:
    """What the copies of a mask share."""

    def __init__(self, rule, make):
        self.rule: Optional[Rule] = rule
        self.make: Callable = make
        self.dense: Any = None


class LinearMask(torch.Tensor):
    """A mask [B][1][T][S] that is a Rule until an operation needs its numbers, and that tensor afterwards."""
    _state: _State

    @staticmethod
    def __new__(cls, size, dtype, device, state):
        self = torch.Tensor._make_wrapper_subclass(cls, size, dtype=dtype, device=device)
        self._state = state
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten.alias.default, torch.ops.aten.detach.default):
            x = args[0]
            return cls(x.shape, x.dtype, x.device, x._state)
        dense = lambda x: x.to_dense_mask() if isinstance(x, LinearMask) else x
        args, kwargs = torch.utils._pytree.tree_map(dense, (args, kwargs or {}))
        return function(*args, **kwargs)

    @property
    def rule(self) -> Optional[Rule]:
        """The Rule, None once an operation has used the numbers, which it may have changed."""
        return self._state.rule

    def to_dense_mask(self) -> torch.Tensor:
        """Returns the mask as a tensor of B T S numbers."""
        state = self._state
        if state.dense is None:
            state.dense, state.rule = state.make(), None
        return state.dense

    def data_ptr(self):
        return self.to_dense_mask().data_ptr()

    def __dlpack__(self, **options):
        return self.to_dense_mask().__dlpack__(**options)

    def numpy(self, *args, **kwargs):
        return self.to_dense_mask().numpy(*args, **kwargs)

    def tolist(self):
        return self.to_dense_mask().tolist()

    def __repr__(self, *args, **kwargs):
        return repr(self.to_dense_mask())

    def __deepcopy__(self, memo):
        return self.to_dense_mask().clone()

    def __reduce_ex__(self, protocol):
        return self.to_dense_mask().__reduce_ex__(protocol)


def linear_mask(make: Callable, dtype, device, batch_size, q_length, kv_length, q_offset=0, kv_offset=0,
                mask_function: Callable = hf.causal_mask_function, attention_mask=None, **_unused) -> Optional[LinearMask]:
    """Returns the LinearMask of the arguments of AttentionMaskInterface, or None if it has no Rule; make() is the mask."""
    rule = make_rule(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask)
    return rule and LinearMask((batch_size, 1, q_length, kv_length), dtype, device, _State(rule, make))
