"""The fdpass socket: files and shared memory beside the wire, by PROTOCOL.md alone; hostile and dying clients."""
import array
import contextlib
import ctypes
import errno
import fcntl
import itertools
import mmap
import os
import pathlib
import random
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

from conftest import sanitizer, select_a_moment
from oracle import DTYPES, SIZE
from otheruser import needs_root
from rawclient import COLUMNS, MASK, MAX_DATA, MAX_STRIDED, OFFSETS, REDUCE_AT, STATES_IN, STATES_OUT, Closed, Connection, Fault, spec
from sideclient import ARENA, ATTACH, DEVICE, DROP, FILE, Side

PATH_INLINE, PATH_SHM, PATH_FILE = 1, 3, 4
SEED = 20261121
MIB = 1 << 20
LIBC = ctypes.CDLL(None)
LINUX = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])


def descriptors(daemon):
    """What the daemon's descriptors lead to, without numbers. Not sockets: nng closes those of connections when it likes, and
    the status counts those of fdpass channels."""
    folder, found = pathlib.Path(f"/proc/{daemon.process.pid}/fd"), []
    for entry in folder.iterdir():
        try:
            found.append(re.sub(r"\d+", "", os.readlink(entry)))
        except FileNotFoundError:
            pass
    return sorted(x for x in found if not x.startswith("socket:"))


def arenas(daemon):
    return sum("memfd:reduced" in line for line in pathlib.Path(f"/proc/{daemon.process.pid}/maps").read_text().splitlines())


def settle(daemon, fds=None, seconds=60):
    """Wait until the daemon holds nothing of clients', and the descriptors that it held before; returns these."""
    end = time.monotonic() + seconds
    while True:
        status = daemon.status()
        rest = status["side.channels"], status["side.files"], status["side.arena_bytes"], arenas(daemon)
        now = descriptors(daemon)
        if rest == (0, 0, 0, 0) and now == (fds or now):
            return now
        assert time.monotonic() < end, f"left over: {rest}, {set(now) ^ set(fds or now)}"
        select_a_moment(daemon.process)


@pytest.fixture
def calm(shared):
    """The shared daemon; afterwards it must hold what it held before."""
    before = settle(shared)
    yield shared
    settle(shared, before)


@pytest.fixture
def both(calm):
    with calm.connect() as c, Side(c) as side:
        yield c, side


def some_file(folder, data, name="data"):
    path = folder / name
    path.write_bytes(data)
    return os.open(path, os.O_RDONLY)


def refused(code, field, call, *args, **kw):
    with pytest.raises(Fault) as e:
        call(*args, **kw)
    assert (e.value.code, e.value.field) == (code, field), e.value
    return e.value


# ---- what it is for ----
@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_from_every_path(both, scratch, dtype):
    if not isinstance(dtype, str):
        pytest.skip("the table has codes, too")
    c, side = both
    size = SIZE[dtype]
    data = random.Random(SEED).randbytes(30 * 77 * size)
    mask = random.Random(SEED + 1).choices([0, 1], k=30 * 77)
    fd = some_file(scratch, b"x" * 100 + data + bytes(mask))
    file, length = side.file(fd)
    arena, memory = side.arena(10000 + len(data) + len(mask))
    assert length == 100 + len(data) + len(mask)
    memory[5:5 + len(data) + len(mask)] = data + bytes(mask)
    for op, kw in (("stats", {}), ("min", {"rows": 30}), ("count_nonzero", {"rows": 30, "flags": COLUMNS, "row_len": 77}),
                   ("sumsq", {"flags": STATES_OUT})):
        want = c.reduce(op, dtype, data, **{**kw, "flags": kw.get("flags", 0), "nan": "omit"})
        from_file = c.reduce_at(op, dtype, file, 100, len(data), nan="omit", **kw)
        from_arena = c.reduce_at(op, dtype, arena, 5, len(data), nan="omit", **kw)
        assert from_file.cells == from_arena.cells == want.cells
        assert (want.path, from_file.path, from_arena.path) == (PATH_INLINE, PATH_FILE, PATH_SHM)
        assert from_file.count == from_arena.count == want.count and from_file.copy_ns > 0
    want = c.reduce("var", dtype, data, mask=mask, nan="omit")
    for handle, offset in ((file, 100), (arena, 5)):
        assert c.reduce_at("var", dtype, handle, offset, len(data) + len(mask), flags=MASK, nan="omit").cells == want.cells
    os.close(fd)


@pytest.mark.same_threads
@pytest.mark.parametrize("dtype", ["i8", "u16", "bf16", "f32", "f64"])
def test_rows_of_a_file_that_lie_apart(both, scratch, dtype):
    """Some columns of a wide matrix: also more rows than a part of them has, more columns than go by parts, and what goes whole."""
    c, side = both
    size = SIZE[dtype]
    for rows, width, first, columns in ((300, 500, 77, 130), (1, 9, 3, 6), (4000, 70, 0, 64), (7, 20000, 5, 9000), (5, 4, 4, 0)):
        data = random.Random(SEED).randbytes(rows * width * size)
        fd = some_file(scratch, b"x" * 3 + data)
        file, _ = side.file(fd)
        os.close(fd)
        pieces = b"".join(data[(i * width + first) * size:(i * width + first + columns) * size] for i in range(rows))
        for op, flags in (("sum", 0), ("sum", STATES_OUT), ("argmax", 0), ("stats", 0), ("norminf", 0), ("prod", STATES_OUT)):
            if not columns and op in ("argmax", "stats"):
                continue
            kw = {"rows": rows, "row_len": columns, "flags": flags | COLUMNS, "nan": "omit", "index_base": 12}
            want = c.reduce(op, dtype, pieces, **kw)
            got = c.reduce_at(op, dtype, file, 3 + first * size, len(pieces), stride=width * size, **kw)
            assert got.cells == want.cells and got.path == PATH_FILE and got.count == want.count, (op, rows, columns)


LONG = 24 << 20  # bytes: several readers share them


