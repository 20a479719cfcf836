/* Sums of neighbouring columns: plain additions, a lane for each column, so that rows are read in order and nothing is
 * transposed. The inexact flag shows afterwards whether they were exact (inexact.h). An f64 is added in two halves, as in
 * sum_f64.h. */
#ifndef RK_CPU_COLUMN_SUMS_H
#define RK_CPU_COLUMN_SUMS_H

#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/sums/sum_f32.h"

enum { ROWS_AT_ONCE = 4, SUMS_AHEAD = 16 }; /* rows: added before a sum is stored; prefetched */

/* Add rows [0, rows), which lie `stride` bytes apart. `halves`: of f64, whose lower halves go to `lower`. `count`: NULL, or
 * NaNs are left out, and others counted. `ahead`: rows that come later are prefetched. */
#define ADD_ROWS(TYPE, BYTES, HALVES)                                                                                       \
    INLINE void add_rows_##TYPE(const char *x, uint64_t stride, size_t rows, size_t columns, double *sum, double *lower,    \
                                double *count, bool ahead, bool first)                                                      \
    {                                                                                                                       \
        for (size_t c = 0; c < columns; c += LANES64) {                                                                     \
            vf64 s = no_sum(), t = {0}, k = {0};                                                                            \
            if (!first)                                                                                                     \
                s = *(const vf64_loose *)(const void *)(sum + c);                                                           \
            if (HALVES && !first)                                                                                           \
                t = *(const vf64_loose *)(const void *)(lower + c);                                                         \
            if (count && !first)                                                                                            \
                k = *(const vf64_loose *)(const void *)(count + c);                                                         \
            for (size_t r = 0; r < rows; r++) {                                                                             \
                const char *p = x + r * stride + BYTES * c;                                                                 \
                vf64 v = load_##TYPE(p), high;                                                                              \
                if (ahead && BYTES * c % 64 == 0)                                                                           \
                    prefetch(p, SUMS_AHEAD *stride);                                                                        \
                if (count) {                                                                                                \
                    const vi64 number = v == v;                                                                             \
                    k += (vf64)((vi64)((vf64){0} + 1) & number);                                                            \
                    v = (vf64)(((vi64)v & number) | (~number & INT64_MIN)); /* -0.0 changes no sum */                       \
                }                                                                                                           \
                high = v;                                                                                                   \
                if (HALVES) {                                                                                               \
                    high = (vf64)((vi64)v & (int64_t)(UINT64_MAX << LOWER_BITS));                                           \
                    t += v - high;                                                                                          \
                }                                                                                                           \
                s += high;                                                                                                  \
            }                                                                                                               \
            *(vf64_loose *)(void *)(sum + c) = s;                                                                           \
            if (HALVES)                                                                                                     \
                *(vf64_loose *)(void *)(lower + c) = t;                                                                     \
            if (count)                                                                                                      \
                *(vf64_loose *)(void *)(count + c) = k;                                                                     \
        }                                                                                                                   \
    }                                                                                                                       \
    INLINE void sum_rows_##TYPE(const char *x, uint64_t stride, size_t rows, size_t columns, double *sum, double *lower,    \
                                double *count)                                                                              \
    {                                                                                                                       \
        const size_t few = rows % ROWS_AT_ONCE;                                                                             \
        size_t r = few ? few : ROWS_AT_ONCE;                                                                                \
        if (few == 1)                                                                                                       \
            add_rows_##TYPE(x, stride, 1, columns, sum, lower, count, false, true);                                         \
        else if (few == 2)                                                                                                  \
            add_rows_##TYPE(x, stride, 2, columns, sum, lower, count, false, true);                                         \
        else if (few == 3)                                                                                                  \
            add_rows_##TYPE(x, stride, 3, columns, sum, lower, count, false, true);                                         \
        else                                                                                                                \
            add_rows_##TYPE(x, stride, ROWS_AT_ONCE, columns, sum, lower, count, false, true);                              \
        for (; r + ROWS_AT_ONCE + SUMS_AHEAD <= rows; r += ROWS_AT_ONCE)                                                    \
            add_rows_##TYPE(x + r * stride, stride, ROWS_AT_ONCE, columns, sum, lower, count, true, false);                 \
        for (; r < rows; r += ROWS_AT_ONCE)                                                                                 \
            add_rows_##TYPE(x + r * stride, stride, ROWS_AT_ONCE, columns, sum, lower, count, false, false);                \
    }                                                                                                                       \
    static __attribute__((noinline)) void columns_of_##TYPE(const char *x, uint64_t stride, size_t rows, size_t columns,    \
                                                            double *sum, double *lower)                                     \
    {                                                                                                                       \
        sum_rows_##TYPE(x, stride, rows, columns, sum, lower, NULL);                                                        \
    }                                                                                                                       \
    static __attribute__((noinline)) void numbers_of_##TYPE(const char *x, uint64_t stride, size_t rows, size_t columns,    \
                                                            double *sum, double *lower, double *count)                      \
    {                                                                                                                       \
        sum_rows_##TYPE(x, stride, rows, columns, sum, lower, count);                                                       \
    }                                                                                                                       \
    static bool column_sums_##TYPE(const void *x, uint64_t stride, size_t rows, size_t columns, double *sum, double *lower) \
    {                                                                                                                       \
        bool all_finite = true;                                                                                             \
        memset(lower, 0, columns * sizeof *lower);                                                                          \
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
