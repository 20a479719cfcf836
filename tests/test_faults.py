"""Calls that fail, one at a time: memory, descriptors, threads, reads, nng's. The daemon answers with a typed error, cuts a
connection or does not start, and says why; the next request is right and nothing is left over. The same for libreduce.

The n-th call fails (tests/faults/calls.def); n = 1, 2, ... until a whole scenario comes to its end before its fault."""
import contextlib
import itertools
import mmap
import re
import struct
import subprocess
import time
from collections import Counter

import numpy as np
import pytest

from certificates import Authority
from conftest import BIN, select_a_moment
from rawclient import COLUMNS, REDUCE, Closed, Connection, Fault, parameter, parse_result, spec
from sideclient import Side
from supervisor import Supervised

TOOLS = BIN.parent / "faults"
SMALL = ["--contexts", "8", "--threads", "2", "--readers", "2", "--direct", "1"]  # fewer calls of a kind
TYPED = {"NO_MEMORY", "INTERNAL", "IO", "BUSY", "QUOTA"}
DATA = np.arange(20_000, dtype="f4")
WANT = struct.pack("<d", float(DATA.sum(dtype="f8")))
LINES = struct.pack("<20d", *DATA.reshape(20, 1000).sum(axis=1, dtype="f8"))

pytestmark = pytest.mark.skipif(not (TOOLS / "reduced").exists(), reason="no build with faults here: make fault-tools")


