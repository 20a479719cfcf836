/* Memory of resident data that outlives the daemon: a memfd with the data and, behind them, their record. The service manager
 * keeps its descriptor while no daemon runs (base/notify.h). Once complete it is sealed: nobody can change it any more. */
#ifndef RD_KEPT_H
#define RD_KEPT_H

#include "daemon/state/kept_record.h"

typedef struct rd_kept {
    int fd;        /* -1: none here */
    uint8_t *base; /* `bytes` of data, then the record; NULL: not mapped */
    uint64_t bytes;
} rd_kept;

#define RD_KEPT_NONE ((rd_kept){.fd = -1})

/* All of these may take long: they are for workers. */
bool rd_kept_make(rd_kept *k, uint64_t bytes); /* zeros, to be written; false: no memory */

/* The data are complete: add the checksum to the record, write the record behind the data, and seal the memory. The mapping
 * keeps its address. False: the memory is not sealed and cannot be kept. */
bool rd_kept_seal(rd_kept *k, rd_kept_record *r);

/* Check a descriptor that the service manager returned, and map it. NULL: done. Otherwise what is wrong; then the descriptor is
 * closed and nothing is held. */
const char *rd_kept_take(rd_kept *k, int fd, rd_kept_record *r);

void rd_kept_close_fd(rd_kept *k); /* any thread; the mapping stays */
void rd_kept_free(rd_kept *k);     /* frees all; may be repeated */

#endif
