/* Batching: which threads wait for which, with a backend whose batches land on the test's cue; and real tasks from several
 * threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/engine/batch.h"

/* ---- a backend that waits ---- */
typedef struct {
    atomic_bool may_land;
    atomic_uint launched; /* tasks of the last launch */
    atomic_uint launches;
    sem_t launch; /* posted by each */
} patient;

static sem_t finished;

static bool patient_fits(const rk_task *t) { return t->spec.op != RP_OP_PROD; }

static void patient_launch(void *impl, unsigned flight, rk_task *tasks)
{
    (void)flight;
    patient *p = impl;
    unsigned n = 0;
    for (rk_task *t = tasks; t; t = t->next)
        n++;
    atomic_store(&p->launched, n);
    atomic_fetch_add(&p->launches, 1);
    sem_post(&p->launch);
}

static bool patient_landed(void *impl, unsigned flight, rk_task *tasks, bool closely)
{
    patient *p = impl;
    (void)flight;
    (void)closely;
    if (!atomic_exchange(&p->may_land, false))
        return false;
    for (rk_task *t = tasks; t; t = t->next)
        t->backend = RP_BACKEND_CUDA;
    return true;
}

static const rk_batch_ops patient_ops = {patient_fits, patient_launch, patient_landed, 50000, 1};
static const rk_batch_ops two_flights = {patient_fits, patient_launch, patient_landed, 50000, 2};
enum { FEW_CORES = 2, MANY_CORES = 16 };

static void post_finished(rk_task *t)
{
    (void)t;
    sem_post(&finished);
}

static void wait_for(sem_t *s, unsigned n)
{
    while (n--)
        while (sem_wait(s) != 0)
            ;
}

static rk_task small_task(int op)
{
    static const uint8_t data[4];
    static uint64_t cell;
    return (rk_task){.spec = {.op = (uint8_t)op, .dtype = RP_U8, .out = RP_U64, .rows = 1, .row_len = 4},
                     .data = data,
                     .bytes = 4,
                     .cells = &cell};
}

static pthread_t handed_back_by;

static void note_thread(rk_task *t)
{
    (void)t;
    handed_back_by = pthread_self();
}

/* Waking the batcher's thread would take longer than the flight. */
static void a_lone_task_is_handed_back_by_the_thread_that_brought_it(void **state)
{
    (void)state;
    patient p = {0};
    rk_task t = small_task(RP_OP_SUM);
    sem_init(&p.launch, 0, 0);
    rk_busy busy;
    rk_busy_init(&busy);
    rk_batcher *b = rk_batch_open(&patient_ops, &p, &busy, 64, FEW_CORES);
    assert_non_null(b);
    atomic_store(&p.may_land, true);
    assert_true(rk_batch_submit(b, &t, note_thread));
    assert_true(pthread_equal(handed_back_by, pthread_self()));
    rk_batch_close(b);
    rk_busy_fini(&busy);
    sem_destroy(&p.launch);
}

