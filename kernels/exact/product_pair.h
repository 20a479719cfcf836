/* Products of floats in two doubles, and their rounding where that is certain (Ziv). The definition of a product is a sum of
 * logarithms (log2.h); a result needs only its rounded value, and three operations on doubles are a multiplication.
 *
 * A pair is (high + low) 2^exponent. Factors are from [1, 16) and exact in a double: a significand, or a product of
 * significands of together at most 53 bits. Exponents are added up as integers; zeros, infinities and NaNs are the caller's.
 *
 * How far is a pair from the true product T of n factors? Let u = 2^-53.
 *
 *     a step     p = RN(high y), e = high y - p, exactly; low' = RN(low y + e). So |e| <= u p. If |low| <= a u high, then
 *                |low'| <= (a + 1) u p, but for a factor 1 + 2u a step, and its rounding is at most u (a + 1) u p.
 *     normalised |low| <= u high: a = 1. So step k of those after it (from 1) errs by at most (k + 1) u^2, and
 *                RK_PAIR_STEPS = 32 steps by at most 560 u^2, in the mean 17.5 u^2 a step. Normalising is exact: Dekker's
 *                sum, as |low| <= high, and a power of two.
 *     a join     of two normalised ones leaves out low1 low2, at most u^2, and rounds |low1 high2 + e| and that and
 *                high1 low2, at most 2 u and 3 u of p: together less than 7 u^2 (as in Joldes, Muller, Popescu, Tight and
 *                rigorous error bounds for basic building blocks of double-word arithmetic, 2017). A join with 1 is exact.
 *
 * There is at most one step and at most one join for each factor, and a factor of 1 errs in neither. Powers of 1 + 2^-52 and of
 * the errors of earlier steps, which are below 2^-40 together, change the constants below their last digit: n 25 u^2 in all.
 * Underflow of `low` errs by 2^-1075 beside a `high` of at least 1. The definition's 2^S is within n 2^-112 ln 2 + 2^-120 of T,
 * with its 2^-120 less than u^2 / 2^14. Cutting the pair to 126 bits loses 2^-126 < u^2. So T and 2^S lie within
 *
 *     n 32 u^2 = n 2^-101
 *
 * of the pair, and what the definition rounds lies in an interval around it. Rounding is monotone: if both ends give the same
 * bits, those are the definition's. If they do not, as with a tie, only the logarithms can tell.
 *
 * Rounding to nearest is assumed. Pure, thread-safe; on the host `fma` of math.h should be an instruction. */
#ifndef RK_PRODUCT_PAIR_H
#define RK_PRODUCT_PAIR_H

#include <math.h>
#include <string.h>

#include "kernels/exact/log2.h"

#define RK_PAIR_STEPS 32 /* at most, of factors from [1, 16), before a pair is normalised */

typedef struct rk_product_pair {
    double high, low;
    int64_t exponent;
} rk_product_pair;

/* ---- operations that are rounded once, whatever a compiler may contract ---- */

