"""The page over http: a real browser shows what the daemon says, and asks for nothing else. And http requests of every kind."""
import gzip
import http.client
import json
import os
import pwd
import re
import socket
import struct
import time
import urllib.request

import pytest

import chromium
from conftest import memory_device, select_a_moment
from otheruser import as_user, needs_root
from rawclient import Connection, Fault

needs_browser = pytest.mark.skipif(not chromium.PROGRAM, reason="needs Debian's chromium")
LOGIN = next((p.pw_name for p in pwd.getpwall() if p.pw_uid == os.getuid()), None)
FILES = {"/": "text/html; charset=utf-8", "/page.css": "text/css; charset=utf-8", "/page.js": "text/javascript; charset=utf-8", "/ladder.json": "application/json"}

GZIP = {"Accept-Encoding": "gzip, deflate, br"}  # as browsers ask


@pytest.fixture
def served(start):
    """A daemon with its pages, and their address."""
    daemon = start("--metrics-url", "http://127.0.0.1:0")
    host, port = re.search(r"metrics on http://([\d.]+):(\d+)/metrics", daemon.log()).groups()
    daemon.http = (host, int(port))
    return daemon


@pytest.fixture
def browser():
    opened = []

    def run(*args, **kw):
        opened.append(chromium.Browser(*args, **kw))
        return opened[-1]

    yield run
    for b in opened:
        b.close()


def get(daemon, path, method="GET", **headers):
    c = http.client.HTTPConnection(*daemon.http, timeout=60)
    c.request(method, path, headers=headers)
    reply = c.getresponse()
    body = reply.read()
    c.close()
    return reply, body


def status(daemon):
    return json.loads(get(daemon, "/status.json")[1])


def load(c):
    """Reductions of several kinds, two of them errors."""
    for _ in range(40):
        c.reduce("sum", "f32", struct.pack("<2f", 1, 2))
    c.reduce("max", "i64", bytes(1 << 20))
    for op, dtype, data, kw in (("min", "u8", b"", {}), ("sum", "f64", struct.pack("<d", float("nan")), {"nan": "error"})):
        with pytest.raises(Fault):
            c.reduce(op, dtype, data, **kw)


def settled(daemon, c, wanted):
    """The status over http, once it counts that many reductions: it is made anew once a second."""
    s = status(daemon)
    while sum(o["ok"] + o["errors"] for o in s["ops"]) < wanted:
        select_a_moment(daemon.process)
        s = status(daemon)
    return s


def test_files_are_small_compressed_and_closed_to_others(served):
    size = 0
    for path, kind in FILES.items():
        reply, body = get(served, path, **GZIP)
        assert reply.status == 200 and reply.headers["Content-Type"] == kind and reply.headers["Content-Encoding"] == "gzip"
        assert "default-src 'self'" in reply.headers["Content-Security-Policy"] and reply.headers["X-Content-Type-Options"] == "nosniff"
        text = gzip.decompress(body).decode()
        for headers in ({}, {"Accept-Encoding": "br"}, {"Accept-Encoding": "gzip;q=0"}):
            plain, whole = get(served, path, **headers)
            assert plain.status == 200 and plain.headers["Content-Encoding"] is None and whole.decode() == text
            assert plain.headers["Content-Length"] == str(len(whole)) and plain.headers["Vary"] == reply.headers["Vary"] == "Accept-Encoding"
            assert plain.headers["Content-Type"] == kind and get(served, path, "HEAD", **headers)[0].headers["Content-Length"] == str(len(whole))
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text.split('"pages":')[0]), path
        size += len(body)
    assert size < 60 * 1024
    pages = json.loads(get(served, "/ladder.json")[1])
    assert get(served, "/metrics", **GZIP)[0].headers["Content-Encoding"] is None
    assert len(pages["run"]) > 20 and "__global__" in pages["pages"]["unroll"]


