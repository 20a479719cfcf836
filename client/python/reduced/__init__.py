"""reduced: exact reductions by the daemon `reduced`, with NumPy's signatures.

A floating-point result is the exact real result, rounded once: the same bits on every CPU and GPU, in any order and chunks. The first
call starts a private daemon if none runs.

>>> import reduced
>>> reduced.sum([0.1] * 10)
1.0
"""
from __future__ import annotations

from typing import Any

from ._client import TLS, Client, Info
from ._errors import *  # noqa: F403
from ._functions import (MinMax, Stats, all, any, argmax, argmin, bits, count_nonzero, max, mean, min, minmax, nanargmax, nanargmin,
                         nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar, norm, prod, ptp, rms, sem, stats, std, sum, var)

__version__ = "0.2.0"
# What is not needed to reduce an array is imported with its first use.
_LATER = {"submit": "_jobs", "many": "_jobs", "stream": "_stream", "Stream": "_stream", "put": "_resident", "Resident": "_resident",
          "residents": "_resident", "file": "_files", "state": "_state", "State": "_state", "aio": "aio", "magic": "magic", "dask": "dask"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'reduced' has no attribute {name!r}")
    from importlib import import_module
    module = import_module(f".{_LATER[name]}", __name__)
    value = getattr(module, name) if _LATER[name].startswith("_") else module
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """%load_ext reduced"""
    from .magic import register
    register(shell)
