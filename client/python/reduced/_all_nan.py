"""nanmin and nanmax of elements that are all NaN or NaT: the daemon refuses the request, NumPy returns NaN or NaT."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ._again import reduce
from ._arrays import operand
from ._arrow import Flowing
from ._elements import NAT, float_code, is_nan
from ._prepare import kept
from ._remote import Remote
from ._results import put_out


def fill(f: Callable[..., Any], a: Any, axis: Any, out: Any, keepdims: bool, where: Any, offsets: Any = None, **kw: Any) -> Any:
    """The extremes, with NaN where all elements are NaN. EmptyError without elements; None if the elements cannot be read here."""
    o = operand(a, flows=True)
    if isinstance(o.data, Flowing):  # which is read: it had NaNs alone, or nothing
        return of_nothing(o.data, out, f.__name__) if o.data.seen else None
    x = o.data.copy("a result of NaNs alone") if isinstance(o.data, Remote) else o.data
    dated = x.dtype.kind in "mM"
    if o.masked and o.keep is not None or not (dated or float_code(x.dtype)):
        return None
    where = kept(where, o)
    least = f.__name__ == "max"  # stands for NaN
    beyond = np.int64(NAT + 1 if least else ~NAT).view(x.dtype) if dated else np.asarray(-np.inf if least else np.inf).astype(x.dtype)
    numbers = ~is_nan(x)
    values = np.asarray(f(np.where(numbers, x, beyond), axis, None, keepdims, None, where, offsets=offsets, **kw)).astype(x.dtype)
    counts = reduce("count_nonzero", numbers, axis, keepdims=keepdims, where=where, offsets=offsets, **kw)
    values = np.where(counts, values, np.array("NaT" if dated else np.nan).astype(x.dtype))
    if out is not None:
        return put_out(values, out, f.__name__)
    return values if values.ndim else values[()] if dated else float(values)


def of_nothing(flow: Flowing, out: Any, op: str) -> Any:
    """NaN as the result of a stream."""
    if flow.dtype.kind not in "mM" and not float_code(flow.dtype):
        return None
    value = np.array("NaT" if flow.dtype.kind in "mM" else np.nan).astype(flow.dtype)
    return put_out(value, out, op) if out is not None else value[()] if flow.dtype.kind in "mM" else float(value)
