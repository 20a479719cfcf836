// Elements: how they lie in the 16 bytes of a vector, and the forms that kernels take them in.
#pragma once

#include "kernels/cuda/pass/common.cuh"

namespace rk {

constexpr u32 kInfinite = 0xffu << 23; // magnitude of an infinity as f32; NaNs are above

// Bits and signed keys of an element of kBytes bytes.
template <int kBytes> struct Width;
template <> struct Width<1> {
    using Bits = uint8_t;
    using Key = int8_t;
};
template <> struct Width<2> {
    using Bits = uint16_t;
    using Key = int16_t;
};
template <> struct Width<4> {
    using Bits = uint32_t;
    using Key = int32_t;
};
template <> struct Width<8> {
    using Bits = u64;
    using Key = i64;
};

// f(bits, number) for each element of a vector, numbered from 0.
template <int kBytes, class F> __device__ __forceinline__ void each_element(uint4 v, F f)
{
    using Bits = typename Width<kBytes>::Bits;
    const u32 w[4] = {v.x, v.y, v.z, v.w};
    if constexpr (kBytes == 8) {
        f((Bits)((u64)w[1] << 32 | w[0]), 0);
        f((Bits)((u64)w[3] << 32 | w[2]), 1);
    } else {
        constexpr int kPerWord = 4 / kBytes;
#pragma unroll
        for (int e = 0; e < 4 * kPerWord; e++)
            f((Bits)(w[e / kPerWord] >> (8 * kBytes * (e % kPerWord))), e);
    }
}

// f32, bf16 and f16 as the bits of f32, which holds all of them exactly. get: element k of a word.
struct F32Element {
    static constexpr int kPerWord = 1;
    static __device__ __forceinline__ u32 get(u32 word, int) { return word; }
    static __device__ __forceinline__ u32 load(const void *p) { return *(const u32 *)p; }
};
struct Bf16Element {
    static constexpr int kPerWord = 2;
    static __device__ __forceinline__ u32 get(u32 word, int k) { return k ? word & 0xffff0000u : word << 16; }
    static __device__ __forceinline__ u32 load(const void *p) { return get(*(const uint16_t *)p, 0); }
};
struct F16Element {
    static constexpr int kPerWord = 2;
    static __device__ __forceinline__ u32 get(u32 word, int k)
    {
        return __float_as_uint(float_of_half((uint16_t)(k ? word >> 16 : word)));
    }
    static __device__ __forceinline__ u32 load(const void *p) { return get(*(const uint16_t *)p, 0); }
};

// For comparisons: an element's signed key, ascending except for NaNs, and the way back to the element's own bits.
struct AsF32 {
    using Bits = u32;
    using Key = int;
    static constexpr bool kAllKeys = false;
    static __device__ __forceinline__ int key(u32 bits) { return (int)(bits ^ ((u32)((int)bits >> 31) & 0x7fffffffu)); }
    static __device__ __forceinline__ u32 bits(int key) { return (u32)AsF32::key((u32)key); }
    static __device__ __forceinline__ bool nan(u32 bits) { return (bits & 0x7fffffffu) > kInfinite; }
};
struct F32 : F32Element, AsF32 {
    static __device__ __forceinline__ u64 own(u32 bits) { return bits; }
};
struct Bf16 : Bf16Element, AsF32 {
    static __device__ __forceinline__ u64 own(u32 bits) { return bits >> 16; }
};
struct F16 : F16Element, AsF32 {
    static __device__ __forceinline__ u64 own(u32 bits) { return half_of_float(__uint_as_float(bits)); }
};
struct F64 {
    using Bits = u64;
    using Key = i64;
    static constexpr bool kAllKeys = false;
    static __device__ __forceinline__ i64 key(u64 bits) { return (i64)(bits ^ ((u64)((i64)bits >> 63) >> 1)); }
    static __device__ __forceinline__ u64 bits(i64 key) { return (u64)F64::key((u64)key); }
    static __device__ __forceinline__ u64 load(const void *p) { return *(const u64 *)p; }
    static __device__ __forceinline__ u64 own(u64 bits) { return bits; }
    static __device__ __forceinline__ bool nan(u64 bits) { return bits << 1 > 0xffe0000000000000ull; }
};
template <int kDtype> struct FloatElement;
template <> struct FloatElement<RP_F16> {
    using Type = F16;
};
template <> struct FloatElement<RP_BF16> {
    using Type = Bf16;
};
template <> struct FloatElement<RP_F32> {
    using Type = F32;
};
template <> struct FloatElement<RP_F64> {
    using Type = F64;
};

} // namespace rk
