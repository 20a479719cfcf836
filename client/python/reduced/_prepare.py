"""Which elements a reduction has: casts, masks, complex numbers, and dates."""
from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _abi
from ._arrays import PLAIN, Operand, complete, operand, to_numpy
from ._elements import Element, element, float_code, is_nan, other_dates, shown
from .errors import NanError, OverflowError_
from ._layout import axes_of
from ._remote import Array, Remote

if TYPE_CHECKING:
    from ._segments import Segments

COUNTS = ("any", "all", "count_nonzero")
CHOICES = ("min", "max", "minmax", "range", "argmin", "argmax")     # undefined without elements
REAL_VALUED = ("mean", "var", "std", "sem", "rms")                  # also of integers
PLACES = ("argmin", "argmax", "stats", "largest", "smallest")       # results that name a place
RANKED = ("median", "quantile", "kth", "largest", "smallest", "histogram")  # need all elements of a result at once
PAIRED = ("dot", "wsum", "wmean", "cov", "corr")                    # of elements with weights
OF_STATES = ("var", "std", "sem", "rms")                            # of complex numbers, from those of both parts
OF_PAIRS = ("sum", "mean", "sumsq", "norm2", "prod", *OF_STATES)
MAGNITUDES = {"norm1": "sum", "norminf": "norminf"}                # what becomes of them
OVER_BOTH = ("sumsq", "norm2")                                     # one value from real and imaginary parts
OF_DATES = ("min", "max", "minmax", "range", "argmin", "argmax", *COUNTS)


