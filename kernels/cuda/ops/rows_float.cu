// Equal short rows of f32, a row in the registers of some lanes of a warp: sums of squares, var, stats, and with a mask sums;
// of f16 and bf16: sums of squares, var.
//
// Squares are summed as in row_window.cuh. A row that does not fit is walked along (lane_sums.cuh).
#include "kernels/cuda/exact/row_window.cuh"
#include "kernels/cuda/exact/tile_sum.cuh"
#include "kernels/cuda/pass/float_walk.cuh"
#include "kernels/cuda/pass/lane_rows.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

template <int kDtype, LineKind kKind> using RowLine = FloatLine<kDtype, kKind, kKind != kStatistics>;

// A row's window by its type (row_window.cuh). All f16 are multiples of 2^-24 below 2^16, which is 2^40 units of a window that
// begins there. bf16 have 16 digits less than f32, so that 16 further binades below are multiples of the window's unit.
template <int kDtype> struct WindowOf : RowWindow<> {
    __device__ __forceinline__ explicit WindowOf(u32 most) : RowWindow(most)
    {
        if (kDtype == RP_F16)
            first = 150 - 24;
    }
    __device__ __forceinline__ bool holds(u32 most, u32 smallest) const
    {
        if (kDtype == RP_F16)
            return most < kInfinite;
        if (kDtype == RP_BF16)
            return most < kInfinite && (first <= 17 || smallest >= ((first - 16) << 24) - 1);
        return RowWindow::holds(most, smallest);
    }
};

// A lane's part of a row.
template <int kDtype, LineKind kKind, int kVectors, bool kFull, bool kMask> struct RowTile
    : RowElements<kVectors, kFull, kMask> {
    using Elements = RowElements<kVectors, kFull, kMask>;
    using Line = RowLine<kDtype, kKind>;
    using Element = typename FloatElement<kDtype>::Type;
    using Elements::has, Elements::in, Elements::kCount, Elements::kElements, Elements::kPer, Elements::x;
    static_assert(kDtype == RP_F32 || (kKind == kMoments && !kMask)); // a word is an element

    static __device__ __forceinline__ u32 most_of(u32 v, u32 lanes)
    {
        for (u32 d = lanes / 2; d; d /= 2)
            v = max(v, __shfl_xor_sync(kFullMask, v, d));
        return v;
    }

    // The row's line; every lane gets it. False: walk along the row. Whole warp.
    __device__ __forceinline__ bool reduce(Line &l, u32 lane, const Lanes &team, u32 elements, bool skip)
    {
        const u32 lanes = team.count;
        u64 in_row = elements;
        if (kMask) {
            u32 count = 0;
#pragma unroll
            for (int u = 0; u < kCount; u++)
                count += __popc(in[u]);
            for (u32 d = lanes / 2; d; d /= 2)
                count += __shfl_xor_sync(kFullMask, count, d);
            in_row = count;
        }
        bool fits;
        if constexpr (kKind == kSum) {
            Between all = {-0.0, -0.0};
#pragma unroll
            for (int k = 0; k < kElements; k++) {
                const double v = (double)__uint_as_float(has(k) ? x[k] : 1u << 31);
                all.join({v, v});
            }
            for (u32 d = lanes / 2; d; d /= 2)
                all.join({__shfl_xor_sync(kFullMask, all.low, d), __shfl_xor_sync(kFullMask, all.high, d)});
            l = {{all.high, 0, 0}, {0, 0, 0}, in_row, 0, 0};
            fits = all.low == all.high && fabs(all.high) < INFINITY;
        } else {
            u32 most, smallest; // magnitudes; the latter twice, less 1
            if constexpr (kKind == kStatistics) {
                RowExtremes extremes;
#pragma unroll
                for (int k = 0; k < kElements; k++)
                    extremes.note(x[k], has(k));
                extremes.join(lanes);
                most = extremes.magnitude();
                smallest = extremes.smallest;
                note_places(l.places, extremes, elements, lane, lanes, skip);
            } else {
                Magnitudes m;
#pragma unroll
                for (int k = 0; k < kElements; k++)
#pragma unroll
                    for (int h = 0; h < Element::kPerWord; h++)
                        m.note(kMask && !has(k) ? 0 : Element::get(x[k], h));
                most = most_of(m.most, lanes);
                smallest = 2 * m.least + 1;
            }
            const WindowOf<kDtype> window(most);
            fits = window.holds(most, smallest);
            add_squares(l, window.anchor(), lanes, in_row);
        }
        return (__ballot_sync(kFullMask, !fits) & team.mask) == 0;
    }

    // The sums of elements that fit the anchor.
    __device__ __forceinline__ void add_squares(Line &l, double anchor, u32 lanes, u64 in_row) const
    {
        RowSums sums(anchor);
#pragma unroll
        for (int k = 0; k < kElements; k++)
#pragma unroll
            for (int h = 0; h < Element::kPerWord; h++)
                sums.add(has(k) ? Element::get(x[k], h) : 1u << 31);
        sums.upper = __dsub_rn(sums.upper, anchor);
        for (u32 d = lanes / 2; d; d /= 2) { // no addition of these rounds
            sums.sum = __dadd_rn(sums.sum, __shfl_xor_sync(kFullMask, sums.sum, d));
            sums.upper = __dadd_rn(sums.upper, __shfl_xor_sync(kFullMask, sums.upper, d));
            sums.lower = __dadd_rn(sums.lower, __shfl_xor_sync(kFullMask, sums.lower, d));
        }
        double squares[2];
        sums.squares(0, squares);
        if constexpr (kKind == kStatistics) {
            l.sums = {{sums.sum, 0, false}, {{squares[0], squares[1]}, false}, in_row, 0};
            l.skipped = 0;
        } else {
            l = {{sums.sum, 0, 0}, {squares[0], squares[1], 0}, in_row, 0, 0};
        }
    }

    // Extremes and zeros of a row of finite elements, for every lane. Whole warp.
    template <class P> __device__ __forceinline__ void note_places(P &p, const RowExtremes &extremes, u32 elements, u32 lane,
                                                                   u32 lanes, bool skip) const
    {
        p.init(skip);
        p.least = AsF32::key(extremes.low());
        p.most = AsF32::key(extremes.high());
        p.least_at = first_of(extremes.low(), lane, lanes);
        p.most_at = first_of(extremes.high(), lane, lanes);
        p.zeros = elements - extremes.some;
    }
    // Index of the row's first element with these bits. Whole warp.
    __device__ __forceinline__ u32 first_of(u32 bits, u32 lane, u32 lanes) const
    {
        if (lanes == kWarp)
            return first_in_warp(bits);
        u32 at = ~0u;
#pragma unroll
        for (int k = kElements - 1; k >= 0; k--)
            at = x[k] == bits ? (lane + k / kPer * lanes) * kPer + k % kPer : at;
        for (u32 d = lanes / 2; d; d /= 2)
            at = min(at, __shfl_xor_sync(kFullMask, at, d));
        return at;
    }
    // The same of a row that the whole warp has: no further than to the first vectors with such an element.
    __device__ __forceinline__ u32 first_in_warp(u32 bits) const
    {
#pragma unroll
        for (int u = 0; u < kCount; u++) {
            u32 at = kPer; // in the vector
#pragma unroll
            for (int k = kPer - 1; k >= 0; k--)
                at = x[u * kPer + k] == bits ? k : at;
            const u32 found = __ballot_sync(kFullMask, at < kPer);
            if (found) {
                const u32 other = (u32)__ffs((int)found) - 1;
                return (other + u * kWarp) * kPer + __shfl_sync(kFullMask, at, (int)other);
            }
        }
        return ~0u; // a NaN is in its place
    }
};