def test_status_json_is_the_status(served, ctl):
    with served.connect() as c:
        load(c)
        s = settled(served, c, 43)
        asked = json.loads(ctl("status", "--json", url=served.url).stdout)
    shown = s["status"]
    of_who_asks = ("held.", "limit.", "user.", "all.", "all_limit.")
    assert [k for k in asked if k not in shown and not k.startswith(of_who_asks)] == ["listen.0"]  # where it listens is not for everybody
    assert not [k for k in shown if k.startswith(of_who_asks)]
    moving = ("uptime_s", "sessions", "connections", "inflight", "bytes_in", "rss_bytes", "requests", "side.channels", "latency", "busy_s", "tasks")
    same = [k for k in shown if not k.startswith(moving)]
    assert len(same) > 20 and {k: shown[k] for k in same} == {k: asked[k] for k in same}
    assert shown["requests.sum"] == 41 and shown["errors"] == 2 and shown["errors.NAN"] == shown["errors.EMPTY"] == 1
    assert {(o["op"], o["dtype"], o["path"]): (o["ok"], o["errors"]) for o in s["ops"]} == {
        ("sum", "f32", "inline"): (40, 0), ("max", "i64", "inline"): (1, 0), ("min", "u8", "inline"): (0, 1), ("sum", "f64", "inline"): (0, 1)}
    assert {(o["op"], o["path"]): o["bytes"] for o in s["ops"] if o["ok"]} == {("sum", "inline"): 40 * 8, ("max", "inline"): 1 << 20}
    assert [d["bytes"] for d in s["devices"]] == [40 * 8 + (1 << 20)]
    assert s["times"]["total"][-1] == 41 and s["bytes"]["inline"] == 40 * 8 + (1 << 20)
    assert str(os.getuid()) in [u["uid"] for u in s["users"]]


def test_status_json_says_no_more_of_users_than_the_metrics(served):
    with served.connect() as c:
        load(c)
        s = settled(served, c, 43)
    text = json.dumps(s)
    assert str(os.getpid()) not in re.findall(r'"pid": *"?(\d+)', text) and str(served.path) not in text
    assert {k for u in s["users"] for k in u} - {"name"} == {"uid", "requests", "pieces", "errors", "bytes", "engine_s"}
    assert {u["uid"]: u["name"] for u in s["users"] if "name" in u} == ({str(os.getuid()): LOGIN} if LOGIN else {})
    assert {k for x in s["slow"] for k in x} <= {"op", "dtype", "path", "bytes", "age_s", "queue_s", "copy_s", "kernel_s", "total_s"}


def test_names_of_users_stay_on_this_machine(start):
    daemon = start("--metrics-url", "http://0.0.0.0:0", "--allow-remote-metrics", "yes")
    daemon.http = ("127.0.0.1", int(re.search(r"metrics on http://[\d.]+:(\d+)/", daemon.log())[1]))
    with daemon.connect() as c:
        load(c)
        s = settled(daemon, c, 43)
    assert str(os.getuid()) in [u["uid"] for u in s["users"]] and not [u for u in s["users"] if "name" in u]


# ---- processes ----
OTHER, THIRD = 61234, 61235


def processes(daemon, **headers):
    return json.loads(get(daemon, "/processes.json", **headers)[1])


def names(daemon, **headers):
    return sorted(p["name"] for p in processes(daemon, **headers)["processes"])


def listed(daemon, wanted):
    """The processes as http has them, once there are `wanted`: they are listed anew once a second."""
    while len(processes(daemon)["processes"]) != wanted:
        select_a_moment(daemon.process)
    return processes(daemon)


def test_a_user_sees_its_processes(served):
    with served.connect(hello=False) as c:
        c.hello(name='me "<b>\n\xff'.encode("latin-1"))
        load(c)
        settled(served, c, 43)
        shown = listed(served, 1)
    p, = shown["processes"]
    assert (shown["known"], shown["sessions"]) == (True, 1)
    assert (p["uid"], p["pid"], p["name"]) == (str(os.getuid()), os.getpid(), 'me "<b>??')
    assert p["requests"] >= 43 and p["errors"] == 2 and p["bytes"] == 40 * 8 + (1 << 20) and p["engine_s"] > 0


