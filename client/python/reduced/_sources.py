"""Where the elements of a reduction are: in memory, in a file, with the daemon, on the GPU; and how the library reaches them."""
from __future__ import annotations

import ctypes
import mmap
import os
import time
from ctypes import c_void_p
from math import prod
from typing import Any, Callable, Iterable, Iterator, Protocol

import numpy as np

from . import _abi
from ._client import Client
from .errors import Error, IoError
from ._lib import check, lib

BEHIND_HEAD = object.__basicsize__  # of a PyArrayObject, whose first member is the address of the data


pointer_at = c_void_p.from_address


def _peek(a: np.ndarray[Any, Any]) -> int:
    return int(pointer_at(id(a) + BEHIND_HEAD).value or 0)


def _ask(a: np.ndarray[Any, Any]) -> int:
    return int(a.ctypes.data)


_sample = np.zeros(3)
HEAD_KNOWN = _peek(_sample) == _ask(_sample)
address = _peek if HEAD_KNOWN else _ask  # of an array's data; _peek takes 0.1 us, _ask 0.8


def pointer(a: np.ndarray[Any, Any]) -> c_void_p:
    """The same for a call, in a third of the time. It is in the array's head, which the caller keeps."""
    return pointer_at(id(a) + BEHIND_HEAD) if HEAD_KNOWN else c_void_p(_ask(a))


class Source(Protocol):
    """`run` makes the call; `start` begins a job, if `jobs`."""

    jobs: bool
    nbytes: int
    client: Client | None = None  # the one that holds resident elements

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int: ...

    def start(self, client: Client, spec: Any, out: Any, room: int, done: Any, job: Any) -> int: ...


class Memory(Source):
    """Contiguous elements in this process."""

    jobs = True

    def __init__(self, a: np.ndarray[Any, Any]):
        self.a, self.address, self.nbytes = a, address(a), a.nbytes

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int:
        return client.attempt("reduce_run", spec, self.address, self.nbytes, out, room, result)

    def start(self, client: Client, spec: Any, out: Any, room: int, done: Any, job: Any) -> int:
        return client.attempt("reduce_submit", spec, self.address, self.nbytes, out, room, done, None, job)


class FileRange(Source):
    """Contiguous elements in a file."""

    jobs = True

    def __init__(self, fd: int, offset: int, nbytes: int, keep: Any = None):
        self.fd, self.offset, self.nbytes, self.keep = fd, offset, nbytes, keep

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int:
        return client.attempt("reduce_file", spec, self.fd, self.offset, self.nbytes, out, room, result)

    def start(self, client: Client, spec: Any, out: Any, room: int, done: Any, job: Any) -> int:
        return client.attempt("reduce_submit_file", spec, self.fd, self.offset, self.nbytes, out, room, done, None, job)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.fd)


BLOCK = 1 << 24  # bytes: elements that do not lie in order are copied in blocks of this size, if they are more than COPIED
COPIED = 1 << 26
LONG_LINE = 1 << 15   # bytes: a call for it takes less time than a copy of it,
LONG_LINES = 1 << 21  # ... if all have more: a plan for them is made each time
Ready = Callable[[Any, Any], tuple[Any, Any]]  # makes elements and mask of a piece as those of the plan


class InPieces(Source):
    """Pieces that are sent one after the other, each when it was read. Without `masked` none of them has a mask."""

    jobs = False

    def __init__(self, pieces: Iterable[Any], ready: Ready, nbytes: int = 0, masked: bool = True):
        self.pieces, self.ready, self.nbytes, self.masked = pieces, ready, nbytes, masked

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int:
        one = _abi.Spec.from_buffer_copy(ctypes.cast(spec, ctypes.POINTER(_abi.Spec)).contents)
        one.flags |= _abi.MASKED * self.masked
        handle = c_void_p()
        client.call("reduce_stream_begin", ctypes.byref(one), ctypes.byref(handle))
        try:
            for piece in self.pieces:
                data, keep = self.ready(*piece)
                if self.masked:
                    check(lib().reduce_stream_append_masked(handle, address(data), address(keep), data.size))
                else:
                    check(lib().reduce_stream_append(handle, address(data), data.nbytes))
        except BaseException:
            lib().reduce_stream_abort(handle)
            raise
        return int(lib().reduce_stream_finish(handle, out, room, result))

    def start(self, *_: Any) -> int:
        raise NotImplementedError


