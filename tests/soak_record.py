#!/usr/bin/python3
"""What soaks have met, over all runs:  soak_record.py RUNS.tsv >PAGE.md

soak.py --state RUNS.tsv appends a line for each run and writes the page beside it. Files of several machines are joined by
appending their lines, because each line stands for itself."""
import collections
import os
import pathlib
import subprocess
import sys
import time

COLUMNS = ("when", "tree", "engine", "kind", "share", "seconds", "answers", "clients_killed", "daemons_killed", "memory", "verdict")
KINDS = {"work": "clients of every kind", "restarts": "daemons killed under clients", "kills": "clients killed"}
SETTLING = 600  # seconds until the daemon's memory must be flat, or half of a shorter run


class Curve:
    """A daemon's resident memory, once a minute: [(seconds, KiB of its own, KiB shared with clients)]. What is shared is as large as the
    arrays of the clients at that moment; what is its own must be flat."""

    EVERY = 60

    def __init__(self):
        self.points = []

    def sample(self, seconds, measure):
        if not self.points or seconds >= self.points[-1][0] + self.EVERY:
            self.points.append((round(seconds), *measure()))

    def settled(self):
        """The second from which it must be flat."""
        return min(SETTLING, self.points[-1][0] / 2) if self.points else SETTLING

    def growth(self):
        """KiB by which it was later above its highest until then."""
        first = [own for s, own, _ in self.points if s <= self.settled()]
        later = [own for s, own, _ in self.points if s > self.settled()]
        return max(0, max(later) - max(first)) if first and later else 0

    def __str__(self):
        return ",".join(f"{s}:{own}+{shared}" for s, own, shared in self.points)


def tree():
    """The commit that runs, with a star if files differ from it. $REDUCED_TREE names it where there is only a copy."""
    if told := os.environ.get("REDUCED_TREE"):
        return told
    root = pathlib.Path(__file__).parent.parent
    got = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty=*", "--exclude=*"], capture_output=True, text=True)
    return got.stdout.strip() or "unknown"


def append(state, **row):
    """One run's line; then the page beside the file."""
    state = pathlib.Path(state)
    state.parent.mkdir(parents=True, exist_ok=True)
    row = {"when": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "tree": tree(), **row}
    assert set(row) == set(COLUMNS), set(row) ^ set(COLUMNS)
    with open(state, "a") as f:
        if f.tell() == 0:
            f.write("\t".join(COLUMNS) + "\n")
        f.write("\t".join(" ".join(str(row[c]).split()) for c in COLUMNS) + "\n")
    state.with_suffix(".md").write_text(page(read(state)))


def read(state):
    lines = [line.rstrip("\n").split("\t") for line in open(state)]
    return [dict(zip(COLUMNS, line)) for line in lines if line[0] != COLUMNS[0]]


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "| --- " * len(head) + "|", *("| " + " | ".join(map(str, r)) + " |" for r in rows), ""])


def totals(runs):
    sums = collections.defaultdict(lambda: [0] * 6)
    for r in runs:
        numbers = 1, float(r["seconds"]) / 3600, int(r["answers"]), int(r["clients_killed"]), int(r["daemons_killed"]), r["verdict"] != "right"
        key = r["engine"], KINDS[r["kind"]]
        sums[key] = [a + b for a, b in zip(sums[key], numbers)]
    return [(*key, n, f"{hours:.2f}", *map("{:,}".format, rest)) for key, (n, hours, *rest) in sorted(sums.items())]


def at_minutes(curve, minutes):
    """MiB at each of these minutes, its own and what is shared; a dash where the run was over."""
    points = [p.split(":") for p in curve.split(",") if p]
    return [next((" + ".join(f"{int(kib) / 1024:.0f}" for kib in kibs.split("+")) for s, kibs in points if int(s) >= 60 * m), "-") for m in minutes]


def page(runs):
    minutes = (0, 1, 5, 10, 20, 30, 60, 120, 180)
    curves = [(r["when"], r["engine"], r["share"], *at_minutes(r["memory"], minutes), r["verdict"]) for r in runs if r["memory"]]
    return "\n".join([
        "# Soaks, all runs added up", "",
        "`make soak STATE=FILE` appends each run to FILE and writes this page. A run is right if no answer was wrong or lost, and the",
        "daemon held in the end what it held before. The share is that of the time in which the clients worked.", "",
        table(("engine", "kind", "runs", "hours", "answers", "clients killed", "daemons killed", "runs that failed"), totals(runs)),
        "## Resident memory of the daemon, in MiB at the minute", "",
        "Its own but for the messages that it holds, which must be flat, + the arenas of its clients, which are as large as their arrays. Runs before 2026-11-28 04:00 have the sum.", "",
        table(("run", "engine", "share", *map(str, minutes), "verdict"), curves)])


if __name__ == "__main__":
    print(page(read(sys.argv[1])), end="")
