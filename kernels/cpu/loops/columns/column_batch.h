/* What the loops of finished cells share: the columns that they leave, floats of one type as another. */
#ifndef RK_CPU_COLUMN_BATCH_H
#define RK_CPU_COLUMN_BATCH_H

#include <string.h>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/vec.h"
#include "kernels/exact/line.h"

enum { SMALL_LOT = 512 }; /* columns that are taken together where each needs many bytes: these stay in L1 */

INLINE size_t small_lot(const rk_lot *lot, size_t first)
{
    return lot->columns - first < SMALL_LOT ? lot->columns - first : SMALL_LOT;
}

/* Appends n columns from `first` on to the k that are left; returns the new k. */
ONE_COPY size_t leave_all(uint16_t *left, size_t k, size_t first, size_t n)
{
    for (size_t c = 0; c < n; c++)
        left[k++] = (uint16_t)(first + c);
    return k;
}

/* The same, of those with a mark. */
ONE_COPY size_t leave_marked(uint16_t *left, size_t k, size_t first, size_t n, const uint8_t *marks)
{
    uint8_t some = 0;
    for (size_t c = 0; c < n; c++)
        some |= marks[c];
    for (size_t c = 0; some && c < n; c++)
        if (marks[c])
            left[k++] = (uint16_t)(first + c);
    return k;
}

/* Four of `rows` rows, the last one as often as others lack. */
#define FOUR_ROWS(W)                                                                                   \
    INLINE void four_rows_##W(const u##W##_loose *row[4], const char *x, uint64_t stride, size_t rows) \
    {                                                                                                  \
        for (size_t r = 0; r < 4; r++)                                                                 \
            row[r] = (const void *)(x + (r < rows ? r : rows - 1) * stride);                           \
    }
FOUR_ROWS(8)
FOUR_ROWS(16)
FOUR_ROWS(32)
FOUR_ROWS(64)
#undef FOUR_ROWS

INLINE uint64_t one_nan(double v) { return v != v ? (uint64_t)0x7ff8 << 48 : bits_of_f64(v); }

/* A NaN stands for any. */
ONE_COPY void widen_cells(const u32_loose *floats, size_t n, u64_loose *cells)
{
    for (size_t c = 0; c < n; c++)
        cells[c] = one_nan(f32_of(floats[c]));
}

/* A double as a float of 16 bits, `bits` of them significant, rounded once. Below 2^(1 - bias) an addition rounds it to a
 * multiple of the least such float. */
INLINE uint16_t short_of(double v, int bits, int bias)
{
    const int drop = 53 - bits;
    const uint64_t b = bits_of_f64(v), m = b & INT64_MAX, infinity = (uint64_t)(2 * bias + 1) << (bits - 1);
    const uint64_t rounded = (m + (((uint64_t)1 << (drop - 1)) - 1) + (m >> drop & 1)) >> drop;
    const uint64_t usual = rounded - ((uint64_t)(1023 - bias) << (bits - 1)), start = (uint64_t)(1023 + 54 - bias - bits) << 52;
    const uint64_t low = bits_of_f64(f64_of(m) + f64_of(start)) - start;
    const int64_t normal = (int64_t)usual < (int64_t)infinity ? (int64_t)usual : (int64_t)infinity;
    const int64_t found = (int64_t)m < (int64_t)(1024 - bias) << 52 ? (int64_t)low : normal;
    const int64_t one = v != v ? (int64_t)(infinity | (uint64_t)1 << (bits - 2)) : found | (int64_t)(b >> 63 << 15);
    return (uint16_t)one;
}

ONE_COPY void shorten_sums(const double *sum, size_t n, int out, u16_loose *cells)
{
    if (out == RP_F16)
        for (size_t c = 0; c < n; c++)
            cells[c] = short_of(sum[c], 11, 15);
    else
        for (size_t c = 0; c < n; c++)
            cells[c] = short_of(sum[c], 8, 127);
}

/* n floats as another type */
ONE_COPY void convert_cells(int dtype, const void *floats, size_t n, int out, uint8_t *cells)
{
    const size_t from = rp_dtype_size(dtype), to = rp_dtype_size(out);
    if (dtype == RP_F32 && out == RP_F64) {
        widen_cells(floats, n, (u64_loose *)(void *)cells);
        return;
    }
    for (size_t c = 0; c < n; c++) {
        const uint64_t v = rk_convert_float(dtype, rk_load((const uint8_t *)floats + c * from, (int)from), out);
        memcpy(cells + c * to, &v, to);
    }
}

ONE_COPY void narrow_sums(const double *sum, size_t n, u32_loose *cells)
{
    for (size_t c = 0; c < n; c++) {
        const float v = (float)sum[c];
        cells[c] = v != v ? 0x7fc00000 : bits_of_f32(v);
    }
}

/* n doubles as any float; a NaN stands for any. */
ONE_COPY void convert_sums(const double *sum, size_t n, int out, uint8_t *cells)
{
    u64_loose *to = (u64_loose *)(void *)cells;
    if (out == RP_F64)
        for (size_t c = 0; c < n; c++)
            to[c] = one_nan(sum[c]);
    else if (out == RP_F32)
        narrow_sums(sum, n, (u32_loose *)(void *)cells);
    else
        shorten_sums(sum, n, out, (u16_loose *)(void *)cells);
}

#endif
