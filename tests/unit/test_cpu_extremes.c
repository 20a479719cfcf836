/* The CPU's loops at the edge of what their lanes hold, all instruction sets, against adding one element at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops/sums/sum_int.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* of digits.h this needs only the carries */
#include "kernels/cpu/loops/sums/digits.h"

static rk_state reduce(const rk_simd *simd, int op, int dtype, const void *x, uint64_t n)
{
    rk_state s;
    rk_state_init(&s, rp_state_layout(op, dtype), dtype);
    simd->reduce[s.layout][dtype](&s, x, n, 0, RP_NAN_PROPAGATE);
    return s;
}

static float float_of(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* An odd significand of 24 bits whose square leaves 2^(bits-1) + 1 when divided by 2^bits: just over half of an anchored lane's
 * last place, so that the rest is as large as it can be, and of the other sign. */
static uint32_t half_over(int bits)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint32_t m = (1 << 23) + 1;
    while (((uint64_t)m * m & mask) != (mask >> 1) + 2)
        m += 2;
    return m;
}

/* Every table's state of x[0..n) beside that of adding one element at a time. `what` and the numbers repeat the case. */
static void expect_one_by_one(int op, int dtype, const void *x, uint64_t n, const char *what, int a, int b, int c)
{
    const size_t size = rp_dtype_size(dtype);
    rk_state want;
    rk_state_init(&want, rp_state_layout(op, dtype), dtype);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        memcpy(&bits, (const char *)x + i * size, size);
        rk_state_add(&want, bits, i, RP_NAN_PROPAGATE);
    }
    for (int k = 0; k < rk_simd_count; k++) {
        if (!rk_simd_runs(rk_simds[k]))
            continue;
        rk_state got = reduce(rk_simds[k], op, dtype, x, n);
        if (memcmp(&got, &want, rp_state_size(want.layout)) != 0)
            fail_msg("%s: %s of %d %s, %s %d, %d, %d", rk_simds[k]->name, rp_op_name(op), (int)n, rp_dtype_name(dtype), what, a,
                     b, c);
    }
}

/* Rests that add up in one direction, beside one element that is larger, so that their lane's last place is what it is, and one
 * that is so small that the sum of the rests needs all bits. */
static void rests_of_squares(void **state)
{
    (void)state;
    enum { N = 8192, ONE = 127 }; /* the exponent field of 1 */
    static float x[N];
    for (int n = 512; n <= N; n *= 2)
        for (int bits = 4; bits <= 12; bits++)
            for (int span = 14; span <= 26; span++) {
                float v = float_of((ONE - 1) << 23 | (half_over(bits) & 0x7fffff));
                for (int i = 0; i < n; i++)
                    x[i] = i == 3 ? 1 : i == 77 ? float_of((uint32_t)(ONE - span) << 23 | 1) : v;
                expect_one_by_one(RP_OP_SUMSQ, RP_F32, x, (uint64_t)n, "bits, span", bits, span, 0);
            }
}

/* The same in a block that comes after one of larger elements, by 2^more: the loops take its anchor for theirs at first. */
static void rests_of_squares_after_larger_ones(void **state)
{
    (void)state;
    enum { N = 8192, ONE = 127 };
    static float x[2 * N];
    for (int more = 1; more <= 5; more += 2)
        for (int bits = 4; bits <= 12; bits += 2)
            for (int span = 10; span <= 26; span++) {
                float v = float_of((ONE - 1) << 23 | (half_over(bits) & 0x7fffff));
                for (int i = 0; i < N; i++) {
                    x[i] = float_of((uint32_t)(ONE + more) << 23);
                    x[N + i] = i == 3 ? float_of((uint32_t)(ONE - span) << 23 | 1) : v;
                }
                expect_one_by_one(RP_OP_SUMSQ, RP_F32, x, 2 * N, "bits, span, more", bits, span, more);
            }
}

/* Zeros, a one and a small element, so that a single addition in the block rounds, if any: of one lane, or of its total. */
static void single_roundings(void **state)
{
    (void)state;
    enum { N = 4096 };
    static const int ops[] = {RP_OP_SUM, RP_OP_NORM1, RP_OP_SUMSQ, RP_OP_VAR}, apart[] = {1, 8, 64, 256, 1000};
    static float floats[N];
    static double doubles[N];
    for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++)
        for (size_t d = 0; d < sizeof apart / sizeof apart[0]; d++)
            for (int span = 20; span <= 120; span++) {
                memset(floats, 0, sizeof floats);
                memset(doubles, 0, sizeof doubles);
                floats[5] = 1;
                doubles[5] = 0x1.0000001p0;
                doubles[5 + apart[d]] = ldexp(0x1.0000000000001p0, -span);
                floats[5 + apart[d]] = ldexpf(1, -span);
                expect_one_by_one(ops[k], RP_F32, floats, N, "apart, span", apart[d], span, 0);
                expect_one_by_one(ops[k], RP_F64, doubles, N, "apart, span", apart[d], span, 0);
            }
}

