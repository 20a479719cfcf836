"""dot, wsum, wmean, cov and corr in exact fractions: the judge of their tests. Written from PROTOCOL.md, "Reductions"; shares nothing with the code
under test. Elements and weights are raw bits (numpy unsigned arrays)."""
from fractions import Fraction as F

import numpy as np

import oracle
from oracle import FLOATS, SIGNED, UNIT, Fault, inf_bits, int_values, is_nan, nan_bits, parts_of, round_quotient, round_root

OPS = {"dot": 33, "wsum": 34, "wmean": 35, "cov": 36, "corr": 37}
COMOMENTS = ("cov", "corr")
DROPPING = ("wsum", "wmean")  # which may leave out weights of 0
LAYOUTS = {("dot", "f32"): (28, 0, 10), ("dot", "f64"): (29, 0, 67), ("dot", "int"): (30, 0, 3),
           ("wmean", "f32"): (31, 6, 10), ("wmean", "f64"): (32, 34, 67), ("wmean", "int"): (33, 2, 3),
           ("cov", "f32"): (34, 6, 10, 6), ("cov", "f64"): (35, 34, 67, 34), ("cov", "int"): (36, 2, 3, 2),
           ("corr", "f32"): (37, 6, 10, 6, 10, 10), ("corr", "f64"): (38, 34, 67, 34, 67, 67), ("corr", "int"): (39, 2, 3, 2, 3, 3)}
# code; limbs of weights, of products, of elements, of their squares, of those of the weights


def default_out(op, dtype):
    return "f64" if op in ("wmean", *COMOMENTS) or dtype in FLOATS else "i64" if dtype in SIGNED else "u64"


def numbers(bits, dtype):
    """Each element as (integer, exponent), or "nan", "inf", "-inf"."""
    if dtype not in FLOATS:
        return [(int(v), 0) for v in int_values(bits, dtype)]
    fmt = FLOATS[dtype]
    found = []
    for b in map(int, bits):
        magnitude = b & (2 ** (fmt.width - 1) - 1)
        if magnitude >= inf_bits(fmt):
            found.append("nan" if magnitude > inf_bits(fmt) else "-inf" if b >> (fmt.width - 1) else "inf")
        else:
            found.append(parts_of(b, fmt))
    return found


def in_units(parts):
    """(integers, exponent): all numbers as multiples of one power of two, as sums of fractions take long; strings stay."""
    least = min((p[1] for p in parts if p[0] and not isinstance(p, str)), default=0)
    return [p if isinstance(p, str) else p[0] << (p[1] - least) if p[0] else 0 for p in parts], least


def sign_of(v):
    return {"inf": 1, "-inf": -1}.get(v) if isinstance(v, str) else (v > 0) - (v < 0)


class Sums:
    """What is left of the pairs: their number, sums, infinities."""

    def __init__(self, x, w, nan, drop, op):
        weighted = op == "wmean"
        (xs, unit), (ws, unit_of_weights) = in_units(x), in_units(w)
        self.count = products = weights = elements = squares = beside = 0
        self.special, self.skipped = 0, False
        for x, w in zip(xs, ws):
            if drop and w == 0:
                continue
            if "nan" in (x, w) and nan != "propagate":
                self.skipped = True
                continue
            self.count += 1
            finite = not isinstance(w, str)
            if finite and not isinstance(x, str):
                products += x * w
                weights += w
                elements += x
                squares += x * x
                beside += w * w
                continue
            product = 0 if "nan" in (x, w) else sign_of(x) * sign_of(w)
            self.special |= 3 if product == 0 or op in COMOMENTS or weighted and not finite else 1 if product > 0 else 2
            weights += w if finite else 0
        x_unit, w_unit = F(2) ** unit, F(2) ** unit_of_weights
        self.products, self.weights, self.elements = products * x_unit * w_unit, weights * w_unit, elements * x_unit
        self.squares, self.beside = squares * x_unit**2, beside * w_unit**2


