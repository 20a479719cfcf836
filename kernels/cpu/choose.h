/* min, max, argmin, argmax: the largest key, where a key is the element's rank (state.h) as a signed integer. One loop
 * for all types, which the compiler turns into vector maxima. Arg ops remember the block of the best key and look for
 * the element once, at the end. */
#ifndef RK_CPU_CHOOSE_H
#define RK_CPU_CHOOSE_H

#include "kernels/cpu/vec.h"
#include "kernels/state.h"

enum { CHOOSE_BLOCK = 4096 }; /* elements: NaNs are counted in 16-bit lanes */

/* For one width of elements: key, best key of a block (with the number of NaNs), place of a key. `inf` is the
 * infinity's bits, 0 for integers; `turn` is xored to make integers signed; NaNs get the key `nan_key`. */
#define CHOOSE_WIDTH(W)                                                                                           \
    INLINE int##W##_t key_##W(uint##W##_t b, uint##W##_t inf, uint##W##_t turn, bool least, int##W##_t nan_key)   \
    {                                                                                                             \
        int##W##_t k = (int##W##_t)(b ^ turn);                                                                    \
        if (inf)                                                                                                  \
            k = (int##W##_t)(k ^ ((k >> (W - 1)) & INT##W##_MAX));                                                \
        k = least ? (int##W##_t)~k : k;                                                                           \
        return inf && (b & INT##W##_MAX) > inf ? nan_key : k;                                                     \
    }                                                                                                             \
    INLINE int##W##_t best_##W(const u##W##_loose *x, size_t n, uint##W##_t inf, uint##W##_t turn, bool least,    \
                               int##W##_t nan_key, uint##W##_t *nans)                                             \
    {                                                                                                             \
        int##W##_t best = INT##W##_MIN;                                                                           \
        uint##W##_t found = 0;                                                                                    \
        for (size_t i = 0; i < n; i++) {                                                                          \
            int##W##_t k = key_##W(x[i], inf, turn, least, nan_key);                                              \
            best = k > best ? k : best;                                                                           \
            if (inf)                                                                                              \
                found = (uint##W##_t)(found + ((x[i] & INT##W##_MAX) > inf));                                     \
        }                                                                                                         \
        *nans = found;                                                                                            \
        return best;                                                                                              \
    }                                                                                                             \
    INLINE size_t place_##W(const u##W##_loose *x, size_t n, uint##W##_t inf, uint##W##_t turn, bool least,       \
                            int##W##_t nan_key, int##W##_t key)                                                   \
    {                                                                                                             \
        size_t i = 0;                                                                                             \
        while (i < n - 1 && key_##W(x[i], inf, turn, least, nan_key) != key)                                      \
            i++;                                                                                                  \
        return i;                                                                                                 \
    }
CHOOSE_WIDTH(8)
CHOOSE_WIDTH(16)
CHOOSE_WIDTH(32)
CHOOSE_WIDTH(64)
#undef CHOOSE_WIDTH

/* The state of the best of n elements, NaNs left out. */
static void take_choice(rk_state *s, bool least, uint64_t rank, uint64_t index, uint64_t n, uint64_t nans)
{
    s->skipped = nans != 0;
    s->count = n - nans;
    if (s->count) {
        s->limb[0] = rk_unrank(s->dtype, least, rank);
        s->limb[1] = index;
    }
}

/* One type in one direction; min and max have index 0 in their states. A key that nothing can pass ends the search:
 * under `propagate` that is a NaN, and under the other policies floats have no such key, so all NaNs are counted. Until a
 * key passes the least one, the first element is the best: right for integers, and floats have no least key. */
#define CHOOSE(NAME, W, INF, TURN, LEAST, DIRECTION)                                                          \
    static void choose_##DIRECTION##_##NAME(rk_state *s, const void *data, uint64_t n, uint64_t index, int nan_policy) \
    {                                                                                                         \
        const u##W##_loose *x = data;                                                                         \
        const int##W##_t nan_key = nan_policy == RP_NAN_PROPAGATE ? INT##W##_MAX : INT##W##_MIN;              \
        int##W##_t best = INT##W##_MIN;                                                                       \
        uint64_t at = 0, nans = 0;                                                                            \
        for (uint64_t i = 0; i < n && best != INT##W##_MAX; i += CHOOSE_BLOCK) {                              \
            size_t take = n - i < CHOOSE_BLOCK ? (size_t)(n - i) : CHOOSE_BLOCK;                              \
            uint##W##_t found;                                                                                \
            int##W##_t k = best_##W(x + i, take, INF, TURN, LEAST, nan_key, &found);                          \
            if (nan_policy == RP_NAN_PROPAGATE)                                                               \
                found = 0;                                                                                    \
            nans += found;                                                                                    \
            if (k > best) {                                                                                   \
                best = k;                                                                                     \
                at = i;                                                                                       \
            }                                                                                                 \
        }                                                                                                     \
        bool arg = s->layout == RP_STATE_ARGMIN || s->layout == RP_STATE_ARGMAX;                              \
        if (n && arg) {                                                                                       \
            size_t take = n - at < CHOOSE_BLOCK ? (size_t)(n - at) : CHOOSE_BLOCK;                            \
            at += index + place_##W(x + at, take, INF, TURN, LEAST, nan_key, best);                           \
        }                                                                                                     \
        uint##W##_t rank = (uint##W##_t)((uint##W##_t)best ^ (uint##W##_t)INT##W##_MIN);                      \
        take_choice(s, LEAST, rank, arg ? at : 0, n, nans);                                                   \
    }

#define CHOOSE_BOTH(NAME, W, INF, TURN)          \
    CHOOSE(NAME, W, INF, TURN, true, least)      \
    CHOOSE(NAME, W, INF, TURN, false, largest)
CHOOSE_BOTH(i8, 8, 0, 0)
CHOOSE_BOTH(u8, 8, 0, 0x80)
CHOOSE_BOTH(i16, 16, 0, 0)
CHOOSE_BOTH(u16, 16, 0, 0x8000)
CHOOSE_BOTH(i32, 32, 0, 0)
CHOOSE_BOTH(u32, 32, 0, 0x80000000)
CHOOSE_BOTH(i64, 64, 0, 0)
CHOOSE_BOTH(u64, 64, 0, 0x8000000000000000)
CHOOSE_BOTH(f16, 16, 0x7c00, 0)
CHOOSE_BOTH(bf16, 16, 0x7f80, 0)
CHOOSE_BOTH(f32, 32, 0x7f800000, 0)
CHOOSE_BOTH(f64, 64, 0x7ff0000000000000, 0)
#undef CHOOSE_BOTH
#undef CHOOSE

#endif
