// Products of floats in two doubles (kernels/exact/product_pair.h): a thread's part of a row.
//
// Significands are multiplied as integers as long as a double holds the product exactly: those of two f32, four f16 or bf16. It
// becomes a double by bits, without a conversion, and then takes one step of three operations. Exponents are added up, of two
// f16 or bf16 at once. A zero is noted, and what is multiplied for it does not matter: so zeros, which are common, take the
// usual path. Other numbers that are not normal do not.
#pragma once

#include "kernels/cuda/exact/twosum.cuh"
#include "kernels/cuda/pass/segment.cuh"
#include "kernels/exact/product_pair.h"

namespace rk {

// What is known of some elements
struct ProductPart {
    rk_product_pair pair; // normalised, unless `special`
    u32 special;          // rk_state.special
    u32 skipped;          // NaNs that are left out
    u32 sign;             // in bit 31

    __device__ __forceinline__ void init()
    {
        pair = rk_pair_one();
        special = skipped = sign = 0;
    }
    __device__ __forceinline__ void join(const ProductPart &o)
    {
        rk_pair_join(&pair, o.pair);
        special |= o.special;
        skipped |= o.skipped;
        sign ^= o.sign;
    }
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        ProductPart o;
        o.pair.high = __shfl_xor_sync(mask, pair.high, distance);
        o.pair.low = __shfl_xor_sync(mask, pair.low, distance);
        o.pair.exponent = __shfl_xor_sync(mask, pair.exponent, distance);
        o.special = __shfl_xor_sync(mask, special, distance);
        o.skipped = __shfl_xor_sync(mask, skipped, distance);
        o.sign = __shfl_xor_sync(mask, sign, distance);
        join(o);
    }
    // The first thread gets the block's. Whole block, of kWarps warps.
    template <int kWarps> __device__ __forceinline__ void join_block()
    {
        __shared__ __align__(16) unsigned char space[kWarps * sizeof(ProductPart)]; // a part has no constructor to run
        ProductPart *of_warp = (ProductPart *)space;
        __syncthreads(); // the last call's are read
        for (int d = kWarp / 2; d; d /= 2)
            join_lane(kFullMask, d);
        if (threadIdx.x % kWarp == 0)
            of_warp[threadIdx.x / kWarp] = *this;
        __syncthreads();
        for (int w = 1; w < kWarps && threadIdx.x == 0; w++)
            join(of_warp[w]);
    }

    // As words in memory
    __device__ __forceinline__ void leave(ulonglong2 *to) const
    {
        to[0] = {rk_bits_of_double(pair.high), rk_bits_of_double(pair.low)};
        to[1] = {(u64)pair.exponent, (u64)(sign | (skipped ? 4u : 0u) | special) << 32};
    }
    __device__ __forceinline__ void take(const ulonglong2 *from)
    {
        const ulonglong2 a = __ldcg(from), b = __ldcg(from + 1);
        const u32 flags = (u32)(b.y >> 32);
        pair = {rk_double_of_bits(a.x), rk_double_of_bits(a.y), (int64_t)b.x};
        special = flags & 3;
        skipped = flags >> 2 & 1;
        sign = flags & 1u << 31;
    }

    // The value of a row as an f64, far from both ends of the range. False: it is not certain so.
    __device__ __forceinline__ bool usual_value(u64 elements, u64 *bits) const
    {
        constexpr i64 kFar = 1000;
        const double error = __dmul_rn((double)(elements + 1), 0x1p-100); // rk_pair_round's, and what these additions round
        const double up = __dadd_rn(pair.high, __dadd_rn(pair.low, error));
        const double down = __dadd_rn(pair.high, __dsub_rn(pair.low, error));
        *bits = rk_bits_of_double(up) + ((u64)pair.exponent << 52) + ((u64)(sign >> 31) << 63);
        return up == down && pair.exponent > -kFar && pair.exponent < kFar && elements < 1ull << 40;
    }
    // The value of a row of `elements`. False: it is not certain.
    __device__ __forceinline__ bool value(const FinishArgs &a, u64 elements, u64 *bits) const
    {
        const rk_format f = rk_format_of(a.spec.out);
        uint64_t word = 0;
        bool certain = true;
        if (!special && a.spec.out == RP_F64 && usual_value(elements, bits))
            return true;
        if (special)
            word = rk_special_product((int)special, (int)(sign >> 31), f);
        else
            certain = rk_pair_round(pair, elements, (int)(sign >> 31), f, &word);
        *bits = word;
        return certain;
    }
};