def blocks(a: Any, keep: Any) -> Iterator[tuple[Any, Any]]:
    """Elements and their mask in C order, a block at a time, in one dimension."""
    if a.size > 1 and a.nbytes > BLOCK:
        step = max(1, BLOCK * len(a) // a.nbytes)
        for i in range(0, len(a), step):
            part = slice(i, i + step) if step > 1 or a.ndim == 1 else i
            yield from blocks(a[part], None if keep is None else keep[part])
    else:
        yield np.ascontiguousarray(a).reshape(-1), None if keep is None else np.ascontiguousarray(keep).reshape(-1)


class InRows(Source):
    """Lines of elements that do not lie in order, some of them copied at a time, and a long one by pieces. The first `kept` axes have a
    result for each place. Lines that are only `apart` are not copied."""

    jobs = False

    def __init__(self, a: Any, keep: Any, kept: int, view: str, apart: bool):
        self.a, self.keep, self.kept, self.view, self.nbytes, self.block = a, keep, kept, view, a.nbytes, 0 if apart else BLOCK

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int:
        one = _abi.Spec.from_buffer_copy(ctypes.cast(spec, ctypes.POINTER(_abi.Spec)).contents)
        end = time.monotonic() + one.deadline_ms / 1000 if one.deadline_ms else None
        size = room // one.rows
        for first, a, keep, rows in parts(self.a, self.keep, self.kept, 0, self.block):
            if end is not None:
                one.deadline_ms = max(1, round((end - time.monotonic()) * 1000))
            one.rows = rows
            place, space = out + first * size, rows * size
            try:
                if a.nbytes > BLOCK and not a.flags.c_contiguous:
                    pieces = InPieces(blocks(a, keep), lambda x, k: (x.view(self.view), k), a.nbytes, keep is not None)
                    check(pieces.run(client, ctypes.byref(one), place, space, result))
                    continue
                data, marks = np.ascontiguousarray(a), None if keep is None else np.ascontiguousarray(keep)
                masked = _abi.Spec.from_buffer_copy(one)
                masked.mask = None if marks is None else address(marks)
                client.call("reduce_run", ctypes.byref(masked), address(data), data.nbytes, place, space, result)
            except Error as e:
                e.index = first + (e.index or 0)
                raise
        return 0

    def start(self, *_: Any) -> int:
        raise NotImplementedError


def parts(a: Any, keep: Any, kept: int, first: int, block: int) -> Iterator[tuple[int, Any, Any, int]]:
    """(number of its first result, elements, mask, results) of parts of lines that are small, or have one result."""
    if not kept or a.nbytes <= block:
        yield first, a, keep, prod(a.shape[:kept])
        return
    step, each = max(1, block * len(a) // a.nbytes), prod(a.shape[1:kept])
    for i in range(0, len(a), step):
        at: Any = slice(i, i + step) if step > 1 else i
        yield from parts(a[at], None if keep is None else keep[at], kept if step > 1 else kept - 1, first + i * each, block)


def _mapped(address: int) -> tuple[int, int, int, int] | None:
    """From /proc, the mapping at an address: its begin, its offset in the file, the file's device and inode."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, access, offset, device, inode, *_ = line.split()
            begin, end = (int(x, 16) for x in span.split("-"))
            if begin <= address < end:
                major, minor = (int(x, 16) for x in device.split(":"))
                return (begin, int(offset, 16), os.makedev(major, minor), int(inode)) if access[3] == "s" or access[1] != "w" else None
    return None


def of_memmap(a: np.ndarray[Any, Any], filename: Any) -> FileRange | None:
    """The range of the file that `a` maps; None if that is unknown: a private mapping, or another file has the name."""
    where = _mapped(address(a)) if filename else None
    if where is None:
        return None
    begin, offset, device, inode = where
    try:
        fd = os.open(filename, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    st = os.fstat(fd)
    source = FileRange(fd, offset + address(a) - begin, a.nbytes, a)
    if (st.st_dev, st.st_ino) != (device, inode):
        return None
    if source.offset + a.nbytes > st.st_size:  # reading the map would end the process
        raise IoError(f"a: {filename} has become shorter than its map", "a")
    return source


def in_memory(a: np.ndarray[Any, Any], filename: Any, plain: bool) -> Source:
    """The source of elements in order; those of a memmap are read from its file if the daemon can (`plain`)."""
    if plain and filename is not None and a.nbytes >= mmap.PAGESIZE:
        return of_memmap(a, filename) or Memory(a)
    return Memory(a)

