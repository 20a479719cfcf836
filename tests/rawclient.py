"""A client of reduced in plain Python sockets, written from proto/PROTOCOL.md alone: no nng, no libreduce.

    with Connection("ipc:///run/user/1000/reduced.sock") as c:
        c.hello()
        print(c.reduce("sum", "f32", struct.pack("<3f", 1.5, 2.25, -0.5)).cells)     # bytes of 3.25 as f64
"""
import itertools
import re
import socket
import struct
from typing import NamedTuple

import oracle
from oracle import DTYPES, NANS, OPS, SIZE

HELLO, PING, QUERY, REDUCE, BEGIN, APPEND, FINISH, ABORT, REDUCE_AT, STORE, WRITE, WRITE_AT, COMMIT, LIST, DROP, CANCEL = range(1, 17)
ERRORS = ("OK BAD_MESSAGE VERSION TYPE OP SHAPE EMPTY OVERFLOW NAN TOO_LARGE QUOTA BUSY DEADLINE CANCELLED NO_SESSION "
          "BAD_HANDLE IO AUTH DEVICE_LOST NO_MEMORY INTERNAL EXISTS").split()
STATES_IN, STATES_OUT, WRAP, INITIAL, MASK, OFFSETS, COLUMNS, WEIGHTS, KEYS, DROP_OUTSIDE = (1 << i for i in range(10))
NO_INDEX = 2**64 - 1
COMPANION, PARAMETER, RESULT, STRIDE, CLAIM = range(1, 6)
ROLES = {"mask": 1, "offsets": 2, "weights": 3, "keys": 4}
EXTENTS = {"elements": 1, "row": 2, "column": 3, "bounds": 4}
MESSAGE, HANDLE, IN_DATA = 1, 2, 3
FORMS = {"u64": (1, "Q"), "i64": (2, "q"), "f64": (3, "d"), "decimal": (4, "qq")}
PARAMETERS = {"q": (1, "decimal"), "k": (2, "i64"), "edges": (3, "f64"), "bins": (4, "u64"), "lo": (5, "f64"), "hi": (6, "f64"), "zero_weights_drop": (7, "u64"),
              "method": (8, "u64")}
MAX_DATA = 4 << 20
MAX_STRIDED = 256 << 20


class Closed(Exception):
    """The daemon closed the connection."""


class ProtocolError(Exception):
    """The daemon sent something that is not this protocol."""


class Header(NamedTuple):
    version: int
    type: int
    flags: int
    status: int
    time_ms: int
    session: int
    id: int
    body_len: int


class Fault(Exception):
    """An error reply."""

    def __init__(self, header, body):
        limit, index, low, high, field_len, text_len, zero = struct.unpack_from("<QQQQHHI", body)
        if zero or len(body) != 40 + field_len + text_len or field_len > 24 or text_len > 160:
            raise ProtocolError("malformed error body")
        self.code = ERRORS[header.status]
        self.limit, self.index, self.retry_ms = limit, index, header.time_ms
        self.value = low | high << 64
        if high >> 63:
            self.value -= 2**128
        self.field = body[40 : 40 + field_len].decode("ascii")
        self.text = body[40 + field_len :].decode()
        super().__init__(f"{self.code} in '{self.field}' (limit {limit}, index {index}): {self.text}")


class Result(NamedTuple):
    dtype: int
    backend: int
    path: int
    cell_size: int
    count: int
    queue_ns: int
    copy_ns: int
    compute_ns: int
    cells: list  # bytes each


def header(kind, body_len, *, version=2, flags=0, status=0, time_ms=0, session=0, mid=0, magic=b"RDCE"):
    return magic + struct.pack("<BBHIIQQQ", version, kind, flags, status, time_ms, session, mid, body_len)


def code(value, table):
    return table[value] if isinstance(value, str) else value


def spec(op, dtype, *, out=0, nan=0, flags=0, rows=1, row_len=0, index_base=0, ddof=0, initial=None, wrap=False, planes=0, device=0, tagged_len=0):
    """`initial`, `wrap` set their flags; `flags` has the others."""
    out = code(out, DTYPES) if out else 0
    flags |= (0 if initial is None else INITIAL) | (WRAP if wrap else 0)
    return struct.pack("<BBBBIIIQQQQQH6x", code(op, OPS), code(dtype, DTYPES), out, code(nan, NANS), tagged_len, flags, ddof, rows, row_len, index_base,
                       initial or 0, planes, device)


def part(tag, body, number=0, kind=0, extent=0):
    """A tagged part."""
    return struct.pack("<BBBBI", tag, number, kind, extent, len(body)) + body


