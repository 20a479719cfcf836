// Exact float sums of many rows or segments that are too short for a block each: a few lanes of a warp share a line.
//
// The sum is kept in two doubles (twosum.cuh): no long accumulator, and no rounding of one. Where that is not enough the lanes
// walk the line again, with a state each.
#include "kernels/cuda/exact/tile_sum.cuh"
#include "kernels/cuda/pass/short_lines.cuh"
#include "kernels/cuda/pass/thread_rows.cuh"

namespace rk {
namespace {

template <int kDtype> struct Line {
    using Bits = FloatBits<kDtype>;

    Pair sum;
    u64 skipped;
    bool skip;

    __device__ __forceinline__ void add(Bits bits) { add_float<kDtype>(sum, bits, skip, skipped); }
    // Out of line, lest the doubles of add_tile be kept for it.
    static __device__ __noinline__ Line added(Line to, uint4 v)
    {
        each_element<sizeof(Bits)>(v, [&](Bits bits, int) { to.add(bits); });
        return to;
    }
    // Elements narrower than f64: their sum in one double, once rounded down and once up; where both are equal it is exact.
    template <int kTile> __device__ __forceinline__ void add_tile(const uint4 (&tile)[kTile])
    {
        if constexpr (kDtype == RP_F64) {
#pragma unroll
            for (int u = 0; u < kTile; u++)
                each_element<sizeof(Bits)>(tile[u], [&](Bits bits, int) { add(bits); });
        } else {
            const Between all = between<kDtype>(tile);
            if (all.low == all.high) {
                sum.add(all.high);
            } else {
#pragma unroll
                for (int u = 0; u < kTile; u++)
                    *this = added(*this, tile[u]);
            }
        }
    }
    // With those of the line's other lanes, `mask`; each gets the result. One double for all lanes, if that is exact.
    __device__ __forceinline__ void join(u32 mask, u32 lanes)
    {
        double all = sum.s;
        bool exact = sum.t == 0 && !sum.lost;
        for (u32 d = lanes / 2; d; d /= 2)
            exact &= two_sum(all, __shfl_xor_sync(mask, all, d), all) == 0;
        if (__all_sync(mask, exact))
            sum.s = all;
        else
            for (u32 d = lanes / 2; d; d /= 2)
                sum.join_lane(mask, (int)d);
        if (skip)
            for (u32 d = lanes / 2; d; d /= 2)
                skipped += __shfl_xor_sync(mask, skipped, d);
    }
};

// Vectors `lane`, lane + lanes, ... of those at v; of the last tile, which has `left` of them, at least one. In place of those
// beyond come -0.0, which adds nothing. Nothing is loaded on condition: ptxas puts such loads one after the other.
template <int kTile> __device__ __forceinline__ void load_tile(uint4 (&tile)[kTile], const uint4 *v, u32 lane, u32 lanes)
{
#pragma unroll
    for (int u = 0; u < kTile; u++)
        tile[u] = load_vector(v + lane + u * lanes);
}
template <class Bits, int kTile>
__device__ __forceinline__ void load_last(uint4 (&tile)[kTile], const uint4 *v, u32 lane, u32 lanes, u32 left)
{
    constexpr Bits kNothing = (Bits)((Bits)1 << (8 * sizeof(Bits) - 1));
#pragma unroll
    for (int u = 0; u < kTile; u++)
        tile[u] = load_vector(v + min(lane + u * lanes, left - 1));
#pragma unroll
    for (int u = 0; u < kTile; u++)
        if (lane + u * lanes >= left)
            tile[u] = vector_of(kNothing);
}

// A row or a segment. The offsets are aligned (launch.h).
__device__ __forceinline__ rk_line line_of(const FinishArgs &a, const RowArgs &r, u64 i)
{
    if (!r.offsets)
        return {i * a.spec.row_len, 1, a.spec.row_len};
    const u64 *at = (const u64 *)r.offsets + i;
    return {at[0], 1, at[1] - at[0]};
}

// limbs += v, a multiple of 2^e0
__device__ inline void add_double(uint64_t *limb, int n, int e0, double v)
{
    int offset;
    i64 m = units_of(v, e0, &offset);
    rk_add_shifted(limb, n, (u64)(m < 0 ? -m : m), offset, m < 0);
}

// Out of line: rare and long, and wanted by two.
__device__ __noinline__ void finish_state(const FinishArgs &a, u64 number, rk_state *s) { write_cell(a, number, *s, NULL); }

// The line whose sum is high + low. Out of line, with plain arguments: a pair that has an address lives in memory.
__device__ __noinline__ void finish_pair(const FinishArgs &a, u64 number, double high, double low, u64 n, u64 skipped,
                                         rk_state *s)
{
    rk_state_init(s, a.plan.layout, a.spec.dtype);
    s->count = n - skipped;
    s->skipped = skipped != 0;
    s->nz = s->count && (u64)__double_as_longlong(high) != 1ull << 63;
    const int limbs = rk_sum_limbs(a.plan.layout), e0 = rk_e0(a.spec.dtype);
    add_double(s->limb, limbs, e0, high);
    add_double(s->limb, limbs, e0, low);
    finish_state(a, number, s);
}

// By all lanes of a line (`mask`; 0 if it is one): the general way. `first`: a state for each of them.
__device__ __noinline__ void walk_together(const FinishArgs &a, const RowArgs &r, u64 number, rk_line line, u32 lane, u32 mask,
                                           rk_state *first)
{
    rk_state *mine = (rk_state *)((u64 *)first + lane * r.state_words);
    walk_line(a, {NULL, r.elements, NULL}, 0, line, lane, r.lanes, mine);
    if (mask)
        __syncwarp(mask);
    if (lane)
        return;
    for (u32 k = 1; k < r.lanes; k++)
        rk_state_merge(mine, (const rk_state *)((u64 *)first + k * r.state_words));
    finish_state(a, number, mine);
}

// By all lanes of line i, each with kTile vectors in flight.
template <int kDtype, int kTile> __device__ __forceinline__ void sum_line(const FinishArgs &a, const RowArgs &r, u64 i,
                                                                          rk_line line, u32 lane, u32 mask, rk_state *first)
{
    using Bits = FloatBits<kDtype>;
    constexpr u32 kPerVector = 16 / sizeof(Bits);
    const u32 lanes = r.lanes;
    const Bits *p = (const Bits *)r.elements + line.first;
    Line<kDtype> l = {{-0.0, -0.0, false}, 0, r.skip};
    // elements up to the first 16-byte boundary, vectors, the rest
    const u32 n = (u32)line.n, head = min((u32)((16 - ((uintptr_t)p & 15)) & 15) / (u32)sizeof(Bits), n);
    const u32 nvec = (n - head) / kPerVector;
    const uint4 *v = (const uint4 *)(p + head);
    uint4 tile[kTile];
    u32 left = nvec;
    for (; left >= kTile * lanes; left -= kTile * lanes, v += kTile * lanes) { // all lanes of the line
        load_tile(tile, v, lane, lanes);
        l.add_tile(tile);
    }
    if (left) {
        load_last<Bits>(tile, v, lane, lanes, left);
        l.add_tile(tile);
    }
    for (u32 e = lane; e < head; e += lanes)
        l.add(p[e]);
    for (u32 e = head + nvec * kPerVector + lane; e < n; e += lanes)
        l.add(p[e]);
    l.join(mask, lanes);
    if (__any_sync(mask, l.sum.lost)) {
        walk_together(a, r, i, line, lane, mask, first);
        __syncwarp(mask);
        return;
    }
    if (lane)
        return;
    if (a.plain && a.spec.out == RP_F64 && !(l.skipped && a.spec.nan == RP_NAN_ERROR))
        ((double *)a.cells)[i] = line.n > l.skipped ? l.sum.value() : 0.0;
    else
        finish_pair(a, i, l.sum.s, l.sum.t, line.n, l.skipped, first);
}

// A thread's place: its lane of a line, those lanes, and the line among the block's.
struct Place {
    u32 lane, mask, line;

