"""Cases of other projects' suites, and what other projects have got wrong, through the daemon. Judges: Python's math.fsum and
Fraction, and values that can be seen by hand."""
import math
import struct
import unittest
from fractions import Fraction

import numpy as np
import pytest

import gens
import oracle
from rawclient import STATES_IN, STATES_OUT

MAX = struct.unpack("<d", struct.pack("<Q", 0x7FEFFFFFFFFFFFFF))[0]  # the largest double
TINY = 5e-324
INF = math.inf


def doubles(values):
    return struct.pack(f"<{len(values)}d", *values)


def bits(value):
    return struct.pack("<d", value)


def three_ways(conn, values):
    """The sum of doubles whole, as a stream in two chunks, and of three shards merged; they must agree."""
    data, n = doubles(values), len(values)
    whole = conn.reduce("sum", "f64", data).cells[0]
    third = 8 * (n // 3)
    states = [conn.reduce("sum", "f64", part, flags=STATES_OUT).cells[0] for part in (data[:third], data[third : 2 * third], data[2 * third :])]
    assert conn.reduce("sum", "f64", states[2] + states[0] + states[1], flags=STATES_IN).cells == [whole]
    stream = conn.begin("sum", "f64")
    for a, b in ((third, n * 8), (0, third)):
        if a < b:
            conn.append(stream, a // 8, data[a:b])
    assert conn.finish(stream, n).cells == [whole]
    return struct.unpack("<d", whole)[0]


# ---- CPython: Lib/test/test_math.py ----
def test_fsum_of_cpython(shared, monkeypatch):
    """Its testFsum with math.fsum replaced by the daemon: fixed cases, a telescoping one, 1000 random arrays."""
    suite = pytest.importorskip("test.test_math", reason="needs the package libpython3.*-testsuite")
    calls = 0
    with shared.connect() as conn:

        def fsum(values):
            nonlocal calls
            calls += 1
            values = [math.ldexp(v, 0) for v in values]  # what has __float__; else TypeError, as of math.fsum
            got = three_ways(conn, values)
            if math.isinf(got) and not any(map(math.isinf, values)):
                raise OverflowError("as math.fsum does")
            if math.isnan(got) and not any(map(math.isnan, values)):
                raise ValueError("as math.fsum does")
            return got

        monkeypatch.setattr(math, "fsum", fsum)
        result = unittest.TestResult()
        suite.MathTests("testFsum").run(result)
    assert result.testsRun == 1 and not result.skipped and calls > 1000
    assert result.wasSuccessful(), (result.errors + result.failures)[0][1]


# ---- TC39 Math.sumPrecise: what breaks implementations near overflow ----
@pytest.mark.parametrize("values, total", [
    ([MAX, 2.0**969], MAX), ([MAX, 2.0**970], INF), ([MAX, 2.0**970, -TINY], MAX), ([MAX, 2.0**970, TINY], INF), ([-MAX, -(2.0**970)], -INF),
    ([MAX, math.nextafter(2.0**970, 0)], MAX), ([MAX, MAX, -MAX], MAX), ([MAX] * 4 + [-MAX] * 3, MAX), ([MAX] * 4 + [-MAX] * 4, 0.0),
    ([MAX, MAX, -MAX, -MAX, TINY], TINY), ([2.0**1023, 2.0**1023, -(2.0**1023)], 2.0**1023), ([2.0**1023, 2.0**1023], INF),
    ([MAX, 2.0**971, -(2.0**971)], MAX), ([1e308, 1e308, -1e308, 0.1], 1e308), ([1e308, -1e308, 0.1, 0.1], 0.2), ([1e30, 0.1, -1e30], 0.1),
    ([2.0**1023, -(2.0**970), 2.0**1023, -(2.0**970)], MAX), ([2.0**53, 1.0, 1.0], 2.0**53 + 2), ([2.0**53, 1.0], 2.0**53), ([2.0**53 + 2, 1.0], 2.0**53 + 4),
    ([2.0**53, 1.0, TINY], 2.0**53 + 2), ([2.0**53 + 2, 1.0, -TINY], 2.0**53 + 2), ([TINY, -TINY], 0.0), ([TINY, TINY], 2 * TINY),
    ([2.0**-1022, -TINY], 2.0**-1022 - TINY), ([INF, 1.0], INF), ([MAX, MAX, -INF], -INF), ([-0.0, -0.0], -0.0), ([-0.0, 0.0], 0.0), ([], 0.0),
])
def test_sums_at_the_edges(shared, values, total):
    with shared.connect() as conn:
        for order in (values, values[::-1], sorted(values), sorted(values, key=abs)):
            assert bits(three_ways(conn, order)) == bits(total), order
            if total:
                assert bits(three_ways(conn, [-v for v in order])) == bits(-total), order


# ---- NumPy: sums of many equal numbers, with exact equality ----
@pytest.mark.parametrize("dtype, code", [("f16", "e"), ("f32", "f"), ("f64", "d")])
@pytest.mark.parametrize("n", [1, 7, 127, 128, 129, 500, 1024, 1235])
def test_stability_of_equal_numbers(shared, dtype, code, n):
    """ones(500) / 10 and arange(n), in every float type: the exact sum of what the type really holds."""
    with shared.connect() as conn:
        for values in ([0.1] * n, [float(i) for i in range(1, n + 1)], [0.1 * i for i in range(n)]):
            data = struct.pack(f"<{n}{code}", *values)
            held = struct.unpack(f"<{n}{code}", data)
            exact = sum(map(Fraction, held))
            assert conn.reduce("sum", dtype, data).cells == [bits(exact.numerator / exact.denominator)]
            mean = exact / n
            assert conn.reduce("mean", dtype, data).cells == [bits(mean.numerator / mean.denominator)]


# ---- CUB: more than 2^31 elements that cancel ----
@pytest.mark.slow
def test_more_elements_than_31_bits_count(shared):
    """Counts, indexes and a sum of chunks of +i and -i past 2^31, in streams of 4 MiB chunks."""
    chunk = 4 << 20
    pieces = 2**31 // chunk + 1
    total = pieces * chunk
    half = np.arange(chunk // 2, dtype=np.int64).astype(np.int8)
    cancelling = np.concatenate([half, -half]).tobytes()  # -(-128) is -128 in 8 bits
    left = int(np.frombuffer(cancelling, np.int8).sum(dtype=np.int64))
    last = bytes(chunk - 1) + b"\x7f"
    with shared.connect() as conn:
        total_sum, largest = conn.begin("sum", "i8"), conn.begin("argmax", "i8")
        window = []
        for k in range(pieces):
            window += [conn.send_append(total_sum, k * chunk, cancelling), conn.send_append(largest, k * chunk, last if k == pieces - 1 else bytes(chunk))]
            while len(window) > 8:
                conn.wait(window.pop(0))
        for request in window:
            conn.wait(request)
        assert conn.finish(total_sum, total).cells == [struct.pack("<q", left * pieces)]
        assert conn.finish(largest, total).cells == [struct.pack("<Q", total - 1)]


# ---- ReproBLAS, ExBLAS: ill-conditioned data ----
@pytest.mark.parametrize("gen", [gens.ill_conditioned, gens.lognormal, gens.band, gens.cancel, gens.near_constant], ids=lambda g: g.__name__)
def test_ill_conditioned_sums(shared, gen):
    rng, compared = np.random.default_rng(40), 0
    with shared.connect() as conn:
        for n in (10, 1000, 30_000):
            for dtype in ("f64", "f32"):
                values = gen(rng, dtype, n).view(f"<f{oracle.SIZE[dtype]}").astype(np.float64).tolist()
                try:
                    expected = math.fsum(values)
                except OverflowError:  # math.fsum gives up where a partial sum overflows
                    continue
                assert bits(three_ways(conn, values)) == bits(expected), (n, dtype)
                compared += 1
    assert compared >= 4


# ---- what other projects' users have met ----
@pytest.mark.parametrize("op, values, kw, answer", [
    ("var", [1e15 + 4, 1e15 + 7, 1e15 + 13, 1e15 + 16], {"ddof": 1}, 30.0),  # all digits lost
    ("var", [1e200, 3e200], {}, INF), ("std", [2.0**600, 3 * 2.0**600], {}, 2.0**600),  # the squares overflow, the root does not
    ("std", [2.0**-600, 3 * 2.0**-600], {}, 2.0**-600),
    ("sem", [2.0**600, 3 * 2.0**600], {"ddof": 1}, 2.0**600), ("sem", [0.0, 0.0, 0.0, 2.0**-700], {"ddof": 1}, 2.0**-702),
    ("rms", [2.0**700, 7 * 2.0**700], {}, 5 * 2.0**700), ("rms", [2.0**-700, -7 * 2.0**-700], {}, 5 * 2.0**-700),
    ("norm2", [3 * 2.0**700, 4 * 2.0**700], {}, 5 * 2.0**700), ("norm2", [3 * 2.0**-700, 4 * 2.0**-700], {}, 5 * 2.0**-700),
    ("mean", [MAX, MAX], {}, MAX), ("mean", [MAX, MAX, MAX, -MAX], {}, MAX / 2), ("range", [-MAX, MAX], {}, INF), ("range", [-(2.0**1022), 2.0**1022], {}, 2.0**1023),
    ("var", [MAX, MAX], {}, 0.0), ("prod", [1e200, 1e200, 1e-200, 1e-200], {}, None), ("prod", [2.0**1000, 2.0**1000, 2.0**-1000, 2.0**-999], {}, 2.0),
    ("prod", [TINY] * 3 + [2.0**1000] * 3, {}, 2.0**-222), ("norm1", [MAX, -MAX], {}, INF), ("sumsq", [2.0**-537, 2.0**-537], {}, 2 * TINY),
])
def test_intermediate_results_cannot_overflow(shared, op, values, kw, answer):
    with shared.connect() as conn:
        (got,) = struct.unpack("<d", conn.reduce(op, "f64", doubles(values), **kw).cells[0])
        if answer is None:
            exact = math.prod(map(Fraction, values))
            answer = exact.numerator / exact.denominator
        assert got == answer


def test_sums_of_integers_do_not_wrap(shared):
    with shared.connect() as conn:
        assert conn.reduce("sum", "i8", b"\x7f" * 1000).cells == [struct.pack("<q", 127_000)]
        assert conn.reduce("mean", "i64", struct.pack("<2q", 2**63 - 1, 2**63 - 1)).cells == [bits(2.0**63)]
        assert conn.reduce("mean", "u64", struct.pack("<3Q", *[2**64 - 1] * 3)).cells == [bits(2.0**64)]
        assert conn.reduce("norm2", "i64", struct.pack("<q", -(2**63))).cells == [bits(2.0**63)]
        assert conn.reduce("std", "i64", struct.pack("<2q", -(2**63), 2**63 - 2)).cells == [bits(2.0**63 - 1)]
