"""Tensors on a GPU, on machines without one: a daemon whose device is made of memory, and a driver that exports memfds."""
import contextlib
import ctypes
import mmap
import os
import random
import shutil
import struct
import sys
import warnings
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import memory_device
from otheruser import needs_root
from pythonpackage import reduced
from reduced import _abi, _again, _arrays, _client, _device, _layout, _plan, _run

OTHER = 12345  # a user without an account


class Allocation:
    """Memory of another library on the device."""

    number = 0

    def __init__(self, size):
        self.fd = os.memfd_create("allocation")
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)
        self.array = np.frombuffer(self.map, np.uint8)
        self.base, self.size = self.array.ctypes.data, size
        Allocation.number += 1
        self.number = Allocation.number


class FakeDriver(_device.Driver):
    """What libcuda would say of these allocations."""

    gpu = bytes(16)  # of no known UUID
    chunk = 1 << 40  # of an allocation that is several

    def __init__(self):
        self.allocations, self.waited, self.exported, self.measured, self.virtual, self.joined, self.own = [], [], 0, 0, False, 0, []

    def make(self, size):
        self.allocations.append(Allocation(size))
        return self.allocations[-1]

    def find(self, pointer):
        return next(a for a in self.allocations if a.base <= pointer < a.base + a.size)

    def free(self, allocation):
        self.allocations.remove(allocation if isinstance(allocation, Allocation) else self.find(allocation))

    def number(self, pointer):
        return next((a.number for a in self.allocations if a.base <= pointer < a.base + a.size), 0)

    def settle(self, pointer, stream):
        self.waited.append(stream)
        return self.number(pointer)

    def extent(self, pointer):
        self.measured += 1
        a = self.find(pointer)
        return a.base, a.size if a.base in self.own else min(a.size, self.chunk)

    def handle(self, base):
        if self.virtual:
            raise _device.CudaError("no handle of cuMemCreate")
        self.exported += 1
        return b"a device" + struct.pack("<II", os.getpid(), self.find(base).fd) + random.randbytes(48)

    def descriptor(self, base):
        return os.dup(self.find(base).fd)

    def uuid(self, pointer):
        return self.gpu

    def allocate(self, pointer, size):
        self.joined += 1
        self.own.append(self.make(size).base)
        return self.own[-1]

    def copy(self, to, pointer, nbytes, mask, size, stream):
        assert stream == 7
        ctypes.memmove(to, pointer, nbytes)
        ctypes.memmove(to + nbytes, mask, size - nbytes)


class Tensor:
    """An array of CuPy's kind."""

    def __init__(self, allocation, a, offset=0, stream=7):
        self.a, self.stream = a, stream
        if a.size:
            flat = a.ravel(order="K")
            allocation.array[offset:offset + a.nbytes] = flat.view(np.uint8)
            self.pointer = allocation.base + offset
        else:
            self.pointer = 0

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": self.a.shape, "typestr": self.a.dtype.str, "data": (self.pointer, False), "strides": self.a.strides,
                "stream": self.stream}

    def get(self):
        return self.a.copy()


@pytest.fixture
def device(start, monkeypatch):
    """A fake driver; the package's calls go to a daemon that has the device, and opens memory of this process as no sandbox lets it."""
    daemon = start("--sandbox", "no", **memory_device())
    fake = FakeDriver()
    monkeypatch.setattr(_device, "driver", lambda: fake)
    _device._warn.cache_clear()
    _plan._recipes.clear()
    with reduced.Client(daemon.url, autostart=False) as client, warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr(_client, "_default", client)
        yield fake


@pytest.mark.same_threads
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", *(["c8", "c16"] if _layout.PLANES else [])])
def test_tensors_are_reduced_in_place(device, dtype):
    a = np.random.default_rng(1).integers(0, 2, (30, 40)).astype(dtype)
    for laid in (a, np.asfortranarray(a)):
        t = Tensor(device.make(20_000), laid, offset=64)
        for axis in (None, 0, 1):
            assert np.array_equal(reduced.sum(t, axis=axis), reduced.sum(laid, axis=axis))
            assert np.array_equal(reduced.mean(t, axis=axis), reduced.mean(laid, axis=axis))
            if np.dtype(dtype).kind != "c":
                assert np.array_equal(reduced.max(t, axis=axis, keepdims=True), reduced.max(laid, axis=axis, keepdims=True))
                assert np.array_equal(reduced.minmax(t, axis=axis)[1], laid.max(axis))
    assert device.exported == 2 and set(device.waited) == {7}


