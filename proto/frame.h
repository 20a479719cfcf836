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

/* Reads one side of a stream: a greeting, then frames. Bytes go in, events come out; it does no I/O and has no memory of its
 * own but what it reads ahead.
 *
 *     for (;;) {
 *         event = rp_frame_next(&r);
 *         RP_READ_MORE:  read up to r.missing bytes to r.to, and what comes behind them to r.ahead; rp_frame_got(&r, n)
 *         RP_READ_BEGUN: rp_frame_into(&r, memory, its size)
 *         ...
 *     }
 */
enum { RP_AHEAD = 8192 }; /* a read takes up to this many bytes beyond what is missing: a small frame takes one read */

typedef enum {
    RP_READ_MORE,    /* bytes are missing */
    RP_READ_GREETED, /* the peer has said what it is to say */
    RP_READ_BEGUN,   /* a frame of `size` bytes begins: rp_frame_into is to come next */
    RP_READ_FULL,    /* that memory is full, and the frame has more: rp_frame_into again, for the byte `done` and on */
    RP_READ_FRAME,   /* the frame is whole */
    /* What no later byte mends. After RP_READ_LONG the frame's first bytes can still be read, as after RP_READ_BEGUN. */
    RP_READ_NOT_OURS, /* another greeting */
    RP_READ_NO_HEAD,  /* no frame begins so */
    RP_READ_SHORT,    /* a frame without room for a route */
    RP_READ_LONG      /* a frame of more than `most` bytes */
} rp_read;

typedef struct rp_frame_reader {
    const uint8_t *greeting; /* that the peer is to say */
    bool ipc;
    uint64_t most; /* bytes of a frame: its route and message */
    enum { RP_AT_GREETING, RP_AT_HEAD, RP_AT_FRAME } at;
    uint8_t head[RP_FRAME_HEAD];
    uint64_t size, done; /* of the frame, from RP_READ_BEGUN to RP_READ_FRAME: its bytes, and those that `to` was given for */
    uint8_t *to;         /* what is wanted: where its next byte goes, and how many are missing */
    size_t missing;
    size_t ahead_at, ahead_left; /* of `ahead`: what came behind */
    uint8_t ahead[RP_AHEAD];
} rp_frame_reader;

/* `greeting` is kept by address. */
void rp_frame_init(rp_frame_reader *r, const uint8_t *greeting, bool ipc, uint64_t most);

/* What the bytes so far amount to. Each event comes once, but for RP_READ_MORE and what no later byte mends. */
rp_read rp_frame_next(rp_frame_reader *r);

/* After RP_READ_MORE: a read brought n bytes, to `to` as many as were missing, the others to `ahead`. */
void rp_frame_got(rp_frame_reader *r, size_t n);

/* After RP_READ_BEGUN, RP_READ_FULL or RP_READ_LONG: the frame's next bytes go to the `room` bytes at `to`. */
void rp_frame_into(rp_frame_reader *r, void *to, size_t room);

/* Has it a part of a frame, its head included? */
bool rp_frame_is_inside(const rp_frame_reader *r);

#endif
