// Counting elements that are not zero (a NaN is nonzero unless it is skipped, -0.0 is zero), or NaNs.
#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/tile.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

enum Kind { kInteger, kFloat, kFloatSkip };

template <int kBytes, Kind kKind> struct Count {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr bool kPrepares = false, kTiles = false;
    static constexpr Filling kFilling = kUnfilled;
    static constexpr int kWords = 1;
    static constexpr int kBlocksPerSm = 4;
    static constexpr u32 kMaxPerThread = 1u << 30;
    static size_t shared_bytes() { return 0; }

    static constexpr bool kStops = kKind == kInteger && kBytes == 1; // bools are counted by this one

    using Bits = typename Width<kBytes>::Bits;
    static constexpr u64 kSign = (u64)1 << (8 * kBytes - 1);

    u32 nonzero, skipped; // per thread, so 32 bits do
    u64 inf;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        nonzero = skipped = 0;
        inf = args.inf_bits;
    }

    __device__ __forceinline__ void add(u64 bits)
    {
        if (kKind != kInteger)
            bits &= kSign - 1;
        bool skip = kKind == kFloatSkip && bits > inf;
        skipped += skip;
        nonzero += bits != 0 && !skip;
    }

    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        each_element<kBytes>(v, [&](u64 bits, int) { add(bits); });
    }

    __device__ __forceinline__ void add_element(const void *p, u64) { add(*(const Bits *)p); }
    __device__ __forceinline__ void add(Bits bits, u64) { add(bits); }

    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        nonzero += __shfl_xor_sync(mask, nonzero, distance);
        skipped += __shfl_xor_sync(mask, skipped, distance);
    }
    __device__ __forceinline__ void join_warp()
    {
        nonzero = warp_sum(nonzero);
        skipped = warp_sum(skipped);
    }
    __device__ __forceinline__ void join(const Count &o)
    {
        nonzero += o.nonzero;
        skipped += o.skipped;
    }
    __device__ __forceinline__ bool stops(const SegmentArgs &args, u32 added) const
    {
        return args.decides == RK_DECIDES_TRUE ? nonzero != 0 : args.decides == RK_DECIDES_FALSE && nonzero < added;
    }
    // Counting NaNs skips none of them.
    __device__ __forceinline__ static bool of_nans(const SegmentArgs &args) { return args.layout == RP_STATE_NANS; }
    __device__ __forceinline__ u64 word(const SegmentArgs &args, u32) const { return of_nans(args) ? skipped : nonzero; }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &args) const { return of_nans(args) ? 0 : skipped; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &args) const
    {
        return of_nans(args) && args.nan_error && skipped ? (u32)kFlagSkipped : 0u;
    }

    // Counting NaNs has no light variant.
    __device__ __forceinline__ int value(const FinishArgs &a, u64 elements, u64 *value) const
    {
        if (skipped && a.spec.nan == RP_NAN_ERROR)
            return RP_NAN;
        return count_value(a, nonzero, elements - skipped, value);
    }

    __device__ void flush(const SegmentArgs &args, const unsigned char *, void *, u64 elements, u64 *partial)
    {
        __shared__ u64 total, skipped_total;
        if (threadIdx.x == 0)
            total = skipped_total = 0;
        __syncthreads();
        u64 n = warp_sum((u64)nonzero), s = warp_sum((u64)skipped);
        if (threadIdx.x % kWarp == 0) {
            atomicAdd(&total, n);
            atomicAdd(&skipped_total, s);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            const bool nans = of_nans(args);
            partial[0] = nans ? skipped_total : total;
            skipped = skipped_total != 0;
            write_tail(partial + kWords, elements, nans ? 0 : skipped_total, flags(args));
        }
    }
};

template <int kBytes> SegmentKernel pick_float(bool skip)
{
    return skip ? light_kernels<Count<kBytes, kFloatSkip>>() : light_kernels<Count<kBytes, kFloat>>();
}

} // namespace

template <CountPart kPart> SegmentKernel count_part(int bytes, bool skip)
{
    if constexpr (kPart == CountPart::Float)
        return bytes == 2 ? pick_float<2>(skip) : bytes == 4 ? pick_float<4>(skip) : pick_float<8>(skip);
    else
        return bytes == 1   ? light_kernels<Count<1, kInteger>>()
               : bytes == 2 ? light_kernels<Count<2, kInteger>>()
               : bytes == 4 ? light_kernels<Count<4, kInteger>>()
                            : light_kernels<Count<8, kInteger>>();
}

#define PARTS(X) X(Float) X(Integer)
#define PART(of) template SegmentKernel count_part<CountPart::of>(int bytes, bool skip);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
