/* prod of columns without states: integers in a double while it is exact, else modulo 2^64 beside a double that shows the size;
 * floats in two doubles where that is certain (product_pair.h). */
#ifndef RK_CPU_PRODUCT_CELLS_H
#define RK_CPU_PRODUCT_CELLS_H

#include "kernels/cpu/loops/columns/column_batch.h"
#include "kernels/cpu/loops/inexact.h"
#include "kernels/cpu/loops/products/pair_lanes.h"

/* ---- integers ---- */

typedef struct int_columns {
    uint64_t wrapped[SMALL_LOT];
    double size[SMALL_LOT]; /* the same in doubles, each off by less than a part in 2^40; a zero makes it 0, or a NaN */
} int_columns;

/* Doubles that are integers below 2^51. False: some are not below that. */
ONE_COPY bool put_integers(const double *p, size_t n, u64_loose *cells)
{
    uint64_t large = 0;
    for (size_t c = 0; c < n; c++) {
        large |= (bits_of_f64(p[c]) & INT64_MAX) >= bits_of_f64(0x1p51);
        cells[c] = bits_of_f64(p[c] + 0x1.8p52) - bits_of_f64(0x1.8p52);
    }
    return !large;
}

#define MULTIPLY_COLUMNS(NAME, T)                                                                                        \
    typedef T __attribute__((aligned(1), may_alias)) factor_##NAME;                                                      \
    static __attribute__((noinline)) void multiply_four_##NAME(int_columns *p, const char *x, uint64_t stride, size_t n) \
    {                                                                                                                    \
        const factor_##NAME *a = (const void *)x, *b = (const void *)(x + stride), *e = (const void *)(x + 2 * stride),  \
                            *f = (const void *)(x + 3 * stride);                                                         \
        for (size_t c = 0; c < n; c++) {                                                                                 \
            p->wrapped[c] *= (uint64_t)a[c] * (uint64_t)b[c] * ((uint64_t)e[c] * (uint64_t)f[c]);                        \
            p->size[c] *= (double)a[c] * (double)b[c] * ((double)e[c] * (double)f[c]);                                   \
        }                                                                                                                \
    }                                                                                                                    \
    static __attribute__((noinline)) void multiply_one_##NAME(int_columns *p, const factor_##NAME *a, size_t n)          \
    {                                                                                                                    \
        for (size_t c = 0; c < n; c++) {                                                                                 \
            p->wrapped[c] *= (uint64_t)a[c];                                                                             \
            p->size[c] *= (double)a[c];                                                                                  \
        }                                                                                                                \
    }                                                                                                                    \
    static void multiply_lot_##NAME(int_columns *p, const char *x, uint64_t stride, size_t rows, size_t n)               \
    {                                                                                                                    \
        size_t r = 0;                                                                                                    \
        for (; r + 4 <= rows; r += 4, x += 4 * stride)                                                                   \
            multiply_four_##NAME(p, x, stride, n);                                                                       \
        for (; r < rows; r++, x += stride)                                                                               \
            multiply_one_##NAME(p, (const void *)x, n);                                                                  \
    }                                                                                                                    \
    INLINE void times_two_##NAME(double *p, const char *x, uint64_t stride, size_t n, bool first, bool two)              \
    {                                                                                                                    \
        const factor_##NAME *a = (const void *)x, *b = (const void *)(x + stride);                                       \
        for (size_t c = 0; c < n; c++)                                                                                   \
            p[c] = (first ? 1 : p[c]) * (double)a[c] * (two ? (double)b[c] : 1);                                         \
    }                                                                                                                    \
    ONE_COPY void first_one_##NAME(double *p, const char *x, size_t n) { times_two_##NAME(p, x, 0, n, true, false); }    \
    ONE_COPY void first_two_##NAME(double *p, const char *x, uint64_t stride, size_t n)                                  \
    {                                                                                                                    \
        times_two_##NAME(p, x, stride, n, true, true);                                                                   \
    }                                                                                                                    \
    ONE_COPY void next_two_##NAME(double *p, const char *x, uint64_t stride, size_t n)                                   \
    {                                                                                                                    \
        times_two_##NAME(p, x, stride, n, false, true);                                                                  \
    }                                                                                                                    \
    /* False: some is not exact, or large */                                                                             \
    static bool exact_products_##NAME(const rk_lot *lot, const char *x, size_t n, void *cells)                           \
    {                                                                                                                    \
        double p[SMALL_LOT];                                                                                             \
        size_t r = 2 - lot->rows % 2;                                                                                    \
        inexact_clear(p);                                                                                                \
        if (r == 1)                                                                                                      \
            first_one_##NAME(p, x, n);                                                                                   \
        else                                                                                                             \
            first_two_##NAME(p, x, lot->stride, n);                                                                      \
        for (; r < lot->rows && !inexact_seen(p); r += 2)                                                                \
            next_two_##NAME(p, x + r * lot->stride, lot->stride, n);                                                     \
        return !inexact_seen(p) && put_integers(p, n, cells);                                                            \
    }                                                                                                                    \
    static size_t product_cells_##NAME(const rk_lot *lot, void *cells, uint16_t *left)                                   \
    {                                                                                                                    \
        int_columns p;                                                                                                   \
        size_t k = 0;                                                                                                    \
        bool exact = true; /* if some are not, others are not either, mostly */                                          \
        for (size_t c = 0, n; c < lot->columns; c += n) {                                                                \
            n = small_lot(lot, c);                                                                                       \
            exact = exact && exact_products_##NAME(lot, (const char *)lot->x + c * sizeof(T), n, (char *)cells + 8 * c); \
            if (exact)                                                                                                   \
                continue;                                                                                                \
            for (size_t i = 0; i < n; i++) {                                                                             \
                p.wrapped[i] = 1;                                                                                        \
                p.size[i] = 1;                                                                                           \
            }                                                                                                            \
            multiply_lot_##NAME(&p, (const char *)lot->x + c * sizeof(T), lot->stride, lot->rows, n);                    \
            memcpy((char *)cells + 8 * c, p.wrapped, 8 * n);                                                             \
            if (!lot->wrap)                                                                                              \
                k = leave_large(&p, c, n, left, k);                                                                      \
        }                                                                                                                \
        return k;                                                                                                        \
    }

