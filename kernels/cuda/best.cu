// min, max, argmin, argmax: the element of the highest rank (kernels/state.h), the lowest index among equals.
//
// The rank of an integer is its bits with the sign bit turned; of a float, its bits made monotone; both complemented
// for min. One exclusive-or does turning and complementing: `rank_flip` comes from the host, so one kernel serves all
// integer types of a width, and both directions.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/tile.cuh"

namespace rk {
namespace {

enum Kind { kInteger, kFloat, kFloatSkip };

// Of two f32 the greater one, or a NaN if there is one; -0 < +0.
__device__ __forceinline__ u32 most_f32(u32 a, u32 b)
{
    const float x = __uint_as_float(a), y = __uint_as_float(b);
#if __CUDA_ARCH__ >= 800
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(x), "f"(y));
    return __float_as_uint(most);
#else
    return x != x ? a : y != y ? b : __float_as_uint(fmaxf(x, y));
#endif
}
// The other end of that order.
__device__ __forceinline__ u32 least_f32(u32 a, u32 b) { return most_f32(a ^ 1u << 31, b ^ 1u << 31) ^ 1u << 31; }

template <int kBytes, Kind kKind, bool kIndex> struct Best {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr bool kPrepares = false, kTiles = kBytes == 4 && kKind == kFloat && !kIndex;
    static constexpr Filling kFilling = kIndex || kKind == kFloatSkip ? kUnfilled : kRepeated;
    static constexpr int kWords = 2; // rank, index
    static constexpr int kBlocksPerSm = 4;
    static constexpr u32 kMaxPerThread = 1u << 30;
    static size_t shared_bytes() { return 0; }

    using Bits = typename Width<kBytes>::Bits;
    using Rank = typename Width<(kBytes < 4 ? 4 : kBytes)>::Bits;
    static constexpr Rank kTop = (Rank)(Bits)~(Bits)0, kSign = (Rank)1 << (8 * kBytes - 1);

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

    __device__ __forceinline__ void add(Rank bits, u64 i)
    {
        Rank rank;
        if (kKind == kInteger) {
            rank = bits ^ flip;
        } else {
            Rank negative = (Rank)0 - (bits >> (8 * kBytes - 1)); // all ones if negative
            rank = (bits ^ ((negative | kSign) & kTop)) ^ flip;
            if ((bits & (kSign - 1)) > inf) { // NaN
                if (kKind == kFloatSkip) {
                    skipped++;
                    return;
                }
                rank = kTop;
            }
        }
        if (!kIndex) {
            best = rank > best ? rank : best;
        } else if (rank > best || index == RP_NO_INDEX) { // a thread meets its indexes in ascending order
            best = rank;
            index = i;
        }
    }

    __device__ __forceinline__ void add_vector(uint4 v, u64 first)
    {
        each_element<kBytes>(v, [&](Bits bits, int e) { add((Rank)bits, first + e); });
    }

    // f32 without indexes, by the device's own comparison: it has -0 < +0, too.
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64)
    {
        auto better = [&](u32 a, u32 b) { return flip ? least_f32(a, b) : most_f32(a, b); };
        u32 all = tile[0].x;
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            all = better(all, better(better(tile[u].x, tile[u].y), better(tile[u].z, tile[u].w)));
        add(all, 0);
    }

    // Head and tail: not in index order, so they are joined like another thread's best.
    __device__ __forceinline__ void add_element(const void *p, u64 i)
    {
        Best other = *this;
        other.best = 0;
        other.index = RP_NO_INDEX;
        other.skipped = 0;
        other.add((Rank)*(const Bits *)p, i);
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
        const int dtype = kKind == kInteger || kBytes == 2 ? a.spec.dtype : kBytes == 4 ? RP_F32 : RP_F64;
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

template <int kBytes, Kind kKind> SegmentKernel pick(bool index)
{
    return index ? light_kernels<Best<kBytes, kKind, true>>() : light_kernels<Best<kBytes, kKind, false>>();
}

template <int kBytes> SegmentKernel pick_float(bool skip, bool index)
{
    return skip ? pick<kBytes, kFloatSkip>(index) : pick<kBytes, kFloat>(index);
}

} // namespace

SegmentKernel best_kernel(int dtype, bool skip, bool index)
{
    int bytes = rk_bytes(dtype);
    if (rk_is_float(dtype))
        return bytes == 2   ? pick_float<2>(skip, index)
               : bytes == 4 ? pick_float<4>(skip, index)
                            : pick_float<8>(skip, index);
    switch (bytes) {
    case 1:
        return pick<1, kInteger>(index);
    case 2:
        return pick<2, kInteger>(index);
    case 4:
        return pick<4, kInteger>(index);
    default:
        return pick<8, kInteger>(index);
    }
}

} // namespace rk
