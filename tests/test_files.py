"""reducectl on common files: a file without an array is refused by the name of its format; members of .npz, safetensors, HDF5;
columns of tables; compressed streams; big-endian elements; all arrays of a file as a table."""
import gzip
import io
import json
import math
import os
import pathlib
import random
import re
import select
import struct
import subprocess
import zipfile
import zlib
from fractions import Fraction

import numpy as np
import pytest

import gens
import oracle
from conftest import BIN, ROOT, select_a_moment, sanitizer
from files import tensors
from piped import Piped

OK, FAILED = 0, 1
HDF5 = (BIN / "reducectl-hdf5").exists()
needs_hdf5 = pytest.mark.skipif(not HDF5, reason="built without libhdf5")


@pytest.fixture
def run(ctl, shared):
    def command(*args, **kw):
        done = ctl(*args, url=shared.url, **kw)
        assert done.returncode == OK, done.stderr.decode()
        return done.stdout.decode()

    return command


@pytest.fixture
def fails(ctl, shared):
    """fails(pattern, *args): exit code 1, nothing on standard output, the reason in one line."""

    def command(pattern, *args, **kw):
        done = ctl(*args, url=shared.url, **kw)
        text = done.stderr.decode()
        assert done.returncode == FAILED and done.stdout == b"" and re.search(pattern, text) and text.count("\n") == 1, (done.stdout, text)

    return command


def saved(array, fortran=False):
    out = io.BytesIO()
    np.save(out, np.asfortranarray(array) if fortran else array)
    return out.getvalue()


# ---- files without arrays ----
FOREIGN = {
    "bzip2": b"BZh91AY&SY", "xz": b"\xfd7zXZ\0\0\4", "Parquet": b"PAR1\x15\0", "Arrow": b"ARROW1\0\0", "Feather": b"FEA1\0\0", "GGUF": b"GGUF\3\0\0\0",
    "netCDF classic": b"CDF\1\0\0\0\0", "FITS": b"SIMPLE  =                    T", "PNG": b"\x89PNG\r\n\x1a\n", "JPEG": b"\xff\xd8\xff\xe0", "PDF": b"%PDF-1.7\n",
    "ELF": b"\x7fELF\2\1\1\0", "pickle": b"\x80\4\x95\0\0\0\0", "SQLite": b"SQLite format 3\0", "tar": bytes(257) + b"ustar\0", "TIFF": b"II*\0\10\0",
    "WAV": b"RIFF\0\1\0\0WAVEfmt "}


PACKED = ("bzip2", "xz", "lz4", "lz4 legacy", "lzip", "snappy", "RAR", "7z", "compress", "lzma", "zstd stream of 2016", "zip archive in parts")
TABLES = ("Parquet", "Arrow", "Feather", "GGUF", "netCDF classic", "FITS", "SQLite", "tar", "HDF4", "GRIB", "NIfTI", "NRRD", "of R", "Avro", "ORC", "MATLAB")
FOREIGN |= {"lz4": b"\4\x22\x4d\x18", "lz4 legacy": b"\2\x21\x4c\x18", "lzip": b"LZIP\1", "snappy": b"\xff\6\0\0sNaPpY", "RAR": b"Rar!\x1a\7\0", "7z": b"7z\xbc\xaf\x27\x1c"}
FOREIGN |= {"compress": b"\x1f\x9d\x90", "lzma": b"\x5d\0\0\x80\0", "zstd stream of 2016": b"\x27\xb5\x2f\xfd", "zip archive in parts": b"PK\7\x08PK\3\4", "HDF4": b"\x0e\3\x13\1",
            "GRIB": b"GRIB\0\0\0\2", "NIfTI": bytes(344) + b"n+1\0", "NRRD": b"NRRD0005\n", "of R": b"X\n\0\0\0\3", "Avro": b"Obj\1", "ORC": b"ORC", "MATLAB": b"MATLAB 5.0 MAT-file"}
CALLED = {"lz4 legacy": "lz4"}


@pytest.mark.parametrize("kind", PACKED + TABLES)
def test_packed_bytes_are_never_elements(fails, run, scratch, kind):
    """A type says what the elements are, not that they are packed, or numbers in another form: the bytes are summed only by --no-unpack."""
    data, name = FOREIGN[kind] + bytes(2048 - len(FOREIGN[kind])), CALLED.get(kind, kind)
    (scratch / "f").write_bytes(data)
    npy = scratch / "a.npy"
    npy.write_bytes(saved(np.zeros(2048)))
    for args in (["sum", "-t", "u8"], ["sum", "-t", "f32"], ["sum", "--text"], ["stats", "-t", ">i4"], ["put", "--replace", "x", "-t", "u8"]):
        fails(f"TYPE: this is .*{name}.*--no-unpack", *args, scratch / "f")
    fails(f"TYPE: this is .*{name}", "sum", "-t", "u8", stdin=data)
    fails(f"TYPE: this is .*{name}", "sum", "--mask", scratch / "f", npy)
    fails(f"TYPE: this is .*{name}", "sum", f"{scratch / 'f'}:a")
    assert run("sum", "-t", "u8", "--no-unpack", scratch / "f") == run("sum", "-t", "u8", "--no-unpack", stdin=data) == f"{sum(data)}\n"


def test_packed_streams_as_they_are(fails, run, scratch):
    """gzip, zstd and zip are unpacked unless --no-unpack says that their bytes are meant."""
    np.savez(scratch / "x.npz", np.arange(5))
    (scratch / "x.gz").write_bytes(gzip.compress(b"\1\2\3"))
    for name in ("x.npz", "x.gz"):
        data = (scratch / name).read_bytes()
        assert run("sum", "-t", "u8", "--no-unpack", scratch / name) == f"{sum(data)}\n"
    assert run("sum", "-t", "u8", scratch / "x.gz") == "6\n"
    fails("TYPE: --dtype says u8, the file i64", "sum", "-t", "u8", scratch / "x.npz")


@pytest.mark.parametrize("kind", FOREIGN)
def test_known_files_are_refused_by_name(fails, run, scratch, kind):
    data = FOREIGN[kind] + bytes(2048 - len(FOREIGN[kind]))
    (scratch / "f").write_bytes(data)
    name = CALLED.get(kind, kind)
    fails(f"TYPE: this is .*{name}", "sum", scratch / "f")
    fails(f"TYPE: this is .*{name}", "sum", stdin=data)
    if kind not in PACKED + TABLES:
        assert run("sum", "-t", "u8", scratch / "f") == f"{sum(data)}\n", "whoever names a type means the bytes"


def test_parquet_is_told_the_way_out(fails, scratch):
    (scratch / "f").write_bytes(FOREIGN["Parquet"])
    """Which tests/duckdb_extension/checks.py takes, word by word."""
    fails(r"duckdb -unsigned -c \"load './reduced.duckdb_extension'; select exact_sum\(COLUMN\) from 'FILE'\"", "sum", scratch / "f")


def test_raw_elements_need_a_type(fails, run, scratch):
    raw = np.arange(8, dtype="<f4").tobytes()
    (scratch / "raw").write_bytes(raw)
    fails("TYPE: raw elements need --dtype", "sum", scratch / "raw")
    fails("TYPE: raw elements need --dtype", "sum", stdin=raw)
    fails("TYPE: raw elements need --dtype", "put", "x", scratch / "raw")
    fails("TYPE: it is empty", "sum", stdin=b"")
    assert run("sum", "-t", "f32", scratch / "raw") == "28\n"


def test_text_is_not_elements(fails, run, scratch):
    (scratch / "a.csv").write_text("day,price\n1,2\n3,4\n")
    fails("TYPE: text: .*--text.*day, price", "sum", scratch / "a.csv")
    fails("TYPE: text", "sum", ROOT / "README.md")
    assert run("sum", "-t", "u8", scratch / "a.csv") == f"{sum((scratch / 'a.csv').read_bytes())}\n"
    for text in ("1 2 3 4\n", "1.5,2.5\n" * 100, "name,price\n" + "x,1\n" * 19 + "yy\n", "é" * 32):
        (scratch / "t").write_text(text)
        data = (scratch / "t").read_bytes()
        for kind in ("f64", ">i4", "u16", "bf16"):
            fails("TYPE: this is text: --text", "sum", "-t", kind, scratch / "t")
        fails("TYPE: this is text: --text", "sum", "-t", "f64", stdin=data)
        (scratch / "t.gz").write_bytes(gzip.compress(data))
        fails("TYPE: this is text: --text", "sum", "-t", "f64", scratch / "t.gz")
        assert run("sum", "-t", "u16", "--no-unpack", scratch / "t") == f"{np.frombuffer(data, '<u2').sum(dtype='u8')}\n"
        assert run("sum", "-t", "u8", scratch / "t") == f"{sum(data)}\n"
    for data in (b"123456\n", b"abcdefgh" * 7, b"1234567\0"):
        (scratch / "t").write_bytes(data[:len(data) // 2 * 2])
        run("sum", "-t", "u16", scratch / "t")


def test_put_says_its_own_reason(run, ctl, shared, scratch):
    """After a header that is fine, the daemon's refusal is the error."""
    path = scratch / "m.npy"
    path.write_bytes(saved(np.arange(3.0)))
    try:
        run("put", "reason", path)
        done = ctl("put", "reason", path, url=shared.url)
        assert done.returncode == FAILED and b"EXISTS" in done.stderr and b"header" not in done.stderr, done.stderr
        done = ctl("put", "-bad name", path, url=shared.url)
        assert b"header" not in done.stderr
        done = ctl("put", "bad/name", path, url=shared.url)
        assert done.returncode != OK and b"BAD_MESSAGE" in done.stderr and b"header" not in done.stderr, done.stderr
    finally:
        run("drop", "reason")


# ---- members ----
ARRAYS = {"a": np.random.default_rng(1).normal(size=(100, 7)), "n": np.arange(10, dtype="i4"), "big": np.arange(9, dtype=">i8"), "f": np.arange(12, dtype="f4").reshape(3, 4),
          "empty": np.zeros((0, 3), "f2"), "ok": np.array([True, False, True])}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(run, fails, scratch, save):
    path = scratch / "x.npz"
    save(path, **ARRAYS)
    lines = dict(reversed(line.split("  ")) for line in run("sum", path).splitlines())
    assert set(lines) == {f"{path}:{name}" for name in ARRAYS}
    for name, a in ARRAYS.items():
        want = math.fsum(a.reshape(-1).astype("f8"))
        assert float(lines[f"{path}:{name}"]) == want and float(run("sum", f"{path}:{name}")) == want
    assert run("max", "--axis", 0, f"{path}:a").split() == [repr(float(x)) for x in ARRAYS["a"].max(0)]
    assert run("sum", "--axis", 1, f"{path}:f").split() == ["6", "22", "38"]
    fails("TYPE: it has no member 'zz'; it has a, n, big", "sum", f"{path}:zz")
    fails("TYPE: --dtype says f32, the file f64", "sum", "-t", "f32", f"{path}:a")
    run("put", "--replace", "npz", f"{path}:a")
    assert float(run("sum", "@npz")) == math.fsum(ARRAYS["a"].reshape(-1))
    run("drop", "npz")


def test_npz_of_one_array_is_that_array(run, scratch):
    np.savez(scratch / "x.npz", np.arange(5))
    assert run("sum", scratch / "x.npz") == "10\n" == run("sum", f"{scratch / 'x.npz'}:arr_0")
    (scratch / "odd:name.npy").write_bytes(saved(np.arange(4)))
    assert run("sum", scratch / "odd:name.npy") == "6\n", "a file's own name may have a colon"


def test_npz_goes_by_file(run, scratch):
    np.savez(scratch / "x.npz", a=np.ones(1 << 20))
    assert json.loads(run("sum", "--json", f"{scratch / 'x.npz'}:a"))["path"] == "file"


def test_npz_that_zip64_describes(run, scratch):
    """As for members of 4 GiB and more: all sizes stand in extra fields."""
    body = saved(np.arange(100.0))
    name, extra = b"a.npy", lambda *v: struct.pack(f"<HH{len(v)}Q", 1, 8 * len(v), *v)
    ones = 2**32 - 1
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0, 0, 0, 0, zlib.crc32(body), ones, ones, len(name), 20) + name + extra(len(body), len(body))
    more = extra(len(body), len(body), 0)
    central = struct.pack("<4s6H3L5H2L", b"PK\1\2", 45, 45, 0, 0, 0, 0, zlib.crc32(body), ones, ones, len(name), len(more), 0, 0, 0, 0, ones) + name + more
    start = len(local) + len(body)
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(central), start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, start + len(central), 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, ones, ones, 0)
    (scratch / "x.npz").write_bytes(local + body + central + end64 + locator + end)
    assert zipfile.ZipFile(scratch / "x.npz").read("a.npy") == body
    assert run("sum", f"{scratch / 'x.npz'}:a") == "4950\n"


