/* Counts and keeps keys between two bounds: a pass of selection over elements. */
#ifndef RK_CPU_BETWEEN_H
#define RK_CPU_BETWEEN_H

#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/order/kept_lanes.h"
#include "kernels/cpu/loops/vec.h"

/* One element. */
#define KEY_OF(W)                                                                                      \
    INLINE uint##W##_t order_key_##W(uint##W##_t x, const rk_keys *k)                                  \
    {                                                                                                  \
        const uint##W##_t sign = (uint##W##_t)((int##W##_t)x >> (W - 1));                              \
        return (uint##W##_t)((uint##W##_t)(x ^ (sign & (uint##W##_t)k->flip)) - (uint##W##_t)k->base); \
    }
KEY_OF(8)
KEY_OF(16)
KEY_OF(32)
KEY_OF(64)
#undef KEY_OF

#define ONE_BETWEEN(W)                                                                                            \
    INLINE size_t one_between_##W(uint##W##_t x, const rk_keys *k, uint##W##_t lo, uint##W##_t hi, rk_between *t, \
                                  u##W##_loose *out, size_t kept)                                                 \
    {                                                                                                             \
        const uint##W##_t key = order_key_##W(x, k);                                                              \
        t->below += key < lo;                                                                                     \
        t->at_lo += key == lo;                                                                                    \
        t->at_hi += key == hi;                                                                                    \
        t->nans += key > (uint##W##_t)k->most;                                                                    \
        out[kept] = key;                                                                                          \
        return kept + ((key > lo) & (key < hi));                                                                  \
    }
ONE_BETWEEN(16)
ONE_BETWEEN(32)
ONE_BETWEEN(64)
#undef ONE_BETWEEN

#if VB == 64

/* The keys of a vector that are between, appended. */
INLINE void keep_keys_32(void *out, __mmask16 in, __m512i key)
{
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(in, key));
}
INLINE void keep_keys_64(void *out, __mmask8 in, __m512i key)
{
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi64(in, key));
}
INLINE void keep_keys_16(u16_loose *out, __mmask32 in, __m512i key)
{
    const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(key)),
                  high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(key, 1));
    const __mmask16 first = (__mmask16)in, second = (__mmask16)(in >> 16);
    _mm256_storeu_si256((__m256i *)(void *)out, _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(first, low)));
    _mm256_storeu_si256((__m256i *)(void *)(out + __builtin_popcount(first)),
                        _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(second, high)));
}

INLINE __m512i sign_16(__m512i x) { return _mm512_srai_epi16(x, 15); }
INLINE __m512i sign_32(__m512i x) { return _mm512_srai_epi32(x, 31); }
INLINE __m512i sign_64(__m512i x) { return _mm512_srai_epi64(x, 63); }

/* Keys of a block that equal an end are taken out again, and counted: in random data there are few of either. */
#define STRIP_ENDS(W)                                                                                            \
    INLINE size_t strip_ends_##W(u##W##_loose *keys, size_t n, __m512i low, __m512i high, rk_between *t)         \
    {                                                                                                            \
        enum { LANES = 512 / W };                                                                                \
        size_t kept = 0, lows = 0, highs = 0;                                                                    \
        for (size_t i = 0; i < n; i += LANES) {                                                                  \
            const __m512i key = _mm512_loadu_si512(keys + i);                                                    \
            const uint64_t there = n - i < LANES ? ((uint64_t)1 << (n - i)) - 1 : UINT64_MAX >> (64 - LANES),    \
                           at_lo = there & _mm512_cmpeq_epu##W##_mask(key, low),                                 \
                           at_hi = there & _mm512_cmpeq_epu##W##_mask(key, high), in = there & ~(at_lo | at_hi); \
            lows += (size_t)__builtin_popcountll(at_lo);                                                         \
            highs += (size_t)__builtin_popcountll(at_hi);                                                        \
            if (!in)                                                                                             \
                continue;                                                                                        \
            keep_keys_##W(keys + kept, (__typeof__(_mm512_cmpeq_epu##W##_mask(key, low)))in, key);               \
            kept += (size_t)__builtin_popcountll(in);                                                            \
        }                                                                                                        \
        t->at_lo += lows;                                                                                        \
        t->at_hi += highs;                                                                                       \
        return kept;                                                                                             \
    }

