// A Walker (lines.cuh) of products of floats: sums of logarithms (kernels/exact/log2.h), one element after the other.
#pragma once

#include "kernels/cuda/pass/args.h"
#include "kernels/cuda/pass/elements.cuh"
#include "kernels/exact/log2.h"

namespace rk {

template <int kDtype> struct FloatProd {
    using Bits = typename Width<(kDtype == RP_F64 ? 8 : kDtype == RP_F32 ? 4 : 2)>::Bits;
    static constexpr bool kSlow = true;

    u64 sum[3]; // of the logarithms, two's complement in units of 2^-128; the lowest 16 bits are zero
    u64 negatives, skipped;
    u32 special;
    bool skip;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        sum[0] = sum[1] = sum[2] = 0;
        negatives = skipped = 0;
        special = 0;
        skip = args.skip;
    }
    __device__ __forceinline__ void add(Bits bits, u64)
    {
        const rk_format f = rk_format_of(kDtype);
        const Bits inf = (Bits)rk_inf_bits(f), hidden = (Bits)((Bits)1 << (f.precision - 1));
        const Bits magnitude = (Bits)(bits & ~(Bits)rk_sign_bit(f, 1));
        u64 significand = (u64)(Bits)((magnitude & (Bits)(hidden - 1)) | hidden) << (53 - f.precision);
        int exponent = (int)(magnitude >> (f.precision - 1)) - (1 - f.emin);
        if ((Bits)(magnitude - hidden) >= (Bits)(inf - hidden)) { // not a normal number
            if (magnitude == 0 || magnitude >= inf) {
                note(magnitude, inf, magnitude != bits);
                return;
            }
            const int shift = rk_clz64(magnitude) - 11; // to 53 bits
            significand = (u64)magnitude << shift;
            exponent = f.emin - (f.precision - 1) + 52 - shift;
        }
        negatives += magnitude != bits;
        const rk_u128 log2 = rk_log2_uncut(significand, kDtype != RP_F64);
        add_logarithm((u64)log2 & ~0xffffull, (u64)(log2 >> 64), (u64)(i64)exponent);
    }
    __device__ __forceinline__ void add_logarithm(u64 low, u64 middle, u64 high) { add_wide(sum, low, middle, high); }
    // A zero, an infinity or a NaN, whose sign is ignored
    __device__ __forceinline__ void note(Bits magnitude, Bits inf, bool negative)
    {
        if (magnitude > inf) {
            skipped += skip;
            special |= skip ? 0 : RK_NAN;
            return;
        }
        negatives += negative;
        special |= magnitude ? RK_INF : RK_ZERO;
    }
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        add_logarithm(__shfl_xor_sync(mask, sum[0], distance), __shfl_xor_sync(mask, sum[1], distance),
                      __shfl_xor_sync(mask, sum[2], distance));
        negatives += __shfl_xor_sync(mask, negatives, distance);
        skipped += __shfl_xor_sync(mask, skipped, distance);
        special |= __shfl_xor_sync(mask, special, distance);
    }
    __device__ __forceinline__ u64 word(const SegmentArgs &, u32 j) const
    {
        if (j == 6)
            return negatives;
        const u64 l = j < 2 ? sum[0] >> 16 | sum[1] << 48 : j < 4 ? sum[1] >> 16 | sum[2] << 48 : (u64)((i64)sum[2] >> 16);
        return j == 5 ? (u64)((i64)l >> 32) : (u32)(l >> (32 * (j & 1))); // the top digit keeps the sign
    }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &) const { return skipped; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &) const { return special; }
};

} // namespace rk
