/* var, std, sem, sums of squares, norms and rms of short lines without states: two sums in doubles, a lane each,
 * with a bound on what they lack. A cell is finished where both ends of that bound round alike (Ziv); the others are left.
 *
 * Let u = 2^-53, n be the count, d an element less the line's first one, and S the sum of squares.
 *
 *   to narrow floats   sums of d and d^2, each operation rounded. d errs by u |d|, so S by (n + 4) u S at most. The variance's
 *                      numerator, S - (sum d)^2 / n, errs by (3 n + 13) u S, and its last operations by 8 u of itself. Less
 *                      the first element, S is about n times the variance.
 *   to f64             sums of x and x^2 as two doubles each: the rounded sum, and what additions rounded off (exact, Knuth),
 *                      added plainly; x^2 is two doubles, too. Plain sums of n errors below n u S err by (n + 1)^2 u^2 S, and
 *                      those of x by n^2 u^2 sqrt(n S). n S - (sum x)^2 errs by less than 11 (n + 1)^2 u^2 n S.
 *
 * Underflow matters only where S is below 2^-700. Where no element differs from the first, the variance is 0, whatever the
 * bound. Of norms "the first one" is 0 instead: then all elements are. */
#ifndef RK_CPU_MOMENT_CELLS_H
#define RK_CPU_MOMENT_CELLS_H

#include "kernels/cpu/loops/columns/column_batch.h"
#include "kernels/cpu/loops/rounding_errors.h"
#include "kernels/cpu/loops/sums/sum_f32.h"

enum {
    MOMENT_LOT = 256,  /* columns whose sums stay in L1 */
    MOMENT_ROWS = 8,   /* rows that are added before sums are stored */
    LINE_VECTORS = 4,  /* of a line that are added side by side */
    MOMENTS_AHEAD = 16 /* rows to prefetch */
};
#define MOMENT_LEAST 0x1p-700 /* of sums of squares */
#define MOMENT_MOST 0x1p900

typedef struct moments {
    _Alignas(VB) double first[MOMENT_LOT], count[MOMENT_LOT], sum[MOMENT_LOT], sum_low[MOMENT_LOT], square[MOMENT_LOT],
        square_low[MOMENT_LOT];
    _Alignas(VB) int64_t differ[MOMENT_LOT]; /* 0: every element is the first one */
} moments;

INLINE bool is_spread(int op) { return op == RP_OP_VAR || op == RP_OP_STD || op == RP_OP_SEM; }

/* ---- elements as doubles ---- */

/* n elements to whole vectors of doubles. False: not all are doubles exactly. */
typedef bool doubles_fn(double *out, const void *x, size_t n);

#define DOUBLES(NAME, T)                                                \
    static bool doubles_of_##NAME(double *out, const void *x, size_t n) \
    {                                                                   \
        typedef T __attribute__((aligned(1), may_alias)) loose;         \
        for (size_t i = 0; i < n; i++)                                  \
            out[i] = ((const loose *)x)[i];                             \
        return true;                                                    \
    }
DOUBLES(i8, int8_t)
DOUBLES(u8, uint8_t)
DOUBLES(i16, int16_t)
DOUBLES(u16, uint16_t)
DOUBLES(i32, int32_t)
DOUBLES(u32, uint32_t)
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
    [RP_I8] = doubles_of_i8,   [RP_U8] = doubles_of_u8,     [RP_I16] = doubles_of_i16, [RP_U16] = doubles_of_u16,
    [RP_I32] = doubles_of_i32, [RP_U32] = doubles_of_u32,   [RP_I64] = doubles_of_i64, [RP_U64] = doubles_of_u64,
    [RP_F16] = doubles_of_f16, [RP_BF16] = doubles_of_bf16, [RP_F32] = doubles_of_f32, [RP_F64] = doubles_of_f64};

/* ---- sums ---- */

/* How elements are added */
enum {
    OF_F32 = 1,  /* they are f32, whose squares are doubles; else f64 */
    TWOFOLD = 2, /* both sums are two doubles each */
    OMITTED = 4, /* NaNs are left out, and elements counted */
    WAYS = 8
};
#define EACH_WAY(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* The sums of some columns, or parts of those of a line */
typedef struct moment_lanes {
    vf64 first, count, sum, sum_low, square, square_low;
    vi64 differ;
} moment_lanes;

INLINE vf64 *lanes_at(double *p) { return (vf64 *)(void *)p; }
INLINE vf64 lanes_from(const double *p) { return *(const vf64 *)(const void *)p; }

