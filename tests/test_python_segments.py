"""Segments of the Python package: every reduction with `offsets` against the same reduction of each segment, and NumPy's reduceat."""
import itertools
import math

import numpy as np
import pytest

from pythonpackage import both_ways as package  # noqa: F401

SEED = 20261122
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
ALIKE = ["sum", "prod", "mean", "var", "std", "sem", "rms", "min", "max", "ptp", "argmin", "argmax", "any", "all", "count_nonzero",
         "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmin", "nanmax", "nanargmin", "nanargmax"]
OFFSETS = [0, 1, 4, 9, 15, 16, 40]
WITH_EMPTY = [2, 2, 5, 5, 30, 38, 38]
NEEDS_SOME = ("min", "max", "ptp", "argmin", "argmax", "nanmin", "nanmax", "nanargmin", "nanargmax")


def numbers(dtype, shape, seed=SEED):
    g = np.random.default_rng(seed)
    return g.integers(0, 2, shape).astype(bool) if dtype == "?" else g.integers(0 if dtype[0] == "u" else -3, 4, shape).astype(dtype)


def each(f, a, offsets, axis=0, **kw):
    """What the reduction of each segment gives, one by one, along the axis as the segments would be. They are rows of one, so that
    arrays come back, with NumPy's types."""
    rows = [f(np.take(a, range(begin, end), axis), axis=axis, **kw) for begin, end in zip(offsets, offsets[1:])]
    return np.stack(rows, axis)


def alike(got, expected):
    got, expected = np.asarray(got), np.asarray(expected)
    return got.dtype == expected.dtype and np.array_equal(got, expected, equal_nan=got.dtype.kind in "fcmM")


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_reduction_of_every_type(package, dtype):  # noqa: F811
    rows = numbers(dtype, (1, 40))  # with a row, so that single results are arrays
    for name in ALIKE:
        f = getattr(package, name)
        offsets = OFFSETS if name in NEEDS_SOME else WITH_EMPTY
        assert alike(f(rows, axis=1, offsets=offsets), each(f, rows, offsets, 1)), name
        assert alike(f(rows[0], offsets=offsets), f(rows, axis=1, offsets=offsets)[0]), name
    for low, high in zip(package.minmax(rows, axis=1, offsets=OFFSETS), (package.min, package.max)):
        assert alike(low, each(high, rows, OFFSETS, 1))
    for order in (1, 2, np.inf):
        assert alike(package.norm(rows, order, axis=1, offsets=WITH_EMPTY), each(lambda a, **kw: package.norm(a, order, **kw), rows, WITH_EMPTY, 1))
    stats = package.stats(rows, axis=1, offsets=OFFSETS)
    for field in stats._fields:
        assert alike(getattr(stats, field), each(lambda a, **kw: getattr(package.stats(a, **kw), field), rows, OFFSETS, 1)), field
    if dtype[0] != "f":
        for op in ("and", "or", "xor"):
            assert alike(package.bits(rows, op, axis=1, offsets=OFFSETS), each(lambda a, **kw: package.bits(a, op, **kw), rows, OFFSETS, 1))


