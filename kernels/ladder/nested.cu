// nested: a kernel that calls itself: each block adds one level and launches a grid for the next. (gpuRecursiveReduce)
//
// The idea       dynamic parallelism: the recursion of the CPU rung as it stands, without the host in between.
// What is wrong  a launch costs a microsecond and more, and here is one for every level of every block: 8 * 8192 of them
//                for 2^22 elements in blocks of 512. Half of the threads of each grid only wait.
//
// In the notes the parent calls cudaDeviceSynchronize() to wait for its child. Device code has no such call any more
// (CUDA 12, compute capability 9.0; CUDA 13, all). What the wait said is now said by the stream: a tail launch starts
// when the grid that made it, all of its blocks, has ended, and tail launches of one grid run one after another. So the
// blocks of a grid take turns, each with its whole recursion; and there are several grids, in streams side by side.
#include "kernels/ladder/ladder.cuh"
#include "kernels/ladder/nested.cuh"

namespace ladder {

// Block b of the grid adds elements [b * segment, (b + 1) * segment) of the n at `data`; its result has number
// `number` + b.
template <class T> __global__ void nested(T *data, size_t n, unsigned segment, unsigned number, Out<T> out)
{
    const unsigned tid = threadIdx.x;
    const size_t first = (size_t)blockIdx.x * segment;
    const unsigned size = part_of(n, first, segment);
    T *x = data + first;
    number += blockIdx.x;
    if (size <= 2) {
        if (tid == 0)
            out.put(number, size == 2 ? x[0] + x[1] : x[0]);
        return;
    }
    const unsigned stride = (size + 1) / 2;
    if (tid + stride < size)
        x[tid] += x[tid + stride];
    __syncthreads(); // the child sees what its launching thread sees: after the barrier, the whole block's sums
    if (tid == 0)
        nested<<<1, stride, 0, cudaStreamTailLaunch>>>(x, stride, stride, number, out);
}

template <class T> cudaError_t launch_nested(const Launch<T> &l)
{
    return in_slices(l, 2, [&](T *data, size_t n, unsigned grid, unsigned number, cudaStream_t stream) {
        nested<<<grid, l.block, 0, stream>>>(data, n, l.block, number, l.out);
    });
}

LADDER_TYPES(nested)

} // namespace ladder
