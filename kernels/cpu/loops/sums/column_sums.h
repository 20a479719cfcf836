/* Sums of neighbouring columns: plain additions, a lane for each column, so that rows are read in order and nothing is
 * transposed. The inexact flag shows afterwards whether they were exact (inexact.h). An f64 is added in two halves, as in
 * sum_f64.h. */
#ifndef RK_CPU_COLUMN_SUMS_H
#define RK_CPU_COLUMN_SUMS_H

#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/sums/sum_f32.h"

enum { ROWS_AT_ONCE = 4, SUMS_AHEAD = 16 }; /* rows: added before a sum is stored; prefetched */

/* Add rows [0, rows), which lie `stride` bytes apart. `halves`: of f64, whose lower halves go to `lower`.
 * `ahead`: rows that come later are prefetched. */
#define ADD_ROWS(TYPE, BYTES, HALVES)                                                                                       \
    INLINE void add_rows_##TYPE(const char *x, uint64_t stride, size_t rows, size_t columns, double *sum, double *lower,    \
                                bool ahead)                                                                                 \
    {                                                                                                                       \
        for (size_t c = 0; c < columns; c += LANES64) {                                                                     \
            vf64 s = *(const vf64_loose *)(const void *)(sum + c), t = {0};                                                 \
            if (HALVES)                                                                                                     \
                t = *(const vf64_loose *)(const void *)(lower + c);                                                         \
            for (size_t r = 0; r < rows; r++) {                                                                             \
                const char *p = x + r * stride + BYTES * c;                                                                 \
                vf64 v = load_##TYPE(p), high = v;                                                                          \
                if (ahead && BYTES * c % 64 == 0)                                                                           \
                    prefetch(p, SUMS_AHEAD *stride);                                                                        \
                if (HALVES) {                                                                                               \
                    high = (vf64)((vi64)v & (int64_t)(UINT64_MAX << LOWER_BITS));                                           \
                    t += v - high;                                                                                          \
                }                                                                                                           \
                s += high;                                                                                                  \
            }                                                                                                               \
            *(vf64_loose *)(void *)(sum + c) = s;                                                                           \
            if (HALVES)                                                                                                     \
                *(vf64_loose *)(void *)(lower + c) = t;                                                                     \
        }                                                                                                                   \
    }                                                                                                                       \
    static __attribute__((noinline)) void columns_of_##TYPE(const char *x, uint64_t stride, size_t rows, size_t columns,    \
                                                            double *sum, double *lower)                                     \
    {                                                                                                                       \
        size_t r = 0;                                                                                                       \
        for (size_t c = 0; c < columns; c++) {                                                                              \
            sum[c] = -0.0;                                                                                                  \
            lower[c] = 0;                                                                                                   \
        }                                                                                                                   \
        for (; r + ROWS_AT_ONCE + SUMS_AHEAD <= rows; r += ROWS_AT_ONCE)                                                    \
            add_rows_##TYPE(x + r * stride, stride, ROWS_AT_ONCE, columns, sum, lower, true);                               \
        for (; r + ROWS_AT_ONCE <= rows; r += ROWS_AT_ONCE)                                                                 \
            add_rows_##TYPE(x + r * stride, stride, ROWS_AT_ONCE, columns, sum, lower, false);                              \
        add_rows_##TYPE(x + r * stride, stride, rows - r, columns, sum, lower, false);                                      \
    }                                                                                                                       \
    static bool column_sums_##TYPE(const void *x, uint64_t stride, size_t rows, size_t columns, double *sum, double *lower) \
    {                                                                                                                       \
        bool all_finite = true;                                                                                             \
        inexact_clear(sum);                                                                                                 \
        columns_of_##TYPE(x, stride, rows, columns, sum, lower);                                                            \
        if (inexact_seen(sum))                                                                                              \
            return false;                                                                                                   \
        for (size_t c = 0; c < columns; c++)                                                                                \
            all_finite &= is_finite(sum[c]) && is_finite(lower[c]);                                                         \
        return all_finite;                                                                                                  \
    }

ADD_ROWS(f16, 2, false)
ADD_ROWS(bf16, 2, false)
ADD_ROWS(f32, 4, false)
ADD_ROWS(f64, 8, true)
#undef ADD_ROWS

#endif
