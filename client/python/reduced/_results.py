"""From the cells that the library wrote to the result that NumPy would return."""
from __future__ import annotations

import re
from math import prod
from typing import Any, Callable

import numpy as np

from ._elements import NAT, float_code, other_dates, part_code, shown
from .errors import Error, OverflowError_
from ._layout import Layout
from ._prepare import OF_STATES, Prepared, beyond
from ._remote import Array

LATER: Any = object()  # stands for an array that comes with the cells
Make = Callable[[Array, Prepared, Any], Any]  # several values a result: (values, what was reduced, shape with keepdims) -> the caller's


class Finish:
    """Makes the result of the cells of one reduction."""

    def __init__(self, p: Prepared, layout: Layout, flips: tuple[int, ...], keepdims: bool, given: bool, out: Any, make: Make | None):
        self.p, self.layout, self.flips, self.given, self.out, self.make = p, layout, flips, given, out, make
        self.laid = tuple(p.data.shape)
        self.full = tuple(1 if i in p.axes else n for i, n in enumerate(p.shape))
        self.shape = self.full if keepdims else tuple(n for i, n in enumerate(p.shape) if i not in p.axes)
        if p.segments:
            self.laid, self.shape = p.segments.results(self.laid), p.segments.results(p.shape)
        self.keepdims = keepdims
        several = [i for i in layout.kept if self.laid[i] != 1]  # where the others are makes no difference
        self.ordered = not flips and several == sorted(several)  # the cells are
        self.along = tuple(self.laid[i] for i in (sorted(layout.kept) if self.ordered else layout.kept))
        self.back = () if self.ordered else tuple(sorted(range(len(layout.kept)), key=lambda i: layout.kept[i]))  # their order in the result
        self.of_pairs: Any = None  # makes the values of complex numbers from states
        self.scalar = not self.shape and out is None
        self.simple = self.scalar and not given and p.element.parts == 1 and not p.element.dated and p.masked is None
        self.number = p.wanted.kind if self.simple and not make else ""  # the result is a single cell
        if p.element.dated and self.scalar and not given and p.masked is None and p.wanted.kind not in "mM":
            self.number = p.wanted.kind  # where none is missing, as a recipe wants it

    def in_axis_order(self, cells: Array) -> Array:
        """The cells in the shape of the axes that are kept; minmax has two values a cell."""
        kept, values = self.layout.kept, cells.reshape(self.along + cells.shape[1:])
        if self.ordered:
            return values
        values = values.transpose(*self.back, *range(len(kept), values.ndim))
        return values[tuple(slice(None, None, -1) if i in self.flips else slice(None) for i in sorted(kept))]

    def states(self, cells: Array) -> Array:
        return self.in_axis_order(cells)

    def as_written(self, cell: np.dtype[Any]) -> tuple[int, ...] | None:
        """The shape of an array of the cells that is the result as it is, or transposed, as dates, counts or bools; None: more is to be done."""
        p = self.p
        plain_one = not (self.make or self.of_pairs or p.maskless or p.matrix) and p.masked is None and p.element.parts == 1
        shape = self.shape if self.ordered else None if self.flips or self.keepdims or p.segments else self.along
        if p.element.dated:
            as_it_is = p.asked == p.op not in ("minmax", "sum") and cell == np.int64  # a sum may have NaT's number
            return shape if plain_one and as_it_is and p.wanted.kind in "mM" and self.out is None else None
        counts = p.element.dtype.kind == "b" and cell.kind == "u" and p.wanted == np.int64  # sums of bools fit
        return shape if plain_one and not self.scalar and (cell == p.wanted or counts or p.wanted.kind == "b" and cell.kind in "iuf") else None

    def __call__(self, cells: Array, out: Any = None) -> Any:
        p = self.p
        if self.simple:
            return self.make(cells[0], p, ()) if self.make else plain(cells[0], p.wanted)
        if self.of_pairs and self.scalar and not self.given and p.masked is None and p.op in OF_STATES:
            return self.of_pairs.one(cells)
        values = self.in_axis_order(cells)
        if p.element.parts == 2:
            values = self.of_pairs(values) if self.of_pairs else join(p.asked, values)
        if p.element.dated:
            values = self.dates(values)
        if self.scalar and p.masked is not None and not p.masked.any() and not self.make and p.asked != "count_nonzero":
            return np.ma.masked
        if self.make:
            found = self.make(values, p, self.full if self.keepdims else None if self.shape else ())
            return self.masked_values(found) if p.asked in ("minmax", "quantile") and (p.maskless or p.masked is not None) else found
        if self.scalar and not self.given and p.wanted.kind not in "mM":
            one = fit(values, p.wanted, p.asked) if p.wanted.kind in "biu" else values  # floats with all bits, as those of other arrays
            return plain(np.asarray(one)[()], p.wanted)  # of complex numbers, dates and masked arrays
        if p.asked in ("min", "max", "kth") and p.wanted == p.element.dtype and p.wanted.kind in "iu":  # one of the elements always fits
            return self.array(values.astype(p.wanted, copy=False).reshape(self.shape), out)
        return self.array(fit(values, p.wanted, p.asked).reshape(self.shape), out)

    def array(self, values: Array, out: Any) -> Any:
        out = self.out if out is None else out
        if out is not None:
            put_out(values, out, self.p.asked)
            if isinstance(out, np.ma.MaskedArray) and (self.p.maskless or self.p.masked is not None):
                out.mask = self.lost()
            return out
        if (self.p.maskless or self.p.masked is not None) and not self.scalar:
            return np.ma.MaskedArray(values, mask=self.lost())
        if self.p.matrix and values.ndim == 2:
            return values.view(np.matrix)
        return values[()] if self.scalar else values

    def masked_values(self, pair: Any) -> Any:
        """The smallest and the largest element, or several quantiles, as masked arrays."""
        lost = self.lost()
        if self.scalar and not np.any(lost):
            return pair
        if isinstance(pair, np.ndarray):
            return np.ma.MaskedArray(pair, mask=lost | np.zeros(pair.shape, bool))
        if self.scalar:
            return pair._make((np.ma.masked, np.ma.masked))
        return pair._make(np.ma.MaskedArray(x, mask=lost) for x in pair)

    def lost(self) -> Any:
        """Which results of a masked array have masked elements alone."""
        return False if self.p.masked is None else ~self.marked(self.p.masked, self.keepdims)

    def marked(self, marks: Array, keepdims: bool = False) -> Array:
        """For each result, whether some element is marked."""
        p = self.p
        axes = tuple(i for i in p.axes if i < marks.ndim)  # without the axis of the parts of complex numbers
        return np.asarray(p.segments.count(marks) > 0 if p.segments else marks.any(axis=axes, keepdims=keepdims))

    def first(self, marks: Array, shape: tuple[int, ...]) -> Array:
        """The place of the first marked element of each result."""
        p = self.p
        if p.segments:
            return p.segments.first(marks)
        found: Array = np.moveaxis(marks, p.axes, tuple(range(-len(p.axes), 0))).reshape(shape + (-1,)).argmax(-1)
        return found

    def dates(self, values: Array) -> Array:
        """Results of dates: the mean and the range, and NaT, or its place, where there was a NaT."""
        p = self.p
        late = np.False_ if p.late is None else self.marked(p.late)
        if p.asked == "mean":
            values = cut_mean(values, p.counts)
        elif p.asked == "range":
            wide = values[..., 1].view(np.uint64) - values[..., 0].view(np.uint64)
            values = spans(wide, ~late & (wide.view(np.int64) < 0), p)
        elif p.asked == "sum":
            values = spans(values, ~late & (values == NAT), p)
        if p.late is None:
            return values
        if p.asked in ("argmin", "argmax"):
            return np.where(late, self.first(p.late, late.shape), values)
        return np.where(late[..., None] if p.asked == "minmax" else late, NAT, values)


