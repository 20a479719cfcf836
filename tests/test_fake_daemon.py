"""libreduce against daemons that fail: they close connections, forget sessions for ever, are busy at the wrong moment, or give
answers that do not fit the request."""
import ctypes as C
import socket
import struct
import threading
import time

import pytest

import libreduce as lib
from conftest import sanitizer
from fakedaemon import FakeDaemon, error_body
from rawclient import APPEND, BEGIN, ERRORS, FINISH, HELLO, PING, QUERY, REDUCE

METRICS = 3  # a topic of QUERY
PATH_SHM = 3
DATA = struct.pack("<3f", 1.5, 2.25, -0.5)
SUM = struct.pack("<d", 3.25)
F64, I64, F32 = 12, 7, 11


class OpenOpts(C.Structure):
    _fields_ = [("size", C.c_uint32), ("flags", C.c_uint32), ("name", C.c_char_p), ("connect_timeout_ms", C.c_uint32),
                ("reconnect_timeout_ms", C.c_uint32), ("timeout_ms", C.c_uint32), ("daemon", C.c_char_p), ("idle_exit_s", C.c_uint32),
                ("tls_ca", C.c_char_p), ("tls_cert", C.c_char_p), ("tls_key", C.c_char_p), ("priority", C.c_int32), ("reserved", C.c_uint32)]


class Info(C.Structure):
    _fields_ = [(name, C.c_uint32) for name in ("size", "wire_version", "max_data", "chunk_bytes", "max_inflight", "reconnects", "autostarted")] + [
        ("priority", C.c_int32), ("url", C.c_char * 256), ("server", C.c_char * 68), ("side", C.c_char * 96)]


class Client(lib.Client):
    def __init__(self, url, flags=0, timeout_ms=60_000):
        self.lib, self.handle = lib.load(), C.c_void_p()
        opts = OpenOpts(C.sizeof(OpenOpts), flags, None, 5000, 10_000, timeout_ms, None, 600, None, None, None, 0, 0)
        self._check(self.lib.reduce_open(C.byref(self.handle), url.encode(), C.byref(opts)))

    def info(self):
        info = Info(C.sizeof(Info))
        self._check(self.lib.reduce_get_info(self.handle, C.byref(info)))
        return info

    def reconnects(self):
        return self.info().reconnects


def result(cells=1, dtype=F64, cell_size=8, body=SUM, count=3):
    return struct.pack("<BBBBIQQQQQ", dtype, 1, 1, 0, cell_size, cells, count, 1, 2, 3) + body


def fails(code, call, *args, **kw):
    with pytest.raises(lib.Fault) as caught:
        call(*args, **kw)
    assert caught.value.code == code, caught.value
    return caught.value


def test_the_fake_is_a_daemon(scratch):
    with FakeDaemon(scratch / "s", lambda r: r.reply(result())) as fake, Client(fake.url) as client:
        assert client.run("sum", "f32", DATA) == SUM and client.reconnects() == 0
        assert (client.info().server, client.info().max_data) == (b"fake", 4 << 20)


# ---- it cuts ----
def test_a_request_that_cuts_every_connection_is_given_up(scratch):
    """Ten losses are tolerated, because a stopping daemon may close several times; a request that met eleven may be their
    cause."""
    with FakeDaemon(scratch / "s", lambda r: r.cut()) as fake, Client(fake.url) as client:
        fails("NO_DAEMON", client.run, "sum", "f32", DATA)
        assert fake.count(REDUCE) == 11


def test_ten_cuts_are_borne(scratch):
    left = [10]

    def answer(r):
        left[0] -= 1
        if left[0] >= 0:
            r.cut()
        else:
            r.reply(result())

    with FakeDaemon(scratch / "s", answer) as fake, Client(fake.url) as client:
        assert client.run("sum", "f32", DATA) == SUM
        assert (fake.count(REDUCE), fake.count(HELLO), client.reconnects()) == (11, 11, 10)


def test_a_cut_is_told_at_once_without_retries(scratch):
    with FakeDaemon(scratch / "s", lambda r: r.cut()) as fake, Client(fake.url, flags=4) as client:
        fails("NO_DAEMON", client.run, "sum", "f32", DATA)
        assert fake.count(REDUCE) == 1


