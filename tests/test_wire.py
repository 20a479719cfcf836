"""What peers hold of the daemon below its sessions: connections, frames that come slowly or never, replies that nobody reads. All
by plain sockets; beside each of them somebody else is served at once."""
import concurrent.futures
import contextlib
import os
import pathlib
import re
import select
import socket
import struct
import subprocess
import threading
import time

import pytest

from conftest import BIN, ROOT, sanitizer, select_a_moment
from otheruser import as_user, needs_root
from rawclient import HELLO, MAX_DATA, PING, REDUCE, Closed, Connection, Fault, header, spec
from test_protocol import last_reply

GREETING = b"\0SP\0\0\x30\0\0"
MOST = 4 + 40 + 64 + MAX_DATA  # a frame: route, header, body
LARGE_REPLY = spec("sum", "u8", rows=MAX_DATA // 8, row_len=0)  # 4 MiB of zeros for 64 bytes
ORIGIN_STRANGERS, ORIGIN_FRAMES = 128, 64 << 20  # daemon/net/limits.h
PROGRAM = BIN.parent / "tests" / "req0"


def serves_others(daemon):
    """Another client is greeted and answered, on the fast path and by the loop, within a second."""
    began = time.monotonic()
    with daemon.connect(timeout=10) as c:
        c.ping(b"there?")
        assert c.reduce("sum", "u8", bytes([1, 2, 3])).cells == [struct.pack("<Q", 6)]
    return time.monotonic() - began < 1


def wait_answered(daemon, seconds=60):
    """Until no request but the one that asks is under way."""
    end = time.monotonic() + seconds
    with daemon.connect() as c:
        while c.query(2)["inflight"] > 1:
            assert time.monotonic() < end
            select_a_moment(daemon.process)


def threads(daemon):
    return len(list(pathlib.Path(f"/proc/{daemon.process.pid}/task").iterdir()))


def memory(daemon, key="VmData"):
    """KiB of data that the process has, touched or not."""
    return int(re.search(rf"{key}:\s+(\d+)", pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text())[1])


def is_open(s):
    """Has the daemon left this socket open? What it sent is read."""
    try:
        while True:
            if not s.recv(1 << 16, socket.MSG_DONTWAIT):
                return False
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def wait_closed(s, began=None, seconds=60):
    """How long after `began`, or from now on, the daemon closes it; what comes before is read."""
    began = began or time.monotonic()
    s.settimeout(seconds)
    try:
        while s.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - began


def hung_up(s):
    """Has the daemon, whether what it sent is read or not?"""
    p = select.poll()
    p.register(s, 0)
    return bool(p.poll(0))


def silent(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(str(path))
    return s


# ---- threads ----
def test_a_daemon_at_rest_has_few_threads(start):
    """Readers start when files are read, however many there may be."""
    daemon = start("--readers", 64, "--threads", 1)
    with daemon.connect() as c:
        assert c.reduce("sum", "u8", bytes([1, 2, 3])).cells == [struct.pack("<Q", 6)]
        assert threads(daemon) <= 10


# ---- replies that nobody reads ----
def test_hundreds_of_pings_before_the_first_reply_is_read(start):
    daemon = start()
    with daemon.connect() as c:
        sent = [c.send(PING, struct.pack("<Q", i)) for i in range(600)]
        assert [struct.unpack("<Q", c.wait(r))[0] for r in sent] == list(range(600))


def test_any_number_of_requests_by_a_client_that_reads_while_it_writes(start):
    """The daemon reads no further while replies wait, and nothing is lost."""
    daemon = start()
    with daemon.connect() as c:
        writer = threading.Thread(target=lambda: [c.send(PING, bytes(64)) for _ in range(5000)])
        writer.start()
        for _ in range(5000):
            assert len(c.receive_frame()[1]) == 40 + 64
        writer.join()


def test_unread_replies_keep_no_exchange(start):
    """Each of the daemon's 8 exchanges could wait for one of these."""
    daemon = start("--contexts", 8)
    deaf = [daemon.connect() for _ in range(4)]
    for c in deaf:
        for _ in range(4):
            c.send(REDUCE, LARGE_REPLY)
    wait_answered(daemon)
    for _ in range(20):
        assert serves_others(daemon)
    for c in deaf:
        c.close()


def test_unread_replies_are_charged_to_their_user(start):
    """16 MiB of replies are allowed; the next request is BUSY until some are read."""
    daemon = start("--max-user-held", 16, "--max-held", 0)
    with daemon.connect() as deaf, daemon.connect() as other:
        sent = [deaf.send(REDUCE, LARGE_REPLY) for _ in range(5)]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                other.reduce("sum", "u8", bytes(3))
            except Fault as f:
                assert (f.code, f.field) == ("BUSY", "user_held")
                break
        else:
            pytest.fail("what is not read is not charged")
        for r in sent:
            try:
                deaf.wait(r)
            except Fault as f:
                assert f.code == "BUSY"
        other.reduce("sum", "u8", bytes(3))


@pytest.mark.slow
def test_unread_replies_have_a_cap_of_their_own(start):
    """256 MiB (daemon/state/limits.h) where max-user-held is off, over many connections that read nothing."""
    daemon = start("--max-user-held", 0, "--max-held", 0)
    with contextlib.ExitStack() as stack:
        deaf = [stack.enter_context(daemon.connect()) for _ in range(40)]
        other = stack.enter_context(daemon.connect())
        sent = [(c, c.send(REDUCE, LARGE_REPLY)) for _ in range(3) for c in deaf]
        wait_answered(daemon)
        with pytest.raises(Fault) as caught:
            other.reduce("sum", "u8", bytes(3))
        assert (caught.value.code, caught.value.field, caught.value.limit) == ("BUSY", "user_held", 256 << 20)
        for c, r in sent:
            with contextlib.suppress(Fault):
                c.wait(r)
        other.reduce("sum", "u8", bytes(3))


def test_a_connection_with_unread_replies_is_not_read(start):
    """Its peer's next bytes stay in the kernel: 40 replies of 4 MiB are asked for, and a few are made."""
    daemon = start()
    before = memory(daemon, "VmRSS")
    with daemon.connect() as deaf:
        for _ in range(40):
            deaf.send(REDUCE, LARGE_REPLY)
        assert serves_others(daemon)
        assert memory(daemon, "VmRSS") - before < 80 << 10


@pytest.mark.slow
def test_a_backlog_has_one_deadline(start):
    """However many replies it has: a peer that reads one byte now and then does not get 10 s for each."""
    daemon = start()
    with daemon.connect() as c:
        rows = (256 << 10) // 8
        for _ in range(6):
            c.send(REDUCE, spec("sum", "u8", rows=rows, row_len=0))
        began = time.monotonic()
        try:
            while time.monotonic() - began < 60:
                assert not hung_up(c.socket) and c.socket.recv(256) != b""
                select_a_moment(daemon.process)
        except (AssertionError, ConnectionResetError):
            pass
        took = time.monotonic() - began
        assert 8 < took < 25, f"{took} s"
    assert serves_others(daemon)


# ---- strangers ----
def test_silent_connections_are_bounded_and_the_oldest_goes(start):
    daemon = start()
    sockets = [silent(daemon.path) for _ in range(ORIGIN_STRANGERS + 20)]
    assert serves_others(daemon)
    gone = [wait_closed(s) for s in sockets[:20]]
    assert max(gone) < 5
    assert all(is_open(s) for s in sockets[-ORIGIN_STRANGERS + 4 :])
    for s in sockets:
        s.close()


def test_silent_connections_of_all_addresses_are_bounded(start):
    """512 in total (daemon/net/limits.h), though none of these five addresses has more than 110."""
    daemon = start("--allow-plain-tcp", "yes", "--listen", "tcp://127.0.0.1:0")
    port = int(re.search(r"serving tcp://127\.0\.0\.1:(\d+)", daemon.log())[1])
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection(("127.0.0.1", port), source_address=(f"127.0.0.{1 + i % 5}", 0))) for i in range(520)]
        assert max(wait_closed(s) for s in sockets[:4]) < 5
        assert all(is_open(s) for s in sockets[-400:])


