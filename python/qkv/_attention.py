# SPDX-License-Identifier: MIT
"""Exact softmax attention, forward and backward, on the arrays of any library (include/qkv/attention.h)."""
import ctypes
import dataclasses
from collections import namedtuple
from typing import Any, Dict, Optional, Sequence, Tuple, Union

from . import _layout as c
from ._array import Array, answer, contiguous, make, make_like, numbers
from ._errors import UsageError
from ._library import PRECISIONS, choice, integer, lib, number, raise_status, scratch, shown
from ._types import ArrayLike, Integers

STORED = {"bf16": "bf16", "f16": "f16"}  # every other precision stores REAL
REAL = "f32"  # also the type of lse, weights and gradients; test_gradcheck.py has a library with "f64"
LAYOUTS = {"BTHE": (0, 1, 2), "BHTE": (0, 2, 1)}
Plan = namedtuple("Plan", "kernel isa arithmetic scratch scratch_thread tile_rows tile_keys tiles visited skipped flops")
Plan.__doc__ = "What a call does (struct qkv_attention_plan): kernel, instruction set, bytes of scratch, tiles, operations."


@dataclasses.dataclass
class Probe:
    """Statistics of attention weights that a call collects in memory linear in the tokens (include/qkv/probe.h).

    top_k       number of largest weights per row: top_weight and top_key [B][H][T][top_k]
    rows        indices of rows to store completely: row_weights [B][H][rows][S]
    received    sum of each key's weights: received [B][H][S]
    entropy     entropy of each row in nats: entropy [B][H][T]
    distance    mean distance of each row: distance [B][H][T]
    reach       largest distance d of offsets [B][H][2 reach + 1], the sum of the weights with j - i = d
    side        tiles per side: tile_max and tile_mean [B][H][side][side]
    """
    top_k: int = 0
    rows: Sequence[int] = ()
    received: bool = False
    entropy: bool = False
    distance: bool = False
    reach: Optional[int] = None
    side: int = 0


Statistics = namedtuple("Statistics", "top_weight top_key row_weights received entropy distance offsets tile_max tile_mean")
Statistics.__doc__ = "The arrays that a Probe requested; the others are None."
Gradients = namedtuple("Gradients", "q k v bias relative alibi sinks")
Gradients.__doc__ = "The gradients of attention; those that were not requested are None."


def as_probe(value):
    if isinstance(value, Probe):
        return value
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        unknown = set(value) - {f.name for f in dataclasses.fields(Probe)}
        if unknown:
            raise UsageError(f"probe: no statistic {min(unknown)!r}")
        return Probe(**value)
    return Probe(top_k=integer(value, "probe", 1))