def test_what_cannot_be_done_in_place_is_copied_with_one_warning(device):
    a = np.random.default_rng(1).standard_normal((5, 6))
    t = Tensor(device.make(4096), a)
    with pytest.warns(RuntimeWarning, match="where") as seen:  # segments have a mask only in memory
        for least in (0, 1):
            assert np.array_equal(reduced.sum(t, 1, where=a > least, offsets=[0, 6]), reduced.sum(a, 1, where=a > least, offsets=[0, 6]))
    assert len(seen) == 1
    half = Tensor(device.make(4096), a)
    half.a = a[::2]  # with strides of its own
    with pytest.warns(RuntimeWarning, match="strides"):
        assert reduced.sum(half) == reduced.sum(a[::2])


@pytest.mark.parametrize("order", "CF")
def test_masks(device, order, monkeypatch):
    """Of a mask that is on the device and lies like the elements nothing is copied. One from here is copied behind them, on the device."""
    monkeypatch.setattr(_device, "LEAST_JOINED", 0)
    r = np.random.default_rng(1)
    a = np.asarray(r.standard_normal((30, 40)).astype("f4"), order=order)
    keep = np.asarray(a > 0.3, order=order)
    t, m = Tensor(device.make(8192), a, offset=64), Tensor(device.make(4096), keep, offset=5)
    for name in ("sum", "mean", "std", "count_nonzero", "norm", "min", "argmax", "ptp"):
        f = getattr(reduced, name)
        for axis in (None, 0, -1):
            if (name, axis, order) == ("argmax", None, "F"):
                continue  # places of the whole array: by copy
            wanted = f(a, axis=axis, where=keep)
            for where in (keep, m, keep.tolist()):
                ours = f(t, axis=axis, where=where)
                assert np.array_equal(ours, wanted, equal_nan=True) and np.asarray(ours).dtype == np.asarray(wanted).dtype, (name, axis)
    assert str(reduced.stats(t, 0, where=m)) == str(reduced.stats(a, 0, where=keep))
    assert reduced.minmax(t, where=m) == reduced.minmax(a, where=keep)
    assert reduced.sum(t, where=keep[0]) == reduced.sum(a, where=keep[0]) and reduced.sum(t, where=False) == 0
    assert reduced.submit("sum", t, where=m).result() == reduced.sum(a, where=keep)
    assert reduced.sum(t, initial=5, where=m) == reduced.sum(a, initial=5, where=keep)
    assert device.joined == device.exported - 2 and len(device.allocations) == 2 == len(_client.default().allocations)
    before = device.joined
    assert reduced.var(t, where=m) == reduced.var(a, where=keep) and device.joined == before  # in place, whatever their size
    z = Tensor(device.make(1 << 14), a.astype("c8"))
    assert reduced.sum(z, axis=1, where=keep).tolist() == reduced.sum(z.a, axis=1, where=keep).tolist()
    for error, where in ((TypeError, a), (ValueError, keep[:, 1:]), (TypeError, [object()])):
        with pytest.raises(error, match="where"):
            reduced.sum(t, where=where)


def test_elements_in_several_allocations_are_copied_on_the_device(device, monkeypatch):
    """As PyTorch's expandable segments are: no copy to the host."""
    a = np.random.default_rng(1).standard_normal((300, 400))
    t = Tensor(device.make(1 << 20), a, offset=64)
    device.chunk = 1 << 19
    monkeypatch.setattr(_device, "LEAST_JOINED", 0)
    for axis in (None, 0, 1):
        assert np.array_equal(reduced.std(t, axis=axis), reduced.std(a, axis=axis))
    long = Tensor(device.make(1 << 20), a.reshape(-1))
    assert reduced.sum(long, offsets=[7, 50_000, 120_000]).tolist() == reduced.sum(a.reshape(-1), offsets=[7, 50_000, 120_000]).tolist()
    for where in (a > 0, Tensor(device.make(1 << 18), a > 0)):
        assert reduced.sum(t, where=where) == reduced.sum(a, where=a > 0)
    assert device.joined == 7 and len(device.allocations) == 3


class Lent:
    def __init__(self, base):
        self.base = base

    def data_ptr(self):
        return self.base


class PooledTensor(Tensor):
    """One of PyTorch's kind: it lends memory of its pool."""

    def __init__(self, device, allocation, a):
        super().__init__(allocation, a)
        self.device, self.pool, self.lent, self.fails = device, device.make(1 << 20), [], ""

    def new_empty(self, nbytes, dtype):
        assert dtype == "torch's u1"
        if self.fails:
            raise RuntimeError(self.fails)
        assert 512 + nbytes <= self.pool.size
        lent = Lent(self.pool.base + 512)
        self.lent.append(weakref.ref(lent))
        return lent


