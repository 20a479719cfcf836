#include "kernels/cuda/stream/status.cuh"

namespace rk {
namespace {

__global__ void tell_kernel(Head *head, rk_stream_status *status, int failure, u64 first)
{
    const u32 fault = failure ? head->fault : kNoFault;
    if (failure)
        head->fault = kNoFault;
    if (first == 0)
        *status = {0, 0, RP_NO_INDEX};
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
