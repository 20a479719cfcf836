// Rows of floats with weights, read by vectors of 16 bytes of the elements: an Accumulator of segment.cuh but for what becomes
// of the pairs. A row's weights lie like its elements, or one is for all. Where the weights of a vector begin within 16 bytes
// they are read one by one.
#pragma once

#include "kernels/cuda/exact/twosum.cuh"
#include "kernels/cuda/pass/segment.cuh"

namespace rk {

// `Sums` takes pairs as doubles, some at once, the k-th of which counts if `in` has bit k:
//
//   void begin(const SegmentArgs &)
//   void add(double (&x)[kCount], double (&w)[kCount], u32 in)
//
// kChoose: pairs may be left out.
template <class Sums, int kX, int kW, bool kChoose> struct PairRows : Sums {
    static constexpr int kThreads = 256, kUnroll = kX == kW && Float<kX>::kBytes >= 4 ? 4 : 2;
    static constexpr int kBlocksPerSm = Sums::kBlocksPerSm;
    static constexpr bool kPrepares = false, kTiles = true;
    static constexpr Filling kFilling = kUnfilled; // there are no weights behind a row
    static constexpr u32 kMaxPerThread = 1u << 30;
    static constexpr int kBytes = Float<kX>::kBytes, kBeside = Float<kW>::kBytes; // of an element, and of a weight
    static constexpr int kPer = 16 / kBytes, kVectors = kPer * kBeside / 16;      // of a vector of elements
    using XBits = FloatBits<kX>;
    using WBits = FloatBits<kW>;

    const u8 *weights, *mask; // of the row
    bool one, whole;          // one weight for all; vectors of weights begin where 16 bytes do

    // Before a row's part is added: the row at `p`.
    __device__ __forceinline__ void open(const SegmentArgs &args, u64 row, const unsigned char *p)
    {
        const u32 head = ((16 - ((u32)(uintptr_t)p & 15)) & 15) / kBytes;
        one = args.weights_each == 1;
        weights = args.weights + row * args.weights_each * kBeside;
        whole = !one && ((uintptr_t)(weights + head * kBeside) & 15) == 0;
        mask = kChoose && args.mask ? args.mask + row * args.row_len : NULL;
    }
    __device__ __forceinline__ void init(void *, const SegmentArgs &args) { Sums::begin(args); }

    static __device__ __forceinline__ uint4 vector_of_bits(const WBits (&bits)[16 / kBeside])
    {
        if constexpr (kBeside == 8)
            return make_uint4((u32)bits[0], (u32)(bits[0] >> 32), (u32)bits[1], (u32)(bits[1] >> 32));
        else if constexpr (kBeside == 4)
            return make_uint4(bits[0], bits[1], bits[2], bits[3]);
        else
            return make_uint4(bits[0] | (u32)bits[1] << 16, bits[2] | (u32)bits[3] << 16, bits[4] | (u32)bits[5] << 16,
                              bits[6] | (u32)bits[7] << 16);
    }
    // Those of the vector of elements that begins with this index
    __device__ __forceinline__ void load(u64 index, uint4 (&to)[kVectors]) const
    {
        const WBits *at = (const WBits *)weights + (one ? 0 : index);
#pragma unroll
        for (int v = 0; v < kVectors; v++) {
            if (whole) {
                to[v] = load_vector((const uint4 *)at + v);
                continue;
            }
            WBits bits[16 / kBeside];
#pragma unroll
            for (int e = 0; e < 16 / kBeside; e++)
                bits[e] = at[one ? 0 : v * (16 / kBeside) + e];
            to[v] = vector_of_bits(bits);
        }
    }
    __device__ __forceinline__ u32 masked(u64 index) const
    {
        u32 in = (1u << kPer) - 1;
        if constexpr (kChoose)
#pragma unroll
            for (int e = 0; e < kPer; e++)
                in &= mask && !mask[index + e] ? ~(1u << e) : ~0u;
        return in;
    }
    __device__ __forceinline__ void add_pairs(uint4 v, const uint4 (&beside)[kVectors], u32 in)
    {
        double x[kPer], w[kPer];
        each_element<kBytes>(v, [&](XBits bits, int e) { x[e] = Float<kX>::value(bits); });
#pragma unroll
        for (int k = 0; k < kVectors; k++)
            each_element<kBeside>(beside[k], [&](WBits bits, int e) { w[k * (16 / kBeside) + e] = Float<kW>::value(bits); });
        Sums::add(x, w, in);
    }
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64 first)
    {
        constexpr u32 kApart = kThreads * kPer;
        uint4 beside[kUnroll][kVectors];
        u32 in[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            load(first + u * kApart, beside[u]);
            in[u] = masked(first + u * kApart);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            add_pairs(tile[u], beside[u], in[u]);
    }
    __device__ __forceinline__ void add_vector(uint4 v, u64 first)
    {
        uint4 beside[kVectors];
        load(first, beside);
        add_pairs(v, beside, masked(first));
    }
    __device__ __forceinline__ void add_element(const void *p, u64 index)
    {
        double x[1] = {Float<kX>::value(*(const XBits *)p)},
               w[1] = {Float<kW>::value(((const WBits *)weights)[one ? 0 : index])};
        Sums::add(x, w, !kChoose || !mask || mask[index]);
    }
};

} // namespace rk
