/* Products of floats as sums of logarithms: S = the sum over the elements of log2|x|, an integer in units of 2^-112. Each
 * logarithm is the same integer wherever it is computed, and integers add in any order and any split to the same bytes.
 *
 * How far is the result, 2^S rounded to f64, from the true product of n elements? A logarithm has an error below 2^-112; that
 * of a power of two is exact. 2^S is computed with a relative error of 2^-120 and then rounded to 106 bits. So
 *
 *     error <= 0.5 + 2^-53 + n' 2^-59 ulp     n' = elements that are not powers of two
 *
 * and less in narrower types. If the exact product has at most 106 significant bits and n' <= 50, the rounding to 106 bits
 * restores it, and the result is correctly rounded, ties to even included. That holds for any two f64, four f32, nine f16, 13
 * bf16. A product that the result type can represent comes out exactly as long as n' < 2^58.
 *
 * Nothing over- or underflows on the way: 2^60 elements of at most 1075 in magnitude need 71 of the 79 bits above the point.
 *
 * One logarithm. The element is 2^e (1 + x), 0 <= x < 1, of 53 significant bits. Two multiplications by short factors c with
 * tabled -log2(c) bring 1 + x close to one and are exact in 64 bits; a series does the rest:
 *
 *     coarse  c1 = 1 - d1/2^10 by the 9 highest bits of x    1 <= (1 + x) c1 < 1 + 1.5 * 2^-9      fraction of 62 bits
 *     fine    c2 = 1 - d2/2^18 by the excess in 2^-17        1 <= (1 + x) c1 c2 < 1 + 1.5 * 2^-17  of 80 bits
 *     series  log2(1 + r) = r a1 - r^2 a2 + ... - r^6 a6     a_k = log2(e) / k
 *
 * In units of 2^-112 its error is at most 0.87:
 *     0.5    the last rounding
 *     0.02   two table entries, 2^-119 each
 *     0.03   the rest of the series, less than r^7 a7 < 2^-117
 *     0.32   the factor of r^3, off by at most 1.5 of its units of 2^-65: 3.4 * 2^-51 * 1.5 * 2^-65 < 0.32 * 2^-112
 *     below 0.001: the factors of r^5, off by 2^-48, of r^4, by 2 * 2^-64, of r^2 and r, by 2^-110
 *
 * log2_table.py writes the constants. Integers only; pure, thread-safe. */
#ifndef RK_LOG2_H
#define RK_LOG2_H

#include "kernels/exact/limbs.h"
#include "kernels/exact/log2_table.h"

#define RK_LOG2_FRACTION 112 /* fraction bits of S, which has three limbs, two's complement */
#define RK_LOG2_BATCH 65536  /* elements that a batch takes */

typedef unsigned __int128 rk_u128;

/* A table of 128-bit numbers for host and for device: neither can read the other's tables. */
#define RK_WIDE(high, low) ((rk_u128)high << 64 | low)
#ifdef __CUDACC__
#define RK_TABLE(name, rows)                                 \
    static const rk_u128 name##_of_host[] = {rows(RK_WIDE)}; \
    static __device__ const rk_u128 name##_of_device[] = {rows(RK_WIDE)}
#else
#define RK_TABLE(name, rows) static const rk_u128 name##_of_host[] = {rows(RK_WIDE)}
#endif
#ifdef __CUDA_ARCH__
#define RK_AT(name, i) name##_of_device[i]
#else
#define RK_AT(name, i) name##_of_host[i]
#endif

RK_TABLE(rk_log2_coarse, RK_LOG2_COARSE);
RK_TABLE(rk_log2_fine, RK_LOG2_FINE);
RK_TABLE(rk_exp2_terms, RK_EXP2);

RK_FN uint64_t rk_multiply_high(uint64_t a, uint64_t b) { return (uint64_t)((rk_u128)a * b >> 64); }

/* log2(1 + r / 2^80) in units of 2^-128, by Horner's rule: p6 = a6, pk = ak - r p(k+1), the result is r p1. The comments
 * give the units of numbers. `short_r`: r is a multiple of 2^17; then products with it are cut to the same numbers by
 * shifting r beforehand, which is less work where 64 bits take two words. */
RK_FN rk_u128 rk_log2_series(uint64_t r, int short_r)
{
    uint64_t high = r >> 32, low;                         /* of r, in units of 2^-48; of p2 in units of 2^-96 */
    uint64_t p5 = RK_LOG2_A5 - (high * RK_LOG2_A6 >> 16); /* 2^-64 */
    uint64_t p4 = RK_LOG2_A4 - (short_r ? rk_multiply_high(r >> 16, p5) : rk_multiply_high(r, p5) >> 16); /* 2^-64 */
    uint64_t p3 = RK_LOG2_A3 - (short_r ? rk_multiply_high(r >> 15, p4) : rk_multiply_high(r, p4) >> 15); /* 2^-65 */
    rk_u128 p2 = RK_LOG2_A2(RK_WIDE) - (short_r ? (rk_u128)(r >> 17) * p3 : (rk_u128)r * p3 >> 17);       /* 2^-128 */
    low = (uint64_t)p2 >> 32;
    uint64_t upper = (uint64_t)(p2 >> 64);
    rk_u128 t = short_r ? (rk_u128)(r >> 17) * upper + (high * low >> 17) : ((rk_u128)r * upper + high * low) >> 17; /* r p2 */
    rk_u128 p1 = RK_LOG2_A1(RK_WIDE) - t; /* 2^-127 */
    upper = (uint64_t)(p1 >> 64);
    low = (uint64_t)p1;
    if (short_r)
        return (rk_u128)(r >> 15) * upper + rk_multiply_high(r >> 15, low);
    return ((rk_u128)r * upper + rk_multiply_high(r, low)) >> 15;
}