    __device__ __forceinline__ rk_state *first_state(u64 *states, const RowArgs &r) const
    {
        return (rk_state *)(states + (threadIdx.x - lane) * r.state_words);
    }
};
__device__ __forceinline__ Place place_of(u32 lanes)
{
    return {threadIdx.x & (lanes - 1), group_mask(lanes), threadIdx.x >> (__ffs((int)lanes) - 1)};
}
__device__ __forceinline__ u32 lines_of_block(u32 lanes) { return (u32)kRowThreads >> (__ffs((int)lanes) - 1); }

template <int kDtype, int kTile> __global__ void __launch_bounds__(kRowThreads, kTile > 4 ? 5 : 8)
    sum_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ RowArgs r)
{
    RK_DYNAMIC_SHARED(u64, states);
    const Place at = place_of(r.lanes);
    const u32 lines = lines_of_block(r.lanes);
    for (u64 i = (u64)blockIdx.x * lines + at.line; i < r.lines; i += (u64)gridDim.x * lines) {
        const rk_line line = line_of(a, r, i);
        if (line.n <= r.longest) // else another kernel's
            sum_line<kDtype, kTile>(a, r, i, line, at.lane, at.mask, at.first_state(states, r));
    }
}

// Out of line: rare.
template <int kDtype>
__device__ __noinline__ void sum_again(const FinishArgs &a, const RowArgs &r, u64 i, u32 lane, u32 mask, rk_state *first)
{
    sum_line<kDtype, 4>(a, r, i, line_of(a, r, i), lane, mask, first);
}

// Equal rows of whole vectors, at most 4 for each lane: one tile, whose sum rounded down and up is the row's where both are
// equal. The lanes of a warp stay together.
template <int kDtype> __global__ void __launch_bounds__(kRowThreads, 8)
    sum_tile_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ RowArgs r)
{
    using Bits = FloatBits<kDtype>;
    constexpr int kTile = 4;
    RK_DYNAMIC_SHARED(u64, states);
    const Place at = place_of(r.lanes);
    const u32 lines = lines_of_block(r.lanes), nvec = (u32)(a.spec.row_len * sizeof(Bits) / 16);
    const bool plain = a.plain && a.spec.out == RP_F64;
    for (u64 first = (u64)blockIdx.x * lines; first < r.lines; first += (u64)gridDim.x * lines) {
        const u64 row = first + at.line;
        const uint4 *v = (const uint4 *)r.elements + min(row, r.lines - 1) * nvec;
        uint4 tile[kTile];
        if (nvec == kTile * r.lanes)
            load_tile(tile, v, at.lane, r.lanes);
        else
            load_last<Bits>(tile, v, at.lane, r.lanes, nvec);
        Between all = between<kDtype>(tile);
        for (u32 d = r.lanes / 2; d; d /= 2)
            all.join({__shfl_xor_sync(kFullMask, all.low, d), __shfl_xor_sync(kFullMask, all.high, d)});
        const bool known = plain && all.low == all.high;
        if (row < r.lines && known && at.lane == 0)
            ((double *)a.cells)[row] = all.high;
        if (row < r.lines && !known)
            sum_again<kDtype>(a, r, row, at.lane, at.mask, at.first_state(states, r));
        __syncwarp();
    }
}

