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

// Sums of a block's threads, in shared memory
template <int kThreads> struct EnclosedOfBlock {
    double s[kThreads], low[kThreads], high[kThreads];

    __device__ __forceinline__ void put(const Enclosed &a)
    {
        s[threadIdx.x] = a.s;
        low[threadIdx.x] = a.rest.low;
        high[threadIdx.x] = a.rest.high;
    }
    // This thread's
    __device__ __forceinline__ Enclosed own() const { return {s[threadIdx.x], {low[threadIdx.x], high[threadIdx.x]}}; }
    // All of them joined, to each lane of a warp. Each s is cut in two, at the same bit. The upper parts have so few bits that
    // the sum of all needs no rounding; the lower parts join the rest. So an addition takes no second one for its error.
    //
    // Let 2^(e+1) be more than any |s|. The anchor is 1.5 times 2^(e+10), and numbers near it are multiples of 2^(e-42). An
    // upper part is at most 2^43 of those, and there are at most 2^10. Where that anchor is not finite nothing is known.
    __device__ __forceinline__ Enclosed joined() const
    {
        constexpr int kEach = kThreads / kWarp;
        static_assert(kThreads % kWarp == 0 && kThreads <= 1024);
        const int lane = (int)threadIdx.x % kWarp;
        double x[kEach];
        u32 most = 0, sign = 1u << 31; // sign: a zero is negative only if all are
#pragma unroll
        for (int k = 0; k < kEach; k++) {
            x[k] = s[lane + k * kWarp];
            most = max(most, (u32)__double2hiint(x[k]) & 0x7ff00000u);
            sign &= (u32)__double2hiint(x[k]);
        }
        most = warp_max(most);
        sign = warp_and(sign);
        const double anchor = __hiloint2double((int)(most + (10u << 20 | 1u << 19)), 0);
        double upper = 0;
        Between rest = {0, 0}, below = {0, 0};
#pragma unroll
        for (int k = 0; k < kEach; k++) {
            const double part = __dsub_rn(__dadd_rn(x[k], anchor), anchor), lower = __dsub_rn(x[k], part);
            upper = __dadd_rn(upper, part);
            below.join({lower, lower});
            rest.join({low[lane + k * kWarp], high[lane + k * kWarp]});
        }
        rest.join(below);
#pragma unroll 1 // short code: cold instructions cost more than a loop
        for (int d = kWarp / 2; d; d >>= 1) {
            upper = __dadd_rn(upper, __shfl_xor_sync(kFullMask, upper, d));
            rest.join({__shfl_xor_sync(kFullMask, rest.low, d), __shfl_xor_sync(kFullMask, rest.high, d)});
        }
        if (most >= 0x7ff00000u - (10u << 20))
            rest = {-INFINITY, INFINITY};
        return {__hiloint2double((int)((u32)__double2hiint(upper) | sign), __double2loint(upper)), rest};
    }
};

} // namespace rk
