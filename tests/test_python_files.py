"""reduced.file(path, op): files that reducectl reads give the values that the same arrays give."""
import ast
import bz2
import gzip
import json
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import typing
import warnings
import zipfile

import numpy as np
import pytest

from conftest import BIN, sanitizer
from pythonpackage import PACKAGE, package, reduced  # noqa: F401
from reduced import _abi, _files, _prepare, _state

SEED = 5


@pytest.fixture(autouse=True)
def reducectl(monkeypatch):
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")


def arrays():
    r = np.random.default_rng(SEED)
    return {"f": r.standard_normal((7, 5)) * 10.0 ** r.integers(-9, 9, (7, 5)), "i": r.integers(-2**62, 2**62, (3, 4)) >> 3, "u": r.integers(0, 2**63, 5).astype("u8") >> 3,
            "s": r.standard_normal((2, 3, 4)).astype("f4"), "b": r.integers(0, 2, 9).astype(bool), "z": np.array([-0.0]), "n": np.array([1.0, np.nan, 3.0])}


def npz(path, held):
    np.savez(path, **held)
    return path


def deflated(path, held):
    np.savez_compressed(path, **held)
    return path


def safetensors(path, held):
    names = {"f8": "F64", "i8": "I64", "u8": "U64", "f4": "F32", "b1": "BOOL"}
    head, data = {}, b""
    for name, a in held.items():
        head[name] = {"dtype": names[a.dtype.str[1:]], "shape": list(a.shape), "data_offsets": [len(data), len(data) + a.nbytes]}
        data += a.tobytes()
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def hdf5(path, held):
    h5py = pytest.importorskip("h5py")
    if not (BIN / "reducectl-hdf5").exists():
        pytest.skip("built without HDF5")
    with h5py.File(path, "w") as f:
        for name, a in held.items():
            f[name] = a
    return path


@pytest.mark.parametrize("write", [npz, deflated, safetensors, hdf5])
def test_members_have_the_values_of_their_arrays(package, tmp_path, write):  # noqa: F811
    held = arrays()
    path = write(tmp_path / "held.npz", {k: a for k, a in held.items() if write is not hdf5 or k != "b"})
    for name, a in held.items():
        if write is hdf5 and name == "b":
            continue
        for op in ("sum", "mean", "var", "sem", "min", "argmax", "any", "norm", "minmax", "stats", "prod"):
            try:
                want = getattr(package, op)(a)
            except reduced.OverflowError_ as e:
                with pytest.raises(reduced.OverflowError_) as got:
                    reduced.file(path, op, member=name)
                assert got.value.exact == e.exact
                continue
            found = reduced.file(path, op, member=name)
            assert name == "b" and found == want or repr(found) == repr(want) and type(found) is type(want), (name, op)
        for axis in range(a.ndim) if a.ndim > 1 else ():
            for op in ("sum", "max", "argmin"):
                want = getattr(package, op)(a, axis=axis).ravel()
                found = reduced.file(path, op, member=name, axis=axis, **({"out": "f4"} if want.dtype == "f4" else {}))
                assert found.dtype == want.dtype and found.tobytes() == want.tobytes(), (name, op, axis)
    assert repr(reduced.file(path, "sum", member="z")) == "-0.0" and reduced.file(path, op="sum", member="n", nan="omit") == 4.0
    assert reduced.file(path, "count").keys() == {k for k in held if write is not hdf5 or k != "b"} or write is hdf5
    two = reduced.file(path, "stats", member="f", axis=1)
    assert two.count.dtype == two.argmin.dtype == np.int64 and two.mean.tolist() == package.mean(held["f"], axis=1).tolist() and two.argmin.tolist() == package.argmin(held["f"], axis=1).tolist()
    with pytest.raises(reduced.NanError):
        reduced.file(path, "sum", member="n", nan="raise")


