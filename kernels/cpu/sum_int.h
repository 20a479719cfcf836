/* Exact sums of integers in 128 bits. Signed elements are read with their sign bit turned, which adds 2^(width-1) to
 * each: unsigned sums never need a sign extension, and the excess is taken away at the end. */
#ifndef RK_CPU_SUM_INT_H
#define RK_CPU_SUM_INT_H

#include <string.h>

#include "kernels/cpu/vec.h"
#include "kernels/state.h"

typedef unsigned __int128 wide;

/* The state of n elements whose sum, with `excess` on each, is `sum`. */
static void take_int_sum(rk_state *s, wide sum, __int128 excess, uint64_t n)
{
    sum -= (wide)excess * n;
    s->limb[0] = (uint64_t)sum;
    s->limb[1] = (uint64_t)(sum >> 64);
    s->count = n;
}

static uint64_t sum_lanes(vu64 v)
{
    uint64_t t = 0;
    for (int j = 0; j < LANES64; j++)
        t += v[j];
    return t;
}

/* 8 bits: a lane gains less than 2^12 a step, so it has room for more steps than any memory holds */
INLINE void sum_8(rk_state *s, const void *data, uint64_t n, bool is_signed)
{
    const u8_loose *x = data;
    const uint8_t turn = is_signed ? 0x80 : 0;
    vu64 v[2] = {{0}, {0}};
    wide sum = 0;
    uint64_t i = 0;
    for (; i + 2 * VB <= n; i += 2 * VB) {
        prefetch(x + i, 4096);
        v[0] += sum_bytes(*(const vu8_loose *)(x + i) ^ turn);
        v[1] += sum_bytes(*(const vu8_loose *)(x + i + VB) ^ turn);
    }
    sum += sum_lanes(v[0] + v[1]);
    for (; i < n; i++)
        sum += (uint8_t)(x[i] ^ turn);
    take_int_sum(s, sum, turn, n);
}

/* 16 bits: pairs are summed signed into 32-bit lanes, which have room for 2^14 steps; here it is the unsigned
 * elements that are turned, into signed ones */
INLINE void sum_16(rk_state *s, const void *data, uint64_t n, bool is_signed)
{
    enum { ROUNDS = 1 << 14, STEP = 2 * LANES16 };
    const u16_loose *x = data;
    const int16_t turn = is_signed ? 0 : INT16_MIN;
    __int128 sum = 0;
    uint64_t i = 0;
    while (n - i >= STEP) {
        vi32 v[2] = {{0}, {0}};
        for (int k = 0; k < ROUNDS && n - i >= STEP; k++, i += STEP) {
            prefetch(x + i, 4096);
            v[0] += sum_pairs(*(const vi16_loose *)(x + i) ^ turn);
            v[1] += sum_pairs(*(const vi16_loose *)(x + i + LANES16) ^ turn);
        }
        for (int j = 0; j < LANES32; j++)
            sum += (int64_t)v[0][j] + v[1][j];
    }
    for (; i < n; i++)
        sum += (int16_t)(x[i] ^ (uint16_t)turn);
    take_int_sum(s, (wide)sum, is_signed ? 0 : INT16_MIN, n);
}

/* Sums of the lower and of the upper halves of 64-bit words, in 64-bit lanes: room for 2^32 words. */
typedef struct halves {
    wide low, high;
} halves;

INLINE halves sum_halves(const void *data, uint64_t words, uint64_t turn)
{
    enum { STEP = 2 * LANES64, ROUNDS = 1 << 30 };
    const char *x = data;
    halves h = {0, 0};
    while (words >= STEP) {
        vu64 low[2] = {{0}, {0}}, high[2] = {{0}, {0}};
        for (int k = 0; k < ROUNDS && words >= STEP; k++, words -= STEP, x += 8 * STEP) {
            for (int u = 0; u < 2; u++) {
                vu64 v = *(const vu64_loose *)(const void *)(x + u * VB) ^ turn;
                prefetch(x + u * VB, 4096);
                low[u] += v & 0xffffffff;
                high[u] += v >> 32;
            }
        }
        for (int u = 0; u < 2; u++) {
            h.low += sum_lanes(low[u]);
            h.high += sum_lanes(high[u]);
        }
    }
    for (; words; words--, x += 8) {
        uint64_t v = *(const u64_loose *)(const void *)x ^ turn;
        h.low += v & 0xffffffff;
        h.high += v >> 32;
    }
    return h;
}

INLINE void sum_32(rk_state *s, const void *data, uint64_t n, bool is_signed)
{
    const uint32_t turn = is_signed ? 0x80000000 : 0;
    halves h = sum_halves(data, n / 2, (uint64_t)turn << 32 | turn);
    wide sum = h.low + h.high;
    if (n % 2)
        sum += ((const u32_loose *)data)[n - 1] ^ turn;
    take_int_sum(s, sum, turn, n);
}

INLINE void sum_64(rk_state *s, const void *data, uint64_t n, bool is_signed)
{
    const uint64_t turn = is_signed ? (uint64_t)1 << 63 : 0;
    halves h = sum_halves(data, n, turn);
    take_int_sum(s, h.low + (h.high << 32), turn, n);
}

#define SUM_INT(NAME, WIDTH, SIGNED)                                                                \
    static void sum_##NAME(rk_state *s, const void *x, uint64_t n, uint64_t index, int nan_policy) \
    {                                                                                               \
        (void)index, (void)nan_policy;                                                              \
        sum_##WIDTH(s, x, n, SIGNED);                                                               \
    }
SUM_INT(i8, 8, true)
SUM_INT(u8, 8, false)
SUM_INT(i16, 16, true)
SUM_INT(u16, 16, false)
SUM_INT(i32, 32, true)
SUM_INT(u32, 32, false)
SUM_INT(i64, 64, true)
SUM_INT(u64, 64, false)
#undef SUM_INT

#endif
