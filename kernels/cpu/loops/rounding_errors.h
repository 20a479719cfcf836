/* What additions and multiplications of doubles round off, as doubles, unless that underflows or a step overflows. Fused
 * multiply-adds are for functions that are named so (tests/lint/arithmetic). */
#ifndef RK_CPU_ROUNDING_ERRORS_H
#define RK_CPU_ROUNDING_ERRORS_H

#include "kernels/cpu/loops/vec.h"

/* The rounding error of s = a + b (Knuth). */
INLINE vf64 sum_error(vf64 a, vf64 b, vf64 s)
{
    const vf64 of_b = s - a;
    return (a - (s - of_b)) + (b - of_b);
}

/* The rounding error of p = x * x. */
INLINE vf64 square_error(vf64 x, vf64 p)
{
#if VB == 64
    return (vf64)_mm512_fmsub_pd((__m512d)x, (__m512d)x, (__m512d)p);
#elif VB == 32
    return (vf64)_mm256_fmsub_pd((__m256d)x, (__m256d)x, (__m256d)p);
#elif defined(__aarch64__)
    return (vf64)vfmaq_f64((float64x2_t)-p, (float64x2_t)x, (float64x2_t)x);
#else
    vf64 c = x * 0x1.0000002p27; /* Veltkamp: 26 bits of x, and the rest */
    vf64 high = c - (c - x), low = x - high;
    return low * low - ((p - high * high) - 2 * (high * low));
#endif
}

/* The rounding error of p = x w. */
INLINE vf64 product_error(vf64 x, vf64 w, vf64 p)
{
#if VB == 64
    return (vf64)_mm512_fmsub_pd((__m512d)x, (__m512d)w, (__m512d)p);
#elif VB == 32
    return (vf64)_mm256_fmsub_pd((__m256d)x, (__m256d)w, (__m256d)p);
#elif defined(__aarch64__)
    return (vf64)vfmaq_f64((float64x2_t)-p, (float64x2_t)x, (float64x2_t)w);
#else
    vf64 c = x * 0x1.0000002p27, d = w * 0x1.0000002p27; /* Veltkamp: 26 bits of each, and the rest */
    vf64 high = c - (c - x), low = x - high, upper = d - (d - w), lower = w - upper;
    return low * lower - (((p - high * upper) - low * upper) - high * lower);
#endif
}

#endif
