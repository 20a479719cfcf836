// Columns of f32 by vectors (column_vectors.cuh): exact sums, of magnitudes too, and of squares.
#include "kernels/cuda/exact/tile_sum.cuh"
#include "kernels/cuda/pass/column_vectors.cuh"
#include "kernels/cuda/pass/float_line.cuh"

namespace rk {
namespace {

constexpr int kPer = 4; // columns of a thread
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

// Sums: those of a tile's rows in one double, once rounded down and once up; where both are equal it is exact.
struct ColumnSum {
    using Line = FloatLine<RP_F32, kSum>;
    using Apart = Odd;

    Pair sum[kPer];
    u32 keep; // of an element: all, or its magnitude
    bool skip;

    __device__ __forceinline__ void init(const FinishArgs &a, const SegmentArgs &g)
    {
#pragma unroll
        for (int c = 0; c < kPer; c++)
            sum[c] = {-0.0, -0.0, false};
        keep = rk_is_abs(a.plan.layout) ? ~kSign : ~0u;
        skip = g.skip;
    }

    // One by one
    static __device__ __noinline__ Pair add_each(Pair sum, const u32 *p, u64 jump, u32 rows, u32 keep, bool skip, Odd *odd)
    {
#pragma unroll 1
        for (u32 k = 0; k < rows; k++, p += jump / sizeof *p) {
            const u32 bits = *p & keep;
            if ((bits & ~kSign) < kInfinite)
                sum.add((double)__uint_as_float(bits));
            else
                odd->note(bits, skip, false);
        }
        return sum;
    }

    // The first `left` of a tile that begins at p, its rows `jump` bytes apart.
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kColumnRows], u32 left, const uint8_t *p, u64 jump, Odd *odd)
    {
#pragma unroll
        for (int c = 0; c < kPer; c++) {
            const double first = (double)__uint_as_float(element(tile[0], c) & keep);
            Between all = {first, first};
#pragma unroll
            for (int k = 1; k < kColumnRows; k++) {
                const double x = (double)__uint_as_float(k < left ? element(tile[k], c) & keep : kSign);
                all.join({x, x});
            }
            if (all.low == all.high && fabs(all.high) < INFINITY)
                sum[c].add(all.high);
            else
                sum[c] = add_each(sum[c], (const u32 *)p + c, jump, left, keep, skip, odd + c);
        }
    }
    __device__ __forceinline__ Line line(int c, u64 rows, const Odd &odd) const
    {
        Line l;
        l.sums.sum = sum[c];
        l.sums.squares.clear();
        l.sums.count = rows - odd.skipped;
        l.sums.special = odd.special;
        l.skipped = odd.skipped;
        return l;
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

struct ColumnMoments {
    using Line = FloatLine<RP_F32, kMoments>;
    using Apart = MomentsApart;

    Window window[kPer]; // which do not count
    u32 filled;          // elements since all were empty
    bool skip, one_infinity;

    __device__ __forceinline__ void init(const FinishArgs &a, const SegmentArgs &g)
    {
#pragma unroll
        for (int c = 0; c < kPer; c++)
            window[c].open(1);
        filled = 0;
        skip = g.skip;
        one_infinity = a.plan.sum == 0;
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
        for (u32 k = 0; k < kColumnRows; k++) {
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
        for (u32 k = 0; k < kColumnRows && w.first > 1; k++) {
            const double v = (double)__uint_as_float(x[k]);
            if (v == 0 || (x[k] & ~kSign) >= w.first << 23)
                continue;
            apart->sum.add(v);
            apart->squares.add(__dmul_rn(v, v));
            x[k] = kSign;
        }
        return w;
    }

    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kColumnRows], u32 left, const uint8_t *, u64, Apart *apart)
    {
#pragma unroll
        for (int c = 0; c < kPer; c++) {
            u32 x[kColumnRows];
            Magnitudes m;
#pragma unroll
            for (int k = 0; k < kColumnRows; k++) {
                x[k] = k == 0 || k < left ? element(tile[k], c) : kSign;
                m.note(x[k]);
            }
            if (window[c].too_low(m.most >> 23) || !window[c].holds(m)) {
                u32 y[kColumnRows]; // a copy, so that x stays in registers
#pragma unroll
                for (int k = 0; k < kColumnRows; k++)
                    y[k] = x[k];
                window[c] = settle(window[c], y, apart + c, skip, one_infinity);
#pragma unroll
                for (int k = 0; k < kColumnRows; k++)
                    x[k] = y[k];
            }
#pragma unroll
            for (int k = 0; k < kColumnRows; k++)
                window[c].add<true>(x[k]);
        }
        filled += kColumnRows;
        if (filled < Window::kFull)
            return;
#pragma unroll
        for (int c = 0; c < kPer; c++)
            window[c] = emptied(window[c], apart + c);
        filled = 0;
    }
    __device__ __forceinline__ Line line(int c, u64 rows, Apart &apart) const
    {
        emptied(window[c], &apart);
        Line l;
        l.sums = {apart.sum, apart.squares, rows - apart.odd.skipped, apart.odd.special};
        l.skipped = apart.odd.skipped;
        return l;
    }
};

template <class Columns> __global__ void __launch_bounds__(kColumnThreads, kColumnBlocks)
    walk_float_columns(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                       const __grid_constant__ WalkArgs w, u64 *out)
{
    using Line = typename Columns::Line;
    __shared__ __align__(16) unsigned char space[kColumnThreads * sizeof(Line)]; // a Line has no constructor to run
    Line *mine = (Line *)space + threadIdx.x;
    const ColumnPlace at(a, w, sizeof(float));
    Columns x;
    typename Columns::Apart apart[kPer];
    x.init(a, g);
    for (int c = 0; c < kPer; c++)
        apart[c].clear();
    at.each_tile(
        [&](const uint4(&tile)[kColumnRows], u32 left, const uint8_t *p) { x.add_tile(tile, left, p, at.jump, apart); });
    Line of_column[kPer]; // in local memory, so that what follows is there once
#pragma unroll
    for (int c = 0; c < kPer; c++)
        of_column[c] = x.line(c, at.rows, apart[c]);
    Share s = {at.number, at.team, {0, 1, 0}};
#pragma unroll 1
    for (int c = 0; c < kPer; c++, s.number++) {
        *mine = of_column[c];
        for (u32 half = w.team / 2; half; half /= 2) {
            __syncthreads();
            if (at.row < half)
                mine->join(mine[half * w.width]);
        }
        __syncthreads();
        if (at.own && w.values) {
            if (at.row == 0)
                finish_or_list(*mine, a, g, w.first_line + s.number, out);
        } else if (at.own) {
            for (u32 j = at.row; j < a.plan.all; j += w.team)
                partial_of(a, w, out, s)[j] = (mine - at.row * w.width)->word(a.plan, g, j);
        }
        __syncthreads();
    }
}

} // namespace

WalkFn column_float_kernel(int layout, int dtype)
{
    if (dtype != RP_F32 || rk_is_stats(layout))
        return NULL;
    return rk_square_limbs(layout) ? walk_float_columns<ColumnMoments> : walk_float_columns<ColumnSum>;
}

} // namespace rk
