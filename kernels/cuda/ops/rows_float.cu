// Equal short rows of f32, a row in the registers of some lanes of a warp: sums of squares, var, stats, and with a mask sums.
//
// As in exponent_window.cuh, but for the row as a whole: its largest element decides where 19 binades lie. With u the lowest
// bit of the lowest of them, elements are multiples of u below 2^42 u, squares below 2^84 u^2, and 2^10 of these below
// 2^94 u^2. Above the anchor 2^95 u^2 a double counts 2^43 u^2; what the squares lose there is below 2^43 u^2 each, half of it
// but for the sign, together at most 2^52 u^2. A row that does not fit is walked along (lane_sums.cuh).
#include "kernels/cuda/exact/tile_sum.cuh"
#include "kernels/cuda/pass/float_walk.cuh"

namespace rk {
namespace {

constexpr u32 kRowBinades = 19;

// A lane's part of a row: kVectors vectors of 16 bytes, or, if 0, half a one. kFull: all rows have as many.
template <int kDtype, LineKind kKind, int kVectors, bool kFull, bool kMask> struct RowTile {
    using Element = typename FloatElement<kDtype>::Type;
    using Line = FloatLine<kDtype, kKind>;
    using Vector = std::conditional_t<kVectors == 0, uint2, uint4>;
    static constexpr int kCount = kVectors ? kVectors : 1, kPer = sizeof(Vector) / Float<kDtype>::kBytes;
    static constexpr int kElements = kCount * kPer;
    using Mask = typename Width<kPer>::Bits; // of a vector's elements: a byte each
    static constexpr u32 kAll = kElements == 32 ? ~0u : (1u << kElements) - 1;

    u32 x[kElements]; // beyond the row its last vector once more
    u32 in;           // which of these count

    // Vectors lane, lane + lanes, ... of row number `row`, of n vectors.
    __device__ __forceinline__ void load(const rp_parts &parts, u64 row, u32 lane, u32 lanes, u32 n)
    {
        Vector v[kCount];
        Mask mask[kCount];
#pragma unroll
        for (int u = 0; u < kCount; u++) {
            const u64 at = row * n + (kFull ? lane + u * lanes : min(lane + u * lanes, n - 1));
            v[u] = __ldcs((const Vector *)parts.elements + at);
            if (kMask)
                mask[u] = __ldcs((const Mask *)parts.mask + at);
        }
        in = kAll;
#pragma unroll
        for (int k = 0; k < kElements; k++) {
            u32 w[sizeof(Vector) / 4];
            memcpy(w, &v[k / kPer], sizeof w);
            x[k] = Element::get(w[k % kPer / Element::kPerWord], k % Element::kPerWord);
        }
        if (kMask) {
            in = 0;
#pragma unroll
            for (int k = 0; k < kElements; k++)
                in |= (mask[k / kPer] >> (8 * (k % kPer)) & 255) ? 1u << k : 0;
        }
        if (!kFull) {
#pragma unroll
            for (int u = 0; u < kCount; u++)
                in &= lane + u * lanes < n ? ~0u : ~(((1u << kPer) - 1) << (u * kPer));
        }
    }
    __device__ __forceinline__ bool has(int k) const { return (kFull && !kMask) || (in >> k & 1); }

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
        Magnitudes m;
        l.sums.count = elements;
        if (kMask) {
            u32 count = __popc(in);
            for (u32 d = lanes / 2; d; d /= 2)
                count += __shfl_xor_sync(kFullMask, count, d);
            l.sums.count = count;
        }
        bool fits;
        l.sums.special = 0;
        l.skipped = 0;
        if constexpr (kKind == kSum) {
            Between all = {-0.0, -0.0};
#pragma unroll
            for (int k = 0; k < kElements; k++) {
                const double v = has(k) ? (double)__uint_as_float(x[k]) : -0.0;
                all.join({v, v});
            }
            for (u32 d = lanes / 2; d; d /= 2)
                all.join({__shfl_xor_sync(kFullMask, all.low, d), __shfl_xor_sync(kFullMask, all.high, d)});
            l.sums.sum = {all.high, 0, false};
            l.sums.squares.clear();
            fits = all.low == all.high && fabs(all.high) < INFINITY;
        } else {
#pragma unroll
            for (int k = 0; k < kElements; k++)
                m.note(has(k) ? x[k] : 0);
            const u32 most = most_of(m.most, lanes), top = most >> 23;
            const u32 first = top > kRowBinades - 1 ? top - (kRowBinades - 1) : 1;
            fits = most < kInfinite && (first == 1 || m.least >= (first << 23) - 1);
            const double anchor = Window::power(95 + 2 * ((int)first - 150));
            double sum = -0.0, upper = anchor, lower = 0;
#pragma unroll
            for (int k = 0; k < kElements; k++) {
                const double v = has(k) ? (double)__uint_as_float(x[k]) : -0.0;
                const double with = __fma_rn(v, v, upper);
                lower = __dadd_rn(lower, __fma_rn(v, v, -__dsub_rn(with, upper)));
                upper = with;
                sum = __dadd_rn(sum, v);
            }
            upper = __dsub_rn(upper, anchor);
            for (u32 d = lanes / 2; d; d /= 2) { // no addition of these rounds
                sum = __dadd_rn(sum, __shfl_xor_sync(kFullMask, sum, d));
                upper = __dadd_rn(upper, __shfl_xor_sync(kFullMask, upper, d));
                lower = __dadd_rn(lower, __shfl_xor_sync(kFullMask, lower, d));
            }
            l.sums.sum = {sum, 0, false};
            l.sums.squares.lost = false;
            l.sums.squares.x[1] = two_sum(upper, lower, l.sums.squares.x[0]);
        }
        if constexpr (kKind == kStatistics)
            note_places(l.places, lane, lanes, skip);
        return (__ballot_sync(kFullMask, !fits) & team.mask) == 0;
    }

