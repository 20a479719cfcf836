/* Values as text. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

/* ---- 16-bit floats: their values, exactly, as doubles ---- */

typedef struct small_float {
    int fraction_bits;
    int bias;
    int top; /* exponent field of infinities and NaNs */
} small_float;

static const small_float HALF = {10, 15, 31}, BRAIN = {7, 127, 255};

/* Value of the magnitude bits (no sign). The first pattern past the largest finite number counts as the next power of two:
 * where rounding to infinity begins. */
static double magnitude(small_float f, unsigned bits)
{
    int field = (int)(bits >> f.fraction_bits);
    unsigned fraction = bits & ((1u << f.fraction_bits) - 1);
    if (field)
        fraction |= 1u << f.fraction_bits;
    return ldexp(fraction, (field ? field : 1) - f.bias - f.fraction_bits);
}

/* Does a reader, who rounds to nearest even, get `bits` from the double y > 0? */
static bool reads_as(small_float f, unsigned bits, double y)
{
    double x = magnitude(f, bits), above = (x + magnitude(f, bits + 1)) / 2;
    double below = bits ? (x + magnitude(f, bits - 1)) / 2 : 0;
    bool even = bits % 2 == 0;
    return even ? y >= below && y <= above : y > below && y < above;
}

/* ---- shortest decimals ---- */

static bool same_f64(const char *text, double v) { return strtod(text, NULL) == v; }
static bool same_f32(const char *text, double v) { return strtof(text, NULL) == (float)v; }

/* Rewrite "-d.ddde+XX" as people write numbers: without exponent from 1e-5 up to 17 digits before the point. */
static void plain(char *out)
{
    char digits[24], *e = strchr(out, 'e');
    int exponent = atoi(e + 1), n = 0;
    bool negative = out[0] == '-';
    for (char *p = out; p < e; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    digits[n] = 0;
    char *w = out + negative;
    if (exponent >= 17 || exponent < -5)
        sprintf(w, "%c%s%se%d", digits[0], n > 1 ? "." : "", digits + 1, exponent);
    else if (exponent < 0)
        sprintf(w, "0.%.*s%s", -exponent - 1, "00000", digits);
    else if (n <= exponent + 1)
        sprintf(w, "%s%.*s", digits, exponent + 1 - n, "0000000000000000");
    else
        sprintf(w, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
}

static void shortest(char *out, double v, bool (*same)(const char *, double))
{
    for (int digits = 0; digits < 17; digits++) {
        snprintf(out, CTL_MAX_NUMBER, "%.*e", digits, v);
        if (same(out, v))
            break;
    }
    plain(out);
}

static void shortest_small(char *out, small_float f, unsigned bits, bool negative)
{
    double v = magnitude(f, bits);
    for (int digits = 0; digits < 17; digits++) {
        snprintf(out, CTL_MAX_NUMBER, "%s%.*e", negative ? "-" : "", digits, v);
        if (reads_as(f, bits, strtod(out + negative, NULL)))
            break;
    }
    plain(out);
}

/* One spelling for all types: "nan" has no sign. */
static bool special(char *out, bool nan, bool inf, bool negative)
{
    if (nan || inf)
        snprintf(out, CTL_MAX_NUMBER, "%s", nan ? "nan" : negative ? "-inf" : "inf");
    return nan || inf;
}

static void wide_float(char *out, double v, bool hex, bool (*same)(const char *, double))
{
    if (special(out, isnan(v), isinf(v), signbit(v)))
        return;
    if (hex)
        snprintf(out, CTL_MAX_NUMBER, "%a", v);
    else
        shortest(out, v, same);
}

static void narrow_float(char *out, small_float f, unsigned bits, bool hex)
{
    bool negative = bits >> 15;
    bits &= 0x7fff;
    unsigned infinity = (unsigned)f.top << f.fraction_bits;
    if (special(out, bits > infinity, bits == infinity, negative))
        return;
    if (hex)
        snprintf(out, CTL_MAX_NUMBER, "%a", negative ? -magnitude(f, bits) : magnitude(f, bits));
    else
        shortest_small(out, f, bits, negative);
}

/* ---- public ---- */

char *ctl_number(char out[CTL_MAX_NUMBER], int dtype, const void *cell, bool hex)
{
    uint64_t u = 0;
    float f;
    double d;
    memcpy(&u, cell, reduce_dtype_size(dtype)); /* little-endian, as everything here */
    memcpy(&f, &u, sizeof f);
    memcpy(&d, &u, sizeof d);
    switch (dtype) {
    case REDUCE_F64:
        wide_float(out, d, hex, same_f64);
        break;
    case REDUCE_F32:
        wide_float(out, f, hex, same_f32);
        break;
    case REDUCE_F16:
        narrow_float(out, HALF, (unsigned)u, hex);
        break;
    case REDUCE_BF16:
        narrow_float(out, BRAIN, (unsigned)u, hex);
        break;
    case REDUCE_I64:
        snprintf(out, CTL_MAX_NUMBER, "%" PRId64, (int64_t)u);
        break;
    default: /* replies have no other types than these and u64 */
        snprintf(out, CTL_MAX_NUMBER, "%" PRIu64, u);
    }
    return out;
}

char *ctl_int128(char out[CTL_MAX_NUMBER], uint64_t low, uint64_t high)
{
    unsigned __int128 v = (unsigned __int128)high << 64 | low;
    bool negative = high >> 63;
    if (negative)
        v = -v;
    char *p = out + CTL_MAX_NUMBER - 1;
    *p = 0;
    do
        *--p = (char)('0' + (int)(v % 10));
    while (v /= 10);
    if (negative)
        *--p = '-';
    memmove(out, p, strlen(p) + 1);
    return out;
}

/* Length of the UTF-8 character at s, 0 if there is none. Over-long forms and surrogates are not UTF-8. */
static int utf8_length(const unsigned char *s)
{
    int n = s[0] < 0x80                   ? 1
            : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
            : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
            : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                          : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

void ctl_json_string(FILE *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    fputc('"', out);
    while (*s) {
        int n = utf8_length(s);
        if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (n == 0 || *s < ' ' || *s == 127) /* a byte that is no text: as Latin-1 */
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n ? n : 1;
    }
    fputc('"', out);
}
