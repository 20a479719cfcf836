"""Reductions by key over the wire, by PROTOCOL.md alone, against the oracle: one result for each of 0 to rows - 1."""
import struct

import numpy as np
import pytest

import gens
import libreduce
import oracle
from conftest import BACKEND
from oracle import DTYPES, FLOATS, OPS, SIZE
from rawclient import (ABORT, APPEND, BEGIN, COLUMNS, DROP_OUTSIDE, FINISH, KEYS, MASK, OFFSETS, REDUCE_AT, STATES_IN, STATES_OUT, Fault, companion, parse_result,
                       result_at, spec)
from sideclient import Side
from test_beside import conn, refused  # noqa: F401  # a fixture among them
from test_devices import wait
from test_pairs import some_bits

SEED = 20261129
INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")


def expected(op, dtype, bits, keys, groups, mask=None, states=False, **kw):
    """The cells of all groups, or the first fault and its group."""
    cells = []
    for g in range(groups):
        keep = (keys == g) if mask is None else (keys == g) & (np.frombuffer(mask, np.uint8) != 0)
        if states:
            cells.append(oracle.state(oracle.Elements(dtype, bits, kw.get("index_base", 0), keep), op, kw.get("nan", "propagate")))
            continue
        name, value = oracle.reduce_or_fault(op, dtype, bits, mask=keep, **kw)
        if name != "OK":
            return name, g
        cells.append(value)
    return "OK", cells


def got(call, *args, **kw):
    try:
        return "OK", [c if kw.get("flags", 0) & STATES_OUT else int.from_bytes(c, "little") for c in call(*args, **kw).cells]
    except Fault as e:  # with its group
        return e.code, e.index


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_operation_of_every_type(conn, dtype):
    rng = np.random.default_rng([SEED, DTYPES[dtype]])
    for op in (o for o in oracle.ops(dtype) if o in OPS):
        n, groups, key = int(rng.integers(0, 120)), int(rng.integers(1, 12)), str(rng.choice(INTEGERS))
        bits = some_bits(rng, dtype, n, bool(rng.integers(2)))
        keys = rng.integers(0, groups, n).astype(key[0] + str(SIZE[key]))
        mask = bytes(rng.integers(0, 3, n, np.uint8)) if rng.integers(2) else None
        kw = {"nan": str(rng.choice(["propagate", "omit", "error"])), "index_base": int(rng.integers(0, 9))}
        if op in ("var", "std", "sem", "stats"):
            kw["ddof"] = int(rng.integers(0, 3))
        if op == "prod" and dtype not in FLOATS and rng.integers(2):
            kw["wrap"] = True
        given = (key, keys.tobytes())
        assert got(conn.reduce, op, dtype, bits.tobytes(), rows=groups, mask=mask, keys=given, **kw) == expected(op, dtype, bits, keys, groups, mask, **kw), (op, kw)
        kw.pop("ddof", None), kw.pop("wrap", None)
        assert got(conn.reduce, op, dtype, bits.tobytes(), rows=groups, mask=mask, keys=given, flags=STATES_OUT, **kw) == expected(
            op, dtype, bits, keys, groups, mask, True, **kw), (op, kw)
        if not kw["nan"] == "error":
            first = int(some_bits(rng, dtype, 1, False)[0])
            assert got(conn.reduce, op, dtype, bits.tobytes(), rows=groups, keys=given, initial=first, **kw) == expected(
                op, dtype, bits, keys, groups, initial=first, **kw), (op, kw)


@pytest.mark.parametrize("groups, keys", [(1, "equal"), (100, "sorted"), (129, "random"), (10_000, "random"), (10_000, "one"), (200_000, "random")])
def test_large_and_hard_keys_and_permuted(conn, groups, keys):
    """Pieces of elements and of groups, by several threads: the same cells in any order of the elements."""
    rng = np.random.default_rng([SEED, groups])
    n = 250_000
    x = rng.standard_normal(n) * 10.0 ** rng.integers(-40, 40, n)
    k = rng.integers(0, groups, n).astype(np.uint32)
    k = {"equal": k * 0, "sorted": np.sort(k), "random": k, "one": np.where(rng.random(n) < 0.9, 7, k)}[keys].astype(np.uint32)
    cells = conn.reduce("sum", "f64", x.tobytes(), rows=groups, keys=("u32", k.tobytes())).cells
    at = rng.permutation(n)
    assert conn.reduce("sum", "f64", x[at].tobytes(), rows=groups, keys=("u32", k[at].tobytes())).cells == cells
    order = np.argsort(k, kind="stable")
    cut = np.searchsorted(k[order], np.arange(groups + 1))
    assert conn.reduce("sum", "f64", x[order].tobytes(), offsets=[int(i) for i in cut]).cells == cells