constexpr int kProductThreads = 256; // of a block

// Elements of a type
template <int kDtype> struct ProductElements {
    using Bits = FloatBits<kDtype>;
    static constexpr int kBytes = Float<kDtype>::kBytes;
    static constexpr int kFraction = kDtype == RP_F64 ? 52 : kDtype == RP_F32 ? 23 : kDtype == RP_F16 ? 10 : 7;
    static constexpr int kBias = kDtype == RP_F64 ? 1023 : kDtype == RP_F16 ? 15 : 127;
    static constexpr Bits kSign = (Bits)((Bits)1 << (8 * kBytes - 1)), kHidden = (Bits)((Bits)1 << kFraction);
    static constexpr Bits kInf = (Bits)((kSign - 1) & ~(kHidden - 1));
    static constexpr Bits kOne = (Bits)((Bits)kBias << kFraction);

    // product * 2^-kPlaces as a double, for an integer that has kPlaces bits and less than four more, 52 at most
    template <int kPlaces> static __device__ __forceinline__ double scaled(u64 product)
    {
        constexpr int kUpper = (1023 + 52 - kPlaces) << 20; // of a double whose last place is the unit
        const double base = __hiloint2double(kUpper, 0);
        return __dadd_rn(__hiloint2double((int)((u32)(product >> 32) | kUpper), (int)(u32)product), -base);
    }
};

