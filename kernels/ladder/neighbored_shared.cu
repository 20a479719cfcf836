// neighbored-shared: the neighbored tree in shared memory. (reduce0)
//
// The idea       one coalesced load an element; the levels work in shared memory, which is on the SM.
// What it fixes  the scattered traffic to global memory, and the input stays as it is.
// What is wrong  the divergence and the remainder of neighbored.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T> __global__ void neighbored_shared(const T *data, size_t n, Out<T> out)
{
    T *x = shared_elements<T>();
    const unsigned tid = threadIdx.x;
    const size_t i = (size_t)blockIdx.x * blockDim.x + tid;
    x[tid] = i < n ? data[i] : 0;
    __syncthreads();
    for (unsigned stride = 1; stride < blockDim.x; stride *= 2) {
        if (tid % (2 * stride) == 0 && tid + stride < blockDim.x)
            x[tid] += x[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        out.put(blockIdx.x, x[0]);
}

LADDER_LAUNCH(neighbored_shared, l.block * sizeof(T))

} // namespace ladder
