/* Means from exact sums, rounded once. A quotient's remainder is exact: `quotient * n` is taken in two halves, which fit a
 * double each, since n is at most RK_LOT_ROWS. */
#ifndef RK_CPU_MEAN_CELLS_H
#define RK_CPU_MEAN_CELLS_H

#include "kernels/cpu/lot.h"

enum { QUOTIENT_BITS = 27 }; /* of the lower half of a quotient: n has at most 13 */

INLINE uint64_t bits_of_f64(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

INLINE double f64_of_bits(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* sum - q n, exactly, where q is sum / n, rounded */
INLINE double remainder_of(double sum, double q, double n)
{
    const double high = f64_of_bits(bits_of_f64(q) >> QUOTIENT_BITS << QUOTIENT_BITS);
    return sum - high * n - (q - high) * n;
}

/* sum / n, rounded to odd: rounded once more to a narrower type it is as if it had been rounded once. Zeros, infinities and
 * NaNs stay. */
INLINE double quotient_to_odd(double sum, double n)
{
    const double q = sum / n, r = remainder_of(sum, q, n);
    const uint64_t bits = bits_of_f64(q);
    const uint64_t away = (r > 0) == (q > 0) ? 1 : UINT64_MAX;
    return (r > 0 || r < 0) && !(bits & 1) ? f64_of_bits(bits + away) : q;
}

INLINE uint64_t one_nan(double v) { return v != v ? (uint64_t)0x7ff8 << 48 : bits_of_f64(v); }

/* Sums that a double has exactly; a NaN stands for any. */
ONE_COPY void mean_cells(const double *sum, size_t n, size_t rows, int out, uint8_t *cells)
{
    const double by = (double)rows;
    double odd[SMALL_LOT];
    if (out == RP_F64) {
        u64_loose *to = (u64_loose *)(void *)cells;
        for (size_t c = 0; c < n; c++)
            to[c] = one_nan(sum[c] / by);
        return;
    }
    for (size_t c = 0; c < n; c++)
        odd[c] = quotient_to_odd(sum[c], by);
    convert_sums(odd, n, out, cells);
}

/* Sums that are high + low, high being that rounded. Marks means that are not certain. */
ONE_COPY void wide_mean_cells(const double *high, const double *low, size_t n, size_t rows, u64_loose *cells, uint8_t *marks)
{
    const double by = (double)rows, least = 0x1p-900, margin = 0x1p-50; /* underflow is far away; of the error of d */
    for (size_t c = 0; c < n; c++) {
        const double s = high[c], q = s / by, r = remainder_of(s, q, by), t = r + low[c], of_low = t - r;
        const double lost = (r - (t - of_low)) + (low[c] - of_low), d = t / by, rest = remainder_of(t, d, by);
        const double magnitude = s < 0 ? -s : s, spread = (d < 0 ? -d : d) * margin;
        const bool exact = lost == 0 && rest == 0, certain = q + (d + spread) == q + (d - spread);
        const bool usual = magnitude < 0x1p1023 && (magnitude >= least || magnitude == 0);
        marks[c] = !(usual && (exact || certain));
        cells[c] = bits_of_f64(d == 0 ? q : q + d);
    }
}

#endif
