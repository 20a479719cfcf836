"""The daemon's metrics as Prometheus text are well formed and right."""
import contextlib
import os
import re
import tempfile
import select
import socket
import struct
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from conftest import select_a_moment
from rawclient import REDUCE, Fault, spec
from sideclient import Side

STAGES = ("queue", "copy", "kernel", "total")


def parse(text):
    """{name: {labels as a sorted tuple: value}}, after checks that the client library's parser leaves out."""
    heads, samples = {}, {}
    for line in text.splitlines():
        if line.startswith("# "):
            _, kind, name, _ = line.split(" ", 3)
            assert (kind, name) not in heads, line
            heads[kind, name] = line
    for family in text_string_to_metric_families(text):
        plain = family.name + ("_total" if family.type == "counter" else "")
        assert ("HELP", plain) in heads and ("TYPE", plain) in heads and family.type in ("counter", "gauge", "histogram"), plain
        assert plain.startswith("reduced_")
        for s in family.samples:
            key = tuple(sorted(s.labels.items()))
            assert key not in samples.setdefault(s.name, {}), (s.name, key)
            assert s.value >= 0
            samples[s.name][key] = s.value
    assert text.endswith("\n") and sum(map(len, samples.values())) == sum(not line.startswith("#") for line in text.splitlines())
    for stage in STAGES:
        check_histogram(samples, stage)
    return samples


def check_histogram(samples, stage):
    def bound(labels):
        return float(dict(labels)["le"])
    buckets = sorted((bound(k), v) for k, v in samples["reduced_request_seconds_bucket"].items() if ("stage", stage) in k)
    counts = [v for _, v in buckets]
    assert counts == sorted(counts) and buckets[-1] == (float("inf"), samples["reduced_request_seconds_count"][("stage", stage),])
    assert samples["reduced_request_seconds_sum"][("stage", stage),] >= 0


def get(samples, name, **labels):
    return samples["reduced_" + name].get(tuple(sorted(labels.items())), 0)


def requests(samples, **want):
    return sum(v for k, v in samples.get("reduced_requests_total", {}).items() if want.items() <= dict(k).items())


def wait_for(daemon, c, condition):
    """Metrics for which the condition holds: a text is served again for a moment, and small requests are counted apart."""
    for _ in range(6000):
        samples = parse(c.metrics())
        if condition(samples):
            return samples
        select_a_moment(daemon.process)
    raise AssertionError(c.metrics())


@pytest.fixture
def daemon(start):
    return start()


def test_requests_are_counted_by_op_type_path_and_result(daemon):
    n = 300
    with daemon.connect() as c:
        for _ in range(n):
            c.reduce("sum", "f32", struct.pack("<2f", 1, 2))
        c.reduce("max", "i64", bytes(1 << 20))
        with pytest.raises(Fault):
            c.reduce("sum", "f64", struct.pack("<d", float("nan")), nan="error")
        with pytest.raises(Fault):
            c.reduce("min", "u8", b"")
        stream = c.begin("mean", "f64")
        c.append(stream, 0, bytes(800))
        c.finish(stream, 100)
        with pytest.raises(Fault):
            c.append(stream, 0, bytes(8))
        m = wait_for(daemon, c, lambda m: requests(m) >= n + 6)
    assert get(m, "requests_total", op="sum", dtype="f32", path="inline", result="OK") == n
    assert get(m, "requests_total", op="max", dtype="i64", path="inline", result="OK") == 1
    assert get(m, "requests_total", op="sum", dtype="f64", path="inline", result="NAN") == 1
    assert get(m, "requests_total", op="min", dtype="u8", path="inline", result="EMPTY") == 1
    assert get(m, "requests_total", op="mean", dtype="f64", path="stream", result="OK") == 2
    assert get(m, "requests_total", op="unknown", dtype="unknown", path="stream", result="BAD_HANDLE") == 1
    assert get(m, "errors_total", error="NAN") == get(m, "errors_total", error="EMPTY") == get(m, "errors_total", error="BAD_HANDLE") == 1
    assert get(m, "data_bytes_total", path="inline") == n * 8 + (1 << 20) and get(m, "data_bytes_total", path="stream") == 800
    for stage in STAGES:
        assert get(m, "request_seconds_count", stage=stage) == requests(m, result="OK") == n + 3
    assert get(m, "request_seconds_sum", stage="total") >= get(m, "request_seconds_sum", stage="kernel") > 0
    done = {where: get(m, "engine_tasks_total", where=where) for where in ("caller", "device", "workers")}
    assert done["caller"] >= n and done["device"] == 0 and 1 <= done["workers"] <= 6, f"{done}: the large ones are the workers'"
    uid = str(os.getuid())
    assert get(m, "user_data_bytes_total", uid=uid) == n * 8 + (1 << 20) + 800 and get(m, "user_errors_total", uid=uid) == 3
    assert get(m, "queue_length", queue="small") == 0
    assert get(m, "engine_busy_seconds_total") > 0 and get(m, "uptime_seconds") > 0 and get(m, "healthy") == 1


