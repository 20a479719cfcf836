/* Compacts the elements that a mask keeps: masked lines are then reduced like any others. */
#ifndef RK_CPU_COMPACT_MASK_H
#define RK_CPU_COMPACT_MASK_H

#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/order/kept_lanes.h"
#include "kernels/cpu/loops/vec.h"

#if VB == 64

enum { KEPT_AT_ONCE_8 = 16, KEPT_AT_ONCE_16 = 16, KEPT_AT_ONCE_32 = 16, KEPT_AT_ONCE_64 = 8 };

INLINE unsigned kept_of_16(const uint8_t *mask)
{
    const __m128i m = _mm_loadu_si128((const __m128i *)(const void *)mask);
    return _mm_test_epi8_mask(m, m);
}

/* Each writes as many elements as it reads, and returns how many of them are kept. */
INLINE size_t keep_some_8(void *to, const void *x, const uint8_t *mask)
{
    const unsigned kept = kept_of_16(mask);
    const __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128(x));
    _mm_storeu_si128(to, _mm512_cvtepi32_epi8(_mm512_maskz_compress_epi32((__mmask16)kept, v)));
    return (size_t)__builtin_popcount(kept);
}

INLINE size_t keep_some_16(void *to, const void *x, const uint8_t *mask)
{
    const unsigned kept = kept_of_16(mask);
    const __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256(x));
    _mm256_storeu_si256(to, _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32((__mmask16)kept, v)));
    return (size_t)__builtin_popcount(kept);
}

INLINE size_t keep_some_32(void *to, const void *x, const uint8_t *mask)
{
    const unsigned kept = kept_of_16(mask);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32((__mmask16)kept, _mm512_loadu_si512(x)));
    return (size_t)__builtin_popcount(kept);
}

INLINE size_t keep_some_64(void *to, const void *x, const uint8_t *mask)
{
    const __m128i m = _mm_loadl_epi64((const __m128i *)(const void *)mask);
    const unsigned kept = _mm_test_epi8_mask(m, m);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi64((__mmask8)kept, _mm512_loadu_si512(x)));
    return (size_t)__builtin_popcount(kept);
}

#else

#define KEEP_ONE(W)                                                           \
    enum { KEPT_AT_ONCE_##W = 1 };                                            \
    INLINE size_t keep_some_##W(void *to, const void *x, const uint8_t *mask) \
    {                                                                         \
        *(u##W##_loose *)to = *(const u##W##_loose *)x;                       \
        return *mask != 0;                                                    \
    }
KEEP_ONE(8)
KEEP_ONE(16)
#if VB == 32

enum { KEPT_AT_ONCE_32 = 8, KEPT_AT_ONCE_64 = 8 };

INLINE unsigned kept_of_8(const uint8_t *mask)
{
    const __m128i m = _mm_loadl_epi64((const __m128i *)(const void *)mask);
    return ~(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(m, _mm_setzero_si128())) & 0xff;
}

INLINE size_t keep_some_32(void *to, const void *x, const uint8_t *mask)
{
    const unsigned kept = kept_of_8(mask);
    put_places(to, *(const vi32_loose *)x, &places_of_bits[kept]);
    return (size_t)__builtin_popcount(kept);
}

INLINE size_t keep_some_64(void *to, const void *x, const uint8_t *mask)
{
    const unsigned kept = kept_of_8(mask);
    const vi32_loose *v = x;
    put_places(to, v[0], &places_of_pairs[kept & 15]);
    put_places((u64_loose *)to + __builtin_popcount(kept & 15), v[1], &places_of_pairs[kept >> 4]);
    return (size_t)__builtin_popcount(kept);
}

#else
KEEP_ONE(32)
KEEP_ONE(64)
#endif
#undef KEEP_ONE

#endif

#define KEEP(W)                                                                                  \
    static size_t keep_##W(void *out, size_t k, const void *data, const uint8_t *mask, size_t n) \
    {                                                                                            \
        u##W##_loose *to = out;                                                                  \
        const u##W##_loose *x = data;                                                            \
        size_t i = 0;                                                                            \
        for (; KEPT_AT_ONCE_##W > 1 && i + KEPT_AT_ONCE_##W <= n; i += KEPT_AT_ONCE_##W) {       \
            prefetch(x + i, 4096);                                                               \
            k += keep_some_##W(to + k, x + i, mask + i);                                         \
        }                                                                                        \
        for (; i < n; i++) {                                                                     \
            to[k] = x[i];                                                                        \
            k += mask[i] != 0;                                                                   \
        }                                                                                        \
        return k;                                                                                \
    }
KEEP(8)
KEEP(16)
KEEP(32)
KEEP(64)
#undef KEEP

#endif
