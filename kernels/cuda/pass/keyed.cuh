// What kernels of reductions by key read and mark (keyed_args.h).
#pragma once

#include "kernels/cuda/pass/common.cuh"
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

// The group of an element, or a.groups: it is left out.
__device__ __forceinline__ u64 group_of(const KeyedArgs &a, u32 key_bytes, u64 i)
{
    if (a.mask && !a.mask[i])
        return a.groups;
    u64 key = bits_at(a.keys, key_bytes, i);
    const bool is_signed = rk_is_signed(a.key_dtype);
    if (is_signed)
        key = rk_sign_extend(key, (int)key_bytes);
    if (key < a.groups)
        return key;
    if (!a.drop_outside && !(a.drop_negative && is_signed && (i64)key < 0))
        atomicMin(&a.head->wrong, i);
    return a.groups;
}

} // namespace rk
