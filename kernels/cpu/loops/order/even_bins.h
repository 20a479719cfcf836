/* Counts f32 and f64 by bins of one width: the slot is computed, and pairs of slots are counted, which takes half as many
 * additions to memory. */
#ifndef RK_CPU_EVEN_BINS_H
#define RK_CPU_EVEN_BINS_H

#include "kernels/cpu/loops/choice/bools.h"
#include "kernels/cpu/loops/order/edge_counts.h"

enum {
    EVEN_STRIP = 128, /* elements */
    EVEN_TURN = 8,    /* pairs */
    EVEN_AHEAD = 4096 /* bytes */
};

/* Numbers that are added to it are rounded to integers, which its low bits then are. */
#define ROUNDING_32 0x1.8p23f
#define ROUNDING_64 0x1.8p52

/* The low 16 bits of lanes are slots. Lanes of *unsure are not 0 where an element may be one slot lower, or is a NaN. */
#define EVEN_SLOTS(W, T)                                                                                            \
    typedef struct even_##W {                                                                                       \
        vf##W low, scale, sure, most;                                                                               \
        vu16 n;                                                                                                     \
    } even_##W;                                                                                                     \
    INLINE even_##W even_of_##W(const rk_edge_keys *e)                                                              \
    {                                                                                                               \
        const vf##W any = {0};                                                                                      \
        return (even_##W){any + (T)e->even_low, any + (T)e->even_scale, any + (T)e->even_sure, any + (T)(e->n - 2), \
                          (vu16){0} + (uint16_t)e->n};                                                              \
    }                                                                                                               \
    INLINE vu##W slots_##W(const T *x, const even_##W *e, bool nans, vi##W *unsure)                                 \
    {                                                                                                               \
        const vf##W v = *(const vf##W##_loose *)(const void *)x, far = (v - e->low) * e->scale,                     \
                    some = min_f##W(e->most, max_f##W((vf##W){0}, far));                                            \
        const vi##W nan = nans ? v != v : (vi##W){0};                                                               \
        const vf##W in = (vf##W)(((vi##W)some & ~nan) | ((vi##W)(e->most + 1) & nan)), round = in + ROUNDING_##W;   \
        *unsure |= ~(vi##W)(in - (round - ROUNDING_##W) >= e->sure);                                                \
        return (vu##W)round;                                                                                        \
    }
EVEN_SLOTS(32, float)
EVEN_SLOTS(64, double)
#undef EVEN_SLOTS

/* Pairs of slots in the low 16 bits, of twice as many elements as a vector has 32-bit lanes; in any order. */
#if VB == 64
/* By instructions that only AVX-512 has, for what rounding removed and for narrower integers: a tenth less time. */
typedef uint32_t unsure_32;
INLINE bool is_unsure_32(unsure_32 u) { return u != 0; }
INLINE __m512i quick_slots(const float *x, const even_32 *e, bool nans, unsure_32 *unsure)
{
    const __m512 v = _mm512_loadu_ps(x), some = _mm512_min_ps(e->most, _mm512_mul_ps(_mm512_sub_ps(v, e->low), e->scale)),
                 s = nans ? _mm512_mask_mov_ps(some, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), e->most + 1) : some,
                 removed = _mm512_reduce_ps(s, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    *unsure |= _mm512_cmp_ps_mask(removed, e->sure, _CMP_NGE_UQ);
    return _mm512_cvtps_epi32(s);
}
INLINE vu32 even_pair_32(const float *x, const even_32 *e, bool nans, unsure_32 *unsure)
{
    const __m512i both = _mm512_packus_epi32(quick_slots(x, e, nans, unsure), quick_slots(x + LANES32, e, nans, unsure));
    return (vu32)_mm512_madd_epi16(both, _mm512_or_si512(_mm512_set1_epi32(1), _mm512_slli_epi32((__m512i)e->n, 16)));
}
#else
typedef vi32 unsure_32;
INLINE bool is_unsure_32(unsure_32 u) { return some_lane((vu8)u); }
INLINE vu32 even_pair_32(const float *x, const even_32 *e, bool nans, unsure_32 *unsure)
{
    return (vu32)((vu16)slots_32(x, e, nans, unsure) + (vu16)slots_32(x + LANES32, e, nans, unsure) * e->n);
}
#endif
typedef vi64 unsure_64;
INLINE bool is_unsure_64(unsure_64 u) { return some_lane((vu8)u); }
INLINE vu32 narrow_slots(const double *x, const even_64 *e, bool nans, unsure_64 *unsure)
{
    const vu32 a = (vu32)slots_64(x, e, nans, unsure), b = (vu32)slots_64(x + LANES64, e, nans, unsure);
#if VB == 64
    return __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30);
#elif VB == 32
    return __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14);
#else
    return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
}
INLINE vu32 even_pair_64(const double *x, const even_64 *e, bool nans, unsure_64 *unsure)
{
    return (vu32)((vu16)narrow_slots(x, e, nans, unsure) + (vu16)narrow_slots(x + LANES32, e, nans, unsure) * e->n);
}

