/* Which of 64 bytes of text are of a kind: a bit for each, the first one lowest. */
#ifndef CTL_TEXT_BLOCK_H
#define CTL_TEXT_BLOCK_H

#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { CTL_BLOCK = 64 };

#ifdef __SSE2__
/* A bit for each byte from `low` to `low` + `more`, or that is `other`. */
static inline uint64_t ctl_bits_of(const char *p, char low, char more, char other)
{
    uint64_t bits = 0;
    for (int i = 0; i < CTL_BLOCK; i += 16) {
        __m128i v = _mm_loadu_si128((const void *)(p + i)), above = _mm_sub_epi8(v, _mm_set1_epi8(low));
        __m128i within = _mm_cmpeq_epi8(_mm_min_epu8(above, _mm_set1_epi8(more)), above);
        if (other != low)
            within = _mm_or_si128(within, _mm_cmpeq_epi8(v, _mm_set1_epi8(other)));
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(within) << i;
    }
    return bits;
}
#else
static inline uint64_t ctl_bits_of(const char *p, char low, char more, char other)
{
    uint64_t bits = 0;
    for (int i = 0; i < CTL_BLOCK; i++)
        bits |= (uint64_t)((p[i] >= low && p[i] - low <= more) || p[i] == other) << i;
    return bits;
}
#endif

static inline uint64_t ctl_blanks(const char *p) { return ctl_bits_of(p, '\t', '\r' - '\t', ' '); }
static inline uint64_t ctl_digits(const char *p) { return ctl_bits_of(p, '0', 9, '0'); }
static inline uint64_t ctl_equal(const char *p, char c) { return ctl_bits_of(p, c, 0, c); }

#endif
