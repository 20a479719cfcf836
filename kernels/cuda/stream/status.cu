#include "kernels/cuda/stream/status.cuh"

namespace rk {
namespace {

__global__ void tell_kernel(Head *head, rk_stream_status *status, int failure, u64 first)
{
    const u32 fault = head->fault;
    head->fault = kNoFault;
    if (fault == kNoFault || status->code != 0)
        return;
    status->code = failure;
    status->index = first + fault;
}

} // namespace

cudaError_t tell_status(Head *head, rk_stream_status *status, int failure, u64 first, cudaStream_t stream)
{
    return gpu_launch(false, tell_kernel, 1, 1, 0, stream, head, status, failure, first);
}

} // namespace rk
