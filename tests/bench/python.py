#!/usr/bin/env python3
"""The Python package beside numpy.sum, math.fsum, and PyPI's xsum and accupy if they are installed; and what a call costs beyond C.

    REDUCED_LIBRARY=build/cpu/lib/libreduce.so PYTHONPATH=client/python tests/bench/python.py [--only reduced,numpy,xsum] [10^6 10^8]
    REDUCED_LIBRARY=build/cpu/lib/libreduce.so PYTHONPATH=client/python tests/bench/python.py --beside-numpy

What the package reduces itself it does (on a daemon without a GPU everything here); REDUCE_LOCAL=no measures the way by the daemon. A
daemon of its own is started by $PATH. Each figure is the median of several calls, all in turn in one process."""
import argparse
import contextlib
import ctypes
import math
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

import reduced
from common import processor_seconds
from reduced import _abi, _client
from reduced._lib import lib

CALLS, BLOCKS, BLOCK = 4000, 200, 50
BESIDE = tuple(2**k for k in (4, 10, 14, 18, 20, 24, 26))  # bytes
SHORT = ((100_000, 1), 1), ((20_000, 3), 1), ((3, 20_000), 0), ((2048, 8), 1), ((8, 2048), 0), ((64, 64, 64), 1)  # and the axis
SECONDS, MORE_US = 0.25, 2  # of one cell; what is allowed beyond NumPy
SLOW = "math.fsum", "accupy.fsum"  # seconds at 10^8: twice is enough
CALL = r"""
#include <stddef.h>
#include <time.h>

typedef int simple(void *c, int op, int dtype, unsigned ddof, const void *data, size_t n, void *out);

double call(simple *reduce_simple, void *client, int calls, int clock) {
    double ones[16], sum;
    struct timespec begin, end;
    for (int i = 0; i < 16; i++) ones[i] = 1;
    clock_gettime(clock, &begin);
    for (int i = 0; i < calls; i++) reduce_simple(client, SUM, F64, 0, ones, 16, &sum);
    clock_gettime(clock, &end);
    return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}
""".replace("SUM", str(_abi.SUM)).replace("F64", str(_abi.F64))


def peers():
    found = {"reduced.sum": reduced.sum, "numpy.sum": lambda a: a.sum(), "math.fsum": math.fsum}
    with contextlib.suppress(ImportError):
        import xsum

        def by_xsum(a):
            total = xsum.xsum_large_accumulator()
            xsum.xsum_add(total, a)
            return xsum.xsum_round(total)
        found["xsum"] = by_xsum
    with contextlib.suppress(ImportError):
        import accupy
        found["accupy.fsum"] = accupy.fsum
    return found


def timed(f, a, daemon):
    """Seconds by the wall's clock, and processor seconds of this process and the daemon. To ask for the latter takes 0.2 ms."""
    theirs, ours, wall = processor_seconds(daemon), time.process_time(), time.perf_counter()
    f(a)
    wall, ours = time.perf_counter() - wall, time.process_time() - ours
    return wall, ours + processor_seconds(daemon) - theirs


def large(n, daemon, only):
    a = np.random.default_rng(1).standard_normal(n)
    names = {name: f for name, f in peers().items() if not only or name.partition(".")[0] in only}
    times = {name: [] for name in names}
    for _ in range(5 if n > 10**7 else 25):
        for name, f in names.items():
            if len(times[name]) < 2 or name not in SLOW or n < 10**7:
                times[name].append(timed(f, a, daemon))
    ours = [statistics.median(t) for t in zip(*times["reduced.sum"])]
    for name, both in times.items():
        wall, processor = (statistics.median(t) for t in zip(*both))
        print(f"{n:>11} doubles  {name:12} {wall * 1e3:10.3f} ms  {wall / ours[0]:7.2f} x reduced.sum"
              f"    processor time {processor * 1e3:10.3f} ms {processor / ours[1]:7.2f} x")


def in_c(scratch):
    """The same call by a C program in this process: seconds of the calling thread, by a clock, for a number of calls."""
    source = pathlib.Path(scratch, "call.c")
    source.write_text(CALL)
    library = source.with_suffix(".so")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    call = ctypes.CDLL(library).call
    call.restype, call.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    return call


