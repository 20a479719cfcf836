"""A raw client, written from PROTOCOL.md, against a real daemon: every message, every rule, every error read back."""
import concurrent.futures
import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

import gens
import oracle
import pairs
import rawclient
from conftest import ROOT
from rawclient import (ABORT, APPEND, BEGIN, COLUMNS, FINISH, HELLO, INITIAL, MASK, MAX_DATA, NO_INDEX, OFFSETS, PING, QUERY, REDUCE,
                       STATES_IN, STATES_OUT, WRAP, Closed, Connection, Fault, ProtocolError, header, spec)

sys.path.insert(0, str(ROOT / "tests" / "golden"))
import generate  # noqa: E402

MAX_COUNT = 2**60
F32 = struct.pack("<3f", 1.5, 2.25, -0.5)


@contextlib.contextmanager
def faults(code, field=None, limit=None, index=None):
    with pytest.raises(Fault) as caught:
        yield caught
    f = caught.value
    assert f.code == code, f
    assert field is None or f.field == field, f
    assert limit is None or f.limit == limit, f
    assert index is None or f.index == index, f
    assert f.text and f.text.isprintable() and "/" not in f.text.replace("-byte", ""), "a line for people that names no path"


@pytest.fixture
def conn(shared):
    with shared.connect() as c:
        yield c
        assert c.reduce("sum", "f32", F32).cells == [struct.pack("<d", 3.25)], "the connection still works"


@pytest.fixture
def bystander(shared):
    """Another client, which must not notice anything."""
    with shared.connect() as c:
        stream = c.begin("sum", "f32")
        c.append(stream, 0, F32)
        yield c
        assert c.finish(stream, 3).cells == [struct.pack("<d", 3.25)]


# ---- hello and versions ----
def test_hello(shared):
    with shared.connect(hello=False) as c:
        w = c.hello()
        assert (w["version"], w["max_data"], w["chunk_hint"], w["max_inflight"], w["max_streams"]) == (2, MAX_DATA, 1 << 20, 64, 32)
        assert re.fullmatch(r"reduced \d+\.\d+\.\d+\S*", w["server"])
        assert c.hello()["session"] == w["session"], "a second hello answers with the same session"
        with shared.connect() as d:
            assert d.session != c.session


@pytest.mark.parametrize("low, high, version", [(1, 1, 1), (1, 2, 2), (2, 2, 2), (1, 255, 2)])
def test_versions_in_common(shared, low, high, version):
    with shared.connect(hello=False) as c:
        assert c.hello(low, high, version=high)["version"] == version


def test_no_version_in_common(shared):
    with shared.connect(hello=False) as c:
        with faults("VERSION", "version", limit=2):
            c.hello(3, 9, version=9)
        c.hello()


def test_replies_are_of_the_requests_version(shared):
    """Both versions on one connection: the same bytes mean the same."""
    with shared.connect(hello=False) as c:
        for version in (1, 2):
            c.hello(1, version, version=version)
            h, body = c.receive(c.send(REDUCE, spec("sum", "f32", row_len=3) + F32, version=version)[0])
            assert (h.version, h.status) == (version, 0) and body[-8:] == struct.pack("<d", 3.25)
            h, _ = c.receive(c.send(PING, version=version)[0])
            assert (h.version, h.status) == (version, 0)
        h, _ = c.receive(c.send(PING, version=9)[0])
        assert (h.version, h.status) == (2, 2)


def test_planes(conn):
    """Columns of one matrix after the other, in either version, and how an argmax counts."""
    data = np.array([[[0, 5, 2], [3, 4, 1]], [[6, 11, 8], [9, 10, 7]]], "u1")
    for version in (1, 2):
        body = spec("max", "u8", flags=COLUMNS, rows=2, row_len=3, planes=2) + data.tobytes()
        cells = rawclient.parse_result(conn.call(REDUCE, body, version=version)).cells
        assert b"".join(cells) == data.max(axis=1).astype("<u8").tobytes()
    cells = conn.reduce("argmax", "u8", data.tobytes(), rows=2, planes=2, columns=True, index_base=10).cells
    assert b"".join(cells) == (10 + data.argmax(axis=1)).astype("<u8").tobytes()
    with faults("NAN", "data", index=4):
        conn.reduce("sum", "f32", np.array([[1, 1], [1, 1], [np.nan, 1]], "<f4").tobytes(), rows=1, planes=3, columns=True, nan="error")


def test_rows_in_runs(conn):
    """Row i of all planes together, in either version, and how an argmax counts."""
    data = np.array([[[0, 5, 2], [3, 4, 1]], [[6, 11, 8], [9, 10, 7]]], "u1")
    for version in (1, 2):
        body = spec("max", "u8", rows=2, row_len=3, planes=2) + data.tobytes()
        cells = rawclient.parse_result(conn.call(REDUCE, body, version=version)).cells
        assert b"".join(cells) == data.max(axis=(0, 2)).astype("<u8").tobytes()
    cells = conn.reduce("argmax", "u8", data.tobytes(), rows=2, planes=2, index_base=10).cells
    assert b"".join(cells) == struct.pack("<2Q", 14, 14)
    cells = conn.reduce("sum", "u8", data.tobytes(), mask=bytes([1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]), rows=2, planes=2).cells
    assert b"".join(cells) == struct.pack("<2Q", 5, 9)
    assert b"".join(conn.reduce("count", "u8", b"", rows=2, planes=1 << 60, row_len=0).cells) == bytes(16)
    with faults("NAN", "data", index=1):
        conn.reduce("sum", "f32", np.array([[1, 1], [1, 1], [1, np.nan]], "<f4").tobytes(), rows=2, planes=3, nan="error")
    with faults("SHAPE", "row_len"):
        conn.reduce("sum", "u8", data.tobytes(), rows=2, row_len=3, planes=3)
    with faults("TOO_LARGE", "planes", limit=1 << 60):
        conn.reduce("sum", "u8", data.tobytes(), rows=2, row_len=3, planes=(1 << 60) + 1)
    with faults("BAD_MESSAGE", "planes"):
        conn.reduce("sum", "u8", data.tobytes(), offsets=[0, 3], planes=2)
    with faults("SHAPE", "planes", limit=1):
        conn.call(BEGIN, spec("sum", "u8", planes=2))


def test_other_messages_of_another_version(conn):
    for version in (0, 3, 255):
        for kind in (PING, QUERY, REDUCE, BEGIN, APPEND, FINISH, ABORT):
            with faults("VERSION", "version", limit=2):
                conn.call(kind, b"", version=version)


@pytest.mark.parametrize("body, code, field", [
    (b"", "BAD_MESSAGE", "hello"),
    (bytes(7), "BAD_MESSAGE", "hello"),
    (struct.pack("<BBH4x", 0, 1, 0), "BAD_MESSAGE", "min_version"),
    (struct.pack("<BBH4x", 2, 1, 0), "BAD_MESSAGE", "min_version"),
    (struct.pack("<BBHI", 1, 1, 0, 1 << 8), "BAD_MESSAGE", "hello"),
    (struct.pack("<BBHI", 1, 1, 0, 3), "BAD_MESSAGE", "priority"),
    (struct.pack("<BBH4x", 1, 1, 3) + b"ab", "BAD_MESSAGE", "hello"),
    (struct.pack("<BBH4x", 1, 1, 1) + b"ab", "BAD_MESSAGE", "hello"),
    (struct.pack("<BBH4x", 1, 1, 65) + bytes(65), "TOO_LARGE", "name_len"),
])
def test_bad_hello(shared, body, code, field):
    with shared.connect(hello=False) as c:
        with faults(code, field):
            c.call(HELLO, body)
        c.hello()


def test_any_name_does(start):
    """It is escaped in the log, and what acts on a terminal is in no reply."""
    names = {b"": "", b"x" * 64: "x" * 64, "füße 端".encode(): "füße 端", b"\xff\xfe\n\x1b[2J\x00more": "????[2J", b"%s%n%d": "%s%n%d",
             b"\xc2\x9b2J": "?2J", "a\u202eb\u2028".encode(): "a?b?"}
    daemon = start("--log-level", "debug")
    for name, shown in names.items():
        with daemon.connect(hello=False) as c:
            c.hello(name=name)
            texts = [v for k, v in c.query(5).items() if k.startswith("session.")]
            assert len(texts) == 1 and texts[0].endswith(f" name={shown}"), texts
    daemon.wait_log(r"session of 'a\\xe2\\x80\\xaeb\\xe2\\x80\\xa8'")
    log = daemon.log_path.read_bytes()
    assert log.count(b"session of '") == len(names) and not re.search(rb"[^\n -~]", log), log


