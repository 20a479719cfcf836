"""kernels/exact/log2.h against logarithms to any precision, in integers, and products in fractions."""
import ctypes
import math
import random
import subprocess
import sys
from fractions import Fraction

import pytest

from conftest import ROOT

pytestmark = pytest.mark.unsanitized

EXPORTS = """
#include "kernels/exact/product_pair.h"
static void put(uint64_t *out, rk_u128 v) { out[0] = (uint64_t)v; out[1] = (uint64_t)(v >> 64); }
void fraction(uint64_t significand, uint64_t *out) { put(out, rk_log2_fraction(significand)); }
void exponential(const uint64_t *f, uint64_t *out) { put(out, rk_exp2_fraction((rk_u128)f[1] << 64 | f[0])); }
void add(uint64_t *acc, int dtype, uint64_t magnitude) { rk_log2_add(acc, rk_format_of(dtype), magnitude); }
uint64_t finish(const uint64_t *acc, int dtype) { return rk_exp2_round(acc, 0, rk_format_of(dtype)); }
void one(rk_product_pair *p) { *p = rk_pair_one(); }
void times(rk_product_pair *p, double y) { rk_pair_times(&p->high, &p->low, y); }
void normalise(rk_product_pair *p) { p->exponent += rk_pair_normalise(&p->high, &p->low); }
void join(rk_product_pair *a, const rk_product_pair *b) { rk_pair_join(a, *b); }
void significand(const rk_product_pair *p, uint64_t *out) { put(out, rk_pair_significand(p->high, p->low)); }
"""
WORK = 400  # fraction bits of log2_bits
F64 = 12


Wide = ctypes.c_uint64 * 2  # low, high


def number(wide):
    return wide[1] << 64 | wide[0]


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    d = tmp_path_factory.mktemp("product")
    (d / "exports.c").write_text(EXPORTS)
    subprocess.run(["gcc", "-std=c11", "-O2", "-shared", "-fPIC", f"-I{ROOT}", d / "exports.c", "-o", d / "exports.so"], check=True)
    loaded = ctypes.CDLL(str(d / "exports.so"))
    loaded.finish.restype = ctypes.c_uint64
    return loaded


def log2_bits(x, bits):
    """log2 of x from [1, 2) times 2^bits, rounded down: square; above 2 the next bit is 1."""
    y, log = x.numerator * 2**WORK // x.denominator, 0
    for _ in range(bits):
        y = y * y >> WORK
        log *= 2
        if y >> (WORK + 1):
            y >>= 1
            log += 1
    return log


def significands(rng):
    """The ends of each coarse interval and points inside, numbers whose rest for the fine step is largest, short ones."""
    for i in range(512):
        first = 2**52 + i * 2**43
        yield from (first, first + 2**43 - 1, *(first + rng.getrandbits(43) for _ in range(3)))
    for i in range(384):  # behind the coarse factor 1 the fine interval starts at i 2^-17, or ends there
        yield from (2**52 + i * 2**35, 2**52 + i * 2**35 + 2**35 - 1)
    for _ in range(500):
        bits = rng.choice((8, 11, 24))
        yield (2 ** (bits - 1) + rng.getrandbits(bits - 1)) << (53 - bits)


def test_logarithm(lib):
    out, worst, total, n = Wide(), 0.0, 0.0, 0
    for s in significands(random.Random(1)):
        lib.fraction(ctypes.c_uint64(s), out)
        assert number(out) < 2**112
        error = float(Fraction(number(out)) - Fraction(log2_bits(Fraction(s, 2**52), 140), 2**28))
        worst, total, n = max(worst, abs(error)), total + error, n + 1
        if s == 2**52:
            assert number(out) == 0
    assert worst < 0.87, f"{worst} units of 2^-112"
    assert abs(total / n) < 0.1, "the errors lean to one side"


def test_exponential(lib):
    rng = random.Random(2)
    out = Wide()
    for k in [0, 1, 2**64, 2**127, 2**128 - 1, *(rng.getrandbits(128) for _ in range(500))]:
        lib.exponential(Wide(k & 2**64 - 1, k >> 64), out)
        assert number(out) >= 2**127
        # what it lacks, as a difference of logarithms
        lack = k - log2_bits(Fraction(number(out), 2**127), 128)
        assert 0 <= lack < 2**8 * math.log2(math.e), hex(k)


@pytest.mark.parametrize("n", [1, 2, 10, 100, 3000])
def test_error_in_ulp(lib, n):
    rng = random.Random(n)
    for _ in range(40 if n < 1000 else 4):
        x = [math.ldexp(rng.uniform(0.7, 1.4), rng.randrange(-3, 4)) for _ in range(n)]
        exact, acc = math.prod(map(Fraction, x)), (ctypes.c_uint64 * 3)()
        for v in x:
            lib.add(acc, F64, ctypes.c_uint64(int.from_bytes(memoryview(bytearray(ctypes.c_double(v))), "little")))
        got = ctypes.c_double.from_buffer_copy(ctypes.c_uint64(lib.finish(acc, F64))).value
        if math.isinf(got):
            assert exact > Fraction(sys.float_info.max)
            continue
        error = abs(Fraction(got) - exact) / Fraction(math.ulp(got))
        assert error <= Fraction(1, 2) + Fraction(1, 2**53) + Fraction(n, 2**59)


class Pair(ctypes.Structure):
    _fields_ = (("high", ctypes.c_double), ("low", ctypes.c_double), ("exponent", ctypes.c_int64))

    def value(self):
        return (Fraction(self.high) + Fraction(self.low)) * Fraction(2) ** self.exponent


def factors(rng, n):
    """Significands from [1, 4): random ones, short ones, and those whose steps round off most."""
    edges = (math.nextafter(1, 2), math.nextafter(2, 1), math.nextafter(4, 3), 1 + 2**-27, 1.5)
    return [rng.choice(edges) if rng.random() < 0.3 else 1 + 3 * rng.getrandbits(50) / 2**50 for _ in range(n)]


@pytest.mark.parametrize("steps", [1, 7, 32])
def test_pair_keeps_its_bound(lib, steps):
    rng, u, worst = random.Random(steps), Fraction(1, 2**53), 0
    for _ in range(300):
        whole, exact, n = Pair(), Fraction(1), 0
        lib.one(ctypes.byref(whole))
        for _ in range(rng.choice((1, 2, 9))):
            part = Pair()
            lib.one(ctypes.byref(part))
            for y in factors(rng, steps):
                lib.times(ctypes.byref(part), ctypes.c_double(y))
                exact *= Fraction(y)
                n += 1
            lib.normalise(ctypes.byref(part))
            assert 1 <= part.high < 2 and abs(Fraction(part.low)) <= u * Fraction(part.high)
            lib.join(ctypes.byref(whole), ctypes.byref(part))
        error = abs(whole.value() / exact - 1) / u**2 / n
        worst = max(worst, error)
        cut = Wide()
        lib.significand(ctypes.byref(whole), cut)
        assert abs(Fraction(number(cut), 2**126) - Fraction(whole.high) - Fraction(whole.low)) < Fraction(1, 2**126)
    assert worst <= Fraction(steps + 3, 2) + 7, float(worst)


def test_table_is_what_its_generator_writes():
    subprocess.run([sys.executable, ROOT / "kernels/exact/log2_table.py", "--check"], check=True)
