/* Comoments: sums of two operands x and w, of their products, and of their squares. States of cov and corr.
 *
 *   cov     C / (n (n - ddof))        C = n Sxw - Sx Sw; Sxw the sum of the products
 *   corr    C / root of (X W)         X = n Sxx - Sx^2, W = n Sww - Sw^2; NaN if one of them is 0
 *
 * C, X and W are exact integers in the unit of squares (sums.h). The covariance is one division. The magnitude of a
 * correlation is the root of C^2 / (X W): that quotient is cut after 128 bits and its root after 64, each with a bit for what
 * was cut off, and rounded once. It is never above 1, because C^2 <= X W (Cauchy and Schwarz).
 *
 * An infinity or NaN in either operand makes the result NaN, as that of a variance. */
#ifndef RK_COMOMENTS_H
#define RK_COMOMENTS_H

#include "kernels/exact/families/pairs.h"

/* The numbers of a state, in the order of its limbs. Those of cov end before the squares. */
enum { RK_CO_W, RK_CO_XW, RK_CO_X, RK_CO_XX, RK_CO_WW, RK_CO_NUMBERS };

RK_FN int rk_has_squares(int layout) { return rk_other_limbs(layout) > rk_sum_limbs(layout); }

/* How many numbers a state of sums, pairs or comoments has, the limbs of one, and where they begin. */
RK_FN int rk_numbers(int layout)
{
    return !rk_is_comoments(layout) ? RK_CO_X : rk_has_squares(layout) ? RK_CO_NUMBERS : RK_CO_XX;
}
RK_FN int rk_number_limbs(int layout, int number)
{
    return number == RK_CO_W || number == RK_CO_X ? rk_sum_limbs(layout) : rk_square_limbs(layout);
}
RK_FN int rk_number_at(int layout, int number)
{
    return (number + 1) / 2 * rk_sum_limbs(layout) + number / 2 * rk_square_limbs(layout);
}

/* ---- add, merge -------------------------------------------------------------------------------------------------- */

/* As rk_pairs_add; no pair is left out for a weight of 0. */
RK_FN void rk_comoments_add(rk_state *s, uint64_t x, uint64_t w, int nan_policy)
{
    const int dtype = s->dtype, floats = rk_is_float(dtype), numbers = rk_numbers(s->layout), e0 = rk_e0(dtype);
    const uint64_t given[2] = {dtype == RP_BOOL ? x != 0 : x, dtype == RP_BOOL ? w != 0 : w};
    rk_number v[2];
    if ((rk_is_nan(dtype, x) || rk_is_nan(dtype, w)) && nan_policy != RP_NAN_PROPAGATE) {
        s->skipped = 1;
        return;
    }
    s->count++;
    for (int i = 0; i < 2; i++) {
        const rk_format f = rk_format_of(dtype);
        if (floats && (given[i] & ~rk_sign_bit(f, 1)) >= rk_inf_bits(f))
            s->special = RK_NAN;
        v[i] = rk_number_of(f, given[i]);
        if (!floats) {
            v[i].mantissa = rk_magnitude(dtype, given[i]);
            v[i].negative = rk_int_is_negative(dtype, given[i]);
            v[i].unit = 0;
        }
    }
    if (s->special)
        rk_sums_void(s);
    for (int k = 0; !s->special && k < numbers; k++) {
        const rk_number a = v[k == RK_CO_W || k == RK_CO_WW], b = v[k != RK_CO_XX];
        uint64_t *limb = s->limb + rk_number_at(s->layout, k);
        const int n = rk_number_limbs(s->layout, k), sum = k == RK_CO_W || k == RK_CO_X;
        const unsigned __int128 product = (unsigned __int128)a.mantissa * (sum ? 1 : b.mantissa);
        const int shift = sum ? a.unit - e0 : a.unit + b.unit - 2 * e0, negative = sum ? a.negative : a.negative != b.negative;
        rk_add_shifted(limb, n, (uint64_t)product, shift, negative);
        if (!sum)
            rk_add_shifted(limb, n, (uint64_t)(product >> 64), shift + 64, negative);
    }
}

/* What rk_sums_merge leaves: it knows the first two numbers, and clears all of them. */
RK_FN void rk_comoments_merge(rk_state *s, const rk_state *o)
{
    for (int k = RK_CO_X, all = rk_numbers(s->layout); !s->special && k < all; k++) {
        const int at = rk_number_at(s->layout, k);
        rk_add_limbs(s->limb + at, o->limb + at, rk_number_limbs(s->layout, k));
    }
}

/* ---- finish ------------------------------------------------------------------------------------------------------ */

enum {
    RK_CO_LIMBS = RK_SQUARE_LIMBS64 + 2, /* of C, X and W: |C| < 2^60 |Sxw| + |Sx Sw| */
    RK_CO_SCRATCH = 11 * RK_CO_LIMBS + 1 /* words of scratch: C, X, W; C^2 and X W; twice those and one for their quotient */
};

/* a[0..n) += or -= u v, all in two's complement */
RK_COLD void rk_join_product(uint64_t *a, int n, const uint64_t *u, int nu, const uint64_t *v, int nv, int minus)
{
    const int below = (int)(u[nu - 1] >> 63), beside = (int)(v[nv - 1] >> 63), negative = (below != beside) != minus;
    const rk_range p = rk_range_of(u, nu), q = rk_range_of(v, nv);
    for (int i = p.low; i < p.end; i++) {
        const uint64_t by = rk_magnitude_limb(u, i, below, p.low);
        uint64_t high = 0, carry = 0;
        for (int k = i + q.low; k < n && (k < i + q.end || high | carry); k++) {
            const uint64_t digit = k < i + q.end ? rk_magnitude_limb(v, k - i, beside, q.low) : 0, before = a[k];
            const unsigned __int128 product = (unsigned __int128)by * digit + high;
            const uint64_t low = (uint64_t)product, t = negative ? before - low : before + low;
            a[k] = negative ? t - carry : t + carry;
            carry = negative ? (before < low) | (t < carry) : (t < low) | (a[k] < t);
            high = (uint64_t)(product >> 64);
        }
    }
}

