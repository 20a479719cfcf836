/* Counts and keeps keys of several brackets: the keys in any of them are stored together. */
#ifndef RK_CPU_INSIDE_H
#define RK_CPU_INSIDE_H

#include "kernels/cpu/loops/order/between.h"
#include "kernels/cpu/loops/order/kept_lanes.h"

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

#else

/* For vector j of a group. */
INLINE void prefetch_line(const void *group, int j)
{
    if (j * VB % 64 == 0)
        prefetch((const uint8_t *)group + j * VB, 4096);
}

/* Brackets and keys are 2^(W - 1) lower, so that signed comparisons have their order. */
#define INSIDE_VECTORS_OF(W)                                                                                                 \
    INLINE size_t inside_vectors_##W(const u##W##_loose *x, size_t n, const rk_keys *k, const rk_ranges *r, uint64_t *below, \
                                     uint64_t *nans, u##W##_loose *out, size_t *i)                                           \
    {                                                                                                                        \
        enum { LANES = VB * 8 / W, VECTORS = W == 16 ? 2 : INSIDE_VECTORS };                                                 \
        const uint##W##_t half = (uint##W##_t)((uint##W##_t)1 << (W - 1));                                                   \
        const vi##W zero = {0}, flip = zero + (int##W##_t)k->flip, base = zero + (int##W##_t)(uint##W##_t)(k->base + half),  \
                    most = zero + (int##W##_t)(uint##W##_t)(k->most - half);                                                 \
        vi##W low[RK_RANGES], high[RK_RANGES], under[RK_RANGES], nan = zero;                                                 \
        size_t kept = 0;                                                                                                     \
        for (unsigned b = 0; b < r->n; b++) {                                                                                \
            low[b] = zero + (int##W##_t)(uint##W##_t)(r->lo[b] - half);                                                      \
            high[b] = zero + (int##W##_t)(uint##W##_t)(r->hi[b] - half);                                                     \
            under[b] = zero;                                                                                                 \
        }                                                                                                                    \
        for (; *i + VECTORS * LANES <= n; *i += VECTORS * LANES) {                                                           \
            vi##W key[VECTORS], apart[VECTORS]; /* from all of them */                                                       \
            _Pragma("GCC unroll 4") for (int j = 0; j < VECTORS; j++)                                                        \
            {                                                                                                                \
                prefetch_line(x + *i, j);                                                                                    \
                const vi##W v = *(const vi##W##_loose *)(const void *)(x + *i + j * LANES);                                  \
                key[j] = signed_keys_##W(v, flip, base);                                                                     \
                nan -= key[j] > most;                                                                                        \
                apart[j] = zero == zero;                                                                                     \
            }                                                                                                                \
            for (unsigned b = 0; b < r->n; b++) {                                                                            \
                const vi##W l = low[b], h = high[b];                                                                         \
                vi##W u = under[b];                                                                                          \
                _Pragma("GCC unroll 4") for (int j = 0; j < VECTORS; j++)                                                    \
                {                                                                                                            \
                    const vi##W less = l > key[j];                                                                           \
                    apart[j] &= less | (key[j] > h);                                                                         \
                    u -= less;                                                                                               \
                }                                                                                                            \
                under[b] = u;                                                                                                \
            }                                                                                                                \
            _Pragma("GCC unroll 4") for (int j = 0; j < VECTORS; j++)                                                        \
                kept += keep_keys_##W(out + kept, ~apart[j], key[j] ^ (int##W##_t)half);                                     \
        }                                                                                                                    \
        for (int j = 0; j < LANES; j++) {                                                                                    \
            for (unsigned b = 0; b < r->n; b++)                                                                              \
                below[b] += (uint##W##_t)under[b][j];                                                                        \
            *nans += (uint##W##_t)nan[j];                                                                                    \
        }                                                                                                                    \
        return kept;                                                                                                         \
    }
INSIDE_VECTORS_OF(16)
INSIDE_VECTORS_OF(32)
INSIDE_VECTORS_OF(64)

#endif

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
#endif
