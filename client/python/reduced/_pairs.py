"""Sums over pairs of elements, with NumPy's signatures: dot products, weighted means, covariance and correlation."""
from __future__ import annotations

import ctypes
import math
from math import prod
from typing import Any, NamedTuple

import numpy as np

from . import _abi, _functions
from ._arrays import Operand, operand
from ._elements import Element, cell_dtype, element
from ._layout import Layout, arrange, axes_of, copied, in_order
from ._nearest import DOUBLE, nearest_ratio
from ._plan import NANS, NO_VALUE, Plan, out_code
from ._prepare import check_exact, in_memory, kept, native, result_dtype
from ._remote import Array
from ._results import fit, plain, put_out
from ._run import run
from ._sources import Memory, address

__all__ = ("dot", "vdot", "average", "cov", "corrcoef")
HEAD, SPECIAL = 16, 1  # bytes of a state before its limbs; where a byte of infinities and NaNs is
LIMBS = {144: (6, -150), 824: (34, -1075), 56: (2, 0)}  # bytes of a state of wmean: limbs of the sum of weights; log2 of its unit


class Pairs(NamedTuple):
    """Two arrays of types that go together, and which pairs count (None: all)."""

    x: Array
    w: Array
    keep: Array | None
    wanted: np.dtype[Any]  # NumPy's type of the result
    masked: bool


def _array(a: Any, name: str) -> tuple[Array, Any, bool]:
    o = operand(a, name)
    data = native(in_memory(o.data, name))
    element(data.dtype, name)
    if data.dtype.kind in "cmM":
        raise TypeError(f"{name}: pairs of {data.dtype} cannot be reduced")
    return data, in_memory(o.keep, name), o.masked


def _pair(op: str, a: Any, b: Any, names: tuple[str, str]) -> Pairs:
    """Elements of one type, or f32 with weights of f64. Integers beside floats become floats if these have them exactly."""
    (x, keep, masked), (w, other, also) = _array(a, names[0]), _array(b, names[1])
    if x.dtype != w.dtype and not (x.dtype == np.float32 and w.dtype == np.float64):
        common = np.result_type(x, w)
        for data, marks, name in ((x, keep, names[0]), (w, other, names[1])):
            check_exact(data, common, marks, name)
        x, w = x.astype(common, copy=False), w.astype(common, copy=False)
    if other is not None and other.shape == x.shape:
        keep = other if keep is None else keep & other
    elif other is not None and not other.all():
        raise TypeError(f"{names[1]}: masked ones have the shape of the elements")
    wanted = w.dtype if w.dtype == np.float64 else result_dtype(op, element(x.dtype))
    return Pairs(x, w, keep, wanted, masked or also)


def _forward(a: Array) -> Array:
    """Without negative strides."""
    return np.ascontiguousarray(a) if any(s < 0 for s in a.strides) else a


class Weights(NamedTuple):
    """Weights as the library takes them."""

    data: Array
    extent: int


def _weights(p: Pairs, axes: tuple[int, ...], layout: Layout) -> Weights:
    """One for each element, or `p.w`, which has length 1 along the axes that are kept, along those that are reduced."""
    if p.w.shape == p.x.shape:
        return Weights(in_order(p.w, layout), _abi.EACH_ELEMENT)
    if layout.planes > 1 and layout.by_row or not p.x.size:
        return Weights(in_order(np.broadcast_to(p.w, p.x.shape), layout), _abi.EACH_ELEMENT)
    return Weights(in_order(p.w, layout), _abi.EACH_COLUMN if layout.by_row else _abi.EACH_ROW)


def _reduce(op: str, p: Pairs, axes: tuple[int, ...], nan: str, client: Any, deadline: Any, progress: Any, flags: int = 0) -> Array:
    """The cells of the kept axes, in C order."""
    if nan not in NANS:
        raise ValueError(f"nan is propagate, omit or raise, not {nan!r}")
    x = _forward(p.x)
    layout = arrange(x.shape, x.strides, x.dtype.itemsize, axes, False) or copied(x.shape, x.strides, axes, False)
    el: Element = element(x.dtype)
    weights = _weights(p, axes, layout)
    n = prod(x.shape[i] for i in layout.kept)
    data, keep = np.ascontiguousarray(x.transpose(layout.order)).view(el.view), None if p.keep is None else in_order(p.keep, layout)
    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS[op].code, dtype=el.code, nan=NANS[nan], rows=n, flags=flags,
                     weights_dtype=element(weights.data.dtype).code, weights_extent=weights.extent)
    if not layout.by_row and data.nbytes:
        spec.flags, spec.rows = spec.flags | _abi.COLUMNS, layout.rows
    if layout.planes > 1 and data.nbytes:
        spec.planes = layout.planes
    spec.weights = address(weights.data) if weights.data.nbytes else address(np.zeros(1))
    if keep is not None:
        spec.mask = address(keep)
    state = flags & _abi.STATES_OUT
    spec.out = 0 if state else out_code(op, el, p.wanted)
    from ._lib import lib
    kind = np.dtype(f"V{lib().reduce_state_size(spec.op, spec.weights_dtype)}") if state else cell_dtype(op, el, spec.out)
    plan = Plan(op, el, spec, Memory(data), np.empty(n, kind), lambda cells: cells, (weights, keep))
    cells: Array = run(plan, client, deadline, progress)
    laid = cells.reshape([x.shape[i] for i in layout.kept])
    return laid.transpose(np.argsort(layout.kept)) if layout.kept else laid


