"""Axes: which rows, columns or planes of memory a reduction goes along. `arrange` alone decides that, and whether to copy."""
from __future__ import annotations

import sys
from math import prod
from operator import index
from typing import Any, NamedTuple, Sequence

import numpy as np

from . import _abi

PLANES = any(field[0] == "planes" for field in _abi.Spec._fields_)  # this libreduce reduces planes
try:
    AxisError: Any = np.exceptions.AxisError
except AttributeError:  # NumPy 1.24 and before
    AxisError = getattr(np, "AxisError")


class Layout(NamedTuple):
    """An array as `planes` consecutive matrices of `rows` x `columns`, with one result for each column of each plane. With `by_row`
    there is a result for each row, which has a run of elements in each plane."""

    order: tuple[int, ...]  # the axes as they lie in memory, the slowest first
    kept: tuple[int, ...]   # those that are not reduced, in that order
    rows: int
    planes: int
    by_row: bool


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """NumPy's `axis` as ascending numbers from 0."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    try:
        wanted = [index(i) for i in given if not isinstance(i, bool)]  # as in NumPy: True is hardly meant as axis 1
    except TypeError:
        wanted = []
    if len(wanted) != len(given):
        raise TypeError(f"axis is an integer, a tuple of integers or None, not {axis!r:.60}")
    bound = ndim or (0 if given is axis else 1)  # NumPy takes axis 0 of a scalar
    for i in wanted:
        if not -bound <= i < bound:
            raise AxisError(i, ndim)
    found = {i % ndim for i in wanted} if ndim else set()
    if len(found) != len(wanted) and ndim:
        raise ValueError(f"axis: {axis!r} names an axis twice")
    return tuple(sorted(found))


def arrange(shape: Sequence[int], strides: Sequence[int], itemsize: int, axes: Sequence[int], ordered: bool) -> Layout | None:
    """How memory with these strides (bytes, none below 0) is reduced along `axes` without a copy; None: only a copy can be reduced.
    `ordered`: the result is a place, so that the reduced axes must lie in their order."""
    order = sorted((i for i, n in enumerate(shape) if n != 1), key=lambda i: -strides[i])
    size = itemsize
    for i in reversed(order):
        if strides[i] != size:
            return None
        size *= shape[i]
    reduced = [i for i in order if i in axes]
    if ordered and reduced != sorted(reduced):
        return None
    groups = "".join("R" if i in axes else "K" for i in order)
    while "RR" in groups or "KK" in groups:
        groups = groups.replace("RR", "R").replace("KK", "K")
    full = tuple(order) + tuple(i for i, n in enumerate(shape) if n == 1)
    kept = tuple(i for i in full if i not in axes)
    rows = prod(shape[i] for i in reduced)
    if groups in ("", "R", "K", "KR"):
        return Layout(full, kept, prod(shape[i] for i in kept), 1, True)
    if groups == "RK" or groups == "KRK" and PLANES:
        planes = prod(shape[i] for i in order[:order.index(reduced[0])])
        return Layout(full, kept, rows, planes, False)
    if groups == "RKR" and PLANES:
        planes = prod(shape[i] for i in order[:order.index(next(i for i in order if i not in axes))])
        return Layout(full, kept, prod(shape[i] for i in kept), planes, True)
    return None


def copied(shape: Sequence[int], strides: Sequence[int], axes: Sequence[int], ordered: bool) -> Layout:
    """The layout of a copy. Its last axis is the one that lies closest together now, so that a copy moves neighbours together.
    `ordered` as in `arrange`."""
    order = sorted(range(len(shape)), key=lambda i: -abs(strides[i]) if shape[i] != 1 else -sys.maxsize)
    reduced, kept = sorted(axes) if ordered else [i for i in order if i in axes], tuple(i for i in order if i not in axes)
    if not order or order[-1] in axes:
        return Layout(kept + tuple(reduced), kept, prod(shape[i] for i in kept), 1, True)
    return Layout(tuple(reduced) + kept, kept, prod(shape[i] for i in reduced), 1, False)


def in_order(a: np.ndarray[Any, Any], layout: Layout) -> np.ndarray[Any, Any]:
    """The elements of `a` contiguous in the order of `layout`; a copy if they lie otherwise."""
    return np.ascontiguousarray(a.transpose(layout.order))
