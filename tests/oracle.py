"""What every reduction means, in exact Python integers: the judge of the tests. Written from PROTOCOL.md, "Reductions" and
"Partial states"; shares nothing with the code under test. Elements are raw bits (numpy unsigned arrays)."""
import decimal
import math
import operator
import struct
from typing import NamedTuple

import numpy as np

OPS = {name: code for code, name in enumerate(
    "sum min max argmin argmax count_nonzero prod minmax range mean sumsq norm1 norm2 norminf var std any all count count_nan "
    "and or xor stats rms sem".split(), 1)}
DTYPES = {name: code for code, name in enumerate("i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 bool".split(), 1)}
NANS = {"propagate": 0, "omit": 1, "error": 2}
SIZE = {"i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8,
        "bool": 1}
NO_INDEX = 2**64 - 1
MOST = 2**127 - 1  # the value of an OVERFLOW that is larger still


class Format(NamedTuple):
    fraction: int  # bits
    bias: int
    width: int


FLOATS = {"f16": Format(10, 15, 16), "bf16": Format(7, 127, 16), "f32": Format(23, 127, 32), "f64": Format(52, 1023, 64)}
SIGNED = {"i8", "i16", "i32", "i64"}
UNIT = {**dict.fromkeys(DTYPES, 0), "f16": 150, "bf16": 150, "f32": 150, "f64": 1075}  # sums are integers in units of 2^-UNIT

INDEX_OPS = {"argmin", "argmax"}
COUNT_OPS = INDEX_OPS | {"count", "count_nonzero", "count_nan", "any", "all"}  # replied as u64
REAL_OPS = {"mean", "norm2", "var", "std", "rms", "sem"}  # replied as a float, whatever the elements are
BIT_OPS = {"and", "or", "xor"}
CHOOSING_OPS = INDEX_OPS | {"min", "max", "minmax", "range"}  # of nothing: EMPTY


class Fault(Exception):
    """The reduction's own error: EMPTY, OVERFLOW (with the value) or NAN."""

    def __init__(self, name, value=0):
        super().__init__(name, value)
        self.name, self.value = name, value


# ---- types ----
def width(dtype):
    """Bits of an element's value."""
    return 1 if dtype == "bool" else 8 * SIZE[dtype]


def unsigned(dtype):
    return np.dtype(f"<u{SIZE[dtype]}")


def bits_of(dtype, raw):
    return np.frombuffer(raw, unsigned(dtype))


def ops(dtype):
    """Every op that the dtype has."""
    return [op for op in OPS if op not in BIT_OPS or dtype not in FLOATS]


def default_out(op, dtype):
    if op in COUNT_OPS:
        return "u64"
    return "f64" if op in REAL_OPS or dtype in FLOATS else "i64" if dtype in SIGNED else "u64"


def outs(op, dtype):
    """Every reply type that is allowed."""
    if op in COUNT_OPS or op == "stats":
        return [default_out(op, dtype)]
    own = [dtype] if op in ("min", "max") and dtype != "bool" else []
    return list(FLOATS) if op in REAL_OPS or dtype in FLOATS else sorted({"i64", "u64", *own})


def inf_bits(fmt):
    return (2 ** (fmt.width - 1 - fmt.fraction) - 1) << fmt.fraction


def nan_bits(fmt):
    return inf_bits(fmt) | 1 << (fmt.fraction - 1)


def int_values(bits, dtype):
    if dtype == "bool":
        return (bits != 0).astype(np.uint8)
    return bits.view(f"<{'i' if dtype in SIGNED else 'u'}{SIZE[dtype]}")


def is_nan(bits, dtype):
    fmt = FLOATS[dtype]
    return (bits & unsigned(dtype).type(2 ** (fmt.width - 1) - 1)) > unsigned(dtype).type(inf_bits(fmt))


