"""The reductions, with NumPy's signatures.

All of them take segments of different lengths, too. `offsets` has one number more than there are segments: segment i has the elements
offsets[i] up to, not including, offsets[i + 1], along `axis` where the array has several. Segments may be empty; elements before the
first offset and from the last one on are in no segment. Places count from the start of their segment.

Names that begin with "nan" are the same with nan="omit": nansum, nanprod, nanmean, nanvar, nanstd, nanmin, nanmax, nanargmin, nanargmax.
But nanmin and nanmax of NaNs alone are NaN.
"""
from __future__ import annotations

from inspect import Signature, signature
from typing import Any, Callable, NamedTuple

import numpy as np
from numpy import ndarray

from ._again import reduce
from ._arrays import operand
from ._arrow import speaks
from ._elements import Element
from .errors import EmptyError
from ._plan import Plan
from ._prepare import Prepared
from ._quick import short
from ._results import fit, plain
from ._run import Progress

Nan = str  # "propagate", "omit" or "raise"


@short("sum")
def sum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None, *,
        nan: Nan = "propagate", offsets: Any = None, client: Any = None, deadline: float | None = None,
        progress: Progress | None = None) -> Any:
    """The exact sum, rounded once. Integers are summed in 128 bits; a sum that does not fit raises OverflowError_, which has it.

    >>> reduced.sum([0.1] * 10)
    1.0
    >>> reduced.sum(np.array([[1e16, 1, -1e16], [3, 4, 5]]), axis=1)
    array([ 1., 12.])

    With `offsets`, which all reductions take, it has one result for each segment: `offsets[i]` up to, not including, `offsets[i + 1]`.

    >>> reduced.sum([1e16, 1, -1e16, 3, 4], offsets=[0, 3, 3, 5])
    array([1., 0., 7.])
    """
    return reduce("sum", a, axis, dtype, out, keepdims, initial, where, client, deadline, progress, nan=nan, offsets=offsets)


@short("prod")
def prod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None, *,
         nan: Nan = "propagate", wrap: bool = False, offsets: Any = None, client: Any = None, deadline: float | None = None,
         progress: Progress | None = None) -> Any:
    """The product: without intermediate overflow, the same bits in any order. Integers that do not fit raise OverflowError_, or wrap. Both
    parts of a product of complex numbers are exact and rounded once. This process multiplies them, as whole numbers of at most 2^20 binary
    digits, which 19,000 elements of complex128 fill; more raise TooLargeError. An infinity or NaN among them gives NaN in both parts.

    >>> reduced.prod([1e200, 1e200, 1e-300])
    1e+100
    """
    return reduce("prod", a, axis, dtype, out, keepdims, initial, where, client, deadline, progress, nan=nan, offsets=offsets, wrap=wrap)


@short("mean")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None,
         nan: Nan = "propagate", offsets: Any = None, client: Any = None, deadline: float | None = None,
         progress: Progress | None = None) -> Any:
    """The exact sum over the count, rounded once.

    >>> reduced.mean(np.array([1e308, 1e308]))
    1e+308
    """
    return reduce("mean", a, axis, dtype, out, keepdims, None, where, client, deadline, progress, nan=nan, offsets=offsets)


def _ddof(ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if ddof:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


@short("var")
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False, *, where: Any = None,
        mean: Any = None, correction: Any = None, nan: Nan = "propagate", offsets: Any = None, client: Any = None,
        deadline: float | None = None, progress: Progress | None = None) -> Any:
    """The variance with divisor n - ddof, from exact moments, rounded once; of complex numbers the sum of both parts' variances, rounded once. `mean`
    is accepted as in NumPy, but not used. `correction` is another name for `ddof`, which may be any number.

    >>> reduced.var([1e9 + 1, 1e9 + 2, 1e9 + 3], ddof=1)
    1.0
    """
    return reduce("var", a, axis, dtype, out, keepdims, None, where, client, deadline, progress, _ddof(ddof, correction), nan, offsets)


