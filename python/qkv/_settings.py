# SPDX-License-Identifier: MIT
"""Settings of the process: threads and instruction set."""
from typing import List, Optional

from . import _layout as c
from ._errors import UsageError
from ._library import integer, lib, raise_status, text


def threads() -> int:
    """Returns the number of threads of parallel work."""
    return lib.threads()


def set_threads(n: int) -> None:
    """Sets the number of threads, 1 .. 256; 0: the default.  Results are bit-identical for any number.

    Do not call it while another thread is inside a call of qkv.
    """
    n = integer(n, "threads", 0, c.THREADS_MAX)
    raise_status(lib.threads_set(n), f"threads: {n} refused")


def isa() -> str:
    """Returns the instruction set of the kernels in use: "scalar", "avx2", "avx512", ..."""
    return lib.isa().decode()


def set_isa(name: Optional[str] = None) -> None:
    """Selects an instruction set by name; None: the initial one.  Open models and plans are not valid after it."""
    status = lib.isa_set(None if name is None else text(name, "isa"))
    known: List[str] = []
    while lib.isa_supported(len(known)):
        known.append(lib.isa_supported(len(known)).decode())
    if status == c.ERR_USAGE:
        raise UsageError(f"isa: expected one of {', '.join(known)}, found {name!r}")
    raise_status(status, f"isa: this machine supports {', '.join(known)}")


def version() -> str:
    """Returns the version of the library."""
    return lib.version().decode()
