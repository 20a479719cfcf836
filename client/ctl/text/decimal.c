/* Shortest decimals of floats. */
#include "client/ctl/text/decimal.h"

#include <string.h>

#include "client/ctl/text/powers.h"

typedef unsigned __int128 u128;

/* ---- shortest decimals ---- */

/* The upper 64 bits of g * c / 2^64, whose last bit is set if anything is below it. */
static uint64_t times_to_odd(ctl_power g, uint64_t c)
{
    u128 low = (u128)g.low * c, high = (u128)g.high * c + (uint64_t)(low >> 64);
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

static ctl_decimal without_zeros(uint64_t digits, int exponent)
{
    for (; digits % 10 == 0; digits /= 10)
        exponent++;
    return (ctl_decimal){digits, exponent};
}

ctl_decimal ctl_shortest(ctl_float f)
{
    uint64_t c = f.fraction;
    int q = f.exponent;
    if (q <= 0 && q > -53 && (c & ((UINT64_C(1) << -q) - 1)) == 0) /* a whole number: all its digits are significant */
        return without_zeros(c >> -q, 0);
    /* The float and the ends of what is rounded to it, in units of 10^k / 4, to odd. An odd fraction's ends are not its own. */
    int k = (q * 1262611 - (f.closer ? 524031 : 0)) >> 22; /* floor(log10) of 2^q, or of 3/4 of it */
    int h = q + ctl_log2_power(-k) + 1;
    ctl_power g = ctl_powers()[-k - CTL_POWER_MIN];
    uint64_t low = times_to_odd(g, (4 * c - 2 + f.closer) << h) + (c & 1);
    uint64_t mid = times_to_odd(g, (4 * c) << h);
    uint64_t high = times_to_odd(g, (4 * c + 2) << h) - (c & 1);
    uint64_t s = mid / 4, tens = s / 10;
    bool below = low <= 40 * tens, above = 40 * tens + 40 <= high;
    if (s >= 10 && below != above) /* exactly one multiple of 10^(k+1) is within the bounds: it is the shortest */
        return without_zeros(tens + above, k + 1);
    below = low <= 4 * s;
    above = 4 * s + 4 <= high;
    if (below != above)
        return (ctl_decimal){s + above, k};
    uint64_t half = 4 * s + 2;
    return (ctl_decimal){s + (mid > half || (mid == half && (s & 1))), k};
}

/* ---- digits ---- */

/* Fours, then pairs, then all eight, side by side in a word. */
static void put_eight(char *out, uint32_t v)
{
    uint64_t fours = v / 10000 | (uint64_t)(v % 10000) << 32;
    uint64_t hundreds = (fours * 10486 >> 20) & UINT64_C(0x0000007f0000007f);
    uint64_t pairs = hundreds | (fours - 100 * hundreds) << 16;
    uint64_t tens = (pairs * 103 >> 10) & UINT64_C(0x000f000f000f000f);
    uint64_t digits = (tens | (pairs - 10 * tens) << 8) | UINT64_C(0x3030303030303030);
    memcpy(out, &digits, sizeof digits);
}

static int count_digits(uint64_t v)
{
    static const uint64_t power[] = {0,
                                     UINT64_C(10),
                                     UINT64_C(100),
                                     UINT64_C(1000),
                                     UINT64_C(10000),
                                     UINT64_C(100000),
                                     UINT64_C(1000000),
                                     UINT64_C(10000000),
                                     UINT64_C(100000000),
                                     UINT64_C(1000000000),
                                     UINT64_C(10000000000),
                                     UINT64_C(100000000000),
                                     UINT64_C(1000000000000),
                                     UINT64_C(10000000000000),
                                     UINT64_C(100000000000000),
                                     UINT64_C(1000000000000000),
                                     UINT64_C(10000000000000000),
                                     UINT64_C(100000000000000000),
                                     UINT64_C(1000000000000000000),
                                     UINT64_C(10000000000000000000)};
    int about = (64 - __builtin_clzll(v | 1)) * 1233 >> 12; /* digits, or one less; of 0 as of 1 */
    return about + (v >= power[about]);
}

char *ctl_put_u64(char *out, uint64_t v)
{
    char all[24];
    int n = count_digits(v);
    put_eight(all, (uint32_t)(v / UINT64_C(10000000000000000)));
    put_eight(all + 8, (uint32_t)(v / 100000000 % 100000000));
    put_eight(all + 16, (uint32_t)(v % 100000000));
    memcpy(out, all + sizeof all - n, (size_t)n);
    return out + n;
}

static char *put_exponent(char *out, int e)
{
    *out++ = 'e';
    if (e < 0)
        *out++ = '-';
    return ctl_put_u64(out, (uint64_t)(e < 0 ? -e : e));
}

enum { MOST = 17 /* digits of a float */ };

/* A fixed length is copied and the excess overwritten later, because the number of digits varies unpredictably. */
char *ctl_put_decimal(char *out, ctl_decimal d)
{
    char all[2 * MOST + 2];
    int n = count_digits(d.digits), point = n + d.exponent; /* digits before the point */
    const char *digits = all + MOST - n;
    all[0] = (char)('0' + d.digits / UINT64_C(10000000000000000));
    put_eight(all + 1, (uint32_t)(d.digits / 100000000 % 100000000));
    put_eight(all + 9, (uint32_t)(d.digits % 100000000));
    if (point > MOST || point < -4) {
        out[0] = digits[0];
        out[1] = '.';
        memcpy(out + 2, digits + 1, MOST);
        return put_exponent(out + (n > 1 ? n + 1 : 1), point - 1);
    }
    if (point <= 0) {
        memcpy(out, "0.00000", 7);
        memcpy(out + 2 - point, digits, MOST);
        return out + 2 - point + n;
    }
    memcpy(out, digits, MOST);
    if (point < n) {
        out[point] = '.';
        memcpy(out + point + 1, digits + point, MOST);
        return out + n + 1;
    }
    memset(out + n, '0', (size_t)(point - n));
    return out + point;
}
