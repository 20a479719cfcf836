/* and, or, xor: 64 bits at a time for any element width; the word is folded to that width at the end. */
#ifndef RK_CPU_BITS_H
#define RK_CPU_BITS_H

#include <string.h>

#include "kernels/cpu/loops/vec.h"
#include "kernels/exact/state.h"

INLINE uint64_t bits_join(int layout, uint64_t a, uint64_t b)
{
    return layout == RP_STATE_AND ? a & b : layout == RP_STATE_OR ? a | b : a ^ b;
}

/* Combines n elements of `bytes` bytes; a word holds 8 / bytes of them */
INLINE void reduce_bits(rk_state *s, int layout, const void *data, uint64_t n, int bytes)
{
    const char *x = data;
    const uint64_t none = layout == RP_STATE_AND ? UINT64_MAX : 0;
    uint64_t size = n * (uint64_t)bytes, i = 0, all = none;
    vu64 v[2];
    for (int u = 0; u < 2; u++)
        v[u] = (vu64){0} + none;
    for (; size - i >= 2 * VB; i += 2 * VB)
        for (int u = 0; u < 2; u++) {
            vu64 w = *(const vu64_loose *)(const void *)(x + i + (uint64_t)(u * VB));
            prefetch(x + i + u * VB, 4096);
            v[u] = layout == RP_STATE_AND ? v[u] & w : layout == RP_STATE_OR ? v[u] | w : v[u] ^ w;
        }
    for (int u = 0; u < 2; u++)
        for (int j = 0; j < LANES64; j++)
            all = bits_join(layout, all, v[u][j]);
    for (; size - i >= 8; i += 8)
        all = bits_join(layout, all, *(const u64_loose *)(const void *)(x + i));
    if (size > i) { /* whole elements, less than a word of them */
        uint64_t rest = none;
        memcpy(&rest, x + i, size - i);
        all = bits_join(layout, all, rest);
    }
    for (int width = 32; width >= 8 * bytes; width /= 2)
        all = bits_join(layout, all, all >> width);
    s->limb[0] = all & (UINT64_MAX >> (64 - 8 * bytes));
    s->count = n;
}

#define REDUCE_BITS(NAME, W, LAYOUT)                                                               \
    static void NAME##_##W(rk_state *s, const void *x, uint64_t n, uint64_t index, int nan_policy) \
    {                                                                                              \
        (void)index, (void)nan_policy;                                                             \
        reduce_bits(s, LAYOUT, x, n, W / 8);                                                       \
    }
#define REDUCE_ALL_BITS(W)            \
    REDUCE_BITS(and, W, RP_STATE_AND) \
    REDUCE_BITS(or, W, RP_STATE_OR)   \
    REDUCE_BITS(xor, W, RP_STATE_XOR)
REDUCE_ALL_BITS(8)
REDUCE_ALL_BITS(16)
REDUCE_ALL_BITS(32)
REDUCE_ALL_BITS(64)
#undef REDUCE_ALL_BITS
#undef REDUCE_BITS

#endif
