/* Exact sums of integers, of their magnitudes and of their squares. Signed elements are summed with their sign bit inverted,
 * which adds 2^(width-1) to each. So sums are unsigned and need no sign extension; the excess is subtracted at the end. */
#ifndef RK_CPU_SUM_INT_H
#define RK_CPU_SUM_INT_H

#include <string.h>

#include "kernels/cpu/loops/vec.h"
#include "kernels/exact/state.h"

typedef unsigned __int128 wide;

typedef enum { UNSIGNED, SIGNED, MAGNITUDES } reading;

/* |v| by lane, as unsigned ones: the lanes are of type `vu`, to be read as `vi` */
#define MAGNITUDE_LANES(vu, vi, v)    \
    ({                                \
        vu sign_ = (vu)((vi)(v) < 0); \
        ((vu)(v) ^ sign_) - sign_;    \
    })

/* ---- sums ---- */

/* 8 bits: a lane grows by less than 2^12 a step, so it has room for more steps than fit in any memory */
INLINE vu8 read_8(vu8 v, reading r) { return r == MAGNITUDES ? MAGNITUDE_LANES(vu8, vi8, v) : r == SIGNED ? v ^ 0x80 : v; }
INLINE wide sum_8(const void *data, uint64_t n, reading r)
{
    const u8_loose *x = data;
    vu64 v[2] = {{0}, {0}};
    uint64_t i = 0;
    for (; i + 2 * VB <= n; i += 2 * VB) {
        prefetch(x + i, 4096);
        v[0] += sum_bytes(read_8(*(const vu8_loose *)(x + i), r));
        v[1] += sum_bytes(read_8(*(const vu8_loose *)(x + i + VB), r));
    }
    wide sum = sum_lanes(v[0] + v[1]);
    for (; i < n; i++)
        sum += r == MAGNITUDES ? (uint8_t)(x[i] >> 7 ? -x[i] : x[i]) : (uint8_t)(x[i] ^ (r == SIGNED ? 0x80 : 0));
    return r == SIGNED ? sum - (wide)n * 128 : sum;
}

/* 16 bits: pairs are summed signed into 32-bit lanes, which have room for 2^14 steps; here it is the unsigned elements
 * that are turned, into signed ones */
INLINE vi16 read_16(vi16 v, reading r)
{
    return r == MAGNITUDES ? (vi16)MAGNITUDE_LANES(vu16, vi16, v) ^ INT16_MIN : r == UNSIGNED ? v ^ INT16_MIN : v;
}
INLINE wide sum_16(const void *data, uint64_t n, reading r)
{
    enum { ROUNDS = 1 << 14, STEP = 2 * LANES16 };
    const u16_loose *x = data;
    __int128 sum = r == SIGNED ? 0 : (__int128)n << 15;
    uint64_t i = 0;
    while (n - i >= STEP) {
        vi32 v[2] = {{0}, {0}};
        for (int k = 0; k < ROUNDS && n - i >= STEP; k++, i += STEP) {
            prefetch(x + i, 4096);
            v[0] += sum_pairs(read_16(*(const vi16_loose *)(x + i), r));
            v[1] += sum_pairs(read_16(*(const vi16_loose *)(x + i + LANES16), r));
        }
        for (int j = 0; j < LANES32; j++)
            sum += (int64_t)v[0][j] + v[1][j];
    }
    for (; i < n; i++) {
        int e = r == UNSIGNED ? x[i] : (int16_t)x[i];
        sum += (r == MAGNITUDES && e < 0 ? -e : e) - (r == SIGNED ? 0 : 32768);
    }
    return (wide)sum;
}

/* Sums of the lower and of the upper halves of 64-bit words, in 64-bit lanes: room for 2^32 words. */
typedef struct halves {
    wide low, high;
} halves;

/* A word of two 32-bit elements or of one of 64 bits */
INLINE vu64 read_word(vu64 v, reading r, int width)
{
    if (r == MAGNITUDES)
        return width == 32 ? (vu64)MAGNITUDE_LANES(vu32, vi32, v) : MAGNITUDE_LANES(vu64, vi64, v);
    return r == UNSIGNED ? v : v ^ (width == 32 ? 0x8000000080000000 : 0x8000000000000000);
}

