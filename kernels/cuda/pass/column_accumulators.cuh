// The result for a part of a column of floats, and the accumulators of a thread for the squares of whole columns of f32.
#pragma once

#include "kernels/cuda/exact/enclosed.cuh"
#include "kernels/cuda/exact/row_window.cuh"
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
    __device__ __forceinline__ void note(bool nan, bool negative, bool skip)
    {
        if (nan && skip)
            skipped++;
        else
            special |= nan ? RK_NAN : negative ? RK_NINF : RK_PINF;
    }
};

// What is kept of the elements of a thread's columns, and which columns have infinities or NaNs
struct ColumnRules {
    u32 keep;    // of an element's bits, or of the upper word of a f64: all, or all but the sign
    u32 special; // columns whose infinities or NaNs are in Odd: a bit each
    bool skip, one_infinity;

    __device__ __forceinline__ ColumnRules(const FinishArgs &a, const SegmentArgs &g)
        : keep(rk_is_abs(a.plan.layout) ? ~kSign : ~0u), special(0), skip(g.skip), one_infinity(a.plan.sum == 0)
    {
    }
    ColumnRules() = default;
    __device__ __forceinline__ bool is_special(int c) const { return special >> c & 1; }
    __device__ __forceinline__ void note(int c, bool nan, bool negative, Odd *odd)
    {
        if (!is_special(c))
            odd->clear();
        special |= 1u << c;
        odd->note(nan, negative && !one_infinity, skip);
    }
};

// A number that is not negative, rounded up to a power of two or 0: its exponent field.
__device__ __forceinline__ u32 field_above(double x) { return x == 0 ? 0 : min(((u32)__double2hiint(x) >> 20) + 1, 2047u); }
__device__ __forceinline__ double of_field(u32 field) { return __hiloint2double((int)(field << 20), 0); }

// The result for a part of a column, as a few doubles. kDtype: f64, or f32 for it and what is narrower, whose states are alike.
template <LineKind kKind, int kDtype = RP_F32> struct ColumnPart {
    static constexpr LineKind kWhat = kKind;
    static constexpr u32 kWords = kKind == kSum ? 3 : 5;
    // The last word: NaNs that were skipped, errors (field_above), what is special
    static constexpr u64 kSumAt = 36, kSquaresAt = 47, kSpecialAt = 60, kSkipped = (1ull << kSumAt) - 1, kField = 2047;

    NearSum sum, squares;
    u64 skipped;
    u32 special;

    __device__ __forceinline__ void clear()
    {
        sum.clear();
        squares = {0, 0, 0};
        skipped = 0;
        special = 0;
    }
    __device__ __forceinline__ void join(const ColumnPart &o)
    {
        sum.join(o.sum);
        if (kKind == kMoments)
            squares.join(o.squares);
        skipped += o.skipped;
        special |= o.special;
    }
    __device__ __forceinline__ bool exact() const { return special || (sum.error == 0 && squares.error == 0); }
    __device__ __forceinline__ void take(const Odd &odd)
    {
        skipped = odd.skipped;
        special = odd.special;
    }

    // As words, `step` apart.
    __device__ __forceinline__ void write(u64 *to, u64 step, bool needs_sum) const
    {
        to[0] = (u64)__double_as_longlong(sum.s);
        to[step] = (u64)__double_as_longlong(sum.t);
        u64 odd = skipped | (u64)special << kSpecialAt;
        if (needs_sum && !special)
            odd |= (u64)field_above(sum.error) << kSumAt;
        if (kKind == kMoments) {
            to[2 * step] = (u64)__double_as_longlong(squares.s);
            to[3 * step] = (u64)__double_as_longlong(squares.t);
            odd |= special ? 0 : (u64)field_above(squares.error) << kSquaresAt;
        }
        to[(kWords - 1) * step] = odd;
    }
    __device__ __forceinline__ void read(const u64 *from, u64 step)
    {
        const u64 odd = from[(kWords - 1) * step];
        auto number = [&](u32 k) { return __longlong_as_double((i64)from[k * step]); };
        sum = {number(0), number(1), of_field((u32)(odd >> kSumAt & kField))};
        squares = {0, 0, 0};
        if (kKind == kMoments)
            squares = {number(2), number(3), of_field((u32)(odd >> kSquaresAt & kField))};
        skipped = odd & kSkipped;
        special = (u32)(odd >> kSpecialAt) & 3;
    }
    __device__ __forceinline__ FloatLine<kDtype, kKind> line(u64 rows) const
    {
        FloatLine<kDtype, kKind> l;
        l.sums = {{sum.s, sum.t, sum.error != 0}, {{squares.s, squares.t}, squares.error != 0}, rows - skipped, special};
        l.skipped = skipped;
        return l;
    }
    // Makes cell `line`. False: it is not certain, or a fault.
    __device__ __forceinline__ bool finish(const FinishArgs &a, const SegmentArgs &g, u64 rows, u64 line) const
    {
        if (exact())
            return this->line(rows).template finish<true>(a, g, line);
        if (skipped && g.nan_error)
            return false;
        double v;
        return value_near(a.spec.op, a.spec.ddof, (rk_finisher)a.finisher, rows - skipped, sum, squares, &v) &&
               write_value(a, line, v);
    }
};

// Sums and those of squares: a window for each column. In local memory what is not in it.
struct MomentsApart {
    Odd odd;
    Enclosed sum, squares;

    __device__ __forceinline__ void clear()
    {
        odd.clear();
        sum.clear();
        squares.clear();
    }
};

// The window of a column, of up to 2^n elements (row_window.cuh).
struct ColumnWindow {
    u32 first; // exponent field of the lowest binade
    double sum, upper, lower;

