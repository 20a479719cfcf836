"""Arrow's arrays on a GPU: elements without nulls are reduced where they lie; a mask of nulls comes to the host, one bit for each."""
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import _device
from ._arrow_layout import STRUCT, Array, Piece, bits, kind_of, same_type, side_by_side
from ._device import LEGACY_STREAM, Tensor


def fetched(pointer: int, nbytes: int) -> Array:
    """A copy of bytes on the GPU."""
    found = np.empty(nbytes, np.uint8)
    if nbytes:
        _device.driver().copy(found.ctypes.data, pointer, nbytes, 0, nbytes, LEGACY_STREAM)
    return found


class Column(Tensor):
    """Elements of Arrow on the GPU, which no library copies for us."""

    def copy(self, why: str) -> Array:
        return fetched(self.pointer, self.nbytes).view(self.dtype).reshape(self.shape)


def bits_there(pointer: int, first: int, n: int) -> Array:
    """n bits on the GPU as bools here."""
    packed = fetched(pointer + first // 8, -(-(first % 8 + n) // 8))
    return bits(packed.ctypes.data, first % 8, n, packed).copy()


def column_on_gpu(schema: Any, chunk: Any, first: int, n: int, owner: Any, name: str) -> Piece:
    stored, meant = kind_of(schema, name)
    if schema.dictionary or isinstance(stored, str):
        raise TypeError(f"{name}: a dictionary, or nothing but nulls, on a GPU cannot be reduced; copy it to the host")
    first += chunk.offset
    keep = bits_there(chunk.buffers[0], first, n) if chunk.null_count and chunk.buffers[0] else None
    begin: int = chunk.buffers[1] or 0
    if stored is None:
        return Piece(bits_there(begin, first, n), keep)
    data: Any = Column(owner, begin + first * stored.itemsize, stored, (n,), None)
    if stored != meant:  # dates, whose NaT are found here
        data = data.copy("") != 0 if meant.kind == "b" else data.copy("").astype("i8").view(meant)
    return Piece(data, None if keep is None or keep.all() else keep)


def piece_on_gpu(schema: Any, chunk: Any, one: Any, owner: Any, name: str) -> Piece:
    """The elements of an array, once the event of its producer has happened. Several columns are joined on the host."""
    table = schema.format == STRUCT.encode()
    places = [p for c in ([chunk.children[i].contents for i in range(chunk.n_children)] if table else [chunk])
              for p in (c.buffers[i] for i in range(c.n_buffers)) if p]
    if one.sync_event and places:
        _device.driver().within(places[-1], "cuEventSynchronize", ctypes.c_void_p.from_address(one.sync_event))
    if not table:
        return column_on_gpu(schema, chunk, 0, chunk.length, owner, name)
    rows = bits_there(chunk.buffers[0], chunk.offset, chunk.length) if chunk.null_count and chunk.buffers[0] else None
    parts = [column_on_gpu(schema.children[i].contents, chunk.children[i].contents, chunk.offset, chunk.length, owner, name)
             for i in range(schema.n_children)]
    here = [Piece(p.data.copy("") if isinstance(p.data, Tensor) else p.data, p.keep) for p in parts]
    return side_by_side(here, same_type(schema, name), rows, name)
