/* reduce_collective with exchanges that lie: what they leave is checked before it is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/message.h"

enum { RANK = 3 };

static const int32_t elements[4] = {3, -7, 9, 100};

static reduce_spec spec_of(int op)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = op;
    s.dtype = REDUCE_I32;
    return s;
}

static reduce_item item_of(const reduce_spec *spec, void *out, size_t room)
{
    reduce_item item = REDUCE_ITEM_INIT;
    item.spec = spec;
    item.data = elements;
    item.bytes = sizeof elements;
    item.out = out;
    item.room = room;
    return item;
}

/* ---- exchanges --------------------------------------------------------------------------------------------------- */

/* Of one rank alone. */
static int alone(void *arg, void *buffer, size_t bytes)
{
    (void)arg, (void)buffer, (void)bytes;
    return 0;
}

typedef struct damage {
    size_t at, bytes;
    uint8_t with[8];
} damage;

static int damaging(void *arg, void *buffer, size_t bytes)
{
    const damage *d = arg;
    if (bytes == REDUCE_MESSAGE)
        memcpy((uint8_t *)buffer + d->at, d->with, d->bytes);
    return 0;
}

/* As MPI_Bcast: every rank gets the message of another one. */
static int broadcasting(void *arg, void *buffer, size_t bytes)
{
    memcpy(buffer, arg, bytes);
    return 0;
}

static int joining(void *arg, void *buffer, size_t bytes)
{
    reduce_states_merge(buffer, arg, bytes);
    return 0;
}

/* It fails, so that no result is written. */
static int keeping(void *arg, void *buffer, size_t bytes)
{
    memcpy(arg, buffer, bytes);
    return 1;
}

/* The message that a rank sends. */
static rc_message message_of(uint32_t rank, const reduce_item *items, size_t n)
{
    rc_message m;
    assert_int_equal(reduce_collective(NULL, items, n, rank, keeping, &m), REDUCE_E_IO);
    return m;
}

static const char *field(void)
{
    static reduce_fault f = REDUCE_FAULT_INIT;
    assert_int_equal(reduce_last_fault(&f), 0);
    return f.field;
}

/* ---- damaged messages -------------------------------------------------------------------------------------------- */

/* All fields of the head, but an error: `held` up to what would have been written behind 32 bytes of states. */
static const damage heads[] = {{0, 4, {0}},         {0, 1, {'X'}}, {4, 4, {2}},   {16, 8, {1}},
                               {24, 8, {64}},       {24, 8, {0}},  {32, 4, {0}},  {32, 4, {33}},
                               {32, 4, {0xd0, 7}},  {32, 4, {64}}, {32, 4, {31}}, {32, 4, {255, 255, 255, 255}},
                               {36, 4, {RANK + 1}}, {40, 4, {0}},  {44, 4, {1}}};

static void a_message_of_others_is_an_error(void **state)
{
    (void)state;
    const reduce_spec spec = spec_of(REDUCE_SUM);
    int64_t sum = 5;
    const reduce_item item = item_of(&spec, &sum, sizeof sum);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        damage d = heads[i];
        int err = reduce_collective(NULL, &item, 1, RANK, damaging, &d);
        assert_int_equal(err, d.at == 4 ? REDUCE_E_VERSION : REDUCE_E_BAD_MESSAGE);
        assert_string_equal(field(), "exchange");
        assert_non_null(strstr(reduce_errmsg(), "rank 3"));
        assert_int_equal(sum, 5);
    }
    assert_int_equal(reduce_collective(NULL, &item, 1, RANK, alone, NULL), 0);
    assert_int_equal(sum, 105);
}

