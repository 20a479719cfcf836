"""Tensors of PyTorch, CuPy, JAX and Numba on the GPU, reduced where they lie: by the handle of their allocation."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
import warnings
from math import prod
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np

from . import _abi
from ._client import Client
from .errors import AuthError, BadHandleError, Error
from ._remote import Array, Remote
from ._sources import Memory, Source, address

CUDA, CUDA_MANAGED, CPU = 2, 13, 1  # DLDeviceType
BFLOAT = 4                          # DLDataTypeCode; 0 to 2 and 5, 6: integers, unsigned, floats, complex, bool
KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
ATTRIBUTES = (1, 7, 9)              # CUpointer_attribute: context, buffer ID, ordinal of the device
POSIX_FD = 1                        # CUmemAllocationHandleType
NOT_READY = 600                     # CUresult
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2
LEAST_JOINED = 4 << 20              # bytes: a copy of fewer to the host is faster than an allocation on the GPU (0.8 ms on an H200)
KEPT = 64                           # allocations that the daemon keeps mapped for a client
PLACES = 1024                       # addresses of tensors whose allocation a client remembers


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class CudaError(RuntimeError):
    """A call of the CUDA driver failed."""


class Scattered(CudaError):
    """Elements lie in several allocations, as those of PyTorch's expandable segments may."""


class _Answers(threading.local):
    """Room for the driver's answers, separate for each thread."""

    def __init__(self) -> None:
        self.values = (ctypes.c_uint64 * len(ATTRIBUTES))()
        begin = ctypes.addressof(self.values)
        self.places = ctypes.byref((ctypes.c_void_p * len(ATTRIBUTES))(*range(begin, begin + 8 * len(ATTRIBUTES), 8)))
        self.current = ctypes.c_void_p()
        self.current_place = ctypes.byref(self.current)


