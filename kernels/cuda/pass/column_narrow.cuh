// The accumulators of a thread for the columns of a vector of f16, bf16 or f32: sums of elements or magnitudes, and of squares,
// in a few doubles with a bound on what these do not hold.
#pragma once

#include "kernels/cuda/pass/column_accumulators.cuh"

namespace rk {

// The sum of a tile's rows is one double: of finite f16 always, for they are multiples of 2^-24 below 2^16. Otherwise it is
// summed rounding down and up; where both are equal nothing was rounded off. So are squares, which are doubles exactly. Those
// of f32 have 48 bits, so one double seldom holds a tile of them: they are added one by one.
template <int kDtype, LineKind kKind> struct NarrowColumns {
    static constexpr int kPer = 16 / Float<kDtype>::kBytes;
    static constexpr u32 kBlocks = kPer == 8 && kKind == kMoments ? 1 : kColumnBlocks; // for registers
    static constexpr bool kOneDouble = kDtype == RP_F16, kOneByOne = kDtype == RP_F32;
    using Element = typename FloatElement<kDtype>::Type;
    static constexpr int kPerWord = Element::kPerWord;
    using Part = ColumnPart<kKind>;
    using Apart = Odd;

    Enclosed sum[kPer], squares[kPer];
    ColumnRules rules;

    __device__ __forceinline__ void init(const FinishArgs &a, const SegmentArgs &g) { rules = ColumnRules(a, g); }
    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (int c = 0; c < kPer; c++) {
            sum[c].clear();
            squares[c].clear();
        }
        rules.special = 0;
    }

    // A column of a tile that one double does not hold: element after element. again(k, i): word i of row k of the tile.
    template <class Again> __device__ __forceinline__ void add_each(int c, Again again, Apart *odd)
    {
#pragma unroll 1
        for (u32 k = 0; k < kRingRows; k++) {
            const u32 bits = Element::get(again(k, c / kPerWord), c % kPerWord) & rules.keep;
            const double x = (double)__uint_as_float(bits);
            if ((bits & ~kSign) < kInfinite) {
                sum[c].add(x);
                if (kKind == kMoments)
                    squares[c].add(__dmul_rn(x, x));
                continue;
            }
            rules.note(c, Element::nan(bits), bits & kSign, odd);
        }
    }

    template <class Again> __device__ __forceinline__ void add_tile(const uint4 (&tile)[kRingRows], Again again, Apart *apart)
    {
        u32 others = 0; // columns that one double does not hold: a bit each
#pragma unroll
        for (int c = 0; c < kPer; c++) {
            double x[kRingRows];
            Between all = {-0.0, -0.0}, of_squares = {0, 0};
#pragma unroll
            for (int k = 0; k < kRingRows; k++) {
                x[k] = (double)__uint_as_float(Element::get(element(tile[k], c / kPerWord), c % kPerWord) & rules.keep);
                if (kOneDouble)
                    all.high = __dadd_rn(all.high, x[k]);
                else
                    all.join({x[k], x[k]});
            }
            if (kKind == kMoments && !kOneByOne) {
#pragma unroll
                for (int k = 0; k < kRingRows; k++) {
                    const double square = __dmul_rn(x[k], x[k]);
                    of_squares.join({square, square});
                }
            }
            const bool held = (kOneDouble || all.low == all.high) && fabs(all.high) < INFINITY &&
                              of_squares.low == of_squares.high;
            others |= (u32)!held << c;
            sum[c].add(held ? all.high : -0.0);
            if (kKind == kMoments && !kOneByOne)
                squares[c].add(held ? of_squares.high : 0);
            if (kKind == kMoments && kOneByOne) {
#pragma unroll
                for (int k = 0; k < kRingRows; k++)
                    squares[c].add(held ? __dmul_rn(x[k], x[k]) : 0);
            }
        }
        if (others) { // rare
#pragma unroll
            for (int c = 0; c < kPer; c++)
                if (others >> c & 1)
                    add_each(c, again, apart + c);
        }
    }

    // A sum or mean, if it is as usual: in two doubles, of elements that are numbers
    __device__ __forceinline__ bool value(int c, const FinishArgs &a, const RowValues &values, double *v) const
    {
        const NearSum all = sum[c].sum();
        const bool certain = a.finisher == RK_FINISH_MEAN ? all.mean(values.mean_by, v) : all.value(v);
        return certain & !rules.is_special(c);
    }
    __device__ __forceinline__ Part part(int c, const Apart *apart) const
    {
        Part p;
        p.clear();
        p.sum = sum[c].sum();
        if (kKind == kMoments)
            p.squares = squares[c].sum();
        if (rules.is_special(c))
            p.take(apart[c]);
        return p;
    }
};

} // namespace rk
