/* An engine that is polled by one thread: what the tests of tasks share. Include it after cmocka.h. */
#ifndef TESTS_UNIT_POLLED_H
#define TESTS_UNIT_POLLED_H

#include <semaphore.h>

#include "kernels/kernels.h"

/* Posted for each task that has ended; a test's `wake` does it. */
static sem_t polled_ended;

static rk_task *poll_one(rk_engine *e)
{
    rk_task *done;
    while (!(done = rk_poll(e)))
        sem_wait(&polled_ended);
    return done;
}

/* Submit a task and wait for it. */
static void run(rk_engine *e, rk_task *t)
{
    if (rk_submit(e, t, RK_HERE | RK_QUEUED) != RK_FINISHED)
        assert_ptr_equal(poll_one(e), t);
}

#endif
