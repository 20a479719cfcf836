"""Every reduction of the package against exact arithmetic and NumPy: types, axes, orders, masks, dates, complex numbers."""
import decimal
import fractions
import importlib
import itertools
import math
import random
import warnings
import weakref

import numpy as np
import pytest

try:
    import pandas
except ImportError:
    pandas = None

from pythonpackage import both_ways as package  # noqa: F401
from reduced import _functions, _layout
from reduced._prepare import Prepared

SEED = 20261122
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
AXES = [None, 0, 1, 2, -1, (0, 1), (1, 2), (0, 2), (-1, 0), (0, 1, 2), ()]
LAYOUTS = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "transposed": lambda a: np.ascontiguousarray(a.transpose(1, 2, 0)).transpose(2, 0, 1),
    "backwards": lambda a: np.ascontiguousarray(a[::-1, :, ::-1])[::-1, :, ::-1],
    "every other": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
}
ALIKE = ["sum", "prod", "min", "max", "any", "all", "argmin", "argmax", "count_nonzero", "mean", "ptp"]


def whole_numbers(dtype, shape, seed=SEED):
    """Numbers whose sums NumPy's doubles hold."""
    g = np.random.default_rng(seed)
    if dtype == "?":
        return g.integers(0, 2, shape).astype(bool)
    return g.integers(0 if dtype[0] == "u" else -3, 4, shape).astype(dtype)


def numpys(name, a, **kw):
    """NumPy's answer, without its rounding of short floats on the way."""
    wide = a.astype("f8") if a.dtype.kind == "f" and name in ("sum", "prod", "mean") else a
    found = getattr(np, name)(wide.astype("i8") if name == "ptp" and a.dtype.kind in "bui" else wide, **kw)
    return found.astype(a.dtype) if wide is not a and np.ndim(found) else found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ALIKE)
def test_results_shapes_and_types_are_numpys(package, name, dtype):  # noqa: F811
    a = whole_numbers(dtype, (3, 4, 5))
    for axis, (label, lay), keepdims in itertools.product(AXES, LAYOUTS.items(), (False, True)):
        if name.startswith("arg") and isinstance(axis, tuple):
            continue
        laid = lay(a)
        expected = numpys(name, a, axis=axis, keepdims=keepdims)
        got = getattr(package, name)(laid, axis=axis, keepdims=keepdims)
        assert np.array_equal(got, expected), (axis, label, keepdims)
        assert np.shape(got) == np.shape(expected)
        if np.ndim(got) and name != "ptp":
            assert got.dtype == getattr(np, name)(a, axis=axis, keepdims=keepdims).dtype, (axis, label)
        if not np.ndim(got):
            assert type(got) in (int, float, bool)


def awkward(shape, dtype="f8", seed=SEED):
    """Numbers of all sizes that cancel."""
    g = np.random.default_rng(seed)
    top = 250 if dtype == "f8" else 30
    a = g.standard_normal(shape) * 10.0 ** g.integers(-top, top, shape)
    a[..., 1] = -a[..., 0]
    return a.astype(dtype)


def along(f, a, axis):
    """f of the elements along an axis, as floats."""
    return np.apply_along_axis(lambda line: f([float(x) for x in line]), axis, a)


def exact_variance(line, ddof=0):
    line = [fractions.Fraction(x) for x in line]
    mean = sum(line) / len(line)
    return sum((x - mean) ** 2 for x in line) / (len(line) - ddof)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sums_and_means_are_those_of_fsum_and_fractions(package, axis):  # noqa: F811
    a = awkward((6, 5, 7))
    assert np.array_equal(package.sum(a, axis=axis), along(math.fsum, a, axis))
    exact = along(lambda line: float(sum(map(fractions.Fraction, line)) / len(line)), a, axis)
    assert np.array_equal(package.mean(a, axis=axis), exact)
    assert package.sum(a) == math.fsum(a.ravel())


