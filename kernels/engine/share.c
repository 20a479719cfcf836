#include "kernels/engine/share.h"

enum { GPU_TRIED_AFTER = 64 };

/* An unknown rate is assumed to be the best known one until some pieces have measured it. 1: no rate is known. */
static double best_rate(rk_inflight *const *candidate, unsigned n)
{
    double best = 0;
    for (unsigned i = 0; i < n; i++) {
        const double rate = candidate[i] ? rk_inflight_rate(candidate[i]) : 0;
        best = rate > best ? rate : best;
    }
    return best > 0 ? best : 1;
}

/* When `bytes` more would be done, after those under way. */
static double finish(const rk_inflight *f, uint64_t bytes, double otherwise)
{
    const double rate = rk_inflight_rate(f);
    return (double)(rk_inflight_load(f) + bytes) / (rate > 0 ? rate : otherwise);
}

bool rk_is_due(unsigned *passed, unsigned after, unsigned trial)
{
    const unsigned n = __atomic_add_fetch(passed, 1, __ATOMIC_RELAXED);
    if (n >= after + trial)
        __atomic_store_n(passed, 0, __ATOMIC_RELAXED);
    return n > after;
}

unsigned rk_share(rk_inflight *const *candidate, unsigned n, uint64_t bytes)
{
    const double otherwise = best_rate(candidate, n);
    unsigned best = n - 1;
    for (unsigned i = n; i-- > 0;)
        if (candidate[i] && finish(candidate[i], bytes, otherwise) <= finish(candidate[best], bytes, otherwise))
            best = i;
    __atomic_store_n(&candidate[best]->passed, 0, __ATOMIC_RELAXED);
    if (best != n - 1 && rk_is_due(&candidate[n - 1]->passed, RK_TRIED_AFTER, 1))
        return n - 1;
    for (unsigned i = 0; best == n - 1 && i < n - 1; i++)
        if (candidate[i] && rk_is_due(&candidate[i]->passed, GPU_TRIED_AFTER, RK_GPU_TRIAL))
            return i;
    return best;
}
