"""What the library does not finish, by exact arithmetic on partial states (proto/PROTOCOL.md, Partial states): variances with a divisor
n - ddof that is not an integer, or larger than n, and variances and mean squares of complex numbers."""
from __future__ import annotations

import ctypes
import math
from fractions import Fraction
from typing import Any

import numpy as np

from . import _abi
from ._elements import Element, cell_dtype
from ._lib import check, lib
from ._nearest import DOUBLE, FORMS, nearest_ratio
from ._remote import Array
from ._results import Finish
from ._sources import address

HEAD, SPECIAL, COUNT = 16, 1, 8  # bytes of a state before its limbs; where a byte of infinities and NaNs and the count are
LIMBS = {144: (6, -150), 824: (34, -1075), 56: (2, 0)}  # bytes of a state: limbs of the sum, before those of the squares; log2 of its unit
UNITS = {96: -150, 552: -1075}  # bytes of a state of squares: log2 of the unit of the elements
CELLS = {_abi.F16: np.float16, _abi.F32: np.float32}


class Fractional:
    """Makes the result of partial states of var or std."""

    def __init__(self, finish: Finish, op: str, el: Element, spec: _abi.Spec, ddof: Fraction):
        self.finish, self.root, self.ddof, self.cell = finish, op == "std", ddof, cell_dtype(op, el, spec.out)
        self.form = FORMS.get(spec.out, DOUBLE)
        self.spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=spec.op, dtype=spec.dtype, out=spec.out, nan=spec.nan, rows=1)

    def states(self, states: Array) -> Array:
        raise ValueError("ddof: that of partial states is an integer of 0 or more")

    def __call__(self, states: Array) -> Any:
        if len(states) == 1 and self.form is DOUBLE and self.finish.simple:
            top, below = variance(states.tobytes(), self.ddof)
            if top and below > 0:
                return nearest_ratio(top, below, self.root, *DOUBLE)
        cells = np.empty(states.shape, self.cell)
        for i, state in enumerate(states):
            data = state.tobytes()
            top, below = variance(data, self.ddof)
            if top and below > 0:
                cells[i] = self.bits(nearest_ratio(top, below, self.root, *self.form))
                continue
            check(lib().reduce_state_finish(data, len(data), ctypes.byref(self.spec), address(cells[i:i + 1]), cells.itemsize))  # its errors and its 0
            if below <= 0:
                cells[i] = self.bits(math.nan)
        return self.finish(cells)

    def bits(self, value: float) -> Any:
        """A value that needs no more digits, as a cell."""
        if self.form is DOUBLE:
            return value
        with np.errstate(over="ignore"):
            return np.float32(value).view("u4") >> 16 if self.spec.out == _abi.BF16 else self.cell.type(value)


class OfPairs:
    """var, std, sem or rms of complex numbers, from the states of their real and imaginary parts. Their sum is rounded once, then the root."""

    def __init__(self, op: str, ddof: Any, out: int):
        self.op, self.root, (self.over, self.ddof) = op, op != "var", (Fraction(ddof).denominator, Fraction(ddof).numerator)
        self.form, self.cell = FORMS.get(out, DOUBLE), CELLS.get(out, np.float64)

    def __call__(self, states: Array) -> Array:
        """The values of states whose last axis has both parts."""
        found = [self.value(pair[0].tobytes(), pair[1].tobytes()) for pair in states.reshape(-1, 2)]
        if self.cell is np.float64:
            return np.array(found).reshape(states.shape[:-1])
        with np.errstate(over="ignore"):
            return np.array(found, self.cell).reshape(states.shape[:-1])

    def one(self, states: Array) -> float:
        """The only value."""
        pair = states.tobytes()
        return self.value(pair[:len(pair) // 2], pair[len(pair) // 2:])

    def value(self, real: bytes, imag: bytes) -> float:
        """By whole numbers, without the common divisors that fractions look for."""
        n = int.from_bytes(real[COUNT:HEAD], "little")
        special = max(real[SPECIAL], imag[SPECIAL])
        if self.op == "rms":
            top, below, unit = int.from_bytes(real[HEAD:], "little") + int.from_bytes(imag[HEAD:], "little"), n, UNITS[len(real)]
        else:
            (x, xx), (y, yy) = moments(real), moments(imag)
            top = (n * (xx + yy) - x * x - y * y) * self.over
            below, unit = n * (n * self.over - self.ddof), LIMBS[len(real)][1]
        if self.op == "sem":
            below *= n
        if special or below <= 0:
            return math.inf if special == 1 and self.op == "rms" else math.nan
        return nearest_ratio(top, below << -2 * unit, self.root, *self.form) if top else 0.0


def moments(state: bytes) -> tuple[int, int]:
    """The sum of a state's elements and that of their squares, in its units."""
    middle = HEAD + 8 * LIMBS[len(state)][0]
    return int.from_bytes(state[HEAD:middle], "little", signed=True), int.from_bytes(state[middle:], "little", signed=True)


def variance(state: bytes, ddof: Fraction) -> tuple[int, int]:
    """The variance of a state's elements as a ratio; its second number is not above 0 if it is not a number."""
    n, over = int.from_bytes(state[COUNT:HEAD], "little"), ddof.denominator
    if state[SPECIAL]:
        return 0, 0
    total, squares = moments(state)
    return (n * squares - total * total) * over, n * (n * over - ddof.numerator) << -2 * LIMBS[len(state)][1]
