"""Reductions of elements that arrive in pieces."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Callable

import numpy as np

from . import _abi
from ._client import Client, default
from ._lib import check, lib, milliseconds
from ._plan import Plan, plan
from ._prepare import elements_of
from ._run import AT_ONCE, aside
from ._sources import address


class Stream:
    """One reduction of elements that are appended in pieces, and then `finish`ed: more than memory holds, or a pipe's. With `with`
    the end of the block finishes it, and an exception drops it. `value` is the result."""

    def __init__(self, op: str, dtype: Any, *, nan: str = "propagate", ddof: int = 0, initial: Any = None, masked: bool = False,
                 client: Client | None = None, deadline: float | None = None):
        self.dtype, self._masked = np.dtype(dtype), masked
        if self.dtype.kind == "c" or not self.dtype.isnative:
            raise TypeError(f"dtype: a stream of {self.dtype.str} is not possible; append its parts, or native elements")
        self._plan: Plan | None = plan(op, np.empty(0, self.dtype), initial=initial, nan=nan, ddof=ddof)
        spec = self._plan.spec
        spec.deadline_ms, spec.flags = milliseconds(deadline, "deadline"), spec.flags | _abi.MASKED * masked
        self._client = client or default()  # it must live as long
        self._handle: Any = ctypes.c_void_p()
        self._client.call("reduce_stream_begin", ctypes.byref(spec), ctypes.byref(self._handle))

    def append(self, chunk: Any, where: Any = None) -> None:
        """A piece of elements; with `masked`, `where` has one bool for each. Ctrl-C within it drops the stream."""
        if not self._handle:
            raise ValueError("the stream is finished")
        if not self._masked and where is not None:
            raise ValueError("where needs a stream with masked=True")
        a, handle, keep = elements_of(chunk, self.dtype, "chunk"), self._handle, None
        if self._masked:
            keep = np.ascontiguousarray(np.broadcast_to(True if where is None else np.asarray(where, bool), a.shape))

        def append() -> None:
            if keep is None:
                check(lib().reduce_stream_append(handle, address(a), a.nbytes))
            else:
                check(lib().reduce_stream_append_masked(handle, address(a), address(keep), a.size))

        aside(a.nbytes > AT_ONCE, append, lambda: setattr(self, "_handle", None), lambda _: lib().reduce_stream_abort(handle))

    def finish(self) -> Any:
        """End it; its value."""
        if not self._handle:
            raise ValueError("the stream is finished")
        assert self._plan
        handle, self._handle = self._handle, None
        check(lib().reduce_stream_finish(handle, address(self._plan.cells), self._plan.cells.nbytes, None))
        self.value = self._plan.value()
        return self.value

    def abort(self) -> None:
        """Drop it."""
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            lib().reduce_stream_abort(handle)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None:
            self.abort()
        elif self._handle:
            self.finish()

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending():  # then modules may be empty already; the daemon drops it with the session
            self.abort()


def stream(op: str, dtype: Any, **kw: Any) -> Stream:
    """Begin a reduction of elements that arrive in pieces.

    >>> with reduced.stream("sum", "f8") as s:
    ...     for chunk in ([0.1] * 4, [0.1] * 6):
    ...         s.append(chunk)
    >>> s.value
    1.0
    """
    return Stream(op, dtype, **kw)
