/* Numbers as text: white-space separated tokens, each read as the nearest element of a type. What is short and plain goes the
 * fast way; the C library has the last word about the rest. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/decimal.h"
#include "client/ctl/eight_digits.h"
#include "client/ctl/integers.h"

enum { MAX_DIGITS = 19 /* a number of that length fits 64 bits */ };

static bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* ---- what is plain: [+-]digits[.digits][e[+-]digits] ---- */

typedef struct plain {
    bool negative, whole; /* whole: no point and no exponent */
    uint64_t digits;
    int exponent;
} plain;

/* Without a branch for each digit: how many there are differs from number to number. */
static inline const char *take_digits(const char *p, const char *end, uint64_t *w)
{
    static const uint32_t power[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
    while (end - p >= 8) {
        uint64_t v = ctl_load_eight(p), other = ctl_other_than_digits(v);
        if (other) {
            int n = __builtin_ctzll(other) / 8;
            *w = *w * power[n] + ctl_value_of_eight(v << (56 - 8 * n) << 8);
            return p + n;
        }
        *w = *w * 100000000 + ctl_value_of_eight(v);
        p += 8;
    }
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        *w = *w * 10 + (uint64_t)(*p - '0');
    return p;
}

static const char *take_exponent(const char *p, const char *end, int *exponent)
{
    bool negative = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    const char *first = p;
    uint64_t e = 0;
    p = take_digits(p, end, &e);
    if (p == first || p - first > 4)
        return NULL;
    *exponent += negative ? -(int)e : (int)e;
    return p;
}

/* Digits of [p, end) that count, a point among them or not. */
static long significant(const char *p, const char *end)
{
    long n = 0;
    while (p < end && (*p == '0' || *p == '.'))
        p++;
    for (; p < end; p++)
        n += *p != '.';
    return n;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The digits before the point, of which there is one most often. */
static const char *take_whole(const char *p, const char *end, uint64_t *w)
{
    if (end - p < 2 || !is_digit(p[0]) || is_digit(p[1]))
        return take_digits(p, end, w);
    *w = (uint64_t)(*p - '0');
    return p + 1;
}

/* Returns the end of the number; NULL: nothing plain begins here. */
static const char *take_plain(const char *p, const char *end, plain *x)
{
    uint64_t w = 0;
    x->negative = *p == '-';
    p += *p == '-' || *p == '+';
    const char *first = p, *q = take_whole(p, end, &w), *last = q;
    long digits = q - first;
    x->exponent = 0;
    if (q < end && *q == '.') {
        last = take_digits(q + 1, end, &w);
        x->exponent = (int)(q + 1 - last);
        digits += last - q - 1;
        q = last;
    }
    x->digits = w;
    x->whole = q == first + digits;
    if (digits == 0 || (digits > MAX_DIGITS && significant(first, last) > MAX_DIGITS))
        return NULL;
    if (q < end && (*q == 'e' || *q == 'E')) {
        x->whole = false;
        q = take_exponent(q + 1, end, &x->exponent);
    }
    return q;
}

/* ---- as an element ---- */

static bool is_float(int dtype) { return dtype >= REDUCE_F16; }

/* False: somebody slower has to say. */
static bool store_plain(const plain *x, int dtype, void *out)
{
    double wide;
    float single;
    uint64_t v;
    ctl_integer_type type;
    switch (dtype) {
    case REDUCE_F64:
        if (!ctl_nearest_f64(x->digits, x->exponent, &wide))
            return false;
        wide = x->negative ? -wide : wide;
        memcpy(out, &wide, sizeof wide);
        return true;
    case REDUCE_F32:
        if (!ctl_nearest_f32(x->digits, x->exponent, &single))
            return false;
        single = x->negative ? -single : single;
        memcpy(out, &single, sizeof single);
        return true;
    default:
        if (is_float(dtype) || !x->whole)
            return false;
        type = ctl_integer_type_of(dtype);
        if (x->digits > type.most[x->negative])
            return false;
        v = x->negative ? 0 - x->digits : x->digits;
        memcpy(out, &v, type.size);
        return true;
    }
}

const char *ctl_text_plain(const char *text, const char *end, int dtype, void *out)
{
    plain x;
    const char *q = text < end ? take_plain(text, end, &x) : NULL;
    return q && store_plain(&x, dtype, out) ? q : NULL;
}

/* ---- tokens ---- */

static bool bad(const ctl_text *t, const char *what, char why[CTL_WHY])
{
    char token[48];
    ctl_clean(token, sizeof token, t->token);
    snprintf(why, CTL_WHY, "line %" PRIu64 ": '%s%s' %s", t->line + 1, token, t->len >= sizeof token ? "..." : "", what);
    return false;
}

static int dtype_of(const ctl_text *t) { return t->dtype ? t->dtype : REDUCE_F64; }

/* The token that is kept as an element. */
static bool convert(ctl_text *t, uint8_t *out, char why[CTL_WHY])
{
    int dtype = dtype_of(t);
    uint64_t bits;
    char what[64], text[CTL_WHY];
    t->token[t->len] = 0;
    const char *end = t->token + t->len;
    if (ctl_text_plain(t->token, end, dtype, out) != end) {
        bool zero = memchr(t->token, 0, t->len) != NULL; /* where the other parser would end */
        if (zero || !ctl_parse_scalar(t->token, dtype, &bits, text)) {
            const char *name = reduce_dtype_name(dtype);
            if (zero)
                snprintf(what, sizeof what, "is followed by a zero byte");
            else if (strstr(text, "out of the range"))
                snprintf(what, sizeof what, "is beyond the range of %s", name);
            else if (is_float(dtype))
                snprintf(what, sizeof what, "is not a number");
            else
                snprintf(what, sizeof what, "is not an integer, which %s are", name);
            return bad(t, what, why);
        }
        memcpy(out, &bits, reduce_dtype_size(dtype));
    }
    t->len = 0;
    return true;
}

/* Keep what the piece ends in, or what is not plain. */
static bool keep(ctl_text *t, const char *token, size_t n, char why[CTL_WHY])
{
    size_t fit = CTL_MAX_TOKEN - t->len < n ? CTL_MAX_TOKEN - t->len : n;
    memcpy(t->token + t->len, token, fit);
    t->len += fit;
    t->token[t->len] = 0;
    return fit == n || bad(t, "is too long for a number", why);
}

static const char *end_of_token(const char *p, const char *end)
{
    while (p < end && !blank(*p))
        p++;
    return p;
}

long ctl_text_feed(ctl_text *t, const char *bytes, size_t n, void *out, char why[CTL_WHY])
{
    const char *p = bytes, *end = bytes + n;
    int dtype = dtype_of(t);
    const ctl_integer_type type = ctl_integer_type_of(dtype);
    const size_t size = type.size;
    const bool whole = !is_float(dtype);
    uint8_t *w = out;
    plain x;
    while (p < end) {
        if (whole && !t->len)
            p = ctl_feed_integers(bytes, p, end, &type, &w, &t->line);
        if (blank(*p)) {
            if (t->len) {
                if (!convert(t, w, why))
                    return -1;
                w += size;
            }
            t->line += *p++ == '\n';
            continue;
        }
        const char *q = t->len ? NULL : take_plain(p, end, &x);
        if (q && q < end && blank(*q) && store_plain(&x, dtype, w)) {
            w += size;
        } else {
            q = end_of_token(p, end);
            if (!keep(t, p, (size_t)(q - p), why))
                return -1;
        }
        p = q;
    }
    return (long)((size_t)(w - (uint8_t *)out) / size);
}

long ctl_text_end(ctl_text *t, void *out, char why[CTL_WHY])
{
    if (t->len == 0)
        return 0;
    return convert(t, out, why) ? 1 : -1;
}

/* ---- what they are ---- */

/* One token, of which [p, end) has the beginning at least. */
static void look(ctl_text_kind *k, const char *p, const char *end)
{
    plain x;
    char token[CTL_MAX_TOKEN + 1];
    bool negative = *p == '-', fits = true, whole = take_plain(p, end, &x) == end && x.whole;
    uint64_t magnitude = x.digits;
    if (!whole && end - p <= CTL_MAX_TOKEN && !memchr(p, 0, (size_t)(end - p))) {
        memcpy(token, p, (size_t)(end - p));
        token[end - p] = 0;
        whole = ctl_parse_magnitude(token, &negative, &magnitude, &fits);
    }
    if (whole)
        ctl_look_at_integer(k, negative, fits, magnitude);
    else
        k->real = true;
}

/* The end of an integer that is plain, and of which the end is there; NULL: there is something else. */
static const char *look_at_plain(ctl_text_kind *k, const char *p, const char *end)
{
    plain x;
    const char *q = take_plain(p, end, &x);
    if (!q || q == end || !blank(*q) || !x.whole)
        return NULL;
    ctl_look_at_integer(k, x.negative, true, x.digits);
    return q;
}

size_t ctl_text_look(ctl_text_kind *k, const char *bytes, size_t n, bool last)
{
    const char *p = bytes, *end = bytes + n;
    while (p < end && !k->real) {
        p = ctl_look_at_integers(k, bytes, p, end);
        if (blank(*p)) {
            p++;
            continue;
        }
        const char *q = look_at_plain(k, p, end);
        if (!q) {
            q = end_of_token(p, end);
            if (q == end && !last && q - p <= CTL_MAX_TOKEN)
                break;
            look(k, p, q);
        }
        k->some = true;
        p = q;
    }
    return (size_t)(p - bytes);
}

int ctl_text_dtype(const ctl_text_kind *k)
{
    if (k->real || !k->some)
        return REDUCE_F64;
    if (k->wide || (k->above && k->negative))
        return 0;
    return k->above ? REDUCE_U64 : REDUCE_I64;
}