INLINE moment_lanes get_moments(const moments *m, size_t c)
{
    return (moment_lanes){lanes_from(m->first + c),
                          lanes_from(m->count + c),
                          lanes_from(m->sum + c),
                          lanes_from(m->sum_low + c),
                          lanes_from(m->square + c),
                          lanes_from(m->square_low + c),
                          *(const vi64 *)(const void *)(m->differ + c)};
}

INLINE void put_moments(moments *m, size_t c, moment_lanes l)
{
    *lanes_at(m->count + c) = l.count;
    *lanes_at(m->sum + c) = l.sum;
    *lanes_at(m->sum_low + c) = l.sum_low;
    *lanes_at(m->square + c) = l.square;
    *lanes_at(m->square_low + c) = l.square_low;
    *(vi64 *)(void *)(m->differ + c) = l.differ;
}

INLINE vf64 load_moment(const char *p, int how) { return how & OF_F32 ? load_f32(p) : load_f64(p); }

/* Adds the elements in v, of lanes that are `in`. */
INLINE void add_moments(moment_lanes *l, vf64 v, vi64 in, int how)
{
    if (how & OMITTED) {
        in &= v == v;
        l->count += (vf64)((vi64)((vf64){0} + 1) & in);
    }
    const vf64 a = (vf64)((vi64)(how & TWOFOLD ? v : v - l->first) & in), b = a * a, sum = l->sum + a, square = l->square + b;
    if (how & TWOFOLD) {
        l->sum_low += sum_error(l->sum, a, sum);
        l->square_low += sum_error(l->square, b, square) + (how & OF_F32 ? (vf64){0} : square_error(a, b));
    }
    l->differ |= (v != l->first) & in;
    l->sum = sum;
    l->square = square;
}

/* Whole vectors of columns, from `at` on */
INLINE void add_moment_rows(moments *m, size_t at, const char *x, uint64_t stride, size_t rows, size_t columns, int how)
{
    const size_t size = how & OF_F32 ? 4 : 8;
    for (size_t c = 0; c < columns; c += LANES64) {
        moment_lanes l = get_moments(m, at + c);
        for (size_t r = 0; r < rows; r++) {
            const char *p = x + r * stride + size * c;
            if (size * c % 64 == 0)
                prefetch(p, MOMENTS_AHEAD * stride);
            add_moments(&l, load_moment(p, how), (vi64){0} - 1, how);
        }
        put_moments(m, at + c, l);
    }
}

static __attribute__((noinline)) void moment_rows_fused(moments *m, size_t at, const char *x, uint64_t stride, size_t rows,
                                                        size_t columns, int how)
{
#define ROWS_OF(way)                                           \
    case way:                                                  \
        add_moment_rows(m, at, x, stride, rows, columns, way); \
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
        l[u] = (moment_lanes){.first = (vf64){0} + m->first[c]};
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
    return (lot->dtype == RP_F32 ? OF_F32 : 0) | (lot->out == RP_F64 ? TWOFOLD : 0) | (lot->nan == RP_NAN_OMIT ? OMITTED : 0);
}

INLINE bool is_native(int dtype) { return dtype == RP_F32 || dtype == RP_F64; }

/* The first elements of n columns. False: a double cannot hold one. */
static bool first_elements(const rk_lot *lot, const char *x, size_t n, double *first)
{
    bool exact = true;
    memset(first, 0, MOMENT_LOT * sizeof *first);
    if (!is_spread(lot->op))
        return true;
    if (!lot->lines)
        exact = doubles_of[lot->dtype](first, x, n);
    for (size_t c = 0; lot->lines && c < n; c++) {
        _Alignas(VB) double one[LANES64];
        exact &= doubles_of[lot->dtype](one, x + c * lot->stride, 1);
        first[c] = one[0];
    }
    for (size_t c = 0; lot->nan == RP_NAN_OMIT && c < n; c++)
        first[c] = first[c] == first[c] ? first[c] : 0;
    return exact;
}

