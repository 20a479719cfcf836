// Memory on the device beside the slots: resident data, and what other processes exported.
#pragma once

#include "kernels/cuda/pass/plan.h"
#include "kernels/engine/engine.h"

namespace rk {

// m->bytes of zeros on the current device. Waits for them.
cudaError_t memory_new(rk_memory *m);

// The allocation of another process behind a cudaIpcMemHandle_t: base and bytes are set. An error of the handle leaves the
// context in order.
cudaError_t memory_open(const uint8_t *handle, rk_memory *m);

// All m->bytes of the allocation of cuMemCreate behind a descriptor, which stays the caller's: base is set.
// cudaErrorInvalidResourceHandle: it is not of this device, or not of that size; the context is in order.
cudaError_t memory_import(int fd, rk_memory *m);

// All of it to (`out`) or from the host. Waits.
cudaError_t memory_copy(const rk_memory *m, void *host, bool out);

cudaError_t memory_close(rk_memory *m);

} // namespace rk
