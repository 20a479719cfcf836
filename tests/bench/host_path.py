"""Data in a program's memory, its own or that of reduce_alloc, to their sum: libreduce asking a daemon, beside numpy in the
process, beside cudaMemcpy and CUB in it."""

import subprocess
import time

from common import BUILD, daemon
from figures import OURS, Skip, summary

SIZES = (64 << 10, 4 << 20, 64 << 20, 1 << 30)  # bytes of f32
ROUNDS = 3
BUDGET_BYTES = 3 << 30  # that each way goes through in a round


def program(*args):
    """The times of the runs that a program prints."""
    out = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if out.returncode:
        raise Skip((out.stderr.strip().splitlines() or [f"exit code {out.returncode}"])[-1])
    return [float(t) for t in out.stdout.split()]


def numpy_sums(size, runs):
    try:
        import numpy
    except ImportError as err:
        raise Skip(str(err)) from err
    x, times = (numpy.arange(size // 4) % 16).astype("f4"), []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        x.sum()
        times.append((time.perf_counter() - begin) * 1e6)
    return times[1:]


def measure(flags, skip):
    """Yields the measurements of one case after another; tells `skip` who cannot take part, and why."""
    cuda = BUILD / "bench/host_cuda"
    with daemon(*flags) as (url, *_):
        host = BUILD / "bench/host"
        ways = {OURS: lambda size, runs: program(host, url, size, runs),
                f"{OURS}-alloc": lambda size, runs: program(host, url, size, runs, "alloc"), "numpy": numpy_sums}
        if cuda.exists():
            for memory in ("pageable", "pinned"):
                ways[f"cub-{memory}"] = lambda size, runs, memory=memory: program(cuda, memory, size, runs)
        else:
            skip("cub-pageable, cub-pinned", "built without CUDA")
        for size in SIZES:
            runs = max(3, min(101, BUDGET_BYTES // size))
            times = {who: [] for who in ways}
            for _ in range(ROUNDS):
                for who, way in list(ways.items()):
                    try:
                        times[who] += way(size, runs)
                    except Skip as why:
                        if who == OURS:
                            raise
                        skip(who, str(why))
                        del ways[who]
            name = f"host sum f32 {size >> 20} MiB" if size >> 20 else f"host sum f32 {size >> 10} KiB"
            yield [summary("host", name, who, "us", t, size) for who, t in times.items() if t]
