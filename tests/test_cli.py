"""reducectl as people and scripts use it: files, pipes, text, options, formats, exit codes, and the private daemon."""
import contextlib
import errno
import gzip
import io
import json
import math
import os
import pathlib
import random
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unicodedata

import numpy as np
import pytest

import gens
import oracle
from certificates import Authority
from files import tensors
from conftest import BIN, LIB, ROOT, pseudo_terminal, python_env, reducectl_options, sanitizer

OK, FAILED, USAGE, NO_DAEMON = 0, 1, 2, 3


@pytest.fixture
def run(ctl, shared):
    """run(*args, stdin=, binary=False) -> stdout as text or bytes; the command must succeed."""

    def command(*args, binary=False, **kw):
        done = ctl(*args, url=shared.url, **kw)
        assert done.returncode == OK, done.stderr.decode()
        return done.stdout if binary else done.stdout.decode()

    return command


@pytest.fixture
def fails(ctl, shared):
    """fails(code, pattern, *args): it must leave with the code and say what is wrong in one line."""

    def command(code, pattern, *args, **kw):
        done = ctl(*args, url=shared.url, **kw)
        text = done.stderr.decode()
        assert done.returncode == code, (done.stdout, text)
        assert re.search(pattern, text), text
        assert all(line.startswith("reducectl: ") for line in text.splitlines()) and "\x1b" not in text
        return done

    return command


def npy(path, array, **kw):
    with open(path, "wb") as f:
        np.lib.format.write_array(f, array, **kw)
    return path


NUMPY = {"i8": "<i1", "u8": "<u1", "i16": "<i2", "u16": "<u2", "i32": "<i4", "u32": "<u4", "i64": "<i8", "u64": "<u8", "f16": "<f2", "f32": "<f4", "f64": "<f8",
         "bool": "?"}


def shown(op, dtype, cell, out=None):
    """What reducectl prints for a cell, floats as their values: a list of numbers and words, of stats a dict."""
    out = out or oracle.default_out(op, dtype)

    def one(bits, kind=out):
        return oracle.float_value(bits, kind) if kind in oracle.FLOATS else int(oracle.value_text(bits, kind))

    if op == "stats":
        w = [cell >> 64 * i & 2**64 - 1 for i in range(12)]
        place = lambda i: "none" if i == oracle.NO_INDEX else i
        total = one(w[7]) if dtype in oracle.FLOATS else int.from_bytes(struct.pack("<2Q", w[7], w[8]), "little", signed=True)
        edges = [one(w[5]), one(w[6])] if w[0] else ["none"] * 2
        values = [*w[:3], *edges, place(w[3]), place(w[4]), total, *(one(x, "f64") for x in w[9:])]
        return dict(zip("count nans zeros min max argmin argmax sum mean var std".split(), values))
    if op in ("any", "all"):
        return ["true" if cell else "false"]
    if op.startswith("arg") and cell == oracle.NO_INDEX:
        return ["none"]
    width = 8 * oracle.SIZE[out]
    return [one(cell & 2**width - 1), one(cell >> width)] if op == "minmax" else [one(cell)]


def read(word):
    """A printed word as a number, exactly, or itself."""
    if re.fullmatch(r"-?\d+", word):
        return float(word) if word == "-0" else int(word)
    if "0x" in word:
        return float.fromhex(word)
    return word if word in ("true", "false", "none") else float(word)


def same(got, want):
    """Equal as numbers; -0 is not 0, NaN is NaN."""
    if isinstance(want, str) or isinstance(got, str):
        return got == want
    return (math.isnan(got) and math.isnan(want)) or (got == want and math.copysign(1, got) == math.copysign(1, want))


def parsed(op, text):
    """Printed results, one for each line, of stats one for each block."""
    rows = [line.split() for line in text.splitlines()]
    if op != "stats":
        return [[read(word) for word in row] for row in rows]
    results = []
    for name, word in rows:
        if name == "count":
            results.append({})
        if name not in ("row", "column", "segment", "file"):
            results[-1][name] = read(word)
    return results


def check(op, text, want):
    got = parsed(op, text)
    assert len(got) == len(want), text
    for g, w in zip(got, want):
        assert len(g) == len(w) and all(same(g[k], w[k]) for k in (w if op == "stats" else range(len(w)))), (op, g, w)


# ---- what is reduced ----
@pytest.mark.values
@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_every_op_on_raw_and_npy(run, scratch, dtype):
    rng = np.random.default_rng(50)
    bits = gens.gauss(rng, dtype, 500) if dtype in oracle.FLOATS else rng.integers(0, 4 if dtype == "bool" else 2**7, 500).astype(oracle.unsigned(dtype))
    raw = scratch / "a.bin"
    raw.write_bytes(bits.tobytes())
    as_npy = npy(scratch / "a.npy", bits.view(NUMPY.get(dtype, "V2")))
    elements = oracle.Elements(dtype, bits)
    ops = oracle.ops(dtype)
    for op in ops[oracle.DTYPES[dtype] % 4 :: 4] if sanitizer() else ops:
        wrap = ["--wrap"] if op == "prod" and dtype not in oracle.FLOATS else []
        cell = oracle.value(elements, op, wrap=bool(wrap))
        check(op, run(op, *([] if dtype in NUMPY else ["--dtype", dtype]), *wrap, as_npy), [shown(op, dtype, cell)])
        check(op, run(op, "--dtype", dtype, *wrap, "--hex", raw), [shown(op, dtype, cell)])
        assert int.from_bytes(run(op, "--dtype", dtype, *wrap, "--raw", raw, binary=True), "little") == cell


def test_shortest_decimals_read_back(run, scratch):
    rng = np.random.default_rng(51)
    values = rng.integers(0, 2**64, 300, np.uint64).view("<f8")
    values = np.concatenate([values[np.isfinite(values)], [0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e22, 123456789.0, 1 / 3]])
    path = scratch / "v.bin"
    path.write_bytes(values.tobytes())
    lines = run("max", "--dtype", "f64", "--rows", len(values), path).split()
    assert [struct.pack("<d", float(x)) for x in lines] == [struct.pack("<d", v) for v in values]
    assert all(len(re.sub(r"[-+.e]|^-?0\.?0*", "", x)) <= len(re.sub(r"[-+.e]|^-?0\.?0*", "", repr(float(v)))) + 4 for x, v in zip(lines, values))
    lines = run("max", "--dtype", "f64", "--hex", "--rows", len(values), path).split()
    assert [float.fromhex(x) for x in lines] == values.tolist()


def test_many_results_stay_in_order(run, scratch):
    """Several threads turn them into text."""
    values = np.random.default_rng(53).normal(size=50_000)
    path = scratch / "many.bin"
    path.write_bytes(values.tobytes())
    of_rows = ["--dtype", "f64", "--rows", len(values), path]
    assert [float(x) for x in run("sum", *of_rows).split("\n")[:-1]] == values.tolist()
    words = [line.split() for line in run("stats", *of_rows).splitlines()]
    assert {tuple(name for name, _ in words[i:i + 12]) for i in range(0, len(words), 12)} == {
        ("row", "count", "nans", "zeros", "min", "max", "argmin", "argmax", "sum", "mean", "var", "std")}
    assert [int(number) for _, number in words[::12]] == list(range(len(values)))
    assert [float(least) for _, least in words[4::12]] == values.tolist()


@pytest.mark.parametrize("out", ["f16", "bf16", "f32"])
def test_narrow_replies_read_back(run, scratch, out):
    rng = np.random.default_rng(52)
    values = np.concatenate([rng.standard_normal(200), [65504.0, 6e-8, 1e-5, -0.0, 0.1]])
    path = scratch / "v.bin"
    path.write_bytes(values.tobytes())
    lines = run("sum", "--dtype", "f64", "--out", out, "--rows", len(values), path).split()
    for text, value in zip(lines, values):
        expected = oracle.reduce("sum", "f64", np.array([value]).view("<u8"), out=out)
        back = oracle.convert(struct.unpack("<Q", struct.pack("<d", float(text)))[0], "f64", out)
        assert back == expected, (text, value)
    hexes = run("sum", "--dtype", "f64", "--out", out, "--hex", "--rows", len(values), path).split()
    assert [float.fromhex(h) for h in hexes] == [oracle.float_value(oracle.reduce("sum", "f64", np.array([v]).view("<u8"), out=out), out) for v in values]


def test_special_values(run):
    f64 = lambda *v: struct.pack(f"<{len(v)}d", *v)
    ask = lambda op, data, *a: run(op, "--dtype", "f64", *a, "-", stdin=data).strip()
    assert ask("sum", f64(math.inf, 1)) == "inf" and ask("sum", f64(-math.inf)) == "-inf"
    assert ask("sum", f64(math.inf, -math.inf)) == "nan" and ask("sum", f64(-0.0)) == "-0" and ask("sum", b"") == "0"
    assert ask("sum", f64(math.nan, 2), "--nan", "omit") == "2"
    assert ask("sum", f64(1e308, 1e308, -1e308)) in ("1e+308", "1e308")


def test_rows(run, scratch):
    a = np.arange(12, dtype="<i4").reshape(4, 3)
    path = npy(scratch / "m.npy", a)
    assert run("sum", "--rows", 4, path).split() == ["3", "12", "21", "30"]
    assert run("argmax", "--rows", 2, path).split() == ["5", "5"]
    big = np.random.default_rng(53).standard_normal(100_000).astype("<f4")
    (scratch / "big").write_bytes(big.tobytes())
    assert run("max", "--dtype", "f32", "--rows", 100_000, "--out", "f32", "--raw", scratch / "big", binary=True) == big.tobytes()


# ---- shapes ----
MATRICES = ["C", "F"]


@pytest.mark.values
@pytest.mark.parametrize("order", MATRICES)
@pytest.mark.parametrize("dtype", ["i8", "f16"])
def test_axis(run, scratch, dtype, order):
    """A .npy of two dimensions in either order: numpy's axes, for every op."""
    rng = np.random.default_rng(54)
    bits = gens.gauss(rng, dtype, 60) if dtype in oracle.FLOATS else rng.integers(0, 5, 60).astype(oracle.unsigned(dtype))
    m = bits.reshape(5, 12)
    path = npy(scratch / "m.npy", np.asarray(m.view(NUMPY[dtype]), order=order))
    for axis in (0, 1):
        lines = [np.ascontiguousarray(x) for x in (m.T if axis == 0 else m)]
        for op in oracle.ops(dtype):
            wrap = ["--wrap"] if op == "prod" and dtype not in oracle.FLOATS else []
            cells = [oracle.reduce(op, dtype, line, wrap=bool(wrap)) for line in lines]
            check(op, run(op, "--axis", axis, *wrap, path), [shown(op, dtype, c) for c in cells])


def test_axis_of_other_inputs(run, fails, scratch):
    flat = npy(scratch / "flat.npy", np.arange(12.0))
    assert run("sum", "--axis", 0, flat) == "66\n"
    fails(FAILED, "SHAPE.*axis 0 only", "sum", "--axis", 1, flat)
    cube = npy(scratch / "cube.npy", np.zeros((2, 3, 4)))
    for axes, why in (("3", "no axis 3"), ("-4", "no axis -4"), ("0,0", "axis 0 is named twice"), ("1,-2", "axis -2 is named twice")):
        fails(FAILED, f"SHAPE.*{why}", "sum", "--axis", axes, cube)
    for axes in ("", "x", "0,", ",0", "0 1", "1.5", "--", "64", "-65", "99999999999999999999", "0x1"):
        fails(USAGE, "--axis", "sum", "--axis", axes, cube)
    fails(FAILED, "SHAPE.*this array has 0", "sum", "--axis", 0, npy(scratch / "one.npy", np.array(3.0)))
    (scratch / "raw").write_bytes(np.arange(12, dtype="<f4").tobytes())
    fails(FAILED, "SHAPE.*--rows", "sum", "-t", "f32", "--axis", 0, scratch / "raw")
    assert run("sum", "-t", "f32", "--rows", 3, "--axis", 0, scratch / "raw").split() == ["12", "15", "18", "21"]
    assert run("sum", "-t", "f32", "--rows", 3, "--axis", 1, scratch / "raw").split() == ["6", "22", "38"]
    fails(FAILED, "SHAPE.*known size", "sum", "-t", "f32", "--rows", 3, "--axis", 0, stdin=bytes(48))
    (scratch / "nothing").write_bytes(b"")
    assert run("sum", "-t", "f32", "--rows", 3, scratch / "nothing") == run("sum", "-t", "f32", "--rows", 3, "-", stdin=b"") == "0\n" * 3, "no elements are a known size"
    assert run("sum", "--axis", 0, "-", stdin=npy_bytes(np.ones((3, 2)))).split() == ["3", "3"], "a .npy tells its size"
    for shape, axis, lines in (((0, 3), 0, 3), ((0, 3), 1, 0), ((3, 0), 0, 0), ((3, 0), 1, 3)):
        for order in MATRICES:
            empty = npy(scratch / "empty.npy", np.zeros(shape, "<f4", order))
            assert run("sum", "--axis", axis, empty) == "0\n" * lines
    fails(FAILED, "EMPTY: column 0", "max", "--axis", 0, npy(scratch / "empty.npy", np.zeros((0, 3))))
    json_lines = [json.loads(x) for x in run("max", "--axis", 0, "--json", npy(scratch / "m.npy", np.eye(3))).splitlines()]
    assert [(x["column"], x["value"], x["count"]) for x in json_lines] == [(0, 1, 3), (1, 1, 3), (2, 1, 3)]


