"""The CPU engine's loops beside a plain vector sum with as many threads: bench_cpu, which prints as it goes."""

import os
import subprocess
import tempfile
from pathlib import Path

from common import BUILD
from figures import by_case, read_lines

PRINTS = True  # what it measured, itself


def measure(flags, skip):
    with tempfile.TemporaryDirectory(prefix="rb") as folder:
        lines = Path(folder, "cpu")
        subprocess.run([BUILD / "bench/bench_cpu", str(len(os.sched_getaffinity(0))), lines], check=True)
        yield from by_case(read_lines(lines)).values()
