/* The side channel: a unix SOCK_SEQPACKET socket beside each ipc socket, for what nng cannot carry: descriptors
 * (PROTOCOL.md, "Side channel"). A channel belongs to a session once it has shown the session's token; the loop owns all of it.
 *
 * A channel is not read while what it asked for is being made, so it has one request under way at most.
 *
 * To close a descriptor that a client passed may hang, also for the kernel, which does it in the thread that reads a packet
 * without room for it or closes a socket with the packet in it. So packets are read with room for all that they can carry, and
 * attached channels are closed by chores. Those of strangers have none (interpose.h). */
#ifndef RD_FDPASS_H
#define RD_FDPASS_H

#include <uv.h>

#include "daemon/base/config.h"
#include "daemon/state/handle.h"

struct rd_session;

typedef struct rd_channel {
    uv_poll_t poll; /* first */
    int fd;
    struct rd_server *server;
    rd_user *user;              /* the kernel says who it is */
    struct rd_session *session; /* NULL: a stranger yet */
    rd_handle *making;          /* what it waits for */
    rp_side_kind asked;         /* by which packet */
    bool closing;
    struct rd_channel *prev, *next;
} rd_channel;

typedef struct rd_door {
    uv_poll_t poll; /* first */
    int fd;
    struct rd_server *server;
    const rd_gate *gate; /* whom the messages' socket lets in */
    bool resting;        /* accepting failed: not looked at until the next rd_fdpass_tick */
    char path[RD_MAX_URL + sizeof RP_SIDE_SUFFIX];
} rd_door;

typedef struct rd_fdpass {
    rd_door doors[RD_MAX_LISTEN];
    unsigned n_doors;
    rd_channel *first, *last; /* oldest first */
    unsigned channels, strangers;
} rd_fdpass;

/* Listen beside the ipc socket `path`, with its mode, group and gate. False: `why`; the daemon works without. */
bool rd_fdpass_listen(struct rd_server *s, const char *path, const rd_gate *gate, char *why, size_t cap);

/* The session goes: its channel and its shares, too. */
void rd_fdpass_leave(struct rd_server *s, struct rd_session *x);

/* About once a second: doors that rest are looked at again. */
void rd_fdpass_tick(struct rd_server *s);

/* Close everything; the loop still has to run to close the handles. */
void rd_fdpass_close(struct rd_server *s);

#endif
