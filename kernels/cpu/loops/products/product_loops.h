/* Products: of integers by width, of floats by logarithms (log2.h). */
#ifndef RK_CPU_PRODUCT_LOOPS_H
#define RK_CPU_PRODUCT_LOOPS_H

#include <string.h>

#include "kernels/cpu/loops/products/log2_lanes.h"
#include "kernels/cpu/loops/vec.h"
#include "kernels/exact/state.h"

/* ---- integers ---- */

enum { PRODUCT_BLOCK = 4096, PARTS = 8 }; /* PARTS: independent chains of multiplications hide latency */

typedef struct int_product {
    uint64_t wrapped, magnitude, negatives, zeros; /* magnitude: of the nonzero elements; 0: 2^64 or more */
} int_product;

#define PRODUCT_INT(NAME, T, IS_SIGNED)                                                                   \
    typedef T __attribute__((aligned(1), may_alias)) NAME##_loose;                                        \
    /* the magnitude, until it is 2^64 or more, which most data reach soon */                             \
    static void multiply_##NAME(int_product *p, const NAME##_loose *x, size_t n)                          \
    {                                                                                                     \
        for (size_t i = 0; i < n && p->magnitude; i++) {                                                  \
            uint64_t m = IS_SIGNED && (int64_t)x[i] < 0 ? 0 - (uint64_t)x[i] : (uint64_t)x[i];            \
            if (m)                                                                                        \
                p->magnitude = rk_times(p->magnitude, m);                                                 \
        }                                                                                                 \
    }                                                                                                     \
    static void signs_##NAME(int_product *p, const NAME##_loose *x, size_t n)                             \
    {                                                                                                     \
        uint64_t negatives = 0, zeros = 0;                                                                \
        for (size_t i = 0; i < n; i++) {                                                                  \
            negatives += IS_SIGNED && (int64_t)x[i] < 0;                                                  \
            zeros += x[i] == 0;                                                                           \
        }                                                                                                 \
        p->negatives += negatives;                                                                        \
        p->zeros += zeros;                                                                                \
    }                                                                                                     \
    static void wrap_##NAME(int_product *p, const NAME##_loose *x, size_t n)                              \
    {                                                                                                     \
        uint64_t part[PARTS];                                                                             \
        for (int j = 0; j < PARTS; j++)                                                                   \
            part[j] = 1;                                                                                  \
        size_t i = 0;                                                                                     \
        for (; i + PARTS <= n; i += PARTS)                                                                \
            for (int j = 0; j < PARTS; j++)                                                               \
                part[j] *= (uint64_t)x[i + (size_t)j];                                                    \
        for (; i < n; i++)                                                                                \
            part[0] *= (uint64_t)x[i];                                                                    \
        for (int j = 0; j < PARTS; j++)                                                                   \
            p->wrapped *= part[j];                                                                        \
    }                                                                                                     \
    static void product_##NAME(rk_state *s, const void *data, uint64_t n, uint64_t index, int nan_policy) \
    {                                                                                                     \
        const NAME##_loose *x = data;                                                                     \
        int_product p = {1, 1, 0, 0};                                                                     \
        (void)index, (void)nan_policy;                                                                    \
        for (uint64_t i = 0; i < n; i += PRODUCT_BLOCK) {                                                 \
            size_t take = n - i < PRODUCT_BLOCK ? (size_t)(n - i) : PRODUCT_BLOCK;                        \
            multiply_##NAME(&p, x + i, take);                                                             \
            signs_##NAME(&p, x + i, take);                                                                \
            if (p.wrapped) /* it soon becomes 0: every even element contributes a factor of 2 */          \
                wrap_##NAME(&p, x + i, take);                                                             \
        }                                                                                                 \
        take_int_product(s, p, n);                                                                        \
    }

static void take_int_product(rk_state *s, int_product p, uint64_t n)
{
    s->limb[RK_PROD_WRAPPED] = p.wrapped;
    s->limb[RK_PROD_MAGNITUDE] = p.magnitude;
    s->limb[RK_PROD_NEGATIVES] = p.negatives;
    s->special = p.zeros ? RK_ZERO : 0;
    s->count = n;
}

