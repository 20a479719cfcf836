// Equal short rows of f32, a thread a row (thread_rows.cuh): sums of squares, var, stats.
//
// Squares are summed as in row_window.cuh. A row that does not fit is walked along (lane_sums.cuh).
#include "kernels/cuda/exact/row_values.cuh"
#include "kernels/cuda/exact/row_window.cuh"
#include "kernels/cuda/pass/float_walk.cuh"
#include "kernels/cuda/pass/thread_rows.cuh"

namespace rk {
namespace {

// What is known of a row whose elements fit its window.
template <LineKind kKind> struct ThreadRow {
    double sum, squares[2];
    RowExtremes extremes; // stats only, and the index of the least and of the greatest element
    u32 low_at, high_at;

    // Row j of the thread. False: its elements do not fit.
    template <class Rows> __device__ __forceinline__ bool reduce(const Rows &rows, u32 j)
    {
        constexpr u32 kWords = Rows::kWords;
        Magnitudes m;
        extremes = RowExtremes();
        rows.each_part(j, [&](const u32(&x)[kWords], u32) {
#pragma unroll
            for (u32 k = 0; k < kWords; k++) {
                if constexpr (kKind == kStatistics)
                    extremes.note(x[k], true);
                else
                    m.note(x[k]);
            }
        });
        u32 most = m.most, smallest = 2 * m.least + 1, low = 0, high = 0;
        if constexpr (kKind == kStatistics) {
            most = extremes.magnitude();
            smallest = extremes.smallest;
            low = extremes.low();
            high = extremes.high();
        }
        const RowWindow<> window(most);
        const double anchor = window.anchor();
        RowSums sums(anchor);
        low_at = high_at = ~0u;
        rows.each_part(j, [&](const u32(&x)[kWords], u32 first) {
            u32 low_here = ~0u, high_here = ~0u;
#pragma unroll
            for (int k = (int)kWords - 1; k >= 0; k--) {
                sums.add(x[k]);
                if constexpr (kKind == kStatistics) {
                    low_here = x[k] == low ? first + k : low_here;
                    high_here = x[k] == high ? first + k : high_here;
                }
            }
            low_at = min(low_at, low_here);
            high_at = min(high_at, high_here);
        });
        sum = sums.sum;
        sums.squares(anchor, squares);
        return window.holds(most, smallest);
    }

    // Its value, or those of stats. False: another way must compute it.
    __device__ __forceinline__ bool finish(const RowValues &values, int op, u32 elements, u64 first_index, u64 *words) const
    {
        double *doubles = (double *)words;
        if constexpr (kKind != kStatistics)
            return values.squares_value(op, sum, squares, doubles);
        const Within variance = values.variance(sum, squares);
        doubles[RP_STATS_SUM] = sum;
        words[RP_STATS_COUNT] = elements;
        words[RP_STATS_NANS] = 0;
        words[RP_STATS_ZEROS] = elements - extremes.some;
        words[RP_STATS_ARGMIN] = first_index + low_at;
        words[RP_STATS_ARGMAX] = first_index + high_at;
        doubles[RP_STATS_MIN] = (double)__uint_as_float(extremes.low());
        doubles[RP_STATS_MAX] = (double)__uint_as_float(extremes.high());
        words[RP_STATS_SUM_HIGH] = 0;
        return values.mean(sum, doubles + RP_STATS_MEAN) & variance.round(doubles + RP_STATS_VAR) &
               variance.root().round(doubles + RP_STATS_STD);
    }
};

// The rows of a thread that have a bit in `unknown`, of those from number `first` on, 32 apart. Whole warp. Out of line and
// last, so that no registers are spilled for it.
template <LineKind kKind> __device__ __noinline__ void finish_otherwise(const FinishArgs &a, const SegmentArgs &g,
                                                                        const WalkArgs &w, u64 *list, u64 first, u32 unknown)
{
    const u64 n = a.spec.row_len;
    for (; __any_sync(kFullMask, unknown); unknown &= unknown - 1) {
        const u64 row = first + (unknown ? (u32)__ffs((int)unknown) - 1 : 0) * kWarp;
        FloatWalk<RP_F32, kKind> x;
        x.init(a.plan, g.skip);
        VectorWalk<FloatWalk<RP_F32, kKind>>(w.parts, {row * n, 1, unknown ? n : 0}, 1, {1, 1u << threadIdx.x % kWarp})
            .add_all(x, 0);
        x.join(1);
        if (unknown)
            finish_or_list(x.line(), a, g, row, list);
    }
}

constexpr int kBlocksOfStats = 6, kBlocksOfSquares = 4; // of an SM; of squares 5, 6 and 8 took 6 us more for rows of 32

template <LineKind kKind, class Rows>
__global__ void __launch_bounds__(kWalkThreads, kKind == kStatistics ? kBlocksOfStats : kBlocksOfSquares)
    reduce_thread_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                       const __grid_constant__ WalkArgs w, u64 *list)
{
    constexpr bool kStats = kKind == kStatistics;
    constexpr u32 kWarps = kWalkThreads / kWarp, kResult = kStats ? RP_STATS_WORDS : 1;
    constexpr u32 kStride = kResult | 1; // words of shared memory for a row's result: odd, to avoid bank conflicts
    __shared__ uint4 tiles[kWarps][Rows::kStaged ? kWarp * kStagedVectors : 1];
    __shared__ u64 results[kStats ? kWarps : 1][kStats ? kWarp * kStride : 1];
    const u32 lane = threadIdx.x % kWarp, n = (u32)a.spec.row_len;
    u64 *of_warp = kStats ? results[threadIdx.x / kWarp] : NULL;
    Rows rows(n / 4, tiles[threadIdx.x / kWarp]);
    const bool some = n > a.spec.ddof || a.finisher == RK_FINISH_SQUARES; // else no value
    const RowValues values(n, a.spec.ddof, a.spec.op == RP_OP_SEM);
    const u32 many = kWarp * rows.each();
    const u64 warp = ((u64)blockIdx.x * kWalkThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * kWarps;
    for (u64 first = warp * many; first < w.lines; first += warps * many) {
        u32 unknown = 0; // rows of this thread: a bit for each
        rows.load(w.parts.elements, w.first_line + first, w.lines - first);
#pragma unroll Rows::kUnroll
        for (u32 j = 0; j < rows.each(); j++) {
            const u64 begin = first + j * kWarp, row = w.first_line + begin + lane;
            const bool own = begin + lane < w.lines;
            ThreadRow<kKind> x;
            const bool known = x.reduce(rows, j);
            u64 word, *result = kStats ? of_warp + lane * kStride : &word;
            const bool done = some && x.finish(values, a.spec.op, n, g.first_index, result) && known;
            if constexpr (kStats) { // many words, which a warp writes together
                __syncwarp();
                u64 *to = (u64 *)a.cells + (w.first_line + begin) * kResult;
                const u32 words = begin < w.lines ? (u32)min(w.lines - begin, (u64)kWarp) * kResult : 0;
                for (u32 k = lane; k < words; k += kWarp)
                    to[k] = of_warp[k / kResult * kStride + k % kResult];
                __syncwarp();
                unknown |= own && !done ? 1u << j : 0;
            } else {
                unknown |= own && !(done && write_value(a, row, __longlong_as_double((i64)word))) ? 1u << j : 0;
            }
        }
        if (__any_sync(kFullMask, unknown))
            finish_otherwise<kKind>(a, g, w, list, w.first_line + first + lane, unknown);
    }
}

template <LineKind kKind> WalkFn pick(bool pairs)
{
    return pairs ? reduce_thread_rows<kKind, PairRows> : reduce_thread_rows<kKind, StagedRows>;
}

} // namespace

WalkFn thread_row_kernel(int layout, int dtype, u64 row_len)
{
    if (dtype != RP_F32 || (row_len != 2 && (row_len % 4 || row_len > 4 * kStagedVectors)))
        return NULL;
    if (rk_is_stats(layout))
        return pick<kStatistics>(row_len == 2);
    return rk_square_limbs(layout) ? pick<kMoments>(row_len == 2) : NULL;
}

} // namespace rk
