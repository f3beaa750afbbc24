# SPDX-License-Identifier: MIT
"""Exceptions of the package: one class per status of the library, with the place of the error in its input."""
import errno as _errno
import os as _os

try:
    from . import _layout
except ImportError:  # python/qkv of the sources, or a build tree without the target
    raise ImportError(f"{_os.path.dirname(_os.path.abspath(__file__))}: the package has no library: this folder is a source, or its build "
                      "is not complete; install it (`pip install .`), or build the target qkv_python and use build/release/python",
                      name=__name__) from None


class Error(Exception):
    """The base of all errors of qkv.

    Attributes:
        status: one word: "usage", "format", "unsupported", "limit", "io", "interrupted" or "internal"
        file: the path of the file with the error, or None
        offset: the byte offset of the error in the file, or None
        path: its place in a text file, a JSON path or "line:column", or None
        text: the message without the place
    """

    status = "internal"

    def __init__(self, message, *, file=None, offset=None, path=None, text=None):
        super().__init__(message)
        self.file, self.offset, self.path, self.text = file, offset, path, text or message

    def __str__(self):
        return self.args[0]

    def __reduce__(self):
        return _restore, (type(self), self.args[0], self.__dict__)


def _restore(cls, message, members):
    error = cls(message)
    error.__dict__.update(members)
    return error


class InternalError(Error):
    """A computed number is not finite, or a bug of qkv."""


class LibraryError(Error, ImportError):
    """The library cannot be loaded, or it has another version or other structures than this package."""


class UsageError(Error, ValueError):
    """An argument is invalid."""
    status = "usage"


class FormatError(Error, ValueError):
    """A file or a text is malformed."""
    status = "format"


class UnsupportedError(Error, NotImplementedError):
    """The input is valid, but qkv does not support it."""
    status = "unsupported"


class LimitError(Error, MemoryError):
    """Memory or another limit is exhausted."""
    status = "limit"


class FileError(Error, OSError):
    """The operating system refused a file operation."""
    status = "io"
    filename = property(lambda self: self.file)


class MissingFileError(FileError, FileNotFoundError):
    """A file, folder or model does not exist."""
    errno = property(lambda self: _errno.ENOENT)
    strerror = property(lambda self: _os.strerror(_errno.ENOENT))


class Interrupted(Error):
    """A callback stopped the call."""
    status = "interrupted"


class DtypeError(UsageError, TypeError):
    """An array has an element type that the call does not accept."""


class ReadOnlyError(UsageError):
    """An output array is read-only."""


class DeviceError(UsageError):
    """An array is not in the memory of the CPU."""


CLASSES = {_layout.ERR_INTERNAL: InternalError, _layout.ERR_USAGE: UsageError, _layout.ERR_FORMAT: FormatError,
           _layout.ERR_UNSUPPORTED: UnsupportedError, _layout.ERR_LIMIT: LimitError, _layout.ERR_IO: FileError,
           _layout.ERR_INTERRUPTED: Interrupted}
