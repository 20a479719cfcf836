"""Sums over pairs of elements, with NumPy's signatures: dot products, weighted means, covariance and correlation."""
from __future__ import annotations

import ctypes
import math
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from . import _abi, _functions
from ._again import Repeat, _known
from ._arrays import Operand, operand
from ._client import Client, default
from ._elements import Element, cell_dtype, element
from ._layout import arrange, axes_of, copied, in_order
from ._lib import lib
from ._nearest import DOUBLE, nearest_ratio
from ._plan import NANS, NO_VALUE, Plan, Recipe, is_plain, make_room, out_code
from ._prepare import check_exact, in_memory, kept, native, result_dtype
from ._remote import Array
from ._results import as_out, fit, plain, put_out
from ._run import run
from ._sources import Memory
from .errors import OpError, TypeError_

__all__ = ("dot", "vdot", "average", "cov", "corrcoef")
HEAD, SPECIAL = 16, 1  # bytes of a state before its limbs; where a byte of infinities and NaNs is
LIMBS = {144: (6, -150), 824: (34, -1075), 56: (2, 0)}  # bytes of a state of wmean: limbs of the sum of weights; log2 of its unit
CORR_LIMBS = {352: (6, 10, 6, 10, 10, -150), 2168: (34, 67, 34, 67, 67, -1075), 120: (2, 3, 2, 3, 3, 0)}  # ... of corr: of each number
UNKNOWN = (OpError, TypeError_)  # the daemon is an older one, perhaps with a GPU that computes no corr


class Pairs(NamedTuple):
    """Two arrays of types that go together, and which pairs count (None: all)."""

    x: Array
    w: Array
    keep: Array | None
    wanted: np.dtype[Any]  # NumPy's type of the result
    masked: bool
    shown: Array | None = None  # of masked arrays: which pairs no mask hides

    def lost(self, axes: tuple[int, ...], keepdims: Any) -> Any:
        """Which results are masked, as all their pairs are."""
        return False if self.shown is None else ~np.broadcast_to(self.shown, self.x.shape).any(axis=axes, keepdims=keepdims)


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
        integers = op == "wmean" and x.dtype.kind in "biu" and element(w.dtype).kind == "f"  # whose mean is a double, as NumPy's
        common = np.result_type(x, w, float if integers else x)
        for data, marks, name in ((x, keep, names[0]), (w, other, names[1])):
            check_exact(data, common, marks, name)
        x, w = x.astype(common, copy=False), w.astype(common, copy=False)
    if other is not None and other.shape == x.shape:
        keep = other if keep is None else keep & other
    elif other is not None and not other.all():
        raise TypeError(f"{names[1]}: masked ones have the shape of the elements")
    wanted = w.dtype if w.dtype == np.float64 else result_dtype(op, element(x.dtype))
    return Pairs(x, w, keep, wanted, masked or also, keep if masked or also else None)


def _forward(a: Array) -> Array:
    """Without negative strides."""
    return np.ascontiguousarray(a) if any(s < 0 for s in a.strides) else a


class Cells:
    """Makes the result of pairs from the cells, which lie in the order of the layout."""

    def __init__(self, op: str, p: Pairs, kept: tuple[int, ...], shape: tuple[int, ...], state: bool, lost: Any):
        self.op, self.wanted, self.shape, self.state, self.masked, self.lost = op, p.wanted, shape, state, p.masked, lost
        self.along, self.back = [p.x.shape[i] for i in kept], np.argsort(kept)

    def __call__(self, cells: Array, out: Any = None) -> Any:
        laid = cells.reshape(self.along)
        laid = laid.transpose(self.back) if self.along else laid
        if self.state:
            return laid
        values = fit(np.ascontiguousarray(laid), self.wanted, self.op).reshape(self.shape)
        if out is not None:
            put_out(values, out, self.op)
            if self.masked and isinstance(out, np.ma.MaskedArray):
                out.mask = self.lost
            return out
        if self.masked and values.shape:
            return np.ma.MaskedArray(values, mask=self.lost)
        return values if values.shape else np.ma.masked if np.any(self.lost) else plain(values[()], self.wanted)


