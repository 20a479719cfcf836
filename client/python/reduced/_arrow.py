"""Elements of any container that speaks the Arrow C data interface, without pyarrow: arrays, tables, streams and memory of a device."""
from __future__ import annotations

import ctypes
from functools import partial
from typing import Any, Callable, Iterator

import numpy as np

from ._arrow_layout import STRUCT, Array, Chunk, Piece, Schema, piece_of, same_type
from ._elements import element

CPU = 1                  # ArrowDeviceType; those of the host that CUDA pins are as good
HOSTS = (CPU, 3)
CUDA, CUDA_MANAGED = 2, 13
WAYS = ("__arrow_c_device_array__", "__arrow_c_array__", "__arrow_c_device_stream__", "__arrow_c_stream__")


class DeviceChunk(ctypes.Structure):
    """struct ArrowDeviceArray"""

    _fields_ = [("array", Chunk), ("device_id", ctypes.c_int64), ("device_type", ctypes.c_int32), ("sync_event", ctypes.c_void_p),
                ("reserved", ctypes.c_int64 * 3)]


_STREAM: list[tuple[str, Any]] = [(name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")]


class Stream(ctypes.Structure):
    """struct ArrowArrayStream"""

    _fields_ = _STREAM


class DeviceStream(ctypes.Structure):
    """struct ArrowDeviceArrayStream"""

    _fields_ = [("device_type", ctypes.c_int32), *_STREAM]


TAKE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
TEXT = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Held:
    """A struct that a producer filled for us, released with this object."""

    def __init__(self, of: Any):
        self.of = of

    def __del__(self, release: Any = RELEASE) -> None:
        if self.of.release:
            release(self.of.release)(ctypes.addressof(self.of))


def pointer_in(capsule: Any, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, name))


def from_array(a: Any, name: str) -> Piece:
    """The elements of an object with one array."""
    if hasattr(type(a), "__arrow_c_device_array__"):
        schema, held = a.__arrow_c_device_array__()
        one = DeviceChunk.from_address(pointer_in(held, b"arrow_device_array"))
        device, chunk = one.device_type, one.array
    else:
        schema, held = a.__arrow_c_array__()
        device, chunk, one = CPU, Chunk.from_address(pointer_in(held, b"arrow_array")), None
    kind = Schema.from_address(pointer_in(schema, b"arrow_schema"))
    return on_any_device(kind, chunk, device, one, (schema, held, a), name)


def on_any_device(schema: Schema, chunk: Chunk, device: int, one: Any, owner: Any, name: str) -> Piece:
    if device in HOSTS:
        return piece_of(schema, chunk, owner, name)
    if device not in (CUDA, CUDA_MANAGED):
        raise TypeError(f"{name}: elements on Arrow's device {device} cannot be reduced")
    from ._arrow_device import piece_on_gpu
    return piece_on_gpu(schema, chunk, one, owner, name)


class Flow:
    """The pieces of a stream, which may be read once: the type of their elements, and an iterator."""

    def __init__(self, a: Any, name: str):
        device = hasattr(type(a), "__arrow_c_device_stream__")
        kind: Any = DeviceStream if device else Stream
        self.owner = a.__arrow_c_device_stream__() if device else a.__arrow_c_stream__()
        self.stream = kind.from_address(pointer_in(self.owner, b"arrow_device_array_stream" if device else b"arrow_array_stream"))
        self.name, self.made = name, DeviceChunk if device else Chunk
        self.schema = Schema()
        self.call("get_schema", self.schema)
        self.held = Held(self.schema)
        self.dtype = same_type(self.schema, name)
        element(self.dtype, name)
        self.columns = self.schema.n_children if self.schema.format == STRUCT.encode() else 0

    def call(self, function: str, into: Any) -> None:
        """Call one of the stream's functions, which fills a struct."""
        if not self.stream.release:
            raise ValueError(f"{self.name}: the stream is used up")
        err = TAKE(getattr(self.stream, function))(ctypes.addressof(self.stream), ctypes.addressof(into))
        if err:
            why = TEXT(self.stream.get_last_error)(ctypes.addressof(self.stream))
            raise RuntimeError(f"{self.name}: {(why or b'the stream failed').decode('utf-8', 'replace')}")

    def __iter__(self) -> Iterator[Piece]:
        while True:
            one: Any = self.made()
            self.call("get_next", one)
            chunk: Any = one if self.made is Chunk else one.array
            if not chunk.release:
                return
            device = CPU if chunk is one else one.device_type
            held = Held(chunk)
            held.whole = one  # type: ignore[attr-defined]
            yield on_any_device(self.schema, chunk, device, one, (held, self), self.name)


def batches_of(a: Any) -> Callable[[], Iterator[Any]] | None:
    """For a lazy table of Polars: a function that computes it batch by batch."""
    if type(a).__module__.partition(".")[0] != "polars" or not hasattr(a, "collect"):
        return None
    return partial(a.collect_batches, maintain_order=True) if hasattr(a, "collect_batches") else lambda: iter([a.collect()])


class Lazy:
    """A lazy table of Polars as a Flow."""

    def __init__(self, a: Any, begin: Callable[[], Iterator[Any]], name: str):
        self.frames, self.name = iter(begin()), name
        self.first = next(self.frames, None)
        if self.first is None:  # no rows
            self.first = a.collect()
        flow = Flow(self.first, name)
        self.dtype, self.columns = flow.dtype, flow.columns

    def __iter__(self) -> Iterator[Piece]:
        frame = self.first
        while frame is not None:
            yield from Flow(frame, self.name)
            frame = next(self.frames, None)


def nothing(flow: Any) -> Piece:
    return Piece(np.empty((0, flow.columns) if flow.columns else 0, flow.dtype), None)


def in_memory(p: Piece) -> Piece:
    """The same with elements that are not on a GPU."""
    return p if isinstance(p.data, np.ndarray) else Piece(p.data.copy(""), p.keep)


def joined(pieces: list[Piece]) -> Piece:
    """Several pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    pieces = [in_memory(p) for p in pieces]
    data = np.concatenate([p.data for p in pieces])
    if all(p.keep is None for p in pieces):
        return Piece(data, None)
    return Piece(data, np.concatenate([np.ones(p.data.shape, bool) if p.keep is None else p.keep for p in pieces]))


GATHERED = 64 << 20  # bytes of a stream that are kept in memory; one that is longer is reduced piece by piece
SENT = 1 << 20       # bytes: smaller pieces are joined


class Flowing:
    """A stream that is too long to be kept. It can be read once."""

    def __init__(self, flow: Any, first: list[Piece], others: Iterator[Piece]):
        self.dtype, self.name, self.columns, self.first, self.others = flow.dtype, flow.name, flow.columns, first, others
        self.seen = 0  # elements that were not null

    def nothing(self) -> Array:
        """An array like its pieces, without elements."""
        found: Array = nothing(self).data
        return found

    def __iter__(self) -> Iterator[Piece]:
        """Pieces of some size."""
        if not self.first:
            raise ValueError(f"{self.name}: the stream is used up")
        waiting, nbytes = self.first[:0], 0
        for p in (in_memory(p) for some in (self.emptied(), self.others) for p in some):
            self.seen += p.data.size if p.keep is None else int(np.count_nonzero(p.keep))
            waiting.append(p)
            nbytes += p.data.nbytes
            if nbytes >= SENT:
                yield joined(waiting)
                waiting, nbytes = [], 0
        if waiting:
            yield joined(waiting)

    def emptied(self) -> Iterator[Piece]:
        """The pieces that were read first; each is dropped when it was passed on."""
        while self.first:
            yield self.first.pop(0)

    def whole(self) -> Piece:
        """All elements in memory, for what cannot be reduced piece by piece."""
        return joined(list(self))


def speaks(a: Any) -> bool:
    """Whether an object offers its elements by this interface, or is a lazy table that does when it is computed."""
    kind = type(a)
    return any(hasattr(kind, name) for name in WAYS) or batches_of(a) is not None


def elements(a: Any, name: str) -> Piece | Flowing:
    """The elements of an object that `speaks`; a Flowing if they are many pieces of a stream."""
    if hasattr(type(a), WAYS[0]) or hasattr(type(a), WAYS[1]):
        return from_array(a, name)
    begin = batches_of(a)
    flow: Any = Flow(a, name) if begin is None else Lazy(a, begin, name)
    pieces, first, nbytes = iter(flow), [], 0
    for p in pieces:
        first.append(p)
        nbytes += p.data.nbytes
        if nbytes > GATHERED and len(first) > 1:
            return Flowing(flow, first, pieces)
    return joined(first or [nothing(flow)])