def test_keys_outside(conn):
    x = struct.pack("<6d", 1, 2, 4, 8, 16, 32)
    for key, letter, outside in (("i8", "b", -1), ("i64", "q", -(2**63)), ("u8", "B", 3), ("u64", "Q", 2**64 - 1), ("i32", "i", 3), ("u16", "H", 65535)):
        keys = struct.pack("<6" + letter, 0, 2, outside, 1, outside, 0)
        fault = refused("SHAPE", "keys", conn.reduce, "sum", "f64", x, rows=3, keys=(key, keys))
        assert (fault.index, fault.limit) == (2, 3) and str(outside) in fault.text
        assert conn.reduce("sum", "f64", x, rows=3, keys=(key, keys), flags=DROP_OUTSIDE).cells == [struct.pack("<d", v) for v in (33, 8, 2)]
        # a masked element may have any key; and a wrong key precedes a group without a result
        assert conn.reduce("sum", "f64", x, rows=3, keys=(key, keys), mask=b"\1\1\0\1\0\1").cells[0] == struct.pack("<d", 33)
        assert refused("SHAPE", "keys", conn.reduce, "max", "f64", x, rows=3, keys=(key, keys), mask=b"\1\0\0\1\1\1").index == 4
    assert refused("EMPTY", "row_len", conn.reduce, "max", "f64", x, rows=4, keys=("u8", bytes((0, 0, 2, 2, 3, 3)))).index == 1
    # the lowest one, also where several threads look
    n = 400_000
    k = np.zeros(n, np.uint16)
    k[[399_999, 200_001, 200_000]] = 5
    assert refused("SHAPE", "keys", conn.reduce, "sum", "u8", bytes(n), rows=5, keys=("u16", k.tobytes())).index == 200_000


def test_no_elements_and_many_groups(conn):
    assert conn.reduce("sum", "f32", b"", rows=5, row_len=0, keys=("i64", b"")).cells == [bytes(8)] * 5
    fault = refused("TOO_LARGE", "rows", conn.reduce, "sum", "f32", b"", rows=600_000, row_len=0, keys=("i64", b""))
    assert fault.limit == (4 << 20) // 8
    fault = refused("TOO_LARGE", "rows", conn.reduce, "var", "f64", b"", rows=2**40, row_len=0, keys=("i64", b""))
    assert fault.limit == (1 << 30) // (oracle.state_size("var", "f64") + 32)


