"""Processes that share a machine: each reduces an array of its own memory with Python, again and again, the way that is expected to be the
fastest, every time by the daemon, and with NumPy. The rate of all of them together."""

import itertools
import os
import subprocess
import sys

from common import BUILD, ROOT, daemon
from figures import OURS, Skip, summary

PROCESSES, SIZES, OPS = (1, 4, 16), (16 << 10, 64 << 20), ("sum", "var")
ROUNDS, SECONDS = 3, 1.0
WORKER = """
import sys, time
import numpy as np
who, op, size, seconds = sys.argv[1:]
a = np.random.default_rng(1).standard_normal(int(size) // 4, dtype="f4")
if who == "numpy":
    call = getattr(a, op)
    run = lambda: call(dtype="f8")
else:
    import reduced
    call = getattr(reduced, op)
    run = lambda: call(a)
for _ in range(3):
    run()
print("ready", flush=True)
for line in sys.stdin:
    n, begin = 0, time.monotonic()
    while (now := time.monotonic()) < begin + float(seconds):
        run()
        n += 1
    print(n / (now - begin), flush=True)
"""


def workers(url, who, op, size, n):
    env = dict(os.environ, PYTHONPATH=str(ROOT / "client/python"), REDUCED_LIBRARY=str(BUILD / "lib/libreduce.so.0"), REDUCED_URL=url,
               REDUCE_LOCAL="no" if who == "daemon" else "yes")
    return [subprocess.Popen([sys.executable, "-c", WORKER, who, op, str(size), str(SECONDS)], env=env, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(n)]


def rates(started):
    """Of all of them in one round, in 1/s."""
    for w in started:
        w.stdin.write("go\n")
        w.stdin.flush()
    return sum(float(w.stdout.readline()) for w in started)


def measure(flags, skip):
    try:
        import numpy  # noqa: F401
    except ImportError as err:
        raise Skip(str(err)) from err
    with daemon(*flags) as (url, *_):
        for op, size, n in itertools.product(OPS, SIZES, PROCESSES):
            ways = {who: workers(url, who, op, size, n) for who in (OURS, "daemon", "numpy")}
            try:
                for w in itertools.chain(*ways.values()):
                    w.stdout.readline()
                found = {who: [] for who in ways}
                for _ in range(ROUNDS):
                    for who, started in ways.items():
                        found[who].append(rates(started))
                yield [summary("share", f"{op} of {size >> 10} KiB, {n} processes", who, "1/s", x) for who, x in found.items()]
            finally:
                for w in itertools.chain(*ways.values()):
                    w.stdin.close()
                    w.wait()
