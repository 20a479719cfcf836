/* Sums of elements whose exponents lie too far apart for two levels (sum_levels.h), with a bound on what is neglected. A result
 * is rounded once. Where both ends of that bound round alike, no exact sum is needed (Ziv, "Fast evaluation of elementary
 * mathematical functions with correctly rounded last bit", ACM TOMS 17 (1991)).
 *
 * One anchor takes the upper part of each element exactly, as a level does. The rests are added plainly, and may round. */
#ifndef RK_CPU_SUM_NEAR_H
#define RK_CPU_SUM_NEAR_H

#include <math.h>

#include "kernels/cpu/loops/sums/sum_levels.h"

enum {
    NEAR_VECTORS = LEVEL_VECTORS,
    HIGHEST_NEAR_ANCHOR = 1022 /* S is below 2^(k + 1) */
};

/* The lanes of a block. */
typedef struct near_lanes {
    vf64 sum[NEAR_VECTORS], rest[NEAR_VECTORS];
    vf64 differ; /* bits in which an S differed from the anchor */
} near_lanes;

/* With T = S + x rounded, and both in the binade of the anchor 1.5 * 2^k: T - S is a multiple of 2^(k - 52) below 2^k, so it is
 * exact. x - (T - S) is the error of T, which is always a double, and 2^(k - 53) at most. n: a multiple of STEP64. */
#define NEAR_LOOP(TYPE, BYTES)                                                                                      \
    INLINE void near_of_##TYPE(const void *x, size_t n, bool far, bool magnitudes, double start, near_lanes *out)   \
    {                                                                                                               \
        const vf64 from = (vf64){0} + start;                                                                        \
        vf64 sum[NEAR_VECTORS], rest[NEAR_VECTORS];                                                                 \
        vi64 differ = {0};                                                                                          \
        for (int u = 0; u < NEAR_VECTORS; u++) {                                                                    \
            sum[u] = from;                                                                                          \
            rest[u] = (vf64){0};                                                                                    \
        }                                                                                                           \
        for (size_t i = 0; i < n; i += (size_t)NEAR_VECTORS * LANES64)                                              \
            for (int u = 0; u < NEAR_VECTORS; u++) {                                                                \
                const char *p = (const char *)x + BYTES * (i + (size_t)u * LANES64);                                \
                vf64 v = load_##TYPE(p);                                                                            \
                if (u * LANES64 * BYTES % 64 == 0)                                                                  \
                    prefetch_from(p, AHEAD, far);                                                                   \
                if (magnitudes)                                                                                     \
                    v = (vf64)((vi64)v & INT64_MAX);                                                                \
                vf64 with = sum[u] + v;                                                                             \
                rest[u] += v - (with - sum[u]);                                                                     \
                differ |= (vi64)with ^ (vi64)from;                                                                  \
                sum[u] = with;                                                                                      \
            }                                                                                                       \
        put_lanes(out->sum, sum, NEAR_VECTORS);                                                                     \
        put_lanes(out->rest, rest, NEAR_VECTORS);                                                                   \
        vf64 bits = (vf64)differ;                                                                                   \
        put_lanes(&out->differ, &bits, 1);                                                                          \
    }                                                                                                               \
    static __attribute__((noinline)) void near_##TYPE(const void *x, size_t n, bool far, bool magnitudes, double k, \
                                                      near_lanes *out)                                              \
    {                                                                                                               \
        if (magnitudes)                                                                                             \
            near_of_##TYPE(x, n, far, true, k, out);                                                                \
        else                                                                                                        \
            near_of_##TYPE(x, n, far, false, k, out);                                                               \
    }

NEAR_LOOP(f64, 8)
NEAR_LOOP(f32, 4)
NEAR_LOOP(bf16, 2)
#undef NEAR_LOOP

typedef void near_fn(const void *x, size_t n, bool far, bool magnitudes, double start, near_lanes *out);

/* Did every S stay in the binade of the anchor? Not with infinities and NaNs. */
static bool stayed_near(const near_lanes *l)
{
    uint64_t any = 0;
    for (int j = 0; j < LANES64; j++)
        any |= ((vu64)l->differ)[j];
    return any >> 52 == 0;
}

/* What the sums of n rests of up to 2^(k - 53) may neglect. A lane takes m of them: each of its sums is below m 2^(k - 53) and
 * rounds by 2^-53 of that. The lanes are then added pairwise, in 5 steps at most, whose sums are below n 2^(k - 53) together.
 * 3 more cover what this sum and those bounds round. */
static double neglected(size_t n, int k)
{
    const size_t m = n / (size_t)(LANES64 * NEAR_VECTORS);
    return ldexp((double)(n * (m + 8)), k - 106);
}

/* Adds the lanes of n elements. What is left of each is below 2^(k - 53 + bits). False, and nothing is added: the anchor was
 * too low. */
static bool take_near(acc *a, const near_lanes *lanes, size_t n, int k, int bits)
{
    int64_t sum;
    double rest;
    if (!stayed_near(lanes) || !level_sum(lanes->sum, k, &sum))
        return false;
    total_lanes(lanes->rest, NEAR_VECTORS, &rest);
    acc_add(a, sum, k - 52);
    if (rest != 0)
        add_part_f64(a, bits_of_f64(rest));
    count_adds(a, 1);
    a->neglected += neglected(n, k + bits);
    return true;
}

/* Elements that should be below 2^(field - 1022); bits: as above. False, and nothing is added: they are not. */
static bool try_near(acc *a, const void *x, size_t n, int field, near_fn *read, int bits)
{
    near_lanes lanes;
    int k[FEWEST_LEVELS];
    anchors(field, n, FEWEST_LEVELS, k);
    if (k[0] > HIGHEST_NEAR_ANCHOR)
        return false;
    read(x, n, a->far, a->magnitudes, anchor(k[0]), &lanes);
    return take_near(a, &lanes, n, k[0], bits);
}

static bool try_new_near(acc *a, pace *p, const void *x, size_t n, near_fn *read, reach_fn *look, int bits)
{
    const reach r = look(x, n);
    if (r.special || !r.nonzero)
        return false;
    a->nz = 1;
    p->near_field = r.most + 1;
    return try_near(a, x, n, p->near_field, read, bits);
}

/* Adds n elements, and to a->neglected a bound on what this neglects. `bits`: as for take_near. False: they must be added in
 * another way. */
static bool add_near(acc *a, pace *p, const void *x, size_t n, near_fn *read, reach_fn *look, int bits)
{
    if (!a->near || try_skipped(&p->near))
        return false;
    if ((p->near_field && try_near(a, x, n, p->near_field, read, bits)) || try_new_near(a, p, x, n, read, look, bits)) {
        try_fitted(&p->near);
        return true;
    }
    try_failed(&p->near);
    return false;
}

#endif
