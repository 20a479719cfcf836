"""Some cases of the differential fuzzers of what reducectl reads; tests/differential.py runs more of them."""
import pytest

import differential
from conftest import sanitizer

CASES = {"tables": 120 if sanitizer() else 250, "containers": 12}


@pytest.mark.parametrize("kind", CASES)
def test_reading_agrees_with_the_manual_and_with_itself(ctl, shared, kind):
    counts = differential.run(lambda *args, **kw: ctl(*args, url=shared.url, **kw), kind, 1, lambda n: n == CASES[kind])
    assert sum(counts.values()) == CASES[kind] and counts["equal"] > CASES[kind] // 4, counts