class Call:
    """The structure qkv_attention of one call, with the arrays that it points to."""

    def __init__(self, q, k, v, layout="BTHE", causal=False, diagonal="top-left", window=None, lengths=None, q_offsets=None,
                 k_offsets=None, bias=None, mask=None, relative=None, alibi=None, sinks=None, dropout=0.0, seed=0,
                 site=0, scale=None, softcap=0.0, softmax=True, precision=None, native=False):
        self.q, self.k, self.v = (Array(x, n) for x, n in ((q, "q"), (k, "k"), (v, "v")))
        self.axes = choice(layout, "layout", LAYOUTS)
        if precision is None:
            precision = self.q.dtype if self.q.dtype in STORED else "f32"
        self.a = c.Attention(precision=choice(precision, "precision", PRECISIONS))
        self.stored = STORED.get(precision, REAL)
        types = (self.stored, "u16") if self.stored != REAL else (REAL,)
        self.rank = len(self.q.shape)
        for x in (self.q, self.k, self.v):
            x.require(types, (2, 3, 4))
            if len(x.shape) != self.rank:
                raise UsageError(f"{x.name}: expected {self.rank} axes as in q, found shape {x.shape}")
        self.set_sizes()
        self.a.q_strides, self.a.k_strides, self.a.v_strides = (self.strides(x) for x in (self.q, self.k, self.v))
        self.keep = []
        self.set_options(causal, diagonal, window, lengths, q_offsets, k_offsets, scale, softcap, softmax, native)
        self.set_arrays(bias, mask, relative, alibi, sinks)
        dropout = number(dropout, "dropout")
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout: expected a probability of at least 0 and below 1, found {dropout}")
        self.a.dropout.p, self.a.dropout.seed = dropout, integer(seed, "seed", 0, 2**64 - 1)
        self.a.dropout.site = integer(site, "site", 0, 2**64 - 1)

    def shape4(self, x):
        """Returns (B, tokens, heads, width) of an array of 2 to 4 axes."""
        shape = x.shape
        if self.rank == 2:
            return 1, shape[0], 1, shape[1]
        shape = (1,) * (4 - self.rank) + tuple(shape)
        b, t, h = (shape[i] for i in self.axes)
        return b, t, h, shape[3]

    def strides(self, x):
        """Returns the structure of the strides of an array; an axis of one element has any stride."""
        shape, steps = self.shape4(x), x.strides
        if self.rank == 2:
            steps = 0, steps[0], 0, steps[1]
        else:
            steps = (0,) * (4 - self.rank) + steps
            steps = tuple(steps[i] for i in self.axes) + steps[3:]
        if 0 in shape:
            return c.Strides()
        if steps[3] != 1 and shape[3] != 1:
            raise UsageError(f"{x.name}: expected a contiguous last axis, found stride {steps[3]}")
        if 1 in shape:
            steps = tuple(d if n == 1 else s for n, s, d in zip(shape, steps, contiguous(shape)))
        steps = steps[:3]
        if min(steps) < 0 or not any(steps):
            raise UsageError(f"{x.name}: expected strides of at least 0 and not all 0, found {x.strides}")
        return c.Strides(*steps)

    def set_sizes(self):
        a = self.a
        a.B, a.T, a.H, a.E = self.shape4(self.q)
        b, a.S, a.G, e = self.shape4(self.k)
        if b != a.B or e != a.E:
            raise UsageError(f"k: expected {a.B} batch items and width {a.E} as in q, found shape {self.k.shape}")
        b, s, g, a.F = self.shape4(self.v)
        if b != a.B or s != a.S or g != a.G:
            raise UsageError(f"v: expected batch items, keys and heads of k {self.k.shape}, found shape {self.v.shape}")
        for n, name in ((a.H, "heads of q"), (a.G, "heads of k"), (a.E, "width of q"), (a.F, "width of v")):
            if n < 1:
                raise UsageError(f"{name}: expected at least 1, found 0")

    def set_options(self, causal, diagonal, window, lengths, q_offsets, k_offsets, scale, softcap, softmax, native):
        a = self.a
        a.causal, a.no_softmax, a.native = flag(causal, "causal"), not flag(softmax, "softmax"), flag(native, "native")
        a.diagonal = choice(diagonal, "diagonal", {"top-left": c.TOP_LEFT, "bottom-right": c.BOTTOM_RIGHT})
        if scale is not None:
            a.scale = number(scale, "scale")
            if a.scale == 0:
                raise UsageError("scale: expected a number other than 0")
        a.softcap = number(softcap, "softcap")
        if window is not None:
            pair = (window, window) if hasattr(window, "__index__") else window
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise UsageError(f"window: expected a number or (left, right), found {shown(window)}")
            a.window.on = True
            a.window.left, a.window.right = (-1 if n is None else integer(n, "window", -1) for n in pair)
        if q_offsets is not None:
            if a.B != 1:
                raise UsageError(f"q_offsets: packed sequences need one batch item, found {a.B}")
            a.q_offsets, a.sequences = self.integers(q_offsets, "q_offsets", None)
            a.sequences -= 1
            if a.sequences < 1:
                raise UsageError("q_offsets: expected at least 2 numbers")
            if k_offsets is not None:
                a.k_offsets, _ = self.integers(k_offsets, "k_offsets", a.sequences + 1)
        elif k_offsets is not None:
            raise UsageError("k_offsets: expected together with q_offsets")
        if lengths is not None:
            a.k_lengths, _ = self.integers(lengths, "lengths", a.sequences or a.B)

    def integers(self, values, name, count):
        array = numbers(values, name)
        if count is not None and len(array) != count:
            raise UsageError(f"{name}: expected {count} numbers, found {len(array)}")
        self.keep.append(array)
        return ctypes.addressof(array), len(array)

    def set_arrays(self, bias, mask, relative, alibi, sinks):
        a = self.a
        self.bias = self.broadcast(bias, "bias", ("f32",), a.bias)
        self.mask = self.broadcast(mask, "mask", ("bool", "u8"), a.mask)
        self.relative = self.floats(relative, "relative", 2)
        if self.relative:
            width = self.relative.shape[1]
            if self.relative.shape[0] != a.H or width % 2 == 0:
                raise UsageError(f"relative: expected shape ({a.H}, 2 reach + 1), found {self.relative.shape}")
            a.relative.at, a.relative.reach = self.relative.at, width // 2
        self.alibi, self.sinks = (self.floats(x, n, 1, (a.H,)) for x, n in ((alibi, "alibi"), (sinks, "sinks")))
        a.alibi, a.sinks = (x.at if x else None for x in (self.alibi, self.sinks))

    def floats(self, value, name, rank, shape=None):
        if value is None:
            return None
        x = Array(value, name).require(("f32",), (rank,)).plain()
        if shape and tuple(x.shape) != shape:
            raise UsageError(f"{name}: expected shape {shape}, found {x.shape}")
        return x

    def broadcast(self, value, name, types, to):
        """Reads an array [B|1][H|1][T|1][S], whose first axes may be left out."""
        if value is None:
            return None
        x, a = Array(value, name).require(types, (1, 2, 3, 4)), self.a
        wanted = (a.B, a.H, a.T, a.S)
        shape = (1,) * (4 - len(x.shape)) + tuple(x.shape)
        steps = (0,) * (4 - len(x.shape)) + tuple(x.strides)
        if shape[3] != a.S or any(n not in (1, w) for n, w in zip(shape, wanted)):
            raise UsageError(f"{name}: expected a shape that broadcasts to {wanted} with all {a.S} keys, found {x.shape}")
        if 0 not in wanted:
            if steps[3] != 1 and a.S > 1 or min(steps) < 0:
                raise UsageError(f"{name}: expected contiguous keys, found strides {x.strides}")
            to.at = x.at
            to.b, to.h, to.t = (0 if n == 1 else s for n, s in zip(shape[:3], steps))
        return x

    def out_shape(self):
        a = self.a
        if self.rank == 2:
            return a.T, a.F
        full = [a.B, a.T, a.H]
        return tuple(full[i] for i in self.axes)[4 - self.rank:] + (a.F,)


