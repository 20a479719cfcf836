// unroll2, unroll4, unroll8: each block takes 2, 4 or 8 data blocks; a thread adds its element of each of them, then
// the interleaved tree in place. (reduceUnrolling2, 4, 8)
//
// The idea       memory answers after hundreds of cycles, so what counts is how many loads a thread has under way before
//                it waits (memory-level parallelism). Loads written out side by side do not depend on one another.
// What it fixes  the bandwidth: from about half of what the memory can do towards all of it, and 8 times fewer blocks,
//                trees and partials.
// What is wrong  the first level is written back to global memory, where the whole tree then happens; the last five
//                levels keep the block at a barrier for the work of one warp.
//
// The notes add only where all kBlocks elements exist and lose the rest if n is not a multiple. Each load here has
// its own guard, which is a predicate, no branch.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T, unsigned kBlocks> __global__ void unroll(T *data, size_t n, Out<T> out)
{
    const unsigned tid = threadIdx.x;
    const size_t first = (size_t)blockIdx.x * blockDim.x * kBlocks;
    const unsigned size = part_of(n, first, blockDim.x);
    T *x = data + first;
    T sum = sum_of_strided<kBlocks>(x, n - first, tid, blockDim.x);
    if (tid < size)
        x[tid] = sum;
    __syncthreads();
    for (unsigned stride = first_stride(size); stride > 0; stride /= 2) {
        if (tid < stride && tid + stride < size)
            x[tid] += x[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        out.put(blockIdx.x, x[0]);
}

template <class T, unsigned kBlocks> static cudaError_t launch(const Launch<T> &l)
{
    unroll<T, kBlocks><<<l.grid, l.block, 0, l.stream>>>(l.data, l.n, l.out);
    return cudaGetLastError();
}

template <class T> cudaError_t launch_unroll2(const Launch<T> &l) { return launch<T, 2>(l); }
template <class T> cudaError_t launch_unroll4(const Launch<T> &l) { return launch<T, 4>(l); }
template <class T> cudaError_t launch_unroll8(const Launch<T> &l) { return launch<T, 8>(l); }

LADDER_TYPES(unroll2)
LADDER_TYPES(unroll4)
LADDER_TYPES(unroll8)

} // namespace ladder
