// Sums and means of single lines as floats narrower than f64, where a value in f64 does not decide them (lines_any.cu).
#pragma once

#include "kernels/cuda/exact/twosum.cuh"
#include "kernels/cuda/pass/finish.cuh"
#include "kernels/exact/line.h"

namespace rk {

// Element i of a line as a double, without its sign if the layout is of magnitudes; -0.0, which adds nothing, if the mask
// leaves it out.
__device__ __forceinline__ double element_at(const FinishArgs &a, const rp_parts &parts, const rk_line &line, u64 i, u64 *count)
{
    const int dtype = a.spec.dtype, bytes = rk_bytes(dtype);
    const u64 at = line.first + i * line.stride, bits = rk_load(parts.elements + at * bytes, bytes);
    const double x = dtype == RP_F32 ? (double)__uint_as_float((u32)bits)
                                     : __longlong_as_double((i64)rk_convert_float(dtype, bits, RP_F64));
    const bool in = !parts.mask || parts.mask[at];
    *count += in;
    return !in ? -0.0 : rk_is_abs(a.plan.layout) ? fabs(x) : x;
}

// This lane's share of a line's elements in two doubles. NaNs make it lost.
__device__ inline Pair add_in_doubles(const FinishArgs &a, const rp_parts &parts, const rk_line &line, u32 lane, u32 lanes,
                                      u64 *count)
{
    constexpr u32 kTogether = 8; // loads do not wait for each other
    Pair sum = {-0.0, 0, false};
    double x[kTogether];
    u64 i = lane;
    for (; i + (u64)(kTogether - 1) * lanes < line.n; i += (u64)kTogether * lanes) {
#pragma unroll
        for (u32 k = 0; k < kTogether; k++)
            x[k] = element_at(a, parts, line, i + k * lanes, count);
#pragma unroll
        for (u32 k = 0; k < kTogether; k++)
            sum.add(x[k]);
    }
    for (; i < line.n; i += lanes)
        sum.add(element_at(a, parts, line, i, count));
    return sum;
}

// The exact sum, divided by n, as the bits of a narrower float. q is off by less than four units of its last place, so only the
// nearest tie can lie between both; the exact sign of sum - tie n says on which side the quotient is.
__device__ inline bool narrow_quotient(Pair sum, u64 n, int out, u64 *bits)
{
    const double q = sum.value() / (double)n;
    const u64 of_q = (u64)__double_as_longlong(q);
    const int below = bits_below(of_q, rk_format_of(out));
    if (sum.lost || n >> 27 || !(fabs(q) < INFINITY) || below > 52) // a tie has 25 bits at most, so its product is exact
        return false;
    const u64 half = 1ull << (below - 1), near = (of_q + half / 2) & ~(half - 1);
    u64 rounded = of_q;
    if (near & half && of_q - near + 8 <= 16) {
        const double tie = __longlong_as_double((i64)near);
        sum.add(-tie * (double)n);
        const double side = sum.value();
        if (sum.lost)
            return false;
        rounded = side == 0 ? near : (side > 0) == (tie > 0) ? near + 1 : near - 1;
    }
    *bits = rk_convert_float(RP_F64, rounded, out);
    return true;
}

// Writes the value of a line; all lanes of a team call it. False, and nothing is written, unless it is a sum or mean of floats
// in a narrower float and certain.
__device__ inline bool narrow_total(const FinishArgs &a, const rp_parts &parts, u64 number, const rk_line &line, u32 lanes)
{
    const int op = a.spec.op;
    if (!rk_is_float(a.spec.dtype) || !rk_is_float(a.spec.out) || a.spec.out == RP_F64 ||
        (op != RP_OP_SUM && op != RP_OP_MEAN && op != RP_OP_NORM1) || a.spec.flags & (RP_STATES_OUT | RP_INITIAL))
        return false;
    const u32 lane = threadIdx.x % lanes, mask = group_mask(lanes);
    u64 count = 0, bits;
    Pair sum = add_in_doubles(a, parts, line, lane, lanes, &count);
    for (u32 d = lanes / 2; d; d /= 2) {
        const bool lost = __shfl_xor_sync(mask, sum.lost, d);
        sum.join_lane(mask, (int)d);
        sum.lost |= lost;
        count += __shfl_xor_sync(mask, count, d);
    }
    if (!count || !narrow_quotient(sum, op == RP_OP_MEAN ? count : 1, a.spec.out, &bits))
        return false;
    if (lane == 0)
        write_bits(a.cell_bytes, a.cells, number, bits);
    return true;
}

} // namespace rk
