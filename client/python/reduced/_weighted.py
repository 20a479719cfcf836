"""Quantiles of weighted elements, by the only method that NumPy has for them: the first element whose weights, with those of all smaller
ones, reach the share q of all weights. Sums of weights are compared exactly."""
from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ._arrays import operand
from ._functions import sum as exact_sum
from ._layout import axes_of
from ._pairs import aligned
from ._prepare import in_memory, kept, native
from ._remote import Array
from ._results import plain, put_out
from .errors import EmptyError, NanError


def exact(w: Array) -> Fraction:
    """The sum of weights, which takes several doubles: each is the rounded rest of the ones before. One beyond doubles is that of halves."""
    parts: list[float] = []
    while rest := float(exact_sum(np.append(w, parts))):
        if np.isinf(rest):
            return exact(w[:len(w) // 2]) + exact(w[len(w) // 2:])
        parts.append(-rest)
    return -sum(map(Fraction, parts), Fraction(0))


def place(c: Array, unit: Fraction, w: Array, share: Fraction, total: Fraction) -> int:
    """The first place where the weights w up to there, whose rounded sums are c units, reach that share of the total."""
    goal = share * total
    about, doubt = float(goal / unit), len(w) * 2.0**-51 * float(total / unit)
    low, high = int(np.searchsorted(c, about - doubt)), min(int(np.searchsorted(c, about + doubt)), len(w) - 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if exact(w[:middle + 1]) >= goal else (middle + 1, high)
    return low


def of_line(x: Array, w: Array, shares: list[Fraction], nan: str) -> Array:
    """The quantiles of one line, with weights of at least 0."""
    nans = x != x
    if nans.any() and nan != "omit":
        if nan == "raise":
            raise NanError("a NaN")
        return np.full(len(shares), np.nan, x.dtype)
    there = (w > 0) & ~nans
    x, w = x[there], w[there]
    if not len(x):
        if x.dtype.kind != "f":
            raise EmptyError("no element has a weight")
        return np.full(len(shares), np.nan, x.dtype)
    order = np.lexsort((~np.signbit(x), x)) if x.dtype.kind == "f" else np.argsort(x, kind="stable")
    x, w = x[order], w[order]
    digits = int(np.frexp(w.max())[1])  # sums of weights near 1 are far from the ends of doubles
    c, unit, total = np.cumsum(np.ldexp(w, -digits)), Fraction(2)**digits, exact(w)
    return x[[place(c, unit, w, q, total) for q in shares]]


def weights_of(weights: Any, x: Array, axis: Any, axes: tuple[int, ...]) -> Array:
    """A weight for each element; 0 where it is missing."""
    o = operand(weights, "weights")
    given = in_memory(o.data, "weights")
    if o.keep is not None:  # a missing weight leaves out its element, as in `average`
        given = np.where(in_memory(o.keep, "weights"), given, given.dtype.type(0))
    w = aligned(x, given, axis, axes)(given)
    if w.dtype.kind not in "biuf":
        raise TypeError(f"weights: elements of type {w.dtype} are not weights")
    doubles = w.astype(float)
    if not np.isfinite(doubles).all() or w.dtype.kind in "iu" and (np.abs(doubles) > 2.0**53).any():
        raise ValueError("weights: they are finite, and integers at most 2^53")
    if (doubles < 0).any():
        raise ValueError("Weights must be non-negative.")
    return np.broadcast_to(doubles, x.shape)


def quantiles(a: Any, q: list[Fraction], shape: tuple[int, ...], weights: Any, axis: Any, out: Any, method: str, keepdims: bool, where: Any, nan: str) -> Any:
    """The quantiles, whose axes come first."""
    if method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    o = operand(a)
    x, marks = native(in_memory(o.data, "a")), in_memory(kept(where, o), "where")
    if x.dtype.kind not in "biuf":
        raise TypeError(f"a: elements of type {x.dtype} have no weighted quantiles")
    axes = axes_of(axis, x.ndim)
    w = weights_of(weights, x, axis, axes)
    lost = ~np.broadcast_to(True if o.keep is None else o.keep, x.shape).any(axis=axes, keepdims=keepdims) if o.masked else None
    if marks is not None:
        there = np.broadcast_to(marks, x.shape)
        w, x = np.where(there, w, 0), np.where(there, x, x.dtype.type(0))
    kept_axes = [i for i in range(x.ndim) if i not in axes]
    length, width = (int(np.prod([x.shape[i] for i in some])) for some in (kept_axes, axes))
    lines, of_lines = (y.transpose(*kept_axes, *axes).reshape(length, width) for y in (x, w))
    hidden = np.zeros(length, bool) if lost is None else np.reshape(lost, length)
    nothing = np.zeros(len(q), x.dtype)
    found = np.array([nothing if h else of_line(line, v, q, nan) for line, v, h in zip(lines, of_lines, hidden)], x.dtype).reshape(length, len(q))
    left = tuple(n if i not in axes else 1 for i, n in enumerate(x.shape) if keepdims or i not in axes)
    result = np.ascontiguousarray(found.T).reshape(shape + left)
    if lost is not None:
        lost = lost | np.zeros(result.shape, bool)
    if out is not None:
        put_out(result, out, "quantile")
        if lost is not None and isinstance(out, np.ma.MaskedArray):
            out.mask = lost
        return out
    if not result.ndim:
        return np.ma.masked if np.any(lost) else plain(result[()], result.dtype)
    return result if lost is None else np.ma.MaskedArray(result, mask=lost)
