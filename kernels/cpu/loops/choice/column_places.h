/* The best elements of neighbouring columns with their rows, and how many elements are zero: row by row, so that nothing is
 * transposed. Elements are compared by their keys (choose.h), among which NaNs have the largest. */
#ifndef RK_CPU_COLUMN_PLACES_H
#define RK_CPU_COLUMN_PLACES_H

#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/choice/choose.h"
#include "kernels/cpu/loops/columns/column_batch.h"

enum { PLACED_AHEAD = 16 }; /* rows to prefetch */

/* NAME, W, INF, TURN: ORDERED_TYPES (choose.h). Rows and zeros fit W bits. */
#define COLUMN_PLACES(NAME, W, INF, TURN)                                                                                      \
    /* The best keys so far and their rows, with those of up to four rows. One that is taken twice is not better then. */      \
    INLINE void place_rows_##NAME(int##W##_t *best, uint##W##_t *place, const char *x, uint64_t stride, size_t rows, size_t n, \
                                  uint##W##_t row, direction d, int##W##_t nan_key)                                            \
    {                                                                                                                          \
        const u##W##_loose *at[4];                                                                                             \
        four_rows_##W(at, x, stride, rows);                                                                                    \
        for (size_t c = 0; c < n; c++) {                                                                                       \
            int##W##_t most = best[c];                                                                                         \
            uint##W##_t where = place[c];                                                                                      \
            for (uint##W##_t r = 0; r < 4; r++) {                                                                              \
                const int##W##_t k = key_##W(at[r][c], INF, TURN, d, nan_key);                                                 \
                where = k > most ? (uint##W##_t)(row + r) : where;                                                             \
                most = k > most ? k : most;                                                                                    \
            }                                                                                                                  \
            best[c] = most;                                                                                                    \
            place[c] = where;                                                                                                  \
        }                                                                                                                      \
    }                                                                                                                          \
    ONE_COPY void place_##NAME(int##W##_t *best, uint##W##_t *place, const char *x, uint64_t stride, size_t rows, size_t n,    \
                               uint##W##_t row, bool largest, int##W##_t nan_key)                                              \
    {                                                                                                                          \
        if (largest)                                                                                                           \
            place_rows_##NAME(best, place, x, stride, rows, n, row, LARGEST, nan_key);                                         \
        else                                                                                                                   \
            place_rows_##NAME(best, place, x, stride, rows, n, row, LEAST, nan_key);                                           \
    }                                                                                                                          \
    typedef struct placed_##NAME {                                                                                             \
        int##W##_t key[2][RK_COLUMNS_TOGETHER];                                                                                \
        uint##W##_t row[2][RK_COLUMNS_TOGETHER], zeros[RK_COLUMNS_TOGETHER];                                                   \
    } placed_##NAME;                                                                                                           \
    static __attribute__((noinline)) void count_zeros_##NAME(placed_##NAME *e, const u##W##_loose *x, size_t columns)          \
    {                                                                                                                          \
        for (size_t c = 0; c < columns; c++)                                                                                   \
            e->zeros[c] = (uint##W##_t)(e->zeros[c] + ((x[c] & (uint##W##_t)(INF == 0 ? -1 : INT##W##_MAX)) == 0));            \
    }                                                                                                                          \
    /* The bits of the element that has a key */                                                                               \
    INLINE uint##W##_t of_key_##NAME(int##W##_t key, direction d)                                                              \
    {                                                                                                                          \
        const int##W##_t k = d == LEAST ? (int##W##_t) ~key : key;                                                             \
        return INF == 0 ? (uint##W##_t)(k ^ (int##W##_t)(TURN)) : (uint##W##_t)(k ^ ((k >> (W - 1)) & INT##W##_MAX));          \
    }                                                                                                                          \
    static bool column_places_##NAME(const void *data, uint64_t stride, size_t rows, size_t columns, int wanted,               \
                                     rk_column_places *out)                                                                    \
    {                                                                                                                          \
        const char *x = data;                                                                                                  \
        placed_##NAME e;                                                                                                       \
        bool numbers = true;                                                                                                   \
        for (size_t c = 0; c < columns; c++) {                                                                                 \
            e.key[LEAST][c] = e.key[LARGEST][c] = INT##W##_MIN;                                                                \
            e.row[LEAST][c] = e.row[LARGEST][c] = e.zeros[c] = 0;                                                              \
        }                                                                                                                      \
        for (size_t r = 0; r < rows; r += 4, x += 4 * stride) {                                                                \
            const size_t some = rows - r < 4 ? rows - r : 4;                                                                   \
            for (size_t i = 0; i < some; i++)                                                                                  \
                for (size_t at = 0; at < columns * (W / 8); at += 64)                                                          \
                    prefetch(x + i * stride + at, PLACED_AHEAD * stride);                                                      \
            for (int d = LEAST; d <= LARGEST; d++)                                                                             \
                if (wanted & 1 << d)                                                                                           \
                    place_##NAME(e.key[d], e.row[d], x, stride, some, columns, (uint##W##_t)r, d == LARGEST, INT##W##_MAX);    \
            for (size_t i = 0; wanted & RK_WANT_ZEROS && i < some; i++)                                                        \
                count_zeros_##NAME(&e, (const void *)(x + i * stride), columns);                                               \
        }                                                                                                                      \
        for (size_t c = 0; c < columns; c++) {                                                                                 \
            numbers &= INF == 0 || (e.key[LEAST][c] < INT##W##_MAX && e.key[LARGEST][c] < INT##W##_MAX);                       \
            out->bits[LEAST][c] = of_key_##NAME(e.key[LEAST][c], LEAST);                                                       \
            out->bits[LARGEST][c] = of_key_##NAME(e.key[LARGEST][c], LARGEST);                                                 \
            out->row[LEAST][c] = e.row[LEAST][c];                                                                              \
            out->row[LARGEST][c] = e.row[LARGEST][c];                                                                          \
            out->zeros[c] = e.zeros[c];                                                                                        \
        }                                                                                                                      \
        return numbers;                                                                                                        \
    }

ORDERED_TYPES(COLUMN_PLACES)
#undef COLUMN_PLACES

#endif
