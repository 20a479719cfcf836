// Equal rows of 1, 2, 4 or 8 vectors of 16 bytes: a warp reads kTileVectors vectors for each of its lanes, all of which lie
// together, and each lane computes a value from each of its vectors. Lanes that share a row join these values by shuffles, and
// each step halves the number in a lane: seven shuffles for 32 rows of 8 vectors, not 24.
#pragma once

#include "kernels/cuda/pass/common.cuh"

namespace rk {

constexpr u32 kTileVectors = 8; // that a thread reads at once: as many as StagedRows does

template <int kLog> struct TileRows {
    static constexpr u32 kLanes = 1u << kLog, kEach = kTileVectors >> kLog; // lanes of a row; rows that a lane ends with
    static constexpr u32 kRows = kWarp * kEach;                             // of a warp

    uint4 v[kTileVectors]; // beyond the last row, that row's last vector again

    // The rows from number `first` on, of `left` that there are.
    __device__ __forceinline__ void load(const void *elements, u64 first, u64 left)
    {
        const uint4 *p = (const uint4 *)elements + first * kLanes;
        const u32 last = (u32)min(left, (u64)kRows) * kLanes - 1, lane = threadIdx.x % kWarp;
#pragma unroll
        for (u32 u = 0; u < kTileVectors; u++)
            v[u] = load_vector(p + min(lane + u * kWarp, last));
    }

    // Number of row i of this lane, from the first one on.
    static __device__ __forceinline__ u32 row(u32 i)
    {
        const u32 lane = threadIdx.x % kWarp;
        return (lane % kLanes * kEach + i) * (kWarp / kLanes) + lane / kLanes;
    }
    // Number of vector u of this lane in its row
    static __device__ __forceinline__ u32 part() { return threadIdx.x % kLanes; }

    // x: the lane's value of each vector. Afterwards x[i] is the value of the lane's row i, for kEach rows. Whole warp. T has
    // join(T) and T of_lane(distance).
    template <class T> static __device__ __forceinline__ void join(T (&x)[kTileVectors])
    {
#pragma unroll
        for (u32 half = kTileVectors / 2, d = kLanes / 2; d; half /= 2, d /= 2) {
            const bool upper = threadIdx.x & d;
#pragma unroll
            for (u32 u = 0; u < half; u++) {
                const T give = upper ? x[u] : x[u + half];
                x[u] = upper ? x[u + half] : x[u];
                x[u].join(give.of_lane(d));
            }
        }
    }
};

} // namespace rk