static void an_exchange_that_broadcasts_is_an_error(void **state)
{
    (void)state;
    const reduce_spec spec = spec_of(REDUCE_SUM), longer = spec_of(REDUCE_VAR);
    int64_t out[4] = {5};
    const reduce_item item = item_of(&spec, out, sizeof out), other = item_of(&longer, out + 1, sizeof *out);
    rc_message m = message_of(RANK + 1, &item, 1);
    assert_int_equal(reduce_collective(NULL, &item, 1, RANK, broadcasting, &m), REDUCE_E_BAD_MESSAGE);
    m = message_of(0, &other, 1);
    assert_int_equal(reduce_collective(NULL, &item, 1, RANK, broadcasting, &m), REDUCE_E_BAD_MESSAGE);
    memset(&m, 0, sizeof m);
    assert_int_equal(reduce_collective(NULL, &item, 1, RANK, broadcasting, &m), REDUCE_E_BAD_MESSAGE);
    assert_int_equal(out[0], 5);
}

static void states_of_others_are_checked_too(void **state)
{
    (void)state;
    reduce_spec spec = spec_of(REDUCE_ARGMAX);
    spec.flags = REDUCE_STATES_OUT;
    uint8_t out[REDUCE_MAX_STATE] = {7};
    const reduce_item item = item_of(&spec, out, sizeof out);
    for (size_t at = 0; at < 8; at++) {
        damage d = {48 + at, 1, {200}};
        assert_int_equal(reduce_collective(NULL, &item, 1, RANK, damaging, &d), REDUCE_E_BAD_MESSAGE);
        assert_int_equal(out[0], 7);
    }
    assert_int_equal(reduce_collective(NULL, &item, 1, RANK, alone, NULL), 0);
    assert_int_equal(reduce_state_check(out, reduce_state_size(REDUCE_ARGMAX, REDUCE_I32), REDUCE_ARGMAX, REDUCE_I32), 0);
}

/* The state of a correlation of f64 does not fit the first message. */
static void correlations_of_ranks(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4}, w[] = {-2, -4, -6, -8};
    reduce_spec spec = spec_of(REDUCE_CORR);
    double value[2] = {0};
    uint8_t out[REDUCE_LARGEST_STATE] = {0};
    spec.dtype = REDUCE_F64;
    spec.weights = w;
    reduce_item items[2] = {item_of(&spec, value, sizeof *value), item_of(&spec, value + 1, sizeof *value)};
    for (int i = 0; i < 2; i++) {
        items[i].data = x;
        items[i].bytes = sizeof x;
    }
    assert_true(reduce_state_size(REDUCE_CORR, REDUCE_F64) > REDUCE_MESSAGE);
    assert_int_equal(reduce_collective(NULL, items, 2, RANK, alone, NULL), 0);
    assert_true(value[0] == -1 && value[1] == -1);
    spec.flags = REDUCE_STATES_OUT;
    items[0] = item_of(&spec, out, sizeof out);
    items[0].data = x;
    items[0].bytes = sizeof x;
    assert_int_equal(reduce_collective(NULL, items, 1, RANK, alone, NULL), 0);
    uint8_t both[2 * REDUCE_LARGEST_STATE];
    memcpy(both, out, sizeof out);
    memcpy(both + sizeof out, out, sizeof out);
    reduce_states_merge(both, both + sizeof out, sizeof out); /* what MPI_Op calls */
    assert_int_equal(reduce_state_check(both, sizeof out, REDUCE_CORR, REDUCE_F64), 0);
    assert_int_equal(both[8], 8); /* pairs */
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void an_own_error_is_not_lost(void **state)
{
    (void)state;
    const reduce_spec spec = spec_of(REDUCE_SUM);
    int64_t sum = 5;
    const reduce_item fine = item_of(&spec, &sum, sizeof sum), small = item_of(&spec, &sum, 4);
    rc_message m = message_of(0, &fine, 1);
    assert_int_equal(reduce_collective(NULL, &small, 1, RANK, broadcasting, &m), REDUCE_E_ARGUMENT);
    assert_string_equal(reduce_errmsg(), "ARGUMENT: rank 3: 4 bytes are less than the 8 of the results");
    assert_int_equal(sum, 5);
}

