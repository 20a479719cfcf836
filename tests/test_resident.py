"""Resident data: arrays that stay with the daemon, over the wire by PROTOCOL.md alone, through libreduce and by reducectl."""
import os
import random
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

from conftest import TESTS, select_a_moment
from oracle import SIZE
from rawclient import (COLUMNS, COMMIT, MASK, MAX_DATA, OFFSETS, REDUCE_AT, STATES_OUT, STORE, WRITE, WRITE_AT, Fault, spec,
                       store)
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
        refused("TYPE", "dtype", c.store, "x", 13, 4)
        for size in (0, 3, 2**64 - 1):
            assert refused("SHAPE", "bytes", c.store, "x", "f32", size).limit == 4
        cap = c.query(2)["resident.user_cap"]
        assert refused("TOO_LARGE", "bytes", c.store, "x", "u8", cap + 1).limit == cap
        refused("TOO_LARGE", "bytes", c.store, "x", "u8", 2**64 - 1)
        refused("BAD_MESSAGE", "flags", c.call, STORE, store("x", "f32", 4, replace=2))
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
        second = other.store("x", "u8", 8)  # who is first at COMMIT has it
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
        for x in c.list():  # a COMMIT may have come through
            c.drop(x.name)
    os.close(fd)


# ---- their end ----
def test_dropped_in_use_it_goes_when_the_last_reduction_is_back(start):
    daemon = start("--threads", 1)
    data = noise(24 * MIB)
    with daemon.connect() as c:
        want = c.put("x", "u8", data[:1]) and c.reduce("count", "u8", b"").cells
        want = c.reduce_at("stats", "f32", c.put("y", "f32", data), 0, len(data)).cells
        handle = c.list("y")[0].handle
        sent = [c.send(REDUCE_AT, spec("stats", "f32", row_len=len(data) // 4) + struct.pack("<QQQ", handle, 0, len(data))) for _ in range(20)]
        c.drop("y")
        assert [x.name for x in c.list()] == ["x"]
        refused("BAD_HANDLE", "handle", c.reduce_at, "stats", "f32", handle, 0, len(data))
        answers = []
        for s in sent:
            try:
                answers.append(c.wait(s)[48:])
            except Fault as e:
                assert e.code == "BAD_HANDLE"  # nng may hand on requests in another order
        assert answers and set(answers) == {want[0]}
        wait_until(daemon, lambda: daemon.status()["resident.arrays"] == 1)
        assert daemon.status()["resident.bytes"] == 1


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


def test_expired_data_go_without_anybody_asking(clean):
    with clean.connect() as c:
        c.put("short", "u8", bytes(MIB), ttl_ms=50)
        wait_until(clean, lambda: c.query(2)["resident.bytes"] == 0)


def test_data_keep_an_idle_daemon_alive(start):
    daemon = start("--idle-exit", 1)
    with daemon.connect() as c:
        c.put("x", "u8", b"1", ttl_ms=2500)
        begun = time.monotonic()
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


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_meets_nothing(start, scratch):
    os.chmod(scratch, 0o755)
    daemon = start("--socket-mode", "0666")
    with daemon.connect() as c:
        handle = c.put("x", "u8", b"\1\2\3")
        writing = c.store("y", "u8", 3)
        script = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from rawclient import Connection, Fault
c = Connection({daemon.url!r})
c.hello()
def code(call, *args, **kw):
    try:
        return call(*args, **kw)
    except Fault as e:
        return e.code
print(c.list(), code(c.list, "x"), code(c.drop, "x"), code(c.reduce_at, "sum", "u8", {handle}, 0, 3), code(c.write, {writing}, 0, b"abc"),
      code(c.commit, {writing}), code(c.abort, {writing}), sep=chr(10))
mine = c.put("x", "u8", b"\5")
print(c.reduce_at("sum", "u8", mine, 0, 1).cells[0][0], len(c.list()))
"""
        child = subprocess.run(["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "/usr/bin/python3", "-c", script],
                               capture_output=True, text=True, timeout=120)
        assert child.stdout.split() == ["[]"] + ["BAD_HANDLE"] * 6 + ["5", "1"], child.stderr
        assert [(x.name, x.handle) for x in c.list()] == [("x", handle)]
        assert c.reduce_at("sum", "u8", handle, 0, 3).cells[0][0] == 6
        assert daemon.status()["resident.arrays"] == 3  # two of ours, and the other's, which stays
