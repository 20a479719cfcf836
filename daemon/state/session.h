/* Sessions: one per open connection, by its id. A connection has a session struct from its opening; the session proper (an id
 * that the client gets) begins with HELLO. The loop owns all of it. The wires' threads may look a session up and hold it for a
 * request (fastpath.h). Only the loop changes the table and the ids: it writes them under `lock` and reads them without.
 *
 * Life: open -> (HELLO) -> closed, `dead` -> reaped at the end of a loop turn. By then no request of it is unanswered, no
 * reply is unsent, no thread holds it and no stream has a job in the engine. Every pointer to it is counted in one of
 * these. */
#ifndef RD_SESSION_H
#define RD_SESSION_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/base/account.h"
#include "daemon/base/peer.h"
#include "daemon/state/handle.h"
#include "daemon/state/stream.h"

/* Counters of the answers that a session got. */
typedef struct rd_session_use {
    atomic_uint_fast64_t requests, pieces, errors; /* pieces: requests whose answer is not a value (stats.h) */
    atomic_uint_fast64_t bytes, engine_ns;         /* of data; copying and computing */
} rd_session_use;

typedef struct rd_session {
    uint32_t connection;
    uint64_t id; /* 0 before HELLO; never 0 after */
    rd_peer peer;
    bool barred;           /* its user may not use this socket, or there is no room: every request gets AUTH or BUSY */
    unsigned user;         /* index of its user's counters (stats.h) */
    const char *user_text; /* the user's text at that index, valid as long as the daemon runs; NULL before HELLO */
    rd_user *owner;        /* its user's account; NULL: the connection was closed before the loop saw it */
    rp_priority priority;
    rd_sched_session queues;
    uint8_t token[RP_TOKEN];    /* opens its fdpass channel; all 0: it cannot have one */
    struct rd_channel *channel; /* NULL: none */
    rd_handle_list handles;     /* dropped with the channel */
    char name[RP_MAX_NAME + 1];
    unsigned inflight;      /* unanswered requests */
    uint64_t message_bytes; /* of these */
    rd_account unsent;      /* replies that the kernel has not taken; also of the owner's */
    rd_session_use use;
    atomic_uint held; /* requests in the fast path */
    rd_stream_list streams;
    bool dead;
    struct rd_session *next, *next_dead;
} rd_session;

typedef struct rd_sessions {
    rd_session **bucket;
    size_t mask;          /* buckets - 1, a power of two less one */
    size_t connections;   /* in the table */
    size_t greeted;       /* those that have said HELLO */
    size_t barred;        /* those whose user may not use the socket */
    pthread_mutex_t lock; /* of buckets, chains and ids, which the wires' threads read */
    rd_users *users;      /* the owners */
    rd_session *dead;
} rd_sessions;

bool rd_sessions_init(rd_sessions *s, rd_users *users, size_t expected);
void rd_sessions_fini(rd_sessions *s); /* frees everything; no request may be left */

rd_session *rd_session_open(rd_sessions *s, uint32_t connection); /* NULL: no memory, or the connection is in the table */
/* Set its owner: the peer's user, or RD_NETWORK. A new name gets a number. False: no memory. */
bool rd_session_own(rd_sessions *s, rd_session *x);
void rd_session_bar(rd_sessions *s, rd_session *x);
rd_session *rd_session_find(const rd_sessions *s, uint32_t connection);

rd_session *rd_session_by_id(const rd_sessions *s, uint64_t id); /* NULL: none; a linear search */

/* HELLO: give it an id (random, so a guess does not hit one) and, with `side`, a token. False: the system has no random
 * numbers. */
bool rd_session_greet(rd_sessions *s, rd_session *x, const char *name, size_t name_len, bool side);

/* Any thread: the session with this id on this connection, kept from being freed until rd_session_release. NULL if there is
 * none, or if it is held `max_held` times or has more than `max_unsent` replies on their way. */
rd_session *rd_session_hold(rd_sessions *s, uint32_t connection, uint64_t id, unsigned max_held, unsigned max_unsent);
void rd_session_release(rd_session *x);

/* The connection is gone: take its session out of the table and end its streams; rd_sessions_reap frees it. An unknown
 * connection is ignored. */
void rd_session_close(rd_sessions *s, rd_session *x);

void rd_sessions_reap(rd_sessions *s);

/* May its user see what other users do? Root and the daemon's own user may. */
bool rd_session_is_admin(const rd_session *x);

uint64_t rd_sessions_streams(const rd_sessions *s); /* open streams of all sessions */

#endif
