/* Pairs: sums of products x w, and for a weighted mean also the sum of the weights w. States of dot, wsum and wmean.
 *
 * A product of two elements has the unit of squares (sums.h), in which it is exact. Unlike a sum of squares, that of products
 * has a sign. f32 elements with f64 weights are widened to f64 first, which is exact.
 *
 *   dot, wsum   P                 P: the sum of the products
 *   wmean       P / W             W: the sum of the weights; both of any sign
 *
 * An infinite product makes P infinite; of both signs, or 0 times an infinity, NaN. An infinite weight of a mean makes it
 * NaN. */
#ifndef RK_PAIRS_H
#define RK_PAIRS_H

#include "kernels/exact/families/sums.h"

/* ---- add --------------------------------------------------------------------------------------------------------- */

/* How a pair of floats is special: infinities and NaNs. 0: its product is a number. */
RK_FN int rk_pair_special(int layout, rk_format f, uint64_t x, uint64_t w)
{
    const uint64_t sign = rk_sign_bit(f, 1), inf = rk_inf_bits(f), a = x & ~sign, b = w & ~sign;
    if (a < inf && b < inf)
        return 0;
    if (a > inf || b > inf || !a || !b || (b == inf && rk_sum_limbs(layout)))
        return RK_NAN;
    return (x ^ w) & sign ? RK_NINF : RK_PINF;
}

RK_FN void rk_add_product(rk_state *s, uint64_t a, uint64_t b, int shift, int negative)
{
    const int at = rk_sum_limbs(s->layout), n = rk_square_limbs(s->layout);
    const unsigned __int128 product = (unsigned __int128)a * b;
    rk_add_shifted(s->limb + at, n, (uint64_t)product, shift, negative);
    rk_add_shifted(s->limb + at, n, (uint64_t)(product >> 64), shift + 64, negative);
}

RK_FN void rk_add_float_pair(rk_state *s, uint64_t x, uint64_t w)
{
    const rk_format f = rk_format_of(s->dtype);
    const int e0 = rk_e0(s->dtype), sum = rk_sum_limbs(s->layout), special = rk_pair_special(s->layout, f, x, w);
    const rk_number a = rk_number_of(f, x), b = rk_number_of(f, w);
    s->special |= (uint8_t)special;
    if (s->special)
        rk_sums_void(s);
    if (sum && s->special != RK_NAN)
        rk_add_shifted(s->limb, sum, b.mantissa, b.unit - e0, b.negative);
    if (!s->special)
        rk_add_product(s, a.mantissa, b.mantissa, a.unit + b.unit - 2 * e0, a.negative != b.negative);
}

RK_FN int rk_int_is_negative(int dtype, uint64_t bits)
{
    return rk_is_signed(dtype) && rk_sign_extend(bits, rk_bytes(dtype)) >> 63;
}

RK_FN void rk_add_int_pair(rk_state *s, uint64_t x, uint64_t w)
{
    const int sum = rk_sum_limbs(s->layout), negative = rk_int_is_negative(s->dtype, w);
    const uint64_t b = rk_magnitude(s->dtype, w);
    if (sum)
        rk_add_shifted(s->limb, sum, b, 0, negative);
    rk_add_product(s, rk_magnitude(s->dtype, x), b, 0, negative != rk_int_is_negative(s->dtype, x));
}

/* Add the pair of elements with these bits, of the state's type, under the policy. `zero_drops`: not if w is 0. */
RK_FN void rk_pairs_add(rk_state *s, uint64_t x, uint64_t w, int nan_policy, int zero_drops)
{
    const int dtype = s->dtype, floats = rk_is_float(dtype);
    if (dtype == RP_BOOL) {
        x = x != 0;
        w = w != 0;
    }
    if (zero_drops && (floats ? w & ~rk_sign_bit(rk_format_of(dtype), 1) : w) == 0)
        return;
    if ((rk_is_nan(dtype, x) || rk_is_nan(dtype, w)) && nan_policy != RP_NAN_PROPAGATE) {
        s->skipped = 1;
        return;
    }
    if (floats)
        rk_add_float_pair(s, x, w);
    else
        rk_add_int_pair(s, x, w);
    s->count++;
}