def test_results_of_several_values(package, tmp_path):  # noqa: F811
    """Two best elements were a MinMax, and quantiles or bins could not be lists."""
    a, i = np.random.default_rng(SEED).standard_normal((4, 6)), np.array([[2**63 - 1, 5], [-2**63, 7]])
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "i.npy", i)
    for held, path in ((a, tmp_path / "a.npy"), (i, tmp_path / "i.npy")):
        for op, largest in (("largest", True), ("smallest", False)):
            for k in (1, 2):
                got, want = reduced.file(path, op, k=k), package.topk(held.ravel(), k, largest=largest)
                assert type(got) is type(want) and got.values.tolist() == want.values.tolist() and got.indices.tolist() == want.indices.tolist()
                assert got.values.dtype == want.values.dtype and got.indices.dtype == want.indices.dtype
                got, want = reduced.file(path, op, k=k, axis=1), package.topk(held, k, 1, largest)
                assert got.values.tolist() == want.values.tolist() and got.indices.tolist() == want.indices.tolist()
    for q in ([0.3, 0.5], (0.3, 0.5), np.array([0.3, 0.5]), "0.3,0.5"):
        assert np.array_equal(reduced.file(tmp_path / "a.npy", "quantile", q=q), package.quantile(a, [0.3, 0.5]))
        assert np.array_equal(reduced.file(tmp_path / "a.npy", "quantile", q=q, axis=0), package.quantile(a, [0.3, 0.5], axis=0))
    assert np.array_equal(reduced.file(tmp_path / "a.npy", "quantile", q=[0.3]), package.quantile(a, [0.3]))
    assert np.array_equal(reduced.file(tmp_path / "a.npy", "quantile", q=[0.3], axis=1), package.quantile(a, [0.3], axis=1))
    assert reduced.file(tmp_path / "a.npy", "quantile", q=0.3) == package.quantile(a, 0.3)
    assert reduced.file(tmp_path / "i.npy", "quantile", q="0,1", method="lower").tolist() == [-2**63, 2**63 - 1]
    counts, edges = reduced.file(tmp_path / "a.npy", "histogram", bins=3)
    assert counts.tolist() == np.histogram(a, edges)[0].tolist() and len(edges) == 4
    counts, edges = reduced.file(tmp_path / "a.npy", "histogram", edges=[-1, 0, 0.5], axis=1)
    assert counts.tolist() == [np.histogram(row, [-1, 0, 0.5])[0].tolist() for row in a] and edges.tolist() == [-1, 0, 0.5]
    np.save(tmp_path / "keep.npy", np.arange(24).reshape(4, 6) % 5 < 1)
    short = reduced.file(tmp_path / "a.npy", "largest", k=3, axis=1, mask=tmp_path / "keep.npy")
    assert short.indices.shape == (4, 2) and short.indices.min() == -1 and np.isnan(short.values[short.indices < 0]).all()


def test_statistics_of_nothing_and_of_what_cannot_be_reduced(package, tmp_path):  # noqa: F811
    """The extremes of no elements were -1, and a table of several arrays a KeyError."""
    for name, a in (("f", np.zeros(0)), ("i", np.zeros(0, "i4"))):
        np.save(tmp_path / "none.npy", a)
        assert repr(reduced.file(tmp_path / "none.npy", "stats")) == repr(package.stats(a))
    path = npz(tmp_path / "a.npz", {"x": np.arange(4), "none": np.zeros(0), "text": np.array(["a"])})
    found = reduced.file(path, "stats")
    assert found["x"]["max"] == 3 and found["x"]["std"] == package.std(np.arange(4)) and np.isnan(found["none"]["min"]) and found["text"] is None


def test_members_of_one_name(package, tmp_path):  # noqa: F811
    """The first one was the value."""
    with warnings.catch_warnings(), zipfile.ZipFile(npz(tmp_path / "a.npz", {"x": np.arange(3)}), "a") as z:
        warnings.simplefilter("ignore")
        with z.open("x.npy", "w") as member:
            np.save(member, np.arange(5))
    for op in ("sum", "stats", "minmax"):
        with pytest.raises(ValueError, match="path: 2 members are called"):
            reduced.file(tmp_path / "a.npz", op)


def test_bytes_are_no_addresses(package, tmp_path):  # noqa: F811
    """Objects of a file ended the process, and what applies to raw elements was dropped for a .npy."""
    np.save(tmp_path / "a.npy", np.arange(6.0))
    for kind in ("O", [("x", "O")], "S0", "V"):
        with pytest.raises(TypeError, match="dtype: a file has no elements of"):
            package.file(tmp_path / "a.npy", kind, offset=128)
    for given in ({"offset": 8}, {"shape": (3, 2)}, {"order": "F"}):
        with pytest.raises(TypeError, match="needs the `dtype` of raw elements"):
            package.file(tmp_path / "a.npy", **given)