/* One odd element at any place among others that are all alike: zeros of either sign, numbers, infinities and NaNs. */
static void ends_at_any_place(void **state)
{
    (void)state;
    enum { N = 300, KINDS = 9 };
    static const int ops[] = {RP_OP_MIN, RP_OP_MAX, RP_OP_MINMAX, RP_OP_ARGMIN, RP_OP_ARGMAX, RP_OP_NORMINF};
    static const double kinds[KINDS] = {0.0, -0.0, 1, -1, 3, -3, INFINITY, -INFINITY, NAN};
    static float floats[N];
    static double doubles[N];
    for (int most = 0; most < KINDS; most++)
        for (int odd = 0; odd < KINDS; odd++)
            for (int n = 1; n <= N; n += n < 70 ? 3 : 47) {
                const int at = (n * 31 + most * 7 + odd) % n;
                for (int i = 0; i < n; i++)
                    floats[i] = (float)(doubles[i] = kinds[i == at ? odd : most]);
                for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) {
                    expect_one_by_one(ops[k], RP_F32, floats, (uint64_t)n, "most, odd, at", most, odd, at);
                    expect_one_by_one(ops[k], RP_F64, doubles, (uint64_t)n, "most, odd, at", most, odd, at);
                }
            }
}

/* Integers that are all as large, or as small, as they can be, for long enough that no narrow lane could hold their sum. The
 * engine gives these loops a block at a time, which is shorter. Baseline instructions only: this file is compiled for them. */
#define CASE(NAME, TYPE, LEAST, MOST)                                            \
    {#NAME, sizeof(TYPE), LEAST, sum_##NAME, magnitudes_##NAME, squares_##NAME}, \
    {                                                                            \
#NAME, sizeof(TYPE), MOST, sum_##NAME, magnitudes_##NAME, squares_##NAME \
    }

static void long_integers(void **state)
{
    (void)state;
    enum { BYTES = 10000022 };
    static const struct {
        const char *name;
        size_t size;
        __int128 value;
        wide (*sum)(const void *x, uint64_t n);
        wide (*magnitudes)(const void *x, uint64_t n);
        halves (*squares)(const void *x, uint64_t n);
    } cases[] = {
        CASE(i8, int8_t, INT8_MIN, INT8_MAX),     CASE(u8, uint8_t, 0, UINT8_MAX),
        CASE(i16, int16_t, INT16_MIN, INT16_MAX), CASE(u16, uint16_t, 0, UINT16_MAX),
        CASE(i32, int32_t, INT32_MIN, INT32_MAX), CASE(u32, uint32_t, 0, UINT32_MAX),
        CASE(i64, int64_t, INT64_MIN, INT64_MAX), CASE(u64, uint64_t, 0, UINT64_MAX),
    };
    uint8_t *x = malloc(BYTES);
    assert_non_null(x);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint64_t n = BYTES / cases[c].size;
        __int128 v = cases[c].value;
        wide magnitude = (wide)(v < 0 ? -v : v), square = magnitude * magnitude;
        for (uint64_t i = 0; i < n; i++)
            memcpy(x + i * cases[c].size, &v, cases[c].size);
        if (cases[c].sum(x, n) != (wide)v * n || cases[c].magnitudes(x, n) != magnitude * n)
            fail_msg("sum of %s", cases[c].name);
        halves got = cases[c].squares(x, n); /* low + high * 2^64 */
        wide low = (square & UINT64_MAX) * n, high = (square >> 64) * n + (low >> 64);
        if ((uint64_t)got.low != (uint64_t)low || got.high + (got.low >> 64) != high)
            fail_msg("squares of %s", cases[c].name);
    }
    free(x);
}

/* A digit has room for 2^30 adds; arrays that long would take a test too much time. */
static void digits_are_carried_in_time(void **state)
{
    (void)state;
    static acc a;
    acc_start(&a, 4, 0, false, 0, RP_NAN_PROPAGATE);
    acc_add(&a, (i128)1 << 31, 0);
    assert_int_equal(a.adds, 1);
    a.digit[0] = INT64_C(1) << 40;
    a.adds = CARRY_AFTER - 2;
    acc_add(&a, 1, 0);
    assert_int_equal(a.digit[0], (INT64_C(1) << 40) + 1);
    acc_add(&a, 1, 0);
    assert_int_equal(a.digit[0], 2);
    assert_int_equal(a.digit[1], 1 << 8);
    assert_int_equal(a.adds, 0);
}

/* Two doubles hold the errors of most lines, so these need no other way. Line 3 has a bit that is too far below. */
static void chains_of_two_doubles(void **state)
{
    (void)state;
    double x[RK_CHAINS][4];
    const uint8_t *line[RK_CHAINS];
    uint64_t n[RK_CHAINS];
    for (int j = 0; j < RK_CHAINS; j++) {
        const double some[] = {1, ldexp(1, -60), j == 3 ? ldexp(1, -120) : j % 2 ? ldexp(1, -100) : -1, ldexp(j, -70)};
        memcpy(x[j], some, sizeof some);
        line[j] = (const uint8_t *)x[j];
        n[j] = j == 5 ? 1 : 4;
    }
    for (int i = 0; i < rk_simd_count; i++) {
        double sum[RK_CHAINS];
        if (!rk_simd_runs(rk_simds[i]))
            continue;
        assert_int_equal(rk_simds[i]->chains[RP_F64](line, n, sizeof x[0][0], sum), ((1u << RK_CHAINS) - 1) ^ 1u << 3);
        for (int j = 0; j < RK_CHAINS; j++)
            assert_true(j == 3 || sum[j] == (j % 2 ? 1 : ldexp(1, -60) + ldexp(j, -70)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(digits_are_carried_in_time),
                                       cmocka_unit_test(rests_of_squares),
                                       cmocka_unit_test(rests_of_squares_after_larger_ones),
                                       cmocka_unit_test(single_roundings),
                                       cmocka_unit_test(ends_at_any_place),
                                       cmocka_unit_test(long_integers),
                                       cmocka_unit_test(chains_of_two_doubles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
