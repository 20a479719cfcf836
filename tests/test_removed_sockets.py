"""What cleaners of folders do to a daemon that serves: sockets and lock that are removed come back, and nothing else is touched."""
import os
import re
import signal
import stat
import struct
import subprocess
import time

import pytest

import libreduce as lib
from conftest import BIN, ROOT, select_a_moment

DATA, SUM = struct.pack("<3f", 1.5, 2, -0.25), struct.pack("<d", 3.25)
LARGE = struct.pack("<f", 1) * 3_000_000  # travels in memory that the second socket passes
FILES = "s", "s.side", "s.lock"


def until(condition, process):
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None and time.monotonic() < end
        select_a_moment(process)


def identity(path):
    st = path.lstat()
    return st.st_dev, st.st_ino


@pytest.mark.parametrize("removed", [FILES, ("s",), ("s.side",), ("s.lock",)], ids="+".join)
def test_what_was_removed_comes_back(start, scratch, removed):
    daemon = start("--socket-mode", "0640")
    paths = [scratch / name for name in removed]
    with lib.Client(daemon.url) as before:
        assert before.run("sum", "f32", DATA) == SUM
        for path in paths:
            path.unlink()
        for path in paths:
            until(path.exists, daemon.process)
        for name in ("s", "s.side"):
            until(lambda: stat.S_IMODE((scratch / name).lstat().st_mode) == 0o640, daemon.process)
            assert stat.S_ISSOCK((scratch / name).lstat().st_mode)
        with lib.Client(daemon.url) as after:
            assert after.run("sum", "f32", DATA) == SUM
            assert after.run("sum", "f32", LARGE, path=3) == struct.pack("<d", 3_000_000)
        assert before.run("sum", "f32", DATA) == SUM
    second = subprocess.run([BIN / "reduced", *daemon.flags], env=daemon.env(), capture_output=True, text=True, timeout=60)
    assert second.returncode != 0 and f"pid {daemon.process.pid}, already serves it" in second.stderr
    daemon.stop()
    assert not (scratch / "s").exists() and not (scratch / "s.side").exists()


def test_a_path_that_is_taken_is_left_alone(start, scratch):
    """By a file, and by a daemon that was started while the lock was away."""
    daemon, path = start(), scratch / "s"
    path.unlink()
    path.write_text("not a socket")
    os.kill(daemon.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, daemon.process.pid, os.WSTOPPED)
    (scratch / "s.lock").unlink()
    os.kill(daemon.process.pid, signal.SIGCONT)
    until((scratch / "s.lock").exists, daemon.process)  # so the daemon has looked
    assert path.read_text() == "not a socket"
    os.kill(daemon.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, daemon.process.pid, os.WSTOPPED)
    for name in FILES:
        (scratch / name).unlink()
    second = start()
    theirs = [identity(scratch / name) for name in FILES]
    os.kill(daemon.process.pid, signal.SIGCONT)
    daemon.wait_log(f"pid {second.process.pid}, already serves it")
    with lib.Client(second.url) as c:
        assert c.run("sum", "f32", DATA) == SUM
    assert [identity(scratch / name) for name in FILES] == theirs
    daemon.stop()
    assert [identity(scratch / name) for name in FILES] == theirs, "a daemon that leaves has removed the sockets of another one"
    with lib.Client(second.url) as c:
        assert c.run("sum", "f32", DATA) == SUM


def test_the_documented_command_ends_a_daemon_whose_lock_has_rates(start, scratch):
    """These lines are of a daemon before it. As arguments of kill they would be processes."""
    (scratch / "s.lock").write_bytes(b"1".ljust(20) + b"\n" + bytes(21) + b"9934391418".ljust(20) + b"\n")
    daemon = start()
    command, = re.findall(r"`(kill [^`]+)`", (ROOT / ".docs" / "administrators.md").read_text())
    assert "$XDG_RUNTIME_DIR/reduced.sock" in command
    done = subprocess.run(["bash", "-c", command.replace("$XDG_RUNTIME_DIR/reduced.sock", str(scratch / "s"))], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert daemon.process.wait(60) == 0
