"""The examples in the package's docstrings, and in its tutorial, print what they say."""
import doctest
import importlib.util
import inspect
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from conftest import BIN
from pythonpackage import PACKAGE, package, reduced  # noqa: F401

MODULES = sorted(p.stem for p in (PACKAGE / "reduced").glob("*.py") if p.stem not in ("dask", "_abi"))
NAMES = [*reduced.__all__, *reduced._ALSO]


@pytest.fixture
def somewhere(tmp_path, monkeypatch):
    """A folder for the files of examples, and the programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(package, somewhere, name):  # noqa: F811
    module = reduced if name == "__init__" else importlib.import_module(f"reduced.{name}")
    for public in NAMES:  # classes are tested as those of the package
        getattr(reduced, public)
    failed, _ = doctest.testmod(module, extraglobs={"reduced": reduced, "np": np})
    assert not failed


def test_the_tutorial(package, somewhere):  # noqa: F811
    blocks = re.findall(r"^```python\n(.*?)^```", (PACKAGE / "TUTORIAL.md").read_text(), re.M | re.S)
    ran = [b for b in blocks if all(importlib.util.find_spec(name) for name in re.findall(r"# with (\w+)", b))]
    test = doctest.DocTestParser().get_doctest("\n".join(ran), {}, "TUTORIAL.md", "TUTORIAL.md", 0)
    assert doctest.DocTestRunner().run(test).failed == 0 and len(ran) >= 7


PAGES = {  # with one block of Python each, whose first line is an import: what the others give
    "README.md": [1.0, [0.0] * 5, 2.5, 15.0],
    ".docs/python.md": [1.0, [0.0] * 5],
}


@pytest.mark.parametrize("page", PAGES)
def test_pages(package, somewhere, page):  # noqa: F811
    [block] = re.findall(r"^```python\n(.*?)^```", (PACKAGE.parents[1] / page).read_text(), re.M | re.S)
    first, *rest = block.splitlines()
    names = {}
    exec(first, names)
    assert [np.asarray(eval(line, names)).tolist() for line in rest] == PAGES[page]


def test_the_names_of_the_package():
    """Every function and exception, and what is loaded later. `import *` and help() go by `__all__`, which has no classes of many inherited methods."""
    functions = {n for n, f in vars(reduced._functions).items() if n != "EmptyError" and getattr(f, "__module__", "") == "reduced" and n[0] != "_"}
    later = {n for n, where in reduced._LATER.items() if where.startswith("_")}
    assert functions | later | {"Client", "Gpu", "TLS", "Info", "Error", "errors"} | {c.__name__ for c in reduced.errors.CLASSES.values()} == set(NAMES)
    assert all(getattr(reduced, name) is not None for name in NAMES) and len(set(NAMES)) == len(NAMES)
    assert {n for n in reduced._ALSO if not issubclass(getattr(reduced, n), (tuple, reduced.Error))} == set()
    assert set(reduced.errors.__all__) == {c.__name__ for c in reduced.errors.CLASSES.values()} | {"Error"}


def test_the_manual_page_has_every_name():
    page = subprocess.run([sys.executable, PACKAGE / "manual.py"], capture_output=True, text=True, check=True).stdout
    skipping = {n for n in NAMES if n.startswith("nan")} | {"amin", "amax", "errors"}  # which have those of others
    assert [n for n in NAMES if n not in skipping and not re.search(rf"^\.B {n}\b", page, re.M)] == []


def test_signatures_and_messages_have_the_names_of_numpy(package):  # noqa: F811
    for name in ("sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax"):
        own, skipping = (list(inspect.signature(getattr(package, n)).parameters) for n in (name, "nan" + name))
        assert skipping == [p for p in own if p != "nan"] and "nan" in own
    with pytest.raises(TypeError, match="the ptp of complex numbers"):
        package.ptp([1j])
    with pytest.raises(OverflowError, match="exact ptp does not fit"):
        package.ptp(np.array([-128, 127], "i1"), out=np.zeros((), "i1"))


def test_each_function_has_an_example():
    undocumented = [n for n, f in vars(reduced._functions).items()
                    if callable(f) and getattr(f, "__module__", "") == "reduced" and not n.startswith(("_", "nan", "Empty")) and ">>>" not in (f.__doc__ or "")]
    assert undocumented == ["MinMax", "Stats"]
