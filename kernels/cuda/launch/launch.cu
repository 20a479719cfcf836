// A task's way into the table of routes.
#include "kernels/cuda/launch/launch.h"

#include "kernels/cuda/launch/routes.h"

namespace rk {

cudaError_t chain_launch(Device *d, const ChainTask &task, void *scratch, size_t scratch_bytes, cudaStream_t stream,
                         const char **route)
{
    ChainTask t = task;
    t.spec = simplest(task.spec);
    return take_route(d, t, {scratch, scratch_bytes}, stream, route);
}

} // namespace rk