def test_in_every_place(shared, scratch):
    """Elements in an arena, a file and resident; keys in the data, the message, an arena and resident."""
    rng = np.random.default_rng(SEED)
    n, groups = 5000, 40
    bits, keys = gens.gauss(rng, "f32", n), rng.integers(-2, groups, n).astype(np.int16)
    mask = bytes(rng.integers(0, 2, n, np.uint8))
    data, raw = bits.tobytes(), keys.tobytes()
    with shared.connect() as c, Side(c) as side:
        want = c.reduce("mean", "f32", data, rows=groups, mask=mask, keys=("i16", raw), flags=DROP_OUTSIDE).cells
        _, cells = expected("mean", "f32", bits, keys, groups, mask)
        assert [int.from_bytes(x, "little") for x in want] == cells
        arena, memory = side.arena(4 * n + n + 2 * n + 8 * groups)
        memory[: len(data) + n + 2 * n] = data + mask + raw
        (scratch / "keyed").write_bytes(data + mask + raw)
        with open(scratch / "keyed", "rb") as f:
            file, _ = side.file(f.fileno())
        kept, kept_keys, kept_mask = c.put("values", "f32", data), c.put("keys", "i16", b"??" + raw), c.put("chosen", "u8", mask)

        def at(place, parts, tail=b"", more=0):
            tagged = b"".join(parts)
            head = spec("mean", "f32", rows=groups, row_len=n, flags=KEYS | MASK | DROP_OUTSIDE, tagged_len=len(tagged))
            return parse_result(c.call(REDUCE_AT, head + struct.pack("<QQQ", place, 0, len(data) + more) + tagged + tail))
        places = [dict(place=None), dict(place=(kept_keys, 2)), dict(place=(arena, len(data) + n))]
        for elements in (arena, file, kept):
            for k in places:
                found = at(elements, [companion("mask", (kept_mask, 0)), companion("keys", dtype="i16", **k)], raw if k["place"] is None else b"")
                assert found.cells == want, (elements, k)
        for elements in (arena, file):
            assert at(elements, [companion("keys", dtype="i16", data=True)], more=3 * n).cells == want
        # cells to an arena
        tagged = [companion("mask", (kept_mask, 0)), companion("keys", (kept_keys, 2), "i16"), result_at(arena, 7 * n, 8 * groups)]
        assert at(kept, tagged).cells == []
        assert bytes(memory[7 * n : 7 * n + 8 * groups]) == b"".join(want)
        # what is wrong
        refused("BAD_MESSAGE", "flags", at, kept, [companion("mask", (kept_mask, 0)), companion("keys", dtype="i16", data=True)])
        refused("TYPE", "keys", at, kept, [companion("mask", (kept_mask, 0)), companion("keys", (kept_keys, 2), "u16")])
        refused("SHAPE", "keys", at, kept, [companion("mask", (kept_mask, 0)), companion("keys", (kept_keys, 4), "i16")])
        refused("SHAPE", "keys", at, kept, [companion("mask", (kept_mask, 0)), companion("keys", dtype="i16")], raw[:-2])
        refused("BAD_HANDLE", "keys", at, kept, [companion("mask", (kept_mask, 0)), companion("keys", (file, 0), "i16")])
        refused("SHAPE", "result", at, kept, [companion("mask", (kept_mask, 0)), companion("keys", (arena, 0), "i16"), result_at(arena, 8, 8 * groups)])
        memory.close()
        for name in ("values", "keys", "chosen"):
            c.drop(name)


def test_what_does_not_suit(conn):
    x, k = bytes(16), ("u8", bytes(2))
    for flags, kw in ((OFFSETS, {"offsets": [0, 2]}), (COLUMNS, {}), (STATES_IN, {}), (KEYS << 2, {})):
        refused("BAD_MESSAGE", "flags", conn.reduce, "sum", "f64", x, row_len=2, flags=flags, keys=k, **kw)
    for op in (27, 33):  # median, dot
        refused("BAD_MESSAGE", "flags", conn.reduce, op, "f64", x, row_len=2, keys=k)
    refused("BAD_MESSAGE", "planes", conn.reduce, "sum", "f64", x, row_len=2, planes=2, keys=k)
    refused("BAD_MESSAGE", "initial", conn.reduce, "sum", "f64", x, row_len=2, flags=STATES_OUT, initial=0, keys=k)
    refused("BAD_MESSAGE", "flags", conn.reduce, "sum", "f64", x, flags=DROP_OUTSIDE)
    refused("BAD_MESSAGE", "flags", conn.reduce, "sum", "f64", x, parts=[companion("keys", data=True)])
    refused("BAD_MESSAGE", "keys", conn.reduce, "sum", "f64", x, flags=KEYS)
    refused("BAD_MESSAGE", "keys", conn.reduce, "sum", "f64", x, flags=KEYS, parts=[companion("keys", dtype="u8")])
    for dtype in ("f32", "f64", "bool", "bf16"):
        refused("TYPE", "keys", conn.reduce, "sum", "f64", x, row_len=2, keys=(dtype, bytes(2 * SIZE[dtype])))
    for extent in ("row", "column", "bounds"):
        refused("SHAPE", "keys", conn.reduce, "sum", "f64", x, flags=KEYS, row_len=2, parts=[companion("keys", dtype="u8", extent=extent, data=True)])
    assert refused("SHAPE", "keys", conn.reduce, "sum", "f64", b"", row_len=3, keys=k).limit == 3
    refused("SHAPE", "row_len", conn.reduce, "sum", "f64", bytes(24), row_len=2, keys=k)
    for tagged in companion("keys", (7, 0), "u8"), companion("keys", dtype="u8"):  # not in the data of the chunks
        refused("BAD_MESSAGE", "keys", conn.call, BEGIN, spec("sum", "f64", flags=KEYS, tagged_len=len(tagged)) + tagged)
    tagged = companion("keys", dtype="u8", data=True)
    most = (256 << 10) // oracle.state_size("sum", "f64")
    assert refused("TOO_LARGE", "rows", conn.call, BEGIN, spec("sum", "f64", rows=most + 1, flags=KEYS, tagged_len=len(tagged)) + tagged).limit == most


