/* Squares of f32, bf16 and f16 in anchored lanes, where every addition that rounds raises the inexact flag. The part of a
 * square that the anchor rounds off on purpose is known exactly. The exponents of the block's elements, found in the same pass,
 * prove that nothing else is rounded. (With AVX-512: squares_silent.h.) */
#ifndef RK_CPU_SQUARES_SPAN_H
#define RK_CPU_SQUARES_SPAN_H

#include "kernels/cpu/loops/squares/squares_acc.h"

/* The accumulators of a block: elements, anchored squares, and the rests that the anchor rounds off. */
typedef struct square_lanes {
    vf64 sum[SQUARE_SUMS], square[SQUARE_SUMS], rest[SQUARE_SUMS];
} square_lanes;

/* From the anchor 1.5 * 2^k. */
INLINE void start_lanes(square_lanes *l, int k)
{
    for (int u = 0; u < SQUARE_SUMS; u++) {
        l->sum[u] = no_sum();
        l->square[u] = (vf64){0} + anchor(k);
        l->rest[u] = (vf64){0};
    }
}

/* An f32's square is a double. */
INLINE void add_to_lanes(square_lanes *l, int u, vf64 v, bool both)
{
    vf64 square = v * v, with = l->square[u] + square;
    l->rest[u] += square - (with - l->square[u]);
    l->square[u] = with;
    if (both)
        l->sum[u] += v;
}

/* The smallest and the largest exponent field of a block's nonzero elements; highest 0xff: infinities or NaNs. */
typedef struct span {
    int lowest, highest;
    bool zero; /* all elements are zero */
} span;

/* The range from the largest magnitude and the smallest unsigned (magnitude - 1), in which zeros become the largest. */
static span span_of(uint32_t largest, uint32_t smallest_less_1, int fraction_bits)
{
    return (span){(int)((smallest_less_1 + 1) >> fraction_bits), (int)(largest >> fraction_bits), largest == 0};
}

/* ---- f32, bf16 ---- */