class Prepared:
    """The elements of a reduction and what it is for the daemon, which knows neither complex numbers nor dates."""

    def __init__(self, op: str, o: Operand, axis: Any, dtype: Any, where: Any, nan: str, segments: Segments | None = None):
        self.asked = self.op = op
        self.given: Any = native(o.data)
        self.data, wanted = cast(op, self.given, dtype)
        self.shape = tuple(self.data.shape)      # as the caller sees it
        self.segments = segments
        self.axes = axes_of(axis, len(self.shape))
        self.keep = kept(where, o)               # the elements that count; None: all
        self.moved = False                       # they were copied on the GPU
        self.nan = nan
        if wanted is not None and become_integers(op, self.data.dtype, wanted):
            self.integers(wanted)
        self.late: Array | None = None           # elements that make their result NaT
        self.counts: Any = None                  # of spans, for their mean
        self.masked = o.keep if o.masked else None
        self.maskless = o.masked and o.keep is None  # a masked array without a mask: its results are masked arrays, too
        self.filename = o.filename
        self.matrix = o.matrix
        if self.masked is not None and op in (*CHOICES, "kth", "quantile") and not segments:
            self.stand_in(~np.asarray(self.masked.any(axis=self.axes, keepdims=True)))
        self.magnified: Any = None               # complex numbers whose magnitudes are the elements,
        self.counting: Any = None                # and which of them count
        if self.data.dtype.kind == "c":
            self.data = complex_elements(op, self.data)
            self.magnified = self.data if op in MAGNITUDES else None
        self.element = el = element(self.data.dtype)
        self.wanted = wanted or result_dtype(op, el)
        if el.dated:
            self.dates()
        if el.parts == 2:
            self.pairs()

    def stand_in(self, lost: Array) -> None:
        """Results whose elements are all masked become masked. Zeros take the place of their elements, because the daemon must choose one."""
        if lost.any():
            self.data = np.where(lost, np.zeros((), self.data.dtype), self.data)
            self.keep = self.keep | lost

    def integers(self, wanted: np.dtype[Any]) -> None:
        """Elements as integers of a type, cut as in NumPy. What it cannot hold is an error where it counts."""
        self.data, self.keep = in_memory(self.data, "a cast"), in_memory(self.keep, "a cast")
        floats = self.data.dtype.kind not in "biu"
        missing = self.missing() if floats and (self.nan != "propagate" or wanted.kind != "b") else None
        if missing is not None and self.nan == "propagate" and self.counts_some(missing):
            raise NanError(f"NAN: a NaN cannot be {wanted}", "dtype")
        if missing is not None:
            self.leave_out(missing)
        if wanted.kind == "b":
            self.data = self.data != 0
            return
        lost = beyond(self.data, wanted)
        if lost is not None and self.counts_some(wrong := lost if self.keep is None else lost & self.keep):
            x = self.data[wrong][0]
            raise OverflowError_(f"OVERFLOW: an element does not fit {wanted}: {x}", "dtype", exact=int(x) if np.isfinite(float(x)) else None)
        self.data = (self.data if lost is None else np.where(lost, np.zeros((), self.data.dtype), self.data)).astype(wanted)

    def leave_out(self, marks: Array) -> None:
        """The marked elements do not count."""
        self.keep = ~marks if self.keep is None else self.keep & ~marks

    def counts_some(self, marks: Array) -> bool:
        """Whether some of the marked elements are in a result."""
        return bool((self.segments.cut(marks) if self.segments else marks).any())

    def dates(self) -> None:
        """Reduce dates as integers. The mean of spans is their sum over their number, the range of dates a difference of two."""
        el, op = self.element, self.op
        self.data, self.keep = in_memory(self.data, "dates"), in_memory(self.keep, "dates")
        if op not in OF_DATES and not (op in ("sum", "mean") and el.dtype.kind == "m"):
            raise TypeError(f"a: the {shown(op)} of {el.dtype} is not defined")
        missing = self.missing()
        if missing is not None and op not in COUNTS:
            if self.nan == "omit" or op in ("sum", "mean"):
                self.leave_out(missing)
            self.late = missing if self.nan == "propagate" else None
        if op == "mean":
            self.op, self.counts = "sum", self.counted()
        elif op == "range":
            self.op = "minmax"
        self.nan = "propagate"

    def counted(self) -> Any:
        """How many elements each result has."""
        if self.segments:
            return self.segments.count(np.broadcast_to(True, self.shape) if self.keep is None else self.keep)
        return prod(self.shape[i] for i in self.axes) if self.keep is None else self.keep.sum(self.axes)

    def pairs(self) -> None:
        """Complex numbers as a last axis of two floats, which is reduced as well where both parts give one value."""
        if self.nan != "propagate":
            self.data = in_memory(self.data, "NaNs of complex numbers")
        missing = self.missing() if self.nan != "propagate" else None
        if missing is not None:
            self.leave_out(missing)
        self.nan = "propagate"
        self.counting = self.keep
        if self.magnified is not None:
            return self.magnitudes()
        if self.op == "prod":
            self.data = np.asarray(in_memory(self.data, "complex numbers"))
            return None
        parts = self.shape + (2,)
        self.data = self.data.pairs(self.element.view) if isinstance(self.data, Remote) else np.ascontiguousarray(
            self.data).view(self.element.view).reshape(parts)
        self.keep = None if self.keep is None else np.broadcast_to(self.keep[..., None], parts)
        if self.op in OVER_BOTH:
            self.axes += (len(self.shape),)
        return None

    def magnitudes(self) -> None:
        """Magnitudes as doubles: two for each one that is added."""
        from ._magnitudes import magnitudes
        self.op = MAGNITUDES[self.op]
        self.data = magnitudes(self.magnified, 2 if self.op == "sum" else 1)
        self.element = element(self.data.dtype)
        if self.op == "sum":
            self.axes += (len(self.shape),)
            self.keep = None if self.keep is None else np.broadcast_to(self.keep[..., None], self.data.shape)

    def missing(self) -> Array | None:
        """Where an element that counts is NaN or NaT; None: nowhere. NanError if the policy says so."""
        found: Array = is_nan(self.data)
        if self.keep is not None:
            found = found & self.keep
        if not found.any():
            return None
        if self.nan == "raise":
            raise NanError("NAN: a NaN or NaT was found and the policy is 'raise'", "nan")
        return found


