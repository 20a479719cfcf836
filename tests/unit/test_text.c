/* Numbers as text: the same numbers whatever the pieces, and errors that name line and token. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/ctl/ctl.h"
#include "client/ctl/text/integers.h"

/* Parse in pieces of `piece` bytes; how many numbers, or -1. */
static long parse(const char *text, size_t piece, double *out, char why[CTL_WHY])
{
    ctl_text t = {0};
    long n = 0, made;
    for (size_t at = 0, len = strlen(text); at < len; at += piece) {
        made = ctl_text_feed(&t, text + at, len - at < piece ? len - at : piece, out + n, why);
        if (made < 0)
            return -1;
        n += made;
    }
    made = ctl_text_end(&t, out + n, why);
    return made < 0 ? -1 : n + made;
}

static void numbers(void **state)
{
    (void)state;
    const char *text = " 1 2.5\t-3e2\r\n\n0x1p-3 inf -INF nan +7 .5 5.\v1e-400 -0\n9";
    static const double want[] = {1, 2.5, -300, 0.125, INFINITY, -INFINITY, NAN, 7, 0.5, 5, 0, -0.0, 9};
    const size_t n = sizeof want / sizeof *want;
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        double out[64];
        char why[CTL_WHY];
        assert_int_equal(parse(text, piece, out, why), n);
        for (size_t i = 0; i < n; i++)
            assert_true(isnan(want[i]) ? isnan(out[i]) : out[i] == want[i] && !signbit(out[i]) == !signbit(want[i]));
    }
}

static void nothing(void **state)
{
    (void)state;
    double out[8];
    char why[CTL_WHY];
    assert_int_equal(parse("", 1, out, why), 0);
    assert_int_equal(parse(" \n \t\n", 2, out, why), 0);
}

static void refuse(const char *text, const char *line, const char *token)
{
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        double out[64];
        char why[CTL_WHY] = "";
        assert_int_equal(parse(text, piece, out, why), -1);
        assert_non_null(strstr(why, line));
        assert_non_null(strstr(why, token));
    }
}

static void bad_tokens(void **state)
{
    (void)state;
    refuse("1 x3 4", "line 1", "'x3'");
    refuse("1\n2\n\n3,4", "line 4", "'3,4'");
    refuse("1 2e", "line 1", "'2e'");
    refuse("1\n1e999\n", "line 2", "range");
    refuse("\x1b[31m", "line 1", "'?[31m'");
    refuse("--1", "line 1", "'--1'");
}

/* A zero byte does not end a number: what follows it counts. */
static void zero_bytes(void **state)
{
    (void)state;
    static const char text[] = "1 2\0003 4";
    for (int dtype = REDUCE_I8; dtype <= REDUCE_F64; dtype++) {
        ctl_text t = {.dtype = dtype};
        double out[8];
        char why[CTL_WHY] = "";
        assert_int_equal(ctl_text_feed(&t, text, sizeof text - 1, out, why), -1);
        assert_string_equal(why, "line 1: '2' is followed by a zero byte");
    }
    ctl_text_kind k = {0};
    ctl_text_look(&k, text, sizeof text - 1, true);
    assert_int_equal(ctl_text_dtype(&k), REDUCE_F64); /* whose reader says so */
}

static void long_tokens(void **state)
{
    (void)state;
    char text[CTL_MAX_TOKEN + 8], why[CTL_WHY];
    double out[CTL_MAX_TOKEN];
    memset(text, '1', sizeof text);
    text[300] = 0;
    assert_int_equal(parse(text, 7, out, why), 1);
    memset(text, '1', sizeof text);
    text[sizeof text - 1] = 0;
    assert_int_equal(parse(text, 7, out, why), -1);
    assert_non_null(strstr(why, "too long"));
}

static uint64_t random_bits(uint64_t *seed)
{
    *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
    return *seed;
}

/* Random decimals of all lengths: what the C library reads. */
static void as_the_c_library(void **state)
{
    (void)state;
    uint64_t seed = 0x9e3779b97f4a7c15;
    for (int i = 0; i < 400000; i++) {
        char text[96], why[CTL_WHY];
        uint64_t r[3];
        for (int k = 0; k < 3; k++)
            r[k] = random_bits(&seed);
        unsigned long long digits = r[0] >> r[1] % 64, more = r[2] % 100000000;
        int n = (int)(r[1] >> 40), e = r[2] % 3 ? (int)(r[2] >> 32) % 40 - 20 : (int)(r[2] >> 32) % 700 - 360;
        if (n % 4 == 0)
            snprintf(text, sizeof text, "%llu.%0*llu ", digits, n % 13, more);
        else if (n % 4 == 1)
            snprintf(text, sizeof text, "-0.%0*llue%+d ", n % 30, digits, e);
        else
            snprintf(text, sizeof text, "%llue%d ", digits, e);
        double wide = strtod(text, NULL), d[64];
        float single = strtof(text, NULL), f[64];
        ctl_text t = {.dtype = REDUCE_F64}, u = {.dtype = REDUCE_F32};
        assert_int_equal(ctl_text_feed(&t, text, strlen(text), d, why), isinf(wide) ? -1 : 1);
        assert_true(isinf(wide) || !memcmp(&wide, d, sizeof wide));
        assert_int_equal(ctl_text_feed(&u, text, strlen(text), f, why), isinf(single) ? -1 : 1);
        assert_true(isinf(single) || !memcmp(&single, f, sizeof single));
    }
}

