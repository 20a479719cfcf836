// neighbored: each block adds up blockDim elements as a tree in global memory; the stride doubles.
// (reduce_kernel v1, blocked_reduction, SimpleSumReductionKernel, reduceNeighbored)
//
// The idea       a tree with a barrier after each level: log2 of the block's size steps, no atomics. Partials of the
//                blocks are finished afterwards.
// What is wrong  - tid % (2 * stride) leaves every second, fourth, ... thread at work: all warps stay busy with mostly
//                idle lanes (divergence). A block of 256 uses 255 of 736 thread slots, 35 %.
//                - the remainder itself is slow arithmetic.
//                - the lanes at work touch ever wider apart addresses: a 32-byte sector for each 4-byte element.
//                - every level goes through global memory, and the input is spent.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T> __global__ void neighbored(T *data, size_t n, Out<T> out)
{
    const unsigned tid = threadIdx.x;
    const size_t first = (size_t)blockIdx.x * blockDim.x;
    const unsigned size = part_of(n, first, blockDim.x);
    T *x = data + first;
    for (unsigned stride = 1; stride < size; stride *= 2) {
        if (tid % (2 * stride) == 0 && tid + stride < size)
            x[tid] += x[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        out.put(blockIdx.x, x[0]);
}

LADDER_LAUNCH(neighbored, 0)

} // namespace ladder
