// Many arrays in one launch: their tiles lie one after the other, and each block takes as many of them as the others, whatever
// the arrays' lengths. What a block has of an array, or of all, it adds to the words of the result, as segment.cuh does where
// FinishArgs.added; the next pass finishes (merge.cuh).
#pragma once

#include "kernels/cuda/pass/list.h"
#include "kernels/cuda/pass/segment.cuh"

namespace rk {

// Tiles [from, to) of an array that has `tiles`, added. The last one goes with the elements before and behind the vectors.
// Returns how many elements that were. Whole block.
template <class Accumulator>
__device__ __forceinline__ u64 add_tiles(Accumulator &acc, const ListEntry &e, u32 log2, u64 from, u64 to, u64 tiles)
{
    constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll, kTile = kThreads * kUnroll;
    const u32 per_vector = 16 >> log2;
    const u64 head = elements_before_vectors(e.data, e.count, log2);
    const uint4 *vectors = (const uint4 *)(e.data + (head << log2));
    const u64 nvec = (e.count - head) >> (4 - log2), end = min(nvec, to * kTile);
    uint4 now[kUnroll], next[kUnroll];
    const auto left_at = [&](u64 tile) { return (u32)min(end - tile * kTile, (u64)kTile); };
    request_rest<Accumulator>(next, vectors, from * kTile, left_at(from));
#pragma unroll 1
    for (u64 tile = from; tile < to; tile++) {
        const u64 first = tile * kTile;
        const u32 left = left_at(tile);
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            now[u] = next[u];
        if (tile + 1 < to)
            request_rest<Accumulator>(next, vectors, first + kTile, left_at(tile + 1));
        if (left < kTile && Accumulator::kFilling != kPadded) {
            add_rest(acc, now, vectors, head, first, left, per_vector);
        } else {
            if constexpr (Accumulator::kPrepares)
                acc.prepare(now);
            add_whole(acc, now, head + (first + threadIdx.x) * per_vector, per_vector);
        }
    }
    const u64 elements = (end - from * kTile) * per_vector;
    if (to < tiles)
        return elements;
    each_end(log2, e.count, e.data, head, nvec, [&](const void *p, u64 index) { acc.add_element(p, index); });
    return elements + e.count - nvec * per_vector;
}

// The array that has this tile.
__device__ __forceinline__ u32 array_of_tile(const ListArgs &list, u64 tile)
{
    u32 low = 0, high = list.n; // its number is in [low, high)
    while (high - low > 1) {
        const u32 middle = (low + high) / 2;
        if (list.entries[middle].first_tile <= tile)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// part(number, entry, from, to, tiles, last): of each array of which the block has some tiles, of its `tiles` those in
// [from, to).
template <class Part> __device__ __forceinline__ void each_part_of_block(const ListArgs &list, Part part)
{
    const u64 tiles = list.entries[list.n].first_tile, end = tiles * (blockIdx.x + 1) / gridDim.x;
    u64 at = tiles * blockIdx.x / gridDim.x;
    if (at == end)
        return;
    for (u32 i = array_of_tile(list, at); at < end; i++) {
        const ListEntry e = list.entries[i];
        const u64 behind = list.entries[i + 1].first_tile, to = min(end, behind);
        if (at == to) // of no elements
            continue;
        part(i, e, at - e.first_tile, to - e.first_tile, behind - e.first_tile, to == end);
        at = to;
    }
}

template <class Accumulator> __global__ void __launch_bounds__(Accumulator::kThreads, Accumulator::kBlocksPerSm)
    reduce_list(SegmentArgs args, const __grid_constant__ FinishArgs finish, ListArgs list)
{
    if constexpr (kUsedHere<Accumulator>) {
        RK_DYNAMIC_SHARED(unsigned char, shared);
        __shared__ u64 words[Accumulator::kWords + kTailWords];
        wait_for_previous_pass(); // it writes the list
        if (!list.each && is_done(finish, 0))
            return;
        u64 elements = 0;
        Accumulator acc;
        acc.init(shared, args);
        each_part_of_block(list, [&](u32 i, const ListEntry &e, u64 from, u64 to, u64 tiles, bool last) {
            elements += add_tiles(acc, e, args.element_log2, from, to, tiles);
            if (!last && !list.each)
                return;
            acc.flush(args, e.data, shared, elements, words);
            __syncthreads();
            add_words(finish.plan, args.totals + (list.each ? i : 0), words);
            __syncthreads();
            if (!last)
                acc.init(shared, args);
            elements = 0;
        });
    }
}

template <class Accumulator> SegmentKernel list_kernels()
{
    SegmentKernel k = segment_kernel<Accumulator>();
    k.list = reduce_list<Accumulator>;
    return k;
}

} // namespace rk
