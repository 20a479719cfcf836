// Rows and segments of floats by walking along them, a team for each line, to values: sums with a bound on what they do not
// hold, products. A line whose value that leaves in doubt is listed.
#pragma once

#include "kernels/cuda/pass/walk_columns.cuh"

namespace rk {

// Some lanes of a warp for a line. Each finishes one: what takes longest is done for all of them at once.
template <class Walker> __global__ void __launch_bounds__(kWalkThreads, Walker::kBlocksPerSm)
    walk_near(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g, const __grid_constant__ WalkArgs w,
              u64 *list)
{
    const u32 lanes = w.lanes, lane = threadIdx.x % lanes, lines = kWarp / lanes; // of a warp at once
    const Lanes team = {lanes, group_mask(lanes)};
    const u64 turn = (u64)lines * w.turns;
    const u64 warp = ((u64)blockIdx.x * kWalkThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kWalkThreads / kWarp);
    for (u64 first = warp * turn; first < w.lines; first += warps * turn) {
        typename Walker::Line mine;
        u64 number = RP_NO_INDEX; // of the line in `mine`
        for (u32 t = 0; t < w.turns; t++) {
            const u64 i = first + t * lines + threadIdx.x % kWarp / lanes, at = w.first_line + min(i, w.lines - 1);
            rk_line line = rk_line_of(&a.spec, w.parts.offsets, at);
            const bool own = i < w.lines && line.n <= w.longest;
            line.n = own ? line.n : 0;
            Walker x;
            x.init(a.plan, g.skip);
            open_line(x, a.spec, w.parts, line);
            VectorWalk<Walker>(w.parts, line, lanes, team).add_all(x, lane);
            x.join(lanes);
            if (own && lane == t) {
                mine = x.line();
                number = at;
            }
        }
        if (number != RP_NO_INDEX)
            finish_or_list(mine, a, g, number, list);
    }
}

// A block for a line.
template <class Walker> __global__ void __launch_bounds__(kColumnThreads, 2)
    walk_near_long(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                   const __grid_constant__ WalkArgs w, u64 *list)
{
    using Line = typename Walker::Line;
    constexpr u32 kWarps = kColumnThreads / kWarp;
    __shared__ __align__(16) unsigned char space[kWarps * sizeof(Line)]; // a Line has no constructor to run
    Line *of_warp = (Line *)space;
    for (u64 i = blockIdx.x; i < w.lines; i += gridDim.x) {
        const rk_line line = rk_line_of(&a.spec, w.parts.offsets, w.first_line + i);
        if (line.n > w.longest)
            continue; // another kernel's
        Walker x;
        x.init(a.plan, g.skip);
        open_line(x, a.spec, w.parts, line);
        VectorWalk<Walker>(w.parts, line, kColumnThreads, {kWarp, kFullMask}).add_all(x, threadIdx.x);
        x.join(kWarp);
        __syncthreads(); // the line before is finished
        if (threadIdx.x % kWarp == 0)
            of_warp[threadIdx.x / kWarp] = x.line();
        __syncthreads();
        if (threadIdx.x)
            continue;
        Line all = of_warp[0];
        for (u32 k = 1; k < kWarps; k++)
            all.join(of_warp[k]);
        finish_or_list(all, a, g, w.first_line + i, list);
    }
}

// By the shape of the lines
template <class Walker> WalkFn near_walk(NearShape shape)
{
    return shape == kNearColumns ? walk_columns<Walker> : shape == kNearBlock ? walk_near_long<Walker> : walk_near<Walker>;
}

} // namespace rk
