/* Sums of many short lines, a lane each: of elements, and of their squares or magnitudes; as doubles, or as two doubles each.
 * bounded_cells.h says what they lack. */
#ifndef RK_CPU_BOUNDED_SUMS_H
#define RK_CPU_BOUNDED_SUMS_H

#include "kernels/cpu/loops/columns/column_batch.h"
#include "kernels/cpu/loops/rounding_errors.h"
#include "kernels/cpu/loops/sums/sum_f32.h"

enum {
    MOMENT_LOT = 256,  /* columns whose sums stay in L1 */
    MOMENT_ROWS = 8,   /* rows that are added before sums are stored */
    LINE_VECTORS = 4,  /* of a line that are added side by side */
    MOMENTS_AHEAD = 16 /* rows to prefetch */
};
typedef struct moments {
    _Alignas(VB) double first[MOMENT_LOT], count[MOMENT_LOT], sum[MOMENT_LOT], sum_low[MOMENT_LOT], square[MOMENT_LOT],
        square_low[MOMENT_LOT];
    _Alignas(VB) int64_t differ[MOMENT_LOT]; /* 0: every element is the first one */
} moments;

INLINE bool is_total(int op) { return op == RP_OP_SUM || op == RP_OP_MEAN; }
INLINE bool is_spread(int op) { return op == RP_OP_VAR || op == RP_OP_STD || op == RP_OP_SEM; }

/* ---- elements as doubles ---- */

/* n elements to whole vectors of doubles. False: not all are doubles exactly. */
typedef bool doubles_fn(double *out, const void *x, size_t n);

#define DOUBLES(NAME, T, OF)                                            \
    static bool doubles_of_##NAME(double *out, const void *x, size_t n) \
    {                                                                   \
        typedef T __attribute__((aligned(1), may_alias)) loose;         \
        for (size_t i = 0; i < n; i++)                                  \
            out[i] = OF((const loose *)x)[i];                           \
        return true;                                                    \
    }
DOUBLES(bool, uint8_t, !!)
DOUBLES(i8, int8_t, )
DOUBLES(u8, uint8_t, )
DOUBLES(i16, int16_t, )
DOUBLES(u16, uint16_t, )
DOUBLES(i32, int32_t, )
DOUBLES(u32, uint32_t, )
#undef DOUBLES

/* Integers below 2^51: 3 2^51 plus one is a double whose last bits they are. */
#define WIDE_DOUBLES(NAME, LEAST)                                        \
    static bool doubles_of_##NAME(double *out, const void *x, size_t n)  \
    {                                                                    \
        const uint64_t start = (uint64_t)0x4338 << 48;                   \
        uint64_t beyond = 0;                                             \
        for (size_t i = 0; i < n; i++) {                                 \
            const uint64_t v = ((const u64_loose *)x)[i];                \
            beyond |= (v - (uint64_t)(LEAST)) >> (LEAST == 0 ? 51 : 52); \
            out[i] = f64_of(v + start) - 0x1.8p52;                       \
        }                                                                \
        return !beyond;                                                  \
    }
WIDE_DOUBLES(i64, -((int64_t)1 << 51))
WIDE_DOUBLES(u64, 0)
#undef WIDE_DOUBLES

#define VECTORS_OF_DOUBLES(NAME, BYTES)                                    \
    static bool doubles_of_##NAME(double *out, const void *x, size_t n)    \
    {                                                                      \
        const char *p = x;                                                 \
        size_t i = 0;                                                      \
        for (; i + LANES64 <= n; i += LANES64)                             \
            *(vf64_loose *)(void *)(out + i) = load_##NAME(p + BYTES * i); \
        if (i < n) {                                                       \
            char last[VB] = {0};                                           \
            memcpy(last, p + BYTES * i, BYTES * (n - i));                  \
            *(vf64_loose *)(void *)(out + i) = load_##NAME(last);          \
        }                                                                  \
        return true;                                                       \
    }