# ---- ping, query, header ----
def test_ping_needs_no_session(shared):
    with shared.connect(hello=False) as c:
        for n in (0, 1, 8, 64):
            assert c.ping(os.urandom(n)[:n]) is not None
        assert c.ping(bytes(range(64))) == bytes(range(64))
        with faults("TOO_LARGE", "body_len", limit=64):
            c.ping(bytes(65))


def test_queries(conn):
    info, status = conn.query(1), conn.query(2)
    assert info and status
    assert info["backend"] in ("cpu", "cuda")
    for body, field in ((b"", "query"), (bytes(7), "query"), (bytes(9), "query"), (bytes(8), "topic"), (struct.pack("<II", 6, 0), "topic"),
                        (struct.pack("<II", 1, 1), "query")):
        with faults("BAD_MESSAGE", field):
            conn.call(QUERY, body)


@pytest.mark.parametrize("kind", [0, 17, 99, 255])
def test_unknown_type(conn, kind):
    with faults("BAD_MESSAGE", "type"):
        conn.call(kind, b"")


def test_deadline_field_above_its_limit(conn):
    with faults("TOO_LARGE", "time_ms", limit=2**31 - 1):
        conn.ping(time_ms=2**31)
    conn.ping(time_ms=2**31 - 1)


def test_the_id_is_echoed(conn):
    for mid in (0, 1, 2**64 - 1):
        conn.ping(mid=mid)  # wait() compares


@pytest.mark.parametrize("kind", [QUERY, REDUCE, BEGIN, APPEND, FINISH, ABORT])
def test_session_is_needed(shared, conn, kind):
    body = {QUERY: struct.pack("<II", 1, 0), REDUCE: spec("sum", "f32", row_len=3) + F32, BEGIN: spec("sum", "f32"),
            APPEND: struct.pack("<QQ", 1, 0) + F32, FINISH: struct.pack("<QQ", 1, 0), ABORT: struct.pack("<Q", 1)}[kind]
    with shared.connect(hello=False) as stranger:
        for session in (0, 1, conn.session, 2**64 - 1):
            with faults("NO_SESSION", "session"):
                stranger.call(kind, body, session=session)
        stranger.hello()
        for session in (0, conn.session, stranger.session ^ 1):  # a session of its own does not open those of others
            with faults("NO_SESSION", "session"):
                stranger.call(kind, body, session=session)


def test_session_ends_with_its_connection(shared):
    with shared.connect() as c:
        old = c.session
    with shared.connect(hello=False) as d:
        with faults("NO_SESSION"):
            d.call(QUERY, struct.pack("<II", 1, 0), session=old)


# ---- bad framing ----
def lying(message, at, fmt, value):
    b = bytearray(message)
    struct.pack_into(fmt, b, at, value)
    return bytes(b)


GOOD = header(PING, 0)
BAD_FRAMES = {  # and the field of the error
    "empty": (b"", "header"), "one byte": (b"R", "header"), "39 bytes": (GOOD[:39], "header"), "magic": (b"RDCF" + GOOD[4:], "magic"),
    "big-endian magic": (b"ECDR" + GOOD[4:], "magic"), "noise": (bytes(range(256)), "magic"),
    "reply flag": (header(PING, 0, flags=1, mid=9), "flags"), "unknown flag": (header(PING, 0, flags=2, mid=9), "flags"),
    "flags": (header(PING, 0, flags=0xFFFE, mid=9), "flags"), "reply flag and status": (header(PING, 0, flags=1, status=1, mid=9), "flags"),
    "status": (header(PING, 0, status=1, mid=9), "status"), "body_len too long": (lying(GOOD, 32, "<Q", 1), "body_len"),
    "body_len too short": (GOOD + b"x", "body_len"), "body_len huge": (lying(GOOD, 32, "<Q", 2**64 - 1), "body_len"),
    "body_len wraps": (lying(GOOD, 32, "<Q", 2**64 - 40), "body_len"),
}


def last_reply(c, rid, code, field, *, kind=0, mid=0, limit=None):
    """The error that answers a bad frame, after which the daemon closes the connection."""
    h, body = c.receive(rid)
    assert (h.version, h.type, h.id, h.session, h.time_ms) == (2, kind, mid, c.session, 0)
    fault = Fault(h, body)
    assert (fault.code, fault.field) == (code, field) and fault.text, str(fault)
    assert limit is None or fault.limit == limit
    with pytest.raises(Closed):
        c.receive_frame()


@pytest.fixture(scope="module")
def bad_frames(shared):
    """{(name, tcp): (connection, id)} that sent it. All at once, because the daemon keeps each for a second after its last reply."""
    with contextlib.ExitStack() as stack:
        conns = {(name, tcp): stack.enter_context(shared.connect(tcp=tcp)) for name in BAD_FRAMES for tcp in (False, True)}
        yield {(name, tcp): (c, c.send_raw(BAD_FRAMES[name][0])) for (name, tcp), c in conns.items()}


@pytest.mark.parametrize("tcp", [False, True], ids=["ipc", "tcp"])
@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_framing_closes_only_its_connection(bad_frames, bystander, name, tcp):
    message, field = BAD_FRAMES[name]
    readable = field in ("flags", "status", "body_len")
    c, rid = bad_frames[name, tcp]
    last_reply(c, rid, "BAD_MESSAGE", field, kind=PING * readable, mid=message[24] if readable else 0)
    c.close()
    bystander.ping()


def test_a_bad_frame_is_answered_last(start):
    """After the replies to what came before, with the session that an earlier HELLO created; nothing that follows is answered."""
    daemon = start("--contexts", 8)
    with daemon.connect(hello=False) as c, daemon.connect() as other:
        hello, _, _ = c.send(HELLO, struct.pack("<BBH4x", 1, 1, 0), session=0)
        before = [c.send(PING, struct.pack("<Q", i))[0] for i in range(40)]
        bad = c.send_raw(b"RDCF" + GOOD[4:])
        with contextlib.suppress(Closed):
            c.send(PING, b"never answered")
        replies = [c.receive_frame() for _ in range(42)]
        assert sorted(rid for rid, _ in replies[:-1]) == [hello] + before and replies[-1][0] == bad
        assert len({struct.unpack_from("<Q", m, 16)[0] for rid, m in replies if rid in (hello, bad)}) == 1
        with pytest.raises(Closed):
            c.receive_frame()
        daemon.wait_log("disconnected: a bad frame")
        assert other.query(2)["disconnected"] == 1


def no_request_id(shared, start):
    with shared.connect() as c, pytest.raises(Closed):
        c.send_frame(start)
        c.receive_frame()


def unended_request_id(shared, words):
    """It lacks its top bit, with and without relays."""
    with shared.connect() as c:
        route = b"".join(struct.pack(">I", 77 + i) for i in range(words))
        c.send_frame(route + header(PING, 2, time_ms=0x80, session=0x80, mid=9) + b"me")
        if words == 1:
            last_reply(c, 77, "BAD_MESSAGE", "request_id", kind=PING, mid=9)
        else:
            c._exactly(1)
            frame = c._exactly(struct.unpack(">Q", c._exactly(8))[0])
            assert frame[: len(route)] == route and b"request_id" in frame
            with pytest.raises(Closed):
                c.receive_frame()


def too_many_relays(shared):
    """More than any that is known: ignored."""
    with shared.connect() as c:
        c.send_frame(b"\0\0\0\1" * 20 + GOOD)
        c.ping()


def a_length_of(shared, length):
    with shared.connect() as c, pytest.raises(Closed):
        c.send_frame(b"", length=length)
        c.receive_frame()


def no_ipc_frame(shared):
    with shared.connect() as c, pytest.raises(Closed):
        c.socket.sendall(b"\x07" + bytes(40))
        c.receive_frame()


def another_protocol(shared, protocol):
    with pytest.raises((Closed, ProtocolError)), Connection(shared.url, protocol=protocol) as c:
        c.ping()


def test_bad_sp_frames(shared, bystander):
    """All at once, because the daemon keeps each connection for a second after its last reply."""
    cases = [*((no_request_id, start) for start in [b"\0\0\0\1" * 3, *(bytes(n) for n in range(4))]),
             *((unended_request_id, words) for words in (1, 2, 7, 15)), (too_many_relays,),
             (a_length_of, 4194412 + 1), (a_length_of, 2**63), (no_ipc_frame,), *((another_protocol, p) for p in (0x31, 0x20, 0xFFFF))]
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        for case in [pool.submit(case[0], shared, *case[1:]) for case in cases]:
            case.result()
    bystander.ping()


