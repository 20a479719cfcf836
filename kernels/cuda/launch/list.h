// Lists of arrays: one result of all of them, or one of each, in a few launches.
#pragma once

#include "kernels/cuda/launch/launch.h"
#include "kernels/stream.h"

namespace rk {

// Can it compute this? `spec`: of one row, or as many as there are arrays.
bool lists_on_device(const rp_spec &spec);

// As chain_launch; `t` is without data. The list is read at once.
cudaError_t list_launch(Device *d, const ChainTask &t, const rk_array *arrays, u64 n, void *scratch, size_t bytes,
                        cudaStream_t stream);

} // namespace rk
