/* The total order of elements for min, max and related operations, as unsigned integers. Pure, thread-safe. */
#ifndef RK_TOTAL_ORDER_H
#define RK_TOTAL_ORDER_H

#include "kernels/exact/format.h"

/* The rank of an element: an unsigned integer of the element's width (rk_width) whose order is the order of the reduction,
 * larger is better; `least` inverts it for min. -0 < +0. A NaN has the top rank either way. */
RK_FN int rk_is_nan(int dtype, uint64_t bits)
{
    rk_format f = rk_format_of(dtype);
    return rk_is_float(dtype) && (bits & ~rk_sign_bit(f, 1)) > rk_inf_bits(f);
}

RK_FN uint64_t rk_rank(int dtype, int least, uint64_t bits)
{
    int width = rk_width(dtype);
    uint64_t mask = width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1, sign = (uint64_t)1 << (width - 1);
    if (rk_is_nan(dtype, bits))
        return mask;
    uint64_t r = bits & mask;
    if (rk_is_float(dtype))
        r = r & sign ? ~r & mask : r | sign;
    else if (rk_is_signed(dtype))
        r ^= sign;
    return least ? ~r & mask : r;
}

RK_FN uint64_t rk_unrank(int dtype, int least, uint64_t rank)
{
    int width = rk_width(dtype);
    uint64_t mask = width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1, sign = (uint64_t)1 << (width - 1);
    if (rk_is_float(dtype) && rank == mask)
        return rk_nan_bits(rk_format_of(dtype));
    uint64_t r = least ? ~rank & mask : rank;
    if (rk_is_float(dtype))
        return r & sign ? r ^ sign : ~r & mask;
    return rk_is_signed(dtype) ? r ^ sign : r;
}

/* The bits of |x| in the element's own width; of an integer, its magnitude. */
RK_FN uint64_t rk_magnitude(int dtype, uint64_t bits)
{
    int bytes = rk_bytes(dtype);
    if (rk_is_float(dtype))
        return bits & ~rk_sign_bit(rk_format_of(dtype), 1);
    if (!rk_is_signed(dtype))
        return bits;
    uint64_t v = rk_sign_extend(bits, bytes);
    return v >> 63 ? 0 - v : v;
}

#endif
