/* reduce_collective with exchanges that lie: what they leave is checked before it is used. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

/* All fields of the head, but an error: `held` up to what would have been written behind the states. */
static const damage heads[] = {{0, 4, {0}},
                               {0, 1, {'X'}},
                               {4, 4, {9}},
                               {16, 8, {1}},
                               {24, 8, {64}},
                               {24, 8, {0}},
                               {32, 4, {33}},
                               {32, 4, {0xd0, 7}},
                               {32, 4, {64}},
                               {32, 4, {31}},
                               {32, 4, {255, 255, 255, 255}},
                               {36, 4, {RANK + 1}},
                               {40, 4, {0}},
                               {44, 4, {1}}};

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

/* Groups of two ranks, whose keys have types of their own: each group's sum is that of both. */
static void groups_of_ranks(void **state)
{
    (void)state;
    static const uint8_t bytes[4] = {2, 0, 2, 9};
    static const int64_t words[4] = {0, 0, 0, 2};
    reduce_spec mine = spec_of(REDUCE_SUM), other = mine, rows = mine;
    mine.rows = other.rows = 3;
    mine.keys_dtype = REDUCE_U8;
    mine.keys = bytes;
    mine.flags = REDUCE_DROP_OUTSIDE;
    other.keys_dtype = REDUCE_I64;
    other.keys = words;
    int64_t sums[3];
    const reduce_item a = item_of(&mine, sums, sizeof sums), b = item_of(&other, sums, sizeof sums);
    rc_message theirs = message_of(RANK + 1, &b, 1);
    assert_int_equal(reduce_collective(NULL, &a, 1, RANK, joining, &theirs), 0);
    assert_int_equal(sums[0], -7 + 3 - 7 + 9);
    assert_int_equal(sums[1], 0);
    assert_int_equal(sums[2], 3 + 9 + 100);
    /* a rank that has rows instead asks for something else */
    rows.rows = 4;
    mine.rows = 4;
    int64_t four[4];
    const reduce_item of_rows = item_of(&rows, four, sizeof four), of_groups = item_of(&mine, four, sizeof four);
    theirs = message_of(RANK + 1, &of_rows, 1);
    assert_int_equal(reduce_collective(NULL, &of_groups, 1, RANK, joining, &theirs), REDUCE_E_BAD_MESSAGE);
    assert_string_equal(field(), "spec");
    /* a wrong key of one rank is an error of all */
    mine.flags = 0;
    assert_int_equal(reduce_collective(NULL, &of_groups, 1, RANK, alone, NULL), REDUCE_E_SHAPE);
}

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

