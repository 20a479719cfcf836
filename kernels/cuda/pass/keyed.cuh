// What kernels of reductions by key read and mark (keyed_args.h).
#pragma once

#include "kernels/cuda/pass/common.cuh"
#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/keyed_args.h"

namespace rk {

__device__ __forceinline__ u64 bits_at(const u8 *data, u32 bytes, u64 i)
{
    return bytes == 8   ? ((const u64 *)data)[i]
           : bytes == 4 ? ((const u32 *)data)[i]
           : bytes == 2 ? ((const uint16_t *)data)[i]
                        : data[i];
}

__device__ __forceinline__ void raise_flag(const KeyedArgs &a, u64 key, u32 flag)
{
    if (~a.flags[key] & flag) // most have it
        atomicOr(&a.flags[key], flag);
}

template <bool kLongKeys> __device__ __forceinline__ u64 key_at(const KeyedArgs &a, u64 i)
{
    return kLongKeys ? ((const u64 *)a.keys)[i] : bits_at(a.keys, (u32)rk_bytes(a.key_dtype), i);
}

// The group of element i, which has this key, or a.groups: it is left out.
template <bool kLongKeys> __device__ __forceinline__ u64 group_of(const KeyedArgs &a, u64 key, u64 i)
{
    const bool is_signed = rk_is_signed(a.key_dtype);
    if (!kLongKeys && is_signed)
        key = rk_sign_extend(key, rk_bytes(a.key_dtype));
    if (key < a.groups)
        return key;
    if (!a.drop_outside && !(a.drop_negative && is_signed && (i64)key < 0))
        atomicMin(&a.head->wrong, i);
    return a.groups;
}

// An element as it lies there, and what the kernels of its kind add: floats of 16 bits as f32.
template <KeyedKind kKind> __device__ __forceinline__ u64 raw_at(const KeyedArgs &a, u64 i)
{
    if constexpr (kKind == kKeyedDouble || kKind == kKeyedLong || kKind == kKeyedWideSquares)
        return ((const u64 *)a.data)[i];
    else if constexpr (kKind == kKeyedFloat)
        return a.dtype == RP_F32 ? ((const u32 *)a.data)[i] : ((const uint16_t *)a.data)[i];
    else
        return kKind == kKeyedCount && !rk_is_float(a.dtype) ? 0 : bits_at(a.data, (u32)rk_bytes(a.dtype), i);
}
template <KeyedKind kKind> __device__ __forceinline__ u64 bits_of(const KeyedArgs &a, u64 raw)
{
    if constexpr (kKind == kKeyedSquares) {
        if (!rk_is_float(a.dtype))
            return raw;
    }
    if constexpr (kKind == kKeyedFloat || kKind == kKeyedSquares)
        return a.dtype == RP_F32 ? raw : a.dtype == RP_BF16 ? (u32)raw << 16 : F16Element::get((u32)raw, 0);
    else
        return raw;
}

// Elements i, i + step, ... below n: all are on their way before one is looked at.
template <class T> __device__ __forceinline__ void load_some_of(const T *data, u64 i, u64 step, u64 n, u64 (&v)[kKeyedAtOnce])
{
#pragma unroll
    for (int k = 0; k < kKeyedAtOnce; k++)
        v[k] = i + k * step < n ? data[i + k * step] : 0;
}
__device__ __forceinline__ void load_some(const u8 *data, int bytes, u64 i, u64 step, u64 n, u64 (&v)[kKeyedAtOnce])
{
    if (bytes == 8)
        load_some_of((const u64 *)data, i, step, n, v);
    else if (bytes == 4)
        load_some_of((const u32 *)data, i, step, n, v);
    else if (bytes == 2)
        load_some_of((const uint16_t *)data, i, step, n, v);
    else
        load_some_of(data, i, step, n, v);
}

// f(group, i, bits) of each element that takes part, a NaN too. By all threads of a grid.
template <class F> __device__ __forceinline__ void each_of_groups(const KeyedArgs &a, F f)
{
    const u64 step = (u64)gridDim.x * kKeyedThreads;
    for (u64 first = (u64)blockIdx.x * kKeyedThreads + threadIdx.x; first < a.n; first += kKeyedAtOnce * step) {
        u64 keys[kKeyedAtOnce], bits[kKeyedAtOnce];
        load_some(a.keys, rk_bytes(a.key_dtype), first, step, a.n, keys);
        load_some(a.data, rk_bytes(a.dtype), first, step, a.n, bits);
#pragma unroll
        for (int k = 0; k < kKeyedAtOnce; k++) {
            const u64 i = first + k * step;
            const u64 group = i < a.n && (!a.mask || a.mask[i]) ? group_of<false>(a, keys[k], i) : a.groups;
            if (group < a.groups)
                f(group, i, a.dtype == RP_BOOL ? bits[k] != 0 : bits[k]);
        }
    }
}

__device__ __forceinline__ bool is_left_out(const KeyedArgs &a, u64 bits)
{
    return a.nan != RP_NAN_PROPAGATE && rk_is_nan(a.dtype, bits);
}

// f(group) of each group of this thread. By all threads of a grid.
template <class F> __device__ __forceinline__ void each_group(const KeyedArgs &a, F f)
{
    const u64 threads = (u64)gridDim.x * kFinishThreads;
    for (u64 group = (u64)blockIdx.x * kFinishThreads + threadIdx.x; group < a.groups; group += threads)
        f(group);
}

} // namespace rk
