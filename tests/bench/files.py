#!/usr/bin/env python3
"""What reducectl reads and prints, beside numpy, h5py, duckdb, datamash and awk in one run.

    PYTHON=python3 B=build/cpu tests/bench/files.py [--mib 256] [--numbers 1000000] [--runs 9] [CASE...]

Cases are chosen by words in their names. Each row has medians of wall and processor milliseconds. reducectl counts as a whole
process, and its daemon's processor time is a column of its own; datamash and awk count as whole processes. What runs in Python
counts without its start and imports. A peer that is not installed is left out. $PYTHON has numpy, h5py and duckdb."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ctl, daemon, machine

PYTHON = os.environ.get("PYTHON", sys.executable)
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
AROUND = """
import os, resource, sys, time
{setup}
for _ in range({runs}):
    wall, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    {code}
    end = resource.getrusage(resource.RUSAGE_SELF)
    print("took", 1e3 * (time.perf_counter() - wall), 1e3 * (end.ru_utime + end.ru_stime - used.ru_utime - used.ru_stime))
"""
MAKE = r"""
import sys, json, struct
import numpy as np
folder, mib, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
r = np.random.default_rng(1)
def text(name, values):
    with open(folder + "/" + name, "w") as f:
        f.write("\n".join(map(repr, values.tolist())) + "\n")
