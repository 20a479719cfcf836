"""The oracle against Python's own arithmetic: math.fsum, int, Fraction, Decimal, struct's narrowing, numpy's order."""
import decimal
import functools
import math
import operator
import statistics
import struct
from fractions import Fraction

import numpy as np
import pytest

import gens
import oracle
from oracle import FLOATS

pytestmark = pytest.mark.unsanitized


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


def fractions(bits, dtype):
    return [Fraction(m) * Fraction(2) ** e for m, e in (oracle.parts_of(int(b), FLOATS[dtype]) for b in bits)]


def test_grouped_sums_equal_one_by_one():
    rng = np.random.default_rng(2)
    for dtype in FLOATS:
        unit = Fraction(1, 2 ** oracle.UNIT[dtype])
        for gen in (gens.full_range, gens.subnormal, gens.cancel, gens.overflow_midway, gens.sparse):
            bits = gen(rng, dtype, 300)
            e, values = oracle.Elements(dtype, bits), fractions(bits, dtype)
            assert e.total * unit == sum(values)
            assert e.magnitudes * unit == sum(map(abs, values))
            assert e.squares * unit**2 == sum(v * v for v in values)


def nearest(value):
    """The double nearest to a Fraction: Python divides integers correctly rounded."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def root(value):
    """The double nearest to the root of a Fraction: 2000 digits, far beyond where a double's midpoint could hide."""
    with decimal.localcontext() as c:
        c.prec, c.Emax, c.Emin = 2000, decimal.MAX_EMAX, decimal.MIN_EMIN
        return float((decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator)).sqrt())


@pytest.mark.parametrize("gen", [gens.uniform, gens.full_range, gens.subnormal, gens.cancel, gens.overflow_midway, gens.constant, gens.near_constant,
                                 gens.small_numbers, gens.negative_zeros], ids=lambda g: g.__name__)
def test_real_ops_equal_fractions(gen):
    rng = np.random.default_rng(8)
    for dtype in FLOATS:
        for n in (1, 2, 3, 19):
            bits = gen(rng, dtype, n)
            values = fractions(bits, dtype)
            got = lambda op, **kw: oracle.float_value(oracle.reduce(op, dtype, bits, **kw), "f64")
            assert got("mean") == nearest(statistics.mean(values))
            assert got("norm1") == nearest(sum(map(abs, values)))
            assert got("sumsq") == nearest(sum(v * v for v in values))
            assert got("norm2") == root(sum(v * v for v in values))
            assert got("rms") == root(statistics.mean(v * v for v in values))
            assert got("norminf") == nearest(max(map(abs, values)))
            assert got("range") == nearest(max(values) - min(values))
            for ddof in (0, 1, len(values)):
                if len(values) == ddof:
                    assert math.isnan(got("var", ddof=ddof)) and math.isnan(got("std", ddof=ddof)) and math.isnan(got("sem", ddof=ddof))
                    continue
                variance = statistics.pvariance(values) * len(values) / (len(values) - ddof)
                assert got("var", ddof=ddof) == nearest(variance)
                assert got("std", ddof=ddof) == root(variance)
                assert got("sem", ddof=ddof) == root(variance / len(values))


