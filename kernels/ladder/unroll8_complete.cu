// unroll8-complete: the tree written out, a line for each level that a block can have. (reduceCompleteUnrollWarps8)
//
// The idea       a block has 1024 threads at most, so there are at most ten levels: no loop, no stride to compute.
// What it fixes  the loop's counter and branch.
// What is wrong  each line asks for the block's size again, at run time, although it never changes.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T> __global__ void unroll8_complete(T *data, size_t n, Out<T> out)
{
    const unsigned tid = threadIdx.x;
    const size_t first = (size_t)blockIdx.x * blockDim.x * 8;
    const unsigned size = part_of(n, first, blockDim.x);
    T *x = data + first;
    T sum = sum_of_strided<8>(x, n - first, tid, blockDim.x);
    if (tid < size)
        x[tid] = sum;
    __syncthreads();
    if (blockDim.x >= 1024 && tid < 512 && tid + 512 < size)
        x[tid] += x[tid + 512];
    __syncthreads();
    if (blockDim.x >= 512 && tid < 256 && tid + 256 < size)
        x[tid] += x[tid + 256];
    __syncthreads();
    if (blockDim.x >= 256 && tid < 128 && tid + 128 < size)
        x[tid] += x[tid + 128];
    __syncthreads();
    if (blockDim.x >= 128 && tid < 64 && tid + 64 < size)
        x[tid] += x[tid + 64];
    __syncthreads();
    if (tid < kWarp) {
        sum = sum_of_strided<2>(x, size < 2 * kWarp ? size : 2 * kWarp, tid, kWarp);
        sum = warp_sum(sum);
        if (tid == 0)
            out.put(blockIdx.x, sum);
    }
}

LADDER_LAUNCH(unroll8_complete, 0)

} // namespace ladder
