// coarsened: each thread adds up kCoarse elements in a register, then the shared-memory tree. (reduce_kernel v4,
// coarse_reduction)
//
// The idea       blocks that would have to queue for the SMs anyway are better merged into one: C * log N steps, a
//                barrier in each, become 2 (C - 1) additions without any and log N steps.
// What it fixes  the share of barriers and idle threads: one tree for kCoarse * blockDim elements.
// What is wrong  the loop adds as it loads; how many loads are in flight is up to the compiler. unroll says it itself.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

constexpr unsigned kCoarse = 4; // the notes' COARSE_FACTOR; per_thread in rungs.def

template <class T> __global__ void coarsened(const T *data, size_t n, Out<T> out)
{
    T *x = shared_elements<T>();
    const unsigned tid = threadIdx.x;
    size_t i = (size_t)blockIdx.x * blockDim.x * kCoarse + tid;
    T sum = 0;
    for (unsigned k = 0; k < kCoarse && i < n; k++, i += blockDim.x)
        sum += data[i];
    x[tid] = sum;
    __syncthreads();
    for (unsigned stride = first_stride(blockDim.x); stride > 0; stride /= 2) {
        if (tid < stride && tid + stride < blockDim.x)
            x[tid] += x[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        out.put(blockIdx.x, x[0]);
}

LADDER_LAUNCH(coarsened, l.block * sizeof(T))

} // namespace ladder
