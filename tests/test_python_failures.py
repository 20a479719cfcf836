"""The Python package where something fails: busy, silent and dying daemons, full pipes, Ctrl-C, arrays that change, forks, threads in
any order. Each ends in a typed exception or the right value, and the next call works."""
import concurrent.futures
import gc
import math
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from certificates import Authority
from conftest import LIB, python_env, sanitizer
from fakedaemon import FakeDaemon
from pythonpackage import PACKAGE, package, reduced  # noqa: F401
from rawclient import REDUCE
from reduced import _jobs
from test_fake_daemon import result
from test_tls import LOCAL, tls_url

BIG = np.random.default_rng(7).standard_normal(600_000)  # 4.8 MB: a job of several messages
TOTAL = math.fsum(BIG)
SUM = struct.pack("<d", 3.25)


# ---- daemons ----
def test_a_busy_daemon_is_waited_for_or_told(scratch):
    busy = []

    def answer(r):
        if len(busy) < 3:
            busy.append(r)
            r.refuse("BUSY", time_ms=5, field=b"inflight")
        else:
            r.reply(result(body=SUM))
    with FakeDaemon(scratch / "s", answer) as fake:
        with reduced.Client(fake.url, autostart=False) as client:
            assert reduced.sum([1.0, 2.25, 0.0], client=client) == 3.25 and fake.count(REDUCE) == 4
        busy.clear()
        with reduced.Client(fake.url, autostart=False, retry=False) as client, pytest.raises(reduced.BusyError) as e:
            reduced.sum([1.0, 2.25, 0.0], client=client)
        assert (e.value.code, e.value.field, e.value.retry) == ("BUSY", "inflight", 0.005)


def test_errors_whose_text_is_not_text(scratch):
    with FakeDaemon(scratch / "s", lambda r: r.refuse("IO", field=b"fi\xffeld", text=b"\x1b[31m\xff")) as fake:
        with reduced.Client(fake.url, autostart=False, local=False) as client:
            with pytest.raises(reduced.IoError) as caught:
                reduced.sum([1.5], client=client)
    assert caught.value.field == "fi?eld" and str(caught.value) == "IO: ?[31m?", "libreduce has replaced what is not text"


def test_a_silent_daemon_is_given_up(scratch):
    with FakeDaemon(scratch / "s", lambda r: None) as fake, reduced.Client(fake.url, autostart=False, timeout=0.2) as client:
        for call in (lambda: reduced.sum([1.0], client=client), lambda: reduced.sum(BIG, client=client), lambda: client.ping(),
                     lambda: reduced.submit("sum", BIG, client=client).result(), lambda: reduced.many([("sum", [1.0])], client=client)):
            with pytest.raises(reduced.TimeoutError_) as e:
                call()
            assert isinstance(e.value, TimeoutError)


@pytest.mark.slow
def test_a_full_pipe_and_a_daemon_that_is_killed_behind_it(start):
    """The daemon does not read: the arrays fill its sockets."""
    daemon = start()
    with reduced.Client(daemon.url, autostart=False, reconnect_timeout=0.2) as client:
        assert reduced.sum(BIG, client=client) == TOTAL
        os.kill(daemon.process.pid, signal.SIGSTOP)
        tasks = [reduced.submit(op, BIG, client=client) for op in ("sum", "max", "std") for _ in range(3)]
        with pytest.raises(reduced.DeadlineError):
            reduced.sum(BIG, client=client, deadline=0.2)
        assert tasks[8].cancel() and isinstance(tasks[8].exception(60), reduced.CancelledError)
        os.kill(daemon.process.pid, signal.SIGCONT)
        assert tasks[0].result(60) == TOTAL and tasks[3].result(60) == BIG.max()
        os.kill(daemon.process.pid, signal.SIGSTOP)
        late = [reduced.submit("sum", BIG, client=client) for _ in range(5)]
        daemon.kill()
        assert all(isinstance(t.exception(60), reduced.NoDaemonError) for t in late)
        with pytest.raises(ConnectionError):
            reduced.sum(BIG, client=client)


