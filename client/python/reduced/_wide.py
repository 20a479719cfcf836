"""Sums and magnitudes of integers as floats: from the 128 bits of partial states, since 64 bits do not hold what a float can be."""
from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from . import _abi
from ._arrays import Array
from ._elements import float_code
from ._fractions import FORMS, nearest
from ._results import Finish

LOW, HIGH = 2, 3  # words of a state that are its number, in two's complement
EXACT = 2**24     # integers up to this are float32


class Wide:
    """Makes the result of partial states of sum, norm1 or norminf. `initial` is one more element of each."""

    def __init__(self, finish: Finish, wanted: np.dtype[Any], initial: int):
        self.finish, self.initial = finish, initial
        self.code = float_code(wanted if wanted.kind != "c" else np.dtype(f"f{wanted.itemsize // 2}"))

    def __call__(self, states: Array) -> Any:
        words = np.frombuffer(states.tobytes(), "u8").reshape(-1, 4)
        low = words[:, LOW] + np.uint64(self.initial % 2**64)
        high = words[:, HIGH].view("i8") + (self.initial >> 64) + (low < words[:, LOW])
        with np.errstate(over="ignore"):
            return self.finish(self.rounded(low, high))

    def rounded(self, low: Array, high: Array) -> Array:
        """Numbers whose conversion to the type of the result rounds them once."""
        signed = low.view("i8")
        if np.array_equal(high, signed >> 63):
            if self.code != _abi.BF16 or np.abs(signed).max(initial=0) <= EXACT:
                return signed
        elif not high.any() and self.code != _abi.BF16:
            return low
        whole = low.astype(object) + high.astype(object) * 2**64
        return np.array([self.nearest(x) for x in whole], "f8")

    def nearest(self, x: int) -> float:
        found = nearest(Fraction(abs(x)), False, *FORMS.get(self.code, (53, -1074))) if x else 0.0
        return -found if x < 0 else found
