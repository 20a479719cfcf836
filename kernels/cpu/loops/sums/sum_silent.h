/* Exact sums of f32, bf16 and f16 in lanes of f32, with instructions that round without raising the inexact flag (AVX-512).
 *
 * With S the sum so far, which starts at an anchor, T = S + x is rounded silently. Then q = T - S, r = x - q and the sums of
 * the r in lanes of their own raise the flag if they round. If it is not raised, the elements' sum is that of all q, which is
 * the final S minus the anchor, plus that of all r. The proof needs no bound on the elements. No element is converted to
 * double: conversions are most of the work in sum_f32.h.
 *
 * An anchor above the lanes' sums makes exactness likely: then the q are exact, and r that span less than 24 bits sum exactly.
 * A few neighbouring 16-bit elements are added plainly before that. */
#ifndef RK_CPU_SUM_SILENT_H
#define RK_CPU_SUM_SILENT_H

#include "kernels/cpu/loops/sums/sum_f64.h"

enum { BLOCK32 = 4096 };

#if VB == 64 /* other instruction sets have no such instructions */

enum { SILENT_SUMS = SUMS / 2, LEAST_SILENT = -100, MOST_SILENT = 120 };

INLINE vf32 silent_magnitude(vf32 v, bool magnitudes) { return magnitudes ? (vf32)((vi32)v & INT32_MAX) : v; }

/* The sums of LANES32 groups of elements, or of their magnitudes. A group takes SILENT_GROUP_... vectors. */
enum { SILENT_GROUP_f32 = 1, SILENT_GROUP_bf16 = 2, SILENT_GROUP_f16 = 1 };

INLINE vf32 silent_f32(const vi32_loose *p, bool magnitudes) { return silent_magnitude((vf32)*p, magnitudes); }

INLINE vf32 silent_pairs(vi32 v, bool magnitudes)
{
    return silent_magnitude((vf32)(v << 16), magnitudes) + silent_magnitude((vf32)(v & -65536), magnitudes);
}

INLINE vf32 silent_bf16(const vi32_loose *p, bool magnitudes)
{
    return silent_pairs(p[0], magnitudes) + silent_pairs(p[1], magnitudes);
}

INLINE vf32 silent_f16(const vi32_loose *p, bool magnitudes)
{
    const __m256i *half = (const void *)p; /* conversions that load need no shuffle */
    return silent_magnitude((vf32)_mm512_cvtph_ps(_mm256_loadu_si256(half)), magnitudes) +
           silent_magnitude((vf32)_mm512_cvtph_ps(_mm256_loadu_si256(half + 1)), magnitudes);
}

INLINE vf32 add_f32_silently(vf32 a, vf32 b)
{
    return (vf32)_mm512_add_round_ps((__m512)a, (__m512)b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Each as two vectors of doubles. */
INLINE void put_widened(vf64 *out, const vf32 *sums)
{
    for (int u = 0; u < SILENT_SUMS; u++) {
        *(volatile vf64 *)&out[2 * u] = (vf64)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)sums[u]));
        *(volatile vf64 *)&out[2 * u + 1] = (vf64)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)sums[u], 1));
    }
}

/* The lanes of a block: the sums of the q, then those of the r. */
#define SILENT(TYPE, BYTES)                                                                                                  \
    INLINE void silent_lanes_of_##TYPE(const void *x, bool far, bool magnitudes, float start, vf64 *out)                     \
    {                                                                                                                        \
        enum { GROUP = SILENT_GROUP_##TYPE };                                                                                \
        const vf32 from = (vf32){0} + start;                                                                                 \
        const vi32_loose *p = x, *end = p + BYTES * BLOCK32 / VB;                                                            \
        vf32 sum[SILENT_SUMS], rest[SILENT_SUMS];                                                                            \
        for (int u = 0; u < SILENT_SUMS; u++) {                                                                              \
            sum[u] = from;                                                                                                   \
            rest[u] = (vf32){0};                                                                                             \
        }                                                                                                                    \
        while (p < end)                                                                                                      \
            for (int u = 0; u < SILENT_SUMS; u++, p += GROUP) {                                                              \
                vf32 v = silent_##TYPE(p, magnitudes), with = add_f32_silently(sum[u], v);                                   \
                for (int line = 0; line < GROUP; line++)                                                                     \
                    prefetch_from(p + line, AHEAD, far);                                                                     \
                rest[u] += v - (with - sum[u]);                                                                              \
                sum[u] = with;                                                                                               \
            }                                                                                                                \
        for (int u = 0; u < SILENT_SUMS; u++)                                                                                \
            sum[u] -= from;                                                                                                  \
        put_widened(out, sum);                                                                                               \
        put_widened(out + SUMS, rest);                                                                                       \
    }                                                                                                                        \
    static                                                                                                                   \
        __attribute__((noinline)) void silent_lanes_##TYPE(const void *x, bool far, bool magnitudes, float start, vf64 *out) \
    {                                                                                                                        \
        if (magnitudes)                                                                                                      \
            silent_lanes_of_##TYPE(x, far, true, start, out);                                                                \
        else                                                                                                                 \
            silent_lanes_of_##TYPE(x, far, false, start, out);                                                               \
    }                                                                                                                        \
    static bool add_silent_##TYPE(acc *a, pace *p, const void *x) { return add_silently32(a, p, x, silent_lanes_##TYPE); }

typedef void silent_lanes_fn(const void *x, bool far, bool magnitudes, float start, vf64 *out);

/* Expects further blocks whose lanes sum to as much as these. */
static void expect_lanes(pace *p, const vf64 *sums)
{
    uint64_t most = 0;
    for (int u = 0; u < SUMS; u++)
        for (int j = 0; j < LANES64; j++) {
            uint64_t m = bits_of_f64(sums[u][j]) & INT64_MAX;
            most = m > most ? m : most;
        }
    p->guess = (int)(most >> 52);
}

/* False, and nothing is added: something rounded, or there are infinities or NaNs. S loses the signs of zeros. But an earlier
 * block set the anchor, so `a` already has an element other than -0.0. */
static bool try_silently(acc *a, const void *x, float start, silent_lanes_fn *read)
{
    vf64 sum[2 * SUMS];
    double total;
    inexact_clear(sum);
    read(x, a->far, a->magnitudes, start, sum);
    if (inexact_seen(sum))
        return false;
    total_lanes(sum, 2 * SUMS, &total);
    bool rounded = inexact_seen(&total);
    if (!is_finite(total))
        return false;
    add_lanes(a, sum, 2 * SUMS, total, rounded);
    return true;
}

/* BLOCK32 elements. False, and nothing added: they must go another way. */
static bool add_silently32(acc *a, pace *p, const void *x, silent_lanes_fn *read)
{
    const int k = p->guess - 1023 + 2;
    if (!p->guess || k < LEAST_SILENT || k > MOST_SILENT || try_skipped(&p->quick))
        return false;
    if (!try_silently(a, x, (float)anchor(k), read)) {
        try_failed(&p->quick);
        return false;
    }
    try_fitted(&p->quick);
    return true;
}

#else

static inline void expect_lanes(pace *p, const vf64 *sums) { (void)p, (void)sums; }

#define SILENT(TYPE, BYTES)                                              \
    static inline bool add_silent_##TYPE(acc *a, pace *p, const void *x) \
    {                                                                    \
        (void)a, (void)p, (void)x;                                       \
        return false;                                                    \
    }

#endif

SILENT(f32, 4)
SILENT(bf16, 2)
SILENT(f16, 2)
#undef SILENT

#endif
