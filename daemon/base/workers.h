/* Chores: what may block, done by threads beside the loop: reading files, looking at and closing descriptors that clients
 * passed, mapping and unmapping arenas. (A file may lie on a file system that its user runs: every call on it may hang.)
 * No user has all the threads: who hangs them hangs himself. */
#ifndef RD_WORKERS_H
#define RD_WORKERS_H

#include <pthread.h>

#include "daemon/state/users.h"

enum { RD_MAX_READERS = 64 };

struct rd_server;

typedef struct rd_chore {
    void (*run)(struct rd_chore *c);                            /* a thread; touches what the chore owns */
    void (*done)(struct rd_server *server, struct rd_chore *c); /* the loop, afterwards */
    rd_user *user;                                              /* for whom; held by the chore's owner */
    struct rd_chore *next;
} rd_chore;

typedef struct rd_chores {
    pthread_mutex_t lock;
    pthread_cond_t work;
    rd_chore *queue, **queue_end; /* to run, oldest first */
    rd_chore *over, **over_end;   /* run */
    unsigned threads, per_user;
    bool closing, closed;
    pthread_t thread[RD_MAX_READERS];
    void (*wake)(void *arg);
    void *wake_arg;
} rd_chores;

/* False: no threads. rd_chores_close in any case. */
bool rd_chores_open(rd_chores *c, unsigned threads, void (*wake)(void *arg), void *wake_arg);

/* Run what is queued, then end the threads. */
void rd_chores_close(rd_chores *c);

/* Any thread. After rd_chores_close, the loop: a chore is run and done on the spot. */
void rd_chores_add(struct rd_server *s, rd_chore *chore);

/* The loop: the next chore that has been run, or NULL. */
rd_chore *rd_chores_take(rd_chores *c);

#endif
