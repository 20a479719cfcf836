// Columns by vectors: a thread has the columns of a vector of 16 bytes and reads several of their rows at a time. Rows begin
// with whole vectors.
//
// A block has w.width vectors side by side, a power of two, and for each of them w.team threads that share its rows. Blocks go
// through all columns, then to the next team of each.
#pragma once

#include "kernels/cuda/pass/lines.cuh"

namespace rk {

// A thread's place.
struct ColumnPlace {
    u64 number; // of its first column in this launch
    u32 team, row;
    bool own;          // are there such columns?
    const uint8_t *at; // its first vector
    u64 jump;          // bytes from there to the next
    u64 rows;          // of the thread
    u64 of_team;       // of the team

    __device__ __forceinline__ ColumnPlace(const FinishArgs &a, const WalkArgs &w, u32 bytes)
    {
        const u32 per = 16 / bytes, side = threadIdx.x & (w.width - 1);
        const u64 across = (w.lines + w.width * per - 1) / (w.width * per);
        row = threadIdx.x / w.width;
        team = (u32)(blockIdx.x / across);
        number = (blockIdx.x % across * w.width + side) * per;
        own = number < w.lines;
        rows = 0;
        // A thread writes the cell of another one's column: so those without columns know this, too.
        const u64 n = a.spec.rows, before = (u64)team * w.team, rest = n % w.walkers;
        of_team = n / w.walkers * w.team + (rest > before ? min(rest - before, (u64)w.team) : 0);
        if (!own)
            return;
        const rk_line line = rk_line_of(&a.spec, w.parts.offsets, w.first_line + number);
        const u64 from = before + row;
        jump = w.walkers * line.stride * bytes;
        at = w.parts.elements + (line.first + from * line.stride) * bytes;
        rows = from < n ? (n - from + w.walkers - 1) / w.walkers : 0;
    }

    // add(tile, left, at) for kColumnRows rows at a time, of which the first `left` count; the others repeat the last row.
    template <class Add> __device__ __forceinline__ void each_tile(Add add) const
    {
        const uint8_t *p = at;
        u64 left = rows;
        uint4 tile[kColumnRows];
        for (; left >= kColumnRows; left -= kColumnRows, p += kColumnRows * jump) {
#pragma unroll
            for (int u = 0; u < kColumnRows; u++)
                tile[u] = load_vector((const uint4 *)(p + u * jump));
            add(tile, kColumnRows, p);
        }
        if (left) {
#pragma unroll
            for (int u = 0; u < kColumnRows; u++)
                tile[u] = load_vector((const uint4 *)(p + min((u64)u, left - 1) * jump));
            add(tile, (u32)left, p);
        }
    }
};

// Has the Walker add_columns(x, tile), which adds a whole tile to those of its columns at once?
template <class Walker> constexpr bool kAddsColumns = false;

// The columns of any Walker (lines.cuh). kLight: as in walk_lines.
template <bool kLight, class Walker> __global__ void __launch_bounds__(kColumnThreads)
    walk_vector_columns(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                        const __grid_constant__ WalkArgs w, u64 *partials)
{
    using Bits = typename Walker::Bits;
    constexpr int kBytes = sizeof(Bits), kPer = 16 / kBytes;
    __shared__ __align__(16) unsigned char space[kColumnThreads * sizeof(Walker)]; // a Walker has no constructor to run
    Walker *meeting = (Walker *)space, x[kPer];
    let_next_pass_start();
    const ColumnPlace at(a, w, kBytes);
#pragma unroll
    for (int c = 0; c < kPer; c++)
        x[c].init(NULL, g);
    u64 index = (u64)at.team * w.team + at.row;
    at.each_tile([&](const uint4(&tile)[kColumnRows], u32 left, const uint8_t *) {
        if constexpr (kAddsColumns<Walker>) { // rows that are repeated do not matter
            Walker::add_columns(x, tile);
        } else {
#pragma unroll
            for (int k = 0; k < kColumnRows; k++) {
                if (k < left)
                    each_element<kBytes>(tile[k], [&](Bits bits, int c) { x[c].add(bits, index); });
                index += w.walkers;
            }
        }
    });
    // Lanes of a warp that have the same columns join; then a warp's lanes join what `groups` of them have left.
    const u32 lane = threadIdx.x % kWarp, wide = min(w.width, (u32)kWarp);
    const u32 groups = kColumnThreads / max(w.width, (u32)kWarp), left = groups * w.width;
    const bool leads = lane < wide;
    const u32 place = (threadIdx.x & (w.width - 1)) * groups + threadIdx.x / max(w.width, (u32)kWarp);
    const u32 column = threadIdx.x / groups, group = threadIdx.x & (groups - 1);
    const u64 across = (w.lines + w.width * kPer - 1) / (w.width * kPer);
    const u64 first = (blockIdx.x % across * w.width + column) * kPer;
#pragma unroll
    for (int c = 0; c < kPer; c++) {
        Walker mine = x[c];
        for (u32 d = kWarp / 2; d >= wide; d /= 2)
            mine.join_lane(kFullMask, d);
        if (groups > 1) {
            if (leads)
                meeting[place] = mine;
            __syncthreads();
            if (threadIdx.x < left)
                mine = meeting[threadIdx.x];
            for (u32 d = groups / 2; d; d /= 2)
                mine.join_lane(kFullMask, d);
            __syncthreads();
        }
        Share s = {first + c, at.team, {0, 1, 0}};
        if (threadIdx.x >= left || group || s.number >= w.lines)
            continue;
        if constexpr (kLight) {
            if (w.values) {
                finish_walk(mine, a, w.first_line + s.number, at.of_team);
                continue;
            }
        }
        u64 *out = partial_of(a, w, partials, s);
        for (u32 j = 0; j < a.plan.all; j++)
            out[j] = word_of(mine, g, a.plan.own, at.of_team, j);
    }
}

} // namespace rk
