// Exact sums of f32, bf16 and f16 by doubles. f32 and bf16: exponent_bins.cuh. f16: all elements are multiples of 2^-24
// below 2^16, so one double takes 2^13 of them exactly; no bins are needed.
#include "kernels/cuda/exact/exponent_bins.cuh"

namespace rk {
namespace {

template <bool kSkip> struct HalfSum {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr bool kPrepares = false, kTiles = false;
    static constexpr Filling kFilling = kUnfilled;
    static constexpr int kWords = kDigits32;
    static constexpr int kBlocksPerSm = 4;
    static constexpr u32 kMaxPerThread = 1u << 13;
    static constexpr int kOffset = -24 - RK_E0_32; // digits count units of 2^e0, the sum units of 2^-24
    static size_t shared_bytes() { return 0; }

    double sum;
    u32 skipped, keep; // as in BinSum

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        sum = -0.0;
        skipped = 0;
        keep = args.keep;
    }

    __device__ __forceinline__ void add(float x)
    {
        if (kSkip && x != x) {
            skipped++;
            x = -0.0f;
        }
        sum = __dadd_rn(sum, (double)__uint_as_float(__float_as_uint(x) & keep));
    }

    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        const u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            add(__uint_as_float(F16Element::get(w[i], 0)));
            add(__uint_as_float(F16Element::get(w[i], 1)));
        }
    }

    __device__ __forceinline__ void add_element(const void *p, u64) { add(__uint_as_float(F16Element::load(p))); }

    __device__ void flush(const SegmentArgs &, const unsigned char *, void *, u64 elements, u64 *partial)
    {
        __shared__ i64 sums[kThreads / kWarp];
        __shared__ u32 flags_sum, skipped_sum;
        if (threadIdx.x == 0)
            flags_sum = skipped_sum = 0;
        __syncthreads();
        u32 flags = flags_of(sum);
        i64 s = flags & kFlagSpecial ? 0 : __double2ll_rn(sum * 0x1p24);
        s = warp_sum(s); // 2^53 units x 256 threads fit
        flags = warp_or(flags);
        if (threadIdx.x % kWarp == 0) {
            sums[threadIdx.x / kWarp] = s;
            atomicOr(&flags_sum, flags);
        }
        if (kSkip && skipped)
            atomicAdd(&skipped_sum, skipped);
        __syncthreads();
        if (threadIdx.x < kDigits32) {
            i64 total = 0;
            for (int w = 0; w < kThreads / kWarp; w++)
                total += sums[w];
            partial[threadIdx.x] = (u64)digit_of(total, kOffset, threadIdx.x);
        } else if (threadIdx.x == kDigits32) {
            write_tail(partial + kDigits32, elements, skipped_sum, flags_sum);
        }
    }
};

} // namespace

SegmentKernel sum_float_kernel(int dtype, bool skip)
{
    if (dtype == RP_F16)
        return skip ? segment_kernel<HalfSum<true>>() : segment_kernel<HalfSum<false>>();
    if (dtype == RP_BF16)
        return skip ? segment_kernel<BinSum<Bf16Element, true>>() : segment_kernel<BinSum<Bf16Element, false>>();
    return skip ? segment_kernel<BinSum<F32Element, true>>() : segment_kernel<BinSum<F32Element, false>>();
}

} // namespace rk
