"""Variances with a divisor n - ddof where ddof is a fraction, part / parts. Each element counts `parts` times: the variance of those
with the divisor parts * n - part is the same real number, and an integer is what libreduce takes."""
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import _abi
from ._arrays import Array
from ._elements import Element
from ._lib import check, lib
from ._plan import cell_dtype
from ._results import Finish
from ._sources import address


class Repeated:
    """Makes the result of partial states, whose elements it repeats. `parts` is a power of two."""

    def __init__(self, finish: Finish, op: str, el: Element, spec: _abi.Spec, parts: int):
        self.finish, self.parts, self.cell = finish, parts, cell_dtype(op, el, spec.out)
        self.spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=spec.op, dtype=spec.dtype, out=spec.out, nan=spec.nan, ddof=spec.ddof, rows=1)

    def states(self, states: Array) -> Array:
        raise ValueError("ddof: a partial state has an integer")

    def __call__(self, states: Array) -> Any:
        cells = np.empty(states.shape, self.cell)
        for i, state in enumerate(states):
            data = ctypes.create_string_buffer(state.tobytes())
            for _ in range(self.parts.bit_length() - 1):
                check(lib().reduce_state_merge(data, data.raw))
            check(lib().reduce_state_finish(data, ctypes.byref(self.spec), address(cells[i:i + 1])))
        return self.finish(cells)
