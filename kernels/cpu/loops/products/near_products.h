/* The product of a part of a row as a sum of logarithms that is near the exact one: that of its two doubles (product_pair.h),
 * which cost a tenth of the logarithms of all elements. */
#ifndef RK_CPU_NEAR_PRODUCTS_H
#define RK_CPU_NEAR_PRODUCTS_H

#include "kernels/cpu/loops/products/product_loops.h"
#include "kernels/cpu/loops/products/row_products.h"

#ifdef PAIRS

/* What the logarithms of n elements and that of their pair differ by, at most: n 2^-101 log2(e), and 2^-104 of near_log2. */
static double pair_neglects(uint64_t n) { return (double)(n + 1) * 0x1p-100; }

/* S = log2 of a normalised pair, off by less than 2^-104. With q = low / high, which is at most 2^-53, it is log2(high) and
 * (q - q^2 / 2) log2(e). What that leaves out and its roundings are below 2^-105 together. */
static void near_log2(uint64_t limb[3], rk_product_pair p)
{
    const uint64_t hidden = (uint64_t)1 << 52, significand = (rk_bits_of_double(p.high) & (hidden - 1)) | hidden;
    const double q = p.low / p.high, rest = (q - q * q / 2) * 0x1.71547652b82fep+0;
    const rk_u128 one = (rk_u128)1 << RK_LOG2_FRACTION; /* as `rest` may be negative */
    const rk_log2_batch sum = {one + rk_log2_fraction(significand) + (rk_u128)(__int128)(rest * 0x1p112), p.exponent - 1};
    limb[0] = limb[1] = limb[2] = 0;
    rk_log2_flush(limb, &sum);
}

/* Of elements that are not all normal, or of few, the state is exact. */
#define NEAR_PRODUCT(NAME, W, ...)                                                                             \
    static void near_product_##NAME(rk_state *s, const void *x, uint64_t n, int nan_policy, double *neglected) \
    {                                                                                                          \
        rk_product_pair p;                                                                                     \
        uint64_t signs;                                                                                        \
        *neglected = 0;                                                                                        \
        if (n < RK_PAIR_STEPS || !pair_of_##NAME##_fused(x, n, &p, &signs)) {                                  \
            product_##NAME(s, x, n, 0, nan_policy);                                                            \
            return;                                                                                            \
        }                                                                                                      \
        near_log2(s->limb, p);                                                                                 \
        s->limb[3] = signs >> (W - 1) & 1; /* as good as their number */                                       \
        s->count = n;                                                                                          \
        *neglected = pair_neglects(n);                                                                         \
    }
PAIR_TYPES(NEAR_PRODUCT)
#undef NEAR_PRODUCT

#endif
#endif
