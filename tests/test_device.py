"""Data on a device, on machines without one: a daemon whose device is made of memory (tests/device/device.c) opens what the
tests export, by handle or descriptor, and counts what it pins."""
import ctypes
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys

import numpy as np
import pytest

from conftest import memory_device, select_a_moment
from libreduce import COLUMNS as LIB_COLUMNS
from libreduce import MASKED, Client
from libreduce import Fault as LibFault
from oracle import DTYPES, SIZE
from rawclient import (COLUMNS, KEYS, MASK, MAX_DATA, OFFSETS, REDUCE_AT, STATES_IN, STATES_OUT, Closed, Fault, companion, parse_result, result_at,
                       spec)
from sideclient import DEVICE_FD, Side
from test_side import descriptors, refused

PATH_DEVICE = 6
SEED = 20261123
MIB = 1 << 20


@pytest.fixture
def device(start):
    """start(*flags) -> a daemon with such a device. At its end it aborts if anything is still pinned."""
    options = memory_device()

    def run(*flags, **kw):
        # This "driver" opens what other processes have in /proc, which the sandbox refuses.
        return start("--sandbox", "no", *flags, **options, **kw)

    return run


class Allocation:
    """What another process has on the device."""

    def __init__(self, data):
        self.fd = os.memfd_create("allocation")
        os.write(self.fd, data)
        self.handle = b"a device" + struct.pack("<II", os.getpid(), self.fd) + random.randbytes(48)

    def free(self):
        os.close(self.fd)


@pytest.fixture
def allocate():
    made = []
    yield lambda data: made.append(Allocation(data)) or made[-1]
    for a in made:
        a.free()


def names_here():
    """What this process has open. Another thread may close a descriptor between the list and the look at it."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            pass
    return found


def mappings(daemon):
    return pathlib.Path(f"/proc/{daemon.process.pid}/maps").read_text().count("memfd:allocation")


def settle(daemon, seconds=60):
    """Wait until nothing is open, mapped or pinned."""
    for _ in range(int(seconds * 100)):
        status = daemon.status()
        rest = status["side.devices"], status["pool.locked.bytes"], status["side.arena_bytes"], mappings(daemon)
        if rest == (0, 0, 0, 0):
            return
        select_a_moment(daemon.process)
    raise AssertionError(f"left over: {rest}")


@pytest.mark.same_threads
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bits_are_those_of_data_in_a_message(device, allocate, dtype):
    daemon = device()
    data = np.random.default_rng(SEED).integers(0, 100, 240_000, "u1").tobytes()  # sums of integers must fit
    a = allocate(b"#" * 64 + data)
    with daemon.connect() as c, Side(c) as side:
        handle, size = side.device(a.handle)
        assert size == len(data) + 64
        for op, kw in (("sum", {"rows": 30_000}), ("stats", {}), ("argmax", {"rows": 3, "index_base": 7}), ("max", {"rows": 50, "flags": COLUMNS}),
                       ("var", {"flags": STATES_OUT})):
            want = c.reduce(op, dtype, data, **{"flags": 0, **kw}, nan="omit")
            got = c.reduce_at(op, dtype, handle, 64, len(data), nan="omit", **kw)
            assert (got.cells, got.count, got.path) == (want.cells, want.count, PATH_DEVICE)
    settle(daemon)


@pytest.mark.same_threads
@pytest.mark.parametrize("dtype", ["i8", "u32", "f16", "f64"])
def test_a_mask_behind_the_elements(device, allocate, dtype):
    r = np.random.default_rng(SEED)
    data, n = r.integers(0, 60, 240_000, "u1").tobytes(), 240_000 // SIZE[dtype]
    mask = (r.random(n) < 0.7).tobytes()
    a = allocate(b"#" * 64 + data + mask)
    with device().connect() as c, Side(c) as side:
        handle, _ = side.device(a.handle)
        for op, kw in (("sum", {"rows": 10_000}), ("stats", {}), ("argmax", {"rows": 3, "index_base": 7}), ("max", {"rows": 50, "flags": COLUMNS}),
                       ("var", {"flags": STATES_OUT}), ("norm1", {"rows": 25, "planes": 4, "flags": COLUMNS})):
            flags = kw.pop("flags", 0)
            want = c.reduce(op, dtype, data, flags=flags, mask=mask, nan="omit", **kw)
            got = c.reduce_at(op, dtype, handle, 64, len(data) + n, flags=flags | MASK, nan="omit", **kw)
            assert (got.cells, got.count, got.path) == (want.cells, want.count, PATH_DEVICE), op


@pytest.mark.same_threads
@pytest.mark.parametrize("dtype", ["u8", "i16", "f32", "f64"])
def test_a_mask_anywhere_on_the_device(device, allocate, dtype):
    """In another allocation, in the elements' own, before and behind them, or the elements themselves."""
    r = np.random.default_rng(SEED)
    data, n = r.integers(0, 60, 240_000, "u1").tobytes(), 240_000 // SIZE[dtype]
    mask = (r.random(n) < 0.7).tobytes()
    first, second = allocate(b"#" * 64 + data + b"##" + mask), allocate(mask + b"#" * 5 + data)
    with device().connect() as c, Side(c) as side:
        (one, _), (two, _) = side.device(first.handle), side.device(second.handle)
        for op, kw in (("sum", {"rows": 10_000}), ("stats", {}), ("argmax", {"rows": 3, "index_base": 7}), ("max", {"rows": 50, "flags": COLUMNS}),
                       ("var", {"flags": STATES_OUT}), ("norm1", {"rows": 25, "planes": 4, "flags": COLUMNS})):
            flags = kw.pop("flags", 0)
            want = c.reduce(op, dtype, data, flags=flags, mask=mask, nan="omit", **kw)
            for place in ((one, 64 + len(data) + 2), (two, 0)):
                got = c.reduce_at(op, dtype, one, 64, len(data), flags=flags | MASK, mask_at=place, nan="omit", **kw)
                assert (got.cells, got.count, got.path) == (want.cells, want.count, PATH_DEVICE), op
        whole = c.reduce("sum", "u8", data)
        assert c.reduce_at("sum", "u8", one, 64, len(data), flags=MASK, mask_at=(one, 64)).cells == whole.cells
        assert c.reduce_at("sum", "f32", one, 64, 0, flags=MASK, mask_at=(two, 0), row_len=0).cells == [bytes(8)]


