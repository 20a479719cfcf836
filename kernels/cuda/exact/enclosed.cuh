// Sums of any doubles with a bound of what a few of them do not hold, for NearSum.
#pragma once

#include "kernels/cuda/exact/near_sum.cuh"
#include "kernels/cuda/exact/tile_sum.cuh"

namespace rk {

// The sum of any doubles: what the first one rounds off is summed rounding down and up.
struct Enclosed {
    double s;
    Between rest;

    __device__ __forceinline__ void clear()
    {
        s = -0.0;
        rest = {0, 0};
    }
    __device__ __forceinline__ void add(double x)
    {
        const double e = two_sum(s, x, s);
        rest.join({e, e});
    }
    __device__ __forceinline__ void join(const Enclosed &o)
    {
        const double e = two_sum(s, o.s, s);
        rest.join(o.rest);
        rest.join({e, e});
    }
    __device__ __forceinline__ Enclosed of_lane(int distance) const
    {
        return {__shfl_xor_sync(kFullMask, s, distance),
                {__shfl_xor_sync(kFullMask, rest.low, distance), __shfl_xor_sync(kFullMask, rest.high, distance)}};
    }
    __device__ __forceinline__ bool exact() const { return rest.low == rest.high; }
    __device__ __forceinline__ NearSum sum() const { return {s, rest.high, __dadd_ru(rest.high, -rest.low)}; }
};

} // namespace rk
