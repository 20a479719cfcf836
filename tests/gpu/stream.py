#!/usr/bin/python3
"""reduced.cuda on a GPU with PyTorch: the values beside those of the package's other ways, graphs, gradients' norms in any grouping, and times.

    B=build/cuda-portable tests/gpu/stream.py [--times]
"""
import os
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / os.environ.get("B", "build/cuda")
os.environ.setdefault("REDUCED_LIBRARY", str(BUILD / "lib/libreduce.so.0"))
os.environ.setdefault("REDUCED_CUDA_LIBRARY", str(BUILD / "lib/libreduce-cuda.so"))
sys.path.insert(0, str(ROOT / "client/python"))

import numpy as np  # noqa: E402
import torch  # noqa: E402

import reduced  # noqa: E402
import reduced.cuda  # noqa: E402

TYPES = [torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bool, torch.int16]
OPS = {"sum": reduced.sum, "mean": reduced.mean, "var": reduced.var, "std": reduced.std, "amin": reduced.min, "amax": reduced.max, "argmin": reduced.argmin,
       "argmax": reduced.argmax, "count_nonzero": reduced.count_nonzero, "median": reduced.median, "norm": reduced.norm, "prod": reduced.prod}
passed = failed = 0


def check(right, what):
    global passed, failed
    passed, failed = passed + bool(right), failed + (not right)
    if not right:
        print("FAIL", what, flush=True)


def host_value(name, a, axis, out):
    kw = {"ddof": 1} if name in ("var", "std") else {}
    if out is not None and name in ("sum", "mean", "var", "std", "prod"):
        kw["dtype"] = out
    return OPS[name](a, axis=axis, **kw)


def values(n=400, seed=1):
    rng = random.Random(seed)
    for i in range(n):
        dtype, name = rng.choice(TYPES), rng.choice(list(OPS))
        shape = [rng.randint(1, rng.choice((3, 40, 200))) for _ in range(rng.randint(1, 4))]
        if name in ("norm", "prod") and not dtype.is_floating_point:
            continue
        x = torch.randn(shape, device="cuda") * 50
        t = x > 0 if dtype == torch.bool else x.abs().to(dtype) if dtype == torch.uint8 else x.to(dtype)
        if rng.random() < 0.3 and t.dim() > 1:
            t = t.transpose(0, -1)
        axes = tuple(sorted(rng.sample(range(t.dim()), rng.randint(1, t.dim()))))
        if name in ("argmin", "argmax", "median", "norm"):
            axes = axes[:1]
        dim = axes[0] if len(axes) == 1 else axes
        got = getattr(reduced.cuda, name)(t, dim)
        out = {torch.float32: np.float32, torch.float64: np.float64}.get(got.dtype)
        want = np.asarray(host_value(name, t.cpu().numpy(), dim, out))
        have = got.cpu().numpy()
        same = have.shape == want.shape and (np.array_equal(have, want.astype(have.dtype), equal_nan=have.dtype.kind == "f"))
        check(same, f"{name} of {dtype} {tuple(t.shape)}, dim {dim}: {have.ravel()[:3]} {want.ravel()[:3]}")


def wrapped():
    """What does not fit 64 bits leaves its low word, as PyTorch's."""
    for dtype, most in ((torch.int64, 2**63 - 1), (torch.int64, -2**63), (torch.uint8, 255), (torch.int32, -2**31)):
        for shape, dim in (((1000,), None), ((3, 1000), 1), ((1000, 3), 0), ((1 << 20,), None)):
            t = torch.full(shape, most, dtype=dtype, device="cuda")
            for name in ("sum", "prod"):
                got, want = getattr(reduced.cuda, name)(t, dim), getattr(torch, name)(t.cpu(), *(() if dim is None else (dim,)))
                check(torch.equal(got.cpu(), want), f"{name} of {dtype} {most} {shape}: {got.ravel()[:3]} {want.ravel()[:3]}")


def graphs():
    x = torch.randn(1 << 20, device="cuda")
    reduced.cuda.prepare("sum", x)
    reduced.cuda.sum(x)
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        reduced.cuda.sum(x)
    stream.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        y = reduced.cuda.sum(x)
    right = 0
    for i in range(1000):
        x.normal_()
        graph.replay()
        right += y.item() == reduced.sum(x.cpu().numpy(), dtype=np.float32) if i % 100 == 0 else torch.isfinite(y).item()
    check(right == 1000, f"a graph replayed: {right} of 1000")