def test_masks_that_lie(device, allocate, scratch):
    (scratch / "file").write_bytes(bytes(4096))
    daemon = device()
    a, b = allocate(bytes(4096)), allocate(bytes(1000))
    with daemon.connect() as c, Side(c) as side, daemon.connect() as other, Side(other) as others, open(scratch / "file", "rb") as file:
        (one, _), (two, _), of_another = side.device(a.handle), side.device(b.handle), others.device(b.handle)[0]
        passed, resident, zeros = side.file(file.fileno())[0], c.put("x", "f32", bytes(4096)), c.put("y", "u8", bytes(1000))
        arena, memory = side.arena(4096)
        memory.close()

        def ask(elements, mask, offset=0, flags=MASK):
            return c.reduce_at("sum", "f32", elements, 0, 4000, flags=flags, row_len=1000, mask_at=(mask, offset))
        assert ask(one, two).cells == ask(one, one, 96).cells == ask(one, one, 3096).cells == [bytes(8)]
        for offset in (1, 1000, 2**64 - 1, 2**64 - 1000):
            assert refused("SHAPE", "mask", ask, one, two, offset).limit == 1000
        assert refused("SHAPE", "mask", ask, one, one, 3097).limit == 4096
        for elements, mask in ((one, 0), (one, 12345), (one, of_another), (one, passed), (passed, one)):
            refused("BAD_HANDLE", "mask", ask, elements, mask)
        refused("TYPE", "mask", ask, one, resident)
        assert ask(resident, one).cells == ask(resident, zeros).cells == ask(one, zeros).cells == [bytes(8)]
        refused("BAD_HANDLE", "mask", c.reduce_at, "sum", "f32", one, 0, 4000, mask=bytes(1000))
        refused("BAD_HANDLE", "offsets", c.reduce_at, "sum", "f32", one, 0, 4000, offsets=[0, 1000])
        refused("TYPE", "result", c.reduce_at, "sum", "f32", one, 0, 4000, parts=[result_at(arena, 0, 8)])
        refused("SHAPE", "data", c.call, REDUCE_AT, spec("sum", "f32", row_len=800, flags=MASK) + struct.pack("<QQQQ", one, 0, 4000, two))
        side.drop(two)
        side.device(b.handle)  # which is answered after the drop was taken
        refused("BAD_HANDLE", "mask", ask, one, two)
        c.drop("x")
        c.drop("y")
    settle(daemon)


