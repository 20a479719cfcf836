/* Values as text. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/decimal.h"

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

char *ctl_put_number(char out[CTL_MAX_NUMBER], int dtype, const void *cell, bool hex)
{
    size_t size = reduce_dtype_size(dtype);
    uint64_t u = 0; /* little-endian, as everything here */
    if (size == sizeof u)
        memcpy(&u, cell, sizeof u);
    else
        memcpy(&u, cell, size);
    if (dtype >= REDUCE_F16)
        return put_float(out, dtype, u, hex);
    if (dtype == REDUCE_I64 && u >> 63) {
        *out++ = '-';
        u = 0 - u;
    }
    return ctl_put_u64(out, u); /* replies have no other types than these and u64 */
}

char *ctl_number(char out[CTL_MAX_NUMBER], int dtype, const void *cell, bool hex)
{
    *ctl_put_number(out, dtype, cell, hex) = 0;
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
    }
    ctl_number(out[0].text, dtype, cell, hex);
    return 1;
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
        else if (n == 0 || *s < ' ' || *s == 127) /* a byte that is not UTF-8 is shown as Latin-1 */
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n ? n : 1;
    }
    fputc('"', out);
}
