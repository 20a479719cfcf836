"""The reductions for asyncio: `await reduced.aio.sum(x)`. Cancelling the wait cancels the reduction.

>>> import asyncio
>>> asyncio.run(reduced.aio.sum([0.1] * 10))
1.0
"""
from __future__ import annotations

import asyncio
from typing import Any, Callable, Coroutine

from . import _functions, _order, _pairs
from ._jobs import submit


def _awaitable(f: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def later(a: Any, *args: Any, **kw: Any) -> Any:
        task = submit(f, a, *args, **kw)
        try:
            return await asyncio.wrap_future(task)
        except asyncio.CancelledError:
            task.cancel()
            raise
    later.__name__, later.__qualname__, later.__doc__ = f.__name__, f.__name__, f.__doc__
    return later


sum = _awaitable(_functions.sum)
prod = _awaitable(_functions.prod)
mean = _awaitable(_functions.mean)
var = _awaitable(_functions.var)
std = _awaitable(_functions.std)
sem = _awaitable(_functions.sem)
rms = _awaitable(_functions.rms)
min = _awaitable(_functions.min)
max = _awaitable(_functions.max)
ptp = _awaitable(_functions.ptp)
argmin = _awaitable(_functions.argmin)
argmax = _awaitable(_functions.argmax)
minmax = _awaitable(_functions.minmax)
any = _awaitable(_functions.any)
all = _awaitable(_functions.all)
count_nonzero = _awaitable(_functions.count_nonzero)
norm = _awaitable(_functions.norm)
bits = _awaitable(_functions.bits)
stats = _awaitable(_functions.stats)
nansum = _awaitable(_functions.nansum)
nanprod = _awaitable(_functions.nanprod)
nanmean = _awaitable(_functions.nanmean)
nanvar = _awaitable(_functions.nanvar)
nanstd = _awaitable(_functions.nanstd)
nanmin = _awaitable(_functions.nanmin)
nanmax = _awaitable(_functions.nanmax)
nanargmin = _awaitable(_functions.nanargmin)
nanargmax = _awaitable(_functions.nanargmax)
median = _awaitable(_order.median)
quantile = _awaitable(_order.quantile)
percentile = _awaitable(_order.percentile)
kth = _awaitable(_order.kth)
topk = _awaitable(_order.topk)
histogram = _awaitable(_order.histogram)
nanmedian = _awaitable(_order.nanmedian)
nanquantile = _awaitable(_order.nanquantile)
nanpercentile = _awaitable(_order.nanpercentile)
dot = _awaitable(_pairs.dot)
vdot = _awaitable(_pairs.vdot)
