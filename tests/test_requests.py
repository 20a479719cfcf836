"""What is under way, as QUERY, reducectl and SIGUSR1 show it: who asked for what, since when, and where it is."""
import json
import os
import re
import signal
import struct

import numpy as np

from otheruser import as_user, needs_root
from rawclient import FINISH, REDUCE, REDUCE_AT, Connection, spec
from test_sched import MANY, WORK, busy_daemon, ends, flood

REQUESTS = 4  # the topic
LINE = re.compile(r"(?P<message>\w+)(?: (?P<op>\w+) (?P<dtype>\w+))? bytes=(?P<bytes>\d+) age_ms=(?P<age>[\d.]+) where=(?P<where>\w+) "
                  r"(?:uid=(?P<uid>\d+) pid=(?P<pid>\d+)|address=(?P<address>\S+)) id=(?P<id>\d+) name=(?P<name>.*)")


def parsed(entries):
    """(number, [requests]) of a reply to QUERY, oldest first."""
    lines = [(key, value) for key, value in entries.items() if key != "requests"]
    assert all(re.fullmatch(r"request\.\d+", key) for key, _ in lines)
    return entries["requests"], [LINE.fullmatch(text).groupdict() for _, text in lines]


def look(c, wanted):
    """Ask until a request is there that `wanted` accepts: that one; None if all are done before."""
    while True:
        number, found = parsed(c.query(REQUESTS))
        assert number == len(found)
        if match := [r for r in found if wanted(r)]:
            return match[0]
        if not number:
            return None


def seen(daemon, c, viewer, wanted, also=lambda: []):
    """Keep the daemon busy, with work that takes it a second, until such a request is seen among it."""
    for _ in range(30):
        sent, others = flood(daemon, c, MANY), also()
        found = look(viewer, wanted)
        assert ends(c, sent) == ["OK"] * MANY
        for other, request in others:
            other.wait(request)
        if found:
            return found, sent
    raise AssertionError("it was never there")


def test_a_daemon_at_rest_has_none(start):
    with start().connect() as c:
        assert parsed(c.query(REQUESTS)) == (0, [])


def test_requests_under_way_are_shown(start):
    daemon = busy_daemon(start)
    with daemon.connect() as c, daemon.connect(hello=False) as viewer:
        viewer.hello(name=b"viewer")
        r, sent = seen(daemon, c, viewer, lambda r: r["where"] == "engine")
        assert (r["message"], r["op"], r["dtype"], int(r["uid"]), int(r["pid"])) == ("reduce", "sum", "f64", os.geteuid(), os.getpid())
        assert int(r["id"]) in [mid for _, _, mid in sent] and float(r["age"]) >= 0
        assert parsed(viewer.query(REQUESTS)) == (0, [])


def test_finish_that_waits_for_its_stream_is_shown(start):
    daemon = busy_daemon(start)
    chunk = np.ones(1 << 20, "<f4").tobytes()
    with daemon.connect() as c, daemon.connect() as streamer, daemon.connect() as viewer:
        def stream():
            x = streamer.begin("max", "f32")
            return [(streamer, streamer.send_append(x, 0, chunk)), (streamer, streamer.send(FINISH, struct.pack("<QQ", x, 1 << 20)))]
        r, _ = seen(daemon, c, viewer, lambda r: r["message"] == "finish" and r["where"] == "stream", stream)
        assert (r["op"], r["dtype"], int(r["id"]) & 0xFF) == ("max", "f32", FINISH)


def test_what_went_past_the_loop_is_shown(start):
    """A reduction of resident data: the engine has it from a thread of the network."""
    daemon = start("--threads", 1)
    data = np.random.default_rng(7).bytes(64 << 20)  # any bits: numbers of every size, which take long, and NaNs
    with daemon.connect() as c, daemon.connect() as viewer:
        body = spec("var", "f64", row_len=len(data) // 8, nan="omit") + struct.pack("<QQQ", c.put("x", "f64", data), 0, len(data))
        found = []
        while not found:
            sent = c.send(REDUCE_AT, body)
            found = parsed(viewer.query(REQUESTS))[1]  # it may have come first
            c.wait(sent)
        r = found[0]
        assert (r["message"], r["op"], r["dtype"], r["where"], int(r["id"])) == ("reduce_at", "var", "f64", "engine", sent[2])
        assert int(r["bytes"]) == len(data)
        assert parsed(viewer.query(REQUESTS)) == (0, [])


def test_a_name_with_control_characters_is_one_line(start):
    daemon = busy_daemon(start)
    with daemon.connect(hello=False) as c, daemon.connect() as viewer:
        c.hello(name=b"a\tb c")
        r, _ = seen(daemon, c, viewer, lambda r: True)
        assert r["name"] == "a?b c"


def test_sigusr1_logs_them(start):
    daemon = busy_daemon(start)
    line = r"request \d+: reduce sum f64 bytes=0 age_ms=[\d.]+ where=\w+ uid=\d+ pid=\d+ id=\d+ name="
    with daemon.connect() as c, daemon.connect() as viewer:
        while not re.search(line, daemon.log()):
            sent = flood(daemon, c, MANY)
            look(viewer, lambda r: True)
            daemon.process.send_signal(signal.SIGUSR1)
            assert ends(c, sent) == ["OK"] * MANY
        assert re.search(r"[1-9]\d* requests under way", daemon.log())
        daemon.process.send_signal(signal.SIGUSR1)
        daemon.wait_log(r"\b0 requests under way")


def test_reducectl_shows_them(start, ctl):
    daemon = busy_daemon(start)
    with daemon.connect() as c:
        shown = b""
        while b"request." not in shown:
            sent = flood(daemon, c, 2 * MANY)
            done = ctl("status", "--requests", url=daemon.url)
            assert done.returncode == 0
            shown = done.stdout
            assert ends(c, sent) == ["OK"] * 2 * MANY
        assert re.search(rb"^request\.\d+ +reduce sum f64 bytes=0 ", shown, re.M), shown
        assert json.loads(ctl("status", "--requests", "--json", url=daemon.url).stdout) == {"requests": 0}
    assert ctl("info", "--requests", url=daemon.url).returncode == 2


@needs_root
def test_a_user_sees_its_own_only(start, scratch):
    daemon = busy_daemon(start, "--socket-mode", "0666")
    scratch.chmod(0o755)

    def other():
        with Connection(daemon.url) as mine:
            mine.hello()
            sent = [mine.send(REDUCE, WORK) for _ in range(4)]
            found = [parsed(mine.query(REQUESTS)) for _ in range(20)]
            assert ends(mine, sent) == ["OK"] * 4
            return [r["uid"] for _, rs in found for r in rs]
    with daemon.connect() as c:
        sent = flood(daemon, c, 2 * MANY)
        assert set(as_user(23456, 23456, other)) <= {"23456"}
        assert ends(c, sent) == ["OK"] * 2 * MANY


def test_a_signal_at_the_very_end_changes_nothing(start):
    """It was drained and has left its loop: one more SIGTERM must not end it in another way than with its exit code."""
    for _ in range(25):
        daemon = start()
        pid = daemon.process.pid
        os.kill(pid, signal.SIGTERM)
        while "left after" not in daemon.log() and daemon.process.poll() is None:
            pass  # without a pause: it is gone a millisecond later
        while daemon.process.poll() is None:
            os.kill(pid, signal.SIGTERM)
        assert daemon.process.returncode == 0