/* The sums of n columns at x. False: a double cannot hold an element. */
static bool sum_columns(const rk_lot *lot, const char *x, size_t n, moments *m)
{
    _Alignas(VB) double rows[MOMENT_ROWS][MOMENT_LOT];
    const size_t size = rp_dtype_size(lot->dtype), whole = is_native(lot->dtype) ? n / LANES64 * LANES64 : 0,
                 rest = (n - whole + LANES64 - 1) / LANES64 * LANES64;
    const int how = way_of(lot);
    bool exact = true;
    memset(m->count, 0, sizeof *m - offsetof(moments, count));
    for (size_t c = 0; !(how & OMITTED) && c < n; c++)
        m->count[c] = (double)lot->rows;
    for (size_t k = 0; rest && k < MOMENT_ROWS; k++)
        *lanes_at(rows[k] + rest - LANES64) = (vf64){0};
    for (size_t r = 0, some; r < lot->rows && exact; r += some, x += some * lot->stride) {
        some = lot->rows - r < MOMENT_ROWS ? lot->rows - r : MOMENT_ROWS;
        if (whole)
            moment_rows_fused(m, 0, x, lot->stride, some, whole, how);
        for (size_t k = 0; rest && k < some; k++)
            exact &= doubles_of[lot->dtype](rows[k], x + k * lot->stride + whole * size, n - whole);
        if (rest)
            moment_rows_fused(m, whole, (const char *)rows, sizeof rows[0], some, rest, how & ~OF_F32);
    }
    return exact;
}

/* The same of n lines. */
static bool sum_lines(const rk_lot *lot, const char *x, size_t n, moments *m)
{
    _Alignas(VB) double line[RK_LOT_LINE + LANES64];
    const bool native = is_native(lot->dtype);
    bool exact = true;
    for (size_t c = 0; c < n && exact; c++, x += lot->stride) {
        if (!native)
            exact = doubles_of[lot->dtype](line, x, lot->rows);
        moment_line_fused(m, c, native ? x : (const char *)line, lot->rows, way_of(lot));
    }
    return exact;
}

/* ---- cells ---- */

/* high + low, but for an error of at most `margin` */
typedef struct bounded {
    vf64 high, low, margin;
} bounded;

/* n S - (sum x)^2, or S */
INLINE bounded numerator_of(const moments *m, size_t c, bool spread)
{
    const vf64 count = lanes_from(m->count + c), s = lanes_from(m->square + c), s_low = lanes_from(m->square_low + c),
               more = count + 1;
    if (!spread)
        return (bounded){s, s_low, more * more * s * 0x1p-102};
    const vf64 x = lanes_from(m->sum + c), x_low = lanes_from(m->sum_low + c);
    const vf64 a = count * s, b = x * x, high = a - b;
    const vf64 a_low = product_error(count, s, a) + count * s_low, b_low = square_error(x, b) + (2 * x + x_low) * x_low;
    return (bounded){high, sum_error(a, -b, high) + (a_low - b_low), more * more * a * 0x1p-102};
}

INLINE bounded quotient_of(bounded a, vf64 by)
{
    const vf64 sum = a.high + a.low, low = sum_error(a.high, a.low, sum), high = sum / by, p = high * by;
    const vf64 rest = (sum - p) - product_error(high, by, p);
    return (bounded){high, (rest + low) / by, a.margin / by + high * 0x1p-100};
}

INLINE bounded root_of(bounded a)
{
    const vf64 root = root_f64(a.high), p = root * root, rest = (a.high - p) - square_error(root, p);
    return (bounded){root, (rest + a.low) / (2 * root), a.margin / root + root * 0x1p-100};
}

INLINE vf64 divisor_of(vf64 count, int op, unsigned ddof)
{
    const vf64 less = count - (double)ddof;
    return op == RP_OP_SEM ? count * less : is_spread(op) ? less : op == RP_OP_RMS ? count : (vf64){0} + 1;
}

INLINE bool takes_root(int op) { return op != RP_OP_VAR && op != RP_OP_SUMSQ; }

/* The value where it is `certain`, 0 where all elements are the first one, NaN where that is it. Returns where it is one
 * of these. */
INLINE vi64 choose_moment(const rk_lot *lot, const moments *m, size_t c, vi64 certain, vf64 *value)
{
    const vf64 s = lanes_from(m->square + c), count = lanes_from(m->count + c), first = lanes_from(m->first + c);
    const vi64 enough = count > (double)lot->ddof, usual = (s > MOMENT_LEAST) & (s < MOMENT_MOST);
    const vi64 equal = (*(const vi64 *)(const void *)(m->differ + c) == 0) & (first - first == 0); /* and finite */
    const vi64 nan = (vi64)(s != s) & (lot->nan == RP_NAN_PROPAGATE ? -1 : 0);
    *value = (vf64)(((vi64)*value & ~equal & ~nan) | (nan & ((int64_t)0x7ff8 << 48)));
    return (enough & ((certain & usual) | equal)) | nan;
}

