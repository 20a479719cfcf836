"""Reductions of Dask arrays: exact, so the bits do not depend on the chunks, the order or the scheduler.

>>> import reduced.dask
>>> reduced.dask.sum(dask_array, axis=0).compute()        # doctest: +SKIP
>>> data_array.reduce(reduced.dask.mean, dim="time")      # doctest: +SKIP

Each chunk becomes partial states in its worker, which needs no daemon. States are merged as bytes and finished once. The values are those of
the functions of the same name in `reduced` on the whole array, with an axis.
"""
from __future__ import annotations

import builtins
import ctypes
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Literal, Sequence, Union

import numpy as np

from . import _abi, _order, _pairs
from ._elements import cell_dtype, element, part_code, shown
from .errors import OverflowError_
from ._functions import MinMax, Stats
from ._layout import axes_of
from ._lib import check, lib
from ._plan import NANS, plan
from ._prepare import PLACES, become_integers, result_dtype
from ._run import run
from ._state import divisor_of, dtype_of, finished

if TYPE_CHECKING:
    from dask.array.core import Array  # type: ignore[import-untyped,unused-ignore]
    from numpy.typing import DTypeLike

Axis = Union[int, Sequence[int], None]
Nan = Literal["propagate", "omit", "raise"]
Axes = tuple[int, ...]
NAMES = {"dot": ("a", "b"), "wmean": ("a", "weights")}
CHOOSING = ("min", "max", "range", "argmin", "argmax")
BEHIND = {"argmin": (0,), "argmax": (0,), "stats": (2, 4)}  # how many words follow a place in a state


def _chunk(x: Any, axis: Axes, keepdims: bool, op: str, nan: str, computing_meta: bool = False) -> Any:
    """The states of one chunk, with axes of length 1 for those that are gone. Dask also asks for what it is `computing_meta`."""
    if computing_meta:
        return x
    states = run(plan(op, x, axis=axis, nan=nan, state=True))
    return np.asarray(states).reshape([1 if i in axis else n for i, n in enumerate(x.shape)])


def _in_the_whole(places: Any, axis: Axes, block: Any, whole: Any, starts: Any) -> Any:
    """Places among the elements of a block along the axes, as those among the elements of the whole array."""
    found, step = np.zeros(places.shape, np.int64), 1
    for i in reversed(axis):  # C order: the last axis runs fastest
        places, inside = np.divmod(places, block[i])
        found += (inside + starts[i]) * step
        step *= whole[i]
    return found


