"""Sums and magnitudes of integers as floats: from the 128 bits of partial states, since 64 bits do not hold what a float can be."""
from __future__ import annotations

from fractions import Fraction
from math import copysign
from typing import Any

import numpy as np

from ._elements import part_code
from ._nearest import DOUBLE, FORMS, nearest
from ._remote import Array
from ._results import Finish

STATE = 32  # bytes
LOW, HIGH = 2, 3  # words of a state that are its number, in two's complement


class Wide:
    """Makes the result of partial states of these operations. `initial` is one more element of each."""

    def __init__(self, finish: Finish, op: str, wanted: np.dtype[Any], initial: int):
        self.finish, self.op, self.wanted, self.initial = finish, op, wanted, initial

    def __call__(self, states: Array) -> Any:
        return self.finish(numbers(states.tobytes(), self.op, self.wanted, self.initial))


class Spans:
    """Makes means of spans, of which the sum may need more than 64 bits."""

    def __init__(self, finish: Finish):
        self.finish = finish

    def __call__(self, states: Array) -> Any:
        p = self.finish.p
        if self.finish.scalar and not self.finish.given and p.late is None and p.masked is None and type(p.counts) is int and p.counts:
            total = int.from_bytes(states.tobytes()[8 * LOW:], "little", signed=True)
            return np.array(-(-total // p.counts) if total < 0 else total // p.counts).view(p.wanted)[()]
        words = np.frombuffer(states.tobytes(), "u8").reshape(-1, 4)
        low, high = words[:, LOW].view("i8"), words[:, HIGH].view("i8")
        if np.array_equal(high, low >> 63):
            return self.finish(low)
        return self.finish(words[:, LOW].astype(object) + high.astype(object) * 2**64)


def numbers(states: bytes, op: str, wanted: np.dtype[Any], initial: int = 0) -> Array:
    """The numbers of consecutive states, as integers if 64 bits hold them, else rounded to a type. `fit` makes that type of them, and
    does not round twice."""
    first = initial if op == "sum" else abs(initial)
    if len(states) == STATE:
        one = int.from_bytes(states[8 * LOW:], "little", signed=True)
        one = max(one, first) if op == "norminf" else one + first
        if -2**63 <= one < 2**64:
            return np.array([one], "i8" if one < 2**63 else "u8")
    words = np.frombuffer(states, "u8").reshape(-1, 4)
    added, low, high = np.uint64(first % 2**64), words[:, LOW], words[:, HIGH].view("i8")
    if op == "norminf":
        low = np.maximum(low, added)
    else:
        low = low + added
        high = high + (first >> 64) + (low < added)
    if np.array_equal(high, low.view("i8") >> 63):
        return low.view("i8")
    if not high.any():
        return low
    form = FORMS.get(part_code(wanted), DOUBLE)
    whole = low.astype(object) + high.astype(object) * 2**64
    return np.array([copysign(nearest(Fraction(abs(x)), False, *form), x) if x else 0.0 for x in whole])
