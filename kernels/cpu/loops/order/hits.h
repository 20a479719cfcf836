/* Which of the elements are among the best so far: a pass of largest and smallest. */
#ifndef RK_CPU_HITS_H
#define RK_CPU_HITS_H

#include "kernels/cpu/loops/order/between.h"

/* Is any of the first elements a hit? *i: how many were looked at. */
#if VB == 64
#define ANY_HIT(W)                                                                                                             \
    INLINE bool any_hit_##W(const u##W##_loose *x, size_t n, const rk_keys *k, uint##W##_t first, uint##W##_t most, size_t *i) \
    {                                                                                                                          \
        uint##W##_t any = 0;                                                                                                   \
        for (size_t j = 0; j < n; j += 64 / sizeof *x)                                                                         \
            prefetch(x + j, 4096);                                                                                             \
        for (; *i < n; ++*i)                                                                                                   \
            any |= (uint##W##_t)((uint##W##_t)(order_key_##W(x[*i], k) - first) <= most);                                      \
        return any;                                                                                                            \
    }
#else /* 2^(W - 1) lower, so that signed comparisons have the order */
#define ANY_HIT(W)                                                                                                             \
    INLINE bool any_hit_##W(const u##W##_loose *x, size_t n, const rk_keys *k, uint##W##_t first, uint##W##_t most, size_t *i) \
    {                                                                                                                          \
        const uint##W##_t half = (uint##W##_t)((uint##W##_t)1 << (W - 1));                                                     \
        const vi##W zero = {0}, flip = zero + (int##W##_t)k->flip,                                                             \
                    base = zero + (int##W##_t)(uint##W##_t)(k->base + first + half),                                           \
                    last = zero + (int##W##_t)(uint##W##_t)(most - half);                                                      \
        vi##W misses = zero == zero;                                                                                           \
        for (; *i + VB / sizeof *x <= n; *i += VB / sizeof *x) {                                                               \
            prefetch(x + *i, 4096);                                                                                            \
            const vi##W v = *(const vi##W##_loose *)(const void *)(x + *i);                                                    \
            misses &= signed_keys_##W(v, flip, base) > last;                                                                   \
        }                                                                                                                      \
        return lane_bits((vi32)misses != -1);                                                                                  \
    }
#endif

#define HITS(W)                                                                                                        \
    ANY_HIT(W)                                                                                                         \
    static size_t hits_##W(const void *data, size_t n, const rk_keys *k, uint64_t from, uint64_t width, uint16_t *out) \
    {                                                                                                                  \
        const u##W##_loose *x = data;                                                                                  \
        const uint##W##_t first = (uint##W##_t)from, most = (uint##W##_t)width;                                        \
        size_t hits = 0, i = 0;                                                                                        \
        if (any_hit_##W(x, n, k, first, most, &i))                                                                     \
            i = 0;                                                                                                     \
        for (; i < n; i++) {                                                                                           \
            out[hits] = (uint16_t)i;                                                                                   \
            hits += (uint##W##_t)(order_key_##W(x[i], k) - first) <= most;                                             \
        }                                                                                                              \
        return hits;                                                                                                   \
    }
HITS(8)
HITS(16)
HITS(32)
HITS(64)
#undef HITS
#undef ANY_HIT

#endif
