"""dot, wsum, wmean, cov and corr: through the wire by PROTOCOL.md alone, the library, reducectl and Python, against exact fractions."""
import ctypes as C
import struct
import subprocess

import numpy as np
import pytest

import gens
import libreduce
import oracle
import pairs
from conftest import BACKEND, BIN, ROOT, sanitizer
from oracle import DTYPES, FLOATS, SIZE, unsigned
from rawclient import (BEGIN, COLUMNS, COMPANION, EXTENTS, HANDLE, IN_DATA, MASK, MESSAGE, OFFSETS, REDUCE, REDUCE_AT, ROLES, STATES_IN, STATES_OUT, WEIGHTS, Fault,
                       parameter, part, parse_result, spec)
from sideclient import Side
from test_beside import conn, refused  # noqa: F401  # a fixture among them

SEED = 20261128
KINDS = [(t, t) for t in DTYPES] + [("f32", "f64")]


def some_bits(rng, dtype, n, wild):
    """Elements of usual size, or any bits with infinities, NaNs and zeros."""
    u = unsigned(dtype)
    if dtype == "bool":
        return rng.integers(0, 3, n).astype(u)
    if dtype not in FLOATS:
        return (rng.integers(0, 2**64, n, np.uint64) if wild else rng.integers(0, 100, n, np.uint64)).astype(u)
    if not wild:
        return gens.gauss(rng, dtype, n)
    x = rng.integers(0, 2**64, n, np.uint64).astype(u)
    inf = u.type(oracle.inf_bits(FLOATS[dtype]))
    x = np.where(rng.random(n) < 0.02, inf | (x & ~(u.type(2 ** (8 * SIZE[dtype] - 1) - 1))), x)
    return np.where(rng.random(n) < 0.2, u.type(0), x).astype(u)


def weights_part(dtype, extent="elements", where=IN_DATA, place=()):
    return part(COMPANION, struct.pack("<B7x", DTYPES[dtype]) + (struct.pack("<QQ", *place) if place else b""), ROLES["weights"], where, EXTENTS[extent])


def drop_part(drop):
    return parameter("zero_weights_drop", 1) if drop else b""


def inline(c, op, dtype, x, w, wtype, *, extent="elements", shape=None, flags=0, offsets=(), mask=None, drop=False, **kw):
    """The cells by REDUCE, with everything in the data."""
    planes, rows, row_len = shape or (1, 1, len(x))
    tagged = weights_part(wtype, extent) + drop_part(drop)
    flags |= WEIGHTS | (OFFSETS if len(offsets) else 0) | (0 if mask is None else MASK)
    head = spec(pairs.OPS[op], dtype, rows=rows, row_len=row_len, planes=planes if planes > 1 else 0, flags=flags, tagged_len=len(tagged), **kw)
    data = struct.pack(f"<{len(offsets)}Q", *offsets) + x.tobytes() + (b"" if mask is None else bytes(mask)) + w.tobytes()
    return parse_result(c.call(REDUCE, head + tagged + data)).cells


def word(bits, out):
    return int(bits).to_bytes(SIZE[out], "little")


def outcome(op, *args, **kw):
    try:
        return pairs.value(op, *args, **kw)
    except oracle.Fault as e:
        return e.name


def lines_of(shape, columns):
    """Places of the elements of each result."""
    planes, rows, row_len = shape
    at = np.arange(planes * rows * row_len).reshape(shape)
    return [at[p, :, c] for p in range(planes) for c in range(row_len)] if columns else [at[:, r].reshape(-1) for r in range(rows)]