def test_masks_by_memory_that_the_library_lends(device, monkeypatch):
    """Nothing is allocated and closed for a call. Without that memory it is an allocation."""
    monkeypatch.setattr(_device, "LEAST_JOINED", 0)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(uint8="torch's u1"))
    a = np.random.default_rng(1).standard_normal((30, 40))
    keep = a > 0.3
    t = PooledTensor(device, device.make(1 << 14), a)
    for _ in range(3):
        assert reduced.std(t, axis=1, where=keep).tolist() == reduced.std(a, axis=1, where=keep).tolist()
        assert reduced.argmax(t, where=keep) == reduced.argmax(a, where=keep)
    assert (len(t.lent), device.exported, device.joined) == (6, 1, 0)
    assert [key[1] for key in _client.default().allocations] == [t.pool.base]
    assert all(lent() is None for lent in t.lent)  # given back
    t.fails = "CUDA out of memory"
    assert reduced.sum(t, where=keep) == reduced.sum(a, where=keep)
    t.fails, device.chunk = "", 1 << 12  # of several allocations
    device.free(t.pool)
    t.pool = device.make(1 << 20)
    assert reduced.sum(t, where=keep) == reduced.sum(a, where=keep)
    assert device.joined == 2 and not [key for key in _client.default().allocations if key[1] in device.own]


def test_masks_that_are_copied_to_the_host(device, monkeypatch):
    """One warning for each reason: the mask lies otherwise, the elements are here, the device has no room, the reply neither."""
    a = np.random.default_rng(1).standard_normal((30, 40))
    keep = a > 0.3
    t = Tensor(device.make(1 << 14), a)
    row, turned = Tensor(device.make(64), keep[0]), Tensor(device.make(4096), np.asfortranarray(keep))
    with pytest.warns(RuntimeWarning, match="another shape") as seen:
        assert reduced.sum(t, where=row) == reduced.sum(a, where=keep[0])
        assert reduced.sum(t, 0, where=turned).tolist() == reduced.sum(a, 0, where=keep).tolist()
        assert reduced.sum(a, where=turned) == reduced.sum(a, where=keep)
    assert len(seen) == 1
    m = Tensor(device.make(4096), keep)

    def full(*_):
        raise _device.CudaError("cuMemAlloc_v2 failed with CUDA error 2")
    monkeypatch.setattr(device, "allocate", full)
    assert reduced.std(t, axis=1, where=m).tolist() == reduced.std(a, axis=1, where=keep).tolist()  # few bytes: at once, without a warning
    monkeypatch.setattr(_device, "LEAST_JOINED", 0)
    with pytest.warns(RuntimeWarning, match="CUDA error 2"):
        for where in (m, keep):
            assert reduced.std(t, axis=1, where=where).tolist() == reduced.std(a, axis=1, where=keep).tolist()


@pytest.mark.same_threads(threads_elsewhere=True)
def test_results_of_masked_tensors_that_no_reply_holds(device, monkeypatch):
    monkeypatch.setattr(_device, "LEAST_JOINED", 0)
    a = np.arange(1 << 20, dtype="u1")
    with pytest.warns(RuntimeWarning, match="TOO_LARGE"):
        found = reduced.sum(Tensor(device.make(1 << 20), a.reshape(-1, 1)), axis=1, where=(a > 3).reshape(-1, 1))
    assert np.array_equal(found, np.where(a > 3, a, 0))


def test_memory_without_a_handle_goes_by_descriptor(device):
    device.virtual = True
    a = np.arange(512.0)
    assert reduced.sum(Tensor(device.make(4096), a)) == a.sum()


def test_a_freed_allocation_is_closed(device):
    first = device.make(8192)
    assert reduced.sum(Tensor(first, np.ones(9))) == 9
    client = _client.default()
    (before,) = client.allocations
    first.number += 1000  # another allocation at the same address
    assert reduced.sum(Tensor(first, np.ones(9))) == 9
    (after,) = client.allocations
    assert before != after
    for _ in range(_device.KEPT + 5):
        reduced.sum(Tensor(device.make(4096), np.ones(3)))
    assert len(client.allocations) == _device.KEPT


def test_what_was_freed_is_closed_when_another_allocation_is_opened(device):
    kept, *freed = [device.make(4096) for _ in range(5)]
    for a in (kept, *freed):
        assert reduced.sum(Tensor(a, np.ones(9))) == 9
    client = _client.default()
    for a in freed:
        device.free(a)
    new = device.make(8192)
    assert reduced.sum(Tensor(new, np.ones(3))) == 3
    assert list(client.allocations) == [(kept.number, kept.base), (new.number, new.base)] and device.exported == 6