@pytest.mark.slow
def test_over_tls(start, tmp_path):
    ca = Authority(tmp_path, "ca")
    cert, key = ca.issue("server", "localhost")
    daemon = start("--listen", f"tls+tcp://{LOCAL}:0", "--tls-cert", cert, "--tls-key", key, "--tls-ca", ca.file("pem"))
    mine = reduced.TLS(str(ca.file("pem")), *map(str, ca.issue("client", "client")))
    with reduced.Client(tls_url(daemon), tls=mine) as client:
        assert reduced.sum(BIG, client=client) == TOTAL and reduced.sum(BIG, offsets=[0, 9], client=client) == math.fsum(BIG[:9])
        with pickle.loads(pickle.dumps(client)) as other:
            assert reduced.max(BIG, client=other) == BIG.max()
        r = reduced.put("over-tls", BIG, client=client)
        assert np.sum(r) == TOTAL
        again = pickle.loads(pickle.dumps(r))
        assert reduced.mean(again) == reduced.mean(BIG, client=client)
        again.drop()
    with pytest.raises(reduced.AuthError):
        reduced.Client(tls_url(daemon), tls=reduced.TLS(str(ca.file("pem"))))


def test_a_client_that_is_dropped_disconnects(shared):
    """But not while a task, a stream or resident data need it."""
    def descriptors():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))
    with reduced.Client(shared.url, autostart=False):
        before = descriptors()
        for _ in range(5):
            task, s = reduced.submit("sum", BIG, client=reduced.Client(shared.url)), reduced.stream("sum", "f8", client=reduced.Client(shared.url))
            assert reduced.sum(reduced.put("kept", [1.5], replace=True, client=reduced.Client(shared.url))) == 1.5
            s.append(BIG)
            gc.collect()
            assert task.result(60) == s.finish() == TOTAL
        reduced.Resident("kept", client=reduced.Client(shared.url)).drop()
        del task, s
        end = time.monotonic() + 60
        while descriptors() != before:  # the thread that ended the last task may not have let go of it
            assert time.monotonic() < end
            time.sleep(0.01)  # poll interval


# ---- Ctrl-C (the rest is in test_python_signals.py) ----
INTERRUPTED = """
import os, signal, sys
import numpy as np
import reduced
from reduced import _run
signal.signal(signal.SIGINT, signal.default_int_handler)
c = reduced.Client(sys.argv[1], autostart=False)
_run.Job.wait = lambda self, ms: os.kill(os.getpid(), signal.SIGINT) or False
for call in (lambda: reduced.many([("sum", np.ones(3_000_000)), ("max", np.ones(3_000_000)), ("sum", [1.0])], client=c),
             lambda: reduced.sum(np.ones(3_000_000), offsets=[0, 9, 3_000_000], progress=print, client=c),
             lambda: reduced.sum(np.ones(300), progress=print, client=c)):
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", reduced.sum([1, 2], client=c))
"""


def test_ctrl_c_ends_every_wait_for_a_job(shared):
    env = {**python_env(), "PYTHONPATH": str(PACKAGE), "REDUCED_LIBRARY": str(LIB / "libreduce.so")}
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, shared.url], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted 3\n" * 3, done.stderr


# ---- arrays ----
def test_arrays_that_are_freed_or_resized_while_a_job_runs(package):  # noqa: F811
    a, offsets = BIG.copy(), np.array([0, 10, BIG.size])
    task, by_segments = package.submit("sum", a), package.submit("sum", a, offsets=offsets, where=a > 0)
    with pytest.raises(ValueError, match="resize"):
        a.resize(10)
    del a
    offsets[:] = 0  # the job has its own
    temporary = [package.submit("sum", BIG * 2**i) for i in range(4)]
    gc.collect()
    assert task.result() == TOTAL and [t.result() for t in temporary] == [TOTAL * 2**i for i in range(4)]
    assert by_segments.result().tolist() == [math.fsum(x[x > 0]) for x in (BIG[:10], BIG[10:])]