@pytest.mark.values
@pytest.mark.parametrize("order", MATRICES)
@pytest.mark.parametrize("dtype", ["u8", "f32", "f64"])
def test_any_axes(run, scratch, dtype, order):
    """Arrays of one to five dimensions, any axes, the first or last ones and those between: each result is rounded once, and an index counts the
    elements of its result in C order."""
    rng = np.random.default_rng([56, len(dtype), len(order)])
    for _ in range(12):
        shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 6))))
        bits = gens.of(dtype)[int(rng.integers(0, 3))](rng, dtype, int(np.prod(shape)))
        array = np.resize(bits, shape).astype(oracle.unsigned(dtype))
        path = npy(scratch / "any.npy", np.asarray(array.view(NUMPY[dtype]), order=order))
        axes = rng.permutation(len(shape))[: int(rng.integers(1, len(shape) + 1))]
        kept = [d for d in range(len(shape)) if d not in axes]
        lines = array.transpose([*kept, *sorted(axes)]).reshape(int(np.prod([shape[d] for d in kept])), -1)
        named = ",".join(str(d - len(shape) if rng.random() < 0.5 else d) for d in axes)
        for op in ("sum", "argmax", "stats", "var"):
            cells = [oracle.reduce(op, dtype, np.ascontiguousarray(line)) for line in lines]
            got = run(op, "--axis", named, "--raw", path, binary=True)
            size = len(got) // len(cells)
            assert [int.from_bytes(got[i : i + size], "little") for i in range(0, len(got), size)] == cells, (op, shape, named)
        if len(axes) < len(shape):
            first, unit = next(i for i in range(len(lines))), "result" if len(shape) > 2 else "row" if 1 in axes else "column"
            assert json.loads(run("count", "--axis", named, "--json", path).splitlines()[first])[unit] == first


def test_axes_of_nothing_and_of_errors(run, fails, scratch):
    for order in MATRICES:
        assert run("sum", "--axis", "0,2", npy(scratch / "e.npy", np.zeros((0, 3, 2), "<i4", order))) == "0\n" * 3
        assert run("sum", "--axis", "1", npy(scratch / "e.npy", np.zeros((0, 3, 2), "<i4", order))) == ""
        fails(FAILED, "EMPTY: result 0", "max", "--axis", "-1", npy(scratch / "e.npy", np.zeros((2, 3, 0), "<i4", order)))
        bad = np.zeros((2, 3, 4), "<f4", order)
        bad[1, 1, 2] = np.nan
        for axes, result in (("0", 6), ("1", 6), ("2", 4), ("0,2", 1)):
            fails(FAILED, f"NAN: result {result}:", "sum", "--nan", "error", "--axis", axes, npy(scratch / "bad.npy", bad))
        mask = npy(scratch / "mask.npy", np.asarray(np.arange(24).reshape(2, 3, 4) % 3 > 0, order=order))
        ones = npy(scratch / "ones.npy", np.ones((2, 3, 4), "<f8", order))
        for axes in (0, 1, (0, 2)):
            kept = np.load(mask).sum(axes).ravel()
            args = "sum", "--axis", str(axes).strip("()").replace(" ", ""), "--initial", 5
            assert run(*args, "--mask", mask, ones).split() == [str(5 + n) for n in kept], "the initial element goes in once"


@pytest.mark.values
@pytest.mark.parametrize("order", MATRICES)
def test_large_matrix(run, scratch, order):
    """More than the buffer of reducectl holds (columns: 64 MiB, rows: 16 MiB), so that blocks are merged. ThreadSanitizer, which
    takes seconds for each, gets one of each kind."""
    all_axes = [(0,), (1,), (2,), (0, 2), (1, 3)][3 if sanitizer() == "thread" else 0:]
    rng = np.random.default_rng(55)
    m = rng.integers(-100, 100, (300_000, 57), np.int64).astype("<i4")
    path = npy(scratch / "m.npy", np.asarray(m, order=order))
    for axis in (0, 1):
        got = np.frombuffer(run("sum", "--axis", axis, "--raw", path, binary=True), "<i8")
        assert (got == m.sum(axis)).all()
    got = np.frombuffer(run("argmax", "--axis", 0, "--raw", path, binary=True), "<u8")
    assert (got == m.argmax(0)).all()
    cube = m.reshape(2, 5000, 30, 57)
    path = npy(scratch / "m.npy", np.asarray(cube, order=order))
    for axes in all_axes:
        got = np.frombuffer(run("sum", "--axis", ",".join(map(str, axes)), "--raw", path, binary=True), "<i8")
        assert (got == cube.sum(axes).ravel()).all()


def test_fortran_order_of_the_whole(run, scratch):
    """Indexes are those of the array, whatever the order in the file."""
    rng = np.random.default_rng(56)
    for shape in ((40, 50), (7, 8, 9), (3, 1, 5, 2), (1, 10), (10, 1)):
        m = rng.integers(-3, 4, shape).astype("<f4")
        keep = rng.integers(0, 2, shape).astype(bool)
        path, mask = npy(scratch / "m.npy", np.asfortranarray(m)), npy(scratch / "k.npy", np.asfortranarray(keep))
        assert run("argmin", path) == f"{m.argmin()}\n" and run("argmax", path) == f"{m.argmax()}\n"
        assert parsed("stats", run("stats", path))[0]["argmax"] == m.argmax()
        assert run("argmin", "--mask", mask, path) == f"{np.where(keep, m, 9).argmin()}\n"
        assert float(run("sum", "--mask", mask, path)) == m[keep].sum()


def test_offsets(run, fails, scratch):
    values = np.array([5, -2, 9, 4, 4, -7, 1], "<i2")
    raw = scratch / "v.bin"
    raw.write_bytes(values.tobytes())
    for name, offsets in (("u", np.array([1, 3, 3, 6], "<u8")), ("i", np.array([1, 3, 3, 6], "<i8"))):
        path = npy(scratch / f"{name}.npy", offsets)
        assert run("sum", "--dtype", "i16", "--offsets", path, raw).split() == ["7", "0", "1"]
        assert parsed("stats", run("stats", "--dtype", "i16", "--offsets", path, raw))[1]["argmin"] == "none"
    (scratch / "o.bin").write_bytes(np.array([0, 2, 7], "<u8").tobytes())
    assert run("argmax", "--dtype", "i16", "--offsets", scratch / "o.bin", raw).split() == ["0", "0"]
    lines = [json.loads(x) for x in run("min", "--dtype", "i16", "--json", "--offsets", scratch / "o.bin", raw).splitlines()]
    assert [(x["segment"], x["value"], x["count"]) for x in lines] == [(0, -2, 2), (1, -7, 5)]
    fails(FAILED, "EMPTY: segment 1: ", "max", "--dtype", "i16", "--offsets", scratch / "u.npy", raw)
    for bad, told in ((np.array([0, 5, 4], "<u8"), "offset 2 is 4, below"), (np.array([0, 8], "<u8"), "offset 1 is 8, after"),
                      (np.array([-1, 2], "<i8"), "offset 0 is -1"), (np.array([0], "<u8"), "single offset"), (np.zeros(0, "<u8"), "no offsets"),
                      (np.array([0, 2], "<i4"), "TYPE.*i32"), (np.array([0.0, 2.0]), "TYPE.*f64")):
        fails(FAILED, told, "sum", "--dtype", "i16", "--offsets", npy(scratch / "bad.npy", bad), raw)
    fails(FAILED, "IO", "sum", "--dtype", "i16", "--offsets", scratch / "nothing", raw)
    (scratch / "none").write_bytes(b"")
    fails(FAILED, "no offsets", "sum", "--dtype", "i16", "--offsets", scratch / "none", raw)
    fails(FAILED, "Fortran", "sum", "--offsets", scratch / "o.bin", npy(scratch / "f.npy", np.zeros((2, 4), order="F")))


def test_many_and_long_segments(run, scratch):
    """Segments by the hundred thousand, and segments larger than the buffer of reducectl (16 MiB)."""
    rng = np.random.default_rng(57)
    values = rng.integers(-100, 100, 11_000_000).astype("<i4")
    edges = np.concatenate([np.arange(0, 200_000, 2), [200_000, 5_000_000, 5_000_000, 10_999_000]])
    path, offsets = npy(scratch / "v.npy", values), npy(scratch / "o.npy", edges)
    got = np.frombuffer(run("sum", "--offsets", offsets, "--raw", path, binary=True), "<i8")
    sums = np.concatenate([[0], np.cumsum(values.astype("<i8"))])
    assert (got == sums[edges[1:]] - sums[edges[:-1]]).all()


def test_mask(run, fails, scratch):
    values = np.array([[1.5, 2, np.nan], [4, 5, 6]], "<f4")
    keep = np.array([[1, 0, 0], [1, 1, 0]], bool)
    path, mask = npy(scratch / "v.npy", values), npy(scratch / "k.npy", keep)
    (scratch / "k.raw").write_bytes(bytes([255, 0, 0, 1, 7, 0]))
    for m in (mask, scratch / "k.raw", npy(scratch / "k8.npy", keep.astype("i1"))):
        assert run("sum", "--mask", m, path) == "10.5\n"
    assert run("sum", "--mask", mask, "--axis", 0, path).split() == ["5.5", "5", "0"]
    assert run("max", "--mask", mask, "--axis", 1, path).split() == ["1.5", "5"]
    assert run("sum", "--mask", mask, "--rows", 3, path).split() == ["1.5", "4", "5"]
    assert run("sum", "--mask", mask, "--offsets", npy(scratch / "o.npy", np.array([0, 4, 6])), path).split() == ["5.5", "5"]
    assert run("argmax", "--mask", mask, path) == "4\n"
    assert run("sum", "--mask", scratch / "k.raw", "--dtype", "f32", "-", stdin=values.tobytes()) == "10.5\n"
    assert run("sum", "--mask", scratch / "k.raw", "--text", stdin=b"1 2 3 4 5 6") == "10\n"
    assert run("count", "--mask", scratch / "k.raw", "--total", npy(scratch / "a.npy", values[0]), npy(scratch / "b.npy", values[1])) == "3\n"
    fails(FAILED, "SHAPE.*6 bytes for 4 elements", "sum", "--mask", mask, npy(scratch / "c.npy", np.zeros(4)))
    fails(FAILED, "SHAPE.*mask ends", "sum", "--mask", scratch / "k.raw", "--text", stdin=b"1 2 3 4 5 6 7")
    fails(FAILED, "SHAPE.*mask goes on", "sum", "--mask", scratch / "k.raw", "--text", stdin=b"1 2 3 4 5")
    fails(FAILED, "SHAPE.*cut", "sum", "--mask", scratch / "k.raw", "--dtype", "f32", "-", stdin=values.tobytes()[:-1])
    fails(FAILED, "TYPE.*f64", "sum", "--mask", npy(scratch / "d.npy", np.ones((2, 3))), path)
    fails(FAILED, "SHAPE.*order", "sum", "--mask", mask, npy(scratch / "f.npy", np.asfortranarray(values)))
    for other in (keep.reshape(3, 2), keep.reshape(6), keep.reshape(2, 3, 1), keep[None]):  # the count fits, the shape does not
        fails(FAILED, "SHAPE.*same shape", "sum", "--mask", npy(scratch / "s.npy", other), path)
    fails(FAILED, "SHAPE.*one dimension", "sum", "--offsets", npy(scratch / "o2.npy", np.array([[0, 4], [5, 6]])), path)
    joined = "--total", npy(scratch / "a.npy", values[:1]), npy(scratch / "b.npy", values[1:])  # (1, 3) twice
    for fitting in (keep, keep.reshape(6)):
        assert run("sum", "--mask", npy(scratch / "s.npy", fitting), *joined) == "10.5\n"
    fails(FAILED, "SHAPE.*same shape", "sum", "--mask", npy(scratch / "s.npy", keep.reshape(3, 2)), *joined)
    fails(FAILED, "IO", "sum", "--mask", scratch / "nothing", path)
    fails(FAILED, "EMPTY", "max", "--mask", npy(scratch / "none.npy", np.zeros((2, 3), bool)), path)


def test_long_mask(run, scratch):
    rng = np.random.default_rng(58)
    values, keep = rng.integers(-100, 100, 5_000_000).astype("<i2"), rng.integers(0, 2, 5_000_000).astype(bool)
    path, mask = npy(scratch / "v.npy", values), npy(scratch / "k.npy", keep)
    assert run("sum", "--mask", mask, path) == f"{int(values[keep].sum(dtype=np.int64))}\n"
    got = np.frombuffer(run("sum", "--mask", mask, "--rows", 1000, "--raw", path, binary=True), "<i8")
    assert (got == np.where(keep, values, 0).reshape(1000, -1).sum(1)).all()


# ---- parameters ----
def test_initial(run, fails, scratch):
    empty = npy(scratch / "e.npy", np.zeros(0, "<i1"))
    assert run("max", "--initial", "-128", empty) == "-128\n" and run("argmax", "--initial", "3", empty) == "none\n"
    assert json.loads(run("argmax", "--initial", "3", "--json", empty))["value"] is None
    assert run("argmax", "--initial", "3", "--raw", empty, binary=True) == b"\xff" * 8
    bytes_ = npy(scratch / "b.npy", np.array([1, 2, 3], "<u1"))
    assert run("sum", "--initial", "0xff", bytes_) == "261\n" and run("prod", "--initial", "2", bytes_) == "12\n"
    assert run("sum", "--initial=-1e3", "--text", stdin=b"1 2") == "-997\n"
    assert run("max", "--initial", "inf", "--rows", 3, npy(scratch / "h.npy", np.zeros(6, "<f2"))).split() == ["inf"] * 3
    assert run("sum", "--initial", "nan", "--nan", "omit", scratch / "h.npy") == "0\n"
    for text, told in (("256", "out of the range of u8"), ("-1", "out of the range of u8"), ("1.5", "is not a number of type u8"), ("x", "is not a number of type u8"), ("", "is not a number of type u8")):
        fails(USAGE, told, "sum", "--initial", text, bytes_)
    fails(USAGE, "out of the range of f16", "sum", "--initial", "70000", scratch / "h.npy")


