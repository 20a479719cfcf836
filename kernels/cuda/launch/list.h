// Lists of arrays: one result of all of them, or one of each, in a few launches.
#pragma once

#include "kernels/cuda/launch/launch.h"
#include "kernels/stream.h"

namespace rk {

// Can it compute this? `spec`: of one row, or as many as there are arrays.
bool lists_on_device(const rp_spec &spec);

struct List {
    const rk_array *arrays;
    u64 n;
    // NULL: the list is of the host, and read at once. Else it is of the device, and has `most` elements at most: with more of
    // them all arrays count as empty, and *too_many becomes the first array that is too much, if it is not lower.
    u32 *too_many;
    u64 most;
};

// As chain_launch; `t` is without data.
cudaError_t list_launch(Device *d, const ChainTask &t, const List &list, void *scratch, size_t bytes, cudaStream_t stream);

} // namespace rk