def drop_in_use(c, side, handle, request, want):
    """Two requests for what the handle stands for, and its drop behind them: each is answered, or refused."""
    sent = [c.send(REDUCE_AT, request) for _ in range(2)]
    side.drop(handle)
    for s in sent:
        try:
            assert c.wait(s)[48:] == want
        except Fault as e:
            assert e.code == "BAD_HANDLE"  # the drop went by another way, and may be faster


def test_a_mask_is_dropped_in_use(device, allocate):
    daemon = device()
    n = 2 * MIB
    a, mask = allocate(struct.pack("<f", 1.5) * n), allocate(b"\1" * n)
    with daemon.connect() as c, Side(c) as side:
        elements, size = side.device(a.handle)
        for _ in range(30):
            handle, _ = side.device(mask.handle)
            drop_in_use(c, side, handle, c.reduce_at_body("sum", "f32", elements, 0, size, mask_at=(handle, 0)), struct.pack("<d", 1.5 * n))
    settle(daemon)


def test_any_length_in_one_request(device, allocate):
    a = allocate(struct.pack("<f", 1.5) * (6 * MIB))
    with device().connect() as c, Side(c) as side:
        handle, size = side.device(a.handle)
        assert size > 5 * MAX_DATA
        assert c.reduce_at("sum", "f32", handle, 0, size).cells == [struct.pack("<d", 9 * MIB)]
        assert c.reduce_at("count_nonzero", "f32", handle, size - 8, 8).cells == [struct.pack("<Q", 2)]
        assert c.reduce_at("sum", "f32", handle, size, 0).cells == [bytes(8)]


def test_ranges_and_specs_that_lie(device, allocate):
    a = allocate(bytes(4096))
    with device().connect() as c, Side(c) as side:
        handle, _ = side.device(a.handle)
        for offset, length in ((0, 4100), (4096, 4), (4100, 0), (2**63, 4), (2**64 - 4, 4), (2**64 - 4, 8), (2**62, 2**61)):
            assert refused("SHAPE", "offset", c.reduce_at, "sum", "f32", handle, offset, length).limit == 4096
        for offset in (1, 2, 4095):
            assert refused("SHAPE", "offset", c.reduce_at, "sum", "f32", handle, offset, 0).limit == 4
        assert c.reduce_at("sum", "u8", handle, 4095, 1).cells == [bytes(8)]
        refused("SHAPE", "data", c.reduce_at, "sum", "f32", handle, 0, 4001, flags=MASK, row_len=800)
        refused("SHAPE", "offset", c.reduce_at, "sum", "f32", handle, 4, 4095, flags=MASK, row_len=819)
        for flags in (STATES_IN, OFFSETS):
            refused("BAD_MESSAGE", "flags", c.reduce_at, "sum", "f32", handle, 0, 4000, flags=flags)
        refused("SHAPE", "row_len", c.reduce_at, "sum", "f32", handle, 0, 4096, row_len=1)
        resident = c.store("x", "f32", 4096)
        refused("BAD_HANDLE", "from", c.write_at, resident, 0, handle, 0, 4096)
        c.ping(b"still here")


def test_handles_that_are_none(device, allocate):
    daemon = device()
    a = allocate(bytes(64))
    with daemon.connect() as c, daemon.connect() as other, Side(c) as side, Side(other):
        for handle in (bytes(64), b"\xff" * 64, a.handle[:12] + b"\xff\xff\xff\x7f" + a.handle[16:]):
            refused("BAD_HANDLE", "handle", side.device, handle)
        handle, _ = side.device(a.handle)
        refused("BAD_HANDLE", "handle", other.reduce_at, "sum", "u8", handle, 0, 64)
        side.drop(handle)
        side.device(a.handle)  # which is answered after the drop was taken
        refused("BAD_HANDLE", "handle", c.reduce_at, "sum", "u8", handle, 0, 64)
    settle(daemon)


def test_a_descriptor_is_as_good_as_a_handle(device, allocate):
    daemon = device()
    data = np.random.default_rng(SEED).standard_normal(100_000).astype("f4").tobytes()
    a = allocate(data)
    with daemon.connect() as c, Side(c) as side:
        handle = side.device_fd(a.fd, len(data))
        for op, kw in (("sum", {}), ("stats", {"rows": 10}), ("max", {"rows": 100, "flags": COLUMNS})):
            want = c.reduce(op, "f32", data, **{"flags": 0, **kw})
            got = c.reduce_at(op, "f32", handle, 0, len(data), **kw)
            assert (got.cells, got.count, got.path) == (want.cells, want.count, PATH_DEVICE)
        assert refused("SHAPE", "offset", c.reduce_at, "sum", "f32", handle, 4, len(data)).limit == len(data)
        assert daemon.status()["side.devices"] == 1 and mappings(daemon) == 1
        side.drop(handle)
        settle(daemon)
        assert side.device_fd(a.fd, len(data)) != handle
    settle(daemon)


