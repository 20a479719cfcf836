/* Messages to one daemon and back, over byte streams (wire.h), framed as proto/frame.h tells; no knowledge of the messages
 * here. (Why not nng's REQ sockets: daemon/DESIGN.md.)
 *
 * A connection dials one URL, and dials again by itself when it is lost. A slot carries one exchange (request, reply) or one
 * pause at a time; many slots work in parallel. Callbacks run on the wire's threads, or in rc_connection_read_here. Only that
 * function, rc_connection_open and rc_connection_close wait for anything. */
#ifndef RC_CONNECTION_H
#define RC_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/clock.h"
#include "proto/pem.h"

typedef struct rc_connection rc_connection;
typedef struct rc_slot rc_slot;

typedef enum {
    RC_IO_OK,
    RC_IO_PAUSED,    /* the pause is over */
    RC_IO_LOST,      /* the connection was lost after the request was sent; the daemon may or may not have read it */
    RC_IO_UNSENT,    /* not sent in time: no connection, or the daemon does not read */
    RC_IO_TIMEOUT,   /* sent, but no reply in time */
    RC_IO_CANCELLED, /* rc_slot_cancel */
    RC_IO_NO_MEMORY
} rc_io;

/* The connection came up or went down. */
typedef void (*rc_connection_event)(void *arg, bool up);

typedef enum {
    RC_LINK_OK,
    RC_LINK_REFUSED, /* no process listens */
    RC_LINK_DENIED,  /* the socket's permissions do not allow it */
    RC_LINK_TIMEOUT,
    RC_LINK_BAD_URL,
    RC_LINK_BAD_PEM,   /* no usable certificate or key */
    RC_LINK_FORKED,    /* the wire's threads belong to the parent process and cannot be started again */
    RC_LINK_UNTRUSTED, /* TLS: one side rejects the other's certificate, or has none */
    RC_LINK_INTERRUPTED,
    RC_LINK_NO_MEMORY
} rc_connection_err;

/* Is the attempt to connect to end? */
typedef bool (*rc_connection_give_up)(void *arg);

/* Connect within timeout_ms; `pem` is for tls+tcp, NULL otherwise, and not kept. It asks give_up(arg) now and then. Close it by
 * rc_connection_close. */
rc_connection_err rc_connection_open(rc_connection **link, const char *url, const rp_pem *pem, uint32_t timeout_ms,
                                     rc_connection_event event, rc_connection_give_up give_up, void *arg);

/* Close the connection and wait for running callbacks; every slot must have been freed. NULL is allowed. */
void rc_connection_close(rc_connection *l);

/* A thread that waits for the only reply under way may read it itself. It returns at until_ns (CLOCK_MONOTONIC; 0: never), or
 * after a message, rc_connection_interrupt, a signal or a spurious wake-up. Until watch_until_ns it polls without sleeping.
 * False: it cannot read, now or ever. Meanwhile, and for some time afterwards, the connection's own threads do not read. */
bool rc_connection_read_here(rc_connection *l, uint64_t until_ns, uint64_t watch_until_ns);

/* The thread in rc_connection_read_here, or the next one to enter it, returns without taking replies to later requests. The
 * connection's own threads read again, except the calling one. Call it before a callback that takes long or waits for another
 * one, and when a request is under way whose reply no caller will read. */
void rc_connection_interrupt(rc_connection *l);

/* How long in all this process stood still while it waited: it was stopped (SIGSTOP, a debugger, a frozen cgroup), or got no
 * processor. What ran out meanwhile was not tried. `until_now`: a standstill counts that the timer has not noticed so far. */
uint64_t rc_connection_stood_ns(rc_connection *l, bool until_now);

/* Let one more of the connection's threads run help(arg) soon, with the connection's `arg` and the latest `help`. Does nothing
 * for wires without such threads. */
void rc_connection_help(rc_connection *l, void (*help)(void *arg));

/* The end of an exchange or pause; exactly one call for each rc_slot_exchange and rc_slot_pause. `reply` is valid during
 * the call. The slot may be used again from within. */
typedef void (*rc_slot_done)(void *arg, rc_io end, const uint8_t *reply, size_t len);

rc_slot *rc_slot_new(rc_connection *l, rc_slot_done done, void *arg); /* NULL: no memory */
void rc_slot_free(rc_slot *s);                                        /* the slot must be at rest */

/* Forget an earlier rc_slot_cancel; call it before each new use. */
void rc_slot_arm(rc_slot *s);

/* Writes a message's data straight into the message. */
typedef void (*rc_fill)(const void *data, uint8_t *to);

/* Send head and data as one message and wait for the reply. Both are copied before it returns: the data_len bytes at
 * `data`, or, if `fill` is not NULL, those that fill(data, ...) writes. */
void rc_slot_exchange(rc_slot *s, const void *head, size_t head_len, const void *data, size_t data_len, rc_fill fill,
                      uint32_t send_timeout_ms, uint32_t reply_timeout_ms);
void rc_slot_pause(rc_slot *s, uint32_t ms);

/* End soon what the slot does or is about to do. Any thread. */
void rc_slot_cancel(rc_slot *s);

#endif
