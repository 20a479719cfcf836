/* The bounds of states from outside are exact: the sum of `count` largest elements passes, and one unit more does not. The
 * states at the bound are made by adding and merging, from one element to 2^60. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/engine/engine.h"
#include "kernels/exact/check.h"
#include "kernels/exact/finish.h"

static bool passes(int op, const rk_state *s)
{
    return rk_state_check(op, s->dtype, s, rp_state_size(rp_state_layout(op, s->dtype)), NULL) == RP_OK;
}

static void expect(bool good, int op, const rk_state *s, const char *what)
{
    if (passes(op, s) != good)
        fail_msg("%s of %s, count %llu: %s %s", rp_op_name(op), rp_dtype_name(s->dtype), (unsigned long long)s->count, what,
                 good ? "is refused" : "passes");
}

/* The state of `count` elements with these bits. */
static rk_state copies(int op, int dtype, uint64_t bits, uint64_t count)
{
    rk_state s, power;
    rk_state_init(&s, rp_state_layout(op, dtype), dtype);
    power = s;
    rk_state_add(&power, bits, 0, RP_NAN_PROPAGATE);
    for (; count; count >>= 1) {
        if (count & 1)
            rk_state_merge(&s, &power);
        rk_state twice = power;
        rk_state_merge(&power, &twice);
    }
    return s;
}

static const uint64_t COUNTS[] = {1, 2, 3, 7, 8, 9, 63, 64, 1000003, (UINT64_C(1) << 60) - 1, UINT64_C(1) << 60};
enum { N_COUNTS = sizeof COUNTS / sizeof COUNTS[0] };

/* The smallest subnormal and its square, as bits above the limbs' units */
static int step_of(int dtype, int times)
{
    rk_format f = rk_format_of(dtype);
    return times * (f.emin - (f.precision - 1) - rk_e0(dtype));
}

static void float_sums(void **state)
{
    (void)state;
    static const int ops[] = {RP_OP_SUM, RP_OP_NORM1, RP_OP_SUMSQ};
    for (int i = 0; i < 3 * 4 * N_COUNTS * 2; i++) {
        int op = ops[i % 3], dtype = RP_F16 + i / 3 % 4, negative = i / 12 % 2;
        rk_format f = rk_format_of(dtype);
        rk_state s = copies(op, dtype, rk_sign_bit(f, negative) | (rk_inf_bits(f) - 1), COUNTS[i / 24]);
        int n = rk_limbs(s.layout), down = negative && op == RP_OP_SUM, step = step_of(dtype, op == RP_OP_SUMSQ ? 2 : 1);
        expect(true, op, &s, "the largest sum");
        rk_add_shifted(s.limb, n, 1, step, down);
        expect(false, op, &s, "a step beyond the largest sum");
        rk_add_shifted(s.limb, n, 2, step, !down);
        expect(true, op, &s, "a step within the largest sum");
    }
}

/* The larger sum of squares leaves room for the sum, so only its own bound refuses. */
static void moments(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * 4 * N_COUNTS; i++) {
        int op = i % 2 ? RP_OP_STATS : RP_OP_VAR, dtype = RP_F16 + i / 2 % 4;
        rk_state s = copies(op, dtype, rk_inf_bits(rk_format_of(dtype)) - 1, COUNTS[i / 8]);
        expect(true, op, &s, "the largest sums");
        rk_add_shifted(s.limb + rk_sum_limbs(s.layout), rk_square_limbs(s.layout), 1, step_of(dtype, 2), 0);
        expect(false, op, &s, "a step beyond the largest squares");
    }
}

static void logarithms(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * 4 * N_COUNTS; i++) {
        int dtype = RP_F16 + i / 2 % 4, least = i % 2;
        rk_state s = copies(RP_OP_PROD, dtype, least ? 1 : rk_inf_bits(rk_format_of(dtype)) - 1, COUNTS[i / 8]);
        expect(true, RP_OP_PROD, &s, "the outermost logarithms");
        rk_add_shifted(s.limb, 3, 1, 0, least);
        expect(false, RP_OP_PROD, &s, "a step beyond the outermost logarithms");
    }
}

