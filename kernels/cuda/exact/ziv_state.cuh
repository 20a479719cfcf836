// Means, variances and norms of a state by a few doubles, where those hold its sums and the rounding is certain
// (ziv_round.cuh): 64-bit divisions one after the other take 9 to 45 us at the end of a request.
#pragma once

#include "kernels/cuda/exact/ziv_round.cuh"

namespace rk {

// The two's complement limb[0..n) * 2^e0. Lost, too, if a part of it is not within what in_range is for.
template <int kTerms> __device__ inline Terms<kTerms> terms_of(const uint64_t *limb, int n, int e0)
{
    const rk_range none = {0, 0}, r = n ? rk_range_of(limb, n) : none;
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

__device__ inline LineSums<4> sums_of_state(const rk_state &s)
{
    const int sum = rk_sum_limbs(s.layout), e0 = rk_e0(s.dtype);
    const Terms<2> line = terms_of<2>(s.limb, sum, e0);
    return {{line.x[0], line.x[1], line.lost}, terms_of<4>(s.limb + sum, rk_square_limbs(s.layout), 2 * e0), s.count, 0};
}

// The words of the value of a state of floats, in f64. False: by the general way.
__device__ inline bool finish_by_doubles(const rk_state &s, const rp_spec &spec, rk_finisher finisher, uint64_t *words)
{
    const bool summary = finisher == RK_FINISH_SUMMARY;
    const bool known = finisher == RK_FINISH_MEAN || finisher == RK_FINISH_SPREAD || finisher == RK_FINISH_SQUARES || summary;
    if (!known || !rk_is_float(s.dtype) || (spec.out != RP_F64 && !summary))
        return false;
    if (s.count == 0 || s.special || (spec.nan == RP_NAN_ERROR && s.skipped))
        return false;
    const LineSums<4> sums = sums_of_state(s);
    if (!summary) {
        double value;
        const bool negative_zero = finisher == RK_FINISH_MEAN && sums.sum.s == 0;
        if (negative_zero || !sums.value<true>(spec, finisher, &value))
            return false;
        words[0] = (u64)__double_as_longlong(value);
        return true;
    }
    double mean, var, std;
    if (sums.sum.s == 0 || !sums.mean(&mean) || !sums.spread<true>(spec.ddof, &var, &std))
        return false;
    rk_finish_summary_rest(&s, words);
    words[RP_STATS_MEAN] = (u64)__double_as_longlong(mean);
    words[RP_STATS_VAR] = (u64)__double_as_longlong(var);
    words[RP_STATS_STD] = (u64)__double_as_longlong(std);
    return true;
}

} // namespace rk
