"""Order statistics in exact fractions: the judge of their tests. Written from PROTOCOL.md, "Quantiles" and the two chapters behind it; shares
nothing with the code under test."""
from fractions import Fraction as F
from math import floor

import numpy as np

from oracle import FLOATS, SIGNED, SIZE, Fault, convert, inf_bits, int_values, is_nan, nan_bits, order_key, parts_of, round_quotient

OPS = {"median": 27, "quantile": 28, "kth": 29, "largest": 30, "smallest": 31, "histogram": 32}
TOP = ("largest", "smallest")
INDEXES = {"linear": lambda n, q: (n - 1) * q, "interpolated_inverted_cdf": lambda n, q: n * q - 1, "hazen": lambda n, q: n * q - F(1, 2),
           "weibull": lambda n, q: (n + 1) * q - 1, "median_unbiased": lambda n, q: (n + F(1, 3)) * q - F(2, 3),
           "normal_unbiased": lambda n, q: (n + F(1, 4)) * q - F(5, 8), "midpoint": lambda n, q: (n - 1) * q,
           "averaged_inverted_cdf": lambda n, q: n * q - 1, "lower": lambda n, q: (n - 1) * q, "higher": lambda n, q: (n - 1) * q,
           "nearest": lambda n, q: (n - 1) * q, "inverted_cdf": lambda n, q: n * q - 1, "closest_observation": lambda n, q: n * q - F(3, 2)}
METHODS = ("linear", "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased",
           "normal_unbiased", "lower", "higher", "midpoint", "nearest")  # by their codes
PICKS = {"lower", "higher", "nearest", "inverted_cdf", "closest_observation"}


def default_out(op, dtype, method="linear"):
    if op == "histogram":
        return "u64"
    if dtype in FLOATS or not (op in ("kth", *TOP) or method in PICKS and op == "quantile"):
        return "f64"
    return "i64" if dtype in SIGNED else "u64"


def place(method, n, q):
    """(j, g): the value is x[j] + g (x[j+1] - x[j]), or x[j+1] itself for g = 1."""
    h = INDEXES[method](n, q)
    if h < 0:
        return 0, F(0)
    if h >= n - 1:
        return n - 1, F(0)
    j = floor(h)
    g = h - j
    if method == "lower":
        g = F(0)
    elif method in ("higher", "inverted_cdf"):
        g = F(g > 0)
    elif method == "nearest":
        g = F(g > F(1, 2) or g == F(1, 2) and j % 2 == 1)
    elif method == "closest_observation":
        g = F(not (g == 0 and j % 2 == 1))
    elif method == "midpoint":
        g = F(g > 0, 2)
    elif method == "averaged_inverted_cdf":
        g = F(1) if g else F(1, 2)
    return j, g


def sort(dtype, bits, mask=None):
    """(bits of the elements in their order, NaNs)"""
    bits = bits if mask is None else bits[np.flatnonzero(mask)]
    nans = is_nan(bits, dtype) if dtype in FLOATS else np.zeros(len(bits), bool)
    bits = bits[~nans]
    if dtype == "bool":
        bits = int_values(bits, dtype)
    return bits[np.argsort(order_key(bits, dtype), kind="stable")], int(nans.sum())


def exact(bits, dtype):
    """A finite element."""
    if dtype not in FLOATS:
        return F(int(int_values(np.array([bits]), dtype)[0]))
    number, exponent = parts_of(int(bits), FLOATS[dtype])
    return F(number) * F(2) ** exponent


def element(bits, dtype, out):
    """An element as the reply's type, in its bits."""
    if dtype in FLOATS:
        return convert(int(bits), dtype, out)
    value = exact(bits, dtype)
    if out in FLOATS:
        return round_quotient(value.numerator, 1, 0, FLOATS[out])
    least, most = (-2**63, 2**63 - 1) if out == "i64" else (0, 2**64 - 1)
    if not least <= value <= most:
        raise Fault("OVERFLOW", int(value))
    return int(value) % 2**64