def _value(op: str, cells: Array, p: Pairs, out: Any) -> Any:
    values = fit(np.ascontiguousarray(cells), p.wanted, op).reshape(cells.shape)
    if out is not None:
        return put_out(values, out, op)
    return values if values.shape else plain(values[()], p.wanted)


def dot(a: Any, b: Any, out: Any = None, *, nan: str = "propagate", client: Any = None, deadline: float | None = None, progress: Any = None) -> Any:
    """The exact dot product of two vectors, rounded once; of a matrix and a vector that of each row. Two matrices are not possible.

    >>> reduced.dot([1e16, 1, -1e16], [1, 2, 1])
    2.0
    """
    p = _pair("dot", a, b, ("a", "b"))
    if p.x.ndim == p.w.ndim == 0:
        p = p._replace(x=p.x.reshape(1), w=p.w.reshape(1))
    if p.w.ndim != 1 or p.x.ndim < 1:
        raise TypeError("b is a vector: the product of two matrices is not possible")
    if p.x.shape[-1] != len(p.w):
        raise ValueError(f"shapes {p.x.shape} and {p.w.shape} not aligned: {p.x.shape[-1]} (dim {p.x.ndim - 1}) != {len(p.w)} (dim 0)")
    p = p._replace(w=p.w.reshape((1,) * (p.x.ndim - 1) + p.w.shape))
    return _value("dot", _reduce("dot", p, (p.x.ndim - 1,), nan, client, deadline, progress), p, out)


def vdot(a: Any, b: Any, *, nan: str = "propagate", client: Any = None, deadline: float | None = None, progress: Any = None) -> Any:
    """The exact sum of the products of all elements of two arrays, in C order, rounded once.

    >>> reduced.vdot([[1, 2], [3, 4]], [[5, 6], [7, 8]])
    70
    """
    p = _pair("dot", a, b, ("a", "b"))
    if p.x.size != p.w.size:
        raise ValueError(f"cannot reshape array of size {p.w.size} into shape ({p.x.size},)")
    if p.x.shape != p.w.shape:
        p = p._replace(x=p.x.reshape(-1), w=p.w.reshape(-1), keep=None if p.keep is None else p.keep.reshape(-1))
    return _value("dot", _reduce("dot", p, tuple(range(p.x.ndim)), nan, client, deadline, progress), p, None)


def _aligned(p: Pairs, axis: Any, axes: tuple[int, ...]) -> Pairs:
    """Weights with the axes of the elements, and length 1 along those that they do not have. The errors are NumPy's."""
    if p.w.shape == p.x.shape:
        return p
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    given = [int(i) % p.x.ndim for i in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if p.w.shape != tuple(p.x.shape[i] for i in given):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    w = p.w.transpose(np.argsort(given)).reshape([n if i in axes else 1 for i, n in enumerate(p.x.shape)])
    return p._replace(w=w)


def _counting(data: Any, keep: Any, nan: str) -> Any:
    """Which elements count (None: all): with nan="omit" no NaN."""
    if nan != "omit" or element(data.dtype).kind != "f":
        return keep
    there = ~np.isnan(in_memory(data, "NaNs"))
    return there if keep is None else there & in_memory(keep, "`where`")


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False, where: Any = None, nan: str = "propagate",
            drop_zero_weights: bool = False, client: Any = None, deadline: float | None = None, progress: Any = None) -> Any:
    """The weighted mean: the exact weighted sum over the exact sum of the weights, rounded once. Weights have the shape of `a`, or that of
    the axes. As in NumPy, weights that sum to zero are a ZeroDivisionError. With `drop_zero_weights` an element with a weight of 0 is left
    out, even if it is infinite or NaN. With `returned` the sum of the weights comes, too.

    >>> reduced.average([1, 2, 4], weights=[3, 2, 1])
    1.8333333333333333
    """
    keepdims = keepdims is not NO_VALUE and bool(keepdims)
    if weights is None:
        o = operand(a, flows=not returned)
        found = _functions.mean(o, axis, keepdims=keepdims, where=where, nan=nan, client=client, deadline=deadline, progress=progress)
        if not returned:
            return found
        counting = _counting(o.data, kept(None if where is NO_VALUE else where, o), nan)
        counts = np.asarray(_functions.sum(np.ones(o.data.shape), axis, keepdims=keepdims, where=counting, client=client))
        return found, np.broadcast_to(counts, np.shape(found))[()]
    p = _pair("wmean", a, weights, ("a", "weights"))
    axes = axes_of(axis, p.x.ndim)
    p = _aligned(p, axis, axes)
    if where is not None and where is not NO_VALUE:
        p = p._replace(keep=in_memory(kept(where, Operand(p.x, p.keep)), "`where`"))
    cells = _reduce("wmean", p, axes, nan, client, deadline, progress, _abi.DROP_ZERO_WEIGHTS * bool(drop_zero_weights))
    shape = tuple(1 if i in axes else n for i, n in enumerate(p.x.shape)) if keepdims else cells.shape
    if returned or not np.isfinite(fit(np.ascontiguousarray(cells), p.wanted, "wmean").astype(float)).all():
        counting = _counting(p.w, _counting(p.x, p.keep, nan), nan)
        total = _functions.sum(np.broadcast_to(p.w, p.x.shape), axis, keepdims=keepdims, where=counting, client=client)
        if np.any(np.asarray(total) == 0):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    found = _value("wmean", cells.reshape(shape), p, None)
    return (found, total) if returned else found


