#!/usr/bin/env python3
"""Write the golden vectors: messages.txt, order.txt, packets.txt, states.txt, pairs.txt and words.txt beside this file. Made from PROTOCOL.md alone, not from the codec.

    python3 tests/golden/generate.py           write the files
    python3 tests/golden/generate.py --check   exit 1 if they differ from what this would write

Lines of fields, the last one hex; a `#` line at the top names the fields, one before each message or packet says what it holds. A client in any language can check itself with them.
"""
import pathlib
import struct
import sys
from fractions import Fraction as F

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import oracle  # noqa: E402
import order  # noqa: E402
import pairs  # noqa: E402
from rawclient import (ABORT, APPEND, BEGIN, CANCEL, COLUMNS, COMMIT, DROP, DROP_OUTSIDE, FINISH, HELLO, KEYS, LIST, MASK, NO_INDEX, OFFSETS, PING, QUERY, REDUCE,  # noqa: E402
                       REDUCE_AT, STATES_IN, STATES_OUT, STORE, WEIGHTS, WRITE, WRITE_AT, claim_of, companion, header, parameter,
                       result_at, spec, store, stride_of)
from sideclient import ARENA, ATTACH, DEVICE, DEVICE_FD, FILE  # noqa: E402
from sideclient import DROP as DROP_HANDLE  # noqa: E402

SESSION = 0x0123456789ABCDEF


def message(kind, body=b"", session=SESSION, mid=1, reply=0, version=1, **fields):
    return header(kind, len(body), session=session, mid=mid, flags=reply, version=version, **fields) + body


def hello(low, high, name, priority=0):
    return struct.pack("<BBHB3x", low, high, len(name), priority) + name


def welcome(server, priority=0):
    return struct.pack("<BB2xIIII4xQH6x", 1, priority, 4194304, 1048576, 64, 32, SESSION, len(server)) + bytes(range(0xA0, 0xB0)) + server


def entry(key, value):
    if isinstance(value, bytes):
        kind, data = 3, value
    elif isinstance(value, float):
        kind, data = 2, struct.pack("<d", value)
    else:
        kind, data = 1, struct.pack("<Q", value)
    return struct.pack("<BBH", kind, len(key), len(data)) + key + data