def flag(value, name):
    if value is not True and value is not False and type(value).__name__ not in ("bool_", "bool"):
        raise UsageError(f"{name}: expected True or False, found {shown(value)}")
    return bool(value)


def check_plan(plan):
    """Returns a struct qkv_attention_plan, or raises the reason of its refusal."""
    if plan.status:
        raise_status(plan.status, plan.reason.decode())
    return plan


def as_plan(plan):
    text = lambda b: b.decode() if b else None
    return Plan(text(plan.kernel), text(plan.isa), text(plan.arithmetic), *(getattr(plan, n) for n in Plan._fields[3:]))


def make_probe(call, wanted):
    """Returns (struct qkv_probe, Statistics, arrays to keep)."""
    a, like = call.a, call.q
    p, made, keep = c.Probe(), dict.fromkeys(Statistics._fields), []

    def array(name, shape, dtype="f32"):
        made[name], at = make(like, shape, dtype)
        setattr(p, name, at.at)
        keep.append(at)

    p.top_k = integer(wanted.top_k, "probe.top_k", 0, max(a.S, 0))
    if p.top_k:
        array("top_weight", (a.B, a.H, a.T, p.top_k))
        array("top_key", (a.B, a.H, a.T, p.top_k), "i32")
    rows = numbers(wanted.rows, "probe.rows")
    if len(rows):
        p.rows, p.row = len(rows), ctypes.addressof(rows)
        keep.append(rows)
        array("row_weights", (a.B, a.H, len(rows), a.S))
    if flag(wanted.received, "probe.received"):
        array("received", (a.B, a.H, a.S))
    for name in ("entropy", "distance"):
        if flag(getattr(wanted, name), "probe." + name):
            array(name, (a.B, a.H, a.T))
    if wanted.reach is not None:
        p.reach = integer(wanted.reach, "probe.reach", 0, 2**40)
        array("offsets", (a.B, a.H, 2 * p.reach + 1))
    p.side = integer(wanted.side, "probe.side", 0, 2**20)
    if p.side:
        array("tile_max", (a.B, a.H, p.side, p.side))
        array("tile_mean", (a.B, a.H, p.side, p.side))
    return p, Statistics(**made), keep