def test_descriptors_that_are_none(device, allocate):
    """A typed error, no more: the channel, the session and the other allocation go on, and no descriptor stays open."""
    daemon = device()
    a = allocate(struct.pack("<f", 2) * 1024)
    pipe, (one, two), folder, null = os.pipe(), socket.socketpair(), os.open("/", os.O_RDONLY), os.open("/dev/null", os.O_RDWR)
    with daemon.connect() as c, Side(c) as side:
        handle = side.device_fd(a.fd, 4096)
        before = descriptors(daemon)
        for fd in (*pipe, one.fileno(), folder, null):
            refused("BAD_HANDLE", "descriptor", side.device_fd, fd, 4096)
        for size in (0, 4095, 4097, 8192, 2**40, 2**64 - 1):
            refused("BAD_HANDLE", "descriptor", side.device_fd, a.fd, size)
        assert c.reduce_at("sum", "f32", handle, 0, 4096).cells == [struct.pack("<d", 2048)]
        assert descriptors(daemon) == before
        one.close()
        two.settimeout(60)
        assert two.recv(1) == b""  # nobody has the other end
    settle(daemon)
    for fd in (*pipe, folder, null):
        os.close(fd)
    two.close()


def test_a_descriptor_too_few_or_too_many_closes_the_channel(device, allocate):
    daemon = device()
    a = allocate(bytes(4096))
    for fds in ([], [a.fd, a.fd]):
        with daemon.connect() as c, Side(c) as side:
            assert refused("BAD_MESSAGE", "descriptors", side.call, DEVICE_FD, 4096, fds=fds).limit == 1
            with pytest.raises(Closed):
                side.receive(DEVICE_FD)
            c.ping(b"still here")
    settle(daemon)


def test_dropped_in_use(device, allocate):
    daemon = device()
    n = 2 * MIB
    a = allocate(struct.pack("<f", 1.5) * n)
    body = spec("sum", "f32", row_len=n)
    with daemon.connect() as c, Side(c) as side:
        for _ in range(50):
            handle, size = side.device(a.handle)
            drop_in_use(c, side, handle, body + struct.pack("<QQQ", handle, 0, size), struct.pack("<d", 1.5 * n))
    settle(daemon)


def test_one_mapping_for_all_who_ask(device, allocate):
    daemon = device()
    a = allocate(bytes(range(64)))
    with daemon.connect() as c, Side(c) as side:
        handle, _ = side.device(a.handle)
        with daemon.connect() as other, Side(other) as others:
            second, _ = others.device(a.handle)
            assert mappings(daemon) == 1 and daemon.status()["side.devices"] == 2
            assert other.reduce_at("sum", "u8", second, 0, 64).cells == [struct.pack("<Q", 2016)]
        while daemon.status()["side.devices"] != 1:
            select_a_moment(daemon.process)
        assert c.reduce_at("sum", "u8", handle, 1, 63).cells == [struct.pack("<Q", 2016)]
    settle(daemon)


class Block:
    """Small allocations in one block: of all of them only this process knows which ones are freed."""

    def __init__(self, allocation):
        self.allocation = allocation

    def part(self, begin, size):
        return b"a parted" + struct.pack("<IIIII", os.getpid(), self.allocation.fd, 0, begin, size) + bytes(36)


def test_what_lies_where_freed_allocations_lay_is_opened(device, allocate):
    """The driver refuses an allocation that overlaps one that is still open: the daemon closes what it has of all clients."""
    daemon = device()
    block = Block(allocate(bytes(range(256)) * 64))
    with daemon.connect() as c, Side(c) as side, daemon.connect() as d, Side(d) as others:
        old = [(c, side.device(block.part(0, 4096))[0]), (d, others.device(block.part(4096, 4096))[0])]
        stays = others.device_fd(block.allocation.fd, 16384)
        new, size = side.device(block.part(0, 16384))  # all of them were freed, and this one lies there now
        assert size == 16384 and c.reduce_at("sum", "u8", new, 0, 16384).cells == [struct.pack("<Q", 64 * 32640)]
        for connection, handle in old:
            assert refused("BAD_HANDLE", "handle", connection.reduce_at, "sum", "u8", handle, 0, 256)
        assert d.reduce_at("sum", "u8", stays, 0, 256).cells == [struct.pack("<Q", 32640)]
        assert daemon.status()["side.devices"] == 2
        again, _ = others.device(block.part(0, 8192))  # the others' turn
        assert d.reduce_at("sum", "u8", again, 256, 512).cells == [struct.pack("<Q", 2 * 32640)]
    settle(daemon)