#ifdef __CUDA_ARCH__
RK_FN double rk_pair_multiply(double a, double b) { return __dmul_rn(a, b); }
RK_FN double rk_pair_add(double a, double b) { return __dadd_rn(a, b); }
RK_FN double rk_pair_fma(double a, double b, double c) { return __fma_rn(a, b, c); }
RK_FN uint64_t rk_bits_of_double(double v) { return (uint64_t)__double_as_longlong(v); }
RK_FN double rk_double_of_bits(uint64_t bits) { return __longlong_as_double((long long)bits); }
#else
RK_FN double rk_pair_multiply(double a, double b) { return a * b; }
RK_FN double rk_pair_add(double a, double b) { return a + b; }
RK_FN double rk_pair_fma(double a, double b, double c) { return fma(a, b, c); }
RK_FN uint64_t rk_bits_of_double(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
RK_FN double rk_double_of_bits(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
#endif

/* ---- pairs ---- */

RK_FN rk_product_pair rk_pair_one(void)
{
    rk_product_pair one = {1, 0, 0};
    return one;
}

/* A step: times y, from [1, 16) */
RK_FN void rk_pair_times(double *high, double *low, double y)
{
    double p = rk_pair_multiply(*high, y), e = rk_pair_fma(*high, y, -p);
    *low = rk_pair_fma(*low, y, e);
    *high = p;
}

/* To 1 <= high < 2 and |low| <= 2^-53 high. Before, high is at least 1 and below 2^1000. Returns the exponent taken out. */
RK_FN int rk_pair_normalise(double *high, double *low)
{
    double sum = rk_pair_add(*high, *low), rest = rk_pair_add(*low, -rk_pair_add(sum, -*high));
    uint64_t bits = rk_bits_of_double(sum);
    int exponent = (int)(bits >> 52) - 1023;
    *high = rk_double_of_bits(bits - ((uint64_t)(int64_t)exponent << 52));
    *low = rk_pair_multiply(rest, rk_double_of_bits((uint64_t)(1023 - exponent) << 52));
    return exponent;
}

/* *a times b, both normalised, which *a is again */
RK_FN void rk_pair_join(rk_product_pair *a, rk_product_pair b)
{
    double p = rk_pair_multiply(a->high, b.high), e = rk_pair_fma(a->high, b.high, -p);
    a->low = rk_pair_fma(a->high, b.low, rk_pair_fma(a->low, b.high, e));
    a->high = p;
    a->exponent += b.exponent + rk_pair_normalise(&a->high, &a->low);
}

/* The significand, from [1, 2), of the finite element with these bits, which has no sign and is not zero; and its exponent. */
RK_FN double rk_pair_factor(rk_format f, uint64_t magnitude, int *exponent)
{
    rk_number x = rk_number_of(f, magnitude);
    int shift = rk_clz64(x.mantissa) - 11; /* to 53 bits */
    *exponent = x.unit + 52 - shift;
    return rk_double_of_bits(((x.mantissa << shift) & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52);
}

/* ---- the result ---- */

/* A normalised pair's high + low in units of 2^-126, cut */
RK_FN rk_u128 rk_pair_significand(double high, double low)
{
    const uint64_t hidden = (uint64_t)1 << 52;
    uint64_t bits = rk_bits_of_double(low);
    rk_u128 v = (rk_u128)((rk_bits_of_double(high) & (hidden - 1)) | hidden) << (126 - 52);
    int field = (int)(bits >> 52) & 2047, shift = field - 1075 + 126; /* of low's last place, in these units: at most 21 */
    rk_u128 part = (bits & (hidden - 1)) | hidden;
    part = field == 0 || shift < -63 ? 0 : shift < 0 ? part >> -shift : part << shift;
    return bits >> 63 ? v - part : v + part;
}

/* v * 2^(top - 126), v from [2^125, 2^128), as the definition rounds it */
RK_FN uint64_t rk_pair_round_end(rk_u128 v, int top, int negative, rk_format f)
{
    int shift = rk_clz64((uint64_t)(v >> 64));
    return rk_round_significand(v << shift, top + 1 - shift, negative, f);
}

/* The product of at most n factors, which a normalised pair has, as the definition rounds it, in a format and with that sign.
 * False: it is not certain. */
RK_FN int rk_pair_round(rk_product_pair p, uint64_t n, int negative, rk_format f, uint64_t *result)
{
    const int far = 65536; /* outside every format */
    int top = p.exponent > far ? far : p.exponent < -far ? -far : (int)p.exponent;
    if (n >> 60)
        return 0;
    rk_u128 v = rk_pair_significand(p.high, p.low), error = (rk_u128)(n + 1) << (126 - 101 + 1); /* high + low < 2 */
    *result = rk_pair_round_end(v - error, top, negative, f);
    return rk_pair_round_end(v + error, top, negative, f) == *result;
}

#endif