def test_a_tensor_is_planned_and_named_once(device, monkeypatch):
    """The second time only its buffer ID is asked for, and the stream."""
    a = np.random.default_rng(1).integers(0, 9, (30, 40)).astype("f4")
    tensors = [Tensor(device.make(20_000), b, offset=64) for b in (a, 2 * a)]
    calls = [lambda t: reduced.sum(t), lambda t: reduced.std(t, axis=1, ddof=1), lambda t: reduced.minmax(t, 0, keepdims=True)[1],
             lambda t: reduced.stats(t).argmax, lambda t: reduced.nanmean(t, axis=(0, 1)), lambda t: bytes(reduced.state("sum", t))]
    first = [f(t) for f in calls for t in tensors]
    prepared = []
    made = _plan.Prepared
    monkeypatch.setattr(_plan, "Prepared", lambda *args: prepared.append(args) or made(*args))
    again = [f(t) for f in calls for t in tensors]
    assert all(np.array_equal(x, y) for x, y in zip(first, again)) and first[0] == a.sum() and first[1] == 2 * a.sum()
    assert (prepared, device.exported, device.measured) == ([], 2, 2)
    for other in (lambda t: reduced.sum(t, axis=0), lambda t: reduced.sum(t, nan="omit"), lambda t: reduced.var(t, ddof=1)):
        other(tensors[0])
    assert len(prepared) == 3
    with pytest.raises(TypeError, match="axis"):
        reduced.std(tensors[0], axis=1.0, ddof=1)  # which equals an axis that is planned
    with pytest.raises(ValueError, match="axis"):
        reduced.sum(tensors[0], axis=(0, 0))


@pytest.mark.same_threads(threads_elsewhere=True)
def test_recipes_are_few_and_hold_no_tensor(device):
    memory = device.make(4096)
    for n in range(1, _plan.RECIPES + 9):
        t = Tensor(memory, np.ones(n % 500 + 1, "u1"))
        reduced.max(t, nan=("propagate", "omit")[n // 500])
    assert len(_plan._recipes) <= _plan.RECIPES
    seen = weakref.ref(t)
    del t
    assert seen() is None


def laid_anew(tensor, axes):
    """A tensor of the same class with these axes: a copy that their library makes on the device."""
    return type(tensor)(tensor.device_memory.make(tensor.a.nbytes), np.ascontiguousarray(tensor.a.transpose(axes)))


class OfTorch:
    """A tensor with the attributes that are taken of PyTorch's."""

    is_cuda, conjugate = True, False

    def __init__(self, allocation, a, offset=0):
        self.a, self.dtype, self.shape = a, f"torch.{a.dtype.name}", a.shape
        allocation.array[offset:offset + a.nbytes] = a.ravel(order="K").view(np.uint8)
        self.pointer = allocation.base + offset

    def __dlpack__(self):
        raise AssertionError("slow")

    is_conj = is_neg = lambda self: self.conjugate
    data_ptr = lambda self: self.pointer
    get_device = lambda self: 0
    stride = lambda self: tuple(n // self.a.itemsize for n in self.a.strides)
    detach = cpu = resolve_conj = resolve_neg = contiguous = lambda self: self
    permute = laid_anew

    def __array__(self, *args, **kwargs):
        return self.a.conj() if self.conjugate else self.a

    def __dlpack_device__(self):
        return _device.CPU, 0


class OfCupy:
    """The same of CuPy's."""

    def __init__(self, allocation, a, offset=0):
        self.a, self.dtype, self.shape, self.strides = a, a.dtype, a.shape, a.strides
        allocation.array[offset:offset + a.nbytes] = a.ravel(order="K").view(np.uint8)
        self.data = SimpleNamespace(ptr=allocation.base + offset)

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False), "strides": self.strides, "stream": 7}


    device = contextlib.nullcontext()
    transpose = laid_anew
    get = lambda self: self.a


OfCupy.__module__ = "cupy"


@pytest.fixture
def libraries(device, monkeypatch):
    """Both, with a stream whose address is 7; and what is planned."""
    stream = SimpleNamespace(ptr=7)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=SimpleNamespace(_cuda_getCurrentRawStream=lambda device: stream.ptr)))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: stream), ascontiguousarray=lambda a: a))
    for made in (OfTorch, OfCupy):
        monkeypatch.setattr(made, "device_memory", device, raising=False)
    planned = []
    plan = _again.plan
    monkeypatch.setattr(_again, "plan", lambda *args, **kw: planned.append(args) or plan(*args, **kw))
    for kept in (_arrays.shortcuts, _arrays._foreign, _again._known):
        kept.clear()
    _device._torch_stream.cache_clear()
    yield SimpleNamespace(device=device, planned=planned, stream=stream)
    for kept in (_arrays.shortcuts, _arrays._foreign, _again._known):
        kept.clear()
    _device._torch_stream.cache_clear()


