// Sums of floats, and of their squares, in a few doubles that need not hold them. What these do not hold lies between two
// bounds, which are mostly equal. Nothing is kept beside them, so a block begins and ends soon.
//
// f32 and narrower: of a square the upper part is what an addition to a large number, the anchor, keeps of it
// (exponent_window.cuh). These add up without rounding. What is left of it is exact, too; that is added rounding down and up.
#pragma once

#include "kernels/cuda/exact/enclosed.cuh"
#include "kernels/cuda/exact/exponent_window.cuh"
#include "kernels/cuda/pass/chosen.cuh"

namespace rk {

// Squares of elements below a limit. If F is its exponent field, elements are below 2^(F-127), and 2^13 squares have a sum of
// at most 2^(2F-241). With the anchor at 2^(2F-240), upper parts are multiples of 2^(2F-292) and off by half of that each. So
// they do not leave the binade of the anchor. The rest of a square is at most 2^(2F-293) and a multiple of the last place of
// the square, which has 48 bits. So it is a double.
//
// All finite f16 (kHalf) are below the limit of F = 143. Rests are multiples of 2^-48 then, at most 2^-7 each, and one double
// has the sum of 2^12.
template <bool kHalf> struct SquareWindow {
    static constexpr u32 kFull = kHalf ? 1u << 12 : 1u << 13, kRoom = 2; // kRoom: binades above those that it is opened for

    Enclosed all;        // but for what is below
    double upper, begin; // begin: the anchor
    double rest;         // kHalf
    u32 limit, count;    // bits of f32; elements

    __device__ __forceinline__ void init()
    {
        all.clear();
        open(0);
    }
    // For magnitudes up to `most`, as bits of f32
    __device__ __forceinline__ void open(u32 most)
    {
        const u32 field = kHalf ? 143 : min((most >> 23) + 1 + kRoom, 255u);
        limit = field << 23;
        begin = upper = Window::power(2 * (int)field - 240);
        rest = 0;
        count = 0;
    }
    // Is there room for n elements up to `most`?
    __device__ __forceinline__ bool holds(u32 most, u32 n) const { return most < limit && count + n <= kFull; }
    __device__ __forceinline__ void move(u32 most)
    {
        all.add(__dsub_rn(upper, begin));
        if (kHalf)
            all.add(rest);
        open(most);
    }
    __device__ __forceinline__ void add(double x)
    {
        const double with = __fma_rn(x, x, upper), kept = __dsub_rn(with, upper), below = __fma_rn(x, x, -kept);
        if (kHalf)
            rest = __dadd_rn(rest, below);
        else
            all.rest.join({below, below});
        upper = with;
    }
};

// What threads, warps and blocks leave of their elements
struct NearSums {
    Enclosed sum, squares;

