# SPDX-License-Identifier: MIT
"""Loads libqkv and calls its functions; the prototypes are in _layout.py, which the build writes from the headers."""
import ctypes
import errno
import os
import signal
import threading

from ._errors import CLASSES, FileError, InternalError, LibraryError, MissingFileError, UsageError
from . import _layout


def _load():
    """Loads the library of the package, or the one that QKV_LIBRARY names, and checks its version and structures."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.environ.get("QKV_LIBRARY") or os.path.join(here, "libqkv.so")
    try:
        library = ctypes.CDLL(path)
        library.qkv_version.restype = ctypes.c_char_p
        version = library.qkv_version().decode()
    except (OSError, AttributeError) as error:
        raise LibraryError(f"{path}: cannot be loaded as libqkv: {error}") from None
    if version != _layout.VERSION:
        raise LibraryError(f"{path}: expected version {_layout.VERSION}, for which this package was built, found {version}")
    try:
        size, layout = library.qkv_struct_size, library.qkv_struct_layout
    except AttributeError:
        raise LibraryError(f"{path}: no function qkv_struct_layout: the library is older than this package") from None
    size.argtypes = layout.argtypes = [ctypes.c_char_p]
    size.restype, layout.restype = ctypes.c_size_t, ctypes.c_uint64
    for name, expected in _layout.LAYOUTS.items():
        raw = name.encode()
        if layout(raw) != expected:
            own, found = ctypes.sizeof(_layout.class_of(name)), size(raw)
            raise LibraryError(f"{path}: struct {name}: " + (
                f"expected {own} bytes, found {found}" if found != own else "expected other members of the same size")
                + ": the package was built for another libqkv; reinstall it")
    return library


_library = _load()


class _Functions:
    """The functions of the library without the prefix qkv_; each gets its prototype at first use."""

    def __getattr__(self, name):
        function = getattr(_library, "qkv_" + name)
        function.restype, function.argtypes = _layout.prototype("qkv_" + name)
        setattr(self, name, function)
        return function


lib = _Functions()
_local = threading.local()


def raise_error(error):
    """Raises the exception of a struct qkv_error."""
    line = ctypes.create_string_buffer(2048)
    lib.error_line(line, len(line), ctypes.byref(error))
    decode = lambda b: b.decode("utf-8", "replace") or None
    cls = CLASSES.get(error.status, InternalError)
    if cls is FileError and error.text.endswith(os.strerror(errno.ENOENT).encode()):
        cls = MissingFileError
    raise cls(
        decode(line.value) or "an error without a message", file=decode(error.file), path=decode(error.path),
        offset=error.offset if error.has_offset else None, text=decode(error.text))


def call(function, *arguments):
    """Calls a function that ends with a struct qkv_error, and raises its error."""
    error = _layout.Error()
    try:
        status = function(*arguments, ctypes.byref(error))
    finally:
        end_uses(arguments)
    if status:
        error.status = error.status or status
        raise_error(error)


def raise_status(status, reason):
    if status:
        raise CLASSES.get(status, InternalError)(reason or f"status {status}")


class Scratch:
    """Memory of one call, aligned to 64, as an argument of it."""
    __slots__ = ("_as_parameter_", "_memory")

    def __init__(self, memory):
        self._memory = memory  # of this thread, or of this call alone
        self._as_parameter_ = (ctypes.addressof(memory) + 63) // 64 * 64


SCRATCH_KEPT = 2**24  # bytes that a thread keeps for its next call; larger memory is freed after the call


def scratch(size):
    """Returns Scratch of size bytes: memory that this thread keeps, or that is freed with the Scratch if it is large."""
    kept = getattr(_local, "scratch", None)
    if kept is not None and len(kept._memory) >= size + 64:
        return kept
    try:
        made = Scratch((ctypes.c_char * (size + 64)).from_buffer(bytearray(size + 64)))  # pages appear at first use
    except (MemoryError, OverflowError, ValueError):
        raise CLASSES[_layout.ERR_LIMIT](f"no memory for {size} bytes of scratch") from None
    if size <= SCRATCH_KEPT:
        _local.scratch = made
    return made


def text(value, name):
    """Returns a text as bytes of UTF-8 without NUL, for a path or a name."""
    if isinstance(value, (bytes, str)) or hasattr(value, "__fspath__"):
        try:
            raw = os.fsencode(value)
        except (TypeError, ValueError):
            raw = b"\0"
        if b"\0" not in raw:
            return raw
    raise UsageError(f"{name}: expected a text without NUL, found {shown(value)}")


def shown(value):
    """Returns a value in at most 60 characters for a message."""
    try:
        line = repr(value)
    except Exception:  # a foreign __repr__ may raise anything
        line = object.__repr__(value)
    return line if len(line) <= 60 else line[:57] + "..."


def integer(value, name, least=0, most=2**62):
    """Returns an integer in a range; True and 1.0 are no integers."""
    try:
        number = value.__index__()
    except Exception:  # a foreign method may raise anything
        number = None
    if number is None or isinstance(value, bool) or not least <= number <= most:
        outside = number is not None and not least <= number <= most
        limits = [f"at {word} {x}" for word, x, none in (("least", least, -2**62), ("most", most, 2**62)) if outside or x != none]
        raise UsageError(f"{name}: expected an integer{' of ' if limits else ''}{' and '.join(limits)}, found {shown(value)}")
    return number


def number(value, name):
    """Returns a finite number as float."""
    try:
        x = None if isinstance(value, (str, bytes)) else float(value)
    except Exception:  # a foreign method may raise anything
        x = None
    if x is None or x != x or abs(x) > 3.4e38:
        raise UsageError(f"{name}: expected a finite number, found {shown(value)}")
    return x


def listed(values, name):
    """Returns the elements of an array as a list, and other values as they are."""
    if not hasattr(values, "tolist"):
        return values
    try:
        return values.tolist()
    except Exception as error:  # of a tensor without memory; a foreign method may raise anything
        raise UsageError(f"{name}: its elements cannot be read: {error}") from None


def choice(value, name, names):
    """Returns the value of a name in a table."""
    if not isinstance(value, str) or value not in names:
        raise UsageError(f"{name}: expected {', '.join(map(repr, names))}, found {shown(value)}")
    return names[value]


def list_of(values, name):
    values = listed(values, name)
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise UsageError(f"{name}: expected a list, found {shown(values)}")
    return list(values)


class Use:
    """The pointer of a Handle as an argument of a call: the memory is not freed before the use ends."""
    __slots__ = ("_as_parameter_", "_handle")

    def __init__(self, handle, pointer):
        self._as_parameter_, self._handle = pointer, handle

    def end(self):
        handle, self._handle = self._handle, None
        if handle is not None:
            handle._end_use()

    __del__ = end


def end_uses(arguments):
    """Ends the uses among the arguments of a call; the traceback of an exception would keep them."""
    for x in arguments:
        if isinstance(x, Use):
            x.end()


class Handle:
    """An object of the library, freed with the Python object."""
    _close = ""  # name of the function that frees it

    def __init__(self):
        self._pointer, self._uses, self._closed = ctypes.c_void_p(), 0, []
        self._lock = threading.RLock()  # the garbage collector may end a use while the lock is held

    @property
    def _at(self):
        return self._use()

    def _use(self, pointer=None):
        """Returns a Use of the object, or of a pointer that lives as long as the object."""
        with self._lock:
            if not self._pointer:
                raise UsageError(f"{type(self).__name__}: this object is closed")
            self._uses += 1
            return Use(self, pointer or self._pointer)

    def _end_use(self):
        with self._lock:
            self._uses -= 1
        self._free_closed()

    def _free_closed(self):
        """Frees the closed pointers unless a call uses the object."""
        with self._lock:
            if self._uses:
                return
            closed, self._closed = self._closed, []
        for pointer in closed:
            getattr(lib, self._close)(pointer)

    def close(self) -> None:
        """Frees the memory; later calls raise UsageError.  Calls that are running end first, also one that calls close()."""
        if not hasattr(self, "_lock"):  # __init__ failed early
            return
        with self._lock:
            if self._pointer:
                self._closed.append(self._pointer)
            self._pointer = ctypes.c_void_p()
        self._free_closed()

    def __del__(self):
        self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        raise TypeError(f"{type(self).__name__}: an open object cannot be pickled")


PRECISIONS = {"f32": _layout.PRECISION_F32, "f32-strict": _layout.PRECISION_F32_STRICT,
              "f32-fast": _layout.PRECISION_F32_FAST, "bf16": _layout.PRECISION_BF16, "f16": _layout.PRECISION_F16,
              "int8": _layout.PRECISION_INT8}


class Callbacks:
    """Python callbacks for one call of the library: an exception in one stops the call and is raised after it.

    Ctrl-C is such an exception.
    """

    def __init__(self):
        self.error, self.kept = None, []

    def wrap(self, function, *kinds, result=ctypes.c_int):
        """Returns the address of a C function (user, kinds...) that calls function(...)."""
        def guarded(_, *arguments):
            try:
                if self.error is None:
                    answer = int(bool(function(*arguments)))
                    return None if result is None else answer
            except BaseException as error:
                self.error = error
            return None if result is None else 1
        made = ctypes.CFUNCTYPE(result, ctypes.c_void_p, *kinds)(guarded)
        self.kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value

    def progress(self, function):
        """Returns a struct qkv_progress for function(what, done, total), which may be None; Ctrl-C works with None."""
        def step(what, done, total):
            return function(what.decode("utf-8", "replace"), done, total if total >= 0 else None) if function else 0
        return _layout.Progress(step=self.wrap(step, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64))

    def _interrupt(self, *_):
        self.error = KeyboardInterrupt()

    def call(self, function, *arguments):
        """As call(), but an exception of a callback comes first.

        During the call Ctrl-C only notes KeyboardInterrupt, since an exception that begins outside the try of a callback
        would be lost in ctypes; the next callback then stops the call.
        """
        error = _layout.Error()
        ours = threading.current_thread() is threading.main_thread() and \
            signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours:
            signal.signal(signal.SIGINT, self._interrupt)
        try:
            status = function(*arguments, ctypes.byref(error))
        finally:
            end_uses(arguments)
            if ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.error is not None:
            raise self.error
        if status:
            error.status = error.status or status
            raise_error(error)


def function_or_none(value, name):
    if value is not None and not callable(value):
        raise UsageError(f"{name}: expected a function or None, found {shown(value)}")
    return value
