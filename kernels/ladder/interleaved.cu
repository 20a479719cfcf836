// interleaved: the stride halves, so adjacent threads add adjacent elements. (reduce_kernel v2, strided_reduction,
// reduceInterleaved)
//
// The idea       thread tid adds x[tid + stride] to x[tid]: a warp reads and writes two runs of adjacent elements.
// What it fixes  coalescing: each sector that is moved is used whole. No divergence down to the last five levels.
// What is wrong  half of the threads only ever load; each level still goes through global memory (L1 and L2 help), and
//                the input is spent.
//
// The notes want a block of 2^k full elements. Beginning at the largest power of two below the elements that are there
// makes one step of any number, and all others as in the notes.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T> __global__ void interleaved(T *data, size_t n, Out<T> out)
{
    const unsigned tid = threadIdx.x;
    const size_t first = (size_t)blockIdx.x * blockDim.x;
    const unsigned size = part_of(n, first, blockDim.x);
    T *x = data + first;
    for (unsigned stride = first_stride(size); stride > 0; stride /= 2) {
        if (tid < stride && tid + stride < size)
            x[tid] += x[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        out.put(blockIdx.x, x[0]);
}

LADDER_LAUNCH(interleaved, 0)

} // namespace ladder
