#!/usr/bin/env python3
"""Reductions by key on one core: libreduce's accumulators in this process, and the CPU engine in a daemon, beside numpy.bincount.

    B=build/cpu REDUCED_LIBRARY=build/cpu/lib/libreduce.so PYTHONPATH=client/python tests/bench/keys.py [--elements 2^22] [--rounds 7]
                                                     [--groups 1000,10000,1000000] [--only f8,i8] [--no-engine]

Nanoseconds of a processor for each addition, the values of the groups included, and after `x` as a multiple of the time that
numpy.bincount takes for the same keys with weights of float64. Everything is measured in turn; a figure is the least of all rounds.
`!` marks a sum of float64 that takes more than 2.5 times numpy.bincount's time at 1,000 groups."""
import argparse
import os
import time

import numpy as np

import common
import reduced
from reduced._keys import Accumulators
from reduced._prepare import result_dtype
from reduced._resident_keys import Kept

OPERATIONS = "sum", "mean", "min", "var"
GOAL = {1000: 2.5}  # times numpy.bincount's, of sums of float64


def number(text):
    base, _, power = text.partition("^")
    return int(base) ** int(power or 1)


def values(dtype, n):
    x = np.random.default_rng(1).standard_normal(n)
    return (x * 1e9).astype(dtype) if np.dtype(dtype).kind == "i" else x.astype(dtype)


def here(op, x, keys, groups):
    with Accumulators(op, x.dtype, groups, "omit") as a:
        a.add(keys, x, None, 0)
        return a.finish(result_dtype(op, a.element), 0)


def there(op, x, keys, groups):
    k = Kept(op, x, groups, "omit", keys)
    return k.finish(result_dtype(op, k.element), 0)


def least(calls, rounds, daemon):
    """Processor seconds of this process, and of the daemon if there is one."""
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.process_time() + (common.processor_seconds(daemon) if daemon else 0)
            call()
            times[name].append(time.process_time() + (common.processor_seconds(daemon) if daemon else 0) - begin)
    return {name: min(t) for name, t in times.items()}


def measure(args, client, daemon):
    print(f"{common.machine()}; {args.elements} elements, random keys of int64; one core, ns an addition")
    for groups in (number(g) for g in args.groups.split(",")):
        keys = np.random.default_rng(2).integers(0, groups, args.elements)
        keys[:groups] = np.arange(groups)  # none is empty: min needs an element
        kept = reduced.put("keys", keys, replace=True, client=client) if client else None
        for dtype in args.only.split(","):
            x = values(dtype, args.elements)
            calls = {"numpy": lambda x=x, keys=keys: np.bincount(keys, x, groups)} if dtype == "f8" else {}
            calls |= {f"{op} here": lambda op=op, x=x, keys=keys: here(op, x, keys, groups) for op in OPERATIONS}
            if client:
                resident = reduced.put("x", x, replace=True, client=client)
                calls |= {f"{op} engine": lambda op=op, x=resident, keys=kept: there(op, x, keys, groups) for op in OPERATIONS}
            times = least(calls, args.rounds, daemon)
            peer = times.pop("numpy", None) or peer
            show(groups, dtype, times, peer, args.elements)


def show(groups, dtype, times, peer, n):
    if dtype == "f8":
        print(f"{groups:>8} groups: numpy.bincount {1e9 * peer / n:.2f}")
    cells = []
    for name, t in times.items():
        missed = dtype == "f8" and name.startswith("sum") and t > GOAL.get(groups, np.inf) * peer
        cells.append(f"{name} {1e9 * t / n:6.2f} x{t / peer:5.2f}{'!' if missed else ' '}")
    for way in "here", "engine":
        some = [c for c in cells if f" {way} " in c]
        if some:
            print(f"  {dtype}  {'  '.join(some)}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--elements", type=number, default=1 << 22)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--groups", default="1000,10000,1000000")
    p.add_argument("--only", default="f8,f4,i8")
    p.add_argument("--no-engine", action="store_true")
    args = p.parse_args()
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    if args.no_engine:
        measure(args, None, None)
        return
    with common.daemon("--backend", "cpu") as (url, process, _, _):
        measure(args, reduced.Client(url), process.pid)


if __name__ == "__main__":
    main()
