"""Whose work comes first, how much a session and a user may have under way, and what is taken back."""
import concurrent.futures
import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import time

import numpy as np
import pytest
import rawclient
from conftest import BIN, select_a_moment
from otheruser import as_user, needs_root
from rawclient import CANCEL, FINISH, MAX_DATA, REDUCE, REDUCE_AT, Connection, Fault, parse_result, spec
from sideclient import Side

ROWS = 200_000  # sums of nothing: work without data, tens of milliseconds on one thread
WORK = spec("sum", "f64", rows=ROWS)
RIGHT = struct.pack("<IQ", 8, ROWS), bytes(8 * ROWS)  # of its reply: size and number of the cells, and these
BIG = np.ones(MAX_DATA // 8)
MANY = 24
FEW = 9  # their replies fit in what the daemon keeps unread: with more it would read no chunk of a client that only sends


def busy_daemon(start, *options):
    """One thread, and no request that is answered at once: work piles up."""
    return start("--threads", 1, "--small-bytes", 0, *options)


@contextlib.contextmanager
def stopped(daemon):
    """What is sent meanwhile arrives together."""
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def flood(daemon, c, n, **fields):
    """n requests that arrive together."""
    with stopped(daemon):
        return [c.send(REDUCE, WORK, **fields) for _ in range(n)]


def until(daemon, condition, seconds=60):
    """Wait for the daemon's status to be so; that status."""
    end = time.monotonic() + seconds
    while not condition(status := daemon.status()):
        assert time.monotonic() < end, status
        select_a_moment(daemon.process)
    return status


def ends(c, sent):
    """How the requests ended: error names, OK for a right answer."""
    found = []
    for request in sent:
        try:
            body = c.wait(request)  # compared as a whole: a client that takes replies slowly is disconnected
            assert (body[4:16], body[48:]) == RIGHT
            found.append("OK")
        except Fault as f:
            found.append(f.code)
            assert f.code != "BUSY" or 0 < f.retry_ms < 10_000, f
    return found


def test_a_user_has_a_cap_of_requests(start):
    daemon = busy_daemon(start, "--max-user-inflight", 4)
    with daemon.connect() as a, daemon.connect() as b:
        sent = flood(daemon, a, 3), flood(daemon, b, 12)
        faults = ends(a, sent[0]) + ends(b, sent[1])
        assert faults.count("OK") >= 4 and set(faults) == {"OK", "BUSY"}, faults
        assert daemon.status()["errors.BUSY"] == faults.count("BUSY"), "QUERY needs no room"
        assert len(b.reduce("sum", "f64", b"", rows=5).cells) == 5, "room again"


def test_bytes_of_a_session_and_a_user_have_caps(start):
    daemon = busy_daemon(start, "--max-held", 8)
    body = spec("stats", "f64", row_len=len(BIG)) + BIG.tobytes()
    with daemon.connect() as c:
        sent = [c.send(REDUCE, body) for _ in range(MANY)]
        faults = set()
        for request in sent:
            try:
                assert len(rawclient.parse_result(c.wait(request)).cells) == 1
            except Fault as f:
                faults.add((f.code, f.field, f.limit))
        assert faults <= {("BUSY", "held", 8 << 20)}
        assert len(c.reduce("sum", "f64", b"", rows=5).cells) == 5, "room again"


@pytest.mark.parametrize(("option", "field"), [("--max-held", "held"), ("--max-user-held", "user_held")])
def test_a_message_above_a_cap_of_bytes_is_refused_at_once(start, option, field):
    """BUSY would be repeated until the client's time is over."""
    daemon = start(option, 1)
    with daemon.connect() as c:
        with pytest.raises(Fault, match="allows no message") as fault:
            c.reduce("sum", "f64", BIG.tobytes())
        assert (fault.value.code, fault.value.field, fault.value.limit) == ("TOO_LARGE", field, 1 << 20)
        assert c.reduce("sum", "f64", BIG[: 1 << 16].tobytes()).cells == [np.float64(1 << 16).tobytes()]


def test_bytes_of_a_user_are_given_back(start):
    """Ten messages of 4 MiB one after the other, where a user may have two of them here."""
    daemon = busy_daemon(start, "--max-user-held", 9)
    with daemon.connect() as c:
        for _ in range(10):
            assert c.reduce("sum", "f64", BIG.tobytes()).cells == [np.float64(len(BIG)).tobytes()]


def test_what_goes_past_the_loop_counts_too(start):
    """The only request that the session may have reduces resident data, in the thread that read it."""
    daemon = start("--threads", 1, "--max-inflight", 1)
    with daemon.connect() as c:
        handle, met, end = c.put("x", "f64", BIG.tobytes() * 8), None, time.monotonic() + 60
        while not met:  # the first request may be over before the second one is sent
            assert time.monotonic() < end, "the second request was never refused"
            slow = slow_sum(c, handle, 8 * MAX_DATA)
            try:
                assert c.reduce("sum", "f64", BIG.tobytes()[:80000]).cells == [struct.pack("<d", 10000)]
            except Fault as f:
                met = f.code, f.field
            assert c.wait(slow)[48:] == bytes(8 * 4096), "the variance of ones"
        assert met == ("BUSY", "inflight")


def slow_sum(c, handle, size, **fields):
    """A request of resident data that takes tens of milliseconds on one thread, and goes past the loop if the engine is at rest."""
    rows = 4096
    return c.send(REDUCE_AT, spec("var", "f64", rows=rows, row_len=size // 8 // rows) + struct.pack("<QQQ", handle, 0, size), **fields)


def test_late_results_that_went_past_the_loop_are_not_told(start):
    """They give back their place in the session, too, which may have one request here."""
    daemon = start("--threads", 1, "--max-inflight", 1)
    with daemon.connect() as c:
        handle = c.put("x", "f64", BIG.tobytes() * 8)
        for _ in range(3):
            with pytest.raises(Fault) as caught:
                c.wait(slow_sum(c, handle, 8 * MAX_DATA, time_ms=1))
            assert caught.value.code == "DEADLINE"
            assert c.reduce("sum", "f64", BIG.tobytes()[:80000]).cells == [struct.pack("<d", 10000)]


def test_late_results_of_the_loop_are_not_told(start):
    """A task that the engine has begun is not taken back; its result comes a tenth of a second too late."""
    daemon = busy_daemon(start)
    with daemon.connect() as c:
        slow = spec("stats", "f64", rows=1 << 15, row_len=2) + BIG.tobytes()[: 1 << 19]
        for _ in range(3):
            with pytest.raises(Fault) as caught:
                c.wait(c.send(REDUCE, slow, time_ms=10))
            assert caught.value.code == "DEADLINE"
        ones = struct.pack("<5Q3dQ3d", 2, 0, 0, 0, 0, 1, 1, 2, 0, 1, 0, 0)
        assert c.wait(c.send(REDUCE, slow))[48:] == ones * (1 << 15)


def hold_replies(daemon, stack):
    """A connection that does not read five replies of 4 MiB, once the daemon has made them."""
    c = stack.enter_context(daemon.connect())
    for _ in range(5):
        c.send(REDUCE, spec("sum", "u8", rows=MAX_DATA // 8, row_len=0))
    until(daemon, lambda s: s["held.requests"] == 1 and s.get("held.replies", 0) >= 1)


@pytest.mark.values
@pytest.mark.parametrize("cap", [9 << 20, 256 << 20])
def test_unread_replies_of_a_user_have_a_cap(start, cap):
    """What the administrator gives a user for messages is for both; without that, there is a limit of its own."""
    daemon = start("--max-user-held", 9) if cap == 9 << 20 else start()
    with contextlib.ExitStack() as stack, daemon.connect() as c:
        held = 0
        while held <= cap:
            assert c.reduce("sum", "f64", b"", rows=5).cells == [bytes(8)] * 5
            hold_replies(daemon, stack)
            held = daemon.status()["held.reply_bytes"]
        with pytest.raises(Fault) as caught:
            c.reduce("sum", "f64", b"", rows=5)
        assert (caught.value.code, caught.value.field, caught.value.limit) == ("BUSY", "user_held", cap)
        stack.close()
        until(daemon, lambda s: s["held.reply_bytes"] < 1 << 20)
        assert c.reduce("sum", "f64", b"", rows=5).cells == [bytes(8)] * 5, "room again"


def test_the_last_exchanges_are_for_sessions_that_hold_few(start):
    daemon = busy_daemon(start, "--contexts", 32, "--max-user-inflight", 32)
    with daemon.connect() as greedy, daemon.connect() as modest:
        sent = flood(daemon, greedy, 40)
        assert len(modest.reduce("sum", "f64", b"", rows=5).cells) == 5
        fields = set()
        for request in sent:
            try:
                greedy.wait(request)
            except Fault as f:
                fields.add((f.code, f.field, f.limit))
        assert fields == {("BUSY", "contexts", 32)}


def test_a_user_has_a_cap_of_sessions(start):
    daemon = start("--max-user-sessions", 2)
    with daemon.connect(), daemon.connect():
        with daemon.connect(hello=False) as c, pytest.raises(Fault) as caught:
            c.hello()
        assert (caught.value.code, caught.value.field, caught.value.limit) == ("BUSY", "user_sessions", 2)


def test_a_deadline_passes_in_the_queue(start):
    """A request that waits behind other work is answered at its deadline, and takes no time of the engine."""
    daemon = busy_daemon(start)
    with daemon.connect() as c, daemon.connect() as late:
        sent = flood(daemon, c, MANY), [late.send(REDUCE, WORK, time_ms=1) for _ in range(MANY)]
        assert set(ends(late, sent[1])) <= {"DEADLINE", "OK"}
        assert ends(c, sent[0]) == ["OK"] * MANY
        assert late.reduce("sum", "f64", b"", rows=5).cells == [bytes(8)] * 5


def test_each_deadline_has_its_moment(start):
    """One that waits for long does not delay what is said at the deadlines of the others, one after the other."""
    daemon = busy_daemon(start)
    with daemon.connect() as c:
        with stopped(daemon):  # a session's requests go in the order of their coming
            work = [c.send(REDUCE, WORK) for _ in range(60)]
            waiting = [c.send(REDUCE, WORK, time_ms=ms) for ms in (60_000, 10, 20, 40)]
        for request in waiting[1:]:
            with pytest.raises(Fault) as caught:
                c.wait(request)
            assert caught.value.code == "DEADLINE"
        came_before = sum(rid in c._early for rid, _, _ in work)  # replies come in the order of their sending
        assert came_before < 50, f"{came_before} of 60 requests were answered before those deadlines"
        assert ends(c, work) == ["OK"] * 60 and ends(c, waiting[:1]) == ["OK"]


def queued(c, sent):
    """How long each request waited for the engine: queue_ns."""
    return [struct.unpack_from("<Q", c.wait(request), 24)[0] for request in sent]


def test_sessions_take_turns(start):
    """However much one has queued, the other's requests alternate with it."""
    daemon = busy_daemon(start)
    with daemon.connect() as greedy, daemon.connect() as modest:
        with stopped(daemon):
            sent = [greedy.send(REDUCE, WORK) for _ in range(32)], [modest.send(REDUCE, WORK) for _ in range(6)]
        with concurrent.futures.ThreadPoolExecutor() as pool:  # at once: a client that does not read is disconnected
            waited = list(pool.map(queued, (greedy, modest), sent))
        before = sum(ns < max(waited[1]) for ns in waited[0])
        assert before <= 18, (before, waited)  # 6 and what was under way are fair; first come, first served makes it 32


def work_of_a_user(url, op, shape, sessions, requests, signals):
    """As a user: this many reductions of an arena in each session, all sent while the daemon is stopped. The process's number."""
    told, go = signals
    body = spec(op, "f64", **shape)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(Connection(url, 60)) for _ in range(sessions)]
        sent = []
        for c in connections:
            c.hello()
            handle, memory = stack.enter_context(Side(c)).arena(MAX_DATA)
            memory[:] = BIG.tobytes()
            sent.append((c, body + struct.pack("<QQQ", handle, 0, MAX_DATA)))
        os.write(told[1], b"r")
        os.read(go[0], 1)
        sent = [(c, c.send(REDUCE_AT, text)) for c, text in sent for _ in range(requests)]
        os.write(told[1], b"s")
        for c, request in sent:
            c.wait(request)
    return os.getpid()


def both_tell(told, what):
    for _ in range(2):
        assert select.select([told[0]], [], [], 60)[0], "a user's process failed"
        assert os.read(told[0], 1) == what


def while_both_waited(trace, pids):
    """ns of the engine for each process while both had requests that waited, from the daemon's own trace."""
    events = json.loads(trace.read_text())["traceEvents"]
    runs = [[(e["ts"], e["args"]["ns"]) for e in events if e.get("cat") == "kernel" and e["pid"] == pid] for pid in pids]
    end = min(max(r)[0] for r in runs)
    return [sum(ns for ts, ns in r if ts < end) for r in runs]


@pytest.mark.same_threads(threads_elsewhere=True)  # test_sessions_take_turns
@needs_root
def test_users_share_the_engines_time(start, scratch):
    """Variances of short rows take many times as long as sums of as many bytes."""
    os.chmod(scratch, 0o755)
    trace = scratch / "trace.json"
    daemon = busy_daemon(start, "--socket-mode", "0666", "--contexts", 2048, "--max-inflight", 256, "--max-user-inflight", 2048,
                         "--trace", trace)
    signals = told, go = os.pipe(), os.pipe()
    work = [(23001, "var", {"rows": 1 << 13, "row_len": 64}, 1, 60), (23002, "sum", {"row_len": 1 << 19}, 16, 60)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        users = [pool.submit(as_user, w[0], w[0], lambda w=w: work_of_a_user(daemon.url, *w[1:], signals)) for w in work]
        both_tell(told, b"r")
        daemon.process.send_signal(signal.SIGSTOP)
        os.write(go[1], b"gg")
        both_tell(told, b"s")
        daemon.process.send_signal(signal.SIGCONT)
        pids = [u.result() for u in users]
    daemon.stop()
    var, sums = while_both_waited(trace, pids)
    assert 0.8 < var / sums < 1.25, (var, sums)
    for end in told + go:
        os.close(end)


def test_the_queue_of_a_dead_client_goes_at_once(start):
    """The daemon did what was under way, not what waited."""
    daemon, cancelled, end = busy_daemon(start), 0, time.monotonic() + 60
    while not cancelled:  # all may be done before this process hangs up
        assert time.monotonic() < end
        with daemon.connect() as c:
            before = daemon.status()
            flood(daemon, c, 60)
            # all taken up: a reply that finds nobody ends the reading of the rest
            until(daemon, lambda s: s["inflight"] + s["tasks"] - before["tasks"] > 60)
            c.close()
        status = until(daemon, lambda s: s["sessions"] == 1 and s["inflight"] <= 1)
        cancelled = status["errors.CANCELLED"]
        assert status["tasks"] - before["tasks"] + cancelled >= 60


def test_cancel_takes_back_what_has_not_begun(start):
    daemon = busy_daemon(start)
    with daemon.connect() as c, daemon.connect() as other:
        faults, end = [], time.monotonic() + 60
        while "CANCELLED" not in faults:  # all may be done before anything is cancelled
            assert time.monotonic() < end, faults
            sent = flood(daemon, c, MANY)
            assert other.cancel(sent[-1]) == 0, "requests of others are nobody's business"
            taken = [c.cancel(request) for request in reversed(sent)][::-1]  # what comes last waits longest
            assert [c.cancel(request) for request in sent] == [0] * MANY, "again is fine"
            faults = ends(c, sent)
            assert [x == "CANCELLED" for x in faults] == [n == 1 for n in taken], (faults, taken)
            assert set(faults) <= {"OK", "CANCELLED"}
        assert c.cancel((0, 0, 2**64 - 1)) == 0
        assert c.reduce("sum", "f64", b"", rows=5).cells == [bytes(8)] * 5


def test_cancelled_chunks_may_come_again(start):
    daemon = busy_daemon(start)
    half = len(BIG) // 2
    data = BIG[:half].tobytes()
    with daemon.connect() as c:
        stream = c.begin("sum", "f64")
        before = flood(daemon, c, 8)
        chunks = [c.send_append(stream, i * half, data) for i in range(8)]
        taken = [c.cancel(request) for request in chunks]
        for i, request in enumerate(chunks):
            if taken[i]:
                with pytest.raises(Fault) as caught:
                    c.wait(request)
                assert caught.value.code == "CANCELLED"
                c.append(stream, i * half, data)
            else:
                c.wait(request)
        assert c.finish(stream, 8 * half).cells == [np.float64(8 * half).tobytes()]
        assert ends(c, before) == ["OK"] * 8


@pytest.mark.parametrize("code", ["CANCELLED", "DEADLINE"])
def test_a_stream_whose_chunk_was_taken_back_has_no_result(start, code):
    """FINISH came while the chunk was claimed, and reports that it is missing; there is never a sum without it."""
    daemon = busy_daemon(start)
    half = len(BIG) // 2
    data = BIG[:half].tobytes()
    with daemon.connect() as c:
        met, end = None, time.monotonic() + 60
        while not met:  # all may be done before the chunk is sent, or cancelled
            assert time.monotonic() < end
            stream = c.begin("sum", "f64")
            c.append(stream, 0, data)
            before = flood(daemon, c, FEW)
            chunk = c.send_append(stream, half, data, time_ms=int(code == "DEADLINE"))
            finish = c.send(FINISH, struct.pack("<QQ", stream, 2 * half))
            cancel = c.send(CANCEL, struct.pack("<Q", chunk[2])) if code == "CANCELLED" else None
            try:
                c.wait(chunk)
            except Fault as f:
                met = f.code
                with pytest.raises(Fault) as caught:
                    c.wait(finish)
                assert (caught.value.code, caught.value.field, caught.value.index) == ("SHAPE", "count", half), caught.value
            else:
                assert parse_result(c.wait(finish)).cells == [np.float64(2 * half).tobytes()]
            assert not cancel or c.wait(cancel) == struct.pack("<Q", met is not None)
            assert ends(c, before) == ["OK"] * FEW
        assert met == code


def test_priorities(start):
    """Root and the daemon's own user may have what they like; peers that nobody knows may not."""
    daemon = start(tcp=True)
    for priority in (0, 1, 2):
        with daemon.connect(hello=False) as c:
            assert c.hello(priority=priority)["priority"] == priority
            assert c.hello(priority=0)["priority"] == priority, "a second hello changes nothing"
    with daemon.connect(hello=False, tcp=True) as c:
        with pytest.raises(Fault) as caught:
            c.hello(priority=1)
        assert (caught.value.code, caught.value.field) == ("AUTH", "priority")
        assert c.hello(priority=2)["priority"] == 2


def test_a_user_in_the_background(start):
    daemon = start("--background-uid", os.geteuid())
    with daemon.connect(hello=False) as c:
        assert c.hello(priority=1)["priority"] == 2


def reducectl(daemon, *args, **kw):
    return subprocess.Popen([BIN / "reducectl", "--connect", daemon.url, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)


def test_interrupted_while_the_daemon_reads_a_file(start, scratch):
    daemon = busy_daemon(start)
    with open(scratch / "sparse", "wb") as f:
        f.truncate(1 << 40)
    ctl = reducectl(daemon, "sum", "-t", "f64", scratch / "sparse")
    until(daemon, lambda s: s["requests.reduce_at"] > 2)
    ctl.send_signal(signal.SIGINT)
    out, err = ctl.communicate(timeout=60)
    assert (ctl.returncode, out) == (130, b"") and b"CANCELLED" in err, err
    until(daemon, lambda s: s["sessions"] == 1 and s["inflight"] <= 1 and s["side.files"] == 0 and s["requests.cancel"])


def test_interrupted_while_a_pipe_is_silent(start):
    daemon = busy_daemon(start)
    ctl = reducectl(daemon, "sum", "-t", "f64", stdin=subprocess.PIPE)
    ctl.stdin.write(bytes(4 << 20))
    ctl.stdin.flush()
    until(daemon, lambda s: s["requests.append"] > 2)
    ctl.send_signal(signal.SIGINT)
    assert ctl.wait(timeout=60) == 130
    assert b"interrupted" in ctl.stderr.read()
    for pipe in (ctl.stdin, ctl.stdout, ctl.stderr):
        pipe.close()
    until(daemon, lambda s: s["sessions"] == 1 and s["streams"] == 0)


def test_priority_of_reducectl(start, scratch):
    daemon = start("--background-uid", os.geteuid())
    (scratch / "data").write_bytes(BIG.tobytes())
    for name in ("normal", "high", "background"):
        ctl = reducectl(daemon, "sum", "-t", "f64", "--priority", name, scratch / "data")
        assert ctl.communicate(timeout=60)[0] == b"%d\n" % len(BIG), name
    ctl = reducectl(daemon, "ping", "--priority", "urgent")
    assert b"not one of normal, high, background" in ctl.communicate(timeout=60)[1] and ctl.returncode == 2
