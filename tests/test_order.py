"""Median, quantiles and k-th elements through every door, against exact fractions."""
import asyncio
import ctypes as C
import gzip
import json
import math
import struct
import subprocess
import warnings
from decimal import Decimal
from fractions import Fraction as F

import numpy as np
import pytest

import libreduce
import oracle
import order
from conftest import BIN, ROOT, sanitizer
from oracle import DTYPES, FLOATS, SIZE, unsigned
from piped import Piped
from pythonpackage import PACKAGE, package, reduced  # noqa: F401
from rawclient import COLUMNS, MASK, OFFSETS, REDUCE, STATES_IN, STATES_OUT, Fault, parameter, parse_result, spec

QUANTILES = (0.0, 1.0, 0.5, 0.25, 0.1, 0.9, 0.99, 1 / 3, 0.7, 1e-3, 1e-17, 5e-324, 1e-300, 0.999999999999999, 1 - 2**-53, 0.123456789012345)


EDGES = (-math.inf, -1e300, -2.0**63, -65504.0, -1.5, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1e-40, 0.5, 1.0, 2.0, 2.5, 127.0, 2.0**31, 2.0**53 + 2, 2.0**63, 2.0**64,
         1e39, math.inf)


def decimal(q):
    """(digits, exponent) of the shortest decimal."""
    _, digits, exponent = Decimal(repr(q)).as_tuple()
    return int("".join(map(str, digits))), exponent


def share(q):
    return F(Decimal(repr(q)))