static void errors_name_the_first_nan(void **state)
{
    (void)state;
    double x[6] = {1, NAN, 3, 4, NAN, 6}, out[2] = {5, 5};
    const uint8_t mask[6] = {1, 0, 1, 1, 1, 1};
    reduce_spec spec = spec_of(REDUCE_SUM);
    spec.dtype = REDUCE_F64;
    spec.nan = REDUCE_NAN_ERROR;
    spec.index_base = 100;
    reduce_item items[2] = {item_of(&spec, out, 8), item_of(&spec, out + 1, 8)};
    items[0].data = x + 2;
    items[0].bytes = 16;
    items[1].data = x;
    items[1].bytes = sizeof x;
    rc_message m = message_of(RANK + 1, items, 2);
    items[1].bytes = 8;
    assert_int_equal(reduce_collective(NULL, items, 2, RANK, joining, &m), REDUCE_E_NAN);
    assert_string_equal(reduce_errmsg(), "NAN: rank 4: item 1: element 101 is a NaN");
    items[1].bytes = sizeof x;
    spec.mask = mask;
    assert_int_equal(reduce_collective(NULL, items + 1, 1, RANK, alone, NULL), REDUCE_E_NAN);
    assert_string_equal(reduce_errmsg(), "NAN: rank 3: element 104 is a NaN");
    spec.rows = 2;
    items[1].room = 16;
    items[1].out = out;
    assert_int_equal(reduce_collective(NULL, items + 1, 1, RANK, alone, NULL), REDUCE_E_NAN);
    assert_string_equal(reduce_errmsg(), "NAN: rank 3: row 1: there is a NaN");
    assert_true(out[0] == 5 && out[1] == 5);
    assert_int_equal(reduce_error(REDUCE_E_IO, "disk", "it is full"), REDUCE_E_IO);
    assert_int_equal(reduce_collective_error(REDUCE_E_IO, RANK, alone, NULL), REDUCE_E_IO);
    assert_string_equal(reduce_errmsg(), "IO: rank 3: it is full");
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

/* ---- blocks ---- */

enum { MOST = 40000 };
static double field_of[MOST], weight_of[MOST], packed[MOST], packed_weights[MOST];
static uint8_t mask_of[MOST], packed_mask[MOST];

static void fill(void)
{
    for (size_t i = 0; i < MOST; i++) {
        field_of[i] = (double)((int)(i * 7919 % 1000) - 500) * (i % 3 ? 1 : 1e200);
        weight_of[i] = (double)(i % 17) / 8;
        mask_of[i] = i % 5 != 2;
    }
}

/* Three dimensions, by hand; how many. */
static size_t pack(const reduce_block *b)
{
    size_t n = 0;
    const uint64_t far = b->first_nearest ? 2 : 0, near = 2 - far;
    for (uint64_t i = 0; i < b->count[far]; i++)
        for (uint64_t j = 0; j < b->count[1]; j++)
            for (uint64_t k = 0; k < b->count[near]; k++, n++) {
                const uint64_t x = b->start[far] + i * b->stride[far], y = b->start[1] + j * b->stride[1],
                               z = b->start[near] + k * b->stride[near], at = (x * b->shape[1] + y) * b->shape[near] + z;
                packed[n] = field_of[at];
                packed_weights[n] = weight_of[at];
                packed_mask[n] = mask_of[at];
            }
    return n;
}

static void check_block(const reduce_block *b, int op, bool masked)
{
    uint8_t got[REDUCE_MAX_STATE] = {1}, want[REDUCE_MAX_STATE] = {2};
    reduce_spec s = spec_of(op);
    const size_t n = pack(b);
    s.dtype = REDUCE_F64;
    s.flags = REDUCE_STATES_OUT;
    s.index_base = 3;
    s.mask = masked ? mask_of : NULL;
    s.weights = op >= REDUCE_DOT ? weight_of : NULL;
    reduce_item item = item_of(&s, got, sizeof got);
    item.data = field_of;
    item.bytes = 8 * b->shape[0] * b->shape[1] * b->shape[2];
    item.block = b;
    assert_int_equal(reduce_collective(NULL, &item, 1, RANK, alone, NULL), 0);
    s.mask = masked ? packed_mask : NULL;
    s.weights = op >= REDUCE_DOT ? packed_weights : NULL;
    item.data = packed;
    item.bytes = 8 * n;
    item.block = NULL;
    item.out = want;
    assert_int_equal(reduce_collective(NULL, &item, 1, RANK, alone, NULL), 0);
    assert_memory_equal(got, want, reduce_state_size(op, REDUCE_F64));
}

static void a_block_is_its_elements_alone(void **state)
{
    (void)state;
    static const uint64_t blocks[][4][3] = {
        /* shape, start, count, stride */
        {{5, 6, 7}, {1, 1, 1}, {3, 4, 5}, {1, 1, 1}},         {{5, 6, 7}, {0, 0, 0}, {5, 6, 7}, {1, 1, 1}},
        {{5, 6, 7}, {0, 1, 2}, {2, 2, 2}, {3, 4, 3}},         {{5, 6, 7}, {4, 5, 6}, {1, 1, 1}, {9, 9, 9}},
        {{5, 6, 7}, {1, 1, 1}, {2, 0, 2}, {1, 1, 1}},         {{2, 100, 200}, {0, 1, 1}, {2, 98, 198}, {1, 1, 1}},
        {{1, 1, 40000}, {0, 0, 1}, {1, 1, 19999}, {1, 1, 2}}, {{0, 6, 7}, {0, 0, 0}, {0, 6, 7}, {1, 1, 1}}};
    static const int ops[] = {REDUCE_SUM, REDUCE_ARGMAX, REDUCE_STATS, REDUCE_WMEAN};
    fill();
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        for (size_t o = 0; o < 4 * sizeof ops / sizeof *ops; o++) {
            reduce_block b = REDUCE_BLOCK_INIT;
            b.dims = 3;
            b.shape = blocks[i][0];
            b.start = blocks[i][1];
            b.count = blocks[i][2];
            b.stride = blocks[i][3];
            b.first_nearest = o & 1;
            check_block(&b, ops[o / 4], o & 2);
        }
}

static void a_block_stays_within_its_array(void **state)
{
    (void)state;
    static const uint64_t ten[] = {10, 4}, eleven[] = {11, 4}, one[] = {1, 0}, zero[] = {1, 0}, three[] = {4, 1},
                          most[] = {UINT64_MAX, 1}, half[] = {UINT64_C(1) << 61, 10};
    reduce_spec s = spec_of(REDUCE_SUM);
    double sum = 5;
    s.dtype = REDUCE_F64;
    const struct {
        uint32_t dims;
        const uint64_t *shape, *start, *count, *stride;
        int err;
    } cases[] = {{2, ten, NULL, ten, NULL, 0},
                 {2, ten, one, ten, NULL, REDUCE_E_SHAPE},
                 {2, ten, one, eleven, NULL, REDUCE_E_SHAPE},
                 {2, eleven, NULL, ten, NULL, REDUCE_E_SHAPE},
                 {2, half, NULL, one, NULL, REDUCE_E_SHAPE},
                 {2, ten, NULL, ten, zero, REDUCE_E_ARGUMENT},
                 {2, ten, NULL, one, most, 0},
                 {2, ten, NULL, three, most, REDUCE_E_SHAPE},
                 {2, ten, most, one, NULL, REDUCE_E_SHAPE},
                 {0, ten, NULL, ten, NULL, REDUCE_E_ARGUMENT},
                 {REDUCE_MAX_DIMS + 1, ten, NULL, ten, NULL, REDUCE_E_ARGUMENT},
                 {2, NULL, NULL, ten, NULL, REDUCE_E_ARGUMENT},
                 {2, ten, NULL, NULL, NULL, REDUCE_E_ARGUMENT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reduce_block b = REDUCE_BLOCK_INIT;
        b.dims = cases[i].dims;
        b.shape = cases[i].shape;
        b.start = cases[i].start;
        b.count = cases[i].count;
        b.stride = cases[i].stride;
        reduce_item item = item_of(&s, &sum, sizeof sum);
        item.data = field_of;
        item.bytes = 40 * sizeof *field_of;
        item.block = &b;
        assert_int_equal(reduce_collective(NULL, &item, 1, RANK, alone, NULL), cases[i].err);
        s.rows = 2;
        assert_int_not_equal(reduce_collective(NULL, &item, 1, RANK, alone, NULL), 0);
        s.rows = 1;
    }
}

/* ---- several items ---- */

/* Items of a program whose reduce_item ended before `block`. */
static void earlier_items_lie_closer_together(void **state)
{
    (void)state;
    enum { EARLIER = offsetof(reduce_item, block), ITEMS = 3 };
    _Alignas(reduce_item) uint8_t earlier[ITEMS * EARLIER];
    const reduce_spec spec = spec_of(REDUCE_SUM);
    int64_t out[ITEMS] = {0};
    for (size_t i = 0; i < ITEMS; i++) {
        reduce_item item = item_of(&spec, &out[i], sizeof *out);
        item.size = EARLIER;
        memcpy(earlier + i * EARLIER, &item, EARLIER);
    }
    assert_int_equal(reduce_collective(NULL, (const reduce_item *)(const void *)earlier, ITEMS, RANK, alone, NULL), 0);
    assert_true(out[0] == 105 && out[1] == 105 && out[2] == 105);
}

/* More than are reduced together, each of its own elements. */
static void check_together(reduce_spec *s, size_t n)
{
    enum { ITEMS = 11, APART = 700 };
    static uint8_t got[ITEMS][REDUCE_LARGEST_STATE], want[REDUCE_LARGEST_STATE];
    const size_t size = s->dtype == REDUCE_F64 ? 8 : 4;
    reduce_item items[ITEMS];
    for (size_t i = 0; i < ITEMS; i++) {
        items[i] = item_of(s, got[i], sizeof got[i]);
        items[i].data = field_of + i * APART;
        items[i].bytes = n * size;
    }
    items[5].bytes -= size * (n > 0); /* one is shorter than its weights */
    memset(got, 1, sizeof got);
    assert_int_equal(reduce_collective(NULL, items, ITEMS, RANK, alone, NULL), 0);
    for (size_t i = 0; i < ITEMS; i++) {
        items[i].out = want;
        assert_int_equal(reduce_collective(NULL, &items[i], 1, RANK, alone, NULL), 0);
        assert_memory_equal(got[i], want, reduce_state_size(s->op, s->weights_dtype));
    }
}

static void items_with_the_same_weights_are_as_each_alone(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 0, 1, 7, 8192, 8192, 8193, 20011, 20011, 300};
    fill();
    field_of[9000] = NAN;
    weight_of[77] = INFINITY;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int how = 0; how < 16; how++) {
            static const int ops[] = {REDUCE_WSUM, REDUCE_WMEAN, REDUCE_COV, REDUCE_CORR};
            reduce_spec s = spec_of(ops[(how & 1) + 2 * (i % 2)]);
            s.dtype = how & 2 ? REDUCE_F64 : REDUCE_F32;
            s.weights = weight_of;
            s.weights_dtype = REDUCE_F64;
            s.mask = mask_of;
            s.flags = REDUCE_STATES_OUT | (how & 4 && i % 2 == 0 ? REDUCE_DROP_ZERO_WEIGHTS : 0);
            s.nan = how & 8 ? REDUCE_NAN_OMIT : REDUCE_NAN_PROPAGATE;
            check_together(&s, sizes[i]);
        }
}

