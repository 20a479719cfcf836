/* Counts: of elements that are not zero, or of NaNs. Limbs: the number, 0. */
#ifndef RK_COUNTS_H
#define RK_COUNTS_H

#include "kernels/exact/layout.h"

RK_FN void rk_counts_merge(rk_state *s, const rk_state *o) { s->limb[0] += o->limb[0]; }

/* rk_counts_nan has counted NaNs before. */
RK_FN void rk_counts_add(rk_state *s, int zero) { s->limb[0] += (uint64_t)(s->layout == RP_STATE_COUNT && !zero); }

RK_FN void rk_counts_nan(rk_state *s, int nan_policy)
{
    s->limb[0]++;
    s->skipped |= nan_policy == RP_NAN_ERROR;
}

RK_FN rk_flaw rk_counts_check(const rk_state *s)
{
    int nans = s->layout == RP_STATE_NANS;
    if (s->limb[1] || s->limb[0] > s->count)
        return rk_bad("limbs", "more counted than there were elements");
    return nans && s->skipped && !s->limb[0] ? rk_bad("skipped", "no NaN was counted") : rk_fine();
}

#endif
