// Rows whose digits are off by no more than known bounds, since far sums went to them (far_sums.cuh): their value by a few
// scaled doubles, if it is certain. Otherwise the row is in doubt, and the next launch sums it again, exactly.
//
// Bounds are kept as their log2, in units of the digits. Blocks leave the largest one.
#pragma once

#include "kernels/cuda/pass/finish_moments.cuh"

namespace rk {

// What a block may do with a row's far elements, where kFlagFar then tells of them: stop, as the row is for the next launch;
// or leave sums with bounds
enum class Far { None, Stop, Sum };

constexpr u32 kNoBound = 1u << 16;

// 2^e, or something larger if e is very low
__device__ __forceinline__ double at_least_power(int e)
{
    return e > 400 ? INFINITY : __hiloint2double((max(e, -1000) + 1023) << 20, 0);
}

// A sum in limb[0..n), whose range is r, off by up to 2^bound units, times 2^by. By three limbs: what is below them is less
// than one of the last.
__device__ __forceinline__ NearSum near_limbs(const uint64_t *limb, int n, rk_range r, int by, int bound)
{
    const int negative = (int)(limb[n - 1] >> 63), last = max(r.end - 3, r.low);
    NearSum all;
    all.clear();
    all.error = __dadd_ru(at_least_power(bound + by), r.end ? at_least_power(64 * last + by) : 0);
#pragma unroll 1
    for (int half = 2 * r.end - 1; half >= 2 * last; half--) {
        const double part = (double)(u32)(rk_magnitude_limb(limb, half / 2, negative, r.low) >> (half % 2 * 32));
        const int e = 32 * half + by;
        if (part != 0 && e < -200) // far below the squares
            all.error = __dadd_ru(all.error, 0x1p-168);
        else if (part != 0)
            all.add((negative ? -part : part) * at_least_power(e));
    }
    return all;
}

// Shared memory that this takes
struct FarRoom {
    uint64_t limb[RK_LIMBS64 + RK_SQUARE_LIMBS64];
    NearSum sum, squares;
    int top;
    u64 cell[RP_MAX_CELL_WORDS];
};

// The value of moments of f64 without stats, as far as these decide it. Units of the sums become 2^(-32 h) and of the squares
// 2^(-64 h), h the squares' uppermost limb: so these are from 1 to 2^64. Whole block.
static __device__ __noinline__ bool finish_scaled(const FinishArgs &a, u64 row, const u64 *words, int bound,
                                                  int bound_of_squares, FarRoom &room)
{
    const WordPlan &p = a.plan;
    const u32 warp = threadIdx.x / kWarp;
    const int from = warp ? p.sum : 0, digits = warp ? p.digits - p.sum : p.sum;
    uint64_t *limb = room.limb + from / 2;
    rk_range r = {0, 0};
    if (warp < 2 && digits) {
        carry_digits(words + from, digits, limb);
        r = limb_range(limb, digits / 2);
    }
    if (threadIdx.x == kWarp)
        room.top = r.end - 1;
    __syncthreads();
    const int top = room.top;
    if (top < 0)
        return false;
    if (threadIdx.x == kWarp)
        room.squares = near_limbs(limb, digits / 2, r, -64 * top, bound_of_squares);
    else if (threadIdx.x == 0 && digits)
        room.sum = near_limbs(limb, digits / 2, r, -32 * top, bound);
    else if (threadIdx.x == 0)
        room.sum.clear();
    __syncthreads();
    const NearMoments sums(room.sum, room.squares, words[p.own + kWordCount], 32 * top + RK_E0_64);
    return write_moments(a, row, sums, words, room.cell);
}

// A row of n blocks that have left far sums: finished, or marked for the launch that follows. False: it is finished without
// sums. Whole block.
static __device__ __noinline__ bool finish_far(const FinishArgs &a, RowTotal *total, u32 n, u64 row, const u64 *words,
                                               FarRoom &room)
{
    const u32 sum = __ldcg(&total->doubt[0]), squares = __ldcg(&total->doubt[1]);
    const int of_blocks = kWarp - __clz((int)n); // log2, rounded up or more
    __syncthreads();
    if (threadIdx.x < 2)
        total->doubt[threadIdx.x] = 0;
    if ((u32)words[a.plan.own + kWordFlags] & kFlagSpecial)
        return false;
    const bool known = sum < kNoBound && squares < kNoBound && may_be_certain(a, words);
    if (!known || !finish_scaled(a, row, words, (int)sum + of_blocks, (int)squares + of_blocks, room))
        if (threadIdx.x == 0)
            a.doubts[row] = 1;
    return true;
}

} // namespace rk
