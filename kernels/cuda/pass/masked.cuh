// Long rows with a mask, by vectors: blocks share a row, a thread takes every w.walkers-th vector of 16 bytes with the bytes of
// its mask, several at a time, and requests the next ones before it adds these. Rows begin with whole vectors, and their masks
// with whole words of as many bytes as a vector has elements.
#pragma once

#include "kernels/cuda/pass/lines.cuh"

namespace rk {

template <int kBytes, int kVectors> struct MaskedVectors {
    static constexpr int kPer = 16 / kBytes;
    using Mask = typename Width<kPer>::Bits; // of a vector's elements: a byte each

    uint4 data[kVectors];
    Mask in[kVectors]; // zero beyond the row

    // Of those at `elements` and `mask`, which are n vectors: number v, v + step, ...
    __device__ __forceinline__ void load(const uint8_t *elements, const uint8_t *mask, u64 v, u32 step, u64 n)
    {
#pragma unroll
        for (int u = 0; u < kVectors; u++) {
            const u64 at = min(v + (u64)u * step, n - 1);
            data[u] = load_vector((const uint4 *)elements + at);
            in[u] = __ldcs((const Mask *)mask + at);
        }
#pragma unroll
        for (int u = 0; u < kVectors; u++)
            in[u] = v + (u64)u * step < n ? in[u] : (Mask)0;
    }
    __device__ __forceinline__ bool has(int u, int k) const { return (in[u] >> (8 * k) & 255) != 0; }
};

// add(vectors, v) for a thread's part of a row: w.walkers of them share it.
template <int kBytes, int kVectors, class Add>
__device__ __forceinline__ void each_masked(const WalkArgs &w, const rk_line &line, u64 walker, Add add)
{
    using Vectors = MaskedVectors<kBytes, kVectors>;
    const uint8_t *elements = w.parts.elements + line.first * kBytes, *mask = w.parts.mask + line.first;
    const u64 n = line.n / Vectors::kPer, many = (u64)kVectors * w.walkers;
    Vectors next;
    u64 v = walker;
    if (v < n)
        next.load(elements, mask, v, w.walkers, n);
#pragma unroll 1
    for (; v < n; v += many) {
        const Vectors now = next;
        if (v + many < n)
            next.load(elements, mask, v + many, w.walkers, n);
        add(now, v);
    }
}

// Rows of any Walker (lines.cuh). kLight: as in walk_lines.
template <bool kLight, class Walker> __global__ void __launch_bounds__(kColumnThreads)
    walk_masked(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g, const __grid_constant__ WalkArgs w,
                u64 *partials)
{
    using Bits = typename Walker::Bits;
    constexpr int kBytes = sizeof(Bits), kVectors = 4, kPer = 16 / kBytes, kWarps = kColumnThreads / kWarp;
    __shared__ __align__(16) unsigned char space[kWarps * sizeof(Walker)]; // a Walker has no constructor to run
    __shared__ u64 taken_of_warp[kWarps];
    Walker *of_warp = (Walker *)space, x;
    const Share s = share_of(a, w, blockIdx.x);
    u64 taken = 0;
    x.init(NULL, g);
    each_masked<kBytes, kVectors>(w, s.line, (u64)s.team * w.team + threadIdx.x, [&](const auto &now, u64 v) {
#pragma unroll
        for (int u = 0; u < kVectors; u++, v += w.walkers)
            each_element<kBytes>(now.data[u], [&](Bits bits, int k) {
                if (now.has(u, k)) {
                    x.add(bits, v * kPer + k);
                    taken++;
                }
            });
    });
    auto join = [&](u32 lanes) {
        for (u32 d = lanes / 2; d; d /= 2) {
            x.join_lane(kFullMask, d);
            taken += __shfl_xor_sync(kFullMask, taken, d);
        }
    };
    join(kWarp);
    if (threadIdx.x % kWarp == 0) {
        of_warp[threadIdx.x / kWarp] = x;
        taken_of_warp[threadIdx.x / kWarp] = taken;
    }
    __syncthreads();
    if (threadIdx.x >= kWarp)
        return;
    x = of_warp[threadIdx.x % kWarps];
    taken = taken_of_warp[threadIdx.x % kWarps];
    join(kWarps);
    if (threadIdx.x)
        return;
    if constexpr (kLight) {
        if (w.values) {
            finish_walk(x, a, w.first_line + s.number, taken);
            return;
        }
    }
    u64 *out = partial_of(a, w, partials, s);
    for (u32 j = 0; j < a.plan.all; j++)
        out[j] = word_of(x, g, a.plan.own, taken, j);
}

} // namespace rk
