/* Values as text. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

/* ---- shortest decimals ---- */

static bool print_same_f64(const char *text, double v) { return strtod(text, NULL) == v; }
static bool print_same_f32(const char *text, double v) { return strtof(text, NULL) == (float)v; }

/* Does a reader that rounds to nearest even get the magnitude `bits` from the double y? */
static bool same_narrow(int dtype, unsigned bits, double y) { return ctl_half_round(dtype, y) == bits; }

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

static void shortest_narrow(char *out, int dtype, unsigned bits, bool negative)
{
    double v = ctl_half_value(dtype, bits);
    for (int digits = 0; digits < 17; digits++) {
        snprintf(out, CTL_MAX_NUMBER, "%s%.*e", negative ? "-" : "", digits, v);
        if (same_narrow(dtype, bits, strtod(out + negative, NULL)))
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

static void narrow_float(char *out, int dtype, unsigned bits, bool hex)
{
    bool negative = bits >> 15;
    bits &= 0x7fff;
    unsigned infinity = ctl_half_infinity(dtype);
    if (special(out, bits > infinity, bits == infinity, negative))
        return;
    double v = ctl_half_value(dtype, bits);
    if (hex)
        snprintf(out, CTL_MAX_NUMBER, "%a", negative ? -v : v);
    else
        shortest_narrow(out, dtype, bits, negative);
}

/* ---- numbers ---- */

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
        wide_float(out, d, hex, print_same_f64);
        break;
    case REDUCE_F32:
        wide_float(out, f, hex, print_same_f32);
        break;
    case REDUCE_F16:
    case REDUCE_BF16:
        narrow_float(out, dtype, (unsigned)u, hex);
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

/* ---- the values of a cell ---- */

static void put_index(ctl_value *v, uint64_t index)
{
    if (index == REDUCE_NO_INDEX) /* of no element, or of `initial` */
        snprintf(v->text, sizeof v->text, "none");
    else
        ctl_number(v->text, REDUCE_U64, &index, false);
}

static int put_stats(ctl_value *out, int dtype, const reduce_stats *s, bool hex)
{
    static const char *const names[CTL_MAX_VALUES] = {"count",  "nans", "zeros", "min", "max", "argmin",
                                                      "argmax", "sum",  "mean",  "var", "std"};
    for (int i = 0; i < CTL_MAX_VALUES; i++)
        out[i].name = names[i];
    ctl_number(out[0].text, REDUCE_U64, &s->count, hex);
    ctl_number(out[1].text, REDUCE_U64, &s->nans, hex);
    ctl_number(out[2].text, REDUCE_U64, &s->zeros, hex);
    for (int i = 0; i < 2; i++)
        if (s->count)
            ctl_number(out[3 + i].text, dtype, i ? &s->max : &s->min, hex);
        else
            snprintf(out[3 + i].text, sizeof out[3 + i].text, "none");
    put_index(&out[5], s->argmin);
    put_index(&out[6], s->argmax);
    if (dtype == REDUCE_F64)
        ctl_number(out[7].text, dtype, &s->sum, hex);
    else
        ctl_int128(out[7].text, s->sum.u64, s->sum_high);
    ctl_number(out[8].text, REDUCE_F64, &s->mean, hex);
    ctl_number(out[9].text, REDUCE_F64, &s->var, hex);
    ctl_number(out[10].text, REDUCE_F64, &s->std, hex);
    return CTL_MAX_VALUES;
}

int ctl_values(ctl_value out[CTL_MAX_VALUES], int op, int dtype, const void *cell, bool hex)
{
    uint64_t word;
    reduce_stats stats;
    out[0].name = out[1].name = NULL;
    switch (op) {
    case REDUCE_STATS:
        memcpy(&stats, cell, sizeof stats);
        return put_stats(out, dtype, &stats, hex);
    case REDUCE_MINMAX:
        ctl_number(out[0].text, dtype, cell, hex);
        ctl_number(out[1].text, dtype, (const uint8_t *)cell + reduce_dtype_size(dtype), hex);
        return 2;
    case REDUCE_ANY:
    case REDUCE_ALL:
        memcpy(&word, cell, sizeof word);
        snprintf(out[0].text, sizeof out[0].text, "%s", word ? "true" : "false");
        return 1;
    case REDUCE_ARGMIN:
    case REDUCE_ARGMAX:
        memcpy(&word, cell, sizeof word);
        put_index(&out[0], word);
        return 1;
    default:
        ctl_number(out[0].text, dtype, cell, hex);
        return 1;
    }
}

/* ---- JSON strings ---- */

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
        else if (n == 0 || *s < ' ' || *s == 127) /* a byte that is not text: as Latin-1 */
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n ? n : 1;
    }
    fputc('"', out);
}
