/* Bytes of the machine's memory, and its cores, which defaults are shares of. */
#ifndef DAEMON_BASE_HOST_MEMORY_H
#define DAEMON_BASE_HOST_MEMORY_H

#include <stdint.h>
#include <unistd.h>

static inline uint64_t rd_host_memory(void) { return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE); }

static inline unsigned rd_half_the_cores(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 2 ? 1 : (unsigned)cores / 2;
}

#endif
