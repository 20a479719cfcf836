// nested-fixed: one child grid for each level of all blocks, with as many threads as have something to add.
// (gpuRecursiveReduceFixed)
//
// The idea       the blocks descend together: thread 0 of block 0 launches the next level for everybody.
// What it fixes  the number of launches: log2 of the block's size, whatever n is; and the idle half of the threads.
// What is wrong  each level is a grid of its own that reads and writes global memory: neighbored does the same with a
//                barrier for a microsecond's launch.
//
// In the notes the child may start before other blocks of its parent have added: a race. A tail launch starts
// when the whole parent grid has ended, which is exactly what this needs.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

// Block b owns elements [b * segment, (b + 1) * segment); the first `live` of them are still to be added up.
template <class T> __global__ void nested_fixed(T *data, size_t n, unsigned segment, unsigned live, Out<T> out)
{
    const unsigned tid = threadIdx.x;
    const size_t first = (size_t)blockIdx.x * segment;
    const unsigned size = part_of(n, first, live), stride = (live + 1) / 2;
    T *x = data + first;
    if (tid + stride < size)
        x[tid] += x[tid + stride];
    if (stride == 1) { // thread 0 has just added the last two
        if (tid == 0)
            out.put(blockIdx.x, x[0]);
    } else if (blockIdx.x == 0 && tid == 0) {
        nested_fixed<<<gridDim.x, (stride + 1) / 2, 0, cudaStreamTailLaunch>>>(data, n, segment, stride, out);
    }
}

template <class T> cudaError_t launch_nested_fixed(const Launch<T> &l)
{
    nested_fixed<<<l.grid, l.block / 2, 0, l.stream>>>(l.data, l.n, l.block, l.block, l.out);
    return cudaGetLastError();
}

LADDER_TYPES(nested_fixed)

} // namespace ladder