@short("std")
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False, *, where: Any = None,
        mean: Any = None, correction: Any = None, nan: Nan = "propagate", offsets: Any = None, client: Any = None,
        deadline: float | None = None, progress: Progress | None = None) -> Any:
    """The standard deviation, as `var`.

    >>> reduced.std([1, 2, 3, 4], ddof=1)
    1.2909944487358056
    """
    return reduce("std", a, axis, dtype, out, keepdims, None, where, client, deadline, progress, _ddof(ddof, correction), nan, offsets)


def sem(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 1, keepdims: bool = False, *, where: Any = None,
        nan: Nan = "propagate", offsets: Any = None, client: Any = None, deadline: float | None = None,
        progress: Progress | None = None) -> Any:
    """The standard error of the mean: the root of var / n, rounded once, also of complex numbers. As in scipy.stats, ddof is 1 by default.

    >>> reduced.sem([1, 2, 3, 4])
    0.6454972243679028
    """
    return reduce("sem", a, axis, dtype, out, keepdims, None, where, client, deadline, progress, ddof, nan, offsets)


@short("rms")
def rms(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None,
        nan: Nan = "propagate", offsets: Any = None, client: Any = None, deadline: float | None = None,
        progress: Progress | None = None) -> Any:
    """The root of the mean of squares, rounded once.

    >>> reduced.rms([1, 7])
    5.0
    """
    return reduce("rms", a, axis, dtype, out, keepdims, None, where, client, deadline, progress, nan=nan, offsets=offsets)


@short("min")
def min(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None, *,
        nan: Nan = "propagate", offsets: Any = None, client: Any = None, deadline: float | None = None,
        progress: Progress | None = None) -> Any:
    """The smallest element; -0 is below +0.

    >>> reduced.min([[3, 1], [2, 5]], axis=0)
    array([2, 1])
    """
    return reduce("min", a, axis, None, out, keepdims, initial, where, client, deadline, progress, nan=nan, offsets=offsets)


@short("max")
def max(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None, *,
        nan: Nan = "propagate", offsets: Any = None, client: Any = None, deadline: float | None = None,
        progress: Progress | None = None) -> Any:
    """The largest element; +0 is above -0.

    >>> reduced.max([[3, 1], [2, 5]], axis=-1, keepdims=True)
    array([[3],
           [5]])
    """
    return reduce("max", a, axis, None, out, keepdims, initial, where, client, deadline, progress, nan=nan, offsets=offsets)


@short("range")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None, nan: Nan = "propagate",
        offsets: Any = None, client: Any = None, deadline: float | None = None, progress: Progress | None = None) -> Any:
    """The largest minus the smallest element, rounded once. For integers it has 64 bits and does not wrap.

    >>> reduced.ptp(np.array([-128, 127], np.int8))
    255
    """
    return reduce("range", a, axis, None, out, keepdims, None, where, client, deadline, progress, nan=nan, offsets=offsets)


@short("argmin")
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False, where: Any = None, nan: Nan = "propagate",
           offsets: Any = None, client: Any = None, deadline: float | None = None, progress: Progress | None = None) -> Any:
    """The place of the smallest element, the first of equal ones. A NaN counts as the smallest.

    >>> reduced.argmin([[3, 1], [1, 5]], axis=0)
    array([1, 0])
    """
    return reduce("argmin", a, axis, None, out, keepdims, None, where, client, deadline, progress, nan=nan, offsets=offsets)


@short("argmax")
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False, where: Any = None, nan: Nan = "propagate",
           offsets: Any = None, client: Any = None, deadline: float | None = None, progress: Progress | None = None) -> Any:
    """The place of the largest element, the first of equal ones. A NaN counts as the largest.

    >>> reduced.argmax([1, 7, 7])
    1
    """
    return reduce("argmax", a, axis, None, out, keepdims, None, where, client, deadline, progress, nan=nan, offsets=offsets)


@short("any")
def any(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None, offsets: Any = None, client: Any = None,
        deadline: float | None = None, progress: Progress | None = None) -> Any:
    """Whether some element is not zero; NaN is not zero.

    >>> reduced.any([0, 0.0, 1e-320])
    True
    """
    return reduce("any", a, axis, None, out, keepdims, None, where, client, deadline, progress, offsets=offsets)


