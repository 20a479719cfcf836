/* Calls: one request until it is answered, with hello, repeats and queueing. */
#ifndef RC_CALL_H
#define RC_CALL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/connection.h"
#include "client/enter.h"
#include "client/reduce.h"
#include "proto/codec.h"

enum { RC_MAX_HEAD = RP_STORE_MAX }; /* what precedes the data of a body: STORE has the longest */

typedef struct rc_call rc_call;

/* The answer of a call. err 0: `body` (valid during the callback) is the reply's; otherwise call->fault has the reason. Called
 * with the client's mutex held, on any thread, exactly once for each rc_call_start. */
typedef void (*rc_call_done)(rc_call *call, int err, const uint8_t *body, size_t len);

struct rc_call {
    /* set by the owner, which keeps it and the data untouched until `done` */
    uint8_t type; /* rp_msg */
    bool bound;   /* belongs to a stream: lost with `session`, never repeated in another one */
    uint8_t head_len;
    uint8_t head[RC_MAX_HEAD];
    const void *data; /* data_len bytes, or, with `fill`, the source that it writes them from */
    size_t data_len;
    rc_fill fill;
    bool copies;          /* `fill` takes long: other threads may help */
    bool deaf;            /* whoever waits for it does not ask whether it is to end */
    uint64_t session;     /* bound calls: whose stream; else the session that carried it last */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC, 0 = none */
    rc_call_done done;
    void *owner;
    rp_fault fault;
    /* call.c's */
    rc_call *next;
    struct rc_place *place; /* while it has one */
    uint64_t id;
    uint64_t give_up_ns;
    uint64_t stood_ns; /* rc_connection_stood_ns that give_up_ns knows of */
    uint8_t losses, logins, waits;
    bool cancelled;
};

/* An exchange of the connection, and what is kept with it. */
typedef struct rc_place {
    rc_ending post; /* first: sending its message */
    reduce_client *client;
    rc_slot *exchange;
    rc_call *call;         /* NULL while busy: the call was cancelled */
    struct rc_place *next; /* in the list of free places */
    size_t head_len;
    uint8_t head[RP_HEADER_SIZE + RC_MAX_HEAD];
    uint32_t send_ms, reply_ms;
    uint32_t pause_ms; /* > 0: pause instead of sending */
    bool posting;      /* in the outbox, or its data are being copied */
    uint64_t posts;    /* how often it was put there */
} rc_place;

/* ---- wait.c: may a call of the user go on waiting? ---- */

static inline uint64_t rc_earlier(uint64_t a, uint64_t b) { return a && (!b || a < b) ? a : b; } /* 0: never */

/* When a call that begins to wait asks the program (reduce_open_opts.interrupted); 0: never. */
uint64_t rc_ask_at(const reduce_client *c);
/* Ask if it is time, and set the next time. True: the call is to end, and *ask_ns is 0. Mutex not held. */
bool rc_is_interrupted(const reduce_client *c, uint64_t *ask_ns);
/* The same with the mutex held; it is released meanwhile if it is time, so that what the caller waits for may have happened. */
bool rc_interrupted(reduce_client *c, uint64_t *ask_ns);
/* The error of the call then; reported. */
int rc_fail_interrupted(rp_fault *f);
int rc_report_interrupted(void);

/* ---- calls, with the mutex held ---- */

void rc_call_start(reduce_client *c, rc_call *call);
void rc_call_cancel(reduce_client *c, rc_call *call); /* it ends at once or soon, with REDUCE_E_CANCELLED */
/* Send a message of one number in `session` whose answer no caller needs, if the session goes on. */
void rc_call_tell(reduce_client *c, uint8_t type, uint64_t session, uint64_t value);
/* `body` answers a call, but its caller has left: undo what it has begun. */
void rc_call_undo(reduce_client *c, uint8_t type, uint64_t session, const uint8_t *body, size_t len);
void rc_say_hello(reduce_client *c, uint32_t within_ms); /* ends with greeting = false; session 0: hello.fault says why */

/* Callbacks of the connection: of a place's exchange, of a client's connection. */
void rc_call_on_exchange(void *place, rc_io end, const uint8_t *reply, size_t len);
void rc_call_on_connection(void *client, bool up);

/* Did a bound call that was not cancelled here fail because earlier data are lost: the session, the daemon, or the stream in it
 * is gone? */
bool rc_call_lost(int err);

/* ---- wait.c: calls that a thread waits for ---- */

/* Mutex not held. The reply's body, malloc'ed, goes to *body (may be NULL). REDUCE_E_INTERRUPTED: see rc_ask_at. */
int rc_call_wait(reduce_client *c, rc_call *call, uint8_t **body, size_t *len);
/* The same with the mutex held; it is released while waiting. */
int rc_call_wait_locked(reduce_client *c, rc_call *call, uint8_t **body, size_t *len);

#endif
