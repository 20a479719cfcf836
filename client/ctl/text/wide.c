#include "client/ctl/text/wide.h"

#include <string.h>

#include "kernels/exact/quotient.h"

typedef unsigned __int128 u128;

enum { TOGETHER = 15 /* digits, also hexadecimal ones, that fit 64 bits in any case */ };

/* Returns 16 if it is not a digit. */
static unsigned digit_of(char c)
{
    char letter = (char)(c | 0x20);
    return c >= '0' && c <= '9' ? (unsigned)(c - '0') : letter >= 'a' && letter <= 'f' ? (unsigned)(letter - 'a') + 10 : 16;
}

/* The digits [p, end). False: one is not, or they are *beyond 128 bits. */
static bool parse_digits(const char *p, const char *end, unsigned base, u128 *v, bool *beyond)
{
    *v = 0;
    while (p < end) {
        uint64_t part = 0, scale = 1;
        for (int k = 0; k < TOGETHER && p < end; k++, p++, scale *= base) {
            unsigned digit = digit_of(*p);
            if (digit >= base)
                return false;
            part = part * base + digit;
        }
        *beyond |= __builtin_mul_overflow(*v, (u128)scale, v) || __builtin_add_overflow(*v, (u128)part, v);
    }
    return !*beyond;
}

static void negate(ctl_wide *v)
{
    uint64_t carry = 1;
    for (int i = 0; i < CTL_WIDE_LIMBS; i++) {
        v->limb[i] = ~v->limb[i] + carry;
        carry = carry && !v->limb[i];
    }
}

bool ctl_wide_parse(const char *p, const char *end, ctl_wide *out, bool *beyond)
{
    u128 v;
    bool negative = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    bool hex = end - p > 2 && p[0] == '0' && (p[1] | 0x20) == 'x';
    *beyond = false;
    if (p == end || !parse_digits(hex ? p + 2 : p, end, hex ? 16 : 10, &v, beyond))
        return false;
    *out = (ctl_wide){{(uint64_t)v, (uint64_t)(v >> 64), 0}};
    if (negative)
        negate(out);
    return true;
}

void ctl_wide_add(ctl_wide *sum, const ctl_wide *v)
{
    u128 carry = 0;
    for (int i = 0; i < CTL_WIDE_LIMBS; i++) {
        carry += (u128)sum->limb[i] + v->limb[i];
        sum->limb[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

static bool is_negative(const ctl_wide *v) { return v->limb[CTL_WIDE_LIMBS - 1] >> 63; }

bool ctl_wide_less(const ctl_wide *a, const ctl_wide *b)
{
    if (is_negative(a) != is_negative(b))
        return is_negative(a);
    for (int i = CTL_WIDE_LIMBS - 1; i >= 0; i--)
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i];
    return false;
}

/* Divide a magnitude by ten; returns the remainder. */
static unsigned divide_by_ten(ctl_wide *v)
{
    u128 rest = 0;
    for (int i = CTL_WIDE_LIMBS - 1; i >= 0; i--) {
        rest = rest << 64 | v->limb[i];
        v->limb[i] = (uint64_t)(rest / 10);
        rest %= 10;
    }
    return (unsigned)rest;
}

char *ctl_wide_text(char out[CTL_WIDE_DIGITS], const ctl_wide *v)
{
    static const ctl_wide zero = {{0}};
    ctl_wide left = *v;
    char *p = out + CTL_WIDE_DIGITS - 1;
    if (is_negative(v))
        negate(&left);
    *p = 0;
    do
        *--p = (char)('0' + divide_by_ten(&left));
    while (ctl_wide_less(&zero, &left));
    if (is_negative(v))
        *--p = '-';
    memmove(out, p, strlen(p) + 1);
    return out;
}

uint64_t ctl_wide_mean(const ctl_wide *sum, uint64_t count, int dtype)
{
    return rk_round_top(rk_divide(sum->limb, CTL_WIDE_LIMBS, 0, count, 1, 1), is_negative(sum), rk_format_of(dtype));
}
