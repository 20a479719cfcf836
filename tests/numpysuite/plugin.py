"""pytest's plugin of `make test-numpy-suite`: NumPy's own tests get this package's reductions where they ask for NumPy's.

numpy.sum and its kind become switches: called from NumPy's tests they are the package's, called from NumPy itself or from the
package they are NumPy's. (Methods of arrays cannot be replaced, and stay NumPy's.) A Python number becomes NumPy's scalar of it, so
that the tests get to the values: they ask most results for their dtype first. $NUMPY_SUITE_SEEN gets a line for each test
that reached the package: its name, "passed" or "failed", and why."""
import functools
import json
import os
import sys

import numpy
import pytest

import reduced

NAMES = [n for n in reduced.__all__ if n.islower() and callable(getattr(numpy, n, None))]
_reached = set()
_running = None


def _is_numpys_own(name):
    return name.startswith("reduced") or name.startswith("numpy.") and ".tests." not in name and not name.startswith("numpy.testing")


def _switch(theirs, ours):
    @functools.wraps(theirs)
    def either(*args, **kw):
        if _running is None or _is_numpys_own(sys._getframe(1).f_globals.get("__name__", "")):
            return theirs(*args, **kw)
        _reached.add(_running)
        value = ours(*args, **kw)
        return numpy.asarray(value)[()] if type(value) in (bool, int, float, complex) else value
    either.__wrapped__ = ours
    return either


def pytest_configure(config):
    for name in NAMES:
        setattr(numpy, name, _switch(getattr(numpy, name), getattr(reduced, name)))
    numpy.linalg.norm = _switch(numpy.linalg.norm, reduced.norm)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    global _running
    _running = item.nodeid
    yield
    _running = None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if call.when == "call" and (item.nodeid in _reached or report.failed) and not report.skipped:
        why = f"{call.excinfo.type.__name__}: {str(call.excinfo.value)[:300]}" if report.failed and call.excinfo else ""
        case = f"{item.path.parent.parent.name}/{item.path.name}::{item.nodeid.partition('::')[2]}"
        with open(os.environ["NUMPY_SUITE_SEEN"], "a") as f:
            json.dump([case, report.outcome, why], f)
            f.write("\n")
