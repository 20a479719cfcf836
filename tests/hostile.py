"""Attacks on a daemon by users with and without permission to use it, beside an honest client that is measured.

Each attack is a function of a Target. It runs in processes of an unprivileged uid, again and again until the time is over; it
expects to be refused or cut off. The honest client is a process of yet another uid. A cycle of its work is: a greeting, a small
sum (fast path), one of 256 KiB (loop), one of a passed file (reader), one of an arena, a ping on a connection that stays.

    make hostile EACH=5      every attack for 5 s, on a plain and on a sanitizer build; a table at the end
"""
import contextlib
import ctypes
import itertools
import mmap
import os
import random
import select
import socket
import ssl
import struct
import subprocess
import tempfile
import time
import traceback

import numpy as np

from rawclient import (ABORT, APPEND, BEGIN, CANCEL, COMMIT, DROP, DROP_OUTSIDE, FINISH, HELLO, KEYS, LIST, MAX_DATA, PING, QUERY, REDUCE, REDUCE_AT, STATES_IN,
                       STORE, WRITE, Closed, Connection, Fault, ProtocolError, companion, header, spec, store)
from sideclient import ARENA, FILE, Side

GREETING = b"\0SP\0\0\x30\0\0"
WIDE = spec("sum", "u8", rows=MAX_DATA // 8, row_len=0)  # 64 bytes whose reply has 4 MiB
SLOW = spec("var", "f64", rows=1 << 16, row_len=2)  # of 1 MiB: some 100 ms on a core
MIB = bytes(1 << 20)
HONEST, ATTACKER, BARRED = 31001, 31002, 31003


class Target:
    def __init__(self, url, tcp=None, tls=None, end=0.0, runtime=None):
        self.url, self.tcp, self.tls, self.end = url, tcp, tls, end
        self.runtime = runtime  # an attacker's folder
        self.path = url.removeprefix("ipc://")

    def connect(self, url=None, hello=True, timeout=5.0):
        c = Connection(url or self.url, timeout)
        if hello:
            c.hello(name=b"hostile")
        return c

    def raw(self, path=None):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(5)
        s.connect(path or self.path)
        return s

    def network(self, url):
        host, port = url.rsplit("/", 1)[1].rsplit(":", 1)
        return socket.create_connection((host, int(port)), 5)

    def left(self):
        return max(0.0, self.end - time.monotonic())


ATTACKS = {}


def attack(issue=None, uid=ATTACKER, processes=1, strangers=False, slow=False, lures=False, fills=False):
    """`lures`: root runs clients meanwhile whose environment leads to the attacker. `issue`: the number in issue 14 of what broke; `strangers`: the daemon may hold 64 MiB for them at most. `slow`: its
    tasks take long. Nobody interrupts a task, so each of a cycle's three may wait for the one that runs and for the one behind it.
    `fills`: it makes the daemon allocate hundreds of MiB, which a sanitizer's allocator maps, poisons and keeps for a while."""
    def add(f):
        ATTACKS[f.__name__] = f
        f.issue, f.uid, f.processes, f.strangers, f.slow, f.lures, f.fills = issue, uid, processes, strangers, slow, lures, fills
        return f
    return add


def try_call(call, *arguments, **fields):
    """The daemon may refuse it."""
    with contextlib.suppress(Fault):
        call(*arguments, **fields)


def hold(target, things):
    """Hold what was opened for a moment, and drop it."""
    time.sleep(min(0.3, target.left()))  # poll interval: the attack holds them meanwhile; no check waits for it
    for x in things:
        x.close()


# ---- what broke (the numbers of issue 14) ----
@attack(1, processes=3, slow=True)
def replies_that_nobody_reads(t):
    c = t.connect()
    for _ in range(16):
        c.send(REDUCE, WIDE)
    hold(t, [c])


@attack(1, processes=4, slow=True)
def replies_that_are_read_slowly(t):
    c = t.connect()
    for _ in range(8):
        c.send(REDUCE, WIDE)
    while t.left():
        c.socket.recv(2400)
        time.sleep(0.1)  # poll interval: the attack has a pace of 24 kB/s, as in the report
    c.close()


@attack(1, uid=BARRED, processes=2)
def refusals_that_nobody_reads(t):
    s = t.raw()
    s.sendall(GREETING)
    frame = struct.pack(">I", 0x80000001) + header(PING, 0)
    with_head = b"\x01" + struct.pack(">Q", len(frame)) + frame
    for _ in range(1000):
        s.sendall(with_head)
    s.close()


def lingering_sockets(n):
    """TCP sockets whose close takes long: unsent bytes, SO_LINGER, and a peer that does not read."""
    pairs = []
    with socket.create_server(("127.0.0.1", 0)) as door:
        for _ in range(n):
            a = socket.create_connection(door.getsockname())
            b, _ = door.accept()
            b.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 5))
            b.setblocking(False)
            try:
                while True:
                    b.send(MIB)
            except BlockingIOError:
                pass
            pairs.append((a, b))
    return pairs