PRODUCT_INT(i8, int8_t, true)
PRODUCT_INT(u8, uint8_t, false)
PRODUCT_INT(i16, int16_t, true)
PRODUCT_INT(u16, uint16_t, false)
PRODUCT_INT(i32, int32_t, true)
PRODUCT_INT(u32, uint32_t, false)
PRODUCT_INT(i64, int64_t, true)
PRODUCT_INT(u64, uint64_t, false)
#undef PRODUCT_INT

/* ---- floats ---- */

/* Logarithms of a batch. 16-bit types have so few fractions that the elements of each fraction are counted first, and each
 * logarithm is computed once. */
enum { FRACTIONS = 1024, WORTH_COUNTING = 2048 };

typedef struct logarithms {
    rk_log2_batch batch;
    bool counting;
    uint32_t count[FRACTIONS]; /* elements with the hidden bit and this fraction */
} logarithms;

INLINE void logarithms_start(logarithms *l, rk_format f, size_t n)
{
    l->batch = (rk_log2_batch){0, 0};
    l->counting = f.precision <= 11 && n >= WORTH_COUNTING;
    if (l->counting)
        memset(l->count, 0, sizeof l->count);
}

INLINE void logarithms_add(logarithms *l, rk_format f, uint64_t magnitude)
{
    uint64_t hidden = (uint64_t)1 << (f.precision - 1);
    if (!l->counting || magnitude < hidden) {
        rk_log2_collect(&l->batch, f, magnitude);
        return;
    }
    l->count[magnitude & (hidden - 1)]++;
    l->batch.exponents += (int64_t)(magnitude >> (f.precision - 1)) + f.emin - 1;
}

INLINE void logarithms_end(logarithms *l, rk_format f, rk_state *s)
{
    uint64_t hidden = (uint64_t)1 << (f.precision - 1);
    for (uint64_t k = 0; l->counting && k < hidden; k++)
        if (l->count[k])
            l->batch.fractions += l->count[k] * rk_log2_fraction((hidden | k) << (53 - f.precision));
    rk_log2_flush(s->limb, &l->batch);
}

/* The number of elements tested at once for being all normal. Their exponent fields sum to less than 2^16. */
enum { LOGARITHMS_TOGETHER = 256 };