template <int kDtype, bool kSkip> struct ProductSum : ProductElements<kDtype> {
    using Elements = ProductElements<kDtype>;
    using Bits = typename Elements::Bits;
    using Elements::kBias, Elements::kBytes, Elements::kFraction, Elements::kHidden, Elements::kInf, Elements::kSign;
    static constexpr int kThreads = kProductThreads, kUnroll = 4, kBlocksPerSm = 3;
    static constexpr bool kPrepares = false, kTiles = true;
    static constexpr Filling kFilling = kPadded;
    static constexpr u32 kMaxPerThread = 1u << 20; // exponents are summed in 32 bits
    static constexpr Bits kPadding = Elements::kOne;

    double high, low; // normalised but for the steps of a tile
    int exponent;
    u32 special, skipped;
    u32 sign; // in bit 31, of elements of two bytes in bit 15, too

    __device__ __forceinline__ void init(void *, const SegmentArgs &)
    {
        high = 1;
        low = 0;
        exponent = 0;
        special = skipped = sign = 0;
    }
    __device__ __forceinline__ ProductPart part() const
    {
        return {{high, low, exponent}, special, skipped, (kBytes == 2 ? sign ^ sign << 16 : sign) & 1u << 31};
    }

    __device__ __noinline__ static ProductSum added(ProductSum to, Bits bits)
    {
        const Bits magnitude = (Bits)(bits & (Bits)(kSign - 1));
        const u32 negative = magnitude != bits ? 1u << 31 : 0;
        if (magnitude > kInf) {
            to.skipped |= kSkip;
            to.special |= kSkip ? 0 : RK_NAN;
            return to;
        }
        to.sign ^= negative;
        if (magnitude == kInf || magnitude == 0) {
            to.special |= magnitude ? RK_INF : RK_ZERO;
            return to;
        }
        int above;
        rk_pair_times(&to.high, &to.low, rk_pair_factor(rk_format_of(kDtype), magnitude, &above));
        to.exponent += above + rk_pair_normalise(&to.high, &to.low);
        return to;
    }
    __device__ __forceinline__ void add_element(const void *p, u64) { *this = added(*this, *(const Bits *)p); }

    // Are all others normal? In line: a call would wait for the next tile.
    static __device__ __forceinline__ bool only_zeros(const uint4 (&tile)[kUnroll])
    {
        bool odd = false;
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            each_element<kBytes>(tile[u], [&](Bits bits, int) {
                const Bits magnitude = (Bits)(bits & (Bits)(kSign - 1));
                odd |= magnitude >= kInf || (Bits)(magnitude - 1) < (Bits)(kHidden - 1);
            });
        return !odd;
    }

    // Each element of a tile, one after the other. By value: a tile whose address is taken is always stored.
    struct Tile {
        uint4 v[kUnroll];
    };
    __device__ __noinline__ static ProductSum added_odd(ProductSum to, Tile tile)
    {
        for (int u = 0; u < kUnroll; u++)
            each_element<kBytes>(tile.v[u], [&](Bits bits, int) { to = added(to, bits); });
        return to;
    }

    __device__ __forceinline__ void add_tile(uint4 (&tile)[kUnroll], u64)
    {
        u32 w[4 * kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            w[4 * u] = tile[u].x;
            w[4 * u + 1] = tile[u].y;
            w[4 * u + 2] = tile[u].z;
            w[4 * u + 3] = tile[u].w;
        }
        if (any_odd(w)) {
            if (!only_zeros(tile)) {
                Tile odd;
#pragma unroll
                for (int u = 0; u < kUnroll; u++)
                    odd.v[u] = tile[u];
                *this = added_odd(*this, odd);
                return;
            }
            special |= RK_ZERO; // what is multiplied for them does not matter
        }
        multiply(w);
        exponent += rk_pair_normalise(&high, &low);
    }

  private:
    static constexpr u32 kFields = kDtype == RP_F16 ? 0x1f001fu : 0xff00ffu; // exponents of a word of two elements

    // Is one of them no normal number?
    static __device__ __forceinline__ bool any_odd(const u32 (&w)[4 * kUnroll])
    {
        if constexpr (kBytes == 2) { // an exponent of all bits carries into the bit above it, one of zero does not reach it
            constexpr u32 kLow = 0x10001u, kAbove = kFields + kLow;
            u32 carried = 0, reached = ~0u;
#pragma unroll
            for (u32 k = 0; k < 4 * kUnroll; k++) {
                const u32 fields = w[k] >> kFraction & kFields;
                carried |= fields + kLow;
                reached &= fields + kFields;
            }
            return (carried & kAbove) != 0 || (reached & kAbove) != kAbove;
        }
        u32 most = 0, least = ~0u; // twice the magnitudes; of f64 their upper halves
        constexpr int kBelow = kBytes == 8 ? 32 : 0;
        constexpr u32 kTop = 2 * (u32)(kInf >> kBelow), kBottom = 2 * (u32)(kHidden >> kBelow);
#pragma unroll
        for (u32 k = kBytes == 8; k < 4 * kUnroll; k += kBytes / 4) {
            most = max(most, 2 * w[k]);
            least = min(least, 2 * w[k]);
        }
        return most >= kTop || least < kBottom;
    }

    __device__ __forceinline__ void multiply(const u32 (&w)[4 * kUnroll])
    {
        u32 fields = 0;
#pragma unroll
        for (u32 k = 0; k < 4 * kUnroll; k += 2) {
            const u32 a = w[k], b = w[k + 1];
            double factor;
            if constexpr (kBytes == 8) {
                factor = __hiloint2double((int)((b & 0xfffffu) | 1023u << 20), (int)a);
                exponent += (int)(2 * b >> 21);
                sign ^= b;
            } else if constexpr (kBytes == 4) {
                factor = Elements::template scaled<2 * kFraction>((u64)significand(a) * significand(b));
                exponent += (int)(2 * a >> 24);
                exponent += (int)(2 * b >> 24);
                sign ^= a ^ b;
            } else {
                const u32 first = significand(a) * significand(a >> 16), second = significand(b) * significand(b >> 16);
                factor = Elements::template scaled<4 * kFraction>((u64)first * second);
                fields += (a >> kFraction & kFields) + (b >> kFraction & kFields);
                sign ^= a ^ b;
            }
            rk_pair_times(&high, &low, factor);
        }
        exponent += (int)((fields & 0xffffu) + (fields >> 16));
        exponent -= kBias * (16 / kBytes) * kUnroll;
    }
    static __device__ __forceinline__ u32 significand(u32 bits) { return (bits & (u32)(kHidden - 1)) | (u32)kHidden; }
};

} // namespace rk
