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

/* Found by fuzz_words: the smallest integer has no negation. */
static void errors_of_no_version_are_an_error(void **state)
{
    (void)state;
    assert_int_equal(end_with(INT32_MIN), REDUCE_E_BAD_MESSAGE);
    assert_int_equal(end_with(REDUCE_E_INTERRUPTED - 1), REDUCE_E_BAD_MESSAGE);
    assert_int_equal(end_with(1), REDUCE_E_BAD_MESSAGE);
}

static void errors_of_other_ranks_are_returned(void **state)
{
    (void)state;
    assert_int_equal(end_with(0), 0);
    assert_int_equal(end_with(REDUCE_E_INTERRUPTED), REDUCE_E_INTERRUPTED);
    assert_int_equal(end_with(REDUCE_E_NAN), REDUCE_E_NAN);
}

/* ---- joining ---- */
enum { ROOM = 1024 };

static size_t state_of(uint8_t *to, int op, const int32_t *data, size_t n)
{
    assert_int_equal(reduce_state_init(to, ROOM, op, REDUCE_I32), 0);
    assert_int_equal(reduce_state_add(to, data, n), 0);
    return reduce_state_size(op, REDUCE_I32);
}

/* A sum and a mean of some elements, one state after the other. */
static size_t two_states(uint8_t *to, const int32_t *data, size_t n)
{
    size_t first = state_of(to, REDUCE_SUM, data, n);
    return first + state_of(to + first, REDUCE_MEAN, data, n);
}

static const int32_t all[5] = {3, -7, 9, 100, -100000};

static void states_of_parts_merge_to_those_of_the_whole(void **state)
{
    (void)state;
    uint8_t a[2 * ROOM], b[2 * ROOM], whole[2 * ROOM];
    size_t n = two_states(a, all, 2);
    assert_int_equal(two_states(b, all + 2, 3), n);
    assert_int_equal(two_states(whole, all, 5), n);
    reduce_states_merge(a, b, n);
    assert_memory_equal(a, whole, n);
}

static void states_of_other_operations_do_not_merge(void **state)
{
    (void)state;
    uint8_t a[ROOM], b[ROOM];
    size_t n = state_of(a, REDUCE_SUM, all, 5);
    state_of(b, REDUCE_MAX, all, 5);
    reduce_states_merge(a, b, n);
    assert_int_not_equal(reduce_state_check(a, n, REDUCE_SUM, REDUCE_I32), 0);
}

static rc_message message_of(int op, const int32_t *data, size_t n)
{
    rc_message m;
    uint8_t s[ROOM];
    reduce_spec spec = REDUCE_SPEC_INIT;
    spec.op = op;
    spec.dtype = REDUCE_I32;
    rc_message_init(&m);
    rc_message_add(&m, &spec, s, state_of(s, op, data, n));
    return m;
}

static void messages_join_if_they_ask_for_the_same(void **state)
{
    (void)state;
    rc_message a = message_of(REDUCE_SUM, all, 2), b = message_of(REDUCE_SUM, all + 2, 3),
               other = message_of(REDUCE_MAX, all, 2);
    uint8_t whole[ROOM];
    size_t n = state_of(whole, REDUCE_SUM, all, 5);
    reduce_states_merge(&a, &b, sizeof a);
    assert_int_equal(rc_message_end(&a), 0);
    assert_int_equal(a.held, n);
    assert_memory_equal(a.room, whole, n);
    reduce_states_merge(&a, &other, sizeof a);
    assert_int_equal(rc_message_end(&a), REDUCE_E_BAD_MESSAGE);
}

static void the_error_of_the_lowest_rank_is_kept(void **state)
{
    (void)state;
    rc_message fine = message_of(REDUCE_SUM, all, 2), low = fine, high = fine;
    rc_message_fail(&low, REDUCE_E_NAN, 3);
    rc_message_fail(&high, REDUCE_E_OVERFLOW, 4);
    reduce_states_merge(&fine, &high, sizeof fine);
    assert_int_equal(rc_message_end(&fine), REDUCE_E_OVERFLOW);
    reduce_states_merge(&fine, &low, sizeof fine);
    assert_int_equal(rc_message_end(&fine), REDUCE_E_NAN);
    reduce_states_merge(&fine, &high, sizeof fine);
    assert_int_equal(rc_message_end(&fine), REDUCE_E_NAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_of_no_version_are_an_error),
                                       cmocka_unit_test(errors_of_other_ranks_are_returned),
                                       cmocka_unit_test(states_of_parts_merge_to_those_of_the_whole),
                                       cmocka_unit_test(states_of_other_operations_do_not_merge),
                                       cmocka_unit_test(messages_join_if_they_ask_for_the_same),
                                       cmocka_unit_test(the_error_of_the_lowest_rank_is_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
