// Small tasks that share a launch: the device's side of kernels/engine/batch.c.
#pragma once

#include "kernels/cuda/device/cuda_device.h"
#include "kernels/engine/engine.h"

namespace rk {

struct BatchMemory;

// The resources of a batch, one at a time in each. They are opened with the engine, so that a batch allocates nothing.
struct BatchFlight {
    cudaStream_t stream;
    BatchMemory *memory; // pinned: both sides read and write it, nothing is copied
    u32 launch;          // number of the last launch
    u32 units, seen;     // of the last launch; of these, seen to be done
    cudaError_t error;   // of launching
};

// On error everything is closed again.
cudaError_t batch_open(BatchFlight *f);
void batch_close(BatchFlight *f);
size_t batch_pinned_bytes();

// Is it short work for a few blocks? Its size is the front's business.
bool batch_fits(const rk_task *t);

// Launch the tasks, linked by `next`, on the current device. What goes wrong is kept for batch_landed.
void batch_launch(BatchFlight *f, const rk_task *tasks);

// cudaSuccess once all are done, cudaErrorNotReady until then. `closely`: look for errors of the device, too.
cudaError_t batch_landed(BatchFlight *f, bool closely);

// Then: hand the cells to the tasks, and fill times and faults.
void batch_finish(BatchFlight *f, rk_task *tasks);

} // namespace rk
