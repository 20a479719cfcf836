// The CUDA kernels as C++ for a machine without a GPU, included before all else: what CUDA C++ has beyond C++. Each thread of
// a block is a fiber. It runs until it waits for others, at a barrier or in a warp's instruction; so between two of these no
// thread interrupts another. The blocks of a launch come one after the other, launches too. simt.cu has the fibers.
//
// An error ends the program: a thread that others wait for does not come, threads of a block or lanes of a warp wait for
// different things, a lane asks for another's value that is not in the mask.
#pragma once

#include <cuda_runtime.h>

#include <xmmintrin.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#define __CUDACC__
#define __CUDA_ARCH__ (10 * SIMT_ARCH)
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __grid_constant__
#undef __launch_bounds__
#undef __forceinline__
#undef __noinline__
#undef __align__
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__
#define __align__(n) __attribute__((aligned(n)))

namespace simt {

enum What { kShfl, kShflXor, kBallot, kMax, kAnd, kAdd, kMeet, kNames };

void *shared_memory();
// A warp's instruction: the value for this lane, once each lane of the mask has come. `from`: a lane, or what to xor with.
uint64_t warp(What what, unsigned mask, uint64_t value, unsigned from);
// A block's barrier: whether one of its threads has `any`.
bool barrier(bool any, bool asks);
void launch(dim3 grid, dim3 block, size_t shared, const void *kernel, const std::function<void()> &body);

template <class T> T shuffled(What what, unsigned mask, T v, unsigned from)
{
    static_assert(sizeof v <= 8);
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = warp(what, mask, bits, from);
    memcpy(&v, &bits, sizeof v);
    return v;
}

// The launch ends before this does, so its arguments are captured by reference. g++ 12 with -ftrivial-auto-var-init clears
// bytes of structs that a lambda captures by value.
template <class... Params, class... Args>
cudaError_t launch_kernel(const cudaLaunchConfig_t *c, void (*fn)(Params...), Args... args)
{
    launch(c->gridDim, c->blockDim, c->dynamicSmemBytes, (const void *)fn, [&] { fn(args...); });
    return cudaSuccess;
}

// f(x, y) rounded by these bits of the processor's control register.
template <class To = double, class F> To rounded(unsigned mode, double x, double y, F f)
{
    const unsigned before = _mm_getcsr();
    volatile double a = x, b = y;
    _mm_setcsr((before & ~_MM_ROUND_MASK) | mode);
    volatile To v = f(a, b);
    _mm_setcsr(before);
    return v;
}
inline double add_rounded(unsigned mode, double x, double y)
{
    return rounded(mode, x, y, [](double a, double b) { return a + b; });
}
inline double fma_rounded(unsigned mode, double x, double y, double z)
{
    return rounded(mode, x, y, [=](double a, double b) {
        volatile double c = z;
        return fma(a, b, c);
    });
}

template <class To, class From> To same_bits(From x)
{
    static_assert(sizeof(To) == sizeof(From));
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}

} // namespace simt

#define cudaLaunchKernelEx ::simt::launch_kernel
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// ---- threads that meet ----
inline void __syncthreads() { simt::barrier(false, false); }
inline int __syncthreads_or(int any) { return simt::barrier(any != 0, true); }
inline void __syncwarp(unsigned mask = ~0u) { simt::warp(simt::kMeet, mask, 0, 0); }
inline unsigned __ballot_sync(unsigned mask, int x) { return (unsigned)simt::warp(simt::kBallot, mask, x != 0, 0); }
inline int __any_sync(unsigned mask, int x) { return __ballot_sync(mask, x) != 0; }
template <class T> unsigned __match_any_sync(unsigned mask, T v)
{
    unsigned same = mask;
    for (unsigned bit = 0; bit < 8 * sizeof v; bit++) {
        const unsigned set = __ballot_sync(mask, v >> bit & 1);
        same &= v >> bit & 1 ? set : ~set;
    }
    return same;
}
inline int __all_sync(unsigned mask, int x) { return __ballot_sync(mask, x) == mask; }
template <class T> T __shfl_sync(unsigned mask, T v, unsigned from) { return simt::shuffled(simt::kShfl, mask, v, from); }
template <class T> T __shfl_xor_sync(unsigned mask, T v, unsigned d) { return simt::shuffled(simt::kShflXor, mask, v, d); }
inline unsigned __reduce_max_sync(unsigned mask, unsigned v) { return (unsigned)simt::warp(simt::kMax, mask, v, 0); }
inline int __reduce_max_sync(unsigned mask, int v) { return (int)(__reduce_max_sync(mask, (unsigned)v ^ 1u << 31) ^ 1u << 31); }
inline unsigned __reduce_and_sync(unsigned mask, unsigned v) { return (unsigned)simt::warp(simt::kAnd, mask, v, 0); }
inline unsigned __reduce_add_sync(unsigned mask, unsigned v) { return (unsigned)simt::warp(simt::kAdd, mask, v, 0); }

