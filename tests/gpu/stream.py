#!/usr/bin/python3
"""reduced.cuda on a GPU with PyTorch: the values beside those of the package's other ways, graphs, gradients' norms in any grouping, and times.

    B=build/cuda-portable tests/gpu/stream.py [--times [calls|norms|keyed]]
"""
import os
import pathlib
import random
import statistics
import sys
import time

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
            t = t.permute(rng.sample(range(t.dim()), t.dim()))
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


def wide():
    """More results of columns than a reply of the daemon holds; arrays so long that blocks draw their tiles."""
    rng = np.random.default_rng(8)
    for dtype in (np.float16, np.float32, np.float64):
        for shape in ((3, 2_200_003), (8, 2_200_000)):
            host = (rng.standard_normal(shape) * np.exp2(rng.integers(-12, 3, shape))).astype(dtype)
            for name in ("sum", "mean", "norm", "var", "prod", "amax", "argmin", "count_nonzero"):
                got = getattr(reduced.cuda, name)(torch.from_numpy(host).cuda(), 0).cpu().numpy()
                check(np.array_equal(got, host_value(name, host, 0, dtype)), f"{name} of {shape} {dtype.__name__} by columns")
    host = rng.standard_normal((1 << 26) + 5)
    for at, x in ((0, host[0]), (7, 1e300), (host.size - 1, -1e300), (9, np.inf), (11, np.nan)):
        host[at] = x
        for name in ("sum", "mean", "norm", "var"):
            got = getattr(reduced.cuda, name)(torch.from_numpy(host).cuda()).cpu().numpy()
            want = host_value(name, host, None, np.float64)
            check(np.array_equal(got, want, equal_nan=True), f"{name} of 2^26 float64 and {x} at {at}: {got} {want}")


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


