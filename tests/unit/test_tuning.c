/* Which row of measured numbers a card takes: its own, or that of the measured card it resembles most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cuda/launch/tuning_table.h"

static const rk_tuning_row CARDS[] = {
    {75, 8.0, {.long_rows = 0}},
    {90, 25.0, {.long_rows = 1}},
    {90, 37.0, {.long_rows = 2}},
    {100, 54.0, {.long_rows = 3}},
};

static void assert_row(int row, int capability, double gbs_an_sm)
{
    const rk_tuning *t = rk_tuning_choose(CARDS, sizeof CARDS / sizeof CARDS[0], capability, gbs_an_sm);
    assert_int_equal(t->long_rows, row);
}

static void test_a_measured_card_has_its_own_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < RK_TUNING_ROWS; i++)
        assert_ptr_equal(rk_tuning_of(rk_tuning_table[i].capability, rk_tuning_table[i].gbs_an_sm), &rk_tuning_table[i].tuning);
    for (int i = 0; i < 4; i++)
        assert_row(i, CARDS[i].capability, CARDS[i].gbs_an_sm);
}

static void test_of_equal_capabilities_the_nearest_bandwidth(void **state)
{
    (void)state;
    assert_row(1, 90, 17.9); /* H100 PCIe */
    assert_row(1, 90, 30.0);
    assert_row(2, 90, 31.0); /* the geometric mean of 25 and 37 is 30.4 */
    assert_row(2, 90, 1000);
}

static void test_the_highest_capability_that_is_not_above(void **state)
{
    (void)state;
    assert_row(0, 80, 18.9); /* A100: none of 8.0, and 9.0 is above */
    assert_row(0, 89, 7.9);
    assert_row(1, 99, 8.0);
    assert_row(3, 120, 10.5); /* the bandwidth does not matter where one row is left */
}

static void test_below_all_the_lowest(void **state)
{
    (void)state;
    assert_row(0, 70, 11.2);
    assert_ptr_equal(rk_tuning_of(75, 8.0), &rk_tuning_table[0].tuning);
}

static void test_cards_that_the_docs_name(void **state)
{
    (void)state;
    const rk_tuning *h100 = &rk_tuning_table[0].tuning, *h200 = &rk_tuning_table[1].tuning;
    assert_ptr_equal(rk_tuning_of(75, 8.0), h100);   /* T4 */
    assert_ptr_equal(rk_tuning_of(89, 7.9), h100);   /* RTX 4090 */
    assert_ptr_equal(rk_tuning_of(120, 10.5), h100); /* RTX 5090 */
    assert_ptr_equal(rk_tuning_of(100, 54.1), h200); /* B200 */
}

static void test_a_bandwidth_that_is_not_known_has_a_row(void **state)
{
    (void)state;
    assert_row(1, 90, 0); /* as far from all: the first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_measured_card_has_its_own_row),
        cmocka_unit_test(test_of_equal_capabilities_the_nearest_bandwidth),
        cmocka_unit_test(test_the_highest_capability_that_is_not_above),
        cmocka_unit_test(test_below_all_the_lowest),
        cmocka_unit_test(test_cards_that_the_docs_name),
        cmocka_unit_test(test_a_bandwidth_that_is_not_known_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
