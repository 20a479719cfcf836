// Selects one of a few values in registers.
#pragma once

#include "kernels/cuda/pass/common.cuh"

namespace rk {

// x[i], by selections: an index that is known late only would put all of x into local memory.
template <class T, int kCount> __device__ __forceinline__ T chosen(const T (&x)[kCount], int i)
{
    T v = x[0];
#pragma unroll
    for (int k = 1; k < kCount; k++)
        v = k == i ? x[k] : v;
    return v;
}

} // namespace rk