/* Products from 2^62 on may not fit. */
static size_t leave_large(const int_columns *p, size_t first, size_t n, uint16_t *left, size_t k)
{
    uint8_t marks[SMALL_LOT];
    for (size_t c = 0; c < n; c++)
        marks[c] = !((p->size[c] < 0 ? -p->size[c] : p->size[c]) < 0x1p62);
    return leave_marked(left, k, first, n, marks);
}

MULTIPLY_COLUMNS(i8, int8_t)
MULTIPLY_COLUMNS(u8, uint8_t)
MULTIPLY_COLUMNS(i16, int16_t)
MULTIPLY_COLUMNS(u16, uint16_t)
MULTIPLY_COLUMNS(i32, int32_t)
MULTIPLY_COLUMNS(u32, uint32_t)
MULTIPLY_COLUMNS(i64, int64_t)
MULTIPLY_COLUMNS(u64, uint64_t)
#undef MULTIPLY_COLUMNS

/* ---- floats ---- */

#ifdef PAIRS

enum {
    PAIR_LOT = 256,   /* columns whose products stay in L1 */
    STEPS_AT_ONCE = 8 /* before a product is stored */
};

/* Products of columns, stored as pair_lanes. The exponents have no bias in the end. */
typedef struct pair_columns {
    double high[PAIR_LOT], low[PAIR_LOT];
    int64_t exponent[PAIR_LOT], odd[PAIR_LOT];
    uint64_t signs[PAIR_LOT];
} __attribute__((aligned(VB))) pair_columns;

INLINE pair_lanes load_pairs(const pair_columns *p, size_t c)
{
    return (pair_lanes){*(const vf64 *)(const void *)(p->high + c), *(const vf64 *)(const void *)(p->low + c),
                        *(const vi64 *)(const void *)(p->exponent + c), *(const vi64 *)(const void *)(p->odd + c),
                        *(const vu64 *)(const void *)(p->signs + c)};
}

