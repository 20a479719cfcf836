#!/usr/bin/env python3
"""Write the golden vectors: messages.txt and states.txt beside this file. Made from PROTOCOL.md alone, not from the codec.

    python3 tests/golden/generate.py           write the files
    python3 tests/golden/generate.py --check   exit 1 if they differ from what this would write

Both are lines of `name hex`; a `#` line before each says what it holds. A client in any language can check itself with them.
"""
import pathlib
import struct
import sys
from fractions import Fraction

HERE = pathlib.Path(__file__).parent
NONE64 = 2**64 - 1
SESSION = 0x0123456789ABCDEF

HELLO, PING, QUERY, REDUCE, BEGIN, APPEND, FINISH, ABORT = range(1, 9)
SUM, MIN, MAX, ARGMIN, ARGMAX, COUNT = range(1, 7)
I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64 = range(1, 13)


def message(kind, body=b"", session=SESSION, mid=1, reply=0, status=0, time_ms=0, version=1):
    return b"RDCE" + struct.pack("<BBHIIQQQ", version, kind, reply, status, time_ms, session, mid, len(body)) + body


def spec(op, dtype, out=0, nan=0, flags=0, rows=1, row_len=0, index_base=0):
    return struct.pack("<BBBB4xI4xQQQ24x", op, dtype, out, nan, flags, rows, row_len, index_base)


def hello(low, high, name):
    return struct.pack("<BBH4x", low, high, len(name)) + name


def welcome(server):
    return struct.pack("<B3xIIII4xQH6x", 1, 4194304, 1048576, 64, 32, SESSION, len(server)) + server


def entry(key, value):
    if isinstance(value, bytes):
        kind, data = 3, value
    elif isinstance(value, float):
        kind, data = 2, struct.pack("<d", value)
    else:
        kind, data = 1, struct.pack("<Q", value)
    return struct.pack("<BBH", kind, len(key), len(data)) + key + data


