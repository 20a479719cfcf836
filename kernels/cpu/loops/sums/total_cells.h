/* sum and mean of columns without states: integers in lanes that hold them, floats in doubles whose additions did not round
 * (column_sums.h). */
#ifndef RK_CPU_TOTAL_CELLS_H
#define RK_CPU_TOTAL_CELLS_H

#include "kernels/cpu/loops/columns/column_batch.h"
#include "kernels/cpu/loops/sums/bounded_cells.h"
#include "kernels/cpu/loops/sums/column_sums.h"
#include "kernels/cpu/loops/sums/mean_cells.h"

enum { EXACT_ROWS = 128 }; /* of f64 whose halves' sums are likely to be exact */

INLINE vf64 loose_lanes(const double *p) { return *(const vf64_loose *)(const void *)p; }

/* ---- integers of up to 32 bits ---- */

enum { TOTAL_ROWS = 252 }; /* 16 bits hold the sum of this number of i8 or u8, 32 bits that of all rows of a lot of 16 bits */

ONE_COPY void fill_counts(double *count, size_t n, size_t rows)
{
    for (size_t c = 0; c < n; c++)
        count[c] = (double)rows;
}

ONE_COPY void mean_integers(const uint64_t *total, size_t n, size_t rows, int out, uint8_t *cells)
{
    double sum[SMALL_LOT], count[SMALL_LOT];
    const size_t size = rp_dtype_size(out);
    fill_counts(count, SMALL_LOT, rows);
    for (size_t c = 0, some; c < n; c += some, total += some, cells += some * size) {
        some = n - c < SMALL_LOT ? n - c : SMALL_LOT;
        for (size_t i = 0; i < some; i++)
            sum[i] = (double)(int64_t)total[i]; /* at most 2^44 */
        mean_cells(sum, count, some, out, cells);
    }
}

/* NAME, T; LANE: sums of TOTAL_ROWS rows */
#define TOTAL_CELLS(NAME, T, LANE)                                                                                         \
    typedef T __attribute__((aligned(1), may_alias)) in_column_##NAME;                                                     \
    static __attribute__((noinline)) void total_four_##NAME(LANE *sum, const char *x, uint64_t stride, size_t n)           \
    {                                                                                                                      \
        const in_column_##NAME *a = (const void *)x, *b = (const void *)(x + stride), *e = (const void *)(x + 2 * stride), \
                               *f = (const void *)(x + 3 * stride);                                                        \
        for (size_t c = 0; c < n; c++)                                                                                     \
            sum[c] = (LANE)(sum[c] + (LANE)((LANE)((LANE)a[c] + (LANE)b[c]) + (LANE)((LANE)e[c] + (LANE)f[c])));           \
    }                                                                                                                      \
    static __attribute__((noinline)) void total_one_##NAME(LANE *sum, const in_column_##NAME *x, size_t n)                 \
    {                                                                                                                      \
        for (size_t c = 0; c < n; c++)                                                                                     \
            sum[c] = (LANE)(sum[c] + (LANE)x[c]);                                                                          \
    }                                                                                                                      \
    static __attribute__((noinline)) void add_total_##NAME(u64_loose *total, const LANE *sum, size_t n, bool first)        \
    {                                                                                                                      \
        if (first)                                                                                                         \
            for (size_t c = 0; c < n; c++)                                                                                 \
                total[c] = (uint64_t)(int64_t)sum[c];                                                                      \
        else                                                                                                               \
            for (size_t c = 0; c < n; c++)                                                                                 \
                total[c] += (uint64_t)(int64_t)sum[c];                                                                     \
    }                                                                                                                      \
    static void totals_##NAME(const rk_lot *lot, u64_loose *total)                                                         \
    {                                                                                                                      \
        const char *x = lot->x;                                                                                            \
        LANE sum[RK_LOT];                                                                                                  \
        for (size_t r = 0, some; r < lot->rows; r += some) {                                                               \
            some = lot->rows - r < TOTAL_ROWS ? lot->rows - r : TOTAL_ROWS;                                                \
            memset(sum, 0, lot->columns * sizeof *sum);                                                                    \
            size_t i = 0;                                                                                                  \
            for (; i + 4 <= some; i += 4, x += 4 * lot->stride)                                                            \
                total_four_##NAME(sum, x, lot->stride, lot->columns);                                                      \
            for (; i < some; i++, x += lot->stride)                                                                        \
                total_one_##NAME(sum, (const void *)x, lot->columns);                                                      \
            add_total_##NAME(total, sum, lot->columns, r == 0);                                                            \
        }                                                                                                                  \
    }                                                                                                                      \
    static size_t total_cells_##NAME(const rk_lot *lot, void *cells, uint16_t *left)                                       \
    {                                                                                                                      \
        uint64_t total[RK_LOT];                                                                                            \
        (void)left;                                                                                                        \
        if (lot->op == RP_OP_SUM) {                                                                                        \
            totals_##NAME(lot, cells);                                                                                     \
        } else {                                                                                                           \
            totals_##NAME(lot, (u64_loose *)total);                                                                        \
            mean_integers(total, lot->columns, lot->rows, lot->out, cells);                                                \
        }                                                                                                                  \
        return 0;                                                                                                          \
    }