@pytest.mark.parametrize("dtype, wtype", KINDS)
def test_values_and_states_on_the_wire(conn, dtype, wtype):
    rng = np.random.default_rng([SEED, DTYPES[dtype], DTYPES[wtype]])
    for turn in range(40):
        op, nan, drop = str(rng.choice(list(pairs.OPS))), str(rng.choice(["propagate", "omit", "error"])), bool(rng.integers(2))
        drop &= op in pairs.DROPPING
        ddof = int(rng.integers(4)) if op == "cov" else 0
        shape = tuple(int(v) for v in (rng.integers(1, 4), rng.integers(1, 6), rng.choice([1, 2, 7, 40, 300])))
        extent = str(rng.choice(["elements", "row", "column"]))
        n = int(np.prod(shape))
        x = some_bits(rng, dtype, n, turn % 2)
        w = some_bits(rng, wtype, {"elements": n, "row": shape[2], "column": shape[1]}[extent], turn % 4 > 1)
        mask = rng.integers(0, 3, n).astype(np.uint8) if turn % 3 == 0 else None
        columns = bool(rng.integers(2))
        each = pairs.spread(w, extent, shape).reshape(-1)
        out = str(rng.choice(list(FLOATS))) if dtype in FLOATS or op in ("wmean", *pairs.COMOMENTS) else pairs.default_out(op, dtype)
        kw = {"extent": extent, "shape": shape, "flags": COLUMNS if columns else 0, "mask": mask, "drop": drop, "nan": nan}
        lines = [at if mask is None else at[mask[at] != 0] for at in lines_of(shape, columns)]
        states = inline(conn, op, dtype, x, w, wtype, **{**kw, "flags": kw["flags"] | STATES_OUT})
        assert states == [pairs.state(op, dtype, x[at], each[at], wtype, nan, drop) for at in lines], (op, kw)
        want = [outcome(op, dtype, x[at], each[at], wtype, nan, out, drop, ddof) for at in lines]
        kw["ddof"] = ddof
        wrong = [i for i, v in enumerate(want) if isinstance(v, str)]
        if wrong:
            with pytest.raises(Fault) as e:
                inline(conn, op, dtype, x, w, wtype, out=out, **kw)
            assert (e.value.code, e.value.index) == (want[wrong[0]], wrong[0]), (op, kw)
        else:
            assert inline(conn, op, dtype, x, w, wtype, out=out, **kw) == [word(v, out) for v in want], (op, kw)


@pytest.mark.parametrize("dtype, wtype", [("i32", "i32"), ("f32", "f32"), ("f32", "f64"), ("f64", "f64")])
def test_any_split_merges_to_the_whole(conn, dtype, wtype):
    rng = np.random.default_rng([SEED, 1, DTYPES[dtype]])
    merged = wtype if wtype == "f64" else dtype  # the type of the states
    for turn in range(12):
        op, n = str(rng.choice(list(pairs.OPS))), int(rng.integers(1, 3000))
        x, w = some_bits(rng, dtype, n, turn % 2), some_bits(rng, wtype, n, turn % 3 == 0)
        order = rng.permutation(n)
        cuts = np.sort(rng.integers(0, n + 1, 5))
        parts = [inline(conn, op, dtype, x[at], w[at], wtype, flags=STATES_OUT)[0] for at in np.split(order, cuts)]
        whole = inline(conn, op, dtype, x, w, wtype, flags=STATES_OUT)[0]
        body = spec(pairs.OPS[op], merged, rows=1, row_len=len(parts), flags=STATES_IN | STATES_OUT)
        assert parse_result(conn.call(REDUCE, body + b"".join(parts))).cells == [whole]
        if dtype in FLOATS:
            body = spec(pairs.OPS[op], merged, rows=1, row_len=len(parts), flags=STATES_IN)
            assert parse_result(conn.call(REDUCE, body + b"".join(parts))).cells == inline(conn, op, dtype, x, w, wtype)


def test_extreme_integers(conn):
    """The largest products, more than 16 and 32 bits can count."""
    for dtype in DTYPES:
        if dtype in FLOATS or dtype == "bool":
            continue
        size, n = SIZE[dtype], 140_000
        signed = dtype[0] == "i"
        least, most = (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1) if signed else (0, 2 ** (8 * size) - 1)
        for x, w in ((most, most), (least, least), (least, most)):
            a, b = (np.full(n, v, f"<{dtype[0]}{size}").view(unsigned(dtype)) for v in (x, w))
            want = pairs.state("dot", dtype, a[:1], b[:1])[:8] + struct.pack("<Q", n) + pairs.limbs(n * x * w, 3)
            assert inline(conn, "dot", dtype, a, b, dtype, flags=STATES_OUT) == [want], (dtype, x, w)


def test_segments(conn):
    rng = np.random.default_rng(SEED)
    x, w, n = gens.gauss(rng, "f64", 5000), gens.uniform(rng, "f64", 5000), 5000
    offsets = sorted(map(int, rng.integers(0, n + 1, 20)))
    for op in pairs.OPS:
        got = inline(conn, op, "f64", x, w, "f64", shape=(1, len(offsets) - 1, n), offsets=offsets)
        assert got == [word(pairs.value(op, "f64", x[a:b], w[a:b]), "f64") for a, b in zip(offsets, offsets[1:])]


