// Reductions by key in the caller's stream.
#include "kernels/cuda/launch/keyed.h"
#include "kernels/cuda/pass/keyed_args.h"
#include "kernels/cuda/stream/opened.h"

namespace rk {
namespace {

__global__ void tell_keyed(const KeyedHead *head, rk_stream_status *status, int failure, int wrong)
{
    if (head->wrong != RP_NO_INDEX)
        *status = {wrong, 0, head->wrong};
    else if (head->fault != kNoFault)
        *status = {failure, 0, head->fault};
    else
        *status = {0, 0, RP_NO_INDEX};
}

cudaError_t launch(rk_stream *s, const rk_keyed_launch &l, cudaStream_t stream)
{
    TRY_CUDA(keyed_launch(&s->device, l, stream));
    return l.status
               ? gpu_launch(false, tell_keyed, 1, 1, 0, stream, (const KeyedHead *)l.workspace, l.status, l.failure, l.wrong)
               : cudaSuccess;
}

} // namespace
} // namespace rk

using namespace rk;

extern "C" bool rk_stream_has_keyed(const rp_spec *s) { return keyed_on_device(*s); }

extern "C" size_t rk_stream_keyed_bytes(const rp_spec *s, uint64_t groups) { return keyed_bytes(*s, groups); }

extern "C" int rk_stream_keyed(rk_stream *s, const rk_keyed_launch *l, void *stream)
{
    return launch(s, *l, (cudaStream_t)stream);
}

extern "C" int rk_stream_rehearse_keyed(rk_stream *s, const rk_keyed_launch *l)
{
    return rehearse([=](cudaStream_t stream) { return launch(s, *l, stream); });
}
