"""Properties over arrays that hypothesis makes: every function, type, axis and order. (hypothesis comes from PyPI: `make test-python`.)"""
import fractions
import math
import os

import numpy as np
import pytest

hypothesis = pytest.importorskip("hypothesis", reason="needs hypothesis, which `make test-python` installs")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.extra import numpy as arrays  # noqa: E402

from pythonpackage import both_ways as package  # noqa: F401, E402
from test_python_numpy import exact_root, exact_variance  # noqa: E402

# Of each of both ways; `make test-python` asks for more of them
SETTINGS = settings(max_examples=int(os.environ.get("REDUCED_EXAMPLES", "20")), deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
pytestmark = pytest.mark.slow
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
FLOATS = st.sampled_from(["f2", "f4", "f8"])
INTEGERS = st.sampled_from(["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])


def laid(draw, a):
    """The array in another order of memory, with other strides."""
    axes = draw(st.permutations(range(a.ndim)))
    a = np.ascontiguousarray(a.transpose(axes)).transpose(np.argsort(axes).astype(int)) if a.ndim else a
    if a.ndim and draw(st.booleans()):
        a = np.repeat(a, 2, axis=-1)[..., ::2]
    return np.flip(np.flip(a).copy()) if draw(st.booleans()) else a


def axes_of(draw, a):
    if not a.ndim or draw(st.booleans()):
        return None
    n = draw(st.integers(0, a.ndim))
    return tuple(draw(st.permutations(range(a.ndim)))[:n])


def lines(a, axis, keep=None):
    """(shape of the result, the elements of each result)"""
    axis = tuple(range(a.ndim)) if axis is None else axis
    kept = tuple(i for i in range(a.ndim) if i not in axis)
    order = kept + tuple(sorted(axis))
    shape = tuple(a.shape[i] for i in kept)
    n = math.prod(shape)
    rows = [list(r) for r in a.transpose(order).reshape(n, -1)] if a.size else [[] for _ in range(n)]
    if keep is not None:
        marks = keep.transpose(order).reshape(n, -1) if a.size else [[]] * n
        rows = [[x for x, k in zip(r, m) if k] for r, m in zip(rows, marks)]
    return shape, rows


def rounded(value):
    """A fraction as the nearest double."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@SETTINGS
@given(st.data())
def test_sums_and_means_of_doubles(package, data):  # noqa: F811
    a = laid(data.draw, data.draw(arrays.arrays("f8", SHAPES, elements=st.floats(allow_nan=False, allow_infinity=False))))
    axis = axes_of(data.draw, a)
    keep = data.draw(st.none() | arrays.arrays(bool, a.shape))
    shape, rows = lines(a, axis, keep)
    exact = [sum(map(fractions.Fraction, r), fractions.Fraction(0)) for r in rows]
    got = np.asarray(package.sum(a, axis=axis, where=keep))
    assert got.shape == shape and [float(x) for x in got.ravel()] == [rounded(e) for e in exact]
    means = np.asarray(package.mean(a, axis=axis, where=keep)).ravel()
    for got, e, row in zip(means, exact, rows):
        assert math.isnan(got) if not row else got == rounded(e / len(row))


@SETTINGS
@given(st.data())
def test_places_and_extremes(package, data):  # noqa: F811
    dtype = data.draw(FLOATS | INTEGERS)
    a = laid(data.draw, data.draw(arrays.arrays(dtype, arrays.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))))
    axis = data.draw(st.none() | st.integers(-a.ndim, a.ndim - 1))
    for name in ("argmin", "argmax"):
        if not (a.dtype.kind == "f" and (a == 0).any()):  # -0 is below +0 for us
            assert np.array_equal(getattr(package, name)(a, axis=axis), getattr(np, name)(a, axis=axis)), name
    axes = axes_of(data.draw, a)
    for name in ("min", "max", "any", "all", "count_nonzero"):
        ours, numpys = getattr(package, name)(a, axis=axes), getattr(np, name)(a, axis=axes)
        assert np.array_equal(ours, numpys, equal_nan=a.dtype.kind == "f"), name
        assert np.shape(ours) == np.shape(numpys)


@SETTINGS
@given(st.data())
def test_integers(package, data):  # noqa: F811
    a = laid(data.draw, data.draw(arrays.arrays(data.draw(INTEGERS), SHAPES)))
    axis = axes_of(data.draw, a)
    shape, rows = lines(a, axis)
    top = 2**64 - 1 if a.dtype.kind == "u" else 2**63 - 1
    for name, f in (("sum", sum), ("prod", math.prod)):
        exact = [f(int(x) for x in r) for r in rows]
        if all(-2**63 <= e <= top for e in exact):
            got = np.asarray(getattr(package, name)(a, axis=axis))
            assert got.shape == shape and [int(x) for x in got.ravel()] == exact
        else:
            with pytest.raises(package.OverflowError_):
                getattr(package, name)(a, axis=axis)


@SETTINGS
@given(st.data())
def test_variances(package, data):  # noqa: F811
    a = laid(data.draw, data.draw(arrays.arrays("f8", SHAPES, elements=st.floats(-1e100, 1e100, allow_subnormal=False))))
    axis, ddof = axes_of(data.draw, a), data.draw(st.integers(0, 2))
    shape, rows = lines(a, axis)
    got = np.asarray(package.var(a, axis=axis, ddof=ddof))
    assert got.shape == shape
    for g, row in zip(got.ravel(), rows):
        if len(row) <= ddof:
            assert math.isnan(g)
        else:
            row = [fractions.Fraction(x) for x in row]
            mean = sum(row) / len(row)
            assert g == rounded(sum((x - mean) ** 2 for x in row) / (len(row) - ddof))


@SETTINGS
@given(st.data())
def test_states_in_any_order(package, data):  # noqa: F811
    a = data.draw(arrays.arrays("f8", st.integers(0, 60), elements=st.floats(allow_nan=False, allow_infinity=False)))
    cuts = sorted(data.draw(st.lists(st.integers(0, a.size), max_size=4)))
    parts = data.draw(st.permutations(np.split(a, cuts)))
    total = package.state("sum", dtype="f8")
    for part in parts:
        total |= package.state("sum", part)
    assert float(total) == package.sum(a)


@SETTINGS
@given(st.data())
def test_ranges_norms_and_roots(package, data):  # noqa: F811
    ordinary = st.floats(-2.0**50, 2.0**50, width=32).map(lambda x: x if abs(x) > 1e-12 else 0.0)  # exact_root has 200 bits
    a = laid(data.draw, data.draw(arrays.arrays("f8", arrays.array_shapes(min_dims=1, max_dims=4, max_side=4), elements=ordinary)))
    axis = axes_of(data.draw, a)
    keep = data.draw(st.none() | arrays.arrays(bool, a.shape))
    shape, rows = lines(a, axis, keep)
    rows = [[fractions.Fraction(float(x)) for x in r] for r in rows]

    def same(got, f, least=0):
        got = np.asarray(got)
        assert got.shape == shape
        for g, row in zip(got.ravel(), rows):
            assert math.isnan(g) if len(row) < least else g == f(row)
    same(package.norm(a, 1, axis=axis, where=keep), lambda r: rounded(sum(map(abs, r))))
    same(package.norm(a, np.inf, axis=axis, where=keep), lambda r: float(max(map(abs, r), default=0)))
    same(package.norm(a, axis=axis, where=keep), lambda r: exact_root(sum(x * x for x in r)))
    same(package.rms(a, axis=axis, where=keep), lambda r: exact_root(sum(x * x for x in r) / len(r)), 1)
    same(package.std(a, axis=axis, where=keep), lambda r: exact_root(exact_variance(r)), 1)
    same(package.sem(a, axis=axis, where=keep), lambda r: exact_root(exact_variance(r, 1) / len(r)), 2)
    if all(rows):
        same(package.ptp(a, axis=axis, where=keep), lambda r: rounded(max(r) - min(r)))
        low, high = package.minmax(a, axis=axis, where=keep)
        same(low, min), same(high, max)


@SETTINGS
@given(st.data())
def test_stats_and_bits(package, data):  # noqa: F811
    a = laid(data.draw, data.draw(arrays.arrays(data.draw(INTEGERS), arrays.array_shapes(max_dims=4, max_side=4))))
    axis = axes_of(data.draw, a)
    shape, rows = lines(a, axis)
    s = package.stats(a, axis=axis)
    for name, f in (("count", len), ("nans", lambda r: 0), ("zeros", lambda r: r.count(0)), ("min", min), ("max", max), ("sum", sum),
                    ("argmin", lambda r: r.index(min(r))), ("argmax", lambda r: r.index(max(r))),
                    ("mean", lambda r: rounded(fractions.Fraction(sum(r), len(r)))), ("var", lambda r: rounded(exact_variance(r))),
                    ("std", lambda r: exact_root(exact_variance(r)))):
        got = np.asarray(getattr(s, name))
        assert got.shape == shape and got.ravel().tolist() == [f([int(x) for x in row]) for row in rows], name
    for op, ufunc in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        assert np.array_equal(package.bits(a, op, axis=axis), ufunc.reduce(a, axis=axis))


@SETTINGS
@given(st.data())
def test_what_skips_nans(package, data):  # noqa: F811
    a = laid(data.draw, data.draw(arrays.arrays(data.draw(FLOATS), SHAPES, elements=st.sampled_from([np.nan, -2, -1, 0.5, 1, 2]))))
    axis = axes_of(data.draw, a)
    wide = a.astype("f8")
    for name in ("nansum", "nanprod"):  # which doubles hold, so that NumPy's are rounded once, too
        got, expected = getattr(package, name)(a, axis=axis), getattr(np, name)(wide, axis=axis)
        with np.errstate(over="ignore"):
            assert np.array_equal(got, expected.astype(a.dtype) if np.ndim(got) else expected), name
    some = np.all(~np.isnan(a).all(axis=axis)) if a.size else False
    for name in ("nanmin", "nanmax") if some else ():
        assert np.array_equal(getattr(package, name)(a, axis=axis), getattr(np, name)(wide, axis=axis)), name
    shape, rows = lines(wide, axis, ~np.isnan(wide))
    for name, f in (("nanmean", lambda r: rounded(sum(map(fractions.Fraction, r)) / len(r))), ("nanvar", lambda r: rounded(exact_variance(r))),
                    ("nanstd", lambda r: exact_root(exact_variance(r)))):
        got = np.asarray(getattr(package, name)(wide, axis=axis))
        assert got.shape == shape
        for g, row in zip(got.ravel(), rows):
            assert math.isnan(g) if not row else g == f(row), name
    for i in range(a.ndim) if a.size else ():
        if (~np.isnan(a)).any(axis=i).all():
            assert np.array_equal(package.nanargmin(a, axis=i), np.nanargmin(a, axis=i)) and np.array_equal(package.nanargmax(a, axis=i), np.nanargmax(a, axis=i))


@SETTINGS
@given(st.data())
def test_segments(package, data):  # noqa: F811
    """Each is the reduction of its elements, by NumPy, or by fractions where NumPy rounds on the way."""
    dtype = data.draw(FLOATS | INTEGERS)
    elements = {"elements": st.floats(-1000, 1000, width=16)} if dtype[0] == "f" else {}
    a = laid(data.draw, data.draw(arrays.arrays(dtype, arrays.array_shapes(max_dims=3, max_side=7), **elements)))
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    n = a.shape[axis]
    offsets = sorted(data.draw(st.lists(st.integers(0, n), min_size=1, max_size=6)))
    keep = data.draw(st.none() | arrays.arrays(bool, a.shape))
    pieces = [(np.take(a, range(i, j), axis), None if keep is None else np.take(keep, range(i, j), axis)) for i, j in zip(offsets, offsets[1:])]

    def same(got, f):
        assert np.shape(got)[axis] == len(pieces)
        for i, (piece, marks) in enumerate(pieces):
            assert np.array_equal(np.take(got, i, axis), f(piece, marks), equal_nan=True)
    for name in ("any", "all", "count_nonzero"):
        numpys = getattr(np, name)
        same(getattr(package, name)(a, axis=axis, offsets=offsets, where=keep),
             lambda x, m: numpys(x if m is None else np.where(m, x, x.dtype.type(name == "all")), axis=axis))
    if all(x.shape[axis] for x, _ in pieces) and not (a.dtype.kind == "f" and (a == 0).any()):
        for name in ("min", "max", "argmin", "argmax"):
            same(getattr(package, name)(a, axis=axis, offsets=offsets), lambda x, m: getattr(np, name)(x, axis=axis))
    sums = np.asarray(package.mean(a, axis=axis, offsets=offsets, where=keep, dtype="f8"))
    for i, (piece, marks) in enumerate(pieces):
        _, rows = lines(piece, (axis % a.ndim,), marks)
        exact = [rounded(sum(fractions.Fraction(x.item()) for x in r) / len(r)) if r else math.nan for r in rows]
        assert np.array_equal(np.take(sums, i, axis).ravel(), exact, equal_nan=True)
