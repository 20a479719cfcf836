/* count_nonzero: comparisons give -1 by lane, summed in lanes of the elements' width. */
#ifndef RK_CPU_COUNT_H
#define RK_CPU_COUNT_H

#include "kernels/cpu/vec.h"
#include "kernels/state.h"

enum { COUNT_ROUNDS = 255 }; /* what a lane of 8 bits holds */

static void take_count(rk_state *s, uint64_t nonzero, uint64_t n, uint64_t nans)
{
    s->limb[0] = nonzero;
    s->count = n - nans;
    s->skipped = nans != 0;
}

/* MAGNITUDE masks the bits that make a value nonzero (all but a float's sign), INF is 0 for integers. */
#define COUNT(NAME, W, MAGNITUDE, INF)                                                                        \
    static void count_##NAME(rk_state *s, const void *data, uint64_t n, uint64_t index, int nan_policy)      \
    {                                                                                                         \
        typedef VEC(uint##W##_t, VB) vec;                                                                     \
        typedef LOOSE(int##W##_t, VB) vec_loose;                                                              \
        enum { LANES = VB * 8 / W };                                                                          \
        (void)index;                                                                                          \
        const bool omit = INF != 0 && nan_policy != RP_NAN_PROPAGATE;                                         \
        const u##W##_loose *x = data;                                                                         \
        uint64_t nonzero = 0, nans = 0, i = 0;                                                                \
        while (n - i >= LANES) {                                                                              \
            vec hit = {0}, nan = {0};                                                                         \
            for (int k = 0; k < COUNT_ROUNDS && n - i >= LANES; k++, i += LANES) {                            \
                vec_loose m = *(const vec_loose *)(const void *)(x + i) & (int##W##_t)(MAGNITUDE);            \
                hit -= (vec)(m != 0);                                                                         \
                if (INF != 0)                                                                                 \
                    nan -= (vec)(m > (int##W##_t)(INF));                                                      \
            }                                                                                                 \
            for (int j = 0; j < LANES; j++) {                                                                 \
                nonzero += hit[j];                                                                            \
                nans += nan[j];                                                                               \
            }                                                                                                 \
        }                                                                                                     \
        for (; i < n; i++) {                                                                                  \
            nonzero += (x[i] & (uint##W##_t)(MAGNITUDE)) != 0;                                                \
            nans += INF != 0 && (x[i] & (uint##W##_t)(MAGNITUDE)) > (uint##W##_t)(INF);                       \
        }                                                                                                     \
        take_count(s, omit ? nonzero - nans : nonzero, n, omit ? nans : 0); /* a NaN is nonzero */            \
    }
COUNT(8, 8, -1, 0)
COUNT(16, 16, -1, 0)
COUNT(32, 32, -1, 0)
COUNT(64, 64, -1, 0)
COUNT(f16, 16, INT16_MAX, 0x7c00)
COUNT(bf16, 16, INT16_MAX, 0x7f80)
COUNT(f32, 32, INT32_MAX, 0x7f800000)
COUNT(f64, 64, INT64_MAX, 0x7ff0000000000000)
#undef COUNT

#endif
