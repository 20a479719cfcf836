// Long rows with a mask by blocks, as segment.cuh goes through others.
#pragma once

#include "kernels/cuda/pass/segment.cuh"

namespace rk {

// The masks of a thread's tiles, requested with them.
template <class Accumulator> struct Masks {
    static constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll;
    using Bits = typename Accumulator::Bits;
    using Mask = typename Width<16 / sizeof(Bits)>::Bits; // of a vector: a byte for each element

    const Mask *of_row;
    Mask now[kUnroll], next[kUnroll];
    u32 kept = 0; // elements that are not masked out, of this thread

    __device__ __forceinline__ Masks(const SegmentArgs &args, const unsigned char *p)
        : of_row((const Mask *)(args.mask + ((p - args.data) >> args.element_log2)))
    {
    }
    // Those of the tile that begins with this thread's vector `at`
    __device__ __forceinline__ void request(u64 at)
    {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            next[u] = __ldcs(of_row + at + u * kThreads);
    }
    __device__ __forceinline__ void request_rest(u64 rest, u32 left)
    {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            next[u] = threadIdx.x + u * kThreads < left ? __ldcs(of_row + rest + threadIdx.x + u * kThreads) : (Mask)0;
    }
    __device__ __forceinline__ void advance()
    {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            now[u] = next[u];
    }
    // Padding in place of what is masked out.
    __device__ __forceinline__ void apply(uint4 (&tile)[kUnroll])
    {
        static_assert(sizeof(Bits) == 4);
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            const u32 in = now[u];
            const auto chosen = [&](u32 bits, u32 byte) { return in & byte ? bits : Accumulator::kPadding; };
            tile[u] = make_uint4(chosen(tile[u].x, 0xffu), chosen(tile[u].y, 0xff00u), chosen(tile[u].z, 0xff0000u),
                                 chosen(tile[u].w, 0xff000000u));
            kept += __popc((((in & 0x7f7f7f7fu) + 0x7f7f7f7fu) | in) & 0x80808080u);
        }
    }
    // Those of the block. Whole block.
    __device__ __forceinline__ u64 elements() const
    {
        __shared__ u32 of_warps[kThreads / kWarp];
        u64 all = 0;
        const u32 of_warp = warp_add(kept);
        if (threadIdx.x % kWarp == 0)
            of_warps[threadIdx.x / kWarp] = of_warp;
        __syncthreads();
        for (int w = 0; w < kThreads / kWarp; w++)
            all += of_warps[w];
        return all;
    }
};

// A warp's tiles of a row with a mask, one requested after the other: its block's; those of tickets (segment.cuh); then the
// block's share of the rest, and padding, which also takes the place of elements that are masked out. Rows begin with a whole
// vector and end with one, and their masks are aligned likewise.
template <class Accumulator> struct MaskedTiles {
    static constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll, kTile = kThreads * kUnroll;
    static constexpr int kWarps = kThreads / kWarp;
    static_assert(Accumulator::kPrepares && Accumulator::kTiles); // it is asked before each tile, and takes tiles

    Masks<Accumulator> masks;
    const SegmentArgs &args;
    const uint4 *const vectors; // of the row
    const u64 step;
    u64 rest;                 // the block's share of the rest begins here
    u32 left;                 // vectors of it
    uint4 next[kUnroll];      // what was requested last
    u64 at;                   // its first vector of this thread
    u32 round = 0;            // tiles requested
    u32 ticket = ~0u, *taken; // of the first lane: the next ticket; how many each warp has taken

    __device__ __forceinline__ MaskedTiles(const SegmentArgs &a, const unsigned char *p)
        : masks(a, p), args(a), vectors((const uint4 *)p), step((u64)gridDim.x * kTile), at(blockIdx.x * kTile + threadIdx.x)
    {
        const u64 nvec = a.row_len >> (4 - a.element_log2);
        rest = end_of_rounds<Accumulator>(a) + a.tickets / kWarps * kTile + blockIdx.x * a.share;
        left = rest < nvec ? (u32)min(nvec - rest, (u64)a.share) : 0;
        __shared__ u32 of_warps[kWarps];
        taken = of_warps;
        if (first_lane())
            taken[threadIdx.x / kWarp] = 0;
    }
    static __device__ __forceinline__ bool first_lane() { return threadIdx.x % kWarp == 0; }

    // False: there is none. A ticket is drawn while the tile before it is added.
    __device__ __forceinline__ bool request()
    {
        bool whole = round < args.rounds;
        if (!whole) {
            const u32 number = __shfl_sync(kFullMask, ticket, 0);
            whole = number < args.tickets;
            if (whole) {
                at = vector_of_ticket<Accumulator>(args, number);
                if (first_lane())
                    taken[threadIdx.x / kWarp]++;
            }
        }
        if (whole) {
            const uint4 *from = vectors + at;
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                next[u] = load_vector(from + u * kThreads);
            masks.request(at);
            if (++round >= args.rounds && first_lane())
                ticket = taken[threadIdx.x / kWarp] < args.most_tickets ? draw(args) : ~0u;
            return true;
        }
        if (round == kRested)
            return false;
        round = kRested;
        request_rest<Accumulator>(next, vectors, rest, left);
        masks.request_rest(rest, left);
        return left != 0;
    }
    // The tile requested last to `now`; the one behind it is requested. Returns whether there is one.
    __device__ __forceinline__ bool advance(uint4 (&now)[kUnroll])
    {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            now[u] = next[u];
        masks.advance();
        at += step;
        const bool more = request();
        masks.apply(now);
        return more;
    }

  private:
    static constexpr u32 kRested = ~0u; // `round` behind the rest
};

} // namespace rk
