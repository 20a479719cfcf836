// Exact float sums, also of magnitudes, of many rows or segments that are too short for a block each: a few lanes of a warp
// share a line.
//
// The sum is kept in two doubles (twosum.cuh), without a long accumulator and its rounding. If these do not suffice, the lanes
// walk the line again with a state each.
#include "kernels/cuda/exact/row_values.cuh"
#include "kernels/cuda/exact/tile_sum.cuh"
#include "kernels/cuda/pass/narrow_total.cuh"
#include "kernels/cuda/pass/thread_rows.cuh"
#include "kernels/cuda/pass/tile_rows.cuh"
#include "kernels/cuda/pass/unit_parts.h"
#include "kernels/exact/line.h"

namespace rk {
namespace {

// Elements as they are, or without their signs
__device__ __forceinline__ uint4 kept(uint4 v, const RowArgs &r)
{
    return {v.x & r.keep[0], v.y & r.keep[1], v.z & r.keep[0], v.w & r.keep[1]};
}
template <class Bits> __device__ __forceinline__ Bits kept_element(Bits bits, const RowArgs &r)
{
    return bits & (Bits)((u64)r.keep[1] << 32 | r.keep[0]);
}

template <int kDtype> struct Line {
    using Bits = FloatBits<kDtype>;

    Pair sum;
    u64 skipped;
    bool skip;

    __device__ __forceinline__ void add(Bits bits) { add_float<kDtype>(sum, bits, skip, skipped); }
    // Out of line, so that the doubles of add_tile are not kept for it.
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
// beyond come -0.0, which adds nothing. No load is conditional, because ptxas serialises conditional loads.
template <int kTile> __device__ __forceinline__ void load_tile(uint4 (&tile)[kTile], const RowArgs &r, const uint4 *v, u32 lane)
{
#pragma unroll
    for (int u = 0; u < kTile; u++)
        tile[u] = load_vector(v + lane + u * r.lanes);
#pragma unroll
    for (int u = 0; u < kTile; u++)
        tile[u] = kept(tile[u], r);
}
template <class Bits, int kTile>
__device__ __forceinline__ void load_last(uint4 (&tile)[kTile], const RowArgs &r, const uint4 *v, u32 lane, u32 left)
{
    const u32 lanes = r.lanes;
    constexpr Bits kNothing = (Bits)((Bits)1 << (8 * sizeof(Bits) - 1));
#pragma unroll
    for (int u = 0; u < kTile; u++)
        tile[u] = load_vector(v + min(lane + u * lanes, left - 1));
#pragma unroll
    for (int u = 0; u < kTile; u++)
        tile[u] = lane + u * lanes < left ? kept(tile[u], r) : vector_of(kNothing);
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

// The parts of kernels/exact/state.h and finish.h that sums and means of floats need. ptxas gives each kernel a copy of what it
// calls, and copies with all operations took most of its time for the engine.

// rk_state_add
__device__ inline void add_to_state(rk_state *s, u64 bits, int nan_policy)
{
    if (rk_is_nan(s->dtype, bits)) {
        bits = rk_nan_bits(rk_format_of(s->dtype)); // all NaNs are one
        if (!rk_state_nan(s, nan_policy))
            return;
    }
    rk_add_float_sums(s, bits);
    s->count++;
}

// rk_state_merge
__device__ inline void merge_states(rk_state *s, const rk_state *o)
{
    s->special |= o->special;
    s->nz |= o->nz;
    s->skipped |= o->skipped;
    rk_sums_merge(s, o);
    s->count += o->count;
}

// write_cell. Out of line: rare, long, and used by two callers.
__device__ __noinline__ void finish_state(const FinishArgs &a, u64 number, rk_state *s)
{
    if (a.spec.flags & RP_STATES_OUT) {
        write_state(a, number, *s);
        return;
    }
    if (a.spec.flags & RP_INITIAL)
        add_to_state(s, a.spec.initial, a.spec.nan);
    const rk_format f = rk_format_of(a.spec.out);
    u64 bits = 0;
    if (a.spec.nan == RP_NAN_ERROR && s->skipped)
        set_fault(a, number);
    else
        bits = a.spec.op == RP_OP_MEAN ? rk_finish_mean(s, f) : rk_finish_sum(s, f);
    write_bits(a.cell_bytes, a.cells, number, bits);
}

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
    const int bytes = rk_bytes(a.spec.dtype);
    rk_state_init(mine, a.plan.layout, a.spec.dtype);
    for (u64 i = lane; i < line.n; i += r.lanes)
        add_to_state(mine, rk_load(r.elements + (line.first + i) * bytes, bytes), a.spec.nan);
    if (mask)
        __syncwarp(mask);
    if (lane)
        return;
    for (u32 k = 1; k < r.lanes; k++)
        merge_states(mine, (const rk_state *)((u64 *)first + k * r.state_words));
    finish_state(a, number, mine);
}

// Is the value a double that a few doubles can round, which is a sum or a mean?
__device__ __forceinline__ bool makes_float(const FinishArgs &a)
{
    return rk_is_float(a.spec.out) && !(a.spec.flags & (RP_STATES_OUT | RP_INITIAL));
}

// The bits of the value of a line of `count` elements. False: it is not certain.
__device__ __forceinline__ bool total_bits(const FinishArgs &a, const Pair &sum, u64 count, u64 *bits)
{
    const bool mean = a.spec.op == RP_OP_MEAN;
    if (count && a.spec.out != RP_F64) {
        if (mean || sum.t != 0)
            return narrow_quotient(sum, mean ? count : 1, a.spec.out, bits);
        *bits = rounded_bits(sum.s, a.spec.out);
        return !sum.lost;
    }
    double v = count ? sum.value() : 0.0;
    return (!mean || LineSums<1>{sum, {}, count, 0}.mean(&v)) && value_bits(v, a.spec.out, bits);
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
        load_tile(tile, r, v, lane);
        l.add_tile(tile);
    }
    if (left) {
        load_last<Bits>(tile, r, v, lane, left);
        l.add_tile(tile);
    }
    for (u32 e = lane; e < head; e += lanes)
        l.add(kept_element(p[e], r));
    for (u32 e = head + nvec * kPerVector + lane; e < n; e += lanes)
        l.add(kept_element(p[e], r));
    l.join(mask, lanes);
    if (__any_sync(mask, l.sum.lost)) {
        walk_together(a, r, i, line, lane, mask, first);
        __syncwarp(mask);
        return;
    }
    if (lane)
        return;
    u64 bits;
    if (makes_float(a) && !(l.skipped && a.spec.nan == RP_NAN_ERROR) && total_bits(a, l.sum, line.n - l.skipped, &bits))
        write_bits(a.cell_bytes, a.cells, i, bits);
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
__device__ __forceinline__ u32 lines_of_block(int threads, u32 lanes) { return (u32)threads >> (__ffs((int)lanes) - 1); }

// How many blocks must fit an SM, which bounds the registers: those that have as many threads as `row_blocks` blocks of
// kRowThreads, or as many as any SM holds.
constexpr int blocks_per_sm(int threads, int row_blocks)
{
    const int blocks = row_blocks * kRowThreads / threads, most = kLargeSm ? 32 : 16;
    return blocks < most ? blocks : most;
}

template <int kDtype, int kTile, int kThreads>
__global__ void __launch_bounds__(kThreads, blocks_per_sm(kThreads, kTile > 4 ? 5 : 8))
    sum_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ RowArgs r)
{
    RK_DYNAMIC_SHARED(u64, states);
    const Place at = place_of(r.lanes);
    const u32 lines = lines_of_block(kThreads, r.lanes);
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

// ... which lanes may exchange
struct BetweenOfLanes : Between {
    __device__ __forceinline__ BetweenOfLanes of_lane(u32 distance) const
    {
        return {__shfl_xor_sync(kFullMask, low, distance), __shfl_xor_sync(kFullMask, high, distance)};
    }
};

// Rows `first` to `end`, a thread of the warp each: those of a warp of which the sum of one is not known, or all where other
// values are wanted. Out of line and last, lest anything be kept in memory for it.
template <int kDtype> __device__ __noinline__ void sum_by_threads(const FinishArgs &a, const RowArgs &r, u64 first, u64 end)
{
    PlainState state;
    for (u64 row = first + threadIdx.x % kWarp; row < end; row += kWarp)
        sum_again<kDtype>(a, r, row, 0, group_mask(1), &state.get());
}

// What is made of the exact sums of equal rows of up to 2^10 elements, if it is one double: the sum, or the mean.
struct SumValue {
    bool wanted, mean;
    int out;
    Divisor n; // of a mean

    __device__ __forceinline__ explicit SumValue(const FinishArgs &a)
        : wanted(makes_float(a)), mean(a.spec.op == RP_OP_MEAN), out(a.spec.out)
    {
        if (mean)
            n = Divisor((double)(u32)a.spec.row_len);
    }
    // The bits of the value of a sum between these. False: it is not known.
    __device__ __forceinline__ bool of(const Between &sum, u64 *bits) const
    {
        double v = sum.high;
        bool exact = fabs(v) < INFINITY;
        if (mean && v != 0) {
            if (!n.quotient(sum.high, 0, 0).round(&v))
                return false;
            exact = __fma_rn(-v, n.d, sum.high) == 0;
        }
        if (exact)
            *bits = rounded_bits(v, out);
        return sum.low == sum.high && (exact || value_bits(v, out, bits));
    }
};

// Equal rows of whole vectors, at most 4 for each lane: one tile, whose sum rounded down and up is the row's where both are
// equal. A warp takes as many as it has lanes for.
template <int kDtype> __global__ void __launch_bounds__(kRowThreads, 8)
    sum_tile_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ RowArgs r)
{
    using Bits = FloatBits<kDtype>;
    constexpr int kTile = 4;
    RK_DYNAMIC_SHARED(u64, states);
    const Place at = place_of(r.lanes);
    const u32 nvec = (u32)(a.spec.row_len * sizeof(Bits) / 16);
    const u64 row = (u64)blockIdx.x * lines_of_block(kRowThreads, r.lanes) + at.line;
    if (row - threadIdx.x % kWarp / r.lanes >= r.lines) // the warp's first
        return;
    const SumValue value(a);
    bool known = value.wanted;
    if (known) {
        const uint4 *v = (const uint4 *)r.elements + min(row, r.lines - 1) * nvec;
        uint4 tile[kTile];
        if (nvec == kTile * r.lanes)
            load_tile(tile, r, v, at.lane);
        else
            load_last<Bits>(tile, r, v, at.lane, nvec);
        Between all = rk::between<kDtype>(tile);
        for (u32 d = r.lanes / 2; d; d /= 2)
            all.join({__shfl_xor_sync(kFullMask, all.low, d), __shfl_xor_sync(kFullMask, all.high, d)});
        u64 bits;
        known = value.of(all, &bits);
        if (known && row < r.lines && at.lane == 0)
            write_bits(a.cell_bytes, a.cells, row, bits);
    }
    if (row < r.lines && !known) // last, lest anything be kept in memory for it
        sum_again<kDtype>(a, r, row, at.lane, at.mask, at.first_state(states, r));
}

// Equal short rows, a thread a row (thread_rows.cuh). r.lanes is 1.
template <int kDtype, class Rows> __global__ void __launch_bounds__(kRowThreads, 8)
    sum_thread_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ RowArgs r)
{
    __shared__ uint4 tiles[kRowThreads / kWarp][Rows::kStaged ? kWarp * kStagedVectors : 1];
    Rows rows((u32)(a.spec.row_len * sizeof(FloatBits<kDtype>) / 16), tiles[threadIdx.x / kWarp]);
    const u32 many = kWarp * rows.each();
    const u64 first = ((u64)blockIdx.x * kRowThreads + threadIdx.x) / kWarp * many;
    if (first >= r.lines)
        return;
    const SumValue value(a);
    bool known = value.wanted;
    if (known) {
        rows.load(r.elements, first, r.lines - first);
#pragma unroll Rows::kUnroll
        for (u32 j = 0; j < rows.each(); j++) {
            const u64 row = first + j * kWarp + threadIdx.x % kWarp;
            Between all = {-0.0, -0.0};
            rows.each_part(j, [&](const u32(&words)[Rows::kWords], u32) {
                u32 x[Rows::kWords];
#pragma unroll
                for (u32 k = 0; k < Rows::kWords; k++)
                    x[k] = words[k] & r.keep[0];
                all.join(between<kDtype>(x));
            });
            u64 bits;
            const bool of_row = value.of(all, &bits);
            known &= of_row || row >= r.lines;
            if (of_row && row < r.lines)
                write_bits(a.cell_bytes, a.cells, row, bits);
        }
    }
    if (!__all_sync(kFullMask, known))
        sum_by_threads<kDtype>(a, r, first, min(first + many, r.lines));
}

// Equal rows of 1, 2, 4 or 8 vectors (tile_rows.cuh): a tile for each warp. r.lanes is 1.
template <int kDtype, int kLog> __global__ void __launch_bounds__(kRowThreads, 8)
    sum_rows_of_tiles(const __grid_constant__ FinishArgs a, const __grid_constant__ RowArgs r)
{
    using Rows = TileRows<kLog>;
    const u64 first = ((u64)blockIdx.x * kRowThreads + threadIdx.x) / kWarp * Rows::kRows;
    if (first >= r.lines)
        return;
    const SumValue value(a);
    bool known = value.wanted;
    if (known) {
        Rows rows;
        rows.load(r.elements, first, r.lines - first);
        BetweenOfLanes sums[kTileVectors];
#pragma unroll
        for (u32 u = 0; u < kTileVectors; u++)
            sums[u] = {rk::between<kDtype>(kept(rows.v[u], r))};
        Rows::join(sums);
#pragma unroll
        for (u32 i = 0; i < Rows::kEach; i++) {
            const u64 row = first + Rows::row(i);
            u64 bits;
            const bool of_row = value.of(sums[i], &bits);
            known &= of_row || row >= r.lines;
            if (of_row && row < r.lines)
                write_bits(a.cell_bytes, a.cells, row, bits);
        }
    }
    if (!__all_sync(kFullMask, known))
        sum_by_threads<kDtype>(a, r, first, min(first + Rows::kRows, r.lines));
}

// Equal rows of a few elements: a thread a row, and four rows at once, so that loads and additions of one row fill the
// gaps of the others.
template <int kDtype> __global__ void __launch_bounds__(kRowThreads, 6)
    sum_tiny_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ RowArgs r)
{
    using Bits = FloatBits<kDtype>;
    constexpr int kRows = 4;
    RK_DYNAMIC_SHARED(u64, states);
    rk_state *mine = (rk_state *)(states + threadIdx.x * r.state_words);
    const u64 step = (u64)gridDim.x * kRowThreads;
    const u32 n = (u32)a.spec.row_len;
    const bool values = makes_float(a) && n;
    for (u64 first = (u64)blockIdx.x * kRowThreads + threadIdx.x; first < r.lines; first += kRows * step) {
        Line<kDtype> l[kRows];
        const Bits *p[kRows];
#pragma unroll
        for (int k = 0; k < kRows; k++) {
            u64 row = first + k * step;
            l[k] = {{-0.0, -0.0, false}, 0, r.skip};
            p[k] = (const Bits *)r.elements + (row < r.lines ? row : first) * n; // beyond the last row: any row, whose result
                                                                                 // is not used
        }
        for (u32 e = 0; e < n; e++) {
            Bits x[kRows];
#pragma unroll
            for (int k = 0; k < kRows; k++)
                x[k] = kept_element(p[k][e], r);
#pragma unroll
            for (int k = 0; k < kRows; k++)
                l[k].add(x[k]);
        }
#pragma unroll
        for (int k = 0; k < kRows; k++) {
            u64 row = first + k * step;
            if (row >= r.lines)
                break;
            u64 bits;
            if (values && !l[k].sum.lost && !l[k].skipped && total_bits(a, l[k].sum, n, &bits))
                write_bits(a.cell_bytes, a.cells, row, bits);
            else if (l[k].sum.lost)
                walk_together(a, r, row, {row * n, 1, n}, 0, 0, mine);
            else
                finish_pair(a, row, l[k].sum.s, l[k].sum.t, n, l[k].skipped, mine);
        }
    }
}