def midway():
    """Norms that one element far below the others decides: of a block, of several, of a long tensor, of a list."""
    for n in (1000, 1 << 20, (1 << 24) + 808):
        for last, want in ((0, 2**24), (2**-40, 2**24 + 2)):
            x = torch.zeros(n, device="cuda")
            x[[0, n // 3, n // 2, n - 2, n - 1]] = torch.tensor([2.0**24, 2.0**12, 2.0**12, 1.0, last], device="cuda")
            check(reduced.cuda.norm(x).item() == want, f"a norm of {n} midway")
            check(reduced.cuda.total_norm(list(x.split(n // 7))).item() == want, f"a norm of a list of {n} midway")


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


DEVICE = "cuda"


def equal(got, want):
    have, want = got.cpu().numpy(), np.asarray(want)
    return have.shape == want.shape and np.array_equal(have, want.astype(have.dtype), equal_nan=have.dtype.kind == "f")


def drawn(rng, shape, dtype):
    x = torch.randn(shape, device=DEVICE) * 10 ** rng.choice((0, 0, 4)) * 5
    return x.abs().clamp(max=255).to(dtype) if dtype == torch.uint8 else x > 0 if dtype == torch.bool else x.clamp(-3e4, 3e4).to(dtype)


def pairs(n=250, seed=4):
    """Two operands, of any shapes and strides, beside those of the host; also of a replayed graph."""
    rng = random.Random(seed)
    types = [torch.float32, torch.float64, torch.float16, torch.int32, torch.int64, torch.uint8]
    for i in range(n):
        dtype = rng.choice(types)
        beside = torch.float64 if dtype == torch.float32 and rng.random() < 0.4 else dtype
        shape = [rng.randint(1, rng.choice((3, 40, 300))) for _ in range(rng.randint(1, 4))]
        if np.prod(shape) > 1 << 20:
            continue
        x = drawn(rng, shape, dtype)
        x = x.transpose(0, -1) if rng.random() < 0.3 else x
        a, what = x.cpu().numpy(), f"of {dtype} and {beside}, {tuple(x.shape)} {x.stride()}"
        y, row = drawn(rng, x.shape, beside), drawn(rng, x.shape[-1:], beside)
        check(equal(reduced.cuda.vdot(x, y), reduced.vdot(a, y.cpu().numpy())), f"vdot {what}")
        check(equal(reduced.cuda.dot(x, row), reduced.dot(a, row.cpu().numpy())), f"dot {what}")
        dims = tuple(rng.sample(range(x.dim()), rng.randint(1, x.dim())))
        for of in (x.shape, [x.shape[d] for d in dims]):
            w = drawn(rng, of, beside)
            w = w.abs() + 1 if beside.is_floating_point else w // 8 + 40
            w = w.to(beside)
            check(equal(reduced.cuda.average(x, w, dims), reduced.average(a, axis=dims, weights=w.cpu().numpy())), f"average {what} by {tuple(w.shape)} along {dims}")
    for dtype in types[:2] + types[3:4]:
        for shape in ((2, 100_000), (7, 999), (33, 64), (1, 5), (1000,)):
            x = drawn(rng, shape, dtype)
            a = x.cpu().numpy()
            for name, ours in (("cov", reduced.cuda.cov), ("corrcoef", reduced.cuda.corrcoef)):
                check(equal(ours(x), np.asarray(getattr(reduced, name)(a))), f"{name} of {dtype} {shape}")
            check(torch.allclose(reduced.cuda.cov(x).double(), torch.cov(x.double()), rtol=1e-6, atol=1e-3), f"cov of {dtype} {shape} beside torch's")
    x, y, w = (torch.randint(-9, 9, (40, 50), device=DEVICE).to(torch.bfloat16) for _ in range(3))
    exact = [(x.double() * y.double()).sum(1), x.double().quantile(0.3, 1), (x.double() * w.double().abs()).sum(1) / w.double().abs().sum(1)]
    check(torch.equal(reduced.cuda.vdot(x, y, 1), exact[0].to(torch.bfloat16)), "vdot of bfloat16")
    check(torch.equal(reduced.cuda.average(x, w.abs(), 1), exact[2].to(torch.bfloat16)), "average of bfloat16")
    check(torch.allclose(reduced.cuda.quantile(x, 0.3, 1).double(), exact[1], rtol=0.01), "quantile of bfloat16")
    check(torch.equal(reduced.cuda.topk(x, 7).values, x.topk(7).values), "topk of bfloat16")
    x = torch.randn(1000, device=DEVICE)
    a = x.cpu().numpy()
    y = reduced.cuda.cov(x[:500], x[500:])
    check(equal(y, reduced.cov(a[:500], a[500:])), "cov of two vectors")


def pairs_replayed():
    """Averages in a graph, of other elements and weights each time."""
    x, w = torch.randn(500, 999, device=DEVICE), torch.rand(999, device=DEVICE, dtype=torch.float64)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        reduced.cuda.average(x, w, 1)
    stream.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        y = reduced.cuda.average(x, w, 1)
    for _ in range(5):
        x.normal_(), w.uniform_()
        graph.replay()
        check(equal(y, reduced.average(x.cpu().numpy(), axis=1, weights=w.cpu().numpy())), "averages of a graph replayed")


def ranks(n=150, seed=5):
    """Order statistics beside those of the host, and of elements that differ beside torch's."""
    rng = random.Random(seed)
    for i in range(n):
        dtype = rng.choice([torch.float32, torch.float64, torch.float16, torch.int32, torch.int64, torch.uint8, torch.bool])
        shape = [rng.randint(1, rng.choice((3, 40, 300))) for _ in range(rng.randint(1, 3))]
        if np.prod(shape) > 1 << 20:
            continue
        x = drawn(rng, shape, dtype)
        x = x.transpose(0, -1) if rng.random() < 0.3 else x
        a, axis, what = x.cpu().numpy(), rng.randrange(-1, x.dim()), f"of {dtype} {tuple(x.shape)} {x.stride()}"
        q, method = [rng.random() for _ in range(rng.choice((1, 3, 70)))], rng.choice(("linear", "lower", "nearest", "midpoint", "hazen"))
        for dim in (axis, None):
            if dtype != torch.bool:
                check(equal(reduced.cuda.quantile(x, q, dim, interpolation=method), reduced.quantile(a, q, dim, method=method)), f"{method} {what} along {dim}")
                check(equal(reduced.cuda.quantile(x, 0.1, dim, True), reduced.quantile(a, 0.1, dim, keepdims=True)), f"quantile {what} along {dim}")
        k, largest = rng.randint(1, x.shape[axis]), rng.random() < 0.5
        got, want = reduced.cuda.topk(x, k, axis, largest), reduced.topk(a, k, axis, largest)
        check(equal(got.values, want.values) and equal(got.indices, want.indices), f"topk {what}: {k} along {axis}, {largest}")
        got, want = reduced.cuda.kthvalue(x, k, axis), reduced.kth(a, k - 1, axis, index=True)
        check(equal(got.values, want.value) and equal(got.indices, want.index), f"kthvalue {what}: {k} along {axis}")
        if dtype != torch.bool:
            got = reduced.cuda.histc(x, 1 + i, -7, 9)
            check(equal(got, reduced.histogram(a, np.linspace(-7, 9, 2 + i))[0]), f"histc {what}")
    x = torch.randperm(1 << 20, device=DEVICE).float()
    for name, call in {"topk": lambda m: m.topk(x, 100), "kthvalue": lambda m: m.kthvalue(x, 12345), "histc": lambda m: (m.histc(x, 64, 0, 1 << 20),)}.items():
        check(all(torch.equal(ours, theirs) for ours, theirs in zip(call(reduced.cuda), call(torch))), f"{name} beside torch's")
    check(torch.equal(reduced.cuda.histc(x, 16), reduced.cuda.histc(x, 16, 0, (1 << 20) - 1)), "histc of all")
    columns = torch.randn(3_000_000, 2, device=DEVICE)
    check(equal(reduced.cuda.quantile(columns, 0.9, 0), reduced.quantile(columns.cpu().numpy(), 0.9, 0)), "quantiles of long columns")


def keyed(n=150, seed=2):
    """Values by key beside accumulators of the host."""
    rng = random.Random(seed)
    for _ in range(n):
        dtype, key_type, op = rng.choice(TYPES[:5]), rng.choice((torch.int64, torch.int32, torch.uint8)), rng.choice(reduced.cuda.KEYED_OPS)
        count, groups = rng.randint(1, rng.choice((50, 3000, 200000))), rng.randint(1, rng.choice((3, 200, 30000)))
        groups = min(groups, 256 if key_type == torch.uint8 else groups)
        keys = torch.randint(0, groups, (count,), device=DEVICE).to(key_type)
        x = torch.randn(count, device=DEVICE) * 10 ** rng.choice((0, 0, 5)) * 50
        t = x.abs().to(dtype) if dtype == torch.uint8 else x.to(dtype)
        ddof = 1 if op in ("var", "std", "sem") else None
        found, want = reduced.by_key(keys.cpu().numpy(), t.cpu().numpy(), op, ddof=ddof)
        try:
            got = reduced.cuda.by_key(keys, t, op, groups=groups).cpu().numpy()
        except reduced.errors.EmptyError:
            check(op in reduced.cuda.CHOICES and len(found) < groups, f"{op} by key has no value of a group")
            continue
        nothing = 0 if op in ("sum", "sumsq", "norm2", "count") else np.nan
        want = np.asarray(want)
        every = np.full(groups, nothing, got.dtype) if got.dtype.kind == "f" else np.zeros(groups, got.dtype)
        every[found] = want.astype(got.dtype)
        if got.dtype == np.float32 and want.dtype == np.float64:
            every[found] = reduced.by_key(keys.cpu().numpy(), t.cpu().numpy(), op, dtype=np.float32, ddof=ddof)[1]
        check(np.array_equal(got, every, equal_nan=got.dtype.kind == "f"), f"{op} of {dtype} by {groups} keys of {key_type}, {count} elements")


def added():
    """index_add, scatter_add and bincount: the same bits in any order, and errors of what is outside."""
    for shape, rows, dim in (((40,), (3000,), 0), ((7, 11), (500, 9), 0), ((5, 6, 4), (5, 300, 3), 1), ((), (), 0)):
        x, src = torch.randn(shape, device=DEVICE, requires_grad=True), torch.randn(rows, device=DEVICE, requires_grad=True)
        index = torch.randint(0, shape[dim] if shape else 1, rows, device=DEVICE)
        got, wide = reduced.cuda.scatter_add(x, dim, index, src * 1e3), x.double().scatter_add(dim, index, src.double() * 1e3)
        check(got.shape == x.shape and torch.allclose(got.double(), wide, rtol=1e-6, atol=1e-3), f"scatter_add {shape} along {dim}")
        given = torch.randn(shape, device=DEVICE)
        mine, peer = torch.autograd.grad(got, (x, src), given), torch.autograd.grad(wide, (x, src), given.double())
        check(all(torch.allclose(a, b) for a, b in zip(mine, peer)), f"gradients of scatter_add {shape}")
        turned = torch.autograd.grad(reduced.cuda.index_add(x.reshape(-1), 0, index.reshape(-1) * 0, src.reshape(-1)).sum(), src)[0]
        check(torch.equal(turned, torch.ones_like(src)), f"gradients of index_add {shape}")
    compiled = torch.compile(lambda x, index, src: reduced.cuda.scatter_add(x, 0, index, src) * 2, fullgraph=True)
    x, index, src = torch.randn(9, device=DEVICE), torch.randint(0, 9, (99,), device=DEVICE), torch.randn(99, device=DEVICE)
    check(torch.equal(compiled(x, index, src), reduced.cuda.scatter_add(x, 0, index, src) * 2), "scatter_add in a compiled graph")
    for shape, rows, dim in (((40,), 3000, 0), ((7, 11), 500, 0), ((5, 6, 4), 300, 1)):
        x, index = torch.randn(shape, device=DEVICE), torch.randint(0, shape[dim], (rows,), device=DEVICE)
        source = torch.randn([rows if d == dim else size for d, size in enumerate(shape)], device=DEVICE) * 1e3
        order = torch.randperm(rows, device=DEVICE)
        got = reduced.cuda.index_add(x, dim, index, source)
        again = reduced.cuda.index_add(x, dim, index[order], source.index_select(dim, order))
        wide = x.double().index_add(dim, index, source.double())
        check(got.shape == x.shape and torch.equal(got, again) and torch.allclose(got.double(), wide, rtol=1e-6, atol=1e-3), f"index_add {shape} along {dim}")
    keys, weights = torch.randint(0, 99, (5000,), device=DEVICE), torch.randn(5000, device=DEVICE, dtype=torch.float64)
    check(torch.equal(reduced.cuda.bincount(keys, minlength=120), torch.bincount(keys, minlength=120)), "bincount")
    check(np.array_equal(reduced.cuda.bincount(keys, weights).cpu().numpy(), reduced.bincount(keys.cpu().numpy(), weights.cpu().numpy())), "weighted bincount")
    for call in (lambda: reduced.cuda.by_key(keys, weights, groups=50), lambda: reduced.cuda.index_add(weights[:5], 0, keys, weights),
                 lambda: reduced.cuda.scatter_add(weights[:5], 0, keys, weights)):
        try:
            call()
            check(False, "a key outside was taken")
        except IndexError:
            check(True, "outside")
    inside = keys < 50
    got, want = reduced.cuda.by_key(keys, weights, groups=50, outside="drop"), reduced.cuda.by_key(keys[inside], weights[inside], groups=50)
    check(torch.equal(got, want), "keys outside are dropped")


def gradients():
    """Beside those of PyTorch; and whole graphs of torch.compile."""
    x = torch.randn(6, 5, 4, device=DEVICE, dtype=torch.float64, requires_grad=True)
    for name in ("sum", "mean", "var", "std", "norm"):
        for kw in ({"dim": None}, {"dim": 1}, {"dim": (0, 2), "keepdim": True}):
            check(torch.autograd.gradcheck(lambda a: getattr(reduced.cuda, name)(a, **kw), (x,)), f"the gradient of {name} {kw}")
    for name in ("amax", "median"):
        try:
            getattr(reduced.cuda, name)(x)
            check(False, f"a gradient of {name}")
        except RuntimeError as e:
            check("no gradient" in str(e), f"{name}: {e}")
    check(not reduced.cuda.argmax(x, 0).requires_grad, "places have no gradient")
    torch.library.opcheck(torch.ops.reduced.reduce.default, (x, "var", [1], False, None, "propagate", 1))
    made = torch.compile(lambda a: reduced.cuda.sum(a * 2, dim=1) + 1, fullgraph=True, backend=os.environ.get("COMPILER", "inductor"))
    check(torch.equal(made(x.detach()), reduced.cuda.sum(x.detach() * 2, dim=1) + 1), "torch.compile")
    y = made(x)
    y.sum().backward()
    check(torch.equal(x.grad, torch.full_like(x, 2)), "the gradient of a compiled call")


def others():
    """Arrays of CuPy, JAX and Numba, where they are."""
    host = np.random.default_rng(3).standard_normal((40, 30)).astype(np.float32)
    for name, make in {"cupy": lambda m: m.asarray(host), "jax": lambda m: m.device_put(host), "numba.cuda": lambda m: m.to_device(host)}.items():
        try:
            array = make(__import__(name, fromlist=["x"]))
        except Exception as e:  # not there, or without a device of its own
            print(f"without {name}: {type(e).__name__}")
            continue
        for got, want in ((reduced.cuda.sum(array, 1), reduced.sum(host, axis=1, dtype=np.float32)), (reduced.cuda.topk(array, 4).indices, reduced.topk(host, 4).indices),
                          (reduced.cuda.average(array, array, 1), reduced.average(host, 1, host))):
            there = np.asarray(got.get() if name == "cupy" else got.copy_to_host() if name == "numba.cuda" else got)
            check(np.array_equal(there, want) and type(got).__module__.split(".")[0] == type(array).__module__.split(".")[0], f"an array of {name}")


def refusals():
    x = torch.randn(10, device="cuda")
    for what, call in {"a tensor of the host": lambda: reduced.cuda.sum(torch.ones(3)), "a list": lambda: reduced.cuda.sum([1.0]),
                       "a dimension": lambda: reduced.cuda.sum(x, 1), "a type": lambda: reduced.cuda.sum(torch.ones(3, dtype=torch.complex64, device="cuda"))}.items():
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


def until_item(call):
    """Wall time of a call and of what reads its result, us: the median of 300."""
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        call().item()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def calls_times():
    """Device time by graphs of twenty calls; then calls as they are; of small tensors also until the value is read."""
    for name, peer in {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "argmax": torch.argmax, "var": torch.var, "norm": torch.linalg.vector_norm}.items():
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
            for log in (10, 16, 20, 24, 27 if dtype == torch.float64 else 28):
                x = torch.randn(1 << log, device="cuda", dtype=dtype)
                ours = getattr(reduced.cuda, name)
                calls = 2 if log > 24 else 10
                a, b = (median_us(graphed(lambda f=f: f(x)), 5, calls) / 20 for f in (ours, peer))
                c, d = (median_us(lambda f=f: f(x), 5, 10 * calls) for f in (ours, peer))
                print(f"{name:7} {str(dtype)[6:]:9} 2^{log}: {a:8.1f} {b:8.1f} {a / b:5.2f} | {c:8.1f} {d:8.1f} {c / d:5.2f}", end="", flush=True)
                e, f = (until_item(lambda f=f: f(x)) if log == 10 else 0 for f in (ours, peer))
                print(f" | {e:8.1f} {f:8.1f} {e / f:5.2f}" if f else "", flush=True)


def norms_times():
    for what, dtype, sizes in (("148 tensors, 3.2 GB f32", torch.float32, [5_400_000] * 148), ("500 tensors, 3 GB bf16", torch.bfloat16, [3_000_000] * 500),
                               ("148 tensors, 3.2 GB f32, of unlike lengths", torch.float32, [1000 + 148_000 * (i % 74) for i in range(148)]),
                               ("148 tensors of 1000 f32", torch.float32, [1000] * 148)):
        grads = [torch.randn(n, device="cuda", dtype=dtype) for n in sizes]
        a, b = (median_us(graphed(lambda f=f: f(grads)), 5, 1) / 20 for f in (reduced.cuda.total_norm, torch.nn.utils.get_total_norm))
        c, d = (median_us(lambda f=f: f(grads), 5, 3) for f in (reduced.cuda.total_norm, torch.nn.utils.get_total_norm))
        print(f"norm of {what}: {a:.0f} {b:.0f} {a / b:.2f} | {c:.0f} {d:.0f} {c / d:.2f}", flush=True)
        del grads


def keyed_times():
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(1 << 27, device="cuda", dtype=dtype)
        for groups in (100, 10_000, 1_000_000):
            for order, keys in {"random": torch.randint(0, groups, x.shape, device="cuda"), "sorted": torch.arange(len(x), device="cuda") * groups // len(x)}.items():
                zeros = torch.zeros(groups, device="cuda", dtype=dtype)
                a = median_us(lambda: reduced.cuda.by_key(keys, x, groups=groups, outside="drop"), 5, 2)
                b, c = (median_us(f, 5, 2) for f in (lambda: zeros.index_add(0, keys, x), lambda: torch.bincount(keys, x, groups)))
                print(f"by key {str(dtype)[6:]:8} 2^27, {groups:8} {order} keys: {a:.0f}, index_add {b:.0f}, bincount {c:.0f}", flush=True)
                others = [(op, lambda op=op: reduced.cuda.by_key(keys, x, op, groups=groups, outside="drop")) for op in ("mean", "var", "norm2", "max", "argmax")]
                others += [(f.__name__, lambda f=f: f(zeros, 0, keys, x)) for f in (reduced.cuda.index_add, reduced.cuda.scatter_add)]
                print("    " + ", ".join(f"{name} {median_us(call, 3, 1):.0f}" for name, call in others), flush=True)


if __name__ == "__main__":
    if "--times" in sys.argv:
        print(f"{torch.cuda.get_device_name(0)}, us a call: ours, torch, ratio; replayed in a graph; each call by itself; of 2^10 until .item()")
        for times in [f for f in (calls_times, norms_times, keyed_times) if sys.argv[-1] in ("--times", f.__name__[:-6])]:
            times()
    else:
        for part in (values, wide, wrapped, graphs, norms, midway, streams, pairs, pairs_replayed, ranks, keyed, added, gradients, others, refusals):
            part()
        print(f"stream: {passed} passed, {failed} failed")
        sys.exit(failed != 0)
