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

from pythonpackage import package  # noqa: F401, E402

# `make test-python` asks for more of them
SETTINGS = settings(max_examples=int(os.environ.get("REDUCED_EXAMPLES", "40")), deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
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