// Where elements are narrower than f64. `vectors`: of a row.
template <int kDtype> RowsKernel narrow_kernel(RowShape shape, u64 vectors)
{
    switch (shape) {
    case kTinyRows:
        return sum_tiny_rows<kDtype>;
    case kPairs:
        return sum_thread_rows<kDtype, PairRows>;
    case kStaged:
        return vectors == 1   ? sum_rows_of_tiles<kDtype, 0>
               : vectors == 2 ? sum_rows_of_tiles<kDtype, 1>
               : vectors == 4 ? sum_rows_of_tiles<kDtype, 2>
               : vectors == 8 ? sum_rows_of_tiles<kDtype, 3>
                              : sum_thread_rows<kDtype, StagedRows>;
    case kWholeRows:
        return sum_tile_rows<kDtype>;
    case kLongRows:
        return sum_rows < kDtype, kDtype == RP_F32 ? 8 : 4, kLineThreads > ;
    case kOtherRows:
        break;
    }
    return sum_rows<kDtype, 4, kRowThreads>;
}

} // namespace

template <int kDtype> RowsKernel sum_rows_part(RowShape shape, u64 vectors)
{
    if constexpr (kDtype != RP_F64)
        return narrow_kernel<kDtype>(shape, vectors);
    else
        return shape == kTinyRows   ? sum_tiny_rows<RP_F64>
               : shape == kLongRows ? sum_rows<RP_F64, 4, kLineThreads>
                                    : sum_rows<RP_F64, 4, kRowThreads>;
}

#define PARTS(X) X(RP_F16) X(RP_BF16) X(RP_F32) X(RP_F64)
#define PART(of) template RowsKernel sum_rows_part<of>(RowShape shape, u64 vectors);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
