"""Many processes, dying processes, dying daemons: no wrong and no lost answer, nothing left behind."""
import concurrent.futures
import contextlib
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import oracle
from conftest import BIN, TESTS, Daemon, exits_when_idle, python_env, sanitizer, select_a_moment
from rawclient import REDUCE, REDUCE_AT, Closed, Connection, Fault, parse_result, spec

F32 = struct.pack("<3f", 1.5, 2.25, -0.5)
SUM = struct.pack("<d", 3.25)
REQUESTS = int(os.environ.get("REDUCED_MEMORY_REQUESTS", 20_000))


WAYS = "raw", "lib"


def worker(how, url, seed, count):
    env = dict(os.environ) if how == "raw" else python_env()  # a raw one loads no libreduce, and a sanitizer triples its start
    return subprocess.Popen([sys.executable, TESTS / "worker.py", how, url, str(seed), str(count)], env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def finished(process, seconds=300):
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    return int(out.split()[-1])


def until(condition, what, seconds=60):
    """Ask again until it holds: for what the daemon does in its own time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.Popen(["sleep", "0.02"]).wait()


# ---- many ----
def test_sixteen_processes_at_once(start, request):
    daemon = start(tcp=True)
    count = 40 if request.config.sanitized else 250
    workers = [worker(WAYS[i % 2], daemon.tcp_url if i % 5 == 4 else daemon.url, i, count) for i in range(16)]
    assert [finished(w) for w in workers] == [count] * 16
    until(lambda: daemon.status()["sessions"] == 1, "sessions of processes that ended without a word")
    status = daemon.status()
    assert status["streams"] == 0 and status["requests"] >= 16 * count and status["health"] in ("ok", "unknown")


def test_clients_killed_at_work(start, request):
    daemon = start()
    rng = np.random.default_rng(30)
    with daemon.connect() as bystander:
        for round_ in range(3 if request.config.sanitized else 6):
            victims = [worker(WAYS[i % 2], daemon.url, 100 * round_ + i, 10**9) for i in range(4)]
            for v in victims:
                assert v.stdout.readline() == "ready\n", v.stderr.read()
            for _ in range(int(rng.integers(1, 60))):  # they are in the middle of something
                assert bystander.reduce("sum", "f32", F32).cells == [SUM]
            for v in victims:
                v.kill()
                v.communicate()
            assert bystander.reduce("sum", "f32", F32).cells == [SUM]
    until(lambda: daemon.status()["sessions"] == 1, "sessions of killed clients")
    until(lambda: daemon.status()["streams"] == 0, "streams of killed clients")


def test_raw_connections_cut_at_every_point(start):
    """A client that dies after any number of bytes of a message."""
    daemon = start()
    with daemon.connect() as bystander:
        body = bystander.reduce_body("sum", "f64", bytes(8 * 1000))
        for cut in [*range(0, 60), 100, 1000, 8000, 8112]:
            c = daemon.connect()
            message = struct.pack(">I", 0x80000001) + b"RDCE" + struct.pack("<BBHIIQQQ", 1, REDUCE, 0, 0, 0, c.session, 1, len(body)) + body
            c.socket.sendall((b"\x01" + struct.pack(">Q", len(message)) + message)[:cut])
            c.close()
        assert bystander.reduce("sum", "f32", F32).cells == [SUM]
    until(lambda: daemon.status()["connections"] == 1, "cut connections")


@pytest.mark.parametrize("tcp", [False, True], ids=["ipc", "tcp"])
def test_clients_that_hang_up_with_replies_pending(start, tcp):
    """Each connection ends, whatever was half received or half sent, and the daemon leaves by itself in the end."""
    daemon = start(tcp=True)
    large = spec("sum", "u8", rows=1 << 17)  # 1 MiB of zeros comes back
    for i in range(100):
        c = daemon.connect(tcp=tcp)
        body = c.reduce_body("sum", "u8", bytes(100_000))
        for k in range(1 + i % 11):
            c.send(REDUCE, large if (i + k) % 7 == 0 else body)
        c.close()
    until(lambda: daemon.status()["connections"] == 1, "connections of clients that hung up")
    with daemon.connect() as c:
        assert c.reduce("sum", "f32", F32).cells == [SUM]


# ---- restarts ----
def test_daemon_killed_and_restarted_under_clients(start):
    """libreduce repeats what the death of the daemon cut off: no wrong and no lost answer."""
    daemon = start()
    workers = [worker("lib", daemon.url, 40 + i, 10**9) for i in range(4)]
    for w in workers:
        assert w.stdout.readline() == "ready\n", w.stderr.read()
    generations = [daemon]
    for _ in range(4):
        generations[-1].kill()
        generations.append(start(directory=daemon.directory))
        with generations[-1].connect() as c:
            served = c.query(2)["requests"]
            until(lambda: c.query(2)["requests"] > served + 200, "the workers are back at work")
    for w in workers:
        w.send_signal(signal.SIGTERM)
    assert all(finished(w) > 0 for w in workers)


def test_stale_socket_is_taken_over(start):
    daemon = start()
    daemon.kill()
    assert daemon.path.exists(), "a killed daemon leaves its socket"
    again = start(directory=daemon.directory)
    with again.connect() as c:
        assert c.reduce("sum", "f32", F32).cells == [SUM]
    again.stop()
    assert not again.path.exists(), "a daemon that leaves takes its socket along"


def test_second_daemon_is_refused(start):
    daemon = start()
    second = subprocess.run([BIN / "reduced", "--listen", daemon.url, "--backend", "cpu"], capture_output=True, text=True, timeout=60)
    assert second.returncode == 1 and "s" in second.stderr
    with daemon.connect() as c:
        assert c.reduce("sum", "f32", F32).cells == [SUM]
    polite = subprocess.run([BIN / "reduced", "--listen", daemon.url, "--backend", "cpu", "--autostarted"], capture_output=True, text=True, timeout=60)
    assert polite.returncode == 0, polite.stderr


def test_many_start_at_once(scratch, start):
    """Of several daemons on one socket exactly one serves."""
    daemons = [Daemon(scratch, wait=False) for _ in range(6)]
    try:
        daemons[0].flags and until(lambda: sum(d.process.poll() is None for d in daemons) <= 1, "all but one leave")
        alive = [d for d in daemons if d.process.poll() is None]
        assert len(alive) == 1 and all(d.process.returncode == 1 for d in daemons if d is not alive[0])
        alive[0].wait_ready()
        alive[0].stop()
    finally:
        for d in daemons:
            d.close()


@pytest.mark.parametrize("flags", [(), ("--small-bytes", 0)], ids=["at once", "by the engine"])
def test_who_keeps_to_max_inflight_is_never_busy(start, flags):
    """A request no longer counts when its reply can be read, or when the loop has it again."""
    daemon = start("--max-inflight", 1, *flags)

    def talk(c):
        good, bad = c.reduce_body("sum", "u8", b"\1\2"), c.reduce_body("min", "u8", b"")
        for n in range(1500):
            try:
                assert parse_result(c.call(REDUCE, bad if n % 3 == 0 else good)).cells == [struct.pack("<Q", 3)]
            except Fault as f:
                assert n % 3 == 0 and f.code == "EMPTY", f

    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(talk, stack.enter_context(daemon.connect())) for _ in range(8)]:
            done.result()


@pytest.mark.parametrize("flags", [(), ("--small-bytes", 0)], ids=["at once", "by the engine"])
def test_each_of_many_has_its_own_result_error_and_policy(start, flags):
    daemon = start(*flags)
    nan = struct.pack("<3d", 1.0, float("nan"), 2.0)
    kinds = [
        (dict(op="sum", dtype="f64", data=nan, nan="omit"), struct.pack("<d", 3.0)),
        (dict(op="sum", dtype="f64", data=nan), None),
        (dict(op="sum", dtype="f64", data=nan, nan="error"), ("NAN", "data")),
        (dict(op="max", dtype="i32", data=b""), ("EMPTY", "row_len")),
        (dict(op="sum", dtype="u64", data=struct.pack("<2Q", 2**63, 2**63)), ("OVERFLOW", "out")),
        (dict(op="argmin", dtype="u8", data=bytes([3, 1, 2, 9, 8, 7]), rows=2), struct.pack("<2Q", 1, 2)),
        (dict(op="count", dtype="f32", data=struct.pack("<2f", 0.5, 1.5), mask=b"\0\1"), struct.pack("<Q", 1)),
        (dict(op="mean", dtype="f32", data=struct.pack("<4f", 1, 2, 3, 6), nan="propagate"), struct.pack("<d", 3.0)),
    ]
    with daemon.connect() as a, daemon.connect() as b:
        daemon.process.send_signal(signal.SIGSTOP)  # so that they come together
        sent = [(c, c.send(REDUCE, c.reduce_body(**what)), want) for _ in range(4) for c in (a, b) for what, want in kinds]
        daemon.process.send_signal(signal.SIGCONT)
        for c, request, want in sent:
            try:
                result = parse_result(c.wait(request))
                assert not isinstance(want, tuple), (want, result)
                assert want is None or b"".join(result.cells) == want
                assert want is not None or np.isnan(struct.unpack("<d", result.cells[0])[0])
            except Fault as f:
                assert (f.code, f.field) == want, f
        status = a.query(2)
    assert status["requests.sum"] == 32 and status["errors"] == 24
    assert status["errors.NAN"] == status["errors.EMPTY"] == status["errors.OVERFLOW"] == 8


# ---- leaving ----
def test_sigterm_finishes_what_is_under_way(start):
    daemon = start("--threads", 1, "--small-bytes", 0, "--drain", 60)
    rows = 200_000
    with daemon.connect() as c, daemon.connect() as streaming:
        stream = streaming.begin("sum", "f32")
        streaming.append(stream, 0, F32)
        sent = [c.send(REDUCE, spec("sum", "f64", rows=rows)) for _ in range(4)]
        late = daemon.connect()
        until(lambda: late.query(2)["requests.sum"] == 1 + len(sent), "all taken up")  # BEGIN counts, too
        daemon.process.send_signal(signal.SIGTERM)
        daemon.notified("^STOPPING=1")
        for request in sent:
            body = c.wait(request)
            assert (body[4:16], body[48:]) == (struct.pack("<IQ", 8, rows), bytes(8 * rows))
        with pytest.raises((Fault, Closed)) as caught:
            late.reduce("sum", "f32", F32)
        assert isinstance(caught.value, Closed) or (caught.value.code == "BUSY" and caught.value.retry_ms)
        late.close()
        assert streaming.append(stream, 3, F32) == 6, "an open stream may end in peace"
        assert streaming.finish(stream, 6).cells == [struct.pack("<d", 6.5)]
        assert daemon.process.wait(60) == 0
    assert not daemon.path.exists()


def test_sigterm_with_small_ones_under_way(start):
    """Each request is answered, or its connection is closed; no answer is wrong."""
    daemon = start("--small-bytes", 0)
    with daemon.connect() as a, daemon.connect() as b:
        sent = [(c, c.send(REDUCE, c.reduce_body("sum", "u8", b"\1\2"))) for _ in range(30) for c in (a, b)]
        daemon.process.send_signal(signal.SIGTERM)
        for c, request in sent:
            try:
                assert parse_result(c.wait(request)).cells == [struct.pack("<Q", 3)]
            except Fault as f:
                assert (f.code, f.field) == ("BUSY", "daemon"), f
            except Closed:
                break
        assert daemon.process.wait(60) == 0


def past_the_loop(daemon, c, **fields):
    """A reduction of resident data that takes a fraction of a second, begun while the engine was at rest."""
    size = (4 if sanitizer() == "thread" else 64) << 20  # a daemon that leaves waits for its engine for 5 s
    data = np.random.default_rng(7).bytes(size)  # any bits: numbers of every size, which take long, and NaNs
    handle = c.put("x", "f64", data)
    body = spec("var", "f64", row_len=len(data) // 8, **fields) + struct.pack("<QQQ", handle, 0, len(data))
    end = time.monotonic() + 60
    with daemon.connect() as other:
        while time.monotonic() < end:
            sent = c.send(REDUCE_AT, body)
            while not select.select([c.socket], [], [], 0)[0]:
                if 'queue_length{queue="engine"} 1\n' in other.metrics():
                    return sent
            with contextlib.suppress(Fault):
                c.wait(sent)  # over before anybody looked: once more
    raise AssertionError("it was never under way")


def test_sigterm_finishes_what_went_past_the_loop(start, monkeypatch):
    """The daemon leaves after the last answer, of which it knows: it tells how many there were."""
    answers = []
    receive = Connection.receive_frame
    monkeypatch.setattr(Connection, "receive_frame", lambda c: answers.append(receive(c)) or answers[-1])
    daemon = start("--threads", 1)
    with daemon.connect() as c:
        sent = past_the_loop(daemon, c, nan="omit")
        daemon.process.send_signal(signal.SIGTERM)
        daemon.notified("^STOPPING=1")
        daemon.process.send_signal(signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.process.wait(1.5)  # replies have a second to leave, work has `drain`
        daemon.process.send_signal(signal.SIGCONT)
        assert len(parse_result(c.wait(sent)).cells[0]) == 8
        assert daemon.process.wait(60) == 0
    assert f"left after {len(answers)} requests" in daemon.log()


def test_the_limit_of_draining_cancels_what_went_past_the_loop(start):
    daemon = start("--threads", 1, "--drain", 0)
    with daemon.connect() as c:
        sent = past_the_loop(daemon, c, nan="error")  # which the quick way leaves to the loop
        daemon.process.send_signal(signal.SIGTERM)
        with pytest.raises(Fault) as caught:
            c.wait(sent)
        assert (caught.value.code, caught.value.field) == ("CANCELLED", "daemon")
        assert daemon.process.wait(60) == 0
    assert "not drained within 0 s" in daemon.log()


def test_drain_has_a_limit(start):
    daemon = start("--drain", 0)
    with daemon.connect() as c:
        c.begin("sum", "f32")  # never finished
        daemon.stop()
    assert "not drained within 0 s" in daemon.log()


def test_idle_daemon_leaves_at_once(start):
    daemon = start()
    for _ in range(3):
        daemon.connect().close()
    daemon.stop()
    assert "not drained" not in daemon.log()


def test_idle_exit(scratch, start):
    with exits_when_idle(start, scratch) as (daemon, c):
        with pytest.raises(subprocess.TimeoutExpired):  # not while somebody is there
            daemon.process.wait(2.5)
        c.ping()
    assert daemon.process.wait(60) == 0
    assert not daemon.path.exists()


# ---- signals, systemd ----
def test_sighup_rereads_the_config(scratch, start):
    config = scratch / "r.conf"
    config.write_text("max-streams = 1\nlog-level = info\n")
    daemon = start("--config", config)
    with daemon.connect() as c:
        c.begin("sum", "f32")
        with pytest.raises(Fault) as caught:
            c.begin("sum", "f32")
        assert caught.value.limit == 1
        config.write_text("max-streams = 2\nlog-level = info\n")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_log("config read again")
        c.begin("sum", "f32")
        with pytest.raises(Fault) as caught:
            c.begin("sum", "f32")
        assert caught.value.limit == 2
        config.write_text("max-streams = nonsense\n")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_log("old settings stay")
        config.write_text("max-streams = 2\nlog-level = info\nthreads = 3\n")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_log("needs a restart: .*threads")
        assert c.query(1)["limits.max_streams"] == 2
        c.ping()


def test_systemd_is_told(start):
    daemon = start()
    first = daemon.notified("^STATUS=.*; 0 sessions, 0 requests so far$")
    daemon.notified("^READY=1")
    assert first.startswith(f"STATUS={daemon.status()['device_note']};")
    with daemon.connect():
        daemon.notified("^STATUS=.*; 1 sessions, [1-9]")
    daemon.process.send_signal(signal.SIGHUP)
    assert "MONOTONIC_USEC=" in daemon.notified("^RELOADING=1")
    daemon.notified("^READY=1")
    daemon.process.send_signal(signal.SIGTERM)
    daemon.notified("^STOPPING=1")
    assert daemon.process.wait(60) == 0


def test_service_manager_that_does_not_read(start):
    """The kernel keeps some ten messages for it; the daemon must not wait for room."""
    daemon = start()
    for n in range(1, 17):
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_log(rf"(?:config read again[^$]*){{{n}}}")
    with daemon.connect() as c:
        c.ping()


# ---- memory ----
@pytest.mark.unsanitized
def test_memory_does_not_grow(start):
    """Resident memory after many requests is that after a thousand, within 1 MiB."""
    daemon = start()
    rng = np.random.default_rng(31)
    arrays = [rng.standard_normal(int(n)).astype("<f4") for n in (1, 16, 100, 1000, 4000, 16_000)]
    bodies = []

    def ask(c, count):
        for i in range(0, count, 20):
            sent = [c.send(REDUCE, bodies[(i + k) % len(bodies)]) for k in range(20)]
            for request in sent:
                c.wait(request)

    with daemon.connect() as c:
        bodies += [c.reduce_body("sum", "f32", a.tobytes()) for a in arrays]
        ask(c, 1000)
    until(lambda: daemon.status()["sessions"] == 1, "the first client is gone")
    first = daemon.rss()
    for _ in range(10):
        with daemon.connect() as c:
            ask(c, REQUESTS // 10)
    until(lambda: daemon.rss() <= first + 1024, f"memory at most 1 MiB above {first} KiB (now {daemon.rss()})")


@pytest.mark.unsanitized
def test_memory_of_a_peak_goes_back(start):
    """Many large messages at once, in all of the daemon's threads: at rest it holds what it held before."""
    daemon = start()
    daemon.status()
    first = daemon.rss()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(daemon.connect()) for _ in range(24)]
        bodies = [clients[0].reduce_body("sum", "f32", bytes(n << 10)) for n in (3, 150, 2048, 700)]
        for turn in range(8):
            sent = [(c, c.send(REDUCE, bodies[(turn + k + n) % 4])) for k in range(4) for n, c in enumerate(clients)]
            for c, request in sent:
                c.wait(request)
    until(lambda: daemon.rss() <= first + 4096, f"memory at most 4 MiB above {first} KiB")


