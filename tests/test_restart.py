"""Restarts that clients do not notice: sockets that stay, and resident data that come back (supervisor.py plays systemd)."""
import ctypes
import fcntl
import os
import random
import re
import socket
import struct
import subprocess
import threading
import time
import urllib.request

import libreduce
import pytest

import supervisor
from conftest import BIN, memory_device
from otheruser import needs_root
from rawclient import Connection, Fault
from sideclient import Side
from supervisor import Supervised, supervise  # noqa: F401  # a fixture
from test_resident import SHM, noise, wait_until

SEED = 20261122
MIB = 1 << 20


def sum_of(connection, handle, data):
    return connection.reduce_at("sum", "u8", handle, 0, len(data)).cells[0]


def in_bytes(data):
    return struct.pack("<Q", sum(data))


# ---- resident data ----
@pytest.fixture(params=["cpu", "device"])
def engine(request):
    return {} if request.param == "cpu" else memory_device()


def test_resident_data_come_back(supervise, engine):
    """Under the same name and handle, with type, shape, age and end; after a stop, a crash, and both again."""
    d = supervise(**engine)
    data, small = noise(3 * MIB + 5), bytes(range(48))
    with d.connect() as c:
        handle = c.put("large", "u8", data)
        other = c.put("small", "i16", small, shape=(4, 3, 2), order=1, ttl_ms=3600_000)
    names = d.keeps(2)
    assert names == sorted(f"resident-{h:016x}" for h in (handle, other))
    for again in (d.restart, d.crash, d.restart):
        again()
        with d.connect() as c:
            assert sum_of(c, handle, data) == in_bytes(data)
            listed = {x.name: x for x in c.list()}
            assert sorted(listed) == ["large", "small"] and listed["small"].handle == other
            x = listed["small"]
            assert (x.bytes, x.dtype, x.shape, x.order) == (48, 3, (4, 3, 2), 1)
            assert 0 < x.left_ms < 3600_000 and x.age_ms + x.left_ms in (3599_999, 3600_000)
            assert listed["large"].left_ms == 2**64 - 1
            status = c.query(2)
            assert (status["resident.arrays"], status["resident.kept"], status["resident.bytes"]) == (2, 2, len(data) + 48)
        assert d.keeps(2) == names
    with d.connect() as c:
        c.drop("large")
    d.keeps(1)
    d.crash()
    with d.connect() as c:
        assert [x.name for x in c.list()] == ["small"]
        with pytest.raises(Fault) as e:
            sum_of(c, handle, data)
        assert e.value.code == "BAD_HANDLE"


def test_what_is_replaced_dropped_or_over_does_not_come_back(supervise, engine):
    d = supervise(**engine)
    with d.connect() as c:
        c.put("x", "u8", b"\1\1")
        c.put("gone", "u8", b"\5")
        new = c.put("x", "u8", b"\2\2", replace=True)
        c.drop("gone")
        c.put("short", "u8", b"\3", ttl_ms=1)
        half = c.store("half", "u8", 2)
        c.write(half, 0, b"\7")
        wait_until(d, lambda: [x.name for x in c.list()] == ["x"])
    d.keeps_only(new)
    d.crash()
    with d.connect() as c:
        assert [x.name for x in c.list()] == ["x"] and sum_of(c, new, b"12") == in_bytes(b"\2\2")


def test_owners_and_quotas_are_as_before(supervise, engine):
    d = supervise("--resident-user", "1", **engine)
    with d.connect() as c:
        c.put("x", "u8", bytes(MIB - 10))
        for again in (d.crash, d.restart):
            again()
            with d.connect() as c:
                with pytest.raises(Fault) as e:
                    c.put("y", "u8", bytes(11))
                assert (e.value.code, e.value.field) == ("QUOTA", "resident")
    d.restart("--resident-user", "2")
    with d.connect() as c:
        c.put("y", "u8", bytes(11))
    d.keeps(2)
    d.restart("--resident-user", "1")  # which is less than what is there: it stays
    with d.connect() as c:
        assert len(c.list()) == 2


def test_what_is_written_during_a_crash_is_whole_or_not_there(supervise):
    """Nothing half written comes back, whenever the daemon is killed."""
    d = supervise()
    data = bytearray(noise(5 * MIB))
    pick = random.Random(SEED)
    with libreduce.Client(d.url) as c:
        for _ in range(6):
            killer = threading.Timer(pick.uniform(0, 0.03), d.kill)
            killer.start()
            put = threading.Thread(target=lambda: c.put("x", "u8", ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data)), len(data), replace=True))
            put.start()
            killer.join()
            d.start_again()
            put.join()
            assert c.named("sum", "u8", "x")[0] == in_bytes(data)
    d.keeps(1)


