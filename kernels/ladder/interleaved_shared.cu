// interleaved-shared: one element a thread into shared memory, then the stride halves. (reduce2)
//
// The idea       adjacent lanes use adjacent banks, so no access has to take turns.
// What it fixes  the bank conflicts of neighbored-compact-shared.
// What is wrong  half of the threads idle from the first level on, and each thread has one load in flight.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T> __global__ void interleaved_shared(const T *data, size_t n, Out<T> out)
{
    T *x = shared_elements<T>();
    const unsigned tid = threadIdx.x;
    const size_t i = (size_t)blockIdx.x * blockDim.x + tid;
    x[tid] = i < n ? data[i] : 0;
    __syncthreads();
    for (unsigned stride = first_stride(blockDim.x); stride > 0; stride /= 2) {
        if (tid < stride && tid + stride < blockDim.x)
            x[tid] += x[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        out.put(blockIdx.x, x[0]);
}

LADDER_LAUNCH(interleaved_shared, l.block * sizeof(T))

} // namespace ladder
