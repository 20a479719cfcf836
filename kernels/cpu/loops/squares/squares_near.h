/* Near sums (sum_near.h) of squares of f64, as p + q (squares.h). An anchor takes the upper part of p. What is left of it is
 * added plainly, together with q, which is half as large at most. */
#ifndef RK_CPU_SQUARES_NEAR_H
#define RK_CPU_SQUARES_NEAR_H

#include "kernels/cpu/loops/rounding_errors.h"
#include "kernels/cpu/loops/sums/sum_f64.h"

enum {
    LEAST_SQUARED = 600, /* exponent field from which on an underflow of q does not matter beside what is neglected */
    NEAR_SPREAD = 1 << 9 /* a block's elements that are as near to each other tell no spread */
};

/* A sum of squares does not fall, so if it is in the anchor's binade at the end, it always was. */
static __attribute__((noinline)) void near_squares_fused(const void *x, size_t n, bool far, bool magnitudes, double start,
                                                         near_lanes *out)
{
    vf64 sum[NEAR_VECTORS], rest[NEAR_VECTORS];
    (void)far, (void)magnitudes;
    for (int u = 0; u < NEAR_VECTORS; u++) {
        sum[u] = (vf64){0} + start;
        rest[u] = (vf64){0};
    }
    for (size_t i = 0; i < n; i += (size_t)NEAR_VECTORS * LANES64)
        for (int u = 0; u < NEAR_VECTORS; u++) {
            const char *p = (const char *)x + 8 * (i + (size_t)u * LANES64);
            const vf64 v = load_f64(p), square = v * v, with = sum[u] + square;
            if (u * VB % 64 == 0)
                prefetch(p, AHEAD);
            rest[u] += square - (with - sum[u]) + square_error(v, square);
            sum[u] = with;
        }
    put_lanes(out->sum, sum, NEAR_VECTORS);
    put_lanes(out->rest, rest, NEAR_VECTORS);
    out->differ = (vf64){0};
}

/* Are all elements within a small part of the first one? */
static bool are_alike(const u64_loose *x, size_t n)
{
    const double first = f64_of(x[0]), most = __builtin_fabs(first) / NEAR_SPREAD;
    bool far = false;
    for (size_t i = 1; i < n; i++)
        far |= __builtin_fabs(f64_of(x[i]) - first) > most;
    return !far;
}

/* As reach_f64, of the squares. Special: near sums of them are of no use. */
static reach reach_of_squares(const void *data, size_t n)
{
    if (are_alike(data, n))
        return (reach){.special = true};
    reach r = reach_f64(data, n);
    r.special |= r.most < LEAST_SQUARED;
    r.most = 2 * (r.most + 1) - 1022 - 1; /* below 2^(2 (most + 1 - 1022)), with the 1 that is added */
    return r;
}

#endif
