/* Peers count together by their origin, a user or a network address: their connections, the strangers among them (peers that
 * have not said HELLO) and the memory of frames that are not whole. The caller has a lock. */
#ifndef RD_ORIGIN_H
#define RD_ORIGIN_H

#include "daemon/net/wire.h"

enum { RD_ORIGIN_BUCKETS = 64 };

/* What the peers of one origin have. */
typedef struct rd_origin_use {
    rd_origin id;
    unsigned connections, strangers;
    uint64_t frame_bytes; /* of frames that are not whole */
    struct rd_origin_use *next;
} rd_origin_use;

/* All zero: no peers. */
typedef struct rd_origins {
    rd_origin_use *buckets[RD_ORIGIN_BUCKETS];
    unsigned strangers[2];   /* of the network, and local ones */
    uint64_t stranger_bytes; /* of their frames that are not whole */
} rd_origins;

/* One more connection, a stranger's; NULL: no memory. */
rd_origin_use *rd_origin_join(rd_origins *all, rd_origin id);

/* One connection less, which is not a stranger's any more. `o` may be freed. */
void rd_origin_leave(rd_origins *all, rd_origin_use *o);

/* One stranger less; `bytes`: of its frame. */
void rd_origin_end_stranger(rd_origins *all, rd_origin_use *o, uint64_t bytes);

/* Bytes of a frame, within the caps. False: it has to wait. */
bool rd_origin_charge(rd_origins *all, rd_origin_use *o, bool stranger, uint64_t bytes);
void rd_origin_release(rd_origins *all, rd_origin_use *o, bool stranger, uint64_t bytes);

/* Bytes of frames that are not whole, of one origin. */
uint64_t rd_origin_frame_bytes(rd_origins *all, rd_origin id);

#endif