# ---- rounding: to nearest, ties to even, once ----
def round_scaled(number, exponent, fmt, more=False):
    """number x 2^exponent, its magnitude a little larger (less than one unit) if `more`: the bits of the nearest float.
    Zero gives +0. `more` needs a number with more bits than the format."""
    if number == 0:
        return 0
    sign = 1 << (fmt.width - 1) if number < 0 else 0
    number, exponent = abs(number) << 1 | more, exponent - 1
    smallest = 1 - fmt.bias - fmt.fraction  # exponent of the last place of subnormals
    last = max(number.bit_length() - 1 - fmt.fraction + exponent, smallest)  # and of the result
    drop = max(last - exponent, 0)
    quotient, rest = number >> drop, number & ((1 << drop) - 1)
    half = 1 << (drop - 1) if drop else 1
    quotient += rest > half or (rest == half and quotient & 1)
    quotient <<= max(exponent - last, 0)
    return sign | min(((last - smallest) << fmt.fraction) + quotient, inf_bits(fmt))  # the hidden bit carries into the field


def round_quotient(number, divisor, exponent, fmt):
    """number / divisor x 2^exponent"""
    shift = max(0, fmt.fraction + 4 + divisor.bit_length() - number.bit_length())
    quotient, rest = divmod(abs(number) << shift, divisor)
    return round_scaled(-quotient if number < 0 else quotient, exponent - shift, fmt, rest != 0)


