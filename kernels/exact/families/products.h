/* Products: of floats the sum of the logarithms in fixed point (log2.h), of integers the product itself.
 *
 * Limbs of floats: the rk_log2 sum of 3 limbs, the number of elements with the sign bit; of integers RK_PROD_* below. */
#ifndef RK_PRODUCTS_H
#define RK_PRODUCTS_H

#include "kernels/exact/families/sums.h"
#include "kernels/exact/log2.h"

enum {                    /* prod of integers: limbs */
       RK_PROD_WRAPPED,   /* the product modulo 2^64 */
       RK_PROD_MAGNITUDE, /* of the nonzero elements; 0 if it is 2^64 or more */
       RK_PROD_NEGATIVES  /* number of negative elements */
};

/* ---- init, merge, add -------------------------------------------------------------------------------------------- */

RK_FN void rk_products_init(rk_state *s)
{
    if (s->layout == RP_STATE_PRODINT)
        s->limb[RK_PROD_WRAPPED] = s->limb[RK_PROD_MAGNITUDE] = 1;
}

/* Multiplies magnitudes; 0 stands for 2^64 or more. */
RK_FN uint64_t rk_times(uint64_t a, uint64_t b) { return (unsigned __int128)a * b >> 64 ? 0 : a * b; }

/* Floats: with infinities, NaNs or zeros the logarithm is cleared. The signs still count, unless the result is NaN. */
RK_FN void rk_products_void(rk_state *s)
{
    for (int i = 0, n = s->special == RK_NAN ? 4 : 3; i < n; i++)
        s->limb[i] = 0;
}

/* `special` is joined. */
RK_FN void rk_products_merge(rk_state *s, const rk_state *o)
{
    uint64_t *a = s->limb;
    const uint64_t *b = o->limb;
    if (s->layout == RP_STATE_PRODINT) {
        a[RK_PROD_WRAPPED] *= b[RK_PROD_WRAPPED];
        a[RK_PROD_MAGNITUDE] = rk_times(a[RK_PROD_MAGNITUDE], b[RK_PROD_MAGNITUDE]);
        a[RK_PROD_NEGATIVES] += b[RK_PROD_NEGATIVES];
        return;
    }
    rk_add_limbs(a, b, 3);
    a[3] += b[3];
    if (s->special)
        rk_products_void(s);
}

RK_FN void rk_add_float_product(rk_state *s, uint64_t bits)
{
    rk_format f = rk_format_of(s->dtype);
    uint64_t magnitude = bits & ~rk_sign_bit(f, 1);
    if (s->special != RK_NAN)
        s->limb[3] += magnitude != bits;
    if (magnitude == 0 || magnitude >= rk_inf_bits(f))
        s->special |= magnitude == 0 ? RK_ZERO : magnitude == rk_inf_bits(f) ? RK_INF : RK_NAN;
    else
        rk_log2_add(s->limb, f, magnitude);
    if (s->special)
        rk_products_void(s);
}

RK_FN void rk_add_int_product(rk_state *s, uint64_t bits)
{
    int negative = rk_is_signed(s->dtype) && rk_sign_extend(bits, rk_bytes(s->dtype)) >> 63;
    uint64_t magnitude = rk_magnitude(s->dtype, bits);
    s->limb[RK_PROD_WRAPPED] *= negative ? 0 - magnitude : magnitude;
    s->limb[RK_PROD_NEGATIVES] += (uint64_t)negative;
    if (magnitude)
        s->limb[RK_PROD_MAGNITUDE] = rk_times(s->limb[RK_PROD_MAGNITUDE], magnitude);
    else
        s->special |= RK_ZERO;
}

RK_FN void rk_products_add(rk_state *s, uint64_t bits)
{
    if (s->layout == RP_STATE_PRODINT)
        rk_add_int_product(s, bits);
    else
        rk_add_float_product(s, bits);
}

/* ---- finish ------------------------------------------------------------------------------------------------------ */

/* The product with infinities, NaNs or zeros */
RK_FN uint64_t rk_special_product(int special, int negative, rk_format f)
{
    if (special == RK_NAN)
        return rk_nan_bits(f);
    return rk_sign_bit(f, negative) | (special == RK_INF ? rk_inf_bits(f) : 0);
}