// The elements of some words, rounded down and up.
template <int kDtype, int kWords> __device__ __forceinline__ Between between(const u32 (&words)[kWords])
{
    constexpr int kPerWord = 4 / Float<kDtype>::kBytes;
    Between elements[kWords * kPerWord];
#pragma unroll
    for (int k = 0; k < kWords * kPerWord; k++) {
        const double x = Float<kDtype>::value(
            (FloatBits<kDtype>)(words[k / kPerWord] >> (32 / kPerWord * (k % kPerWord) % 32)));
        elements[k] = {x, x};
    }
    return joined<kWords * kPerWord>(elements);
}

// Equal short rows, a thread a row (thread_rows.cuh).
template <int kDtype, class Rows> __global__ void __launch_bounds__(kRowThreads, 8)
    sum_thread_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ RowArgs r)
{
    RK_DYNAMIC_SHARED(u64, states);
    u64 *of_warp = states + threadIdx.x / kWarp * kWarp * r.state_words; // its rows, then, where need be, its states
    Rows rows((u32)(a.spec.row_len * sizeof(FloatBits<kDtype>) / 16), (uint4 *)of_warp);
    const u32 lane = threadIdx.x % kWarp, many = kWarp * rows.each();
    const bool plain = a.plain && a.spec.out == RP_F64;
    const u64 warp = ((u64)blockIdx.x * kRowThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kRowThreads / kWarp);
    for (u64 first = warp * many; first < r.lines; first += warps * many) {
        u32 unknown = 0; // rows of this thread: a bit for each
        rows.load(r.elements, first, r.lines - first);
#pragma unroll Rows::kUnroll
        for (u32 j = 0; j < rows.each(); j++) {
            const u64 row = first + j * kWarp + lane;
            Between all = {-0.0, -0.0};
            rows.each_part(j, [&](const u32(&words)[Rows::kWords], u32) { all.join(between<kDtype>(words)); });
            const bool known = plain && all.low == all.high;
            if (row < r.lines && known)
                ((double *)a.cells)[row] = all.high;
            unknown |= row < r.lines && !known ? 1u << j : 0;
        }
        if (!__any_sync(kFullMask, unknown))
            continue;
        for (; unknown; unknown &= unknown - 1)
            sum_again<kDtype>(a, r, first + (__ffs((int)unknown) - 1) * kWarp + lane, 0, group_mask(1),
                              (rk_state *)(of_warp + lane * r.state_words));
        __syncwarp();
    }
}

