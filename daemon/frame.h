/* How messages travel on a byte stream: nanomsg's SP over ipc and tcp (tls), and the route of REQ/REP in front of a message.
 *
 *     greeting, 8 bytes each way:  00 'S' 'P' 00, protocol (16 bits), 00 00
 *     frame:                       [01, on ipc only]  length (64 bits)  route  message
 *     route:                       words of 32 bits; the first one with its top bit set, the request's id, is the last.
 *                                  A reply carries the route of its request.
 * All numbers are big-endian. */
#ifndef RD_FRAME_H
#define RD_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RD_GREETING = 8,    /* bytes */
    RD_FRAME_HEAD = 9,  /* bytes, at most */
    RD_ROUTE = 8 * 4,   /* bytes, at most: what went through more relays than that is ignored */
    RD_ROUTE_LEAST = 4, /* bytes: the id alone */
};

/* What the replying side says first, and whether this is what a requesting one says. */
extern const uint8_t rd_greeting[RD_GREETING];
bool rd_greeting_fits(const uint8_t greeting[RD_GREETING]);

size_t rd_frame_head_size(bool ipc);
void rd_put_frame_head(uint8_t *head, bool ipc, uint64_t length);
bool rd_get_frame_head(const uint8_t *head, bool ipc, uint64_t *length); /* false: no frame begins so */

typedef enum { RD_ROUTE_FINE, RD_ROUTE_TOO_LONG, RD_ROUTE_BROKEN } rd_route_state;

/* The route that a frame of `len` bytes begins with. RD_ROUTE_FINE: it has *size bytes. */
rd_route_state rd_get_route(const uint8_t *frame, size_t len, size_t *size);

#endif
