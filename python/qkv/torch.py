# SPDX-License-Identifier: MIT
"""Attention for PyTorch: torch.nn.functional.scaled_dot_product_attention on libqkv, with autograd and torch.compile.

The operators torch.ops.qkv.attention and torch.ops.qkv.attention_backward run forward and backward in memory linear in
the tokens, with any mask.  Tensors are in the memory of the CPU: float32, bfloat16 or float16.
"""
from typing import Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ._attention import Call, backward as run_backward, flag, run
from ._errors import DeviceError, DtypeError, UnsupportedError, UsageError
from ._library import integer, number, shown

__all__ = ["scaled_dot_product_attention", "attention"]


def _arrays(*tensors):
    """Returns tensors that libqkv can read: detached, with a contiguous last axis and no repeated rows."""
    out = []
    for x in tensors:
        x = x.detach()
        if x.numel() and (x.stride(-1) != 1 and x.shape[-1] != 1 or any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape))):
            x = x.contiguous()
        out.append(x)
    return out


def _call(q, k, v, bias, mask, sinks, causal, left, right, scale, softcap, dropout, seed):
    window = (left, right) if left >= 0 or right >= 0 else None
    q, k, v = _arrays(q, k, v)
    detach = lambda x: None if x is None else x.detach()
    return Call(q, k, v, layout="BHTE", causal=causal, window=window, diagonal="bottom-right" if window else "top-left",
                bias=detach(bias), mask=detach(mask), sinks=detach(sinks), scale=scale, softcap=softcap, dropout=dropout,
                seed=int(seed) if dropout else 0)


def _empty_out(q, v):
    # Heads are interleaved, so that the caller's next product reads rows [T][H F] without a copy.
    return q.new_empty(q.shape[0], q.shape[2], q.shape[1], v.shape[3]).transpose(1, 2)


@torch.library.custom_op("qkv::attention", mutates_args=(), device_types="cpu")
def _forward(q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], mask: Optional[Tensor], sinks: Optional[Tensor],
             seed: Optional[Tensor], causal: bool, left: int, right: int, scale: Optional[float], softcap: float,
             dropout: float) -> Tuple[Tensor, Tensor]:
    call = _call(q, k, v, bias, mask, sinks, causal, left, right, scale, softcap, dropout, seed)
    r = run(call, lse=True, out=_empty_out(q, v))
    return r.out, r.lse


@_forward.register_fake
def _(q, k, v, bias, mask, sinks, seed, causal, left, right, scale, softcap, dropout):
    return _empty_out(q, v), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("qkv::attention_backward", mutates_args=(), device_types="cpu")
