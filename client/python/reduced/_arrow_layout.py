"""Arrays of the Arrow C data interface as NumPy's. Nulls are a mask, so that integers stay integers. The layouts are those of Arrow's
specification."""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from ._elements import agreed, other_dates

Array = np.ndarray[Any, Any]
TYPES = {"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8", "e": "f2", "f": "f4", "g": "f8"}
DATES = {"tdD": ("i4", "M8[D]"), "tdm": ("i8", "M8[ms]")}
UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}
BITS, STRUCT, NULLS = "b", "+s", "n"
EXTENSION, BOOL8 = "ARROW:extension:name", "arrow.bool8"
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


class Piece(NamedTuple):
    """Elements, of several columns in two dimensions, and which of them are not null; None: all."""

    data: Any
    keep: Array | None


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
    if p.data.dtype.kind in "iu" and dtype.kind == "f" or p.data.dtype.kind in "mM" and p.data.dtype != dtype:
        with np.errstate(invalid="ignore"):
            lost = other_dates(p.data, dtype) if dtype.kind in "mM" else found.astype(p.data.dtype) != p.data
        if p.keep is not None:
            lost = lost & p.keep
        if lost.any():
            raise TypeError(f"{name}: its columns have no common type: {p.data[lost][0]} is not one of {dtype}; convert them first")
    return found
