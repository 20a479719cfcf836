// min, max, argmin, argmax, norminf of floats: the element of the highest rank (kernels/exact/state.h), the lowest index among
// equals.
//
// The rank of an integer is its bits with the sign bit inverted; of a float, its bits made monotone; both are complemented for
// min. A single exclusive-or with `rank_flip`, from the host, does both inversions. So one kernel serves all integer types of a
// width, and both directions.
#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/masked.cuh"
#include "kernels/cuda/pass/tile.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

enum Kind { kInteger, kTruth, kFloat, kFloatSkip, kMagnitude }; // kTruth: bool, with an index alone

// A thread's vectors of f32 as one element.
template <bool kLeast, int kUnroll> __device__ __forceinline__ u32 best_f32(const uint4 (&tile)[kUnroll])
{
    auto better = better_float_bits<kLeast>;
    auto of_vector = [&](uint4 v) { return better(better(v.x, v.y), better(v.z, v.w)); };
    u32 all = of_vector(tile[0]);
#pragma unroll
    for (int u = 1; u < kUnroll; u++)
        all = better(all, of_vector(tile[u]));
    return all;
}

#if __CUDA_ARCH__ >= 800
// ... of pairs of f16 or bf16
template <bool kLeast, bool kBrain, int kUnroll> __device__ __forceinline__ u32 best_half(const uint4 (&tile)[kUnroll])
{
    auto better = better_pair<kLeast, kBrain>;
    auto of_vector = [&](uint4 v) { return better(better(v.x, v.y), better(v.z, v.w)); };
    u32 all = of_vector(tile[0]);
#pragma unroll
    for (int u = 1; u < kUnroll; u++)
        all = better(all, of_vector(tile[u]));
    return better(all, all >> 16) & 0xffff;
}
#endif