/* Halfway between two floats, and one digit beside that: nothing is rounded twice. */
static void halves(void **state)
{
    (void)state;
    static const char text[] =
        "9007199254740993 9007199254740993.0000000000000001 9007199254740992.99 0.500000000000000166533453693 "
        "2.2250738585072011e-308 2.2250738585072014e-308 4.9406564584124654e-324 1.7976931348623157e308 "
        "8.5e15 9007199254740991 1e22 1e23 3e-22 123456789012345678901234567890 0e999 0.000e-999";
    char why[CTL_WHY], *end = (char *)text;
    double out[sizeof text];
    long n = parse(text, 7, out, why);
    assert_int_equal(n, 16);
    for (long i = 0; i < n; i++) {
        double want = strtod(end, &end);
        assert_memory_equal(&want, &out[i], sizeof want);
    }
}

static void integers(void **state)
{
    (void)state;
    static const char text[] = "9007199254740993 -9223372036854775808 +9223372036854775807 0x10 -0 007";
    static const int64_t want[] = {9007199254740993, INT64_MIN, INT64_MAX, 16, 0, 7};
    for (size_t piece = 1; piece < sizeof text; piece++) {
        ctl_text t = {.dtype = REDUCE_I64};
        int64_t out[sizeof text];
        long n = 0;
        char why[CTL_WHY];
        for (size_t at = 0; at < sizeof text - 1; at += piece)
            n += ctl_text_feed(&t, text + at, sizeof text - 1 - at < piece ? sizeof text - 1 - at : piece, out + n, why);
        n += ctl_text_end(&t, out + n, why);
        assert_int_equal(n, 6);
        assert_memory_equal(out, want, sizeof want);
    }
}

static void refuse_as(int dtype, const char *text, const char *told)
{
    ctl_text t = {.dtype = dtype};
    uint64_t out[64];
    char why[CTL_WHY] = "";
    assert_int_equal(ctl_text_feed(&t, text, strlen(text), out, why), -1);
    assert_string_equal(why, told);
}

static void wrong_integers(void **state)
{
    (void)state;
    refuse_as(REDUCE_I8, "1\n-129 ", "line 2: '-129' is beyond the range of i8");
    refuse_as(REDUCE_U8, "256 ", "line 1: '256' is beyond the range of u8");
    refuse_as(REDUCE_U64, "-1 ", "line 1: '-1' is beyond the range of u64");
    refuse_as(REDUCE_U64, "18446744073709551616 ", "line 1: '18446744073709551616' is beyond the range of u64");
    refuse_as(REDUCE_I64, "1 2.5 ", "line 1: '2.5' is not an integer, which i64 are");
    refuse_as(REDUCE_I64, "1e3 ", "line 1: '1e3' is not an integer, which i64 are");
}

static int kind_in_pieces(const char *text, size_t piece)
{
    ctl_text_kind k = {0};
    size_t done = 0, n = strlen(text);
    for (size_t have = 0; have < n;) {
        have = n - have < piece ? n : have + piece;
        done += ctl_text_look(&k, text + done, have - done, have == n);
    }
    return ctl_text_dtype(&k);
}

/* The type of a text, looked at in pieces of any size. */
static void kind_is(const char *text, int dtype)
{
    for (size_t piece = 1, n = strlen(text); piece <= n + 1; piece++)
        assert_int_equal(kind_in_pieces(text, piece), dtype);
}

static void kinds(void **state)
{
    (void)state;
    kind_is("", REDUCE_F64);
    kind_is(" \n", REDUCE_F64);
    kind_is("1 2\n-3", REDUCE_I64);
    kind_is("1 2.0", REDUCE_F64);
    kind_is("1 -0 3", REDUCE_F64);
    kind_is("1 inf", REDUCE_F64);
    kind_is("1 x", REDUCE_F64); /* whose reader says so */
    kind_is("0x7f 0xffffffffffffffff", REDUCE_U64);
    kind_is("9223372036854775807 -9223372036854775808", REDUCE_I64);
    kind_is("9223372036854775808 1", REDUCE_U64);
    kind_is("9223372036854775808 -1", 0);
    kind_is("18446744073709551616", 0);
    kind_is("18446744073709551616 0.5", REDUCE_F64);
}

