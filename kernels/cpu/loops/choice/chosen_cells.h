/* min and max of columns without states: the largest key of each (choose.h), four rows at a time. */
#ifndef RK_CPU_CHOSEN_CELLS_H
#define RK_CPU_CHOSEN_CELLS_H

#include "kernels/cpu/loops/choice/choose.h"
#include "kernels/cpu/loops/columns/column_batch.h"

INLINE const char *line_of(const rk_lot *lot, size_t c) { return (const char *)lot->x + c * lot->stride; }

/* NAME, W, INF, TURN: ORDERED_TYPES (choose.h). A NaN has the largest key, or the smallest one if it is left out. */
#define CHOSEN_CELLS(NAME, W, INF, TURN)                                                                                     \
    /* With the keys of up to four rows. It does not matter if one is taken twice. */                                        \
    INLINE void choose_rows_##NAME(int##W##_t *best, const char *x, uint64_t stride, size_t rows, size_t n, direction d,     \
                                   int##W##_t nan_key)                                                                       \
    {                                                                                                                        \
        const u##W##_loose *row[4];                                                                                          \
        four_rows_##W(row, x, stride, rows);                                                                                 \
        for (size_t c = 0; c < n; c++) {                                                                                     \
            const int##W##_t a = key_##W(row[0][c], INF, TURN, d, nan_key), b = key_##W(row[1][c], INF, TURN, d, nan_key);   \
            const int##W##_t e = key_##W(row[2][c], INF, TURN, d, nan_key), f = key_##W(row[3][c], INF, TURN, d, nan_key);   \
            const int##W##_t p = a > b ? a : b, q = e > f ? e : f, most = p > q ? p : q;                                     \
            best[c] = most > best[c] ? most : best[c];                                                                       \
        }                                                                                                                    \
    }                                                                                                                        \
    static __attribute__((noinline)) void least_rows_##NAME(int##W##_t *best, const char *x, uint64_t stride, size_t rows,   \
                                                            size_t n, int##W##_t nan_key)                                    \
    {                                                                                                                        \
        choose_rows_##NAME(best, x, stride, rows, n, LEAST, nan_key);                                                        \
    }                                                                                                                        \
    static __attribute__((noinline)) void largest_rows_##NAME(int##W##_t *best, const char *x, uint64_t stride, size_t rows, \
                                                              size_t n, int##W##_t nan_key)                                  \
    {                                                                                                                        \
        choose_rows_##NAME(best, x, stride, rows, n, LARGEST, nan_key);                                                      \
    }                                                                                                                        \
    /* Keys of the only row, whose elements are both ends */                                                                 \
    ONE_COPY void only_row_##NAME(int##W##_t *best, const u##W##_loose *x, size_t n, int##W##_t nan_key)                     \
    {                                                                                                                        \
        for (size_t c = 0; c < n; c++)                                                                                       \
            best[c] = key_##W(x[c], INF, TURN, LARGEST, nan_key);                                                            \
    }                                                                                                                        \
    ONE_COPY void no_rows_##NAME(int##W##_t *best, size_t n)                                                                 \
    {                                                                                                                        \
        for (size_t c = 0; c < n; c++)                                                                                       \
            best[c] = INT##W##_MIN;                                                                                          \
    }                                                                                                                        \
    INLINE uint##W##_t element_##NAME(int##W##_t key, bool largest)                                                          \
    {                                                                                                                        \
        const int##W##_t k = (int##W##_t)(key ^ (largest ? 0 : -1));                                                         \
        if (INF == 0)                                                                                                        \
            return (uint##W##_t)(k ^ (int##W##_t)(TURN));                                                                    \
        return key == INT##W##_MAX ? (uint##W##_t)(INF | INF >> 1) : (uint##W##_t)(k ^ ((k >> (W - 1)) & INT##W##_MAX));     \
    }                                                                                                                        \
    ONE_COPY void elements_##NAME(u##W##_loose *out, const int##W##_t *best, size_t n, bool largest)                         \
    {                                                                                                                        \
        for (size_t c = 0; c < n; c++)                                                                                       \
            out[c] = element_##NAME(best[c], largest);                                                                       \
    }                                                                                                                        \
    ONE_COPY void integers_##NAME(u64_loose *out, const int##W##_t *best, size_t n, bool largest)                            \
    {                                                                                                                        \
        for (size_t c = 0; c < n; c++) {                                                                                     \
            const uint##W##_t v = element_##NAME(best[c], largest);                                                          \
            out[c] = TURN == 0 ? (uint64_t)(int64_t)(int##W##_t)v : v;                                                       \
        }                                                                                                                    \
    }                                                                                                                        \
    ONE_COPY void put_chosen_##NAME(const rk_lot *lot, const int##W##_t *best, void *cells, bool largest)                    \
    {                                                                                                                        \
        uint##W##_t v[RK_LOT];                                                                                               \
        if (INF == 0) {                                                                                                      \
            integers_##NAME(cells, best, lot->columns, largest);                                                             \
        } else if (lot->out == lot->dtype) {                                                                                 \
            elements_##NAME(cells, best, lot->columns, largest);                                                             \
        } else {                                                                                                             \
            elements_##NAME((u##W##_loose *)v, best, lot->columns, largest);                                                 \
            convert_cells(lot->dtype, v, lot->columns, lot->out, cells);                                                     \
        }                                                                                                                    \
    }                                                                                                                        \
    /* Columns whose key is that of no number are left. */                                                                   \
    ONE_COPY size_t leave_key_##NAME(const int##W##_t *best, size_t n, int##W##_t key, uint16_t *left)                       \
    {                                                                                                                        \
        uint8_t marks[RK_LOT];                                                                                               \
        for (size_t c = 0; c < n; c++)                                                                                       \
            marks[c] = best[c] == key;                                                                                       \
        return leave_marked(left, 0, 0, n, marks);                                                                           \
    }                                                                                                                        \
    /* Contiguous lines */                                                                                                   \
    static size_t chosen_lines_##NAME(const rk_lot *lot, void *cells, uint16_t *left)                                        \
    {                                                                                                                        \
        const bool largest = lot->op == RP_OP_MAX, nan_wins = lot->nan == RP_NAN_PROPAGATE;                                  \
        int##W##_t best[RK_LOT];                                                                                             \
        size_t k = 0;                                                                                                        \
        for (size_t c = 0; c < lot->columns; c++) {                                                                          \
            int64_t key;                                                                                                     \
            if ((largest ? largest_##NAME : least_##NAME).best(line_of(lot, c), lot->rows, nan_wins, &key) && !nan_wins)     \
                left[k++] = (uint16_t)c;                                                                                     \
            best[c] = (int##W##_t)key;                                                                                       \
        }                                                                                                                    \
        put_chosen_##NAME(lot, best, cells, largest);                                                                        \
        return k;                                                                                                            \
    }                                                                                                                        \
    static size_t chosen_cells_##NAME(const rk_lot *lot, void *cells, uint16_t *left)                                        \
    {                                                                                                                        \
        const bool largest = lot->op != RP_OP_MIN || lot->rows == 1, omit = lot->nan == RP_NAN_OMIT;                         \
        const int##W##_t nan_key = omit ? INT##W##_MIN : INT##W##_MAX;                                                       \
        const char *x = lot->x;                                                                                              \
        int##W##_t best[RK_LOT];                                                                                             \
        if (lot->lines)                                                                                                      \
            return chosen_lines_##NAME(lot, cells, left);                                                                    \
        if (lot->rows == 1)                                                                                                  \
            only_row_##NAME(best, lot->x, lot->columns, nan_key);                                                            \
        else                                                                                                                 \
            no_rows_##NAME(best, lot->columns);                                                                              \
        for (size_t r = lot->rows == 1; r < lot->rows; r += 4, x += 4 * lot->stride)                                         \
            (largest ? largest_rows_##NAME : least_rows_##NAME)(best, x, lot->stride, lot->rows - r, lot->columns, nan_key); \
        put_chosen_##NAME(lot, best, cells, largest);                                                                        \
        if (INF == 0 || lot->nan == RP_NAN_PROPAGATE)                                                                        \
            return 0;                                                                                                        \
        return leave_key_##NAME(best, lot->columns, nan_key, left);                                                          \
    }
ORDERED_TYPES(CHOSEN_CELLS)
#undef CHOSEN_CELLS

#endif
