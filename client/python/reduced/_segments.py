"""Segments: neighbouring elements along one axis, between offsets, with one result for each of them."""
from __future__ import annotations

import ctypes
import time
from math import prod
from typing import Any

import numpy as np

from . import _abi
from ._arrays import complete
from ._client import Client
from .errors import DeadlineError, Error
from ._layout import Layout, axes_of
from ._lib import check
from ._remote import Array, Remote
from ._sources import Source, address

# Elements on the GPU are reduced there, one request for each segment. A request takes some 40 us, in which about this many bytes can
# be copied to the host instead.
IN_PLACE = 1 << 17


def offsets_of(a: Any, n: int) -> Array:
    """A caller's offsets, checked, as unsigned numbers: one more than there are segments, ascending from 0 or more to at most n."""
    given = complete(a, "offsets")
    if isinstance(given, Remote):
        raise TypeError("offsets: they must be in this process's memory")
    if given.ndim != 1 or not given.size:
        raise ValueError(f"offsets: one more than there are segments are needed, in one dimension, not an array of shape {given.shape}")
    if given.dtype.kind not in "iu":
        raise TypeError(f"offsets are integers, not {given.dtype}")
    if given[0] < 0 or given[-1] > n or (given[1:] < given[:-1]).any():
        raise ValueError(f"offsets: they must ascend from 0 or more to at most {n}, the number of elements")
    return np.ascontiguousarray(given, np.uint64)


class Segments:
    """Segment i has the elements offsets[i] up to, not including, offsets[i + 1] along `axis`."""

    def __init__(self, offsets: Any, shape: tuple[int, ...], axis: Any, keepdims: bool):
        axes = axes_of(axis, len(shape))
        if len(axes) != 1:
            raise ValueError(f"axis: segments lie along one axis, and {axis!r} of {len(shape)} dimensions is not one")
        if keepdims:
            raise ValueError("keepdims: the axis of segments stays in any case, with one element for each of them")
        self.axis, = axes
        self.offsets = offsets_of(offsets, shape[self.axis])
        self.places = self.offsets.astype(np.intp)  # as NumPy indexes
        self.number = len(self.offsets) - 1

    def results(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape with the segments instead of their elements."""
        return shape[:self.axis] + (self.number,) + shape[self.axis + 1:]

    def cut(self, a: Array) -> Array:
        """Without the elements that are in no segment."""
        return a[(slice(None),) * self.axis + (slice(self.places[0], self.places[-1]),)]

    def count(self, marks: Array) -> Array:
        """How many elements of each segment are marked."""
        sums = np.insert(np.cumsum(marks, axis=self.axis), 0, 0, axis=self.axis)
        return np.asarray(np.diff(np.take(sums, self.places, self.axis), axis=self.axis))

    def first(self, marks: Array) -> Array:
        """The place of the first marked element in each segment; any number if there is none."""
        lines = np.moveaxis(marks, self.axis, -1)
        n = lines.shape[-1]
        next_one = np.full(lines.shape[:-1] + (n + 1,), n)
        next_one[..., :-1] = np.where(lines, np.arange(n), n)
        next_one = np.minimum.accumulate(next_one[..., ::-1], axis=-1)[..., ::-1]
        return np.moveaxis(next_one[..., self.places[:-1]] - self.places[:-1], -1, self.axis)

    def layout(self, ndim: int, axes: tuple[int, ...]) -> Layout:
        """Consecutive lines of segments. Axes that are reduced wholly (the parts of complex numbers) come last."""
        kept = tuple(i for i in range(ndim) if i not in axes) + (self.axis,)
        return Layout(kept + tuple(i for i in axes if i != self.axis), kept, 1, 1, True)

    def all_offsets(self, shape: tuple[int, ...], layout: Layout) -> Array:
        """The offsets of all lines. `shape` is that of the elements after `cut`."""
        width = prod(shape[i] for i in layout.order[len(layout.kept):])
        lines = prod(shape[i] for i in layout.kept[:-1])
        one = (self.offsets - self.offsets[0]) * np.uint64(width)
        begins = one[-1] * np.arange(lines, dtype=np.uint64)
        return np.ascontiguousarray(np.append((begins[:, None] + one[:-1]).ravel(), one[-1] * np.uint64(lines)))

    def in_place(self, data: Remote) -> bool:
        """Whether the segments are reduced where they lie."""
        wanted = len(data.shape) == 1 and data.strides[0] == data.dtype.itemsize
        long = int(self.offsets[-1] - self.offsets[0]) * data.dtype.itemsize >= IN_PLACE * self.number
        return wanted and (long or not data.readable)

    def pieces(self, data: Remote) -> Source:
        """The source of these segments."""
        return Pieces(data, self)


class Pieces(Source):
    """The source of segments that are reduced where they lie, with one request each."""

    jobs = False

    def __init__(self, data: Remote, segments: Segments):
        self.data, self.client, self.places = data, data.client, segments.places.tolist()
        self.nbytes = (self.places[-1] - self.places[0]) * data.dtype.itemsize

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int:
        whole = ctypes.cast(spec, ctypes.POINTER(_abi.Spec)).contents
        end = time.monotonic() + whole.deadline_ms / 1000
        cell = room // max(1, len(self.places) - 1)
        for i, (begin, stop) in enumerate(zip(self.places, self.places[1:])):
            one = _abi.Spec.from_buffer_copy(whole)
            one.rows, one.offsets = 1, None
            if whole.deadline_ms:
                one.deadline_ms = round((end - time.monotonic()) * 1000)
                if not 0 < one.deadline_ms <= whole.deadline_ms:
                    raise DeadlineError("DEADLINE: the segments were not done before the deadline")
            try:
                check(self.data.part(begin, stop - begin).run(client, ctypes.byref(one), out + i * cell, cell, result))
            except Error as e:
                e.index = i
                raise
        return 0

    def start(self, *_: Any) -> int:
        raise NotImplementedError
