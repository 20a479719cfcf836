/* States of bools: all but those with places follow from how many elements there are, and how many of them are true. So both
 * engines count bytes that are not zero, in the loops that count_nonzero has. Pure, thread-safe. */
#ifndef RK_TRUTHS_H
#define RK_TRUTHS_H

#include "kernels/exact/state.h"

/* Does a state of this layout have an element's place? */
RK_FN int rk_has_places(int layout) { return layout == RP_STATE_ARGMIN || layout == RP_STATE_ARGMAX || rk_is_stats(layout); }

/* What an element is that decides a state's limbs, whatever follows: RK_DECIDES_*. */
enum { RK_DECIDES_NONE, RK_DECIDES_TRUE, RK_DECIDES_FALSE };
RK_FN int rk_truth_decides(int layout)
{
    switch (layout) {
    case RP_STATE_MAX:
    case RP_STATE_ARGMAX:
    case RP_STATE_NORMINF:
    case RP_STATE_OR:
        return RK_DECIDES_TRUE;
    case RP_STATE_MIN:
    case RP_STATE_ARGMIN:
    case RP_STATE_AND:
    case RP_STATE_PRODINT:
        return RK_DECIDES_FALSE;
    }
    return RK_DECIDES_NONE;
}

/* Is a state's value decided, whatever elements follow? Of bools, by one of them; `counted`: of any type, that of any, all. */
RK_FN int rk_is_settled(const rk_state *s, int op, int counted)
{
    if (counted && (op == RP_OP_ANY || op == RP_OP_ALL))
        return op == RP_OP_ANY ? s->limb[0] != 0 : s->limb[0] < s->count;
    if (s->dtype != RP_BOOL || !s->count)
        return 0;
    switch (rk_truth_decides(s->layout)) {
    case RK_DECIDES_TRUE:
        return s->limb[0] == 1;
    case RK_DECIDES_FALSE:
        return s->layout == RP_STATE_PRODINT ? s->special != 0 : s->limb[0] == 0;
    }
    return 0;
}

/* The state, fresh from rk_state_init and without places, of `count` bools, `trues` of them true. If the layout is decided by
 * one element, `trues` need only say whether there was such a one. */
RK_FN void rk_state_of_truths(rk_state *s, uint64_t count, uint64_t trues)
{
    const uint64_t every = trues == count, some = trues != 0;
    uint64_t *limb = s->limb;
    s->count = count;
    switch ((rp_layout)s->layout) {
    case RP_STATE_INT:
    case RP_STATE_ABSINT:
    case RP_STATE_SQINT:
    case RP_STATE_COUNT:
        limb[0] = trues;
        break;
    case RP_STATE_MOMINT:
        limb[0] = limb[rk_sum_limbs(RP_STATE_MOMINT)] = trues;
        break;
    case RP_STATE_MAX:
    case RP_STATE_NORMINF:
    case RP_STATE_OR:
        limb[0] = some;
        break;
    case RP_STATE_MIN:
        limb[0] = every && some;
        break;
    case RP_STATE_AND:
        limb[0] = every;
        break;
    case RP_STATE_MINMAX:
        limb[0] = every && some;
        limb[1] = some;
        break;
    case RP_STATE_XOR:
        limb[0] = trues & 1;
        break;
    case RP_STATE_PRODINT:
        limb[RK_PROD_WRAPPED] = every;
        s->special = every ? 0 : RK_ZERO;
        break;
    case RP_STATE_NANS: /* there are none */
    case RP_STATE_ARGMIN:
    case RP_STATE_ARGMAX:
    case RP_STATE_STATSINT:
    case RP_STATE_SUM32: /* of floats */
    case RP_STATE_SUM64:
    case RP_STATE_SQ32:
    case RP_STATE_SQ64:
    case RP_STATE_ABS32:
    case RP_STATE_ABS64:
    case RP_STATE_MOM32:
    case RP_STATE_MOM64:
    case RP_STATE_PROD:
    case RP_STATE_STATS32:
    case RP_STATE_STATS64:
    case RP_STATE_DOT32: /* of pairs */
    case RP_STATE_DOT64:
    case RP_STATE_DOTINT:
    case RP_STATE_WMEAN32:
    case RP_STATE_WMEAN64:
    case RP_STATE_WMEANINT:
    case RP_STATE_COV32:
    case RP_STATE_COV64:
    case RP_STATE_COVINT:
    case RP_STATE_CORR32:
    case RP_STATE_CORR64:
    case RP_STATE_CORRINT:
        break;
    }
}

#endif