    // Extremes and zeros of a row of finite elements, for every lane. Whole warp.
    template <class P> __device__ __forceinline__ void note_places(P &p, u32 lane, u32 lanes, bool skip) const
    {
        u32 zeros = 0;
        float least = INFINITY, most = -INFINITY; // the device has -0 < +0
#pragma unroll
        for (int k = 0; k < kElements; k++) {
            least = fminf(least, has(k) ? __uint_as_float(x[k]) : INFINITY);
            most = fmaxf(most, has(k) ? __uint_as_float(x[k]) : -INFINITY);
            zeros += has(k) && x[k] << 1 == 0;
        }
        int low = AsF32::key(__float_as_uint(least)), high = AsF32::key(__float_as_uint(most));
        if (lanes == kWarp) {
            low = -1 - warp_max(-1 - low);
            high = warp_max(high);
            zeros = warp_add(zeros);
        } else {
            for (u32 d = lanes / 2; d; d /= 2) {
                low = min(low, __shfl_xor_sync(kFullMask, low, d));
                high = max(high, __shfl_xor_sync(kFullMask, high, d));
                zeros += __shfl_xor_sync(kFullMask, zeros, d);
            }
        }
        u32 low_at = first_of(AsF32::bits(low), lane, lanes), high_at = first_of(AsF32::bits(high), lane, lanes);
        if (lanes == kWarp) {
            low_at = warp_min(low_at);
            high_at = warp_min(high_at);
        } else {
            for (u32 d = lanes / 2; d; d /= 2) {
                low_at = min(low_at, __shfl_xor_sync(kFullMask, low_at, d));
                high_at = min(high_at, __shfl_xor_sync(kFullMask, high_at, d));
            }
        }
        p.init(skip);
        p.least = low;
        p.most = high;
        p.least_at = low_at;
        p.most_at = high_at;
        p.zeros = zeros;
    }
    // Index in the row of this lane's first element with these bits; ~0: it has none.
    __device__ __forceinline__ u32 first_of(u32 bits, u32 lane, u32 lanes) const
    {
        u32 at = ~0u;
#pragma unroll
        for (int k = kElements - 1; k >= 0; k--)
            at = has(k) && x[k] == bits ? (lane + k / kPer * lanes) * kPer + k % kPer : at;
        return at;
    }
};

// The general way, of rows that the lanes' `line` is not empty of. Whole warp.
template <int kDtype, LineKind kKind> __device__ __noinline__ void walk_row(FloatLine<kDtype, kKind> *to, const FinishArgs &a,
                                                                            const SegmentArgs &g, const WalkArgs &w,
                                                                            rk_line line, u32 lane, Lanes team)
{
    FloatWalk<kDtype, kKind> x;
    x.init(a.plan, g.skip);
    VectorWalk<FloatWalk<kDtype, kKind>>(w.parts, line, w.lanes, team).add_all(x, lane);
    x.join(w.lanes);
    *to = x.line();
}

template <int kDtype, LineKind kKind, int kVectors, bool kFull, bool kMask, int kBlocks>
__global__ void __launch_bounds__(kWalkThreads, kBlocks)
    reduce_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g, const __grid_constant__ WalkArgs w,
                u64 *out)
{
    using Line = FloatLine<kDtype, kKind>;
    __shared__ __align__(16) unsigned char space[kWalkThreads * sizeof(Line)]; // a Line has no constructor to run
    Line *mine = (Line *)space + threadIdx.x;
    const u32 lanes = w.lanes, lane = threadIdx.x % lanes, lines = kWarp / lanes; // of a warp at once
    const Lanes team = {lanes, group_mask(lanes)};
    const u64 turn = (u64)lines * w.turns, row_len = a.spec.row_len;
    const u32 nvec = (u32)(row_len * Float<kDtype>::kBytes / (kVectors ? 16 : 8));
    const u64 warp = ((u64)blockIdx.x * kWalkThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kWalkThreads / kWarp);
    for (u64 first = warp * turn; first < w.lines; first += warps * turn) {
        u64 number = RP_NO_INDEX; // of the line in `mine`
        for (u32 t = 0; t < w.turns; t++) {
            const u64 i = first + t * lines + threadIdx.x % kWarp / lanes, row = w.first_line + min(i, w.lines - 1);
            RowTile<kDtype, kKind, kVectors, kFull, kMask> tile;
            tile.load(w.parts, row, lane, lanes, nvec);
            Line l;
            const bool known = tile.reduce(l, lane, team, (u32)row_len, g.skip);
            if (known && lane == t)
                *mine = l;
            if (!__all_sync(kFullMask, known)) {
                Line again;
                walk_row<kDtype, kKind>(&again, a, g, w, {row * row_len, 1, known ? 0 : row_len}, lane, team);
                if (!known && lane == t)
                    *mine = again;
            }
            if (lane == t && i < w.lines)
                number = row;
        }
        // Each lane has a line: what takes longest is done for all of them at once.
        if (number != RP_NO_INDEX)
            finish_or_list(*mine, a, g, number, out);
        __syncwarp();
    }
}

