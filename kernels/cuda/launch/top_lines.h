// The largest and the smallest elements of lines: pass/top_args.h says how.
#pragma once

#include "kernels/cuda/launch/select_lines.h"

namespace rk {

// Of one task. Pointers are the device's.
struct TopTask {
    LineSet lines;
    const rp_spec *spec;
    u64 first; // the task's line that is the first of these
    void *cells;
    u32 *fault;
    u64 *bad; // not NULL: no cells, but why the first line has none (FinishTop)
};

// Enqueue all of it: no host round trip in between. Scratch is aligned to 256, and need not be zero.
cudaError_t top_launch(Device *d, const TopTask &t, void *scratch, u64 bytes, cudaStream_t stream);

} // namespace rk
