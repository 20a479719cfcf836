// min, max, argmin, argmax of equal short rows of 32-bit elements, ranked as in minmax_arg.cu: rows in the registers of some
// lanes, by tiles (tile_rows.cuh), or a thread a row (thread_rows.cuh).
#include "kernels/cuda/pass/finish.cuh"
#include "kernels/cuda/pass/lane_rows.cuh"
#include "kernels/cuda/pass/thread_rows.cuh"
#include "kernels/cuda/pass/tile_rows.cuh"

namespace rk {
namespace {

// How elements compare. `Flip`: SegmentArgs::rank_flip, for floats not zero where the least is wanted.
template <bool kFloat> struct Order {
    u32 flip;

    static __device__ __forceinline__ bool nan(u32 bits) { return kFloat && (bits & 0x7fffffffu) > kInfinite; }
    __device__ __forceinline__ u32 rank(u32 bits) const
    {
        if constexpr (!kFloat)
            return bits ^ flip;
        return nan(bits) ? ~0u : (bits ^ ((u32)((int)bits >> 31) | 1u << 31)) ^ flip;
    }
    // The element of this rank, if it is not a NaN
    __device__ __forceinline__ u32 bits(u32 rank) const
    {
        const u32 v = rank ^ flip;
        return kFloat ? v ^ (~(u32)((int)v >> 31) | 1u << 31) : v;
    }
    // The worst possible element: an infinity, or the rank 0
    __device__ __forceinline__ u32 worst() const { return !kFloat ? flip : flip ? kInfinite : kInfinite | 1u << 31; }
    // The best of `count` elements: a rank
    template <int kCount, class Get> __device__ __forceinline__ u32 best(Get get) const
    {
        if constexpr (!kFloat) {
            u32 all = 0;
#pragma unroll
            for (int k = 0; k < kCount; k++)
                all = max(all, get(k) ^ flip);
            return all;
        } else {
            return rank(flip ? best_float<kCount, true>(get) : best_float<kCount, false>(get));
        }
    }
    template <int kCount, bool kLeast, class Get> static __device__ __forceinline__ u32 best_float(Get get)
    {
        u32 all = get(0);
#pragma unroll
        for (int k = 1; k < kCount; k++)
            all = better_float_bits<kLeast>(all, get(k));
        return all;
    }
};

// A row's result
struct RowBest {
    u32 rank, at, count; // of the elements that the mask keeps; at: ~0 if the index is not wanted
};

// Rare values. Out of line.
template <bool kFloat, bool kIndex>
__device__ __noinline__ void finish_otherwise(const FinishArgs &a, u64 row, u32 rank, u64 index, u32 count)
{
    u64 bits = 0;
    const int code = kIndex ? index_value(index, count, &bits)
                            : element_value(a, kFloat ? RP_F32 : a.spec.dtype, rank, count, &bits);
    if (code != RP_OK)
        set_fault(a, row);
    write_bits(a.cell_bytes, a.cells, row, bits);
}

template <bool kFloat, bool kIndex> __device__ __forceinline__ void finish(const FinishArgs &a, const Order<kFloat> &order,
                                                                           u64 first_index, u64 row, const RowBest &b)
{
    const u64 index = first_index + b.at;
    if constexpr (kIndex) {
        if (a.cell_bytes == 8 && b.count) {
            ((u64 *)a.cells)[row] = index;
            return;
        }
    } else if constexpr (kFloat) {
        const u32 bits = order.bits(b.rank);
        if ((a.spec.out == RP_F64 || a.spec.out == RP_F32) && b.count && b.rank != ~0u) {
            write_bits(a.cell_bytes, a.cells, row, rounded_bits((double)__uint_as_float(bits), a.spec.out));
            return;
        }
    }
    finish_otherwise<kFloat, kIndex>(a, row, b.rank, index, b.count);
}

// ---- in the registers of some lanes ----

template <bool kFloat, bool kIndex, int kVectors, bool kMask> struct BestTile : RowElements<kVectors, false, kMask> {
    using Elements = RowElements<kVectors, false, kMask>;
    using Elements::has, Elements::in, Elements::kCount, Elements::kElements, Elements::kPer, Elements::x;

    // For every lane of the row. Whole warp.
    __device__ __forceinline__ RowBest reduce(const Order<kFloat> &order, u32 elements, u32 lane, u32 lanes) const
    {
        RowBest b = {order.template best<kElements>([&](int k) { return !kMask || has(k) ? x[k] : order.worst(); }), ~0u,
                     elements};
        if constexpr (kMask) {
            b.count = 0;
#pragma unroll
            for (int u = 0; u < kCount; u++)
                b.count += __popc(in[u]);
        }
        if (lanes == kWarp) {
            b.rank = warp_max(b.rank);
            if constexpr (kMask)
                b.count = warp_add(b.count);
        } else {
            for (u32 d = lanes / 2; d; d /= 2) {
                b.rank = max(b.rank, __shfl_xor_sync(kFullMask, b.rank, d));
                if constexpr (kMask)
                    b.count += __shfl_xor_sync(kFullMask, b.count, d);
            }
        }
        if constexpr (kIndex) {
            const bool nan = kFloat && b.rank == ~0u;
            const u32 bits = order.bits(b.rank);
            if (!__any_sync(kFullMask, nan))
                b.at = first_of(lane, lanes, [&](u32 v) { return v == bits; });
            else
                b.at = first_of(lane, lanes, [&](u32 v) { return nan ? Order<kFloat>::nan(v) : v == bits; });
        }
        return b;
    }
    // Index of the row's first element that is_it. Whole warp.
    template <class IsIt> __device__ __forceinline__ u32 first_of(u32 lane, u32 lanes, IsIt is_it) const
    {
        if (lanes == kWarp)
            return first_in_warp(is_it);
        u32 at = ~0u;
#pragma unroll
        for (int k = kElements - 1; k >= 0; k--)
            at = (!kMask || has(k)) && is_it(x[k]) ? (lane + k / kPer * lanes) * kPer + k % kPer : at;
        for (u32 d = lanes / 2; d; d /= 2)
            at = min(at, __shfl_xor_sync(kFullMask, at, d));
        return at;
    }
    // The same of a row that the whole warp has: no further than to the first vectors with such an element.
    template <class IsIt> __device__ __forceinline__ u32 first_in_warp(IsIt is_it) const
    {
#pragma unroll
        for (int u = 0; u < kCount; u++) {
            u32 at = kPer; // in the vector
#pragma unroll
            for (int k = kPer - 1; k >= 0; k--)
                at = (!kMask || has(u * kPer + k)) && is_it(x[u * kPer + k]) ? k : at;
            const u32 found = __ballot_sync(kFullMask, at < kPer);
            if (found) {
                const u32 other = (u32)__ffs((int)found) - 1;
                return (other + u * kWarp) * kPer + __shfl_sync(kFullMask, at, (int)other);
            }
        }
        return ~0u; // all are masked out
    }
};

template <bool kFloat, bool kIndex, int kVectors, bool kMask>
__global__ void __launch_bounds__(kWalkThreads, kVectors == 8 ? (kMask ? 4 : 5) : 8)
    best_of_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                 const __grid_constant__ WalkArgs w, u64 *)
{
    // of a row; and rows of a warp at once. More than 4 vectors for each lane: then a row takes all of them
    const u32 lanes = kVectors == 8 ? kWarp : w.lanes, lines = kWarp / lanes;
    const u32 lane = threadIdx.x % lanes, team = threadIdx.x % kWarp / lanes;
    const u64 turn = (u64)lines * w.turns;
    const u32 row_len = (u32)a.spec.row_len, nvec = row_len / 4;
    const Order<kFloat> order = {(u32)g.rank_flip};
    const u64 warp = ((u64)blockIdx.x * kWalkThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kWalkThreads / kWarp);
    for (u64 first = warp * turn; first < w.lines; first += warps * turn) {
        RowLoads<kVectors, false, kMask> next;
        auto request = [&](u32 t) {
            next.load(w.parts, w.first_line + min(first + t * lines + team, w.lines - 1), lane, lanes, nvec);
        };
        request(0);
        RowBest mine; // each lane has the row of the turn with its number
#pragma unroll 1
        for (u32 t = 0; t < w.turns; t++) {
            BestTile<kFloat, kIndex, kVectors, kMask> tile;
            tile.take(next, lane, lanes, nvec);
            if (t + 1 < w.turns)
                request(t + 1);
            const RowBest b = tile.reduce(order, row_len, lane, lanes);
            if (lane == t)
                mine = b;
        }
        const u64 i = first + lane * lines + team;
        if (lane < w.turns && i < w.lines)
            finish<kFloat, kIndex>(a, order, g.first_index, w.first_line + i, mine);
    }
}

// ---- a thread a row ----

template <bool kFloat, bool kIndex, class Rows> __global__ void __launch_bounds__(kWalkThreads, 8)
    best_of_thread_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                        const __grid_constant__ WalkArgs w, u64 *)
{
    constexpr u32 kWarps = kWalkThreads / kWarp, kWords = Rows::kWords;
    __shared__ uint4 tiles[kWarps][Rows::kStaged ? kWarp * kStagedVectors : 1];
    const u32 lane = threadIdx.x % kWarp, n = (u32)a.spec.row_len;
    Rows rows(n / 4, tiles[threadIdx.x / kWarp]);
    const Order<kFloat> order = {(u32)g.rank_flip};
    const u32 many = kWarp * rows.each();
    const u64 warp = ((u64)blockIdx.x * kWalkThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * kWarps;
    for (u64 first = warp * many; first < w.lines; first += warps * many) {
        rows.load(w.parts.elements, w.first_line + first, w.lines - first);
#pragma unroll Rows::kUnroll
        for (u32 j = 0; j < rows.each(); j++) {
            const u64 i = first + j * kWarp + lane;
            RowBest b = {0, ~0u, n};
            rows.each_part(j, [&](const u32(&x)[kWords], u32) {
                b.rank = max(b.rank, order.template best<kWords>([&](int k) { return x[k]; }));
            });
            if constexpr (kIndex) {
                const u32 bits = order.bits(b.rank);
                const bool nan = kFloat && b.rank == ~0u;
                rows.each_part(j, [&](const u32(&x)[kWords], u32 at) {
#pragma unroll
                    for (u32 k = 0; k < kWords; k++)
                        b.at = x[k] == bits || (nan && Order<kFloat>::nan(x[k])) ? min(b.at, at + k) : b.at;
                });
            }
            if (i < w.lines)
                finish<kFloat, kIndex>(a, order, g.first_index, w.first_line + i, b);
        }
    }
}

// ---- a tile of a warp ----

// The best of some elements of a row. Of equal ranks that with the lowest index.
template <bool kIndex> struct Candidate {
    using Key = std::conditional_t<kIndex, u64, u32>;
    Key key; // rank; above the inverted index, if there is one

    __device__ __forceinline__ void join(const Candidate &o) { key = max(key, o.key); }
    __device__ __forceinline__ Candidate of_lane(u32 d) const { return {__shfl_xor_sync(kFullMask, key, d)}; }
};

template <bool kFloat, bool kIndex, u32 kWords>
__device__ __forceinline__ Candidate<kIndex> candidate_of(const Order<kFloat> &order, const u32 (&x)[kWords], u32 first)
{
    const u32 rank = order.template best<kWords>([&](int k) { return x[k]; });
    if constexpr (!kIndex) {
        return {rank};
    } else {
        const u32 bits = order.bits(rank);
        const bool nan = kFloat && rank == ~0u;
        u32 at = kWords - 1;
#pragma unroll
        for (int k = (int)kWords - 2; k >= 0; k--)
            at = x[k] == bits || (nan && Order<kFloat>::nan(x[k])) ? k : at;
        return {(u64)rank << 32 | (u32) ~(first + at)};
    }
}
template <bool kIndex> __device__ __forceinline__ RowBest best_of(const Candidate<kIndex> &c, u32 n)
{
    if constexpr (kIndex)
        return {(u32)(c.key >> 32), ~(u32)c.key, n};
    else
        return {c.key, 0, n};
}

template <bool kFloat, bool kIndex, int kLog> __global__ void __launch_bounds__(kWalkThreads, 8)
    best_of_tiles(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                  const __grid_constant__ WalkArgs w, u64 *)
{
    using Rows = TileRows<kLog>;
    const Order<kFloat> order = {(u32)g.rank_flip};
    const u64 warp = ((u64)blockIdx.x * kWalkThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kWalkThreads / kWarp);
    for (u64 first = warp * Rows::kRows; first < w.lines; first += warps * Rows::kRows) {
        Rows rows;
        rows.load(w.parts.elements, w.first_line + first, w.lines - first);
        Candidate<kIndex> best[kTileVectors];
#pragma unroll
        for (u32 u = 0; u < kTileVectors; u++) {
            const u32 x[4] = {rows.v[u].x, rows.v[u].y, rows.v[u].z, rows.v[u].w};
            best[u] = candidate_of<kFloat, kIndex>(order, x, Rows::part() * 4);
        }
        Rows::join(best);
#pragma unroll
        for (u32 i = 0; i < Rows::kEach; i++) {
            const u64 row = first + Rows::row(i);
            if (row < w.lines)
                finish<kFloat, kIndex>(a, order, g.first_index, w.first_line + row, best_of<kIndex>(best[i], 4 << kLog));
        }
    }
}

template <bool kFloat, bool kIndex> WalkFn pick_thread(u64 row_len)
{
    switch (row_len) {
    case 2:
        return best_of_thread_rows<kFloat, kIndex, PairRows>;
    case 4:
        return best_of_tiles<kFloat, kIndex, 0>;
    case 8:
        return best_of_tiles<kFloat, kIndex, 1>;
    case 16:
        return best_of_tiles<kFloat, kIndex, 2>;
    case 32:
        return best_of_tiles<kFloat, kIndex, 3>;
    default:
        return best_of_thread_rows<kFloat, kIndex, StagedRows>;
    }
}

template <bool kFloat, bool kIndex> WalkFn pick_lanes(u32 vectors, bool mask)
{
    if (mask)
        return vectors == 4 ? best_of_rows<kFloat, kIndex, 4, true> : best_of_rows<kFloat, kIndex, 8, true>;
    return vectors == 4 ? best_of_rows<kFloat, kIndex, 4, false> : best_of_rows<kFloat, kIndex, 8, false>;
}

bool takes(int layout, int dtype)
{
    return rk_bytes(dtype) == 4 &&
           (layout == RP_STATE_MIN || layout == RP_STATE_MAX || layout == RP_STATE_ARGMIN || layout == RP_STATE_ARGMAX);
}

bool has_index(int layout) { return layout == RP_STATE_ARGMIN || layout == RP_STATE_ARGMAX; }

} // namespace

WalkFn best_thread_row_kernel(int layout, int dtype, u64 row_len)
{
    if (!takes(layout, dtype) || (row_len != 2 && (row_len % 4 || row_len > 4 * kStagedVectors)))
        return NULL;
    if (rk_is_float(dtype))
        return has_index(layout) ? pick_thread<true, true>(row_len) : pick_thread<true, false>(row_len);
    return has_index(layout) ? pick_thread<false, true>(row_len) : pick_thread<false, false>(row_len);
}

WalkFn best_row_kernel(int layout, int dtype, u32 vectors, bool mask)
{
    if (!takes(layout, dtype) || vectors == 0)
        return NULL;
    if (rk_is_float(dtype))
        return has_index(layout) ? pick_lanes<true, true>(vectors, mask) : pick_lanes<true, false>(vectors, mask);
    return has_index(layout) ? pick_lanes<false, true>(vectors, mask) : pick_lanes<false, false>(vectors, mask);
}

} // namespace rk
