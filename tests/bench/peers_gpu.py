#!/usr/bin/env python3
"""PyTorch and CuPy on device-resident data: the cases of bench_kernels that they can do, timed the same way.

    peers_gpu.py [--json FILE] [--largest LOG2] [--runs N]

Times are from the event before the call to the event after it, so they include the launch, and Python. Inputs rotate through a
pool far larger than L2. A package that cannot be imported is skipped by name."""

import argparse
import math
import sys

from figures import show, summary, write_lines

POOL = 4 << 30  # bytes
BUDGET_US = 6e4
LEAST, MOST = 11, 201
NORMAL = "normal f32"  # data of order statistics: whole numbers would be a few values
DTYPES = {"f32": 4, "f64": 8, "f16": 2, "i32": 4, NORMAL: 4}
QUANTILES = .1, .25, .5, .75, .9


def cases(largest):
    """(group, name, op, dtype, shape, axis)"""
    for dtype in ("f32", "f16"):
        for op in ("max", "argmax", "std"):
            yield "framework", f"{op} {dtype} 2^28", op, dtype, (1 << 28,), None
    for op in ("median", "five quantiles", "largest 10", "largest 100", "histogram of 100"):
        for log2 in (20, 28):
            yield "order", f"{op} f32 2^{log2}", op, NORMAL, (1 << log2,), None
    for op in ("median", "largest 10"):
        yield "order", f"{op} f32 262144 x 1024", op, NORMAL, (1 << 18, 1 << 10), 1
    for log2 in range(10, 31, 2):
        yield "sum", f"sum f32 2^{log2}", "sum", "f32", (1 << log2,), None
    yield "sum", "sum i32 2^28", "sum", "i32", (1 << 28,), None
    for rows, length in ((1000000, 2), (1000000, 32), (1000000, 1024), (4, 1 << 26)):
        yield "rows", f"sum f32 {rows} x {length}", "sum", "f32", (rows, length), 1
    for op in ("max", "argmax", "var"):
        for rows, length in ((1000000, 2), (1000000, 32), (1000000, 1024), (1000, 1000)):
            yield "shapes", f"{op} f32 {rows} x {length}", op, "f32", (rows, length), 1
    yield "shapes", "prod f32 2^28", "prod", "f32", (1 << 28,), None
    for rows, length in ((1000000, 2), (1000000, 32), (1000000, 1024), (4096, 4096)):
        yield "shapes", f"prod f32 {rows} x {length}", "prod", "f32", (rows, length), 1
    yield "shapes", "prod f32 axis 0 of 4096 x 4096", "prod", "f32", (4096, 4096), 0
    for op in ("sum", "max", "var"):
        for columns in (4, 1000, 16384, 1 << 20):
            rows = (1 << 28) // columns
            yield "shapes", f"{op} f32 axis 0 of {rows} x {columns}", op, "f32", (rows, columns), 0
        for shape in ((16, 4096, 4096), (256, 1024, 1024), (65536, 64, 64), (1 << 22, 16, 4)):
            yield "shapes", f"{op} f32 axis 1 of {' x '.join(map(str, shape))}", op, "f32", shape, 1
    for dtype, log2 in (("f32", 28), ("f64", 27)):  # both operands
        for op in ("dot", "wmean"):
            yield "pairs", f"{op} {dtype} 2^{log2}", op, dtype, (2, 1 << log2), None


class Torch:
    name = "torch"

    def __init__(self):
        import torch
        if not torch.cuda.is_available():
            raise ImportError("no CUDA device")
        self.m, self.version = torch, torch.__version__
        self.types = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "i32": torch.int32}
        self.quantiles = torch.tensor(QUANTILES, device="cuda")

    def pool(self, dtype):
        n = POOL // DTYPES[dtype]
        if dtype == NORMAL:
            return self.m.randn(n, device="cuda")
        return self.m.randint(-7, 9, (n,), device="cuda", dtype=self.types[dtype])

    def call(self, op, axis):
        dim = {} if axis is None else {"dim": axis}
        if op == "dot":
            return lambda x: x[0].dot(x[1])
        if op == "wmean":
            return lambda x: (x[0] * x[1]).sum() / x[1].sum()
        if op == "five quantiles":
            return lambda x: x.quantile(self.quantiles)
        if op.startswith("largest"):
            return lambda x: x.topk(int(op.split()[1]), **dim)
        if op.startswith("histogram"):
            return lambda x: x.histc(100, -4, 4)
        if op == "max":
            return lambda x: x.max() if axis is None else x.amax(**dim)
        if op in ("std", "var"):
            return lambda x: getattr(x, op)(correction=0, **dim)
        return lambda x: getattr(x, op)(**dim)

    def event(self):
        return self.m.cuda.Event(enable_timing=True)

    def us(self, begin, end):
        end.synchronize()
        return begin.elapsed_time(end) * 1e3