def test_processes_are_for_who_asks_this_machine_by_its_name(served):
    with served.connect():
        port = served.http[1]
        listed(served, 1)
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1", f"127.0.0.1:{port}", "[::1]:8080"):
            assert len(names(served, Host=host)) == 1, host
        for host in ("evil.example", "localhost.evil.example", f"evil.example:{port}", "127.0.0.11", "", "::1"):
            assert processes(served, Host=host) == {"processes": [], "sessions": 0, "known": False}, host
        for hosts in (["localhost"], ["localhost"] * 2, []):
            c = http.client.HTTPConnection(*served.http, timeout=60)
            c.putrequest("GET", "/processes.json", skip_host=True)
            for host in hosts:
                c.putheader("Host", host)
            c.endheaders()
            assert json.loads(c.getresponse().read())["known"] == (len(hosts) == 1), hosts
            c.close()


def test_no_process_is_named_beyond_this_machine(start):
    daemon = start("--metrics-url", "http://0.0.0.0:0", "--allow-remote-metrics", "yes")
    daemon.http = ("127.0.0.1", int(re.search(r"metrics on http://[\d.]+:(\d+)/", daemon.log())[1]))
    with daemon.connect() as c:
        load(c)
        settled(daemon, c, 43)
        assert processes(daemon)["processes"] == []


@needs_root
def test_each_user_sees_its_own_processes(start, scratch):
    """Root and the daemon's user see all; others their own, whatever they ask for."""
    scratch.chmod(0o777)
    daemon = start("--metrics-url", "http://127.0.0.1:0", "--socket-mode", "0666")
    daemon.http = ("127.0.0.1", int(re.search(r"metrics on http://[\d.]+:(\d+)/", daemon.log())[1]))

    def seen():
        """One session of this user, and what it sees once that is listed."""
        with Connection(daemon.url) as c:
            c.hello(name=f"of {os.getuid()}".encode())
            while f"of {os.getuid()}" not in names(daemon):
                select_a_moment(daemon.process)
            return names(daemon)

    with Connection(daemon.url) as c:
        c.hello(name=b"of root")
        listed(daemon, 1)
        assert as_user(OTHER, OTHER, lambda: names(daemon)) == []
        assert as_user(OTHER, OTHER, seen) == [f"of {OTHER}"]
        assert as_user(THIRD, THIRD, seen) == [f"of {THIRD}"]
        assert seen() == ["of 0", "of root"]


def test_each_device_has_a_line(start):
    daemon = start("--metrics-url", "http://127.0.0.1:0", "--devices", 2, "--threads", 1, "--small-bytes", 0)
    daemon.http = ("127.0.0.1", int(re.search(r"metrics on http://[\d.]+:(\d+)/", daemon.log())[1]))
    with daemon.connect() as c:
        load(c)
        s = settled(daemon, c, 43)
    assert [(d["uuid"], d["lost"]) for d in s["devices"]] == [("CPU-0", False), ("CPU-1", False)]
    assert sum(d["bytes"] for d in s["devices"]) == sum(s["bytes"].values()) == 40 * 8 + (1 << 20)
    assert sum(d["tasks"] for d in s["devices"]) == s["status"]["tasks"]
    assert [d["peak_bytes_per_s"] for d in s["devices"]] == [0, 0]  # what a processor does not tell


@pytest.fixture
def with_peak(start, monkeypatch):
    """A daemon on CUDA's runtime made of memory, whose clock and width are 1 kHz and 1 bit: two transfers a cycle are 250 bytes/s."""
    monkeypatch.setenv("DEVICES_OF_MEMORY", "1")
    daemon = start("--metrics-url", "http://127.0.0.1:0", "--sandbox", "no", **memory_device("faults/reduced-devices"))
    daemon.http = ("127.0.0.1", int(re.search(r"metrics on http://[\d.]+:(\d+)/", daemon.log())[1]))
    return daemon


def test_a_gpu_has_the_peak_of_its_memory(with_peak):
    assert [d["peak_bytes_per_s"] for d in status(with_peak)["devices"]] == [250]