static void what_comes_while_one_flies_goes_together(void **state)
{
    (void)state;
    enum { LATE = RK_BATCH_TASKS + 8, ALL = 1 + LATE };
    patient p = {0};
    rk_task t[ALL];
    rk_stats stats = {.backend = RP_BACKEND_CUDA};
    sem_init(&p.launch, 0, 0);
    sem_init(&finished, 0, 0);
    rk_busy busy;
    rk_busy_init(&busy);
    rk_batcher *b = rk_batch_open(&patient_ops, &p, &busy, 64, FEW_CORES);
    assert_non_null(b);
    for (int i = 0; i < ALL; i++) {
        t[i] = small_task(RP_OP_SUM);
        assert_true(rk_batch_submit(b, &t[i], post_finished));
        assert_int_equal(atomic_load(&p.launches), 1);
    }
    wait_for(&p.launch, 1);
    assert_int_equal(atomic_load(&p.launched), 1);
    assert_int_equal(t[0].batch, 1);
    atomic_store(&p.may_land, true); /* as many as a batch holds take its place */
    wait_for(&p.launch, 1);
    assert_int_equal(atomic_load(&p.launched), RK_BATCH_TASKS);
    wait_for(&finished, 1);
    atomic_store(&p.may_land, true);
    wait_for(&p.launch, 1);
    assert_int_equal(atomic_load(&p.launched), LATE - RK_BATCH_TASKS);
    wait_for(&finished, RK_BATCH_TASKS);
    atomic_store(&p.may_land, true);
    wait_for(&finished, LATE - RK_BATCH_TASKS);
    assert_int_equal(t[1].batch, RK_BATCH_TASKS);
    assert_int_equal(t[ALL - 1].batch, LATE - RK_BATCH_TASKS);
    rk_batch_stats(b, &stats);
    assert_int_equal(stats.batches, 3);
    assert_int_equal(stats.batched_tasks, ALL);
    assert_int_equal(stats.device_tasks, ALL);
    assert_int_equal(stats.largest_batch, RK_BATCH_TASKS);
    const uint64_t sizes[RK_BATCH_SIZES] = {1, 0, 0, 1, 0, 1}; /* 1, 8 and 32 */
    assert_memory_equal(stats.batch_sizes, sizes, sizeof sizes);
    rk_batch_close(b);
    assert_int_equal(busy.n, 0);
    assert_true(busy.total_ns > 0);
    rk_busy_fini(&busy);
    sem_destroy(&p.launch);
    sem_destroy(&finished);
}

static void a_crowd_takes_off_beside_a_flight(void **state)
{
    (void)state;
    enum { CROWD = 4 };
    patient p = {0};
    rk_task t[1 + CROWD];
    rk_stats stats = {0};
    sem_init(&p.launch, 0, 0);
    sem_init(&finished, 0, 0);
    rk_busy busy;
    rk_busy_init(&busy);
    rk_batcher *b = rk_batch_open(&two_flights, &p, &busy, 64, MANY_CORES);
    assert_non_null(b);
    for (int i = 0; i <= CROWD; i++) {
        assert_int_equal(atomic_load(&p.launches), i > 0);
        t[i] = small_task(RP_OP_SUM);
        assert_true(rk_batch_submit(b, &t[i], post_finished));
    }
    wait_for(&p.launch, 2); /* and none has landed */
    assert_int_equal(atomic_load(&p.launched), CROWD);
    atomic_store(&p.may_land, true);
    while (atomic_load(&p.may_land))
        sched_yield();
    atomic_store(&p.may_land, true);
    wait_for(&finished, 1 + CROWD);
    rk_batch_stats(b, &stats);
    assert_int_equal(stats.batches, 2);
    assert_int_equal(stats.largest_batch, CROWD);
    rk_batch_close(b);
    assert_int_equal(busy.n, 0);
    rk_busy_fini(&busy);
    sem_destroy(&p.launch);
    sem_destroy(&finished);
}

static sem_t slow;

static void hand_back_slowly(rk_task *t)
{
    (void)t;
    wait_for(&slow, 1);
    sem_post(&finished);
}

static void one_that_is_handed_back_slowly_does_not_hold_up_the_next(void **state)
{
    (void)state;
    patient p = {0};
    rk_task t[2] = {small_task(RP_OP_SUM), small_task(RP_OP_SUM)};
    sem_init(&p.launch, 0, 0);
    sem_init(&slow, 0, 0);
    sem_init(&finished, 0, 0);
    rk_busy busy;
    rk_busy_init(&busy);
    rk_batcher *b = rk_batch_open(&two_flights, &p, &busy, 64, MANY_CORES);
    assert_non_null(b);
    assert_true(rk_batch_submit(b, &t[0], hand_back_slowly));
    assert_true(rk_batch_submit(b, &t[1], post_finished));
    wait_for(&p.launch, 1);
    atomic_store(&p.may_land, true);
    wait_for(&p.launch, 1);
    atomic_store(&p.may_land, true);
    wait_for(&finished, 1);
    assert_int_equal(sem_trywait(&finished), -1);
    sem_post(&slow);
    wait_for(&finished, 1);
    rk_batch_close(b);
    assert_int_equal(busy.n, 0);
    rk_busy_fini(&busy);
    sem_destroy(&p.launch);
    sem_destroy(&slow);
    sem_destroy(&finished);
}

