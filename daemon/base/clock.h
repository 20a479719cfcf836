/* The daemon's one clock. */
#ifndef RD_CLOCK_H
#define RD_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t rd_now_ns(void) /* CLOCK_MONOTONIC */
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
