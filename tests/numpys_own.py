"""NumPy's own tests with functions of the package in the place of NumPy's. Prints a line of JSON for each test that fails: its name and why.

    python3 numpys_own.py MODULE::CLASS...        MODULE of numpy.lib.tests or numpy.core.tests
"""
import contextlib
import importlib
import json
import operator
import sys
import types

import numpy as np
import pytest

import pythonpackage  # noqa: F401
import reduced

OURS = ("median", "quantile", "percentile", "nanmedian", "nanquantile", "nanpercentile", "histogram")
MOST_MEMORY = ("test_big_arrays",)


class Anything:
    """What modules of tests take from hypothesis, which need not be there: its tests are left out."""

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *args, **kw):
        return Anything()

    __or__ = __call__


class Decorator(Anything):
    """One that changes nothing."""

    def __call__(self, *args, **kw):
        return lambda f: f


def line_places(line, ranks):
    """Stable: what is smaller than the element of a rank comes before it. NaNs are last."""
    nan = line != line
    place = np.where(nan, 2 * len(ranks), 0)
    for k in ranks:
        if k < len(line) - nan.sum():
            value = reduced.kth(line, k, nan="omit")
            place += np.where(nan, 0, (line > value).astype(int) + (line >= value))
    return np.argsort(place, kind="stable")


def argpartition(a, kth, axis=-1, kind="introselect", order=None):
    """numpy.argpartition by our elements of these ranks."""
    a, axis = (np.ravel(a), -1) if axis is None else (np.asarray(a), axis)
    usual = np.argpartition(a, kth, axis, kind, order)
    if not a.size or a.dtype.kind not in "biuf":
        return usual
    n = a.shape[axis]
    return np.apply_along_axis(line_places, axis, a, [operator.index(k) % n for k in np.atleast_1d(kth)])


def partition(a, kth, axis=-1, kind="introselect", order=None):
    a, axis = (np.ravel(a), -1) if axis is None else (np.asarray(a), axis)
    return np.take_along_axis(a, argpartition(a, kth, axis, kind, order), axis)


class NumPy:
    """The module numpy, but for our functions."""

    def __getattr__(self, name):
        return {"partition": partition, "argpartition": argpartition}.get(name) or getattr(reduced if name in OURS else np, name)


class Faults:
    """Prints them."""

    def pytest_collection_modifyitems(self, items):
        items[:] = [i for i in items if i.originalname not in MOST_MEMORY and "given" not in i.name]

    def pytest_runtest_logreport(self, report):
        if report.failed:
            print("\n" + json.dumps([report.nodeid.rpartition("tests/")[2], report.longrepr.reprcrash.message.splitlines()[0]]))


def hypothesis():
    """A module that skips what is given examples."""
    fake = {name: types.ModuleType(name) for name in ("hypothesis", "hypothesis.strategies", "hypothesis.extra", "hypothesis.extra.numpy")}
    for module in fake.values():
        module.__getattr__ = lambda name: Anything()
        module.__path__ = []
    fake["hypothesis"].given = lambda *args, **kw: lambda f: pytest.mark.skip(reason="hypothesis")(lambda self=None: None)
    fake["hypothesis"].example = fake["hypothesis"].settings = Decorator()
    return fake


def module_of(name):
    for place in ("lib", "_core", "core"):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(f"numpy.{place}.tests.{name}")
    raise ModuleNotFoundError(name)


def main():
    for name, module in hypothesis().items():
        sys.modules.setdefault(name, module)
    places = []
    for word in sys.argv[1:]:
        name, _, case = word.partition("::")
        module = module_of(name)
        module.np = NumPy()
        for ours in OURS:
            if hasattr(module, ours):
                setattr(module, ours, getattr(reduced, ours))
        places.append(f"{module.__file__}::{case}")
    return pytest.main(["-q", "--tb=line", "-p", "no:cacheprovider", "-W", "ignore", *places], plugins=[Faults()])


if __name__ == "__main__":
    sys.exit(main() not in (0, 1))
