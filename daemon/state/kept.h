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

/* The data are complete: add their checksum to the record and the record to them, and seal the memory. What is mapped stays
 * where it is. False: it is not sealed, so not to be kept. */
bool rd_kept_seal(rd_kept *k, rd_kept_record *r);

/* Take a descriptor that came back, whatever it is, and map it. NULL, or what is wrong; then nothing is held, and the
 * descriptor is closed. */
const char *rd_kept_take(rd_kept *k, int fd, rd_kept_record *r);

void rd_kept_close_fd(rd_kept *k); /* any thread; the memory stays mapped */
void rd_kept_free(rd_kept *k);     /* all of it; again is fine */

#endif