@pytest.mark.same_threads
@pytest.mark.parametrize("dtype, width, first", [("f32", 1100, 70), ("u16", 1100, 70), ("u16", 1000, 0)])
def test_ranges_of_rows_that_lie_apart_may_be_long(both, scratch, dtype, width, first):
    c, side = both
    told = c.query(1)
    assert (told["limits.max_strided"], told["limits.max_data"]) == (MAX_STRIDED, c.welcome["max_data"])
    size = int(dtype[1:]) // 8
    columns = 1000
    rows = LONG // (columns * size)
    data = np.random.default_rng(SEED).integers(0, 60000, rows * width).astype({"f32": "<f4", "u16": "<u2"}[dtype])
    data[::7919] = 0
    fd = some_file(scratch, data.tobytes())
    file, _ = side.file(fd)
    os.close(fd)
    at, length = first * size, rows * columns * size
    for op in ("sum", "max", "argmin", "var", "stats"):
        kw = {"row_len": columns, "stride": width * size}
        got = c.reduce_at(op, dtype, file, at, length, rows=rows, flags=COLUMNS, index_base=12, **kw)
        states, step = [], MAX_DATA // (columns * size)
        for row in range(0, rows, step):
            n = min(step, rows - row)
            part = c.reduce_at(op, dtype, file, at + row * width * size, n * columns * size, rows=n, flags=COLUMNS | STATES_OUT, index_base=12 + row, **kw)
            states.append(part.cells)
        merged = b"".join(itertools.chain.from_iterable(zip(*states)))
        want = c.reduce(op, dtype, merged, rows=columns, row_len=len(states), flags=STATES_IN)
        assert got.cells == want.cells and got.path == PATH_FILE and got.count == rows * columns, op
    largest = data.reshape(rows, width)[:, first:first + columns].max(0)
    got = c.reduce_at("max", dtype, file, at, length, rows=rows, flags=COLUMNS, **kw)
    assert got.cells == [struct.pack("<d" if dtype == "f32" else "<Q", x) for x in largest]
    begun = refused("IO", "file", c.reduce_at, "sum", dtype, file, at + width * size, length, rows=rows, flags=COLUMNS, **kw).limit
    assert begun == (rows - 1) * columns * size


def test_a_long_range_ends_early(calm, scratch):
    """At its deadline, and with its session: the readers take no further rows of it. The next one is whole."""
    path, rows = scratch / "sparse", MAX_STRIDED // 4096
    with path.open("wb") as file:
        file.truncate(2 * MAX_STRIDED)
        file.seek(8)
        file.write(struct.pack("<d", 1.5))
    kw = {"rows": rows, "row_len": 512, "stride": 8192, "flags": COLUMNS}
    for deadline in (1, 0):
        with calm.connect() as c, Side(c) as side, path.open("rb") as file:
            handle, _ = side.file(file.fileno())
            if deadline:
                refused("DEADLINE", "time_ms", c.reduce_at, "stats", "f64", handle, 0, MAX_STRIDED, time_ms=deadline, **kw)
            else:
                c.send(REDUCE_AT, c.reduce_at_body("stats", "f64", handle, 0, MAX_STRIDED, **kw))
    with calm.connect() as c, Side(c) as side, path.open("rb") as file:
        handle, _ = side.file(file.fileno())
        got = c.reduce_at("sum", "f64", handle, 0, MAX_STRIDED, **kw)
        assert got.cells == [struct.pack("<d", 1.5 * (i == 1)) for i in range(512)] and got.count == rows * 512


