/* A connection and its life: its holders, why it is not read, when it is late, and its end. receiving.c handles what it
 * receives, sending.c its replies.
 *
 * A connection is two chains of events, each of which has at most one operation with the wire: receiving, and sending. The
 * receiving chain ends with the wire's last event, and nowhere else: a connection that is to end is hung up. */
#ifndef RD_CONNECTION_H
#define RD_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/net/frame_check.h"
#include "daemon/net/inbox.h"
#include "daemon/net/limits.h"
#include "daemon/net/origin.h"
#include "daemon/net/reply_buffer.h"
#include "daemon/net/wire.h"
#include "proto/clock.h"

typedef struct rd_connection rd_connection;
typedef struct rd_exchange_pool rd_exchange_pool;

/* All connections, and what they share. */
typedef struct rd_connections {
    rd_inbox *inbox;
    rd_exchange_pool *pool;
    atomic_uint unsent;      /* replies */
    pthread_mutex_t lock;    /* of everything below; taken before a connection's */
    pthread_cond_t less;     /* receivers or connections became fewer */
    rd_connection *newest;   /* of all */
    rd_connection *starving; /* oldest first: frames that wait for memory */
    rd_origins origins;
    unsigned receivers; /* connections whose receiving chain has not ended */
    unsigned alive;     /* all, until their memory is free */
    uint32_t last_id;
    bool closing;
} rd_connections;

/* Why a connection is not read. The code that sets it back to RD_READING also makes the wire continue with it
 * (rd_connection_turn). */
typedef enum {
    RD_READING,
    RD_FOR_EXCHANGE, /* it has a whole frame and waits for an exchange */
    RD_FOR_ROOM,     /* it has a part of a frame and is among the `starving` */
    RD_FOR_REPLIES,  /* until some of its replies are out, or messages answered */
    RD_FOR_ANSWERS   /* until all its messages are answered */
} rd_pause;

/* What is to happen next with a connection that is read. */
typedef enum {
    RD_GO_ON,
    RD_READ_MORE,
    RD_PAUSED, /* another thread continues with it, perhaps already */
    RD_HANG_UP
} rd_step;

struct rd_connection {
    rd_connections *all;
    rd_connection *next, **at; /* the list of all: the newest first */
    rd_origin_use *origin;
    uint32_t id;
    rd_wire *wire;
    atomic_uint holders;  /* the receiving chain, the sending one while it runs, each exchange in use; the last one frees it */
    atomic_bool ending;   /* input is discarded, and after its replies it ends */
    pthread_mutex_t lock; /* of what follows, down to receiving */
    bool closed;
    bool announced;       /* RD_CONNECTION_OPENED was sent */
    bool unauthenticated; /* has not said HELLO; also with the lock of all */
    rd_pause paused;
    unsigned under_way;                      /* messages that are not answered */
    uint64_t greet_by_ns;                    /* CLOCK_MONOTONIC: deadline of the greeting, while it is not announced */
    uint64_t send_by_ns;                     /* deadline of all waiting replies; if it is ending and has none: when it ends */
    uint64_t frame_by_ns;                    /* deadline of the whole frame; UINT64_MAX: none has begun */
    rd_reply_buffer *replies, **replies_end; /* the first one is being sent */
    unsigned n_replies;
    size_t queued_bytes; /* of these, as they were queued */
    bool sending;
    uint64_t session; /* for replies without an exchange; 0: no session */
    /* receiving */
    rp_frame_reader in;
    uint8_t *frame;
    size_t room;              /* in `frame`, after RD_MESSAGE_AT */
    size_t charged;           /* to the origin */
    bool long_frame;          /* only its start is read */
    rd_frame_check check;     /* of the whole frame */
    rd_reply_buffer *refusal; /* of a bad frame: sent when the messages before are answered */
    bool misbehaved;          /* it ends for a bad frame */
    bool timed, sized;        /* timed: the deadline is set; sized: it includes the time that the frame's bytes take */
    uint64_t received_ns;
    rd_connection *waits; /* the next one that waits or starves */
};

/* The time that this number of bytes may take on a slow link, in ns. */
static inline uint64_t rd_transfer_ns(uint64_t bytes) { return bytes * 1000 / RD_LEAST_RATE * RP_NS_PER_MS; }

static inline bool rd_is_ending(const rd_connection *c)
{
    return atomic_load_explicit(&((rd_connection *)c)->ending, memory_order_relaxed);
}

/* All of them. rd_connections_hang_up waits until nothing is received any more, rd_connections_wait until none is left. */
void rd_connections_init(rd_connections *all, rd_inbox *inbox, rd_exchange_pool *pool);
void rd_connections_tick(rd_connections *all);     /* hang up those that are late or gone */
void rd_connections_distrust(rd_connections *all); /* hang up those whose certificates are no longer trusted */
void rd_connections_hang_up(rd_connections *all);
void rd_connections_wait(rd_connections *all);
void rd_connections_destroy(rd_connections *all);

/* A connection for a new peer; the oldest unauthenticated one is closed if there are too many. Its receiving chain holds it.
 * NULL: no memory, or the end of all has begun. */
rd_connection *rd_connection_new(rd_connections *all, rd_wire *w);

rd_connection *rd_connection_find(rd_connections *all, uint32_t id); /* held; NULL: it is gone */
void rd_connection_hold(rd_connection *c);                           /* another reference, taken by a holder */
void rd_connection_let_go(rd_connection *c);

/* Operations under way end with an error, which ends both chains. */
void rd_connection_hang_up(rd_connection *c);

/* The peer has said HELLO, and has this session. */
void rd_connection_admit(rd_connection *c, uint64_t session);

/* Stop reading, with a reason; RD_HANG_UP: it is closed. */
rd_step rd_connection_pause(rd_connection *c, rd_pause reason);

/* True: it was paused, and the caller must continue with it. */
bool rd_connection_claim(rd_connection *c);
void rd_connection_turn(rd_connection *c);   /* continue in a later event of the wire */
void rd_connection_resume(rd_connection *c); /* claims it if it was paused, and continues */

/* Lists of those that wait, oldest first, with the lock of all. */
void rd_waiting_append(rd_connection **list, rd_connection *c);
void rd_waiting_remove(rd_connection **list, const rd_connection *c);

#endif
