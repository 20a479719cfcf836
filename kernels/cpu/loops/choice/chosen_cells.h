/* min and max of columns without states: the largest key of each (choose.h), four rows at a time. f32 and f64 are compared as
 * numbers: vectors have maxima of these, and keys would have to be made. */
#ifndef RK_CPU_CHOSEN_CELLS_H
#define RK_CPU_CHOSEN_CELLS_H

#include "kernels/cpu/loops/choice/choose.h"
#include "kernels/cpu/loops/columns/column_batch.h"

INLINE const char *line_of(const rk_lot *lot, size_t c) { return (const char *)lot->x + c * lot->stride; }

#define NAN_32 UINT32_C(0x7fc00000)
#define NAN_64 ((uint64_t)0x7ff8 << 48)

/* further_rows: the ends of `from`, which may be `best`, and of up to four rows; it does not matter if one is taken twice. To
 * maxima all zeros are equal: the largest one is -0 if all elements have their sign set, the least one if any has. Of a NaN and
 * another element the second one comes out of `further`, as vectors do it. */
#define FLOAT_COLUMNS(W, T)                                                                                                    \
    INLINE T further_##W(T a, T b, bool largest) { return (largest ? a > b : a < b) ? a : b; }                                 \
    ONE_COPY void only_numbers_##W(u##W##_loose *best, const u##W##_loose *x, size_t n)                                        \
    {                                                                                                                          \
        for (size_t c = 0; c < n; c++)                                                                                         \
            best[c] = f##W##_of(x[c]) != f##W##_of(x[c]) ? NAN_##W : x[c];                                                     \
    }                                                                                                                          \
    INLINE void further_rows_##W(u##W##_loose *best, const u##W##_loose *from, const char *x, uint64_t stride, size_t rows,    \
                                 size_t n, bool largest)                                                                       \
    {                                                                                                                          \
        const u##W##_loose *row[4];                                                                                            \
        four_rows_##W(row, x, stride, rows);                                                                                   \
        for (size_t c = 0; c < n; c++) {                                                                                       \
            const uint##W##_t i = row[0][c], j = row[1][c], k = row[2][c], l = row[3][c], o = from[c];                         \
            const T a = f##W##_of(i), b = f##W##_of(j), e = f##W##_of(k), f = f##W##_of(l), m = f##W##_of(o);                  \
            const T end = further_##W(further_##W(a, b, largest), further_##W(further_##W(e, f, largest), m, largest),         \
                                      largest);                                                                                \
            const uint##W##_t signs = largest ? i & j & k & l & o : i | j | k | l | o;                                         \
            const uint##W##_t found = end == 0 ? signs & (uint##W##_t)INT##W##_MIN : bits_of_f##W(end);                        \
            best[c] = (__builtin_isunordered(a, b) | __builtin_isunordered(e, f) | (m != m)) ? NAN_##W : found;                \
        }                                                                                                                      \
    }                                                                                                                          \
    ONE_COPY void least_numbers_##W(u##W##_loose *best, const u##W##_loose *from, const char *x, uint64_t stride, size_t rows, \
                                    size_t n)                                                                                  \
    {                                                                                                                          \
        further_rows_##W(best, from, x, stride, rows, n, false);                                                               \
    }                                                                                                                          \
    ONE_COPY void largest_numbers_##W(u##W##_loose *best, const u##W##_loose *from, const char *x, uint64_t stride,            \
                                      size_t rows, size_t n)                                                                   \
    {                                                                                                                          \
        further_rows_##W(best, from, x, stride, rows, n, true);                                                                \
    }                                                                                                                          \
    static size_t chosen_numbers_##W(const rk_lot *lot, void *cells, uint16_t *left)                                           \
    {                                                                                                                          \
        uint##W##_t room[RK_LOT];                                                                                              \
        uint8_t marks[RK_LOT];                                                                                                 \
        const size_t n = lot->columns;                                                                                         \
        const u##W##_loose *from = lot->x;                                                                                     \
        u##W##_loose *best = lot->out == lot->dtype ? cells : (u##W##_loose *)room;                                            \
        if (lot->rows == 1)                                                                                                    \
            only_numbers_##W(best, from, n);                                                                                   \
        for (size_t r = 1; r < lot->rows; r += 4, from = best)                                                                 \
            (lot->op == RP_OP_MIN ? least_numbers_##W : largest_numbers_##W)(                                                  \
                best, from, (const char *)lot->x + r * lot->stride, lot->stride, lot->rows - r, n);                            \
        if (lot->out != lot->dtype)                                                                                            \
            convert_cells(lot->dtype, best, n, lot->out, cells);                                                               \
        if (lot->nan == RP_NAN_PROPAGATE)                                                                                      \
            return 0;                                                                                                          \
        for (size_t c = 0; c < n; c++)                                                                                         \
            marks[c] = f##W##_of(best[c]) != f##W##_of(best[c]);                                                               \
        return leave_marked(left, 0, 0, n, marks);                                                                             \
    }
FLOAT_COLUMNS(32, float)
FLOAT_COLUMNS(64, double)
#undef FLOAT_COLUMNS

#define chosen_numbers_8(lot, cells, left) 0
#define chosen_numbers_16(lot, cells, left) 0

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
    /* The only row as cells of its type. memcpy takes less time than a loop. */                                             \
    ONE_COPY void copy_elements_##NAME(u##W##_loose *out, const u##W##_loose *x, size_t n)                                   \
    {                                                                                                                        \
        if (INF == 0)                                                                                                        \
            memcpy(out, x, n * sizeof *x);                                                                                   \
        for (size_t c = 0; INF != 0 && c < n; c++)                                                                           \
            out[c] = (x[c] & INT##W##_MAX) > (INF) ? (uint##W##_t)(INF | INF >> 1) : x[c];                                   \
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
        if (lot->out == lot->dtype) {                                                                                        \
            elements_##NAME(cells, best, lot->columns, largest);                                                             \
        } else if (INF == 0) {                                                                                               \
            integers_##NAME(cells, best, lot->columns, largest);                                                             \
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
        if (lot->rows == 1 && lot->out == lot->dtype && (INF == 0 || lot->nan == RP_NAN_PROPAGATE)) {                        \
            copy_elements_##NAME(cells, lot->x, lot->columns);                                                               \
            return 0;                                                                                                        \
        }                                                                                                                    \
        if (INF != 0 && W >= 32 && lot->nan != RP_NAN_OMIT)                                                                  \
            return chosen_numbers_##W(lot, cells, left);                                                                     \
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
