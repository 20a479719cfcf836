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

import oracle
import order
import pairs
import rawclient
import sideclient
from conftest import BACKEND, ROOT
from rawclient import APPEND, BEGIN, MASK, OFFSETS, PING, QUERY, REDUCE, REDUCE_AT, STATES_IN, STATES_OUT, STORE, Closed, Fault, Header, header, spec, store
from sideclient import Side
from test_protocol import F32, GOOD, MAX_COUNT, MAX_DATA, conn, faults  # noqa: F401  (a fixture)

sys.path.insert(0, str(ROOT / "tests" / "golden"))
import generate  # noqa: E402

PAGE = (ROOT / "proto/PROTOCOL.md").read_text()


# ---- its tables ----
def numbers(head):
    """{name: code} of the page's table `head`; tests/unit/test_types.c compares these tables with types.def."""
    table = re.search(rf"^\| {head} \| code \|.*\n\|.*\n((?:\|.*\n)+)", PAGE, re.M)[1]
    return {row.split(" | ")[0][2:]: int(row.split(" | ")[1].removesuffix(" |")) for row in table.splitlines()}


def test_the_raw_clients_numbers_are_the_pages():
    assert all(getattr(rawclient, name.upper()) == code for name, code in numbers("message").items())
    assert all(getattr(sideclient, name.upper()) == code for name, code in numbers("fdpass packet").items())
    assert dict(zip(rawclient.ERRORS, range(99))) == numbers("error")
    assert ({**oracle.OPS, **order.OPS, **pairs.OPS}, oracle.NANS, oracle.DTYPES) == (numbers("op"), numbers("nan policy"), numbers("dtype"))


def table(section, number):
    """[(offset, size, name)] of one of a section's tables: its fields of fixed size."""
    text = re.split(r"^#+ ", re.split(rf"^#+ {re.escape(section)}.*$", PAGE, flags=re.M)[1], flags=re.M)[0]
    rows = re.match(r".*\n\|.*\n((?:\|.*\n)+)", re.split(r"^\| offset \| size \|", text, flags=re.M)[1 + number])[1]
    return [(int(offset), int(size), name.strip("`")) for offset, size, name in re.findall(r"^\| (\d+) \| (\d+) \| (`\w+`|reserved)", rows, re.M)]


BODY, BEHIND_SPEC, BEHIND_PLACE = 40, 40 + 64, 40 + 64 + 24
NO_END = 2**64 - 1
MAGIC, TOKEN = (int.from_bytes(b, "little") for b in (b"RDCE", bytes(range(0xA0, 0xB0))))


# test_codec compares the codec with the golden messages in both directions.
@pytest.mark.parametrize("section, number, name, at, expected", [
    ("Header", 0, "error_busy", 0, f"magic {MAGIC} version 1 type 6 flags 1 status 11 time_ms 20 session 81985529216486895 id 13 body_len 73"),
    ("HELLO (1)", 0, "hello_background", BODY, "min_version 1 max_version 1 name_len 6 priority 2"),
    ("HELLO (1)", 0, "hello_wide", BODY, "min_version 1 max_version 3 name_len 0 priority 0"),
    ("HELLO (1)", 1, "welcome_background", BODY, "version 1 priority 2 max_data 4194304 chunk_hint 1048576 max_inflight 64 max_streams 32"
                                                 f" session 81985529216486895 server_len 13 token {TOKEN}"),
    ("QUERY (3)", 0, "query_status", BODY, "topic 2"),
    ("QUERY (3)", 1, "entries", BODY, "kind 1 key_len 15 value_len 8"),
    ("REDUCE (4)", 0, "reduce_all", BODY, f"op 5 dtype 3 out 8 nan 1 tagged_len 0 flags 3 ddof 0 rows 2 row_len 0 index_base {2**60} initial 0 planes 0 device 0"),
    ("REDUCE (4)", 0, "reduce_segments", BODY, "op 15 dtype 10 out 11 nan 1 tagged_len 0 flags 56 ddof 1 rows 2 row_len 3 index_base 0 initial 49216 planes 0"
                                               " device 0"),
    ("REDUCE (4)", 0, "reduce_planes", BODY, "op 3 dtype 2 out 0 nan 0 tagged_len 0 flags 64 ddof 0 rows 2 row_len 3 index_base 0 initial 0 planes 2 device 0"),
    ("REDUCE (4)", 0, "reduce_device", BODY, "op 1 dtype 2 out 0 nan 0 tagged_len 0 flags 0 ddof 0 rows 1 row_len 3 index_base 0 initial 0 planes 0 device 1"),
    ("REDUCE (4)", 1, "finished", BODY, f"dtype 11 backend 2 path 2 cell_size 4 cells 1 count {2**40 + 2} queue_ns 7 copy_ns 8 compute_ns 9"),
    ("REDUCE (4)", 1, "result_at", BODY, "dtype 12 backend 1 path 4 cell_size 8 cells 2 count 6 queue_ns 1 copy_ns 2 compute_ns 3"),
    ("APPEND (6)", 0, "append", BODY, f"stream 9 offset {2**40}"),
    ("FINISH (7)", 0, "finish", BODY, f"stream 9 count {2**40 + 2}"),
    ("REDUCE_AT (9)", 0, "reduce_at", BODY, f"handle {2**63 + 1} offset 128 length 24"),
    ("Tagged parts", 0, "reduce_at_masked", BEHIND_PLACE, "tag 1 code 1 kind 2 extent 1 len 24"),
    ("Tagged parts", 0, "reduce_at_apart", BEHIND_PLACE, "tag 4 code 0 kind 0 extent 0 len 8"),
    ("Tagged parts", 0, "reduce_claim", BEHIND_SPEC, "tag 5 code 0 kind 0 extent 0 len 16"),
    ("STORE (10)", 0, "store", BODY, "dtype 3 flags 1 name_len 7 ttl_ms 1500 bytes 1024"),
    ("STORE (10)", 1, "store_shaped", BODY + 17, "dims 3 order 1"),
    ("WRITE (11)", 0, "write", BODY, f"handle {2**63 + 2} offset 2"),
    ("WRITE_AT (12)", 0, "write_at", BODY, f"from {2**63 + 1} from_offset 128 length 1018"),
    ("LIST (14)", 0, "listed", BODY, f"handle {2**63 + 2} bytes 1024 age_ms 500 left_ms 1000 uses 1 dtype 3 name_len 7 dims 0 order 0"),
    ("LIST (14)", 0, "listed_placed", BODY + 41, f"handle 8 bytes 16 age_ms 0 left_ms {NO_END} uses 0 dtype 12 name_len 1 dims 1 order 20"),
    ("Errors", 0, "error_overflow", BODY, f"limit 0 index 4 value {2**127} field_len 3 text_len 24"),
    ("Errors", 0, "error_busy", BODY, f"limit 64 index {NO_END} value 0 field_len 8 text_len 25"),
])
def test_the_golden_messages_read_by_the_pages_tables(section, number, name, at, expected):
    """Every field of a table lies where the golden message has it, and reserved bytes are zero."""
    data = {n: m for n, _, m in generate.messages()}[name]
    got = {}
    for offset, size, field in table(section, number):
        value = int.from_bytes(data[at + offset : at + offset + size], "little")
        assert at + offset + size <= len(data) and (field != "reserved" or value == 0)
        got[field] = value
    got.pop("reserved", None)
    words = expected.split()
    assert got == dict(zip(words[::2], map(int, words[1::2])))


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
