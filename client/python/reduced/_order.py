"""Order statistics: median, quantiles and the element of a rank, with NumPy's signatures."""
from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from . import _abi
from ._again import reduce
from ._arrays import Operand, operand, to_numpy
from ._elements import float_code
from .errors import EmptyError
from ._functions import Nan, _omitting
from ._keys import weighed
from ._plan import NO_VALUE, Plan
from ._prepare import Prepared, kept
from ._remote import Array
from ._results import as_out, fit, plain, put_out
from ._run import Progress
from ._sources import address

__all__ = ("median", "quantile", "percentile", "kth", "Kth", "topk", "TopK", "histogram", "nanmedian", "nanquantile", "nanpercentile")
METHODS = ("linear", "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
           "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest")  # by their codes
AT_ONCE = _abi.MAX_QUANTILES


class Order(NamedTuple):
    """The parameters of one request."""

    q: tuple[float, ...] = ()
    method: int = _abi.LINEAR
    k: int = 0
    edges: bytes = b""  # doubles
    several: bool = False  # quantiles have an axis of their own

    @property
    def bins(self) -> int:
        return len(self.edges) // 8 - 1

    @property
    def picks(self) -> bool:
        """Whether quantiles are elements, so that those of integers are integers."""
        return self.method in (_abi.INVERTED_CDF, _abi.CLOSEST_OBSERVATION, _abi.LOWER, _abi.HIGHER, _abi.NEAREST)

    @property
    def alike(self) -> Any:
        """What requests have in common that can share a plan: they may have other edges."""
        return self._replace(edges=b"", k=self.bins, method=-1) if self.edges else self

    def fill(self, spec: Any) -> Any:
        """Sets the fields of a spec. Returns what it points to."""
        keep = np.frombuffer(self.edges, float) if self.edges else np.array(self.q, float)
        spec.q, spec.quantiles, spec.method, spec.k = address(keep) if self.q else None, len(self.q), self.method, self.k
        spec.edges, spec.n_edges = (address(keep), len(keep)) if self.edges else (None, 0)
        return keep


def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False, *, where: Any = None,
           nan: Nan = "propagate", offsets: Any = None, client: Any = None, deadline: float | None = None,
           progress: Progress | None = None) -> Any:
    """The middle element, or the exact mean of the two middle ones, rounded once. `overwrite_input` is accepted as in NumPy, but not used.

    >>> reduced.median([3, 1, 2, 10])
    2.5
    """
    return reduce("median", a, axis, None, out, keepdims, None, where, client, deadline, progress, nan=nan, offsets=offsets)


def _once(a: Any) -> Any:
    """What may be looked at several times: of a stream, which is read once, and of a list, its elements."""
    if hasattr(a, "shape"):
        return a
    o = operand(a)
    return o if o.keep is not None or o.masked else o.data


class Kth(NamedTuple):
    """An element and its index: the lowest one of equal elements."""

    value: Any
    index: Any


def kth(a: Any, k: int, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None, nan: Nan = "propagate",
        offsets: Any = None, index: bool = False, client: Any = None, deadline: float | None = None, progress: Progress | None = None) -> Any:
    """The element that has rank k when sorted: 0 is the smallest, -1 the largest. With `index` a pair, whose second value is its index, or
    -1 if there are no elements.

    >>> reduced.kth([3, 1, 2, 10], 2)
    3
    >>> reduced.kth([3, 1, 2, 10], 2, index=True)
    Kth(value=3, index=0)
    """
    if index:
        if hasattr(client, "take"):
            raise TypeError("index=True is not possible in a task")
        return _kth_and_index(a, k, axis, out, keepdims, where, nan, offsets, client, deadline)
    if not isinstance(k, (int, np.integer)) or not -2**63 <= k < 2**63:
        raise TypeError(f"k is an integer, not {k!r}")
    return reduce("kth", a, axis, None, out, keepdims, None, where, client, deadline, progress, nan=nan, offsets=offsets, order=Order(k=int(k)))


def _kth_and_index(a: Any, k: int, axis: Any, out: Any, keepdims: bool, where: Any, nan: Nan, offsets: Any, client: Any,
                   deadline: float | None) -> Kth:
    """The index is found by comparing, so the elements must be here."""
    if out is not None or offsets is not None:
        raise TypeError("index=True is not possible with out and offsets")
    o = operand(a)
    data, marks = to_numpy(o.data, "a"), kept(where, o)
    value = kth(o._replace(keep=None if marks is None else to_numpy(marks, "where"), masked=False, matrix=False), k, axis, None, True, nan=nan, client=client,
                deadline=deadline)
    data = data.astype(np.float32) if float_code(data.dtype) and data.dtype.kind != "f" else data
    same = data == np.asarray(value, data.dtype)
    if data.dtype.kind == "f":
        same &= np.signbit(data) == np.signbit(value)
        same |= np.isnan(data) & np.isnan(value) & (nan != "omit")
    same = same if marks is None else same & marks
    there = reduce("any", same, axis, None, None, keepdims, None, None, client, deadline, None)
    found = np.full(np.shape(there), -1)
    if np.any(there):
        found = np.where(there, reduce("argmax", same, axis, None, None, keepdims, None, None, client, deadline, None), -1)
    if keepdims:
        return Kth(value, found)
    return Kth(value.reshape(()).item(), found.item()) if found.ndim == 0 else Kth(value.reshape(found.shape), found)


