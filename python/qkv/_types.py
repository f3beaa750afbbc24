# SPDX-License-Identifier: MIT
"""Types of the arguments of public functions."""
import os
from typing import Any, Callable, Optional, Sequence, Tuple, Union

ArrayLike = Any  #: has __dlpack__ or a buffer: an array of numpy, torch, jax, or a memoryview
Integers = Union[Sequence[int], ArrayLike]
Path = Union[str, bytes, "os.PathLike[str]"]
Texts = Union[str, Sequence[str]]
Pair = Union[Sequence[str], Tuple[str, str]]
Progress = Optional[Callable[[str, int, Optional[int]], Any]]  #: (what, done, total or None); True stops the call
