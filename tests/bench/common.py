"""Shared by the benchmarks: the build to measure, a daemon of its own, the machine's name."""

import os
import platform
import re
import subprocess
import tempfile
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
def daemon(*flags, program=BUILD / "bin/reduced"):
    """(url, pid) of a daemon that answers."""
    with tempfile.TemporaryDirectory(prefix="rb") as folder:
        url = f"ipc://{folder}/s"
        with open(f"{folder}/log", "wb") as log:
            p = subprocess.Popen([program, "--listen", url, *flags], stdout=log, stderr=log)
        try:
            while subprocess.run(ctl(url, "ping"), capture_output=True).returncode:
                if p.poll() is not None:
                    raise SystemExit(Path(folder, "log").read_text())
            yield url, p.pid
        finally:
            p.terminate()
            p.wait()


def resident_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])
