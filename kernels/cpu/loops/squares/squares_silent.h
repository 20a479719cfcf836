/* Squares of f32, bf16 and f16 in anchored lanes, with instructions that round without raising the inexact flag (AVX-512).
 *
 * With S the anchored sum so far, T = S + x^2 is rounded silently. Then q = T - S, r = x^2 - q (one fused operation) and the
 * sums of the r in lanes of their own raise the flag if they round. If it is not raised, the squares' sum is that of all q,
 * which is the final S minus the anchor, plus that of all r. The proof needs no bound on the elements.
 *
 * The anchor of square_acc's guess makes it likely: for elements below 2^(guess - 126) that are multiples of u, an r is at most
 * 2^(k-53), half of the anchor's last place. 2^c of them sum to less than 2^53 u^2 if the exponents lie within 28 - c. */
#ifndef RK_CPU_SQUARES_SILENT_H
#define RK_CPU_SQUARES_SILENT_H

#include "kernels/cpu/loops/squares/squares_acc.h"

#if VB == 64 /* other instruction sets have no such instructions */

typedef struct square_lanes {
    vf64 sum[SQUARE_SUMS], square[SQUARE_SUMS], rest[SQUARE_SUMS];
    double sums, squares, rests; /* their totals */
} square_lanes;

INLINE vf64 add_square_silently(vf64 x, vf64 to)
{
    return (vf64)_mm512_fmadd_round_pd((__m512d)x, (__m512d)x, (__m512d)to, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x^2 - from */
INLINE vf64 square_less(vf64 x, vf64 from) { return (vf64)_mm512_fmsub_pd((__m512d)x, (__m512d)x, (__m512d)from); }

/* The lanes of the squares of n elements (a multiple of STEP32), and if `both` of the elements, from the anchor 1.5 * 2^k. */
#define SQUARES(TYPE, BYTES)                                                                                             \
    INLINE void lanes_of_##TYPE##_squares(const void *x, size_t n, bool both, int k, square_lanes *out)                  \
    {                                                                                                                    \
        const vf64 start = (vf64){0} + anchor(k);                                                                        \
        vf64 sum[SQUARE_SUMS], square[SQUARE_SUMS], rest[SQUARE_SUMS];                                                   \
        for (int u = 0; u < SQUARE_SUMS; u++) {                                                                          \
            sum[u] = no_sum();                                                                                           \
            square[u] = start;                                                                                           \
            rest[u] = (vf64){0};                                                                                         \
        }                                                                                                                \
        for (size_t i = 0; i < n; i += SQUARE_SUMS * LANES64)                                                            \
            for (int u = 0; u < SQUARE_SUMS; u++) {                                                                      \
                const char *p = (const char *)x + BYTES * (i + (size_t)u * LANES64);                                     \
                vf64 v = load_##TYPE(p), with = add_square_silently(v, square[u]);                                       \
                if (u * LANES64 * BYTES % 64 == 0)                                                                       \
                    prefetch(p, AHEAD);                                                                                  \
                rest[u] += square_less(v, with - square[u]);                                                             \
                square[u] = with;                                                                                        \
                if (both)                                                                                                \
                    sum[u] += v;                                                                                         \
            }                                                                                                            \
        for (int u = 0; u < SQUARE_SUMS; u++)                                                                            \
            square[u] -= start;                                                                                          \
        put_lanes(out->sum, sum, SQUARE_SUMS);                                                                           \
        put_lanes(out->square, square, SQUARE_SUMS);                                                                     \
        put_lanes(out->rest, rest, SQUARE_SUMS);                                                                         \
    }                                                                                                                    \
    static __attribute__((noinline)) void square_lanes_##TYPE##_fused(const void *x, size_t n, int k, square_lanes *out) \
    {                                                                                                                    \
        lanes_of_##TYPE##_squares(x, n, false, k, out);                                                                  \
    }                                                                                                                    \
    static __attribute__((noinline)) void both_lanes_##TYPE##_fused(const void *x, size_t n, int k, square_lanes *out)   \
    {                                                                                                                    \
        lanes_of_##TYPE##_squares(x, n, true, k, out);                                                                   \
    }                                                                                                                    \
    /* The exponent field of the largest magnitude as that of an f32; 0xff: infinities or NaNs. */                       \
    static __attribute__((noinline)) int highest_field_##TYPE(const void *x, size_t n)                                   \
    {                                                                                                                    \
        float wide[BLOCK64];                                                                                             \
        widen_##TYPE(wide, x, n);                                                                                        \
        uint32_t most = 0;                                                                                               \
        for (size_t i = 0; i < n; i++) {                                                                                 \
            uint32_t m = bits_of_f32(wide[i]) & INT32_MAX;                                                               \
            most = m > most ? m : most;                                                                                  \
        }                                                                                                                \
        return (int)(most >> 23);                                                                                        \
    }                                                                                                                    \
    static bool add_square_block_##TYPE(square_acc *s, const void *x, size_t n)                                          \
    {                                                                                                                    \
        return add_square_lanes(NULL, s, x, n, square_lanes_##TYPE##_fused, highest_field_##TYPE);                       \
    }                                                                                                                    \
    static bool add_both_##TYPE(acc *a, pace *p, square_acc *s, const void *x, size_t n)                                 \
    {                                                                                                                    \
        return !a->magnitudes && p->last.skip == 0 &&                                                                    \
               add_square_lanes(a, s, x, n, both_lanes_##TYPE##_fused, highest_field_##TYPE);                            \
    }

typedef void square_lanes_fn(const void *x, size_t n, int k, square_lanes *out);
typedef int highest_field_fn(const void *x, size_t n);

/* False, and nothing is added: an operation rounded, or there are infinities or NaNs. */
static bool try_square_lanes(acc *sum, square_acc *s, const void *x, size_t n, square_lanes_fn *read)
{
    square_lanes l;
    inexact_clear(&l);
    read(x, n, square_anchor(s, n), &l);
    if (inexact_seen(&l))
        return false;
    total_lanes(l.square, SQUARE_SUMS, &l.squares);
    total_lanes(l.rest, SQUARE_SUMS, &l.rests);
    total_lanes(l.sum, SQUARE_SUMS, &l.sums);
    bool rounded = inexact_seen(&l);
    if (!is_finite(l.squares) || !is_finite(l.rests))
        return false;
    if (sum)
        add_lanes(sum, l.sum, SQUARE_SUMS, l.sums, rounded);
    add_lanes(&s->a, l.square, SQUARE_SUMS, l.squares, rounded);
    add_lanes(&s->a, l.rest, SQUARE_SUMS, l.rests, rounded);
    return true;
}

/* The squares of n elements, a multiple of STEP32, and with `sum` the elements. */
static bool add_square_lanes(acc *sum, square_acc *s, const void *x, size_t n, square_lanes_fn *read, highest_field_fn *highest)
{
    if (try_skipped(&s->lanes.last))
        return false;
    if (!s->lanes.guess || !try_square_lanes(sum, s, x, n, read)) {
        int field = highest(x, n);
        s->lanes.guess = field + 1;
        if (field == 0xff || !try_square_lanes(sum, s, x, n, read)) {
            try_failed(&s->lanes.last);
            return false;
        }
    }
    try_fitted(&s->lanes.last);
    return true;
}

SQUARES(f32, 4)
SQUARES(bf16, 2)
SQUARES(f16, 2)
#undef SQUARES

/* ---- f64: x^2 = p + e, rounded and its error; two anchors, and lanes for what both round off ---- */

typedef struct square_lanes64 {
    vf64 square[SQUARE_SUMS], middle[SQUARE_SUMS], rest[SQUARE_SUMS];
    double squares, middles, rests;
} square_lanes64;

INLINE vf64 add_silently(vf64 a, vf64 b)
{
    return (vf64)_mm512_add_round_pd((__m512d)a, (__m512d)b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

INLINE vf64 square_silently(vf64 x)
{
    return (vf64)_mm512_mul_round_pd((__m512d)x, (__m512d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Add v to an anchored sum; returns what the addition rounds off. */
INLINE vf64 add_anchored(vf64 *sum, vf64 v)
{
    vf64 with = add_silently(*sum, v), rest = v - (with - *sum);
    *sum = with;
    return rest;
}

/* n: a multiple of STEP64. Computing e raises the flag if it underflows, so that it is not the whole error. */
static __attribute__((noinline)) void square_lanes_f64_fused(const void *x, size_t n, const int k[2], square_lanes64 *out)
{
    const vf64 start[2] = {(vf64){0} + anchor(k[0]), (vf64){0} + anchor(k[1])};
    vf64 square[SQUARE_SUMS], middle[SQUARE_SUMS], rest[SQUARE_SUMS];
    for (int u = 0; u < SQUARE_SUMS; u++) {
        square[u] = start[0];
        middle[u] = start[1];
        rest[u] = (vf64){0};
    }
    for (size_t i = 0; i < n; i += SQUARE_SUMS * LANES64)
        for (int u = 0; u < SQUARE_SUMS; u++) {
            const char *at = (const char *)x + 8 * (i + (size_t)u * LANES64);
            vf64 v = *(const vf64_loose *)(const void *)at, p = square_silently(v), e = square_less(v, p);
            prefetch(at, AHEAD);
            rest[u] += add_anchored(&middle[u], add_anchored(&square[u], p));
            rest[u] += add_anchored(&middle[u], e);
        }
    for (int u = 0; u < SQUARE_SUMS; u++) {
        square[u] -= start[0];
        middle[u] -= start[1];
    }
    put_lanes(out->square, square, SQUARE_SUMS);
    put_lanes(out->middle, middle, SQUARE_SUMS);
    put_lanes(out->rest, rest, SQUARE_SUMS);
}

/* As try_square_lanes. Elements are expected to lie below 2^(guess - 1022): per lane their squares sum to at most 2^(k-1) of
 * the first anchor. Each element leaves two rests, at most half of its last place each; they sum to at most that of the second
 * anchor. */
static bool try_square_lanes64(square_acc *s, const void *x, size_t n)
{
    int k[2] = {2 * (s->lanes.guess - 1022) + log2_share(n) + 1, 0};
    square_lanes64 l;
    k[1] = k[0] - 53 + log2_share(n) + 2;
    if (k[0] > HIGHEST_ANCHOR || k[1] < -1022)
        return false;
    inexact_clear(&l);
    square_lanes_f64_fused(x, n, k, &l);
    if (inexact_seen(&l))
        return false;
    total_lanes(l.square, SQUARE_SUMS, &l.squares);
    total_lanes(l.middle, SQUARE_SUMS, &l.middles);
    total_lanes(l.rest, SQUARE_SUMS, &l.rests);
    bool rounded = inexact_seen(&l);
    if (!is_finite(l.squares) || !is_finite(l.middles) || !is_finite(l.rests))
        return false;
    add_lanes(&s->a, l.square, SQUARE_SUMS, l.squares, rounded);
    add_lanes(&s->a, l.middle, SQUARE_SUMS, l.middles, rounded);
    add_lanes(&s->a, l.rest, SQUARE_SUMS, l.rests, rounded);
    return true;
}

/* n: a multiple of STEP64. False, and nothing is added: lanes cannot hold the block exactly. */
static bool add_square_block_f64(square_acc *s, const void *x, size_t n)
{
    if (try_skipped(&s->lanes.last))
        return false;
    if (!s->lanes.guess || !try_square_lanes64(s, x, n)) {
        s->lanes.guess = reach_f64(x, n).most + 1;
        if (!try_square_lanes64(s, x, n)) {
            try_failed(&s->lanes.last);
            return false;
        }
    }
    try_fitted(&s->lanes.last);
    return true;
}

#endif
#endif
