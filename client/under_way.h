/* How many calls of a job are under way at a time. */
#ifndef RC_UNDER_WAY_H
#define RC_UNDER_WAY_H

#include "kernels/cpu/threads/here.h"

enum {
    RC_UNDER_WAY = 4,      /* one copied here, one on its way, one computed, one coming back */
    RC_MOST_UNDER_WAY = 24 /* with large data; 24 were the best for two buses (tests/bench/tuning/devices.md) */
};

/* With large data, which several cores copy or read at a time: as many as three quarters of the cores. At least 12, so that the
 * bus has work. The stage has a part for each. */
static inline int rc_large_under_way(void)
{
    enum { FEWEST = 12 };
    const int fit = rk_cpu_cores() * 3 / 4;
    return fit < FEWEST ? FEWEST : fit > RC_MOST_UNDER_WAY ? RC_MOST_UNDER_WAY : fit;
}

#endif
