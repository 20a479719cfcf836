/* Work that may block, done by threads beside the loop: reading files, looking at and closing descriptors that clients
 * passed, mapping and unmapping arenas. (A file may lie on a file system that its user runs: every call on it may hang.)
 * No user may occupy all threads: a user whose files block delays only itself. */
#ifndef RD_WORKERS_H
#define RD_WORKERS_H

#include <pthread.h>
#include <stdbool.h>

enum { RD_MAX_READERS = 64 };

typedef struct rd_work {
    void (*run)(struct rd_work *w);  /* a thread; touches what the work owns */
    void (*done)(struct rd_work *w); /* the loop, afterwards */
    unsigned *running;               /* its user's works that are in a thread now; under the lock of the workers */
    struct rd_work *next;
} rd_work;

typedef struct rd_workers {
    pthread_mutex_t lock;
    pthread_cond_t work;
    rd_work *queue, **queue_end; /* to run, oldest first */
    rd_work *over, **over_end;   /* run */
    unsigned threads, per_user;
    bool closing, closed;
    pthread_t thread[RD_MAX_READERS];
    void (*wake)(void *arg);
    void *wake_arg;
} rd_workers;

/* False: no threads. rd_workers_close in any case. */
bool rd_workers_open(rd_workers *w, unsigned threads, void (*wake)(void *arg), void *wake_arg);

/* Run what is queued, then end the threads. */
void rd_workers_close(rd_workers *w);

/* Any thread. After rd_workers_close, the loop: it is run and done on the spot. */
void rd_workers_add(rd_workers *w, rd_work *x);

/* The loop: call `done` of what has been run. */
void rd_workers_finish(rd_workers *w);

#endif
