/* Squares of f32, bf16 and f16 in anchored lanes, with instructions that round without raising the inexact flag (AVX-512).
 *
 * With S the anchored sum so far, T = S + x^2 is rounded silently. Then q = T - S, r = x^2 - q and the sums of the r in lanes of
 * their own raise the flag if they round (r as one fused operation). If it is not raised, the squares' sum is that of all q,
 * which is S at the end less the anchor, and that of all r: no bound on the elements takes part in the proof.
 *
 * The anchor of square_acc's guess makes it likely: for elements below 2^(guess - 126) that are multiples of u an r is at most
 * 2^(k-53), half of the anchor's last place, and 2^c of them sum to less than 2^53 u^2 if the exponents lie within 28 - c. */
#ifndef RK_CPU_SQUARES_SILENT_H
#define RK_CPU_SQUARES_SILENT_H

#include "kernels/cpu/squares_acc.h"

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

/* False, and nothing added: an operation rounded, or infinities or NaNs are there. */
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
    if (!finite(l.squares) || !finite(l.rests))
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
    if (try_skipped(&s->q.last))
        return false;
    if (!s->q.guess || !try_square_lanes(sum, s, x, n, read)) {
        int field = highest(x, n);
        s->q.guess = field + 1;
        if (field == 0xff || !try_square_lanes(sum, s, x, n, read)) {
            try_failed(&s->q.last);
            return false;
        }
    }
    try_fitted(&s->q.last);
    return true;
}

SQUARES(f32, 4)
SQUARES(bf16, 2)
SQUARES(f16, 2)
#undef SQUARES

#endif
