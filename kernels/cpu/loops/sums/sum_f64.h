/* Sums of f64, in several ways.
 *
 * The quick one cuts each significand into an upper and a lower half, by a mask and a subtraction, and adds both in plain
 * lanes. Upper halves are multiples of 2^-25 of the smallest element's power of two. With 2^c elements for each lane their sum
 * needs no more than 53 bits if the exponents lie within 26 - c of one another, and neither does that of the lower ones.
 * Correctness does not depend on that bound: the flag shows afterwards whether every addition was exact (inexact.h).
 *
 * The others are those of sum_levels.h and sum_near.h. */
#ifndef RK_CPU_SUM_F64_H
#define RK_CPU_SUM_F64_H

#include "kernels/cpu/loops/sums/sum_near.h"

/* ---- the quick way ---- */

enum { HALF_SUMS = SUMS / 2, LOWER_BITS = 27 };

/* The sums of the upper halves, then those of the lower ones, of n elements (a multiple of STEP64) or their magnitudes. An
 * infinity or a NaN leaves a NaN among the lower ones. */
INLINE void halves_of(const void *x, size_t n, bool far, bool magnitudes, vf64 *out)
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
                prefetch_from(p, AHEAD, far);
            upper[u] += high;
            lower[u] += (vf64)v - high;
        }
    put_lanes(out, upper, HALF_SUMS);
    put_lanes(out + HALF_SUMS, lower, HALF_SUMS);
}

static __attribute__((noinline)) void halves_plain(const void *x, size_t n, bool far, vf64 *out)
{
    halves_of(x, n, far, false, out);
}
static __attribute__((noinline)) void halves_abs(const void *x, size_t n, bool far, vf64 *out)
{
    halves_of(x, n, far, true, out);
}

/* False, and nothing is added: an addition rounded, or there are infinities or NaNs. */
static bool add_halves64(acc *a, const void *x, size_t n)
{
    vf64 sum[SUMS];
    double total[2];
    inexact_clear(sum);
    if (a->magnitudes)
        halves_abs(x, n, a->far, sum);
    else
        halves_plain(x, n, a->far, sum);
    if (inexact_seen(sum))
        return false;
    total_lanes(sum, HALF_SUMS, &total[0]);
    total_lanes(sum + HALF_SUMS, HALF_SUMS, &total[1]);
    bool rounded = inexact_seen(total);
    if (!is_finite(total[0]) || !is_finite(total[1]))
        return false;
    add_lanes(a, sum, HALF_SUMS, total[0], rounded);
    if (rounded || total[1] != 0) /* the lower half of -0.0 is +0.0 */
        add_lanes(a, sum + HALF_SUMS, HALF_SUMS, total[1], rounded);
    return true;
}

/* ---- elements that span more ---- */

ODD_BLOCKS(64, BLOCK64, ((uint64_t)0x7ff << 52))

static void add_widest_block64(acc *a, pace *p, const void *x, size_t n)
{
    if (!add_near(a, p, x, n, near_f64, reach_f64, 0))
        fill_buckets64(a, x, n);
}

static void add_wide_block64(acc *a, pace *p, const void *x, size_t n)
{
    if (try_skipped(&p->wide)) {
        add_widest_block64(a, p, x, n);
        return;
    }
    switch (add_by_levels(a, p, x, n, 52, levels_f64, reach_f64)) {
    case LEVELS_ADDED:
        try_fitted(&p->wide);
        break;
    case LEVELS_SPECIAL:
        add_odd_block64(a, p, x, n);
        break;
    case LEVELS_TOO_WIDE:
        try_failed(&p->wide);
        add_widest_block64(a, p, x, n);
    }
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
    add_wide_block64(a, p, x, n);
}

static void add_rest64(acc *a, const void *data, size_t n)
{
    const u64_loose *x = data;
    count_adds(a, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        add_f64(a, x[i]);
}

#endif
