"""Tensors on a GPU, on machines without one: a daemon whose device is made of memory, and a driver that exports memfds."""
import ctypes
import mmap
import os
import random
import struct
import warnings

import numpy as np
import pytest

from conftest import BIN
from pythonpackage import reduced
from reduced import _client, _device, _layout

PROGRAM = BIN.parent / "tests" / "reduced-device"


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

    def __init__(self):
        self.allocations, self.waited, self.exported, self.virtual = [], [], 0, False

    def make(self, size):
        self.allocations.append(Allocation(size))
        return self.allocations[-1]

    def find(self, pointer):
        return next(a for a in self.allocations if a.base <= pointer < a.base + a.size)

    def wait(self, pointer, stream):
        self.waited.append(stream)

    def identity(self, pointer):
        a = self.find(pointer)
        return a.number, a.base, a.size

    def handle(self, base):
        if self.virtual:
            raise _device.CudaError("no handle of cuMemCreate")
        self.exported += 1
        return b"a device" + struct.pack("<II", os.getpid(), self.find(base).fd) + random.randbytes(48)

    def descriptor(self, base):
        return os.dup(self.find(base).fd)


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
    """A fake driver; the package's calls go to a daemon that has the device."""
    if not PROGRAM.exists():
        pytest.skip("`make unit-tests` builds the daemon with a device")
    daemon = start("--batch-bytes", 0, program=PROGRAM, backend="cuda")
    fake = FakeDriver()
    monkeypatch.setattr(_device, "driver", lambda: fake)
    _device._warn.cache_clear()
    with reduced.Client(daemon.url, autostart=False) as client, warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr(_client, "_default", client)
        yield fake


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
    with pytest.warns(RuntimeWarning, match="where") as seen:
        assert reduced.sum(t, where=a > 0) == reduced.sum(a, where=a > 0)
        assert reduced.sum(t, where=a > 1) == reduced.sum(a, where=a > 1)
    assert len(seen) == 1
    half = Tensor(device.make(4096), a)
    half.a = a[::2]  # with strides of its own
    with pytest.warns(RuntimeWarning, match="strides"):
        assert reduced.sum(half) == reduced.sum(a[::2])


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


def test_another_gpus_tensor_is_copied(device, monkeypatch):
    t = Tensor(device.make(4096), np.ones((3, 4)))
    monkeypatch.setattr(device, "handle", lambda base: b"another GPU" + bytes(53))  # which the daemon cannot open
    with pytest.warns(RuntimeWarning, match="BAD_HANDLE"):
        assert reduced.sum(t, axis=0).tolist() == [3, 3, 3, 3]


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
