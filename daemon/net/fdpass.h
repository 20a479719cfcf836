/* Sockets that pass descriptors: a unix SOCK_SEQPACKET socket beside each ipc socket, for what the messages' connections cannot
 * carry (PROTOCOL.md, "Descriptor passing"). This file knows sockets and packets; on_handle.c acts on what a packet asks for.
 * The loop owns all of it.
 *
 * A channel is unauthenticated until the layer above attaches it. It is not read between rd_fdpass_rest and rd_fdpass_watch.
 *
 * Closing a descriptor that a client passed may hang. The kernel closes one itself in two cases: a thread reads its packet
 * without room for it, or closes a socket with the packet in it. So packets are read with room for all descriptors that they
 * can carry, and workers close attached channels. Unauthenticated channels carry no descriptors (interpose.h). */
#ifndef RD_FDPASS_H
#define RD_FDPASS_H

#include <uv.h>

#include "daemon/base/config.h"
#include "daemon/base/lock.h"
#include "daemon/state/handle.h"
#include "proto/codec.h"

struct rd_session;

typedef struct rd_channel {
    uv_poll_t poll; /* first */
    int fd;
    struct rd_fdpass *all;
    rd_user *user; /* as the kernel reports it */
    bool attached, closing;
    struct rd_channel *prev, *next;
    /* for the layer above */
    struct rd_session *session; /* NULL: unauthenticated */
    rd_handle *making;          /* the handle whose making it waits for */
    rp_side_kind asked;         /* the kind of packet that asked for it */
} rd_channel;

typedef struct rd_fdpass_listener {
    uv_poll_t poll; /* first */
    int fd;
    rd_file_id own; /* of the socket at `path` */
    struct rd_fdpass *all;
    const rd_gate *gate; /* admits the same users as the messages' socket */
    bool passed;         /* the socket is there before and after this daemon */
    bool resting;        /* accept failed: not polled until the next rd_fdpass_tick */
    char path[RD_MAX_URL + sizeof RP_SIDE_SUFFIX];
} rd_fdpass_listener;

typedef struct rd_fdpass {
    uv_loop_t *loop;
    rd_holdings *holdings;
    /* a well-formed packet with its descriptor, which now is the layer's, or -1; a channel that is being closed */
    void (*packet)(void *arg, rd_channel *c, const rp_side *p, int fd);
    void (*gone)(void *arg, rd_channel *c);
    void *arg;
    rd_fdpass_listener listeners[RD_MAX_LISTEN];
    unsigned n_listeners;
    rd_channel *first, *last; /* oldest first */
    unsigned channels, unauthenticated;
    uint64_t refused; /* connections of users that the gate does not admit */
} rd_fdpass;

/* Listen beside the ipc socket `path`, with its gate. Uses the socket `passed`, or if that is -1 a new one with mode and group
 * of the ipc socket. False: `why` has the reason; the daemon works without it. */
bool rd_fdpass_listen(rd_fdpass *f, const char *path, int passed, const rd_config *config, const rd_gate *gate, char *why,
                      size_t cap);

/* The socket beside `path`, if this daemon bound one: if it was removed, bind it anew. False: `why` has the reason. */
bool rd_fdpass_keep(rd_fdpass *f, const char *path, const rd_config *config, char *why, size_t cap);

/* Accept no more peers at passed sockets: they wait for the next daemon. */
void rd_fdpass_pause(rd_fdpass *f);

/* The channel is authenticated: descriptors may come. */
void rd_fdpass_attach(rd_channel *c);

/* Send a reply packet, with what follows its head, and a descriptor unless it is -1. A peer that does not take the reply to its
 * one request is gone or broken: the channel is closed. */
void rd_fdpass_send(rd_channel *c, const rp_side *p, const rp_fault *f, int fd);

void rd_fdpass_rest(rd_channel *c);
void rd_fdpass_watch(rd_channel *c);
void rd_fdpass_hang_up(rd_channel *c); /* again is fine */

/* About once a second: listeners that rest accept again. */
void rd_fdpass_tick(rd_fdpass *f);

/* Close everything; the loop still has to run to close the handles. */
void rd_fdpass_close(rd_fdpass *f);

#endif
