"""libreduce: found beside the package, in $REDUCED_LIBRARY, or where the system has it; loaded with the first use."""
from __future__ import annotations

import ctypes
import os
import threading
from numbers import Real
from typing import Any

from . import _abi, errors, _signals

BUNDLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
_loading = threading.Lock()
_lib: Any = None


def program(name: str) -> str | None:
    """The path of a program of this package, `reduced` or `reducectl`, or of its library; None: the system's.

    Whoever may write there may write the package's modules, too, which Python has executed by now.
    """
    path = os.path.join(BUNDLED, name)
    return path if os.path.exists(path) else None


def _load() -> Any:
    path = os.environ.get("REDUCED_LIBRARY") or program("libreduce.so") or "libreduce.so.0"
    try:
        library = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"libreduce cannot be loaded: {e}; $REDUCED_LIBRARY can name it") from e
    for name, (result, arguments) in _abi.CALLS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def lib() -> Any:
    """The loaded library, with the types of all its functions."""
    global _lib
    if _lib is None:
        with _loading:
            _lib = _lib or _load()
    return _lib


def check(err: int) -> int:
    """Raise the exception of a call that failed."""
    if err < 0:
        _signals.raise_kept()
        fault = _abi.Fault(size=ctypes.sizeof(_abi.Fault))
        lib().reduce_last_fault(ctypes.byref(fault))
        raise errors.of(err, errors.text_of(lib().reduce_errmsg()), fault)
    return err


def milliseconds(seconds: float | None, name: str) -> int:
    """A time limit as the library takes it; None: no limit."""
    if seconds is None:
        return 0
    if not isinstance(seconds, Real):
        raise TypeError(f"{name} is a number of seconds, not {seconds!r}")
    if not 0 < seconds <= 2147483:
        raise ValueError(f"{name} must be above 0 and at most 2147483 seconds, not {seconds!r}")
    return max(1, round(seconds * 1000))
