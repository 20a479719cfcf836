// atomic-warp: the warp adds up its 32 elements first, then one atomicAdd. (the cooperative-groups variant)
//
// The idea       a warp can add among its lanes without memory: cg::reduce is five shuffle steps for floats and for
//                int32 one instruction (REDUX, compute capability 8.0 and later).
// What it fixes  32 times fewer atomics on the one address.
// What is wrong  still N/32 of them, one after another.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "kernels/ladder/ladder.cuh"

namespace ladder {
namespace cg = cooperative_groups;

template <class T> __global__ void atomic_warp(const T *data, size_t n, Out<T> sum)
{
    auto warp = cg::tiled_partition<kWarp>(cg::this_thread_block());
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    T total = cg::reduce(warp, i < n ? data[i] : T(0), cg::plus<T>());
    if (warp.thread_rank() == 0)
        atomicAdd(sum.to, total);
}

LADDER_LAUNCH(atomic_warp, 0)

} // namespace ladder