class Page:
    """The cue: tests/faults/faults.h."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(104))
        with open(path, "r+b") as f:
            self.memory = mmap.mmap(f.fileno(), 104)

    def _get(self, at):
        return struct.unpack_from("<Q", self.memory, at)[0]

    def cue(self, n):
        """The n-th call from now on fails; 0: none does."""
        struct.pack_into("<QQ", self.memory, 8, 0, 0)
        struct.pack_into("<Q", self.memory, 8, self._get(0) + n if n else 0)

    def always(self, name):
        """Calls of this name fail from now on; "": none does."""
        self.memory[64:104] = name.encode().ljust(40, b"\0")

    @property
    def fired(self):
        return self._get(16) == 1

    @property
    def name(self):
        return self.memory[24:64].split(b"\0")[0].decode()


@pytest.fixture
def page(scratch, monkeypatch):
    page = Page(scratch / "page")
    monkeypatch.setenv("REDUCED_FAULTS", str(page.path))
    return page


@pytest.fixture
def faulty(start):
    """faulty(*flags) -> Daemon with faults on cue."""
    return lambda *flags, **kw: start(*SMALL, *flags, program=TOOLS / "reduced", **kw)


# ---- a scenario: every kind of request, by every path ----
def ask(url, scratch):
    """Results by name."""
    told = {}
    with Connection(url, timeout=60) as c:
        c.hello()
        data = DATA.tobytes()
        told["inline"] = c.reduce("sum", "f32", data).cells
        told["small"] = c.reduce("sum", "u8", b"\1\2\3").cells
        told["rows"] = c.reduce("sum", "f32", data, rows=20).cells
        told["mask"] = c.reduce("sum", "f32", data, mask=b"\1" * len(DATA)).cells
        told["var"] = c.reduce("var", "f64", data).count
        c.query(1), c.query(2), c.metrics()
        stream = c.begin("sum", "f32")
        for at in range(0, len(DATA), 5000):
            c.append(stream, at, DATA[at:at + 5000].tobytes())
        told["stream"] = c.finish(stream, len(DATA)).cells
        with open(scratch / "data", "rb") as f, Side(c, timeout=60) as side:
            handle, size = side.file(f.fileno())
            told["file"] = c.reduce_at("sum", "f32", handle, 0, size).cells
            arena, memory = side.arena(len(data))
            memory[:len(data)] = data
            told["arena"] = c.reduce_at("sum", "f32", arena, 0, len(data)).cells
            kept = c.store("kept", "f32", 2 * len(data), replace=True)
            c.write(kept, 0, data)
            c.write_at(kept, len(data), handle, 0, size)
            c.commit(kept)
            told["resident"] = c.reduce_at("sum", "f32", kept, len(data), len(data)).cells
            c.list(), c.drop("kept")
            memory.close()
            side.drop(handle)
    return told


RIGHT = {"inline": [WANT], "small": [struct.pack("<Q", 6)], "rows": [LINES[i:i + 8] for i in range(0, 160, 8)], "mask": [WANT],
         "var": len(DATA) // 2, "stream": [WANT], "file": [WANT], "arena": [WANT], "resident": [WANT]}


def survive(url, scratch):
    """The scenario with a fault in it: right as far as it goes, ended by a typed error or a cut connection at worst."""
    try:
        assert ask(url, scratch) == RIGHT
        return "right"
    except Fault as e:
        assert e.code in TYPED, e
        return e.code
    except (Closed, BrokenPipeError):
        return "closed"


def at_rest(daemon, page, seconds=60):
    """What the scenario held is given back."""
    for _ in range(seconds * 100):
        status = daemon.status()
        left = {k: status[k] for k in ("side.channels", "side.files", "side.arena_bytes", "resident.bytes", "streams") if status[k]}
        if not left and status["sessions"] == 1:
            return
        select_a_moment(daemon.process)
    raise AssertionError(f"after a fault in {page.name}: {left}, {status['sessions']} sessions")


def each_fault(daemon, page, act):
    """Each call of a daemon fails once: its number, what `act` gave, and whether one failed, which the last time none does."""
    for n in itertools.count(1):
        page.cue(n)
        got = act()
        fired = page.fired
        page.cue(0)
        assert daemon.process.poll() is None, f"the daemon ended after a fault in {page.name}:\n{daemon.log()}"
        yield n, got, fired
        if not fired:
            return


def test_every_call_of_a_request_may_fail(faulty, page, scratch):
    (scratch / "data").write_bytes(DATA.tobytes())
    daemon = faulty()
    assert ask(daemon.url, scratch) == RIGHT
    ends = {}
    for n, end, fired in each_fault(daemon, page, lambda: survive(daemon.url, scratch)):
        assert ask(daemon.url, scratch) == RIGHT, page.name
        at_rest(daemon, page)
        if fired:
            ends.setdefault(f"{page.name}: {end}", []).append(n)
    print("\n".join(f"{k} ({len(v)})" for k, v in sorted(ends.items())))
    assert sum(map(len, ends.values())) > 30


def test_every_call_of_order_statistics_on_two_devices_may_fail(faulty, page):
    """Whole arrays, a row that is cut, and columns: cells, or a typed error; the next request is right."""
    x = np.random.default_rng(1).standard_normal(6000)
    k, shapes = parameter("k", 3), ({"rows": 1, "row_len": 6000}, {"rows": 3, "row_len": 2000}, {"rows": 2000, "row_len": 3, "flags": COLUMNS})
    asked = [(op, parts, kw) for op, parts in ((27, []), (30, [k])) for kw in shapes]  # median, largest
    daemon, ends = faulty("--devices", 2), Counter()

    def answer(handle, op, parts, kw):
        try:
            with Connection(daemon.url, timeout=60) as c:
                c.hello()
                return c.reduce_at(op, "f64", handle, 0, x.nbytes, parts=parts, **kw).cells
        except Fault as e:
            assert e.code in TYPED, e
            return e.code
        except (Closed, BrokenPipeError):
            return "closed"

    with daemon.connect() as c:
        handle = c.put("x", "f64", x.tobytes(), place=1)  # spread
        for op, parts, kw in asked:
            want = parse_result(c.call(REDUCE, spec(op, "f64", tagged_len=sum(map(len, parts)), **kw) + b"".join(parts) + x.tobytes())).cells
            for _, got, _ in each_fault(daemon, page, lambda: answer(handle, op, parts, kw)):
                assert got == want or isinstance(got, str), page.name
                assert answer(handle, op, parts, kw) == want, page.name
                ends.update([f"{page.name}: {got}"] * isinstance(got, str))
    print("\n".join(f"{k} ({n})" for k, n in sorted(ends.items())))
    assert ends["malloc: NO_MEMORY"] > 20 and ends["calloc: NO_MEMORY"] > 3


def start_and_leave(daemon, scratch):
    """The state of a daemon after one of its calls failed."""
    end = time.monotonic() + 60
    while daemon.process.poll() is None and "ready\n" not in daemon.log():
        assert time.monotonic() < end, f"neither ready nor gone:\n{daemon.log()}"
        select_a_moment(daemon.process)
    if daemon.process.poll() is not None:
        assert daemon.process.returncode in (1, 70) and "error: " in daemon.log(), daemon.log()
        return re.search("error: (.*)", daemon.log())[1]
    if "no fdpass socket" in daemon.log():
        with daemon.connect() as c:
            assert c.reduce("sum", "f32", DATA.tobytes()).cells == [WANT]
    else:
        assert survive(daemon.url, scratch)
    daemon.stop()
    return "served"


def test_every_call_of_the_start_may_fail(faulty, page, scratch):
    """It starts and serves, or it leaves with a line that says why. A failure while it leaves does not keep it."""
    (scratch / "data").write_bytes(DATA.tobytes())
    ca = Authority(scratch, "ca")
    cert, key = ca.issue("server", "localhost")
    tls = ["--listen", "tls+tcp://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-ca", ca.file("pem")]
    ends = {}
    for n in itertools.count(1):
        page.cue(n)
        daemon = faulty(*tls, wait=False)
        end = start_and_leave(daemon, scratch)
        daemon.check_log()
        if not page.fired:
            break
        ends.setdefault(f"{page.name}: {end}", []).append(n)
    print("\n".join(f"{k} ({len(v)})" for k, v in sorted(ends.items())))
    assert len(ends) > 10


def test_every_call_of_libreduce_may_fail(start, scratch):
    daemon = start()
    (scratch / "ones").write_bytes(np.ones(1 << 18, "f4").tobytes())
    done = subprocess.run([TOOLS / "client", daemon.url, scratch / "ones"], capture_output=True, text=True,
                          timeout=900)
    print(done.stdout)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not (TOOLS / "cuda").exists(), reason="no build with CUDA and faults here: make fault-tools CUDA=yes")
def test_every_call_of_the_cuda_engine_may_fail():
    done = subprocess.run([TOOLS / "cuda"], capture_output=True, text=True, timeout=900)
    print(done.stdout)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not (TOOLS / "devices").exists(), reason="no CUDA engine in this build")
def test_every_call_of_one_of_two_devices_may_fail():
    """Answers stay right, or DEVICE_LOST for what lay there; the other device goes on."""
    done = subprocess.run([TOOLS / "devices"], capture_output=True, text=True, timeout=300)
    print(done.stdout)
    assert done.returncode == 0, done.stderr


# ---- the health check: a real reduction with a known answer ----
def drained(daemon):
    """What the service manager was told since the last look."""
    told = []
    daemon.notify.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            told.append(daemon.notify.recv(4096).decode())
    return "\n".join(told)


def wait_times(daemon, pattern, times):
    """Wait until `n` lines of the log match."""
    end = time.monotonic() + 60
    while len(re.findall(pattern, daemon.log(), re.M)) < times:
        assert time.monotonic() < end and daemon.process.poll() is None, daemon.log()
        select_a_moment(daemon.process)


def wait_health(daemon, health):
    """Wait for the status to say so; a check that is not back after a second makes it "slow" until it is."""
    end = time.monotonic() + 60
    while (told := daemon.status()["health"]) != health:
        assert told == "slow" and time.monotonic() < end, told
        select_a_moment(daemon.process)


def test_the_watchdog_follows_the_health_check(faulty, page, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")  # so the check runs every second
    daemon = faulty()
    daemon.notified("^WATCHDOG=1$")
    page.always("rk_probe_ok")
    daemon.wait_log("the health check gave a wrong answer")
    drained(daemon)
    wait_health(daemon, "wrong")
    wait_times(daemon, "gave a wrong answer", 3)
    assert "WATCHDOG" not in drained(daemon)  # systemd would end and restart it after a while
    page.always("")
    daemon.wait_log("the health check is right again")
    daemon.notified("^WATCHDOG=1$")
    wait_health(daemon, "ok")


def test_a_wrong_first_check_ends_the_start(faulty, page):
    page.always("rk_probe_ok")
    daemon = faulty(wait=False)
    assert daemon.process.wait(60) == 70 and "wrong answer" in daemon.log()
    page.always("")


def put_again(daemon):
    """An array that is kept, in place of what has its name."""
    with daemon.connect() as c:
        return c.put("x", "f32", DATA.tobytes(), replace=True)


def sum_again(daemon):
    with daemon.connect() as c:
        [x] = c.list("x")
        return c.reduce_at("sum", "f32", x.handle, 0, x.bytes).cells


def test_every_call_that_keeps_data_may_fail(page, scratch):
    """A put, and the start that takes back what it left: right, refused, or dropped with a line in the log."""
    daemon = Supervised(scratch, *SMALL, program=TOOLS / "reduced")
    try:
        for n in itertools.count(1):
            page.cue(n)
            try:
                put_again(daemon)
            except (Fault, Closed, BrokenPipeError) as e:
                assert not isinstance(e, Fault) or e.code in TYPED, e
            fired = page.fired
            page.cue(0)
            put_again(daemon)
            daemon.keeps(1)
            assert sum_again(daemon) == [WANT], page.name
            if not fired:
                break
        assert n > 5
        for n in itertools.count(1):
            daemon.kill()
            page.cue(n)
            daemon.start_again(wait=False)
            started, fired, name = daemon.is_started(), page.fired, page.name
            page.cue(0)
            if not started:
                assert daemon.process.poll() in (1, 70) and "error: " in daemon.log(), name
                continue
            assert "kept data 'resident-" in daemon.log() or sum_again(daemon) == [WANT], name
            if not fired:
                break
            daemon.has(put_again(daemon))  # beside one that waits for the next start, perhaps: the newer one counts
        assert n > 20
        daemon.stop()
    finally:
        daemon.close()
