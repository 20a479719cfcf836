#!/usr/bin/env python3
"""The Python package beside numpy.sum, math.fsum, and PyPI's xsum and accupy if they are installed; and what a call costs beyond C.

    REDUCED_LIBRARY=build/cpu/lib/libreduce.so PYTHONPATH=client/python tests/bench/python.py [10^6 10^8]

A daemon must be in $PATH or at $REDUCED_URL. Each figure is the median of several calls, all in turn in one process."""
import ctypes
import importlib
import math
import statistics
import sys
import time

import numpy as np

import reduced
from reduced import _abi, _client, _quick
from reduced._lib import lib

CALLS = 4000


def peers():
    found = {"reduced.sum": reduced.sum, "numpy.sum": lambda a: a.sum(), "math.fsum": math.fsum}
    for module, name in (("xsum", "xsum"), ("accupy", "fsum")):
        try:
            f = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        found[f"{module}.{name}"] = f
    return found


def took(f, *arguments):
    start = time.perf_counter()
    f(*arguments)
    return time.perf_counter() - start


def large(n):
    a = np.random.default_rng(1).standard_normal(n)
    names = peers()
    times = {name: [] for name in names}
    for _ in range(5):
        for name, f in names.items():
            if len(times[name]) < 2 or name != "math.fsum" or n < 10**7:
                times[name].append(took(f, a))
    ours = statistics.median(times["reduced.sum"])
    for name, t in times.items():
        print(f"{n:>11} doubles  {name:12} {statistics.median(t) * 1e3:10.3f} ms  {statistics.median(t) / ours:7.2f} x reduced.sum")


def small():
    """The median of what reduced.sum takes more than the call of C, of calls in turn."""
    a = np.ones(16)
    client, out = _client.default(), ctypes.c_double()
    reduced.sum(a)
    call, handle, data, where = lib().reduce_simple, client._handle, a.ctypes.data, ctypes.byref(out)
    in_c, in_python = [], []
    for _ in range(CALLS):
        in_c.append(took(call, handle, _abi.SUM, _abi.F64, 0, data, 16, where))
        in_python.append(took(reduced.sum, a))
    c, python = statistics.median(in_c) * 1e6, statistics.median(in_python) * 1e6
    print(f"16 doubles: the call of C through ctypes {c:.2f} us, reduced.sum {python:.2f} us, {python - c:.2f} us more")
    _quick._simple = lambda *_: 0  # all but the call
    none = statistics.median(took(reduced.sum, a) for _ in range(CALLS)) * 1e6
    _quick._simple = call
    print(f"16 doubles: reduced.sum without the call of C {none:.2f} us")


if __name__ == "__main__":
    small()
    for n in map(int, sys.argv[1:] or (10**6, 10**8)):
        large(n)
