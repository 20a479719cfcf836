"""From NumPy's arguments to one request of libreduce, and from its results to what NumPy would return."""
from __future__ import annotations

import ctypes
from math import prod
from typing import Any, Callable

import numpy as np

from . import _abi
from ._arrays import Array, Operand, Remote, operand
from ._elements import NAT, Element, element, float_code, is_nan
from ._errors import NanError, OverflowError_
from ._layout import arrange, axes_of, copied, in_order
from ._sources import Source, in_memory

NANS = {"propagate": _abi.NAN_PROPAGATE, "omit": _abi.NAN_OMIT, "raise": _abi.NAN_ERROR}
PLACES = ("argmin", "argmax", "stats")                # results that name a place
COUNTS = ("any", "all", "count_nonzero")
LIKE_SUM = ("sum", "prod", "sumsq")                   # integers become 64 bits wide
CASTS = ("sum", "prod", "mean", "var", "std", "sem", "rms")  # the operations with a dtype
OF_PAIRS = ("sum", "mean", "var", "std", "sumsq", "norm2", "rms")  # of complex numbers, as columns or rows of floats
OF_DATES = ("min", "max", "minmax", "range", "argmin", "argmax")   # of spans also sum and mean
CELL = {"f": "f8", "i": "i8", "u": "u8"}
STATS = [("count", "u8"), ("nans", "u8"), ("zeros", "u8"), ("argmin", "u8"), ("argmax", "u8"), ("min", ""), ("max", ""), ("sum", ""),
         ("sum_high", "i8"), ("mean", "f8"), ("var", "f8"), ("std", "f8")]


class Plan:
    """One request: what to reduce (`spec`, `source`), room for its cells, and what to make of them (`finish`)."""

    __slots__ = ("op", "element", "spec", "source", "cells", "result", "finish", "keep")

    def __init__(self, op: str, el: Element, spec: Any, source: Source, cells: Array, finish: Callable[[Array], Any], keep: Any):
        self.op, self.element, self.spec, self.source, self.cells, self.finish, self.keep = op, el, spec, source, cells, finish, keep
        self.result = _abi.Result(size=ctypes.sizeof(_abi.Result))

    def value(self) -> Any:
        """What the caller gets, when the cells are there."""
        return self.finish(self.cells)


def result_dtype(op: str, el: Element) -> np.dtype[Any]:
    """NumPy's type of the result for elements of a type."""
    value = _abi.OPS[op].value
    if op in ("any", "all"):
        return np.dtype(bool)
    if value == "NUMBER":
        return np.dtype(np.intp)
    if op == "range" and el.dtype.kind == "M":
        return np.dtype(el.dtype.str.replace("M8", "m8"))
    if el.dtype.kind == "c":
        return el.dtype if op in ("sum", "mean") else np.dtype(el.view)
    if el.kind == "f" or el.dated or op in ("min", "max", "minmax", "and", "or", "xor"):
        return el.dtype
    if value == "REAL" or op in ("norm1", "norminf"):
        return np.dtype(float)
    return np.dtype(np.int64 if el.dtype.kind in "bi" else np.uint64)


def cell_dtype(op: str, el: Element, out: int) -> np.dtype[Any]:
    """NumPy's type of a cell as the library writes it."""
    value = _abi.OPS[op].value
    if value == "NUMBER":
        return np.dtype("u8")
    if value == "SUMMARY":
        return np.dtype([(name, kind or CELL[el.kind]) for name, kind in STATS])
    if value == "REAL" or el.kind == "f":
        return np.dtype({_abi.F16: "f2", _abi.BF16: "u2", _abi.F32: "f4"}.get(out, "f8"))
    return np.dtype(CELL[el.kind])


