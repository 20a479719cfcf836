/* Means from exact sums, rounded once. A quotient's remainder is exact: `quotient * n` is taken in two halves, which fit a
 * double each, since n is at most RK_LOT_ROWS. */
#ifndef RK_CPU_MEAN_CELLS_H
#define RK_CPU_MEAN_CELLS_H

#include "kernels/cpu/loops/columns/column_batch.h"
#include "kernels/cpu/loops/vec.h"

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

/* sum - q n, exactly, where q is sum / n, rounded */
INLINE vf64 remainder_of(vf64 sum, vf64 q, vf64 n)
{
    const vf64 high = (vf64)((vu64)q >> QUOTIENT_BITS << QUOTIENT_BITS);
    return sum - high * n - (q - high) * n;
}

/* Sums that are high + low, high being that rounded; whole vectors of all can be read. Marks means that are not certain. The
 * mean of nothing is a NaN. */
ONE_COPY void wide_mean_cells(const double *high, const double *low, const double *count, size_t n, u64_loose *cells,
                              uint8_t *marks)
{
    vf64 mean[SMALL_LOT / LANES64];
    vi64 right[SMALL_LOT / LANES64];
    for (size_t c = 0; c < n; c += LANES64) {
        const vf64 s = *(const vf64_loose *)(high + c), l = *(const vf64_loose *)(low + c),
                   by = *(const vf64_loose *)(count + c);
        const vf64 q = s / by, r = remainder_of(s, q, by), t = r + l, of_l = t - r;
        const vf64 lost = (r - (t - of_l)) + (l - of_l), d = t / by, rest = remainder_of(t, d, by);
        const vf64 magnitude = magnitude_of(s), spread = magnitude_of(d) * 0x1p-50; /* more than the error of d */
        const vi64 exact = (lost == 0) & (rest == 0), certain = q + (d + spread) == q + (d - spread), none = d == 0;
        const vi64 usual = (magnitude < 0x1p1023) & ((magnitude >= 0x1p-900) | (magnitude == 0)); /* underflow is far away */
        const vi64 nothing = by == 0;
        right[c / LANES64] = (usual & (exact | certain)) | nothing;
        mean[c / LANES64] = (vf64)((((vi64)q & none) | ((vi64)(q + d) & ~none & ~nothing)) |
                                   (nothing & ((int64_t)0x7ff8 << 48)));
    }
    memcpy(cells, mean, 8 * n);
    for (size_t c = 0; c < n; c++)
        marks[c] = ((const int64_t *)(const void *)right)[c] == 0;
}

#endif