def between(a, b, g, dtype, out):
    if g == 0 or a == b:
        return element(a, dtype, out)
    if g == 1:
        return element(b, dtype, out)
    if dtype in FLOATS:
        inf = inf_bits(FLOATS[dtype])
        low, high = int(a) == inf | 1 << FLOATS[dtype].width - 1, int(b) == inf
        if low and high:
            return nan_bits(FLOATS[out])
        if low or high:
            return element(a if low else b, dtype, out)
    x, y = exact(a, dtype), exact(b, dtype)
    value = x + g * (y - x)
    return round_quotient(value.numerator, value.denominator, 0, FLOATS[out])


def top(op, dtype, bits, mask, nan, k, out):
    """The cell of largest or smallest."""
    nans = is_nan(bits, dtype) if dtype in FLOATS else np.zeros(len(bits), bool)
    kept = np.ones(len(bits), bool) if mask is None else mask != 0
    if nan == "error" and (nans & kept).any():
        raise Fault("NAN")
    x = int_values(bits, dtype).astype(bits.dtype) if dtype == "bool" else bits
    keys = [int(v) for v in order_key(x, dtype)]
    sign = -1 if op == "largest" else 1
    found = sorted((not nans[i], sign * keys[i] * (not nans[i]), i) for i in range(len(bits)) if kept[i] and not (nans[i] and nan == "omit"))[:k]
    missing = nan_bits(FLOATS[out]) if out in FLOATS else 0
    values = [nan_bits(FLOATS[out]) if nans[i] else element(x[i], dtype, out) for _, _, i in found] + [missing] * (k - len(found))
    cell = b"".join(v.to_bytes(SIZE[out], "little") for v in values)
    cell += bytes(-len(cell) % 8)
    return cell + b"".join(i.to_bytes(8, "little") for i in [i for _, _, i in found] + [2**64 - 1] * (k - len(found)))


def histogram(dtype, bits, mask, nan, edges):
    """The counts of a cell."""
    bits = bits if mask is None else bits[np.flatnonzero(mask)]
    counts, e = [0] * (len(edges) + 2), [F(x) if abs(x) < float("inf") else x for x in edges]
    for b in bits:
        if dtype in FLOATS and is_nan(np.array([b]), dtype)[0]:
            counts[-1] += 1
            continue
        inf = dtype in FLOATS and int(b) & ~(1 << FLOATS[dtype].width - 1) == inf_bits(FLOATS[dtype])
        x = exact(b, dtype) if not inf else float("-inf") if int(b) >> FLOATS[dtype].width - 1 else float("inf")
        if x < e[0]:
            counts[-3] += 1
        elif x > e[-1]:
            counts[-2] += 1
        else:
            counts[max(i for i in range(len(e) - 1) if e[i] <= x)] += 1
    if counts[-1] and nan == "error":
        raise Fault("NAN")
    return counts


def cell(op, dtype, bits, out=None, nan="propagate", mask=None, q=(), method="linear", k=0, edges=()):
    """The bytes of a cell. Raises Fault."""
    out = out or default_out(op, dtype, method)
    if op in TOP:
        return top(op, dtype, bits, mask, nan, k, out)
    words = histogram(dtype, bits, mask, nan, edges) if op == "histogram" else reduce(op, dtype, bits, out, nan, mask, q, method, k)
    return b"".join(v.to_bytes(SIZE[out], "little") for v in words)


def reduce(op, dtype, bits, out=None, nan="propagate", mask=None, q=(), method="linear", k=0):
    """The values of a cell, as bits of the reply's type. Raises Fault."""
    out = out or default_out(op, dtype, method)
    x, nans = sort(dtype, bits, mask)
    values = len(q) if op == "quantile" else 1
    if nans and nan == "error":
        raise Fault("NAN")
    if not len(x) or nans and nan == "propagate":
        if out not in FLOATS:
            raise Fault("EMPTY")
        return [nan_bits(FLOATS[out])] * values
    if op == "kth":
        k = k + len(x) if k < 0 else k
        if not 0 <= k < len(x):
            raise Fault("SHAPE")
        return [element(x[k], dtype, out)]
    places = [place(method, len(x), F(share)) for share in (q if op == "quantile" else (F(1, 2),))]
    return [between(x[j], x[min(j + 1, len(x) - 1)], g, dtype, out) for j, g in places]
