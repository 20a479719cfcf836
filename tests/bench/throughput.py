#!/usr/bin/python3
"""Bulk: a 1 GiB float32 file through reducectl, one process and several, beside numpy's own sum of it in a fresh process."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import ctl, daemon, machine

ELEMENTS = 256 << 20
ROUNDS = 5


def timed(commands):
    start = time.monotonic()
    jobs = [subprocess.Popen(c, stdout=subprocess.PIPE, text=True) for c in commands]
    out = [j.communicate()[0] for j in jobs]
    if any(j.returncode for j in jobs):
        raise SystemExit(f"{commands[0]} failed")
    return time.monotonic() - start, out


def main():
    print(f"{machine()}\nsum of 1 GiB of f32 in page cache, whole process each time; median of {ROUNDS}")
    with tempfile.TemporaryDirectory(prefix="rb") as folder, daemon(*sys.argv[1:]) as (url, _):
        path = Path(folder, "x.npy")
        np.save(path, np.random.default_rng(1).standard_normal(ELEMENTS, dtype=np.float32))
        numpy = [sys.executable, "-c", f"import numpy; print(numpy.load({str(path)!r}).sum(dtype='f8'))"]
        for name, commands in (("numpy, f64 accumulator", [numpy]), ("reducectl", [ctl(url, "sum", path, "--json")]),
                               ("reducectl x 4 at once", [ctl(url, "sum", path, "--json")] * 4)):
            seconds, out = sorted((timed(commands) for _ in range(ROUNDS)), key=lambda t: t[0])[ROUNDS // 2]
            backend = "" if name.startswith("numpy") else json.loads(out[0])["backend"]
            print(f"  {name:<24} {seconds:6.2f} s  {len(commands) * ELEMENTS * 4 / seconds / 1e9:6.2f} GB/s  {backend}")


if __name__ == "__main__":
    main()