/* Merge o into s, as rk_state_merge, without the code for others. */
RK_FN void rk_pairs_merge(rk_state *s, const rk_state *o)
{
    s->special |= o->special;
    s->skipped |= o->skipped;
    s->count += o->count;
    rk_sums_merge(s, o);
}

/* ---- finish ------------------------------------------------------------------------------------------------------ */

/* An exact zero is +0.0 */
RK_FN uint64_t rk_finish_dot(const rk_state *s, rk_format f)
{
    if (s->special)
        return rk_special_bits(s->special, f);
    return rk_round_limbs(s->limb + rk_sum_limbs(s->layout), rk_square_limbs(s->layout), 2 * rk_e0(s->dtype), 0, f);
}

/* P / W, or an infinite P / W. A W of 0 counts as positive. `scratch`: RK_FINISH_SCRATCH words. */
RK_FN uint64_t rk_finish_wmean(const rk_state *s, uint64_t *scratch, rk_format f)
{
    const int sum = rk_sum_limbs(s->layout), n = rk_square_limbs(s->layout), e0 = rk_e0(s->dtype);
    const uint64_t *products = s->limb + sum;
    const rk_range w = rk_range_of(s->limb, sum), p = rk_range_of(products, n);
    const int below = (int)(s->limb[sum - 1] >> 63), negative = (int)(products[n - 1] >> 63) ^ below;
    if (s->special == RK_NAN || (!s->special && !w.end && !p.end))
        return rk_nan_bits(f);
    if (s->special)
        return rk_sign_bit(f, (s->special == RK_NINF) ^ below) | rk_inf_bits(f);
    if (!w.end)
        return rk_sign_bit(f, negative) | rk_inf_bits(f);
    return rk_round_top(rk_divide_limbs(products, n, p, s->limb, sum, w, e0, scratch), negative, f);
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

RK_FN rk_flaw rk_check_float_pairs(const rk_state *s)
{
    const int sum = rk_sum_limbs(s->layout), n = rk_square_limbs(s->layout);
    const int zero = rk_all_zero(s->limb + sum, n) && (s->special != RK_NAN || rk_all_zero(s->limb, sum));
    rk_flaw flaw = rk_check_special(s, zero);
    if (!flaw.why)
        flaw = rk_check_float_limbs(s, s->limb, sum, 1);
    return flaw.why ? flaw : rk_check_float_limbs(s, s->limb + sum, n, 2);
}

/* |limb[0..1 + times)| <= count largest^times, and of unsigned elements it is not negative */
RK_FN int rk_int_sum_possible(const rk_state *s, const uint64_t *limb, int times)
{
    const int n = 1 + times, negative = rk_is_signed(s->dtype) && limb[n - 1] >> 63;
    const unsigned __int128 largest = rk_largest_magnitude(s->dtype), power = times == 2 ? largest * largest : largest;
    const uint64_t one[2] = {(uint64_t)power, (uint64_t)(power >> 64)};
    uint64_t bound[3], magnitude[3], carry = (uint64_t)negative;
    rk_range all = {0, times};
    rk_multiply(bound, one, all, 0, n, s->count);
    for (int i = 0; i < n; i++) {
        magnitude[i] = (negative ? ~limb[i] : limb[i]) + carry;
        carry = carry && !magnitude[i];
    }
    return rk_ordered(magnitude, bound, n);
}

RK_FN rk_flaw rk_check_int_pairs(const rk_state *s)
{
    const int sum = rk_sum_limbs(s->layout);
    int fine = rk_int_sum_possible(s, s->limb + sum, 2);
    if (sum)
        fine = fine && (rk_is_signed(s->dtype) ? rk_signed_sum_possible(s) : rk_powers_possible(s, s->limb, sum, 1));
    return fine ? rk_fine() : rk_bad("limbs", "more than the elements can sum to");
}

RK_FN rk_flaw rk_pairs_check(const rk_state *s)
{
    return rk_is_float(s->dtype) ? rk_check_float_pairs(s) : rk_check_int_pairs(s);
}

#endif
