"""Elements of any container that speaks the Arrow C data interface, without pyarrow: arrays, tables, streams and memory of a device.
Nulls are a mask, so that integers stay integers. The layouts are those of Arrow's specification."""
from __future__ import annotations

import ctypes
from functools import partial
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np

from ._elements import agreed, element

Array = np.ndarray[Any, Any]
CPU = 1                  # ArrowDeviceType; those of the host that CUDA pins are as good
HOSTS = (CPU, 3)
CUDA, CUDA_MANAGED = 2, 13
TYPES = {"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8", "e": "f2", "f": "f4", "g": "f8"}
DATES = {"tdD": ("i4", "M8[D]"), "tdm": ("i8", "M8[ms]")}
UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}
BITS, STRUCT, NULLS = "b", "+s", "n"
EXTENSION, BOOL8 = "ARROW:extension:name", "arrow.bool8"
WAYS = ("__arrow_c_device_array__", "__arrow_c_array__", "__arrow_c_device_stream__", "__arrow_c_stream__")
OTHERS = {"u": "text", "U": "text", "vu": "text", "z": "bytes", "Z": "bytes", "vz": "bytes", "+l": "lists", "+L": "lists", "+w": "lists",
          "+m": "maps", "+r": "run ends", "d": "decimals", "tt": "times of day", "ti": "intervals", "w": "bytes"}


class Schema(ctypes.Structure):
    pass


Schema._fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p), ("flags", ctypes.c_int64),
                   ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
                   ("dictionary", ctypes.POINTER(Schema)), ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p)]


class Chunk(ctypes.Structure):
    """struct ArrowArray"""


Chunk._fields_ = [("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
                  ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
                  ("children", ctypes.POINTER(ctypes.POINTER(Chunk))), ("dictionary", ctypes.POINTER(Chunk)),
                  ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p)]


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


class Piece(NamedTuple):
    """Elements, of several columns in two dimensions, and which of them are not null; None: all."""

    data: Any
    keep: Array | None


class Held:
    """A struct that a producer filled for us, released with this object."""

    def __init__(self, of: Any):
        self.of = of

    def __del__(self, release: Any = RELEASE) -> None:
        if self.of.release:
            release(self.of.release)(ctypes.addressof(self.of))


class Placed:
    """Memory of a producer as NumPy sees it; NumPy's arrays keep it, and so its owner."""

    def __init__(self, pointer: int, dtype: np.dtype[Any], n: int, owner: Any):
        self.owner = owner
        self.__array_interface__ = {"data": (pointer, True), "typestr": dtype.str, "shape": (n,), "version": 3}


def here(pointer: int | None, dtype: Any, n: int, owner: Any) -> Array:
    kind: np.dtype[Any] = np.dtype(dtype)
    return np.asarray(Placed(pointer, kind, n, owner)) if n and pointer else np.empty(0, kind)