# ---- what does not fit ----
RECORD = 320


def memory(data, seals=True, name="x"):
    fd = os.memfd_create(name, os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return supervisor.high(fd)


def changed(data, at, by=1):
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]


def test_descriptors_that_do_not_fit_are_dropped(supervise, engine, scratch):
    """Each with a line in the log; the right one is served, and the store forgets the others."""
    d = supervise(**engine)
    with d.connect() as c:
        handle = c.put("x", "u8", b"12345678")
    [right] = d.keeps(1)
    good = os.pread(d.store[right], 10_000, 0)
    assert len(good) == 8 + RECORD
    d.kill()
    read, write = os.pipe()
    os.close(write)
    (scratch / "file").write_bytes(good)
    for what, fd, why in (("data", memory(changed(good, 3)), "the checksum of its data is wrong"),
                          ("name", memory(good), "its record is one of other data"),
                          ("short", memory(good[1:]), "its size is not that of its record"),
                          ("long", memory(b"0" + good), "its size is not that of its record"),
                          ("tiny", memory(good[-RECORD:]), "it is too small"),
                          ("empty", memory(b""), "it is too small"),
                          ("magic", memory(changed(good, 8)), "it has no record"),
                          ("version", memory(changed(good, 16, 3)), "its record has an unknown version"),
                          ("owner", memory(changed(good, 24)), "the checksum of its record is wrong"),
                          ("tail", memory(good[:-1] + b"x"), "the checksum of its record is wrong"),
                          ("open", memory(good, seals=False), "it is not sealed"),
                          ("pipe", supervisor.high(read), "it is not memory of the kind that is kept"),
                          ("file", supervisor.high(os.open(scratch / "file", os.O_RDONLY)), "it is not memory of the kind that is kept"),
                          ("null", supervisor.high(os.open("/dev/null", os.O_RDWR)), "it is not memory of the kind that is kept"),
                          ("folder", supervisor.high(os.open("/", os.O_RDONLY)), "it is not memory of the kind that is kept")):
        d.store[f"a {what}"] = fd
        d.start_again()
        assert re.findall(r"kept data '(.*)' are dropped: (.*)", d.log()) == [(f"a {what}", why)], what
        assert d.keeps(1) == [right]
        with d.connect() as c:
            assert [(x.name, x.handle) for x in c.list()] == [("x", handle)] and sum_of(c, handle, good[:8]) == in_bytes(good[:8])
        d.kill()
    d.start_again()


def test_of_two_with_one_name_the_newer_one_counts(supervise):
    """A daemon that ended between FDSTORE of the new data and FDSTOREREMOVE of the old ones leaves both."""
    d = supervise()
    with d.connect() as c:
        c.put("x", "u8", b"\1")
        [old] = d.keeps(1)
        kept = supervisor.high(os.dup(d.store[old]))
        new = c.put("x", "u8", b"\2", replace=True)
    d.kill()
    d.keeps_only(new)
    for order in (1, -1):
        d.store = dict([*d.store.items(), (old, supervisor.high(os.dup(kept)))][::order])
        d.start_again()
        with d.connect() as c:
            assert sum_of(c, new, b"1") == in_bytes(b"\2")
        d.keeps_only(new)
        assert f"'{old}' are dropped: " in d.log()
        d.kill()
    os.close(kept)
    d.start_again()


@pytest.mark.parametrize("flags, room", [((), "0"), (("--resident-keep", "no"), "64")])
def test_nothing_is_kept_if_nobody_does_or_may(supervise, flags, room):
    d = supervise(*flags, room=room)
    with d.connect() as c:
        c.put("x", "u8", b"\1")
        assert c.query(2)["resident.kept"] == 0
    d.restart()
    with d.connect() as c:
        assert c.list() == []
    assert d.keeps(0) == []


def test_a_full_store_keeps_what_it_has(supervise, engine):
    d = supervise(room="2", **engine)
    with d.connect() as c:
        for i in range(4):
            c.put(f"x{i}", "u8", bytes([i]))
        assert len(c.list()) == 4
        d.keeps(2)
        status = c.query(2)
        assert (status["resident.arrays"], status["resident.kept"]) == (4, 2)
        assert "\nreduced_resident_kept 2\n" in c.metrics()
    d.crash()
    with d.connect() as c:
        assert [x.name for x in c.list()] == ["x1", "x0"] or sorted(x.name for x in c.list()) == ["x0", "x1"]


