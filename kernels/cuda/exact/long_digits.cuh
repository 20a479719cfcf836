// A long accumulator of a block in shared memory, in carry-save digits: right for any data, and slow where many threads meet.
#pragma once

#include "kernels/cuda/pass/common.cuh"

namespace rk {

// Digits of base 2^32 in two halves, for shared memory adds 32 bits at once, but 64 by a loop that ends when no other lane came
// between.
template <int kDigits> struct LongDigits {
    u32 low[kDigits], high[kDigits];

    // Whole block. The caller waits for it.
    __device__ __forceinline__ void clear()
    {
        for (u32 j = threadIdx.x; j < kDigits; j += blockDim.x)
            low[j] = high[j] = 0;
    }
    __device__ __forceinline__ i64 digit(int j) const { return (i64)((u64)high[j] << 32 | low[j]); }

    // Word j of `n` digits from `at` on. It hands each digit's upper half to the next one, so that 2^30 partials can be added
    // before they carry.
    __device__ __forceinline__ u64 word(int at, int n, int j) const
    {
        const i64 d = digit(at + j);
        return (u64)((j == n - 1 ? d : (i64)(u32)d) + (j ? digit(at + j - 1) >> 32 : 0));
    }

    // To digits side by side, from digit j on. Those of what is added are all there.
    template <int kCount> __device__ __forceinline__ void add(int j, const u64 (&v)[kCount])
    {
        u32 before[kCount];
#pragma unroll
        for (int i = 0; i < kCount; i++)
            before[i] = atomicAdd(&low[j + i], (u32)v[i]);
#pragma unroll
        for (int i = 0; i < kCount; i++)
            if (const u32 upper_half = (u32)(v[i] >> 32) + (before[i] + (u32)v[i] < before[i]))
                atomicAdd(&high[j + i], upper_half);
    }

    // Digit i of v * 2^shift, shift < 32; v: digits of 32 bits
    template <int kCount> static __device__ __forceinline__ u32 shifted(const u32 (&v)[kCount], int i, int shift)
    {
        return (u32)(((u64)(i < kCount ? v[i] : 0) << 32 | (i ? v[i - 1] : 0)) << shift >> 32);
    }
    // Digits from `at` on += or -= v * 2^offset
    template <int kCount> __device__ __forceinline__ void add(int at, int offset, const u32 (&v)[kCount], bool negative)
    {
        u64 part[kCount + 1];
#pragma unroll
        for (int i = 0; i <= kCount; i++) {
            const u64 p = shifted(v, i, offset & 31);
            part[i] = negative ? 0 - p : p;
        }
        add(at + (offset >> 5), part);
    }
    __device__ __forceinline__ void add(int at, int offset, u64 m, bool negative)
    {
        const u32 v[2] = {(u32)m, (u32)(m >> 32)};
        add(at, offset, v, negative);
    }
    __device__ __forceinline__ void add(int at, int offset, unsigned __int128 m, bool negative)
    {
        const u32 v[4] = {(u32)m, (u32)(m >> 32), (u32)(m >> 64), (u32)(m >> 96)};
        add(at, offset, v, negative);
    }
};

} // namespace rk