def test_a_stream_does_not_outlive_its_connection(scratch):
    """What was appended is gone with the session, so neither APPEND nor FINISH may come again on the next one."""

    def answer(r):
        if r.kind == BEGIN:
            r.reply(struct.pack("<Q", 7))
        elif r.kind == APPEND:
            r.cut()
        else:
            r.reply(result())

    with FakeDaemon(scratch / "s", answer, chunk=4096) as fake, Client(fake.url) as client:
        fails("STREAM_LOST", client.stream, "sum", "f32", [bytes(8192)])
        assert fake.count(BEGIN) == 1 and fake.count(FINISH) == 0
        offsets = [r.body[8:16] for r in fake.requests if r.kind == APPEND]
        assert len(offsets) == len(set(offsets)), "none came twice"


def test_a_stream_that_is_lost_while_its_chunk_is_filled_does_not_begin_again(scratch):
    """The chunk's room was given before the connection was lost; the stream is lost when the chunk is full."""
    room_is_given = threading.Event()

    def answer(r):
        if r.kind == BEGIN:
            r.reply(struct.pack("<Q", 7))
        elif r.kind == APPEND:
            room_is_given.wait(60)
            r.cut()
        else:
            r.reply(result())

    with FakeDaemon(scratch / "s", answer, chunk=4096) as fake, Client(fake.url) as client:
        call = client.lib
        stream, space, room = C.c_void_p(), C.c_void_p(), C.c_size_t()
        client._check(call.reduce_stream_begin(client.handle, C.byref(client.spec("sum", "f32")), C.byref(stream)))
        client._check(call.reduce_stream_append(stream, bytes(4096), C.c_size_t(4096)))
        client._check(call.reduce_stream_space(stream, C.byref(space), C.byref(room)))
        room_is_given.set()
        end = time.monotonic() + 60
        while client.reconnects() == 0:
            assert time.monotonic() < end
            time.sleep(0.001)  # poll interval
        fails("STREAM_LOST", lambda: client._check(call.reduce_stream_commit(stream, room)))
        call.reduce_stream_abort(stream)
        assert (fake.count(BEGIN), fake.count(APPEND)) == (1, 1)


def test_only_room_that_was_given_can_be_committed(scratch):
    """Not twice, and not after an append, which moves on: the elements would be those of a chunk that is under way."""
    def answer(r):
        r.reply(struct.pack("<Q", 7) if r.kind == BEGIN else b"" if r.kind == APPEND else result())

    with FakeDaemon(scratch / "s", answer, chunk=4096) as fake, Client(fake.url) as client:
        call = client.lib
        stream, space, room = C.c_void_p(), C.c_void_p(), C.c_size_t()

        def commit(n):
            client._check(call.reduce_stream_commit(stream, C.c_size_t(n)))

        def give():
            client._check(call.reduce_stream_space(stream, C.byref(space), C.byref(room)))
            return room.value

        client._check(call.reduce_stream_begin(client.handle, C.byref(client.spec("sum", "f32")), C.byref(stream)))
        fails("ARGUMENT", commit, 4)
        assert give() == 4096
        C.memset(space, 0, 4096)
        fails("ARGUMENT", commit, 4100)
        commit(4000)
        fails("ARGUMENT", commit, 100)
        commit(96)
        commit(0)
        fails("ARGUMENT", commit, 4)
        assert give() == 4096
        client._check(call.reduce_stream_append(stream, bytes(8), C.c_size_t(8)))
        fails("ARGUMENT", commit, 4)
        assert give() == 4088
        commit(4)
        out = C.create_string_buffer(8)
        client._check(call.reduce_stream_finish(stream, out, C.c_size_t(8), None))
        assert out.raw == SUM and (fake.count(BEGIN), fake.count(APPEND)) == (1, 2)


def test_every_connection_begins_with_hello(scratch):
    """After each answer the daemon cuts. Once the client is connected again, its requests name no session that is gone."""
    cuts = 6
    with FakeDaemon(scratch / "s", lambda r: (r.reply(result()), r.cut())) as fake, Client(fake.url) as client:
        for n in range(cuts):
            assert client.run("sum", "f32", DATA) == SUM
            end = time.monotonic() + 60
            while client.reconnects() == n:  # it connects by itself
                assert time.monotonic() < end
                time.sleep(0.001)  # poll interval
        assert client.reconnects() == cuts and len(fake.connections) == cuts + 1
        assert [(r.kind, r.session == r.connection.session) for r in fake.requests] == [(HELLO, False), (REDUCE, True)] * cuts


