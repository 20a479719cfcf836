// Exact sums of a tile by additions that need no watching: what they could lose is told by the binades that the elements
// span, and those are looked at once, when all is added.
//
// Let elements be below 2^(e+1) in magnitude, and multiples of the last place of a number in binade e - k. Sums of up to 2^L
// f32 are then multiples of 2^(e-k-23) below 2^(e+1+L): 53 bits hold them if k <= 29 - L, and every addition of doubles is
// exact, in any order. Of f64 what an addition rounds off is below 2^(e+L-52), a multiple of 2^(e-k-52), and added to a
// second double; up to 2^L of those need no rounding if k <= 53 - 2L.
#pragma once

#include "kernels/cuda/pair.cuh"
#include "kernels/cuda/tile.cuh"

namespace rk {

// Of the elements met: the largest magnitude, and the least that is not zero.
template <int kDtype> struct Span;

template <> struct Span<RP_F32> {
    u32 most;  // |bits|; a NaN is above all
    u32 least; // |bits| - 1, so that zeros are the largest

    __device__ __forceinline__ void init()
    {
        most = 0;
        least = ~0u;
    }
    __device__ __forceinline__ void note(u32 bits)
    {
        const u32 magnitude = bits & 0x7fffffffu;
        most = max(most, magnitude);
        least = min(least, magnitude - 1);
    }
    __device__ __forceinline__ bool within(u32 binades) const { return most - least <= binades << 23; }
    __device__ __forceinline__ bool below(u32 field) const { return most < field << 23; }
};

template <> struct Span<RP_F64> {
    u32 most;  // upper word of |bits|, doubled
    u32 least; // that of the smallest, one less if its lower word is zero, so that zeros are the largest

    __device__ __forceinline__ void init()
    {
        most = 0;
        least = ~0u;
    }
    __device__ __forceinline__ void note(u64 bits)
    {
        const u32 twice = 2 * (u32)(bits >> 32);
        most = max(most, twice);
        least = min(least, (u32)((((u64)twice << 32 | (u32)bits) - 1) >> 32));
    }
    __device__ __forceinline__ bool within(u32 binades) const { return most - least <= binades << 21; }
    __device__ __forceinline__ bool below(u32 field) const { return most < field << 21; }
};

// A sum without looking: of f32 in one double, of f64 in two, the second one for what the first rounds off. s is -0.0 if all
// is -0.0, and only then.
template <int kDtype> struct PlainSum;

template <> struct PlainSum<RP_F32> {
    double s; // 2^-896 of it

    // So much of a number has the same exponent field and mantissa, only wider: a few integer instructions, where converting
    // takes an SM 256 cycles for a tile. Subnormal numbers are right, too; not infinities and NaNs, which the span tells.
    static __device__ __forceinline__ double scaled(u32 bits)
    {
        u64 wide; // magnitude and 29 zeros
        asm("mul.wide.u32 %0, %1, 0x20000000;" : "=l"(wide) : "r"(bits & 0x7fffffffu));
        return __hiloint2double((int)((u32)(wide >> 32) | (bits & 0x80000000u)), (int)(u32)wide);
    }
    static __device__ __forceinline__ PlainSum of(u32 bits) { return {scaled(bits)}; }
    static __device__ __forceinline__ PlainSum of(uint4 v)
    {
        return {__dadd_rn(__dadd_rn(scaled(v.x), scaled(v.y)), __dadd_rn(scaled(v.z), scaled(v.w)))};
    }
    __device__ __forceinline__ void join(PlainSum o) { s = __dadd_rn(s, o.s); }
    __device__ __forceinline__ void join_lane(int distance) { join({__shfl_xor_sync(kFullMask, s, distance)}); }
    __device__ __forceinline__ double value() const { return __dmul_rn(s, 0x1p896); }
};

template <> struct PlainSum<RP_F64> {
    double s, t;

    static __device__ __forceinline__ PlainSum of(u64 bits) { return {__longlong_as_double((i64)bits), 0}; }
    static __device__ __forceinline__ PlainSum of(uint4 v)
    {
        PlainSum sum;
        sum.t = two_sum(__hiloint2double((int)v.y, (int)v.x), __hiloint2double((int)v.w, (int)v.z), sum.s);
        return sum;
    }
    __device__ __forceinline__ void join(PlainSum o)
    {
        const double e = two_sum(s, o.s, s);
        t = __dadd_rn(__dadd_rn(t, o.t), e);
    }
    __device__ __forceinline__ void join_lane(int distance)
    {
        join({__shfl_xor_sync(kFullMask, s, distance), __shfl_xor_sync(kFullMask, t, distance)});
    }
    __device__ __forceinline__ double value() const { return t == 0 ? s : __dadd_rn(s, t); }
};

constexpr int log2_of(u32 n) { return n > 1 ? 1 + log2_of(n / 2) : 0; }

// An accumulator for reduce_tile.
template <int kDtype, int kBlock, int kLoads> struct TileSum {
    static constexpr int kThreads = kBlock, kUnroll = kLoads;
    static constexpr bool kTiles = true;
    static constexpr Filling kFilling = kPadded;
    using Bits = FloatBits<kDtype>;
    static constexpr Bits kPadding = (Bits)1 << (8 * sizeof(Bits) - 1); // -0.0
    static constexpr int kLog = log2_of(kThreads * kUnroll * 16 / sizeof(Bits)); // of the elements of a tile
    static constexpr u32 kBinades = kDtype == RP_F64 ? 53 - 2 * kLog : 29 - kLog;
    static constexpr u32 kTop = kDtype == RP_F64 ? 2046 - kLog : 255; // exponent field of what is too large

    Span<kDtype> span;
    PlainSum<kDtype> sum;

    __device__ __forceinline__ void init(void *, const SegmentArgs &) { span.init(); }
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64)
    {
        static_assert((kUnroll & (kUnroll - 1)) == 0);
        PlainSum<kDtype> of_vector[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            each_element<sizeof(Bits)>(tile[u], [&](Bits bits, int) { span.note(bits); });
            of_vector[u] = PlainSum<kDtype>::of(tile[u]);
        }
#pragma unroll
        for (int n = kUnroll / 2; n; n /= 2)
#pragma unroll
            for (int u = 0; u < n; u++)
                of_vector[u].join(of_vector[u + n]);
        sum = of_vector[0];
    }
    __device__ __forceinline__ void add(Bits bits, u64)
    {
        span.note(bits);
        sum.join(PlainSum<kDtype>::of(bits));
    }
    __device__ __forceinline__ void join_warp()
    {
        span.most = warp_max(span.most);
        span.least = warp_min(span.least);
#pragma unroll
        for (int d = kWarp / 2; d; d >>= 1)
            sum.join_lane(d);
    }
    __device__ __forceinline__ void join(const TileSum &o)
    {
        span.most = max(span.most, o.span.most);
        span.least = min(span.least, o.span.least);
        sum.join(o.sum);
    }
    // Is the sum exact? Not if there are NaNs or infinities, or so large numbers that it may overflow.
    __device__ __forceinline__ bool certain() const { return span.below(kTop) && span.within(kBinades); }
};

} // namespace rk
