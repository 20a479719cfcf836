// unroll8-template-shared: eight elements a thread into a register, the tree in shared memory, block size known to the
// compiler. (reduceCompleteUnrollShared<>, the notes' fastest)
//
// The idea       everything above together: loads in flight, no traffic but the input itself, no barrier too many.
// What it fixes  the write-back of the first level and the tree's global traffic; the input stays as it is.
// What is wrong  - a thread loads 4 bytes at a time; 16-byte loads would need a quarter of the instructions.
//                - the grid grows with n: each block pays for its tree and its launch after only 8 elements a thread. A
//                  grid that just fills the card and strides through the input pays once.
//                - floats are rounded at every addition: chain, the top rung, gives the exact sum.
#include "kernels/ladder/ladder.cuh"
#include "kernels/ladder/sizes.cuh"

namespace ladder {

template <unsigned kBlock, unsigned kStride, class T> static __device__ void level(T *x, unsigned tid)
{
    if constexpr (kBlock >= 2 * kStride) {
        if (tid < kStride)
            x[tid] += x[tid + kStride];
        __syncthreads();
    }
}

template <unsigned kBlock, class T> __global__ void unroll8_template_shared(const T *data, size_t n, Out<T> out)
{
    T *x = shared_elements<T>();
    const unsigned tid = threadIdx.x;
    const size_t first = (size_t)blockIdx.x * kBlock * 8;
    T sum = sum_of_strided<8>(data + first, n - first, tid, kBlock);
    x[tid] = sum;
    __syncthreads();
    level<kBlock, 512>(x, tid);
    level<kBlock, 256>(x, tid);
    level<kBlock, 128>(x, tid);
    level<kBlock, 64>(x, tid);
    if (tid < kWarp) {
        sum = sum_of_strided<2>(x, kBlock < 2 * kWarp ? kBlock : 2 * kWarp, tid, kWarp);
        sum = warp_sum(sum);
        if (tid == 0)
            out.put(blockIdx.x, sum);
    }
}

template <class T> cudaError_t launch_unroll8_template_shared(const Launch<T> &l)
{
    return with_block_size(l.block, [&](auto block) {
        unroll8_template_shared<block.value><<<l.grid, l.block, l.block * sizeof(T), l.stream>>>(l.data, l.n, l.out);
    });
}

LADDER_TYPES(unroll8_template_shared)

} // namespace ladder
