/* Values as text read back to the same bits, for every type; and look as expected. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/ctl/ctl.h"
#include "kernels/exact/state.h"

enum { ROUNDS = 200000 };

static uint64_t seed = 0x9e3779b97f4a7c15;
static uint64_t next(void) /* xorshift64 */
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* A double as bits of another float format, by the state arithmetic that the daemon uses. */
static uint64_t narrow(double v, int dtype)
{
    uint64_t bits;
    memcpy(&bits, &v, 8);
    return rk_convert_float(RP_F64, bits, dtype);
}

static void every_small_float(void **state)
{
    (void)state;
    static const int dtypes[] = {REDUCE_F16, REDUCE_BF16};
    char text[CTL_MAX_NUMBER];
    for (int d = 0; d < 2; d++)
        for (unsigned bits = 0; bits < 65536; bits++) {
            uint16_t cell = (uint16_t)bits;
            bool nan = rk_is_nan(dtypes[d], bits);
            for (int hex = 0; hex < 2; hex++) {
                ctl_number(text, dtypes[d], &cell, hex);
                if (nan)
                    assert_string_equal(text, "nan");
                else
                    assert_int_equal(narrow(strtod(text, NULL), dtypes[d]), bits);
            }
        }
}

static void random_floats(void **state)
{
    (void)state;
    char text[CTL_MAX_NUMBER];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t u = next(), back;
        double d, e;
        memcpy(&d, &u, 8);
        e = strtod(ctl_number(text, REDUCE_F64, &u, i % 2), NULL);
        memcpy(&back, &e, 8);
        assert_true(isnan(d) ? isnan(e) : back == u);
        uint32_t w = (uint32_t)u, wide;
        float f, g;
        memcpy(&f, &w, 4);
        g = strtof(ctl_number(text, REDUCE_F32, &w, i % 2), NULL);
        memcpy(&wide, &g, 4);
        assert_true(isnan(f) ? isnan(g) : wide == w);
    }
}

/* Not one digit more than is needed: "%.*e" with fewer digits is another number. */
static void shortest(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t u = i % 3 ? next() : (next() % 2046 + 1) << 52; /* powers of 2 as well, whose neighbours are not equally far */
        double d;
        char text[CTL_MAX_NUMBER], fewer[64];
        memcpy(&d, &u, sizeof d);
        if (!isfinite(d))
            continue;
        int digits = 0;
        ctl_number(text, REDUCE_F64, &d, false);
        for (const char *p = text; *p && *p != 'e'; p++)
            digits += *p >= '0' && *p <= '9' && (digits || *p != '0');
        for (const char *p = text + strcspn(text, "e"); p > text && p[-1] == '0' && !strchr(text, '.'); p--)
            digits--;
        if (digits > 1) {
            snprintf(fewer, sizeof fewer, "%.*e", digits - 2, d);
            assert_true(strtod(fewer, NULL) != d);
        }
    }
}

static void f64_looks(double v, const char *want)
{
    char text[CTL_MAX_NUMBER];
    assert_string_equal(ctl_number(text, REDUCE_F64, &v, false), want);
}

static void looks(void **state)
{
    (void)state;
    f64_looks(0.0, "0");
    f64_looks(-0.0, "-0");
    f64_looks(5050, "5050");
    f64_looks(499500, "499500");
    f64_looks(0.1, "0.1");
    f64_looks(-0.00012, "-0.00012");
    f64_looks(1e-7, "1e-7");
    f64_looks(1e16, "10000000000000000");
    f64_looks(1e22, "1e22");
    f64_looks(1.5e300, "1.5e300");
    f64_looks(5e-324, "5e-324");
    f64_looks(1.7976931348623157e308, "1.7976931348623157e308");
    f64_looks(-208.99814661469972, "-208.99814661469972");
    f64_looks(INFINITY, "inf");
    f64_looks(-INFINITY, "-inf");
    f64_looks(NAN, "nan");
    char text[CTL_MAX_NUMBER];
    float f = 0.1f;
    assert_string_equal(ctl_number(text, REDUCE_F32, &f, false), "0.1");
    assert_string_equal(ctl_number(text, REDUCE_F32, &f, true), "0x1.99999ap-4");
    uint16_t h = 0x7bff, b = 0x3f80;
    assert_string_equal(ctl_number(text, REDUCE_F16, &h, false), "65500");
    assert_string_equal(ctl_number(text, REDUCE_BF16, &b, false), "1");
}