class _Top(NamedTuple):
    """Makes the result from the cells; `at` is the axis of the k places."""

    at: int

    def __call__(self, values: Array, p: Prepared, shape: Any) -> Any:
        both = (np.asarray(values[x]) for x in ("values", "indices"))
        found, place = (np.ascontiguousarray(x if self.at == -1 else np.moveaxis(x, -1, self.at)) for x in both)
        return TopK(fit(found, p.wanted, p.asked), place.astype(np.intp))


class TopK(NamedTuple):
    """The best elements and their indices."""

    values: Any
    indices: Any


def topk(a: Any, k: int, dim: int | None = -1, largest: bool = True, sorted: bool = True, *, where: Any = None, nan: Nan = "propagate",
         offsets: Any = None, client: Any = None, deadline: float | None = None, progress: Progress | None = None) -> TopK:
    """The k largest or smallest elements along an axis and their indices, as torch.topk. They are always sorted, the lowest index first of equal
    ones, and NaNs come first unless they are omitted. Places without an element, with `where` or `offsets`, have index -1 and the value NaN or 0.

    >>> reduced.topk([3, 1, 10, 2], 2)
    TopK(values=array([10,  3]), indices=array([2, 0]))
    """
    if not isinstance(k, (int, np.integer)) or not 1 <= k <= _abi.MAX_TOP:
        raise ValueError(f"k is an integer from 1 to {_abi.MAX_TOP}, not {k!r}")
    if dim is not None and not isinstance(dim, (int, np.integer)):
        raise TypeError(f"dim is an integer or None, not {dim!r}")
    a = _once(a)
    shape = tuple(a.data.shape if type(a) is Operand else a.shape)
    there = int(np.prod(shape)) if dim is None else shape[dim] if -len(shape) <= dim < len(shape) else k
    if where is None and offsets is None and k > there:
        raise ValueError(f"k is {k}, but there are {there} elements")
    return reduce("largest" if largest else "smallest", a, dim, None, None, False, None, where, client, deadline, progress, nan=nan, offsets=offsets,
                  make=_Top(-1 if dim is None or offsets is not None else dim), order=Order(k=int(k)))


def _ends(values: Array, p: Prepared, shape: Any) -> Array:
    """The smallest and the largest element in their type."""
    return fit(np.asarray(values), p.wanted, p.asked)


def _bins(values: Array, p: Prepared, shape: Any) -> Array:
    """The counts of the bins alone."""
    return np.asarray(values)[..., :-3].astype(np.intp)


@lru_cache(typed=True)
def _even(bins: int, least: Any, most: Any, kind: np.dtype[Any]) -> Array:
    """The edges of bins of one width."""
    return np.histogram_bin_edges(np.empty(0, kind), bins, (least, most))


def _reaching(edges: Array, ends: Array) -> Array:
    """Edges of doubles that hold the smallest and the largest integer, which may be between doubles."""
    if ends.dtype.kind not in "iu" or len(ends) == 0:
        return edges
    least, most = ends.tolist()
    first, last = edges[0].item(), edges[-1].item()
    if first > least or last < most:  # as Python compares, exactly
        edges = edges.copy()
        edges[0], edges[-1] = np.nextafter(first, -np.inf) if first > least else first, np.nextafter(last, np.inf) if last < most else last
    return edges