def test_rows_apart_that_cannot_be(both, scratch):
    c, side = both
    fd = some_file(scratch, bytes(range(200)) * 5)
    file, _ = side.file(fd)
    os.close(fd)
    arena, memory = side.arena(4096)
    kw = {"rows": 10, "row_len": 8, "flags": COLUMNS}
    assert c.reduce_at("sum", "u8", file, 20, 80, stride=100, **kw).cells == [struct.pack("<Q", sum((20 + 100 * i) % 200 for i in range(10)) + 10 * k)
                                                                              for k in range(8)]
    refused("BAD_MESSAGE", "stride", c.reduce_at, "sum", "u8", arena, 0, 80, stride=100, **kw)
    refused("BAD_MESSAGE", "stride", c.reduce_at, "sum", "u8", file, 0, 80, stride=0, **kw)
    refused("BAD_MESSAGE", "stride", c.reduce_at, "sum", "u8", file, 0, 160, stride=100, planes=2, **kw)
    refused("BAD_MESSAGE", "stride", c.reduce_at, "sum", "u8", file, 0, 160, stride=100, **{**kw, "flags": COLUMNS | MASK})
    refused("BAD_MESSAGE", "stride", c.reduce_at, "sum", "u8", file, 0, 80, stride=100, rows=10, row_len=8)
    assert refused("SHAPE", "stride", c.reduce_at, "sum", "u8", file, 0, 80, stride=7, **kw).limit == 8
    refused("TOO_LARGE", "length", c.reduce_at, "sum", "u8", file, 0, MAX_STRIDED + 8, stride=9, rows=MAX_STRIDED // 8 + 1, row_len=8, flags=COLUMNS)
    for op, row_len in (("prod", 8), ("sum", 4100)):
        rows = MAX_DATA // row_len + 1
        long = {"stride": 5000, "rows": rows, "row_len": row_len, "flags": COLUMNS}
        assert refused("TOO_LARGE", "length", c.reduce_at, op, "u8", file, 0, rows * row_len, **long).limit == MAX_DATA
    for offset, stride in ((2**63 - 8, 8), (0, 2**62), (2**63 - 1000, 111), (1, 2**64 - 1), (2**64 - 1, 8)):
        refused("SHAPE", "offset", c.reduce_at, "sum", "u8", file, offset, 80, stride=stride, **kw)
    for offset, stride in ((921, 8), (0, 111), (1000, 8), (2**62, 2**58)):
        begun = refused("IO", "file", c.reduce_at, "sum", "u8", file, offset, 80, stride=stride, **kw).limit
        assert begun == max(0, min(80, sum(max(0, min(8, 1000 - offset - i * stride)) for i in range(10)))), (offset, stride)
    memory.close()


def test_a_large_file_by_many_ranges_at_once(both, scratch):
    c, side = both
    a = np.random.default_rng(SEED).standard_normal(6 << 20).astype("f4") * np.float32(1e20)
    fd = some_file(scratch, a.tobytes())
    handle, size = side.file(fd)
    os.close(fd)  # the daemon has its own
    states, sent = b"", []
    for at in range(0, size, MAX_DATA):
        n = min(MAX_DATA, size - at)
        sent.append(c.send(REDUCE_AT, spec("sum", "f32", row_len=n // 4, flags=STATES_OUT) + struct.pack("<QQQ", handle, at, n)))
    for s in sent:
        states += c.wait(s)[48:]
    merged = c.reduce("sum", "f32", states, flags=STATES_IN).cells[0]
    import math
    assert struct.unpack("<d", merged)[0] == math.fsum(a.tolist())


def test_an_arena_is_sealed_zero_and_page_aligned(both):
    c, side = both
    handle, size, (fd,) = side.call(ARENA, 5000)
    assert size == 8192 and os.fstat(fd).st_size == 8192
    seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    assert seals == fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    for change in (0, 4096, 16384):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, change)
    memory = mmap.mmap(fd, size)
    assert memory[:] == bytes(8192)
    memory[:8] = struct.pack("<q", -5)
    os.close(fd)
    assert c.reduce_at("sum", "i64", handle, 0, 16).cells == [struct.pack("<q", -5)]
    memory.close()
    assert c.reduce_at("sum", "i64", handle, 0, 8).cells == [struct.pack("<q", -5)]


def test_memory_is_never_handed_on(both):
    c, side = both
    for _ in range(20):
        handle, memory = side.arena(1 << 20)
        assert memory[:] == bytes(1 << 20)
        memory[:] = b"secret!!" * (1 << 17)
        memory.close()
        side.drop(handle)


def test_an_emptied_arena_reads_as_zero(both):
    """Holes that a client punches are no SIGBUS."""
    c, side = both
    handle, size, (fd,) = side.call(ARENA, 1 << 20)
    memory = mmap.mmap(fd, size)
    memory[:] = b"\x01" * size
    assert c.reduce_at("sum", "u8", handle, 0, size).cells == [struct.pack("<Q", size)]
    subprocess.run(["fallocate", "--punch-hole", "--offset", "0", "--length", str(size), f"/proc/self/fd/{fd}"], check=True, pass_fds=[fd])
    assert c.reduce_at("sum", "u8", handle, 0, size).cells == [struct.pack("<Q", 0)]
    os.close(fd)
    memory.close()


# ---- what is refused ----
def test_the_token_opens_only_its_own_session(calm):
    with calm.connect() as a, calm.connect() as b:
        assert a.welcome["token"] != b.welcome["token"] and any(a.welcome["token"])
        for session, token in ((a.session, b.welcome["token"]), (a.session, bytes(16)), (0, a.welcome["token"]), (7, a.welcome["token"])):
            with Side(a, attach=False) as side:
                refused("AUTH", "token", side.attach, session, token)
                with pytest.raises(Closed):
                    side.attach(a.session, a.welcome["token"])
        with Side(a) as side, Side(a, attach=False) as second:
            refused("AUTH", "token", second.attach, a.session, a.welcome["token"])
            side.arena(4096)[1].close()
        with calm.connect(hello=False) as silent, Side(silent, attach=False) as side:
            refused("AUTH", "token", side.attach, 0, bytes(16))


def test_tcp_has_no_fdpass_socket(calm):
    with calm.connect(tcp=True) as c:
        assert c.welcome["token"] == bytes(16)
        with Side(c, attach=False, path=str(calm.path)) as side:
            refused("AUTH", "token", side.attach, c.session, bytes(16))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_token_is_refused(start, scratch):
    os.chmod(scratch, 0o755)
    daemon = start("--socket-mode", "0666")
    with daemon.connect() as c:
        child = subprocess.run(["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "/usr/bin/python3", "-c", f"""
import socket, struct
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(60)
s.connect({str(daemon.path)!r} + ".side")
s.send(struct.pack("<IIQ", 1, 0, {c.session}) + {c.welcome['token']!r})
print(struct.unpack_from("<II", s.recv(4096))[1], len(s.recv(4096)))
"""], capture_output=True, text=True, timeout=60)
        assert child.stdout.split() == ["17", "0"], child.stderr
        Side(c).close()


def bad_packets():
    good = struct.pack("<IIQ", ARENA, 0, 4096) + bytes(16)
    for n in (0, 1, 31, 33, 64, 4096):
        yield f"length_{n}", (good * 200)[:n], 0
    for kind in (0, 6, 255, 2**32 - 1):
        yield f"kind_{kind}", struct.pack("<IIQ", kind, 0, 0) + bytes(16), 0
    for at in (4, 7, 16, 31):
        yield f"byte_{at}", good[:at] + b"\x01" + good[at + 1:], 0
    yield "second_attach", struct.pack("<IIQ", ATTACH, 0, 1) + bytes(16), 0
    for n in (1, 2, 4, 5, 200):
        yield f"arena_with_{n}_descriptors", good, n
    file = struct.pack("<IIQ", FILE, 0, 0) + bytes(16)
    for n in (0, 2, 3, 4, 5, 9, 253):
        yield f"file_with_{n}_descriptors", file, n
    device = struct.pack("<IIQ", DEVICE, 0, 0) + bytes(80)
    for n in (32, 95, 97, 4096):
        yield f"device_length_{n}", (device * 50)[:n], 0
    for at in (4, 8):
        yield f"device_byte_{at}", device[:at] + b"\x01" + device[at + 1:], 0
    yield "device_with_descriptor", device, 1
    yield "file_value", struct.pack("<IIQ", FILE, 0, 1) + bytes(16), 1
    yield "drop_with_descriptor", struct.pack("<IIQ", DROP, 0, 1) + bytes(16), 1


LONGEST = 97  # bytes of a packet; what is longer is cut by the kernel, and not read


def told(fault, packet, n, attached):
    """The packet's own faults come before its place in the order, and that before its descriptors."""
    kind, size = struct.unpack_from("<I", packet.ljust(4, b"\0"))[0], len(packet)
    malformed = size != (96 if kind == DEVICE else 32) or not ATTACH <= kind <= 6 or any(packet[4:8]) or \
        (kind not in (ATTACH, DEVICE) and any(packet[16:32])) or (kind in (FILE, DEVICE) and any(packet[8:16]))
    field = "packet" if malformed else "kind" if attached == (kind == ATTACH) else "descriptors"
    assert (fault.code, fault.field) == ("BAD_MESSAGE", field) and fault.text
    assert field != "descriptors" or fault.limit == (kind == FILE or kind == 6)


@pytest.mark.parametrize("packet,n", [pytest.param(p, n, id=name) for name, p, n in bad_packets() if p])
@pytest.mark.parametrize("attached", [True, False])
def test_malformed_packets_close_the_channel_only(calm, packet, n, attached):
    if not attached and packet[0] == ATTACH:
        pytest.skip("an ATTACH of a stranger is answered")
    fd = os.open("/dev/null", os.O_RDONLY)
    with calm.connect() as c, Side(c, attach=attached) as side:
        try:
            side.send(packet, [fd] * n)
            with pytest.raises(Fault) as e:
                side.receive(struct.unpack_from("<I", packet)[0] if 32 <= len(packet) <= LONGEST else 0)
            told(e.value, packet, n, attached)
            with pytest.raises(Closed):
                side.receive(FILE)
        except PermissionError:  # the kernel's word
            assert n and not attached
        c.ping(b"still here")
    os.close(fd)


class Lingering:
    """A descriptor whose last close() hangs until give_up(): a tcp socket whose peer does not take what was sent."""

    def __init__(self, seconds=600):
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.socket = socket.create_connection(server.getsockname())
            self.peer = server.accept()[0]
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.send(bytes(1 << 16))
        except BlockingIOError:
            pass

    def give_up(self):
        self.peer.close()


def pass_on(daemon, lingering, send):
    """`send(fds)` hands them over, so that the daemon's will be the last close."""
    daemon.process.send_signal(signal.SIGSTOP)
    send([x.socket.fileno() for x in lingering])
    for x in lingering:
        x.socket.close()
    daemon.process.send_signal(signal.SIGCONT)


def pass_in_queues(side, lingering):
    """In the queues of sockets that are passed: there their linger option cannot be cleared."""
    carriers = [socket.socketpair() for _ in lingering]
    for (into, _), x in zip(carriers, lingering):
        socket.send_fds(into, [b"x"], [x.socket.fileno()])
    side.send(ARENA_PACKET, [out.fileno() for _, out in carriers])
    for s in itertools.chain(*carriers, (x.socket for x in lingering)):
        s.close()


@pytest.fixture
def lingering():
    made = []
    yield lambda: made.append(Lingering()) or made[-1]
    for x in made:
        x.give_up()


ARENA_PACKET = struct.pack("<IIQ", ARENA, 0, 4096) + bytes(16)
FILE_PACKET = struct.pack("<IIQ", FILE, 0, 0) + bytes(16)


@pytest.mark.parametrize("way", ["one of many", "unread", "a stranger's", "among messages"])
def test_descriptors_that_hang_when_they_are_closed(start, lingering, way):
    """... hang nobody but a reader, however they come."""
    daemon = start("--readers", 4)
    x, null = lingering(), os.open("/dev/null", os.O_RDONLY)
    with daemon.connect() as c, daemon.connect() as other, Side(c, attach=way != "a stranger's") as side:
        if way == "one of many":
            pass_on(daemon, [x], lambda fds: side.send(ARENA_PACKET, [null] * 200 + fds))
        elif way == "unread":
            pass_on(daemon, [x], lambda fds: (side.send(ARENA_PACKET + b"malformed"), side.send(FILE_PACKET, fds)))
        elif LINUX < (6, 16):
            pytest.skip("Linux before 6.16 lets descriptors onto every unix socket")
        else:
            with pytest.raises(PermissionError):
                socket.send_fds(side.socket if way == "a stranger's" else c.socket, [b"\x01"], [null])
        other.socket.settimeout(20)  # far less than it hangs
        for _ in range(3):  # turns of the loop: the first one may have been there before
            other.ping(b"still here")
        with daemon.connect(timeout=20) as late, Side(late, timeout=20) as channel:
            channel.arena(4096)[1].close()
    x.give_up()
    os.close(null)


def test_who_hangs_the_readers_does_not_pile_up_descriptors(start, lingering):
    """A user has three quarters of the readers. With these hung, no descriptor that the user passes is closed, so it may pass
    no more."""
    daemon = start("--readers", 4)
    hung = [lingering() for _ in range(3)]
    null = os.open("/dev/null", os.O_RDONLY)
    before = len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
    with daemon.connect() as c, Side(c) as side:
        daemon.process.send_signal(signal.SIGSTOP)
        pass_in_queues(side, hung)
        daemon.process.send_signal(signal.SIGCONT)
        refused("BAD_MESSAGE", "descriptors", side.receive, ARENA)
        with pytest.raises(Closed):
            side.receive(ARENA)
    wait_stuck(daemon, 3)
    for _ in range(20):
        with daemon.connect() as c, pytest.raises(Closed), Side(c) as side:
            side.send(ARENA_PACKET, [null] * 253)
            with contextlib.suppress(Fault):
                side.receive(ARENA)
            side.receive(ARENA)
    assert len(os.listdir(f"/proc/{daemon.process.pid}/fd")) < before + 256 + 253 + 2 * 20
    for x in hung:
        x.give_up()
    settle(daemon)
    end = time.monotonic() + 60
    while True:  # the readers close one after the other
        try:
            with daemon.connect() as c, Side(c) as side:
                side.arena(4096)[1].close()
                break
        except Closed:
            assert time.monotonic() < end
            select_a_moment(daemon.process)
    os.close(null)


@contextlib.contextmanager
def as_peer(uid):
    """What is connected here belongs to another user for the kernel."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def wait_stuck(daemon, n, seconds=30):
    """Wait until `n` threads of the daemon hang."""
    end = time.monotonic() + seconds
    with daemon.connect() as c:
        while (stuck := c.query(2)["side.stuck"]) != n:
            assert time.monotonic() < end, f"{stuck} threads hang instead of {n}"
            select_a_moment(daemon.process)


@needs_root
def test_threads_that_hang_are_replaced(start, scratch, lingering):
    """Two users hang all threads that each may have: a third one is served soon, and no closed descriptor is lost."""
    os.chmod(scratch, 0o755)
    daemon = start("--readers", 4, "--socket-mode", "0666")
    hung = [lingering() for _ in range(6)]
    with contextlib.ExitStack() as stack:
        sides = []
        for uid in (12345, 23456):
            with as_peer(uid):
                sides.append(stack.enter_context(Side(stack.enter_context(daemon.connect()))))
        daemon.process.send_signal(signal.SIGSTOP)  # once: it would wake those that hang already
        for i, side in enumerate(sides):
            pass_in_queues(side, hung[3 * i:3 * i + 3])
        daemon.process.send_signal(signal.SIGCONT)
        for side in sides:
            refused("BAD_MESSAGE", "descriptors", side.receive, ARENA)
    wait_stuck(daemon, 6)
    with daemon.connect(timeout=20) as c, Side(c, timeout=20) as side:
        side.arena(4096)[1].close()
        fd = some_file(scratch, bytes(4096))
        file, _ = side.file(fd)
        os.close(fd)
        assert c.reduce_at("sum", "u8", file, 0, 4096).path == PATH_FILE
    for x in hung:
        x.give_up()
    wait_stuck(daemon, 0)
    settle(daemon)


def test_sockets_that_linger_are_closed_at_once(start, lingering):
    daemon = start("--readers", 1)
    hung = [lingering() for _ in range(3)]
    with daemon.connect() as c, Side(c) as side:
        pass_on(daemon, hung, lambda fds: side.send(ARENA_PACKET, fds))
        refused("BAD_MESSAGE", "descriptors", side.receive, ARENA)
    with daemon.connect(timeout=20) as c, Side(c, timeout=20) as side:
        side.arena(4096)[1].close()
        assert c.query(2)["side.stuck"] == 0


def test_no_descriptors_left_for_the_fdpass_socket(start):
    """New peers wait, and the daemon does not spin meanwhile."""
    daemon = start()

    def limit(n):
        _, most = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
        return resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (n, most))[0]

    def turned_away(c):
        return int(re.search(r'^reduced_turned_away_total{reason="descriptors"} (\d+)$', c.metrics(), re.M)[1])

    with daemon.connect() as c:
        taken = set(map(int, os.listdir(f"/proc/{daemon.process.pid}/fd")))
        old = limit(next(n for n in range(len(taken) + 1) if n not in taken))
        side = Side(c, attach=False)
        began = time.monotonic()
        while not (met := turned_away(c)):
            select_a_moment(daemon.process)
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.process.wait(2)
        assert turned_away(c) - met <= time.monotonic() - began + 1  # one attempt a second
        c.ping(b"still here")
        limit(old)
        side.attach(c.session, c.welcome["token"])
        side.arena(4096)[1].close()
        side.close()


def test_an_engine_on_the_cpu_opens_no_device_memory(both):
    c, side = both
    random.seed(SEED)
    for _ in range(100):  # more than a session has handles: none is kept
        refused("TYPE", "device", side.device, random.randbytes(64))
    c.ping(b"still here")


def test_device_memory_is_for_the_daemons_own_user(start, scratch):
    os.chmod(scratch, 0o755)
    for name in ("rawclient.py", "sideclient.py", "oracle.py"):  # where anybody may read them
        (scratch / name).write_bytes(pathlib.Path(__file__).with_name(name).read_bytes())
    daemon = start("--socket-mode", "0666")
    child = subprocess.run(["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "/usr/bin/python3", "-c", f"""
import sys
sys.path.insert(0, {str(scratch)!r})
from rawclient import Connection, Fault
from sideclient import Side
with Connection({daemon.url!r}) as c:
    c.hello()
    side = Side(c)
    try:
        side.device(bytes(64))
    except Fault as f:
        print(f.code, f.field)
"""], capture_output=True, text=True, timeout=60)
    assert child.stdout.split() == ["AUTH", "device"], child.stderr


def test_only_regular_files_open_for_reading(both, scratch):
    c, side = both
    read, write = os.pipe()
    fifo = scratch / "fifo"
    os.mkfifo(fifo)
    (scratch / "f").write_bytes(b"12345678")
    fds = [read, write, os.open("/dev/zero", os.O_RDONLY), os.open(scratch, os.O_RDONLY), os.open(fifo, os.O_RDWR),
           os.open(scratch / "f", os.O_WRONLY), os.open(scratch / "f", os.O_PATH), socket.socket().detach(), os.eventfd(0),
           os.open("/dev/null", os.O_RDWR)]
    for fd in fds:
        refused("IO", "file", side.file, fd)
        os.close(fd)
    unsealed = os.memfd_create("mine")  # reads like a file, so it may
    os.write(unsealed, struct.pack("<4f", 1, 2, 3, 4))
    handle, size = side.file(unsealed)
    os.ftruncate(unsealed, 8)
    assert c.reduce_at("sum", "f32", handle, 0, 8).cells == [struct.pack("<d", 3)]
    assert refused("IO", "file", c.reduce_at, "sum", "f32", handle, 0, 16).limit == 8
    os.close(unsealed)


def test_files_that_shrink_or_end_early(both, scratch):
    c, side = both
    fd = os.open(scratch / "f", os.O_RDWR | os.O_CREAT)
    os.write(fd, bytes(range(200)))
    os.lseek(fd, 77, os.SEEK_SET)
    handle, size = side.file(fd)
    assert size == 200
    assert c.reduce_at("sum", "u8", handle, 0, 200).cells == [struct.pack("<Q", sum(range(200)))]
    assert refused("IO", "file", c.reduce_at, "sum", "u8", handle, 1, 200).limit == 199
    assert refused("IO", "file", c.reduce_at, "sum", "u8", handle, 10**15, 200).limit == 0
    os.ftruncate(fd, 100)
    assert refused("IO", "file", c.reduce_at, "sum", "u8", handle, 0, 200).limit == 100
    assert c.reduce_at("sum", "u8", handle, 0, 100).cells == [struct.pack("<Q", sum(range(100)))]
    os.ftruncate(fd, 0)
    refused("IO", "file", c.reduce_at, "sum", "u8", handle, 0, 1)
    assert c.reduce_at("sum", "u8", handle, 0, 0).cells == [bytes(8)]
    assert os.lseek(fd, 0, os.SEEK_CUR) == 77  # the position is the client's own
    os.close(fd)


def pages_in_cache(path):
    """How many of the file's pages are in the page cache."""
    m = np.memmap(path, "u1", "r")
    pages = np.zeros(-(-m.size // mmap.PAGESIZE), "u1")
    assert LIBC.mincore(ctypes.c_void_p(m.ctypes.data), ctypes.c_size_t(m.size), ctypes.c_void_p(pages.ctypes.data)) == 0
    return int((pages & 1).sum())


def empties(fd, path):
    """Can the file leave the page cache, and be read around it?"""
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    return pages_in_cache(path) == 0


@pytest.mark.parametrize("where", ["disk", "memory"])
def test_cold_files_give_the_same_bits(start, scratch, where):
    """Around the page cache and through it, wherever ranges begin and end; where there is no way around it, too."""
    folder = pathlib.Path("/dev/shm") if where == "memory" else scratch
    if not folder.exists():
        pytest.skip("no file system in memory")
    data = np.random.default_rng(SEED).integers(0, 256, 9 * MIB + 333, "u1")
    name = f"reduced-test-{scratch.name}"  # as unique as its folder
    fd = some_file(folder, data.tobytes(), name)
    around = empties(fd, folder / name)
    with start("--direct", 1).connect() as c, Side(c) as side, open(folder / name, "r+b") as changed:
        handle, _ = side.file(fd)

        def check(offset, size):
            cells = c.reduce_at("sum", "u8", handle, offset, size).cells
            assert cells == [struct.pack("<Q", int(data[offset:][:size].sum(dtype="u8")))], (offset, size)

        try:
            for offset, size in ((0, 4 * MIB), (64, 4 * MIB), (4095, 3 * MIB + 2), (4096, MIB), (12345, 1), (data.size - 4097, 4097),
                                 (9 * MIB, 333), (8 * MIB + 1, MIB + 332)):
                check(offset, size)
            assert not around or pages_in_cache(folder / name) == 0
            for offset in (9 * MIB, 20 * MIB):
                refused("IO", "file", c.reduce_at, "sum", "u8", handle, offset, 334)
            changed.seek(5 * MIB)  # in part in the cache, and not on the disk yet
            changed.write(b"\1" * MIB)
            changed.flush()
            data[5 * MIB : 6 * MIB] = 1
            check(4 * MIB - 7, 4 * MIB)
            check(5 * MIB + 5, MIB - 10)
        finally:
            (folder / name).unlink()
            os.close(fd)


@pytest.mark.parametrize("path, name", [("/proc/self/mem", "proc"), ("/proc/self/stat", "proc"), ("/sys/kernel/mm/transparent_hugepage/enabled", "sysfs")])
def test_the_kernels_own_files_are_not_read(both, path, name):
    """They show the reader what their opener may not see, and may hang."""
    c, side = both
    if not os.path.exists(path):
        pytest.skip(f"no {path} here")
    fd = os.open(path, os.O_RDONLY)
    fault = refused("IO", "file", side.file, fd)
    assert name in fault.text and fault.limit in (0x9fa0, 0x62656572)
    os.close(fd)
    c.ping(b"still here")


def test_read_errors(both, scratch):
    c, side = both
    os.close(some_file(scratch, bytes(4096)))
    try:
        fd = os.open(scratch / "data", os.O_RDONLY | os.O_DIRECT)
        os.preadv(fd, [bytearray(100)], 0)
    except OSError as e:
        assert e.errno == errno.EINVAL
    else:
        pytest.skip("this file system reads anything with O_DIRECT")
    handle, _ = side.file(fd)  # no length of 100 bytes is read
    refused("IO", "file", c.reduce_at, "sum", "u8", handle, 0, 100)
    os.close(fd)


@pytest.mark.parametrize("offset,length", [(0, 8193), (8192, 1), (8193, 0), (2**63, 1), (2**64 - 1, 1), (2**64 - 1, 2), (1, 8192),
                                           (2**64 - 4096, 8192)])
def test_ranges_outside_an_arena(both, offset, length):
    c, side = both
    handle, memory = side.arena(8192)
    assert refused("SHAPE", "offset", c.reduce_at, "sum", "u8", handle, offset, length).limit == 8192
    memory.close()


def test_ranges_and_specs_that_lie(both, scratch):
    c, side = both
    handle, memory = side.arena(16384)
    fd = some_file(scratch, bytes(1000))
    file, _ = side.file(fd)
    os.close(fd)
    assert refused("SHAPE", "offset", c.reduce_at, "sum", "u8", file, 2**63, 1).limit == 2**63 - 1
    for h in (handle, file):
        assert refused("TOO_LARGE", "length", c.reduce_at, "sum", "u8", h, 0, MAX_DATA + 1).limit == MAX_DATA
        refused("TOO_LARGE", "length", c.reduce_at, "sum", "u8", h, 0, 2**64 - 1, row_len=1)
        refused("SHAPE", "data", c.reduce_at, "sum", "f32", h, 0, 7)
        refused("SHAPE", "row_len", c.reduce_at, "sum", "f32", h, 0, 8, row_len=3)
        refused("SHAPE", "row_len", c.reduce_at, "sum", "f32", h, 0, 8, row_len=2**59, rows=2)
        for flags in (OFFSETS, STATES_IN, STATES_IN | STATES_OUT):
            refused("BAD_MESSAGE", "flags", c.reduce_at, "sum", "f32", h, 0, 64, flags=flags, row_len=1)
        refused("OP", "op", c.reduce_at, 99, "f32", h, 0, 8)
        refused("SHAPE", "rows", c.reduce_at, "sum", "f32", h, 0, 8, rows=0, row_len=2)
        assert refused("EMPTY", "row_len", c.reduce_at, "min", "f32", h, 0, 0).index == 0
    refused("BAD_HANDLE", "handle", c.reduce_at, "sum", "u8", handle ^ 1, 0, 1)
    refused("BAD_HANDLE", "handle", c.reduce_at, "sum", "u8", 0, 0, 1)
    for n in (0, 63, 64, 87):
        refused("BAD_MESSAGE", "reduce_at", c.call, REDUCE_AT, bytes(n))
    memory.close()


def test_handles_belong_to_their_session(calm):
    with calm.connect() as a, calm.connect() as b, Side(a) as side_a, Side(b) as side_b:
        handle, memory = side_a.arena(4096)
        refused("BAD_HANDLE", "handle", b.reduce_at, "sum", "u8", handle, 0, 1)
        side_b.drop(handle)
        side_b.arena(4096)[1].close()  # an answer: the drop before it is through
        assert a.reduce_at("sum", "u8", handle, 0, 1).cells == [bytes(8)]
        side_a.drop(handle)
        side_a.drop(handle)
        side_a.arena(4096)[1].close()
        refused("BAD_HANDLE", "handle", a.reduce_at, "sum", "u8", handle, 0, 1)
        memory.close()


def test_handles_end_with_the_channel_and_the_session_goes_on(calm):
    with calm.connect() as c:
        with Side(c) as side:
            handle, memory = side.arena(4096)
        while True:  # the closing is under way
            try:
                c.reduce_at("sum", "u8", handle, 0, 1)
            except Fault as e:
                assert e.code == "BAD_HANDLE"
                break
        with Side(c) as side:
            refused("BAD_HANDLE", "handle", c.reduce_at, "sum", "u8", handle, 0, 1)
            again, more = side.arena(4096)
            assert again != handle and c.reduce_at("sum", "u8", again, 0, 1).cells == [bytes(8)]
            more.close()
        memory.close()


def test_no_fdpass_socket_where_the_path_is_too_long(start, scratch):
    path = scratch / ("d" * (106 - len(str(scratch)) - 1))
    daemon = start("--listen", f"ipc://{path}")
    with Connection(f"ipc://{path}") as c:
        c.hello()
        assert not pathlib.Path(f"{path}.side").exists()
        with Side(c, attach=False, path=str(daemon.path)) as side:  # the other socket's is as good
            side.attach(c.session, c.welcome["token"])
        assert c.reduce("sum", "u8", b"\1\2").cells == [struct.pack("<Q", 3)]
    assert "no fdpass socket" in daemon.log()


def test_the_sockets_mode_and_its_end(start, scratch):
    daemon = start("--socket-mode", "0600")
    side = pathlib.Path(f"{daemon.path}.side")
    assert side.is_socket() and side.stat().st_mode & 0o777 == 0o600
    daemon.kill()
    assert side.exists()
    daemon = start()
    with daemon.connect() as c, Side(c) as s:
        s.arena(4096)[1].close()
    daemon.stop()
    assert not side.exists()


def test_what_lies_in_the_way_is_not_removed(start, scratch):
    (scratch / "s.side").write_text("mine")
    daemon = start()
    with daemon.connect() as c:
        assert c.welcome["token"] == bytes(16)
    assert (scratch / "s.side").read_text() == "mine"


# ---- caps ----
def test_quotas_of_arenas(start):
    daemon = start("--arena", 8, "--arena-user", 4)
    with daemon.connect() as a, daemon.connect() as b, Side(a) as side_a, Side(b) as side_b:
        assert refused("TOO_LARGE", "bytes", side_a.call, ARENA, (4 << 20) + 1).limit == 4 << 20
        for size in (0, 2**63, 2**64 - 1, 2**64 - 4096):
            refused("TOO_LARGE", "bytes", side_a.call, ARENA, size)
        handle, memory = side_a.arena(3 << 20)
        assert refused("QUOTA", "arena", side_b.call, ARENA, 2 << 20).limit == 4 << 20
        memory.close()
        side_b.arena(1 << 20)[1].close()
        side_a.drop(handle)
        take_when_free(side_b, 3 << 20)


def take_when_free(side, size):
    """An arena that there is room for once a thread of the daemon has closed another one: it unmaps that first."""
    end = time.monotonic() + 20
    while True:
        try:
            side.arena(size)[1].close()
            return
        except Fault as e:
            assert e.code == "QUOTA" and time.monotonic() < end


@pytest.mark.parametrize("end", ["DROP", "session"])
def test_arenas_are_charged_until_they_are_gone(start, end):
    """However they are given up: as long as the client has one mapped or open, its bytes count. DROP frees the pages."""
    daemon = start("--arena", 8, "--arena-user", 4)
    with daemon.connect() as c, Side(c) as side, daemon.connect() as other, Side(other) as again:
        handle, memory = side.arena(3 * MIB)
        memory[:] = b"\7" * (3 * MIB)
        if end == "DROP":
            side.drop(handle)
        else:
            side.close()
            c.close()
        wait_dropped(daemon)
        assert refused("QUOTA", "arena", again.arena, 3 * MIB).limit == 4 * MIB
        until = time.monotonic() + 20
        while end == "DROP" and memory[3 * MIB - 1]:  # the daemon unmaps the pages first, then it frees them
            assert time.monotonic() < until
            select_a_moment(daemon.process)
        assert memory[3 * MIB - 1] == (0 if end == "DROP" else 7)  # a program may still use what a session has left behind
        memory[:] = b"\7" * (3 * MIB)  # it can be filled again
        assert refused("QUOTA", "arena", again.arena, 3 * MIB).limit == 4 * MIB
        memory.close()
        take_when_free(again, 3 * MIB)


def test_a_daemon_leaves_while_its_arenas_are_in_use(start):
    """The daemon leaves at once, and removes its sockets; a client that has the memory keeps it."""
    took = []
    for _ in range(3):  # on a busy machine one end of a process may take long; the limit is met each time
        daemon = start()
        with daemon.connect() as c, Side(c) as side:
            _, memory = side.arena(MIB)
        wait_dropped(daemon)
        begin = time.monotonic()
        daemon.stop()
        took.append(time.monotonic() - begin)
        assert not daemon.path.exists() and not pathlib.Path(f"{daemon.path}.side").exists()
        memory[:] = b"\7" * MIB
        memory.close()
        if took[-1] < 4:
            break
    assert min(took) < 4, "something waited until the limit"


def wait_dropped(daemon):
    """Until the daemon has no arena mapped."""
    end = time.monotonic() + 20
    while "/memfd:reduced" in pathlib.Path(f"/proc/{daemon.process.pid}/maps").read_text():
        assert time.monotonic() < end
        select_a_moment(daemon.process)


def test_quota_of_handles(both, scratch):
    c, side = both
    fd = some_file(scratch, b"1234")
    handles = [side.file(fd)[0] for _ in range(64)]
    assert refused("QUOTA", "handles", side.file, fd).limit == 64
    refused("QUOTA", "handles", side.call, ARENA, 4096)
    side.drop(handles[0])
    handles[0] = side.file(fd)[0]
    for h in handles:
        assert c.reduce_at("sum", "u8", h, 0, 4).cells == [struct.pack("<Q", sum(b"1234"))]
    os.close(fd)


def test_quota_of_a_users_files(calm, scratch):
    fd = some_file(scratch, b"1234")
    connections = [calm.connect() for _ in range(5)]
    sides = [Side(c) for c in connections]
    for side in sides[:4]:
        for _ in range(64):
            side.file(fd)
    assert refused("QUOTA", "files", sides[4].file, fd).limit == 256
    sides[4].arena(4096)[1].close()
    for x in sides + connections:
        x.close()
    os.close(fd)


def test_unauthenticated_channels_keep_nobody_out(calm):
    with calm.connect() as c:
        strangers = [Side(c, attach=False) for _ in range(80)]
        with Side(c) as side:
            side.arena(4096)[1].close()
            with pytest.raises(Closed):
                strangers[0].receive(ATTACH)
        for s in strangers:
            s.close()


# ---- clients that die ----
CLIENT = """
import mmap, os, socket, struct, sys
sys.path.insert(0, sys.argv[1])
from rawclient import REDUCE_AT, Connection, spec
from sideclient import Side
c = Connection(sys.argv[2])
c.hello()
side = Side(c)
fd = os.open(sys.argv[3], os.O_RDONLY)
file, size = side.file(fd)
arena, memory = side.arena(8 << 20)
print("ready", flush=True)
while True:
    sent = []
    for at in range(0, size, 4 << 20):
        n = min(4 << 20, size - at)
        sent.append(c.send(REDUCE_AT, spec("stats", "f32", row_len=n // 4) + struct.pack("<QQQ", file, at, n)))
        memory[:1 << 20] = bytes(1 << 20)
        sent.append(c.send(REDUCE_AT, spec("stats", "f64", row_len=1 << 19) + struct.pack("<QQQ", arena, 0, 4 << 20)))
    for s in sent:
        c.wait(s)
"""


@pytest.mark.parametrize("n", [20])
def test_killed_clients_leave_nothing(calm, scratch, n):
    """kill -9 at random moments: while they copy, while they wait, while the engine works."""
    data = scratch / "data"
    data.write_bytes(random.Random(SEED).randbytes(1 << 20) * 24)
    pick = random.Random(SEED)
    tests = str(pathlib.Path(__file__).parent)
    for _ in range(n):
        p = subprocess.Popen([sys.executable, "-c", CLIENT, tests, calm.url, data], stdout=subprocess.PIPE)
        assert p.stdout.readline() == b"ready\n"
        try:
            p.wait(pick.uniform(0, 0.03))
        except subprocess.TimeoutExpired:
            pass
        p.send_signal(signal.SIGKILL)
        p.wait()
        p.stdout.close()
    assert calm.status()["health"] == "ok"


def test_sessions_that_hang_up_in_the_middle(calm, scratch):
    """The same from one process, and far more often: the connection, the channel, or both go at once."""
    fd = some_file(scratch, bytes(8 << 20))
    pick = random.Random(SEED)
    for i in range(300):
        c = calm.connect()
        side = Side(c)
        file, _ = side.file(fd)
        arena, size, fds = side.call(ARENA, 4 << 20)
        os.close(fds[0])
        for _ in range(pick.randrange(1, 12)):
            handle = pick.choice((file, arena))
            c.send(REDUCE_AT, spec("sum", "f32", row_len=1 << 20) + struct.pack("<QQQ", handle, 0, 4 << 20))
        if i % 3 == 0:
            side.send(side.packet(pick.choice((FILE, ARENA)), 4096), [fd] * pick.randrange(2))
        first, second = pick.sample((c, side), 2)
        first.close()
        second.close()
    os.close(fd)


def test_a_peer_that_leaves_answers_unread(calm, scratch):
    """The daemon's socket then fails instead of ending; nothing but its own channel goes."""
    fd = some_file(scratch, bytes(1 << 20))
    with calm.connect() as bystander, Side(bystander) as theirs:
        for _ in range(100):
            with calm.connect() as c:
                side = Side(c)
                side.file(fd)
                side.send(side.packet(ARENA, 4096))
                select.select([side.socket], [], [])
                side.close()
            handle, size = theirs.file(fd)
            assert bystander.reduce_at("sum", "u8", handle, 0, size).cells == [bytes(8)]
            theirs.drop(handle)
    os.close(fd)


def test_an_arena_written_during_the_request(both):
    """Any result, but a result, and the daemon lives."""
    c, side = both
    handle, memory = side.arena(4 << 20)
    noise = [random.Random(i).randbytes(1 << 16) for i in range(4)] + [b"\xff" * (1 << 16), bytes(1 << 16)]
    pick = random.Random(SEED)
    for op in ("stats", "sum", "argmax", "prod", "min", "sumsq", "minmax"):
        for dtype in ("f32", "f64", "f16", "i32"):
            size = {"f32": 4, "f64": 8, "f16": 2, "i32": 4}[dtype]
            flags = STATES_OUT
            sent = [c.send(REDUCE_AT, spec(op, dtype, row_len=(4 << 20) // size, flags=flags) + struct.pack("<QQQ", handle, 0, 4 << 20))
                    for _ in range(3)]
            for _ in range(20):
                at = pick.randrange(0, 64) << 16
                memory[at:at + (1 << 16)] = pick.choice(noise)
            for s in sent:
                assert len(c.wait(s)) > 48
    memory.close()


def test_deadlines_hold(both, scratch):
    c, side = both
    fd = some_file(scratch, bytes(16 << 20))
    handle, size = side.file(fd)
    os.close(fd)
    late = 0
    length = 1 << 20 if sanitizer() == "thread" else 4 << 20  # bytes: longer than the deadline
    sent = [c.send(REDUCE_AT, spec("stats", "f64", row_len=length // 8) + struct.pack("<QQQ", handle, 0, length), time_ms=1) for _ in range(60)]
    for s in sent:
        try:
            c.wait(s)
        except Fault as e:
            assert e.code == "DEADLINE"
            late += 1
    assert late > 0
    assert c.reduce_at("stats", "f64", handle, 0, 4 << 20).path == PATH_FILE
