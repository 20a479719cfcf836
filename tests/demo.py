#!/usr/bin/python3
"""make demo: one real daemon on a private socket, real data, several processes, every answer checked.

    tests/demo.py [BIN_DIR [ELEMENTS]]

1. The geoid of the Earth (EGM96, float32 grid of Debian's proj-data): sum, extremes and where they are, sums by latitude,
   highest points by longitude, statistics in one pass, halves reduced apart and merged.
2. The same numbers in another order: the same bits, where an ordinary float32 sum changes.
3. An array of 2^26 elements, 256 MiB, or of ELEMENTS, reduced by 8 processes at once, compared bit for bit with a sum in exact integer arithmetic.

Ends with exit code 0 only if every answer was right.
"""

import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/bin").resolve()
GEOID = Path("/usr/share/proj/egm96_15.gtx")  # Debian's proj-data, GTX: a 40-byte header, then big-endian float32
PROCESSES = 8
BIG = int(sys.argv[2]) if len(sys.argv) > 2 else 64 << 20  # elements of float32
TTY = sys.stdout.isatty()
failures = 0


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if TTY else text


def title(text):
    print(f"\n{paint('1', text)}", flush=True)


def line(label, value, note="", ok=None):
    """One row of the transcript; `ok` is the verdict of a check."""
    global failures
    mark = "" if ok is None else paint("32", " ok") if ok else paint("31;1", " WRONG")
    failures += ok is False
    print(f"  {label:<34} {value:<26} {note}{mark}", flush=True)


def bits(x):
    return struct.pack("<d", x)


def fail(text):
    sys.exit(f"demo: {text}")


