#!/usr/bin/env python3
"""The Python package on a GPU: tensors of PyTorch, CuPy, JAX and Numba of every type, in place; and times beside torch and cupy.

    REDUCED_URL=... REDUCED_LIBRARY=.../libreduce.so PYTHONPATH=client/python tests/gpu/python.py [--libraries torch,numba]
        [--stages] [--times] [--powers 10,28] [--seconds S] [--no-checks] [--json FILE]

--stages: what a sum of a tensor of PyTorch takes, part by part. --times: every operation and size, with torch's and cupy's own in turn;
S seconds for each. Without REDUCED_URL a private daemon is started; it must have the GPU. Exit 77: none of these libraries is
installed. A warning about a copy is an error."""
import argparse
import ctypes
import importlib
import json
import math
import statistics
import sys
import time
import warnings

import numpy as np

import reduced
from reduced import _client, _device, _plan, _run

SHAPE = (37, 50, 20)
TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
AXES = [None, 0, 1, 2, (0, 1), (1, 2)]
REAL = ("sum", "mean", "std", "min", "max", "argmax", "count_nonzero", "norm")
COMPLEX = ("sum", "mean", "std", "norm")


def numbers(dtype):
    """Elements of a type that have the same value in all of them."""
    a = np.random.default_rng(7).integers(0, 2 if dtype == "bool" else 5, SHAPE)
    return a + 1j * a[::-1] if dtype.startswith("complex") else a


class Torch:
    def __init__(self):
        self.lib = importlib.import_module("torch")
        assert self.lib.cuda.is_available()

    def make(self, a, dtype):
        torch = self.lib
        wide = torch.from_numpy(a.copy()).cuda()
        return wide.to(getattr(torch, dtype)) if hasattr(torch, dtype) else None

    transposed = staticmethod(lambda t: t.permute(2, 1, 0))
    wait = property(lambda self: self.lib.cuda.synchronize)


class Cupy:
    def __init__(self):
        self.lib = importlib.import_module("cupy")

    def make(self, a, dtype):
        return None if dtype == "bfloat16" else self.lib.asarray(a.astype(dtype))

    transposed = staticmethod(lambda t: t.transpose(2, 1, 0))
    wait = property(lambda self: self.lib.cuda.Device().synchronize)


class Jax:
    def __init__(self):
        self.lib = importlib.import_module("jax")
        self.lib.config.update("jax_enable_x64", True)
        assert self.lib.default_backend() == "gpu"

    def make(self, a, dtype):
        return self.lib.numpy.asarray(a).astype(dtype).block_until_ready()

    transposed = None


class Numba:
    def __init__(self):
        self.lib = importlib.import_module("numba.cuda")

    def make(self, a, dtype):
        return None if dtype == "bfloat16" else self.lib.to_device(a.astype(dtype))

    transposed = None  # Numba transposes matrices only


LIBRARIES = {"torch": Torch, "cupy": Cupy, "jax": Jax, "numba": Numba}


def same(ours, wanted):
    return np.array_equal(np.asarray(ours).astype(np.complex128), np.asarray(wanted).astype(np.complex128))


def check(name, library):
    """Every type, axis and order against the same elements in memory."""
    done = []
    for dtype in TYPES:
        a = numbers(dtype)
        host = a if dtype == "bfloat16" else a.astype(dtype)
        if dtype == "bfloat16":
            host = host.astype("f4")  # small numbers: the values are the same, but results are not rounded to bfloat16
        t = library.make(a, dtype)
        if t is None:
            continue
        for op in COMPLEX if dtype.startswith("complex") else REAL:
            for axis in AXES:
                if op == "argmax" and isinstance(axis, tuple) or dtype == "bfloat16" and axis is not None and op in ("sum", "mean", "std", "norm"):
                    continue
                if dtype.startswith("complex") and op == "norm" and axis in (0, 1, (0, 1)):
                    continue  # both parts of a number are reduced, but not what lies between two numbers: by copy
                assert same(getattr(reduced, op)(t, axis=axis), getattr(reduced, op)(host, axis=axis)), (name, dtype, op, axis)
        if library.transposed and (turned := library.transposed(t)) is not None:
            assert same(reduced.sum(turned, axis=0), reduced.sum(host.transpose(2, 1, 0), axis=0)), (name, dtype, "transposed") if dtype != "bfloat16" else True
        done.append(dtype)
    print(f"{name}: {len(done)} types in place: {' '.join(done)}")