// The general way, for rows whose `line` is not empty. Whole warp.
template <int kDtype, LineKind kKind> __device__ __noinline__ void walk_row(RowLine<kDtype, kKind> *to, const FinishArgs &a,
                                                                            const SegmentArgs &g, const WalkArgs &w,
                                                                            rk_line line, u32 lane, Lanes team)
{
    using Walk = FloatWalk<kDtype, kKind, kKind != kStatistics>;
    Walk x;
    x.init(a.plan, g.skip);
    VectorWalk<Walk>(w.parts, line, w.lanes, team).add_all(x, lane);
    x.join(w.lanes);
    *to = x.line();
}

// The values of a warp's lines, which its lanes have in `mine`, one each, if `number` is one: `lines` teams of `lanes` lanes,
// of which lane t has its team's line number t; the first of all is line `first`, and they are `count` together. Stats have
// many words, which go through shared memory, so that a warp writes contiguously. Lines on the list are written again later.
template <class Line> __device__ __forceinline__ void finish_warp(Line *mine, const FinishArgs &a, const SegmentArgs &g,
                                                                  u64 number, u64 *list, u64 first, u32 count, u32 lanes,
                                                                  u32 lines)
{
    if constexpr (std::is_same_v<typename Line::Types::Extras, NoPlaces>) {
        if (number != RP_NO_INDEX)
            finish_or_list(*mine, a, g, number, list);
    } else {
        constexpr u32 kWords = RP_STATS_WORDS;
        static_assert(kWords * sizeof(u64) <= sizeof(Line) && sizeof(Line) % sizeof(u64) == 0);
        if (number != RP_NO_INDEX) {
            const Line own = *mine;
            if ((own.skipped && g.nan_error) || !own.finish_stats(a, g, (u64 *)mine))
                list[1 + atomicAdd(list, 1ull)] = number;
        }
        __syncwarp();
        const Line *of_warp = mine - threadIdx.x % kWarp;
        u64 *to = (u64 *)a.cells + first * kWords;
        for (u32 j = threadIdx.x % kWarp; j < count * kWords; j += kWarp) {
            const u32 line = j / kWords;
            to[j] = ((const u64 *)(of_warp + line % lines * lanes + line / lines))[j % kWords];
        }
    }
    __syncwarp();
}