static void others_are_not_taken(void **state)
{
    (void)state;
    patient p = {0};
    rk_busy busy;
    rk_busy_init(&busy);
    rk_batcher *b = rk_batch_open(&patient_ops, &p, &busy, 36, FEW_CORES); /* 4 of data, 32 of the state */
    rk_task t = small_task(RP_OP_PROD);
    assert_false(rk_batch_submit(b, &t, post_finished));
    t = small_task(RP_OP_SUM);
    t.bytes = 5;
    assert_false(rk_batch_submit(b, &t, post_finished));
    t = small_task(RP_OP_SUM);
    t.spec.flags = RP_STATES_IN;
    assert_false(rk_batch_submit(b, &t, post_finished));
    t = small_task(RP_OP_SUM);
    t.spec.flags = RP_COLUMNS; /* of none */
    t.spec.row_len = t.bytes = 0;
    assert_false(rk_batch_submit(b, &t, post_finished));
    assert_int_equal(atomic_load(&p.launches), 0);
    rk_batch_close(b);
}

/* ---- real tasks, from several threads ---- */
enum { THREADS = 4, TASKS = 400, BYTES = 256 };

typedef struct {
    rk_engine *engine;
    rk_batcher *batcher; /* instead of the engine's */
    unsigned seed;
    unsigned char data[TASKS][BYTES];
    rk_task task[TASKS];
    uint64_t cell[TASKS][RP_STATS_WORDS];
} client;

static void submit_all(client *c)
{
    for (int i = 0; i < TASKS; i++) {
        rk_task *t = &c->task[i];
        int op = RP_OP_SUM + (int)(c->seed + (unsigned)i) % RP_OP_STATS, dtype = RP_I8 + i % RP_F64;
        *t = (rk_task){.spec = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .nan = (uint8_t)(i % 3), .rows = 1},
                       .data = c->data[i],
                       .cells = c->cell[i],
                       .done = post_finished};
        if (rp_spec_check(&t->spec, NULL) != RP_OK)
            t->spec = (rp_spec){.op = RP_OP_MAX, .dtype = RP_I32, .out = RP_I32, .rows = 1};
        for (int k = 0; k < BYTES; k++)
            c->data[i][k] = (unsigned char)(rand_r(&c->seed) >> 5);
        t->bytes = i % 7 ? BYTES : 0; /* of nothing: EMPTY for some */
        t->spec.row_len = t->bytes / rp_dtype_size(t->spec.dtype);
        if (!(c->batcher ? rk_batch_submit(c->batcher, t, post_finished) : rk_submit(c->engine, t, RK_BATCHED) == RK_UNDER_WAY))
            abort();
    }
}

static void *client_main(void *arg)
{
    submit_all(arg);
    return NULL;
}

static void check_all(client *c)
{
    for (int i = 0; i < TASKS; i++) {
        uint64_t cell[RP_STATS_WORDS] = {0};
        rk_task *t = &c->task[i], again = *t;
        again.cells = cell;
        rk_cpu_run(&again);
        assert_int_equal(t->fault.code, again.fault.code);
        assert_string_equal(t->fault.text, again.fault.text);
        assert_true(t->batch >= 1 && t->batch <= RK_BATCH_TASKS);
        if (again.fault.code == RP_OK)
            assert_memory_equal(c->cell[i], cell, rp_cell_size(&t->spec));
    }
}

