#!/usr/bin/env python3
"""`reducectl mean,count --by city` of a CSV file beside the same query of DuckDB, as processor time.

    B=build/cpu PYTHON-WITH-DUCKDB tests/bench/csv_by.py [--lines 10^7] [--rounds 3]

DuckDB has two threads. Each figure is the least of all rounds, which are in turn; each program is a process of its own, and reads the
file from the page cache. Without PyPI's duckdb in this Python nothing is measured. `!`: more than half of DuckDB's time."""
import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from common import BUILD, machine

GOAL = 0.5
QUERY = "select city, avg(price), count(*) from read_csv('{}') group by city order by city"
DUCKDB = "import duckdb, sys; db = duckdb.connect(config={'threads': 2}); db.execute('set enable_progress_bar = false'); print(len(db.execute(sys.argv[1]).fetchall()))"


def write(path, lines):
    """1,000 cities, prices with two digits: blocks of 10^5 lines again and again, in another order each."""
    r = random.Random(1)
    some = [f"{r.randrange(10**9)},city{r.randrange(1000)},{r.randrange(10**7) / 100:.2f}\n" for _ in range(10**5)]
    with open(path, "w") as f:
        f.write("id,city,price\n")
        for done in range(0, lines, len(some)):
            r.shuffle(some)
            f.writelines(some[:lines - done])


def seconds(command):
    before = os.times()
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lines", default="10^7")
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    base, _, power = args.lines.partition("^")
    if subprocess.run([sys.executable, "-c", "import duckdb"], stderr=subprocess.DEVNULL).returncode:
        print("skipped: this Python has no duckdb")
        return
    with tempfile.TemporaryDirectory(prefix="rb") as folder:
        path = Path(folder, "trips.csv")
        write(path, int(base) ** int(power or 1))
        ours = [BUILD / "bin/reducectl", "mean,count", "--by", "city", f"{path}:price"]
        theirs = [sys.executable, "-c", DUCKDB, QUERY.format(path)]
        times = [(seconds(ours), seconds(theirs)) for _ in range(args.rounds)]
        groups = times[0][0][1].count("\n") - 1
        assert groups == int(times[0][1][1].split()[-1]), "other groups than DuckDB's"
        mine, peer = (min(t[i][0] for t in times) for i in (0, 1))
        print(f"{machine()}; {args.lines} lines, {path.stat().st_size >> 20} MiB, {groups} groups; processor seconds")
        print(f"reducectl {mine:.2f}, duckdb {peer:.2f}: {mine / peer:.2f}{' !' if mine > GOAL * peer else ''}")


if __name__ == "__main__":
    main()
