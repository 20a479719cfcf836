"""What the package takes as an array, and what it says of arguments that are none."""
import array
import compileall
import ctypes
import gc
import itertools
import mmap
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from conftest import python_env, sanitizer
from pythonpackage import PACKAGE, package  # noqa: F401
from reduced import _abi, _run, _sources
from reduced._plan import plan as make_plan
from reduced._sources import FileRange


@pytest.mark.parametrize("make", [list, tuple, lambda a: array.array("d", a), lambda a: memoryview(a), lambda a: bytearray(a.tobytes()),
                                  lambda a: memoryview(np.repeat(a, 2))[::2]],
                         ids=["list", "tuple", "array", "memoryview", "bytearray", "strided memoryview"])
def test_whatever_numpy_makes_an_array_of(package, make):  # noqa: F811
    a = np.array([1.5, -2.0, 8.0])
    given = make(a)
    assert package.sum(given) == np.sum(np.asarray(given))


VIEWS = {"repeated": lambda a: np.broadcast_to(a[3, 4, 5], a.shape), "rows again": lambda a: np.broadcast_to(a[:1], a.shape), "steps": lambda a: a[::2, ::3],
         "backwards": lambda a: a[::-1, :, ::-1], "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, 1), "turned": lambda a: a.transpose(2, 0, 1)[::2], "columns": lambda a: a[:, :, ::2],
         "apart": lambda a: a[::-1, 1:, 2:]}


@pytest.mark.values
@pytest.mark.parametrize("view", VIEWS)
def test_views_are_copied_in_blocks(package, view, monkeypatch):  # noqa: F811
    """Any axes, masks and types: the bits of a copy."""
    a = np.random.default_rng(3).standard_normal((8, 9, 10))
    for first, dtype in enumerate(("f8", "f4", "i2", "?", "M8[s]")):
        x = VIEWS[view]((a * 1000).astype("i8").astype(dtype))
        ops = ("max", "argmin") if x.dtype.kind == "M" else ("sum", "mean", "max", "argmax", "stats", "count_nonzero")
        cases = list(itertools.product(ops, (None, 0, 1, -1, (0, 1), (0, 2), (1, 2)), (False, True)))
        for op, axis, masks in cases[first::11] if sanitizer() else cases:
            kw = {"where": np.arange(x.size).reshape(x.shape) % 11 > 0} if masks else {}
            f = getattr(package, op)
            monkeypatch.setattr(_sources, "COPIED", 1 << 40)
            want = f(x.copy(), axis=axis, **kw)
            for block in (1, 200, 3000):
                monkeypatch.setattr(_sources, "COPIED", 0)
                monkeypatch.setattr(_sources, "BLOCK", block)
                monkeypatch.setattr(_sources, "LONG_LINE", 0 if block == 200 else 1 << 40)
                got = f(x, axis=axis, **kw)
                assert str(got) == str(want) and np.asarray(got).dtype == np.asarray(want).dtype, (dtype, op, axis, masks, block)


def test_views_take_little_memory(package):  # noqa: F811
    tracemalloc.start()
    assert package.sum(np.broadcast_to(1.0, 2**25)) == 2.0**25  # 256 MB
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(2.0**20), 40)  # 336 MB
    assert package.max(windows, axis=-1)[7] == 46
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tall, wide = np.ones((2**21, 20))[:, ::2], np.ones((4, 2**23))[:, ::2]  # 160 MB and 128 MB
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    assert package.sum(tall, axis=0).tolist() == [2.0**21] * 10 and package.argmax(tall, axis=0).tolist() == [0] * 10
    assert package.sum(tall[:, 3]) == 2.0**21 and package.mean(wide, axis=1, where=np.broadcast_to(True, wide.shape)).tolist() == [1.0] * 4
    assert tracemalloc.get_traced_memory()[1] - before < 50 << 20
    del tall, wide
    tracemalloc.stop()


def test_integers_of_lists_stay_integers(package):  # noqa: F811
    """NumPy makes doubles of them where their types differ."""
    big = 2**63 + 1
    for given, total in (([big, 5], big + 5), ([[big], (5,)], big + 5), ([np.int64(2), np.uint64(big)], big + 2), ([np.uint64(1), np.int64(-2**62 - 1)], -2**62),
                         ([np.array([2**53 + 1, 1]), np.array([3, 4], "u8")], 2**53 + 9), ([True, np.uint64(big)], big + 1), ((big,), big)):
        assert package.sum(given) == total and int(package.state("sum", given)) == total, given
    assert package.max([big, 5]) == big and package.argmax([np.int64(7), np.uint64(7), np.uint64(big)]) == 2
    for given in ([big, -1], [2**64, 1], [2**53 + 1, 0.5], [[0.5], [2**53 + 1]], [np.int64(2**53 + 1), np.float32(1)], [2**53 + 1, 1j], 2**64, [2**64]):
        with pytest.raises(TypeError, match="^a: .*(integer|object)"):
            package.sum(given)
    assert package.sum([2**53, 0.5, True]) == 2**53 + 2 and package.sum([1, 2j]) == 1 + 2j and package.sum([2**60, 0.0]) == 2.0**60


