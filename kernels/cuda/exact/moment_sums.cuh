// A sum in two doubles and a sum of squares in three: 106 bits do not hold the squares of normally distributed data. Blocks
// leave theirs in this form if it holds them, for values that are computed from these by a few doubles (finish_moments.cuh).
#pragma once

#include "kernels/cuda/exact/ziv_round.cuh"

namespace rk {

struct MomentSums {
    Pair sum;
    Terms<3> squares;

    __device__ __forceinline__ void join(const MomentSums &o)
    {
        sum.lost |= o.sum.lost;
        sum.join(o.sum.s, o.sum.t);
        squares.join(o.squares);
    }
    __device__ __forceinline__ bool lost() const { return sum.lost | squares.lost; }
};

// In scratch
struct SumsPartial {
    double sum[2], squares[3];

    SumsPartial() = default;
    __device__ __forceinline__ explicit SumsPartial(const MomentSums &a)
        : sum{a.sum.s, a.sum.t}, squares{a.squares.x[0], a.squares.x[1], a.squares.x[2]}
    {
    }
    __device__ __forceinline__ MomentSums sums() const
    {
        return {{sum[0], sum[1], false}, {{squares[0], squares[1], squares[2]}, false}};
    }
};

// With those of all lanes, each of which gets the result. First as plain doubles, rounded down and up: mostly these stay equal.
static __device__ __noinline__ MomentSums join_warp(MomentSums a)
{
    double low[3] = {a.sum.s, a.squares.x[0], a.squares.x[1]}, high[3] = {low[0], low[1], low[2]};
#pragma unroll 1
    for (int d = kWarp / 2; d; d >>= 1)
#pragma unroll
        for (int k = 0; k < 3; k++) {
            const double other = __shfl_xor_sync(kFullMask, high[k], d);
            low[k] = __dadd_rd(low[k], other);
            high[k] = __dadd_ru(high[k], other);
        }
    const bool exact = low[0] == high[0] && low[1] == high[1] && low[2] == high[2];
    if (__all_sync(kFullMask, exact && a.sum.t == 0 && a.squares.x[2] == 0 && !a.lost()))
        return {{high[0], 0, false}, {{high[1], high[2], 0}, false}};
#pragma unroll 1
    for (int d = kWarp / 2; d; d >>= 1) {
        a.sum.join_lane(kFullMask, d);
        a.squares.join_lane(kFullMask, d);
    }
    return a;
}

// The sums of all threads of a block, kWarps warps; every thread gets the result. False if they do not fit.
template <int kWarps> __device__ __forceinline__ bool join_block(MomentSums &a)
{
    static_assert(kWarps <= kWarp);
    __shared__ SumsPartial of_warp[kWarps];
    const u32 lane = threadIdx.x % kWarp;
    a = join_warp(a);
    bool lost = a.lost();
    if (lane == 0)
        of_warp[threadIdx.x / kWarp] = SumsPartial(a);
    __syncthreads();
    if (threadIdx.x < kWarp) {
        a = lane < kWarps ? of_warp[lane].sums() : MomentSums{{0, 0, false}, {{0, 0, 0}, false}};
        a = join_warp(a);
        if (lane == 0)
            of_warp[0] = SumsPartial(a);
    }
    lost |= threadIdx.x < kWarp && a.lost();
    lost = __syncthreads_or(lost);
    a = of_warp[0].sums();
    return !lost;
}

} // namespace rk