    __device__ __forceinline__ void open(u32 n, u32 lowest)
    {
        first = lowest;
        sum = -0.0;
        upper = row_anchor(n, first);
        lower = 0;
    }
    // For elements with exponent fields up to `top`, and `room` binades above.
    __device__ __forceinline__ void open_for(u32 n, u32 top, u32 room)
    {
        const u32 below = row_binades(n) - 1 - room;
        open(n, top > below ? top - below : 1);
    }
    __device__ __forceinline__ double upper_squares(u32 n) const { return __dsub_rn(upper, row_anchor(n, first)); }

    // Must it shift for elements with exponent fields up to `top`?
    __device__ __forceinline__ bool too_low(u32 n, u32 top) const { return (int)(top - first) >= (int)row_binades(n); }
    __device__ __forceinline__ bool too_high(u32 n, u32 top) const
    {
        return (int)(top - first) < (int)row_binades(n) / 2 && first > 1;
    }
    __device__ __forceinline__ bool holds(u32 n, const Magnitudes &m) const
    {
        return !too_low(n, m.most >> 23) && (first == 1 || m.least >= (first << 23) - 1);
    }
    __device__ __forceinline__ void add(u32 bits)
    {
        const double x = (double)__uint_as_float(bits);
        add_square(x, upper, lower);
        sum = __dadd_rn(sum, x);
    }
};

// Of whole columns, which have few elements: the first tile places the windows, with room above, and they hold all elements.
struct ColumnMoments {
    using Apart = MomentsApart;
    static constexpr u32 kRoom = 3; // of 8 normal numbers the largest is hardly ever below an eighth of others

    ColumnWindow window[kColumns];
    u32 log2;   // of the elements that windows hold
    bool first; // no tile has come
    u32 noted;  // columns of which something is apart: a bit each
    bool skip, one_infinity;

    __device__ __forceinline__ void init(const FinishArgs &a, const SegmentArgs &g)
    {
        log2 = 32 - (u32)__clz((int)((u32)a.spec.rows - 1));
        skip = g.skip;
        one_infinity = a.plan.sum == 0;
    }
    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (int c = 0; c < kColumns; c++)
            window[c].open(log2, 1);
        first = true;
        noted = 0;
    }

    static __device__ __noinline__ ColumnWindow emptied(ColumnWindow w, u32 n, Apart *apart)
    {
        apart->sum.add(w.sum);
        apart->squares.add(w.lower);
        apart->squares.add(w.upper_squares(n));
        w.open(n, w.first);
        return w;
    }

    // Of a tile's elements those that the window holds remain, in place of the others comes -0.0. The window follows the
    // largest.
    static __device__ __noinline__ ColumnWindow settle(ColumnWindow w, u32 n, u32 *x, Apart *apart, bool skip,
                                                       bool one_infinity)
    {
        Magnitudes m;
#pragma unroll 1 // the fewer registers this takes, the more the loop that calls it has
        for (u32 k = 0; k < kRingRows; k++) {
            if ((x[k] & ~kSign) >= kInfinite) {
                apart->odd.note(AsF32::nan(x[k]), x[k] & kSign && !one_infinity, skip);
                x[k] = kSign;
            }
            m.note(x[k]);
        }
        const u32 top = m.most >> 23;
        if (m.most != 0 && (w.too_low(n, top) || w.too_high(n, top))) { // zeros fit anywhere
            w = emptied(w, n, apart);
            w.open_for(n, top, kRoom);
        }
#pragma unroll 1
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
        return window[c].holds(log2, magnitudes_of(x));
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
            if (first) // infinities and NaNs are beyond it
                window[c].open_for(log2, min(magnitudes_of(x[c]).most >> 23, 254u - kRoom), kRoom);
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
                window[c] = settle(window[c], log2, y, apart + c, skip, one_infinity);
#pragma unroll
                for (int k = 0; k < kRingRows; k++)
                    x[c][k] = y[k];
            }
        }
#pragma unroll
        for (int k = 0; k < kRingRows; k++)
#pragma unroll
            for (int c = 0; c < kColumns; c++)
                window[c].add(x[c][k]);
        first = false;
    }
    // Its value, if it is as usual: of elements in one window.
    __device__ __forceinline__ bool value(int c, const FinishArgs &a, const RowValues &values, double *v) const
    {
        double squares[2];
        squares[1] = two_sum(window[c].upper_squares(log2), window[c].lower, squares[0]);
        return values.of_squares(a.spec.op, window[c].sum, squares).round(v) & !(noted >> c & 1);
    }
    __device__ __forceinline__ ColumnPart<kMoments> part(int c, Apart *apart) const
    {
        ColumnPart<kMoments> p;
        p.clear();
        if (noted >> c & 1) {
            emptied(window[c], log2, apart + c);
            p.sum = apart[c].sum.sum();
            p.squares = apart[c].squares.sum();
            p.take(apart[c].odd);
        } else {
            p.sum.s = window[c].sum;
            p.squares.t = two_sum(window[c].upper_squares(log2), window[c].lower, p.squares.s);
        }
        return p;
    }
};

// The line is marked in its cell as one of those that are counted at `listed`.
__device__ __forceinline__ void mark_line(const FinishArgs &a, u64 line, u64 *listed)
{
    atomicAdd(listed, 1ull);
    write_bits(a.cell_bytes, a.cells, line, uncertain_bits(a.cell_bytes));
}

// The line is listed; where the list is full it is marked.
__device__ __forceinline__ void list_or_mark(const FinishArgs &a, u64 line, u64 *list)
{
    const u64 i = atomicAdd(list, 1ull);
    if (i < kMostListed)
        list[1 + i] = line;
    else
        write_bits(a.cell_bytes, a.cells, line, uncertain_bits(a.cell_bytes));
}

} // namespace rk
