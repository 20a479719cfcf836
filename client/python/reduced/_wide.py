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
    """Makes the result of partial states of these operations. `initial` is one more element of each."""

    def __init__(self, finish: Finish | None, op: str, wanted: np.dtype[Any], initial: int = 0):
        self.finish, self.op, self.initial = finish, op, initial if op == "sum" else abs(initial)
        self.code = float_code(wanted if wanted.kind != "c" else np.dtype(f"f{wanted.itemsize // 2}"))

    def __call__(self, states: Array) -> Any:
        assert self.finish
        with np.errstate(over="ignore"):
            return self.finish(self.numbers(states))

    def numbers(self, states: Array) -> Array:
        """Numbers whose conversion to the type of the result rounds them once."""
        words = np.frombuffer(states.tobytes(), "u8").reshape(-1, 4)
        one, high = np.uint64(self.initial % 2**64), words[:, HIGH].view("i8")
        low = np.maximum(words[:, LOW], one) if self.op == "norminf" else words[:, LOW] + one
        if self.op != "norminf":
            high = high + (self.initial >> 64) + (low < one)
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