static void errors_of_other_steps_are_shared(void **state)
{
    (void)state;
    rc_message m;
    rc_message_init(&m, RANK + 1);
    assert_int_equal(reduce_collective_error(0, RANK, joining, &m), 0);
    const int err = reduce_run(NULL, NULL, NULL, 0, NULL, 0, NULL);
    assert_int_equal(reduce_collective_error(err, RANK, joining, &m), err);
    assert_non_null(strstr(reduce_errmsg(), "ARGUMENT: rank 3: "));
    rc_message_fail(&m, err, RANK + 1);
    assert_int_equal(reduce_collective(NULL, NULL, 1, RANK, alone, NULL), REDUCE_E_ARGUMENT);
    assert_int_equal(reduce_collective_error(0, RANK, joining, &m), err);
    assert_non_null(strstr(reduce_errmsg(), "ARGUMENT: rank 4: "));
    assert_int_equal(reduce_collective_error(0, RANK, NULL, NULL), REDUCE_E_ARGUMENT);
}

static void errors_name_rank_item_and_row(void **state)
{
    (void)state;
    const reduce_spec spec = spec_of(REDUCE_SUM);
    int64_t out[4] = {5, 5, 5, 5};
    reduce_item items[3] = {item_of(&spec, out, 8), item_of(&spec, out + 1, 8), item_of(&spec, out + 2, 8)}, bad[3];
    memcpy(bad, items, sizeof bad);
    bad[2].bytes = 5;
    rc_message m = message_of(RANK + 1, bad, 3);
    assert_int_equal(reduce_collective(NULL, items, 3, RANK, joining, &m), REDUCE_E_SHAPE);
    assert_non_null(strstr(reduce_errmsg(), "SHAPE: rank 4: item 2: 5 bytes"));

    int64_t large[4] = {1, 2, INT64_MAX, 1};
    reduce_spec rows = spec_of(REDUCE_SUM);
    rows.dtype = REDUCE_I64;
    rows.rows = 2;
    items[1] = item_of(&rows, out + 1, 16);
    items[1].data = large;
    items[1].bytes = sizeof large;
    items[2].out = NULL;
    assert_int_equal(reduce_collective(NULL, items, 3, RANK, alone, NULL), REDUCE_E_OVERFLOW);
    assert_non_null(strstr(reduce_errmsg(), "OVERFLOW: item 1: row 1: "));
    assert_non_null(strstr(reduce_errmsg(), "the exact value is 9223372036854775808"));
    assert_true(out[1] == 5 && out[2] == 5);
}

/* ---- without a daemon ---- */

static void any_shape_of_memory_needs_no_client(void **state)
{
    (void)state;
    static const uint8_t mask[4] = {1, 0, 0, 1};
    static const uint64_t offsets[3] = {0, 3, 4};
    int64_t sums[2] = {0};
    reduce_spec spec = spec_of(REDUCE_SUM);
    const reduce_item item = item_of(&spec, sums, sizeof sums);
    const struct {
        const uint8_t *mask;
        const uint64_t *offsets;
        uint64_t rows;
        uint32_t flags;
        int64_t sums[2];
    } shapes[] = {{NULL, NULL, 2, 0, {-4, 109}},   {NULL, NULL, 2, REDUCE_COLUMNS, {12, 93}},
                  {mask, NULL, 2, 0, {3, 100}},    {mask, NULL, 2, REDUCE_COLUMNS, {3, 100}},
                  {NULL, offsets, 2, 0, {5, 100}}, {mask, offsets, 2, 0, {3, 100}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        spec.mask = shapes[i].mask;
        spec.offsets = shapes[i].offsets;
        spec.rows = shapes[i].rows;
        spec.flags = shapes[i].flags;
        assert_int_equal(reduce_collective(NULL, &item, 1, RANK, alone, NULL), 0);
        assert_memory_equal(sums, shapes[i].sums, sizeof sums);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_of_others_is_an_error),  cmocka_unit_test(an_exchange_that_broadcasts_is_an_error),
        cmocka_unit_test(states_of_others_are_checked_too), cmocka_unit_test(correlations_of_ranks),
        cmocka_unit_test(an_own_error_is_not_lost),         cmocka_unit_test(errors_name_rank_item_and_row),
        cmocka_unit_test(errors_of_other_steps_are_shared), cmocka_unit_test(any_shape_of_memory_needs_no_client)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
