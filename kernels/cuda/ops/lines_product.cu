// Products: floats as sums of logarithms (kernels/exact/log2.h), integers as they are. Walking along the factors of lines;
// whole rows of f32 and narrower: log_sum.cuh; values of whole rows: products_float.cu.
#include "kernels/cuda/exact/log_sum.cuh"
#include "kernels/cuda/exact/log_walker.cuh"
#include "kernels/cuda/pass/lines.cuh"

namespace rk {
namespace {

template <int kBytes> struct IntProd {
    using Bits = typename Width<kBytes>::Bits;

    u64 wrapped, magnitude, negatives; // RK_PROD_*
    u64 sign;                          // bit of a signed type
    u32 special;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        wrapped = magnitude = 1;
        negatives = 0;
        sign = rk_is_signed(args.dtype) ? 1ull << (8 * kBytes - 1) : 0;
        special = 0;
    }
    __device__ __forceinline__ void add(Bits bits, u64)
    {
        const u64 x = (bits ^ sign) - sign; // extended
        const bool negative = (bits & sign) != 0;
        wrapped *= x;
        negatives += negative;
        if (bits)
            magnitude = rk_times(magnitude, negative ? 0 - x : x);
        else
            special = RK_ZERO;
    }
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        wrapped *= __shfl_xor_sync(mask, wrapped, distance);
        magnitude = rk_times(magnitude, __shfl_xor_sync(mask, magnitude, distance));
        negatives += __shfl_xor_sync(mask, negatives, distance);
        special |= __shfl_xor_sync(mask, special, distance);
    }
    __device__ __forceinline__ u64 word(const SegmentArgs &, u32 j) const
    {
        return j == RK_PROD_WRAPPED ? wrapped : j == RK_PROD_MAGNITUDE ? magnitude : negatives;
    }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &) const { return 0; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &) const { return special; }
    __device__ __forceinline__ int value(const FinishArgs &, u64, u64 *value) const
    {
        *value = wrapped;
        return RP_OK;
    }
};

template <bool kLight, class Walker> SegmentKernel walks()
{
    SegmentKernel k = {};
    k.walk = walk_lines<kLight, Walker>;
    return k;
}

} // namespace

SegmentKernel prod_kernel(int dtype)
{
    switch (dtype) {
    case RP_F16:
        return row_and_walk_kernels<LogSum<RP_F16>, FloatProd<RP_F16>>();
    case RP_BF16:
        return row_and_walk_kernels<LogSum<RP_BF16>, FloatProd<RP_BF16>>();
    case RP_F32:
        return row_and_walk_kernels<LogSum<RP_F32>, FloatProd<RP_F32>>();
    case RP_F64:
        return walks<false, FloatProd<RP_F64>>();
    default:
        break;
    }
    switch (rk_bytes(dtype)) {
    case 1:
        return walks<true, IntProd<1>>();
    case 2:
        return walks<true, IntProd<2>>();
    case 4:
        return walks<true, IntProd<4>>();
    default:
        return walks<true, IntProd<8>>();
    }
}

} // namespace rk