def test_ddof_and_wrap(run, fails, scratch):
    path = npy(scratch / "v.npy", np.array([1.0, 2, 4, 8]))
    for ddof in (0, 1, 3):
        expected = oracle.float_value(oracle.reduce("var", "f64", np.array([1.0, 2, 4, 8]).view("<u8"), ddof=ddof), "f64")
        assert float(run("var", "--ddof", ddof, path)) == expected
        assert parsed("stats", run("stats", "--ddof", ddof, path))[0]["var"] == expected
    assert run("std", "--ddof", 4, path) == "nan\n"
    big = npy(scratch / "b.npy", np.full(3, 2**40, "<i8"))
    for some, known in (([2**40] * 3, None), ([2**62, 4], None), ([2**62, -4], None), ([2**62, 2], 2**63), ([2**63 - 1, -2], 2 - 2**64)):
        product = npy(scratch / "o.npy", np.array(some, "<i8"))
        fails(FAILED, f"OVERFLOW.*; the exact value {'has more than 64 bits' if known is None else f'is {known}'}$", "prod", product)
        assert json.loads(fails(FAILED, "OVERFLOW", "prod", "--json", product).stdout)["exact"] == known
    assert run("prod", "--wrap", big) == "0\n" and run("prod", "--wrap", npy(scratch / "n.npy", np.array([2**62, -2]))) == f"{-(2**63)}\n"
    fails(FAILED, "BAD_MESSAGE.*integers", "prod", "--wrap", path)


def test_partial_and_merge(run, fails, scratch):
    """Shards reduced apart and merged give the bits of the whole, for every op."""
    rng = np.random.default_rng(59)
    values = gens.full_range(rng, "f32", 900)
    whole, parts, states = scratch / "w", [scratch / f"p{i}" for i in range(3)], [scratch / f"s{i}" for i in range(3)]
    whole.write_bytes(values.tobytes())
    for i, part in enumerate(parts):
        part.write_bytes(values[300 * i : 300 * i + 300].tobytes())
    for op in oracle.ops("f32")[:: 5 if sanitizer() else 1]:
        for rows in ([], ["--rows", 1]):
            for i in (2, 0, 1):
                states[i].write_bytes(run(op, "-t", "f32", "--partial", "--index-base", 300 * i, *rows, parts[i], binary=True))
            assert len(states[0].read_bytes()) == oracle.state_size(op, "f32")
            assert run(op, "--merge", *states) == run(op, "-t", "f32", whole)
    for i in range(3):
        states[i].write_bytes(run("sum", "-t", "f32", "--partial", "--rows", 100, parts[i], binary=True))
    got = run("sum", "--merge", *states).split()
    assert [float(x) for x in got] == [float(x) for x in sums_of_columns(values.reshape(3, 100, 3))]
    both = scratch / "both"
    both.write_bytes(run("sum", "--merge", "--partial", *states[:2], binary=True))
    assert run("sum", "--merge", both, states[2]).split() == got
    columns = run("sum", "-t", "f32", "--partial", "--rows", 100, "--axis", 0, parts[0], binary=True)
    assert len(columns) == 3 * 64
    assert run("max", "--merge", "--initial", "inf", self_state(run, scratch, parts[0])) == "inf\n"
    fails(FAILED, "SHAPE.*not partial states of sum", "sum", "--merge", whole)
    fails(FAILED, "BAD_MESSAGE", "max", "--merge", "--dtype", "f64", self_state(run, scratch, parts[0]))
    short = scratch / "short"
    short.write_bytes(states[0].read_bytes()[:-64])
    fails(FAILED, "SHAPE.*first file", "sum", "--merge", states[0], short)
    fails(FAILED, "IO", "sum", "--merge", scratch / "nothing")


@pytest.mark.parametrize("op", ["argmin", "argmax", "stats"])
def test_merged_places_are_those_in_the_whole(run, fails, scratch, op):
    """A state counts from its --index-base, without which it is not written: merged places of parts that both begin at 0 are wrong."""
    parts = [np.array([4, 7], "<i4"), np.array([9, 1], "<i4")]
    files, states = [scratch / f"p{i}.npy" for i in range(2)], [scratch / f"s{i}" for i in range(2)]
    for file, state, part, at in zip(files, states, parts, (0, 2)):
        npy(file, part)
        fails(USAGE, "needs --index-base", op, "--partial", file)
        state.write_bytes(run(op, "--partial", "--index-base", at, file, binary=True))
    whole = npy(scratch / "w.npy", np.concatenate(parts))
    for order in (states, states[::-1]):
        assert run(op, "--merge", *order) == run(op, whole)
    both = scratch / "both"
    both.write_bytes(run(op, "--merge", "--partial", *states, binary=True))
    assert run(op, "--merge", both) == run(op, whole)
    fails(USAGE, "--merge excludes .*--index-base", op, "--merge", "--index-base", 2, *states)


def test_states_from_pipes(run, fails, scratch):
    """As from files, by any name of a pipe, one of them at most by '-'."""
    values = np.arange(10.0)
    parts = [run("sum", "--partial", npy(scratch / f"p{i}.npy", values[5 * i:5 * i + 5]), binary=True) for i in range(2)]
    (scratch / "s").write_bytes(parts[0])
    for name in ("-", "/dev/stdin"):
        assert run("sum", "--merge", name, stdin=parts[0]) == "10\n"
        assert run("sum", "--merge", scratch / "s", name, stdin=parts[1]) == "45\n"
    assert run("sum", "--merge", stdin=parts[1]) == "35\n"
    fails(FAILED, "SHAPE.*not partial states", "sum", "--merge", "-", stdin=parts[0][:-1])
    fails(FAILED, "SHAPE: 0 bytes are not partial states", "sum", "--merge", "-", stdin=b"")
    fails(USAGE, "named 2 times", "sum", "--merge", "-", "/dev/stdin", stdin=parts[0])


def test_no_option_is_dropped_without_a_word(fails, run, scratch):
    """What --partial, --merge, put, @NAME and other kinds of files would not heed is refused."""
    a = npy(scratch / "a.npy", np.array([1, 2, 4]))
    state = scratch / "s"
    state.write_bytes(run("var", "--partial", a, binary=True))
    for op, option in (("var", ("--ddof", 1)), ("stats", ("--ddof", 1)), ("sum", ("--out", "u64")), ("prod", ("--wrap",)), ("sum", ("--initial", 3))):
        fails(USAGE, "--partial excludes", op, *option, "--partial", a)
    fails(USAGE, "--partial excludes", "var", "--ddof", 1, "--partial", "--merge", state)
    assert run("var", "--ddof", 1, "--merge", state) == run("var", "--ddof", 1, a)
    for option in (("--nan", "omit"), ("--nan", "error"), ("--dtype", ">f4"), ("--no-unpack",), ("--no-scale",), ("--header",), ("--missing", "x"), ("--mask", a), ("--rows", 1), ("--text",)):
        fails(USAGE, "--merge", "var", "--merge", *option, state)
    run("put", "--replace", "dropped", a)
    for option in (("--header",), ("--no-scale",), ("--no-unpack",), ("--delimiter", ";"), ("--text",), ("--mask", a)):
        fails(USAGE, "@NAME excludes", "sum", *option, "@dropped")
    run("drop", "dropped")
    for option in (("--ddof", 1), ("--out", "f32"), ("--nan", "omit"), ("--partial",), ("--mask", a), ("--index-base", 3), ("--initial", 1), ("--wrap",)):
        fails(USAGE, "need an operation", "put", "x", *option, a)
    for option in (("--header",), ("--no-header",), ("--delimiter", ";"), ("--missing", "x"), ("--skip-lines", 1), ("--comment", "#"), ("--quote", "none"), ("--decimal", ",")):
        fails(USAGE, "ARGUMENT: it is not a table as text", "sum", *option, a)
        fails(USAGE, "ARGUMENT: it is not a table as text", "put", "x", *option, a)


def test_words_that_lead_on(run, fails, ctl, scratch):
    """A column of standard input by -:NAME; a host that is not known is a daemon that is not there."""
    assert run("sum", "-:price", stdin=b"day,price\n1,2\n2,3\n") == run("sum", "-:#2", "--nan", "omit", stdin=b"day,price\n1,2\n2,3\n") == "5\n"
    assert [line.split()[0] for line in run("sum", "-:a", "-:b", stdin=b"a,b\n1,2\n").splitlines()] == ["1", "2"]
    fails(USAGE, "standard input is named 2 times", "sum", "-:a", "-", stdin=b"a,b\n1,2\n")
    assert run("sum", "--nan", "omit", "--missing", "-:", "-:a", stdin=b"a\n1\n-:\n2\n") == "3\n"  # an option's value names no column
    fails(FAILED, "TYPE: line 2: 'UA' is not a number$", "sum", "-:price", stdin=b"day,price\n1,UA\n")
    fails(USAGE, "unknown option -:", "sum", "-v:", "x")
    ca = Authority(scratch, "ca").file("pem")
    for url in ("tcp://no.such.host.invalid:5", "tls+tcp://no.such.host.invalid:5"):
        for command in (("sum", "-t", "f64"), ("ping",), ("put", "x", "-t", "f64")):
            done = ctl(*command, "--connect", url, env={"REDUCED_TLS_CA": str(ca)}, stdin=bytes(8))
            assert done.returncode == NO_DAEMON and b"NO_DAEMON: the host of " + url.encode() + b" is unknown" in done.stderr, done
    for url in ("tcp://host", "tcp://:5", "tcp://host:x", "http://host:5"):
        assert ctl("ping", "--connect", url).returncode == USAGE, url


def sums_of_columns(a):
    """The exact sums over the first and last axis of bits of f32."""
    for i in range(a.shape[1]):
        yield oracle.float_value(oracle.reduce("sum", "f32", np.ascontiguousarray(a[:, i]).ravel()), "f64")


def self_state(run, scratch, part):
    path = scratch / "one"
    path.write_bytes(run("max", "-t", "f32", "--partial", part, binary=True))
    return path


def test_stats_lines(run, scratch):
    path = npy(scratch / "a.npy", np.array([[1.5, -2], [0, 4]]))
    assert run("stats", path) == """count   4
nans    0
zeros   1
min     -2
max     4
argmin  1
argmax  3
sum     3.5
mean    0.875
var     4.796875
std     2.190176933491904
"""
    blocks = run("stats", "--axis", 0, path, path).split("file ")[1:]
    assert len(blocks) == 4 and blocks[1].splitlines()[:3] == [f"   {path}", "column  1", "count   2"]
    told = json.loads(run("stats", "--json", path))
    assert told["op"] == "stats" and told["value"]["sum"] == 3.5 and told["value"]["argmin"] == 1 and len(told["value"]) == 11
    values = [json.loads(x)["value"] for x in run("minmax", "--json", "--axis", 1, path).splitlines()]
    assert values == [[-2, 1.5], [0, 4]] and run("minmax", path) == "-2 4\n"
    assert json.loads(run("any", "--json", path))["value"] is True and run("all", path) == "false\n"
    assert len(run("stats", "--raw", path, binary=True)) == 96
    big = npy(scratch / "b.npy", np.full(4, 2**62, "<i8"))
    assert parsed("stats", run("stats", big))[0]["sum"] == 2**64, "128 bits"
    assert "min     0x1.8p+0" in run("stats", "--hex", npy(scratch / "c.npy", np.array([1.5])))


def test_failing_row_is_numbered_in_the_file(fails, scratch):
    """Rows travel in blocks; the number told is that of the file."""
    a = np.ones(100_000, "<f4")
    a[80_000] = np.nan
    path = npy(scratch / "a.npy", a)
    done = fails(FAILED, "NAN", "sum", "--nan", "error", "--json", "--rows", 100_000, path)
    assert json.loads(done.stdout.decode().splitlines()[-1])["row"] == 80_000
    assert "80000" in done.stderr.decode()


def test_several_files_and_total(run, fails, scratch):
    for name, values in (("a", [1, 2]), ("b c", [10]), ("-d", [100, 200, 300])):
        (scratch / name).write_bytes(np.array(values, "<i4").tobytes())
    paths = [scratch / "a", scratch / "b c", scratch / "-d"]
    assert run("sum", "--dtype", "i32", *paths) == "".join(f"{v}  {p}\n" for v, p in zip((3, 10, 600), paths))
    assert run("sum", "--dtype", "i32", "--total", *paths) == "613\n"
    assert run("argmax", "--dtype", "i32", "--total", *paths) == "5\n"
    missing = fails(FAILED, "IO", "sum", "--dtype", "i32", paths[0], scratch / "nothing", paths[1])
    assert missing.stdout.decode().splitlines() == [f"3  {paths[0]}", f"10  {paths[1]}"], "the others are still done"
    npy(scratch / "f.npy", np.zeros(2))
    fails(FAILED, "TYPE", "sum", "--total", npy(scratch / "g.npy", np.zeros(2, "<f4")), scratch / "f.npy")