class PairsRecipe(Recipe):
    """All of a plan for pairs except the elements, the weights and the room for its cells."""

    __slots__ = ("turned", "spread")

    def __init__(self, op: str, p: Pairs, turned: Turned, axes: tuple[int, ...], nan: str, flags: int, keepdims: bool, out: Any):
        if nan not in NANS:
            raise ValueError(f"nan is propagate, omit or raise, not {nan!r}")
        x, w = _forward(p.x), turned(p.w)
        self.layout = layout = arrange(x.shape, x.strides, x.dtype.itemsize, axes, False) or copied(x.shape, x.strides, axes, False)
        self.op, self.element, self.turned = op, element(x.dtype), turned
        n, state, extent = prod(x.shape[i] for i in layout.kept), bool(flags & _abi.STATES_OUT), _abi.EACH_ELEMENT
        whole = w.shape == x.shape
        self.spread = None if whole or x.size and (layout.planes == 1 or not layout.by_row) else x.shape
        if not whole and self.spread is None:
            extent = _abi.EACH_COLUMN if layout.by_row else _abi.EACH_ROW
        self.spec = spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS[op].code, dtype=self.element.code, nan=NANS[nan], rows=n, flags=flags,
                                     weights_dtype=element(w.dtype).code, weights_extent=extent)
        if not layout.by_row and x.nbytes:
            spec.flags, spec.rows = spec.flags | _abi.COLUMNS, layout.rows
        if layout.planes > 1 and x.nbytes:
            spec.planes = layout.planes
        spec.out = 0 if state else out_code(op, self.element, p.wanted)
        shape = tuple(1 if i in axes else m for i, m in enumerate(x.shape) if keepdims or i not in axes)
        self.shape = n
        self.cell = np.dtype(f"V{lib().reduce_state_size(spec.op, spec.weights_dtype)}") if state else cell_dtype(op, self.element, spec.out)
        self.finish = Cells(op, p, layout.kept, shape, state, p.lost(axes, keepdims))
        self.number = p.wanted.kind if not shape and out is None and self.cell == p.wanted else ""
        self.pairs, self.flips, self.keep, self.fixed, self.direct, self.other, self.back, self.segments = "", (), None, None, None, None, (), None

    def laid(self, a: Array, pairs: str = "") -> Array:
        return in_order(native(a), self.layout)

    def weighted(self, w: Array) -> Array:
        """A caller's weights as the library takes them: one for each element, or for each along the axes that are reduced."""
        w = self.turned(native(w))
        w = in_order(w if self.spread is None else np.broadcast_to(w, self.spread), self.layout)
        return w if w.nbytes else np.zeros(1)


class Turned(NamedTuple):
    """How a caller's weights get the axes of the elements, and length 1 along those that they do not have."""

    axes: Any = None  # None: in their order
    shape: Any = None  # None: as they are

    def __call__(self, w: Array) -> Array:
        w = w if self.axes is None else w.transpose(self.axes)
        return w if self.shape is None else w.reshape(self.shape)


AS_THEY_ARE = Turned()


def _key(name: str, a: Any, b: Any, axis: Any, nan: Any, flags: int, keepdims: Any, where: Any, out: Any, client: Any, deadline: Any, progress: Any) -> Any:
    """What equal calls of other arrays have in common; None: nothing that is known. Types that differ are checked element by element."""
    if not (type(a) is type(b) is np.ndarray and deadline is progress is None and (client is None or isinstance(client, Client)) and is_plain(axis, None, out)
            and type(keepdims) is bool and (a.dtype == b.dtype or a.dtype == np.float32 and b.dtype == np.float64)
            and (where is None or type(where) is np.ndarray and where.dtype == bool and where.shape == a.shape)):
        return None
    return name, axis, nan, flags, keepdims, where is None, out is None or out.dtype, a.dtype, a.shape, a.strides, b.dtype, b.shape, b.strides


def _again(key: Any, a: Any, b: Any, where: Any, out: Any, client: Any) -> Any:
    """The result by the plan of an earlier call; None: there is none."""
    known = None if key is None else _known.get(key)
    return None if known is None else known.of_array(client or default(), a, where, None, out, b)


def _reduce(op: str, p: Pairs, turned: Turned, axes: tuple[int, ...], nan: str, client: Any, deadline: Any = None, progress: Any = None, flags: int = 0,
            keepdims: bool = False, out: Any = None, key: Any = None, given: Any = None) -> Any:
    """The result along some axes. The plan is kept for the key and for elements like the given ones."""
    recipe = PairsRecipe(op, p, turned, axes, nan, flags, keepdims, out)
    spec, keep = recipe.filled(p.keep, None, p.w)
    plan = Plan(op, recipe.element, spec, Memory(recipe.laid(p.x).view(recipe.element.view)), np.empty(recipe.shape, recipe.cell), partial(recipe.finish, out=out), keep)
    value = run(plan, client, deadline, progress)
    if key is not None and plan.source.nbytes and plan.cells.size:
        make_room(_known)
        _known[key] = Repeat(recipe, plan, given)
    return value