/* To f64: values and what is right about them */
static __attribute__((noinline)) void twofold_moments_fused(const rk_lot *lot, const moments *m, size_t n, double *value,
                                                            int64_t *right)
{
    const bool spread = is_spread(lot->op);
    for (size_t c = 0; c < n; c += LANES64) {
        const vf64 count = lanes_from(m->count + c), by = divisor_of(count, lot->op, lot->ddof);
        bounded b = quotient_of(numerator_of(m, c, spread), spread ? by * count : by);
        if (takes_root(lot->op))
            b = root_of(b);
        vf64 v = b.high + b.low;
        const vi64 certain = b.high + (b.low + b.margin) == b.high + (b.low - b.margin);
        *(vi64 *)(void *)(right + c) = choose_moment(lot, m, c, certain, &v);
        *lanes_at(value + c) = v;
    }
}

/* To narrower floats: both ends of the bound. Unless NaNs are left out, all counts are the same one. */
static __attribute__((noinline)) void narrow_moments(const rk_lot *lot, const moments *m, size_t n, double *least, double *most,
                                                     int64_t *right)
{
    const bool spread = is_spread(lot->op), omit = lot->nan == RP_NAN_OMIT;
    const vf64 rows = (vf64){0} + (double)lot->rows;
    vf64 per_count = 1 / rows, per = 1 / divisor_of(rows, lot->op, lot->ddof);
    for (size_t c = 0; c < n; c += LANES64) {
        const vf64 count = lanes_from(m->count + c), s = lanes_from(m->square + c), x = lanes_from(m->sum + c);
        if (omit) {
            per_count = 1 / count;
            per = 1 / divisor_of(count, lot->op, lot->ddof);
        }
        const vf64 v = spread ? s - x * x * per_count : s, margin = (count + 4) * s * 0x1p-51 + v * 0x1p-49;
        const vi64 positive = v > margin;
        vf64 low = (v - margin) * per, high = (v + margin) * per;
        if (takes_root(lot->op)) {
            low = root_f64(low);
            high = root_f64(high);
        }
        *(vi64 *)(void *)(right + c) = choose_moment(lot, m, c, positive, &low);
        choose_moment(lot, m, c, positive, &high);
        *lanes_at(least + c) = low;
        *lanes_at(most + c) = high;
    }
}

/* Marks cells that differ. */
ONE_COPY void mark_unlike(const uint8_t *a, const uint8_t *b, size_t n, size_t size, uint8_t *marks)
{
    for (size_t c = 0; size == 4 && c < n; c++)
        marks[c] |= ((const u32_loose *)(const void *)a)[c] != ((const u32_loose *)(const void *)b)[c];
    for (size_t c = 0; size == 2 && c < n; c++)
        marks[c] |= ((const u16_loose *)(const void *)a)[c] != ((const u16_loose *)(const void *)b)[c];
}

/* n cells; marks those that are not certain. */
static void finish_moments(const rk_lot *lot, const moments *m, size_t n, uint8_t *cells, uint8_t *marks)
{
    _Alignas(VB) double value[MOMENT_LOT], other[MOMENT_LOT];
    _Alignas(VB) int64_t right[MOMENT_LOT];
    uint8_t others[4 * MOMENT_LOT];
    if (lot->out == RP_F64) {
        twofold_moments_fused(lot, m, n, value, right);
        memcpy(cells, value, 8 * n);
    } else {
        narrow_moments(lot, m, n, value, other, right);
        convert_sums(value, n, lot->out, cells);
        convert_sums(other, n, lot->out, others);
    }
    for (size_t c = 0; c < n; c++)
        marks[c] = right[c] == 0;
    if (lot->out != RP_F64)
        mark_unlike(cells, others, n, rp_dtype_size(lot->out), marks);
}

static size_t moment_cells(const rk_lot *lot, void *cells, uint16_t *left)
{
    const size_t apart = lot->lines ? lot->stride : rp_dtype_size(lot->dtype), cell = rp_dtype_size(lot->out);
    moments m;
    size_t k = 0;
    for (size_t c = 0, n; c < lot->columns; c += n) {
        const char *x = (const char *)lot->x + c * apart;
        uint8_t marks[MOMENT_LOT];
        n = lot->columns - c < MOMENT_LOT ? lot->columns - c : MOMENT_LOT;
        if (first_elements(lot, x, n, m.first) && (lot->lines ? sum_lines : sum_columns)(lot, x, n, &m)) {
            finish_moments(lot, &m, n, (uint8_t *)cells + c * cell, marks);
            k = leave_marked(left, k, c, n, marks);
        } else {
            k = leave_all(left, k, c, n);
        }
    }
    return k;
}

#endif
