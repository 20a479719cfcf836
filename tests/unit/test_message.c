/* Messages of a collective reduction that other processes sent. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
    _Alignas(8) uint8_t s[ROOM];
    reduce_spec spec = REDUCE_SPEC_INIT;
    spec.op = op;
    spec.dtype = REDUCE_I32;
    rc_message_init(&m, rank);
    size_t used = 0;
    const size_t size = state_of(s, op, data, n);
    rc_message_add(&m, &used, &spec, s, size, size);
    return m;
}

static void messages_join_if_they_ask_for_the_same(void **state)
{
    (void)state;
    const rc_message mine = message_of(0, REDUCE_SUM, all, 2), other = message_of(2, REDUCE_MAX, all, 2);
    rc_message a = mine, b = message_of(1, REDUCE_SUM, all + 2, 3);
    _Alignas(8) uint8_t whole[ROOM], got[ROOM];
    size_t n = state_of(whole, REDUCE_SUM, all, 5), held;
    state_of(got, REDUCE_SUM, all, 2);
    reduce_states_merge(&a, &b, sizeof a);
    assert_int_equal(rc_message_end(&a, &mine), 0);
    assert_int_equal(rc_message_states(&a, got, n, &held), 0);
    assert_true(a.held == 1 && held == n);
    assert_memory_equal(got, whole, n);
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

/* ---- packed states ---- */

enum { STATES = 40, RANKS = 3, SIZE = 1024 };
static uint64_t seed;

static uint64_t random_bits(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return seed >> 33;
}

/* Doubles of some decades, or of all; now and then none, or an infinity. */
static size_t elements_of(double *x, int decades)
{
    const size_t n = random_bits() % 5;
    for (size_t i = 0; i < n; i++) {
        x[i] = ldexp((double)random_bits() - 0x1p30, decades ? (int)(random_bits() % 2000) - 1000 : (int)(random_bits() % 40));
        if (random_bits() % 50 == 0)
            x[i] = INFINITY;
    }
    return n;
}

static const int ops[] = {REDUCE_SUM,   REDUCE_VAR,  REDUCE_STATS, REDUCE_MAX,
                          REDUCE_WMEAN, REDUCE_PROD, REDUCE_COUNT, REDUCE_DOT};
static int op_of(size_t i) { return ops[i % (sizeof ops / sizeof *ops)]; }

static void make_state(uint8_t *s, int op, int decades)
{
    double x[5], w[5] = {1, -2, 0x1p-60, 4, 0};
    const size_t n = elements_of(x, decades);
    assert_int_equal(reduce_state_init(s, SIZE, op, REDUCE_F64), 0);
    assert_int_equal(
        op >= REDUCE_DOT ? reduce_state_add_pairs(s, SIZE, x, REDUCE_F64, w, n, 0, 0) : reduce_state_add(s, SIZE, x, n), 0);
}

static void the_same_states_fit_in_every_order(void **state)
{
    (void)state;
    static _Alignas(8) uint8_t s[RANKS][STATES][SIZE], got[STATES * SIZE];
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (seed = 1; seed < 60; seed++) {
        const uint64_t start = seed;
        rc_message m[RANKS], all_of_them, other;
        size_t bytes = 0, held, to = 0;
        for (uint32_t r = 0; r < RANKS; r++) {
            size_t used = 0;
            rc_message_init(&m[r], r);
            for (size_t i = 0; i < STATES; i++) {
                reduce_spec spec = REDUCE_SPEC_INIT;
                spec.op = op_of(i);
                spec.dtype = REDUCE_F64;
                make_state(s[r][i], spec.op, start % 3 == r);
                rc_message_add(&m[r], &used, &spec, s[r][i], reduce_state_size(spec.op, REDUCE_F64),
                               reduce_state_size(spec.op, REDUCE_F64));
            }
        }
        for (int i = 0; i < 12; i++) {
            other = joined(m, orders[i / 2], i % 2);
            all_of_them = i ? all_of_them : other;
            assert_memory_equal(&other, &all_of_them, sizeof other);
        }
        assert_int_equal(rc_message_end(&all_of_them, &m[0]), 0);
        assert_true(all_of_them.held > 0 && all_of_them.held <= m[0].held);
        for (size_t i = 0; i < STATES; bytes += reduce_state_size(op_of(i++), REDUCE_F64))
            memcpy(got + bytes, s[0][i], reduce_state_size(op_of(i), REDUCE_F64));
        assert_int_equal(rc_message_states(&all_of_them, got, bytes, &held), 0);
        for (size_t i = 0, size; i < STATES && to < held; i++, to += size) {
            size = reduce_state_size(op_of(i), REDUCE_F64);
            reduce_states_merge(s[0][i], s[1][i], size);
            reduce_states_merge(s[0][i], s[2][i], size);
            assert_memory_equal(got + to, s[0][i], size);
        }
        assert_int_equal(to, held);
        seed = start;
    }
}

static void damaged_states_are_an_error(void **state)
{
    (void)state;
    _Alignas(8) uint8_t got[ROOM];
    size_t held, n = state_of(got, REDUCE_SUM, all, 2);
    for (size_t at = 0; at < 40; at++)
        for (int bit = 0; bit < 8; bit++) {
            rc_message a = message_of(0, REDUCE_SUM, all, 2), b = message_of(1, REDUCE_SUM, all, 2), mine = a;
            b.room[at] ^= (uint8_t)(1 << bit);
            rc_message_states(&b, got, n, &held);
            reduce_states_merge(&a, &b, sizeof a);
            if (!rc_message_end(&a, &mine) && !rc_message_states(&a, got, n, &held))
                reduce_state_check(got, n, REDUCE_SUM, REDUCE_I32);
            state_of(got, REDUCE_SUM, all, 2);
        }
    rc_message m = message_of(0, REDUCE_MAX, all, 2);
    assert_int_equal(rc_message_states(&m, got, n, &held), REDUCE_E_BAD_MESSAGE);
    m = message_of(0, REDUCE_SUM, all, 2);
    assert_int_equal(rc_message_states(&m, got, n - 1, &held), REDUCE_E_BAD_MESSAGE);
    m.held = 100;
    assert_int_equal(rc_message_states(&m, got, n, &held), REDUCE_E_BAD_MESSAGE);
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
                                       cmocka_unit_test(the_error_of_the_lowest_rank_is_kept),
                                       cmocka_unit_test(the_same_states_fit_in_every_order),
                                       cmocka_unit_test(damaged_states_are_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
