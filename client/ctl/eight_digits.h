/* Eight decimal digits at a time, side by side in a word. */
#ifndef CTL_EIGHT_DIGITS_H
#define CTL_EIGHT_DIGITS_H

#include <stdint.h>
#include <string.h>

static inline uint64_t ctl_load_eight(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The highest bit of each byte that is not a digit. */
static inline uint64_t ctl_other_than_digits(uint64_t v)
{
    const uint64_t zeros = UINT64_C(0x3030303030303030), low = UINT64_C(0x7f7f7f7f7f7f7f7f),
                   to_ten = UINT64_C(0x7676767676767676);
    v ^= zeros;
    return (((v & low) + to_ten) | v) & ~low;
}

/* Pairs, then fours, then all eight. A byte of 0 counts as the digit 0. */
static inline uint64_t ctl_value_of_eight(uint64_t v)
{
    v = (v & UINT64_C(0x0f0f0f0f0f0f0f0f)) * 2561 >> 8;
    v = (v & UINT64_C(0x00ff00ff00ff00ff)) * 6553601 >> 16;
    return (v & UINT64_C(0x0000ffff0000ffff)) * UINT64_C(42949672960001) >> 32;
}

#endif
