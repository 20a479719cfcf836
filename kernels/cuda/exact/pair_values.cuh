// Sums of products and weighted means from sums within a known error (near_sum.cuh): rounded correctly, or not at all if the
// error could decide the rounding.
#pragma once

#include "kernels/cuda/exact/near_sum.cuh"

namespace rk {

// What is within `error` of high + low as a float of type `out`. False: it is not certain. A zero is exact and +0.0.
__device__ inline bool round_within(double high, double low, double error, int out, u64 *bits)
{
    const double down = __dadd_rd(low, -error), up = __dadd_ru(low, error);
    if (out == RP_F64) {
        const double v = __dadd_rn(high, down);
        *bits = v == 0 ? 0 : (u64)__double_as_longlong(v);
        return v == __dadd_rn(high, up) && fabs(v) < INFINITY && (v != 0 || down == up);
    }
    const double least = __dadd_rd(high, down), most = __dadd_ru(high, up);
    const u64 a = rk_convert_float(RP_F64, (u64)__double_as_longlong(least), out),
              b = rk_convert_float(RP_F64, (u64)__double_as_longlong(most), out);
    const bool zero = (a & ~rk_sign_bit(rk_format_of(out), 1)) == 0;
    *bits = zero ? 0 : a;
    return a == b && fabs(least) < INFINITY && fabs(most) < INFINITY && (!zero || (least == 0 && most == 0));
}

// P / W. Let P be a + b and W be c + d, where b and d are at most 2^-53 of a and c, and all within their errors, that of W at
// most 2^-10 of c. Then
//
//     P / W - q = (a - q c + b - q d + e) / W,    q = RN(a / c)
//
// The remainder a - q c is a double, and at most 2^-53 a. Adding b and -q d rounds off 2^-105 a and 2^-104.4 a, dividing by c
// the same of q, and c in place of W is off by 2^-53 and the error of W: together less than 2^-102 q. e is at most the error
// of P and q times that of W; a quarter more is for W in place of c, and for the rounding of the bound.
__device__ inline bool mean_within(const NearSum &products, const NearSum &weights, int out, u64 *bits)
{
    const NearSum p = products.gathered(), w = weights.gathered();
    if (!in_range(w.s) || !(w.error <= 0x1p-10 * fabs(w.s)))
        return false;
    *bits = 0;
    if (p.s == 0)
        return p.error == 0;
    const double q = __ddiv_rn(p.s, w.s), rest = __fma_rn(-q, w.s, p.s);
    const double low = __ddiv_rn(__fma_rn(-q, w.t, __dadd_rn(rest, p.t)), w.s);
    const double errors = __ddiv_rn(__fma_rn(fabs(q), w.error, p.error), fabs(w.s));
    return in_range(p.s) && in_range(q) && round_within(q, low, __fma_rn(1.25, errors, 0x1p-100 * fabs(q)), out, bits);
}

// `mean`: over the sum of the weights
__device__ inline bool pair_value(bool mean, const NearSum &products, const NearSum &weights, int out, u64 *bits)
{
    return mean ? mean_within(products, weights, out, bits) : round_within(products.s, products.t, products.error, out, bits);
}

} // namespace rk