def test_integers_as_the_first_element_are_exact(package):  # noqa: F811
    assert package.sum([2.0], initial=2**53) == 2**53 + 2 and package.sum([1], initial=2**62 + 1) == 2**62 + 2
    for a, initial in (([1.0], 2**53 + 1), (np.ones(1, "f4"), 2**24 + 1), (np.ones(1, "f2"), 70000)):
        with pytest.raises(ValueError, match="initial"):
            package.sum(a, initial=initial)


def test_words_are_integers(package):  # noqa: F811
    words = package.state("sum", [1.5]).words()
    assert float(package.state("sum", dtype="f8").from_words("sum", "f8", words)) == 1.5
    with pytest.raises(TypeError, match="words"):
        package.State.from_words("sum", "f8", words.astype(float))


def test_masked_arrays(package):  # noqa: F811
    a = np.ma.array([[1.0, 2, 3], [4, 5, 6]], mask=[[0, 1, 0], [1, 1, 1]])
    assert package.sum(a) == a.sum() and package.mean(a) == 2.0 and package.argmax(a) == 2
    rows = package.sum(a, axis=1)
    assert np.ma.isMaskedArray(rows) and rows.tolist() == [4.0, None]
    assert package.sum(a, where=[True, True, False]) == 1.0


def test_numbers_of_whole_masked_and_complex_arrays_have_the_bits_of_doubles(package):  # noqa: F811
    """As those of other arrays: a value that was rounded to a double and then to float32 would have been rounded twice."""
    a = np.array([1, 2**-24, 2**-60, 0], "f4")  # a tie of float32, but for the third
    masked, z = np.ma.array(a, mask=[0, 0, 0, 1]), a + 1j * a[::-1]
    for name in ("sum", "mean", "std", "sem", "rms", "norm"):
        got = getattr(package, name)(masked)
        assert type(got) is float and got == getattr(package, name)(a[:3]), name
    assert package.sum(masked) == 1 + 2**-24 and package.nanmean(z) == complex(*[(1 + 2**-24) / 4] * 2)
    assert type(package.sum(z)) is complex and package.sum(z) == complex(package.sum(z.astype("c16")))
    for name in ("var", "norm", "rms"):
        assert getattr(package, name)(z) == getattr(package, name)(z.astype("c16")), name
    assert package.sum(masked, dtype="f4") == package.sum(z, dtype="c8").real == np.float32(1 + 2**-23)  # rounded once


def test_results_of_masked_elements_alone_are_masked(package):  # noqa: F811
    a = np.ma.array([[1.0, 2, 3], [4, 5, 6], [np.nan, 8, 9]], mask=[[0, 1, 0], [1, 1, 1], [1, 1, 1]])
    for name in ("sum", "prod", "mean", "var", "std", "min", "max", "any", "all"):
        ours, numpys = getattr(package, name), getattr(np.ma, name)
        for axis in (0, 1):
            got, expected = ours(a, axis=axis), numpys(a, axis=axis)
            assert np.array_equal(got.mask, expected.mask) and got.tolist() == expected.tolist(), (name, axis)
        assert ours(a[1]) is np.ma.masked and ours(a[0]) == numpys(a[0])
    assert package.argmax(a, axis=1).tolist() == [2, None, None] and package.ptp(a, axis=1).tolist() == [2, None, None]
    assert package.count_nonzero(a[1]) == 0 and package.nanmax(a, axis=1).tolist() == [3, None, None]
    assert package.max(a[1:], axis=1, nan="raise").mask.all() and package.max(a[1:], axis=1, keepdims=True).shape == (2, 1)
    with pytest.raises(package.EmptyError):  # `where` leaves nothing; the mask would
        package.max(a, axis=1, where=[[False], [True], [True]])


def test_masked_arrays_give_masked_arrays_whatever_their_mask(package):  # noqa: F811
    """A mask that hides nothing, and none at all, are not another kind of array. The types are those of NumPy's masked functions."""
    a = np.arange(1.0, 7).reshape(2, 3)
    for mask in (np.ma.nomask, False, np.zeros((2, 3), bool), [[1, 0, 0], [1, 1, 1]]):
        m = np.ma.array(a, mask=mask)
        for name in ("sum", "mean", "var", "min", "max", "prod", "any", "ptp"):
            ours, numpys = getattr(package, name)(m, axis=1), getattr(np.ma, name)(m, axis=1)
            assert type(ours) is type(numpys) is np.ma.MaskedArray and ours.tolist() == numpys.tolist(), (name, mask)
        assert all(type(x) is np.ma.MaskedArray for x in package.minmax(m, axis=0))
        assert type(package.sum(m, offsets=[0, 2, 3], axis=1)) is np.ma.MaskedArray
        assert type(package.sum(m.astype(complex), axis=0)) is np.ma.MaskedArray and type(package.sum(m)) is float
    out = np.ma.masked_all(2)
    assert package.sum(np.ma.array(a), axis=1, out=out) is out and out.tolist() == [6, 15]


