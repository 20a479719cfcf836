// segment-atomic: each block reduces its segment as first-add-shared does and adds the result to one accumulator.
// (segmented smem_reduction)
//
// The idea       the grid is the only thing that grows with n: one launch, no partials, no second pass.
// What it fixes  the launch (or the copy to the host) that finished the partials.
// What is wrong  the accumulator must be cleared before, and a float sum depends on the order in which blocks arrive:
//                run it twice and the last bits may differ. The tree is what it was.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T> __global__ void segment_atomic(const T *data, size_t n, Out<T> sum)
{
    T *x = shared_elements<T>();
    const unsigned tid = threadIdx.x;
    const size_t segment = (size_t)blockIdx.x * blockDim.x * 2, i = segment + tid;
    T low = i < n ? data[i] : 0, high = i + blockDim.x < n ? data[i + blockDim.x] : 0;
    x[tid] = low + high;
    __syncthreads();
    for (unsigned stride = first_stride(blockDim.x); stride > 0; stride /= 2) {
        if (tid < stride && tid + stride < blockDim.x)
            x[tid] += x[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        atomicAdd(sum.to, x[0]);
}

LADDER_LAUNCH(segment_atomic, l.block * sizeof(T))

} // namespace ladder
