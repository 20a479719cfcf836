/* The daemon's one clock, and conditions that wait by it. */
#ifndef RD_CLOCK_H
#define RD_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define RD_NS_PER_MS UINT64_C(1000000)
#define RD_NS_PER_S UINT64_C(1000000000)

static inline uint64_t rd_now_ns(void) /* CLOCK_MONOTONIC */
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * RD_NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t rd_after_ms(uint64_t ms) { return rd_now_ns() + ms * RD_NS_PER_MS; }

/* A time of rd_now_ns, or a duration, as a struct timespec. */
static inline struct timespec rd_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / RD_NS_PER_S), (long)(ns % RD_NS_PER_S)};
}

/* pthread_cond_timedwait then takes times of this clock. */
static inline void rd_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

#endif