INLINE halves sum_halves(const void *data, uint64_t words, reading r, int width)
{
    enum { STEP = 2 * LANES64, ROUNDS = 1 << 30 };
    const char *x = data;
    halves h = {0, 0};
    while (words >= STEP) {
        vu64 low[2] = {{0}, {0}}, high[2] = {{0}, {0}};
        for (int k = 0; k < ROUNDS && words >= STEP; k++, words -= STEP, x += 8 * STEP) {
            for (int u = 0; u < 2; u++) {
                vu64 v = read_word(*(const vu64_loose *)(const void *)(x + u * VB), r, width);
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
        uint64_t v = read_word((vu64){0} + *(const u64_loose *)(const void *)x, r, width)[0];
        h.low += v & 0xffffffff;
        h.high += v >> 32;
    }
    return h;
}

INLINE wide sum_32(const void *data, uint64_t n, reading r)
{
    halves h = sum_halves(data, n / 2, r, 32);
    wide sum = h.low + h.high;
    if (n % 2)
        sum += (uint32_t)read_word((vu64){0} + ((const u32_loose *)data)[n - 1], r, 32)[0];
    return r == SIGNED ? sum - ((wide)n << 31) : sum;
}

INLINE wide sum_64(const void *data, uint64_t n, reading r)
{
    halves h = sum_halves(data, n, r, 64);
    wide sum = h.low + (h.high << 32);
    return r == SIGNED ? sum - ((wide)n << 63) : sum;
}

/* ---- sums of squares: low + high * 2^64 ---- */

/* 8 bits: as 16, squared and summed in pairs into 32-bit lanes, which have room for 2^13 steps */
INLINE halves squares_8(const void *data, uint64_t n, bool is_signed)
{
    enum { ROUNDS = 1 << 13 };
    const u8_loose *x = data;
    uint64_t i = 0;
    halves h = {0, 0};
    while (n - i >= VB) {
        vi32 v = {0};
        for (int k = 0; k < ROUNDS && n - i >= VB; k++, i += VB) {
            vi16 w = *(const vi16_loose *)(const void *)(x + i);
            vi16 even = is_signed ? (w << 8) >> 8 : w & 0xff, odd = is_signed ? w >> 8 : (w >> 8) & 0xff;
            prefetch(x + i, 4096);
            v += product_pairs(even, even) + product_pairs(odd, odd);
        }
        for (int j = 0; j < LANES32; j++)
            h.low += (uint32_t)v[j];
    }
    for (; i < n; i++) {
        int e = is_signed ? (int8_t)x[i] : x[i];
        h.low += (uint32_t)(e * e);
    }
    return h;
}

/* 16 bits: a pair of squares fits 32 bits unsigned. Unsigned elements are u = v + 2^15 with v signed, and
 * u^2 = v^2 + 2^16 u - 2^30. */
INLINE halves squares_16(const void *data, uint64_t n, bool is_signed)
{
    const u16_loose *x = data;
    const int16_t turn = is_signed ? 0 : INT16_MIN;
    vu64 low = {0}, high = {0};
    uint64_t i = 0;
    for (; n - i >= LANES16; i += LANES16) {
        vi16 v = *(const vi16_loose *)(x + i) ^ turn;
        vu64 pairs = (vu64)product_pairs(v, v);
        prefetch(x + i, 4096);
        low += pairs & 0xffffffff;
        high += pairs >> 32;
    }
    halves h = {(wide)sum_lanes(low) + sum_lanes(high), 0};
    for (; i < n; i++) {
        int e = (int16_t)(x[i] ^ (uint16_t)turn);
        h.low += (uint32_t)(e * e);
    }
    if (!is_signed)
        h.low += (sum_16(data, n, UNSIGNED) << 16) - ((wide)n << 30);
    return h;
}

INLINE halves squares_32(const void *data, uint64_t n, bool is_signed)
{
    enum { ROUNDS = 1 << 30 };
    const u32_loose *x = data;
    uint64_t i = 0;
    halves h = {0, 0};
    while (n - i >= LANES32) {
        vu64 low = {0}, high = {0};
        for (int k = 0; k < ROUNDS && n - i >= LANES32; k++, i += LANES32) {
            vu64 v = read_word(*(const vu64_loose *)(const void *)(x + i), is_signed ? MAGNITUDES : UNSIGNED, 32);
            vu64 a = square_low(v), b = square_low(v >> 32);
            prefetch(x + i, 4096);
            low += (a & 0xffffffff) + (b & 0xffffffff);
            high += (a >> 32) + (b >> 32);
        }
        h.low += sum_lanes(low) + ((wide)sum_lanes(high) << 32);
    }
    for (; i < n; i++) {
        int64_t e = is_signed ? (int32_t)x[i] : (int64_t)x[i];
        h.low += (uint64_t)e * (uint64_t)e;
    }
    return h;
}

INLINE halves squares_64(const void *data, uint64_t n, bool is_signed)
{
    const u64_loose *x = data;
    halves h = {0, 0};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t m = is_signed && x[i] >> 63 ? 0 - x[i] : x[i];
        wide square = (wide)m * m;
        h.low += (uint64_t)square;
        h.high += (uint64_t)(square >> 64);
    }
    return h;
}

/* ---- by type ---- */

#define SUM_INT(NAME, WIDTH, IS_SIGNED)                                                                                       \
    static wide sum_##NAME(const void *x, uint64_t n) { return sum_##WIDTH(x, n, IS_SIGNED ? SIGNED : UNSIGNED); }            \
    static wide magnitudes_##NAME(const void *x, uint64_t n) { return sum_##WIDTH(x, n, IS_SIGNED ? MAGNITUDES : UNSIGNED); } \
    static halves squares_##NAME(const void *x, uint64_t n) { return squares_##WIDTH(x, n, IS_SIGNED); }
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
