/* Sums and sums of squares of neighbouring columns: a lane for each column, so that rows are read in order and nothing is
 * transposed. As in squares_silent.h, only additions to anchored sums round silently. What they round off is known exactly and
 * goes to the next level; all other operations raise the inexact flag if they round. So if it is not raised, the levels' sum is
 * exact for any elements.
 *
 * Each column has anchors of its own, from its first elements. They only make exactness likely. */
#ifndef RK_CPU_COLUMN_SQUARES_H
#define RK_CPU_COLUMN_SQUARES_H

#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/squares/squares.h"

#if VB == 64 /* other instruction sets have no such instructions */

enum {
    SQUARED_AT_ONCE = 8, /* rows whose squares are added before the sums are stored */
    ANCHORING_ROWS = 8,
    SQUARED_AHEAD = 16, /* rows to prefetch */
    ANCHOR_MARGIN = 4   /* bits of squares beyond those of the first rows */
};

/* Per column: the sum, squares at falling levels, and each level's anchor. */
typedef struct column_levels {
    double part[RK_SQUARE_PARTS][RK_COLUMNS_TOGETHER];
    double start[RK_SQUARE_PARTS][RK_COLUMNS_TOGETHER];
} column_levels;

INLINE vf64 get_level(const double *p) { return *(const vf64_loose *)(const void *)p; }
INLINE void put_level(double *p, vf64 v) { *(vf64_loose *)(void *)p = v; }

/* What is left of v after the levels [from, to). */
INLINE vf64 add_to_levels(vf64 *s, int from, int to, vf64 v)
{
    for (int l = from; l < to; l++)
        v = add_anchored(&s[l], v);
    return v;
}

/* The parts of f64: lower sum, sum, three levels of squares, rest. The square is p + e, and e begins at the second level. */
INLINE void add_f64_fused(vf64 *s, vf64 v)
{
    vf64 p = square_silently(v), e = square_less(v, p);
    s[RK_COLUMN_LOWER] += add_anchored(&s[RK_COLUMN_SUM], v);
    s[RK_COLUMN_REST] += add_to_levels(s, RK_COLUMN_SQUARES, RK_COLUMN_REST, p);
    s[RK_COLUMN_REST] += add_to_levels(s, RK_COLUMN_SQUARES + 1, RK_COLUMN_REST, e);
}

/* The same of narrower types, whose square is one f64: `levels` of squares have anchors. */
INLINE void add_f32_fused(vf64 *s, vf64 v, int levels)
{
    vf64 *square = s + RK_COLUMN_SQUARES, with = add_square_silently(v, *square), rest = square_less(v, with - *square);
    *square = with;
    s[RK_COLUMN_LOWER] += v;
    s[RK_COLUMN_REST] += add_to_levels(s, RK_COLUMN_SQUARES + 1, RK_COLUMN_SQUARES + levels, rest);
}