def _cast_to(op: str, data: Any, dtype: Any) -> tuple[Any, np.dtype[Any] | None]:
    """The elements as `dtype` asks for them, and the type of the result. Floats and sums of integers keep their elements: the
    result is rounded once."""
    if dtype is None:
        return data, None
    wanted = np.dtype(dtype)
    have = data.dtype
    if wanted.kind not in "biufc" and not float_code(wanted) and wanted != have or have.kind == "c" and wanted.kind != "c":
        raise TypeError(f"dtype: the {op} of {have} cannot be {wanted}")
    integral = have.kind in "biu"
    if wanted.kind in "biu" and (not integral or op in ("mean", "var", "std", "sem", "rms")) or op == "prod" and integral and wanted.kind not in "biu":
        data = (data.copy("a cast") if isinstance(data, Remote) else data).astype(wanted)
    return data, wanted


def _check_complex(op: str, data: Any) -> Any:
    """Complex elements as the operation takes them."""
    if op in ("any", "all", "count_nonzero"):
        return data != 0
    if op in ("norm1", "norminf"):
        return np.abs(data)
    if op not in OF_PAIRS:
        raise TypeError(f"a: the {op} of complex numbers is not defined")
    return data


def _initial(initial: Any, el: Element) -> Array:
    """One element. ValueError if the type has no such value."""
    if el.dtype.kind == "c" or el.dated:
        raise TypeError(f"initial is not possible with elements of type {el.dtype}")
    try:
        with np.errstate(over="ignore"):
            one = np.asarray(initial).astype(el.dtype).reshape(())
    except (TypeError, ValueError) as e:
        raise TypeError(f"initial is one number, not {initial!r}") from e
    if el.kind != "f" and not one == initial:
        raise ValueError(f"initial: elements of type {el.dtype} cannot be {initial!r}")
    return one


def _keep(where: Any, o: Operand) -> Array | None:
    """The elements that count, from `where` and the mask of the array."""
    if where is None or where is True:
        return o.keep
    try:
        wanted = np.broadcast_to(np.asarray(where), o.data.shape)
    except ValueError:
        raise ValueError(f"where: its shape {np.shape(where)} cannot be broadcast to {tuple(o.data.shape)}") from None
    if wanted.dtype != bool:
        raise TypeError(f"where is an array of bool, not of {wanted.dtype}")
    return wanted if o.keep is None else wanted & o.keep


def _and(keep: Array | None, more: Array) -> Array:
    return more if keep is None else keep & more


def _without_nans(op: str, data: Array, keep: Array | None, nan: str) -> tuple[Array | None, Array | None, str]:
    """Complex NaNs and dates that are NaT by mask: (elements that count, elements whose result is NaT, policy)."""
    missing = is_nan(data)
    if keep is not None:
        missing &= keep
    if op in COUNTS or not missing.any():
        return keep, None, "propagate"
    if nan == "raise":
        raise NanError("a NaN was found and the policy is 'raise'", "nan")
    if nan == "omit" or op in ("sum", "mean") and data.dtype.kind in "mM":
        keep = _and(keep, ~missing)
    return keep, missing if nan == "propagate" and data.dtype.kind in "mM" else None, "propagate"


def _fit(cells: Array, wanted: np.dtype[Any], el: Element, op: str) -> Array:
    """The cells as the type of the result. Integers that do not fit raise OverflowError_."""
    if wanted.name == "bfloat16" and cells.dtype == np.uint16:
        return cells.view(wanted)
    if wanted.kind in "mM":
        return cells.view(wanted) if cells.dtype.itemsize == 8 else cells.astype(wanted)
    if wanted.kind in "iu" and cells.dtype.kind in "iu":
        bounds = np.iinfo(wanted)
        for x in (cells.min(), cells.max()) if cells.size else ():
            if not bounds.min <= int(x) <= bounds.max:
                raise OverflowError_(f"OVERFLOW: the exact {op} does not fit {wanted}; the exact value is {x}", "dtype", exact=int(x))
    return cells.astype(wanted, copy=False)