@needs_browser
@pytest.mark.unsanitized
def test_the_page_shows_what_the_status_says(served, ctl, browser):
    origin = "http://{}:{}/".format(*served.http)
    b = browser()
    with served.connect() as c:
        load(c)
        b.call("Page.navigate", url=origin)
        b.until("document.documentElement?.dataset.samples >= 2 && document.querySelector('#ops td[data-raw=\"40\"]') !== null")
        table = "[...document.querySelectorAll('#{} tbody tr')].map((r) => [...r.cells].map((c) => c.dataset.raw || c.textContent))"
        b.until("document.querySelectorAll('#processes tbody td').length === 7")
        ops, users, errors, devices, mine = (b.evaluate(table.format(t)) for t in ("ops", "users", "errors", "devices", "processes"))
        page = dict(b.evaluate(table.format("status")))
        s, asked = status(served), json.loads(ctl("status", "--json", url=served.url).stdout)
    assert sorted((r[0], r[1], r[2], *map(int, r[5:])) for r in ops) == sorted((o["op"], o["dtype"], o["path"], o["ok"] - o["pieces"], o["pieces"], o["errors"]) for o in s["ops"])
    assert sorted(errors) == [["EMPTY", "1"], ["NAN", "1"]]
    assert {(r[0], r[1]): int(r[6]) for r in users}[LOGIN or str(os.getuid()), str(os.getuid())] == 2
    assert [(r[0], r[1], r[6], int(r[7])) for r in devices] == [(d["name"], "ok", "unknown", d["tasks"]) for d in s["devices"]]
    assert [(r[0], r[1], r[2], r[7]) for r in mine] == [("rawclient", str(os.getpid()), LOGIN or str(os.getuid()), "2")]
    for key in ("version", "backend", "device", "health", "requests.reduce", "requests.sum", "errors", "resident.cap", "threads"):
        assert page[key] == str(s["status"][key]) == str(asked[key]), key
    assert b.evaluate("document.getElementById('health').textContent").startswith("Healthy")
    assert b.evaluate("document.querySelectorAll('#cards figure svg[aria-label] path.first[d^=M]').length") == 6
    b.evaluate("location.hash = '#ladder'")
    b.until("document.querySelectorAll('#rungs tbody tr').length > 20")
    b.evaluate("[...document.querySelectorAll('#rungs button')].find((x) => x.textContent === 'unroll8').click()")
    assert "__global__" in b.evaluate("document.getElementById('rung-text').textContent")
    fresh = {"rung": "cub", "dtype": "i32", "n": 5, "block": 128, "finish": "atomic", "verdict": "right", "gbs": 12.25, "gpu": "mine", "date": "now"}
    b.evaluate(f"openRun(new File([{json.dumps(json.dumps(fresh))}], 'run.json'))")
    assert b.evaluate(table.format("rungs")) == [["cub", "12.3", "", "", ""]]
    assert b.evaluate("document.getElementById('run-note').textContent") == "run.json: mine, now"
    b.evaluate("openRun(new File(['{}'], 'other.json'))")
    assert b.evaluate("document.getElementById('run-note').textContent") == "other.json is not the output of reducectl ladder --json."
    assert not [r for r in b.requests if not r.startswith(origin) and r != "about:blank"], b.requests
    assert not [x for x in b.complaints if "favicon" not in x], b.complaints


@needs_browser
@pytest.mark.unsanitized
def test_the_page_has_the_share_of_the_peak(with_peak, browser):
    b = browser()
    b.call("Page.navigate", url="http://{}:{}/".format(*with_peak.http))
    assert b.until("document.querySelector('#devices tbody tr')?.cells[6].textContent") == "0.0 % of 250 B/s"


def nameless(b):
    """What a screen reader meets without a name: controls, tables, pictures, and whatever else the keyboard reaches."""
    reached = {"name": "focusable", "value": {"type": "booleanOrUndefined", "value": True}}
    nodes = [(n["role"]["value"], n) for n in b.call("Accessibility.getFullAXTree")["nodes"] if not n.get("ignored")]
    found = [n for role, n in nodes if role in ("button", "link", "img", "table", "combobox", "image") or (reached in n["properties"] and role != "main")]
    assert len(found) > 10
    return [(n["role"], n["properties"]) for n in found if not n["name"]["value"]]


