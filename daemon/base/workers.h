/* Work that may block, done by threads beside the loop: reading files, looking at and closing descriptors that clients
 * passed, mapping and unmapping arenas. (A file may lie on a file system that its user runs: every call on it may hang.)
 * No user may occupy all threads: a user whose files block delays only itself.
 *
 * One thread is always there. Others start when work would wait, and end after a while without any. A thread that has been in
 * one work for RD_STUCK_MS hangs in the kernel, maybe for ever. Another one takes its place; its user keeps counting it.
 *
 * Bulk works can keep every processor busy. While small requests come, one processor is left to them. Otherwise they would wait
 * for the kernel's scheduler, which lets a thread run for milliseconds. */
#ifndef RD_WORKERS_H
#define RD_WORKERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    RD_MAX_READERS = 64,
    RD_MAX_STUCK = 64, /* stuck threads that were replaced: each costs some 16 KiB of stack and what its work holds */
    RD_STUCK_MS = 2000 /* a disk answers in less, unless it is broken */
};

typedef struct rd_work {
    void (*run)(struct rd_work *w);  /* called in a worker thread; touches only what the work owns */
    void (*done)(struct rd_work *w); /* called in the loop, afterwards */
    unsigned *running;               /* number of its user's works in threads now; under the workers' lock */
    unsigned *busy;                  /* those of them that keep a processor busy; NULL: this one mostly waits */
    bool bulk;                       /* it is one of many that reduce large data */
    struct rd_work *next;
} rd_work;

typedef struct rd_worker {
    struct rd_workers *all;
    pthread_t thread;
    bool started, runs; /* started: to be joined; runs: not ended */
    uint64_t since_ns;  /* start of its current work; 0: it has none */
    bool stuck;         /* in that work, for longer than RD_STUCK_MS */
} rd_worker;

typedef struct rd_workers {
    pthread_mutex_t lock;
    pthread_cond_t work;
    rd_work *queue, **queue_end;   /* to run, oldest first */
    rd_work *over, **over_end;     /* run */
    unsigned queued, idle;         /* works in the queue; threads that wait for one */
    unsigned most, per_user;       /* threads */
    unsigned busy_per_user;        /* that keep processors busy */
    unsigned running, stuck;       /* threads that have not ended, and of these stuck ones, which are replaced */
    atomic_uint bulk;              /* bulk works that run; under the lock, and looked at without */
    unsigned bulk_beside_small;    /* the most of them while small requests come */
    bool held_back;                /* a bulk work waits for small requests to stop */
    atomic_uint_fast64_t small_ns; /* when the last small request came */
    uint64_t rest_ns;              /* how long an idle thread waits before it ends */
    bool closing, closed;
    rd_worker worker[RD_MAX_READERS + RD_MAX_STUCK]; /* the first one stays */
    void (*wake)(void *arg);
    void *wake_arg;
} rd_workers;

/* At most `most` threads, of which a user may keep processors busy with `busiest`. False: not even one could start. Call
 * rd_workers_close in any case. */
bool rd_workers_open(rd_workers *w, unsigned most, unsigned busiest, void (*wake)(void *arg), void *wake_arg);

/* Raise the number of threads. */
void rd_workers_fit(rd_workers *w, unsigned most);

/* Any thread: a small request was answered. */
void rd_workers_small(rd_workers *w);

/* Any thread: do bulk works keep processors busy? */
bool rd_workers_bulk(const rd_workers *w);

/* About once a second, the loop: replace threads that are stuck. */
void rd_workers_watch(rd_workers *w, uint64_t now_ns);

unsigned rd_workers_stuck(rd_workers *w);

/* Threads that a user has now; `running` is the counter of its works. */
unsigned rd_workers_running(rd_workers *w, const unsigned *running);

/* Run what is queued, then end the threads. */
void rd_workers_close(rd_workers *w);

/* Any thread. After rd_workers_close only the loop may call it: the work is then run and finished within the call. */
void rd_workers_add(rd_workers *w, rd_work *x);

/* The loop: call `done` of every work that has been run. */
void rd_workers_finish(rd_workers *w);

#endif