INLINE void store_pairs(pair_columns *p, size_t c, pair_lanes a)
{
    *(vf64 *)(void *)(p->high + c) = a.high;
    *(vf64 *)(void *)(p->low + c) = a.low;
    *(vi64 *)(void *)(p->exponent + c) = a.exponent;
    *(vi64 *)(void *)(p->odd + c) = a.odd;
    *(vu64 *)(void *)(p->signs + c) = a.signs;
}

static void pairs_start(pair_columns *p, size_t n)
{
    for (size_t c = 0; c < n; c += LANES64)
        store_pairs(p, c, lanes_of_one());
}

/* Subtracts what all exponents have too much. */
static void pairs_normalise(pair_columns *p, size_t n, int64_t less)
{
    for (size_t c = 0; c < n; c += LANES64) {
        pair_lanes a = load_pairs(p, c);
        normalise_lanes(&a);
        a.exponent -= less;
        store_pairs(p, c, a);
    }
}

static void pairs_less(pair_columns *p, size_t n, int64_t less)
{
    for (size_t c = 0; c < n; c++)
        p->exponent[c] -= less;
}

/* Rounds to f64 or f32, and says where that is not certain: then `doubt` is negative. The pair is off by at most `error`, in
 * units of `high`.
 *
 * f64: `high` is the pair rounded, so it is the result unless the pair is beside the middle between two doubles; below 1 that
 * middle is nearer. f32: the lower bits of `high` are far from the middle, or are it, and then `low` tells the side. */
INLINE uint64_t round_to_64(double high, double low, int64_t exponent, double error, int64_t *doubt)
{
    const double room = ((high == 1) & (low < 0)) ? 0x1p-54 : 0x1p-53, far = low < 0 ? -low : low;
    *doubt = (exponent + 1022) | (1023 - exponent) | (far < room - error ? 0 : -1);
    return rk_bits_of_double(high) + ((uint64_t)exponent << 52);
}

INLINE uint32_t round_to_32(double high, double low, int64_t exponent, double error, int64_t *doubt)
{
    const uint64_t middle = (uint64_t)1 << 28, all = rk_bits_of_double(high) - ((uint64_t)1023 << 52);
    const double far = low < 0 ? -low : low;
    const uint64_t side = low > 0 ? 1 : UINT64_MAX, tie = (all & (2 * middle - 1)) == middle ? UINT64_MAX : 0;
    *doubt = (exponent + 126) | (127 - exponent) | (int64_t)(tie & (far > error ? 0 : UINT64_MAX));
    return (uint32_t)((all + (tie & side) + middle) >> 29) + ((uint32_t)(uint64_t)(exponent + 127) << 23);
}

