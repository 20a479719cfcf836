/* Work beside the loop: threads start when work would wait, end when there is none, and no user occupies all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <semaphore.h>

#include "daemon/base/workers.h"

enum { MOST = 8, BUSIEST = 2 };

static sem_t begun, may_end, woken;

static void post_woken(void *arg)
{
    (void)arg;
    sem_post(&woken);
}

static void block(rd_work *w)
{
    (void)w;
    sem_post(&begun);
    while (sem_wait(&may_end) != 0)
        ;
}

static unsigned done;

static void count_done(rd_work *w)
{
    (void)w;
    done++;
}

static void wait_for(sem_t *s, unsigned n)
{
    while (n--)
        while (sem_wait(s) != 0)
            ;
}

static unsigned threads_of(rd_workers *w)
{
    unsigned n = 0;
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < w->most; i++)
        n += w->worker[i].runs;
    pthread_mutex_unlock(&w->lock);
    return n;
}

static unsigned idle_of(rd_workers *w)
{
    pthread_mutex_lock(&w->lock);
    unsigned n = w->idle;
    pthread_mutex_unlock(&w->lock);
    return n;
}

static void open_workers(rd_workers *w)
{
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    sem_init(&woken, 0, 0);
    assert_true(rd_workers_open(w, MOST, BUSIEST, post_woken, NULL));
}

static void close_workers(rd_workers *w)
{
    rd_workers_close(w);
    rd_workers_finish(w);
    sem_destroy(&begun);
    sem_destroy(&may_end);
    sem_destroy(&woken);
}

static void threads_start_when_work_would_wait(void **state)
{
    (void)state;
    rd_workers w;
    unsigned running[MOST] = {0}; /* a user each */
    rd_work work[MOST];
    open_workers(&w);
    assert_int_equal(threads_of(&w), 1);
    for (unsigned i = 0; i < MOST; i++) {
        work[i] = (rd_work){.run = block, .done = count_done, .running = &running[i]};
        rd_workers_add(&w, &work[i]);
        wait_for(&begun, 1); /* beside the others, which block */
        assert_int_equal(threads_of(&w), i + 1);
    }
    for (unsigned i = 0; i < MOST; i++)
        sem_post(&may_end);
    wait_for(&woken, MOST);
    close_workers(&w);
}

static void one_after_the_other_is_work_for_one(void **state)
{
    (void)state;
    rd_workers w;
    unsigned running = 0;
    open_workers(&w);
    done = 0;
    for (int i = 0; i < 20; i++) {
        rd_work work = {.run = block, .done = count_done, .running = &running};
        while (!idle_of(&w))
            sched_yield();
        rd_workers_add(&w, &work);
        sem_post(&may_end);
        wait_for(&woken, 1);
        rd_workers_finish(&w);
        assert_int_equal(done, i + 1);
    }
    assert_int_equal(threads_of(&w), 1);
    close_workers(&w);
}

static void no_user_has_them_all(void **state)
{
    (void)state;
    rd_workers w;
    unsigned running = 0, other = 0;
    rd_work work[2 * MOST], late = {.run = block, .done = count_done, .running = &other};
    open_workers(&w);
    for (unsigned i = 0; i < 2 * MOST; i++) {
        work[i] = (rd_work){.run = block, .done = count_done, .running = &running};
        rd_workers_add(&w, &work[i]);
    }
    wait_for(&begun, w.per_user);
    rd_workers_add(&w, &late);
    wait_for(&begun, 1);
    pthread_mutex_lock(&w.lock);
    assert_int_equal(running, w.per_user);
    assert_int_equal(other, 1);
    pthread_mutex_unlock(&w.lock);
    assert_true(threads_of(&w) <= MOST);
    for (unsigned i = 0; i < 2 * MOST + 1; i++)
        sem_post(&may_end);
    wait_for(&woken, 2 * MOST + 1);
    close_workers(&w);
}

