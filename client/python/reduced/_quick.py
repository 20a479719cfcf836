"""The short way for small plain arrays: one call, no plan. 16 doubles take about 2 us longer than from a C program."""
from __future__ import annotations

from ctypes import byref, c_double, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

import numpy as np

from . import _client
from ._elements import FLOATS, INTEGERS
from ._lib import check, lib
from ._run import AT_ONCE
from ._sources import BEHIND_HEAD, HEAD_KNOWN

LIMIT = AT_ONCE if HEAD_KNOWN else -1  # bytes: a plan takes 17 us, as long as the sum of 10^5 doubles
pointer_at = c_void_p.from_address
VALUES: dict[str, Any] = {"f": c_double, "i": c_int64, "u": c_uint64}
Kinds = dict[np.dtype[Any], tuple[int, Any]]  # type of the elements -> reduce_dtype, and the value in C
SAME: Kinds = {np.dtype(name): (code, VALUES[name[0]]) for name, code in {**FLOATS, **INTEGERS}.items()}  # for operations that keep the class
REAL: Kinds = {dtype: (code, c_double) for dtype, (code, _) in SAME.items()}
_simple: Any = None  # reduce_simple without argument types, whose conversion takes half of the time of a call by ctypes


def quick(op: int, kinds: Kinds, a: np.ndarray[Any, Any]) -> Any:
    """The value of a whole small array in C order; None for other arrays."""
    global _simple
    kind = kinds.get(a.dtype)
    n = a.size
    if kind is None or a.nbytes > LIMIT or not a.flags.c_contiguous:
        return None
    if _simple is None:
        _simple = lib()["reduce_simple"]
    dtype, make = kind
    value = make()
    client = _client._default or _client.default()
    busy = client._busy
    busy.append(None)  # from here on `close` waits
    try:
        handle = client._handle
        err = _simple(client._open() if handle is None else handle, op, dtype, 0, pointer_at(id(a) + BEHIND_HEAD), c_size_t(n), byref(value))
    finally:
        busy.pop()
    if err:
        check(err)
    return value.value