#define PUT_PAIRS(W)                                                                                             \
    static __attribute__((noinline)) void put_pairs_##W(const pair_columns *p, size_t n, double error, int sign, \
                                                        u##W##_loose *cells, int64_t *doubt)                     \
    {                                                                                                            \
        for (size_t c = 0; c < n; c++) {                                                                         \
            int64_t here;                                                                                        \
            const uint##W##_t bits = round_to_##W(p->high[c], p->low[c], p->exponent[c], error, &here);          \
            cells[c] = bits | (uint##W##_t)((uint##W##_t)(p->signs[c] >> sign) << (W - 1));                      \
            doubt[c] = here | p->odd[c];                                                                         \
        }                                                                                                        \
    }
PUT_PAIRS(32)
PUT_PAIRS(64)
#undef PUT_PAIRS

/* A column by itself, in any format. False: it is not certain. */
static bool put_pair(const pair_columns *p, size_t c, size_t rows, int sign, int out, void *cell)
{
    const rk_product_pair pair = {p->high[c], p->low[c], p->exponent[c]};
    uint64_t v;
    if (p->odd[c] < 0 || !rk_pair_round(pair, rows, (int)(p->signs[c] >> sign & 1), rk_format_of(out), &v))
        return false;
    memcpy(cell, &v, rp_dtype_size(out));
    return true;
}

/* Marks columns that are not certain. */
static void put_pairs(const pair_columns *p, size_t n, size_t rows, int sign, int out, char *cells, uint8_t *marks)
{
    const double error = (double)(rows + 1) * 0x1p-100; /* twice of what product_pair.h says */
    const size_t size = rp_dtype_size(out);
    int64_t doubt[PAIR_LOT], some = out == RP_F64 || out == RP_F32 ? 0 : -1;
    memset(marks, 0, n);
    if (out == RP_F64)
        put_pairs_64(p, n, error, sign, (u64_loose *)(void *)cells, doubt);
    else if (out == RP_F32)
        put_pairs_32(p, n, error, sign, (u32_loose *)(void *)cells, doubt);
    else
        memset(doubt, -1, n * sizeof *doubt);
    for (size_t c = 0; c < n; c++)
        some |= doubt[c];
    for (size_t c = 0; some < 0 && c < n; c++)
        marks[c] = doubt[c] < 0 && !put_pair(p, c, rows, sign, out, cells + c * size);
}

/* ---- f32: four factors have an exact product in two doubles ---- */

enum { F32_ROWS = 8 }; /* before lanes are normalised */

/* Elements as doubles need no exponents of their own: four of them multiply to no less than 2^-596, and what is rounded off to
 * no less than 2^-702. Their pair is normalised, and joined as rk_pair_join does it. At most four such joins follow each other
 * before `a` is normalised; the k-th errs by at most (2 k + 7) u^2, u = 2^-53: for each factor less than what product_pair.h
 * counts. Zeros, infinities and NaNs show in the exponent; subnormal elements are ordinary numbers here. */
INLINE void join_exact(pair_lanes *a, vf64 p, vf64 e)
{
    const vi64 bits = (vi64)p, field = bits >> 52 & 2047, sign = bits & INT64_MIN;
    const vf64 high = (vf64)((bits & (((int64_t)1 << 52) - 1)) | (int64_t)1023 << 52);
    const vf64 low = (vf64)((vi64)(e * (vf64)((2046 - field) << 52)) ^ sign), q = a->high * high;
    a->low = fma_f64(a->high, low, fma_f64(a->low, high, fma_f64(a->high, high, -q)));
    a->high = q;
    a->exponent += field;
    a->odd |= (field - 1) | (2046 - field);
    a->signs ^= (vu64)bits;
}

INLINE void four_f32(pair_lanes *a, const char *x, uint64_t stride)
{
    const vf64 y = load_f32(x) * load_f32(x + stride), z = load_f32(x + 2 * stride) * load_f32(x + 3 * stride), p = y * z;
    join_exact(a, p, fma_f64(y, z, -p));
}

/* F32_ROWS or fewer, after lanes are normalised */
INLINE void few_f32(pair_lanes *a, const char *x, uint64_t stride, size_t rows)
{
    for (; rows >= 4; rows -= 4, x += 4 * stride)
        four_f32(a, x, stride);
    for (; rows; rows--, x += stride)
        join_exact(a, load_f32(x), (vf64){0});
}

/* How many joins few_f32 makes of these rows: each adds a bias to the exponent. */
static int64_t joins_f32(size_t rows) { return (int64_t)(rows / 4 + rows % 4); }

static __attribute__((noinline)) void many_rows_f32_fused(pair_columns *p, const char *x, uint64_t stride, size_t n)
{
    for (size_t c = 0; c < n; c += LANES64) {
        pair_lanes a = load_pairs(p, c);
        four_f32(&a, x + 4 * c, stride);
        four_f32(&a, x + 4 * (c + stride), stride);
        normalise_lanes(&a);
        store_pairs(p, c, a);
    }
}

static __attribute__((noinline)) void last_rows_f32_fused(pair_columns *p, const char *x, uint64_t stride, size_t rows,
                                                          size_t n)
{
    for (size_t c = 0; c < n; c += LANES64) {
        pair_lanes a = load_pairs(p, c);
        few_f32(&a, x + 4 * c, stride, rows);
        normalise_lanes(&a);
        store_pairs(p, c, a);
    }
}

static void multiply_pairs_f32(pair_columns *p, const char *x, uint64_t stride, size_t rows, size_t n)
{
    size_t r = 0;
    pairs_start(p, n);
    for (; rows - r >= F32_ROWS; r += F32_ROWS)
        many_rows_f32_fused(p, x + r * stride, stride, n);
    last_rows_f32_fused(p, x + r * stride, stride, rows - r, n);
    pairs_less(p, n, 1023 * joins_f32(rows));
}

/* ---- other floats ---- */

enum { SHORT_ROWS = 8 }; /* at most, that are taken without storing a product: their cache lines may have one place to lie */

#define MULTIPLY_PAIRS(NAME, W, DTYPE, BITS, TOP, TOGETHER)                                                                   \
    INLINE void step_rows_##NAME(pair_columns *p, const char *x, uint64_t stride, size_t steps, size_t n)                     \
    {                                                                                                                         \
        for (size_t c = 0; c < n; c += LANES64) {                                                                             \
            pair_lanes a = load_pairs(p, c);                                                                                  \
            for (size_t k = 0; k < steps; k++)                                                                                \
                step_##NAME(&a, x + k * TOGETHER * stride + c * (W / 8), stride);                                             \
            store_pairs(p, c, a);                                                                                             \
        }                                                                                                                     \
    }                                                                                                                         \
    static __attribute__((noinline)) void many_rows_##NAME##_fused(pair_columns *p, const char *x, uint64_t stride, size_t n) \
    {                                                                                                                         \
        step_rows_##NAME(p, x, stride, STEPS_AT_ONCE, n);                                                                     \
    }                                                                                                                         \
    static __attribute__((noinline)) void few_rows_##NAME##_fused(pair_columns *p, const char *x, uint64_t stride,            \
                                                                  size_t steps, size_t n)                                     \
    {                                                                                                                         \
        step_rows_##NAME(p, x, stride, steps, n);                                                                             \
    }                                                                                                                         \
    /* A row by itself */                                                                                                     \
    static __attribute__((noinline)) void last_row_##NAME##_fused(pair_columns *p, const char *x, size_t n)                   \
    {                                                                                                                         \
        for (size_t c = 0; c < n; c += LANES64) {                                                                             \
            pair_lanes a = load_pairs(p, c);                                                                                  \
            times_lanes(&a, factors_##NAME(&a, x + c * (W / 8)));                                                             \
            store_pairs(p, c, a);                                                                                             \
        }                                                                                                                     \
    }                                                                                                                         \
    /* All of so few rows that nothing has to be normalised between them */                                                   \
    static __attribute__((noinline)) void short_rows_##NAME##_fused(pair_columns *p, const char *x, uint64_t stride,          \
                                                                    size_t rows, size_t n)                                    \
    {                                                                                                                         \
        for (size_t c = 0; c < n; c += LANES64) {                                                                             \
            pair_lanes a = lanes_of_one();                                                                                    \
            const char *at = x + c * (W / 8);                                                                                 \
            size_t r = 0;                                                                                                     \
            for (; r + TOGETHER <= rows; r += TOGETHER)                                                                       \
                step_##NAME(&a, at + r * stride, stride);                                                                     \
            for (; r < rows; r++)                                                                                             \
                times_lanes(&a, factors_##NAME(&a, at + r * stride));                                                         \
            normalise_lanes(&a);                                                                                              \
            a.exponent -= (int64_t)rows * (TOP / 2);                                                                          \
            store_pairs(p, c, a);                                                                                             \
        }                                                                                                                     \
    }                                                                                                                         \
    static void multiply_pairs_##NAME(pair_columns *p, const char *x, uint64_t stride, size_t rows, size_t n)                 \
    {                                                                                                                         \
        size_t since = 0, r = 0;                                                                                              \
        if (rows <= SHORT_ROWS) {                                                                                             \
            short_rows_##NAME##_fused(p, x, stride, rows, n);                                                                 \
            return;                                                                                                           \
        }                                                                                                                     \
        pairs_start(p, n);                                                                                                    \
        for (; rows - r >= TOGETHER * STEPS_AT_ONCE; r += TOGETHER * STEPS_AT_ONCE, since += STEPS_AT_ONCE) {                 \
            if (since == RK_PAIR_STEPS) {                                                                                     \
                pairs_normalise(p, n, 0);                                                                                     \
                since = 0;                                                                                                    \
            }                                                                                                                 \
            many_rows_##NAME##_fused(p, x + r * stride, stride, n);                                                           \
        }                                                                                                                     \
        pairs_normalise(p, n, 0);                                                                                             \
        few_rows_##NAME##_fused(p, x + r * stride, stride, (rows - r) / TOGETHER, n);                                         \
        for (r += (rows - r) / TOGETHER * TOGETHER; r < rows; r++)                                                            \
            last_row_##NAME##_fused(p, x + r * stride, n);                                                                    \
        pairs_normalise(p, n, (int64_t)rows *(TOP / 2));                                                                      \
    }
MULTIPLY_PAIRS(f16, 16, RP_F16, 11, 31, 4)
MULTIPLY_PAIRS(bf16, 16, RP_BF16, 8, 255, 4)
MULTIPLY_PAIRS(f64, 64, RP_F64, 53, 2047, 1)
#undef MULTIPLY_PAIRS

/* ---- f32 and f64 as they are, where no product overflows or underflows: the flags show it ---- */

/* A double lacks less than rows 2^-53 of itself. An f64 has two of them, of which `low` is below rows 2^-53 of `high`, and is
 * rounded once a row: together they lack less than rows^2 2^-105. */
enum {
    PLAIN_ROWS = 512,   /* products of more are likely to leave the range: */
    SCALED_ROWS = 64,   /* rows between two removals of exponents */
    MOST_EXPONENT = 900 /* of a product whose lower double has room below it */
};
typedef struct plain_columns {
    double high[PAIR_LOT], low[PAIR_LOT];
    int64_t exponent[PAIR_LOT];
} __attribute__((aligned(VB))) plain_columns;

/* Takes out exponents, exactly. False: a product is 0 or no number, or some exponent is beyond `most` */
static __attribute__((noinline)) bool take_exponents(plain_columns *p, size_t n, int64_t most)
{
    int64_t odd = 0;
    for (size_t c = 0; c < n; c++) {
        const uint64_t bits = bits_of_f64(p->high[c]), field = bits >> 52 & 2047;
        p->high[c] = f64_of((bits & ~((uint64_t)2047 << 52)) | (uint64_t)1023 << 52);
        p->low[c] *= f64_of((2046 - field) << 52);
        p->exponent[c] += (int64_t)field - 1023;
        odd |= (int64_t)(field - 1) | (int64_t)(2045 - field) | (most - p->exponent[c]) | (most + p->exponent[c]);
    }
    return odd >= 0;
}

/* Puts them back, exactly. What is beyond MOST_EXPONENT has no place in an f32. */
static __attribute__((noinline)) void put_exponents(plain_columns *p, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        const int64_t e = p->exponent[c] < MOST_EXPONENT ? p->exponent[c] : MOST_EXPONENT;
        const double power = f64_of((uint64_t)(1023 + (e > -MOST_EXPONENT ? e : -MOST_EXPONENT)) << 52);
        p->high[c] *= power;
        p->low[c] *= power;
    }
}

