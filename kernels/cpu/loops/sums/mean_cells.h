/* Means from exact sums, rounded once. A quotient's remainder is exact: `quotient * n` is taken in two halves, which fit a
 * double each, since n is at most RK_LOT_ROWS. */
#ifndef RK_CPU_MEAN_CELLS_H
#define RK_CPU_MEAN_CELLS_H

#include "kernels/cpu/loops/columns/column_batch.h"

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

INLINE uint64_t one_nan(double v) { return v != v ? (uint64_t)0x7ff8 << 48 : bits_of_f64(v); }

/* Sums that a double has exactly; a NaN stands for any.
 *
 * To narrower floats the quotient q of n is rounded twice, as if once. The middle m between two of them has 25 bits at most, so
 * n m is a multiple of the sum's last place L. A sum that is not n m differs by L or more from it, so sum / n differs from m by
 * more than half of q's last place, which is less than L / n. So q is on the right side. */
ONE_COPY void mean_cells(const double *sum, size_t n, size_t rows, int out, uint8_t *cells)
{
    const double by = (double)rows;
    double mean[SMALL_LOT];
    u64_loose *to = (u64_loose *)(void *)cells;
    for (size_t c = 0; c < n; c++)
        mean[c] = sum[c] / by;
    if (out != RP_F64)
        convert_sums(mean, n, out, cells);
    else
        for (size_t c = 0; c < n; c++)
            to[c] = one_nan(mean[c]);
}

/* Sums that are high + low, high being that rounded. Marks means that are not certain. */
ONE_COPY void wide_mean_cells(const double *high, const double *low, size_t n, size_t rows, u64_loose *cells, uint8_t *marks)
{
    const double by = (double)rows, least = 0x1p-900, margin = 0x1p-50; /* underflow is far away; of the error of d */
    for (size_t c = 0; c < n; c++) {
        const double s = high[c], q = s / by, r = remainder_of(s, q, by), t = r + low[c], of_low = t - r;
        const double lost = (r - (t - of_low)) + (low[c] - of_low), d = t / by, rest = remainder_of(t, d, by);
        const double magnitude = s < 0 ? -s : s, spread = (d < 0 ? -d : d) * margin;
        const bool exact = (lost == 0) & (rest == 0), certain = q + (d + spread) == q + (d - spread);
        const bool usual = (magnitude < 0x1p1023) & ((magnitude >= least) | (magnitude == 0));
        marks[c] = (usual & (exact | certain)) == 0;
        cells[c] = bits_of_f64(d == 0 ? q : q + d);
    }
}

#endif
