"""libreduce.so through ctypes: the public calls of client/reduce.h that the tests use."""
import ctypes as C

import order
import pairs
from conftest import libreduce_path
from oracle import DTYPES, NANS, OPS

ERRORS = {0: "OK", -1: "BAD_MESSAGE", -2: "VERSION", -3: "TYPE", -4: "OP", -5: "SHAPE", -6: "EMPTY", -7: "OVERFLOW", -8: "NAN", -9: "TOO_LARGE",
          -10: "QUOTA", -11: "BUSY", -12: "DEADLINE", -13: "CANCELLED", -15: "BAD_HANDLE", -16: "IO", -19: "NO_MEMORY", -21: "EXISTS", -101: "ARGUMENT", -102: "NO_DAEMON", -103: "TIMEOUT", -104: "STREAM_LOST"}


STATES_IN, STATES_OUT, WRAP, MASKED, COLUMNS, DROP_ZERO_WEIGHTS, DROP_OUTSIDE = 1, 2, 4, 16, 64, 256, 512


class Spec(C.Structure):
    _fields_ = [("size", C.c_uint32), ("op", C.c_int32), ("dtype", C.c_int32), ("out", C.c_int32), ("nan", C.c_int32), ("flags", C.c_uint32),
                ("ddof", C.c_uint32), ("deadline_ms", C.c_uint32), ("path", C.c_int32), ("device", C.c_uint32), ("rows", C.c_uint64), ("index_base", C.c_uint64),
                ("initial", C.c_char_p), ("mask", C.c_char_p), ("offsets", C.c_char_p), ("planes", C.c_uint64),
                ("q", C.POINTER(C.c_double)), ("k", C.c_int64), ("quantiles", C.c_uint32), ("method", C.c_int32),
                ("edges", C.POINTER(C.c_double)), ("n_edges", C.c_uint64),
                ("weights", C.c_char_p), ("weights_dtype", C.c_int32), ("weights_extent", C.c_int32),
                ("keys", C.c_char_p), ("keys_name", C.c_char_p), ("keys_offset", C.c_uint64), ("keys_dtype", C.c_int32), ("keys_reserved", C.c_int32)]


class OpenOpts(C.Structure):
    _fields_ = [("size", C.c_uint32), ("flags", C.c_uint32), ("name", C.c_char_p), ("connect_timeout_ms", C.c_uint32),
                ("reconnect_timeout_ms", C.c_uint32), ("timeout_ms", C.c_uint32), ("daemon", C.c_char_p), ("idle_exit_s", C.c_uint32),
                ("tls_ca", C.c_char_p), ("tls_cert", C.c_char_p), ("tls_key", C.c_char_p), ("priority", C.c_int32), ("local", C.c_uint32)]


class Result(C.Structure):
    _fields_ = [("size", C.c_uint32), ("dtype", C.c_int32), ("backend", C.c_int32), ("path", C.c_int32)] + [
        (name, C.c_uint64) for name in ("cell_size", "cells", "count", "queue_ns", "copy_ns", "compute_ns", "wall_ns", "reserved")]


class Item(C.Structure):
    _fields_ = [("size", C.c_uint32), ("fd", C.c_int32), ("spec", C.POINTER(Spec)), ("data", C.c_void_p), ("device", C.c_char_p), ("offset", C.c_uint64),
                ("bytes", C.c_uint64), ("out", C.c_void_p), ("room", C.c_size_t), ("block", C.c_void_p)]


class FaultStruct(C.Structure):
    _fields_ = [("size", C.c_uint32), ("code", C.c_int32), ("limit", C.c_uint64), ("index", C.c_uint64), ("value_low", C.c_uint64),
                ("value_high", C.c_uint64), ("retry_ms", C.c_uint32), ("field", C.c_char * 28), ("text", C.c_char * 164)]


