// The general way: a thread walks along a line of elements - a row, a segment, a column, masked or not - and adds them one
// by one to a state of its own, by the definitions of kernels/state.h. Serves every operation, type and shape that no
// faster kernel takes, and many short lines, where a thread a line is the best there is.
//
// Long lines get several walkers, which take every walkers-th element: neighbouring threads read neighbouring elements.
// One walker a line finishes it; several leave partials, which the merging passes join.
#pragma once

#include "kernels/cuda/rows.cuh"

namespace rk {

constexpr int kWalkThreads = 128;          // of a block, or fewer if their states are large
constexpr size_t kWalkShared = 48u << 10; // bytes: what every device gives a block without asking

struct WalkArgs {
    rp_parts parts;
    u64 first_index;  // index of a line's element 0
    u64 first_line;   // the lines of this launch: first_line .. first_line + lines
    u64 lines;
    u64 longest;      // longer lines are passed over
    u32 walkers;      // of a line
    u32 state_words;  // of shared memory for one thread: state, and with one walker scratch behind it
    u32 scratch_at;   // where the scratch begins
};

__global__ void walk_lines(const __grid_constant__ FinishArgs a, const __grid_constant__ WalkArgs w, u64 *partials)
{
    extern __shared__ u64 states[];
    u64 *mine = states + threadIdx.x * w.state_words;
    rk_state *s = (rk_state *)mine;
    const u64 threads = w.lines * w.walkers, stride = (u64)gridDim.x * blockDim.x;
    const bool columns = a.spec.flags & RP_COLUMNS;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < threads; i += stride) {
        u64 line = columns ? i % w.lines : i / w.walkers;
        u32 walker = (u32)(columns ? i / w.lines : i % w.walkers);
        const rk_line l = rk_line_of(&a.spec, w.parts.offsets, w.first_line + line);
        if (l.n > w.longest)
            continue; // another kernel's
        walk_line(a, w.parts, w.first_index, l, walker, w.walkers, s);
        if (w.walkers == 1) {
            write_cell(a, w.first_line + line, *s, (uint64_t *)(mine + w.scratch_at));
            continue;
        }
        u64 *out = partials + (line * w.walkers + walker) * a.plan.all;
        for (u32 j = 0; j < a.plan.all; j++)
            out[j] = word_of_state(a.plan, mine[0], s->count, s->limb, j);
    }
}

} // namespace rk