def test_damaged_npz(fails, scratch):
    out = io.BytesIO()
    np.savez_compressed(out, a=np.random.default_rng(2).normal(size=5000))
    good, path = out.getvalue(), scratch / "x.npz"
    for data, pattern in ((good[:-30], "IO: the zip archive has no end record: it is cut"), (good[:20000] + b"\0" * 9 + good[20009:], "IO: "), (good[:500] + good[600:], "")):
        path.write_bytes(data)
        fails(pattern, "sum", path)
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("readme.txt", "x")
    fails("TYPE: a zip archive without .npy", "sum", path)


def test_a_cut_file_is_an_io_error_in_all_formats(run, fails, scratch):
    """Whatever cuts it: the same code, and the word."""
    a = np.random.default_rng(3).normal(size=5000)
    np.savez(scratch / "x.npz", a=a)
    np.savez_compressed(scratch / "z.npz", a=a)
    tensors(scratch / "m.safetensors", {"a": ("F64", [5000], a.tobytes())})
    (scratch / "x.npy").write_bytes(saved(a))
    (scratch / "x.npy.gz").write_bytes(gzip.compress(saved(a)))
    names = ["x.npz", "z.npz", "m.safetensors", "x.npy", "x.npy.gz"]
    if HDF5:
        hdf5(scratch / "h.h5", lambda f: f.create_dataset("a", data=a))
        names.append("h.h5")
    for name in names:
        data = (scratch / name).read_bytes()
        for n in (len(data) - 1, len(data) // 2, 100 if name != "x.npy" else 60):
            (scratch / name).write_bytes(data[:n])
            fails("IO: .*(cut|holds|end)", "sum", scratch / name)


def test_a_stored_member_with_another_crc(run, fails, scratch):
    """Checked by --verify; packed ones always are. What has no checksum cannot be verified."""
    a = np.arange(3000.0)
    np.savez(scratch / "x.npz", a=a, b=a)
    np.savez_compressed(scratch / "z.npz", a=a)
    for name in (f"{scratch / 'x.npz'}:a", f"{scratch / 'x.npz'}:b", f"{scratch / 'z.npz'}:a", f"{scratch / 'z.npz'}"):
        assert run("sum", "--verify", name) == f"{int(a.sum())}\n"
    data = bytearray((scratch / "x.npz").read_bytes())
    data[data.index(struct.pack("<d", 77.0))] ^= 1  # of the first member
    (scratch / "x.npz").write_bytes(data)
    for args in (["sum"], ["stats"], ["put", "x"]):
        fails("IO: the zip member is damaged: its CRC is another", *args, "--verify", f"{scratch / 'x.npz'}:a")
    assert run("sum", "--verify", f"{scratch / 'x.npz'}:b") == f"{int(a.sum())}\n"
    (scratch / "x.npy").write_bytes(saved(a))
    (scratch / "x.npy.gz").write_bytes(gzip.compress(saved(a)))
    assert run("sum", "--verify", scratch / "x.npy.gz") == f"{int(a.sum())}\n"


def bf16(values):
    return (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes()


def test_safetensors(run, fails, scratch):
    w = np.random.default_rng(3).normal(size=(64, 9)).astype("<f4")
    path = tensors(scratch / "m.safetensors", {
        "layer.0.weight": ("F32", [64, 9], w.tobytes()), "layer.0.bias": ("BF16", [3], bf16([1, 2.5, -4])), "h": ("F16", [2], np.array([1, 2], "<f2").tobytes()),
        "steps": ("I64", [], struct.pack("<q", 7)), "quantised": ("F8_E4M3", [4], bytes(4)), "mask": ("BOOL", [3], b"\1\0\1")})
    assert float(run("sum", f"{path}:layer.0.weight")) == math.fsum(w.reshape(-1).astype("f8"))
    assert run("sum", f"{path}:layer.0.bias") == "-0.5\n" and run("sum", f"{path}:steps") == "7\n" and run("sum", f"{path}:mask") == "2\n"
    assert len(run("sum", "--axis", 0, f"{path}:layer.0.weight").split()) == 9
    fails("TYPE: elements of type 'F8_E4M3' cannot be reduced", "sum", f"{path}:quantised")


@pytest.mark.parametrize("header", [
    b"{ ", b'{"a":1}', b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}}', b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,800]}}',
    b'{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}', b'{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}',
    b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}', b'{"a":{"dtype":"F32","shape":[2]}}', b'{"a":{"shape":[2],"data_offsets":[0,8]}}',
    b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', b'{"a":' + b"[" * 5000])
def test_hostile_safetensors(fails, scratch, header):
    fails("BAD_MESSAGE: ", "sum", tensors(scratch / "m", {"a": ("F32", [2], bytes(8))}, header))


@pytest.mark.parametrize("spans, bytes_", [([(8, 16)], 16), ([(0, 8), (16, 24)], 24), ([(0, 8), (0, 8)], 8), ([(0, 8), (4, 12)], 12), ([(0, 8)], 9), ([], 1),
                                           ([(0, 8), (8, 16)], 17)])
def test_safetensors_have_no_holes(run, fails, scratch, spans, bytes_):
    """Nor bytes of two tensors, nor of none: the format forbids it, and other readers refuse such a file."""
    entries = {f"t{i}": {"dtype": "F32", "shape": [2], "data_offsets": span} for i, span in enumerate(spans)}
    header = json.dumps(entries).encode()
    path = scratch / "m.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(bytes_))
    fails("BAD_MESSAGE: .*(hole|two tensors|no tensor)", "sum", f"{path}:t0")
    entries |= {"full": {"dtype": "U8", "shape": [0], "data_offsets": [8, 8]}, "t1": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]},
                "t0": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    header = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    assert run("sum", f"{path}:t1") == "0\n"


# ---- bools ----
def test_bools_of_any_bytes(run, fails, scratch):
    """A byte that is not 0 is 1, in every container that has bools."""
    odd, more = bytes([0, 1, 2, 255, 3, 0]), bytes([0, 64])
    mask = np.frombuffer(odd, bool)
    np.save(scratch / "m.npy", mask)
    np.savez(scratch / "m.npz", m=mask)
    (scratch / "m.bin").write_bytes(odd)
    (scratch / "more.bin").write_bytes(more)
    tensors(scratch / "m.safetensors", {"m": ("BOOL", [6], odd)})
    run("put", "bools", scratch / "m.npy")
    files = [[scratch / "m.npy"], [f"{scratch}/m.npz:m"], [f"{scratch}/m.safetensors:m"], ["--dtype", "bool", scratch / "m.bin"], ["@bools"],
             ["--dtype", "|b1", scratch / "m.bin"]]
    for file in files:
        for op, value in (("sum", "4"), ("max", "1"), ("min", "0"), ("argmax", "1"), ("argmin", "0"), ("prod", "0"), ("count_nonzero", "4"), ("norminf", "1"),
                          ("sumsq", "4"), ("and", "0"), ("or", "1"), ("xor", "0"), ("range", "1"), ("any", "true"), ("all", "false")):
            assert run(op, *file).strip() == value, (op, file)
        assert float(run("mean", *file)) == 4 / 6
        assert run("sum", "--initial", 1, *file).strip() == "5"
    assert run("sum", "--total", "--dtype", "bool", scratch / "m.bin", scratch / "more.bin").strip() == "5"
    assert run("sum", "--dtype", "bool", "--rows", 2, scratch / "m.bin").split() == ["2", "2"]
    assert run("sum", "--axis", 0, "--dtype", "bool", "--rows", 2, scratch / "m.bin").split() == ["1", "2", "1"]
    assert run("argmax", "--dtype", "bool", "--text", "-", stdin=b"0 0 1 1").strip() == "2"
    fails("beyond the range of bool", "sum", "--dtype", "bool", "--text", "-", stdin=b"0 2")


# ---- names that strangers chose ----
EVIL = "x\x1b[31m\nreducectl: forged\u009b2J\u202e\x7f"
CLEAN = "x?[31m?reducectl: forged?2J??"
TERMINAL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def evil_npz(path, dtype):
    with zipfile.ZipFile(path, "w") as z:
        z.writestr(EVIL + ".npy", saved(np.ones(3, dtype)))
        z.writestr("y.npy", saved(np.ones(3)))
    return path


def evil_safetensors(path, dtype):
    return tensors(path, {EVIL: ("F64" if dtype == "f8" else "C64", [3], np.ones(3, dtype).tobytes()), "y": ("F64", [3], np.ones(3).tobytes())})


def evil_hdf5(path, dtype):
    def write(f):
        f[EVIL], f["y"] = np.ones(3, dtype), np.ones(3)
    return hdf5(path, write)


@pytest.mark.parametrize("make", [evil_npz, evil_safetensors, pytest.param(evil_hdf5, marks=needs_hdf5)])
def test_names_of_members_do_nothing_to_a_terminal(ctl, shared, scratch, make):
    """In values, tables, details and errors; JSON has them as they are."""
    path = make(scratch / "m", "f8")
    slash = "/" if make is evil_hdf5 else ""
    for args in (["sum", path], ["sum,max", path], ["stats", path], ["stats", "--dtype", "f64", path], ["sum", "-v", path], ["sum", "--progress", path],
                 ["argmax,sum", "--axis", 0, path], ["sum", f"{path}:none"], ["sum", "--dtype", "i32", path], ["min", "--axis", 3, path]):
        done = ctl(*args, url=shared.url)
        for stream in (done.stdout.decode(), done.stderr.decode()):
            assert not TERMINAL.search(stream) and "\nreducectl: forged" not in stream, (args, stream)
        assert CLEAN in done.stdout.decode() + done.stderr.decode(), (args, done)
    lines = ctl("sum", "--json", path, url=shared.url).stdout.decode().splitlines()
    assert {json.loads(line)["file"] for line in lines} == {f"{path}:{slash}{EVIL}", f"{path}:{slash}y"}
    done = ctl("sum", make(scratch / "c", "c8"), url=shared.url)
    assert done.returncode == FAILED and not TERMINAL.search(done.stderr.decode()) and CLEAN in done.stderr.decode(), done


# ---- HDF5 ----
def hdf5(path, script):
    """Have h5py write it, if there is one."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as f:
        script(f)
    return path


@needs_hdf5
def test_hdf5(run, fails, scratch):
    a = np.random.default_rng(4).normal(size=(100, 7))

    def write(f):
        f["u/temperature"] = a
        f["u/big"] = a.astype(">f4")
        f["large"] = np.ones(1 << 20)
        f["flag"] = a[0] > 0
        f["half"] = a.astype("f2")
        f["name"] = "hello"
        f["scalar"] = 3.5
        f.create_dataset("packed", data=a, chunks=(10, 3), compression="gzip", shuffle=True)
        f.create_dataset("chunks", data=a.astype(">f4"), chunks=(7, 7))
        f.create_dataset("late", (5,), "f8", fillvalue=2.0)
    path = hdf5(scratch / "r.h5", write)
    want = math.fsum(a.reshape(-1))
    for name in ("/u/temperature", "u/temperature", "packed"):
        assert float(run("sum", f"{path}:{name}")) == want
    for name in ("u/big", "chunks"):
        assert float(run("sum", f"{path}:{name}")) == math.fsum(a.astype("f4").reshape(-1).astype("f8"))
    assert run("sum", f"{path}:late") == "10\n" and run("sum", f"{path}:scalar") == "3.5\n" and run("sum", f"{path}:flag") == f"{(a[0] > 0).sum()}\n"
    assert run("max", "--axis", 0, f"{path}:packed").split() == [repr(float(x)) for x in a.max(0)]
    assert json.loads(run("sum", "--json", f"{path}:large"))["path"] == "file"
    fails("TYPE: elements of type 'string'", "sum", f"{path}:name")
    fails("TYPE: it has no member 'none'; it has /chunks", "sum", f"{path}:none")


@needs_hdf5
def test_bools_of_hdf5(run, scratch):
    """FALSE and TRUE of one byte are a bool; another enumeration has its numbers."""
    h5py = pytest.importorskip("h5py")
    odd = np.array([0, 1, 2, 255, 3, 0], np.uint8)

    def write(f):
        f["m"] = odd.view(bool)
        f.create_dataset("packed", data=odd.view(bool), chunks=(4,), compression="gzip")
        f.create_dataset("colours", data=odd % 3, dtype=h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 2}, "u1"))
        f.create_dataset("sides", data=np.array([-1, 1, -1], "i1"), dtype=h5py.enum_dtype({"LEFT": -1, "RIGHT": 1}, "i1"))
    path = hdf5(scratch / "r.h5", write)
    for name in ("m", "packed"):
        assert run("sum", f"{path}:{name}") == "4\n" and run("argmax", f"{path}:{name}") == "1\n" and run("max", f"{path}:{name}") == "1\n"
    assert run("sum", f"{path}:colours") == "3\n" and run("max", f"{path}:colours") == "2\n"
    assert run("sum", f"{path}:sides") == run("min", f"{path}:sides") == "-1\n", "255 and 511 as if it had no sign"


@needs_hdf5
def test_hdf5_leads_into_no_other_file(run, fails, scratch):
    def write(f):
        h5py = pytest.importorskip("h5py")
        f["here"] = np.ones(3)
        f["there"] = h5py.ExternalLink(str(scratch / "secret.h5"), "/x")
        f.create_dataset("raw", (8,), "u1", external=[(str(scratch / "secret"), 0, 8)])
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource(str(scratch / "secret.h5"), "x", (3,))
        f.create_virtual_dataset("virtual", layout)
    (scratch / "secret").write_bytes(bytes(range(8)))
    hdf5(scratch / "secret.h5", lambda f: f.create_dataset("x", data=np.ones(3)))
    path = hdf5(scratch / "r.h5", write)
    fails("TYPE: elements of type 'in other files'", "sum", f"{path}:raw")
    fails("TYPE: elements of type 'in other files'", "sum", f"{path}:virtual")
    fails("TYPE: it has no member 'there'", "sum", f"{path}:there")


@needs_hdf5
def test_netcdf_hides_its_names(run, fails, scratch):
    """A variable called as a dimension is, in the file, called otherwise; a dimension without a variable is a dataset."""
    def write(f):
        f["_nc4_non_coord_x"] = np.arange(4.0)
        f["g/_nc4_non_coord_y"] = np.arange(5.0)
        f["t"] = np.zeros(9, ">f4")
        f["t"].attrs["NAME"] = np.bytes_("This is a netCDF dimension but not a netCDF variable.         9")
    path = hdf5(scratch / "x.nc", write)
    assert run("sum", f"{path}:x") == run("sum", f"{path}:/x") == "6\n" and run("sum", f"{path}:g/y") == run("sum", f"{path}:/g/y") == "10\n"
    fails("TYPE: it has no member 't'", "sum", f"{path}:t")
    fails("TYPE: it has no member 'y'", "sum", f"{path}:y")


def safe(att, dtype):
    """netCDF4-python's _check_safecast: can the attribute be a value of the variable?"""
    with np.errstate(all="ignore"):
        att = np.atleast_1d(np.asarray(att))
        if att.dtype.kind in "US":
            return False
        cast = att.astype(dtype)
        return bool(((att == cast) | (att != att) & (cast != cast)).all())


def unpacked(data, attrs, default=None):
    """(values, which are there) as netCDF4-python masks, with values in f64 of two rounded steps."""
    dtype, view = data.dtype, lambda x: np.asarray(x).astype(dtype)
    if attrs.get("_Unsigned") in ("true", "True") and dtype.kind == "i":
        wide = np.dtype(dtype.str.replace("i", "u"))
        data, view = data.view(wide), lambda x: np.asarray(x).astype(dtype).view(wide)
    there = np.ones(data.shape, bool)
    words = [a for a in ("missing_value", "_FillValue") if a in attrs and safe(attrs[a], dtype)]
    for a in words:
        for m in np.atleast_1d(view(attrs[a])):
            there &= ~(np.isnan(data) if m != m else data == m)
    if "_FillValue" not in words and default is not None:
        there &= data != view(default)
    limits = attrs.get("valid_range")
    if limits is None or len(limits) != 2 or not safe(limits, dtype):
        limits = [attrs[a] if a in attrs and safe(attrs[a], dtype) else None for a in ("valid_min", "valid_max")]
    low, high = (None if x is None else view(x) for x in limits)
    there &= (True if low is None else ~(data < low)) & (True if high is None else ~(data > high))
    scale, offset = attrs.get("scale_factor"), attrs.get("add_offset")
    if scale is not None and (offset is not None or scale != 1):
        data = data.astype("f8") * np.float64(scale)
    if offset is not None and (scale is not None or offset != 0):
        data = data.astype("f8") + np.float64(offset)
    return data, there


def netcdf_fill(dtype):
    return 9.969209968386869e36 if dtype.kind == "f" else -(2**63) + 2 if dtype.itemsize == 8 else 1 - 2**(8 * dtype.itemsize - 1)


PACKED_BY = [
    {"_FillValue": -32767, "scale_factor": 0.01, "add_offset": 273.15}, {"scale_factor": np.float32(0.1)}, {"add_offset": 7}, {"scale_factor": 1.0}, {"missing_value": np.array([3, -7], "i2")},
    {"valid_range": np.array([-50, 60], "i2")}, {"valid_min": -20, "_FillValue": 5}, {"valid_max": 20, "scale_factor": 2.5}, {"_Unsigned": "true", "_FillValue": -1, "scale_factor": 0.5},
    {"_Unsigned": "true", "valid_max": -3}, {"_FillValue": 1e30}, {"missing_value": "none"}, {"_FillValue": 4.5, "missing_value": 9}, {"scale_factor": 1.0, "add_offset": 0.0}, {}]
PACKED_AS = ["<i2", ">f4", "i1", "<i8"]


@needs_hdf5
@pytest.mark.values
@pytest.mark.parametrize("dtype", PACKED_AS)
def test_netcdf_packing(run, scratch, dtype):
    """Attributes of netCDF say which elements are missing and what the others stand for, in every layout and by every way."""
    rng = np.random.default_rng(9)
    data = (rng.integers(0, 200, (30, 7)) - (0 if dtype[-2] == "u" else 100)).astype(dtype)
    data[3, 4] = data[7, 1] = np.array(5, dtype)
    if dtype in ("<i2", ">i2"):
        data[5] = -32767
    if dtype[-2] == "f":
        data[2, 2] = np.nan

    def write(f):
        f.attrs["_NCProperties"] = "version=2"
        for i, attrs in enumerate(PACKED_BY):
            for name, kind in ((f"p{i}", {}), (f"c{i}", {"chunks": (7, 7), "compression": "gzip"})):
                f.create_dataset(name, data=data, **kind).attrs.update(attrs)
    path = hdf5(scratch / "x.nc", write)
    for i, attrs in enumerate(PACKED_BY):
        if sanitizer() and (i + PACKED_AS.index(dtype)) % 4:
            continue  # each of them with one type
        values, there = unpacked(data, attrs, None if dtype == "i1" or "_Unsigned" in attrs else netcdf_fill(data.dtype))
        plain, packed = f"{path}:p{i}", f"{path}:c{i}"
        mean = lambda a, keep: float(sum(Fraction(v.item()) for v in a[keep] if v == v) / sum(1 for v in a[keep] if v == v))
        assert float(run("mean", "--nan", "omit", plain)) == float(run("mean", "--nan", "omit", packed)) == mean(values, there), attrs
        assert [float(x) for x in run("mean", "--nan", "omit", "--axis", i % 2, packed).split()] == [
            mean(a, k) if k.any() else pytest.approx(math.nan, nan_ok=True) for a, k in (zip(values, there) if i % 2 else zip(values.T, there.T))]
        assert float(run("mean", "--no-scale", "--nan", "omit", plain)) == mean(data, np.ones(data.shape, bool))
    table = columns(run("stats", "--nan", "omit", path))
    assert all(int(table[f"/p{i}"][1]) == int(run("count", "--nan", "omit", f"{path}:p{i}")) for i in range(len(PACKED_BY)))
    both = [f"{path}:p0", f"{path}:c0"]
    assert float(run("count", "--total", *both, "--nan", "omit")) == 2 * float(run("count", "--nan", "omit", both[0]))
    assert run("sum,max,std", "--nan", "omit", both[0]).split()[3] == run("sum", "--nan", "omit", both[0]).strip()


@needs_hdf5
def test_missing_weights_leave_out_their_elements(run, fails, scratch):
    """A pair is there if both of its numbers are. One weight for many elements has to be there."""
    x, y = np.array([[1, 2, 4], [8, 16, 32]], "f8"), np.array([[3, -9, 5], [7, 11, -9]], "f8")

    def write(f):
        f["x"], f["y"], f["z"], f["row"], f["line"] = x, y, x, y[0], y[:, 0]
        f["x"].attrs["missing_value"] = 8.0
        for name in ("y", "z", "row", "line"):
            f[name].attrs["_FillValue"] = -9.0
    path = hdf5(scratch / "w.nc", write)
    there = (y != -9) & (x != 8)
    total = float((x * y)[there].sum())
    for axes, sums in (((), [total]), (("--path", "stream"), [total]), (("--axis", "1"), (x * y * there).sum(1)), (("--axis", "0"), (x * y * there).sum(0))):
        for pair in ((f"{path}:x", f"{path}:y"), (f"{path}:y", f"{path}:x")):
            assert [float(v) for v in run("dot", *axes, *pair).split()] == list(sums), (axes, pair)
    assert float(run("wmean", "--weights", ":y", f"{path}:x")) == total / y[there].sum()
    assert float(run("dot", "--no-scale", f"{path}:x", f"{path}:y")) == (x * y).sum()
    (scratch / "x.csv").write_text("x\n" + "\n".join(map(str, x.ravel())))
    assert float(run("dot", "--weights", f"{path}:y", f"{scratch / 'x.csv'}:x")) == (x * y)[y != -9].sum()
    assert run("wsum", "--axis", 0, "--weights", ":line", f"{path}:x") == "3\n118\n236\n"
    hdf5(scratch / "m.nc", lambda f: f.create_dataset("m", data=np.array([1, 0, -1], "i1")).attrs.update({"_FillValue": np.int8(-1)}))
    (scratch / "three.u8").write_bytes(b"\1\2\4")
    fails("SHAPE: an element of the mask is missing", "sum", "--mask", f"{scratch / 'm.nc'}:m", "--dtype", "u8", scratch / "three.u8")
    assert run("sum", "--no-scale", "--mask", f"{scratch / 'm.nc'}:m", "--dtype", "u8", scratch / "three.u8") == "5\n"
    np.save(scratch / "x.npy", x)
    np.save(scratch / "some.npy", np.array([[1, 0, 1], [0, 1, 1]], "?"))
    fails("SHAPE: a weight beside a mask is missing", "dot", "--mask", scratch / "some.npy", scratch / "x.npy", f"{path}:y")
    assert run("dot", "--mask", scratch / "some.npy", scratch / "x.npy", f"{path}:z") == "1297\n"
    fails("SHAPE: a weight for a place along an axis is missing", "wsum", "--axis", 1, "--weights", ":row", f"{path}:x")


@needs_hdf5
def test_what_netcdf_never_wrote(run, fails, scratch):
    """Without _FillValue the default fill value of the type is missing, in files of netCDF and not in others; HDF5's own fill values
    are values, as for h5py."""
    fills = {"i2": -32767, "i4": -2147483647, "i8": -(2**63) + 2, "u2": 65535, "u4": 2**32 - 1, "u8": 2**64 - 2, "f4": 9.969209968386869e36, "f8": 9.969209968386869e36}

    def write(f, netcdf):
        if netcdf:
            f.attrs["_NCProperties"] = "version=2"
        for kind, fill in fills.items():
            a = f.create_dataset(kind, (6,), kind, fillvalue=fill, chunks=(3,))
            a[:3] = [1, 2, 3]
        for kind, fill in fills.items():
            f.create_dataset(f"unfilled_{kind}", data=np.array([1, 2, 3, fill], kind))
            f.create_dataset(f"other_{kind}", data=np.array([1, 2, 3, fill], kind)).attrs["_Unsigned"] = "true"
        for kind, fill in (("i1", -127), ("u1", 255)):
            f.create_dataset(kind, (4,), kind, fillvalue=fill)
            f.create_dataset(f"unfilled_{kind}", data=np.array([1, 2, 3, fill], kind))
            f.create_dataset(f"other_{kind}", (4,), kind, fillvalue=fill).attrs["_Unsigned"] = "true"
    for netcdf in (True, False):
        path = hdf5(scratch / f"n{netcdf}.nc", lambda f: write(f, netcdf))
        for kind, fill in fills.items():
            assert run("count", f"{path}:{kind}") == ("3\n" if netcdf else "6\n"), (kind, netcdf)
            assert run("mean", f"{path}:{kind}") == "2\n" or not netcdf
            assert run("count", "--no-scale", f"{path}:{kind}") == "6\n"
        for kind in (*fills, "i1", "u1"):
            unfilled = 4 if not netcdf or kind[1] == "1" else 3
            other = 4 if not netcdf or kind[0] == "i" else 0 if kind == "u1" else 3
            assert run("count", f"{path}:unfilled_{kind}") == f"{unfilled}\n", (kind, netcdf)
            assert run("count", f"{path}:other_{kind}") == f"{other}\n", (kind, netcdf)
        assert run("count", f"{path}:i1") == run("count", f"{path}:u1") == ("0\n" if netcdf else "4\n")
    fails("TYPE: its attributes say which elements are missing", "put", "x", f"{scratch / 'nTrue.nc'}:i2")
    fails("SHAPE: it says itself which elements are missing", "sum", "--mask", f"{scratch / 'nTrue.nc'}:i1", f"{scratch / 'nTrue.nc'}:i2")
    path = hdf5(scratch / "odd.nc", lambda f: f.create_dataset("a", data=np.arange(4)).attrs.update({"scale_factor": np.array([1.0, 2])}))
    fails("TYPE: elements of type 'i64 in an unknown packing'", "sum", f"{path}:a")
    assert run("sum", "--no-scale", f"{path}:a") == "6\n"
    for name, value in (("scale_factor", "0.5"), ("add_offset", "none"), ("scale_factor", np.zeros(0)), ("add_offset", np.zeros(2))):
        path = hdf5(scratch / "odd.nc", lambda f: f.create_dataset("a", data=np.arange(4)).attrs.update({name: value}))
        fails("TYPE: elements of type 'i64 in an unknown packing'", "sum", f"{path}:a")


@needs_hdf5
def test_paths_that_hdf5_accepts(run, fails, scratch):
    """Soft links, further hard links, dots and slashes lead to the dataset, as for h5py."""
    def write(f):
        h5py = pytest.importorskip("h5py")
        f["g/a"] = np.arange(4.0)
        f["soft"] = h5py.SoftLink("/g/a")
        f["group"] = h5py.SoftLink("g")
        f["hard"] = f["g/a"]
        f["nowhere"] = h5py.SoftLink("/none")
        f["round"] = h5py.SoftLink("/round")
        f["away"] = h5py.ExternalLink(str(scratch / "other.h5"), "/x")
    hdf5(scratch / "other.h5", lambda f: f.create_dataset("x", data=np.ones(3)))
    path = hdf5(scratch / "l.h5", write)
    for name in ("g/a", "/g/a", "soft", "/soft", "group/a", "/group/a", "hard", "g//a", "/g/./a", "./g/a"):
        assert run("sum", f"{path}:{name}") == "6\n", name
    for name in ("nowhere", "round", "away", "g", "g/b", "../g/a"):
        fails("TYPE: it has no member", "sum", f"{path}:{name}")


@needs_hdf5
def test_one_dataset_that_libhdf5_does_not_know(run, fails, scratch):
    """A dataset of a layout from the future is named; the others are read."""
    def write(f):
        f["new"] = np.arange(3.0)
        f["old"] = np.arange(4.0)
    path = hdf5(scratch / "v.h5", write)
    data = bytearray(path.read_bytes())
    layouts = [m.start() for m in re.finditer(rb"\x08\x00\x18\x00.\x00\x00\x00\x03\x01", bytes(data), re.S)]
    assert len(layouts) == 2
    data[layouts[0] + 8] = 9  # the version of the layout of the first
    path.write_bytes(data)
    assert run("sum", f"{path}:old") == "6\n"
    fails("TYPE: elements of type 'unknown to this libhdf5' cannot be reduced", "sum", f"{path}:new")


@needs_hdf5
@pytest.mark.parametrize("block", [512, 1024, 2048, 65536])
@pytest.mark.parametrize("content", [b"", b"a;text\n1;2\n"])
def test_hdf5_behind_a_user_block(run, scratch, block, content):
    h5py = pytest.importorskip("h5py")
    with h5py.File(scratch / "u.h5", "w", userblock_size=block) as f:
        f["a"] = np.arange(4.0)
        f.create_dataset("packed", data=np.arange(100), chunks=(7,), compression="gzip")
    with open(scratch / "u.h5", "r+b") as f:
        f.write(content)
    assert run("sum", f"{scratch / 'u.h5'}:a") == "6\n" and run("sum", f"{scratch / 'u.h5'}:packed") == "4950\n"
    assert len(run("sum", scratch / "u.h5").splitlines()) == 2


@needs_hdf5
def test_a_missing_filter_is_named(fails, scratch):
    h5py = pytest.importorskip("h5py")

    def write(f):
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk((4,))
        plan.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
        h5py.h5d.create(f.id, b"a", h5py.h5t.NATIVE_DOUBLE, h5py.h5s.create_simple((4,)), plan).write_direct_chunk((0,), b"?" * 30, 0)
    fails("IO: the filter 32015 .*of its elements.* is missing", "sum", f"{hdf5(scratch / 'f.h5', write)}:a")


@needs_hdf5
def test_damaged_hdf5(fails, scratch):
    (scratch / "h").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(2000))
    fails("IO: libhdf5 cannot open it", "sum", scratch / "h")
    fails("TYPE: a pipe of it", "sum", stdin=(scratch / "h").read_bytes())