def test_sessions_are_authenticated(start):
    """However many others come and say nothing."""
    daemon = start()
    with daemon.connect() as c:
        sockets = [silent(daemon.path) for _ in range(2 * ORIGIN_STRANGERS)]
        assert serves_others(daemon)
        c.ping(b"still here")
        for s in sockets:
            s.close()


@needs_root
def test_a_refused_user_gets_one_answer_and_the_door(start):
    daemon = start("--allow-uid", os.geteuid(), "--socket-mode", "0666")
    daemon.directory.chmod(0o711)

    def refused():
        with Connection(daemon.url) as c:
            c.send(HELLO, struct.pack("<BBH4x", 1, 1, 0))
            late = c.send(PING, b"")
            try:
                c.hello()
            except Fault as f:
                code = f.code
            except Closed:
                code = "closed"
            try:
                c.wait(late)
                return "served"
            except Fault as f:
                return f"{code} and more"
            except Closed:
                return code

    assert as_user(12345, 12345, refused) in ("AUTH", "closed")

    def answers():
        with Connection(daemon.url) as c:
            c.send(PING, b"")
            return [c.socket.recv(1 << 16)[21:25].decode("latin1") != "", wait_closed(c.socket) < 5]

    assert as_user(12345, 12345, answers) == [True, True]


