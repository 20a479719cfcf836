// Kernels of a CUDA engine without a GPU: the engine's runtime (kernels/cuda/runtime) as it is, on the calls of
// tests/faults/cudart.c, with the processor for the kernels. So answers are right, and what the runtime does when a call fails
// can be seen in the answers. A launch computes at once; whether it is done its events say.
#include "kernels/cuda/launch/keyed.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/engine/engine.h"
#include "tests/faults/cudart.h"

namespace rk {
namespace {

// "Launched": the device's code is elsewhere. Its address names it.
void chain_kernel(const ChainTask *) {}

void run_chain(const ChainTask &c)
{
    rk_task t = {};
    rp_parts beside = {};
    beside.mask = c.mask;
    beside.weights = c.weights;
    t.spec = c.spec;
    t.data = c.data;
    t.beside = &beside;
    t.base = c.base;
    t.cells = c.cells;
    t.bounds = c.bounds;
    rk_cpu_run(&t);
    if (t.fault.code != RP_OK)
        *c.fault = (u32)t.fault.index;
}

} // namespace

size_t chain_scratch_bytes() { return 4096; }

cudaError_t chain_scratch_clear(void *scratch, cudaStream_t stream)
{
    return gpu_clear(scratch, chain_scratch_bytes(), stream);
}

// Of order statistics those of which no line is to be explained; others are for the CPU.
bool selects_on_device(const rp_spec &s)
{
    const bool is_float = rp_dtype_class(s.dtype) == RP_CLASS_FLOAT;
    if (s.op == RP_OP_MEDIAN)
        return s.nan == RP_NAN_PROPAGATE;
    return s.nan != RP_NAN_ERROR && (s.op == RP_OP_HISTOGRAM || (rp_is_top(s.op) && is_float));
}

// By key the helper CPU reduces.
bool keyed_on_device(const rp_spec &) { return false; }
size_t keyed_bytes(const rp_spec &, u64) { return 0; }
cudaError_t keyed_launch(Device *, const rk_keyed_launch &, cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t keyed_state(Device *, const rk_keyed_launch &, u64, cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t select_one_line(Device *, const ChainTask &, u64, void *, size_t, cudaStream_t, u64 *)
{
    return cudaErrorNotSupported;
}

cudaError_t chain_launch(Device *d, const ChainTask &t, void *, size_t, cudaStream_t stream, const char **route)
{
    *route = "of the test";
    int blocks;
    TRY_CUDA(device_blocks_per_sm(d, (const void *)chain_kernel, kWarp, 0, &blocks));
    return gpu_launch(false, chain_kernel, 1, kWarp, 0, stream, &t);
}

} // namespace rk

void t_kernel(const void *f, void **args)
{
    if (f == (const void *)rk::chain_kernel)
        rk::run_chain(**(const rk::ChainTask **)args[0]);
}
