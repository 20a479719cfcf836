"""Arrays that reductions get wrong, as raw bits. Every array is a function of a seeded numpy Generator."""
import numpy as np

from oracle import FLOATS, SIGNED, SIZE, inf_bits, unsigned


def _pack(dtype, sign, field, fraction):
    fmt = FLOATS[dtype]
    bits = np.asarray(sign, np.uint64) << np.uint64(fmt.width - 1)
    bits = bits | np.asarray(field, np.uint64) << np.uint64(fmt.fraction) | np.asarray(fraction, np.uint64)
    return bits.astype(unsigned(dtype))


def _fields(dtype):
    fmt = FLOATS[dtype]
    return 2 ** (fmt.width - 1 - fmt.fraction) - 2  # the largest exponent field of a finite number


def _random(rng, dtype, n, low, high):
    """Random signs and fractions, exponent fields low..high."""
    fraction = rng.integers(0, 2 ** FLOATS[dtype].fraction, n, np.uint64)
    return _pack(dtype, rng.integers(0, 2, n), rng.integers(low, high + 1, n), fraction)


def _of_values(dtype, values):
    """Doubles truncated towards zero into a format: any nearby number will do."""
    wide = np.asarray(values, np.float64).view(np.uint64)
    if dtype == "f64":
        return wide.astype("<u8")
    fmt = FLOATS[dtype]
    field = (wide >> np.uint64(52) & np.uint64(2047)).astype(np.int64) - 1023 + fmt.bias
    fraction = (wide & np.uint64(2**52 - 1)) >> np.uint64(52 - fmt.fraction)
    fraction = np.where((field < 1) | (field > _fields(dtype)), np.uint64(1), fraction)
    return _pack(dtype, wide >> np.uint64(63), np.clip(field, 0, _fields(dtype)), fraction)


def _negated(dtype, bits):
    return bits ^ unsigned(dtype).type(1 << (FLOATS[dtype].width - 1))


def uniform(rng, dtype, n):
    return _of_values(dtype, rng.random(n))


def gauss(rng, dtype, n):
    return _of_values(dtype, rng.standard_normal(n))


def full_range(rng, dtype, n):
    return _random(rng, dtype, n, 0, _fields(dtype))


def band(rng, dtype, n):
    low = int(rng.integers(0, _fields(dtype)))
    return _random(rng, dtype, n, low, min(_fields(dtype), low + int(rng.integers(1, 90))))


def subnormal(rng, dtype, n):
    return _random(rng, dtype, n, 0, int(rng.integers(0, 2)))