def test_small_requests_of_the_workers_are_work_of_the_engine(start):
    daemon = start("--small-bytes", 0)
    n = 200
    with daemon.connect() as c:
        before = get(parse(c.metrics()), "engine_busy_seconds_total")
        for _ in range(n // 50):
            for sent in [c.send(REDUCE, c.reduce_body("sum", "f32", bytes(64))) for _ in range(50)]:
                c.wait(sent)
        m = wait_for(daemon, c, lambda m: requests(m) >= n)
    assert get(m, "engine_busy_seconds_total") > before
    assert get(m, "engine_tasks_total", where="workers") >= n and get(m, "engine_tasks_total", where="caller") == 0


@pytest.mark.parametrize("how", ["small", "large", "file"])
def test_busy_is_the_time_with_a_request_at_work(start, how):
    """In the thread that takes a request, in the workers, in readers: it has the requests' own times, and never more than has passed."""
    daemon = start("--probe", 86400)
    with daemon.connect() as c, Side(c) as side, tempfile.TemporaryFile() as f:
        f.write(bytes(4 << 20))
        f.flush()
        handle, size = side.file(f.fileno())
        ask = {"small": lambda: c.reduce("sum", "f32", bytes(65536)), "large": lambda: c.reduce("sum", "f32", bytes(4 << 20)),
               "file": lambda: c.reduce_at("sum", "f32", handle, 0, size)}[how]

        def seconds():
            m = parse(c.metrics())
            at_work = sum(get(m, "request_seconds_sum", stage=stage) for stage in ("copy", "kernel"))
            assert c.query(2)["busy_s"] >= get(m, "engine_busy_seconds_total")
            return get(m, "engine_busy_seconds_total"), at_work
        ask()
        begun, (busy, worked) = time.monotonic(), seconds()
        for _ in range(200 if how == "small" else 10):
            ask()
        now, did = seconds()
        assert 0.8 * (did - worked) / len(os.sched_getaffinity(0)) <= now - busy <= time.monotonic() - begun + 0.001


def test_unknown_codes_share_a_place(daemon):
    with daemon.connect() as c:
        for op, dtype in ((200, 1), (1, 200), (255, 255)):
            with pytest.raises(Fault):
                c.call(REDUCE, spec(op, dtype, row_len=1) + bytes(8))
        with pytest.raises(Fault):
            c.call(99)
        m = wait_for(daemon, c, lambda m: requests(m) >= 3 and get(m, "messages_total", type="unknown"))
    assert requests(m, op="unknown") == 2 and requests(m, dtype="unknown") == 2 and get(m, "messages_total", type="unknown") == 1


def served(daemon):
    """The address of the metrics, from the log."""
    return re.search(r"metrics on (http://\S+)", daemon.log())[1]


def scrape(url):
    with urllib.request.urlopen(url, timeout=60) as reply:
        assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return reply.read().decode()


def test_http_serves_the_same_text(start, tmp_path):
    daemon = start("--metrics-url", "http://127.0.0.1:0")
    url = served(daemon)
    (tmp_path / "x").write_bytes(bytes(100))
    with daemon.connect() as c, Side(c) as side, open(tmp_path / "x") as f:
        c.reduce_at("sum", "u8", side.file(f.fileno())[0], 0, 100)
        c.reduce("sum", "f32", bytes(8))
        asked = [time.monotonic()]
        while not (m := parse(scrape(url))).get("reduced_requests_total"):
            select_a_moment(daemon.process)  # the text is made anew once a second
            c.reduce("sum", "f64", bytes(8))
            asked.append(time.monotonic())
        kept = c.query(2)["side.buffers"]
        asked.append(time.monotonic())
        assert kept == 1 or max(b - a for a, b in zip(asked, asked[1:])) > 0.9, "buffers of files go back after a second without requests alone"
        assert requests(m, op="sum", dtype="f32", path="inline", result="OK") == 1
        assert {k: set(v) for k, v in m.items()} == {k: set(v) for k, v in parse(c.metrics()).items()}
    for wrong in (url + "x", url.rsplit("/", 1)[0] + "/none"):
        with pytest.raises(urllib.error.HTTPError):
            scrape(wrong)


def rude_peers(address, n):
    """Connections that say nothing, half a head, 50 requests without reading a reply, or noise, in turn."""
    peers = [socket.create_connection(address, 60) for _ in range(n)]
    for i, peer in enumerate(peers):
        with contextlib.suppress(ConnectionError):  # it was closed to make room
            peer.sendall([b"", b"GET /metrics HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50, b"\0" * 5000][i % 4])
    return peers


def closed(peer, wait):
    """Has the daemon closed a connection to which it never wrote?"""
    return bool(select.select([peer], [], [], wait)[0]) and peer.recv(1) == b""


@pytest.mark.slow
def test_silent_and_rude_scrapers_hurt_nobody(start):
    """Of more connections than 64 the longest silent one is closed for a new one; who says nothing for 10 s, or no more than half a
    head, is closed too."""
    limit = 10
    daemon = start("--metrics-url", "http://127.0.0.1:0")
    url = served(daemon)
    host, port = re.match(r"http://([\d.]+):(\d+)/", url).groups()
    while True:
        begun = time.monotonic()
        peers = rude_peers((host, int(port)), 100)
        first, last, half = peers[0], peers[96], peers[97]
        made_room, stays = closed(first, 60), not closed(last, 0)
        if time.monotonic() - begun < limit - 1:  # else the machine was so slow that all of them may have been closed in time
            break
        for peer in peers:
            peer.close()
    assert made_room and stays
    with daemon.connect() as c:
        for _ in range(100):
            c.reduce("sum", "f32", bytes(8))
        parse(scrape(url))
        assert closed(last, 60) and time.monotonic() - begun >= limit and closed(half, 60)
        parse(scrape(url))
        for peer in peers:
            peer.close()
        parse(scrape(url))


def test_a_scraper_that_sends_on_is_closed(start):
    """What follows the last request is read, so that the reply arrives, but not for as long as something comes."""
    url = served(start("--metrics-url", "http://127.0.0.1:0"))
    host, port = re.match(r"http://([\d.]+):(\d+)/", url).groups()
    data, most = bytes(1 << 20), 0
    for _ in range(40):
        with socket.create_connection((host, int(port)), 60) as peer:
            peer.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            sent = 0
            try:
                while sent < 1 << 30:
                    sent += peer.send(data)
            except ConnectionError:
                most = max(most, sent)
            else:
                most = sent
    assert most < 64 << 20  # the kernel's buffers have 38 MiB at most, unless someone has enlarged them


@pytest.mark.slow
def test_a_scraper_that_asks_nothing_is_closed(start):
    """One that is silent, and one that sends a byte of its request now and then."""
    url = served(start("--metrics-url", "http://127.0.0.1:0"))
    host, port = re.match(r"http://([\d.]+):(\d+)/", url).groups()
    begin = time.monotonic()  # before both, so that what delays this process does not make their time shorter
    with socket.create_connection((host, int(port)), 30) as silent, socket.create_connection((host, int(port)), 30) as slow:
        peers = [silent, slow]
        while peers and time.monotonic() - begin < 30:
            for peer in select.select(peers, [], [], 0.2)[0]:  # poll interval
                if not received(peer):
                    peers.remove(peer)
                    assert 8 < time.monotonic() - begin < 20
            if slow in peers:
                received(slow, b"a")
        assert not peers


def received(peer, sent=b""):
    """What comes, perhaps why it is closed; nothing: it is, or its bytes came too late. With `sent`, nothing is waited for."""
    try:
        return peer.sendall(sent) if sent else peer.recv(4096)
    except ConnectionError:
        return b""


def test_an_address_that_is_taken_is_said(start):
    daemon = start("--metrics-url", "http://127.0.0.1:0")
    address = served(daemon).removesuffix("/metrics")
    directory = daemon.directory / "other"
    directory.mkdir()
    late = start("--metrics-url", address, directory=directory, wait=False)
    assert late.process.wait(60) == 1 and f"cannot serve metrics on {address}" in late.log()


def test_reducectl_metrics(daemon, ctl):
    done = ctl("metrics", url=daemon.url)
    assert done.returncode == 0
    parse(done.stdout.decode())
    assert ctl("metrics", "--json", url=daemon.url).returncode == 2
    assert ctl("metrics", "file", url=daemon.url).returncode == 2