class Driver:
    """The calls of libcuda that name and export an allocation. Calls that need a current context run in that of the memory."""

    def __init__(self, lib: Any = None) -> None:
        self.lib = lib or ctypes.CDLL("libcuda.so.1")
        self.answers = _Answers()
        which = (ctypes.c_int * len(ATTRIBUTES))(*ATTRIBUTES)
        self.count, self.which = ctypes.c_uint(len(ATTRIBUTES)), ctypes.byref(which)
        # called for each tensor, without argument types, whose conversion takes longer than the call
        self.get_attributes, self.get_current, self.query = (
            self.lib.cuPointerGetAttributes, self.lib.cuCtxGetCurrent, self.lib.cuStreamQuery)

    def call(self, name: str, *arguments: Any) -> None:
        err = getattr(self.lib, name)(*arguments)
        if err:
            raise CudaError(f"{name} failed with CUDA error {err}")

    def attributes(self, pointer: int) -> Any:
        """Context, buffer ID and ordinal of the memory at an address, from one call; valid until this thread's next call. An unknown
        value is 0; a buffer ID is never 0."""
        answers = self.answers
        if self.get_attributes(self.count, self.which, answers.places, ctypes.c_uint64(pointer)):
            raise CudaError("the address is not one of CUDA's")
        return answers.values

    def number(self, pointer: int) -> int:
        """The number of the allocation at an address, which no other one ever has; 0: there is no allocation."""
        try:
            return int(self.attributes(pointer)[1])
        except CudaError:
            return 0

    def settle(self, pointer: int, stream: int) -> int:
        """The number of the allocation, once the stream's work is done."""
        found = self.attributes(pointer)
        context, number = found[0], found[1]
        if stream > PER_THREAD_STREAM or context and context == self.current():  # the other streams belong to the current context
            if err := self.query(ctypes.c_void_p(stream)):
                self.finish(err, pointer, stream)
        else:
            self.within(pointer, "cuStreamSynchronize", ctypes.c_void_p(stream))
        return int(number)

    def finish(self, err: int, pointer: int, stream: int) -> None:
        """After an answer of cuStreamQuery other than success."""
        if err != NOT_READY:
            raise CudaError(f"cuStreamQuery failed with CUDA error {err}")
        self.within(pointer, "cuStreamSynchronize", ctypes.c_void_p(stream))

    def current(self) -> int:
        """The current context of this thread."""
        answers = self.answers
        self.get_current(answers.current_place)
        return answers.current.value or 0

    def context(self, pointer: int) -> int:
        """The context of an allocation. Memory of pools and of cuMemCreate has none; any context of its device will do."""
        found, _, ordinal = self.attributes(pointer)
        if found:
            return int(found)
        primary = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(primary), ctypes.c_int(ordinal & 0xFFFFFFFF))
        return primary.value or 0

    @contextlib.contextmanager
    def inside(self, pointer: int) -> Iterator[None]:
        """Make the context of an allocation current."""
        self.call("cuCtxPushCurrent_v2", ctypes.c_void_p(self.context(pointer)))
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def within(self, pointer: int, name: str, *arguments: Any) -> None:
        with self.inside(pointer):
            self.call(name, *arguments)

    def extent(self, pointer: int) -> tuple[int, int]:
        """The begin and the size of the allocation at an address."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.within(pointer, "cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(pointer))
        return base.value, size.value

    def handle(self, base: int) -> bytes:
        """The IPC handle of memory from cudaMalloc."""
        handle = ctypes.create_string_buffer(64)
        self.within(base, "cuIpcGetMemHandle", handle, ctypes.c_uint64(base))
        return handle.raw

    def copy(self, to: int, pointer: int, nbytes: int, mask: int, size: int, stream: int) -> None:
        """Fill `size` bytes at an address of the GPU: `nbytes` from another address there, and the rest from a mask, here or there.
        The copies are work of a stream, which is waited for."""
        with self.inside(pointer):
            for at, begin, n in ((to, pointer, nbytes), (to + nbytes, mask, size - nbytes)):
                if n:
                    self.call("cuMemcpyAsync", ctypes.c_uint64(at), ctypes.c_uint64(begin), ctypes.c_size_t(n), ctypes.c_void_p(stream))
            self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def allocate(self, pointer: int, size: int) -> int:
        """A new allocation on the GPU of another one."""
        made = ctypes.c_uint64()
        self.within(pointer, "cuMemAlloc_v2", ctypes.byref(made), ctypes.c_size_t(size))
        return made.value

    def free(self, base: int) -> None:
        """Free memory of `allocate`."""
        self.within(base, "cuMemFree_v2", ctypes.c_uint64(base))

    def uuid(self, pointer: int) -> bytes:
        """The UUID of the GPU that has the memory at an address."""
        ordinal, device, found = self.attributes(pointer)[2] & 0xFFFFFFFF, ctypes.c_int(), ctypes.create_string_buffer(16)
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal))
        self.call("cuDeviceGetUuid_v2", found, device)
        return found.raw

    def descriptor(self, base: int) -> int:
        """A descriptor of memory from cuMemCreate, such as PyTorch's expandable segments."""
        kept, fd = ctypes.c_uint64(), ctypes.c_int(-1)
        self.within(base, "cuMemRetainAllocationHandle", ctypes.byref(kept), ctypes.c_void_p(base))
        try:
            self.within(base, "cuMemExportToShareableHandle", ctypes.byref(fd), kept, POSIX_FD, ctypes.c_uint64(0))
        finally:
            self.within(base, "cuMemRelease", kept)
        return fd.value


@functools.lru_cache(None)
def driver() -> Driver:
    return Driver()


@functools.lru_cache(None)
def _warn(why: str) -> None:
    """Warn once for each reason."""
    warnings.warn(f"reduced: {why}: the elements are copied to the host", RuntimeWarning, stacklevel=6)


def _export(client: Client, base: int, size: int) -> bytes:
    """A handle that the daemon opens: of the allocation, or of a descriptor of it."""
    try:
        named = driver().handle(base)
        client.call("reduce_device_uuid", named, driver().uuid(base))
        return named
    except CudaError:
        fd = driver().descriptor(base)
    try:
        handle = ctypes.create_string_buffer(64)
        client.call("reduce_device_import", fd, size, handle)
        return handle.raw
    finally:
        os.close(fd)


class Place(NamedTuple):
    """Where the elements at an address are."""

    key: tuple[int, int]  # the number and the begin of their allocation
    end: int


def _find(client: Client, pointer: int, number: int) -> Place:
    """The place of an address whose allocation has this number."""
    base, size = driver().extent(pointer)
    while len(client.places) >= PLACES:
        client.places.pop(next(iter(client.places)))
    found = client.places[pointer] = Place((number, base), base + size)
    return found