class AttentionResult:
    """The results of attention(): out, and lse, weights, probe and plan, None where they were not requested."""

    def __init__(self, out: Any, lse: Any, weights: Any, probe: Optional[Statistics], plan: Optional[Plan], call: "Call"):
        self.out, self.lse, self.weights, self.probe, self.plan = out, lse, weights, probe, plan
        self._call = call

    def __repr__(self):
        return f"AttentionResult({', '.join(n for n in ('out', 'lse', 'weights', 'probe', 'plan') if getattr(self, n) is not None)})"

    def backward(self, dout: ArrayLike, gradients: Sequence[str] = ()) -> Gradients:
        """Computes the gradients of out from its gradient dout, as attention_backward does; it needs lse=True."""
        if self.lse is None:
            raise UsageError("backward: the forward call needs lse=True")
        return backward(self._call, dout, self.out, self.lse, gradients)


def run(call, lse=False, weights=False, probe=None, plan=False, out=None):
    """Runs a prepared call and returns its AttentionResult."""
    a = call.a
    keep_lse, made, arrays = lse, {}, {}
    shape = call.out_shape()
    if out is not None:
        made["out"], arrays["out"] = out, Array(out, "out").require((call.q.dtype,), None, True)
        if tuple(arrays["out"].shape) != shape:
            raise UsageError(f"out: expected shape {shape}, found {arrays['out'].shape}")
    else:
        made["out"], arrays["out"] = make(call.q, shape, call.q.dtype if call.q.dtype != "u16" else call.stored)
    a.out_strides = call.strides(arrays["out"])
    keep = []
    statistics = None
    if probe is not None:
        held, statistics, keep = make_probe(call, as_probe(probe))
        a.probe = ctypes.addressof(held)
        keep.append(held)
    planned = check_plan(lib.attention_plan(ctypes.byref(a)))
    if keep_lse:
        made["lse"], arrays["lse"] = make(call.q, (a.B, a.H, a.T), REAL)
    if weights:
        made["weights"], arrays["weights"] = make(call.q, (a.B, a.H, a.T, a.S), REAL)
    at = lambda name: arrays[name].at if name in arrays else None
    status = lib.attention_forward(at("out"), at("lse"), at("weights"), call.q.at, call.k.at, call.v.at, ctypes.byref(a),
                                   scratch(planned.scratch))
    a.probe = None
    raise_status(status, "attention refused its arrays: an output overlaps another array, or one is misaligned")
    own = {name: x if x is out else answer(call.q, x) for name, x in made.items()}
    if statistics is not None:
        statistics = Statistics(*(answer(call.q, x) for x in statistics))
    return AttentionResult(own["out"], own.get("lse"), own.get("weights"), statistics, as_plan(planned) if plan else None, call)


def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, layout: str = "BTHE", causal: bool = False, diagonal: str = "top-left",
              window: Union[int, Tuple[Optional[int], Optional[int]], None] = None, lengths: Optional[Integers] = None,
              q_offsets: Optional[Integers] = None, k_offsets: Optional[Integers] = None, bias: Optional[ArrayLike] = None,
              mask: Optional[ArrayLike] = None, relative: Optional[ArrayLike] = None, alibi: Optional[ArrayLike] = None,
              sinks: Optional[ArrayLike] = None, dropout: float = 0.0, seed: int = 0, site: int = 0,
              scale: Optional[float] = None, softcap: float = 0.0, softmax: bool = True, precision: Optional[str] = None,
              native: bool = False, probe: "Union[Probe, Dict[str, Any], int, None]" = None, lse: bool = False,
              weights: bool = False, plan: bool = False, out: Optional[ArrayLike] = None) -> Any:
    """Computes exact softmax attention in memory linear in the tokens.

    Arrays have __dlpack__ or a buffer, are in the memory of the CPU, and are read without a copy; the answer is an array
    of the library of q.  Shapes with layout "BTHE" (with "BHTE" the axes of tokens and heads change places):

        q [B][T][H][E], k [B][S][G][E], v [B][S][G][F] -> out [B][T][H][F]; H is a multiple of G
        or without batch [T][H][E], or one head [T][E]

    float32, bfloat16 or float16.  precision: "f32", "f32-strict", "f32-fast", "bf16", "f16", "int8"; None: as q.

    causal, diagonal   key j <= i, where i counts from the first query ("top-left") or so that the last query attends to
                       the last key ("bottom-right")
    window             (left, right) or one number: keys i - left .. i + right; None or -1: unlimited
    lengths            [B] number of keys that exist in each batch item
    q_offsets, k_offsets   [sequences + 1] first row of each packed sequence; B is 1
    bias, mask         [B|1][H|1][T|1][S] float32 added to the scores; bool or uint8, where 0 masks a key
    relative           [H][2 reach + 1] added to the scores by the distance j - i
    alibi, sinks       [H] slopes of ALiBi; [H] attention sinks
    dropout, seed, site   probability, and the key of the random numbers
    scale, softcap     factor of q.k, None: 1/sqrt(E); cap of the scores, 0: no cap
    softmax            False: out is the sum of score * v
    native             True: refuse a precision for which the CPU has no instructions

    Returns out, or an AttentionResult if one of these is requested:

    lse      [B][H][T] ln of the softmax sums, which backward needs
    weights  [B][H][T][S] dense weights
    probe    a Probe, a dict of its members, or a number of top keys: statistics in linear memory
    plan     the kernel, scratch and tiles of the call

    out: an array to write to.  Errors: DtypeError, DeviceError, ReadOnlyError, UsageError, UnsupportedError, LimitError.
    """
    call = Call(q, k, v, layout, causal, diagonal, window, lengths, q_offsets, k_offsets, bias, mask, relative, alibi, sinks,
                dropout, seed, site, scale, softcap, softmax, precision, native)
    lse, weights, plan = (flag(x, n) for x, n in ((lse, "lse"), (weights, "weights"), (plan, "plan")))
    result = run(call, lse, weights, probe, plan, out)
    return result if lse or weights or plan or probe is not None else result.out