#define COLUMN_SQUARES(TYPE, BYTES, LEVELS)                                                                                    \
    /* Which parts does the type use? */                                                                                       \
    INLINE bool has_part_##TYPE(int part)                                                                                      \
    {                                                                                                                          \
        return part == RK_COLUMN_LOWER || part == RK_COLUMN_REST || (part == RK_COLUMN_SUM && BYTES == 8) ||                   \
               (part >= RK_COLUMN_SQUARES && part < RK_COLUMN_SQUARES + LEVELS);                                               \
    }                                                                                                                          \
    static __attribute__((noinline)) void anchor_columns_##TYPE(const char *x, uint64_t stride, size_t rows, size_t columns,   \
                                                                column_levels *l)                                              \
    {                                                                                                                          \
        const int share = log2_up(rows);                                                                                       \
        const vf64 half = (vf64){0} + 1.5, top = (vf64){0} + f64_of((uint64_t)(1023 + share + ANCHOR_MARGIN) << 52),           \
                   down = (vf64){0} + f64_of((uint64_t)(1023 + share + 1 - 53) << 52);                                         \
        const vi64 power = (vi64){0} + ((int64_t)0x7ff << 52);                                                                 \
        for (size_t c = 0; c < columns; c += LANES64) {                                                                        \
            vf64 most = {0};                                                                                                   \
            for (size_t r = 0; r < rows && r < ANCHORING_ROWS; r++)                                                            \
                most = max_f64(most, (vf64)((vi64)load_##TYPE(x + r * stride + BYTES * c) & INT64_MAX));                       \
            vf64 start = (vf64)((vi64)(most * most * top) & power) * half;                                                     \
            put_level(l->start[RK_COLUMN_LOWER] + c, no_sum());                                                                \
            put_level(l->start[RK_COLUMN_SUM] + c, (vf64)((vi64)(most * top) & power) * half);                                 \
            put_level(l->start[RK_COLUMN_REST] + c, (vf64){0});                                                                \
            for (int k = RK_COLUMN_SQUARES; k < RK_COLUMN_REST; k++, start *= down)                                            \
                put_level(l->start[k] + c, start);                                                                             \
        }                                                                                                                      \
        memcpy(l->part, l->start, sizeof l->part);                                                                             \
    }                                                                                                                          \
    INLINE void add_squared_rows_##TYPE##_fused(const char *x, uint64_t stride, size_t rows, size_t columns, column_levels *l) \
    {                                                                                                                          \
        for (size_t c = 0; c < columns; c += LANES64) {                                                                        \
            vf64 s[RK_SQUARE_PARTS];                                                                                           \
            for (int k = 0; k < RK_SQUARE_PARTS; k++)                                                                          \
                s[k] = has_part_##TYPE(k) ? get_level(l->part[k] + c) : (vf64){0};                                             \
            for (size_t r = 0; r < rows; r++) {                                                                                \
                const char *p = x + r * stride + BYTES * c;                                                                    \
                vf64 v = load_##TYPE(p);                                                                                       \
                if (BYTES * c % 64 == 0)                                                                                       \
                    prefetch(p, SQUARED_AHEAD *stride);                                                                        \
                if (BYTES == 8)                                                                                                \
                    add_f64_fused(s, v);                                                                                       \
                else                                                                                                           \
                    add_f32_fused(s, v, LEVELS);                                                                               \
            }                                                                                                                  \
            for (int k = 0; k < RK_SQUARE_PARTS; k++)                                                                          \
                if (has_part_##TYPE(k))                                                                                        \
                    put_level(l->part[k] + c, s[k]);                                                                           \
        }                                                                                                                      \
    }                                                                                                                          \
    static __attribute__((noinline)) void squared_columns_##TYPE##_fused(const char *x, uint64_t stride, size_t rows,          \
                                                                         size_t columns, column_levels *l)                     \
    {                                                                                                                          \
        size_t r = 0;                                                                                                          \
        for (; r + SQUARED_AT_ONCE <= rows; r += SQUARED_AT_ONCE)                                                              \
            add_squared_rows_##TYPE##_fused(x + r * stride, stride, SQUARED_AT_ONCE, columns, l);                              \
        add_squared_rows_##TYPE##_fused(x + r * stride, stride, rows - r, columns, l);                                         \
        for (int k = RK_COLUMN_SUM; k < RK_COLUMN_REST; k++)                                                                   \
            for (size_t c = 0; c < columns; c += LANES64)                                                                      \
                put_level(l->part[k] + c, get_level(l->part[k] + c) - get_level(l->start[k] + c));                             \
    }                                                                                                                          \
    static bool column_squares_##TYPE(const void *x, uint64_t stride, size_t rows, size_t columns,                             \
                                      double(*out)[RK_COLUMNS_TOGETHER])                                                       \
    {                                                                                                                          \
        column_levels l;                                                                                                       \
        anchor_columns_##TYPE(x, stride, rows, columns, &l);                                                                   \
        inexact_clear(&l);                                                                                                     \
        squared_columns_##TYPE##_fused(x, stride, rows, columns, &l);                                                          \
        if (inexact_seen(&l))                                                                                                  \
            return false;                                                                                                      \
        bool all_finite = true;                                                                                                \
        for (int k = 0; k < RK_SQUARE_PARTS; k++)                                                                              \
            for (size_t c = 0; c < columns; c++)                                                                               \
                all_finite &= is_finite(out[k][c] = l.part[k][c]);                                                             \
        return all_finite;                                                                                                     \
    }

COLUMN_SQUARES(f16, 2, 1)
COLUMN_SQUARES(bf16, 2, 1)
COLUMN_SQUARES(f32, 4, 2)
COLUMN_SQUARES(f64, 8, 3)
#undef COLUMN_SQUARES

#define COLUMN_SQUARES(TYPE) column_squares_##TYPE
#else
#define COLUMN_SQUARES(TYPE) NULL
#endif
#endif