def companion(role, place=None, dtype=None, extent=None, data=False):
    """An array beside the elements: in the message, or, with `place`, at a handle and an offset; or with the `data`."""
    dtype = code(dtype or {"mask": "u8", "offsets": "u64", "weights": "f64", "keys": "u32"}[role], DTYPES)
    extent = EXTENTS[extent or ("bounds" if role == "offsets" else "elements")]
    where = b"" if place is None else struct.pack("<QQ", *place)
    return part(COMPANION, struct.pack("<B7x", dtype) + where, ROLES[role], IN_DATA if data else HANDLE if where else MESSAGE, extent)


def parameter(name, *values):
    """Decimals are pairs of digits and exponent."""
    number, form = PARAMETERS[name]
    form, letters = FORMS[form]
    return part(PARAMETER, b"".join(struct.pack("<" + letters, *(v if isinstance(v, tuple) else (v,))) for v in values), number, form)


def result_at(handle, offset, length):
    return part(RESULT, struct.pack("<QQQ", handle, offset, length))


def stride_of(size):
    return part(STRIDE, struct.pack("<Q", size))


def claim_of(requests, size):
    return part(CLAIM, struct.pack("<QQ", requests, size))


def parse_result(body):
    dtype, backend, path, reserved, cell_size, cells, count, queue, copy, compute = struct.unpack_from("<BBBBIQQQQQ", body)
    if reserved or len(body) not in (48, 48 + cells * cell_size):
        raise ProtocolError("malformed result")
    parts = [body[48 + i * cell_size : 48 + (i + 1) * cell_size] for i in range(cells)] if len(body) > 48 else []  # they may be elsewhere
    return Result(dtype, backend, path, cell_size, count, queue, copy, compute, parts)


def store(name, dtype, size, *, replace=False, ttl_ms=0, shape=(), order=0, place=0):
    name = name if isinstance(name, bytes) else name.encode()
    tail = struct.pack(f"<BB6x{len(shape)}Q", len(shape), order, *shape) if shape else b""
    return struct.pack("<BBHIQ", code(dtype, DTYPES), replace | (2 if shape else 0) | place << 2, len(name), ttl_ms, size) + name + tail


class Resident(NamedTuple):
    handle: int
    bytes: int
    age_ms: int
    left_ms: int
    uses: int
    dtype: int
    name: str
    order: int = 0
    shape: tuple = ()
    place: int = 0


def parse_residents(body):
    found, at = [], 0
    while at < len(body):
        *numbers, name_len, dims, order = struct.unpack_from("<QQQQIBBBB", body, at)
        name = body[at + 40 : at + 40 + name_len].decode("ascii")
        order, place = order & 3, order >> 2
        if len(name) != name_len or not name_len or order > (dims > 0):
            raise ProtocolError("malformed entry")
        at += 40 + name_len
        found.append(Resident(*numbers, name, order, struct.unpack_from(f"<{dims}Q", body, at), place))
        at += 8 * dims
    return found


def parse_entries(body):
    entries, at = {}, 0
    while at < len(body):
        kind, key_len, value_len = struct.unpack_from("<BBH", body, at)
        key = body[at + 4 : at + 4 + key_len].decode("ascii")
        value = body[at + 4 + key_len : at + 4 + key_len + value_len]
        if len(value) != value_len or kind not in (1, 2, 3) or (kind != 3 and value_len != 8):
            raise ProtocolError("malformed entry")
        entries[key] = value.decode() if kind == 3 else struct.unpack("<Q" if kind == 1 else "<d", value)[0]
        at += 4 + key_len + value_len
    return entries


