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

/* Did any lane of `vectors` see more than -0.0? */
static bool lanes_nonzero(const vf64 *sums, int vectors)
{
    vi64 differ = {0};
    int64_t any = 0;
    for (int u = 0; u < vectors; u++)
        differ |= (vi64)sums[u] ^ INT64_MIN;
    for (int j = 0; j < LANES64; j++)
        any |= differ[j];
    return any != 0;
}

/* What is summed: elements, their magnitudes, their squares, or elements and squares together. */
typedef enum { AS_IS, AS_MAGNITUDE, AS_SQUARE, AS_BOTH } taking;

/* The accumulators of a block. Squares have two for each sum: one that starts at an anchor, and one for the rests. */
typedef struct lanes {
    vf64 sum[SUMS], square[SQUARE_SUMS], rest[SQUARE_SUMS];
} lanes;

INLINE int sums_of(taking how) { return how == AS_SQUARE ? 0 : how == AS_BOTH ? SQUARE_SUMS : SUMS; }
INLINE int squares_of(taking how) { return how >= AS_SQUARE ? SQUARE_SUMS : 0; }

/* Squares: from the anchor 1.5 * 2^k. */
INLINE void start_lanes(lanes *l, taking how, int k)
{
    for (int u = 0; u < sums_of(how); u++)
        l->sum[u] = (vf64)((vi64){0} + INT64_MIN);
    for (int u = 0; u < squares_of(how); u++) {
        l->square[u] = (vf64){0} + anchor(k);
        l->rest[u] = (vf64){0};
    }
}

/* An f32's square is a double. What the anchor rounds off of it is known exactly. */
INLINE void add_square_to(vf64 *sum, vf64 *rest, vf64 v)
{
    vf64 square = v * v, with = *sum + square;
    *rest += square - (with - *sum);
    *sum = with;
}

INLINE void add_lanes(lanes *l, int u, vf64 v, taking how)
{
    if (squares_of(how))
        add_square_to(&l->square[u % SQUARE_SUMS], &l->rest[u % SQUARE_SUMS], v);
    if (sums_of(how))
        l->sum[u % sums_of(how)] += how == AS_MAGNITUDE ? (vf64)((vi64)v & INT64_MAX) : v;
}

/* The exponent fields between which a block's nonzero elements lie; highest 0xff: infinities or NaNs. */
typedef struct span {
    int lowest, highest;
    bool zero; /* no nonzero element */
} span;

/* From the largest magnitude and the smallest (magnitude - 1), unsigned, in which zeros are the largest. */
static span span_of(uint32_t largest, uint32_t smallest_less_1, int fraction_bits)
{
    return (span){(int)((smallest_less_1 + 1) >> fraction_bits), (int)(largest >> fraction_bits), largest == 0};
}

INLINE void give_lanes(lanes *out, const lanes *l, taking how)
{
    for (int u = 0; u < sums_of(how); u++)
        out->sum[u] = l->sum[u];
    for (int u = 0; u < squares_of(how); u++) {
        out->square[u] = l->square[u];
        out->rest[u] = l->rest[u];
    }
}

/* Take the lanes in if the additions were exact: elements are multiples of 2^(lowest - 150) below 2^(highest - 126), and
 * that holds for subnormals, of field 0, as well. The lanes hold them times 2^scale. */
static bool take_lanes(acc *a, pace *p, const lanes *l, span r, size_t n, int scale)
{
    const int unit = r.lowest + RK_E0_32;
    if (!r.zero && r.highest - r.lowest > 27 - log2_up(n / STEP32))
        return false;
    a->nz |= lanes_nonzero(l->sum, SUMS);
    if (!r.zero)
        acc_add(a, sum_of_lanes(l->sum, SUMS, unit + scale), unit);
    block_fitted(p);
    return true;
}

/* ---- f32 ---- */

static span span_f32(vi32 largest, vu32 smallest)
{
    int32_t hi = 0;
    uint32_t lo = UINT32_MAX;
    for (int j = 0; j < LANES32; j++) {
        hi = largest[j] > hi ? largest[j] : hi;
        lo = smallest[j] < lo ? smallest[j] : lo;
    }
    return span_of((uint32_t)hi, lo, 23);
}

/* Exact sums by lane, if the span says so, of n elements (a multiple of STEP32), or of what is made of them. Squares have
 * the anchor 1.5 * 2^k. */
INLINE span lanes_of_f32(const void *x, size_t n, taking how, int k, lanes *out)
{
    lanes l;
    vi32 largest = {0};
    vu32 smallest = (vu32){0} + UINT32_MAX;
    start_lanes(&l, how, k);
    for (size_t i = 0; i < n; i += STEP32) {
        for (int u = 0; u < SUMS; u += 2) {
            const char *p = (const char *)x + 4 * (i + (size_t)u * LANES64);
            vi32 m = *(const vi32_loose *)(const void *)p & INT32_MAX;
            if (u / 2 * VB % 64 == 0)
                prefetch(p, AHEAD);
            largest = max_i32(largest, m);
            smallest = min_u32(smallest, (vu32)m - 1);
            add_lanes(&l, u, load_f32(p), how);
            add_lanes(&l, u + 1, load_f32(p + VB / 2), how);
        }
    }
    give_lanes(out, &l, how);
    return span_f32(largest, smallest);
}