static void integers(void **state)
{
    (void)state;
    char text[CTL_MAX_NUMBER];
    int64_t least = INT64_MIN;
    uint64_t most = UINT64_MAX;
    assert_string_equal(ctl_number(text, REDUCE_I64, &least, false), "-9223372036854775808");
    assert_string_equal(ctl_number(text, REDUCE_U64, &most, true), "18446744073709551615");
    assert_string_equal(ctl_int128(text, 0, 0), "0");
    assert_string_equal(ctl_int128(text, 0, 1), "18446744073709551616");
    assert_string_equal(ctl_int128(text, UINT64_MAX, UINT64_MAX), "-1");
    assert_string_equal(ctl_int128(text, UINT64_MAX, INT64_MAX), "170141183460469231731687303715884105727");
    assert_string_equal(ctl_int128(text, 0, (uint64_t)INT64_MIN), "-170141183460469231731687303715884105728");
}

static void json_looks(const char *s, const char *want)
{
    char *out;
    size_t n;
    FILE *f = open_memstream(&out, &n);
    ctl_json_string(f, s);
    fclose(f);
    assert_string_equal(out, want);
    free(out);
}

static void json(void **state)
{
    (void)state;
    json_looks("a b", "\"a b\"");
    json_looks("\"\\\n\x7f", "\"\\\"\\\\\\u000a\\u007f\"");
    json_looks("\xc3\xa9\xf0\x9f\x98\x80", "\"\xc3\xa9\xf0\x9f\x98\x80\"");
    json_looks("\xff\xc3", "\"\\u00ff\\u00c3\"");
    json_looks("\xed\xa0\x80\xc0\x80", "\"\\u00ed\\u00a0\\u0080\\u00c0\\u0080\"");
}

/* The values of a cell, joined by blanks, with their names if they have some. */
static void cell_looks(int op, int dtype, const void *cell, const char *want)
{
    ctl_value v[CTL_MAX_VALUES];
    char all[1024] = "";
    int n = ctl_values(v, op, dtype, cell, 0, false);
    for (int i = 0; i < n; i++) {
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s%s%s", i ? " " : "", v[i].name ? v[i].name : "", v[i].name ? "=" : "",
                 v[i].text);
    }
    assert_string_equal(all, want);
}

static void cells(void **state)
{
    (void)state;
    uint64_t yes = 1, no = 0, none = REDUCE_NO_INDEX, place = 7;
    double both[2] = {-1.5, 2};
    float narrow_ones[2] = {0.1f, 0.25f};
    cell_looks(REDUCE_ANY, REDUCE_U64, &yes, "true");
    cell_looks(REDUCE_ALL, REDUCE_U64, &no, "false");
    cell_looks(REDUCE_COUNT, REDUCE_U64, &yes, "1");
    cell_looks(REDUCE_ARGMIN, REDUCE_U64, &none, "none");
    cell_looks(REDUCE_ARGMAX, REDUCE_U64, &place, "7");
    cell_looks(REDUCE_COUNT, REDUCE_U64, &none, "18446744073709551615");
    cell_looks(REDUCE_MINMAX, REDUCE_F64, both, "-1.5 2");
    cell_looks(REDUCE_MINMAX, REDUCE_F32, narrow_ones, "0.1 0.25");
    cell_looks(REDUCE_SUM, REDUCE_F64, both, "-1.5");
    reduce_stats s = {.count = 2, .nans = 1, .zeros = 0, .argmin = 0, .argmax = 1, .mean = 0.25, .var = 3.0625, .std = 1.75};
    s.min.f64 = -1.5;
    s.max.f64 = 2;
    s.sum.f64 = 0.5;
    cell_looks(REDUCE_STATS, REDUCE_F64, &s,
               "count=2 nans=1 zeros=0 min=-1.5 max=2 argmin=0 argmax=1 sum=0.5 mean=0.25 var=3.0625 std=1.75");
    s.min.i64 = -3;
    s.max.i64 = 2;
    s.sum.u64 = 0;
    s.sum_high = UINT64_MAX; /* -2^64 */
    cell_looks(REDUCE_STATS, REDUCE_I64, &s,
               "count=2 nans=1 zeros=0 min=-3 max=2 argmin=0 argmax=1 sum=-18446744073709551616 mean=0.25 var=3.0625 std=1.75");
    reduce_stats nothing = {.argmin = REDUCE_NO_INDEX, .argmax = REDUCE_NO_INDEX, .mean = NAN, .var = NAN, .std = NAN};
    cell_looks(REDUCE_STATS, REDUCE_U64, &nothing,
               "count=0 nans=0 zeros=0 min=none max=none argmin=none argmax=none sum=0 mean=nan var=nan std=nan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_small_float),
                                       cmocka_unit_test(random_floats),
                                       cmocka_unit_test(shortest),
                                       cmocka_unit_test(looks),
                                       cmocka_unit_test(integers),
                                       cmocka_unit_test(cells),
                                       cmocka_unit_test(json)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