def _open(client: Client, place: Place) -> bytes:
    """A new handle. Allocations that the program has freed meanwhile are closed first: the daemon still holds their memory."""
    for key in list(client.allocations):
        if driver().number(key[1]) != key[0]:
            release(client, key)
    while len(client.allocations) >= KEPT:
        release(client, next(iter(client.allocations)))
    return _export(client, place.key[1], place.end - place.key[1])


def handle_of(client: Client, pointer: int, nbytes: int, number: int) -> tuple[bytes, int]:
    """(handle, offset) of elements. A client keeps the last allocations open, because opening one takes the daemon longer than a
    reduction."""
    with client.naming:
        place = client.places.get(pointer)
        if place is None or place.key[0] != number:
            place = _find(client, pointer, number)
        if pointer + nbytes > place.end:
            raise Scattered("the elements lie in several allocations")
        handle: bytes = client.allocations.pop(place.key, None) or _open(client, place)
        client.allocations[place.key] = handle  # the most recently used one is last
    return handle, pointer - place.key[1]


def release(client: Client, key: Any) -> None:
    """Let the daemon close an allocation."""
    found = client.allocations.pop(key, None)
    if found:
        client.attempt("reduce_device_close", found)


def obstacle(e: Exception) -> str:
    """Why the daemon cannot reduce these elements on its GPU. Re-raises errors with another cause."""
    if isinstance(e, Error) and not isinstance(e, (BadHandleError, AuthError)) and e.field not in ("device", "columns", "mask"):
        raise e
    return str(e)


