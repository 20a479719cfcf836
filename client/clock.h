/* The clock of libreduce and reducectl, and conditions that wait by it. */
#ifndef RC_CLOCK_H
#define RC_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define RC_NS_PER_MS UINT64_C(1000000)
#define RC_NS_PER_S UINT64_C(1000000000)

/* CLOCK_MONOTONIC */
static inline uint64_t rc_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * RC_NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t rc_after_ms(uint64_t ms) { return rc_now_ns() + ms * RC_NS_PER_MS; }

/* A time of rc_now_ns, or a duration, as a struct timespec. */
static inline struct timespec rc_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / RC_NS_PER_S), (long)(ns % RC_NS_PER_S)};
}

/* 0, no deadline, for 0. */
static inline uint64_t rc_deadline_after(uint32_t ms) { return ms ? rc_after_ms(ms) : 0; }

/* pthread_cond_timedwait then takes times of this clock. */
static inline void rc_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

#endif
