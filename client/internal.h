/* What the files of libreduce share.
 *
 *   connection.c  messages to the daemon and back
 *   wire_unix.c their bytes, over a socket of our own        wire_nng.c   or over nng's
 *   call.c    calls: one request until it is answered, with hello, repeats and queueing
 *   client.c     open, close, ping, query          discover.c, autostart.c  which daemon
 *   job.c        reduce_run and reduce_submit      tiling.c               how they are cut into messages
 *   datapath.c       which way large data travel       fdpass.c               descriptors to the daemon and back
 *   stream.c     data in pieces                    simple.c             reduce_sum_f32 ...
 *   resident.c   data that stay with the daemon    device.c             data on its GPU
 *   error.c      error texts                       names.c              tables
 *
 * Locking: one mutex per client guards everything reachable from it. Code takes it with rc_enter and leaves with rc_leave,
 * which, with the mutex released, first sends what was queued and runs the callbacks of finished jobs. So no message is
 * copied, and no code of the user runs, under the mutex; the transport's functions may be called under it, for it never
 * calls us from within them. */
#ifndef RC_INTERNAL_H
#define RC_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/connection.h"
#include "client/datapath.h"
#include "client/fdpass.h"
#include "client/reduce.h"
#include "proto/codec.h"

/* ---- error.c: what went wrong, in this thread ---- */

