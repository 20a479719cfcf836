#!/usr/bin/env python3
"""Random calls beside NumPy, or on a GPU beside PyTorch: any operation, type, shape, axes and order of axes in memory. It finds kinds of calls that
nobody thought of measuring. Each call in turn with its peer, the least of some rounds; of the GPU, twenty calls in a graph.

    PYTHONPATH=client/python python3 tests/bench/shapes.py [--gpu] [--seconds 120] [--seed 1] [--least 2] [--most 21] [--only 'sum|mean']

--least, --most: powers of two of elements. At the end: how many calls took more than 1, 1.3 and 2 times the peer's time (and 2 us, on a GPU 1),
and the worst of them."""
import argparse
import collections
import importlib.util
import math
import os
import pathlib
import random
import re
import sys
import time
import warnings

import numpy as np

FLOATS, INTEGERS = ["float32"] * 3 + ["float64"] * 2 + ["float16"], ["int32", "int64", "uint8", "int16"]
ALL = [*FLOATS, *INTEGERS, "bool"]
TYPES = {"mean": FLOATS, "var": FLOATS, "std": FLOATS, "norm": FLOATS, "quantile": FLOATS[:5], "prod": FLOATS + INTEGERS[:2], "ptp": FLOATS + INTEGERS,
         "argmax": FLOATS + INTEGERS, "argmin": FLOATS + INTEGERS, "median": FLOATS[:5] + INTEGERS, "vdot": FLOATS, "histc": FLOATS[:5]}
ONE_AXIS = ("argmax", "argmin", "median", "quantile", "prod", "ptp")


def of_numpy():
    import reduced
    ours = {name: getattr(reduced, name) for name in ("sum", "mean", "max", "min", "argmax", "argmin", "var", "std", "prod", "any", "all", "count_nonzero", "median", "ptp", "norm")}
    peers = {name: getattr(np, name, None) for name in ours} | {"norm": lambda x, axis: np.sqrt(np.sum(np.square(x), axis=axis))}
    ours["quantile"], peers["quantile"] = ((lambda x, axis, f=f: f(x, 0.3, axis=axis)) for f in (reduced.quantile, np.quantile))
    calls = {name: (lambda x, d, f=f: f(x, axis=d), lambda x, d, f=peers[name]: f(x, axis=d)) for name, f in ours.items()}
    return calls, lambda x, dtype: x.astype(dtype), np.ndarray.transpose, lambda f: (f, 1), time_least


def of_torch():
    import torch
    spec = importlib.util.spec_from_file_location("stream", pathlib.Path(__file__).resolve().parents[1] / "gpu/stream.py")
    stream = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stream)
    import reduced.cuda as ours

    def call(name, f):
        return lambda x, d: f(x) if d is None else f(x, d)
    peers = {name: getattr(torch, name) for name in ("sum", "mean", "amax", "amin", "argmax", "argmin", "var", "std", "prod", "count_nonzero", "median")}
    calls = {name: (call(name, getattr(ours, name)), call(name, f)) for name, f in peers.items()}
    calls["norm"] = call("norm", ours.norm), lambda x, d: torch.linalg.vector_norm(x, dim=d)
    calls["quantile"] = tuple(lambda x, d, f=f: f(x, 0.3, dim=d) for f in (ours.quantile, torch.quantile))
    calls["vdot"] = lambda x, d: ours.vdot(x, x, d), lambda x, d: (x * x).sum(d)
    calls["histc"] = tuple(lambda x, d, f=f: f(x, 100, -3, 3) for f in (ours.histc, torch.histc))
    for k in (5, 100):
        calls[f"topk {k}"] = tuple(lambda x, d, f=f, k=k: f(x, min(k, x.shape[d or 0]), d or 0) for f in (ours.topk, torch.topk))

    def graphed(f):
        try:
            return stream.graphed(f), 20
        except RuntimeError:  # it waits for the device
            torch.cuda.synchronize()
            return f, 1
    return calls, lambda x, dtype: torch.from_numpy(x).cuda().to(getattr(torch, dtype)), torch.Tensor.permute, graphed, lambda f, calls: stream.median_us(f, 3, calls)


