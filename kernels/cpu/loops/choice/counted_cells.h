/* count_nonzero, any and all of columns without states: lanes as wide as the elements count zeros. */
#ifndef RK_CPU_COUNTED_CELLS_H
#define RK_CPU_COUNTED_CELLS_H

#include "kernels/cpu/loops/columns/column_batch.h"

enum { COUNTED_ROWS = 252 }; /* a lane of 8 bits counts their zeros */

/* MAGNITUDE: all bits but a float's sign; INF: of integers 0 */
#define COUNTED_CELLS(NAME, W, MAGNITUDE, INF)                                                                                 \
    static __attribute__((noinline)) void zeros_four_##NAME(uint##W##_t *zeros, const char *x, uint64_t stride, size_t n)      \
    {                                                                                                                          \
        const u##W##_loose *a = (const void *)x, *b = (const void *)(x + stride), *e = (const void *)(x + 2 * stride),         \
                           *f = (const void *)(x + 3 * stride);                                                                \
        for (size_t c = 0; c < n; c++)                                                                                         \
            zeros[c] = (uint##W##_t)(zeros[c] + ((a[c] & (uint##W##_t)(MAGNITUDE)) == 0) +                                     \
                                     ((b[c] & (uint##W##_t)(MAGNITUDE)) == 0) + ((e[c] & (uint##W##_t)(MAGNITUDE)) == 0) +     \
                                     ((f[c] & (uint##W##_t)(MAGNITUDE)) == 0));                                                \
    }                                                                                                                          \
    static __attribute__((noinline)) void zeros_one_##NAME(uint##W##_t *zeros, const u##W##_loose *x, size_t n)                \
    {                                                                                                                          \
        for (size_t c = 0; c < n; c++)                                                                                         \
            zeros[c] = (uint##W##_t)(zeros[c] + ((x[c] & (uint##W##_t)(MAGNITUDE)) == 0));                                     \
    }                                                                                                                          \
    /* Cells of all `rows` rows at once */                                                                                     \
    static __attribute__((noinline)) void judge_zeros_##NAME(u64_loose *cells, const uint##W##_t *zeros, size_t rows,          \
                                                             size_t n, int op)                                                 \
    {                                                                                                                          \
        const uint##W##_t all = (uint##W##_t)rows;                                                                             \
        if (op == RP_OP_ANY)                                                                                                   \
            for (size_t c = 0; c < n; c++)                                                                                     \
                cells[c] = zeros[c] != all;                                                                                    \
        else if (op == RP_OP_ALL)                                                                                              \
            for (size_t c = 0; c < n; c++)                                                                                     \
                cells[c] = zeros[c] == 0;                                                                                      \
        else                                                                                                                   \
            for (size_t c = 0; c < n; c++)                                                                                     \
                cells[c] = (uint##W##_t)(all - zeros[c]);                                                                      \
    }                                                                                                                          \
    static                                                                                                                     \
        __attribute__((noinline)) void add_nonzero_##NAME(u64_loose *cells, const uint##W##_t *zeros, uint64_t rows, size_t n) \
    {                                                                                                                          \
        for (size_t c = 0; c < n; c++)                                                                                         \
            cells[c] += rows - zeros[c];                                                                                       \
    }                                                                                                                          \
    static void count_rows_##NAME(uint##W##_t *zeros, const char *x, uint64_t stride, size_t rows, size_t n)                   \
    {                                                                                                                          \
        size_t r = 0;                                                                                                          \
        memset(zeros, 0, n * sizeof *zeros);                                                                                   \
        for (; r + 4 <= rows; r += 4, x += 4 * stride)                                                                         \
            zeros_four_##NAME(zeros, x, stride, n);                                                                            \
        for (; r < rows; r++, x += stride)                                                                                     \
            zeros_one_##NAME(zeros, (const void *)x, n);                                                                       \
    }                                                                                                                          \
    static size_t counted_cells_##NAME(const rk_lot *lot, void *cells, uint16_t *left)                                         \
    {                                                                                                                          \
        const size_t n = lot->columns;                                                                                         \
        const char *x = lot->x;                                                                                                \
        uint##W##_t zeros[RK_LOT];                                                                                             \
        if (INF != 0 && lot->nan != RP_NAN_PROPAGATE)                                                                          \
            return leave_all(left, 0, 0, n);                                                                                   \
        if (lot->rows <= COUNTED_ROWS) {                                                                                       \
            count_rows_##NAME(zeros, x, lot->stride, lot->rows, n);                                                            \
            judge_zeros_##NAME(cells, zeros, lot->rows, n, lot->op);                                                           \
            return 0;                                                                                                          \
        }                                                                                                                      \
        memset(cells, 0, 8 * n);                                                                                               \
        for (size_t r = 0, some; r < lot->rows; r += some, x += some * lot->stride) {                                          \
            some = lot->rows - r < COUNTED_ROWS ? lot->rows - r : COUNTED_ROWS;                                                \
            count_rows_##NAME(zeros, x, lot->stride, some, n);                                                                 \
            add_nonzero_##NAME(cells, zeros, some, n);                                                                         \
        }                                                                                                                      \
        judge_counts(cells, n, lot->op, lot->rows);                                                                            \
        return 0;                                                                                                              \
    }

/* Counts to what `any` and `all` want */
ONE_COPY void judge_counts(u64_loose *cells, size_t n, int op, uint64_t rows)
{
    if (op == RP_OP_ANY)
        for (size_t c = 0; c < n; c++)
            cells[c] = cells[c] != 0;
    else if (op == RP_OP_ALL)
        for (size_t c = 0; c < n; c++)
            cells[c] = cells[c] == rows;
}

COUNTED_CELLS(8, 8, -1, 0)
COUNTED_CELLS(16, 16, -1, 0)
COUNTED_CELLS(32, 32, -1, 0)
COUNTED_CELLS(64, 64, -1, 0)
COUNTED_CELLS(f16, 16, INT16_MAX, 1)
COUNTED_CELLS(f32, 32, INT32_MAX, 1)
COUNTED_CELLS(f64, 64, INT64_MAX, 1)
#undef COUNTED_CELLS

#endif
