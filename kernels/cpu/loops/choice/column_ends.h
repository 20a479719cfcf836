/* The least and the largest element of neighbouring columns: row by row, so that nothing is transposed. Elements are compared
 * by their keys (choose.h). */
#ifndef RK_CPU_COLUMN_ENDS_H
#define RK_CPU_COLUMN_ENDS_H

#include "kernels/cpu/loops/choice/chosen_cells.h"

enum { ENDS_AHEAD = 16 }; /* rows to prefetch */

#define INTERLEAVE(W)                                                                        \
    ONE_COPY void interleave_##W(const void *least, const void *most, size_t n, void *pairs) \
    {                                                                                        \
        const u##W##_loose *a = least, *b = most;                                            \
        u##W##_loose *to = pairs;                                                            \
        for (size_t c = 0; c < n; c++) {                                                     \
            to[2 * c] = a[c];                                                                \
            to[2 * c + 1] = b[c];                                                            \
        }                                                                                    \
    }
INTERLEAVE(8)
INTERLEAVE(16)
INTERLEAVE(32)
INTERLEAVE(64)
#undef INTERLEAVE

/* NAME, W, INF, TURN: ORDERED_TYPES (choose.h). */
#define COLUMN_ENDS(NAME, W, INF, TURN)                                                                                     \
    /* Both best keys with those of up to four rows. It does not matter if one is taken twice. */                           \
    ONE_COPY void extend_##NAME(int##W##_t *least, int##W##_t *most, const char *x, uint64_t stride, size_t rows, size_t n, \
                                int##W##_t nan_key)                                                                         \
    {                                                                                                                       \
        const u##W##_loose *row[4];                                                                                         \
        four_rows_##W(row, x, stride, rows);                                                                                \
        for (size_t c = 0; c < n; c++) {                                                                                    \
            int##W##_t down = least[c], up = most[c];                                                                       \
            for (size_t r = 0; r < 4; r++) {                                                                                \
                const int##W##_t a = key_##W(row[r][c], INF, TURN, LEAST, nan_key),                                         \
                                 b = key_##W(row[r][c], INF, TURN, LARGEST, nan_key);                                       \
                down = a > down ? a : down;                                                                                 \
                up = b > up ? b : up;                                                                                       \
            }                                                                                                               \
            least[c] = down;                                                                                                \
            most[c] = up;                                                                                                   \
        }                                                                                                                   \
    }                                                                                                                       \
    static bool column_ends_##NAME(const void *data, uint64_t stride, size_t rows, size_t columns, void *pairs)             \
    {                                                                                                                       \
        const char *x = data;                                                                                               \
        bool numbers = true;                                                                                                \
        int##W##_t least[RK_COLUMNS_TOGETHER], most[RK_COLUMNS_TOGETHER];                                                   \
        uint##W##_t end[2][RK_COLUMNS_TOGETHER];                                                                            \
        no_rows_##NAME(least, columns);                                                                                     \
        no_rows_##NAME(most, columns);                                                                                      \
        for (size_t r = 0; r < rows; r += 4, x += 4 * stride) {                                                             \
            for (size_t i = 0; i < 4; i++)                                                                                  \
                for (size_t at = 0; at < columns * (W / 8); at += 64)                                                       \
                    prefetch(x + i * stride + at, ENDS_AHEAD * stride);                                                     \
            extend_##NAME(least, most, x, stride, rows - r, columns, INT##W##_MAX);                                         \
        }                                                                                                                   \
        for (size_t c = 0; INF != 0 && c < columns; c++)                                                                    \
            numbers &= most[c] != INT##W##_MAX;                                                                             \
        elements_##NAME((u##W##_loose *)end[LEAST], least, columns, false);                                                 \
        elements_##NAME((u##W##_loose *)end[LARGEST], most, columns, true);                                                 \
        interleave_##W(end[LEAST], end[LARGEST], columns, pairs);                                                           \
        return numbers;                                                                                                     \
    }

ORDERED_TYPES(COLUMN_ENDS)
#undef COLUMN_ENDS

#endif