def test_pipes(run, ctl, shared, scratch):
    data = np.random.default_rng(54).integers(-(2**31), 2**31, 3_000_001, np.int64).astype("<i4")
    expected = f"{int(data.sum(dtype=np.int64))}\n"
    assert run("sum", "--dtype", "i32", "-", stdin=data.tobytes()) == expected
    assert run("sum", "--dtype", "i32", stdin=data.tobytes()) == expected, "without a file a pipe is meant"
    b = io.BytesIO()
    np.save(b, data)
    assert run("sum", "-", stdin=b.getvalue()) == expected
    with subprocess.Popen([BIN / "reducectl", "sum", "--dtype", "u8", "--no-autostart"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env={**os.environ, "REDUCED_URL": shared.url}) as p:
        for _ in range(50):  # a slow writer, pieces of odd sizes
            p.stdin.write(b"\1" * 7777)
            p.stdin.flush()
        p.stdin.close()
        assert p.stdout.read() == b"388850\n"


def test_text(run, fails):
    assert run("sum", "--text", stdin=b"1 2\n3.5\t-1e0\r\n") == "5.5\n"
    assert run("max", "--text", stdin=b"0x1p-3 .5 +0.25") == "0.5\n"
    assert run("count_nonzero", "--text", stdin=b"") == "0\n"
    assert run("sum", "--text", "--nan", "omit", stdin=b"nan 1 NaN 2") == "3\n"
    assert run("sum", "--text", stdin="\n".join(map(str, range(100_001))).encode()) == "5000050000\n"
    fails(FAILED, r"line 3.*'three'", "sum", "--text", stdin=b"1\n2\nthree\n4\n")
    fails(FAILED, r"line 1.*range", "sum", "--text", stdin=b"1e999")
    fails(FAILED, r"line 2.*too long", "sum", "--text", stdin=b"1\n" + b"7" * 5000)
    fails(FAILED, r"line 1", "sum", "--text", stdin=b"1,2,3")
    fails(FAILED, r"line 1", "sum", "--text", stdin=b"\x1b[31m\x00\xff")


# ---- .npy ----
def test_npy_of_every_shape(run, scratch):
    for i, a in enumerate([np.array(3.5), np.zeros(0, "<f4"), np.zeros((0, 5)), np.ones((2, 3, 4), "<i2"), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
                           np.ones(1000, "?"), np.array([1, 2], "|i1")]):
        for version in ((1, 0), (2, 0), (3, 0)):
            assert float(run("sum", npy(scratch / f"{i}.npy", a, version=version))) == a.sum()


def broken_npy():
    b = io.BytesIO()
    np.save(b, np.arange(5, dtype="<f8"))
    good = b.getvalue()
    text = lambda dict_: b"\x93NUMPY\x01\x00" + struct.pack("<H", len(dict_)) + dict_ + bytes(40)
    yield "cut magic", good[:7], "IO: the .npy header is cut"
    yield "cut header", good[:40], "IO: the .npy header is cut"
    yield "cut data", good[:-1], "IO"
    yield "more data", good + b"x", "IO"
    yield "version", good[:6] + b"\x09" + good[7:], "BAD_MESSAGE"
    yield "huge header", good[:6] + b"\x02\x00\xff\xff\xff\x7f" + good[10:], "BAD_MESSAGE"
    yield "complex", npy_bytes(np.zeros(3, complex)), "TYPE"
    yield "structured", npy_bytes(np.zeros(3, [("a", "i4"), ("b", "f8")])), "TYPE"
    yield "strings", npy_bytes(np.array(["abc"])), "TYPE"
    yield "objects", npy_bytes(np.array([None], object)), "TYPE"
    yield "no dict", text(b"[]"), "BAD_MESSAGE"
    yield "code", text(b"{'descr': __import__('os'), 'fortran_order': False, 'shape': (5,), }"), "BAD_MESSAGE"
    yield "missing key", text(b"{'descr': '<f8', 'shape': (5,), }"), "BAD_MESSAGE"
    yield "twice", text(b"{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (5,), }"), "BAD_MESSAGE"
    yield "negative", text(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-5,), }"), "BAD_MESSAGE"
    yield "overflow", text(b"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 2), }"), "BAD_MESSAGE"
    yield "too many", text(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846977,), }"), "TOO_LARGE.*2\\^60"
    yield "quote", text(b"{'descr': '<f8"), "BAD_MESSAGE"
    yield "nul", text(b"{'descr': '<f8\0', 'fortran_order': False, 'shape': (5,), }"), "BAD_MESSAGE"


def npy_bytes(array):
    b = io.BytesIO()
    np.lib.format.write_array(b, array, allow_pickle=True)
    return b.getvalue()


@pytest.mark.parametrize("name, data, told", list(broken_npy()), ids=lambda v: v if isinstance(v, str) and v.isprintable() else "")
def test_malformed_npy(fails, scratch, name, data, told):
    (scratch / "x.npy").write_bytes(data)
    fails(FAILED, told, "sum", scratch / "x.npy")


def test_npy_with_the_wrong_dtype_option(fails, scratch):
    fails(FAILED, "TYPE.*f32.*f64", "sum", "--dtype", "f32", npy(scratch / "a.npy", np.zeros(3)))
    fails(FAILED, "Fortran", "sum", "--rows", 2, npy(scratch / "b.npy", np.asfortranarray(np.zeros((2, 3)))))
    fails(FAILED, "Fortran", "argmax", "--total", scratch / "b.npy", scratch / "a.npy")


# ---- errors and exit codes ----
def test_errors_of_the_reduction(fails, scratch):
    i64 = struct.pack("<2q", 2**63 - 1, 2**63 - 1)
    done = fails(FAILED, f"OVERFLOW.*{2**64 - 2}", "sum", "--dtype", "i64", "--json", stdin=i64)
    assert json.loads(done.stdout)["exact"] == 2**64 - 2 and json.loads(done.stdout)["error"] == "OVERFLOW"
    fails(FAILED, f"OVERFLOW.*-{2**64}", "sum", "--dtype", "i64", stdin=struct.pack("<2q", -(2**63), -(2**63)))
    fails(FAILED, "EMPTY", "min", "-t", "f32", stdin=b"")
    fails(FAILED, "NAN", "sum", "-t", "f32", "--nan", "error", stdin=struct.pack("<f", math.nan))
    fails(FAILED, "TYPE", "sum", "--dtype", "i32", "--out", "f64", stdin=bytes(8))
    fails(FAILED, "SHAPE", "sum", "-t", "f32", stdin=b"12345")
    (scratch / "odd").write_bytes(b"12345")
    fails(FAILED, "SHAPE.*multiple of the 4 of f32", "sum", "-t", "f32", scratch / "odd")
    fails(FAILED, "SHAPE", "sum", "--rows", 3, "--dtype", "u8", scratch / "odd")
    fails(FAILED, "IO", "sum", scratch)  # a directory
    fails(FAILED, "IO", "sum", scratch / "nothing")
    fails(FAILED, r"two\?\?\[31mlines: IO", "sum", scratch / "two\n\x1b[31mlines")
    os.mkdir(scratch / "locked", 0)
    fails(FAILED, "IO", "sum", scratch / "locked" / "x")


@pytest.mark.parametrize("args, told", [
    ((), "no operation"), (("summ",), "summ"), (("sum", "--dtype", "float"), "float"), (("sum", "--out", "x"), "x"), (("sum", "--nan", "drop"), "drop"),
    (("sum", "--rows", "0"), "rows"), (("sum", "--rows", "-1"), "rows"), (("sum", "--rows", "1e3"), "rows"), (("sum", "--rows", "99999999999999999999"), "rows"),
    (("sum", "--deadline", "0"), "deadline"), (("sum", "--deadline", "2147483648"), "deadline"), (("sum", "--colour"), "colour"), (("sum", "-x"), "-x"),
    (("sum", "--dtype"), "value"), (("sum", "--hex", "--json", "-"), "exclude each other"), (("sum", "--total", "--rows", "2", "-"), "excludes"),
    (("var", "--ddof", "-1"), "ddof"), (("var", "--ddof", "4294967296"), "ddof"), (("sum", "--ddof", "1", "-"), "ddof"), (("sum", "--wrap", "-"), "prod"),
    (("sum", "--axis", "x"), "axis"), (("sum", "--offsets", "x", "--rows", "2", "-"), "excludes"), (("sum", "--offsets", "x", "--axis", "0", "-"), "excludes"),
    (("sum", "--partial", "--json", "-"), "exclude each other"), (("sum", "--partial", "--initial", "1", "-"), "initial"), (("sum", "--merge", "--rows", "2", "-"), "merge"),
    (("sum", "--merge", "--mask", "x", "-"), "merge"), (("sum", "--index-base", "x"), "index-base"), (("sum", "--initial"), "value"),
    (("ping", "file"), "no files"), (("status", "--hex"), "json"),
    (("sum", "--verbose=1", "-"), "option --verbose=1"), (("sum", "--json=x", "-"), "option --json=x"), (("sum", "-\u00e9", "-"), "option -\\?"),
    (("sum,", "-"), "a comma without an operation"), ((",sum", "-"), "a comma without an operation"), (("sum,,max", "-"), "a comma without an operation"),
    (("sum", "--device", "foo", "-"), "GPU-<UUID>"), (("help", "sum", "max"), "one operation or command"),
    (("sum", "-", "-"), "named 2 times"), (("sum", "--mask", "-", "-"), "named 2 times"), (("sum", "--mask", "-"), "named 2 times"), (("sum", "--offsets", "-", "--mask", "-", "x"), "named 2 times"),
    (("put", "x", "--mask", "m", "-"), "need an operation"), (("put", "x", "--rows", "2", "-"), "need an operation"), (("ls", "--partial"), "need an operation"),
    (("put", "x", "--nan", "omit", "-"), "need an operation"), (("drop", "x", "--out", "f32"), "need an operation"), (("ping", "--text"), "apply to operations and put only"),
    (("ls", "--dtype", "f32"), "apply to operations and put only"), (("status", "--deadline", "5"), "apply to operations and put only"),
])
def test_wrong_usage(fails, args, told):
    done = fails(USAGE, told, *args)
    assert b"--help" in done.stderr and not done.stdout


def test_no_daemon(ctl, scratch):
    for url in (f"ipc://{scratch}/none", "tcp://127.0.0.1:1"):
        done = ctl("ping", "--connect", url)
        assert done.returncode == NO_DAEMON and done.stderr.startswith(b"reducectl: "), done.stderr
    assert ctl("sum", "-", stdin=b"1234").returncode == NO_DAEMON
    assert ctl("ping", "--connect", "http://x").returncode == USAGE


def test_output_that_cannot_be_written(shared):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BIN / "reducectl", "sum", "-t", "f32", "--no-autostart"], input=bytes(4), stdout=full, stderr=subprocess.PIPE, env={**os.environ, "REDUCED_URL": shared.url})
    assert done.returncode == FAILED and b"cannot write" in done.stderr


@pytest.mark.parametrize("source, closed, code, told", [
    ("FILE", "<&-", OK, ""), ("FILE", "2>&-", OK, ""), ("FILE", ">&-", FAILED, "cannot write"), ("FILE", "<&- >&-", FAILED, "cannot write"),
    ("-", "<&-", FAILED, "cannot read"), ("-", "<&- >&-", FAILED, "cannot read"),
])
def test_closed_standard_streams(shared, scratch, source, closed, code, told):
    """Closed standard streams: their numbers are not reused, for example by an eventfd of nng, which would swallow 8 bytes."""
    (scratch / "FILE").write_text("1234567")
    script = f'exec "$0" sum --text --no-autostart {source} {closed}'
    done = subprocess.run(["sh", "-c", script, BIN / "reducectl"], cwd=scratch, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "REDUCED_URL": shared.url})
    assert (done.returncode, done.stdout) == (code, "" if code else "1234567\n") and told in done.stderr, done


@contextlib.contextmanager
def late(url):
    """`reducectl sum` that has 200 ms; in the end it must have said that it was too late."""
    with subprocess.Popen([BIN / "reducectl", "sum", "-t", "f32", "--deadline", "200", "--no-autostart"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "REDUCED_URL": url}) as p:
        yield p
        with contextlib.suppress(BrokenPipeError):  # what it did not take
            p.stdin.close()
        assert p.wait(60) == FAILED and b"DEADLINE" in p.stderr.read()


def test_deadline(shared):
    with late(shared.url) as p:
        p.stdin.write(bytes(1000))  # no chunk yet: the daemon hears of it at the end
        p.stdin.flush()
        assert p.wait(60) == FAILED, "the pipe stays open"


@pytest.mark.parametrize("args", [("sum", "--text"), ("median", "-t", "f32"), ("mean,median", "-t", "f32"), ("sum,max", "-t", "u8"), ("put", "late", "-t", "f32"), ("sum",),
                                  ("sum", "--total", "-t", "f64", "-", "/dev/null")], ids=" ".join)
@pytest.mark.parametrize("begun", [b"", b"\x93NUMPY", b"\x1f\x8b"])
def test_a_pipe_that_brings_nothing_has_a_deadline(shared, args, begun):
    """Whatever is known of it by then: nothing, the start of a header or of a compressed stream."""
    with subprocess.Popen([BIN / "reducectl", *args, "--deadline", "100", "--no-autostart"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "REDUCED_URL": shared.url}) as p:
        p.stdin.write(begun)
        p.stdin.flush()
        assert p.wait(60) == FAILED and b"DEADLINE: its deadline passed while it was read" in p.stderr.read()


@pytest.mark.parametrize("op", ["sum", "stats"])  # the table of stats has all arrays of a file under way at once
def test_a_file_after_one_that_was_late_has_its_own_deadline(shared, scratch, op):
    np.savez_compressed(scratch / "b.npz", p=np.arange(3), q=np.arange(4))
    with subprocess.Popen([BIN / "reducectl", op, "--deadline", "3000", "--no-autostart", "-", "b.npz"], cwd=scratch, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, "REDUCED_URL": shared.url}) as p:
        assert p.wait(60) == FAILED and p.stderr.read().count(b"DEADLINE") == 1
        assert len(p.stdout.read().splitlines()) == 2 + 2 * (op == "stats")  # with the file's name and the head of its table


