#!/usr/bin/env python3
"""Measure the project beside its peers and write down the figures.

    tests/bench/run.py [PART ...] [--json FILE] [--cells REGEX] [-- FLAGS OF THE DAEMON]

Parts: kernels host requests processes share crowd cpu; all of them without arguments. $B names the build (build/cpu). What cannot
be measured here is skipped by name. The figures go to build/bench/DATE-COMMIT.json; compare two such files with
tests/bench/compare."""

import argparse
import sys
from pathlib import Path

import cpu
import crowd
import figures
import goals
import host_path
import kernels
import processes
import share
import small
from common import ROOT

PARTS = {"kernels": kernels, "host": host_path, "requests": small, "processes": processes, "share": share, "crowd": crowd, "cpu": cpu}


def arguments():
    own, flags = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, flags = own[:at], own[at + 1:]
    p = argparse.ArgumentParser(usage="tests/bench/run.py [PART ...] [--json FILE] [--cells REGEX] [-- FLAGS OF THE DAEMON]")
    p.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART")
    p.add_argument("--json")
    p.add_argument("--cells", default="", metavar="REGEX", help="of share: only cells whose names match, as 'var of 64 MiB, malloc, (1|4) '")
    args = p.parse_args(own)
    share.chosen = args.cells
    return args.parts or list(PARTS), args.json, flags


def run_part(name, flags, skipped):
    def skip(who, why):
        skipped.append(f"{who}: {why}" if who == name else f"{name}: {who}: {why}")
        print(f"skipped: {who}: {why}", flush=True)

    found = []
    print(f"== {name}", flush=True)
    try:
        for case in PARTS[name].measure(flags, skip):
            found += case
            if not getattr(PARTS[name], "PRINTS", False):
                print(figures.line(case), flush=True)
    except figures.Skip as why:
        skip(name, str(why))
    return found


def main():
    parts, path, flags = arguments()
    measurements, skipped = [], []
    for name in parts:
        measurements += run_part(name, flags, skipped)
    print("== goals")
    goals.show(measurements)
    run = figures.provenance()
    path = Path(path) if path else ROOT / "build/bench" / f"{run['date']}-{run['commit']}.json"
    figures.save(path, run, measurements, skipped)
    print(f"{figures.heading(run)}\n-> {path}")


if __name__ == "__main__":
    main()
