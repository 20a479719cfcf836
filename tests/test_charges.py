"""All that the daemon holds is charged to a user: random schedules of several users, some of them hostile, compared with the
daemon from outside. The users' charges sum to the totals and to what /proc shows; at the end no user has any."""
import contextlib
import os
import pathlib
import random
import select
import socket
import struct
import time

import pytest

from conftest import select_a_moment
from otheruser import needs_root
from rawclient import APPEND, REDUCE, REDUCE_AT, STORE, Closed, Fault, spec, store
from sideclient import ARENA, Side

pytestmark = needs_root
MIB = 1 << 20
USERS = 0, 12345, 23456, 34567
SEED = 20261122
BIG_REPLY = spec("sum", "u8", rows=MIB // 8, row_len=0)  # 1 MiB of zeros for 64 bytes
# Kinds whose charges do not depend on the moment, once every peer has been served or is gone.
LASTING = "connections", "sessions", "streams", "stream_bytes", "channels", "files", "arenas", "arena_bytes", "residents", "resident_bytes"


@contextlib.contextmanager
def as_peer(uid):
    """What is connected here belongs to another user for the kernel."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def table(status, prefix):
    return {k[len(prefix):]: v for k, v in status.items() if k.startswith(prefix)}


def look(daemon):
    """(all, {uid: charges}) as reported to root, without root's own connection."""
    with daemon.connect() as c:
        status = c.query(2)
    users = {uid: table(status, f"user.{uid}.") for uid in USERS if uid != os.getuid()}
    users[os.getuid()] = table(status, "held.")
    return table(status, "all."), users


def assert_sums(daemon):
    everything, users = look(daemon)
    for kind in LASTING:
        assert sum(u.get(kind, 0) for u in users.values()) == everything.get(kind, 0), kind
    return everything, users


def outside(daemon):
    """What the kernel says: bytes of arenas mapped or kept, regular files open under the test's directory, of the daemon."""
    fds = pathlib.Path(f"/proc/{daemon.process.pid}/fd")
    arenas, files = {}, 0
    for fd in fds.iterdir():
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(fd)
            if target.startswith("/memfd:reduced"):
                found = fd.stat()
                arenas[found.st_ino] = found.st_size
            files += target.startswith(str(daemon.directory / "passed"))
    return {"arenas": len(arenas), "arena_bytes": sum(arenas.values()), "files": files}


class Peer:
    """One connection of a user, with its channel, that does what `pick` says. `frame`: what a frame that it has begun is charged."""

    def __init__(self, daemon, uid, pick):
        self.pick, self.arenas, self.streams, self.handles, self.n = pick, [], [], [], 0
        self.uid, self.frame = uid, 0
        with as_peer(uid):
            self.c = daemon.connect()
            self.side = Side(self.c)
        self.daemon = daemon

    def arena(self):
        handle, memory = self.side.arena(self.pick.choice([4096, 65536, MIB]))
        self.arenas.append(memory)
        self.handles.append(handle)

    def unmap(self):
        if self.arenas:
            self.arenas.pop().close()

    def file(self):
        path = self.daemon.directory / f"passed{self.pick.randrange(4)}"
        path.write_bytes(bytes(8192))
        fd = os.open(path, os.O_RDONLY)
        handle, _ = self.side.file(fd)
        os.close(fd)
        self.handles.append(handle)
        self.c.send(REDUCE_AT, spec("sum", "u8", row_len=8192) + struct.pack("<QQQ", handle, 0, 8192))

    def drop(self):
        if self.handles:
            self.side.drop(self.handles.pop(self.pick.randrange(len(self.handles))))

    def stream(self):
        self.streams.append(self.c.begin("stats", "f64"))
        for i in range(self.pick.randrange(40)):
            self.c.send(APPEND, struct.pack("<QQ", self.streams[-1], 2 * i) + bytes(8))

    def abort(self):
        if self.streams:
            self.c.abort(self.streams.pop())

    def store(self):
        self.n += 1
        self.c.send(STORE, store(f"x{self.n}-{id(self)}", "u8", self.pick.choice([1, 4096, MIB])))

    def unread(self):
        for _ in range(self.pick.randrange(8)):
            self.c.send(REDUCE, BIG_REPLY)

    def large(self):
        """Its frame is charged while it comes."""
        assert self.c.reduce("sum", "u8", bytes(200_000)).cells == [bytes(8)]

    def half_a_frame(self):
        """All of it is charged once 64 KiB have come; a smaller part is what any connection may hold."""
        size = self.pick.choice([100, 60_000, 70_000, 100_000])
        self.c.socket.sendall(b"\1" + struct.pack(">Q", 4 * MIB) + bytes(size))
        self.frame = 4 * MIB * (size > 65536)

    def bad_packet(self):
        self.side.send(struct.pack("<IIQ", ARENA, 0, 1) + bytes(15), [self.c.socket.fileno()] * 3)

    def vanish(self):
        self.c.close()

    def end(self):
        self.side.close()
        self.c.close()
        for memory in self.arenas:
            memory.close()


ACTIONS = ["arena", "arena", "unmap", "file", "file", "drop", "stream", "abort", "store", "store", "unread", "large", "large",
           "half_a_frame", "bad_packet", "vanish"]


def silent(daemon, uid):
    with as_peer(uid):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(daemon.path))
    return s