def bits(pointer: int | None, first: int, n: int, owner: Any) -> Array:
    """n bits from a bit on, as bools."""
    skipped = first % 8
    packed = here((pointer or 0) + first // 8, "u1", -(-(skipped + n) // 8), owner)
    return np.unpackbits(packed, count=skipped + n, bitorder="little")[skipped:].view(bool)


def extension(schema: Schema) -> str:
    """The name of the extension type, from the metadata: pairs of texts with their lengths."""
    at = schema.metadata or 0
    if not at:
        return ""

    def number() -> int:
        nonlocal at
        at += 4
        return ctypes.c_int32.from_address(at - 4).value

    def text() -> str:
        nonlocal at
        n = number()
        at += n
        return ctypes.string_at(at - n, n).decode("utf-8", "replace")
    found = {text(): text() for _ in range(number())}
    return found.get(EXTENSION, "")


def kind_of(schema: Schema, name: str) -> tuple[Any, np.dtype[Any]]:
    """(NumPy's type of the stored elements, that of their meaning); the first is None for bits, "" for nothing but nulls."""
    form, meaning = (schema.format or b"").decode(), extension(schema)
    column = f"column {schema.name.decode('utf-8', 'replace')!r} of " if schema.name else ""
    if schema.dictionary:
        return kind_of(schema.dictionary.contents, name)
    if meaning == BOOL8:
        return np.dtype("i1"), np.dtype(bool)
    if meaning:
        raise TypeError(f"{name}: {column}Arrow's extension type {meaning} cannot be reduced; take its storage first")
    if form == BITS:
        return None, np.dtype(bool)
    if form == NULLS:
        return "", np.dtype(float)
    if form in TYPES:
        return np.dtype(TYPES[form]), np.dtype(TYPES[form])
    if form in DATES:
        stored, meant = DATES[form]
        return np.dtype(stored), np.dtype(meant)
    if form[:2] in ("ts", "tD") and form[2:3] in UNITS:
        return np.dtype("i8"), np.dtype(f"{'M' if form[1] == 's' else 'm'}8[{UNITS[form[2]]}]")
    what = next((text for start, text in OTHERS.items() if form.partition(":")[0] == start or form[:2] == start), f"Arrow's type {form}")
    raise TypeError(f"{name}: {column}{what} cannot be reduced; convert them first, for example to float64")


def validity(chunk: Chunk, first: int, n: int, owner: Any) -> Array | None:
    """Which elements are not null; None: all."""
    if not chunk.null_count or not chunk.n_buffers or not chunk.buffers[0]:
        return None
    found = bits(chunk.buffers[0], first, n, owner)
    return None if found.all() else found


def column(schema: Schema, chunk: Chunk, first: int, n: int, owner: Any, name: str) -> Piece:
    """n elements of an array in memory, from one of them on."""
    stored, meant = kind_of(schema, name)
    first += chunk.offset
    keep = validity(chunk, first, n, owner)
    if schema.dictionary:
        return chosen(schema, chunk, first, n, keep, owner, name)
    if stored is None:
        return Piece(bits(chunk.buffers[1], first, n, owner), keep)
    if isinstance(stored, str):
        return Piece(np.zeros(n), np.zeros(n, bool))
    data = here((chunk.buffers[1] or 0) + first * stored.itemsize, stored, n, owner)
    if meant.kind == "b":
        return Piece(data != 0, keep)
    return Piece(data.astype("i8").view(meant) if meant.kind == "M" and stored.itemsize < 8 else data.view(meant), keep)


def chosen(schema: Schema, chunk: Chunk, first: int, n: int, keep: Array | None, owner: Any, name: str) -> Piece:
    """Elements of a dictionary, by their numbers."""
    stored = np.dtype(TYPES[schema.format.decode()])
    which = here((chunk.buffers[1] or 0) + first * stored.itemsize, stored, n, owner)
    words = chunk.dictionary.contents
    values, known = column(schema.dictionary.contents, words, 0, words.length, owner, name)
    if keep is not None:
        which = np.where(keep, which, 0)
    if not len(values):
        return Piece(np.zeros(n, values.dtype), keep)
    if known is not None:
        keep = known[which] if keep is None else keep & known[which]
    return Piece(values[which], keep)


def same_type(schema: Schema, name: str) -> np.dtype[Any]:
    """The type of the elements of all columns."""
    if schema.format != STRUCT.encode():
        return kind_of(schema, name)[1]
    kinds = [kind_of(schema.children[i].contents, name)[1] for i in range(schema.n_children)]
    if not kinds:
        raise TypeError(f"{name}: a table without columns cannot be reduced")
    return agreed(kinds, name)


def piece_of(schema: Schema, chunk: Chunk, owner: Any, name: str) -> Piece:
    """The elements of an array, or of all columns of a table as (rows, columns)."""
    if schema.format != STRUCT.encode():
        return column(schema, chunk, 0, chunk.length, owner, name)
    rows = validity(chunk, chunk.offset, chunk.length, owner)
    parts = [column(schema.children[i].contents, chunk.children[i].contents, chunk.offset, chunk.length, owner, name)
             for i in range(schema.n_children)]
    return side_by_side(parts, same_type(schema, name), rows, name)


def side_by_side(parts: list[Piece], dtype: np.dtype[Any], rows: Array | None, name: str) -> Piece:
    """Columns as (rows, columns) of one type. In memory each column stays in one piece."""
    n = len(parts[0].data)
    data, keep = np.empty((len(parts), n), dtype), None
    if rows is not None or any(p.keep is not None for p in parts):
        keep = np.ones((len(parts), n), bool) if rows is None else np.tile(rows, (len(parts), 1))
    for i, p in enumerate(parts):
        data[i] = exactly(p, dtype, name)
        if keep is not None and p.keep is not None:
            keep[i] &= p.keep
    return Piece(data.T, None if keep is None else keep.T)


def exactly(p: Piece, dtype: np.dtype[Any], name: str) -> Array:
    """The elements in the type of all columns; TypeError where one that counts would be rounded."""
    found: Array = p.data.astype(dtype, copy=False)
    if p.data.dtype.kind in "iu" and dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            lost = found.astype(p.data.dtype) != p.data
        if p.keep is not None:
            lost = lost & p.keep
        if lost.any():
            raise TypeError(f"{name}: its columns have no common type: {p.data[lost][0]} is not one of {dtype}; convert them first")
    return found


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