def test_what_a_request_reads_is_closed_after_it(device, allocate):
    daemon = device("--threads", 1)
    n = 4 * MIB
    block = Block(allocate(struct.pack("<f", 1.5) * n))
    with daemon.connect() as c, Side(c) as side, daemon.connect() as d, Side(d) as others:
        for _ in range(10):
            handle, size = side.device(block.part(0, 4 * n))
            sent = [c.send(REDUCE_AT, spec("sum", "f32", row_len=n) + struct.pack("<QQQ", handle, 0, size)) for _ in range(3)]
            other, _ = others.device(block.part(4096, 4096))
            assert d.reduce_at("sum", "f32", other, 0, 4096).cells == [struct.pack("<d", 1.5 * 1024)]
            for s in sent:
                try:
                    assert c.wait(s)[48:] == struct.pack("<d", 1.5 * n)
                except Fault as e:
                    assert e.code == "BAD_HANDLE"  # it came after the other allocation
    settle(daemon)


def test_libreduce_opens_again_what_the_daemon_had_to_close(device, allocate):
    daemon = device()
    block = Block(allocate(bytes(range(256)) * 64))
    kept, new = block.part(8192, 4096), block.part(0, 8192)
    with Client(daemon.url) as a, Client(daemon.url) as b:
        a.device("sum", "u8", block.part(0, 4096), 0, 256)
        a.device("sum", "u8", kept, 0, 256)
        assert b.device("sum", "u8", new, 4096, 512)[0] == struct.pack("<Q", 2 * 32640)
        assert a.device("sum", "u8", kept, 256, 512)[0] == struct.pack("<Q", 2 * 32640)
    settle(daemon)


def test_by_key_on_the_host_and_on_the_device(device, allocate, scratch):
    """Elements and keys of the host are grouped beside a device, those on it there; not some here and some there."""
    rng = np.random.default_rng([SEED, 3])
    d = device()
    with d.connect() as c, Side(c) as side:
        for n in 100, 200_000:
            x, k = rng.integers(0, 1000, n).astype(np.uint16), rng.integers(0, 50, n).astype(np.uint8)
            want = [struct.pack("<Q", int(x[k == g].astype(int).sum())) for g in range(50)]
            assert c.reduce("sum", "u16", x.tobytes(), rows=50, keys=("u8", k.tobytes())).cells == want
            (scratch / "x").write_bytes(x.tobytes())
            with open(scratch / "x", "rb") as f:
                file, _ = side.file(f.fileno())

            def at(handle, keys, tail=b"", n=n, op="sum"):
                fixed = spec(op, "u16", rows=50, row_len=n, flags=KEYS, tagged_len=len(keys)) + struct.pack("<QQQ", handle, 0, 2 * n)
                return parse_result(c.call(REDUCE_AT, fixed + keys + tail)).cells
            assert at(file, companion("keys", dtype="u8"), k.tobytes()) == want
            kept, kept_keys = c.put("x", "u16", x.tobytes()), c.put("k", "u8", k.tobytes())
            there, _ = side.device(allocate(x.tobytes()).handle)
            there_keys, _ = side.device(allocate(b"?" + k.tobytes()).handle)
            refused("BAD_HANDLE", "keys", at, file, companion("keys", (kept_keys, 0), "u8"))
            for elements in kept, there:
                assert at(elements, companion("keys", (kept_keys, 0), "u8")) == at(elements, companion("keys", (there_keys, 1), "u8")) == want
                refused("BAD_HANDLE", "keys", at, elements, companion("keys", dtype="u8"), k.tobytes())
                refused("TYPE", "op", at, elements, companion("keys", (kept_keys, 0), "u8"), op="prod")
            refused("SHAPE", "keys", at, kept, companion("keys", (kept_keys, 1), "u8"))
            c.drop("x"), c.drop("k")
        # more cells than a reply has
        groups = 600_000
        x, k = np.arange(1000, dtype=np.uint32), rng.integers(0, groups, 1000).astype(np.uint32)
        arena, memory = side.arena(8 * groups)
        kept, kept_keys = c.put("x", "u32", x.tobytes()), c.put("k", "u32", k.tobytes())
        tagged = companion("keys", (kept_keys, 0), "u32") + result_at(arena, 0, 8 * groups)
        fixed = spec("sum", "u32", rows=groups, row_len=1000, flags=KEYS, tagged_len=len(tagged)) + struct.pack("<QQQ", kept, 0, 4000)
        assert parse_result(c.call(REDUCE_AT, fixed + tagged)).cells == []
        want = np.zeros(groups, np.uint64)
        np.add.at(want, k, x)
        assert bytes(memory[: 8 * groups]) == want.tobytes()
        memory.close()
        c.drop("x"), c.drop("k")
    with Client(d.url) as lib:
        lib.put("x", "u32", x.ctypes.data, x.nbytes)
        lib.put("k", "u32", k.ctypes.data, k.nbytes)
        assert lib.named("sum", "u32", "x", keys_name="k", keys_dtype="u32", rows=groups)[0] == want.tobytes()
        with pytest.raises(LibFault, match="BAD_HANDLE.*the keys must be where the elements are"):
            lib.named("sum", "u32", "x", keys=k.tobytes(), keys_dtype="u32", rows=groups)


