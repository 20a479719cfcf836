/* Sums of f32, bf16 and f16: plain additions of doubles in lanes. The inexact flag shows whether they were exact
 * (inexact.h).
 *
 * They are exact for most data: if elements are multiples of u and sum to less than 2^53 u, no addition rounds. With 2^c
 * elements for each lane that holds for any block whose exponents lie within 29 - c of one another (f32), or within 45 - c
 * (bf16). It holds for every block of f16, whose elements are multiples of 2^-24 below 2^16. A lane with an infinity or NaN
 * never becomes finite again. */
#ifndef RK_CPU_SUM_F32_H
#define RK_CPU_SUM_F32_H

#include "kernels/cpu/loops/sums/sum_silent.h"

enum { STEP32 = SUMS * LANES64 };

/* ---- loading ---- */

static void widen_f32(float *out, const void *x, size_t n) { memcpy(out, x, 4 * n); }

static void widen_bf16(float *out, const void *x, size_t n)
{
    const u16_loose *p = x;
    for (size_t i = 0; i < n; i++)
        out[i] = f32_of((uint32_t)p[i] << 16);
}

static void widen_f16(float *out, const void *x, size_t n)
{
    const u16_loose *p = x;
    for (size_t i = 0; i < n; i++)
        out[i] = f32_of((uint32_t)rk_convert_float(RP_F16, p[i], RP_F32));
}

/* As load_f32. */
INLINE vf64 load_f16(const void *p)
{
#if defined(__F16C__) && VB == 64
    return (vf64)_mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128(p)));
#elif defined(__F16C__) && VB == 32
    return (vf64)_mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64(p)));
#elif defined(__aarch64__)
    uint16x4_t bits = {((const u16_loose *)p)[0], ((const u16_loose *)p)[1]};
    return (vf64)vcvt_f64_f32(vget_low_f32(vcvt_f32_f16((float16x4_t)bits)));
#else
    vf64 v = {0};
    for (int j = 0; j < LANES64; j++)
        v[j] = f64_of(rk_convert_float(RP_F16, ((const u16_loose *)p)[j], RP_F64));
    return v;
#endif
}

/* ---- a block in lanes ---- */

INLINE vf64 add_plain(vf64 sum, vf64 v, bool magnitudes) { return sum + (magnitudes ? (vf64)((vi64)v & INT64_MAX) : v); }