def test_requests_amid_cuts_are_not_lost(scratch):
    """The same without waiting: a request with the old session on a new connection gets NO_SESSION, and is repeated."""

    def answer(r):
        if r.session != r.connection.session:
            r.refuse("NO_SESSION")
        else:
            r.reply(result())
            r.cut()

    with FakeDaemon(scratch / "s", answer) as fake, Client(fake.url) as client:
        for _ in range(20):
            assert client.run("sum", "f32", DATA) == SUM


# ---- it forgets ----
def test_a_daemon_that_forgets_every_session(scratch):
    """Some quick logins, then ever slower ones: no storm, and an end."""
    with FakeDaemon(scratch / "s", lambda r: r.refuse("NO_SESSION", field=b"session", text=b"who?")) as fake, Client(fake.url, timeout_ms=1500) as client:
        fault = fails("-14", client.run, "sum", "f32", DATA)
        assert fault.text == "who?"
        assert 5 <= fake.count(HELLO) <= 16 and fake.count(REDUCE) <= fake.count(HELLO), (fake.count(HELLO), fake.count(REDUCE))


def test_a_session_that_was_forgotten_is_opened_again(scratch):
    forgotten = []

    def answer(r):
        if forgotten:
            r.reply(result())
        else:
            forgotten.append(r)
            r.refuse("NO_SESSION")

    with FakeDaemon(scratch / "s", answer) as fake, Client(fake.url) as client:
        assert client.run("sum", "f32", DATA) == SUM
        assert (fake.count(HELLO), fake.count(REDUCE), len(fake.connections)) == (2, 2, 1)


# ---- it is busy ----
def test_busy_is_waited_for(scratch):
    busy = [3]

    def answer(r):
        busy[0] -= 1
        if busy[0] >= 0:
            r.refuse("BUSY", time_ms=5)
        else:
            r.reply(result())

    with FakeDaemon(scratch / "s", answer) as fake, Client(fake.url) as client:
        assert client.run("sum", "f32", DATA) == SUM
        assert fake.count(REDUCE) == 4


