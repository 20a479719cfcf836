"""reduced --trace: JSON that is whole after every write, with every request in it and its stages inside it."""
import json
import os
import resource
import struct

import numpy as np
import pytest

from conftest import select_a_moment
from libreduce import Client as LibClient
from rawclient import Fault


def load(path):
    """The events of requests and those of stages, after checks that they are what a viewer needs."""
    events = json.loads(path.read_text())["traceEvents"]
    assert events[0]["ph"] == "M"
    spans = [e for e in events if e["ph"] == "X"]
    for e in spans:
        assert isinstance(e["ts"], (int, float)) and e["dur"] >= 0 and isinstance(e["pid"], int) and isinstance(e["tid"], int)
    return [e for e in spans if e["cat"] == "request"], [e for e in spans if e["cat"] != "request"]


def sums_in(path):
    """How many sums there are; 0 in the middle of a write."""
    try:
        return sum(e["name"] == "sum f32" for e in load(path)[0])
    except json.JSONDecodeError:
        return 0


def ns(us):
    return round(us * 1000)


def ends(e):
    return ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])


def check_nesting(requests, stages):
    """On a line requests do not overlap, and each stage lies within one of them, behind the stage before it."""
    lines = {}
    for e in requests:
        lines.setdefault(e["tid"], []).append((*ends(e), []))
    for line in lines.values():
        line.sort(key=lambda x: x[:2])
        assert all(a[1] <= b[0] for a, b in zip(line, line[1:]))
    for e in stages:
        start, end = ends(e)
        inside = [r for r in lines[e["tid"]] if r[0] <= start and end <= r[1]]
        assert inside, e
        inside[0][2].append((start, end))
    for line in lines.values():
        for _, _, parts in line:
            assert all(a[1] <= b[0] for a, b in zip(sorted(parts), sorted(parts)[1:]))


def test_every_request_is_there_with_its_stages(start, ctl, scratch):
    path = scratch / "trace.json"
    daemon = start("--trace", path)
    assert path.stat().st_mode & 0o777 == 0o600
    np.save(scratch / "big.npy", np.ones(3 << 20, np.float32))
    with daemon.connect() as c:
        pending = [c.send(4, c.reduce_body("sum", "f32", struct.pack("<2f", 1, 2))) for _ in range(40)]
        for sent in pending:
            c.wait(sent)
        c.reduce("max", "i64", bytes(1 << 20))
        with pytest.raises(Fault):
            c.reduce("min", "u8", b"")
        stream = c.begin("mean", "f64")
        c.append(stream, 0, bytes(800))
        c.finish(stream, 100)
    assert ctl("sum", scratch / "big.npy", url=daemon.url).stdout == b"3145728\n"
    counted = daemon.status()["requests"] + 1  # the one that asks
    daemon.stop()
    requests, stages = load(path)
    assert len(requests) == counted and "lacks 0" in daemon.log()
    check_nesting(requests, stages)
    named = [e["name"] for e in requests]
    assert named.count("sum f32") >= 41 and named.count("max i64") == 1 and named.count("mean f64") == 2 and "hello" in named
    failed, = [e for e in requests if e["name"] == "min u8"]
    assert failed["args"]["result"] == "EMPTY"
    worked = [e for e in requests if e["args"].get("path")]
    for stage in ("queue", "kernel"):
        assert sum(e["name"] == stage for e in stages) == len(worked)
    assert any(e["args"]["path"] == "file" for e in worked) and any(e["name"] == "copy" for e in stages)
    assert {e["pid"] for e in requests} >= {os.getpid()}


def test_the_file_needs_no_end_of_the_daemon(start, scratch):
    path = scratch / "trace.json"
    daemon = start("--trace", path)
    n = 300
    with daemon.connect() as c:
        for _ in range(n):
            c.reduce("sum", "f32", bytes(8))
        while sums_in(path) < n:  # the last one is written: nothing more comes
            select_a_moment(daemon.process)
        daemon.kill()
    requests, stages = load(path)
    check_nesting(requests, stages)
    assert len(requests) >= n


def test_what_does_not_fit_is_counted(start, scratch):
    path = scratch / "trace.json"
    daemon = start("--trace", path, "--trace-size", 1)
    with daemon.connect() as c:
        for _ in range(60):
            for sent in [c.send(4, c.reduce_body("sum", "f32", bytes(8))) for _ in range(60)]:
                c.wait(sent)
        while 'reduced_trace_requests_total{fate="dropped"} 0\n' in c.metrics():
            select_a_moment(daemon.process)
    daemon.stop()
    requests, _ = load(path)
    assert path.stat().st_size <= 1 << 20 and 0 < len(requests) < 3600
    assert f"the trace has {len(requests)} requests and lacks" in daemon.log() and "lacks 0" not in daemon.log()


def test_a_full_disk_ends_the_trace_and_nothing_else(start, scratch):
    path = scratch / "trace.json"
    daemon = start("--trace", path)
    with daemon.connect() as c:
        c.reduce("sum", "f32", bytes(8))
        while not sums_in(path):  # else the first write could be larger than the limit, and nothing would be in the file
            select_a_moment(daemon.process)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (65536, 65536))
        while "trace ends here" not in daemon.log():
            c.reduce("sum", "f32", bytes(8))
        c.reduce("sum", "f32", bytes(8))
    requests, stages = load(path)
    check_nesting(requests, stages)
    assert requests and path.stat().st_size <= 65536
    daemon.stop()
    assert f"the trace has {len(requests)} requests and lacks" in daemon.log()


@pytest.mark.parametrize("make", [lambda p: os.mkfifo(p), lambda p: p.mkdir(), lambda p: p.symlink_to("elsewhere")], ids=["fifo", "directory", "link"])
def test_no_trace_into_what_is_no_file(start, scratch, make):
    path = scratch / "trace.json"
    make(path)
    daemon = start("--trace", path, wait=False)
    assert daemon.process.wait(60) == 1 and "no trace" in daemon.log()


def test_the_states_of_a_file_are_no_small_request(start, scratch):
    """Small requests get a processor that readers of files would use. What merges the states of a file's parts is not one of them: on two processors one
    reader was left for every file soon after another one."""
    path, everywhere = scratch / "trace.json", os.sched_getaffinity(0)
    np.ones(1 << 22, "<f4").tofile(scratch / "x")  # four parts
    os.sched_setaffinity(0, sorted(everywhere)[:2])
    try:
        daemon = start("--trace", path, "--threads", 2, "--backend", "cpu")
    finally:
        os.sched_setaffinity(0, everywhere)
    with LibClient(daemon.url) as c, open(scratch / "x", "rb") as file:
        for _ in range(20):
            c.file("sum", "f32", file.fileno(), 0, 16 << 20)
    daemon.stop()
    requests, stages = load(path)
    first = min(ends(e)[1] for e in requests if e["args"].get("path") == "inline")
    readers = sorted(ends(e) for e in stages if e["name"] == "copy" and ends(e)[0] > first)
    assert len(readers) == 19 * 4
    assert any(b[0] < a[1] for a, b in zip(readers, readers[1:]))
