/* The clock of libreduce and reducectl. */
#ifndef RC_CLOCK_H
#define RC_CLOCK_H

#include <stdint.h>
#include <time.h>

#define RC_NS_PER_MS UINT64_C(1000000)

/* CLOCK_MONOTONIC */
static inline uint64_t rc_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* A time of rc_now_ns, or a duration, as a struct timespec. */
static inline struct timespec rc_timespec(uint64_t ns)
{
    const uint64_t second = 1000000000;
    return (struct timespec){(time_t)(ns / second), (long)(ns % second)};
}

/* 0, no deadline, for 0. */
static inline uint64_t rc_deadline_after(uint32_t ms) { return ms ? rc_now_ns() + ms * RC_NS_PER_MS : 0; }

#endif
