"""Tagged parts, over the wire by PROTOCOL.md alone: companions that are not with the elements, parameters, results that do not go into the reply."""
import struct

import numpy as np
import pytest

from oracle import SIZE
from rawclient import (BEGIN, CLAIM, COLUMNS, COMPANION, HANDLE, MASK, MAX_DATA, MESSAGE, OFFSETS, PARAMETER, PARAMETERS, REDUCE, REDUCE_AT, RESULT, ROLES, STATES_IN,
                       STATES_OUT, STRIDE, Fault, claim_of, companion, parameter, parse_result, part, result_at, spec, stride_of)
from sideclient import Side

SEED = 20261128
PATH_INLINE, PATH_SHM, PATH_FILE, PATH_RESIDENT = 1, 3, 4, 5


def refused(code, field, call, *args, **kw):
    with pytest.raises(Fault) as e:
        call(*args, **kw)
    assert (e.value.code, e.value.field) == (code, field), e.value
    return e.value


@pytest.fixture
def conn(shared):
    with shared.connect() as c:
        yield c


class Doors:
    """The same elements, mask and offsets in every place that the daemon reaches."""

    def __init__(self, c, side, scratch, dtype, data, mask, offsets):
        self.c, self.side, self.dtype, self.data, self.mask, self.offsets = c, side, dtype, data, mask, offsets
        head = bytes(SIZE[dtype])
        self.arena, memory = side.arena(len(data) + len(mask) + 64)
        memory[:len(data)] = data
        memory[len(data) + 5 : len(data) + 5 + len(mask)] = mask
        memory.close()
        (scratch / "elements").write_bytes(head + data)
        with open(scratch / "elements", "rb") as f:
            self.file, _ = side.file(f.fileno())
        self.kept = c.put("elements", dtype, head + data)
        self.kept_mask = c.put("mask", "u8", b"###" + mask)
        self.kept_bools = c.put("bools", "bool", mask)
        self.kept_offsets = c.put("offsets", "u64", bytes(8) + struct.pack(f"<{len(offsets)}Q", *offsets))
        self.elements = {PATH_SHM: (self.arena, 0), PATH_FILE: (self.file, len(head)), PATH_RESIDENT: (self.kept, len(head))}
        self.masks = {"resident": (self.kept_mask, 3), "bools": (self.kept_bools, 0, "bool"), "arena": (self.arena, len(data) + 5)}

    def close(self):
        for name in ("elements", "mask", "bools", "offsets"):
            self.c.drop(name)

    def companions(self, mask, cut):
        """Each way to give them to REDUCE_AT, as arguments of reduce_at."""
        masks = [{}] if not mask else [{"mask": self.mask}, *({"mask_at": m} for m in self.masks.values())]
        cuts = [{}] if not cut else [{"offsets": self.offsets}, {"offsets_at": (self.kept_offsets, 8), "rows": len(self.offsets) - 1}]
        return [{**m, **o} for m in masks for o in cuts]


