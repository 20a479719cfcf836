"""What type checkers know of the package's results (test_python_types.py): each line is checked by mypy, and at run time by the test."""
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import reduced

floats: NDArray[np.float64] = np.array([1.0, 2.0])
integers: NDArray[np.int32] = np.array([[1, 2], [3, 4]], np.int32)
flags: NDArray[np.bool_] = np.array([True, False])
pairs: NDArray[np.complex128] = np.array([1j, 2.0])
room: NDArray[np.float32] = np.zeros(2, np.float32)

total: float = reduced.sum(floats)
whole: int = reduced.sum(integers)
number: int = reduced.sum(flags)
both: complex = reduced.sum(pairs)
listed: float = reduced.sum([0.1] * 10)
middle: float = reduced.mean(integers)
center: complex = reduced.mean(pairs)
product: int = reduced.prod([2, 3])
spread: float = reduced.var(integers, ddof=1)
error: float = reduced.sem(floats)
length: float = reduced.norm(pairs, 1)
least: float = reduced.min(floats)
first: bool = reduced.max(flags)
place: int = reduced.argmax(floats)
some: bool = reduced.any(integers)
mask: int = reduced.bits(integers, "or")
skipped: float = reduced.nansum(floats)
lowest: float = reduced.nanmin(floats)
rows: NDArray[Any] = reduced.sum(integers, axis=1, keepdims=True)
parts: NDArray[Any] = reduced.mean(floats, offsets=[0, 1, 2])
given: NDArray[np.float32] = reduced.var(integers, 0, out=room)
ends: reduced.MinMax = reduced.minmax(floats)
summary: reduced.Stats = reduced.stats(floats)
state: reduced.State = reduced.state("sum", floats)
joined: reduced.State = state | state
value: float = float(joined)
stored: bytes = bytes(state)
words: NDArray[np.int64] = state.words()
task: reduced.Task = reduced.submit(reduced.sum, floats)
several: list[Any] = reduced.many([("sum", floats)])
