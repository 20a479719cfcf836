"""Reductions of elements that arrive in pieces."""
from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any, Callable

import numpy as np

from . import _abi
from ._arrays import PLAIN, Operand, operand
from ._arrow import Flowing
from ._client import Client, default
from ._functions import _minmax, _stats
from .errors import Error, ForkedError
from ._elements import element
from ._lib import check, lib, milliseconds
from ._plan import Plan, plan
from ._prepare import PAIRED, PLACES, elements_of, without_nat
from ._remote import Array
from ._sources import address
from ._state import dtype_of, first_ddof, mergeable


MAKES = {"minmax": _minmax, "stats": _stats}  # for operations with several values


def mask_of(where: Any, shape: tuple[int, ...]) -> Array:
    """A bool for each element of a piece, in one dimension."""
    asked = np.asarray(True if where is None else where)
    if asked.dtype != bool and asked.size:
        raise TypeError(f"where is an array of bool, not of {asked.dtype}")
    try:
        return np.ascontiguousarray(np.broadcast_to(asked, shape), bool).reshape(-1)
    except ValueError:
        raise ValueError(f"where: its shape {asked.shape} cannot be broadcast to {shape}") from None


class Stream:
    """One reduction of elements that are appended in pieces, such as those of a pipe, or more than memory holds. `finish` ends it. With
    `with` the end of the block does, and an exception drops the stream. `value` is the result. Several threads may append to it.
    `ddof` is by default that of the function of the same name. dot, wsum, wmean, cov and corr take weights with each piece. These have the
    type of the elements, or that of `weights`, which may be float64 with float32."""

    def __init__(self, op: str, dtype: Any, *, weights: Any = None, nan: str = "propagate", ddof: Any = None, initial: Any = None, masked: bool = False,
                 client: Client | None = None, deadline: float | None = None):
        self.op, self.dtype, self._masked = mergeable(op), dtype_of(dtype), masked
        if self.dtype.kind == "c" or not self.dtype.isnative:
            raise TypeError(f"dtype: a stream of {self.dtype.str} is not possible; append its parts, or native elements")
        if self.dtype.kind in "mM" and self.op == "mean":
            raise TypeError(f"op: the mean of a stream of {self.dtype} is not possible; divide its sum")
        self._nan = nan
        ddof = first_ddof(self.op) if ddof is None else ddof
        self._plan: Plan | None = plan(self.op, np.empty(0, self.dtype), initial=initial, nan=nan, ddof=ddof, make=MAKES.get(self.op))
        self._using = threading.Lock()  # its messages must not overlap
        self._pid = os.getpid()
        spec = self._plan.spec
        spec.deadline_ms, spec.flags = milliseconds(deadline, "deadline"), spec.flags | _abi.MASKED * masked
        if weights is not None and self.op not in PAIRED:
            raise TypeError(f"weights: {self.op} takes no weights")
        self._weights = self.dtype if weights is None else dtype_of(weights)
        if self.op in PAIRED:
            spec.weights_dtype = element(self._weights, "weights").code
        self._client = client or default()  # it must live as long as the stream
        self._handle: Any = ctypes.c_void_p()
        self._client.call("reduce_stream_begin", ctypes.byref(spec), ctypes.byref(self._handle))

    def append(self, chunk: Any, where: Any = None, *, weights: Any = None) -> None:
        """Append a piece of elements, without its missing values. With `masked`, `where` has one bool for each. Those of pairs have
        `weights`, one for each. Ctrl-C during the call drops the stream."""
        if not self._masked and where is not None:
            raise ValueError("where needs a stream with masked=True")
        if (weights is not None) != (self.op in PAIRED):
            raise TypeError(f"weights: {self.op} {'needs' if weights is None else 'takes no'} weights")
        self._opened()  # before the lock, which a forked child may have inherited locked
        o = None if isinstance(chunk, (np.ndarray, *PLAIN)) else operand(chunk, "chunk", flows=True)
        if o is None or not isinstance(o.data, Flowing):
            self._append(chunk if o is None else o, where, weights)
        elif where is not None or weights is not None:
            self._append(Operand(*o.data.whole()), where, weights)
        else:
            for piece in o.data:
                self._append(Operand(*piece), None)

    def _append(self, chunk: Any, where: Any, weights: Any = None) -> None:
        a, known = elements_of(chunk, self.dtype, "chunk")
        beside = None
        if weights is not None:
            beside, weighed = elements_of(weights, self._weights, "weights")
            if beside.size != a.size:
                raise ValueError(f"weights: {beside.size} of them for {a.size} elements")
            known = weighed if known is None else known if weighed is None else known & weighed
        keep = mask_of(where, chunk.data.shape if type(chunk) is Operand else np.shape(chunk)) if self._masked else None
        if known is not None and self._masked:
            keep = keep & known
        elif known is not None and not known.all():
            if self.op in PLACES:
                raise TypeError(f"chunk: to leave out its missing values, the {self.op} of a stream needs masked=True")
            a, beside = a[known], None if beside is None else beside[known]
        if self.dtype.kind in "mM":
            a, keep = without_nat(self.op, self._nan, a, keep)

        with self._using:
            handle = self._opened()
            try:
                if beside is not None:
                    check(lib().reduce_stream_append_pairs(handle, address(a), address(beside), None if keep is None else address(keep), a.size))
                elif keep is None:
                    check(lib().reduce_stream_append(handle, address(a), a.nbytes))
                else:
                    check(lib().reduce_stream_append_masked(handle, address(a), address(keep), a.size))
            except Error:
                raise
            except BaseException:  # Ctrl-C: how much was appended is not known
                self._handle = None
                lib().reduce_stream_abort(handle)
                raise

    def _opened(self) -> Any:
        """The library's handle."""
        if os.getpid() != self._pid:
            raise ForkedError("FORKED: this stream belongs to the process that began it, not to its forked child")
        handle = self._handle
        if not handle:
            raise ValueError("the stream is finished")
        return handle

    def finish(self) -> Any:
        """End the stream and return its value."""
        assert self._plan
        self._opened()  # before the lock, which a forked child may have inherited locked
        with self._using:
            handle, self._handle = self._opened(), None
            check(lib().reduce_stream_finish(handle, address(self._plan.cells), self._plan.cells.nbytes, None))
        self.value = self._plan.value()
        return self.value

    def abort(self) -> None:
        """Drop the stream, after the calls of other threads."""
        if getattr(self, "_handle", None) and os.getpid() == self._pid:
            with self._using:
                handle, self._handle = self._handle, None
                if handle:
                    lib().reduce_stream_abort(handle)

    def __repr__(self) -> str:
        return f"<reduced.Stream {self.op} of {self.dtype}{'' if self._handle else ', finished'}>"

    def __reduce__(self) -> Any:
        raise TypeError("a stream cannot be pickled: it belongs to its process")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None:
            self.abort()
        elif self._handle:
            self.finish()

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending():  # then modules may be empty; the daemon drops the stream with the session
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
