/* Which of the elements are among the best so far: a pass of largest and smallest. */
#ifndef RK_CPU_HITS_H
#define RK_CPU_HITS_H

#include "kernels/cpu/loops/order/between.h"

#define HITS(W)                                                                                                        \
    static size_t hits_##W(const void *data, size_t n, const rk_keys *k, uint64_t from, uint64_t width, uint16_t *out) \
    {                                                                                                                  \
        const u##W##_loose *x = data;                                                                                  \
        const uint##W##_t first = (uint##W##_t)from, most = (uint##W##_t)width;                                        \
        uint##W##_t any = 0;                                                                                           \
        size_t hits = 0;                                                                                               \
        for (size_t i = 0; i < n; i += 64 / sizeof *x)                                                                 \
            prefetch(x + i, 4096);                                                                                     \
        for (size_t i = 0; i < n; i++)                                                                                 \
            any |= (uint##W##_t)((uint##W##_t)(order_key_##W(x[i], k) - first) <= most);                               \
        for (size_t i = 0; any && i < n; i++) {                                                                        \
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

#endif
