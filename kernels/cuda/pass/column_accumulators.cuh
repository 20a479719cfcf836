// The accumulators of a thread for the columns of a vector of f32: exact sums of elements or magnitudes, and of squares; and
// the result for a part of a column.
#pragma once

#include "kernels/cuda/exact/row_values.cuh"
#include "kernels/cuda/exact/tile_sum.cuh"
#include "kernels/cuda/pass/float_line.cuh"
#include "kernels/cuda/pass/whole.h"

namespace rk {

constexpr u32 kSign = 1u << 31;

__device__ __forceinline__ u32 element(uint4 v, int c) { return c == 0 ? v.x : c == 1 ? v.y : c == 2 ? v.z : v.w; }

struct Odd { // of a column, what is rare: in local memory
    u64 skipped;
    u32 special;

    __device__ __forceinline__ void clear()
    {
        skipped = 0;
        special = 0;
    }
    // An infinity or a NaN
    __device__ __forceinline__ void note(u32 bits, bool skip, bool one_infinity)
    {
        const bool nan = AsF32::nan(bits);
        if (nan && skip)
            skipped++;
        else
            special |= nan ? RK_NAN : bits & kSign && !one_infinity ? RK_NINF : RK_PINF;
    }
};

// The result for a part of a column, as a few doubles.
template <LineKind kKind> struct ColumnPart {
    static constexpr u32 kWords = kKind == kSum ? 3 : 5;
    static constexpr u64 kSpecialAt = 60, kSkipped = (1ull << kSpecialAt) - 1;

    Pair sum;
    Terms<2> squares;
    u64 skipped;
    u32 special;

    __device__ __forceinline__ void clear()
    {
        sum = {-0.0, -0.0, false};
        squares.clear();
        skipped = 0;
        special = 0;
    }
    __device__ __forceinline__ void join(const ColumnPart &o)
    {
        sum.lost |= o.sum.lost;
        sum.join(o.sum.s, o.sum.t);
        if (kKind == kMoments)
            squares.join(o.squares);
        skipped += o.skipped;
        special |= o.special;
    }

    // As words, `step` apart.
    __device__ __forceinline__ void write(u64 *to, u64 step, bool needs_sum) const
    {
        const bool lost = !special && ((sum.lost && needs_sum) || squares.lost);
        to[0] = (u64)__double_as_longlong(sum.s);
        to[step] = (u64)__double_as_longlong(sum.t);
        if (kKind == kMoments) {
            to[2 * step] = (u64)__double_as_longlong(squares.x[0]);
            to[3 * step] = (u64)__double_as_longlong(squares.x[1]);
        }
        to[(kWords - 1) * step] = skipped | (u64)special << kSpecialAt | (lost ? kPairLost : 0);
    }
    __device__ __forceinline__ void read(const u64 *from, u64 step)
    {
        const u64 odd = from[(kWords - 1) * step];
        const bool lost = odd & kPairLost;
        sum = {__longlong_as_double((i64)from[0]), __longlong_as_double((i64)from[step]), lost};
        squares.clear();
        if (kKind == kMoments) {
            squares.x[0] = __longlong_as_double((i64)from[2 * step]);
            squares.x[1] = __longlong_as_double((i64)from[3 * step]);
        }
        squares.lost = lost;
        skipped = odd & kSkipped;
        special = (u32)(odd >> kSpecialAt) & 3;
    }
    __device__ __forceinline__ FloatLine<RP_F32, kKind> line(u64 rows) const
    {
        FloatLine<RP_F32, kKind> l;
        l.sums = {sum, squares, rows - skipped, special};
        l.skipped = skipped;
        return l;
    }
};

// Sums: those of a tile's rows in one double, once rounded down and once up; where both are equal it is exact. What adding it
// to those before rounds off is summed the same two ways. No branch for a column: what they wait for goes on side by side.
struct ColumnSum {
    static constexpr LineKind kKind = kSum;
    using Apart = Odd;

    double sum[kColumns];
    Between rest[kColumns];
    u32 keep;  // of an element: all, or its magnitude
    u32 noted; // columns of which something is apart: a bit each
    bool skip;

    __device__ __forceinline__ void init(const FinishArgs &a, const SegmentArgs &g)
    {
        keep = rk_is_abs(a.plan.layout) ? ~kSign : ~0u;
        skip = g.skip;
    }
    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (int c = 0; c < kColumns; c++) {
            sum[c] = -0.0;
            rest[c] = {0, 0};
        }
        noted = 0;
    }
    __device__ __forceinline__ void add(int c, double x)
    {
        const double e = two_sum(sum[c], x, sum[c]);
        rest[c].join({e, e});
    }