def test_quotas(device, allocate):
    daemon = device()
    allocations = [allocate(bytes(64)) for _ in range(64)]
    clients = [daemon.connect() for _ in range(3)]
    sides = [Side(c) for c in clients]
    for a in allocations:
        sides[0].device(a.handle)
        sides[1].device_fd(a.fd, 64)
    before = descriptors(daemon)
    assert refused("QUOTA", "handles", sides[0].device, allocations[0].handle).limit == 64
    assert refused("QUOTA", "handles", sides[1].device_fd, allocations[0].fd, 64).limit == 64
    assert refused("QUOTA", "devices", sides[2].device, allocations[0].handle).limit == 128
    assert refused("QUOTA", "devices", sides[2].device_fd, allocations[0].fd, 64).limit == 128
    while descriptors(daemon) != before:
        select_a_moment(daemon.process)
    for side in sides:
        side.close()
    for c in clients:
        c.close()
    settle(daemon)


CLIENT = """
import os, struct, sys
sys.path.insert(0, sys.argv[1])
from rawclient import REDUCE_AT, Connection, spec
from sideclient import Side
c = Connection(sys.argv[2])
c.hello()
side = Side(c)
handle, size = side.device(bytes.fromhex(sys.argv[3]))
arena, memory = side.arena(1 << 20)
own = os.memfd_create("allocation")
os.write(own, bytes(1 << 20))
passed = side.device_fd(own, 1 << 20)
print("ready", flush=True)
while True:
    at = [(handle, size), (arena, 1 << 20), (passed, 1 << 20)] * 5
    for s in [c.send(REDUCE_AT, spec("stats", "f32", row_len=n // 4) + struct.pack("<QQQ", h, 0, n)) for h, n in at]:
        c.wait(s)
"""


def test_killed_clients_leave_nothing(device, allocate):
    """kill -9 while the engine reads what they have on the device, and what they share."""
    daemon = device()
    a = allocate(random.Random(SEED).randbytes(8 * MIB))
    for _ in range(5):
        client = subprocess.Popen([sys.executable, "-c", CLIENT, pathlib.Path(__file__).parent, daemon.url, a.handle.hex()],
                                  stdout=subprocess.PIPE)
        assert client.stdout.readline() == b"ready\n"
        client.kill()
        client.wait()
        client.stdout.close()
    settle(daemon)


def test_arenas_are_pinned_as_long_as_they_live(device):
    daemon = device()
    with daemon.connect() as c, Side(c) as side:
        handle, memory = side.arena(3 * MIB)
        memory[:4] = struct.pack("<f", 2.5)
        assert daemon.status()["pool.locked.bytes"] == 3 * MIB
        assert c.reduce_at("sum", "f32", handle, 0, 3 * MIB).cells == [struct.pack("<d", 2.5)]
        side.drop(handle)
        memory.close()  # until then it stays charged
        settle(daemon)


def test_the_end_of_a_daemon_that_is_not_drained(device, allocate):
    """What it has open and pinned is given back after the engine's threads have ended."""
    daemon = device("--drain", 0)
    a = allocate(bytes(64))
    with daemon.connect() as c, Side(c) as side:
        side.device(a.handle)
        side.arena(4096)[1].close()
        c.begin("sum", "f32")  # never finished
        daemon.stop()
    assert "not drained" in daemon.log()