RK_FN uint64_t rk_finish_product(const rk_state *s, rk_format f)
{
    int negative = (int)(s->limb[3] & 1);
    return s->special ? rk_special_product(s->special, negative, f) : rk_exp2_round(s->limb, negative, f);
}

/* The product of integers as 192-bit two's complement. False: its magnitude is 2^64 or more, and no more is known. */
RK_FN int rk_products_integer(const rk_state *s, uint64_t v[3])
{
    v[0] = s->special ? 0 : s->limb[RK_PROD_MAGNITUDE];
    v[1] = v[2] = 0;
    if (!s->special && !v[0])
        return 0;
    if (s->limb[RK_PROD_NEGATIVES] & 1 && v[0]) {
        v[0] = 0 - v[0];
        v[1] = v[2] = ~(uint64_t)0;
    }
    return 1;
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

/* The sum of the logarithms of `count` elements, each from that of the smallest subnormal, a whole number, to that of the
 * largest element. (Of two elements the larger one has the larger logarithm: they differ by more than the error.) */
RK_FN int rk_logarithms_possible(const rk_state *s, uint64_t count)
{
    rk_format f = rk_format_of(s->dtype);
    __int128 unit = (__int128)count << (RK_LOG2_FRACTION - 64);
    __int128 whole = (__int128)((unsigned __int128)s->limb[2] << 64 | s->limb[1]);
    if (whole < 0)
        return whole >= unit * (f.emin - (f.precision - 1));
    uint64_t largest[3] = {0, 0, 0}, bound[3];
    rk_range all = {0, 2};
    rk_log2_add(largest, f, rk_inf_bits(f) - 1);
    rk_multiply(bound, largest, all, 0, 3, count);
    return rk_ordered(s->limb, bound, 3);
}

RK_FN rk_flaw rk_check_float_product(const rk_state *s)
{
    int zero = rk_all_zero(s->limb, 3);
    if (s->special && (!zero || s->count == 0))
        return rk_bad("special", "an infinity, NaN or zero goes with zero limbs and a count");
    if (s->limb[3] > (s->special == RK_NAN ? 0 : s->count))
        return rk_bad("limbs", "more negative elements than there were");
    return zero || rk_logarithms_possible(s, s->count) ? rk_fine() : rk_bad("limbs", "more than the elements can sum to");
}

/* A magnitude must be at most largest^count; 0 stands for 2^64 or more. */
RK_FN int rk_product_magnitude_possible(const rk_state *s, uint64_t count)
{
    uint64_t magnitude = s->limb[RK_PROD_MAGNITUDE], most = 1, largest = rk_largest_magnitude(s->dtype);
    for (; count && most && largest > 1; count--) /* of bool it is 1, whatever its power */
        most = rk_times(most, largest);
    return most == 0 || (magnitude != 0 && magnitude <= most);
}

RK_FN rk_flaw rk_check_int_product(const rk_state *s)
{
    uint64_t wrapped = s->limb[RK_PROD_WRAPPED], magnitude = s->limb[RK_PROD_MAGNITUDE];
    uint64_t negatives = s->limb[RK_PROD_NEGATIVES], nonzero = s->count - (s->special != 0);
    if (s->special && s->count == 0)
        return rk_bad("special", "a zero without elements");
    if (negatives > (rk_is_signed(s->dtype) ? nonzero : 0))
        return rk_bad("limbs", "more negative elements than there were");
    if (!rk_product_magnitude_possible(s, nonzero))
        return rk_bad("limbs", "more than the elements can multiply to");
    if (s->special ? wrapped != 0 : magnitude && wrapped != (negatives & 1 ? 0 - magnitude : magnitude))
        return rk_bad("limbs", "the product modulo 2^64 is not the product");
    return rk_fine();
}

RK_FN rk_flaw rk_products_check(const rk_state *s)
{
    return s->layout == RP_STATE_PRODINT ? rk_check_int_product(s) : rk_check_float_product(s);
}

#endif