@short("all")
def all(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None, offsets: Any = None, client: Any = None,
        deadline: float | None = None, progress: Progress | None = None) -> Any:
    """Whether no element is zero.

    >>> reduced.all([[1, 0], [2, 3]], axis=1)
    array([False,  True])
    """
    return reduce("all", a, axis, None, out, keepdims, None, where, client, deadline, progress, offsets=offsets)


@short("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = None, offsets: Any = None, client: Any = None,
                  deadline: float | None = None, progress: Progress | None = None) -> Any:
    """How many elements are not zero.

    >>> reduced.count_nonzero([0, 1, float("nan")])
    2
    """
    return reduce("count_nonzero", a, axis, None, None, keepdims, None, where, client, deadline, progress, offsets=offsets)


@short("norm2", first=False)
def norm(a: Any, ord: Any = 2, axis: Any = None, keepdims: bool = False, *, out: Any = None, where: Any = None, nan: Nan = "propagate",
         offsets: Any = None, client: Any = None, deadline: float | None = None, progress: Progress | None = None) -> Any:
    """The norm of order 1, 2 or inf of the elements as a vector, also those of a matrix, rounded once, without intermediate overflow.
    Order "fro" is 2. Those of complex numbers are of their magnitudes, which are not rounded before.

    >>> reduced.norm([3, 4])
    5.0
    >>> reduced.norm([[1, -2], [3, -4]], 1, axis=0)
    array([4., 6.])
    """
    ops = {1: "norm1", 2: "norm2", float("inf"): "norminf", None: "norm2", "fro": "norm2"}
    if ord.__hash__ is None or ord not in ops:
        raise ValueError(f"ord is 1, 2, inf or 'fro', not {ord!r}")
    return reduce(ops[ord], a, axis, None, out, keepdims, None, where, client, deadline, progress, nan=nan, offsets=offsets)


def bits(a: Any, op: str, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None, offsets: Any = None,
         client: Any = None, deadline: float | None = None, progress: Progress | None = None) -> Any:
    """The bitwise "and", "or" or "xor" of integers or bools.

    >>> reduced.bits([12, 10], "xor")
    6
    """
    if op not in ("and", "or", "xor"):
        raise ValueError(f"op is 'and', 'or' or 'xor', not {op!r}")
    return reduce(op, a, axis, None, out, keepdims, None, where, client, deadline, progress, offsets=offsets)


class MinMax(NamedTuple):
    """The smallest and the largest element."""

    min: Any
    max: Any


def _minmax(values: Any, p: Prepared, shape: Any) -> MinMax:
    ends = [values[..., i] for i in (0, 1)]
    if shape == () and not p.element.dated:
        return MinMax(*(plain(e[()], p.wanted) for e in ends))
    return MinMax(*(fit(e, p.wanted, p.asked).reshape(e.shape if shape is None else shape)[()] for e in ends))


def minmax(a: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None, nan: Nan = "propagate",
           offsets: Any = None, client: Any = None, deadline: float | None = None, progress: Progress | None = None) -> Any:
    """The smallest and the largest element in one pass.

    >>> reduced.minmax([3, 1, 2])
    MinMax(min=1, max=3)
    """
    return reduce("minmax", a, axis, None, None, keepdims, initial, where, client, deadline, progress, nan=nan, offsets=offsets, make=_minmax)


NO_PLACE = 2**64 - 1  # what the library writes of no elements


class Stats(NamedTuple):
    """Everything in one pass; the fields are numbers, or arrays with one element for each result. Places of nothing are -1."""

    count: Any
    nans: Any
    zeros: Any
    min: Any
    max: Any
    argmin: Any
    argmax: Any
    sum: Any
    mean: Any
    var: Any
    std: Any


def _exact_sums(values: Any) -> Any:
    """Sums of integers from their two words; as Python ints if some sum does not fit 64 bits."""
    low = values["sum"]
    fits = values["sum_high"] == (low >> 63 if low.dtype.kind == "i" else 0)
    if np.all(fits):
        return low
    whole = low.astype("u8").astype(object) + values["sum_high"].astype(object) * 2**64
    return np.asarray(whole, object)


