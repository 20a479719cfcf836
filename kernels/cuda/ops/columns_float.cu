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

// Sums: those of a tile's rows in one double, once rounded down and once up; where both are equal it is exact. What adding it
// to those before rounds off is summed the same two ways. No branch for a column: what they wait for goes on side by side.
struct ColumnSum {
    static constexpr LineKind kKind = kSum;
    using Apart = Odd;

    double sum[kPer];
    Between rest[kPer];
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
        for (int c = 0; c < kPer; c++) {
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
    __device__ __forceinline__ void add_each(int c, const u32 *p, Odd *odd)
    {
        if (!(noted >> c & 1))
            odd->clear();
        noted |= 1u << c;
#pragma unroll 1
        for (u32 k = 0; k < kRingRows; k++, p += 4 * kColumnThreads) {
            const u32 bits = *p & keep;
            if ((bits & ~kSign) < kInfinite)
                add(c, (double)__uint_as_float(bits));
            else
                odd->note(bits, skip, false);
        }
    }

    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kRingRows], const uint4 *at, Apart *apart)
    {
        Between all[kPer];
        bool known = true;
#pragma unroll
        for (int k = 0; k < kRingRows; k++)
#pragma unroll
            for (int c = 0; c < kPer; c++) {
                const double x = (double)__uint_as_float(element(tile[k], c) & keep);
                if (k == 0)
                    all[c] = {x, x};
                else
                    all[c].join({x, x});
            }
#pragma unroll
        for (int c = 0; c < kPer; c++)
            known &= all[c].low == all[c].high && fabs(all[c].high) < INFINITY;
        if (!known) {
#pragma unroll
            for (int c = 0; c < kPer; c++)
                if (!(all[c].low == all[c].high && fabs(all[c].high) < INFINITY)) {
                    add_each(c, (const u32 *)at + c, apart + c);
                    all[c].high = -0.0;
                }
        }
#pragma unroll
        for (int c = 0; c < kPer; c++)
            add(c, all[c].high);
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

    __device__ __forceinline__ bool fits(int c, const u32 (&x)[kRingRows]) const
    {
        Magnitudes m;
#pragma unroll
        for (int k = 0; k < kRingRows; k++)
            m.note(x[k]);
        return !window[c].too_low(m.most >> 23) && window[c].holds(m);
    }

    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kRingRows], const uint4 *, Apart *apart)
    {
        u32 x[kPer][kRingRows];
        bool all = true;
#pragma unroll
        for (int c = 0; c < kPer; c++) {
#pragma unroll
            for (int k = 0; k < kRingRows; k++)
                x[c][k] = element(tile[k], c);
            all &= fits(c, x[c]);
        }
        if (!all) {
#pragma unroll
            for (int c = 0; c < kPer; c++) {
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
            for (int c = 0; c < kPer; c++)
                window[c].add<true>(x[c][k]);
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

constexpr u32 kParts = kPer * kColumnThreads; // of a block

// Joins `rows` rows of `across` parts each, which lie one behind the other in `space`, of each word kStep. Whole block.
template <class Part, u32 kStep> __device__ __forceinline__ void join_rows(u64 *space, u32 rows, u32 across, bool needs_sum)
{
    __syncthreads();
    for (u32 left = rows, half; left > 1; left = half) {
        half = (left + 1) / 2;
        for (u32 i = threadIdx.x; i < (left - half) * across; i += kColumnThreads) {
            Part mine, other;
            mine.read(space + i, kStep);
            other.read(space + i + half * across, kStep);
            mine.join(other);
            mine.write(space + i, kStep, needs_sum);
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
    u64 *const space = (u64 *)(ring + kRingBytes / sizeof(uint4)); // a part for each thread and column
    const bool needs_sum = a.plan.sum != 0;
    let_next_pass_start();
    const ColumnItems items(a, w, kPer);
    Columns x;
    typename Columns::Apart apart[kPer];
    x.init(a, g);
    auto take = [&](const ColumnItem &at) {
        const u32 across = kPer * w.width, row = items.row;
        if (row < w.team) {
#pragma unroll
            for (int c = 0; c < kPer; c++)
                x.part(c, apart).write(space + (row * across + items.side * kPer + c), kParts, needs_sum);
        }
        join_rows<Part, kParts>(space, w.team, across, needs_sum);
        const u64 rows = items.rows_of(at.team), first = at.number - items.side * kPer;
        const bool quick = Columns::kKind == kSum && w.values && a.finisher == RK_FINISH_TOTAL &&
                           a.cell_bytes == sizeof(double);
        u32 quickly = 0; // columns that are finished
#pragma unroll
        for (u32 k = 0; k < kPer && quick; k++) {
            const u32 i = threadIdx.x + k * kColumnThreads;
            Part part;
            part.read(space + min(i, across - 1), kParts);
            if (i >= across || first + i >= w.lines || part.sum.lost || part.skipped || part.special)
                break;
            ((double *)a.cells)[w.first_line + first + i] = part.sum.value();
            quickly += kColumnThreads;
        }
#pragma unroll 1
        for (u32 i = threadIdx.x + quickly; i < across && first + i < w.lines; i += kColumnThreads) {
            Part part;
            part.read(space + i, kParts);
            const auto l = part.line(rows);
            const Share s = {first + i, at.team, {0, 1, 0}};
            if (w.values)
                finish_or_list(l, a, g, w.first_line + s.number, out);
            else if (w.pair_words)
                part.write(pair_word(w, out, s.number, s.team, 0), (u64)(w.walkers / w.team) * w.lines, needs_sum);
            else
                for (u32 j = 0; j < a.plan.all; j++)
                    partial_of(a, w, out, s)[j] = l.word(a.plan, g, j);
        }
        __syncthreads(); // before the next item's parts come
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
    __shared__ u64 space[Part::kWords * kColumnThreads], total[kMaxWords];
    __shared__ u32 uncertain; // a column: a bit each
    const u32 side = threadIdx.x % w.width, row = threadIdx.x / w.width, rows = kColumnThreads / w.width;
    const u32 teams = w.walkers / w.team;
    const u64 each = a.spec.rows / w.walkers, more = a.spec.rows % w.walkers;
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
    mine.write(space + threadIdx.x, kColumnThreads, a.plan.sum != 0);
    join_rows<Part, kColumnThreads>(space, rows, w.width, a.plan.sum != 0);
    if (row == 0)
        mine.read(space + side, kColumnThreads);
    if (row == 0 && number < w.lines && !mine.line(a.spec.rows).template finish<true>(a, g, w.first_line + number))
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
                in[i] = part.line(rows_of_team(each, more, w, team)).word(a.plan, g, (u32)(i % a.plan.all));
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

size_t column_shared_bytes(int layout) { return kRingBytes + column_pair_words(layout) * kParts * sizeof(u64); }

} // namespace rk
