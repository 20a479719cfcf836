#!/usr/bin/env python3
"""Order statistics of the CPU engine as shares of our own sum's time of the same array, and the median beside those of NumPy and of duckdb,
where it is installed.

    REDUCED_LIBRARY=build/cpu/lib/libreduce.so PYTHONPATH=client/python tests/bench/order.py [--mib 256] [--rounds 7] [--types f4,f8] [--threads 1,2]

Each number of threads is a process of its own that may use so many cores. Everything is measured in turn; a figure is the least of all
rounds, in time of processors, because other processes may run meanwhile. `!` marks what misses its goal: a share of the sum's time, twice
random's for other data, or a quarter of a peer's median's time."""
import argparse
import os
import subprocess
import sys
import time

import numpy as np

KINDS = "random", "all equal", "two values", "sorted", "NaN half"
WORST = 2.0  # of random's time, for any kind
PEERS = "numpy.median", "duckdb.median"
GOALS = {"median": 2.5, "five quantiles": 2.5, "kth": 2.5, "largest 100": 1.3, "histogram 100": 1.5, **dict.fromkeys(PEERS)}


def array(kind, dtype, n):
    rng = np.random.default_rng(1)
    dtype = np.dtype(dtype)
    random = rng.standard_normal(n, dtype="f4" if dtype.itemsize < 8 else "f8")
    if dtype.kind != "f":
        random *= 100 if dtype.itemsize == 1 else 1e8 if dtype.itemsize > 2 else 1e4
        random = np.clip(random, np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = random.astype(dtype)
    if kind == "all equal":
        x[:] = x[0]
    elif kind == "two values":
        x = np.where(random > 0, dtype.type(1), dtype.type(2))
    elif kind == "sorted":
        x.sort()
    elif kind == "NaN half":
        x[rng.random(n, dtype="f4") < 0.5] = np.nan
    return x


def of_duckdb(x):
    """Its median of a table of its own, on one thread; None: it is not installed, or refuses the type."""
    try:
        import duckdb
        db = duckdb.connect(config={"threads": 1})
        db.execute("set enable_progress_bar = false")
        db.execute("create table t as select column0 as v from x")
    except Exception:
        return None
    return lambda: db.execute("select median(v) from t").fetchall()


def calls(reduced, x, kind):
    nan = "omit" if kind == "NaN half" else "propagate"
    edges = np.linspace(-3, 3, 101) if x.dtype.kind == "f" else np.linspace(float(x.min()) - 1, float(x.max()), 101)
    found = {"sum": lambda: reduced.sum(x, nan=nan), "median": lambda: reduced.median(x, nan=nan),
             "five quantiles": lambda: reduced.quantile(x, [0.01, 0.25, 0.5, 0.75, 0.99], nan=nan), "kth": lambda: reduced.kth(x, x.size // 3, nan=nan),
             "largest 100": lambda: reduced.topk(x, 100, None, nan=nan), "histogram 100": lambda: reduced.histogram(x, edges)}
    if kind != "NaN half" and len(os.sched_getaffinity(0)) == 1:
        found |= {"numpy.median": lambda: np.median(x), "duckdb.median": of_duckdb(x)}
    if kind == "NaN half":
        del found["kth"]  # its rank may not be there
    return {name: call for name, call in found.items() if call}


def least(found, rounds):
    times = {}
    for i in range(rounds):
        for name, call in found.items():
            if name in PEERS and i > 2:
                continue
            begin = time.process_time()
            call()
            times.setdefault(name, []).append(time.process_time() - begin)
    return {name: min(t) for name, t in times.items()}


def measure(args):
    import reduced
    threads = len(os.sched_getaffinity(0))
    for dtype in args.types.split(","):
        random = {}
        for kind in KINDS:
            if kind == "NaN half" and np.dtype(dtype).kind != "f":
                continue
            x = array(kind, dtype, (args.mib << 20) // np.dtype(dtype).itemsize)
            times = least(calls(reduced, x, kind), args.rounds)
            random = random or times
            show(f"{threads} {dtype} {kind}", times, random)


def show(what, times, random):
    cells = [f"sum {1e3 * times['sum']:6.1f} ms"]
    for name, goal in GOALS.items():
        if name in times:
            share, beside = times[name] / times["sum"], times[name] / random[name]
            missed = (goal and random is times and share > goal) or (beside > WORST and name not in PEERS)
            if name in PEERS:
                missed = times["median"] > 0.25 * times[name]
            cells.append(f"{name} {share:5.2f}{'!' if missed else ' '}({beside:4.2f})")
    print(f"{what:18} {'  '.join(cells)}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--mib", type=int, default=256)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--types", default="f4,f8")
    p.add_argument("--threads", default=f"1,{len(os.sched_getaffinity(0))}")
    p.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.measure:
        measure(args)
        return
    print("shares of our sum's time; in parentheses: of random's")
    for n in sorted({int(t) for t in args.threads.split(",")}):
        cores = sorted(os.sched_getaffinity(0))[:n]
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--measure"], check=True, preexec_fn=lambda cores=cores: os.sched_setaffinity(0, cores))


if __name__ == "__main__":
    main()
