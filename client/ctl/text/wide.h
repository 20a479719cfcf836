/* Integers of up to 128 bits beside their sign, and exact sums of up to 2^60 of them. Pure. */
#ifndef CTL_WIDE_H
#define CTL_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CTL_WIDE_LIMBS = 3, CTL_WIDE_DIGITS = 64 /* bytes that the decimal of any value fits */ };

/* Two's complement, the lowest limb first */
typedef struct ctl_wide {
    uint64_t limb[CTL_WIDE_LIMBS];
} ctl_wide;

/* The token [p, end), an integer as of ctl_parse_magnitude. False: it is something else, or *beyond 128 bits. */
bool ctl_wide_parse(const char *p, const char *end, ctl_wide *out, bool *beyond);
void ctl_wide_add(ctl_wide *sum, const ctl_wide *v);
bool ctl_wide_less(const ctl_wide *a, const ctl_wide *b);
/* In decimal. Returns out. */
char *ctl_wide_text(char out[CTL_WIDE_DIGITS], const ctl_wide *v);
/* The bits of sum / count as the float type `dtype`, rounded once. */
uint64_t ctl_wide_mean(const ctl_wide *sum, uint64_t count, int dtype);

#endif