def _one_stats(values: Any, el: Element) -> Stats:
    """The statistics of a whole array, in a tenth of the time. The fields have the order of reduce_stats."""
    count, nans, zeros, argmin, argmax, least, most, total, high, *rest = values.item()
    if el.kind != "f":
        total = total % 2**64 + high * 2**64
    return Stats(count, nans, zeros, least, most, -1 if argmin == NO_PLACE else argmin, -1 if argmax == NO_PLACE else argmax, total, *rest)


def _stats_fields(values: Any, el: Element) -> dict[str, Any]:
    """The fields of many statistics."""
    fields = {name: values[name].astype(np.intp) if name in ("count", "nans", "zeros", "argmin", "argmax") else values[name]
              for name in Stats._fields}
    if el.kind != "f":
        fields["sum"] = _exact_sums(values)
    return fields


def _stats(values: Any, p: Prepared, shape: Any) -> Stats:
    if shape == ():
        return _one_stats(values, p.element)
    return Stats(**{name: np.ascontiguousarray(field).reshape(shape or field.shape) for name, field in _stats_fields(values, p.element).items()})


def stats(a: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False, *, where: Any = None, nan: Nan = "propagate",
          offsets: Any = None, client: Any = None, deadline: float | None = None, progress: Progress | None = None) -> Any:
    """Counts, extremes and their places, sum, mean, variance and standard deviation in one pass over the elements.

    >>> reduced.stats([1, 2, 3, 4]).std
    1.118033988749895
    """
    return reduce("stats", a, axis, None, None, keepdims, None, where, client, deadline, progress, ddof, nan, offsets, make=_stats)


def _without_nan(f: Callable[..., Any]) -> Signature:
    """The signature of a function without the argument `nan`, and without types, which help() would print as strings."""
    return Signature([p.replace(annotation=p.empty) for p in signature(f).parameters.values() if p.name != "nan"])


def _omitting(f: Callable[..., Any]) -> Callable[..., Any]:
    """The variant of a reduction that skips NaNs, as NumPy names it."""
    def skip(a: Any, *args: Any, **kw: Any) -> Any:
        return f(a, *args, nan="omit", **kw)
    skip.__name__ = skip.__qualname__ = "nan" + f.__name__
    skip.__signature__ = _without_nan(f)  # type: ignore[attr-defined]
    skip.__doc__ = f"`{f.__name__}` of the elements that are not NaN (or NaT). It has the same arguments, except `nan`."
    return skip


def _or_nan(f: Callable[..., Any]) -> Callable[..., Any]:
    """The same for min and max: NaN where all elements are NaN."""
    skip = _omitting(f)

    def chosen(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None, **kw: Any) -> Any:
        def nothing(**kw: Any) -> Any:
            from ._all_nan import fill
            return fill(f, a, axis, out, keepdims, where, **kw)
        if type(a) is not ndarray and speaks(a):
            a = operand(a, flows=True)  # a stream is read once
        try:
            found = skip(a, axis, out, keepdims, initial, where, **kw)
        except EmptyError:
            found = nothing(**kw)
            if found is None:
                raise
        if isinstance(found, Plan):  # of _jobs.py
            found.of_nothing = lambda client: nothing(offsets=kw.get("offsets"), client=client)
        return found
    chosen.__name__, chosen.__qualname__ = skip.__name__, skip.__qualname__
    chosen.__signature__ = _without_nan(f)  # type: ignore[attr-defined]
    chosen.__doc__ = f"`{f.__name__}` of the elements that are not NaN (or NaT); NaN of floats that all are. It has the same arguments, except `nan`."
    return chosen


nansum = _omitting(sum)
nanprod = _omitting(prod)
nanmean = _omitting(mean)
nanvar = _omitting(var)
nanstd = _omitting(std)
nanmin = _or_nan(min)
nanmax = _or_nan(max)
nanargmin = _omitting(argmin)
nanargmax = _omitting(argmax)
amin, amax = min, max