class Daemon:
    """A daemon of our own on a socket of our own; gone when the `with` block ends."""

    def __init__(self, folder):
        self.url = f"ipc://{folder}/demo.sock"
        self.log = Path(folder, "log")

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([BIN / "reduced", "--listen", self.url], stdout=log, stderr=log)
        until = time.monotonic() + 60
        while self.ctl("ping", check=False).returncode:  # each try takes a process: pace enough
            if self.process.poll() is not None or time.monotonic() > until:
                fail(f"the daemon did not start:\n{self.log.read_text()}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait(60)
        if code:
            fail(f"the daemon left with {code}:\n{self.log.read_text()}")

    def command(self, *args):
        return [BIN / "reducectl", *map(str, args), "--connect", self.url, "--no-autostart"]

    def ctl(self, *args, check=True):
        p = subprocess.run(self.command(*args), capture_output=True, text=True)
        if check and p.returncode:
            fail(f"reducectl {' '.join(map(str, args))}: {p.stderr}")
        return p

    def reduce(self, op, path, *args):
        """reducectl's values for one file: a list with further arguments, else one."""
        values = [json.loads(x)["value"] for x in self.ctl(op, path, "--json", *args).stdout.splitlines()]
        return values if args else values[0]


def read_geoid():
    raw = GEOID.read_bytes()
    south, west, dlat, dlon, rows, cols = struct.unpack(">4d2i", raw[:40])
    grid = np.frombuffer(raw, ">f4", offset=40).reshape(rows, cols).astype("<f4")

    def place(i):
        lat, lon = south + i // cols * dlat, (west + i % cols * dlon + 180) % 360 - 180
        return f"{abs(lat):.2f} {'NS'[lat < 0]} {abs(lon):.2f} {'EW'[lon < 0]}"

    return grid, place


def geoid(daemon, folder):
    title("1. The geoid: how far sea level lies above the ellipsoid, every 15 minutes of arc")
    if not GEOID.exists():
        fail(f"{GEOID} is missing: run `make deps demo` (package proj-data)")
    grid, place = read_geoid()
    path = Path(folder, "geoid.npy")
    np.save(path, grid)
    print(f"  {grid.shape[0]} x {grid.shape[1]} float32 from {GEOID}", flush=True)
    flat = grid.ravel()

    total = daemon.reduce("sum", path)
    line("sum", repr(total), "= math.fsum, to the bit", bits(total) == bits(math.fsum(flat.tolist())))
    for op, where, ours in (("min", "argmin", np.min), ("max", "argmax", np.max)):
        value = daemon.reduce(op, path)
        index = daemon.reduce(where, path)
        right = value == float(ours(flat)) and index == int(np.flatnonzero(flat == ours(flat))[0])
        line(op, f"{value:.3f} m", f"at {place(index)} (element {index})", right)
    rows = daemon.reduce("sum", path, "--axis", 1)
    line("sum of each circle of latitude", f"{len(rows)} sums", "= math.fsum, each",
         [bits(float(r)) for r in rows] == [bits(math.fsum(r)) for r in grid.tolist()])
    columns = daemon.reduce("max", path, "--axis", 0)
    line("highest point of each meridian", f"{len(columns)} values", "= numpy's, each", columns == grid.max(axis=0).tolist())
    statistics(daemon, path, flat)
    halves(daemon, folder, flat, total)
    return flat


def statistics(daemon, path, flat):
    """Mean and standard deviation are those of the exact numbers, rounded once."""
    stats = daemon.reduce("stats", path)
    mean = exact_sum(flat) / flat.size
    var = sum(Fraction(x) ** 2 for x in flat.tolist()) / flat.size - mean**2
    std = Fraction(stats["std"])
    half = Fraction(math.ulp(stats["std"])) / 2
    right = stats["mean"] == float(mean) and (std - half) ** 2 <= var <= (std + half) ** 2 and stats["count"] == flat.size
    line("mean and standard deviation", f"{stats['mean']:.3f} m, {stats['std']:.3f} m", "in one pass with 9 more; rounded once", right)


def halves(daemon, folder, flat, total):
    states = []
    for name, half in (("north", flat[: flat.size // 2]), ("south", flat[flat.size // 2 :])):
        path, state = Path(folder, f"{name}.npy"), Path(folder, f"{name}.state")
        np.save(path, half)
        state.write_bytes(subprocess.run(daemon.command("sum", "--partial", path), capture_output=True, check=True).stdout)
        states.append(state)
    merged = daemon.reduce("sum", *states, "--merge")[0]
    line("both halves apart, states merged", repr(merged), f"{states[0].stat().st_size} bytes each; the same bits", bits(merged) == bits(total))


def order(daemon, folder, flat):
    title("2. The same numbers shuffled")
    rng = np.random.default_rng(1)
    ours, theirs = set(), set()
    for i in range(4):
        path = Path(folder, f"order{i}.npy")
        shuffled = flat if i == 0 else rng.permutation(flat)
        np.save(path, shuffled)
        ours.add(bits(daemon.reduce("sum", path)))
        theirs.add(float(np.add.reduce(shuffled, dtype=np.float32)))
    line("reduced, 4 orders", f"{len(ours)} result", "the exact sum, rounded once", len(ours) == 1)
    line("numpy float32 sum, 4 orders", f"{len(theirs)} results", " ".join(f"{x:.9g}" for x in sorted(theirs)))


def exact_sum(a):
    """The sum of finite float32 as a Fraction: add up the significands of each exponent as integers."""
    by_exponent = [0] * 256
    for part in np.array_split(a.view(np.uint32), max(1, a.size >> 22)):
        exponent = (part >> 23 & 0xFF).astype(np.uint8)
        significand = (part & 0x7FFFFF).astype(np.int64) + (exponent > 0) * (1 << 23)
        significand[part >> 31 == 1] *= -1
        # a part has 2^22 elements and a significand 24 bits: each half stays exact in bincount's float64
        high = np.bincount(exponent, significand >> 12, 256)
        low = np.bincount(exponent, significand & 0xFFF, 256)
        for e in range(256):
            by_exponent[e] += (int(high[e]) << 12) + int(low[e])
    return sum(Fraction(s) * Fraction(2) ** (max(e, 1) - 150) for e, s in enumerate(by_exponent) if s)


def together(daemon, folder):
    title(f"3. {PROCESSES} processes at once, {BIG * 4 >> 20} MiB each")
    rng = np.random.default_rng(2)
    big = rng.standard_normal(BIG, dtype=np.float32)
    big[::1000] *= 1e9  # a wide range of magnitudes: an ordinary sum loses the small ones
    path = Path(folder, "big.npy")
    np.save(path, big)
    expected = float(exact_sum(big))  # the division of big integers rounds once, to nearest even

    start = time.monotonic()
    jobs = [subprocess.Popen(daemon.command("sum", path, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(PROCESSES)]
    outputs = [(job, *job.communicate()) for job in jobs]
    seconds = time.monotonic() - start
    values = []
    for job, out, err in outputs:
        if job.returncode:
            fail(f"a process failed with {job.returncode}: {err}")
        values.append(json.loads(out)["value"])
    right = sum(bits(v) == bits(expected) for v in values)
    line("answers", repr(values[0]), f"{right} of {PROCESSES} equal the exact sum to the bit", right == PROCESSES)
    line("numpy float32 sum", f"{float(np.add.reduce(big, dtype=np.float32)):.9g}", "for comparison")
    line("time", f"{seconds:.2f} s", f"{PROCESSES * big.nbytes / seconds / 1e9:.2f} GB/s in all, from files through the socket")


def main():
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="reduced-demo-") as folder, Daemon(folder) as daemon:
        print(paint("1", "reduced: one daemon, exact reductions for every process"))
        status = json.loads(daemon.ctl("status", "--json").stdout)
        line("backend", status["backend"], f"{status['device']} ({status['device_note']})")
        flat = geoid(daemon, folder)
        order(daemon, folder, flat)
        together(daemon, folder)
        title("4. What the daemon counted")
        status = json.loads(daemon.ctl("status", "--json").stdout)
        line("requests, sessions, errors", f"{status['requests']}, {status['sessions_total']}, {status['errors']}")
        line("bytes in messages", f"{status['bytes_in'] / 2**20:.0f} MiB", "files are passed as descriptors")
        line("time of a request", f"{status['latency.p50_us'] / 1e3:.2f} ms",
             f"median; {status['latency.p99_us'] / 1e3:.2f} ms 99 %; most are parts of step 3's files, and wait for others")
        line("resident memory", f"{status['rss_bytes'] / 2**20:.0f} MiB")
    verdict = "every answer was right" if not failures else f"{failures} WRONG"
    print(f"\n{verdict}; {time.monotonic() - begin:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
