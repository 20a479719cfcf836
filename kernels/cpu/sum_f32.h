/* Exact sums of f32, bf16 and f16 in f64 lanes.
 *
 * Elements that are multiples of u and a sum below 2^51 u make every partial sum of plain f64 additions exact. For f32
 * and bf16 that is checked for each block from its smallest and largest exponent, found in the same pass; f16 always
 * fits. Lanes start at -0.0, the identity, so a lane of -0.0 tells that it saw nothing else. */
#ifndef RK_CPU_SUM_F32_H
#define RK_CPU_SUM_F32_H

#include "kernels/cpu/sum_f64.h"

enum {
    SUMS = 8, /* f64 accumulators of a block */
    STEP32 = SUMS * LANES64,
    BLOCK32 = 4096
};

static inline uint32_t bits_of_f32(float f)
{
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}
static inline float f32_of(uint32_t b)
{
    float f;
    memcpy(&f, &b, 4);
    return f;
}

/* The lanes' sum as an integer in units of 2^unit; each lane is below 2^51 of them. */
static int64_t sum_of_lanes(const vf64 *sums, int unit)
{
    const vf64 start = (vf64){0} + anchor(unit + 52);
    vi64 v = {0};
    int64_t total = 0;
    for (int u = 0; u < SUMS; u++)
        v += (vi64)(sums[u] + start) - (vi64)start;
    for (int j = 0; j < LANES64; j++)
        total += v[j];
    return total;
}

/* Did any lane see more than -0.0? */
static bool lanes_nonzero(const vf64 *sums)
{
    vi64 differ = {0};
    int64_t any = 0;
    for (int u = 0; u < SUMS; u++)
        differ |= (vi64)sums[u] ^ INT64_MIN;
    for (int j = 0; j < LANES64; j++)
        any |= differ[j];
    return any != 0;
}

static void start_lanes(vf64 *sums)
{
    for (int u = 0; u < SUMS; u++)
        sums[u] = (vf64)((vi64){0} + INT64_MIN);
}

/* The exponent fields between which a block's nonzero elements lie; highest 0xff: infinities or NaNs. */
typedef struct span {
    int lowest, highest;
    bool zero; /* no nonzero element */
} span;

/* From the largest magnitude and the smallest (magnitude - 1) & max, in which zeros are the largest. */
static span span_of(uint32_t largest, uint32_t smallest_less_1, int fraction_bits)
{
    return (span){(int)((smallest_less_1 + 1) >> fraction_bits), (int)(largest >> fraction_bits), largest == 0};
}

/* Take the lanes in if the additions were exact: elements are multiples of 2^(lowest - 150) below 2^(highest - 126), and
 * that holds for subnormals, of field 0, as well. */
static bool take_lanes(acc *a, pace *p, const vf64 *sums, span r, size_t n)
{
    if (!r.zero && r.highest - r.lowest > 27 - log2_up(n / STEP32))
        return false;
    a->nz |= lanes_nonzero(sums);
    if (!r.zero)
        acc_add(a, sum_of_lanes(sums, r.lowest + RK_E0_32), r.lowest + RK_E0_32);
    block_fitted(p);
    return true;
}

/* ---- f32 ---- */

static span span_f32(vi32 largest, vi32 smallest)
{
    int32_t hi = 0, lo = INT32_MAX;
    for (int j = 0; j < LANES32; j++) {
        hi = largest[j] > hi ? largest[j] : hi;
        lo = smallest[j] < lo ? smallest[j] : lo;
    }
    return span_of((uint32_t)hi, (uint32_t)lo, 23);
}

INLINE vf64 magnitudes_if(bool yes, vf64 v) { return yes ? (vf64)((vi64)v & INT64_MAX) : v; }

/* Exact sums by lane, if the span says so, of n elements (a multiple of STEP32) or of their magnitudes. */
INLINE span lanes_of_f32(const void *x, size_t n, bool magnitudes, vf64 *out)
{
    vf64 s[SUMS];
    vi32 largest = {0}, smallest = (vi32){0} + INT32_MAX;
    start_lanes(s);
    for (size_t i = 0; i < n; i += STEP32) {
        for (int u = 0; u < SUMS; u += 2) {
            const char *p = (const char *)x + 4 * (i + (size_t)u * LANES64);
            vi32 m = *(const vi32_loose *)(const void *)p & INT32_MAX;
            if (u / 2 * VB % 64 == 0)
                prefetch(p, AHEAD);
            largest = max_i32(largest, m);
            smallest = min_i32(smallest, (m - 1) & INT32_MAX);
            s[u] += magnitudes_if(magnitudes, load_f32(p));
            s[u + 1] += magnitudes_if(magnitudes, load_f32(p + VB / 2));
        }
    }
    memcpy(out, s, sizeof s);
    return span_f32(largest, smallest);
}

/* Two copies of a loop, one for magnitudes, chosen by the accumulator. */
#define LANES(RESULT, TYPE)                                                                       \
    static __attribute__((noinline)) RESULT lanes_plain_##TYPE(const void *x, size_t n, vf64 *out) \
    {                                                                                             \
        return lanes_of_##TYPE(x, n, false, out);                                                 \
    }                                                                                             \
    static __attribute__((noinline)) RESULT lanes_abs_##TYPE(const void *x, size_t n, vf64 *out)  \
    {                                                                                             \
        return lanes_of_##TYPE(x, n, true, out);                                                  \
    }                                                                                             \
    static RESULT lanes_##TYPE(const acc *a, const void *x, size_t n, vf64 *out)                  \
    {                                                                                             \
        return a->magnitudes ? lanes_abs_##TYPE(x, n, out) : lanes_plain_##TYPE(x, n, out);       \
    }
