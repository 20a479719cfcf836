"""What every reduction means, in exact Python integers: the judge of the property tests. Written from PROTOCOL.md,
"Reductions"; shares nothing with the code under test. Elements are raw bits (numpy unsigned arrays)."""
import struct
from typing import NamedTuple

import numpy as np

OPS = {"sum": 1, "min": 2, "max": 3, "argmin": 4, "argmax": 5, "count_nonzero": 6}
DTYPES = {"i8": 1, "u8": 2, "i16": 3, "u16": 4, "i32": 5, "u32": 6, "i64": 7, "u64": 8, "f16": 9, "bf16": 10, "f32": 11, "f64": 12}
NANS = {"propagate": 0, "omit": 1, "error": 2}
SIZE = {"i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}


class Format(NamedTuple):
    fraction: int  # bits
    bias: int
    width: int


FLOATS = {"f16": Format(10, 15, 16), "bf16": Format(7, 127, 16), "f32": Format(23, 127, 32), "f64": Format(52, 1023, 64)}
SIGNED = {"i8", "i16", "i32", "i64"}
UNIT = 1200  # exact values are integers in units of 2^-1200, below every last place of every format


class Fault(Exception):
    """The reduction's own error: EMPTY, OVERFLOW (with the value) or NAN."""

    def __init__(self, name, value=0):
        super().__init__(name, value)
        self.name, self.value = name, value


def unsigned(dtype):
    return np.dtype(f"<u{SIZE[dtype]}")


def bits_of(dtype, raw):
    return np.frombuffer(raw, unsigned(dtype))


def default_out(op, dtype):
    if op.startswith("arg") or op == "count_nonzero":
        return "u64"
    return "f64" if dtype in FLOATS else "i64" if dtype in SIGNED else "u64"


def outs(op, dtype):
    """Every reply type that is allowed."""
    if op.startswith("arg") or op == "count_nonzero":
        return ["u64"]
    return list(FLOATS) if dtype in FLOATS else ["i64", "u64"]


def inf_bits(fmt):
    return (2 ** (fmt.width - 1 - fmt.fraction) - 1) << fmt.fraction


def nan_bits(fmt):
    return inf_bits(fmt) | 1 << (fmt.fraction - 1)


def round_units(units, fmt):
    """units x 2^-1200 to the nearest number of a format, ties to even: its bits. Zero gives +0."""
    sign = 1 << (fmt.width - 1) if units < 0 else 0
    units = abs(units)
    last = max(units.bit_length() - 1 - fmt.fraction, 1 - fmt.bias - fmt.fraction + UNIT)  # weight of the result's last place
    quotient, rest = units >> last, units & ((1 << last) - 1)
    half = 1 << (last - 1)
    quotient += rest > half or (rest == half and quotient & 1)
    place = last - UNIT + fmt.bias + fmt.fraction - 1  # 0 for subnormals; the hidden bit carries into the exponent field
    bits = (place << fmt.fraction) + quotient
    return sign | min(bits, inf_bits(fmt))


def units_of(bits, fmt):
    """One finite number as an integer in units of 2^-1200."""
    negative, magnitude = bits >> (fmt.width - 1), bits & (2 ** (fmt.width - 1) - 1)
    field, fraction = magnitude >> fmt.fraction, magnitude & (2**fmt.fraction - 1)
    value = (fraction | (1 << fmt.fraction if field else 0)) << (max(field, 1) - fmt.bias - fmt.fraction + UNIT)
    return -value if negative else value


def sum_units(bits, fmt):
    """The exact sum of finite numbers, in units. Grouped by exponent, so that long arrays take milliseconds."""
    total = 0
    for start in range(0, len(bits), 1 << 20):
        part = bits[start : start + (1 << 20)].astype(np.uint64)
        magnitude = part & np.uint64(2 ** (fmt.width - 1) - 1)
        field = (magnitude >> np.uint64(fmt.fraction)).astype(np.int64)
        significand = (magnitude & np.uint64(2**fmt.fraction - 1)) + ((field > 0).astype(np.uint64) << np.uint64(fmt.fraction))
        sign = np.where(part >> np.uint64(fmt.width - 1), -1.0, 1.0)
        for shift, mask in ((0, 2**27 - 1), (27, 2**27 - 1)):  # halves: 2^20 of them stay exact in a double
            half = ((significand >> np.uint64(shift)) & np.uint64(mask)).astype(np.float64) * sign
            for e, s in enumerate(np.bincount(field, half)):
                if s:
                    total += int(s) << (shift + max(e, 1) - fmt.bias - fmt.fraction + UNIT)
    return total


def order_key(bits, dtype):
    """An unsigned integer per element whose order is that of the values, -0 < +0. Not for NaNs."""
    width = 8 * SIZE[dtype]
    wide = bits.astype(np.uint64)
    sign = np.uint64(1 << (width - 1))
    if dtype in FLOATS:
        return np.where(wide & sign, ~wide & np.uint64(2**width - 1), wide | sign)
    return wide ^ sign if dtype in SIGNED else wide


def is_nan(bits, dtype):
    fmt = FLOATS[dtype]
    return (bits & unsigned(dtype).type(2 ** (fmt.width - 1) - 1)) > unsigned(dtype).type(inf_bits(fmt))


def to_out(value, out):
    """An exact integer in a 64-bit reply type."""
    low, high = (-(2**63), 2**63) if out == "i64" else (0, 2**64)
    if not low <= value < high:
        raise Fault("OVERFLOW", value)
    return value % 2**64


def convert(bits, dtype, out):
    """One float element in another float format, bits to bits."""
    a, b = FLOATS[dtype], FLOATS[out]
    sign, magnitude = bits >> (a.width - 1), bits & (2 ** (a.width - 1) - 1)
    if magnitude > inf_bits(a):
        return nan_bits(b)
    if magnitude == inf_bits(a):
        return sign << (b.width - 1) | inf_bits(b)
    return round_units(units_of(bits, a), b) | sign << (b.width - 1)


def float_sum(bits, dtype, out):
    fmt, target = FLOATS[dtype], FLOATS[out]
    if is_nan(bits, dtype).any():
        return nan_bits(target)
    plus, minus = (bits == inf_bits(fmt)).any(), (bits == inf_bits(fmt) | 1 << (fmt.width - 1)).any()
    if plus or minus:
        return nan_bits(target) if plus and minus else inf_bits(target) | (1 << (target.width - 1) if minus else 0)
    if len(bits) and (bits == 1 << (fmt.width - 1)).all():
        return 1 << (target.width - 1)
    return round_units(sum_units(bits, fmt), target)


def int_values(bits, dtype):
    return bits.view(f"<{'i' if dtype in SIGNED else 'u'}{SIZE[dtype]}")


def int_sum(bits, dtype):
    """Exact: halves of 32 bits add up in 64 for 2^31 elements."""
    values = int_values(bits, dtype)
    if SIZE[dtype] < 8:
        return int(values.sum(dtype=np.int64 if dtype in SIGNED else np.uint64))
    low, high = values.astype(np.uint64) & np.uint64(2**32 - 1), values >> values.dtype.type(32)
    return int(low.sum(dtype=np.uint64)) + (int(high.sum(dtype=high.dtype)) << 32)


def reduce(op, dtype, bits, nan="propagate", out=None, index_base=0):
    """The bits of the reply's value; raises Fault."""
    out = out or default_out(op, dtype)
    indexes = np.arange(len(bits))
    if dtype in FLOATS:
        nans = is_nan(bits, dtype)
        if nan == "error" and nans.any():
            raise Fault("NAN")
        if nan == "omit":
            bits, indexes = bits[~nans], indexes[~nans]
    if op == "sum":
        return float_sum(bits, dtype, out) if dtype in FLOATS else to_out(int_sum(bits, dtype), out)
    if op == "count_nonzero":
        zero = bits & unsigned(dtype).type(2 ** (8 * SIZE[dtype] - 1) - 1) if dtype in FLOATS else bits
        return int(np.count_nonzero(zero))
    if not len(bits):
        raise Fault("EMPTY")
    nans = is_nan(bits, dtype) if dtype in FLOATS else np.zeros(len(bits), bool)
    key = order_key(bits, dtype)
    at = int(nans.argmax() if nans.any() else key.argmin() if op.endswith("min") else key.argmax())
    if op.startswith("arg"):
        return int(indexes[at]) + index_base
    if dtype in FLOATS:
        return convert(int(bits[at]), dtype, out)
    return to_out(int(int_values(bits, dtype)[at]), out)


def reduce_or_fault(*args, **kw):
    """('OK', bits), or (name, exact value)."""
    try:
        return "OK", reduce(*args, **kw)
    except Fault as f:
        return f.name, f.value


def value_text(bits, out):
    """As reducectl prints it by default: the shortest decimal that reads back to the same bits."""
    if out == "i64":
        return str(bits - 2**64 if bits >> 63 else bits)
    if out == "u64":
        return str(bits)
    return str(float_value(bits, out))


def float_value(bits, dtype):
    """As a Python float, exact for every format."""
    return struct.unpack("<d", struct.pack("<Q", convert(bits, dtype, "f64")))[0]