@pytest.mark.parametrize("dtype", ["u8", "i16", "f32", "f64"])
def test_the_same_data_through_every_door(shared, scratch, dtype):
    r = np.random.default_rng(SEED)
    data, n = r.integers(0, 60, 48_000, "u1").tobytes(), 48_000 // SIZE[dtype]
    mask = (r.random(n) < 0.7).tobytes()
    offsets = sorted(map(int, r.integers(0, n + 1, 40)))
    with shared.connect() as c, Side(c) as side:
        doors = Doors(c, side, scratch, dtype, data, mask, offsets)
        for op, masked, cut, kw in (("sum", True, False, {"rows": 3000}), ("stats", True, False, {}), ("argmax", True, False, {"rows": 3, "index_base": 7}),
                                    ("max", True, False, {"rows": 50, "flags": COLUMNS}), ("var", True, False, {"flags": STATES_OUT}),
                                    ("sum", True, False, {"rows": 10, "planes": 4}), ("mean", True, False, {"rows": 10, "planes": 4, "flags": COLUMNS}),
                                    ("sum", False, True, {}), ("argmin", False, True, {"flags": STATES_OUT}), ("stats", True, True, {}),
                                    ("sumsq", True, True, {"initial": 2})):
            want = c.reduce(op, dtype, data, nan="omit", mask=mask if masked else None, offsets=offsets if cut else None, **kw)
            for how in doors.companions(masked, cut):
                for path, place in doors.elements.items():
                    got = c.reduce_at(op, dtype, *place, len(data), nan="omit", **{**kw, **how})
                    assert (got.cells, got.count, got.path) == (want.cells, want.count, path), (op, how, path)
                # in the message REDUCE has its companions with the elements, or by handle
                parts = [companion(role, how[f"{role}_at"][:2], *how[f"{role}_at"][2:]) for role in ("mask", "offsets") if f"{role}_at" in how]
                flags = kw.get("flags", 0) | (MASK if masked else 0) | (OFFSETS if cut else 0)
                rest = {k: v for k, v in how.items() if k in ("mask", "offsets")}
                shape = {"rows": len(offsets) - 1, "row_len": n} if cut else {}
                got = c.reduce(op, dtype, data, nan="omit", parts=parts, **{**kw, **shape, **rest, "flags": flags})
                assert (got.cells, got.count, got.path) == (want.cells, want.count, PATH_INLINE), (op, how)
        doors.close()


@pytest.mark.parametrize("op, dtype, kw", [
    ("sum", "u8", {"rows": 2, "flags": COLUMNS}), ("stats", "u8", {"rows": 100_000}), ("minmax", "i16", {"rows": 400_000}), ("argmax", "u8", {"rows": 700_000, "planes": 2}),
    ("var", "u8", {"rows": 100_000, "flags": STATES_OUT}), ("mean", "u8", {"rows": 2, "planes": 2, "flags": COLUMNS}), ("stats", "u8", {"offsets": 60_000})])
