// Columns of floats by walking down them, whatever their number and alignment.
#pragma once

#include "kernels/cuda/pass/float_walk.cuh"

namespace rk {

// Columns: a block has w.width of them, side by side, and a team of its threads shares each one's rows. Blocks go through all
// columns, then to the next team of each.
template <class Walker> __global__ void __launch_bounds__(kColumnThreads)
    walk_columns(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                 const __grid_constant__ WalkArgs w, u64 *out)
{
    using Line = typename Walker::Line;
    __shared__ __align__(16) unsigned char space[kColumnThreads * sizeof(Line)]; // a Line has no constructor to run
    Line *lines = (Line *)space, *mine = lines + threadIdx.x;
    const u32 column = threadIdx.x % w.width, row = threadIdx.x / w.width;
    const u64 across = (w.lines + w.width - 1) / w.width;
    Share s = {blockIdx.x % across * w.width + column, (u32)(blockIdx.x / across), {0, 1, 0}};
    const bool own = s.number < w.lines && row < w.team;
    if (own)
        s.line = rk_line_of(&a.spec, w.parts.offsets, w.first_line + s.number);
    Walker x;
    x.init(a.plan, g.skip);
    open_line(x, a.spec, w.parts, s.line);
    walk_groups(x, w.parts, s.line, s.team * w.team + row, w.walkers, {1, 1u << threadIdx.x % kWarp});
    x.join(1);
    *mine = x.line();
    for (u32 left = w.team, half; left > 1; left = half) {
        half = (left + 1) / 2;
        __syncthreads();
        if (row + half < left)
            mine->join(mine[half * w.width]);
    }
    __syncthreads();
    if (!own)
        return;
    if (w.values) {
        if (row == 0)
            finish_or_list(*mine, a, g, w.first_line + s.number, out);
        return;
    }
    if constexpr (!Walker::kValueAlone)
        for (u32 j = row; j < a.plan.all; j += w.team)
            partial_of(a, w, out, s)[j] = lines[column].word(a.plan, g, j);
}

} // namespace rk
