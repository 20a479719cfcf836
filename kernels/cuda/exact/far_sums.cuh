// Sums of f64 of any exponents, and of their squares, in a few doubles with bounds (near_moments.cuh): elements are scaled so
// that no square overflows, and the small ones may lose all they have. Whether that matters shows at the end.
//
// A thread has one level (scale_levels.cuh), and its squares a sum below 2^(500 + 16). What is lost of each of n elements, at
// most 2^16 for a thread:
//
//   |x'| >= 2^-450    nothing: x' is a power of two times x, and of its square the lowest bit is at least 2^-1004
//   smaller ones      x' is off by at most 2^-1075; the square and what is computed of it differ by at most 2^-899
//   raised a level    s and both bounds times 2^-500, and 2^-1000 for squares, are off by 2^-1074 at most; by more levels all
//                     is below 2^(501 + 16 - 1500), or of squares 2^(501 + 16 - 2000)
//
// So bounds that are 2^-960 and, of squares, 2^-860 wider hold for any data: each time a level is raised, and once at the end.
// All threads of a row together, 2^17, widen them by 2^-843, where the largest square is at least 2^-500.
#pragma once

#include "kernels/cuda/exact/near_doubles.cuh"
#include "kernels/cuda/exact/near_moments.cuh"
#include "kernels/cuda/exact/scale_levels.cuh"

namespace rk {

__device__ __forceinline__ void scale_enclosed(Enclosed &a, double by, double lost)
{
    a.s = __dmul_rn(a.s, by);
    a.rest = {__dadd_rd(__dmul_rn(a.rest.low, by), -lost), __dadd_ru(__dmul_rn(a.rest.high, by), lost)};
}
// Sums raised by some levels, perhaps none, and their bounds widened
__device__ __forceinline__ void raise_far(Enclosed &sum, Enclosed &squares, int levels)
{
    scale_enclosed(sum, levels == 0 ? 1 : levels == 1 ? 0x1p-500 : levels == 2 ? 0x1p-1000 : 0, 0x1p-960);
    scale_enclosed(squares, levels == 0 ? 1 : levels == 1 ? 0x1p-1000 : 0, 0x1p-860);
}

// Sums of elements over 2^scale to such that squares are near 1: so values by few doubles stay within their range. A sum that
// is far below that is known to be small.
__device__ __forceinline__ NearMoments centred(Enclosed sum, Enclosed squares, u64 count, int scale)
{
    const int e = (__double2hiint(squares.s) >> 20 & 0x7ff) - 1023;
    if (e > 200 || (e < -200 && e > -900)) {
        const int by = e / 2;
        scale_enclosed(sum, __hiloint2double((1023 - by) << 20, 0), 0x1p-960);
        scale_enclosed(squares, __hiloint2double((1023 - 2 * by) << 20, 0), 0x1p-860);
        scale += by;
    }
    NearMoments all(sum.sum(), squares.sum(), count, scale);
    if (scale && fabs(sum.s) < 0x1p-200)
        all.sum = {0, 0, __dadd_ru(__dadd_ru(fabs(all.sum.s), fabs(all.sum.t)), all.sum.error)};
    return all;
}

// A scaled element
__device__ __forceinline__ void add_far(Enclosed &sum, Enclosed &squares, double x)
{
    sum.add(x);
    add_square(squares, x);
}

// The levels of rows by near sums, above the plain one, among their flags
enum { kFlagLevel3 = 64, kFlagLevel4 = 128, kFlagLevels = kFlagLevel3 | kFlagLevel4 };
__device__ __forceinline__ int level_of_flags(u32 flags)
{
    return flags & kFlagLevel4 ? kPlainLevel + 2 : flags & kFlagLevel3 ? kPlainLevel + 1 : kPlainLevel;
}

// As NearMoments32, of f64: an accumulator.
template <int kBlock, int kLoads> struct NearMoments64 {
    static constexpr int kThreads = kBlock, kUnroll = kLoads;
    static constexpr bool kPrepares = false, kTiles = true;
    static constexpr bool kScales = true;
    static constexpr Filling kFilling = kPadded;
    using Bits = u64;
    static constexpr Bits kPadding = 1ull << 63;                    // -0.0
    static constexpr u32 kLeastFar = (1023 + kLevelBits / 2) << 20; // upper words without the sign: no longer the plain level

    NearDoubles<true> sums;
    u32 flags; // of infinities and NaNs: then the sums are void; kFlagLevels
    bool one_infinity;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        sums.clear();
        flags = 0;
        one_infinity = rk_is_unsigned_sum(args.layout);
    }
    // Any element
    __device__ __forceinline__ void add_any(u32 low, u32 high)
    {
        const u32 upper = high & 0x7fffffffu;
        if (upper >= kSpecialHigh) {
            flags |= (upper & 0xfffffu) | low ? RK_NAN : (int)high < 0 && !one_infinity ? RK_NINF : RK_PINF;
            return;
        }
        raise(level_of(upper));
        const int level = level_of_flags(flags);
        if (level == kPlainLevel)
            sums.add(low, high);
        else
            add_far(sums.sum, sums.squares, __dmul_rn(__hiloint2double((int)high, (int)low), level_scale(level)));
    }
    // If that is a higher level
    __device__ __forceinline__ void raise(int to)
    {
        const int from = level_of_flags(flags);
        if (to <= from)
            return;
        raise_far(sums.sum, sums.squares, to - from);
        sums.tiny = 1;
        flags |= to == kPlainLevel + 1 ? kFlagLevel3 : kFlagLevel4;
    }
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64)
    {
        u32 most = flags & kFlagLevels ? ~0u : 0;
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            most = max(most, max(tile[u].y & 0x7fffffffu, tile[u].w & 0x7fffffffu));
        if (most >= kLeastFar) {
#pragma unroll 1
            for (int u = 0; u < kUnroll; u++) {
                const uint4 v = chosen(tile, u);
                add_any(v.x, v.y);
                add_any(v.z, v.w);
            }
            return;
        }
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            sums.add(tile[u].x, tile[u].y);
            sums.add(tile[u].z, tile[u].w);
        }
    }
    __device__ __forceinline__ void add_element(const void *p, u64)
    {
        const u64 bits = *(const u64 *)p;
        add_any((u32)bits, (u32)(bits >> 32));
    }
    // The thread's, at the level that flags of more threads tell
    __device__ __forceinline__ NearSums ended(u32 of_all)
    {
        raise(level_of_flags(of_all));
        if (sums.tiny)
            raise_far(sums.sum, sums.squares, 0);
        return {sums.sum, sums.squares};
    }
};

} // namespace rk