def test_tables_and_packed_files(package, tmp_path):  # noqa: F811
    text = "name;grams\nflour;748,5\nwater;\nsalt;9007199254740992\n"
    (tmp_path / "t.csv").write_text(text)
    how = {"member": "grams", "delimiter": ";", "decimal": ",", "header": True}
    assert np.isnan(reduced.file(tmp_path / "t.csv", "sum", **how)) and reduced.file(tmp_path / "t.csv", "count", nan="omit", **how) == 2
    (tmp_path / "t.csv").write_text(text.replace("740992", "740993"))
    with pytest.raises(reduced.TypeError_, match="line 4: '9007199254740993' would be rounded to f64"):
        reduced.file(tmp_path / "t.csv", "sum", **how)
    (tmp_path / "n.tsv").write_text("-9223372036854775807\t1\n5\t2\n")
    assert reduced.file(tmp_path / "n.tsv", "min", member="#1", header=False) == -2**63 + 1
    assert reduced.file(tmp_path / "n.tsv", "sum", member="#1-#2", header=False) == {"#1": -2**63 + 6, "#2": 3}
    a = np.random.default_rng(SEED).standard_normal(1000)
    raw = gzip.compress(a.tobytes())
    (tmp_path / "a.gz").write_bytes(raw)
    assert reduced.file(tmp_path / "a.gz", "f8", op="sum") == package.sum(a)
    assert reduced.file(tmp_path / "a.gz", "u1", op="sum", unpack=False) == sum(raw)
    if shutil.which("zstd"):
        (tmp_path / "a.bin").write_bytes(a.tobytes())
        subprocess.run(["zstd", "-q", tmp_path / "a.bin"], check=True)
        assert reduced.file(tmp_path / "a.bin.zst", "f8", op="sum") == package.sum(a)
    (tmp_path / "big").write_bytes(a.astype(">f8").tobytes())
    assert reduced.file(tmp_path / "big", ">f8", op="var", ddof=1) == package.var(a, ddof=1)
    whole = np.arange(-5, 2**40, 2**35)
    (tmp_path / "whole").write_bytes(whole.tobytes())
    for name in ("i8", "<i8", "int64", np.int64, "i64"):
        assert reduced.file(tmp_path / "whole", name, op="sum") == whole.sum(), name
    assert reduced.file(tmp_path / "whole", "i4", op="sum") == whole.view("i4").sum(dtype="i8") and reduced.file(tmp_path / "whole", "u1", op="max", rows=1).dtype == np.uint64
    assert reduced.file(tmp_path / "whole", "i8", op="mean", rows=1, out="f4").dtype == np.float32 == reduced.file(tmp_path / "whole", "i8", op="mean", rows=1, out="f32").dtype
    np.save(tmp_path / "keep.npy", a > 0)
    assert reduced.file(tmp_path / "big", ">f8", op="mean", mask=tmp_path / "keep.npy") == package.mean(a, where=a > 0)
    assert reduced.file(tmp_path / "big", ">f8", op="sum", rows=4).tolist() == package.sum(a.reshape(4, -1), axis=1).tolist()
    (tmp_path / "line").write_text("1 2 18446744073709551615")
    with pytest.raises(reduced.OverflowError_) as e:
        reduced.file(tmp_path / "line", "sum", text=True)
    assert e.value.exact == 2**64 + 2 and reduced.file(tmp_path / "line", "mean", text=True) == (2**64 + 2) / 3


@pytest.mark.parametrize("kind,words,call", [
    (reduced.TypeError_, "no member 'q'", {"member": "q"}), (reduced.ShapeError, "no axis 7", {"member": "f", "axis": 7}), (TypeError, "keyword argument 'axsi'", {"axsi": 1}),
    (ValueError, "nan is", {"nan": "skip"}), (ValueError, "--rows 'x'", {"rows": "x"}), (TypeError, "True or False", {"header": "no"}), (TypeError, "name of a file", {"mask": [1]}),
    (TypeError, "out: results are float16,", {"out": "i4"}), (TypeError, "no `shape`", {"shape": 3}), (TypeError, "complex128", {"dtype": complex}), (TypeError, "client is", {"client": 3})])
def test_what_is_wrong_has_a_type(package, tmp_path, kind, words, call):  # noqa: F811
    path = npz(tmp_path / "a.npz", arrays())
    with pytest.raises(kind, match=words):
        reduced.file(path, op="sum", **call)


def test_types_know_the_operations():
    """All but those of two arrays."""
    assert set(typing.get_args(_files.Op)) == {*_abi.OPS, *_state.OTHER_NAMES} - {*_prepare.PAIRED}