def test_bytes_instead_of_a_handshake(shared, bystander):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(str(shared.path))
        with contextlib.suppress(OSError):
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while s.recv(100):
                pass
    bystander.ping()


def test_message_at_the_limit(conn):
    conn.reduce("count_nonzero", "u8", bytes(MAX_DATA))
    with faults("TOO_LARGE", "data", limit=MAX_DATA):  # fits a frame, not the cap: the fixed part of APPEND is shorter
        stream = conn.begin("sum", "u8")
        conn.append(stream, 0, bytes(MAX_DATA + 48))


# ---- reduce: every error of its table ----
def reduce_raw(conn, data=F32, **kw):
    kw = {"op": "sum", "dtype": "f32", "row_len": 3, **kw}
    return conn.call(REDUCE, spec(**kw) + data)


@pytest.mark.parametrize("kw, code, field, limit", [
    ({"op": 0}, "OP", "op", 0), ({"op": max(pairs.OPS.values()) + 1}, "OP", "op", 0), ({"op": 255}, "OP", "op", 0),
    ({"dtype": 0}, "TYPE", "dtype", 0), ({"dtype": 14}, "TYPE", "dtype", 0),
    ({"op": "and"}, "TYPE", "dtype", 0), ({"op": "or", "dtype": "f64"}, "TYPE", "dtype", 0), ({"op": "xor", "dtype": "bf16"}, "TYPE", "dtype", 0),
    ({"op": "and", "dtype": "i8", "out": "f64"}, "TYPE", "out", 0), ({"op": "stats", "out": "f32"}, "TYPE", "out", 0),
    ({"op": "stats", "dtype": "i32", "out": "u64"}, "TYPE", "out", 0), ({"op": "mean", "dtype": "i32", "out": "i64"}, "TYPE", "out", 0),
    ({"op": "std", "out": "u64"}, "TYPE", "out", 0), ({"op": "any", "out": "f32"}, "TYPE", "out", 0),
    ({"op": "count", "out": "i64"}, "TYPE", "out", 0),
    ({"op": "norm2", "dtype": "u8", "out": "u64"}, "TYPE", "out", 0), ({"op": "prod", "dtype": "i8", "out": "f64"}, "TYPE", "out", 0),
    ({"out": 13}, "TYPE", "out", 0), ({"out": "i64"}, "TYPE", "out", 0), ({"op": "argmin", "out": "i64"}, "TYPE", "out", 0),
    ({"dtype": "i32", "out": "f64"}, "TYPE", "out", 0), ({"dtype": "i32", "out": "i32"}, "TYPE", "out", 0),
    ({"nan": 3}, "BAD_MESSAGE", "nan", 0), ({"flags": 128}, "BAD_MESSAGE", "flags", 0), ({"flags": 2**31}, "BAD_MESSAGE", "flags", 0),
    ({"flags": STATES_IN | MASK}, "BAD_MESSAGE", "flags", 0), ({"flags": STATES_IN | OFFSETS}, "BAD_MESSAGE", "flags", 0),
    ({"flags": STATES_IN | COLUMNS}, "BAD_MESSAGE", "flags", 0), ({"flags": OFFSETS | COLUMNS}, "BAD_MESSAGE", "flags", 0),
    ({"flags": WRAP}, "BAD_MESSAGE", "flags", 0), ({"op": "prod", "flags": WRAP}, "BAD_MESSAGE", "flags", 0),
    ({"dtype": "i32", "flags": WRAP}, "BAD_MESSAGE", "flags", 0),
    ({"ddof": 1}, "BAD_MESSAGE", "ddof", 0), ({"op": "mean", "ddof": 2**32 - 1}, "BAD_MESSAGE", "ddof", 0),
    ({"flags": INITIAL | STATES_OUT}, "BAD_MESSAGE", "initial", 0), ({"initial": 2**32}, "BAD_MESSAGE", "initial", 32),
    ({"dtype": "i8", "initial": 256}, "BAD_MESSAGE", "initial", 8), ({"dtype": "f16", "initial": 2**63}, "BAD_MESSAGE", "initial", 16),
    ({"rows": 0}, "SHAPE", "rows", 1), ({"rows": MAX_COUNT + 1}, "TOO_LARGE", "rows", MAX_COUNT),
    ({"row_len": MAX_COUNT + 1}, "TOO_LARGE", "row_len", MAX_COUNT), ({"index_base": MAX_COUNT + 1}, "TOO_LARGE", "index_base", MAX_COUNT),
    ({"rows": MAX_DATA // 8 + 1}, "TOO_LARGE", "rows", MAX_DATA // 8),
    ({"rows": MAX_DATA // 64 + 1, "flags": STATES_OUT}, "TOO_LARGE", "rows", MAX_DATA // 64),
    ({"op": "stats", "rows": MAX_DATA // 96 + 1}, "TOO_LARGE", "rows", MAX_DATA // 96),
    ({"op": "minmax", "rows": MAX_DATA // 16 + 1}, "TOO_LARGE", "rows", MAX_DATA // 16),
    ({"op": "stats", "dtype": "f64", "flags": STATES_OUT, "rows": MAX_DATA // 872 + 1}, "TOO_LARGE", "rows", MAX_DATA // 872),
    ({"flags": COLUMNS, "row_len": MAX_DATA // 8 + 1}, "TOO_LARGE", "row_len", MAX_DATA // 8),
    ({"flags": STATES_IN, "planes": 1}, "BAD_MESSAGE", "planes", 0), ({"planes": 2, "row_len": 3}, "SHAPE", "row_len", None), ({"flags": OFFSETS, "planes": 2}, "BAD_MESSAGE", "planes", 0),
    ({"flags": COLUMNS, "planes": MAX_COUNT + 1}, "TOO_LARGE", "planes", MAX_COUNT),
    ({"flags": COLUMNS, "planes": MAX_DATA // 24 + 1, "row_len": 3}, "TOO_LARGE", "planes", MAX_DATA // 24),
    ({"flags": COLUMNS, "planes": 2, "row_len": 3}, "SHAPE", "row_len", None),
    ({"flags": COLUMNS, "planes": MAX_COUNT, "rows": 2**10, "row_len": 0}, "SHAPE", "row_len", None),
    ({"flags": OFFSETS, "rows": 2}, "SHAPE", "offsets", 24),
    ({"flags": OFFSETS, "rows": MAX_COUNT, "out": "f64"}, "TOO_LARGE", "rows", MAX_DATA // 8),
    ({"flags": MASK}, "SHAPE", "data", 5), ({"flags": MASK, "data": F32 + bytes(2)}, "SHAPE", "data", 5),
    ({"flags": MASK, "data": F32 + bytes(8)}, "SHAPE", "row_len", None),
    ({"flags": COLUMNS, "rows": 2}, "SHAPE", "row_len", None),
    ({"flags": OFFSETS, "rows": 1, "data": bytes(16) + F32 + b"1"}, "SHAPE", "data", 4),
    ({"flags": OFFSETS, "rows": 1, "data": bytes(16) + F32[:8]}, "SHAPE", "row_len", None),
    ({"flags": OFFSETS | MASK, "rows": 1, "data": bytes(16) + F32 + b"12"}, "SHAPE", "data", 5),
    ({"op": "stats", "dtype": "f64", "flags": STATES_IN, "data": bytes(871)}, "SHAPE", "data", 872),
    ({"data": F32[:-1]}, "SHAPE", "data", 4), ({"flags": STATES_IN, "data": bytes(63)}, "SHAPE", "data", 64),
    ({"row_len": 2}, "SHAPE", "row_len", None), ({"rows": 2}, "SHAPE", "row_len", None), ({"row_len": 0}, "SHAPE", "row_len", None),
    ({"rows": 2**19, "row_len": 2**45 + 1}, "SHAPE", "row_len", None), ({"row_len": MAX_COUNT}, "SHAPE", "row_len", None),
    ({"op": "min", "row_len": 0, "data": b""}, "EMPTY", "row_len", None),
])
def test_reduce_refuses(conn, kw, code, field, limit):
    with faults(code, field, limit):
        reduce_raw(conn, **kw)


def test_reduce_refuses_short_and_reserved(conn):
    good = spec("sum", "f32", row_len=3)
    for n in (0, 1, 63):
        with faults("BAD_MESSAGE", "spec"):
            conn.call(REDUCE, good[:n])
    for at in [*range(4, 8), *range(58, 64)]:
        body = bytearray(good + F32)
        body[at] = 1
        for kind in (REDUCE, BEGIN):
            field = "spec" if at >= 58 else "parts" if at == 4 and kind == REDUCE else "tagged_len"
            with faults("BAD_MESSAGE", field):
                conn.call(kind, bytes(body[:64] if kind == BEGIN else body))


def test_first_failing_row_is_named(conn):
    rows = np.array([[1, 2], [3, np.nan], [np.nan, 4]], "<f4")
    with faults("NAN", "data", index=1):
        conn.reduce("sum", "f32", rows.tobytes(), rows=3, nan="error")
    with faults("EMPTY", "row_len", index=0):
        conn.reduce("max", "f32", b"", rows=5)
    with faults("EMPTY", index=1):
        conn.reduce("argmax", "f32", np.array([[1], [np.nan], [np.nan]], "<f4").tobytes(), rows=3, nan="omit")
    big = np.array([[1, 2], [2**63 - 1, 1], [2**63 - 1, 2]], "<i8")
    with faults("OVERFLOW", "out", index=1) as caught:
        conn.reduce("sum", "i64", big.tobytes(), rows=3)
    assert caught.value.value == 2**63


@pytest.mark.parametrize("op, dtype, values, out, exact", [
    ("sum", "i64", [-(2**63), -(2**63)], 0, -(2**64)), ("sum", "u64", [2**64 - 1] * 3, 0, 3 * (2**64 - 1)),
    ("sum", "u64", [2**63], "i64", 2**63), ("sum", "i8", [-5], "u64", -5), ("min", "i16", [-2, 7], "u64", -2),
    ("max", "u64", [2**64 - 1], "i64", 2**64 - 1),
    ("min", "i64", [-(2**63)], "u64", -(2**63)),
])
def test_overflow_carries_the_value(conn, op, dtype, values, out, exact):
    data = b"".join(v.to_bytes(oracle.SIZE[dtype], "little", signed=dtype in oracle.SIGNED) for v in values)
    with faults("OVERFLOW", "out", index=0) as caught:
        conn.reduce(op, dtype, data, out=out)
    assert caught.value.value == exact


@pytest.mark.parametrize("op, dtype, values, out, exact", [
    ("prod", "i8", [-128] * 9, "u64", -(2**63)), ("prod", "i64", [2**62, 2], 0, 2**63), ("prod", "u64", [2**32, 2**32], 0, 2**127 - 1),
    ("prod", "i64", [-(2**63), 2, 3], 0, 2**127 - 1), ("prod", "i8", [-3], "u64", -3), ("prod", "u8", [255] * 8, "i64", 255**8),
    ("sumsq", "i64", [-(2**63)], 0, 2**126), ("sumsq", "u64", [2**64 - 1], 0, 2**127 - 1), ("sumsq", "i32", [-(2**31)] * 2, 0, 2**63),
    ("norm1", "i64", [-(2**63), -1], 0, 2**63 + 1), ("norminf", "i64", [3, -(2**63)], 0, 2**63),
    ("range", "i64", [2**63 - 1, -(2**63)], 0, 2**64 - 1),
    ("minmax", "i8", [-7, 5], "u64", -7), ("minmax", "u64", [1, 2**63], "i64", 2**63), ("and", "i16", [-2, -4], "u64", -4),
    ("or", "u64", [2**63], "i64", 2**63),
    ("xor", "i32", [-1, 0], "u64", -1),
])
def test_overflow_of_every_op_carries_the_value(conn, op, dtype, values, out, exact):
    data = b"".join(v.to_bytes(oracle.SIZE[dtype], "little", signed=dtype in oracle.SIGNED) for v in values)
    with faults("OVERFLOW", "out", index=0) as caught:
        conn.reduce(op, dtype, data, out=out)
    assert caught.value.value == exact


# ---- shapes, masks, initial elements: rules by hand (test_property.py has the multitude) ----
def u64(*values):
    return [struct.pack("<Q", v) for v in values]


def test_segments(conn):
    data = bytes([9, 1, 2, 3, 4, 9])
    r = conn.reduce("sum", "u8", data, offsets=[1, 1, 3, 3, 5])
    assert r.cells == u64(0, 3, 0, 7) and r.count == 6
    assert conn.reduce("argmax", "u8", data, offsets=[0, 3, 6], index_base=10).cells == u64(10, 12), "indexes count from the segment's start"
    assert conn.reduce("sum", "u8", b"", offsets=[0]  + [0] * 5).cells == u64(0, 0, 0, 0, 0)
    assert conn.reduce("sum", "u8", data, offsets=[6, 6]).cells == u64(0)
    with faults("EMPTY", "row_len", index=1):
        conn.reduce("min", "u8", data, offsets=[0, 2, 2, 3, 3])


@pytest.mark.parametrize("offsets, index", [([0, 4], 1), ([0, 2, 1], 2), ([3, 2, 1], 1), ([4, 4], 0), ([0, 2**64 - 1], 1), ([0, 1, 2, 3, 2, 4], 4), ([2**63, 0], 0)])
def test_bad_offsets(conn, offsets, index):
    with faults("SHAPE", "offsets", limit=3, index=index):
        conn.reduce("sum", "u8", bytes(3), offsets=offsets)


def test_columns(conn):
    matrix = np.array([[1, -2, 3], [4, 5, -6]], "<i4")
    assert conn.reduce("minmax", "i32", matrix.tobytes(), rows=2, columns=True).cells == [struct.pack("<2q", *p) for p in ((1, 4), (-2, 5), (-6, 3))]
    assert conn.reduce("argmin", "i32", matrix.tobytes(), rows=2, columns=True).cells == u64(0, 0, 1)
    assert conn.reduce("sum", "i32", b"", rows=5, columns=True).cells == [], "no columns, no results"
    with faults("EMPTY", "row_len", index=2):
        conn.reduce("max", "i32", matrix.tobytes(), rows=2, columns=True, mask=[1, 1, 0, 1, 1, 0])


def test_masks(conn):
    data = np.array([5, 1, 7, 3], "<u2").tobytes()
    r = conn.reduce("sum", "u16", data, mask=[0, 1, 0, 255])
    assert r.cells == u64(4) and r.count == 4
    assert conn.reduce("argmin", "u16", data, mask=[1, 0, 0, 1]).cells == u64(3), "indexes count what is left out"
    assert conn.reduce("count", "u16", data, mask=[0, 0, 0, 0]).cells == u64(0)
    assert conn.reduce("sum", "u16", data, rows=2, mask=[1, 0, 0, 1]).cells == u64(5, 3)
    assert conn.reduce("sum", "u16", data, offsets=[0, 3, 4], mask=[1, 0, 1, 1]).cells == u64(12, 3)
    nan = struct.pack("<2d", float("nan"), 2.0)
    assert conn.reduce("sum", "f64", nan, mask=[0, 1], nan="error").cells == [struct.pack("<d", 2.0)], "a masked NaN is not an error"


def test_initial_elements(conn):
    data = np.array([5, 1, 7, 3], "<i2").tobytes()
    assert conn.reduce("sum", "i16", data, rows=2, initial=0xFFFF).cells == [struct.pack("<q", v) for v in (5, 9)]
    assert conn.reduce("max", "i16", b"", rows=2, initial=4).cells == [struct.pack("<q", 4)] * 2
    assert conn.reduce("argmin", "i16", data, initial=0).cells == u64(NO_INDEX), "the initial element has no index"
    assert conn.reduce("argmin", "i16", data, initial=1).cells == u64(1), "of equal ones the element is chosen"
    assert conn.reduce("argmax", "i16", b"", initial=1).cells == u64(NO_INDEX)
    assert conn.reduce("count", "i16", data, initial=1).cells == u64(5)
    assert conn.reduce("mean", "f32", b"", initial=0x3F800000).cells == [struct.pack("<d", 1.0)]
    with faults("NAN", "data", index=0):
        conn.reduce("sum", "f32", F32, initial=0x7FC00000, nan="error")
    assert conn.reduce("sum", "f32", F32, initial=0x7FC00000, nan="omit").cells == [struct.pack("<d", 3.25)]
    states = conn.reduce("sum", "f32", F32 * 2, rows=2, flags=STATES_OUT).cells
    assert conn.reduce("sum", "f32", b"".join(states), flags=STATES_IN, initial=0x3F800000).cells == [struct.pack("<d", 7.5)], "once, at the finish"


def test_integer_products_at_the_ends(conn):
    assert conn.reduce("prod", "i8", b"\x80" * 9).cells == [struct.pack("<q", -(2**63))]
    assert conn.reduce("prod", "u32", struct.pack("<2I", 2**32 - 1, 2**32 - 1)).cells == u64((2**32 - 1) ** 2)
    assert conn.reduce("prod", "u64", struct.pack("<4Q", 2**63, 2**63, 0, 2**63)).cells == u64(0), "a zero outdoes whatever does not fit"


def test_wrap(conn):
    data = struct.pack("<3q", -(2**62), 12345678901, 7)
    want = (-(2**62) * 12345678901 * 7) % 2**64
    for out in ("i64", "u64"):
        assert conn.reduce("prod", "i64", data, wrap=True, out=out).cells == u64(want)
    stream = conn.begin("prod", "i64", wrap=True, initial=3)
    conn.append(stream, 0, data)
    assert conn.finish(stream, 3).cells == u64(want * 3 % 2**64)
    state = conn.reduce("prod", "i64", data, flags=STATES_OUT).cells[0]
    assert conn.reduce("prod", "i64", state, flags=STATES_IN, wrap=True).cells == u64(want)
    with faults("OVERFLOW", "out"):
        conn.reduce("prod", "i64", state, flags=STATES_IN)


def test_ddof(conn):
    data = np.array([2.0, 4.0, 9.0]).tobytes()
    assert [conn.reduce("var", "f64", data, ddof=d).cells for d in (0, 1, 2)] == [[struct.pack("<d", v)] for v in (26 / 3, 13.0, 26.0)]
    for ddof in (3, 4, 2**32 - 1):
        assert conn.reduce("std", "f64", data, ddof=ddof).cells == u64(0x7FF8 << 48)
    words = struct.unpack("<7Q5d", conn.reduce("stats", "u8", bytes([0, 2, 4]), ddof=1).cells[0])
    assert words[:7] == (3, 0, 1, 0, 2, 0, 4) and struct.pack("<2d", *words[7:9]) == struct.pack("<2Q", 6, 0) and words[9:] == (2.0, 4.0, 2.0)
    state = conn.reduce("var", "f64", data, flags=STATES_OUT).cells[0]
    assert conn.reduce("var", "f64", state, flags=STATES_IN, ddof=1).cells == [struct.pack("<d", 13.0)]


@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_reductions_of_nothing(conn, dtype):
    for op in oracle.ops(dtype):
        for out in oracle.outs(op, dtype):
            expected = oracle.reduce_or_fault(op, dtype, np.zeros(0, oracle.unsigned(dtype)), out=out)
            try:
                got = "OK", int.from_bytes(conn.reduce(op, dtype, b"", out=out).cells[0], "little")
            except Fault as f:
                assert f.index == 0
                got = f.code, f.value
            assert got == expected, (op, out)


def test_rows_of_nothing(conn):
    r = conn.reduce("sum", "i32", b"", rows=1000)
    assert r.cells == [bytes(8)] * 1000 and r.count == 0
    assert conn.reduce("count_nonzero", "f64", b"").cells == [bytes(8)]
    assert conn.reduce("sum", "bf16", b"", out="bf16").cells == [b"\0\0"]


def test_most_rows_in_one_reply(conn):
    data = np.arange(MAX_DATA // 8, dtype="<u8")
    r = conn.reduce("sum", "u64", data.tobytes(), rows=len(data))
    assert b"".join(r.cells) == data.tobytes() and r.count == len(data)


def test_result_fields(conn):
    r = conn.reduce("sum", "f32", F32)
    assert (r.dtype, r.path, r.cell_size, r.count) == (12, 1, 8, 3) and r.backend in (1, 2)
    r = conn.reduce("sum", "f32", F32, flags=STATES_OUT)
    assert (r.dtype, r.cell_size) == (0, 64)
    stream = conn.begin("max", "i8")
    conn.append(stream, 0, b"\1\2")
    r = conn.finish(stream, 2)
    assert (r.dtype, r.path, r.cell_size, r.count) == (7, 2, 8, 2)
    r = conn.reduce("minmax", "f32", F32, out="bf16")
    assert (r.dtype, r.cell_size, len(r.cells)) == (10, 4, 1)
    r = conn.reduce("stats", "i8", b"\1\2", rows=2)
    assert (r.dtype, r.cell_size, len(r.cells)) == (7, 96, 2)


# ---- the worked example and the golden messages ----
def dumps(page):
    """The hex dumps of PROTOCOL.md as frames."""
    for block in re.findall(r"```\n(01 .*?)```", page, re.S):
        yield b"".join(bytes.fromhex(re.split(r" {3,}", line)[0]) for line in block.splitlines())


def test_worked_example_is_what_the_generator_writes():
    frames = list(dumps((ROOT / "proto" / "PROTOCOL.md").read_text()))
    golden = {name: data for name, _, data in generate.messages()}
    assert len(frames) == 4
    for frame, name, rid in zip(frames, ("hello_demo", "welcome", "reduce", "result"), (1, 1, 2, 2)):
        message = struct.pack(">I", 0x80000000 | rid) + golden[name]
        assert frame == b"\x01" + struct.pack(">Q", len(message)) + message, name


def test_golden_files_are_what_the_generator_writes():
    for name, text in generate.texts():
        assert (ROOT / "tests" / "golden" / name).read_text() == text


def test_worked_example_over_the_wire(shared):
    hello, welcome, reduce, result = dumps((ROOT / "proto" / "PROTOCOL.md").read_text())
    with Connection(shared.url) as c:
        c.socket.sendall(hello)
        got = c._exactly(len(welcome))
        session = got[9 + 4 + 16 : 9 + 4 + 24]
        patched = bytearray(welcome)
        patched[29:37] = patched[13 + 40 + 24 : 13 + 40 + 32] = session
        patched[13 + 40 + 40 : 13 + 40 + 56] = got[13 + 40 + 40 : 13 + 40 + 56]  # the token
        assert got[: len(got) - 14] == bytes(patched[: len(got) - 14])
        c.socket.sendall(reduce[:29] + session + reduce[37:])
        got = c._exactly(len(result))
        assert got[:29] == result[:29] and got[-8:] == result[-8:]
        assert got[37:53] == result[37:53]


def test_golden_requests_are_understood(shared):
    """Each golden request gets the reply of its type, or the error that its content asks for."""
    expected = {"ping": "OK", "query_info": "OK", "query_status": "OK", "reduce": "OK", "reduce_all": "OK", "begin": "OK", "append": "BAD_HANDLE",
                "finish": "BAD_HANDLE", "abort": "BAD_HANDLE", "cancel": "OK", "hello": "OK", "hello_wide": "OK", "hello_demo": "OK", "hello_background": "OK", "reduce_segments": "OK",
                "reduce_columns": "OK", "reduce_wrap": "OK", "begin_mask": "OK", "append_mask": "BAD_HANDLE", "reduce_at": "BAD_HANDLE", "reduce_at_masked": "BAD_HANDLE", "reduce_at_apart": "BAD_HANDLE",
                "reduce_at_beside": "BAD_HANDLE", "reduce_resident_mask": "BAD_HANDLE",
                "store": "OK", "write": "BAD_HANDLE", "write_at": "BAD_HANDLE", "commit": "BAD_HANDLE", "list": "OK", "list_one": "BAD_HANDLE",
                "drop": "BAD_HANDLE", "reduce_planes": "OK", "reduce_runs": "OK", "store_shaped": "OK", "reduce_device": "OK",
                "store_placed": "OK", "reduce_weights": "OK", "reduce_keys": "OK", "reduce_claim": "OK", "reduce_at_keys": "BAD_HANDLE"}
    with shared.connect() as c:
        for name, _, data in generate.messages():
            if data[6]:
                continue
            session = b"\0" * 8 if data[5] in (HELLO, PING) else struct.pack("<Q", c.session)
            h, body = c.receive(c.send_raw(data[:16] + session + data[24:]))
            assert rawclient.ERRORS[h.status] == expected.pop(name), name
    assert not expected


# ---- streams ----
def test_chunks_in_any_order_many_in_flight(conn):
    rng = np.random.default_rng(10)
    bits = gens.full_range(rng, "f64", 40_000)
    expected = oracle.reduce("sum", "f64", bits).to_bytes(8, "little")
    cuts = sorted({0, len(bits), *map(int, rng.integers(0, len(bits), 40))})
    chunks = list(zip(cuts, cuts[1:]))
    for order in (chunks, chunks[::-1], [chunks[i] for i in rng.permutation(len(chunks))]):
        stream = conn.begin("sum", "f64")
        sent = [conn.send_append(stream, a, bits[a:b].tobytes()) for a, b in order]
        totals = [struct.unpack("<Q", conn.wait(s))[0] for s in sent]
        assert max(totals) == len(bits)
        assert conn.finish(stream, len(bits)).cells == [expected]


def test_two_streams_at_once_do_not_mix(conn):
    a, b = conn.begin("sum", "i32"), conn.begin("max", "i32")
    assert a != b
    for i in range(20):
        conn.append(a, i, struct.pack("<i", i))
        conn.append(b, i, struct.pack("<i", -i))
    assert conn.finish(b, 20).cells == [struct.pack("<q", 0)]
    assert conn.finish(a, 20).cells == [struct.pack("<q", 190)]


def test_overlap_is_told_at_once_and_the_stream_goes_on(conn):
    s = conn.begin("sum", "u8")
    conn.append(s, 10, bytes([1] * 10))
    for offset, n, first in ((10, 10, 10), (19, 1, 19), (5, 6, 10), (0, 100, 10), (15, 50, 15)):
        with faults("SHAPE", "offset", index=first):
            conn.append(s, offset, bytes([1] * n))
    assert conn.append(s, 0, bytes([1] * 10)) == 20
    with faults("SHAPE", "offset", index=0):
        conn.append(s, 0, b"\1")
    assert conn.append(s, 20, b"\1") == 21
    assert conn.finish(s, 21).cells == [struct.pack("<Q", 21)]


@pytest.mark.parametrize("pieces, count, first", [
    ([], 1, 0), ([(0, 5)], 6, 5), ([(1, 5)], 6, 0), ([(0, 2), (3, 2)], 5, 2), ([(0, 5)], 4, 4), ([(0, 5)], 0, 0), ([(0, 2), (3, 2), (6, 1)], 7, 2),
    ([(0, 5), (9, 1)], 5, 9),
])
def test_gaps_and_extra_elements(conn, pieces, count, first):
    s = conn.begin("sum", "i16")
    for offset, n in pieces:
        conn.append(s, offset, bytes(2 * n))
    with faults("SHAPE", "count", index=first):
        conn.finish(s, count)
    with faults("BAD_HANDLE", "stream"):  # finish has ended it
        conn.finish(s, count)


def test_bad_appends_leave_the_stream(conn):
    s = conn.begin("sum", "f32")
    conn.append(s, 0, F32)
    with faults("SHAPE", "data", limit=4):
        conn.append(s, 3, b"")
    with faults("SHAPE", "data", limit=4):
        conn.append(s, 3, b"12345")
    with faults("TOO_LARGE", "offset", limit=MAX_COUNT):
        conn.append(s, MAX_COUNT + 1, F32)
    with faults("TOO_LARGE", "offset", limit=MAX_COUNT):
        conn.append(s, 2**64 - 1, F32)
    with faults("TOO_LARGE", "offset", limit=MAX_COUNT):
        conn.append(s, MAX_COUNT, F32)
    with faults("TOO_LARGE", "count", limit=MAX_COUNT):
        conn.finish(s, MAX_COUNT + 1)
    for kind, field, n in ((APPEND, "append", 15), (FINISH, "finish", 15), (FINISH, "finish", 17), (ABORT, "stream", 7), (ABORT, "stream", 9)):
        with faults("BAD_MESSAGE", field):
            conn.call(kind, struct.pack("<QQ", s, 0)[:n] + bytes(max(0, n - 16)))
    assert conn.finish(s, 3).cells == [struct.pack("<d", 3.25)]


@pytest.mark.parametrize("kw, code, field", [
    ({"rows": 2}, "SHAPE", "rows"), ({"rows": 0}, "SHAPE", "rows"), ({"row_len": 3}, "SHAPE", "row_len"),
    ({"flags": STATES_IN}, "BAD_MESSAGE", "flags"),
    ({"flags": 128}, "BAD_MESSAGE", "flags"), ({"flags": OFFSETS}, "BAD_MESSAGE", "flags"), ({"flags": COLUMNS}, "BAD_MESSAGE", "flags"),
    ({"flags": INITIAL | STATES_OUT}, "BAD_MESSAGE", "initial"), ({"ddof": 1}, "BAD_MESSAGE", "ddof"), ({"op": "and"}, "TYPE", "dtype"),
    ({"op": 99}, "OP", "op"), ({"dtype": 99}, "TYPE", "dtype"), ({"out": "u8"}, "TYPE", "out"),
    ({"nan": 9}, "BAD_MESSAGE", "nan"), ({"index_base": 2**63}, "TOO_LARGE", "index_base"),
])
def test_begin_refuses(conn, kw, code, field):
    with faults(code, field):
        conn.begin(**{"op": "sum", "dtype": "f32", **kw})


def test_begin_is_a_spec_and_nothing_else(conn):
    for body in (spec("sum", "f32") + b"x", spec("sum", "f32")[:63]):
        with faults("BAD_MESSAGE"):
            conn.call(BEGIN, body)


def test_unknown_streams(shared, conn):
    with shared.connect() as other:
        theirs = other.begin("sum", "f32")
        for stream in (0, 2**64 - 1, theirs):
            with faults("BAD_HANDLE", "stream"):
                conn.append(stream, 0, F32)
            with faults("BAD_HANDLE", "stream"):
                conn.finish(stream, 0)
            with faults("BAD_HANDLE", "stream"):
                conn.abort(stream)
        assert other.append(theirs, 0, F32) == 3
        assert other.finish(theirs, 3).cells == [struct.pack("<d", 3.25)]


def test_abort(conn):
    for _ in range(100):  # more than may be open at once
        s = conn.begin("sum", "f32")
        conn.append(s, 0, F32)
        conn.abort(s)
    with faults("BAD_HANDLE", "stream"):
        conn.append(s, 3, F32)
    with faults("BAD_HANDLE", "stream"):
        conn.abort(s)


def test_abort_and_finish_with_chunks_in_flight(conn):
    data = np.random.default_rng(11).standard_normal(100_000).tobytes()
    for end in (ABORT, FINISH):
        s = conn.begin("sum", "f64")
        sent = [conn.send_append(s, i * 100_000, data) for i in range(6)]
        last = conn.send(end, struct.pack("<Q", s) + (struct.pack("<Q", 600_000) if end == FINISH else b""))
        answers = set()
        for request in [*sent, last]:
            try:
                conn.wait(request)
                answers.add("OK")
            except Fault as f:
                answers.add(f.code)
        assert answers <= {"OK", "CANCELLED", "BAD_HANDLE", "SHAPE", "BUSY"}, answers


def test_too_many_streams(conn):
    streams = [conn.begin("sum", "f32") for _ in range(32)]
    with faults("QUOTA", "streams", limit=32):
        conn.begin("sum", "f32")
    conn.abort(streams.pop())
    streams.append(conn.begin("sum", "f32"))
    for s in streams:
        assert conn.finish(s, 0).cells == [bytes(8)]


def test_too_many_pieces(conn):
    s = conn.begin("sum", "u8")
    for i in range(64):
        conn.append(s, 2 * i, b"\1")
    with faults("QUOTA", "extents", limit=64):
        conn.append(s, 1000, b"\1")
    for i in range(63):
        conn.append(s, 2 * i + 1, b"\1")
    assert conn.append(s, 1000, b"\1") == 128
    assert conn.append(s, 127, b"\1" * 873) == 1001
    assert conn.finish(s, 1001).cells == [struct.pack("<Q", 1001)]


def test_many_chunks_in_one_stream(conn):
    """More chunks than a stream keeps states for: they fold on the way."""
    n = 3000
    values = np.random.default_rng(12).standard_normal(n).astype("<f4")
    s = conn.begin("sum", "f32", out="f32")
    window = []
    for i in range(n):
        window.append(conn.send_append(s, i, values[i : i + 1].tobytes()))
        if len(window) == 32:
            conn.wait(window.pop(0))
    for request in window:
        conn.wait(request)
    expected = oracle.reduce("sum", "f32", values.view("<u4"), out="f32")
    assert conn.finish(s, n).cells == [expected.to_bytes(4, "little")]


def test_streams_choose_the_lowest_index(conn):
    for op in ("argmin", "argmax"):
        s = conn.begin(op, "i32", index_base=1000)
        for offset in (50, 10, 30):
            conn.append(s, offset, struct.pack("<10i", *[7] * 10))
        for offset in (0, 20, 40):
            conn.append(s, offset, struct.pack("<10i", *[7] * 10))
        assert conn.finish(s, 60).cells == [struct.pack("<Q", 1000)]


def test_stream_errors_at_the_finish(conn):
    s = conn.begin("min", "f32")
    with faults("EMPTY", "row_len", index=NO_INDEX):
        conn.finish(s, 0)
    s = conn.begin("sum", "f32", nan="error")
    conn.append(s, 0, np.array([1, np.nan], "<f4").tobytes())
    conn.append(s, 2, F32)
    with faults("NAN", "data", index=NO_INDEX):
        conn.finish(s, 5)
    s = conn.begin("sum", "u64")
    conn.append(s, 0, b"\xff" * 16)
    with faults("OVERFLOW", "out", index=NO_INDEX) as caught:
        conn.finish(s, 2)
    assert caught.value.value == 2 * (2**64 - 1)


def test_masked_streams(conn):
    rng = np.random.default_rng(13)
    bits = gens.specials(rng, "f32", 5000)
    mask = rng.integers(0, 2, len(bits), np.uint8)
    for op, kw in (("sum", {}), ("argmax", {"index_base": 70}), ("std", {"ddof": 1, "nan": "omit"}), ("stats", {"initial": 0x40000000})):
        stream = conn.begin(op, "f32", flags=MASK, **kw)
        for a in (3000, 0, 1000):
            chunk = slice(a, {0: 1000, 1000: 3000, 3000: len(bits)}[a])
            conn.append(stream, a, bits[chunk].tobytes() + mask[chunk].tobytes())
        with faults("SHAPE", "data", limit=5):
            conn.append(stream, len(bits), bytes(4))
        expected = oracle.reduce(op, "f32", bits, mask=mask, **kw)
        assert int.from_bytes(conn.finish(stream, len(bits)).cells[0], "little") == expected, op


# ---- partial states ----
@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_states_are_canonical(conn, dtype):
    """What the daemon makes equals, byte for byte, what a reader of PROTOCOL.md makes."""
    for op, of, nan, base, missing, data, state in generate.states():
        if of != dtype:
            continue
        head = op, nan, data.hex()
        assert conn.reduce(op, dtype, state, nan=nan, flags=STATES_IN | STATES_OUT).cells == [state], head
        if missing:  # no request has such elements
            continue
        assert conn.reduce(op, dtype, data, nan=nan, index_base=base, flags=STATES_OUT).cells == [state], head
        stream = conn.begin(op, dtype, nan=nan, index_base=base, flags=STATES_OUT)
        size = oracle.SIZE[dtype]
        for i in range(0, len(data), size):
            conn.append(stream, i // size, data[i : i + size])
        assert conn.finish(stream, len(data) // size).cells == [state], head


LIMBS = {code: sum(n) for op in oracle.OPS for dtype in ("f32", "f64", "i8") for code, *n in [oracle.layout(op, dtype)]}


def state(layout, *, special=0, nz=0, skipped=0, dtype=11, zero=b"\0\0\0", count=0, limbs=()):
    n = LIMBS.get(layout, 6)
    return struct.pack("<BBBBB3sQ", layout, special, nz, skipped, dtype, zero, count) + struct.pack(f"<{n}Q", *limbs, *[0] * (n - len(limbs)))


@pytest.mark.parametrize("op, dtype, bad, field", [
    ("sum", "f32", state(255), "layout"), ("norm2", "i32", state(4, dtype=5) + bytes(8), "layout"),
    ("min", "f32", state(6), "layout"), ("argmax", "f32", state(7), "layout"), ("sum", "i8", state(9, dtype=1), "layout"),
    ("sum", "f32", state(0, dtype=9), "dtype"), ("sum", "i32", state(4, dtype=6), "dtype"),
    ("sum", "f32", state(0, special=4, nz=1, count=1), "special"), ("min", "f32", state(5, special=1, count=1), "special"),
    ("sum", "f32", state(0, special=1, nz=1, count=1, limbs=[1]), "special"), ("sum", "f32", state(0, special=3, nz=1), "special"),
    ("sum", "f32", state(0, special=3, count=1), "special"),
    ("sum", "f32", state(0, nz=2, count=1), "nz"), ("sum", "f32", state(0, nz=1), "nz"), ("sum", "f32", state(0, count=1, limbs=[2]), "nz"),
    ("count_nonzero", "f32", state(9, nz=1, count=1), "nz"),
    ("sum", "f32", state(0, skipped=2), "skipped"), ("sum", "u8", state(4, skipped=1, dtype=2), "skipped"),
    ("sum", "f32", state(0, zero=b"\0\1\0"), "zero"),
    ("sum", "f32", state(0, count=MAX_COUNT + 1), "count"), ("count_nonzero", "f32", state(9, count=2**64 - 1), "count"),
    ("sum", "f32", state(0, nz=1, count=1, limbs=[0, 0, 0, 0, 0, 2**62]), "limbs"), ("sum", "f32", state(0, nz=1, count=1, limbs=[1]), "limbs"),
    ("sum", "f32", state(0, nz=1, count=2, limbs=[0] * 5 + [2**63]), "limbs"),
    ("sum", "u8", state(4, dtype=2, count=1, limbs=[256]), "limbs"), ("sum", "u8", state(4, dtype=2, count=3, limbs=[2**64 - 1] * 2), "limbs"),
    ("min", "i8", state(5, dtype=1, count=1, limbs=[256]), "limbs"), ("min", "i8", state(5, dtype=1, count=1, limbs=[1, 1]), "limbs"),
    ("min", "i8", state(5, dtype=1, limbs=[1]), "limbs"), ("min", "f32", state(5, count=1, limbs=[0x7FC00001]), "limbs"),
    ("max", "f32", state(6, count=1, limbs=[0xFFC00000]), "limbs"),
    ("argmin", "f32", state(7, limbs=[0, 0]), "limbs"), ("argmin", "f32", state(7, count=1, limbs=[0, 2**61]), "limbs"),
    ("count_nonzero", "f32", state(9, count=1, limbs=[2]), "limbs"), ("count_nonzero", "f32", state(9, count=1, limbs=[0, 1]), "limbs"),
    ("sumsq", "f32", state(1, special=2, count=1), "special"), ("sumsq", "f32", state(1, nz=1, count=1), "nz"),
    ("norm2", "f64", state(3, dtype=12, count=1, limbs=[0] * 66 + [1]), "limbs"), ("sumsq", "f32", state(1, count=1, limbs=[2]), "limbs"),
    ("norm1", "f32", state(14, special=2, count=1), "special"), ("norm1", "f32", state(14, count=1, limbs=[2**64 - 1] * 6), "limbs"),
    ("norm1", "i8", state(16, dtype=1, count=1, limbs=[129]), "limbs"), ("norm1", "u8", state(16, dtype=2, count=1, limbs=[2**64 - 1] * 2), "limbs"),
    ("sumsq", "i8", state(10, dtype=1, count=2, limbs=[2**15 + 1]), "limbs"),
    ("var", "f32", state(11, nz=1, count=1, limbs=[4]), "limbs"), ("std", "f64", state(12, dtype=12, nz=0, count=1, limbs=[0] * 34 + [4]), "nz"),
    ("var", "i16", state(13, dtype=3, count=1, limbs=[3, 0, 8]), "limbs"), ("var", "i16", state(13, dtype=3, special=1, count=1), "special"),
    ("norm1", "f32", state(14, count=1, limbs=[0, *[2**64 - 1] * 5]), "limbs"),
    ("norm2", "f32", state(1, count=1, limbs=[0, *[2**64 - 1] * 9]), "limbs"),
    ("var", "f64", state(12, dtype=12, nz=1, count=1, limbs=[0] * 35 + [2**64 - 1] * 66), "limbs"),
    ("norminf", "f32", state(17, count=1, limbs=[0x80000000]), "limbs"), ("norminf", "i8", state(17, dtype=1, count=1, limbs=[129]), "limbs"),
    ("minmax", "f32", state(18, count=1, limbs=[0, 1]), "limbs"), ("range", "i8", state(18, dtype=1, count=2, limbs=[1, 255]), "limbs"),
    ("minmax", "f32", state(18, count=2, limbs=[0x7FC00000, 0]), "limbs"), ("minmax", "u8", state(18, dtype=2, limbs=[1]), "limbs"),
    ("count_nan", "f32", state(19, count=1, limbs=[2]), "limbs"), ("count_nan", "i8", state(19, dtype=1, count=1, limbs=[2]), "limbs"), ("count_nan", "i8", state(19, dtype=1, count=1, limbs=[1], skipped=1), "skipped"),
    ("count_nan", "f32", state(19, count=1, skipped=1), "skipped"),
    ("and", "u8", state(20, dtype=2), "limbs"), ("or", "u8", state(21, dtype=2, count=1, limbs=[256]), "limbs"),
    ("xor", "i8", state(22, dtype=1, limbs=[1]), "limbs"),
    ("prod", "f32", state(23, special=4, count=1), "special"), ("prod", "f32", state(23, special=1, count=1, limbs=[1]), "special"),
    ("prod", "f32", state(23, special=2), "special"), ("prod", "f32", state(23, special=3, count=1, limbs=[0, 0, 0, 1]), "limbs"),
    ("prod", "f64", state(23, dtype=12, count=1, limbs=[0, 0, 0, 2]), "limbs"), ("prod", "f32", state(23, count=1, limbs=[0, 2**48 * 128]), "limbs"),
    ("prod", "f32", state(23, limbs=[1]), "limbs"),
    ("prod", "i8", state(24, dtype=1, special=1, count=1, limbs=[0, 1]), "special"),
    ("prod", "i8", state(24, dtype=1, special=2, limbs=[0, 1]), "special"),
    ("prod", "i8", state(24, dtype=1), "limbs"), ("prod", "i8", state(24, dtype=1, count=1, limbs=[129, 129]), "limbs"),
    ("prod", "i8", state(24, dtype=1, count=1, limbs=[5, 6]), "limbs"), ("prod", "u8", state(24, dtype=2, count=1, limbs=[2**64 - 5, 5, 1]), "limbs"),
    ("prod", "i8", state(24, dtype=1, count=2, special=2, limbs=[5, 5]), "limbs"),
    ("stats", "u8", state(27, dtype=2), "limbs"), ("stats", "u8", state(27, dtype=2, count=1, limbs=[3, 0, 9, 0, 0, 3, 0, 4]), "limbs"),
    ("stats", "u8", state(27, dtype=2, count=1, limbs=[3, 0, 9, 0, 0, 3, 0, 3, 0, 2]), "limbs"),
    ("stats", "u8", state(27, dtype=2, count=1, limbs=[3, 0, 9, 0, 0, 3, 0, 3, 0, 0, 1]), "limbs"),
    ("stats", "f32", state(25, count=1, special=3, nz=1, limbs=[0] * 16 + [0x7FC00000, 0, 0x7FC00000]), "limbs"),
    ("stats", "f64", state(26, dtype=12, skipped=1, limbs=[0] * 101 + [0, NO_INDEX, 0, NO_INDEX]), "skipped"),
], ids=lambda v: v if isinstance(v, str) else "")
def test_bad_states(conn, op, dtype, bad, field):
    good = conn.reduce(op, dtype, bytes(oracle.SIZE[dtype]), flags=STATES_OUT).cells[0]
    with faults("BAD_MESSAGE", field, index=0):
        conn.reduce(op, dtype, bad, flags=STATES_IN)
    with faults("BAD_MESSAGE", field, index=1):
        conn.reduce(op, dtype, good + good + good + bad, rows=2, flags=STATES_IN | STATES_OUT)


def test_states_count_too_much(conn):
    half = state(9, count=MAX_COUNT // 2 + 1, limbs=[5])
    with faults("TOO_LARGE", "count", limit=MAX_COUNT, index=0):
        conn.reduce("count_nonzero", "f32", half + half, flags=STATES_IN)
    conn.reduce("count_nonzero", "f32", half + half, rows=2, flags=STATES_IN)


# ---- capacity ----
def paused(daemon, requests):
    """Let requests pile up in front of a stopped daemon, so that it meets them all at once."""
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        return requests()
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)


def test_busy_above_max_inflight(start):
    """Requests without data but with work: 200,000 sums of nothing each."""
    daemon = start("--max-inflight", 8, "--small-bytes", 0, "--threads", 1)
    rows = 200_000
    with daemon.connect() as c, daemon.connect() as other:
        assert c.welcome["max_inflight"] == 8
        body = spec("sum", "f64", rows=rows)
        sent = paused(daemon, lambda: [c.send(REDUCE, body) for _ in range(40)])  # each is some ms of work for the one thread
        assert other.reduce("sum", "f32", F32).cells == [struct.pack("<d", 3.25)], "others are not affected"
        done = busy = 0
        for request in sent:
            try:
                body = c.wait(request)  # compared as a whole: a client that takes replies slowly is disconnected
                assert (body[4:16], body[48:]) == (struct.pack("<IQ", 8, rows), bytes(8 * rows))
                done += 1
            except Fault as f:
                assert (f.code, f.field, f.limit) == ("BUSY", "inflight", 8) and 0 < f.retry_ms < 10_000, f
                busy += 1
        assert done >= 8 and busy, (done, busy)
        assert len(c.reduce("sum", "f64", b"", rows=5).cells) == 5, "room again"


def test_deadlines(start):
    """What is late says so, what is not is right."""
    daemon = start("--threads", 1, "--small-bytes", 0)
    data = gens.full_range(np.random.default_rng(14), "f64", MAX_DATA // 8)
    expected = oracle.reduce("sum", "f64", data).to_bytes(8, "little")
    with contextlib.ExitStack() as stack:
        conns = [stack.enter_context(daemon.connect()) for _ in range(8)]
        body = conns[0].reduce_body("sum", "f64", data.tobytes())
        sent = [(c, c.send(REDUCE, body, time_ms=1)) for c in conns]
        for c, request in sent:
            try:
                assert rawclient.parse_result(c.wait(request)).cells == [expected]
            except Fault as f:
                assert f.code == "DEADLINE", f
        # a quarter of a million rows take tens of milliseconds, far more than one
        slow = conns[0].reduce_body("sum", "f64", data.tobytes(), rows=len(data) // 2)
        with pytest.raises(Fault) as caught:
            conns[0].wait(conns[0].send(REDUCE, slow, time_ms=1))
        assert caught.value.code == "DEADLINE"
        assert conns[0].reduce("sum", "f64", data.tobytes(), time_ms=600_000).cells == [expected]
        stream = conns[0].begin("sum", "f64")
        assert conns[0].append(stream, 0, data.tobytes()) == len(data)
        assert conns[0].finish(stream, len(data), time_ms=600_000).cells == [expected]


def test_too_many_sessions(start):
    daemon = start("--max-sessions", 2)
    with daemon.connect() as a, daemon.connect():
        with daemon.connect(hello=False) as c:
            with faults("BUSY", "sessions", limit=2):
                c.hello()
            a.close()
            end = time.monotonic() + 60
            while not c.session and time.monotonic() < end:  # the daemon hears of the close in its own time
                with contextlib.suppress(Fault):
                    c.hello()
            assert c.reduce("sum", "f32", F32).cells == [struct.pack("<d", 3.25)]


def test_quota_of_streams_is_configured(start):
    daemon = start("--max-streams", 1)
    with daemon.connect() as c:
        assert c.welcome["max_streams"] == 1
        c.begin("sum", "f32")
        with faults("QUOTA", "streams", limit=1):
            c.begin("sum", "f32")


def test_clients_that_stall_or_vanish(shared, bystander):
    """Half a frame, half a message, no reading of replies: nobody else waits for them."""
    stalled = []
    for part in (b"", b"\x01", b"\x01" + struct.pack(">Q", 100), b"\x01" + struct.pack(">Q", 4194412) + b"\x80\0\0\1" + GOOD):
        c = shared.connect()
        c.socket.sendall(part)
        stalled.append(c)
    deaf = shared.connect()
    rows = MAX_DATA // 8
    body = spec("sum", "u8", rows=rows, row_len=0)
    deaf.socket.settimeout(1)
    for _ in range(20):  # 80 MiB of replies that nobody reads
        try:
            deaf.send(REDUCE, body)
        except (TimeoutError, Closed):
            break
    bystander.ping()
    for c in [*stalled, deaf]:
        c.close()
    bystander.ping()


@pytest.mark.slow
def test_a_slow_reader_gets_all_its_replies(start):
    """The 10 s to take a reply begin with its turn, not when it is ready: all are at once."""
    daemon = start()
    with daemon.connect() as c:
        for request in [c.send(REDUCE, spec("sum", "u8", rows=MAX_DATA // 8, row_len=0)) for _ in range(12)]:
            with pytest.raises(subprocess.TimeoutExpired):
                daemon.process.wait(1)
            assert len(c.wait(request)) == 48 + MAX_DATA


def test_tcp_speaks_the_same(shared):
    with shared.connect(tcp=True) as c:
        assert c.reduce("sum", "f32", F32).cells == [struct.pack("<d", 3.25)]
        data = np.arange(MAX_DATA // 4, dtype="<u4")
        assert c.reduce("sum", "u32", data.tobytes()).cells == [struct.pack("<Q", int(data.sum(dtype=np.uint64)))]
