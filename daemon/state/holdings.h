/* What users hold beyond a request: handles (handle.h) and resident data (resident.h), and the services that make them. */
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
    pthread_mutex_t lock; /* of all lists of handles and of resident data, which threads of the network read */
    rd_files_from files_from;
    struct rd_handle *in_use;    /* dropped arenas that other processes still have */
    struct rd_handle *devices;   /* allocations by handle, of all sessions */
    struct rd_handle *refused;   /* those of them that cannot be opened before others are closed */
    struct rd_handle *late;      /* allocations that wait until the devices are open */
    unsigned open_devices;       /* number of allocations open by handle */
    uint64_t residents_until_ns; /* no resident data expire before this time */
    rd_keep keep;
    uint64_t copied, copied_cap;  /* RD_KEEP_COPY: bytes of copies, and their cap */
    unsigned stored, store_room;  /* descriptors that the service manager keeps, and their cap */
    struct rd_unstored *unstored; /* descriptors that the service manager must still drop */
    bool leaving;                 /* the daemon ends: kept data stay kept */
} rd_holdings;

#endif
