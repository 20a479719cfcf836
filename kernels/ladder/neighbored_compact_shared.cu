// neighbored-compact-shared: the compact tree in shared memory. (reduce1)
//
// The idea       as neighbored-shared, with the threads at work adjacent.
// What it fixes  divergence and scattered global traffic at once.
// What is wrong  bank conflicts: shared memory has 32 banks of 4 bytes, and lanes that are 2 * stride elements apart
//                meet in the same bank: 2 of them at stride 1, 4 at stride 2, up to all 32 at stride 16 and beyond.
//                Their accesses take turns.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T> __global__ void neighbored_compact_shared(const T *data, size_t n, Out<T> out)
{
    T *x = shared_elements<T>();
    const unsigned tid = threadIdx.x;
    const size_t i = (size_t)blockIdx.x * blockDim.x + tid;
    x[tid] = i < n ? data[i] : 0;
    __syncthreads();
    for (unsigned stride = 1; stride < blockDim.x; stride *= 2) {
        unsigned index = 2 * stride * tid;
        if (index + stride < blockDim.x)
            x[index] += x[index + stride];
        __syncthreads();
    }
    if (tid == 0)
        out.put(blockIdx.x, x[0]);
}

LADDER_LAUNCH(neighbored_compact_shared, l.block * sizeof(T))

} // namespace ladder
