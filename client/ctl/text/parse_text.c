/* Numbers as text: white-space separated tokens, each read as the nearest element of a type. Short plain numbers take the fast
 * path; the C library parses the rest. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/text/digit_runs.h"
#include "client/ctl/text/integers.h"
#include "client/ctl/text/nearest_float.h"
#include "client/ctl/text/text_block.h"

enum { MAX_DIGITS = 19 /* a number of that length fits 64 bits */ };

/* ---- what is plain: [+-]digits[.digits][e[+-]digits] ---- */

/* The digits of a plain number and its point have at most WINDOW bytes. */
enum { WINDOW = 32, EXPONENT_DIGITS = 4, AHEAD = 1 + WINDOW + 2 + EXPONENT_DIGITS /* bytes that are looked at */ };

typedef struct plain {
    bool negative, whole; /* whole: no point and no exponent */
    uint64_t digits;
    int exponent;
} plain;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *take_exponent(const char *p, int *exponent)
{
    bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    const char *first = p;
    int e = 0;
    for (; is_digit(*p) && p - first < EXPONENT_DIGITS; p++)
        e = 10 * e + (*p - '0');
    if (p == first || is_digit(*p))
        return NULL;
    *exponent += negative ? -e : e;
    return p;
}

/* The digits [end - n, end) behind a point, before which they had the value *w. False: they are too many for 64 bits. */
static inline bool append_decimals(uint64_t *w, long before, const char *end, long n)
{
    static const uint64_t power[CTL_DIGITS_BACK + 1] = {1,
                                                        10,
                                                        100,
                                                        1000,
                                                        10000,
                                                        100000,
                                                        1000000,
                                                        10000000,
                                                        100000000,
                                                        1000000000,
                                                        UINT64_C(10000000000),
                                                        UINT64_C(100000000000),
                                                        UINT64_C(1000000000000),
                                                        UINT64_C(10000000000000),
                                                        UINT64_C(100000000000000),
                                                        UINT64_C(1000000000000000),
                                                        UINT64_C(10000000000000000),
                                                        UINT64_C(100000000000000000),
                                                        UINT64_C(1000000000000000000)};
    if (n > CTL_DIGITS_BACK)
        return false;
    uint64_t high = ctl_high_digits(end, n);
    if (before + n > MAX_DIGITS && (*w || high >= 1000)) /* leading zeros do not count */
        return false;
    *w = *w * power[n] + high * CTL_HIGH_DIGIT + ctl_low_digits(end, n);
    return true;
}

/* The digits before `end`, 0 to MAX_DIGITS. */
static inline uint64_t whole_number(const char *end, long n)
{
    uint64_t low = ctl_low_digits(end, n);
    return n > CTL_LOW_DIGITS ? ctl_high_digits(end, n) * CTL_HIGH_DIGIT + low : low;
}

/* Returns the end of the number; NULL: nothing plain begins here. CTL_DIGITS_BACK bytes before it and AHEAD from it on can be
 * read. The positions of the bytes that are not digits determine all its parts, so no branch depends on a digit. */
__attribute__((always_inline)) static inline const char *take_window(const char *p, plain *x)
{
    x->negative = *p == '-';
    p += *p == '-' || *p == '+';
    uint64_t other = ~ctl_bits_of(p, WINDOW, '0', 9, '0') & UINT32_MAX;
    long before = __builtin_ctzll(other | UINT64_C(1) << WINDOW), decimals = 0;
    const char *q = p + before;
    if (before > MAX_DIGITS)
        return NULL;
    x->digits = whole_number(q, before);
    x->whole = *q != '.';
    if (!x->whole) {
        other &= other - 1;
        if (!other)
            return NULL;
        q = p + __builtin_ctzll(other);
        decimals = q - p - before - 1;
        if (!append_decimals(&x->digits, before, q, decimals))
            return NULL;
    }
    if (before + decimals == 0)
        return NULL;
    x->exponent = (int)-decimals;
    if (*q != 'e' && *q != 'E')
        return q;
    x->whole = false;
    return take_exponent(q + 1, &x->exponent);
}

/* The same near an end of the text, on a copy with zeros around it. */
static const char *take_at_end(const char *p, const char *end, plain *x)
{
    char copy[CTL_DIGITS_BACK + AHEAD] = {0}, *begin = copy + CTL_DIGITS_BACK;
    memcpy(begin, p, end - p < AHEAD ? (size_t)(end - p) : AHEAD);
    const char *q = take_window(begin, x);
    return q ? p + (q - begin) : NULL;
}