VECTORS_OF_DOUBLES(f16, 2)
VECTORS_OF_DOUBLES(bf16, 2)
VECTORS_OF_DOUBLES(f32, 4)
VECTORS_OF_DOUBLES(f64, 8)
#undef VECTORS_OF_DOUBLES

static doubles_fn *const doubles_of[] = {
    [RP_I8] = doubles_of_i8,    [RP_U8] = doubles_of_u8,     [RP_I16] = doubles_of_i16, [RP_U16] = doubles_of_u16,
    [RP_I32] = doubles_of_i32,  [RP_U32] = doubles_of_u32,   [RP_I64] = doubles_of_i64, [RP_U64] = doubles_of_u64,
    [RP_F16] = doubles_of_f16,  [RP_BF16] = doubles_of_bf16, [RP_F32] = doubles_of_f32, [RP_F64] = doubles_of_f64,
    [RP_BOOL] = doubles_of_bool};

/* ---- sums ---- */

/* How elements are added */
enum {
    OF_F32 = 1,  /* they are f32, whose squares are doubles; else f64 */
    TWOFOLD = 2, /* both sums are two doubles each */
    OMITTED = 4, /* NaNs are left out, and elements counted */
    TOTALS = 8   /* instead of squares magnitudes are added, which need not be two doubles */
};
#define EACH_WAY(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

/* The sums of some columns, or parts of those of a line */
typedef struct moment_lanes {
    vf64 first, count, sum, sum_low, square, square_low;
    vi64 differ;
} moment_lanes;

INLINE vf64 *lanes_at(double *p) { return (vf64 *)(void *)p; }
INLINE vf64 lanes_from(const double *p) { return *(const vf64 *)(const void *)p; }

/* What add_moments changes, if elements are added so */
INLINE moment_lanes get_moments(const moments *m, size_t c, int how)
{
    moment_lanes l = {.first = lanes_from(m->first + c),
                      .sum = lanes_from(m->sum + c),
                      .square = lanes_from(m->square + c),
                      .differ = *(const vi64 *)(const void *)(m->differ + c)};
    if (how & OMITTED)
        l.count = lanes_from(m->count + c);
    if (how & TWOFOLD) {
        l.sum_low = lanes_from(m->sum_low + c);
        l.square_low = lanes_from(m->square_low + c);
    }
    return l;
}

INLINE void put_moments(moments *m, size_t c, moment_lanes l, int how)
{
    *lanes_at(m->sum + c) = l.sum;
    *lanes_at(m->square + c) = l.square;
    *(vi64 *)(void *)(m->differ + c) = l.differ;
    if (how & OMITTED)
        *lanes_at(m->count + c) = l.count;
    if (how & TWOFOLD) {
        *lanes_at(m->sum_low + c) = l.sum_low;
        *lanes_at(m->square_low + c) = l.square_low;
    }
}

INLINE vf64 load_moment(const char *p, int how) { return how & OF_F32 ? load_f32(p) : load_f64(p); }

/* Adds the elements in v, of lanes that are `in`; -0.0 changes no sum. */
INLINE void add_moments(moment_lanes *l, vf64 v, vi64 in, int how)
{
    if (how & OMITTED) {
        in &= v == v;
        l->count += (vf64)((vi64)((vf64){0} + 1) & in);
    }
    const vi64 none = how & TOTALS ? ~in & INT64_MIN : (vi64){0};
    const vf64 a = (vf64)(((vi64)(how & (TWOFOLD | TOTALS) ? v : v - l->first) & in) | none), sum = l->sum + a,
               b = how & TOTALS ? magnitude_of(a) : a * a, square = l->square + b;
    if (how & TWOFOLD)
        l->sum_low += sum_error(l->sum, a, sum);
    if (how & TWOFOLD && !(how & TOTALS))
        l->square_low += sum_error(l->square, b, square) + (how & OF_F32 ? (vf64){0} : square_error(a, b));
    if (!(how & TOTALS))
        l->differ |= (v != l->first) & in;
    l->sum = sum;
    l->square = square;
}

