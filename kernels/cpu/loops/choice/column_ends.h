/* The least and the largest element of neighbouring columns: row by row, so that nothing is transposed. Floats are compared as
 * integers of their bits (choose.h explains it). */
#ifndef RK_CPU_COLUMN_ENDS_H
#define RK_CPU_COLUMN_ENDS_H

#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/choice/choose.h"

enum { ROWS_TO_COME = 16 }; /* rows to prefetch */

/* NAME, W, INF, TURN: ORDERED_TYPES (choose.h). */
#define COLUMN_ENDS(NAME, W, INF, TURN)                                                                              \
    typedef struct range_##NAME {                                                                                    \
        int##W##_t least[RK_COLUMNS_TOGETHER], most[RK_COLUMNS_TOGETHER]; /* as signed integers */                   \
        uint##W##_t top[RK_COLUMNS_TOGETHER];                             /* as unsigned integers; of floats only */ \
    } range_##NAME;                                                                                                  \
    static __attribute__((noinline)) void extend_##NAME(range_##NAME *e, const u##W##_loose *x, size_t columns)      \
    {                                                                                                                \
        for (size_t c = 0; c < columns; c++) {                                                                       \
            int##W##_t v = (int##W##_t)(x[c] ^ (uint##W##_t)(TURN));                                                 \
            e->least[c] = v < e->least[c] ? v : e->least[c];                                                         \
            e->most[c] = v > e->most[c] ? v : e->most[c];                                                            \
            if (INF != 0)                                                                                            \
                e->top[c] = x[c] > e->top[c] ? x[c] : e->top[c];                                                     \
        }                                                                                                            \
    }                                                                                                                \
    static bool column_ends_##NAME(const void *data, uint64_t stride, size_t rows, size_t columns, void *pairs)      \
    {                                                                                                                \
        const uint##W##_t sign = (uint##W##_t)INT##W##_MIN;                                                          \
        const char *x = data;                                                                                        \
        u##W##_loose *out = pairs;                                                                                   \
        bool numbers = true;                                                                                         \
        range_##NAME e;                                                                                              \
        for (size_t c = 0; c < columns; c++) {                                                                       \
            e.least[c] = INT##W##_MAX;                                                                               \
            e.most[c] = INT##W##_MIN;                                                                                \
            e.top[c] = 0;                                                                                            \
        }                                                                                                            \
        for (size_t r = 0; r < rows; r++, x += stride) {                                                             \
            for (size_t at = 0; at < columns * (W / 8); at += 64)                                                    \
                prefetch(x + at, ROWS_TO_COME * stride);                                                             \
            extend_##NAME(&e, (const void *)x, columns);                                                             \
        }                                                                                                            \
        for (size_t c = 0; c < columns; c++) {                                                                       \
            uint##W##_t least = (uint##W##_t)e.least[c], most = (uint##W##_t)e.most[c];                              \
            numbers &= INF == 0 || (e.most[c] <= (int##W##_t)(INF) && e.top[c] <= ((INF) | sign));                   \
            out[2 * c] = INF == 0 ? least ^ (uint##W##_t)(TURN) : e.top[c] < sign ? least : e.top[c];                \
            out[2 * c + 1] = INF == 0 ? most ^ (uint##W##_t)(TURN) : most < sign ? most : least;                     \
        }                                                                                                            \
        return numbers;                                                                                              \
    }

ORDERED_TYPES(COLUMN_ENDS)
#undef COLUMN_ENDS

#endif
