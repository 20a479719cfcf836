// unroll8-warp: the last 64 elements are added by one warp, without block barriers. (unroll 8 and last warp)
//
// The idea       once 32 threads are left they are one warp: nobody else has to wait for them.
// What it fixes  the last six barriers of a block, and with them the divergence inside the last warp.
// What is wrong  the upper levels are a loop with a bound that is only known at run time.
//
// The notes let the 32 lanes read and write a volatile array, trusting that a warp moves in lockstep. Since Volta each
// lane has its own program counter, so that is a race. Registers and __shfl_down_sync, which names the lanes that meet,
// are right everywhere, and touch no memory either.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T> __global__ void unroll8_warp(T *data, size_t n, Out<T> out)
{
    const unsigned tid = threadIdx.x;
    const size_t first = (size_t)blockIdx.x * blockDim.x * 8;
    const unsigned size = part_of(n, first, blockDim.x);
    T *x = data + first;
    T sum = sum_of_strided<8>(x, n - first, tid, blockDim.x);
    if (tid < size)
        x[tid] = sum;
    __syncthreads();
    for (unsigned stride = first_stride(size); stride > kWarp; stride /= 2) {
        if (tid < stride && tid + stride < size)
            x[tid] += x[tid + stride];
        __syncthreads();
    }
    if (tid < kWarp) {
        sum = sum_of_strided<2>(x, size < 2 * kWarp ? size : 2 * kWarp, tid, kWarp);
        sum = warp_sum(sum);
        if (tid == 0)
            out.put(blockIdx.x, sum);
    }
}

LADDER_LAUNCH(unroll8_warp, 0)

} // namespace ladder
