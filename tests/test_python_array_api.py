"""The reductions of the array API standard, as PyPI's array-api-strict has them: signatures, results and their types. The standard's
own test suite is not a package of PyPI. (array-api-strict comes from PyPI: `make test-python`.)"""
import inspect
import itertools
import warnings

import numpy as np
import pytest

strict = pytest.importorskip("array_api_strict", reason="needs array-api-strict, which `make test-python` installs")

from pythonpackage import package, reduced  # noqa: F401, E402

# Statistical, searching and utility functions; those that are not reductions are not here: cumulative_sum, cumulative_prod, nonzero,
# searchsorted, where, diff.
NAMES = ["max", "mean", "min", "prod", "std", "sum", "var", "argmax", "argmin", "count_nonzero", "all", "any"]
NUMERIC = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
REAL = ("mean", "std", "var")  # of floats only, in the standard
AXES = [None, 0, 1, 2, -1, (0, 1), (2, 0), (-1, -2), ()]
SHAPE = (3, 4, 5)


def numbers(dtype, seed=20261122):
    low = 0 if dtype[0] == "u" else -2
    return np.random.default_rng(seed).integers(low, 3, SHAPE).astype(dtype)


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name):
    """Each parameter of the standard is one of ours, with its default, and by its name."""
    ours = inspect.signature(getattr(reduced, name)).parameters
    for parameter in inspect.signature(getattr(strict, name)).parameters.values():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            assert next(iter(ours.values())).default is inspect.Parameter.empty
        elif parameter.name == "correction":
            assert ours["correction"].default is None and ours["ddof"].default == parameter.default
        else:
            assert ours[parameter.name].default is parameter.default and ours[parameter.name].kind is not inspect.Parameter.POSITIONAL_ONLY


