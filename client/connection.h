/* Messages to one daemon and back, over byte streams (wire.h), framed as proto/frame.h tells; no knowledge of the messages
 * here. (Why not nng's REQ sockets: daemon/DESIGN.md.)
 *
 * A link dials one URL, and again by itself when the connection is lost. A slot carries one exchange (request, reply) or
 * one pause at a time; many slots of a link work at once. Callbacks run on the wire's threads, or in rc_connection_read_here;
 * none of the functions here but that, rc_connection_open and rc_connection_close waits for anything. */
#ifndef RC_CONNECTION_H
#define RC_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/clock.h"
#include "proto/pem.h"

typedef struct rc_connection rc_connection;
typedef struct rc_slot rc_slot;

typedef enum {
    RC_IO_OK,
    RC_IO_PAUSED,    /* the pause is over */
    RC_IO_LOST,      /* the connection went away after the request had been sent; it may or may not have been read */
    RC_IO_UNSENT,    /* not sent in time: no connection, or the daemon does not read */
    RC_IO_TIMEOUT,   /* sent, but no reply in time */
    RC_IO_CANCELLED, /* rc_slot_cancel */
    RC_IO_NO_MEMORY
} rc_io;

/* The connection came up or went down. */
typedef void (*rc_connection_event)(void *arg, bool up);

typedef enum {
    RC_LINK_OK,
    RC_LINK_REFUSED, /* nobody listens */
    RC_LINK_DENIED,  /* by the socket's permissions */
    RC_LINK_TIMEOUT,
    RC_LINK_BAD_URL,
    RC_LINK_BAD_PEM,   /* no usable certificate or key */
    RC_LINK_FORKED,    /* what it takes was started by the parent process, and cannot start again */
    RC_LINK_UNTRUSTED, /* TLS: one side does not accept the other's certificate, or misses it */
    RC_LINK_NO_MEMORY
} rc_connection_err;

/* Connect within timeout_ms; `pem` is for tls+tcp, NULL otherwise, and not kept. The link is to be closed with
 * rc_connection_close. */
rc_connection_err rc_connection_open(rc_connection **link, const char *url, const rp_pem *pem, uint32_t timeout_ms,
                                     rc_connection_event event, void *arg);

/* Close the connection and wait for the tails of all callbacks; every slot must have been freed. NULL is fine. */
void rc_connection_close(rc_connection *l);

/* A thread that waits for a reply may read it itself, if it is the only one under way: until until_ns (CLOCK_MONOTONIC; 0: no
 * end), a message, rc_connection_interrupt or a signal, maybe for nothing. Until watch_until_ns it looks again and again, and
 * does not sleep. False: that cannot be, now or at all. Meanwhile, and for some time after it, the connection's own threads do
 * not read. */
bool rc_connection_read_here(rc_connection *l, uint64_t until_ns, uint64_t watch_until_ns);

/* The thread that reads here, or the next one, returns and takes no message that is asked for from now on; the connection's own
 * threads read again, without the one that calls: before a callback takes long, or waits for another one, or when something is
 * under way that nobody will read here. */
void rc_connection_interrupt(rc_connection *l);

/* One more of the connection's threads is to run help(arg), with the link's `arg` and the latest `help`, as soon as it can.
 * Some wires have no such threads: then nothing happens. */
void rc_connection_help(rc_connection *l, void (*help)(void *arg));

/* The end of an exchange or pause; exactly one call for each rc_slot_exchange and rc_slot_pause. `reply` is valid during
 * the call. The slot may be used again from within. */
typedef void (*rc_slot_done)(void *arg, rc_io end, const uint8_t *reply, size_t len);

rc_slot *rc_slot_new(rc_connection *l, rc_slot_done done, void *arg); /* NULL: no memory */
void rc_slot_free(rc_slot *s);                                        /* the slot must be at rest */

/* Forget an earlier rc_slot_cancel: before each new use. */
void rc_slot_arm(rc_slot *s);

/* Writes the data of a message straight into it. */
typedef void (*rc_fill)(const void *data, uint8_t *to);

/* Send head and data as one message and wait for the reply. Both are copied before it returns: the data_len bytes at
 * `data`, or, if `fill` is not NULL, those that fill(data, ...) writes. */
void rc_slot_exchange(rc_slot *s, const void *head, size_t head_len, const void *data, size_t data_len, rc_fill fill,
                      uint32_t send_timeout_ms, uint32_t reply_timeout_ms);
void rc_slot_pause(rc_slot *s, uint32_t ms);

/* End what the slot does, or is about to do, soon. From any thread. */
void rc_slot_cancel(rc_slot *s);

#endif