def histogram(a: Any, bins: Any = 10, range: tuple[float, float] | None = None, density: bool | None = None, weights: Any = None, *,
              where: Any = None, nan: Nan = "propagate", client: Any = None, deadline: float | None = None,
              progress: Progress | None = None) -> tuple[Array, Array]:
    """How many elements are in each bin, and the edges, which are those of numpy.histogram. NaNs and what lies outside are not counted.

    With `weights`, an array of the shape of `a`, the exact sums of the weights of these elements: of floats, rounded once to their
    type; of integers, in 64 bits.

    >>> reduced.histogram([1, 2, 1, 4], bins=3)
    (array([2, 1, 1]), array([1., 2., 3., 4.]))
    >>> reduced.histogram([1, 2, 1, 1, 4], bins=3, weights=[1e16, 1.0, 1.0, -1e16, 2.0])[0]
    array([1., 1., 2.])
    """
    if weights is not None and isinstance(bins, str):
        raise TypeError("bins: their number is not estimated for weighted data")
    if weights is not None and np.shape(weights) != tuple(operand(a := _once(a)).data.shape):
        raise ValueError("weights: they have the same shape as a")
    whole: dict[str, Any] = {"where": where, "client": client, "deadline": deadline, "progress": progress, "nan": nan}
    a = _once(a)
    o = operand(a)
    a = o._replace(masked=False) if o.masked else a  # of masked elements alone there are no ends, and no error
    kind = np.dtype(o.data.dtype)
    if kind.kind in "cmM":
        raise TypeError(f"a: the histogram of {kind} is not defined")
    empty = ends = np.empty(0, kind if kind.kind == "f" else float)  # edges of floats have their type
    if isinstance(bins, str):
        data, marks = to_numpy(o.data, "a"), kept(where, o)
        data = data if marks is None else data[to_numpy(marks, "where")]
        edges = np.histogram_bin_edges(data, bins, range)
        ends = np.array([data.min(), data.max()]) if range is None and data.size else ends
    elif range is None and (type(bins) is int or np.ndim(bins) == 0):
        try:
            ends = reduce("minmax", a, None, None, None, False, make=_ends, **whole)
        except EmptyError:
            ends = empty
        if isinstance(ends, Plan):
            raise TypeError("bins: a task takes edges, or a number of bins and their range")
        if type(bins) is int and bins > 0 and ends.dtype == float and len(ends) and -np.inf < ends[0] < ends[1] < np.inf:
            edges = np.linspace(ends[0], ends[1], bins + 1)  # as that function does, in a third of the time
        else:
            edges = np.histogram_bin_edges(ends.astype(np.uint8) if ends.dtype == bool else ends, bins)
    elif type(bins) is int and type(range) is tuple and len(range) == 2 and {*map(type, range)} <= {int, float}:
        edges = _even(bins, *range, empty.dtype).copy()
    else:
        edges = np.histogram_bin_edges(empty, bins, range)
    bounds = _reaching(np.asarray(edges, float), ends)
    if np.isnan(bounds).any():
        raise ValueError("bins: " + ("an edge is not a number" if np.ndim(bins) else "their width is beyond the largest float"))
    between = edges.dtype.kind in "iu" and bounds.tolist() != edges.tolist()  # doubles, which Reduce's edges are
    if len(edges) < 2:  # of no bins, which NumPy has
        counts = np.zeros(0, np.intp if weights is None else np.asarray(weights).dtype)
    elif weights is None and not between or nan != "propagate":  # which says, too, if there is a NaN
        counts = reduce("histogram", a, None, None, None, False, make=_bins, order=Order(edges=bounds.tobytes()), **whole)
    if (weights is not None or between) and len(edges) > 1:
        counts = weighed(o, edges if between else bounds, weights, where)
    if isinstance(counts, Plan):
        counts.finish = partial(_of_task, counts.finish, edges, density)
        return counts  # type: ignore[return-value]
    return _dense(counts, edges) if density else counts, edges


def _dense(counts: Array, edges: Array) -> Array:
    """The share of each bin by its width; of nothing it is NaN."""
    total = reduce("sum", counts)
    with np.errstate(all="ignore"):
        return np.asarray(counts / np.array(np.diff(edges), float) / total)


def _of_task(finish: Any, edges: Array, density: Any, cells: Array) -> tuple[Array, Array]:
    """The result of a task."""
    counts = finish(cells)
    return _dense(counts, edges) if density else counts, edges


def _quantiles(values: Array, p: Prepared, shape: Any) -> Array:
    """The quantiles as the first axis."""
    found = values if values.ndim == 1 else np.moveaxis(values, -1, 0)
    if shape is not None:
        found = found.reshape(found.shape[:1] + shape)
    return fit(np.ascontiguousarray(found), p.wanted, p.asked)


def _none(values: Array, p: Prepared, shape: Any) -> Array:
    """The result for no q, from that for one."""
    return _quantiles(values, p, shape)[:0]


def _method(method: Any) -> int:
    if method not in METHODS:
        raise ValueError(f"{method!r} is not a valid method. Use one of: {METHODS}")
    return METHODS.index(method)


def _within(q: list[float]) -> None:
    if any(not 0 <= x <= 1 for x in q):
        raise ValueError("Quantiles must be in the range [0, 1]")


@lru_cache
def _one(q: float, method: str) -> Order:
    _within([q])
    return Order((q,), _method(method))


