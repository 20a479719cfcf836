/* Numbers as text: the same numbers whatever the pieces, and errors that name line and token. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/ctl/ctl.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(nothing), cmocka_unit_test(bad_tokens),
                                       cmocka_unit_test(long_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
