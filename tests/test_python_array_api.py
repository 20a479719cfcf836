"""The reductions of the array API standard, as PyPI's array-api-strict has them: signatures, results and their types. The standard's
own test suite is not a package of PyPI. (array-api-strict comes from PyPI: `make test-python`.)"""
import inspect
import itertools

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


def test_vector_norms(package):  # noqa: F811
    a = numbers("float64")
    for order, axis in itertools.product((1, 2, np.inf), AXES):
        expected = np.asarray(strict.linalg.vector_norm(strict.asarray(a), axis=axis, ord=order))
        assert np.allclose(package.norm(a, order, axis=axis), expected, rtol=1e-15), (order, axis)


def test_what_differs_on_purpose(package):  # noqa: F811
    with pytest.raises(package.OverflowError_):
        package.sum(np.full(2, 2**62), axis=0)  # the standard leaves it open, and array-api-strict wraps
    assert package.max(np.array([-0.0, 0.0])) == 0 and not np.signbit(package.max(np.array([0.0, -0.0])))  # the standard leaves it open