def test_float_products_equal_fractions():
    """Products of few factors have few bits, and those the definition gives back exactly."""
    rng = np.random.default_rng(9)
    for dtype, most in (("f64", 2), ("f32", 4), ("f16", 9), ("bf16", 13)):
        for gen in (gens.uniform, gens.full_range, gens.band, gens.subnormal, gens.small_numbers):
            for n in range(1, most + 1):
                bits = gen(rng, dtype, n)[:n]
                true = math.prod(fractions(bits, dtype))
                assert oracle.float_value(oracle.reduce("prod", dtype, bits), "f64") == nearest(true), (dtype, bits.tolist())


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
    for gen in gens.of(dtype):
        bits = gen(rng, dtype, 57)
        values = [int(v) for v in oracle.int_values(bits, dtype)]
        product = math.prod(values)
        magnitudes = list(map(abs, values))
        exact = {"sum": sum(values), "min": min(values), "max": max(values), "range": max(values) - min(values), "sumsq": sum(v * v for v in values),
                 "norm1": sum(magnitudes), "norminf": max(magnitudes), "prod": product if abs(product) < 2**64 else oracle.MOST,
                 "and": functools.reduce(operator.and_, values), "or": functools.reduce(operator.or_, values), "xor": functools.reduce(operator.xor, values)}
        for out, low, high in (("i64", -(2**63), 2**63), ("u64", 0, 2**64)):
            for op, value in exact.items():
                expected = ("OK", value % 2**64) if low <= value < high else ("OVERFLOW", min(value, oracle.MOST))
                assert oracle.reduce_or_fault(op, dtype, bits, out=out) == expected, op
        assert oracle.reduce("prod", dtype, bits, wrap=True) == product % 2**64
        real = lambda op, **kw: oracle.float_value(oracle.reduce(op, dtype, bits, **kw), "f64")
        assert real("mean") == nearest(Fraction(sum(values), len(values))) and real("norm2") == root(Fraction(exact["sumsq"]))
        assert real("var", ddof=1) == nearest(Fraction(statistics.variance(map(Fraction, values))))
        assert real("std") == root(Fraction(statistics.pvariance(map(Fraction, values))))
        assert oracle.reduce("argmin", dtype, bits, index_base=9) == values.index(min(values)) + 9
        assert oracle.reduce("argmax", dtype, bits) == values.index(max(values))
        assert oracle.reduce("count_nonzero", dtype, bits) == sum(v != 0 for v in values)
        assert oracle.reduce("any", dtype, bits) == any(values) and oracle.reduce("all", dtype, bits) == all(values)
        assert oracle.reduce("count", dtype, bits) == len(values) and oracle.reduce("count_nan", dtype, bits) == 0


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
    for op in oracle.ops("f64"):
        assert run(op, 1.0, nan, nan="error") == ("NAN", 0)
    assert run("mean") == ("OK", 0x7FF8 << 48) and run("mean", -0.0, -0.0) == as_bits(-0.0) and run("mean", inf, 1.0) == as_bits(inf)
    assert run("var", 1.0, inf) == ("OK", 0x7FF8 << 48) and run("std", 3.0, ddof=1) == ("OK", 0x7FF8 << 48) and run("var", 3.0) == as_bits(0.0)
    assert run("norm2", -inf, 1.0) == as_bits(inf) and run("norm1", -0.0) == as_bits(0.0) and run("norminf", -3.0, -inf) == as_bits(inf)
    assert run("rms") == ("OK", 0x7FF8 << 48) and run("rms", -0.0) == as_bits(0.0) and run("rms", -inf, 1.0) == as_bits(inf)
    assert run("norm2") == as_bits(0.0) and run("sumsq", 1.0, nan) == ("OK", 0x7FF8 << 48)
    assert run("range", -inf, 1.0) == as_bits(inf) and run("range", inf, inf) == ("OK", 0x7FF8 << 48) and run("range", -0.0, 0.0) == as_bits(0.0)
    assert run("prod") == as_bits(1.0) and run("prod", -2.0, 0.0) == as_bits(-0.0) and run("prod", -2.0, -inf) == as_bits(inf)
    assert run("prod", 0.0, inf) == ("OK", 0x7FF8 << 48) and run("prod", 2.0**900, 2.0**900, 2.0**-900) == as_bits(2.0**900)
    assert run("count", 1.0, nan) == ("OK", 2) and run("count", 1.0, nan, nan="omit") == ("OK", 1) and run("count_nan", nan, nan, nan="omit") == ("OK", 2)
    assert run("any", nan) == ("OK", 1) and run("any", 0.0, nan, nan="omit") == ("OK", 0) and run("all") == ("OK", 1) and run("all", 1.0, -0.0) == ("OK", 0)
    assert run("min", 5.0, initial=int(f(-1.0)[0])) == as_bits(-1.0) and run("argmin", 5.0, initial=int(f(-1.0)[0])) == ("OK", oracle.NO_INDEX)
    assert run("argmin", 5.0, initial=int(f(5.0)[0]), index_base=4) == ("OK", 4)
    assert run("argmax", 9.0, 1.0, 3.0, mask=np.array([0, 1, 1])) == ("OK", 2) and run("min", 1.0, mask=np.array([0])) == ("EMPTY", 0)
    small = lambda *v: np.array(v, "<i1").view("<u1")
    assert oracle.reduce("and", "i8", small()) == 2**64 - 1 and oracle.reduce("and", "u8", small()) == 255 and oracle.reduce("or", "i8", small()) == 0
    words = oracle.reduce("stats", "i8", small(-1, 0, 4), index_base=10)
    assert [words >> 64 * i & 2**64 - 1 for i in range(10)] == [3, 0, 1, 10, 12, 2**64 - 1, 4, 3, 0, int(f(1.0)[0])]
