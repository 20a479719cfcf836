/* Byte streams of peers, as connections use them: unix sockets of our own (wire_unix.c), and tcp and TLS by nng (wire_nng.c).
 *
 * A stream has at most one operation of each kind under way, receiving and sending, and each ends with one event on a thread of
 * its wire's, never within the functions here: those may be called from any thread, with locks that events take. Within an
 * event the next operation may be asked for, whose event may come while the first one still runs.
 *
 * `received` with ok = false is a stream's last event, and `sent` with ok = false is the last of that kind. */
#ifndef RD_WIRE_H
#define RD_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/peer.h"
#include "daemon/base/workers.h"
#include "proto/pem.h"

typedef struct rd_wire rd_wire;         /* a stream */
typedef struct rd_listener rd_listener; /* where streams come from: one URL */

typedef struct rd_wire_events {
    void (*opened)(void *arg, rd_wire *w);           /* a peer has come: w->user is to be set, or rd_wire_free called */
    void (*received)(void *user, bool ok, size_t n); /* n bytes; none for a turn that was asked for */
    void (*sent)(void *user, bool ok, size_t n);     /* n bytes, maybe not all */
} rd_wire_events;

/* The peers that a peer counts with until it says HELLO, as far as the wire knows it. */
typedef struct rd_origin {
    bool local;
    uint64_t key; /* local: the uid; else a number that peers of one address share */
} rd_origin;

/* Something to be done for a stream. */
typedef struct rd_errand {
    struct rd_errand *next; /* the wire's */
    void (*run)(struct rd_errand *x);
} rd_errand;

typedef struct rd_wire_ops {
    /* What the kernel takes now, without waiting; 0, too, if the stream is broken. Not while `send_rest` is under way. */
    size_t (*send)(rd_wire *w, const void *data, size_t n);
    bool (*send_rest)(rd_wire *w, const void *data, size_t n); /* when the kernel takes more: `sent`. False: it is broken */

    /* Up to n bytes to `to`, and what follows them to `more`: `received`. With n = 0 the event comes without reading, in
     * another turn of a thread. */
    void (*receive)(rd_wire *w, void *to, size_t n, void *more, size_t more_n);

    /* Have the thread that reads the stream do something soon: what belongs to the stream is in its cache, and other threads
     * need not wake clients one after the other. False, and nothing done: that thread sleeps, has enough to do, or is this one.
     * NULL: no thread has the stream. The stream stays until it is done. */
    bool (*leave_to_reader)(rd_wire *w, rd_errand *x);

    void (*end_sending)(rd_wire *w); /* the peer sees the end after what was sent; wires that cannot do nothing */
    void (*hang_up)(rd_wire *w);     /* what is under way ends with ok = false, and so does all that is asked for later */
    bool (*peer)(rd_wire *w, rd_peer *peer); /* all but `listener`. False: the stream is gone */
    bool (*is_gone)(rd_wire *w);             /* of wires that forget: has the peer hung up? NULL: they do not */
    void (*free)(rd_wire *w);                /* after the last events, from any thread; or within `opened` */
} rd_wire_ops;

struct rd_wire {
    const rd_wire_ops *ops;
    const rd_wire_events *events;
    void *user;
    rd_origin origin;
    unsigned listener; /* its number */
    bool ipc;          /* framed as on ipc */
};

typedef struct rd_listener_ops {
    void (*start)(rd_listener *l); /* peers are accepted from now on */
    void (*pause)(rd_listener *l); /* peers wait for the next daemon, if the socket stays for it. NULL: none does */
    void (*close)(rd_listener *l); /* no more `opened` once it returns; frees it */
} rd_listener_ops;

struct rd_listener {
    const rd_listener_ops *ops;
    const rd_wire_events *events;
    void *arg;
    unsigned number;
};

/* The threads that serve all unix sockets, from the first listener to the end. */
typedef struct rd_unix_threads rd_unix_threads;

/* They linger for requests that follow closely, but not beside bulk works of `workers`; NULL: there are none. Returns NULL if
 * there is no memory, or no threads. */
rd_unix_threads *rd_unix_open(const rd_workers *workers);
void rd_unix_close(rd_unix_threads *pool); /* no stream is left. NULL is fine */

/* Listen to ipc://PATH, by the socket `passed` that is bound there, or by a new one if that is -1. NULL: `why` says why; the
 * passed one is closed. */
rd_listener *rd_unix_listen(rd_unix_threads *pool, const char *path, int passed, const rd_wire_events *events, void *arg,
                            char *why, size_t cap);

/* What listeners on tls+tcp:// show and ask for: PEM files. `ca` may be empty if `any` client is served. NULL: see `why`. */
typedef struct rd_nng_tls rd_nng_tls;
rd_nng_tls *rd_nng_tls_open(const rp_pem_files *files, bool any, char *why, size_t cap);
void rd_nng_tls_close(rd_nng_tls *tls); /* NULL is fine */

/* Listen to tcp:// or tls+tcp://. `bound` gets the URL with the port that was taken if the URL asks for port 0. NULL: `why`
 * says why. */
rd_listener *rd_nng_listen(const char *url, rd_nng_tls *tls, const rd_wire_events *events, void *arg, char *bound,
                           size_t bound_cap, char *why, size_t cap);

#endif
