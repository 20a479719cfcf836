"""Resident data: arrays that stay with the daemon, over the wire by PROTOCOL.md alone, through libreduce and by reducectl."""
import ctypes
import json
import os
import random
import signal
import struct
import subprocess
import threading
import time

import libreduce
import numpy as np
import pytest
import rawclient

from conftest import BIN, exits_when_idle, select_a_moment
from oracle import SIZE
from rawclient import (COLUMNS, COMMIT, HELLO, LIST, MASK, MAX_DATA, OFFSETS, REDUCE_AT, STATES_OUT, STORE, WRITE, WRITE_AT, Fault,
                       spec, store)
from relay import Relay
from sideclient import Side

PATH_RESIDENT = 5
NO_END = 2**64 - 1
SEED = 20261121
MIB = 1 << 20


def wait_until(daemon, what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end and daemon.process.poll() is None, "it does not come to be"
        select_a_moment(daemon.process)


def emptied(daemon):
    status = daemon.status()
    return status["resident.arrays"] == 0 and status["resident.bytes"] == 0


@pytest.fixture
def clean(shared):
    """The shared daemon; the test must leave nothing there."""
    yield shared
    with shared.connect() as c:
        left = [x.name for x in c.list()]
        for name in left:
            c.drop(name)
    wait_until(shared, lambda: emptied(shared))
    assert not left


def refused(code, field, call, *args, **kw):
    with pytest.raises(Fault) as e:
        call(*args, **kw)
    assert (e.value.code, e.value.field) == (code, field), e.value
    return e.value


def noise(size, seed=SEED):
    return random.Random(seed).randbytes(size)


def some_file(folder, data):
    (folder / "data").write_bytes(data)
    return os.open(folder / "data", os.O_RDONLY)


# ---- what it is for ----
@pytest.mark.same_threads
@pytest.mark.parametrize("dtype", ["i8", "u16", "i32", "u64", "f16", "bf16", "f32", "f64"])
def test_same_bits_as_from_messages(clean, dtype):
    rows, columns = 60, 77
    size = SIZE[dtype]
    data = noise(rows * columns * size)
    with clean.connect() as c, clean.connect() as other:
        handle = c.put("m.1", dtype, data)
        for op, kw in (("sum", {}), ("stats", {}), ("var", {"ddof": 1}), ("prod", {}), ("argmin", {"index_base": 1000}), ("max", {"rows": rows}),
                       ("mean", {"rows": rows, "flags": COLUMNS, "row_len": columns}), ("norm2", {"flags": STATES_OUT, "rows": 2}),
                       ("count_nan", {"initial": 1}), ("minmax", {"rows": rows, "flags": COLUMNS, "row_len": columns})):
            kw = {"flags": 0, "nan": "omit", "out": "f32" if op == "mean" else 0, **kw}
            want = outcome(c.reduce, op, dtype, data, **kw)
            assert outcome(other.reduce_at, op, dtype, handle, 0, len(data), **kw) == want
        result = other.reduce_at("count", dtype, handle, 0, len(data))
        assert (result.path, result.copy_ns, result.count) == (PATH_RESIDENT, 0, rows * columns)
        for first, n in ((0, 1), (1, 76), (100, 0), (rows * columns, 0), (7, rows * columns - 7)):
            want = outcome(c.reduce, "argmax", dtype, data[first * size : (first + n) * size])
            assert outcome(c.reduce_at, "argmax", dtype, handle, first * size, n * size) == want
        c.drop("m.1")


def outcome(call, *args, **kw):
    """The cells, or the error."""
    try:
        return call(*args, **kw).cells
    except Fault as e:
        return e.code, e.field, e.index, e.value


def test_an_array_larger_than_a_message_in_one_request(clean):
    a = np.random.default_rng(SEED).standard_normal(3 * MIB + 1)
    with clean.connect() as c:
        handle = c.store("large", "f64", a.nbytes)
        pieces = list(range(0, a.nbytes, MAX_DATA))
        random.Random(SEED).shuffle(pieces)
        sent = [c.send(WRITE, struct.pack("<QQ", handle, at) + a.tobytes()[at : at + MAX_DATA]) for at in pieces]
        totals = [struct.unpack("<Q", c.wait(s))[0] for s in sent]
        assert max(totals) == a.nbytes
        c.commit(handle)
        import math
        assert struct.unpack("<d", c.reduce_at("sum", "f64", handle, 0, a.nbytes).cells[0])[0] == math.fsum(a.tolist())
        c.drop("large")


def test_bytes_from_files_and_arenas(clean, scratch):
    data = noise(3 * MIB)
    fd = some_file(scratch, b"#" * 10 + data[: 2 * MIB])
    with clean.connect() as c, Side(c) as side:
        file, _ = side.file(fd)
        arena, memory = side.arena(MIB + 100)  # in whole pages
        memory[100 : MIB + 100] = data[2 * MIB :]
        handle = c.store("x", "u8", len(data))
        e = refused("IO", "file", c.write_at, handle, MIB, file, 11 + MIB, MIB)  # one byte too many: nothing has come
        assert e.limit == MIB - 1
        assert c.write_at(handle, MIB, file, 10 + MIB, MIB) == MIB
        assert c.write_at(handle, 2 * MIB, arena, 100, MIB) == 2 * MIB
        assert c.write(handle, 0, data[:5]) == 2 * MIB + 5
        assert c.write_at(handle, 5, file, 15, MIB - 5) == 3 * MIB
        c.commit(handle)
        assert c.reduce_at("stats", "u8", handle, 0, len(data)).cells == c.reduce("stats", "u8", data).cells
        for source, begin, length, code, field in ((file ^ 1, 0, 1, "BAD_HANDLE", "from"), (handle, 0, 1, "BAD_HANDLE", "from"),
                                                   (arena, 0, MAX_DATA + 1, "TOO_LARGE", "length"), (arena, MIB, 5000, "SHAPE", "offset"),
                                                   (file, 2**63, 1, "SHAPE", "offset"), (arena, 2**64 - 1, 1, "SHAPE", "offset")):
            half = c.store("y", "u8", 2 * MAX_DATA)
            refused(code, field, c.write_at, half, 0, source, begin, length)
            c.abort(half)
        c.drop("x")
        memory.close()
    os.close(fd)


# ---- from STORE to COMMIT ----
def test_what_store_refuses(clean):
    with clean.connect() as c, clean.connect(tcp=True) as far:
        for name in ("", "-a", ".a", "a b", "a/b", "ä", "a\0"):
            refused("BAD_MESSAGE", "name", c.store, name, "f32", 4)
        assert refused("TOO_LARGE", "name_len", c.store, "x" * 65, "f32", 4).limit == 64
        assert refused("TOO_LARGE", "ttl_ms", c.store, "x", "f32", 4, ttl_ms=2**31).limit == 2**31 - 1
        refused("TYPE", "dtype", c.store, "x", 14, 4)
        for size in (0, 3, 2**64 - 1):
            assert refused("SHAPE", "bytes", c.store, "x", "f32", size).limit == 4
        cap = c.query(2)["resident.user_cap"]
        assert refused("TOO_LARGE", "bytes", c.store, "x", "u8", cap + 1).limit == cap
        refused("TOO_LARGE", "bytes", c.store, "x", "u8", 2**64 - 1)
        refused("BAD_MESSAGE", "flags", c.call, STORE, store("x", "f32", 4, replace=128))
        for call, args in ((far.store, ("x", "f32", 4)), (far.list, ()), (far.list, ("x",)), (far.drop, ("x",))):
            refused("AUTH", "user", call, *args)
        handle = c.put("x" * 64, "f32", bytes(4))
        refused("BAD_HANDLE", "handle", far.reduce_at, "sum", "f32", handle, 0, 4)
        c.drop("x" * 64)


def test_what_write_refuses(clean):
    with clean.connect() as c, clean.connect() as other:
        handle = c.store("x", "u16", 1000)
        for stranger, h in ((c, 0), (c, handle ^ 1), (other, handle)):
            refused("BAD_HANDLE", "handle", stranger.write, h, 0, b"ab")
            refused("BAD_HANDLE", "handle", stranger.commit, h)
            refused("BAD_HANDLE", "stream", stranger.abort, h)
        refused("BAD_HANDLE", "handle", c.reduce_at, "sum", "u16", handle, 0, 1000)  # not yet
        assert refused("BAD_HANDLE", "name", c.list, "x").args[0].endswith("no resident data named 'x'")
        refused("SHAPE", "data", c.write, handle, 0, b"")
        for at, n in ((1000, 1), (999, 2), (0, 1001), (2**64 - 1, 1), (2**63, 1)):
            assert refused("SHAPE", "offset", c.write, handle, at, bytes(n)).limit == 1000
        assert c.write(handle, 500, bytes(100)) == 100
        for at, n, first in ((500, 100, 500), (450, 60, 500), (599, 1, 599), (0, 1000, 500)):
            assert refused("SHAPE", "offset", c.write, handle, at, bytes(n)).index == first
        assert refused("SHAPE", "bytes", c.commit, handle).index == 0
        for at in range(0, 126, 2):
            c.write(handle, at, b"a")
        assert refused("QUOTA", "extents", c.write, handle, 200, b"a").limit == 64
        for at in range(1, 126, 2):
            c.write(handle, at, b"a")
        assert refused("SHAPE", "bytes", c.commit, handle).index == 126
        c.write(handle, 126, bytes(374))
        c.write(handle, 600, bytes(400))
        c.commit(handle)
        for call, *args in ((c.commit, handle), (c.write, handle, 0, b"a")):
            refused("BAD_HANDLE", "handle", call, *args)
        refused("BAD_HANDLE", "stream", c.abort, handle)
        assert c.reduce_at("sum", "u16", handle, 0, 1000).cells == c.reduce("sum", "u16", b"a" * 126 + bytes(874)).cells
        c.drop("x")


def test_what_a_reduction_of_it_refuses(clean):
    with clean.connect() as c:
        handle = c.put("x", "f32", bytes(400))
        refused("TYPE", "dtype", c.reduce_at, "sum", "i32", handle, 0, 400)
        for at, n, limit in ((0, 404, 400), (400, 4, 400), (2**64 - 4, 8, 400), (2, 4, 4)):
            assert refused("SHAPE", "offset", c.reduce_at, "sum", "f32", handle, at, n).limit == limit
        refused("SHAPE", "data", c.reduce_at, "sum", "f32", handle, 0, 399, row_len=99)
        refused("SHAPE", "row_len", c.reduce_at, "sum", "f32", handle, 0, 400, row_len=99)
        refused("BAD_MESSAGE", "flags", c.reduce_at, "sum", "f32", handle, 0, 400, flags=MASK, row_len=80)
        refused("BAD_MESSAGE", "flags", c.reduce_at, "sum", "f32", handle, 0, 400, flags=OFFSETS, row_len=80)
        c.drop("x")
        refused("BAD_HANDLE", "handle", c.reduce_at, "sum", "f32", handle, 0, 400)
        refused("BAD_HANDLE", "name", c.drop, "x")


def test_a_name_is_taken_only_by_those_who_ask_to_replace(clean):
    with clean.connect() as c, clean.connect() as other:
        first = c.store("x", "u8", 8)
        second = other.store("x", "u8", 8)  # the first COMMIT gets the name
        for conn, h in ((c, first), (other, second)):
            conn.write(h, 0, struct.pack("<Q", h))
        c.commit(first)
        refused("EXISTS", "name", other.commit, second)
        refused("EXISTS", "name", other.store, "x", "u8", 8)
        third = other.store("x", "i32", 4, replace=True)
        other.write(third, 0, struct.pack("<i", -7))
        assert [x.handle for x in c.list()] == [first]  # until COMMIT nothing has changed
        other.commit(third)
        assert [(x.handle, x.bytes, x.dtype) for x in c.list("x")] == [(third, 4, 5)]
        assert c.reduce_at("sum", "i32", third, 0, 4).cells == [struct.pack("<q", -7)]
        refused("BAD_HANDLE", "handle", c.reduce_at, "sum", "u8", first, 0, 8)
        c.drop("x")
        other.commit(second)  # the name is free again
        assert c.list("x")[0].handle == second
        c.drop("x")


def test_what_is_half_done_goes_with_its_session_or_abort(clean):
    with clean.connect() as c:
        left = clean.connect()
        handle = left.store("x", "u8", 2 * MIB)
        left.write(handle, 0, bytes(MIB))
        assert c.query(2)["resident.bytes"] == 2 * MIB and c.list() == []
        left.close()
        wait_until(clean, lambda: emptied(clean))
        handle = c.store("x", "u8", 2 * MIB)
        c.write(handle, 0, bytes(MIB))
        c.abort(handle)
        refused("BAD_HANDLE", "handle", c.write, handle, MIB, bytes(MIB))
        wait_until(clean, lambda: emptied(clean))


def test_dying_in_the_middle_of_a_put_leaves_nothing(clean, scratch):
    """A request of every kind under way as the connection goes, again and again."""
    fd = some_file(scratch, noise(8 * MIB))
    for i in range(80):
        with clean.connect() as c, Side(c) as side:
            file, _ = side.file(fd)
            handle = c.store("x", "u8", 4 * MIB, replace=True)
            c.write_at(handle, 0, file, 0, i % 4 * MIB + 1)
            rest = i % 4 * MIB + 1, 4 * MIB - i % 4 * MIB - 1
            if i % 5 == 4:
                c.write_at(handle, rest[0], file, *rest)
            kind, body = ((WRITE, struct.pack("<QQ", handle, rest[0]) + bytes(rest[1])),
                          (WRITE_AT, struct.pack("<QQQQQ", handle, rest[0], file, *rest)),
                          (STORE, store("y", "u8", 8 * MIB)),
                          (REDUCE_AT, spec("sum", "u8", row_len=rest[1]) + struct.pack("<QQQ", file, *rest)),
                          (COMMIT, struct.pack("<Q", handle)))[i % 5]
            c.send(kind, body)
    with clean.connect() as c:
        wait_until(clean, lambda: c.query(2)["sessions"] == 1)  # the last of those connections may have things to say yet
        for x in c.list():  # a COMMIT may have come through
            c.drop(x.name)
    os.close(fd)


# ---- their end ----
def test_dropped_in_use_it_goes_when_the_last_reduction_is_back(start):
    daemon = start("--threads", 1)
    data = noise(6 * MIB)
    with daemon.connect() as c:
        c.put("x", "u8", data[:1])
        handle = c.put("y", "f32", data)
        want = c.reduce_at("stats", "f32", handle, 0, len(data)).cells
        sent = [c.send(REDUCE_AT, spec("stats", "f32", row_len=len(data) // 4) + struct.pack("<QQQ", handle, 0, len(data))) for _ in range(10)]
        answers = [c.wait(sent[0])[48:]]
        c.drop("y")
        assert [x.name for x in c.list()] == ["x"]
        refused("BAD_HANDLE", "handle", c.reduce_at, "stats", "f32", handle, 0, len(data))
        for s in sent[1:]:
            try:
                answers.append(c.wait(s)[48:])
            except Fault as e:
                assert e.code == "BAD_HANDLE"  # nng may hand on requests in another order
        assert set(answers) == {want[0]}
        wait_until(daemon, lambda: daemon.status()["resident.arrays"] == 1)
        assert daemon.status()["resident.bytes"] == 1


def test_replaced_while_others_reduce_it(clean):
    """Each answer is that of one array as it was put; a dropped array is reported as such."""
    n, rounds, readers = 20_000, 40, 3
    wrong, over = [], threading.Event()

    def read():
        with clean.connect() as c:
            while not over.is_set():
                try:
                    (total,) = struct.unpack("<Q", c.reduce_at("sum", "u64", c.list("x")[0].handle, 0, 8 * n).cells[0])
                except Fault as e:
                    if e.code != "BAD_HANDLE":
                        wrong.append(e)
                    continue
                if total % n or not 0 < total // n <= rounds:
                    wrong.append(total)

    with clean.connect() as c:
        c.put("x", "u64", np.full(n, 1, "u8").tobytes())
        threads = [threading.Thread(target=read) for _ in range(readers)]
        for t in threads:
            t.start()
        for k in range(2, rounds + 1):
            c.put("x", "u64", np.full(n, k, "u8").tobytes(), replace=True)
        over.set()
        for t in threads:
            t.join()
        c.drop("x")
    assert not wrong


def test_time_to_live(clean):
    with clean.connect() as c:
        c.put("long", "u8", b"1", ttl_ms=2**31 - 1)
        c.put("ever", "u8", b"1")
        handle = c.put("short", "u8", b"1", ttl_ms=1)
        wait_until(clean, lambda: {x.name for x in c.list()} == {"long", "ever"})
        refused("BAD_HANDLE", "name", c.list, "short")
        refused("BAD_HANDLE", "handle", c.reduce_at, "sum", "u8", handle, 0, 1)
        assert 0 < c.list("long")[0].left_ms < 2**31 and c.list("ever")[0].left_ms == NO_END
        c.put("short", "u8", b"2")  # its name is free
        wait_until(clean, lambda: c.query(2)["resident.arrays"] == 3)
        for x in c.list():
            c.drop(x.name)


@pytest.mark.same_threads(threads_elsewhere=True)
def test_put_says_what_it_did_if_asked(clean, ctl, scratch):
    np.save(scratch / "a.npy", np.arange(4, dtype="f4"))
    quiet = ctl("put", "x", scratch / "a.npy", url=clean.url)
    told = ctl("put", "x", scratch / "a.npy", "--replace", "--verbose", url=clean.url)
    assert (quiet.returncode, quiet.stderr) == (0, b"") and b"x: 4 x f32" in told.stderr
    assert ctl("drop", "x", url=clean.url).returncode == 0


def test_expired_data_are_not_in_the_way_of_a_commit(clean):
    """They had the name while the others were written. Once a second they go by themselves, so some of the tries meet them."""
    with clean.connect() as c, clean.connect() as other:
        for n in range(3):
            handle = c.store(f"x{n}", "u8", 1)
            c.write(handle, 0, b"2")
            other.put(f"x{n}", "u8", b"1", ttl_ms=1)
            expired = time.monotonic() + 0.01
            while time.monotonic() < expired:
                c.ping(b"still here")
            c.commit(handle)
            c.drop(f"x{n}")


def test_expired_data_go_without_anybody_asking(clean):
    with clean.connect() as c:
        c.put("short", "u8", bytes(MIB), ttl_ms=50)
        wait_until(clean, lambda: c.query(2)["resident.bytes"] == 0)


@pytest.mark.same_threads(threads_elsewhere=True)
def test_data_keep_an_idle_daemon_alive(start, scratch):
    with exits_when_idle(start, scratch) as (daemon, c):
        begun = time.monotonic()
        c.put("x", "u8", b"1", ttl_ms=2500)
    assert daemon.process.wait(60) == 0 and time.monotonic() - begun >= 2.5


def test_nothing_outlives_the_daemon(start):
    daemon = start()
    with daemon.connect() as c:
        handle = c.put("x", "u8", bytes(MIB))
        c.store("y", "u8", MIB)  # does not hold up the end
        daemon.stop()
    daemon = start()
    with daemon.connect() as c:
        assert c.list() == []
        refused("BAD_HANDLE", "handle", c.reduce_at, "sum", "u8", handle, 0, 1)


# ---- quotas and users ----
@pytest.mark.same_threads(threads_elsewhere=True)
def test_quotas_of_bytes(start):
    daemon = start("--resident", 4, "--resident-user", 3)
    with daemon.connect() as c:
        status = c.query(2)
        assert (status["resident.cap"], status["resident.user_cap"]) == (4 * MIB, 3 * MIB)
        assert refused("TOO_LARGE", "bytes", c.store, "x", "u8", 3 * MIB + 1).limit == 3 * MIB
        c.put("x", "u8", bytes(2 * MIB))
        assert refused("QUOTA", "resident", c.store, "y", "u8", MIB + 1).limit == 3 * MIB
        assert refused("QUOTA", "resident", c.store, "x", "u8", 2 * MIB, replace=True).limit == 3 * MIB  # both are there for a while
        half = c.store("y", "u8", MIB)
        refused("QUOTA", "resident", c.store, "z", "u8", 1)
        c.abort(half)
        c.drop("x")
        wait_until(daemon, lambda: c.query(2)["resident.bytes"] == 0)
        c.put("z", "u8", bytes(3 * MIB))
    daemon.stop()
    daemon = start("--resident", 2, "--resident-user", 3)
    with daemon.connect() as c:
        assert refused("QUOTA", "resident", c.store, "x", "u8", 2 * MIB + 1).limit == 2 * MIB
        c.put("x", "u8", bytes(2 * MIB))


def test_a_store_takes_room_like_any_request(start):
    """It waits for memory, with its exchange: above the caps it is BUSY."""
    daemon = start("--max-inflight", 1)
    with daemon.connect() as c:
        daemon.process.send_signal(signal.SIGSTOP)  # so that they come together
        sent = [c.send(STORE, store(f"x{i}", "u8", 4096)) for i in range(60)]
        daemon.process.send_signal(signal.SIGCONT)
        met = []
        for s in sent:
            try:
                c.wait(s)
                met.append("OK")
            except Fault as e:
                met.append(f"{e.code} {e.field} {e.limit}")
        assert set(met) == {"OK", "BUSY inflight 1"}


@pytest.mark.same_threads(threads_elsewhere=True)
def test_quota_of_arrays(clean):
    with clean.connect() as c:
        handles = [c.store(f"n{i}", "u8", 1) for i in range(1024)]
        assert refused("QUOTA", "residents", c.store, "more", "u8", 1).limit == 1024
        for h in handles:
            c.write(h, 0, b"\1")
            c.commit(h)
        assert sorted(x.name for x in c.list()) == sorted(f"n{i}" for i in range(1024))
        for i in range(1024):
            c.drop(f"n{i}")


# ---- libreduce ----
AUTO, INLINE, STREAM, SHM, FILE = range(5)


@pytest.fixture
def lib(clean):
    with libreduce.Client(clean.url) as c:
        yield c


def address(data):
    return ctypes.addressof(ctypes.c_char.from_buffer(data))


def fails(code, call, *args, **kw):
    with pytest.raises(libreduce.Fault) as e:
        call(*args, **kw)
    assert e.value.code == code, e.value
    return e.value


def test_put_by_every_path(lib, clean, scratch):
    data = bytearray(noise(14 * MIB + 8))
    fd = some_file(scratch, b"#" * 64 + data)
    memory = lib.alloc(len(data))
    ctypes.memmove(memory, address(data), len(data))
    want = lib.run_at("stats", "f64", address(data), len(data), nan="omit")[0]
    ways = [(lib.put, [where], path) for where in (address(data), memory) for path in (AUTO, INLINE, SHM)]
    ways += [(lib.put_file, [fd, 64], path) for path in (AUTO, INLINE, SHM, FILE)]
    with clean.connect() as c:
        for put, where, path in ways:
            before = c.query(2)
            put("x", "f64", *where, len(data), replace=True, path=path)
            got, result = lib.named("stats", "f64", "x", nan="omit")
            assert got == want and result.path == PATH_RESIDENT and result.count == len(data) // 8
            after = c.query(2)
            assert (after["requests.write"] > before["requests.write"]) == (path == INLINE)
            assert (after["requests.write_at"] > before["requests.write_at"]) == (path != INLINE)
    for path in (STREAM, FILE):
        assert fails("ARGUMENT", lib.put, "y", "f64", address(data), len(data), path=path).field == "path"
    assert [x[1:] for x in lib.list()] == [(12, len(data))] and lib.find("x").bytes == len(data)
    lib.drop("x")
    lib.free(memory)
    os.close(fd)


@pytest.mark.same_threads(threads_elsewhere=True)
def test_shapes_of_named_data(lib):
    a = np.random.default_rng(SEED).integers(-1000, 1000, (3000, 700)).astype("i4")
    data = bytearray(a.tobytes())
    lib.put("m", "i32", address(data), len(data))
    for kw in ({"rows": 3000}, {"rows": 3000, "flags": libreduce.COLUMNS}, {"rows": 300, "index_base": 5}, {"initial": b"\7\0\0\0"}, {"nan": "error"}):
        for op in ("sum", "argmax", "minmax", "var"):
            want = lib.run_at(op, "i32", address(data), len(data), **kw)[0]
            assert lib.named(op, "i32", "m", room_for=len(data), **kw)[0] == want
    for first, n in ((0, 0), (1, 1), (699, 701), (2099999, 1)):
        assert lib.named("sum", "i32", "m", 4 * first, 4 * n)[0] == a.reshape(-1)[first : first + n].sum(dtype="i8").tobytes()
    assert lib.named("sum", "i32", "m", 4 * 2099990)[0] == a.reshape(-1)[-10:].sum(dtype="i8").tobytes()
    # more rows than one reply has room for go in several requests
    lib.put("s", "i8", address(data), len(data))
    assert lib.named("sum", "i8", "s", rows=len(data) // 4)[0] == np.frombuffer(data, "i1").reshape(-1, 4).sum(axis=1, dtype="i8").tobytes()
    # more columns go into shared memory
    for op, planes in (("sum", 1), ("argmax", 2), ("minmax", 3)):
        columns = len(data) // 2 // planes
        got, info = lib.named(op, "i8", "s", rows=2, planes=planes, flags=libreduce.COLUMNS, room_for=len(data))
        assert got == lib.run_at(op, "i8", address(data), len(data), rows=2, planes=planes, flags=libreduce.COLUMNS)[0] and len(got) > MAX_DATA
        assert (info.path, info.cells) == (PATH_RESIDENT, columns * planes)
    runs = {"rows": 700_000, "planes": 3}
    assert lib.named("stats", "i8", "s", **runs)[0] == lib.run_at("stats", "i8", address(data), len(data), **runs)[0]
    assert fails("TYPE", lib.named, "sum", "i32", "s").field == "dtype"
    assert fails("SHAPE", lib.named, "sum", "i32", "m", 2, 4).field == "offset"
    assert fails("SHAPE", lib.named, "sum", "i32", "m", len(data), 4).field == "offset"
    assert fails("SHAPE", lib.named, "sum", "i32", "m", rows=11).field == "rows"
    fails("ARGUMENT", lib.named, "sum", "i32", "m", mask=bytes(a.size))
    fails("ARGUMENT", lib.named, "sum", "i32", "m", path=SHM)
    lib.drop("m")
    lib.drop("s")


def test_errors_name_the_name(lib, clean):
    data = bytearray(noise(2 * MIB))
    for call, args in ((lib.find, ("no.such",)), (lib.drop, ("no.such",)), (lib.named, ("sum", "f32", "no.such"))):
        e = fails("BAD_HANDLE", call, *args)
        assert e.field == "name" and "'no.such'" in e.text
    for name in ("", "-x", "a b"):
        assert fails("BAD_MESSAGE", lib.put, name, "u8", address(data), 8).field == "name"
    assert fails("TOO_LARGE", lib.put, "x" * 65, "u8", address(data), 8).limit == 64
    lib.put("x", "u8", address(data), len(data))
    want = lib.named("sum", "u8", "x")[0]
    assert "'x'" in fails("EXISTS", lib.put, "x", "u8", address(data), 8).text
    fails("SHAPE", lib.put, "y", "f64", address(data), 9)
    fails("SHAPE", lib.put, "y", "f64", address(data), 0)
    fails("TOO_LARGE", lib.put, "y", "u8", address(data), 8, ttl_ms=2**31)
    fails("IO", lib.put_file, "y", "u8", os.open("/dev/zero", os.O_RDONLY), 0, 8)
    with clean.connect() as other:  # what the library remembers of a name may be of the past
        other.put("x", "u8", b"\1\2", replace=True)
        assert lib.named("sum", "u8", "x")[0] == struct.pack("<Q", 3) != want
        other.drop("x")
        assert "'x'" in fails("BAD_HANDLE", lib.named, "sum", "u8", "x").text


def test_a_put_that_fails_leaves_nothing(lib, clean, scratch):
    data = bytearray(noise(9 * MIB))
    fd = some_file(scratch, data)
    os.truncate(scratch / "data", 5 * MIB)
    for path in (FILE, SHM, INLINE):
        assert fails("IO", lib.put_file, "x", "u8", fd, 0, len(data), path=path).field == "file"
    seen = set()
    for ms in range(1, 6):
        try:
            lib.put("x", "u8", address(data), len(data), deadline_ms=ms, replace=True)
            seen.add("OK")
        except libreduce.Fault as e:
            seen.add(e.code)
    assert seen <= {"OK", "DEADLINE"}
    if "OK" in seen:
        lib.drop("x")
    wait_until(clean, lambda: emptied(clean))
    os.close(fd)


@pytest.mark.parametrize("begun", ["store", "begin"])
def test_what_begins_after_the_deadline_is_undone(lib, clean, begun):
    """STORE and BEGIN wait in front of a stopped daemon until nobody waits for their handles any more."""
    data = bytearray(noise(2 * MIB))
    before, ms = clean.status()["requests." + begun], 25
    while clean.status()["requests." + begun] == before:
        ms *= 2  # on a busy machine a deadline may pass before anything is sent
        assert ms < 30_000, "it never came"
        clean.process.send_signal(signal.SIGSTOP)
        try:
            if begun == "store":
                fails("DEADLINE", lib.put, "x", "u8", address(data), len(data), deadline_ms=ms)
            else:
                fails("DEADLINE", lib.stream, "sum", "u8", [bytes(data)], deadline_ms=ms)
        finally:
            clean.process.send_signal(signal.SIGCONT)
        assert lib.lib.reduce_ping(lib.handle, None) == 0  # what was sent before is taken up
    wait_until(clean, lambda: emptied(clean) and clean.status()["streams"] == 0)


def test_a_put_outlives_a_restart(start):
    """The daemon is killed once a put is on its way: the put begins again with the next one."""
    data = bytearray(noise(48 * MIB))
    daemons = [start()]

    def restart():
        old = daemons[-1]
        wait_until(old, lambda: old.status()["requests.write_at"] > 0)
        old.kill()
        daemons.append(start())

    with libreduce.Client(daemons[0].url) as c:
        want = c.run_at("stats", "u8", address(data), len(data))[0]
        c.put("before", "u8", address(data), 8, path=INLINE)
        for _ in range(3):
            thread = threading.Thread(target=restart)
            thread.start()
            c.put("x", "u8", address(data), len(data), replace=True)
            thread.join()
            try:
                assert c.named("stats", "u8", "x")[0] == want
            except libreduce.Fault as e:  # the daemon went after the put
                assert e.code == "BAD_HANDLE"
        assert "before" not in [x[0] for x in c.list()]


# ---- reducectl, also with sanitizers ----
def test_shapes_are_kept(clean, scratch):
    """For readers of this version; for those of version 1 nothing has changed."""
    with clean.connect() as c, libreduce.Client(clean.url) as lib:
        c.put("f", "f32", bytes(96), shape=(2, 3, 4), order=1)
        c.put("plain", "f32", bytes(96))
        lib.put("c", "i16", np.zeros(30, "<i2").ctypes.data, 60, shape=(5, 1, 6))
        assert {x.name: (x.shape, x.order) for x in c.list()} == {"f": ((2, 3, 4), 1), "plain": ((), 0), "c": ((5, 1, 6), 0)}
        for name, shape, order in (("f", [2, 3, 4], 1), ("plain", [], 0), ("c", [5, 1, 6], 0)):
            r = lib.find(name)
            assert (list(r.shape[: r.dims]), r.order) == (shape, order)
        old = c.call(LIST, b"", version=1)
        assert len(old) == 3 * 40 + 1 + 5 + 1 and all(x.shape == () for x in rawclient.parse_residents(old))
        for shape, code, field in (((2, 3, 5), "SHAPE", "shape"), ((0, 2), "SHAPE", "shape"), ((2**63, 2, 24), "SHAPE", "shape"), ((1,) * 17, "ARGUMENT", "dims")):
            with pytest.raises(libreduce.Fault) as caught:
                lib.put("bad", "f32", 1, 96, shape=shape)
            assert (caught.value.code, caught.value.field) == (code, field)
        with pytest.raises(libreduce.Fault) as caught:
            lib.put("bad", "f32", 1, 96, shape=(24,), order=2)
        assert (caught.value.code, caught.value.field) == ("ARGUMENT", "order")
    with Relay(scratch / "relay", clean.url, 4 << 20, 1 << 20, version=1) as relay, libreduce.Client(relay.url) as lib:
        lib.put("old", "i16", np.zeros(30, "<i2").ctypes.data, 60, shape=(5, 6))
        assert lib.find("old").dims == lib.find("f").dims == 0, "an earlier daemon keeps none"
        for name in ("old", "f", "plain", "c"):
            lib.drop(name)


@pytest.mark.same_threads(threads_elsewhere=True)
@pytest.mark.parametrize("order", ["C", "F"])
def test_reducectl_reduces_axes_of_resident_data(clean, ctl, scratch, order):
    rng = np.random.default_rng(SEED)
    a = np.asarray(rng.integers(-9, 9, (4, 3, 1, 7, 2)).astype("<i4"), order=order)
    np.save(scratch / "cube.npy", a)
    assert ctl("put", "cube", scratch / "cube.npy", "--replace", url=clean.url).returncode == 0
    listed = json.loads(ctl("ls", "--json", url=clean.url).stdout)
    assert (listed["shape"], listed["order"]) == ([4, 3, 1, 7, 2], order)
    assert f"4x3x1x7x2{' F' if order == 'F' else ''}" in ctl("ls", url=clean.url).stdout.decode()
    for op in ("sum", "argmax", "stats"):
        for axes in ([], ["--axis", "0"], ["--axis", "-1"], ["--axis", "1,3"], ["--axis", "0,4"], ["--axis", "0,1,2,3,4"]):
            got, want = (ctl(op, *axes, x, url=clean.url) for x in ("@cube", scratch / "cube.npy"))
            assert got.returncode == 0 and got.stdout == want.stdout, (op, axes, got.stderr)
    assert ctl("drop", "cube", url=clean.url).returncode == 0


@pytest.mark.same_threads(threads_elsewhere=True)
def test_reducectl_put_ls_and_reduce(clean, ctl, scratch):
    url = clean.url
    a = np.random.default_rng(SEED).standard_normal((1500, 400))
    np.save(scratch / "a.npy", a)
    for args in ([], ["--path", "inline"], ["--path", "shm", "--ttl", "3600"], ["--path", "file"]):
        done = ctl("put", "a", scratch / "a.npy", "--replace", "-v", *args, url=url)
        assert (done.returncode, done.stdout) == (0, b"") and b"a: 600000 x f64" in done.stderr, done.stderr
        for op in (["sum"], ["stats"], ["argmax", "--rows", "1500"], ["var", "--rows", "1500", "--axis", "0"], ["norm2", "--hex"], ["min", "--initial", "-9"]):
            want, got = (ctl(*op, "--json", x, url=url) if "--hex" not in op else ctl(*op, x, url=url) for x in (scratch / "a.npy", "@a"))
            assert got.returncode == 0, got.stderr
            if "--hex" in op:
                assert got.stdout == want.stdout
                continue
            lines = [[json.loads(line) for line in out.stdout.splitlines()] for out in (want, got)]
            assert [x["value"] for x in lines[0]] == [x["value"] for x in lines[1]]
            assert {x["path"] for x in lines[1]} == {"resident"} and {x["file"] for x in lines[1]} == {"@a"}
    assert ctl("sum", "--partial", "@a", url=url).stdout == ctl("sum", "--partial", scratch / "a.npy", url=url).stdout
    assert ctl("put", "b", "-t", "i16", stdin=struct.pack("<3h", 1, 2, -4), url=url).returncode == 0
    assert ctl("put", "c", "--text", "-", stdin=b"1 2.5\n-3", url=url).returncode == 0
    assert ctl("max", "@b", "@c", url=url).stdout == b"2  @b\n2.5  @c\n"
    rows = [line.split() for line in ctl("ls", url=url).stdout.decode().splitlines()]
    assert [(r[0], r[1], r[2], r[3]) for r in rows[1:]] == [("a", "f64", "600000", "4800000"), ("b", "i16", "3", "6"), ("c", "f64", "3", "24")]
    listed = [json.loads(line) for line in ctl("ls", "--json", url=url).stdout.splitlines()]
    assert [(x["name"], x["count"], x["left_ms"]) for x in listed] == [("a", 600000, None), ("b", 3, None), ("c", 3, None)]
    assert b"resident, 3 x i16" in ctl("sum", "-v", "@b", url=url).stderr
    assert ctl("drop", "a", "b", "c", url=url).returncode == 0
    assert ctl("ls", url=url).stdout == b""


def test_reducectl_looks_an_array_up_once(clean, ctl, scratch):
    ctl("put", "m", "-t", "f32", stdin=struct.pack("<2f", 1, 2.5), url=clean.url)
    with Relay(scratch / "relay", clean.url, 1 << 20, 1 << 20) as relay:
        assert ctl("sum", "@m", url=relay.url).stdout == b"3.5\n"
        assert relay.kinds == [HELLO, LIST, REDUCE_AT]
    assert ctl("drop", "m", url=clean.url).returncode == 0


def test_reducectl_says_what_is_wrong(clean, ctl, scratch):
    url = clean.url
    np.save(scratch / "f.npy", np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    (scratch / "odd").write_bytes(b"12345")
    (scratch / "cut").write_bytes((scratch / "f.npy").read_bytes()[:40])
    ctl("put", "x", "-t", "f32", stdin=bytes(8), url=url)
    for args, code, text in ((["put", "x", "-t", "f32", "-"], 1, b"x: EXISTS: there are resident data named 'x'"),
                             (["put", "y", scratch / "cut"], 1, b"cut: IO: the .npy header is cut"),
                             (["put", "y", "-t", "f32", scratch / "odd"], 1, b"odd: SHAPE"), (["put", "y", scratch / "none"], 1, b"none: IO"),
                             (["put", "-y", scratch / "odd"], 2, b"unknown option"), (["put", "a/b", "-t", "f32", "-"], 1, b"a/b: BAD_MESSAGE"),
                             (["sum", "@none"], 1, b"@none: BAD_HANDLE: no resident data named 'none'"), (["drop", "none"], 1, b"none: BAD_HANDLE"),
                             (["sum", "-t", "f64", "@x"], 1, b"@x: TYPE: holds f32, not f64"), (["sum", "--rows", "3", "@x"], 1, b"@x: SHAPE"),
                             (["sum", "--axis", "0", "@x"], 1, b"@x: SHAPE: these data were put without a shape: --axis needs --rows"), (["sum", "--path", "shm", "@x"], 2, b"take no other path"),
                             (["sum", "--mask", scratch / "odd", "@x"], 2, b"@NAME excludes"), (["sum", "--total", "@x", "@x"], 2, b"@NAME excludes"),
                             (["drop"], 2, b"drop takes one or more names"), (["put"], 2, b"put takes a name"), (["put", "a", "b", "c"], 2, b"put takes a name"),
                             (["ls", "a"], 2, b"take no files"), (["sum", "--ttl", "5", "@x"], 2, b"apply to put only"),
                             (["put", "y", "--ttl", "0", scratch / "odd"], 2, b"--ttl")):
        done = ctl(*args, stdin=bytes(4), url=url)
        assert done.returncode == code and text in done.stderr, (args, done.stderr)
    assert ctl("sum", "@x", url=url).stdout == b"0\n"
    assert ctl("put", "y", "--text", stdin=b"1 2 x", url=url).returncode == 1
    assert ctl("drop", "x", url=url).returncode == 0
    assert ctl("put", "y", "-t", "f32", stdin=bytes(4), url=clean.tcp_url).returncode == 3  # AUTH


def test_a_killed_put_leaves_nothing(clean, scratch, request):
    (scratch / "data").write_bytes(noise(24 * MIB))
    env = {**os.environ, "REDUCED_URL": clean.url}
    pick = random.Random(SEED)
    killed = 0
    for i in range(15 if request.config.sanitized else 40):
        p = subprocess.Popen([BIN / "reducectl", "put", "x", "-t", "f32", "--no-autostart", "--replace", "--path", ("file", "shm", "inline")[i % 3], scratch / "data"],
                             stderr=subprocess.DEVNULL, env=env)
        try:
            p.wait(pick.uniform(0, 0.03))
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            killed += p.wait() == -signal.SIGKILL
    assert killed
    with clean.connect() as c:
        wait_until(clean, lambda: c.query(2)["resident.arrays"] == len(c.list()))
        if c.list():
            c.drop("x")