/* Lanes count: a block has fewer elements than they could. */
#define BETWEEN_VECTORS(W, SET)                                                                                             \
    STRIP_ENDS(W)                                                                                                           \
    INLINE uint64_t lanes_total_##W(__m512i counts)                                                                         \
    {                                                                                                                       \
        uint##W##_t lane[512 / W];                                                                                          \
        uint64_t total = 0;                                                                                                 \
        _mm512_storeu_si512(lane, counts);                                                                                  \
        for (size_t i = 0; i < 512 / W; i++)                                                                                \
            total += lane[i];                                                                                               \
        return total;                                                                                                       \
    }                                                                                                                       \
    INLINE size_t between_vectors_##W(const u##W##_loose *x, size_t n, const rk_keys *k, uint##W##_t lo, uint##W##_t hi,    \
                                      rk_between *t, u##W##_loose *out, size_t *i)                                          \
    {                                                                                                                       \
        const __m512i flip = SET((int##W##_t)k->flip), base = SET((int##W##_t)k->base), low = SET((int##W##_t)lo),          \
                      high = SET((int##W##_t)hi), span = _mm512_sub_epi##W(high, low), most = SET((int##W##_t)k->most),     \
                      one = SET(1);                                                                                         \
        __m512i below = _mm512_setzero_si512(), nans = below;                                                               \
        size_t kept = 0, at = 0;                                                                                            \
        for (; at + 512 / W <= n; at += 512 / W) {                                                                          \
            prefetch(x + at, 4096);                                                                                         \
            const __m512i v = _mm512_loadu_si512(x + at);                                                                   \
            const __m512i key = _mm512_sub_epi##W(_mm512_xor_si512(v, _mm512_and_si512(sign_##W(v), flip)), base);          \
            const __typeof__(_mm512_cmplt_epu##W##_mask(v, v)) in = _mm512_cmple_epu##W##_mask(_mm512_sub_epi##W(key, low), \
                                                                                               span);                       \
            below = _mm512_mask_add_epi##W(below, _mm512_cmplt_epu##W##_mask(key, low), below, one);                        \
            nans = _mm512_mask_add_epi##W(nans, _mm512_cmpgt_epu##W##_mask(key, most), nans, one);                          \
            keep_keys_##W(out + kept, in, key);                                                                             \
            kept += (size_t)__builtin_popcountll(in);                                                                       \
        }                                                                                                                   \
        t->below += lanes_total_##W(below);                                                                                 \
        t->nans += lanes_total_##W(nans);                                                                                   \
        *i = at;                                                                                                            \
        return strip_ends_##W(out, kept, low, high, t);                                                                     \
    }
BETWEEN_VECTORS(16, _mm512_set1_epi16)
BETWEEN_VECTORS(32, _mm512_set1_epi32)
BETWEEN_VECTORS(64, _mm512_set1_epi64)

#elif VB == 32

/* Keys are 2^(W - 1) lower, so that signed comparisons have their order. Those of a block that equal an end are kept first,
 * then taken out again, and counted. */
#define BETWEEN_VECTORS(W, SET)                                                                                             \
    INLINE uint64_t lanes_total_##W(vi##W counts)                                                                           \
    {                                                                                                                       \
        uint64_t total = 0;                                                                                                 \
        for (size_t i = 0; i < 256 / W; i++)                                                                                \
            total += (uint##W##_t)counts[i];                                                                                \
        return total;                                                                                                       \
    }                                                                                                                       \
    INLINE size_t strip_ends_##W(u##W##_loose *keys, size_t n, vi##W low, vi##W high, uint##W##_t half, rk_between *t)      \
    {                                                                                                                       \
        vi##W at_lo = {0}, at_hi = {0};                                                                                     \
        size_t i = 0, kept = 0;                                                                                             \
        for (; i + 256 / W <= n; i += 256 / W) {                                                                            \
            const vi##W key = *(const vi##W##_loose *)(const void *)(keys + i), is_lo = key == low, is_hi = key == high;    \
            at_lo -= is_lo;                                                                                                 \
            at_hi -= is_hi;                                                                                                 \
            if (!lane_bits((vi32)(is_lo | is_hi) != -1))                                                                    \
                continue;                                                                                                   \
            kept += keep_keys_##W(keys + kept, ~(is_lo | is_hi), key ^ (int##W##_t)half);                                   \
        }                                                                                                                   \
        for (; i < n; i++) {                                                                                                \
            const uint##W##_t key = keys[i];                                                                                \
            const bool is_lo = key == (uint##W##_t)low[0], is_hi = key == (uint##W##_t)high[0];                             \
            t->at_lo += is_lo;                                                                                              \
            t->at_hi += is_hi;                                                                                              \
            keys[kept] = (uint##W##_t)(key + half);                                                                         \
            kept += !(is_lo | is_hi);                                                                                       \
        }                                                                                                                   \
        t->at_lo += lanes_total_##W(at_lo);                                                                                 \
        t->at_hi += lanes_total_##W(at_hi);                                                                                 \
        return kept;                                                                                                        \
    }                                                                                                                       \
    INLINE size_t between_vectors_##W(const u##W##_loose *x, size_t n, const rk_keys *k, uint##W##_t lo, uint##W##_t hi,    \
                                      rk_between *t, u##W##_loose *out, size_t *i)                                          \
    {                                                                                                                       \
        const uint##W##_t half = (uint##W##_t)((uint##W##_t)1 << (W - 1));                                                  \
        const vi##W zero = {0}, flip = zero + (int##W##_t)k->flip, base = zero + (int##W##_t)(uint##W##_t)(k->base + half), \
                    low = zero + (int##W##_t)(uint##W##_t)(lo - half), high = zero + (int##W##_t)(uint##W##_t)(hi - half),  \
                    most = zero + (int##W##_t)(uint##W##_t)(k->most - half);                                                \
        vi##W below = zero, nans = zero;                                                                                    \
        size_t kept = 0, at = 0;                                                                                            \
        for (; at + 256 / W <= n; at += 256 / W) {                                                                          \
            prefetch(x + at, 4096);                                                                                         \
            const vi##W v = *(const vi##W##_loose *)(const void *)(x + at), key = signed_keys_##W(v, flip, base),           \
                        under = low > key;                                                                                  \
            below -= under;                                                                                                 \
            nans -= key > most;                                                                                             \
            kept += keep_keys_##W(out + kept, ~(under | (key > high)), key);                                                \
        }                                                                                                                   \
        t->below += lanes_total_##W(below);                                                                                 \
        t->nans += lanes_total_##W(nans);                                                                                   \
        *i = at;                                                                                                            \
        return strip_ends_##W(out, kept, low, high, half, t);                                                               \
    }
BETWEEN_VECTORS(16, 0)
BETWEEN_VECTORS(32, 0)
BETWEEN_VECTORS(64, 0)

#else

/* Counts by vectors of the compiler; of a chunk without keys between, none is stored. */
#define BETWEEN_VECTORS(W, SET)                                                                                          \
    INLINE size_t between_vectors_##W(const u##W##_loose *x, size_t n, const rk_keys *k, uint##W##_t lo, uint##W##_t hi, \
                                      rk_between *t, u##W##_loose *out, size_t *i)                                       \
    {                                                                                                                    \
        enum { CHUNK = 4 * VB / (W / 8) };                                                                               \
        size_t kept = 0;                                                                                                 \
        for (; *i + CHUNK <= n; *i += CHUNK) {                                                                           \
            uint##W##_t keys[CHUNK], below = 0, at_lo = 0, at_hi = 0, nans = 0, in = 0;                                  \
            for (size_t j = 0; j < CHUNK; j++) {                                                                         \
                const uint##W##_t key = keys[j] = order_key_##W(x[*i + j], k);                                           \
                below = (uint##W##_t)(below + (key < lo));                                                               \
                at_lo = (uint##W##_t)(at_lo + (key == lo));                                                              \
                at_hi = (uint##W##_t)(at_hi + (key == hi));                                                              \
                nans = (uint##W##_t)(nans + (key > (uint##W##_t)k->most));                                               \
                in = (uint##W##_t)(in + (key < hi));                                                                     \
            }                                                                                                            \
            t->below += below;                                                                                           \
            t->at_lo += at_lo;                                                                                           \
            t->at_hi += at_hi;                                                                                           \
            t->nans += nans;                                                                                             \
            for (size_t j = 0; in > below + at_lo && j < CHUNK; j++) {                                                   \
                out[kept] = keys[j];                                                                                     \
                kept += (keys[j] > lo) & (keys[j] < hi);                                                                 \
            }                                                                                                            \
        }                                                                                                                \
        return kept;                                                                                                     \
    }
BETWEEN_VECTORS(16, 0)
BETWEEN_VECTORS(32, 0)
BETWEEN_VECTORS(64, 0)

#endif

#define BETWEEN(W)                                                                                                             \
    static size_t between_##W(const void *data, size_t n, const rk_keys *k, uint64_t lo, uint64_t hi, rk_between *t, void *to) \
    {                                                                                                                          \
        const u##W##_loose *x = data;                                                                                          \
        u##W##_loose *out = to;                                                                                                \
        size_t i = 0, kept = between_vectors_##W(x, n, k, (uint##W##_t)lo, (uint##W##_t)hi, t, out, &i);                       \
        for (; i < n; i++)                                                                                                     \
            kept = one_between_##W(x[i], k, (uint##W##_t)lo, (uint##W##_t)hi, t, out, kept);                                   \
        return kept;                                                                                                           \
    }
BETWEEN(16)
BETWEEN(32)
BETWEEN(64)
#undef BETWEEN
#undef BETWEEN_VECTORS
#undef STRIP_ENDS

#endif
