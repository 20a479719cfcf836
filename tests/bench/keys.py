#!/usr/bin/env python3
"""Reductions by key: libreduce's accumulators in this process, and the CPU engine in a daemon, beside numpy.bincount, and the group sums of
pandas and polars where they are installed.

    B=build/cpu REDUCED_LIBRARY=build/cpu/lib/libreduce.so PYTHONPATH=client/python tests/bench/keys.py [--elements 2^22] [--rounds 7]
                                                     [--groups 1000,10000,1000000] [--only f8,i8] [--no-engine] [--all-cores]

Nanoseconds for each addition, the values of the groups included, and after `x` as a multiple of the time that numpy.bincount takes for
the same keys with weights of float64: of a processor on one core, or with --all-cores by the clock. Everything is measured in turn; a figure
is the least of all rounds. `!` marks a sum of float64 that takes more than 2.5 times numpy.bincount's time at 1,000 groups, with all cores
in the engine 0.4."""
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
GOAL, GOAL_OF_ALL = 2.5, 0.4  # times numpy.bincount's, of sums of float64 of 1,000 groups; of all cores


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


def peers(x, keys, groups):
    """Sums by others, of those that are installed."""
    calls = {"numpy.bincount": lambda: np.bincount(keys, x, groups)}
    try:
        import pandas as pd
        series, by = pd.Series(x), pd.Series(keys)
        calls["pandas"] = lambda: series.groupby(by).sum()
    except ImportError:
        pass
    try:
        import polars as pl
        frame = pl.DataFrame({"k": keys, "x": x})
        calls["polars"] = lambda: frame.group_by("k").agg(pl.col("x").sum())
    except ImportError:
        pass
    return calls


def seconds(daemon, all_cores):
    """By the clock, or of a processor: of this process, and of the daemon if there is one."""
    return time.perf_counter() if all_cores else time.process_time() + (common.processor_seconds(daemon) if daemon else 0)


def least(calls, args, daemon):
    times = {name: [] for name in calls}
    for _ in range(args.rounds):
        for name, call in calls.items():
            begin = seconds(daemon, args.all_cores)
            call()
            times[name].append(seconds(daemon, args.all_cores) - begin)
    return {name: min(t) for name, t in times.items()}


def measure(args, client, daemon):
    cores = f"{len(os.sched_getaffinity(0))} cores, by the clock" if args.all_cores else "one core"
    print(f"{common.machine()}; {args.elements} elements, random keys of int64; {cores}, ns an addition")
    for groups in (number(g) for g in args.groups.split(",")):
        keys = np.random.default_rng(2).integers(0, groups, args.elements)
        keys[:groups] = np.arange(groups)  # none is empty: min needs an element
        kept = reduced.put("keys", keys, replace=True, client=client) if client else None
        for dtype in args.only.split(","):
            x = values(dtype, args.elements)
            beside = peers(x, keys, groups) if dtype == "f8" else {}
            calls = dict(beside)
            calls |= {f"{op} here": lambda op=op, x=x, keys=keys: here(op, x, keys, groups) for op in OPERATIONS}
            if client:
                resident = reduced.put("x", x, replace=True, client=client)
                calls |= {f"{op} engine": lambda op=op, x=resident, keys=kept: there(op, x, keys, groups) for op in OPERATIONS}
            times = least(calls, args, daemon)
            taken = {name: times.pop(name) for name in beside}
            if taken:
                peer = taken["numpy.bincount"]
                print(f"{groups:>8} groups: " + ", ".join(f"{name} {1e9 * t / args.elements:.2f}" for name, t in taken.items()))
            show(groups, dtype, times, peer, args)


def show(groups, dtype, times, peer, args):
    cells, n = [], args.elements
    for name, t in times.items():
        goal = (GOAL_OF_ALL if name.endswith("engine") else np.inf) if args.all_cores else GOAL
        missed = dtype == "f8" and name.startswith("sum") and groups == 1000 and t > goal * peer
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
    p.add_argument("--all-cores", action="store_true")
    args = p.parse_args()
    if not args.all_cores:
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    if args.no_engine:
        measure(args, None, None)
        return
    with common.daemon("--backend", "cpu") as (url, process, _, _):
        measure(args, reduced.Client(url), process.pid)


if __name__ == "__main__":
    main()