static void integers(void **state)
{
    (void)state;
    static const int ops[] = {RP_OP_SUM, RP_OP_NORM1, RP_OP_SUMSQ};
    for (int i = 0; i < 3 * 8 * N_COUNTS; i++) {
        int op = ops[i % 3], dtype = RP_I8 + i / 3 % 8;
        uint64_t ones = rk_all_ones(dtype), most = rk_is_signed(dtype) && op != RP_OP_SUM ? ones / 2 + 1 : ones;
        if (rk_is_signed(dtype) && op == RP_OP_SUM)
            most = ones / 2;
        rk_state s = copies(op, dtype, most, COUNTS[i / 24]);
        expect(true, op, &s, "the largest sum");
        rk_add_shifted(s.limb, rk_limbs(s.layout), 1, 0, 0);
        expect(false, op, &s, "one more than the largest sum");
    }
}

/* A magnitude of `count` elements, and one more; below 2^64, above which only "2^64 or more" is known. */
static void integer_products(void **state)
{
    (void)state;
    for (int i = 0; i < 8 * N_COUNTS; i++) {
        int dtype = RP_I8 + i % 8;
        uint64_t ones = rk_all_ones(dtype);
        rk_state s = copies(RP_OP_PROD, dtype, rk_is_signed(dtype) ? ones / 2 + 1 : ones, COUNTS[i / 8]), over = s;
        expect(true, RP_OP_PROD, &s, "the largest product");
        if (s.limb[RK_PROD_MAGNITUDE] == 0)
            continue;
        uint64_t more = ++s.limb[RK_PROD_MAGNITUDE];
        s.limb[RK_PROD_WRAPPED] = s.limb[RK_PROD_NEGATIVES] & 1 ? 0 - more : more;
        expect(false, RP_OP_PROD, &s, "one more than the largest product");
        over.limb[RK_PROD_MAGNITUDE] = 0;
        expect(false, RP_OP_PROD, &over, "a product of 2^64 or more");
    }
}

/* A zero is an element, too: it takes none of the others' room, and adds none. */
static void a_zero_in_an_integer_product(void **state)
{
    (void)state;
    for (int i = 0; i < 8 * N_COUNTS; i++) {
        int dtype = RP_I8 + i % 8;
        uint64_t ones = rk_all_ones(dtype), count = COUNTS[i / 8];
        rk_state s = copies(RP_OP_PROD, dtype, rk_is_signed(dtype) ? ones / 2 + 1 : ones, count), zero;
        zero = copies(RP_OP_PROD, dtype, 0, 1);
        if (count == RP_MAX_COUNT)
            continue;
        rk_state_merge(&s, &zero);
        expect(true, RP_OP_PROD, &s, "the largest product and a zero");
        uint64_t magnitude = s.limb[RK_PROD_MAGNITUDE];
        s.count--;
        if (rk_is_signed(dtype) || magnitude)
            expect(false, RP_OP_PROD, &s, "a product of more elements than there are beside the zero");
    }
}

/* Of bools the largest element to any power is 1. */
static void the_product_of_many_bools_is_checked_at_once(void **state)
{
    (void)state;
    rk_state s;
    rk_state_init(&s, RP_STATE_PRODINT, RP_BOOL);
    s.count = RP_MAX_COUNT;
    assert_int_equal(rk_state_check(RP_OP_PROD, RP_BOOL, &s, rp_state_size(s.layout), NULL), RP_OK);
    s.limb[RK_PROD_WRAPPED] = s.limb[RK_PROD_MAGNITUDE] = 2;
    assert_int_equal(rk_state_check(RP_OP_PROD, RP_BOOL, &s, rp_state_size(s.layout), NULL), RP_BAD_MESSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_sums),
        cmocka_unit_test(moments),
        cmocka_unit_test(logarithms),
        cmocka_unit_test(integers),
        cmocka_unit_test(integer_products),
        cmocka_unit_test(the_product_of_many_bools_is_checked_at_once),
        cmocka_unit_test(a_zero_in_an_integer_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
