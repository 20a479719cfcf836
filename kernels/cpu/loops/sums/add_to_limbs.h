/* An f64 as a part of a sum's limbs. */
#ifndef RK_CPU_ADD_TO_LIMBS_H
#define RK_CPU_ADD_TO_LIMBS_H

#include <string.h>

#include "kernels/exact/state.h"

/* Adds v, a multiple of their unit, to limbs in units of 2^unit. */
static inline void add_number(uint64_t *limbs, int n, int unit, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    rk_number x = rk_number_of(rk_format_of(RP_F64), bits & INT64_MAX);
    int shift = x.unit - unit;
    if (shift < 0)
        x.mantissa = shift > -64 ? x.mantissa >> -shift : 0;
    if (x.mantissa)
        rk_add_shifted(limbs, n, x.mantissa, shift < 0 ? 0 : shift, (int)(bits >> 63));
}

#endif
