/* Peers count together by their origin, a user or a network address: their connections, the unauthenticated among them (without
 * HELLO) and the memory of frames that are not whole. The caller has a lock. */
#ifndef RD_ORIGIN_H
#define RD_ORIGIN_H

#include "daemon/net/wire.h"

enum { RD_ORIGIN_BUCKETS = 64 };

/* What the peers of one origin have. */
typedef struct rd_origin_use {
    rd_origin id;
    unsigned connections, unauthenticated;
    uint64_t frame_bytes; /* of frames that are not whole */
    struct rd_origin_use *next;
} rd_origin_use;

/* All zero: no peers. */
typedef struct rd_origins {
    rd_origin_use *buckets[RD_ORIGIN_BUCKETS];
    unsigned unauthenticated[2];    /* of the network, and local ones */
    uint64_t unauthenticated_bytes; /* of their frames that are not whole */
} rd_origins;

/* One more connection, unauthenticated; NULL: no memory. */
rd_origin_use *rd_origin_join(rd_origins *all, rd_origin id);

/* One authenticated connection less. `o` may be freed. */
void rd_origin_leave(rd_origins *all, rd_origin_use *o);

/* An unauthenticated connection becomes authenticated, or ends; `bytes`: of its frame. */
void rd_origin_authenticated(rd_origins *all, rd_origin_use *o, uint64_t bytes);

/* Bytes of a frame, within the caps. False: it has to wait. */
bool rd_origin_charge(rd_origins *all, rd_origin_use *o, bool unauthenticated, uint64_t bytes);
void rd_origin_release(rd_origins *all, rd_origin_use *o, bool unauthenticated, uint64_t bytes);

/* Bytes of frames that are not whole, of one origin. */
uint64_t rd_origin_frame_bytes(rd_origins *all, rd_origin id);

#endif
