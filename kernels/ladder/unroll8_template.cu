// unroll8-template: the block's size is a template parameter. (reduceCompleteUnroll<>)
//
// The idea       the compiler sees each comparison of the block's size as true or false: levels that a block does not
//                have disappear with their barriers, and a kernel for each size is compiled.
// What it fixes  the comparisons of unroll8-complete.
// What is wrong  the tree still goes through global memory.
#include "kernels/ladder/ladder.cuh"
#include "kernels/ladder/sizes.cuh"

namespace ladder {

// One level: the upper of `2 * kStride` elements onto the lower, in blocks that have that many.
template <unsigned kBlock, unsigned kStride, class T> static __device__ void level(T *x, unsigned tid, unsigned size)
{
    if constexpr (kBlock >= 2 * kStride) {
        if (tid < kStride && tid + kStride < size)
            x[tid] += x[tid + kStride];
        __syncthreads();
    }
}

template <unsigned kBlock, class T> __global__ void unroll8_template(T *data, size_t n, Out<T> out)
{
    const unsigned tid = threadIdx.x;
    const size_t first = (size_t)blockIdx.x * kBlock * 8;
    const unsigned size = part_of(n, first, kBlock);
    T *x = data + first;
    T sum = sum_of_strided<8>(x, n - first, tid, kBlock);
    if (tid < size)
        x[tid] = sum;
    __syncthreads();
    level<kBlock, 512>(x, tid, size);
    level<kBlock, 256>(x, tid, size);
    level<kBlock, 128>(x, tid, size);
    level<kBlock, 64>(x, tid, size);
    if (tid < kWarp) {
        sum = sum_of_strided<2>(x, size < 2 * kWarp ? size : 2 * kWarp, tid, kWarp);
        sum = warp_sum(sum);
        if (tid == 0)
            out.put(blockIdx.x, sum);
    }
}

template <class T> cudaError_t launch_unroll8_template(const Launch<T> &l)
{
    return with_block_size(
        l.block, [&](auto block) { unroll8_template<block.value><<<l.grid, l.block, 0, l.stream>>>(l.data, l.n, l.out); });
}

LADDER_TYPES(unroll8_template)

} // namespace ladder