def test_systemd_that_does_not_tell_its_room(supervise):
    """Before version 254 there is no FDSTORE in the environment."""
    d = supervise(room=None)
    with d.connect() as c:
        c.put("x", "u8", b"\1")
    d.keeps(1)
    d.crash()
    with d.connect() as c:
        assert [x.name for x in c.list()] == ["x"]


# ---- sockets ----
def test_clients_of_a_stopped_daemon_wait(supervise):
    """Connections and their first words wait in the sockets; passed descriptors, too."""
    d = supervise()
    with libreduce.Client(d.url) as before:
        assert before.run("sum", "u8", b"\1\2") == in_bytes(b"\1\2")
        d.stop()
        answers = []

        def ask_new():
            with libreduce.Client(d.url) as c:
                answers.append(c.run("sum", "u8", b"\3"))

        asking = [threading.Thread(target=t) for t in (ask_new, ask_new, lambda: answers.append(before.run("sum", "u8", b"\3")))]
        for t in asking:
            t.start()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as early:
            early.connect(str(d.path))  # nobody is there, and it does not fail
            d.start_again()
            for t in asking:
                t.join()
            assert answers == 3 * [in_bytes(b"\3")]
            assert early.recv(8) == b"\0SP\0\0\x31\0\0"
    with d.connect() as c, Side(c) as side:
        arena, shared = side.arena(4096)
        assert len(shared) == 4096
    assert d.path.exists(), "the socket is the service manager's"


@needs_root
def test_root_may_listen_for_the_daemon(supervise):
    """As systemd does for a daemon of another user: clients pass descriptors there."""
    d = supervise()
    os.chown(d.path, 12345, 12345)
    data = bytearray(noise(2 * MIB))
    with libreduce.Client(d.url) as c:
        c.put("x", "u8", ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data)), len(data), path=SHM)
        assert c.named("sum", "u8", "x")[0] == in_bytes(data)


def unit_socket(kind, path, listen=True, family=socket.AF_UNIX):
    s = socket.socket(family, kind)
    s.bind(str(path) if family == socket.AF_UNIX else path)
    if listen and kind != socket.SOCK_DGRAM:
        s.listen()
    return "reduced.socket", supervisor.high(s.detach())


STREAM, PACKET, DGRAM = socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM


@pytest.mark.parametrize("passed, why", [
    ([(STREAM, "s")], r"one of two sockets for ipc://\S+/s: ListenSequentialPacket=\S+/s.side is missing"),
    ([(PACKET, "s.side")], r"one of two sockets for ipc://\S+/s: ListenStream=\S+/s is missing"),
    ([(STREAM, "s"), (PACKET, "s.side"), (STREAM, "other")], r"passes a stream socket at ipc://\S+/other, which no setting asks for"),
    ([(STREAM, "s"), (STREAM, "s.side")], r"passes a stream socket at ipc://\S+/s.side, which no setting asks for"),
    ([(PACKET, "s"), (PACKET, "s.side")], r"passes a sequential-packet socket at ipc://\S+/s, which no setting asks for"),
    ([(DGRAM, "s"), (PACKET, "s.side")], r"passes a socket that does not listen at ipc://\S+/s, which no setting asks for"),
    ([(STREAM, "s", False), (PACKET, "s.side")], r"passes a socket that does not listen at ipc://\S+/s, which no setting asks for"),
    ([(STREAM, ("127.0.0.1", 0))], r"passes a stream socket at http://127.0.0.1:\d+, which no setting asks for"),
])
def test_wrong_sockets_are_refused_at_the_start(supervise, scratch, passed, why):
    sockets = []
    for kind, where, *listen in passed:
        family = socket.AF_UNIX if isinstance(where, str) else socket.AF_INET
        sockets.append(unit_socket(kind, scratch / where if family == socket.AF_UNIX else where, *listen, family=family))
    d = supervise(sockets=sockets, wait=False)
    assert d.process.wait(60) == 1 and re.search(why, d.log()), d.log()


def test_a_socket_that_is_there_twice_is_refused(supervise, scratch):
    name, fd = unit_socket(STREAM, scratch / "s")
    d = supervise(sockets=[(name, fd), (name, supervisor.high(os.dup(fd))), unit_socket(PACKET, scratch / "s.side")], wait=False)
    assert d.process.wait(60) == 1 and "which is there twice" in d.log()