def _backward(dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, bias: Optional[Tensor],
              mask: Optional[Tensor], sinks: Optional[Tensor], seed: Optional[Tensor], causal: bool, left: int, right: int,
              scale: Optional[float], softcap: float, dropout: float, of_bias: bool,
              of_sinks: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    bias = bias.contiguous() if bias is not None and of_bias else bias
    call = _call(q, k, v, bias, mask, sinks, causal, left, right, scale, softcap, dropout, seed)
    wanted = [name for name, flag in (("bias", of_bias), ("sinks", of_sinks)) if flag]
    g = run_backward(call, dout.detach(), out.detach(), lse.detach(), wanted)
    found = []
    for x, gradient in ((q, g.q), (k, g.k), (v, g.v)):
        like = torch.empty_like(x)
        found.append(gradient if gradient.stride() == like.stride() else like.copy_(gradient))
    none = lambda: lse.new_empty(0)
    return (*found, g.bias if of_bias else none(), g.sinks if of_sinks else none())


@_backward.register_fake
def _(dout, q, k, v, out, lse, bias, mask, sinks, seed, causal, left, right, scale, softcap, dropout, of_bias, of_sinks):
    like = lambda x, wanted: lse.new_empty(x.shape if wanted else (0,))
    return (*(torch.empty_like(x) for x in (q, k, v)), like(bias, of_bias), like(sinks, of_sinks))


def _setup(ctx, inputs, output):
    q, k, v, bias, mask, sinks, seed, *options = inputs
    ctx.save_for_backward(q, k, v, *output, bias, mask, sinks, seed)
    ctx.options = options
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _gradient(ctx, dout, _dlse):
    q, k, v, out, lse, bias, mask, sinks, seed = ctx.saved_tensors
    none = (None,) * 13
    if dout is None:
        return none
    of_bias, of_sinks = ctx.needs_input_grad[3], ctx.needs_input_grad[5]
    dq, dk, dv, dbias, dsinks = _backward(dout, q, k, v, out, lse, bias, mask, sinks, seed, *ctx.options, of_bias, of_sinks)
    return (dq, dk, dv, dbias if of_bias else None, None, dsinks if of_sinks else None) + none[6:]


_forward.register_autograd(_gradient, setup_context=_setup)


def _check_tensors(**tensors):
    """Checks tensors, for which torch would choose another kernel or lose a derivative without an error."""
    query = tensors["query"]
    forward = not torch.compiler.is_compiling() and getattr(forward_ad, "_current_level", 0) >= 0
    for name, x in tensors.items():
        if x is None and name in ("attn_mask", "sinks"):
            continue
        if not isinstance(x, Tensor):
            raise UsageError(f"{name}: expected a tensor, found {shown(x)}")
        if x.layout is not torch.strided or x.is_nested or x.is_quantized:
            found = "a nested one" if x.is_nested else "a quantized one" if x.is_quantized else x.layout
            raise DtypeError(f"{name}: expected a dense tensor, found {found}")
        if x.device.type not in ("cpu", "meta"):
            raise DeviceError(f"{name}: expected a tensor of the CPU, found device {x.device}")
        if x.device != query.device:
            raise DeviceError(f"{name}: expected a tensor of the device of query, {query.device}, found device {x.device}")
        if forward and forward_ad.unpack_dual(x).tangent is not None:
            raise UnsupportedError(f"{name}: forward-mode derivatives (jvp), expected backward()")


def _number(x, name):
    """Returns a number, or a number of torch.compile as it is."""
    if isinstance(x, (float, torch.SymFloat, torch.SymInt)):
        return x
    if isinstance(x, Tensor) and x.requires_grad:
        raise UnsupportedError(f"{name}: a tensor that requires a gradient; expected a number")
    return number(x, name)


def _probability(x):
    x = _number(x, "dropout_p")
    if not 0 <= x < 1:
        raise UsageError(f"dropout_p: expected a probability of at least 0 and below 1, found {shown(x)}")
    return x


def _flag(x, name):
    return bool(x) if isinstance(x, torch.SymBool) else flag(x, name)


def _broadcast(mask, shape):
    """Returns an attn_mask as (bias, mask) of 4 axes with every key, the other axes as they are or 1."""
    if mask is None:
        return None, None
    if not isinstance(mask, Tensor) or mask.dim() > 4:
        raise UsageError(f"attn_mask: expected a tensor of at most 4 axes, found {shown(mask)}")
    mask = mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape))
    if any(n != 1 and n != w for n, w in zip(mask.shape, shape)):
        raise UsageError(f"attn_mask: expected a shape that broadcasts to {tuple(shape)}, found {tuple(mask.shape)}")
    if not (mask.requires_grad and torch.is_grad_enabled()):  # the operator repeats what expand() has repeated
        for axis in range(3):
            mask = mask.narrow(axis, 0, 1) if mask.stride(axis) == 0 and mask.shape[axis] > 1 else mask
    if mask.shape[3] != shape[3]:
        mask = mask.expand(*mask.shape[:3], shape[3])
    if mask.stride(3) != 1 or any(s == 0 and n > 1 for s, n in zip(mask.stride(), mask.shape)):
        mask = mask.contiguous()
    if mask.dtype == torch.bool:
        return None, mask
    if not mask.dtype.is_floating_point:
        raise DtypeError(f"attn_mask: expected bool or floating point, found {mask.dtype}")
    return mask.float(), None


def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, *, dropout_p: float = 0.0,
              is_causal: bool = False, window: Optional[Tuple[int, int]] = None, scale: Optional[float] = None,
              softcap: float = 0.0, sinks: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """Computes attention with autograd; returns (out [B][H][T][F], lse [B][H][T], which has no gradient).

    query [B][H][T][E], key [B][G][S][E], value [B][G][S][F], H a multiple of G.  attn_mask: bool (False masks) or
    floats that are added, of any shape that broadcasts to [B][H][T][S]; its gradient is summed over broadcast axes.
    is_causal: the first query attends to the first key.  window: (left, right) keys around a query, where the last query
    is at the last key; -1: unlimited.  sinks [H]: one more logit per head.  softcap c: scores c tanh(s / c).
    """
    _check_tensors(query=query, key=key, value=value, attn_mask=attn_mask, sinks=sinks)
    for x, name in ((query, "query"), (key, "key"), (value, "value")):
        if x.dim() != 4:
            raise UsageError(f"{name}: expected 4 axes, found shape {tuple(x.shape)}")
    if window is not None and (not isinstance(window, (tuple, list)) or len(window) != 2):
        raise UsageError(f"window: expected (left, right), found {shown(window)}")
    left, right = (-1, -1) if window is None else (integer(n, "window", -1) for n in window)
    scale, softcap = None if scale is None else _number(scale, "scale"), _number(softcap, "softcap")
    dropout_p, is_causal = _probability(dropout_p), _flag(is_causal, "is_causal")
    return _attention(query, key, value, attn_mask, dropout_p, is_causal, left, right, scale, softcap, sinks)