def round_root(number, divisor, exponent, fmt):
    """The root of number / divisor x 2^exponent"""
    shift = max(0, 2 * (fmt.fraction + 4) + divisor.bit_length() - number.bit_length())
    shift += (exponent - shift) & 1
    quotient, rest = divmod(number << shift, divisor)
    root = math.isqrt(quotient)
    return round_scaled(root, (exponent - shift) // 2, fmt, rest != 0 or root * root != quotient)


def parts_of(bits, fmt):
    """One finite number as (integer, exponent)."""
    negative, magnitude = bits >> (fmt.width - 1), bits & (2 ** (fmt.width - 1) - 1)
    field, fraction = magnitude >> fmt.fraction, magnitude & (2**fmt.fraction - 1)
    number = fraction | (1 << fmt.fraction if field else 0)
    return -number if negative else number, max(field, 1) - fmt.bias - fmt.fraction


def convert(bits, dtype, out):
    """One float element in another float format, bits to bits."""
    a, b = FLOATS[dtype], FLOATS[out]
    sign, magnitude = bits >> (a.width - 1), bits & (2 ** (a.width - 1) - 1)
    if magnitude > inf_bits(a):
        return nan_bits(b)
    if magnitude == inf_bits(a):
        return sign << (b.width - 1) | inf_bits(b)
    return round_scaled(*parts_of(magnitude, a), b) | sign << (b.width - 1)


# ---- what the elements are ----
def order_key(bits, dtype):
    """An unsigned integer per element whose order is that of the values, -0 < +0. Not for NaNs."""
    wide = bits.astype(np.uint64)
    sign = np.uint64(1 << (width(dtype) - 1))
    if dtype in FLOATS:
        return np.where(wide & sign, ~wide & np.uint64(2 ** width(dtype) - 1), wide | sign)
    return wide ^ sign if dtype in SIGNED else wide


class Elements:
    """Everything that some reduction asks of its elements, exact. NaNs are counted and set aside: the policy decides later."""

    def __init__(self, dtype, bits, index_base=0, mask=None, initial=None, missing=0):
        """`missing`: a number of values that are known to be missing, which are NaNs that are left out; integers have these, too."""
        self.dtype = dtype
        at = None
        if mask is not None:
            at = np.flatnonzero(mask)
            bits = bits[at]
        self._given = at, index_base, len(bits)
        if initial is not None:
            bits = np.append(bits, unsigned(dtype).type(initial))
        if dtype == "bool":
            bits = int_values(bits, dtype)
        self.nans, self.first_nan, keep = missing, NO_INDEX, None
        if dtype in FLOATS:
            nan = is_nan(bits, dtype)
            self.nans += int(np.count_nonzero(nan))
            if nan.any():
                self.first_nan = self._index(int(nan.argmax()))
                keep = np.flatnonzero(~nan)
                bits = bits[keep]
        self.bits, self.count = bits, len(bits)
        if self.count:
            key = order_key(bits, dtype)
            least, most = int(key.argmin()), int(key.argmax())
            back = (lambda i: i) if keep is None else (lambda i: int(keep[i]))
            self.least, self.least_at = int(bits[least]), self._index(back(least))
            self.most, self.most_at = int(bits[most]), self._index(back(most))
        else:
            self.least = self.most = 0
            self.least_at = self.most_at = NO_INDEX
        (self._floats if dtype in FLOATS else self._integers)()

    def _index(self, i):
        """Of the i-th element that is left: elements left out count, the initial one has none."""
        at, base, given = self._given
        return NO_INDEX if i >= given else base + (i if at is None else int(at[i]))

    def _floats(self):
        fmt, wide = FLOATS[self.dtype], self.bits.astype(np.uint64)
        magnitude = wide & np.uint64(2 ** (fmt.width - 1) - 1)
        negative = (wide >> np.uint64(fmt.width - 1)).astype(np.int64)
        inf = magnitude == np.uint64(inf_bits(fmt))
        self.negatives = int(negative.sum())
        self.zeros = self.count - int(np.count_nonzero(magnitude))
        self.minus_inf = bool((inf & (negative == 1)).any())
        self.plus_inf = bool((inf & (negative == 0)).any())
        self.only_minus_zero = self.count > 0 and self.zeros == self.count == self.negatives
        self.largest = int(magnitude.max()) if self.count else 0
        self.total = self.squares = self.magnitudes = 0
        if not (self.plus_inf or self.minus_inf):
            field = (magnitude >> np.uint64(fmt.fraction)).astype(np.int64)
            significand = (magnitude & np.uint64(2**fmt.fraction - 1)).astype(np.int64) + ((field > 0).astype(np.int64) << fmt.fraction)
            self._sums(np.maximum(field, 1) - fmt.bias - fmt.fraction + UNIT[self.dtype], np.where(negative, -significand, significand))

    def _sums(self, shift, signed):
        """Grouped by exponent: the numbers of a group add up before they are shifted."""
        order = np.argsort(shift, kind="stable")
        shift, signed = shift[order], signed[order].tolist()
        ends = [*(np.flatnonzero(np.diff(shift)) + 1).tolist(), len(signed)]
        begin = 0
        for end in ends if signed else []:
            group, by = signed[begin:end], int(shift[begin])
            self.total += sum(group) << by
            self.squares += sum(map(operator.mul, group, group)) << 2 * by
            self.magnitudes += sum(map(abs, group)) << by
            begin = end

    def _integers(self):
        values = int_values(self.bits, self.dtype)
        numbers = values.tolist()
        self.negatives = int(np.count_nonzero(values < 0))
        self.zeros = self.count - int(np.count_nonzero(values))
        self.plus_inf = self.minus_inf = self.only_minus_zero = False
        self.total = sum(numbers)
        self.squares = sum(map(operator.mul, numbers, numbers))
        self.magnitudes = sum(map(abs, numbers))
        self.largest = max(abs(numbers[0]), max(numbers), -min(numbers)) if numbers else 0
        self.conjunction = int(np.bitwise_and.reduce(self.bits)) if numbers else 2 ** width(self.dtype) - 1
        self.disjunction = int(np.bitwise_or.reduce(self.bits)) if numbers else 0
        self.parity = int(np.bitwise_xor.reduce(self.bits)) if numbers else 0
        self.wrapped = int(np.multiply.reduce(values.astype(np.int64).view(np.uint64))) if numbers else 1
        self.product = 1  # of the magnitudes that are not zero; None: 2^64 or more
        for v in values[(values != 0) & (values != 1)].tolist():
            self.product *= abs(v)
            if self.product >> 64:
                self.product = None
                break

    def special(self):
        """1 +inf, 2 -inf, 3 both, as the states of sums have it."""
        return self.plus_inf | self.minus_inf << 1


# ---- products of floats: PROTOCOL.md, "Products of floats" ----
with decimal.localcontext() as _digits:
    _digits.prec = 60
    _LN2 = decimal.Decimal(2).ln()

    def _nearest(x):
        return math.floor(x + decimal.Decimal("0.5"))

    def _table(entries, index, factor):
        """Minus log2 of 1 - d / 2^factor in units of 2^-128, with d in its low 10 bits."""
        for i in range(entries):
            d = 2**factor * i // (2**index + i)
            log = -(1 - decimal.Decimal(d) / 2**factor).ln() / _LN2 * 2**128
            yield (_nearest((log - d) / 1024) << 10) + d

    _COARSE = list(_table(512, 9, 10))
    _FINE = list(_table(384, 17, 18))
    _SERIES = [_nearest(1 / (k * _LN2) * 2**unit) for k, unit in enumerate((127, 128, 65, 64, 64, 32), 1)]
    _POWERS = [math.floor(_LN2**k / math.factorial(k) * 2**127) for k in range(31)]


def log2_of(number, exponent):
    """number x 2^exponent in units of 2^-112"""
    a1, a2, a3, a4, a5, a6 = _SERIES
    shift = 53 - number.bit_length()
    m = number << shift
    coarse = _COARSE[m >> 43 & 511]
    near = m * (1024 - (coarse & 1023))
    fine = _FINE[near >> 45 & 511]
    r = near * (2**18 - (fine & 1023)) % 2**64
    h = r >> 32
    p5 = a5 - (h * a6 >> 16)
    p4 = a4 - (r * p5 >> 80)
    p3 = a3 - (r * p4 >> 79)
    p2 = a2 - (r * p3 >> 17)
    p1 = a1 - (r * (p2 >> 64) + h * ((p2 & 2**64 - 1) >> 32) >> 17)
    series = r * (p1 >> 64) + (r * (p1 & 2**64 - 1) >> 64) >> 15
    return (exponent + 52 - shift << 112) + (coarse + fine + series + 2**15 >> 16)


def product_log2(e):
    """S, of finite elements that are not zero"""
    fmt = FLOATS[e.dtype]
    return sum(log2_of(*parts_of(bits & 2 ** (fmt.width - 1) - 1, fmt)) for bits in e.bits.tolist())


def wide_product(a, b):
    return (a >> 64) * (b >> 64) + ((a >> 64) * (b & 2**64 - 1) >> 64) + ((a & 2**64 - 1) * (b >> 64) >> 64)


def power_of_two(log, fmt):
    """2^(log / 2^112): to 106 bits, then to the format"""
    v = 0
    for term in reversed(_POWERS):
        v = term + wide_product(log % 2**112 << 16, v)
    return round_scaled((v + 2**21 >> 22) << 22, max(-70_000, min(log >> 112, 70_000)) - 127, fmt)


def float_product(e, fmt):
    sign = (e.negatives & 1) << (fmt.width - 1)
    if e.zeros or e.special():
        return nan_bits(fmt) if e.zeros and e.special() else sign | (inf_bits(fmt) if e.special() else 0)
    return sign | power_of_two(product_log2(e), fmt)


# ---- values ----
def to_out(value, out):
    """An exact integer in a reply type."""
    bits = 8 * SIZE[out]
    low, high = (-(2**(bits - 1)), 2**(bits - 1)) if out in SIGNED else (0, 2**bits)
    if not low <= value < high:
        raise Fault("OVERFLOW", min(value, MOST))
    return value % 2**bits


def element_out(e, bits, out):
    """An element, or its magnitude, as a reply."""
    if e.dtype in FLOATS:
        return convert(bits, e.dtype, out)
    return to_out(bits - (bits >> (8 * SIZE[e.dtype] - 1) << 8 * SIZE[e.dtype]) if e.dtype in SIGNED else bits, out)


def infinite(e, fmt):
    return nan_bits(fmt) if e.special() == 3 else inf_bits(fmt) | (1 << (fmt.width - 1) if e.minus_inf else 0)


def float_sum(e, fmt, divisor=1):
    if e.special():
        return infinite(e, fmt)
    if e.only_minus_zero:
        return 1 << (fmt.width - 1)
    return round_quotient(e.total, divisor, -UNIT[e.dtype], fmt)


def moment(e, op, ddof, fmt):
    """var, std and sem"""
    if e.special() or e.count <= ddof:
        return nan_bits(fmt)
    top, bottom = e.count * e.squares - e.total**2, e.count * (e.count - ddof) * (e.count if op == "sem" else 1)
    return (round_quotient if op == "var" else round_root)(top, bottom, -2 * UNIT[e.dtype], fmt)


def float_range(e, fmt):
    a, b, own = e.least, e.most, FLOATS[e.dtype]
    if e.special():
        return nan_bits(fmt) if a == b else inf_bits(fmt)
    (x, i), (y, k) = parts_of(a, own), parts_of(b, own)
    low = min(i, k)
    return round_scaled((y << (k - low)) - (x << (i - low)), low, fmt)


def real(e, op, out, ddof):
    """Ops whose result is a float, of elements without NaNs."""
    fmt, unit = FLOATS[out], UNIT[e.dtype]
    if op == "sum":
        return float_sum(e, fmt)
    if op == "prod":
        return float_product(e, fmt)
    if op == "mean":
        return float_sum(e, fmt, e.count) if e.count else nan_bits(fmt)
    if op == "rms" and not e.count:
        return nan_bits(fmt)
    if op in ("var", "std", "sem"):
        return moment(e, op, ddof, fmt)
    if op == "range":
        return float_range(e, fmt)
    if op in ("min", "max"):
        return convert(e.least if op == "min" else e.most, e.dtype, out)
    if op == "norminf":
        return convert(e.largest, e.dtype, out)
    if e.special():
        return inf_bits(fmt)
    if op == "norm1":
        return round_scaled(e.magnitudes, -unit, fmt)
    return round_scaled(e.squares, -2 * unit, fmt) if op == "sumsq" else \
        round_root(e.squares, e.count if op == "rms" else 1, -2 * unit, fmt)


def whole(e, op, out, wrap):
    """Ops whose result is an integer, of integers."""
    if op == "prod":
        if wrap:
            return e.wrapped
        if e.zeros:
            return 0
        if e.product is None:
            raise Fault("OVERFLOW", MOST)
        return to_out(-e.product if e.negatives % 2 else e.product, out)
    if op in ("min", "max", "and", "or", "xor"):
        return element_out(e, {"min": e.least, "max": e.most, "and": e.conjunction, "or": e.disjunction}.get(op, e.parity), out)
    value = lambda bits: int(int_values(np.array([bits], unsigned(e.dtype)), e.dtype)[0])
    if op == "range":
        return to_out(value(e.most) - value(e.least), out)
    return to_out({"sum": e.total, "sumsq": e.squares, "norm1": e.magnitudes, "norminf": e.largest}[op], out)


def number(e, op, propagate):
    """Ops that count or point."""
    nans = e.nans if propagate else 0  # that are elements like others
    if op in INDEX_OPS:
        return e.first_nan if nans else e.least_at if op == "argmin" else e.most_at
    nonzero = e.count + nans - e.zeros
    return {"count": e.count + nans, "count_nan": e.nans, "count_nonzero": nonzero, "any": int(nonzero > 0), "all": int(e.zeros == 0)}[op]


def stats(e, ddof, propagate):
    f64, floats, nan = FLOATS["f64"], e.dtype in FLOATS, propagate and e.nans > 0
    not_a = nan_bits(f64)
    edge = lambda bits: not_a if nan or (floats and not e.count) else 0 if not e.count else element_out(
        e, bits, "f64" if floats else "i64" if e.dtype in SIGNED else "u64")
    words = [e.count + (e.nans if propagate else 0), e.nans, e.zeros, number(e, "argmin", propagate), number(e, "argmax", propagate),
             edge(e.least), edge(e.most)]
    words += [not_a if nan else float_sum(e, f64), 0] if floats else [e.total % 2**64, (e.total >> 64) % 2**64]
    words += [not_a if nan else real(e, op, "f64", ddof) for op in ("mean", "var", "std")]
    return sum(w << 64 * i for i, w in enumerate(words))


def value(e, op, nan="propagate", out=None, ddof=0, wrap=False):
    """The cell of the reply as one little-endian integer; raises Fault."""
    out = out or default_out(op, e.dtype)
    propagate = nan == "propagate"
    if nan == "error" and e.nans:
        raise Fault("NAN")
    if op in CHOOSING_OPS and not e.count and not (propagate and e.nans):
        raise Fault("EMPTY")
    if op == "stats":
        return stats(e, ddof, propagate)
    if op in COUNT_OPS:
        return number(e, op, propagate)
    if op == "minmax":
        return value(e, "min", nan, out) | value(e, "max", nan, out) << 8 * SIZE[out]
    if e.dtype in FLOATS and e.nans and propagate:
        return nan_bits(FLOATS[out])
    if op in REAL_OPS or e.dtype in FLOATS:
        return real(e, op, out, ddof)
    return whole(e, op, out, wrap)


def reduce(op, dtype, bits, nan="propagate", out=None, index_base=0, *, ddof=0, initial=None, mask=None, wrap=False):
    """The cell of the reply as one little-endian integer; raises Fault."""
    return value(Elements(dtype, bits, index_base, mask, initial), op, nan, out, ddof, wrap)


def outcome(function, *args, **kw):
    """('OK', cell), or (name, exact value)."""
    try:
        return "OK", function(*args, **kw)
    except Fault as f:
        return f.name, f.value


def reduce_or_fault(*args, **kw):
    return outcome(reduce, *args, **kw)


# ---- shapes ----
def lines(bits, mask=None, rows=1, offsets=None, columns=False, planes=1):
    """(elements, mask) of each row, segment or column, of one plane after the other. A row has a run in each plane."""
    none = [None] * max(rows, len(bits))
    if offsets is not None:
        cut = lambda x: [x[a:b] for a, b in zip(offsets, offsets[1:])]
    elif columns:
        width = len(bits) // (rows * planes)
        cut = lambda x: list(np.ascontiguousarray(x.reshape(planes, rows, width).transpose(0, 2, 1)).reshape(planes * width, rows))
    else:
        cut = lambda x: list(np.ascontiguousarray(x.reshape(planes, rows, -1).swapaxes(0, 1)).reshape(rows, -1)) if len(x) else [x] * rows
    return list(zip(cut(bits), none if mask is None else cut(mask)))


# ---- states ----
def layout(op, dtype):
    """(code, sum limbs, squares limbs, other limbs)"""
    kind = 2 if dtype not in FLOATS else dtype == "f64"  # narrow, f64, integer
    family = {"sum": 0, "mean": 0, "sumsq": 1, "norm2": 1, "rms": 1, "norm1": 2, "var": 3, "std": 3, "sem": 3, "stats": 4, "prod": 5}.get(op)
    if family is not None:
        code = ((0, 2, 4), (1, 3, 10), (14, 15, 16), (11, 12, 13), (25, 26, 27), (23, 23, 24))[family][kind]
        sums, squares, others = ((1, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (1, 1, 6), (0, 0, 4 - (kind == 2)))[family]
        return code, sums * (6, 34, 2)[kind], squares * (10, 67, 3)[kind], others
    code = {"min": 5, "max": 6, "argmin": 7, "argmax": 8, "norminf": 17, "minmax": 18, "range": 18, "count_nan": 19, "and": 20, "or": 21,
            "xor": 22}.get(op, 9)
    return code, 0, 0, 2


def state_size(op, dtype):
    return 16 + 8 * sum(layout(op, dtype)[1:])


def limbs(number, n):
    return [(number >> 64 * i) % 2**64 for i in range(n)]


def state(e, op, nan="propagate"):
    """The bytes of the partial state."""
    code, sums, squares, _ = layout(op, e.dtype)
    floats, propagate = e.dtype in FLOATS, nan == "propagate"
    nans = e.nans if propagate or op == "count_nan" else 0
    as_nan = propagate and e.nans > 0
    count, special, nz = e.count + nans, 0, 0
    if floats and (sums or squares):
        signed = op in ("sum", "mean", "var", "std", "sem", "stats")
        special = 3 if as_nan else e.special() if signed else int(e.special() > 0)
        nz = int(signed and count > 0 and (as_nan or not e.only_minus_zero))
    limb = limbs(0 if special else e.magnitudes if op == "norm1" else e.total, sums) + limbs(0 if special else e.squares, squares)
    quiet = nan_bits(FLOATS[e.dtype]) if floats else 0
    least, most = (quiet, quiet) if as_nan else (e.least, e.most)
    if op == "stats":
        limb += [least, number(e, "argmin", propagate), most, number(e, "argmax", propagate), e.zeros, e.nans]
    elif op == "prod":
        special = 3 if as_nan else 2 * (e.zeros > 0) | (e.special() > 0)
        if floats:
            limb += [*limbs(0 if special else product_log2(e), 3), 0 if special == 3 else e.negatives]
        else:
            limb += [e.wrapped, 0 if e.product is None else e.product, e.negatives]
    elif op in INDEX_OPS:
        limb += [least if op == "argmin" else most, number(e, op, propagate)]
    elif op in ("minmax", "range"):
        limb += [least, most]
    elif not sums and not squares:
        nonzero = e.count + nans - e.zeros
        limb += [{"min": least, "max": most, "norminf": quiet if as_nan else e.largest, "count_nan": e.nans}.get(op, nonzero)
                 if op not in BIT_OPS else {"and": e.conjunction, "or": e.disjunction, "xor": e.parity}[op], 0]
    skipped = int(e.nans > 0 and (floats or op == "stats") and (nan == "error" or (nan == "omit" and op != "count_nan")))
    return struct.pack("<BBBBB3xQ", code, special, nz, skipped, DTYPES[e.dtype], count) + struct.pack(f"<{len(limb)}Q", *limb)


# ---- words ----
def low_high(number, halves):
    """32 bits each, the highest with the sign."""
    return [*((number >> 32 * i) % 2**32 for i in range(halves - 1)), number >> 32 * (halves - 1)]


def key(bits, dtype, op):
    """Of an element as a state has it. `op`: min, max or norminf."""
    most, sign = 2 ** width(dtype) - 1, 1 << width(dtype) - 1
    if dtype in FLOATS and bits == nan_bits(FLOATS[dtype]):
        return most - 2**63
    if dtype in FLOATS:
        rank = most - bits if bits & sign else bits | sign
    else:
        rank = bits ^ (sign if dtype[0] == "i" and op != "norminf" else 0)
    return (most - rank if op == "min" else rank) - 2**63


def words(op, dtype, data):
    """The words of a state, None if it has none; and how many of them are added: the others are joined by maximum."""
    code, sums, squares, _ = layout(op, dtype)
    special, nz, skipped, count = struct.unpack("<xBBB4xQ", data[:16])
    limb = struct.unpack(f"<{len(data) // 8 - 2}Q", data[16:])
    tag = 512 + 16 * code + DTYPES[dtype]
    head = [1, tag, tag * tag, *low_high(count, 2), skipped, nz, special & 1, special >> 1]
    signed = lambda part: int.from_bytes(struct.pack(f"<{len(part)}Q", *part), "little", signed=True)
    if op in (*INDEX_OPS, "stats") or (op == "prod" and dtype not in FLOATS):
        return None, 0
    if op in ("min", "max", "norminf", "minmax", "range"):
        ends = list(zip(limb, ("min", "max"))) if op in ("minmax", "range") else [(limb[0], op)]
        return head + [key(bits, dtype, end) if count else -2**63 for bits, end in ends], len(head)
    if op in BIT_OPS:
        body = [limb[0] >> i & 1 for i in range(width(dtype))]
    elif op == "prod":
        body = low_high(signed(limb[:3]), 6) + low_high(limb[3], 2)
    elif sums or squares:
        parts = [limb[:sums], limb[sums:sums + squares]]
        body = [w for part in parts if part for w in low_high(signed(part), 2 * len(part))]
    else:
        body = low_high(limb[0], 2)
    return head + body, len(head + body)


# ---- text ----
def value_text(bits, out):
    """As reducectl prints it by default: the shortest decimal that reads back to the same bits."""
    if out not in FLOATS:
        return str(bits - 2**(8 * SIZE[out]) if out in SIGNED and bits >> 8 * SIZE[out] - 1 else bits)
    return str(float_value(bits, out))


def float_value(bits, dtype):
    """As a Python float, exact for every format."""
    return struct.unpack("<d", struct.pack("<Q", convert(bits, dtype, "f64")))[0]