    __device__ __forceinline__ void clear()
    {
        sum.clear();
        squares.clear();
    }
    __device__ __forceinline__ void join(const NearSums &o)
    {
        sum.join(o.sum);
        squares.join(o.squares);
    }
    __device__ __forceinline__ void join_lanes(int lanes)
    {
#pragma unroll 1 // short code: cold instructions cost more than a loop
        for (int d = lanes / 2; d; d >>= 1)
            join({sum.of_lane(d), squares.of_lane(d)});
    }
    __device__ __forceinline__ bool exact() const { return sum.exact() && squares.exact(); }
};

// Those of all threads of a block, kWarps warps; every thread gets the result. Out of line, so that the second call finds its
// code in the instruction cache.
template <int kWarps, class Sums> __device__ __noinline__ Sums join_of_block(Sums a)
{
    constexpr int kLanes = kLanesOfWarps<kWarps>;
    __shared__ Sums of_warp[kWarps];
    const int of = (int)threadIdx.x % kLanes;
    a.join_lanes(kWarp);
    if (threadIdx.x % kWarp == 0)
        of_warp[threadIdx.x / kWarp] = a;
    __syncthreads();
    if (of < kWarps)
        a = of_warp[of];
    else
        a.clear();
    a.join_lanes(kLanes);
    return a;
}
// The same of sums and squares, by shared memory and a warp for each.
template <int kThreads> struct NearRoom {
    EnclosedOfBlock<kThreads> sum, squares;
    NearSums all;
};
template <int kThreads> __device__ __noinline__ NearSums join_block(NearSums a, NearRoom<kThreads> &room)
{
    static_assert(kThreads >= 2 * kWarp);
    room.sum.put(a.sum);
    room.squares.put(a.squares);
    __syncthreads();
    const u32 warp = threadIdx.x / kWarp;
    if (warp < 2) {
        const Enclosed of = (warp ? room.squares : room.sum).joined();
        if (threadIdx.x % kWarp == 0)
            (warp ? room.all.squares : room.all.sum) = of;
    }
    __syncthreads();
    return room.all;
}

// An accumulator (segment.cuh)
template <class Element, int kBlock, int kLoads> struct NearMoments32 {
    static constexpr int kThreads = kBlock, kUnroll = kLoads, kPerVector = 4 * Element::kPerWord;
    static constexpr bool kPrepares = false, kTiles = true, kHalf = std::is_same_v<Element, F16>;
    static constexpr Filling kFilling = kPadded;
    using Bits = std::conditional_t<Element::kPerWord == 1, u32, u16>;
    static constexpr Bits kPadding = (Bits)(1u << (8 * sizeof(Bits) - 1)); // -0.0

    Enclosed sum;
    SquareWindow<kHalf> squares;
    u32 flags; // of infinities and NaNs: then the sums are void
    bool one_infinity;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        sum.clear();
        squares.init();
        flags = 0;
        one_infinity = rk_is_unsigned_sum(args.layout);
    }
    template <class F> static __device__ __forceinline__ void each(uint4 v, F f)
    {
        const u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < kPerVector; i++)
            f(Element::get(w[i / Element::kPerWord], i % Element::kPerWord));
    }
    // The warp moves its windows together. A tile of f16 has a sum of at most 2^22 in multiples of 2^-24, if they are finite.
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64)
    {
        u32 most = 0;
        if (!kHalf)
            most = most_of_warp(tile);
        if (!squares.holds(most, kUnroll * kPerVector))
            squares.move(most);
        squares.count += kUnroll * kPerVector;
        Between all = {-0.0, -0.0};
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            each(tile[u], [&](u32 bits) {
                const double x = (double)__uint_as_float(bits);
                if (kHalf)
                    all.high = __dadd_rn(all.high, x);
                else
                    all.join({x, x});
                squares.add(x);
            });
        if ((kHalf || all.low == all.high) && fabs(all.high) < INFINITY)
            sum.add(all.high);
        else // rare
#pragma unroll 1
            for (int u = 0; u < kUnroll; u++)
                each(chosen(tile, u), [&](u32 bits) { add_to_sum(bits); });
    }
    static __device__ __forceinline__ u32 most_of_warp(const uint4 (&tile)[kUnroll])
    {
        float most = 0; // a NaN is not noted here
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            each(tile[u], [&](u32 bits) { most = fmaxf(most, fabsf(__uint_as_float(bits))); });
        return warp_max(__float_as_uint(most));
    }
    __device__ __forceinline__ void add_to_sum(u32 bits)
    {
        const u32 magnitude = bits & 0x7fffffffu;
        if (magnitude < kInfinite)
            sum.add((double)__uint_as_float(bits));
        else
            flags |= magnitude > kInfinite ? RK_NAN : (int)bits < 0 && !one_infinity ? RK_NINF : RK_PINF;
    }
    __device__ __forceinline__ void add_element(const void *p, u64)
    {
        const u32 bits = Element::load(p);
        if (!squares.holds(bits & 0x7fffffffu, 1))
            squares.move(bits & 0x7fffffffu);
        squares.count++;
        squares.add((double)__uint_as_float(bits));
        add_to_sum(bits);
    }
    // The thread's
    __device__ __forceinline__ NearSums ended()
    {
        squares.move(0);
        return {sum, squares.all};
    }
};

} // namespace rk