def rounded(v, out):
    fmt = FLOATS[out]
    shift = max(0, fmt.fraction + 70 - v.numerator.bit_length() + v.denominator.bit_length())
    return round_quotient(v.numerator << shift, v.denominator, -shift, fmt)


def infinity(negative, out):
    fmt = FLOATS[out]
    return inf_bits(fmt) | negative << (fmt.width - 1)


def comoments(op, s, ddof, out):
    """The value of cov or corr."""
    n, fmt = s.count, FLOATS[out]
    if s.special or n <= ddof:
        return nan_bits(fmt)
    c = n * s.products - s.elements * s.weights
    if op == "cov":
        return rounded(F(c) / (n * (n - ddof)), out)
    both = (n * s.squares - s.elements**2) * (n * s.beside - s.weights**2)
    if both == 0:
        return nan_bits(fmt)
    v = F(c) ** 2 / both
    return round_root(v.numerator, v.denominator, 0, fmt) | (c < 0) << (fmt.width - 1)


def value(op, dtype, x, w, wtype=None, nan="propagate", out=None, drop=False, ddof=0):
    """The bits of the value; raises Fault."""
    out = out or default_out(op, dtype)
    s = Sums(numbers(x, dtype), numbers(w, wtype or dtype), nan, drop, op)
    if s.skipped and nan == "error":
        raise Fault("NAN")
    if out not in FLOATS:
        return oracle.to_out(int(s.products), out)
    if op in COMOMENTS:
        return comoments(op, s, ddof, out)
    p, q = s.products, s.weights
    if s.special == 3 or op == "wmean" and not s.special and p == q == 0:
        return nan_bits(FLOATS[out])
    if op != "wmean":
        return infinity(s.special == 2, out) if s.special else rounded(F(p), out)
    if s.special:
        return infinity((s.special == 2) != (q < 0), out)
    return infinity(p < 0, out) if q == 0 else rounded(F(p) / q, out)


def limbs(number, n):
    return (int(number) % 2 ** (64 * n)).to_bytes(8 * n, "little")


def state(op, dtype, x, w, wtype=None, nan="propagate", drop=False):
    """The bytes of the partial state."""
    kind = "f64" if wtype == "f64" else dtype
    code, *lengths = LAYOUTS["dot" if op == "wsum" else op, "f64" if kind == "f64" else "f32" if kind in FLOATS else "int"]
    s = Sums(numbers(x, dtype), numbers(w, wtype or dtype), nan, drop, op)
    unit = F(2) ** UNIT[kind]
    weights, products = (0 if s.special == 3 else s.weights * unit), (0 if s.special else s.products * unit**2)
    others = [0 if s.special else v for v in (s.elements * unit, s.squares * unit**2, s.beside * unit**2)]
    head = bytes([code, s.special, 0, s.skipped, oracle.DTYPES[kind], 0, 0, 0]) + s.count.to_bytes(8, "little")
    return head + b"".join(limbs(v, n) for v, n in zip((weights, products, *others), lengths))


def spread(w, extent, shape):
    """Weights of an extent for elements of (planes, rows, row_len): one for each element."""
    planes, rows, row_len = shape
    if extent == "row":
        w = w.reshape(1, 1, row_len)
    elif extent == "column":
        w = w.reshape(1, rows, 1)
    return np.broadcast_to(w.reshape(shape) if extent == "elements" else w, shape)


def words(data):
    """The words of a state."""
    code, dtype = data[0], data[4]
    special, nz, skipped, count = data[1], data[2], data[3], int.from_bytes(data[8:16], "little")
    tag = 512 + 16 * code + dtype
    found = [1, tag, tag * tag, *oracle.low_high(count, 2), skipped, nz, special & 1, special >> 1]
    at = 16
    for n in next(lengths for c, *lengths in LAYOUTS.values() if c == code):
        found += oracle.low_high(int.from_bytes(data[at : at + 8 * n], "little", signed=True), 2 * n) if n else []
        at += 8 * n
    return found
