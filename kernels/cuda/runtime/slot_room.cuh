// Memory of a slot for what few tasks need: tables of groups, weights that lie at odd addresses.
#pragma once

#include "kernels/cuda/runtime/slot.cuh"

namespace rk {

// It grows to what a task needs, and stays until the pool is trimmed.
cudaError_t slot_open_room(TaskSlot *s, u64 bytes);

} // namespace rk
