"""Rounding of exact numbers to floats, once."""
from __future__ import annotations

import math
from fractions import Fraction

from . import _abi

FORMS = {_abi.F16: (11, -24), _abi.BF16: (8, -133), _abi.F32: (24, -149)}  # digits, and log2 of the smallest number above 0
DOUBLE = 53, -1074


def nearest(x: Fraction, root: bool, digits: int, least: int) -> float:
    """The number nearest to x > 0, or to its root. It has `digits` binary digits, none below 2**least; ties go to the even one."""
    return nearest_ratio(x.numerator, x.denominator, root, digits, least)


def nearest_ratio(n: int, d: int, root: bool, digits: int, least: int) -> float:
    """The same of n / d."""
    size = (n.bit_length() - d.bit_length()) // (2 if root else 1)  # the number is between 2**(size - 1) and 2**(size + 1)
    low = max(size - digits, least) - 2
    shift = (2 if root else 1) * low
    n, d = n << max(-shift, 0), d << max(shift, 0)
    q = math.isqrt(n // d) if root else n // d  # in units of 2**low
    exact = (q * q if root else q) * d == n
    drop = max(low + q.bit_length() - digits, least) - low
    rest, half = q & (1 << drop) - 1, 1 << drop - 1
    q >>= drop
    q += rest > half or rest == half and (not exact or q & 1)
    try:
        return math.ldexp(q, low + drop)
    except OverflowError:
        return math.inf
