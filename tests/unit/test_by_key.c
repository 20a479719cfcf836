/* Tasks by key in the engine of the CPU: the cells and faults of one accumulator after the other, for any number of threads and
 * both ways to cut a task. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "client/reduce.h"
#include "kernels/cpu/keys/by_key.h"
#include "kernels/kernels.h"
#include "tests/unit/oracle.h"
#include "tests/unit/polled.h"
#include "tests/unit/sanitized.h"

enum { N = 300000, MOST = 120000 };

static double values[N];
static uint8_t mask[N];
static uint32_t keys[N];
static uint8_t cells[MOST * 96], wanted[MOST * 96];

static void fill(uint64_t groups)
{
    t_rng r = {groups};
    for (int i = 0; i < N; i++) {
        const uint64_t bits = t_next(&r) >> 2 | UINT64_C(0x3000000000000000) | t_next(&r) << 63;
        memcpy(&values[i], &bits, sizeof bits);
        mask[i] = (uint8_t)t_below(&r, 4);
        keys[i] = (uint32_t)(t_below(&r, 3) ? t_below(&r, groups) : 0);
    }
}

/* What accumulators make of it. */
static void expect(const rp_spec *s)
{
    reduce_accumulators *a;
    const reduce_batch b = {.size = sizeof b,
                            .key_dtype = REDUCE_U32,
                            .keys = keys,
                            .values = values,
                            .mask = s->flags & RP_MASK ? mask : NULL,
                            .count = N,
                            .index = s->index_base};
    const reduce_spec spec = {
        .size = sizeof spec, .op = s->op, .dtype = s->dtype, .ddof = s->ddof, .rows = 1, .flags = s->flags & RP_STATES_OUT};
    const size_t cell = rp_cell_size(s);
    assert_int_equal(reduce_accumulators_new(s->op, s->dtype, s->nan, s->rows, &a), 0);
    assert_int_equal(reduce_accumulators_add(a, &b), 0);
    for (uint64_t i = 0; i < s->rows && s->flags & RP_STATES_OUT; i++)
        assert_int_equal(reduce_accumulators_state(a, i, wanted + i * cell, cell), 0);
    if (!(s->flags & RP_STATES_OUT))
        assert_int_equal(reduce_accumulators_finish(a, &spec, 0, s->rows, wanted, s->rows * cell), 0);
    reduce_accumulators_free(a);
}

static rk_task task_of(int op, uint64_t groups, uint32_t flags, rp_parts *beside)
{
    rk_task t = {.spec = {.op = (uint8_t)op,
                          .dtype = RP_F64,
                          .flags = RP_KEYS | flags,
                          .rows = groups,
                          .row_len = N,
                          .index_base = 7,
                          .keys = RP_U32},
                 .data = values,
                 .bytes = sizeof values,
                 .beside = beside,
                 .cells = cells};
    *beside = (rp_parts){.mask = mask, .keys = (const uint8_t *)keys};
    assert_int_equal(rp_spec_check_large(&t.spec, &t.fault), RP_OK);
    return t;
}

static const int threads[] = {1, 2, 7};

static void wake(void *arg)
{
    (void)arg;
    sem_post(&polled_ended);
}

static rk_engine *open_cpu(int n)
{
    const rk_options o = {.backend = RP_BACKEND_CPU, .threads = n, .wake = wake};
    rk_engine *e;
    char why[160];
    if (rk_open(&e, &o, why, sizeof why) != RP_OK)
        fail_msg("rk_open: %s", why);
    return e;
}

