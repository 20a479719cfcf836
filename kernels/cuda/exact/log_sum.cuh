// Products of whole rows of f32, bf16 and f16: sums of logarithms (kernels/exact/log2.h), four elements side by side.
//
// A factor of up to 24 bits makes the first steps of a logarithm short. The significand m of 2^23 units becomes near = m c1, of
// 2^33 units and less than 2^25 more, which 32 bits hold; then r = near c2 is a number of 35 bits. A zero's logarithm is not
// used, so zeros, which are common, take the usual path. Other numbers that are not normal do not.
#pragma once

#include "kernels/cuda/exact/twosum.cuh"
#include "kernels/cuda/pass/chosen.cuh"
#include "kernels/cuda/pass/segment.cuh"
#include "kernels/exact/log2.h"

namespace rk {

// rk_log2_uncut of m / 2^23, an integer m from [2^23, 2^24)
__device__ __forceinline__ rk_u128 log2_of_24_bits(u32 m)
{
    const rk_u128 coarse = RK_AT(rk_log2_coarse, m >> 14 & 511);
    const u32 near = m * (1024 - ((u32)coarse & 1023)); // less 2^33
    const rk_u128 fine = RK_AT(rk_log2_fine, near >> 16);
    const u32 c2 = (1u << 18) - ((u32)fine & 1023);
    const u64 r = ((u64)near * c2 + ((u64)c2 << 33)) & ((1ull << 35) - 1); // without the one, which is 2^51 here
    return coarse + fine + rk_log2_series(r << 29, 1) + ((u64)1 << 15);
}

template <int kDtype> struct LogSum {
    static constexpr int kThreads = 128, kUnroll = 2;
    static constexpr bool kPrepares = false, kTiles = true;
    static constexpr Filling kFilling = kPadded;
    static constexpr int kWords = 7; // digits of the sum, elements with the sign bit
    static constexpr int kBlocksPerSm = 8;
    static constexpr u32 kMaxPerThread = 1u << 22; // exponents are summed in 32 bits
    static size_t shared_bytes() { return 0; }

    using Bits = FloatBits<kDtype>;
    static constexpr int kMantissa = kDtype == RP_F32 ? 23 : kDtype == RP_F16 ? 10 : 7, kBytes = Float<kDtype>::kBytes;
    static constexpr u32 kSign = 1u << (8 * kBytes - 1), kHidden = 1u << kMantissa, kInf = (kSign - 1) & ~(kHidden - 1);
    static constexpr int kBias = kDtype == RP_F16 ? 15 : 127;
    static constexpr Bits kPadding = (Bits)((u32)kBias << kMantissa); // 1.0

    u64 low, high; // of the fractions, in units of 2^-128
    int whole;     // what they carry, and the exponents
    u32 negatives, skipped, special;
    bool skip;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        low = high = 0;
        whole = 0;
        negatives = skipped = special = 0;
        skip = args.skip;
    }