def _autocast(*tensors):
    """Returns tensors in the type of torch.autocast, which torch uses for its own attention, a float mask included."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu")
    cast = lambda x: isinstance(x, Tensor) and x.device.type == "cpu" and x.is_floating_point() and x.dtype != torch.float64
    return tuple(x.to(dtype) if cast(x) else x for x in tensors)


def _attention(query, key, value, attn_mask, dropout_p, is_causal, left, right, scale, softcap, sinks):
    query, key, value, attn_mask = _autocast(query, key, value, attn_mask)
    bias, mask = _broadcast(attn_mask, (query.shape[0], query.shape[1], query.shape[2], key.shape[2]))
    seed = torch.randint(2**62, (1,), device=query.device) if dropout_p else None
    return _forward(query, key, value, bias, mask, None if sinks is None else sinks.float(), seed, is_causal, left, right,
                    scale, float(softcap), float(dropout_p))


def _leading(query, key, value, enable_gqa):
    """Broadcasts the leading axes of tensors of as many axes; heads of key and value, if 1, need no copy."""
    tensors, last = (query, key, value), -2 if query.dim() == 2 else -3
    if all(x.shape[:-2] == query.shape[:-2] for x in (key, value)):
        return tensors
    try:
        lead = torch.broadcast_shapes(*(x.shape[:last] for x in tensors))
    except RuntimeError:
        raise UsageError("query, key, value: expected leading axes that broadcast, found shapes "
                         f"{', '.join(str(tuple(x.shape)) for x in tensors)}") from None
    heads = [x.shape[-3] if query.dim() > 2 else 1 for x in tensors]
    if not enable_gqa:
        most = next((n for n in heads if n != 1), 1)
        if any(n != 1 and n != most for n in heads):
            raise UsageError("key, value: expected the heads of query; enable_gqa allows fewer")
        heads = [most, *(heads[1:] if heads[1] == heads[2] else (most, most))]
    wanted = [(*lead, n, *x.shape[-2:]) if query.dim() > 2 else tuple(x.shape) for x, n in zip(tensors, heads)]
    return [x if tuple(x.shape) == shape else x.expand(shape) for x, shape in zip(tensors, wanted)]


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """As torch.nn.functional.scaled_dot_product_attention, for tensors of the CPU.

    query [...][T][E], key [...][S][E], value [...][S][F] -> [...][T][F]; leading axes are broadcast.  Different from torch:
    attn_mask and is_causal may be combined, a row whose keys are all masked gives 0, dropout has random numbers of its own,
    and dropout_p is below 1.
    """
    _check_tensors(query=query, key=key, value=value, attn_mask=attn_mask)
    scale = None if scale is None else _number(scale, "scale")
    dropout_p, is_causal, enable_gqa = _probability(dropout_p), _flag(is_causal, "is_causal"), _flag(enable_gqa, "enable_gqa")
    for x, name in ((query, "query"), (key, "key"), (value, "value")):
        if x.dim() < 2:
            raise UsageError(f"{name}: expected at least 2 axes, found shape {tuple(x.shape)}")
        if x.dim() != query.dim():
            raise UsageError(f"{name}: expected the axes of query {tuple(query.shape)}, found {tuple(x.shape)}")
    query, key, value = _leading(query, key, value, enable_gqa)
    lead = query.shape[:-2]
    if query.dim() > 4 and attn_mask is not None:
        attn_mask = attn_mask.reshape((1,) * (2 - attn_mask.dim()) + tuple(attn_mask.shape))
        try:
            attn_mask = attn_mask.expand(*lead, *attn_mask.shape[-2:]).flatten(0, query.dim() - 4)
        except RuntimeError:
            raise UsageError(f"attn_mask: expected leading axes that broadcast to {tuple(lead)}, found {tuple(attn_mask.shape)}") from None
    q, k, v = query, key, value
    if query.dim() < 4:
        q, k, v = (x.reshape((1,) * (4 - x.dim()) + tuple(x.shape)) for x in (q, k, v))
    elif query.dim() > 4:
        q, k, v = (x.flatten(0, x.dim() - 4) for x in (q, k, v))
    out, _ = _attention(q, k, v, attn_mask, dropout_p, is_causal, -1, -1, scale, 0.0, None)
    return out if query.dim() == 4 else out.reshape(*lead, *out.shape[-2:])