def random_bits(rng, dtype, n, kind):
    """Elements by their bits."""
    u = unsigned(dtype)
    whole = rng.integers(0, 2**64, n, np.uint64, endpoint=False)
    x = whole.astype(u)
    if kind == "few":
        x = (whole % 4).astype(u)
    elif kind == "equal":
        x = np.full(n, x[0] if n else 0, u)
    elif kind == "zeros" and dtype in FLOATS:
        x = ((whole % 2).astype(u) << u.type(8 * SIZE[dtype] - 1)) | (whole >> np.uint64(8) & np.uint64(whole[0] % 2 if n else 0)).astype(u)
    elif kind == "near" and dtype in FLOATS:
        x = (u.type(oracle.inf_bits(FLOATS[dtype]) // 2) + (whole % 1000).astype(u)) | (whole >> np.uint64(60) & np.uint64(1)).astype(u) << u.type(8 * SIZE[dtype] - 1)
    elif kind == "infinite" and dtype in FLOATS:
        x = np.where(whole % 3 == 0, u.type(oracle.inf_bits(FLOATS[dtype])) | (whole >> np.uint64(63)).astype(u) << u.type(8 * SIZE[dtype] - 1), x)
    return x.astype(u)


KINDS = ("bits", "few", "equal", "zeros", "near", "infinite")


def request(rng):
    """(op, parameters for the oracle, tagged parts)"""
    op = str(rng.choice(list(order.OPS)))
    if op == "median":
        return op, {}, b""
    if op == "kth":
        k = int(rng.integers(-12, 12))
        return op, {"k": k}, parameter("k", k)
    if op in order.TOP:
        k = int(rng.integers(1, 50))
        return op, {"k": k}, parameter("k", k)
    if op == "histogram":
        edges = np.sort(np.concatenate([rng.choice(EDGES, rng.integers(1, 8)), rng.standard_normal(rng.integers(1, 4)) * 10.0 ** rng.integers(-3, 3)]))
        return op, {"edges": edges.tolist()}, parameter("edges", *edges)
    method = str(rng.choice(order.METHODS))
    q = [float(x) for x in rng.choice(QUANTILES, rng.integers(1, 6))] + [float(x) for x in rng.random(rng.integers(0, 3))]
    code = order.METHODS.index(method)
    return op, {"q": q, "method": method}, parameter("q", *map(decimal, q)) + (parameter("method", code) if code or rng.integers(2) else b"")


def wanted(op, dtype, lines, masks, p, **kw):
    """The cells, or (name of the fault, index)."""
    exact, cells = {**p, "q": [share(q) for q in p.get("q", ())]}, []
    for i, (line, mask) in enumerate(zip(lines, masks)):
        try:
            cells.append(order.cell(op, dtype, line, mask=mask, **exact, **kw))
        except oracle.Fault as e:
            return e.name, i
    return cells


def random_task(rng, most=40, rows=5):
    """(lines, masks, keywords of `spec`, data)"""
    dtype = str(rng.choice(list(DTYPES)))
    rows, n, planes = int(rng.integers(1, rows)), int(rng.integers(0, most)), int(rng.integers(1, 4)) if rng.integers(3) == 0 else 1
    shape = str(rng.choice(["rows", "columns", "segments"]))
    bits = random_bits(rng, dtype, planes * rows * n if shape != "segments" else n, str(rng.choice(KINDS)))
    mask = rng.integers(0, 3, len(bits)).astype(np.uint8) if rng.integers(3) == 0 else None
    flags, head = MASK if mask is not None else 0, b""
    if shape == "segments":
        offsets = np.sort(rng.integers(0, n + 1, rows + 1)).astype("<u8")
        flags, head, planes = flags | OFFSETS, offsets.tobytes(), 0
        cut = [slice(int(a), int(b)) for a, b in zip(offsets, offsets[1:])]
    else:
        at = np.arange(len(bits)).reshape(planes, rows, n)
        flags |= COLUMNS if shape == "columns" else 0
        cut = list(at.transpose(0, 2, 1).reshape(-1, rows)) if shape == "columns" else list(at.transpose(1, 0, 2).reshape(rows, -1))
        planes = 0 if planes == 1 else planes
    masks = [None if mask is None else mask[c] for c in cut]
    data = head + bits.tobytes() + (b"" if mask is None else mask.tobytes())
    return dtype, [bits[c] for c in cut], masks, {"flags": flags, "rows": rows, "row_len": n, "planes": planes}, data


@pytest.fixture(scope="module")
def conn(shared):
    with shared.connect() as c:
        yield c


def result(conn, body):
    return parse_result(conn.call(REDUCE, body))


def check_random_array(conn, seed, *size):
    """The same bits, or the same fault."""
    rng = np.random.default_rng(seed)
    dtype, lines, masks, shape, data = random_task(rng, *size)
    op, p, parts = request(rng)
    nan = str(rng.choice(["propagate", "omit", "error"]))
    usual = order.default_out(op, dtype, p.get("method", "linear"))
    out = str(rng.choice(list(FLOATS) if usual == "f64" else ["i64", "u64"])) if rng.integers(2) and op != "histogram" else None
    want = wanted(op, dtype, lines, masks, p, nan=nan, out=out)
    body = spec(order.OPS[op], dtype, nan=nan, out=out or 0, tagged_len=len(parts), **shape) + parts + data
    try:
        got = result(conn, body).cells
    except Fault as e:
        got = e.code, e.index
        if e.code == "OVERFLOW":
            assert not -2**63 <= e.value < 2**63 or e.value < 0
    assert got == want, (seed, op, dtype, p, shape)


def test_random_arrays(conn):
    """Every element type, shape, policy and method."""
    for seed in range(1500):
        check_random_array(conn, seed)


def test_many_short_lines(conn):
    """Those that are sorted side by side."""
    for seed in range(120):
        check_random_array(conn, seed, 14, 150)


def test_small_shares(conn):
    """Just above a tie, so little that only the rest of a division has it; and of a large difference."""
    for dtype, x in (("i64", (0, 2**62)), ("i64", (2**53 + 1, 2**53 + 2)), ("i64", (-2**62 + 2**8 - 1, -2**62 + 2**8)), ("u64", (2**63 + 2**10, 2**63 + 2**10 + 1))):
        x = np.array(x, dtype.replace("i64", "int64").replace("u64", "uint64"))
        for tens in (16, 17, 18, 19, 20, 25, 29, 30):
            q = float(f"1e-{tens}")
            parts = parameter("q", decimal(q))
            got = result(conn, spec(order.OPS["quantile"], dtype, row_len=2, tagged_len=len(parts)) + parts + x.tobytes()).cells
            assert got == wanted("quantile", dtype, [x.view(np.uint64)], [None], {"q": [q]}, nan="propagate", out=None), (dtype, tens)


def test_ends_of_types_in_histograms(conn):
    """Elements at both ends of their type, beside edges at the ends, below and above; by tables of values and of keys."""
    ends = (-math.inf, -2.0**64, -2.0**63, -1e-310, 0.0, 2.0**63 - 1024, 2.0**63, 2.0**64 - 2048, 2.0**64, 1e308, math.inf)
    for dtype in DTYPES:
        bits, u = 8 * SIZE[dtype], unsigned(dtype)
        x = np.array([0, 1, 2**bits - 1, 2**bits - 2, 2**(bits - 1), 2**(bits - 1) - 1, 2**(bits - 1) + 1] * 5, u)
        some = [[a, b] for a, b in zip(ends, ends[1:])] + [[0.0, 1.0], [-1.0, 1.0], [0.5, 0.75], list(ends), np.linspace(-3, 3, 41).tolist(),
                                                           np.geomspace(1e-300, 1e300, 50).tolist(), [1e-320 * i for i in range(30)]]
        for edges in some:
            parts = parameter("edges", *edges)
            got = result(conn, spec(32, dtype, nan="omit", row_len=len(x), tagged_len=len(parts)) + parts + x.tobytes()).cells
            assert got == wanted("histogram", dtype, [x], [None], {"edges": edges}, nan="omit", out=None), (dtype, edges)


def test_each_bit_pattern_of_f16(conn):
    """Twice, in any order: quantiles at each of them, and between."""
    x = np.random.default_rng(1).permutation(np.repeat(np.arange(2**16, dtype=np.uint16), 2))
    ordered, nans = order.sort("f16", x)
    assert nans == 2 * 2 * 1023
    for i in range(0, len(ordered), 4099):
        parts = parameter("k", i)
        got = result(conn, spec(29, "f16", nan="omit", out="f16", row_len=len(x), tagged_len=len(parts)) + parts + x.tobytes()).cells
        assert got == [int(ordered[i]).to_bytes(2, "little")]
    q = [i / 63 for i in range(64)]
    parts = parameter("q", *map(decimal, q))
    got = result(conn, spec(28, "f16", nan="omit", row_len=len(x), tagged_len=len(parts)) + parts + x.tobytes()).cells
    assert got == wanted("quantile", "f16", [x], [None], {"q": q}, nan="omit", out=None)


def test_the_golden_vectors(conn):
    """tests/golden/order.txt, through the daemon."""
    lines = [line.split() for line in (ROOT / "tests/golden/order.txt").read_text().splitlines() if line[0] != "#"]
    assert {int(line[0]) for line in lines} == set(order.OPS.values())
    for op, dtype, nan, parts, data, cell in lines:
        parts, data = (b"" if x == "-" else bytes.fromhex(x) for x in (parts, data))
        dtype = next(name for name, code in DTYPES.items() if code == int(dtype))
        body = spec(int(op), dtype, nan=next(n for n, code in oracle.NANS.items() if code == int(nan)), row_len=len(data) // SIZE[dtype], tagged_len=len(parts))
        try:
            assert result(conn, body + parts + data).cells == [bytes.fromhex(cell)]
        except Fault as e:
            assert e.code == cell


def faults(conn, code, field, body, kind=REDUCE, limit=None):
    with pytest.raises(Fault) as e:
        conn.call(kind, body)
    assert (e.value.code, e.value.field) == (code, field), e.value
    assert limit is None or e.value.limit == limit


def test_errors(conn):
    x = struct.pack("<3f", 1, 2, 3)
    half, k = parameter("q", (5, -1)), parameter("k", 1)

    def body(op, parts=b"", **kw):
        return spec(op, "f32", row_len=3, tagged_len=len(parts), **kw) + parts + x
    for op in (28, 29):
        faults(conn, "BAD_MESSAGE", "q" if op == 28 else "k", body(op))
    faults(conn, "BAD_MESSAGE", "q", body(27, half))
    faults(conn, "BAD_MESSAGE", "q", body(29, half + k))
    faults(conn, "BAD_MESSAGE", "k", body(28, half + k))
    faults(conn, "BAD_MESSAGE", "q", body(1, half))
    faults(conn, "BAD_MESSAGE", "method", body(27, parameter("method", 0)))
    faults(conn, "BAD_MESSAGE", "method", body(28, half + parameter("method", 13)), limit=12)
    for q in ((11, -1), (-1, 0), (1, 1), (2**63 - 1, -18)):
        faults(conn, "BAD_MESSAGE", "q", body(28, parameter("q", (5, -1), q)), limit=1)
    faults(conn, "TOO_LARGE", "q", body(28, parameter("q", *[(5, -1)] * 65)), limit=64)
    for flag in (STATES_IN, STATES_OUT):
        faults(conn, "BAD_MESSAGE", "flags", body(27, flags=flag))
    faults(conn, "BAD_MESSAGE", "initial", body(27, initial=0))
    faults(conn, "TYPE", "out", body(27, out="i64"))
    faults(conn, "TYPE", "out", body(28, half + parameter("method", 9), out="i64"))
    for op in (30, 31):
        faults(conn, "BAD_MESSAGE", "k", body(op))
        faults(conn, "BAD_MESSAGE", "k", body(op, parameter("k", 0)), limit=1)
        faults(conn, "BAD_MESSAGE", "k", body(op, parameter("k", -2**63)), limit=1)
        faults(conn, "TOO_LARGE", "k", body(op, parameter("k", 262145)), limit=262144)
        faults(conn, "TYPE", "out", body(op, parameter("k", 1), out="u64"))
    faults(conn, "TOO_LARGE", "rows", spec(30, "f32", rows=2, tagged_len=16) + parameter("k", 262144), limit=1)
    faults(conn, "BAD_MESSAGE", "edges", body(32))
    faults(conn, "BAD_MESSAGE", "edges", body(32, parameter("edges", 1.0)), limit=2)
    faults(conn, "BAD_MESSAGE", "edges", body(32, parameter("edges", 1.0, 2.0, 1.5)), limit=2)
    faults(conn, "BAD_MESSAGE", "edges", body(32, parameter("edges", math.nan, 2.0)), limit=0)
    faults(conn, "TOO_LARGE", "edges", body(32, parameter("edges", *range(65537))), limit=65536)
    faults(conn, "TYPE", "out", body(32, parameter("edges", 1.0, 2.0), out="f64"))
    faults(conn, "BAD_MESSAGE", "edges", body(30, parameter("k", 1) + parameter("edges", 1.0, 2.0)))
    for k in (3, -4, 2**63 - 1, -2**63):
        faults(conn, "SHAPE", "k", body(29, parameter("k", k)), limit=3)
    faults(conn, "BAD_MESSAGE", "op", spec(27, "f32"), kind=5)  # BEGIN
    parts = parameter("k", 0)
    faults(conn, "EMPTY", "row_len", spec(29, "i8", rows=2, tagged_len=len(parts)) + parts)
    faults(conn, "OVERFLOW", "out", spec(29, "i8", out="u64", row_len=1, tagged_len=len(parts)) + parts + b"\xff")


def test_no_rounding_but_one(conn):
    """Where NumPy's steps lose digits: values far apart, and integers beyond 2^53."""
    for dtype, values, q in (("f64", [-1e308, 1e308], 0.5), ("f64", [1e308, 1.7e308], 0.75), ("f64", [5e-324, 1e-323], 0.5), ("f64", [0.0, 5e-324], 1e-300),
                             ("f64", [-0.0, 0.0], 0.5), ("f64", [-5e-324, 5e-324], 0.5), ("f64", [1.0, 1e300], 5e-324)):
        x, parts = struct.pack("<2d", *values), parameter("q", decimal(q))
        got, = result(conn, spec(28, dtype, row_len=2, tagged_len=len(parts)) + parts + x).cells
        a, b = map(F, values)
        assert struct.unpack("<d", got)[0] == float(a + share(q) * (b - a)), values
    assert result(conn, spec(27, "f64", row_len=2) + struct.pack("<2d", -0.0, 0.0)).cells == [bytes(8)]
    assert result(conn, spec(27, "f64", row_len=2) + struct.pack("<2d", -0.0, -0.0)).cells == [struct.pack("<d", -0.0)]
    big = struct.pack("<2Q", 2**64 - 1, 2**64 - 3)
    assert result(conn, spec(27, "u64", row_len=2) + big).cells == [struct.pack("<d", 2.0**64)]
    parts = parameter("q", (5, -1)) + parameter("method", 9)
    assert result(conn, spec(28, "u64", row_len=2, tagged_len=len(parts)) + parts + big).cells == [struct.pack("<Q", 2**64 - 3)]


# ---- libreduce ----
@pytest.mark.parametrize("local", [1, 2], ids=["daemon", "local"])
def test_libreduce(shared, local, tmp_path):
    """The daemon and this process; arrays of many messages, which only this process reduces; files; resident data."""
    rng = np.random.default_rng(local)
    with libreduce.Client(shared.url, local=local) as c:
        for seed in range(200):
            dtype, lines, masks, shape, _ = random_task(np.random.default_rng(seed), 60)
            if shape["flags"] & OFFSETS or not shape["row_len"]:
                continue
            op, p, _ = request(rng)
            keep = None if masks[0] is None else np.empty(shape["row_len"] * shape["rows"] * max(shape["planes"], 1), np.uint8)
            bits = np.empty(shape["row_len"] * shape["rows"] * max(shape["planes"], 1), unsigned(dtype))
            at = np.arange(len(bits)).reshape(max(shape["planes"], 1), shape["rows"], shape["row_len"])
            cut = list(at.transpose(0, 2, 1).reshape(-1, shape["rows"])) if shape["flags"] & COLUMNS else list(at.transpose(1, 0, 2).reshape(shape["rows"], -1))
            for i, where in enumerate(cut):
                bits[where] = lines[i]
                if keep is not None:
                    keep[where] = masks[i]
            want = wanted(op, dtype, lines, masks, p, nan="omit", out=None)
            kw = {**p, "method": order.METHODS.index(p.get("method", "linear"))}
            try:
                got = c.run(op, dtype, bits.tobytes(), nan="omit", rows=shape["rows"], planes=shape["planes"], flags=shape["flags"] & COLUMNS,
                            mask=None if keep is None else keep.tobytes(), **kw)
            except libreduce.Fault as e:
                assert (e.code, e.index if e.index != oracle.NO_INDEX else 0) == want
                continue
            assert got == b"".join(want), (seed, op, dtype, p)
        x = rng.standard_normal(3_000_000).astype("<f4")
        ordered = np.sort(x)
        (tmp_path / "x").write_bytes(x.tobytes())
        with open(tmp_path / "x") as f:
            for k in (0, 1_234_567, -1):
                want = struct.pack("<d", ordered[k])
                assert c.run("kth", "f32", x.tobytes(), k=k) == want
                assert c.file("kth", "f32", f.fileno(), 0, x.nbytes, k=k)[0] == want
        rows = x.reshape(3, -1)
        assert c.run("median", "f32", x.tobytes(), rows=3, out="f32") == np.sort(rows, axis=1)[:, [499_999, 500_000]].astype("f8").mean(1).astype("<f4").tobytes()
        c.put("order", "f32", x.ctypes.data, x.nbytes, replace=True)
        assert c.named("kth", "f32", "order", k=77)[0] == struct.pack("<d", ordered[77])
        c.drop("order")
        with pytest.raises(libreduce.Fault) as e:
            c.run("median", "f32", x.tobytes(), path=1)
        assert (e.value.code, e.value.field) == ("TOO_LARGE", "path")
        fault, = c.submit_all([("median", "f32", bytes(400), {})])
        assert fault == bytes(8)
        with pytest.raises(libreduce.Fault) as e:
            list(c.submit_all([("median", "f32", x.tobytes(), {})]))
        assert e.value.code == "TOO_LARGE"
        for wrong, code, field in (({"q": [2.0]}, "BAD_MESSAGE", "q"), ({"q": [math.nan]}, "BAD_MESSAGE", "q"), ({}, "BAD_MESSAGE", "q"),
                                   ({"q": [0.5], "method": 13}, "BAD_MESSAGE", "method"), ({"q": [0.5], "k": 1}, "BAD_MESSAGE", "k"),
                                   ({"q": [0.5] * 65}, "TOO_LARGE", "quantiles")):
            with pytest.raises(libreduce.Fault) as e:
                c.run("quantile", "f32", bytes(8), **wrong)
            assert (e.value.code, e.value.field) == (code, field)
        with pytest.raises(libreduce.Fault, match="reduce_run") as e:
            c.stream("median", "f32", [bytes(8)])
        assert (e.value.code, e.value.field) == ("BAD_MESSAGE", "op")
        for op in order.OPS:
            room = C.create_string_buffer(1024)
            assert c.lib.reduce_state_size(order.OPS[op], DTYPES["f32"]) == c.lib.reduce_state_words(order.OPS[op], DTYPES["f32"]) == 0
            assert c.lib.reduce_state_init(room, C.c_size_t(1024), order.OPS[op], DTYPES["f32"]) == -1
            kw = {"quantile": {"q": [0.5]}, "largest": {"k": 1}, "smallest": {"k": 1}, "histogram": {"edges": [0, 1]}}.get(op, {})
            assert c.lib.reduce_states_finish(room, C.c_size_t(64), C.byref(c.spec(op, "f32", **kw)), room, C.c_size_t(1024)) == -1


def select(lib, spec, parts, out):
    """The passes of several processes, by hand; returns how many there were."""
    each = []
    for _ in parts:
        handle = C.c_void_p()
        if lib.reduce_selection_new(C.byref(handle), C.byref(spec)):
            raise libreduce.Fault(lib, -1)
        each.append(handle)
    lib.reduce_selection_counts.restype, again, passes, n = C.POINTER(C.c_uint64), 1, 0, C.c_size_t()
    while again:
        words = []
        for handle, (bits, mask) in zip(each, parts):
            for half in (slice(0, len(bits) // 2), slice(len(bits) // 2, None)):
                data, keep = bits[half].tobytes(), None if mask is None else mask[half].tobytes()
                assert lib.reduce_selection_count(handle, data, keep, C.c_size_t(len(data))) == 0
            counts = lib.reduce_selection_counts(handle, C.byref(n))
            words.append(np.ctypeslib.as_array(counts, (n.value,)))
        total = np.sum(words, axis=0, dtype=np.uint64)
        for w in words:
            w[:] = total
        again, passes = {lib.reduce_selection_next(handle) for handle in each}, passes + 1
        assert len(again) == 1
        again = again.pop()
    room = C.create_string_buffer(512)
    codes = [lib.reduce_selection_finish(handle, room, C.c_size_t(len(out))) for handle in each]
    fault = libreduce.Fault(lib, codes[-1]) if codes[-1] else None
    for handle in each:
        lib.reduce_selection_free(handle)
    if fault:
        raise fault
    return room.raw[:len(out)], passes


def test_selection_without_a_selection_and_with_wrong_counts(shared):
    """A NULL is refused. Counts that no elements have end in some value or an error after as many passes as any."""
    with libreduce.Client(shared.url) as c:
        lib, n, handle, room = c.lib, C.c_size_t(), C.c_void_p(), C.create_string_buffer(512)
        argument = lib.reduce_selection_new(None, C.byref(c.spec("median", "f32")))
        assert argument == lib.reduce_selection_count(None, b"1234", None, C.c_size_t(4)) == lib.reduce_selection_next(None) == \
            lib.reduce_selection_finish(None, room, C.c_size_t(512)) == -101
        for kw in ({"mask": b"\0"}, {"flags": libreduce.MASKED}):  # each part has its own
            assert lib.reduce_selection_new(C.byref(handle), C.byref(c.spec("median", "f32", **kw))) == argument, kw
        lib.reduce_selection_counts.restype = C.POINTER(C.c_uint64)
        assert not lib.reduce_selection_counts(None, C.byref(n))
        for seed in range(40):
            rng = np.random.default_rng(seed)
            spec = c.spec("quantile", "f64", q=[0.0, 0.3, 1.0])
            assert lib.reduce_selection_new(C.byref(handle), C.byref(spec)) == 0
            again, passes = 1, 0
            while again == 1 and passes < 20:
                assert lib.reduce_selection_count(handle, rng.standard_normal(9).tobytes(), None, C.c_size_t(72)) == 0
                words = np.ctypeslib.as_array(lib.reduce_selection_counts(handle, C.byref(n)), (n.value,))
                wrong = rng.random(n.value) < 0.5
                words[wrong] = rng.integers(0, 2**64, wrong.sum(), dtype=np.uint64) >> np.uint64(rng.integers(64))
                again, passes = lib.reduce_selection_next(handle), passes + 1
            assert passes < 20
            lib.reduce_selection_finish(handle, room, C.c_size_t(512))
            lib.reduce_selection_free(handle)


def test_selection_of_parts(shared):
    """The same bits for any number of parts; at most 1, 2, 3 or 6 passes for four quantiles."""
    with libreduce.Client(shared.url) as c:
        for seed in range(300):
            rng = np.random.default_rng(seed)
            dtype, n = str(rng.choice(list(DTYPES))), int(rng.integers(0, 200))
            bits = random_bits(rng, dtype, n, str(rng.choice(KINDS)))
            mask = rng.integers(0, 3, n).astype(np.uint8) if rng.integers(3) == 0 else None
            op, p, _ = request(rng)
            if op not in ("median", "quantile", "kth"):
                continue
            nan = str(rng.choice(["propagate", "omit", "error"]))
            want, = [w] if isinstance(w := wanted(op, dtype, [bits], [mask], p, nan=nan, out=None), tuple) else w
            at = [0, *sorted(int(x) for x in rng.integers(0, n + 1, rng.integers(0, 5))), n]
            parts = [(bits[a:b], None if mask is None else mask[a:b]) for a, b in zip(at, at[1:])]
            kw = {**p, "method": order.METHODS.index(p.get("method", "linear"))}
            try:
                got, passes = select(c.lib, c.spec(op, dtype, nan=nan, **kw), parts, want if isinstance(want, bytes) else bytes(8 * len(p.get("q", [1]))))
            except libreduce.Fault as e:
                assert e.code == want[0]
                continue
            assert got == want, (seed, op, dtype, p)
            assert passes <= {1: 1, 2: 2, 4: 3, 8: 6}[SIZE[dtype]] or len(p.get("q", ())) > 4
        x = np.arange(10.0)
        for wrong in (c.spec("largest", "f64", k=1), c.spec("median", "f64", rows=2), c.spec("sum", "f64"), c.spec("quantile", "f64", q=[2.0])):
            with pytest.raises(libreduce.Fault):
                select(c.lib, wrong, [(x, None)], bytes(8))


def sparse(path, n):
    """Floats in three places of a file, and zeros in its holes."""
    x = np.zeros(n, "<f4")
    with open(path, "wb") as f:
        f.truncate(x.nbytes)
        for i, at in enumerate((0, n // 2, n - 3000)):
            x[at:at + 3000] = np.random.default_rng(i).standard_normal(3000) * 10.0 ** np.random.default_rng(9).integers(-38, 38, 3000) - i
            f.seek(4 * at)
            f.write(x[at:at + 3000].tobytes())
    return x


def test_lines_of_files_in_blocks(shared, tmp_path):
    """A line of more than 128 MiB is read again in each pass; shorter ones lie in memory together."""
    n = 33_600_000
    x = sparse(tmp_path / "x", n)
    there = np.flatnonzero(x)
    ordered, rank = np.sort(x[there]), int((x[there] < 0).sum())
    edges = [-1.0, 0.0, 1e-30, 2.0]
    with libreduce.Client(shared.url) as c, open(tmp_path / "x") as f:
        def file(op, at=0, size=4 * n, **kw):
            return c.file(op, "f32", f.fileno(), at, size, **kw)[0]
        assert file("kth", k=rank - 1) == struct.pack("<d", ordered[rank - 1]) and file("kth", k=-5) == struct.pack("<d", ordered[-5])
        assert file("quantile", q=[0.0, 0.5, 1.0]) == struct.pack("<3d", ordered[0], 0, ordered[-1])
        best = there[np.argsort(-x[there], kind="stable")[:20]]
        assert file("largest", k=20) == x[best].astype("<f8").tobytes() + best.astype("<u8").tobytes()
        counts = np.histogram(x[there], edges)[0] + [0, n - len(there), 0]
        assert np.frombuffer(file("histogram", edges=edges), "<u8").tolist() == [*counts, (ordered < -1).sum(), (ordered > 2).sum(), 0]
        keep = (np.arange(n) % 7 > 0).astype(np.uint8)
        assert file("kth", k=-5, mask=keep.tobytes()) == struct.pack("<d", np.sort(x[there[keep[there] > 0]])[-5])
        assert file("median", size=4 * (n - n % 8), rows=8) == bytes(64)
        offsets = np.array([0, 10, 10, n], "<u8").tobytes()
        assert file("median", rows=3, offsets=offsets) == struct.pack("<3d", np.median(x[:10].astype("f8")), math.nan, 0)
        for wrong, code in (({"k": n}, "SHAPE"), ({"k": 0, "deadline_ms": 1}, "DEADLINE")):
            with pytest.raises(libreduce.Fault) as e:
                file("kth", **wrong)
            assert e.value.code == code
        with pytest.raises(libreduce.Fault) as e:
            file("kth", k=0, size=4 * n + 4)
        assert e.value.code == "IO"


def test_a_line_of_a_file_is_named_once(shared, tmp_path):
    """Too long for a message, so the lines are computed here."""
    n = 1 << 21
    with open(tmp_path / "x", "wb+") as f, libreduce.Client(shared.url) as c:
        f.truncate(8 * n)
        f.seek(4 * n + 20)
        f.write(struct.pack("<f", math.nan))
        f.flush()
        for rows, told in ((1, "holds a NaN"), (2, "row 1: holds a NaN")):
            with pytest.raises(libreduce.Fault) as e:
                c.file("median", "f32", f.fileno(), 0, 8 * n, rows=rows, nan="error")
            assert str(e.value) == f"NAN: {told}"


def test_columns_of_files_in_blocks(shared, tmp_path):
    """Bands of columns are in memory together; one of more than 128 MiB is read again in each pass."""
    n = 16_800_000
    x = sparse(tmp_path / "x", 4 * n)
    there, keep = np.flatnonzero(x), np.arange(4 * n, dtype=np.uint32) % 7 > 0
    with libreduce.Client(shared.url) as c, open(tmp_path / "x") as f:
        def file(op, rows, **kw):
            return c.file(op, "f32", f.fileno(), 0, 16 * n, rows=rows, flags=COLUMNS, **kw)[0]
        for kept in (there, there[keep[there]])[bool(sanitizer()):]:  # what is not 0: the largest three of each column are among it, and the eight smallest
            mask = {} if kept is there else {"mask": keep.astype(np.uint8).tobytes()}
            columns = [kept[(kept // (2 * n) == i // 8) & (kept % 8 == i % 8)] for i in range(16)]
            assert min((x[at] > 0).sum() for at in columns) >= 3
            assert file("kth", n // 4, planes=2, k=-3, **mask) == b"".join(struct.pack("<d", np.sort(x[at])[-3]) for at in columns)
            best = [at[x[at].argmax()] for at in columns]
            assert list(struct.iter_unpack("<dQ", file("largest", n // 4, planes=2, k=1, **mask))) == [(x[at], at % (2 * n) // 8) for at in best]
            columns = [x[kept[kept % 2 == i]] for i in (0, 1)]
            assert min((column < 0).sum() for column in columns) >= 8
            assert file("kth", 2 * n, k=7, **mask) == struct.pack("<2d", *(np.sort(column)[7] for column in columns))


# ---- reducectl ----
@pytest.fixture
def run(ctl, shared):
    def command(*args, code=0, **kw):
        done = ctl(*args, url=shared.url, **kw)
        assert done.returncode == code, done.stderr.decode()
        return (done.stderr if code else done.stdout).decode()
    return command


def test_reducectl(run, tmp_path):
    numbers = "\n".join(map(str, range(1, 101))).encode()
    assert run("median", "--text", stdin=numbers) == "50.5\n"
    assert run("quantile", "--text", "--q", "0.25,0.5,0.75", stdin=numbers) == "25.75 50.5 75.25\n"
    assert run("p99", "--text", stdin=numbers) == "99.01\n"
    assert run("kth", "--k", "-1", "--text", stdin=numbers) == "100\n"
    found = json.loads(run("quantile", "--text", "--q", "0,0.5", "--method", "lower", "--json", stdin=numbers))
    assert (found["value"], found["out"], found["op"]) == ([1, 50], "i64", "quantile")
    assert run("quantile", "--text", "--q", "0.5,1", "--raw", "--dtype", "f64", stdin=numbers).encode() == struct.pack("<2d", 50.5, 100)
    x = np.random.default_rng(3).standard_normal((20, 30, 7))
    np.save(tmp_path / "c.npy", x)
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    for name in ("c", "f"):
        for axis in ((0,), (1,), (2,), (0, 2), (0, 1), (1, 2)):
            want = np.sort(np.moveaxis(x, axis, range(-len(axis), 0)).reshape(*(n for i, n in enumerate(x.shape) if i not in axis), -1))[..., 5].ravel()
            assert [float(v) for v in run("kth", "--k", 5, "--axis", ",".join(map(str, axis)), tmp_path / f"{name}.npy").split()] == list(want), (name, axis)
    assert run("mean,median,p50,kth", "--k", 0, "--json", tmp_path / "c.npy").count(repr(float(np.median(x)))) == 2
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\n5,7\n")
    assert run("median", f"{tmp_path}/t.csv:b") == "nan\n" and run("median", "--nan", "omit", f"{tmp_path}/t.csv:b") == "4.5\n"
    np.save(tmp_path / "m.npy", x > 0)
    assert float(run("median", "--mask", tmp_path / "m.npy", tmp_path / "c.npy")) == pytest.approx(np.median(x[x > 0]), rel=1e-15)
    run("put", "order", tmp_path / "c.npy")
    assert float(run("kth", "--k", 9, "@order")) == np.sort(x.ravel())[9]
    assert len(run("kth", "--k", 0, "--axis", 1, "@order").split()) == 140
    run("drop", "order")
    assert "--spool" in run("median", "--spool", 1000, "--mask", tmp_path / "m.npy", tmp_path / "c.npy", code=1)
    for args in (["median"], ["kth", "--k", 9], ["largest", "--k", 2], ["histogram", "--bins", 3], ["quantile", "--q", "0.1,0.2", "--axis", 2],
                 ["median", "--axis", 0], ["largest", "--k", 2, "--axis", 1], ["stats", "--quantiles"]):
        assert run(*args, "--spool", 1000, tmp_path / "c.npy") == run(*args, tmp_path / "c.npy"), args
    assert "largest" in run("largest", "--k", 2, "--spool", 1000, tmp_path / "f.npy", code=1)
    assert "--spool" in run("median", "--spool", 100, "--text", stdin=numbers, code=1)
    for wrong in (["quantile"], ["kth"], ["mean", "--q", "0.5"], ["median", "--k", "1"], ["quantile", "--q", "1.5"], ["quantile", "--q", "0.5,"],
                  ["quantile", "--q", "0.5", "--method", "best"], ["kth", "--k", "x"], ["p99", "--q", "0.5"], ["mean,p99", "--q", "0.5"],
                  ["median", "--method", "lower"], ["p101"], ["mean,quantile", "--q", "0.5"]):
        run(*wrong, tmp_path / "c.npy", code=2)


# ---- Python ----
def test_every_door_of_reducectl(run, ctl, shared, tmp_path):
    """The same doubles as a file, members, a column, text and pipes: alone, among several operations and as quartiles of stats; as a
    table, an object and bytes."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal(3001).round(12)
    x[::50] = np.nan
    kept = rng.random(x.size) < 0.6
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "mask.npy", kept)
    np.savez(tmp_path / "x.npz", v=x)
    text = "\n".join(map(repr, x.tolist()))
    (tmp_path / "x.txt").write_text(text)
    (tmp_path / "x.csv").write_text("id,v\n" + "".join(f"{i},{v!r}\n" for i, v in enumerate(x.tolist())))
    csv, data = (tmp_path / "x.csv").read_bytes(), (tmp_path / "x.npy").read_bytes()
    doors = ([tmp_path / "x.npy"], None), ([f"{tmp_path}/x.npz:v"], None), ([f"{tmp_path}/x.csv:v"], None), (["--text", tmp_path / "x.txt"], None), \
            (["-"], data), (["--text"], text.encode()), (["-:v"], csv), (["-t", "f64"], x.tobytes()), ([Piped(data, "fifo")], None), \
            ([Piped(gzip.compress(data))], None), (["--text", Piped(text.encode(), "socket")], None), ([Piped(csv, "fifo", ":v")], None), \
            (["-t", "f64", Piped(x.tobytes())], None), (["-:v"], gzip.compress(csv))
    for mask in ([], ["--mask", tmp_path / "mask.npy"], ["--mask", Piped((tmp_path / "mask.npy").read_bytes())]):
        own = np.sort(x[~np.isnan(x) & (kept if mask else True)])
        want = [own[(own.size - 1) * k // 10] for k in (1, 5, 9)]  # of method "lower"
        for door, stdin in doors:
            args = ["--nan", "omit", "--method", "lower", *mask, *door]
            told = run("quantile", "--q", "0.1,0.5,0.9", *args, stdin=stdin)
            assert [float(v) for v in told.split()] == want, (door, mask)
            several = json.loads(run("max,p10,p50,p90,count", "--json", *args, stdin=stdin))["value"]
            assert several == {"max": own[-1], "p10": want[0], "p50": want[1], "p90": want[2], "count": own.size}, door
            assert [float(v) for v in run("max,p10,p50,p90", *args, stdin=stdin).splitlines()[1].split()] == [own[-1], *want], door
            raw = ctl("quantile", "--q", "0.1,0.5,0.9", "--raw", *args, url=shared.url, stdin=stdin).stdout
            assert np.frombuffer(raw).tolist() == want, door
            stats = json.loads(run("stats", "--quantiles", "--json", "--nan", "omit", *mask, *door, stdin=stdin))["value"]
            assert stats["p50"] == float(run("median", "--nan", "omit", *mask, *door, stdin=stdin)), door
            assert run("median", *mask, *door, stdin=stdin) == "nan\n" and "NaN" in run("median", "--nan", "error", *mask, *door, stdin=stdin, code=1)
            assert "--spool" in run("median", "--spool", 1000, "--text", stdin=text.encode(), code=1)
            run("quantile", "--q", "1.01", *door, stdin=stdin, code=2)
    nothing = np.zeros(0)
    np.save(tmp_path / "none.npy", nothing)
    for door, stdin in (([tmp_path / "none.npy"], None), (["--text"], b""), (["-"], (tmp_path / "none.npy").read_bytes())):
        assert run("quantile", "--q", "0.1,0.5", *door, stdin=stdin).split() == ["nan", "nan"]
        assert json.loads(run("median,p99", "--json", *door, stdin=stdin))["value"] == {"median": "nan", "p99": "nan"}, door


KINDS_OF_PIPES = ("pipe", "fifo", "socket")


@pytest.mark.parametrize("kind", KINDS_OF_PIPES)
def test_several_pipes_in_one_command(run, tmp_path, kind):
    """Each is read once, whatever reads it again: operations, the total, columns, a mask of several files; up to --spool for all."""
    draw = np.random.default_rng(8)
    parts, names = [draw.standard_normal(n).round(9) for n in (300, 1, 0, 2000)], []
    for i, part in enumerate(parts):
        np.save(tmp_path / f"{i}.npy", part)
        names.append(f"{tmp_path}/{i}.npy")

    def pipes():
        return [Piped(open(name, "rb").read(), kind) for name in names]

    def values(*args, files):
        return [[json.loads(line)["value"]] for line in run(*args, "--json", *files).splitlines()]
    for ops in ("mean,median,p99", "sum,count,std", "p1,kth,max"):
        more = ["--k", 0] if "kth" in ops else []
        some, these = (pipes()[:2] + pipes()[3:], names[:2] + names[3:]) if more else (pipes(), names)
        for total in ([], ["--total"]):
            found = values(ops, *more, *total, files=some)
            assert found == values(ops, *more, *total, files=these) and len(found) == len(these) + len(total), (ops, total)
    for op in (["median"], ["largest", "--k", 3], ["histogram", "--edges", "-1,0,1"], ["stats", "--quantiles"]):
        assert run(*op, "--total", *pipes()) == run(*op, "--total", *names), op
        assert values(*op, files=pipes()) == values(*op, files=names), op
    keep = (draw.random(2000) < 0.5).astype(np.uint8)
    np.save(tmp_path / "keep.npy", keep)
    mask = (tmp_path / "keep.npy").read_bytes()
    assert values("sum,median", "--mask", Piped(mask, kind), files=[names[3], pipes()[3]]) == values("sum,median", "--mask", tmp_path / "keep.npy", files=[names[3]] * 2)
    table = "a,b,c\n" + "".join(f"{i},{i * 0.5},{(7 * i) % 5}\n" for i in range(100))
    (tmp_path / "t.csv").write_text(table)
    for ops in ("median", "mean,median,p99"):
        want = values(ops, files=[f"{tmp_path}/t.csv:#1,#2-#3"])
        assert values(ops, files=[Piped(table.encode(), kind, ":#1,#2-#3")]) == want and len(want) == 3
    assert run("wmean", "--weights", ":a", Piped(table.encode(), kind, ":b")) == run("wmean", "--weights", ":a", f"{tmp_path}/t.csv:b")
    assert run("cov", "--weights", ":c", "--mask", Piped(bytes([1, 0] * 50), kind), Piped(table.encode(), kind, ":b")) == \
        run("cov", "--weights", ":c", f"{tmp_path}/t.csv:b", "--mask", "-", stdin=bytes([1, 0] * 50))
    size = sum(len(pipe.data) for pipe in pipes())
    assert values("sum,median", "--spool", size, files=pipes()) == values("sum,median", files=names)
    told = run("sum,median", "--spool", size - 1, *pipes(), code=1)
    assert f"pipes that are read again have more than the {size - 1} bytes that --spool allows" in told and told.count("\n") == 1
    assert "--spool" in run("median", "--spool", 1000, pipes()[3], code=1)


@pytest.mark.parametrize("kind", KINDS_OF_PIPES)
def test_a_container_in_a_pipe(run, tmp_path, kind):
    """It is kept, up to --spool, since its directory is at its end: for one operation as for several."""
    x, keep = np.random.default_rng(9).standard_normal(3000), np.arange(3000) % 3 > 0
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "keep.npy", keep)
    np.savez(tmp_path / "one.npz", v=x)
    np.savez_compressed(tmp_path / "small.npz", v=x)
    np.savez(tmp_path / "two.npz", v=x, keep=keep)
    header = json.dumps({"v": {"dtype": "F64", "shape": [3000], "data_offsets": [0, 24000]}}).encode()
    (tmp_path / "one.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + x.tobytes())
    files = {name: (tmp_path / name).read_bytes() for name in ("one.npz", "small.npz", "two.npz", "one.safetensors")}
    for op in (["sum"], ["median"], ["largest", "--k", 2], ["max,mean"], ["mean,median"], ["sum", "--deadline", 60000]):
        want = run(*op, tmp_path / "x.npy")
        for name, member in (("one.npz", ""), ("small.npz", ""), ("one.safetensors", ""), ("two.npz", ":v")):
            assert run(*op, Piped(files[name], kind, member)) == want, (op, name)
        assert run(*op, stdin=files["one.npz"]) == want
    masked = run("median", "--mask", tmp_path / "keep.npy", tmp_path / "x.npy")
    assert run("median", "--mask", Piped(files["two.npz"], kind, ":keep"), tmp_path / "x.npy") == masked
    assert "it holds 2 arrays (FILE:MEMBER is one): v, keep" in run("sum", Piped(files["two.npz"], kind), code=1)
    size = len(files["one.npz"])
    assert run("sum", "--spool", size, Piped(files["one.npz"], kind)) == run("sum", tmp_path / "x.npy")
    for few in (100, size - 1):
        assert f"more than the {few} bytes that --spool allows" in run("sum", "--spool", few, Piped(files["one.npz"], kind), code=1)


def test_columns_of_standard_input(run, tmp_path):
    """A list of them, several names, and weights: from a pipe as from a file."""
    table = "a,b,c\n" + "".join(f"{i},{i * 0.5},{(7 * i) % 5}\n" for i in range(100))
    (tmp_path / "t.csv").write_text(table)

    def values(*args, **kw):
        return [json.loads(line)["value"] for line in run(*args, "--json", **kw).splitlines()]
    file = f"{tmp_path}/t.csv"
    for ops in ("median", "mean,median,p99"):
        want = values(ops, f"{file}:#1,#2-#3")
        assert values(ops, "-:#1,#2-#3", stdin=table.encode()) == values(ops, "-:a", "-:b", "/dev/stdin:c", stdin=gzip.compress(table.encode())) == want
    assert run("wmean", "-:b", "--weights", ":a", stdin=table.encode()) == run("wmean", "-:b", "--weights", "-:a", stdin=table.encode()) == \
        run("wmean", f"{file}:b", "--weights", ":a")
    assert run("dot", "-:a", "-:b", stdin=table.encode()) == run("dot", f"{file}:a", f"{file}:b")
    assert "named 2 times" in run("sum", "-:a", "-", stdin=table.encode(), code=2) and "named 2 times" in run("sum", "-:a", "--mask", "-", stdin=b"", code=2)


def test_package(package):  # noqa: F811
    rng = np.random.default_rng(9)
    for dtype in ("f2", "f4", "f8", "i1", "u2", "i8", "?"):
        x = (rng.standard_normal((4, 5, 6)) * 50).astype(dtype)
        for axis in (None, 0, -1, (0, 2)):
            for keepdims in (False, True):
                want = np.median(x.astype("f8"), axis=axis, keepdims=keepdims)
                got = package.median(x, axis=axis, keepdims=keepdims)
                assert np.shape(got) == np.shape(want) and np.array_equal(np.asarray(got, want.dtype), want.astype(np.asarray(got).dtype).astype("f8"))
                for q in (0.3, [0.1, 0.9], [[0.1, 0.2], [0.5, 1]]):
                    for method in order.METHODS:
                        want = np.quantile(x.astype("f8"), q, axis=axis, keepdims=keepdims, method=method)
                        got = package.quantile(x, q, axis=axis, keepdims=keepdims, method=method)
                        assert np.shape(got) == np.shape(want)
                        if method != "closest_observation" and dtype != "f2":
                            assert np.allclose(np.asarray(got, "f8"), want, rtol=1e-6, atol=1e-6), (dtype, axis, q, method)
    x = rng.standard_normal(1000)
    assert np.array_equal(package.quantile(x, [i / 100 for i in range(101)]), package.percentile(x, np.arange(101)))
    assert package.percentile(x, 99.9) == package.quantile(x, 0.999)
    x[::3] = np.nan
    kept = x[~np.isnan(x)]
    assert math.isnan(package.median(x)) and package.nanmedian(x) == package.median(kept)
    assert package.nanquantile(x, 0.2) == package.quantile(kept, 0.2) == package.nanpercentile(x, 20)
    assert package.kth(kept, 0) == kept.min() and package.kth(kept.astype("f4"), -1) == kept.astype("f4").max()
    assert np.array_equal(package.median(np.arange(10), offsets=[0, 3, 3, 10]), [1, math.nan, 6], equal_nan=True)
    assert package.median(kept, where=kept > 0) == package.median(kept[kept > 0])
    out = np.empty(2)
    assert package.quantile(kept, [0.1, 0.2], out=out) is out and out[0] == package.quantile(kept, 0.1)
    assert package.submit("median", kept).result() == package.median(kept)
    assert isinstance(package.kth(np.arange(5), 2), int) and package.quantile(np.arange(5), 0.5, method="lower") == 2
    big = rng.standard_normal(1_000_001)
    assert package.median(big) == package.median(big[::-1]) == package.median(np.repeat(big, 2)[::2]) == np.median(big)
    for wrong, kind in (((x, 2), ValueError), ((x, -0.1), ValueError), ((x, math.nan), ValueError), ((np.array([1j]), 0.5), TypeError),
                        ((np.array(["x"]), 0.5), TypeError)):
        with pytest.raises(kind):
            package.quantile(*wrong)
    with pytest.raises(ValueError, match="method"):
        package.quantile(kept, 0.5, method="best")
    with pytest.raises(ValueError, match="inverted_cdf"):
        package.quantile(kept, 0.5, weights=kept)
    assert package.quantile(kept, 0.3, interpolation="lower") == package.quantile(kept, 0.3, method="lower") == package.percentile(kept, 30, interpolation="lower")
    with pytest.raises(TypeError, match="interpolation"):
        package.quantile(kept, 0.3, method="lower", interpolation="lower")
    with pytest.raises(package.ShapeError):
        package.kth([1, 2], 5)


def weighted(x, w, q):
    """The first element whose weights, with those of all before, reach the share q: in fractions."""
    there = sorted((float(v), F(float(u))) for v, u in zip(x, w) if u)
    goal, so_far = share(q) * sum(u for _, u in there), F(0)
    for v, u in there:
        so_far += u
        if so_far >= goal:
            return v
    return math.nan


def test_quantiles_with_weights(package):  # noqa: F811
    """By inverted_cdf, as in NumPy; sums of weights are compared exactly: ten of 0.1 are a little more than 1."""
    rng = np.random.default_rng(6)
    for _ in range(80):
        x = rng.integers(-5, 5, rng.integers(1, 30)) * 0.5
        w = rng.choice([0.1, 0.2, 0.3, 1, 0, 1e-30, 1e30, 5e-324], len(x))
        q = [0.0, 0.1, 0.3, 0.5, 0.7, 1 / 3, 1.0]
        want = [weighted(x, w, v) for v in q]
        assert np.array_equal(package.quantile(x, q, weights=w, method="inverted_cdf"), want, equal_nan=True), (x, w)
        there = np.isin(np.arange(len(x)), [0, len(x) - 1])
        assert np.array_equal(package.nanquantile(np.where(there, np.nan, x), q, weights=w, method="inverted_cdf"), [weighted(x[~there], w[~there], v) for v in q], equal_nan=True)
        assert np.array_equal(package.percentile(x, 50, weights=w, method="inverted_cdf", where=~there), weighted(x[~there], w[~there], 0.5), equal_nan=True)
        missing = np.ma.array(np.where(there, np.nan, w), mask=there)
        assert np.array_equal(package.quantile(x, q, weights=missing, method="inverted_cdf"), [weighted(x[~there], w[~there], v) for v in q], equal_nan=True)
        if w.any():
            assert package.quantile(x.astype("i2"), 0.5, weights=w, method="inverted_cdf") == weighted(x.astype("i2"), w, 0.5)
    big, w = rng.standard_normal(100_000), np.full(100_000, 0.1)
    assert package.quantile(big, [0.1, 0.12345], weights=w, method="inverted_cdf").tolist() == np.sort(big)[[9999, 12344]].tolist()
    x, w = rng.standard_normal((4, 5, 6)), rng.random((6, 4))
    found = package.quantile(x, [0.3, 0.6], axis=(2, 0), weights=w, method="inverted_cdf", keepdims=True)
    assert found.shape == (2, 1, 5, 1)
    assert found[:, 0, :, 0].tolist() == [[weighted(x[:, i].ravel(), w.T.ravel(), q) for i in range(5)] for q in (0.3, 0.6)]
    assert math.isnan(package.quantile([1, math.nan], 0.5, weights=[1, 0], method="inverted_cdf"))
    out = np.empty((5, 6), "f4")
    assert package.quantile(x, 0.5, axis=0, weights=np.ones(4), method="inverted_cdf", out=out) is out and np.array_equal(out, np.sort(x, axis=0)[1].astype("f4"))
    for w, kind, why in (([1, -1], ValueError, "non-negative"), ([1, math.inf], ValueError, "finite"), ([1, 2, 3], TypeError, "Axis"), ([1j, 1], TypeError, "weights")):
        with pytest.raises(kind, match=why):
            package.quantile([1.0, 2.0], 0.5, weights=w, method="inverted_cdf")
    with pytest.raises(package.NanError):
        package.quantile([1, math.nan], 0.5, weights=[1, 1], method="inverted_cdf", nan="raise")
    with pytest.raises(package.EmptyError):
        package.quantile([1, 2], 0.5, weights=[0, 0], method="inverted_cdf")


def test_weights_near_the_ends_of_doubles(package):  # noqa: F811
    """Their sum may be beyond doubles, or a share of it between two of them. An axis may have no elements."""
    for w in ([1e308] * 3, [5e-324] * 3, [1e308, 5e-324, 1e308, 1e308]):
        x = np.arange(1.0, len(w) + 1)
        for q in (0.0, 0.3, 1 / 3, 0.4, 0.5, 0.7, 1.0):
            assert package.quantile(x, q, weights=w, method="inverted_cdf") == weighted(x, w, q), (w, q)
    none = np.zeros((0, 3))
    assert np.isnan(package.quantile(none, 0.5, axis=0, weights=none, method="inverted_cdf")).tolist() == [True] * 3


def test_what_a_mask_hides(package):  # noqa: F811
    """A line of masked elements alone has a masked result, as its mean has."""
    for dtype in ("i4", "f4"):
        x = np.ma.masked_array(np.array([[1, 2], [3, 4]], dtype), [[True, True], [False, False]])
        several = {"q": [0.5, 0.0], "axis": 1, "method": "lower"}
        for kw in several, {**several, "weights": np.ones((2, 2)), "method": "inverted_cdf"}:
            for q in (kw["q"], [0.5, 0.0] * 40):
                found = package.quantile(x, **{**kw, "q": q})
                assert found.mask.tolist() == [[True, False]] * len(q) and found[:, 1].tolist() == [3] * len(q) and found.dtype == dtype, kw
            assert package.quantile(x, **{**kw, "q": 0.5}).tolist() == [None, 3]
            assert package.quantile(x, **{**kw, "axis": None}).tolist() == [3, 3]
            assert package.quantile(x[0], **{**kw, "axis": None, **({"weights": [1, 1]} if "weights" in kw else {})}).mask.all()
            out = np.ma.zeros((2, 2), dtype)
            assert package.quantile(x, **kw, out=out) is out and out.tolist() == [[None, 3]] * 2
        assert package.kth(x, 0, axis=1).tolist() == [None, 3] and package.kth(x[0], 0) is np.ma.masked


def test_quantiles_of_no_q(package):  # noqa: F811
    """They have the type, the axes and the errors of those of some."""
    x = np.arange(12, dtype="f4").reshape(3, 4)
    for a, kw in ((x, {}), (x, {"axis": 1}), (x.astype("u2"), {"axis": (0, 1), "keepdims": True, "method": "lower"}), (x.astype("u2"), {"method": "nearest"})):
        some, none = package.quantile(a, [0.5], **kw), package.quantile(a, [], **kw)
        assert none.dtype == some.dtype and none.shape == (0, *some.shape[1:]), kw
    assert package.quantile(x, np.zeros((2, 0))).shape == (2, 0) and package.submit("quantile", x, []).result().shape == (0,)
    with pytest.raises(TypeError, match="where is an array of bool"):
        package.quantile(x, [], where=x)


def test_plans_that_are_used_again_keep_their_quantiles(package):  # noqa: F811
    """Of each list of quantiles a plan is kept, whatever memory is freed and used meanwhile; with a mask, too."""
    rng = np.random.default_rng(4)
    lists = [rng.random(n) for n in range(1, 40)]
    for _ in range(3):
        x, keep = rng.standard_normal(50), rng.random(50) < 0.7
        for q in lists:
            filler = [np.full(n, 7.0) for n in range(1, 40)]
            assert np.array_equal(package.quantile(x, q), [package.quantile(x.tolist(), float(v)) for v in q])
            assert np.array_equal(package.quantile(x, q, where=keep), [package.quantile(x[keep].tolist(), float(v)) for v in q])
            del filler


def test_the_best_in_python(package):  # noqa: F811
    """Values and places along any axis, as torch.topk: the lowest index first of equal elements."""
    rng = np.random.default_rng(2)
    for dtype in ("f2", "f4", "f8", "i1", "u2", "i8", "?"):
        x = (rng.standard_normal((4, 30, 6)) * 20).astype("i8").astype(dtype)
        for dim in (0, 1, 2, -1, None):
            for largest in (True, False):
                y, axis = (x.ravel(), 0) if dim is None else (x, dim)
                want = np.take(np.argsort(y.astype("f8") * (-1 if largest else 1), axis=axis, kind="stable"), range(3), axis=axis)
                values, places = package.topk(x, 3, dim, largest)
                assert np.array_equal(places, want) and values.dtype == x.dtype and np.array_equal(values, np.take_along_axis(y, want, axis)), (dtype, dim)
    values, places = package.topk([1.0, math.nan, 2.0], 3)
    assert math.isnan(values[0]) and places.tolist() == [1, 2, 0] and package.topk([1.0, math.nan, 2.0], 2, nan="omit").indices.tolist() == [2, 0]
    assert package.topk([1, 2, 3], 2, offsets=[0, 1, 3]).indices.tolist() == [[0, -1], [1, 0]]
    assert package.topk(x, 1, None, where=x < 0).indices.tolist() == [-1]
    for wrong in (0, 4, 2**40, 1.5):
        with pytest.raises(ValueError):
            package.topk([1, 2, 3], wrong)
    big = rng.standard_normal(1_000_001)
    assert np.array_equal(package.topk(big, 1000).indices, np.argsort(-big, kind="stable")[:1000])
    assert package.submit("median", big[:100]).result() == np.median(big[:100])
    assert package.kth([3, 1, 2, 10], 2, index=True) == (3, 0) and package.kth([0.0, -0.0], 0, index=True).index == 1
    found = package.kth(np.array([[5, 1], [5, 7]]), 1, axis=1, index=True)
    assert found.value.tolist() == [5, 7] and found.index.tolist() == [0, 1]
    with pytest.raises(TypeError):
        package.kth([1], 0, index=True, offsets=[0, 1])
    with pytest.raises(TypeError, match="dim is an integer or None"):
        package.topk(np.zeros((2, 3)), 1, (0, 1))


def test_quantiles_of_short_floats_are_rounded_once(package):  # noqa: F811
    """The exact value is not quite between two floats, and the double next to it is."""
    for x in (np.array([-4977807207849710643223750405112463360, -4310013952, 0], "f4"), np.array([1, 1 + 2**-23, 2**-60], "f4"), np.array([0, 2048, 2**-24], "f2")):
        dtype = {4: "f32", 2: "f16"}[x.itemsize]
        for q in (0.25, 0.5, 0.75, 0.7500000001, 0.49999999999):
            want = order.cell("quantile", dtype, x.view(f"u{x.itemsize}"), out=dtype, q=[share(q)], method="hazen")
            for found in (package.quantile(x, [q], method="hazen"), package.quantile(x[None], [q], 1, method="hazen"), package.quantile(x[:, None], q, 0, method="hazen")):
                assert found.dtype == x.dtype and found.tobytes() == want, (x, q)


def test_the_index_of_nothing(package):  # noqa: F811
    """Without elements kth is NaN, and its index -1: that of a NaN, or of an element that the mask leaves out, is not its own."""
    nan = math.nan
    for x, kw, index in (([], {}, -1), ([1.0, 2], {"where": [False, False]}, -1), ([nan, nan], {"nan": "omit"}, -1), ([1, nan], {}, 1),
                         ([nan, nan, 1], {"where": [False, True, True]}, 1)):
        found = package.kth(np.array(x, float), 0, index=True, **kw)
        assert math.isnan(found.value) and found.index == index and type(found.index) is int, (x, kw)
    found = package.kth(np.array([[nan, nan], [nan, 7], [5, 3]]), 0, axis=1, index=True, nan="omit")
    assert np.array_equal(found.value, [nan, 7, 3], equal_nan=True) and found.index.tolist() == [-1, 1, 1]
    assert package.kth(np.zeros((3, 0)), 0, axis=1, index=True, keepdims=True).index.tolist() == [[-1]] * 3
    assert package.quantile([1, 2, 3], [], offsets=[0, 1, 3]).shape == (0, 2)


def test_histogram_is_numpys(package):  # noqa: F811
    """The same counts and the same edges, to the bit."""
    rng = np.random.default_rng(3)
    for dtype in ("f2", "f4", "f8", "i1", "u2", "i8", "?"):
        for n in (0, 1, 1000):
            x = (rng.standard_normal(n) * 50).astype(dtype)
            for bins in (10, 1, [0, 1, 5.5, 9], [0, 1, 1, 2, 2], [-math.inf, 0, math.inf], *(["auto", "sqrt"] if n and dtype in ("f4", "f8") else [])):
                for span in (None, (-3, 20)):
                    (want, edges), (got, at) = np.histogram(x if dtype != "?" else x.astype("u1"), bins, span), package.histogram(x, bins, span)
                    assert np.array_equal(want, got) and got.dtype == want.dtype and np.array_equal(edges, at) and at.dtype == edges.dtype, (dtype, n, bins, span)
    x = rng.standard_normal(100)
    assert np.array_equal(package.histogram(x, 5, density=True)[0], np.histogram(x, 5, density=True)[0])
    assert package.histogram(x, [0, 1], where=x > 0.5)[0].sum() == np.sum((x > 0.5) & (x <= 1))
    assert package.histogram([1.0, math.nan, 2.0], [0, 3])[0].tolist() == [2]
    with pytest.raises(package.NanError):
        package.histogram([1.0, math.nan], [0, 3], nan="raise")
    for wrong in ([2, 1], 0, [[1, 2]]):
        with pytest.raises(ValueError):
            package.histogram(x, wrong)
    for none in ([], [1]):
        for kw in ({}, {"density": True}, {"weights": x.astype("f4")}, {"weights": np.arange(100)}):
            (want, edges), (got, at) = np.histogram(x, none, **kw), package.histogram(x, none, **kw)
            assert got.shape == want.shape == (0,) and got.dtype == want.dtype and np.array_equal(edges, at) and edges.dtype == at.dtype, (none, kw)


def test_every_integer_is_in_the_bins_of_all(package):  # noqa: F811
    """The edges are doubles, which may be less than the largest integer."""
    for x in (np.arange(5, dtype="u8") + 2**63, np.array([-2**62 - 1, 0, 2**63 - 1]), np.array([0, 2**64 - 1], "u8"), np.array([2**53 + 1, 0])):
        for bins in (1, 3, "sqrt"):
            assert package.histogram(x, bins)[0].sum() == len(x), (x, bins)
        assert package.histogram(x, 3, weights=x * 0 + 1)[0].sum() == len(x)
    for edges in np.array([0, 2**53 + 1, 2**53 + 2, 2**53 + 3]), np.array([2**62 + 1, 2**63 - 1]), np.array([2**63 + 1, 2**64 - 1], "u8"):
        for x in (np.concatenate([edges - edges.dtype.type(1), edges, edges]), edges.astype(float), np.array([2**53 + 2, 0, -5]), np.array([2, 2**53 + 2], "f4")):
            at = [sum(lo <= v < hi or v == hi == edges[-1].item() for v in x.tolist()) for lo, hi in zip(edges.tolist(), edges.tolist()[1:])]
            for kw, times in (({}, 1), ({"weights": np.full(len(x), 0.5)}, 0.5), ({"nan": "omit"}, 1)):
                assert package.histogram(x, edges, **kw)[0].tolist() == [times * n for n in at], (x, edges, kw)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_edges_that_are_no_numbers(package):  # noqa: F811
    """Weighted histograms had counts of 0 between them."""
    a = [1e308, -1e308, 0.0]
    for kw in ({}, {"weights": [1.0, 2.0, 3.0]}):
        for bins in ([0, np.nan, 1], [np.nan, 1], 4):
            with pytest.raises(ValueError, match="bins: (an edge is not a number|their width is beyond)"):
                package.histogram(a, bins, **kw)


def test_histograms_of_tasks(package):  # noqa: F811
    """They need edges that do not depend on the elements."""
    x = np.array([1, 2, 3.0])
    for kw in {"bins": [0, 2, 4]}, {"bins": 2, "range": (0, 4)}, {"bins": 2, "range": (0, 4), "density": True}:
        for got in (package.submit("histogram", x, **kw).result(), *package.many([("histogram", x, kw)]), asyncio.run(package.aio.histogram(x, **kw))):
            assert all(np.array_equal(a, b) for a, b in zip(got, np.histogram(x, **kw))), kw
    for f, kw, why in (("histogram", {}, "bins: a task takes edges"), ("quantile", {"q": [0.5] * 65}, "q: a task takes at most 64"), ("kth", {"k": 0, "index": True}, "index=True")):
        with pytest.raises(TypeError, match=why):
            package.submit(f, x, **kw)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(package.histogram(np.zeros(0), 3, density=True)[0]).all()


def sized(rng, dtype, n):
    """Numbers of any size."""
    if np.dtype(dtype).kind == "f":
        return (rng.standard_normal(n) * 2.0 ** rng.integers(-20, 14, n)).astype(dtype)
    return (rng.integers(0, 2**63, n) * 2 >> rng.integers(0, 62, n)).astype(dtype)


def test_weighted_histograms(package):
    """Beside fractions, with edges that are elements, equal, and between integers that no double tells apart."""
    draw = np.random.default_rng(44)
    for dtype in ("f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"):
        x = sized(draw, dtype, 500)
        edges = np.sort(np.concatenate([x[:9].astype(float), x[:2].astype(float), [-1.5, 2.5]]))
        weights = draw.standard_normal(500) * 2.0 ** draw.integers(-300, 300, 500)
        found, bins = package.histogram(x, edges, weights=weights)
        assert (bins == edges).all()
        at = [[] for _ in range(len(edges) - 1)]
        for value, w in zip(x.tolist(), weights.tolist()):
            inside = [i for i in range(len(edges) - 1) if float(edges[i]) <= value and (value < float(edges[i + 1]) or i == len(edges) - 2 and value == float(edges[-1]))]
            for i in inside:
                at[i].append(w)
        assert found.tolist() == [math.fsum(w) for w in at], dtype
    counts, _ = package.histogram([1, 2, 1, 4], bins=3, weights=[1, 1, 1, 1])
    assert counts.tolist() == [2, 1, 1] and counts.dtype == np.int64
    big = [2**62, 2**62 + 1, 2**62 + 2**10, 2**63 - 1]
    assert package.histogram(big, [2.0**62, 2.0**62 + 2**10, 2.0**63], weights=[1, 2, 4, 8])[0].tolist() == [3, 12]
    assert package.histogram([1.0, np.nan, 9, 0.5], [0, 1, 2], weights=np.array([1, 2, 4, 0.1], "f4"))[0].tolist() == [np.float32(0.1), 1]
    x = draw.random(1000)
    w = draw.integers(0, 9, 1000)
    for kw in {"bins": 7}, {"bins": 7, "range": (0.2, 0.9)}, {"bins": [0, 0.5, 1], "density": True}:
        ours, theirs = package.histogram(x.reshape(10, 100), weights=w.reshape(10, 100), **kw), np.histogram(x, weights=w, **kw)
        assert ours[0].tolist() == theirs[0].tolist() or kw.get("density") and np.allclose(ours[0], theirs[0], rtol=1e-15) and (ours[1] == theirs[1]).all()
    assert package.histogram(x, 5, (0, 1), weights=w, where=x < 0.5)[0].sum() == int(w[x < 0.5].sum())
    assert package.histogram(x, [0, 1], weights=np.ma.masked_array(w, x > 0.5))[0].tolist() == [int(w[x <= 0.5].sum())]
    with pytest.raises(ValueError, match="weights: they have the same shape as a"):
        package.histogram(x, weights=w[:-1])
    with pytest.raises(TypeError, match="bins: "):
        package.histogram(x, "auto", weights=w)
    with pytest.raises(TypeError):
        package.histogram(x, [0, 1], weights=x * 1j)


@pytest.mark.unsanitized
def test_a_file_larger_than_memory(shared, tmp_path):
    """With less memory than the file has bytes, which a request for all of it does not get."""
    x = sparse(tmp_path / "x.f32", 100_000_000)

    def limited(*args):
        command = ["sh", "-c", 'ulimit -d 262144; exec "$@"', "sh", BIN / "reducectl", *map(str, args), "--dtype", "f32", "--raw", tmp_path / "x.f32", "--connect", shared.url]
        return subprocess.run(command, capture_output=True, timeout=120)
    failed = limited("median")
    assert failed.returncode == 1 and b"memory" in failed.stderr
    for op, want in ((["largest", "--k", 1], struct.pack("<dQ", x.max(), x.argmax())), (["p0"], struct.pack("<d", x.min())), (["median"], bytes(8))):
        done = limited(*op, "--spool", 1000000)
        assert done.stdout == want, done.stderr
    columns = x.reshape(-1, 25)
    done = limited("p0", "--rows", len(columns), "--axis", 0, "--spool", 1000000)
    assert done.stdout == columns.min(axis=0).astype("<f8").tobytes(), done.stderr


def test_lists_of_reducectl(run, tmp_path):
    numbers = "\n".join(map(str, range(1, 11))).encode()
    assert run("largest", "--k", 3, "--text", stdin=numbers) == "10 9\n9 8\n8 7\n"
    assert run("smallest", "--k", 20, "--text", stdin=b"5\n") == "5 0\n"
    assert run("histogram", "--bins", 3, "--text", stdin=numbers) == "1 4 3\n4 7 3\n7 10 4\n"
    assert run("histogram", "--edges", "2,4,8,8", "--text", stdin=numbers) == "2 4 2\n4 8 4\n8 8 1\nbelow 1\nabove 2\n"
    found = json.loads(run("largest", "--k", 2, "--text", "--json", stdin=numbers))
    assert (found["value"], found["index"], found["out"]) == ([10, 9], [9, 8], "i64")
    found = json.loads(run("histogram", "--edges", "0.5,9", "--text", "--json", stdin=numbers))
    assert (found["value"], found["edges"], found["below"], found["above"], found["nans"]) == ([9], [0.5, 9], 0, 1, 0)
    assert run("smallest", "--k", 1, "--text", "--raw", "--dtype", "f64", stdin=b"0").encode() == struct.pack("<dQ", 0, 0)
    x = np.random.default_rng(3).standard_normal((4, 50))
    np.save(tmp_path / "x.npy", x)
    lines = run("largest", "--k", 1, "--axis", 1, tmp_path / "x.npy").splitlines()
    assert [line.split() for line in lines[1::2]] == [[repr(float(row.max())), str(row.argmax())] for row in x] and lines[2] == "row 1"
    counts, edges = np.histogram(x, 7)
    assert run("histogram", "--bins", 7, tmp_path / "x.npy") == "".join(f"{a!r} {b!r} {n}\n" for a, b, n in zip(edges.tolist(), edges[1:].tolist(), counts))
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\n5,7\n")
    assert run("histogram", "--bins", 1, f"{tmp_path}/t.csv:b") == "2 7 2\nnan 1\n"
    lines = dict(line.split() for line in run("stats", "--quantiles", tmp_path / "x.npy").splitlines())
    plain = dict(line.split() for line in run("stats", tmp_path / "x.npy").splitlines())
    assert list(lines.items())[:-3] == list(plain.items()) and [float(lines[p]) for p in ("p25", "p50", "p75")] == pytest.approx(np.quantile(x, [0.25, 0.5, 0.75]), rel=1e-14)
    rows = run("stats", "--quantiles", "--axis", 1, "--json", tmp_path / "x.npy").splitlines()
    assert [json.loads(row)["value"]["p50"] for row in rows] == pytest.approx(np.median(x, axis=1), rel=1e-14) and json.loads(rows[3])["value"]["argmax"] == x[3].argmax()
    run("put", "lists", tmp_path / "x.npy")
    assert run("largest", "--k", 1, "@lists") == f"{float(x.max())!r} {x.argmax()}\n" and run("histogram", "--bins", 7, "@lists").count("\n") == 7
    run("drop", "lists")
    for wrong in (["largest"], ["largest", "--k", 0], ["smallest", "--k", 300000], ["histogram"], ["sum", "--bins", 3], ["sum", "--edges", "1,2"],
                  ["histogram", "--edges", "1"], ["histogram", "--edges", "2,1"], ["histogram", "--edges", "nan,1"], ["histogram", "--bins", 3, "--edges", "1,2"],
                  ["histogram", "--bins", 0], ["mean,largest", "--k", 1], ["sum", "--quantiles"], ["stats", "--quantiles", "--raw"]):
        run(*wrong, tmp_path / "x.npy", code=2)
    for option in (["--shard", "0/2"], ["--joined", tmp_path / "x.npy"]):
        assert "--quantiles applies to stats alone" in run("stats", "--quantiles", *option, tmp_path / "x.npy", code=2)


@pytest.mark.parametrize("bins", [1, 2, 7])
@pytest.mark.parametrize("values", [[2**64 - 1, 2**64 - 2, 2**64 - 3], [2**53 + 1], [2**60 - 1, 2**60 + 100, 2**60 + 300], [-2**53 - 1, -2**63, 5], [-2**63, 2**63 - 1]],
                         ids=["u64", "one", "near", "negative", "all of i64"])
def test_bins_hold_whole_numbers_that_doubles_do_not(run, values, bins):
    """The edges are around the elements: each of these is in a bin."""
    found = json.loads(run("histogram", "--bins", bins, "--json", "--text", stdin="\n".join(map(str, values)).encode()))
    edges = [F(float(e)) for e in found["edges"]]
    inside = [sum(a <= v < b or (i == bins - 1 and v == b) for v in values) for i, (a, b) in enumerate(zip(edges, edges[1:]))]
    assert found["value"] == inside and sum(inside) == len(values) and (found["below"], found["above"]) == (0, 0)
    assert math.ulp(edges[0]) >= min(values) - edges[0] and math.ulp(edges[-1]) >= edges[-1] - max(values)


@pytest.mark.parametrize("edge, nearest", [("9007199254740993", "9007199254740992"), ("-9007199254740995", "-9007199254740996"), ("18446744073709551615", "18446744073709551616")])
def test_an_edge_between_doubles_is_refused(run, edge, nearest):
    values = f"{edge}\n1\n".encode()
    low, high = sorted((edge, "0"), key=int)
    for edges in f"{low},{high}", f" {low}, {high}":
        assert f"{edge} is not one; {nearest} is" in run("histogram", "--edges", edges, "--text", code=2, stdin=values)
    low, high = sorted((nearest, "2"), key=int)
    assert run("histogram", "--edges", f"{low},{high},1e300", "--text", stdin=values)
    assert run("histogram", "--edges", "0.1,9007199254740993.5,9007199254740994", "--text", stdin=values)


def test_the_type_of_counts_is_not_that_of_ends(run):
    assert run("histogram", "--bins", 2, "--out", "u64", "--text", stdin=b"-5\n5\n") == "-5 0 1\n0 5 1\n"


@pytest.mark.parametrize("op", [["median"], ["kth", "--k", -1], ["largest", "--k", 2], ["histogram", "--bins", 3], ["quantile", "--q", "0.1,0.2"], ["stats", "--quantiles"], ["mean,median"]], ids=str)
def test_segments_of_a_file_above_the_spool(run, tmp_path, op):
    """They are read one after the other; the same as in memory, also the number of the segment that has no answer."""
    x = np.random.default_rng(4).standard_normal(2000)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "i.npy", np.arange(2000))
    for offsets in ([0, 3, 1500, 2000], [5, 5, 1000, 1000, 1999]):
        np.save(tmp_path / "o.npy", offsets)
        options = [*op, "--offsets", tmp_path / "o.npy"]
        assert run(*options, "--spool", 1000, tmp_path / "x.npy") == run(*options, tmp_path / "x.npy")
        code = int(op[0] == "kth" and offsets[0] == 5)
        told = run(*options, "--spool", 1000, tmp_path / "i.npy", code=code)
        assert told == run(*options, tmp_path / "i.npy", code=code) and (not code or "EMPTY: segment 0: " in told)
    np.save(tmp_path / "o.npy", [0, 3, 3])
    if op[0] == "kth":
        assert "EMPTY: segment 1: " in run(*op, "--offsets", tmp_path / "o.npy", "--spool", 1000, tmp_path / "i.npy", code=1)


def test_indexes_are_those_of_the_array(run, tmp_path):
    """In Fortran order, also along several axes, with a mask, packed and in a pipe: as in C order. `stats --quantiles` has them, too."""
    x = np.random.default_rng(8).integers(-9, 9, (3, 4, 5))
    keep = np.random.default_rng(9).random(x.shape) < 0.8
    for order in "CF":
        np.save(tmp_path / f"{order}.npy", np.asarray(x, order=order))
        np.save(tmp_path / f"{order}m.npy", np.asarray(keep, order=order))
        (tmp_path / f"{order}.npy.gz").write_bytes(gzip.compress((tmp_path / f"{order}.npy").read_bytes()))
    for axis in (None, "0", "1", "2", "0,1", "1,2", "0,2", "0,1,2"):
        for op in (["largest", "--k", 2], ["smallest", "--k", 1], ["stats", "--quantiles"], ["stats"], ["argmin"]):
            args = [*op, *(["--axis", axis] if axis else [])]
            want = run(*args, tmp_path / "C.npy")
            assert run(*args, tmp_path / "F.npy") == run(*args, tmp_path / "F.npy.gz") == want, args
            assert run(*args, "-", stdin=(tmp_path / "F.npy").read_bytes()) == want, args
            assert run(*args, "--mask", tmp_path / "Fm.npy", tmp_path / "F.npy") == run(*args, "--mask", tmp_path / "Cm.npy", tmp_path / "C.npy"), args
    assert run("largest", "--k", 1, tmp_path / "F.npy") == f"{x.max()} {x.argmax()}\n"
    assert "C order" in run("largest", "--k", 1, "--total", tmp_path / "F.npy", tmp_path / "F.npy", code=1)
    run("put", "fortran", tmp_path / "F.npy")
    assert "largest" in run("largest", "--k", 1, "@fortran", code=1) and run("argmax", "@fortran") == f"{x.argmax()}\n"
    run("drop", "fortran")


@pytest.mark.parametrize("numbers", [["9007199254740993", "", "7", "NA", "9007199254740992"], ["0.5", "", "-7", "NA", "2.5"]], ids=["integers", "floats"])
def test_indexes_count_what_a_column_misses(run, tmp_path, numbers):
    """As those of argmax do: in a file, a pipe and a total, where the second file's follow."""
    text = "a,b\n" + "".join(f"{v},1\n" for v in numbers)
    (tmp_path / "t.csv").write_text(text)
    column = f"{tmp_path}/t.csv:a"
    exact = sorted(((F(v), -i, v) for i, v in enumerate(numbers) if v not in ("", "NA")), reverse=True)
    want = "".join(f"{v} {-i}\n" for _, i, v in exact)
    assert run("largest", "--k", 9, "--nan", "omit", column) == run("largest", "--k", 9, "--nan", "omit", "-:a", stdin=text.encode()) == want
    assert run("smallest", "--k", 1, "--nan", "omit", column) == f"{exact[-1][2]} {-exact[-1][1]}\n"
    both = run("largest", "--k", 2, "--total", "--nan", "omit", column, column)
    assert both == f"{exact[0][2]} {-exact[0][1]}\n{exact[0][2]} {5 - exact[0][1]}\n"
    plain, more = ([line.split() for line in run("stats", *option, "--nan", "omit", column).splitlines()] for option in ([], ["--quantiles"]))
    assert more[:len(plain)] == plain and ["nans", "2"] in more and len(more) == len(plain) + 3
