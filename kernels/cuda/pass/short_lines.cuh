// Kernels for many short lines (rows or segments): several lanes of a warp, or one, finish a line.
#pragma once

#include "kernels/cuda/pass/args.h"
#include "kernels/cuda/pass/finish.cuh"
#include "kernels/exact/line.h"

namespace rk {

// The general way along a line, by the definitions of kernels/exact/state.h: elements `from`, from + step, ... that are not
// masked out, to the state. `first_index` is the index of the line's element 0.
__device__ inline void add_line(const FinishArgs &a, const rp_parts &parts, u64 first_index, rk_line line, u64 from, u32 step,
                                rk_state *s)
{
    const int bytes = rk_bytes(a.spec.dtype);
    for (u64 i = from; i < line.n; i += step) {
        u64 at = line.first + i * line.stride;
        if (parts.mask && !parts.mask[at])
            continue;
        rk_state_add(s, rk_load(parts.elements + at * bytes, bytes), first_index + i, a.spec.nan);
    }
}

} // namespace rk
