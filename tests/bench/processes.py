"""Whole processes: a fresh one sums a 1 GiB float32 .npy file in page cache, start of the interpreter and imports included;
then reducectl four times at once."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ctl, daemon
from figures import OURS, Skip, gpu, summary

ELEMENTS = 256 << 20
ROUNDS = 5
PEERS = {"numpy": "import numpy; print(numpy.load({path!r}).sum(dtype='f8'))",
         "cupy": "import cupy; print(cupy.load({path!r}).sum(dtype='f8'))",
         "torch": "import numpy, torch; print(torch.from_numpy(numpy.load({path!r})).cuda().sum(dtype=torch.float64).item())"}


def seconds(commands):
    """Of all of them, started at once; and what the first one printed."""
    start = time.monotonic()
    jobs = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in commands]
    out = [j.communicate() for j in jobs]
    elapsed = time.monotonic() - start
    if any(j.returncode for j in jobs):
        raise Skip((out[0][1].strip().splitlines() or ["failed"])[-1])
    return elapsed, out[0][0]


def peers(path, skip):
    for name, program in PEERS.items():
        if importlib.util.find_spec(name) is None:
            skip(name, "not installed")
        elif name != "numpy" and not gpu():
            skip(name, "no GPU")
        else:
            yield name, [sys.executable, "-c", program.format(path=str(path))]


def value(text):
    return float(json.loads(text)["value"]) if text.startswith("{") else float(text)


def measure(flags, skip):
    try:
        import numpy
    except ImportError as err:
        raise Skip(str(err)) from err
    with tempfile.TemporaryDirectory(prefix="rb") as folder, daemon(*flags) as (url, *_):
        path = Path(folder, "x.npy")
        x = numpy.random.default_rng(1).standard_normal(ELEMENTS, dtype="f4")
        numpy.save(path, x)
        want = float(x.sum(dtype="f8"))
        del x
        ours = ctl(url, "sum", path, "--json")
        ways = {OURS: ours, **dict(peers(path, skip))}
        times = {who: [] for who in ways}
        for _ in range(ROUNDS):
            for who, command in ways.items():
                elapsed, printed = seconds([command])
                if abs(value(printed) - want) > 1e-6 * ELEMENTS ** 0.5:
                    raise SystemExit(f"{who} says {printed.strip()}, not {want}")
                times[who].append(elapsed)
        yield [summary("processes", "whole process, 1 GiB of f32", who, "s", t, ELEMENTS * 4) for who, t in times.items()]
        four = [seconds([ours] * 4)[0] for _ in range(ROUNDS)]
        yield [summary("processes", "four at once, 1 GiB each", OURS, "s", four, 4 * ELEMENTS * 4)]
