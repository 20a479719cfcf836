"""Two operands and order statistics of reduced.cuda without a GPU: a stand-in of PyTorch on NumPy's arrays, and of libreduce-cuda that has
libreduce reduce the same memory by the same spec. So a wrong pointer, shape or extent is a wrong value. On a GPU tests/gpu/stream.py."""
import concurrent.futures
import ctypes
import itertools
import math
import pathlib
import sys
import threading
import types

import numpy as np
import pytest

from conftest import libreduce_path
from test_python_stream import TYPES, Type

NUMBERS = ["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"]


def host(x):
    return x.a if isinstance(x, Tensor) else x


def named(dtype):
    return getattr(sys.modules["torch"], dtype.name)


def promoted(a, b):
    """As PyTorch: an integer beside a float becomes this float."""
    floats = [t for t in (a, b) if t.is_floating_point]
    return floats[0] if len(floats) == 1 else named(np.promote_types(a.name, b.name))


class Tensor:
    """An array with the names of a tensor."""
    is_cuda, device = True, "cuda:0"

    def __init__(self, a, grad=False):
        self.a, self.requires_grad = np.asarray(a), grad

    shape = property(lambda self: self.a.shape)
    dtype = property(lambda self: named(self.a.dtype))
    numel = property(lambda self: lambda: self.a.size)
    dim = property(lambda self: lambda: self.a.ndim)

    def permute(self, order):
        return Tensor(self.a.transpose(order))

    def contiguous(self):
        return self if self.is_contiguous() else Tensor(np.array(self.a, order="C"))

    def is_contiguous(self):
        return self.a.flags.c_contiguous

    def new_empty(self, shape, dtype=None):
        return Tensor(np.full(shape, 77, (dtype or self.dtype).name))

    def new_empty_strided(self, shape, strides, dtype=None):
        flat = np.full(math.prod(shape), 77, (dtype or self.dtype).name)
        return Tensor(np.lib.stride_tricks.as_strided(flat, shape, [n * flat.itemsize for n in strides]))

    def stride(self):
        return self.a.strides

    itemsize = property(lambda self: self.a.itemsize)

    def detach(self):
        return self

    def get_device(self):
        return 0

    def data_ptr(self):
        return self.a.ctypes.data

    def to(self, dtype):
        return Tensor(self.a.astype(dtype.name))

    def view(self, dtype):
        return Tensor((self.a if dtype.itemsize == self.a.itemsize else np.ascontiguousarray(self.a)).view(dtype.name))

    def reshape(self, *shape):
        return Tensor(self.a.reshape(*shape))

    def split(self, n):
        return [Tensor(self.a[i:i + n]) for i in range(0, self.a.size, n)]

    def movedim(self, a, b):
        return Tensor(np.moveaxis(self.a, a, b))

    def squeeze(self, *axis):
        return Tensor(self.a.squeeze(axis or None))

    def __getitem__(self, at):
        return Tensor(self.a[at])

    def __setitem__(self, at, value):
        self.a[at] = host(value)

    def __eq__(self, other):
        return Tensor(self.a == host(other))

    def __and__(self, other):
        return Tensor(self.a & host(other))

    def __or__(self, other):
        return Tensor(self.a | host(other))

    def __float__(self):
        return float(self.a)


class Library:
    """Answers as libreduce-cuda would, for memory of the host."""

    def __init__(self, lib, client):
        self.lib, self.client, self.specs = lib, client, []

    def reduce_cuda_result_size(self, spec, count, room):
        from reduced import _abi
        s = _abi.Spec.from_address(spec)
        return self.lib.reduce_result_size(spec, count * self.lib.reduce_dtype_size(s.dtype), room)

    def reduce_cuda_again(self, at, data, out):
        import reduced.cuda
        from reduced import _abi
        call = reduced.cuda._Kept.from_address(at)
        spec = _abi.Spec.from_address(call.spec)
        self.specs.append(_abi.Spec.from_buffer_copy(spec))
        return self.lib.reduce_run(self.client, call.spec, data, call.count * self.lib.reduce_dtype_size(spec.dtype), out, call.room, None)

    def reduce_cuda_enqueue(self, handle, spec, data, count, out, room, *rest):
        return self.lib.reduce_run(self.client, spec, data, count * self.lib.reduce_dtype_size(spec._obj.dtype), out, room, None)

    def reduce_cuda_errmsg(self):
        return self.lib.reduce_errmsg()


