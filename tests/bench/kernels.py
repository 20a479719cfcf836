"""Kernels on device-resident data: bench_kernels (ours and CUB's) and peers_gpu.py (PyTorch's, CuPy's), which print as they go."""

import subprocess
import sys
import tempfile
from pathlib import Path

from common import BUILD
from figures import Skip, by_case, line, read_lines

BENCH = BUILD / "gpu/bench_kernels"
NO_DEVICE = 77
PRINTS = True  # what it measured, itself


def measure(flags, skip):
    if not BENCH.exists():
        raise Skip("built without CUDA")
    with tempfile.TemporaryDirectory(prefix="rb") as folder:
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        code = subprocess.run([BENCH, "--json", ours]).returncode
        if code == NO_DEVICE:
            raise Skip("no GPU")
        if code:
            raise SystemExit(f"bench_kernels failed ({code})")
        subprocess.run([sys.executable, Path(__file__).with_name("peers_gpu.py"), "--json", theirs], check=True)
        shared = {m.case for m in read_lines(theirs)}
        for name, case in by_case(read_lines(ours) + read_lines(theirs)).items():
            if name in shared:
                print(line(case))
            yield case