#define PLAIN_LOOPS(NAME, BYTES, TWOFOLD)                                                                                      \
    INLINE void times_rows_##NAME(plain_columns *p, const char *x, uint64_t stride, size_t rows, size_t n, bool first)         \
    {                                                                                                                          \
        for (size_t c = 0; c < n; c += LANES64) {                                                                              \
            vf64 high = (vf64){0} + 1, low = {0};                                                                              \
            if (!first)                                                                                                        \
                high = *(const vf64 *)(const void *)(p->high + c);                                                             \
            if (!first && TWOFOLD)                                                                                             \
                low = *(const vf64 *)(const void *)(p->low + c);                                                               \
            for (size_t r = 0; r < rows; r++) {                                                                                \
                const vf64 v = load_##NAME(x + r * stride + c * BYTES), y = high * v;                                          \
                if (TWOFOLD)                                                                                                   \
                    low = fma_f64(low, v, fma_f64(high, v, -y));                                                               \
                high = y;                                                                                                      \
            }                                                                                                                  \
            *(vf64 *)(void *)(p->high + c) = high;                                                                             \
            if (TWOFOLD)                                                                                                       \
                *(vf64 *)(void *)(p->low + c) = low;                                                                           \
        }                                                                                                                      \
    }                                                                                                                          \
    static __attribute__((noinline)) void first_rows_##NAME##_fused(plain_columns *p, const char *x, uint64_t stride,          \
                                                                    size_t rows, size_t n)                                     \
    {                                                                                                                          \
        if (rows == 1)                                                                                                         \
            times_rows_##NAME(p, x, stride, 1, n, true);                                                                       \
        else if (rows == 2)                                                                                                    \
            times_rows_##NAME(p, x, stride, 2, n, true);                                                                       \
        else if (rows == 3)                                                                                                    \
            times_rows_##NAME(p, x, stride, 3, n, true);                                                                       \
        else                                                                                                                   \
            times_rows_##NAME(p, x, stride, 4, n, true);                                                                       \
    }                                                                                                                          \
    static __attribute__((noinline)) void next_rows_##NAME##_fused(plain_columns *p, const char *x, uint64_t stride, size_t n) \
    {                                                                                                                          \
        times_rows_##NAME(p, x, stride, 4, n, false);                                                                          \
    }                                                                                                                          \
    static bool multiply_plainly_##NAME(plain_columns *p, const char *x, uint64_t stride, size_t rows, size_t n)               \
    {                                                                                                                          \
        size_t r = rows % 4 ? rows % 4 : 4;                                                                                    \
        const bool scaled = rows > PLAIN_ROWS;                                                                                 \
        /* as the first rows are, others are, mostly */                                                                        \
        const int64_t all = TWOFOLD ? MOST_EXPONENT : INT32_MAX,                                                               \
                      first = TWOFOLD ? MOST_EXPONENT * SCALED_ROWS / (int64_t)rows : all;                                     \
        if (scaled)                                                                                                            \
            memset(p, 0, sizeof *p);                                                                                           \
        inexact_clear(p);                                                                                                      \
        first_rows_##NAME##_fused(p, x, stride, r, n);                                                                         \
        for (; r < rows && !range_left(p); r += 4) {                                                                           \
            if (scaled && r % SCALED_ROWS < 4 && !take_exponents(p, n, r / SCALED_ROWS == 1 ? first : all))                    \
                return false;                                                                                                  \
            next_rows_##NAME##_fused(p, x + r * stride, stride, n);                                                            \
        }                                                                                                                      \
        if (range_left(p) || (scaled && !take_exponents(p, n, all)))                                                           \
            return false;                                                                                                      \
        if (scaled)                                                                                                            \
            put_exponents(p, n);                                                                                               \
        return true;                                                                                                           \
    }