def streams(library):
    """Work that is still running on a stream of PyTorch is waited for."""
    torch = library.lib
    x = torch.zeros(1 << 26, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(50):
            x += 1
        assert reduced.min(x) == 50.0 == reduced.max(x)
    print("torch: a stream's writes are seen")


def copies(library):
    """Odd strides, and axes with others between them, go by a copy on the GPU, without a warning."""
    a = numbers("float32")
    t = library.make(a, "float32")
    for _ in range(2):
        assert reduced.sum(t[:, ::2]) == reduced.sum(a[:, ::2])
        assert np.array_equal(reduced.sum(t, (0, 2)), reduced.sum(a, (0, 2)))
    print("torch: other axes and strides are copied on the GPU")


def masks(name, library):
    """Of a mask that is here or there, in place: the elements and their mask are copied on the GPU alone."""
    a = np.random.default_rng(3).standard_normal((370, 50, 80)).astype("f4")  # not below _device.LEAST_JOINED
    keep = a > 0.5
    keep[3] = False
    t, m = library.make(a, "float32"), library.make(keep, "bool")
    for op in ("sum", "mean", "std", "argmax", "count_nonzero", "norm", "stats", "minmax"):
        f = getattr(reduced, op)
        for axis in (None, 2, (0, 1)) if op not in ("argmax", "minmax", "stats") else (None, 1):
            wide = keep if op not in ("argmax", "minmax") else keep | (np.arange(a.shape[1]) == 7)[:, None]
            there = m if wide is keep else library.make(wide, "bool")
            for where in (wide, there):
                ours, theirs = f(t, axis=axis, where=where), f(a, axis=axis, where=wide)
                assert np.array_equal(np.asarray(ours, "f8"), np.asarray(theirs, "f8"), equal_nan=True), (name, op, axis)
    assert reduced.sum(t, where=keep[0]) == reduced.sum(a, where=keep[0])  # broadcast
    print(f"{name}: masks on the GPU")


def masked_times(library):
    """us of a masked sum where all is there, beside PyTorch's own by a copy of what counts."""
    torch = library.lib
    for power in (10, 19, 20, 24, 28):
        x = torch.randn(1 << power, device="cuda")
        m = x > 0
        host = m.cpu().numpy()
        print(f"masked sum 2^{power:<3} mask there {median_us(lambda: reduced.sum(x, where=m), library.wait):.1f} us, here "
              f"{median_us(lambda: reduced.sum(x, where=host), library.wait):.1f} us   torch x[m].sum() "
              f"{median_us(lambda: x[m].sum().item(), library.wait):.1f} us", flush=True)


seconds = 0.3  # for each median


def segments(name, library):
    """Long segments where they lie, short ones by a copy with a warning."""
    n = 1 << 18
    a = (np.arange(n) % 1000).astype("f4")
    t, cuts = library.make(a, "float32"), [5, 100_000, 100_000, n - 3]
    for op in ("sum", "std", "argmax", "norm"):
        f = getattr(reduced, op)
        if op == "argmax":  # of no elements there is none
            assert same(f(t, offsets=[5, 100_000, n - 3]), f(a, offsets=[5, 100_000, n - 3])), (name, op)
        else:
            assert np.array_equal(f(t, offsets=cuts), f(a, offsets=cuts), equal_nan=True), (name, op)
    print(f"{name}: segments in place")


def all_us(f, wait):
    f()
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(took) < 3:
        wait()
        start = time.perf_counter()
        f()
        took.append((time.perf_counter() - start) * 1e6)
    return sorted(took)


def median_us(f, wait):
    return statistics.median(all_us(f, wait))


def stages(library):
    """us of the parts of a sum of float32 that are there already. What is not the kernel is to be at most 60 us up to 2^20."""
    torch, client = library.lib, _client.default()
    rows, idle = [], lambda: None  # each call waits for its own work
    for power in (10, 16, 20, 24, 28, 30):
        x = torch.ones(1 << power, device="cuda")
        p = _plan.plan("sum", x)
        t, spec, result, cells = _device.tensor(x), ctypes.byref(p.spec), ctypes.byref(p.result), p.cells.ctypes.data
        handle, offset = _device.handle_of(client, t.pointer, t.nbytes, t.number)
        kernels, theirs = [], [torch.cuda.Event(enable_timing=True) for _ in range(2)]

        def call():
            client.call("reduce_device", spec, handle, offset, t.nbytes, cells, 8, result)
            kernels.append(p.result.compute_ns / 1e3)

        def peer():
            theirs[0].record()
            found = x.sum()
            theirs[1].record()
            return found.item()
        calls = all_us(call, idle)
        peer()
        torch.cuda.synchronize()
        row = {"n": 1 << power, "whole": median_us(lambda: reduced.sum(x), idle), "peer": median_us(lambda: x.sum().item(), idle),
               "peers_kernel": theirs[0].elapsed_time(theirs[1]) * 1e3,
               "tensor": median_us(lambda: _device.tensor(x), idle), "plan": median_us(lambda: _plan.plan("sum", x), idle),
               "handle": median_us(lambda: _device.handle_of(client, t.pointer, t.nbytes, t.number), idle),
               "call": statistics.median(calls), "call_p90": calls[len(calls) * 9 // 10], "kernel": statistics.median(kernels),
               "queued": p.result.queue_ns / 1e3}
        row["beyond"] = row["whole"] - row["kernel"]
        rows.append(row)
        print(f"2^{power:<3}" + "".join(f" {k} {v:.1f}" for k, v in row.items() if k != "n"), flush=True)
    ping = median_us(client.ping, idle)
    print(f"ping {ping:.1f} us; all figures us; tensor is a part of plan, kernel and queued are parts of call", flush=True)
    return rows


def freed(library):
    """Small allocations of a block that were freed while the daemon had them open, and others where they lay."""
    numba = library.lib
    for size in (1000, 30_000, 5000, 100_000, 77):
        arrays = [numba.to_device(np.full(size, i + 1, "f4")) for i in range(20)]
        assert [reduced.max(a) for a in arrays] == list(range(1, 21))
        del arrays
        numba.current_context().deallocations.clear()
    print("numba: allocations where freed ones lay")


OPS = ("sum", "var", "std", "argmax", "norm", "norm 1", "norm inf", "max", "stats")
ORDERS = {"norm": 2, "norm 1": 1, "norm inf": math.inf}
BLOCK = 10  # calls of one library in turn: the GPU takes some 0.2 ms to change between the contexts of two processes


def kernel_us(op, x):
    """What the GPU works for a reduction of x, by the daemon's clock."""
    cells = (lambda found, *_: found) if op == "stats" else None  # its values as they come
    p, took = _plan.plan(f"norm{ORDERS[op]}" if op in ORDERS else op, x, make=cells), []
    for _ in range(20):
        _run.run(p, _client.default())
        took.append(p.result.compute_ns / 1e3)
    return statistics.median(took)


def in_turn(calls, wait):
    """The median of each call, in us, of blocks in turn; a block's first call is not counted."""
    took, end = {name: [] for name in calls}, time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or min(map(len, took.values())) < 3:
        for name, f in calls.items():
            start = time.perf_counter()
            f()
            for _ in range(BLOCK if time.perf_counter() - start < 0.01 else 1):
                wait()
                start = time.perf_counter()
                f()
                took[name].append((time.perf_counter() - start) * 1e6)
    return {name: statistics.median(t) for name, t in took.items()}


def their_stats(x):
    """What reduced.stats gives, but the counts, by a library's own functions."""
    return [f().item() for f in (x.min, x.max, x.argmin, x.argmax, x.sum, x.mean, x.var)]


def times(libraries, powers):
    """us of a call that returns a Python number, for float32 that are there already, of all libraries in turn."""
    rows = []
    for power in powers:
        tensors = {}
        for name, library in libraries.items():
            m = library.lib
            tensors[name] = m.randn(1 << power, device="cuda") if name == "torch" else m.random.standard_normal(1 << power, dtype=m.float32)
        for op in OPS:
            calls = {}
            for name, x in tensors.items():
                m, order = libraries[name].lib, ORDERS.get(op)
                if order:
                    calls[f"reduced of {name}'s"] = lambda x=x: reduced.norm(x, order)
                    calls[name] = lambda m=m, x=x: m.linalg.norm(x, order).item()
                else:
                    f, peer = getattr(reduced, op), getattr(m, op, None)
                    calls[f"reduced of {name}'s"] = lambda f=f, x=x: f(x)
                    calls[name] = (lambda peer=peer, x=x: peer(x).item()) if peer else lambda x=x: their_stats(x)
            kernel = kernel_us(op, next(iter(tensors.values())))
            found = in_turn(calls, next(iter(libraries.values())).wait)
            rows.append({"op": op, "n": 1 << power, "kernel_us": kernel, **found})
            beyond = " ".join(f"{found[name] - kernel:.0f}" for name in found if name.startswith("reduced"))
            print(f"2^{power:<3} {op:7} kernel {kernel:8.1f}   " + "   ".join(f"{name} {us:8.1f}" for name, us in found.items())
                  + f"   beyond the kernel {beyond}", flush=True)
        del tensors, calls, x
    return rows


MORE = {"torch": (streams, copies), "numba": (freed,)}


def main():
    global seconds
    p = argparse.ArgumentParser()
    p.add_argument("--libraries", type=lambda names: names.split(","), default=list(LIBRARIES))
    p.add_argument("--stages", action="store_true")
    p.add_argument("--times", action="store_true")
    p.add_argument("--powers", type=lambda powers: [*map(int, powers.split(","))], default=range(10, 31, 2), help="of two: how many elements")
    p.add_argument("--seconds", type=float, default=seconds)
    p.add_argument("--no-checks", action="store_true", help="figures only")
    p.add_argument("--json")
    o = p.parse_args()
    seconds = o.seconds
    warnings.simplefilter("error", RuntimeWarning)
    found, rows, there = 0, [], {}
    for name in o.libraries:
        try:
            library = LIBRARIES[name]()
        except (ImportError, AssertionError, RuntimeError, OSError) as e:
            print(f"{name}: not here ({e})")
            continue
        found += 1
        if not o.no_checks:
            check(name, library)
            segments(name, library)
            masks(name, library)
            for more in MORE.get(name, ()):
                more(library)
        if o.stages and name == "torch":
            rows += stages(library)
            masked_times(library)
        there[name] = library
    if o.times and (peers := {name: there[name] for name in ("torch", "cupy") if name in there}):
        rows += times(peers, o.powers)
    if o.json:
        with open(o.json, "w") as f:
            json.dump(rows, f, indent=1)
    return 0 if found else 77


if __name__ == "__main__":
    sys.exit(main())
