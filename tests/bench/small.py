"""Small requests: rate and latency beside a bare nng echo in the same run; the daemon's memory as they pass."""

import subprocess
import tempfile
from contextlib import contextmanager

from common import BUILD, daemon, resident_kib
from figures import OURS, summary

LOAD = BUILD / "bench/load"
ROUNDS = 5


def load(kind, url, processes, requests):
    """(requests per second, median us, 99th percentile us)"""
    out = subprocess.run([LOAD, kind, url, str(processes), str(requests)], stdout=subprocess.PIPE, text=True, check=True)
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
    """Sums of 16 f32, one after another in each process, daemon and echo in turn."""
    with daemon(*flags) as (url, _), echo() as echo_url:
        for processes, requests in ((1, 5000), (16, 1000)):
            rounds = {OURS: [], "nng-echo": []}
            for _ in range(ROUNDS):
                rounds["nng-echo"].append(load("echo", echo_url, processes, requests))
                rounds[OURS].append(load("reduce", url, processes, requests))
            by = "1 process" if processes == 1 else f"{processes} processes"
            for i, (what, unit) in enumerate((("requests", "1/s"), ("latency p50", "us"), ("latency p99", "us"))):
                yield [summary("requests", f"{what}, {by}", who, unit, [r[i] for r in found]) for who, found in rounds.items()]
    with daemon(*flags) as (url, pid):
        for requests in (100, 9900):
            load("reduce", url, 10, requests)
            total = "1,000" if requests == 100 else "100,000"
            yield [summary("requests", f"resident after {total}", OURS, "KiB", [resident_kib(pid)])]