# ---- covariance and correlation ----

class Moments(NamedTuple):
    """Exact sums of several variables, in units of 2^unit; None: there are infinities or NaNs."""

    count: int
    sums: list[int | None]
    products: dict[tuple[int, int], int | None]
    unit: int

    def spread(self, i: int, j: int) -> int | None:
        """n Sij - Si Sj"""
        s, t, both = self.sums[i], self.sums[j], self.products[min(i, j), max(i, j)]
        return None if s is None or t is None or both is None else self.count * both - s * t


def _moments(rows: Array, client: Any, deadline: Any) -> Moments:
    """From states of weighted means, each of which has the sum of one variable and that of the products."""
    sums: list[int | None] = [None] * len(rows)
    products: dict[tuple[int, int], int | None] = {}
    unit = 0
    for i in range(len(rows)):
        for j in range(i + 1):
            p = Pairs(rows[i], rows[j], None, np.dtype(float), False)
            state = _reduce("wmean", p, (0,), "propagate", client, deadline, None, _abi.STATES_OUT)[()].tobytes()
            limbs, unit = LIMBS[len(state)]
            middle = HEAD + 8 * limbs
            products[j, i] = None if state[SPECIAL] else int.from_bytes(state[middle:], "little", signed=True)
            if i == j and not state[SPECIAL]:
                sums[i] = int.from_bytes(state[HEAD:middle], "little", signed=True)
    return Moments(rows.shape[1], sums, products, unit)


def _variables(m: Any, y: Any, rowvar: bool) -> Array:
    """The variables as rows."""
    both = []
    for a, name in ((m, "m"), (y, "y")):
        if a is None:
            continue
        data, keep, _ = _array(a, name)
        if data.ndim > 2:
            raise ValueError(f"{name} has more than 2 dimensions")
        if keep is not None and not keep.all():
            raise TypeError(f"{name}: masked elements are not possible")
        data = np.atleast_2d(data)
        both.append(np.ascontiguousarray(data if rowvar or len(data) == 1 else data.T))
    common = np.result_type(*both)
    for data in both:
        check_exact(data, common, None, "m")
    return np.concatenate([data.astype(common, copy=False) for data in both]) if len(both) > 1 else both[0]


def _matrix(rows: Array, entry: Any) -> Any:
    n = len(rows)
    found = np.array([[entry(i, j) if i >= j else 0.0 for j in range(n)] for i in range(n)])
    return (found + np.tril(found, -1).T).squeeze()


def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, *, client: Any = None,
        deadline: float | None = None) -> Any:
    """The covariance matrix: each entry is the exact value, rounded once. By default the divisor is n - 1.

    >>> float(reduced.cov([1e9 + 1, 1e9 + 2, 1e9 + 3]))
    1.0
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    rows = _variables(m, y, rowvar)
    x = _moments(rows, client, deadline)
    below = x.count * (x.count - (ddof if ddof is not None else 0 if bias else 1))

    def entry(i: int, j: int) -> float:
        top = x.spread(i, j)
        if top is None or below <= 0:
            return math.nan
        found = nearest_ratio(abs(top), below << -2 * x.unit, False, *DOUBLE) if top else 0.0
        return -found if top < 0 else found
    return _matrix(rows, entry)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, client: Any = None, deadline: float | None = None) -> Any:
    """The correlation coefficients: each is the exact value, rounded once, so never beyond 1 or -1. Of a constant it is NaN.

    >>> float(reduced.corrcoef([1, 2, 3], [-2, -4, -6])[0, 1])
    -1.0
    """
    rows = _variables(x, y, rowvar)
    found = _moments(rows, client, deadline)

    def entry(i: int, j: int) -> float:
        top, a, b = found.spread(i, j), found.spread(i, i), found.spread(j, j)
        if top is None or not a or not b:
            return math.nan
        size = nearest_ratio(top * top, a * b, True, *DOUBLE) if top else 0.0
        return -size if top < 0 else size
    return _matrix(rows, entry)