/* Of many integers of all lengths with all kinds of blanks between: some text, as long as blocks are. */
static size_t write_integers(char *text, size_t most, uint64_t *seed, int max_bits)
{
    static const char *const blanks[] = {"\n", " ", "\t", "\r\n", "  ", "\n\n", "\v\f"};
    size_t n = 0;
    while (n + 64 < most) {
        uint64_t r = random_bits(seed), v = random_bits(seed) >> (64 - 1 - r % (uint64_t)max_bits);
        n += (size_t)sprintf(text + n, "%s%s%llu%s", r >> 40 & 1 && v ? "-" : "", r >> 50 & 15 ? "" : "0",
                             (unsigned long long)v, blanks[(r >> 32) % 7]);
    }
    text[n] = 0;
    return n;
}

/* In pieces that cut blocks anywhere: what the C library reads. */
static void blocks_of_integers(void **state)
{
    (void)state;
    static char text[4096];
    static int64_t out[4096];
    static const int types[] = {REDUCE_I8, REDUCE_I16, REDUCE_I32, REDUCE_I64};
    uint64_t seed = 0x9e3779b97f4a7c15;
    for (int i = 0; i < 2000; i++) {
        int bits = 8 << i % 4;
        size_t size = (size_t)bits / 8, n = write_integers(text, sizeof text, &seed, bits - 1),
               piece = 1 + random_bits(&seed) % (2 * n);
        ctl_text t = {.dtype = types[i % 4]};
        ctl_text_kind k = {0};
        long made = 0;
        char why[CTL_WHY], *end = text;
        for (size_t at = 0; at < n; at += piece) {
            size_t part = n - at < piece ? n - at : piece;
            made += ctl_text_feed(&t, text + at, part, (uint8_t *)out + (size_t)made * size, why);
        }
        for (long j = 0; j < made; j++) {
            long long want = strtoll(end, &end, 10);
            assert_memory_equal((uint8_t *)out + (size_t)j * size, &want, size);
        }
        assert_int_equal(strspn(end, " \t\n\v\f\r"), strlen(end));
        assert_int_equal(ctl_text_look(&k, text, n, true), n);
        assert_int_equal(ctl_text_dtype(&k), REDUCE_I64);
    }
}

/* Wherever in a block it stands, behind other numbers. */
static void one_in_a_block(void **state)
{
    (void)state;
    static const struct {
        const char *token;
        int dtype;
    } cases[] = {{"-0", REDUCE_F64},
                 {"-00", REDUCE_F64},
                 {"-7", REDUCE_I64},
                 {"+7", REDUCE_I64},
                 {"0x1f", REDUCE_I64},
                 {"1.5", REDUCE_F64},
                 {"9223372036854775807", REDUCE_I64},
                 {"-9223372036854775808", REDUCE_I64},
                 {"9223372036854775808", REDUCE_U64},
                 {"18446744073709551615", REDUCE_U64},
                 {"-9223372036854775809", 0},
                 {"00000000000000000000000000000000005", REDUCE_I64}};
    char text[400];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t at = 0; at < 200; at++) {
            memset(text, '\n', sizeof text);
            for (size_t i = 1; i < sizeof text; i += 2)
                text[i] = '5';
            memset(text + at, '\n', 48);
            memcpy(text + at + 1, cases[c].token, strlen(cases[c].token));
            text[sizeof text - 1] = 0;
            for (size_t piece = 100; piece <= 500; piece += 100)
                assert_int_equal(kind_in_pieces(text, piece), cases[c].dtype);
        }
}

/* Errors name the line and the token, however far into the text. */
static void wrong_far_behind(void **state)
{
    (void)state;
    static int64_t out[600];
    char text[1024], why[CTL_WHY], want[CTL_WHY];
    for (int line = 1; line < 200; line++) {
        size_t n = 0;
        for (int i = 1; i <= 220; i++)
            n += (size_t)sprintf(text + n, "%s\n", i == line ? "x" : i % 3 ? "1" : "-12");
        ctl_text t = {.dtype = REDUCE_I64};
        assert_int_equal(ctl_text_feed(&t, text, n, out, why), -1);
        snprintf(want, sizeof want, "line %d: 'x' is not an integer, which i64 are", line);
        assert_string_equal(why, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers),
                                       cmocka_unit_test(nothing),
                                       cmocka_unit_test(bad_tokens),
                                       cmocka_unit_test(long_tokens),
                                       cmocka_unit_test(as_the_c_library),
                                       cmocka_unit_test(halves),
                                       cmocka_unit_test(integers),
                                       cmocka_unit_test(wrong_integers),
                                       cmocka_unit_test(kinds),
                                       cmocka_unit_test(blocks_of_integers),
                                       cmocka_unit_test(one_in_a_block),
                                       cmocka_unit_test(wrong_far_behind),
                                       cmocka_unit_test(zero_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