@pytest.fixture
def cuda(monkeypatch):
    monkeypatch.setenv("REDUCED_LIBRARY", libreduce_path())
    module = types.ModuleType("torch")
    for name, size in TYPES.items():
        setattr(module, name, Type(name, size))
    module.Tensor, module.is_grad_enabled = Tensor, lambda: True
    module.compiler = types.SimpleNamespace(is_compiling=lambda: False)
    module.cuda = types.SimpleNamespace(current_device=lambda: 0)
    module._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 7)
    module.empty_like = lambda t: t.new_empty_strided(t.shape, [n // t.a.itemsize for n in t.stride()])
    module.promote_types = promoted
    module.cat = lambda parts, axis=0: Tensor(np.concatenate([t.a for t in parts], axis))
    module.isnan = lambda t: Tensor(np.isnan(host(t)))
    import reduced.cuda
    from reduced._lib import lib
    kept = reduced.cuda._codes, reduced.cuda._current_device, reduced.cuda._raw_stream
    for of_torch in kept:
        of_torch.cache_clear()
    monkeypatch.setitem(sys.modules, "torch", module)
    client = reduced.Client("ipc:///nowhere/reduced.sock", lazy=True, local=True, autostart=False)
    made = Library(lib(), client._open())
    monkeypatch.setattr(reduced.cuda, "_lib", lambda: made)
    monkeypatch.setattr(reduced.cuda, "_place", lambda device: (7, 0x100, 99))
    monkeypatch.setattr(reduced.cuda, "_handle", lambda device: 0x10)
    monkeypatch.setattr(reduced.cuda, "library", made, raising=False)
    reduced.cuda._made.clear()
    yield reduced.cuda
    reduced.cuda._made.clear()
    client.close()
    for of_torch in kept:
        of_torch.cache_clear()


@pytest.fixture
def here(cuda):
    """The same by the package's other way."""
    import reduced
    return reduced, reduced.Client("ipc:///nowhere/reduced.sock", lazy=True, local=True, autostart=False)


def some(rng, shape, name):
    x = rng.standard_normal(shape) * 50
    return (np.abs(x) if name[0] == "u" else x).astype(name)


def same(got, want, what=""):
    got, want = np.asarray(host(got)), np.asarray(want)
    assert got.shape == want.shape and np.array_equal(got, want.astype(got.dtype), equal_nan=got.dtype.kind == "f"), (what, got, want)


@pytest.mark.parametrize("name", NUMBERS)
def test_dots(cuda, here, name):
    reduced, client = here
    rng = np.random.default_rng(1)
    for shape in ((9,), (0,), (1, 7), (5, 8), (2, 3, 4)):
        x, y = some(rng, shape, name), some(rng, shape, name)
        row = some(rng, shape[-1:], name)
        same(cuda.vdot(Tensor(x), Tensor(y)), reduced.vdot(x, y, client=client))
        same(cuda.dot(Tensor(x), Tensor(row)), reduced.dot(x, row, client=client))
        for axis in range(len(shape)) if 0 not in shape else ():
            along = reduced.vdot if x.ndim == 1 else lambda a, b, client: np.array([reduced.vdot(p, q, client=client) for p, q in zip(a, b)])
            flat = [np.moveaxis(a, axis, -1).reshape(-1, shape[axis]) if x.ndim > 1 else a for a in (x, y)]
            found = cuda.vdot(Tensor(x), Tensor(y), axis)
            same(host(found).ravel() if x.ndim > 1 else found, along(*flat, client=client))
    turned = some(rng, (6, 5), name).T
    same(cuda.vdot(Tensor(turned), Tensor(turned.copy())), reduced.vdot(turned, turned.copy(), client=client))


def test_dimensions_in_any_order_in_memory(cuda, here, monkeypatch):
    """Only what is neither rows, columns nor planes in memory is copied; places are those of the tensor's own order."""
    reduced, client = here
    rng, copies = np.random.default_rng(9), []
    copied = Tensor.contiguous
    monkeypatch.setattr(Tensor, "contiguous", lambda self: copies.append(not self.is_contiguous()) or copied(self))
    monkeypatch.setattr(cuda, "RUN", 4)
    for turn, places in enumerate(itertools.permutations(range(4))):
        x = some(rng, [2, 3, 1, 5] if turn % 2 else [3, 4, 2, 5], "float32").transpose(places)
        y = some(rng, [x.shape[i] for i in np.argsort(places)], "float32").transpose(places)
        for axis in (None, 0, 2, (0, 3), (1, 2), (0, 1, 3)):
            for keep in (False, True):
                for name, ours, more in (("sum", cuda.sum, {}), ("max", cuda.amax, {}), ("norm", cuda.norm, {})):
                    same(ours(Tensor(x), axis, keep), getattr(reduced, name)(x, axis=axis, keepdims=keep, client=client, **more), (name, places, axis))
                if not isinstance(axis, tuple):
                    same(cuda.argmax(Tensor(x), axis, keep), reduced.argmax(x, axis=axis, keepdims=keep, client=client), (places, axis))
            same(cuda.quantile(Tensor(x), [0.1, 0.7], axis), reduced.quantile(x, [0.1, 0.7], axis=axis, client=client), (places, axis))
            of = x.shape if axis is None else tuple(x.shape[d] for d in np.atleast_1d(axis))
            for w in (np.abs(y) + 1, np.abs(some(rng, of, "float32")) + 1):
                same(cuda.average(Tensor(x), Tensor(w), axis), reduced.average(x, axis=axis, weights=w, client=client), (places, axis, w.shape))
        copies.clear()
        cuda.sum(Tensor(x)), cuda.amax(Tensor(x), 1), cuda.vdot(Tensor(x), Tensor(y))
        assert not any(copies), places
    assert any(s.planes and not s.flags & 64 for s in cuda.library.specs)  # rows of planes


def test_types_of_two_operands(cuda, here):
    """float64 beside float32 stays; others become one type that has all numbers of both, or are refused."""
    reduced, client = here
    rng = np.random.default_rng(2)
    for a, b, out in (("float32", "float64", "float64"), ("float64", "float32", "float64"), ("int8", "float16", "float16"), ("int16", "float32", "float32"),
                      ("int32", "float64", "float64"), ("float16", "float32", "float32"), ("uint8", "int8", "int64")):
        x, y = some(rng, 30, a), some(rng, 30, b)
        found = cuda.dot(Tensor(x), Tensor(y))
        assert found.dtype.name == out
        same(found, np.array(reduced.dot(x.astype(float), y.astype(float), client=client), out))
    assert [(s.dtype, s.weights_dtype) for s in cuda.library.specs[:2]] == [(11, 12), (12, 12)]
    for a, b in (("int16", "float16"), ("int32", "float32"), ("int64", "float64")):
        with pytest.raises(TypeError, match="has not all numbers"):
            cuda.dot(Tensor(some(rng, 3, a)), Tensor(some(rng, 3, b)))


@pytest.mark.parametrize("name, beside", [("float32", "float32"), ("float32", "float64"), ("float64", "float64"), ("int16", "int16"), ("int16", "float64")])
def test_averages(cuda, here, name, beside):
    """Weights for each element, for each along the dimensions in any order, and as NumPy's for no others."""
    reduced, client = here
    rng = np.random.default_rng(3)
    for shape in ((8,), (4, 5), (3, 4, 5), (2, 3, 4, 5)):
        x = some(rng, shape, name)
        for _ in range(6):
            dims = tuple(int(d) for d in rng.permutation(len(shape))[:rng.integers(1, len(shape) + 1)])
            dims = tuple(d - len(shape) if rng.random() < 0.3 else d for d in dims)
            for of in (shape, tuple(shape[d] for d in dims)):
                w = np.abs(some(rng, of, beside)) + 1
                w = w.astype(beside)
                for keep in (False, True):
                    found = cuda.average(Tensor(x), Tensor(w), dims if len(dims) > 1 or rng.random() < 0.5 else dims[0], keep)
                    same(found, reduced.average(x, axis=dims, weights=w, keepdims=keep, client=client), (shape, dims, of))
        same(cuda.average(Tensor(x), Tensor(np.abs(x) + np.array(1, name))), reduced.average(x, weights=np.abs(x) + np.array(1, name), client=client))
    assert {s.weights_extent for s in cuda.library.specs} == {1, 2, 3}
    with pytest.raises(ValueError, match="weights of"):
        cuda.average(Tensor(np.zeros((3, 4))), Tensor(np.zeros(4)))
    with pytest.raises(ValueError, match="weights of"):
        cuda.average(Tensor(np.zeros((3, 4))), Tensor(np.zeros(3)), 1)


def test_weights_of_zero_and_none(cuda, here):
    x, w = Tensor(np.array([1.0, math.inf, 4.0])), Tensor(np.array([1.0, 0.0, 1.0]))
    same(cuda.average(x, w, drop_zero_weights=True), 2.5)
    same(cuda.average(x, w), math.nan)
    same(cuda.average(Tensor(np.ones(3)), Tensor(np.zeros(3))), math.nan)
    same(cuda.average(Tensor(np.array([1.0, math.nan, 2.0])), Tensor(np.ones(3)), nan="omit"), 1.5)
    same(cuda.average(Tensor(np.arange(5.0))), 2.0)


@pytest.mark.parametrize("name", ["float32", "float64", "int32"])
def test_covariances(cuda, here, name):
    reduced, client = here
    rng = np.random.default_rng(4)
    for shape in ((9,), (1, 6), (2, 30), (5, 17)):
        x = some(rng, shape, name)
        for less in (0, 1):
            same(cuda.cov(Tensor(x), correction=less), reduced.cov(x, ddof=less, client=client))
        same(cuda.corrcoef(Tensor(x)), reduced.corrcoef(x, client=client))
        y = some(rng, shape, name)
        same(cuda.cov(Tensor(x), Tensor(y)), reduced.cov(x, y, client=client))
    x = some(rng, (4, 10), name)
    same(cuda.corrcoef(Tensor(x.T)), reduced.corrcoef(x.T, client=client))
    assert all(s.weights_extent == 2 for s in cuda.library.specs)
    for wrong in (np.zeros((2, 2, 2)), np.zeros((0, 3))):
        with pytest.raises(ValueError):
            cuda.cov(Tensor(wrong))


@pytest.mark.parametrize("name", NUMBERS)
def test_quantiles(cuda, here, name):
    reduced, client = here
    rng = np.random.default_rng(5)
    for shape in ((7,), (4, 5), (3, 4, 5)):
        x = some(rng, shape, name)
        for q in (0.3, [0.5], [0.0, 0.1, 0.75, 1.0], np.array([0.25, 0.5]), 1):
            for axis in (None, *range(len(shape))):
                for method in ("linear", "lower", "higher", "midpoint", "nearest", "hazen", "inverted_cdf"):
                    found = cuda.quantile(Tensor(x), q, axis, interpolation=method)
                    same(found, reduced.quantile(x, q, axis, method=method, client=client), (shape, q, axis, method))
                    assert (found.dtype.name == name) == (name[0] == "f" or method in ("lower", "higher", "nearest", "inverted_cdf"))
    many = np.linspace(0, 1, 150)
    same(cuda.quantile(Tensor(x), many, 1, True), reduced.quantile(x, many, 1, keepdims=True, client=client))


def test_quantiles_of_nans_and_refusals(cuda):
    x = Tensor(np.array([1.0, math.nan, 3.0, 8.0]))
    same(cuda.quantile(x, [0.5, 1]), [math.nan, math.nan])
    same(cuda.nanquantile(x, [0.5, 1]), [3.0, 8.0])
    for q, method in ((1.5, "linear"), ([], "linear"), (math.nan, "linear"), (0.5, "best")):
        with pytest.raises(ValueError):
            cuda.quantile(x, q, interpolation=method)
    with pytest.raises(ValueError):
        cuda.quantile(Tensor(np.zeros(0)), 0.5)
    calls = len(cuda._made)
    cuda.nanquantile(x, [0.5, 1])
    assert len(cuda._made) == calls  # the plan was kept
    cuda.histc(x, 3, 0, 1), cuda.vdot(x, x)
    assert len(cuda._made) == calls  # ... and of others none


@pytest.mark.parametrize("name", NUMBERS)
def test_ranks(cuda, here, name):
    """topk by views of cells that hold both, kthvalue with the lowest index; of columns as of rows."""
    reduced, client = here
    rng = np.random.default_rng(6)
    for shape in ((9,), (4, 7), (5, 1), (3, 4, 5)):
        x = (some(rng, shape, name) / 20).astype(name)
        for axis in range(-1, len(shape)):
            for k in range(1, shape[axis] + 1):
                for largest in (True, False):
                    found, want = cuda.topk(Tensor(x), k, axis, largest), reduced.topk(x, k, axis, largest, client=client)
                    same(found.values, want.values), same(found.indices, want.indices)
                    assert found.values.dtype.name == name and found.indices.dtype.name == "int64"
                for keep in (False, True):
                    found, want = cuda.kthvalue(Tensor(x), k, axis, keep), reduced.kth(x, k - 1, axis, None, keep, index=True, client=client)
                    same(found.values, want.value), same(found.indices, want.index)
    for k in (0, 10, -1, 1.0):
        with pytest.raises(ValueError):
            cuda.topk(Tensor(np.zeros(9)), k)
        with pytest.raises(ValueError):
            cuda.kthvalue(Tensor(np.zeros(9)), k)
    with pytest.raises(IndexError):
        cuda.topk(Tensor(np.zeros(9)), 1, 1)


def test_ranks_of_zeros_and_nans(cuda):
    x = Tensor(np.array([0.0, -0.0, math.nan, 5.0], "f4"))
    found = cuda.topk(x, 2, largest=False)
    same(found.values, [math.nan, -0.0]), same(found.indices, [2, 1])
    found = cuda.kthvalue(Tensor(np.array([0.0, -0.0, 5.0])), 1)
    assert np.signbit(host(found.values)) and host(found.indices) == 1
    found = cuda.kthvalue(x, 1)
    assert np.isnan(host(found.values)) and host(found.indices) == 2


@pytest.mark.parametrize("name", NUMBERS)
def test_histograms(cuda, here, name):
    reduced, client = here
    x = some(np.random.default_rng(7), (5, 40), name)
    for bins, low, high in ((10, -20, 30), (1, 0, 1), (7, 0, 0), (300, -5.5, 99)):
        found = cuda.histc(Tensor(x), bins, low, high)
        ends = (low, high) if low < high else (float(x.min()), float(x.max()))
        edges = np.linspace(*ends, bins + 1)
        same(found, reduced.histogram(x, edges, client=client)[0])
        assert found.dtype.name == (name if name[0] == "f" else "int64")
    same(cuda.histc(Tensor(np.full(3, 2, name)), 2), [0, 3])
    same(cuda.histc(Tensor(np.zeros(0, name)), 2), [0, 0])
    for bins, low, high in ((0, 0, 1), (3, 1, 0), (3, 0, math.inf), (3, math.nan, 1)):
        with pytest.raises(ValueError):
            cuda.histc(Tensor(x), bins, low, high)


def test_what_has_no_gradient_and_is_no_tensor(cuda):
    x, y = Tensor(np.ones((2, 3)), grad=True), Tensor(np.ones((2, 3)))
    for call in (lambda: cuda.vdot(x, y), lambda: cuda.vdot(y, x), lambda: cuda.average(y, x), lambda: cuda.cov(x), lambda: cuda.quantile(x, 0.5),
                 lambda: cuda.topk(x, 1), lambda: cuda.kthvalue(x, 1), lambda: cuda.histc(x), lambda: cuda.dot(x, y[0])):
        with pytest.raises(RuntimeError, match="no gradient"):
            call()
    for call in (lambda: cuda.vdot(y, np.ones((2, 3))), lambda: cuda.average(y, [1.0]), lambda: cuda.quantile([1.0], 0.5), lambda: cuda.topk(np.ones(3), 1)):
        with pytest.raises(TypeError):
            call()
    for call in (lambda: cuda.vdot(y, y[0]), lambda: cuda.dot(y, y), lambda: cuda.dot(y, y[0][:2])):
        with pytest.raises(ValueError):
            call()
    elsewhere = Tensor(np.ones((2, 3)))
    elsewhere.device = "cuda:1"
    with pytest.raises(ValueError, match="cuda:1"):
        cuda.vdot(y, elsewhere)


def test_the_c_library_takes_these_specs(cuda, monkeypatch):
    """libreduce-cuda's own checks, which need no device, where it is built."""
    from reduced import _abi
    path = pathlib.Path(libreduce_path()).parent / "libreduce-cuda.so"
    if not path.exists():
        pytest.skip("libreduce-cuda is not built")
    real = ctypes.CDLL(str(path)).reduce_cuda_result_size
    real.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)
    x, taken = Tensor(np.ones((3, 4, 5), "f4")), []

    def both(spec, count, room):
        other = ctypes.c_size_t()
        taken.append((_abi.Spec.from_address(spec).op, real(spec, count, ctypes.byref(other)), other.value))
        return Library.reduce_cuda_result_size(cuda.library, spec, count, room)
    monkeypatch.setattr(cuda.library, "reduce_cuda_result_size", both)
    cuda.vdot(x, x, 1), cuda.average(x, x[0, :, 0], 1), cuda.average(x, Tensor(np.ones((3, 5))), (0, 2)), cuda.cov(x[0]), cuda.corrcoef(x[0])
    cuda.quantile(x, [0.1, 0.9], 0), cuda.kthvalue(x, 2, 0), cuda.topk(x, 3, 1), cuda.histc(x, 5, 0, 2)
    assert all(err == 0 for _, err, _ in taken) and {op for op, _, _ in taken} >= {28, 29, 30, 32, 33, 35, 36, 37}
    assert [size for op, _, size in taken if op in (28, 30, 32)] == [160, 15 * (16 + 24), 64]


class OfCupy:
    """An array of CuPy."""
    __module__, __dlpack__ = "cupy", None

    def __init__(self, tensor):
        self.tensor = tensor


def test_arrays_of_others(cuda, here, monkeypatch):
    """Operands by DLPack, and results in arrays of the same kind, also where there are two."""
    reduced, client = here
    sys.modules["torch"].from_dlpack = lambda x: x.tensor
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(from_dlpack=OfCupy))
    rng = np.random.default_rng(5)
    x, w = some(rng, (5, 8), "float32"), some(rng, (8,), "float64")
    of = lambda a: OfCupy(Tensor(a))  # noqa: E731
    got = cuda.average(of(x), weights=of(w), dim=1)
    assert isinstance(got, OfCupy)
    same(got.tensor, reduced.average(x, 1, w, client=client))
    same(cuda.vdot(of(x), of(x)).tensor, reduced.vdot(x, x, client=client))
    best = cuda.topk(of(x), 3)
    want = reduced.topk(x, 3, client=client)
    same(best.values.tensor, want.values)
    same(best.indices.tensor, want.indices)
    with pytest.raises(TypeError, match="CuPy, JAX or Numba"):
        cuda.quantile(x, 0.5)