@pytest.mark.skipif(BACKEND == "cuda", reason="companions are where the elements are reduced: a daemon without a GPU takes all of these")
def test_every_place_of_both_operands(shared, scratch):
    """Elements in the message, an arena, a file or resident; weights with them, behind the parts, in an arena or resident."""
    rng = np.random.default_rng(SEED)
    rows, row_len = 12, 500
    x, mask = gens.gauss(rng, "f32", rows * row_len), rng.integers(0, 2, rows * row_len).astype(np.uint8)
    with shared.connect() as c, Side(c) as side:
        for extent, n in (("elements", rows * row_len), ("row", row_len), ("column", rows)):
            w = gens.uniform(rng, "f64", n)
            data, beside = x.tobytes(), w.tobytes()
            arena, memory = side.arena(len(data) + len(mask) + 2 * len(beside) + 8)
            memory[: len(data) + len(mask) + len(beside)] = data + mask.tobytes() + beside
            memory[len(data) + len(mask) + len(beside) + 3 : len(data) + len(mask) + 2 * len(beside) + 3] = beside
            (scratch / "both").write_bytes(b"1234" + data + mask.tobytes() + beside)
            with open(scratch / "both", "rb") as f:
                file, _ = side.file(f.fileno())
            kept, kept_w, kept_m = c.put("x", "f32", data), c.put("w", "f64", b"12345678" + beside), c.put("m", "u8", mask.tobytes())
            shape = {"rows": rows, "row_len": row_len}
            want = inline(c, "wmean", "f32", x, w, "f64", extent=extent, shape=(1, rows, row_len), mask=mask)
            for place in ((arena, 0), (file, 4)):  # all behind one another
                got = c.reduce_at(pairs.OPS["wmean"], "f32", *place, len(data) + len(mask) + len(beside), flags=MASK | WEIGHTS,
                                  parts=[weights_part("f64", extent)], **shape)
                assert got.cells == want, (extent, place)
            here = {"message": ([weights_part("f64", extent, MESSAGE)], beside), "resident": ([weights_part("f64", extent, HANDLE, (kept_w, 8))], b""),
                    "arena": ([weights_part("f64", extent, HANDLE, (arena, len(data) + len(mask) + len(beside) + 3))], b"")}
            for name, (tagged, behind) in here.items():
                for place in ((arena, 0), (file, 4), (kept, 0)):
                    body = c.reduce_at_body(pairs.OPS["wmean"], "f32", *place, len(data), flags=WEIGHTS, mask_at=(kept_m, 0), parts=tagged, **shape)
                    assert parse_result(c.call(REDUCE_AT, body + behind)).cells == want, (extent, name, place)
                if name != "message":
                    tagged = b"".join(tagged)
                    head = spec(pairs.OPS["wmean"], "f32", flags=WEIGHTS | MASK, tagged_len=len(tagged), **shape)
                    assert parse_result(c.call(REDUCE, head + tagged + data + mask.tobytes())).cells == want, (extent, name)
            for name in "xwm":
                c.drop(name)