@pytest.mark.unsanitized  # libhdf5 itself reads beyond its buffers then; it runs in a program of its own for that reason
@needs_hdf5
def test_hostile_hdf5_ends_with_a_typed_error(ctl, shared, scratch):
    """Bytes changed anywhere: the values may be others, but nothing hangs, and what fails is said in a line."""
    def write(f):
        f["u/a"] = np.arange(600.0).reshape(20, 30)
        f.create_dataset("u/packed", data=np.arange(600.0).reshape(20, 30), chunks=(7, 7), compression="gzip", shuffle=True)
        f["name"] = "hello"
    good, rng = hdf5(scratch / "good.h5", write).read_bytes(), np.random.default_rng(8)
    for i in range(40):
        data = bytearray(good)
        for at in rng.integers(0, len(good) if i % 2 else 2500, 1 + i % 5):
            data[at] = rng.integers(256)
        (scratch / "h.h5").write_bytes(data)
        done = ctl("sum", scratch / "h.h5", url=shared.url)
        assert done.returncode in (OK, FAILED), (i, done)
        for line in done.stderr.decode().splitlines():
            assert re.match(r"reducectl: .*: (IO|TYPE|BAD_MESSAGE|TOO_LARGE|NO_MEMORY|SHAPE): .", line), line


@needs_hdf5
@pytest.mark.slow
def test_hdf5_has_little_processor_time(fails, scratch):
    """libhdf5 walks groups in groups in a time that grows with the cube of their number."""
    def write(f):
        for _ in range(3000):
            f = f.create_group("g")
    fails(r"IO: libhdf5 computed for 10 s without a result \(RLIMIT_CPU\)", "sum", hdf5(scratch / "deep.h5", write))


