"""Shared by the benchmarks: the build to measure, a daemon of its own, the machine's name."""

import os
import platform
import re
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("B", "build/cpu")


def machine():
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}"


def ctl(url, *args):
    return [BUILD / "bin/reducectl", *map(str, args), "--connect", url, "--no-autostart"]


@contextmanager
def daemon(*flags, program=None, env=None):
    """(url, process, log, seconds until it was ready) of a daemon. `env` comes on top of this process's."""
    with tempfile.TemporaryDirectory(prefix="rb") as folder:
        url, log = f"ipc://{folder}/s", Path(folder, "log")
        begin = time.perf_counter()
        with open(log, "wb") as out:
            p = subprocess.Popen([program or BUILD / "bin/reduced", "--listen", url, *map(str, flags)], stdout=out, stderr=out, env={**os.environ, **(env or {})})
        try:
            while b"ready" not in log.read_bytes():
                if p.poll() is not None:
                    raise SystemExit(log.read_text())
                time.sleep(0.002)  # poll interval
            yield url, p, log, time.perf_counter() - begin
        finally:
            p.terminate()
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                print(f"the daemon did not end: {log.read_text()[-300:]}", flush=True)


def resident_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def processor_seconds(pid):
    """Those of all threads of a process."""
    return sum(int(t.read_text().split()[0]) for t in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