def test_refusals(conn):
    dot, wsum = pairs.OPS["dot"], pairs.OPS["wsum"]
    data = np.arange(6, dtype="<f4").tobytes()

    def call(op, dtype, tagged, flags=WEIGHTS, data=data * 2, rows=2, row_len=3, **kw):
        return conn.call(REDUCE, spec(op, dtype, rows=rows, row_len=row_len, flags=flags, tagged_len=len(tagged), **kw) + tagged + data)
    f32 = weights_part("f32")
    assert parse_result(call(dot, "f32", f32)).cells == [struct.pack("<d", v) for v in (5, 50)]
    refused("BAD_MESSAGE", "weights", call, dot, "f32", b"", 0, data)
    refused("BAD_MESSAGE", "weights", call, dot, "f32", b"")
    refused("BAD_MESSAGE", "flags", call, "sum", "f32", f32)
    refused("BAD_MESSAGE", "flags", call, dot, "f32", f32, 0)
    refused("BAD_MESSAGE", "flags", call, dot, "f32", f32, WEIGHTS | STATES_IN)
    refused("BAD_MESSAGE", "initial", call, dot, "f32", f32, initial=0)
    refused("BAD_MESSAGE", "weights", call, dot, "f32", weights_part("f32", where=MESSAGE))
    refused("BAD_MESSAGE", "mask", call, dot, "f32", part(COMPANION, struct.pack("<B7x", DTYPES["u8"]), ROLES["mask"], IN_DATA, 1) + f32, WEIGHTS | MASK)
    refused("TYPE", "weights", call, dot, "f32", weights_part("f16"))
    refused("TYPE", "weights", call, dot, "f64", weights_part("f32"))
    refused("TYPE", "out", call, dot, "f32", f32, out="i64")
    refused("SHAPE", "weights", call, dot, "f32", weights_part("f32", "bounds"))
    refused("SHAPE", "weights", call, dot, "f32", weights_part("f32", "row"), WEIGHTS | OFFSETS)
    assert refused("SHAPE", "weights", call, dot, "f32", f32, data=data[:20]).limit == 24
    refused("SHAPE", "row_len", call, dot, "f32", f32, data=data * 3)
    refused("BAD_MESSAGE", "zero_weights_drop", call, dot, "f32", f32 + parameter("zero_weights_drop", 1))
    assert parse_result(call(wsum, "f32", f32 + parameter("zero_weights_drop", 0))).cells
    for code, field, tagged, flags in (("BAD_MESSAGE", "weights", b"", 0), ("BAD_MESSAGE", "weights", b"", WEIGHTS), ("SHAPE", "weights", weights_part("f32", "row"), WEIGHTS),
                                       ("BAD_MESSAGE", "weights", weights_part("f32", where=HANDLE, place=(1, 0)), WEIGHTS), ("BAD_MESSAGE", "flags", f32, 0),
                                       ("TYPE", "weights", weights_part("f64"), WEIGHTS)):
        refused(code, field, conn.call, BEGIN, spec(dot, "f16" if code == "TYPE" else "f32", row_len=0, flags=flags, tagged_len=len(tagged)) + tagged)
    refused("BAD_MESSAGE", "flags", conn.call, BEGIN, spec(pairs.OPS["dot"], "f32", row_len=0, flags=WEIGHTS | STATES_IN, tagged_len=len(f32)) + f32)
    stream = conn.begin(dot, "f32", row_len=0, flags=WEIGHTS | MASK, parts=[f32])
    assert refused("SHAPE", "data", conn.append, stream, 0, bytes(10)).limit == 9
    conn.abort(stream)
    refused("BAD_HANDLE", "weights", call, dot, "f32", weights_part("f32", where=HANDLE, place=(99, 0)), data=data)


@pytest.mark.parametrize("dtype, wtype", KINDS)
def test_streams_of_pairs(conn, dtype, wtype):
    """Chunks in any order, with masks, of every kind: the value or state of the whole."""
    rng = np.random.default_rng([SEED, 2, DTYPES[dtype], DTYPES[wtype]])
    for turn in range(10):
        op, nan, n = list(pairs.OPS)[turn % 5], str(rng.choice(["propagate", "omit"])), int(rng.integers(1, 3000))
        drop = turn > 4 and op in pairs.DROPPING
        x, w = some_bits(rng, dtype, n, turn > 6), some_bits(rng, wtype, n, turn > 7)
        mask = rng.integers(0, 3, n).astype(np.uint8) if turn % 2 else None
        flags = WEIGHTS | (0 if mask is None else MASK)
        kw = {"row_len": 0, "nan": nan, "parts": [weights_part(wtype), *([drop_part(drop)] if drop else [])]}
        cuts = sorted({0, n, *map(int, rng.integers(0, n, 6))})
        found = {}
        for states in (STATES_OUT, 0):
            if not states and pairs.default_out(op, dtype) != "f64":
                continue
            stream = conn.begin(pairs.OPS[op], dtype, flags=flags | states, **kw)
            for a, b in rng.permutation(list(zip(cuts, cuts[1:]))):
                conn.append(stream, int(a), x[a:b].tobytes() + (b"" if mask is None else bytes(mask[a:b])) + w[a:b].tobytes())
            found[states], = conn.finish(stream, n).cells
        keep = slice(None) if mask is None else mask != 0
        assert found[STATES_OUT] == pairs.state(op, dtype, x[keep], w[keep], wtype, nan, drop), (op, nan, drop)
        if 0 in found:
            assert found[0] == word(pairs.value(op, dtype, x[keep], w[keep], wtype, nan, None, drop), "f64")


# ---- the library ----

EXTENT_CODES = {"elements": 1, "column": 3, "row": 2}


def lib_kw(w, wtype, extent="elements", mask=None, offsets=(), drop=False, columns=False, shape=None, states=False, path=0, **kw):
    planes, rows, _ = shape or (1, 1, 0)
    return {"weights": w.tobytes(), "weights_dtype": wtype, "weights_extent": EXTENT_CODES[extent], "mask": None if mask is None else bytes(mask), "planes": planes,
            "offsets": struct.pack(f"<{len(offsets)}Q", *offsets) if len(offsets) else None, "rows": len(offsets) - 1 if len(offsets) else rows, "path": path,
            "flags": (libreduce.DROP_ZERO_WEIGHTS if drop else 0) | (libreduce.COLUMNS if columns else 0) | (libreduce.STATES_OUT if states else 0), **kw}


