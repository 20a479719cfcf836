// Means, variances and norms of a state by a few doubles, where those hold its sums and the rounding is certain
// (ziv_round.cuh): 64-bit divisions one after the other take 9 to 45 us at the end of a request.
#pragma once

#include "kernels/cuda/exact/narrow_value.cuh"
#include "kernels/cuda/exact/ziv_round.cuh"

namespace rk {

// The two's complement limb[0..n) * 2^e0, whose range is r. It is also lost if a part of it is outside in_range.
template <int kTerms> __device__ inline Terms<kTerms> terms_of(const uint64_t *limb, int n, rk_range r, int e0)
{
    const int negative = n ? (int)(limb[n - 1] >> 63) : 0;
    Terms<kTerms> all;
    all.clear();
#pragma unroll 1
    for (int half = 2 * r.end - 1; half >= 2 * r.low && !all.lost; half--) {
        const u32 part = (u32)(rk_magnitude_limb(limb, half / 2, negative, r.low) >> (half % 2 * 32));
        const int e = e0 + 32 * half;
        if (part == 0)
            continue;
        all.add((negative ? -1.0 : 1.0) * part * __hiloint2double((e + 1023) << 20, 0));
        all.lost |= e < -400 || e > 400;
    }
    return all;
}

__device__ inline LineSums<4> sums_of_state(const rk_state &s, rk_range of_sum, rk_range of_squares)
{
    const int sum = rk_sum_limbs(s.layout), e0 = rk_e0(s.dtype);
    const Terms<2> line = terms_of<2>(s.limb, sum, of_sum, e0);
    return {{line.x[0], line.x[1], line.lost},
            terms_of<4>(s.limb + sum, rk_square_limbs(s.layout), of_squares, 2 * e0),
            s.count,
            0};
}

// An end of a state of stats in f64. f32 by the hardware: converting by integers takes long.
__device__ __forceinline__ u64 end_of(const rk_state &s, u64 bits)
{
    if (s.dtype == RP_F64)
        return bits;
    if (s.dtype == RP_F32)
        return (u64)__double_as_longlong((double)__uint_as_float((u32)bits));
    return rk_convert_float(s.dtype, bits, RP_F64);
}

// The words of stats except mean, var and std, of a state without NaN elements, whose sum is `sum`.
__device__ inline void summary_rest(const rk_state &s, double sum, uint64_t *words)
{
    const uint64_t *o = s.limb + rk_sum_limbs(s.layout) + rk_square_limbs(s.layout);
    words[RP_STATS_COUNT] = s.count;
    words[RP_STATS_NANS] = o[RK_STATS_NANS];
    words[RP_STATS_ZEROS] = o[RK_STATS_ZEROS];
    words[RP_STATS_ARGMIN] = o[RK_STATS_MIN_INDEX];
    words[RP_STATS_ARGMAX] = o[RK_STATS_MAX_INDEX];
    words[RP_STATS_MIN] = end_of(s, o[RK_STATS_MIN]);
    words[RP_STATS_MAX] = end_of(s, o[RK_STATS_MAX]);
    words[RP_STATS_SUM] = (u64)__double_as_longlong(sum);
    words[RP_STATS_SUM_HIGH] = 0;
}

// The words of the value of a state of floats. of_sum, of_squares: ranges of its limbs. False: by the general way.
__device__ inline bool finish_by_doubles(const rk_state &s, rk_range of_sum, rk_range of_squares, const rp_spec &spec,
                                         rk_finisher finisher, uint64_t *words)
{
    const bool summary = finisher == RK_FINISH_SUMMARY;
    const bool known = finisher == RK_FINISH_MEAN || finisher == RK_FINISH_SPREAD || finisher == RK_FINISH_SQUARES || summary;
    if (!known || !rk_is_float(s.dtype))
        return false;
    if (s.count == 0 || s.special || (spec.nan == RP_NAN_ERROR && s.skipped))
        return false;
    const LineSums<4> sums = sums_of_state(s, of_sum, of_squares);
    if (!summary) {
        double value;
        const bool negative_zero = finisher == RK_FINISH_MEAN && sums.sum.s == 0;
        if (negative_zero || !sums.value<true>(spec, finisher, &value))
            return false;
        u64 bits;
        const bool decided = value_bits(value, spec.out, &bits);
        words[0] = bits;
        return decided;
    }
    double mean, var, std;
    if (sums.sum.s == 0 || !sums.mean(&mean) || !sums.spread<true>(spec.ddof, &var, &std))
        return false;
    summary_rest(s, sums.sum.value(), words);
    words[RP_STATS_MEAN] = (u64)__double_as_longlong(mean);
    words[RP_STATS_VAR] = (u64)__double_as_longlong(var);
    words[RP_STATS_STD] = (u64)__double_as_longlong(std);
    return true;
}

} // namespace rk
