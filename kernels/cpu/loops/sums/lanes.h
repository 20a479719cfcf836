/* The sums of a block by lane, made by plain additions of doubles, and how they are added to an exact sum. */
#ifndef RK_CPU_LANES_H
#define RK_CPU_LANES_H

#include "kernels/cpu/loops/inexact.h"
#include "kernels/cpu/loops/sums/buckets.h"

enum { SUMS = 8 }; /* vectors of lanes: enough to hide the latency of additions */

/* Lanes start at -0.0, the identity. A lane, or a total, that ends as -0.0 saw nothing else. */
INLINE vf64 no_sum(void) { return (vf64)((vi64){0} + INT64_MIN); }

/* Stores whole vectors. The compiler would store halves, and a later load of the whole vector would wait for both stores. */
INLINE void put_lanes(vf64 *out, const vf64 *sums, int vectors)
{
    for (int u = 0; u < vectors; u++)
        *(volatile vf64 *)&out[u] = sums[u];
}

/* The total of `vectors` vectors of lanes, a power of two from 2 to 2 * SUMS. It was rounded if the flag is raised. */
static __attribute__((noinline)) void total_lanes(const vf64 *sums, int vectors, double *total)
{
    vf64 v[SUMS];
    for (int u = 0; u < vectors / 2; u++)
        v[u] = sums[u] + sums[u + vectors / 2];
    for (int half = vectors / 4; half; half /= 2)
        for (int u = 0; u < half; u++)
            v[u] += v[u + half];
    double t[LANES64];
    for (int j = 0; j < LANES64; j++)
        t[j] = v[0][j];
    for (int half = LANES64 / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            t[j] += t[j + half];
    *total = t[0];
}

static void add_one_by_one(acc *a, const vf64 *sums, int vectors)
{
    for (int u = 0; u < vectors; u++)
        for (int j = 0; j < LANES64; j++)
            add_part_f64(a, bits_of_f64(sums[u][j]));
    count_adds(a, (uint32_t)(vectors * LANES64));
}

/* Add the exact and finite sums of `vectors` vectors of lanes; `total` is from total_lanes. */
static void add_lanes(acc *a, const vf64 *sums, int vectors, double total, bool total_rounded)
{
    if (total_rounded) {
        add_one_by_one(a, sums, vectors);
        return;
    }
    add_part_f64(a, bits_of_f64(total));
    count_adds(a, 1);
}

static inline bool is_finite(double x) { return x - x == 0; }

#endif
