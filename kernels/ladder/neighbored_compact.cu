// neighbored-compact: the same additions, done by the first threads of the block. (reduceNeighboredLess)
//
// The idea       thread tid adds the pair at 2 * stride * tid: the threads at work are adjacent whatever the stride.
// What it fixes  the divergence: whole warps are busy or whole warps are idle, down to the last five levels.
// What is wrong  the addresses are as far apart as before: the loads of a warp stay scattered over memory.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T> __global__ void neighbored_compact(T *data, size_t n, Out<T> out)
{
    const unsigned tid = threadIdx.x;
    const size_t first = (size_t)blockIdx.x * blockDim.x;
    const unsigned size = part_of(n, first, blockDim.x);
    T *x = data + first;
    for (unsigned stride = 1; stride < size; stride *= 2) {
        unsigned index = 2 * stride * tid; // at most 2 * 1023 * 1023
        if (index + stride < size)
            x[index] += x[index + stride];
        __syncthreads();
    }
    if (tid == 0)
        out.put(blockIdx.x, x[0]);
}

LADDER_LAUNCH(neighbored_compact, 0)

} // namespace ladder