PLAIN_LOOPS(f32, 4, false)
PLAIN_LOOPS(f64, 8, true)
#undef PLAIN_LOOPS

/* f32 and f64 of these. False: what they lack may matter, or there are NaNs. */
static __attribute__((noinline)) bool put_plain_f32(const plain_columns *p, size_t n, double error, u32_loose *cells)
{
    const double less = 1 - error, more = 1 + error;
    uint32_t doubt = 0;
    for (size_t c = 0; c < n; c++) {
        const float a = (float)(p->high[c] * less), b = (float)(p->high[c] * more);
        doubt |= (bits_of_f32(a) ^ bits_of_f32(b)) | (uint32_t)(a != a);
        cells[c] = bits_of_f32(a);
    }
    return !doubt;
}

static __attribute__((noinline)) bool put_plain_f64(const plain_columns *p, size_t n, double error, double *cells)
{
    vi64 doubt = {0};
    for (size_t c = 0; c < n; c += LANES64) {
        const vf64 high = *(const vf64 *)(const void *)(p->high + c), low = *(const vf64 *)(const void *)(p->low + c),
                   margin = magnitude_of(high) * error, sum = high + low;
        const vi64 finite = high - high == 0;
        doubt |= (finite & (high + (low + margin) != high + (low - margin))) | (high != high);
        *(vf64_loose *)(void *)(cells + c) = choose_lanes(finite & (low != 0), sum, high);
    }
    return sum_lanes((vu64)doubt >> 63) == 0;
}