def dot(a: Any, b: Any, out: Any = None, *, nan: str = "propagate", client: Any = None, deadline: float | None = None, progress: Any = None) -> Any:
    """The exact dot product of two vectors, rounded once; of a matrix and a vector that of each row. Two matrices are not possible.

    >>> reduced.dot([1e16, 1, -1e16], [1, 2, 1])
    2.0
    """
    key = _key("dot", a, b, None, nan, 0, False, None, out, client, deadline, progress)
    if (found := _again(key, a, b, None, out, client)) is not None:
        return found
    p = _pair("dot", a, b, ("a", "b"))
    p = p._replace(wanted=as_out(p.wanted, out))
    if p.x.ndim == p.w.ndim == 0:
        p, key = p._replace(x=p.x.reshape(1), w=p.w.reshape(1)), None
    if p.w.ndim != 1 or p.x.ndim < 1:
        raise TypeError("b is a vector: the product of two matrices is not possible")
    if p.x.shape[-1] != len(p.w):
        raise ValueError(f"shapes {p.x.shape} and {p.w.shape} not aligned: {p.x.shape[-1]} (dim {p.x.ndim - 1}) != {len(p.w)} (dim 0)")
    turned = Turned(None, (1,) * (p.x.ndim - 1) + p.w.shape)
    return _reduce("dot", p, turned, (p.x.ndim - 1,), nan, client, deadline, progress, 0, False, out, key, a)


def vdot(a: Any, b: Any, *, nan: str = "propagate", client: Any = None, deadline: float | None = None, progress: Any = None) -> Any:
    """The exact sum of the products of all elements of two arrays, in C order, rounded once.

    >>> reduced.vdot([[1, 2], [3, 4]], [[5, 6], [7, 8]])
    70
    """
    key = _key("vdot", a, b, None, nan, 0, False, None, None, client, deadline, progress)
    if (found := _again(key, a, b, None, None, client)) is not None:
        return found
    p = _pair("dot", a, b, ("a", "b"))
    if p.x.size != p.w.size:
        raise ValueError(f"cannot reshape array of size {p.w.size} into shape ({p.x.size},)")
    if p.x.shape != p.w.shape:
        keep, shown = (None if marks is None else marks.reshape(-1) for marks in (p.keep, p.shown))
        p, key = p._replace(x=p.x.reshape(-1), w=p.w.reshape(-1), keep=keep, shown=shown), None
    return _reduce("dot", p, AS_THEY_ARE, tuple(range(p.x.ndim)), nan, client, deadline, progress, key=key, given=a)


