#include "kernels/exact/edges.h"

#include <string.h>

#include "kernels/exact/total_order.h"

/* ---- floats ---- */

/* The next element in their order; the one after +inf is not a number. */
static uint64_t next_of(int dtype, uint64_t bits)
{
    const uint64_t sign = rk_sign_bit(rk_format_of(dtype), 1);
    return bits & sign ? bits == sign ? 0 : bits - 1 : bits + 1;
}

static bool from_float(int dtype, uint64_t edge, bool beyond, uint64_t *bits)
{
    const rk_format f = rk_format_of(dtype);
    const uint64_t sign = rk_sign_bit(f, 1), wide = rk_sign_bit(rk_format_of(RP_F64), 1);
    uint64_t x = rk_convert_float(RP_F64, edge, dtype), back;
    const bool zero = !(edge & ~wide); /* from -0 on, or beyond +0 */
    if (zero)
        x = beyond ? 0 : sign;
    back = rk_convert_float(dtype, x, RP_F64);
    const uint64_t r = rk_rank(RP_F64, 0, back), e = rk_rank(RP_F64, 0, edge);
    if (zero ? beyond : beyond ? r <= e : r < e)
        x = next_of(dtype, x);
    *bits = x;
    return !rk_is_nan(dtype, x);
}

/* ---- integers ---- */

/* The least integer at or above |x|, or above it; 2^64 - 1 stands for all from 2^64 on, with *large. */
static uint64_t magnitude_of(uint64_t x, bool up, bool *large)
{
    const rk_number n = rk_number_of(rk_format_of(RP_F64), x & ~rk_sign_bit(rk_format_of(RP_F64), 1));
    *large = n.mantissa && n.unit > 11;
    if (*large || !n.mantissa)
        return *large ? UINT64_MAX : 0;
    if (n.unit >= 0)
        return n.mantissa << n.unit;
    if (n.unit <= -64)
        return up;
    const uint64_t whole = n.mantissa >> -n.unit;
    return whole + (up && whole << -n.unit != n.mantissa);
}

static bool from_integer(int dtype, uint64_t edge, bool beyond, uint64_t *bits)
{
    const int width = rk_width(dtype);
    const bool negative = edge >> 63, is_signed = rk_is_signed(dtype);
    const uint64_t all = width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1, most = is_signed ? all >> 1 : all;
    bool large;
    const uint64_t m = magnitude_of(edge, !negative, &large), up = magnitude_of(edge, true, &large),
                   down = magnitude_of(edge, false, &large);
    const bool add = beyond && (large || up == down);                                    /* the edge is an integer */
    const bool below = negative && (large || m > most + is_signed || (!is_signed && m)); /* less than all elements */
    if (below) {
        *bits = is_signed ? most + 1 : 0;
        return true;
    }
    if (!negative && (large || m > most || (m == most && add)))
        return false;
    *bits = ((negative ? 0 - m : m) + add) & all;
    return true;
}

bool rk_from_edge(int dtype, double edge, bool beyond, uint64_t *bits)
{
    uint64_t e;
    memcpy(&e, &edge, sizeof e);
    return rk_is_float(dtype) ? from_float(dtype, e, beyond, bits) : from_integer(dtype, e, beyond, bits);
}
