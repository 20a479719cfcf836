/* Counts keys by digit: a pass of selection that any data bear. */
#ifndef RK_CPU_KEY_DIGITS_H
#define RK_CPU_KEY_DIGITS_H

#include "kernels/cpu/loops/order/between.h"

#define DIGITS(W)                                                                                                             \
    static void digits_##W(const void *data, size_t n, const rk_keys *k, uint64_t lo, uint64_t hi, int shift, uint64_t *bins) \
    {                                                                                                                         \
        const u##W##_loose *x = data;                                                                                         \
        const uint##W##_t first = (uint##W##_t)lo, range = (uint##W##_t)(hi - lo);                                            \
        for (size_t i = 0; i < n; i++) {                                                                                      \
            const uint##W##_t d = (uint##W##_t)(order_key_##W(x[i], k) - first);                                              \
            if (d <= range)                                                                                                   \
                bins[(uint64_t)d >> shift]++;                                                                                 \
        }                                                                                                                     \
    }
DIGITS(16)
DIGITS(32)
DIGITS(64)
#undef DIGITS

/* All 256 keys, in tables by turns: equal neighbours would wait for one another's counts. `lo` is 0 and `hi` 255. */
static void digits_8(const void *data, size_t n, const rk_keys *k, uint64_t lo, uint64_t hi, int shift, uint64_t *bins)
{
    enum { TABLES = 4 };
    const u8_loose *x = data;
    uint32_t table[TABLES][256] = {0};
    size_t i = 0;
    (void)lo, (void)hi, (void)shift;
    for (; i + TABLES <= n; i += TABLES)
        for (int j = 0; j < TABLES; j++)
            table[j][x[i + (size_t)j]]++;
    for (; i < n; i++)
        table[0][x[i]]++;
    for (int v = 0; v < 256; v++)
        for (int j = 0; j < TABLES; j++)
            bins[order_key_8((uint8_t)v, k)] += table[j][v];
}

#endif
