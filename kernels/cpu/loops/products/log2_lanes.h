/* rk_log2_uncut of log2.h for some f32 at once, to the same bits: the same steps, on numbers of up to 128 bits in 64-bit lanes,
 * which multiply 32 bits by 32. For AVX-512; others take elements one by one. */
#ifndef RK_CPU_LOG2_LANES_H
#define RK_CPU_LOG2_LANES_H

#include "kernels/cpu/loops/vec.h"
#include "kernels/exact/log2.h"

#if VB == 64

enum { LOG2_VECTORS = 4, LOG2_LANES = LOG2_VECTORS * LANES64 };

/* Products of the lower halves */
INLINE vu64 multiply_32(vu64 a, vu64 b) { return (vu64)_mm512_mul_epu32((__m512i)a, (__m512i)b); }

/* low + middle 2^32 + high 2^64, with low < 2^32 and middle < 2^36 */
typedef struct product99 {
    vu64 low, middle, high;
} product99;

#define LOWER_HALF 0xffffffffu

/* a is less than 2^35. */
INLINE product99 multiply_35(vu64 a, vu64 b)
{
    vu64 both_low = multiply_32(a, b), cross = multiply_32(a, b >> 32) + (both_low >> 32);
    return (product99){both_low & LOWER_HALF, (cross & LOWER_HALF) + multiply_32(a >> 32, b),
                       (cross >> 32) + multiply_32(a >> 32, b >> 32)};
}

/* p / 2^(32 + bits), with bits from 1 to 31 */
INLINE vu64 upper_part(product99 p, int bits) { return (p.high << (32 - bits)) + (p.middle >> bits); }

typedef struct lanes128 {
    vu64 high, low;
} lanes128;

/* p 2^bits, below 2^128 */
INLINE lanes128 shifted_up(product99 p, int bits)
{
    vu64 low = p.low + (p.middle << 32), high = p.high + (p.middle >> 32);
    return (lanes128){high << bits | low >> (64 - bits), low << bits};
}

INLINE lanes128 table_at(const rk_u128 *table, vu64 twice_index)
{
    const long long *words = (const void *)table;
    return (lanes128){(vu64)_mm512_i64gather_epi64((__m512i)twice_index, words + 1, 8),
                      (vu64)_mm512_i64gather_epi64((__m512i)twice_index, words, 8)};
}

INLINE vu64 lanes_of(uint64_t v) { return (vu64){0} + v; }

/* p2 = a2 - r p3, without its last 32 bits: as a number of 64 bits and the next 32 in a lower half. In units of 2^12 here. */
INLINE lanes128 log2_p2(vu64 r, vu64 p3)
{
    const rk_u128 a2 = RK_LOG2_A2(RK_WIDE) >> 12;
    product99 t = multiply_35(r, p3);
    vu64 low = lanes_of((uint64_t)a2 & LOWER_HALF) - t.low;
    vu64 middle = lanes_of((uint64_t)a2 >> 32) - t.middle + (vu64)((vi64)low >> 32);
    vu64 high = lanes_of((uint64_t)(a2 >> 64)) - t.high + (vu64)((vi64)middle >> 32);
    return (lanes128){high << 12 | (middle & LOWER_HALF) >> 20, middle << 12 | (low & LOWER_HALF) >> 20};
}

/* p1 = a1 - r p2 */
INLINE lanes128 log2_p1(vu64 r, lanes128 p2)
{
    const rk_u128 a1 = RK_LOG2_A1(RK_WIDE);
    lanes128 t = shifted_up(multiply_35(r, p2.high), 12);
    vu64 low = lanes_of((uint64_t)a1) - (multiply_32(r >> 3, p2.low) >> 17); /* the lower word of a1 is large */
    return (lanes128){lanes_of((uint64_t)(a1 >> 64)) - t.high + (vu64)(low < t.low), low - t.low};
}

/* Sums of logarithms by lane, without the carries. */
typedef struct log2_sums {
    vu64 lower, upper[2]; /* in units of 2^-112, 2^-64 and 2^-32 */
} log2_sums;

/* += tabled + r p1 2^-127 + half a unit of 2^-112, of which the last 16 bits are cut */
INLINE void log2_add(log2_sums *s, vu64 r, lanes128 p1, lanes128 coarse, lanes128 fine)
{
    lanes128 t = shifted_up(multiply_35(r, p1.high), 14);
    vu64 high = coarse.high + fine.high + t.high;
    vu64 cut = upper_part(multiply_35(r, p1.low), 50 - 32) + (1 << 15);
    cut += (coarse.low & 0xffff) + (fine.low & 0xffff) + (t.low & 0xffff);
    s->lower += (coarse.low >> 16) + (fine.low >> 16) + (t.low >> 16) + (cut >> 16);
    s->upper[0] += high & LOWER_HALF;
    s->upper[1] += high >> 32;
}

/* Adds LOG2_LANES normal f32. Each step is done for all vectors before the next one: in a single vector each step waits for the
 * one before. */
INLINE void log2_add_f32(log2_sums *s, const char *x)
{
    vu64 near[LOG2_VECTORS], r[LOG2_VECTORS], p[LOG2_VECTORS];
    lanes128 coarse[LOG2_VECTORS], fine[LOG2_VECTORS], q[LOG2_VECTORS];
#define STEP for (int u = 0; u < LOG2_VECTORS; u++)
    STEP
    {
        vu64 significand = ((vu64)_mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)(x + u * VB / 2))) & 0x7fffff) |
                           0x800000;
        coarse[u] = table_at(rk_log2_coarse_of_host, significand >> 13 & 1022);
        near[u] = multiply_32(significand, 1024 - (coarse[u].low & 1023)); /* in units of 2^-33, little more than one */
    }
    STEP
    {
        fine[u] = table_at(rk_log2_fine_of_host, near[u] >> 15 & 1022);
        vu64 d2 = fine[u].low & 1023;
        r[u] = multiply_32(near[u], ((uint64_t)1 << 18) - d2) - (d2 << 33); /* the lower half is the excess over one */
    }
    /* the series, for r 2^29 */
    STEP p[u] = lanes_of(RK_LOG2_A5) - (multiply_32(r[u] >> 3, lanes_of(RK_LOG2_A6)) >> 16);
    STEP p[u] = lanes_of(RK_LOG2_A4) - upper_part(multiply_35(r[u], p[u]), 51 - 32);
    STEP p[u] = lanes_of(RK_LOG2_A3) - upper_part(multiply_35(r[u], p[u]), 50 - 32);
    STEP q[u] = log2_p2(r[u], p[u]);
    STEP q[u] = log2_p1(r[u], q[u]);
    STEP log2_add(s, r[u], q[u], coarse[u], fine[u]);
#undef STEP
}

/* The sum of rk_log2_fraction over n normal f32, a multiple of LOG2_LANES and at most 2^12. */
static rk_u128 log2_fractions_f32(const void *data, size_t n)
{
    const char *x = data;
    log2_sums s = {{0}, {{0}, {0}}};
    rk_u128 sum = 0;
    for (size_t i = 0; i < n; i += LOG2_LANES)
        log2_add_f32(&s, x + 4 * i);
    for (int j = 0; j < LANES64; j++)
        sum += s.lower[j] + ((rk_u128)s.upper[0][j] << 48) + ((rk_u128)s.upper[1][j] << 80);
    return sum;
}

#undef LOWER_HALF

#else

enum { LOG2_LANES = 1 << 30 }; /* more than a block has, so all elements are added one by one */

static inline rk_u128 log2_fractions_f32(const void *data, size_t n)
{
    (void)data, (void)n;
    return 0;
}

#endif
#endif
