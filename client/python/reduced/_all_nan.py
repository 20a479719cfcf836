"""nanmin and nanmax of elements that are all NaN or NaT: the daemon refuses the request, NumPy returns NaN or NaT."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ._arrays import Remote, operand
from ._elements import NAT, float_code, is_nan
from ._functions import count_nonzero
from ._results import put_out


def fill(f: Callable[..., Any], a: Any, axis: Any, out: Any, keepdims: bool, where: Any, offsets: Any = None, **kw: Any) -> Any:
    """The extremes, with NaN where all elements are NaN. EmptyError without elements; None if the elements cannot be read here."""
    o = operand(a)
    x = o.data.copy("a result of NaNs alone") if isinstance(o.data, Remote) else o.data
    dated = x.dtype.kind in "mM"
    if o.keep is not None or not (dated or float_code(x.dtype)):
        return None
    least = f.__name__ == "max"  # stands for NaN
    beyond = np.int64(NAT + 1 if least else ~NAT).view(x.dtype) if dated else np.asarray(-np.inf if least else np.inf).astype(x.dtype)
    numbers = ~is_nan(x)
    values = np.asarray(f(np.where(numbers, x, beyond), axis, None, keepdims, None, where, offsets=offsets, **kw)).astype(x.dtype)
    counts = count_nonzero(numbers, axis, keepdims=keepdims, where=where, offsets=offsets, **kw)
    values = np.where(counts, values, np.array("NaT" if dated else np.nan).astype(x.dtype))
    if out is not None:
        return put_out(values, out, f.__name__)
    return values if values.ndim else values[()] if dated else float(values)