def native(data: Any) -> Any:
    """Elements in this machine's byte order."""
    return data if data.dtype.isnative or isinstance(data, Remote) else data.astype(data.dtype.newbyteorder("="))


def elements_of(a: Any, dtype: np.dtype[Any], name: str) -> tuple[Array, Array | None]:
    """A piece as consecutive elements of a type, and which of them are not missing (None: all). Arrays must have a type that fits it,
    lists numbers of its kind."""
    if np.ma.is_masked(a):
        raise TypeError(f"{name}: masked elements cannot be left out here; give its compressed()")
    o = operand(a, name)
    data, keep = o.data, None if o.keep is None or o.masked else np.ascontiguousarray(o.keep).reshape(-1)
    if isinstance(data, Remote):
        data = data.copy("") if data.readable else to_numpy(data, name)
    if data.dtype.newbyteorder("=") != dtype:
        if not np.can_cast(data.dtype, dtype, "same_kind" if isinstance(a, PLAIN) and type(a) is not Operand else "safe"):
            raise TypeError(f"{name}: elements of {data.dtype} where {dtype} is expected")
        check_exact(data, dtype, o.keep, name)
    with np.errstate(over="ignore"):  # a number of a list that is beyond float16 is an infinity
        return np.ascontiguousarray(data, dtype).reshape(-1), keep


def check_exact(data: Array, dtype: np.dtype[Any], keep: Array | None, name: str) -> None:
    """ValueError if an integer or a date that counts is not one of the type."""
    if data.dtype.kind in "mM" and dtype.kind in "mM":
        lost = other_dates(data, dtype)
    elif data.dtype.kind not in "iu" or dtype.kind not in "iufc":
        return
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            found = data.astype(dtype)
            lost = (found.real if dtype.kind == "c" else found).astype(data.dtype) != data
        if dtype.kind in "iu":
            lost = lost | ((data < 0) != (found < 0))
    if keep is not None:
        lost = lost & keep
    if lost.any():
        raise ValueError(f"{name}: it has numbers that {dtype} cannot be, such as {data[lost][0]}")


def without_nat(op: str, nan: str, a: Array, keep: Array | None) -> tuple[Array, Array | None]:
    """A piece of dates and its mask without NaT, which is an integer for the daemon."""
    late = np.isnat(a) if keep is None else np.isnat(a) & keep
    if not late.any() or op in COUNTS:
        return a, keep
    if nan == "raise":
        raise NanError("NAN: a NaN or NaT was found and the policy is 'raise'", "nan")
    if keep is not None and nan == "omit":
        return a, keep & ~late
    if nan != "omit" or op in PLACES:
        raise ValueError(f"chunk: it has a NaT, with which the {shown(op)} of a stream is not possible")
    return a[~late], keep


def in_memory(data: Any, why: str) -> Array:
    return data.copy(why) if isinstance(data, Remote) else data


def roomy(op: str, data: Any, initial: Any) -> Any:
    """The elements of a sum or product, converted to int64 or uint64 if their own type cannot hold `initial`, as NumPy does."""
    if op not in ("sum", "prod") or data.dtype.kind not in "biu" or data.dtype.itemsize == 8:
        return data
    least, most = (0, 1) if data.dtype.kind == "b" else (np.iinfo(data.dtype).min, np.iinfo(data.dtype).max)
    try:
        fits = bool(least <= initial <= most)
    except (TypeError, ValueError):  # a string or several numbers
        return data
    return data if fits else in_memory(data, "`initial`").astype(np.uint64 if data.dtype.kind == "u" else np.int64)