def exact_root(x):
    """The root of a fraction of ordinary size, rounded once: by integers, with what is cut off as one more bit."""
    bits = 200
    root = math.isqrt((x.numerator << 2 * bits) // x.denominator)
    return float(fractions.Fraction(2 * root + (fractions.Fraction(root, 1 << bits) ** 2 != x), 2 << bits))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("ddof", [0, 1])
def test_variances_are_those_of_fractions(package, axis, ddof):  # noqa: F811
    a = awkward((6, 7)) * 1e-120
    exact = along(lambda line: float(exact_variance(line, ddof)), a, axis)
    assert np.array_equal(package.var(a, axis=axis, ddof=ddof), exact)
    assert np.array_equal(package.var(a, axis=axis, correction=ddof), exact)
    offset = 1e9 + np.arange(12.0).reshape(3, 4)  # where float formulas lose all digits
    assert package.std(offset, ddof=ddof) == exact_root(exact_variance(offset.ravel(), ddof))


@pytest.mark.parametrize("ddof", [0.5, 0.1, 2.9, -1, -0.75, 2.0, fractions.Fraction(1, 3)])
def test_variances_with_a_fraction_as_ddof(package, ddof):  # noqa: F811
    a = awkward((6, 7)) * 1e-120
    for axis in (0, 1):
        exact = [exact_variance(line, fractions.Fraction(ddof)) for line in (a.T if axis == 0 else a)]
        assert package.var(a, axis=axis, ddof=ddof).tolist() == [float(v) for v in exact]
        assert package.std(a, axis=axis, correction=ddof).tolist() == [exact_root(v) for v in exact]
    three = float(exact_variance([1.0, 2, 6], fractions.Fraction(ddof)))
    assert package.nanvar([1, 2, np.nan, 6, 4], ddof=ddof, where=[True, True, True, True, False]) == three
    z, ints = a[0] + 1j * a[1], np.arange(9, dtype="u1").reshape(3, 3)
    assert package.var(z, ddof=ddof) == package.var(z.real, ddof=ddof) + package.var(z.imag, ddof=ddof)
    assert package.var(ints.T, axis=0, ddof=ddof).tolist() == [float(exact_variance(map(int, row), fractions.Fraction(ddof))) for row in ints]
    short = np.random.default_rng(SEED).standard_normal((40, 5)).astype("f4")
    got, twice = package.var(short, axis=1, ddof=0.5), package.var(np.tile(short, 2), axis=1, ddof=1)
    assert got.dtype == "f4" and np.array_equal(got, twice)
    for dtype in ("f2", "f4"):  # the borders of the format: subnormals, overflow, ties
        hard = np.array([[1, 2], [3, 0], [5, 0]], dtype) * np.array([np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max / 8]).astype(dtype)[:, None, None]
        for scale in hard:
            for name in ("var", "std"):
                f = getattr(package, name)
                assert np.array_equal(f(scale, axis=1, ddof=0.5), f(np.tile(scale, 2), axis=1, ddof=1)), (dtype, name, scale)
    assert np.isnan(package.var([[1, np.inf], [1, np.nan], [1, 1]], axis=1, ddof=ddof)).tolist() == [True, True, ddof >= 2]
    with pytest.raises(package.NanError):
        package.var([1, np.nan], ddof=ddof, nan="raise")
    assert package.var(a.ravel(), offsets=[0, 5, 42], ddof=ddof).tolist() == [package.var(a.ravel()[:5], ddof=ddof), package.var(a.ravel()[5:], ddof=ddof)]
    tasks = [package.submit("var", row, ddof=ddof) for row in a]
    assert [t.result(60) for t in tasks] == package.many([("var", row, {"ddof": ddof}) for row in a]) == package.var(a, axis=1, ddof=ddof).tolist()


def test_ddofs_that_are_none(package):  # noqa: F811
    for name, ddof in (("var", math.nan), ("std", math.inf), ("var", "1"), ("var", [1]), ("sem", 0.5), ("sem", -1), ("stats", 1.5), ("stats", 2**32)):
        with pytest.raises(ValueError, match="^ddof"):
            getattr(package, name)([1.0, 2.0], ddof=ddof)
    assert package.sem([1.0, 2.0], ddof=np.float64(1)) == 0.5 and package.stats([1.0, 2.0], ddof=1.0).var == 0.5


def test_a_ddof_in_an_array_of_no_dimension(package):  # noqa: F811
    assert package.var(np.arange(4.0), ddof=np.array(1)) == np.var(np.arange(4.0), ddof=1)
    with pytest.raises(ValueError, match="ddof is a number"):
        package.var(np.arange(4.0), ddof=np.array([1, 2]))


def test_the_mean_that_numpy_takes_is_not_needed(package):  # noqa: F811
    a = awkward((4, 5))
    for name in ("var", "std", "nanvar", "nanstd"):
        f = getattr(package, name)
        assert np.array_equal(f(a, axis=0, mean=np.mean(a, axis=0, keepdims=True)), f(a, axis=0)) and f(a, mean=0.0) == f(a)


def test_floats_of_results_are_rounded_once(package):  # noqa: F811
    a = np.array([[1, 2.0**-24, 2.0**-60]], "f4")  # a double in between would lose the last one
    assert package.sum(a, axis=1)[0] == np.float32(1 + 2.0**-23)
    assert package.sum(a) == 1 + 2.0**-24
    assert package.sum(a, dtype="f4") == np.float32(1 + 2.0**-23)
    assert package.sum(np.ones(70000, "f2")) == 70000 and package.sum(np.ones((1, 70000), "f2"), axis=1)[0] == np.inf
    assert package.mean(np.ones((2, 3), "i4"), axis=0).dtype == "f8"


def test_norms(package):  # noqa: F811
    big = 2.0**600  # whose square is infinite
    a = np.array([[3 * big, 4 * big], [-5.0, 12.0]])
    assert np.array_equal(package.norm(a, axis=1), [5 * big, 13])
    assert np.array_equal(package.norm(a, 1, axis=1), [7 * big, 17]) and package.norm(a, np.inf) == 4 * big
    assert package.norm([3, 4]) == 5.0 and package.rms([1, 7]) == 5.0 and package.norm([3 + 4j, 0]) == 5.0
    assert package.norm([3 + 4j, 1], 1) == 6.0 and package.norm(a / big, "fro") == package.norm(a / big)
    assert package.sem([1, 2, 3, 4]) == exact_root(fractions.Fraction(5, 12))
    with pytest.raises(ValueError, match="ord is"):
        package.norm(a, 3)


def test_integers_are_exact_or_an_error_that_has_the_value(package):  # noqa: F811
    big = np.array([2**63 - 1, 1, 5])
    with pytest.raises(package.OverflowError_) as e:
        package.sum(big)
    assert e.value.exact == 2**63 + 5 and isinstance(e.value, OverflowError) and e.value.code == "OVERFLOW"
    with pytest.raises(package.OverflowError_) as e:
        package.sum([[100, 100]], axis=1, dtype="i1")
    assert e.value.exact == 200
    assert package.sum(np.array([2**64 - 1], "u8")) == 2**64 - 1
    assert package.prod([2**40, 2**40], wrap=True) == 0 and package.ptp(np.array([-128, 127], "i1")) == 255
    stats = package.stats(big)
    assert stats.sum == 2**63 + 5 and stats.argmax == 0
    assert package.sum(np.ones(3, bool)) == 3 and package.prod([2.5, 4], dtype="f4") == np.float32(10)
    assert package.sum([1, 2], dtype=float) == 3.0 and package.sum([1.5, 1.5], dtype=int) == 2


def test_floats_hold_what_64_bits_do_not(package):  # noqa: F811
    most, least = 2**63 - 1, -2**63
    big = np.array([[most, most, 1], [least, least, least], [1, 2, 3]])
    assert package.norm(big[0], 1) == 2.0**64 and package.norm(np.array([least]), np.inf) == 2.0**63
    assert package.norm(big, 1, axis=1).tolist() == [2.0**64, 3 * 2.0**63, 6.0]
    assert package.norm(big, np.inf, axis=0).tolist() == [2.0**63] * 3
    assert package.norm(big[:, 0], 1, offsets=[0, 1, 3]).tolist() == [2.0**63, 2.0**63]
    for dtype in ("f8", "f4", "c16", "c8"):
        sums = package.sum(big, axis=1, dtype=dtype)
        assert sums.dtype == dtype and sums.tolist() == [2.0**64, -3 * 2.0**63, 6.0]
        assert package.sum(big[0], dtype=dtype) == 2.0**64 and package.sum(big, axis=1, dtype=dtype, keepdims=True).shape == (3, 1)
    unsigned = np.array([2**64 - 1] * 2, "u8")
    assert package.sum(unsigned, dtype=float) == 2.0**65 and package.sum(unsigned[:1], dtype=float) == 2.0**64
    assert package.sum(big[0], dtype=float, initial=most) == 3 * 2.0**63 and package.sum(big[1], dtype="f8", initial=least) == -(2.0**65)
    assert package.sum(big, axis=1, dtype=float, initial=-1, where=[False, True, True]).tolist() == [2.0**63 - 1, -(2.0**64), 4]
    assert package.sum([2**53, 1], dtype=float) == 2.0**53 and package.sum([2**53, 1, 2], dtype=float) == 2.0**53 + 4
    once = [2**62, 2**62, 2**39, 1]  # halfway between two float32, and one more; a double in between would lose it
    assert package.sum(once, dtype="f4") == np.float32(2**63 + 2**40) and package.sum(once[:3], dtype="f4") == 2.0**63
    assert package.sum([[100_000]], axis=1, dtype="f2")[0] == np.inf and package.sum(unsigned, dtype="f2") == np.inf
    assert package.sum([], dtype=float) == 0.0 and package.sum(np.zeros((2, 0), int), axis=1, dtype=float).tolist() == [0, 0]
    assert package.many([("sum", big[0], {"dtype": float}), ("sum", [1, 2], {"dtype": float})]) == [2.0**64, 3.0]
    assert package.submit("norm", big, 1, axis=1).result().tolist() == [2.0**64, 3 * 2.0**63, 6.0]
    for op, initial, expected in (("norm1", -5, 2.0**64 + 4096), ("norminf", least, 2.0**63), ("norminf", 1, 2.0**63 - 1), ("norm1", 5, 2.0**64 + 4096)):
        with package.stream(op, "i8", initial=initial) as s:
            s.append([most, most, 4095] if op == "norm1" else [most, 4095])
        assert s.value == expected


def test_signed_elements_with_an_unsigned_result(package):  # noqa: F811
    most = 2**63 - 1
    assert package.sum(np.array([most] * 2), dtype="u8") == 2**64 - 2 and package.prod([2**62, 3], dtype="u8") == 3 * 2**62
    assert package.sum([[most, 5], [1, 2]], axis=1, dtype="u8").tolist() == [2**63 + 4, 3]
    assert package.prod([-1], dtype="u8", wrap=True) == 2**64 - 1
    for a, dtype in (([-1], "u8"), ([most] * 3, "u8"), ([300], "u1")):
        with pytest.raises(package.OverflowError_) as e:
            package.sum(a, dtype=dtype)
        assert e.value.exact == sum(a)
    for a, exact in (([2**62, 2], 2**63), ([most, -2], 2 - 2**64), ([2**62, 4], None), ([2**62, -4], None)):
        with pytest.raises(package.OverflowError_, match="more than 64 bits$" if exact is None else f"is {exact}$") as e:
            package.prod(a)
        assert e.value.exact == exact


@pytest.mark.filterwarnings("error")
def test_floats_as_integers(package):  # noqa: F811
    nan = math.nan
    assert package.nansum([1.5, nan], dtype=int) == 1 and package.nanmean([1.5, 2.5, nan], dtype=int) == 1 and package.nanprod([2.5, nan], dtype=int) == 2
    assert package.sum([1.5, nan], dtype=int, where=[True, False]) == 1 and package.sum([nan, 2.5, 3], dtype=int, offsets=[1, 3]).tolist() == [5]
    assert package.nansum([nan, 0], dtype=bool) == np.False_ and package.sum([nan, 0], dtype=bool) == np.True_
    assert package.sum([255.9, -0.5], dtype="u1") == 255 and package.sum([2.0**31 - 0.5], dtype="i4") == 2**31 - 1 and package.sum([-(2.0**63)], dtype="i8") == -(2**63)
    assert package.sum([[1e5]], axis=1, dtype="f2")[0] == np.inf and package.prod([10**6], dtype="f2") == np.inf and package.mean([1.9, 2.9], dtype=int) == 1
    for a, kw in (([1.5, nan], {}), ([1.5, nan], {"nan": "raise"}), ([nan, 2.5], {"offsets": [0, 2]})):
        with pytest.raises(package.NanError):
            package.sum(a, dtype=int, **kw)
    for f, a, dtype, exact in ((package.sum, [1e30], "i8", int(1e30)), (package.sum, [2.0**63], "i8", 2**63), (package.sum, [256.5], "u1", 256),
                               (package.mean, [1000], "i1", 1000), (package.mean, np.array([2**63], "u8"), "i8", 2**63), (package.mean, [-1, 5], "u8", -1),
                               (package.sum, [math.inf], "i8", None), (package.mean, [], "i8", None), (package.var, [300, 0], "i2", None)):
        with pytest.raises(package.OverflowError_) as e:
            f(a, dtype=dtype, **({"ddof": 2} if f is package.var else {}))
        assert e.value.exact == exact, (a, dtype)


def test_an_initial_value_that_the_elements_cannot_be(package):  # noqa: F811
    for a, initial in ((np.array([1, 2], "i1"), 1000), (np.array([1, 2], "u1"), 1000), (np.array([True, True]), 5), (np.array([3, -2], "i2"), -40000)):
        for f, theirs in ((package.sum, np.sum), (package.prod, np.prod)):
            assert f(a, initial=initial) == theirs(a, initial=initial)
            ours, numpys = (g(a[:, None], axis=1, initial=initial, where=[True]) for g in (f, theirs))
            assert ours.tolist() == numpys.tolist() and ours.dtype == numpys.dtype
    with pytest.raises(ValueError, match="initial: elements of type int8"):
        package.max(np.array([1, 2], "i1"), initial=1000)


def test_where_initial_and_out(package):  # noqa: F811
    a = awkward((4, 5))
    where = np.random.default_rng(SEED).integers(0, 2, (4, 5)).astype(bool)
    where[0] = True
    expected = [math.fsum(row[keep]) for row, keep in zip(a, where)]
    assert np.array_equal(package.sum(a, axis=1, where=where), expected)
    assert np.array_equal(package.sum(a.T, axis=0, where=where.T), expected)
    assert np.array_equal(package.max(a, axis=0, where=where[0], initial=-np.inf), a.max(0))
    assert package.sum(a[0], initial=1e300) == math.fsum([*a[0], 1e300])
    assert package.max(np.array([], "i4"), initial=-7) == -7 and package.min([3, 4], initial=2) == 2
    out = np.empty(5)
    assert package.sum(a, axis=0, out=out) is out and np.array_equal(out, along(math.fsum, a, 0))
    expected = along(math.fsum, a, 0)
    assert np.array_equal(package.sum(a, axis=0, out=a[1]), expected) and np.array_equal(a[1], expected)
    assert package.mean(np.ones((2, 3)), axis=0, where=[[True], [False]]).tolist() == [1, 1, 1]


def test_arguments_that_numpy_passes_when_they_are_not_given(package):  # noqa: F811
    """np._NoValue, as from a wrapper with NumPy's own defaults."""
    a, none = whole_numbers("f8", (3, 4)), np._NoValue
    for name in ("sum", "prod", "min", "max"):
        got = getattr(package, name)(a, axis=1, keepdims=none, initial=none, where=none)
        assert np.array_equal(got, getattr(np, name)(a, axis=1)) and got.shape == (3,)


def test_numpys_matrices_keep_their_axes(package):  # noqa: F811
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        m = np.matrix(whole_numbers("f8", (3, 3)))
    for name, axis in itertools.product(("sum", "mean", "max", "argmin", "std", "any"), (None, 0, 1)):
        got, expected = getattr(package, name)(m, axis=axis), getattr(np, name)(m, axis=axis)
        assert np.array_equal(got, expected) and np.shape(got) == np.shape(expected) and (axis is None or type(got) is np.matrix)
    assert np.array_equal(m - package.mean(m, axis=1), m - np.mean(m, axis=1))
    out = np.empty((1, 3))
    assert package.sum(m, axis=0, out=out) is out


def test_extremes_of_nans_alone(package):  # noqa: F811
    """NumPy warns and gives NaN; the daemon refuses them."""
    a = np.array([[np.nan, 2, np.nan], [np.nan, 5, -np.inf], [np.nan, np.nan, np.inf]])
    for name, dtype in itertools.product(("nanmin", "nanmax"), ("f2", "f4", "f8")):
        ours, x = getattr(package, name), a.astype(dtype)
        for axis, keepdims in itertools.product((None, 0, 1), (False, True)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            got = ours(x, axis=axis, keepdims=keepdims)
            assert np.array_equal(got, expected, equal_nan=True) and np.shape(got) == np.shape(expected)
            assert np.ndim(got) == 0 or got.dtype == dtype
        out = np.empty(3, dtype)
        assert ours(x, 0, out) is out and np.isnan(out[0]) and not np.isnan(out[1:]).any()
        assert math.isnan(ours(x[:, 0])) and math.isnan(ours(x, where=[True, False, False])) and type(ours(x[:, 0])) is float
        assert ours(x[:, 0], initial=1) == 1
        for nothing in (x[:0], x[:, :0]):
            with pytest.raises(ValueError):
                ours(nothing)
        with pytest.raises(package.EmptyError):
            ours(x, axis=1, where=[[True], [True], [False]])
    for unit in ("M8[D]", "m8[s]"):
        t = np.array([["NaT", "NaT"], [3, "NaT"]], unit)
        assert np.array_equal(package.nanmax(t, axis=1), np.array(["NaT", 3], unit), equal_nan=True) and np.isnat(package.nanmin(t[0]))
    with pytest.raises(package.EmptyError):  # a place has no NaN
        package.nanargmax(a, axis=1, where=[True, False, False])


def test_extremes_of_bfloat16s_that_are_all_nan(package):  # noqa: F811
    kind = pytest.importorskip("ml_dtypes").bfloat16
    a = np.array([[np.nan, np.nan], [1, np.nan]], kind)
    found = package.nanmin(a, axis=1)
    assert math.isnan(package.nanmax(a[0])) and found.dtype == kind and math.isnan(found[0]) and found[1] == 1


def test_results_in_out_do_not_wrap_and_are_rounded_once(package):  # noqa: F811
    """Where its type is shorter than the result's. NumPy wraps integers there, and rounds floats a second time."""
    a, small = np.array([[200, 100], [-20, 50]]), np.full(2, 7, "i1")
    for f, x, exact in ((package.sum, a, 300), (package.max, a, 200), (package.argmax, np.arange(602).reshape(2, 301), 300)):
        with pytest.raises(package.OverflowError_) as e:
            f(x, axis=1, out=small)
        assert (e.value.exact, e.value.field) == (exact, "out") and small.tolist() == [7, 7]
    assert package.min(a, axis=1, out=np.zeros(2, "i2")).tolist() == [100, -20] and package.sum(a, axis=1, out=np.zeros(2, "f4")).tolist() == [300, 30]
    tie = np.array([[1, 2**-24, 2**-60], [1e300, 0, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for out in (np.zeros(2, "f4"), np.zeros(2, ">f4")):
            assert package.sum(tie, axis=1, out=out) is out and out.tolist() == [1 + 2**-23, np.inf]
        assert package.sum(tie[:1] + 0j, axis=1, out=np.zeros(1, "c8")) == 1 + 2**-23
        assert package.var(np.array([[1, 2**31 + 1]]), axis=1, out=np.zeros(1, "f4")) == 2.0**60
        assert package.nanmax(np.array([[np.nan, 1e300]]), axis=1, out=np.zeros(1, "f4")) == np.inf


def test_sums_of_integers_are_rounded_to_bfloat16_once(package):  # noqa: F811
    """ml_dtypes rounds integers to float32 first, where these become ties. An infinity comes without a warning."""
    kind = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    parts = np.array([[2**40, 2**50, 2**62, -(2**40), 3], [2**32, 2**42, 2**54, -(2**32), 5], [1, -1, 1, -1, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = package.sum(parts, axis=0, dtype=kind)
        assert got.dtype == kind and got.astype(float).tolist() == [2**40 + 2**33, 2**50, 2**62 + 2**55, -(2**40) - 2**33, 8]
        assert package.sum(parts[:, 0], dtype=kind) == 2**40 + 2**33 and package.sum(parts[:, 2].astype("u8"), dtype=kind) == 2**62 + 2**55
        assert package.sum(parts[:, 0], dtype="f2") == np.inf and package.sum(-parts, axis=0, dtype="f2").tolist() == [-np.inf] * 3 + [np.inf, -8]


def test_whole_arrays_of_dates_give_numbers_of_python(package):  # noqa: F811
    d = np.array(["2020-01-01", "NaT", "2019-01-01"], "M8[D]")
    assert [type(f(d)) for f in (package.argmax, package.nanargmin, package.count_nonzero, package.any)] == [int, int, int, bool]
    assert (package.argmax(d), package.nanargmin(d), package.count_nonzero(d)) == (1, 2, 3)


def test_arrays_below_a_mebibyte_need_no_plan(package, monkeypatch):  # noqa: F811
    sizes = [np.arange(n, dtype=float) for n in (1, 8192, 8193, 131072)]
    with monkeypatch.context() as m:
        m.setattr(_functions, "reduce", None)
        assert [[f(a) for f in (package.sum, package.min, package.max)] for a in sizes] == [[a.sum(), a.min(), a.max()] for a in sizes]
    assert package.sum(np.ones(131073)) == 131073


def test_nans(package):  # noqa: F811
    a = np.array([[1, np.nan, 3], [4, 5, 6]])
    assert np.array_equal(package.sum(a, axis=1), [np.nan, 15], equal_nan=True)
    for name in ("sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax"):
        assert np.array_equal(getattr(package, "nan" + name)(a, axis=0), getattr(np, "nan" + name)(a, axis=0)), name
    assert package.argmax(a) == 1 and package.count_nonzero(a) == 6 and package.stats(a, nan="omit").nans == 1
    with pytest.raises(package.NanError):
        package.sum(a, nan="raise")
    z = np.array([1 + 1j, complex(np.nan, 2), complex(3, np.nan)])
    assert np.isnan(package.sum(z)) and package.nansum(z) == 1 + 1j and package.nanmean(z) == 1 + 1j


def test_of_nothing(package):  # noqa: F811
    for axis, shape in ((0, (0, 3)), (1, (2, 0)), (None, (0,)), (1, (2, 0, 4)), (0, (3, 0)), ((0, 1), (0, 2, 3))):
        a = np.empty(shape)
        assert np.array_equal(package.sum(a, axis=axis), np.sum(a, axis=axis))
        assert np.array_equal(package.prod(a, axis=axis), np.prod(a, axis=axis))
        assert np.all(np.isnan(package.mean(a, axis=axis))) and package.all(a) is True and package.any(a) is False
    with pytest.raises(package.EmptyError):
        package.max(np.empty((0, 3)), axis=0)
    with pytest.raises(ValueError):
        package.argmin([])
    assert package.max(np.empty((3, 0)), axis=0).shape == (0,)
    assert math.isnan(package.var([1.0], ddof=1))


def test_extremes_of_bools(package):  # noqa: F811
    """They are decided by one element; of nothing there are none. Bytes that NumPy takes for True may be others than 1."""
    for a in (np.zeros((3, 70), bool), np.ones((3, 70), bool), np.arange(210).reshape(3, 70) == 150, np.arange(210).reshape(3, 70) != 150):
        odd = (a * np.uint8(2)).view(bool)
        for axis in (None, 0, 1, (0, 1)):
            for f, numpys_f in ((package.max, np.max), (package.min, np.min), (package.nanmax, np.max)):
                expected = numpys_f(a, axis=axis)
                for x in (a, odd, a[::-1, ::2].repeat(2, 1)[::-1, :70] if axis == 0 else a):
                    got = f(x, axis=axis)
                    assert np.array_equal(got, numpys_f(x != 0, axis=axis)) and np.asarray(got).dtype == expected.dtype == bool
        for initial in (False, True):
            assert np.array_equal(package.max(a, axis=1, initial=initial), a.max(axis=1, initial=initial))
            assert np.array_equal(package.min(a, axis=1, initial=initial), a.min(axis=1, initial=initial))
        where = np.arange(210).reshape(3, 70) % 3 == 0
        assert np.array_equal(package.max(a, axis=0, where=where, initial=False), a.max(axis=0, where=where, initial=False))
        assert package.minmax(a) == (a.min(), a.max())
        assert package.max(a, offsets=[0, 1, 3], axis=0).shape == (2, 70)
        assert package.state("max", a).finish() == a.max()
    for shape, axis in (((0,), None), ((0, 3), 0)):
        for f in (package.max, package.min):
            with pytest.raises(package.EmptyError):
                f(np.zeros(shape, bool), axis=axis)


@pytest.mark.parametrize("n", [6, 200, 100_003])
def test_bools_of_any_bytes(package, n):  # noqa: F811
    """Views of masks have bytes beside 0 and 1, all of them True."""
    odd = np.resize(np.array([0, 1, 2, 255, 3, 0, 128], np.uint8), n).view(bool)
    a = odd.view("u1") != 0
    alike = [*ALIKE, "var", "std", "sem", "rms", "norm", "minmax", "stats", "nansum", "nanargmax"]
    for name in alike:
        f = getattr(package, name)
        assert f(odd) == f(a), name
    assert package.sum(odd) == int(a.sum()) and package.argmax(odd) == 1 and package.mean(odd) == a.mean()
    assert type(package.max(odd)) is type(package.min(odd)) is bool and type(package.sum(odd)) is int
    for op in ("and", "or", "xor"):
        assert package.bits(odd, op) == package.bits(a, op)
    for op in ("sum", "argmax", "prod", "stats", "any", "var"):
        assert bytes(package.state(op, odd)) == bytes(package.state(op, a))
        with package.stream(op, bool) as s:
            s.append(odd)
            s.append(odd[::-1])
        assert s.value == getattr(package, op)(np.concatenate([a, a[::-1]]))
    two, same = odd[:n // 2 * 2].reshape(2, -1), a[:n // 2 * 2].reshape(2, -1)
    for axis, name in itertools.product((0, 1), alike):
        got, expected = getattr(package, name)(two, axis=axis), getattr(package, name)(same, axis=axis)
        assert np.array_equal(got, expected), (axis, name)
    keep = np.arange(n) % 3 > 0
    assert package.sum(odd, where=keep) == int(a[keep].sum()) and package.argmax(odd, where=keep) == np.flatnonzero(a & keep)[0]
    kept = package.put("bools", odd, replace=True)
    assert kept.dtype == bool and package.sum(kept) == int(a.sum()) and package.argmin(kept) == package.argmin(a)
    kept.drop()


def test_scalars_and_0d(package):  # noqa: F811
    assert package.sum(3.5) == 3.5 and package.sum(np.float32(2)) == 2.0 and package.max(np.array(7)) == 7
    assert package.sum(np.array(7), axis=0) == 7 and package.sum(5, axis=()) == 5 and package.sum(5, keepdims=True) == 5
    assert package.sum(1 + 2j) == 1 + 2j and package.std(np.array(3j)) == 0 and package.nansum(np.complex64(1j)) == 1j
    assert package.argmax(np.array(7)) == 0 and type(package.any(0)) is bool


def test_complex_numbers(package):  # noqa: F811
    z = awkward((3, 4)) * 1e-130 + 1j * awkward((3, 4), seed=3) * 1e-130
    for axis in (None, 0, 1):
        total = package.sum(z, axis=axis)
        assert np.array_equal(np.real(total), package.sum(z.real, axis=axis)) and np.array_equal(np.imag(total), package.sum(z.imag, axis=axis))
        assert np.array_equal(package.mean(z.T, axis=axis if axis is None else 1 - axis), package.mean(z, axis=axis))
    assert package.var(z, axis=1).tolist() == [complex_exactly("var", line) for line in z]
    assert type(package.sum(z)) is complex and package.sum(np.ones((2, 3), "c8"), axis=0).dtype == "c8"
    assert package.count_nonzero([0, 1j]) == 1 and package.all([1j, 0]) is False
    for name in ("min", "argmax", "ptp"):
        with pytest.raises(TypeError, match="complex"):
            getattr(package, name)(z)


def complex_exactly(op, z, ddof=0):
    """var, std, sem or rms of complex numbers as a double: one rounding of both parts together."""
    parts = z.real.tolist(), z.imag.tolist()
    if op == "sem":
        return exact_root(sum(exact_variance(part, fractions.Fraction(ddof)) for part in parts) / len(z))
    if op == "rms":
        return exact_root(sum(fractions.Fraction(x) ** 2 for part in parts for x in part) / len(z))
    found = sum(exact_variance(part, fractions.Fraction(ddof)) for part in parts)
    return float(found) if op == "var" else exact_root(found)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_moments_are_rounded_once(package, dtype):  # noqa: F811
    """Sums and hypots of rounded parts differ for a fifth of such vectors."""
    r = np.random.default_rng(7)
    z = (r.standard_normal((100, 3)) + 1j * r.standard_normal((100, 3))).astype(dtype)
    single = np.dtype(dtype).char == "F"
    for op, kw in (("var", {}), ("var", {"ddof": 1}), ("var", {"ddof": 0.5}), ("std", {}), ("std", {"ddof": 1}), ("rms", {}), ("sem", {"ddof": 1}), ("sem", {"ddof": 0})):
        f = getattr(package, op)
        expected = [complex_exactly(op, line, **kw) for line in z]
        assert [f(line, **kw) for line in z] == expected, (op, kw)
        for a, axis in ((z, 1), (np.asfortranarray(z), 1), (z.T, 0), (z[:, ::-1], -1)):
            rows = f(a, axis=axis, **kw)
            assert rows.dtype == ("f4" if single else "f8")
            # a double of 53 digits that is not halfway between two floats rounds as the exact value does
            assert rows.tolist() == np.array(expected).astype(rows.dtype).tolist(), (op, kw)
        assert f(z[0], where=[True, True, False], **kw) == complex_exactly(op, z[0, :2], **kw)
        assert f(z.ravel(), offsets=[0, 3, 300], **kw).tolist()[0] == np.array(expected).astype(rows.dtype)[0]
        assert f(z, axis=(0, 1), keepdims=True, **kw).shape == (1, 1)


def test_complex_moments_of_what_is_not_finite(package):  # noqa: F811
    assert np.isnan(package.var([1j], ddof=1)) and np.isnan(package.rms(np.empty(0, "c16"))) and np.isnan(package.std(np.empty(0, "c16")))
    assert np.isnan(package.var([1j, complex(np.nan, 0)])) and np.isnan(package.var([1j, complex(0, np.inf)]))
    assert package.rms([1j, complex(0, np.inf)]) == np.inf and np.isnan(package.rms([complex(np.nan, np.inf)]))
    assert package.rms([complex(3 * 2.0**700, 2.0**702)]) == 5 * 2.0**700 and package.std([complex(1e-300, 0), -1e-300j]) > 0
    assert package.nanvar([1 + 1j, complex(np.nan, 9), 3 + 3j]) == 2.0 and package.var([2j, 2j]) == 0.0


def test_parts_of_complex_numbers_are_joined_before_they_are_rounded(package):  # noqa: F811
    rng = np.random.default_rng(SEED)
    a = (rng.standard_normal((200, 9)) * 300 + 1j * rng.standard_normal((200, 9)) * 200).astype("c8")
    for name in ("var", "std", "rms"):
        f = getattr(package, name)
        rows = f(a, axis=1)
        assert rows.dtype == "f4" and rows.tolist() == [float(np.float32(f(row))) for row in a]


def magnitude(z):
    """|z| in 250 digits."""
    with decimal.localcontext(decimal.Context(prec=250)):
        return (decimal.Decimal(float(z.real)) ** 2 + decimal.Decimal(float(z.imag)) ** 2).sqrt()


def norm_exactly(z, order, dtype):
    """The norm of order 1 or inf, from magnitudes in 250 digits. Sums of them that lie halfway between two floats have few digits."""
    with decimal.localcontext(decimal.Context(prec=250)):
        found = fractions.Fraction(sum(map(magnitude, z), decimal.Decimal(0)) if order == 1 else max(map(magnitude, z)))
    if np.dtype(dtype).itemsize == 8:
        return float(found)
    low = np.float32(float(found))  # at most one step away
    near = [np.nextafter(low, np.float32(-np.inf)), low, np.nextafter(low, np.float32(np.inf))]
    return float(min(near, key=lambda x: (abs(fractions.Fraction(float(x)) - found), x.view("u4") & 1)))


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("order", [1, np.inf])
def test_norms_of_complex_numbers_are_rounded_once(package, dtype, order):  # noqa: F811
    r, real = np.random.default_rng(SEED), "f4" if dtype == "c8" else "f8"
    whole = np.array([[3 + 4j, 2.0**24 - 4], [5 + 12j, 2.0**24 - 12], [8 + 15j, 2.0**24 + 2 - 16], [2.0**24, 1j]])  # halfway between floats of 32 bits
    shape = (20, 4)
    for z in (r.standard_normal(shape) + 1j * r.standard_normal(shape), r.integers(-9, 9, shape) + 1j * r.integers(-9, 9, shape), whole,
              r.standard_normal(shape) * 2.0 ** r.integers(-140, 120, shape) + 1j * r.standard_normal(shape) * 2.0 ** r.integers(-140, 120, shape)):
        z = z.astype(dtype)
        expected = [norm_exactly(row, order, real) for row in z]
        for a, axis in ((z, 1), (z.T, 0), (z[:, ::-1], -1)):
            rows = package.norm(a, order, axis=axis)
            assert rows.dtype == real and rows.tolist() == expected
        assert [package.norm(row, order) for row in z] == [norm_exactly(row, order, "f8") for row in z]
        assert package.norm(z.ravel(), order, offsets=[0, z.shape[1], z.shape[1], 2 * z.shape[1]]).tolist() == [expected[0], 0.0, expected[1]]
        assert package.norm(z[0], order, where=np.arange(z.shape[1]) < 1) == norm_exactly(z[0, :1], order, "f8")


def test_a_magnitude_that_seems_to_lie_between_two_floats(package):  # noqa: F811
    """As a double it does, and its other digits say how it is rounded to 32 bits."""
    m = np.arange(2**24 + 1, 2**24 + 2**14, 2)
    y = np.sqrt(2.0 * m - 1).astype("f4")  # so that y^2 is about m^2 - (m - 1)^2
    units = np.round(y.astype("f8") * 2**12).astype("i8")  # whole ones, of which y has some
    beyond = units * units - (2 * m - 1) * 2**24
    found = np.flatnonzero((np.abs(beyond) < 2**19) & (beyond != 0))  # less than a digit of a double
    z = (m[found] - 1 + 1j * y[found]).astype("c8")
    assert len(found) > 20 and len(set(beyond[found] > 0)) == 2
    for order in (1, np.inf):
        assert package.norm(z, order, axis=()).tolist() == [norm_exactly([x], order, "f4") for x in z]


def test_norms_at_the_ends_of_the_range(package):  # noqa: F811
    assert package.norm([3e300 + 4e300j] * 3, 1) == 1.5e301 and package.norm([1e308 + 1e308j] * 2, 1) == np.inf
    assert package.norm([5e-324 + 5e-324j] * 3, 1) == 2e-323 and package.norm([5e-324 + 5e-324j], np.inf) == 5e-324
    for order in (1, np.inf):
        assert package.norm([complex(np.inf, np.nan), 1], order) == np.inf and np.isnan(package.norm([complex(1, np.nan), 1], order))
        assert package.norm([complex(1, np.nan), 2j], order, nan="omit") == 2.0 and package.norm(np.empty(0, "c8"), order) == 0.0


def product_exactly(z):
    a, b = fractions.Fraction(1), fractions.Fraction(0)
    for x in z.tolist():
        c, d = fractions.Fraction(x.real), fractions.Fraction(x.imag)
        a, b = a * c - b * d, a * d + b * c
    return complex(float(a), float(b))


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_products_of_complex_numbers_are_exact(package, dtype):  # noqa: F811
    r = np.random.default_rng(SEED)
    for z in (r.standard_normal((20, 5)) + 1j * r.standard_normal((20, 5)), r.integers(-3, 4, (20, 5)) + 1j * r.integers(-3, 4, (20, 5))):
        z = z.astype(dtype)
        expected = [product_exactly(row) for row in z]
        assert [package.prod(row) for row in z] == expected
        for a, axis in ((z, 1), (z.T, 0), (z[:, ::-1], -1)):
            assert package.prod(a, axis=axis).dtype == dtype and package.prod(a, axis=axis).tolist() == np.array(expected).astype(dtype).tolist()
        assert package.prod(z.ravel(), offsets=[0, 5, 5, 10]).tolist() == np.array([expected[0], 1, expected[1]]).astype(dtype).tolist()
        assert package.prod(z.T, axis=0, offsets=[0, 2, 5]).tolist()[0] == np.array([product_exactly(row[:2]) for row in z]).astype(dtype).tolist()
        assert package.prod(z[0], where=[True, False, True, False, True]) == product_exactly(z[0, ::2]) and package.prod(z, axis=(0, 1), keepdims=True).shape == (1, 1)
    assert package.prod([1e200 + 1e200j, 1e200, 1e-300]) == 1e100 + 1e100j and package.prod(np.empty(0, dtype)) == 1 and package.prod(np.ones((2, 0), dtype), axis=1).tolist() == [1, 1]
    assert package.nanprod([2j, complex(np.nan, 1), 3]) == 6j and np.isnan(package.prod([complex(np.inf, 0), 1j])) and package.prod([1, 2], dtype=complex) == 2
    masked = package.prod(np.ma.array([[2j, 3], [4, 5]], mask=[[False, True], [False, True]]), axis=0)
    assert masked.tolist() == [8j, None] and package.submit("prod", [2j, 3]).result() == 6j and package.many([("prod", [1j, 2])]) == [2j]
    out = np.zeros(2, dtype)
    assert package.prod(np.array([[1j, 2], [3, 4j]]), axis=0, out=out) is out and out.tolist() == [3j, 8j]
    with pytest.raises(package.TooLargeError, match="limit is 1048576") as e:
        package.prod(np.full(2**15, 1 / 3 + 1j / 7))
    assert e.value.limit == 2**20
    with pytest.raises(TypeError, match="initial"):
        package.prod([1j], initial=2)


def test_magnitudes_do_not_depend_on_strides(package):  # noqa: F811
    a = (np.random.default_rng(SEED).standard_normal((300, 2)) @ [1, 1j]).astype("c8")
    for order in (1, np.inf):
        assert package.norm(a, order) == package.norm(a[::-1].copy()[::-1], order) == package.norm(np.repeat(a, 2)[::2], order)
        assert np.array_equal(package.norm(a[::-1], order, axis=()), package.norm(a[::-1].copy(), order, axis=()))


def test_means_of_spans_whose_sum_needs_more_than_64_bits(package):  # noqa: F811
    a = np.array([[2**62, 2**62, 2**62 + 9], [-2**62, -2**62, -7], [1, 2, 4]], "i8")
    want = [int(sum(row) / fractions.Fraction(3)) for row in a.tolist()]  # cut, as in NumPy
    spans = a.view("m8[ns]")
    assert package.mean(spans, axis=1).view("i8").tolist() == want and package.mean(spans.T, axis=0).view("i8").tolist() == want
    assert [package.mean(row).view("i8") for row in spans] == want and package.mean(spans[0], keepdims=True).view("i8").tolist() == want[:1]
    assert package.mean(spans.ravel(), offsets=[0, 3, 3, 9]).view("i8").tolist()[:2] == [want[0], np.iinfo("i8").min]
    assert package.mean(spans[0], where=[True, True, False]).view("i8") == 2**62 and package.mean(np.ma.array(spans[0], mask=[0, 0, 1])).view("i8") == 2**62
    with pytest.raises(OverflowError):
        package.sum(spans[0])
    for row, mean in (([-2**62] * 2, -2**62), ([-2**63 + 1, -1], -2**62), ([-1, -2], -1), ([-3, -4, -4], -3)):  # -2^63 has no opposite
        assert package.mean(np.array(row).view("m8[s]")).view("i8") == mean and package.mean(np.array([row]).view("m8[s]"), axis=1).view("i8").tolist() == [mean]


def test_dates_and_spans(package):  # noqa: F811
    d = np.array([["2020-01-03", "2020-01-01"], ["NaT", "2020-01-09"]], "M8[D]")
    t = np.array([[5, 2], [np.iinfo("i8").min, 8]], "i8").view("m8[s]")
    for a in (d, t):
        for name, axis in itertools.product(("min", "max", "argmin", "argmax"), (None, 0, 1)):
            got, expected = getattr(package, name)(a, axis=axis), getattr(np, name)(a, axis=axis)
            assert np.array_equal(got, expected, equal_nan=not name.startswith("arg")), (name, axis)
            assert np.asarray(got).dtype == np.asarray(expected).dtype
        assert package.nanmax(a) == np.nanmax(a) and package.nanmin(a, axis=1)[1] == a[1, 1]
        assert np.array_equal(package.ptp(a[0]), np.ptp(a[0])) and np.isnat(package.ptp(a))
        assert package.count_nonzero(a) == np.count_nonzero(a)
    assert np.array_equal(package.sum(t, axis=1), np.sum(t, axis=1), equal_nan=True) and package.nansum(t) == np.timedelta64(15, "s")
    assert package.mean(t[0]) == np.mean(t[0]) and package.mean(-t[0]) == np.mean(-t[0]) and np.isnat(package.mean(t))
    first, hours = np.datetime64("2019-12-31"), np.timedelta64(2, "h")
    assert package.min(d[0], initial=first) == first and package.max(d[0], initial=first) == np.max(d[0], initial=first)
    assert np.array_equal(package.max(t[:1], axis=0, initial=hours), np.max(t[:1], axis=0, initial=hours))
    assert package.sum(t[0], initial=hours) == np.timedelta64(7207, "s") and package.max(d[:0], initial=first) == first
    for initial in (np.datetime64("2020-01-01T12"), np.datetime64("NaT", "D")):
        with pytest.raises(ValueError, match="initial"):
            package.min(d[0], initial=initial)
    for initial in (5.5, "x", np.timedelta64(1, "D")):
        with pytest.raises(TypeError, match="initial"):
            package.min(d[0], initial=initial)
    with pytest.raises(TypeError, match="datetime64"):
        package.sum(d)
    with pytest.raises(TypeError, match="timedelta64"):
        package.prod(t)
    with pytest.raises(TypeError, match="a: the histogram of datetime64.D. is not defined"):
        package.histogram(d)


def test_single_integers_beyond_64_bits(package):  # noqa: F811
    """An IndexError with NumPy 1, which compares a single uint64 with integers of Python as floats."""
    a = np.array([2**63, 0], "u8")
    for call in (lambda: package.sum(a, dtype="i8"), lambda: package.sum(a, out=np.zeros((), "i8")), lambda: package.prod(a[:1], dtype="i8"),
                 lambda: package.sum(a, where=[True, False], dtype="i8"), lambda: package.sum(np.ma.array(a, mask=[0, 1]), dtype="i8")):
        with pytest.raises(package.errors.OverflowError_, match="does not fit int64; the exact value is 9223372036854775808"):
            call()
    for initial in (2**64, -2**64, -1):
        with pytest.raises(ValueError, match=f"initial: elements of type uint64 cannot be {initial}"):
            package.max(a, initial=initial)


def test_values_beyond_short_floats_are_infinities_without_a_word(package):  # noqa: F811
    """NumPy warns of some of them; there are no RuntimeWarnings here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert package.prod(np.full((2, 3), 1e30, "c8"), axis=0).real.tolist() == [np.inf] * 3
        assert package.state("sum", [1e6], "f2").finish() == np.inf


def test_spans_beyond_64_bits_are_errors(package):  # noqa: F811
    """They were other spans, or NaT, whose number is the least of 64 bits."""
    wide = np.array([[-2**62 - 2**61, 2**62], [3, 8]])
    for a in (wide.view("m8[s]"), wide.view("M8[s]"), wide.T.copy().T.view("M8[s]")):
        for ptp in (package.ptp, lambda a, **kw: package.submit("ptp", a, **kw).result(), lambda a, **kw: package.many([("ptp", a, kw)])[0]):
            for kw in ({}, {"axis": 1}, {"axis": 1, "keepdims": True}, {"axis": 1, "nan": "omit"}):
                with pytest.raises(package.errors.OverflowError_, match="ptp does not fit timedelta64.s.; the exact value is 11529215046068469760") as e:
                    ptp(a, **kw)
                assert e.value.exact == 2**63 + 2**61
        assert package.ptp(a, axis=0).tolist() == np.array([2**62 + 2**61 + 3, 2**62 - 8]).view("m8[s]").tolist()
    assert package.ptp(np.array([-2**63 + 1, 0]).view("m8[s]")) == np.timedelta64(2**63 - 1, "s")
    for least in (-2**63 + 1, -1):  # by one and by many
        with pytest.raises(package.errors.OverflowError_, match=f"the exact value is {2**63 - 1 - least}"):
            package.ptp(np.array([2**63 - 1, 0, least]).view("M8[s]"))
    late = np.array([[-2**63, 2**62], [3, 8]]).view("M8[s]")  # the range of a NaT is one, however far its number is
    assert np.array_equal(package.ptp(late, axis=1), np.array([-2**63, 5]).view("m8[s]"), equal_nan=True)
    least = np.array([[-2**62, -2**62], [0, 1]]).view("m8[s]")
    for total in (package.sum, package.nansum, lambda a, **kw: package.sum(np.ma.MaskedArray(a, mask=False), **kw)):
        for kw in ({"axis": 1}, {"axis": 1, "where": np.ones((2, 2), bool)}, {"where": np.array([[True, True], [False, False]])}):
            with pytest.raises(package.errors.OverflowError_, match="the exact sum does not fit timedelta64.s.; the exact value is -9223372036854775808"):
                total(least, **kw)
    assert package.sum(least, axis=0).tolist() == least.sum(axis=0).tolist() and np.isnat(package.sum(late.view("m8[s]"), axis=1)).tolist() == [True, False]
    assert np.isnat(package.sum(np.array([-2**62, -2**62, -2**63]).view("m8[s]")))
    with package.stream("sum", "m8[s]") as s, pytest.raises(package.errors.OverflowError_):
        s.append(least[0])
        s.finish()


@pytest.mark.parametrize("kind", ["f4", "f2"])
def test_results_have_the_digits_of_out(package, kind):  # noqa: F811
    """Those of float32 in an array of doubles had the digits of float32, where NumPy's have all."""
    a = np.array([[4096, 1, 0.125], [3, 0.25, -2048]], kind)
    wide = a.astype(float)
    for name in ("sum", "mean", "var", "std", "rms", "sem", "ptp", "prod", "norm", "median", "nansum", "nanvar"):
        f = getattr(package, name)
        for axis in (None, 0, 1):
            for out in (float, ">f8", "longdouble", complex):
                want = np.asarray(f(wide, axis=axis))
                got = f(a, axis=axis, out=np.zeros(want.shape, out))
                assert got.dtype == out and got.tolist() == want.astype(out).tolist(), (name, axis, out)
    q = package.quantile(a, [0.1, 0.3], axis=1, out=np.zeros((2, 2)))
    assert q.tolist() == package.quantile(wide, [0.1, 0.3], axis=1).tolist()
    tie = [2 + 2.0**-10, 2.0**-60]  # a double is between two of float16, and rounds to the other one
    assert package.quantile(tie, [0.5, 0.5], out=np.zeros(2, "f2")).tolist() == [package.median(tie, out=np.zeros((), "f2")).item()] * 2 == [1 + 2.0**-10] * 2
    assert package.dot(a, a[0], out=np.zeros(2)).tolist() == package.dot(wide, wide[0]).tolist()
    z = (a[0] + 1j * a[1]).astype("c8")[None]
    assert package.sum(z, axis=1, out=np.zeros(1, complex)).tolist() == package.sum(z.astype(complex), axis=1).tolist()
    assert package.sum(z, axis=1, out=np.zeros(1, "clongdouble")).tolist() == package.sum(z.astype(complex), axis=1).tolist()


@pytest.mark.parametrize("kind", ["m8", "M8"])
def test_dates_keep_their_number_in_another_unit(package, kind):  # noqa: F811
    """NumPy wraps silently where the finer unit has more than 64 bits. Initial elements of nanoseconds were refused."""
    a = np.array([1, 7]).view(f"{kind}[ns]")
    number = {"m8": np.timedelta64, "M8": np.datetime64}[kind]
    for initial, want in ((number(5, "s"), 5 * 10**9), (number(9, "ns"), 9), (number(-2**33, "s"), 7), (number(2**33, "s"), 2**33 * 10**9)):
        assert package.max(a, initial=initial).view("i8") == want and package.max(a.reshape(1, 2), axis=1, initial=initial).view("i8").tolist() == [want]
    for wrong in (number(2**40, "s"), number("NaT", "ns"), number("NaT")):
        with pytest.raises(ValueError, match="initial: elements of type .*ns.* cannot be"):
            package.max(a, initial=wrong)
    with pytest.raises(ValueError, match="initial: elements of type .*s.* cannot be"):
        package.max(a.view(f"{kind}[s]"), initial=number(1500, "ms"))
    assert package.max([[number(5, "s")], [number(9, "ns")]], axis=0).view("i8").tolist() == [5 * 10**9]
    for far in (number(2**40, "s"), np.array([2**40]).view(f"{kind}[s]")):
        with pytest.raises(TypeError, match=r"a: a list of .*\[s\] and others cannot be .*\[ns\]"):
            package.max([far, [number(9, "ns")]] if far.ndim else [far, number(9, "ns")])
    with package.stream("max", f"{kind}[s]") as s:
        with pytest.raises(ValueError, match="chunk: it has numbers that .*s.* cannot be"):
            s.append([number(2500, "ms")])
        s.append([number(2000, "ms")])
    assert s.value.view("i8") == 2


@pytest.mark.parametrize("kind", ["m8", "M8"])
def test_spans_beyond_a_finer_unit_are_errors(package, kind):  # noqa: F811
    a = np.array([[2**61, 3], [1, 2]]).view(f"{kind}[s]")
    out = np.zeros(2, f"{kind}[ns]")
    with pytest.raises(package.errors.OverflowError_, match=f"max does not fit .*64.ns.; it is {2**61}"):
        package.max(a, axis=1, out=out)
    assert not out.view("i8").any()
    assert package.max(a[1:], axis=0, out=out).tolist() == [10**9, 2 * 10**9] and package.max(a, axis=0, out=np.zeros(2, f">{kind}[s]")).view(">i8").tolist() == [2**61, 3]
    assert np.isnat(package.max(np.array([[-2**63, 1]]).view(f"{kind}[s]"), axis=1, out=out[:1]))


def test_minmax_stats_and_bits_along_axes(package):  # noqa: F811
    a = awkward((3, 4, 5))
    for axis in (None, 0, 1, 2, (0, 1)):
        low, high = package.minmax(a, axis=axis)
        assert np.array_equal(low, a.min(axis)) and np.array_equal(high, a.max(axis))
        s = package.stats(a, axis=axis, ddof=1)
        assert np.array_equal(s.sum, package.sum(a, axis=axis)) and np.array_equal(s.std, package.std(a, axis=axis, ddof=1))
        assert np.array_equal(s.max, high) and np.all(np.asarray(s.count) * np.size(low) == a.size)
    n = whole_numbers("i4", (3, 4))
    assert np.array_equal(package.bits(n, "xor", axis=0), np.bitwise_xor.reduce(n, axis=0))
    assert np.array_equal(package.bits(n, "and", axis=1), np.bitwise_and.reduce(n, axis=1)) and package.bits(n, "or") == np.bitwise_or.reduce(n, axis=None)
    assert package.bits(np.array([True, False]), "or") is True
    assert package.stats([]).argmin == -1


@pytest.mark.values
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "u1", "?"])
def test_rows_in_runs_have_the_bits_of_a_copy(package, dtype):  # noqa: F811
    """Axes with others between them: each operation of random shapes, beside the same elements laid anew."""
    r = np.random.default_rng(7)
    for turn in range(12):
        outer, kept, inner = (int(n) for n in r.integers(1, (40, 30, 90)))
        if turn % 4 == 0:
            outer, kept, inner = int(r.integers(100, 900)), int(r.integers(1, 8)), int(r.integers(1, 12))
        a = (r.standard_normal((outer, kept, inner)) * 9 + 20).astype(dtype)
        b = np.ascontiguousarray(a.swapaxes(0, 1)).reshape(kept, -1)
        keep = r.integers(0, 3, a.shape) > 0 if turn % 3 == 0 else None
        laid = None if keep is None else np.ascontiguousarray(keep.swapaxes(0, 1)).reshape(kept, -1)
        for name in ("sum", "mean", "var", "std", "sem", "rms", "min", "max", "argmin", "argmax", "prod", "stats", "norm", "count_nonzero", "any", "all"):
            f, more = getattr(package, name), {"wrap": True} if name == "prod" and dtype in ("i4", "u1", "?") else {}
            if keep is not None and name in ("min", "max", "argmin", "argmax"):
                continue
            ours, its = f(a, axis=(0, 2), where=keep, **more), f(b, axis=1, where=laid, **more)
            assert np.asarray(ours).tobytes() == np.asarray(its).tobytes(), (name, a.shape, keep is not None)
            four = a.reshape(outer, kept, inner, 1) if inner % 2 else a.reshape(outer, kept, inner // 2, 2)
            assert np.asarray(f(four, axis=(0, 2, 3), keepdims=True, **more)).tobytes() == np.asarray(f(b, axis=1, **more)).tobytes(), (name, four.shape)


def test_no_copy_of_contiguous_arrays():
    """Rows and columns, and with planes any group of neighbouring axes, or two with one between them, in C and Fortran order."""
    for a in (np.empty((3, 4, 5)), np.empty((3, 4, 5), order="F"), np.empty((5, 3, 4)).transpose(1, 2, 0)):
        for axes in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2), ()):
            lies = sorted(range(3), key=lambda i: -a.strides[i])
            groups = "".join("R" if i in axes else "K" for i in lies)
            plain = groups in ("RKK", "RRK", "KRR", "KKR", "RRR", "KKK") or groups in ("KRK", "RKR") and _layout.PLANES
            assert (_layout.arrange(a.shape, a.strides, 8, axes, False) is not None) == plain, (a.strides, axes)


def test_later_masks_and_initial_elements_use_the_plan_of_the_first(package, monkeypatch):  # noqa: F811
    """Other elements, another mask and another initial element of a call that was planned: prepared once, right each time, none of them kept."""
    plans = importlib.import_module(f"{package.__name__}._plan")
    prepared = []
    monkeypatch.setattr(plans, "Prepared", lambda *args: prepared.append(None) or Prepared(*args))
    g = np.random.default_rng(SEED)
    for axis, rows, kw in itertools.product((None, 0, 1), (7, 1), ({}, {"initial": 3}, {"initial": -2.5}, {"keepdims": True})):
        plans._recipes.clear()
        importlib.import_module(f"{package.__name__}._again")._known.clear()
        before, held = len(prepared), []
        for i in range(4):
            a = g.integers(-9, 10, (7, 5)).astype("f8")
            where = (np.asfortranarray if i % 2 else np.ascontiguousarray)(g.random((rows, 5)) < 0.6)
            more = {**kw, **({"initial": kw["initial"] + i} if "initial" in kw else {})}
            got = package.sum(a, axis=axis, where=where, **more)
            assert np.array_equal(got, a.sum(axis=axis, where=where, **more)), (axis, rows, more, i)
            held.append((weakref.ref(a), weakref.ref(where)))
        del a, where
        assert len(prepared) == before + 1, (axis, rows, kw)
        assert not [x for pair in held for x in pair if x() is not None]
    with pytest.raises(ValueError, match="where: its shape"):
        package.sum(np.ones((7, 5)), where=np.ones(3, bool))
    with pytest.raises(TypeError, match="where is an array of bool"):
        package.sum(np.ones((7, 5)), where=np.ones((7, 5)))
    for i in range(2):
        with pytest.raises(ValueError, match="initial"):
            package.max(np.ones(5, "u1"), initial=-1, where=np.ones(5, bool))
        assert package.max(np.ones(5, "u1"), initial=2 + i, where=np.ones(5, bool)) == 2 + i
        assert package.sum(np.ones(5, "u1"), dtype="f8", initial=2 + i, where=np.ones(5, bool)) == 7 + i


def of_kinds(g):
    """Pairs of arrays of one type, shape and strides."""
    for kind in ("f8", "f4", "f2", "i8", "u8", "i1", "?", "c16", "c8", "M8[s]", "m8[s]", ">f8", ">i2", ">c8", ">M8[s]"):
        def one():
            a = g.integers(0, 2 if kind == "?" else 9, (6, 5))
            return a.astype("i8").astype(kind) if "8[s]" in kind else (a + 1j * g.integers(0, 9, (6, 5))).astype(kind) if "c" in kind else a.astype(kind)
        for view in (lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::-2], lambda a: a[:, 1], lambda a: a[2, 3], np.ma.array, np.asmatrix,
                     lambda a: np.ma.array(a, mask=g.random(a.shape) < 0.3), lambda a: np.ma.array(a[:2], mask=a[:2] == a[0])):
            yield kind, view(one()), view(one())
        if pandas and kind[0] not in ">c" and kind != "f2":
            yield kind, pandas.Series(one()[:, 1]), pandas.Index(one()[:, 1])


def same(x, y):
    if isinstance(x, tuple) and isinstance(y, tuple):
        return type(x) is type(y) and all(map(same, x, y))
    bits = [(np.shape(v), np.asarray(v).dtype, np.asarray(v).tobytes(), np.ma.getmaskarray(v).tobytes()) for v in (x, y)]
    return type(x) is type(y) and bits[0] == bits[1]


@pytest.mark.unsanitized  # what it looks for is Python's
def test_a_call_like_an_earlier_one_gives_what_the_first_would(package):  # noqa: F811
    """Every kind of element, view and argument: with what an earlier call left, and with nothing left."""
    plans, again = (importlib.import_module(f"{package.__name__}.{name}") for name in ("_plan", "_again"))

    def outcome(f, a, kw, fresh):
        if fresh:
            plans._recipes.clear()
            again._known.clear()
        kw = {k: v() if callable(v) else v for k, v in kw.items()}
        try:
            found = f(a, **kw)
            assert "out" not in kw or found is kw["out"]
            return found
        except (TypeError, ValueError, package.Error) as e:
            return type(e), str(e)
    g = np.random.default_rng(SEED)
    names = "sum mean var std min max ptp argmax any count_nonzero prod norm minmax stats median nansum nanmax quantile three kth topk".split()
    more = {"quantile": lambda a, **kw: package.quantile(a, 0.3, **kw), "three": lambda a, **kw: package.quantile(a, [0, 0.5, 0.9], **kw),
            "kth": lambda a, **kw: package.kth(a, 1, **kw), "topk": lambda a, axis=-1, **kw: package.topk(a, 1, axis, **kw)}
    hits = 0
    for n, (kind, first, second) in enumerate(of_kinds(g)):
        keep = g.random(np.shape(first)) < 0.7
        outs = {k: (lambda k=k: np.zeros(np.shape(second)[1:], k)) for k in ("f8", "f4", "i8", "i2", "c16")}
        for name in (names[(n * 5 + i) % len(names)] for i in range(8)):
            f = more.get(name) or getattr(package, name)
            arguments = [{}, {"offsets": [0, 1, 3, 3, 4]}, {"axis": 0, "offsets": np.array([1, 2, 2])}, {"axis": -1, "offsets": (0, 2)},
                         {"axis": 0, "offsets": [1, 2], "where": keep}, {"offsets": [2, 1]}, {"axis": 0}, {"axis": -1, "keepdims": True},
                         {"axis": (0,)}, {"where": keep}, {"ddof": 1}, {"initial": 3}, {"initial": 3.0},
                         {"dtype": "f4"}, {"dtype": float}, {"dtype": np.dtype("i8")}, {"nan": "omit"}, *({"axis": 0, "out": out} for out in outs.values())]
            for kw in arguments:
                want = outcome(f, second, kw, True)
                outcome(f, first, kw, True)
                for later in (second, np.ascontiguousarray(second) if np.ndim(second) else second):
                    assert same(outcome(f, later, kw, False), want) or type(later) is not type(second), (kind, name, kw, first.strides)
                hits += len(again._known)
    assert hits > 3000


@pytest.mark.parametrize("elements", ["array", "list"])
def test_a_call_like_an_earlier_one_is_not_planned(package, monkeypatch, elements):  # noqa: F811
    """And it forgets the array, the mask, the initial element and the array of its result."""
    again = importlib.import_module(f"{package.__name__}._again")
    planned, plan = [], again.plan
    monkeypatch.setattr(again, "plan", lambda *args, **kw: planned.append(args[0]) or plan(*args, **kw))
    make = np.ndarray.tolist if elements == "list" else np.array
    calls = [("sum", {"axis": 0}), ("sum", {"dtype": "f4"}), ("sum", {"initial": 2.5}), ("min", {"initial": 1}), ("max", {"axis": 1, "keepdims": True}),
             ("sum", {"where": lambda: np.ones((3, 4), bool)}), ("mean", {"axis": 0, "out": lambda: np.empty(4)}), ("var", {"ddof": 1}), ("stats", {}),
             ("minmax", {"axis": 1}), ("median", {}), ("var", {"axis": 1, "offsets": [0, 4]}), ("quantile", {"q": 0.3}), ("sum", {"axis": 1, "out": lambda: np.empty(3, "f4")}), ("var", {"ddof": 1.5}),
             ("histogram", {"bins": lambda: np.sort(np.random.default_rng().random(4))})]
    for name, kw in calls:
        again._known.clear()
        planned.clear()
        held = []
        for i in range(3):
            a = np.arange(12.0).reshape(3, 4) * (i + 1)
            given = {k: v() if callable(v) else v for k, v in kw.items()}
            found = getattr(package, name)(make(a), **given)
            held += [weakref.ref(x) for x in (a, *given.values()) if isinstance(x, np.ndarray)]
            if name in ("sum", "mean", "min", "max", "median"):
                assert np.array_equal(found, getattr(np, name)(a, **given)), (name, kw)
        del a, given, found
        assert planned == [name] and not [x for x in held if x() is not None], (name, kw)


SHORT = "sum prod mean var std rms min max ptp argmin argmax any all count_nonzero norm".split()


@pytest.mark.parametrize("name", SHORT)
def test_axes_alone_take_the_shorter_way(package, monkeypatch, name):  # noqa: F811
    """After one call like it; where the elements lie and whether they are bools makes no difference. A whole array in order needs no earlier call."""
    again = importlib.import_module(f"{package.__name__}._again")
    again._known.clear()
    f, a = getattr(package, name), np.arange(24.0).reshape(2, 1, 3, 4) - 7
    views = [a, a > 0, a.transpose(2, 0, 3, 1), a[..., 1:], a.astype("i4")]
    calls = [{"axis": 1}, {"axis": -1}, {"axis": None}, {"axis": 2, "keepdims": True}, {"axis": (0, 2)}, {"axis": (1, 3)}, {"axis": ()}]
    calls = [kw for kw in calls if not (name.startswith("arg") and type(kw["axis"]) is tuple)]
    want = [f(x, **kw) for x in views for kw in calls]
    monkeypatch.setattr(again, "_of_array", None)  # the longer one
    monkeypatch.setattr(again.Recipe, "again", None)
    assert all(map(same, want, [f(x, **kw) for x in views for kw in calls]))
    if name != "norm":
        assert same(f(a, 1), f(a, axis=1))
    f(np.ones(5))
    for axis in (1.0, True, (True, 3)):
        with pytest.raises(TypeError, match="axis is an integer"):
            f(a, axis=axis)
    with pytest.raises(TypeError, match="NoneType"):
        f(a, axis=0)


def test_the_shorter_way_gives_what_the_longer_does(package):  # noqa: F811
    """Values, types, strides and errors for operations, types, shapes, places in memory and axes at random."""
    again, plans = (importlib.import_module(f"{package.__name__}.{name}") for name in ("_again", "_plan"))
    g, pick = np.random.default_rng(SEED), random.Random(SEED)

    def outcome(f, *args, **kw):
        try:
            found = f(*args, **kw)
            return found, [s for n, s in zip(np.shape(found), getattr(found, "strides", ())) if n > 1]
        except (TypeError, ValueError, IndexError, package.Error) as e:
            return type(e), str(e)
    for _ in range(600):
        shape = [pick.choice((1, 1, 2, 3, 5)) if pick.random() < 0.97 else 0 for _ in range(pick.randrange(5))]
        a = g.integers(0, 120, shape).astype(pick.choice("? i1 u1 i2 i4 u4 i8 u8 f2 f4 f8 >f8 c16 m8[s]".split())).transpose(pick.sample(range(len(shape)), len(shape)))
        a = a[tuple(slice(None, None, pick.choice((1, 1, 1, 2, -1))) for _ in shape)]
        axis = pick.choice((None, pick.randrange(-a.ndim, a.ndim + (pick.random() < 0.1)) if a.ndim else 0, tuple(pick.sample(range(a.ndim), pick.randrange(a.ndim + 1)))))
        kw = pick.choice(({"axis": axis}, {"axis": axis}, {"axis": axis, "keepdims": pick.random() < 0.5}, {}))
        f = getattr(package, pick.choice(SHORT))
        again._known.clear()
        plans._recipes.clear()
        want = outcome(f.__wrapped__, a, **kw)  # planned
        for _ in range(3):
            got = outcome(f, a, **kw)
            assert same(got[0], want[0]) and got[1] == want[1] if type(want[0]) is not type else got == want, (f, a.dtype, a.shape, a.strides, kw, got, want)


@pytest.mark.parametrize("name", [*(n for n in SHORT if not n.startswith("arg")), "minmax", "median"])
def test_short_runs_are_copied_to_be_ranked(package, name):  # noqa: F811
    """Longer ones are not, and those of other operations."""
    again = importlib.import_module(f"{package.__name__}._again")
    f, g = getattr(package, name), np.random.default_rng(SEED)
    for shape in ((2, 40, 3), (4, 20, 64), (2, 40, 65), (2, 15, 3), (4, 40, 3), (2, 2, 8193)):
        copied = name == "median" and shape[2] < 8193
        a, where = g.integers(-9, 10, shape) / 8, g.random(shape) < 0.8
        where[0, :, 0] = True
        rows, keep = (x.transpose(1, 0, 2).reshape(shape[1], -1) for x in (a, where))
        again._known.clear()
        for _ in range(2):
            assert same(f(a, axis=(0, 2)), f(rows, axis=1)), shape
        assert [k.laid is not None for k in again._known.values() if k.recipe.layout.order != (0, 1)] in ([copied], [copied] * 2), shape
        assert same(f(a, axis=(0, 2), where=where), f(rows, axis=1, where=keep)), shape


def test_masked_arrays_and_tables_like_earlier_ones_are_not_planned(package, monkeypatch):  # noqa: F811
    """But for those in which all elements of a result are masked, where one must be chosen."""
    again = importlib.import_module(f"{package.__name__}._again")
    planned, plan, g = [], again.plan, np.random.default_rng(SEED)
    monkeypatch.setattr(again, "plan", lambda *args, **kw: planned.append(args[0]) or plan(*args, **kw))
    for name, kw in itertools.product(("sum", "mean", "max", "argmin", "count_nonzero"), ({"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": (1, 2)})):
        if name == "argmin" and type(kw["axis"]) is tuple:
            continue
        again._known.clear()
        planned.clear()
        for i in range(4):
            mask = g.random((5, 4, 3)) < 0.3
            mask[0] = mask[:, 0] = False
            a = np.ma.array(g.integers(-9, 9, mask.shape), mask=mask)
            got = getattr(package, name)(a, **kw)
            if name == "count_nonzero":
                assert got.tolist() == np.sum(a.filled(0) != 0, **kw).tolist()
                continue
            want = getattr(np.ma, name)(a, **kw)
            assert type(got) is np.ma.MaskedArray and got.tolist() == want.tolist() and got.dtype == want.dtype, (name, kw)
        assert len(planned) == 1, (name, kw)
    again._known.clear()
    planned.clear()
    for i in range(3):
        a = np.ma.array(g.random((3, 4)), mask=[[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
        assert package.max(a, axis=1).tolist() == a.max(axis=1).tolist()
        a[1] = np.ma.masked
        assert package.sum(a, axis=1)[1] is package.max(a, axis=1)[1] is np.ma.masked
        if pandas:
            frame = pandas.DataFrame(g.integers(0, 9, (6, 2)) * 1.5)
            assert package.sum(frame, axis=0).tolist() == frame.sum().tolist() and package.sum(frame) == frame.to_numpy().sum()
    assert planned == ["max", "sum", "max"] + ["sum"] * 2 * bool(pandas) + ["max"] * 2


def test_tables_of_one_type_are_known_by_their_blocks(package):  # noqa: F811
    """Others are looked at column by column."""
    if not pandas:
        pytest.skip("pandas is not installed")
    plain, mixed = pandas.DataFrame({"dtype": [1.5, 2], "b": [3.0, 4]}), pandas.DataFrame({"a": [2**53 + 1], "b": [0.5]})
    held = pandas.DataFrame({"a": pandas.array([1, None], "Int64")})
    assert package.sum(plain, axis=0).tolist() == [3.5, 7] and package.sum(plain[["b", "dtype"]], axis=0).tolist() == [7, 3.5]
    assert package.sum(pandas.concat([plain, plain * 2], axis=1), axis=0).tolist() == [3.5, 7, 7, 14]
    assert package.sum(held) == 1 and package.sum(plain.iloc[:0]) == 0 and package.sum(plain.T, axis=0).tolist() == [4.5, 6]
    with pytest.raises(TypeError, match="no common type"):
        package.sum(mixed)


def test_dates_that_are_missing_are_seen_by_later_calls(package):  # noqa: F811
    good, bad = np.array([5, 7, 6], "M8[s]"), np.array([5, "NaT", 6], "M8[s]")
    for a, want in ((good, 7), (bad, "NaT"), (good, 7)):
        assert str(package.max(a)) == str(np.datetime64(want, "s")) and str(np.nanmax(a)) == str(package.nanmax(a))
    with pytest.raises(package.NanError):
        package.max(bad, nan="raise")
    assert package.mean(good - good[0]) == np.timedelta64(1, "s") and np.isnat(package.mean(bad - good[0]))


def test_errors_name_the_result_in_the_callers_order(package):  # noqa: F811
    """Whichever way the elements lie: row 4 of a result of 2 x 3 is [1, 1]. In a call that is planned, in one like it, and in a task."""
    views = [np.zeros((2, 3, 4)), np.asfortranarray(np.zeros((2, 3, 4))), np.zeros((2, 3, 4))[::-1], np.zeros((4, 3, 2)).transpose(2, 1, 0)]
    keep = np.ones((2, 3, 4), bool)
    keep[1, 1] = False
    calls = [lambda a: package.max(a, 2, where=keep), lambda a: package.argmin(a, -1, where=keep), lambda a: package.minmax(a, 2, where=keep),
             lambda a: package.submit("min", a, 2, where=keep).result(),
             lambda a: package.sum((a + 2**60 * (1 + ~keep)).astype("i8"), 2)]
    for a in views:
        for f in calls:
            for _ in range(3):
                with pytest.raises((package.EmptyError, package.OverflowError_), match=r"\b(row|column) 4\b") as raised:
                    f(a)
                assert raised.value.index == 4
    with pytest.raises(package.EmptyError, match="row 3:") as raised:
        package.max(np.asfortranarray(np.zeros((2, 3))), 0, offsets=[0, 1, 1, 2])
    assert raised.value.index == 3
