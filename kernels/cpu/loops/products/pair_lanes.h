/* Products in two doubles (product_pair.h), a lane for each. Functions that fuse on purpose say so in their names. */
#ifndef RK_CPU_PAIR_LANES_H
#define RK_CPU_PAIR_LANES_H

#include "kernels/cpu/loops/vec.h"
#include "kernels/exact/product_pair.h"

/* Without fused multiply-add a pair takes as long as logarithms. */
#if VB > 16 || defined(__aarch64__)
#define PAIRS 1

/* a b + c, rounded once */
INLINE vf64 fma_f64(vf64 a, vf64 b, vf64 c)
{
#if VB == 64
    return (vf64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif VB == 32
    return (vf64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return (vf64)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#endif
}

/* The bits of as many elements as a vector has lanes of 64 bits */
INLINE vu64 widen_16(const void *p)
{
#if VB == 64
    return (vu64)_mm512_cvtepu16_epi64(_mm_loadu_si128(p));
#elif VB == 32
    return (vu64)_mm256_cvtepu16_epi64(_mm_loadl_epi64(p));
#else
    return (vu64){((const u16_loose *)p)[0], ((const u16_loose *)p)[1]};
#endif
}
INLINE vu64 widen_32(const void *p)
{
#if VB == 64
    return (vu64)_mm512_cvtepu32_epi64(_mm256_loadu_si256(p));
#elif VB == 32
    return (vu64)_mm256_cvtepu32_epi64(_mm_loadu_si128(p));
#else
    return (vu64){((const u32_loose *)p)[0], ((const u32_loose *)p)[1]};
#endif
}
INLINE vu64 widen_64(const void *p) { return *(const vu64_loose *)p; }

/* Lanes of products: (high + low) 2^exponent, where the exponents are still those of elements with their bias. The sign of
 * `odd` shows an element that is not normal; the one of an element is a bit of `signs`, by its type. */
typedef struct pair_lanes {
    vf64 high, low;
    vi64 exponent, odd;
    vu64 signs;
} pair_lanes;

INLINE pair_lanes lanes_of_one(void) { return (pair_lanes){(vf64){0} + 1, (vf64){0}, (vi64){0}, (vi64){0}, (vu64){0}}; }

/* A step: times y, from [1, 16) */
INLINE void times_lanes(pair_lanes *a, vf64 y)
{
    const vf64 p = a->high * y, e = fma_f64(a->high, y, -p);
    a->low = fma_f64(a->low, y, e);
    a->high = p;
}

/* As rk_pair_normalise */
INLINE void normalise_lanes(pair_lanes *a)
{
    const vf64 sum = a->high + a->low, rest = a->low - (sum - a->high);
    const vi64 bits = (vi64)sum, exponent = (bits >> 52) - 1023;
    a->exponent += exponent;
    a->high = (vf64)(bits - (exponent << 52));
    a->low = rest * (vf64)((1023 - exponent) << 52);
}

/* As rk_pair_join */
INLINE void join_lanes(pair_lanes *a, const pair_lanes *b)
{
    const vf64 p = a->high * b->high, e = fma_f64(a->high, b->high, -p);
    a->low = fma_f64(a->high, b->low, fma_f64(a->low, b->high, e));
    a->high = p;
    a->exponent += b->exponent;
    a->odd |= b->odd;
    a->signs ^= b->signs;
    normalise_lanes(a);
}

/* The types: NAME, W, dtype, significant bits, exponent field of infinities, factors of a step: of together 53 bits at most */
#define PAIR_TYPES(F)               \
    F(f16, 16, RP_F16, 11, 31, 4)   \
    F(bf16, 16, RP_BF16, 8, 255, 4) \
    F(f32, 32, RP_F32, 24, 255, 2)  \
    F(f64, 64, RP_F64, 53, 2047, 1)

/* The significands of a vector of elements, whose rest is added to `a` */
#define PAIR_FACTORS(NAME, W, DTYPE, BITS, TOP, TOGETHER)                                          \
    INLINE vf64 factors_##NAME(pair_lanes *a, const void *p)                                       \
    {                                                                                              \
        const vu64 b = widen_##W(p);                                                               \
        const vi64 field = (vi64)(b >> (BITS - 1)) & TOP;                                          \
        a->exponent += field;                                                                      \
        a->odd |= (field - 1) | (TOP - 1 - field);                                                 \
        a->signs ^= b;                                                                             \
        return (vf64)((vi64)(b << (53 - BITS) & (((uint64_t)1 << 52) - 1)) | (int64_t)1023 << 52); \
    }                                                                                              \
    /* A step with the elements at p, p + apart, ... */                                            \
    INLINE void step_##NAME(pair_lanes *a, const char *p, size_t apart)                            \
    {                                                                                              \
        vf64 y = factors_##NAME(a, p);                                                             \
        for (size_t i = 1; i < TOGETHER; i++)                                                      \
            y *= factors_##NAME(a, p + i * apart);                                                 \
        times_lanes(a, y);                                                                         \
    }
PAIR_TYPES(PAIR_FACTORS)
#undef PAIR_FACTORS

#endif
#endif
