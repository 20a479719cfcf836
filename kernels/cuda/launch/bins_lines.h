// Histograms of lines: pass/bins_args.h says how.
#pragma once

#include "kernels/cuda/launch/select_lines.h"

namespace rk {

// Words of counts of a line.
inline u64 bins_slots(const rp_spec &s) { return (u64)s.n_edges + 2; }

// Bytes of scratch that it takes.
u64 bins_scratch(const rp_spec &s);

// Enqueue all of it, for `lines` lines from the task's line `first` on. `counts`: bins_slots of each line, room for which it is.
// Scratch is aligned to 256, and need not be zero.
cudaError_t bins_launch(Device *d, const rp_spec &s, const LineSet &lines, u64 *counts, void *scratch, cudaStream_t stream);
cudaError_t bins_finish(Device *d, const rp_spec &s, u64 first, u64 lines, const u64 *counts, u64 *cells, u32 *fault,
                        cudaStream_t stream);

} // namespace rk