def test_states_of_groups_merge(conn):
    """Chunks by key, whose states are merged as rows: as all at once."""
    rng = np.random.default_rng([SEED, 5])
    n, groups, op = 3000, 17, "var"
    bits, keys = some_bits(rng, "f64", n, True), rng.integers(0, groups, n).astype(np.uint8)
    cuts = [0, 100, 1700, n]
    chunks = [conn.reduce(op, "f64", bits[a:b].tobytes(), rows=groups, keys=("u8", keys[a:b].tobytes()), flags=STATES_OUT, index_base=a).cells
              for a, b in zip(cuts, cuts[1:])]
    states = b"".join(chunk[g] for g in range(groups) for chunk in chunks)
    merged = conn.reduce(op, "f64", states, rows=groups, row_len=3, flags=STATES_IN).cells
    assert merged == conn.reduce(op, "f64", bits.tobytes(), rows=groups, keys=("u8", keys.tobytes())).cells


def test_a_deadline_ends_it(shared):
    """Of a request that takes longer: many passes over resident keys."""
    with shared.connect() as c, Side(c) as side:
        n, groups = 2_000_000, 3_000_000
        arena, memory = side.arena(8 * groups)
        kept, keys = c.put("values", "f64", bytes(8 * n)), c.put("keys", "u8", bytes(n))
        tagged = companion("keys", (keys, 0), "u8") + result_at(arena, 0, 8 * groups)
        body = spec("sum", "f64", rows=groups, row_len=n, flags=KEYS, tagged_len=len(tagged)) + struct.pack("<QQQ", kept, 0, 8 * n) + tagged
        refused("DEADLINE", "time_ms", c.call, REDUCE_AT, body, time_ms=1)
        assert parse_result(c.call(REDUCE_AT, body)).cells == []
        memory.close()
        c.drop("values"), c.drop("keys")


def begin(c, op, dtype, key, groups, flags=0, **kw):
    tagged = companion("keys", dtype=key, data=True)
    return c.call(BEGIN, spec(op, dtype, rows=groups, flags=KEYS | flags, tagged_len=len(tagged), **kw) + tagged)


def append(c, stream, offset, bits, keys, mask=None):
    body = bits.tobytes() + (b"" if mask is None else mask.tobytes()) + keys.tobytes()
    return int.from_bytes(c.call(APPEND, stream + struct.pack("<Q", offset) + body), "little")


@pytest.mark.parametrize("op", ["sum", "mean", "argmin", "stats", "prod", "count_nan", "minmax"])
def test_streams(conn, op):
    """Chunks in any order, with masks or without, beside one request; and states."""
    rng = np.random.default_rng([SEED, 21, OPS[op]])
    for states in False, True:
        n, groups, masked = 4000, int(rng.integers(1, 40)), bool(rng.integers(2))
        bits, keys = gens.gauss(rng, "f64", n), rng.integers(-1, groups, n).astype(np.int16)
        keys[:groups] = np.arange(groups)  # argmin needs an element
        mask = rng.integers(0, 3, n).astype(np.uint8) if masked else None
        if masked:
            mask[:groups] = 1
        flags = DROP_OUTSIDE | (MASK if masked else 0) | (STATES_OUT if states else 0)
        stream = begin(conn, op, "f64", "i16", groups, flags, index_base=5)
        cuts = [0, 7, 1000, 1001, 3000, n]
        for a, b in rng.permutation(list(zip(cuts, cuts[1:]))):
            append(conn, stream, int(a), bits[a:b], keys[a:b], None if mask is None else mask[a:b])
        got = parse_result(conn.call(FINISH, stream + struct.pack("<Q", n)))
        want = conn.reduce(op, "f64", bits.tobytes(), rows=groups, keys=("i16", keys.tobytes()), mask=None if mask is None else mask.tobytes(),
                           flags=flags & ~MASK, index_base=5)
        assert got.cells == want.cells and got.count == n


