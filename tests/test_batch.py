"""Small requests that share launches, in a daemon whose small requests all go that way. (The CPU engine has batches, too.)"""
import concurrent.futures
import contextlib
import os
import signal
import struct

import numpy as np

from rawclient import QUERY, REDUCE, Closed, Fault, parse_result

ALL_BATCHED = ("--small-bytes", 0)


def together(daemon, send):
    """What `send` sends meets the daemon all at once."""
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        return send()
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)


def test_each_has_its_own_result_error_and_policy(start):
    daemon = start(*ALL_BATCHED)
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
        def send():
            return [(c, c.send(REDUCE, c.reduce_body(**what)), want)
                    for _ in range(4) for c in (a, b) for what, want in kinds]
        for c, request, want in together(daemon, send):
            try:
                result = parse_result(c.wait(request))
                assert not isinstance(want, tuple), (want, result)
                assert want is None or b"".join(result.cells) == want
                assert want is not None or np.isnan(struct.unpack("<d", result.cells[0])[0])
                assert 1 <= result.batch <= 32
            except Fault as f:
                assert (f.code, f.field) == want, f
        status = a.query(2)
        metrics = a.call(QUERY, struct.pack("<I4x", 3)).decode()
    good = 8 * sum(not isinstance(want, tuple) for _, want in kinds)
    assert status["requests.sum"] == 32 and status["errors"] == 24
    assert status["errors.NAN"] == status["errors.EMPTY"] == status["errors.OVERFLOW"] == 8
    assert status["batch.requests"] >= good and 1 <= status["batch.launches"] <= status["batch.requests"]
    assert status["batch.largest"] <= 32
    assert sum(status[f"batch.{1 << i}"] for i in range(6)) == status["batch.launches"]
    assert f"\nreduced_batch_requests_sum {status['batch.requests']}\n" in metrics
    assert f'\nreduced_batch_requests_bucket{{le="1"}} {status["batch.1"]}\n' in metrics
    assert f'\nreduced_batch_requests_bucket{{le="+Inf"}} {status["batch.launches"]}\n' in metrics


def test_large_ones_go_alone(start):
    daemon = start(*ALL_BATCHED, "--batch-bytes", 1024)
    with daemon.connect() as c:
        assert c.reduce("sum", "u8", bytes(992)).batch == 1
        assert c.reduce("sum", "u8", bytes(993)).batch == 0, "with its state it has more than 1024 bytes"
    assert daemon.status()["batch.requests"] == 1


def test_no_batches_when_told_so(start):
    daemon = start(*ALL_BATCHED, "--batch-bytes", 0)
    with daemon.connect() as c:
        assert c.reduce("sum", "u8", bytes([1, 2])).batch == 0
    assert daemon.status()["batch.requests"] == 0


def test_busy_above_max_inflight(start):
    """Each request is answered with its result or BUSY, and the connection lives."""
    daemon = start(*ALL_BATCHED, "--max-inflight", 8)
    one = struct.pack("<f", 1.0)
    with daemon.connect() as c, daemon.connect() as other:
        sent = together(daemon, lambda: [c.send(REDUCE, c.reduce_body("sum", "f32", one)) for _ in range(24)])
        assert other.reduce("sum", "f32", one).cells == [struct.pack("<d", 1.0)]
        done = 0
        for request in sent:
            try:
                assert parse_result(c.wait(request)).cells == [struct.pack("<d", 1.0)]
                done += 1
            except Fault as f:
                assert (f.code, f.field, f.limit) == ("BUSY", "inflight", 8), f
        assert done >= 8
        assert c.reduce("sum", "f32", one).cells == [struct.pack("<d", 1.0)]


def test_who_keeps_to_max_inflight_is_never_busy(start):
    """A request no longer counts when its reply can be read, or when the loop has it again."""
    daemon = start(*ALL_BATCHED, "--max-inflight", 1)

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


def test_deadlines(start):
    daemon = start(*ALL_BATCHED)
    with daemon.connect() as c:
        body = c.reduce_body("sum", "u8", bytes(16))
        sent = together(daemon, lambda: [c.send(REDUCE, body, time_ms=1) for _ in range(40)])
        for request in sent:
            try:
                assert parse_result(c.wait(request)).cells == [bytes(8)]
            except Fault as f:
                assert f.code in ("DEADLINE", "BUSY"), f
        assert c.reduce("sum", "u8", bytes(1000), time_ms=600_000).cells == [bytes(8)]


def test_leaving_with_batches_under_way(start):
    """A daemon that is asked to leave answers every request, or closes its connection; no answer is wrong."""
    daemon = start(*ALL_BATCHED)
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


def test_reducectl_tells_the_batch(start, ctl):
    daemon = start(*ALL_BATCHED)
    shown = ctl("sum", "-", "--dtype", "u8", "-v", stdin=b"\1\2", url=daemon.url)
    assert shown.returncode == 0 and shown.stdout == b"3\n", shown
    assert b"a batch of 1 requests in one launch" in shown.stderr, shown
    assert b'"batch":1}' in ctl("sum", "-", "--dtype", "u8", "--json", stdin=b"\1\2", url=daemon.url).stdout
    assert b'"batch":0}' in ctl("sum", "-", "--dtype", "u8", "--json", stdin=bytes(1 << 20), url=daemon.url).stdout
