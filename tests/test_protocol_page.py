"""Corner cases of PROTOCOL.md: two errors at once, a daemon that leaves, fields that are not echoed, relays, the
fdpass channel's second life, the numbers for people who write clients."""
import contextlib
import os
import re
import signal
import socket
import struct
import sys
import time

import pytest

from conftest import BACKEND, ROOT
from rawclient import APPEND, BEGIN, MASK, OFFSETS, PING, QUERY, REDUCE, REDUCE_AT, STATES_IN, STATES_OUT, STORE, Closed, Fault, Header, header, spec, store
from sideclient import Side
from test_protocol import F32, GOOD, MAX_COUNT, MAX_DATA, conn, faults  # noqa: F401  (a fixture)

sys.path.insert(0, str(ROOT / "tests" / "golden"))
import generate  # noqa: E402

PAGE = (ROOT / "proto/PROTOCOL.md").read_text()


# ---- header, greeting ----
def test_a_replys_session_is_the_connections_own(shared):
    with shared.connect(hello=False) as c:
        for own in (0, None):
            for said in (0, 5, 2**64 - 1):
                h, _ = c.receive(c.send(PING, session=said)[0])
                assert h.status == 0 and h.session == (c.session if own is None else own)
                h, _ = c.receive(c.send(QUERY, struct.pack("<I4x", 1), session=said)[0])
                assert h.status == 14 and h.session == (c.session if own is None else own), "NO_SESSION names the real one"
            c.hello()


@pytest.mark.parametrize("tcp", [False, True], ids=["ipc", "tcp"])
def test_relays(shared, tcp):
    """Up to seven addresses of relays come back in front of the request's id. With eight to fifteen they come back with an error,
    with more nothing does. The connection goes on."""
    with shared.connect(tcp=tcp) as c:
        for relays in (0, 1, 7):
            route = b"".join(struct.pack(">I", 1000 + i) for i in range(relays)) + struct.pack(">I", 0x80000077)
            c.send_frame(route + header(PING, 2, mid=9) + b"me")
            if c.ipc:
                assert c._exactly(1) == b"\x01"
            frame = c._exactly(struct.unpack(">Q", c._exactly(8))[0])
            assert frame[: len(route)] == route and frame[-2:] == b"me"
        for relays in (8, 15):
            route = b"".join(struct.pack(">I", 1000 + i) for i in range(relays)) + struct.pack(">I", 0x80000077)
            c.send_frame(route + header(PING, 2, mid=9) + b"me")
            if c.ipc:
                assert c._exactly(1) == b"\x01"
            frame = c._exactly(struct.unpack(">Q", c._exactly(8))[0])
            h = Header(*struct.unpack_from("<BBHIIQQQ", frame, len(route) + 4))
            fault = Fault(h, frame[len(route) + 40 :])
            assert frame[: len(route)] == route and (h.type, h.id, h.session) == (PING, 9, c.session)
            assert (fault.code, fault.field, fault.limit) == ("TOO_LARGE", "relays", 7)
        c.send_frame(bytes(16 * 4) + struct.pack(">I", 0x80000078) + GOOD)
        assert c.ping(b"the next reply is this one's") == b"the next reply is this one's"


def test_names_of_clients_are_bytes(start):
    """Not checked, in no reply, and harmless in the log."""
    daemon = start("--log-level", "debug")
    with daemon.connect(hello=False) as c:
        c.hello(name=b"n\xff\xfe\n\x1b[2Jame")
        daemon.wait_log(r"session of 'n\\xff\\xfe\\x0a\\x1b\[2Jame'")
        for topic in (1, 2):
            assert "ame" not in c.query(topic).values()


# ---- two things wrong at once ----
def test_the_first_failing_row_decides(conn):
    """Whatever the kinds of the errors are."""
    nan = struct.pack("<f", float("nan"))
    for data, offsets, code, index in ((nan, (0, 1, 1), "NAN", 0), (nan, (0, 0, 1), "EMPTY", 0), (F32 + nan, (0, 2, 4, 4), "NAN", 1),
                                       (F32 + nan, (0, 2, 3, 3, 4), "EMPTY", 2)):
        with faults(code, index=index):
            conn.reduce("min", "f32", data, offsets=offsets, nan="error")
    good = conn.reduce("max", "f32", F32, flags=STATES_OUT).cells[0]
    empty = conn.reduce("max", "f32", b"", flags=STATES_OUT).cells[0]
    bad = b"\xff" + good[1:]
    much = good[:8] + struct.pack("<Q", MAX_COUNT) + good[16:]
    # all states are looked at before any result, the first that is wrong decides
    for states, code, index in (((empty, empty, bad, good), "BAD_MESSAGE", 1), ((much, much, bad, empty), "TOO_LARGE", 0),
                                ((empty, empty, much, much), "TOO_LARGE", 1), ((good, bad, much, much), "BAD_MESSAGE", 0),
                                ((much, bad, empty, empty), "BAD_MESSAGE", 0), ((good, good, empty, empty), "EMPTY", 1)):
        with faults(code, index=index):
            conn.reduce("max", "f32", b"".join(states), rows=2, flags=STATES_IN)


