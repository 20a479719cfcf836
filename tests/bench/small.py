"""Small requests: rate and latency beside a bare nng echo in the same run; the daemon's memory as they pass."""

import subprocess
import tempfile
from contextlib import contextmanager

from common import BUILD, daemon, resident_kib
from figures import OURS, summary

LOAD = BUILD / "bench/load"
ROUNDS = 5
CASES = {  # processes, requests of each, f32 of a request
    "1 process": (1, 5000, 16),
    "16 processes": (16, 1000, 16),
    "16 processes, 4 KiB": (16, 1000, 1024),
}


def load(kind, url, processes, requests, elements=16):
    """(requests per second, median us, 99th percentile us)"""
    command = [LOAD, kind, url, *map(str, (processes, requests, elements))]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, p50, p99 = map(float, out.stdout.split())
    return processes * requests / seconds, p50, p99


@contextmanager
def echo():
    with tempfile.TemporaryDirectory(prefix="rb") as folder:
        url = f"ipc://{folder}/e"
        p = subprocess.Popen([LOAD, "server", url], stdout=subprocess.PIPE)
        try:
            p.stdout.readline()
            yield url
        finally:
            p.kill()
            p.wait()


def measure(flags, skip):
    """Sums of f32, one after another in each process, daemon and echo in turn."""
    with daemon(*flags) as (url, *_), echo() as echo_url:
        for by, case in CASES.items():
            rounds = {OURS: [], "nng-echo": []}
            for _ in range(ROUNDS):
                rounds["nng-echo"].append(load("echo", echo_url, *case))
                rounds[OURS].append(load("reduce", url, *case))
            for i, (what, unit) in enumerate((("requests", "1/s"), ("latency p50", "us"), ("latency p99", "us"))):
                yield [summary("requests", f"{what}, {by}", who, unit, [r[i] for r in found]) for who, found in rounds.items()]
    with daemon(*flags) as (url, process, *_):
        for requests in (100, 9900):
            load("reduce", url, 10, requests)
            total = "1,000" if requests == 100 else "100,000"
            yield [summary("requests", f"resident after {total}", OURS, "KiB", [resident_kib(process.pid)])]
