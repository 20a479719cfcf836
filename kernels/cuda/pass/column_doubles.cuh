// The accumulators of a thread for the columns of a vector of f64: sums of elements or magnitudes, and of squares, in a few
// doubles with a bound on what these do not hold.
#pragma once

#include "kernels/cuda/pass/column_accumulators.cuh"

namespace rk {

// Of an element's upper word without the sign: infinities and NaNs from here on; and squares of less than 2^-450 may not be the
// sum of two doubles.
constexpr u32 kSpecialHigh = 0x7ff00000u, kLeastSquared = (1023 - 450) << 20;

template <LineKind kKind> struct DoubleColumns {
    static constexpr int kPer = 2, kBlocks = kColumnBlocks;
    using Part = ColumnPart<kKind, RP_F64>;
    using Apart = Odd;

    Enclosed sum[kPer], squares[kPer];
    u32 tiny[kPer]; // bits of elements whose squares two doubles may not hold: mostly none
    u32 keep;       // of an element's upper word: all, or all but the sign
    u32 special;    // columns with infinities or NaNs, which are apart: a bit each
    bool skip, one_infinity;

    __device__ __forceinline__ void init(const FinishArgs &a, const SegmentArgs &g)
    {
        keep = rk_is_abs(a.plan.layout) ? ~kSign : ~0u;
        skip = g.skip;
        one_infinity = a.plan.sum == 0;
    }
    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (int c = 0; c < kPer; c++) {
            sum[c].clear();
            squares[c].clear();
            tiny[c] = 0;
        }
        special = 0;
    }

    // again(k, i): word i of row k of the tile, where k is not known beforehand
    template <class Again> __device__ __forceinline__ void note_specials(Again again, Apart *apart)
    {
#pragma unroll 1
        for (int k = 0; k < (int)kRingRows * kPer; k++) {
            const int c = k % kPer;
            const u32 low = again(k / kPer, 2 * c), high = again(k / kPer, 2 * c + 1) & keep;
            if ((high & ~kSign) < kSpecialHigh)
                continue;
            if (!(special >> c & 1))
                apart[c].clear();
            special |= 1u << c;
            apart[c].note(((high & 0xfffffu) | low) != 0, high & kSign && !one_infinity, skip);
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
        const bool out = !finite && (high & ~kSign) >= kSpecialHigh;
        const double x = out ? -0.0 : __hiloint2double((int)(high & keep), (int)low);
        sum[c].add(x);
        if (kKind != kMoments)
            return;
        const u32 upper = high & ~kSign;
        tiny[c] |= upper < kLeastSquared ? upper | low : 0;
        const double square = __dmul_rn(x, x), rest = __fma_rn(x, x, -square);
        squares[c].add(square);
        squares[c].rest.join({rest, rest});
    }

    __device__ __forceinline__ Part part(int c, const Apart *apart) const
    {
        Part p;
        p.clear();
        p.sum = sum[c].sum();
        if (kKind == kMoments) {
            p.squares = squares[c].sum();
            p.squares.error = tiny[c] ? INFINITY : p.squares.error;
        }
        if (special >> c & 1) {
            p.skipped = apart[c].skipped;
            p.special = apart[c].special;
        }
        return p;
    }
};

} // namespace rk
