// first-add-shared: each thread adds two elements as it loads them, then the shared-memory tree. (reduce_kernel v3,
// smem_reduction)
//
// The idea       the first level of the tree costs nothing where the loads are: half as many blocks, and no thread that
//                only loads.
// What it fixes  the half of the threads that idled in the first level; two loads in flight for each thread.
// What is wrong  still a barrier a level for 2 * blockDim elements.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T> __global__ void first_add_shared(const T *data, size_t n, Out<T> out)
{
    T *x = shared_elements<T>();
    const unsigned tid = threadIdx.x;
    const size_t i = (size_t)blockIdx.x * blockDim.x * 2 + tid;
    T low = i < n ? data[i] : 0, high = i + blockDim.x < n ? data[i + blockDim.x] : 0;
    x[tid] = low + high;
    __syncthreads();
    for (unsigned stride = first_stride(blockDim.x); stride > 0; stride /= 2) {
        if (tid < stride && tid + stride < blockDim.x)
            x[tid] += x[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        out.put(blockIdx.x, x[0]);
}

LADDER_LAUNCH(first_add_shared, l.block * sizeof(T))

} // namespace ladder
