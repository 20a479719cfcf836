"""Magnitudes of complex numbers: roots of sums of two squares, each as the sum of two doubles, which has an error below 2**-97 of it."""
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ._nearest import DOUBLE, nearest_ratio
from ._remote import Array

SPLIT = float(2**27 + 1)
CLOSE = 97  # log2 of a magnitude over its error
BLOCK = 1 << 14  # elements
UNIT = 1075  # bits after the point of a state of doubles, and of what is scaled here
SMALL, LARGE = -900, 1000  # exponents between which two doubles have the whole precision


def product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b as the sum of two doubles, exactly (Dekker)."""
    p, (x, u), (y, v) = a * b, halves(a), halves(b)
    return p, x * y - p + x * v + u * y + u * v


def halves(a: Array) -> tuple[Array, Array]:
    c = SPLIT * a
    high = c - (c - a)
    return high, a - high


def magnitudes(z: Array, doubles: int) -> Array:
    """|z| rounded once, or as two doubles along one more axis, of which it is the sum."""
    flat, found = np.ascontiguousarray(z).reshape(-1), np.empty((z.size, doubles))
    for i in range(0, z.size, BLOCK):
        for k, part in enumerate(of_block(flat[i:i + BLOCK])[:doubles]):
            found[i:i + BLOCK, k] = part
    return found.reshape(z.shape + (2,) if doubles == 2 else z.shape)


def of_block(z: Array) -> tuple[Array, Array]:
    """Both doubles of each magnitude. The first one is it rounded once."""
    with np.errstate(all="ignore"):
        x, y = np.abs(z.real).astype(float), np.abs(z.imag).astype(float)
        large, small = np.maximum(x, y), np.minimum(x, y)
        _, e = np.frexp(large)
        (p, p_low), (q, q_low) = (product(a, a) for a in (np.ldexp(large, -e), np.ldexp(small, -e)))
        s = p + q
        rest = q - (s - p) + (p_low + q_low)
        r = np.sqrt(s)
        t, t_low = product(r, r)
        low = np.where(r > 0, (s - t - t_low + rest) / (2 * r), 0.0)
        high = r + low
        low = low - (high - r)
        size, gap, error = np.abs(low), np.spacing(high), np.ldexp(high, -CLOSE)
        unsure = (np.abs(size - gap / 2) <= error) | (np.abs(size - gap / 4) <= error) | (e > LARGE) | (e < SMALL)
        high, low, finite = np.ldexp(high, e), np.ldexp(low, e), np.isfinite(large) & np.isfinite(small)
        if not finite.all():
            high, low = np.where(finite, high, np.hypot(x, y)), np.where(finite, low, 0.0)
    for i in np.flatnonzero(finite & (large > 0) & unsure).tolist():
        high[i], low[i] = by_whole_numbers(float(x[i]), float(y[i]))
    return high, low


def square(x: float, y: float) -> int:
    """x * x + y * y in units of 2**(-2 * UNIT)."""
    return int(sum((n << UNIT - d.bit_length() + 1) ** 2 for n, d in (x.as_integer_ratio(), y.as_integer_ratio())))


def by_whole_numbers(x: float, y: float) -> tuple[float, float]:
    """The same for two parts that are not both 0."""
    s = square(x, y)
    high = nearest_ratio(s, 1 << 2 * UNIT, True, *DOUBLE)
    if math.isinf(high):
        return high, 0.0
    more = max(0, 2 * CLOSE - s.bit_length() // 2)
    n, d = high.as_integer_ratio()
    low = math.isqrt(s << 2 * more) - (n << UNIT + more - d.bit_length() + 1)
    return high, math.ldexp(low, -UNIT - more) if low.bit_length() < 1000 else float(Fraction(low, 1 << UNIT + more))