/* log2 of a number from [1, 2), which is less than 2^112 in units of 2^-112, and half a unit more: in units of 2^-128, to be
 * cut. The number is significand / 2^52; `narrow`: it has no more than 24 bits. */
RK_FN rk_u128 rk_log2_uncut(uint64_t significand, int narrow)
{
    rk_u128 coarse = RK_AT(rk_log2_coarse, significand >> 43 & 511);
    uint32_t d1 = (uint32_t)coarse & 1023; /* as part of the logarithm it is negligible: below 2^-118 */
    uint64_t near = significand * (1024 - d1);
    rk_u128 fine = RK_AT(rk_log2_fine, near >> 45 & 511);
    uint32_t d2 = (uint32_t)fine & 1023;
    uint64_t r = near * (((uint32_t)1 << 18) - d2); /* modulo 2^64: without the one, which is 2^80 here */
    return coarse + fine + rk_log2_series(r, narrow) + ((uint64_t)1 << 15);
}

RK_FN rk_u128 rk_log2_fraction(uint64_t significand) { return rk_log2_uncut(significand, 0) >> 16; }

/* The logarithms of at most RK_LOG2_BATCH elements, in registers */
typedef struct rk_log2_batch {
    rk_u128 fractions; /* in units of 2^-112 */
    int64_t exponents;
} rk_log2_batch;

/* Add log2 of the finite element with these bits, which has no sign and is not zero. */
RK_FN void rk_log2_collect(rk_log2_batch *b, rk_format f, uint64_t magnitude)
{
    rk_number x = rk_number_of(f, magnitude);
    int shift = rk_clz64(x.mantissa) - 11; /* to 53 bits */
    b->fractions += rk_log2_fraction(x.mantissa << shift);
    b->exponents += x.unit + 52 - shift;
}

/* S += the batch */
RK_FN void rk_log2_flush(uint64_t acc[3], const rk_log2_batch *b)
{
    uint64_t fraction[3] = {(uint64_t)b->fractions, (uint64_t)(b->fractions >> 64), 0};
    uint64_t whole[3] = {0, (uint64_t)b->exponents << (RK_LOG2_FRACTION - 64),
                         (uint64_t)(b->exponents >> (128 - RK_LOG2_FRACTION))};
    rk_add_limbs(acc, fraction, 3);
    rk_add_limbs(acc, whole, 3);
}

/* S += log2 of one such element */
RK_FN void rk_log2_add(uint64_t acc[3], rk_format f, uint64_t magnitude)
{
    rk_log2_batch one = {0, 0};
    rk_log2_collect(&one, f, magnitude);
    rk_log2_flush(acc, &one);
}

/* a b / 2^128, at most 3 too small */
RK_FN rk_u128 rk_multiply_wide(rk_u128 a, rk_u128 b)
{
    uint64_t ah = (uint64_t)(a >> 64), bh = (uint64_t)(b >> 64);
    return (rk_u128)ah * bh + rk_multiply_high(ah, (uint64_t)b) + rk_multiply_high((uint64_t)a, bh);
}

/* 2^f for f in units of 2^-128, as a number from [1, 2) in units of 2^-127: Taylor's series. It is too small by less than
 * 2^-120, as each of the RK_EXP2_TERMS steps loses at most 4 units. */
RK_FN rk_u128 rk_exp2_fraction(rk_u128 f)
{
    rk_u128 v = 0;
    for (int i = 0; i < RK_EXP2_TERMS; i++)
        v = RK_AT(rk_exp2_terms, i) + rk_multiply_wide(f, v);
    return v;
}

/* v * 2^(top - 127), v having bit 127, to 106 bits and then to a format: what the definition does with 2^S. It never falls
 * where v rises. */
RK_FN uint64_t rk_round_significand(rk_u128 v, int top, int negative, rk_format f)
{
    rk_u128 half = (rk_u128)1 << (127 - 106); /* of the last of 106 bits */
    rk_u128 rounded = (v + half) & ~(2 * half - 1);
    if (rounded == 0) { /* 2, which is 2^128 here */
        rounded = (rk_u128)1 << 127;
        top++;
    }
    return rk_round_window((uint64_t)(rounded >> 64), top, (uint64_t)rounded != 0, negative, f);
}

/* 2^S in a format, with that sign */
RK_FN uint64_t rk_exp2_round(const uint64_t acc[3], int negative, rk_format f)
{
    int64_t above = (int64_t)acc[2]; /* in units of 2^16 */
    int top = (int)(acc[1] >> 48) + (above < 0 ? -65536 : 0);
    if (above > 0 || above < -1)
        top = above < 0 ? -65536 : 65536; /* far outside every format */
    return rk_round_significand(rk_exp2_fraction(((rk_u128)acc[1] << 64 | acc[0]) << 16), top, negative, f);
}

#endif
