#include "kernels/engine/share.h"

/* A rate measured at a bad moment would keep work away from the CPU for ever, and would never be measured again. So after
 * TRIED_AFTER pieces for others the CPU gets one: with pieces of 4 MiB, one in each GiB. */
enum { TRIED_AFTER = 256 };

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

/* Count whether the CPU, the last one, was passed over. Is it time to try it? */
static bool is_due(rk_inflight *f, bool passed)
{
    const unsigned n = passed ? __atomic_add_fetch(&f->passed, 1, __ATOMIC_RELAXED) : 0;
    if (passed && n <= TRIED_AFTER)
        return false;
    __atomic_store_n(&f->passed, 0, __ATOMIC_RELAXED);
    return true;
}

unsigned rk_share(rk_inflight *const *candidate, unsigned n, uint64_t bytes)
{
    const double otherwise = best_rate(candidate, n);
    unsigned best = n - 1;
    for (unsigned i = n; i-- > 0;)
        if (candidate[i] && finish(candidate[i], bytes, otherwise) <= finish(candidate[best], bytes, otherwise))
            best = i;
    return is_due(candidate[n - 1], best != n - 1) ? n - 1 : best;
}
