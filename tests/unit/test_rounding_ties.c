/* Quotients and roots that are a tie of f64 and a little more, where each of the places that may hold the little more does so
 * alone: then the result is the number above, and it is the even one below where there is no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kernels/exact/finish.h"
#include "proto/types.h"

typedef unsigned __int128 u128;

/* Half way between the doubles 2^52 and 2^52 + 1, in units of half */
static const uint64_t TIE = ((uint64_t)1 << 53) + 1;
static const double BELOW = 0x1p52, ABOVE = 0x1p52 + 1;

static double value_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

enum { LIMBS = 8 };

/* (TIE * a * b * 2^(64 up) + more) * 2^(-64 up - 1) / a / b, rounded */
static double quotient(uint64_t a, uint64_t b, int up, uint64_t more)
{
    uint64_t limb[LIMBS] = {0};
    u128 ab = (u128)a * b; /* below 2^64, and ab * TIE below 2^128 */
    u128 p = ab * TIE;
    limb[up] = (uint64_t)p;
    limb[up + 1] = (uint64_t)(p >> 64);
    limb[0] += more;
    rk_top t = rk_divide(limb, LIMBS, -64 * up - 1, a, b, 1);
    return value_of(rk_round_top(t, 0, rk_format_of(RP_F64)));
}

static void quotients(void **state)
{
    (void)state;
    static const uint64_t by[] = {2, 3, 5, 1000, 1000003};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 5; k++) {
            uint64_t a = by[i], b = by[k];
            for (int up = 2; up < 5; up++) {
                assert_true(quotient(a, b, up, 0) == BELOW);
                assert_true(quotient(a, b, up, 1) == ABOVE); /* left when divided by a; or in a limb that is not divided */
                assert_true(quotient(a, b, up, a) == ABOVE); /* left when divided by b */
                assert_true(quotient(a, b, up, a * (b - 1)) == ABOVE);
                assert_true(quotient(a, b, up, a * b) == ABOVE); /* a low digit of the quotient */
            }
        }
}

/* The mean of that many elements whose sum is that of the state */
static double mean_of(uint64_t count, int up, uint64_t more)
{
    rk_state s;
    rk_state_init(&s, RP_STATE_SUM64, RP_F64);
    s.nz = 1;
    s.count = count;
    u128 p = (u128)TIE * count;
    s.limb[up] = (uint64_t)p;
    s.limb[up + 1] = (uint64_t)(p >> 64);
    s.limb[0] |= more;
    rp_spec spec = {.op = RP_OP_MEAN, .dtype = RP_F64, .rows = 1};
    uint64_t scratch[RK_FINISH_SCRATCH], words[RP_MAX_CELL_WORDS];
    assert_int_equal(rp_spec_check(&spec, NULL), RP_OK);
    assert_int_equal(rk_state_finish(&s, &spec, scratch, words), RP_OK);
    return ldexp(value_of(words[0]), 1075 - 64 * up - 1);
}

static void means(void **state)
{
    (void)state;
    for (int up = 17; up < 20; up++)
        for (uint64_t count = 3; count < 2000; count += 100) {
            assert_true(mean_of(count, up, 0) == BELOW);
            assert_true(mean_of(count, up, 2) == ABOVE);
        }
}

/* r has 64 bits, of which the lower ten say that it is a tie of f64. */
static const uint64_t ROOT = (((uint64_t)1 << 53) + 1) << 10;

static void roots(void **state)
{
    (void)state;
    rk_format f64 = rk_format_of(RP_F64);
    u128 square = (u128)ROOT * ROOT;
    rk_top exact = {2 * square, 128, 0}, more = {2 * square + 1, 128, 0}, sticky = {2 * square, 128, 1};
    assert_true(value_of(rk_round_top(rk_root(exact), 0, f64)) == ldexp(BELOW, 12));
    assert_true(value_of(rk_round_top(rk_root(more), 0, f64)) == ldexp(ABOVE, 12));
    assert_true(value_of(rk_round_top(rk_root(sticky), 0, f64)) == ldexp(ABOVE, 12));
}

/* norm2 of integers whose squares sum to 4 r^2 + more: 2r, and a little */
static double norm_of(uint64_t more)
{
    rk_state s;
    rk_state_init(&s, RP_STATE_SQINT, RP_I64);
    s.count = 100;
    u128 square = (u128)ROOT * ROOT;
    s.limb[0] = (uint64_t)(square << 2) | more;
    s.limb[1] = (uint64_t)(square >> 62);
    s.limb[2] = (uint64_t)(square >> 126);
    rp_spec spec = {.op = RP_OP_NORM2, .dtype = RP_I64, .rows = 1};
    uint64_t scratch[RK_FINISH_SCRATCH], words[RP_MAX_CELL_WORDS];
    assert_int_equal(rp_spec_check(&spec, NULL), RP_OK);
    assert_int_equal(rk_state_finish(&s, &spec, scratch, words), RP_OK);
    return value_of(words[0]);
}

static void norms(void **state)
{
    (void)state;
    assert_true(norm_of(0) == ldexp(BELOW, 12));
    assert_true(norm_of(1) == ldexp(ABOVE, 12));
    assert_true(norm_of(2) == ldexp(ABOVE, 12));
    assert_true(norm_of(3) == ldexp(ABOVE, 12));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotients),
        cmocka_unit_test(means),
        cmocka_unit_test(roots),
        cmocka_unit_test(norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
