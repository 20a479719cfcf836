// Histograms of lines: pass/bins_args.h says how.
#pragma once

#include "kernels/cuda/launch/select_lines.h"

namespace rk {

// Words of counts of a line.
inline u64 bins_slots(const rp_spec &s) { return (u64)s.n_edges + 2; }

// Count, to bins_slots words of each line. Scratch has a word for each edge, and need not be zero. `bounds`: as of ChainTask.
cudaError_t bins_launch(Device *d, const rp_spec &s, const uint64_t *bounds, const LineSet &lines, u64 *counts, void *scratch,
                        cudaStream_t stream);

// ... to the cells of the task's lines from `first` on.
cudaError_t bins_finish(Device *d, const rp_spec &s, u64 first, u64 lines, const u64 *counts, u64 *cells, u32 *fault,
                        cudaStream_t stream);

} // namespace rk