def test_descriptors_do_not_leak(start):
    daemon = start()
    count = lambda: len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
    with daemon.connect() as c:
        before = count()
        for _ in range(100):
            with daemon.connect() as d:
                d.begin("sum", "f32")
        until(lambda: count() <= before, "descriptors of closed connections")
        c.ping()


PATIENT = """
import sys
sys.path.insert(0, sys.argv[1])
import libreduce
with libreduce.Client(sys.argv[2], reconnect_timeout_ms=3000, timeout_ms=3000) as c:
    while True:
        c.run("sum", "u8", b"12")
        print(flush=True)
"""


@pytest.mark.slow
def test_a_client_that_stood_still_does_not_give_up(start):
    """... because of time in which it could not try: by SIGSTOP, for longer than its timeouts, while the daemon is replaced."""
    daemon, answers = start(), []
    with subprocess.Popen([sys.executable, "-c", PATIENT, TESTS, daemon.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        reader = threading.Thread(target=lambda: answers.extend(client.stdout))
        reader.start()

        def stop():
            client.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, client.pid, os.WSTOPPED)

        def goes_on():
            before = len(answers)
            until(lambda: client.poll() is not None or len(answers) > before + 2, "more answers")
            assert client.poll() is None, client.stderr.read()

        goes_on()
        for meets in ("nothing", "the end", "nobody", "nobody"):  # what it has met of it when it is stopped
            if meets == "nothing":
                stop()
            daemon.kill()
            if meets == "the end":
                stop()
            elif meets == "nobody":
                select_a_moment(client)
                stop()
            daemon = start()
            with pytest.raises(subprocess.TimeoutExpired):
                client.wait(4.2)
            client.send_signal(signal.SIGCONT)
            goes_on()
        client.kill()
        reader.join()


def test_reloads_without_end_do_not_put_off_the_watchdog(start, monkeypatch):
    """Each is answered before the next: only messages of the watchdog between them end the storm."""
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")  # so it is fed every second
    daemon = start()
    daemon.notified("^READY=1")
    fed, end = 0, time.monotonic() + 20
    while fed < 2 and time.monotonic() < end:
        daemon.process.send_signal(signal.SIGHUP)
        while "READY=1" not in (text := daemon.notified("^(READY|WATCHDOG)=1$")).split("\n"):
            fed += 1
    assert fed == 2


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_streams_do_no_harm(scratch, closed):
    """The numbers of these streams are nobody else's."""
    process = subprocess.Popen(["sh", "-c", f'exec "$@" {closed}', "sh", BIN / "reduced", "--config", "/dev/null", "--backend", "cpu",
                                "--listen", f"ipc://{scratch}/s"], stderr=subprocess.DEVNULL)
    while not (scratch / "s.side").exists():
        assert process.poll() is None
        select_a_moment(process)
    with Connection(f"ipc://{scratch}/s") as c:
        c.ping(b"x")
    process.terminate()
    assert process.wait(60) == 0