@pytest.mark.same_threads
@pytest.mark.parametrize("make", [OfTorch, OfCupy])
@pytest.mark.parametrize("dtype", ["f4", "i2", "u8", "?", "c8"])
def test_what_was_planned_is_done_again(libraries, make, dtype):
    """For every function and tensors of the same type, shape and strides."""
    r, device = np.random.default_rng(1), libraries.device
    arrays = [r.integers(0, 2 if dtype == "?" else 9, (6, 7)).astype(dtype) for _ in range(3)]
    tensors = [make(device.make(4096), a, offset=64) for a in arrays]
    reduced.sum(tensors[0], keepdims=True)  # from here on their class is known
    libraries.planned.clear()
    names = ["sum", "mean", "var", "std", "norm"]
    names += [] if dtype == "c8" else ["any", "rms", "min", "max", "ptp", "argmin", "argmax", "all", "count_nonzero", "prod", "sem", "minmax", "stats", "nansum"]
    calls = [(name, kw) for name in names for kw in ({}, {"axis": 0}, {"axis": -1}) if not (dtype == "c8" and name == "norm" and kw)]
    for name, kw in calls:
        f = getattr(reduced, name)
        for a, t in zip(arrays, tensors):
            ours, wanted = f(t, **kw), f(a, **kw)
            assert str(ours) == str(wanted) and type(ours) is type(wanted), (name, kw)
            assert not isinstance(ours, np.ndarray) or ours.dtype == wanted.dtype
    done = [args[1] for args in libraries.planned if isinstance(args[1], make)]
    assert {id(t) for t in done} == {id(tensors[0])} and len(done) == len(calls), "each call was planned once"
    assert set(device.waited) == {7} and device.exported == 3
    assert reduced.sum(tensors[1], dtype=np.dtype("f8" if dtype != "c8" else "c16")) == arrays[1].sum()
    assert reduced.sum(tensors[2], keepdims=True).tolist() == [[arrays[2].sum()]]