class Cupy:
    name = "cupy"

    def __init__(self):
        import cupy
        cupy.cuda.runtime.getDeviceCount()
        self.m, self.version = cupy, cupy.__version__
        self.types = {"f32": cupy.float32, "f64": cupy.float64, "f16": cupy.float16, "i32": cupy.int32}

    def pool(self, dtype):
        if dtype == NORMAL:
            return self.m.random.standard_normal(POOL // DTYPES[dtype], dtype="f4")
        pool = self.m.empty(POOL // DTYPES[dtype], dtype=self.types[dtype])
        part = self.m.random.randint(-7, 9, 1 << 20).astype(self.types[dtype])
        pool.reshape(-1, part.size)[:] = part
        return pool

    def call(self, op, axis):
        if op == "dot":
            return lambda x: x[0].dot(x[1])
        if op == "wmean":
            return lambda x: self.m.average(x[0], weights=x[1])
        if op == "median":
            return lambda x: self.m.median(x, axis=axis)
        if op == "five quantiles":
            return lambda x: self.m.quantile(x, self.m.asarray(QUANTILES))
        if op.startswith("largest"):
            return lambda x: self.m.partition(x, x.shape[-1] - int(op.split()[1]), axis=-1)
        if op.startswith("histogram"):
            return lambda x: self.m.histogram(x, 100, (-4, 4))
        return lambda x: getattr(x, op)(axis=axis)

    def event(self):
        return self.m.cuda.Event()

    def us(self, begin, end):
        end.synchronize()
        return self.m.cuda.get_elapsed_time(begin, end) * 1e3


def measure(peer, call, pool, shape, fixed_runs):
    n = math.prod(shape)
    places, samples = max(1, len(pool) // n), []
    begin, end = peer.event(), peer.event()

    def once(i):
        at = i * 1000003 % places * n  # far from the last one
        x = pool[at:at + n].reshape(shape)
        begin.record()
        call(x)
        end.record()
        return peer.us(begin, end)

    warm = [once(i) for i in range(5)]
    runs = fixed_runs or max(LEAST, min(MOST, int(BUDGET_US / min(warm))))
    for i in range(runs):
        samples.append(once(i))
    return samples


def run(peer, args):
    print(f"{peer.name} {peer.version}", flush=True)
    pool, kind = None, None
    for group, name, op, dtype, shape, axis in cases(args.largest):
        n = math.prod(shape)
        if n > 1 << args.largest:
            continue
        if kind != dtype:
            del pool
            pool, kind = peer.pool(dtype), dtype
        call = peer.call(op, axis)
        try:
            samples = measure(peer, call, pool, shape, args.runs)
        except Exception as err:  # a peer's own failure must not end the others
            print(f"{name}: {peer.name} failed: {str(err).splitlines()[0]}", flush=True)
            continue
        m = summary(group, name, peer.name, "us", samples, n * DTYPES[dtype])
        show([m])
        sys.stdout.flush()
        yield m


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--json")
    p.add_argument("--largest", type=int, default=30, help="log2 of elements")
    p.add_argument("--runs", type=int, default=0)
    args = p.parse_args()
    found = []
    for kind in (Torch, Cupy):
        try:
            peer = kind()
        except Exception as err:  # not installed, or no device for it
            print(f"{kind.name}: skipped: {str(err).splitlines()[0]}", flush=True)
            continue
        found += run(peer, args)
        if args.json:
            write_lines(args.json, found)
        del peer
    if args.json:
        write_lines(args.json, found)


if __name__ == "__main__":
    main()
