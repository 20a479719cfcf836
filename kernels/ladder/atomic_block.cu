// atomic-block: the block adds up its elements first, then one atomicAdd.
//
// The idea       warps leave their sums in shared memory, the first warp adds those: one barrier in all.
// What it fixes  as many atomics as blocks: few enough to disappear behind the loads.
// What is wrong  each thread has a single load in flight and then waits at the barrier: too little to keep the memory
//                busy. And floats still arrive in any order.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "kernels/ladder/ladder.cuh"

namespace ladder {
namespace cg = cooperative_groups;

template <class T> __global__ void atomic_block(const T *data, size_t n, Out<T> sum)
{
    __shared__ T of_warp[kWarp]; // a block has 32 warps at most
    auto warp = cg::tiled_partition<kWarp>(cg::this_thread_block());
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    T total = cg::reduce(warp, i < n ? data[i] : T(0), cg::plus<T>());
    if (warp.thread_rank() == 0)
        of_warp[warp.meta_group_rank()] = total;
    __syncthreads();
    if (warp.meta_group_rank() == 0) {
        total = cg::reduce(warp, threadIdx.x < warp.meta_group_size() ? of_warp[threadIdx.x] : T(0), cg::plus<T>());
        if (threadIdx.x == 0)
            atomicAdd(sum.to, total);
    }
}

LADDER_LAUNCH(atomic_block, 0)

} // namespace ladder