class Nullable:
    """What pandas gives for a column with missing values: numbers and a mask."""

    def __init__(self):
        self.array = self
        self._data, self._mask = np.array([1, 2, 3]), np.array([False, True, False])


def test_both_extremes_of_masked_elements(package):  # noqa: F811
    a = np.ma.masked_array(np.arange(12.0).reshape(3, 4), mask=[[1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]])
    for keepdims in (False, True):
        found = package.minmax(a, axis=1, keepdims=keepdims)
        for ours, theirs in zip(found, (a.min(1, keepdims=keepdims), a.max(1, keepdims=keepdims))):
            assert isinstance(ours, np.ma.MaskedArray) and ours.tolist() == theirs.tolist() and ours.shape == theirs.shape
    assert package.minmax(a) == (1, 10) and package.minmax(a[1]) == (np.ma.masked, np.ma.masked)


def test_masks_of_out(package):  # noqa: F811
    a = np.ma.masked_array(np.arange(6.0).reshape(2, 3), mask=[[1, 0, 0], [1, 1, 1]])
    for out in (np.ma.masked_all(2), np.ma.masked_array(np.zeros(2))):
        assert package.sum(a, axis=1, out=out) is out and out.tolist() == [3, None]
    plain = np.ma.masked_array([5.0, 5.0], mask=[0, 1])
    assert package.sum(np.ones((2, 3)), axis=1, out=plain).tolist() == [3, None]  # as NumPy: its mask stays


class Exchanged:
    """An array that offers its elements by DLPack alone, which is what the array API standard asks for."""

    def __init__(self, a):
        self.a = a

    def __dlpack__(self, **options):
        return self.a.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


def test_arrays_by_dlpack_alone(package):  # noqa: F811
    a = np.arange(12.0).reshape(2, 6)
    for view in (a, a.T, a[:, 1::2], a[1:], a.astype("i2"), np.zeros((0, 3))):
        assert package.sum(Exchanged(view), axis=0).tolist() == view.sum(axis=0).tolist()
    with pytest.raises(TypeError, match="a: Exchanged gives no elements by DLPack"):
        package.sum(Exchanged(np.array(["x"])))


def test_columns_with_missing_values(package):  # noqa: F811
    assert package.sum(Nullable()) == 4 and package.max(Nullable()) == 3


@pytest.mark.slow
def test_tensors_of_torch_in_memory(package):  # noqa: F811
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    assert package.sum(x, axis=0).tolist() == [12, 15, 18, 21] and package.max(x.t(), axis=0).tolist() == [3, 7, 11]
    assert package.sum(x.requires_grad_()) == 66.0 and package.any(torch.tensor([False, True])) is True


def test_a_memmap_is_read_from_its_file(package, tmp_path):  # noqa: F811
    path = tmp_path / "m.npy"
    a = np.random.default_rng(1).standard_normal((600, 500))
    np.save(path, a)
    mapped = package.file(path)
    for view, axis in ((mapped, None), (mapped, 1), (mapped[7:31], 1), (mapped[3:], None)):
        p = make_plan("sum", view, axis)
        assert np.array_equal(_run.run(p), package.sum(np.array(view), axis=axis)) and isinstance(p.source, FileRange)
    plan = make_plan("sum", mapped)
    plan.result = _abi.Result(size=ctypes.sizeof(_abi.Result))
    assert _run.run(plan) == package.sum(np.array(mapped)) and plan.result.path == _abi.PATH_FILE
    assert np.array_equal(package.max(mapped, axis=0), a.max(0)) and package.sum(mapped[::2]) == package.sum(a[::2])
    private = np.load(path, mmap_mode="c")
    private[0, 0] = 1e300  # which the file does not have
    assert package.max(private) == 1e300
    other = np.load(path, mmap_mode="r")
    path.rename(tmp_path / "moved.npy")
    np.save(path, a * 0)  # another file of that name
    assert package.sum(other) == package.sum(a)


