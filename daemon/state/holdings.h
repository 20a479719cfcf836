/* What users hold beyond a request: handles (handle.h) and resident data (resident.h), and what making them takes. */
#ifndef RD_HOLDINGS_H
#define RD_HOLDINGS_H

#include <pthread.h>

#include "daemon/base/file_systems.h"
#include "daemon/base/workers.h"
#include "daemon/state/users.h"
#include "kernels/kernels.h"

/* Do resident data outlive the daemon (kept.h)? */
typedef enum {
    RD_KEEP_NONE,
    RD_KEEP_IN_PLACE, /* the engine reads the memory that is kept */
    RD_KEEP_COPY      /* a copy of what is on the device */
} rd_keep;

typedef struct rd_holdings {
    rd_users *users;
    rd_workers *workers;
    rk_engine *engine;
    pthread_mutex_t lock; /* of all lists of handles and of resident data, against the threads of the network */
    rd_files_from files_from;
    struct rd_handle *in_use;    /* arenas that are dropped here, but not by others */
    struct rd_handle *devices;   /* allocations by handle, of all sessions */
    struct rd_handle *refused;   /* of these, those that cannot be opened before others are closed */
    struct rd_handle *late;      /* allocations that wait until the devices are open */
    unsigned open_devices;       /* by handle: until they are closed */
    uint64_t residents_until_ns; /* no resident data expire before */
    rd_keep keep;
    uint64_t copied, copied_cap;  /* RD_KEEP_COPY: bytes of copies, and most of them */
    unsigned stored, store_room;  /* descriptors that the service manager keeps, and most of them */
    struct rd_unstored *unstored; /* what it is still to forget */
    bool leaving;                 /* the daemon ends: what is kept stays kept */
} rd_holdings;

#endif
