/* Is one of the elements among the best so far? A pass of largest and smallest over elements. */
#ifndef RK_CPU_WITHIN_H
#define RK_CPU_WITHIN_H

#include "kernels/cpu/loops/order/between.h"

#define WITHIN(W)                                                                                            \
    static bool within_##W(const void *data, size_t n, const rk_keys *k, uint64_t from, uint64_t width)       \
    {                                                                                                        \
        const u##W##_loose *x = data;                                                                        \
        const uint##W##_t first = (uint##W##_t)from, most = (uint##W##_t)width;                               \
        uint##W##_t any = 0;                                                                                 \
        for (size_t i = 0; i < n; i++)                                                                       \
            any |= (uint##W##_t)((uint##W##_t)(order_key_##W(x[i], k) - first) <= most);                     \
        return any;                                                                                          \
    }
WITHIN(8)
WITHIN(16)
WITHIN(32)
WITHIN(64)
#undef WITHIN

#endif