template <int kDtype, LineKind kKind, int kVectors, bool kFull, bool kMask, int kBlocks>
__global__ void __launch_bounds__(kWalkThreads, kBlocks)
    reduce_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g, const __grid_constant__ WalkArgs w,
                u64 *out)
{
    using Line = RowLine<kDtype, kKind>;
    using Tile = RowTile<kDtype, kKind, kVectors, kFull, kMask>;
    __shared__ __align__(16) unsigned char space[kWalkThreads * sizeof(Line)]; // a Line has no constructor to run
    Line *mine = (Line *)space + threadIdx.x;
    // of a row; and rows of a warp at once. More than 4 vectors for each lane: then a row takes all of them
    const u32 lanes = kVectors == 8 ? kWarp : w.lanes, lines = kWarp / lanes;
    const u32 lane = threadIdx.x % lanes;
    const Lanes team = {lanes, group_mask(lanes)};
    const u64 turn = (u64)lines * w.turns, row_len = a.spec.row_len;
    const u32 nvec = (u32)(row_len * Float<kDtype>::kBytes / (kVectors ? 16 : 8));
    const u64 warp = ((u64)blockIdx.x * kWalkThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kWalkThreads / kWarp);
    for (u64 first = warp * turn; first < w.lines; first += warps * turn) {
        u64 number = RP_NO_INDEX; // of the line in `mine`
        RowLoads<kVectors, kFull, kMask> next;
        auto request = [&](u32 t) {
            const u64 i = first + t * lines + threadIdx.x % kWarp / lanes;
            next.load(w.parts, w.first_line + min(i, w.lines - 1), lane, lanes, nvec);
        };
        request(0);
        for (u32 t = 0; t < w.turns; t++) {
            Tile tile;
            tile.take(next, lane, lanes, nvec);
            request(min(t + 1, w.turns - 1));
            const u64 i = first + t * lines + threadIdx.x % kWarp / lanes, row = w.first_line + min(i, w.lines - 1);
            Line l;
            const bool known = tile.reduce(l, lane, team, (u32)row_len, g.skip);
            if (known && lane == t)
                *mine = l;
            if (!__all_sync(kFullMask, known)) {
                Line again;
                walk_row<kDtype, kKind>(&again, a, g, w, {row * row_len, 1, known ? 0 : row_len}, lane, team);
                if (!known && lane == t)
                    *mine = again;
                request(min(t + 1, w.turns - 1)); // loaded again, so that it is not kept in local memory across the call
            }
            if (lane == t && i < w.lines)
                number = row;
        }
        // Each lane has a line: what takes longest is done for all of them at once.
        const u64 left = w.lines - first;
        finish_warp(mine, a, g, number, out, w.first_line + first, (u32)(left < turn ? left : turn), lanes, lines);
    }
}

// f16 and bf16: rows of up to 2^10 elements have at most 4 vectors for each lane of a warp.
template <int kDtype> WalkFn pick_halves(u32 vectors, bool full)
{
    return vectors != 4 ? NULL
           : full       ? reduce_rows<kDtype, kMoments, 4, true, false, 5>
                        : reduce_rows<kDtype, kMoments, 4, false, false, 5>;
}

template <LineKind kKind, bool kMask> WalkFn pick(u32 vectors, bool full)
{
    constexpr int kBlocks = 4; // of an SM
    if constexpr (kKind == kStatistics) {
        if (vectors == 0)
            return NULL;
    } else if constexpr (!kMask) {
        if (vectors == 0)
            return reduce_rows<RP_F32, kKind, 0, true, kMask, 8>;
    }
    if (vectors == 4)
        return full ? reduce_rows<RP_F32, kKind, 4, true, kMask, 5> : reduce_rows<RP_F32, kKind, 4, false, kMask, 5>;
    return full ? reduce_rows<RP_F32, kKind, 8, true, kMask, kBlocks> : reduce_rows<RP_F32, kKind, 8, false, kMask, kBlocks>;
}

} // namespace

template <RowPart kPart> WalkFn row_float_part(int layout, u32 vectors, bool full)
{
    if constexpr (kPart == RowPart::F16)
        return pick_halves<RP_F16>(vectors, full);
    else if constexpr (kPart == RowPart::Bf16)
        return pick_halves<RP_BF16>(vectors, full);
    else if constexpr (kPart == RowPart::Stats)
        return pick<kStatistics, false>(vectors, full);
    else if constexpr (kPart == RowPart::Moments)
        return pick<kMoments, false>(vectors, full);
    else
        return rk_square_limbs(layout) ? pick<kMoments, true>(vectors, full) : pick<kSum, true>(vectors, full);
}

#define PARTS(X) X(F16) X(Bf16) X(Moments) X(Stats) X(Masked)
#define PART(of) template WalkFn row_float_part<RowPart::of>(int layout, u32 vectors, bool full);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
