// Exact sums of a tile by additions that are not checked one by one. At the end a test shows whether they were exact: for f64
// by the binades that the elements span, for f32 by summing twice, rounding down and up.
//
// Let f64 elements be below 2^(e+1) in magnitude, and multiples of the last place of a number in binade e - k. What an addition
// of up to 2^L of them rounds off is below 2^(e+L-52), a multiple of 2^(e-k-52), and added to a second double; up to 2^L of
// those need no rounding if k <= 53 - 2L.
#pragma once

#include "kernels/cuda/exact/twosum.cuh"
#include "kernels/cuda/pass/tile.cuh"

namespace rk {

// Of the f64 seen: the largest magnitude, and the smallest that is not zero.
struct Span {
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

// An unchecked sum of f64 in two doubles; the second one sums what the first rounds off. s is -0.0 if all elements are -0.0,
// and only then.
struct PlainSum {
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

// Accumulators for add_row. join_block joins those of all threads. Each thread gets the result, so all agree on whether it is
// certain.
template <int kDtype, int kBlock, int kLoads> struct TileSum;

template <int kBlock, int kLoads> struct TileSum<RP_F64, kBlock, kLoads> {
    static constexpr int kThreads = kBlock, kUnroll = kLoads;
    static constexpr bool kTiles = true;
    static constexpr Filling kFilling = kPadded;
    using Bits = u64;
    static constexpr Bits kPadding = 1ull << 63;                 // -0.0
    static constexpr int kLog = log2_of(kThreads * kUnroll * 2); // of the elements of a tile
    static constexpr u32 kBinades = 53 - 2 * kLog;
    static constexpr u32 kTop = 2046 - kLog; // exponent field from which elements are too large

    Span span;
    PlainSum sum;

    __device__ __forceinline__ void init(void *, const SegmentArgs &) { span.init(); }
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64)
    {
        static_assert((kUnroll & (kUnroll - 1)) == 0);
        PlainSum of_vector[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            each_element<sizeof(Bits)>(tile[u], [&](Bits bits, int) { span.note(bits); });
            of_vector[u] = PlainSum::of(tile[u]);
        }
        sum = joined<kUnroll>(of_vector);
    }
    __device__ __forceinline__ void add(Bits bits, u64)
    {
        span.note(bits);
        sum.join(PlainSum::of(bits));
    }
    __device__ __forceinline__ void join(const TileSum &o)
    {
        span.most = max(span.most, o.span.most);
        span.least = min(span.least, o.span.least);
        sum.join(o.sum);
    }
    __device__ __forceinline__ void join_block()
    {
        __shared__ TileSum of_warp[kThreads / kWarp];
        span.most = warp_max(span.most);
        span.least = warp_min(span.least);
#pragma unroll
        for (int d = kWarp / 2; d; d >>= 1)
            sum.join_lane(d);
        if (threadIdx.x % kWarp == 0)
            of_warp[threadIdx.x / kWarp] = *this;
        __syncthreads();
        *this = joined<kThreads / kWarp>(of_warp);
    }
    // Is the sum exact? It is not with NaNs or infinities, or with numbers so large that it may overflow.
    __device__ __forceinline__ bool certain() const { return span.below(kTop) && span.within(kBinades); }
    __device__ __forceinline__ PlainSum plain() const { return sum; }
};

// For f32: two sums, one of which rounds down and the other one up. The exact sum lies between them, so it is known if they are
// equal.
struct Between {
    double low, high; // high is -0.0 if all is -0.0, and only then

