// atomic: one thread an element, one atomicAdd an element. (naive_reduction)
//
// The idea       let the hardware serialise the additions: correct with any n, any grid, no barrier.
// What is wrong  one address. Its L2 slice carries out the additions one after another, so the time is N times what one
//                takes there, whatever the number of SMs. For int32 the compiler may join the adds of a warp into one
//                (a reduction over the warp, then a single atomic), and the hardware the rest; floats show the bare cost.
//                The sum of floats also depends on the order of arrival, which differs from run to run.
#include "kernels/ladder/ladder.cuh"

namespace ladder {

template <class T> __global__ void atomic(const T *data, size_t n, Out<T> sum)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(sum.to, data[i]);
}

LADDER_LAUNCH(atomic, 0)

} // namespace ladder
