/* The processes with a session, for the page: each user of this machine sees its own. */
#ifndef RD_PROCESSES_JSON_H
#define RD_PROCESSES_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

/* One session at one moment. */
typedef struct rd_process {
    uint64_t uid, pid;
    uint32_t connection;
    char name[RP_MAX_NAME + 1]; /* of rp_clean */
    uint64_t requests, pieces, errors, bytes, engine_ns;
} rd_process;

enum { RD_PROCESSES_SHOWN = 256 };

/* Of the user `uid`, or all for root and for the daemon's own user; none if it is NULL. The first RD_PROCESSES_SHOWN of them,
 * and how many there are. To be freed; NULL: no memory. */
char *rd_processes_json(const rd_process *p, size_t n, const uint64_t *uid, size_t *len);

#endif
