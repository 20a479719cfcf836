"""reducectl top: one frame as text, and the live screen on a pseudo-terminal."""
import fcntl
import json
import os
import pwd
import re
import select
import struct
import subprocess
import termios
import time

import pytest

from conftest import BIN, memory_device, pseudo_terminal
from rawclient import Fault

USER = pwd.getpwuid(os.getuid()).pw_name
HEADS = ("messages", "requests", "engine", "queues", "pools")


class Terminal:
    """reducectl on a terminal of its own."""

    def __init__(self, *args, size, env=()):
        self.master, slave = pseudo_terminal()
        self.resize(*size)
        self.text = ""
        self.process = subprocess.Popen([BIN / "reducectl", *args], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), env={**os.environ, "TERM": "xterm", **dict(env)})
        os.close(slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self, *words):
        """Until all the words have been written since the last call."""
        end = time.monotonic() + 60
        while not all(w in self.text for w in words):
            assert self.more(end), f"no {words} in {self.text!r}"
        self.text = ""

    def more(self, end):
        if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other side is closed
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def end(self):
        """Its exit code, when it has ended by itself."""
        end = time.monotonic() + 60
        while self.more(end):
            pass
        return self.process.wait(60)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal():
    made = []

    def run(*args, **kw):
        made.append(Terminal(*args, **kw))
        return made[-1]

    yield run
    for t in made:
        t.close()


def has_curses():
    done = subprocess.run(["ldd", BIN / "reducectl"], capture_output=True, text=True)
    return "ncurses" in done.stdout


def test_once_is_a_frame_of_text_over_a_second(start):
    daemon = start()
    with daemon.connect() as c:
        for _ in range(20):
            c.reduce("argmin", "u16", bytes(64))
        watcher = subprocess.Popen([BIN / "reducectl", "top", "--once", "--no-autostart", "--connect", daemon.url], stdout=subprocess.PIPE, text=True)
        while watcher.poll() is None:
            c.reduce("sum", "f32", bytes(64))
        text = watcher.communicate(timeout=60)[0]
    lines = text.splitlines()
    assert watcher.returncode == 0 and re.match(r"reduced \S+  (cpu|cuda)  .*  up 0:\d\d:\d\d  healthy$", lines[0])
    assert tuple(line.split()[0] for line in lines[1:6]) == HEADS
    rows = {tuple(line.split()[:3]): [float(x) for x in line.split()[3:]] for line in lines if line.startswith(("argmin", "sum"))}
    assert rows["argmin", "u16", "inline"] == [0, 0, 20]
    rate, errors, total = rows["sum", "f32", "inline"]
    assert rate > 0 and errors == 0 and total > 0 and float(re.search(r"messages +([\d.]+)/s", text)[1]) >= rate
    assert any(line.split()[0] == str(os.getuid()) for line in lines if line)


def test_json_is_a_frame_on_one_line(ctl, start, scratch):
    """Requests are what programs asked for; a large file is one, in many pieces."""
    daemon = start()
    (scratch / "big").write_bytes(bytes(64 << 20))
    with subprocess.Popen([BIN / "reducectl", "top", "--json", "--connect", daemon.url], stdout=subprocess.PIPE, text=True) as watcher:
        first = json.loads(watcher.stdout.readline())
        assert ctl("sum", "-t", "f32", scratch / "big", url=daemon.url).stdout == b"0\n"
        with daemon.connect() as c:
            c.reduce("max", "i32", bytes(64))
            frames = [first]
            while not any(p["pid"] == str(os.getpid()) for p in frames[-1]["processes"]):
                frames.append(json.loads(watcher.stdout.readline()))
        watcher.kill()
    assert [o for o in first["ops"]] == [] and first["healthy"] is True and 0 < first["over_s"] < 60
    last = frames[-1]
    assert {(o["op"], o["dtype"], o["path"]): o["requests"] for o in last["ops"]} == {("sum", "f32", "inline"): 1, ("max", "i32", "inline"): 1}
    assert sum(f["pieces_per_s"] for f in frames) > 0
    me = next(p for p in last["processes"] if p["pid"] == str(os.getpid()))
    assert me["uid"] == str(os.getuid()) and me["user"] == pwd.getpwuid(os.getuid()).pw_name and me["requests"] >= 2
    assert str(os.getuid()) in {u["uid"] for u in last["users"]} and "device_busy" not in last
    once = ctl("top", "--once", "--json", url=daemon.url)
    assert once.returncode == 0 and once.stdout.count(b"\n") == 1 and json.loads(once.stdout)["uptime_s"] > 0


