"""What the benchmarks record, and how it is shown.

A measurement is one way of doing one case: `who` did `case` in `median` `unit`s, nine tenths of the runs between `low` and
`high`. bench_kernels writes the same fields, one JSON object a line. "reduced" is us; in a table the number in brackets behind
a peer says how many times as fast as the peer this project is."""

import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from common import ROOT, machine

OURS = "reduced"
RATES = {"1/s", "GB/s"}  # units of which more is better


class Skip(Exception):
    """This cannot be measured here; the text says why."""


@dataclass
class Measurement:
    group: str
    case: str
    who: str
    unit: str
    median: float
    low: float
    high: float
    runs: int
    bytes: int = 0  # that one run reads (and writes), where a rate means something
    check: str = "-"

    @property
    def cost(self):
        """Lower is better, whatever the unit."""
        return 1 / self.median if self.unit in RATES else self.median

    @property
    def rate(self):
        """Bytes per second, or None."""
        if self.unit == "GB/s":
            return self.median * 1e9
        scale = {"us": 1e-6, "s": 1}.get(self.unit)
        return self.bytes / (self.median * scale) if scale and self.bytes else None


def summary(group, case, who, unit, samples, size=0):
    ordered = sorted(samples)
    last = len(ordered) - 1
    return Measurement(group, case, who, unit, statistics.median(ordered), ordered[round(last * 0.1)], ordered[round(last * 0.9)],
                       len(ordered), size)


def read_lines(path):
    return [Measurement(**json.loads(line)) for line in Path(path).read_text().splitlines()]


def write_lines(path, measurements):
    Path(path).write_text("".join(json.dumps(asdict(m)) + "\n" for m in measurements))


# ---- a run: measurements with where, when and of what ----


def commit():
    told = os.environ.get("COMMIT")  # where the tree is not a repository
    if told:
        return told
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return git.stdout.strip() or "unknown"


def gpu():
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return out.stdout.strip().splitlines()[0] if out.returncode == 0 else None


def provenance():
    return {"machine": machine(), "gpu": gpu(), "date": datetime.now(timezone.utc).date().isoformat(), "commit": commit()}


def save(path, run, measurements, skipped):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**run, "skipped": skipped, "measurements": [asdict(m) for m in measurements]}, indent=1) + "\n")


def load(path):
    run = json.loads(Path(path).read_text())
    return run, [Measurement(**m) for m in run["measurements"]]


def heading(run):
    return f"{run['machine']}; {run['gpu'] or 'no GPU'}; {run['date']}, commit {run['commit']}"


# ---- tables ----


def by_case(measurements):
    cases = {}
    for m in measurements:
        cases.setdefault(m.case, []).append(m)
    return cases


def find(measurements, who):
    return next((m for m in measurements if m.who == who), None)


def figure(value):
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def line(measurements):
    """One case on one line, ours first."""
    ours = find(measurements, OURS)
    parts = []
    for m in sorted(measurements, key=lambda m: m.who != OURS):
        rate = f" {m.rate / 1e9:.1f} GB/s" if m.rate and m.unit != "GB/s" else ""
        times = f" ({m.cost / ours.cost:.2f})" if ours and m is not ours else ""
        parts.append(f"{m.who} {figure(m.median)} {m.unit} [{figure(m.low)}..{figure(m.high)}]{rate}{times}")
    return f"{measurements[0].case:<36} " + "  ".join(parts)


def show(measurements, out=sys.stdout):
    for case in by_case(measurements).values():
        print(line(case), file=out)