TOTAL_CELLS(i8, int8_t, int16_t)
TOTAL_CELLS(u8, uint8_t, uint16_t)
TOTAL_CELLS(i16, int16_t, int32_t)
TOTAL_CELLS(u16, uint16_t, uint32_t)
TOTAL_CELLS(i32, int32_t, int64_t)
TOTAL_CELLS(u32, uint32_t, uint64_t)
#undef TOTAL_CELLS

/* ---- integers of 64 bits ---- */

/* Sums modulo 2^64, of some rows at a time. The highest bit of `over` shows that one did not fit on the way. */
#define ADD_WIDE(NAME, OVER)                                                                                               \
    INLINE void add_wide_##NAME(uint64_t *sum, uint64_t *over, const char *x, uint64_t stride, size_t rows, size_t n,      \
                                bool first)                                                                                \
    {                                                                                                                      \
        for (size_t c = 0; c < n; c++) {                                                                                   \
            uint64_t a = first ? ((const u64_loose *)(const void *)x)[c] : sum[c], lost = first ? 0 : over[c];             \
            for (size_t r = first; r < rows; r++) {                                                                        \
                const uint64_t b = ((const u64_loose *)(const void *)(x + r * stride))[c], s = a + b;                      \
                lost |= OVER;                                                                                              \
                a = s;                                                                                                     \
            }                                                                                                              \
            sum[c] = a;                                                                                                    \
            over[c] = lost;                                                                                                \
        }                                                                                                                  \
    }                                                                                                                      \
    static __attribute__((noinline)) void first_wide_##NAME(uint64_t *sum, uint64_t *over, const char *x, uint64_t stride, \
                                                            size_t rows, size_t n)                                         \
    {                                                                                                                      \
        if (rows == 1)                                                                                                     \
            add_wide_##NAME(sum, over, x, stride, 1, n, true);                                                             \
        else if (rows == 2)                                                                                                \
            add_wide_##NAME(sum, over, x, stride, 2, n, true);                                                             \
        else if (rows == 3)                                                                                                \
            add_wide_##NAME(sum, over, x, stride, 3, n, true);                                                             \
        else                                                                                                               \
            add_wide_##NAME(sum, over, x, stride, 4, n, true);                                                             \
    }                                                                                                                      \
    static __attribute__((noinline)) void wide_four_##NAME(uint64_t *sum, uint64_t *over, const char *x, uint64_t stride,  \
                                                           size_t n)                                                       \
    {                                                                                                                      \
        add_wide_##NAME(sum, over, x, stride, 4, n, false);                                                                \
    }
ADD_WIDE(i64, (a ^ s) & (b ^ s))
ADD_WIDE(u64, (a & b) | ((a | b) & ~s))
#undef ADD_WIDE

/* Means of sums of `rows` integers; marks those that are not certain. */
static __attribute__((noinline)) void mean_wide_fused(const uint64_t *sum, size_t n, size_t rows, bool is_signed, double *cells,
                                                      uint8_t *marks)
{
    _Alignas(VB) double upper[SMALL_LOT], lower[SMALL_LOT];
    _Alignas(VB) int64_t right[SMALL_LOT];
    const vf64 by = (vf64){0} + (double)rows, per = 1 / by;
    /* Halves, the upper one without a sign, are the last bits of 2^84 and 2^52. */
    const uint64_t turn = (uint64_t)is_signed << 31;
    for (size_t c = 0; c < n; c++) {
        upper[c] = f64_of((sum[c] >> 32 ^ turn) | (uint64_t)0x453 << 52) - (0x1p84 + (double)turn * 0x1p32);
        lower[c] = f64_of((sum[c] & UINT32_MAX) | (uint64_t)0x433 << 52) - 0x1p52;
    }
    for (size_t c = 0; c < n; c += LANES64) {
        const vf64 a = lanes_from(upper + c), b = lanes_from(lower + c), s = a + b;
        vi64 is = (vi64){0} - 1;
        *lanes_at(upper + c) = rows == 1 ? s : wide_mean(s, sum_error(a, b, s), by, per, &is);
        *(vi64 *)(void *)(right + c) = is;
    }
    memcpy(cells, upper, 8 * n);
    for (size_t c = 0; c < n; c++)
        marks[c] = right[c] == 0;
}