def become_integers(op: str, have: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether the elements are converted to integers, as NumPy does, before they are reduced."""
    return wanted.kind in "biu" and have.kind not in "mM" and (have.kind not in "biu" or op in REAL_VALUED)


def beyond(data: Array, wanted: np.dtype[Any]) -> Array | None:
    """Where elements are beyond an integer type; None: nowhere."""
    bounds, kind = np.iinfo(wanted), data.dtype.kind
    if kind == "b" or not data.size:
        return None
    if kind in "iu":
        have = np.iinfo(data.dtype)
        if bounds.min <= int(data.min()) and int(data.max()) <= bounds.max:
            return None
        of = data.dtype.type  # a single element of NumPy 1 is compared as a float with integers of Python
        small = data < of(bounds.min) if bounds.min > have.min else np.zeros(data.shape, bool)
        return np.asarray(small | (data > of(bounds.max)) if bounds.max < have.max else small)
    whole = np.trunc(data.astype("f8"))
    found = ~((whole >= float(bounds.min)) & (whole < float(bounds.max) + (bounds.max < 2**53)))  # else the float is the next power of two
    return found if found.any() else None


def cast(op: str, data: Any, dtype: Any) -> tuple[Any, np.dtype[Any] | None]:
    """The elements as `dtype` asks for them, and the type of the result. Floats and sums of integers keep their elements, because
    their result is rounded once; NumPy would round each element. `Prepared.integers` makes integers."""
    if dtype is None:
        return data, None
    try:
        wanted, have = np.dtype(dtype), data.dtype
    except TypeError as e:
        raise TypeError(f"dtype: {e}") from None
    known = wanted.kind in "biufc" or float_code(wanted) or wanted == have
    if not known or have.kind == "c" and wanted.kind != "c" or have.kind in "mM" and wanted != have:
        raise TypeError(f"dtype: the {shown(op)} of {have} cannot be {wanted}")
    if wanted.kind in "biu" or have.kind not in "biu" or op != "prod":
        return data, wanted
    with np.errstate(over="ignore"):
        return in_memory(data, "a cast").astype(wanted), wanted


def kept(where: Any, o: Operand) -> Any:
    """The elements that count, from `where` and the mask of the array: an array, or remote elements that lie like those of `o`."""
    if where is None or where is True:
        return o.keep
    asked = complete(where, "where")
    if isinstance(asked, Remote) and not (o.keep is None and alike(o.data, asked)):
        asked = asked.copy("a mask of another shape or order")
    if isinstance(asked, Remote):
        return asked
    if asked.dtype != bool:
        raise TypeError(f"where is an array of bool, not of {asked.dtype}")
    try:
        wanted = np.broadcast_to(asked, o.data.shape)
    except ValueError:
        raise ValueError(f"where: its shape {asked.shape} cannot be broadcast to {tuple(o.data.shape)}") from None
    return wanted if o.keep is None else wanted & o.keep


def alike(data: Any, mask: Remote) -> bool:
    """Whether it is a mask of remote elements, with their shape and order."""
    steps = [data.dtype.itemsize * s for s in mask.strides]
    return isinstance(data, Remote) and data.masks and mask.dtype == bool and data.dtype.kind != "c" and \
        tuple(data.shape) == tuple(mask.shape) and all(a == b or n == 1 for a, b, n in zip(data.strides, steps, data.shape))


def complex_elements(op: str, data: Any) -> Any:
    """Complex elements in the form that the operation takes."""
    if op in COUNTS:
        return in_memory(data, "complex numbers") != 0
    if op in MAGNITUDES:
        return in_memory(data, "complex numbers")
    if op not in OF_PAIRS:
        raise TypeError(f"a: the {shown(op)} of complex numbers is not defined")
    return data


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
        return el.dtype if op in ("sum", "mean", "prod") else np.dtype(el.view)
    if el.kind == "f" or el.dated or op in ("min", "max", "minmax", "kth", "largest", "smallest", "and", "or", "xor"):
        return el.dtype
    if value == "REAL" or op in ("norm1", "norminf"):
        return np.dtype(float)
    return np.dtype(np.int64 if el.dtype.kind in "bi" else np.uint64)