static void all_threads_give_the_cells_of_accumulators(void **state)
{
    static const uint64_t groups[] = {1, 3, 300, 5000, MOST};
    static const int ops[] = {RP_OP_SUM, RP_OP_VAR, RP_OP_ARGMAX, RP_OP_STATS};
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        fill(groups[g]);
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
            const uint32_t flags = (o % 2 ? RP_MASK : 0) | (groups[g] < MOST && (o + g) % 3 == 0 ? RP_STATES_OUT : 0);
            if (ops[o] == RP_OP_ARGMAX && groups[g] > 300)
                continue; /* some group has no element */
            if (!ALONE_TOO && (o + g) % 2)
                continue; /* other values, the same threads */
            rp_parts beside;
            rk_task t = task_of(ops[o], groups[g], flags, &beside);
            if (rp_cell_size(&t.spec) * groups[g] > sizeof cells)
                continue;
            expect(&t.spec);
            for (size_t k = ALONE_TOO ? 0 : 2; k < sizeof threads / sizeof threads[0]; k++) {
                memset(cells, 0xa5, sizeof cells);
                rk_engine *e = open_cpu(threads[k]);
                run(e, &t);
                rk_close(e);
                assert_int_equal(t.fault.code, RP_OK);
                assert_string_equal(t.route, "by key");
                assert_memory_equal(cells, wanted, rp_cell_size(&t.spec) * groups[g]);
            }
        }
    }
}

/* A wrong key precedes a group without a result, and the first of either decides. */
static void the_first_fault_decides(void **state)
{
    static const uint64_t groups[] = {300, MOST};
    (void)state;
    for (size_t g = 0; g < 2; g++)
        for (size_t k = ALONE_TOO ? 0 : 2; k < sizeof threads / sizeof threads[0]; k++) {
            rp_parts beside;
            fill(groups[g]);
            for (int i = 0; i < N; i++)
                keys[i] += keys[i] == 40 || keys[i] == 31;
            rk_engine *e = open_cpu(threads[k]);
            rk_task t = task_of(RP_OP_MAX, groups[g], 0, &beside);
            run(e, &t);
            assert_int_equal(t.fault.code, RP_EMPTY);
            assert_true(t.fault.index == 31 || groups[g] == MOST);
            keys[N - 1] = keys[200000] = keys[200001] = (uint32_t)groups[g];
            run(e, &t);
            assert_int_equal(t.fault.code, RP_SHAPE);
            assert_string_equal(t.fault.field, "keys");
            assert_int_equal(t.fault.index, 200000);
            assert_int_equal(t.fault.limit, groups[g]);
            t.until_ns = 1;
            run(e, &t);
            assert_int_equal(t.fault.code, RP_DEADLINE);
            rk_close(e);
        }
}

/* 10^6 sums fit, although their states would not: those are there for few groups of most data. */
static void keys_of_a_million_sums_are_read_once(void **state)
{
    (void)state;
    rp_parts beside;
    rk_task t = task_of(RP_OP_SUM, 1000000, 0, &beside);
    assert_int_equal(rk_by_key_groups(&t, 1), 1000000);
    assert_int_equal(rk_by_key_groups(&t, 16), 62500);
}

/* Every group has elements of three sizes, so that its state is needed; there is no room for all states at a time. */
static void groups_whose_states_have_no_room_are_read_again(void **state)
{
    static const double sizes[] = {0x1p-900, 1.0, 0x1p900};
    const uint64_t groups = N / 3;
    (void)state;
    for (int i = 0; i < N; i++) {
        values[i] = sizes[i / (int)groups];
        keys[i] = (uint32_t)i % (uint32_t)groups;
    }
    rp_parts beside;
    rk_task t = task_of(RP_OP_VAR, groups, 0, &beside);
    assert_true(groups * rp_state_size(rp_spec_layout(&t.spec)) > 64 << 20);
    assert_int_equal(rk_by_key_groups(&t, 1), groups);
    expect(&t.spec);
    rk_engine *e = open_cpu(1);
    run(e, &t);
    rk_close(e);
    assert_int_equal(t.fault.code, RP_OK);
    assert_memory_equal(cells, wanted, rp_cell_size(&t.spec) * groups);
}

int main(void)
{
    sem_init(&polled_ended, 0, 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_threads_give_the_cells_of_accumulators),
                                       cmocka_unit_test(the_first_fault_decides),
                                       cmocka_unit_test(keys_of_a_million_sums_are_read_once),
                                       cmocka_unit_test(groups_whose_states_have_no_room_are_read_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