    // 2^-896 of an element. So much of a number has the same exponent field and mantissa, only wider: two integer
    // instructions, where converting takes an SM 256 cycles for a tile. Subnormal numbers are right, too; infinities and NaNs
    // become arbitrary numbers.
    static __device__ __forceinline__ Between of(u32 bits)
    {
        const i64 wide = times_2_29(bits); // the sign four times, exponent field, mantissa and 29 zeros
        const double x = __longlong_as_double(wide & (i64)0x8fffffffffffffff);
        return {x, x};
    }
    static __device__ __forceinline__ Between of(uint4 v)
    {
        const Between words[4] = {of(v.x), of(v.y), of(v.z), of(v.w)};
        return joined<4>(words);
    }
    __device__ __forceinline__ void join(const Between &o)
    {
        low = __dadd_rd(low, o.low);
        high = __dadd_ru(high, o.high);
    }
};

// The elements of a vector, f32 or narrower, as they are: infinities and NaNs too, by the rules of IEEE 754.
template <int kDtype> __device__ __forceinline__ Between between(uint4 v)
{
    constexpr int kCount = 16 / Float<kDtype>::kBytes;
    Between elements[kCount];
    each_element<Float<kDtype>::kBytes>(v, [&](FloatBits<kDtype> bits, int k) {
        const double x = Float<kDtype>::value(bits);
        elements[k] = {x, x};
    });
    return joined<kCount>(elements);
}
template <int kDtype, int kVectors> __device__ __forceinline__ Between between(const uint4 (&tile)[kVectors])
{
    Between all = between<kDtype>(tile[0]);
#pragma unroll
    for (int u = 1; u < kVectors; u++)
        all.join(between<kDtype>(tile[u]));
    return all;
}

template <int kBlock, int kLoads> struct TileSum<RP_F32, kBlock, kLoads> {
    static constexpr int kThreads = kBlock, kUnroll = kLoads;
    static constexpr bool kTiles = true;
    static constexpr Filling kFilling = kPadded;
    using Bits = u32;
    static constexpr Bits kPadding = 1u << 31; // -0.0

    Between sum; // 2^-896 of it until join_block
    float size;  // sum of magnitudes, rounded: not finite if an element is not

    static __device__ __forceinline__ float magnitude_of(u32 bits) { return fabsf(__uint_as_float(bits)); }
    static __device__ __forceinline__ float magnitude_of(uint4 v)
    {
        return __fadd_rn(__fadd_rn(magnitude_of(v.x), magnitude_of(v.y)), __fadd_rn(magnitude_of(v.z), magnitude_of(v.w)));
    }
    __device__ __forceinline__ void init(void *, const SegmentArgs &) {}
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64)
    {
        sum = Between::of(tile[0]);
        size = magnitude_of(tile[0]);
#pragma unroll
        for (int u = 1; u < kUnroll; u++) { // in the order in which loads arrive
            sum.join(Between::of(tile[u]));
            size = __fadd_rn(size, magnitude_of(tile[u]));
        }
    }
    __device__ __forceinline__ void add(Bits bits, u64)
    {
        sum.join(Between::of(bits));
        size = __fadd_rn(size, magnitude_of(bits));
    }

    // The sum of the warp's lanes; NaN if a lane's is not known, or they do not fit. They are added as integers, which takes
    // two instructions: in units of which a lane has less than 2^46, so that all of them have less than 2^51.
    //
    // Let f be the exponent field of the largest sum, so that all are below 2^(f-1022). The anchor is 1.5 times 2^(f-1016), and
    // numbers near it have their last place at 2^(f-1068), the unit. Added to the anchor a sum is rounded to units, and the
    // difference of the two numbers' bits is how many there are.
    __device__ __forceinline__ double sum_of_warp() const
    {
        constexpr int kLow = 27; // bits of the lower part of a number of units: 32 of those fit a word
        const u32 signed_upper = (u32)__double2hiint(sum.high);
        const u32 upper = warp_max((signed_upper & 0x7ff00000u) + (7u << 20 | 1u << 19)); // the anchor's; the rest is zero
        const double anchor = __hiloint2double((int)upper, 0), moved = __dadd_rn(sum.high, anchor);
        const u64 bits = (u64)__double_as_longlong(moved);
        const u32 low = warp_add((u32)bits & ((1u << kLow) - 1));
        const u32 high = warp_add((u32)(bits >> kLow)) - (upper << (32 - kLow + 5)); // without the anchors of 32 lanes
        // the anchor plus all units, times the 2^896 that was left out
        const u32 top = upper + (896u << 20);
        const i64 all = (i64)(int)high * (1 << kLow) + (i64)((u64)top << 32 | low);
        const double total = __dsub_rn(__longlong_as_double(all), __hiloint2double((int)top, 0));
        // a zero is negative only if all lanes are: only -0.0 sums to -0.0
        const u32 sign = warp_and(signed_upper) & 1u << 31;
        const bool finite = __float_as_uint(size) < kInfinite, known = sum.low == sum.high;
        const bool fits = __dsub_rn(moved, anchor) == sum.high;
        if (!__all_sync(kFullMask, finite & known & fits))
            return __longlong_as_double(-1);
        return __hiloint2double((int)((u32)__double2hiint(total) | sign), __double2loint(total));
    }
    __device__ __forceinline__ void join_block()
    {
        constexpr int kWarps = kThreads / kWarp;
        __shared__ __align__(16) double of_warp[kWarps];
        const double mine = sum_of_warp();
        if (threadIdx.x % kWarp == 0)
            of_warp[threadIdx.x / kWarp] = mine;
        __syncthreads();
        Between parts[kWarps];
#pragma unroll
        for (int w = 0; w < kWarps; w++)
            parts[w] = {of_warp[w], of_warp[w]};
        sum = joined<kWarps>(parts);
    }
    __device__ __forceinline__ bool certain() const { return sum.low == sum.high; }
    __device__ __forceinline__ PlainSum plain() const { return {sum.high, 0}; }
};

} // namespace rk