@needs_browser
@pytest.mark.unsanitized
def test_the_page_fits_and_is_accessible(served, browser):
    """At the widths of a phone, a tablet and a desk, light and dark; every control has a name and is reached by the keyboard."""
    origin = "http://{}:{}/".format(*served.http)
    b = browser()
    for width, dark in ((360, True), (800, False), (1400, True)):
        b.look(width, dark)
        b.call("Page.navigate", url=origin)
        b.until("document.documentElement?.dataset.samples >= 1")
        assert b.evaluate("document.documentElement.scrollWidth") <= width, width
        widest = "document.querySelectorAll('#times td').forEach((x) => { x.textContent = '0.888 \u00b5s'; })"
        assert b.evaluate(f"{widest}, document.getElementById('times').scrollWidth <= document.getElementById('times').parentElement.clientWidth"), width
        luminance = b.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, x) => a + +x, 0)")
        assert (luminance < 200) == dark
        assert nameless(b) == []
        for key in ("Tab",) * 4:
            b.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=9)
            b.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=9)
        assert b.evaluate("document.activeElement.id") == "pause"
        b.evaluate("document.activeElement.click()")
        assert b.evaluate("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
        b.evaluate("location.hash = '#ladder'")
        b.until("document.querySelector('#rungs tbody tr') !== null")
        assert b.evaluate("document.documentElement.scrollWidth") <= width, width
        assert nameless(b) == []


@needs_browser
@pytest.mark.unsanitized
def test_every_table_is_whole_on_a_desk(served, browser):
    """Without scrolling sideways: users with the longest names and counts, and their errors."""
    b = browser()
    with served.connect() as c:
        load(c)
        settled(served, c, 43)
        b.call("Page.navigate", url="http://{}:{}/".format(*served.http))
        b.until("document.querySelector('#users tbody tr')?.cells.length === 7 && document.querySelectorAll('#errors tbody tr').length === 2")
        b.look(1400, False)
        longest = ("for (const row of document.querySelectorAll('#users tbody tr, #processes tbody tr')) for (const [i, c] of [...row.cells].entries())"
                   " c.textContent = i ? '999,999,999' : 'alice.of.a.long.name@department.example.org';")
        cut = b.evaluate(longest + "[...document.querySelectorAll('#now .scroll')].filter((x) => x.scrollWidth > x.clientWidth).map((x) => x.querySelector('table').id)")
    assert cut == []


@needs_browser
@pytest.mark.unsanitized
@pytest.mark.slow
def test_the_page_does_not_grow(served, browser):
    """Turns without a pause, with answers that move on by a second, and processes that come and go. PAGE_SECONDS=28800 is eight
    hours, in minutes."""
    last = int(os.environ.get("PAGE_SECONDS", 1200))
    b, c = browser(), served.connect()
    listed(served, 1)
    b.call("Page.addScriptToEvaluateOnNewDocument", source="""
        const real = window.fetch, later = window.setTimeout; let first, own, n = 0;
        window.setTimeout = (f) => queueMicrotask(() => (n % 200 ? f() : later(f, 0)));
        window.fetch = async (...a) => {
          if (a[0] === 'processes.json') {
            own = own || await (await real(...a)).json();
            const one = own.processes[0], rows = Array.from({ length: 1 + n % 20 }, (_, i) => ({ ...one, pid: one.pid + n % 97 + i, requests: n }));
            return { ok: true, json: async () => ({ ...own, processes: rows }) };
          }
          first = first || await (await real(...a)).json();
          if (n >= LAST) return new Promise(() => {});
          const s = structuredClone(first); n++;
          s.now_ms += 1000 * n; s.status.uptime_s += n; s.status.errors += n; s.bytes.inline += n * 1e6;
          document.documentElement.dataset.turns = n;
          return { ok: true, json: async () => s };
        };""".replace("LAST", str(last)))
    b.call("Page.navigate", url="http://{}:{}/".format(*served.http))
    size = []
    for turns in (300, last):
        b.until(f"document.documentElement?.dataset.turns >= {turns}", 600)
        b.evaluate("gc()")
        size.append((b.evaluate("document.querySelectorAll(':not(#processes tbody *)').length"), b.call("Runtime.getHeapUsage")["usedSize"]))
    b.until(f"document.querySelectorAll('#processes tbody tr').length === {1 + last % 20}")
    c.close()
    assert b.evaluate("document.documentElement.dataset.samples") == "120"
    assert b.evaluate("document.getElementById('health').textContent").startswith("Healthy"), "a turn failed"
    assert size[1][0] <= size[0][0] + 5 and size[1][1] < size[0][1] + (1 << 20), size


# ---- http ----
def exchange(daemon, data, rest=b""):
    """What comes back until the daemon ends the connection."""
    with socket.create_connection(daemon.http, 60) as s:
        s.sendall(data)
        if rest:
            s.sendall(rest)
        s.shutdown(socket.SHUT_WR)
        out = b""
        while more := s.recv(65536):
            out += more
    return out


@pytest.mark.parametrize("request_, code", [
    (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405), (b"DELETE /metrics HTTP/1.1\r\n\r\n", 405), (b"GET / HTTP/3\r\n\r\n", 400), (b"\0" * 4096, 431),
    (b"\x16\x03\x01\x02\0\x01\0\r\n\r\n", 400), (b"GET " + b"/" * 3000 + b" HTTP/1.1\r\n\r\n", 404), (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", 431),
    (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404), (b"GET /metrics%00 HTTP/1.1\r\n\r\n", 404), (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n", 431),
    (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 413), (b"HEAD /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", 200)], ids=range(12))
def test_requests_of_any_shape_get_an_answer(served, request_, code):
    try:
        out = exchange(served, request_)
    except (ConnectionResetError, BrokenPipeError):  # it wrote on after the daemon had answered and closed
        assert len(request_) > 4096
        out = None
    if out is not None:
        assert out.startswith(f"HTTP/1.1 {code} ".encode()), out[:200]
        assert request_[:4] != b"HEAD" or out.endswith(b"\r\n\r\n")
    assert get(served, "/metrics")[0].status == 200


def test_requests_in_pieces_and_in_a_row(served):
    with socket.create_connection(served.http, 60) as s:
        for byte in b"GET /status.json HTTP/1.1\r\nHost: x\r\n\r\n":
            s.sendall(bytes([byte]))
        s.sendall(b"GET /page.css HTTP/1.1\r\n\r\n" * 20 + b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        out = b""
        while more := s.recv(65536):
            out += more
    assert out.count(b"HTTP/1.1 200 OK") == 22


def test_a_thousand_connections_cost_nobody_anything(served):
    """Most say nothing or half a request. The daemon keeps a few; clients and scrapers go on."""
    before = len(os.listdir(f"/proc/{served.process.pid}/fd"))
    peers = []
    with served.connect() as c:
        for i in range(1000):
            peers.append(socket.create_connection(served.http, 60))
            peers[-1].sendall([b"", b"GET / HT", b"GET /page.js HTTP/1.1\r\n\r\n" * 8, b"\0" * 5000][i % 4])
            if i % 50 == 0:
                c.reduce("sum", "f32", bytes(8))
        assert get(served, "/metrics")[0].status == 200 and get(served, "/")[0].status == 200
        begun, most = time.monotonic(), 64 + 4
        while (held := len(os.listdir(f"/proc/{served.process.pid}/fd")) - before) > most and time.monotonic() - begun < 5:
            select_a_moment(served.process)  # what it gives up is closed soon, long before the 10 s of those that say nothing
        assert held <= most, held
        begun = time.monotonic()
        for _ in range(200):
            c.reduce("sum", "f32", bytes(8))
        assert time.monotonic() - begun < 10
    for p in peers:
        p.close()
    with urllib.request.urlopen("http://{}:{}/metrics".format(*served.http), timeout=60) as reply:
        assert reply.status == 200