/* Exact sums by lane, if the span says so, of the squares of n elements (a multiple of STEP32), or of both. */
#define SPANNED(TYPE, W, FRACTION_BITS)                                                                 \
    INLINE span lanes_of_##TYPE##_squares(const void *x, size_t n, bool both, int k, square_lanes *out) \
    {                                                                                                   \
        enum { PARTS = LANES##W / LANES64 };                                                            \
        square_lanes l;                                                                                 \
        vi##W largest = {0};                                                                            \
        vu##W smallest = (vu##W){0} + UINT##W##_MAX;                                                    \
        int##W##_t hi = 0;                                                                              \
        uint##W##_t lo = UINT##W##_MAX;                                                                 \
        start_lanes(&l, k);                                                                             \
        for (size_t i = 0; i < n; i += STEP32) {                                                        \
            for (int u = 0; u < SUMS; u += PARTS) {                                                     \
                const char *p = (const char *)x + W / 8 * (i + (size_t)u * LANES64);                    \
                vi##W m = *(const vi##W##_loose *)(const void *)p & INT##W##_MAX;                       \
                if (u / PARTS * VB % 64 == 0)                                                           \
                    prefetch(p, AHEAD);                                                                 \
                largest = max_i##W(largest, m);                                                         \
                smallest = min_u##W(smallest, (vu##W)m - 1);                                            \
                for (int v = 0; v < PARTS; v++)                                                         \
                    add_to_lanes(&l, (u + v) % SQUARE_SUMS, load_##TYPE(p + v * (VB / PARTS)), both);   \
            }                                                                                           \
        }                                                                                               \
        *out = l;                                                                                       \
        for (int j = 0; j < LANES##W; j++) {                                                            \
            hi = largest[j] > hi ? largest[j] : hi;                                                     \
            lo = smallest[j] < lo ? smallest[j] : lo;                                                   \
        }                                                                                               \
        return span_of((uint32_t)hi, lo, FRACTION_BITS);                                                \
    }
SPANNED(f32, 32, 23)
SPANNED(bf16, 16, 7)
#undef SPANNED

/* ---- f16: multiples of 2^-24 below 2^16 ---- */

enum { F16_LOWEST = 150 - 24, F16_HIGHEST = 126 + 16 }; /* as fields of f32 */

/* All finite elements lie between these exponent fields of f32. */
INLINE span lanes_of_f16_squares(const void *x, size_t n, bool both, int k, square_lanes *out)
{
    square_lanes l;
    start_lanes(&l, k);
    for (size_t i = 0; i < n; i += STEP32) {
        for (int u = 0; u < SUMS; u++) {
            const char *p = (const char *)x + 2 * (i + (size_t)u * LANES64);
            if (u * VB / 4 % 64 == 0)
                prefetch(p, AHEAD);
            add_to_lanes(&l, u % SQUARE_SUMS, load_f16(p), both);
        }
    }
    *out = l;
    vi64 odd = {0};
    int64_t any = 0;
    for (int u = 0; u < SQUARE_SUMS; u++)
        odd |= (vi64)(l.square[u] - l.square[u]); /* NaN, not 0, for what is not finite */
    for (int j = 0; j < LANES64; j++)
        any |= odd[j];
    return (span){F16_LOWEST, any ? 0xff : F16_HIGHEST, false};
}

/* ---- a block ---- */

typedef span square_lanes_fn(const void *x, size_t n, int k, square_lanes *out);

/* The sum of the lanes as an integer in units of 2^unit; each lane is below 2^51 units. It is unsigned because a client may
 * change an arena between the test of an element and its addition: then lanes hold anything, and the sum may overflow. */
static int64_t sum_of_lanes(const vf64 *sums, int unit)
{
    const vf64 start = (vf64){0} + anchor(unit + 52);
    vu64 v = {0};
    for (int u = 0; u < SQUARE_SUMS; u++)
        v += (vu64)(sums[u] + start) - (vu64)start;
    return (int64_t)sum_lanes(v);
}

/* Did any lane see more than -0.0? */
static bool lanes_nonzero(const vf64 *sums)
{
    vi64 differ = {0};
    int64_t any = 0;
    for (int u = 0; u < SQUARE_SUMS; u++)
        differ |= (vi64)sums[u] ^ INT64_MIN;
    for (int j = 0; j < LANES64; j++)
        any |= differ[j];
    return any != 0;
}

/* The anchored lanes' sum as an integer in units of 2^(k - 52); unsigned as sum_of_lanes. */
static int64_t sum_of_anchored(const vf64 *squares, int k)
{
    const vf64 start = (vf64){0} + anchor(k);
    vu64 v = {0};
    for (int u = 0; u < SQUARE_SUMS; u++)
        v += (vu64)squares[u] - (vu64)start;
    return (int64_t)sum_lanes(v);
}

/* Let elements be multiples of u = 2^(lowest - 150) below 2^(guess - 126), and 2^c of them go to a lane. Their squares sum
 * to at most 2^(k-1). A rest is at most 2^(k-53), half of the anchor's last place, and 2^c of them at most 2^50 u^2, if guess -
 * lowest is at most 27 - c; multiples of u^2 they are. So both lanes' additions are exact. The same bound makes plain sums
 * of the elements exact, too. */
static bool take_square_lanes(square_acc *s, const square_lanes *l, span r, size_t n)
{
    const int k = square_anchor(s, n), unit = 2 * (r.lowest + RK_E0_32);
    if (r.highest > s->lanes.guess || s->lanes.guess - r.lowest > 27 - log2_share(n))
        return false;
    acc_add(&s->a, sum_of_anchored(l->square, k), k - 52);
    acc_add(&s->a, sum_of_lanes(l->rest, unit), unit);
    try_fitted(&s->lanes.last);
    return true;
}

/* n: a multiple of STEP32. False, and nothing is added: there are infinities or NaNs, or exponents lie too far apart. */
static bool add_square_lanes(square_acc *s, const void *x, size_t n, square_lanes_fn *read)
{
    const int most = 27 - log2_share(n);
    square_lanes l;
    if (try_skipped(&s->lanes.last))
        return false;
    for (int attempt = 0; attempt < 2; attempt++) {
        span r = read(x, n, square_anchor(s, n), &l);
        if (r.highest == 0xff || r.highest - r.lowest > most)
            break;
        if (take_square_lanes(s, &l, r, n))
            return true;
        s->lanes.guess = r.highest + (r.highest - r.lowest < most); /* plus one for larger elements, if the span allows it */
    }
    try_failed(&s->lanes.last);
    return false;
}

/* Elements and squares in one pass. n: a multiple of STEP32, at most BLOCK64. False, and nothing is added: elements and squares
 * must be added separately. */
static bool add_both_lanes(acc *a, pace *p, square_acc *s, const void *x, size_t n, square_lanes_fn *read)
{
    square_lanes l;
    if (a->magnitudes || p->last.skip > 0 || s->lanes.last.skip > 0)
        return false;
    span r = read(x, n, square_anchor(s, n), &l);
    if (r.highest == 0xff || r.zero || !take_square_lanes(s, &l, r, n))
        return false;
    a->nz |= lanes_nonzero(l.sum);
    acc_add(a, sum_of_lanes(l.sum, r.lowest + RK_E0_32), r.lowest + RK_E0_32);
    try_fitted(&p->last);
    return true;
}

#define SQUARES(TYPE)                                                                                            \
    static __attribute__((noinline)) span square_lanes_##TYPE(const void *x, size_t n, int k, square_lanes *out) \
    {                                                                                                            \
        return lanes_of_##TYPE##_squares(x, n, false, k, out);                                                   \
    }                                                                                                            \
    static __attribute__((noinline)) span both_lanes_##TYPE(const void *x, size_t n, int k, square_lanes *out)   \
    {                                                                                                            \
        return lanes_of_##TYPE##_squares(x, n, true, k, out);                                                    \
    }                                                                                                            \
    static bool add_square_block_##TYPE(square_acc *s, const void *x, size_t n)                                  \
    {                                                                                                            \
        return add_square_lanes(s, x, n, square_lanes_##TYPE);                                                   \
    }                                                                                                            \
    static bool add_both_##TYPE(acc *a, pace *p, square_acc *s, const void *x, size_t n)                         \
    {                                                                                                            \
        return add_both_lanes(a, p, s, x, n, both_lanes_##TYPE);                                                 \
    }
SQUARES(f32)
SQUARES(bf16)
SQUARES(f16)
#undef SQUARES

/* ---- f64 has no such way ---- */

static bool add_square_block_f64(const square_acc *s, const void *x, size_t n)
{
    (void)s, (void)x, (void)n;
    return false;
}

#endif