def located(error: Error, finish: Any) -> Error:
    """The error of one result of several: the library counts them as they lie in memory, the caller as they are in the result."""
    while finish is not None and not isinstance(finish, Finish):
        finish = getattr(finish, "finish", getattr(finish, "func", None))
    if error.index is None or finish is None or finish.ordered or not 0 <= error.index < prod(finish.along):
        return error
    place = int(np.flatnonzero(finish.in_axis_order(np.arange(prod(finish.along))) == error.index)[0])
    error.args, error.index = (re.sub(rf"\b(row|column|segment) {error.index}\b", rf"\1 {place}", str(error)),), place
    return error


def plain(value: Any, wanted: np.dtype[Any]) -> Any:
    """A Python number."""
    kind = {"b": bool, "f": float}.get(wanted.kind)
    return kind(value) if kind else value.item()


def join(op: str, values: Array) -> Array:
    """One value from those of real and imaginary parts."""
    if op in ("sum", "mean"):
        return np.asarray(np.ascontiguousarray(values).view(f"c{2 * values.dtype.itemsize}")[..., 0])
    return values


def spans(values: Array, lost: Array, p: Prepared) -> Array:
    """Spans of 64 bits. OverflowError_ if some are lost: they have more, or the number that stands for NaT."""
    if lost.any():
        x = values[lost].item(0)
        raise OverflowError_(f"OVERFLOW: the exact {shown(p.asked)} does not fit {p.wanted}; the exact value is {x}", "dtype", exact=x)
    return values.view(np.int64)