@pytest.mark.same_threads
@pytest.mark.parametrize("make", [OfTorch, OfCupy])
def test_what_is_known_is_little_and_holds_no_tensor(libraries, make):
    memory = libraries.device.make(4096)
    for n in range(1, _plan.RECIPES + 9):
        t = make(memory, np.ones(n % 500 + 1, "u1"))
        for _ in range(2):
            assert reduced.max(t, nan=("propagate", "omit")[n // 500]) == 1
    assert 1 < len(_again._known) <= _plan.RECIPES
    seen = weakref.ref(t)
    del t
    libraries.planned.clear()
    assert seen() is None


@pytest.mark.same_threads
@pytest.mark.parametrize("make", [OfTorch, OfCupy])
def test_the_short_way_is_left(libraries, make):
    """For errors, other arguments, and tensors that cannot be reduced where they are."""
    device, client = libraries.device, _client.default()
    a = np.arange(20, dtype="f4")
    t = make(device.make(4096), a)
    for _ in range(3):
        assert reduced.max(t) == 19 and reduced.var(t, ddof=1) == 35 and reduced.var(t, ddof=1.5) == pytest.approx(665 / 18.5)
    b = a.copy()
    b[3] = np.nan
    bad = make(device.make(4096), b)
    for _ in range(2):
        assert np.isnan(reduced.max(bad))
        assert reduced.sum(t, nan="raise") == 190
        with pytest.raises(reduced.NanError):
            reduced.sum(bad, nan="raise")
    with pytest.raises(TypeError, match="axis"):
        reduced.max(t, axis=0.0)
    assert reduced.max(t, axis=0) == 19
    with pytest.raises(ValueError, match="axis"):
        reduced.max(t, axis=1)
    assert reduced.max(t, initial=50) == 50 and reduced.max(t, out=np.zeros(())) == 19 and reduced.max(t, deadline=60) == 19
    with reduced.Client(client.info().url, autostart=False) as other:
        assert reduced.max(t, client=other) == 19 and reduced.max(t, client=other) == 19 and len(other.allocations) == 1
    with pytest.raises(ValueError, match="closed"):
        reduced.max(t, client=other)
    t.get = lambda: t.a
    client.allocations.update({key: b"what no daemon opens".ljust(64) for key in client.allocations})
    with pytest.warns(RuntimeWarning, match="copied") as seen:
        assert [reduced.max(t), reduced.max(t)] == [19, 19]
    assert len(seen) == 1
    if make is OfTorch:
        z = OfTorch(device.make(4096), np.array([1 + 2j, 3j]))
        assert [reduced.sum(z), reduced.sum(z)] == [1 + 5j, 1 + 5j]
        z.conjugate = True
        assert reduced.sum(z) == 1 - 5j
        z.is_cuda = z.conjugate = False
        assert reduced.sum(z) == 1 + 5j


@pytest.mark.same_threads
@pytest.mark.parametrize("make", [OfTorch, OfCupy])
@pytest.mark.parametrize("dtype", ["f4", "i2", "?", "c8"])
def test_axes_that_need_a_copy_are_copied_on_the_device(libraries, make, dtype):
    """By the tensor's library, without a warning, and each time anew."""
    r, device = np.random.default_rng(1), libraries.device
    a = r.integers(0, 2 if dtype == "?" else 9, (4, 5, 6, 3)).astype(dtype)
    for laid in (a, a.transpose(2, 0, 3, 1)):
        t = make(device.make(4096), laid)
        for name, axis in (("sum", (0, 2)), ("mean", (1, 3)), ("var", (0, 3)), ("sum", (0, 1, 3)), ("sum", (0, 2, 3))):
            before = len(device.allocations)
            for again in (1, 2):
                assert np.array_equal(getattr(reduced, name)(t, axis=axis), getattr(reduced, name)(laid, axis=axis)), (name, axis)
                pairs = (laid.shape + (2,), laid.strides + (4,), 4) if dtype == "c8" else (laid.shape, laid.strides, laid.itemsize)
                laid_here = _layout.arrange(*pairs, axis, False) is not None
                assert len(device.allocations) == before + (0 if laid_here else again)
        if dtype != "c8":
            keep = np.empty_like(laid, "?")
            keep[...] = r.integers(0, 2, laid.shape)
            there = make(device.make(4096), keep)
            for where in (keep, there):
                assert np.array_equal(reduced.sum(t, (0, 2), where=where), reduced.sum(laid, (0, 2), where=keep))
    assert set(device.waited) == {7}


@pytest.mark.parametrize("error", [RuntimeError, MemoryError])
def test_without_memory_on_the_device_axes_are_copied_to_the_host(libraries, monkeypatch, error):
    def refuse(*_):
        raise error("out of memory")
    monkeypatch.setattr(OfCupy, "transpose", refuse)
    a = np.arange(120.0).reshape(2, 3, 4, 5)
    t = OfCupy(libraries.device.make(4096), a)
    with pytest.warns(RuntimeWarning, match="strides and axes.*copied to the host"):
        assert np.array_equal(reduced.sum(t, (0, 2)), a.sum((0, 2)))


def test_rows_in_runs_are_copied_only_if_they_are_too_many(libraries):
    """A reply of the daemon has to hold their results."""
    for kept in (7, _plan.MOST_ROWS_IN_RUNS, _plan.MOST_ROWS_IN_RUNS + 1):
        a = np.arange(6 * kept, dtype="i2").reshape(2, kept, 3)
        t, before = OfTorch(libraries.device.make(1 << 20), a), len(libraries.device.allocations)
        assert np.array_equal(reduced.sum(t, (0, 2)), a.sum((0, 2))) and np.array_equal(reduced.argmax(t, 0), a.argmax(0))
        assert len(libraries.device.allocations) == before + (kept > _plan.MOST_ROWS_IN_RUNS)


class FakeLibrary:
    """libcuda with one allocation, in `context`; `stream` answers."""

    def __init__(self, context=70, current=70, stream=0):
        self.calls, self.here, self.stream = [], [current], stream

        def attributes(n, which, places, pointer):
            self.calls.append("attributes")
            if pointer == 1:
                return 1
            for place, value in zip(ctypes.cast(places, ctypes.POINTER(ctypes.c_void_p))[:n], (context, 42, 0)):
                ctypes.c_uint64.from_address(place).value = value
            return 0

        def get_current(place):
            self.calls.append("current")
            ctypes.c_uint64.from_address(place).value = self.here[-1]
            return 0

        def query(stream):
            self.calls.append(f"query {stream}")
            return self.stream
        integer, address = ctypes.c_int, ctypes.c_void_p
        self.cuPointerGetAttributes = ctypes.CFUNCTYPE(integer, ctypes.c_uint, address, address, ctypes.c_uint64)(attributes)
        self.cuCtxGetCurrent, self.cuStreamQuery = (ctypes.CFUNCTYPE(integer, address)(f) for f in (get_current, query))

    def cuStreamSynchronize(self, stream):
        self.calls.append(f"synchronize {stream.value} in {self.here[-1]}")
        return 0

    def cuDevicePrimaryCtxRetain(self, to, ordinal):
        to._obj.value = 90 + ordinal.value
        return 0

    def cuCtxPushCurrent_v2(self, context):
        self.here.append(context.value)
        return 0

    def cuCtxPopCurrent_v2(self, _):
        self.here.pop()
        return 0


@pytest.mark.parametrize("library,stream,calls", [
    (FakeLibrary(), 1, ["attributes", "current", "query 1"]),
    (FakeLibrary(current=0), 5000, ["attributes", "query 5000"]),                              # needs no current context
    (FakeLibrary(stream=_device.NOT_READY), 5000, ["attributes", "query 5000", "attributes", "synchronize 5000 in 70"]),
    (FakeLibrary(current=71), 1, ["attributes", "current", "attributes", "synchronize 1 in 70"]),  # another context's stream
    (FakeLibrary(context=0), 1, ["attributes", "attributes", "synchronize 1 in 90"])])         # memory of a pool
def test_a_stream_is_asked_and_then_waited_for(library, stream, calls):
    driver = _device.Driver(library)
    assert driver.settle(4096, stream) == 42 and library.calls == calls and len(library.here) == 1
    assert driver.number(4096) == 42 and driver.number(1) == 0
    library.stream = 700
    if stream == 5000:
        with pytest.raises(_device.CudaError, match="700"):
            driver.settle(4096, stream)


def test_long_segments_are_reduced_in_place(device):
    a = np.random.default_rng(1).standard_normal(120_000)
    t = Tensor(device.make(1 << 20), a, offset=64)
    offsets = [5, 50_000, 50_000, 120_000]  # with an empty one
    for name in ("sum", "mean", "var", "count_nonzero", "norm", "any"):
        ours, expected = (getattr(reduced, name)(x, offsets=offsets) for x in (t, a))
        assert np.array_equal(ours, expected, equal_nan=True) and ours.dtype == expected.dtype, name
    some = [5, 50_000, 120_000]
    for name in ("min", "argmax", "ptp"):
        assert np.array_equal(getattr(reduced, name)(t, offsets=some), getattr(reduced, name)(a, offsets=some)), name
    assert reduced.stats(t, offsets=some).argmin.tolist() == [a[5:50_000].argmin(), a[50_000:].argmin()]
    assert np.array_equal(reduced.minmax(t, offsets=some).max, [a[5:50_000].max(), a[50_000:].max()])
    z = Tensor(device.make(1 << 20), a[:100_000].view("c16"))
    assert reduced.submit("sum", t, offsets=some).result().tolist() == reduced.sum(a, offsets=some).tolist() and device.exported == 1
    with pytest.raises(reduced.EmptyError) as e:
        reduced.max(t, offsets=offsets)
    assert e.value.index == 1
    with pytest.warns(RuntimeWarning, match="short segments") as seen:
        assert np.array_equal(reduced.sum(t, offsets=range(0, 120_001, 1000)), reduced.sum(a, offsets=range(0, 120_001, 1000)))
        assert np.array_equal(reduced.norm(z, offsets=[0, 7, 50_000]), reduced.norm(z.a, offsets=[0, 7, 50_000]))
        matrix = Tensor(device.make(1 << 20), a.reshape(400, 300))
        assert np.array_equal(reduced.sum(matrix, axis=0, offsets=[0, 300, 400]), reduced.sum(matrix.a, axis=0, offsets=[0, 300, 400]))
    assert len(seen) == 1


@needs_root
def test_another_users_daemon(start, scratch, monkeypatch):
    """Its daemon may not open an allocation by its handle: a copy with one warning. A descriptor says that we may: of an allocation
    and of a file that the daemon's user cannot open."""
    program = shutil.copy(memory_device()["program"], scratch)  # which that user can reach
    wrapper = scratch / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nunset NOTIFY_SOCKET\nexec setpriv --reuid={OTHER} --regid={OTHER} --clear-groups {program} "$@"\n')
    for path, mode in ((scratch, 0o777), (wrapper, 0o755), (program, 0o755)):
        os.chmod(path, mode)
    daemon = start("--socket-mode", "0666", program=wrapper, backend="cuda")
    fake = FakeDriver()
    monkeypatch.setattr(_device, "driver", lambda: fake)
    _device._warn.cache_clear()
    a = np.random.default_rng(1).standard_normal(2000)
    with reduced.Client(daemon.url, autostart=False) as client:
        with pytest.warns(RuntimeWarning, match="AUTH.*copied to the host") as seen:
            for n in (2000, 1000):
                t = Tensor(fake.make(16_000), a[:n])
                assert reduced.sum(t, client=client) == reduced.sum(a[:n], client=client)
        assert len(seen) == 1
        fake.virtual = True
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert reduced.sum(Tensor(fake.make(16_000), a), client=client) == reduced.sum(a, client=client)
            long = np.tile(a, 200)
            np.save(scratch / "mine.npy", long)
            os.chmod(scratch / "mine.npy", 0o600)
            p = _plan.plan("sum", reduced.file(scratch / "mine.npy"))
            p.result = _abi.Result(size=ctypes.sizeof(_abi.Result))
            assert _run.run(p, client) == reduced.sum(long, client=client) and p.result.path == _abi.PATH_FILE
        with pytest.raises(reduced.BadHandleError):  # resident data belong to a user, too
            reduced.Resident("of-the-daemons-user", client=client)


def test_another_gpus_tensor_is_copied(device, monkeypatch):
    t = Tensor(device.make(4096), np.ones((3, 4)))
    monkeypatch.setattr(device, "handle", lambda base: b"another GPU" + bytes(53))  # which the daemon cannot open
    with pytest.warns(RuntimeWarning, match="BAD_HANDLE"):
        assert reduced.sum(t, axis=0).tolist() == [3, 3, 3, 3]


def test_a_gpu_is_known_by_its_uuid(start, monkeypatch):
    """The daemon looks for memory on the GPU that has it; if it lacks that one, the warning names both sides' GPUs."""
    monkeypatch.setenv("DEVICES_OF_MEMORY", "2")
    daemon = start("--sandbox", "no", **memory_device())
    fake = FakeDriver()
    monkeypatch.setattr(_device, "driver", lambda: fake)
    monkeypatch.setattr(fake, "handle", lambda base: b"a device" + struct.pack("<III", os.getpid(), fake.find(base).fd, 1) + random.randbytes(44))
    _device._warn.cache_clear()
    a = np.arange(512.0)
    with reduced.Client(daemon.url, autostart=False) as client:
        names = [f"GPU-ab0{i}0000-0000-0000-0000-000000000000" for i in (0, 1)]
        assert [(g.name, g.ordinal, g.lost) for g in client.gpus()] == [(names[0], 0, False), (names[1], 1, False)]
        fake.gpu = bytes((0xAB, 1)) + bytes(14)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert reduced.sum(Tensor(fake.make(4096), a), client=client) == a.sum()
        fake.gpu = bytes((0xAB, 7)) + bytes(14)
        t = Tensor(fake.make(4096), a)
        with pytest.warns(RuntimeWarning, match="GPU-ab07.*this daemon has 0 .GPU-ab00.*copied to the host") as seen:
            assert reduced.sum(t, client=client) == a.sum() == reduced.max(t, client=client) + reduced.sum(a[:-1], client=client)
        assert len(seen) == 1


def test_a_daemon_without_a_device_gets_a_copy(device, shared):
    t = Tensor(device.make(4096), np.ones((3, 4)))
    with reduced.Client(shared.url) as client, pytest.warns(RuntimeWarning, match="TYPE"):
        assert reduced.sum(t, axis=0, client=client).tolist() == [3, 3, 3, 3]


class Capsule:
    """A tensor that speaks DLPack: 2-D, with strides in elements."""

    def __init__(self, pointer, a, code, bits, device=_device.CUDA):
        self.shape, self.strides = (ctypes.c_int64 * 2)(*a.shape), (ctypes.c_int64 * 2)(*(s // a.itemsize for s in a.strides))
        self.t = _device._DLTensor(data=pointer, device_type=device, ndim=2, code=code, bits=bits, lanes=1, shape=self.shape, strides=self.strides)
        self.device, self.asked = device, []

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.t), b"dltensor", None)


def test_dlpack(device):
    a = np.random.default_rng(1).standard_normal((20, 30)).astype("f4")
    memory = device.make(4096)
    for laid in (a, np.asfortranarray(a)):
        memory.array[:a.nbytes] = laid.ravel(order="K").view(np.uint8)
        t = Capsule(memory.base, laid, 2, 32)
        assert np.array_equal(reduced.sum(t, axis=0), reduced.sum(a, axis=0)) and reduced.std(t) == reduced.std(a)
        assert set(t.asked) == {_device.LEGACY_STREAM} and set(device.waited) == {_device.LEGACY_STREAM}
    with pytest.raises(TypeError, match="DLPack's type"):
        reduced.sum(Capsule(memory.base, a, 8, 8))
    with pytest.raises(TypeError, match="device 10"):
        reduced.sum(Capsule(memory.base, a, 2, 32, device=10))