def test_busy_at_the_finish_is_told(scratch):
    """FINISH has ended the stream whatever its answer is: again it would meet BAD_HANDLE."""

    def answer(r):
        if r.kind == BEGIN:
            r.reply(struct.pack("<Q", 7))
        elif r.kind == APPEND:
            r.reply(struct.pack("<Q", sum(len(x.body) - 16 for x in fake.requests if x.kind == APPEND) // 4))
        else:
            r.refuse("BUSY" if fake.count(FINISH) == 1 else "BAD_HANDLE", time_ms=1)

    with FakeDaemon(scratch / "s", answer, chunk=4096) as fake, Client(fake.url) as client:
        fails("BUSY", client.stream, "sum", "f32", [bytes(8192)])
        assert fake.count(FINISH) == 1


# ---- the queue of calls that wait for a place ----
@pytest.mark.parametrize("which", [0, 1, 2], ids=["first", "middle", "last"])
def test_a_call_that_is_cancelled_in_the_queue(scratch, which):
    """One request at a time: three wait, one of them is cancelled, and another one comes behind. All others are answered."""
    held, holding = [], threading.Event()

    def answer(r):
        if r.kind == REDUCE and not held:
            held.append(r)
            holding.set()
        else:
            r.reply(result() if r.kind == REDUCE else struct.pack("<Q", 0))  # or CANCEL's

    with FakeDaemon(scratch / "s", answer, max_inflight=1) as fake, Client(fake.url) as client:
        spec, jobs = client.spec("sum", "f32"), []

        def submit():
            out, job = C.create_string_buffer(8), C.c_void_p()
            assert client.lib.reduce_submit(client.handle, C.byref(spec), DATA, C.c_size_t(len(DATA)), out, C.c_size_t(8), None, None, C.byref(job)) == 0
            jobs.append((job, out))

        submit()
        assert holding.wait(60)
        for _ in range(3):
            submit()
        client.lib.reduce_cancel(jobs[1 + which][0])
        submit()
        held[0].reply(result())
        ends = [client.lib.reduce_wait(job, C.c_uint32(60_000), None) for job, _ in jobs]
        assert ends == [-13 if i == 1 + which else 0 for i in range(5)]
        assert all(out.raw == SUM for (_, out), end in zip(jobs, ends) if end == 0)
        for job, _ in jobs:
            client.lib.reduce_job_free(job)


@pytest.mark.skipif(sanitizer() == "thread", reason="the other thread reads the job before submit returns: a race of the test's own")
def test_a_request_that_is_cancelled_while_it_is_copied(scratch):
    """One thread submits, and copies 4 MiB into a message without the client's lock; another one cancels meanwhile. The fake
    never answers: only the cancellation ends the job."""
    data = bytes(4 << 20)

    def cancel(client, job):
        while not job.value:
            pass
        client.lib.reduce_cancel(job)

    with FakeDaemon(scratch / "s", lambda r: None) as fake, Client(fake.url) as client:
        spec = client.spec("sum", "f32", path=1)
        for _ in range(10):
            out, job = C.create_string_buffer(8), C.c_void_p()
            other = threading.Thread(target=cancel, args=(client, job))
            other.start()
            assert client.lib.reduce_submit(client.handle, C.byref(spec), data, C.c_size_t(len(data)), out, C.c_size_t(8), None, None, C.byref(job)) == 0
            other.join()
            assert client.lib.reduce_wait(job, C.c_uint32(20_000), None) == -13
            client.lib.reduce_job_free(job)


def test_a_job_is_freed_after_its_callback(scratch):
    """reduce_job_free in another thread waits for a callback that runs."""
    job, freed = C.c_void_p(), threading.Event()

    def free():
        client.lib.reduce_job_free(job)
        freed.set()

    @C.CFUNCTYPE(None, C.c_void_p, C.c_void_p, C.c_int)
    def done(*_):
        other.start()
        early.append(freed.wait(0.2))

    early, other = [], threading.Thread(target=free)
    with FakeDaemon(scratch / "s", lambda r: r.reply(result())) as fake, Client(fake.url) as client:
        spec, out = client.spec("sum", "f32"), C.create_string_buffer(8)
        assert client.lib.reduce_submit(client.handle, C.byref(spec), DATA, C.c_size_t(len(DATA)), out, C.c_size_t(8), done, None, C.byref(job)) == 0
        assert freed.wait(60)
        other.join()
    assert early == [False] and out.raw == SUM


# ---- it lies ----
@pytest.mark.parametrize("lie", [{"session": 0}, {"max_data": 4095}], ids=lambda lie: next(iter(lie)))
def test_greetings_that_no_daemon_sends(scratch, lie):
    with FakeDaemon(scratch / "s", lambda r: r.reply(result()), **lie) as fake, pytest.raises(lib.Fault) as caught:
        Client(fake.url)
    assert caught.value.code == "-106"


@pytest.mark.parametrize("body", [
    pytest.param(result(dtype=I64), id="integers instead of floats"),
    pytest.param(result(dtype=0), id="a state instead of a value"),
    pytest.param(result(dtype=F32, cell_size=8), id="two f32"),
    pytest.param(result(dtype=F32, cell_size=4, body=SUM[:4]), id="a narrower type"),
    pytest.param(result(body=SUM * 2), id="one cell announced, two there"),
    pytest.param(result(cells=2, body=SUM * 2), id="two cells"),
    pytest.param(result(cells=2), id="two cells announced, one there"),
    pytest.param(result(cells=0, body=b""), id="none"),
    pytest.param(result(body=SUM + b"x"), id="a byte too many"),
    pytest.param(result(body=SUM[:7]), id="a byte too few"),
    pytest.param(result(cell_size=0, body=b""), id="cells of nothing"),
    pytest.param(result(cells=2**61), id="cells beyond all bounds"),
    pytest.param(b"", id="nothing"),
    pytest.param(bytes(47), id="a head that is cut"),
])
def test_results_of_another_shape(scratch, body):
    with FakeDaemon(scratch / "s", lambda r: r.reply(body)) as fake, Client(fake.url) as client:
        fails("-106", client.run, "sum", "f32", DATA)
        assert fake.count(REDUCE) == 1


@pytest.mark.parametrize("field", [{"mid": 1 << 40}, {"kind": PING}, {"flags": 0}, {"flags": 3}, {"magic": b"RDCF"}], ids=lambda f: next(iter(f)))
def test_replies_to_something_else(scratch, field):
    with FakeDaemon(scratch / "s", lambda r: r.reply(result(), **field)) as fake, Client(fake.url) as client:
        fails("-106", client.run, "sum", "f32", DATA)


def test_an_operation_that_an_older_daemon_does_not_know(scratch, ctl):
    """The library knows it, so the message says whose fault it is."""
    with FakeDaemon(scratch / "s", lambda r: r.refuse("OP", field=b"op", text=b"unknown operation code 26")) as fake, Client(fake.url) as client:
        told = "the daemon (fake) does not know sem, which libreduce 0."
        fault = fails("OP", client.run, "sem", "f32", DATA)
        assert fault.field == "op" and told in fault.text
        assert told in str(fails("OP", client.stream, "sem", "f32", [DATA] * 1_000_000))
        assert told.encode() in ctl("sem", "-t", "f32", "-", stdin=DATA, url=fake.url).stderr


def test_texts_have_no_control_characters(scratch, ctl):
    """An error and what a daemon says of itself go to terminals: a line of text each, of metrics many, whatever the daemon sends."""
    def answer(r):
        if r.kind != QUERY:
            r.refuse("IO", field=b"fi\x1b[32meld\xff", text=b"t\x1b[31mex\nt\x7f \xc3\xa4")
        elif struct.unpack_from("<I", r.body)[0] == METRICS:
            r.reply(b"a\x1b[m 1\nb 2\r\n")
        else:
            r.reply(struct.pack("<BBH", 3, 4, 9) + b"k\x1b[m" + b"v\n\x1b]0;x\x07\r")

    with FakeDaemon(scratch / "s", answer) as fake, Client(fake.url) as client:
        with pytest.raises(lib.Fault) as caught:
            client.run("sum", "f32", DATA)
        assert str(caught.value) == "IO: t?[31mex?t? \u00e4" and caught.value.text == "t?[31mex?t? \u00e4"
        done = ctl("sum", "-t", "f32", "-", stdin=DATA, url=fake.url)
        assert done.stderr.decode() == "reducectl: stdin: IO: t?[31mex?t? \u00e4\n"
        assert ctl("info", url=fake.url).stdout.split() == [b"k?[m", b"v??]0;x??"]
        assert ctl("metrics", url=fake.url).stdout == b"a?[m 1\nb 2?\n"


def test_texts_that_no_terminal_shows_are_replaced(scratch, ctl):
    """C1 controls, which terminals take as escape sequences; characters that turn the direction of writing; what is not UTF-8."""
    evil, clean = b"\xc2\x9b31m\xe2\x80\xae\xe2\x81\xa6\xff\x9b\xc3", "?31m?????"

    def answer(r):
        if r.kind != QUERY:
            r.refuse("IO", field=b"f" + evil, text=b"t" + evil)
        elif struct.unpack_from("<I", r.body)[0] == METRICS:
            r.reply(b"a" + evil + b" 1\n")
        else:
            r.reply(struct.pack("<BBH", 3, 1 + len(evil), 1 + len(evil)) + b"k" + evil + b"v" + evil)

    with FakeDaemon(scratch / "s", answer) as fake, Client(fake.url) as client:
        with pytest.raises(lib.Fault) as caught:
            client.run("sum", "f32", DATA)
        assert caught.value.text == "t" + clean
        done = ctl("sum", "-t", "f32", "-", stdin=DATA, url=fake.url)
        assert done.stderr.decode() == f"reducectl: stdin: IO: t{clean}\n"
        assert ctl("info", url=fake.url).stdout.decode().split() == ["k" + clean, "v" + clean]
        assert ctl("metrics", url=fake.url).stdout.decode() == f"a{clean} 1\n"


def test_the_reason_for_no_shared_memory_has_no_control_characters(scratch, ctl):
    """It is part of reduce_info, and `reducectl -v` prints it."""
    def refuse(listener):
        for _ in range(2):
            peer = listener.accept()[0]
            with peer:
                kind, = struct.unpack_from("<I", peer.recv(4096))
                peer.send(struct.pack("<IIQQQ", kind, ERRORS.index("AUTH"), 0, 0, 0) + error_body(b"token", b"n\x1b[31mo\n"))
                peer.recv(1)  # until the client hangs up

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, FakeDaemon(scratch / "s", lambda r: r.reply(result()), token=b"t" * 16) as fake:
        listener.bind(str(scratch / "s.side"))
        listener.listen()
        thread = threading.Thread(target=refuse, args=(listener,), daemon=True)
        thread.start()
        with Client(fake.url) as client:
            fails("ARGUMENT", client.run, "sum", "f32", DATA, path=PATH_SHM)
            assert client.info().side == b"AUTH: n?[31mo?"
        (scratch / "data").write_bytes(DATA)
        assert b"AUTH: n?[31mo?\n" in ctl("sum", "-t", "f32", "-v", "--path", "shm", scratch / "data", url=fake.url).stderr
        thread.join()
