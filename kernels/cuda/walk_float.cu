// Walking along floats: exact sums, of magnitudes too, and sums of squares, as a few doubles each (pair.cuh). Where those do
// not hold the sum, kFlagLost asks for the general way.
#include "kernels/cuda/pair.cuh"
#include "kernels/cuda/walk.cuh"

namespace rk {
namespace {

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

template <int kDtype> struct SumWalk {
    using Bits = FloatBits<kDtype>;
    static constexpr Bits kMagnitude = (Bits)((Bits)~(Bits)0 >> 1);

    Pair sum;
    u64 skipped;
    Bits keep; // of an element: all, or its magnitude
    bool skip;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        sum = {-0.0, -0.0, false};
        skipped = 0;
        keep = rk_is_abs(args.layout) ? kMagnitude : (Bits)~(Bits)0;
        skip = args.skip;
    }
    __device__ __forceinline__ void add(Bits bits, u64) { add_float<kDtype>(sum, bits & keep, skip, skipped); }
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        sum.join_lane(mask, distance);
        sum.lost |= __shfl_xor_sync(mask, (int)sum.lost, distance) != 0;
        skipped += __shfl_xor_sync(mask, skipped, distance);
    }
    __device__ __forceinline__ u64 word(const SegmentArgs &, u32 j) const
    {
        return digit_of_terms({sum.s, sum.t}, rk_e0(kDtype), j);
    }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &) const { return skipped; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &args) const
    {
        return (sum.beyond_negative_zero() ? (u32)kFlagNz : 0u) | (sum.lost ? (u32)kFlagLost : 0u);
    }
};

// A double x times itself, exactly high + low. False if that is not so: near underflow, or for infinities and NaNs.
__device__ __forceinline__ bool square_of(double x, double *high, double *low)
{
    *high = __dmul_rn(x, x);
    *low = __fma_rn(x, x, -*high);
    return x == 0 || (*high > 0x1p-900 && *high < INFINITY);
}

// With the sum, or without (layouts SQ*). Squares of f32 and narrower types are doubles; those of f64 two of them, and
// their sum takes three.
template <int kDtype> struct Moments64Walk { // the name allows __fma_rn (tests/lint/sass)
    using Bits = FloatBits<kDtype>;
    static constexpr bool kWide = kDtype == RP_F64;
    static constexpr int kTerms = kWide ? 3 : 2;

    Pair sum;
    double square[kTerms];
    u64 skipped;
    bool skip, squares_only, lost;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        sum = {-0.0, -0.0, false};
        for (double &s : square)
            s = 0;
        skipped = 0;
        skip = args.skip;
        squares_only = rk_sum_limbs(args.layout) == 0;
        lost = false;
    }
    // What `square` rounds off goes down from term to term; behind the last it is lost.
    __device__ __forceinline__ void add_to_squares(double x)
    {
#pragma unroll
        for (int k = 0; k < kTerms; k++)
            x = two_sum(square[k], x, square[k]);
        lost |= !(x == 0);
    }
    __device__ __forceinline__ void add(Bits bits, u64)
    {
        const double x = Float<kDtype>::value(bits);
        if (x != x && skip) {
            skipped++;
            return;
        }
        if (!squares_only)
            sum.add(x);
        double high, low;
        if (kWide) {
            lost |= !square_of(x, &high, &low);
            add_to_squares(low);
        } else {
            high = __dmul_rn(x, x);
        }
        add_to_squares(high);
    }
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        double other[kTerms];
#pragma unroll
        for (int k = 0; k < kTerms; k++)
            other[k] = __shfl_xor_sync(mask, square[k], distance);
#pragma unroll
        for (int k = kTerms - 1; k >= 0; k--)
            add_to_squares(other[k]);
        sum.join_lane(mask, distance);
        lost |= sum.lost;
        lost |= __shfl_xor_sync(mask, (int)lost, distance) != 0;
        skipped += __shfl_xor_sync(mask, skipped, distance);
    }
    __device__ __forceinline__ u64 word(const SegmentArgs &args, u32 j) const
    {
        const u32 sums = 2 * rk_sum_limbs(args.layout);
        return j < sums ? digit_of_terms({sum.s, sum.t}, rk_e0(kDtype), j)
                        : digit_of_terms(square, 2 * rk_e0(kDtype), j - sums);
    }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &) const { return skipped; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &) const
    {
        return (sum.beyond_negative_zero() ? (u32)kFlagNz : 0u) | (lost || sum.lost ? (u32)kFlagLost : 0u);
    }
};

template <template <int> class Walker> WalkFn pick(int dtype)
{
    switch (dtype) {
    case RP_F16:
        return walk_lines<false, Walker<RP_F16>>;
    case RP_BF16:
        return walk_lines<false, Walker<RP_BF16>>;
    case RP_F32:
        return walk_lines<false, Walker<RP_F32>>;
    default:
        return walk_lines<false, Walker<RP_F64>>;
    }
}

} // namespace

WalkFn walk_float_kernel(int layout, int dtype)
{
    return rk_square_limbs(layout) ? pick<Moments64Walk>(dtype) : pick<SumWalk>(dtype);
}

} // namespace rk