/* n columns, at most SMALL_LOT; marks those that it leaves */
static void total_wide(const rk_lot *lot, const char *x, size_t n, void *cells, uint8_t *marks)
{
    uint64_t sum[SMALL_LOT], over[SMALL_LOT];
    const bool is_signed = lot->dtype == RP_I64;
    size_t r = lot->rows % 4 ? lot->rows % 4 : 4;
    (is_signed ? first_wide_i64 : first_wide_u64)(sum, over, x, lot->stride, r, n);
    for (; r < lot->rows; r += 4)
        (is_signed ? wide_four_i64 : wide_four_u64)(sum, over, x + r * lot->stride, lot->stride, n);
    if (lot->op == RP_OP_SUM) {
        memcpy(cells, sum, 8 * n);
        memset(marks, 0, n);
    } else {
        mean_wide_fused(sum, n, lot->rows, is_signed, cells, marks);
    }
    for (size_t c = 0; c < n; c++)
        marks[c] |= (uint8_t)(over[c] >> 63);
}

static size_t total_cells_i64(const rk_lot *lot, void *cells, uint16_t *left)
{
    uint8_t marks[SMALL_LOT];
    size_t k = 0;
    if (lot->op == RP_OP_MEAN && lot->out != RP_F64)
        return leave_all(left, 0, 0, lot->columns);
    for (size_t c = 0, n; c < lot->columns; c += n) {
        n = small_lot(lot, c);
        total_wide(lot, (const char *)lot->x + 8 * c, n, (char *)cells + 8 * c, marks);
        k = leave_marked(left, k, c, n, marks);
    }
    return k;
}

static size_t total_cells_u64(const rk_lot *lot, void *cells, uint16_t *left) { return total_cells_i64(lot, cells, left); }

/* ---- floats ---- */

typedef struct column_totals {
    double sum[SMALL_LOT], lower[SMALL_LOT], count[SMALL_LOT];
} column_totals;

/* Narrow floats: infinities and NaNs add up to what the sum is. Others than propagated NaNs are left. */
static size_t take_narrow(const rk_lot *lot, const double *sum, const double *count, size_t first, size_t n, uint8_t *cells,
                          uint16_t *left, size_t k)
{
    uint8_t marks[SMALL_LOT];
    if (lot->op == RP_OP_MEAN)
        mean_cells(sum, count, n, lot->out, cells);
    else
        convert_sums(sum, n, lot->out, cells);
    if (lot->nan == RP_NAN_PROPAGATE)
        return k;
    for (size_t c = 0; c < n; c++)
        marks[c] = sum[c] != sum[c];
    return leave_marked(left, k, first, n, marks);
}

/* f64: the sums of both halves, added, or their means. What is not finite is left. -0.0 has halves of -0.0 and 0.0. The last
 * vector may have columns of the one before it. Returns whether all are right. */
INLINE bool add_halves(const rk_lot *lot, const column_totals *t, size_t n, uint8_t *cells, int64_t *right, bool mean,
                       bool omit)
{
    vi64 all = (vi64){0} - 1;
    vf64 by = (vf64){0} + (double)lot->rows, per = 1 / by;
    for (size_t c = 0, at; c < n; c += LANES64) {
        at = c + LANES64 <= n ? c : n - LANES64;
        const vf64 sum = loose_lanes(t->sum + at), lower = loose_lanes(t->lower + at), total = sum + lower;
        vf64 v = choose_lanes(lower == 0, sum, total);
        vi64 is = total - total == 0;
        if (mean) {
            if (omit) {
                by = loose_lanes(t->count + at);
                per = 1 / by;
            }
            v = wide_mean(v, sum_error(sum, lower, total), by, per, &is);
            if (omit) { /* the mean of nothing is a NaN */
                v = choose_lanes(by == 0, (vf64)((vi64){0} + ((int64_t)0x7ff8 << 48)), v);
                is |= by == 0;
            }
        }
        *(vf64_loose *)(void *)(cells + 8 * at) = v;
        *(vi64_loose *)(void *)(right + at) = is;
        all &= is;
    }
    return sum_lanes((vu64)all >> 63) == LANES64;
}

static __attribute__((noinline)) size_t take_wide_fused(const rk_lot *lot, const column_totals *t, size_t first, size_t n,
                                                        uint8_t *cells, uint16_t *left, size_t k)
{
    _Alignas(VB) int64_t right[SMALL_LOT];
    uint8_t marks[SMALL_LOT];
    const bool mean = lot->op == RP_OP_MEAN, omit = lot->nan == RP_NAN_OMIT;
    if (!mean  ? add_halves(lot, t, n, cells, right, false, false)
        : omit ? add_halves(lot, t, n, cells, right, true, true)
               : add_halves(lot, t, n, cells, right, true, false))
        return k;
    for (size_t c = 0; c < n; c++)
        marks[c] = right[c] == 0;
    return leave_marked(left, k, first, n, marks);
}

