// Shared by all kernels: warp primitives, raw 16-byte loads.
#pragma once

#include "kernels/cuda/pass/machine.cuh"
#include "kernels/exact/state.h"

namespace rk {

template <class T> __device__ __forceinline__ T warp_sum(T v)
{
#pragma unroll
    for (int d = kWarp / 2; d; d >>= 1)
        v += __shfl_xor_sync(kFullMask, v, d);
    return v;
}

__device__ __forceinline__ u32 warp_or(u32 v)
{
#pragma unroll
    for (int d = kWarp / 2; d; d >>= 1)
        v |= __shfl_xor_sync(kFullMask, v, d);
    return v;
}

template <class T> __device__ __forceinline__ T warp_max(T v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(kFullMask, v);
#else
#pragma unroll
    for (int d = kWarp / 2; d; d >>= 1)
        v = max(v, __shfl_xor_sync(kFullMask, v, d));
    return v;
#endif
}

__device__ __forceinline__ u32 warp_min(u32 v) { return ~warp_max(~v); }

__device__ __forceinline__ u32 warp_and(u32 v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_and_sync(kFullMask, v);
#else
    return ~warp_or(~v);
#endif
}

// Modulo 2^32
__device__ __forceinline__ u32 warp_add(u32 v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(kFullMask, v);
#else
    return warp_sum(v);
#endif
}

// This thread's group of `lanes` lanes, a power of two, as a mask of its warp.
__device__ inline u32 group_mask(u32 lanes)
{
    return lanes == kWarp ? kFullMask : ((1u << lanes) - 1) << (threadIdx.x % kWarp & ~(lanes - 1));
}

// The contribution of v * 2^offset to base-2^32 digit j. The top digit it reaches keeps the sign.
__device__ __forceinline__ i64 digit_of(i64 v, int offset, int j)
{
    int k = j - (offset >> 5), s = offset & 31;
    u64 low = (u64)(u32)v << s;
    i64 high = (v >> 32) * ((i64)1 << s) + (i64)(low >> 32); // |v >> 32| < 2^31, so this fits
    return k == 0 ? (i64)(u32)low : k == 1 ? (i64)(u32)high : k == 2 ? high >> 32 : 0;
}

// The last two words of a partial: `elements` went by, `skipped` NaNs among them. One thread.
__device__ __forceinline__ void write_tail(u64 *tail, u64 elements, u64 skipped, u32 flags)
{
    tail[kWordCount] = elements - skipped;
    tail[kWordFlags] = flags | (skipped ? (u32)kFlagSkipped : 0u);
}

// Streaming load: every byte of the input is read once, so it need not stay in L1.
__device__ __forceinline__ uint4 load_vector(const uint4 *p) { return __ldcs(p); }

// The previous kernel of the chain has finished writing: needed when launches overlap (programmatic dependent launch).
__device__ __forceinline__ void wait_for_previous_pass()
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

// Once every block has come here, the next kernel of the chain is brought up, to wait in wait_for_previous_pass.
__device__ __forceinline__ void let_next_pass_start()
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

} // namespace rk
