// Light reductions of rows of a tile or less: there is little work, so latency counts: few steps from the loads to the value.
#pragma once

#include "kernels/cuda/pass/column_vectors.cuh"

namespace rk {

// Each thread's share of a row that begins with a whole vector, to a fresh accumulator. Whole block.
template <class Accumulator>
__device__ __forceinline__ void add_row(Accumulator &acc, const SegmentArgs &args, const unsigned char *p)
{
    using Bits = typename Accumulator::Bits;
    constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll;
    constexpr u32 kPerVector = 16 / sizeof(Bits);
    constexpr Filling kFilling = Accumulator::kFilling;
    const u32 n = (u32)args.row_len, vectors = n / kPerVector, tail = vectors * kPerVector + threadIdx.x;
    uint4 tile[kUnroll];
    Bits last = 0;
    if (tail < n) // first and volatile, or the compiler loads it when it is needed
        last = ((const volatile Bits *)p)[tail];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        const u32 at = threadIdx.x + u * kThreads;
        if (kFilling == kRepeated || at < vectors)
            tile[u] = load_vector((const uint4 *)p + (kFilling == kRepeated ? min(at, vectors - 1) : at));
        else if constexpr (kFilling == kPadded)
            tile[u] = vector_of(Accumulator::kPadding);
    }
    acc.init(NULL, args);
    if constexpr (kFilling != kUnfilled) {
        add_whole(acc, tile, 0, kPerVector);
    } else {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            if (threadIdx.x + u * kThreads < vectors)
                acc.add_vector(tile[u], (threadIdx.x + u * kThreads) * kPerVector);
    }
    if (tail < n)
        acc.add(last, tail);
}

// kCount accumulators joined, as a tree.
template <int kCount, class Accumulator> __device__ __forceinline__ Accumulator joined(const Accumulator *of)
{
    if constexpr (kCount == 1) {
        return *of;
    } else {
        Accumulator all = joined<kCount / 2>(of);
        all.join(joined<kCount / 2>(of + kCount / 2));
        return all;
    }
}

// A row that begins with a whole vector, to the accumulator of the first thread. Accumulators are walkers, too (lines.cuh), and
// have
//
//   void join_warp()                 with those of all lanes, the first one gets the result
//   void join(const Accumulator &)   with another warp's
//
// Whole block.
template <class Accumulator>
__device__ __forceinline__ void reduce_tile(Accumulator &acc, const SegmentArgs &args, const unsigned char *p)
{
    constexpr int kWarps = Accumulator::kThreads / kWarp;
    __shared__ Accumulator of_warp[kWarps];
    add_row(acc, args, p);
    acc.join_warp();
    if (threadIdx.x % kWarp == 0)
        of_warp[threadIdx.x / kWarp] = acc;
    __syncthreads();
    if (threadIdx.x == 0)
        acc = joined<kWarps>(of_warp);
}

__device__ __forceinline__ const unsigned char *row_of_block(const SegmentArgs &args, u32 bytes)
{
    return args.data + blockIdx.y * ((u32)args.row_len * bytes); // below 2^30
}

// A block a row, along y.
template <class Walker> __global__ void __launch_bounds__(Walker::kThreads)
    reduce_tiles(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *)
{
    Walker x;
    reduce_tile(x, args, row_of_block(args, sizeof(typename Walker::Bits)));
    if (threadIdx.x == 0)
        finish_walk(x, finish, args.first_row + blockIdx.y, args.row_len);
}

// `tile`: another way, if there is one.
template <class Accumulator> SegmentKernel light_kernels(SegmentFn tile = reduce_tiles<Accumulator>)
{
    SegmentKernel k = segment_kernel<Accumulator>();
    k.walk = walk_lines<true, Accumulator>;
    k.tile = tile;
    // as many accumulators a thread as a vector has elements: not if they take too many registers
    if constexpr (sizeof(Accumulator) * 16 / sizeof(typename Accumulator::Bits) <= 320)
        k.columns = walk_vector_columns<true, Accumulator>;
    return k;
}

} // namespace rk