def aligned(x: Array, w: Array, axis: Any, axes: tuple[int, ...]) -> Turned:
    """How weights get the axes of the elements. The errors are NumPy's."""
    if w.shape == x.shape:
        return AS_THEY_ARE
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    given = [int(i) % x.ndim for i in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if w.shape != tuple(x.shape[i] for i in given):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    return Turned(tuple(np.argsort(given)), tuple(n if i in axes else 1 for i, n in enumerate(x.shape)))


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
    keepdims, where = keepdims is not NO_VALUE and bool(keepdims), None if where is NO_VALUE else where
    if weights is None:
        o = operand(a, flows=not returned) if returned else a
        found = _functions.mean(o, axis, keepdims=keepdims, where=where, nan=nan, client=client, deadline=deadline, progress=progress)
        if not returned:
            return found
        counting = _counting(o.data, kept(where, o), nan)
        counts = np.asarray(_functions.sum(np.ones(o.data.shape), axis, keepdims=keepdims, where=counting, client=client))
        return found, np.broadcast_to(counts, np.shape(found))[()]
    flags = _abi.DROP_ZERO_WEIGHTS * bool(drop_zero_weights)
    key = None if returned else _key("average", a, weights, axis, nan, flags, keepdims, where, None, client, deadline, progress)
    found = _again(key, a, weights, where, None, client)
    if found is not None and _is_finite(found):
        return found
    p = _pair("wmean", a, weights, ("a", "weights"))
    axes = axes_of(axis, p.x.ndim)
    turned = aligned(p.x, p.w, axis, axes)
    if where is not None:
        p = p._replace(keep=in_memory(kept(where, Operand(p.x, p.keep)), "`where`"))
    if found is None:
        found = _reduce("wmean", p, turned, axes, nan, client, deadline, progress, flags, keepdims, None, key, a)
    if returned or not _is_finite(found):
        counting = _counting(turned(p.w), _counting(p.x, p.keep, nan), nan)
        total = _functions.sum(np.broadcast_to(turned(p.w), p.x.shape), axis, float if p.w.dtype.kind in "biu" else None, keepdims=keepdims,
                               where=counting, client=client)
        if np.any((np.asarray(total) == 0) & ~np.asarray(p.lost(axes, keepdims))):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    return (found, total) if returned else found


def _is_finite(values: Any) -> bool:
    return math.isfinite(values) if type(values) is float else bool(np.isfinite(np.asarray(values).astype(float, copy=False)).all())


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

    def joined(self, other: Moments) -> Moments:
        """Those of the observations of both."""
        def add(a: int | None, b: int | None) -> int | None:
            return None if a is None or b is None else a + b
        return Moments(self.count + other.count, [add(a, b) for a, b in zip(self.sums, other.sums)],
                       {k: add(v, other.products[k]) for k, v in self.products.items()}, self.unit)


def _state_of_two(op: str, x: Array, w: Array, client: Any, deadline: Any) -> bytes:
    key = _key(f"moments {op}", x, w, 0, "propagate", _abi.STATES_OUT, False, None, None, client, deadline, None)
    if (cell := _again(key, x, w, None, None, client)) is None:
        p = Pairs(x, w, None, np.dtype(float), False)
        cell = _reduce(op, p, AS_THEY_ARE, (0,), "propagate", client, deadline, None, _abi.STATES_OUT, key=key, given=x)
    return cell[()].tobytes()


def _moments_of_two(rows: Array, client: Any, deadline: Any) -> Moments | None:
    """From one state of a correlation. None: there is none, or it has infinities or NaNs."""
    try:
        state = _state_of_two("corr", rows[0], rows[1], client, deadline)
    except UNKNOWN:
        return None
    if state[SPECIAL]:
        return None
    *lengths, unit = CORR_LIMBS[len(state)]
    numbers, at = [], HEAD
    for n in lengths:
        numbers.append(int.from_bytes(state[at : at + 8 * n], "little", signed=True))
        at += 8 * n
    w, xw, x, xx, ww = numbers
    return Moments(rows.shape[1], [x, w], {(0, 0): xx, (0, 1): xw, (1, 1): ww}, unit)


def _moments(rows: Array, client: Any, deadline: Any) -> Moments:
    """From states of weighted means, each of which has the sum of one variable and that of the products."""
    if len(rows) == 2 and (found := _moments_of_two(rows, client, deadline)):
        return found
    sums: list[int | None] = [None] * len(rows)
    products: dict[tuple[int, int], int | None] = {}
    unit = 0
    for i in range(len(rows)):
        for j in range(i + 1):
            state = _state_of_two("wmean", rows[i], rows[j], client, deadline)
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


def _matrix(n: int, entry: Any) -> Any:
    found = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            found[i, j] = found[j, i] = entry(i, j)
    return found.squeeze()


def _less(bias: bool, ddof: int | None) -> int:
    """What the divisor of a covariance lacks of the count."""
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    return int(ddof) if ddof is not None else 0 if bias else 1


def _covariances(x: Moments, less: int) -> Any:
    below = x.count * (x.count - less)

    def entry(i: int, j: int) -> float:
        top = x.spread(i, j)
        if top is None or below <= 0:
            return math.nan
        found = nearest_ratio(abs(top), below << -2 * x.unit, False, *DOUBLE) if top else 0.0
        return -found if top < 0 else found
    return _matrix(len(x.sums), entry)


def _correlations(x: Moments) -> Any:
    def entry(i: int, j: int) -> float:
        top, a, b = x.spread(i, j), x.spread(i, i), x.spread(j, j)
        if top is None or not a or not b:
            return math.nan
        size = nearest_ratio(top * top, a * b, True, *DOUBLE) if top else 0.0
        return -size if top < 0 else size
    return _matrix(len(x.sums), entry)


def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, *, client: Any = None,
        deadline: float | None = None) -> Any:
    """The covariance matrix: each entry is the exact value, rounded once. By default the divisor is n - 1.

    >>> float(reduced.cov([1e9 + 1, 1e9 + 2, 1e9 + 3]))
    1.0
    """
    less = _less(bias, ddof)
    return _covariances(_moments(_variables(m, y, rowvar), client, deadline), less)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, client: Any = None, deadline: float | None = None) -> Any:
    """The correlation coefficients: each is the exact value, rounded once, so never beyond 1 or -1. Of a constant it is NaN.

    >>> float(reduced.corrcoef([1, 2, 3], [-2, -4, -6])[0, 1])
    -1.0
    """
    return _correlations(_moments(_variables(x, y, rowvar), client, deadline))