/* Of two factors the rounding error is `low`; an f32 has no other where no product was rounded. */
static bool plain_cells_f32(const rk_lot *lot, const char *x, size_t n, void *cells)
{
    plain_columns p;
    return lot->out == RP_F32 && multiply_plainly_f32(&p, x, lot->stride, lot->rows, n) &&
           put_plain_f32(&p, n, inexact_seen(&p) ? (double)(lot->rows + 2) * 0x1p-52 : 0, cells);
}

static bool plain_cells_f64(const rk_lot *lot, const char *x, size_t n, void *cells)
{
    plain_columns p;
    const double more = lot->rows > 2 ? (double)(lot->rows + 1) : 0;
    return lot->out == RP_F64 && multiply_plainly_f64(&p, x, lot->stride, lot->rows, n) &&
           put_plain_f64(&p, n, more * more * 0x1p-104, cells);
}
#define plain_cells_f16(lot, x, n, cells) false
#define plain_cells_bf16(lot, x, n, cells) false

/* ---- lots ---- */

/* Columns are multiplied a vector at a time; the last ones together with some before them. These keep the results that they
 * have: some are certain only without the last ones, which may leave the range. SIGN: the bit of `signs` */
#define PRODUCT_COLUMNS(NAME, BYTES, SIGN)                                                                                \
    /* n columns from `first` on, whose results are wanted from `from` on */                                              \
    static size_t product_lot_##NAME(const rk_lot *lot, size_t first, size_t from, size_t n, char *cells, uint16_t *left, \
                                     size_t k)                                                                            \
    {                                                                                                                     \
        const size_t size = rp_dtype_size(lot->out);                                                                      \
        const size_t done = (from - first) * size;                                                                        \
        pair_columns p;                                                                                                   \
        uint8_t marks[PAIR_LOT];                                                                                          \
        char before[LANES64 * sizeof(double)];                                                                            \
        memcpy(before, cells + first * size, done);                                                                       \
        if (plain_cells_##NAME(lot, (const char *)lot->x + first * BYTES, n, cells + first * size))                       \
            return k;                                                                                                     \
        multiply_pairs_##NAME(&p, (const char *)lot->x + first * BYTES, lot->stride, lot->rows, n);                       \
        put_pairs(&p, n, lot->rows, SIGN, lot->out, cells + first * size, marks);                                         \
        memcpy(cells + first * size, before, done);                                                                       \
        return leave_marked(left, k, from, first + n - from, marks + (from - first));                                     \
    }                                                                                                                     \
    static size_t product_cells_##NAME(const rk_lot *lot, void *cells, uint16_t *left)                                    \
    {                                                                                                                     \
        const size_t whole = lot->columns / LANES64 * LANES64;                                                            \
        size_t k = 0, c = 0;                                                                                              \
        if (!whole)                                                                                                       \
            return leave_all(left, 0, 0, lot->columns);                                                                   \
        for (size_t n; c < whole; c += n) {                                                                               \
            n = whole - c < PAIR_LOT ? whole - c : PAIR_LOT;                                                              \
            k = product_lot_##NAME(lot, c, c, n, cells, left, k);                                                         \
        }                                                                                                                 \
        return c < lot->columns ? product_lot_##NAME(lot, lot->columns - LANES64, c, LANES64, cells, left, k) : k;        \
    }
PRODUCT_COLUMNS(f16, 2, 15)
PRODUCT_COLUMNS(bf16, 2, 15)
PRODUCT_COLUMNS(f32, 4, 63)
PRODUCT_COLUMNS(f64, 8, 63)
#undef PRODUCT_COLUMNS

#endif
#endif