def test_more_results_than_a_reply_has(shared, op, dtype, kw):
    """Into an arena and into an array that is being written; the same cells as by parts that fit."""
    n = 2_800_000
    data = np.random.default_rng(SEED).integers(0, 100, n * SIZE[dtype], "u1").tobytes()
    kw = dict(kw)
    if "offsets" in kw:
        kw["offsets"] = list(range(0, 40 * kw["offsets"], 40))
    with shared.connect() as c, Side(c) as side:
        kept = c.put("wide", dtype, data)
        rows = len(kw["offsets"]) - 1 if "offsets" in kw else kw["rows"]
        flags, planes = kw.get("flags", 0), kw.get("planes", 1)
        cells = planes * (n // rows // planes) if flags & COLUMNS else rows
        one = c.reduce_at(op, dtype, kept, 0, 40 * SIZE[dtype], rows=1, flags=flags & STATES_OUT)
        size = cells * one.cell_size
        assert size > MAX_DATA
        arena, memory = side.arena(size + 24)
        assert refused("TOO_LARGE", "row_len" if flags & COLUMNS else "rows", c.reduce_at, op, dtype, kept, 0, len(data), **kw).limit < cells
        got = c.reduce_at(op, dtype, kept, 0, len(data), parts=[result_at(arena, 24, size)], **kw)
        assert (got.cells, got.count, got.cell_size, got.path) == ([], n, one.cell_size, PATH_RESIDENT)
        assert bytes(memory[:24]) == bytes(24)
        target = c.store("results", "u8", size + 8)
        assert c.reduce_at(op, dtype, kept, 0, len(data), parts=[result_at(target, 8, size)], **kw).cells == []
        refused("SHAPE", "bytes", c.commit, target)
        c.write(target, 0, bytes(8))
        c.commit(target)
        found = bytes(memory[24 : 24 + size])
        assert c.reduce_at("sum", "u8", target, 0, size + 8).cells == [struct.pack("<Q", int(np.frombuffer(found, "u1").sum()))]
        for at in (0, cells // 2, cells - 1):  # some of them alone
            part_of = one_result(c, op, dtype, kept, n, rows, planes, flags, kw.get("offsets"), at)
            assert found[at * one.cell_size : (at + 1) * one.cell_size] == part_of, at
        memory.close()
        c.drop("wide")
        c.drop("results")


def one_result(c, op, dtype, kept, n, rows, planes, flags, offsets, at):
    """The cell of one line, from its elements in a message."""
    size, states = SIZE[dtype], flags & STATES_OUT
    if offsets:
        return c.reduce_at(op, dtype, kept, offsets[at] * size, (offsets[at + 1] - offsets[at]) * size, flags=states).cells[0]
    length = n // rows // planes
    if not flags & COLUMNS:
        return c.reduce_at(op, dtype, kept, at * length * size, length * size, flags=states).cells[0] if planes == 1 else runs(c, op, dtype, kept, rows, planes, length, at)
    plane, column = divmod(at, length)
    elements = b"".join(element(c, dtype, kept, (plane * rows + i) * length + column) for i in range(rows))
    return c.reduce(op, dtype, elements, flags=states).cells[0]


def element(c, dtype, kept, i):
    return struct.pack("<B", struct.unpack("<Q", c.reduce_at("max", dtype, kept, i, 1).cells[0])[0])


def runs(c, op, dtype, kept, rows, planes, length, at):
    elements = b"".join(element(c, dtype, kept, (p * rows + at) * length + i) for p in range(planes) for i in range(length))
    return c.reduce(op, dtype, elements).cells[0]


def test_a_failed_request_has_written_nothing(shared):
    """What it was to write can still come, and then the array is complete."""
    with shared.connect() as c:
        target = c.store("r", "f64", 16)
        for kw in ({"rows": 2, "row_len": 0}, {"rows": 2, "row_len": 0}):
            refused("EMPTY", "row_len", c.reduce, "min", "f64", b"", parts=[result_at(target, 0, 16)], **kw)
        assert c.reduce("sum", "f64", struct.pack("<2d", 1.5, 2.5), rows=2, parts=[result_at(target, 0, 16)]).cells == []
        refused("SHAPE", "offset", c.reduce, "sum", "f64", bytes(8), parts=[result_at(target, 8, 8)])
        refused("SHAPE", "offset", c.reduce, "sum", "f64", bytes(8), parts=[result_at(target, 9, 8)])
        c.commit(target)
        assert c.reduce_at("sum", "f64", target, 0, 16).cells == [struct.pack("<d", 4)]
        refused("BAD_HANDLE", "result", c.reduce, "sum", "f64", bytes(8), parts=[result_at(target, 0, 8)])
        c.drop("r")


def test_results_that_would_lie_on_their_elements(shared):
    with shared.connect() as c, Side(c) as side:
        arena, memory = side.arena(4096)
        memory[:16] = struct.pack("<2d", 1, 2)
        memory[100:102] = b"\1\1"

        def ask(at, mask_at=(), length=8):
            return c.reduce_at("sum", "f64", arena, 0, 16, mask_at=mask_at, parts=[result_at(arena, at, length)])
        for at in (0, 8, 15):
            refused("SHAPE", "result", ask, at)
        for at in (93, 100, 101):
            refused("SHAPE", "result", ask, at, (arena, 100))
        for at in (16, 92, 102, 4088):
            assert ask(at, (arena, 100)).cells == [] and bytes(memory[at : at + 8]) == struct.pack("<d", 3), at
        assert refused("SHAPE", "result", ask, 4089).limit == 4096
        for at in (2**64 - 8, 2**64 - 1, 2**63):
            assert refused("SHAPE", "result", ask, at).limit == 4096
        for length in (0, 7, 9, 16, 2**64 - 1):
            assert refused("SHAPE", "result", ask, 16, (), length).limit == 8
        memory.close()


def test_parts_that_do_not_suit(shared, scratch):
    (scratch / "f").write_bytes(bytes(64))
    with shared.connect() as c, Side(c) as side, shared.connect() as other, Side(other) as others, open(scratch / "f", "rb") as f:
        arena, memory = side.arena(4096)
        foreign, theirs = others.arena(4096)
        passed, _ = side.file(f.fileno())
        floats, numbers = c.put("floats", "f32", bytes(400)), c.put("numbers", "u64", struct.pack("<4Q", 0, 3, 2, 1))
        elements = (arena, 0, 40)

        def at(flags=0, parts=(), rows=1, row_len=10, place=elements, data=b"", **kw):
            tagged = b"".join(parts)
            body = spec("sum", "f32", flags=flags, rows=rows, row_len=row_len, tagged_len=len(tagged), **kw) + struct.pack("<QQQ", *place) + tagged + data
            return parse_result(c.call(REDUCE_AT, body))
        mask, cut = companion("mask"), companion("offsets")
        # of roles and their flags
        refused("BAD_MESSAGE", "flags", at, 0, [mask], data=bytes(10))
        refused("BAD_MESSAGE", "flags", at, 0, [cut], data=bytes(16))
        for role in ("weights", "keys"):
            refused("BAD_MESSAGE", "flags", at, MASK, [mask, companion(role, (arena, 0))], data=bytes(10))
            refused("BAD_MESSAGE", "flags", c.reduce, "sum", "f32", bytes(8), parts=[companion(role)])
        for dtype in ("f32", "i8", "u16"):
            refused("TYPE", "mask", at, MASK, [companion("mask", dtype=dtype)], data=bytes(10))
        refused("TYPE", "offsets", at, OFFSETS, [companion("offsets", dtype="i64")], data=bytes(16))
        for extent in ("row", "column", "bounds"):
            assert refused("SHAPE", "mask", at, MASK, [companion("mask", extent=extent)], data=bytes(10)).limit == 1
        assert refused("SHAPE", "offsets", at, OFFSETS, [companion("offsets", extent="elements")], data=bytes(16)).limit == 4
        refused("BAD_MESSAGE", "mask", c.reduce, "sum", "f32", bytes(8), flags=MASK, parts=[mask])
        refused("BAD_MESSAGE", "flags", at, OFFSETS)
        refused("BAD_MESSAGE", "flags", at, STATES_IN)
        # of what is in the message
        assert refused("SHAPE", "mask", at, MASK, [mask], data=bytes(9)).limit == 10
        assert refused("SHAPE", "data", at, MASK, [mask], data=bytes(11)).limit == 10
        assert refused("SHAPE", "offsets", at, MASK | OFFSETS, [mask, cut], data=bytes(10 + 15)).limit == 16
        assert refused("SHAPE", "data", at, data=bytes(1)).limit == 0
        assert refused("SHAPE", "offsets", at, OFFSETS, [cut], data=struct.pack("<2Q", 3, 11)).index == 1
        # of handles
        for handle in (0, arena ^ 1, foreign, passed):
            refused("BAD_HANDLE", "mask", at, MASK, [companion("mask", (handle, 0))])
            refused("BAD_HANDLE", "offsets", at, OFFSETS, [companion("offsets", (handle, 0))])
            refused("BAD_HANDLE", "result", at, 0, [result_at(handle, 0, 8)])
        refused("BAD_HANDLE", "offsets", at, OFFSETS, [companion("offsets", (arena, 0))])
        refused("BAD_HANDLE", "result", at, 0, [result_at(floats, 0, 8)])
        refused("TYPE", "mask", at, MASK, [companion("mask", (floats, 0))])
        for offset in (4087, 4097, 2**64 - 1, 2**64 - 10):
            assert refused("SHAPE", "mask", at, MASK, [companion("mask", (arena, offset))]).limit == 4096
        assert refused("SHAPE", "offsets", at, OFFSETS, [companion("offsets", (numbers, 24))]).limit == 32
        assert refused("SHAPE", "offsets", at, OFFSETS, [companion("offsets", (numbers, 0))], rows=3).index == 2
        assert refused("TOO_LARGE", "offsets", at, OFFSETS, [companion("offsets", (numbers, 0))], rows=MAX_DATA // 8).limit == MAX_DATA
        assert at(OFFSETS, [companion("offsets", (numbers, 0))]).cells == [bytes(8)]
        # of streams
        for parts, field in (([companion("mask", (arena, 0))], "mask"), ([result_at(arena, 0, 8)], "result"), ([stride_of(8)], "stride"), ([mask], "mask")):
            refused("BAD_MESSAGE", field, c.begin, "sum", "f32", parts=parts, flags=MASK)
        refused("BAD_MESSAGE", "begin", c.call, BEGIN, spec("sum", "f32") + bytes(8))
        # of strides
        refused("BAD_MESSAGE", "stride", c.reduce, "sum", "f32", bytes(8), flags=COLUMNS, parts=[stride_of(8)])
        refused("BAD_MESSAGE", "stride", at, 0, [stride_of(40)])
        refused("BAD_MESSAGE", "stride", at, COLUMNS, [stride_of(40)])
        for name in ("floats", "numbers"):
            c.drop(name)
        memory.close()
        theirs.close()


def test_parameters_are_for_operations_that_take_them(conn):
    values = {"q": (5, -1), "k": -1, "edges": 0.5, "bins": 3, "lo": 0.0, "hi": 1.0, "zero_weights_drop": 1, "method": 3}
    for name in PARAMETERS:
        for op in ("sum", "var"):
            refused("BAD_MESSAGE", name, conn.reduce, op, "f32", bytes(8), parts=[parameter(name, values[name])])
            refused("BAD_MESSAGE", name, conn.begin, op, "f32", parts=[parameter(name, values[name])])
    most = {"q": 64, "edges": 65536}
    for name in PARAMETERS:
        n = most.get(name, 1)
        refused("BAD_MESSAGE", name, conn.reduce, "sum", "u8", b"", parts=[parameter(name, *[values[name]] * n)])
        assert refused("TOO_LARGE", name, conn.reduce, "sum", "u8", b"", parts=[parameter(name, *[values[name]] * (n + 1))]).limit == n
        refused("BAD_MESSAGE", name, conn.reduce, "sum", "u8", b"", parts=[parameter(name)])
    for exponent in (401, -401, 2**63 - 1, -(2**63)):
        assert refused("BAD_MESSAGE", "q", conn.reduce, "sum", "u8", b"", parts=[parameter("q", (1, 0), (1, exponent))]).limit == 400
    assert refused("BAD_MESSAGE", "q", conn.reduce, "sum", "u8", b"", parts=[part(PARAMETER, bytes(16), 1, 3)]).limit == 4
    assert refused("BAD_MESSAGE", "q", conn.reduce, "sum", "u8", b"", parts=[part(PARAMETER, bytes(24), 1, 4)]).limit == 16


def test_parts_of_the_wrong_form(conn):
    def ask(tagged, tagged_len=None, data=b"\1\2\3"):
        return parse_result(conn.call(REDUCE, spec("sum", "u8", row_len=3, tagged_len=len(tagged) if tagged_len is None else tagged_len) + tagged + data))
    place = struct.pack("<QQ", 1, 0)
    assert ask(b"").cells == [struct.pack("<Q", 6)]
    for tagged_len in (4, 8, 2**32 - 1, 2**31):
        assert refused("BAD_MESSAGE", "tagged_len" if tagged_len > 3 else "parts", ask, b"", tagged_len).limit == 3
    for n in (1, 7):
        refused("BAD_MESSAGE", "parts", ask, bytes(n))
    for tag in (0, 6, 255):
        assert refused("BAD_MESSAGE", "tag", ask, part(tag, b"")).limit == CLAIM
    for body in (bytes(1), bytes(7), bytes(9)):
        refused("BAD_MESSAGE", "parts", ask, part(STRIDE, body) + bytes(8))
    for length in (16, 2**32 - 8):
        refused("BAD_MESSAGE", "parts", ask, struct.pack("<BBBBI", STRIDE, 0, 0, 0, length) + bytes(8))
    for head in ((STRIDE, 1, 0, 0), (STRIDE, 0, 1, 0), (STRIDE, 0, 0, 1), (CLAIM, 1, 0, 0), (RESULT, 1, 0, 0), (PARAMETER, 2, 2, 1)):
        refused("BAD_MESSAGE", "parts", ask, struct.pack("<BBBBI", *head, 8) + bytes(8))
    for role, where, extent, field, limit in ((0, 1, 1, "role", 4), (5, 1, 1, "role", 4), (1, 0, 1, "where", 3), (1, 4, 1, "where", 3), (1, 1, 0, "extent", 4),
                                              (1, 1, 5, "extent", 4)):
        assert refused("BAD_MESSAGE", field, ask, part(COMPANION, struct.pack("<B7x", 2), role, where, extent)).limit == limit
    assert refused("BAD_MESSAGE", "parameter", ask, part(PARAMETER, bytes(8), 9, 1)).limit == 8
    for body, where, limit in ((b"", MESSAGE, 8), (bytes(16), MESSAGE, 8), (bytes(8), HANDLE, 24), (bytes(32), HANDLE, 24)):
        assert refused("BAD_MESSAGE", "mask", ask, part(COMPANION, body, ROLES["mask"], where, 1)).limit == limit
    refused("BAD_MESSAGE", "mask", ask, part(COMPANION, b"\2\1" + bytes(6) + place, ROLES["mask"], HANDLE, 1))
    for tag, field in ((RESULT, "result"), (STRIDE, "stride")):
        refused("BAD_MESSAGE", field, ask, part(tag, bytes(16)))
    refused("BAD_MESSAGE", "stride", ask, stride_of(0))
    for body in (b"", bytes(8), bytes(24)):
        assert refused("BAD_MESSAGE", "claim", ask, part(CLAIM, body)).limit == 16
    refused("BAD_MESSAGE", "claim", ask, claim_of(0, 1))
    assert ask(claim_of(1, 0)).cells == ask(claim_of(2**64 - 1, 2**64 - 1)).cells == [struct.pack("<Q", 6)]
    mask, cut = companion("mask", (1, 0)), companion("offsets", (1, 0))
    for parts in ((mask, mask), (cut, mask), (stride_of(8), mask), (stride_of(8), stride_of(8)), (claim_of(1, 1), stride_of(8)), (claim_of(1, 1), claim_of(1, 1)), (result_at(1, 2, 3), parameter("k", 1))):
        refused("BAD_MESSAGE", "parts", ask, b"".join(parts))


def test_masks_and_results_go_with_their_session(shared):
    """A daemon keeps what a request names until it ends, and nothing longer."""
    with shared.connect() as c, Side(c) as side:
        arena, memory = side.arena(1 << 20)
        kept = c.put("mask", "u8", b"\1" * (1 << 18))
        sent = [c.send(REDUCE_AT, c.reduce_at_body("sum", "u8", arena, 0, 1 << 18, mask_at=(kept, 0), parts=[result_at(arena, 1 << 19, 8)])) for _ in range(8)]
        c.drop("mask")
        side.drop(arena)
        for s in sent:
            assert parse_result(c.wait(s)).cells == []
        assert bytes(memory[1 << 19 : (1 << 19) + 8]) == bytes(8)
        refused("BAD_HANDLE", "handle", c.reduce_at, "sum", "u8", arena, 0, 8)
        memory.close()
    with shared.connect() as c:
        assert c.query(2)["resident.arrays"] == 0