def test_reading_into_memory_takes_from_the_deadline(shared, scratch):
    """The request gets what is left: of a file that takes longer to read, none."""
    with open(scratch / "large", "wb") as f:
        f.truncate(4 << 30)
    begin = time.monotonic()
    with open(scratch / "large", "rb") as f:
        r = subprocess.run([BIN / "reducectl", "median", "-t", "u8", "--deadline", "50", "--no-autostart"], stdin=f, capture_output=True, env={**os.environ, "REDUCED_URL": shared.url})
    assert r.returncode == FAILED and b"DEADLINE" in r.stderr and time.monotonic() - begin < 10


def test_deadline_of_a_stream(shared):
    with late(shared.url) as p, contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
        p.stdin.write(bytes(8 << 20))  # some chunk may be too late already
        p.stdin.flush()
        p.wait(0.5)


def test_text_keeps_integers(run, fails, scratch):
    """Integers are never doubles on the way; what is not an integer is f64; a type that the user names is that type."""
    assert run("sum", "--text", stdin=b"9007199254740993") == "9007199254740993\n"
    assert run("max", "-t", "i64", "--text", stdin=b"9007199254740993 -5") == "9007199254740993\n"
    assert run("max", "--text", stdin=b"18446744073709551615 1") == "18446744073709551615\n"
    assert run("sum", "--text", stdin=b"18446744073709551615 1") == "18446744073709551616\n", "the sum is exact in 128 bits"
    assert run("sum", "--text", stdin=b"9223372036854775807 " * 1000) == f"{1000 * (2**63 - 1)}\n"
    fails(FAILED, "OVERFLOW.*18446744073709551616", "sum", "-t", "u64", "--text", stdin=b"18446744073709551615 1")
    assert run("xor", "--text", stdin=b"0xf0 15") == "255\n"
    assert run("sum", "--text", stdin=b"-0") == "-0\n"
    assert run("sum", "-o", "f32", "--text", stdin=b"1 2") == "3\n", "a float reply takes floats"
    assert run("sum", "--initial", "0.5", "--text", stdin=b"1 2") == "3.5\n"
    assert json.loads(run("sum", "--json", "--text", stdin=b"1 2"))["out"] == "i64"
    assert json.loads(run("sum", "--json", "--text", stdin=b"1 2."))["out"] == "f64"
    fails(FAILED, "TYPE.*line 2: '300' is beyond the range of u8", "sum", "-t", "u8", "--text", stdin=b"1\n300")
    fails(FAILED, "TYPE.*line 1: '2.5' is not an integer", "sum", "-t", "i8", "--text", stdin=b"2.5")
    third = np.float32(1) / np.float32(3)
    assert np.float32(run("max", "-t", "f32", "-o", "f32", "--text", stdin=b"0.3333333333333333333").strip()) == third
    (scratch / "a").write_text("1 2")
    (scratch / "b").write_text("18446744073709551615")
    (scratch / "c").write_text("0.5")
    assert run("sum", "--text", "--total", scratch / "a", scratch / "b") == f"{2**64 + 2}\n"
    assert run("sum", "--text", "--total", scratch / "a", scratch / "c") == "3.5\n"


def test_integers_of_up_to_128_bits(run, fails, scratch):
    """As Python's int has them: their sum beyond 128 bits, the mean rounded once, in pieces of files and of pipes."""
    r = random.Random(15)
    values = [r.choice((1, -1)) * r.randrange(2**r.randrange(1, 129)) for _ in range(60_000)] + [2**128 - 1, 2**64, 1 - 2**128]
    path, top, late = scratch / "wide", scratch / "top", scratch / "late"
    for some in (values, [2**128 - 1] * 9, [2**64 - 1, -1], [2**64, 0, 0], [-2**127 - 1, 3]):
        text = r.choice("\n \t").join((hex, str)[r.randrange(3) > 0](v) for v in some).encode()
        path.write_bytes(text)
        for given in ({"args": [path]}, {"stdin": text}):
            args, stdin = given.get("args", ["-"]), given.get("stdin", b"")
            got = [run(op, "--text", *args, stdin=stdin).strip() for op in ("sum", "min", "max", "mean")]
            assert [*map(int, got[:3])] == [sum(some), min(some), max(some)] and float(got[3]) == sum(some) / len(some), some[:9]
    path.write_text("\n".join(map(str, values)))
    top.write_text("1 2 3")
    assert run("sum", "--text", "--total", top, path) == f"{sum(values) + 6}\n"
    assert run("sum,max", "--text", top, path).split()[3:] == [str(top), "6", "3", str(path), str(sum(values)), str(max(values))]
    got = json.loads(run("max", "--text", "--json", "--json-strings", path))
    assert got == {"file": str(path), "value": str(2**128 - 1), "op": "max", "out": "integer", "count": len(values)}
    late.write_bytes(b"7\n" * 1_200_000 + str(2**100).encode())
    assert run("sum", "--text", late) == f"{2**100 + 8_400_000}\n", "after the first piece, too"
    assert float(run("sum", "--text", "-t", "f64", path)) == math.fsum(map(float, values))
    fails(FAILED, f"TYPE: line 2: '{2**128}' has more than 128 bits", "sum", "--text", stdin=f"1\n{2**128}".encode())
    fails(FAILED, "TYPE: line 1: '0x1000.*' has more than 128 bits", "sum", "--text", stdin=hex(2**128).encode())
    for beyond in (["var"], ["stats"], ["argmax"], ["sum", "--rows", "2"], ["sum", "--initial", "1"], ["sum", "-o", "u64"], ["sum", "--raw"],
                   ["sum", "--partial"]):
        fails(FAILED, "TYPE: integers beyond 64 bits have a sum, mean, min and max", *beyond, "--text", path)
    fails(FAILED, "TYPE: integers that fit neither", "put", "wide", "--text", path)


