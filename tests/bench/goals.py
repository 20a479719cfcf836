"""The project's goals, and a run's verdict on them. A goal compares the project's cost in each case that its pattern names with
the best of some peers in the same run; without a peer there is no verdict."""

import re
from dataclasses import dataclass

from figures import OURS, by_case, find


@dataclass
class Goal:
    what: str
    cases: str       # regular expression, the whole name
    peers: tuple     # the best of them counts
    most: float      # our cost over theirs


GOALS = (
    Goal("sums of 2^24 to 2^30: 0.97 of CUB's throughput", r"sum f(32|64) 2\^(24|26|28|30)", ("cub",), 1 / 0.97),
    Goal("sums of 2^10 to 2^22: 1.2 times CUB's time", r"sum f(32|64) 2\^(1\d|2[02])", ("cub",), 1.2),
    Goal("no slower than CUB at any size", r"(sum (f32|f64|i32)|max f32) 2\^\d+", ("cub",), 1.0),
    Goal("as fast as its own uniform data: within 5 %", r"sum f(32|64) 2\^\d+ [a-z-]+", ("reduced-uniform",), 1.05),
    Goal("narrow elements: 0.9 of the copy ceiling", r"wide sum \w+ 2\^28", ("copy-ceiling",), 1 / 0.9),
    Goal("max, argmax, std: faster than PyTorch", r"(max|argmax|std) f(32|16) 2\^28", ("torch",), 1.0),
    Goal("rows: 1.3 times the best peer", r"sum f32 \d+ x [\d.]+", ("cub-segmented", "cub-fixed-segments", "cupy", "torch"), 1.3),
    Goal("moments of f32: 0.85 of CUB's plain sum", r"(mean|var|std|norm2|sumsq) f32 2\^28", ("cub-sum",), 1 / 0.85),
    Goal("moments of f64: 0.7 of CUB's plain sum", r"(mean|var|std|norm2|sumsq) f64 2\^27", ("cub-sum",), 1 / 0.7),
    Goal("stats: 1.15 times one sum", r"stats f32 2\^28", ("reduced-sum",), 1.15),
    Goal("stats of f64: 1.4 times CUB's plain sum", r"stats f64 2\^27", ("cub-sum",), 1.4),
    Goal("norms 1 and inf of normal data: 1.3 times a sum", r"norm(1|inf) f(32|64) 2\^\d+ normal", ("reduced-sum",), 1.3),
    Goal("means of normal data: 1.5 times a sum", r"mean f(32|64) 2\^\d+ normal", ("reduced-sum",), 1.5),
    Goal("moments of normal data: 1.8 times a sum", r"(var|norm2) f(32|64) 2\^\d+ normal", ("reduced-sum",), 1.8),
    Goal("products: as fast as PyTorch's, which do not round once", r"prod f32 [^n]*", ("torch",), 1.0),
    Goal("by integers, as on cards with slow doubles: 0.6 of CUB's plain sum", r"\w+ f32 2\^28 by integers", ("cub-sum",), 1 / 0.6),
    Goal("16 processes of 4 KiB requests: 0.9 of a bare nng echo", r"requests, 16 processes, 4 KiB", ("nng-echo",), 1 / 0.9),
    Goal("p99 of small requests under a large one: 3 times idle", r"p99 of 4 KiB, .*", ("idle",), 3.0),
    Goal("CPU: 0.8 of a plain vector sum", r"cpu sum f\d\d \S+ 1024 MiB, all threads", ("plain",), 1 / 0.8),
    Goal("CPU, in the cache: 0.8 of a plain vector sum", r"cpu sum f\d\d normal (64 KiB|1 MiB), 1 thread", ("plain",), 1 / 0.8),
    Goal("CPU, in the cache: 0.3 of it at full range", r"cpu sum f\d\d full-range (64 KiB|1 MiB), 1 thread", ("plain",), 1 / 0.3),
    Goal("CPU: var and stats in 1.3 times a sum's time", r"cpu (var|stats) f32 \S+ 1024 MiB, all threads", ("sum",), 1.3),
    Goal("CPU, in the cache: extremes of f32 as fast as of i32", r"cpu (max|min) f32 .*", ("i32",), 1 / 0.95),
)


def ceiling(measurements):
    """The best copy of the run, in bytes read and written a second."""
    return max((m.rate for m in measurements if m.group == "ceiling" and m.who == "copy"), default=None)


def verdicts(measurements):
    """(goal, case, our cost over the peer's, whose, met)"""
    copy = ceiling(measurements)
    for goal in GOALS:
        for case, ways in by_case(measurements).items():
            ours = find(ways, OURS)
            if not ours or not re.fullmatch(goal.cases, case):
                continue
            costs = {m.who: ours.cost / m.cost for m in ways if m.who in goal.peers}
            if "copy-ceiling" in goal.peers and copy:
                costs["copy-ceiling"] = copy / ours.rate
            if costs:
                who = max(costs, key=costs.get)
                yield goal, case, costs[who], who, costs[who] <= goal.most


def show(measurements):
    last = None
    for goal, case, ratio, who, met in verdicts(measurements):
        if goal is not last:
            print(f"{goal.what} (cost at most {goal.most:.3f})")
            last = goal
        print(f"  {'met   ' if met else 'MISSED'} {case:<28} {ratio:.3f} of {who}")
