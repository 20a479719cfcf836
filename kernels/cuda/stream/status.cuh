// What a launch tells its caller, on the device.
#pragma once

#include "kernels/cuda/launch/launch.h"
#include "kernels/stream.h"

namespace rk {

// In front of a workspace's scratch. All are kNoFault between calls.
struct Head {
    u32 fault;    // as in ChainTask
    u32 nobody;   // the same of calls without a status
    u32 too_many; // of a list of the device (launch/list.h)
};

// The launches before it went over results `first` and following ones, and lowered head->fault. Tell it, if no earlier result
// is reported there, and clear it. `failure`: the code; 0: none of them could fail.
cudaError_t tell_status(Head *head, rk_stream_status *status, int failure, u64 first, cudaStream_t stream);

// After that, of a list of the device: if it had too many elements, the status gets this instead.
cudaError_t tell_too_many(Head *head, rk_stream_status *status, int code, cudaStream_t stream);

} // namespace rk
