/* The machine's memory in bytes and the cores that the daemon may use. Some defaults are shares of them. */
#ifndef RD_HOST_H
#define RD_HOST_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

static inline uint64_t rd_host_memory(void) { return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE); }

static inline unsigned rd_cores(void)
{
    cpu_set_t set;
    const bool known = sched_getaffinity(0, sizeof set, &set) == 0; /* fails if the set is too small for the machine's cores */
    return known ? (unsigned)CPU_COUNT(&set) : (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

static inline unsigned rd_half_the_cores(void)
{
    const unsigned cores = rd_cores();
    return cores < 2 ? 1 : cores / 2;
}

#endif