// ---- memory: one thread at a time runs ----
template <class T> T __ldcs(const T *p) { return *p; }
template <class T> T __ldcg(const T *p) { return *p; }
template <class T> void __stcs(T *p, T v) { *p = v; }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
template <class T, class U> T atomicAdd(T *p, U x) { return std::exchange(*p, (T)(*p + (T)x)); }
template <class T, class U> T atomicOr(T *p, U x) { return std::exchange(*p, (T)(*p | (T)x)); }
template <class T, class U> T atomicMax(T *p, U x) { return std::exchange(*p, std::max(*p, (T)x)); }
template <class T, class U> T atomicMin(T *p, U x) { return std::exchange(*p, std::min(*p, (T)x)); }

// ---- arithmetic ----
template <class A, class B> std::common_type_t<A, B> min(A a, B b)
{
    using T = std::common_type_t<A, B>;
    return (T)a < (T)b ? (T)a : (T)b;
}
template <class A, class B> std::common_type_t<A, B> max(A a, B b)
{
    using T = std::common_type_t<A, B>;
    return (T)a < (T)b ? (T)b : (T)a;
}
// The device has -0 < +0, and of a NaN and a number the number: of a signaling NaN, too.
inline float simt_fminf(float x, float y) { return x != x || y < x || (x == y && std::signbit(y)) ? y : x; }
inline float simt_fmaxf(float x, float y) { return x != x || y > x || (x == y && !std::signbit(y)) ? y : x; }
#define fminf simt_fminf
#define fmaxf simt_fmaxf
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dadd_ru(double x, double y) { return simt::add_rounded(_MM_ROUND_UP, x, y); }
inline double __dadd_rd(double x, double y) { return simt::add_rounded(_MM_ROUND_DOWN, x, y); }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __drcp_rn(double x) { return 1 / x; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline double __fma_rd(double x, double y, double z) { return simt::fma_rounded(_MM_ROUND_DOWN, x, y, z); }
inline double __fma_ru(double x, double y, double z) { return simt::fma_rounded(_MM_ROUND_UP, x, y, z); }
inline float __double2float_rz(double x)
{
    return simt::rounded<float>(_MM_ROUND_TOWARD_ZERO, x, 0, [](double a, double) { return (float)a; });
}
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }
inline float __double2float_rn(double x) { return (float)x; }
inline long long __double2ll_rn(double x) { return llrint(x); }
inline int __float2int_rn(float x) { return (int)lrintf(x); }
inline unsigned __float_as_uint(float x) { return simt::same_bits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return simt::same_bits<float>(x); }
inline long long __double_as_longlong(double x) { return simt::same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return simt::same_bits<double>(x); }
inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
inline double __hiloint2double(int high, int low)
{
    return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
// The sum of the products of four bytes
template <class Byte, class T> T simt_dp4a(T a, T b, T sum)
{
    for (int k = 0; k < 32; k += 8)
        sum += (Byte)(a >> k) * (Byte)(b >> k);
    return sum;
}
inline int __dp4a(int a, int b, int sum) { return simt_dp4a<int8_t>(a, b, sum); }
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) { return simt_dp4a<uint8_t>(a, b, sum); }