/* Whole vectors of columns, from `at` on, whose `first` is known, and others unless these rows are the first ones. */
INLINE void add_moment_rows(moments *m, size_t at, const char *x, uint64_t stride, size_t rows, size_t columns, bool start,
                            int how)
{
    const size_t size = how & OF_F32 ? 4 : 8;
    for (size_t c = 0; c < columns; c += LANES64) {
        moment_lanes l = {.first = lanes_from(m->first + at + c), .sum = no_sum()};
        if (!start)
            l = get_moments(m, at + c, how);
        for (size_t r = 0; r < rows; r++) {
            const char *p = x + r * stride + size * c;
            if (size * c % 64 == 0)
                prefetch(p, MOMENTS_AHEAD * stride);
            add_moments(&l, load_moment(p, how), (vi64){0} - 1, how);
        }
        put_moments(m, at + c, l, how);
    }
}

static __attribute__((noinline)) void moment_rows_fused(moments *m, size_t at, const char *x, uint64_t stride, size_t rows,
                                                        size_t columns, bool start, int how)
{
#define ROWS_OF(way)                                                  \
    case way:                                                         \
        add_moment_rows(m, at, x, stride, rows, columns, start, way); \
        break;
    switch (how) {
        EACH_WAY(ROWS_OF)
    }
#undef ROWS_OF
}

INLINE void join_moments(moment_lanes *a, const moment_lanes *b)
{
    const vf64 sum = a->sum + b->sum, square = a->square + b->square;
    a->sum_low += sum_error(a->sum, b->sum, sum) + b->sum_low;
    a->square_low += sum_error(a->square, b->square, square) + b->square_low;
    a->sum = sum;
    a->square = square;
    a->count += b->count;
    a->differ |= b->differ;
}

/* Lane j alone, as lane 0 */
INLINE moment_lanes one_lane(const moment_lanes *l, int j)
{
    return (moment_lanes){{0}, {l->count[j]}, {l->sum[j]}, {l->sum_low[j]}, {l->square[j]}, {l->square_low[j]}, {l->differ[j]}};
}

/* The n elements of a line that begins at x are those of column c. */
INLINE void add_moment_line(moments *m, size_t c, const char *x, size_t n, int how)
{
    const size_t size = how & OF_F32 ? 4 : 8, step = (size_t)LINE_VECTORS * LANES64;
    const vi64 all = (vi64){0} - 1;
    moment_lanes l[LINE_VECTORS];
    size_t i = 0;
    for (int u = 0; u < LINE_VECTORS; u++)
        l[u] = (moment_lanes){.first = (vf64){0} + m->first[c], .sum = no_sum()};
    for (; i + step <= n; i += step)
        for (int u = 0; u < LINE_VECTORS; u++)
            add_moments(&l[u], load_moment(x + size * (i + (size_t)u * LANES64), how), all, how);
    for (; i + LANES64 <= n; i += LANES64)
        add_moments(&l[0], load_moment(x + size * i, how), all, how);
    if (i < n) {
        char last[VB] = {0};
        vi64 in = {0};
        memcpy(last, x + size * i, size * (n - i));
        for (size_t j = 0; j < n - i; j++)
            in[j] = -1;
        add_moments(&l[0], load_moment(last, how), in, how);
    }
    for (int u = 1; u < LINE_VECTORS; u++)
        join_moments(&l[0], &l[u]);
    moment_lanes total = l[0];
    for (int j = 1; j < LANES64; j++) {
        const moment_lanes next = one_lane(&l[0], j);
        join_moments(&total, &next);
    }
    m->count[c] = how & OMITTED ? total.count[0] : (double)n;
    m->sum[c] = total.sum[0];
    m->sum_low[c] = total.sum_low[0];
    m->square[c] = total.square[0];
    m->square_low[c] = total.square_low[0];
    m->differ[c] = total.differ[0];
}

