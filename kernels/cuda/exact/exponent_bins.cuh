// Exact sums of f32 and bf16 in private FP64 bins in shared memory.
//
// A thread owns 16 doubles, one for each 16 binades of the f32 range (bin = top four exponent bits). Elements of bin g are
// multiples of u = 2^(16g-150) below 2^39 u, so the sum of up to 2^14 of them is a multiple of u below 2^53 u: every
// addition is exact, for any data. Infinities and NaNs follow IEEE rules in bin 15; a bin that is still -0.0 has seen only
// -0.0. The bank of an access depends on the lane alone.
#pragma once

#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/segment.cuh"

namespace rk {

// Class of a double that stands for a bin: flags of a partial.
__device__ __forceinline__ u32 flags_of(double x)
{
    u32 high = (u32)__double2hiint(x), low = (u32)__double2loint(x);
    u32 flags = high != 0x80000000u || low ? (u32)kFlagNz : 0u;
    if ((high & 0x7ff00000u) == 0x7ff00000u)
        flags |= (high & 0xfffffu) | low ? RK_NAN : high >> 31 ? RK_NINF : RK_PINF;
    return flags;
}

// Element: F32Element or Bf16Element
template <class Element, bool kSkip, int kBlock = 256, int kLoads = 4> struct BinSum {
    static constexpr int kThreads = kBlock, kUnroll = kLoads, kBins = 16;
    static constexpr bool kPrepares = false, kTiles = false;
    static constexpr Filling kFilling = kUnfilled;
    static constexpr int kWords = kDigits32;
    static constexpr int kBlocksPerSm = 1024 / kThreads;
    static constexpr u32 kMaxPerThread = 1u << 14;
    static size_t shared_bytes() { return sizeof(double) * kBins * kThreads; }

    unsigned char *column; // bin g of this thread: column + g * kBinStride
    u32 skipped, keep;     // keep: all bits but, for sums of magnitudes, the sign
    static constexpr u32 kBinStride = sizeof(double) * kThreads;

    __device__ __forceinline__ void init(void *shared, const SegmentArgs &args)
    {
        column = (unsigned char *)((double *)shared + threadIdx.x);
        skipped = 0;
        keep = args.keep;
#pragma unroll
        for (int g = 0; g < kBins; g++)
            *(double *)(column + g * kBinStride) = -0.0;
    }

    __device__ __forceinline__ void add(float x)
    {
        if (kSkip && x != x) {
            skipped++;
            x = -0.0f;
        }
        x = __uint_as_float(__float_as_uint(x) & keep);
        // bits 27..30 are the bin number: the shift leaves the byte offset in place
        static_assert((kBinStride & (kBinStride - 1)) == 0 && kBinStride < 1u << 27);
        double *bin = (double *)(column + (__float_as_uint(x) / ((1u << 27) / kBinStride) & 15 * kBinStride));
        *bin = __dadd_rn(*bin, (double)x);
    }

    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        const u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int k = 0; k < Element::kPerWord; k++)
                add(__uint_as_float(Element::get(w[i], k)));
    }

    __device__ __forceinline__ void add_element(const void *p, u64) { add(__uint_as_float(Element::load(p))); }
    __device__ __forceinline__ void note(u32 more_skipped, u32) { skipped += more_skipped; }

    __device__ void flush(const SegmentArgs &, const unsigned char *, void *shared, u64 elements, u64 *partial)
    {
        __shared__ i64 sums[kBins];
        __shared__ u32 flags_sum, skipped_sum;
        if (threadIdx.x == 0)
            flags_sum = skipped_sum = 0;
        __syncthreads();
        const double *bins = (const double *)shared;
        int lane = threadIdx.x % kWarp;
        u32 flags = 0;
        for (int g = threadIdx.x / kWarp; g < kBins; g += kThreads / kWarp) {
            double scale = __hiloint2double((1023 + 150 - 16 * g) << 20, 0); // 2^(150-16g): one unit becomes 1
            i64 s = 0;                                                       // 2^53 units x 256 threads fit
#pragma unroll
            for (int k = lane; k < kThreads; k += kWarp) {
                double x = bins[g * kThreads + k];
                u32 f = flags_of(x);
                flags |= f;
                if (!(f & kFlagSpecial))
                    s += __double2ll_rn(x * scale);
            }
            s = warp_sum(s);
            if (lane == 0)
                sums[g] = s;
        }
        flags = warp_or(flags);
        if (lane == 0 && flags)
            atomicOr(&flags_sum, flags);
        if (kSkip && skipped)
            atomicAdd(&skipped_sum, skipped);
        __syncthreads();
        if (threadIdx.x < kDigits32) { // bin g counts units of 2^(16g) above e0: it touches digits g/2 .. g/2 + 2
            int j = threadIdx.x, from = 2 * j - 4 > 0 ? 2 * j - 4 : 0, to = 2 * j + 1 < kBins ? 2 * j + 1 : kBins - 1;
            i64 d = 0;
            for (int g = from; g <= to; g++)
                d += digit_of(sums[g], 16 * g, j);
            partial[j] = (u64)d;
        } else if (threadIdx.x == kDigits32) {
            write_tail(partial + kDigits32, elements, skipped_sum, flags_sum);
        }
    }
};

} // namespace rk
