/* Messages of a collective reduction that other processes sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/message.h"

static int end_with(int err)
{
    rc_message m;
    rc_message_init(&m);
    m.err = err;
    return rc_message_end(&m);
}

/* Found by fuzz_words: the least integer has no opposite. */
static void errors_of_no_version_are_an_error(void **state)
{
    (void)state;
    assert_int_equal(end_with(INT32_MIN), REDUCE_E_BAD_MESSAGE);
    assert_int_equal(end_with(REDUCE_E_START - 1), REDUCE_E_BAD_MESSAGE);
    assert_int_equal(end_with(1), REDUCE_E_BAD_MESSAGE);
}

static void errors_of_other_ranks_are_returned(void **state)
{
    (void)state;
    assert_int_equal(end_with(0), 0);
    assert_int_equal(end_with(REDUCE_E_START), REDUCE_E_START);
    assert_int_equal(end_with(REDUCE_E_NAN), REDUCE_E_NAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_of_no_version_are_an_error),
                                       cmocka_unit_test(errors_of_other_ranks_are_returned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