template <LineKind kKind, bool kMask> WalkFn pick(u32 vectors, bool full)
{
    constexpr int kFew = kKind == kStatistics || kMask ? 4 : 5; // blocks of an SM
    if constexpr (kKind == kStatistics) {
        if (vectors == 0)
            return NULL;
    } else if constexpr (!kMask) {
        if (vectors == 0)
            return reduce_rows<RP_F32, kKind, 0, true, kMask, 8>;
    }
    if (vectors == 4)
        return full ? reduce_rows<RP_F32, kKind, 4, true, kMask, 6> : reduce_rows<RP_F32, kKind, 4, false, kMask, 6>;
    return full ? reduce_rows<RP_F32, kKind, 8, true, kMask, kFew> : reduce_rows<RP_F32, kKind, 8, false, kMask, 4>;
}

} // namespace

WalkFn row_float_kernel(int layout, int dtype, u32 vectors, bool full, bool mask)
{
    if (dtype != RP_F32)
        return NULL;
    if (rk_is_stats(layout))
        return mask ? NULL : pick<kStatistics, false>(vectors, full);
    if (rk_square_limbs(layout))
        return mask ? pick<kMoments, true>(vectors, full) : pick<kMoments, false>(vectors, full);
    return mask && !rk_is_abs(layout) ? pick<kSum, true>(vectors, full) : NULL;
}

} // namespace rk