@attack(2)
def descriptors_whose_close_hangs(t):
    pairs = lingering_sockets(3)
    with t.connect() as c, Side(c, timeout=5) as side:
        side.send(side.packet(FILE), [b.fileno() for _, b in pairs])
        for _, b in pairs:
            b.close()
    hold(t, [a for a, _ in pairs])


@attack(2, processes=2, fills=True)
def hundreds_of_stores(t):
    with t.connect() as c:
        sent = [c.send(STORE, store(f"x{i}", "u8", 1 << 20)) for i in range(330)]
        for s in sent:
            try_call(c.wait, s)


@attack(3, uid=BARRED, strangers=True)
def silent_connections(t):
    held = []
    try:
        for _ in range(1500):
            held.append(t.raw())
    except OSError:
        pass
    hold(t, held)


@attack(3, strangers=True)
def silent_network_peers(t):
    held = []
    try:
        for _ in range(800):
            held.append(t.network(t.tcp))
    except OSError:
        pass
    hold(t, held)


@attack(3, strangers=True)
def handshakes_that_do_not_end(t):
    """The first message of TLS, and no more."""
    hello = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    try:
        context.wrap_bio(*hello, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    first, held = hello[1].read(), []
    try:
        for _ in range(400):
            held.append(t.network(t.tls))
            held[-1].sendall(first)
    except OSError:
        pass
    hold(t, held)


@attack(4, strangers=True)
def half_frames(t):
    """Heads of frames of 4 MiB, with a byte of each."""
    held = []
    for _ in range(300):
        held.append(t.raw())
        held[-1].sendall(GREETING + b"\x01" + struct.pack(">Q", MAX_DATA) + b"x")
    hold(t, held)


@attack(4)
def half_frames_of_a_session(t):
    held = [t.connect() for _ in range(40)]
    for c in held:
        c.socket.sendall(b"\x01" + struct.pack(">Q", MAX_DATA) + MIB[:70000])
    hold(t, held)


@attack(5)
def arenas_dropped_while_mapped(t):
    maps = []
    with t.connect() as c, Side(c, timeout=5) as side:
        try:
            for _ in range(100):
                handle, m = side.arena(1 << 20)
                m[:] = MIB
                maps.append(m)
                side.drop(handle)
        except Fault:
            pass
    hold(t, maps)


@attack(6)
def files_that_block(t):
    """A pipe cannot be passed; memory of this process and its own files of /proc can be tried."""
    with t.connect() as c, Side(c, timeout=5) as side:
        for name in ("/proc/self/mem", "/proc/self/environ", "/proc/self/maps", "/proc/kmsg", "/sys/kernel/mm/transparent_hugepage/enabled"):
            try:
                fd = os.open(name, os.O_RDONLY)
                try:
                    handle, size = side.file(fd)
                    c.reduce_at("sum", "u8", handle, 0, max(size, 1))
                finally:
                    os.close(fd)
            except (Fault, OSError):
                pass


@attack(7, processes=2)
def readers_hung_by_two(t):
    pairs = lingering_sockets(2)
    with t.connect() as c, Side(c, timeout=5) as side:
        side.send(side.packet(ARENA, 4096), [b.fileno() for _, b in pairs])
        for _, b in pairs:
            b.close()
        hold(t, [a for a, _ in pairs])


@attack(8)
def files_of_proc(t):
    """The stack pointers of init, which this user may not read: as a file of procfs, opened here and read there."""
    with t.connect() as c, Side(c, timeout=5) as side:
        for name in ("/proc/1/stat", "/proc/1/status", "/proc/1/wchan", "/proc/self/stat"):
            fd = os.open(name, os.O_RDONLY)
            try:
                handle, size = side.file(fd)
                c.reduce_at("sum", "u8", handle, 0, 64)
            except Fault:
                pass
            finally:
                os.close(fd)


@attack(9)
def a_namespace_of_unmapped_users(t):
    """In a user namespace without a map this process is 65534."""
    pid = os.fork()
    if pid == 0:
        try:
            if ctypes.CDLL(None).unshare(0x10000000) == 0:
                with t.connect() as c:
                    c.put("unmapped", "u8", b"secret")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


@attack(11)
def links_beside_the_socket(t):
    """Names in the daemon's folder are not for others to make."""
    for name in ("s.lock", "s.side", "s"):
        try:
            os.symlink("/etc/passwd", os.path.join(os.path.dirname(t.path), name + ".x"))
            raise AssertionError("the folder of the socket is open to all")
        except OSError:
            pass
    time.sleep(0.01)  # poll interval: the pace of the attack; no check waits for it


@attack(12)
def an_arena_that_changes(t):
    with t.connect() as c, Side(c, timeout=5) as side:
        handle, m = side.arena(1 << 20)
        values = [np.random.default_rng(i).bytes(1 << 20) for i in range(2)]
        for i in range(20):
            m[:] = values[i % 2]
            sent = [c.send(REDUCE_AT, spec(op, dtype, row_len=(1 << 20) // size) + struct.pack("<QQQ", handle, 0, 1 << 20))
                    for op, dtype, size in (("var", "f32", 4), ("sum", "f32", 4), ("norm2", "i16", 2), ("sum", "f64", 8))]
            m[:] = values[1 - i % 2]
            for s in sent:
                try_call(c.wait, s)
        m.close()


@attack(13)
def streams_that_are_left_open(t):
    held = [t.connect() for _ in range(8)]
    for c in held:
        for _ in range(64):
            try:
                c.append(c.begin("var", "f64"), 0, bytes(800))
            except Fault:
                break
    hold(t, held)


# ---- more of our own ----
@attack(processes=2)
def a_flood_of_pings(t):
    with t.connect() as c:
        for _ in range(20):
            for s in [c.send(PING, bytes(8)) for _ in range(100)]:
                c.wait(s)


@attack(processes=2)
def a_flood_of_small_requests(t):
    with t.connect() as c:
        body = c.reduce_body("sum", "f64", bytes(8192))
        for _ in range(20):
            for s in [c.send(REDUCE, body) for _ in range(60)]:
                c.wait(s)


@attack(processes=2, slow=True)
def a_flood_of_slow_requests(t):
    with t.connect() as c:
        for s in [c.send(REDUCE, SLOW + MIB) for _ in range(4)]:
            c.wait(s)


@attack(processes=2, slow=True)
def slow_requests_of_many_sessions(t):
    held = [t.connect(timeout=20) for _ in range(10)]
    sent = [(c, c.send(REDUCE, SLOW + MIB)) for c in held]
    for c, s in sent:
        try_call(c.wait, s)
        c.close()


@attack(slow=True)
def slow_requests_abandoned(t):
    c = t.connect()
    for _ in range(8):
        c.send(REDUCE, SLOW + MIB)
    c.close()


@attack(slow=True)
def slow_requests_cancelled(t):
    with t.connect() as c:
        sent = [c.send(REDUCE, SLOW + MIB) for _ in range(8)]
        for s in sent:
            c.cancel(s)
        for s in sent:
            try_call(c.wait, s)


@attack(slow=True)
def deadlines_of_a_millisecond(t):
    with t.connect() as c:
        for s in [c.send(REDUCE, SLOW + MIB, time_ms=1) for _ in range(8)]:
            try_call(c.wait, s)


@attack()
def cancels_of_everybody(t):
    with t.connect() as c:
        for s in [c.send(CANCEL, struct.pack("<Q", i << 32 | REDUCE)) for i in range(200)]:
            c.wait(s)


@attack()
def connections_come_and_go(t):
    for _ in range(50):
        t.raw().close()


@attack()
def sessions_come_and_go(t):
    for _ in range(20):
        t.connect().close()


@attack()
def sessions_to_the_limit(t):
    held = []
    try:
        for _ in range(3000):
            held.append(t.connect())
    except (Fault, Closed, OSError):
        pass
    hold(t, held)


@attack()
def greetings_without_end(t):
    with t.connect() as c:
        for _ in range(100):
            c.hello()


@attack()
def queries_of_everything(t):
    with t.connect() as c:
        for _ in range(50):
            for topic in (1, 2, 3, 4, 5, 0xFFFFFFFF):
                try_call(c.call, QUERY, struct.pack("<I4x", topic))


@attack(strangers=True)
def noise(t):
    with t.raw() as s:
        s.sendall(random.randbytes(4096))


@attack(strangers=True)
def noise_on_the_network(t):
    for url in (t.tcp, t.tls):
        with t.network(url) as s:
            s.sendall(random.randbytes(4096))


@attack()
def noise_in_a_session(t):
    with t.connect() as c:
        for _ in range(50):
            c.send_frame(random.randbytes(random.randrange(200)))


@attack()
def noise_behind_headers(t):
    with t.connect() as c:
        for kind in range(20):
            body = random.randbytes(random.randrange(300))
            c.send(kind, body)
            c.send_raw(header(kind, 1 << 40, session=c.session) + body)


@attack(strangers=True)
def lengths_that_lie(t):
    for length in (0, 1, MAX_DATA + 109, 1 << 31, 1 << 63, (1 << 64) - 1):
        with t.raw() as s:
            s.sendall(GREETING + b"\x01" + struct.pack(">Q", length) + bytes(64))


@attack(strangers=True)
def bytes_one_by_one(t):
    with t.raw() as s:
        for b in GREETING + b"\x01" + struct.pack(">Q", 60) + bytes(60):
            s.sendall(bytes([b]))
            time.sleep(0.002)  # poll interval: the pace of the attack; no check waits for it


@attack()
def frames_byte_by_byte(t):
    with t.connect() as c:
        frame = struct.pack(">I", 0x80000001) + header(PING, 8, session=c.session) + bytes(8)
        for b in b"\x01" + struct.pack(">Q", len(frame)) + frame:
            c.socket.sendall(bytes([b]))


@attack()
def shapes_that_overflow(t):
    with t.connect() as c:
        for rows, row_len in itertools.product((0, 1, 1 << 32, 1 << 63, (1 << 64) - 1), repeat=2):
            try_call(c.call, REDUCE, spec("sum", "f64", rows=rows, row_len=row_len) + bytes(64))


@attack()
def offsets_that_lie(t):
    with t.connect() as c:
        for offsets in ((0, 1 << 63), (8, 0), ((1 << 64) - 8, 16), (0, 3), (0, 8, 4, 16)):
            try_call(c.reduce, "sum", "u8", bytes(16), offsets=offsets)


@attack()
def states_of_noise(t):
    with t.connect() as c:
        for op, dtype, size in (("sum", "f64", 304), ("var", "f32", 872), ("prod", "f64", 80), ("min", "f64", 32)):
            try_call(c.call, REDUCE, spec(op, dtype, flags=STATES_IN, row_len=4) + random.randbytes(4 * size))


@attack(slow=True)
def replies_as_wide_as_they_get(t):
    with t.connect() as c:
        for s in [c.send(REDUCE, WIDE) for _ in range(4)]:
            c.wait(s)


@attack()
def streams_cut_anywhere(t):
    with t.connect() as c:
        s = c.begin("sum", "f64")
        for at in (0, 64, 1 << 40, 32):
            try_call(c.append, s, at, bytes(512))
        for kind, body in ((FINISH, struct.pack("<QQ", s, 999)), (ABORT, struct.pack("<Q", s)), (APPEND, struct.pack("<QQ", s, 0) + MIB)):
            try_call(c.call, kind, body)


@attack()
def streams_begun_and_forgotten(t):
    with t.connect() as c:
        for _ in range(100):
            c.send(BEGIN, spec("var", "f64"))
        hold(t, [])


@attack()
def resident_data_to_the_quota(t):
    with t.connect() as c:
        try:
            for i in range(300):
                c.put(f"r{i}", "u8", MIB[:65536], replace=True)
        except Fault:
            pass
        for x in c.list():
            c.drop(x.name)


@attack()
def resident_data_half_written(t):
    held = [t.connect() for _ in range(8)]
    for i, c in enumerate(held):
        try:
            handle = c.store(f"h{i}", "u8", 1 << 22)
            c.send(WRITE, struct.pack("<QQ", handle, 0) + MIB)
            c.send(COMMIT, struct.pack("<Q", handle))
        except Fault:
            pass
    hold(t, held)


@attack()
def names_of_resident_data(t):
    with t.connect() as c:
        for name in (b"", b"\0", b"a" * 300, b"../../etc/passwd", b"%s%n", b"\xff\xfe", b"a\nb"):
            for kind, body in ((STORE, store(name, "u8", 8)), (DROP, name), (LIST, name)):
                try_call(c.call, kind, body)


@attack()
def handles_guessed(t):
    with t.connect() as c:
        for handle in (0, 1, 2, (1 << 64) - 1, *(random.getrandbits(64) for _ in range(60))):
            try_call(c.reduce_at, "sum", "u8", handle, 0, 64)


@attack()
def sessions_guessed(t):
    with t.connect(hello=False) as c:
        for s in [c.send(PING, bytes(8), session=random.getrandbits(64)) for _ in range(50)]:
            try_call(c.wait, s)


@attack(strangers=True)
def fdpass_strangers(t):
    held = []
    try:
        for _ in range(200):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.settimeout(1)
            s.connect(t.path + ".side")
            held.append(s)
    except OSError:
        pass
    hold(t, held)


@attack(strangers=True)
def fdpass_tokens_guessed(t):
    for _ in range(50):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(5)
        s.connect(t.path + ".side")
        s.send(struct.pack("<IIQ", 1, 0, random.getrandbits(64)) + random.randbytes(16))
        s.recv(4096)
        s.close()


@attack()
def fdpass_packets_of_noise(t):
    for n in (0, 1, 31, 32, 33, 200, 4096):
        with t.connect() as c, Side(c, timeout=5) as side:
            side.send(random.randbytes(n) or b"\0", [0])


@attack()
def fdpass_descriptors_by_the_hundred(t):
    with t.connect() as c, Side(c, timeout=5) as side:
        null = os.open("/dev/null", os.O_RDONLY)
        try:
            for _ in range(10):
                side.send(side.packet(FILE), [null] * 250)
        finally:
            os.close(null)


@attack()
def fdpass_files_to_the_limit(t):
    with t.connect() as c, Side(c, timeout=5) as side:
        fd = os.open("/etc/passwd", os.O_RDONLY)
        try:
            for _ in range(2000):
                side.file(fd)
        except Fault:
            pass
        finally:
            os.close(fd)


@attack()
def fdpass_of_odd_kinds(t):
    with t.connect() as c, Side(c, timeout=5) as side:
        for fd in (os.pipe()[0], os.open("/", os.O_RDONLY), os.open("/dev/zero", os.O_RDONLY), os.memfd_create("x"), os.eventfd(0),
                   socket.socket().detach()):
            try:
                try_call(side.file, fd)
            finally:
                os.close(fd)


@attack()
def arenas_to_the_quota(t):
    with t.connect() as c, Side(c, timeout=5) as side:
        maps = []
        try:
            for size in (1 << 62, 0, *([16 << 20] * 64)):
                try:
                    maps.append(side.arena(size)[1])
                except (Fault, ValueError, OSError):
                    pass
        finally:
            for m in maps:
                m.close()


@attack()
def arenas_punched_while_read(t):
    with t.connect() as c, Side(c, timeout=5) as side:
        handle, m = side.arena(1 << 20)
        for _ in range(10):
            m[:] = MIB
            s = c.send(REDUCE_AT, spec("sum", "f64", row_len=1 << 17) + struct.pack("<QQQ", handle, 0, 1 << 20))
            m.madvise(mmap.MADV_REMOVE)
            c.wait(s)
        m.close()


@attack()
def keys_that_change(t):
    """While they are read, from one of all groups to none."""
    with t.connect() as c, Side(c, timeout=5) as side:
        handle, m = side.arena(1 << 20)
        keys = companion("keys", (handle, 0), "u16")
        for flags in (KEYS, KEYS | DROP_OUTSIDE) * 5:
            m[:] = MIB
            s = c.send(REDUCE_AT, spec("var", "f64", rows=64, row_len=1 << 17, flags=flags, tagged_len=len(keys)) + struct.pack("<QQQ", handle, 0, 1 << 20) + keys)
            m[:] = os.urandom(1 << 20)
            try_call(c.wait, s)
        m.close()


@attack()
def files_that_shrink(t):
    name = f"/tmp/hostile{os.getpid()}"
    with t.connect() as c, Side(c, timeout=5) as side:
        fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.unlink(name)
        os.truncate(fd, 16 << 20)
        read = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        handle, _ = side.file(read)
        sent = [c.send(REDUCE_AT, spec("sum", "u8", row_len=MAX_DATA) + struct.pack("<QQQ", handle, i * MAX_DATA, MAX_DATA)) for i in range(4)]
        os.truncate(fd, 4096)
        for s in sent:
            try_call(c.wait, s)
        os.close(read)
        os.close(fd)


@attack()
def descriptors_on_the_stream(t):
    """Linux from 6.16 on refuses to send them there."""
    with t.raw() as s:
        null = os.open("/dev/null", os.O_RDONLY)
        try:
            socket.send_fds(s, [GREETING], [null] * 200)
        finally:
            os.close(null)


@attack(uid=BARRED)
def a_refused_user_asks_for_everything(t):
    with t.connect(hello=False) as c:
        c.send(HELLO, struct.pack("<BBHB3x", 1, 1, 0, 0), session=0)
        for kind in range(1, 17):
            c.send(kind, bytes(64))
        c.receive_frame()


@attack()
def the_network_without_a_session(t):
    with t.connect(t.tcp, hello=False) as c:
        for kind in (PING, QUERY, REDUCE, STORE):
            try_call(c.call, kind, bytes(64))


@attack()
def large_messages_on_the_network(t):
    with t.connect(t.tcp) as c:
        for s in [c.send(REDUCE, spec("sum", "u8", row_len=MAX_DATA) + bytes(MAX_DATA)) for _ in range(2)]:
            c.wait(s)


@attack(10, lures=True)
def a_daemon_in_the_runtime_directory(t):
    """After `su`, root's $XDG_RUNTIME_DIR is this user's, which receives whatever is sent there. Nothing may arrive."""
    paths = [f"{t.runtime}/{name}" for name in ("reduced.sock", "reduced.sock.side")]
    with contextlib.ExitStack() as stack:
        doors = [stack.enter_context(socket.socket(socket.AF_UNIX, kind)) for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)]
        for door, path in zip(doors, paths):
            door.bind(path)
            stack.callback(os.unlink, path)
            door.listen()
        assert not select.select(doors, [], [], t.left())[0], "another user's client came"


# ---- the two sides ----
def lure(target, program):
    """Root's client, with the attacker's runtime directory in its environment, is to reduce a file that root alone may read."""
    with tempfile.NamedTemporaryFile() as secret:
        secret.write(MIB)
        secret.flush()
        subprocess.run([program, "--no-autostart", "sum", "-t", "f32", secret.name], capture_output=True, timeout=60,
                       env={"XDG_RUNTIME_DIR": target.runtime})


def be(uid):
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def begin_attack(f, target):
    """The processes of an attack."""
    pids = []
    for _ in range(f.processes):
        pid = os.fork()
        if pid == 0:
            os.nice(19)  # the kernel shares processor time between users
            be(f.uid)
            while target.left():
                try:
                    f(target)
                except (Closed, Fault, ProtocolError, OSError):
                    pass
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            os._exit(0)
        pids.append(pid)
    return pids


class Honest:
    """A client that does a cycle of everything. It must be served, at once, whatever others do."""

    def __init__(self, target):
        self.target = target
        self.stays = target.connect(timeout=60)
        self.side = Side(self.stays)
        self.arena, self.map = self.side.arena(1 << 20)
        self.map[:] = b"\1" * (1 << 20)
        fd = os.memfd_create("honest")
        os.write(fd, bytes([1, 2, 3, 4]) * 1024)
        read = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        self.file = self.side.file(read)[0]
        os.close(read)
        os.close(fd)

    def cycle(self):
        with self.target.connect(timeout=60) as c:
            assert c.reduce("sum", "u8", bytes([1, 2, 3])).cells == [struct.pack("<Q", 6)]
            assert c.reduce("sum", "u8", b"\2" * (256 << 10)).cells == [struct.pack("<Q", 512 << 10)]
        assert self.stays.reduce_at("sum", "u8", self.file, 0, 4096).cells == [struct.pack("<Q", 10240)]
        assert self.stays.reduce_at("sum", "u8", self.arena, 0, 1 << 20).cells == [struct.pack("<Q", 1 << 20)]
        assert self.stays.ping(b"still here") == b"still here"

    def run(self):
        """Seconds of each cycle until the end."""
        times = []
        while self.target.left() or not times:
            begin = time.monotonic()
            self.cycle()
            times.append(time.monotonic() - begin)
        return times


def p99(times):
    return sorted(times)[min(len(times) - 1, len(times) * 99 // 100)]