    // A column of a tile that no double holds: element after element. Infinities and NaNs are noted.
    template <class Again> __device__ __forceinline__ void add_each(int c, Again again, Odd *odd)
    {
        if (!(noted >> c & 1))
            odd->clear();
        noted |= 1u << c;
#pragma unroll 1
        for (u32 k = 0; k < kRingRows; k++) {
            const u32 bits = again(k, c) & keep;
            if ((bits & ~kSign) < kInfinite)
                add(c, (double)__uint_as_float(bits));
            else
                odd->note(bits, skip, false);
        }
    }

    // again(k, c): element c of row k of the tile, where k is not known beforehand
    template <class Again> __device__ __forceinline__ void add_tile(const uint4 (&tile)[kRingRows], Again again, Apart *apart)
    {
        Between all[kColumns];
        bool known = true;
#pragma unroll
        for (int k = 0; k < kRingRows; k++)
#pragma unroll
            for (int c = 0; c < kColumns; c++) {
                const double x = (double)__uint_as_float(element(tile[k], c) & keep);
                if (k == 0)
                    all[c] = {x, x};
                else
                    all[c].join({x, x});
            }
#pragma unroll
        for (int c = 0; c < kColumns; c++)
            known &= all[c].low == all[c].high && fabs(all[c].high) < INFINITY;
        if (!known) {
#pragma unroll
            for (int c = 0; c < kColumns; c++)
                if (!(all[c].low == all[c].high && fabs(all[c].high) < INFINITY)) {
                    add_each(c, again, apart + c);
                    all[c].high = -0.0;
                }
        }
#pragma unroll
        for (int c = 0; c < kColumns; c++)
            add(c, all[c].high);
    }
    // Its value, if it is as usual: in two doubles, of elements that are numbers.
    __device__ __forceinline__ bool value(int c, const FinishArgs &a, const RowValues &values, double *v) const
    {
        const Pair all = {sum[c], rest[c].high, false};
        const bool mean = a.finisher == RK_FINISH_MEAN;
        *v = all.value();
        double high;
        const double low = two_sum(all.s, all.t, high);
        const bool certain = !mean || high == 0 || values.mean_by.quotient(high, low, 0).round(v);
        return certain & (rest[c].low == rest[c].high) & !(noted >> c & 1);
    }
    __device__ __forceinline__ ColumnPart<kSum> part(int c, const Apart *apart) const
    {
        ColumnPart<kSum> p;
        p.clear();
        p.sum = {sum[c], rest[c].high, !(rest[c].low == rest[c].high)};
        if (noted >> c & 1) {
            p.skipped = apart[c].skipped;
            p.special = apart[c].special;
        }
        return p;
    }
};

// Sums and those of squares: a window for each column. In local memory what is not in it.
struct MomentsApart {
    Odd odd;
    Pair sum;
    Terms<2> squares;

    __device__ __forceinline__ void clear()
    {
        odd.clear();
        sum = {-0.0, -0.0, false};
        squares.clear();
    }
};

