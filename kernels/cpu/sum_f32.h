/* Exact sums of f32, bf16 and f16 in f64 lanes.
 *
 * Elements that are multiples of u and a sum below 2^51 u make every partial sum of plain f64 additions exact. For f32
 * and bf16 that is checked for each block from its smallest and largest exponent, found in the same pass; f16 always
 * fits. Lanes start at -0.0, the identity, so a lane of -0.0 tells that it saw nothing else.
 *
 * The same loops sum squares (squares.h), in two lanes each: one that starts at an anchor (sum_f64.h) and one for the rests. */
#ifndef RK_CPU_SUM_F32_H
#define RK_CPU_SUM_F32_H

#include "kernels/cpu/sum_f64.h"

enum {
    SUMS = 8,        /* f64 accumulators of a block */
    SQUARE_SUMS = 4, /* pairs of them for squares: as many as there are registers for */
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

/* The sum of `vectors` of lanes as an integer in units of 2^unit; each lane is below 2^51 of them. Unsigned, for an arena may
 * have changed between the look at an element and its addition: then lanes hold anything, and these overflow. */
static int64_t sum_of_lanes(const vf64 *sums, int vectors, int unit)
{
    const vf64 start = (vf64){0} + anchor(unit + 52);
    vu64 v = {0};
    for (int u = 0; u < vectors; u++)
        v += (vu64)(sums[u] + start) - (vu64)start;
    return (int64_t)sum_lanes(v);
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

/* What is summed: elements, their magnitudes or their squares. */
typedef enum { AS_IS, AS_MAGNITUDE, AS_SQUARE } taking;

/* Squares: from the anchor 1.5 * 2^k. */
INLINE void start_lanes(vf64 *sums, vf64 *rests, taking how, int k)
{
    for (int u = 0; u < SUMS; u++)
        sums[u] = how == AS_SQUARE ? (vf64){0} + anchor(k) : (vf64)((vi64){0} + INT64_MIN);
    for (int u = 0; u < SQUARE_SUMS; u++)
        rests[u] = (vf64){0};
}

/* An f32's square is a double. What the anchor rounds off of it is known exactly. */
INLINE void add_lanes(vf64 *sums, vf64 *rests, int u, vf64 v, taking how)
{
    if (how == AS_SQUARE) {
        vf64 square = v * v, *s = &sums[u % SQUARE_SUMS], with = *s + square;
        rests[u % SQUARE_SUMS] += square - (with - *s);
        *s = with;
    } else {
        sums[u] += how == AS_MAGNITUDE ? (vf64)((vi64)v & INT64_MAX) : v;
    }
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

INLINE void give_lanes(vf64 *out, vf64 *rests_out, const vf64 *sums, const vf64 *rests, taking how)
{
    if (how == AS_SQUARE)
        memcpy(rests_out, rests, SQUARE_SUMS * sizeof *rests);
    memcpy(out, sums, (how == AS_SQUARE ? SQUARE_SUMS : SUMS) * sizeof *sums);
}

/* Take the lanes in if the additions were exact: elements are multiples of 2^(lowest - 150) below 2^(highest - 126), and
 * that holds for subnormals, of field 0, as well. */
static bool take_lanes(acc *a, pace *p, const vf64 *sums, span r, size_t n)
{
    if (!r.zero && r.highest - r.lowest > 27 - log2_up(n / STEP32))
        return false;
    a->nz |= lanes_nonzero(sums);
    if (!r.zero)
        acc_add(a, sum_of_lanes(sums, SUMS, r.lowest + RK_E0_32), r.lowest + RK_E0_32);
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

/* Exact sums by lane, if the span says so, of n elements (a multiple of STEP32), or of what is made of them. Squares have
 * `rests`, and the anchor 1.5 * 2^k. */
INLINE span lanes_of_f32(const void *x, size_t n, taking how, int k, vf64 *out, vf64 *rests)
{
    vf64 s[SUMS], r[SQUARE_SUMS];
    vi32 largest = {0}, smallest = (vi32){0} + INT32_MAX;
    start_lanes(s, r, how, k);
    for (size_t i = 0; i < n; i += STEP32) {
        for (int u = 0; u < SUMS; u += 2) {
            const char *p = (const char *)x + 4 * (i + (size_t)u * LANES64);
            vi32 m = *(const vi32_loose *)(const void *)p & INT32_MAX;
            if (u / 2 * VB % 64 == 0)
                prefetch(p, AHEAD);
            largest = max_i32(largest, m);
            smallest = min_i32(smallest, (m - 1) & INT32_MAX);
            add_lanes(s, r, u, load_f32(p), how);
            add_lanes(s, r, u + 1, load_f32(p + VB / 2), how);
        }
    }
    give_lanes(out, rests, s, r, how);
    return span_f32(largest, smallest);
}

/* Copies of a loop: for elements and for their magnitudes, chosen by the accumulator, and for squares. */
#define LANES(TYPE)                                                                                                   \
    static __attribute__((noinline)) span lanes_plain_##TYPE(const void *x, size_t n, vf64 *out)                      \
    {                                                                                                                 \
        return lanes_of_##TYPE(x, n, AS_IS, 0, out, NULL);                                                            \
    }                                                                                                                 \
    static __attribute__((noinline)) span lanes_abs_##TYPE(const void *x, size_t n, vf64 *out)                        \
    {                                                                                                                 \
        return lanes_of_##TYPE(x, n, AS_MAGNITUDE, 0, out, NULL);                                                     \
    }                                                                                                                 \
    static span lanes_##TYPE(const acc *a, const void *x, size_t n, vf64 *out)                                        \
    {                                                                                                                 \
        return a->magnitudes ? lanes_abs_##TYPE(x, n, out) : lanes_plain_##TYPE(x, n, out);                           \
    }                                                                                                                 \
    static __attribute__((noinline)) span square_lanes_##TYPE(const void *x, size_t n, int k, vf64 *out, vf64 *rests) \
    {                                                                                                                 \
        return lanes_of_##TYPE(x, n, AS_SQUARE, k, out, rests);                                                       \
    }
LANES(f32)

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

INLINE span lanes_of_bf16(const void *x, size_t n, taking how, int k, vf64 *out, vf64 *rests)
{
    vf64 s[SUMS], r[SQUARE_SUMS];
    vi16 largest = {0}, smallest = (vi16){0} + INT16_MAX;
    start_lanes(s, r, how, k);
    for (size_t i = 0; i < n; i += STEP32) {
        for (int u = 0; u < SUMS; u += 4) {
            const char *p = (const char *)x + 2 * (i + (size_t)u * LANES64);
            vi16 m = *(const vi16_loose *)(const void *)p & INT16_MAX;
            if (u / 4 * VB % 64 == 0)
                prefetch(p, AHEAD);
            largest = max_i16(largest, m);
            smallest = min_i16(smallest, (m - 1) & INT16_MAX);
            for (int v = 0; v < 4; v++)
                add_lanes(s, r, u + v, load_bf16(p + v * (VB / 4)), how);
        }
    }
    give_lanes(out, rests, s, r, how);
    int hi = 0, lo = INT16_MAX;
    for (int j = 0; j < LANES16; j++) {
        hi = largest[j] > hi ? largest[j] : hi;
        lo = smallest[j] < lo ? smallest[j] : lo;
    }
    return span_of((uint32_t)hi, (uint32_t)lo, 7);
}
LANES(bf16)

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

enum { F16_LOWEST = 150 - 24, F16_HIGHEST = 126 + 16 }; /* as fields of f32 */

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

/* All elements lie between these fields of f32, unless infinities or NaNs are there. */
INLINE span lanes_of_f16(const void *x, size_t n, taking how, int k, vf64 *out, vf64 *rests)
{
    vf64 s[SUMS], r[SQUARE_SUMS];
    start_lanes(s, r, how, k);
    for (size_t i = 0; i < n; i += STEP32) {
        for (int u = 0; u < SUMS; u++) {
            const char *p = (const char *)x + 2 * (i + (size_t)u * LANES64);
            if (u * VB / 4 % 64 == 0)
                prefetch(p, AHEAD);
            add_lanes(s, r, u, load_f16(p), how);
        }
    }
    give_lanes(out, rests, s, r, how);
    vi64 odd = {0};
    int64_t any = 0;
    for (int u = 0; u < SUMS; u++)
        odd |= (vi64)(s[u] - s[u]); /* NaN, not 0, for what is not finite */
    for (int j = 0; j < LANES64; j++)
        any |= odd[j];
    return (span){F16_LOWEST, any ? 0xff : F16_HIGHEST, false};
}
LANES(f16)

static void add_block_f16(acc *a, pace *p, const void *x, size_t n)
{
    vf64 sums[SUMS];
    if (lanes_f16(a, x, n, sums).highest == F16_HIGHEST) {
        a->nz |= lanes_nonzero(sums);
        acc_add(a, sum_of_lanes(sums, SUMS, F16_LOWEST + RK_E0_32), F16_LOWEST + RK_E0_32);
        return;
    }
    float wide[BLOCK32];
    widen_f16(wide, x, n);
    add_odd_block32(a, p, wide, n);
}
#undef LANES

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