template <int kBytes, Kind kKind, bool kIndex> struct Best {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr bool kPrepares = false;
    static constexpr bool kTiles = kKind == kMagnitude ? kBytes == 4
                                   : kKind == kFloat   ? kBytes == 2 || kBytes == 4
                                                       : kKind == kInteger && kBytes == 4 && kIndex;
    static constexpr Filling kFilling = kIndex || kKind == kFloatSkip ? kUnfilled : kRepeated;
    static constexpr int kWords = 2; // rank, index
    static constexpr int kBlocksPerSm = 4;
    static constexpr u32 kMaxPerThread = 1u << 30;
    static constexpr bool kStops = kKind == kTruth, kWhole = kKind == kInteger || kKind == kTruth;
    static size_t shared_bytes() { return 0; }

    using Bits = typename Width<kBytes>::Bits;
    using Rank = typename Width<(kBytes < 4 ? 4 : kBytes)>::Bits;
    static constexpr Rank kTop = (Rank)(Bits) ~(Bits)0, kSign = (Rank)1 << (8 * kBytes - 1);

    Rank best, flip, inf;
    u64 index, first_index;
    u32 skipped;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        best = 0;
        index = RP_NO_INDEX;
        first_index = args.first_index;
        flip = (Rank)args.rank_flip;
        inf = (Rank)args.inf_bits;
        skipped = 0;
    }

    __device__ __forceinline__ bool nan(Rank bits) const { return !kWhole && (bits & (kSign - 1)) > inf; }
    __device__ __forceinline__ Rank rank_of(Rank bits) const
    {
        if (kWhole)
            return (kKind == kTruth ? bits != 0 : bits) ^ flip;
        if (kKind == kMagnitude)
            return nan(bits) ? kTop : bits | kSign;
        const Rank negative = (Rank)0 - (bits >> (8 * kBytes - 1)); // all ones if negative
        return nan(bits) ? kTop : (bits ^ ((negative | kSign) & kTop)) ^ flip;
    }

    __device__ __forceinline__ void add(Rank bits, u64 i)
    {
        if (kKind == kFloatSkip && nan(bits)) {
            skipped++;
            return;
        }
        const Rank rank = rank_of(bits);
        if (!kIndex) {
            best = rank > best ? rank : best;
        } else if (rank > best || index == RP_NO_INDEX) { // a thread meets its indexes in ascending order
            best = rank;
            index = i;
        }
    }

    // The first bool that decides is the place.
    __device__ __forceinline__ bool stops(const SegmentArgs &, u32) const { return best != 0; }

    __device__ __forceinline__ void add_vector(uint4 v, u64 first)
    {
        if constexpr (kKind == kTruth)
            if (best)
                return;
        each_element<kBytes>(v, [&](Bits bits, int e) { add((Rank)bits, first + e); });
    }

    // The highest rank of a thread's part of a tile; of floats by the device's own comparison, which has -0 < +0, too.
    __device__ __forceinline__ Rank best_of(const uint4 (&tile)[kUnroll]) const
    {
        if constexpr (kKind == kFloat && kBytes == 4)
            return rank_of(flip ? best_f32<true>(tile) : best_f32<false>(tile));
#if __CUDA_ARCH__ >= 800
        if constexpr (kKind == kFloat && kBytes == 2) {
            if (inf == rk_inf_bits(rk_format_of(RP_BF16)))
                return rank_of(flip ? best_half<true, true>(tile) : best_half<false, true>(tile));
            return rank_of(flip ? best_half<true, false>(tile) : best_half<false, false>(tile));
        }
#endif
        const auto of = [&](Rank bits) { return kKind == kMagnitude ? bits & (kSign - 1) : rank_of(bits); };
        Rank all = 0;
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            each_element<kBytes>(tile[u], [&](Bits bits, int) { all = max(all, of((Rank)bits)); });
        return kKind == kMagnitude ? rank_of(all) : all;
    }

    // With an index: a warp keeps one best element until its last tile. Elements of earlier tiles precede those of this one.
    // The index is searched only if the tile has a better element. Whole warp.
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64 first)
    {
        const Rank rank = best_of(tile);
        if constexpr (!kIndex) {
            best = max(best, rank);
        } else {
            const Rank highest = warp_max(rank);
            if (highest > best || index == RP_NO_INDEX) {
                best = highest;
                index = first_in_warp(tile, first);
            }
        }
    }

    // Index of the warp's first element of the best rank.
    __device__ __forceinline__ u64 first_in_warp(const uint4 (&tile)[kUnroll], u64 first) const
    {
        constexpr int kPerVector = 16 / kBytes;
        u64 at = RP_NO_INDEX;
#pragma unroll
        for (int u = kUnroll - 1; u >= 0; u--) {
            u32 found = 0; // a bit for each element
            each_element<kBytes>(tile[u], [&](Bits bits, int e) { found |= (u32)(rank_of((Rank)bits) == best) << e; });
            if (found)
                at = first + u * (kThreads * kPerVector) + (u32)__ffs((int)found) - 1;
        }
#pragma unroll
        for (int d = kWarp / 2; d; d >>= 1)
            at = min(at, __shfl_xor_sync(kFullMask, at, d));
        return at;
    }

    // The columns of a tile's vectors: the best of each by the device's own comparison.
    template <bool kLeast, int kRows>
    static __device__ __forceinline__ void add_best_of(Best (&x)[4], const uint4 (&tile)[kRows])
    {
        uint4 all = tile[0];
#pragma unroll
        for (int k = 1; k < kRows; k++)
            all = {better_float_bits<kLeast>(all.x, tile[k].x), better_float_bits<kLeast>(all.y, tile[k].y),
                   better_float_bits<kLeast>(all.z, tile[k].z), better_float_bits<kLeast>(all.w, tile[k].w)};
        each_element<4>(all, [&](u32 bits, int c) { x[c].best = max(x[c].best, x[c].rank_of(bits)); });
    }
    template <int kRows> static __device__ __forceinline__ void add_columns(Best (&x)[4], const uint4 (&tile)[kRows])
    {
        if (x[0].flip)
            add_best_of<true>(x, tile);
        else
            add_best_of<false>(x, tile);
    }

    // Head and tail are not in index order, so they are joined like another thread's best.
    __device__ __forceinline__ void add_element(const void *p, u64 i)
    {
        Best other = *this;
        other.best = 0;
        other.index = RP_NO_INDEX;
        other.skipped = 0;
        other.add((Rank) * (const Bits *)p, i);
        skipped += other.skipped;
        join(other.best, other.index);
    }

    __device__ __forceinline__ void join(Rank rank, u64 i)
    {
        if (!kIndex) {
            best = rank > best ? rank : best;
        } else if (rank > best || (rank == best && i < index)) {
            best = rank;
            index = i;
        }
    }
    __device__ __forceinline__ void join(const Best &o)
    {
        join(o.best, o.index);
        if (kKind == kFloatSkip)
            skipped += o.skipped;
    }

    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        Rank rank = __shfl_xor_sync(mask, best, distance);
        u64 i = kIndex ? __shfl_xor_sync(mask, index, distance) : RP_NO_INDEX;
        if (kKind == kFloatSkip)
            skipped += __shfl_xor_sync(mask, skipped, distance);
        join(rank, i);
    }
    __device__ __forceinline__ void join_warp()
    {
        if constexpr (sizeof(Rank) == 4 && !kIndex && kKind != kFloatSkip) {
            best = warp_max(best);
        } else {
#pragma unroll
            for (int d = kWarp / 2; d; d >>= 1)
                join_lane(kFullMask, d);
        }
    }
    __device__ __forceinline__ u64 word(const SegmentArgs &, u32 j) const
    {
        return j == 0 ? best : kIndex && index != RP_NO_INDEX ? index + first_index : RP_NO_INDEX;
    }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &) const { return skipped; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &) const { return 0; }
    __device__ __forceinline__ int value(const FinishArgs &a, u64 elements, u64 *value) const
    {
        const int dtype = kWhole || kBytes == 2 ? a.spec.dtype : kBytes == 4 ? RP_F32 : RP_F64;
        const u64 count = kKind == kFloatSkip ? elements - skipped : elements;
        if (count < elements && a.spec.nan == RP_NAN_ERROR)
            return RP_NAN;
        return kIndex ? index_value(index + first_index, count, value) : element_value(a, dtype, best, count, value);
    }

    __device__ void flush(const SegmentArgs &args, const unsigned char *, void *, u64 elements, u64 *partial)
    {
        __shared__ Rank bests[kThreads / kWarp];
        __shared__ u64 indexes[kThreads / kWarp];
        __shared__ u32 skipped_sum;
        if (threadIdx.x == 0)
            skipped_sum = 0;
        __syncthreads();
        join_warp();
        if (threadIdx.x % kWarp == 0) {
            bests[threadIdx.x / kWarp] = best;
            indexes[threadIdx.x / kWarp] = index;
            if (skipped)
                atomicAdd(&skipped_sum, skipped);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < kThreads / kWarp; w++)
                join(bests[w], indexes[w]);
            for (int j = 0; j < kWords; j++)
                partial[j] = word(args, j);
            write_tail(partial + kWords, elements, skipped_sum, 0);
        }
    }
};

} // namespace

