"""Order statistics of much data in a real daemon: they end between passes if nobody wants them any more, and what they keep is charged."""
import time

import numpy as np
import order
import pytest

from conftest import sanitizer
from rawclient import REDUCE_AT, Fault, parameter
from test_charges import MIB
from test_order import decimal
from test_requests import look
from test_sched import busy_daemon, until

QUANTILES = [(i + 0.5) / 64 for i in range(64)]
ROWS = 16 if sanitizer() else 64  # which takes as long then
BYTES = ROWS * MIB


class Selection:
    """64 quantiles of each of 64 rows of resident data."""

    def __init__(self, c):
        self.c = c
        handle = c.put("x", "f64", np.random.default_rng(1).standard_normal(BYTES // 8).tobytes())
        self.body = c.reduce_at_body(order.OPS["quantile"], "f64", handle, 0, BYTES, rows=ROWS, parts=[parameter("q", *map(decimal, QUANTILES))])

    def send(self, **fields):
        return self.c.send(REDUCE_AT, self.body, **fields)


@pytest.fixture
def selection(start):
    daemon = start("--threads", 1)
    with daemon.connect() as c:
        yield daemon, Selection(c)


def in_engine(viewer, sent):
    return look(viewer, lambda r: r["where"] == "engine" and int(r["id"]) == sent[2])


def fault_of(c, sent):
    with pytest.raises(Fault) as caught:
        c.wait(sent)
    return caught.value


def held(daemon):
    return daemon.status()["held.scratch_bytes"]


def test_a_begun_selection_is_cancelled(selection):
    daemon, s = selection
    begin = time.monotonic()
    s.c.wait(s.send())
    whole = time.monotonic() - begin
    with daemon.connect() as viewer:
        for _ in range(30):  # it may end before it is cancelled
            sent = s.send()
            if in_engine(viewer, sent) and s.c.cancel(sent):
                break
            s.c.wait(sent)
        else:
            raise AssertionError("it was never cancelled")
        begin = time.monotonic()
        assert fault_of(s.c, sent).code == "CANCELLED"
        assert time.monotonic() - begin < whole / 2
    assert s.c.cancel(sent) == 0
    s.c.wait(s.send())  # the engine is free


def test_a_selection_ends_with_its_client(selection):
    daemon, s = selection
    with daemon.connect() as viewer:
        for _ in range(30):  # it may be done before it is seen
            sent = s.send()
            if in_engine(viewer, sent):
                break
            s.c.wait(sent)
        else:
            raise AssertionError("it was never there")
        s.c.close()
        status = until(daemon, lambda status: status["sessions"] == 2 and not status["held.scratch_bytes"])
        assert status["errors.CANCELLED"] == 1


def test_a_deadline_ends_a_selection(selection):
    daemon, s = selection
    begin = time.monotonic()
    s.c.wait(s.send())
    whole = time.monotonic() - begin
    begin = time.monotonic()
    sent = s.send(time_ms=max(int(whole * 1000 / 8), 1))
    fault = fault_of(s.c, sent)
    assert (fault.code, fault.field) == ("DEADLINE", "time_ms")
    assert time.monotonic() - begin < whole / 2


def test_what_selections_keep_is_charged_and_bounded(start):
    """Each is charged with its data, 128 MiB at most; a user may have 32 of the largest."""
    daemon = busy_daemon(start, "--max-inflight", 64)
    with daemon.connect() as c:
        size = 160 * MIB
        handle = c.put("x", "u8", bytes(size))
        body = c.reduce_at_body(order.OPS["quantile"], "u8", handle, 0, size, parts=[parameter("q", *map(decimal, QUANTILES))])
        sums = c.reduce_at_body("sum", "u8", handle, 0, size)
        sent = [c.send(REDUCE_AT, body) for _ in range(40)]
        last = c.send(REDUCE_AT, sums)
        for request in sent[2:]:  # two of them end, and each would be long
            c.cancel(request)
        codes = []
        for request in sent:
            try:
                c.wait(request)
            except Fault as fault:
                codes.append(fault.code)
                assert fault.code == "CANCELLED" or (fault.code, fault.field, fault.limit) == ("QUOTA", "scratch", 32 * 128 * MIB), fault
        c.wait(last)
        assert "QUOTA" in codes
        assert held(daemon) == 0
        small = c.send(REDUCE_AT, c.reduce_at_body(order.OPS["median"], "u8", handle, 0, MIB))
        c.wait(small)
    assert held(daemon) == 0