/* Work that fills memory keeps a processor busy. A user has BUSIEST threads for it, and others for work that waits. */
static void no_user_keeps_all_processors_busy(void **state)
{
    (void)state;
    rd_workers w;
    unsigned running = 0, busy = 0, other = 0, other_busy = 0;
    rd_work work[MOST], reads = {.run = block, .done = count_done, .running = &running};
    rd_work fills = {.run = block, .done = count_done, .running = &other, .busy = &other_busy};
    open_workers(&w);
    for (unsigned i = 0; i < MOST; i++) {
        work[i] = (rd_work){.run = block, .done = count_done, .running = &running, .busy = &busy};
        rd_workers_add(&w, &work[i]);
    }
    wait_for(&begun, BUSIEST);
    rd_workers_add(&w, &reads);
    rd_workers_add(&w, &fills);
    wait_for(&begun, 2);
    pthread_mutex_lock(&w.lock);
    assert_int_equal(busy, BUSIEST);
    assert_int_equal(running, BUSIEST + 1);
    assert_int_equal(other_busy, 1);
    pthread_mutex_unlock(&w.lock);
    for (unsigned i = 0; i < MOST + 2; i++)
        sem_post(&may_end);
    wait_for(&woken, MOST + 2);
    close_workers(&w);
    assert_int_equal(busy + other_busy + running + other, 0);
}

static void come_small(rd_workers *w, uint64_t ns)
{
    rd_workers_small(w);
    atomic_fetch_add(&w->small_ns, ns);
}

/* While small requests come, bulk works leave them a processor; but each user has one of them. */
static void bulk_works_give_way(void **state)
{
    (void)state;
    rd_workers w;
    unsigned running = 0, other = 0;
    rd_work work[3], others = {.run = block, .done = count_done, .running = &other, .bulk = true};
    open_workers(&w);
    w.bulk_beside_small = 1; /* nothing runs yet */
    come_small(&w, UINT64_C(3600000000000));
    for (int i = 0; i < 3; i++) {
        work[i] = (rd_work){.run = block, .done = count_done, .running = &running, .bulk = true};
        rd_workers_add(&w, &work[i]);
    }
    wait_for(&begun, 1);
    rd_workers_add(&w, &others);
    wait_for(&begun, 1);
    while (threads_of(&w) - idle_of(&w) > 2) /* the others look for work first */
        sched_yield();
    pthread_mutex_lock(&w.lock);
    assert_int_equal(running, 1);
    assert_int_equal(other, 1);
    assert_int_equal(w.queued, 2);
    pthread_mutex_unlock(&w.lock);
    assert_true(rd_workers_bulk(&w));
    atomic_store(&w.small_ns, 0);
    sem_post(&may_end);
    wait_for(&begun, 2); /* those that were held back */
    for (int i = 0; i < 3; i++)
        sem_post(&may_end);
    wait_for(&woken, 4);
    close_workers(&w);
    assert_false(rd_workers_bulk(&w));
    assert_int_equal(running + other, 0);
}

static void threads_without_work_end(void **state)
{
    (void)state;
    rd_workers w;
    unsigned running = 0;
    rd_work work[3];
    open_workers(&w);
    pthread_mutex_lock(&w.lock);
    w.rest_ns = UINT64_C(5000000);
    pthread_mutex_unlock(&w.lock);
    for (int round = 0; round < 3; round++) { /* those that ended are started anew */
        for (int i = 0; i < 3; i++) {
            work[i] = (rd_work){.run = block, .done = count_done, .running = &running};
            rd_workers_add(&w, &work[i]);
        }
        wait_for(&begun, 3);
        assert_int_equal(threads_of(&w), 3);
        for (int i = 0; i < 3; i++)
            sem_post(&may_end);
        wait_for(&woken, 3);
        rd_workers_finish(&w);
        while (threads_of(&w) > 1)
            sched_yield();
    }
    close_workers(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_start_when_work_would_wait),
        cmocka_unit_test(one_after_the_other_is_work_for_one),
        cmocka_unit_test(no_user_has_them_all),
        cmocka_unit_test(no_user_keeps_all_processors_busy),
        cmocka_unit_test(bulk_works_give_way),
        cmocka_unit_test(threads_without_work_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