template <> constexpr bool kAddsColumns<Best<4, kFloat, false>> = true;

namespace {

// f32 of a row of a tile or less, without an index: an accumulator for add_row.
template <bool kLeast> struct TileBest {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr bool kTiles = true;
    static constexpr Filling kFilling = kRepeated;
    using Bits = u32;

    u32 best;

    __device__ __forceinline__ void init(void *, const SegmentArgs &) {}
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64) { best = best_f32<kLeast>(tile); }
    __device__ __forceinline__ void add(Bits bits, u64) { best = better_float_bits<kLeast>(best, bits); }

    // Bits to keys, signed numbers of the elements' order, and back; better_float's NaN is the greatest.
    static __device__ __forceinline__ u32 in_order(u32 x) { return x ^ ((u32)((int)x >> 31) & 0x7fffffff); }
    // To the opposite order for the least, and back; but the greatest remains where it is.
    static __device__ __forceinline__ u32 turned(u32 key) { return kLeast ? ~key - 1 : key; }

    // Joins another warp's keys.
    __device__ __forceinline__ void join(const TileBest &o) { best = (u32)max((int)best, (int)o.best); }
    // Joins those of all threads; each gets the result.
    __device__ __forceinline__ void join_block()
    {
        constexpr int kWarps = kThreads / kWarp;
        __shared__ __align__(16) TileBest of_warp[kWarps];
        best = (u32)warp_max((int)turned(in_order(best)));
        if (threadIdx.x % kWarp == 0)
            of_warp[threadIdx.x / kWarp] = *this;
        __syncthreads();
        best = in_order(turned(joined<kWarps>(of_warp).best));
    }
};