@needs_root
def test_the_last_descriptors_are_for_root(start, scratch):
    """A user whose sessions fill the daemon's descriptors does not lock out its administrator."""
    few = scratch / "few"
    few.write_text(f'#!/bin/sh\nulimit -n 160\nexec {BIN / "reduced"} "$@"\n')
    few.chmod(0o755)
    daemon = start("--socket-mode", "0666", program=few)
    daemon.directory.chmod(0o711)
    full, done = os.pipe(), os.pipe()

    def fill():
        held = []
        try:
            while len(held) < 300:
                held.append(Connection(daemon.url, timeout=10))
                held[-1].hello()
        except (Closed, Fault, OSError) as e:
            os.write(full[1], f"{len(held)} {type(e).__name__}".encode())
        os.read(done[0], 1)

    filler = threading.Thread(target=lambda: as_user(12345, 12345, fill))
    filler.start()
    try:
        count, why = os.read(full[0], 100).split()
        assert 20 < int(count) < 120 and why != b"TimeoutError", "told at once, not left to wait"
        assert serves_others(daemon)
    finally:
        os.write(done[1], b"x")
        filler.join()


# ---- frames that do not come ----
def test_a_head_alone_holds_no_memory(start):
    daemon = start()
    before = memory(daemon)
    clients = [daemon.connect() for _ in range(100)]
    for c in clients:
        c.socket.sendall(b"\x01" + struct.pack(">Q", MOST) + b"\x80\0\0\1")
    assert serves_others(daemon)
    assert memory(daemon) - before < 64 << 10, "KiB for 100 heads of 4 MiB frames"
    for c in clients:
        c.close()


def test_unfinished_frames_of_a_user_are_bounded(start):
    """40 frames, each but for its last byte: 16 of them fit, the others wait; and all are served in the end."""
    daemon = start()
    before = memory(daemon, "VmRSS")
    clients = [daemon.connect() for _ in range(40)]
    body = spec("sum", "u8", row_len=MAX_DATA) + bytes(MAX_DATA)
    parts = []
    for i, c in enumerate(clients):
        frame = b"\x80\0\0\1" + header(REDUCE, len(body), session=c.session, mid=i) + body
        parts.append(memoryview(b"\x01" + struct.pack(">Q", len(frame)) + frame))
        c.socket.setblocking(False)
    at = [0] * len(clients)

    def send(end):
        """To each as much as the kernel takes; did it take anything?"""
        moved = False
        for i, c in enumerate(clients):
            with contextlib.suppress(BlockingIOError):
                n = c.socket.send(parts[i][at[i] : end]) if parts[i][at[i] : end] else 0
                at[i] += n
                moved |= n > 0
        return moved

    with daemon.connect() as asks:
        def unfinished():
            return asks.query(2)["held.frame_bytes"]

        quiet = 0  # questions in a row in which the daemon read nothing
        while quiet < 200:
            quiet = 0 if send(-1) or unfinished() <= ORIGIN_FRAMES - MOST else quiet + 1
            assert unfinished() <= ORIGIN_FRAMES
    assert serves_others(daemon) and sum(len(p) - 1 == n for n, p in zip(at, parts)) <= ORIGIN_FRAMES // MAX_DATA
    if sanitizer() != "thread":  # whose own memory is a multiple of the program's
        assert memory(daemon, "VmRSS") - before < (ORIGIN_FRAMES >> 10) + (40 << 10)
    while any(n < len(p) for n, p in zip(at, parts)):  # those that wait go on as others end
        if not send(None):
            select_a_moment(daemon.process)
    for c in clients:
        c.socket.settimeout(60)
        assert len(c.receive_frame()[1]) == 40 + 48 + 8


@pytest.mark.slow
def test_a_frame_and_a_greeting_have_deadlines(start):
    daemon = start()
    with daemon.connect() as half, daemon.connect() as idle:
        began = time.monotonic()  # before both, so that what delays this process does not make them shorter
        half.socket.sendall(b"\x01" + struct.pack(">Q", 100) + b"\x80")
        with silent(daemon.path) as mute, concurrent.futures.ThreadPoolExecutor() as pool:
            waits = list(pool.map(lambda s: wait_closed(s, began), (half.socket, mute)))
        assert 8 < min(waits) and max(waits) < 20
        idle.ping(b"between frames there is no hurry")