@pytest.mark.parametrize("moves", ["3<&-", "4<&- 3</dev/null", "3<&- 4</dev/null"])
def test_a_passed_descriptor_that_is_closed_is_refused(scratch, moves):
    """The daemon's own descriptors would have its number."""
    script = f'exec {moves}; LISTEN_PID=$$ exec "$0" --listen "$1"'
    done = subprocess.run(["bash", "-c", script, BIN / "reduced", f"ipc://{scratch}/s"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env={**os.environ, "LISTEN_FDS": str(len(moves.split())), "LISTEN_FDNAMES": ""}, timeout=60)
    assert done.returncode == 1 and "descriptors of the service manager: Bad file descriptor" in done.stderr, done


def test_the_metrics_socket_may_be_passed(supervise, scratch):
    s = socket.create_server(("127.0.0.1", 0))
    port = s.getsockname()[1]
    sockets = [unit_socket(STREAM, scratch / "s"), unit_socket(PACKET, scratch / "s.side"), ("reduced.socket", supervisor.high(s.detach()))]
    d = supervise("--metrics-url", f"http://127.0.0.1:{port}", sockets=sockets)
    for _ in range(2):
        assert b"reduced_uptime_seconds" in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read()
        d.restart()


# ---- nobody notices ----
def restarts(d, clients, times, every_s, end=None, size=64 * 1024):
    """Clients ask without a pause, an array in the request and a resident one in turn; the longest wait and how many answers.
    `end` ends the process, else a stop or a kill."""
    data = bytearray(noise(size))
    want, longest, answers, failed, quit = in_bytes(data), [0.0] * clients, [0] * clients, [], threading.Event()
    with libreduce.Client(d.url) as c:
        c.put("x", "u8", ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data)), len(data), replace=True)

    def ask(i):
        try:
            with libreduce.Client(d.url) as c:
                while not quit.is_set():
                    begun = time.monotonic()
                    got = c.named("sum", "u8", "x")[0] if answers[i] % 2 else c.run("sum", "u8", bytes(data))
                    longest[i] = max(longest[i], time.monotonic() - begun)
                    assert got == want
                    answers[i] += 1
        except Exception as e:  # noqa: BLE001  # any failure is what is looked for
            failed.append(e)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for i in range(times):
        quit.wait(every_s)  # poll interval: how long clients work between two restarts
        d.wait_ready()  # before that, SIGTERM may meet a process that does not know it yet
        (end or (d.stop if i % 4 else d.kill))()
        d.start_again(wait=False)
    d.wait_ready()
    quit.set()
    for t in threads:
        t.join()
    assert not failed, failed[0]
    return max(longest), sum(answers)


def test_restarts_are_not_noticed(supervise):
    d = supervise()
    longest, answers = restarts(d, 4, 4, 0.3)
    print(f"longest wait {longest:.3f} s, {answers} answers")
    assert answers > 4 and longest < 5


def test_a_broken_context_is_not_noticed(supervise, scratch, monkeypatch):
    """A kernel that traps breaks the contexts of all devices. The daemon sees that at once, though nothing else looks at the second
    one, and leaves; clients of libreduce get their answers from the next."""
    options = memory_device("faults/reduced-devices")
    monkeypatch.setenv("DEVICES_OF_MEMORY", "2")
    monkeypatch.setenv("LOSE_DEVICE", str(scratch / "lost"))
    monkeypatch.setenv("LOSE_ALL", "1")
    d = supervise("--small-bytes", 0, "--sandbox", "no", "--probe", 86400, **options)

    def end():
        (scratch / "lost1").touch()
        assert d.process.wait(60) == 70
        (scratch / "lost1").unlink()
        assert "looking at it after another device failed" in d.log()

    with d.connect() as c:
        assert c.reduce("sum", "u8", b"\1\2", device=2).cells == [struct.pack("<Q", 3)]
        (scratch / "lost1").touch()
        with pytest.raises((Fault, OSError)) as e:  # DEVICE_LOST, none is left; or the end of the connection
            while True:
                c.reduce("sum", "u8", b"\1\2", device=2)
        assert not isinstance(e.value, Fault) or (e.value.code, e.value.limit) == ("DEVICE_LOST", 0)
    end()
    d.start_again()
    longest, answers = restarts(d, 4, 2, 0.3, end)
    assert answers > 4 and longest < 5


@pytest.mark.slow
def test_sixteen_clients_notice_no_restart(supervise):
    """`make restarts` does it for two minutes."""
    d = supervise()
    longest, answers = restarts(d, 16, int(os.environ.get("RESTARTS", "5")), 2)
    print(f"longest wait {longest:.3f} s, {answers} answers, load {os.getloadavg()[0]:.1f}")