class Ranks:
    """torch.distributed of threads: a rank's group is its number."""

    def __init__(self, ranks):
        self.met, self.given, self.sent = threading.Barrier(ranks), [None] * ranks, {}

    def get_world_size(self, group):
        return self.met.parties

    def _exchange(self, out, mine, group, taken):
        self.given[group] = mine.a
        self.met.wait(30)
        out.a[:] = np.concatenate([taken(a) for a in self.given])
        self.met.wait(30)

    def all_gather_into_tensor(self, out, mine, group):
        self._exchange(out, mine, group, lambda a: a)

    def get_rank(self, group):
        return group

    def get_global_rank(self, group, rank):
        return rank

    isend, irecv, P2POp = "send", "receive", staticmethod(lambda *call: call)

    def batch_isend_irecv(self, calls):
        for call, t, peer, group in calls:
            if call == "send":
                self.sent[group, peer] = t.a.copy()
        self.met.wait(30)
        came = [(t, self.sent[peer, group]) for call, t, peer, group in calls if call == "receive"]
        self.met.wait(30)
        return [types.SimpleNamespace(wait=lambda t=t, x=x: t.a.__setitem__(..., x)) for t, x in came]  # not there before


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_all_reduce(cuda, here, monkeypatch, name, ranks):
    """Each element over all ranks, exactly: in one exchange, or in two, with a rest that the last share has not."""
    reduced, client = here
    torch = sys.modules["torch"]
    torch.nn = types.SimpleNamespace(functional=types.SimpleNamespace(pad=lambda t, sides: Tensor(np.pad(t.a, sides, constant_values=-77))))
    for shape, most in (((), 1 << 20), ((0, 3), 1 << 20), ((5, 7), 1 << 20), ((5, 7), 0), ((4, 6), 0), ((1,), 0)):
        monkeypatch.setattr(cuda, "ONE_EXCHANGE", most)
        monkeypatch.setattr(cuda, "SHARE_OF_MANY", 16)
        rows = some(np.random.default_rng(6), (ranks, *shape), name) * np.array(100, name)
        for op in ("sum", "mean"):
            torch.distributed = Ranks(ranks)
            with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
                found = list(pool.map(lambda rank: cuda.all_reduce(Tensor(rows[rank]), op, group=rank), range(ranks)))
            for of_rank in found:
                same(of_rank, getattr(reduced, op)(rows, axis=0, dtype=np.dtype(name), client=client) if rows.size else rows[0], (shape, op))
    for wrong in ("max", "prod"):
        with pytest.raises(ValueError, match="sum or mean"):
            cuda.all_reduce(Tensor(np.ones(3)), wrong)
    with pytest.raises(ValueError, match="floats"):
        cuda.all_reduce(Tensor(np.ones(3, int)))