# ---- many cores ----
@pytest.mark.unsanitized  # whose runtime must be loaded first
def test_threads_of_many_cores_linger(start, scratch, monkeypatch):
    """They look for the next request for a moment, without a pause, and then they sleep."""
    shim = scratch / "cores.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-x", "c", ROOT / "tests/unit/many_cores.h", "-o", shim], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    daemon = start("--threads", 1)
    monkeypatch.delenv("LD_PRELOAD")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(daemon.connect()) for _ in range(12)]
        for _ in range(50):
            for c in clients:
                assert c.reduce("sum", "u8", bytes([1, 2, 3])).cells == [struct.pack("<Q", 6)]
        used = processor_seconds(daemon)
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.process.wait(1)
        assert processor_seconds(daemon) - used < 0.5


def processor_seconds(daemon):
    fields = pathlib.Path(f"/proc/{daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- bad frames ----
@pytest.mark.parametrize("tcp", [False, True], ids=["ipc", "tcp"])
@pytest.mark.parametrize("length", [MOST + 1, 2**40, 2**63])
def test_a_message_that_is_too_long_is_told_so(shared, length, tcp):
    with shared.connect(tcp=tcp) as c:
        before = c.send(PING, b"first")
        message = struct.pack(">I", 0x80000007) + header(REDUCE, length - 44, session=c.session, mid=99)
        c.send_frame(message + bytes(1000), length=length)
        assert c.wait(before) == b"first"
        last_reply(c, 7, "TOO_LARGE", "body_len", kind=REDUCE, mid=99, limit=4194368)


@pytest.mark.slow
def test_a_long_frame_has_no_longer_deadline(start):
    """Only its start is read, so what its bytes would take is not waited for: of 2^40 that would be 48 days."""
    with start().connect() as c:
        began = time.monotonic()
        c.send_frame(b"\x80\0\0\1", length=2**40)
        assert 8 < wait_closed(c.socket, began) < 20


def test_too_many_relays_are_answered_within_reason(start):
    """Such errors are on no account: while some of them wait unread, there are no more of them."""
    daemon, frames = start(), 20_000
    frame = bytes(8 * 4) + struct.pack(">I", 0x80000078) + header(PING, 0)
    with daemon.connect() as c:
        for _ in range(frames):  # the daemon reads them all though no answer is read
            c.send_frame(frame)
        ping, answers = c.send(PING, b"after them")[0], 0
        assert serves_others(daemon)
        while (found := c.receive_frame())[0] != ping:
            assert b"relays" in found[1]
            answers += 1
        assert 0 < answers < frames / 2, "the sockets hold some hundreds"


def test_a_sender_of_too_much_can_send_it_all_and_read_why(shared):
    with shared.connect() as c:
        body = spec("sum", "u8", row_len=MAX_DATA + 1) + bytes(MAX_DATA + 1)
        c.send(REDUCE, body)
        rid, reply = c.receive_frame()
        assert b"body_len" in reply


# ---- the rest ----
def test_few_threads_at_rest(start):
    """At most 10 beside the engine's: its one worker, and what watches it."""
    daemon = start("--threads", 1)
    with daemon.connect():
        assert threads(daemon) <= 10 + 2


def test_peers_on_the_network_are_asked_whether_they_live(start):
    daemon = start(tcp=True)
    with daemon.connect(tcp=True) as c:
        ends = [c.socket.getpeername()[1], c.socket.getsockname()[1]]  # as the daemon has them
        end, timers = time.monotonic() + 60, []
        while "02" not in timers:  # while the kernel waits for an acknowledgement, another timer runs
            assert time.monotonic() < end, f"no keepalive timer: {timers}"
            select_a_moment(daemon.process)
            # The table is read in parts, so a row may be missing or come twice where others come and go meanwhile.
            rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
            timers = [r[5][:2] for r in rows if [int(address.split(":")[1], 16) for address in r[1:3]] == ends]


@pytest.mark.parametrize("tcp", [False, True], ids=["ipc", "tcp"])
def test_nngs_own_request_sockets_are_served(start, tcp):
    """The protocol is plain SP: HELLO, a small and a large REDUCE, and the same once more after a new daemon has come."""
    daemon = start(tcp=tcp)
    url = daemon.tcp_url if tcp else daemon.url
    p = subprocess.Popen([PROGRAM, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "served\n"
    if not tcp:  # the port of the next one would be another
        daemon.stop()
        start(directory=daemon.directory)
    p.stdin.write("again\n")
    p.stdin.flush()
    assert p.stdout.readline() == "served\n"
    p.stdin.close()
    assert p.wait(60) == 0
