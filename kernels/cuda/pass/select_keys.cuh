// Elements of a line as keys for selection (select_args.h).
#pragma once

#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/select_args.h"

namespace rk {

// Keys of elements of kBytes bytes, in a register or two
template <int kBytes> struct Keys {
    using Bits = typename Width<kBytes>::Bits;
    using Signed = typename Width<kBytes>::Key;
    using Key = typename Width<(kBytes < 4 ? 4 : kBytes)>::Bits;
    static constexpr Key kTop = (Key)(Bits) ~(Bits)0; // no element's is above

    Key turn, flip, least, range;
    bool truths;

    __device__ __forceinline__ explicit Keys(const KeyRule &r)
        : turn((Key)r.turn), flip((Key)r.flip), least((Key)r.least), range((Key)r.range), truths(r.truths)
    {
    }
    __device__ __forceinline__ Key of(Bits bits) const
    {
        if constexpr (kBytes == 1)
            bits = truths ? bits != 0 : bits;
        const Key negative = (Key)(Bits)((Signed)bits >> (8 * kBytes - 1));
        return ((Key)bits ^ ((negative & turn) ^ flip)) - least;
    }
    __device__ __forceinline__ bool nan(Key key) const { return key > range; }
};

// A line of elements, in whole vectors and up to 30 elements at its edges
template <int kBytes> struct LineView {
    using Bits = typename Width<kBytes>::Bits;
    static constexpr u32 kPer = 16 / kBytes;

    const unsigned char *data, *mask;
    u64 n, vectors;
    u32 head, edges; // elements before the vectors; these and those behind

    // Args: of data, mask and n
    template <class Args> __device__ LineView(const Args &a, u64 line)
    {
        n = a.n;
        data = a.data + line * n * kBytes;
        mask = a.mask ? a.mask + line * n : NULL;
        head = (u32)((0 - (uintptr_t)data & 15) / kBytes);
        head = head < n ? head : (u32)n;
        vectors = (n - head) / kPer;
        edges = (u32)(n - vectors * kPer);
    }
    __device__ __forceinline__ Bits at(u64 i) const { return ((const Bits *)data)[i]; }
    __device__ __forceinline__ bool counts(u64 i) const { return !mask || mask[i]; }
    __device__ __forceinline__ uint4 vector(u64 v) const { return load_vector((const uint4 *)(data + head * kBytes) + v); }
    __device__ __forceinline__ u64 place(u64 v) const { return head + v * kPer; } // of a vector's first element
    __device__ __forceinline__ u64 edge(u32 i) const { return i < head ? i : vectors * kPer + i; }
};

// Elements `thread`, `thread` + `threads`, ... of a line of fewer than 2^32, all on their way before one is looked at. Returns
// a bit for each that takes part.
template <int kBytes, int kKeys> __device__ __forceinline__ u32 load_elements(const LineView<kBytes> &line, u32 thread,
                                                                              u32 threads,
                                                                              typename Keys<kBytes>::Key (&bits)[kKeys])
{
    static_assert(kKeys <= 32);
    const u32 n = (u32)line.n, own = thread < n ? (n - thread - 1) / threads + 1 : 0; // at most kKeys
    const u32 there = own < 32 ? (1u << own) - 1 : ~0u;
    u32 here = there;
    if (line.mask)
#pragma unroll
        for (int k = 0; k < kKeys; k++)
            here &= ~((u32)(there >> k & 1 && !line.mask[k * threads + thread]) << k);
#pragma unroll
    for (int k = 0; k < kKeys; k++)
        bits[k] = there >> k & 1 ? line.at(k * threads + thread) : 0;
    return here;
}

// The block's part of a line: vector(x, whether there is a mask, its number), edge(place), and after(), for whole warps, behind
// each kBatch elements of a thread at most. Of `skip` tiles of the line it takes one: not always the same, for data may repeat
// themselves, as rows of a table do; and of the last ones, if they are fewer, the first.
template <int kBytes> constexpr u32 kBatch = kBytes == 8 ? 8 : 16;
template <int kBytes, class Vector, class Edge, class After> __device__ __forceinline__ void
each_vector_of_line(const LineView<kBytes> &line, Vector vector, Edge edge, After after, u32 skip)
{
    constexpr u32 kPer = LineView<kBytes>::kPer, kVectors = kBatch<kBytes> / kPer;
    const u64 tile = (u64)kVectors * blockDim.x;
#pragma unroll 1
    for (u64 some = blockIdx.x; some * tile * skip < line.vectors; some += gridDim.x) {
        const bool whole = (some + 1) * tile * skip <= line.vectors;
        const u64 taken = whole ? (u64)(u32)(some * 0x9e3779b9u) * skip >> 32 : 0,
                  v = (some * skip + taken) * tile + threadIdx.x;
        uint4 x[kVectors];
#pragma unroll
        for (u32 u = 0; u < kVectors; u++) {
            const u64 at = v + u * blockDim.x;
            x[u] = line.vector(at < line.vectors ? at : line.vectors - 1);
        }
#pragma unroll
        for (u32 u = 0; u < kVectors; u++) {
            const u64 at = v + u * blockDim.x;
            if (at >= line.vectors)
                continue;
            if (line.mask)
                vector(x[u], true, at);
            else
                vector(x[u], false, at);
        }
        after();
    }
    if (blockIdx.x == 0 && threadIdx.x < kWarp) {
        if (threadIdx.x < line.edges)
            edge(line.edge(threadIdx.x));
        after();
    }
}

// The same by elements: take(bits, whether it counts, its place).
template <int kBytes, class Take, class After>
__device__ __forceinline__ void each_of_line(const LineView<kBytes> &line, Take take, After after, u32 skip = 1)
{
    each_vector_of_line<kBytes>(
        line,
        [&](uint4 x, bool masked, u64 v) {
            const u64 place = line.place(v);
            each_element<kBytes>(x, [&](typename Width<kBytes>::Bits bits, int e) {
                take(bits, !masked || line.mask[place + e] != 0, place + e);
            });
        },
        [&](u64 place) { take(line.at(place), line.counts(place), place); }, after, skip);
}

// How many elements that are, of all blocks
template <int kBytes> __device__ inline u64 elements_taken(const LineView<kBytes> &line, u32 skip)
{
    constexpr u32 kPer = LineView<kBytes>::kPer;
    const u64 tile = (u64)(kBatch<kBytes> / kPer) * blockDim.x, steps = line.vectors / (tile * skip),
              left = line.vectors - steps * tile * skip;
    return (steps * tile + (left < tile ? left : tile)) * kPer + line.edges;
}

// Of the line's elements, one in each of 2^size_log2 equal stretches, at a place that depends on its number and on the
// sample's.
__device__ __forceinline__ u64 sample_place(u64 n, u32 size_log2, u32 i, u32 sample)
{
    const u64 width = n >> size_log2, rest = n & ((1ull << size_log2) - 1), from = width * i + (rest * i >> size_log2);
    u64 mixed = (i + 1) * 0x9e3779b97f4a7c15ull + sample * 0xd1342543de82ef95ull;
    mixed = (mixed ^ mixed >> 31) * 0xbf58476d1ce4e5b9ull;
    return from + __umul64hi(mixed ^ mixed >> 29, width);
}

// The line's blocks meet: true in the last one to come, which sees what all have written. Whole block.
__device__ __forceinline__ bool last_of_line(u32 *arrived)
{
    bool last = false;
    __syncthreads();
    if (threadIdx.x == 0)
        last = count_in_turn(arrived, gridDim.x - 1) == gridDim.x - 1;
    return __syncthreads_or(last);
}

// A line's parts of the scratch
template <class Key> struct SelectRooms {
    SelectState *state;
    u64 *counts;    // of each rank kBins
    Key *collected; // of each rank a.most
    Key *kept;      // a.room

    __device__ SelectRooms(const SelectArgs &a, u64 line)
        : state(a.states + line), counts(a.counts + line * 2 * a.pairs * kBins),
          collected((Key *)a.collected + line * 2 * a.pairs * a.most), kept((Key *)a.kept + line * a.room)
    {
    }
};

} // namespace rk
