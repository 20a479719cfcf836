/* Exact sums of squares of floats.
 *
 * The square of an f32, bf16 or f16 is a double. Most blocks are summed in anchored lanes, with further lanes for the rests
 * (squares_silent.h, squares_span.h). Squares whose exponents lie too far apart go to the block adder of sum_f64.h.
 *
 * The square of an f64 is passed to that adder as two doubles, p + q: p is x^2 rounded, and q its error (Dekker 1971; a fused
 * multiply-add if the processor has one). Where q would underflow or p overflow, the element is squared as an integer. */
#ifndef RK_CPU_SQUARES_H
#define RK_CPU_SQUARES_H

#include "kernels/cpu/loops/squares/squares_near.h"
#include "kernels/cpu/loops/vec.h"
#if VB == 64
#include "kernels/cpu/loops/squares/squares_silent.h"
#else
#include "kernels/cpu/loops/squares/squares_span.h"
#endif

static void squares_start(square_acc *s, const rk_state *state, uint64_t n, int nan_policy)
{
    acc_start(&s->a, rk_square_limbs(state->layout), 2 * rk_e0(state->dtype), false, n, nan_policy);
    s->a.nz = 1; /* squares have no -0.0 */
    s->lanes = s->p = s->q = (pace){0};
}

/* n rounded up to whole steps; the elements after n are set to 0. */
static size_t pad64(double *x, size_t n)
{
    size_t whole = (n + STEP64 - 1) / STEP64 * STEP64;
    memset(x + n, 0, (whole - n) * sizeof *x);
    return whole;
}

/* ---- f32, bf16, f16 ---- */

/* n is at most BLOCK64 */
#define SQUARES(TYPE, BYTES)                                                                      \
    static __attribute__((noinline)) void squared_##TYPE(double *out, const void *data, size_t n) \
    {                                                                                             \
        const char *x = data;                                                                     \
        size_t i = 0;                                                                             \
        for (; i + LANES64 <= n; i += LANES64) {                                                  \
            vf64 v = load_##TYPE(x + BYTES * i);                                                  \
            if (BYTES * i % 64 == 0)                                                              \
                prefetch(x + BYTES * i, AHEAD);                                                   \
            *(vf64_loose *)(void *)(out + i) = v * v;                                             \
        }                                                                                         \
        float rest[LANES64] = {0};                                                                \
        widen_##TYPE(rest, x + BYTES * i, n - i);                                                 \
        for (size_t k = 0; k < n - i; k++)                                                        \
            out[i + k] = (double)rest[k] * rest[k];                                               \
    }                                                                                             \
    static void add_squares_##TYPE(square_acc *s, const void *x, size_t n)                        \
    {                                                                                             \
        _Alignas(VB) double p[BLOCK64];                                                           \
        size_t whole = n / STEP32 * STEP32;                                                       \
        if (!whole || !add_square_block_##TYPE(s, x, whole))                                      \
            whole = 0;                                                                            \
        if (whole == n)                                                                           \
            return;                                                                               \
        squared_##TYPE(p, (const char *)x + BYTES * whole, n - whole);                            \
        add_block64(&s->a, &s->p, p, pad64(p, n - whole));                                        \
    }
SQUARES(f32, 4)
SQUARES(bf16, 2)
SQUARES(f16, 2)
#undef SQUARES

/* ---- f64 ---- */

/* Where p and q are both exact */
#define SQUARE_LEAST 0x1p-480
#define SQUARE_MOST 0x1p495

/* x[i]^2 = p[i] + q[i], n a multiple of LANES64; false if some x needs more. */
static __attribute__((noinline)) bool squares_of_f64_fused(double *p, double *q, const void *x, size_t n)
{
    vi64 odd = {0};
    int64_t any = 0;
    for (size_t i = 0; i < n; i += LANES64) {
        vf64 v = *(const vf64_loose *)(const void *)((const char *)x + 8 * i);
        vf64 m = (vf64)((vi64)v & INT64_MAX), square = v * v;
        if (i * 8 % 64 == 0)
            prefetch((const char *)x + 8 * i, AHEAD);
        odd |= ((m < SQUARE_LEAST) & (m != 0)) | ~(m < SQUARE_MOST);
        *(vf64_loose *)(void *)(p + i) = square;
        *(vf64_loose *)(void *)(q + i) = square_error(v, square);
    }
    for (int j = 0; j < LANES64; j++)
        any |= odd[j];
    return any == 0;
}

/* x^2 of a finite x as an integer */
static void add_square(acc *a, uint64_t bits)
{
    rk_number x = rk_number_of(rk_format_of(RP_F64), bits);
    acc_add(a, (i128)x.mantissa * x.mantissa, 2 * x.unit);
}

/* Adds elements for which p and q do not work, and puts zeros in their places. */
static __attribute__((noinline)) void add_odd_squares(acc *a, double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double m = __builtin_fabs(x[i]);
        if ((m >= SQUARE_LEAST && m < SQUARE_MOST) || m == 0)
            continue;
        if (!(m < __builtin_inf()))
            add_special(a, m != m, false);
        else
            add_square(a, bits_of_f64(x[i]));
        x[i] = 0;
    }
}

static void add_squares_f64(square_acc *s, const void *x, size_t n)
{
    _Alignas(VB) double copy[BLOCK64], p[BLOCK64], q[BLOCK64];
    if (n % STEP64 == 0 && add_square_block_f64(s, x, n))
        return;
    if (n % STEP64) {
        memcpy(copy, x, 8 * n);
        n = pad64(copy, n);
        x = copy;
    }
    if (add_near(&s->a, &s->lanes, x, n, near_squares_fused, reach_of_squares, 1))
        return;
    if (!squares_of_f64_fused(p, q, x, n)) {
        memmove(copy, x, 8 * n);
        add_odd_squares(&s->a, copy, n);
        squares_of_f64_fused(p, q, copy, n);
    }
    add_block64(&s->a, &s->p, p, n);
    add_block64(&s->a, &s->q, q, n);
}

#endif