def test_files(package, tmp_path):  # noqa: F811
    np.arange(6, dtype="i4").tofile(tmp_path / "raw")
    assert package.sum(package.file(tmp_path / "raw", "i4")) == 15
    assert package.sum(package.file(tmp_path / "raw", "i4", shape=(2, 2), offset=8), axis=0).tolist() == [6, 8]
    for shape in (-1, (2, -1), 2.0, (2.0,), "2"):
        with pytest.raises(ValueError, match="shape: lengths are integers of 0 or more"):
            package.file(tmp_path / "raw", "i4", shape=shape)
    np.save(tmp_path / "none.npy", np.empty((0, 3)))
    assert package.sum(package.file(tmp_path / "none.npy"), axis=0).tolist() == [0, 0, 0]
    np.savez(tmp_path / "several.npz", a=np.ones(3))
    with pytest.raises(TypeError, match="path"):
        package.file(tmp_path / "several.npz")


def test_files_that_cannot_be_read(package, tmp_path):  # noqa: F811
    (tmp_path / "odd").write_bytes(b"1234567890")
    (tmp_path / "text").write_text("1 2 3")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "fifo")
    for kind, text, name, args, kw in (
            (TypeError, "path is the name of a file", None, (), {}),
            (ValueError, "path: .*text' is not a .npy file", "text", (), {}),
            (ValueError, "path: .*empty' is not a .npy file", "empty", (), {}),
            (ValueError, "path: .*fifo' is not a regular file", "fifo", ("f8",), {}),
            (ValueError, "path: '/dev/zero' is not a regular file", "/dev/zero", ("f8", 10), {}),
            (TypeError, "dtype: ", "odd", ("x9",), {}),
            (ValueError, "path: the 10 bytes .* multiple of the 8-byte", "odd", ("f8",), {}),
            (ValueError, "offset is from 0 to the 10 bytes", "odd", ("u1",), {"offset": -1}),
            (ValueError, "offset is from 0 to the 10 bytes", "odd", ("u1",), {"offset": 11}),
            (ValueError, "shape: 100 has more elements than the 10 bytes", "odd", ("u1", 100), {}),
            (ValueError, "shape: .* more elements than the 0 bytes", "empty", ("f8", (2, 5)), {})):
        with pytest.raises(kind, match=text):
            package.file(tmp_path / name if name else None, *args, **kw)
    assert package.sum(package.file(tmp_path / "odd", "u1", offset=10)) == 0 and package.file(tmp_path / "empty", "f8", (3, 0)).shape == (3, 0)


def test_files_of_other_formats_are_named_and_never_unpickled(package, tmp_path):  # noqa: F811
    np.savez(tmp_path / "a.npz", x=np.ones(2))
    np.save(tmp_path / "objects.npy", np.array([{}, 1], object), allow_pickle=True)
    (tmp_path / "pickle.npy").write_bytes(pickle.dumps([1, 2]))
    (tmp_path / "t.csv").write_text("x\n1\n")
    for name, text in (("a.npz", r"file\(.*a.npz', op\) reduces a .npz file"), ("objects.npy", "holds Python objects"), ("pickle.npy", "is not a .npy file"),
                       ("t.csv", "reduces a .csv file")):
        with pytest.raises((TypeError, ValueError), match=text) as e:
            package.file(tmp_path / name)
        assert "pickle=True" not in str(e.value) and "allow_pickle" not in str(e.value)


