/* Exact sums of f64, in two ways.
 *
 * The quick one cuts each significand into an upper and a lower half, by a mask and a subtraction, and adds both in plain
 * lanes. Upper halves are multiples of 2^-25 of the smallest element's power of two. With 2^c elements for each lane their sum
 * needs no more than 53 bits if the exponents lie within 26 - c of one another, and neither does that of the lower ones. The
 * result does not depend on that bound: whether every addition was exact is seen afterwards (inexact.h).
 *
 * The other one is block-anchored accumulation.
 * Adding x to S = anchor + (sum so far), with a large power of two as the anchor, rounds x to a multiple of the
 * anchor's last place and leaves an exactly known rest (Dekker's Fast2Sum; AccSum of Rump, Ogita and Oishi splits so).
 * The rest goes to a second, smaller anchor. If nothing is left then, the block is exact, and since every S stayed in
 * one binade, bits(S) - bits(anchor) is the sum as an integer.
 *
 * The anchors follow from the largest exponent, which is known only after reading the block. So a block is first tried
 * with the exponent expected from the block before, while its true one is found in the same pass over memory. */
#ifndef RK_CPU_SUM_F64_H
#define RK_CPU_SUM_F64_H

#include "kernels/cpu/lanes.h"

enum {
    UNROLL = 4,
    STEP64 = LANES64 * UNROLL,
    BLOCK64 = 2048, /* 16 KiB stays in L1 for a second try */
    AHEAD = 8192,   /* bytes to prefetch ahead: measured best from memory, no loss in caches */
    MAX_LEVELS = 3,
    HIGHEST_ANCHOR = 1000 /* above this S could overflow */
};

/* 2^c >= n */
static inline int log2_up(size_t n) { return n > 1 ? 64 - __builtin_clzll(n - 1) : 0; }

/* ---- the quick way ---- */

enum { HALF_SUMS = SUMS / 2, LOWER_BITS = 27 };

/* The sums of the upper halves, then those of the lower ones, of n elements (a multiple of STEP64) or their magnitudes. An
 * infinity or a NaN leaves a NaN among the lower ones. */
INLINE void halves_of(const void *x, size_t n, bool magnitudes, vf64 *out)
{
    vf64 upper[HALF_SUMS], lower[HALF_SUMS];
    for (int u = 0; u < HALF_SUMS; u++) {
        upper[u] = no_sum();
        lower[u] = (vf64){0};
    }
    for (size_t i = 0; i < n; i += STEP64)
        for (int u = 0; u < UNROLL; u++) {
            const void *p = (const char *)x + 8 * (i + (size_t)u * LANES64);
            vi64 v = *(const vi64_loose *)p & (magnitudes ? INT64_MAX : -1);
            vf64 high = (vf64)(v & (int64_t)(UINT64_MAX << LOWER_BITS));
            if (u * VB % 64 == 0)
                prefetch(p, AHEAD);
            upper[u] += high;
            lower[u] += (vf64)v - high;
        }
    put_lanes(out, upper, HALF_SUMS);
    put_lanes(out + HALF_SUMS, lower, HALF_SUMS);
}

static __attribute__((noinline)) void halves_plain(const void *x, size_t n, vf64 *out) { halves_of(x, n, false, out); }
static __attribute__((noinline)) void halves_abs(const void *x, size_t n, vf64 *out) { halves_of(x, n, true, out); }

/* False, and nothing added: an addition rounded, or infinities or NaNs are there. */
static bool add_halves64(acc *a, const void *x, size_t n)
{
    vf64 sum[SUMS];
    double total[2];
    inexact_clear(sum);
    if (a->magnitudes)
        halves_abs(x, n, sum);
    else
        halves_plain(x, n, sum);
    if (inexact_seen(sum))
        return false;
    total_lanes(sum, HALF_SUMS, &total[0]);
    total_lanes(sum + HALF_SUMS, HALF_SUMS, &total[1]);
    bool rounded = inexact_seen(total);
    if (!finite(total[0]) || !finite(total[1]))
        return false;
    add_lanes(a, sum, HALF_SUMS, total[0], rounded);
    if (rounded || total[1] != 0) /* the lower half of -0.0 is +0.0 */
        add_lanes(a, sum + HALF_SUMS, HALF_SUMS, total[1], rounded);
    return true;
}

/* ---- anchors ---- */

/* 1.5 * 2^k: stays in its binade while less than 2^(k-1) is added or taken away */
static inline double anchor(int k) { return f64_of((uint64_t)(k + 1023) << 52 | (uint64_t)1 << 51); }

/* One pass of `levels` anchors 1.5 * 2^k[l] over n elements (a multiple of STEP64), or their magnitudes. True if exact:
 * sum[l] is then in units of 2^(k[l] - 52). *top is the largest magnitude, unless NaNs are there; the result is false then. */