LANES(span, f32)

ODD_BLOCKS(32, BLOCK32, ((uint32_t)0xff << 23))
#undef ODD_BLOCKS

/* n: a multiple of STEP32, at most BLOCK32 */
static void add_block32(acc *a, pace *p, const void *x, size_t n)
{
    vf64 sums[SUMS];
    if (p->skip > 0) {
        add_wide_block32(a, p, x, n);
        return;
    }
    span r = lanes_f32(a, x, n, sums);
    if (r.highest == 0xff) {
        add_odd_block32(a, p, x, n);
    } else if (!take_lanes(a, p, sums, r, n)) {
        block_failed(p);
        a->nz = 1;
        fill_buckets32(a, x, n);
    }
}

static void widen_f32(float *out, const void *x, size_t n) { memcpy(out, x, 4 * n); }

/* ---- bf16 ---- */

static void widen_bf16(float *out, const void *x, size_t n)
{
    const u16_loose *p = x;
    for (size_t i = 0; i < n; i++)
        out[i] = f32_of((uint32_t)p[i] << 16);
}

INLINE span lanes_of_bf16(const void *x, size_t n, bool magnitudes, vf64 *out)
{
    vf64 s[SUMS];
    vi16 largest = {0}, smallest = (vi16){0} + INT16_MAX;
    start_lanes(s);
    for (size_t i = 0; i < n; i += STEP32) {
        for (int u = 0; u < SUMS; u += 4) {
            const char *p = (const char *)x + 2 * (i + (size_t)u * LANES64);
            vi16 m = *(const vi16_loose *)(const void *)p & INT16_MAX;
            if (u / 4 * VB % 64 == 0)
                prefetch(p, AHEAD);
            largest = max_i16(largest, m);
            smallest = min_i16(smallest, (m - 1) & INT16_MAX);
            for (int v = 0; v < 4; v++)
                s[u + v] += magnitudes_if(magnitudes, load_bf16(p + v * (VB / 4)));
        }
    }
    memcpy(out, s, sizeof s);
    int hi = 0, lo = INT16_MAX;
    for (int j = 0; j < LANES16; j++) {
        hi = largest[j] > hi ? largest[j] : hi;
        lo = smallest[j] < lo ? smallest[j] : lo;
    }
    return span_of((uint32_t)hi, (uint32_t)lo, 7);
}
LANES(span, bf16)

static void add_block_bf16(acc *a, pace *p, const void *x, size_t n)
{
    vf64 sums[SUMS];
    span r = {0, 0xff, false};
    if (p->skip == 0)
        r = lanes_bf16(a, x, n, sums);
    if (r.highest == 0xff || !take_lanes(a, p, sums, r, n)) {
        float wide[BLOCK32];
        widen_bf16(wide, x, n);
        add_block32(a, p, wide, n);
    }
}

/* ---- f16: multiples of 2^-24 below 2^16, so 2^11 of them in one lane stay below 2^51 * 2^-24 ---- */

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
#else
    vf64 v;
    for (int j = 0; j < LANES64; j++)
        v[j] = f64_of(rk_convert_float(RP_F16, ((const u16_loose *)p)[j], RP_F64));
    return v;
#endif
}

/* Exact sums by lane; false if infinities or NaNs got in. */
INLINE bool lanes_of_f16(const void *x, size_t n, bool magnitudes, vf64 *out)
{
    vf64 s[SUMS];
    start_lanes(s);
    for (size_t i = 0; i < n; i += STEP32) {
        for (int u = 0; u < SUMS; u++) {
            const char *p = (const char *)x + 2 * (i + (size_t)u * LANES64);
            if (u * VB / 4 % 64 == 0)
                prefetch(p, AHEAD);
            s[u] += magnitudes_if(magnitudes, load_f16(p));
        }
    }
    memcpy(out, s, sizeof s);
    vi64 odd = {0};
    int64_t any = 0;
    for (int u = 0; u < SUMS; u++)
        odd |= (vi64)(s[u] - s[u]); /* NaN, not 0, for what is not finite */
    for (int j = 0; j < LANES64; j++)
        any |= odd[j];
    return any == 0;
}
LANES(bool, f16)

static void add_block_f16(acc *a, pace *p, const void *x, size_t n)
{
    vf64 sums[SUMS];
    if (lanes_f16(a, x, n, sums)) {
        a->nz |= lanes_nonzero(sums);
        acc_add(a, sum_of_lanes(sums, -24), -24);
        return;
    }
    float wide[BLOCK32];
    widen_f16(wide, x, n);
    add_odd_block32(a, p, wide, n);
}
#undef LANES

/* ---- less than a step ---- */

#define REST(TYPE)                                                 \
    static void rest_##TYPE(acc *a, const void *x, size_t n)       \
    {                                                              \
        float rest[STEP32];                                        \
        widen_##TYPE(rest, x, n);                                  \
        count_adds(a, (uint32_t)n);                                \
        for (size_t i = 0; i < n; i++)                             \
            add_f32(a, bits_of_f32(rest[i]));                      \
    }
REST(f32)
REST(bf16)
REST(f16)
#undef REST

#endif