def test_sums_are_those_of_reduceat_where_these_are_exact(package):  # noqa: F811
    a = numbers("i4", (3, 41, 5))
    for axis, lay in itertools.product((0, 1, 2, -1), (lambda x: x, np.asfortranarray, lambda x: x[:, ::-1], lambda x: x[::2, ::3, ::2])):
        laid = lay(a)
        n = laid.shape[axis]
        starts = sorted({0, n // 3, n - 1})
        for name, ufunc in (("sum", np.add), ("max", np.maximum), ("min", np.minimum), ("prod", np.multiply)):
            got = getattr(package, name)(laid, axis=axis, offsets=[*starts, n])
            assert np.array_equal(got, ufunc.reduceat(laid, starts, axis=axis)), (axis, name)


def test_sums_are_exact(package):  # noqa: F811
    g = np.random.default_rng(SEED)
    a = g.standard_normal(3000) * 10.0 ** g.integers(-300, 300, 3000)
    cuts = np.sort(g.integers(0, 3001, 200))
    assert package.sum(a, offsets=cuts).tolist() == [math.fsum(a[i:j]) for i, j in zip(cuts, cuts[1:])]
    parts = np.array_split(a, 7)  # as other libraries keep lists of lists: the numbers and their lengths
    lengths = np.cumsum([0, *map(len, parts)])
    assert package.sum(np.concatenate(parts), offsets=lengths).tolist() == [math.fsum(p) for p in parts]


def test_where_initial_out_and_dtype(package):  # noqa: F811
    a, keep = numbers("f8", (4, 40)), numbers("?", (4, 40), seed=1)
    got = package.sum(a, axis=1, offsets=WITH_EMPTY, where=keep)
    assert np.array_equal(got, np.stack([np.sum(a[:, i:j], axis=1, where=keep[:, i:j]) for i, j in zip(WITH_EMPTY, WITH_EMPTY[1:])], 1))
    assert np.array_equal(package.sum(a.T, axis=0, offsets=WITH_EMPTY, where=keep.T), got.T)
    assert package.max(a, axis=1, offsets=WITH_EMPTY, initial=-9)[:, 0].tolist() == [-9] * 4
    out = np.empty((4, 6), "f4")
    assert package.sum(a, axis=1, offsets=WITH_EMPTY, where=keep, out=out) is out and np.array_equal(out, got)
    assert package.sum(a[0], offsets=WITH_EMPTY, dtype="i8").dtype == "i8" and package.mean([1, 2, 4], offsets=[0, 1, 3]).tolist() == [1, 3]
    with pytest.raises(package.OverflowError_) as e:
        package.sum(np.full(4, 100, "i1"), offsets=[0, 1, 4], dtype="i1")
    assert e.value.exact == 300


def test_complex_numbers_and_masked_arrays(package):  # noqa: F811
    z = numbers("f8", (3, 40)) + 1j * numbers("f8", (3, 40), seed=2)
    for name in ("sum", "mean", "var", "std", "norm", "rms", "count_nonzero", "nansum"):
        f = getattr(package, name)
        for axis, offsets in ((1, WITH_EMPTY), (0, [0, 1, 3])):
            assert alike(f(z, axis=axis, offsets=offsets), each(f, z, offsets, axis)), name
    masked = np.ma.array(z.real, mask=numbers("?", (3, 40), seed=3))
    masked[:, 9:15] = np.ma.masked
    got = package.sum(masked, axis=1, offsets=OFFSETS)
    assert got.mask[:, 3].all() and np.ma.allequal(got, np.ma.stack([masked[:, i:j].sum(1) for i, j in zip(OFFSETS, OFFSETS[1:])], 1))
    assert package.norm(np.ma.array([[3j, 4], [5, 6]], mask=[[0, 0], [1, 1]]), axis=1).tolist() == [5, None]


def test_dates_and_spans(package):  # noqa: F811
    spans = numbers("i8", (2, 40)).view("m8[s]")
    spans[0, [5, 7, 20]] = np.timedelta64("NaT", "s")
    for name in ("sum", "mean", "min", "max", "ptp", "argmin", "argmax", "nansum", "nanmean", "nanmax", "any"):
        f = getattr(package, name)
        assert alike(f(spans, axis=1, offsets=OFFSETS), each(f, spans, OFFSETS, 1)), name
    assert np.isnat(package.mean(spans, axis=1, offsets=[0, 0, 3])[:, 0]).all()
    assert (package.nansum(spans, axis=1, offsets=[3, 3]) == np.timedelta64(0, "s")).all()
    days = np.array(["2026-11-22", "2026-11-01", "NaT", "2026-01-01"], "M8[D]")
    assert package.max(days, offsets=[0, 2, 4]).tolist() == [days[0].item(), None]
    assert package.minmax(days, offsets=[0, 2]).min[0] == days[1]


def test_of_nothing(package):  # noqa: F811
    assert package.sum([], offsets=[0, 0, 0]).tolist() == [0, 0] and package.sum([1.0], offsets=[0]).shape == (0,)
    assert package.max(np.empty((0, 3)), axis=1, offsets=[0, 1, 3]).shape == (0, 2)
    assert np.isnan(package.mean([1.0], offsets=[0, 0])[0]) and package.stats([5.0], offsets=[1, 1]).argmin[0] == -1
    with pytest.raises(package.EmptyError) as e:
        package.max([1, 2, 3], offsets=[0, 1, 1, 3])
    assert e.value.index == 1


@pytest.mark.parametrize("kind, text, a, kw", [
    (ValueError, "offsets: they must ascend", [1.0, 2], {"offsets": [0, 2, 1]}),
    (ValueError, "offsets: they must ascend .* at most 2", [1.0, 2], {"offsets": [0, 3]}),
    (ValueError, "offsets: they must ascend", [1.0, 2], {"offsets": [-1, 2]}),
    (ValueError, "offsets: one more", [1.0, 2], {"offsets": []}),
    (ValueError, "offsets: one more", [1.0, 2], {"offsets": [[0, 2]]}),
    (TypeError, "offsets are integers", [1.0, 2], {"offsets": [0, 1.0]}),
    (TypeError, "offsets: elements of type object", [1.0, 2], {"offsets": [None, 2]}),
    (ValueError, "offsets: ", [1.0, 2], {"offsets": [[0, 2], [1]]}),
    (ValueError, "axis: segments lie along one axis", np.ones((2, 3)), {"offsets": [0, 2]}),
    (ValueError, "axis: segments lie along one axis", np.ones((2, 3)), {"offsets": [0, 2], "axis": (0, 1)}),
    (ValueError, "axis: segments lie along one axis", 1.0, {"offsets": [0, 1]}),
    (ValueError, "keepdims", [1.0, 2], {"offsets": [0, 2], "keepdims": True}),
    (ValueError, "where: its shape", [1.0, 2], {"offsets": [0, 2], "where": [True] * 3}),
    (ValueError, "out: its shape", [1.0, 2], {"offsets": [0, 2], "out": np.empty(2)}),
])
def test_bad_arguments_are_named(package, kind, text, a, kw):  # noqa: F811
    with pytest.raises(kind, match=text):
        package.sum(a, **kw)


def test_extremes_of_segments_of_nans_alone(package):  # noqa: F811
    a = np.array([1, 2, np.nan, np.nan, 5])
    assert str(package.nanmax(a, offsets=[0, 2, 4, 5])) == "[ 2. nan  5.]"
    assert str(package.nanmin(np.stack([a, a[::-1]]), axis=1, offsets=[2, 4])) == "[[nan]\n [ 2.]]"
    assert str(package.submit("nanmin", a, offsets=[2, 3, 5]).result()) == "[nan  5.]"
    dates = np.array(["NaT", "2020-01-01"], "M8[D]")
    assert package.nanmax(dates, offsets=[0, 1, 2]).astype(str).tolist() == ["NaT", "2020-01-01"]
    with pytest.raises(package.EmptyError):
        package.nanmax(a, offsets=[0, 2, 2, 4])


def test_files_futures_and_many_at_once(package, tmp_path):  # noqa: F811
    a = np.random.default_rng(SEED).standard_normal(300_000)
    np.save(tmp_path / "m.npy", a)
    offsets = np.arange(0, 300_001, 1000)
    sums = package.sum(a, offsets=offsets)
    assert np.array_equal(package.sum(package.file(tmp_path / "m.npy"), offsets=offsets), sums)
    assert np.array_equal(package.submit("sum", a, offsets=offsets).result(), sums)
    first, whole = package.many([("sum", [1, 2, 3], {"offsets": [0, 2]}), ("sum", [1, 2, 3])])
    assert first.tolist() == [3] and whole == 6


def test_resident_arrays_segment_by_segment(package):  # noqa: F811
    a = np.random.default_rng(SEED).standard_normal(1000)
    r = package.put("segments", a)
    try:
        offsets = [0, 10, 10, 400, 1000]
        for name in ("sum", "std", "count_nonzero"):
            assert alike(getattr(package, name)(r, offsets=offsets), getattr(package, name)(a, offsets=offsets))
        assert package.argmax(r, offsets=[3, 500, 900]).tolist() == [np.argmax(a[3:500]), np.argmax(a[500:900])]
        with pytest.raises(package.EmptyError) as e:
            package.max(r, offsets=offsets)
        assert e.value.index == 1
        with pytest.raises(package.DeadlineError):
            package.sum(r, offsets=np.arange(1001), deadline=1e-3)
        with pytest.raises(NotImplementedError, match="segments"):
            package.sum(r.reshape(10, 100), axis=0, offsets=[0, 10])
    finally:
        r.drop()
