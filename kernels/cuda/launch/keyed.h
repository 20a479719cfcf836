// Reductions by key: one result for each group of elements that have its key.
#pragma once

#include "kernels/cuda/device/cuda_device.h"
#include "kernels/stream.h"

namespace rk {

// Is there a kernel for this? `spec`: a row for each group.
bool keyed_on_device(const rp_spec &spec);

// Bytes of workspace for `groups` groups, which may have any contents
size_t keyed_bytes(const rp_spec &spec, u64 groups);

cudaError_t keyed_launch(Device *d, const rk_keyed_launch &l, cudaStream_t stream);

// After that, while the workspace is as it was left: the state of one group to l.cells, of any operation.
cudaError_t keyed_state(Device *d, const rk_keyed_launch &l, u64 group, cudaStream_t stream);

} // namespace rk