class PutOpts(C.Structure):
    _fields_ = [("size", C.c_uint32), ("flags", C.c_uint32), ("ttl_ms", C.c_uint32), ("deadline_ms", C.c_uint32), ("path", C.c_int32),
                ("place", C.c_uint32), ("dims", C.c_uint32), ("order", C.c_uint32), ("shape", C.POINTER(C.c_uint64))]


class Resident(C.Structure):
    _fields_ = [("size", C.c_uint32), ("dtype", C.c_int32), ("bytes", C.c_uint64), ("age_ms", C.c_uint64), ("left_ms", C.c_uint64),
                ("uses", C.c_uint32), ("name", C.c_char * 68), ("dims", C.c_uint32), ("order", C.c_uint32), ("shape", C.c_uint64 * 16),
                ("place", C.c_uint64)]


class Fault(Exception):
    def __init__(self, lib, code):
        f = FaultStruct(size=C.sizeof(FaultStruct))
        lib.reduce_last_fault(C.byref(f))
        self.code = ERRORS.get(code, str(code))
        self.limit, self.index, self.field, self.text = f.limit, f.index, f.field.decode(errors="replace"), f.text.decode()
        self.value = f.value_low | f.value_high << 64
        if f.value_high >> 63:
            self.value -= 2**128
        super().__init__(lib.reduce_errmsg().decode())


class Gpu(C.Structure):
    _fields_ = [("size", C.c_uint32), ("device", C.c_uint32), ("ordinal", C.c_int32), ("lost", C.c_uint32), ("uuid", C.c_uint8 * 16), ("name", C.c_char * 48)]


def load():
    lib = C.CDLL(libreduce_path())
    lib.reduce_errmsg.restype = C.c_char_p
    lib.reduce_state_size.restype = lib.reduce_state_words.restype = lib.reduce_state_keys.restype = C.c_size_t
    lib.reduce_dtype_size.restype = C.c_size_t
    lib.reduce_close.restype = lib.reduce_job_free.restype = lib.reduce_cancel.restype = None
    lib.reduce_stream_abort.restype = lib.reduce_free.restype = None
    return lib


class State:
    """A partial state in this process: the calls on states, which need no client."""

    def __init__(self, op, dtype, data=None):
        self.lib, self.op, self.dtype = load(), op, dtype
        self.bytes = C.create_string_buffer(self.lib.reduce_state_size(OPS[op], DTYPES[dtype]))
        self._check(self.lib.reduce_state_init(self.bytes, C.c_size_t(len(self.bytes)), OPS[op], DTYPES[dtype]))
        if data is not None:
            self.bytes.raw = data

    def __bytes__(self):
        return self.bytes.raw

    def size(self):
        return C.c_size_t(len(self.bytes))

    def _check(self, code):
        if code:
            raise Fault(self.lib, code)
        return self

    def add(self, bits, nan=None, index=0):
        """Of an array of element bits; `nan` None: the plain call."""
        count = C.c_size_t(len(bits))
        if nan is None:
            return self._check(self.lib.reduce_state_add(self.bytes, self.size(), bits.tobytes(), count))
        return self._check(self.lib.reduce_state_add_at(self.bytes, self.size(), bits.tobytes(), count, NANS[nan], C.c_uint64(index)))

    def add_missing(self, count):
        return self._check(self.lib.reduce_state_add_missing(self.bytes, self.size(), C.c_uint64(count)))

    def merge(self, other):
        """Of a State, or bytes."""
        return self._check(self.lib.reduce_state_merge(self.bytes, self.size(), bytes(other), C.c_size_t(len(bytes(other)))))

    def merge_at(self, other, index):
        """The same of a part that begins at `index`."""
        return self._check(self.lib.reduce_state_merge_at(self.bytes, self.size(), bytes(other), C.c_size_t(len(bytes(other))), C.c_uint64(index)))

    def finish(self, op=None, dtype=None, **kw):
        spec = Client.spec(op or self.op, dtype or self.dtype, **kw)
        room = C.c_size_t()
        self._check(self.lib.reduce_result_size(C.byref(spec), C.c_size_t(0), C.byref(room)))
        out = C.create_string_buffer(room.value)
        self._check(self.lib.reduce_state_finish(self.bytes, self.size(), C.byref(spec), out, room))
        return int.from_bytes(out.raw, "little")

    def lengths(self):
        """How many words are added, and how many there are in all; (0, 0): none."""
        words = self.lib.reduce_state_words(OPS[self.op], DTYPES[self.dtype])
        keys = self.lib.reduce_state_keys(OPS[self.op], DTYPES[self.dtype])
        return (words, words) if words else (min(keys, 9), keys)

    def words(self, n=None):
        n = self.lengths()[1] if n is None else n
        words = (C.c_int64 * n)()
        self._check(self.lib.reduce_state_to_words(self.bytes, self.size(), words, C.c_size_t(n)))
        return list(words)

    @classmethod
    def of_words(cls, op, dtype, words):
        s = cls(op, dtype)
        array = (C.c_int64 * len(words))(*words)
        return s._check(s.lib.reduce_state_from_words(s.bytes, C.c_size_t(len(s.bytes)), OPS[op], DTYPES[dtype], array, C.c_size_t(len(words))))


