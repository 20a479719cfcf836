/* Bitwise and, or, exclusive or of integers. Limbs: the value, 0. */
#ifndef RK_BITS_H
#define RK_BITS_H

#include "kernels/exact/layout.h"

/* The value without elements */
RK_FN uint64_t rk_no_bits(int layout, int dtype) { return layout == RP_STATE_AND ? rk_all_ones(dtype) : 0; }

RK_FN void rk_bits_init(rk_state *s) { s->limb[0] = rk_no_bits(s->layout, s->dtype); }

RK_FN void rk_bits_add(rk_state *s, uint64_t bits)
{
    if (s->layout == RP_STATE_AND)
        s->limb[0] &= bits;
    else if (s->layout == RP_STATE_OR)
        s->limb[0] |= bits;
    else
        s->limb[0] ^= bits;
}

RK_FN void rk_bits_merge(rk_state *s, const rk_state *o) { rk_bits_add(s, o->limb[0]); }

RK_FN rk_flaw rk_bits_check(const rk_state *s)
{
    if (s->limb[1] || s->limb[0] & ~rk_all_ones(s->dtype))
        return rk_bad("limbs", "wider than the element type");
    return s->count == 0 && s->limb[0] != rk_no_bits(s->layout, s->dtype) ? rk_bad("limbs", "bits without elements")
                                                                          : rk_fine();
}

#endif
