// Exact sums as two doubles, where these suffice. That is fast where initialising and finishing a long accumulator would
// dominate.
//
// An element is added to a double, and what that rounds off is caught in a second one (TwoSum: Knuth, vol. 2, 4.2.2,
// theorem B); what that one rounds off is only tested. If it was always zero, the sum is exactly that of the two
// doubles, which one more addition rounds correctly. That holds unless the elements span more than about 100 binades
// less their own precision, or overflow: then `lost` is set, and the sum must be computed in another way.
#pragma once

#include "kernels/cuda/pass/elements.cuh"
#include "kernels/exact/limbs.h"

namespace rk {

// Elements as doubles.
template <int kDtype> struct Float;
template <> struct Float<RP_F32> {
    static constexpr int kBytes = 4;
    static __device__ __forceinline__ double value(u32 bits) { return (double)__uint_as_float(bits); }
};
template <> struct Float<RP_F64> {
    static constexpr int kBytes = 8;
    static __device__ __forceinline__ double value(u64 bits) { return __longlong_as_double((i64)bits); }
};
template <> struct Float<RP_F16> {
    static constexpr int kBytes = 2;
    static __device__ __forceinline__ double value(u32 bits) { return (double)__uint_as_float(F16Element::get(bits, 0)); }
};
template <> struct Float<RP_BF16> {
    static constexpr int kBytes = 2;
    static __device__ __forceinline__ double value(u32 bits) { return (double)__uint_as_float(Bf16Element::get(bits, 0)); }
};
template <int kDtype> using FloatBits = typename Width<Float<kDtype>::kBytes>::Bits;

// a + b = s + the returned error, exactly, unless something overflows: then the error is NaN
__device__ __forceinline__ double two_sum(double a, double b, double &s)
{
    s = __dadd_rn(a, b);
    double c = __dsub_rn(s, a);
    return __dadd_rn(__dsub_rn(a, __dsub_rn(s, c)), __dsub_rn(b, c));
}

// The exact sum of what was added is s + t, if not `lost`. All of nothing or -0.0: s is -0.0, and only then.
struct Pair {
    double s, t;
    bool lost;

    __device__ __forceinline__ void add(double x)
    {
        double e = two_sum(s, x, s);
        e = two_sum(t, e, t);
        lost |= !(e == 0);
    }
    // Several: what the first double rounds off is added twice, rounding down and up. Once these sums differ they stay apart,
    // so if they are equal nothing was rounded.
    template <int kCount> __device__ __forceinline__ void add(const double (&x)[kCount])
    {
        double low = t, high = t;
#pragma unroll
        for (int k = 0; k < kCount; k++) {
            const double e = two_sum(s, x[k], s);
            low = __dadd_rd(low, e);
            high = __dadd_ru(high, e);
        }
        lost |= !(low == high);
        t = high;
    }
    // Rounded correctly. -0.0 only if nothing else was added.
    __device__ __forceinline__ double value() const { return t == 0 ? s : __dadd_rn(s, t); }
    __device__ __forceinline__ void join(double s2, double t2)
    {
        double e = two_sum(s, s2, s), f = two_sum(t, t2, t);
        e = two_sum(t, e, t);
        lost |= !(e == 0 && f == 0);
    }
    // Join with another lane, which gets the result, too. The other lane's `lost` is not included.
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        double s2 = __shfl_xor_sync(mask, s, distance), t2 = __shfl_xor_sync(mask, t, distance);
        join(s2, t2);
    }
    // join_lanes for sums that one double holds; t is 0 in all lanes. False, and nothing is done, if it does not. Each lane
    // adds twice, rounding down and up. Once these sums differ they stay apart, unless another lane's infinity is added to
    // both. So if they are equal and finite in all lanes nothing was rounded.
    __device__ __forceinline__ bool join_doubles(int lanes)
    {
        double low = s, high = s; // high is -0.0 if all is -0.0, and only then
#pragma unroll 1
        for (int d = lanes / 2; d; d >>= 1) {
            const double other = __shfl_xor_sync(kFullMask, high, d);
            low = __dadd_rd(low, other);
            high = __dadd_ru(high, other);
        }
        if (!__all_sync(kFullMask, low == high && fabs(high) < INFINITY))
            return false;
        s = high;
        return true;
    }
    // The same for most other sums. Each s is cut in two, at the same bit in all lanes. The upper parts have so few bits that
    // the sum of 32 needs no rounding; the lower part is added to t, and these sums are joined twice, as above.
    //
    // Let 2^(e+1) be more than any |s|. The anchor is 1.5 times 2^(e+6), and numbers near it are multiples of 2^(e-46). An
    // upper part is at most 2^47 of those.
    __device__ __forceinline__ bool join_parts(int lanes)
    {
        const u32 most = warp_max((u32)__double2hiint(s) & 0x7ff00000u);
        const double anchor = __hiloint2double((int)(most + (6u << 20 | 1u << 19)), 0);
        double upper = __dsub_rn(__dadd_rn(s, anchor), anchor);
        const double lower = __dsub_rn(s, upper);
        double low = __dadd_rd(lower, t), high = __dadd_ru(lower, t);
#pragma unroll 1
        for (int d = lanes / 2; d; d >>= 1) {
            const double other = __shfl_xor_sync(kFullMask, high, d);
            upper = __dadd_rn(upper, __shfl_xor_sync(kFullMask, upper, d));
            low = __dadd_rd(low, other);
            high = __dadd_ru(high, other);
        }
        if (!__all_sync(kFullMask, low == high && most < 0x7f000000u)) // an anchor that is finite
            return false;
        t = two_sum(upper, high, s);
        return true;
    }
    __device__ __forceinline__ void join_lanes(int lanes)
    {
        if (__all_sync(kFullMask, t == 0) && join_doubles(lanes))
            return;
        if (join_parts(lanes))
            return;
#pragma unroll 1 // short code: cold instructions cost more than a loop
        for (int d = lanes / 2; d; d >>= 1)
            join_lane(kFullMask, d);
    }
    // Was anything other than -0.0 added?
    __device__ __forceinline__ bool beyond_negative_zero() const { return (u64)__double_as_longlong(s) != 1ull << 63; }
};

