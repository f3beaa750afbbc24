# SPDX-License-Identifier: MIT
"""Reads arrays of other libraries without a copy, by the buffer protocol or DLPack, and makes arrays of theirs."""
import ctypes
import functools
import sys
from typing import Any

from ._errors import DeviceError, DtypeError, LimitError, ReadOnlyError, UsageError
from ._library import shown

# {name: (bytes, code of the buffer protocol)}; bool is one byte
SIZES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2,
         "u8": 1, "bool": 1}
CODES = {"f": "f32", "d": "f64", "e": "f16", "?": "bool"}
NUMPY = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "uint16", "i64": "int64", "i32": "int32", "u16": "uint16",
         "u8": "uint8", "bool": "bool"}
TORCH = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
         "u8": "uint8", "bool": "bool"}


class _Buffer(ctypes.Structure):
    # Py_buffer
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
                ("internal", ctypes.c_void_p)]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Versioned(ctypes.Structure):
    # DLManagedTensorVersioned of DLPack 1.0
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_api = ctypes.pythonapi
_get_buffer = _api.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release = _api.PyBuffer_Release
_release.argtypes, _release.restype = [ctypes.POINTER(_Buffer)], None
_capsule_is = _api.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule = _api.PyCapsule_GetPointer
_capsule.argtypes, _capsule.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
_RECORDS_RO = 0x1c  # format, shape and strides; read-only is fine


