/* Which of 64 bytes of text are of which kind: a bit for each, the first one lowest. */
#ifndef CTL_TEXT_BLOCK_H
#define CTL_TEXT_BLOCK_H

#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { CTL_BLOCK = 64 };

typedef struct ctl_block {
    uint64_t blank, feed, digit, zero, minus, plus;
} ctl_block;

#ifdef __SSE2__
static inline uint64_t ctl_bits_of(__m128i v) { return (uint32_t)_mm_movemask_epi8(v); }

/* Bytes from `low` to `low` + `more`. */
static inline uint64_t ctl_bits_from(__m128i v, char low, char more)
{
    v = _mm_sub_epi8(v, _mm_set1_epi8(low));
    return ctl_bits_of(_mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(more)), v));
}

static inline uint64_t ctl_bits_equal(__m128i v, char c) { return ctl_bits_of(_mm_cmpeq_epi8(v, _mm_set1_epi8(c))); }

static inline ctl_block ctl_look_at_block(const char *p)
{
    ctl_block b = {0};
    for (int i = 0; i < CTL_BLOCK; i += 16) {
        __m128i v = _mm_loadu_si128((const void *)(p + i));
        b.blank |= (ctl_bits_equal(v, ' ') | ctl_bits_from(v, '\t', '\r' - '\t')) << i;
        b.feed |= ctl_bits_equal(v, '\n') << i;
        b.digit |= ctl_bits_from(v, '0', 9) << i;
        b.zero |= ctl_bits_equal(v, '0') << i;
        b.minus |= ctl_bits_equal(v, '-') << i;
        b.plus |= ctl_bits_equal(v, '+') << i;
    }
    return b;
}
#else
static inline ctl_block ctl_look_at_block(const char *p)
{
    ctl_block b = {0};
    for (int i = 0; i < CTL_BLOCK; i++) {
        b.blank |= (uint64_t)(p[i] == ' ' || (p[i] >= '\t' && p[i] <= '\r')) << i;
        b.feed |= (uint64_t)(p[i] == '\n') << i;
        b.digit |= (uint64_t)(p[i] >= '0' && p[i] <= '9') << i;
        b.zero |= (uint64_t)(p[i] == '0') << i;
        b.minus |= (uint64_t)(p[i] == '-') << i;
        b.plus |= (uint64_t)(p[i] == '+') << i;
    }
    return b;
}
#endif

#endif
