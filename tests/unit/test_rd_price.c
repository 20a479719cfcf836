/* The cost of tasks, and the shares of two users whose tasks take different times for the same number of bytes. The times are
 * invented. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/state/price.h"
#include "daemon/state/sched.h"

enum { MIB = 1 << 20 };

/* A reduction of f64 to f64 that the engine took `ns` for. */
static rk_task task(int op, uint64_t rows, uint64_t row_len, uint64_t ns)
{
    return (rk_task){.spec = {.op = op, .dtype = RP_F64, .out = RP_F64, .rows = rows, .row_len = row_len},
                     .bytes = rows * row_len * 8,
                     .start_ns = 1,
                     .copy_ns = ns / 4,
                     .compute_ns = ns - ns / 4};
}

static void a_kind_has_the_price_of_its_tasks(void **state)
{
    (void)state;
    rd_price p = {0};
    rk_task sum = task(RP_OP_SUM, 1, MIB / 8, 100000), rows = task(RP_OP_VAR, MIB / 16, 2, 2000000),
            none = task(RP_OP_MIN, 1, 100, 0);
    assert_int_equal(rd_price_cost(&sum), RD_TASK_COST + MIB + 8);
    assert_int_equal(rd_price_cost(&rows), RD_TASK_COST + MIB + MIB / 2);
    assert_int_equal(rd_price_learn(&p, &sum), 100000);
    assert_int_equal(rd_price_learn(&p, &rows), 2000000);
    assert_in_range(rd_price_ns(&p, &sum), 98000, 100000); /* rates are whole ps a byte */
    assert_in_range(rd_price_ns(&p, &rows), 1990000, 2000000);
    assert_int_equal(rd_price_ns(&p, &none), RD_WINDOW_NS); /* a kind of task that has not run */
}

static void a_price_follows_the_engine(void **state)
{
    (void)state;
    rd_price p = {0};
    rk_task t = task(RP_OP_SUM, 1, MIB / 8, 100000);
    rd_price_learn(&p, &t);
    t.compute_ns *= 10;
    t.copy_ns *= 10;
    for (int i = 0; i < 40; i++)
        rd_price_learn(&p, &t);
    assert_in_range(rd_price_ns(&p, &t), 950000, 1000000);
}

static void what_the_engine_did_not_do_teaches_nothing(void **state)
{
    (void)state;
    rd_price p = {0};
    rk_task t = task(RP_OP_SUM, 1, MIB / 8, 100000);
    uint64_t before = rd_price_ns(&p, &t);
    t.fault.code = RP_DEVICE_LOST; /* the time is charged all the same */
    assert_int_equal(rd_price_learn(&p, &t), 100000);
    t.start_ns = 0;
    assert_int_equal(rd_price_learn(&p, &t), 0);
    assert_int_equal(rd_price_ns(&p, &t), before);
}

static void a_copy_has_a_price_without_a_spec(void **state)
{
    (void)state;
    rd_price p = {0};
    rk_task t = {.fill = true, .bytes = MIB, .start_ns = 1, .copy_ns = 50000};
    rd_price_learn(&p, &t);
    assert_in_range(rd_price_ns(&p, &t), 48000, 50000);
}

/* One user has variances of short rows, which take 20 times as long as the other's sums. The engine has two at a time. */
static void users_share_time_and_not_bytes(void **state)
{
    (void)state;
    static rd_sched s;
    static rd_sched_user users[2];
    static rd_sched_session sessions[2];
    static rd_price p;
    rd_item items[2][4], *running[2] = {NULL, NULL};
    const rk_task kind[2] = {task(RP_OP_VAR, MIB / 16, 2, 2000000), task(RP_OP_SUM, 1, MIB / 8, 100000)};
    uint64_t spent[2] = {0, 0};
    rd_sched_init(&s, MIB, 2 * MIB);
    for (int u = 0; u < 2; u++) {
        rd_sched_join(&s, &sessions[u], &users[u], RP_PRIORITY_NORMAL);
        for (int i = 0; i < 4; i++)
            rd_sched_put(&s, &sessions[u], &items[u][i], RD_QUEUE_LARGE, rd_price_cost(&kind[u]), rd_price_ns(&p, &kind[u]));
    }
    for (int n = 0; n < 10000; n++) {
        rd_item **slot = &running[n % 2];
        if (*slot) {
            int u = *slot >= items[1] && *slot < items[1] + 4;
            uint64_t ns = rd_price_learn(&p, &kind[u]);
            rd_sched_end(&s, *slot, ns);
            spent[u] += ns;
            rd_sched_put(&s, &sessions[u], *slot, RD_QUEUE_LARGE, rd_price_cost(&kind[u]), rd_price_ns(&p, &kind[u]));
        }
        *slot = rd_sched_next(&s, RD_QUEUE_LARGE);
    }
    assert_in_range(spent[0] * 100 / (spent[0] + spent[1]), 49, 51);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_has_the_price_of_its_tasks),
        cmocka_unit_test(a_price_follows_the_engine),
        cmocka_unit_test(what_the_engine_did_not_do_teaches_nothing),
        cmocka_unit_test(a_copy_has_a_price_without_a_spec),
        cmocka_unit_test(users_share_time_and_not_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