    __device__ __forceinline__ void add_log(rk_u128 log2)
    {
        u64 sum[3] = {low, high, 0};
        add_wide(sum, (u64)log2 & ~0xffffull, (u64)(log2 >> 64), 0);
        low = sum[0];
        high = sum[1];
        whole += (int)sum[2];
    }
    // A normal number or a zero
    __device__ __forceinline__ void add_usual(u32 bits, u32 magnitude)
    {
        negatives += bits >> (8 * kBytes - 1);
        whole += (int)(magnitude >> kMantissa) - kBias;
        add_log(log2_of_24_bits((magnitude & (kHidden - 1)) << (23 - kMantissa) | 1u << 23));
    }
    __device__ __noinline__ static LogSum added(LogSum to, u32 bits)
    {
        const u32 magnitude = bits & (kSign - 1);
        if (magnitude > kInf) {
            to.skipped += to.skip;
            to.special |= to.skip ? 0 : RK_NAN;
        } else if (magnitude == kInf || magnitude == 0) {
            to.negatives += bits != magnitude;
            to.special |= magnitude ? RK_INF : RK_ZERO;
        } else if (magnitude >= kHidden) {
            to.add_usual(bits, magnitude);
        } else {
            const int shift = __clz((int)magnitude) - 8; // to 24 bits
            to.negatives += bits != magnitude;
            to.whole += 1 - kBias - kMantissa + 23 - shift;
            to.add_log(log2_of_24_bits(magnitude << shift));
        }
        return to;
    }

    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        const u32 words[4] = {v.x, v.y, v.z, v.w};
        constexpr int kPerWord = 4 / kBytes;
#pragma unroll 1
        for (int part = 0; part < kPerWord; part++) {                        // four elements at once, one of each word
            u32 bits[4], magnitude[4], most = 0, least = ~0u, least_1 = ~0u; // least_1: of those that are not zero, less 1
#pragma unroll
            for (int k = 0; k < 4; k++) {
                bits[k] = words[k] >> (8 * kBytes * part) & (2 * kSign - 1);
                magnitude[k] = bits[k] & (kSign - 1);
                most = max(most, magnitude[k]);
                least = min(least, magnitude[k]);
                least_1 = min(least_1, magnitude[k] - 1);
            }
            if (most >= kInf || least_1 < kHidden - 1) {
#pragma unroll 1
                for (int k = 0; k < 4; k++)
                    *this = added(*this, k < 2 ? bits[k ? 1 : 0] : bits[k == 2 ? 2 : 3]);
                continue;
            }
            special |= least == 0 ? RK_ZERO : 0;
#pragma unroll
            for (int k = 0; k < 4; k++)
                add_usual(bits[k], magnitude[k]);
        }
    }
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64)
    {
#pragma unroll 1
        for (int u = 0; u < kUnroll; u++)
            add_vector(chosen(tile, u), 0);
    }
    __device__ __forceinline__ void add_element(const void *p, u64) { *this = added(*this, *(const Bits *)p); }

    __device__ void flush(const SegmentArgs &, const unsigned char *, void *, u64 elements, u64 *partial)
    {
        constexpr int kWarps = kThreads / kWarp;
        __shared__ u64 of_warp[kWarps][4];
        __shared__ u32 skipped_sum[kWarps], special_sum[kWarps];
        u64 sum[3] = {low, high, (u64)(i64)whole};
#pragma unroll
        for (int d = kWarp / 2; d; d >>= 1)
            add_wide(sum, __shfl_xor_sync(kFullMask, sum[0], d), __shfl_xor_sync(kFullMask, sum[1], d),
                     __shfl_xor_sync(kFullMask, sum[2], d));
        const u32 warp = threadIdx.x / kWarp, all_special = warp_or(special), all_skipped = warp_sum(skipped);
        const u64 all_negatives = warp_sum((u64)negatives);
        if (threadIdx.x % kWarp == 0) {
            for (int k = 0; k < 3; k++)
                of_warp[warp][k] = sum[k];
            of_warp[warp][3] = all_negatives;
            special_sum[warp] = all_special;
            skipped_sum[warp] = all_skipped;
        }
        __syncthreads();
        if (threadIdx.x)
            return;
        u64 negative = all_negatives;
        u32 flags = all_special, left_out = all_skipped;
        for (int w = 1; w < kWarps; w++) {
            add_wide(sum, of_warp[w][0], of_warp[w][1], of_warp[w][2]);
            negative += of_warp[w][3];
            flags |= special_sum[w];
            left_out += skipped_sum[w];
        }
        // in units of 2^-112: the lowest 16 bits are zero
        const u64 limb[3] = {sum[0] >> 16 | sum[1] << 48, sum[1] >> 16 | sum[2] << 48, (u64)((i64)sum[2] >> 16)};
        for (int j = 0; j < 6; j++) // the top digit keeps the sign
            partial[j] = j == 5 ? (u64)((i64)limb[2] >> 32) : (u32)(limb[j / 2] >> (32 * (j & 1)));
        partial[6] = negative;
        write_tail(partial + kWords, elements, left_out, flags);
    }
};

} // namespace rk
