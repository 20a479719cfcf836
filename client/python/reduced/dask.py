"""Reductions of Dask arrays: exact, so the bits do not depend on the chunks, the order or the scheduler.

>>> import reduced.dask
>>> reduced.dask.sum(dask_array, axis=0).compute()        # doctest: +SKIP
>>> data_array.reduce(reduced.dask.mean, dim="time")      # doctest: +SKIP

Each chunk becomes partial states, by the daemon of its worker. States are merged as bytes and finished once. The values are those of
the functions of the same name in `reduced` on the whole array, with an axis.
"""
from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from . import _abi
from ._elements import element
from ._layout import axes_of
from ._lib import lib
from ._plan import NANS, plan
from ._run import run
from ._state import State, divisor_of

Axes = tuple[int, ...]
PLACED = np.dtype([("head", "u8"), ("count", "u8"), ("element", "u8"), ("place", "u8")])  # a state of argmin and argmax


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
    """The states of one chunk for argmin or argmax; their places are those in the whole array."""
    states = np.array(_chunk(x, axis, True, op, nan), order="C")
    fields, where = states.view(PLACED), block_info[0]
    some = fields["count"] != 0
    fields["place"][some] = _in_the_whole(fields["place"][some].astype(np.int64), axis, x.shape, where["shape"],
                                          [start for start, _ in where["array-location"]])
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


def _aggregate(states: Any, axis: Axes, keepdims: bool, op: str, nan: str, ddof: int, elements: Any, wanted: Any,
               computing_meta: bool = False) -> Any:
    """The values."""
    if computing_meta:
        return states
    merged = _merge(states, axis)
    out = wanted if wanted.kind == "f" and element(wanted, "out").code != _abi.F64 else None
    values = np.empty(merged.shape, wanted)
    for i, state in np.ndenumerate(merged):
        values[i] = State.from_bytes(op, elements, state.tobytes(), nan=nan, ddof=ddof).finish(out=out)
    return values if keepdims else values.reshape([n for i, n in enumerate(values.shape) if i not in axis])[()]


def _result_dtype(op: str, dtype: Any) -> Any:
    """NumPy's type of the values."""
    value = _abi.OPS[op].value
    if op in ("any", "all"):
        return np.dtype(bool)
    if value == "NUMBER":
        return np.dtype("i8")
    if dtype.kind == "f":
        return dtype
    return np.dtype("f8") if value == "REAL" else np.dtype("u8" if dtype.kind == "u" else "i8")


def _states_with_places(da: Any, a: Any, op: str, axis: Any, nan: str) -> Any:
    """An array with the states of each chunk: a place needs to know where its chunk is, and `da.reduction` does not say."""
    axes = axes_of(axis, a.ndim)
    if np.isnan([n for i in axes for n in a.chunks[i]]).any():
        raise ValueError(f"a: {op} needs the lengths of the chunks along its axes; compute_chunk_sizes() finds them")
    chunks = tuple((1,) * len(c) if i in axes else c for i, c in enumerate(a.chunks))
    kind = np.dtype(f"V{PLACED.itemsize}")
    return da.map_blocks(_placed, a, axis=axes, op=op, nan=nan, chunks=chunks, dtype=kind, meta=np.empty((0,) * a.ndim, kind))


def _reduce(op: str, a: Any, axis: Any = None, keepdims: bool = False, ddof: int = 0, nan: str = "propagate", split_every: Any = None) -> Any:
    import dask.array
    da: Any = dask.array  # which is not typed
    a = da.asanyarray(a)
    if nan not in NANS:
        raise ValueError(f"nan is propagate, omit or raise, not {nan!r}")
    ddof = divisor_of(ddof)
    if a.dtype.kind not in "fiub":
        raise TypeError(f"a: no Dask reduction here of elements of type {a.dtype}")
    wanted = _result_dtype(op, a.dtype)
    ndim = 0 if axis is None and not keepdims else a.ndim if keepdims else a.ndim - np.size(axis)
    chunk: Any = partial(_chunk, op=op, nan=nan)
    if op in ("argmin", "argmax"):
        a, chunk = _states_with_places(da, a, op, axis, nan), _merge
    return da.reduction(a, chunk=chunk, combine=_merge, axis=axis, keepdims=keepdims, split_every=split_every,
                        aggregate=partial(_aggregate, op=op, nan=nan, ddof=ddof, elements=a.dtype, wanted=wanted),
                        dtype=wanted, meta=np.empty((0,) * ndim, wanted))


def sum(a: Any, axis: Any = None, *, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The exact sum, rounded once."""
    return _reduce("sum", a, axis, keepdims, 0, nan, split_every)


def prod(a: Any, axis: Any = None, *, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The product, the same bits in any order."""
    return _reduce("prod", a, axis, keepdims, 0, nan, split_every)


def mean(a: Any, axis: Any = None, *, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The exact mean, rounded once."""
    return _reduce("mean", a, axis, keepdims, 0, nan, split_every)


def var(a: Any, axis: Any = None, *, ddof: int = 0, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The exact variance, rounded once."""
    return _reduce("var", a, axis, keepdims, ddof, nan, split_every)


def std(a: Any, axis: Any = None, *, ddof: int = 0, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The root of the exact variance, rounded once."""
    return _reduce("std", a, axis, keepdims, ddof, nan, split_every)


def sem(a: Any, axis: Any = None, *, ddof: int = 1, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The standard error of the mean, rounded once."""
    return _reduce("sem", a, axis, keepdims, ddof, nan, split_every)


def rms(a: Any, axis: Any = None, *, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The root of the mean of squares, rounded once."""
    return _reduce("rms", a, axis, keepdims, 0, nan, split_every)


def norm(a: Any, ord: Any = 2, axis: Any = None, *, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The norm 1, 2 or inf of the elements as one vector, rounded once."""
    names = {1: "norm1", 2: "norm2", float("inf"): "norminf"}
    if ord not in names:
        raise ValueError(f"ord is 1, 2 or inf, not {ord!r}")
    return _reduce(names[ord], a, axis, keepdims, 0, nan, split_every)


def min(a: Any, axis: Any = None, *, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The smallest element; -0 is below +0."""
    return _reduce("min", a, axis, keepdims, 0, nan, split_every)


def max(a: Any, axis: Any = None, *, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The largest element; +0 is above -0."""
    return _reduce("max", a, axis, keepdims, 0, nan, split_every)


def ptp(a: Any, axis: Any = None, *, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The largest minus the smallest element, rounded once."""
    return _reduce("range", a, axis, keepdims, 0, nan, split_every)


def argmin(a: Any, axis: Any = None, *, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The place of the smallest element in the whole array, the first of equal ones. A NaN counts as the smallest."""
    return _reduce("argmin", a, axis, keepdims, 0, nan, split_every)


def argmax(a: Any, axis: Any = None, *, keepdims: bool = False, nan: str = "propagate", split_every: Any = None) -> Any:
    """The place of the largest element in the whole array, the first of equal ones. A NaN counts as the largest."""
    return _reduce("argmax", a, axis, keepdims, 0, nan, split_every)


def any(a: Any, axis: Any = None, *, keepdims: bool = False, split_every: Any = None) -> Any:
    """Is some element not zero?"""
    return _reduce("any", a, axis, keepdims, split_every=split_every)


def all(a: Any, axis: Any = None, *, keepdims: bool = False, split_every: Any = None) -> Any:
    """Is no element zero?"""
    return _reduce("all", a, axis, keepdims, split_every=split_every)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False, split_every: Any = None) -> Any:
    """How many elements are not zero."""
    return _reduce("count_nonzero", a, axis, keepdims, split_every=split_every)
