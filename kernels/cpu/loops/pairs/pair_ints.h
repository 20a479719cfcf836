/* Exact sums of products of integers, to 192 bits, and of their weights. */
#ifndef RK_CPU_PAIR_INTS_H
#define RK_CPU_PAIR_INTS_H

#include "kernels/cpu/loops/arrays.h"

/* The sum is low + high * 2^64. */
typedef struct product_sum {
    wide low;
    __int128 high;
} product_sum;

typedef struct pair_int_loops {
    const int_loops *l;
    void (*add)(product_sum *s, const void *x, const void *w, size_t n); /* at most a block */
} pair_int_loops;

/* A product of 16 bits and less is a PRODUCT, a sum of MOST of them a PART, and that of a block fits 64 bits. */
#define NARROW_PAIRS(NAME, T, PRODUCT, PART, MOST)                                       \
    static void add_pairs_##NAME(product_sum *s, const void *x, const void *w, size_t n) \
    {                                                                                    \
        typedef T __attribute__((aligned(1), may_alias)) loose;                          \
        const loose *a = x, *b = w;                                                      \
        __int128 sum = 0;                                                                \
        for (size_t i = 0, end; i < n; i = end) {                                        \
            PART part = 0;                                                               \
            end = n - i < (MOST) ? n : i + (MOST);                                       \
            for (size_t k = i; k < end; k++)                                             \
                part += (PRODUCT)a[k] * (PRODUCT)b[k];                                   \
            sum += part;                                                                 \
        }                                                                                \
        s->low += (uint64_t)sum;                                                         \
        s->high += sum >> 64;                                                            \
    }

/* A product of 32 bits is a PRODUCT, whose halves are added apart: 2^31 of them fit 64 bits. */
#define HALVED_PAIRS(NAME, T, PRODUCT)                                                   \
    static void add_pairs_##NAME(product_sum *s, const void *x, const void *w, size_t n) \
    {                                                                                    \
        typedef T __attribute__((aligned(1), may_alias)) loose;                          \
        const loose *a = x, *b = w;                                                      \
        uint64_t low = 0;                                                                \
        PRODUCT high = 0;                                                                \
        for (size_t i = 0; i < n; i++) {                                                 \
            const PRODUCT v = (PRODUCT)a[i] * (PRODUCT)b[i];                             \
            low += (uint32_t)v;                                                          \
            high += v >> 32;                                                             \
        }                                                                                \
        const __int128 sum = (__int128)high * ((__int128)1 << 32) + low;                 \
        s->low += (uint64_t)sum;                                                         \
        s->high += sum >> 64;                                                            \
    }

/* A product of 64 bits is a PRODUCT. */
#define WIDE_PAIRS(NAME, T, PRODUCT, TOP)                                                \
    static void add_pairs_##NAME(product_sum *s, const void *x, const void *w, size_t n) \
    {                                                                                    \
        typedef T __attribute__((aligned(1), may_alias)) loose;                          \
        const loose *a = x, *b = w;                                                      \
        for (size_t i = 0; i < n; i++) {                                                 \
            const PRODUCT v = (PRODUCT)a[i] * (PRODUCT)b[i];                             \
            s->low += (uint64_t)v;                                                       \
            s->high += (TOP)(v >> 64);                                                   \
        }                                                                                \
    }
NARROW_PAIRS(i8, int8_t, int32_t, int32_t, (size_t)1 << 15)
NARROW_PAIRS(u8, uint8_t, uint32_t, uint32_t, (size_t)1 << 15)
NARROW_PAIRS(i16, int16_t, int32_t, int64_t, (size_t)1 << 31)
NARROW_PAIRS(u16, uint16_t, uint32_t, uint64_t, (size_t)1 << 31)
HALVED_PAIRS(i32, int32_t, int64_t)
HALVED_PAIRS(u32, uint32_t, uint64_t)
WIDE_PAIRS(i64, int64_t, __int128, int64_t)
WIDE_PAIRS(u64, uint64_t, wide, uint64_t)
#undef NARROW_PAIRS
#undef HALVED_PAIRS
#undef WIDE_PAIRS

static void put_products(uint64_t *limb, product_sum s)
{
    const __int128 above = s.high + (__int128)(s.low >> 64);
    limb[0] = (uint64_t)s.low;
    put_wide(limb + 1, (wide)above);
}

static void reduce_int_pairs(rk_state *s, const char *x, const char *w, uint64_t n, bool zero_drops, const pair_int_loops *t)
{
    const int sum = rk_sum_limbs(s->layout);
    const loops *l = &t->l->l;
    product_sum products = {0, 0};
    wide weights = 0;
    uint64_t dropped = 0;
    for (uint64_t i = 0; i < n; i += l->block, x += l->block * l->size, w += l->block * l->size) {
        const size_t take = next_block(l, n - i);
        t->add(&products, x, w, take);
        weights += sum ? t->l->sum(w, take) : 0;
        dropped += zero_drops ? take - l->count(w, take).nonzero : 0;
    }
    if (sum)
        put_wide(s->limb, weights);
    put_products(s->limb + sum, products);
    s->count = n - dropped;
}

#define PAIR_INTS(NAME)                                                                                              \
    static void pairs_##NAME(rk_state *s, const void *x, const void *w, uint64_t n, int nan_policy, bool zero_drops, \
                             double *neglected)                                                                      \
    {                                                                                                                \
        static const pair_int_loops t = {&loops_##NAME, add_pairs_##NAME};                                           \
        (void)nan_policy, (void)neglected;                                                                           \
        reduce_int_pairs(s, x, w, n, zero_drops, &t);                                                                \
    }
PAIR_INTS(i8)
PAIR_INTS(u8)
PAIR_INTS(i16)
PAIR_INTS(u16)
PAIR_INTS(i32)
PAIR_INTS(u32)
PAIR_INTS(i64)
PAIR_INTS(u64)
#undef PAIR_INTS

/* A product of bools is true if both are. */
static void pairs_bool(rk_state *s, const void *x, const void *w, uint64_t n, int nan_policy, bool zero_drops,
                       double *neglected)
{
    const uint8_t *a = x, *b = w;
    uint64_t both = 0;
    (void)nan_policy, (void)neglected;
    for (uint64_t i = 0; i < n; i++)
        both += (a[i] != 0) & (b[i] != 0);
    const uint64_t weights = tally_8(w, n).nonzero;
    s->limb[rk_sum_limbs(s->layout)] = both;
    if (rk_sum_limbs(s->layout))
        s->limb[0] = weights;
    s->count = zero_drops ? weights : n;
}

#endif
