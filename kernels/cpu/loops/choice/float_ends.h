/* The least and the largest of f32 or f64 by the numbers themselves: vectors have minima and maxima of floats of either width.
 * The bits would have to be turned first, or gone over again where all signs are alike. */
#ifndef RK_CPU_FLOAT_ENDS_H
#define RK_CPU_FLOAT_ENDS_H

#include <string.h>

#include "kernels/cpu/loops/vec.h"

typedef enum { LEAST, LARGEST, MAGNITUDE } direction;
enum { WANT_LEAST = 1 << LEAST, WANT_LARGEST = 1 << LARGEST };

#define ALL_LANES(W) ((1 << LANES##W) - 1)

/* Which lanes have had numbers alone: two vectors are looked at by one comparison. */
#if VB == 64
typedef __mmask16 numbers_32;
typedef __mmask8 numbers_64;
#define ALL_NUMBERS(W, S, K) ((K) == ALL_LANES(W))
#define SIGNS(W, S, X) _mm512_movepi##W##_mask((__m512i)(X))
#define STILL_NUMBERS(S, K, A, B) _mm512_mask_cmp_##S##_mask(K, A, B, _CMP_ORD_Q)
#elif VB == 32
typedef __m256 numbers_32;
typedef __m256d numbers_64;
#define ALL_NUMBERS(W, S, K) (_mm256_movemask_##S(K) == ALL_LANES(W))
#define SIGNS(W, S, X) _mm256_movemask_##S((numbers_##W)(X))
#define STILL_NUMBERS(S, K, A, B) _mm256_and_##S(K, _mm256_cmp_##S(A, B, _CMP_ORD_Q))
#endif

/* Takes the first whole steps of n floats; returns how many floats those are. `end`: bits of the [LEAST] and the [LARGEST], of
 * which those that are not wanted are undefined. All are if *numbers becomes false, because there are NaNs.
 *
 * To maxima all zeros are equal. The least zero is -0 if any element has its sign set, the largest one if all have. */
#define FLOAT_ENDS(W, V, F, S, MM)                                                                        \
    INLINE uint##W##_t end_of_lanes_##W(const V side[4], direction d, bool negative)                      \
    {                                                                                                     \
        const V a = d == LEAST ? MM##_min_##S(side[0], side[1]) : MM##_max_##S(side[0], side[1]),         \
                b = d == LEAST ? MM##_min_##S(side[2], side[3]) : MM##_max_##S(side[2], side[3]),         \
                v = d == LEAST ? MM##_min_##S(a, b) : MM##_max_##S(a, b);                                 \
        F x[LANES##W];                                                                                    \
        uint##W##_t bits;                                                                                 \
        memcpy(x, &v, sizeof x);                                                                          \
        for (int k = LANES##W / 2; k; k /= 2)                                                             \
            for (int j = 0; j < k; j++)                                                                   \
                x[j] = (d == LEAST ? x[j + k] < x[j] : x[j + k] > x[j]) ? x[j + k] : x[j];                \
        memcpy(&bits, x, sizeof bits);                                                                    \
        return x[0] != 0 ? bits : negative ? (uint##W##_t)INT##W##_MIN : 0;                               \
    }                                                                                                     \
    INLINE size_t float_ends_##W(const void *data, size_t n, int ends, uint##W##_t end[2], bool *numbers) \
    {                                                                                                     \
        enum { SIDE = 4, STEP = SIDE * LANES##W };                                                        \
        const F *p = data;                                                                                \
        V least[SIDE], largest[SIDE];                                                                     \
        vi##W any = {0}, all = any - 1; /* signs */                                                       \
        numbers_##W ordered[SIDE / 2];                                                                    \
        size_t i = 0;                                                                                     \
        if (n < STEP)                                                                                     \
            return 0;                                                                                     \
        memset(ordered, -1, sizeof ordered);                                                              \
        for (int u = 0; u < SIDE; u++)                                                                    \
            least[u] = largest[u] = MM##_loadu_##S(p + u * LANES##W);                                     \
        for (; i + STEP <= n; i += STEP, p += STEP) {                                                     \
            V v[SIDE];                                                                                    \
            for (int u = 0; u < SIDE; u++) {                                                              \
                V x = MM##_loadu_##S(p + u * LANES##W);                                                   \
                __asm__("" : "+v"(x)); /* one load for all uses */                                        \
                v[u] = x;                                                                                 \
                if (ends & WANT_LEAST)                                                                    \
                    least[u] = MM##_min_##S(least[u], x);                                                 \
                if (ends & WANT_LARGEST)                                                                  \
                    largest[u] = MM##_max_##S(largest[u], x);                                             \
            }                                                                                             \
            for (int u = 0; u < SIDE; u += 2) {                                                           \
                ordered[u / 2] = STILL_NUMBERS(S, ordered[u / 2], v[u], v[u + 1]);                        \
                if (ends & WANT_LEAST)                                                                    \
                    any |= (vi##W)v[u] | (vi##W)v[u + 1];                                                 \
                if (ends & WANT_LARGEST)                                                                  \
                    all &= (vi##W)v[u] & (vi##W)v[u + 1];                                                 \
            }                                                                                             \
        }                                                                                                 \
        *numbers = ALL_NUMBERS(W, S, ordered[0]) && ALL_NUMBERS(W, S, ordered[1]);                        \
        if (*numbers && ends & WANT_LEAST)                                                                \
            end[LEAST] = end_of_lanes_##W(least, LEAST, SIGNS(W, S, any) != 0);                           \
        if (*numbers && ends & WANT_LARGEST)                                                              \
            end[LARGEST] = end_of_lanes_##W(largest, LARGEST, SIGNS(W, S, all) == ALL_LANES(W));          \
        return i;                                                                                         \
    }
#define NO_FLOAT_ENDS(W)                                                                                  \
    INLINE size_t float_ends_##W(const void *data, size_t n, int ends, uint##W##_t end[2], bool *numbers) \
    {                                                                                                     \
        (void)data, (void)n, (void)ends, (void)end, (void)numbers;                                        \
        return 0;                                                                                         \
    }
#if VB == 64
FLOAT_ENDS(32, __m512, float, ps, _mm512)
FLOAT_ENDS(64, __m512d, double, pd, _mm512)
#elif VB == 32
FLOAT_ENDS(32, __m256, float, ps, _mm256)
FLOAT_ENDS(64, __m256d, double, pd, _mm256)
#else
NO_FLOAT_ENDS(32)
NO_FLOAT_ENDS(64)
#endif
NO_FLOAT_ENDS(8)
NO_FLOAT_ENDS(16)
#undef FLOAT_ENDS
#undef NO_FLOAT_ENDS
#undef STILL_NUMBERS
#undef SIGNS
#undef ALL_LANES
#undef ALL_NUMBERS

#endif
