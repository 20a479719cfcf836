/* Memory of the engine: new, filled, reduced at an offset, counted, capped; what a CPU engine has no device for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "tests/unit/polled.h"

enum { CAP = 1 << 20, COUNT = 10000 };

static void wake(void *arg)
{
    (void)arg;
    sem_post(&polled_ended);
}

static rk_engine *open_cpu(size_t small_bytes)
{
    rk_options o = {.backend = RP_BACKEND_CPU, .threads = 2, .small_bytes = small_bytes, .resident_bytes = CAP, .wake = wake};
    rk_engine *e;
    sem_init(&polled_ended, 0, 0);
    assert_int_equal(rk_open(&e, &o, NULL, 0), RP_OK);
    return e;
}

static void fill(rk_engine *e, rk_memory *m, uint64_t offset, const void *data, size_t bytes)
{
    rk_task t = {.memory = m, .offset = offset, .data = data, .bytes = bytes, .fill = true};
    run(e, &t);
    assert_int_equal(t.fault.code, RP_OK);
}

static uint64_t sum(rk_engine *e, rk_memory *m, uint64_t from, uint64_t n)
{
    uint64_t cell = 77;
    rk_task t = {.spec = {.op = RP_OP_SUM, .dtype = RP_U32, .rows = 1, .row_len = n},
                 .memory = m,
                 .offset = from * sizeof(uint32_t),
                 .bytes = n * sizeof(uint32_t),
                 .cells = &cell};
    assert_int_equal(rp_spec_check(&t.spec, &t.fault), RP_OK);
    run(e, &t);
    assert_int_equal(t.fault.code, RP_OK);
    return cell;
}

static void check_contents(size_t small_bytes)
{
    static uint32_t x[COUNT];
    rk_engine *e = open_cpu(small_bytes);
    rk_memory *m;
    rp_fault f;
    assert_int_equal(rk_memory_new(e, RK_PLACE_ANY, sizeof x, &m, &f), RP_OK);
    assert_int_equal(rk_memory_bytes(m), sizeof x);
    assert_int_equal(sum(e, m, 0, COUNT), 0);
    for (uint32_t i = 0; i < COUNT; i++)
        x[i] = i;
    fill(e, m, sizeof x / 2, (char *)x + sizeof x / 2, sizeof x / 2);
    assert_int_equal(sum(e, m, 0, COUNT / 2), 0);
    fill(e, m, 0, x, sizeof x / 2);
    assert_int_equal(sum(e, m, 0, COUNT), (uint64_t)COUNT * (COUNT - 1) / 2);
    assert_int_equal(sum(e, m, COUNT - 3, 3), 3 * COUNT - 6);
    rk_memory_close(e, m);
    rk_close(e);
}

static void test_contents(void **state)
{
    (void)state;
    check_contents(0);
    check_contents(CAP);
}

/* What is left after the end of the threads. */
static void test_stopped(void **state)
{
    (void)state;
    rk_engine *e = open_cpu(0);
    rk_memory *m;
    rk_stats s;
    rp_fault f;
    assert_int_equal(rk_memory_new(e, RK_PLACE_ANY, 4096, &m, &f), RP_OK);
    rk_task t = {.memory = m, .data = &f, .bytes = sizeof f, .fill = true};
    assert_int_equal(rk_submit(e, &t, RK_HERE | RK_QUEUED), RK_UNDER_WAY);
    rk_stop(e);
    rk_stop(e);
    assert_null(rk_poll(e)); /* done or dropped */
    rk_get_stats(e, &s);
    assert_int_equal(s.resident_bytes, 4096);
    rk_memory_close(e, m);
    rk_close(e);
}

static void test_cap(void **state)
{
    (void)state;
    rk_engine *e = open_cpu(0);
    rk_memory *m, *more;
    rk_stats s;
    rp_fault f;
    assert_int_equal(rk_memory_new(e, RK_PLACE_ANY, CAP - 100, &m, &f), RP_OK);
    assert_int_equal(rk_memory_new(e, RK_PLACE_ANY, 101, &more, &f), RP_QUOTA);
    assert_int_equal(f.limit, CAP);
    assert_int_equal(rk_memory_new(e, RK_PLACE_ANY, SIZE_MAX, &more, &f), RP_QUOTA);
    assert_int_equal(rk_memory_new(e, RK_PLACE_ANY, 100, &more, &f), RP_OK);
    rk_get_stats(e, &s);
    assert_int_equal(s.resident_bytes, CAP);
    assert_int_equal(s.resident_cap, CAP);
    rk_memory_close(e, m);
    rk_memory_close(e, more);
    rk_memory_close(e, NULL);
    rk_get_stats(e, &s);
    assert_int_equal(s.resident_bytes, 0);
    rk_close(e);
}

