/* Sums of several short lines at once, one in each lane. A lane keeps its sum as two doubles, s + t, by error-free additions
 * (Knuth's TwoSum). If the error does not fit t, or at an infinity or NaN, the lane is marked as lost. Otherwise s + t is the
 * exact sum, which the hardware's addition rounds correctly. */
#ifndef RK_CPU_CHAINS_H
#define RK_CPU_CHAINS_H

#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/vec.h"

enum { CHAIN_VECTORS = RK_CHAINS / LANES64 };

typedef struct chain {
    vf64 s, t;
    vi64 lost;
} chain;

INLINE void chain_add(chain *c, vf64 x)
{
    vf64 s = c->s + x, b = s - c->s, e = (c->s - (s - b)) + (x - b);
    vf64 t = c->t + e, d = t - c->t, f = (c->t - (t - d)) + (e - d);
    c->s = s;
    c->t = t;
    c->lost |= f != 0; /* NaN, too */
}

typedef float __attribute__((aligned(1), may_alias)) float_any;
typedef double __attribute__((aligned(1), may_alias)) double_any;

/* Element i of line j is at x[j] + i * stride; beyond a line's end it is -0.0, which changes no sum. */
#define CHAINS(NAME, T)                                                                                     \
    static unsigned chains_##NAME(const uint8_t *const *x, const uint64_t *n, uint64_t stride, double *sum) \
    {                                                                                                       \
        chain c[CHAIN_VECTORS];                                                                             \
        uint64_t most = 0, fewest = UINT64_MAX;                                                             \
        for (int j = 0; j < RK_CHAINS; j++) {                                                               \
            most = n[j] > most ? n[j] : most;                                                               \
            fewest = n[j] < fewest ? n[j] : fewest;                                                         \
        }                                                                                                   \
        for (int v = 0; v < CHAIN_VECTORS; v++)                                                             \
            c[v] = (chain){-(vf64){0}, {0}, {0}};                                                           \
        for (uint64_t i = 0; i < most; i++) {                                                               \
            prefetch(x[0] + i * stride, 16 * stride); /* of columns: the same cache line for all */         \
            for (int v = 0; v < CHAIN_VECTORS; v++) {                                                       \
                vf64 e;                                                                                     \
                for (int k = 0; k < LANES64; k++) {                                                         \
                    int j = v * LANES64 + k;                                                                \
                    e[k] = i < fewest || i < n[j] ? *(const T *)(const void *)(x[j] + i * stride) : -0.0;   \
                }                                                                                           \
                chain_add(&c[v], e);                                                                        \
            }                                                                                               \
        }                                                                                                   \
        return chain_sums(c, n, sum);                                                                       \
    }

/* Writes the sums; returns a bit for each one that is exact. */
static unsigned chain_sums(const chain *c, const uint64_t *n, double *sum)
{
    unsigned right = 0;
    for (int j = 0; j < RK_CHAINS; j++) {
        const chain *v = &c[j / LANES64];
        double s = v->s[j % LANES64], t = v->t[j % LANES64];
        sum[j] = n[j] == 0 ? 0.0 : t == 0 ? s : s + t; /* s alone keeps the sign of a zero */
        right |= (unsigned)!v->lost[j % LANES64] << j;
    }
    return right;
}

CHAINS(f32, float_any)
CHAINS(f64, double_any)
#undef CHAINS

#endif