static __attribute__((noinline)) void moment_line_fused(moments *m, size_t c, const char *x, size_t n, int how)
{
#define LINE_OF(way)                      \
    case way:                             \
        add_moment_line(m, c, x, n, way); \
        break;
    switch (how) {
        EACH_WAY(LINE_OF)
    }
#undef LINE_OF
}

/* ---- sums of a lot ---- */

INLINE int way_of(const rk_lot *lot)
{
    return (lot->dtype == RP_F32 ? OF_F32 : 0) | (lot->out == RP_F64 ? TWOFOLD : 0) | (lot->nan == RP_NAN_OMIT ? OMITTED : 0) |
           (is_total(lot->op) ? TOTALS : 0);
}

INLINE bool is_native(int dtype) { return dtype == RP_F32 || dtype == RP_F64; }

/* The first numbers of n columns, if they are among the first rows, else 0. False: a double cannot hold an element. */
static bool first_elements(const rk_lot *lot, const char *x, size_t n, double *first)
{
    _Alignas(VB) double next[MOMENT_LOT];
    const size_t some = lot->rows < MOMENT_ROWS ? lot->rows : MOMENT_ROWS;
    bool exact = true;
    memset(first, 0, MOMENT_LOT * sizeof *first);
    if (!is_spread(lot->op))
        return true;
    for (size_t r = lot->lines ? 0 : lot->nan == RP_NAN_OMIT ? some : 1; r--;) {
        exact &= doubles_of[lot->dtype](next, x + r * lot->stride, n);
        for (size_t c = 0; c < n; c++)
            first[c] = next[c] == next[c] ? next[c] : first[c];
    }
    for (size_t c = 0; lot->lines && c < n; c++) {
        exact &= doubles_of[lot->dtype](next, x + c * lot->stride, 1);
        first[c] = next[0] == next[0] ? next[0] : 0;
    }
    return exact;
}

/* The sums of n columns at x, and their counts if NaNs are left out. False: a double cannot hold an element. */
static bool sum_columns(const rk_lot *lot, const char *x, size_t n, int how, moments *m)
{
    _Alignas(VB) double rows[MOMENT_ROWS][MOMENT_LOT];
    const size_t size = rp_dtype_size(lot->dtype), whole = is_native(lot->dtype) ? n / LANES64 * LANES64 : 0,
                 rest = (n - whole + LANES64 - 1) / LANES64 * LANES64;
    bool exact = true;
    for (size_t k = 0; rest && k < MOMENT_ROWS; k++)
        *lanes_at(rows[k] + rest - LANES64) = (vf64){0};
    for (size_t r = 0, some; r < lot->rows && exact; r += some, x += some * lot->stride) {
        some = lot->rows - r < MOMENT_ROWS ? lot->rows - r : MOMENT_ROWS;
        if (whole)
            moment_rows_fused(m, 0, x, lot->stride, some, whole, r == 0, how);
        for (size_t k = 0; rest && k < some; k++)
            exact &= doubles_of[lot->dtype](rows[k], x + k * lot->stride + whole * size, n - whole);
        if (rest)
            moment_rows_fused(m, whole, (const char *)rows, sizeof rows[0], some, rest, r == 0, how & ~OF_F32);
    }
    return exact;
}

/* The same of n lines, of at most RK_LOT_LINE elements. */
static bool sum_lines(const rk_lot *lot, const char *x, size_t n, int how, moments *m)
{
    _Alignas(VB) double line[RK_LOT_LINE + LANES64];
    const bool native = is_native(lot->dtype);
    bool exact = true;
    for (size_t c = 0; c < n && exact; c++, x += lot->stride) {
        if (!native)
            exact = doubles_of[lot->dtype](line, x, lot->rows);
        moment_line_fused(m, c, native ? x : (const char *)line, lot->rows, how);
    }
    return exact;
}

#endif