/* The number at `p` in the text [first, end). Returns its end; NULL: nothing plain begins here. */
static inline const char *take_plain(const char *first, const char *p, const char *end, plain *x)
{
    return p - first >= CTL_DIGITS_BACK && end - p >= AHEAD ? take_window(p, x) : take_at_end(p, end, x);
}

/* ---- as an element ---- */

static inline bool store_f64(const ctl_power *powers, const plain *x, void *out)
{
    uint64_t bits;
    bool certain = ctl_nearest_f64(powers, x->digits, x->exponent, &bits);
    bits |= (uint64_t)x->negative << 63;
    memcpy(out, &bits, sizeof bits);
    return certain;
}

static inline bool store_f32(const ctl_power *powers, const plain *x, void *out)
{
    uint32_t bits;
    bool certain = ctl_nearest_f32(powers, x->digits, x->exponent, &bits);
    bits |= (uint32_t)x->negative << 31;
    memcpy(out, &bits, sizeof bits);
    return certain;
}

static bool store_integer(const plain *x, int dtype, void *out)
{
    ctl_integer_type type = ctl_integer_type_of(dtype);
    uint64_t v = x->negative ? 0 - x->digits : x->digits;
    if (!x->whole || x->digits > type.most[x->negative])
        return false;
    memcpy(out, &v, type.size);
    return true;
}

/* False: the C library must convert it. */
static inline bool store_plain(const plain *x, int dtype, void *out)
{
    if (dtype == REDUCE_F64)
        return store_f64(ctl_powers(), x, out);
    if (dtype == REDUCE_F32)
        return store_f32(ctl_powers(), x, out);
    return !ctl_is_float(dtype) && store_integer(x, dtype, out);
}

/* The number at `text` in [first, end), if it is short and plain: decimal digits, a point, an exponent. Returns its end; NULL:
 * another parser has to decide. */
static const char *parse_plain(const char *first, const char *text, const char *end, int dtype, void *out)
{
    plain x;
    const char *q = text < end ? take_plain(first, text, end, &x) : NULL;
    return q && store_plain(&x, dtype, out) ? q : NULL;
}

/* ---- integers as floats ---- */

/* Is it an integer that f64 rounds? */
static inline bool is_rounded(uint64_t v) { return v >> 53 && v >> __builtin_ctzll(v) >> 53; }

/* The same of any token, whose integer may be beyond 64 bits. */
static bool is_token_rounded(const char *token)
{
    char exact[CTL_MAX_TOKEN + 1];
    bool negative, fits;
    uint64_t v;
    if (!ctl_parse_magnitude(token, &negative, &v, &fits))
        return false;
    token += *token == '-' || *token == '+';
    token += strspn(token, "0");
    if (fits || *token == 'x' || *token == 'X')
        return !fits || is_rounded(v);
    snprintf(exact, sizeof exact, "%.0f", strtod(token, NULL));
    return strcmp(exact, token) != 0;
}

static int dtype_of(const ctl_text *t) { return t->dtype ? t->dtype : REDUCE_F64; }

/* Tokens of the text [first, end) from `p` on, which is between two, into floats at *out, which moves on. Returns where the
 * first one begins that is not plain, or is too near to an end. */
static const char *feed_floats(const ctl_text *t, const char *first, const char *p, const char *end, uint8_t **out)
{
    uint8_t *to = *out;
    const int dtype = dtype_of(t);
    const bool wide = dtype == REDUCE_F64, exact = t->exact;
    const ctl_power *powers = ctl_powers();
    plain x;
    if (p - first < CTL_DIGITS_BACK || !(wide || dtype == REDUCE_F32))
        return p;
    while (end - p > AHEAD) {
        if (ctl_is_blank(*p)) {
            p++;
            continue;
        }
        const char *q = take_window(p, &x);
        if (!q || !ctl_is_blank(*q) || (exact && x.whole && is_rounded(x.digits)) ||
            !(wide ? store_f64(powers, &x, to) : store_f32(powers, &x, to)))
            break;
        to += wide ? 8 : 4;
        p = q + 1;
    }
    *out = to;
    return p;
}

/* ---- tokens ---- */

