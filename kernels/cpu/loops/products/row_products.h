/* The product of a row without a state: of integers modulo 2^64 beside a double that shows the size, of floats in two doubles
 * where that is certain (product_pair.h). */
#ifndef RK_CPU_ROW_PRODUCTS_H
#define RK_CPU_ROW_PRODUCTS_H

#include "kernels/cpu/loops/products/pair_lanes.h"

/* ---- integers ---- */

enum { FACTORS = 32 }; /* products side by side: hides the latency of multiplications */

/* The rest of a row goes to the first ones. A product from 2^62 on may not fit. */
#define ROW_INTEGERS(NAME, T)                                                                       \
    typedef T __attribute__((aligned(1), may_alias)) in_row_##NAME;                                 \
    static bool product_of_##NAME(const void *data, uint64_t n, int out, bool wrap, uint64_t *cell) \
    {                                                                                               \
        const in_row_##NAME *x = data;                                                              \
        uint64_t wrapped[FACTORS], product = 1, i = 0;                                              \
        double size[FACTORS], all = 1;                                                              \
        (void)out;                                                                                  \
        for (size_t j = 0; j < FACTORS; j++) {                                                      \
            wrapped[j] = 1;                                                                         \
            size[j] = 1;                                                                            \
        }                                                                                           \
        for (; n - i >= FACTORS; i += FACTORS)                                                      \
            for (size_t j = 0; j < FACTORS; j++) {                                                  \
                wrapped[j] *= (uint64_t)x[i + j];                                                   \
                size[j] *= (double)x[i + j];                                                        \
            }                                                                                       \
        for (size_t j = 0; j < n - i; j++) {                                                        \
            wrapped[j] *= (uint64_t)x[i + j];                                                       \
            size[j] *= (double)x[i + j];                                                            \
        }                                                                                           \
        for (size_t j = 0; j < FACTORS; j++) {                                                      \
            product *= wrapped[j];                                                                  \
            all *= size[j];                                                                         \
        }                                                                                           \
        *cell = product;                                                                            \
        return wrap || (all < 0x1p62 && all > -0x1p62);                                             \
    }
ROW_INTEGERS(i8, int8_t)
ROW_INTEGERS(u8, uint8_t)
ROW_INTEGERS(i16, int16_t)
ROW_INTEGERS(u16, uint16_t)
ROW_INTEGERS(i32, int32_t)
ROW_INTEGERS(u32, uint32_t)
ROW_INTEGERS(i64, int64_t)
ROW_INTEGERS(u64, uint64_t)
#undef ROW_INTEGERS

/* ---- floats ---- */

#ifdef PAIRS

enum { PAIR_VECTORS = 4 }; /* side by side: hides the latency of multiplications */

/* All lanes of normalised vectors, joined. False: some element is not normal. */
INLINE bool pair_of_lanes(pair_lanes *v, rk_product_pair *p, uint64_t *signs)
{
    for (int half = PAIR_VECTORS / 2; half; half /= 2)
        for (int u = 0; u < half; u++)
            join_lanes(&v[u], &v[u + half]);
    for (int j = 0; j < LANES64; j++) {
        rk_pair_join(p, (rk_product_pair){v[0].high[j], v[0].low[j], v[0].exponent[j]});
        *signs ^= v[0].signs[j];
        if (v[0].odd[j] < 0)
            return false;
    }
    return true;
}

#define ROW_PRODUCT(NAME, W, DTYPE, BITS, TOP, TOGETHER)                                                                     \
    /* Whole vectors of a row; returns how many elements those are. It ends early at an element that is not normal. */       \
    INLINE uint64_t vectors_of_##NAME(pair_lanes *v, const char *x, uint64_t n)                                              \
    {                                                                                                                        \
        const size_t bytes = VB * W / 64;                                                                                    \
        const uint64_t step = LANES64 * TOGETHER, block = PAIR_VECTORS * step;                                               \
        uint64_t i = 0;                                                                                                      \
        for (vi64 odd = {0}; n - i >= block && sum_lanes((vu64)odd >> 63) == 0;) {                                           \
            for (int k = 0; k < RK_PAIR_STEPS && n - i >= block; k++, i += block)                                            \
                for (size_t u = 0; u < PAIR_VECTORS; u++)                                                                    \
                    step_##NAME(&v[u], x + i * (W / 8) + u * TOGETHER * bytes, bytes);                                       \
            for (size_t u = 0; u < PAIR_VECTORS; u++) {                                                                      \
                normalise_lanes(&v[u]);                                                                                      \
                odd |= v[u].odd;                                                                                             \
            }                                                                                                                \
        }                                                                                                                    \
        if (n - i >= block)                                                                                                  \
            return i;                                                                                                        \
        for (; n - i >= step; i += step)                                                                                     \
            step_##NAME(&v[0], x + i * (W / 8), bytes);                                                                      \
        normalise_lanes(&v[0]);                                                                                              \
        return i;                                                                                                            \
    }                                                                                                                        \
    /* False: some element is not normal. */                                                                                 \
    static __attribute__((noinline)) bool pair_of_##NAME##_fused(const void *data, uint64_t n, rk_product_pair *p,           \
                                                                 uint64_t *signs)                                            \
    {                                                                                                                        \
        const u##W##_loose *x = data;                                                                                        \
        pair_lanes v[PAIR_VECTORS];                                                                                          \
        *p = rk_pair_one();                                                                                                  \
        *signs = 0;                                                                                                          \
        for (int u = 0; u < PAIR_VECTORS; u++)                                                                               \
            v[u] = lanes_of_one();                                                                                           \
        uint64_t i = vectors_of_##NAME(v, data, n);                                                                          \
        if (n - i >= RK_PAIR_STEPS)                                                                                          \
            return false;                                                                                                    \
        for (; i < n; i++) {                                                                                                 \
            const uint64_t magnitude = x[i] & INT##W##_MAX;                                                                  \
            if (magnitude >> (BITS - 1) == 0 || magnitude >> (BITS - 1) >= TOP)                                              \
                return false;                                                                                                \
            *signs ^= x[i];                                                                                                  \
            p->exponent += (int64_t)(magnitude >> (BITS - 1));                                                               \
            rk_pair_times(&p->high, &p->low,                                                                                 \
                          rk_double_of_bits((magnitude << (53 - BITS) & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52)); \
        }                                                                                                                    \
        p->exponent += rk_pair_normalise(&p->high, &p->low);                                                                 \
        p->exponent += (int64_t)n * (rk_format_of(DTYPE).emin - 1);                                                          \
        return pair_of_lanes(v, p, signs);                                                                                   \
    }                                                                                                                        \
    static bool product_of_##NAME##_fused(const void *data, uint64_t n, int out, bool wrap, uint64_t *cell)                  \
    {                                                                                                                        \
        rk_product_pair p;                                                                                                   \
        uint64_t signs;                                                                                                      \
        (void)wrap;                                                                                                          \
        return pair_of_##NAME##_fused(data, n, &p, &signs) &&                                                                \
               rk_pair_round(p, n, (int)(signs >> (W - 1) & 1), rk_format_of(out), cell);                                    \
    }
PAIR_TYPES(ROW_PRODUCT)
#undef ROW_PRODUCT

#endif
#endif
