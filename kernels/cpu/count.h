/* count_nonzero, count_nan: comparisons give -1 by lane, summed in lanes of the elements' width. */
#ifndef RK_CPU_COUNT_H
#define RK_CPU_COUNT_H

#include "kernels/cpu/vec.h"
#include "kernels/exact/state.h"

enum { COUNT_ROUNDS = 255 }; /* what a lane of 8 bits holds */

typedef struct tally {
    uint64_t nonzero, nans; /* a NaN is nonzero */
} tally;

/* MAGNITUDE masks the bits that make a value nonzero (all but a float's sign), INF is 0 for integers. */
#define TALLY(NAME, W, MAGNITUDE, INF)                                                             \
    static __attribute__((noinline)) tally tally_##NAME(const void *data, uint64_t n)              \
    {                                                                                              \
        typedef VEC(uint##W##_t, VB) vec;                                                          \
        typedef LOOSE(int##W##_t, VB) vec_loose;                                                   \
        enum { LANES = VB * 8 / W };                                                               \
        const u##W##_loose *x = data;                                                              \
        tally t = {0, 0};                                                                          \
        uint64_t i = 0;                                                                            \
        while (n - i >= LANES) {                                                                   \
            vec hit = {0}, nan = {0};                                                              \
            for (int k = 0; k < COUNT_ROUNDS && n - i >= LANES; k++, i += LANES) {                 \
                vec_loose m = *(const vec_loose *)(const void *)(x + i) & (int##W##_t)(MAGNITUDE); \
                hit -= (vec)(m != 0);                                                              \
                if (INF != 0)                                                                      \
                    nan -= (vec)(m > (int##W##_t)(INF));                                           \
            }                                                                                      \
            for (int j = 0; j < LANES; j++) {                                                      \
                t.nonzero += hit[j];                                                               \
                t.nans += nan[j];                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            t.nonzero += (x[i] & (uint##W##_t)(MAGNITUDE)) != 0;                                   \
            t.nans += INF != 0 && (x[i] & (uint##W##_t)(MAGNITUDE)) > (uint##W##_t)(INF);          \
        }                                                                                          \
        return t;                                                                                  \
    }
TALLY(8, 8, -1, 0)
TALLY(16, 16, -1, 0)
TALLY(32, 32, -1, 0)
TALLY(64, 64, -1, 0)
TALLY(f16, 16, INT16_MAX, 0x7c00)
TALLY(bf16, 16, INT16_MAX, 0x7f80)
TALLY(f32, 32, INT32_MAX, 0x7f800000)
TALLY(f64, 64, INT64_MAX, 0x7ff0000000000000)
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