def test_other_errors(package, tmp_path, monkeypatch):  # noqa: F811
    path = npz(tmp_path / "a.npz", arrays())
    with pytest.raises(reduced.IoError, match="cannot open"):
        reduced.file(tmp_path / "none", "sum")
    with pytest.raises(ValueError, match="no reduction"):
        reduced.file(path, op="summ")
    with pytest.raises(TypeError, match="needs `op`"):
        reduced.file(path, member="f")
    (tmp_path / "a.npz:f").write_text("1")
    with pytest.raises(ValueError, match="may be meant"):
        reduced.file(path, "sum", member="f")
    with pytest.raises(reduced.NoDaemonError):
        monkeypatch.setenv("REDUCED_URL", f"ipc://{tmp_path}/none")
        reduced.file(path, "sum", member="i")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(reduced.IoError, match="cannot be started"):
        reduced.file(path, "sum", member="i")


@pytest.mark.skipif(bool(sanitizer()), reason="a sanitizer needs much memory of its own")
def test_a_large_packed_file_takes_little_memory(package, tmp_path):  # noqa: F811
    """256 MiB of zeros in a .npz of 256 KiB, with 64 MiB of data for this process's own code."""
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros(1 << 25))
    script = ("import resource, sys, reduced\nresource.setrlimit(resource.RLIMIT_DATA, (160 << 20, 160 << 20))\n"
              f"print(reduced.file({str(tmp_path / 'zeros.npz')!r}, 'count', member='x'))")
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True)
    assert done.stdout == f"{1 << 25}\n", done.stderr


def test_what_reducectl_knows_is_not_taken_as_elements(package, tmp_path):  # noqa: F811
    """All of its magic numbers, but for those that it takes with a type; and frames in front of a stream."""
    source = (pathlib.Path(__file__).parent.parent / "client/ctl/formats/sniff.c").read_text()
    rows = re.findall(r'M\((\w+), (\d+),\s*((?:"(?:[^"\\]|\\.)*"\s*)+),', source)
    heads = [bytes(int(at)) + b"".join(ast.literal_eval("b" + part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', text)) for kind, at, text in rows if kind != "FOREIGN"]
    assert len(heads) > 40
    raw, frame = np.arange(100.0).tobytes(), struct.pack("<2L", 0x184D2A55, 3) + b"abc"
    long = struct.pack("<2L", 0x184D2A50, 3000) + bytes(3000)
    held = struct.pack("<Q", 64) + b'{"x":{"dtype":"F64","shape":[100],"data_offsets":[0,800]}}'.ljust(64) + raw
    for data in (*(head + raw for head in heads), frame + b"\x28\xb5\x2f\xfd" + raw, frame + long + b"\4\x22\x4d\x18" + raw, frame, held):
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(ValueError, match=r"path: .* is an? .*np\.memmap takes its bytes"):
            package.file(tmp_path / "x", "u1")
    for data in (raw, b"{" + raw, bytes(8) + b"{" + raw, b"\x50\x2a\x4d" + raw):
        (tmp_path / "x").write_bytes(data)
        assert package.sum(package.file(tmp_path / "x", "u1")) == sum(data)


def test_packed_bytes_and_headers_are_not_raw_elements(package, tmp_path):  # noqa: F811
    """A type says what the elements are, not that bytes are packed, or that a header is one of them."""
    a = np.arange(4.0)
    np.save(tmp_path / "a.npy", a)
    np.savez(tmp_path / "a.npz", a=a)
    raw = a.tobytes()
    for name, data in (("gz", gzip.compress(raw)), ("xz", lzma.compress(raw)), ("bz2", bz2.compress(raw)), ("zst", b"\x28\xb5\x2f\xfd" + raw), ("nc", b"CDF\1" + raw),
                       ("h5", b"\x89HDF\r\n\x1a\n" + raw), ("parquet", b"PAR1" + raw)):
        (tmp_path / f"a.{name}").write_bytes(data)
    for name in ("npy", "npz", "gz", "xz", "bz2", "zst", "nc", "h5", "parquet"):
        with pytest.raises(ValueError, match=r"path: .* is an? .*np\.memmap takes its bytes"):
            package.file(tmp_path / f"a.{name}", "u1")
    (tmp_path / "raw").write_bytes(raw)
    assert package.sum(package.file(tmp_path / "raw", "f8")) == 6
    start = (tmp_path / "a.npy").stat().st_size - len(raw)
    assert package.sum(package.file(tmp_path / "a.npy", "f8", offset=start)) == 6, "where the elements begin is said"
