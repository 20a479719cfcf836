// Equal short rows, a thread a row, several rows a thread. Rows of 8 bytes stay in registers. Longer ones, of whole vectors of
// 16 bytes, come through shared memory: a warp reads what lies together, then each of its threads goes along its own rows. So
// no shuffles are needed.
#pragma once

#include "kernels/cuda/pass/args.h"
#include "kernels/cuda/pass/common.cuh"

namespace rk {

// Rows of 8 bytes
struct PairRows {
    static constexpr bool kStaged = false;                // in shared memory
    static constexpr u32 kUnroll = kPairRows, kWords = 2; // rows of a thread in line; words that a row is gone along by

    uint2 row[kPairRows];

    __device__ __forceinline__ PairRows(u32, uint4 *) {}
    __device__ __forceinline__ u32 each() const { return kPairRows; }
    // The rows from number `first` on, of `left` that there are: this thread's are first + its lane, + 32, ...
    __device__ __forceinline__ void load(const void *elements, u64 first, u64 left)
    {
        const uint2 *p = (const uint2 *)elements + first;
#pragma unroll
        for (u32 j = 0; j < kPairRows; j++)
            row[j] = __ldcs(p + min(threadIdx.x % kWarp + j * kWarp, (u32)min(left, (u64)kWarp * kPairRows) - 1));
    }
    // add(words, number of the first in the row) for all words of row j, in no order
    template <class Add> __device__ __forceinline__ void each_part(u32 j, Add add) const
    {
        const u32 words[kWords] = {row[j].x, row[j].y};
        add(words, 0);
    }
};

// Rows of up to kStagedVectors vectors
struct StagedRows {
    static constexpr bool kStaged = true;
    static constexpr u32 kUnroll = 1, kWords = 4;

    uint4 *tile; // the warp's
    u32 n;       // vectors of a row
    u32 rows;    // of a thread
    u32 begin;   // where a thread begins in its row: so that 8 neighbours have no bank conflicts

    __device__ __forceinline__ StagedRows(u32 vectors, uint4 *shared) : tile(shared), n(vectors), rows(kStagedVectors / vectors)
    {
        const u32 common = n & (0u - n) & (kStagedVectors - 1); // of n and 8: 0 stands for 8
        begin = common ? threadIdx.x * common / 8 % common : threadIdx.x % 8;
    }
    __device__ __forceinline__ u32 each() const { return rows; }
    __device__ __forceinline__ void load(const void *elements, u64 first, u64 left)
    {
        const uint4 *p = (const uint4 *)elements + first * n;
        const u32 last = (u32)min(left, (u64)kWarp * each()) * n - 1, lane = threadIdx.x % kWarp;
        uint4 v[kStagedVectors];
#pragma unroll
        for (u32 u = 0; u < kStagedVectors; u++)
            v[u] = load_vector(p + min(lane + u * kWarp, last));
        __syncwarp(); // all have gone along the rows before
#pragma unroll
        for (u32 u = 0; u < kStagedVectors; u++)
            tile[lane + u * kWarp] = v[u];
        __syncwarp();
    }
    template <class Add> __device__ __forceinline__ void each_part(u32 j, Add add) const
    {
        const uint4 *row = tile + (threadIdx.x % kWarp + j * kWarp) * n;
        u32 at = begin;
#pragma unroll 2
        for (u32 i = 0; i < n; i++) {
            const uint4 v = row[at];
            const u32 words[kWords] = {v.x, v.y, v.z, v.w};
            add(words, at * kWords);
            at = at + 1 < n ? at + 1 : 0;
        }
    }
};

} // namespace rk