class _OnDevice(Source):
    """The source of elements on the GPU: in place, else by one copy and a warning."""

    jobs = False

    def __init__(self, tensor: Tensor, begin: int = 0, nbytes: int | None = None):
        self.tensor, self.begin, self.nbytes = tensor, begin, tensor.nbytes if nbytes is None else nbytes

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int:
        t = self.tensor
        try:
            handle, offset = handle_of(client, t.pointer, t.nbytes, t.number)
            return client.call("reduce_device", spec, handle, offset + self.begin, self.nbytes, out, room, result)
        except Scattered:
            return _Copied(t, None, self.begin, self.nbytes).run(client, spec, out, room, result)
        except (CudaError, Error) as e:
            why = obstacle(e)
        flat = np.ascontiguousarray(t.flat_copy(why)).reshape(-1)
        size = t.dtype.itemsize
        return Memory(flat[self.begin // size:(self.begin + self.nbytes) // size]).run(client, spec, out, room, result)

    def start(self, *_: Any) -> int:
        raise NotImplementedError


class _Masked(Source):
    """The source of elements on the GPU that a mask there selects: in place, else as copies."""

    jobs = False

    def __init__(self, tensor: Tensor, keep: Tensor):
        self.tensor, self.keep, self.nbytes = tensor, keep, tensor.nbytes

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int:
        t, keep = self.tensor, self.keep
        try:
            places = *handle_of(client, t.pointer, t.nbytes, t.number), t.nbytes, *handle_of(client, keep.pointer, keep.nbytes, keep.number)
            return client.call("reduce_device_masked", spec, *places, out, room, result)
        except (CudaError, Error) as e:
            obstacle(e)
        return _Copied(t, keep).run(client, spec, out, room, result)

    def start(self, *_: Any) -> int:
        raise NotImplementedError


class _Copied(Source):
    """The source of elements that are copied into one allocation on the GPU together with a mask, which may be here or there. Where
    that fails, they are copied to the host, with a warning."""

    jobs = False

    def __init__(self, tensor: Tensor, keep: Any, begin: int = 0, nbytes: int | None = None):
        self.tensor, self.keep, self.begin, self.nbytes = tensor, keep, begin, tensor.nbytes if nbytes is None else nbytes

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int:
        t, keep, size = self.tensor, self.keep, self.tensor.dtype.itemsize
        one = _abi.Spec.from_buffer_copy(ctypes.cast(spec, ctypes.POINTER(_abi.Spec)).contents)
        mask, total = 0, self.nbytes
        if keep is not None:
            one.flags |= _abi.MASKED
            mask, total = keep.pointer if isinstance(keep, Tensor) else address(keep), total + total // size
        why = ""  # no warning
        if self.nbytes >= LEAST_JOINED:
            try:
                if (lent := lend(t.owner, total)) is not None:
                    return self.reduce(client, lent[1], mask, total, ctypes.byref(one), out, room, result)
            except (CudaError, Error) as e:  # the pool's memory has no handle, or is in several allocations
                obstacle(e)
            try:
                return self.on_device(client, mask, total, ctypes.byref(one), out, room, result)
            except (CudaError, Error) as e:
                why = obstacle(e)
        flat = np.ascontiguousarray(t.flat_copy(why)).reshape(-1)[self.begin // size:(self.begin + self.nbytes) // size]
        if keep is not None:
            here = np.ascontiguousarray(keep.flat_copy(why) if isinstance(keep, Tensor) else keep)
            one.flags, one.mask = one.flags & ~_abi.MASKED, address(here)
        return Memory(flat).run(client, ctypes.byref(one), out, room, result)

    def reduce(self, client: Client, to: int, mask: int, total: int, spec: Any, out: Any, room: int, result: Any) -> int:
        """Reduce copies at an address of the GPU."""
        t = self.tensor
        driver().copy(to, t.pointer + self.begin, self.nbytes, mask, total, t.stream)
        handle, offset = handle_of(client, to, total, driver().number(to))
        return client.call("reduce_device", spec, handle, offset, total, out, room, result)

    def on_device(self, client: Client, mask: int, total: int, *arguments: Any) -> int:
        """Reduce copies in an allocation of our own, which takes the driver and the daemon 1 ms, and 4 ms for 1 GiB."""
        base = driver().allocate(self.tensor.pointer, total)
        key = driver().number(base), base
        try:
            return self.reduce(client, base, mask, total, *arguments)
        finally:
            with client.naming:
                release(client, key)
                client.places.pop(base, None)
            driver().free(base)

    def start(self, *_: Any) -> int:
        raise NotImplementedError


def lend(owner: Any, nbytes: int) -> tuple[Any, int] | None:
    """Memory from the pool of the tensor's library, and its address; freed with the object. The daemon often has it open since an
    earlier call. None: the library has no pool, or an unknown one."""
    try:
        if hasattr(owner, "new_empty"):                         # PyTorch
            tensor = owner.new_empty(nbytes, dtype=sys.modules["torch"].uint8)
            return tensor, tensor.data_ptr()
        if type(owner).__module__.partition(".")[0] == "cupy":
            with owner.device:
                array = sys.modules["cupy"].empty(nbytes, "u1")
            return array, array.data.ptr
    except (RuntimeError, MemoryError) as e:
        raise CudaError(f"no memory on the GPU for a copy: {e}") from None
    return None


def in_c_order(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides of consecutive elements in C order."""
    found = []
    for n in reversed(shape):
        found.append(itemsize)
        itemsize *= n
    return tuple(reversed(found))


class Tensor(Remote):
    """Elements on the GPU, by address, once the stream that writes them is done. `owner` is the caller's object, which keeps them
    alive and can copy them."""

    fixed = masks = True

    def __init__(self, owner: Any, pointer: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...] | None,
                 stream: int | None = None, keep: Any = None):
        self.owner, self.pointer, self.dtype, self.shape, self.keep = owner, pointer, dtype, shape, keep
        self.strides = in_c_order(shape, dtype.itemsize) if strides is None else strides
        self.nbytes = prod(shape) * dtype.itemsize
        self.stream = LEGACY_STREAM if stream is None else stream
        if not pointer:
            self.number = 0
        elif stream is None:
            self.number = driver().number(pointer)
        else:
            self.number = driver().settle(pointer, stream)

    def source(self) -> Source:
        return _OnDevice(self) if self.nbytes else Memory(np.empty(0, self.dtype))

    def part(self, first: int, n: int) -> Source:
        size = self.dtype.itemsize
        return _OnDevice(self, first * size, n * size) if n else Memory(np.empty(0, self.dtype))

    def masked(self, keep: Any) -> Source:
        if not self.nbytes:
            return Memory(np.empty(0, self.dtype))
        return _Masked(self, keep) if isinstance(keep, Tensor) else _Copied(self, keep)

    def copy(self, why: str) -> Array:
        """On the host, with one warning if there is a reason."""
        if why:
            _warn(why)
        host = to_host(self.owner, self.dtype)
        if host.dtype != self.dtype:  # the parts of complex numbers
            host = np.ascontiguousarray(host).view(self.dtype)
        return host.reshape(self.shape)

    def rearranged(self, order: Sequence[int]) -> Tensor | None:
        shape = tuple(getattr(self.owner, "shape", ()))
        n = len(shape)  # one less than the axes of `order` if the last one has the parts of complex numbers
        if self.shape not in (shape, shape + (2,)) or any(i >= n for i in order[:n]):
            return None
        made = rearranged(self.owner, tuple(order[:n]))
        found: Tensor | None = None if made is None else tensor(made)
        if found is None:
            return None
        found = found.pairs(self.dtype.str) if n < len(order) else found
        stride_of = dict(zip(order, found.strides))
        found.dtype, found.shape, found.strides = self.dtype, self.shape, tuple(stride_of[i] for i in range(len(order)))
        found.owner, found.keep = self.owner, (made, found.keep)
        return found

    def pairs(self, view: str) -> Tensor:
        """Complex numbers as a last axis of two floats."""
        one = np.dtype(view)
        found = Tensor(self.owner, self.pointer, one, self.shape + (2,), self.strides + (one.itemsize,), keep=self.keep)
        found.stream = self.stream
        return found

    def flat_copy(self, why: str) -> Array:
        """The same, in memory order."""
        order = sorted(range(len(self.shape)), key=lambda i: -self.strides[i])
        return self.copy(why).transpose(order)


def rearranged(owner: Any, order: tuple[int, ...]) -> Any:
    """A copy on the GPU with its axes in this order, made by the tensor's own library. None: it has no way, or no memory."""
    try:
        if hasattr(owner, "detach"):                            # PyTorch
            return owner.detach().permute(order).contiguous()
        library = type(owner).__module__.partition(".")[0]
        if library == "cupy":
            with owner.device:
                return sys.modules["cupy"].ascontiguousarray(owner.transpose(order))
        return owner.transpose(order) if library in ("jax", "jaxlib") else None
    except (RuntimeError, MemoryError):
        return None


def to_host(owner: Any, dtype: np.dtype[Any]) -> Array:
    """A copy made by the tensor's own library."""
    if hasattr(owner, "detach"):                                # PyTorch
        owner = owner.detach().cpu()
        if dtype.name == "bfloat16":
            return np.asarray(owner.view(_torch_int16())).view(dtype)
        return np.asarray(owner)
    if hasattr(owner, "get"):                                   # CuPy
        return np.asarray(owner.get())
    if hasattr(owner, "copy_to_host"):                          # Numba
        return np.asarray(owner.copy_to_host())
    return np.asarray(owner)                                    # JAX


def _torch_int16() -> Any:
    import torch  # type: ignore[import-not-found]
    return torch.int16


def bfloat16() -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError("a: elements of type bfloat16 need the package ml_dtypes") from None
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def _dl_dtype(t: _DLTensor) -> np.dtype[Any]:
    if t.code == BFLOAT and t.bits == 16:
        return bfloat16()
    if t.lanes != 1 or t.code not in KINDS:
        raise TypeError(f"a: elements of DLPack's type {t.code} with {t.bits} bits cannot be reduced")
    return np.dtype(f"{KINDS[t.code]}{t.bits // 8}")


def _capsule_address(capsule: Any) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, b"dltensor"))


def by_dlpack(a: Any, owner: Any) -> Any:
    """From an object with DLPack: a tensor on the GPU; an array of bfloat16 in memory; None: NumPy can convert it."""
    kind = int(a.__dlpack_device__()[0])
    if kind not in (CUDA, CUDA_MANAGED, CPU):
        raise TypeError(f"a: elements on DLPack's device {kind} cannot be reduced")
    if kind == CPU and "bfloat16" not in str(getattr(a, "dtype", "")):
        return np.asarray(a) if hasattr(a, "detach") else None
    capsule = a.__dlpack__() if kind == CPU else a.__dlpack__(stream=LEGACY_STREAM)
    t = _DLTensor.from_address(_capsule_address(capsule))
    dtype, shape = _dl_dtype(t), tuple(t.shape[i] for i in range(t.ndim))
    strides = tuple(t.strides[i] * dtype.itemsize for i in range(t.ndim)) if t.strides else None
    pointer = (t.data or 0) + t.byte_offset
    if kind == CPU:
        raw: Any = (ctypes.c_uint16 * max(1, prod(shape))).from_address(pointer or ctypes.addressof(t))
        raw._keep = capsule
        return np.ndarray(shape, dtype, raw, strides=strides)
    return Tensor(owner, pointer, dtype, shape, strides, LEGACY_STREAM if t.device_type == CUDA else None, capsule)


def by_interface(a: Any) -> Tensor:
    """A tensor from __cuda_array_interface__, once the stream that writes it is done."""
    i = a.__cuda_array_interface__
    if i.get("mask") is not None:
        raise TypeError("a: a mask of __cuda_array_interface__ cannot be reduced; pass `where`")
    return Tensor(a, i["data"][0] or 0, np.dtype(i["typestr"]), tuple(i["shape"]), i.get("strides"), i.get("stream"))


@functools.lru_cache(None)
def _torch_dtype(dtype: Any) -> np.dtype[Any]:
    name = str(dtype).removeprefix("torch.")
    return bfloat16() if name == "bfloat16" else np.dtype(name)


@functools.lru_cache(None)
def _torch_stream() -> Callable[[int], int]:
    """A function that gives the address of a device's current stream. The public one creates an object, which takes 5 us."""
    torch: Any = sys.modules["torch"]
    return getattr(torch._C, "_cuda_getCurrentRawStream", None) or (lambda device: int(torch.cuda.current_stream(device).cuda_stream))


def by_torch(a: Any) -> Tensor:
    """A tensor from PyTorch's own attributes, which are faster than its DLPack, once the stream that writes it is done."""
    dtype = _torch_dtype(a.dtype)
    size = dtype.itemsize
    return Tensor(a, a.data_ptr(), dtype, tuple(a.shape), tuple([n * size for n in a.stride()]), _torch_stream()(a.get_device()))


def _of_torch() -> Callable[[Any], Any]:
    stream = _torch_stream()

    def take(a: Any) -> Any:
        if a.is_cuda is not True or a.is_conj() or a.is_neg():
            return None
        return a.data_ptr(), stream(a.get_device()), (a.dtype, a.shape, a.stride())
    return take


def _of_cupy() -> Callable[[Any], Any]:
    stream = sys.modules["cupy"].cuda.get_current_stream
    return lambda a: (a.data.ptr, stream().ptr or LEGACY_STREAM, (a.dtype, a.shape, a.strides))


def shortcut(a: Any) -> Callable[[Any], Any] | None:
    """A function that gives, for tensors of this one's class, the address, the stream that writes there, and what plans depend on;
    it returns None for a tensor without a short way. None: the whole class has no short way."""
    if getattr(a, "is_cuda", False) is True:
        return _of_torch()
    return _of_cupy() if type(a).__module__.partition(".")[0] == "cupy" else None


def tensor(a: Any) -> Any:
    """Elements of another library: a Tensor on the GPU, an array, or None if NumPy can convert them."""
    if getattr(a, "is_cuda", False) is True and not (a.is_conj() or a.is_neg()):
        return by_torch(a)
    plain = a.detach() if hasattr(a, "detach") else a
    if hasattr(type(plain), "__cuda_array_interface__") and type(plain).__module__.partition(".")[0] in ("cupy", "numba"):
        return by_interface(plain)  # it has the stream, and DLPack is slower
    if hasattr(plain, "__dlpack__") and hasattr(plain, "__dlpack_device__"):
        if hasattr(plain, "is_conj") and (plain.is_conj() or plain.is_neg()):
            plain = plain.resolve_conj().resolve_neg()
        if getattr(plain, "dtype", None) is not None and str(plain.dtype).endswith("bool") and _on_cuda(plain):
            return by_interface(plain)  # DLPack has bools only since 1.0
        return by_dlpack(plain, plain)
    return by_interface(plain) if hasattr(plain, "__cuda_array_interface__") else None


def _on_cuda(a: Any) -> bool:
    return int(a.__dlpack_device__()[0]) == CUDA and hasattr(a, "__cuda_array_interface__")

