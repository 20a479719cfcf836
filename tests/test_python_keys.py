"""Reductions by key in Python: beside fractions, NumPy's bincount, and reduced itself on each group. No daemon runs."""
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from pythonpackage import reduced

OPS = [op for op in ("sum", "mean", "var", "std", "sem", "rms", "sumsq", "norm1", "norm2", "norminf", "min", "max", "range", "prod", "count", "count_nonzero",
                     "count_nan", "any", "all", "argmin", "argmax")]
DTYPES = ["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "bool"]


@pytest.fixture(autouse=True)
def no_daemon(monkeypatch, tmp_path):
    """A call that looked for a daemon would fail."""
    monkeypatch.setenv("REDUCED_URL", f"ipc://{tmp_path}/nobody")


def elements(dtype, n, seed):
    draw = np.random.default_rng(seed)
    if dtype == "bool":
        return draw.random(n) < 0.3
    if np.dtype(dtype).kind == "f":
        spread = {"f2": 8, "f4": 100, "f8": 800}[dtype]
        found = np.ldexp(draw.standard_normal(n), draw.integers(-spread, spread // 4, n)).astype(dtype)
        found[draw.random(n) < 0.05] = 0
        return found
    info = np.iinfo(dtype)
    return draw.integers(info.min, info.max, n, dtype, endpoint=True) >> np.dtype(dtype).type(draw.integers(0, 8 * np.dtype(dtype).itemsize - 1))


def same(a, b):
    """The same bits, a NaN like another."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and ((a == b) & (np.signbit(a) == np.signbit(b)) | ((a != a) & (b != b))).all() if a.dtype.kind == "f" else (a == b).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_each_group_is_a_reduction_of_its_own(op, dtype):
    n = 700
    x, keys = elements(dtype, n, n), np.random.default_rng(n + 1).integers(-5, 6, n)
    if op == "prod" and np.dtype(dtype).kind in "iu":
        x = np.sign(x).astype(dtype) if dtype[0] == "i" else np.minimum(x, 1).astype(dtype)
    if op in ("sum", "sumsq") and dtype[1:] == "8" and dtype[0] in "iu":
        x >>= np.dtype(dtype).type(40)
    found, values = reduced.by_key(keys, x, op)
    assert found.tolist() == sorted(set(keys.tolist()))
    for key, value in zip(found, values):
        state = reduced.state(op, x[keys == key])
        wanted = state.finish()
        if op in ("argmin", "argmax"):
            assert np.flatnonzero(keys == key)[wanted] == value
        else:
            assert same(np.asarray(wanted, values.dtype), value), (key, wanted, value)


@pytest.mark.parametrize("keys", [
    ["b", "a", "b", "c", "a"], np.array([5, -3, 5, 10**15, -3]), np.array([2**64 - 1, 0, 2**64 - 1, 2**63, 0], np.uint64),
    np.array([1.5, -2.0, 1.5, 9.0, -2.0]), np.array(["2026-01-02", "2026-01-01", "2026-01-02", "2027-01-01", "2026-01-01"], "M8[D]"),
    np.array([3, 1, 3, 4, 1], np.int8), np.array([True, False, True, True, False])], ids=lambda k: str(np.asarray(k).dtype))
def test_kinds_of_keys(keys):
    x = np.array([1e16, 1.0, 1.0, 4.0, 2.0])
    found, sums = reduced.by_key(keys, x)
    flat = np.asarray(keys)
    assert found.dtype == flat.dtype and found.tolist() == np.unique(flat).tolist()
    assert sums.tolist() == [math.fsum(x[flat == key]) for key in found]


def test_no_element_has_a_key():
    for keys in [math.nan, math.nan], [None, None], np.array(["NaT", "NaT"], "M8[D]"), np.ma.array([1, 2], mask=True):
        found, sums = reduced.by_key(keys, [1.5, 2.5])
        assert len(found) == len(sums) == 0 and sums.dtype == float


def test_elements_without_a_key_are_left_out():
    found, sums = reduced.by_key(np.array([1.0, np.nan, 2.0, 1.0]), [1, 2, 4, 8])
    assert found.tolist() == [1.0, 2.0] and sums.tolist() == [9, 4]
    found, sums = reduced.by_key(np.array(["2026-01-01", "NaT", "2026-01-01"], "M8[D]"), [1, 2, 4])
    assert found.tolist() == np.array(["2026-01-01"], "M8[D]").tolist() and sums.tolist() == [5]
    found, places = reduced.by_key(np.ma.masked_array([7, 7, 7], [True, False, False]), [9, 1, 5], "argmax")
    assert found.tolist() == [7] and places.tolist() == [2]
    nan, tuples = float("nan"), np.empty(4, object)
    tuples[:] = [("a", nan), ("a", 1), ("b", None), ("a", 1)]
    for keys in tuples, [complex(nan, 1), 2j, complex(0, nan), 2j], np.array([np.float32(nan), 2, Decimal("nan"), 2], object), np.array([np.datetime64("NaT"), 2, nan, 2], object):
        found, sums = reduced.by_key(keys, [1, 2, 4, 8])
        assert len(found) == 1 and sums.tolist() == [10]


def test_missing_values_and_where():
    a = np.ma.masked_array([1.0, 2.0, 4.0, 8.0], [False, True, False, False])
    assert reduced.by_key([0, 0, 1, 1], a)[1].tolist() == [1.0, 12.0]
    assert reduced.by_key([0, 0, 1, 1], a, where=[True, True, False, True])[1].tolist() == [1.0, 8.0]
    assert reduced.by_key([0, 0, 1], [1.0, np.nan, 2.0], nan="omit")[1].tolist() == [1.0, 2.0]
    assert np.isnan(reduced.by_key([0, 0, 1], [1.0, np.nan, 2.0])[1][0])
    with pytest.raises(reduced.NanError):
        reduced.by_key([0, 0, 1], [1.0, np.nan, 2.0], nan="raise")
    with pytest.raises(ValueError, match="the key .*1.* has no element, so no min"):
        reduced.by_key([0, 1], [1.0, 2.0], "min", where=[True, False])


def test_tables():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"city": ["x", "y", "x"], "price": [0.1, 0.2, 0.3], "n": [1, 2, 3]})
    found, means = reduced.by_key(frame.city, frame.price, "mean")
    assert found.tolist() == ["x", "y"] and means.tolist() == [float((Fraction(0.1) + Fraction(0.3)) / 2), 0.2]
    assert reduced.by_key(frame.n, frame.price)[1].tolist() == [0.1, 0.2, 0.3]
    assert reduced.by_key(pandas.Series(["x", None, "x", float("nan")]), [1, 2, 4, 8])[1].tolist() == [5]
    assert reduced.by_key(frame.city.astype("category"), frame.n)[0].tolist() == ["x", "y"]
    assert reduced.by_key(frame.city.astype("string"), frame.n)[1].tolist() == [4, 2]
    missing = pandas.array([1, None, 3], dtype="Int64")
    assert reduced.by_key([0, 0, 0], missing)[1].tolist() == [4]
    assert reduced.by_key(missing, [1, 2, 4])[0].tolist() == [1, 3]


def test_results_of_another_type():
    keys, x = [0, 1, 0], np.array([1, 2, 3], np.int32)
    assert reduced.by_key(keys, x, dtype=np.float32)[1].dtype == np.float32
    assert reduced.by_key(keys, x, "mean")[1].tolist() == [2.0, 2.0]
    with pytest.raises(reduced.OverflowError_):
        reduced.by_key([0, 0], np.array([2**62, 2**62], np.int64) * 1)
    assert reduced.by_key([0, 0], np.array([2**62, 2**62]), dtype=float)[1].tolist() == [2.0**63]
    assert reduced.by_key(keys, x, "var", ddof=1)[1].tolist()[0] == 2.0
    with pytest.raises(reduced.EmptyError, match="^EMPTY: row 1: [^:]*$"):
        with reduced._keys.Accumulators("min", "f8", 3, "propagate") as a:
            a.add(np.array([0, 2]), np.array([1.0, 2.0]), None, 0)
            a.finish(np.dtype(float), 0)
    least, most = reduced.by_key(keys, x, "minmax")[1].T.tolist()
    assert least == [1, 2] and most == [3, 2]
    assert reduced.by_key(keys, x, "stats")[1]["count"].tolist() == [2, 1]


def test_statistics_by_key_have_the_fields_of_stats():
    """A sum beyond 64 bits was its lower half, and a place of nothing 2^64 - 1."""
    keys, x, some = [0, 1, 0, 2], np.array([2**63 - 1, 5, 2**63 - 1, -7]), np.array([True, True, True, False])
    found = reduced.by_key(keys, x, "stats")[1]
    assert found.dtype.names == reduced._functions.Stats._fields
    for i in range(3):
        alone = reduced.state("stats", x[np.equal(keys, i)]).finish() | dict.fromkeys(("argmin", "argmax"), keys.index(i))
        assert found[i].item() == tuple(alone.values())
    assert found["sum"].tolist() == [2**64 - 2, 5, -7]
    last = reduced.by_key(keys, x, "stats", where=some)[1][2]
    assert (last["count"], last["argmin"], last["argmax"], last["sum"]) == (0, -1, -1, 0)
    assert reduced.by_key(keys[1:], x[1:].astype(np.uint8), "stats")[1]["sum"].dtype == np.uint64


def test_keys_without_an_order_are_named():
    with pytest.raises(TypeError, match="^keys: .*not supported between"):
        reduced.by_key([1, "a"] + [object()], [1, 2, 3])


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8"])
def test_bincount(dtype):
    draw = np.random.default_rng(3)
    x, w = draw.integers(0, 100, 5000).astype(dtype), draw.standard_normal(5000) * 10.0 ** draw.integers(-9, 9, 5000)
    counts = reduced.bincount(x)
    assert counts.dtype == np.bincount(x.astype(int)).dtype and counts.tolist() == np.bincount(x.astype(int)).tolist()
    assert reduced.bincount(x, minlength=200).tolist() == np.bincount(x.astype(int), minlength=200).tolist()
    sums = reduced.bincount(x, w)
    assert sums.tolist() == [math.fsum(w[x == i]) for i in range(int(x.max()) + 1)]
    permuted = draw.permutation(5000)
    assert reduced.bincount(x[permuted], w[permuted]).tolist() == sums.tolist()
    assert reduced.bincount(x, [2] * 5000).tolist() == (2.0 * counts).tolist()


def test_bincount_of_nothing_and_what_it_refuses():
    assert reduced.bincount([]).tolist() == [] and reduced.bincount([], minlength=3).tolist() == [0, 0, 0]
    assert reduced.bincount([], weights=[], minlength=2).dtype == float
    for wrong in [1, -1], [0.5]:
        with pytest.raises((ValueError, TypeError), match="x: "):
            reduced.bincount(wrong)
    with pytest.raises(ValueError, match="weights: 2 elements for 3 keys"):
        reduced.bincount([0, 1, 2], [1.0, 2.0])
    with pytest.raises(ValueError, match="minlength"):
        reduced.bincount([0], minlength=-1)
    with pytest.raises(reduced.errors.TooLargeError):
        reduced.bincount(np.array([1, 2**64 - 1], np.uint64))


def test_segment_sum():
    draw = np.random.default_rng(5)
    data, ids = draw.standard_normal((300, 4)).astype("f4"), draw.integers(-2, 9, 300)
    found = reduced.segment_sum(data, ids, 7)
    assert found.dtype == np.float32 and found.shape == (7, 4)
    for i in range(7):
        assert found[i].tolist() == [float(np.float32(math.fsum(data[ids == i, j].astype(float)))) for j in range(4)]
    assert reduced.segment_sum(np.arange(5), [0, 0, 1, 1, 3]).tolist() == [1, 5, 0, 4]
    with pytest.raises(ValueError, match="data: 2 elements for 1 keys"):
        reduced.segment_sum([1.0, 2.0], [0])


@pytest.mark.parametrize("groups", [1, 100, 129, 10_000])
@pytest.mark.parametrize("order", ["drawn", "sorted", "one is huge", "all equal"])
def test_adversarial_keys(groups, order):
    draw = np.random.default_rng(groups)
    n = 30_000
    keys = draw.integers(0, groups, n)
    if order == "sorted":
        keys.sort()
    elif order == "one is huge":
        keys[draw.random(n) < 0.95] = groups - 1
    elif order == "all equal":
        keys[:] = groups // 2
    x = draw.standard_normal(n) * 2.0 ** draw.integers(-60, 60, n)
    sums = reduced.bincount(keys, x, minlength=groups)
    places = np.argsort(keys, kind="stable")
    cut = np.searchsorted(keys[places], np.arange(groups + 1))
    assert sums.tolist() == [math.fsum(x[places[a:b]]) for a, b in zip(cut, cut[1:])]
    of, values = reduced.by_key(keys, x, "var")
    for turn in draw.permutation(n), np.arange(n)[::-1], places:
        assert same(reduced.bincount(keys[turn], x[turn], minlength=groups), sums)
        again = reduced.by_key(keys[turn], x[turn], "var")
        assert same(again[0], of) and same(again[1], values)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_tables(library):
    """A missing key is left out, and a missing value with nan="omit"."""
    column = pytest.importorskip(library, reason=f"no {library}").Series
    tenths = column([0.1, 0.2, 9.0, 0.7, None, 2.0**60, -2.0**60])
    for names in ["b", "a", None, "b", "a", "b", "b"], [2, 1, None, 2, 1, 2, 2]:
        keys, sums = reduced.by_key(column(names), tenths, "sum", nan="omit")
        assert keys.tolist() == sorted({k for k in names if k is not None})
        assert sums.tolist() == [0.2, float(Fraction(0.1) + Fraction(0.7))]
    keys, counts = reduced.by_key(column(["y", "x", "y"], dtype="category") if library == "pandas" else column(["y", "x", "y"]), column([5, 7, 2**53 + 1]), "sum")
    assert keys.tolist() == ["x", "y"] and counts.tolist() == [7, 2**53 + 6]


def test_what_has_no_groups():
    for wrong in np.array([1j]), np.array(["2026-01-01"], "M8[D]"):
        for call, name in ((lambda: reduced.by_key([0], wrong), "a"), (lambda: reduced.bincount([0], wrong), "weights"), (lambda: reduced.histogram([0], [0, 1], weights=wrong), "weights"),
                           (lambda: reduced.segment_sum(wrong, [0]), "data")):
            with pytest.raises(TypeError, match=f"^{name}: elements of .* have no groups"):
                call()
    with pytest.raises(ValueError, match="no reduction is called"):
        reduced.by_key([0], [1], "middle")
    with pytest.raises(ValueError, match="a: 2 elements for 1 keys"):
        reduced.by_key([0], [1, 2])


def test_both_zeros_are_one_key():
    for keys in ([-0.0, 1.5, 0.0], [0.0, 1.5, -0.0]):
        found, sums = reduced.by_key(keys, [1.0, 2.0, 4.0])
        assert not np.signbit(found).any() and found.tolist() == [0.0, 1.5] and sums.tolist() == [5.0, 2.0]


def test_errors_name_the_key():
    with pytest.raises(ValueError, match="nan='omit': the key 2 has no element, so no min"):
        reduced.by_key([1, 2], [1.0, np.nan], "min", nan="omit")
    with pytest.raises(reduced.OverflowError_, match="OVERFLOW: key 'b': the exact prod") as e:
        reduced.by_key(["a", "b", "b"], [1, 2**62, 8], "prod")
    assert e.value.index == 1
    with pytest.raises(reduced.NanError, match="NAN: key 20: "):
        reduced.by_key([10, 20], [1.0, np.nan], nan="raise")
    with pytest.raises(ValueError, match="where: the key 2 has no element, so no min"):
        reduced.by_key([1, 2], [1.0, 3.0], "min", where=[True, False])


def test_numbers_of_segments():
    for wrong in (-1, 2.5):
        with pytest.raises(ValueError, match="num_segments is an integer of 0 or more"):
            reduced.segment_sum([1.0], [0], wrong)
    assert reduced.segment_sum(np.ones((0, 3)), [], 2).tolist() == [[0.0] * 3] * 2


def test_sums_of_many_groups_of_which_few_have_elements():
    """Those without elements are 0.0, and one of -0.0 alone is -0.0."""
    found = reduced.bincount([5, 7, 7, 9, 9], [-0.0, 1.0, -1.0, 2.0, 1e300], minlength=100_000)
    assert found[[5, 7, 9]].tolist() == [0.0, 0.0, 1e300] and np.signbit(found).nonzero()[0].tolist() == [5] and np.count_nonzero(found) == 1