// A block a row, along y. The usual reply, f64, needs no more than one line of arguments (segment.cuh). It is stored before it
// is looked at, and written over if need be.
template <bool kLeast> __global__ void __launch_bounds__(TileBest<kLeast>::kThreads)
    best_tiles(const __grid_constant__ SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *)
{
    const u64 row = args.first_row + blockIdx.y;
    const bool first = threadIdx.x == 0, wide = finish.cell_bytes == 8;
    double *cell = (double *)finish.cells + row;
    TileBest<kLeast> x;
    add_row(x, args, row_of_block(args, sizeof(float)));
    x.join_block();
    const float element = __uint_as_float(x.best);
    if (first && wide)
        *cell = (double)element;
    if (first && (!wide || element != element)) // another type, or the one NaN of replies
        write_bits(finish.cell_bytes, finish.cells, row, rk_convert_float(RP_F32, x.best, finish.spec.out));
}

template <int kBytes, Kind kKind> SegmentKernel pick(int layout)
{
    using Element = Best<kBytes, kKind, false>;
    if (layout == RP_STATE_ARGMIN || layout == RP_STATE_ARGMAX)
        return light_kernels<Best<kBytes, kKind, true>>();
    if constexpr (Element::kTiles && kBytes == 4)
        return light_kernels<Element>(layout == RP_STATE_MIN ? best_tiles<true> : best_tiles<false>);
    else
        return light_kernels<Element>();
}

template <int kBytes> SegmentKernel pick_float(int layout, bool skip)
{
    if (layout == RP_STATE_NORMINF)
        return light_kernels<Best<kBytes, kMagnitude, false>>();
    return skip ? pick<kBytes, kFloatSkip>(layout) : pick<kBytes, kFloat>(layout);
}

template <int kBytes, Kind kKind> WalkFn pick_masked(int layout)
{
    return layout == RP_STATE_MIN || layout == RP_STATE_MAX ? walk_masked<true, Best<kBytes, kKind, false>>
                                                            : walk_masked<true, Best<kBytes, kKind, true>>;
}

} // namespace

template <BestPart kPart> SegmentKernel best_part(int layout, int dtype, bool skip)
{
    if constexpr (kPart == BestPart::Float16)
        return layout == RP_STATE_NORMINF ? light_kernels<Best<2, kMagnitude, false>>() : pick<2, kFloat>(layout);
    else if constexpr (kPart == BestPart::Float16Skip)
        return pick<2, kFloatSkip>(layout);
    else if constexpr (kPart == BestPart::Float32)
        return pick_float<4>(layout, skip);
    else if constexpr (kPart == BestPart::Float64)
        return pick_float<8>(layout, skip);
    else if constexpr (kPart == BestPart::Narrow)
        return dtype == RP_BOOL       ? light_kernels<Best<1, kTruth, true>>()
               : rk_bytes(dtype) == 1 ? pick<1, kInteger>(layout)
                                      : pick<2, kInteger>(layout);
    else
        return rk_bytes(dtype) == 4 ? pick<4, kInteger>(layout) : pick<8, kInteger>(layout);
}

template <BestPart kPart> WalkFn masked_best_part(int layout, bool skip)
{
    if constexpr (kPart == BestPart::Float32)
        return skip ? pick_masked<4, kFloatSkip>(layout) : pick_masked<4, kFloat>(layout);
    else if constexpr (kPart == BestPart::Integer)
        return pick_masked<4, kInteger>(layout);
    else
        return NULL;
}

#define PARTS(X) X(Float16) X(Float16Skip) X(Float32) X(Float64) X(Narrow) X(Integer)
#define PART(of)                                                                      \
    template SegmentKernel best_part<BestPart::of>(int layout, int dtype, bool skip); \
    template WalkFn masked_best_part<BestPart::of>(int layout, bool skip);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