@pytest.mark.unsanitized  # it is in no sandbox then
@needs_hdf5
def test_the_reader_of_hdf5_is_confined_and_ends_with_its_parent(scratch):
    path = hdf5(scratch / "r.h5", lambda f: f.create_dataset("x", data=np.random.default_rng(0).random(1 << 20), chunks=(1 << 16,)))
    script = f'"{BIN}/reducectl-hdf5" read /x <"$0" & echo $! >&2; wait'
    with subprocess.Popen(["sh", "-c", script, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as parent:
        pid = int(parent.stderr.readline())
        ended = os.pidfd_open(pid)
        while "\nSeccomp:\t2" not in pathlib.Path(f"/proc/{pid}/status").read_text():
            select_a_moment(parent)
        limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
        assert re.search(r"Max cpu time +1\d +", limits) and re.search(r"Max address space +8589934592 ", limits), limits
        parent.kill()  # nobody reads what the program writes, and nobody ends it
        assert select.select([ended], [], [], 60)[0]
        os.close(ended)


# ---- tables ----
TABLE = 'day,price,"vol, total",note\n2020-01-01,1.5,10,"a ""b"" c"\n2020-01-02,,20,x\n"2020\n01",2.5,"3e1",NA\n\n2020-01-04,nan,-1e400,7\n'


def test_columns(run, fails, scratch):
    path = scratch / "t.csv"
    path.write_text(TABLE)
    assert run("sum", f"{path}:price") == "nan\n" and run("sum", "--nan", "omit", f"{path}:price") == "4\n"
    assert run("argmax", "--nan", "omit", f"{path}:2") == "2\n", "the row, counted from 0"
    fails("TYPE: line 7: '-1e400' is beyond the range of f64", "sum", f"{path}:3")
    fails("TYPE: line 2: '2020-01-01' is not a number", "sum", f"{path}:day")
    fails("TYPE: line 2: 'a \"b\" c' is not a number", "sum", f"{path}:note")
    fails("TYPE: no column 'Price'; there are day, price, vol, total, note", "sum", f"{path}:Price")
    fails("TYPE: no column '5'", "sum", f"{path}:5")
    path.write_text("9007199254740993\t1\n-5\t2\n")  # no header
    assert run("sum", "-t", "i64", f"{path}:1") == "9007199254740988\n" and run("sum", f"{path}:2") == "3\n"
    path.write_text("a\r\n0.1\r\n\r\n 0.2 \r\n0.3")
    assert float(run("sum", f"{path}:a")) == math.fsum([0.1, 0.2, 0.3])
    path.write_bytes(b"\xef\xbb\xbfa;b\n1;2\n3;4\n")
    assert run("sum", f"{path}:a") == "4\n" and run("sum", f"{path}:b") == "6\n"
    path.write_text("a,b\n1\n")
    fails("TYPE: line 2: 1 field, but the first line has 2", "sum", f"{path}:b")
    path.write_text("a,b,a\n1,2,3\n")
    fails("TYPE: 2 columns are called 'a'.*; there are a, b, a", "sum", f"{path}:a")
    assert run("sum", f"{path}:b") == "2\n" and run("sum", f"{path}:3") == "3\n"
    path.write_text("a,b\n1,\n")
    fails("TYPE: line 2: .*missing", "sum", "-t", "i32", f"{path}:b")
    path.write_text("a,b\n1,-70000\n")
    fails("TYPE: line 2: '-70000' is beyond the range of f16", "sum", "-t", "f16", f"{path}:b")
    path.write_text("," * (1 << 20))  # columns beyond counting
    fails("TOO_LARGE: line 1 is longer", "sum", f"{path}:a")
    path.write_text("a" + ",b" * 400_000 + "\n" + "1" + ",2" * 400_000 + "\n")
    assert run("sum", f"{path}:a") == "1\n" and run("sum", f"{path}:400001") == "2\n"
    path.write_text('a,b\n1,"' + "x" * (3 << 20))
    fails("TOO_LARGE: line 2 is longer", "sum", f"{path}:a")


def table(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_every_line_has_the_fields_of_the_first(run, fails, scratch):
    """One more, one less, row names as R writes them: the columns would be others."""
    path = scratch / "t.csv"
    for text, column, line, n, first in (("item,grams\nflour,748\nwater,1,691\n", "grams", 3, 3, 2), ("a,b\nx,1,2\ny,3,4\n", "a", 2, 3, 2), ("a;b\n1;2\n3;4;\n", "b", 3, 3, 2),
                                         ("a\tb\tc\n1\t2\t3\n\n1\t2\n", "a", 4, 2, 3), ('a,b\n"1\n2",3\n4\n', "b", 4, 1, 2), ('a,b\n1,"2"\n"3",4,"5"\n', "a", 3, 3, 2)):
        fails(f"TYPE: line {line}: {n} fields?, but the first line has {first}", "sum", f"{table(path, text)}:{column}")
    long = "a,b,c\n" + "1,2,3\n" * 50_000
    for bad in ("1,2\n", "1,2,3,4\n", '"1",2\n'):
        fails("TYPE: line 50002: . fields?, but", "sum", f"{table(path, long + bad + '1,2,3' * 9)}:a")
    assert run("sum", f"{table(path, long)}:c") == "150000\n"


def test_what_the_first_lines_leave_open_is_refused(run, fails, scratch):
    """The delimiter: of two that divide all lines alike none is taken. The header: years, numbers of columns, names beside numbers."""
    path = scratch / "t.csv"
    two = table(path, "1,5;2,5\n3,5;4,5\n")
    fails(r"fields may be separated by ',' \(3 in the first line\) or ';' \(2 in the first line\): --delimiter", "sum", f"{two}:1")
    assert run("sum", "--delimiter", ";", "--decimal", ",", f"{two}:1") == run("sum", "--decimal", ",", f"{two}:1") == "5\n"
    fails("line 1: '1,5' is not a number", "sum", "--delimiter", ";", "--no-header", f"{two}:1")
    assert run("sum", "--delimiter", ",", "--no-header", f"{two}:1") == "4\n"
    assert run("sum", "--decimal", ",", "--no-header", f"{table(path, 'x,' + chr(34) + ';1' + chr(10) + chr(34) + '2' + chr(34) + ';4' + chr(10))}:2") == "5\n"
    assert run("sum", f"{table(path, 'name;price' + chr(10) + 'foo, bar;1' + chr(10) + 'x;2' + chr(10))}:price") == "3\n"
    open_headers = ("2019,2020\n5,9\n3,4\n", "0,1,2\n5,9,1\n3,4,1\n", ",2019,2020\nx,9,1\n", "setosa,1\nversicolor,2\nvirginica,3\n", "2020\n1\n", "1,7\n0.5,1.5\n2.5,3.5\n", "0.25,0.5\n1,2\n3,4\n")
    for text in open_headers:
        last = text.split("\n")[0].count(",") + 1
        fails("may be a header or not: --header or --no-header says which; it has", "sum", f"{table(path, text)}:#{last}")
        rows = [line.split(",") for line in text.splitlines()]
        for option, first in (("--header", 1), ("--no-header", 0)):
            assert float(run("sum", option, f"{path}:#{last}")) == sum(float(r[-1]) for r in rows[first:]), (text, option)
    for text, want in (("1,5\n2,9\n", 14), ("1,2\n3,4\n", 6), ("a,b\n1,2\n", 2), ("a,b\n", 0), ("x,1.5\nx,2.5\n", 4), ("x,3,3\ny,4,4\n", 7), ("-1,4\n1,5\n", 9), ("a,2019\n1,7\n", 7), ("2019,1\n2020,2\n", 3)):
        fields = text.split("\n")[0].count(",") + 1
        assert float(run("sum", f"{table(path, text)}:#{fields}")) == want, text


def test_a_number_that_is_a_name_too(run, fails, scratch):
    path = table(scratch / "t.csv", "4,150,setosa,3\n5.1,3.5,1.4,0\n4,2,1,7\n")
    fails("'3' is a column's name and another's number: '=3' or '#3' says which; there are 4, 150, setosa, 3", "sum", f"{path}:3")
    assert [run("sum", f"{path}:{c}").strip() for c in ("=3", "#3", "=4", "#4", "150", "2", "#2", "setosa")] == ["7", "2.4", "9.1", "7", "5.5", "5.5", "5.5", "2.4"]
    for wrong in ("=9", "#9", "#0", "=", "#x", "=2"):
        fails("TYPE: no column '", "sum", f"{path}:{wrong}")
    path = table(scratch / "t.csv", "#1,=b\n5,6\n")
    assert run("sum", f"{path}:#1") == run("sum", f"{path}:=#1") == "5\n" and run("sum", f"{path}:==b") == "6\n"


def test_lists_and_ranges_of_columns(ctl, shared, run, scratch):
    """Each column gives a line, as members do; with --total they are one array."""
    path = table(scratch / "t.csv", 'a,"b, c",d,e\n1,2,3,4\n10,20,30,40\n')
    assert run("sum", f"{path}:#1,#3-#4,=b, c") == "".join(f"{v}  {path}:{c}\n" for v, c in ((11, "#1"), (33, "#3"), (44, "#4"), (22, "=b, c")))
    assert run("sum", "--total", f"{path}:#1-4") == "110\n"
    assert [line.split()[1:3] for line in run("sum,max", f"{path}:=a,=d").splitlines()] == [["sum", "max"], ["11", "10"], ["33", "30"]]
    for wrong in ("#1,#x", "#2-#1", "#1-", "#1-#99999999", "#1,#0"):
        done = ctl("sum", f"{path}:{wrong}", url=shared.url)
        assert done.returncode == 2 and b"is not a column or a range of columns" in done.stderr, (wrong, done)
    assert run("sum", "/dev/stdin:#1,#2", stdin=b"1,2\n3,4\n") == "4  /dev/stdin:#1\n6  /dev/stdin:#2\n"


def test_integers_beside_other_numbers_keep_their_digits(run, fails, scratch):
    """In a text of integers and NaNs or decimals, an integer that f64 would round is refused, wherever it stands."""
    large, path = 2**53 + 1, scratch / "t"
    for text in (f"{large} nan", f"nan {large}", f"1 NaN {-large}\n", f"nan {2**64 + 1}", "1 " * 400_000 + f"nan {large} " + "2 " * 9, f"{large} " + "1 " * 900_000 + "nan",
                 f"{large} 0.5", f"0.5\n{-large}", f"1e3 nan +{large} ", "0.5 0x20000000000001", f"{10**23} 1e23", "1.5 " * 9 + f"000{large} " + "2 " * 99, f"-0 {large}"):
        path.write_text(text)
        for policy in ("omit", "propagate"):
            fails("TYPE: line [12]: '[-+]?[0-9x]+' would be rounded to f64: --dtype f64 allows that", "max", "--text", "--nan", policy, path)
        fails("TYPE: line [12]: '[-+]?[0-9x]+' would be rounded to f64|as at the pipe's beginning", "max", "--text", "--nan", "omit", stdin=text.encode())
        assert float(run("max", "--text", "--nan", "omit", "--dtype", "f64", path)) == max(float(int(t, 16)) if "x" in t else float(t) for t in text.split() if t.lower() != "nan")
        table(path, "x,y\n" + "".join(f"{t},1\n" for t in text.split()))
        fails("TYPE: line [0-9]+: '[-+]?[0-9x]+' would be rounded to f64", "max", f"{path}:x")
    for more in (("--out", "f32"), ("--initial", "0.5")):
        fails("would be rounded to f64", "sum", "--text", *more, stdin=f"{large}".encode())
    for text, most in ((f"{2**53} nan 3", 2.0**53), (f"{2**60} nan", 2.0**60), (f"{large}.0 nan 0.5", float(large)), ("nan " * 300_000 + "7", 7.0), ("nan", None),
                       (f"{int(1e23)} 0.5", 1e23), (f"{2**70} {2**63 + 2048} 1e3", 2.0**70)):
        path.write_text(text)
        assert most is None or float(run("max", "--text", "--nan", "omit", path)) == most == float(run("max", "--text", "--nan", "omit", stdin=text.encode()))
        assert run("count_nan", "--text", path) == f"{text.split().count('nan')}\n"
    assert run("max", "--nan", "omit", f"{table(path, f'a,b{chr(10)}{large},1{chr(10)}NAN,2{chr(10)}-NAN,3{chr(10)}')}:a") == f"{large}\n"


def test_text_behind_quotes_belongs_to_no_number(run, fails, scratch):
    """"1"2 is not 12, and what stands behind the quotes of other columns does not matter."""
    for field in ('"1"2', '"1" 2', '""1', '"1"x', ' "1"2 ', '"1"" "2'):
        fails("TYPE: line 3: .*has text behind its quotes", "sum", f"{table(scratch / 't.csv', f'a,b{chr(10)}5,1{chr(10)}{field},2{chr(10)}')}:a")
        assert run("sum", f"{scratch / 't.csv'}:b") == "3\n"
    assert run("sum", f"{table(scratch / 't.csv', 'a,b' + chr(10) + ' ' + chr(34) + '1' + chr(34) + ' ,2' + chr(13) + chr(10))}:a") == "1\n"
    assert run("sum", f"{table(scratch / 't.csv', 'b,a' + chr(13) + chr(10) + '2,' + chr(34) + '1' + chr(34) + chr(13) + chr(10))}:a") == "1\n"


def test_years_over_counts_may_be_names(run, fails, scratch):
    """Counts that happen to ascend below years say nothing of the years."""
    for text in ("2019,2020\n1,2\n3,4\n", "2019,2020\n1,2\n", '"2019","2020"\n5,6\n7,8\n', "2000,2001\n2202,2203\n"):
        for column in ("#1", "2019", "=2020"):
            fails("the first line may be a header or not", "sum", f"{table(scratch / 't.csv', text)}:{column}")
        assert int(run("count", "--header", f"{scratch / 't.csv'}:#1")) + 1 == int(run("count", "--no-header", f"{scratch / 't.csv'}:#1"))
    assert run("count", f"{table(scratch / 't.csv', '2019,2020' + chr(10) + '2021,2022' + chr(10))}:#1") == "2\n"


def test_a_name_of_two_members_is_refused(fails, run, scratch):
    with pytest.warns(UserWarning), zipfile.ZipFile(scratch / "d.npz", "w") as z:
        for name, value in (("x", 1), ("y", 5), ("x", 2)):
            z.writestr(f"{name}.npy", saved(np.array([value])))
    fails("TYPE: 2 members are called 'x'", "sum", f"{scratch / 'd.npz'}:x")
    assert run("sum", f"{scratch / 'd.npz'}:y") == "5\n"


def test_masks_and_elements_have_one_order(fails, run, scratch):
    """Bytes without a shape have C order, as numpy's tofile writes them, and so do arrays that are joined."""
    a, keep = np.arange(12.0).reshape(3, 4), np.arange(12).reshape(3, 4) % 3 > 0
    for name, array in (("c", a), ("f", np.asfortranarray(a)), ("row", np.asfortranarray(a[:1])), ("keep", keep), ("fkeep", np.asfortranarray(keep)), ("two", np.concatenate([keep, keep]))):
        np.save(scratch / f"{name}.npy", array)
    keep.tofile(scratch / "raw")
    keep[:1].tofile(scratch / "raw1")
    c, f = scratch / "c.npy", scratch / "f.npy"
    for mask, files in (("raw", [f]), ("keep.npy", [f]), ("fkeep.npy", [c]), ("two.npy", ["--total", c, f]), ("two.npy", ["--total", f, c]), ("two.npy", ["--total", f, f])):
        fails("SHAPE: mask and elements must have the same shape and order", "sum", "--mask", scratch / mask, *files)
    for mask, file in (("raw", c), ("keep.npy", c), ("fkeep.npy", f)):
        assert float(run("sum", "--mask", scratch / mask, file)) == a[keep].sum()
    assert float(run("sum", "--mask", scratch / "two.npy", "--total", c, c)) == 2 * a[keep].sum()
    assert float(run("sum", "--mask", scratch / "raw1", scratch / "row.npy")) == a[:1][keep[:1]].sum()


def test_integers_of_columns_stay_integers(run, fails, ctl, shared, scratch):
    """Ids and stamps are exact, sums have 128 bits; with missing ones too, under omit, and every line keeps its index."""
    r = random.Random(5)
    path = scratch / "t.csv"
    values = [r.choice((None, r.randrange(2**62, 2**63), -r.randrange(2**62), 3)) for _ in range(30_000)]
    known = [v for v in values if v is not None]
    path.write_text("id,x\n" + "".join(f"{'' if v is None else v},1\n" for v in values))
    omit = ("--nan", "omit", f"{path}:id")
    assert [int(run(op, *omit)) for op in ("sum", "max", "min")] == [sum(known), max(known), min(known)]
    assert [int(run(op, *omit)) for op in ("argmax", "argmin", "count", "count_nan")] == [values.index(max(known)), values.index(min(known)), len(known), values.count(None)]
    assert int(run("argmin", "--index-base", 1000, *omit)) == 1000 + values.index(min(known))
    stats = dict(line.split() for line in run("stats", *omit).splitlines())
    assert [int(stats[k]) for k in ("count", "nans", "sum", "max", "argmax")] == [len(known), values.count(None), sum(known), max(known), values.index(max(known))]
    told = json.loads(run("max", "--json", *omit))
    assert (told["value"], told["count"]) == (max(known), len(values))
    fails("NAN|would be rounded to f64", "sum", "--nan", "error", f"{path}:id")
    fails("TYPE: line [0-9]+: '-?[0-9]+' would be rounded to f64", "max", f"{path}:id")
    parts = []
    for begin in range(0, len(values), 7000):
        part = table(scratch / "part.csv", "id,x\n" + "".join(f"{'' if v is None else v},1\n" for v in values[begin:begin + 7000]))
        for op, base in (("stats", ("--index-base", begin)), ("count_nan", ()), ("max", ())):
            to = scratch / f"{op}{begin}"
            to.write_bytes(ctl(op, "--partial", *base, "--nan", "omit", f"{part}:id", url=shared.url).stdout)
        parts.append(begin)
    merged = {op: run(op, "--merge", *[scratch / f"{op}{begin}" for begin in parts]) for op in ("stats", "count_nan", "max")}
    assert merged == {op: run(op, *omit) for op in merged}
    assert int(run("sum", "--total", "--nan", "omit", f"{path}:id", f"{path}:x")) == sum(known) + len(values)
    assert int(run("argmax", "--total", "--nan", "omit", f"{path}:x", f"{path}:id")) == len(values) + values.index(max(known))
    wide = table(path, f"a,b\n{2**64},1\n{-2**70},2\n7,\n")
    assert int(run("sum", f"{wide}:a")) == 2**64 - 2**70 + 7 and run("max", f"{wide}:a") == f"{2**64}\n"
    assert run("sum,mean", "--nan", "omit", f"{wide}:b").split()[2:] == ["3", "1.5"]
    stamps = table(path, "t\n" + "".join(f"{1700000000000000000 + i}\n" for i in range(100)))
    assert run("max", f"{stamps}:t") == "1700000000000000099\n" and run("argmax", f"{stamps}:t") == "99\n"
    late = table(path, "t,u\n" + "1,\n" * 600_000 + "0.5,2\n")
    assert run("sum", f"{late}:t") == "600000.5\n" and run("argmax", "--nan", "omit", f"{late}:u") == "600000\n"
    assert json.loads(run("count_nan", "--json", "--nan", "omit", f"{late}:u"))["value"] == 600_000


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("kind", ["pipe", "fifo", "socket"])
def test_a_piped_column_whose_type_shows_late(run, kind, packed):
    """A pipe is read once: it is not opened again for the type that the last number shows."""
    text = b"t,u\n" + b"1,\n" * 1_200_000 + b"0.5,2\n"
    late = gzip.compress(text, 1) if packed else text
    for op, wanted in ("sum", "1200000.5"), ("median", "1"), ("sum,max", "sum  max 1200000.5    1"):
        assert run(op, Piped(late, kind, ":t")).split() == wanted.split(), op
    assert run("argmax", "--nan", "omit", Piped(late, kind, ":u")) == "1200000\n"


@pytest.mark.parametrize("comment", ['# a', '# a, "b', '#"', '# "a", "', '#,"a"b'])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_a_quote_in_a_comment_opens_nothing(run, scratch, comment, end):
    """A comment ends with its line, whatever is in it: no record behind it is taken into quotes."""
    for key in "k", '"k"':
        for count in 3, 300, 30_000:  # within the first records, and behind them; an even and an odd number of comments
            lines = [f"{key},{i}" + f"{end}{comment}" * (i % 100 == 1) for i in range(count)]
            for head in "k,v", f"{comment}{end}k,v":
                path = table(scratch / "t.csv", end.join([head, *lines]) + end)
                assert run("count,sum", "--comment", "#", f"{path}:v").split()[2:] == [str(count), str(count * (count - 1) // 2)]


def test_tables_of_all_dialects(run, fails, scratch):
    path = scratch / "t.csv"
    for end in ("\n", "\r\n", "\r"):
        lines = ["# made by hand", "#", "'n,ame'|price", "a|1,5", "'it''s|x'|-2,5", "", "# within", "b|k.A.", "c|10"]
        text = end.join(lines) + end
        options = ("--comment", "#", "--delimiter", "|", "--decimal", ",", "--quote", "'", "--missing", "k.A.,-", "--nan", "omit")
        assert run("sum", *options, f"{table(path, text)}:price") == "9\n" == run("sum", *options, f"{table(path, text.rstrip(end))}:#2")
        assert run("argmax", *options, f"{path}:price") == "3\n" and run("count_nan", *options, f"{path}:price") == "1\n"
        assert run("sum", "--skip-lines", 1, *options[:-4], "--missing", "k.A.", "--nan", "omit", f"{path}:=price") == "9\n"
        fails("line 8: 'k.A.' is not a number", "sum", *options[:8], f"{path}:price")
    assert run("sum", "--quote", "none", f"{table(path, 'a,b' + chr(10) + '5,3' + chr(10) + chr(34) + ',4' + chr(10))}:b") == "7\n"
    assert run("sum", "--delimiter", "tab", f"{table(path, 'a,b' + chr(9) + 'c' + chr(10) + '1' + chr(9) + '2' + chr(10))}:c") == "2\n"
    assert run("sum", "--delimiter", "space", f"{table(path, 'a b' + chr(10) + '1 2' + chr(10))}:b") == "2\n"
    assert run("sum", "--missing=-999", "--nan", "omit", f"{table(path, 'a' + chr(10) + '5' + chr(10) + '-999' + chr(10) + chr(10))}:a") == "5\n"
    fails("--skip-lines 9, but the table has 2 lines", "sum", "--skip-lines", 9, f"{table(path, 'a' + chr(10) + '5' + chr(10))}:a")
    for text in (b"\xef\xbb\xbfa,b\r1,2\r", b"\xef\xbb\xbf\n\na,b\n1,2"):
        assert run("sum", f"{table(path, text)}:a") == "1\n"
    assert run("sum", "--text", table(path, b"\xef\xbb\xbf1 2")) == run("sum", "--text", stdin=b"\xef\xbb\xbf1 2") == "3\n"
    for text, name in (("a,b\n1,2\n".encode("utf-16"), "UTF-16"), ("a,b\n1,2\n".encode("utf-16-be"), ""), ("\ufeffa,b\n1,2\n".encode("utf-16-be"), "UTF-16"), ("Stra\xdfe,b\n1,2\n".encode("latin-1"), "Latin-1")):
        if name:
            fails(f"TYPE: this is text in {name}.*iconv", "sum", f"{table(path, text)}:b")
            fails(f"TYPE: this is text in {name}.*iconv", "sum", "--text", stdin=text)
            assert run("sum", "-t", "u8", path) == f"{sum(text)}\n"


@pytest.mark.parametrize("args, told", [
    (("--header", "--no-header"), "exclude each other"), (("--delimiter", ",,"), "not one character"), (("--delimiter", "5"), "not one character"), (("--decimal", "e"), "not one character"),
    (("--delimiter", "."), "different characters"), (("--quote", ";", "--delimiter", ";"), "different characters"), (("--comment", '"'), "different characters"),
    (("--text", "--header"), "exclude --text"), (("--skip-lines", "-1"), "whole number")])
def test_dialects_that_are_refused(ctl, shared, scratch, args, told):
    path = table(scratch / "t.csv", "a,b\n1,2\n")
    done = ctl("sum", *args, f"{path}:b", url=shared.url)
    assert done.returncode == 2 and told.encode() in done.stderr, done.stderr
    done = ctl("ping", *args, url=shared.url)
    assert done.returncode == 2


def test_quotes_within_fields(run, fails, scratch):
    """Only a quote at a field's begin opens it, as for Python's csv and spreadsheets: 5" is five inches."""
    path = scratch / "t.csv"
    path.write_text('name,qty,n\n5" pipe,3,1\n6" pipe,4,2\n a"b"",5 , "6"\n"x"y"",7,8\n"",9,""\n')
    assert run("sum", f"{path}:qty") == "28\n" and run("sum", "--nan", "omit", f"{path}:n") == "17\n"
    fails("line 2: '5\" pipe' is not a number", "sum", f"{path}:name")
    path.write_text('a,b\n1,"2\n3,4\n')  # what follows would be lost
    for column in "ab":
        fails("TYPE: line 2: the record has a quote that nothing closes", "sum", f"{path}:{column}")
    path.write_text('a,"b\n1,2\n')
    fails("TYPE: line 1: the record has a quote that nothing closes", "sum", f"{path}:a")
    path.write_text('"price, net";"n\tm";count\n1;2;3\n')
    assert run("sum", f"{path}:count") == "3\n" and run("sum", f"{path}:price, net") == "1\n"


def test_columns_of_any_length(run, scratch):
    """Pieces end anywhere: numbers are as Python reads them."""
    rng = np.random.default_rng(5)
    values = [repr(float(x)) for x in rng.normal(size=200_000) * 10.0 ** rng.integers(-300, 300, 200_000)]
    values += [f"{x:.6f}" for x in rng.normal(size=300_000)]
    path = scratch / "t.csv"
    path.write_text("x,y\n" + "".join(f'{i},{"" if i % 7 else chr(34)}{v}{"" if i % 7 else chr(34)}\n' for i, v in enumerate(values)))
    assert float(run("sum", f"{path}:y")) == math.fsum(map(float, values))
    assert run("count", f"{path}:x") == f"{len(values)}\n"


def test_columns_without_quotes(run, fails, scratch):
    """Lines of all lengths, blocks of them that end anywhere, short and long ones before the number, line ends of both kinds."""
    r = random.Random(15)
    values = [r.choice((repr(r.gauss(0, 1)), str(r.randrange(-10**6, 10**6)), f"{r.random():.3f}")) for _ in range(40_000)]
    length = [r.choice((0, 1, 5, 30, 31, 32, 33, 63, 64, 200)) for _ in values]
    length[17_000] = 40_000  # longer than what is searched at a time, and
    length[39_999] = 9_000  # at the end
    for end in ("\n", "\r\n"):
        lines = [f"{'x' * n},{n},{v},{i % 7}" + end * (1 + (i % 11 == 0)) for i, (n, v) in enumerate(zip(length, values))]
        (scratch / "t.csv").write_text(f"a,n,v,w{end}" + "".join(lines), newline="")
        assert float(run("sum", f"{scratch / 't.csv'}:v")) == math.fsum(map(float, values))
        assert run("sum", "-t", "i32", f"{scratch / 't.csv'}:n") == f"{sum(length)}\n"
        assert run("sum", f"{scratch / 't.csv'}:w") == f"{sum(i % 7 for i in range(len(values)))}\n"
    lines[30_000] = "1,2\n"  # a line end less where lines are doubled
    (scratch / "t.csv").write_text(f"a,n,v,w{end}" + "".join(lines), newline="")
    number = 2 + sum(line.count("\n") for line in lines[:30_000])
    fails(f"TYPE: line {number}: 2 fields, but the first line has 4", "sum", f"{scratch / 't.csv'}:v")


def test_zero_bytes_in_a_column(run, fails, scratch):
    """Zero bytes do not end a number: what follows them counts. (In the first kilobyte they show that a file is not text.)"""
    for bad in (b"1\0", b"\0001", b"1\0002", b'"1\0"', b"\0"):
        (scratch / "t.csv").write_bytes(b"a,b\n" + b"7,3\n" * 1000 + bad + b",4\n")
        fails("line 1002: .* is followed by a zero byte", "sum", f"{scratch / 't.csv'}:a")
        assert run("sum", f"{scratch / 't.csv'}:b") == "3004\n"


def test_a_pipe_goes_on_after_its_array(run, fails, scratch):
    """As for a file: what follows the array would be lost."""
    data = saved(np.arange(10))
    for n in (2, 50_000):
        for args in (["sum"], ["sum", "--rows", "2"], ["put", "--replace", "x"]):
            fails(r"IO: the header says 80 bytes of data, but the pipe has more", *args, "-", stdin=data * n)
    (scratch / "x.gz").write_bytes(gzip.compress(data * 2))
    fails("IO: the header says 80 bytes of data, but the stream has more", "sum", scratch / "x.gz")
    assert run("sum", "--rows", "2", "-", stdin=data) == "10\n35\n"


# ---- compressed streams, big-endian elements ----
def test_compressed(run, fails, scratch):
    a = np.random.default_rng(6).normal(size=(1000, 300))
    want = math.fsum(a.reshape(-1))
    for name, data, args in (("x.npy", saved(a), []), ("be.npy", saved(a.astype(">f8")), []), ("x.f64", a.tobytes(), ["-t", "f64"]),
                             ("x.txt", "\n".join(map(repr, a.reshape(-1).tolist())).encode(), ["--text"])):
        path = scratch / f"{name}.gz"
        path.write_bytes(gzip.compress(data[:999], 1) + gzip.compress(data[999:], 1))  # one stream behind the other
        assert float(run("sum", *args, path)) == float(run("sum", *args, stdin=path.read_bytes())) == want
    (scratch / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    assert run("sum", f"{scratch / 't.csv.gz'}:b") == "6\n"
    assert run("sum", "--rows", 1000, scratch / "x.npy.gz") == run("sum", "--axis", 1, scratch / "be.npy.gz")
    whole = (scratch / "x.npy.gz").read_bytes()
    (scratch / "cut.gz").write_bytes(whole[:-5000])
    fails("IO: the compressed data are cut", "sum", scratch / "cut.gz")
    (scratch / "bad.gz").write_bytes(whole[:5000] + bytes(100) + whole[5100:])
    fails("IO: ", "sum", scratch / "bad.gz")
    (scratch / "twice.gz").write_bytes(gzip.compress(whole))
    fails("TYPE: a gzip stream in a compressed stream", "sum", scratch / "twice.gz")


def test_after_a_gzip_stream(run, fails, scratch):
    """More streams, padding of zeros as from tapes, and what is neither. gzip and Python take the first two as well."""
    text, rest = b"a,b\n" + b"1,2\n" * 1000, b"3,4\n"
    path = scratch / "t.csv.gz"

    def column(*parts):
        path.write_bytes(b"".join(parts))
        return f"{path}:b"

    one, two, none = map(gzip.compress, (text, rest, b""))
    for n in (1, 511, 200_000):  # the last of more than one read
        assert run("sum", column(one, bytes(n))) == "2000\n"
        assert run("sum", column(one, two, bytes(n))) == run("sum", column(one, bytes(n), two)) == "2004\n"
    assert run("sum", column(none, one, none, two, none)) == "2004\n"
    for tail in (b"garbage", bytes(512) + b"\n", two[1:]):
        fails("IO: bytes of another kind follow the gzip stream; zcat FILE", "sum", column(one, tail))
    for tail in (b"\x1f", two[:3], two[:-1]):
        fails("IO: the compressed data are cut", "sum", column(one, tail))
    for at, told in ((-1, "length"), (-5, "data")):  # of the trailer: bytes and CRC
        damaged = bytearray(one)
        damaged[at] ^= 1
        fails(f"IO: incorrect {told} check", "sum", column(damaged))
        fails(f"IO: incorrect {told} check", "sum", column(two, damaged, two))


def test_zstd(run, fails, scratch):
    """Frames of raw blocks, which need no compressor; zstd itself where it is there."""
    data = saved(np.arange(100_000, dtype="i4"))
    frame = lambda part: b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(
        struct.pack("<L", (len(b) << 3) | (i + 65536 >= len(part)))[:3] + b for i in range(0, len(part), 65536) for b in [part[i : i + 65536]])
    (scratch / "x.npy.zst").write_bytes(frame(data[:70_000]) + frame(data[70_000:]))
    assert run("sum", scratch / "x.npy.zst") == "4999950000\n"
    (scratch / "t.csv.zst").write_bytes(frame(b"a,b\n1,2\n3,4\n"))
    assert run("sum", f"{scratch / 't.csv.zst'}:b") == "6\n"
    skippable = b"".join(struct.pack("<2L", 0x184D2A50 + i, n) + bytes(n) for i, n in ((0, 4), (15, 0), (3, 2000)))
    for packed, args in ((frame(data), []), (frame(np.arange(100, dtype="<i4").tobytes()), ["-t", "i32"])):
        (scratch / "p.zst").write_bytes(skippable + packed + skippable)
        want = run("sum", *args, stdin=packed)
        assert run("sum", *args, scratch / "p.zst") == run("sum", *args, stdin=skippable + packed) == want, "pzstd writes such frames"
    fails("TYPE: this is an lz4 stream", "sum", "-t", "u8", stdin=skippable[:12] + b"\4\x22\x4d\x18" + bytes(99))
    (scratch / "cut.zst").write_bytes(frame(data)[:-10])
    fails("IO: the compressed data are cut", "sum", scratch / "cut.zst")


@pytest.mark.parametrize("kind", [">i2", ">u4", ">i8", ">f2", ">f4", ">f8"])
def test_big_endian(run, scratch, kind):
    a = np.arange(-50, 250).reshape(30, 10).astype(kind) if kind != ">u4" else np.arange(300, dtype=kind).reshape(30, 10)
    path = scratch / "be.npy"
    path.write_bytes(saved(a))
    little = scratch / "le.npy"
    little.write_bytes(saved(a.astype(kind.replace(">", "<"))))
    for args in (["stats"], ["sum", "--axis", "0"], ["max", "--axis", "1"], ["argmax", "--rows", "3"]):
        assert run(*args, path) == run(*args, little)
    assert run("sum", stdin=path.read_bytes()) == run("sum", little)
    raw = scratch / "be.raw"
    raw.write_bytes(a.tobytes())
    for args in (["stats"], ["sum", "--rows", "3"]):
        assert run(*args, "--dtype", kind, raw) == run(*args, little)
    assert run("sum", "--dtype", kind, stdin=raw.read_bytes()) == run("sum", little)
    for given in ([path], ["--dtype", kind, raw]):
        run("put", "--replace", "be", *given)
        assert run("sum", "@be") == run("sum", little)
    run("drop", "be")


def test_big_endian_elements_are_whole_ones_of_a_known_type(ctl, shared, run, fails, scratch):
    (scratch / "x").write_bytes(bytes(6))
    fails("6 bytes are not a multiple of the 4 of f32", "sum", "--dtype", ">f4", scratch / "x")
    fails("the last element is cut", "sum", "--dtype", ">f4", stdin=bytes(6))
    unknown = ctl("sum", "--dtype", ">f3", scratch / "x", url=shared.url)
    assert unknown.returncode == 2 and b"--dtype '>f3' is not one of" in unknown.stderr
    assert run("sum", "--dtype", ">u1", scratch / "x") == "0\n"


# ---- all arrays of a file ----
def columns(text):
    rows = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    assert rows[0] == ["array", "type", "elements", "nans", "zeros", "min", "max", "mean", "std", "norm2"]
    return {row[0]: row[1:] for row in rows[1:]}


@pytest.mark.parametrize("policy", ["propagate", "omit"])
def test_stats_of_all_tensors(run, scratch, policy):
    """The table has the values of single reductions, norm2 with its infinities and NaNs included."""
    entries = {}
    for dtype, kind in (("f32", "F32"), ("f64", "F64"), ("f16", "F16"), ("bf16", "BF16"), ("i8", "I8"), ("u64", "U64"), ("i32", "I32")):
        rng = np.random.default_rng(7)
        bits = gens.gauss(rng, dtype, 777) if dtype in oracle.FLOATS else rng.integers(0, 2**7, 777).astype(oracle.unsigned(dtype))
        entries[dtype] = (kind, [777], bits.tobytes())
    for name, values in (("inf", [1, np.inf]), ("minus", [-np.inf, 2]), ("both", [np.inf, -np.inf]), ("nan", [np.nan, 3]), ("all", [np.nan, np.inf, -np.inf]), ("none", [])):
        entries[name] = ("F64", [len(values)], np.array(values, "<f8").tobytes())
    entries["f8"] = ("F8_E5M2", [3], bytes(3))
    path = tensors(scratch / "m.safetensors", entries)
    table = columns(run("stats", "--nan", policy, path))
    assert list(table) == list(entries) and table["f8"] == ["F8_E5M2", "not supported"]
    lines = {json.loads(line)["array"]: json.loads(line) for line in run("stats", "--nan", policy, "--json", path).splitlines()}
    for name in entries:
        if name == "f8":
            assert lines[name]["value"] is None
            continue
        member = f"{path}:{name}"
        single = dict(line.split() for line in run("stats", "--nan", policy, member).splitlines())
        single["norm2"] = run("norm2", "--nan", policy, member).strip()
        got = dict(zip(["count", "nans", "zeros", "min", "max", "mean", "std", "norm2"], table[name][1:]))
        assert got == {k: single[k] for k in got}, name
        assert lines[name]["shape"] == entries[name][1] and set(lines[name]["value"]) == set(got)


def test_stats_of_an_npz(run, ctl, shared, scratch):
    np.savez_compressed(scratch / "x.npz", **ARRAYS, words=np.array(["x"]))
    table = columns(run("stats", scratch / "x.npz"))
    assert set(table) == {*ARRAYS, "words"} and table["n"][:4] == ["<i4", "10", "0", "1"] and table["words"] == ["<U1", "not supported"]
    path = tensors(scratch / "m", {"good": ("F32", [1], bytes(4)), "bad": ("F32", [1], struct.pack("<f", math.nan))})
    done = ctl("stats", "--nan", "error", path, url=shared.url)
    assert done.returncode == FAILED and b"bad: NAN" in done.stderr and columns(done.stdout.decode())["bad"] == ["F32", "failed"], done


def test_stats_of_many_tensors(run, scratch):
    entries = {f"t{i}": ("F32", [5], np.arange(i, i + 5, dtype="<f4").tobytes()) for i in range(300)}
    table = columns(run("stats", tensors(scratch / "m", entries)))
    assert all(table[f"t{i}"][4:6] == [str(i), str(i + 4)] for i in range(300))


# ---- several operations, and numbers as text ----
def test_several_operations_on_each_array_of_a_file(run, ctl, shared, scratch):
    """A line for each member, in one pass and in one each; an operation that fails on one of them leaves the others in place."""
    np.savez(scratch / "x.npz", a=np.array([1, 2, 3]), none=np.zeros(0), b=np.array([10.0, 20]))
    for ops in ("sum,max", "sum,max,any"):
        done = ctl(ops, scratch / "x.npz", url=shared.url)
        assert done.returncode == FAILED and b"x.npz:none: EMPTY" in done.stderr, done
        head, *lines = [line.split() for line in done.stdout.decode().splitlines()]
        assert head[:3] == ["file", "sum", "max"], head
        assert [line[:3] for line in lines] == [[f"{scratch / 'x.npz'}:{name}", *values] for name, *values in (("a", "6", "3"), ("none", "0", "error"), ("b", "30", "20"))]
    objects = [json.loads(line) for line in ctl("sum,max,any", "--json", scratch / "x.npz", url=shared.url).stdout.splitlines() if b'"value"' in line]
    assert [o["value"]["max"] for o in objects] == [3, "error", 20]


def test_large_integers_of_a_table_of_arrays_as_strings(run, scratch):
    np.savez(scratch / "x.npz", a=np.array([2**53 + 1]), b=np.array([7]))
    a, b = (json.loads(line)["value"] for line in run("stats", "--json-strings", scratch / "x.npz").splitlines())
    assert a["min"] == str(2**53 + 1) and b["min"] == 7


def test_compressed_text(run, fails, scratch):
    """Integers stay integers after a decoder, too, of a file or a pipe; a stream that breaks off is an error."""
    text = " ".join(map(str, range(2**63 - 200000, 2**63))).encode()
    path = scratch / "t.gz"
    path.write_bytes(gzip.compress(text, 1))
    want = f"{sum(range(2**63 - 200000, 2**63))}\n"
    assert run("sum", "--text", path) == want == run("sum", "--text", stdin=gzip.compress(text, 1))
    assert run("max", "--text", "--dtype", "u64", path) == f"{2**63 - 1}\n"
    (scratch / "more").write_bytes(b"0.5\n")
    assert run("max", "--text", "--total", "--dtype", "f64", path, scratch / "more") == "9.223372036854776e18\n"
    fails(f"total: TYPE: {path}: line 1: '9[0-9]{{18}}' would be rounded to f64", "max", "--text", "--total", path, scratch / "more")
    path.write_bytes(gzip.compress(text, 1)[:-9])
    fails("t.gz: ", "sum", "--text", path)