def cells_of(raw, n):
    return [raw[i * len(raw) // n : (i + 1) * len(raw) // n] for i in range(n)]


PATHS = ("inline", "shm", "local", "file")


@pytest.mark.parametrize("path", PATHS)
def test_the_library_cuts_pairs(shared, scratch, path):
    """Shapes that fit no message: cut, sent, merged; against the states of the pieces by the wire."""
    if path == "local" and BACKEND == "cuda":
        pytest.skip("such a daemon leaves small arrays alone to its clients")
    rng = np.random.default_rng(SEED)
    code = {"inline": 1, "shm": 3, "file": 4, "local": 7}[path]
    with libreduce.Client(shared.url, local=2 if path == "local" else 1) as lib, shared.connect() as c:
        for turn, (shape, columns) in enumerate([((1, 1, 900_000), False), ((1, 3, 400_000), False), ((1, 300_000, 3), True), ((1, 3, 300_000), True), ((7, 40, 3000), False),
                                                 ((7, 40, 3000), True), ((500, 1, 1700), False), ((3, 300_000, 1), True), ((2, 1, 400_000), True)]):
            if sanitizer() and (turn + PATHS.index(path)) % 2:
                continue  # ... and each path half of the shapes
            dtype, wtype = KINDS[(4, 10, 11, 13)[turn % 4]]
            n = int(np.prod(shape))
            x = some_bits(rng, dtype, n, False)
            for extent in list(EXTENT_CODES)[(turn + PATHS.index(path)) % 3 :][:1]:  # over all paths each shape has each
                w = some_bits(rng, wtype, {"elements": n, "row": shape[2], "column": shape[1]}[extent], False)
                mask = rng.integers(0, 2, n).astype(np.uint8) if turn % 2 and path != "file" else None
                kw = lib_kw(w, wtype, extent, mask, columns=columns, shape=shape, path=0 if path == "file" else code)
                if path == "file":
                    (scratch / "x").write_bytes(b"12345" + x.tobytes())
                    with open(scratch / "x", "rb") as f:
                        got, _ = lib.file("wmean", dtype, f.fileno(), 5, n * SIZE[dtype], **kw)
                else:
                    got = lib.run("wmean", dtype, x.tobytes(), **kw)
                each = pairs.spread(w, extent, shape).reshape(-1)
                lines = lines_of(shape, columns)
                got = cells_of(got, len(lines))
                for i in {0, len(lines) // 2, len(lines) - 1}:
                    at = lines[i] if mask is None else lines[i][mask[lines[i]] != 0]
                    assert got[i] == by_pieces(c, "wmean", dtype, x[at], each[at], wtype), (shape, columns, extent, i)


def by_pieces(c, op, dtype, x, w, wtype):
    """The value of many pairs by states of some of them, in messages."""
    step = 200_000
    parts = [inline(c, op, dtype, x[i : i + step], w[i : i + step], wtype, flags=STATES_OUT)[0] for i in range(0, len(x), step)]
    merged = "f64" if wtype == "f64" else dtype
    return parse_result(c.call(REDUCE, spec(pairs.OPS[op], merged, rows=1, row_len=len(parts), flags=STATES_IN) + b"".join(parts))).cells[0]


def test_small_calls_and_states_of_the_library(shared):
    rng = np.random.default_rng(SEED)
    lib = libreduce.load()
    with libreduce.Client(shared.url) as client:
        for dtype, wtype in KINDS:
            for op in pairs.OPS:
                x, w = some_bits(rng, dtype, 500, False), some_bits(rng, wtype, 500, True)
                drop = op in pairs.DROPPING
                want = pairs.state(op, dtype, x, w, wtype, drop=drop)
                assert client.run(op, dtype, x.tobytes(), **lib_kw(w, wtype, drop=drop, states=True)) == want
                kind = "f64" if wtype == "f64" else dtype
                state = C.create_string_buffer(lib.reduce_state_size(pairs.OPS[op], DTYPES[kind]))
                size = C.c_size_t(len(state))
                assert lib.reduce_state_init(state, size, pairs.OPS[op], DTYPES[kind]) == 0
                for i in range(0, 500, 125):
                    assert lib.reduce_state_add_pairs(state, size, x[i : i + 125].tobytes(), DTYPES[dtype], w[i : i + 125].tobytes(), C.c_size_t(125), 0,
                                                      libreduce.DROP_ZERO_WEIGHTS if drop else 0) == 0
                assert state.raw == want
                n = lib.reduce_state_words(pairs.OPS[op], DTYPES[kind])
                words, back = (C.c_int64 * n)(), C.create_string_buffer(len(state))
                assert lib.reduce_state_to_words(state, size, words, C.c_size_t(n)) == 0
                twice = (C.c_int64 * n)(*(2 * v for v in words))
                assert lib.reduce_state_from_words(back, size, pairs.OPS[op], DTYPES[kind], twice, C.c_size_t(n)) == 0
                both = pairs.state(op, dtype, np.tile(x, 2), np.tile(w, 2), wtype, drop=drop)
                assert back.raw == both
                assert lib.reduce_state_add(state, size, x.tobytes(), C.c_size_t(1)) == -1  # of pairs
        x = np.array([1e16, 1, -1e16])
        out = C.c_double()
        call = [client.handle, None, DTYPES["f64"], x.ctypes, np.array([1.0, 2, 1]).ctypes, C.c_size_t(3), C.byref(out)]
        cov = [client.handle, DTYPES["f64"], 1, *call[3:]]
        assert lib.reduce_simple_cov(*cov) == 0 and out.value == 1 / 3
        for op, want in (("dot", 2.0), ("wsum", 2.0), ("corr", 5.773502691896258e-17), ("wmean", 0.5)):
            call[1] = pairs.OPS[op]
            assert lib.reduce_simple_pairs(*call) == 0 and out.value == want
        call[5] = C.c_size_t(0)
        assert lib.reduce_simple_pairs(*call) == 0 and np.isnan(out.value)


def test_what_the_library_refuses(shared):
    x = bytes(48)

    def refuses(code, field, call, *args, **kw):
        with pytest.raises(libreduce.Fault) as e:
            call(*args, **kw)
        assert (e.value.code, e.value.field) == (code, field), e.value
    with libreduce.Client(shared.url) as lib:
        refuses("ARGUMENT", "weights", lib.run, "dot", "f64", x)
        refuses("ARGUMENT", "weights", lib.run, "sum", "f64", x, weights=x)
        refuses("ARGUMENT", "weights", lib.run, "sum", "f64", x, weights_dtype="f64")
        refuses("TYPE", "weights_dtype", lib.run, "dot", "f64", x, weights=x, weights_dtype="f32")
        refuses("ARGUMENT", "weights_extent", lib.run, "dot", "f64", x, weights=x, weights_extent=4)
        refuses("SHAPE", "weights_extent", lib.run, "dot", "f64", x, weights=x, weights_extent=2, offsets=bytes(16))
        refuses("BAD_MESSAGE", "zero_weights_drop", lib.run, "dot", "f64", x, weights=x, flags=libreduce.DROP_ZERO_WEIGHTS)
        refuses("BAD_MESSAGE", "initial", lib.run, "dot", "f64", x, weights=x, initial=bytes(8))
        refuses("ARGUMENT", "stream", lib.stream, "dot", "f64", [x])
        refuses("ARGUMENT", "weights", lib.stream, "dot", "f64", [x], weights=x)
        refuses("ARGUMENT", "weights_extent", lib.stream, "dot", "f64", [x], weights_extent=2)
        refuses("TYPE", "weights_dtype", lib.stream, "dot", "f64", [x], weights_dtype="f32")
        refuses("ARGUMENT", "weights", lib.stream, "sum", "f64", [x], weights_dtype="f64")
        refuses("ARGUMENT", "stream", lib.stream_of_pairs, "sum", "f64", [(6, x, x, None)])
        refuses("ARGUMENT", "stream", lib.stream_of_pairs, "dot", "f64", [(6, x, x, x)])
        refuses("ARGUMENT", "stream", lib.stream_of_pairs, "dot", "f64", [(6, x, x, None)], flags=libreduce.MASKED)
        refuses("ARGUMENT", "weights", lib.stream_of_pairs, "dot", "f64", [(6, x, None, None)])
        assert lib.stream_of_pairs("dot", "f64", [(0, None, None, None)]) == bytes(8)
        accumulators = C.c_void_p()
        assert lib.lib.reduce_accumulators_new(pairs.OPS["dot"], DTYPES["f64"], 0, C.c_size_t(1), C.byref(accumulators)) == -1


def test_streams_of_the_library(shared):
    """Of less than a chunk, which is one message, and of many."""
    rng = np.random.default_rng(SEED)
    with libreduce.Client(shared.url) as lib, shared.connect() as c:
        for dtype, wtype in (("i32", "i32"), ("f32", "f64"), ("f64", "f64")):
            for n in (700, 700_000):
                for masked in (False, True):
                    x, w = some_bits(rng, dtype, n, False), some_bits(rng, wtype, n, False)
                    mask = rng.integers(0, 2, n).astype(np.uint8)
                    cuts = sorted({0, n, *map(int, rng.integers(0, n, 9))})
                    pieces = [(b - a, x[a:b].tobytes(), w[a:b].tobytes(), mask[a:b].tobytes() if masked else None) for a, b in zip(cuts, cuts[1:])]
                    flags = libreduce.DROP_ZERO_WEIGHTS | (libreduce.MASKED if masked else 0)
                    keep = (w & w.dtype.type(~(1 << 63) % 2 ** (8 * w.itemsize)) != 0) & (mask != 0 if masked else True)
                    got = lib.stream_of_pairs("wmean", dtype, pieces, flags, weights_dtype=wtype)
                    assert got == by_pieces(c, "wmean", dtype, x[keep], w[keep], wtype), (dtype, n, masked)
        state = lib.stream_of_pairs("dot", "f32", [(1, bytes(4), bytes(8), None)], libreduce.STATES_OUT, weights_dtype="f64")
        assert state == pairs.state("dot", "f32", np.zeros(1, "u4"), np.zeros(1, "u8"), "f64")


# ---- reducectl ----

def ctl(url, *args, data=b"", code=0):
    done = subprocess.run([BIN / "reducectl", "--connect", url, *map(str, args)], input=data, capture_output=True, timeout=60)
    assert done.returncode == code, done.stderr
    return (done.stderr if code else done.stdout).decode()


def floats(bits):
    return bits.view("<f8")


def test_reducectl(shared, scratch):
    rng = np.random.default_rng(SEED)
    x, y = floats(gens.gauss(rng, "f64", 120)).reshape(4, 5, 6), floats(gens.uniform(rng, "f64", 120)).reshape(4, 5, 6)
    w5, w6 = floats(gens.uniform(rng, "f64", 5)), floats(gens.uniform(rng, "f64", 6))
    for name, a in {"x": x, "y": y, "w5": w5, "w6": w6, "xf": np.asfortranarray(x), "yf": np.asfortranarray(y), "f32": x.astype("f4"), "i": np.arange(5)}.items():
        np.save(scratch / name, a)

    def value(op, a, w, wtype="f64"):
        bits = pairs.value(op, "f64" if a.dtype == "f8" else "f32", a.reshape(-1).view(f"<u{a.itemsize}"), w.reshape(-1).view("<u8"), wtype)
        return repr(struct.unpack("<d", struct.pack("<Q", bits))[0])
    at = {n: scratch / f"{n}.npy" for n in ("x", "y", "w5", "w6", "xf", "yf", "f32", "i")}
    assert ctl(shared.url, "dot", at["x"], at["y"]).strip() == value("dot", x, y)
    assert ctl(shared.url, "dot", at["xf"], at["yf"]).strip() == value("dot", x, y)
    for name, pipe in (("-", at["x"]), (at["x"], at["y"])):  # a pipe of either
        got = ctl(shared.url, "dot", name, "-" if name != "-" else at["y"], data=pipe.read_bytes())
        assert got.strip() == value("dot", x, y)
    np.save(scratch / "m.npy", np.arange(120, dtype="u1").reshape(4, 5, 6) % 3)
    kept = (np.arange(120) % 3 != 0).reshape(4, 5, 6)
    assert ctl(shared.url, "wmean", "--mask", scratch / "m.npy", "--weights", at["y"], at["x"]).strip() == value("wmean", x[kept], y[kept])
    assert ctl(shared.url, "dot", "--path", "inline", at["x"], at["y"]).strip() == value("dot", x, y)
    for op in pairs.COMOMENTS:
        assert ctl(shared.url, op, at["x"], at["y"]).strip() == value(op, x, y)
        assert ctl(shared.url, op, "--weights", at["w6"], at["x"], "--rows", 20).split() == [value(op, x[i, j], w6) for i in range(4) for j in range(5)]
        assert ctl(shared.url, op, at["f32"], at["y"]).strip() == value(op, x.astype("f4"), y)
    assert ctl(shared.url, "wsum", "--weights", at["y"], at["f32"]).strip() == value("wsum", x.astype("f4"), y)
    for name, order in (("x", 1), ("xf", 1)):
        got = ctl(shared.url, "wmean", "--axis", 1, "--weights", at["w5"], at[name]).split()
        assert got == [value("wmean", np.ascontiguousarray(x[i, :, k]), w5) for i in range(4) for k in range(6)], order
    assert ctl(shared.url, "wmean", "--axis", 2, "--weights", at["w6"], at["x"]).split() == [value("wmean", x[i, j], w6) for i in range(4) for j in range(5)]
    assert ctl(shared.url, "wmean", "--axis", "0,2", "--weights", at["y"], at["x"]).split() == \
        [value("wmean", np.ascontiguousarray(x[:, j]), np.ascontiguousarray(y[:, j])) for j in range(5)]
    for op in ("dot", "wsum", "wmean", *pairs.COMOMENTS):
        (scratch / "s").write_bytes(subprocess.run([BIN / "reducectl", "--connect", shared.url, op, "--weights", at["y"], at["x"], "--partial", "--raw"], capture_output=True, check=True).stdout)
        assert ctl(shared.url, op, "--merge", "--dtype", "f64", scratch / "s").strip() == value(op, x, y), op
    (scratch / "t.csv").write_text("name,area,v\na,1.5,2\nb,2.5,4\nc,,8\nd,0,nan\n")
    table = scratch / "t.csv"
    assert ctl(shared.url, "wmean", "--weights", ":area", "--nan", "omit", f"{table}:v").strip() == "3.25"
    assert ctl(shared.url, "wsum", "--weights", ":area", "--nan", "omit", "--drop-zero-weights", f"{table}:v").strip() == "13"
    assert ctl(shared.url, "wmean", "--weights", f"{table}:area", f"{table}:v").strip() == "nan"
    assert ctl(shared.url, "cov", "--ddof", "1", "--nan", "omit", f"{table}:v", f"{table}:area").strip() == "1"
    assert ctl(shared.url, "corr", "--nan", "omit", "--weights", ":area", f"{table}:v").strip() == "1"
    numbers = "\n".join(map(str, range(1, 11)))
    (scratch / "numbers").write_text(numbers)
    assert ctl(shared.url, "dot", "--text", "--weights", scratch / "numbers", "-", data=numbers.encode()).strip() == "385"
    for n, text in ((9, "weights end before"), (11, "weights go on after")):
        weights = "\n".join(map(str, range(1, n + 1)))
        assert text in ctl(shared.url, "dot", "--text", "--weights", "-", scratch / "numbers", data=weights.encode(), code=1)
    for words, text in [(("dot", at["x"]), "need two files"), (("sum", "--weights", at["x"], at["x"]), "--weights applies to"), (("sum,dot", at["x"]), "not among several"),
                        (("dot", "--drop-zero-weights", at["x"], at["y"]), "wsum and wmean only"), (("wmean", "--total", "--weights", at["x"], at["x"]), "exclude")]:
        assert text in ctl(shared.url, *words, code=2)
    for words, text in [(("dot", at["x"], at["w5"]), "5 weights for 120"), (("dot", at["xf"], at["y"]), "shape and order"), (("dot", at["x"], at["i"]), "i64 beside f64"),
                        (("dot", at["x"], scratch / "none"), "none")]:
        assert text in ctl(shared.url, *words, code=1)
    assert "--weights w.npy" in ctl(shared.url, "help", "wmean") and "dot x.npy y.npy" in ctl(shared.url, "help", "dot")
    assert "corr x.npy y.npy" in ctl(shared.url, "help", "corr") and "--ddof" in ctl(shared.url, "help", "cov")


def test_golden_states_of_pairs():
    """As the library makes them, and their words."""
    lib = libreduce.load()
    for line in (ROOT / "tests/golden/pairs.txt").read_text().splitlines():
        if line[0] == "#":
            continue
        op, dtype, wtype, nan, drop, *data, words = line.split()
        op, dtype, wtype, nan, drop = map(int, (op, dtype, wtype, nan, drop))
        x, w, want = (b"" if d == "-" else bytes.fromhex(d) for d in data)
        kind, size = max(dtype, wtype) if dtype != wtype else dtype, C.c_size_t(len(want))
        state = C.create_string_buffer(len(want))
        assert lib.reduce_state_init(state, size, op, kind) == 0
        assert lib.reduce_state_add_pairs(state, size, x, dtype, w, C.c_size_t(len(x) // lib.reduce_dtype_size(dtype)), nan, libreduce.DROP_ZERO_WEIGHTS * drop) == 0
        assert state.raw == want, line
        n = lib.reduce_state_words(op, kind)
        found = (C.c_int64 * n)()
        assert lib.reduce_state_to_words(state, size, found, C.c_size_t(n)) == 0 and list(found) == list(map(int, words.split(",")))
