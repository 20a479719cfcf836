/* Messages of a collective reduction that other processes sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/error.h"
#include "client/message.h"

static int end_with(int err)
{
    rc_message mine, m;
    rc_message_init(&mine, 0);
    m = mine;
    m.err = err;
    return rc_message_end(&m, &mine);
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
    assert_int_equal(reduce_state_add(to, ROOM, data, n), 0);
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

static rc_message message_of(uint32_t rank, int op, const int32_t *data, size_t n)
{
    rc_message m;
    uint8_t s[ROOM];
    reduce_spec spec = REDUCE_SPEC_INIT;
    spec.op = op;
    spec.dtype = REDUCE_I32;
    rc_message_init(&m, rank);
    rc_message_add(&m, &spec, s, state_of(s, op, data, n));
    return m;
}

static void messages_join_if_they_ask_for_the_same(void **state)
{
    (void)state;
    const rc_message mine = message_of(0, REDUCE_SUM, all, 2), other = message_of(2, REDUCE_MAX, all, 2);
    rc_message a = mine, b = message_of(1, REDUCE_SUM, all + 2, 3);
    uint8_t whole[ROOM];
    size_t n = state_of(whole, REDUCE_SUM, all, 5);
    reduce_states_merge(&a, &b, sizeof a);
    assert_int_equal(rc_message_end(&a, &mine), 0);
    assert_int_equal(a.held, n);
    assert_memory_equal(a.room, whole, n);
    reduce_states_merge(&a, &other, sizeof a);
    assert_int_equal(rc_message_end(&a, &mine), REDUCE_E_BAD_MESSAGE);
}

/* Join m[order[0]], m[order[1]], ...: from the left, or the first one with the join of the others. */
static rc_message joined(const rc_message *m, const int order[3], bool left)
{
    rc_message a = m[order[0]], b = m[order[1]], c = m[order[2]];
    reduce_states_merge(left ? &a : &b, left ? &b : &c, sizeof a);
    reduce_states_merge(&a, left ? &c : &b, sizeof a);
    return a;
}

/* `text` is what every order of joining three messages must say. */
static void assert_joined(const rc_message *m, int err, const char *text)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i = 0; i < 12; i++) {
        const rc_message all_of_them = joined(m, orders[i / 2], i % 2);
        assert_int_equal(rc_message_end(&all_of_them, &m[0]), err);
        if (err)
            assert_string_equal(reduce_errmsg(), text);
    }
}

static void ranks_that_disagree_are_named_in_any_order(void **state)
{
    (void)state;
    rc_message m[3] = {message_of(4, REDUCE_SUM, all, 2), message_of(5, REDUCE_SUM, all, 2), message_of(6, REDUCE_SUM, all, 2)};
    assert_joined(m, 0, NULL);
    m[1] = message_of(5, REDUCE_NORM1, all, 2);
    assert_joined(m, REDUCE_E_BAD_MESSAGE, "BAD_MESSAGE: ranks 4 and 5 do not ask for the same reductions");
    m[2] = message_of(6, REDUCE_NORM1, all, 2);
    assert_joined(m, REDUCE_E_BAD_MESSAGE, "BAD_MESSAGE: ranks 4 and 5 do not ask for the same reductions");
    m[1] = message_of(5, REDUCE_SUM, all, 2);
    assert_joined(m, REDUCE_E_BAD_MESSAGE, "BAD_MESSAGE: ranks 4 and 6 do not ask for the same reductions");
    rc_error(REDUCE_E_NAN, "", "a NaN");
    rc_message_fail(&m[1], REDUCE_E_NAN, 5);
    assert_joined(m, REDUCE_E_NAN, "NAN: rank 5: a NaN");
}

static void the_error_of_the_lowest_rank_is_kept(void **state)
{
    (void)state;
    const rc_message mine = message_of(2, REDUCE_SUM, all, 2);
    rc_message fine = message_of(2, REDUCE_SUM, all, 2), low = fine, high = fine;
    rc_message_fail(&low, REDUCE_E_NAN, 3);
    rc_message_fail(&high, REDUCE_E_OVERFLOW, 4);
    reduce_states_merge(&fine, &high, sizeof fine);
    assert_int_equal(rc_message_end(&fine, &mine), REDUCE_E_OVERFLOW);
    reduce_states_merge(&fine, &low, sizeof fine);
    assert_int_equal(rc_message_end(&fine, &mine), REDUCE_E_NAN);
    reduce_states_merge(&fine, &high, sizeof fine);
    assert_int_equal(rc_message_end(&fine, &mine), REDUCE_E_NAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_of_no_version_are_an_error),
                                       cmocka_unit_test(errors_of_other_ranks_are_returned),
                                       cmocka_unit_test(states_of_parts_merge_to_those_of_the_whole),
                                       cmocka_unit_test(states_of_other_operations_do_not_merge),
                                       cmocka_unit_test(messages_join_if_they_ask_for_the_same),
                                       cmocka_unit_test(ranks_that_disagree_are_named_in_any_order),
                                       cmocka_unit_test(the_error_of_the_lowest_rank_is_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