text("ints_3_digits", r.integers(0, 1000, n))
text("ints_9_digits", r.integers(-10**9, 10**9, n))
text("ints_18_digits", r.integers(-2**62, 2**62, n) // 1000)
text("floats", r.normal(size=n))
with open(folder + "/t.csv", "w") as f:
    f.write("id,n,price\n" + "".join(f"{i},{a},{p!r}\n" for i, a, p in zip(range(n), r.integers(-10**6, 10**6, n).tolist(), r.normal(size=n).tolist())))
np.save(folder + "/rows.npy", r.normal(size=(n, 2)))
x = r.normal(size=mib << 17)
np.save(folder + "/x.npy", x)
np.savez(folder + "/x.npz", x=x)
try:
    import h5py
    for name in ("x.h5", "x.nc"):
        with h5py.File(folder + "/" + name, "w") as f:
            d = f.create_dataset("x", data=x)
            if name == "x.nc":
                d.make_scale("x")
except ImportError:
    pass
tensors, at = {}, 0
parts = np.array_split(x.astype("f4"), 12)
for i, part in enumerate(parts):
    tensors[f"layer.{i}.weight"] = {"dtype": "F32", "shape": [part.size], "data_offsets": [at, at + part.nbytes]}
    at += part.nbytes
head = json.dumps(tensors).encode()
with open(folder + "/m.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(head)) + head)
    for part in parts:
        f.write(part.tobytes())
"""
TENSORS = """
import json, numpy as np
def stats(path):
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        head = json.loads(f.read(n))
    out = []
    for name, t in head.items():
        a, b = t["data_offsets"]
        x = np.memmap(path, "<f4", "r", 8 + n + a, ((b - a) // 4,))
        out.append((x.size, np.isnan(x).sum(), (x == 0).sum(), x.min(), x.max(), x.mean(dtype="f8"), x.std(dtype="f8"), np.linalg.norm(x)))
    return out
"""


def awk(program):
    return next(([found, program] for name in ("mawk", "gawk") if (found := shutil.which(name))), None)


def datamash(*args):
    return [found, *args] if (found := shutil.which("datamash")) else None


class Python:
    """A line of Python, and what comes before it."""
    def __init__(self, code, setup="import numpy as np"):
        self.code, self.setup = code, setup


def text_cases(folder):
    """Item 3: reading text; the input is standard input, of reducectl the file."""
    for name in ("ints_3_digits", "ints_9_digits", "ints_18_digits", "floats"):
        path = folder / name
        dtype = "float" if name == "floats" else "np.int64"
        yield f"text: sum of {name}", {
            "reducectl": ("sum", "--text", path), "datamash": datamash("sum", "1"), "awk": awk('{s += $1} END {printf "%.17g\\n", s}'),
            "numpy.loadtxt": Python(f"np.loadtxt({str(path)!r}, dtype={dtype}).sum()"),
            "duckdb": Python(f"duckdb.sql(\"select sum(column0) from read_csv({str(path)!r}, header=false)\").fetchall()", "import duckdb")}, path
    path = folder / "t.csv"
    for number, column in ((2, "n"), (3, "price")):
        yield f"text: sum of a column of CSV, {column}", {
            "reducectl": ("sum", f"{path}:{column}"), "datamash": datamash("-t,", "--header-in", "sum", str(number)),
            "awk": awk(f'BEGIN {{FS = ","}} NR > 1 {{s += ${number}}} END {{printf "%.17g\\n", s}}'),
            "numpy.loadtxt": Python(f"np.loadtxt({str(path)!r}, delimiter=',', skiprows=1, usecols={number - 1}).sum()"),
            "duckdb": Python(f"duckdb.sql(\"select sum({column}) from read_csv({str(path)!r})\").fetchall()", "import duckdb")}, path


def print_cases(folder, n):
    path = folder / "rows.npy"
    yield f"print: {n} sums of rows", {
        "reducectl": ("sum", "--rows", n, path),
        "numpy.savetxt %.17g": Python(f"np.savetxt('/dev/null', np.load({str(path)!r}).sum(1), fmt='%.17g')"),
        "repr of each": Python(f"open('/dev/null', 'w').write('\\n'.join(map(repr, np.load({str(path)!r}).sum(1).tolist())))")}, None


def file_cases(folder):
    x, npz, h5, nc, model = (folder / name for name in ("x.npy", "x.npz", "x.h5", "x.nc", "m.safetensors"))
    load = f"np.load({str(x)!r}, mmap_mode='r')"
    yield "several: sum,mean,max of .npy", {
        "reducectl": ("sum,mean,max", x), "reducectl, three runs of one operation each": [("sum", x), ("mean", x), ("max", x)],
        "numpy": Python(f"a = {load}; a.sum(), a.mean(), a.max()"),
        "duckdb, from memory": Python("duckdb.sql('select sum(a), avg(a), max(a) from t').fetchall()",
                                      f"import numpy as np, duckdb; a = np.load({str(x)!r}); t = {{'a': a}}")}, None
    yield "files: sum of .npy", {"reducectl": ("sum", x), "numpy": Python(f"{load}.sum()")}, None
    yield "files: sum of .npz", {"reducectl": ("sum", f"{npz}:x"), "numpy": Python(f"np.load({str(npz)!r})['x'].sum()")}, None
    for path in (h5, nc):
        if path.exists():
            yield f"files: sum of {path.suffix}", {
                "reducectl": ("sum", f"{path}:/x"), "h5py": Python(f"h5py.File({str(path)!r})['x'][:].sum()", "import h5py, numpy as np")}, None
    yield "files: sum of a tensor of 12 in safetensors", {
        "reducectl": ("sum", f"{model}:layer.3.weight"), "numpy": Python("stats_of_one()", TENSORS + f"""
def stats_of_one():
    with open({str(model)!r}, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        a, b = json.loads(f.read(n))["layer.3.weight"]["data_offsets"]
    return np.memmap({str(model)!r}, "<f4", "r", 8 + n + a, ((b - a) // 4,)).sum(dtype="f8")
""")}, None
    yield "tensors: stats of 12 tensors of safetensors", {"reducectl": ("stats", model), "numpy": Python(f"stats({str(model)!r})", TENSORS)}, None


def processor_ms(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_MS


def run_process(argv, path):
    """(wall, processor) milliseconds."""
    with open(path or os.devnull, "rb") as given:
        start = time.perf_counter()
        p = subprocess.Popen(argv, stdin=given, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(p.pid, 0)
        wall = time.perf_counter() - start
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        raise SystemExit(f"{argv}: exit code {p.returncode}")
    return 1e3 * wall, 1e3 * (used.ru_utime + used.ru_stime)


def run_python(peer, runs):
    script = AROUND.format(setup=peer.setup, runs=runs, code=peer.code)
    done = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True)
    if "ModuleNotFoundError" in done.stderr:
        return []
    if done.returncode:
        raise SystemExit(done.stderr)
    return [tuple(map(float, line.split()[1:])) for line in done.stdout.splitlines() if line.startswith("took")]


def measure(peer, path, runs, url, pid):
    """Medians of wall, processor and the daemon's processor milliseconds; None: it is not there."""
    if isinstance(peer, Python):
        took = run_python(peer, runs)
        return took and (*(statistics.median(t) for t in zip(*took)), 0.0)
    commands = [peer] if isinstance(peer, tuple) else peer if peer and isinstance(peer[0], tuple) else None
    if commands is None:
        took = [run_process(peer, path) for _ in range(runs)] if peer else []
        return took and (*(statistics.median(t) for t in zip(*took)), 0.0)
    before = processor_ms(pid)
    took = [tuple(map(sum, zip(*(run_process(ctl(url, *c), None) for c in commands)))) for _ in range(runs)]
    return *(statistics.median(t) for t in zip(*took)), (processor_ms(pid) - before) / runs


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--mib", type=int, default=256, help="of f64 in the binary files")
    p.add_argument("--numbers", type=int, default=1000000, help="in the text files")
    p.add_argument("--runs", type=int, default=9)
    p.add_argument("case", nargs="*")
    a = p.parse_args()
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}; {a.mib} MiB of f64, {a.numbers} numbers as text, medians of {a.runs} runs\n")
    print("| case | who | wall, ms | processor, ms | its daemon's, ms |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="rf") as folder, daemon() as (url, process, *_):
        subprocess.run([PYTHON, "-c", MAKE, folder, str(a.mib), str(a.numbers)], check=True)
        folder = Path(folder)
        for name, peers, path in (*text_cases(folder), *print_cases(folder, a.numbers), *file_cases(folder)):
            if a.case and not any(word in name for word in a.case):
                continue
            for who, peer in peers.items():
                took = measure(peer, path, a.runs, url, process.pid)
                if took:
                    print(f"| {name} | {who} | " + " | ".join(f"{ms:.1f}" for ms in took[:2]) + f" | {f'{took[2]:.1f}' if took[2] else ''} |", flush=True)


if __name__ == "__main__":
    main()
