/* Counts and keeps keys of several brackets: the keys in any of them are stored together. */
#ifndef RK_CPU_INSIDE_H
#define RK_CPU_INSIDE_H

#include "kernels/cpu/loops/order/between.h"

enum { INSIDE_VECTORS = 4 }; /* whose keys are in registers while brackets take turns */

#if VB == 64

#define INSIDE_VECTORS_OF(W, SET)                                                                                            \
    typedef __typeof__(_mm512_cmplt_epu##W##_mask((__m512i){0}, (__m512i){0})) in_##W;                                       \
    INLINE size_t inside_vectors_##W(const u##W##_loose *x, size_t n, const rk_keys *k, const rk_ranges *r, uint64_t *below, \
                                     uint64_t *nans, u##W##_loose *out, size_t *i)                                           \
    {                                                                                                                        \
        enum { LANES = 512 / W, GROUP = INSIDE_VECTORS * LANES };                                                            \
        const __m512i flip = SET((int##W##_t)k->flip), base = SET((int##W##_t)k->base), most = SET((int##W##_t)k->most),     \
                      one = SET(1);                                                                                          \
        __m512i low[RK_RANGES], span[RK_RANGES], under[RK_RANGES], over = _mm512_setzero_si512();                            \
        size_t kept = 0;                                                                                                     \
        for (unsigned b = 0; b < r->n; b++) {                                                                                \
            low[b] = SET((int##W##_t)r->lo[b]);                                                                              \
            span[b] = SET((int##W##_t)(r->hi[b] - r->lo[b]));                                                                \
            under[b] = over;                                                                                                 \
        }                                                                                                                    \
        for (; *i + GROUP <= n; *i += GROUP) {                                                                               \
            __m512i key[INSIDE_VECTORS];                                                                                     \
            in_##W apart[INSIDE_VECTORS]; /* from all of them */                                                             \
            _Pragma("GCC unroll 4") for (int j = 0; j < INSIDE_VECTORS; j++)                                                 \
            {                                                                                                                \
                prefetch(x + *i + j * LANES, 4096);                                                                          \
                const __m512i v = _mm512_loadu_si512(x + *i + j * LANES);                                                    \
                key[j] = _mm512_sub_epi##W(_mm512_xor_si512(v, _mm512_and_si512(sign_##W(v), flip)), base);                  \
                over = _mm512_mask_add_epi##W(over, _mm512_cmpgt_epu##W##_mask(key[j], most), over, one);                    \
                apart[j] = (in_##W) - 1;                                                                                     \
            }                                                                                                                \
            for (unsigned b = 0; b < r->n; b++) {                                                                            \
                const __m512i l = low[b], s = span[b];                                                                       \
                __m512i u = under[b];                                                                                        \
                _Pragma("GCC unroll 4") for (int j = 0; j < INSIDE_VECTORS; j++)                                             \
                {                                                                                                            \
                    apart[j] = _mm512_mask_cmpgt_epu##W##_mask(apart[j], _mm512_sub_epi##W(key[j], l), s);                   \
                    u = _mm512_mask_add_epi##W(u, _mm512_cmplt_epu##W##_mask(key[j], l), u, one);                            \
                }                                                                                                            \
                under[b] = u;                                                                                                \
            }                                                                                                                \
            _Pragma("GCC unroll 4") for (int j = 0; j < INSIDE_VECTORS; j++)                                                 \
            {                                                                                                                \
                const in_##W in = (in_##W) ~apart[j];                                                                        \
                keep_keys_##W(out + kept, in, key[j]);                                                                       \
                kept += (size_t)__builtin_popcountll(in);                                                                    \
            }                                                                                                                \
        }                                                                                                                    \
        for (unsigned b = 0; b < r->n; b++)                                                                                  \
            below[b] += lanes_total_##W(under[b]);                                                                           \
        *nans += lanes_total_##W(over);                                                                                      \
        return kept;                                                                                                         \
    }
INSIDE_VECTORS_OF(16, _mm512_set1_epi16)
INSIDE_VECTORS_OF(32, _mm512_set1_epi32)
INSIDE_VECTORS_OF(64, _mm512_set1_epi64)

#elif VB == 32

/* A vector's lanes are out of all brackets if they are below or above each. */
#define INSIDE_VECTORS_OF(W, SET)                                                                                            \
    INLINE size_t inside_vectors_##W(const u##W##_loose *x, size_t n, const rk_keys *k, const rk_ranges *r, uint64_t *below, \
                                     uint64_t *nans, u##W##_loose *out, size_t *i)                                           \
    {                                                                                                                        \
        enum { LANES = 256 / W, VECTORS = W == 16 ? 2 : INSIDE_VECTORS, GROUP = VECTORS * LANES, BITS = W == 16 ? 2 : 1 };   \
        const uint##W##_t half = (uint##W##_t)((uint##W##_t)1 << (W - 1));                                                   \
        const __m256i zero = _mm256_setzero_si256(), flip = SET((int##W##_t)k->flip),                                        \
                      base = SET((int##W##_t)(uint##W##_t)(k->base + half)),                                                 \
                      most = SET((int##W##_t)(uint##W##_t)(k->most - half));                                                 \
        const uint32_t all = lanes_##W(_mm256_cmpeq_epi8(zero, zero));                                                       \
        __m256i low[RK_RANGES], high[RK_RANGES], under[RK_RANGES], nan = zero;                                               \
        size_t kept = 0;                                                                                                     \
        for (unsigned b = 0; b < r->n; b++) {                                                                                \
            low[b] = SET((int##W##_t)(uint##W##_t)(r->lo[b] - half));                                                        \
            high[b] = SET((int##W##_t)(uint##W##_t)(r->hi[b] - half));                                                       \
            under[b] = zero;                                                                                                 \
        }                                                                                                                    \
        for (; *i + GROUP <= n; *i += GROUP) {                                                                               \
            __m256i key[VECTORS], out_of[VECTORS];                                                                           \
            _Pragma("GCC unroll 4") for (int j = 0; j < VECTORS; j++)                                                        \
            {                                                                                                                \
                prefetch(x + *i + j * LANES, 4096);                                                                          \
                const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(x + *i + j * LANES));                   \
                const __m256i turn = _mm256_and_si256(_mm256_cmpgt_epi##W(zero, v), flip);                                   \
                key[j] = _mm256_sub_epi##W(_mm256_xor_si256(v, turn), base);                                                 \
                nan = _mm256_sub_epi##W(nan, _mm256_cmpgt_epi##W(key[j], most));                                             \
                out_of[j] = _mm256_cmpeq_epi8(zero, zero);                                                                   \
            }                                                                                                                \
            for (unsigned b = 0; b < r->n; b++) {                                                                            \
                const __m256i l = low[b], h = high[b];                                                                       \
                __m256i u = under[b];                                                                                        \
                _Pragma("GCC unroll 4") for (int j = 0; j < VECTORS; j++)                                                    \
                {                                                                                                            \
                    const __m256i less = _mm256_cmpgt_epi##W(l, key[j]);                                                     \
                    out_of[j] = _mm256_and_si256(out_of[j], _mm256_or_si256(less, _mm256_cmpgt_epi##W(key[j], h)));          \
                    u = _mm256_sub_epi##W(u, less);                                                                          \
                }                                                                                                            \
                under[b] = u;                                                                                                \
            }                                                                                                                \
            uint64_t in = 0;                                                                                                 \
            _Pragma("GCC unroll 4") for (int j = 0; j < VECTORS; j++) in |= (uint64_t)(all & ~lanes_##W(out_of[j]))          \
                                                                            << (j * BITS * LANES);                           \
            for (; in; in &= in - 1)                                                                                         \
                out[kept++] = order_key_##W(x[*i + (size_t)(__builtin_ctzll(in) / BITS)], k);                                \
        }                                                                                                                    \
        for (unsigned b = 0; b < r->n; b++)                                                                                  \
            below[b] += lanes_total_##W(under[b]);                                                                           \
        *nans += lanes_total_##W(nan);                                                                                       \
        return kept;                                                                                                         \
    }
INSIDE_VECTORS_OF(16, _mm256_set1_epi16)
INSIDE_VECTORS_OF(32, _mm256_set1_epi32)
INSIDE_VECTORS_OF(64, _mm256_set1_epi64x)

#endif

#if VB > 16
#define INSIDE(W)                                                                                               \
    static size_t inside_##W(const void *data, size_t n, const rk_keys *k, const rk_ranges *r, uint64_t *below, \
                             uint64_t *nans, void *to)                                                          \
    {                                                                                                           \
        const u##W##_loose *x = data;                                                                           \
        u##W##_loose *out = to;                                                                                 \
        size_t i = 0, kept = inside_vectors_##W(x, n, k, r, below, nans, out, &i);                              \
        for (; i < n; i++) {                                                                                    \
            const uint##W##_t key = order_key_##W(x[i], k);                                                     \
            bool in = false;                                                                                    \
            *nans += key > (uint##W##_t)k->most;                                                                \
            for (unsigned b = 0; b < r->n; b++) {                                                               \
                below[b] += key < (uint##W##_t)r->lo[b];                                                        \
                in |= (key >= (uint##W##_t)r->lo[b]) & (key <= (uint##W##_t)r->hi[b]);                          \
            }                                                                                                   \
            out[kept] = key;                                                                                    \
            kept += in;                                                                                         \
        }                                                                                                       \
        return kept;                                                                                            \
    }
INSIDE(16)
INSIDE(32)
INSIDE(64)
#undef INSIDE
#undef INSIDE_VECTORS_OF
#define INSIDE_OF(W) inside_##W
#else
#define INSIDE_OF(W) NULL
#endif

#endif
