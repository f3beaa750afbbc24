# SPDX-License-Identifier: MIT
"""The rows and the residual stream of each layer of a model of transformers, found by hooks during its run."""
import re
from typing import Any, Dict, List, NamedTuple, Optional

import torch


class Stream(NamedTuple):
    """The stream of a layer [T][width]: before it, after its attention, after its cross-attention, after its feed-forward network."""
    before: torch.Tensor
    attention: torch.Tensor
    cross: Optional[torch.Tensor]
    after: torch.Tensor


def layer_name(name):
    """Returns the name of the layer of an attention module, such as "model.layers.0", or None."""
    found = re.match(r"(.*?\.\d+)(\.|$)", name)
    return found and found.group(1)


def is_sum(x, *terms):
    """Returns whether x is the sum of up to three terms: in float32 in any order, in 16 bits, whose rounding is coarse, exactly."""
    if x.dtype != torch.float32:
        return torch.equal(x, sum(terms[1:], terms[0]))
    # Two additions here and two in the model, each with an error of at most half a unit of the sum of the sizes.
    return bool(((x - sum(terms)).abs() <= 4 * 2.0**-23 * sum(t.abs() for t in terms)).all())


class Streams:
    """Records, inside `with`, the rows before and after each layer, and finds its Stream by comparing the rows of its modules."""

    def __init__(self, model):
        self.model, self._hooks = model, []
        self.found: Dict[str, Optional[Stream]] = {}
        self._calls: List[tuple] = []  # (name, before, after) of each layer, in the order of the run

    def __enter__(self):
        modules = dict(self.model.named_modules())
        two = getattr(self.model.config, "is_encoder_decoder", False)
        encoder = {id(m) for m in self.model.get_encoder().modules()} if two else set()
        for name, layer in modules.items():
            if layer_name(name) == name:
                inside: List[tuple] = []  # (input, output) of each module of the layer, in the order of their ends
                self._hooks.append(layer.register_forward_pre_hook(lambda *_, inside=inside: inside.clear()))
                for part in layer.modules():
                    if part is not layer:
                        self._hooks.append(part.register_forward_hook(
                            lambda _m, args, kwargs, out, inside=inside: inside.append((first(args, kwargs), tensor(out))), with_kwargs=True))
                parts = 3 if two and id(layer) not in encoder else 2
                self._hooks.append(layer.register_forward_hook(
                    lambda _m, args, kwargs, out, name=name, parts=parts, inside=inside: self._end(
                        name, parts, first(args, kwargs), tensor(out), inside), with_kwargs=True))
        return self

    def __exit__(self, *_):
        for hook in self._hooks:
            hook.remove()

    def of(self, names):
        """Returns the Stream of the layer of each attention, or [] unless every layer has one and one attention."""
        layers = [layer_name(name) for name in names]
        found = [s for s in map(self.found.get, layers) if s is not None]
        return found if len(found) == len(layers) == len(set(layers)) and len({s.before.shape for s in found}) == 1 else []

    def rows(self, names):
        """Returns the rows before the first of these layers and after each of them; [] if they were not run once, in this order."""
        calls = [x for x in self._calls if x[0] in names]
        return [calls[0][1], *(after for _, _, after in calls)] if calls and [x[0] for x in calls] == names else []

    def _end(self, name, parts, before, after, inside):
        self._calls.append((name, before, after))
        if before is None or after is None or before.shape != after.shape:
            return
        inside[:] = [(x, y) for x, y in inside if y is not None and y.shape == after.shape]
        if parts == 2:
            middle, cross = middle_of(before, after, inside), None
        else:
            middle, cross = streams_between(before, after, inside, 0, 3) or (None, None)
        keep = lambda x: None if x is None else x[0].detach().float().contiguous()
        self.found[name] = None if middle is None else Stream(*map(keep, (before, middle, cross, after)))
        inside.clear()


def tensor(x) -> Any:
    x = x[0] if isinstance(x, (tuple, list)) and x else x
    return x if isinstance(x, torch.Tensor) and x.dim() == 3 else None


def first(args, kwargs):
    """Returns the hidden states among the arguments of a module."""
    return tensor(args[0]) if args else tensor(kwargs.get("hidden_states"))


def middle_of(before, after, inside):
    """Returns the stream after attention, or None: a sum before + a of the output a of a module, from which the layer continues.

    pre-norm   after = middle + m, m the output of a module;         middle = before + a is the input of a module
    post-norm  after = norm(middle + m), middle = norm(before + a)
    parallel   after = before + a + m;                               middle = before + a
    """
    found = streams_between(before, after, inside, 0, 2)
    if found:
        return found[0]
    outputs = [y for _, y in inside]
    for i, a in enumerate(outputs):
        if any(is_sum(after, before, a, m) for m in outputs[i + 1:]):
            return before + a
    return None


def streams_between(before, after, inside, start, parts):
    """Returns the streams between the `parts` sublayers that modules from `start` on compute, or None: each is a sum or the norm of one."""
    outputs = [y for _, y in inside]
    if parts == 1:
        last = [after] + [z for z, y in inside[start:] if z is not None and z.shape == after.shape and torch.equal(y, after)]
        return [] if any(is_sum(z, before, m) for z in last for m in outputs[start:]) else None
    for end in range(start, len(inside)):
        x, y = inside[end]
        if x is None or x.shape != before.shape or torch.equal(x, before) or not any(is_sum(x, before, a) for a in outputs[start:end]):
            continue
        for stream, begin in ((x, end), (y, end + 1)):
            rest = streams_between(stream, after, inside, begin, parts - 1)
            if rest is not None:
                return [stream, *rest]
    return None