def test_within_a_row_nan_comes_before_empty(conn):
    """The policy error has found a NaN and nothing else."""
    with faults("NAN", "data", index=0):
        conn.reduce("min", "f32", struct.pack("<f", float("nan")), nan="error")


def test_order_of_checks_of_append(conn):
    s = conn.begin("sum", "f32")
    conn.append(s, 0, F32)
    beyond, unknown = MAX_COUNT + 1, s + 1000

    def append(stream, offset, data, code, field):
        with faults(code, field):
            conn.append(stream, offset, data)

    with faults("BAD_MESSAGE", "append"):
        conn.call(APPEND, struct.pack("<Q", unknown))
    append(unknown, beyond, bytes(MAX_DATA + 4), "TOO_LARGE", "offset")
    append(unknown, 0, bytes(MAX_DATA + 4), "TOO_LARGE", "data")
    append(unknown, 0, b"odd", "BAD_HANDLE", "stream")
    append(unknown, MAX_COUNT, F32, "BAD_HANDLE", "stream")
    append(s, MAX_COUNT, b"odd", "SHAPE", "data")
    append(s, MAX_COUNT, F32, "TOO_LARGE", "offset")
    append(s, 0, F32, "SHAPE", "offset")
    for i in range(63):
        conn.append(s, 10 + 2 * i, F32[:4])
    append(s, 0, F32, "SHAPE", "offset")
    append(s, 1000, F32, "QUOTA", "extents")
    assert conn.append(s, 3, F32) == 3 + 63 + 3, "the stream went on through all of it"
    conn.abort(s)


def test_order_of_checks_of_store(conn):
    """The rows of the page's table, each wrong together with all that follow it."""

    def refused(body, code, field):
        with faults(code, field):
            conn.call(STORE, body)

    def body(dtype=99, flags=0, name=b".x", name_len=None, ttl=2**31, size=0):
        return struct.pack("<BBHIQ", dtype, flags, len(name) if name_len is None else name_len, ttl, size) + name

    refused(body(flags=128, name_len=65)[:15], "BAD_MESSAGE", "store")
    refused(body(flags=128, name_len=65), "BAD_MESSAGE", "flags")
    refused(body(name_len=65), "TOO_LARGE", "name_len")
    refused(body(name_len=64), "BAD_MESSAGE", "store")
    refused(body(), "BAD_MESSAGE", "name")
    refused(body(name=b"x"), "TOO_LARGE", "ttl_ms")
    refused(body(name=b"x", ttl=0), "TYPE", "dtype")
    refused(body(name=b"x", ttl=0, dtype=1), "SHAPE", "bytes")


def test_store_looks_at_the_message_before_the_user(shared):
    with shared.connect(tcp=True) as c:
        with faults("SHAPE", "bytes"):
            c.store("x", "f32", 0)
        with faults("AUTH", "user"):
            c.store("x", "f32", 4)


def test_order_of_checks_of_data_that_are_elsewhere(shared):
    with shared.connect() as c, Side(c) as side:
        arena, memory = side.arena(4096)
        kept, written = c.put("order", "f32", bytes(400)), c.store("order2", "f32", 400)
        for handle, length, flags, code, field in ((arena ^ 1, MAX_DATA + 1, 0, "BAD_HANDLE", "handle"), (arena, MAX_DATA + 1, 0, "TOO_LARGE", "length"),
                                                   (arena, 4097, 0, "SHAPE", "offset"), (arena ^ 1, 4, OFFSETS, "BAD_MESSAGE", "flags"),
                                                   (arena, 4095, 0, "SHAPE", "data")):
            with faults(code, field):
                c.reduce_at("sum", "f32", handle, 0, length, flags=flags, row_len=7)
        for dtype, at, flags, code, field, limit in (("i32", 2, MASK, "TYPE", "dtype", 0), ("f32", 2, MASK, "BAD_MESSAGE", "flags", 0),
                                                     ("f32", 402, 0, "SHAPE", "offset", 4), ("f32", 404, 0, "SHAPE", "offset", 400)):
            with faults(code, field, limit=limit):
                c.reduce_at("sum", dtype, kept, at, 7, flags=flags, row_len=7)
        for args, code, field in (((0, 0, arena ^ 1, 0, MAX_DATA + 1), "BAD_HANDLE", "from"), ((0, 0, arena, 0, MAX_DATA + 1), "TOO_LARGE", "length"),
                                  ((0, 500, arena, 4097, 0), "SHAPE", "offset"), ((0, 500, arena, 0, 0), "BAD_HANDLE", "handle"),
                                  ((written, 500, arena, 0, 0), "SHAPE", "data"), ((written, 397, arena, 0, 4), "SHAPE", "offset")):
            with faults(code, field):
                c.write_at(*args)
        c.abort(written)
        c.drop("order")
        memory.close()


