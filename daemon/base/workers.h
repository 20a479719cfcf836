/* Work that may block, done by threads beside the loop: reading files, looking at and closing descriptors that clients
 * passed, mapping and unmapping arenas. (A file may lie on a file system that its user runs: every call on it may hang.)
 *
 * No user may occupy all threads: a user whose files block delays only itself. A thread that has been in one work for RD_STUCK_MS
 * hangs in the kernel, maybe for ever. Another one takes its place, and the user that it works for keeps counting it. */
#ifndef RD_WORKERS_H
#define RD_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    RD_MAX_READERS = 64,
    RD_MAX_STUCK = 64, /* threads that are replaced: a stack of some 16 KiB in use, and what their works hold */
    RD_STUCK_MS = 2000 /* a disk answers in less, unless it is broken */
};

typedef struct rd_work {
    void (*run)(struct rd_work *w);  /* a thread; touches what the work owns */
    void (*done)(struct rd_work *w); /* the loop, afterwards */
    unsigned *running;               /* its user's works that are in a thread now; under the lock of the workers */
    struct rd_work *next;
} rd_work;

typedef struct rd_worker {
    pthread_t thread;
    struct rd_workers *all;
    uint64_t since_ns; /* of the work that it runs; 0: none */
    bool stuck;        /* replaced, if another could be had */
    bool started, ended;
} rd_worker;

typedef struct rd_workers {
    pthread_mutex_t lock;
    pthread_cond_t work;
    rd_work *queue, **queue_end; /* to run, oldest first */
    rd_work *over, **over_end;   /* run */
    unsigned threads, per_user;
    unsigned running; /* threads that are not stuck */
    unsigned stuck;
    bool closing, closed;
    rd_worker worker[RD_MAX_READERS + RD_MAX_STUCK];
    void (*wake)(void *arg);
    void *wake_arg;
} rd_workers;

/* False: no threads. rd_workers_close in any case. */
bool rd_workers_open(rd_workers *w, unsigned threads, void (*wake)(void *arg), void *wake_arg);

/* About once a second: replace threads that are stuck. The loop. */
void rd_workers_watch(rd_workers *w, uint64_t now_ns);

unsigned rd_workers_stuck(rd_workers *w);

/* Run what is queued, then end the threads. */
void rd_workers_close(rd_workers *w);

/* Any thread. After rd_workers_close, the loop: it is run and done on the spot. */
void rd_workers_add(rd_workers *w, rd_work *x);

/* The loop: call `done` of what has been run. */
void rd_workers_finish(rd_workers *w);

#endif