/* n times one number of the state less the product of two others, to out[0..returned). */
RK_FN int rk_comoments_numerator(const rk_state *s, int of, int a, int b, uint64_t out[RK_CO_LIMBS])
{
    const int layout = s->layout, sum = rk_sum_limbs(layout), squares = rk_square_limbs(layout), n = squares + 2;
    for (int i = 0; i < n; i++)
        out[i] = 0;
    rk_join_product(out, n, s->limb + rk_number_at(layout, of), squares, &s->count, 1, 0);
    rk_join_product(out, n, s->limb + rk_number_at(layout, a), sum, s->limb + rk_number_at(layout, b), sum, 1);
    return n;
}

/* C^2 and X W, which have twice the limbs of C; returns how many. False in *fine: X or W is negative, which no data give.
 * `scratch`: twice the limbs of C. */
RK_FN int rk_comoments_powers(const rk_state *s, const uint64_t *c, uint64_t *square, uint64_t *product, uint64_t *scratch,
                              int *fine)
{
    uint64_t *x = scratch, *w = scratch + RK_CO_LIMBS;
    const int n = rk_comoments_numerator(s, RK_CO_XX, RK_CO_X, RK_CO_X, x);
    rk_comoments_numerator(s, RK_CO_WW, RK_CO_W, RK_CO_W, w);
    for (int i = 0; i < 2 * n; i++)
        square[i] = product[i] = 0;
    rk_join_product(square, 2 * n, c, n, c, n, 0);
    rk_join_product(product, 2 * n, x, n, w, n, 0);
    *fine = !((x[n - 1] | w[n - 1]) >> 63);
    return 2 * n;
}

/* `scratch`: RK_CO_SCRATCH words but for those of C. */
RK_FN uint64_t rk_finish_corr(const rk_state *s, const uint64_t *c, int negative, rk_format f, uint64_t *scratch)
{
    uint64_t *square = scratch + 2 * RK_CO_LIMBS, *product = square + 2 * RK_CO_LIMBS, *quotient = product + 2 * RK_CO_LIMBS;
    int fine;
    const int n = rk_comoments_powers(s, c, square, product, scratch, &fine);
    const rk_range above = rk_range_of(square, n), below = rk_range_of(product, n);
    if (!below.end)
        return rk_nan_bits(f);
    return rk_round_top(rk_root(rk_divide_limbs(square, n, above, product, n, below, 0, quotient)), negative, f);
}

/* An exact zero is +0.0. `scratch`: RK_CO_SCRATCH words. */
RK_FN uint64_t rk_finish_comoments(const rk_state *s, uint32_t ddof, rk_format f, uint64_t *scratch)
{
    uint64_t *c = scratch;
    if (s->special || s->count <= ddof)
        return rk_nan_bits(f);
    const int n = rk_comoments_numerator(s, RK_CO_XW, RK_CO_X, RK_CO_W, c), negative = (int)(c[n - 1] >> 63);
    if (rk_has_squares(s->layout))
        return rk_finish_corr(s, c, negative, f, scratch + RK_CO_LIMBS);
    return rk_round_top(rk_divide(c, n, 2 * rk_e0(s->dtype), s->count, s->count - ddof, 1), negative, f);
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

RK_FN int rk_comoments_number_possible(const rk_state *s, int number)
{
    const uint64_t *limb = s->limb + rk_number_at(s->layout, number);
    const int n = rk_number_limbs(s->layout, number), square = number > RK_CO_X,
              times = number == RK_CO_W || number == RK_CO_X ? 1 : 2;
    if (square && limb[n - 1] >> 63)
        return 0;
    return rk_is_float(s->dtype) ? !rk_check_float_limbs(s, limb, n, times).why : rk_int_sum_possible(s, limb, times);
}

/* Are X and W not negative, and is C^2 <= X W? Then a correlation is not beyond 1. */
RK_FN int rk_comoments_possible(const rk_state *s)
{
    uint64_t c[RK_CO_LIMBS], square[2 * RK_CO_LIMBS], product[2 * RK_CO_LIMBS], scratch[2 * RK_CO_LIMBS];
    int fine;
    rk_comoments_numerator(s, RK_CO_XW, RK_CO_X, RK_CO_W, c);
    const int n = rk_comoments_powers(s, c, square, product, scratch, &fine);
    return fine && rk_ordered(square, product, n);
}

RK_FN rk_flaw rk_comoments_check(const rk_state *s)
{
    int fine = 1;
    rk_flaw flaw = rk_check_special(s, rk_all_zero(s->limb, rk_limbs(s->layout)));
    if (!flaw.why && s->special && s->special != RK_NAN)
        return rk_bad("special", "an infinity, which makes a state of cov or corr NaN");
    for (int k = 0, all = rk_numbers(s->layout); k < all; k++)
        fine = fine && rk_comoments_number_possible(s, k);
    if (!flaw.why && fine && rk_has_squares(s->layout))
        fine = rk_comoments_possible(s);
    return flaw.why || fine ? flaw : rk_bad("limbs", "more than the elements can sum to");
}

#endif