def test_streams_without_elements_and_with_wrong_keys(conn):
    x, keys = np.arange(6.0), np.array([0, 2, 1, 1, 0, 2], np.uint64)
    stream = begin(conn, "sum", "f64", "u64", 3)
    assert parse_result(conn.call(FINISH, stream + bytes(8))).cells == [bytes(8)] * 3
    stream = begin(conn, "max", "f64", "u64", 4)
    append(conn, stream, 0, x, keys)
    assert refused("EMPTY", "row_len", conn.call, FINISH, stream + struct.pack("<Q", 6)).index == 3
    stream = begin(conn, "sum", "f64", "u64", 3)
    append(conn, stream, 0, x, keys)
    keys[4] = 3
    fault = refused("SHAPE", "keys", append, conn, stream, 6, x, keys)
    assert (fault.index, fault.limit) == (10, 3) and "element 10" in fault.text
    refused("SHAPE", "keys", conn.call, FINISH, stream + struct.pack("<Q", 6))
    stream = begin(conn, "sum", "f64", "u64", 3)
    assert refused("SHAPE", "data", conn.call, APPEND, stream + bytes(8) + bytes(24)).limit == 16
    conn.call(ABORT, stream)


def test_bytes_of_streams(shared):
    """States of groups are charged while the stream is open, and given back; those of a chunk while it is under way."""
    groups = 800
    with shared.connect() as c:
        before = c.query(2)["held.stream_bytes"]
        streams = [begin(c, "sum", "f64", "u16", groups) for _ in range(4)]
        empty = c.query(2)["held.stream_bytes"]
        for stream in streams:
            for i in range(3):
                append(c, stream, i, np.ones(1), np.array([i], np.uint16))
        assert c.query(2)["held.stream_bytes"] == empty + 4 * groups * oracle.state_size("sum", "f64")
        for stream in streams[1:]:
            c.call(ABORT, stream)
        assert parse_result(c.call(FINISH, streams[0] + struct.pack("<Q", 3))).cells[:4] == [struct.pack("<d", v) for v in (1, 1, 1, 0)]
        assert c.query(2)["held.stream_bytes"] == before
        # a client that goes away with chunks under way
        other = shared.connect()
        stream = begin(other, "stats", "f64", "u16", 300)
        x, keys = np.ones(100_000), np.arange(100_000, dtype=np.uint16) % 300
        for i in range(8):
            other.send(APPEND, stream + struct.pack("<Q", i * len(x)) + x.tobytes() + keys.tobytes())
        other.close()
        wait(shared, lambda: c.query(2)["held.stream_bytes"] == before)


# ---- the library ----

PATHS = {"inline": 1, "shm": 3, "local": 7, "auto": 0}


def spec_of(keys, groups, mask=None, states=False, drop=False, **kw):
    """Keywords for the library's calls."""
    return {"keys": keys.tobytes(), "keys_dtype": {"i": "i", "u": "u"}[keys.dtype.kind] + str(8 * keys.dtype.itemsize), "rows": groups, "mask": mask,
            "flags": (libreduce.STATES_OUT if states else 0) | (libreduce.DROP_OUTSIDE if drop else 0), **kw}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("groups, n", [(1, 900_000), (300, 700_000), (60_000, 200_000), (500_000, 600_000), (3, 0)])
