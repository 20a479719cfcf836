"""Some turns of the fuzzer of Python's containers (tests/fuzz/containers.py), which runs for longer by itself."""
import sys

import pytest

from conftest import ROOT
from pythonpackage import both_ways as package  # noqa: F401

sys.path.insert(0, str(ROOT / "tests/fuzz"))
import containers  # noqa: E402

TURNS = 400


@pytest.mark.values
@pytest.mark.parametrize("seed", [10**6, 2 * 10**6])
def test_the_same_elements_in_every_container(package, seed, monkeypatch):  # noqa: F811
    monkeypatch.setattr(containers._arrow, "GATHERED", containers._arrow.GATHERED)  # the turns set it
    counts, wrong = containers.run(TURNS, seed)
    assert not wrong, "\n".join(wrong[:5])
    assert sum(counts.values()) == TURNS and len({name for name, _ in counts}) >= 12
