// Columns of floats by vectors (column_ring.cuh): exact sums, of magnitudes too, and of squares.
#include "kernels/cuda/pass/column_accumulators.cuh"
#include "kernels/cuda/pass/column_doubles.cuh"
#include "kernels/cuda/pass/column_narrow.cuh"
#include "kernels/cuda/pass/column_ring.cuh"
#include "kernels/cuda/pass/join_words.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

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

// Out of line, so that the loop has its registers.
template <class Part>
__device__ __noinline__ bool finish_part(const Part &part, const FinishArgs &a, const SegmentArgs &g, u64 rows, u64 line)
{
    return part.finish(a, g, rows, line);
}

template <class Columns> __global__ void __launch_bounds__(kColumnThreads, Columns::kBlocks)
    walk_float_columns(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                       const __grid_constant__ WalkArgs w, u64 *out)
{
    using Part = typename Columns::Part;
    constexpr int kPer = Columns::kPer;
    constexpr u32 kParts = kPer * kColumnThreads; // of a block
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
        const bool quick = Part::kWhat == kSum && w.values && a.finisher == RK_FINISH_TOTAL;
        u32 quickly = 0; // columns that the quick way has finished
#pragma unroll
        for (u32 k = 0; k < kPer && quick; k++) {
            const u32 i = threadIdx.x + k * kColumnThreads;
            Part part;
            part.read(space + min(i, across - 1), kParts);
            double v;
            if (i >= across || first + i >= w.lines || !part.sum.value(&v) || part.skipped || part.special ||
                !write_value(a, w.first_line + first + i, v))
                break;
            quickly += kColumnThreads;
        }
#pragma unroll 1
        for (u32 i = threadIdx.x + quickly; i < across && first + i < w.lines; i += kColumnThreads) {
            Part part;
            part.read(space + i, kParts);
            const Share s = {first + i, at.team, {0, 1, 0}};
            const u64 line = w.first_line + s.number;
            if (w.values) {
                if (!finish_part(part, a, g, rows, line))
                    list_or_mark(a, line, out);
            } else if (w.pair_words) {
                part.write(pair_word(w, out, s.number, s.team, 0), (u64)(w.walkers / w.team) * w.lines, needs_sum);
            } else {
                const auto l = part.line(rows);
                for (u32 j = 0; j < a.plan.all; j++)
                    partial_of(a, w, out, s)[j] = l.word(a.plan, g, j);
            }
        }
        __syncthreads(); // before the next item's parts come
    };
    each_item(
        items, a, 16 / kPer, ring, [&] { x.begin(); },
        [&](const uint4(&tile)[kRingRows], const uint4 *at) {
            auto again = [at](u32 k, int c) { return ((const u32 *)at)[k * (4 * kColumnThreads) + c]; };
            x.add_tile(tile, again, apart);
        },
        take);
}

// From the parts of a column's teams to its value. A block has w.width columns. Those that are not certain are marked, unless
// their parts are exact. `out`: behind the number of lines that are listed.
template <class Part> __global__ void __launch_bounds__(kColumnThreads, 3)
    finish_float_columns(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                         const __grid_constant__ WalkArgs w, u64 *out)
{
    __shared__ u64 space[Part::kWords * kColumnThreads], total[kMaxWords];
    __shared__ u32 uncertain; // a column: a bit each
    const u32 side = threadIdx.x % w.width, row = threadIdx.x / w.width, rows = kColumnThreads / w.width;
    const u32 teams = w.walkers / w.team;
    const u64 each = a.spec.rows / w.walkers, more = a.spec.rows % w.walkers;
    const u64 first = (u64)blockIdx.x * w.width, number = first + side, step = (u64)teams * w.lines;
    let_next_pass_start();
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
    if (row == 0 && number < w.lines && !mine.finish(a, g, a.spec.rows, w.first_line + number))
        atomicOr(&uncertain, 1u << side);
    __syncthreads();
    for (u32 left = uncertain; left; left &= left - 1) { // the general way
        Share s = {first + (u32)__ffs((int)left) - 1, 0, {0, 1, 0}};
        u64 *const in = partial_of(a, w, out, s);
        bool inexact = false;
        for (u64 i = threadIdx.x; i < (u64)teams * a.plan.all; i += kColumnThreads) {
            const u32 team = (u32)(i / a.plan.all);
            Part part;
            part.read(pair_word(w, out, s.number, team, 0), step);
            in[i] = part.line(rows_of_team(each, more, w, team)).word(a.plan, g, (u32)(i % a.plan.all));
            inexact |= !part.exact();
        }
        if (__syncthreads_or(inexact)) {
            if (threadIdx.x == 0)
                mark_line(a, w.first_line + s.number, out - 1);
            continue;
        }
        merge_words(a.plan, in, teams, space, total);
        if (threadIdx.x < kWarp)
            finish_row(a, w.first_line + s.number, total);
        __syncthreads();
    }
}

template <int kDtype> WalkFn pick_finish(int layout)
{
    return rk_square_limbs(layout) ? finish_float_columns<ColumnPart<kMoments, kDtype>>
                                   : finish_float_columns<ColumnPart<kSum, kDtype>>;
}

} // namespace

template <int kDtype> WalkFn column_float_part(bool squares)
{
    if constexpr (kDtype == RP_F64)
        return squares ? walk_float_columns<DoubleColumns<kMoments>> : walk_float_columns<DoubleColumns<kSum>>;
    else
        return squares ? walk_float_columns<NarrowColumns<kDtype, kMoments>> : walk_float_columns<NarrowColumns<kDtype, kSum>>;
}

// f32 stands for all narrower floats
template <int kDtype> WalkFn column_finish_part(int layout)
{
    if constexpr (kDtype == RP_F32 || kDtype == RP_F64)
        return pick_finish<kDtype>(layout);
    else
        return NULL;
}

template <int kDtype> u32 column_words_part(bool squares)
{
    return squares ? ColumnPart<kMoments>::kWords : ColumnPart<kSum>::kWords;
}

#define PARTS(X) X(RP_F16) X(RP_BF16) X(RP_F32) X(RP_F64)
#define PART(of)                                         \
    template WalkFn column_float_part<of>(bool squares); \
    template WalkFn column_finish_part<of>(int layout);  \
    template u32 column_words_part<of>(bool squares);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