def norms():
    grads = [torch.randn(n, device="cuda") for n in (1000, 7, 123456, 1, 65536)]
    all_in_one = torch.cat(grads)
    bits = {reduced.cuda.total_norm(g).item() for g in (grads, [all_in_one], list(all_in_one.split(777)), grads[::-1])}
    check(len(bits) == 1 and bits == {float(reduced.cuda.norm(all_in_one))}, f"norms of any grouping: {bits}")
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        some = [g.to(dtype) for g in grads]
        bits = {reduced.cuda.total_norm(g).item() for g in (some, [torch.cat(some)], some[::-1])}
        check(bits == {float(reduced.cuda.norm(torch.cat(some)))}, f"norms of {dtype} of any grouping: {bits}")
    bits = {reduced.cuda.total_norm(grads).item()}
    close = torch.nn.utils.get_total_norm(grads).item() if hasattr(torch.nn.utils, "get_total_norm") else all_in_one.norm().item()
    check(abs(close / bits.pop() - 1) < 1e-5, "a norm beside torch's")

    def train(groups):
        torch.manual_seed(1)
        w = torch.randn(512, 64, device="cuda")
        parts = [torch.nn.Parameter(p.clone()) for p in w.chunk(groups)]
        for _ in range(50):
            for p in parts:  # of each weight alone, so that the norm is all that could depend on the groups
                p.grad = torch.sin(p.detach() * 3)
            reduced.cuda.clip_grad_norm_(parts, 1.0)
            with torch.no_grad():
                for p in parts:
                    p -= 0.1 * p.grad
        return torch.cat([p.detach() for p in parts])

    one = train(1)
    check(all(torch.equal(one, train(g)) for g in (2, 4)), "a model trained 50 steps with 1, 2, 4 groups of gradients")


def streams():
    found, xs = [], [torch.randn(1 << 18, device="cuda") for _ in range(8)]
    torch.cuda.synchronize()
    many = [torch.cuda.Stream() for _ in range(8)]
    for _ in range(200):
        for s, x in zip(many, xs):
            with torch.cuda.stream(s):
                found.append(reduced.cuda.var(x))
    torch.cuda.synchronize()
    check(all(len({v.item() for v in found[k::8]}) == 1 for k in range(8)), "eight streams at once")


def refusals():
    x = torch.randn(10, device="cuda", requires_grad=True)
    for what, call in {"a tensor of the host": lambda: reduced.cuda.sum(torch.ones(3)), "a gradient": lambda: reduced.cuda.sum(x),
                       "a dimension": lambda: reduced.cuda.sum(x.detach(), 1), "a type": lambda: reduced.cuda.sum(torch.ones(3, dtype=torch.complex64, device="cuda"))}.items():
        try:
            call()
            check(False, f"{what} was taken")
        except (TypeError, RuntimeError, IndexError):
            check(True, what)


def median_us(f, rounds=9, calls=50):
    begin, end, found = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True), []
    for _ in range(3):
        f()
    for _ in range(rounds):
        begin.record()
        for _ in range(calls):
            f()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) * 1000 / calls)
    return sorted(found)[rounds // 2]


def graphed(f):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        f()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(20):
            f()
    return lambda: graph.replay()


def times():
    """Device time by graphs of twenty calls; then calls as they are."""
    print(f"{torch.cuda.get_device_name(0)}, us a call: ours, torch, ratio; replayed in a graph; then each call by itself")
    for name, peer in {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "argmax": torch.argmax, "var": torch.var, "norm": torch.linalg.vector_norm}.items():
        for dtype in (torch.float32, torch.bfloat16):
            for log in (10, 16, 20, 24, 28):
                x = torch.randn(1 << log, device="cuda", dtype=dtype)
                ours = getattr(reduced.cuda, name)
                calls = 2 if log == 28 else 10
                a, b = (median_us(graphed(lambda f=f: f(x)), 5, calls) / 20 for f in (ours, peer))
                c, d = (median_us(lambda f=f: f(x), 5, 10 * calls) for f in (ours, peer))
                print(f"{name:7} {str(dtype)[6:]:9} 2^{log}: {a:8.1f} {b:8.1f} {a / b:5.2f} | {c:8.1f} {d:8.1f} {c / d:5.2f}", flush=True)
    for what, dtype, sizes in (("148 tensors, 3.2 GB f32", torch.float32, [5_400_000] * 148), ("500 tensors, 3 GB bf16", torch.bfloat16, [3_000_000] * 500),
                               ("148 tensors, 3.2 GB f32, of unlike lengths", torch.float32, [1000 + 148_000 * (i % 74) for i in range(148)]),
                               ("148 tensors of 1000 f32", torch.float32, [1000] * 148)):
        grads = [torch.randn(n, device="cuda", dtype=dtype) for n in sizes]
        a, b = (median_us(graphed(lambda f=f: f(grads)), 5, 1) / 20 for f in (reduced.cuda.total_norm, torch.nn.utils.get_total_norm))
        c, d = (median_us(lambda f=f: f(grads), 5, 3) for f in (reduced.cuda.total_norm, torch.nn.utils.get_total_norm))
        print(f"norm of {what}: {a:.0f} {b:.0f} {a / b:.2f} | {c:.0f} {d:.0f} {c / d:.2f}", flush=True)
        del grads


if __name__ == "__main__":
    if "--times" in sys.argv:
        times()
    else:
        for part in (values, wrapped, graphs, norms, streams, refusals):
            part()
        print(f"stream: {passed} passed, {failed} failed")
        sys.exit(failed != 0)