/* ---- in steps ---- */

static void steps_do_what_one_call_does(void **state)
{
    (void)state;
    enum { ITEMS = 150 }; /* more than one message holds */
    const reduce_spec spec = spec_of(REDUCE_SUM);
    int64_t out[ITEMS] = {0};
    reduce_item items[ITEMS];
    for (size_t i = 0; i < ITEMS; i++)
        items[i] = item_of(&spec, &out[i], sizeof *out);
    for (size_t n = 1; n <= ITEMS; n += ITEMS - 1) {
        reduce_joint *joint;
        size_t bytes, exchanges = 0;
        int more = 1;
        memset(out, 0, sizeof out);
        assert_int_equal(reduce_joint_begin(&joint, NULL, items, n, RANK), 0);
        for (; more == 1; exchanges++) {
            assert_non_null(reduce_joint_buffer(joint, &bytes));
            assert_true(exchanges || bytes == REDUCE_MESSAGE);
            assert_int_equal(out[0], 0);
            more = reduce_joint_next(joint, 0);
        }
        assert_true(more == 0 && exchanges == (n == 1 ? 1 : 2));
        for (size_t i = 0; i < n; i++)
            assert_int_equal(out[i], 105);
    }
    reduce_joint *joint;
    items[1].bytes = 5;
    assert_int_equal(reduce_joint_begin(&joint, NULL, items, 2, RANK), 0);
    assert_int_equal(reduce_joint_next(joint, 0), REDUCE_E_SHAPE);
    assert_non_null(strstr(reduce_errmsg(), "SHAPE: rank 3: item 1: 5 bytes"));
    assert_int_equal(reduce_joint_begin(&joint, NULL, items, 1, RANK), 0);
    assert_int_equal(reduce_joint_next(joint, 7), REDUCE_E_IO);
    assert_int_equal(reduce_joint_begin(NULL, NULL, items, 1, RANK), REDUCE_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_message_of_others_is_an_error),
                                       cmocka_unit_test(an_exchange_that_broadcasts_is_an_error),
                                       cmocka_unit_test(states_of_others_are_checked_too),
                                       cmocka_unit_test(an_own_error_is_not_lost),
                                       cmocka_unit_test(errors_name_rank_item_and_row),
                                       cmocka_unit_test(errors_of_other_steps_are_shared),
                                       cmocka_unit_test(any_shape_of_memory_needs_no_client),
                                       cmocka_unit_test(errors_name_the_first_nan),
                                       cmocka_unit_test(a_block_is_its_elements_alone),
                                       cmocka_unit_test(a_block_stays_within_its_array),
                                       cmocka_unit_test(earlier_items_lie_closer_together),
                                       cmocka_unit_test(items_with_the_same_weights_are_as_each_alone),
                                       cmocka_unit_test(steps_do_what_one_call_does),
                                       cmocka_unit_test(correlations_of_ranks),
                                       cmocka_unit_test(groups_of_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
