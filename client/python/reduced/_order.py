"""Order statistics: median, quantiles and the element of a rank, with NumPy's signatures."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _abi
from ._again import reduce
from ._elements import float_code
from ._functions import Nan, _omitting
from ._plan import NO_VALUE
from ._prepare import Prepared
from ._remote import Array
from ._results import fit, plain, put_out
from ._run import Progress

__all__ = ("median", "quantile", "percentile", "kth", "nanmedian", "nanquantile", "nanpercentile")
METHODS = ("linear", "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
           "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest")  # by their codes
AT_ONCE = _abi.MAX_QUANTILES


class Order(NamedTuple):
    """The parameters of one request."""

    q: tuple[float, ...] = ()
    method: int = _abi.LINEAR
    k: int = 0

    @property
    def picks(self) -> bool:
        """Whether quantiles are elements, so that those of integers are integers."""
        return self.method in (_abi.INVERTED_CDF, _abi.CLOSEST_OBSERVATION, _abi.LOWER, _abi.HIGHER, _abi.NEAREST)

    def fill(self, spec: Any) -> Any:
        """Sets the fields of a spec. Returns what it points to."""
        keep = np.array(self.q, float)
        spec.q, spec.quantiles, spec.method, spec.k = keep.ctypes.data if self.q else None, len(self.q), self.method, self.k
        return keep


def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False, *, where: Any = None,
           nan: Nan = "propagate", offsets: Any = None, client: Any = None, deadline: float | None = None,
           progress: Progress | None = None) -> Any:
    """The middle element, or the exact mean of the two middle ones, rounded once. `overwrite_input` is accepted as in NumPy, but not used.

    >>> reduced.median([3, 1, 2, 10])
    2.5
    """
    return reduce("median", a, axis, None, out, keepdims, None, where, client, deadline, progress, nan=nan, offsets=offsets)


def kth(a: Any, k: int, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None, nan: Nan = "propagate",
        offsets: Any = None, client: Any = None, deadline: float | None = None, progress: Progress | None = None) -> Any:
    """The element that has rank k when sorted: 0 is the smallest, -1 the largest.

    >>> reduced.kth([3, 1, 2, 10], 2)
    3
    """
    if not isinstance(k, (int, np.integer)) or not -2**63 <= k < 2**63:
        raise TypeError(f"k is an integer, not {k!r}")
    return reduce("kth", a, axis, None, out, keepdims, None, where, client, deadline, progress, nan=nan, offsets=offsets, order=Order(k=int(k)))


def _quantiles(values: Array, p: Prepared, shape: Any) -> Array:
    """The quantiles as the first axis."""
    found = values if values.ndim == 1 else np.moveaxis(values, -1, 0)
    if shape is not None:
        found = found.reshape(found.shape[:1] + shape)
    return fit(np.ascontiguousarray(found), p.wanted, p.asked)


def _method(method: Any) -> int:
    if method not in METHODS:
        raise ValueError(f"{method!r} is not a valid method. Use one of: {METHODS}")
    return METHODS.index(method)


def _all(q: list[float], a: Any, axis: Any, out: Any, method: Any, keepdims: Any, shape: tuple[int, ...], how: dict[str, Any]) -> Any:
    if any(not 0 <= x <= 1 for x in q):
        raise ValueError("Quantiles must be in the range [0, 1]")
    code = _method(method)
    parts = [reduce("quantile", a, axis, None, None, keepdims, None, how["where"], how["client"], how["deadline"], how["progress"],
                    nan=how["nan"], offsets=how["offsets"], make=_quantiles, order=Order(tuple(q[i:i + AT_ONCE]), code))
             for i in range(0, len(q), AT_ONCE)]
    if len(parts) == 1 and not isinstance(parts[0], np.ndarray):
        return parts[0]  # a task
    found = np.concatenate(parts) if parts else np.empty((0,) + np.shape(reduce("median", a, axis, None, None, keepdims)))
    found = found.reshape(shape + found.shape[1:])
    if out is not None:
        return put_out(found, out, "quantile")
    return plain(found[()], found.dtype) if found.shape == () and not float_code(found.dtype) == _abi.BF16 else found


def quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
             weights: Any = None, where: Any = None, nan: Nan = "propagate", offsets: Any = None, client: Any = None,
             deadline: float | None = None, progress: Progress | None = None) -> Any:
    """Quantiles by NumPy's 13 methods: each is the exact value, rounded once. q is one number from 0 to 1 or many, each the shortest decimal
    that gives the float: 0.1 is 1/10. The axes of q come first. Weights are not possible.

    >>> reduced.quantile([3, 1, 2, 10], [0.25, 0.5])
    array([1.75, 2.5 ])
    """
    _unweighted(weights)
    many = np.asarray(q, float)
    return _all([float(x) for x in many.ravel()], a, axis, out, method, keepdims, many.shape,
                {"where": where, "nan": nan, "offsets": offsets, "client": client, "deadline": deadline, "progress": progress})


def percentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
               weights: Any = None, where: Any = None, nan: Nan = "propagate", offsets: Any = None, client: Any = None,
               deadline: float | None = None, progress: Progress | None = None) -> Any:
    """`quantile` of q / 100.

    >>> reduced.percentile([3, 1, 2, 10], 50)
    2.5
    """
    _unweighted(weights)
    many = np.asarray(q, float)
    if not np.all((many >= 0) & (many <= 100)):
        raise ValueError("Percentiles must be in the range [0, 100]")
    return _all([_hundredth(float(x)) for x in many.ravel()], a, axis, out, method, keepdims, many.shape,
                {"where": where, "nan": nan, "offsets": offsets, "client": client, "deadline": deadline, "progress": progress})


def _hundredth(x: float) -> float:
    """The decimal two places further: 99.9 is 0.999."""
    digits, _, exponent = repr(x).partition("e")
    return float(f"{digits}e{int(exponent or 0) - 2}")


def _unweighted(weights: Any) -> None:
    if weights is not None and weights is not NO_VALUE:
        raise TypeError("weights: weighted quantiles are not possible")


nanmedian = _omitting(median)
nanquantile = _omitting(quantile)
nanpercentile = _omitting(percentile)
