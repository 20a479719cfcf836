/* Vectors of the width that simd.c is compiled for, as GCC vector extensions, with intrinsics for what those lack. */
#ifndef RK_CPU_VEC_H
#define RK_CPU_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#else
#error "the CPU engine has vectors for x86-64 and aarch64"
#endif

#if defined(__AVX512BW__) && defined(__AVX512DQ__)
#define VB 64
#elif defined(__AVX2__)
#define VB 32
#else
#define VB 16
#endif

#define VEC(T, bytes) T __attribute__((vector_size(bytes)))
#define LOOSE(T, bytes) T __attribute__((vector_size(bytes), aligned(1), may_alias)) /* for unaligned loads */

typedef VEC(double, VB) vf64;
typedef VEC(float, VB) vf32;
typedef VEC(int64_t, VB) vi64;
typedef VEC(uint64_t, VB) vu64;
typedef VEC(int32_t, VB) vi32;
typedef VEC(uint32_t, VB) vu32;
typedef VEC(int16_t, VB) vi16;
typedef VEC(uint16_t, VB) vu16;
typedef VEC(int8_t, VB) vi8;
typedef VEC(uint8_t, VB) vu8;
typedef LOOSE(double, VB) vf64_loose;
typedef LOOSE(float, VB) vf32_loose;
typedef LOOSE(int64_t, VB) vi64_loose;
typedef LOOSE(int32_t, VB) vi32_loose;
typedef LOOSE(int16_t, VB) vi16_loose;
typedef LOOSE(int8_t, VB) vi8_loose;
typedef LOOSE(uint64_t, VB) vu64_loose;
typedef LOOSE(uint8_t, VB) vu8_loose;

/* Unaligned single elements. */
typedef uint8_t __attribute__((may_alias)) u8_loose;
typedef uint16_t __attribute__((aligned(1), may_alias)) u16_loose;
typedef uint32_t __attribute__((aligned(1), may_alias)) u32_loose;
typedef uint64_t __attribute__((aligned(1), may_alias)) u64_loose;

enum { LANES64 = VB / 8, LANES32 = VB / 4, LANES16 = VB / 2 };

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define ONE_COPY static __attribute__((noinline))
#else
#define ONE_COPY static __attribute__((noinline, noclone))
#endif

/* Floats and their bits */
#define FLOAT_BITS(W, T)                 \
    INLINE T f##W##_of(uint##W##_t bits) \
    {                                    \
        T v;                             \
        memcpy(&v, &bits, sizeof v);     \
        return v;                        \
    }                                    \
    INLINE uint##W##_t bits_of_f##W(T v) \
    {                                    \
        uint##W##_t bits;                \
        memcpy(&bits, &v, sizeof bits);  \
        return bits;                     \
    }
FLOAT_BITS(32, float)
FLOAT_BITS(64, double)
#undef FLOAT_BITS

/* Modulo 2^64 */
static uint64_t sum_lanes(vu64 v)
{
    uint64_t t = 0;
    for (int j = 0; j < LANES64; j++)
        t += v[j];
    return t;
}

/* As many f32 as a vf64 has lanes, widened. GCC's __builtin_convertvector would do it in two halves. */
INLINE vf64 load_f32(const void *p)
{
#if VB == 64
    return (vf64)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif VB == 32
    return (vf64)_mm256_cvtps_pd(_mm_loadu_ps(p));
#elif defined(__aarch64__)
    return (vf64)vcvt_f64_f32(vld1_f32((const float *)p));
#else
    return (vf64)_mm_cvtps_pd((__m128)_mm_loadl_epi64(p));
#endif
}

/* The same from bf16, the upper half of an f32. */
INLINE vf64 load_bf16(const void *p)
{
#if VB == 64
    return (vf64)_mm512_cvtps_pd((__m256)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
#elif VB == 32
    return (vf64)_mm256_cvtps_pd((__m128)_mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64(p)), 16));
#elif defined(__aarch64__)
    vi32 bits = {(int32_t)((uint32_t)((const u16_loose *)p)[0] << 16), (int32_t)((uint32_t)((const u16_loose *)p)[1] << 16)};
    return (vf64)vcvt_f64_f32(vget_low_f32((float32x4_t)bits));
#else
    return (vf64)_mm_cvtps_pd((__m128)_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadu_si32(p)));
#endif
}

/* As many finite bf16, each times 2^BF16_SCALE: integer shifts move their bits to the upper bits of an f64, which is faster
 * than two conversions. Only for sums, because squares of these would underflow. */
#if VB == 16
enum { BF16_SCALE = 0 };
INLINE vf64 load_scaled_bf16(const void *p) { return load_bf16(p); }
#else
enum { BF16_SCALE = 127 - 1023 };
INLINE vf64 load_scaled_bf16(const void *p)
{
#if VB == 64
    vi64 v = (vi64)_mm512_cvtepi16_epi64(_mm_loadu_si128(p));
#else
    vi64 v = (vi64)_mm256_cvtepi16_epi64(_mm_loadl_epi64(p));
#endif
    return (vf64)(v << 45 & ~((int64_t)7 << 60)); /* keeps one of the copied sign bits */
}
#endif

