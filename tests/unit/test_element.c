/* One number as an element: exact or refused; and arrays in another order. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/ctl/ctl.h"
#include "kernels/exact/format.h"

enum { ROUNDS = 30000 };

static uint64_t seed = 0x9e3779b97f4a7c15;
static uint64_t next(void) /* xorshift64 */
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static void is(int dtype, const char *text, uint64_t want)
{
    char why[CTL_WHY] = "";
    uint64_t bits = ~want;
    assert_true(ctl_parse_scalar(text, dtype, &bits, why));
    assert_int_equal(bits, want);
}

static void is_no(int dtype, const char *text, const char *told)
{
    char why[CTL_WHY] = "";
    uint64_t bits;
    assert_false(ctl_parse_scalar(text, dtype, &bits, why));
    assert_non_null(strstr(why, told));
    assert_non_null(strstr(why, reduce_dtype_name(dtype)));
}

static void integers(void **state)
{
    (void)state;
    is(REDUCE_I8, "-128", 0x80);
    is(REDUCE_I8, "+127", 0x7f);
    is(REDUCE_I8, "-0", 0);
    is(REDUCE_U8, "0xff", 0xff);
    is(REDUCE_I16, "-1", 0xffff);
    is(REDUCE_I32, "-0x80000000", 0x80000000);
    is(REDUCE_U32, "4294967295", 0xffffffff);
    is(REDUCE_I64, "-9223372036854775808", UINT64_C(1) << 63);
    is(REDUCE_I64, "9223372036854775807", INT64_MAX);
    is(REDUCE_U64, "18446744073709551615", UINT64_MAX);
    is(REDUCE_U64, "007", 7);
    is_no(REDUCE_I8, "128", "range");
    is_no(REDUCE_I8, "-129", "range");
    is_no(REDUCE_U8, "-1", "range");
    is_no(REDUCE_U8, "256", "range");
    is_no(REDUCE_I64, "9223372036854775808", "range");
    is_no(REDUCE_I64, "-9223372036854775809", "range");
    is_no(REDUCE_U64, "18446744073709551616", "range");
    is_no(REDUCE_U64, "99999999999999999999999999", "range");
    static const char *const words[] = {"",   "-",   "+",   "0x",  "1.5", "1e3", " 1",
                                        "1 ", "--1", "+-1", "12a", "0xg", "nan", "\x1b[1m"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is_no(REDUCE_I32, words[i], "is not a number");
}

static uint64_t double_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static void floats(void **state)
{
    (void)state;
    is(REDUCE_F64, "0.1", double_bits(0.1));
    is(REDUCE_F64, "-0", double_bits(-0.0));
    is(REDUCE_F64, "-inf", double_bits(-INFINITY));
    is(REDUCE_F64, "0x1p-1074", 1);
    is(REDUCE_F32, "0.1", 0x3dcccccd);
    is(REDUCE_F32, "Infinity", 0x7f800000);
    is(REDUCE_F32, "16777217.0000000000000000000000000001", 0x4b800001); /* by way of a double: 0x4b800000 */
    is(REDUCE_F16, "65504", 0x7bff);
    is(REDUCE_F16, "65519.99", 0x7bff);
    is(REDUCE_F16, "-inf", 0xfc00);
    is(REDUCE_F16, "6e-8", 1);
    is(REDUCE_F16, "-1e-400", 0x8000);
    is(REDUCE_F16, "2049.0000000000000000000000001", 0x6801); /* by way of a double: a tie, 0x6800 */
    is(REDUCE_F16, "2048.9999999999999999999999999", 0x6800);
    is(REDUCE_BF16, "1.00390625000000000000000000001", 0x3f81);
    is(REDUCE_BF16, "-1.00390625", 0xbf80);
    is(REDUCE_BF16, "1e-45", 0);
    char why[CTL_WHY];
    uint64_t nan;
    for (int dtype = REDUCE_F16; dtype <= REDUCE_F64; dtype++) {
        rk_format f = rk_format_of(dtype);
        assert_true(ctl_parse_scalar("nan", dtype, &nan, why));
        assert_true((nan & ~rk_sign_bit(f, 1)) > rk_inf_bits(f));
    }
    is_no(REDUCE_F64, "1e309", "range");
    is_no(REDUCE_F32, "3.5e38", "range");
    is_no(REDUCE_F16, "65520", "range");
    is_no(REDUCE_F16, "-1e999", "range");
    is_no(REDUCE_BF16, "3.4e38", "range");
    static const char *const words[] = {"", "-", "x", "1.5x", " 1", "1 ", "1,5", "0x", "infin"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is_no(REDUCE_F32, words[i], "is not a number");
}

/* Doubles, exact or just beside what separates two 16-bit floats, round as the integers of the kernels round them. */
static void narrow_rounding(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        int dtype = i % 2 ? REDUCE_F16 : REDUCE_BF16;
        unsigned bits = (unsigned)(next() % ctl_half_infinity(dtype));
        double v = ctl_half_value(dtype, bits), above = ctl_half_value(dtype, bits + 1), y = v + (above - v) / 2;
        y = i % 3 == 0 ? y : i % 3 == 1 ? nextafter(y, 0) : nextafter(y, INFINITY);
        assert_int_equal(ctl_half_round(dtype, y), rk_convert_float(RP_F64, double_bits(y), dtype));
        assert_int_equal(ctl_half_round(dtype, v), bits);
        char text[256], why[CTL_WHY];
        uint64_t read;
        snprintf(text, sizeof text, "-%.200g", y);
        bool fine = ctl_parse_scalar(text, dtype, &read, why);
        assert_int_equal(fine, ctl_half_round(dtype, y) < ctl_half_infinity(dtype));
        if (fine)
            assert_int_equal(read, 0x8000 | ctl_half_round(dtype, y));
    }
    assert_int_equal(ctl_half_round(REDUCE_F16, INFINITY), 0x7c00);
    assert_int_equal(ctl_half_round(REDUCE_F16, 0), 0);
}

static void order(void **state)
{
    (void)state;
    uint32_t from[24], to[24];
    uint64_t shape[3] = {2, 3, 4};
    for (uint32_t i = 0; i < 24; i++) /* element (a, b, c) lies at a + 2 b + 6 c */
        from[i] = i;
    ctl_c_order((uint8_t *)to, (uint8_t *)from, 4, 3, shape);
    uint32_t n = 0;
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 0; b < 3; b++)
            for (uint32_t c = 0; c < 4; c++)
                assert_int_equal(to[n++], a + 2 * b + 6 * c);
    uint64_t flat[1] = {24}, none[2] = {3, 0};
    ctl_c_order((uint8_t *)to, (uint8_t *)from, 4, 1, flat);
    assert_memory_equal(to, from, sizeof to);
    ctl_c_order(NULL, NULL, 4, 2, none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(integers), cmocka_unit_test(floats), cmocka_unit_test(narrow_rounding),
                                       cmocka_unit_test(order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
