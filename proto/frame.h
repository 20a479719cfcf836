/* How messages travel on a byte stream: nanomsg's SP over ipc and tcp (tls), and the route of REQ/REP in front of a message.
 *
 *     greeting, 8 bytes each way:  00 'S' 'P' 00, protocol (16 bits), 00 00
 *     frame:                       [01, on ipc only]  length (64 bits)  route  message
 *     route:                       words of 32 bits; the first one with its top bit set, the request's id, is the last.
 *                                  A reply carries the route of its request.
 * All numbers are big-endian. */
#ifndef RP_FRAME_H
#define RP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RP_GREETING = 8,    /* bytes */
    RP_FRAME_HEAD = 9,  /* bytes, at most */
    RP_ROUTE = 8 * 4,   /* bytes, at most: what went through more relays than that is ignored */
    RP_ROUTE_LEAST = 4, /* bytes: the id alone */
    RP_ROUTE_END = 0x80 /* the top bit of a word's first byte */
};

/* What each side says first. */
extern const uint8_t rp_greeting_req[RP_GREETING], rp_greeting_rep[RP_GREETING];

size_t rp_frame_head_size(bool ipc);
void rp_put_frame_head(uint8_t *head, bool ipc, uint64_t length);
bool rp_get_frame_head(const uint8_t *head, bool ipc, uint64_t *length); /* false: no frame begins so */

typedef enum { RP_ROUTE_FINE, RP_ROUTE_TOO_LONG, RP_ROUTE_BROKEN } rp_route_state;

/* The route that a frame of `len` bytes begins with. RP_ROUTE_FINE: it has *size bytes. */
rp_route_state rp_get_route(const uint8_t *frame, size_t len, size_t *size);

/* Bytes of a stream for who wants so many, then so many. A read takes what comes behind them, too, up to RP_AHEAD bytes, so
 * that a frame of a small message takes one read. */
enum { RP_AHEAD = 8192 };

typedef struct rp_intake {
    uint8_t *to; /* what is wanted: where its next byte goes, and how many are missing */
    size_t missing;
    size_t ahead_at, ahead_left; /* of `ahead`: what came behind */
    uint8_t ahead[RP_AHEAD];
} rp_intake;

void rp_intake_want(rp_intake *in, void *to, size_t size);

/* A read brought n bytes: to `to` as many as were missing, the others to `ahead`, which was empty. */
void rp_intake_got(rp_intake *in, size_t n);

/* From `ahead`, what is missing. True: all is there. */
bool rp_intake_take(rp_intake *in);

#endif