def cancel(rng, dtype, n):
    """x and -x for all but a few: the sum is what is left over."""
    half = full_range(rng, dtype, max(1, n // 2))
    rest = full_range(rng, dtype, int(rng.integers(0, 3)))
    return rng.permutation(np.concatenate([half, _negated(dtype, half), rest]))


def overflow_midway(rng, dtype, n):
    """Partial sums leave the range, the sum does not."""
    top = _fields(dtype)
    half = _pack(dtype, 0, rng.integers(top - 2, top + 1, max(1, n // 2)), rng.integers(0, 2 ** FLOATS[dtype].fraction, max(1, n // 2), np.uint64))
    return np.concatenate([half, full_range(rng, dtype, 2), _negated(dtype, half)])


def overflow_edge(rng, dtype, n):
    """The largest number plus half its unit, give or take a speck: finite or infinite by one bit."""
    fmt, top = FLOATS[dtype], _fields(dtype)
    largest = _pack(dtype, 0, [top], [2**fmt.fraction - 1])
    half = _pack(dtype, 0, [top - fmt.fraction - 1], [0])
    speck = _pack(dtype, rng.integers(0, 2, 1), [int(rng.integers(0, 3))], [1])
    bits = np.concatenate([largest, half, speck] if rng.integers(0, 3) else [largest, half])
    return rng.permutation(_negated(dtype, bits) if rng.integers(0, 2) else bits)


def ties(rng, dtype, n):
    """An exact midpoint between two numbers, or one speck beside it; pairs that cancel around it."""
    fmt = FLOATS[dtype]
    field = int(rng.integers(fmt.fraction + 3, _fields(dtype)))
    parts = [_pack(dtype, 0, [field], rng.integers(0, 2**fmt.fraction, 1, np.uint64)), _pack(dtype, rng.integers(0, 2, 1), [field - fmt.fraction - 1], [0])]
    if rng.integers(0, 3):
        parts.append(_pack(dtype, rng.integers(0, 2, 1), [int(rng.integers(0, field - fmt.fraction - 1))], [1]))
    noise = full_range(rng, dtype, n // 4)
    bits = np.concatenate(parts + [noise, _negated(dtype, noise)])
    return rng.permutation(_negated(dtype, bits) if rng.integers(0, 2) else bits)


def narrowing_trap(rng, dtype, n):
    """Sums that round differently when they go through a wider format first."""
    fmt = FLOATS[dtype]
    field = int(rng.integers(fmt.bias - 5, fmt.bias + 5))
    keep = int(rng.integers(1, fmt.fraction))  # the midpoint of a format with `keep` fraction bits
    top = (int(rng.integers(0, 2**keep)) << (fmt.fraction - keep)) | 1 << (fmt.fraction - keep - 1)
    speck = _pack(dtype, rng.integers(0, 2, 1), [max(0, field - int(rng.integers(fmt.fraction + 1, 90)))], [1])
    bits = np.concatenate([_pack(dtype, 0, [field], [top]), speck])
    return _negated(dtype, bits) if rng.integers(0, 2) else bits


def lognormal(rng, dtype, n):
    scale = {"f64": 60, "f32": 12, "bf16": 12, "f16": 2}[dtype]
    return _of_values(dtype, np.exp(np.clip(rng.standard_normal(n) * scale, -11 * scale, 7 * scale)) * rng.choice([-1, 1], n))


def sparse(rng, dtype, n):
    bits = _pack(dtype, rng.integers(0, 2, n), np.zeros(n, np.uint64), np.zeros(n, np.uint64))
    at = rng.random(n) < 0.05
    bits[at] = gauss(rng, dtype, int(at.sum()))
    return bits


def negative_zeros(rng, dtype, n):
    return _pack(dtype, np.ones(n, np.uint64), 0, 0)


def zeros(rng, dtype, n):
    return _pack(dtype, rng.integers(0, 2, n), 0, 0)


def ladder(rng, dtype, n):
    return rng.permutation(_pack(dtype, np.arange(n) % 2, 1 + np.arange(n) * 7 % _fields(dtype), 0))


def specials(rng, dtype, n):
    """Infinities and NaNs with payloads, quiet and signalling, among numbers."""
    fmt = FLOATS[dtype]
    inf, sign = inf_bits(fmt), 1 << (fmt.width - 1)
    kinds = [[inf], [inf | sign], [inf, inf | sign], [inf | 1], [sign | inf | 1 << (fmt.fraction - 1) | 3], [inf | 5, inf], [inf | 1, sign | inf | 2]]
    bits = full_range(rng, dtype, n)
    for special in kinds[int(rng.integers(0, len(kinds)))]:
        bits = np.insert(bits, int(rng.integers(0, len(bits) + 1)), unsigned(dtype).type(special))
    return bits


def all_nan(rng, dtype, n):
    return _pack(dtype, rng.integers(0, 2, n), _fields(dtype) + 1, rng.integers(1, 2 ** FLOATS[dtype].fraction, n, np.uint64))


def constant(rng, dtype, n):
    return np.repeat(full_range(rng, dtype, 1), n)


def near_constant(rng, dtype, n):
    """One number and its neighbours: a variance of nothing but last places."""
    top = 2 ** (FLOATS[dtype].width - 1) - 1
    base = full_range(rng, dtype, 1).astype(np.uint64)
    return np.clip((base & np.uint64(top)) + rng.integers(0, 3, n, np.uint64), 0, inf_bits(FLOATS[dtype]) - 1).astype(unsigned(dtype)) | (
        base & np.uint64(top + 1)).astype(unsigned(dtype))


def ill_conditioned(rng, dtype, n):
    """Exponents spread evenly, and the second half takes back what the first has summed to, term by term: a sum near zero."""
    half = _random(rng, dtype, max(1, n // 2), 1, _fields(dtype))
    below = _random(rng, dtype, 1 + n // 8, 0, max(1, _fields(dtype) // 3))
    return np.concatenate([half, below, _negated(dtype, half[::-1])])


def pythagoras(rng, dtype, n):
    """3k and 4k, where 5k lies midway between two numbers; perhaps specks, whose squares are some 128 bits below theirs."""
    fmt = FLOATS[dtype]
    bits = fmt.fraction + 1
    k = int(rng.integers(2**bits // 5 + 1, 2**bits // 3 - 1)) | 1
    scale = int(rng.integers(2, _fields(dtype) - bits - 1))

    def pack(integer):
        place = integer.bit_length() - bits
        significand = integer >> place if place > 0 else integer << -place
        return _pack(dtype, rng.integers(0, 2, 1), [scale + bits + place], [significand - 2**fmt.fraction])

    speck = scale + bits - int(rng.integers(62, 67))
    specks = int(rng.choice([0, 1, 2, 2])) if speck > 0 else 0
    return rng.permutation(np.concatenate([pack(3 * k), pack(4 * k), _pack(dtype, 0, [max(speck, 0)] * specks, 0)]))


def one_speck(rng, dtype, n):
    bits = uniform(rng, dtype, max(1, n))
    bits[int(rng.integers(0, len(bits)))] = 1
    return bits


def small_numbers(rng, dtype, n):
    return _of_values(dtype, rng.integers(-3, 4, n).astype(np.float64))


FLOAT_GENS = [uniform, gauss, full_range, band, subnormal, cancel, overflow_midway, overflow_edge, ties, narrowing_trap, lognormal, sparse,
              negative_zeros, zeros, ladder, specials, all_nan, constant, near_constant, ill_conditioned, pythagoras, one_speck, small_numbers]


def any_bits(rng, dtype, n):
    return rng.integers(0, 2 ** (8 * SIZE[dtype]), n, np.uint64, endpoint=False).astype(unsigned(dtype)) if SIZE[dtype] < 8 else rng.integers(
        0, 2**64, n, np.uint64)


def extremes(rng, dtype, n):
    top = 2 ** (8 * SIZE[dtype]) - 1
    return rng.choice(np.array([0, 1, top, top >> 1, (top >> 1) + 1, top - 1], np.uint64), n).astype(unsigned(dtype))


def all_top(rng, dtype, n):
    """Every element the largest or smallest: sums overflow as soon as they can."""
    top = 2 ** (8 * SIZE[dtype]) - 1
    return np.full(n, [top, top >> 1, (top >> 1) + 1][int(rng.integers(0, 3))], np.uint64).astype(unsigned(dtype))


def small_ints(rng, dtype, n):
    return rng.integers(-2, 3, n).astype(np.int64).view(np.uint64).astype(unsigned(dtype))


def few_factors(rng, dtype, n):
    """Ones, of either sign where there are two, and some others: products that end about where 64 bits do."""
    bits = np.ones(n, np.int64) * (rng.choice([-1, 1], n) if dtype in SIGNED else 1)
    at = rng.permutation(n)[: int(rng.integers(0, 1 + 66 // (8 * SIZE[dtype])))]
    bits[at] = rng.integers(1, 2 ** min(62, 8 * SIZE[dtype] - 1), len(at))
    return bits.view(np.uint64).astype(unsigned(dtype))


def sum_edge(rng, dtype, n):
    """64-bit sums that end at, or one past, the ends of the reply types."""
    if SIZE[dtype] < 8:
        return any_bits(rng, dtype, n)
    pairs = any_bits(rng, dtype, n // 2)
    edge = rng.choice(np.array([2**63 - 1, 2**63, 2**64 - 1], np.uint64), 1)
    step = rng.choice(np.array([0, 1, 2**64 - 1], np.uint64), 1)
    return rng.permutation(np.concatenate([pairs, (~pairs) + np.uint64(1), edge, step])).astype("<u8")


def truths(rng, dtype, n):
    """Any bytes of bools, most of them false, or true."""
    return np.where(rng.random(n) < rng.choice([0, 0.01, 0.5, 0.99]), any_bits(rng, dtype, n) | unsigned(dtype).type(2), unsigned(dtype).type(0))


INT_GENS = [any_bits, extremes, all_top, small_ints, few_factors, sum_edge]


def of(dtype):
    return FLOAT_GENS if dtype in FLOATS else [*INT_GENS, truths] if dtype == "bool" else INT_GENS