def test_the_library_by_any_path(shared, path, groups, n):
    """What fits a message, what is cut into states of the groups, and what only this process can do."""
    if path == "local" and BACKEND == "cuda":
        pytest.skip("such a daemon leaves small arrays alone to its clients")
    rng = np.random.default_rng([SEED, groups])
    x = rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n)
    keys = rng.integers(0, groups + 1, n).astype(np.uint32)
    mask = None if path == "shm" else rng.integers(0, 2, n, np.uint8).tobytes()
    keep = np.ones(n, bool) if mask is None else np.frombuffer(mask, np.uint8) != 0
    at = np.argsort(keys[keep], kind="stable")
    ordered = np.concatenate([x[keep][at], [0.0]])  # one more, which belongs to none
    cut = np.searchsorted(keys[keep][at], np.arange(groups + 1))
    here = n * 13 > 4 << 20 and groups > 910 or groups * 8 > 4 << 20  # only
    with libreduce.Client(shared.url, local=2 if path == "local" else 1) as lib, shared.connect() as c:
        want = []
        for first in range(0, groups, 100_000):  # segments, of which a message has so many
            some = cut[first : first + 100_001]
            if some[-1] - some[0] < 400_000:
                want += c.reduce("sum", "f64", ordered[some[0] : some[-1]].tobytes(), offsets=[int(i - some[0]) for i in some]).cells
            else:
                want += [lib.run("sum", "f64", ordered[a:b].tobytes()) for a, b in zip(some, some[1:])]
        spec = spec_of(keys, groups, mask, drop=True, path=0 if here and path != "local" else PATHS[path])
        assert lib.run("sum", "f64", x.tobytes(), **spec) == b"".join(want)
        if here and path in ("inline", "shm"):
            with pytest.raises(libreduce.Fault, match="TOO_LARGE.*computed in this process"):
                lib.run("sum", "f64", x.tobytes(), **spec_of(keys, groups, mask, drop=True, path=PATHS[path]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_library_and_the_oracle(shared, scratch, dtype):
    """Every operation: in memory by the daemon and in this process, and in a file; values, states and faults."""
    rng = np.random.default_rng([SEED, 8, DTYPES[dtype]])
    with libreduce.Client(shared.url) as lib, libreduce.Client(shared.url, local=2) as here:
        for op in (o for o in oracle.ops(dtype) if o in OPS):
            n, groups, states = int(rng.integers(0, 60)), int(rng.integers(1, 9)), bool(rng.integers(2))
            bits, keys = some_bits(rng, dtype, n, bool(rng.integers(2))), rng.integers(0, groups, n).astype(str(rng.choice(["i1", "u2", "i4", "u8"])))
            mask = bytes(rng.integers(0, 3, n, np.uint8)) if rng.integers(2) else None
            kw = {"nan": str(rng.choice(["propagate", "omit", "error"])), "index_base": int(rng.integers(0, 9))}
            want = expected(op, dtype, bits, keys, groups, mask, states, **kw)

            def outcome(call, *args, **more):
                try:
                    raw = call(*args, **spec_of(keys, groups, states=states, **{**kw, **more}))
                except libreduce.Fault as e:
                    return e.code, e.index
                raw = raw if isinstance(raw, bytes) else raw[0]
                cells = [raw[i * len(raw) // groups : (i + 1) * len(raw) // groups] for i in range(groups)]
                return "OK", cells if states else [int.from_bytes(c, "little") for c in cells]
            assert outcome(lib.run, op, dtype, bits.tobytes(), mask=mask) == want, (op, kw)
            assert outcome(here.run, op, dtype, bits.tobytes(), mask=mask) == want, (op, kw)
            if mask is None:
                (scratch / "x").write_bytes(b"123" + bits.tobytes())
                with open(scratch / "x", "rb") as f:
                    assert outcome(lib.file, op, dtype, f.fileno(), 3, bits.nbytes) == want, (op, kw)


def test_the_library_on_files_and_jobs(shared, scratch):
    """Files that are cut, that only this process can reduce, and jobs."""
    rng = np.random.default_rng([SEED, 9])
    n = 800_000
    x = rng.integers(-(2**31), 2**31, n).astype(np.int32)
    (scratch / "x").write_bytes(b"1234" + x.tobytes())
    with libreduce.Client(shared.url) as lib, open(scratch / "x", "rb") as f:
        for groups in (7, 100_000):
            keys = rng.integers(0, groups, n)
            want = np.zeros(groups, np.int64)
            np.add.at(want, keys, x)
            kw = spec_of(keys.astype(np.int32), groups)
            raw, result = lib.file("sum", "i32", f.fileno(), 4, 4 * n, **kw)
            assert raw == want.tobytes() and result.cells == groups and result.count == n
            jobs = lib.submit_all([("sum", "i32", x.tobytes(), kw)] * 3 if groups == 7 else [])
            assert list(jobs) == [want.tobytes()] * (3 if groups == 7 else 0)
        with pytest.raises(libreduce.Fault, match="TOO_LARGE.*not for jobs"):
            list(lib.submit_all([("sum", "i32", x.tobytes(), kw)]))


@pytest.mark.parametrize("local", [1, 2])
def test_keys_of_no_elements_may_be_null(shared, scratch, local):
    (scratch / "x").write_bytes(b"")
    kw = {"rows": 3, "keys_dtype": "i32"}
    with libreduce.Client(shared.url, local=local) as lib, open(scratch / "x", "rb") as f:
        assert lib.run("count", "f64", b"", **kw) == lib.file("count", "f64", f.fileno(), 0, 0, **kw)[0] == bytes(24)
        assert list(lib.submit_all([("count", "f64", b"", kw)])) == [bytes(24)]
        with pytest.raises(libreduce.Fault, match="EMPTY: row 0"):
            lib.run("max", "f64", b"", **kw)


@pytest.mark.parametrize("n", [3000, 1_500_000])
def test_the_library_on_resident_data(shared, n):
    """Keys in memory, which are cut, and resident keys; more results than a reply has; what is refused."""
    rng = np.random.default_rng([SEED, n])
    x = rng.standard_normal(n).astype(np.float32)
    with libreduce.Client(shared.url) as lib:
        lib.put("x", "f32", x.ctypes.data, x.nbytes)
        for groups in (50, 700_000 if BACKEND == "cpu" else 70_000):
            keys = rng.integers(0, groups, n).astype(np.int64)
            ahead = np.concatenate([[-1, -1], keys])
            lib.put("keys", "i64", ahead.ctypes.data, ahead.nbytes, replace=True)
            want = lib.run("sum", "f32", x.tobytes(), **spec_of(keys, groups))
            named = {"keys_name": "keys", "keys_offset": 16, "keys_dtype": "i64", "rows": groups}
            raw, result = lib.named("sum", "f32", "x", **named)
            assert raw == want and result.path == 5 and result.count == n
            if groups == 50 or n == 3000:
                assert lib.named("sum", "f32", "x", **spec_of(keys, groups))[0] == want
            else:
                with pytest.raises(libreduce.Fault, match="TOO_LARGE.*keys_name") as e:
                    lib.named("sum", "f32", "x", **spec_of(keys, groups))
                assert e.value.field == "keys" and 0 < e.value.limit * 8 < 4 << 20
            part = lib.named("max", "f32", "x", 400, 4000, **{**named, "keys_offset": 16 + 800, "flags": libreduce.STATES_OUT})[0]
            assert part == lib.run("max", "f32", x[100:1100].tobytes(), **spec_of(keys[100:1100], groups, states=True))
        for name, code, kw in [("keys_name", "ARGUMENT", {"keys": b"", "keys_name": "keys", "keys_offset": 3}), ("keys", "TYPE", {"keys_dtype": "i32"}),
                               ("keys", "SHAPE", {"keys_offset": 24}), ("name", "TOO_LARGE", {"keys_name": "x" * 65}), ("", "BAD_HANDLE", {"keys_name": "none"})]:
            with pytest.raises(libreduce.Fault) as e:
                lib.named("sum", "f32", "x", **{**named, **kw})
            assert e.value.code == code and name.startswith(e.value.field.split("_")[0] if name else e.value.field[:0]), (name, e.value)
        keys[700] = 2**40
        ahead = np.concatenate([[-1, -1], keys])
        lib.put("keys", "i64", ahead.ctypes.data, ahead.nbytes, replace=True)
        with pytest.raises(libreduce.Fault, match="SHAPE: ") as e:
            lib.named("sum", "f32", "x", **named)
        assert (e.value.field, e.value.index, e.value.limit) == ("keys", 700, groups)
        lib.drop("x"), lib.drop("keys")


def test_what_the_library_refuses(shared):
    x, keys = np.arange(6.0).tobytes(), np.array([0, 2, 9, 1, 9, 0], np.uint8)
    with libreduce.Client(shared.url) as lib:
        for field, code, kw in [("keys_dtype", "TYPE", {"keys_dtype": "f32"}), ("keys_dtype", "TYPE", {"keys_dtype": "bool"}), ("keys_dtype", "ARGUMENT", {"keys_dtype": None, "flags": 0}),
                                ("flags", "BAD_MESSAGE", {"flags": libreduce.COLUMNS}), ("flags", "BAD_MESSAGE", {"offsets": bytes(80)}), ("flags", "BAD_MESSAGE", {"flags": libreduce.STATES_IN}),
                                ("planes", "BAD_MESSAGE", {"planes": 2}), ("keys_name", "ARGUMENT", {"keys_name": "x"}), ("keys", "ARGUMENT", {"keys": None}),
                                ("keys_dtype", "ARGUMENT", {"keys_dtype": None}), ("flags", "BAD_MESSAGE", {"keys": None, "keys_dtype": None, "flags": libreduce.DROP_OUTSIDE})]:
            with pytest.raises(libreduce.Fault) as e:
                lib.run("sum", "f64", x, **{**spec_of(keys, 3), **kw})
            assert (e.value.code, e.value.field) == (code, field), kw
        with pytest.raises(libreduce.Fault) as e:
            lib.run("median", "f64", x, **spec_of(keys, 3))
        assert e.value.code == "BAD_MESSAGE" and "takes no keys" in e.value.text
        with pytest.raises(libreduce.Fault) as e:
            lib.run("sum", "f64", x, **spec_of(keys, 2**24))
        assert (e.value.code, e.value.field, e.value.limit) == ("TOO_LARGE", "rows", (1 << 30) // (oracle.state_size("sum", "f64") + 32))
        with pytest.raises(libreduce.Fault, match="put data and keys, and use reduce_named, or use reduce_cuda.h") as e:
            lib.device("sum", "f64", bytes(64), 0, len(x), **spec_of(keys, 3))
        assert (e.value.code, e.value.field) == ("ARGUMENT", "keys_dtype")
        # the first key that is not a group, in one message and in many
        for zeros in 0, 900_000:
            long = np.concatenate([np.zeros(zeros, np.uint8), keys])
            with pytest.raises(libreduce.Fault, match=f"SHAPE: .*element {zeros + 2}") as e:
                lib.run("sum", "f64", bytes(8 * zeros) + x, **spec_of(long, 3))
            assert (e.value.field, e.value.index, e.value.limit) == ("keys", zeros + 2, 3)
            with pytest.raises(libreduce.Fault, match="EMPTY: row 3") as e:
                lib.run("min", "f64", bytes(8 * zeros) + x, **spec_of(long, 5, drop=True))
            assert e.value.index == 3
            assert lib.run("sum", "f64", bytes(8 * zeros) + x, **spec_of(long, 3, drop=True)) == np.array([5.0, 3.0, 1.0]).tobytes()


def test_the_library_streams(shared):
    """Pieces of one chunk and of many, with masks; the result of one request."""
    rng = np.random.default_rng([SEED, 31])
    with libreduce.Client(shared.url) as lib:
        for n, groups, key in ((100, 7, "u1"), (1_000_000, 900, "i4"), (300_000, 1, "u8"), (0, 2, "i8")):
            x = rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n)
            keys = rng.integers(0, groups, n).astype(key)
            mask = rng.integers(0, 2, n).astype(np.uint8) if n != 300_000 else None
            spec = spec_of(keys, groups, None if mask is None else mask.tobytes())
            cuts = np.sort(np.concatenate([[0, n], rng.integers(0, n + 1, 5)]))
            pieces = [(int(b - a), x[a:b].tobytes(), keys[a:b].tobytes(), None if mask is None else mask[a:b].tobytes()) for a, b in zip(cuts, cuts[1:])]
            flags = {"flags": libreduce.MASKED if mask is not None else 0}
            assert lib.keyed_stream("sum", "f64", pieces, **{**spec, "keys": None, "mask": None, **flags}) == lib.run("sum", "f64", x.tobytes(), **spec)
        for zeros in 0, 900_000:
            long = np.concatenate([np.zeros(zeros, np.uint8), np.array([1, 3, 2], np.uint8)])
            with pytest.raises(libreduce.Fault, match=f"SHAPE: the key of element {zeros + 1} ") as e:
                lib.keyed_stream("sum", "f64", [(len(long), bytes(8 * len(long)), long.tobytes(), None)], keys_dtype="u8", rows=3)
            assert (e.value.field, e.value.index, e.value.limit) == ("keys", zeros + 1, 3)
        with pytest.raises(libreduce.Fault, match="EMPTY: row 1: "):
            lib.keyed_stream("min", "f64", [(1, bytes(8), b"\0", None)], keys_dtype="u8", rows=3)
        with pytest.raises(libreduce.Fault, match="TOO_LARGE.*reduce_accumulators.*the cap is 910"):
            lib.keyed_stream("sum", "f64", [], keys_dtype="u8", rows=911)
        with pytest.raises(libreduce.Fault, match="ARGUMENT.*reduce_stream_append_keyed"):
            lib.stream("sum", "f64", [bytes(8)], keys_dtype="u8", rows=3)
        with pytest.raises(libreduce.Fault, match="ARGUMENT.*takes no keys"):
            lib.keyed_stream("sum", "f64", [(1, bytes(8), b"\0", None)])
        with pytest.raises(libreduce.Fault, match="ARGUMENT.*come with the pieces"):
            lib.stream("sum", "f64", [], keys=b"\0", keys_dtype="u8", rows=3)