BAD = [
    (TypeError, "a: elements of type object", ([object()],), {}),
    (TypeError, "a: integers beyond 64 bits", ([2**70],), {}),
    (TypeError, "a: integers beyond 64 bits", ([[1, 2**64]],), {}),
    (TypeError, "a: objects of type generator .* make an array or a list", ((x for x in (1, 2)),), {}),
    (TypeError, "a: objects of type set", ({1, 2},), {}),
    (TypeError, "a: objects of type NoneType", (None,), {}),
    (ValueError, "a: ", ([[1, 2], [3]],), {}),
    (TypeError, "a: elements of type", (np.array(["x"]),), {}),
    (TypeError, "a: structured", (np.zeros(2, [("x", "f8")]),), {}),
    (TypeError, "a: elements of type", (np.ones(2, np.longdouble),), {}),
    (ValueError, "axis 2 is out of bounds", (np.ones((2, 3)), 2), {}),
    (ValueError, "axis -3 is out of bounds", (np.ones((2, 3)), -3), {}),
    (ValueError, "names an axis twice", (np.ones((2, 3)), (0, -2)), {}),
    (TypeError, "axis is an integer", (np.ones((2, 3)), "x"), {}),
    (TypeError, "axis is an integer", (np.ones((2, 3)), 1.5), {}),
    (TypeError, "axis is an integer", (np.ones((2, 3)), True), {}),
    (TypeError, "out is an array", ([1.0],), {"out": [0.0]}),
    (ValueError, "out: its shape", (np.ones((2, 3)), 0), {"out": np.empty(2)}),
    (TypeError, "out: Cannot cast", (np.ones((2, 3)), 0), {"out": np.empty(3, "i4")}),
    (ValueError, "out: .*read-only", (np.ones((2, 3)), 0), {"out": np.broadcast_to(np.zeros(()), 3)}),
    (ValueError, "where: its shape", (np.ones((2, 3)),), {"where": np.ones(2, bool)}),
    (TypeError, "where is an array of bool", (np.ones(3),), {"where": [1, 0, 1]}),
    (ValueError, "initial: elements of type uint64", (np.ones(3, "u1"),), {"initial": -1}),
    (ValueError, "initial: elements of type int64", (np.ones(3, "i1"),), {"initial": 1000.5}),
    (ValueError, "initial: elements of type float64 cannot be 1j", ([1.0],), {"initial": 1j}),
    (TypeError, "dtype: the sum of timedelta64.D. cannot be float64", (np.ones(3, "m8[D]"),), {"dtype": float}),
    (TypeError, "a: structured", (np.ma.masked_array([(1, 2)], dtype=[("x", "i4"), ("y", "i4")]),), {}),
    (TypeError, "progress is a function", ([1.0],), {"progress": 5}),
    (ValueError, "initial: elements of type int64", ([1, 2],), {"initial": 0.5}),
    (TypeError, "initial is one number", ([1, 2],), {"initial": "x"}),
    (TypeError, "dtype: the sum of complex128 cannot be float64", ([1j],), {"dtype": float}),
    (TypeError, "dtype", ([1.0],), {"dtype": "M8[s]"}),
    (ValueError, "nan is propagate, omit or raise", ([1.0],), {"nan": "skip"}),
    (ValueError, "deadline must be above 0", ([1.0],), {"deadline": -1}),
    (TypeError, "deadline is a number of seconds", ([1.0],), {"deadline": "1"}),
    (TypeError, "axis is an integer", (np.ones(3), np.ones(3)), {}),
    (TypeError, "dtype: ", ([1.0],), {"dtype": "x9"}),
    (TypeError, "dtype: ", (1, 2, 3), {}),
    (TypeError, "client is a Client", ([1.0],), {"client": "ipc:///x"}),
    (TypeError, r"a: a string .*reduced.file\('x.npy'\)", ("x.npy",), {}),
    (TypeError, r"a: paths .*reduced.file\('x.npy'\)", (pathlib.Path("x.npy"),), {}),
]


@pytest.mark.parametrize("kind, text, args, kw", BAD, ids=[f"{i}-{re.sub('[^a-z]+', '-', row[1])}" for i, row in enumerate(BAD)])
def test_bad_arguments_are_named(package, kind, text, args, kw):  # noqa: F811
    with pytest.raises(kind, match=text):
        package.sum(*args, **kw)


BAD_CLIENTS = [
    (TypeError, "url: ", {"url": 5}),
    (TypeError, "name: ", {"name": 5}),
    (TypeError, "local is True, False or None", {"local": "no"}),
    (TypeError, "idle_exit is a number", {"idle_exit": "x"}),
    (TypeError, "idle_exit is a number", {"idle_exit": None}),
    (ValueError, "idle_exit must be above 0", {"idle_exit": -5}),
    (ValueError, "idle_exit must be .* at most", {"idle_exit": 1e12}),
]


@pytest.mark.parametrize("kind, text, kw", BAD_CLIENTS, ids=range(len(BAD_CLIENTS)))
def test_bad_arguments_of_clients_are_named(package, kind, text, kw):  # noqa: F811
    with pytest.raises(kind, match=text):
        package.Client(**{"url": "ipc:///nowhere", "autostart": False, **kw})


NO_ARRAYS = [(TypeError, [object()]), (TypeError, np.zeros(2, [("x", "f8")])), (ValueError, [[1, 2], [3]]), (TypeError, ["a"]), (TypeError, np.zeros(2, "V4"))]


@pytest.mark.parametrize("kind, a", NO_ARRAYS, ids=["object", "structured", "ragged", "text", "void"])
def test_every_entry_names_what_is_no_array(package, kind, a):  # noqa: F811
    functions = [f for f in dict.fromkeys(getattr(package, n) for n in package.__all__) if f in vars(package._functions).values() and not isinstance(f, type)]
    assert len(functions) > 25

    def calls():
        for f in functions:
            more = ("xor",) if f is package.bits else ()
            yield lambda: f(a, *more)
            yield lambda: f([1.0, 2.0], *more, axis=3)
            if f is not package.bits:
                yield lambda: package.submit(f, a)
                yield lambda: package.many([(f, [1.0]), (f, a)])
        yield lambda: package.put("none", a)
        yield lambda: package.state("sum", a)
        yield lambda: package.state("sum", [1.0]).add(a)
        yield lambda: package.sum([1.0, 2.0], where=a)
        yield lambda: package.sum([1.0, 2.0], offsets=a)
        with package.stream("sum", "f8") as s:
            yield lambda: s.append(a)
    for i, call in enumerate(calls()):
        with pytest.raises((kind, ValueError)) as e:  # a wrong axis is a ValueError
            call()
        assert re.match(r"(a|axis|where|offsets|chunk)\b", str(e.value)), (i, str(e.value))
    assert package.residents() == [] and package.sum([1, 2]) == 3


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "min", "max", "ptp", "argmin", "argmax", "any", "all", "nansum", "nanmax", "norm"])
def test_out_may_overlap_the_elements(package, name):  # noqa: F811
    """The elements, a mask, and each other."""
    f, a = getattr(package, name), np.random.default_rng(5).integers(-4, 5, (6, 6)).astype("f8")
    if name.startswith("arg"):
        a = a.astype(np.intp)
    for axis, out in ((0, lambda x: x[2]), (1, lambda x: x[:, 3]), (0, lambda x: x[4, ::-1]), (1, lambda x: x.T[1])):
        x = a.copy()
        got = f(x, axis=axis, out=(view := out(x)))
        assert got is view and np.array_equal(view, f(a, axis=axis))
    if name in ("any", "all"):
        marks = a > 0
        expected = f(a, axis=0, where=marks)
        assert np.array_equal(f(a, axis=0, where=marks, out=marks[1]), expected) and np.array_equal(marks[1], expected)


