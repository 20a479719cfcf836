/* Any bytes as numbers in text, in one piece and in small pieces (byte 0 says how small), as the type that byte 1 says, or that
 * they have: the same elements, or the same refusal; numbers as the C library reads them; and each float prints as what reads
 * back. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/text/decimal.h"
#include "client/ctl/text/wide.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

/* Elements at `out`; -1 with `why`. Each call gets a block of its own, so that a sanitizer sees its end. */
static long parse(const uint8_t *bytes, size_t n, size_t piece, const ctl_text *first, uint8_t *out, char *why)
{
    ctl_text t = *first;
    long made = 0, more;
    size_t element = reduce_dtype_size(t.dtype);
    for (size_t at = 0; at < n; at += piece) {
        size_t part = n - at < piece ? n - at : piece;
        char *copy = malloc(part);
        uint8_t *room = malloc((part / 2 + 1) * element);
        if (!copy || !room)
            abort();
        memcpy(copy, bytes + at, part);
        more = ctl_text_feed(&t, copy, part, room, why);
        if (more > 0)
            memcpy(out + (size_t)made * element, room, (size_t)more * element);
        free(copy);
        free(room);
        if (more < 0)
            return -1;
        made += more;
    }
    more = ctl_text_end(&t, out + (size_t)made * element, why);
    return more < 0 ? -1 : made + more;
}

/* The type of all tokens, looked at in pieces. */
static int kind(const uint8_t *bytes, size_t n, size_t piece)
{
    ctl_text_kind k;
    size_t done = 0, have = 0;
    memset(&k, 0, sizeof k);
    do {
        have = n - have < piece ? n : have + piece;
        char *copy = malloc(have - done + 1);
        if (!copy)
            abort();
        memcpy(copy, bytes + done, have - done);
        done += ctl_text_look(&k, copy, have - done, have == n);
        free(copy);
    } while (have < n);
    return ctl_text_dtype(&k);
}

/* The number that was read is that of strtod. */
static void compare_f64(char *p, char **end, const uint8_t *got)
{
    double want = strtod(p, end), have;
    memcpy(&have, got, sizeof have);
    if (isnan(want) ? !isnan(have) : memcmp(&want, &have, sizeof want) != 0)
        fail("not what strtod reads");
}

/* ... or of strtoll, for which a 0 at the beginning would mean octal. */
static void compare_i64(char *p, char **end, const uint8_t *got)
{
    char *digits = p + strspn(p, " \t\n\v\f\r");
    digits += *digits == '-' || *digits == '+';
    int64_t want = strtoll(p, end, digits[0] == '0' && (digits[1] | 32) == 'x' ? 16 : 10), have;
    memcpy(&have, got, sizeof have);
    if (want != have)
        fail("not what strtoll reads");
}

static void compare(const uint8_t *bytes, size_t n, const uint8_t *got, long count, bool whole)
{
    char *text = malloc(n + 1), *p = text, *end;
    if (!text)
        abort();
    memcpy(text, bytes, n);
    text[n] = 0;
    for (long i = 0; i < count; i++, p = end)
        (whole ? compare_i64 : compare_f64)(p, &end, got + 8 * i);
    free(text);
}

static void print(const uint8_t *got, long count)
{
    for (long i = 0; i < count; i++) {
        char text[CTL_DECIMAL_ROOM + 1];
        double v, back;
        uint64_t bits;
        memcpy(&v, got + (size_t)i * sizeof v, sizeof v);
        v = fabs(v);
        if (!isfinite(v) || v == 0)
            continue;
        memcpy(&bits, &v, sizeof bits);
        uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1), field = bits >> 52;
        ctl_float f = {fraction | (uint64_t)(field > 0) << 52, (int)(field ? field : 1) - 1075, fraction == 0 && field > 1};
        *ctl_put_decimal(text, ctl_shortest(f)) = 0;
        back = strtod(text, NULL);
        if (memcmp(&back, &v, sizeof v) != 0)
            fail("does not read back");
    }
}

/* A token as an integer of many bits is what it is as one of 64, if it fits; its decimal reads back. */
static void widen(const char *text, size_t n)
{
    char token[64], decimal[CTL_WIDE_DIGITS], again[CTL_WIDE_DIGITS];
    n = n < sizeof token ? n : sizeof token - 1;
    memcpy(token, text, n);
    token[n] = 0;
    bool negative, fits = false, beyond;
    uint64_t magnitude;
    ctl_wide v, back;
    bool whole = strlen(token) == n && ctl_parse_magnitude(token, &negative, &magnitude, &fits);
    if (!ctl_wide_parse(token, token + n, &v, &beyond)) {
        if (whole && !beyond)
            fail("an integer is refused");
        return;
    }
    ctl_wide_text(decimal, &v);
    if (!whole || !ctl_wide_parse(decimal, decimal + strlen(decimal), &back, &beyond) || memcmp(&v, &back, sizeof v) != 0)
        fail("an integer does not read back");
    snprintf(again, sizeof again, "%s%" PRIu64, negative && magnitude ? "-" : "", magnitude);
    if (fits && strcmp(again, decimal) != 0)
        fail("an integer is another one");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char one[CTL_WHY] = "", two[CTL_WHY] = "";
    if (size < 2 || size > 65536)
        return 0;
    const uint8_t *text = data + 2;
    size_t n = size - 2, piece = data[0] % 16 + 1u;
    int dtype = data[1] % 16;
    widen((const char *)text, n);
    if (kind(text, n, n + 1) != kind(text, n, piece))
        fail("pieces change the type");
    if (dtype < REDUCE_I8 || dtype > REDUCE_F64)
        dtype = kind(text, n, piece);
    if (!dtype)
        return 0;
    uint8_t *a = malloc((n / 2 + 2) * 8), *b = malloc((n / 2 + 2) * 8);
    if (!a || !b)
        abort();
    ctl_text parser;
    memset(&parser, 0, sizeof parser);
    parser.dtype = dtype;
    parser.no_negative_zero = data[1] & 16;
    long made = parse(text, n, n + 1, &parser, a, one), again = parse(text, n, piece, &parser, b, two);
    if (made != again || strcmp(one, two) != 0 || (made < 0 && !one[0]))
        fail("pieces change what is read");
    if (made > 0 && memcmp(a, b, (size_t)made * reduce_dtype_size(dtype)) != 0)
        fail("pieces change a number");
    if ((dtype == REDUCE_F64 || dtype == REDUCE_I64) && !memchr(text, 0, n))
        compare(text, n, a, made, dtype == REDUCE_I64);
    if (dtype == REDUCE_F64)
        print(a, made);
    free(a);
    free(b);
    return 0;
}
