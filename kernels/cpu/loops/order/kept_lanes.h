/* Keys of some lanes of a vector, appended: where vectors have no instruction for it. */
#ifndef RK_CPU_KEPT_LANES_H
#define RK_CPU_KEPT_LANES_H

#include "kernels/cpu/loops/vec.h"

#if VB == 32

/* The places of a number's bits, a byte for each: the lowest first. */
#define PLACE(m, j) ((uint64_t)((m) >> (j)&1 ? (j) : 0) << 8 * __builtin_popcount((m) & ((1 << (j)) - 1)))
#define PLACES(m) \
    (PLACE(m, 0) | PLACE(m, 1) | PLACE(m, 2) | PLACE(m, 3) | PLACE(m, 4) | PLACE(m, 5) | PLACE(m, 6) | PLACE(m, 7))
#define PLACES_4(m) PLACES(m), PLACES(m + 1), PLACES(m + 2), PLACES(m + 3)
#define PLACES_16(m) PLACES_4(m), PLACES_4(m + 4), PLACES_4(m + 8), PLACES_4(m + 12)
#define PLACES_64(m) PLACES_16(m), PLACES_16(m + 16), PLACES_16(m + 32), PLACES_16(m + 48)
static const uint64_t places_of_bits[256] = {PLACES_64(0), PLACES_64(64), PLACES_64(128), PLACES_64(192)};

/* The same of four bits, each of which stands for two neighbours. */
#define TWICE(m) PLACES(((m)&1) * 3 + ((m)&2) * 6 + ((m)&4) * 12 + ((m)&8) * 24)
#define TWICE_4(m) TWICE(m), TWICE(m + 1), TWICE(m + 2), TWICE(m + 3)
static const uint64_t places_of_pairs[16] = {TWICE_4(0), TWICE_4(4), TWICE_4(8), TWICE_4(12)};
#undef TWICE_4
#undef TWICE
#undef PLACES_64
#undef PLACES_16
#undef PLACES_4
#undef PLACES
#undef PLACE

INLINE unsigned lane_bits(vi32 in) { return (unsigned)_mm256_movemask_ps((__m256)in); }
INLINE unsigned byte_bits(vi16 in) { return (unsigned)_mm256_movemask_epi8((__m256i)in); }

/* Writes a whole vector: first its numbers of 32 bits at these places. */
INLINE void put_places(void *out, vi32 v, const uint64_t *places)
{
    const __m256i p = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)places));
    _mm256_storeu_si256(out, _mm256_permutevar8x32_epi32((__m256i)v, p));
}

/* Writes a whole vector. Returns how many numbers of 32 bits it keeps. */
INLINE size_t keep_lanes(void *out, vi32 in, vi32 key)
{
    const unsigned bits = lane_bits(in);
    put_places(out, key, &places_of_bits[bits]);
    return (size_t)__builtin_popcount(bits);
}

#elif VB == 16

#ifdef __aarch64__
INLINE unsigned lane_bits(vi32 in) { return vaddvq_u32((uint32x4_t)(in & (vi32){1, 2, 4, 8})); }
INLINE unsigned byte_bits(vi16 in) { return 3 * vaddvq_u16((uint16x8_t)(in & (vi16){1, 4, 16, 64, 256, 1024, 4096, 16384})); }
#else
INLINE unsigned lane_bits(vi32 in) { return (unsigned)_mm_movemask_ps((__m128)in); }
INLINE unsigned byte_bits(vi16 in) { return (unsigned)_mm_movemask_epi8((__m128i)in); }
#endif

INLINE size_t keep_lanes(void *out, vi32 in, vi32 key)
{
    size_t kept = 0;
    for (unsigned bits = lane_bits(in); bits; bits &= bits - 1)
        ((u32_loose *)out)[kept++] = (uint32_t)key[__builtin_ctz(bits)];
    return kept;
}

#endif

#if VB < 64
/* order_key_W of each lane, less 2^(W - 1) as `base` is more, so that signed comparisons have the order of keys. */
#define SIGNED_KEYS(W)                                               \
    INLINE vi##W signed_keys_##W(vi##W v, vi##W flip, vi##W base)    \
    {                                                                \
        return (vi##W)((vu##W)(v ^ ((v < 0) & flip)) - (vu##W)base); \
    }
SIGNED_KEYS(8)
SIGNED_KEYS(16)
SIGNED_KEYS(32)
SIGNED_KEYS(64)
#undef SIGNED_KEYS

INLINE size_t keep_keys_16(void *out, vi16 in, vi16 key)
{
    size_t kept = 0;
    for (unsigned bits = byte_bits(in) & 0x55555555; bits; bits &= bits - 1)
        ((u16_loose *)out)[kept++] = (uint16_t)key[__builtin_ctz(bits) / 2];
    return kept;
}
INLINE size_t keep_keys_32(void *out, vi32 in, vi32 key) { return keep_lanes(out, in, key); }
INLINE size_t keep_keys_64(void *out, vi64 in, vi64 key) { return keep_lanes(out, (vi32)in, (vi32)key) / 2; }
#endif

#endif