def run(daemon, pick):
    """A random schedule; what is left of the peers."""
    peers, rude, strangers = [], [], []
    for _ in range(pick.randrange(20, 60)):
        if not peers or pick.random() < 0.2:
            uid = pick.choice(USERS)
            strangers += [silent(daemon, uid)] if pick.random() < 0.3 else []
            peers.append(Peer(daemon, uid, pick))
            continue
        peer = pick.choice(peers)
        action = pick.choice(ACTIONS)
        if action in ("half_a_frame", "bad_packet"):  # what follows would be the rest of it, or meet its answer
            rude.append(peer)
            peers.remove(peer)
        try:
            getattr(peer, action)()
        except Fault:
            pass
        except (Closed, OSError):  # its connection or its channel is gone
            peers = [p for p in peers if p is not peer]
            rude = [p for p in rude if p is not peer]
            peer.end()
    return peers + rude, strangers


def wait_same(daemon, what, seconds=30):
    """Wait until `what()` has no objection: released things are freed a moment later."""
    end = time.monotonic() + seconds
    while True:
        objection = what()
        if not objection:
            return
        assert time.monotonic() < end, objection
        select_a_moment(daemon.process)


def frame_bytes(daemon, uid):
    """Bytes of frames that have begun, as reported to their user: they are counted by the peer's uid, before there is a
    session."""
    with as_peer(uid):
        c = daemon.connect()
    with c:
        return c.query(2)["held.frame_bytes"]


def is_open(peer):
    """It may have vanished, and late frames cost their connection."""
    if peer.c.socket.fileno() < 0:
        return False
    looks = select.poll()
    looks.register(peer.c.socket, select.POLLRDHUP)
    return not looks.poll(0)


def differs(daemon, peers):
    everything, _ = assert_sums(daemon)
    found = outside(daemon)
    frames = {uid: (frame_bytes(daemon, uid), sum(p.frame for p in peers if p.uid == uid and is_open(p))) for uid in USERS}
    return ({k: (everything.get(k, 0), v) for k, v in found.items() if everything.get(k, 0) != v}
            or {uid: both for uid, both in frames.items() if both[0] != both[1]})


def left(daemon, uids=USERS[:1]):
    """What is charged although all are gone: the looker has one connection and one session. Frames are those of `uids`."""
    everything, users = look(daemon)
    frames = {uid: n for uid in uids if (n := frame_bytes(daemon, uid))}
    if frames or users[0].get("threads"):
        return frames or users
    own = {"connections": 1, "sessions": 1, "requests": 1}
    wrong = {k: v for k, v in everything.items() if k != "message_bytes" and v != own.get(k, 0)}
    return wrong or {uid: u for uid, u in users.items() if uid and any(u.values())}


