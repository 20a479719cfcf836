"""A producer of the Arrow C data interface in plain ctypes, so that tests need no pyarrow. It counts what is not released."""
import ctypes

import numpy as np

import pythonpackage  # noqa: F401  (it finds the package)
from reduced import _arrow
from reduced._arrow import Chunk, DeviceChunk, DeviceStream, Schema, Stream

GIVE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
living = {}  # of structs that were handed out: what they point to, until they are released
numbers = iter(range(1, 1 << 60))


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def release_array(at):
    one = Chunk.from_address(at)
    del living[one.private_data]
    one.release = None


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def release_schema(at):
    one = Schema.from_address(at)
    del living[one.private_data]
    one.release = None


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def release_stream(at):
    one = Stream.from_address(at)
    del living[one.private_data]
    one.release = None


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def release_device_stream(at):
    one = DeviceStream.from_address(at)
    del living[one.private_data]
    one.release = None


def pointer(f):
    return ctypes.cast(f, ctypes.c_void_p).value


def bitmap(marks, offset):
    return np.packbits(np.concatenate([np.ones(offset, bool), marks]), bitorder="little")


def child(kind):
    """A struct that its parent holds and releases."""
    one = kind()
    one.parts = ()
    return one


def held(into, parts):
    """Keep what a struct points to; the number under which that is found for its release."""
    if hasattr(into, "parts"):
        into.parts = parts
        return 0
    number = next(numbers)
    living[number] = parts
    return number


class Column:
    """Elements with the format of Arrow; nulls where `keep` is not true. They begin at `offset` of their buffers."""

    def __init__(self, values, form, keep=None, offset=0, name="x", metadata=None, words=None, table=()):
        self.form, self.n, self.offset, self.name, self.metadata, self.words, self.table = form, len(values), offset, name, metadata, words, table
        valid = None if keep is None else bitmap(np.asarray(keep, bool), offset)
        data = bitmap(values, offset) if form == "b" else None if form in ("n", "+s") else np.concatenate([np.full(offset, 77, values.dtype), values])
        self.buffers = {"n": [], "+s": [valid]}.get(form, [valid, data])
        self.nulls = 0 if keep is None else -1

    def schema(self, into):
        children = [c.schema(child(Schema)) for c in self.table]
        many = (ctypes.POINTER(Schema) * max(1, len(children)))(*map(ctypes.pointer, children))
        words = self.words and self.words.schema(child(Schema))
        form, name = self.form.encode(), self.name.encode()
        number = held(into, (children, many, words, form, name, self))
        into.format, into.name, into.flags, into.metadata = form, name, 2, self.metadata and ctypes.cast(self.metadata, ctypes.c_void_p).value
        into.n_children, into.children, into.private_data, into.release = len(children), many, number, pointer(release_schema)
        if words:
            into.dictionary = ctypes.pointer(words)
        return into

    def array(self, into):
        children = [c.array(child(Chunk)) for c in self.table]
        many = (ctypes.POINTER(Chunk) * max(1, len(children)))(*map(ctypes.pointer, children))
        buffers = (ctypes.c_void_p * max(1, len(self.buffers)))(*[b if b is None or isinstance(b, int) else b.ctypes.data for b in self.buffers])
        words = self.words and self.words.array(child(Chunk))
        number = held(into, (children, many, buffers, words, self))
        into.length, into.null_count, into.offset, into.n_buffers, into.buffers = self.n, self.nulls, self.offset, len(self.buffers), buffers
        into.n_children, into.children, into.private_data, into.release = len(children), many, number, pointer(release_array)
        if words:
            into.dictionary = ctypes.pointer(words)
        return into


def table(columns, keep=None):
    """Columns side by side, as one array of structs."""
    return Column(np.empty(columns[0].n), "+s", keep, table=columns)


new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
name_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(("PyCapsule_GetName", ctypes.pythonapi))
inside = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
structs = {}  # in capsules, by address, with what releases them


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def drop(capsule):
    """The destructor of a capsule: releases a struct that nobody took over."""
    struct, release, _ = structs.pop(inside(capsule, name_of(capsule)))
    if getattr(struct, "array", struct).release:
        release(ctypes.addressof(struct))


def capsule(struct, name, release):
    kept = ctypes.create_string_buffer(name)
    structs[ctypes.addressof(struct)] = struct, release, kept
    return new(ctypes.addressof(struct), ctypes.addressof(kept), pointer(drop))


class OneArray:
    def __init__(self, column):
        self.column = column

    def __arrow_c_array__(self, requested_schema=None):
        return (capsule(self.column.schema(Schema()), b"arrow_schema", release_schema),
                capsule(self.column.array(Chunk()), b"arrow_array", release_array))


class OnDevice:
    """The same in memory of a device, whose addresses the buffers of the column are."""

    def __init__(self, column, device_type=_arrow.CUDA, event=None):
        self.column, self.device_type, self.event = column, device_type, event

    def __arrow_c_device_array__(self, requested_schema=None, **_):
        one = DeviceChunk(device_type=self.device_type, sync_event=self.event and ctypes.addressof(self.event))
        self.column.array(one.array)
        return capsule(self.column.schema(Schema()), b"arrow_schema", release_schema), capsule(one, b"arrow_device_array", release_array)


class Pieces:
    """A stream of arrays of one type, which can be read once. `make(i)` gives the i-th, None the end; it may raise."""

    def __init__(self, first, make):
        self.first, self.make, self.i, self.asked = first, make, 0, 0
        self.error = b""

    def functions(self):
        def get_schema(_, out):
            self.first.schema(Schema.from_address(out))
            return 0

        def get_next(_, out):
            one = Chunk.from_address(out)
            one.release = None
            try:
                found = self.make(self.i)
            except Exception as e:
                self.error = str(e).encode()
                return 5
            self.i += 1
            if found is not None:
                found.array(one)
            return 0

        def get_last_error(_):
            return ctypes.cast(ctypes.c_char_p(self.error), ctypes.c_void_p).value
        return GIVE(get_schema), GIVE(get_next), ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(get_last_error)

    def __arrow_c_stream__(self, requested_schema=None):
        self.asked += 1
        number, functions = next(numbers), self.functions()
        living[number] = functions
        return capsule(Stream(*map(pointer, functions), pointer(release_stream), number), b"arrow_array_stream", release_stream)
