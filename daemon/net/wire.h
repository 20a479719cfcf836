/* Byte streams of peers, as connections use them: unix sockets of our own (wire_unix.c), and tcp and TLS by nng (wire_nng.c).
 *
 * A stream has at most one receive and one send under way. Each ends with one event on a thread of its wire, never within the
 * functions here. So these may be called from any thread, with locks that events take. An event may begin the next operation,
 * whose event may come while the first event still runs.
 *
 * `received` with ok = false is a stream's last event, and `sent` with ok = false is the last of that kind. */
#ifndef RD_WIRE_H
#define RD_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/peer.h"
#include "daemon/base/workers.h"
#include "daemon/net/cert_dates.h"
#include "proto/pem.h"

typedef struct rd_wire rd_wire;         /* a stream */
typedef struct rd_listener rd_listener; /* where streams come from: one URL */

typedef struct rd_wire_events {
    void (*opened)(void *arg, rd_wire *w);           /* a peer has come: set w->user, or call rd_wire_free */
    void (*received)(void *user, bool ok, size_t n); /* n bytes; 0 for a requested turn */
    void (*sent)(void *user, bool ok, size_t n);     /* n bytes, maybe not all */
} rd_wire_events;

/* The group of peers that a peer counts with until its HELLO, as far as the wire knows it. */
typedef struct rd_origin {
    bool local;
    uint64_t key; /* local: the uid; else a number that peers of one address share */
} rd_origin;

/* Work to be done for a stream. */
typedef struct rd_posted {
    struct rd_posted *next; /* the wire's */
    void (*run)(struct rd_posted *x);
} rd_posted;

typedef struct rd_wire_ops {
    /* Sends what the kernel takes now, without waiting; returns 0, too, if the stream is broken. Not while `send_rest` is under
     * way. */
    size_t (*send)(rd_wire *w, const void *data, size_t n);
    bool (*send_rest)(rd_wire *w, const void *data, size_t n); /* `sent` follows when the kernel takes more. False: it is
                                                                  broken */

    /* Reads up to n bytes to `to`, and what follows them to `more`; `received` reports them. With n = 0 the event comes without
     * reading, in another turn of a thread. */
    void (*receive)(rd_wire *w, void *to, size_t n, void *more, size_t more_n);

    /* Let the thread that reads the stream run posted work soon: the stream's data are in its cache, and other threads need not
     * wake clients one after the other. False: nothing is done, because that thread sleeps, has enough to do, or is this one.
     * NULL: no thread owns the stream. The stream stays until the work is done. */
    bool (*leave_to_reader)(rd_wire *w, rd_posted *x);

    void (*end_sending)(rd_wire *w);         /* the peer sees the end after what was sent; does nothing where a wire cannot */
    void (*hang_up)(rd_wire *w);             /* operations under way and later ones end with ok = false */
    bool (*peer)(rd_wire *w, rd_peer *peer); /* all but `listener`. False: the stream is gone */
    bool (*is_trusted)(rd_wire *w);          /* do today's CAs and lists let it in? NULL: nothing of that kind decides */
    bool (*is_gone)(rd_wire *w);             /* has the peer hung up? NULL: the wire reports that by events */
    void (*free)(rd_wire *w);                /* after the last events, from any thread; or within `opened` */
} rd_wire_ops;

struct rd_wire {
    const rd_wire_ops *ops;
    const rd_wire_events *events;
    void *user;
    rd_origin origin;
    unsigned listener; /* its number */
    bool ipc;          /* framed as on ipc */
    uint64_t no_room;  /* as rd_peer has it */
};

typedef struct rd_listener_ops {
    void (*start)(rd_listener *l); /* peers are accepted from now on */
    void (*pause)(rd_listener *l); /* peers wait for the next daemon, if the socket stays for it. NULL: none does */
    void (*close)(rd_listener *l); /* no more `opened` once it returns; frees it */
    int (*again)(rd_listener *l); /* bind anew at the path, which somebody has removed: 0 or an errno. NULL: there is no path */
} rd_listener_ops;

struct rd_listener {
    const rd_listener_ops *ops;
    const rd_wire_events *events;
    void *arg;
    unsigned number;
};

/* The threads that serve all unix sockets, from the first listener to the end. */
typedef struct rd_unix_threads rd_unix_threads;

/* After a request they linger for the next one, but not while bulk works of `workers` run (NULL: there are no workers). Returns
 * NULL without memory or threads. */
rd_unix_threads *rd_unix_open(const rd_workers *workers);
void rd_unix_close(rd_unix_threads *pool); /* call it when no stream is left; NULL is allowed */

/* Listen to ipc://PATH, by the socket `passed` that is bound there, or by a new one if that is -1. NULL: `why` says why; the
 * passed one is closed. */
rd_listener *rd_unix_listen(rd_unix_threads *pool, const char *path, int passed, const rd_wire_events *events, void *arg,
                            char *why, size_t cap);

/* What listeners on tls+tcp:// show and ask for: PEM files. `ca` may be empty if `any` client is served. NULL: see `why`.
 * Otherwise `why` has a warning of the certificates' dates, or is "". */
typedef struct rd_nng_tls rd_nng_tls;
rd_nng_tls *rd_nng_tls_open(const rp_pem_files *files, bool any, char *why, size_t cap);
void rd_nng_tls_close(rd_nng_tls *tls); /* NULL is fine */

/* Read the files again: new connections get them from now on. Those that are there are asked by `is_trusted`. False: `why` has
 * the reason, and the old ones stay. True: `why` as above, and *changed has the files that differ. */
bool rd_nng_tls_renew(rd_nng_tls *tls, const rp_pem_files *files, unsigned *changed, char *why, size_t cap);
rd_cert_ends rd_nng_tls_ends(const rd_nng_tls *tls);

/* Listen to tcp:// or tls+tcp://. `bound` gets the URL with the port that was taken if the URL asks for port 0. NULL: `why`
 * says why. */
rd_listener *rd_nng_listen(const char *url, rd_nng_tls *tls, const rd_wire_events *events, void *arg, char *bound,
                           size_t bound_cap, char *why, size_t cap);

#endif