def _whole_mean(sums: Array, counts: Any) -> Array:
    """Spans: sums over counts, cut towards zero as NumPy does; NaT of none."""
    counts = np.broadcast_to(np.asarray(counts, np.int64), sums.shape)
    some = np.maximum(counts, 1)
    cut = np.where(sums < 0, -(-sums // some), sums // some)
    return np.where(counts == 0, NAT, cut)


def _put_out(value: Any, out: Any) -> Any:
    """The result into the caller's array. It is complete by then, so `out` may overlap the elements."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is an array, not {type(out).__name__}")
    if out.shape != np.shape(value):
        raise ValueError(f"out: its shape is {out.shape}, but the result's is {np.shape(value)}")
    try:
        np.copyto(out, value, casting="same_kind")
    except (TypeError, ValueError) as e:
        raise type(e)(f"out: {e}") from None
    return out


def plan(op: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
         where: Any = None, ddof: int = 0, nan: str = "propagate", wrap: bool = False, make: Callable[..., Any] | None = None,
         state: bool = False) -> Plan:
    """The request for NumPy's arguments. `make(values, scalar)` makes what the caller gets of several values a result;
    `state`: the cells are partial states."""
    if nan not in NANS:
        raise ValueError(f"nan is propagate, omit or raise, not {nan!r}")
    if not isinstance(ddof, (int, np.integer)) or not 0 <= ddof < 2**32:
        raise ValueError(f"ddof is an integer of 0 or more, not {ddof!r}")
    o = operand(a)
    data, wanted = _cast_to(op, o.data, dtype)
    axes = axes_of(axis, len(data.shape))
    keep = _keep(where, o)
    asked = op
    if data.dtype.kind == "c":
        if isinstance(data, Remote):
            data = data.copy("complex numbers")
        data = _check_complex(op, data)
    el = element(data.dtype)
    late = None
    if el.parts == 2 or el.dated:
        if el.dated and not (op in COUNTS or op in OF_DATES or op in ("sum", "mean") and el.dtype.kind == "m"):
            raise TypeError(f"a: the {op} of {el.dtype} is not defined")
        keep, late, nan = _without_nans(op, data, keep, nan)
    counts: Any = None
    if el.dated and op in ("mean", "range"):
        counts = prod(data.shape[i] for i in axes) if keep is None else keep.sum(axes)
        op = "sum" if op == "mean" else "minmax"
    wanted = wanted or result_dtype(asked, el)
    shape = tuple(data.shape)
    full = tuple(1 if i in axes else n for i, n in enumerate(shape))
    short = tuple(n for i, n in enumerate(shape) if i not in axes)
    scalar = not (full if keepdims else short) and out is None

    # The parts of complex numbers are a last axis: kept, or reduced where the operation sums over both.
    shape2, axes2, both = shape, axes, op in ("sumsq", "norm2")
    if el.parts == 2:
        data = np.ascontiguousarray(data).reshape(shape).view(el.view).reshape(shape + (2,))
        shape2, axes2 = shape + (2,), axes + ((len(shape),) if both else ())
        keep = None if keep is None else np.broadcast_to(keep[..., None], shape2)

    flips: tuple[int, ...] = ()
    if not isinstance(data, Remote):
        flips = tuple(i for i, s in enumerate(data.strides) if s < 0 and (op not in PLACES or i not in axes2))
        data = data[tuple(slice(None, None, -1) if i in flips else slice(None) for i in range(data.ndim))] if flips else data
        keep = keep[tuple(slice(None, None, -1) if i in flips else slice(None) for i in range(data.ndim))] if flips and keep is not None else keep

    layout = arrange(shape2, data.strides, data.dtype.itemsize, axes2, op in PLACES) if data.dtype.isnative else None
    if isinstance(data, Remote) and (layout is None or keep is not None):
        data = data.copy("where" if layout else "these strides and axes")
        layout = arrange(shape2, data.strides, data.dtype.itemsize, axes2, op in PLACES)
    layout = layout or copied(shape2, axes2)
    if isinstance(data, Remote):
        source = data.source()
    else:
        data = in_order(data if data.dtype.isnative else data.astype(data.dtype.newbyteorder("=")), layout)
        source = in_memory(data, o.filename, layout.by_row and keep is None and not flips)

    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS[op].code, dtype=el.code, nan=NANS[nan], ddof=int(ddof), rows=layout.rows,
                     flags=_abi.WRAP * wrap | _abi.STATES_OUT * state | _abi.COLUMNS * (not layout.by_row and source.nbytes > 0))
    if layout.planes > 1 and source.nbytes:
        spec.planes = layout.planes
    if not scalar or dtype is not None:
        spec.out = float_code(wanted if wanted.kind != "c" else np.dtype(el.view)) if _abi.OPS[op].value in ("SAME", "REAL") and (
            el.kind == "f" or _abi.OPS[op].value == "REAL") else 0
    holds: list[Any] = [data, spec]
    if initial is not None:
        one = _initial(initial, el)
        spec.initial = one.ctypes.data
        holds.append(one)
    if keep is not None:
        mask = in_order(keep, layout).view(np.uint8)
        spec.mask = mask.ctypes.data
        holds.append(mask)

    n = prod(shape2[i] for i in layout.kept)
    if not layout.by_row and source.nbytes == 0:
        spec.rows = n
    kind = np.dtype((np.void, _state_size(op, el))) if state else cell_dtype(op, el, spec.out)
    width = 2 if op == "minmax" and not state else 1
    cells = np.empty(n * width, kind)

    def finish(cells: Array) -> Any:
        values = cells.reshape(tuple(shape2[i] for i in layout.kept) + ((2,) if width == 2 else ()))
        back = np.argsort(layout.kept) if layout.kept else []
        values = values.transpose(*back, *([len(back)] if width == 2 else []))
        kept = sorted(layout.kept)
        values = values[tuple(slice(None, None, -1) if i in flips else slice(None) for i in kept)]
        if state:
            return values
        if el.parts == 2 and not both:
            values = _join(asked, values, shape, axes, keep, ddof)
        if counts is not None and asked == "mean":
            values = _whole_mean(values, counts)
        if counts is not None and asked == "range":
            values = values[..., 1] - values[..., 0]
        if late is not None:
            values = _nat(asked, values, late, axes)
        if make is not None:
            return make(values, el, wanted, scalar, full if keepdims else None)
        if scalar and dtype is None and not el.dated:
            value = values[()].item()
            return bool(value) if wanted.kind == "b" else float(value) if wanted.kind == "f" else value
        values = _fit(values, wanted, el, asked)
        values = values.reshape(full if keepdims else short)
        if out is not None:
            return _put_out(values, out)
        if o.masked and o.keep is not None and not scalar:
            return np.ma.array(values, mask=~o.keep.any(axis=axes, keepdims=keepdims))
        return values[()] if scalar else values

    return Plan(op, el, spec, source, cells, finish, holds)


def _state_size(op: str, el: Element) -> int:
    from ._lib import lib
    return int(lib().reduce_state_size(_abi.OPS[op].code, el.code))


def _join(op: str, values: Array, shape: tuple[int, ...], axes: tuple[int, ...], keep: Array | None, ddof: int) -> Array:
    """One value of the two of real and imaginary parts."""
    if op in ("sum", "mean"):
        return np.ascontiguousarray(values).view(f"c{2 * values.dtype.itemsize}")[..., 0]
    if op == "var":
        return np.asarray(values.sum(-1))
    return np.asarray(np.hypot(values[..., 0], values[..., 1]))  # std and rms: roots of the sum of squares


def _nat(op: str, values: Array, late: Array, axes: tuple[int, ...]) -> Array:
    """NaT, or the place of the first one, where there was one among the elements."""
    where = late.any(axis=axes)
    if op in ("argmin", "argmax"):
        flat = np.moveaxis(late, axes, range(-len(axes), 0)).reshape(where.shape + (-1,))
        return np.where(where, flat.argmax(-1), values)
    return np.where(where[..., None] if op == "minmax" else where, NAT, values)
