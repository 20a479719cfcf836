#!/usr/bin/python3
"""Write log2_table.h, the constants of log2.h.

    kernels/exact/log2_table.py           write the file
    kernels/exact/log2_table.py --check   exit 1 if it differs from what this would write
"""

import sys
from decimal import Decimal, getcontext
from pathlib import Path

OUT = Path(__file__).with_name("log2_table.h")
getcontext().prec = 80  # digits; the widest constant has 39

COARSE_INDEX, COARSE_FACTOR = 9, 10  # the first interval is [0, 2^-9); its factors are 1 - d / 2^10
FINE_INDEX, FINE_FACTOR = 17, 18
TAG = 10  # low bits of an entry, which hold d
SERIES_UNITS = (127, 128, 65, 64, 64, 32)  # term k of the series is in units of 2^-SERIES_UNITS[k - 1]
EXP_UNIT = 127

LN2 = Decimal(2).ln()


def scaled(x, bits):
    return x * 2**bits


def nearest(x):
    return int((x + Decimal("0.5")).to_integral_value(rounding="ROUND_FLOOR"))


def entry(i, index, factor):
    """For 1 + x with x from i / 2^index on: the factor 1 - d / 2^factor that leads just not below 1, and minus its log2 in
    units of 2^-128, to the nearest number that ends in the TAG bits of d."""
    d = 2**factor * i // (2**index + i)
    log = -(1 - Decimal(d) / 2**factor).ln() / LN2
    return (nearest((scaled(log, 128) - d) / 2**TAG) << TAG) + d


def fine_entries():
    """How many: the first step leaves less than (1 + (i + 1) / 2^9) (1 - d / 2^10) - 1."""
    most = 0
    for i in range(2**COARSE_INDEX):
        d = 2**COARSE_FACTOR * i // (2**COARSE_INDEX + i)
        most = max(most, (2**COARSE_INDEX + i + 1) * (2**COARSE_FACTOR - d) - 2 ** (COARSE_INDEX + COARSE_FACTOR))
    return -(-most * 2**FINE_INDEX // 2 ** (COARSE_INDEX + COARSE_FACTOR))


def series():
    """log2(1 + r) = r a1 - r^2 a2 + ...: a_k = log2(e) / k"""
    return [nearest(scaled(1 / (k * LN2), unit)) for k, unit in enumerate(SERIES_UNITS, 1)]


def exponential():
    """2^f = sum of f^k ln(2)^k / k!, rounded down, highest power first, without what is 0 in this unit"""
    terms, t, k = [], Decimal(1), 0
    while scaled(t, EXP_UNIT) >= 1:
        terms.append(int(scaled(t, EXP_UNIT)))
        k += 1
        t = t * LN2 / k
    return terms[::-1]


def pair(v):
    return f"0x{v >> 64:016x}, 0x{v & 2**64 - 1:016x}"


def rows(name, remark, values):
    cells = [f"X({pair(v).replace(' ', '')})" for v in values]
    lines = [",".join(cells[i : i + 3]) for i in range(0, len(cells), 3)]
    return f"/* {remark} */\n#define {name}(X) \\\n" + ", \\\n".join(lines) + "\n"


def header():
    coarse = [entry(i, COARSE_INDEX, COARSE_FACTOR) for i in range(2**COARSE_INDEX)]
    fine = [entry(i, FINE_INDEX, FINE_FACTOR) for i in range(fine_entries())]
    a = series()
    wide = "".join(f"#define RK_LOG2_A{k}(X) X({pair(a[k - 1])}) /* 2^-{SERIES_UNITS[k - 1]} */\n" for k in (1, 2))
    narrow = "".join(f"#define RK_LOG2_A{k} 0x{a[k - 1]:016x}u /* 2^-{SERIES_UNITS[k - 1]} */\n" for k in range(3, 7))
    e = exponential()
    return "\n".join([
        "/* Constants of log2.h, which says what they are for. Written by log2_table.py. X(high, low) is a number of 128 bits. */",
        "#ifndef RK_LOG2_TABLE_H\n#define RK_LOG2_TABLE_H\n",
        rows("RK_LOG2_COARSE", f"[i]: -log2(1 - d / 2^{COARSE_FACTOR}) in units of 2^-128; d is in the low {TAG} bits", coarse),
        rows("RK_LOG2_FINE", f"[i]: -log2(1 - d / 2^{FINE_FACTOR}) in units of 2^-128; d is in the low {TAG} bits", fine),
        f"/* log2(e) / k in the unit named behind it */\n{wide}{narrow}",
        f"#define RK_EXP2_TERMS {len(e)}",
        rows("RK_EXP2", f"ln(2)^k / k! in units of 2^-{EXP_UNIT}, rounded down, for k = {len(e) - 1} .. 0", e),
        "#endif\n",
    ])


def main():
    if sys.argv[1:] == ["--check"]:
        if OUT.read_text() != header():
            sys.exit(f"{OUT.name} is not what {Path(__file__).name} writes")
    else:
        OUT.write_text(header())


if __name__ == "__main__":
    main()
