/* A reply as bytes: header and body, with room in front for what its connection puts there. Until it is freed it counts among
 * the replies that are not sent, and on the account of its session. */
#ifndef RD_REPLY_BUFFER_H
#define RD_REPLY_BUFFER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/account.h"

enum { RD_REPLY_FRONT = 80 }; /* bytes, for the frame's head and the route; the cells of a reply lie on 8 bytes */

typedef struct rd_reply_buffer {
    struct rd_reply_buffer *next;
    uint8_t *at; /* the bytes that the kernel has not taken, and their number */
    size_t left;
    rd_account *account; /* NULL: on no account */
    size_t charged, queued;
    bool last;           /* the connection ends after it */
    atomic_uint *unsent; /* counts it */
    _Alignas(8) uint8_t bytes[];
} rd_reply_buffer;

/* Room for `size` bytes of header and body. NULL: no memory. */
rd_reply_buffer *rd_reply_buffer_new(atomic_uint *unsent, size_t size);

static inline uint8_t *rd_reply_buffer_message(rd_reply_buffer *r) { return r->bytes + RD_REPLY_FRONT; }

/* Head and route go in front of the message, whose length is given in bytes. */
void rd_reply_buffer_frame(rd_reply_buffer *r, bool ipc, const uint8_t *route, size_t route_size, size_t message);

/* Frees it and all that follow it. From here on the sessions that were charged may be freed. */
void rd_reply_buffer_free(rd_reply_buffer *r);

#endif
