"""Whose work comes first, how much a session and a user may have under way, and what is taken back."""
import os
import signal

import numpy as np
import pytest
import rawclient
from rawclient import MAX_DATA, REDUCE, Fault, spec

ROWS = 200_000  # sums of nothing: work without data, tens of milliseconds on one thread
WORK = spec("sum", "f64", rows=ROWS)
BIG = np.ones(MAX_DATA // 8)
MANY = 24


def busy_daemon(start, *options):
    """One thread, and no request that is answered at once: work piles up."""
    return start("--threads", 1, "--small-bytes", 0, *options)


def flood(daemon, c, n, **fields):
    """n requests that arrive together."""
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        return [c.send(REDUCE, WORK, **fields) for _ in range(n)]
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def ends(c, sent):
    """How the requests ended: error names, OK for a right answer."""
    found = []
    for request in sent:
        try:
            assert rawclient.parse_result(c.wait(request)).cells == [bytes(8)] * ROWS
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


def test_a_user_has_a_cap_of_sessions(start):
    daemon = start("--max-user-sessions", 2)
    with daemon.connect(), daemon.connect():
        with daemon.connect(hello=False) as c, pytest.raises(Fault) as caught:
            c.hello()
        assert (caught.value.code, caught.value.field, caught.value.limit) == ("BUSY", "user_sessions", 2)


def test_a_deadline_passes_in_the_queue(start):
    """What waits behind other work is told at its deadline, and takes no time of the engine."""
    daemon = busy_daemon(start)
    with daemon.connect() as c, daemon.connect() as late:
        sent = flood(daemon, c, MANY), [late.send(REDUCE, WORK, time_ms=1) for _ in range(MANY)]
        assert set(ends(late, sent[1])) <= {"DEADLINE", "OK"}
        assert ends(c, sent[0]) == ["OK"] * MANY
        assert late.reduce("sum", "f64", b"", rows=5).cells == [bytes(8)] * 5


def test_the_queue_of_a_dead_client_goes_at_once(start):
    """The daemon did what was under way, not what waited."""
    daemon = busy_daemon(start)
    with daemon.connect() as c:
        flood(daemon, c, 60)
        c.close()
    for _ in range(2000):  # it hears of the close in its own time
        status = daemon.status()
        if status["sessions"] == 1 and status["inflight"] <= 1:
            break
    assert status["errors.CANCELLED"] >= 1
    assert status["tasks"] + status["errors.CANCELLED"] >= 60
