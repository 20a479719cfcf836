/* The clock of all parts, and conditions that wait by it. */
#ifndef RP_CLOCK_H
#define RP_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define RP_NS_PER_MS UINT64_C(1000000)
#define RP_NS_PER_S UINT64_C(1000000000)

/* CLOCK_MONOTONIC */
static inline uint64_t rp_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * RP_NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t rp_after_ms(uint64_t ms) { return rp_now_ns() + ms * RP_NS_PER_MS; }

/* 0, no deadline, for 0. */
static inline uint64_t rp_deadline_after(uint32_t ms) { return ms ? rp_after_ms(ms) : 0; }

/* A time of rp_now_ns, or a duration, as a struct timespec. */
static inline struct timespec rp_timespec(uint64_t ns)
{
    struct timespec t = {0, 0};
    t.tv_sec = (time_t)(ns / RP_NS_PER_S);
    t.tv_nsec = (long)(ns % RP_NS_PER_S);
    return t;
}

/* pthread_cond_timedwait then takes times of this clock. */
static inline void rp_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

#endif