def cut_mean(sums: Array, counts: Any) -> Array:
    """Spans: sums over counts, truncated as in NumPy; NaT without elements."""
    counts = np.broadcast_to(np.asarray(counts, np.int64), sums.shape)
    some = np.maximum(counts, 1).astype(sums.dtype, copy=False)  # integers of Python, where sums need more than 64 bits
    return np.where(counts == 0, NAT, sums // some + ((sums < 0) & (sums % some != 0))).astype(np.int64)


def fit(values: Array, wanted: np.dtype[Any], op: str) -> Array:
    """The values as the type of the result."""
    if values.dtype == wanted:
        return values
    if wanted.kind in "mM" or values.dtype == np.uint16 and wanted.name == "bfloat16":
        return np.ascontiguousarray(values).view(wanted)
    return converted(values, wanted, op)


def truths(values: Array) -> Array:
    """Which are not zero. Of many numbers astype takes five times as long as a comparison, of few a third."""
    return values.astype(bool) if values.size < 256 else values != 0


def converted(values: Array, wanted: np.dtype[Any], op: str, field: str = "dtype") -> Array:
    """The same numbers in another type. What does not fit an integer type raises OverflowError_, which names the argument."""
    if wanted.kind == "b" and values.dtype.kind in "iuf":
        return truths(np.asarray(values))
    lost = beyond(values, wanted) if wanted.kind in "iu" else None
    if lost is not None:
        x = values[lost][0].item()
        if isinstance(x, int):
            raise OverflowError_(f"OVERFLOW: the exact {shown(op)} does not fit {wanted}; the exact value is {x}", field, exact=x)
        raise OverflowError_(f"OVERFLOW: the {shown(op)} does not fit {wanted}; it is {x}", field)
    if values.dtype.kind in "iu" and wanted.itemsize > 2:
        return values.astype(wanted, copy=False)
    with np.errstate(over="ignore"):  # an integer beyond float16 is an infinity
        return (few_digits(values) if values.dtype.kind in "iu" and wanted.name == "bfloat16" else values).astype(wanted, copy=False)


def few_digits(values: Array) -> Array:
    """Integers that round to the same bfloat16, but have at most 21 binary digits: ml_dtypes rounds to float32 first, which must not
    make a tie. The last digit says whether others were cut off."""
    one = values.dtype.type(1)
    drop = np.maximum(np.frexp(values.astype(float))[1] - 20, 0).astype(values.dtype)
    digits: Array = (values >> drop | (values & (one << drop) - one != 0)) << drop
    return digits


def as_out(wanted: np.dtype[Any], out: Any) -> np.dtype[Any]:
    """The type of the result where the caller's array has other floats: it is rounded to them once, or to doubles if they are longer."""
    have = out.dtype.newbyteorder("=") if isinstance(out, np.ndarray) else wanted
    if not part_code(wanted) or not (have.kind in "fc" or float_code(have)):
        return wanted
    if wanted.kind == "c":
        return wanted if have.kind != "c" else have if part_code(have) else np.dtype(complex)
    part = np.dtype(f"f{have.itemsize // 2}") if have.kind == "c" else have
    return part if float_code(part) else np.dtype(float)


def put_out(values: Array, out: Any, op: str) -> Any:
    """The result into the caller's array. It is complete by then, so `out` may overlap the elements. Integers do not wrap there."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is an array, not {type(out).__name__}")
    if out.shape != values.shape:
        raise ValueError(f"out: its shape is {out.shape}, but that of the result is {values.shape}")
    if values.dtype.kind in "iu" and values.dtype != out.dtype and np.can_cast(values.dtype, out.dtype, "same_kind"):
        values = converted(values, out.dtype.newbyteorder("="), op, "out")
    if values.dtype.kind in "mM" and values.dtype != out.dtype and np.can_cast(values.dtype, out.dtype):
        if (lost := other_dates(values, out.dtype)).any():
            raise OverflowError_(f"OVERFLOW: the {shown(op)} does not fit {out.dtype}; it is {values[lost].view(np.int64)[0]}", "out")
    try:
        if out.dtype == values.dtype:
            np.copyto(out, values)
            return out
        with np.errstate(over="ignore"):
            np.copyto(out, values, casting="same_kind")
    except (TypeError, ValueError) as e:
        raise type(e)(f"out: {e}") from None
    return out