/* Fill a fault with a code of the library (or -rp_err) and return the code. */
int rc_fail(rp_fault *f, int err, const char *field, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The daemon counts rows within its message, also in words ("row 3: ..."): words go, the index stays. */
void rc_drop_row(rp_fault *f);

/* Make `f` this thread's last fault; returns its code as a negative reduce_err. */
int rc_report(const rp_fault *f);

/* rc_fail and rc_report in one. */
int rc_error(int err, const char *field, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- discover.c and autostart.c: which daemon ---- */

enum { RC_MAX_URL = 256, RC_MAX_CANDIDATES = 2 };

typedef struct rc_urls {
    bool own; /* the first one is where this user may have a daemon started */
    int n;
    char url[RC_MAX_CANDIDATES][RC_MAX_URL];
} rc_urls;

/* Where a daemon may listen, in the order of trying. */
int rc_discover(rc_urls *u, const char *given, rp_fault *f);

typedef struct rc_child {
    int pidfd;            /* readable once the daemon is gone; -1 if the kernel has no pidfds */
    char log[RC_MAX_URL]; /* where it writes, "" if nowhere, */
    int no_log;           /* because of this errno */
} rc_child;

/* Start a daemon of this user that listens on `url`, detached from this process. Close child->pidfd. */
int rc_start_daemon(const char *url, const reduce_open_opts *o, rc_child *child, rp_fault *f);
bool rc_child_gone(const rc_child *child);

/* ---- call.c: calls ---- */

enum {
    RC_MAX_HEAD = RP_SPEC_SIZE + RP_MAX_NAME, /* fixed part of a body; HELLO's name too */
    RC_AUTOSTART_MS = 10000                   /* a daemon being started gets this long to listen */
};

typedef struct rc_call rc_call;

/* The answer of a call. err 0: `body` (valid during the call back) is the reply's; otherwise call->fault tells. Runs
 * with the client's mutex held, on any thread, exactly once for each rc_call_start. */
typedef void (*rc_call_done)(rc_call *call, int err, const uint8_t *body, size_t len);

struct rc_call {
    /* set by the owner, who keeps it and the data untouched until `done` */
    uint8_t type; /* rp_msg */
    bool bound;   /* belongs to a stream: lost with `session`, never repeated in another one */
    uint8_t head_len;
    uint8_t head[RC_MAX_HEAD];
    const void *data; /* data_len bytes, or, with `fill`, what that writes them from */
    size_t data_len;
    rc_fill fill;
    uint64_t session;     /* bound calls: whose stream; else the session that carried it last */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC, 0 = none */
    rc_call_done done;
    void *owner;
    rp_fault fault;
    /* the session's */
    rc_call *next;
    struct rc_place *place; /* while it has one */
    uint64_t id;
    uint64_t give_up_ns;
    uint8_t losses, logins, waits;
    bool cancelled;
};

/* A slot and what the session keeps with it. */
typedef struct rc_place {
    reduce_client *client;
    rc_slot *slot;
    rc_call *call;         /* NULL while busy: the call was cancelled */
    struct rc_place *next; /* in the list of free places, or of places to send */
    size_t head_len;
    uint8_t head[RP_HEADER_SIZE + RC_MAX_HEAD];
    uint32_t send_ms, reply_ms;
    uint32_t pause_ms; /* > 0: pause instead of sending */
    bool posting;      /* in the outbox, or its data are being copied */
    uint64_t posts;    /* how often it was put there */
} rc_place;

/* Resident data of the daemon. */
typedef struct rc_named {
    char name[RP_MAX_NAME + 1]; /* "": none */
    uint64_t handle, bytes;
} rc_named;

struct reduce_client {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job settled, a place came to rest */
    pid_t pid;              /* who may use it */
    unsigned refs;          /* the client itself, and each job and stream */
    bool closing;
    reduce_open_opts opts; /* its strings are not kept */
    char name[RP_MAX_NAME + 1];
    char url[RC_MAX_URL];
    bool autostarted;
    rc_connection *link; /* NULL until connected, and after close */
    bool up;
    uint32_t reconnects;
    bool helping;    /* `helper` waits for the one exchange that is under way, and reads its reply (rc_connection_read_here) */
    bool unreadable; /* that was not possible: no other attempt before something changes */
    pthread_t helper;

    uint64_t session; /* 0: hello needed */
    rp_welcome welcome;
    char server[RP_MAX_NAME + 1];
    bool greeting; /* a HELLO is under way */
    rc_call hello;
    rc_place hello_place;
    uint64_t last_id;

    rc_place places[RP_MAX_INFLIGHT];
    unsigned n_places; /* made so far; made on demand */
    unsigned busy;     /* of them, and hello_place, in use */
    rc_place *idle;    /* free ones */
    rc_place *outbox, *outbox_end;
    rc_call *queue, *queue_end; /* calls without a place */
    reduce_job *settling;       /* finished jobs whose callback is to run */
    unsigned jobs;              /* not settled yet */

    rc_fdpass side;
    rc_stage stage;
    rc_arena *arenas;        /* of reduce_alloc */
    rc_named named;          /* the resident data looked up last */
    rc_device *devices;      /* of reduce_device, until reduce_device_close */
    uint64_t device_imports; /* so far */
};

void rc_enter(reduce_client *c);
void rc_leave(reduce_client *c); /* see the top */
void rc_unref(reduce_client *c); /* mutex not held */

uint64_t rc_deadline_after(uint32_t ms); /* 0 for 0 */
void rc_cond_init(pthread_cond_t *cond); /* on CLOCK_MONOTONIC */
/* Wait with the mutex held until woken, perhaps for nothing, or until_ns (0: no end); false once that has passed. */
bool rc_cond_wait(pthread_cond_t *cond, reduce_client *c, uint64_t until_ns);
/* The same for a thread that waits for the end of an exchange. */
bool rc_reply_wait(pthread_cond_t *cond, reduce_client *c, uint64_t until_ns);
/* Wake who waits so; with the mutex held. */
void rc_wake(pthread_cond_t *cond, reduce_client *c);

/* All with the mutex held. */
void rc_call_start(reduce_client *c, rc_call *call);
void rc_call_cancel(reduce_client *c, rc_call *call); /* it ends at once or soon, with REDUCE_E_CANCELLED */
void rc_session_init(reduce_client *c);
void rc_say_hello(reduce_client *c, uint32_t within_ms); /* ends with greeting = false; session 0: hello.fault tells */
void rc_slot_ended(void *place, rc_io end, const uint8_t *reply, size_t len);
void rc_connection_changed(void *client, bool up);

/* A call that the thread waits for. Mutex not held. The reply's body, malloc'ed, goes to *body (may be NULL). */
int rc_call_wait(reduce_client *c, rc_call *call, uint8_t **body, size_t *len);
/* The same with the mutex held; it is released while waiting. */
int rc_call_wait_locked(reduce_client *c, rc_call *call, uint8_t **body, size_t *len);

/* Did a bound call, which was not cancelled here, fail because what was sent before is gone, with the session, the daemon or
 * its memory of it? */
bool rc_session_lost(int err);

/* Is `c` usable here? 0, or the error, reported. */
int rc_check(const reduce_client *c);

/* ---- job.c ---- */

/* The data of a job: memory; with fd >= 0 bytes of a file; with `device` bytes of an allocation there; with `kept` resident
 * data of this handle. */
typedef struct rc_input {
    const void *data;
    int fd;
    uint64_t offset; /* of the first byte, but in memory */
    const void *device;
    uint64_t kept;
} rc_input;

/* What STORE gave, in the session that it belongs to. */
typedef struct rc_target {
    uint64_t handle, session;
} rc_target;

/* Can `bytes` bytes of in->fd be read? 0, or the error, reported. */
int rc_check_file(const rc_input *in, uint64_t bytes);

/* Wait until the bytes are written there. 0, or the error, reported. */
int rc_job_write(reduce_client *c, const rc_target *to, const rc_input *in, uint64_t bytes, int path, uint64_t deadline_ns);

/* reduce_run on bytes of any input. */
int rc_job_run(reduce_client *c, const reduce_spec *spec, const rc_input *in, size_t bytes, void *out, size_t room,
               reduce_result *result);
void rc_job_settle(reduce_client *c); /* run the callback of the first in `settling`; the mutex is released meanwhile */

/* Check a spec given by the user (rows apart, which the library may split); *s is ready for the wire, with rows and
 * row_len left to the caller. */
int rc_spec(const reduce_spec *given, rp_spec *s, rp_fault *f);

/* ---- device.c ---- */

/* Have the daemon open the allocation of b->device, unless it has. 0, or the error, in `f`. */
int rc_device_open(reduce_client *c, rc_datapath *b, rp_fault *f);
void rc_devices_fini(reduce_client *c);

#endif