def time_least(f, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        f()
    return (time.perf_counter() - begin) / calls * 1e6


def drawn(rng, values, make, permuted, dtype, least, most):
    """An array of any shape: contiguous, of axes in another order, or a slice."""
    total, dims = 2 ** rng.uniform(least, most), rng.choice((1, 1, 2, 2, 2, 3, 3, 4))
    cuts = [0, *sorted(rng.random() for _ in range(dims - 1)), 1]
    shape = [max(1, round(total ** (b - a))) for a, b in zip(cuts, cuts[1:])]
    if rng.random() < 0.3:
        shape = [1 << round(math.log2(n)) for n in shape]
    x = np.resize(values, shape)
    x = make(x > 0 if dtype == "bool" else abs(x) * 20 if dtype == "uint8" else x * 20 if "int" in dtype else x, dtype)
    how = rng.random()
    if dims > 1 and how < 0.2:
        return permuted(x, rng.sample(range(dims), dims))
    return x[..., 1:] if how < 0.27 and shape[-1] > 3 else x[::2] if how < 0.32 and shape[0] > 4 else x


def timed(ours, peer, wrap, timer):
    """us of each, in turn."""
    (a, n), (b, m) = wrap(ours), wrap(peer)
    begin = time.perf_counter()
    a(), b()
    one = time.perf_counter() - begin
    calls = max(1, min(200, int(2e-3 / one)))
    times = [(timer(a, calls) / n, timer(b, calls) / m) for _ in range(5 if one < 0.05 else 2)]
    return min(t for t, _ in times), min(t for _, t in times)


def main():
    p = argparse.ArgumentParser()
    for name, kind, default in (("seconds", float, 120), ("seed", int, 1), ("least", float, 2), ("most", float, 21)):
        p.add_argument(f"--{name}", type=kind, default=default)
    p.add_argument("--gpu", action="store_true")
    p.add_argument("--only", default="", help="a regular expression for whole names")
    a = p.parse_args()
    calls, make, permuted, wrap, timer = of_torch() if a.gpu else of_numpy()
    warnings.simplefilter("ignore")
    calls = {name: f for name, f in calls.items() if not a.only or re.fullmatch(a.only, name)}
    rng, values = random.Random(a.seed), np.random.default_rng(a.seed).standard_normal(1 << 20)
    rows, end, more = [], time.monotonic() + a.seconds, 1 if a.gpu else 2
    while time.monotonic() < end:
        name = rng.choice(list(calls))
        dtype = rng.choice(TYPES.get(name, FLOATS if name.startswith("topk") else ALL))
        x = drawn(rng, values, make, permuted, dtype, a.least, a.most)
        dims = len(x.shape)
        axis = None if name == "histc" or rng.random() < 0.3 else rng.randrange(dims)
        if axis is not None and dims > 2 and name not in ONE_AXIS and not name.startswith("topk") and rng.random() < 0.3:
            axis = tuple(sorted(rng.sample(range(dims), 2)))
        strides = "" if (x.is_contiguous() if a.gpu else x.flags.c_contiguous) else tuple(x.stride()) if a.gpu else tuple(s // x.itemsize for s in x.strides)
        try:
            rows.append((*timed(lambda: calls[name][0](x, axis), lambda: calls[name][1](x, axis), wrap, timer), name, dtype, tuple(x.shape), strides, axis))
        except (RuntimeError, ValueError, ArithmeticError, NotImplementedError) as e:  # the peer cannot, or integers overflow
            print(f"no value: {name} of {dtype} {tuple(x.shape)}, {axis}: {type(e).__name__} {str(e)[:90]}", file=sys.stderr)
    for limit in (1, 1.3, 2):
        print(f"{sum(t > limit * peer + more for t, peer, *_ in rows)} of {len(rows)} took more than {limit} times the peer's time and {more} us")
    by = collections.defaultdict(list)
    for t, peer, name, *_ in rows:
        by[name].append(t / peer)
    print(*(f"{name} {sorted(v)[len(v) // 2]:.2f}" for name, v in by.items()), sep=", ", end=": the median of ours over the peer's\n")
    for t, peer, *what in sorted((r for r in rows if r[0] > 1.3 * r[1] + more), key=lambda r: -r[0] / r[1])[:60]:
        print(f"{t:9.1f} {peer:9.1f} {t / peer:6.2f}  ", *what)


if __name__ == "__main__":
    os.environ.setdefault("REDUCED_LIBRARY", "build/lib/libreduce.so")
    main()