def test_a_file_that_is_cut_under_its_map(package, tmp_path):  # noqa: F811
    np.save(tmp_path / "m.npy", np.ones(200_000))
    mapped = package.file(tmp_path / "m.npy")
    os.truncate(tmp_path / "m.npy", 4096)
    for call in (lambda: package.sum(mapped), lambda: package.submit("sum", mapped).result(60), lambda: package.many([("max", mapped)])):
        with pytest.raises(package.IoError, match="^a: .*shorter than its map"):
            call()
    assert package.sum(mapped[:100]) == 100


def test_masked_elements_are_never_added(package):  # noqa: F811
    """States and streams have no mask for them; without one, or with the rest alone, they are arrays as any other."""
    a = np.ma.array([1.0, 2, 4], mask=[0, 1, 0])
    with package.stream("sum", "f8") as s:
        for call in (lambda: package.state("sum", a), lambda: package.state("sum").add(a), lambda: s.append(a), lambda: package.put("none", a)):
            with pytest.raises(TypeError, match="masked"):
                call()
        s.append(a.compressed())
        s.append(np.ma.array([8.0]))
    assert s.value == 13 and float(package.state("sum", a.compressed())) == 5


def test_missing_values_where_none_can_be(package):  # noqa: F811
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    for name, column in (("where", pandas.Series([True, None, True], dtype="boolean")), ("offsets", pandas.Series([0, None, 3], dtype="Int64"))):
        with pytest.raises(ValueError, match=f"^{name}: it has missing values"):
            package.sum([1.0, 2, 3], **{name: column})
        full = column.fillna(True if name == "where" else 1)
        assert np.array_equal(package.sum([1.0, 2, 3], **{name: full}), 6 if name == "where" else [1, 5])
    with pytest.raises(TypeError, match="^a: "):
        package.sum(pandas.MultiIndex.from_tuples([(1, 2)]))


def test_missing_values_of_polars(package):  # noqa: F811
    """They are left out, and integers stay exact."""
    polars = pytest.importorskip("polars", reason="no polars")
    exact = 2**60 + 1
    s = polars.Series([exact, None, 1])
    assert package.sum(s) == exact + 1 and package.argmin(s) == 2 and package.count_nonzero(s) == 2 and package.mean(s.cast(polars.Float32)) == 2**59
    assert package.any(polars.Series([None, True])) is True and package.sum(polars.Series([2, exact])) == exact + 2
    assert package.max(polars.Series([None, 0], dtype=polars.Date)) == np.datetime64(0, "D")  # by Arrow, as the tutorial says


def test_resident_arrays_are_given_other_shapes(package):  # noqa: F811
    r = package.put("shapes", np.arange(12.0))
    assert [r.reshape(*shape).shape for shape in ((-1,), (2, -1), ([4, 3],), ((3, 4),), (12,))] == [(12,), (2, 6), (4, 3), (3, 4), (12,)]
    assert package.Resident("shapes", shape=12).shape == (12,) and np.sum(r.reshape(-1, 4), axis=0).tolist() == [12, 15, 18, 21]
    for kind, text, call in ((ValueError, "shape: ", lambda: r.reshape(5, -1)), (TypeError, "shape is", lambda: r.reshape(1.5)),
                             (TypeError, "name is a string", lambda: package.Resident(5)), (TypeError, "name is a string", lambda: package.put(b"x", [1.0])),
                             (package.ShapeError, "a: ", lambda: package.put("none", []))):
        with pytest.raises(kind, match=text):
            call()
    r.drop()


