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

// After tell_kernel: the results were made of nothing.
__global__ void tell_too_many_kernel(Head *head, rk_stream_status *status, int code)
{
    if (head->too_many == kNoFault)
        return;
    *status = {code, 0, head->too_many};
    head->too_many = kNoFault;
}

} // namespace

cudaError_t tell_too_many(Head *head, rk_stream_status *status, int code, cudaStream_t stream)
{
    return gpu_launch(false, tell_too_many_kernel, 1, 1, 0, stream, head, status, code);
}

cudaError_t tell_status(Head *head, rk_stream_status *status, int failure, u64 first, cudaStream_t stream)
{
    return gpu_launch(false, tell_kernel, 1, 1, 0, stream, head, status, failure, first);
}

} // namespace rk
