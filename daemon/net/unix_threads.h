/* What the three files that serve unix sockets share. No other file includes this.
 *
 *   wire_unix.c      streams: what is asked of one, its events, its turns
 *   unix_listener.c  listening and accepting
 *   unix_threads.c   the threads that wait for events */
#ifndef RD_UNIX_THREADS_H
#define RD_UNIX_THREADS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/base/lock.h"
#include "daemon/base/workers.h"
#include "daemon/net/wire.h"

enum { RD_UNIX_MOST_THREADS = 8 };

/* An object that epoll reports on. */
typedef struct rd_unix_source {
    void (*ready)(struct rd_unix_source *s, uint32_t events);
} rd_unix_source;

typedef struct rd_unix_wire rd_unix_wire; /* a stream; only wire_unix.c sees its fields */

typedef struct rd_unix_thread {
    rd_unix_source kick; /* first: its eventfd wakes the thread */
    struct rd_unix_threads *pool;
    int epoll, kicked;
    pthread_t thread;
    bool started;
    atomic_bool quit;
    atomic_uint streams;
    uint64_t served_ns;     /* when its last turn ended */
    atomic_bool asleep;     /* it must be woken */
    uint64_t rest_until_ns; /* listeners rest until then; 0: none does */
    pthread_mutex_t lock;   /* of the turns; taken after a stream's */
    rd_unix_wire *turns, **turns_end;
    _Atomic(rd_posted *) posted; /* the newest first */
    atomic_uint n_posted;        /* including those being run */
} rd_unix_thread;

typedef struct rd_unix_listener {
    rd_listener listener; /* first: a listener is its rd_unix_listener */
    rd_unix_source source;
    struct rd_unix_threads *pool;
    int fd;
    rd_file_id own; /* of the socket at `path` */
    bool watched, resting, closed;
    bool passed, paused; /* the socket outlives this daemon; its peers wait for the next one */
    char path[sizeof((struct sockaddr_un){0}.sun_path)];
    struct rd_unix_listener *next;
} rd_unix_listener;

struct rd_unix_threads {
    rd_unix_thread threads[RD_UNIX_MOST_THREADS];
    unsigned n;
    bool linger;
    const rd_workers *workers; /* NULL: none */
    rlim_t descriptors;        /* that this process may have */
    pthread_mutex_t lock;      /* of the listeners: the first thread holds it while it accepts */
    rd_unix_listener *listeners;
};

/* Wake the thread. */
static inline void rd_unix_kick(rd_unix_thread *t) { eventfd_write(t->kicked, 1); } /* fails only after 2^64 kicks */

/* ---- wire_unix.c ---- */

/* This thread, if it is one of them; otherwise NULL. */
extern _Thread_local rd_unix_thread *rd_unix_this_thread;

/* A stream of the peer of `fd`, served by `t`. NULL: no memory; the descriptor stays the caller's. */
rd_wire *rd_unix_wire_new(const rd_unix_listener *l, int fd, const struct ucred *peer, rd_unix_thread *t);

/* Called by the thread `t`: take all turns that were asked for, including those asked for meanwhile. */
void rd_unix_take_turns(rd_unix_thread *t);
void rd_unix_run_posted(rd_unix_thread *t);
bool rd_unix_has_posted(rd_unix_thread *t);

/* ---- unix_listener.c ---- */

/* Called by the first thread: listeners that rest, because accepting failed, accept again. */
void rd_unix_end_rest(rd_unix_threads *pool);

#endif