def test_what_can_be_read_once_is_read_once(run, ctl, shared, scratch):
    """Integers beyond 64 bits come late, after the pass of stats has begun: no operation may see only what is left of a pipe or of a
    decoder, and none of them a part."""
    for late in (b"", b"7\n" * 1_500_000):
        text, total = late + b"18446744073709551616\n1\n", 2**64 + 1 + 7 * (len(late) // 2)
        mean = total / (2 + len(late) // 2)
        for data in (text, gzip.compress(text, 1)):
            (scratch / "t").write_bytes(data)
            for name, stdin in (("-", data), ("/dev/stdin", data), (scratch / "t", b"")):
                got = table(run("sum,mean,max", "--text", name, stdin=stdin))
                assert [(int(t["sum"]), float(t["mean"]), int(t["max"])) for t in got] == [(total, mean, 2**64)], (name, got)
    done = ctl("sum,var,argmax", "--text", url=shared.url, stdin=b"18446744073709551616\n1\n")
    assert done.returncode == FAILED and done.stderr.count(b"integers beyond 64 bits") == 2, done
    assert table(done.stdout.decode()) == [{"sum": str(2**64 + 1), "var": "error", "argmax": "error"}]


@pytest.mark.parametrize("last, value", [("2.5", 1_200_012.5), (str(2**64), 2**64 + 1_200_010)])
def test_standard_input_that_is_a_file_begins_again_where_it_was(shared, scratch, last, value):
    """The type of its beginning is not that of all: it is read again, from the place where it was given."""
    (scratch / "late").write_text("9 9\n" + "1\n" * 1_200_010 + last + "\n")
    with open(scratch / "late", "rb") as f:
        os.lseek(f.fileno(), 4, os.SEEK_SET)
        done = subprocess.run([BIN / "reducectl", "sum", "--text", "--no-autostart"], stdin=f, capture_output=True,
                              env={**os.environ, "REDUCED_URL": shared.url}, timeout=120)
    assert done.returncode == OK and read(done.stdout.decode().strip()) == value, done


def test_a_mask_from_a_pipe_is_for_each_file(run, scratch):
    a = npy(scratch / "a.npy", np.array([1.0, 2]))
    assert [line.split()[0] for line in run("sum", "--mask", "-", a, a, stdin=b"\1\0").splitlines()] == ["1", "1"]
    assert [float(line) for line in run("sum", "--offsets", "-", a, a, stdin=npy(scratch / "o", np.array([0, 1, 2])).read_bytes()).split() if line in "12"] == [1, 2, 1, 2]


@pytest.mark.parametrize("args, text, value", [(["--text"], b"1 2\n", b"3"), (["-t", "u8"], b"\n", b"10"), (["/dev/stdin:b"], b"a,b\n1,5\n", b"5")])
def test_one_end_of_input_is_enough(shared, args, text, value):
    """On a terminal the first Ctrl-D on an empty line ends the input: nothing waits for a second."""
    ours, theirs = pseudo_terminal()
    try:
        p = subprocess.Popen([BIN / "reducectl", "sum", *args, *(["-"] if "/" not in args[0] else []), "--no-autostart"], stdin=theirs,
                             stdout=subprocess.PIPE, env={**os.environ, "REDUCED_URL": shared.url})
        os.write(ours, text + b"\4")
        assert p.communicate(timeout=60)[0].strip() == value
    finally:
        os.close(ours)
        os.close(theirs)


def test_long_text(run, ctl, shared, scratch):
    """Several pieces, by several threads: every number once, lines counted."""
    n = 200_000 if sanitizer() == "thread" else 700_000
    values = np.random.default_rng(54).integers(-2**62, 2**62, n)
    path = scratch / "long"
    path.write_text("\n".join(map(str, values.tolist())))
    assert run("sum", "--text", path) == f"{sum(values.tolist())}\n"
    assert run("argmax", "--text", path) == f"{values.argmax()}\n"
    floats = values / 2**61
    path.write_text("\n".join(map(repr, floats.tolist())) + "\nx\n")
    done = ctl("sum", "--text", path, url=shared.url)
    assert f"line {n + 1}: 'x' is not a number".encode() in done.stderr, done.stderr
    path.write_text("\n".join(map(repr, floats.tolist())))
    assert float(run("sum", "--text", path)) == math.fsum(floats.tolist())
    text = bytearray(b"1\n" * (1 << 19))
    for at in range((1 << 18) + 1, len(text), 1 << 17):  # where threads share the work: no blank
        path.write_bytes(text[:at - 2] + b"\0" + text[at - 1:])
        done = ctl("sum", "--text", "-t", "f64", path, url=shared.url)
        assert done.returncode == FAILED and f"line {at // 2}: '1' is followed by a zero byte".encode() in done.stderr, (at, done.stdout, done.stderr)


@pytest.mark.values(threads_elsewhere=True)  # in the next one
@pytest.mark.parametrize("where", ["file", "pipe"])
def test_a_late_decimal(run, ctl, shared, scratch, where):
    late, path = b"1000000000\n" * (7 << 20) + b"2.5\n", scratch / "late"  # past 64 MiB
    if where == "file":
        path.write_bytes(late)
        assert float(run("sum", "--text", path)) == 7340032 * 1e9 + 2.5
        return
    done = ctl("sum", "--text", url=shared.url, stdin=late)
    assert done.returncode == FAILED and b"line 7340033: '2.5' is not an integer" in done.stderr and b"--dtype f64" in done.stderr, done.stderr


@pytest.mark.values
@pytest.mark.parametrize("last, value, out", [
    ("2.5", 2.5, "f64"), ("-0", 0.0, "f64"), ("-0x0", 0.0, "f64"), ("-000", 0.0, "f64"), ("nan", math.nan, "f64"), ("-7", -7, "i64"),
    (str(2**63), 2**63, "u64"), (str(2**64 - 1), 2**64 - 1, "u64")])
def test_the_type_of_a_file_is_that_of_all_its_numbers(run, scratch, last, value, out):
    """The type is guessed from the beginning first: what follows the first piece still counts, and nothing is printed twice."""
    n = 1_200_000  # 2.4 MB: more than a piece of eight threads
    path = scratch / "late"
    path.write_bytes(b"1\n" * n + last.encode() + b"\n" + b"1\n" * 100)
    got = json.loads(run("max", "--json", "--text", path))
    assert got["out"] == out and got["count"] == n + 101, got
    assert math.isnan(value) and got["value"] == "nan" or got["value"] == max(value, 1), got
    assert run("count_nonzero", "--text", path) == f"{n + 100 + (value != 0)}\n"


def test_a_file_of_text_that_has_no_type(run, fails, scratch):
    n = 1_200_000
    path = scratch / "wide"
    path.write_bytes(b"1\n" * n + b"18446744073709551616\n")
    assert run("sum", "--text", path) == f"{2**64 + n}\n"
    fails(FAILED, "TYPE: integers beyond 64 bits", "var", "--text", path)
    path.write_bytes(b"18446744073709551616\n" + b"1\n" * n + b"0.5\n")
    assert float(run("sum", "--text", path)) == float(2**64 + n)
    path.write_bytes(b"1\n" * n + b"1.5.5\n")
    fails(FAILED, f"TYPE: line {n + 1}: '1.5.5' is not a number", "sum", "--text", path)
    path.write_bytes(b" " * (3 << 20) + b"7\n-0x10")
    assert run("sum", "--text", path) == "-9\n"


def hostile_numbers(r, n):
    """Decimals of all lengths and forms, near to what rounds the other way, and to the ends of windows and of 64 bits."""
    for _ in range(n):
        sign, kind = r.choice(["", "", "-", "+"]), r.randrange(8)
        digits = str(r.randrange(10**r.randrange(1, 40)))
        point = r.randrange(len(digits) + 1)
        decimal = digits[:point] + "." + digits[point:]
        if kind == 0:
            yield sign + repr(abs(struct.unpack("<d", struct.pack("<Q", r.randrange(0x7ff << 52)))[0]))
        elif kind == 1:
            yield sign + "0" * r.randrange(30) + decimal
        elif kind == 2:
            yield sign + decimal + r.choice("eE") + r.choice(["", "-", "+"]) + "0" * r.randrange(3) + str(r.randrange(290))
        elif kind == 3:  # the middle between two doubles, and a digit beside it
            yield sign + str(2**53 + 2 * r.randrange(2**52) + 1) + r.choice(["", ".", ".0", ".00000000001", "e0", "0e-1"])
        elif kind == 4:
            yield sign + str(2**r.randrange(1, 120) + r.randrange(-2, 3)) + r.choice(["", ".", ".5", "e1"])
        elif kind == 5:
            yield sign + f"{r.random() * 10**r.randrange(-8, 9):.{r.randrange(0, 25)}f}"
        elif kind == 6:
            yield sign + f"{r.gauss(0, 1):.18e}".lstrip("-")
        else:
            yield sign + digits


def elements(run, path, dtype, n):
    run("put", "elements", "-t", dtype, "--text", path)
    printed = run("max", "--rows", n, "@elements").split()
    run("drop", "elements")
    return printed


@pytest.mark.parametrize("seed", range(3))
def test_text_as_python_reads_it(run, scratch, seed):
    r = random.Random(seed)
    blank = lambda: r.choice(["\n", "\n", " ", "\t", "\r\n", "  ", "\n\n"])
    path = scratch / "hostile"
    tokens = [t for t in hostile_numbers(r, 20_000) if math.isfinite(float(t))]
    path.write_text("".join(t + blank() for t in tokens))
    got = elements(run, path, "f64", len(tokens))
    wrong = [(t, g) for t, g in zip(tokens, got, strict=True) if float(t) != float(g) or (t[0] == "-") != (g[0] == "-")]
    assert not wrong, wrong[:5]
    for dtype, low, high in (("i64", -2**63, 2**63), ("u64", 0, 2**64), ("i8", -128, 128), ("u32", 0, 2**32)):
        values = [max(low, min(high - 1, r.choice([-1, 1]) * r.getrandbits(r.randrange(1, 66)))) for _ in range(20_000)]
        path.write_text("".join(r.choice(["", "", "+"] if v >= 0 else [""]) + str(v) + blank() for v in values))
        assert list(map(int, elements(run, path, dtype, len(values)))) == values


def test_errors_say_what_and_where_once(run, fails, ctl, shared, scratch):
    """Messages name the place once, in the user's terms, mention rows only if there are some, and give caps and values in
    figures."""
    big = npy(scratch / "u.npy", np.array([2**64 - 1, 2**64 - 1, 1, 2], "<u8"))
    offsets = npy(scratch / "o.npy", np.array([0, 2, 2, 4], "<i8"))
    told = lambda *a, **kw: ctl(*a, url=shared.url, **kw).stderr.decode()
    assert told("max", "--offsets", offsets, big).endswith(": EMPTY: segment 1: max of no elements\n")
    assert ": OVERFLOW: segment 0: the exact sum" in told("sum", "--offsets", offsets, big)
    assert ": OVERFLOW: row 0: the exact sum" in told("sum", "--rows", 2, big)
    floats = npy(scratch / "f.npy", np.array([1.5, 2]))
    state = scratch / "a.state"
    state.write_bytes(run("sum", "--partial", floats, binary=True))
    assert told("max", "--merge", state) == f"reducectl: {state}: TYPE: holds states of sum of f64, not of max\n"
    assert told("sum", "--out", "i64", floats).endswith(": TYPE: sum of f64: result type i64 is not possible\n")
    (scratch / "nine.raw").write_bytes(bytes(72))
    run("put", "nine", scratch / "nine.raw", "--dtype", "f64")
    assert told("sum", "--axis", 0, "@nine") == "reducectl: @nine: SHAPE: these data were put without a shape: --axis needs --rows\n"
    run("drop", "nine")
    for url, hint in ((f"ipc://{scratch}/none", b"start one: reduced --listen URL\n"), (None, b"start one: leave out --no-autostart, or reduced --listen URL\n")):
        none = ctl("count", "-t", "u8", url=url)
        assert none.returncode == NO_DAEMON and hint in none.stderr, none.stderr


# ---- several operations at once ----
def table(text):
    head, *lines = [line.split() for line in text.splitlines()]
    return [dict(zip(head, line, strict=True)) for line in lines]


@pytest.mark.values
@pytest.mark.parametrize("shape", [(), ("--rows", 4), ("--axis", 0), ("--mask", "K"), ("--mask", "K", "--nan", "omit"), ("--nan", "omit")])
@pytest.mark.parametrize("dtype", ["f64", "f16", "f32", "i8", "u64"])
def test_several_operations_are_each_of_them(run, scratch, dtype, shape):
    """A table has the values of the commands for one operation, in one pass (the first list) and in one each."""
    rng = np.random.default_rng(55)
    bits = gens.gauss(rng, dtype, 24) if dtype in oracle.FLOATS else rng.integers(0, 2**7, 24).astype(oracle.unsigned(dtype))
    values = bits.view(NUMPY[dtype]).reshape(4, 6)
    if dtype in oracle.FLOATS and "omit" in shape:
        values[1, 2] = np.nan
    path = npy(scratch / "a.npy", values)
    npy(scratch / "K", rng.integers(0, 2, (4, 6)).astype(np.uint8))
    shape = [scratch / "K" if word == "K" else word for word in shape]
    for ops in ("sum,mean,max,min,var,std,argmin,argmax,count,count_nan", "sum,norm2,any,std,sem,rms,count_nonzero", "minmax,range"):
        got = table(run(ops, *shape, "--ddof", 1, path) if "std" in ops else run(ops, *shape, path))
        for op in ops.replace("minmax", "min,max").split(","):
            alone = run(op, *shape, *(["--ddof", 1] if op in ("var", "std", "sem") else []), path).split()
            assert [line[op] for line in got] == alone, (op, got)


def test_table_of_files(run, ctl, fails, shared, scratch):
    a, b, e = (npy(scratch / name, np.array(v)) for name, v in (("a.npy", [1.0, 2]), ("b.npy", [10.0]), ("e.npy", np.zeros(0))))
    text = run("sum,mean,max", "--total", a, b)
    assert len({len(line) for line in text.splitlines()}) == 1, "aligned"
    assert [[t["file"], t["sum"], t["mean"], t["max"]] for t in table(text)] == [
        [str(a), "3", "1.5", "2"], [str(b), "10", "10", "10"], ["total", "13", str(13 / 3), "10"]]
    assert json.loads(run("sum,max", "--json", a)) == {"file": str(a), "value": {"sum": 3, "max": 2}, "op": "sum,max"}
    assert [(t["row"], t["sum"]) for t in table(run("sum,max", "--rows", 2, a))] == [("0", "1"), ("1", "2")]
    done = ctl("sum,max", a, e, scratch / "nothing", url=shared.url)
    assert done.returncode == FAILED and b"EMPTY: max of no elements" in done.stderr and b"nothing: IO" in done.stderr
    assert [[t["sum"], t["max"]] for t in table(done.stdout.decode())] == [["3", "2"], ["0", "error"], ["error", "error"]]
    assert table(run("sum,mean", "--text", stdin=b"1 2 3")) == [{"sum": "6", "mean": "2"}]
    big = npy(scratch / "big.npy", np.array([2**63 - 1] * 3))
    assert table(run("sum,mean", big))[0]["sum"] == table(run("sum,any", big))[0]["sum"] == str(3 * (2**63 - 1))
    fails(USAGE, "stats is several", "sum,stats", a)
    fails(USAGE, "'put' is a command, not an operation", "sum,put", a)
    fails(USAGE, "several operations exclude", "sum,max", "--raw", a)


def test_tables_of_arrays_without_results(run, scratch):
    """They have no line, as of one operation; it was one of the word error, without a reason, and the exit status 0."""
    none, two = npy(scratch / "none.npy", np.zeros((0, 3))), npy(scratch / "two.npy", np.zeros((2, 3)))
    for ops in ("sum,max", "sum,median", "norm1,prod"):
        assert run("sum", "--axis", 1, none) == run(ops, "--json", "--axis", 1, none) == ""
        assert table(run(ops, "--axis", 1, none)) == []
        assert [line["file"] for line in table(run(ops, "--axis", 1, none, two))] == [str(two)] * 2


def test_pipes_under_other_names_are_read_once(run, fails, scratch):
    """A second reading would be of nothing: prod 1, or a wait without end. Standard input has one meaning in a command."""
    a = npy(scratch / "a.npy", np.array([3.0, 4]))
    for args in (("sum", "--text", "/dev/stdin", "/dev/stdin"), ("sum", "--text", "-", "/proc/self/fd/0"), ("sum", "--mask", "-", "/dev/stdin")):
        fails(USAGE, "standard input is named 2 times", *args, stdin=b"3 4 5")
    fails(USAGE, "--shard excludes", "sum", "--shard", "0/2", "-t", "u8", "/dev/stdin", stdin=b"1234")
    assert table(run("sum,mean", "--text", "/dev/stdin", stdin=b"3 4 5")) == [{"sum": "12", "mean": "4"}]
    assert table(run("sum,prod", "--mask", "/dev/stdin", a, stdin=b"\0\1")) == [{"sum": "4", "prod": "4"}]
    offsets = npy(scratch / "offsets.npy", np.array([0, 1, 2])).read_bytes()
    assert [line["prod"] for line in table(run("sum,prod", "--offsets", "/dev/stdin", a, stdin=offsets))] == ["3", "4"]
    assert table(run("sum,prod", a))[0] == {"sum": "7", "prod": "12"}
    fails(FAILED, "cannot open: No such device", "sum,prod", unix_socket(scratch))


def unix_socket(folder):
    """A socket that nobody listens to."""
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
    return path


def test_several_operations_keep_a_pipe(run, fails, scratch):
    """Standard input, under any name, up to --spool; also beside files, and for a line of its own and the total."""
    a = npy(scratch / "a.npy", np.array([3.0, 4]))
    with open(a, "rb") as f:
        elements = f.read()
    for name in ((), ("-",), ("/dev/stdin",), ("/proc/self/fd/0",)):
        assert table(run("sum,prod", "--text", *name, stdin=b"3 4 5")) == [{"sum": "12", "prod": "60"}], name
        assert table(run("sum,prod,p50", *name, stdin=elements)) == [{"sum": "7", "prod": "12", "p50": "3.5"}], name
    assert table(run("sum,median", "-:b", stdin=b"a,b\n1,2\n3,4\n")) == [{"sum": "6", "median": "3"}]
    for ops, value in (("sum,prod", "12"), ("sum,mean", "3.5")):
        rows = table(run(ops, "--total", "-", a, stdin=elements))
        assert [r["sum"] for r in rows] == ["7", "7", "14"] and rows[0][ops[4:]] == value
    assert table(run("sum,prod", "--text", "--spool", 16, stdin=b"3 4 5")) == [{"sum": "12", "prod": "60"}]
    fails(FAILED, "stdin: TOO_LARGE: pipes that are read again have more than the 4 bytes that --spool allows", "sum,prod", "--text", "--spool", 4, stdin=b"3 4 5")
    fails(FAILED, "EMPTY: max of no elements", "max,prod", "--text", stdin=b"")


def test_a_fifo_is_opened_once(shared, scratch):
    """A reader that comes and goes would cost the writer its data: here it writes as soon as there is a reader."""
    fifo, data = scratch / "fifo", npy(scratch / "a.npy", np.array([3.0, 4])).read_bytes()
    os.mkfifo(fifo)
    for _ in range(100):
        reader = subprocess.Popen([BIN / "reducectl", "sum", fifo, "--no-autostart"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, "REDUCED_URL": shared.url})
        while True:  # as fast as can be
            try:
                writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError:
                assert reader.poll() is None, "it ended and never opened the file"
        try:
            os.write(writer, data)
        finally:
            os.close(writer)
        assert reader.communicate(timeout=30)[0] == b"7\n"


def test_one_pass(ctl, shared, scratch):
    """What stats can give together is one request to the daemon."""
    path = npy(scratch / "a.npy", np.arange(100.0))
    for ops, passes in (("sum,mean,max,std", 1), ("sum,mean,max,norm2", 4)):
        assert ctl(ops, "-v", path, url=shared.url).stderr.count(b" via ") == passes, ops


def test_json_strings(run, scratch):
    path = npy(scratch / "i.npy", np.array([2**53, 1]))
    line = json.loads(run("sum", "--json-strings", path))
    assert line["value"] == str(2**53 + 1) and line["count"] == 2
    assert json.loads(run("max", "--json-strings", path))["value"] == 2**53
    assert json.loads(run("sum,max", "--json-strings", path))["value"] == {"sum": str(2**53 + 1), "max": 2**53}


@pytest.mark.parametrize("op", ["sum", "median"])
def test_of_several_inputs_the_one_that_cannot_be_read_is_named(fails, scratch, op):
    """A file of a total, a mask, weights."""
    good, bad, x = scratch / "good", scratch / "bad", npy(scratch / "x.npy", np.arange(1e6))
    good.write_text("1\n2\n")
    bad.write_text("1\nx\n")
    fails(FAILED, f"total: TYPE: {bad}: line 2: 'x' is not a number", op, "--total", "--text", good, bad)
    mask, weights = scratch / "mask.gz", scratch / "weights.gz"
    for path, array in (mask, np.arange(1e6) % 7 > 3), (weights, np.random.default_rng(1).standard_normal(10**6)):
        path.write_bytes(gzip.compress(npy(scratch / "packed.npy", array).read_bytes(), 1)[:-1000])
    for option in (), ("--rows", 10), ("--axis", 0):
        fails(FAILED, f"{x}: IO: {mask}: the compressed data are cut", op, "--mask", mask, *option, x)
    for option in (), ("--axis", 0):
        fails(FAILED, f"{x}: IO: {weights}: the compressed data are cut", "cov", "--weights", weights, *option, x)
    fails(FAILED, f"{good}: TYPE: {bad}: line 2: 'x' is not a number", "cov", "--text", good, bad)


# ---- what was meant ----
@pytest.mark.parametrize("args, meant", [
    (("sun", "x"), "did you mean 'sum'"), (("avg", "x"), "did you mean 'mean'"), (("stddev", "x"), "did you mean 'std'"), (("satus",), "did you mean 'status'"),
    (("sum", "--jsn", "x"), "did you mean --json"), (("sum", "--dtpye=f32", "x"), "did you mean --dtype"), (("help", "sun"), "did you mean 'sum'"),
    (("sum,maen", "x"), "did you mean 'mean'"), (("SUM", "x"), "did you mean 'sum'"), (("Sum,MEAN", "x"), "did you mean 'sum'"), (("AVG", "x"), "did you mean 'mean'"),
    (("percentile", "x"), "'percentile': reducectl has median, quantile --q 0.25,0.75, p99"), (("help", "Quantiles"), "median, quantile"),
    (("groupby", "x"), "'groupby': reducectl has --by COLUMN of a table"), (("cumsum", "x"), "one value for each array"), (("xyzzy", "x"), "'reducectl help ops' lists all"),
    (("sum", "--JSON", "x"), "did you mean --json? ('reducectl help output' explains it)"), (("sum", "--dtype", "F32", "x"), "did you mean 'f32'"),
    (("sum", "--dtype", "f4", "x"), "did you mean 'f32'"), (("sum", "--dtype", "f8", "x"), "did you mean 'f64'"), (("sum", "--out", "i2", "x"), "did you mean 'i16'"),
    (("sum", "--dtype", ">f64", "x"), "is not one of NumPy's, such as <i4, >f8"), (("sum", "--dtype", ">", "x"), "is not one of NumPy's"),
    (("sum", "--out", ">f4", "x"), "is not one of NumPy's, such as <i4, <f8"),
    (("sum", "--nan", "OMIT", "x"), "did you mean 'omit'"), (("sum", "--json=1", "x"), "('reducectl help output' explains it)"),
])
def test_suggestions(fails, args, meant):
    done = fails(USAGE, re.escape(meant), *args)
    assert done.stderr.count(b"\n") == 2, "a line that answers, and where to read on"


def test_numpy_type_names(run, scratch):
    (scratch / "x").write_bytes(struct.pack("<2f", 1.5, 2))
    assert run("sum", "--dtype", "float32", scratch / "x") == run("sum", "-t", "<f4", scratch / "x") == "3.5\n"
    (scratch / "y").write_bytes(struct.pack("<2q", 7, 9))
    assert run("sum", "-t", "int64", scratch / "y") == run("sum", "-t", "<i8", scratch / "y") == "16\n"
    assert run("count", "-t", "i8", scratch / "y") == "16\n", "i8 alone is ours, of 8 bits"


def test_help_about_one(run):
    for op in oracle.OPS:
        text = run("help", op)
        assert text.startswith(f"reducectl {op} ") and text.count("\n") < 16 and "of no elements" in text, op
    for command in ("ping", "info", "status", "metrics", "top", "put", "ls", "drop", "ladder"):
        assert f"reducectl {command}" in run("help", command), command
    assert run("help", "nan") == run("help", "--nan") == run("help", "values"), "an option leads to its topic"
    assert run("help", "p99.9") == run("help", "quantile")


def test_examples_of_operations_run(run, scratch, monkeypatch):
    """What `help OP` shows, and the options it names, which the operation takes."""
    npy(scratch / "data.npy", np.arange(12, dtype="f4"))
    npy(scratch / "matrix.npy", np.arange(12, dtype="f4").reshape(3, 4))
    np.arange(12, dtype="f4").tofile(scratch / "data.raw")
    monkeypatch.chdir(scratch)
    for op in ("sum", "median", "quantile", "kth", "largest", "smallest", "histogram"):
        text = run("help", op)
        examples = [line.split()[1:] for line in text.splitlines() if line.startswith("  reducectl ")]
        assert len(examples) == 3, text
        for words in examples:
            assert run(*words), words
        assert ("--initial" in text) == (op == "sum"), text
    for op, option in (("quantile", "--q --method"), ("kth", "--k"), ("largest", "--k"), ("histogram", "--bins --edges")):
        assert f"its options      {option} --nan" in run("help", op)


def test_status_for_people(run, shared, scratch):
    """Sections, units, no rows of zeros; --watch goes on until it is stopped."""
    run("sum", npy(scratch / "x.npy", np.ones(3)))
    text = run("status")
    assert re.search(r"^-- daemon --$", text, re.M) and re.search(r"^requests\.sum +[1-9]", text, re.M), text
    assert re.search(r"^rss_bytes +[\d.]+ [KMG]iB$", text, re.M) and re.search(r"^latency.p50_us +[\d.]+ [um]s$", text, re.M), text
    assert not re.search(r"^requests\.\w+ +0$", text, re.M), text
    with subprocess.Popen([BIN / "reducectl", "status", "--watch", "--connect", shared.url], stdout=subprocess.PIPE, text=True) as p:
        heads = 0
        while heads < 2:
            line = p.stdout.readline()
            assert line, "it goes on"
            heads += line == "-- daemon --\n"
        p.send_signal(signal.SIGINT)
        p.stdout.read()
    assert p.returncode == 130


def test_progress_in_a_log(shared, scratch):
    """A line each second without a terminal, if asked for: never a bar."""
    for asked in (["--progress"], []):
        with subprocess.Popen([BIN / "reducectl", "sum", *asked, "-t", "u8", "--no-autostart", "--connect", shared.url], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            told, end = b"", time.monotonic() + (30 if asked else 2.5)
            os.set_blocking(p.stderr.fileno(), False)
            while not told and time.monotonic() < end:  # pace: the pipe
                p.stdin.write(bytes(1 << 16))
                p.stdin.flush()
                told += p.stderr.read() or b""
            p.stdin.close()
            assert p.wait(60) == OK
        assert bool(asked) == bool(re.match(rb"reducectl: stdin: [\d.]+ GB, [\d.]+ GB/s, \d+ s\n", told)) and b"\x1b" not in told, told


# ---- UTF-8 ----
WIDE = {"plain": 5, "\u00fcber": 4, "\u65e5\u672c": 4, "e\u0301a": 2, "\U0001f600": 2}  # columns on a terminal


def columns(text):
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_tables_are_straight_in_utf8(run, scratch, monkeypatch, locale):
    monkeypatch.setenv("LC_ALL", locale)
    files = [npy(scratch / f"{name}.npy", np.ones(3)) for name in WIDE]
    tensors(scratch / "model.safetensors", {name: ("F32", [1], struct.pack("<f", 1)) for name in WIDE})
    assert {name: columns(name) for name in WIDE} == WIDE
    for text in (run("sum,max", *files), run("stats", scratch / "model.safetensors"), run("sum,max", scratch / "model.safetensors")):
        lines = text.splitlines()
        assert len(lines) == 1 + len(WIDE) and len({columns(line) for line in lines}) == 1, text


def test_messages_are_utf8(fails, scratch):
    fails(FAILED, "\u00fc\u65e5.npy: IO", "sum", scratch / "\u00fc\u65e5.npy")
    fails(FAILED, r"/\?\?\[31mx\?: IO", "sum", os.fsdecode(os.fsencode(scratch) + b"/\xc2\x9b\x1b[31mx\xff"))
    fails(FAILED, "'5\u20ac' is not a number", "sum", "--text", stdin="5\u20ac".encode())


# ---- formats ----
def test_json(run, scratch):
    name = scratch / 'odd "name"\n\u00fc\x01'
    name.write_bytes(struct.pack("<3f", 1.5, 2.25, -0.5))
    line = json.loads(run("sum", "-t", "f32", "--json", name))
    assert line["value"] == 3.25 and line["op"] == "sum" and line["count"] == 3 and line["file"] == str(name) and line["backend"] in ("cpu", "cuda")
    assert json.loads(run("sum", "-t", "f32", "--json", stdin=struct.pack("<f", math.nan)))["value"] == "nan"
    assert [json.loads(x)["row"] for x in run("max", "-t", "f32", "--json", "--rows", 3, name).splitlines()] == [0, 1, 2]
    assert json.loads(run("sum", "--json", "--dtype", "u64", stdin=b"\xff" * 8))["value"] == 2**64 - 1


def test_verbose_of_nothing(ctl, shared, scratch):
    done = ctl("sum", "-v", "--axis", "0", npy(scratch / "n.npy", np.zeros((3, 0))), url=shared.url)
    assert done.returncode == OK and done.stdout == b"" and b"0 x f64" in done.stderr and b"?" not in done.stderr, done.stderr


def test_verbose_names_the_type(ctl, shared):
    done = ctl("sum", "-v", "-t", "f32", url=shared.url, stdin=bytes(8))
    assert done.returncode == OK and done.stdout == b"0\n" and b"raw elements, 2 x f32" in done.stderr


def test_ping_info_status(run):
    assert re.search(r"reduced .* in \d+ us", run("ping"))
    assert json.loads(run("ping", "--json"))["ns"] > 0
    for topic in ("info", "status"):
        told = json.loads(run(topic, "--json"))
        lines = dict(line.split(None, 1) for line in run(topic).splitlines())
        assert set(lines) <= set(told) | set(lines) and lines["backend"] == told["backend"]
        if topic == "info":  # which does not change
            numbers = {key: int(text) for key, text in lines.items() if text.isdigit()}
            assert len(numbers) > 3 and numbers.items() <= told.items()
    for key in ("backend", "device", "sessions", "requests", "bytes_in", "pool.device.bytes", "pool.pinned.bytes", "latency.p50_us", "latency.p99_us"):
        assert key in told, key


def test_help_teaches_and_its_examples_work(run, ctl, scratch, shared):
    text = run("--help")
    assert run("help") == text and text.count("\n") <= 40, "a screen"
    topics = {t: run("help", t) for t in re.findall(r"^  ([a-z]+) +\S", text.split("Topics:")[1], re.M)}
    assert len(topics) >= 9
    everything = [text, *topics.values(), *(run("help", w) for w in (*oracle.OPS, "ping", "info", "status", "metrics", "top", "put", "ls", "drop", "help"))]
    assert not [line for t in everything for line in t.splitlines() if len(line) > 80]
    manual, *shells = ((ROOT / "client" / p).read_text() for p in ("man/reducectl.1", "ctl/reducectl.bash", "ctl/reducectl.fish", "ctl/reducectl.zsh"))
    lists = [re.findall(r"\w+", re.search(r"\bsum min max argmin.*?histogram[^\n]*", s, re.S)[0]) for s in shells]  # of operations
    for option in reducectl_options():
        assert len([t for t in topics.values() if re.search(rf"^  .{{4}}--{option}\b(?!-)", t, re.M)]) == 1, f"--{option} has a row in client/ctl/help_rows.c"
        assert f"--{option}" in manual.replace("\\-", "-") and f"--{option}" in shells[0], option
        assert all(re.search(rf"(--|-l ){option}\b", s) for s in shells[1:]), option
    every = re.findall(r'^    X\(\w+, "(\w+)", \d+, "', (ROOT / "proto/types.def").read_text().split("#define RP_OPS(X)")[1].split("#define")[0], re.M)
    assert len(every) >= len(oracle.OPS)
    for op in every:
        assert re.search(rf"\b{op}\b", text) and re.search(rf"^  {op} ", topics["ops"], re.M) and re.search(rf"\b{op}\b", manual) and all(op in known for known in lists), op
    npy(scratch / "data.npy", np.array([1.5, 2.5]))
    npy(scratch / "m.npy", np.arange(3000.0).reshape(1000, 3))
    npy(scratch / "t.npy", np.array([1.0, np.nan]))
    npy(scratch / "images.npy", np.arange(24.0).reshape(2, 3, 4))
    (scratch / "x.raw").write_bytes(struct.pack("<2H", 7, 9))
    (scratch / "x.bin").write_bytes(struct.pack("<2q", 7, 9))
    np.savez(scratch / "run.npz", u=np.arange(3))
    tensors(scratch / "model.safetensors", {"w": ("F32", [2], struct.pack("<2f", 1, 2)), "b": ("BF16", [1], b"\x80\x3f")})
    (scratch / "data.csv").write_text("day,price\n1,2.5\n2,\n")
    subprocess.run("head -c 4000 /dev/zero | gzip > big.f32.gz", shell=True, cwd=scratch, check=True)
    examples = re.findall(r"^  (.*reducectl \w+ .*?)(?: {2,}.*)?$", topics["examples"], re.M)
    assert len(examples) >= 12 and set(re.findall(r"^  (.*reducectl \w+ .*?) {2,}", text, re.M)) <= set(examples)
    for example in examples:
        done = subprocess.run(example, shell=True, cwd=scratch, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "REDUCED_URL": shared.url})
        assert done.returncode == OK and done.stdout, (example, done.stderr)


def test_version(run):
    assert re.fullmatch(r"reducectl \d+\.\d+\.\d+\n", run("--version"))


# ---- the private daemon ----
def test_autostart(ctl, scratch):
    """The first command of a new user: a private daemon starts, serves, is found again, and leaves on SIGTERM."""
    pids = lambda: [int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and is_ours(p)]

    def is_ours(p):
        try:
            return str(BIN / "reduced").encode() in (p / "cmdline").read_bytes().split(b"\0")[0] and str(scratch).encode() in (p / "environ").read_bytes()
        except OSError:
            return False

    try:
        done = ctl("sum", "-v", "-t", "f32", stdin=struct.pack("<f", 2.5), autostart=True)
        assert done.returncode == OK and done.stdout == b"2.5\n" and b"started now" in done.stderr, done.stderr
        assert len(pids()) == 1
        again = ctl("sum", "-v", "-t", "f32", stdin=struct.pack("<f", 3.5), autostart=True)
        assert again.stdout == b"3.5\n" and b"started now" not in again.stderr
        assert ctl("ping").returncode == OK, "found without starting one, too"
        assert len(pids()) == 1
    finally:
        for pid in pids():
            os.kill(pid, signal.SIGTERM)


def test_autostart_by_a_program_without_standard_streams(scratch):
    """The daemon gets whole ones all the same: what it opens later must not be where its log goes."""
    program = f"""if True:
        import ctypes as C, os
        lib, client = C.CDLL({str(LIB / "libreduce.so")!r}), C.c_void_p()
        Opts = type("Opts", (C.Structure,), {{"_fields_": [("size", C.c_uint32), ("flags", C.c_uint32), ("name", C.c_char_p)] + [
            (n, C.c_uint32) for n in ("connect", "reconnect", "timeout")] + [("daemon", C.c_char_p), ("idle", C.c_uint32)] + [
            (n, C.c_char_p) for n in ("ca", "cert", "key")] + [("priority", C.c_int32), ("reserved", C.c_uint32)]}})
        opts = Opts(C.sizeof(Opts), 1, daemon={str(BIN / "reduced")!r}.encode(), idle=60)
        for closed in {{closed}}:
            os.close(closed)
        failed = lib.reduce_open(C.byref(client), None, C.byref(opts)) != 0
        left = {{n: os.readlink(f"/proc/self/fd/{{n}}") for n in map(int, os.listdir("/proc/self/fd")) if os.path.lexists(f"/proc/self/fd/{{n}}")}}
        kept = any(name.endswith(".log") or name.startswith("pipe:") and n > 2 for n, name in left.items())
        os._exit(2 * kept + failed)
    """
    env = {**python_env(), "XDG_RUNTIME_DIR": str(scratch), "XDG_CONFIG_HOME": str(scratch), "HOME": str(scratch)}
    log = str(scratch / "reduced.log")
    for closed in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
        done = subprocess.run([sys.executable, "-c", program.replace("{closed}", repr(closed))], env=env, timeout=60)
        found = [p for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and owned(p, scratch)]
        streams = [[os.path.realpath(p / "fd" / str(n)) for n in range(3)] for p in found]
        for p in found:
            leaving = os.pidfd_open(int(p.name))
            os.kill(int(p.name), signal.SIGTERM)
            select.select([leaving], [], [])  # readable once it has left, and the next one can have its socket
            os.close(leaving)
        assert done.returncode == 0 and streams == [["/dev/null", log, log]], closed


def test_no_place_for_a_daemon_of_ones_own(ctl, scratch):
    """None is started in the system's place then."""
    if ctl("ping", url="ipc:///run/reduced/reduced.sock").returncode == OK:
        pytest.skip("the system's daemon runs here, and serves")
    for n in (100, 200):  # too long for a socket, for a URL
        long = scratch / ("x" * n)
        long.mkdir(0o700)
        done = ctl("count", "-t", "u8", stdin=b"", autostart=True, env={"XDG_RUNTIME_DIR": str(long)})
        assert done.returncode == NO_DAEMON and b"too long" in done.stderr, done.stderr
    done = ctl("count", "-t", "u8", stdin=b"", autostart=True, env={"XDG_RUNTIME_DIR": "/" + "x" * 300})
    assert done.returncode == NO_DAEMON and b"START: no directory for a daemon of this user" in done.stderr, done.stderr
    for name in ("reduced.sock", "reduced.log"):  # in the way of both
        (scratch / name).mkdir()
    done = ctl("count", "-t", "u8", stdin=b"", autostart=True)
    assert done.returncode == NO_DAEMON and b"START: the daemon exited at once; no log beside its socket: Is a directory" in done.stderr, done.stderr


@pytest.mark.unsanitized
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become a user with a limit")
def test_no_process_for_a_daemon_of_ones_own(scratch):
    """The user may have two: the command, and the child that would start the daemon. That one says why it cannot."""
    def become():
        resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
        os.setgroups([])
        os.setresgid(54321, 54321, 54321)
        os.setresuid(54321, 54321, 54321)
    try:
        os.chown(scratch, 54321, 54321)
        done = subprocess.run([BIN / "reducectl", "count", "-t", "u8"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, preexec_fn=become,
                              env={"XDG_RUNTIME_DIR": str(scratch)})
    except OSError as e:
        pytest.skip(f"another user cannot run {BIN}: {e}")
    assert done.returncode == NO_DAEMON and b"START: cannot start" in done.stderr and os.strerror(errno.EAGAIN).encode() in done.stderr, done.stderr


def test_none_is_started_at_an_address_that_was_given(ctl, scratch):
    """Such an address may be mistyped, and a daemon there would leave its files there."""
    place = scratch / "given"
    place.mkdir()
    for url in (f"ipc://{place}/own.sock", "ipc://tmp/own.sock", "ipc://own.sock", "tcp://127.0.0.1:1"):
        for done in (ctl("count", "-t", "u8", stdin=b"", autostart=True, url=url), ctl("count", "-t", "u8", "--connect", url, stdin=b"", autostart=True)):
            assert done.returncode == NO_DAEMON, done.stderr
            assert b"NO_DAEMON" in done.stderr and b"none is started at an address that was given" in done.stderr, done.stderr
    assert not list(place.iterdir()) and not daemons(scratch)


class OwnDaemons:
    """A place for private daemons of libreduce and reducectl, which are stopped at the end."""

    def __init__(self, directory):
        self.directory = directory
        self.env = {"XDG_RUNTIME_DIR": str(directory), "XDG_CONFIG_HOME": str(directory), "HOME": str(directory)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in daemons(self.directory):
            end(pid, signal.SIGTERM)


def end(pid, sign):
    """Return when the process has gone, so that another daemon can have its socket."""
    with contextlib.suppress(ProcessLookupError):
        leaving = os.pidfd_open(pid)
        os.kill(pid, sign)
        select.select([leaving], [], [])
        os.close(leaving)


def test_questions_start_no_daemon(ctl, scratch):
    """Only what needs a daemon to work on data starts one."""
    for command in (["ping"], ["info"], ["status"], ["status", "--requests"], ["metrics"], ["top", "--once"], ["ls"], ["drop", "x"]):
        done = ctl(*command, autostart=True)
        assert done.returncode == NO_DAEMON and not done.stdout, (command, done.stderr)
        assert b"NO_DAEMON" in done.stderr and b"start one: by a reduction or put, or with reduced --listen URL" in done.stderr, done.stderr
        assert not daemons(scratch), command
    with OwnDaemons(scratch):
        assert ctl("put", "x", "-t", "u8", stdin=b"1", autostart=True).returncode == OK and len(daemons(scratch)) == 1
        assert b"x " in ctl("ls", autostart=True).stdout and len(daemons(scratch)) == 1


def test_a_private_daemon_that_dies_is_started_again(scratch):
    """The library that has lost its daemon does not wait for somebody to start another one."""
    program = f"""if True:
        import ctypes as C, sys
        sys.path.insert(0, {str(ROOT / "tests")!r})
        from libreduce import load
        lib, client, ns = load(), C.c_void_p(), C.c_uint64()
        Opts = type("Opts", (C.Structure,), {{"_fields_": [("size", C.c_uint32), ("flags", C.c_uint32), ("name", C.c_char_p)] + [
            (n, C.c_uint32) for n in ("connect", "reconnect", "timeout")] + [("daemon", C.c_char_p), ("idle", C.c_uint32)] + [
            (n, C.c_char_p) for n in ("ca", "cert", "key")] + [("priority", C.c_int32), ("reserved", C.c_uint32)]}})
        opts = Opts(C.sizeof(Opts), 1, daemon={str(BIN / "reduced")!r}.encode(), idle=60)
        for _ in range(3):
            code = lib.reduce_ping(client, C.byref(ns)) if client else lib.reduce_open(C.byref(client), None, C.byref(opts))
            print(code, lib.reduce_errmsg().decode() if code else "", flush=True)
            sys.stdin.readline()
    """
    with OwnDaemons(scratch) as own:
        p = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**python_env(), **own.env})
        seen = []
        for _ in range(3):
            line = p.stdout.readline()
            assert line == "0 \n", (line, (scratch / "reduced.log").read_text())
            seen += daemons(scratch)
            end(seen[-1], signal.SIGKILL)
            p.stdin.write("\n")
            p.stdin.flush()
        p.stdin.close()
        assert p.wait(60) == 0 and len(set(seen)) == 3


def test_a_command_outlives_the_private_daemon_of_another(ctl, scratch):
    """It was started by an earlier command, and is killed under a later one."""
    with OwnDaemons(scratch) as own:
        assert ctl("count", "-t", "u8", stdin=b"", autostart=True).returncode == OK
        env = {**os.environ, **own.env}
        with subprocess.Popen([BIN / "reducectl", "put", "x", "-v", "-t", "u8"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as p:
            line = p.stderr.readline()  # it has a session
            end(daemons(scratch)[0], signal.SIGKILL)
            _, errors = p.communicate(bytes(1000), timeout=60)
        assert b" on ipc" in line and p.returncode == OK, errors
        assert ctl("sum", "@x").stdout == b"0\n"


def test_idle_exit_of_the_users_configuration(scratch):
    """It is for daemons that clients start, too."""
    (scratch / "reduced").mkdir()
    (scratch / "reduced" / "reduced.conf").write_text("idle-exit = 1\n")
    with OwnDaemons(scratch) as own:
        env = {**os.environ, **own.env}
        started = subprocess.run([BIN / "reduced", "--config", scratch / "reduced" / "reduced.conf", "--autostarted", "--dump-config"], capture_output=True, text=True, env=env)
        usual = subprocess.run([BIN / "reduced", "--config", "/dev/null", "--autostarted", "--dump-config"], capture_output=True, text=True, env=env)
        assert "idle-exit = 1\n" in started.stdout and "idle-exit = 600\n" in usual.stdout


@pytest.mark.skipif(0 < os.geteuid() < 1000, reason="the configuration of users below 1000 is the system's")
def test_a_started_daemon_leaves_as_the_users_configuration_says(scratch):
    """A real daemon of an ordinary user; root becomes one."""
    other = {} if os.geteuid() else {"user": 12345, "group": 12345, "extra_groups": []}
    os.chmod(scratch, 0o755)
    home = scratch / "home"
    (home / "reduced").mkdir(parents=True)
    (home / "reduced" / "reduced.conf").write_text("idle-exit = 1\n")
    for program in ("reduced", "reducectl"):
        shutil.copy(BIN / program, scratch)
    if other:
        os.chown(home, 12345, 12345)
    os.chmod(home, 0o700)
    with OwnDaemons(home) as own:
        with subprocess.Popen([scratch / "reducectl", "sum", "-v", "-t", "u8"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, **own.env}, **other) as p:
            assert b", started now" in p.stderr.readline()  # it is not idle as long as this client is there
            daemon, = daemons(home)
            assert os.stat(f"/proc/{daemon}").st_uid == (12345 if other else os.geteuid())
            leaving = os.pidfd_open(daemon)
            assert not select.select([leaving], [], [], 0)[0]
            assert p.communicate(b"\2\3", timeout=60)[0] == b"5\n"
        assert select.select([leaving], [], [], 60)[0], "it stays"
        os.close(leaving)
        assert b"idle" in (home / "reduced.log").read_bytes()


def test_the_library_leaves_idle_exit_to_the_configuration(ctl, scratch):
    with OwnDaemons(scratch):
        assert ctl("count", "-t", "u8", stdin=b"", autostart=True).returncode == OK
        assert b"--idle-exit" not in pathlib.Path(f"/proc/{daemons(scratch)[0]}/cmdline").read_bytes()


def test_wait_for_a_daemon_that_comes_later(ctl, scratch, start):
    url = f"ipc://{scratch}/s"
    with subprocess.Popen([BIN / "reducectl", "sum", "-t", "u8", "--wait", "60", "--connect", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        p.stdin.write(b"\2\3")
        p.stdin.close()
        start()
        assert p.stdout.read() == b"5\n"
    assert p.returncode == OK
    begun = time.monotonic()
    done = ctl("ping", "--wait", "1", autostart=True)
    assert done.returncode == NO_DAEMON and b"no daemon listens" in done.stderr and time.monotonic() - begun >= 1, done.stderr


def test_many_autostart_at_once(ctl, scratch):
    """Ten first commands at the same moment: all answered, one daemon in the end."""
    env = {**os.environ, "XDG_RUNTIME_DIR": str(scratch), "XDG_CONFIG_HOME": str(scratch), "HOME": str(scratch)}
    commands = [subprocess.Popen([BIN / "reducectl", "sum", "-t", "f32"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) for _ in range(10)]
    try:
        answers = [c.communicate(struct.pack("<f", 2.5), timeout=60) for c in commands]
        assert [a[0] for a in answers] == [b"2.5\n"] * 10, answers
        end = time.monotonic() + 60
        while len(found := daemons(scratch)) > 1:  # looking takes a while: pace enough
            assert time.monotonic() < end, f"{found} do not leave"
        assert len(found) == 1
    finally:
        for pid in daemons(scratch):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def daemons(scratch):
    """Those that were started with their runtime directory there."""
    return [int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and owned(p, scratch)]


def owned(p, scratch):
    try:
        return (p / "cmdline").read_bytes().split(b"\0")[0].endswith(b"reduced") and str(scratch).encode() in (p / "environ").read_bytes()
    except OSError:
        return False