def test_room_is_looked_for_before_the_body(start):
    """BUSY stands between session and body."""
    daemon = start("--max-inflight", 1, "--small-bytes", 0, "--threads", 1)
    with daemon.connect() as c:
        long = spec("sum", "f64", rows=200_000)
        os.kill(daemon.process.pid, signal.SIGSTOP)
        sent = [c.send(REDUCE, long) for _ in range(3)] + [c.send(REDUCE, b"short")]
        os.kill(daemon.process.pid, signal.SIGCONT)
        codes = []
        for request in sent:
            try:
                c.wait(request)
                codes.append("OK")
            except Fault as f:
                codes.append(f.code)
        assert "BUSY" in codes[1:3] and codes[3] in ("BUSY", "BAD_MESSAGE"), codes
        with faults("NO_SESSION"):
            c.call(REDUCE, b"short", session=1)


# ---- a daemon that leaves ----
def test_a_leaving_daemon_finishes_what_it_has(start):
    daemon = start()
    with daemon.connect() as c, daemon.connect(hello=False) as late:
        s = c.begin("sum", "f32")
        daemon.process.send_signal(signal.SIGTERM)
        daemon.wait_log("finishing what is under way")
        new = {REDUCE: spec("sum", "f32", row_len=3) + F32, BEGIN: spec("sum", "f32"),
               REDUCE_AT: spec("sum", "f32", row_len=3) + struct.pack("<QQQ", 1, 0, 12), STORE: store("x", "f32", 12)}
        for kind, body in new.items():
            with faults("BUSY", "daemon") as caught:
                c.call(kind, body)
            assert caught.value.retry_ms
        with faults("BUSY", "daemon"):
            late.hello()
        late.ping()
        assert c.query(1) and c.hello()["session"] == c.session
        assert c.append(s, 0, F32) == 3
        assert c.finish(s, 3).cells == [struct.pack("<d", 3.25)]
    assert daemon.process.wait(60) == 0
    daemon.check_log()


# ---- the fdpass channel ----
def test_attach_again_after_the_channel_closed(shared, scratch):
    """One at a time: its handles go with it, the token stays good."""
    with open(scratch / "f", "wb+") as f:
        f.write(F32)
        f.flush()
        with shared.connect() as c:
            first = Side(c)
            handle, _ = first.file(f.fileno())
            second = Side(c, attach=False)
            with faults("AUTH", "token"):
                second.attach(c.session, c.welcome["token"])
            with pytest.raises(Closed):
                second.receive(1)
            second.close()
            first.close()
            end = time.monotonic() + 60
            while True:  # the daemon hears of the close in its own time
                again = Side(c, attach=False)
                with contextlib.suppress(Fault):
                    again.attach(c.session, c.welcome["token"])
                    break
                again.close()
                assert time.monotonic() < end
            with again:
                with faults("BAD_HANDLE", "handle"):
                    c.reduce_at("sum", "f32", handle, 0, 12)
                handle, size = again.file(f.fileno())
                assert c.reduce_at("sum", "f32", handle, 0, size).cells == [struct.pack("<d", 3.25)]


def test_golden_packets_are_understood(shared, scratch):
    """Each golden request gets the golden reply, but for the handles, which are random."""
    golden = {name: (descriptors, data) for name, _, descriptors, data in generate.packets()}
    file = os.open(scratch / "f", os.O_RDWR | os.O_CREAT)
    os.write(file, F32)

    def exchange(side, name, reply, at=8):
        descriptors, packet = golden[name]
        side.send(packet, [file] * descriptors)
        got, fds, _, _ = socket.recv_fds(side.socket, 4096, 4)
        for fd in fds:
            os.close(fd)
        assert len(fds) == golden[reply][0]
        assert got[:at] + got[at + 8 :] == golden[reply][1][:at] + golden[reply][1][at + 8 :], name
        return got

    with shared.connect() as c, Side(c, attach=False) as side, Side(c, attach=False) as stranger:
        attach = golden["attach"][1][:8] + struct.pack("<Q", c.session) + c.welcome["token"]
        side.send(attach)
        assert side.socket.recv(4096) == golden["attached"][1]
        stranger.send(golden["attach"][1])
        with faults("AUTH", "token"):
            stranger.receive(1)
        exchange(side, "file", "filed")
        exchange(side, "arena", "arena_made")
        side.send(golden["drop"][1])
        for name in ("device", "device_fd") if BACKEND == "cpu" else ():
            descriptors, packet = golden[name]
            side.send(packet, [file] * descriptors)
            with faults("TYPE", "device"):
                side.receive(packet[0])
        side.arena(4096)[1].close()
    os.close(file)
