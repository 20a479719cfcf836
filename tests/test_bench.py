"""tests/bench: what a run says about goals, and what a comparison of two runs calls worse."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIN

BENCH = Path(__file__).resolve().parent / "bench"
sys.path.insert(0, str(BENCH))
import common  # noqa: E402
import figures  # noqa: E402
import goals  # noqa: E402
import share  # noqa: E402
from figures import Measurement, summary  # noqa: E402

pytestmark = pytest.mark.unsanitized


def timed(case, who, us, size=1 << 30, group="sum"):
    return Measurement(group, case, who, "us", us, us * 0.99, us * 1.01, 21, size)


def met(*measurements):
    return {(goal.what.split(":")[0], case): ok for goal, case, _, _, ok in goals.verdicts(list(measurements))}


def test_summary_is_median_and_nine_tenths():
    m = summary("g", "c", "w", "us", [5, 1, 2, 3, 4, 100, 6, 7, 8, 9, 10])
    assert (m.median, m.low, m.high, m.runs) == (6, 2, 10, 11)


def test_rate_counts_bytes():
    assert timed("c", "w", 500.0).rate == pytest.approx((1 << 30) / 500e-6)
    assert Measurement("g", "c", "w", "GB/s", 12.5, 12, 13, 7).rate == 12.5e9
    assert Measurement("g", "c", "w", "1/s", 12.5, 12, 13, 7).rate is None


@pytest.mark.parametrize("us, ok", ((356 / 0.975, True), (356 / 0.965, False)))
def test_goal_is_a_ratio_of_one_run(us, ok):
    assert met(timed("sum f32 2^28", "reduced", us), timed("sum f32 2^28", "cub", 356))["sums of 2^24 to 2^30", "sum f32 2^28"] is ok


def test_goal_takes_the_best_peer():
    case = "sum f32 1000000 x 32"
    assert met(timed(case, "reduced", 125), timed(case, "cub-segmented", 200), timed(case, "torch", 100)) == {("rows", case): True}
    assert met(timed(case, "reduced", 135), timed(case, "cub-segmented", 200), timed(case, "torch", 100)) == {("rows", case): False}


def test_goal_against_the_copy_of_the_run():
    copy = timed("ceiling 4096 MiB", "copy", 1000, 3 << 30, "ceiling")
    case, size = "wide sum i8 2^28", 256 << 20
    us = 1000 * size / (3 << 30)  # as fast as the copy
    for factor, ok in ((1.1, True), (1.13, False)):
        assert met(copy, timed(case, "reduced", us * factor, size))["narrow elements", case] is ok


def test_no_verdict_without_a_peer():
    assert met(timed("sum f32 2^28", "reduced", 356)) == {}


def compare(folder, before, after):
    run = {"machine": "m", "gpu": "g", "date": "d", "commit": "c"}
    for name, measurements in (("a", before), ("b", after)):
        figures.save(folder / name, run, measurements, [])
    return subprocess.run([sys.executable, BENCH / "compare", folder / "a", folder / "b"], capture_output=True, text=True)


@pytest.mark.parametrize("unit, before, after, worse", (
    ("us", (100, 98, 102), (110, 107, 113), True),    # apart
    ("us", (100, 98, 109), (110, 107, 113), False),   # the spreads overlap
    ("us", (100, 99.9, 100.1), (101, 100.9, 101.1), False),  # apart, but by no more than noise
    ("us", (110, 107, 113), (100, 98, 102), False),   # better
    ("1/s", (110, 107, 113), (100, 98, 102), True),   # rates go the other way
    ("1/s", (100, 98, 102), (110, 107, 113), False)))
def test_compare_flags_what_is_beyond_the_spread(tmp_path, unit, before, after, worse):
    out = compare(tmp_path, *([Measurement("g", "c", "reduced", unit, *m, 21)] for m in (before, after)))
    assert out.returncode == worse and ("WORSE" in out.stdout) is worse, out.stdout


def test_compare_does_not_blame_us_for_a_peer(tmp_path):
    out = compare(tmp_path, [timed("c", "cub", 100)], [timed("c", "cub", 200)])
    assert out.returncode == 0 and "2.000" in out.stdout


def test_lines_of_the_c_programs_are_measurements(tmp_path):
    fields = {"group": "cpu", "case": "c", "who": "plain", "unit": "GB/s", "median": 1.5, "low": 1.0, "high": 2.0, "runs": 7}
    (tmp_path / "x").write_text(json.dumps(fields) + "\n")
    assert figures.read_lines(tmp_path / "x") == [Measurement(**fields)]


TORCH = """
import numpy
class Tensor(numpy.ndarray):
    cuda = lambda self: self
from_numpy = lambda a: a.view(Tensor)
"""


@pytest.mark.parametrize(("size", "n", "want"), [
    (16, 1, [[15]]), (1 << 20, 4, [[3], [7], [11], [15]]), (16, 16, [[i] for i in range(16)]), ((1 << 20) + 1, 4, [list(range(16))])])
def test_share_gives_worker_i_the_same_core_in_every_way(monkeypatch, size, n, want):
    monkeypatch.setattr(share, "CORES", list(range(16)))
    assert share.cores_of(size, n) == want


def test_a_worker_of_share_is_timed_where_it_was_told_to_be(tmp_path):
    """Then it may use every core again."""
    cores = sorted(os.sched_getaffinity(0))
    seen = f"call = lambda: open('{tmp_path}/seen', 'w').write(str(os.sched_getaffinity(0)))"
    worker = share.WORKER.replace("for line in sys.stdin", f"{seen}\nfor line in sys.stdin")
    p = subprocess.run([sys.executable, "-c", worker + "\nprint(sorted(os.sched_getaffinity(0)))", "numpy", "", ""], input=f"go 0.001 {cores[-1]}\n",
                       capture_output=True, text=True, check=True)
    assert (tmp_path / "seen").read_text() == str({cores[-1]})
    assert p.stdout.splitlines()[-1] == str(cores)


def test_share_asks_every_way(tmp_path, monkeypatch):
    """One process of each, with a PyTorch that is made of NumPy."""
    (tmp_path / "torch.py").write_text(TORCH)
    for module in (common, share):
        monkeypatch.setattr(module, "BUILD", BIN.parent)
    monkeypatch.setattr(share, "WORKER", f"import sys; sys.path[:0] = ['{tmp_path}']" + share.WORKER)
    monkeypatch.setattr(share, "has_torch", lambda: True)
    monkeypatch.setattr(share, "CELLS", [("stats", 16 << 10, "malloc", 1), ("sum", 1 << 20, "tensor", 1), ("sum", 1 << 20, "file", 1), ("sum", 16, "malloc", 4)])
    monkeypatch.setattr(share, "chosen", ", 1 ")
    monkeypatch.setattr(share, "SHORT", 0.001)
    monkeypatch.setattr(share, "gpu", lambda: None)
    cases = list(share.measure([], pytest.fail))
    assert [{m.who for m in case} for case in cases] == [{"reduced", "process", "cpu", "numpy", "torch"}, {"reduced", "torch"}, {"reduced", "cpu", "numpy"}]
    assert [m.runs for m in cases[0]] == [7, 7, 7, 3, 3] and all(m.median > 0 for case in cases for m in case)
