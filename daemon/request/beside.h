/* What tagged parts of REDUCE and REDUCE_AT name: companions that are not with the elements, and the place of results that do
 * not go into the reply. It is held until the request ends. */
#ifndef RD_BESIDE_H
#define RD_BESIDE_H

#include "daemon/request/requests.h"

typedef struct rd_beside {
    rp_parts parts;                        /* companions: where they are */
    struct rd_handle *handle[RP_ROLE_END]; /* whose memory has them, by role, */
    struct rd_resident *kept[RP_ROLE_END]; /* or which resident data are they */
    uint8_t *cells;                        /* where the results go; NULL: into the reply */
    struct rd_handle *arena;               /* which has these, */
    struct rd_resident *written;           /* or the array that the session writes, of whose bytes */
    uint64_t offset, bytes;                /* they are these */
    bool complete;                         /* the results are there */
} rd_beside;

/* Find what the parts of a request name, for its matching spec and the elements of its task. `at`: where REDUCE_AT has these;
 * NULL: in the message. `data`: the bytes behind the parts of REDUCE_AT. Called by the loop, or, unless t->apart, by any thread
 * with holdings->lock. RD_LATER, or errors: those of PROTOCOL.md's table of parts. */
rp_err rd_beside_open(rd_request *r, const rp_tagged *t, const rp_at *at, const uint8_t *data, size_t bytes, rp_fault *f);

/* Release what it holds; NULL is allowed. */
void rd_beside_close(rd_beside *b);

#endif
