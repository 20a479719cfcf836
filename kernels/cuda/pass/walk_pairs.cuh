// Walking along elements and their weights: a Walker of walk_near.cuh and walk_columns.cuh. Pairs: NearPairs, NearComoments.
#pragma once

#include "kernels/cuda/pass/walk_near.cuh"

namespace rk {

// A line's sums, or those of a part of it.
template <class Pairs> struct PairLine {
    typename Pairs::All sums;
    u64 n; // pairs, those left out among them
    u32 skipped;

    __device__ __forceinline__ void join(const PairLine &o)
    {
        sums.join(o.sums);
        n += o.n;
        skipped |= o.skipped;
    }
    // Makes cell `line`. False: it is not certain, or a fault.
    __device__ __forceinline__ bool finish(const FinishArgs &a, const SegmentArgs &args, u64 line) const
    {
        u64 bits;
        if ((skipped && args.nan_error) || !Pairs::value(sums, n, a.spec, &bits))
            return false;
        write_bits(a.cell_bytes, a.cells, line, bits);
        return true;
    }
};

template <int kX, int kW, class Pairs> struct PairWalk : Pairs {
    using Line = PairLine<Pairs>;
    static constexpr bool kValueAlone = true;
    static constexpr int kBlocksPerSm = 4;

    typename Pairs::All joined;
    u64 n;
    const u8 *weights; // of the line
    u64 apart;         // elements from one to the next

    __device__ __forceinline__ void init(const WordPlan &, bool skip_nans)
    {
        this->clear(skip_nans, false);
        n = 0;
    }
    // The line's weights lie like it, one behind the other, or are the same.
    __device__ __forceinline__ void open(const rp_spec &s, const rp_parts &parts, const rk_line &line)
    {
        const bool columns = s.flags & RP_COLUMNS, own = s.weights_extent == RP_EXTENT_ELEMENTS;
        const bool one = s.weights_extent == (columns ? RP_EXTENT_ROW : RP_EXTENT_COLUMN);
        this->drops = s.zero_drops;
        apart = own ? line.stride : !one;
        weights = parts.weights + (line.n ? rk_weight_of(&s, line.first) : 0) * Float<kW>::kBytes;
    }
    static constexpr int kTogether = 4; // loads do not wait for each other

    // The pairs k x_apart and k w_apart elements on, for k in [0, count).
    __device__ __forceinline__ void add_some(const FloatBits<kX> *x, const FloatBits<kW> *w, const u8 *mask, u64 x_apart,
                                             u64 w_apart, u32 count)
    {
        double of_x[kTogether], of_w[kTogether];
        u32 in = 0;
#pragma unroll
        for (u32 k = 0; k < kTogether; k++) {
            const bool is = k < count;
            of_x[k] = is ? Float<kX>::value(x[k * x_apart]) : 0;
            of_w[k] = is ? Float<kW>::value(w[k * w_apart]) : 0;
            in |= is && (!mask || mask[k * x_apart]) ? 1u << k : 0;
        }
        this->add(of_x, of_w, in);
    }
    // ... where none can be left out
    __device__ __forceinline__ void add_each(const FloatBits<kX> *x, const FloatBits<kW> *w, u64 x_apart, u64 w_apart)
    {
        double of_x[kTogether], of_w[kTogether];
#pragma unroll
        for (int k = 0; k < kTogether; k++) {
            of_x[k] = Float<kX>::value(x[k * x_apart]);
            of_w[k] = Float<kW>::value(w[k * w_apart]);
        }
        this->add_all(of_x, of_w);
    }
    // Elements from, from + step, ... of the line that are not masked out.
    __device__ __forceinline__ void walk(const rp_parts &parts, const rk_line &line, u64 from, u32 step)
    {
        const u64 x_apart = line.stride * step, w_apart = apart * step;
        const FloatBits<kX> *x = (const FloatBits<kX> *)parts.elements + line.first + from * line.stride;
        const FloatBits<kW> *w = (const FloatBits<kW> *)weights + from * apart;
        const u8 *mask = parts.mask ? parts.mask + line.first + from * line.stride : NULL;
        const bool all = !mask && !this->skip && !this->drops;
        u64 i = from;
        for (; i + (kTogether - 1) * (u64)step < line.n; i += (u64)kTogether * step) {
            if (all)
                add_each(x, w, x_apart, w_apart);
            else
                add_some(x, w, mask, x_apart, w_apart, kTogether);
            n += kTogether;
            x += kTogether * x_apart;
            w += kTogether * w_apart;
            mask = mask ? mask + kTogether * x_apart : NULL;
        }
        if (i < line.n) {
            const u32 left = (u32)((line.n - i - 1) / step) + 1;
            add_some(x, w, mask, x_apart, w_apart, left);
            n += kTogether; // the others are left out
        }
    }
    __device__ __forceinline__ void join(u32 lanes)
    {
        joined = this->sums();
        joined.join_lanes((int)lanes);
        for (u32 d = lanes / 2; d; d /= 2) {
            n += __shfl_xor_sync(kFullMask, n, d);
            this->skipped |= __shfl_xor_sync(kFullMask, this->skipped, d);
        }
    }
    __device__ __forceinline__ Line line() const { return {joined, n, this->skipped}; }
};

template <int kX, int kW, class Pairs> __device__ __forceinline__ void open_line(PairWalk<kX, kW, Pairs> &x, const rp_spec &s,
                                                                                 const rp_parts &parts, const rk_line &line)
{
    x.open(s, parts, line);
}
template <int kX, int kW, class Pairs> __device__ __forceinline__ void
walk_groups(PairWalk<kX, kW, Pairs> &x, const rp_parts &parts, const rk_line &line, u64 from, u32 step, const Lanes &)
{
    x.walk(parts, line, from, step);
}

template <int kX, int kW, class Pairs> struct VectorWalk<PairWalk<kX, kW, Pairs>> {
    const rp_parts &parts;
    const rk_line &line;
    u32 step;

    __device__ __forceinline__ VectorWalk(const rp_parts &p, const rk_line &l, u32 walkers, const Lanes &)
        : parts(p), line(l), step(walkers)
    {
    }
    __device__ __forceinline__ void add_all(PairWalk<kX, kW, Pairs> &x, u64 from) const { x.walk(parts, line, from, step); }
};

// Whole rows of whole vectors that have the same weights: lanes go through kRowsBeside rows together, and read, convert and
// sum a weight once for them. No pair is left out. w.turns is kRowsBeside, and there are as many lanes at least.
template <int kX, int kW, class Pairs> __global__ void __launch_bounds__(kWalkThreads, 3)
    walk_rows_beside(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                     const __grid_constant__ WalkArgs w, u64 *list)
{
    constexpr int kPer = 16 / Float<kX>::kBytes, kPerBeside = 16 / Float<kW>::kBytes; // of a vector
    const u32 lanes = w.lanes, lane = threadIdx.x % lanes;
    const u64 turn = kWarp / lanes * kRowsBeside; // rows of a warp at once
    const u64 warp = ((u64)blockIdx.x * kWalkThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kWalkThreads / kWarp);
    const u64 vectors = a.spec.row_len / kPer;
    for (u64 from = warp * turn; from < w.lines; from += warps * turn) {
        const u64 first = from + threadIdx.x % kWarp / lanes * kRowsBeside;
        Pairs of[kRowsBeside];
        const uint4 *x[kRowsBeside];
#pragma unroll
        for (u32 r = 0; r < kRowsBeside; r++) {
            of[r].clear(false, false);
            x[r] = (const uint4 *)w.parts.elements + (w.first_line + min(first + r, w.lines - 1)) * vectors;
        }
        uint4 next[kRowsBeside]; // they come while others are added
        const auto load = [&](u64 v) {
#pragma unroll
            for (u32 r = 0; r < kRowsBeside; r++)
                next[r] = load_vector(x[r] + min(v, vectors - 1));
        };
        load(lane);
        for (u64 v = lane; v < vectors; v += lanes) {
            uint4 loaded[kRowsBeside];
#pragma unroll
            for (u32 r = 0; r < kRowsBeside; r++)
                loaded[r] = next[r];
            load(v + lanes);
            double beside[kPer], elements[kPer];
#pragma unroll
            for (int k = 0; k < kPer; k += kPerBeside)
                each_element<Float<kW>::kBytes>(((const uint4 *)w.parts.weights)[(v * kPer + k) / kPerBeside],
                                                [&](FloatBits<kW> bits, int e) { beside[k + e] = Float<kW>::value(bits); });
#pragma unroll
            for (u32 r = 0; r < kRowsBeside; r++) {
                each_element<Float<kX>::kBytes>(loaded[r],
                                                [&](FloatBits<kX> bits, int e) { elements[e] = Float<kX>::value(bits); });
                if (r == 0)
                    of[r].template add_all<true>(elements, beside);
                else
                    of[r].template add_all<false>(elements, beside);
            }
        }
        PairLine<Pairs> mine;
#pragma unroll
        for (u32 r = 0; r < kRowsBeside; r++) {
            of[r].take_weights(of[0]);
            PairLine<Pairs> line = {of[r].sums(), a.spec.row_len, 0};
            line.sums.join_lanes((int)lanes);
            if (lane == r)
                mine = line;
        }
        if (lane < kRowsBeside && first + lane < w.lines)
            finish_or_list(mine, a, g, w.first_line + first + lane, list);
    }
}

template <int kX, int kW, class Pairs> WalkFn near_pair_walk(NearShape shape)
{
    return shape == kNearBeside ? walk_rows_beside<kX, kW, Pairs> : near_walk<PairWalk<kX, kW, Pairs>>(shape);
}

} // namespace rk
