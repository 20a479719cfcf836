// Equal short rows in the registers of some lanes of a warp: what a lane loads, and its elements of 32 bits.
#pragma once

#include <type_traits>

#include "kernels/cuda/pass/elements.cuh"
#include "kernels/exact/line.h"

namespace rk {

// What a lane has requested of a row: kVectors vectors of 16 bytes, or, if 0, half a one, and the bytes of its mask. kFull: all
// rows have as many.
template <int kVectors, bool kFull, bool kMask> struct RowLoads {
    using Vector = std::conditional_t<kVectors == 0, uint2, uint4>;
    static constexpr int kCount = kVectors ? kVectors : 1, kPer = sizeof(Vector) / 4, kElements = kCount * kPer;
    using Mask = typename Width<kPer>::Bits; // of a vector's elements: a byte each

    Vector v[kCount]; // beyond the row its last vector once more
    Mask mask[kCount];

    // Vectors lane, lane + lanes, ... of row number `row`, of n vectors.
    __device__ __forceinline__ void load(const rp_parts &parts, u64 row, u32 lane, u32 lanes, u32 n)
    {
        const u64 first = row * n + (kFull ? lane : 0);
        const Vector *elements = (const Vector *)parts.elements + first;
        const Mask *masks = kMask ? (const Mask *)parts.mask + first : NULL;
#pragma unroll
        for (int u = 0; u < kCount; u++) {
            const u32 at = kFull ? u * lanes : min(lane + u * lanes, n - 1);
            v[u] = __ldcs(elements + at);
            if (kMask)
                mask[u] = __ldcs(masks + at);
        }
    }
};

// A lane's part of a row.
template <int kVectors, bool kFull, bool kMask> struct RowElements {
    using Loads = RowLoads<kVectors, kFull, kMask>;
    static constexpr int kCount = Loads::kCount, kPer = Loads::kPer, kElements = Loads::kElements;

    u32 x[kElements]; // beyond the row its last vector once more
    u32 in[kCount];   // which of these count: the upper bit of a byte for each

    __device__ __forceinline__ void take(const Loads &loads, u32 lane, u32 lanes, u32 n)
    {
#pragma unroll
        for (int k = 0; k < kElements; k++) {
            u32 w[kPer];
            memcpy(w, &loads.v[k / kPer], sizeof w);
            x[k] = w[k % kPer];
        }
        if constexpr (!kFull || kMask) {
#pragma unroll
            for (int u = 0; u < kCount; u++) {
                const u32 mask = kMask ? loads.mask[u] : ~0u, upper = ((mask & 0x7f7f7f7fu) + 0x7f7f7f7fu) | mask;
                in[u] = kFull || lane + u * lanes < n ? upper & 0x80808080u : 0;
            }
        }
    }
    __device__ __forceinline__ bool has(int k) const { return (kFull && !kMask) || (in[k / kPer] >> (8 * (k % kPer) + 7) & 1); }
};

} // namespace rk