/* all_normal: finite, with the hidden bit */
#define PRODUCT_FLOAT(NAME, W, DTYPE)                                                                                     \
    static bool all_normal_##NAME(const u##W##_loose *x, size_t n)                                                        \
    {                                                                                                                     \
        const rk_format f = rk_format_of(DTYPE);                                                                          \
        const uint##W##_t hidden = (uint##W##_t)((uint64_t)1 << (f.precision - 1));                                       \
        const uint##W##_t most = (uint##W##_t)(rk_inf_bits(f) - hidden);                                                  \
        uint##W##_t odd = 0;                                                                                              \
        for (size_t i = 0; i < n; i++)                                                                                    \
            odd |= (uint##W##_t)((x[i] & INT##W##_MAX) - hidden) >= most;                                                 \
        return odd == 0;                                                                                                  \
    }                                                                                                                     \
    static __attribute__((noinline)) void add_normal_##NAME(rk_log2_batch *b, uint64_t *negatives, const u##W##_loose *x, \
                                                            size_t n)                                                     \
    {                                                                                                                     \
        const rk_format f = rk_format_of(DTYPE);                                                                          \
        const uint64_t hidden = (uint64_t)1 << (f.precision - 1);                                                         \
        uint##W##_t fields = 0, signs = 0;                                                                                \
        size_t in_lanes = DTYPE == RP_F32 ? n / LOG2_LANES * LOG2_LANES : 0;                                              \
        rk_u128 fractions = in_lanes ? log2_fractions_f32(x, in_lanes) : 0;                                               \
        for (size_t i = 0; i < n; i++) {                                                                                  \
            fields = (uint##W##_t)(fields + ((x[i] & INT##W##_MAX) >> (f.precision - 1)));                                \
            signs = (uint##W##_t)(signs + (x[i] >> (W - 1)));                                                             \
        }                                                                                                                 \
        for (size_t i = in_lanes; i < n; i++)                                                                             \
            fractions += rk_log2_uncut((hidden | (x[i] & (hidden - 1))) << (53 - f.precision), f.precision <= 24) >> 16;  \
        b->fractions += fractions;                                                                                        \
        b->exponents += (int64_t)fields + (int64_t)n * (f.emin - 1);                                                      \
        *negatives += signs;                                                                                              \
    }                                                                                                                     \
    static void add_any_##NAME(rk_state *s, logarithms *l, const u##W##_loose *x, size_t n, bool omit, uint64_t *nans)    \
    {                                                                                                                     \
        const rk_format f = rk_format_of(DTYPE);                                                                          \
        for (size_t i = 0; i < n; i++) {                                                                                  \
            uint64_t magnitude = x[i] & ~rk_sign_bit(f, 1);                                                               \
            bool nan = magnitude > rk_inf_bits(f);                                                                        \
            s->limb[3] += !nan && magnitude != x[i];                                                                      \
            *nans += nan;                                                                                                 \
            if (magnitude == 0 || magnitude >= rk_inf_bits(f))                                                            \
                s->special |= !nan ? magnitude ? RK_INF : RK_ZERO : omit ? 0 : RK_NAN;                                    \
            else if (!s->special) /* with `special` the logarithms are not used */                                        \
                                                                                                                          \
                logarithms_add(l, f, magnitude);                                                                          \
        }                                                                                                                 \
    }                                                                                                                     \
    /* At most RK_LOG2_BATCH elements */                                                                                  \
    static void logarithms_##NAME(rk_state *s, const u##W##_loose *x, size_t n, bool omit, uint64_t *nans)                \
    {                                                                                                                     \
        const rk_format f = rk_format_of(DTYPE);                                                                          \
        logarithms l;                                                                                                     \
        logarithms_start(&l, f, n);                                                                                       \
        for (size_t i = 0, some; i < n; i += some) {                                                                      \
            some = n - i < LOGARITHMS_TOGETHER ? n - i : LOGARITHMS_TOGETHER;                                             \
            if (!l.counting && !s->special && all_normal_##NAME(x + i, some))                                             \
                add_normal_##NAME(&l.batch, &s->limb[3], x + i, some);                                                    \
            else                                                                                                          \
                add_any_##NAME(s, &l, x + i, some, omit, nans);                                                           \
        }                                                                                                                 \
        logarithms_end(&l, f, s);                                                                                         \
    }                                                                                                                     \
    static void product_##NAME(rk_state *s, const void *data, uint64_t n, uint64_t index, int nan_policy)                 \
    {                                                                                                                     \
        const u##W##_loose *x = data;                                                                                     \
        const bool omit = nan_policy != RP_NAN_PROPAGATE;                                                                 \
        uint64_t nans = 0;                                                                                                \
        (void)index;                                                                                                      \
        for (uint64_t i = 0; i < n; i += RK_LOG2_BATCH)                                                                   \
            logarithms_##NAME(s, x + i, n - i < RK_LOG2_BATCH ? (size_t)(n - i) : RK_LOG2_BATCH, omit, &nans);            \
        s->count = omit ? n - nans : n;                                                                                   \
        s->skipped = omit && nans;                                                                                        \
        if (s->special)                                                                                                   \
            rk_products_void(s);                                                                                          \
    }
PRODUCT_FLOAT(f16, 16, RP_F16)
PRODUCT_FLOAT(bf16, 16, RP_BF16)
PRODUCT_FLOAT(f32, 32, RP_F32)
PRODUCT_FLOAT(f64, 64, RP_F64)
#undef PRODUCT_FLOAT

#endif