# ---- forks ----
@pytest.mark.skipif(bool(sanitizer()), reason="a forked child of a sanitized Python is not one of its own")
def test_what_a_forked_child_may_not_use(package):  # noqa: F811
    """Streams and tasks stay the parent's; a new call opens a connection."""
    s, task, seen = package.stream("sum", "f8"), package.submit("sum", BIG), []
    pending = _jobs.Task.__new__(_jobs.Task)  # one that is not done at the fork
    concurrent.futures.Future.__init__(pending)
    pending.add_done_callback(lambda _: seen.append(os.getpid()))
    _jobs._under_way.add(pending)
    s.append([1.5])
    ended = _jobs._ended  # whose lock another thread may have held in the moment of the fork
    pid = os.fork()
    if not pid:
        code = 1
        try:
            try:
                s.append([1.0])
            except package.ForkedError:
                code = 0 if _jobs._ended is not ended and package.sum([1, 2]) == 3 and package.submit("max", [1, 5]).result(60) == 5 else 2
            if not isinstance(pending.exception(60), package.ForkedError) or os.getpid() in seen:
                code = 3
            del s, task
            gc.collect()
        finally:
            os._exit(code)
    _jobs._under_way.discard(pending)
    assert os.waitpid(pid, 0)[1] == 0 and not pending.done()
    s.append([2.5])
    assert s.finish() == 4.0 and task.result() == TOTAL


# ---- threads ----
def test_threads_that_change_places_all_the_time(shared):
    """All kinds of calls by many threads, which Python interrupts wherever it can: a million times a second at most. They begin with
    a client that has no connection, and it is replaced under way."""
    numbers = BIG[:3000]
    rows = numbers.reshape(60, 50)
    expected = math.fsum(numbers)
    by_row = [math.fsum(r) for r in rows]
    clients = [pickle.loads(pickle.dumps(shared_client)) for shared_client in [reduced.Client(shared.url, autostart=False)]]
    calls = [lambda c: reduced.sum(numbers, client=c) == expected,
             lambda c: reduced.sum(rows, axis=1, client=c).tolist() == by_row,
             lambda c: reduced.sum(numbers, offsets=range(0, 3001, 50), client=c).tolist() == by_row,
             lambda c: reduced.submit("sum", numbers, client=c).result(60) == expected,
             lambda c: reduced.many([("sum", rows[0]), ("sum", rows[1])], client=c) == by_row[:2],
             lambda c: float(reduced.state("sum", rows[0]) | reduced.state("sum", rows[1])) == math.fsum(rows[:2].ravel()),
             lambda c: streamed(c, rows) == expected,
             lambda c: reduced.stats(rows, axis=0, client=c).max.tolist() == rows.max(0).tolist(),
             lambda c: raises(reduced.EmptyError, c)]

    def streamed(c, pieces):
        with reduced.stream("sum", "f8", client=c) as s:
            for piece in pieces:
                s.append(piece)
        return s.value

    def raises(kind, c):
        try:
            reduced.max([], client=c)
        except kind as e:
            return e.code == "EMPTY"

    wrong, closed, end = [], [], time.monotonic() + int(os.environ.get("REDUCED_EXAMPLES", 40)) / 40

    def work(seed):
        try:
            rounds = 0
            while rounds < len(calls) or time.monotonic() < end:
                f = calls[(seed + rounds) % len(calls)]
                rounds += 1
                try:
                    if not f(clients[-1]):
                        wrong.append(seed)
                except reduced.CancelledError:
                    closed.append(seed)  # a task or a stream of the client that was closed
                except ValueError as e:
                    if "closed" not in str(e):
                        raise
                if seed == 0 and rounds % 10 == 0:
                    clients.append(pickle.loads(pickle.dumps(clients[-1])))
                    clients[-2].close()
        except BaseException as e:
            wrong.append(e)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(24)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
        for c in clients:
            c.close()
    assert not wrong