def result(dtype, backend, path, cells, count, times, body):
    return struct.pack("<BBBxIQQQQQ", dtype, backend, path, len(body) // cells, cells, count, *times) + body


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
    yield "ping", "time 8 bytes, no session", message(PING, bytes(range(8)), session=0, mid=NONE64)
    yield "pong", "reply of ping", message(PING, bytes(range(8)), session=0, mid=NONE64, reply=1)
    yield "query_info", "topic 1", message(QUERY, struct.pack("<I4x", 1), mid=3)
    yield "query_status", "topic 2", message(QUERY, struct.pack("<I4x", 2), mid=4)
    yield "entries", "reply of query: one entry of each kind", message(
        QUERY, entry(b"requests.reduce", 2**63 + 5) + entry(b"latency.p50", 0.125) + entry(b"device", b"Xeon"), mid=4, reply=1)
    yield "reduce", "sum of 3 f32 1.5 2.25 -0.5, defaults; PROTOCOL.md's example", message(REDUCE, spec(SUM, F32, row_len=3) + three, mid=2)
    yield "reduce_all", "every field of a spec: argmax, i16, out u64, omit, states in and out, 2 rows of 0, index base 2^60; deadline 1500 ms", message(
        REDUCE, spec(ARGMAX, I16, U64, 1, 3, 2, 0, 2**60), mid=5, time_ms=1500)
    yield "result", "reply of reduce: f64 3.25 from the CPU; PROTOCOL.md's example", message(
        REDUCE, result(F64, 1, 1, 1, 3, (1000, 0, 2000), struct.pack("<d", 3.25)), mid=2, reply=1)
    yield "result_rows", "two i64 cells -1 and 2", message(REDUCE, result(I64, 2, 1, 2, 2000, (1, 2, 3), struct.pack("<2q", -1, 2)), mid=6, reply=1)
    yield "result_state", "one state: count_nonzero of 2 u8 elements 0 7", message(
        REDUCE, result(0, 1, 1, 1, 2, (1, 2, 3), struct.pack("<BBBBB3xQQQ", 9, 0, 0, 0, U8, 2, 1, 0)), mid=7, reply=1)
    yield "begin", "max of f16 to f32, NaN is an error", message(BEGIN, spec(MAX, F16, F32, 2), mid=8)
    yield "begun", "reply of begin: stream 9", message(BEGIN, struct.pack("<Q", 9), mid=8, reply=1)
    yield "append", "stream 9, offset 2^40, two f16", message(APPEND, struct.pack("<QQ", 9, 2**40) + bytes.fromhex("003c00bc"), mid=9)
    yield "appended", "reply of append: 2 elements so far", message(APPEND, struct.pack("<Q", 2), mid=9, reply=1)
    yield "finish", "stream 9, 2^40 + 2 elements", message(FINISH, struct.pack("<QQ", 9, 2**40 + 2), mid=10)
    yield "finished", "reply of finish: f32 1.0", message(FINISH, result(F32, 2, 2, 1, 2**40 + 2, (7, 8, 9), struct.pack("<f", 1.0)), mid=10, reply=1)
    yield "abort", "stream 9", message(ABORT, struct.pack("<Q", 9), mid=11)
    yield "aborted", "reply of abort", message(ABORT, mid=11, reply=1)
    yield "error_overflow", "OVERFLOW in row 4, the value is -2^127", message(
        REDUCE, fault(0, 4, -2**127, b"out", b"the sum does not fit i64"), mid=12, reply=1, status=7)
    yield "error_busy", "BUSY, repeat after 20 ms, limit 64", message(
        APPEND, fault(64, NONE64, 0, b"inflight", b"64 requests are under way"), mid=13, reply=1, status=11, time_ms=20)
    yield "error_bare", "INTERNAL without field and text", message(PING, fault(0, NONE64, 0, b"", b""), mid=14, reply=1, status=20)


# ---- states: element bits -> state, by "Partial states" ----

WIDTH = {I8: 8, U8: 8, I16: 16, U16: 16, I32: 32, U32: 32, I64: 64, U64: 64, F16: 16, BF16: 16, F32: 32, F64: 64}
SIGNED = {I8, I16, I32, I64}
FRACTION = {F16: 10, BF16: 7, F32: 23, F64: 52}
BIAS = {F16: 15, BF16: 127, F32: 127, F64: 1023}
QUIET = {F16: 0x7E00, BF16: 0x7FC0, F32: 0x7FC00000, F64: 0x7FF8000000000000}


def value_of(dtype, bits):
    """The element as int, Fraction, or 'nan', 'inf', '-inf'."""
    width = WIDTH[dtype]
    if dtype not in FRACTION:
        return bits - 2**width if dtype in SIGNED and bits >> (width - 1) else bits
    low = FRACTION[dtype]
    negative, field, fraction = bits >> (width - 1), bits >> low & (2 ** (width - 1 - low) - 1), bits & (2**low - 1)
    if field == 2 ** (width - 1 - low) - 1:
        return "nan" if fraction else "-inf" if negative else "inf"
    significand = fraction + (2**low if field else 0)
    magnitude = Fraction(significand) * Fraction(2) ** (max(field, 1) - BIAS[dtype] - low)
    return -magnitude if negative else magnitude


def order_of(dtype, bits, least):
    """Sort key: larger is better. -0 < +0, NaN above all."""
    value = value_of(dtype, bits)
    if value == "nan":
        return (2, 0, 0)
    scale = {"inf": 1, "-inf": -1}.get(value, 0)
    number = 0 if scale else value
    sign = 0 if dtype in FRACTION and bits >> (WIDTH[dtype] - 1) else 1
    key = (scale, number, sign)
    return (1, *(-k for k in key)) if least else (1, *key)


def state_of(op, dtype, elements, nan=0, index_base=0):
    special = nz = skipped = count = total = number = 0
    best = None
    for i, bits in enumerate(elements):
        value = value_of(dtype, bits)
        if value == "nan" and nan:
            skipped = 1
            continue
        count += 1
        number += value != 0
        if dtype in FRACTION:
            nz |= bits != 1 << (WIDTH[dtype] - 1)
        if isinstance(value, str):
            special |= {"inf": 1, "-inf": 2, "nan": 3}[value]
        else:
            total += value
        key = order_of(dtype, bits, op in (MIN, ARGMIN))
        if best is None or key > best[0]:
            best = key, QUIET[dtype] if value == "nan" else bits, i + index_base
    if op == SUM and dtype in FRACTION:
        layout, n, unit = (2, 34, 1075) if dtype == F64 else (0, 6, 150)
        scaled = 0 if special else total * 2**unit
        assert scaled == int(scaled)
        limbs = [(int(scaled) >> (64 * i)) % 2**64 for i in range(n)]
    else:
        special = nz = 0
        if op == SUM:
            layout, limbs = 4, [total % 2**64, (total >> 64) % 2**64]
        elif op in (MIN, MAX):
            layout, limbs = 3 + op, [best[1] if best else 0, 0]
        elif op in (ARGMIN, ARGMAX):
            layout, limbs = 3 + op, [best[1], best[2]] if best else [0, NONE64]
        else:
            layout, limbs = 9, [number, 0]
    return struct.pack("<BBBBB3xQ", layout, special, nz, skipped, dtype, count) + struct.pack(f"<{len(limbs)}Q", *limbs)


def states():
    """(name, remark, bytes): `state_OP_DTYPE_NAN_BASE_CASE` then elements then state, each as its own line."""
    ops = {SUM: "sum", MIN: "min", MAX: "max", ARGMIN: "argmin", ARGMAX: "argmax", COUNT: "count_nonzero"}
    cases = {
        I8: [[], [0x80, 0x7F, 0xFF], [0]], U8: [[0xFF, 1, 0xFF]], I16: [[0x8000, 0x7FFF, 0x8000]], U16: [[0xFFFF] * 3],
        I32: [[0x80000000] * 3], U32: [[0, 5, 0xFFFFFFFF]], I64: [[1 << 63] * 3, [2**63 - 1] * 3], U64: [[2**64 - 1] * 3, []],
        F16: [[], [0x0001, 0x8002, 0x3C00], [0x8000, 0x8000], [0x7C00, 0xFC00], [0xFE01, 0x3C00]],
        BF16: [[0x0001, 0x7F7F], [0x8000, 0x0000], [0xFF80, 0x3F80], [0x7F81, 0x7FFF]],
        F32: [[1, 0x80000002], [0x7F7FFFFF] * 2, [0x80000000], [0xFF800000, 0x3F800000], [0xFFC00001, 0x3F800000, 0xBF800000], [0x7FC00000]],
        F64: [[], [1, 0x8000000000000002], [0x7FEFFFFFFFFFFFFF] * 2, [1 << 63, 0], [0x7FF0000000000000, 0xFFF0000000000000],
              [0x3FF0000000000000, 0x7FF0000000000001, 0xBFF0000000000000]],
    }
    for dtype, arrays in cases.items():
        for case, elements in enumerate(arrays):
            has_nan = any(value_of(dtype, e) == "nan" for e in elements)
            for op, name in ops.items():
                for nan in (0, 1) if has_nan else (0,):
                    base = 7 if op in (ARGMIN, ARGMAX) else 0
                    data = b"".join(e.to_bytes(WIDTH[dtype] // 8, "little") for e in elements)
                    yield f"{op} {dtype} {nan} {base}", name, data, state_of(op, dtype, elements, nan, base)


def texts():
    out = ["# Golden messages of protocol version 1: `name hex`. Written by generate.py."]
    for name, remark, data in messages():
        out += [f"# {name}: {remark}", f"{name} {data.hex()}"]
    yield "messages.txt", "\n".join(out) + "\n"
    out = ["# Golden partial states: `op dtype nan index_base elements state`; elements and state in hex, `-` for none. Written by generate.py."]
    for head, _, data, state in states():
        out.append(f"{head} {data.hex() or '-'} {state.hex()}")
    yield "states.txt", "\n".join(out) + "\n"


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
