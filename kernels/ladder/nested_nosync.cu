// nested-nosync: the recursion without the waits. (gpuRecursiveReduceNosync)
//
// The idea       the parent needs nothing from its child, so why wait: the blocks' recursions run side by side.
// What it fixes  the turns that the blocks of each of nested's grids take.
// What is wrong  as many launches as before, most of them of grids that are smaller than a warp.
//
// In the notes thread 0 launches the child without any barrier, before other warps of its block may have added:
// a race. The barrier is cheap; it was the wait for the child that cost.
#include "kernels/ladder/ladder.cuh"
#include "kernels/ladder/nested.cuh"

namespace ladder {

// As nested, see there.
template <class T> __global__ void nested_nosync(T *data, size_t n, unsigned segment, unsigned number, Out<T> out)
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
    __syncthreads();
    if (tid == 0)
        nested_nosync<<<1, stride, 0, cudaStreamFireAndForget>>>(x, stride, stride, number, out);
}

template <class T> cudaError_t launch_nested_nosync(const Launch<T> &l)
{
    // a grid has not ended before those that it launched: a block's ten levels may all have a place at once
    return in_slices(l, 16, [&](T *data, size_t n, unsigned grid, unsigned number, cudaStream_t stream) {
        nested_nosync<<<grid, l.block, 0, stream>>>(data, n, l.block, number, l.out);
    });
}

LADDER_TYPES(nested_nosync)

} // namespace ladder
