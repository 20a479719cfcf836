"""The types of the package, as a type checker and a reader of help() see them."""
import ast
import inspect
import pickle
import pydoc
import re
import shutil
import subprocess
import sys
import typing

import pytest

from conftest import ROOT
from pythonpackage import PACKAGE, package, reduced  # noqa: F401

pytestmark = pytest.mark.unsanitized
EXAMPLE = ROOT / "tests/types_example.py"
sys.path.insert(0, str(PACKAGE))
import stubs  # noqa: E402


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A folder with the package as the wheel has it."""
    folder = tmp_path_factory.mktemp("typed")
    shutil.copytree(PACKAGE / "reduced", folder / "reduced")
    stubs.write(folder / "reduced")
    return folder


def mypy(folder, *files):
    pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", "/dev/null", "--follow-imports", "silent", *files], cwd=folder,
                          capture_output=True, text=True)


def test_a_type_checker_knows_the_results(typed):
    done = mypy(typed, EXAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr


WRONG = """\
x1: int = reduced.sum(np.ones(3))
x2: str = reduced.var([1.0])
x3: float = reduced.sum(np.ones(3), keepdims=True)
x4 = reduced.sum([1.0], axsi=0)
x5 = reduced.nansum([1.0], nan="omit")
x6: int = reduced.mean([1, 2])
x7 = reduced.sum([1.0], nan="skip")
x8: float = reduced.state("sum")
x9: int = reduced.file("a.npy")
async def later() -> int: return await reduced.aio.sum(np.ones(3))
"""


def test_a_type_checker_sees_what_is_wrong(typed, tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text(f"import numpy as np, reduced, reduced.aio\n{WRONG}")
    done = mypy(typed, file)
    assert {int(n) for n in re.findall(r"wrong\.py:(\d+): error", done.stdout)} == set(range(2, 2 + WRONG.count("\n"))), done.stdout + done.stderr


WRONG_DASK = """\
x1: int = reduced.dask.sum(x)
x2 = reduced.dask.mean(x, axis="0")
x3 = reduced.dask.max(x, nan="skip")
x4 = reduced.dask.sum(x, dtype=3.5)
x5: Array = reduced.dask.stats(x)
x6 = reduced.dask.nanmin(x).comput()
"""


def test_results_of_dask_are_arrays_of_dask(typed, tmp_path):
    pytest.importorskip("dask.array")
    file = tmp_path / "wrong.py"
    right = "y: Array = reduced.dask.sum(x, axis=(0, 1), keepdims=True, dtype='f4', split_every=4)"
    file.write_text(f"import reduced.dask\nfrom dask.array.core import Array, asarray\nx = asarray([[1.0]])\n{right}\n{WRONG_DASK}")
    done = mypy(typed, "--allow-untyped-calls", file)
    assert {int(n) for n in re.findall(r"wrong\.py:(\d+): error", done.stdout)} == set(range(5, 5 + WRONG_DASK.count("\n"))), done.stdout + done.stderr


def test_the_values_have_these_types(package):  # noqa: F811
    names = {}
    exec(compile(EXAMPLE.read_text(), EXAMPLE, "exec"), names)
    told = typing.get_type_hints(type("Names", (), {"__annotations__": names["__annotations__"], "__module__": "example"}), names)
    assert len(told) > 30
    for name, kind in told.items():
        assert type(names[name]) is (typing.get_origin(kind) or kind), name


def test_the_stubs_have_every_signature():
    written = [n for n in ast.parse(stubs.package()).body if isinstance(n, ast.FunctionDef)]
    for name in stubs.reductions():
        found = [f for f in written if f.name == name]
        want = list(inspect.signature(getattr(reduced, name)).parameters)
        assert found and all([a.arg for a in (*f.args.args, *f.args.kwonlyargs)] == want for f in found), name
    assert set(stubs.reductions()) == {n for n in reduced.__all__ if inspect.isfunction(getattr(reduced, n)) and (hasattr(reduced._functions, n) or n in reduced._order.__all__)}


def test_everything_public_is_of_the_package():
    for name in [*reduced.__all__, *reduced._ALSO]:
        found = getattr(reduced, name)
        if found is reduced.errors:
            continue
        assert found.__module__ == "reduced" and pickle.loads(pickle.dumps(found)) is found, name
    assert {f.__module__ for f in vars(reduced.aio).values() if inspect.iscoroutinefunction(f)} == {"reduced.aio"}


def test_help_is_a_readable_page():
    page = pydoc.render_doc(reduced, renderer=pydoc.plaintext)
    overview = page[:page.index("PACKAGE CONTENTS")]
    for name in reduced.__all__:
        assert re.search(rf"^    (class )?{name}\b", page, re.M), name
        if name not in ("amin", "amax"):
            assert re.search(rf"\b{name}\b", overview), name
    assert len(page.splitlines()) < 1000
    for also in reduced._ALSO:
        assert also in reduced.errors.__all__ or inspect.getdoc(getattr(reduced, also)), also
    of_errors = pydoc.render_doc(reduced.errors, renderer=pydoc.plaintext)
    assert all(f"class {name}(" in of_errors for name in reduced.errors.__all__)
    assert "'Any'" not in page[page.index("FUNCTIONS"):page.index("\nVERSION")]
    for name, f in vars(reduced).items():
        if inspect.isfunction(f) and name in reduced.__all__:
            assert len(inspect.getdoc(f).splitlines()[0]) <= 200 and max(map(len, inspect.getdoc(f).splitlines())) <= 160, name