// Adds an element; with `skip` a NaN is counted instead.
template <int kDtype, class Number>
__device__ __forceinline__ void add_float(Pair &sum, FloatBits<kDtype> bits, bool skip, Number &skipped)
{
    double x = Float<kDtype>::value(bits);
    if (skip && x != x) {
        skipped++;
        x = -0.0;
    }
    sum.add(x);
}

// Lanes that hold one value each of kWarps warps; groups of them are copies.
template <int kWarps> constexpr int kLanesOfWarps = kWarps > 16 ? 32 : kWarps > 8 ? 16 : kWarps > 4 ? 8 : 4;

// Joins the pairs of all threads of a block, kWarps warps; every thread gets the result. Out of line, so that the second call
// finds its code in the instruction cache.
template <int kWarps> __device__ __noinline__ Pair join_block(Pair sum)
{
    constexpr int kLanes = kLanesOfWarps<kWarps>;
    __shared__ double pairs[kWarps][2];
    const int lane = threadIdx.x % kWarp, of = lane % kLanes;
    sum.join_lanes(kWarp);
    if (lane == 0) {
        pairs[threadIdx.x / kWarp][0] = sum.s;
        pairs[threadIdx.x / kWarp][1] = sum.t;
    }
    __syncthreads();
    bool lost = sum.lost;
    sum = {of < kWarps ? pairs[of][0] : -0.0, of < kWarps ? pairs[of][1] : -0.0, false};
    sum.join_lanes(kLanes); // every warp computes the same
    sum.lost = __syncthreads_or(lost || sum.lost);
    return sum;
}

// What a block leaves of its part of a row.
struct PairPartial {
    double s, t;
    u64 count; // elements, skipped NaNs not counted
    u64 flags; // kFlagLost: see the row's total instead; kFlagSkipped; of infinities and NaNs, which are not in the pair
};

// The mantissa of v, a multiple of 2^e0, in units of 2^(e0 + *offset).
__device__ inline i64 units_of(double v, int e0, int *offset)
{
    rk_number x = rk_number_of(rk_format_of(RP_F64), (u64)__double_as_longlong(v));
    int below = e0 - x.unit; // number of low bits that are zero
    u64 m = below > 0 ? below < 64 ? x.mantissa >> below : 0 : x.mantissa;
    *offset = below > 0 ? 0 : -below;
    return x.negative ? -(i64)m : (i64)m;
}

// Adds v, a multiple of 2^e0, to base-2^32 digits in shared memory.
__device__ inline void add_to_digits(double v, int e0, u64 *digits)
{
    int offset;
    const i64 units = units_of(v, e0, &offset);
    for (int j = offset / 32; units && j < offset / 32 + 3; j++)
        if (i64 d = digit_of(units, offset, j))
            atomicAdd(&digits[j], (u64)d);
}

// Word j of the digits of the sum of kTerms doubles, multiples of 2^e0.
template <int kTerms> __device__ __forceinline__ u64 digit_of_terms(const double (&term)[kTerms], int e0, u32 j)
{
    i64 d = 0;
#pragma unroll
    for (int k = 0; k < kTerms; k++) {
        int offset;
        i64 units = units_of(term[k], e0, &offset);
        d += digit_of(units, offset, (int)j);
    }
    return (u64)d;
}

} // namespace rk
