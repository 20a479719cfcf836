"""The oracle against Python's own arithmetic: math.fsum, int, struct's narrowing, numpy's order."""
import math
import struct

import numpy as np
import pytest

import gens
import oracle
from oracle import FLOATS


def doubles(bits, dtype):
    return [oracle.float_value(int(b), dtype) for b in bits]


@pytest.mark.parametrize("gen", gens.FLOAT_GENS, ids=lambda g: g.__name__)
def test_sums_equal_fsum(gen):
    rng = np.random.default_rng(1)
    compared = 0
    for dtype in FLOATS:
        for n in (1, 2, 7, 100):
            bits = gen(rng, dtype, n)
            values = doubles(bits, dtype)
            if not all(map(math.isfinite, values)):
                continue
            try:
                expected = math.fsum(values)
            except OverflowError:  # fsum gives up on intermediate overflow
                continue
            got = oracle.float_value(oracle.reduce("sum", dtype, bits), "f64")
            assert got == expected, (dtype, n, values)
            compared += 1
    assert compared or gen in (gens.all_nan, gens.specials)


def test_grouped_sum_equals_one_by_one():
    rng = np.random.default_rng(2)
    for dtype, fmt in FLOATS.items():
        for gen in (gens.full_range, gens.subnormal, gens.cancel, gens.overflow_midway):
            bits = gen(rng, dtype, 300)
            assert oracle.sum_units(bits, fmt) == sum(oracle.units_of(int(b), fmt) for b in bits)


@pytest.mark.parametrize("code, dtype", [("e", "f16"), ("f", "f32")])
def test_rounding_equals_struct(code, dtype):
    rng = np.random.default_rng(3)
    fmt = FLOATS[dtype]
    patterns = np.concatenate([gens.full_range(rng, "f64", 2000), gens.band(rng, "f64", 500), gens.gauss(rng, "f64", 500)])
    near = rng.integers(0, oracle.inf_bits(fmt) - 1, 3000)  # midpoints of neighbours, and one double beside them
    middle = [(oracle.float_value(int(b), dtype) + oracle.float_value(int(b) + 1, dtype)) / 2 for b in near]
    values = doubles(patterns, "f64") + middle + [math.nextafter(m, math.inf) for m in middle] + [math.nextafter(m, 0) for m in middle]
    for value in values:
        bits = oracle.convert(struct.unpack("<Q", struct.pack("<d", value))[0], "f64", dtype)
        try:
            expected = struct.pack(f"<{code}", value)
        except OverflowError:
            expected = struct.pack(f"<{code}", math.copysign(math.inf, value))
        assert bits.to_bytes(fmt.width // 8, "little") == expected, value


def test_bf16_is_the_upper_half_of_f32():
    rng = np.random.default_rng(4)
    for bits in map(int, gens.full_range(rng, "f32", 3000)):
        upper, rest = bits >> 16, bits & 0xFFFF
        expected = upper + (rest > 0x8000 or (rest == 0x8000 and upper & 1))
        assert oracle.convert(bits, "f32", "bf16") == expected


def test_every_f16_and_bf16_survives_f64():
    for dtype in ("f16", "bf16"):
        for bits in range(2**16):
            back = oracle.convert(oracle.convert(bits, dtype, "f64"), "f64", dtype)
            nan = bits & 0x7FFF > oracle.inf_bits(FLOATS[dtype])
            assert back == (oracle.nan_bits(FLOATS[dtype]) if nan else bits)


@pytest.mark.parametrize("dtype", [d for d in oracle.DTYPES if d not in FLOATS])
def test_integers_equal_python(dtype):
    rng = np.random.default_rng(5)
    for gen in gens.INT_GENS:
        bits = gen(rng, dtype, 57)
        values = [int(v) for v in oracle.int_values(bits, dtype)]
        total = sum(values)
        for out, low, high in (("i64", -(2**63), 2**63), ("u64", 0, 2**64)):
            for op, value in (("sum", total), ("min", min(values)), ("max", max(values))):
                expected = ("OK", value % 2**64) if low <= value < high else ("OVERFLOW", value)
                assert oracle.reduce_or_fault(op, dtype, bits, out=out) == expected
        assert oracle.reduce("argmin", dtype, bits, index_base=9) == values.index(min(values)) + 9
        assert oracle.reduce("argmax", dtype, bits) == values.index(max(values))
        assert oracle.reduce("count_nonzero", dtype, bits) == sum(v != 0 for v in values)


def test_order_of_floats():
    rng = np.random.default_rng(6)
    for dtype in FLOATS:
        bits = np.concatenate([gens.full_range(rng, dtype, 200), gens.zeros(rng, dtype, 20)])
        ordered = sorted(doubles(bits, dtype), key=lambda v: (v, math.copysign(1, v)))
        for op, expected in (("min", ordered[0]), ("max", ordered[-1])):
            got = oracle.float_value(oracle.reduce(op, dtype, bits), "f64")
            assert (got, math.copysign(1, got)) == (expected, math.copysign(1, expected))


def test_the_contract_by_hand():
    f = lambda *v: np.array(v, "<f8").view("<u8")
    nan, inf = math.nan, math.inf
    run = lambda op, *v, **kw: oracle.reduce_or_fault(op, "f64", f(*v), **kw)
    as_bits = lambda v: ("OK", int(f(v)[0]))
    assert run("sum") == as_bits(0.0) and run("sum", -0.0, -0.0) == as_bits(-0.0) and run("sum", -0.0, 0.0) == as_bits(0.0)
    assert run("sum", 1.0, -1.0) == as_bits(0.0)
    assert run("sum", inf, 1.0) == as_bits(inf) and run("sum", inf, -inf) == ("OK", 0x7FF8 << 48)
    assert run("sum", inf, -inf, nan="omit") == ("OK", 0x7FF8 << 48)
    assert run("sum", 1.0, nan, nan="omit") == as_bits(1.0) and run("sum", nan, nan="omit") == as_bits(0.0)
    assert run("sum", nan, -0.0, nan="omit") == as_bits(-0.0)
    assert run("min", 0.0, -0.0) == as_bits(-0.0) and run("max", -0.0, 0.0) == as_bits(0.0)
    assert run("min", 1.0, -nan) == ("OK", 0x7FF8 << 48)
    assert run("argmin", 0.0, -0.0, -0.0) == ("OK", 1) and run("argmax", 3.0, nan, 9.0, nan) == ("OK", 1)
    assert run("argmax", nan, 3.0, 3.0, nan="omit") == ("OK", 1)
    assert run("min") == ("EMPTY", 0) and run("argmax", nan, nan="omit") == ("EMPTY", 0)
    assert run("count_nonzero", 0.0, -0.0, nan, 2.0) == ("OK", 2) and run("count_nonzero", nan, nan="omit") == ("OK", 0)
    for op in oracle.OPS:
        assert run(op, 1.0, nan, nan="error") == ("NAN", 0)
