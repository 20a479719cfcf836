// Columns of f32 by vectors (column_ring.cuh): exact sums, of magnitudes too, and of squares.
#include "kernels/cuda/exact/tile_sum.cuh"
#include "kernels/cuda/pass/column_ring.cuh"
#include "kernels/cuda/pass/float_line.cuh"
#include "kernels/cuda/pass/join_words.cuh"

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

// What is known of a part of a column, as a few doubles.
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

// Sums: those of a tile's rows in one double, once rounded down and once up; where both are equal it is exact.
struct ColumnSum {
    static constexpr LineKind kKind = kSum;
    using Apart = Odd;

    Pair sum[kPer];
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
        for (int c = 0; c < kPer; c++)
            sum[c] = {-0.0, -0.0, false};
        noted = 0;
    }

    // One by one
    static __device__ __noinline__ Pair add_each(Pair sum, const u32 *p, u32 keep, bool skip, Odd *odd)
    {
#pragma unroll 1
        for (u32 k = 0; k < kRingRows; k++, p += 4 * kColumnThreads) {
            const u32 bits = *p & keep;
            if ((bits & ~kSign) < kInfinite)
                sum.add((double)__uint_as_float(bits));
            else
                odd->note(bits, skip, false);
        }
        return sum;
    }

    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kRingRows], const uint4 *at, Apart *apart)
    {
#pragma unroll
        for (int c = 0; c < kPer; c++) {
            const double first = (double)__uint_as_float(element(tile[0], c) & keep);
            Between all = {first, first};
#pragma unroll
            for (int k = 1; k < kRingRows; k++) {
                const double x = (double)__uint_as_float(element(tile[k], c) & keep);
                all.join({x, x});
            }
            if (all.low == all.high && fabs(all.high) < INFINITY) {
                sum[c].add(all.high);
                continue;
            }
            if (!(noted >> c & 1))
                apart[c].clear();
            noted |= 1u << c;
            sum[c] = add_each(sum[c], (const u32 *)at + c, keep, skip, apart + c);
        }
    }
    __device__ __forceinline__ ColumnPart<kSum> part(int c, const Apart *apart) const
    {
        ColumnPart<kSum> p;
        p.clear();
        p.sum = sum[c];
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

struct ColumnMoments {
    static constexpr LineKind kKind = kMoments;
    using Apart = MomentsApart;

    Window window[kPer]; // which do not count
    u32 filled;          // elements since all were empty
    u32 noted;           // columns of which something is apart: a bit each
    bool skip, one_infinity;

    __device__ __forceinline__ void init(const FinishArgs &a, const SegmentArgs &g)
    {
#pragma unroll
        for (int c = 0; c < kPer; c++)
            window[c].open(1);
        skip = g.skip;
        one_infinity = a.plan.sum == 0;
    }
    // The next columns' elements are expected to be like these.
    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (int c = 0; c < kPer; c++)
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

    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kRingRows], const uint4 *, Apart *apart)
    {
#pragma unroll
        for (int c = 0; c < kPer; c++) {
            u32 x[kRingRows];
            Magnitudes m;
#pragma unroll
            for (int k = 0; k < kRingRows; k++) {
                x[k] = element(tile[k], c);
                m.note(x[k]);
            }
            if (window[c].too_low(m.most >> 23) || !window[c].holds(m)) {
                u32 y[kRingRows]; // a copy, so that x stays in registers
#pragma unroll
                for (int k = 0; k < kRingRows; k++)
                    y[k] = x[k];
                use_apart(c, apart);
                window[c] = settle(window[c], y, apart + c, skip, one_infinity);
#pragma unroll
                for (int k = 0; k < kRingRows; k++)
                    x[k] = y[k];
            }
#pragma unroll
            for (int k = 0; k < kRingRows; k++)
                window[c].add<true>(x[k]);
        }
        filled += kRingRows;
        if (filled < Window::kFull)
            return;
#pragma unroll
        for (int c = 0; c < kPer; c++) {
            use_apart(c, apart);
            window[c] = emptied(window[c], apart + c);
        }
        filled = 0;
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

// Joins the parts of `rows` threads, `width` apart in a block, that are numbered from `row` on: number 0 gets it. A thread with
// another number takes no part. Whole block; `space` is for half of its threads.
template <class Part>
__device__ __forceinline__ void join_rows(Part &mine, u32 row, u32 rows, u32 side, u32 width, bool needs_sum, u64 *space)
{
    constexpr u32 kStep = kColumnThreads / 2;
    for (u32 left = rows, half; left > 1; left = half) {
        half = (left + 1) / 2;
        if (row >= half && row < left)
            mine.write(space + (row - half) * width + side, kStep, needs_sum);
        __syncthreads();
        if (row < left - half) {
            Part other;
            other.read(space + row * width + side, kStep);
            mine.join(other);
        }
        __syncthreads();
    }
}

template <class Columns> __global__ void __launch_bounds__(kColumnThreads, kColumnBlocks)
    walk_float_columns(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                       const __grid_constant__ WalkArgs w, u64 *out)
{
    using Part = ColumnPart<Columns::kKind>;
    RK_DYNAMIC_SHARED(uint4, ring);
    __shared__ u64 space[Part::kWords * kColumnThreads / 2];
    let_next_pass_start();
    const ColumnItems items(a, w, kPer);
    Columns x;
    typename Columns::Apart apart[kPer];
    x.init(a, g);
    auto take = [&](const ColumnItem &at) {
        Part parts[kPer]; // in local memory, so that what follows is there once
#pragma unroll
        for (int c = 0; c < kPer; c++)
            parts[c] = x.part(c, apart);
        const u32 team = w.team, row = items.row;
#pragma unroll 1
        for (u32 c = 0; c < kPer && team > 1; c++) { // that of column c is for the c-th row
            const u32 to = c % team;
            Part mine = parts[c];
            join_rows(mine,
                      row >= team ? team
                      : row >= to ? row - to
                                  : row + team - to,
                      team, items.side, w.width, a.plan.sum != 0, space);
            parts[c] = mine;
        }
#pragma unroll 1
        for (u32 c = row; c < kPer && at.own; c += team) {
            const auto l = parts[c].line(rows_of_team(a.spec.rows, w, at.team));
            const Share s = {at.number + c, at.team, {0, 1, 0}};
            if (w.values)
                finish_or_list(l, a, g, w.first_line + s.number, out);
            else if (w.pair_words)
                parts[c].write(pair_word(w, out, s.number, s.team, 0), (u64)(w.walkers / w.team) * w.lines, a.plan.sum != 0);
            else
                for (u32 j = 0; j < a.plan.all; j++)
                    partial_of(a, w, out, s)[j] = l.word(a.plan, g, j);
        }
    };
    each_item(
        items, a, sizeof(float), ring, [&] { x.begin(); },
        [&](const uint4(&tile)[kRingRows], const uint4 *at) { x.add_tile(tile, at, apart); }, take);
}

// What the teams of a column leave to its value. A block has w.width columns.
template <LineKind kKind> __global__ void __launch_bounds__(kColumnThreads)
    finish_float_columns(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                         const __grid_constant__ WalkArgs w, u64 *out)
{
    using Part = ColumnPart<kKind>;
    constexpr u32 kSpace = Part::kWords * kColumnThreads / 2;
    __shared__ u64 space[kSpace > kColumnThreads ? kSpace : kColumnThreads], total[kMaxWords];
    __shared__ u32 uncertain; // a column: a bit each
    const u32 side = threadIdx.x % w.width, row = threadIdx.x / w.width, rows = kColumnThreads / w.width;
    const u32 teams = w.walkers / w.team;
    const u64 first = (u64)blockIdx.x * w.width, number = first + side, step = (u64)teams * w.lines;
    wait_for_previous_pass();
    Part mine;
    mine.clear();
    for (u32 team = row; team < teams && number < w.lines && row < rows; team += rows) {
        Part other;
        other.read(pair_word(w, out, number, team, 0), step);
        mine.join(other);
    }
    if (threadIdx.x == 0)
        uncertain = 0;
    join_rows(mine, row, rows, side, w.width, a.plan.sum != 0, space);
    __syncthreads();
    if (row == 0 && number < w.lines && !mine.line(a.spec.rows).finish(a, g, w.first_line + number))
        atomicOr(&uncertain, 1u << side);
    __syncthreads();
    for (u32 left = uncertain; left; left &= left - 1) { // the general way
        Share s = {first + (u32)__ffs((int)left) - 1, 0, {0, 1, 0}};
        u64 *const in = partial_of(a, w, out, s);
        for (u64 i = threadIdx.x; i < (u64)teams * a.plan.all; i += kColumnThreads) {
            const u32 team = (u32)(i / a.plan.all);
            Part part;
            part.read(pair_word(w, out, s.number, team, 0), step);
            if (!part.sum.lost) // else it is there
                in[i] = part.line(rows_of_team(a.spec.rows, w, team)).word(a.plan, g, (u32)(i % a.plan.all));
        }
        __syncthreads();
        merge_words(a.plan, in, teams, space, total);
        if (threadIdx.x < kWarp)
            finish_row(a, w.first_line + s.number, total);
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

WalkFn column_finish_kernel(int layout)
{
    return rk_square_limbs(layout) ? finish_float_columns<kMoments> : finish_float_columns<kSum>;
}

u32 column_pair_words(int layout) { return rk_square_limbs(layout) ? ColumnPart<kMoments>::kWords : ColumnPart<kSum>::kWords; }

} // namespace rk
