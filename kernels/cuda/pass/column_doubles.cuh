// The accumulators of a thread for the columns of a vector of f64: sums of elements or magnitudes, and of squares, in a few
// doubles with a bound on what these do not hold.
#pragma once

#include "kernels/cuda/exact/near_doubles.cuh"
#include "kernels/cuda/pass/column_accumulators.cuh"

namespace rk {

template <LineKind kKind> struct DoubleColumns {
    static constexpr int kPer = 2, kBlocks = kColumnBlocks;
    using Part = ColumnPart<kKind, RP_F64>;
    using Apart = Odd;

    NearDoubles<kKind == kMoments> sums[kPer];
    ColumnRules rules;

    __device__ __forceinline__ void init(const FinishArgs &a, const SegmentArgs &g) { rules = ColumnRules(a, g); }
    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (int c = 0; c < kPer; c++)
            sums[c].clear();
        rules.special = 0;
    }

    // again(k, i): word i of row k of the tile, where k is not known beforehand
    template <class Again> __device__ __forceinline__ void note_specials(Again again, Apart *apart)
    {
#pragma unroll 1
        for (int k = 0; k < (int)kRingRows * kPer; k++) {
            const int c = k % kPer;
            const u32 low = again(k / kPer, 2 * c), high = again(k / kPer, 2 * c + 1) & rules.keep;
            if ((high & ~kSign) >= kSpecialHigh)
                rules.note(c, ((high & 0xfffffu) | low) != 0, high & kSign, apart + c);
        }
    }

    template <class Again> __device__ __forceinline__ void add_tile(const uint4 (&tile)[kRingRows], Again again, Apart *apart)
    {
        u32 most = 0;
#pragma unroll
        for (int k = 0; k < kRingRows; k++)
            most = max(most, max(tile[k].y & ~kSign, tile[k].w & ~kSign));
        const bool finite = most < kSpecialHigh;
        if (!finite) // rare
            note_specials(again, apart);
#pragma unroll
        for (int k = 0; k < kRingRows; k++) {
            add(0, tile[k].x, tile[k].y, finite);
            add(1, tile[k].z, tile[k].w, finite);
        }
    }
    __device__ __forceinline__ void add(int c, u32 low, u32 high, bool finite)
    {
        const bool out = !finite && (high & ~kSign) >= kSpecialHigh; // then -0.0 is added
        sums[c].add(out ? 0 : low, out ? kSign : high & rules.keep);
    }

    __device__ __forceinline__ Part part(int c, const Apart *apart) const
    {
        Part p;
        p.clear();
        p.sum = sums[c].sum.sum();
        if (kKind == kMoments)
            p.squares = sums[c].known_squares().sum();
        if (rules.is_special(c))
            p.take(apart[c]);
        return p;
    }
};

} // namespace rk