/* Copies of a loop: for elements and for their magnitudes, chosen by the accumulator; for squares; for both. */
#define LANES(TYPE)                                                                                       \
    static __attribute__((noinline)) span lanes_plain_##TYPE(const void *x, size_t n, lanes *out)         \
    {                                                                                                     \
        return lanes_of_##TYPE(x, n, AS_IS, 0, out);                                                      \
    }                                                                                                     \
    static __attribute__((noinline)) span lanes_abs_##TYPE(const void *x, size_t n, lanes *out)           \
    {                                                                                                     \
        return lanes_of_##TYPE(x, n, AS_MAGNITUDE, 0, out);                                               \
    }                                                                                                     \
    static span lanes_##TYPE(const acc *a, const void *x, size_t n, lanes *out)                           \
    {                                                                                                     \
        return a->magnitudes ? lanes_abs_##TYPE(x, n, out) : lanes_plain_##TYPE(x, n, out);               \
    }                                                                                                     \
    static __attribute__((noinline)) span square_lanes_##TYPE(const void *x, size_t n, int k, lanes *out) \
    {                                                                                                     \
        return lanes_of_##TYPE(x, n, AS_SQUARE, k, out);                                                  \
    }                                                                                                     \
    static __attribute__((noinline)) span both_lanes_##TYPE(const void *x, size_t n, int k, lanes *out)   \
    {                                                                                                     \
        return lanes_of_##TYPE(x, n, AS_BOTH, k, out);                                                    \
    }
LANES(f32)

ODD_BLOCKS(32, BLOCK32, ((uint32_t)0xff << 23))
#undef ODD_BLOCKS

/* n: a multiple of STEP32, at most BLOCK32 */
static void add_block32(acc *a, pace *p, const void *x, size_t n)
{
    lanes l;
    if (p->skip > 0) {
        add_wide_block32(a, p, x, n);
        return;
    }
    span r = lanes_f32(a, x, n, &l);
    if (r.highest == 0xff) {
        add_odd_block32(a, p, x, n);
    } else if (!take_lanes(a, p, &l, r, n, 0)) {
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

INLINE span lanes_of_bf16(const void *x, size_t n, taking how, int k, lanes *out)
{
    lanes l;
    vi16 largest = {0};
    vu16 smallest = (vu16){0} + UINT16_MAX;
    start_lanes(&l, how, k);
    for (size_t i = 0; i < n; i += STEP32) {
        for (int u = 0; u < SUMS; u += 4) {
            const char *p = (const char *)x + 2 * (i + (size_t)u * LANES64);
            vi16 m = *(const vi16_loose *)(const void *)p & INT16_MAX;
            if (u / 4 * VB % 64 == 0)
                prefetch(p, AHEAD);
            largest = max_i16(largest, m);
            smallest = min_u16(smallest, (vu16)m - 1);
            for (int v = 0; v < 4; v++) {
                const char *at = p + v * (VB / 4);
                add_lanes(&l, u + v, squares_of(how) ? load_bf16(at) : load_scaled_bf16(at), how);
            }
        }
    }
    give_lanes(out, &l, how);
    int hi = 0, lo = UINT16_MAX;
    for (int j = 0; j < LANES16; j++) {
        hi = largest[j] > hi ? largest[j] : hi;
        lo = smallest[j] < lo ? smallest[j] : lo;
    }
    return span_of((uint32_t)hi, (uint32_t)lo, 7);
}
LANES(bf16)

static void add_block_bf16(acc *a, pace *p, const void *x, size_t n)
{
    lanes l;
    span r = {0, 0xff, false};
    if (p->skip == 0)
        r = lanes_bf16(a, x, n, &l);
    if (r.highest == 0xff || !take_lanes(a, p, &l, r, n, BF16_SCALE)) {
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
#elif defined(__aarch64__)
    uint16x4_t bits = {((const u16_loose *)p)[0], ((const u16_loose *)p)[1]};
    return (vf64)vcvt_f64_f32(vget_low_f32(vcvt_f32_f16((float16x4_t)bits)));
#else
    vf64 v;
    for (int j = 0; j < LANES64; j++)
        v[j] = f64_of(rk_convert_float(RP_F16, ((const u16_loose *)p)[j], RP_F64));
    return v;
#endif
}

/* All elements lie between these fields of f32, unless infinities or NaNs are there. */
INLINE span lanes_of_f16(const void *x, size_t n, taking how, int k, lanes *out)
{
    lanes l;
    start_lanes(&l, how, k);
    for (size_t i = 0; i < n; i += STEP32) {
        for (int u = 0; u < SUMS; u++) {
            const char *p = (const char *)x + 2 * (i + (size_t)u * LANES64);
            if (u * VB / 4 % 64 == 0)
                prefetch(p, AHEAD);
            add_lanes(&l, u, load_f16(p), how);
        }
    }
    give_lanes(out, &l, how);
    vi64 odd = {0};
    int64_t any = 0;
    const vf64 *seen = sums_of(how) ? l.sum : l.square;
    for (int u = 0; u < (sums_of(how) ? sums_of(how) : SQUARE_SUMS); u++)
        odd |= (vi64)(seen[u] - seen[u]); /* NaN, not 0, for what is not finite */
    for (int j = 0; j < LANES64; j++)
        any |= odd[j];
    return (span){F16_LOWEST, any ? 0xff : F16_HIGHEST, false};
}
LANES(f16)

static void add_block_f16(acc *a, pace *p, const void *x, size_t n)
{
    lanes l;
    if (lanes_f16(a, x, n, &l).highest == F16_HIGHEST) {
        a->nz |= lanes_nonzero(l.sum, SUMS);
        acc_add(a, sum_of_lanes(l.sum, SUMS, F16_LOWEST + RK_E0_32), F16_LOWEST + RK_E0_32);
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
