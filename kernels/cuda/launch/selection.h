// Order statistics of a task on device memory.
#pragma once

#include "kernels/cuda/launch/launch.h"

namespace rk {

// Can chain_launch compute this order statistic? Not of segments, nor of columns and rows in runs whose lines are longer than
// fits into scratch.
bool selects_on_device(const rp_spec &spec);

// To say why a line has no result: what is found of it (select.h: found_words of a cell's values), device-accessible memory.
cudaError_t select_one_line(Device *d, const ChainTask &task, u64 line, void *scratch, size_t bytes, cudaStream_t stream,
                            u64 *found);

} // namespace rk
