#!/usr/bin/python3
"""Small requests: rate and latency beside a bare nng echo measured in the same run; the daemon's memory as they pass."""

import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager

from common import BUILD, daemon, machine, resident_kib

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


def main():
    print(f"{machine()}\nsums of 16 f32, one after another in each process; medians of {ROUNDS} rounds, alternating")
    with daemon(*sys.argv[1:]) as (url, pid), echo() as echo_url:
        for processes, requests in ((1, 5000), (16, 1000)):
            rounds = {"echo": [], "reduce": []}
            for _ in range(ROUNDS):
                rounds["echo"].append(load("echo", echo_url, processes, requests))
                rounds["reduce"].append(load("reduce", url, processes, requests))
            rate = {}
            for kind, name in (("echo", "bare nng echo"), ("reduce", "reduced")):
                rate[kind], p50, p99 = map(statistics.median, zip(*rounds[kind]))
                print(f"  {processes:2} x {requests:5}  {name:<14} {rate[kind]:8.0f} requests/s   p50 {p50:7.1f} us   p99 {p99:7.1f} us")
            print(f"  {processes:2} x {requests:5}  reduced / echo {rate['reduce'] / rate['echo']:8.2f}")
    with daemon(*sys.argv[1:]) as (url, pid):
        load("reduce", url, 10, 100)
        early = resident_kib(pid)
        load("reduce", url, 10, 9900)
        late = resident_kib(pid)
        print(f"  resident after 1,000 requests {early} KiB, after 100,000 {late} KiB: {late - early:+d} KiB")


if __name__ == "__main__":
    main()