class Array:
    """Memory of a foreign array: address, shape, strides in elements, element type; it keeps the array alive.

    kind is the library that answers are made in: "torch", "numpy", "dlpack" or "buffer".
    """
    __slots__ = ("name", "at", "shape", "strides", "dtype", "readonly", "kind", "origin", "_view", "_memory",
                 "__weakref__")

    def __init__(self, value, name):
        self.name, self.origin, self.readonly = name, value, False
        self._view: Any = None
        torch, masked = sys.modules.get("torch"), sys.modules.get("numpy.ma")
        if masked is not None and isinstance(value, getattr(masked, "MaskedArray", ())):
            raise DtypeError(f"{name}: expected an array without a mask of its own, found a masked array; filled() returns one")
        if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
            self._read_torch(value)
        elif type(value).__module__ == "numpy" and getattr(value, "dtype", None) is not None \
                and getattr(value.dtype, "name", "") == "bfloat16":
            self._read_buffer(value.view("uint16"))
            self.kind, self.dtype = "numpy", "bf16"
        elif self._has_buffer(value):
            self._read_buffer(value)
        elif hasattr(value, "__dlpack__"):
            self._read_dlpack(value)
        else:
            raise DtypeError(f"{name}: expected an array with __dlpack__ or a buffer, found {shown(type(value))}")

    @staticmethod
    def _has_buffer(value):
        try:
            memoryview(value).release()
            return True
        except (TypeError, ValueError, BufferError):
            return False

    def _read_torch(self, x):
        if x.device.type != "cpu":
            raise DeviceError(f"{self.name}: expected an array of the CPU, found device {x.device}")
        if x.layout is not sys.modules["torch"].strided or x.is_nested or type(x).__name__ == "FakeTensor":
            raise DtypeError(f"{self.name}: expected a dense tensor, found {'a nested one' if x.is_nested else x.layout}")
        if x.requires_grad:
            raise UsageError(f"{self.name}: the tensor requires a gradient; call detach(), or use qkv.torch, "
                             "whose attention autograd differentiates")
        self.dtype = _torch_types().get(x.dtype) or str(x.dtype)
        if x.is_neg():  # types of complex numbers are refused
            x, self.readonly = x.resolve_neg(), True  # a copy
        # The tensor may become another one (x.data = ..., x.set_()): a tensor of our own keeps its memory.
        self.origin = x = x.detach()
        try:
            self._view = x.untyped_storage()
            self._memory = self._view.data_ptr(), self._view.nbytes()
            self.shape, self.strides, self.kind, self.at = tuple(x.shape), tuple(x.stride()), "torch", x.data_ptr()
        except RuntimeError as error:  # inside torch.func and torch.vmap
            raise DtypeError(f"{self.name}: this tensor has no memory: {error}") from None

    def _read_buffer(self, x):
        view = _Buffer()
        try:
            _get_buffer(x, ctypes.byref(view), _RECORDS_RO)
        except BufferError as error:  # its rows are reached by pointers
            raise DtypeError(f"{self.name}: expected a buffer with strides: {error}") from None
        self._view = view
        form = (view.format or b"B").decode()
        code, size = form.lstrip("@=<|"), max(view.itemsize, 1)  # numpy has types of 0 bytes
        if code in CODES:
            self.dtype = CODES[code]
        elif len(code) == 1 and code in "bhilqBHILQ":
            self.dtype = ("i" if code.islower() else "u") + str(8 * size)
        else:
            self.dtype = f"format {form!r}"
        n = view.ndim
        self.shape = tuple(view.shape[:n]) if n and view.shape else (view.len // size,) * min(n, 1)
        steps = view.strides[:n] if n and view.strides else [size] * n
        if view.suboffsets or any(s % size for s in steps):
            raise DtypeError(f"{self.name}: expected strides of whole elements")
        self.strides = tuple(s // size for s in steps)
        self.readonly, self.at = bool(view.readonly), view.buf
        numpy = sys.modules.get("numpy")
        self.kind = "numpy" if numpy and isinstance(x, (numpy.ndarray, numpy.generic)) else \
            "dlpack" if hasattr(x, "__array_namespace__") else "buffer"

    def _read_dlpack(self, x):
        try:
            device = tuple(x.__dlpack_device__())
            if device[0] == 1:
                try:
                    capsule = x.__dlpack__(max_version=(1, 0))
                except TypeError:  # written before DLPack 1.0
                    capsule = x.__dlpack__()
        except Exception as error:  # a foreign method may raise anything
            raise DtypeError(f"{self.name}: its __dlpack__ failed: {error}") from None
        if device[0] != 1:
            raise DeviceError(f"{self.name}: expected an array of the CPU, found DLPack device {device}")
        if _capsule_is(capsule, b"dltensor_versioned"):
            whole = _Versioned.from_address(_capsule(capsule, b"dltensor_versioned"))
            if whole.major != 1:
                raise DtypeError(f"{self.name}: DLPack {whole.major}.{whole.minor}, expected 1.x")
            t, self.readonly = whole.tensor, bool(whole.flags & 3)  # read-only, or a copy of the array
        elif _capsule_is(capsule, b"dltensor"):
            t = _DLTensor.from_address(_capsule(capsule, b"dltensor"))
        else:
            raise DtypeError(f"{self.name}: __dlpack__ returned no DLPack capsule")
        # The capsule is not consumed: its own destructor frees the tensor with this object.
        self._view = capsule
        if t.device_type != 1:
            raise DeviceError(f"{self.name}: expected an array of the CPU, found DLPack device type {t.device_type}")
        letter = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "bool"}.get(t.code)
        self.dtype = f"DLPack type {t.code}" if letter is None or t.lanes != 1 else letter if letter == "bool" else f"{letter}{t.bits}"
        self.shape = tuple(t.shape[:t.ndim])
        if t.strides:
            self.strides = tuple(t.strides[:t.ndim])
        else:
            self.strides = contiguous(self.shape)
        self.at, self.kind = (t.data or 0) + t.byte_offset, "dlpack"

    def __del__(self):
        if isinstance(getattr(self, "_view", None), _Buffer):
            _release(ctypes.byref(self._view))

    def check_memory(self):
        """Checks that the memory is still where it was: resize_() of a tensor moves it, also for a detached one."""
        if self.kind == "torch" and self._memory != (self._view.data_ptr(), self._view.nbytes()):
            raise UsageError(f"{self.name}: the memory of the tensor was resized after the forward call")

    def require(self, dtypes, rank=None, output=False):
        """Checks type, rank and, of an output, that it can be written; returns self."""
        if self.dtype not in dtypes:
            raise DtypeError(f"{self.name}: expected {' or '.join(dtypes)}, found {self.dtype}")
        if rank is not None and len(self.shape) not in rank:
            raise UsageError(f"{self.name}: expected {' or '.join(map(str, rank))} axes, found shape {self.shape}")
        if output and self.readonly:
            raise ReadOnlyError(f"{self.name}: this output is read-only")
        if self.at and self.at % SIZES[self.dtype]:
            raise UsageError(f"{self.name}: the address is not aligned to {self.dtype}")
        return self

    @property
    def is_contiguous(self):
        return 0 in self.shape or all(n == 1 or s == c for n, s, c in
                                      zip(self.shape, self.strides, contiguous(self.shape)))

    def plain(self):
        """Returns an array of the same numbers without gaps: itself, or a copy."""
        if self.is_contiguous:
            return self
        if self.kind == "torch":
            return Array(self.origin.contiguous(), self.name)
        made, copy = make(self, self.shape, self.dtype)
        if self.kind == "numpy":
            made[...] = self.origin
        else:
            copy_into(copy, self)
        copy.name = self.name
        return copy

    def dense_order(self):
        """Returns the axes from the largest stride to the smallest if there are no gaps, otherwise None."""
        if 0 in self.shape:
            return list(range(len(self.shape)))
        order = sorted(range(len(self.shape)), key=lambda i: (-self.strides[i], i))
        step = 1
        for i in reversed(order):
            if self.shape[i] != 1:
                if self.strides[i] != step:
                    return None
                step *= self.shape[i]
        return order


@functools.lru_cache(None)
def _torch_types():
    """Returns {type of torch: our name}; called only where torch is imported."""
    torch = sys.modules["torch"]
    return {getattr(torch, name): ours for ours, name in TORCH.items()}


def make_like(array):
    """Makes an array with shape, strides and type of an array without gaps; returns (array, its Array) or None."""
    order = array.dense_order()
    if order is None or (order != sorted(order) and array.kind not in ("torch", "numpy")):
        return None
    made, _ = make(array, [array.shape[i] for i in order], array.dtype)
    if order != sorted(order):
        back = [order.index(i) for i in range(len(order))]
        made = made.permute(back) if array.kind == "torch" else made.transpose(back)
    view = Array(made, "gradient of " + array.name)
    view.dtype = array.dtype
    return made, view


def contiguous(shape):
    """Returns the strides of an array without gaps, in elements."""
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= max(n, 1)
    return tuple(reversed(out))


def copy_into(to, source):
    """Copies an array with gaps, row by row, to one without gaps."""
    size = SIZES[source.dtype]

    def run(at, place, axis):
        if axis == len(source.shape):
            ctypes.memmove(to.at + place * size, at, size)
            return
        n, step, inner = source.shape[axis], source.strides[axis], to.strides[axis]
        if axis == len(source.shape) - 1 and step == 1:
            ctypes.memmove(to.at + place * size, at, size * n)
            return
        for i in range(n):
            run(at + i * step * size, place + i * inner, axis + 1)
    if 0 not in source.shape:
        run(source.at, 0, 0)


def make(like, shape, dtype, zero=False):
    """Makes an array in the library of `like`, or one for answer(); returns (array, its Array)."""
    count = 1
    for n in shape:
        count *= n
    if count * SIZES[dtype] > 2**46:
        raise LimitError(f"an output of shape {tuple(shape)} is too large")
    kind = like.kind if like is not None else "numpy"
    try:
        made = _make(kind, tuple(shape), dtype, zero, count)
    except (MemoryError, RuntimeError) as error:
        raise LimitError(f"no memory for an output of shape {tuple(shape)}: {error}") from None
    array = Array(made, "output")
    if dtype == "bf16":
        array.dtype = "bf16"
    return made, array


def _make(kind, shape, dtype, zero, count):
    if kind == "torch":
        torch = sys.modules["torch"]
        return (torch.zeros if zero else torch.empty)(shape, dtype=getattr(torch, TORCH[dtype]), device="cpu")
    if kind == "buffer" or not _numpy():
        code: Any = {"f32": "f", "f64": "d", "i32": "i", "i64": "q", "u8": "B", "bool": "?"}.get(dtype, "H")
        if 0 in shape:  # memoryview has no empty axes
            raise UsageError(f"an empty array of shape {shape} needs numpy")
        view = memoryview((ctypes.c_char * (count * SIZES[dtype]))()).cast("B")
        return view.cast(code, shape) if shape else view.cast(code)
    numpy = _numpy()
    made = (numpy.zeros if zero else numpy.empty)(shape, dtype=NUMPY[dtype])
    if dtype == "bf16" and "ml_dtypes" in sys.modules:
        return made.view(sys.modules["ml_dtypes"].bfloat16)
    return made


def answer(like, made):
    """Returns an array of make() as an array of the library of `like`, which may copy it: its numbers have to be written before."""
    space = getattr(like.origin, "__array_namespace__", None) if like.kind == "dlpack" else None
    if made is None or space is None or not hasattr(made, "__dlpack__"):
        return made
    try:
        try:
            return space().from_dlpack(made)
        except BufferError:  # numpy has no DLPack of bfloat16
            return space().asarray(made)
    except Exception as error:  # a foreign function may raise anything
        raise DtypeError(f"{like.name}: its library cannot read the answer: {error}") from None


def _numpy():
    """Returns numpy, or None where it is not installed."""
    try:
        import numpy
        return numpy
    except ImportError:
        return None


def numbers(values, name):
    """Returns a ctypes array of int64 from integers or an integer array."""
    from ._library import integer, listed
    values = listed(values, name)
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise UsageError(f"{name}: expected a list of integers, found {shown(values)}")
    values = [integer(v, f"{name}[{i}]", -2**62) for i, v in enumerate(values)]
    return (ctypes.c_int64 * len(values))(*values)
