#!/usr/bin/env python3
"""Bulk data against the goals of the fast paths, on a warm daemon with a GPU: each case checks its bits, then its time.

    B=build/cuda tests/gpu/memory.py        (the table comes last; exit 1: a wrong sum, or a case that failed)
"""

import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))
from common import BUILD, ctl, daemon  # noqa: E402

import numpy as np  # noqa: E402

GIB, MIB = 1 << 30, 1 << 20
CLIENTS = 16
SETTLE_S, IDLE_S = 2.5, 5  # until a daemon has given back what it can spare; what is measured


def output(command, **more):
    """What a program prints; if it fails, that and why."""
    out = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60, **more)
    if out.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {out.returncode}\n{out.stdout[-2000:]}{out.stderr[-2000:]}")
    return out.stdout


def in_memory(url, *more):
    """GB/s of sums of 1 GiB of a program's memory; it checks them."""
    times = [float(t) for t in output([BUILD / "bench/host", url, GIB, 15, *more]).split()]
    return GIB / statistics.median(times) / 1e3


def whole_process(url, cpu_url, folder, size):
    """Milliseconds of `reducectl sum` of a file of f32 in page cache; the same bits as the CPU engine's."""
    path = Path(folder, f"{size}.npy")
    np.save(path, np.random.default_rng(size).standard_normal(size // 4, dtype="f4"))
    bits = {output([*ctl(u, "sum", path), "--hex"]) for u in (url, cpu_url)}
    if len(bits) != 1:
        raise RuntimeError(f"{path.name}: different sums: {bits}")
    command, times = [str(c) for c in ctl(url, "sum", path)], []
    for _ in range(11):
        begin = time.perf_counter()
        output(command)
        times.append((time.perf_counter() - begin) * 1e3)
    path.unlink()
    return statistics.median(times)


def device_us(url, cpu_url):
    """Microseconds that a sum of 2^28 f32 on the device takes beside its kernels; the program checks much first."""
    lines = output([BUILD / "gpu/device", url, cpu_url, 41]).splitlines()
    calls = [[float(us) for us in line.split()] for line in lines]
    print(f"device: calls {statistics.median(c[0] for c in calls):.0f} us, kernels {statistics.median(c[1] for c in calls):.0f} us")
    return statistics.median(call - kernels for call, kernels, _ in calls)


def resident_us(url):
    """Microseconds that a sum of 2^28 resident f32 takes beside its kernels; the program checks it."""
    calls = [[float(us) for us in line.split()] for line in output([BUILD / "bench/host", url, GIB, 41, "resident"]).splitlines()]
    print(f"resident: calls {statistics.median(c[0] for c in calls):.0f} us, kernels {statistics.median(c[1] for c in calls):.0f} us")
    return statistics.median(call - kernels for call, kernels in calls)


def tensors(url):
    """Seconds that the example takes."""
    begin = time.monotonic()
    print(output([sys.executable, Path(__file__).with_name("tensor.py"), url]), end="")
    return time.monotonic() - begin


def idle_percent(pid):
    """Of one core, by a daemon that nobody asks anything."""
    def ns():
        return sum(int(f.read_text().split()[0]) for f in Path(f"/proc/{pid}/task").glob("*/schedstat"))

    def spent_in(seconds):
        before = ns()
        time.sleep(seconds)  # measured over one poll interval
        return ns() - before

    spent_in(SETTLE_S)
    return spent_in(IDLE_S) / 1e9 / IDLE_S * 100


def gpu_mib():
    out = output(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"])
    return int(re.match(r"\d+", out)[0])


def clients_mib(url, before):
    """MiB on the GPU while 16 programs sum 64 MiB each, again and again."""
    jobs = [subprocess.Popen([BUILD / "bench/host", url, str(64 * MIB), "100"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True) for _ in range(CLIENTS)]
    most = 0
    while any(j.poll() is None for j in jobs):
        most = max(most, gpu_mib() - before)
    for j in jobs:
        if j.wait():
            raise RuntimeError(j.stderr.read())
    return most


def cases(url, cpu_url, pid, folder, used):
    """(name, unit, goal, whether more is better, how to measure)"""
    return [("device handle, without kernels", "us", 150, False, lambda: device_us(url, cpu_url)),
            ("resident data, without kernels", "us", 150, False, lambda: resident_us(url)),
            ("tensors of torch and cupy", "s", 60, False, lambda: tensors(url)),
            ("reduce_alloc'ed array, 1 GiB", "GB/s", 50, True, lambda: in_memory(url, "alloc")),
            ("malloc'ed array, 1 GiB", "GB/s", 30, True, lambda: in_memory(url)),
            ("reducectl sum, file of 1 GiB", "ms", 45, False, lambda: whole_process(url, cpu_url, folder, GIB)),
            ("reducectl sum, file of 16 MiB", "ms", 12, False, lambda: whole_process(url, cpu_url, folder, 16 * MIB)),
            ("GPU memory, 16 clients", "MiB", 700, False, lambda: clients_mib(url, used)),
            ("idle daemon, of one core", "%", 0.5, False, lambda: idle_percent(pid))]


def main():
    table, failed = [], 0
    used = gpu_mib()
    with tempfile.TemporaryDirectory(prefix="rb") as folder, daemon("--backend", "cuda") as (url, process, *_), \
            daemon("--backend", "cpu") as (cpu_url, *_):
        for name, unit, goal, more, measure in cases(url, cpu_url, process.pid, folder, used):
            begin = time.monotonic()
            try:
                value = measure()
            except Exception:  # noqa: BLE001 - one case that fails does not hide the others
                traceback.print_exc(file=sys.stdout)
                table.append(f"{name:<32} FAILED")
                failed += 1
                continue
            met = value >= goal if more else value <= goal
            table.append(f"{name:<32} {value:9.2f} {unit:<5} goal {goal:>5} {'met' if met else 'MISSED':<6} "
                         f"({time.monotonic() - begin:.1f} s)")
        print(output([BUILD / "bin/reducectl", "status", "--connect", url]))
    print("\n".join(table))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
