// Device instructions without a name in CUDA C++, and dynamic shared memory. Compilers other than nvcc, which
// tests/simt uses on machines without a GPU, get the same in plain C++.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/pass/plan.h"

// A launch's dynamic shared memory as `name`, an array of T
#ifdef __NVCC__
#define RK_DYNAMIC_SHARED(T, name) extern __shared__ __align__(16) T name[]
#else
#define RK_DYNAMIC_SHARED(T, name) T *const name = (T *)simt::shared_memory()
#endif

namespace rk {

// Compute capability 9 and 10: a block may have 227 KiB of shared memory (Device::large_shared), and an SM 32 blocks. Others
// may have less.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ / 100 == 9 || __CUDA_ARCH__ / 100 == 10)
constexpr bool kLargeSm = true;
#else
constexpr bool kLargeSm = false;
#endif

// low + high * 2^64 += x
__device__ __forceinline__ void add_wide(u64 &low, u64 &high, u64 x)
{
#ifdef __NVCC__
    asm("add.cc.u64 %0, %0, %2;\n\taddc.u64 %1, %1, 0;" : "+l"(low), "+l"(high) : "l"(x));
#else
    low += x;
    high += low < x;
#endif
}

// sum += low + middle * 2^64 + high * 2^128
__device__ __forceinline__ void add_wide(u64 (&sum)[3], u64 low, u64 middle, u64 high)
{
#ifdef __NVCC__
    asm("add.cc.u64 %0, %0, %3;\n\taddc.cc.u64 %1, %1, %4;\n\taddc.u64 %2, %2, %5;"
        : "+l"(sum[0]), "+l"(sum[1]), "+l"(sum[2])
        : "l"(low), "l"(middle), "l"(high));
#else
    sum[0] += low;
    add_wide(sum[1], sum[2], sum[0] < low);
    add_wide(sum[1], sum[2], middle);
    sum[2] += high;
#endif
}

// The f32 that an f16 is, and the f16 that is next to an f32: nvcc takes 0.4 s to read cuda_fp16.h, in each unit.
__device__ __forceinline__ float float_of_half(uint16_t bits)
{
#ifdef __NVCC__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
#else
    _Float16 half;
    __builtin_memcpy(&half, &bits, sizeof half);
    return (float)half;
#endif
}

__device__ __forceinline__ uint16_t half_of_float(float x)
{
    uint16_t bits;
#ifdef __NVCC__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
    const _Float16 half = (_Float16)x;
    __builtin_memcpy(&bits, &half, sizeof half);
#endif
    return bits;
}

// n += a < b in a comparison and an addition: of C++ the compiler makes four instructions
template <class T> __device__ __forceinline__ void add_if_less(u32 &n, T a, T b)
{
#ifdef __NVCC__
    if constexpr (sizeof(T) == 8)
        asm("{.reg .pred p; setp.lt.u64 p, %1, %2; @p add.u32 %0, %0, 1;}" : "+r"(n) : "l"(a), "l"(b));
    else
        asm("{.reg .pred p; setp.lt.u32 p, %1, %2; @p add.u32 %0, %0, 1;}" : "+r"(n) : "r"(a), "r"(b));
#else
    n += a < b;
#endif
}

// min(x, 1): of C++ the compiler makes two instructions
__device__ __forceinline__ u32 one_if_any(u32 x)
{
#ifdef __NVCC__
    u32 one;
    asm("min.u32 %0, %1, 1;" : "=r"(one) : "r"(x));
    return one;
#else
    return x != 0;
#endif
}

// x * 2^29
__device__ __forceinline__ i64 times_2_29(u32 x)
{
#ifdef __NVCC__
    i64 wide;
    asm("mul.wide.s32 %0, %1, 0x20000000;" : "=l"(wide) : "r"(x));
    return wide;
#else
    return (i64)(int)x * 0x20000000;
#endif
}

// Counts to `last`, then from 0 again; returns the count before. What this thread wrote before is visible to later counters.
__device__ __forceinline__ u32 count_in_turn(u32 *count, u32 last)
{
#ifdef __NVCC__
    u32 before;
    asm volatile("atom.inc.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(count), "r"(last) : "memory");
    return before;
#else
    const u32 before = *count;
    *count = before >= last ? 0 : before + 1;
    return before;
#endif
}

// The same for blocks that need only their number: it makes no memory visible to other blocks.
__device__ __forceinline__ u32 number_in_turn(u32 *count, u32 last)
{
#ifdef __NVCC__
    return atomicInc(count, last);
#else
    return count_in_turn(count, last);
#endif
}

// Words that blocks which run at once leave for each other, 16 bytes aligned: each arrives as a whole, in any order.
__device__ __forceinline__ void leave_words(u64 *to, u64 a, u64 b)
{
#ifdef __NVCC__
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(a), "l"(b) : "memory");
#else
    to[0] = a;
    to[1] = b;
#endif
}
__device__ __forceinline__ ulonglong2 words_left(const u64 *from)
{
    ulonglong2 v;
#ifdef __NVCC__
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(from) : "memory");
#else
    v.x = from[0];
    v.y = from[1];
#endif
    return v;
}

