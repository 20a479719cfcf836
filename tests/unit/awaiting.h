/* Waiting for what other threads report. Include it after cmocka.h. */
#ifndef TESTS_UNIT_AWAITING_H
#define TESTS_UNIT_AWAITING_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Wait until a condition holds, which `lock` guards and `changed` announces. Not by clock_gettime, which a test may replace. */
static void await_within(int seconds, pthread_mutex_t *lock, pthread_cond_t *changed, bool (*condition)(void))
{
    struct timespec end;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &end);
    end.tv_sec += seconds;
    pthread_mutex_lock(lock);
    while (!condition() && pthread_cond_timedwait(changed, lock, &end) != ETIMEDOUT)
        ;
    bool holds = condition();
    pthread_mutex_unlock(lock);
    assert_true(holds);
}

#endif
