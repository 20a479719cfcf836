"""reducectl top: one frame as text, and the live screen on a pseudo-terminal."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest

from conftest import BIN

HEADS = ("messages", "requests", "engine", "queues", "pools")


class Terminal:
    """reducectl on a terminal of its own."""

    def __init__(self, *args, size, env=()):
        self.master, slave = pty.openpty()
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


def test_wrong_use(ctl, shared):
    for args in (("top", "--json"), ("top", "file"), ("sum", "--once")):
        assert ctl(*args, url=shared.url).returncode == 2
    done = ctl("top", url=shared.url)  # no terminal
    assert done.returncode == 1 and b"--once" in done.stderr and not done.stdout


def test_the_screen_draws_follows_resizes_and_quits(start, terminal):
    daemon = start()
    t = terminal("top", "--no-autostart", "--connect", daemon.url, size=(24, 40))
    if not has_curses():
        assert t.end() == 1 and "without ncurses" in t.text
        return
    t.wait("reduced", "messages", "pools", "OP", "USER")
    with daemon.connect() as c:
        c.reduce("norminf", "f64", bytes(64))
    t.wait("norminf")  # at the next turn
    t.resize(30, 132)
    t.wait("TOTAL")    # the headings' end, which 40 columns did not show
    os.write(t.master, b"xq")
    assert t.end() == 0
    assert "\x1b[?1049l" in t.text  # the screen from before is back


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