def test_other_users_processes_are_not_shown(shared):
    """Topic 5 of QUERY is for root and the daemon's user; over tcp a session sees itself alone."""
    with shared.connect() as here, shared.connect(tcp=True) as there:
        here.reduce("sum", "u8", bytes(3))
        there.reduce("sum", "u8", bytes(3))
        seen, own = here.query(5), there.query(5)
    assert seen["sessions"] == 2 and own["sessions"] == 1
    texts = [v for k, v in seen.items() if k.startswith("session.")]
    assert any(re.fullmatch(rf"uid={os.getuid()} pid={os.getpid()} priority=normal requests=2 pieces=0 errors=0 bytes=3 engine_us=\d+ name=.*", t) for t in texts), texts
    assert any(t.startswith("address=127.0.0.1") for t in texts) and len(own) == 2


STUBS = """
#include <string.h>
int cuDeviceGet(int *device, int ordinal) { *device = 40 + ordinal; return 0; }
int cuDeviceGetPCIBusId(char *out, int cap, int device) { (void)cap; strcpy(out, device == 42 ? "0000:1b:00.0" : "?"); return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) { *device = (void *)bus; return strcmp(bus, "0000:1b:00.0") ? 6 : 0; }
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *out) { (void)d; out[0] = 1000; out[1] = 750; out[2] = 250; return 0; }
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *c) { (void)d; *c = sensor == 0 ? 45 : 0; return 0; }
int nvmlDeviceGetUtilizationRates(void *d, unsigned *out) { (void)d; out[0] = 37; out[1] = 5; return 0; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { (void)d; *mw = 120500; return 3; }
"""


@pytest.mark.unsanitized
def test_the_gpus_meter(ctl, start, scratch, monkeypatch):
    """A driver made of a few lines stands in for NVIDIA's: the device is found by its bus, and what it cannot say is left out."""
    (scratch / "stubs.c").write_text(STUBS)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", scratch / name, scratch / "stubs.c"], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(scratch))
    monkeypatch.setenv("DEVICES_OF_MEMORY", "3")
    metered = start("--device", 2, **memory_device())
    end = time.monotonic() + 60
    while "device.temperature_c" not in (status := metered.status()):
        assert time.monotonic() < end, status
    assert [status[f"device.{k}"] for k in ("memory_bytes", "memory_cap", "temperature_c", "busy_percent", "power_w")] == [250, 1000, 45, 37, 0]
    text = ctl("metrics", url=metered.url).stdout.decode()
    assert 'reduced_device_memory_bytes{kind="used"} 250\n' in text and "reduced_device_busy_ratio 0.37\n" in text
    assert b"device    busy 37%  memory 250 B of 1000 B  45 C" in ctl("top", "--once", url=metered.url).stdout
    metered.stop(4)  # the meter ends by itself: the daemon would cut it off after 5 s
    other = start("--device", 1, **memory_device())
    assert "device.temperature_c" not in other.status() and b"reduced_device_" not in ctl("metrics", url=other.url).stdout


def test_wrong_use(ctl, shared):
    for args in (("top", "--raw"), ("top", "file"), ("sum", "--once")):
        assert ctl(*args, url=shared.url).returncode == 2
    done = ctl("top", url=shared.url)  # no terminal
    assert done.returncode == 1 and b"--once" in done.stderr and not done.stdout