@pytest.mark.parametrize("dtype", ["bool", *NUMERIC, "complex64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_results(package, name, dtype):  # noqa: F811
    a = numbers(dtype)
    function, x = getattr(strict, name), strict.asarray(a)
    try:
        function(x)
    except TypeError:
        return  # not in the standard
    if name == "prod" and a.dtype.kind == "c":
        with pytest.raises(TypeError):  # the one function of the standard that we refuse
            package.prod(x)
        return
    for axis, keepdims in itertools.product(AXES, (False, True)):
        if name.startswith("arg") and isinstance(axis, tuple):
            continue
        expected = np.asarray(function(x, axis=axis, keepdims=keepdims))
        got = getattr(package, name)(x, axis=axis, keepdims=keepdims)
        assert np.shape(got) == expected.shape
        if isinstance(got, np.ndarray):
            assert got.dtype == expected.dtype, (axis, keepdims)
        else:
            assert not expected.shape and type(got) is type(expected.item())  # a Python number, where the standard has an array
        rounding = {"float32": 1e-6, "float64": 1e-14, "complex64": 1e-6, "complex128": 1e-14}.get(dtype, 0) if name in REAL else 0
        assert np.allclose(got, expected, rtol=rounding, atol=0), (axis, keepdims)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(package, dtype):  # noqa: F811
    """Those that the standard defines: NaNs propagate, infinities are numbers, sums and products of nothing are 0 and 1."""
    rows = np.array([[1, np.nan, 3], [np.inf, 1, -1], [np.inf, -np.inf, 0], [0.0, 0.0, 0.0]], dtype)
    for name in NAMES:
        with np.errstate(all="ignore"):
            expected = np.asarray(getattr(strict, name)(strict.asarray(rows), axis=1))
        got = getattr(package, name)(rows, axis=1)
        assert np.array_equal(got, expected, equal_nan=name not in ("all", "any")), name
    none = np.empty((0, 2), dtype)
    for name in ("sum", "prod", "mean", "all", "any", "count_nonzero"):
        with np.errstate(all="ignore"), pytest.warns() if name == "mean" else np.errstate():
            expected = np.asarray(getattr(strict, name)(strict.asarray(none), axis=0))
        assert np.array_equal(getattr(package, name)(none, axis=0), expected, equal_nan=name == "mean"), name


def test_corrections(package):  # noqa: F811
    a = numbers("float64")
    for name, correction, axis in itertools.product(("var", "std"), (0, 1, 2.0, 0.5, 0.1), AXES[:-1]):
        expected = np.asarray(getattr(strict, name)(strict.asarray(a), axis=axis, correction=correction))
        assert np.allclose(getattr(package, name)(a, axis=axis, correction=correction), expected, rtol=1e-14), (name, correction, axis)


def test_types_of_sums(package):  # noqa: F811
    for dtype, wanted in itertools.product(NUMERIC, NUMERIC):
        if np.can_cast(dtype, wanted):
            a = numbers(dtype)
            expected = np.asarray(strict.sum(strict.asarray(a), axis=0, dtype=getattr(strict, wanted)))
            got = package.sum(a, axis=0, dtype=wanted)
            assert got.dtype == expected.dtype and np.array_equal(got, expected), (dtype, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_other_shapes(package, name):  # noqa: F811
    """What the standard's suite draws: no axes, one, many, and sides of 0 and 1."""
    for shape, dtype in itertools.product([(), (1,), (3,), (1, 1), (2, 1, 3, 2), (0,), (0, 2), (2, 0, 3)], ["bool", "int8", "uint64", "float32", "complex64"]):
        x = strict.asarray(np.random.default_rng(len(shape)).integers(0, 2, shape).astype(dtype))
        function = getattr(strict, name)
        for axis, keepdims in itertools.product([None, *range(-len(shape), len(shape))] + [tuple(range(len(shape)))[1:]], (False, True)):
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing
                    expected = np.asarray(function(x, axis=axis, keepdims=keepdims))
            except (TypeError, ValueError):
                continue  # not in the standard, or an extreme of nothing
            if name == "prod" and dtype == "complex64":
                continue  # refused, as above
            got = getattr(package, name)(x, axis=axis, keepdims=keepdims)
            assert np.shape(got) == expected.shape, (shape, axis, keepdims)
            assert np.ndim(got) == 0 or got.dtype == expected.dtype, (shape, dtype, axis)
            assert np.allclose(got, expected, rtol=1e-6, equal_nan=True), (shape, dtype, axis)


def test_nans_propagate_from_every_place(package):  # noqa: F811
    for dtype, place, name in itertools.product(("float32", "float64"), np.ndindex(2, 3), ("max", "mean", "min", "prod", "std", "sum", "var")):
        a = np.arange(6.0).reshape(2, 3).astype(dtype)
        a[place] = np.nan
        assert np.isnan(getattr(package, name)(a)), (name, place)
        rows = getattr(package, name)(a, axis=1)
        assert np.isnan(rows).tolist() == [place[0] == 0, place[0] == 1], (name, place)
    for name, expected in (("mean", np.nan), ("prod", 1), ("std", np.nan), ("sum", 0), ("var", np.nan)):
        assert np.array_equal(getattr(package, name)(strict.asarray([], dtype=strict.float64)), expected, equal_nan=True)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", NUMERIC)
def test_places_of_equal_ones(package, name, dtype):  # noqa: F811
    """The first of them; the suite draws no NaNs."""
    a = np.random.default_rng(3).integers(0, 2, (4, 5, 3)).astype(dtype)
    for axis, keepdims in itertools.product((None, 0, 1, 2, -3), (False, True)):
        expected = np.asarray(getattr(strict, name)(strict.asarray(a), axis=axis, keepdims=keepdims))
        got = getattr(package, name)(a, axis=axis, keepdims=keepdims)
        assert np.array_equal(got, expected) and np.shape(got) == expected.shape and (np.ndim(got) == 0 or got.dtype == expected.dtype)


def test_types_of_products(package):  # noqa: F811
    for dtype, wanted in itertools.product(NUMERIC, NUMERIC):
        if np.can_cast(dtype, wanted):
            a = numbers(dtype)[:, :, 0] % 3 + 1 if dtype[0] != "u" else numbers(dtype)[:, :, 0] + 1
            expected = np.asarray(strict.prod(strict.asarray(a.astype(dtype)), axis=0, dtype=getattr(strict, wanted)))
            got = package.prod(a.astype(dtype), axis=0, dtype=wanted)
            assert got.dtype == expected.dtype and np.array_equal(got, expected), (dtype, wanted)
    sums = package.sum(np.ones((2, 3), "complex64"), axis=0, dtype=np.complex128)
    assert sums.dtype == "complex128" and sums.tolist() == [2, 2, 2]


def test_vector_norms(package):  # noqa: F811
    a = numbers("float64")
    for order, axis in itertools.product((1, 2, np.inf), AXES):
        expected = np.asarray(strict.linalg.vector_norm(strict.asarray(a), axis=axis, ord=order))
        assert np.allclose(package.norm(a, order, axis=axis), expected, rtol=1e-15), (order, axis)
    for dtype, keepdims in itertools.product(("float32", "complex64", "complex128"), (False, True)):
        expected = np.asarray(strict.linalg.vector_norm(strict.asarray(numbers(dtype)), axis=(0, 2), keepdims=keepdims))
        got = package.norm(numbers(dtype), axis=(0, 2), keepdims=keepdims)
        assert got.dtype == expected.dtype and got.shape == expected.shape and np.allclose(got, expected, rtol=1e-6)


def test_what_differs_on_purpose(package):  # noqa: F811
    for order in (0, -1, 3, -np.inf):
        with pytest.raises(ValueError, match="ord is"):
            package.norm(np.ones(3), order)  # norms of other orders are not among the daemon's operations
    with pytest.raises(package.OverflowError_):
        package.sum(np.full(2, 2**62), axis=0)  # the standard leaves it open, and array-api-strict wraps
    assert package.max(np.array([-0.0, 0.0])) == 0 and not np.signbit(package.max(np.array([0.0, -0.0])))  # the standard leaves it open
