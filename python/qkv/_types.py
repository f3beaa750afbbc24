# SPDX-License-Identifier: MIT
"""Types of the arguments of public functions."""
import os
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

ArrayLike = Any  #: has __dlpack__ or a buffer: an array of numpy, torch, jax, or a memoryview
Integers = Union[Sequence[int], ArrayLike]
Path = Union[str, bytes, "os.PathLike[str]"]
Texts = Union[str, Sequence[str]]
Pair = Union[Sequence[str], Tuple[str, str]]
Progress = Optional[Callable[[str, int, Optional[int]], Any]]  #: (what, done, total or None); True stops the call
Token = Union[str, bool, None]  #: of the Hugging Face Hub
Pool = Optional[Dict[str, Any]]  #: of start_multi_process_pool
