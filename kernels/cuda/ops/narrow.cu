// Values in f64 to the narrower floats that a request wants (narrow_value.cuh): kernels for many lines make these alone. Lines
// whose value that does not decide are listed.
#include "kernels/cuda/pass/args.h"
#include "kernels/cuda/pass/narrow_total.cuh"

namespace rk {
namespace {

__global__ void narrow(const __grid_constant__ FinishArgs a, const u64 *wide, u64 first, u64 lines, u64 *list)
{
    wait_for_previous_pass();
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += (u64)gridDim.x * blockDim.x) {
        u64 bits;
        if (value_bits(__longlong_as_double((i64)wide[first + i]), a.spec.out, &bits))
            write_bits(a.cell_bytes, a.cells, first + i, bits);
        else
            list[1 + atomicAdd(list, 1ull)] = first + i;
    }
}

} // namespace

NarrowFn narrow_kernel() { return narrow; }

} // namespace rk
