/* One number as an element of some type. */
#include <errno.h>
#include <fenv.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/text/integers.h"

static bool bad(const char *text, const char *what, int dtype, char why[CTL_WHY])
{
    char clean[48];
    ctl_clean(clean, sizeof clean, text);
    snprintf(why, CTL_WHY, "'%s' is %s %s", clean, what, reduce_dtype_name(dtype));
    return false;
}

/* ---- integers ---- */

bool ctl_parse_magnitude(const char *text, bool *negative, uint64_t *magnitude, bool *fits)
{
    *negative = *text == '-';
    text += *text == '-' || *text == '+';
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = hex ? text + 2 : text, *all = hex ? "0123456789abcdefABCDEF" : "0123456789";
    char *end;
    if (!*digits || strspn(digits, all) != strlen(digits))
        return false;
    errno = 0;
    *magnitude = strtoull(digits, &end, hex ? 16 : 10);
    *fits = errno == 0;
    return true;
}

static bool integer(const char *text, int dtype, uint64_t *bits, char why[CTL_WHY])
{
    bool negative, fits;
    uint64_t magnitude;
    const ctl_integer_type type = ctl_integer_type_of(dtype);
    if (!ctl_parse_magnitude(text, &negative, &magnitude, &fits))
        return bad(text, "not a number of type", dtype, why);
    if (!fits || magnitude > type.most[negative])
        return bad(text, "out of the range of", dtype, why);
    *bits = (negative ? 0 - magnitude : magnitude) & (UINT64_MAX >> (64 - 8 * type.size));
    return true;
}

/* ---- floats ---- */

/* Rounds the text to odd: truncates it to a double, and sets the last bit if that was inexact. Rounding this to a type of far
 * fewer bits gives the same as rounding the text. */
static double to_odd(const char *text)
{
    int mode = fegetround();
    fesetround(FE_TOWARDZERO);
    double down = strtod(text, NULL);
    fesetround(FE_UPWARD);
    double up = strtod(text, NULL);
    fesetround(FE_DOWNWARD);
    double low = strtod(text, NULL);
    fesetround(mode);
    uint64_t odd;
    memcpy(&odd, &down, sizeof odd);
    odd |= up != low;
    memcpy(&down, &odd, sizeof odd);
    return down;
}

static uint64_t narrow(const char *text, int dtype)
{
    double v = to_odd(text);
    return ctl_half_round(dtype, fabs(v)) | (signbit(v) ? 0x8000u : 0);
}

static bool floating(const char *text, int dtype, uint64_t *bits, char why[CTL_WHY])
{
    char *end;
    double wide = strtod(text, &end);
    float single = strtof(text, NULL);
    uint32_t word;
    if (end == text || *end || text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r'))
        return bad(text, "not a number of type", dtype, why);
    bool special = isnan(wide) || strpbrk(text, "iI"), beyond = false; /* the text spells inf in letters */
    memcpy(&word, &single, sizeof word);
    *bits = word;
    if (dtype == REDUCE_F64) {
        memcpy(bits, &wide, sizeof wide);
        beyond = isinf(wide);
    } else if (dtype == REDUCE_F32) {
        beyond = isinf(single);
    } else if (isnan(wide)) {
        *bits = ctl_half_infinity(dtype) + 1; /* daemons treat all NaNs alike */
    } else {
        *bits = isinf(wide) ? ctl_half_infinity(dtype) | (wide < 0 ? 0x8000u : 0) : narrow(text, dtype);
        beyond = (*bits & 0x7fff) == ctl_half_infinity(dtype);
    }
    return special || !beyond || bad(text, "out of the range of", dtype, why);
}

bool ctl_parse_scalar(const char *text, int dtype, uint64_t *bits, char why[CTL_WHY])
{
    return ctl_is_float(dtype) ? floating(text, dtype, bits, why) : integer(text, dtype, bits, why);
}
