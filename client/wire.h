/* A byte stream to one URL, connected when it is asked for, and a timer: what connection.c works with. ipc:// is a socket of
 * our own (wire_unix.c), which the thread that waits for a reply can read itself; the others are nng's (wire_nng.c).
 *
 * Of each operation at most one is under way. It ends with one event, on a thread of the wire's or in read_here(), never within
 * the functions here. So these may be called from any thread, with a lock that events take. An event may ask for the next
 * operation, whose event may come while the first one still runs. */
#ifndef RC_WIRE_H
#define RC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/connection.h"

typedef struct rc_wire rc_wire;

typedef struct rc_wire_events {
    void (*dialled)(void *arg, rc_connection_err err);
    void (*sent)(void *arg, rc_connection_err err, size_t n);     /* n bytes, maybe not all */
    void (*received)(void *arg, rc_connection_err err, size_t n); /* the same; 0 if none were asked for */
    void (*rang)(void *arg);
    void (*helps)(void *arg); /* once for each help() */
} rc_wire_events;

typedef struct rc_wire_ops {
    rc_connection_err (*dial)(rc_wire *w); /* if not RC_LINK_OK, no event comes */
    void (*stop_dialling)(rc_wire *w);

    /* The stream, from `dialled` to drop(). */
    size_t (*send_now)(rc_wire *w, const void *data, size_t n); /* how many are sent; none, too, if the stream is broken */
    void (*send)(rc_wire *w, const void *data, size_t n);
    /* To `to`, and what comes behind to `more`. With n = 0 the event comes in another turn, without reading. */
    void (*receive)(rc_wire *w, void *to, size_t n, void *more, size_t more_n);
    void (*hang_up)(rc_wire *w); /* what is under way ends with an error; nothing may be asked of the stream any more */
    void (*drop)(rc_wire *w);    /* the end of the stream: nothing is under way */
    bool (*is_gone)(rc_wire *w); /* of wires that forget: has the peer hung up? */

    void (*ring)(rc_wire *w, uint64_t when_ns); /* `rang` at the earliest time asked for (CLOCK_MONOTONIC), or before */

    /* NULL: the wire cannot. See connection.h. */
    bool (*read_here)(rc_wire *w, uint64_t until_ns, uint64_t watch_until_ns);
    void (*interrupt)(rc_wire *w);
    void (*help)(rc_wire *w);

    void (*free)(rc_wire *w); /* waits for the tails of all events; not connected, not dialling */
} rc_wire_ops;

struct rc_wire {
    const rc_wire_ops *ops;
    const rc_wire_events *events;
    void *arg;
    bool forgets; /* receiving may not tell that the peer has hung up: is_gone is to be asked */
};

rc_connection_err rc_wire_unix(rc_wire **wire, const char *path, const rc_wire_events *events, void *arg);

/* `pem` is for tls+tcp, NULL otherwise, and not kept. */
rc_connection_err rc_wire_nng(rc_wire **wire, const char *url, const rp_pem *pem, const rc_wire_events *events, void *arg);

#endif