static bool bad(const ctl_text *t, const char *what, char why[CTL_WHY])
{
    char token[48];
    ctl_clean(token, sizeof token, t->token);
    snprintf(why, CTL_WHY, "line %" PRIu64 ": '%s%s' %s", t->line + 1, token, t->len >= sizeof token ? "..." : "", what);
    return false;
}

static bool is_negative_zero(const char *token)
{
    uint64_t magnitude;
    bool negative, fits;
    return *token == '-' && ctl_parse_magnitude(token, &negative, &magnitude, &fits) && magnitude == 0 && fits;
}

/* May a plain number become an element as it is? */
static inline bool is_kept(const ctl_text *t, const plain *x)
{
    return !(t->no_negative_zero && x->negative && x->digits == 0) && !(t->exact && x->whole && is_rounded(x->digits));
}

/* The token that is kept as an element. */
static bool convert(ctl_text *t, uint8_t *out, char why[CTL_WHY])
{
    int dtype = dtype_of(t);
    uint64_t bits;
    char what[64], text[CTL_WHY];
    t->token[t->len] = 0;
    const char *end = t->token + t->len;
    if (t->no_negative_zero && !ctl_is_float(dtype) && is_negative_zero(t->token))
        return bad(t, "is a float", why);
    if (t->exact && ctl_is_float(dtype) && is_token_rounded(t->token))
        return bad(t, "would be rounded to f64: --dtype f64 allows that", why);
    if (parse_plain(t->token, t->token, end, dtype, out) != end) {
        bool zero = memchr(t->token, 0, t->len) != NULL; /* the C library would stop there */
        if (zero || !ctl_parse_scalar(t->token, dtype, &bits, text)) {
            const char *name = reduce_dtype_name(dtype);
            if (zero)
                snprintf(what, sizeof what, "is followed by a zero byte");
            else if (strstr(text, "out of the range"))
                snprintf(what, sizeof what, "is beyond the range of %s", name);
            else if (ctl_is_float(dtype))
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

/* Keep the token at the end of the piece, or one that is not plain. */
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
    while (p < end && !ctl_is_blank(*p))
        p++;
    return p;
}

/* Lines are counted in one go, when a line's number is needed. */
static void count_lines(ctl_text *t, const char **counted, const char *p)
{
    t->line += ctl_count(*counted, p, '\n');
    *counted = p;
}

long ctl_text_feed(ctl_text *t, const char *bytes, size_t n, void *out, char why[CTL_WHY])
{
    const char *p = bytes, *end = bytes + n, *counted = bytes;
    int dtype = dtype_of(t);
    const ctl_integer_type type = ctl_integer_type_of(dtype);
    const size_t size = type.size;
    const bool whole = !ctl_is_float(dtype);
    uint8_t *w = out;
    plain x;
    while (p < end) {
        if (!t->len)
            p = whole ? ctl_feed_integers(bytes, p, end, &type, &w) : feed_floats(t, bytes, p, end, &w);
        if (ctl_is_blank(*p)) {
            if (t->len) {
                count_lines(t, &counted, p);
                if (!convert(t, w, why))
                    return -1;
                w += size;
            }
            p++;
            continue;
        }
        const char *q = t->len ? NULL : take_plain(bytes, p, end, &x);
        bool taken = q && q < end && ctl_is_blank(*q) && is_kept(t, &x);
        if (taken && store_plain(&x, dtype, w)) {
            w += size;
            p = q + 1;
            continue;
        }
        count_lines(t, &counted, p);
        q = end_of_token(p, end);
        if (!keep(t, p, (size_t)(q - p), why))
            return -1;
        p = q;
    }
    count_lines(t, &counted, end);
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
    char token[CTL_MAX_TOKEN + 1] = "";
    bool negative = *p == '-', fits = true, whole = take_plain(p, p, end, &x) == end && x.whole;
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
static const char *look_at_plain(ctl_text_kind *k, const char *first, const char *p, const char *end)
{
    plain x;
    const char *q = take_plain(first, p, end, &x);
    if (!q || q == end || !ctl_is_blank(*q) || !x.whole)
        return NULL;
    ctl_look_at_integer(k, x.negative, true, x.digits);
    return q;
}

size_t ctl_text_look(ctl_text_kind *k, const char *bytes, size_t n, bool last)
{
    const char *p = bytes, *end = bytes + n;
    while (p < end && !k->real) {
        p = ctl_look_at_integers(k, bytes, p, end);
        if (ctl_is_blank(*p)) {
            p++;
            continue;
        }
        const char *q = look_at_plain(k, bytes, p, end);
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
