"""The reductions for asyncio: `await reduced.aio.sum(x)`. Cancelling the wait cancels the reduction.

>>> import asyncio
>>> asyncio.run(reduced.aio.sum([0.1] * 10))
1.0
"""
from __future__ import annotations

import asyncio
from typing import Any, Callable, Coroutine

from . import _functions
from ._jobs import submit


def _awaitable(f: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def later(a: Any, *args: Any, **kw: Any) -> Any:
        task = submit(f, a, *args, **kw)
        try:
            return await asyncio.wrap_future(task)
        except asyncio.CancelledError:
            task.cancel()
            raise
    later.__name__, later.__doc__ = f.__name__, f.__doc__
    return later


sum, prod, mean, var, std, sem, rms = map(_awaitable, (
    _functions.sum, _functions.prod, _functions.mean, _functions.var, _functions.std, _functions.sem, _functions.rms))
min, max, ptp, argmin, argmax, minmax = map(_awaitable, (
    _functions.min, _functions.max, _functions.ptp, _functions.argmin, _functions.argmax, _functions.minmax))
any, all, count_nonzero, norm, bits, stats = map(_awaitable, (
    _functions.any, _functions.all, _functions.count_nonzero, _functions.norm, _functions.bits, _functions.stats))
nansum, nanprod, nanmean, nanvar, nanstd = map(_awaitable, (
    _functions.nansum, _functions.nanprod, _functions.nanmean, _functions.nanvar, _functions.nanstd))
nanmin, nanmax, nanargmin, nanargmax = map(_awaitable, (
    _functions.nanmin, _functions.nanmax, _functions.nanargmin, _functions.nanargmax))