/* Larger and smaller by lane. Of a NaN and a number the second operand comes out. */
#if defined(__aarch64__)
#define FLOAT_END(name, W, sign, suffix)                          \
    INLINE vf##W name##_f##W(vf##W a, vf##W b)                    \
    {                                                             \
        const vi##W first = a sign b;                             \
        return (vf##W)(((vi##W)a & first) | ((vi##W)b & ~first)); \
    }
#else
#if VB == 64
#define OF_WIDTH(name) _mm512_##name
#elif VB == 32
#define OF_WIDTH(name) _mm256_##name
#else
#define OF_WIDTH(name) _mm_##name
#endif
#define FLOAT_END(name, W, sign, suffix) \
    INLINE vf##W name##_f##W(vf##W a, vf##W b) { return (vf##W)OF_WIDTH(name##_##suffix)(a, b); }
#endif
FLOAT_END(max, 32, >, ps)
FLOAT_END(min, 32, <, ps)
FLOAT_END(max, 64, >, pd)
FLOAT_END(min, 64, <, pd)
#undef FLOAT_END

/* a where all bits are set, b where none is */
INLINE vf64 choose_lanes(vi64 where, vf64 a, vf64 b)
{
#if VB == 32
    return (vf64)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)where);
#else
    return (vf64)(((vi64)a & where) | ((vi64)b & ~where));
#endif
}

INLINE vf64 magnitude_of(vf64 v) { return (vf64)((vi64)v & INT64_MAX); }

INLINE vf64 root_f64(vf64 v)
{
#if defined(__aarch64__)
    return (vf64)vsqrtq_f64((float64x2_t)v);
#else
    return (vf64)OF_WIDTH(sqrt_pd)(v);
#endif
}
#undef OF_WIDTH

INLINE vi32 max_i32(vi32 a, vi32 b)
{
#if VB == 64
    return (vi32)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif VB == 32
    return (vi32)_mm256_max_epi32((__m256i)a, (__m256i)b);
#elif defined(__aarch64__)
    return (vi32)vmaxq_s32((int32x4_t)a, (int32x4_t)b);
#else
    vi32 first = a > b;
    return (a & first) | (b & ~first);
#endif
}

INLINE vi64 max_i64(vi64 a, vi64 b)
{
#if VB == 64
    return (vi64)_mm512_max_epi64((__m512i)a, (__m512i)b);
#else
    const vi64 first = a > b;
    return (a & first) | (b & ~first);
#endif
}

INLINE vu32 min_u32(vu32 a, vu32 b)
{
#if VB == 64
    return (vu32)_mm512_min_epu32((__m512i)a, (__m512i)b);
#elif VB == 32
    return (vu32)_mm256_min_epu32((__m256i)a, (__m256i)b);
#elif defined(__aarch64__)
    return (vu32)vminq_u32((uint32x4_t)a, (uint32x4_t)b);
#else
    vu32 first = (vu32)(a < b);
    return (a & first) | (b & ~first);
#endif
}

INLINE vi16 max_i16(vi16 a, vi16 b)
{
#if VB == 64
    return (vi16)_mm512_max_epi16((__m512i)a, (__m512i)b);
#elif VB == 32
    return (vi16)_mm256_max_epi16((__m256i)a, (__m256i)b);
#elif defined(__aarch64__)
    return (vi16)vmaxq_s16((int16x8_t)a, (int16x8_t)b);
#else
    return (vi16)_mm_max_epi16((__m128i)a, (__m128i)b);
#endif
}

INLINE vu16 min_u16(vu16 a, vu16 b)
{
#if VB == 64
    return (vu16)_mm512_min_epu16((__m512i)a, (__m512i)b);
#elif VB == 32
    return (vu16)_mm256_min_epu16((__m256i)a, (__m256i)b);
#elif defined(__aarch64__)
    return (vu16)vminq_u16((uint16x8_t)a, (uint16x8_t)b);
#else
    vu16 first = (vu16)(a < b);
    return (a & first) | (b & ~first);
#endif
}

/* Sums of eight bytes each. */
INLINE vu64 sum_bytes(vu8 v)
{
#if VB == 64
    return (vu64)_mm512_sad_epu8((__m512i)v, _mm512_setzero_si512());
#elif VB == 32
    return (vu64)_mm256_sad_epu8((__m256i)v, _mm256_setzero_si256());
#elif defined(__aarch64__)
    return (vu64)vpaddlq_u32(vpaddlq_u16(vpaddlq_u8((uint8x16_t)v)));
#else
    return (vu64)_mm_sad_epu8((__m128i)v, _mm_setzero_si128());
#endif
}

/* Products, summed over two neighbours each. */
INLINE vi32 product_pairs(vi16 a, vi16 b)
{
#if VB == 64
    return (vi32)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif VB == 32
    return (vi32)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__aarch64__)
    int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
    return (vi32)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
#else
    return (vi32)_mm_madd_epi16((__m128i)a, (__m128i)b);
#endif
}
INLINE vi32 sum_pairs(vi16 v) { return product_pairs(v, (vi16){0} + 1); }

/* Squares of the lower halves of 64-bit lanes. */
INLINE vu64 square_low(vu64 v)
{
#if VB == 64
    return (vu64)_mm512_mul_epu32((__m512i)v, (__m512i)v);
#elif VB == 32
    return (vu64)_mm256_mul_epu32((__m256i)v, (__m256i)v);
#elif defined(__aarch64__)
    uint32x2_t low = vmovn_u64((uint64x2_t)v);
    return (vu64)vmull_u32(low, low);
#else
    return (vu64)_mm_mul_epu32((__m128i)v, (__m128i)v);
#endif
}

/* Prefetch a cache line that a loop needs later. Beyond the end of an array this does nothing. */
INLINE void prefetch(const void *p, size_t ahead) { __builtin_prefetch((const void *)((uintptr_t)p + ahead)); }

/* If it comes from `far`, only into L2: that leaves free the buffers in which lines wait on their way to L1. */
INLINE void prefetch_from(const void *p, size_t ahead, bool far)
{
    if (far)
        __builtin_prefetch((const void *)((uintptr_t)p + ahead), 0, 2);
    else
        prefetch(p, ahead);
}

#endif