def test_what_cannot_be_resident(package):  # noqa: F811
    """Dates were put, which no reduction of resident data took, and whose NaT is a number for other programs."""
    for a, kind, why in ((np.array(["2020", "NaT"], "M8[s]"), TypeError, r"datetime64\[s\] cannot be resident; put their view as int64"),
                         (np.array([1, 2], "m8[D]"), TypeError, r"timedelta64\[D\] cannot be"), (np.array([1j]), TypeError, "complex numbers cannot be"),
                         (np.zeros((0, 3)), package.errors.ShapeError, "without elements"), (np.ma.array([1, 2], mask=[0, 1]), TypeError, "a masked array cannot be")):
        with pytest.raises(kind, match=why):
            package.put("not_resident", a)


def test_names_are_listed(package):  # noqa: F811
    """Those that are imported with their first use, too, and no others."""
    script = "import reduced; print(*dir(reduced))"
    env = {**python_env(), "PYTHONPATH": str(PACKAGE)}
    names = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True).stdout.split()
    assert set(names) == {*package.__all__, *package._ALSO, "aio", "dask", "magic", "__version__", "__doc__"} and names == sorted(names)


def test_other_bad_arguments(package):  # noqa: F811
    for call in (lambda: package.sem([1.0], ddof=-1), lambda: package.norm([1.0], 3), lambda: package.std([1.0], ddof=1, correction=1),
                 lambda: package.norm([1.0], [2]), lambda: package.many([("sum", [1])], deadline=-1), lambda: package.bits([1], "nand"), lambda: package.submit("mode", [1]), lambda: package.Client("ipc:///x", priority="top")):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(package.TypeError_):
        package.bits([1.0], "xor")
    for requests in ("sum", ["sum"], [("sum",)], [("max", [1], 0)], [("sum", [1], {}, 2)]):
        with pytest.raises(TypeError, match="^requests: "):
            package.many(requests)
    with pytest.raises(package.Error):
        package.Client("no-url")
    with pytest.raises(AttributeError):
        package.mode


def test_exports_are_locked_while_they_are_reduced(package):  # noqa: F811
    data = bytearray(8_000_000)
    task = package.submit("sum", np.frombuffer(data))
    with pytest.raises(BufferError):
        data.extend(b"x")
    assert task.result() == 0
    mapping = mmap.mmap(-1, 1 << 20)
    assert package.sum(np.frombuffer(mapping)) == 0
    gc.collect()


def traced():
    """Bytes that Python holds: the least of several looks, because a Python without GIL frees some of them later."""
    def look():
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    return min(look() for _ in range(5))


def client_rss():
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1])


LEAST_LEAK = {"bytes of Python": 0, "KiB of this process": 4096, "KiB of the daemon": 4096, "descriptors": 1}


def leaks(calls, warm, n, bytes_of_python, daemon):
    """What n calls leave behind. What grew must not do so again in either of two more rounds: a leak does, a pool of malloc that a
    thread makes on a busy machine does not."""
    least = {**LEAST_LEAK, "bytes of Python": bytes_of_python}

    def look():
        return dict(zip(least, (traced(), client_rss(), daemon.rss(), len(os.listdir("/proc/self/fd")))))

    def grown():
        before = look()
        calls(n)
        after = look()
        return {what: after[what] - before[what] for what in least}
    gc.collect()
    gc.freeze()  # what is here already is not looked through again, each time
    tracemalloc.start()
    try:
        calls(warm)
        first = grown()
        large = [what for what in least if first[what] >= least[what]]
        more = [grown(), grown()] if large else []
        return {what: [first[what], *(g[what] for g in more)] for what in large if any(g[what] >= least[what] for g in more)}
    finally:
        tracemalloc.stop()
        gc.unfreeze()


@pytest.mark.skipif(bool(sanitizer()), reason="a sanitizer looks for leaks, and counts memory of its own")
def test_a_leak_is_found(package, shared):  # noqa: F811
    """Of 100 bytes of Python and 20 KiB of the process a call; and none where that happens in one round."""
    kept, rounds = [], itertools.count()

    def grow(n):
        for _ in range(n):
            kept.append((mmap.mmap(-1, 20_000), bytearray(40)))
            kept[-1][0].write(bytes(20_000))  # a page that is not written has no memory

    def grow_once(n):
        if next(rounds) == 1:
            grow(n)
    found = leaks(grow, 1000, 1000, 15_000, shared)  # within the first calls a Python gives back memory of earlier tests
    assert found.keys() == {"bytes of Python", "KiB of this process"} and len(found["bytes of Python"]) == 3
    assert leaks(grow_once, 10, 1000, 15_000, shared) == {}


@pytest.mark.skipif(bool(sanitizer()), reason="a sanitizer keeps what is freed")
def test_nothing_leaks(package, shared):  # noqa: F811
    a, rows = np.ones(16), np.ones((4, 5))

    def calls(n):
        for _ in range(n):
            package.sum(a)
            package.var(rows, axis=0, where=rows > 0)
            try:
                package.max([])
            except package.EmptyError:
                pass
            package.submit("sum", a).result()
    assert leaks(calls, 1500, 200 * int(os.environ.get("REDUCED_EXAMPLES", 5)), 15_000, shared) == {}  # `make test-python`: 10^5