@pytest.mark.same_threads
@pytest.mark.parametrize("op,dtype,kw", [
    ("sum", "f32", {}), ("stats", "f64", {"nan": "omit"}), ("argmin", "i16", {"index_base": 1000}), ("prod", "bf16", {}), ("max", "u8", {"rows": MIB}),
    ("min", "i32", {"rows": 1024, "flags": LIB_COLUMNS}), ("sumsq", "u32", {"flags": STATES_OUT, "rows": 2}),
    ("norm2", "f32", {"initial": b"\0\0\x80\x40"})], ids=str)
def test_libreduce_gives_the_same_bits(device, allocate, op, dtype, kw):
    data = random.Random(SEED).randbytes(8 * MIB)
    a = allocate(data)
    with Client(device().url) as lib:
        got, result = lib.device(op, dtype, a.handle, 0, len(data), **kw)
        memory = (ctypes.c_char * len(data)).from_buffer(bytearray(data))
        assert got == lib.run_at(op, dtype, ctypes.addressof(memory), len(data), **kw)[0]
        assert result.path == PATH_DEVICE and result.count == len(data) // SIZE[dtype]


@pytest.mark.same_threads
@pytest.mark.parametrize("op,dtype,kw", [("sum", "f32", {}), ("stats", "f64", {"rows": 64}), ("argmin", "i16", {"index_base": 1000}),
                                         ("min", "i32", {"rows": 64, "flags": LIB_COLUMNS}), ("var", "u8", {"flags": STATES_OUT, "rows": 2})], ids=str)
def test_libreduce_masks_what_is_on_the_device(device, allocate, op, dtype, kw):
    r, n = random.Random(SEED), MIB // 4
    data, mask = r.randbytes(n * SIZE[dtype]), bytes(i % 3 for i in range(n))
    a = allocate(data + mask)
    masked = {**kw, "flags": kw.get("flags", 0) | MASKED}
    with Client(device().url) as lib:
        memory = (ctypes.c_char * len(data)).from_buffer(bytearray(data))
        want = lib.run_at(op, dtype, ctypes.addressof(memory), len(data), mask=mask, **kw)[0]
        got, result = lib.device(op, dtype, a.handle, 0, len(data) + n, **masked)
        assert got == want and result.path == PATH_DEVICE and result.count == n
        assert lib.collective(op, dtype, len(data) + n, handle=a.handle, **masked) == want
        for size, field, code in ((len(data) + n - 1, "bytes", "SHAPE"), (len(data) + n + SIZE[dtype] + 1, None, "SHAPE")):
            with pytest.raises(LibFault) as e:
                lib.device(op, dtype, a.handle, 0, size, **masked)
            assert e.value.code == code and field in (None, e.value.field)
        with pytest.raises(LibFault) as e:  # the results of one reply are its bound
            lib.device("sum", "u8", a.handle, 0, 2 * MIB, rows=MIB, flags=MASKED)
        assert (e.value.code, e.value.field) == ("TOO_LARGE", "mask")
        with pytest.raises(LibFault) as e:  # memory of this process has its mask elsewhere
            lib.run_at("sum", "u8", ctypes.addressof(memory), 64, flags=MASKED)
        assert (e.value.code, e.value.field) == ("ARGUMENT", "flags")
        with pytest.raises(LibFault, match="here `mask` is an array"):
            lib.collective("sum", "u8", 64, ctypes.addressof(memory), flags=MASKED)


@pytest.mark.same_threads
@pytest.mark.parametrize("op,dtype,kw", [("sum", "f32", {}), ("stats", "f64", {"rows": 64}), ("argmin", "i16", {"index_base": 1000}),
                                         ("min", "i32", {"rows": 64, "flags": LIB_COLUMNS}), ("var", "u8", {"flags": STATES_OUT, "rows": 2})], ids=str)
