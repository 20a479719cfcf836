/* Values as text. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/text/decimal.h"
#include "proto/clean.h"

/* ---- floats ---- */

/* A float type: its bits, those of its fraction, and the exponent of the last of them in the smallest normal number */
typedef struct layout {
    int bits, fraction_bits, least_exponent;
} layout;

static layout layout_of(int dtype)
{
    static const layout f16 = {16, 10, -24}, bf16 = {16, 7, -133}, f32 = {32, 23, -149}, f64 = {64, 52, -1074};
    return dtype == REDUCE_F64 ? f64 : dtype == REDUCE_F32 ? f32 : dtype == REDUCE_F16 ? f16 : bf16;
}

static char *put_text(char *out, const char *text)
{
    size_t n = strlen(text);
    memcpy(out, text, n);
    return out + n;
}

/* The shortest decimal of a finite magnitude. */
static char *put_shortest(char *out, layout l, uint64_t magnitude)
{
    uint64_t fraction = magnitude & ((UINT64_C(1) << l.fraction_bits) - 1);
    int field = (int)(magnitude >> l.fraction_bits);
    ctl_float f = {.fraction = fraction, .exponent = l.least_exponent, .closer = fraction == 0 && field > 1};
    if (field) {
        f.fraction |= UINT64_C(1) << l.fraction_bits;
        f.exponent += field - 1;
    }
    return ctl_put_decimal(out, ctl_shortest(f));
}

/* One spelling for all types: "nan" has no sign. */
static char *put_float(char *out, int dtype, uint64_t bits, bool hex)
{
    layout l = layout_of(dtype);
    uint64_t sign = UINT64_C(1) << (l.bits - 1), magnitude = bits & (sign - 1);
    uint64_t infinity = (sign - 1) >> l.fraction_bits << l.fraction_bits;
    if (magnitude > infinity)
        return put_text(out, "nan");
    if (bits & sign)
        *out++ = '-';
    if (magnitude == infinity)
        return put_text(out, "inf");
    if (magnitude == 0 && !hex)
        return put_text(out, "0");
    if (!hex)
        return put_shortest(out, l, magnitude);
    int field = (int)(magnitude >> l.fraction_bits);
    uint64_t fraction = magnitude - ((uint64_t)field << l.fraction_bits) + ((uint64_t)(field > 0) << l.fraction_bits);
    return out + snprintf(out, CTL_MAX_NUMBER - 1, "%a", ldexp((double)fraction, l.least_exponent + (field ? field - 1 : 0)));
}

/* ---- numbers ---- */

/* As ctl_number, without the 0 byte; returns the end. */
static char *put_number(char out[CTL_MAX_NUMBER], int dtype, const void *cell, bool hex)
{
    size_t size = reduce_dtype_size(dtype);
    uint64_t u = 0; /* little-endian, as everything here */
    if (size == sizeof u)
        memcpy(&u, cell, sizeof u);
    else
        memcpy(&u, cell, size);
    if (ctl_is_float(dtype))
        return put_float(out, dtype, u, hex);
    const uint64_t sign = ctl_is_signed(dtype) ? UINT64_C(1) << (8 * size - 1) : 0;
    if (u & sign) {
        *out++ = '-';
        u = 2 * sign - u;
    }
    return ctl_put_u64(out, u);
}

char *ctl_number(char out[CTL_MAX_NUMBER], int dtype, const void *cell, bool hex)
{
    *put_number(out, dtype, cell, hex) = 0;
    return out;
}

static char *put_int128(char *out, uint64_t low, uint64_t high)
{
    unsigned __int128 v = (unsigned __int128)high << 64 | low;
    if (high >> 63) {
        *out++ = '-';
        v = -v;
    }
    if (!(v >> 64))
        return ctl_put_u64(out, (uint64_t)v);
    char digits[CTL_MAX_NUMBER], *p = digits + sizeof digits;
    for (; v; v /= 10)
        *--p = (char)('0' + (int)(v % 10));
    size_t n = (size_t)(digits + sizeof digits - p);
    memcpy(out, p, n);
    return out + n;
}

char *ctl_int128(char out[CTL_MAX_NUMBER], uint64_t low, uint64_t high)
{
    *put_int128(out, low, high) = 0;
    return out;
}

/* ---- the values of a cell ---- */

/* Those of stats: what they are, and where in reduce_stats */
typedef enum { COUNT, EXTREME, INDEX, SUM, FLOAT } stat_kind;

#define STAT(name, kind)                          \
    {                                             \
#name, kind, offsetof(reduce_stats, name) \
    }