def _placed(x: Any, axis: Axes, op: str, nan: str, block_info: Any) -> Any:
    """The states of one chunk for operations that name places, which are those in the whole array."""
    states = np.array(_chunk(x, axis, True, op, nan), order="C")
    words, where = states.reshape(-1).view("u8").reshape(states.size, states.itemsize // 8), block_info[0]
    some = words[:, 1] != 0  # which count elements
    for behind in BEHIND[op]:
        places = words[:, -1 - behind]
        places[some] = _in_the_whole(places[some].astype(np.int64), axis, x.shape, where["shape"], [start for start, _ in where["array-location"]])
    return states


def _merge(states: Any, axis: Axes, keepdims: bool = True, computing_meta: bool = False) -> Any:
    """The states along the axes, merged."""
    if computing_meta:
        return None  # states are of no type that Dask could convert; it takes the one that it was given
    kept = [i for i in range(states.ndim) if i not in axis]
    shape = [1 if i in axis else n for i, n in enumerate(states.shape)]
    lengths = [int(np.prod([states.shape[i] for i in axes], dtype=int)) for axes in (axis, kept)]
    rows = np.ascontiguousarray(states.transpose(*axis, *kept)).reshape(lengths)
    merged = rows[0].copy()
    for row in rows[1:]:
        lib().reduce_states_merge(merged.ctypes.data, np.ascontiguousarray(row).ctypes.data, row.nbytes)
    return merged.reshape(shape)


def _aggregate(states: Any, axis: Axes, keepdims: bool, finish: Any, computing_meta: bool = False) -> Any:
    """The values."""
    if computing_meta:
        return states
    merged = _merge(states, axis)
    values = finish(merged.ravel()).reshape(merged.shape)
    return values if keepdims else values.reshape([n for i, n in enumerate(values.shape) if i not in axis])[()]


class _Finish:
    """Makes values of states. `masked`: of masked arrays, whose results of nothing are masked. `or_nan`: those of NaNs alone are NaN."""

    def __init__(self, op: str, dtype: Any, wanted: Any, nan: str, ddof: int, masked: bool, or_nan: bool):
        self.op, self.dtype, self.wanted, self.nan, self.ddof, self.masked, self.or_nan = op, dtype, wanted, nan, ddof, masked, or_nan

    def __call__(self, states: Any) -> Any:
        raw = np.ascontiguousarray(states).view("u1").reshape(len(states), states.itemsize)
        nothing = np.ascontiguousarray(raw[:, 8:16]).view("u8")[:, 0] == 0
        omitted = nothing & (raw[:, 3] != 0)  # NaNs alone
        hidden, nans = nothing & ~omitted & self.masked, omitted & self.or_nan
        lost = hidden | nans
        found = finished(self.op, element(self.dtype), states[~lost], self.wanted, self.nan, self.ddof)
        if not lost.any():
            return found if not self.masked else np.ma.MaskedArray(found)
        values = np.zeros(len(states), found.dtype)
        values[~lost] = found
        if nans.any():
            values[nans] = np.nan
        return np.ma.MaskedArray(values, mask=hidden) if self.masked else values


def _states_with_places(da: Any, a: Any, op: str, axis: Any, nan: str) -> Any:
    """An array with the states of each chunk: a place needs to know where its chunk is, and `da.reduction` does not say."""
    axes = axes_of(axis, a.ndim)
    if np.isnan([n for i in axes for n in a.chunks[i]]).any():
        raise ValueError(f"a: {op} needs the lengths of the chunks along its axes; compute_chunk_sizes() finds them")
    chunks = tuple((1,) * len(c) if i in axes else c for i, c in enumerate(a.chunks))
    kind = np.dtype(f"V{lib().reduce_state_size(_abi.OPS[op].code, element(a.dtype).code)}")
    return da.map_blocks(_placed, a, axis=axes, op=op, nan=nan, chunks=chunks, dtype=kind, meta=np.empty((0,) * a.ndim, kind))


def _wanted(op: str, have: Any, dtype: Any) -> Any:
    """The type of the values: NumPy's, or the one that was asked for. They are rounded to it once."""
    if op == "stats":
        return cell_dtype(op, element(have), 0)
    found = np.dtype(result_dtype(op, element(have))).newbyteorder("=")
    if dtype is None:
        return found
    wanted = dtype_of(dtype)
    if wanted.kind not in "iuf" or become_integers(op, have, wanted) or op == "prod" and wanted.kind == "f" and have.kind != "f":
        raise TypeError(f"dtype: the {shown(op)} of a Dask array of {have} cannot be {wanted}")
    return wanted


def _reduce(op: str, a: Any, axis: Any = None, keepdims: bool = False, ddof: int = 0, nan: str = "propagate", split_every: Any = None,
            dtype: Any = None, or_nan: bool = False) -> Array:
    import dask.array
    da: Any = dask.array  # which is not typed
    a = da.asanyarray(a)
    if nan not in NANS:
        raise ValueError(f"nan is propagate, omit or raise, not {nan!r}")
    ddof = divisor_of(ddof)
    if a.dtype.kind not in "fiub":
        raise TypeError(f"a: no Dask reduction here of elements of type {a.dtype}")
    wanted = _wanted(op, a.dtype, dtype)
    nothing = op in CHOOSING and 0 in [a.shape[i] for i in axes_of(axis, a.ndim)]  # is an error
    masked = op != "stats" and not nothing and isinstance(getattr(a, "_meta", None), np.ma.MaskedArray)  # stats has a count
    ndim = 0 if axis is None and not keepdims else a.ndim if keepdims else a.ndim - np.size(axis)
    chunk: Any = partial(_chunk, op=op, nan=nan)
    finish = _Finish(op, a.dtype, wanted, nan, ddof, masked, or_nan and a.dtype.kind == "f")
    if op in PLACES:
        a, chunk = _states_with_places(da, a, op, axis, nan), _merge
    meta: Any = np.empty((0,) * ndim, wanted)
    found: Array = da.reduction(a, chunk=chunk, combine=_merge, axis=axis, keepdims=keepdims, split_every=split_every,
                                aggregate=partial(_aggregate, finish=finish), dtype=wanted, meta=np.ma.MaskedArray(meta) if masked else meta)
    return found


def sum(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The exact sum, rounded once."""
    return _reduce("sum", a, axis, keepdims, 0, nan, split_every, dtype)


def prod(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The product, the same bits in any order."""
    return _reduce("prod", a, axis, keepdims, 0, nan, split_every, dtype)


def mean(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The exact mean, rounded once."""
    return _reduce("mean", a, axis, keepdims, 0, nan, split_every, dtype)


def var(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, ddof: int = 0, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The exact variance, rounded once."""
    return _reduce("var", a, axis, keepdims, ddof, nan, split_every, dtype)


def std(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, ddof: int = 0, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The root of the exact variance, rounded once."""
    return _reduce("std", a, axis, keepdims, ddof, nan, split_every, dtype)


def sem(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, ddof: int = 1, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The standard error of the mean, rounded once."""
    return _reduce("sem", a, axis, keepdims, ddof, nan, split_every, dtype)


def rms(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The root of the mean of squares, rounded once."""
    return _reduce("rms", a, axis, keepdims, 0, nan, split_every, dtype)


def norm(a: Any, ord: Any = 2, axis: Axis = None, *, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The norm 1, 2 or inf of the elements as one vector, rounded once."""
    names = {1: "norm1", 2: "norm2", float("inf"): "norminf"}
    if ord not in names:
        raise ValueError(f"ord is 1, 2 or inf, not {ord!r}")
    return _reduce(names[ord], a, axis, keepdims, 0, nan, split_every)


def min(a: Any, axis: Axis = None, *, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The smallest element; -0 is below +0."""
    return _reduce("min", a, axis, keepdims, 0, nan, split_every)


def max(a: Any, axis: Axis = None, *, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The largest element; +0 is above -0."""
    return _reduce("max", a, axis, keepdims, 0, nan, split_every)


def ptp(a: Any, axis: Axis = None, *, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The largest minus the smallest element, rounded once."""
    return _reduce("range", a, axis, keepdims, 0, nan, split_every)


def argmin(a: Any, axis: Axis = None, *, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The place of the smallest element in the whole array, the first of equal ones. A NaN counts as the smallest."""
    return _reduce("argmin", a, axis, keepdims, 0, nan, split_every)


def argmax(a: Any, axis: Axis = None, *, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The place of the largest element in the whole array, the first of equal ones. A NaN counts as the largest."""
    return _reduce("argmax", a, axis, keepdims, 0, nan, split_every)


def any(a: Any, axis: Axis = None, *, keepdims: bool = False, split_every: int | None = None) -> Array:
    """Is some element not zero?"""
    return _reduce("any", a, axis, keepdims, split_every=split_every)


def all(a: Any, axis: Axis = None, *, keepdims: bool = False, split_every: int | None = None) -> Array:
    """Is no element zero?"""
    return _reduce("all", a, axis, keepdims, split_every=split_every)


def count_nonzero(a: Any, axis: Axis = None, *, keepdims: bool = False, split_every: int | None = None) -> Array:
    """How many elements are not zero."""
    return _reduce("count_nonzero", a, axis, keepdims, split_every=split_every)


def minmax(a: Any, axis: Axis = None, *, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> MinMax:
    """The smallest and the largest element, as two arrays. Dask reads the chunks once."""
    return MinMax(*(_reduce(op, a, axis, keepdims, 0, nan, split_every) for op in ("min", "max")))


def stats(a: Any, axis: Axis = None, *, ddof: int = 0, keepdims: bool = False, nan: Nan = "propagate", split_every: int | None = None) -> Stats:
    """Counts, extremes and their places in the whole array, sum, mean, variance and standard deviation, as arrays."""
    found: Any = _reduce("stats", a, axis, True, ddof, nan, split_every)  # Dask cannot drop axes of structured elements
    gone = () if keepdims else axes_of(axis, found.ndim)
    return Stats(**{name: found.map_blocks(_field, name, gone, drop_axis=gone, dtype=_field(np.zeros(1, found.dtype), name, ()).dtype)
                    for name in Stats._fields})


def _field(values: Any, name: str, gone: Axes) -> Any:
    """One number of each of the statistics, without the axes that are gone."""
    field = values[name].reshape([n for i, n in enumerate(values.shape) if i not in gone])
    if name == "sum" and field.dtype.kind != "f" and np.any(values["sum_high"].reshape(field.shape) != (field >> 63 if field.dtype.kind == "i" else 0)):
        raise OverflowError_("OVERFLOW: the exact sum does not fit 64 bits", "a")
    return field.astype(np.intp) if name in ("count", "nans", "zeros", "argmin", "argmax") else field


def nansum(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, split_every: int | None = None) -> Array:
    """`sum` of the elements that are not NaN."""
    return _reduce("sum", a, axis, keepdims, 0, "omit", split_every, dtype)


def nanprod(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, split_every: int | None = None) -> Array:
    """`prod` of the elements that are not NaN."""
    return _reduce("prod", a, axis, keepdims, 0, "omit", split_every, dtype)


def nanmean(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, split_every: int | None = None) -> Array:
    """`mean` of the elements that are not NaN."""
    return _reduce("mean", a, axis, keepdims, 0, "omit", split_every, dtype)


# ---- covariance and correlation: the sums of each chunk are whole numbers, which add up to those of the array ----
def _sums(m: Any, y: Any) -> Any:
    return _pairs._moments(_pairs._variables(m, y, True), None, None)


def _joined(sums: list[Any]) -> Any:
    return reduce(_pairs.Moments.joined, sums)


def _matrix(m: Any, y: Any, rowvar: bool, finish: Any, split_every: Any) -> Array:
    """Variables are the rows, as in NumPy, and observations are in chunks."""
    import dask.array
    from dask import delayed
    da: Any = dask.array  # which is not typed
    both = []
    for a, name in ((m, "m"), (y, "y")):
        if a is None:
            continue
        a = da.asanyarray(a)
        if a.ndim > 2:
            raise ValueError(f"{name} has more than 2 dimensions")
        if a.dtype.kind not in "fiub":
            raise TypeError(f"{name}: no Dask covariance here of elements of type {a.dtype}")
        a = da.atleast_2d(a)
        both.append((a if rowvar or a.shape[0] == 1 else a.T).rechunk({0: -1}))
    if len({a.shape[1] for a in both}) > 1:
        raise ValueError("y: not as many observations as m has")
    n, blocks = int(np.sum([len(a) for a in both])), [a.rechunk({1: both[0].chunks[1]}).to_delayed()[0] for a in both]
    parts = [delayed(_sums)(*b) for b in zip(*blocks, *[[None] * len(blocks[0])] * (2 - len(both)))]
    every = builtins.max(2, split_every or 16)
    while len(parts) > 1:
        parts = [delayed(_joined)(parts[i:i + every]) for i in range(0, len(parts), every)]
    return da.from_delayed(delayed(finish)(parts[0]), () if n == 1 else (n, n), float)


def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, *, split_every: int | None = 16) -> Array:
    """The covariance matrix: each entry is the exact value, rounded once. The rows are the variables, a few; observations are in chunks."""
    return _matrix(m, y, rowvar, partial(_pairs._covariances, less=_pairs._less(bias, ddof)), split_every)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, split_every: int | None = 16) -> Array:
    """The correlation coefficients: each is the exact value, rounded once, so never beyond 1 or -1."""
    return _matrix(x, y, rowvar, _pairs._correlations, split_every)


# ---- order statistics: chunks are counted by digits, pass after pass, and stay where they are ----
PASSES = {1: 1, 2: 2, 4: 3, 8: 6}  # of elements of so many bytes, for four quantiles
QUANTILES_AT_ONCE = 4


def _pair_states(x: Any, w: Any, axis: Axes, op: str, nan: str, flags: int) -> Any:
    """The states of one chunk of pairs, with axes of length 1 for those that are gone."""
    pair = _pairs._pair(op, x, w, NAMES[op])
    states = np.asarray(_pairs._reduce(op, pair, _pairs.AS_THEY_ARE, axis, nan, None, flags=flags | _abi.STATES_OUT))
    return states.reshape([1 if i in axis else n for i, n in enumerate(x.shape)])


def _no_empty_chunks(w: Any) -> Any:
    """`w` with one chunk along axes of length 1: where these have empty chunks, too, Dask neither broadcasts nor reshapes them."""
    return w.rechunk({i: 1 for i, n in enumerate(w.shape) if n == 1})


def _of_pairs(op: str, a: Any, w: Any, axis: Any, keepdims: bool = False, nan: str = "propagate", flags: int = 0, split_every: Any = None) -> Array:
    """Pairs of `a` and of `w`, which has the axes of `a` or length 1 along them, and gets its chunks."""
    import dask.array
    da: Any = dask.array  # which is not typed
    for x, name in zip((a, w), NAMES[op]):
        if x.dtype.kind not in "fiub":
            raise TypeError(f"{name}: no Dask reduction here of elements of type {x.dtype}")
    if nan not in NANS:
        raise ValueError(f"nan is propagate, omit or raise, not {nan!r}")
    w, axes = da.broadcast_to(_no_empty_chunks(w), a.shape).rechunk(a.chunks), axes_of(axis, a.ndim)
    nothing = _pairs._pair(op, np.empty(0, a.dtype), np.empty(0, w.dtype), NAMES[op])
    kind = np.dtype(f"V{lib().reduce_state_size(_abi.OPS[op].code, element(nothing.w.dtype).code)}")
    states = da.map_blocks(_pair_states, a, w, axis=axes, op=op, nan=nan, flags=flags, dtype=kind, meta=np.empty((0,) * a.ndim, kind),
                           chunks=tuple((1,) * len(c) if i in axes else c for i, c in enumerate(a.chunks)))
    meta: Any = np.empty((0,) * (a.ndim if keepdims else a.ndim - len(axes)), nothing.wanted)
    finish = _Finish(op, nothing.w.dtype, nothing.wanted, nan, 0, False, False)
    found: Array = da.reduction(states, chunk=_merge, combine=_merge, aggregate=partial(_aggregate, finish=finish), axis=axes, keepdims=keepdims,
                                split_every=split_every, dtype=nothing.wanted, meta=meta)
    return found


def dot(a: Any, b: Any, *, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The exact dot product of two vectors, rounded once; of an array and a vector that of each row."""
    import dask.array
    da: Any = dask.array
    a, b = da.asanyarray(a), da.asanyarray(b)
    if b.ndim != 1 or a.ndim < 1 or a.shape[-1] != b.shape[0]:
        raise ValueError(f"b: a vector with the length of a's rows is needed, and shapes are {a.shape} and {b.shape}")
    return _of_pairs("dot", a, b, -1, nan=nan, split_every=split_every)


def vdot(a: Any, b: Any, *, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The exact sum of the products of all elements of two arrays of one shape, rounded once."""
    import dask.array
    da: Any = dask.array
    a, b = da.asanyarray(a), da.asanyarray(b)
    if a.shape != b.shape:
        raise ValueError(f"b: the shape of a is needed, and shapes are {a.shape} and {b.shape}")
    return _of_pairs("dot", a, b, None, nan=nan, split_every=split_every)


def average(a: Any, axis: Axis = None, weights: Any = None, *, keepdims: bool = False, nan: Nan = "propagate", drop_zero_weights: bool = False,
            split_every: int | None = None) -> Array:
    """The weighted mean: the exact weighted sum over the exact sum of the weights, rounded once. Weights have the shape of `a`, or that of the
    axes. Where they sum to zero the mean is NaN or infinite."""
    import dask.array
    da: Any = dask.array
    if weights is None:
        return mean(a, axis, keepdims=keepdims, nan=nan, split_every=split_every)
    a, w = da.asanyarray(a), da.asanyarray(weights)
    turned = _pairs.aligned(a, w, axis, axes_of(axis, a.ndim))
    return _of_pairs("wmean", a, turned(_no_empty_chunks(w)), axis, keepdims, nan, _abi.DROP_ZERO_WEIGHTS * bool(drop_zero_weights), split_every)


def _selection(dtype: Any, out: int, nan: str, order: Any, sums: list[Any]) -> Any:
    """The library's selection after the passes whose sums are known."""
    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.QUANTILE, dtype=element(dtype).code, nan=NANS[nan], rows=1, out=out)
    kept, found = order.fill(spec), ctypes.c_void_p()
    check(lib().reduce_selection_new(ctypes.byref(found), ctypes.byref(spec)))
    for total in sums:
        _words(found)[:] = total
        check(lib().reduce_selection_next(found))
    del kept
    return found


def _words(selection: Any) -> Any:
    n = ctypes.c_size_t()
    at = lib().reduce_selection_counts(selection, ctypes.byref(n))
    return np.frombuffer((ctypes.c_uint64 * n.value).from_address(at), np.uint64)


def _count(x: Any, how: Any, sums: list[Any]) -> Any:
    """The counts of a chunk in the pass that follows `sums`."""
    x, found = np.ascontiguousarray(x, how[0]), _selection(*how, sums)
    try:
        check(lib().reduce_selection_count(found, x.ctypes.data, None, x.nbytes))
        return _words(found).copy()
    finally:
        lib().reduce_selection_free(found)


def _add(counts: list[Any]) -> Any:
    return np.sum(counts, axis=0, dtype=np.uint64)


def _select(how: Any, sums: list[Any], kind: Any) -> Any:
    """The values, once all passes are over."""
    found, cells = _selection(*how, sums), np.empty(len(how[3].q), kind)
    try:
        check(lib().reduce_selection_finish(found, cells.ctypes.data, cells.nbytes))
        return cells
    finally:
        lib().reduce_selection_free(found)


def _along(x: Any, q: list[float], shape: Any, axis: Axes, method: str, keepdims: bool, nan: Any, wanted: Any, computing_meta: bool = False) -> Any:
    values = _order.quantile(np.asarray(x), q, axis, method=method, keepdims=keepdims, nan=nan)
    return np.asarray(values, wanted) if shape else np.asarray(values, wanted)[0]


def _selectable(a: Any, what: str, nan: str) -> Any:
    """The array, if its elements are of a type that there are selections of."""
    if a.dtype.kind not in "fiub" or isinstance(getattr(a, "_meta", None), np.ma.MaskedArray):
        raise TypeError(f"a: no Dask {what} here of {'masked elements' if a.dtype.kind in 'fiub' else f'elements of type {a.dtype}'}")
    if nan not in NANS:
        raise ValueError(f"nan is propagate, omit or raise, not {nan!r}")
    return a


def quantile(a: Any, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False, nan: Nan = "propagate") -> Array:
    """Exact quantiles, by NumPy's 13 methods, of all elements or along axes; the axes of q come first. Of all elements each chunk is counted in
    1 to 6 passes and stays where it is; chunks are put together along axes."""
    import dask.array
    from dask import delayed
    da: Any = dask.array  # which is not typed
    a, many = _selectable(da.asanyarray(a), "quantiles", nan), np.asarray(q, float)
    if not np.all((many >= 0) & (many <= 1)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    code, axes, el = _order._method(method), axes_of(axis, a.ndim), element(a.dtype.newbyteorder("="))
    picks = _order.Order(method=code).picks
    wanted = a.dtype.newbyteorder("=") if picks or a.dtype.kind == "f" else np.dtype(float)
    if len(axes) < a.ndim:
        x = a.rechunk({i: -1 for i in axes})
        chunks = tuple((1,) if i in axes else c for i, c in enumerate(x.chunks) if keepdims or i not in axes)
        found: Array = da.map_blocks(_along, x, many.ravel().tolist(), many.shape, axes, method, keepdims, nan, wanted, dtype=wanted,
                                     drop_axis=[] if keepdims else list(axes), new_axis=[0] if many.shape else None,
                                     chunks=((many.size,), *chunks) if many.shape else chunks, meta=np.empty((0,) * (len(chunks) + bool(many.shape)), wanted))
        return found.reshape(many.shape + found.shape[1:]) if many.ndim > 1 else found
    out, kind = part_code(wanted) if el.kind == "f" else 0, cell_dtype("min" if picks else "quantile", el, part_code(wanted) if el.kind == "f" else 0)
    blocks, values = list(a.to_delayed().ravel()), []
    for i in range(0, many.size, QUANTILES_AT_ONCE):
        how: Any = (a.dtype.newbyteorder("="), out, nan, _order.Order(tuple(many.ravel()[i:i + QUANTILES_AT_ONCE].tolist()), code))
        sums: list[Any] = []
        for _ in range(PASSES[a.dtype.itemsize]):
            sums = [*sums, delayed(_add)([delayed(_count)(b, how, sums) for b in blocks])]
        values.append(da.from_delayed(delayed(_select)(how, sums, kind), (len(how[3].q),), kind))
    every: Array = da.concatenate(values) if values else da.empty((0,), dtype=wanted)
    return every.astype(wanted).reshape(many.shape + (1,) * (a.ndim if keepdims else 0))


def median(a: Any, axis: Axis = None, *, keepdims: bool = False, nan: Nan = "propagate") -> Array:
    """The middle element, or the exact mean of the two middle ones, rounded once."""
    return quantile(a, 0.5, axis, keepdims=keepdims, nan=nan)


def nanmedian(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """`median` of the elements that are not NaN."""
    return quantile(a, 0.5, axis, keepdims=keepdims, nan="omit")


def nanquantile(a: Any, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False) -> Array:
    """`quantile` of the elements that are not NaN."""
    return quantile(a, q, axis, method=method, keepdims=keepdims, nan="omit")


def _best(x: Any, axis: Any, keepdims: bool, k: int, nan: Any, computing_meta: bool = False) -> Any:
    """The best k of a chunk, or of those of several, along the axis; of fewer elements all."""
    if computing_meta:
        return x
    axis = int(np.ravel(axis)[0])
    x = np.concatenate(x, axis) if isinstance(x, list) else np.asarray(x)
    n = x.shape[axis]
    return _order.topk(x, abs(k) if abs(k) < n else n, axis, largest=k > 0, nan=nan).values if n else x


def topk(a: Any, k: int, axis: int = -1, *, nan: Nan = "propagate", split_every: int | None = None) -> Array:
    """The k largest elements along an axis, the largest one first, or for a negative k the smallest, as dask.array.topk. NaNs come first, unless
    they are omitted: places without an element are NaN then. No chunk needs to have all elements of the axis."""
    import dask.array
    da: Any = dask.array  # which is not typed
    a = _selectable(da.asanyarray(a), "largest elements", nan)
    if not isinstance(k, (int, np.integer)) or not 1 <= abs(k) <= _abi.MAX_TOP:
        raise ValueError(f"k is an integer from 1 to {_abi.MAX_TOP}, or from -{_abi.MAX_TOP} to -1, not {k!r}")
    if not -a.ndim <= axis < a.ndim:
        raise np.exceptions.AxisError(axis, a.ndim) if hasattr(np, "exceptions") else np.AxisError(axis, a.ndim)  # type: ignore[attr-defined,unused-ignore]
    if a.shape[axis] < abs(k):  # not if that is not known
        raise ValueError(f"k is {k}, but there are {a.shape[axis]} elements")
    best: Any = partial(_best, k=int(k), nan=nan)
    kind = a.dtype.newbyteorder("=")
    found: Array = da.reduction(a, chunk=best, combine=best, aggregate=best, axis=axis % a.ndim, keepdims=True, split_every=split_every, dtype=kind,
                                output_size=abs(int(k)), meta=np.empty((0,) * a.ndim, kind))
    return found


def _bins_of(x: Any, edges: Any, nan: Any) -> Any:
    return _order.histogram(np.asarray(x), edges, nan=nan)[0].astype(np.uint64)


def histogram(a: Any, bins: Any, range: tuple[float, float] | None = None, *, density: bool = False, nan: Nan = "propagate") -> tuple[Array, Any]:
    """How many elements are in each bin, and the edges, which are those of numpy.histogram. As of dask.array.histogram, a number of bins needs
    their range. NaNs and what lies outside are not counted."""
    import dask.array
    from dask import delayed
    da: Any = dask.array  # which is not typed
    a = _selectable(da.asanyarray(a), "histograms", nan)
    if range is None and np.ndim(bins) == 0:
        raise ValueError("range: a number of bins needs their range")
    edges = np.histogram_bin_edges(np.empty(0, a.dtype.newbyteorder("=") if a.dtype.kind == "f" else float), bins, range)
    added = delayed(_add)([np.zeros(len(edges) - 1, np.uint64), *(delayed(_bins_of)(b, edges, nan) for b in a.to_delayed().ravel())])
    counts: Array = da.from_delayed(added, (len(edges) - 1,), np.uint64).astype(np.intp)
    return counts / np.array(np.diff(edges), float) / counts.sum() if density else counts, edges


def nanvar(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, ddof: int = 0, keepdims: bool = False, split_every: int | None = None) -> Array:
    """`var` of the elements that are not NaN."""
    return _reduce("var", a, axis, keepdims, ddof, "omit", split_every, dtype)


def nanstd(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, ddof: int = 0, keepdims: bool = False, split_every: int | None = None) -> Array:
    """`std` of the elements that are not NaN."""
    return _reduce("std", a, axis, keepdims, ddof, "omit", split_every, dtype)


def nanmin(a: Any, axis: Axis = None, *, keepdims: bool = False, split_every: int | None = None) -> Array:
    """`min` of the elements that are not NaN; NaN of NaNs alone."""
    return _reduce("min", a, axis, keepdims, 0, "omit", split_every, or_nan=True)


def nanmax(a: Any, axis: Axis = None, *, keepdims: bool = False, split_every: int | None = None) -> Array:
    """`max` of the elements that are not NaN; NaN of NaNs alone."""
    return _reduce("max", a, axis, keepdims, 0, "omit", split_every, or_nan=True)


def nanargmin(a: Any, axis: Axis = None, *, keepdims: bool = False, split_every: int | None = None) -> Array:
    """`argmin` of the elements that are not NaN."""
    return _reduce("argmin", a, axis, keepdims, 0, "omit", split_every)


def nanargmax(a: Any, axis: Axis = None, *, keepdims: bool = False, split_every: int | None = None) -> Array:
    """`argmax` of the elements that are not NaN."""
    return _reduce("argmax", a, axis, keepdims, 0, "omit", split_every)
