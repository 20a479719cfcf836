/* Decimals as floats, by one product: D. Lemire, "Number parsing at a gigabyte per second", 2021. */
#ifndef CTL_NEAREST_FLOAT_H
#define CTL_NEAREST_FLOAT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "client/ctl/text/powers.h"

/* digits * 10^exponent, digits > 0, with the powers of ctl_powers(), rounded to `bits` bits: *m * 2^*e. The upper half of the
 * power is enough, unless the bits below the result's are next to the midpoint of two floats: then the lower half counts, too.
 * The product's error is below one in its last place: upwards from the power, downwards from cut bits. False: the decimal is so
 * near to the midpoint that the error matters. */
static inline bool ctl_round_decimal(const ctl_power *powers, uint64_t digits, int exponent, int bits, uint64_t *m, int *e)
{
    if (exponent < CTL_POWER_MIN || exponent > CTL_POWER_MAX)
        return false;
    const ctl_power *g = &powers[exponent - CTL_POWER_MIN];
    int shift = __builtin_clzll(digits);
    digits <<= shift;
    unsigned __int128 product = (unsigned __int128)g->high * digits;
    int top = (int)(product >> 127); /* the product's highest bit is this one or the one below */
    uint64_t upper = (uint64_t)(product >> 64), half = UINT64_C(1) << (62 - bits + top), rest = upper & (2 * half - 1);
    if (rest - (half - 1) <= 1) {
        product += (unsigned __int128)g->low * digits >> 64;
        upper = (uint64_t)(product >> 64);
        rest = upper & (2 * half - 1);
        uint64_t lower = (uint64_t)product;
        if ((rest == half && lower <= 1) || (rest == half - 1 && lower == UINT64_MAX))
            return false;
    }
    *m = ((upper >> (62 - bits + top)) + 1) >> 1;
    *e = ctl_log2_power(exponent) + 64 - shift - bits + top;
    return true;
}

/* The bits of the f64 nearest to digits * 10^exponent (ties to even). False: uncertain, or outside the normal numbers; then the
 * C library must convert it. */
static inline bool ctl_nearest_f64(const ctl_power *powers, uint64_t digits, int exponent, uint64_t *out)
{
    uint64_t m;
    int e;
    *out = 0;
    if (exponent == 0 && digits <= UINT64_C(1) << 53) { /* it is one */
        double v = (double)digits;
        memcpy(out, &v, sizeof v);
        return true;
    }
    if (!digits)
        return true;
    if (!ctl_round_decimal(powers, digits, exponent, 53, &m, &e) || e < -1074 || e > 970)
        return false;
    *out = ((uint64_t)(e + 1074) << 52) + m; /* the leading bit counts as one in the exponent's field */
    return true;
}

/* The same of the f32. */
static inline bool ctl_nearest_f32(const ctl_power *powers, uint64_t digits, int exponent, uint32_t *out)
{
    uint64_t m;
    int e;
    *out = 0;
    if (!digits)
        return true;
    if (!ctl_round_decimal(powers, digits, exponent, 24, &m, &e) || e < -149 || e > 103)
        return false;
    *out = ((uint32_t)(e + 149) << 23) + (uint32_t)m;
    return true;
}

#endif