@pytest.mark.skipif(bool(sanitizer()), reason="a sanitizer keeps what is freed")
def test_nothing_leaks_anywhere_else(package, shared, tmp_path):  # noqa: F811
    """What test_nothing_leaks has no time for: the same of every other way in."""
    a = np.arange(24.0).reshape(4, 6)
    masked, dates, nans = np.ma.array(a, mask=a > 20), a.astype("m8[s]"), np.where(a > 20, np.nan, a)
    np.save(tmp_path / "a.npy", a)

    def refused(f, *args, **kw):
        with pytest.raises((TypeError, ValueError, package.Error)):
            f(*args, **kw)

    def streamed():
        with package.stream("sum", "f8") as s:
            s.append(a)
        return s.value
    kinds = [lambda: package.many([("sum", a), ("max", a[0])]), streamed, lambda: package.put("kept", a, replace=True), lambda: package.residents(),
             lambda: package.mean(package.Resident("kept"), axis=0), lambda: float(package.state("sum", a) | package.state("sum", a)),
             lambda: package.max(a, axis=1, offsets=[0, 2, 6]), lambda: package.stats(a, axis=0), lambda: package.var(a, axis=0, ddof=0.5),
             lambda: package.max(masked, axis=0), lambda: package.mean(dates, axis=0), lambda: package.sum(a * 1j, axis=0), lambda: package.nanmax(nans, axis=0),
             lambda: package.sum(a.T[::2], axis=0, where=a.T[::2] > 3, initial=1), lambda: package.sum(package.file(tmp_path / "a.npy"), axis=0),
             lambda: refused(package.sum, [object()]), lambda: refused(package.sum, a, axis=3), lambda: refused(package.sum, a, out=a),
             lambda: package.submit("nanmax", np.full(3, np.nan)).result(), lambda: refused(package.many, [("sum", a), ("sum", a), ("max", [])]),
             lambda: package.minmax(masked, axis=0), lambda: package.sum(np.ones(3, "i1"), initial=1000), lambda: refused(package.stream, "mode", "f8"),
             lambda: refused(package.sum, nans, nan="raise"), lambda: refused(package.sum, np.full(2, 2**62)), lambda: refused(package.sum, a, where=a)]

    def calls(n):
        for _ in range(n):
            for kind in kinds:
                kind()
    found = leaks(calls, 100, 40 * max(1, int(os.environ.get("REDUCED_EXAMPLES", 5)) // 20), 20_000, shared)
    package.Resident("kept").drop()
    assert found == {}


def test_calls_on_another_thread_leak_nothing(package):  # noqa: F811
    """Python 3.10 keeps frames of functions that two threads run at once, so objects are counted, not bytes."""
    large = np.ones(140_000)

    def calls():
        for _ in range(40):
            package.put("large", large, replace=True).drop()
            with package.stream("sum", "f8") as s:
                s.append(large)
            assert s.value == 140_000
        gc.collect()
        return len(gc.get_objects())
    before = calls()
    assert calls() - before < 40


IMPORT = """
import time, sys
before = time.process_time()
import numpy
start = time.process_time()
import reduced
print(time.process_time() - start, start - before, "asyncio" in sys.modules, reduced._lib._lib is None)
"""


@pytest.mark.unsanitized
def test_the_import_is_quick_and_loads_nothing(tmp_path):
    """Of compiled modules, as pip leaves them."""
    shutil.copytree(PACKAGE / "reduced", tmp_path / "reduced", ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(tmp_path / "reduced", quiet=1)
    env = {**python_env(), "PYTHONPATH": str(tmp_path)}
    best, numpys = 10.0, 10.0
    for _ in range(5):
        printed = subprocess.run([sys.executable, "-c", IMPORT], env=env, capture_output=True, text=True, check=True).stdout.split()
        best, numpys = min(best, float(printed[0])), min(numpys, float(printed[1]))
        assert printed[2:] == ["False", "True"]
    # On a slow or busy processor NumPy's takes longer, too: 0.075 s where ours may take 0.03, and takes 0.009.
    assert best < max(0.03, 0.4 * numpys), (best, numpys)


def test_messages_of_the_library_have_numpys_names(package):  # noqa: F811
    for call in (lambda: package.ptp([]), lambda: package.ptp(np.empty((2, 0)), axis=1)):
        with pytest.raises(package.EmptyError, match="EMPTY: (row 0: )?ptp of no elements"):
            call()
    with pytest.raises(package.OverflowError_, match="the exact sum does not fit"):
        package.sum([2**62, 2**62])