INLINE bool split_pass(const void *x, size_t n, int levels, bool magnitudes, const int *k, int64_t *sum, double *top)
{
    vf64 s[MAX_LEVELS][UNROLL], start[MAX_LEVELS], largest[2] = {{0}, {0}};
    vi64 left[UNROLL] = {{0}};
    const vi64 magnitude = (vi64){0} + INT64_MAX;
    for (int l = 0; l < levels; l++) {
        start[l] = (vf64){0} + anchor(k[l]);
        for (int u = 0; u < UNROLL; u++)
            s[l][u] = start[l];
    }
    for (size_t i = 0; i < n; i += STEP64) {
        for (int u = 0; u < UNROLL; u++) {
            const void *p = (const char *)x + 8 * (i + (size_t)u * LANES64);
            vf64 rest = *(const vf64_loose *)p;
            if (u * VB % 64 == 0)
                prefetch(p, AHEAD);
            vf64 m = (vf64)((vi64)rest & magnitude);
            largest[u % 2] = max_f64(m, largest[u % 2]);
            rest = magnitudes ? m : rest;
            for (int l = 0; l < levels; l++) {
                vf64 t = s[l][u] + rest;
                rest -= t - s[l][u];
                s[l][u] = t;
            }
            left[u] |= (vi64)rest;
        }
    }
    vf64 most = max_f64(largest[0], largest[1]);
    vi64 any = (left[0] | left[1] | left[2] | left[3]) & magnitude;
    int64_t inexact = 0;
    *top = 0;
    for (int j = 0; j < LANES64; j++) {
        inexact |= any[j];
        *top = most[j] > *top ? most[j] : *top;
    }
    if (inexact)
        return false;
    for (int l = 0; l < levels; l++) { /* unsigned, for k may be a guess that *top proves wrong: then these overflow */
        vu64 v = {0};
        for (int u = 0; u < UNROLL; u++)
            v += (vu64)s[l][u] - (vu64)start[l];
        sum[l] = (int64_t)sum_lanes(v);
    }
    return true;
}

#define SPLIT(NAME, LEVELS, MAGNITUDES)                                                                          \
    static __attribute__((noinline)) bool NAME(const void *x, size_t n, const int *k, int64_t *sum, double *top) \
    {                                                                                                            \
        return split_pass(x, n, LEVELS, MAGNITUDES, k, sum, top);                                                \
    }
SPLIT(split2, 2, false)
SPLIT(split3, 3, false)
SPLIT(split2_magnitudes, 2, true)
SPLIT(split3_magnitudes, 3, true)
#undef SPLIT

static bool split(const acc *a, const void *x, size_t n, int levels, const int *k, int64_t *sum, double *top)
{
    if (a->magnitudes)
        return levels == 2 ? split2_magnitudes(x, n, k, sum, top) : split3_magnitudes(x, n, k, sum, top);
    return levels == 2 ? split2(x, n, k, sum, top) : split3(x, n, k, sum, top);
}

/* Anchors for n elements with exponent fields up to `field`: per lane they sum to at most 2^(k[0]-1), and the rests of
 * one level to at most 2^(k-1) of the next. */
static void anchors(int field, size_t n, int *k)
{
    int c = log2_up(n / STEP64);
    k[0] = field - 1022 + c + 1;
    for (int l = 0; l < MAX_LEVELS; l++) {
        if (l > 0)
            k[l] = k[l - 1] - 53 + c + 1;
        if (k[l] < -1022) /* its last place is that of the smallest subnormal: takes everything */
            k[l] = -1022;
    }
}

static void add_levels(acc *a, const int *k, const int64_t *sum, int levels)
{
    for (int l = 0; l < levels; l++)
        acc_add(a, sum[l], k[l] - 52);
}

/* By integers, so that infinities and NaNs count. */
static int largest_field(const void *x, size_t n)
{
    const u64_loose *p = x;
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t m = p[i] & INT64_MAX;
        most = m > most ? m : most;
    }
    return (int)(most >> 52);
}

static bool all_negative_zero(const void *x, size_t n)
{
    const u64_loose *p = x;
    uint64_t differ = 0;
    for (size_t i = 0; i < n; i++)
        differ |= p[i] ^ (uint64_t)1 << 63;
    return differ == 0;
}

ODD_BLOCKS(64, BLOCK64, ((uint64_t)0x7ff << 52))

/* The block again, knowing its exponent. */
static __attribute__((noinline)) void retry_block64(acc *a, pace *p, const void *x, size_t n)
{
    int field = largest_field(x, n), k[MAX_LEVELS];
    int64_t sum[MAX_LEVELS];
    double top;
    if (field == 0x7ff) {
        add_odd_block64(a, p, x, n);
        return;
    }
    a->nz = a->nz || field != 0 || !all_negative_zero(x, n);
    p->guess = field + 1;
    anchors(field ? field : 1, n, k);
    for (int levels = 2; levels <= MAX_LEVELS && k[0] <= HIGHEST_ANCHOR; levels++)
        if (split(a, x, n, levels, k, sum, &top)) {
            add_levels(a, k, sum, levels);
            try_fitted(&p->last);
            return;
        }
    try_failed(&p->last);
    fill_buckets64(a, x, n);
}

static void add_anchored64(acc *a, pace *p, const void *x, size_t n)
{
    int k[MAX_LEVELS];
    int64_t sum[MAX_LEVELS];
    double top;
    if (try_skipped(&p->last)) {
        add_wide_block64(a, p, x, n);
        return;
    }
    if (p->guess == 0) {
        retry_block64(a, p, x, n);
        return;
    }
    anchors(p->guess, n, k);
    if (k[0] > HIGHEST_ANCHOR || !split(a, x, n, 2, k, sum, &top) || (int)(bits_of(top) >> 52) > p->guess) {
        retry_block64(a, p, x, n);
        return;
    }
    add_levels(a, k, sum, 2);
    try_fitted(&p->last);
    a->nz = a->nz || top != 0 || !all_negative_zero(x, n);
}

/* n: a multiple of STEP64, at most BLOCK64 */
static void add_block64(acc *a, pace *p, const void *x, size_t n)
{
    if (!try_skipped(&p->quick)) {
        if (add_halves64(a, x, n)) {
            try_fitted(&p->quick);
            return;
        }
        try_failed(&p->quick);
    }
    add_anchored64(a, p, x, n);
}

static void add_rest64(acc *a, const void *data, size_t n)
{
    const u64_loose *x = data;
    count_adds(a, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        add_f64(a, x[i]);
}

#endif
