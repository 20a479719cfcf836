/* count_nonzero, count_nan: comparisons give -1 by lane, summed in lanes of the elements' width. */
#ifndef RK_CPU_COUNT_H
#define RK_CPU_COUNT_H

#include "kernels/cpu/loops/vec.h"
#include "kernels/exact/state.h"

enum { COUNT_ROUNDS = 255 }; /* the largest count in a lane of 8 bits */

typedef struct tally {
    uint64_t nonzero, nans; /* a NaN is nonzero */
} tally;

/* sums + 1 by lane where v & bits is not 0, and where v is above `inf`, a signed integer. */
#if VB == 64 /* the compiler would make vectors of the masks first */
#define COUNT_WHERE(W, SUMS, MASK) (vu##W) _mm512_mask_add_epi##W((__m512i)(SUMS), MASK, (__m512i)(SUMS), _mm512_set1_epi##W(1))
#define COUNT_SOME(W)                                                                                     \
    INLINE vu##W count_set_##W(vu##W sums, vi##W v, int##W##_t bits)                                      \
    {                                                                                                     \
        return COUNT_WHERE(W, sums, _mm512_test_epi##W##_mask((__m512i)v, (__m512i)((vi##W){0} + bits))); \
    }                                                                                                     \
    INLINE vu##W count_above_##W(vu##W sums, vi##W v, int##W##_t inf)                                     \
    {                                                                                                     \
        return COUNT_WHERE(W, sums, _mm512_cmpgt_epi##W##_mask((__m512i)v, (__m512i)((vi##W){0} + inf))); \
    }
#else
#define COUNT_SOME(W)                                                                                            \
    INLINE vu##W count_set_##W(vu##W sums, vi##W v, int##W##_t bits) { return sums - (vu##W)((v & bits) != 0); } \
    INLINE vu##W count_above_##W(vu##W sums, vi##W v, int##W##_t inf) { return sums - (vu##W)(v > inf); }
#endif
COUNT_SOME(8)
COUNT_SOME(16)
COUNT_SOME(32)
COUNT_SOME(64)
#undef COUNT_SOME
#undef COUNT_WHERE

/* MAGNITUDE masks the bits that make a value nonzero (all but a float's sign), INF is 0 for integers. */
#define TALLY(NAME, W, MAGNITUDE, INF)                                                          \
    static __attribute__((noinline)) tally NAME(const void *data, uint64_t n)                   \
    {                                                                                           \
        enum { LANES = VB * 8 / W };                                                            \
        const u##W##_loose *x = data;                                                           \
        tally t = {0, 0};                                                                       \
        uint64_t i = 0;                                                                         \
        while (n - i >= LANES) {                                                                \
            vu##W hit = {0}, nan = {0};                                                         \
            for (int k = 0; k < COUNT_ROUNDS && n - i >= LANES; k++, i += LANES) {              \
                vi##W v = *(const vi##W##_loose *)(const void *)(x + i);                        \
                hit = count_set_##W(hit, v, (int##W##_t)(MAGNITUDE));                           \
                if (INF != 0)                                                                   \
                    nan = count_above_##W(nan, v & (int##W##_t)(MAGNITUDE), (int##W##_t)(INF)); \
            }                                                                                   \
            for (int j = 0; j < LANES; j++) {                                                   \
                t.nonzero += hit[j];                                                            \
                t.nans += nan[j];                                                               \
            }                                                                                   \
        }                                                                                       \
        for (; i < n; i++) {                                                                    \
            t.nonzero += (x[i] & (uint##W##_t)(MAGNITUDE)) != 0;                                \
            t.nans += INF != 0 && (x[i] & (uint##W##_t)(MAGNITUDE)) > (uint##W##_t)(INF);       \
        }                                                                                       \
        return t;                                                                               \
    }
TALLY(tally_8, 8, -1, 0)
TALLY(tally_16, 16, -1, 0)
TALLY(tally_32, 32, -1, 0)
TALLY(tally_64, 64, -1, 0)
TALLY(tally_f16, 16, INT16_MAX, 0x7c00)
TALLY(tally_bf16, 16, INT16_MAX, 0x7f80)
TALLY(tally_f32, 32, INT32_MAX, 0x7f800000)
TALLY(tally_f64, 64, INT64_MAX, 0x7ff0000000000000)
TALLY(nonzero_in_16, 16, INT16_MAX, 0) /* of floats */
TALLY(nonzero_in_32, 32, INT32_MAX, 0)
TALLY(nonzero_in_64, 64, INT64_MAX, 0)
#undef TALLY

/* The policies omit and error leave NaNs out. */
static void count_elements(rk_state *s, uint64_t n, tally t, int nan_policy)
{
    bool omit = nan_policy != RP_NAN_PROPAGATE;
    s->count = omit ? n - t.nans : n;
    s->skipped = omit && t.nans;
}

static void take_nonzero(rk_state *s, uint64_t n, tally t, int nan_policy)
{
    count_elements(s, n, t, nan_policy);
    s->limb[0] = s->skipped ? t.nonzero - t.nans : t.nonzero;
}

static void take_nans(rk_state *s, uint64_t n, tally t, int nan_policy)
{
    s->count = n;
    s->limb[0] = t.nans;
    s->skipped = nan_policy == RP_NAN_ERROR && t.nans;
}

#endif