def attention_backward(dout: ArrayLike, q: ArrayLike, k: ArrayLike, v: ArrayLike, out: ArrayLike, lse: ArrayLike, *,
                       gradients: Sequence[str] = (), **options) -> Gradients:
    """Computes the gradients of attention() from its out and lse, in memory linear in the tokens.

    dout has the shape of out; options are the options of the forward call.  Returns Gradients: q, k, v in the shapes of
    the inputs, and of bias, relative, alibi, sinks those that `gradients` names, in float32 and the shape of the option
    (for an axis of bias with one element the sum).
    """
    try:
        call = Call(q, k, v, **options)
    except TypeError as error:
        if "unexpected keyword" in str(error):
            raise UsageError(str(error).replace("Call.__init__", "attention_backward")) from None
        raise
    return backward(call, dout, out, lse, gradients)


def backward(call, dout, out, lse, gradients):
    a, shape = call.a, call.out_shape()
    types = (call.q.dtype, call.stored)
    read = {}
    for x in (call.q, call.k, call.v, call.bias, call.mask, call.relative, call.alibi, call.sinks):
        if x is not None:
            x.check_memory()
    for name, value in (("out", out), ("dout", dout)):
        x = Array(value, name).require(types).plain()
        if tuple(x.shape) != shape:
            raise UsageError(f"{name}: expected shape {shape}, found {x.shape}")
        read[name] = x
    lse = Array(lse, "lse").require((REAL,)).plain()
    if tuple(lse.shape) != (a.B, a.H, a.T):
        raise UsageError(f"lse: expected shape {(a.B, a.H, a.T)}, found {lse.shape}")
    a.out_strides = call.strides(read["out"])
    made, ends = {}, []
    for name in ("q", "k", "v"):
        x = getattr(call, name)
        pair = make_like(x)
        if pair is None:
            x = x.plain()
            pair = make_like(x)
            x.name = name
        ends.append((x, pair[1]))
        made[name] = pair[0]
        setattr(a, name + "_strides", call.strides(x))
    g = c.AttentionGradients()
    if isinstance(gradients, str) or not hasattr(gradients, "__iter__"):
        raise UsageError(f"gradients: expected a list of names, found {shown(gradients)}")
    keep = []
    for name in gradients:
        choice(name, "gradients", dict.fromkeys(Gradients._fields[3:]))
        x = getattr(call, name)
        if x is None:
            raise UsageError(f"gradients: attention has no {name} here")
        made[name], array = make(call.q, x.shape, REAL, zero=True)
        keep.append(array)
        if name == "bias":
            if not x.is_contiguous:
                raise UsageError("bias: its gradient needs an array without gaps")
            g.bias.at = array.at
        else:
            setattr(g, name, array.at)
    planned = check_plan(lib.attention_backward_plan(ctypes.byref(a), ctypes.byref(g)))
    status = lib.attention_backward(*(at.at for _, at in ends), ctypes.byref(g), read["dout"].at, *(x.at for x, _ in ends),
                                    read["out"].at, lse.at, ctypes.byref(a), scratch(planned.scratch))
    raise_status(status, "attention_backward refused its arrays: a gradient overlaps another array")
    return Gradients(**{name: answer(call.q, made.get(name)) for name in Gradients._fields})
