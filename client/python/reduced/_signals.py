"""Ctrl-C and other signals during a call. While the library waits, it lets Python handle them, and ends the call after an exception."""
from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any

from . import _abi

_state = _abi.Python()  # of the one thread that handles signals
_restore: Any = None


def options(library: Any) -> dict[str, Any]:
    """The fields of reduce_open_opts for it."""
    global _restore
    if sys.implementation.name != "cpython":
        return {}

    def place(function: Any) -> int | None:
        return ctypes.cast(function, ctypes.c_void_p).value
    api = ctypes.pythonapi
    if _restore is None:
        _state.gil_ensure, _state.gil_release = place(api.PyGILState_Ensure), place(api.PyGILState_Release)
        _state.check_signals, _state.fetch = place(api.PyErr_CheckSignals), place(api.PyErr_Fetch)
        _restore = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 3)(("PyErr_Restore", api))
    _state.thread = threading.main_thread().ident
    return {"interrupted": place(library.reduce_python_signals), "interrupted_arg": ctypes.addressof(_state)}


def raise_kept() -> None:
    """Raise the exception that ended a call of this thread, if one did."""
    kept = _state.exception
    if kept[0] and threading.get_ident() == _state.thread:
        found = tuple(kept)
        kept[:] = [None] * 3
        _restore(*found)  # which ctypes raises