// Equal rows of a few elements: a thread a row, and four rows at once, so that loads and additions of one row fill the
// gaps of the others.
template <int kDtype> __global__ void __launch_bounds__(kRowThreads)
    sum_tiny_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ RowArgs r)
{
    using Bits = FloatBits<kDtype>;
    constexpr int kRows = 4;
    RK_DYNAMIC_SHARED(u64, states);
    rk_state *mine = (rk_state *)(states + threadIdx.x * r.state_words);
    const u64 step = (u64)gridDim.x * kRowThreads;
    const u32 n = (u32)a.spec.row_len;
    const bool value = a.plain && a.spec.out == RP_F64 && n;
    for (u64 first = (u64)blockIdx.x * kRowThreads + threadIdx.x; first < r.lines; first += kRows * step) {
        Line<kDtype> l[kRows];
        const Bits *p[kRows];
#pragma unroll
        for (int k = 0; k < kRows; k++) {
            u64 row = first + k * step;
            l[k] = {{-0.0, -0.0, false}, 0, r.skip};
            p[k] = (const Bits *)r.elements + (row < r.lines ? row : first) * n; // past the last row: any row, to no use
        }
        for (u32 e = 0; e < n; e++) {
            Bits x[kRows];
#pragma unroll
            for (int k = 0; k < kRows; k++)
                x[k] = p[k][e];
#pragma unroll
            for (int k = 0; k < kRows; k++)
                l[k].add(x[k]);
        }
#pragma unroll
        for (int k = 0; k < kRows; k++) {
            u64 row = first + k * step;
            if (row >= r.lines)
                break;
            if (value && !l[k].sum.lost && !l[k].skipped)
                ((double *)a.cells)[row] = l[k].sum.value();
            else if (l[k].sum.lost)
                walk_together(a, r, row, {row * n, 1, n}, 0, 0, mine);
            else
                finish_pair(a, row, l[k].sum.s, l[k].sum.t, n, l[k].skipped, mine);
        }
    }
}

// Where elements are narrower than f64
template <int kDtype> RowsKernel narrow_kernel(RowShape shape)
{
    return shape == kTinyRows    ? sum_tiny_rows<kDtype>
           : shape == kPairs     ? sum_thread_rows<kDtype, PairRows>
           : shape == kStaged    ? sum_thread_rows<kDtype, StagedRows>
           : shape == kWholeRows ? sum_tile_rows<kDtype>
                                 : shape == kLongRows ? sum_rows < kDtype,
           kDtype == RP_F32 ? 8 : 4 > : sum_rows<kDtype, 4>;
}

} // namespace

RowsKernel sum_rows_kernel(int dtype, RowShape shape)
{
    switch (dtype) {
    case RP_F16:
        return narrow_kernel<RP_F16>(shape);
    case RP_BF16:
        return narrow_kernel<RP_BF16>(shape);
    case RP_F32:
        return narrow_kernel<RP_F32>(shape);
    default:
        return shape == kTinyRows ? sum_tiny_rows<RP_F64> : sum_rows<RP_F64, 4>;
    }
}

} // namespace rk
