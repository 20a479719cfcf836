/* Decimal digits of text, many at a time. With SSE2 sixteen digits are joined by three multiplications of a vector, which is
 * the way of D. Lemire and G. Langdale ("Quickly parsing eight digits", 2018, after a note of W. Mula); without it eight
 * digits by three multiplications of a word. No branch depends on how many digits there are. */
#ifndef CTL_DIGIT_RUNS_H
#define CTL_DIGIT_RUNS_H

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
    CTL_LOW_DIGITS = 16,
    CTL_DIGITS_BACK = 24 /* bytes before the end of a number that have to be readable, however short it is */
};

#define CTL_HIGH_DIGIT UINT64_C(10000000000000000) /* the weight of the first digit before the low ones */

static inline uint64_t ctl_load_eight(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* At +n: a mask for CTL_DIGITS_BACK bytes, of which it keeps the last n, as the values of digits. */
static const uint8_t ctl_keep_digits[2 * CTL_DIGITS_BACK] = {
    [CTL_DIGITS_BACK] = 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15};

/* Eight digits in order, one a byte: pairs, then fours, then all eight. */
static inline uint64_t ctl_join_eight(uint64_t v)
{
    v = v * 2561 >> 8;
    v = (v & UINT64_C(0x00ff00ff00ff00ff)) * 6553601 >> 16;
    return (v & UINT64_C(0x0000ffff0000ffff)) * UINT64_C(42949672960001) >> 32;
}

/* Of the eight bytes that begin `back` bytes before `end`, those among the last `n` before `end`, as digits. */
static inline uint64_t ctl_value_of_eight(const char *end, long n, int back)
{
    return ctl_join_eight(ctl_load_eight(end - back) &
                          ctl_load_eight((const char *)ctl_keep_digits + CTL_DIGITS_BACK - back + n));
}

/* The value of the last CTL_LOW_DIGITS of the `n` digits before `end`, 0 to CTL_DIGITS_BACK. */
static inline uint64_t ctl_low_digits(const char *end, long n)
{
#ifdef __SSE2__
    __m128i v = _mm_and_si128(_mm_loadu_si128((const void *)(end - 16)),
                              _mm_loadu_si128((const void *)(ctl_keep_digits + 8 + n)));
    v = _mm_srli_epi16(_mm_mullo_epi16(v, _mm_set1_epi16(2561)), 8);
    v = _mm_madd_epi16(v, _mm_set1_epi32(65636));                     /* 100 and 1 */
    v = _mm_madd_epi16(_mm_packs_epi32(v, v), _mm_set1_epi32(75536)); /* 10000 and 1 */
    uint64_t both = (uint64_t)_mm_cvtsi128_si64(v);
    return (both & UINT32_MAX) * 100000000 + (both >> 32);
#else
    return ctl_value_of_eight(end, n, 16) * 100000000 + ctl_value_of_eight(end, n, 8);
#endif
}

/* The value of those before them in units of CTL_HIGH_DIGIT. */
static inline uint64_t ctl_high_digits(const char *end, long n) { return ctl_value_of_eight(end, n, 24); }

#endif
