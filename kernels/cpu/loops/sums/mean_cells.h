/* Means from exact sums, rounded once. A quotient's remainder is exact: `quotient * n` is taken in two halves, which fit a
 * double each, since n is at most RK_LOT_ROWS. */
#ifndef RK_CPU_MEAN_CELLS_H
#define RK_CPU_MEAN_CELLS_H

#include "kernels/cpu/loops/columns/column_batch.h"
#include "kernels/cpu/loops/rounding_errors.h"

enum { QUOTIENT_BITS = 27 }; /* of the lower half of a quotient: n has at most 13 */

/* Sums that a double has exactly; a NaN stands for any.
 *
 * To narrower floats the quotient q of n is rounded twice, as if once. The middle m between two of them has 25 bits at most, so
 * n m is a multiple of the sum's last place L. A sum that is not n m differs by L or more from it, so sum / n differs from m by
 * more than half of q's last place, which is less than L / n. So q is on the right side. */
ONE_COPY void mean_cells(const double *sum, const double *count, size_t n, int out, uint8_t *cells)
{
    double mean[SMALL_LOT];
    for (size_t c = 0; c < n; c++)
        mean[c] = sum[c] / count[c];
    convert_sums(mean, n, out, cells);
}

/* sum - q n, exactly, where q is sum / n but for its last places */
INLINE vf64 remainder_of(vf64 sum, vf64 q, vf64 n)
{
#if VB > 16
    return -product_error(q, n, sum);
#else
    const vf64 high = (vf64)((vu64)q >> QUOTIENT_BITS << QUOTIENT_BITS);
    return sum - high * n - (q - high) * n;
#endif
}

/* The mean of sums that are s + l, s being that rounded, by their count; `per` is 1 / count. Says where it is right. */
INLINE vf64 wide_mean(vf64 s, vf64 l, vf64 by, vf64 per, vi64 *right)
{
    const vf64 q = s * per, r = remainder_of(s, q, by), t = r + l, of_l = t - r;
    const vf64 lost = (r - (t - of_l)) + (l - of_l), d = t * per, rest = remainder_of(t, d, by);
    const vf64 magnitude = magnitude_of(s), spread = magnitude_of(d) * 0x1p-50; /* more than the error of d */
    const vi64 exact = (lost == 0) & (rest == 0), certain = q + (d + spread) == q + (d - spread);
    const vi64 usual = (magnitude < 0x1p1023) & ((magnitude >= 0x1p-900) | (magnitude == 0)); /* underflow is far away */
    *right = usual & (exact | certain);
    return choose_lanes(d == 0, q, q + d);
}

#endif