def _all(q: list[float], a: Any, axis: Any, out: Any, method: Any, keepdims: Any, shape: tuple[int, ...], where: Any, nan: Any, offsets: Any,
         client: Any, deadline: Any, progress: Any) -> Any:
    if not shape:
        order = _one(q[0], method if type(method) is str else METHODS[_method(method)])
        return reduce("quantile", a, axis, None, out, keepdims, None, where, client, deadline, progress, 0, nan, offsets, False, None, order)
    _within(q)
    code = _method(method)
    a = _once(a) if len(q) > AT_ONCE else a
    floats = isinstance(out, np.ndarray) and (out.dtype.kind in "fc" or float_code(out.dtype))
    kind = as_out(np.dtype(float), out) if floats else None  # they are rounded to it once
    parts = [reduce("quantile", a, axis, kind, None, keepdims, None, where, client, deadline, progress, 0, nan, offsets, False, _quantiles if q else _none,
                    Order(tuple(q[i:i + AT_ONCE]) or (0.0,), code, several=True)) for i in range(0, max(len(q), 1), AT_ONCE)]
    if not isinstance(parts[0], np.ndarray):
        if len(parts) > 1:
            raise TypeError(f"q: a task takes at most {AT_ONCE}, not {len(q)}")
        return parts[0]  # a task
    found = (np.ma.concatenate if isinstance(parts[0], np.ma.MaskedArray) else np.concatenate)(parts) if len(parts) > 1 else parts[0]
    found = found.reshape(shape + found.shape[1:])
    if out is None:
        return found
    put_out(np.asarray(found), out, "quantile")
    if isinstance(out, np.ma.MaskedArray) and isinstance(found, np.ma.MaskedArray):
        out.mask = found.mask
    return out


def quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
             weights: Any = None, where: Any = None, nan: Nan = "propagate", offsets: Any = None, client: Any = None,
             deadline: float | None = None, progress: Progress | None = None, interpolation: str | None = None) -> Any:
    """Quantiles by NumPy's 13 methods: each is the exact value, rounded once. q is one number from 0 to 1 or many, each the shortest decimal
    that gives the float: 0.1 is 1/10. The axes of q come first. With `weights`, of at least 0, the method is "inverted_cdf", as in NumPy.
    `interpolation` is NumPy's former name of `method`.

    >>> reduced.quantile([3, 1, 2, 10], [0.25, 0.5])
    array([1.75, 2.5 ])
    """
    values, shape = _numbers(q)
    method = method if interpolation is None else _former(method, interpolation)
    if weights is not None and weights is not NO_VALUE:
        return _weighted(a, values, shape, weights, axis, out, method, keepdims, where, nan, offsets)
    return _all(values, a, axis, out, method, keepdims, shape, where, nan, offsets, client, deadline, progress)


def percentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
               weights: Any = None, where: Any = None, nan: Nan = "propagate", offsets: Any = None, client: Any = None,
               deadline: float | None = None, progress: Progress | None = None, interpolation: str | None = None) -> Any:
    """`quantile` of q / 100.

    >>> reduced.percentile([3, 1, 2, 10], 50)
    2.5
    """
    values, shape = _numbers(q)
    if any(not 0 <= x <= 100 for x in values):
        raise ValueError("Percentiles must be in the range [0, 100]")
    method = method if interpolation is None else _former(method, interpolation)
    if weights is not None and weights is not NO_VALUE:
        return _weighted(a, [_hundredth(x) for x in values], shape, weights, axis, out, method, keepdims, where, nan, offsets)
    return _all([_hundredth(x) for x in values], a, axis, out, method, keepdims, shape, where, nan, offsets, client, deadline, progress)


def _numbers(q: Any) -> tuple[list[float], tuple[int, ...]]:
    """The quantiles that a caller wants, and the shape that they have."""
    if type(q) is float:
        return [q], ()
    many = np.asarray(q, float)
    return many.ravel().tolist(), many.shape


@lru_cache
def _hundredth(x: float) -> float:
    """The decimal two places further: 99.9 is 0.999."""
    digits, _, exponent = repr(x).partition("e")
    return float(f"{digits}e{int(exponent or 0) - 2}")


def _former(method: str, interpolation: str) -> str:
    """The method by the name of its argument before NumPy 1.22."""
    if method != "linear":
        raise TypeError("You shall not pass both `method` and `interpolation`!")
    return interpolation


def _weighted(a: Any, q: list[float], shape: tuple[int, ...], weights: Any, axis: Any, out: Any, method: str, keepdims: Any, where: Any, nan: Any,
              offsets: Any) -> Any:
    from ._weighted import quantiles
    _within(q)
    if offsets is not None:
        raise TypeError("weights are not possible with offsets")
    return quantiles(a, [Fraction(repr(x)) for x in q], shape, weights, axis, out, method, bool(keepdims), where, nan)


nanmedian = _omitting(median)
nanquantile = _omitting(quantile)
nanpercentile = _omitting(percentile)