static const struct stat {
    const char *name;
    stat_kind kind;
    size_t at;
} stats[CTL_STATS] = {STAT(count, COUNT), STAT(nans, COUNT),   STAT(zeros, COUNT),  STAT(min, EXTREME),
                      STAT(max, EXTREME), STAT(argmin, INDEX), STAT(argmax, INDEX), STAT(sum, SUM),
                      STAT(mean, FLOAT),  STAT(var, FLOAT),    STAT(std, FLOAT)};
#undef STAT

static uint64_t word_at(const void *cell, size_t at)
{
    uint64_t word;
    memcpy(&word, (const uint8_t *)cell + at, sizeof word);
    return word;
}

static char *put_index(char *out, uint64_t index)
{
    return index == REDUCE_NO_INDEX ? put_text(out, "none") /* of no element, or of `initial` */ : ctl_put_u64(out, index);
}

static char *put_stat(char *out, struct stat s, int dtype, const void *cell, bool hex)
{
    const void *value = (const uint8_t *)cell + s.at;
    switch (s.kind) {
    case COUNT:
        return ctl_put_u64(out, word_at(value, 0));
    case EXTREME:
        return word_at(cell, offsetof(reduce_stats, count)) ? put_number(out, dtype, value, hex) : put_text(out, "none");
    case INDEX:
        return put_index(out, word_at(value, 0));
    case SUM:
        return dtype == REDUCE_F64 ? put_number(out, dtype, value, hex)
                                   : put_int128(out, word_at(value, 0), word_at(cell, offsetof(reduce_stats, sum_high)));
    case FLOAT:
        break;
    }
    return put_number(out, REDUCE_F64, value, hex);
}

int ctl_count_values(int op, int dtype, size_t size)
{
    if (op == REDUCE_QUANTILE)
        return (int)(size / reduce_dtype_size(dtype));
    if (op == REDUCE_STATS)
        return CTL_STATS + (size > sizeof(reduce_stats) ? CTL_QUARTILES : 0);
    return op == REDUCE_MINMAX ? 2 : 1;
}

const char *ctl_value_name(int op, int i)
{
    static const char *const quartiles[CTL_QUARTILES] = {"p25", "p50", "p75"};
    return op != REDUCE_STATS ? NULL : i < CTL_STATS ? stats[i].name : quartiles[i - CTL_STATS];
}

char *ctl_put_value(char out[CTL_MAX_NUMBER], int i, int op, int dtype, const void *cell, bool hex)
{
    switch (op) {
    case REDUCE_STATS:
        if (i >= CTL_STATS)
            return put_number(out, REDUCE_F64,
                              (const uint8_t *)cell + sizeof(reduce_stats) + sizeof(double) * (size_t)(i - CTL_STATS), hex);
        return put_stat(out, stats[i], dtype, cell, hex);
    case REDUCE_MINMAX:
    case REDUCE_QUANTILE:
        return put_number(out, dtype, (const uint8_t *)cell + (size_t)i * reduce_dtype_size(dtype), hex);
    case REDUCE_ANY:
    case REDUCE_ALL:
        return put_text(out, word_at(cell, 0) ? "true" : "false");
    case REDUCE_ARGMIN:
    case REDUCE_ARGMAX:
        return put_index(out, word_at(cell, 0));
    }
    return put_number(out, dtype, cell, hex);
}

int ctl_values(ctl_value out[CTL_MAX_VALUES], int op, int dtype, const void *cell, size_t size, bool hex)
{
    const int n = ctl_count_values(op, dtype, size);
    for (int i = 0; i < n; i++) {
        out[i].name = ctl_value_name(op, i);
        *ctl_put_value(out[i].text, i, op, dtype, cell, hex) = 0;
    }
    return n;
}

/* ---- JSON ---- */

/* Is it an integer that readers with doubles only would change? */
static bool beyond_doubles(const char *text)
{
    static const char most[] = "9007199254740992"; /* 2^53 */
    const char *digits = text + (*text == '-');
    size_t n = strspn(digits, "0123456789");
    return !digits[n] && (n > strlen(most) || (n == strlen(most) && strcmp(digits, most) > 0));
}

void ctl_json_value(const ctl_options *o, const char *text)
{
    bool word = !strcmp(text, "nan") || !strcmp(text, "inf") || !strcmp(text, "-inf") || !strcmp(text, "error");
    word |= o->json_strings && beyond_doubles(text);
    printf(word ? "\"%s\"" : "%s", strcmp(text, "none") ? text : "null");
}

void ctl_json_string(FILE *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    fputc('"', out);
    while (*s) {
        size_t n = rp_utf8_length((const char *)s);
        if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (n == 0 || *s < ' ' || *s == 127) /* a byte that is not UTF-8 is shown as Latin-1 */
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, n, out);
        s += n ? n : 1;
    }
    fputc('"', out);
}
