// Walking along floats: exact sums, of magnitudes too, and sums of squares, as a few doubles each (pair.cuh). Where those do
// not hold the sum, kFlagLost asks for the general way.
#include "kernels/cuda/certain.cuh"
#include "kernels/cuda/walk.cuh"

namespace rk {
namespace {

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

    // sum, norm1 or mean of `count` elements
    __device__ __forceinline__ bool value(const rp_spec &spec, u64 count, double *v) const
    {
        *v = sum.value();
        if (sum.lost || count == 0)
            return false;
        if (spec.op != RP_OP_MEAN)
            return true;
        double high, low = two_sum(sum.s, sum.t, high);
        return in_range(high) && count < 1ull << 53 && quotient(high, low, (double)count).round(v);
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
template <int kDtype> struct MomentsWalk {
    using Bits = FloatBits<kDtype>;
    static constexpr bool kWide = kDtype == RP_F64;
    static constexpr int kTerms = kWide ? 3 : 2;

    Pair sum;
    Terms<kTerms> squares;
    u64 skipped;
    bool skip, squares_only;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        sum = {-0.0, -0.0, false};
        squares.clear();
        skipped = 0;
        skip = args.skip;
        squares_only = rk_sum_limbs(args.layout) == 0;
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
        double high = __dmul_rn(x, x), low;
        if (kWide) {
            squares.lost |= !square_of(x, &high, &low);
            squares.add(low);
        }
        squares.add(high);
    }
    // Both lanes must get the same terms, not just the same sum: they add what the upper one has to what the lower one has.
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        const bool upper = threadIdx.x & distance;
        double more[kTerms];
#pragma unroll
        for (int k = 0; k < kTerms; k++) {
            const double other = __shfl_xor_sync(mask, squares.x[k], distance);
            more[k] = upper ? squares.x[k] : other;
            squares.x[k] = upper ? other : squares.x[k];
        }
#pragma unroll
        for (int k = kTerms - 1; k >= 0; k--)
            squares.add(more[k]);
        sum.join_lane(mask, distance);
        squares.lost |= sum.lost;
        squares.lost |= __shfl_xor_sync(mask, (int)squares.lost, distance) != 0;
        skipped += __shfl_xor_sync(mask, skipped, distance);
    }
    __device__ __forceinline__ u64 word(const SegmentArgs &args, u32 j) const
    {
        const u32 sums = 2 * rk_sum_limbs(args.layout);
        return j < sums ? digit_of_terms({sum.s, sum.t}, rk_e0(kDtype), j)
                        : digit_of_terms(squares.x, 2 * rk_e0(kDtype), j - sums);
    }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &) const { return skipped; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &) const
    {
        return (sum.beyond_negative_zero() ? (u32)kFlagNz : 0u) | (squares.lost || sum.lost ? (u32)kFlagLost : 0u);
    }

    // sumsq, norm2, var or std of `count` elements
    __device__ __forceinline__ bool value(const rp_spec &spec, u64 count, double *v) const
    {
        Terms<kTerms> q = squares;
        if (sum.lost || !q.gather())
            return false;
        if (spec.op == RP_OP_VAR || spec.op == RP_OP_STD)
            return spread(spec, q, count, v);
        *v = q.x[0];
        if (q.x[0] == 0) // then it is 0 exactly
            return count != 0;
        const Near near = {q.x[0], q.x[1]};
        return in_range(q.x[0]) && (spec.op == RP_OP_NORM2 ? root(near) : near).round(v);
    }
    // (n Q - S^2) / (n (n - ddof)), S the sum and Q that of the squares, or its root
    __device__ __forceinline__ bool spread(const rp_spec &spec, const Terms<kTerms> &q, u64 n, double *v) const
    {
        if (n <= spec.ddof || n >= 1u << 26) // n (n - ddof) is a double
            return false;
        Terms<4> top;
        top.clear();
#pragma unroll
        for (int k = 0; k < kTerms; k++)
            top.add_product(q.x[k], (double)n);
        top.add_product(sum.s, -sum.s);
        top.add_product(sum.s, -2 * sum.t);
        top.add_product(sum.t, -sum.t);
        if (!top.gather())
            return false;
        *v = 0;
        if (top.x[0] == 0)
            return true;
        const Near near = quotient(top.x[0], top.x[1], (double)(n * (n - spec.ddof)));
        return in_range(top.x[0]) && (spec.op == RP_OP_STD ? root(near) : near).round(v);
    }
};

template <template <int> class Walker> WalkFn pick(int dtype)
{
    switch (dtype) {
    case RP_F16:
        return walk_lines<kDoubles, Walker<RP_F16>>;
    case RP_BF16:
        return walk_lines<kDoubles, Walker<RP_BF16>>;
    case RP_F32:
        return walk_lines<kDoubles, Walker<RP_F32>>;
    default:
        return walk_lines<kDoubles, Walker<RP_F64>>;
    }
}

} // namespace

WalkFn walk_float_kernel(int layout, int dtype)
{
    return rk_square_limbs(layout) ? pick<MomentsWalk>(dtype) : pick<SumWalk>(dtype);
}

} // namespace rk