/* Rows of narrow floats, whose sums often are doubles; else by bounds. */
static size_t total_lines(const rk_lot *lot, uint8_t *cells, uint16_t *left)
{
    const size_t size = rp_dtype_size(lot->out);
    size_t k = 0;
    moments m;
    for (size_t c = 0, n; c < lot->columns; c += n) {
        n = lot->columns - c < MOMENT_LOT ? lot->columns - c : MOMENT_LOT;
        inexact_clear(&m);
        memset(m.first, 0, sizeof m.first);
        if (lot->nan != RP_NAN_OMIT && sum_lines(lot, (const char *)lot->x + c * lot->stride, n, way_of(lot) & ~TWOFOLD, &m) &&
            !inexact_seen(&m))
            k = take_narrow(lot, m.sum, m.count, c, n, cells + c * size, left, k);
        else
            k = bounded_cells(lot, c, n, cells, left, k);
    }
    return k;
}

/* The last columns, less than RK_COLUMN_STEP, are added together with some before them. */
#define TOTAL_FLOATS(TYPE, BYTES, TAKE, ...)                                                                        \
    INLINE void add_columns_##TYPE(const rk_lot *lot, const char *x, size_t n, size_t at, column_totals *t)         \
    {                                                                                                               \
        if (lot->nan == RP_NAN_OMIT)                                                                                \
            numbers_of_##TYPE(x, lot->stride, lot->rows, n, t->sum + at, t->lower + at, t->count + at);             \
        else                                                                                                        \
            columns_of_##TYPE(x, lot->stride, lot->rows, n, t->sum + at, t->lower + at);                            \
    }                                                                                                               \
    INLINE bool add_lot_##TYPE(const rk_lot *lot, const char *x, size_t n, column_totals *t)                        \
    {                                                                                                               \
        const size_t whole = n / RK_COLUMN_STEP * RK_COLUMN_STEP, last = n - RK_COLUMN_STEP;                        \
        if (n < RK_COLUMN_STEP)                                                                                     \
            return false;                                                                                           \
        inexact_clear(t);                                                                                           \
        add_columns_##TYPE(lot, x, whole, 0, t);                                                                    \
        if (whole < n)                                                                                              \
            add_columns_##TYPE(lot, x + BYTES * last, RK_COLUMN_STEP, last, t);                                     \
        if (inexact_seen(t))                                                                                        \
            return false;                                                                                           \
        for (size_t c = 0; lot->nan == RP_NAN_OMIT && c < n; c++) /* a sum of nothing is 0.0 */                     \
            t->sum[c] = t->count[c] == 0 ? 0 : t->sum[c];                                                           \
        return true;                                                                                                \
    }                                                                                                               \
    static size_t total_cells_##TYPE(const rk_lot *lot, void *cells, uint16_t *left)                                \
    {                                                                                                               \
        const size_t size = rp_dtype_size(lot->out);                                                                \
        column_totals t;                                                                                            \
        size_t k = 0;                                                                                               \
        bool exact = BYTES < 8 || (lot->out == RP_F64 && lot->rows <= EXACT_ROWS); /* of one lot: of others, too */ \
        if (lot->lines)                                                                                             \
            return BYTES < 8 ? total_lines(lot, cells, left) : moment_cells(lot, cells, left);                      \
        if (lot->op == RP_OP_MEAN)                                                                                  \
            fill_counts(t.count, SMALL_LOT, lot->rows);                                                             \
        for (size_t c = 0, n, with; c < lot->columns; c += n) {                                                     \
            n = small_lot(lot, c);                                                                                  \
            with = k;                                                                                               \
            exact = exact && add_lot_##TYPE(lot, (const char *)lot->x + BYTES * c, n, &t);                          \
            if (exact)                                                                                              \
                with = TAKE(lot, __VA_ARGS__, c, n, (uint8_t *)cells + c * size, left, k);                          \
            k = exact && with == k ? k : bounded_cells(lot, c, n, cells, left, k);                                  \
        }                                                                                                           \
        return k;                                                                                                   \
    }
TOTAL_FLOATS(f16, 2, take_narrow, t.sum, t.count)
TOTAL_FLOATS(bf16, 2, take_narrow, t.sum, t.count)
TOTAL_FLOATS(f32, 4, take_narrow, t.sum, t.count)
TOTAL_FLOATS(f64, 8, take_wide_fused, &t)
#undef TOTAL_FLOATS

#endif
