/* Which bytes of a block of text are of a kind: a bit for each, the first one lowest. After G. Langdale and D. Lemire, "Parsing
 * gigabytes of JSON per second", 2019. */
#ifndef CTL_TEXT_BLOCK_H
#define CTL_TEXT_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { CTL_BLOCK = 64 };

/* isspace of the C locale, independent of the current locale. */
static inline bool ctl_is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

#ifdef __SSE2__
/* Of `n` bytes, a multiple of 16 up to CTL_BLOCK: a bit for each from `low` to `low` + `more`, or that is `other`. */
static inline uint64_t ctl_bits_of(const char *p, int n, char low, char more, char other)
{
    uint64_t bits = 0;
#pragma GCC unroll 4
    for (int i = 0; i < n; i += 16) {
        __m128i v = _mm_loadu_si128((const void *)(p + i)), above = _mm_sub_epi8(v, _mm_set1_epi8(low));
        __m128i within = _mm_cmpeq_epi8(more ? _mm_min_epu8(above, _mm_set1_epi8(more)) : _mm_setzero_si128(), above);
        if (other != low)
            within = _mm_or_si128(within, _mm_cmpeq_epi8(v, _mm_set1_epi8(other)));
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(within) << i;
    }
    return bits;
}

/* How many bytes of a block are `c`. */
static inline uint64_t ctl_count_in_block(const char *p, char c)
{
    __m128i sum = _mm_setzero_si128();
#pragma GCC unroll 4
    for (int i = 0; i < CTL_BLOCK; i += 16)
        sum = _mm_sub_epi8(sum, _mm_cmpeq_epi8(_mm_loadu_si128((const void *)(p + i)), _mm_set1_epi8(c)));
    sum = _mm_sad_epu8(sum, _mm_setzero_si128());
    return (uint64_t)_mm_cvtsi128_si64(sum) + (uint64_t)_mm_cvtsi128_si64(_mm_srli_si128(sum, 8));
}
#else
static inline uint64_t ctl_bits_of(const char *p, int n, char low, char more, char other)
{
    uint64_t bits = 0;
    for (int i = 0; i < n; i++)
        bits |= (uint64_t)((p[i] >= low && p[i] - low <= more) || p[i] == other) << i;
    return bits;
}

static inline uint64_t ctl_count_in_block(const char *p, char c)
{
    uint64_t n = 0;
    for (int i = 0; i < CTL_BLOCK; i++)
        n += p[i] == c;
    return n;
}
#endif

static inline uint64_t ctl_blanks(const char *p) { return ctl_bits_of(p, CTL_BLOCK, '\t', '\r' - '\t', ' '); }
static inline uint64_t ctl_digits(const char *p) { return ctl_bits_of(p, CTL_BLOCK, '0', 9, '0'); }
static inline uint64_t ctl_equal(const char *p, char c) { return ctl_bits_of(p, CTL_BLOCK, c, 0, c); }

/* How many bytes of [p, end) are `c`. */
static inline uint64_t ctl_count(const char *p, const char *end, char c)
{
    uint64_t n = 0;
    for (; end - p >= CTL_BLOCK; p += CTL_BLOCK)
        n += ctl_count_in_block(p, c);
    for (; p < end; p++)
        n += *p == c;
    return n;
}

#endif