class Connection:
    """One connection. Requests may overlap: send() gives a request id, wait() its reply."""

    def __init__(self, url, timeout=60.0, protocol=0x30, tls=None):
        """`tls`: an ssl.SSLContext, for tls+tcp://."""
        scheme, rest = re.fullmatch(r"(ipc|tcp|tls\+tcp)://(.+)", url).groups()
        self.ipc = scheme == "ipc"
        if self.ipc:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect(rest)  # before the timeout: a full backlog is waited for
            self.socket.settimeout(timeout)
        else:
            host, port = rest.rsplit(":", 1)
            self.socket = socket.create_connection((host, int(port)), timeout)
            if tls:
                self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self.session = 0
        self.welcome = None
        self._ids = itertools.count(1)
        self._early = {}
        self.socket.sendall(b"\0SP\0" + struct.pack(">HH", protocol, 0))
        peer = self._exactly(8)
        if peer != b"\0SP\0\0\x31\0\0":
            raise ProtocolError(f"peer says {peer.hex()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def _exactly(self, n):
        data = bytearray(n)
        view, got = memoryview(data), 0
        while got < n:
            try:
                count = self.socket.recv_into(view[got:])
            except (ConnectionResetError, BrokenPipeError):
                count = 0
            if count == 0:
                raise Closed()
            got += count
        return bytes(data)

    def send_frame(self, data, length=None):
        """A frame with any bytes; `length` lies about them."""
        size = struct.pack(">Q", len(data) if length is None else length)
        try:
            self.socket.sendall((b"\x01" if self.ipc else b"") + size + data)
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Closed() from e

    def send_raw(self, message):
        """A message with any bytes; returns the request id."""
        rid = next(self._ids)
        self.send_frame(struct.pack(">I", 0x80000000 | rid) + message)
        return rid

    def send(self, kind, body=b"", **fields):
        fields.setdefault("session", self.session)
        mid = fields.setdefault("mid", next(self._ids) << 32 | kind)
        rid = self.send_raw(header(kind, len(body), **fields) + body)
        return rid, kind, mid

    def receive_frame(self):
        if self.ipc and self._exactly(1) != b"\x01":
            raise ProtocolError("an ipc frame begins with 01")
        (size,) = struct.unpack(">Q", self._exactly(8))
        if not 44 <= size <= 4194412:
            raise ProtocolError(f"frame of {size} bytes")
        frame = self._exactly(size)
        (rid,) = struct.unpack_from(">I", frame)
        return rid & 0x7FFFFFFF, frame[4:]

    def receive(self, rid):
        """(header, body) of the reply to a request id; replies to others wait."""
        while rid not in self._early:
            got, message = self.receive_frame()
            if message[:4] != b"RDCE":
                raise ProtocolError("no magic")
            h = Header(*struct.unpack_from("<BBHIIQQQ", message, 4))
            if h.flags != 1 or h.body_len != len(message) - 40:
                raise ProtocolError(f"bad reply header {h}")
            self._early[got] = h, message[40:]
        return self._early.pop(rid)

    def wait(self, sent):
        """The body of an OK reply; raises Fault for an error reply."""
        rid, kind, mid = sent
        h, body = self.receive(rid)
        if (h.type, h.id) != (kind, mid):
            raise ProtocolError(f"reply to another request: {h}")
        if h.status:
            raise Fault(h, body)
        return body

    def call(self, kind, body=b"", **fields):
        return self.wait(self.send(kind, body, **fields))

    # ---- the messages ----
    def hello(self, low=1, high=2, name=b"rawclient", priority=0, **fields):
        rid, _, _ = self.send(HELLO, struct.pack("<BBHB3x", low, high, len(name), priority) + name, **{"session": 0, **fields})
        h, body = self.receive(rid)
        if h.status:
            raise Fault(h, body)
        version, priority, max_data, chunk, inflight, streams, session, server_len = struct.unpack("<BB2xIIII4xQH6x", body[:40])
        if len(body) != 56 + server_len or h.session != session or not session:
            raise ProtocolError("malformed welcome")
        self.session = session
        self.welcome = {"version": version, "priority": priority, "max_data": max_data, "chunk_hint": chunk, "max_inflight": inflight,
                        "max_streams": streams, "session": session, "token": body[40:56], "server": body[56:].decode()}
        return self.welcome

    def ping(self, data=b"", **fields):
        return self.call(PING, data, **fields)

    def query(self, topic):
        return parse_entries(self.call(QUERY, struct.pack("<I4x", topic)))

    def metrics(self):
        return self.call(QUERY, struct.pack("<I4x", 3)).decode("ascii")

    def reduce_body(self, op, dtype, data, *, row_len=None, rows=1, flags=0, offsets=None, mask=None, columns=False, keys=None, parts=(), **kw):
        """`data`: elements or states. Offsets (then rows is their number less one), mask, columns and keys (their type and bytes) set their flags. `parts`: tagged ones."""
        flags |= (0 if mask is None else MASK) | (COLUMNS if columns else 0) | (KEYS if keys else 0)
        if keys:
            parts = [companion("keys", dtype=keys[0], data=True), *parts]
        size = oracle.state_size(op, dtype) if flags & STATES_IN else SIZE[dtype]
        if offsets is not None:
            flags, rows = flags | OFFSETS, len(offsets) - 1
        if row_len is None:
            row_len = len(data) // size // (1 if flags & (OFFSETS | KEYS) else rows * (kw.get("planes") or 1))
        head = b"" if offsets is None else struct.pack(f"<{len(offsets)}Q", *offsets)
        tagged = b"".join(parts)
        fixed = spec(op, dtype, rows=rows, row_len=row_len, flags=flags, tagged_len=len(tagged), **kw)
        return fixed + tagged + head + data + (b"" if mask is None else bytes(mask)) + (keys[1] if keys else b"")

    def reduce(self, op, dtype, data, *, time_ms=0, **kw):
        return parse_result(self.call(REDUCE, self.reduce_body(op, dtype, data, **kw), time_ms=time_ms))

    def reduce_at_body(self, op, dtype, handle, offset, length, *, rows=1, row_len=None, flags=0, mask_at=(), offsets_at=(), stride=None, mask=None,
                       offsets=None, parts=(), **kw):
        """`mask_at`, `offsets_at`: handle and offset, and perhaps the type, of companions that are not with the elements; `mask`, `offsets`: those in the message. `stride`:
        bytes from one row of columns of a file to the next, if these do not follow one another. `parts`: further tagged ones."""
        tagged, data = [], b""
        if mask_at or mask is not None:
            flags |= MASK
            tagged.append(companion("mask", mask_at[:2] or None, *mask_at[2:]))
            data += bytes(mask or b"")
        if offsets_at or offsets is not None:
            flags |= OFFSETS
            tagged.append(companion("offsets", offsets_at or None))
            data += struct.pack(f"<{len(offsets)}Q", *offsets) if offsets else b""
            rows = len(offsets) - 1 if offsets else rows
        if row_len is None:
            row_len = length // (SIZE[dtype] + bool(flags & MASK and not (mask_at or mask is not None))) // (1 if flags & OFFSETS else rows * (kw.get("planes") or 1))
        tagged = b"".join((*tagged, *parts, *(() if stride is None else (stride_of(stride),))))
        fixed = spec(op, dtype, rows=rows, row_len=row_len, flags=flags, tagged_len=len(tagged), **kw)
        return fixed + struct.pack("<QQQ", handle, offset, length) + tagged + data

    def reduce_at(self, op, dtype, handle, offset, length, *, time_ms=0, **kw):
        """Reduce `length` bytes from byte `offset` of a file or an arena that side.py passed, or of resident data."""
        return parse_result(self.call(REDUCE_AT, self.reduce_at_body(op, dtype, handle, offset, length, **kw), time_ms=time_ms))

    def begin(self, op, dtype, *, parts=(), **kw):
        tagged = b"".join(parts)
        return struct.unpack("<Q", self.call(BEGIN, spec(op, dtype, tagged_len=len(tagged), **kw) + tagged))[0]

    def append(self, stream, offset, data, **fields):
        return struct.unpack("<Q", self.call(APPEND, struct.pack("<QQ", stream, offset) + data, **fields))[0]

    def send_append(self, stream, offset, data, **fields):
        return self.send(APPEND, struct.pack("<QQ", stream, offset) + data, **fields)

    def finish(self, stream, count, **fields):
        return parse_result(self.call(FINISH, struct.pack("<QQ", stream, count), **fields))

    def abort(self, stream):
        body = self.call(ABORT, struct.pack("<Q", stream))
        if body:
            raise ProtocolError("abort's reply has a body")

    def cancel(self, request):
        """How many requests with the id of this one, as send() gave it, were taken back."""
        return struct.unpack("<Q", self.call(CANCEL, struct.pack("<Q", request[2])))[0]

    # ---- data that stay ----
    def store(self, name, dtype, size, **kw):
        """A handle to write to."""
        return struct.unpack("<Q", self.call(STORE, store(name, dtype, size, **kw)))[0]

    def write(self, handle, offset, data):
        return struct.unpack("<Q", self.call(WRITE, struct.pack("<QQ", handle, offset) + data))[0]

    def write_at(self, handle, offset, source, source_offset, length):
        """The same with bytes of a file or an arena."""
        return struct.unpack("<Q", self.call(WRITE_AT, struct.pack("<QQQQQ", handle, offset, source, source_offset, length)))[0]

    def commit(self, handle):
        if self.call(COMMIT, struct.pack("<Q", handle)):
            raise ProtocolError("commit's reply has a body")

    def put(self, name, dtype, data, **kw):
        """All of it; the handle to reduce it by."""
        handle = self.store(name, dtype, len(data), **kw)
        for at in range(0, len(data), MAX_DATA):
            self.write(handle, at, data[at : at + MAX_DATA])
        self.commit(handle)
        return handle

    def list(self, name=""):
        return parse_residents(self.call(LIST, name.encode()))

    def drop(self, name):
        if self.call(DROP, name.encode()):
            raise ProtocolError("drop's reply has a body")