def result(dtype, backend, path, cells, count, times, body):
    return struct.pack("<BBBxIQQQQQ", oracle.DTYPES[dtype] if dtype else 0, backend, path, len(body) // cells, cells, count, *times) + body


def fault(limit, index, value, field, text):
    low, high = value % 2**64, (value >> 64) % 2**64
    return struct.pack("<QQQQHH4x", limit, index, low, high, len(field), len(text)) + field + text


def messages():
    """(name, remark, bytes); names are known to tests/unit/test_codec.c."""
    three = struct.pack("<3f", 1.5, 2.25, -0.5)
    yield "hello", "versions 1 to 1, name 'golden'", message(HELLO, hello(1, 1, b"golden"), session=0)
    yield "hello_wide", "header version 3, versions 1 to 3, no name", message(HELLO, hello(1, 3, b""), session=0, mid=2, version=3)
    yield "hello_demo", "PROTOCOL.md's example", message(HELLO, hello(1, 1, b"demo"), session=0)
    yield "welcome", "reply of hello", message(HELLO, welcome(b"reduced 0.1.0"), reply=1)
    yield "hello_background", "versions 1 to 1, background, name 'backup'", message(HELLO, hello(1, 1, b"backup", 2), session=0)
    yield "welcome_background", "reply of hello", message(HELLO, welcome(b"reduced 0.1.0", 2), reply=1)
    yield "ping", "time 8 bytes, no session", message(PING, bytes(range(8)), session=0, mid=NO_INDEX)
    yield "pong", "reply of ping", message(PING, bytes(range(8)), session=0, mid=NO_INDEX, reply=1)
    yield "query_info", "topic 1", message(QUERY, struct.pack("<I4x", 1), mid=3)
    yield "query_status", "topic 2", message(QUERY, struct.pack("<I4x", 2), mid=4)
    yield "entries", "reply of query: one entry of each kind", message(
        QUERY, entry(b"requests.reduce", 2**63 + 5) + entry(b"latency.p50", 0.125) + entry(b"device", b"Xeon"), mid=4, reply=1)
    yield "reduce", "sum of 3 f32 1.5 2.25 -0.5, defaults; PROTOCOL.md's example", message(REDUCE, spec("sum", "f32", row_len=3) + three, mid=2)
    yield "reduce_all", "argmax of i16, out u64, omit, states in and out, 2 rows of 0, index base 2^60; deadline 1500 ms", message(
        REDUCE, spec("argmax", "i16", out="u64", nan="omit", flags=STATES_IN | STATES_OUT, rows=2, index_base=2**60), mid=5, time_ms=1500)
    yield "result", "reply of reduce: f64 3.25 from the CPU; PROTOCOL.md's example", message(
        REDUCE, result("f64", 1, 1, 1, 3, (1000, 0, 2000), struct.pack("<d", 3.25)), mid=2, reply=1)
    yield "result_rows", "two i64 cells -1 and 2", message(REDUCE, result("i64", 2, 1, 2, 2000, (1, 2, 3), struct.pack("<2q", -1, 2)), mid=6, reply=1)
    yield "result_state", "one state: count_nonzero of 2 u8 elements 0 7", message(
        REDUCE, result(0, 1, 1, 1, 2, (1, 2, 3), oracle.state(oracle.Elements("u8", oracle.bits_of("u8", b"\0\7")), "count_nonzero")), mid=7, reply=1)
    yield "begin", "max of f16 to f32, NaN is an error", message(BEGIN, spec("max", "f16", out="f32", nan="error"), mid=8)
    yield "begun", "reply of begin: stream 9", message(BEGIN, struct.pack("<Q", 9), mid=8, reply=1)
    yield "append", "stream 9, offset 2^40, two f16", message(APPEND, struct.pack("<QQ", 9, 2**40) + bytes.fromhex("003c00bc"), mid=9)
    yield "appended", "reply of append: 2 elements so far", message(APPEND, struct.pack("<Q", 2), mid=9, reply=1)
    yield "finish", "stream 9, 2^40 + 2 elements", message(FINISH, struct.pack("<QQ", 9, 2**40 + 2), mid=10)
    yield "finished", "reply of finish: f32 1.0", message(FINISH, result("f32", 2, 2, 1, 2**40 + 2, (7, 8, 9), struct.pack("<f", 1.0)), mid=10, reply=1)
    yield "abort", "stream 9", message(ABORT, struct.pack("<Q", 9), mid=11)
    yield "aborted", "reply of abort", message(ABORT, mid=11, reply=1)
    yield "cancel", "request 10", message(CANCEL, struct.pack("<Q", 10), mid=12)
    yield "cancelled", "reply of cancel: one request taken back", message(CANCEL, struct.pack("<Q", 1), mid=12, reply=1)
    yield "reduce_segments", "var of bf16 to f32, omit, ddof 1, initial -3; segments 0..1 and 1..3 of 1, 2, NaN with mask 1 0 2", message(
        REDUCE, spec("var", "bf16", out="f32", nan="omit", flags=MASK | OFFSETS, rows=2, row_len=3, ddof=1, initial=0xC040)
        + struct.pack("<3Q3H3B", 0, 1, 3, 0x3F80, 0x4000, 0x7FC0, 1, 0, 2), mid=15)
    yield "reduce_columns", "minmax of the columns of the i8 matrix 1 -2; 3 4", message(
        REDUCE, spec("minmax", "i8", flags=COLUMNS, rows=2, row_len=2) + struct.pack("<4b", 1, -2, 3, 4), mid=16)
    yield "reduce_planes", "version 2: max of the columns of two u8 planes 0 5 2; 3 4 1 and 6 11 8; 9 10 7", message(
        REDUCE, spec("max", "u8", flags=COLUMNS, rows=2, row_len=3, planes=2) + bytes([0, 5, 2, 3, 4, 1, 6, 11, 8, 9, 10, 7]), mid=29, version=2)
    yield "reduce_runs", "version 2: argmax of the rows of two u8 planes 0 5 2; 3 4 1 and 6 11 8; 9 10 7: 4 4", message(
        REDUCE, spec("argmax", "u8", rows=2, row_len=3, planes=2) + bytes([0, 5, 2, 3, 4, 1, 6, 11, 8, 9, 10, 7]), mid=37, version=2)
    yield "reduce_device", "version 2: sum of the u8 elements 1 2 3 on device 0", message(
        REDUCE, spec("sum", "u8", row_len=3, device=1) + bytes([1, 2, 3]), mid=32, version=2)
    yield "result_minmax", "its reply: 1 3; -2 4", message(REDUCE, result("i64", 1, 1, 2, 4, (1, 2, 3), struct.pack("<4q", 1, 3, -2, 4)), mid=16, reply=1)
    yield "result_stats", "stats of the u8 elements 0 2 4", message(
        REDUCE, result("u64", 1, 1, 1, 3, (1, 2, 3), oracle.reduce("stats", "u8", oracle.bits_of("u8", b"\0\2\4")).to_bytes(96, "little")), mid=17, reply=1)
    yield "reduce_wrap", "prod of i16 from no states, wrap, initial -1", message(
        REDUCE, spec("prod", "i16", flags=STATES_IN, wrap=True, initial=0xFFFF), mid=18)
    yield "begin_mask", "mean of u16 with a mask, initial 7", message(BEGIN, spec("mean", "u16", flags=MASK, initial=7), mid=19)
    yield "append_mask", "stream 10, offset 0, the elements 5 and 6, of which the second is left out", message(
        APPEND, struct.pack("<QQHHBB", 10, 0, 5, 6, 1, 0), mid=20)
    yield "reduce_at", "sum of 2 rows of 3 f32 at byte 128 of handle 2^63 + 1", message(
        REDUCE_AT, spec("sum", "f32", rows=2, row_len=3) + struct.pack("<QQQ", 2**63 + 1, 128, 24), mid=21)
    yield "reduce_at_masked", "version 2: sum of 2 rows of 3 f32 at byte 128 of handle 5, whose mask begins at byte 7 of handle 6", message(
        REDUCE_AT, spec("sum", "f32", rows=2, row_len=3, flags=MASK, tagged_len=32) + struct.pack("<QQQ", 5, 128, 24) + companion("mask", (6, 7)), mid=35,
        version=2)
    yield "reduce_at_beside", ("version 2: sums of the segments 0..2 and 2..3 of 3 f32 at byte 128 of handle 5, with mask 1 0 2 and offsets in the "
                               "message; 16 bytes of results go to byte 8 of handle 7"), message(
        REDUCE_AT, spec("sum", "f32", rows=2, row_len=3, flags=MASK | OFFSETS, tagged_len=64) + struct.pack("<QQQ", 5, 128, 12)
        + companion("mask") + companion("offsets") + result_at(7, 8, 16) + bytes([1, 0, 2]) + struct.pack("<3Q", 0, 2, 3), mid=38, version=2)
    yield "result_beside", "version 2: its reply, which has no cells", message(
        REDUCE_AT, struct.pack("<BBBBIQQQQQ", 12, 1, 5, 0, 8, 2, 3, 1, 2, 3), mid=38, reply=1, version=2)
    yield "reduce_resident_mask", "version 2: sum of the u8 elements 1 2 3, with a mask at byte 9 of handle 6", message(
        REDUCE, spec("sum", "u8", row_len=3, flags=MASK, tagged_len=32) + companion("mask", (6, 9), dtype="bool") + bytes([1, 2, 3]), mid=39, version=2)
    yield "reduce_at_apart", ("version 2: sums of 3 columns of 2 rows of f32 of a file, handle 5, the first at byte 128, the second 4096 "
                              "bytes behind it"), message(
        REDUCE_AT, spec("sum", "f32", rows=2, row_len=3, flags=COLUMNS, tagged_len=16) + struct.pack("<QQQ", 5, 128, 24) + stride_of(4096), mid=36,
        version=2)
    yield "reduce_weights", "version 2: wmean of the f32 elements 1 2 3 with the f64 weights 0.5 0.25 0 behind them; weights of 0 drop", message(
        REDUCE, spec(pairs.OPS["wmean"], "f32", row_len=3, flags=WEIGHTS, tagged_len=32) + companion("weights", data=True)
        + parameter("zero_weights_drop", 1) + struct.pack("<3f3d", 1, 2, 3, 0.5, 0.25, 0), mid=40, version=2)
    yield "reduce_keys", "version 2: sums of the u8 elements 1 2 4, masked 1 1 0, of 2 groups, by the i16 keys 1 -1 0 behind them; others are left out: 0 1", message(
        REDUCE, spec("sum", "u8", rows=2, row_len=3, flags=MASK | KEYS | DROP_OUTSIDE, tagged_len=16) + companion("keys", dtype="i16", data=True)
        + struct.pack("<3B3B3h", 1, 2, 4, 1, 1, 0, 1, -1, 0), mid=41, version=2)
    yield "reduce_at_keys", "version 2: max of 3 f32 at byte 128 of handle 5, of 2 groups, by u32 keys at byte 4 of handle 6", message(
        REDUCE_AT, spec("max", "f32", rows=2, row_len=3, flags=KEYS, tagged_len=32) + struct.pack("<QQQ", 5, 128, 12) + companion("keys", (6, 4)),
        mid=42, version=2)
    yield "reduce_claim", "version 2: sum of the u8 elements 1 2 3, from a client that claims 2^40 requests of 2^63 bytes", message(
        REDUCE, spec("sum", "u8", row_len=3, tagged_len=24) + claim_of(2**40, 2**63) + bytes([1, 2, 3]), mid=43, version=2)
    yield "result_at", "its reply, by file", message(REDUCE_AT, result("f64", 1, 4, 2, 6, (1, 2, 3), struct.pack("<2d", 1, 2)), mid=21, reply=1)
    yield "store", "1024 bytes of i16 as 'run-7.x', in place of what has the name, to live for 1500 ms", message(
        STORE, store("run-7.x", "i16", 1024, replace=True, ttl_ms=1500), mid=22)
    yield "store_shaped", "version 2: 96 bytes of f32 as 'f', of the shape 2 x 3 x 4 in Fortran order", message(
        STORE, store("f", "f32", 96, shape=(2, 3, 4), order=1), mid=30, version=2)
    yield "store_placed", "version 2: 8 bytes of f64 as 's', in equal parts on all devices", message(
        STORE, store("s", "f64", 8, place=1), mid=33, version=2)
    yield "listed_placed", "reply of list in version 2: 's' on all devices; 't', 2 elements in C order, on device 3", message(
        LIST, struct.pack("<QQQQIBBBB", 7, 8, 0, NO_INDEX, 0, 12, 1, 0, 1 << 2) + b"s"
        + struct.pack("<QQQQIBBBB", 8, 16, 0, NO_INDEX, 0, 12, 1, 1, 5 << 2) + b"t" + struct.pack("<Q", 2), mid=34, reply=1, version=2)
    yield "listed_shaped", "reply of list in version 2: 'f'; 'a' as before, without a shape", message(
        LIST, struct.pack("<QQQQIBBBB", 6, 96, 0, NO_INDEX, 0, 11, 1, 3, 1) + b"f" + struct.pack("<3Q", 2, 3, 4)
        + struct.pack("<QQQQIBBH", 5, 8, 2**40, NO_INDEX, 0, 12, 1, 0) + b"a", mid=31, reply=1, version=2)
    yield "stored", "reply of store: handle 2^63 + 2", message(STORE, struct.pack("<Q", 2**63 + 2), mid=22, reply=1)
    yield "write", "bytes 2 to 5 of it", message(WRITE, struct.pack("<QQ4s", 2**63 + 2, 2, b"wxyz"), mid=23)
    yield "written", "reply of write: 4 bytes so far", message(WRITE, struct.pack("<Q", 4), mid=23, reply=1)
    yield "write_at", "bytes 6 to 1023 of it from byte 128 of handle 2^63 + 1", message(
        WRITE_AT, struct.pack("<QQQQQ", 2**63 + 2, 6, 2**63 + 1, 128, 1018), mid=24)
    yield "written_at", "its reply: 1022 bytes so far", message(WRITE_AT, struct.pack("<Q", 1022), mid=24, reply=1)
    yield "commit", "handle 2^63 + 2", message(COMMIT, struct.pack("<Q", 2**63 + 2), mid=25)
    yield "committed", "reply of commit", message(COMMIT, mid=25, reply=1)
    yield "list", "all", message(LIST, mid=26)
    yield "list_one", "'run-7.x' alone", message(LIST, b"run-7.x", mid=27)
    yield "listed", "reply of list: 'run-7.x' of before after 500 ms, in use once; 'a', 8 bytes of f64, for ever", message(
        LIST, struct.pack("<QQQQIBBH", 2**63 + 2, 1024, 500, 1000, 1, 3, 7, 0) + b"run-7.x"
        + struct.pack("<QQQQIBBH", 5, 8, 2**40, NO_INDEX, 0, 12, 1, 0) + b"a", mid=26, reply=1)
    yield "drop", "'run-7.x'", message(DROP, b"run-7.x", mid=28)
    yield "dropped", "reply of drop", message(DROP, mid=28, reply=1)
    yield "error_overflow", "OVERFLOW in row 4, the value is -2^127", message(
        REDUCE, fault(0, 4, -2**127, b"out", b"the sum does not fit i64"), mid=12, reply=1, status=7)
    yield "error_busy", "BUSY, repeat after 20 ms, limit 64", message(
        APPEND, fault(64, NO_INDEX, 0, b"inflight", b"64 requests are under way"), mid=13, reply=1, status=11, time_ms=20)
    yield "error_bare", "INTERNAL without field and text", message(PING, fault(0, NO_INDEX, 0, b"", b""), mid=14, reply=1, status=20)


def packet(kind, *, status=0, value=0, size=0, token=None, more=b""):
    return struct.pack("<IIQ", kind, status, value) + (token or struct.pack("<QQ", size, 0)) + more


def packets():
    """(name, remark, descriptors that travel with it, bytes); names are known to tests/unit/test_packets.c."""
    handle, device = 2**63 + 1, bytes(range(64))
    yield "attach", "the session and the token of messages.txt", 0, packet(ATTACH, value=SESSION, token=bytes(range(0xA0, 0xB0)))
    yield "attached", "reply of attach", 0, packet(ATTACH)
    yield "refused", "reply of attach: AUTH, and the channel is closed", 0, packet(
        ATTACH, status=17, more=fault(0, NO_INDEX, 0, b"token", b"no session of this user waits for an fdpass channel"))
    yield "file", "a file, open for reading", 1, packet(FILE)
    yield "filed", "reply of file: handle 2^63 + 1, 12 bytes", 0, packet(FILE, value=handle, size=12)
    yield "arena", "5000 bytes", 0, packet(ARENA, value=5000)
    yield "arena_made", "reply of arena: handle 2^63 + 2, 8192 bytes: whole pages", 1, packet(ARENA, value=handle + 1, size=8192)
    yield "drop", "the arena; there is no reply", 0, packet(DROP_HANDLE, value=handle + 1)
    yield "device", "a cudaIpcMemHandle_t of bytes 0 to 63", 0, packet(DEVICE, more=device)
    yield "device_uuid", "the same, on the GPU 10111213-1415-1617-1819-1a1b1c1d1e1f", 0, packet(
        DEVICE, token=bytes(range(0x10, 0x20)), more=device)
    yield "device_opened", "reply of device: handle 2^63 + 3, 2 MiB", 0, packet(DEVICE, value=handle + 2, size=2 << 20)
    yield "device_fd", "an allocation of 2 MiB by cuMemExportToShareableHandle", 1, packet(DEVICE_FD, value=2 << 20)
    yield "device_fd_opened", "its reply: handle 2^63 + 4, 2 MiB", 0, packet(DEVICE_FD, value=handle + 3, size=2 << 20)


# One op of each layout, and arrays that have something of everything; element bits.
STATE_OPS = "sum min max argmin argmax count_nonzero prod minmax sumsq norm1 norminf var count_nan and or xor stats".split()
ARRAYS = {
    "i8": [[], [0x80, 0x7F, 0xFF], [0]], "u8": [[0xFF, 1, 0xFF]], "i16": [[0x8000, 0x7FFF, 0x8000]], "u16": [[0xFFFF] * 3],
    "i32": [[0x80000000] * 3], "u32": [[0, 5, 0xFFFFFFFF]], "i64": [[1 << 63] * 3, [2**63 - 1] * 3], "u64": [[2**64 - 1] * 3, []],
    "bool": [[], [0, 1, 2, 255, 3, 0], [255, 128]],
    "f16": [[], [0x0001, 0x8002, 0x3C00], [0x8000, 0x8000], [0x7C00, 0xFC00], [0xFE01, 0x3C00]],
    "bf16": [[0x0001, 0x7F7F], [0x8000, 0x0000], [0xFF80, 0x3F80], [0x7F81, 0x7FFF]],
    "f32": [[1, 0x80000002], [0x7F7FFFFF] * 2, [0x80000000], [0xFF800000, 0x3F800000], [0xFFC00001, 0x3F800000, 0xBF800000], [0x7FC00000],
            [0x40490FDB, 0xC02DF854, 0x3EB17218]],
    "f64": [[], [1, 0x8000000000000002], [0x7FEFFFFFFFFFFFFF] * 2, [1 << 63, 0], [0x7FF0000000000000, 0xFFF0000000000000],
            [0x3FF0000000000000, 0x7FF0000000000001, 0xBFF0000000000000], [0x400921FB54442D18, 0xC005BF0A8B145769, 0x3FE62E42FEFA39EF]],
}


def states():
    """(op, dtype, policy, index base, missing values, elements, state)"""
    for dtype, arrays in ARRAYS.items():
        for elements in arrays:
            data = b"".join(e.to_bytes(oracle.SIZE[dtype], "little") for e in elements)
            for op in STATE_OPS:
                base = 7 if op in ("argmin", "argmax", "stats") else 0
                e = oracle.Elements(dtype, oracle.bits_of(dtype, data), base)
                for nan in ("propagate", "omit") if e.nans else ("propagate",):
                    if op in oracle.ops(dtype):
                        yield op, dtype, nan, base, 0, data, oracle.state(e, op, nan)
        for op in oracle.ops(dtype):
            if op in STATE_OPS:
                e = oracle.Elements(dtype, oracle.bits_of(dtype, data), missing=3)
                yield op, dtype, "omit", 0, 3, data, oracle.state(e, op, "omit")


def states_of_pairs():
    """(op, dtype, dtype of the weights, policy, whether weights of 0 drop, elements, weights, state)"""
    for dtype, arrays in ARRAYS.items():
        for i, elements in enumerate(arrays):
            for other in (elements, arrays[i - 1]):
                n = min(len(elements), len(other))
                x, w = (oracle.bits_of(dtype, b"".join(e.to_bytes(oracle.SIZE[dtype], "little") for e in a[:n])) for a in (elements, other))
                for op, nan, drop in (("dot", "propagate", False), ("wmean", "propagate", False), ("wmean", "omit", True)):
                    yield op, dtype, dtype, nan, drop, x, w, pairs.state(op, dtype, x, w, nan=nan, drop=drop)
            op, nan = pairs.COMOMENTS[i % 2], ("propagate", "omit")[i // 2 % 2]  # whose states are long
            yield op, dtype, dtype, nan, False, x, w, pairs.state(op, dtype, x, w, nan=nan)
    x, w = oracle.bits_of("f32", struct.pack("<3f", 1.5, -2, 2**-149)), oracle.bits_of("f64", struct.pack("<3d", 0.1, 0, 2**-1074))
    for op in ("dot", "wmean", *pairs.COMOMENTS):
        yield op, "f32", "f64", "propagate", False, x, w, pairs.state(op, "f32", x, w, "f64")


def order_statistics():
    """(op, dtype, policy, parts, elements, cell or the name of the error)"""
    asked = [("median", {}, b""), *(("kth", {"k": k}, parameter("k", k)) for k in (0, -1, 2)),
             *((op, {"k": k}, parameter("k", k)) for op in order.TOP for k in (1, 4)),
             *(("histogram", {"edges": e}, parameter("edges", *e)) for e in ((-1.0, 1.0), (-float("inf"), -0.0, 5e-324, 1e38, 1e38)))]
    for code, method in enumerate(order.METHODS):
        q = [(0, 0), (1, -1), (25, -2), (5, -1), (1, 0)]
        asked.append(("quantile", {"q": [F(digits) * F(10) ** e for digits, e in q], "method": method}, parameter("q", *q) + (parameter("method", code) if code else b"")))
    for dtype, arrays in ARRAYS.items():
        for elements in arrays:
            data = b"".join(e.to_bytes(oracle.SIZE[dtype], "little") for e in elements)
            bits = oracle.bits_of(dtype, data)
            for op, p, parts in asked if dtype in ("i8", "u64", "f16", "f32", "f64") else asked[:9]:
                for nan in ("propagate", "omit", "error") if oracle.Elements(dtype, bits).nans else ("propagate",):
                    try:
                        yield op, dtype, nan, parts, data, order.cell(op, dtype, bits, nan=nan, **p).hex()
                    except oracle.Fault as e:
                        yield op, dtype, nan, parts, data, e.name


def texts():
    out = ["# Golden order statistics: `op dtype nan parts elements cell`, of the default type; parts and elements in hex, `-` for none; the cell",
           "# in hex, or the name of the error. Written by generate.py."]
    for op, dtype, nan, parts, data, cell in order_statistics():
        out.append(f"{order.OPS[op]} {oracle.DTYPES[dtype]} {oracle.NANS[nan]} {parts.hex() or '-'} {data.hex() or '-'} {cell}")
    yield "order.txt", "\n".join(out) + "\n"
    out = ["# Golden messages of protocol version 1: `name hex`. Written by generate.py."]
    for name, remark, data in messages():
        out += [f"# {name}: {remark}", f"{name} {data.hex()}"]
    yield "messages.txt", "\n".join(out) + "\n"
    out = ["# Golden packets of the fdpass socket: `name descriptors hex`. Written by generate.py."]
    for name, remark, descriptors, data in packets():
        out += [f"# {name}: {remark}", f"{name} {descriptors} {data.hex()}"]
    yield "packets.txt", "\n".join(out) + "\n"
    out = ["# Golden partial states: `op dtype nan index_base missing elements state`; missing: how many values", "# are missing; elements and state in hex, `-` for none. Written by generate.py."]
    for op, dtype, nan, base, missing, data, state in states():
        out.append(f"{oracle.OPS[op]} {oracle.DTYPES[dtype]} {oracle.NANS[nan]} {base} {missing} {data.hex() or '-'} {state.hex()}")
    yield "states.txt", "\n".join(out) + "\n"
    out = ["# Golden partial states of pairs: `op dtype weights nan drop elements weights state words`; drop: weights of 0 leave out their element;",
           "# elements, weights and state in hex, `-` for none; words in decimal. Written by generate.py."]
    for op, dtype, wtype, nan, drop, x, w, state in states_of_pairs():
        out.append(f"{pairs.OPS[op]} {oracle.DTYPES[dtype]} {oracle.DTYPES[wtype]} {oracle.NANS[nan]} {drop:d} {x.tobytes().hex() or '-'} "
                   f"{w.tobytes().hex() or '-'} {state.hex()} {','.join(map(str, pairs.words(state)))}")
    yield "pairs.txt", "\n".join(out) + "\n"
    out = ["# Golden words: `op dtype added state words`; state in hex, words in decimal: `added` of them are added, the others joined by maximum.",
           "# Written by generate.py."]
    for op, dtype, *_, state in states():
        words, added = oracle.words(op, dtype, state)
        if words:
            out.append(f"{oracle.OPS[op]} {oracle.DTYPES[dtype]} {added} {state.hex()} {','.join(map(str, words))}")
    yield "words.txt", "\n".join(out) + "\n"


def main():
    stale = []
    for name, text in texts():
        path = HERE / name
        if sys.argv[1:] == ["--check"]:
            if not path.exists() or path.read_text() != text:
                stale.append(name)
        else:
            path.write_text(text)
    if stale:
        sys.exit(f"differs from what generate.py writes: {', '.join(stale)}")


if __name__ == "__main__":
    main()
