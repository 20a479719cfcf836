// Columns of f32 with few rows: a thread takes whole columns (whole_columns.cuh). Exact sums of elements, magnitudes and
// squares, var, min and max. Values are floats.
#include "kernels/cuda/exact/row_window.cuh"
#include "kernels/cuda/pass/column_narrow.cuh"
#include "kernels/cuda/pass/float_walk.cuh"
#include "kernels/cuda/pass/whole_columns.cuh"

namespace rk {
namespace {

// Can the quick way compute a column's value? A variance of too few rows has none.
__device__ __forceinline__ bool has_value(const FinishArgs &a)
{
    return a.spec.rows > a.spec.ddof || a.finisher != RK_FINISH_SPREAD;
}

// The values of columns, and which of them are certain: a bit each
template <class Columns> __device__ __forceinline__ u32 make_values(const Columns &x, const FinishArgs &a,
                                                                    const RowValues &values, double (&v)[kColumns])
{
    u32 known = 0;
#pragma unroll
    for (int c = 0; c < kColumns; c++)
        known |= (u32)x.value(c, a, values, &v[c]) << c;
    return has_value(a) ? known : 0;
}

template <LineKind kKind> __device__ __noinline__ void finish_part(const ColumnPart<kKind> &part, const FinishArgs &a,
                                                                   const SegmentArgs &g, u64 line, u64 *list)
{
    if (!part.finish(a, g, a.spec.rows, line))
        list_or_mark(a, line, list);
}

template <class Columns> __global__ void __launch_bounds__(kWholeThreads, kWholeBlocks)
    reduce_whole_columns(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                         const __grid_constant__ WalkArgs w, u64 *list)
{
    const u64 number = ((u64)blockIdx.x * kWholeThreads + threadIdx.x) * kColumns, line = w.first_line + number;
    let_next_pass_start();
    if (number >= w.lines)
        return;
    const WholeColumns at(a, w, line);
    Columns x;
    typename Columns::Apart apart[kColumns];
    x.init(a, g);
    x.begin();
    at.each_tile<kRingRows>({kSign, kSign, kSign, kSign}, [&](const uint4(&tile)[kRingRows]) {
        auto again = [&](u32 k, int c) { // of registers
            u32 column[kRingRows];
#pragma unroll
            for (int r = 0; r < kRingRows; r++)
                column[r] = element(tile[r], c);
            return chosen(column, (int)k);
        };
        x.add_tile(tile, again, apart);
    });
    const RowValues values(at.rows, a.spec.ddof, a.spec.op == RP_OP_SEM);
    double v[kColumns];
    const u32 known = store_values(a, line, v, make_values(x, a, values, v));
    if (known == (1u << kColumns) - 1)
        return;
#pragma unroll
    for (int c = 0; c < kColumns; c++)
        if (!(known >> c & 1))
            finish_part(x.part(c, apart), a, g, line + c, list);
}

// ---- min and max ----

template <bool kLeast> struct BestColumns {
    float best[kColumns];

    __device__ __forceinline__ BestColumns()
    {
#pragma unroll
        for (int c = 0; c < kColumns; c++)
            best[c] = kLeast ? INFINITY : -INFINITY;
    }
    static __device__ __forceinline__ uint4 none()
    {
        const u32 least = __float_as_uint(kLeast ? INFINITY : -INFINITY);
        return {least, least, least, least};
    }
    __device__ __forceinline__ void add(uint4 row)
    {
#pragma unroll
        for (int c = 0; c < kColumns; c++)
            best[c] = better_float<kLeast>(best[c], __uint_as_float(element(row, c)));
    }
    // Any float but a NaN is one in f64, so it is rounded once.
    __device__ __forceinline__ void store(const FinishArgs &a, u64 line) const
    {
        u64 bits[kColumns];
#pragma unroll
        for (int c = 0; c < kColumns; c++)
            bits[c] = best[c] == best[c] ? rounded_bits((double)best[c], a.spec.out) : rk_nan_bits(rk_format_of(a.spec.out));
        store_bits(a, line, bits);
    }
};

template <bool kLeast> __global__ void __launch_bounds__(kWholeThreads, 2 * kWholeBlocks)
    best_of_whole_columns(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs,
                          const __grid_constant__ WalkArgs w, u64 *)
{
    const u64 number = ((u64)blockIdx.x * kWholeThreads + threadIdx.x) * kColumns, line = w.first_line + number;
    if (number >= w.lines)
        return;
    BestColumns<kLeast> x;
    WholeColumns(a, w, line).each_tile<8>(x.none(), [&](const uint4(&tile)[8]) {
#pragma unroll
        for (int k = 0; k < 8; k++)
            x.add(tile[k]);
    });
    x.store(a, line);
}

// ---- planes of narrow rows ----

// The values of a thread's columns
template <LineKind kKind> struct PlaneColumns;

template <> struct PlaneColumns<kSum> {
    Between all[kColumns];

    __device__ __forceinline__ void reduce(const PlaneTiles &tiles, u32 keep)
    {
#pragma unroll
        for (int c = 0; c < kColumns; c++)
            all[c] = {-0.0, -0.0};
        tiles.each_row([&](uint4 row) {
#pragma unroll
            for (int c = 0; c < kColumns; c++) {
                const double x = (double)__uint_as_float(element(row, c) & keep);
                all[c].join({x, x});
            }
        });
    }
    // Columns whose sum is not one double: a bit each
    __device__ __forceinline__ u32 far() const
    {
        u32 columns = 0;
#pragma unroll
        for (int c = 0; c < kColumns; c++)
            columns |= (u32) !(all[c].low == all[c].high) << c;
        return columns;
    }
    __device__ __forceinline__ bool value(int c, const FinishArgs &a, const RowValues &values, double *v) const
    {
        *v = all[c].high;
        const bool certain = a.finisher != RK_FINISH_MEAN || values.mean(all[c].high, v);
        return certain & (all[c].low == all[c].high) & (fabs(all[c].high) < INFINITY);
    }
};

template <> struct PlaneColumns<kMoments> {
    static constexpr u32 kLog2 = 5;
    static_assert(kPlaneRows <= 1u << kLog2);

    double sum[kColumns], upper[kColumns], lower[kColumns];
    u32 first[kColumns], fits;

    __device__ __forceinline__ double anchor(int c) const { return row_anchor(kLog2, first[c]); }
    __device__ __forceinline__ void reduce(const PlaneTiles &tiles, u32)
    {
        Magnitudes m[kColumns];
        tiles.each_row([&](uint4 row) {
#pragma unroll
            for (int c = 0; c < kColumns; c++)
                m[c].note(element(row, c));
        });
        fits = 0;
#pragma unroll
        for (int c = 0; c < kColumns; c++) {
            const RowWindow<kLog2> window(m[c].most);
            fits |= (u32)window.holds(m[c].most, 2 * m[c].least + 1) << c;
            first[c] = window.first;
            sum[c] = -0.0;
            upper[c] = anchor(c);
            lower[c] = 0;
        }
        tiles.each_row([&](uint4 row) {
#pragma unroll
            for (int c = 0; c < kColumns; c++) {
                const double x = (double)__uint_as_float(element(row, c));
                add_square(x, upper[c], lower[c]);
                sum[c] = __dadd_rn(sum[c], x);
            }
        });
    }
    __device__ __forceinline__ u32 far() const { return ~fits & ((1u << kColumns) - 1); }
    __device__ __forceinline__ bool value(int c, const FinishArgs &a, const RowValues &values, double *v) const
    {
        double squares[2];
        squares[1] = two_sum(__dsub_rn(upper[c], anchor(c)), lower[c], squares[0]);
        return (fits >> c & 1) && values.squares_value(a.spec.op, sum[c], squares, v);
    }
};

// Makes the value of a column in shared memory whose elements need not fit a window or a double, `jump` words apart. False: it
// is not certain, or a fault. Out of line: rare.
template <LineKind kKind>
__device__ __noinline__ bool finish_far(const FinishArgs &a, const SegmentArgs &g, const u32 *p, u32 jump, u64 line)
{
    const u32 rows = (u32)a.spec.rows, keep = rk_is_abs(a.plan.layout) ? ~kSign : ~0u;
    Enclosed sum, squares;
    Odd odd;
    sum.clear();
    squares.clear();
    odd.clear();
#pragma unroll 1
    for (u32 k = 0; k < rows; k++, p += jump) {
        const u32 bits = *p & keep;
        if ((bits & ~kSign) >= kInfinite) {
            odd.note(AsF32::nan(bits), bits & kSign && a.plan.sum != 0, g.skip);
            continue;
        }
        const double x = (double)__uint_as_float(bits);
        sum.add(x);
        if (kKind == kMoments)
            squares.add(__dmul_rn(x, x));
    }
    ColumnPart<kKind> part;
    part.clear();
    part.sum = sum.sum();
    if (kKind == kMoments)
        part.squares = squares.sum();
    part.skipped = odd.skipped;
    part.special = odd.special;
    return part.finish(a, g, rows, line);
}

// Columns that need the general way: a bit each. Out of line: rare. Whole warp.
template <LineKind kKind> __device__ __noinline__ void walk_columns_again(const FinishArgs &a, const SegmentArgs &g,
                                                                          const WalkArgs &w, u64 *list, u64 line, u32 which)
{
    for (u32 c = 0; c < kColumns; c++) {
        const bool mine = which >> c & 1;
        if (!__any_sync(kFullMask, mine))
            continue;
        rk_line column = rk_line_of(&a.spec, w.parts.offsets, line + c);
        column.n = mine ? column.n : 0;
        FloatWalk<RP_F32, kKind> x;
        x.init(a.plan, g.skip);
        walk_groups(x, w.parts, column, 0, 1, {1, 1u << threadIdx.x % kWarp});
        x.join(1);
        if (mine && !x.line().finish(a, g, line + c))
            list_or_mark(a, line + c, list);
    }
}

template <LineKind kKind> __global__ void __launch_bounds__(kPlaneThreads, kPlaneBlocks)
    reduce_planes(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                  const __grid_constant__ WalkArgs w, u64 *list)
{
    RK_DYNAMIC_SHARED(uint4, shared);
    let_next_pass_start();
    const PlaneTiles tiles(a, w, shared);
    const RowValues values(tiles.rows, a.spec.ddof, a.spec.op == RP_OP_SEM);
    const u32 keep = rk_is_abs(a.plan.layout) ? ~kSign : ~0u, lane = threadIdx.x % kWarp;
    const u64 warp = ((u64)blockIdx.x * kPlaneThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kPlaneThreads / kWarp);
    const u64 vectors = w.lines / kColumns, count = (vectors + kWarp - 1) / kWarp;
    if (warp < count)
        tiles.request(warp);
    for (u64 t = warp; t < count; t += warps) {
        const u64 number = (t * kWarp + lane) * kColumns, line = w.first_line + number;
        const bool own = number < w.lines;
        copies_arrived<0>();
        __syncwarp();
        PlaneColumns<kKind> x;
        x.reduce(tiles, keep);
        const u32 far = x.far();
        const bool any_far = __any_sync(kFullMask, far); // then the tile is still needed
        __syncwarp();
        if (!any_far && t + warps < count)
            tiles.request(t + warps);
        double v[kColumns];
        u32 known = make_values(x, a, values, v);
        if (own)
            known = store_values(a, line, v, known);
        if (any_far) {
#pragma unroll
            for (int c = 0; c < kColumns; c++) {
                const u32 *column = (const u32 *)tiles.first_vector() + c;
                if (own && far >> c & 1)
                    known |= (u32)finish_far<kKind>(a, g, column, tiles.vectors * kColumns, line + c) << c;
            }
            __syncwarp();
            if (t + warps < count)
                tiles.request(t + warps);
        }
        const u32 others = own ? ~known & ((1u << kColumns) - 1) : 0;
        if (__any_sync(kFullMask, others))
            walk_columns_again<kKind>(a, g, w, list, line, others);
    }
}

template <bool kLeast> __global__ void __launch_bounds__(kPlaneThreads, kPlaneBlocks)
    best_of_planes(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs,
                   const __grid_constant__ WalkArgs w, u64 *)
{
    RK_DYNAMIC_SHARED(uint4, shared);
    const PlaneTiles tiles(a, w, shared);
    const u64 warp = ((u64)blockIdx.x * kPlaneThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kPlaneThreads / kWarp);
    const u64 vectors = w.lines / kColumns, count = (vectors + kWarp - 1) / kWarp;
    if (warp < count)
        tiles.request(warp);
    for (u64 t = warp; t < count; t += warps) {
        copies_arrived<0>();
        __syncwarp();
        BestColumns<kLeast> x;
        tiles.each_row([&](uint4 row) { x.add(row); });
        __syncwarp();
        if (t + warps < count)
            tiles.request(t + warps);
        const u64 number = (t * kWarp + threadIdx.x % kWarp) * kColumns;
        if (number < w.lines)
            x.store(a, w.first_line + number);
    }
}

} // namespace

WalkFn whole_columns_kernel(int layout, int dtype, bool skip, bool planes)
{
    if (dtype != RP_F32 || rk_is_stats(layout))
        return NULL;
    if (layout == RP_STATE_MIN || layout == RP_STATE_MAX) {
        const bool least = layout == RP_STATE_MIN;
        return skip     ? NULL
               : planes ? (least ? best_of_planes<true> : best_of_planes<false>)
                        : (least ? best_of_whole_columns<true> : best_of_whole_columns<false>);
    }
    if (rk_square_limbs(layout))
        return planes ? reduce_planes<kMoments> : reduce_whole_columns<ColumnMoments>;
    if (rk_sum_limbs(layout))
        return planes ? reduce_planes<kSum> : reduce_whole_columns<NarrowColumns<RP_F32, kSum>>;
    return NULL;
}

size_t plane_shared_bytes(u64 rows) { return kPlaneThreads * rows * sizeof(uint4); }

} // namespace rk
