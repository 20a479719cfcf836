/* Bytes of the machine's memory, which default caps are shares of. */
#ifndef DAEMON_BASE_HOST_MEMORY_H
#define DAEMON_BASE_HOST_MEMORY_H

#include <stdint.h>
#include <unistd.h>

static inline uint64_t rd_host_memory(void) { return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE); }

#endif