/* The sums by lane of n elements (a multiple of STEP32) or of their magnitudes. */
#define LANES(TYPE, BYTES)                                                                                 \
    INLINE void lanes_of_##TYPE(const void *x, size_t n, bool far, bool magnitudes, vf64 *out)             \
    {                                                                                                      \
        vf64 sum[SUMS];                                                                                    \
        for (int u = 0; u < SUMS; u++)                                                                     \
            sum[u] = no_sum();                                                                             \
        for (size_t i = 0; i < n; i += STEP32)                                                             \
            for (int u = 0; u < SUMS; u++) {                                                               \
                const char *p = (const char *)x + BYTES * (i + (size_t)u * LANES64);                       \
                if (u * LANES64 * BYTES % 64 == 0)                                                         \
                    prefetch_from(p, AHEAD, far);                                                          \
                sum[u] = add_plain(sum[u], load_##TYPE(p), magnitudes);                                    \
            }                                                                                              \
        put_lanes(out, sum, SUMS);                                                                         \
    }                                                                                                      \
    static __attribute__((noinline)) void lanes_plain_##TYPE(const void *x, size_t n, bool far, vf64 *out) \
    {                                                                                                      \
        lanes_of_##TYPE(x, n, far, false, out);                                                            \
    }                                                                                                      \
    static __attribute__((noinline)) void lanes_abs_##TYPE(const void *x, size_t n, bool far, vf64 *out)   \
    {                                                                                                      \
        lanes_of_##TYPE(x, n, far, true, out);                                                             \
    }                                                                                                      \
    /* n is at most BLOCK32 */                                                                             \
    static outcome add_lanes_##TYPE(acc *a, pace *p, const void *x, size_t n)                              \
    {                                                                                                      \
        if (n == BLOCK32 && add_silent_##TYPE(a, p, x))                                                    \
            return ADDED;                                                                                  \
        return add_block_lanes(a, p, x, n, a->magnitudes ? lanes_abs_##TYPE : lanes_plain_##TYPE);         \
    }

typedef void lanes_fn(const void *x, size_t n, bool far, vf64 *out);
typedef enum { ADDED, ROUNDED, NOT_FINITE } outcome; /* only with ADDED is anything added */

static outcome add_block_lanes(acc *a, pace *p, const void *x, size_t n, lanes_fn *read)
{
    vf64 sum[SUMS];
    double total;
    inexact_clear(sum);
    read(x, n, a->far, sum);
    bool rounded = inexact_seen(sum);
    total_lanes(sum, SUMS, &total);
    bool total_rounded = inexact_seen(&total);
    if (!is_finite(total))
        return NOT_FINITE;
    if (rounded)
        return ROUNDED;
    add_lanes(a, sum, SUMS, total, total_rounded);
    expect_lanes(p, sum);
    return ADDED;
}

LANES(f32, 4)
LANES(bf16, 2)
LANES(f16, 2)
#undef LANES

/* ---- blocks: n is a multiple of STEP32, at most BLOCK32 ---- */

ODD_BLOCKS(32, BLOCK32, ((uint32_t)0xff << 23))
#undef ODD_BLOCKS

static void fill_buckets_bf16(acc *a, const void *x, size_t n)
{
    _Alignas(VB) float wide[BLOCK64];
    widen_bf16(wide, x, n);
    fill_buckets32(a, wide, n);
}

static void add_odd_block_bf16(acc *a, pace *p, const void *x, size_t n)
{
    _Alignas(VB) float wide[BLOCK32];
    widen_bf16(wide, x, n);
    add_odd_block32(a, p, wide, n);
}

/* By levels, or else by near sums or buckets */
#define WIDE_BLOCKS(NAME, TYPE, BYTES, FRACTION, FILL, ODD)                                \
    static void add_widest_##NAME(acc *a, pace *p, const void *x, size_t n)                \
    {                                                                                      \
        if (!add_near(a, p, x, n, near_##TYPE, reach_##TYPE, 0))                           \
            FILL(a, x, n);                                                                 \
    }                                                                                      \
    static void add_wide_##NAME(acc *a, pace *p, const void *data, size_t n)               \
    {                                                                                      \
        const char *x = data;                                                              \
        for (size_t i = 0, some; i < n; i += some, x += BYTES * some) {                    \
            some = n - i < BLOCK64 ? n - i : BLOCK64;                                      \
            if (try_skipped(&p->wide)) {                                                   \
                add_widest_##NAME(a, p, x, some);                                          \
                continue;                                                                  \
            }                                                                              \
            switch (add_by_levels(a, p, x, some, FRACTION, levels_##TYPE, reach_##TYPE)) { \
            case LEVELS_ADDED:                                                             \
                try_fitted(&p->wide);                                                      \
                break;                                                                     \
            case LEVELS_SPECIAL:                                                           \
                ODD(a, p, x, some);                                                        \
                break;                                                                     \
            case LEVELS_TOO_WIDE:                                                          \
                try_failed(&p->wide);                                                      \
                add_widest_##NAME(a, p, x, some);                                          \
            }                                                                              \
        }                                                                                  \
    }
WIDE_BLOCKS(block32, f32, 4, 23, fill_buckets32, add_odd_block32)
WIDE_BLOCKS(block_bf16, bf16, 2, 7, fill_buckets_bf16, add_odd_block_bf16)
#undef WIDE_BLOCKS

static void add_block32(acc *a, pace *p, const void *x, size_t n)
{
    if (try_skipped(&p->last)) {
        add_wide_block32(a, p, x, n);
        return;
    }
    switch (add_lanes_f32(a, p, x, n)) {
    case ADDED:
        try_fitted(&p->last);
        break;
    case NOT_FINITE:
        add_odd_block32(a, p, x, n);
        break;
    case ROUNDED:
        try_failed(&p->last);
        a->nz = 1;
        add_wide_block32(a, p, x, n);
    }
}

static void add_block_bf16(acc *a, pace *p, const void *x, size_t n)
{
    if (try_skipped(&p->last)) {
        add_wide_block_bf16(a, p, x, n);
        return;
    }
    switch (add_lanes_bf16(a, p, x, n)) {
    case ADDED:
        try_fitted(&p->last);
        break;
    case NOT_FINITE:
        add_odd_block_bf16(a, p, x, n);
        break;
    case ROUNDED:
        try_failed(&p->last);
        a->nz = 1;
        add_wide_block_bf16(a, p, x, n);
    }
}

static void add_block_f16(acc *a, pace *p, const void *x, size_t n)
{
    if (add_lanes_f16(a, p, x, n) == ADDED)
        return;
    _Alignas(VB) float wide[BLOCK32];
    widen_f16(wide, x, n);
    add_odd_block32(a, p, wide, n);
}

/* ---- less than a step ---- */

#define REST(TYPE)                                           \
    static void rest_##TYPE(acc *a, const void *x, size_t n) \
    {                                                        \
        float rest[STEP32];                                  \
        widen_##TYPE(rest, x, n);                            \
        count_adds(a, (uint32_t)n);                          \
        for (size_t i = 0; i < n; i++)                       \
            add_f32(a, bits_of_f32(rest[i]));                \
    }
REST(f32)
REST(bf16)
REST(f16)
#undef REST

#endif