class Client:
    """A reduce_client. Data are bytes-like; results are the bytes of the cells."""

    def __init__(self, url, **options):
        """`options`: fields of OpenOpts."""
        self.lib = load()
        self.handle = C.c_void_p()
        opts = OpenOpts(size=C.sizeof(OpenOpts), **options)
        self._check(self.lib.reduce_open(C.byref(self.handle), url.encode(), C.byref(opts)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.reduce_close(self.handle)

    def _check(self, code):
        if code:
            raise Fault(self.lib, code)

    @staticmethod
    def spec(op, dtype, out=None, nan="propagate", flags=0, rows=1, index_base=0, deadline_ms=0, ddof=0, initial=None, mask=None, offsets=None, path=0,
             planes=0, device=0, q=(), k=0, method=0, edges=(), weights=None, weights_dtype=None, weights_extent=0,
             keys=None, keys_dtype=None, keys_name=None, keys_offset=0):
        """`initial`: the bytes of an element; `mask`, `offsets`, `weights` and `keys`: bytes that the caller keeps; `q`: quantiles; `edges`: of a histogram."""
        return Spec(C.sizeof(Spec), {**OPS, **order.OPS, **pairs.OPS}[op], DTYPES[dtype], DTYPES[out] if out else 0, NANS[nan], flags, ddof, deadline_ms, path, device, rows, index_base,
                    initial, mask, offsets, planes, (C.c_double * len(q))(*q) if len(q) else None, k, len(q), method,
                    (C.c_double * len(edges))(*edges) if len(edges) else None, len(edges),
                    weights, DTYPES[weights_dtype] if weights_dtype else 0, weights_extent,
                    keys, keys_name.encode() if keys_name else None, keys_offset, DTYPES[keys_dtype] if keys_dtype else 0, 0)

    def _room(self, spec, data=b""):
        room = C.c_size_t()
        self._check(self.lib.reduce_result_size(C.byref(spec), C.c_size_t(len(data)), C.byref(room)))
        return C.create_string_buffer(room.value), room

    def run(self, op, dtype, data, **kw):
        spec = self.spec(op, dtype, **kw)
        out, room = self._room(spec, data)
        self._check(self.lib.reduce_run(self.handle, C.byref(spec), data, C.c_size_t(len(data)), out, room, None))
        return out.raw

    def _result(self, call, spec, where, *args):
        """(bytes of the cells, Result)"""
        out, room = self._room(spec, range(args[-1].value))
        result = Result(C.sizeof(Result))
        self._check(call(self.handle, C.byref(spec), where, *args, out, room, C.byref(result)))
        return out.raw, result

    def run_at(self, op, dtype, address, size, **kw):
        return self._result(self.lib.reduce_run, self.spec(op, dtype, **kw), C.c_void_p(address), C.c_size_t(size))

    def file(self, op, dtype, fd, offset, size, **kw):
        return self._result(self.lib.reduce_file, self.spec(op, dtype, **kw), C.c_int(fd), C.c_uint64(offset), C.c_uint64(size))

    def device_import(self, fd, size):
        """The handle for `device` of memory that `fd` stands for."""
        handle = C.create_string_buffer(64)
        self._check(self.lib.reduce_device_import(self.handle, fd, C.c_uint64(size), handle))
        return handle.raw

    def device(self, op, dtype, handle, offset, size, **kw):
        return self._result(self.lib.reduce_device, self.spec(op, dtype, **kw), handle, C.c_uint64(offset), C.c_uint64(size))

    def device_masked(self, op, dtype, handle, offset, size, mask, mask_offset, **kw):
        def call(client, spec, where, at, n, *results):
            return self.lib.reduce_device_masked(client, spec, where, at, n, mask, C.c_uint64(mask_offset), *results)
        return self._result(call, self.spec(op, dtype, **kw), handle, C.c_uint64(offset), C.c_uint64(size))

    def collective(self, op, dtype, size, data=None, handle=None, **kw):
        """reduce_collective of one process, with its part in memory or on a device."""
        @C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_size_t)
        def alone(_, buffer, n):
            return 0

        def call(client, spec, where, n, out, room, result):
            item = Item(C.sizeof(Item), -1, C.cast(spec, C.POINTER(Spec)), data, handle, 0, n.value, C.cast(out, C.c_void_p), room.value, None)
            return self.lib.reduce_collective(client, C.byref(item), C.c_size_t(1), 0, alone, None)
        return self._result(call, self.spec(op, dtype, **kw), None, C.c_size_t(size))[0]

    def gpus(self):
        found = []

        @C.CFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(Gpu))
        def each(_, g):
            found.append((g[0].device, g[0].ordinal, g[0].lost, bytes(g[0].uuid), g[0].name.decode()))
            return 0

        self._check(self.lib.reduce_gpus(self.handle, each, None))
        return found

    def device_uuid(self, handle, uuid):
        self._check(self.lib.reduce_device_uuid(self.handle, handle, uuid))

    def device_close(self, handle):
        self._check(self.lib.reduce_device_close(self.handle, handle))

    def alloc(self, size):
        """An address."""
        memory = C.c_void_p()
        self._check(self.lib.reduce_alloc(self.handle, C.c_size_t(size), C.byref(memory)))
        return memory.value

    def free(self, address):
        self.lib.reduce_free(self.handle, C.c_void_p(address))

    def _put_opts(self, replace=False, ttl_ms=0, deadline_ms=0, path=0, shape=(), order=0):
        return C.byref(PutOpts(C.sizeof(PutOpts), replace, ttl_ms, deadline_ms, path, 0, len(shape), order, (C.c_uint64 * len(shape))(*shape)))

    def put(self, name, dtype, address, size, **kw):
        self._check(self.lib.reduce_put(self.handle, name.encode(), DTYPES[dtype], C.c_void_p(address), C.c_size_t(size), self._put_opts(**kw)))

    def put_file(self, name, dtype, fd, offset, size, **kw):
        self._check(self.lib.reduce_put_file(self.handle, name.encode(), DTYPES[dtype], C.c_int(fd), C.c_uint64(offset), C.c_uint64(size),
                                             self._put_opts(**kw)))

    def named(self, op, dtype, name, offset=0, size=None, room_for=0, **kw):
        """Of resident data; size None: all. Columns: `room_for` says of how many bytes."""
        spec = self.spec(op, dtype, **kw)
        out, room = self._room(spec, range(room_for))
        result = Result(C.sizeof(Result))
        self._check(self.lib.reduce_named(self.handle, C.byref(spec), name.encode(), C.c_uint64(offset),
                                          C.c_uint64(2**64 - 1 if size is None else size), out, room, C.byref(result)))
        return out.raw, result

    def list(self):
        found = []

        @C.CFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(Resident))
        def each(_, r):
            found.append((r[0].name.decode(), r[0].dtype, r[0].bytes))
            return 0
        self._check(self.lib.reduce_list(self.handle, each, None))
        return sorted(found)

    def find(self, name):
        r = Resident(C.sizeof(Resident))
        self._check(self.lib.reduce_find(self.handle, name.encode(), C.byref(r)))
        return r

    def drop(self, name):
        self._check(self.lib.reduce_drop(self.handle, name.encode()))

    def stream(self, op, dtype, pieces, **kw):
        spec = self.spec(op, dtype, **kw)
        out, room = self._room(spec)
        stream = C.c_void_p()
        self._check(self.lib.reduce_stream_begin(self.handle, C.byref(spec), C.byref(stream)))
        for piece in pieces:
            code = self.lib.reduce_stream_append(stream, piece, C.c_size_t(len(piece)))
            if code:
                fault = Fault(self.lib, code)
                self.lib.reduce_stream_abort(stream)
                raise fault
        self._check(self.lib.reduce_stream_finish(stream, out, room, None))
        return out.raw

    def masked_stream(self, op, dtype, pieces, **kw):
        """`pieces`: pairs of the bytes of whole elements and their mask."""
        spec = self.spec(op, dtype, flags=MASKED, **kw)
        out, room = self._room(spec)
        stream = C.c_void_p()
        self._check(self.lib.reduce_stream_begin(self.handle, C.byref(spec), C.byref(stream)))
        for piece, mask in pieces:
            self._check(self.lib.reduce_stream_append_masked(stream, piece, mask, C.c_size_t(len(mask))))
        self._check(self.lib.reduce_stream_finish(stream, out, room, None))
        return out.raw

    def stream_of_pairs(self, op, dtype, pieces, flags=0, **kw):
        """`pieces`: the number of elements, their bytes, their weights and their mask or None. Raises what the pieces or the end refuse."""
        spec = self.spec(op, dtype, flags=flags, **kw)
        out, room = self._room(spec)
        stream = C.c_void_p()
        self._check(self.lib.reduce_stream_begin(self.handle, C.byref(spec), C.byref(stream)))
        try:
            for n, *arrays in pieces:
                self._check(self.lib.reduce_stream_append_pairs(stream, *arrays, C.c_size_t(n)))
        except Fault:
            self.lib.reduce_stream_abort(stream)
            raise
        self._check(self.lib.reduce_stream_finish(stream, out, room, None))
        return out.raw

    def keyed_stream(self, op, dtype, pieces, **kw):
        """`pieces`: the number of elements, their bytes, their keys and their mask or None."""
        spec = self.spec(op, dtype, **kw)
        out, room = self._room(spec)
        stream = C.c_void_p()
        self._check(self.lib.reduce_stream_begin(self.handle, C.byref(spec), C.byref(stream)))
        try:
            for n, *arrays in pieces:
                self._check(self.lib.reduce_stream_append_keyed(stream, *arrays, C.c_size_t(n)))
        except Fault:
            self.lib.reduce_stream_abort(stream)
            raise
        self._check(self.lib.reduce_stream_finish(stream, out, room, None))
        return out.raw

    def submit_all(self, requests):
        """Run many (op, dtype, data, keywords) at once; yields the bytes or the Fault of each."""
        jobs = []
        for op, dtype, data, kw in requests:
            spec = self.spec(op, dtype, **kw)
            out, room = self._room(spec, data)
            job = C.c_void_p()
            self._check(self.lib.reduce_submit(self.handle, C.byref(spec), data, C.c_size_t(len(data)), out, room, None, None, C.byref(job)))
            jobs.append((job, out))
        for job, out in jobs:
            code = self.lib.reduce_wait(job, C.c_uint32(2**32 - 1), None)
            yield Fault(self.lib, code) if code else out.raw
            self.lib.reduce_job_free(job)
