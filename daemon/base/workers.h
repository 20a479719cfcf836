/* Chores: what may block, done by threads beside the loop: reading files, looking at and closing descriptors that clients
 * passed, mapping and unmapping arenas. (A file may lie on a file system that its user runs: every call on it may hang.)
 * No user has all the threads: who hangs them hangs himself. */
#ifndef RD_WORKERS_H
#define RD_WORKERS_H

#include <pthread.h>

#include "daemon/state/users.h"

enum { RD_MAX_READERS = 64 };

struct rd_server;

typedef struct rd_work {
    void (*run)(struct rd_work *c);                            /* a thread; touches what the chore owns */
    void (*done)(struct rd_server *server, struct rd_work *c); /* the loop, afterwards */
    rd_user *user;                                             /* for whom; held by the chore's owner */
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
bool rd_workers_open(rd_workers *c, unsigned threads, void (*wake)(void *arg), void *wake_arg);

/* Run what is queued, then end the threads. */
void rd_workers_close(rd_workers *c);

/* Any thread. After rd_workers_close, the loop: a chore is run and done on the spot. */
void rd_workers_add(struct rd_server *s, rd_work *chore);

/* The loop: the next chore that has been run, or NULL. */
rd_work *rd_workers_take(rd_workers *c);

#endif
