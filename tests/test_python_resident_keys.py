"""Reductions by key of resident data in Python, beside those of memory."""
import numpy as np
import pytest

from conftest import BACKEND
from pythonpackage import package, reduced  # noqa: F401  # a fixture among them
from test_python_keys import OPS, elements


@pytest.fixture
def kept(package):  # noqa: F811
    """put(), for arrays that are dropped in the end."""
    names = []

    def put(a):
        names.append(f"k{len(names)}")
        return reduced.put(names[-1], a)
    yield put
    for name in names:
        reduced.Resident(name).drop()
    assert not reduced.residents()  # nor what a call had put


@pytest.mark.parametrize("dtype", ["f4", "i4", "bool"])
@pytest.mark.parametrize("op", [*OPS, "minmax", "stats"])
def test_resident_groups_are_those_of_memory(kept, op, dtype):
    n = 900
    x, keys = elements(dtype, n, n), np.random.default_rng(n).integers(0, 40, n).astype("u2") // 3 * 3
    if op == "prod" and dtype == "i4":
        x = np.sign(x)
    if op == "sumsq" and dtype == "i4":
        x >>= 8
    wanted = reduced.by_key(keys, x, op)
    a, k = kept(x), kept(keys)
    for found in reduced.by_key(k, a, op), reduced.by_key(keys, a, op):
        assert found[0].tolist() == wanted[0].tolist() and found[0].dtype == keys.dtype
        assert found[1].tobytes() == wanted[1].tobytes() and found[1].dtype == wanted[1].dtype


def test_resident_texts_missing_keys_and_types(kept):
    a = kept(np.array([1, 2, 4, 8], np.int32))
    found, sums = reduced.by_key(["b", "a", None, "b"], a)
    assert found.tolist() == ["a", "b"] and sums.tolist() == [2, 9]
    assert reduced.by_key([1.0, np.nan, 2.0, 1.0], a, "mean", dtype=np.float32)[1].tolist() == [4.5, 4.0]
    assert reduced.by_key([0, 0, 1, 1], a, "var", ddof=1)[1].tolist() == [0.5, 8.0]
    with pytest.raises(NotImplementedError, match="where"):
        reduced.by_key([0, 0, 1, 1], a, where=[True] * 4)
    with pytest.raises(ValueError, match="a: 4 elements for 3 keys"):
        reduced.by_key([0, 0, 1], a)
    with pytest.raises(ValueError, match="keys: it has a number below 0, -3"):
        reduced.by_key(kept(np.array([0, -3, 1, 1])), a)
    with pytest.raises(TypeError, match="keys are integers"):
        reduced.by_key(kept(np.array([0.5, 1, 1, 1])), a)


@pytest.mark.parametrize("groups", [30, 100_000 if BACKEND == "cuda" else 700_000])
def test_many_resident_elements(kept, groups):
    """Keys in memory that do not fit a message, more results than a reply has."""
    draw = np.random.default_rng(groups)
    n = 1_300_000
    x, keys = draw.standard_normal(n).astype("f4"), draw.integers(0, groups, n)
    wanted = reduced.bincount(keys, x, minlength=groups)
    a, k = kept(x), kept(keys)
    assert (reduced.bincount(k, a, groups) == wanted).all() and (reduced.bincount(keys, a, groups) == wanted).all()
    assert (reduced.bincount(k, minlength=groups) == np.bincount(keys, minlength=groups)).all()
    assert (reduced.segment_sum(a, k, 20) == wanted[:20].astype("f4")).all()
    assert (reduced.by_key(keys, a, dtype=float)[1] == wanted[np.unique(keys)]).all()


def test_resident_rows_and_what_is_refused(kept):
    data, ids = np.arange(12.0).reshape(4, 3), np.array([2, 0, -1, 2])
    a = kept(data)
    assert reduced.segment_sum(a, ids).tolist() == reduced.segment_sum(data, ids).tolist()
    assert reduced.segment_sum(a, np.ma.masked_array([2, 0, 1, 2], [False, False, True, False]), 2).tolist() == [[3.0, 4.0, 5.0], [0.0] * 3]
    with pytest.raises(NotImplementedError, match="segment_ids"):
        reduced.segment_sum(a, kept(np.array([2, 0, 1, 2])))
    with pytest.raises(NotImplementedError, match="weights"):
        reduced.bincount(kept(np.array([1, 2])), [0.5, 0.5])
    with pytest.raises(ValueError, match="x: it has a number below 0, -1"):
        reduced.bincount([0, -1], kept(np.array([1.0, 2.0])))
    with pytest.raises(ValueError, match="x: it has a number below 0, -1"):  # beside a missing one
        reduced.bincount(np.ma.masked_array([0, -1, -5], [False, False, True]), kept(np.array([1.0, 2.0, 4.0])))
    some = np.ma.masked_array([0, 9, 1], [False, True, False])
    assert reduced.bincount(some, kept(np.array([1.0, 2.0, 4.0]))).tolist() == [1.0, 4.0]
    with pytest.raises(TypeError, match="does not give elements back"):
        reduced.by_key(kept(np.array([1, 1])), [1, 2])
