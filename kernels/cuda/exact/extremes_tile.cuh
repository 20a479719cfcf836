// The least and the greatest element with their places, zeros and NaNs: what `stats` knows beside the sums.
//
// Elements are compared by a signed key. The index of a tile's first element stands for the place until the end of the
// row, when the tile is looked into once: cheaper than an index for every element.
#pragma once

#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/segment.cuh"

namespace rk {

// Bools: any byte but 0 stands for 1
template <class Element> constexpr bool kTruths = false;

// Element:  using Bits, Key (signed, as wide as Bits);  static Key key(Bits);  static Bits bits(Key), key's inverse;
//           static Bits load(const void *);  static u64 own(Bits): back to the element's own bits;  static bool nan(Bits);
//           static constexpr bool kAllKeys: elements can have the greatest and the least key, so they cannot mean `none`
// kUnroll, kStride: a tile is kUnroll vectors of a thread, of kPerVector elements each, kStride elements apart. Its first index
// stands for all of it.
template <class Element, int kUnroll, int kPerVector, int kStride> struct Extremes {
    static_assert(kUnroll * kPerVector <= 64);
    using Bits = typename Element::Bits;
    using Key = typename Element::Key;
    static constexpr Key kLast = (Key)((Bits)1 << (8 * sizeof(Bits) - 1)), kFirst = (Key)~kLast;
    static constexpr u64 kAlone = 1ull << 63; // the index is the element's own, not a tile's

    Key least, most;
    u64 least_at, most_at, first_nan;
    u32 zeros, nans;

    __device__ __forceinline__ void init()
    {
        least = kFirst;
        most = kLast;
        least_at = most_at = first_nan = RP_NO_INDEX;
        zeros = nans = 0;
    }

    // The extremes `low` and `high` of a tile that begins at index `at`, or of a single vector behind the last tile; a
    // thread meets them in ascending order.
    __device__ __forceinline__ void choose(Key low, Key high, u64 at)
    {
        if (low < least || (Element::kAllKeys && least_at == RP_NO_INDEX)) {
            least = low;
            least_at = at;
        }
        if (high > most || (Element::kAllKeys && most_at == RP_NO_INDEX)) {
            most = high;
            most_at = at;
        }
    }

    // One element of head or tail: those come out of order. Not a NaN.
    __device__ __forceinline__ void choose_one(Bits bits, u64 index)
    {
        Key key = Element::key(bits);
        if (key < least || least_at == RP_NO_INDEX || (key == least && index < (least_at & ~kAlone))) {
            least = key;
            least_at = index | kAlone;
        }
        if (key > most || most_at == RP_NO_INDEX || (key == most && index < (most_at & ~kAlone))) {
            most = key;
            most_at = index | kAlone;
        }
    }

    // A NaN to propagate.
    __device__ __forceinline__ void note_nan(u64 index) { first_nan = index < first_nan ? index : first_nan; }

    // The place of the first element with this key in the tile at index `at`. A vector behind the last tile is alone: then it
    // stands for the others, too. Out of line: a tile takes registers, which the loop over all tiles would lack.
    __device__ static __noinline__ u64 place(const unsigned char *row, u64 row_len, Key key, u64 at)
    {
        if (at & kAlone)
            return at == RP_NO_INDEX ? at : at & ~kAlone;
        constexpr int kBytes = 16 / kPerVector;
        const auto wanted = (typename Width<kBytes>::Bits)Element::own(Element::bits(key));
        uint4 tile[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) { // all requested at once: they come from far
            const u64 index = at + u * kStride;
            tile[u] = *(const uint4 *)(row + (index + kPerVector <= row_len ? index : at) * kBytes);
        }
        u64 equal = 0;
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            each_element<kBytes>(tile[u], [&](auto bits, int k) {
                const bool same = kTruths<Element> ? (bits != 0) == (wanted != 0) : bits == wanted;
                equal |= (u64)same << (u * kPerVector + k);
            });
        const u32 first = (u32)__ffsll((i64)equal) - 1;
        return at + first / kPerVector * kStride + first % kPerVector;
    }

    // The words of a partial of `stats`: two pairs, zeros, NaNs. Whole block; written when all have passed a barrier. Only the
    // tiles of those threads are looked into that have the block's extremes: tiles of all of them lie far apart.
    template <int kThreads> __device__ void write(const SegmentArgs &args, const unsigned char *row, u64 *words) const
    {
        constexpr int kWarps = kThreads / kWarp;
        __shared__ Key keys[kWarps][2];
        __shared__ u64 places[kWarps][3];
        __shared__ u32 counts[2];
        const u32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
        Key low = least, high = most;
#pragma unroll
        for (int d = kWarp / 2; d; d >>= 1) {
            low = min(low, __shfl_xor_sync(kFullMask, low, d));
            high = max(high, __shfl_xor_sync(kFullMask, high, d));
        }
        if (lane == 0) {
            keys[warp][0] = low;
            keys[warp][1] = high;
        }
        if (threadIdx.x < 2)
            counts[threadIdx.x] = 0;
        __syncthreads();
#pragma unroll
        for (int w = 0; w < kWarps; w++) {
            low = min(low, keys[w][0]);
            high = max(high, keys[w][1]);
        }
        const u64 low_at = least == low ? least_at : RP_NO_INDEX, high_at = most == high ? most_at : RP_NO_INDEX;
        u64 index[3] = {place(row, args.row_len, low, low_at), place(row, args.row_len, high, high_at), first_nan};
#pragma unroll
        for (int d = kWarp / 2; d; d >>= 1)
#pragma unroll
            for (int i = 0; i < 3; i++)
                index[i] = min(index[i], __shfl_xor_sync(kFullMask, index[i], d));
        const u32 z = warp_sum(zeros), n = warp_sum(nans);
        if (lane == 0) {
#pragma unroll
            for (int i = 0; i < 3; i++)
                places[warp][i] = index[i];
            atomicAdd(&counts[0], z);
            atomicAdd(&counts[1], n);
        }
        __syncthreads();
        if (threadIdx.x < 2) {
            u64 rank = 0, at = RP_NO_INDEX, nan = RP_NO_INDEX;
            for (int w = 0; w < kWarps; w++) {
                at = min(at, places[w][threadIdx.x]);
                nan = min(nan, places[w][2]);
            }
            if (at != RP_NO_INDEX)
                rank = rk_rank(args.dtype, threadIdx.x == 0, Element::own(Element::bits(threadIdx.x ? high : low)));
            if (nan != RP_NO_INDEX) {
                rank = rk_all_ones(args.dtype);
                at = nan;
            }
            words[2 * threadIdx.x] = rank;
            words[2 * threadIdx.x + 1] = at == RP_NO_INDEX ? at : at + args.first_index;
            words[4 + threadIdx.x] = counts[threadIdx.x];
        }
    }
};

} // namespace rk