// What this thread has read and written until here comes before what it does next, for all blocks.
__device__ __forceinline__ void fence_blocks()
{
#ifdef __NVCC__
    __threadfence();
#endif
}

// A place in shared memory as a number that stays in a register: of a pointer the compiler computes the memory's base at each
// use, which takes longer than the rest. What was counted is read behind put_before.
struct SharedPlace {
#ifdef __NVCC__
    u32 at;
    __device__ __forceinline__ explicit SharedPlace(const void *p) : at((u32)__cvta_generic_to_shared(p)) {}
    // One more, `bytes` behind this place: lanes with the same one are counted at once.
    __device__ __forceinline__ void count(u32 bytes) const { asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(at + bytes)); }
    __device__ __forceinline__ void put(u32 bytes, u32 x) const
    {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + bytes), "r"(x));
    }
    __device__ __forceinline__ void put(u32 bytes, u64 x) const
    {
        asm volatile("st.shared.u64 [%0], %1;" ::"r"(at + bytes), "l"(x));
    }
    static __device__ __forceinline__ void put_before() { asm volatile("" ::: "memory"); }
#else
    void count(u32 bytes) const { ++*(u32 *)(at + bytes); }
    template <class T> void put(u32 bytes, T x) const { *(T *)(at + bytes) = x; }
    static void put_before() {}
    uintptr_t at;
    explicit SharedPlace(void *p) : at((uintptr_t)p) {}
#endif
};

// 16 bytes from global to shared memory, which this thread may read after copies_arrived; until then it goes on. Before compute
// capability 8.0 it waits.
__device__ __forceinline__ void copy_vector(uint4 *to, const void *from)
{
#if defined __NVCC__ && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
    *to = *(const uint4 *)from;
#endif
}

// The copies since the last call are a group.
__device__ __forceinline__ void end_of_copies()
{
#if defined __NVCC__ && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for this thread's groups of copies, except the last kLater.
template <int kLater> __device__ __forceinline__ void copies_arrived()
{
#if defined __NVCC__ && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
#endif
}

// Of two f32 the lesser or the greater one, or NaN 0x7fffffff if one is a NaN; -0 < +0.
template <bool kLeast> __device__ __forceinline__ float better_float(float x, float y)
{
#if __CUDA_ARCH__ < 800
    return x != x || y != y ? __uint_as_float(0x7fffffff) : kLeast ? fminf(x, y) : fmaxf(x, y);
#elif defined(__NVCC__)
    float better;
    if constexpr (kLeast)
        asm("min.NaN.f32 %0, %1, %2;" : "=f"(better) : "f"(x), "f"(y));
    else
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(better) : "f"(x), "f"(y));
    return better;
#else
    const bool first = x < y || (x == y && __float_as_uint(x) >> 31);
    return x != x || y != y ? __uint_as_float(0x7fffffff) : first == kLeast ? x : y;
#endif
}

// The same of their bits.
template <bool kLeast> __device__ __forceinline__ u32 better_float_bits(u32 a, u32 b)
{
    return __float_as_uint(better_float<kLeast>(__uint_as_float(a), __uint_as_float(b)));
}

#if __CUDA_ARCH__ >= 800
// The same of two pairs of f16 or bf16; NaN 0x7fff.
template <bool kLeast, bool kBrain> __device__ __forceinline__ u32 better_pair(u32 a, u32 b)
{
#ifdef __NVCC__
    u32 better;
    if constexpr (kLeast && kBrain)
        asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(better) : "r"(a), "r"(b));
    else if constexpr (kLeast)
        asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(better) : "r"(a), "r"(b));
    else if constexpr (kBrain)
        asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(better) : "r"(a), "r"(b));
    else
        asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(better) : "r"(a), "r"(b));
    return better;
#else
    const int infinite = kBrain ? 0x7f80 : 0x7c00;
    auto better = [=](int x, int y) { // the bits of two, with their sign
        auto key = [](int v) { return v < 0 ? ~(v & 0x7fff) : v; };
        return (x & 0x7fff) > infinite || (y & 0x7fff) > infinite ? 0x7fff : (key(x) < key(y)) == kLeast ? x : y;
    };
    return (u32)better((int16_t)(a >> 16), (int16_t)(b >> 16)) << 16 | ((u32)better((int16_t)a, (int16_t)b) & 0xffff);
#endif
}
#endif

} // namespace rk