static sem_t handed_back;

static void hand_back(rk_task *t)
{
    (void)t;
    sem_post(&handed_back);
}

/* Once the engine is at rest. */
static void submit_alone(rk_engine *e, rk_task *t)
{
    t->done = hand_back;
    while (rk_submit(e, t, RK_ALONE) == RK_REFUSED)
        sched_yield();
}

/* Past the owner, only while nothing of his is left. */
static void test_alone(void **state)
{
    (void)state;
    static uint32_t x[COUNT];
    rk_engine *e = open_cpu(0);
    rk_memory *m;
    rk_stats s;
    rp_fault f;
    uint64_t cell = 77;
    sem_init(&handed_back, 0, 0);
    x[COUNT - 1] = 5;
    assert_int_equal(rk_memory_new(e, RK_PLACE_ANY, sizeof x, &m, &f), RP_OK);
    fill(e, m, 0, x, sizeof x);
    rk_task t = {.spec = {.op = RP_OP_SUM, .dtype = RP_U32, .rows = 1, .row_len = COUNT},
                 .memory = m,
                 .bytes = sizeof x,
                 .cells = &cell};
    rk_task owners = {.memory = m, .data = x, .bytes = sizeof x, .fill = true};
    assert_int_equal(rp_spec_check(&t.spec, &f), RP_OK);
    submit_alone(e, &t);
    sem_wait(&handed_back);
    assert_int_equal(t.fault.code, RP_OK);
    assert_int_equal(cell, 5);
    assert_null(rk_poll(e));
    assert_int_equal(rk_submit(e, &owners, RK_HERE | RK_QUEUED), RK_UNDER_WAY);
    assert_int_equal(rk_submit(e, &t, RK_ALONE), RK_REFUSED); /* under way, or not polled */
    assert_ptr_equal(poll_one(e), &owners);
    submit_alone(e, &t);
    sem_wait(&handed_back);
    rk_get_stats(e, &s);
    assert_int_equal(s.tasks, 4);
    rk_memory_close(e, m);
    rk_close(e);
}

/* Running or not when the engine stops, it comes back. */
static void test_alone_at_the_end(void **state)
{
    (void)state;
    static uint32_t x[COUNT];
    sem_init(&handed_back, 0, 0);
    for (int i = 0; i < 20; i++) {
        rk_engine *e = open_cpu(0);
        uint64_t cell;
        rk_task t = {.spec = {.op = RP_OP_SUM, .dtype = RP_U32, .rows = 1, .row_len = COUNT},
                     .data = x,
                     .bytes = sizeof x,
                     .cells = &cell};
        assert_int_equal(rp_spec_check(&t.spec, &t.fault), RP_OK);
        submit_alone(e, &t);
        rk_stop(e);
        assert_int_equal(sem_trywait(&handed_back), 0);
        assert_true(t.fault.code == RP_OK || t.fault.code == RP_BUSY);
        rk_close(e);
    }
}

static void test_no_device(void **state)
{
    (void)state;
    static const uint8_t handle[RP_DEVICE_HANDLE];
    rk_engine *e = open_cpu(0);
    rk_memory *m = NULL;
    rk_stats s;
    rp_fault f;
    assert_int_equal(rk_memory_open(e, handle, NULL, &m, &f), RP_TYPE);
    assert_string_equal(f.field, "device");
    assert_int_equal(rk_memory_import(e, STDIN_FILENO, 4096, &m, &f), RP_TYPE);
    assert_string_equal(f.field, "device");
    assert_null(m);
    rk_get_stats(e, &s);
    assert_int_equal(s.imports, 0);
    rk_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contents), cmocka_unit_test(test_stopped),          cmocka_unit_test(test_cap),
        cmocka_unit_test(test_alone),    cmocka_unit_test(test_alone_at_the_end), cmocka_unit_test(test_no_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