static void tasks_of_many_threads_keep_their_own(void **state)
{
    (void)state;
    rk_options o = {.backend = RP_BACKEND_CPU, .threads = 1, .batch_bytes = RK_MAX_BATCH_BYTES};
    rk_engine *e;
    rk_stats s, stopped;
    pthread_t thread[THREADS];
    client *c = calloc(THREADS, sizeof *c);
    sem_init(&finished, 0, 0);
    assert_non_null(c);
    assert_int_equal(rk_open(&e, &o, NULL, 0), RP_OK);
    for (unsigned i = 0; i < THREADS; i++) {
        c[i].engine = e;
        c[i].seed = i + 1;
        assert_int_equal(pthread_create(&thread[i], NULL, client_main, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    wait_for(&finished, THREADS * TASKS);
    for (int i = 0; i < THREADS; i++)
        check_all(&c[i]);
    rk_get_stats(e, &s);
    assert_int_equal(s.batched_tasks, THREADS * TASKS);
    assert_int_equal(s.tasks, THREADS * TASKS);
    assert_true(s.batches >= THREADS * TASKS / RK_BATCH_TASKS && s.batches <= THREADS * TASKS);
    rk_stop(e);
    rk_get_stats(e, &stopped); /* counters do not fall */
    assert_int_equal(stopped.batched_tasks, s.batched_tasks);
    assert_int_equal(stopped.tasks, s.tasks);
    assert_int_equal(stopped.batches, s.batches);
    rk_close(e);
    sem_destroy(&finished);
    free(c);
}

static bool any_fits(const rk_task *t)
{
    (void)t;
    return true;
}

static void no_launch(void *impl, unsigned flight, rk_task *tasks)
{
    (void)impl;
    (void)flight;
    (void)tasks;
}

static bool land_on_cpu(void *impl, unsigned flight, rk_task *tasks, bool closely)
{
    (void)impl;
    (void)flight;
    (void)closely;
    for (rk_task *t = tasks; t; t = t->next)
        rk_cpu_run(t);
    return true;
}

static void a_crew_loses_no_task_of_many_threads(void **state)
{
    (void)state;
    static const rk_batch_ops ops = {any_fits, no_launch, land_on_cpu, 50000, 2};
    rk_busy busy;
    rk_stats stats = {0};
    pthread_t thread[THREADS];
    client *c = calloc(THREADS, sizeof *c);
    assert_non_null(c);
    sem_init(&finished, 0, 0);
    rk_busy_init(&busy);
    rk_batcher *b = rk_batch_open(&ops, NULL, &busy, RK_MAX_BATCH_BYTES, MANY_CORES);
    assert_non_null(b);
    for (unsigned i = 0; i < THREADS; i++) {
        c[i].batcher = b;
        c[i].seed = i + 1;
        assert_int_equal(pthread_create(&thread[i], NULL, client_main, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    rk_batch_stop(b);
    for (int i = 0; i < THREADS * TASKS; i++)
        assert_int_equal(sem_trywait(&finished), 0);
    assert_int_equal(sem_trywait(&finished), -1);
    for (int i = 0; i < THREADS; i++)
        check_all(&c[i]);
    rk_batch_stats(b, &stats);
    assert_int_equal(stats.batched_tasks, THREADS * TASKS);
    rk_batch_close(b);
    assert_int_equal(busy.n, 0);
    rk_busy_fini(&busy);
    sem_destroy(&finished);
    free(c);
}

static void closing_waits_for_what_was_taken(void **state)
{
    (void)state;
    rk_options o = {.backend = RP_BACKEND_CPU, .threads = 1, .batch_bytes = RK_MAX_BATCH_BYTES};
    rk_engine *e;
    client *c = calloc(1, sizeof *c);
    int done = 0;
    sem_init(&finished, 0, 0);
    assert_non_null(c);
    assert_int_equal(rk_open(&e, &o, NULL, 0), RP_OK);
    c->engine = e;
    submit_all(c);
    rk_close(e);
    while (sem_trywait(&finished) == 0)
        done++;
    assert_int_equal(done, TASKS);
    check_all(c);
    sem_destroy(&finished);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_task_is_handed_back_by_the_thread_that_brought_it),
        cmocka_unit_test(what_comes_while_one_flies_goes_together),
        cmocka_unit_test(a_crowd_takes_off_beside_a_flight),
        cmocka_unit_test(one_that_is_handed_back_slowly_does_not_hold_up_the_next),
        cmocka_unit_test(others_are_not_taken),
        cmocka_unit_test(tasks_of_many_threads_keep_their_own),
        cmocka_unit_test(a_crew_loses_no_task_of_many_threads),
        cmocka_unit_test(closing_waits_for_what_was_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