typedef struct even_pairs {
    vu32 pair[EVEN_STRIP / 2 / LANES32];
} even_pairs;
typedef uint32_t __attribute__((may_alias)) even_pair;

INLINE void count_pairs(const even_pair *pair, const void *x, size_t size, size_t n, uint16_t *pairs)
{
    for (size_t i = 0; i < EVEN_STRIP / 2; i += EVEN_TURN) {
        for (size_t j = 0; j < 2 * EVEN_TURN * size; j += 64)
            prefetch((const uint8_t *)x + 2 * i * size + j, EVEN_AHEAD);
        _Pragma("GCC unroll 8") for (size_t j = 0; j < EVEN_TURN; j++) pairs[j % 2 * n * n + (uint16_t)pair[i + j]]++;
    }
}

/* All have the same slots. */
INLINE void count_equal(uint16_t pair, size_t n, uint64_t *counts)
{
    counts[pair % n * RK_TURNS] += EVEN_STRIP / 2;
    counts[pair / n * RK_TURNS] += EVEN_STRIP / 2;
}

/* The pairs of a strip, and whether they differ. False: some elements are not sure. NaNs are not, unless they have their slot
 * computed, too, which is done where there are some. */
#define EVEN_STRIP_OF(W, T)                                                                           \
    INLINE bool even_strip_##W(const T *x, const even_##W *e, bool nans, even_pairs *p, bool *differ) \
    {                                                                                                 \
        unsure_##W unsure = {0};                                                                      \
        vu32 apart = {0};                                                                             \
        for (size_t i = 0; i < EVEN_STRIP / 2 / LANES32; i++) {                                       \
            p->pair[i] = even_pair_##W(x + 2 * i * LANES32, e, nans, &unsure);                        \
            apart |= (p->pair[i] ^ p->pair[0][0]) & UINT16_MAX;                                       \
        }                                                                                             \
        *differ = some_lane((vu8)apart);                                                              \
        return !is_unsure_##W(unsure);                                                                \
    }
EVEN_STRIP_OF(32, float)
EVEN_STRIP_OF(64, double)
#undef EVEN_STRIP_OF

/* Where elements are not sure, as those at edges are, more of them are likely: ever more are counted the other way. */
#define EVEN_COUNTS(W, T)                                                                                              \
    static void even_counts_##W(const void *data, size_t n, const rk_keys *k, const rk_edge_keys *s, uint64_t *counts, \
                                uint16_t *pairs)                                                                       \
    {                                                                                                                  \
        const T *x = data, *const end = x + n;                                                                         \
        const even_##W e = even_of_##W(s);                                                                             \
        size_t aside = EVEN_STRIP;                                                                                     \
        for (size_t some; end - x >= EVEN_STRIP; x += some) {                                                          \
            even_pairs p;                                                                                              \
            bool differ;                                                                                               \
            some = EVEN_STRIP;                                                                                         \
            if (!even_strip_##W(x, &e, false, &p, &differ) && !even_strip_##W(x, &e, true, &p, &differ)) {             \
                some = aside < (size_t)(end - x) ? aside : (size_t)(end - x);                                          \
                aside = 2 * some;                                                                                      \
                edge_counts_##W(x, some, k, s, counts);                                                                \
                continue;                                                                                              \
            }                                                                                                          \
            aside = EVEN_STRIP;                                                                                        \
            if (differ)                                                                                                \
                count_pairs((const even_pair *)&p, x, sizeof *x, s->n, pairs);                                         \
            else                                                                                                       \
                count_equal((uint16_t)p.pair[0][0], s->n, counts);                                                     \
        }                                                                                                              \
        edge_counts_##W(x, (size_t)(end - x), k, s, counts);                                                           \
    }
EVEN_COUNTS(32, float)
EVEN_COUNTS(64, double)
#undef EVEN_COUNTS

#endif