def test_the_screen_draws_follows_resizes_and_quits(start, terminal):
    daemon = start()
    t = terminal("top", "--no-autostart", "--connect", daemon.url, size=(24, 40))
    if not has_curses():
        assert t.end() == 1 and "without ncurses" in t.text
        return
    t.wait("reduced", "messages", "pools", "history", "OP", "USER", "PROCESS")
    with daemon.connect() as c:
        c.reduce("norminf", "f64", bytes(64))
    t.wait("norminf")  # at the next turn
    t.resize(30, 132)
    t.wait("TOTAL")    # the headings' end, which 40 columns did not show
    os.write(t.master, b"h")
    t.wait("keys", "sort by requests")
    os.write(t.master, b"d")
    os.write(t.master, b"xq")
    assert t.end() == 0
    assert "\x1b[?1049l" in t.text  # the screen from before is back


SCREEN = (24, 80)


def rows_of(text):
    """What stands on a screen of 24 x 80 after the writes of a program that prints lines."""
    return [re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", line) for line in text.replace("\r", "").split("\n")]


@pytest.mark.parametrize("devices", [1, 2])
def test_status_fits_a_small_screen(ctl, start, terminal, devices):
    daemon = start("--devices", devices, backend="cpu")
    with daemon.connect() as c:
        for op in ("sum", "max", "argmin", "stats"):
            c.reduce(op, "f32", bytes(64))
        with pytest.raises(Fault):
            c.reduce("min", "u8", b"")
        t = terminal("status", "--no-autostart", "--connect", daemon.url, size=SCREEN)
        assert t.end() == 0
        whole = ctl("status", url=daemon.url).stdout.decode().splitlines()
        long = terminal("status", "-v", "--no-autostart", "--connect", daemon.url, size=SCREEN)
        assert long.end() == 0
    rows = rows_of(t.text)
    assert len(rows) <= SCREEN[0] and max(map(len, rows)) <= SCREEN[1], t.text
    for key in ("version", "backend", "health", "requests.sum", "errors", "latency.p99_us", "sessions"):
        assert re.search(rf"(^|\s){key} \S", t.text), key
    assert [row[:5] for row in rows if row.startswith("gpu ")] == [f"gpu {i}" for i in range(devices) if devices > 1]
    assert "errors 1" in t.text and re.search(r"sessions 2 of \d+", t.text) and " 0 of" not in t.text
    assert len(whole) > 40 and {line.split()[0] for line in whole} <= {line.split()[0] for line in rows_of(long.text) if line.split()}


@pytest.mark.skipif(not has_curses(), reason="this build has no ncurses")
def test_top_fits_a_small_screen(start, terminal):
    """No line is longer than the screen, and the tables, which come last, are on it."""
    daemon = start()
    with daemon.connect() as c:
        for op in ("sum", "max", "argmin", "stats"):
            c.reduce(op, "f32", bytes(64))
        t = terminal("top", "--no-autostart", "--connect", daemon.url, size=SCREEN, env={"LC_ALL": "C.UTF-8"})
        t.wait("reduced", "received", "kernel", "streams", "resident", "history", "ERRORS/S", "sum", "USER", "PROCESS", "NAME (USER)", f"({USER})")


@pytest.mark.skipif(not has_curses(), reason="this build has no ncurses")
def test_the_screen_ends_with_the_daemon(start, terminal):
    daemon = start()
    t = terminal("top", "--no-autostart", "--connect", daemon.url, size=(24, 80))
    t.wait("USER")
    daemon.stop()
    assert t.end() == 3
    assert "\x1b[?1049l" in t.text and "reducectl: top: " in t.text


@pytest.mark.skipif(not has_curses(), reason="this build has no ncurses")
def test_a_terminal_nobody_knows(shared, terminal):
    t = terminal("top", "--no-autostart", "--connect", shared.url, size=(24, 80), env={"TERM": "no-such-terminal"})
    assert t.end() == 1
    assert "--once" in t.text


def test_one_frame_fits_its_terminal(start, terminal):
    """80 columns, as text without end: what is longer is folded. In a pipe lines are whole."""
    t = terminal("top", "--once", "--connect", start().url, size=(24, 80))
    assert t.end() == 0
    lines = t.text.replace("\r", "").split("\n")
    assert any(line.startswith("queues") for line in lines) and max(map(len, lines)) <= 80, t.text