// kFresh: each item's windows lie where its first tile wants them, else as those of the item before.
template <bool kFresh> struct ColumnMoments {
    static constexpr LineKind kKind = kMoments;
    using Apart = MomentsApart;

    Window window[kColumns]; // which do not count
    u32 filled;              // elements since all were empty
    u32 noted;               // columns of which something is apart: a bit each
    bool skip, one_infinity;

    __device__ __forceinline__ void init(const FinishArgs &a, const SegmentArgs &g)
    {
#pragma unroll
        for (int c = 0; c < kColumns; c++)
            window[c].open(1);
        skip = g.skip;
        one_infinity = a.plan.sum == 0;
    }
    // The next columns' elements are expected to be like these.
    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (int c = 0; c < kColumns; c++)
            window[c].open(window[c].first);
        filled = 0;
        noted = 0;
    }

    static __device__ __noinline__ Window emptied(Window w, Apart *apart)
    {
        apart->sum.add(w.sum);
        apart->squares.add(w.lower);
        apart->squares.add(w.upper_squares());
        w.open(w.first);
        return w;
    }

    // Of a tile's elements those that the window holds remain, in place of the others comes -0.0. The window follows the
    // largest.
    static __device__ __noinline__ Window settle(Window w, u32 *x, Apart *apart, bool skip, bool one_infinity)
    {
        Magnitudes m;
        for (u32 k = 0; k < kRingRows; k++) {
            if ((x[k] & ~kSign) >= kInfinite) {
                apart->odd.note(x[k], skip, one_infinity);
                x[k] = kSign;
            }
            m.note(x[k]);
        }
        const u32 top = m.most >> 23;
        if (m.most != 0 && (w.too_low(top) || w.too_high(top))) { // zeros fit anywhere
            w = emptied(w, apart);
            w.open_for(top);
        }
        for (u32 k = 0; k < kRingRows && w.first > 1; k++) {
            const double v = (double)__uint_as_float(x[k]);
            if (v == 0 || (x[k] & ~kSign) >= w.first << 23)
                continue;
            apart->sum.add(v);
            apart->squares.add(__dmul_rn(v, v));
            x[k] = kSign;
        }
        return w;
    }

    __device__ __forceinline__ void use_apart(int c, Apart *apart)
    {
        if (!(noted >> c & 1))
            apart[c].clear();
        noted |= 1u << c;
    }

    static __device__ __forceinline__ Magnitudes magnitudes_of(const u32 (&x)[kRingRows])
    {
        Magnitudes m;
#pragma unroll
        for (int k = 0; k < kRingRows; k++)
            m.note(x[k]);
        return m;
    }
    __device__ __forceinline__ bool fits(int c, const u32 (&x)[kRingRows]) const
    {
        const Magnitudes m = magnitudes_of(x);
        return !window[c].too_low(m.most >> 23) && window[c].holds(m);
    }

    template <class Again> __device__ __forceinline__ void add_tile(const uint4 (&tile)[kRingRows], Again, Apart *apart)
    {
        u32 x[kColumns][kRingRows];
        bool all = true;
#pragma unroll
        for (int c = 0; c < kColumns; c++) {
#pragma unroll
            for (int k = 0; k < kRingRows; k++)
                x[c][k] = element(tile[k], c);
            if (kFresh && filled == 0) // infinities and NaNs are beyond it
                window[c].open_for(min(magnitudes_of(x[c]).most >> 23, 253u));
            all &= fits(c, x[c]);
        }
        if (!all) {
#pragma unroll
            for (int c = 0; c < kColumns; c++) {
                if (fits(c, x[c]))
                    continue;
                u32 y[kRingRows]; // a copy, so that x stays in registers
#pragma unroll
                for (int k = 0; k < kRingRows; k++)
                    y[k] = x[c][k];
                use_apart(c, apart);
                window[c] = settle(window[c], y, apart + c, skip, one_infinity);
#pragma unroll
                for (int k = 0; k < kRingRows; k++)
                    x[c][k] = y[k];
            }
        }
#pragma unroll
        for (int k = 0; k < kRingRows; k++)
#pragma unroll
            for (int c = 0; c < kColumns; c++)
                window[c].add<true>(x[c][k]);
        filled += kRingRows;
        if (filled < Window::kFull)
            return;
#pragma unroll
        for (int c = 0; c < kColumns; c++) {
            use_apart(c, apart);
            window[c] = emptied(window[c], apart + c);
        }
        filled = 0;
    }
    // Its value, if it is as usual: of elements in one window.
    __device__ __forceinline__ bool value(int c, const FinishArgs &a, const RowValues &values, double *v) const
    {
        double squares[2];
        squares[1] = two_sum(window[c].upper_squares(), window[c].lower, squares[0]);
        return values.of_squares(a.spec.op, window[c].sum, squares).round(v) & !(noted >> c & 1);
    }
    __device__ __forceinline__ ColumnPart<kMoments> part(int c, Apart *apart) const
    {
        ColumnPart<kMoments> p;
        p.clear();
        if (noted >> c & 1) {
            emptied(window[c], apart + c);
            p.sum = apart[c].sum;
            p.squares = apart[c].squares;
            p.skipped = apart[c].odd.skipped;
            p.special = apart[c].odd.special;
        } else {
            p.sum.s = window[c].sum;
            p.squares.x[1] = two_sum(window[c].upper_squares(), window[c].lower, p.squares.x[0]);
        }
        return p;
    }
};

// As finish_or_list, of any number of lines: where the list is full the line's cell is marked. Cells of a double alone.
template <class Line>
__device__ __forceinline__ void finish_or_mark(const Line &l, const FinishArgs &a, const SegmentArgs &g, u64 line, u64 *list)
{
    if (l.finish(a, g, line))
        return;
    const u64 i = atomicAdd(list, 1ull);
    if (i < kMostListed)
        list[1 + i] = line;
    else
        ((u64 *)a.cells)[line] = kUncertain;
}

} // namespace rk