@pytest.mark.same_threads
@pytest.mark.parametrize("seed", range(SEED, SEED + 6))
def test_charges_are_what_the_daemon_holds(start, scratch, seed):
    os.chmod(scratch, 0o777)
    daemon = start("--socket-mode", "0666", "--readers", 2, "--arena-user", 16, "--resident", 64)
    pick = random.Random(seed)
    peers, strangers = run(daemon, pick)
    wait_same(daemon, lambda: differs(daemon, peers))
    for peer in peers:
        peer.end()
    for s in strangers:
        s.close()
    wait_same(daemon, lambda: left(daemon, USERS))
    assert outside(daemon) == {"arenas": 0, "arena_bytes": 0, "files": 0}


def test_messages_are_charged_until_they_are_answered(start):
    with start().connect() as c:
        for size in (1 << 20, 1 << 18, 1 << 20):
            assert c.reduce("sum", "u8", b"\1" * size).cells == [struct.pack("<Q", size)]
        assert c.query(2)["held.message_bytes"] < 1000, "this message alone is under way"


def test_a_user_sees_its_own_use_and_limits(start, scratch):
    os.chmod(scratch, 0o755)
    daemon = start("--socket-mode", "0666")
    with as_peer(USERS[1]):
        c = daemon.connect()
        side = Side(c)
    with c, side, daemon.connect() as admin:
        _, memory = side.arena(8192)
        stream = c.begin("sum", "f32")
        mine, all_of_it = c.query(2), admin.query(2)
        assert mine["held.arena_bytes"] == 8192 and mine["held.streams"] == 1 and mine["held.channels"] == 1
        assert mine["limit.arenas"] == 512 and mine["limit.files"] == 256
        assert not any(k.startswith(("user.", "all.")) for k in mine)
        assert [all_of_it[f"all_limit.{k}"] for k in ("files", "arenas", "devices", "residents")] == [1024, 2048, 256, 4096]
        assert all_of_it[f"user.{USERS[1]}.arena_bytes"] == 8192 == all_of_it["all.arena_bytes"]
        assert f'reduced_user_held{{uid="{USERS[1]}",what="arena_bytes"}} 8192' in admin.metrics()
        assert 'reduced_user_limit{what="files"} 256' in c.metrics() and "user_held{" not in c.metrics()
        c.abort(stream)
        memory.close()


def test_bytes_of_streams_are_bounded(start):
    """In pieces they take up to some 260 KiB each: a user may have 64 MiB of them."""
    daemon = start("--max-streams", 1024, "--max-sessions", 64)
    with contextlib.ExitStack() as stack:
        fault = None
        for _ in range(40):
            c = stack.enter_context(daemon.connect())
            try:
                for _ in range(1000):
                    c.begin("stats", "f64")
            except Fault as e:
                fault = e
                break
        assert (fault.code, fault.field, fault.limit) == ("QUOTA", "stream_bytes", 64 * MIB)
        with daemon.connect() as other:
            held = other.query(2)["held.stream_bytes"]
            assert 64 * MIB - 8192 < held <= 64 * MIB
    wait_same(daemon, lambda: left(daemon))


def test_read_buffers_are_bounded_for_a_user(start, scratch):
    """Many reads at once of one user: the others find a buffer."""
    os.chmod(scratch, 0o755)
    daemon = start("--socket-mode", "0666", "--readers", 2, "--max-inflight", 64)  # 4 buffers
    path = scratch / "passed"
    path.write_bytes(bytes(64 * MIB))
    most = 0
    with daemon.connect() as c, Side(c) as side:
        fd = os.open(path, os.O_RDONLY)
        handle, _ = side.file(fd)
        os.close(fd)
        with daemon.connect() as other:
            while not most:  # a slow look finds all of them done
                sent = [c.send(REDUCE_AT, spec("xor", "u64", row_len=MIB // 2) + struct.pack("<QQQ", handle, 4 * MIB * i, 4 * MIB))
                        for i in range(16)]
                while (held := other.query(2))["held.requests"] > 1:
                    most = max(most, held.get("held.buffers", 0))  # none: they are not named
                for s in sent:
                    assert len(c.wait(s)) > 48
    assert most <= 3
