/* What the files of libreduce share: the client.
 *
 *   connection.c messages to the daemon and back
 *   wire_unix.c  their bytes, over a socket of our own     wire_nng.c   or over nng's
 *   call.c       one request until it is answered          enter.c      the mutex
 *   wait.c       calls that a thread waits for
 *   hello.c      how a session begins                      client.c     the client itself
 *   open.c       open and close                            discover.c, autostart.c  which daemon
 *   query.c      ping, info, query                         spec.c       what to reduce, checked
 *   message.c    what the ranks of a reduction exchange    gpus.c       the daemon's GPUs
 *   job.c        a reduction of any size, as it goes       tiling.c     how it is cut into messages
 *   submit.c     reduce_run, reduce_submit and kin         simple.c     reduce_simple
 *   state.c      partial states without a daemon           state_words.c  states as words of plain sums
 *   collective.c one reduction over many processes         program.c    programs beside this one
 *   packed.c     states as they travel in messages         block.c      blocks of arrays with several dimensions
 *   ended.c      jobs for event loops                      local.c      what is reduced here
 *   ways.c       which way takes the least time            alone.c      reductions without the daemon
 *   ask.c        what a call asks for
 *   datapath.c   which way large data travel               fdpass.c     descriptors to the daemon and back
 *   stream.c     data in pieces                            resident.c   data that stay with the daemon
 *   device.c     data on its GPU                           sized.c      structs of other versions
 *   error.c      error texts                               names.c      tables
 *   python_signals.c  Ctrl-C in Python
 *   clock.h      the clock                                 under_way.h  calls of a job at a time
 *
 * Locking: one mutex per client guards everything reachable from it. Code takes it with rc_enter and leaves with rc_leave,
 * which, with the mutex released, first sends what was queued and runs the callbacks of finished jobs. So no message is
 * copied, and no code of the user runs, under the mutex; the connection's functions may be called under it, for it never
 * calls back from within them. */
#ifndef RC_CLIENT_H
#define RC_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/call.h"
#include "client/connection.h"
#include "client/datapath.h"
#include "client/discover.h"
#include "client/fdpass.h"
#include "client/reduce.h"
#include "client/ways.h"
#include "proto/codec.h"

/* Resident data of the daemon. */
typedef struct rc_named {
    char name[RP_MAX_NAME + 1]; /* "": none */
    uint64_t handle, bytes;
} rc_named;

/* What the daemon of a session computes with. */
typedef struct rc_engine {
    uint64_t session; /* 0: not known */
    bool cpu;         /* and no GPU */
    bool opening;     /* GPUs are opening; the CPU answers meanwhile */
    bool small_here;  /* its administrator leaves only small arrays to clients */
    int threads;
    uint64_t strided;             /* limits.max_strided; 0: an older daemon */
    double device_rate, cpu_rate; /* of rc_work */
} rc_engine;

/* The calls that reduce_collective makes with a client. Without one a program links none of them, and nothing of the wire. */
typedef struct rc_doors {
    int (*run)(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
               reduce_result *result);
    int (*file)(reduce_client *c, const reduce_spec *spec, int fd, uint64_t offset, uint64_t bytes, void *out, size_t room,
                reduce_result *result);
    int (*device)(reduce_client *c, const reduce_spec *spec, const void *handle, uint64_t offset, uint64_t bytes, void *out,
                  size_t room, reduce_result *result);
} rc_doors;

struct reduce_client {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job ended, or a place became free */
    pid_t pid;              /* of the process that may use it */
    unsigned refs;          /* the client itself, and each job and stream */
    bool closing;
    reduce_open_opts opts;   /* its strings are copies */
    char *given;             /* the URL, or NULL */
    bool local;              /* it may reduce arrays itself (local.h) */
    bool distant;            /* the daemon is on another machine, or reached like one there */
    pthread_mutex_t opening; /* held while connecting; not together with `lock` */
    atomic_bool connected;   /* once; REDUCE_LAZY waits with it until it is needed */
    uint64_t sought_ns;      /* when it was sought last; guarded by `opening` */
    /* Connect a lazy client, once. `needed`: start a daemon if it may; 0, or the error, reported. Else only if one listens, and
     * now and then if none did before; 0. */
    int (*connect)(reduce_client *c, bool needed);
    const rc_doors *doors;
    rc_engine engine; /* the daemon's engine, as last asked */
    rc_ways ways;     /* what requests took, here and there */
    char name[RP_MAX_NAME + 1];
    char url[RC_MAX_URL];
    bool autostarted;
    bool may_start;            /* it may start a daemon at `url` if none answers */
    int started;               /* pidfd of the daemon started last, while a hello waits for it; -1: none */
    rc_connection *connection; /* NULL until connected, and after close */
    bool up;
    uint32_t reconnects;
    bool helping;    /* `helper` waits for the one exchange that is under way, and reads its reply (rc_connection_read_here) */
    bool unreadable; /* reading here was not possible: no other attempt before something changes */
    pthread_t helper;

    uint64_t session; /* 0: hello needed */
    rp_welcome welcome;
    atomic_int version; /* welcome.version */
    char server[RP_MAX_NAME + 1];
    bool greeting; /* a HELLO is under way */
    rc_call hello;
    rc_place hello_place;
    uint64_t last_id;

    rc_place places[RP_MAX_INFLIGHT];
    unsigned n_places;              /* made so far; made on demand */
    unsigned busy;                  /* of them, and hello_place, in use */
    rc_place *idle;                 /* free ones */
    rc_call *queue, *queue_end;     /* calls without a place */
    rc_ending *outbox, *outbox_end; /* to run before the mutex is left: messages, oldest first, */
    rc_ending *endings;             /* then the rest */
    unsigned jobs;                  /* not settled */
    int ended_fd;                   /* of reduce_ended_fd; -1: not asked for */
    reduce_job *ended, *ended_end;  /* that reduce_ended_next has not given */

    rc_fdpass fdpass;
    rc_stage stage;
    rc_arena *arenas;        /* of reduce_alloc */
    rc_named named;          /* the resident data looked up last */
    rc_named named_keys;     /* the same of their keys */
    rc_device *devices;      /* of reduce_device, until reduce_device_close */
    uint64_t device_imports; /* so far */

    _Atomic uint64_t requests_here, bytes_here; /* reduced in this process since the last claim (local.h) */
};

/* ---- client.c ---- */

/* NULL: no memory. */
reduce_client *rc_client_new(const char *url, const reduce_open_opts *o);
void rc_unref(reduce_client *c); /* mutex not held */

/* Is `c` of this process? 0, or the error, reported. */
int rc_check_owner(const reduce_client *c);

/* The same, and connected: the first call of a lazy client connects it. */
int rc_check(const reduce_client *c);

/* The version of the protocol that the daemon speaks, also without the mutex. */
static inline int rc_version(const reduce_client *c) { return atomic_load(&c->version); }

/* ---- hello.c ---- */

/* Prepare the call for the client's name and priority. */
void rc_hello_init(reduce_client *c);

#endif
