/* Counts keys by bins of any width: the pass of a histogram. */
#ifndef RK_CPU_EDGE_COUNTS_H
#define RK_CPU_EDGE_COUNTS_H

#include "kernels/cpu/loops/order/between.h"

/* The table has the slot of the first key of a range; the bounds in the range are searched without branches. */
INLINE uint32_t slot_of(const rk_edge_keys *s, uint64_t key)
{
    const uint64_t from_first = key - s->first;
    if (key < s->first)
        return 0;
    if (from_first >= s->range)
        return key > s->most ? s->n - 1 : s->bounds;
    uint32_t slot = s->table[from_first >> s->shift];
    for (uint32_t half = s->half; half; half /= 2)
        slot += s->bound[slot + half - 1] <= key ? half : 0;
    return slot;
}

#define EDGE_COUNTS(W)                                                                                                 \
    static void edge_counts_##W(const void *data, size_t n, const rk_keys *k, const rk_edge_keys *s, uint64_t *counts) \
    {                                                                                                                  \
        const u##W##_loose *x = data;                                                                                  \
        const rk_edge_keys e = *s;                                                                                     \
        for (size_t i = 0; i < n; i++)                                                                                 \
            counts[i % RK_TURNS * e.n + slot_of(&e, order_key_##W(x[i], k))]++;                                        \
    }
EDGE_COUNTS(8)
EDGE_COUNTS(16)
EDGE_COUNTS(32)
EDGE_COUNTS(64)
#undef EDGE_COUNTS

#endif
