"""Exact reductions by the daemon `reduced`, with NumPy's signatures.

A floating-point result is the exact real result, rounded once: the same bits on every CPU and GPU, in any order and chunks. The first
call starts a private daemon if none runs.

>>> import reduced
>>> reduced.sum([0.1] * 10)
1.0

What there is, each with its own help:

    whole arrays, axes    sum prod mean var std sem rms min max ptp argmin argmax any all count_nonzero norm bits
                          nansum nanprod nanmean nanvar nanstd nanmin nanmax nanargmin nanargmax
    order statistics      median quantile percentile kth topk histogram nanmedian nanquantile nanpercentile
    pairs                 dot vdot average cov corrcoef
    several values        minmax stats
    by key                by_key bincount segment_sum
    files                 file
    parts to be merged    state State
    pieces, one by one    stream Stream
    many, or later        many submit Task reduced.aio
    data that stay        put Resident residents
    the connection        Client TLS Info Gpu
    Dask and xarray       reduced.dask
    notebooks             %load_ext reduced

They take numbers, lists, arrays of NumPy, masked arrays, tables and series of pandas, Polars and Arrow, tensors on a GPU, and resident
data. A request that fails raises a kind of Error: see help(reduced.errors).
"""
from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from . import errors
from ._client import TLS, Client, Gpu, Info
from ._functions import (MinMax, Stats, all, amax, amin, any, argmax, argmin, bits, count_nonzero, max, mean, min, minmax, nanargmax,
                         nanargmin, nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar, norm, prod, ptp, rms, sem, stats, std, sum,
                         var)
from .errors import (ArgumentError, AuthError, BadHandleError, BadMessageError, BusyError, CancelledError, DeadlineError, DeviceLostError,
                     EmptyError, Error, ExistsError, ForkedError, InternalError, InterruptedError_, IoError, NanError, NoDaemonError,
                     NoMemoryError, NoSessionError, OpError, OverflowError_, ProtocolError, QuotaError, ShapeError, StartError,
                     StreamLostError, TimeoutError_, TooLargeError, TypeError_, VersionError)

if TYPE_CHECKING:
    from ._files import file
    from ._jobs import Task, many, submit
    from ._keys import bincount, by_key, segment_sum
    from ._order import Kth, TopK, histogram, kth, median, nanmedian, nanpercentile, nanquantile, percentile, quantile, topk
    from ._pairs import average, corrcoef, cov, dot, vdot
    from ._resident import Resident, put, residents
    from ._state import State, state
    from ._stream import Stream, stream

__version__ = "0.2.0"
__all__ = [
    "sum", "prod", "mean", "var", "std", "sem", "rms", "min", "max", "amin", "amax", "ptp", "argmin", "argmax", "any", "all",
    "count_nonzero", "norm", "bits", "minmax", "stats",
    "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmin", "nanmax", "nanargmin", "nanargmax",
    "by_key", "bincount", "segment_sum",
    "median", "quantile", "percentile", "kth", "topk", "histogram", "nanmedian", "nanquantile", "nanpercentile",
    "dot", "vdot", "average", "cov", "corrcoef",
    "file", "state", "State", "stream", "Stream", "submit", "Task", "many", "put", "Resident", "residents", "Client",
    "Error", "errors"]
# Public, too. Their inherited methods would fill help(reduced); each has its own help, and help(reduced.errors) has the exceptions.
_ALSO = [*errors.__all__[1:], "MinMax", "Stats", "Kth", "TopK", "Gpu", "TLS", "Info"]
# What is not needed to reduce an array is imported with its first use.
_LATER = {"median": "_order", "quantile": "_order", "percentile": "_order", "kth": "_order", "Kth": "_order", "topk": "_order", "TopK": "_order",
          "histogram": "_order", "nanmedian": "_order", "nanquantile": "_order",
          "nanpercentile": "_order", "submit": "_jobs", "many": "_jobs", "Task": "_jobs", "stream": "_stream", "Stream": "_stream", "put": "_resident",
          "Resident": "_resident", "residents": "_resident", "file": "_files", "state": "_state", "State": "_state", "aio": "aio",
          "magic": "magic", "dask": "dask", "by_key": "_keys", "bincount": "_keys", "segment_sum": "_keys",
          "dot": "_pairs", "vdot": "_pairs", "average": "_pairs", "cov": "_pairs", "corrcoef": "_pairs"}


def _public(found: Any) -> Any:
    """Show an object as one of this package, whichever module has it. help() would print annotations as strings; the stubs have types."""
    found.__module__ = __name__
    if isinstance(found, FunctionType):
        found.__annotations__ = getattr(found, "__wrapped__", found).__annotations__ = {}
    return found


for _name in (*__all__, *_ALSO):
    if isinstance(globals().get(_name), (FunctionType, type)):
        _public(globals()[_name])


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'reduced' has no attribute {name!r}")
    from importlib import import_module
    module = import_module(f".{_LATER[name]}", __name__)
    value = _public(getattr(module, name)) if _LATER[name].startswith("_") else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_ALSO, *_LATER, "__version__", "__doc__"})


def load_ipython_extension(shell: Any) -> None:
    """%load_ext reduced"""
    from .magic import register
    register(shell)
