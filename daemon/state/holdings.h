/* What users hold beyond a request: handles (handle.h) and resident data (resident.h), and what making them takes. */
#ifndef RD_HOLDINGS_H
#define RD_HOLDINGS_H

#include <pthread.h>

#include "daemon/base/file_systems.h"
#include "daemon/base/workers.h"
#include "daemon/state/users.h"
#include "kernels/kernels.h"

typedef struct rd_holdings {
    rd_users *users;
    rd_workers *workers;
    rk_engine *engine;
    pthread_mutex_t lock; /* of all lists of handles and of resident data, against the threads of the network */
    rd_files_from files_from;
    struct rd_handle *in_use;    /* arenas that are dropped here, but not by others */
    struct rd_handle *devices;   /* allocations by handle, of all sessions */
    struct rd_handle *refused;   /* of these, those that cannot be opened before others are closed */
    unsigned open_devices;       /* by handle: until they are closed */
    uint64_t residents_until_ns; /* no resident data expire before */
} rd_holdings;

#endif