def small():
    """What reduced.sum takes more than the call of C, over the same connection: calls in turn by the wall's clock, and blocks of
    calls in turn by the thread's, which other processes do not move."""
    a = np.ones(16)
    reduced.sum(a)
    client = _client.default()
    with tempfile.TemporaryDirectory() as scratch:
        call = in_c(scratch)
    c = lambda n, clock: call(ctypes.cast(lib().reduce_simple, ctypes.c_void_p), client._handle, n, clock)  # noqa: E731
    pairs, cores = [], []
    for _ in range(CALLS):
        wall = c(1, time.CLOCK_MONOTONIC)
        start = time.perf_counter()
        reduced.sum(a)
        pairs.append((wall, time.perf_counter() - start))
    for _ in range(BLOCKS):
        processor = c(BLOCK, time.CLOCK_THREAD_CPUTIME_ID)
        start = time.thread_time()
        for _ in range(BLOCK):
            reduced.sum(a)
        cores.append((processor, time.thread_time() - start))
    for what, times, n in (("wall", pairs, 1), ("processor time of the caller", cores, BLOCK)):
        c_us, python = (statistics.median(t) / n * 1e6 for t in zip(*times))
        more = statistics.median(p - c for c, p in times) / n * 1e6
        print(f"16 doubles, {what}: the call of C {c_us:.2f} us, reduced.sum {python:.2f} us, median of the differences {more:.2f} us")


def in_turn(calls):
    """Medians, in us, of calls in turn for SECONDS, at least seven each."""
    times, end = [[] for _ in calls], time.perf_counter() + SECONDS
    while len(times[0]) < 7 or (time.perf_counter() < end and len(times[0]) < CALLS):
        for call, of in zip(calls, times):
            start = time.perf_counter()
            call()
            of.append(time.perf_counter() - start)
    return [statistics.median(t) * 1e6 for t in times]


def beside_numpy():
    """Sum, mean, var and ends by NumPy's method and by ours, of arrays in the process's memory: normal data, and data of one sign."""
    late, cells = [], 0
    print(f"{'':26}{'bytes':>10} {'NumPy':>10} {'ours':>10} {'more':>9} us")
    for dtype in np.float32, np.float64:
        all_of_them = np.random.default_rng(1).standard_normal(BESIDE[-1] // 8).astype(dtype)
        normal = np.resize(all_of_them, BESIDE[-1] // all_of_them.itemsize)
        positive = np.abs(normal)
        asked = [("normal", normal, op) for op in ("sum", "mean", "max", "var")] + [("positive", positive, "min"), ("negative", -positive, "max")]
        for size in BESIDE:
            for kind, values, op in asked:
                a = values[:size // values.itemsize].copy()
                ours = getattr(reduced, op)
                theirs, us = in_turn((getattr(a, op), lambda: ours(a)))  # noqa: B023
                print(f"{op:6}{kind:10}{a.dtype.name:10}{size:>10} {theirs:10.1f} {us:10.1f} {us - theirs:+9.1f}")
                late += [us - theirs] * (us - theirs > MORE_US)
                cells += 1
    print(f"{len(late)} of {cells} take more than NumPy's time and {MORE_US} us; the worst {max(late, default=0):.1f} us more")


def short_beside_numpy():
    """The same of many results, each of few elements."""
    print(f"{'':26}{'shape':>14} {'NumPy':>10} {'ours':>10} us")
    for dtype in np.float32, np.float64:
        for shape, axis in SHORT:
            a = np.random.default_rng(1).standard_normal(shape).astype(dtype)
            for op in "sum", "mean", "max", "var", "ptp", "argmax":
                ours = getattr(reduced, op)
                theirs, us = in_turn((lambda: getattr(np, op)(a, axis=axis), lambda: ours(a, axis=axis)))  # noqa: B023
                print(f"{op:6}axis {axis:<5}{a.dtype.name:10}{'x'.join(map(str, shape)):>14} {theirs:10.1f} {us:10.1f} {us / theirs:8.1f} times")


def arguments():
    parser = argparse.ArgumentParser(description="What reduced.sum takes, beside its peers.")
    parser.add_argument("numbers", type=int, nargs="*", default=[10**6, 10**8], help="of doubles")
    parser.add_argument("--beside-numpy", action="store_true", help="instead: sum, mean, var and ends of 16 B to 64 MiB, and of many short rows; at most 80 s")
    parser.add_argument("--only", type=lambda s: {"reduced", *s.split(",")}, help="these peers: reduced,numpy,math,xsum,accupy")
    return parser.parse_args()


if __name__ == "__main__":
    asked = arguments()
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(["reduced", "--listen", f"ipc://{folder}/s"], stderr=subprocess.DEVNULL) as p:
        with reduced.Client(f"ipc://{folder}/s", autostart=False, wait=True) as client:
            _client._default = client
            if asked.beside_numpy:
                beside_numpy()
                short_beside_numpy()
            else:
                small()
                for n in asked.numbers:
                    large(n, p.pid, asked.only)
        p.terminate()