def test_libreduce_takes_a_mask_of_another_allocation(device, allocate, scratch, op, dtype, kw):
    r, n = random.Random(SEED), MIB // 4
    data, mask = r.randbytes(n * SIZE[dtype]), bytes(i % 3 for i in range(n))
    a, m = allocate(data), allocate(b"#" * 3 + mask)
    daemon = device()
    with Client(daemon.url) as lib:
        memory = (ctypes.c_char * len(data)).from_buffer(bytearray(data))
        want = lib.run_at(op, dtype, ctypes.addressof(memory), len(data), mask=mask, **kw)[0]
        got, result = lib.device_masked(op, dtype, a.handle, 0, len(data), m.handle, 3, **kw)
        assert got == want and result.path == PATH_DEVICE and result.count == n
        for call, code, field in ((lambda: lib.device_masked(op, dtype, a.handle, 0, len(data), m.handle, 4, **kw), "SHAPE", "mask"),
                                  (lambda: lib.device_masked(op, dtype, a.handle, 0, len(data), None, 0, **kw), "ARGUMENT", "mask_handle"),
                                  (lambda: lib.device_masked(op, dtype, None, 0, len(data), m.handle, 0, **kw), "ARGUMENT", "handle"),
                                  (lambda: lib.device_masked(op, dtype, a.handle, 0, len(data), bytes(64), 0, **kw), "BAD_HANDLE", "handle"),
                                  (lambda: lib.device_masked("sum", "u8", a.handle, 0, 8, m.handle, 0, flags=MASKED), "ARGUMENT", "flags")):
            with pytest.raises(LibFault) as e:
                call()
            assert (e.value.code, e.value.field) == (code, field)
        rows = lib.device_masked("sum", "u8", a.handle, 0, n, m.handle, 3, rows=n)[0]  # more than a reply holds
        assert rows == lib.run_at("sum", "u8", ctypes.addressof(memory), n, mask=mask, rows=n)[0]
        daemon.kill()
        device(directory=daemon.directory)  # knows neither allocation
        assert lib.device_masked(op, dtype, a.handle, 0, len(data), m.handle, 3, **kw)[0] == want


def test_libreduce_opens_once_and_again_after_a_restart(device, allocate, scratch):
    daemon = device()
    a = allocate(struct.pack("<d", 0.5) * 1024)
    with Client(daemon.url) as lib:
        for _ in range(3):
            assert lib.device("sum", "f64", a.handle, 8, 8184)[0] == struct.pack("<d", 511.5)
        assert daemon.status()["side.devices"] == 1
        assert lib.lib.reduce_device_close(lib.handle, a.handle) == 0
        settle(daemon)
        assert lib.device("sum", "f64", a.handle, 0, 8)[0] == struct.pack("<d", 0.5)
        daemon.kill()
        again = device(directory=scratch)
        assert lib.device("sum", "f64", a.handle, 0, 16)[0] == struct.pack("<d", 1)
        assert again.status()["side.devices"] == 1
        with pytest.raises(LibFault) as e:
            lib.device("sum", "f64", a.handle, 8192, 8)
        assert (e.value.code, e.value.field, e.value.limit) == ("SHAPE", "offset", 8192)
        with pytest.raises(LibFault) as e:
            lib.device("sum", "f64", bytes(64), 0, 8)
        assert (e.value.code, e.value.field) == ("BAD_HANDLE", "handle")
    settle(again)


def test_libreduce_imports_a_descriptor(device, allocate, scratch):
    """... which the program may close at once, and passes it on to the next daemon by itself."""
    daemon = device()
    a = allocate(struct.pack("<d", 0.25) * 1024)
    with Client(daemon.url) as lib:
        passed = os.dup(a.fd)
        handle = lib.device_import(passed, 8192)
        os.close(passed)
        other = lib.device_import(a.fd, 8192)
        assert handle != other and daemon.status()["side.devices"] == 2
        got, result = lib.device("sum", "f64", handle, 8, 8184)
        assert got == struct.pack("<d", 255.75) and result.path == PATH_DEVICE
        assert lib.lib.reduce_device_close(lib.handle, other) == 0
        with pytest.raises(LibFault) as e:
            lib.device("sum", "f64", other, 0, 8)
        assert e.value.code == "BAD_HANDLE"
        daemon.kill()
        again = device(directory=scratch)
        assert lib.device("sum", "f64", handle, 0, 16)[0] == struct.pack("<d", 0.5)
        assert again.status()["side.devices"] == 1
        for fd, size, want in ((a.fd, 4096, ("BAD_HANDLE", "descriptor")), (-1, 8192, ("ARGUMENT", "fd"))):
            with pytest.raises(LibFault) as e:
                lib.device_import(fd, size)
            assert (e.value.code, e.value.field) == want
        assert lib.lib.reduce_device_import(lib.handle, a.fd, ctypes.c_uint64(8192), None) == -101
        assert lib.device("sum", "f64", handle, 8184, 8)[0] == struct.pack("<d", 0.25)
        assert names_here().count("/memfd:allocation (deleted)") == 2, "the test's and the library's"
    assert names_here().count("/memfd:allocation (deleted)") == 1, "reduce_close closed what it had kept"
    settle(again)
