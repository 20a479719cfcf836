#!/usr/bin/env python3
"""Two real daemons, one on the GPU and one on the CPU, asked the same through reducectl: the same bits, by every path; the one
on the GPU of resident data, too, and by key beside what the Python package does in its process.

    B=build/cuda tests/gpu/daemon.py        (numpy makes the data; the last line counts)
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
from common import BUILD, daemon  # noqa: E402

os.environ["REDUCED_LIBRARY"] = str(BUILD / "lib/libreduce.so")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client/python"))
import reduced  # noqa: E402

import numpy as np  # noqa: E402

OPS = ["sum", "min", "max", "argmin", "argmax", "count_nonzero"]


def arrays():
    r = np.random.default_rng(7)
    n = 5_000_011
    yield "f32", (r.standard_normal(n) * 10.0 ** r.integers(-30, 30, n)).astype("f4")
    yield "f64", r.standard_normal(n) * 10.0 ** r.integers(-300, 300, n)
    yield "f16", r.standard_normal(n).astype("f2")
    yield "i8", r.integers(-128, 128, n).astype("i1")
    yield "u16", r.integers(0, 1 << 16, n).astype("u2")
    yield "i32", r.integers(-(1 << 31), 1 << 31, n).astype("i4")
    yield "u64", r.integers(0, 1 << 40, n).astype("u8")
    yield "subnormal", r.integers(0, 1 << 20, n).astype("u4").view("f4")


def ask(url, op, path, *more):
    out = subprocess.run(
        [BUILD / "bin/reducectl", op, path, "--hex" if op in ("sum", "min", "max") else "--json", "--connect", url, *more],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    text = out.stdout
    if text.startswith("{"):
        text = " ".join(str(json.loads(line)["value"]) for line in text.splitlines())
    return out.returncode, text


def put(url, name, path):
    """Leave it with the daemon, in device memory."""
    subprocess.run([BUILD / "bin/reducectl", "put", name, path, "--replace", "--connect", url], check=True, timeout=120)


def by_key(url):
    """(equal, different) of resident elements by resident keys."""
    r = np.random.default_rng(8)
    counts = [0, 0]
    with reduced.Client(url, autostart=False) as client:
        for name, array in arrays():
            for groups in 7, 1000, 1_000_000:
                keys = r.integers(0, groups, array.size).astype("i4")
                x, k = reduced.put("x", array, replace=True, client=client), reduced.put("k", keys, replace=True, client=client)
                for op in ("sum", "mean", "count", "min", "max") if groups < 1_000_000 else ("sum", "mean", "count"):
                    a, b = reduced.by_key(k, x, op), reduced.by_key(keys, array, op)
                    same = a[0].tobytes() == b[0].tobytes() and a[1].tobytes() == b[1].tobytes()
                    counts[not same] += 1
                    if not same:
                        print("DIFFERENT", op, name, "by key,", groups, "groups")
        for name in "x", "k":
            reduced.Resident(name, client=client).drop()
    return counts


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder, daemon("--backend", "cuda", "--small-bytes", "0") as (gpu, *_), \
            daemon("--backend", "cpu") as (cpu, *_):
        status = subprocess.run([BUILD / "bin/reducectl", "status", "--connect", gpu], stdout=subprocess.PIPE, text=True)
        print("\n".join(line for line in status.stdout.splitlines() if "device" in line or "backend" in line))
        for name, array in arrays():
            path = os.path.join(folder, name + ".npy")
            np.save(path, array)
            rows = os.path.join(folder, name + "-rows.npy")
            np.save(rows, array[:600_000])
            put(gpu, "all", path)
            put(gpu, "rows", rows)
            for op in OPS:
                files = [(path,), (rows, "--rows", "100000"), (rows, "--rows", "10")]
                columns = ("--rows", "600", "--axis", "0")
                resident = [("@all",), ("@rows", *files[1][1:]), ("@rows", *files[2][1:]), ("@rows", *columns)]
                for case, same_of in [*zip(files, files), *zip(resident, [*files, (rows, *columns)])]:
                    a, b = ask(gpu, op, *case), ask(cpu, op, *same_of)
                    same = a == b and a[0] in (0, 1)
                    passed += same
                    failed += not same
                    if not same:
                        print("DIFFERENT", op, case, a[0], a[1][:200], b[0], b[1][:200])
        counts = by_key(gpu)
        passed, failed = passed + counts[0], failed + counts[1]
    print(f"daemons: {passed} equal, {failed} different")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
